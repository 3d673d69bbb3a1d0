"""Standard streams that are closed, full, or without a reader."""

from __future__ import annotations

import codecs
import os
import select
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


def open_missing_streams() -> None:
    """Open the null device for standard streams that are closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # takes the stream's file descriptor if that is the lowest free one
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def flush_or_drop(stream: TextIO) -> None:
    """Flush a stream; if that fails, redirect it to the null device, so that the exit does not fail."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):  # the stream has no file descriptor
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


class NewFile:
    """A text file that takes its name, and replaces another file of that name, only when it is complete.

    It is written beside that name. What is not a regular file, such as a pipe, is written directly.

    Raises:
        OSError: if it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.realpath(path))
        self._is_direct = self._path.exists() and not self._path.is_file()
        self._unfinished = self._path.with_name(f".{self._path.name[:200]}.{os.getpid()}.unfinished")
        target = self._path if self._is_direct else self._unfinished
        self.stream: TextIO = target.open("w", encoding="utf-8", newline="")

    def save(self) -> None:
        """Close the file and give it its name."""
        self.stream.close()
        if not self._is_direct:
            if self._path.exists():
                shutil.copymode(self._path, self._unfinished)
            self._unfinished.replace(self._path)

    def discard(self) -> None:
        """Close and remove the file."""
        with suppress(OSError):  # a full disk
            self.stream.close()
        if not self._is_direct:
            self._unfinished.unlink(missing_ok=True)


@contextmanager
def suppress_stderr_errors() -> Iterator[None]:
    """Suppress errors of writing to standard error."""
    with suppress(OSError):
        yield
    flush_or_drop(sys.stderr)


def write_stderr(text: str) -> None:
    """Write a line to standard error."""
    with suppress_stderr_errors():
        print(text, file=sys.stderr)


def has_no_reader(stream: TextIO) -> bool:
    """Return True if a stream is a pipe or socket whose reader has closed it."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except OSError:
        return False


def cannot_encode(stream: TextIO, error: UnicodeEncodeError) -> bool:
    """Return True if an error says that the encoding of a stream cannot_encode a character."""
    name = codecs.lookup(stream.encoding).name
    # many single-byte encodings are named charmap in errors
    if name == "utf-8" or (error.encoding != "charmap" and codecs.lookup(error.encoding).name != name):
        return False
    try:
        error.object[error.start : error.end].encode(name)
    except UnicodeEncodeError:
        return True
    return False
