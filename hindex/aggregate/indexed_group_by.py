"""Group a stripe's rows by its indexes: intersect the rows of the keys of one column with those of the next.

Indexes are not used if walking the combinations of keys is more work than reading the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.aggregate.groups import (
    Groups,
    groups_from_key_counts,
    make_groups,
    merge_groups,
    row_counts,
    scalar_key,
)
from hindex.domain import Domain
from hindex.errors import IndexFileError
from hindex.index.index_type import KeyedReader
from hindex.keys import key_list
from hindex.plan.reasons import Note, Reason
from hindex.scan.lookup_cost import is_key_intersection_worthwhile, is_key_walk_worthwhile
from hindex.scan.scan_task import OutputColumn, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.value_class import value_class


@value_class
class _Keyed:
    """A column, and an index with the rows of every key of it."""

    column: OutputColumn
    index: str
    reader: KeyedReader


def is_constant(task: ScanTaskReader, column: OutputColumn) -> bool:
    """Return True if a column has one value in all rows of a file: a partition value, or NULL if the file lacks it."""
    return column.is_partition or not (column.is_expression or task.has(column.name))


def is_grouped_by_index(task: ScanTaskReader, result: StripeResult, columns: Sequence[OutputColumn]) -> bool:
    """Return True if `groups_by_index` can probably answer. This reads no index pages."""
    return _keyed(task, result, columns) is not None


def groups_by_index(
    task: ScanTaskReader, result: StripeResult, columns: Sequence[OutputColumn]
) -> Groups | None:
    """Count the certain rows of each combination of keys; return None if the indexes cannot."""
    rows = result.bounds.lower
    if not len(rows):
        return merge_groups([column.type for column in columns], ())
    keyed = _keyed(task, result, columns)
    if keyed is None:
        return None
    stripe = result.stripe
    groups = (
        _grouped(task, stripe, keyed, rows) if keyed else make_groups([], pa.array([len(rows)], pa.int64()))
    )
    if groups is None:
        return None
    task.meter.add_indexes(item.index for item in keyed)
    at = {item.column.name: number for number, item in enumerate(keyed)}
    keys = [
        groups.column(at[column.name]).combine_chunks()
        if column.name in at
        else _repeated(scalar_key(column.type, column.partition_value), groups.num_rows)
        for column in columns
    ]
    return make_groups(keys, row_counts(groups))


def _keyed(
    task: ScanTaskReader, result: StripeResult, columns: Sequence[OutputColumn]
) -> list[_Keyed] | None:
    """Return the indexes of the columns that are not constant, the fewest keys first.

    None if a column has no such index, or if walking the indexes does not pay, which is noted.
    """
    keyed_columns: list[_Keyed] = []
    for column in columns:
        if is_constant(task, column):
            continue
        keyed = task.keyed(column.name)
        if keyed is None:
            return None
        keyed_columns.append(_Keyed(column, *keyed))
    counts = {item.column.name: item.reader.key_count(result.stripe) for item in keyed_columns}
    keyed_columns.sort(key=lambda item: counts[item.column.name])
    rows = len(result.bounds.upper)
    keys = [counts[item.column.name] for item in keyed_columns]
    is_worth_walking = (
        is_key_intersection_worthwhile(keys, rows, result.num_rows)
        if len(keyed_columns) > 1
        else all(is_key_walk_worthwhile(count, rows) for count in keys)
    )
    if is_worth_walking:
        return keyed_columns
    # an index of these columns may have answered the predicate; it is rejected only for grouping
    column_names = ", ".join(column.name for column in columns)
    names = ", ".join(item.index for item in keyed_columns)
    note = Note(
        Reason.MANY_KEYS,
        f"{column_names} on {task.task.path}",
        f"{names}{' together' if len(keyed_columns) > 1 else ''}",
    )
    if note not in task.notes:
        task.notes.append(note)
    return None


def _grouped(task: ScanTaskReader, stripe: int, columns: Sequence[_Keyed], rows: BitMap) -> Groups | None:
    """Group some rows by all of the columns; return None if an index is not exact or cannot be read."""
    keys: list[pa.Array] = []
    sets: list[list[BitMap]] = []
    for item in columns:
        try:
            if len(columns) == 1:
                return groups_from_key_counts(item.reader.key_counts(stripe, rows))
            keys_and_sets = _sets(item.reader, stripe)
        except IndexFileError as error:
            task.give_up(item.column.name, item.index, error)
            return None
        if keys_and_sets is None:
            return None
        keys.append(keys_and_sets[0])
        sets.append(keys_and_sets[1])
    crossed = list(_crossed(sets, rows))
    numbers = np.array([at for at, _ in crossed], np.int64).reshape(-1, len(columns))
    return make_groups(
        [array.take(pa.array(column)) for array, column in zip(keys, numbers.T, strict=True)],
        pa.array([count for _, count in crossed], pa.int64()),
    )


def _sets(reader: KeyedReader, stripe: int) -> tuple[pa.Array, list[BitMap]] | None:
    """Return the keys of a stripe, NULL first, and the rows of each; None if the index is not exact."""
    counts = reader.key_counts(stripe)
    sets = [reader.null_rows(stripe)] if counts.null_count else []
    for key in key_list(counts.keys):
        bounds = reader.lookup(stripe, Domain.points([key]))
        if not bounds.exact:
            return None
        sets.append(bounds.upper)
    return groups_from_key_counts(counts).column(0).combine_chunks(), sets


def _crossed(sets: Sequence[Sequence[BitMap]], rows: BitMap) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the combinations of the columns' sets that contain some rows, and the number of these rows."""
    first, *others = sets
    remaining = len(rows)
    for number, key_rows in enumerate(first):
        if not remaining:
            # each row is in exactly one of the sets
            return
        if others:
            inside = key_rows & rows
            remaining -= len(inside)
            for at, count in _crossed(others, inside):
                yield (number, *at), count
        elif count := key_rows.intersection_cardinality(rows):
            remaining -= count
            yield (number,), count


def _repeated(key: pa.Array, times: int) -> pa.Array:
    return key.take(pa.array(np.zeros(times, np.int64)))
