"""Standard streams that are closed, full, or have lost their reader."""

from __future__ import annotations

import codecs
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


def open_missing_streams() -> None:
    """Have streams that were closed before the start read and write nothing, as those of the null device do."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # takes the stream's own number where that is the lowest one free: no other file gets it then
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def flush_or_drop(stream: TextIO) -> None:
    """Write what is still unwritten; where the stream takes no more, send it nowhere, so that leaving does not fail."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):  # no file is behind it
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)


@contextmanager
def telling() -> Iterator[None]:
    """Writing to standard error: that it takes no more changes nothing else."""
    with suppress(OSError):
        yield
    flush_or_drop(sys.stderr)


def tell(text: str) -> None:
    """Write a line to standard error."""
    with telling():
        print(text, file=sys.stderr)


def has_no_reader(stream: TextIO) -> bool:
    """Return True if a stream is a pipe or socket whose reader has closed it."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), select.POLLOUT)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except OSError:
        return False


def lacks(stream: TextIO, error: UnicodeEncodeError) -> bool:
    """Return True if an error says that the encoding of a stream lacks a character."""
    name = codecs.lookup(stream.encoding).name
    # many encodings of one byte a character call themselves a charmap
    if name == "utf-8" or (error.encoding != "charmap" and codecs.lookup(error.encoding).name != name):
        return False
    try:
        error.object[error.start : error.end].encode(name)
    except UnicodeEncodeError:
        return True
    return False
