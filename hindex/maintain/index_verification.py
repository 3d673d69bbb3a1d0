"""Verify index contents in prove mode: compare recorded keys and statistics with the values read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from hindex.aggregate.groups import groups_from_key_counts, groups_from_values, sort_groups
from hindex.aggregate.top_n import recorded_extents
from hindex.domain import Domain
from hindex.errors import IndexFileError
from hindex.index.column_stats import ColumnStats, array_stats, merge_stats
from hindex.index.index_type import Bounds, KeyedReader
from hindex.keys import array_keys, key_kind, key_list
from hindex.plan.filter import Leaf
from hindex.scan.open_task import OpenTask
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import OutputColumn, StripeResult


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


def wrong_indexes(
    plan: ScanPlan, opened: OpenTask, truth: StripeResult, column: OutputColumn, array: pa.Array
) -> tuple[str, ...] | None:
    """The indexes that know a column's values wrong; none of them where it is the file itself, None if all is right.

    :param truth: the rows of a stripe that are wanted.
    :param array: the column's values in these rows.
    """
    found: dict[str, None] = {}
    is_file_wrong = False
    numbers = np.asarray(truth.bounds.lower.to_array())
    valid = BitMap(numbers[np.asarray(array.is_valid())])
    leaf = Leaf(column.name, column.type, Domain.not_null())
    for name, told in opened.lookup_each(truth.stripe, leaf):
        if not _holds(told, truth.bounds.lower, valid):
            found[name] = None
    if not _holds(opened.bounds_of(truth.stripe, column, leaf.domain), truth.bounds.lower, valid):
        is_file_wrong = not found
    # what is stored of instants is not what is read
    if key_kind(column.type) is not None and plan.are_keys(column):
        true = array_stats(column.type, array)
        for by, ends in opened.every_ends(truth.stripe, column):
            if len(numbers) < truth.num_rows:
                break
            known = ends.low is None or (ends.low, ends.high) == (true.min_key, true.max_key)
            if known and ends.null_count == true.null_count:
                continue
            if isinstance(by, StatisticsSource):
                is_file_wrong = True
            else:
                found[by] = None
        for name, extent in _recorded(plan, opened, truth.stripe, column):
            if not _reaches(extent, true):
                found[name] = None
        keyed = opened.keyed(column.name)
        if keyed is not None:
            name, reader = keyed
            try:
                if not _has_keys(reader, truth, column, array):
                    found[name] = None
            except IndexFileError as error:
                opened.give_up(column.name, name, error)
    return tuple(found) if found or is_file_wrong else None


def _holds(told: Bounds, rows: BitMap, valid: BitMap) -> bool:
    return (told.lower & rows) <= valid <= told.upper


def _recorded(
    plan: ScanPlan, opened: OpenTask, stripe: int, column: OutputColumn
) -> Iterator[tuple[str, ColumnStats]]:
    """Yield the manifest's statistics of a stripe, with the index that recorded them."""
    view = next(view for view in plan.snapshot.files if view.file.path == opened.task.path)
    if opened.is_fresh:
        for name, extents in recorded_extents(plan, view, opened.task, column):
            if stripe < len(extents):
                yield name, extents[stripe]


def _reaches(extent: ColumnStats, true: ColumnStats) -> bool:
    """Return True if statistics, whose bounds may be truncated, cover the true ones."""
    both = merge_stats((extent, true))
    return extent.null_count >= true.null_count and both == replace(
        extent, rows=both.rows, null_count=both.null_count
    )


def _has_keys(reader: KeyedReader, truth: StripeResult, column: OutputColumn, array: pa.Array) -> bool:
    """Return True if an index has exactly the keys of the rows, with their counts and row numbers."""
    rows = truth.bounds.lower
    told = reader.key_counts(truth.stripe, rows)
    if groups_from_key_counts(told) != sort_groups(groups_from_values([column.type], [array])):
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
    listed = np.concatenate([np.zeros(0, np.uint32), *(part.rows for part in parts)])
    walked = [key for part in parts for key in key_list(part.keys)]
    return walked == key_list(told.keys) and np.array_equal(listed, numbers[is_valid][order])


def _bits(array: pa.Array) -> pa.Array:
    of = _as_integers(array.type)
    return array if of == array.type else array.view(of)


def _as_integers(data_type: pa.DataType) -> pa.DataType:
    """A type of the same layout with integers for floating-point numbers."""
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
