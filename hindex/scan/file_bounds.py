"""Skipping whole data files by what the driver knows of their stripes, before anything of them is opened.

Whatever knows something is a `FileBounds`. It answers a leaf for a file with bounds of *stripe* numbers, which
are combined over the predicate as bounds of rows are: a file without a stripe that may have a wanted row is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError
from hindex.index.column_stats import Mask, StatsColumn, StoredStats, are_of_kind
from hindex.index.index_type import Bounds, index_type
from hindex.keys import key_kind, same_keys
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.acid.row_keys import bucket_property
from hindex.orc.acid.schema import ROW_ID, ROW_ID_TYPE, is_row_key
from hindex.plan.filter import Filter, Leaf
from hindex.plan.filter_evaluation import bounds
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.scan_task import LeafResult
from hindex.store.manifest import FileEntry, IndexEntry
from hindex.store.snapshot import FileView
from hindex.table.file_schema import recorded_type
from hindex.value_class import value_class

_LAST = 1000


@value_class
class StripeBounds:
    """The answer of one index, or of the file's partition, to a leaf for one data file.

    ``bounds`` are numbers of stripes: of those where every row is certainly wanted, and those where some may be.
    """

    by: str | StatisticsSource
    bounds: Bounds


class FileBounds(Protocol):
    """Something that the driver knows of data files.

    Attributes:
        needs_entry: whether only of files that are as they were indexed.
    """

    needs_entry: bool

    def lookup(self, view: FileView, leaf: Leaf) -> Iterable[StripeBounds]:
        """Yield the answers of the indexes to a leaf for a file; nothing if there are none."""
        ...


@value_class
class SkippedFile:
    """A data file in which no row can match, and what each source said of it, as if its stripes were one."""

    path: str
    leaf_results: tuple[LeafResult, ...]


def skip_file(root: Filter, view: FileView, sources: Sequence[FileBounds]) -> SkippedFile | None:
    """Return the reason to skip a file, or None if it must be read.

    Args:
        root: the filter on the file's columns, its partition's values decided.
    """
    entry = view.entry if view.is_certainly_fresh else None
    usable = [source for source in sources if entry is not None or not source.needs_entry]
    if not usable or not view.num_stripes:
        return None
    leaf_results: list[LeafResult] = []

    def rows_in(stripes: BitMap) -> int:
        if entry is None or len(stripes) == view.num_stripes:
            # only an entry tells stripes from each other
            return view.num_rows if stripes else 0
        return sum(entry.stripe_rows[stripe] for stripe in stripes)

    def lookup(leaf: Leaf) -> Bounds | None:
        combined: Bounds | None = None
        for source in usable:
            for stripe_bounds in source.lookup(view, leaf):
                combined = stripe_bounds.bounds if combined is None else combined.refine(stripe_bounds.bounds)
                rows = rows_in(combined.upper)
                index, place = (
                    (None, stripe_bounds.by)
                    if isinstance(stripe_bounds.by, StatisticsSource)
                    else (stripe_bounds.by, None)
                )
                leaf_results.append(LeafResult(leaf, index, rows, combined.exact, place))
                if not rows:
                    return combined
        return combined

    if bounds(root, lookup, view.num_stripes).upper:
        return None
    return SkippedFile(view.file.path, tuple(leaf_results))


class ManifestStatistics:
    """Column statistics of stripes from the manifest.

    Args:
        indexes: the table's indexes by column.
        binding: the table's data columns.
    """

    needs_entry = True

    def __init__(self, indexes: Mapping[str, Sequence[IndexEntry]], binding: tuple[str, ...]) -> None:
        self._indexes = {column: sorted(entries, key=_order) for column, entries in indexes.items()}
        self._binding = binding
        self._masks: dict[tuple[StatsColumn, Domain], Mask] = {}

    def lookup(self, view: FileView, leaf: Leaf) -> Iterable[StripeBounds]:
        assert view.entry is not None
        for index in self._indexes.get(leaf.column, ()):
            file = view.entry.index_file(index.id)
            if file is None or not file.stripe_stats or not self._has_keys_of(view, view.entry, leaf):
                continue
            if isinstance(file.stripe_stats, StoredStats) and not self._may_match(file.stripe_stats, leaf):
                yield StripeBounds(index.name, Bounds.none())
                continue
            if not are_of_kind(file.stripe_stats, key_kind(leaf.type)):
                continue  # whatever wrote them, they tell nothing of the leaf
            lower, upper = BitMap(), BitMap()
            for number, stats in enumerate(file.stripe_stats):
                if stats.can_match(leaf.domain):
                    upper.add(number)
                    if stats.all_match(leaf.domain):
                        lower.add(number)
            yield StripeBounds(index.name, Bounds(lower, upper))

    def _may_match(self, stored: StoredStats, leaf: Leaf) -> bool:
        """Return True if some stripe of a file may have a member.

        One check covers all files of a segment.
        """
        key = stored.column, leaf.domain
        if key not in self._masks:
            self._masks[key] = stored.column.may_match(leaf.domain, key_kind(leaf.type))
        return bool(self._masks[key][stored.file])

    def _has_keys_of(self, view: FileView, entry: FileEntry, leaf: Leaf) -> bool:
        """Return True if the recorded keys of a file have the kind that the leaf's type needs."""
        transactional = view.file.acid is not None
        file_type = recorded_type(entry.schema, self._binding, leaf.column, transactional)
        return file_type is not None and same_keys(file_type, leaf.type)


def _order(entry: IndexEntry) -> int:
    """Return the lookup order of an index among those of a column: the later, the more precise."""
    try:
        return index_type(entry.type).order
    except HindexError:
        # of a type that is not known here: its extents say what they say
        return _LAST


def is_as_precise(entry: IndexEntry, as_other: IndexEntry) -> bool:
    """Return True if an index answers at least as precisely as another one on the same column."""
    try:
        one, other = index_type(entry.type), index_type(as_other.type)
    except HindexError:
        return False
    return one.order >= other.order and one.operators >= other.operators


class RowIdBounds:
    """Bounds of the row keys of original files, indexed or not, from their place.

    Args:
        binding: the table's data columns.
    """

    needs_entry = False

    def __init__(self, binding: tuple[str, ...]) -> None:
        self._binding = binding

    def lookup(self, view: FileView, leaf: Leaf) -> Iterator[StripeBounds]:
        """All stripes of a file, or none, where that is known of all its rows."""
        acid = view.file.acid
        if acid is None or not is_row_key(leaf.column, self._binding):
            return
        rows = row_id_bounds(leaf.column, leaf.domain, acid, 0, view.num_rows)
        if rows is None:
            return
        if not rows.upper:
            yield StripeBounds(StatisticsSource.PLACE, Bounds.none())
        elif len(rows.lower) == view.num_rows:
            yield StripeBounds(StatisticsSource.PLACE, Bounds.all(view.num_stripes))


def row_id_bounds(column: str, domain: Domain, file: AcidFile, first_row: int, rows: int) -> Bounds | None:
    """The rows of a stripe whose row key, or field of it, is in a domain; None where that is not known.

    Args:
        column: the key, or the field by its dotted path, as `hindex.orc.acid.schema.row_key` gives it.
        file: its place; that of a file which is not flat tells nothing.
        first_row: the stripe's first row, counted through the file.
    """
    if file.bucket is None or file.first_row_id is None:
        # to read the key tells that there is none
        return None
    if column == ROW_ID:
        # it can only be tested for NULL
        return Bounds.all(rows) if domain.ranges else Bounds.none()
    first = file.first_row_id + first_row
    write_id, bucket, row_id = (f"{ROW_ID}.{name}" for name in ROW_ID_TYPE.field_names)
    constants = {write_id: file.write_id, bucket: bucket_property(file.bucket, file.statement)}
    if column in constants:
        return Bounds.all(rows) if domain.contains(constants[column]) else Bounds.none()
    if column != row_id:
        return None
    matching = BitMap()
    for item in domain.ranges:
        low = 0 if item.low is None else int(item.low) - first
        high = rows - 1 if item.high is None else int(item.high) - first
        if low < rows and high >= 0:
            matching.add_range(max(low, 0), min(high, rows - 1) + 1)
    return Bounds.exactly(matching)
