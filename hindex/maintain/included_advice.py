"""Estimate the time that included columns save queries, by the costs of `hindex.scan.lookup_cost`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.index.roaring import group_count
from hindex.scan.lookup_cost import block_micros, column_micros

#: The rows of a block, as they are by default.
BLOCK_ROWS = 64
#: The least share of the time to read rows that included columns must save: they store columns a second time.
MIN_SAVED = 0.2
#: The least microseconds that they must save a query, beside the 10,000 that planning and lookups take in any case.
_MIN_MICROS = 5_000


@dataclass(frozen=True, slots=True)
class RowRead:
    """The rows of one stripe that a query reads.

    Attributes:
        rows: int64[N], ascending.
        stripe_rows: the number of rows of the stripe, and ``group_rows``, of a row group.
        column_bytes: the stored bytes of each column.
        chunk: the raw bytes of a chunk; 0 if the file is not compressed.
    """

    rows: npt.NDArray[np.int64]
    stripe_rows: int
    group_rows: int
    column_bytes: Mapping[str, float]
    chunk: int

    def micros(self, columns: Sequence[str]) -> float:
        """Estimate the microseconds to read columns from the data file."""
        groups = len(np.unique(self.rows // self.group_rows))
        share = groups / group_count(self.group_rows, self.stripe_rows)
        return column_micros([self.column_bytes[name] for name in columns], groups, share, self.chunk)

    def block_micros(self, included: Collection[str], row_bytes: float) -> float:
        """Estimate the microseconds to read the rows from blocks of some columns, of so many bytes a row."""
        blocks = len(np.unique(self.rows // BLOCK_ROWS))
        return block_micros(blocks, len(included), BLOCK_ROWS * row_bytes)

    def row_bytes(self, columns: Collection[str]) -> float:
        """Return the stored bytes of columns a row."""
        return sum(self.column_bytes[name] for name in columns) / max(self.stripe_rows, 1)


@dataclass(frozen=True, slots=True)
class QueryRead:
    """What a query reads.

    Attributes:
        columns: those that it reads, which an index may include.
        count: the number of times the query is in the workload.
        reads: the rows of a sample, and ``scale``, the rows of the table for each of them.
    """

    columns: tuple[str, ...]
    count: int
    reads: Sequence[RowRead]
    scale: float = 1.0

    def micros(self) -> float:
        """Estimate the microseconds to read the rows from the data files, as often as the workload has the query."""
        return self.count * self.scale * sum(read.micros(self.columns) for read in self.reads)

    def saved(self, included: Collection[str], row_bytes: float | None = None) -> float:
        """Estimate the microseconds that included columns save: where they cost more, the data is read.

        Args:
            row_bytes: the bytes of a row in blocks; those of its columns in the data by default.
        """
        names = [name for name in self.columns if name in included]
        saved = sum(self._saved(read, names, included, row_bytes) for read in self.reads)
        return self.count * self.scale * saved

    @staticmethod
    def _saved(
        read: RowRead, names: Sequence[str], included: Collection[str], row_bytes: float | None
    ) -> float:
        stored = read.row_bytes(included) if row_bytes is None else row_bytes
        return max(read.micros(names) - read.block_micros(included, stored), 0.0) if names else 0.0


@dataclass(frozen=True, slots=True)
class IncludedGain:
    """What included columns are worth.

    Attributes:
        columns: those to include.
        saved: the share of the time to read the rows of all queries that they save.
        queries: the number of queries that they help.
        index_bytes: of the index.
    """

    columns: tuple[str, ...]
    saved: float
    queries: int
    index_bytes: int


def included_gain(
    queries: Sequence[QueryRead], estimate_bytes: Callable[[Sequence[str]], int], table_rows: int
) -> IncludedGain | None:
    """Choose the columns to include, and estimate what they save; None if no query reads a row for less.

    Args:
        estimate_bytes: the size of an index that includes columns.
        table_rows: the number of rows of the table.
    """
    names = dict.fromkeys(_worthwhile_columns(queries))
    total = sum(query.micros() for query in queries)
    if not names or not total:
        return None
    size = estimate_bytes(list(names))
    saved = [query.saved(names, size / max(table_rows, 1)) for query in queries]
    helped = sum(query.count for query, micros in zip(queries, saved, strict=True) if micros > 0)
    return IncludedGain(tuple(names), sum(saved) / total, helped, size)


def _worthwhile_columns(queries: Sequence[QueryRead]) -> Iterator[str]:
    """Yield the columns of queries that are worth an index of their own columns."""
    for query in queries:
        if query.saved(query.columns) >= max(MIN_SAVED * query.micros(), _MIN_MICROS * query.count):
            yield from query.columns
