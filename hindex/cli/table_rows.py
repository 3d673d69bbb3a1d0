"""Write rows as aligned columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from threading import Lock, Timer
from typing import Protocol, TextIO

from hindex.api.value_formatting import text_width

#: The first rows set the column widths. They are buffered up to this many rows or characters, or this many seconds
#: after the first row.
HEAD_ROWS = 1000
HEAD_CHARACTERS = 1 << 20
HEAD_SECONDS = 0.5

#: The greatest width of a column: a long value does not widen every row.
MAX_WIDTH = 200


class Alarm(Protocol):
    """Calls a function once on another thread, unless it is cancelled before."""

    def start(self) -> None: ...

    def cancel(self) -> None: ...


class TableRows:
    """A writer of the header and of rows as they arrive; after an error too, it has written all that arrived.

    Args:
        names: the names of the columns.
        right: True for each column that is aligned right.
        alarm: returns an alarm for a number of seconds and a function.
        max_width: a wider table is written with one column per line; None for any width.
    """

    def __init__(
        self,
        stream: TextIO,
        names: Sequence[str],
        right: Sequence[bool],
        alarm: Callable[[float, Callable[[], None]], Alarm] = Timer,
        max_width: int | None = None,
    ) -> None:
        self._stream = stream
        self._names = names
        self._right = right
        self._max_width = max_width
        self._is_expanded = False
        self._written_rows = 0
        self._alarm = alarm(HEAD_SECONDS, self._flush_after_delay)
        #: Guards the attributes below, which both threads use.
        self._lock = Lock()
        self._head: list[list[list[str]]] | None = []
        self._failure: Exception | None = None
        self._rows = self._characters = 0
        self._widths: list[int] = []

    def write(self, slices: Iterable[list[list[str]]]) -> int:
        """Write slices of rows: printable strings, column by column.

        Returns:
            the number of rows.
        """
        try:
            count = sum(map(self._add, slices))
            with self._lock:
                self._write_head()
        except BaseException:
            # rows before the error are still written; errors of that do not replace it
            with suppress(OSError, UnicodeError):
                self._flush_head()
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
                self._write_head()
            elif len(self._head) == 1:
                self._alarm.start()
        return rows

    def _flush_head(self) -> None:
        # the other thread may hold the lock while it waits for a blocked reader
        if self._lock.acquire(timeout=HEAD_SECONDS):
            try:
                if self._head:
                    self._write_head()
                    self._stream.flush()
            finally:
                self._lock.release()

    def _flush_after_delay(self) -> None:
        """Write the buffered rows, since the next ones are slow."""
        with self._lock:
            try:
                self._write_head()
                self._stream.flush()
            except Exception as error:  # noqa: BLE001 raised again in the thread of the rows
                self._failure = error

    def _write_head(self) -> None:
        """Set the widths and write the buffered rows, once."""
        if self._failure is not None:
            raise self._failure
        if self._head is None:
            return
        head, self._head = self._head, None
        self._widths = [
            min(MAX_WIDTH, max(map(text_width, chain((name,), *(cells[at] for cells in head)))))
            for at, name in enumerate(self._names)
        ]
        width = sum(self._widths) + 3 * (len(self._widths) - 1)
        self._is_expanded = self._max_width is not None and width > self._max_width
        if not self._is_expanded:
            self._stream.write(_line(self._names, self._widths, [False] * len(self._names)))
            self._stream.write("─┼─".join("─" * width for width in self._widths) + "\n")
        for cells in head:
            self._write(cells)

    def _write(self, cells: list[list[str]]) -> None:
        for row in zip(*cells, strict=True):
            if self._is_expanded:
                self._write_expanded(row)
                continue
            self._stream.write(_line(row, self._widths, self._right))

    def _write_expanded(self, row: Sequence[str]) -> None:
        """Write a row as psql does, one column per line."""
        self._written_rows += 1
        width = max(map(text_width, self._names))
        self._stream.write(f"─[ row {self._written_rows} ]─\n")
        for name, cell in zip(self._names, row, strict=True):
            self._stream.write(_line((name, cell), (width, 0), (False, False)))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - text_width(cell))
        padded.append(space + cell if to_right else cell + space)
    return " │ ".join(padded).rstrip() + "\n"
