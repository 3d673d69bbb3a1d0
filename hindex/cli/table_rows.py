"""Rows as aligned columns of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from threading import Lock, Timer
from typing import Protocol, TextIO

from hindex.api.value_formatting import text_width

#: A table's column widths are those of its first rows, which are held back until they are so many, have so many
#: characters, or this many seconds have passed since the first of them came.
HEAD_ROWS = 1000
HEAD_CHARACTERS = 1 << 20
HEAD_SECONDS = 0.5

#: No column is wider: one long value does not blow up every row.
MOST_WIDTH = 200


class Alarm(Protocol):
    """Calls something once, on another thread, unless it is cancelled before."""

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class TableRows:
    """Writes the header and rows as they come; left, by an error too, it has written all that came.

    :param names: of the columns.
    :param right: whether a column's values stand at its right edge.
    :param alarm: makes what calls a function after some seconds.
    """

    def __init__(
        self,
        stream: TextIO,
        names: Sequence[str],
        right: Sequence[bool],
        alarm: Callable[[float, Callable[[], None]], Alarm] = Timer,
    ) -> None:
        self._stream = stream
        self._names = names
        self._right = right
        self._alarm = alarm(HEAD_SECONDS, self._be_late)
        #: What follows is of both threads.
        self._lock = Lock()
        self._head: list[list[list[str]]] | None = []
        self._failure: Exception | None = None
        self._rows = self._characters = 0
        self._widths: list[int] = []

    def write(self, slices: Iterable[list[list[str]]]) -> int:
        """Write rows, given as slices of printable texts, column by column.

        :returns: how many there were.
        """
        try:
            count = sum(map(self._add, slices))
            with self._lock:
                self._show_head()
        except BaseException:
            # what was found is not lost with what could not be; the error that ends it all is the one to tell
            with suppress(OSError, UnicodeError):
                self._show_held()
            raise
        finally:
            self._alarm.cancel()
        return count

    def _add(self, cells: list[list[str]]) -> int:
        rows = len(cells[0])
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._head is None:
                self._write(cells)
                return rows
            self._head.append(cells)
            self._rows += rows
            self._characters += sum(len(cell) for column in cells for cell in column)
            if self._rows >= HEAD_ROWS or self._characters >= HEAD_CHARACTERS:
                self._show_head()
            elif len(self._head) == 1:
                self._alarm.start()
        return rows

    def _show_held(self) -> None:
        # where the other thread is writing it, it may wait for a reader that takes nothing
        if self._lock.acquire(timeout=HEAD_SECONDS):
            try:
                if self._head:
                    self._show_head()
                    self._stream.flush()
            finally:
                self._lock.release()

    def _be_late(self) -> None:
        """Show what there is: the next rows take their time."""
        with self._lock:
            try:
                self._show_head()
                self._stream.flush()
            except Exception as error:  # noqa: BLE001 it is raised where the rows come from
                self._failure = error

    def _show_head(self) -> None:
        """Write what was held back, which decides on the widths; nothing where that was done."""
        if self._failure is not None:
            raise self._failure
        if self._head is None:
            return
        head, self._head = self._head, None
        self._widths = [
            min(MOST_WIDTH, max(map(text_width, chain((name,), *(cells[at] for cells in head)))))
            for at, name in enumerate(self._names)
        ]
        self._stream.write(_line(self._names, self._widths, [False] * len(self._names)))
        self._stream.write("─┼─".join("─" * width for width in self._widths) + "\n")
        for cells in head:
            self._write(cells)

    def _write(self, cells: list[list[str]]) -> None:
        for row in zip(*cells, strict=True):
            self._stream.write(_line(row, self._widths, self._right))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - text_width(cell))
        padded.append(space + cell if to_right else cell + space)
    return " │ ".join(padded).rstrip() + "\n"
