"""Results of statements, written for people or programs. Rows stream: at most a slice is held as text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, TextIO

import pyarrow as pa

from hindex.cli.text import is_number, json_texts, texts

#: Rows turned into text at a time.
SLICE_ROWS = 2000

#: A table's column widths are those of its first rows, which are held back until they are so many, have so many
#: characters, or more rows come only this many seconds after them.
HEAD_ROWS = 1000
HEAD_CHARACTERS = 1 << 20
HEAD_SECONDS = 0.5


class Output(Protocol):
    """One way to write results."""

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows as they come.

        :returns: how many there were.
        """
        ...

    def explanation(self, text: str, document: object) -> None:
        """Write an explanation, given as text and as a JSON document."""
        ...

    def outcome(self, text: str, rows: pa.Table) -> None:
        """Write what a statement did, given as a sentence and as rows."""
        ...


def output_for(name: str, stream: TextIO) -> Output:
    """The output that ``--output`` names."""
    outputs: dict[str, type[TableOutput | JsonOutput | CsvOutput]] = {
        "table": TableOutput,
        "json": JsonOutput,
        "csv": CsvOutput,
    }
    return outputs[name](stream)


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, SLICE_ROWS):
            yield batch.slice(start, SLICE_ROWS)


class TableOutput:
    """Aligned columns. Values wider than those of the first rows stand out of line; nothing is cut."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        count = self.body(schema, batches)
        self._stream.write(f"({count} {'row' if count == 1 else 'rows'})\n")
        return count

    def body(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """The header and the rows, without the line that counts them."""
        if not schema.names:  # a table without data files has no columns
            return sum(batch.num_rows for batch in batches)
        slices = map(_cells, _slices(batches))
        head = self._head(slices)
        names = [_printable(name) for name in schema.names]
        widths = [
            max(map(_width, chain((name,), *(cells[at] for cells in head)))) for at, name in enumerate(names)
        ]
        right = [is_number(kind) for kind in schema.types]
        self._stream.write(_line(names, widths, [False] * len(names)))
        self._stream.write("─┼─".join("─" * width for width in widths) + "\n")
        count = 0
        for cells in chain(head, slices):
            for row in zip(*cells, strict=True):
                self._stream.write(_line(row, widths, right))
            count += len(cells[0])
        return count

    def _head(self, slices: Iterator[list[list[str]]]) -> list[list[list[str]]]:
        """The slices that decide on the widths."""
        head: list[list[list[str]]] = []
        rows = characters = 0
        first_came = 0.0
        for cells in slices:
            head.append(cells)
            rows += len(cells[0])
            characters += sum(len(cell) for column in cells for cell in column)
            now = self._clock()
            if len(head) == 1:
                first_came = now
            if rows >= HEAD_ROWS or characters >= HEAD_CHARACTERS or now - first_came >= HEAD_SECONDS:
                break
        return head

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(text.rstrip("\n") + "\n")

    def outcome(self, text: str, rows: pa.Table) -> None:
        self._stream.write(text + "\n")


def _cells(batch: pa.RecordBatch) -> list[list[str]]:
    return [
        ["NULL" if text is None else _printable(text) for text in texts(column)] for column in batch.columns
    ]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_right in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if to_right else cell + space)
    return " │ ".join(padded).rstrip() + "\n"


def _printable(text: str) -> str:
    """The text with everything that could move a terminal's cursor written as an escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _width(text: str) -> int:
    """Terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


class JsonOutput:
    """One JSON document a statement: an array of objects for rows."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        names = [json.dumps(name) for name in schema.names]
        count = 0
        self._stream.write("[")
        for batch in _slices(batches):
            for row in zip(*map(json_texts, batch.columns), strict=True):
                pairs = ", ".join(f"{name}: {value}" for name, value in zip(names, row, strict=True))
                self._stream.write(f"{',' if count else ''}\n  {{{pairs}}}")
                count += 1
        self._stream.write("\n]\n" if count else "]\n")
        return count

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(json.dumps(document, indent=2) + "\n")

    def outcome(self, text: str, rows: pa.Table) -> None:
        self.rows(rows.schema, rows.to_batches())


class CsvOutput:
    """RFC 4180 with a header line; null is an empty field, an empty string is ``""``."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        self._stream.write(",".join(map(_field, schema.names)) + "\n")
        count = 0
        for batch in _slices(batches):
            columns = [map(_field, texts(column)) for column in batch.columns]
            self._stream.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))
            count += batch.num_rows
        return count

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(text.rstrip("\n") + "\n")

    def outcome(self, text: str, rows: pa.Table) -> None:
        self.rows(rows.schema, rows.to_batches())


def _field(text: str | None) -> str:
    if text is None:
        return ""
    if not text or text[0] == " " or text[-1] == " " or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
