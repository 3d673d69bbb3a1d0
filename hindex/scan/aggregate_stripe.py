"""What one stripe contributes to aggregates: by its indexes and statistics where these tell, else by reading.

Everything starts from the rows that the stripe's bounds leave: what is not among them (deleted, filtered away) counts
nowhere. What is said of whole stripes serves only where every row is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Domain, Key
from hindex.errors import IndexFileError
from hindex.index.base import Bounds, Ends, KeyCounts, KeyRows
from hindex.keys import KeyKind, array_keys, join_keys, key_kind
from hindex.scan.answers import StripeAnswer
from hindex.scan.cost import is_walked
from hindex.scan.execute import OpenTask
from hindex.scan.task import OutputColumn


@dataclass(frozen=True, slots=True)
class Part:
    """What is wanted: columns whose values are counted, those whose ends are sought, or one that is grouped by."""

    counted: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    group: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """Values of a column that are not null: how many, and the least and greatest key; None where not sought."""

    count: int = 0
    low: Key | None = None
    high: Key | None = None

    def joined(self, other: ColumnValues) -> ColumnValues:
        lows = [key for key in (self.low, other.low) if key is not None]
        highs = [key for key in (self.high, other.high) if key is not None]
        return ColumnValues(
            self.count + other.count,
            min(lows, default=None),
            max(highs, default=None),
        )


@dataclass(slots=True)
class StripePart:
    """What a stripe contributes."""

    rows: int
    columns: dict[str, ColumnValues] = field(default_factory=dict)
    groups: KeyCounts | None = None


def stripe_part(task: OpenTask, answer: StripeAnswer, part: Part) -> StripePart:
    """What the wanted rows of one stripe contribute."""
    columns = {column.name: column for column in task.task.lookups}
    to_read = [
        name
        for name in (*part.counted, *part.ended, *([part.group] if part.group else ()))
        if name in columns
    ]
    decides = {column.name for column in task.task.filter_columns}
    if answer.undecided and to_read and decides.issuperset(to_read):
        # what decides is read anyway, and is what is asked for
        batch = task.read(answer, [columns[name] for name in dict.fromkeys(to_read)])
        found = StripePart(batch.num_rows)
        for name, array in zip(dict.fromkeys(to_read), batch.columns, strict=True):
            _add_array(found, part, columns[name], array)
        return found
    answer = task.settled(answer)
    rows = answer.bounds.lower
    found = StripePart(len(rows))
    for name in sorted(part.counted | part.ended):
        column = columns[name]
        found.columns[name] = _by_index(task, answer, part, column) or _by_reading(task, answer, part, column)
    if part.group is not None:
        column = columns[part.group]
        found.groups = groups_by_index(task, answer, column)
        if found.groups is None:
            found.groups = array_groups(column, _column(task, answer, column))
    return found


def is_told(task: OpenTask, answer: StripeAnswer, part: Part) -> bool:
    """Whether a stripe's part needs no data: what :func:`stripe_part` does, without the pages of indexes."""
    if answer.undecided:
        return False
    rows = len(answer.bounds.lower)
    columns = {column.name: column for column in task.task.lookups}
    if not rows:
        return True
    for name in part.ended | part.counted:
        ends = _whole(task, answer, columns[name])
        if ends is not None and (name not in part.ended or _has_ends(ends, rows)):
            continue
        is_found = _is_constant(task, columns[name]) or _walks(task, answer, columns[name])
        if name in part.ended and not is_found:
            return False
        if name in part.counted and _not_null(task, answer, columns[name]) is None:
            return False
    return (
        part.group is None
        or _is_constant(task, columns[part.group])
        or _walks(task, answer, columns[part.group])
    )


def groups_by_index(task: OpenTask, answer: StripeAnswer, column: OutputColumn) -> KeyCounts | None:
    """How many of the rows that are certain have each key; None where no index tells."""
    rows = answer.bounds.lower
    if _is_constant(task, column) or not len(rows):
        return constant_groups(column, len(rows))
    keyed = task.keyed(column.name) if _walks(task, answer, column) else None
    if keyed is None:
        return None
    name, reader = keyed
    try:
        return reader.key_counts(answer.stripe, rows)
    except IndexFileError as error:
        task.give_up(column.name, name, error)
        return None


def constant_groups(column: OutputColumn, rows: int) -> KeyCounts:
    """The groups of a column with one value, a partition's, or with NULL alone, where the file has no such column."""
    value = column.partition_value
    if value is None or not value.is_valid:
        return array_groups(column, pa.nulls(rows, column.type.to_arrow()))
    found = array_groups(column, pa.repeat(value, min(rows, 1)))
    return KeyCounts(found.keys, found.counts * rows, 0)


def array_groups(column: OutputColumn, array: pa.Array) -> KeyCounts:
    """How many values of an array have each key."""
    kind = key_kind(column.type)
    assert kind is not None
    valid = array.drop_null()
    keys = array_keys(column.type, valid)
    if kind is KeyKind.INT64:
        distinct, counts = np.unique(np.asarray(keys), return_counts=True)
        return KeyCounts(distinct, counts.astype(np.int64), array.null_count)
    counted = pc.value_counts(keys)
    order = pc.sort_indices(counted.field("values"))
    values = counted.field("values").take(order)
    counts = np.asarray(counted.field("counts").take(order)).astype(np.int64)
    return KeyCounts(join_keys(kind, [values]), counts, array.null_count)


def _is_constant(task: OpenTask, column: OutputColumn) -> bool:
    return column.is_partition or not task.has(column.name)


def _walks(task: OpenTask, answer: StripeAnswer, column: OutputColumn) -> bool:
    """Whether an index's keys are to be walked for the rows that are left."""
    keyed = task.keyed(column.name)
    return keyed is not None and is_walked(keyed[1].key_count(answer.stripe), len(answer.bounds.upper))


def _whole(task: OpenTask, answer: StripeAnswer, column: OutputColumn) -> Ends | None:
    """The ends of a column where they are known and every row is left."""
    if column.is_partition:
        groups = constant_groups(column, len(answer.bounds.lower))
        return _ends_of(groups)
    if len(answer.bounds.lower) < answer.num_rows:
        return None
    found = task.ends(answer.stripe, column)
    return None if found is None else found[1]


def _has_ends(ends: Ends, rows: int) -> bool:
    return ends.low is not None or ends.null_count == rows


def _ends_of(groups: KeyCounts) -> Ends:
    if not len(groups.keys):
        return Ends(groups.null_count, None, None)
    return Ends(groups.null_count, _key(groups, 0), _key(groups, len(groups.keys) - 1))


def _by_index(task: OpenTask, answer: StripeAnswer, part: Part, column: OutputColumn) -> ColumnValues | None:
    """What is known of a column without reading it; None where that is not all that is wanted."""
    rows = answer.bounds.lower
    if not len(rows):
        return ColumnValues()
    wants_ends = column.name in part.ended
    whole = _whole(task, answer, column)
    if whole is not None and (not wants_ends or _has_ends(whole, len(rows))):
        return ColumnValues(len(rows) - whole.null_count, whole.low, whole.high)
    count = 0
    if column.name in part.counted:
        known = _not_null(task, answer, column)
        if known is None:
            return None
        count = known
    if not wants_ends:
        return ColumnValues(count)
    if not _is_constant(task, column) and not _walks(task, answer, column):
        return None
    keyed = task.keyed(column.name)
    if keyed is None:
        return ColumnValues() if _is_constant(task, column) else None
    name, reader = keyed
    try:
        low = next((_key(item, 0) for item in reader.key_rows(answer.stripe, rows) if len(item.keys)), None)
        if low is None:
            return ColumnValues(count)
        downwards = reader.key_rows(answer.stripe, rows, descending=True)
        high = next(_key(item, len(item.keys) - 1) for item in downwards if len(item.keys))
    except IndexFileError as error:
        task.give_up(column.name, name, error)
        return None
    return ColumnValues(count, low, high)


def _not_null(task: OpenTask, answer: StripeAnswer, column: OutputColumn) -> int | None:
    """How many of the rows that are left have a value, where indexes and statistics decide it."""
    rows = answer.bounds.lower
    found: Bounds = task.bounds_of(answer.stripe, column, Domain.not_null())
    lower = rows & found.lower
    return len(lower) if found.exact or lower == rows & found.upper else None


def _by_reading(task: OpenTask, answer: StripeAnswer, part: Part, column: OutputColumn) -> ColumnValues:
    return _array_values(part, column, _column(task, answer, column))


def _column(task: OpenTask, answer: StripeAnswer, column: OutputColumn) -> pa.Array:
    return task.read(answer, [column]).column(0)


def _add_array(found: StripePart, part: Part, column: OutputColumn, array: pa.Array) -> None:
    if column.name == part.group:
        found.groups = array_groups(column, array)
    else:
        found.columns[column.name] = _array_values(part, column, array)


def _array_values(part: Part, column: OutputColumn, array: pa.Array) -> ColumnValues:
    count = len(array) - array.null_count
    if column.name not in part.ended or not count:
        return ColumnValues(count)
    keys = array_keys(column.type, array.drop_null())
    if isinstance(keys, np.ndarray):
        return ColumnValues(count, int(keys.min()), int(keys.max()))
    ends = pc.min_max(keys)
    return ColumnValues(count, ends["min"].as_py(), ends["max"].as_py())


def _key(item: KeyCounts | KeyRows, at: int) -> Key:
    found = item.keys[at]
    key: Key = int(found) if isinstance(item.keys, np.ndarray) else found.as_py()
    return key
