"""Prove mode: answer a query through indexes and by a full scan, and compare the two.

Every index on the predicate's columns is also looked up alone, for each leaf that it answers: the query may not need
it, but the next one may. Keys and statistics that indexes record are compared with the values.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.aggregate.groups import groups_from_key_counts, groups_from_values, sort_groups
from hindex.aggregate.top_n import recorded_stats
from hindex.domain import Domain
from hindex.errors import IndexFileError, PredicateError
from hindex.formatting import plural
from hindex.index.column_stats import ColumnStats, array_stats, merge_stats
from hindex.index.index_type import Bounds, KeyedReader
from hindex.keys import array_keys, key_kind, key_list
from hindex.plan.filter import Indexable, Leaf, column_types, every_indexable
from hindex.plan.filter_evaluation import mask
from hindex.plan.reasons import REPLACED_SINCE, Note, Reason, group_notes
from hindex.scan.file_pruning import StripeAnswer
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.planning import ScanPlan, plan_all_files, plan_full_scan
from hindex.scan.scan_task import OutputColumn, ScanTask, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.store.file_views import FileView
from hindex.value_class import value_class

#: Maximum number of rows that a message names.
_NAMED_ROWS = 5

#: Reasons for which no index could be used, though none is wrong.
_WITHOUT_INDEX = frozenset({Reason.NO_INDEX, Reason.UNSUPPORTED_TYPE, Reason.UNSUPPORTED_PREDICATE})


class ProveWarning(UserWarning):
    """An index differs from the data."""


@value_class
class Disagreement:
    """A difference between an index's answer and the data, in one stripe of a data file.

    Args:
        indexes: names of the wrong indexes; empty if the file's own statistics or a decoder are wrong.
        missing: matching rows of the stripe, counted from 0, that the answer lacks.
        surplus: rows of the answer that do not match.
    """

    path: str
    stripe: int
    indexes: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    surplus: tuple[int, ...] = ()
    what: str = "rows"

    def __str__(self) -> str:
        by = ", ".join(map(repr, self.indexes)) or "no index: the file's own statistics, or a decoder"
        parts = [f"{self.path}, stripe {self.stripe}: {self.what} differ by {by}"]
        for name, rows in (("missing", self.missing), ("too many", self.surplus)):
            if rows:
                some = ", ".join(map(str, rows[:_NAMED_ROWS])) + (", …" if len(rows) > _NAMED_ROWS else "")
                parts.append(f"{len(rows):,} {plural(len(rows), 'row')} {name} ({some})")
        return "; ".join(parts)


@value_class
class ProveReport:
    """The result of a proof, which compared ``rows`` rows in ``files`` files.

    ``notes`` name indexes that could not be used, and so are not proved.
    """

    table: str
    files: int
    rows: int
    disagreements: tuple[Disagreement, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def indexes(self) -> tuple[str, ...]:
        """Return the names of the wrong indexes."""
        return tuple(dict.fromkeys(name for item in self.disagreements for name in item.indexes))

    def __str__(self) -> str:
        unproved = "".join(f"; not used: {group}" for group in group_notes(self.notes))
        if not self.disagreements:
            compared = f"{self.rows:,} rows of {self.files:,} files"
            return f"indexes of {self.table} agree with the data: {compared}{unproved}"
        listed = "; ".join(map(str, self.disagreements[:3]))
        more = len(self.disagreements) - 3
        listed += f"; {more:,} more" if more > 0 else ""
        return f"indexes of {self.table} disagree with the data: {listed}{unproved}"


def prove_scan(plan: ScanPlan) -> tuple[ProveReport, ScanPlan]:
    """Compare the indexes' answers to a query with the data; a disagreement also is a `ProveWarning`.

    Returns the report, and the plan of the full scan, which is right in any case.
    """
    full = plan_full_scan(plan)
    # the plan's own tasks, which may read fewer columns, and tasks for the files that it skips
    indexed = {task.path: task for task in plan_all_files(plan).tasks} | {
        task.path: task for task in plan.tasks
    }
    views = plan.snapshot.views
    ruled_out = {views.files.paths[at] for at in plan.skipped.positions}
    disagreements: list[Disagreement] = []
    notes = list(plan.notes)
    rows = 0
    for task, view in zip(
        full.tasks, views.views(views.positions(task.path for task in full.tasks)), strict=True
    ):
        is_ruled_out = task.path in ruled_out
        records = _FileRecords(plan, view)
        for item, count in _compare_file(records, indexed[task.path], task, notes, is_ruled_out=is_ruled_out):
            rows += count
            disagreements += [] if item is None else [item]
    unproved = tuple(dict.fromkeys(note for note in notes if _is_of_index(note)))
    report = ProveReport(plan.snapshot.name, len(full.tasks), rows, tuple(disagreements), unproved)
    if disagreements:
        warnings.warn(str(report), ProveWarning, stacklevel=4)
    return report, full


def _is_of_index(note: Note) -> bool:
    """Return True if a note is about an existing index that was not used."""
    return note.reason.is_fallback and note.reason not in _WITHOUT_INDEX


class _FileRecords:
    """The records that the driver reads of one data file, once for all stripes."""

    def __init__(self, plan: ScanPlan, view: FileView) -> None:
        self.plan = plan
        self._view = view
        self._lookups: dict[Leaf, list[StripeAnswer]] = {}
        self._stats: dict[str, list[tuple[str, Sequence[ColumnStats]]]] = {}

    def lookups(self, leaf: Leaf, stripe: int, rows: int) -> Iterator[tuple[str, Bounds]]:
        """Yield the answers that each index alone gives on the driver for a stripe of some rows."""
        if leaf not in self._lookups:
            self._lookups[leaf] = list(self.plan.stripe_answers(self._view, leaf))
        for answer in self._lookups[leaf]:
            if isinstance(answer.by, StatisticsSource):
                # not an index; the task of the file compares these statistics
                continue
            lower, upper = (
                BitMap(range(rows)) if part[stripe] else BitMap() for part in (answer.lower, answer.upper)
            )
            yield answer.by, Bounds(lower, upper)

    def stats(
        self, opened: ScanTaskReader, stripe: int, column: OutputColumn
    ) -> Iterator[tuple[str, ColumnStats]]:
        """Yield the manifest's statistics of a stripe, with the index that recorded them."""
        if not opened.is_fresh:
            return
        if column.name not in self._stats:
            self._stats[column.name] = list(recorded_stats(self.plan, self._view, opened.task, column))
        for name, stripe_stats in self._stats[column.name]:
            if stripe < len(stripe_stats):
                yield name, stripe_stats[stripe]


def _compare_file(
    records: _FileRecords, indexed: ScanTask, task: ScanTask, notes: list[Note], *, is_ruled_out: bool
) -> Iterator[tuple[Disagreement | None, int]]:
    """Yield the disagreement of each stripe of one file, or None, and the number of matching rows.

    Args:
        notes: receives the indexes that could not be used.
        is_ruled_out: True if planning skipped the file.
    """
    with ScanTaskReader(task) as full, ScanTaskReader(indexed) as opened:
        if REPLACED_SINCE in (full.difference, opened.difference):
            # the plan is of another file
            notes.append(Note(Reason.STALE_FILE, task.path, REPLACED_SINCE))
            return
        for stripe in full.stripes:
            truth = full.resolve_undecided(full.look_up(stripe))
            rows = truth.bounds.lower
            indexed_rows = (
                BitMap() if is_ruled_out else opened.resolve_undecided(opened.look_up(stripe)).bounds.lower
            )
            wrong_blocks = _wrong_blocks(opened, full, stripe)
            if wrong_blocks:
                yield Disagreement(task.path, stripe, wrong_blocks, what="values"), len(rows)
                continue
            wrong = _wrong_lookups(records, opened, full, truth)
            location = task.path, stripe, tuple(wrong)
            if indexed_rows != rows:
                missing, surplus = rows - indexed_rows, indexed_rows - rows
                yield Disagreement(*location, tuple(missing), tuple(surplus)), len(rows)
            elif wrong:
                leaf, missing, surplus = next(iter(wrong.values()))
                yield Disagreement(*location, tuple(missing), tuple(surplus), f"rows of {leaf}"), len(rows)
            else:
                yield None if is_ruled_out else _wrong_values(records, opened, full, truth), len(rows)
        notes += opened.notes


def _wrong_blocks(opened: ScanTaskReader, full: ScanTaskReader, stripe: int) -> tuple[str, ...]:
    """Return the ROWS indexes that have other values of the task's columns than the data."""
    task, count = opened.task, full.reader.stripes[stripe].num_rows
    everything = StripeResult(stripe, count, Bounds.all(count))
    columns = tuple(dict.fromkeys((*task.columns, *task.filter_columns, *task.lookups)))
    wrong = []
    for block_read in opened.block_reads(stripe, everything.bounds.upper, columns, always=True):
        arrays = opened.read_blocks(block_read, stripe)
        want = full.read(everything, columns=block_read.columns)
        if arrays and not is_same(
            pa.RecordBatch.from_arrays(list(arrays.values()), schema=want.schema), want
        ):
            wrong.append(block_read.use.name)
    return tuple(wrong)


def _wrong_lookups(
    records: _FileRecords, opened: ScanTaskReader, full: ScanTaskReader, truth: StripeResult
) -> dict[str, tuple[Indexable, BitMap, BitMap]]:
    """Return the indexes with a wrong answer for a leaf, with the rows that they miss or have too many."""
    wrong: dict[str, tuple[Indexable, BitMap, BitMap]] = {}
    for leaf in dict.fromkeys(every_indexable(full.task.filter)):
        results = list(opened.lookup_each(truth.stripe, leaf))
        if opened.is_fresh and isinstance(leaf, Leaf):
            results += records.lookups(leaf, truth.stripe, truth.num_rows)
        if not results:
            continue
        try:
            true = _matching_rows(full, truth, leaf)
        except PredicateError:
            # it has no value for a row that the rest of the filter excludes
            continue
        for name, bounds in results:
            is_upper = isinstance(leaf, Leaf) and leaf.is_superset
            lower = BitMap() if is_upper else bounds.lower
            missing, surplus = true - bounds.upper, lower - true
            if missing or surplus:
                wrong.setdefault(name, (leaf, missing, surplus))
    return wrong


def _matching_rows(full: ScanTaskReader, truth: StripeResult, condition: Indexable) -> BitMap:
    """Return the rows of a stripe that match a condition, by the values of its columns."""
    all_rows = StripeResult(truth.stripe, truth.num_rows, Bounds.all(truth.num_rows))
    needed = [OutputColumn(*column) for column in column_types(condition).items()]
    batch = full.read(all_rows, columns=needed)
    arrays = dict(zip((column.name for column in needed), batch.columns, strict=True))
    return BitMap(np.flatnonzero(mask(condition, arrays, truth.num_rows)).astype(np.uint32))


def _wrong_values(
    records: _FileRecords, opened: ScanTaskReader, full: ScanTaskReader, truth: StripeResult
) -> Disagreement | None:
    """Return the first difference between read or recorded values and the data, or None."""
    location = full.task.path, truth.stripe
    got, want = opened.read(truth), full.read(truth)
    if got.num_columns and not is_same(got, want):
        return Disagreement(*location, what="values")
    for column in full.task.lookups:
        if column.is_partition:
            continue
        wrong = _wrong_indexes(records, opened, truth, column, full.read(truth, columns=[column]).column(0))
        if wrong is not None:
            return Disagreement(*location, wrong, what=f"values of {column.name}")
    return None


def is_same(got: pa.RecordBatch, want: pa.RecordBatch) -> bool:
    """Return True if two batches hold the same values.

    NaN, which does not equal itself, is compared by its bits.
    """
    return got.equals(want) or (
        got.num_rows == want.num_rows
        and got.schema.equals(want.schema)
        and all(
            _bits(one).equals(other) for one, other in zip(got.columns, map(_bits, want.columns), strict=True)
        )
    )


def _wrong_indexes(
    records: _FileRecords, opened: ScanTaskReader, truth: StripeResult, column: OutputColumn, array: pa.Array
) -> tuple[str, ...] | None:
    """Return the indexes with wrong keys or statistics of a column; empty if the file's own are, None if all are right.

    Args:
        truth: the matching rows of a stripe.
        array: the column's values in these rows.
    """
    wrong: dict[str, None] = {}
    is_file_wrong = False
    numbers = np.asarray(truth.bounds.lower.to_array())
    valid = BitMap(numbers[np.asarray(array.is_valid())])
    leaf = Leaf(column.name, column.type, Domain.not_null())
    for name, bounds in opened.lookup_each(truth.stripe, leaf):
        if not _are_valid_bounds(bounds, truth.bounds.lower, valid):
            wrong[name] = None
    if not _are_valid_bounds(opened.bounds_of(truth.stripe, column, leaf.domain), truth.bounds.lower, valid):
        is_file_wrong = not wrong
    # stored wall clocks differ from instants that are read
    if key_kind(column.type) is not None and records.plan.are_index_keys(column):
        true = array_stats(column.type, array)
        for by, min_max in opened.min_max_by_source(truth.stripe, column):
            if len(numbers) < truth.num_rows:
                break
            is_right = min_max.low is None or (min_max.low, min_max.high) == (true.min_key, true.max_key)
            if is_right and min_max.null_count == true.null_count:
                continue
            if isinstance(by, StatisticsSource):
                is_file_wrong = True
            else:
                wrong[by] = None
        for name, stats in records.stats(opened, truth.stripe, column):
            if not _covers(stats, true):
                wrong[name] = None
        keyed = opened.keyed(column.name)
        if keyed is not None:
            name, reader = keyed
            try:
                if not _has_keys(reader, truth, column, array):
                    wrong[name] = None
            except IndexFileError as error:
                opened.give_up(column.name, name, error)
    return tuple(wrong) if wrong or is_file_wrong else None


def _are_valid_bounds(bounds: Bounds, rows: BitMap, valid: BitMap) -> bool:
    return (bounds.lower & rows) <= valid <= bounds.upper


def _covers(stats: ColumnStats, true: ColumnStats) -> bool:
    """Return True if statistics, whose bounds may be truncated, cover the true ones."""
    merged = merge_stats((stats, true))
    return stats.null_count >= true.null_count and merged == replace(
        stats, rows=merged.rows, null_count=merged.null_count
    )


def _has_keys(reader: KeyedReader, truth: StripeResult, column: OutputColumn, array: pa.Array) -> bool:
    """Return True if an index has exactly the keys of the rows, with their counts and row numbers."""
    rows = truth.bounds.lower
    counts = reader.key_counts(truth.stripe, rows)
    if groups_from_key_counts(counts) != sort_groups(groups_from_values([column.type], [array])):
        return False
    numbers = np.asarray(rows.to_array())
    is_valid = np.asarray(array.is_valid())
    if rows & reader.null_rows(truth.stripe) != BitMap(numbers[~is_valid]):
        return False
    keys = array_keys(column.type, array.drop_null())
    order = (
        np.argsort(keys, kind="stable") if isinstance(keys, np.ndarray) else np.asarray(pc.sort_indices(keys))
    )
    parts = list(reader.key_rows(truth.stripe, rows))
    listed_rows = np.concatenate([np.zeros(0, np.uint32), *(part.rows for part in parts)])
    listed_keys = [key for part in parts for key in key_list(part.keys)]
    return listed_keys == key_list(counts.keys) and np.array_equal(listed_rows, numbers[is_valid][order])


def _bits(array: pa.Array) -> pa.Array:
    data_type = _as_integers(array.type)
    return array if data_type == array.type else array.view(data_type)


def _as_integers(data_type: pa.DataType) -> pa.DataType:
    """Return a type of the same layout, with integers for floating-point numbers."""
    if pa.types.is_float32(data_type):
        return pa.int32()
    if pa.types.is_float64(data_type):
        return pa.int64()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_as_integers(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_as_integers(data_type.value_type)))
    if pa.types.is_map(data_type):
        return pa.map_(
            _as_integers(data_type.key_type),
            data_type.item_field.with_type(_as_integers(data_type.item_type)),
        )
    return data_type
