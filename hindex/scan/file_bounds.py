"""Skipping whole data files by what the driver knows of their stripes, before anything of them is opened.

Whatever knows something is a :class:`FileBounds`. It answers a leaf for a file with bounds of *stripe* numbers, which
are combined over the predicate as bounds of rows are: a file without a stripe that may have a wanted row is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError
from hindex.index.column_stats import are_of_kind
from hindex.index.index_type import Bounds, index_type
from hindex.keys import key_kind, same_keys
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Filter, Leaf
from hindex.plan.filter_evaluation import bounds
from hindex.scan.orc_answers import StatisticsSource
from hindex.scan.stripe_results import LeafResult
from hindex.store.extents import ExtentColumn, Mask, StoredExtents
from hindex.store.manifest import FileEntry, IndexEntry
from hindex.store.snapshot import FileView
from hindex.table.paths import bind_paths
from hindex.table.type_text import parse_type

_LAST = 1000


@dataclass(frozen=True, slots=True)
class StripeBounds:
    """The answer of one index, or of the file's partition, to a leaf for one data file.

    ``bounds`` are numbers of stripes: of those where every row is certainly wanted, and those where some may be.
    """

    by: str | StatisticsSource
    bounds: Bounds


class FileBounds(Protocol):
    """Something that the driver knows of data files.

    :ivar needs_entry: whether only of files that are as they were indexed.
    """

    needs_entry: bool

    def lookup(self, view: FileView, leaf: Leaf) -> Iterable[StripeBounds]:
        """Yield the answers of the indexes to a leaf for a file; nothing if there are none."""
        ...


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A data file in which no row can match, and what each source said of it, as if its stripes were one."""

    path: str
    answers: tuple[LeafResult, ...]


def skip_file(root: Filter, view: FileView, sources: Sequence[FileBounds]) -> SkippedFile | None:
    """Return the reason to skip a file, or None if it must be read.

    :param root: the filter on the file's columns, its partition's values decided.
    """
    entry = view.entry if view.is_certainly_fresh else None
    asked = [source for source in sources if entry is not None or not source.needs_entry]
    if not asked or not view.num_stripes:
        return None
    answers: list[LeafResult] = []

    def rows_in(stripes: BitMap) -> int:
        if entry is None or len(stripes) == view.num_stripes:
            # only an entry tells stripes from each other
            return view.num_rows if stripes else 0
        return sum(entry.stripe_rows[stripe] for stripe in stripes)

    def lookup(leaf: Leaf) -> Bounds | None:
        combined: Bounds | None = None
        for source in asked:
            for found in source.lookup(view, leaf):
                combined = found.bounds if combined is None else combined.narrowed(found.bounds)
                rows = rows_in(combined.upper)
                index, place = (
                    (None, found.by) if isinstance(found.by, StatisticsSource) else (found.by, None)
                )
                answers.append(LeafResult(leaf, index, rows, combined.exact, place))
                if not rows:
                    return combined
        return combined

    if bounds(root, lookup, view.num_stripes).upper:
        return None
    return SkippedFile(view.file.path, tuple(answers))


class ManifestExtents:
    """Column statistics of stripes from the manifest.

    :param indexes: the table's indexes by column.
    :param binding: the table's data columns.
    """

    needs_entry = True

    def __init__(self, indexes: Mapping[str, Sequence[IndexEntry]], binding: tuple[str, ...]) -> None:
        self._indexes = {column: sorted(found, key=_order) for column, found in indexes.items()}
        self._binding = binding
        self._masks: dict[tuple[ExtentColumn, Domain], Mask] = {}

    def lookup(self, view: FileView, leaf: Leaf) -> Iterable[StripeBounds]:
        assert view.entry is not None
        for index in self._indexes.get(leaf.column, ()):
            file = view.entry.index_file(index.id)
            if file is None or not file.extents or not self._has_keys_of(view, view.entry, leaf):
                continue
            if isinstance(file.extents, StoredExtents) and not self._may_match(file.extents, leaf):
                yield StripeBounds(index.name, Bounds.none())
                continue
            if not are_of_kind(file.extents, key_kind(leaf.type)):
                continue  # whatever wrote them, they tell nothing of the leaf
            lower, upper = BitMap(), BitMap()
            for number, extent in enumerate(file.extents):
                if extent.can_match(leaf.domain):
                    upper.add(number)
                    if extent.all_match(leaf.domain):
                        lower.add(number)
            yield StripeBounds(index.name, Bounds(lower, upper))

    def _may_match(self, extents: StoredExtents, leaf: Leaf) -> bool:
        """Return True if some stripe of a file may have a member.

        One check covers all files of a segment.
        """
        key = extents.column, leaf.domain
        if key not in self._masks:
            self._masks[key] = extents.column.may_match(leaf.domain, key_kind(leaf.type))
        return bool(self._masks[key][extents.file])

    def _has_keys_of(self, view: FileView, entry: FileEntry, leaf: Leaf) -> bool:
        """Return True if the recorded keys of a file have the kind that the leaf's type needs."""
        transactional = view.file.acid is not None
        of = recorded_type(entry.schema, self._binding, leaf.column, transactional)
        return of is not None and same_keys(of, leaf.type)


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


@lru_cache(maxsize=256)
def recorded_type(schema: str, binding: tuple[str, ...], column: str, transactional: bool) -> OrcType | None:
    """The type that a file of a recorded schema has for a column of the table."""
    try:
        found = bind_paths(binding, parse_type(schema), [column], transactional=transactional).get(column)
    except ValueError:
        return None
    return None if found is None else found.type
