"""Aggregate one stripe: from its indexes and statistics if possible, else from its data.

Only the rows within the stripe's bounds count: deleted and filtered rows are not among them. Statistics of whole
stripes are used only if every row is within the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from hindex.aggregate.groups import Groups, groups_from_values, scalar_key
from hindex.aggregate.indexed_group_by import groups_by_index, is_constant, is_grouped_by_index
from hindex.domain import Domain, Key
from hindex.errors import IndexFileError
from hindex.index.index_type import Bounds, MinMax
from hindex.keys import array_keys, min_max_keys, nth_key
from hindex.scan.lookup_cost import is_key_walk_worthwhile
from hindex.scan.scan_task import OutputColumn, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.value_class import value_class


@value_class
class PartialAggregate:
    """The aggregates to compute: columns to count, columns whose minimum and maximum are needed, and groupings.

    Rows may be grouped several times, each time by other columns.
    """

    counted: frozenset[str] = frozenset()
    min_max: frozenset[str] = frozenset()
    groupings: tuple[tuple[str, ...], ...] = ()


@value_class
class ColumnValues:
    """The number of non-null values of a column, and the least and greatest key; None without values or need."""

    count: int = 0
    low: Key | None = None
    high: Key | None = None

    def merge(self, other: ColumnValues) -> ColumnValues:
        lows = [key for key in (self.low, other.low) if key is not None]
        highs = [key for key in (self.high, other.high) if key is not None]
        return ColumnValues(
            self.count + other.count,
            min(lows, default=None),
            max(highs, default=None),
        )


@dataclass(slots=True)
class StripeAggregate:
    """The aggregates of one stripe."""

    rows: int
    columns: dict[str, ColumnValues] = field(default_factory=dict)
    groups: dict[tuple[str, ...], Groups] = field(default_factory=dict)


def aggregate_stripe(task: ScanTaskReader, result: StripeResult, part: PartialAggregate) -> StripeAggregate:
    """Aggregate the matching rows of one stripe."""
    columns = {column.name: column for column in task.task.lookups}
    column_names = list(dict.fromkeys((*part.counted, *part.min_max, *chain(*part.groupings))))
    to_read = [name for name in column_names if not is_constant(task, columns[name])]
    decides = {column.name for column in task.task.filter_columns}
    is_decided_by = bool(to_read) and decides.issuperset(to_read)
    if result.undecided and (is_decided_by or not _are_grouped_by_index(task, result, part)):
        # the filter's columns are read anyway and are all that the aggregates need, or the groups need the data
        batch = task.read(result, columns=[columns[name] for name in column_names])
        arrays = dict(zip(column_names, batch.columns, strict=True))
        aggregate = StripeAggregate(batch.num_rows)
        for name in part.counted | part.min_max:
            aggregate.columns[name] = _array_values(part, columns[name], arrays[name])
        for by in part.groupings:
            aggregate.groups[by] = groups_from_values(
                [columns[name].type for name in by], [arrays[name] for name in by]
            )
        return aggregate
    result = task.resolve_undecided(result)
    rows = result.bounds.lower
    aggregate = StripeAggregate(len(rows))
    for name in sorted(part.counted | part.min_max):
        column = columns[name]
        aggregate.columns[name] = _by_index(task, result, part, column) or _by_reading(
            task, result, part, column
        )
    unanswered = []
    for by in part.groupings:
        groups = groups_by_index(task, result, [columns[name] for name in by])
        if groups is None:
            unanswered.append(by)
        else:
            aggregate.groups[by] = groups
    if unanswered:
        # a column of several groupings is read once
        names = list(dict.fromkeys(chain(*unanswered)))
        read = dict(
            zip(names, task.read(result, columns=[columns[name] for name in names]).columns, strict=True)
        )
        for by in unanswered:
            aggregate.groups[by] = groups_from_values(
                [columns[name].type for name in by], [read[name] for name in by]
            )
    return aggregate


def is_index_only(task: ScanTaskReader, result: StripeResult, part: PartialAggregate) -> bool:
    """Return True if `aggregate_stripe` reads no data. This reads no index pages."""
    if result.undecided:
        return False
    rows = len(result.bounds.lower)
    columns = {column.name: column for column in task.task.lookups}
    if not rows:
        return True
    for name in part.min_max | part.counted:
        min_max = _stripe_min_max(task, result, columns[name])
        if min_max is not None and (name not in part.min_max or _has_min_max(min_max, rows)):
            continue
        has_min_max = is_constant(task, columns[name]) or _walks(task, result, columns[name])
        if name in part.min_max and not has_min_max:
            return False
        if name in part.counted and _not_null(task, result, columns[name]) is None:
            return False
    return _are_grouped_by_index(task, result, part)


def _are_grouped_by_index(task: ScanTaskReader, result: StripeResult, part: PartialAggregate) -> bool:
    columns = {column.name: column for column in task.task.lookups}
    return all(is_grouped_by_index(task, result, [columns[name] for name in by]) for by in part.groupings)


def _walks(task: ScanTaskReader, result: StripeResult, column: OutputColumn) -> bool:
    """Return True if an index's keys are walked for the remaining rows."""
    keyed = task.keyed(column.name)
    return keyed is not None and is_key_walk_worthwhile(
        keyed[1].key_count(result.stripe), len(result.bounds.upper)
    )


def _stripe_min_max(task: ScanTaskReader, result: StripeResult, column: OutputColumn) -> MinMax | None:
    """Return the minimum and maximum of a column; None if not recorded, or if rows of the stripe are excluded."""
    if column.is_partition:
        return _partition_min_max(column, len(result.bounds.lower))
    if len(result.bounds.lower) < result.num_rows:
        return None
    source_and_min_max = task.min_max(result.stripe, column)
    return None if source_and_min_max is None else source_and_min_max[1]


def _has_min_max(min_max: MinMax, rows: int) -> bool:
    return min_max.low is not None or min_max.null_count == rows


def _partition_min_max(column: OutputColumn, rows: int) -> MinMax:
    key: Key | None = scalar_key(column.type, column.partition_value)[0].as_py()
    return MinMax(rows if key is None else 0, key, key)


def _by_index(
    task: ScanTaskReader, result: StripeResult, part: PartialAggregate, column: OutputColumn
) -> ColumnValues | None:
    """Aggregate a column without reading it; return None if that is not possible."""
    rows = result.bounds.lower
    if not len(rows):
        return ColumnValues()
    wants_min_max = column.name in part.min_max
    whole = _stripe_min_max(task, result, column)
    if whole is not None and (not wants_min_max or _has_min_max(whole, len(rows))):
        return ColumnValues(len(rows) - whole.null_count, whole.low, whole.high)
    count = 0
    if column.name in part.counted:
        not_null = _not_null(task, result, column)
        if not_null is None:
            return None
        count = not_null
    if not wants_min_max:
        return ColumnValues(count)
    if not is_constant(task, column) and not _walks(task, result, column):
        return None
    keyed = task.keyed(column.name)
    if keyed is None:
        return ColumnValues() if is_constant(task, column) else None
    name, reader = keyed
    try:
        low = next(
            (nth_key(item.keys, 0) for item in reader.key_rows(result.stripe, rows) if len(item.keys)), None
        )
        if low is None:
            return ColumnValues(count)
        downwards = reader.key_rows(result.stripe, rows, descending=True)
        high = next(nth_key(item.keys, len(item.keys) - 1) for item in downwards if len(item.keys))
    except IndexFileError as error:
        task.give_up(column.name, name, error)
        return None
    task.meter.add_indexes([name])
    return ColumnValues(count, low, high)


def _not_null(task: ScanTaskReader, result: StripeResult, column: OutputColumn) -> int | None:
    """Count the remaining rows with a value; return None if indexes and statistics do not decide it."""
    rows = result.bounds.lower
    bounds: Bounds = task.bounds_of(result.stripe, column, Domain.not_null())
    lower = rows & bounds.lower
    return len(lower) if bounds.exact or lower == rows & bounds.upper else None


def _by_reading(
    task: ScanTaskReader, result: StripeResult, part: PartialAggregate, column: OutputColumn
) -> ColumnValues:
    return _array_values(part, column, task.read(result, columns=[column]).column(0))


def _array_values(part: PartialAggregate, column: OutputColumn, array: pa.Array) -> ColumnValues:
    count = len(array) - array.null_count
    if column.name not in part.min_max or not count:
        return ColumnValues(count)
    return ColumnValues(count, *min_max_keys(array_keys(column.type, array.drop_null())))
