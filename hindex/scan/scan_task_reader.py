"""Run a scan task: index lookups give row sets, and row sets give rows.

Executors import this module, so it imports neither Spark nor SQL.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import (
    DeletedFileError,
    HindexError,
    OrcError,
    PredicateError,
    UnsupportedError,
    root_os_error,
)
from hindex.index.index_type import Bounds, KeyedReader, MinMax
from hindex.index.page_cache import Cache
from hindex.index.roaring import group_count
from hindex.orc import OrcReader, RowSelection
from hindex.orc.acid.schema import ROW_ID
from hindex.orc.decode.arrow_arrays import bool_array
from hindex.orc.io.thread_pool import SERIAL, ThreadPool
from hindex.orc.reader.row_selection import Rows
from hindex.plan.filter import Indexable, Leaf
from hindex.plan.filter_evaluation import Mask, mask
from hindex.plan.reasons import REPLACED, REPLACED_SINCE, Note, Reason
from hindex.scan.file_columns import FileColumns, assemble_batch, constant_values, repeat_value, values_at
from hindex.scan.included_columns import BlockRead, IncludedColumns
from hindex.scan.metrics import NO_METER, Step
from hindex.scan.open_indexes import OpenIndexes
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.scan_task import OutputColumn, ScanTask, StripeResult
from hindex.scan.stripe_filter import StripeFilter
from hindex.store.metadata_copy import FileVersion
from hindex.table.location import is_local

if TYPE_CHECKING:
    from hindex.orc.acid.live_rows import LiveRows

#: All columns of a remote file are read at once if a stripe's undecided rows have at most so many stored bytes.
_TOGETHER_BYTES = 1 << 20


class ScanTaskReader:
    """A scan task with its data file and index files open. Several threads may read its stripes.

    ``notes`` has an entry for each index that was planned but could not be used.

    Args:
        cache: the cache of index files; by default, that of the process.

    Raises:
        DeletedFileError: if the data file does not exist any more.
        OrcError: if it cannot be read.
    """

    def __init__(self, task: ScanTask, cache: Cache | None = None) -> None:
        self.task = task
        self._cache = cache
        self.notes: list[Note] = []
        is_replaced = False
        try:
            if task.acid is None:
                self.reader, is_replaced = _open_reader(task)
            else:
                from hindex.orc.acid.delta_files import open_file

                self.reader = open_file(task.acid.file, timezone=task.timezone)
        except OrcError as error:
            if isinstance(root_os_error(error), FileNotFoundError):
                raise DeletedFileError(
                    f"data file {task.path!r} was deleted after the scan was planned: run the query again"
                ) from error
            raise
        tail = self.reader.tail
        #: How the file differs from the one that was planned and indexed; empty if it does not.
        self.difference = ""
        if is_replaced or tail.file_length != task.length or self.reader.has_other_mtime(task.mtime_ns):
            self.difference = REPLACED_SINCE
        elif tail.checksum != task.tail_checksum:
            self.difference = REPLACED
        try:
            self._columns = FileColumns(self.reader, task)
            self._live: LiveRows | None = None
            if task.acid is not None:
                from hindex.orc.acid.live_rows import LiveRows

                self._live = LiveRows(self.reader, task.acid)
        except HindexError:
            self.reader.close()
            raise
        # a task that reads all also reads these columns, to compare them
        self._constants = {} if task.reads_all else constant_values(task.filter)
        #: Collects the time that reading takes.
        self.meter = NO_METER
        self._indexes = self._open_indexes()
        self._included: IncludedColumns | None = None
        if task.included and self.is_fresh:
            self._included = IncludedColumns(task, self._columns, self.reader, self.notes, cache)
        self._stripe_filter = StripeFilter(task, self.reader, self._columns, self._indexes, self.notes)

    def close(self) -> None:
        if self._live is not None:
            self._live.close()
        self.reader.close()

    def __enter__(self) -> ScanTaskReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_remote(self) -> bool:
        """True if reading the data file takes requests."""
        return not is_local(self.task.uri)

    @property
    def is_fresh(self) -> bool:
        """True if the tail and the modification time of the file are those that were planned and indexed."""
        return not self.difference

    @property
    def stripes(self) -> range:
        """The numbers of the stripes that the task reads."""
        return range(len(self.reader.stripes))[self.task.first_stripe : self.task.end_stripe]

    def row_groups(self, rows: int) -> int:
        """Return the number of row groups of a stripe."""
        return group_count(self.reader.tail.row_index_stride, rows)

    def look_up(self, stripe: int) -> StripeResult:
        """Look up the matching rows of a stripe in the indexes, then in the file's statistics; read no data.

        Each source answers all conditions before the next one, which may then not be needed.
        """
        result = self._stripe_filter.look_up(stripe, self.task.filter)
        self._remove(result)
        return result

    def bounds_of(self, stripe: int, column: OutputColumn, domain: Domain) -> Bounds:
        """Return the bounds of the rows of a stripe whose value of a column is in a domain; read no data.

        Deleted rows are among them.
        """
        result = self._stripe_filter.look_up(stripe, Leaf(column.name, column.type, domain))
        self.meter.add_indexes(result.indexes)
        return result.bounds

    def is_constant(self, column: str) -> bool:
        """Return True if the filter allows only one value of a column, so that the column is not read."""
        return column in self._constants

    def has(self, column: str) -> bool:
        """Return True if the file has a column of the table; otherwise the column is NULL in every row."""
        return self._columns.has(column)

    def keyed(self, column: str) -> tuple[str, KeyedReader] | None:
        """Return an index with the rows of every key of a column, after its name; None if there is none."""
        return None if self._indexes is None else self._indexes.keyed(column)

    def min_max(self, stripe: int, column: OutputColumn) -> tuple[str | StatisticsSource, MinMax] | None:
        """Return the minimum and maximum of a whole stripe, after their source; None if no source has them."""
        source_and_min_max = next(self.min_max_by_source(stripe, column), None)
        if source_and_min_max is not None and isinstance(source_and_min_max[0], str):
            self.meter.add_indexes([source_and_min_max[0]])
        return source_and_min_max

    def min_max_by_source(
        self, stripe: int, column: OutputColumn
    ) -> Iterator[tuple[str | StatisticsSource, MinMax]]:
        """Yield the minimum and maximum from each source; `min_max` uses the first."""
        return self._stripe_filter.min_max_by_source(stripe, column)

    def lookup_each(self, stripe: int, condition: Indexable) -> Iterator[tuple[str, Bounds]]:
        """Yield the answer of each index alone to a condition, with its name."""
        return iter(()) if self._indexes is None else self._indexes.lookup_each(stripe, condition)

    def give_up(self, column: str, index: str, error: HindexError) -> None:
        """Stop using an index of a column, and note the error."""
        if self._indexes is not None:
            self._indexes.give_up(column, index, error)

    def resolve_undecided(self, result: StripeResult) -> StripeResult:
        """Return the result with all rows decided; read the filter's columns at the undecided rows."""
        if not result.undecided:
            return result
        matching, _, _ = self._decide(result, SERIAL)
        rows = result.bounds.lower | BitMap(matching.astype(np.uint32))
        return replace(result, bounds=Bounds.exactly(rows))

    def read(
        self,
        result: StripeResult,
        pool: ThreadPool = SERIAL,
        columns: Sequence[OutputColumn] | None = None,
    ) -> pa.RecordBatch:
        """Read the matching rows of a stripe: the certain ones, and the undecided ones that the filter keeps.

        Args:
            pool: its idle threads may help.
            columns: the columns to read; those of the task if None.
        """
        columns = self.task.columns if columns is None else columns
        for column in columns:
            if column.is_expression:
                raise UnsupportedError(f"{column.name} is an expression, which is not read here")
        selection, arrays = self._choose(result, columns, pool)
        with self.meter.step(Step.COLUMNS):
            missing = [column for column in columns if column.name not in arrays and not column.is_partition]
            arrays |= self._constant_columns(missing, len(selection))
            missing = [column for column in missing if column.name not in arrays]
            arrays |= self._read_columns(missing, result, selection, pool)
        return assemble_batch(columns, len(selection), arrays, has_instants=self.task.timezone is not None)

    def count(self, result: StripeResult, pool: ThreadPool = SERIAL) -> int:
        """Count the matching rows of a stripe, without reading data if the indexes decide."""
        return self.read(result, pool, ()).num_rows if result.undecided else len(result.bounds.lower)

    def block_reads(
        self, stripe: int, rows: BitMap, columns: Sequence[OutputColumn], *, always: bool = False
    ) -> list[BlockRead]:
        """Return the reads from ROWS indexes that give some columns at some rows of a stripe.

        Args:
            always: return them whatever they cost.
        """
        if self._included is None:
            return []
        selection = RowSelection.of(rows, self.reader.stripes[stripe].num_rows)
        return self._included.choose(columns, stripe, selection, always=always)

    def read_blocks(self, block_read: BlockRead, stripe: int) -> dict[str, pa.Array]:
        """Read columns of all rows of a stripe from a ROWS index; nothing if it is corrupt."""
        assert self._included is not None
        return self._included.read(block_read, stripe, RowSelection(self.reader.stripes[stripe].num_rows))

    def bytes_to_read(self, result: StripeResult, columns: Sequence[OutputColumn]) -> int:
        """Return the stored bytes of columns in the row groups of a stripe's candidate rows.

        Includes the row keys that a transactional table's deletes are compared with.
        """
        names = {*result.key_columns, *self._columns.stored_names(columns)}
        if not names or not result.bounds.upper:
            return 0
        selection = RowSelection.of(result.bounds.upper, result.num_rows)
        return self.reader.bytes_to_read(result.stripe, sorted(names), selection)

    def _remove(self, result: StripeResult) -> None:
        """Remove the deleted and invisible rows of a transactional table from a result."""
        if self._live is None or not result.bounds.upper:
            return
        removed = self._live.removed(result.stripe, result.bounds.upper)
        result.deleted, result.invisible = len(removed.deleted), len(removed.invisible)
        result.key_columns = removed.columns
        if result.deleted or result.invisible:
            removed_rows, before = removed.deleted | removed.invisible, result.bounds
            upper = before.upper - removed_rows
            result.bounds = (
                Bounds.exactly(upper) if before.exact else Bounds(before.lower - removed_rows, upper)
            )

    def _choose(
        self, result: StripeResult, columns: Sequence[OutputColumn], pool: ThreadPool
    ) -> tuple[RowSelection, dict[str, pa.Array]]:
        """Select the matching rows of a stripe; read the filter's columns if some rows are undecided.

        If few rows of a remote file are undecided, all columns are read at once, which saves a second request.

        Returns:
            the rows, and those of ``columns`` that have been read at them.
        """
        names = {column.name for column in columns}
        rows: Rows | BitMap = result.bounds.lower
        decoded: dict[str, pa.Array] = {}
        if result.undecided:
            others = [
                column
                for column in (columns if self._is_cheap(result) else ())
                if not (
                    column.is_partition or column in self.task.filter_columns or self.is_constant(column.name)
                )
            ]
            matching, matches, read = self._decide(result, pool, others)
            if len(rows):
                rows = result.bounds.lower | BitMap(matching.astype(np.uint32))
            else:
                rows, is_kept = matching, bool_array(matches, None)
                decoded = {name: array.filter(is_kept) for name, array in read.items() if name in names}
        return RowSelection.of(rows, result.num_rows), decoded

    def _is_cheap(self, result: StripeResult) -> bool:
        """Return True if reading all columns at the undecided rows of a stripe costs less than a second request."""
        if not self.is_remote or result.bounds.lower:
            return False
        stripe = self.reader.stripes[result.stripe]
        return stripe.data_length * result.undecided <= _TOGETHER_BYTES * stripe.num_rows

    def _decide(
        self, result: StripeResult, pool: ThreadPool, others: Sequence[OutputColumn] = ()
    ) -> tuple[Rows, Mask, dict[str, pa.Array]]:
        """Read the filter's columns, and others, at the undecided rows.

        Returns:
            the undecided rows that match; a mask of them among all undecided rows; the columns at all of these.
        """
        bounds = result.bounds
        undecided = bounds.upper - bounds.lower if len(bounds.lower) else bounds.upper
        rows = RowSelection.of(undecided, result.num_rows)
        with self.meter.step(Step.PREDICATE):
            decoded = self._read_columns((*self.task.filter_columns, *others), result, rows, pool)
        try:
            matches = mask(self.task.filter, decoded, len(rows))
        except PredicateError:
            if not self.task.keeps_errors:
                raise
            matches = np.ones(len(rows), np.bool_)
        return rows.to_array()[matches], matches, decoded

    def _constant_columns(self, columns: Sequence[OutputColumn], rows: int) -> dict[str, pa.Array]:
        """Return the columns with one value in all matching rows, each as an array of ``rows`` values."""
        arrays = {
            column.name: repeat_value(self._constants[column.name], rows)
            for column in columns
            if self.is_constant(column.name)
        }
        return {name: array for name, array in arrays.items() if array is not None}

    def _read_columns(
        self, columns: Sequence[OutputColumn], result: StripeResult, selection: RowSelection, pool: ThreadPool
    ) -> dict[str, pa.Array]:
        stripe = result.stripe
        arrays: dict[str, pa.Array] = {}
        for column in columns:
            if column.name in result.values:
                values = values_at(column.type, result.values[column.name], selection.to_array())
                if values is not None:
                    arrays[column.name] = values
        columns = [column for column in columns if column.name not in arrays]
        if self._included is not None:
            for block_read in self._included.choose(columns, stripe, selection):
                values_by_name = self._included.read(block_read, stripe, selection)
                if values_by_name:
                    self.meter.add_indexes([block_read.use.name])
                    arrays |= values_by_name
        columns = [column for column in columns if column.name not in arrays]
        if any(self._columns.has(column.name) for column in columns):
            self.meter.add_read(self.task.path, [stripe] if len(selection) else [])
        arrays |= self._columns.read(columns, stripe, selection, pool)
        keys = [column.name for column in columns if self._columns.is_row_key(column.name)]
        if keys and self._live is not None:
            row_ids = self._live.row_ids(stripe, selection)
            arrays |= {
                name: row_ids if name == ROW_ID else row_ids.field(name.rpartition(".")[2]) for name in keys
            }
        return arrays

    def _open_indexes(self) -> OpenIndexes | None:
        """Return the task's indexes; None if it has none, or if the data file is not the indexed one."""
        if not (self.task.indexes or self.task.candidates or self.task.included):
            return None
        if not self.is_fresh:
            self.notes.append(Note(Reason.STALE_FILE, self.task.path, self.difference))
            return None
        if not (self.task.indexes or self.task.candidates):
            return None
        rows = tuple(stripe.num_rows for stripe in self.reader.stripes)
        return OpenIndexes(self.task, self._columns, rows, self.notes, self._cache)


def _open_reader(task: ScanTask) -> tuple[OrcReader, bool]:
    """Open a task's data file in the planned version, or the present one and return True if it was replaced."""
    if task.version is not None:
        try:
            source = FileVersion(task.version, task.metadata).open(task.uri, task.length)
            return OrcReader(source, timezone=task.timezone), False
        except OrcError as error:
            cause = root_os_error(error)
            if cause is None or cause.errno != errno.ESTALE:
                raise
    return OrcReader(task.uri, timezone=task.timezone), task.version is not None
