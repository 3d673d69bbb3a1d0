"""Columns that indexes of type ROWS include. They are read from the index where that costs less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from hindex.errors import HindexError, IndexFileError
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_index_file
from hindex.index.roaring import group_count
from hindex.index.rows import RowsReader
from hindex.orc import OrcReader, RowSelection
from hindex.orc.metadata.types import Kind
from hindex.plan.reasons import Note, failure_reason
from hindex.plan.time_zones import canonical_zone
from hindex.scan.file_columns import FileColumns
from hindex.scan.lookup_cost import block_micros, column_micros
from hindex.scan.scan_task import IncludedUse, OutputColumn, ScanTask
from hindex.table.location import is_local


@dataclass(frozen=True, slots=True)
class BlockRead:
    """A read of some columns from one index.

    Attributes:
        ordinals: the number of each column in the index, ascending.
    """

    use: IncludedUse
    reader: RowsReader
    columns: tuple[OutputColumn, ...]
    ordinals: tuple[int, ...]


def _has_wall_clocks(column: OutputColumn) -> bool:
    return any(part.kind is Kind.TIMESTAMP for part in column.type.walk())


class IncludedColumns:
    """The ROWS indexes of one data file, opened when first needed. Threads may share them.

    Args:
        notes: receives one note per index that was planned but could not be used.
        cache: the cache of index files; by default, that of the process.
    """

    def __init__(
        self, task: ScanTask, columns: FileColumns, reader: OrcReader, notes: list[Note], cache: Cache | None
    ) -> None:
        self._task = task
        self._columns = columns
        self._reader = reader
        self._notes = notes
        self._cache = cache
        self._failed: set[str] = set()

    def choose(
        self, columns: Sequence[OutputColumn], stripe: int, selection: RowSelection, *, always: bool = False
    ) -> list[BlockRead]:
        """Choose the columns to read from indexes at some rows of a stripe.

        Args:
            always: choose all included columns; by default, those that cost less to read than from the data file.
        """
        if not len(selection) or (selection.is_all and not always):
            return []
        chosen: list[BlockRead] = []
        missing = {
            column.name: column
            for column in columns
            if self._columns.has(column.name) and (self._are_instants_stored or not _has_wall_clocks(column))
        }
        waiting = list(self._task.included)
        while waiting and missing:
            # the index with most of the columns, and with fewest others
            use = max(waiting, key=lambda use: (len(missing.keys() & use.columns), -len(use.columns)))
            waiting.remove(use)
            names = [name for name in use.columns if name in missing]
            if not names:
                continue
            read_micros = self._read_micros(names, stripe, selection)
            cost = partial(block_micros, columns=len(use.columns), is_remote=not is_local(use.path))
            # by the fewest blocks that the rows can be in, so that most indexes need not be opened
            least = -(-len(selection) // use.rows_per_block)
            if not always and cost(least, stored_bytes=0.0) >= read_micros:
                continue
            reader = self._open(use)
            if reader is None:
                continue
            blocks = reader.count_blocks(stripe, selection.to_array())
            if always or cost(blocks, stored_bytes=reader.block_bytes(stripe)) < read_micros:
                ordinals = tuple(map(use.columns.index, names))
                chosen.append(BlockRead(use, reader, tuple(missing.pop(name) for name in names), ordinals))
        return chosen

    @property
    def _are_instants_stored(self) -> bool:
        """True if the scan reads timestamps as an index stores them: as wall clocks, or as instants in UTC."""
        return self._task.timezone is None or canonical_zone(self._task.timezone) == "UTC"

    def _read_micros(self, names: Sequence[str], stripe: int, selection: RowSelection) -> float:
        """Estimate the microseconds to read some columns from the data file."""
        tail, footer = self._reader.tail, self._reader.stripe(stripe)
        groups = len(selection.groups(tail.row_index_stride or max(selection.num_rows, 1))[0])
        types = map(self._columns.type_in_file, names)
        return column_micros(
            [sum(footer.data_length(node.column) for node in item.walk()) for item in types],
            groups,
            groups / group_count(tail.row_index_stride, selection.num_rows),
            0 if tail.codec is None else tail.block_size,
            is_remote=not is_local(self._task.uri),
        )

    def read(self, block_read: BlockRead, stripe: int, selection: RowSelection) -> dict[str, pa.Array]:
        """Read columns at some rows of a stripe; return nothing if the index is corrupt, and note it."""
        try:
            arrays = block_read.reader.read(stripe, selection.to_array(), block_read.ordinals)
        except IndexFileError as error:
            self._note_failure(block_read.use, error)
            return {}
        except pa.ArrowInvalid:
            # more bytes than fit in an array: reading the data file raises the error
            return {}
        values = dict(zip([column.name for column in block_read.columns], arrays, strict=True))
        if self._task.timezone is not None:
            for column in filter(_has_wall_clocks, block_read.columns):
                values[column.name] = values[column.name].cast(column.type.with_instants().to_arrow())
        return values

    def _open(self, use: IncludedUse) -> RowsReader | None:
        if use.path in self._failed:
            return None
        try:
            reader = open_index_file(use.path, use.length, use.footer_checksum, self._cache).reader
            if not isinstance(reader, RowsReader) or reader.file.footer.column_type != use.types:
                raise IndexFileError(f"Index file {use.path!r} has other columns; rebuild the index")
            if reader.stripe_rows != tuple(item.num_rows for item in self._reader.stripes):
                raise IndexFileError(
                    f"Index file {use.path!r} has other stripes than its data file; rebuild the index"
                )
        except HindexError as error:
            self._note_failure(use, error)
            return None
        return reader

    def _note_failure(self, use: IncludedUse, error: HindexError) -> None:
        if use.path not in self._failed:
            self._failed.add(use.path)
            self._notes.append(Note(failure_reason(error), f"{use.name} on {self._task.path}", str(error)))
