"""Groups of rows by the values of columns: the number of rows with each combination of keys.

Groups are an Arrow table with a column of keys (`hindex.keys`) for each grouping column, named ``0``, ``1`` and so
on, and a column ``count``, int64. The key of NULL is null; NULL is a group like any other. Combinations of keys
are distinct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.index.index_type import KeyCounts
from hindex.keys import KeyArray, KeyKind, array_keys, key_array, key_kind
from hindex.orc.metadata.types import OrcType

Groups: TypeAlias = pa.Table

_COUNT = "count"
#: The number of groups of several parts that are collected before they are merged.
_MAX_PENDING_GROUPS = 1 << 20


def make_groups(keys: Sequence[pa.Array], counts: pa.Array) -> Groups:
    """Make groups of distinct combinations of keys."""
    return pa.Table.from_arrays([*keys, counts], names=[*map(str, range(len(keys))), _COUNT])


def groups_from_key_counts(key_counts: KeyCounts) -> Groups:
    """Make the groups of one column from an index's counts, sorted by key, NULL first."""
    return _one_column_groups(
        _as_arrow(key_counts.keys), pa.array(key_counts.counts, pa.int64()), key_counts.null_count
    )


def groups_from_values(types: Sequence[OrcType], arrays: Sequence[pa.Array]) -> Groups:
    """Group rows by their values. The groups are in any order."""
    if len(types) == 1:
        (data_type,), (array,) = types, arrays
        keys = array_keys(data_type, array.drop_null())
        if isinstance(keys, np.ndarray):
            distinct, counts = np.unique(keys, return_counts=True)
            return _one_column_groups(
                pa.array(distinct, pa.int64()), pa.array(counts, pa.int64()), array.null_count
            )
        counted = pc.value_counts(keys)
        return _one_column_groups(
            counted.field("values"), counted.field("counts").cast(pa.int64()), array.null_count
        )
    names = [str(at) for at in range(len(types))]
    rows = pa.Table.from_arrays(
        [_keys(data_type, array) for data_type, array in zip(types, arrays, strict=True)], names
    )
    grouped = rows.group_by(names, use_threads=False).aggregate([([], "count_all")])
    return make_groups(
        [grouped.column(name).combine_chunks() for name in names],
        grouped.column("count_all").combine_chunks(),
    )


def scalar_key(data_type: OrcType, value: pa.Scalar | None) -> pa.Array:
    """Return the key of one value as an array of one; null for NULL."""
    return _keys(data_type, pa.nulls(1, data_type.to_arrow()) if value is None else pa.repeat(value, 1))


class GroupMerger:
    """A merger of the groups of several parts."""

    def __init__(self, types: Sequence[OrcType]) -> None:
        self._waiting = [
            make_groups([pa.array([], _key_type(data_type)) for data_type in types], pa.array([], pa.int64()))
        ]
        self._pending_rows, self._max_pending = 0, _MAX_PENDING_GROUPS

    def add(self, part: Groups) -> None:
        """Add the groups of one more part."""
        self._waiting.append(part)
        self._pending_rows += part.num_rows
        if self._pending_rows > self._max_pending:
            self._waiting = [_merge(self._waiting)]
            self._pending_rows = self._waiting[0].num_rows
            # as many again must come first, or every part would be merged with all parts before it
            self._max_pending = max(_MAX_PENDING_GROUPS, 2 * self._pending_rows)

    def groups(self) -> Groups:
        """Return the groups of all parts, sorted by key, NULL first."""
        return sort_groups(_merge(self._waiting))


def merge_groups(types: Sequence[OrcType], parts: Iterable[Groups]) -> Groups:
    """Merge the groups of several parts; the result is sorted by key, NULL first."""
    merger = GroupMerger(types)
    for part in parts:
        merger.add(part)
    return merger.groups()


def sort_groups(groups: Groups) -> Groups:
    """Sort groups by their keys, by the first column first, with NULL first."""
    columns = [column.combine_chunks() for column in groups.columns[:-1]]
    by: list[npt.NDArray[np.generic]] = []
    for column in reversed(columns):
        by.append(_ranks(column, is_distinct=len(columns) == 1))
        if column.null_count:
            by.append(np.asarray(column.is_valid()))
    return groups.take(pa.array(np.lexsort(by)))


def row_counts(groups: Groups) -> pa.Array:
    """Return the number of rows of each group."""
    return groups.column(_COUNT).combine_chunks()


def count_distinct(groups: Groups) -> pa.Array:
    """Count the distinct non-null values of the last column for each combination of the other columns.

    Args:
        groups: groups as `sort_groups` returns them; the counts are in the order of the combinations.
    """
    *others, last = [column.combine_chunks() for column in groups.columns[:-1]]
    # a combination ends where the run of equal keys of any of its columns ends; NULL equals NULL
    runs = [np.asarray(pc.run_end_encode(keys, run_end_type=pa.int64()).run_ends) for keys in others]
    ends = np.unique(np.concatenate(runs))
    values = np.append(0, np.cumsum(np.asarray(last.is_valid())))
    return pa.array(np.diff(values[ends], prepend=0), pa.int64())


def group_values(data_type: OrcType, groups: Groups, column: int) -> pa.Array:
    """Return the value of one grouping column in each group, of the type ``data_type.to_arrow()``."""
    keys = groups.column(column).combine_chunks()
    valid = keys.drop_null()
    values = key_array(data_type, np.asarray(valid) if key_kind(data_type) is KeyKind.INT64 else valid)
    return _scatter_valid(values, keys) if keys.null_count else values


def _merge(parts: Sequence[Groups]) -> Groups:
    """Merge the groups of several parts, in any order."""
    table = pa.concat_tables(parts)
    if sum(part.num_rows > 0 for part in parts) < 2:
        return table
    *names, _ = table.column_names
    if len(names) == 1 and table.schema.field(0).type == pa.int64():
        return _merge_integers(table)
    grouped = table.group_by(names, use_threads=False).aggregate([(_COUNT, "sum")])
    return make_groups(
        [grouped.column(name).combine_chunks() for name in names],
        grouped.column(f"{_COUNT}_sum").combine_chunks(),
    )


def _merge_integers(table: pa.Table) -> Groups:
    """Merge groups of one column of integers by sorting them."""
    keys, counts = table.column(0).combine_chunks(), np.asarray(table.column(_COUNT).combine_chunks())
    nulls = 0
    if keys.null_count:
        is_valid = np.asarray(keys.is_valid())
        nulls, counts = int(counts[~is_valid].sum()), counts[is_valid]
    valid = np.asarray(keys.drop_null())
    order = np.argsort(valid, kind="stable")
    valid, counts = valid[order], counts[order]
    starts = np.flatnonzero(np.diff(valid, prepend=valid[:1] - 1)) if len(valid) else np.zeros(0, np.int64)
    sums = np.add.reduceat(counts, starts) if len(starts) else counts
    return _one_column_groups(pa.array(valid[starts], pa.int64()), pa.array(sums, pa.int64()), nulls)


def _one_column_groups(keys: pa.Array, counts: pa.Array, null_count: int) -> Groups:
    """Make the groups of one column, with the group of NULL first."""
    if null_count:
        keys = pa.concat_arrays([pa.nulls(1, keys.type), keys])
        counts = pa.concat_arrays([pa.array([null_count], pa.int64()), counts])
    return make_groups([keys], counts)


def _ranks(keys: pa.Array, *, is_distinct: bool) -> npt.NDArray[np.generic]:
    """Return numbers in the order of keys; the numbers of nulls are undefined."""
    if keys.type == pa.int64():
        numbers: npt.NDArray[np.generic] = np.asarray(keys.fill_null(0))
        return numbers
    # keys of bytes that occur in many groups are compared once
    encoded = None if is_distinct else keys.dictionary_encode()
    distinct = keys if encoded is None else encoded.dictionary
    ranks = np.empty(len(distinct), np.int64)
    ranks[np.asarray(pc.sort_indices(distinct))] = np.arange(len(distinct))
    if encoded is None:
        return ranks
    # if all keys are null, there are no ranks
    row_ranks: npt.NDArray[np.generic] = np.append(ranks, 0)[
        np.asarray(encoded.indices.fill_null(len(distinct)))
    ]
    return row_ranks


def _keys(data_type: OrcType, array: pa.Array) -> pa.Array:
    valid = array.drop_null()
    keys = _as_arrow(array_keys(data_type, valid))
    return _scatter_valid(keys, array) if array.null_count else keys


def _scatter_valid(values: pa.Array, like: pa.Array) -> pa.Array:
    """Return an array with values at the non-null positions of ``like``, and nulls at the others."""
    is_valid = np.asarray(like.is_valid())
    return values.take(pa.array(np.cumsum(is_valid) - 1, pa.int64(), mask=~is_valid))


def _as_arrow(keys: KeyArray) -> pa.Array:
    return pa.array(keys, pa.int64()) if isinstance(keys, np.ndarray) else keys


def _key_type(data_type: OrcType) -> pa.DataType:
    return pa.int64() if key_kind(data_type) is KeyKind.INT64 else pa.large_binary()
