"""Standard streams that are closed, full, or without a reader."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
