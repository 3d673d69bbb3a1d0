"""Write the results of statements as tables, JSON or CSV. Rows stream: only a slice at a time is formatted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TextIO

import pyarrow as pa

from hindex.api.value_formatting import format_json, format_values, is_number, printable
from hindex.cli.table_rows import TableRows
from hindex.errors import HindexError

#: Rows that are formatted at a time.
SLICE_ROWS = 2000


class Output(Protocol):
    """One way to write results."""

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows as they come.

        Returns:
            their number.
        """
        ...

    def listing(self, rows: pa.Table, brief: Sequence[str]) -> int:
        """Write rows of many columns; only the brief ones for people.

        Returns:
            their number.
        """
        ...

    def explanation(self, text: str, document: object) -> None:
        """Write an explanation as text or as a JSON document."""
        ...

    def outcome(self, text: str, rows: pa.Table) -> None:
        """Write the outcome of a statement as a sentence or as rows."""
        ...


def output_for(name: str, stream: TextIO, max_width: Callable[[], int | None] = lambda: None) -> Output:
    """Return the output that ``--output`` names.

    Args:
        max_width: returns the width from which on a table has one column per line; None for never.
    """
    outputs: dict[str, Callable[[TextIO], Output]] = {
        "table": lambda stream: TableOutput(stream, max_width),
        "json": JsonOutput,
        "ndjson": NdjsonOutput,
        "csv": CsvOutput,
        "parquet": ParquetOutput,
    }
    return outputs[name](stream)


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, SLICE_ROWS):
            yield batch.slice(start, SLICE_ROWS)


class TableOutput:
    """Aligned columns. Later values may be wider than their column; none is truncated."""

    def __init__(self, stream: TextIO, max_width: Callable[[], int | None] = lambda: None) -> None:
        self._stream = stream
        self._max_width = max_width

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        count = self.body(schema, batches)
        # only a table without data files has no columns
        why = "" if schema.names else "; no data file has a column"
        self._stream.write(f"({count} {'row' if count == 1 else 'rows'}{why})\n")
        return count

    def listing(self, rows: pa.Table, brief: Sequence[str]) -> int:
        visible = rows.select(list(brief))
        return self.rows(visible.schema, visible.to_batches())

    def body(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        """Write the header and the rows, without the line that counts them."""
        if not schema.names:
            return sum(batch.num_rows for batch in batches)
        names, right = list(map(printable, schema.names)), list(map(is_number, schema.types))
        rows = TableRows(self._stream, names, right, max_width=self._max_width())
        return rows.write(map(self._cells, _slices(batches)))

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(text.rstrip("\n") + "\n")

    def outcome(self, text: str, rows: pa.Table) -> None:
        self._stream.write(text + "\n")

    def _cells(self, batch: pa.RecordBatch) -> list[list[str]]:
        return [
            [
                "NULL" if text is None else printable(text)
                for text in format_values(column, self._stream.encoding)
            ]
            for column in batch.columns
        ]


class JsonOutput:
    """A JSON document for each statement; rows are an array of objects."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        count = 0
        self._stream.write("[")
        for document in _row_documents(schema, batches):
            self._stream.write(f"{',' if count else ''}\n  {document}")
            count += 1
        self._stream.write("\n]\n" if count else "]\n")
        return count

    def listing(self, rows: pa.Table, brief: Sequence[str]) -> int:
        return self.rows(rows.schema, rows.to_batches())

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(json.dumps(document, indent=2) + "\n")

    def outcome(self, text: str, rows: pa.Table) -> None:
        self.rows(rows.schema, rows.to_batches())


def _row_documents(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    names = [json.dumps(name) for name in schema.names]
    for batch in _slices(batches):
        for row in zip(*map(format_json, batch.columns), strict=True):
            yield f"{{{', '.join(f'{name}: {value}' for name, value in zip(names, row, strict=True))}}}"


class NdjsonOutput(JsonOutput):
    """A JSON object a line, for each row or explanation."""

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        count = 0
        for document in _row_documents(schema, batches):
            self._stream.write(document + "\n")
            count += 1
        return count

    def explanation(self, text: str, document: object) -> None:
        self._stream.write(json.dumps(document) + "\n")


class ParquetOutput:
    """A Parquet file of one result."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_used = False

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        import pyarrow.parquet as pq

        if self._is_used:
            raise HindexError("a Parquet file holds one result: run one statement at a time")
        self._is_used = True
        count = 0
        try:
            with pq.ParquetWriter(self._stream.buffer, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    count += batch.num_rows
        except pa.ArrowNotImplementedError as error:
            raise HindexError(f"Parquet cannot hold this result: {error}; use --output json") from error
        return count

    def listing(self, rows: pa.Table, brief: Sequence[str]) -> int:
        return self.rows(rows.schema, rows.to_batches())

    def explanation(self, text: str, document: object) -> None:
        raise HindexError("Parquet holds rows, and this result has none: use --output json or table")

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
            columns = [map(_field, format_values(column, self._stream.encoding)) for column in batch.columns]
            self._stream.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))
            count += batch.num_rows
        return count

    def listing(self, rows: pa.Table, brief: Sequence[str]) -> int:
        return self.rows(rows.schema, rows.to_batches())

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
