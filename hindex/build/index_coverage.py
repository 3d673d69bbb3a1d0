"""The data files that an index should cover, and those that it does, as masks over all files of a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindex.build.key_types import has_current_keys, has_keys_of_type, has_recorded_keys
from hindex.index.column_stats import Mask
from hindex.plan.filter import Filter, Never
from hindex.plan.filter_evaluation import prune
from hindex.plan.index_columns import IndexColumn
from hindex.store.manifest import IndexEntry
from hindex.store.snapshot import Snapshot, is_indexable


@dataclass(frozen=True)
class IndexCoverage:
    """Masks over the files of a snapshot.

    Attributes:
        lacking: files in the partitions of the index that do not have its column in a type that can be indexed.
        wanted: the other files in its partitions, which it should cover.
        indexed: wanted files for which it has an index file, fresh or stale.
        is_current: indexed files whose keys have the column's current type.
    """

    lacking: Mask
    wanted: Mask
    indexed: Mask
    is_current: Mask


def covered_files(snapshot: Snapshot, where: Filter) -> Mask:
    """Return a mask of the files in the partitions of a filter."""
    files = snapshot.views.files
    keys = map(snapshot.listing.partitioning.keys, files.partitions)
    is_covered = [not isinstance(prune(where, partition), Never) for partition in keys]
    covered: Mask = np.array(is_covered, np.bool_)[files.partition_numbers]
    return covered


def index_coverage(
    snapshot: Snapshot, index: IndexEntry, column: IndexColumn | None, where: Filter
) -> IndexCoverage:
    """Compare an index with the files of its table.

    Args:
        column: its column in the table; None if the table no longer has it.
        where: the partitions that it covers.
    """
    views = snapshot.views
    files, kinds = views.files, views.kinds
    binding = tuple(item.name for item in snapshot.schema.data_columns)
    has_column = [
        kind.has_column(binding, index.column)
        if column is None
        else all(is_indexable(kind, snapshot, binding, item) for item in column.inputs)
        for kind in kinds
    ]
    in_partitions = covered_files(snapshot, where)
    wanted = in_partitions & np.array(has_column, np.bool_)[views.kind_numbers]
    indexed, is_current = np.zeros(len(views), np.bool_), np.zeros(len(views), np.bool_)
    is_acid = np.zeros(len(views), np.bool_)
    is_acid[list(files.acids)] = True
    for table, at, rows in views.by_segment():
        entries, numbers = table.shared_of(index.id)
        is_shared = numbers[rows] >= 0
        indexed[at] = wanted[at] & (is_shared | table.has_own_file(index.id)[rows])
        if column is None:
            is_current[at] = indexed[at]
            continue
        fits = [has_keys_of_type(item, column.type) for item in entries]
        # number -1 selects this last element
        is_current[at] = np.array([*fits, False], np.bool_)[numbers[rows]]
        own = indexed[at] & ~is_shared
        plain = own & ~is_acid[at]
        fits = [has_recorded_keys(schema, index, column, binding) for schema in table.schemas]
        is_current[at[plain]] = np.array(fits, np.bool_)[table.schema_numbers[rows[plain]]]
        others = at[own & ~is_current[at]].tolist()
        for place, view in zip(others, views.views(others), strict=True):
            is_current[place] = has_current_keys(view, index, column, binding, snapshot.store)
    return IndexCoverage(in_partitions & ~wanted, wanted, indexed, indexed & is_current)
