"""Columns that indexes of type ROWS include, read in place of the data file's where that costs less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hindex.errors import HindexError, IndexFileError
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_index_file
from hindex.index.roaring import group_count
from hindex.index.rows import RowsReader
from hindex.orc import OrcReader, RowSelection
from hindex.orc.metadata.types import OrcType
from hindex.plan.reasons import Note, failure_reason
from hindex.plan.time_zones import has_time
from hindex.scan.lookup_cost import is_reading_blocks_worthwhile
from hindex.scan.scan_task import OutputColumn, RowsUse, ScanTask
from hindex.table.location import is_local


@dataclass(frozen=True, slots=True)
class BlockRead:
    """A read of some columns from one index.

    Attributes:
        places: the ordinal of each column in the index, ascending.
    """

    use: RowsUse
    reader: RowsReader
    columns: tuple[OutputColumn, ...]
    places: tuple[int, ...]


class IncludedColumns:
    """The ROWS indexes of one data file, opened when first needed. May be shared by threads.

    Args:
        notes: receives every index that was planned but could not be used.
        cache: where index files are kept; the process's by default.
    """

    def __init__(self, task: ScanTask, reader: OrcReader, notes: list[Note], cache: Cache | None) -> None:
        self._task = task
        self._reader = reader
        self._notes = notes
        self._cache = cache
        self._failed: set[str] = set()

    def choose(
        self, columns: Sequence[OutputColumn], stripe: int, selection: RowSelection
    ) -> list[BlockRead]:
        """Return the columns to read from indexes, for some rows of a stripe: those for which that costs less."""
        chosen: list[BlockRead] = []
        # instants depend on the session, and indexes keep wall clocks
        missing = {
            column.name: column
            for column in columns
            if not (self._task.timezone is not None and has_time(column.type))
        }
        for use in self._task.rows:
            names = [name for name in use.columns if name in missing]
            reader = self._open(use) if names and len(selection) else None
            if reader is None:
                continue
            if not self._is_worthwhile(use, reader, [missing[name] for name in names], stripe, selection):
                continue
            included = tuple(missing.pop(name) for name in names)
            chosen.append(BlockRead(use, reader, included, tuple(map(use.columns.index, names))))
        return chosen

    def _is_worthwhile(
        self,
        use: RowsUse,
        reader: RowsReader,
        columns: Sequence[OutputColumn],
        stripe: int,
        selection: RowSelection,
    ) -> bool:
        tail = self._reader.tail
        groups, _ = selection.groups(tail.row_index_stride or max(selection.num_rows, 1))
        return is_reading_blocks_worthwhile(
            blocks=len(np.unique(selection.to_array() // reader.block_rows(stripe))),
            index_columns=len(use.columns),
            columns=sum(map(_count_primitives, (column.type for column in columns))),
            groups=len(groups),
            column_bytes=tail.stripes[stripe].data_length / max(_count_primitives(tail.schema), 1),
            share=len(groups) / group_count(tail.row_index_stride, selection.num_rows),
            chunk=0 if tail.codec is None else tail.block_size,
            is_data_remote=not is_local(self._task.uri),
            is_index_remote=not is_local(use.path),
        )

    def read(self, chosen: BlockRead, stripe: int, selection: RowSelection) -> dict[str, pa.Array]:
        """Read columns at some rows of a stripe; nothing if the index is corrupt, which is noted."""
        try:
            arrays = chosen.reader.read(stripe, selection.to_array(), chosen.places)
        except IndexFileError as error:
            self._give_up(chosen.use, error)
            return {}
        return {column.name: array for column, array in zip(chosen.columns, arrays, strict=True)}

    def _open(self, use: RowsUse) -> RowsReader | None:
        if use.path in self._failed:
            return None
        try:
            reader = open_index_file(use.path, use.length, use.footer_checksum, self._cache).reader
            if not isinstance(reader, RowsReader) or len(reader.type.children) != len(use.columns):
                raise IndexFileError(f"Index file {use.path!r} has other columns; rebuild the index")
            if reader.stripe_rows != tuple(item.num_rows for item in self._reader.stripes):
                raise IndexFileError(
                    f"Index file {use.path!r} has other stripes than its data file; rebuild the index"
                )
        except HindexError as error:
            self._give_up(use, error)
            return None
        return reader

    def _give_up(self, use: RowsUse, error: HindexError) -> None:
        if use.path not in self._failed:
            self._failed.add(use.path)
            self._notes.append(Note(failure_reason(error), f"{use.name} on {self._task.path}", str(error)))


def _count_primitives(data_type: OrcType) -> int:
    return sum(not node.children for node in data_type.walk())
