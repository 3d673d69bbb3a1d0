"""Skip whole data files on the driver, by the statistics and indexes of their stripes, before a file is opened.

Each source is a `FilePruner`. It answers a leaf for the stripes of many files at once. The answers are combined
over the filter as those of rows are: a file is skipped if none of its stripes may have a matching row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from hindex.domain import Domain
from hindex.errors import HindexError
from hindex.index.column_stats import Int64s, Mask
from hindex.index.index_type import Bounds, index_type
from hindex.keys import key_kind, same_keys
from hindex.lru_cache import cached_property
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.acid.row_keys import bucket_property
from hindex.orc.acid.schema import ROW_ID, ROW_ID_TYPE, is_row_key
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import AllOf, Always, AnyOf, Filter, Leaf, Never, columns
from hindex.scan.orc_statistics import StatisticsSource
from hindex.store.entry_table import EntryTable
from hindex.store.file_views import FileViews
from hindex.store.manifest import IndexEntry
from hindex.table.file_schema import recorded_type
from hindex.value_class import value_class

_LAST = 1000

Number = TypeVar("Number", np.int64, np.bool_)


class FileGroup:
    """Data files that are tested at once: files with entries in one segment, or files without usable entries.

    Args:
        views: the table's files.
        at: the positions of the group's files.
        table: the entries of a segment, or None.
        rows: the row of each file's entry in ``table``.
        time_indexes_apply: False if timestamps of files that name no time zone are instants that keys do not determine.
    """

    def __init__(
        self,
        views: FileViews,
        at: Int64s,
        table: EntryTable | None,
        rows: Int64s,
        *,
        time_indexes_apply: bool = True,
    ) -> None:
        self.views = views
        self.at = at
        self.table = table
        self.rows = rows
        self._time_indexes_apply = time_indexes_apply

    @cached_property
    def num_stripes(self) -> Int64s:
        """The number of stripes of each file; a file without entry counts as one stripe."""
        if self.table is None:
            return np.ones(len(self.at), np.int64)
        return self.table.num_stripes[self.rows]

    @cached_property
    def _stripe_at(self) -> Int64s | None:
        """Positions of the group's stripes among those of the segment; None if the group has all its files."""
        assert self.table is not None
        if len(self.rows) == len(self.table):
            return None
        starts = (self.table.stripe_ends - self.table.num_stripes)[self.rows]
        own_starts = np.cumsum(self.num_stripes) - self.num_stripes
        return np.repeat(starts - own_starts, self.num_stripes) + np.arange(self.num_stripes.sum())

    @cached_property
    def stripe_rows(self) -> Int64s:
        """The number of rows of each stripe, file by file."""
        return self.views.num_rows[self.at] if self.table is None else self.of_stripes(self.table.stripe_rows)

    def of_stripes(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Select the values of the group's stripes from those of all stripes of the segment."""
        return values if self._stripe_at is None else values[self._stripe_at]

    def by_stripe(self, of_files: Mask) -> Mask:
        """Repeat the flag of each file for its stripes."""
        return np.repeat(of_files, self.num_stripes)

    def any_stripe(self, mask: Mask) -> Mask:
        """Return a mask of the files with a flagged stripe."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(mask)])
        ends = np.cumsum(self.num_stripes)
        flagged: Mask = sums[ends] > sums[ends - self.num_stripes]
        return flagged

    def with_types(self, leaf: Leaf, binding: tuple[str, ...]) -> list[tuple[OrcType, Mask]]:
        """Return the recorded types of a leaf's column, each with a mask of the files that have it.

        Files that lack the column, or whose indexes cannot answer for it, are in no mask.
        """
        table = self.table
        if table is None:
            return []
        numbers = table.schema_numbers[self.rows]
        is_acid = np.zeros(len(self.at), np.bool_)
        if self.views.files.acids:
            is_acid = np.isin(self.at, list(self.views.files.acids))
        types = []
        for number in np.unique(numbers).tolist():
            for acid in (False, True):
                mask = (numbers == number) & (is_acid == acid)
                read = recorded_types(table.schemas[number], binding, leaf, acid) if mask.any() else ()
                if not read:
                    continue
                if not self._time_indexes_apply and any(item.kind is Kind.TIMESTAMP for item in read):
                    mask &= ~table.lacks_time_zone[self.rows]
                types.append((read[0] if leaf.condition is None else leaf.type, mask))
        return types


def recorded_types(
    schema: str, binding: tuple[str, ...], leaf: Leaf, transactional: bool
) -> tuple[OrcType, ...]:
    """Return the types of a leaf's columns in a file of a recorded schema; () if it lacks one of them."""
    names = (leaf.column,) if leaf.condition is None else columns(leaf.condition)
    types = [recorded_type(schema, binding, name, transactional) for name in names]
    return tuple(item for item in types if item is not None) if None not in types else ()


@dataclass(slots=True)
class StripeAnswer:
    """The answer of one index, or of the file's partition, to a leaf for the stripes of a group.

    Attributes:
        files: a mask of the files that the answer is for.
        lower: a mask of the stripes in which every row certainly matches.
        upper: a mask of the stripes in which some row may match.
    """

    by: str | StatisticsSource
    files: Mask
    lower: Mask
    upper: Mask


class FilePruner(Protocol):
    """A source by which the driver rules out data files."""

    def answers(self, group: FileGroup, leaf: Leaf, wanted: Mask) -> Iterator[StripeAnswer]:
        """Yield the answers of each index to a leaf; nothing if there are none.

        Args:
            wanted: a mask of the files to answer for. The caller removes files from it between two answers.
        """
        ...


@value_class
class LeafTotals:
    """The answers to a leaf for all skipped files.

    Args:
        rows: the number of rows that may match by all answers together.
        exact: whether all of these rows certainly match.
        by_source: the number of rows that may match by each source and the sources before it.
    """

    rows: int
    exact: bool
    by_source: Mapping[str | StatisticsSource, int]


@value_class
class SkippedFiles:
    """The data files in which no row can match.

    Args:
        positions: the positions of the files in the table.
        leaves: the totals of each leaf.
    """

    positions: tuple[int, ...] = ()
    leaves: Mapping[Leaf, LeafTotals] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def indexes(self) -> Iterator[str]:
        """The names of the indexes that answered."""
        for totals in self.leaves.values():
            yield from (by for by in totals.by_source if not isinstance(by, StatisticsSource))


#: A leaf, the combined answer of a source and those before it, and a mask of the files that any of them covers.
_Answered = tuple[Leaf, StripeAnswer, Mask]


class FileSkipper:
    """The skipped files of a scan, and the totals of the pruners' answers for them."""

    def __init__(self, pruners: Sequence[FilePruner]) -> None:
        self._pruners = pruners
        self._rows: dict[Leaf, int] = {}
        self._inexact: set[Leaf] = set()
        self._by_source: dict[Leaf, dict[str | StatisticsSource, int]] = {}
        self._positions: list[int] = []

    def skipped(self) -> SkippedFiles:
        """Return the files skipped so far."""
        leaves = {
            leaf: LeafTotals(rows, leaf not in self._inexact, self._by_source[leaf])
            for leaf, rows in self._rows.items()
        }
        return SkippedFiles(tuple(sorted(self._positions)), leaves)

    def keep(self, root: Filter, group: FileGroup) -> Mask:
        """Return a mask of the files in which some row may match a filter, and count the others as skipped."""
        answers: list[_Answered] = []
        _, upper = _combine(root, group, lambda leaf, wanted: self._answer(group, leaf, wanted, answers))
        kept: Mask = group.any_stripe(upper) | (group.num_stripes == 0)
        if not kept.all():
            self._add(group, ~kept, answers)
        return kept

    def _answer(
        self,
        group: FileGroup,
        leaf: Leaf,
        wanted: Mask,
        answers: list[_Answered],
    ) -> tuple[Mask, Mask]:
        """Return the combined answer of all pruners to a leaf."""
        lower = np.zeros(len(group.stripe_rows), np.bool_)
        upper = ~lower
        answered = np.zeros(len(group.at), np.bool_)
        wanted = wanted.copy()
        for pruner in self._pruners:
            if not wanted.any():
                break
            for answer in pruner.answers(group, leaf, wanted):
                files = answer.files & wanted
                stripes = group.by_stripe(files)
                lower = lower | (stripes & answer.lower)
                upper = upper & (~stripes | answer.upper)
                answered = answered | files
                answers.append((leaf, StripeAnswer(answer.by, files, lower, upper), answered))
                # files without remaining stripes need no further answers
                wanted &= ~files | group.any_stripe(upper)
        return lower, upper

    def _add(
        self,
        group: FileGroup,
        skipped: Mask,
        answers: Sequence[_Answered],
    ) -> None:
        self._positions += group.at[skipped].tolist()
        last: dict[Leaf, tuple[StripeAnswer, Mask]] = {}
        for leaf, answer, answered in answers:
            files = answer.files & skipped
            if not files.any():
                continue
            by_source = self._by_source.setdefault(leaf, {})
            rows = int(group.stripe_rows[group.by_stripe(files) & answer.upper].sum())
            by_source[answer.by] = by_source.get(answer.by, 0) + rows
            last[leaf] = answer, answered
        for leaf, (answer, answered) in last.items():
            stripes = group.by_stripe(answered & skipped)
            rows = int(group.stripe_rows[stripes & answer.upper].sum())
            self._rows[leaf] = self._rows.get(leaf, 0) + rows
            if (answer.upper & ~answer.lower & stripes).any():
                self._inexact.add(leaf)


@dataclass(slots=True)
class _OpenGroup:
    """An AND or OR of a filter whose children are being evaluated.

    Attributes:
        waiting: the remaining children, last first.
        lower, upper: the answer so far; None before the first child's.
        wanted: a mask of the files whose result the AND or OR may change.
    """

    kind: type[AllOf] | type[AnyOf]
    waiting: list[Filter]
    wanted: Mask
    lower: Mask | None = None
    upper: Mask | None = None

    def add(self, lower: Mask, upper: Mask) -> tuple[Mask, Mask]:
        """Combine the answer with that of the next child."""
        if self.lower is not None and self.upper is not None:
            if self.kind is AllOf:
                lower, upper = self.lower & lower, self.upper & upper
            else:
                lower, upper = self.lower | lower, self.upper | upper
        self.lower, self.upper = lower, upper
        return lower, upper


def _combine(
    root: Filter,
    group: FileGroup,
    answer: Callable[[Leaf, Mask], tuple[Mask, Mask]],
    wanted: Mask | None = None,
) -> tuple[Mask, Mask]:
    """Evaluate a filter on stripes. It recurses into the condition of a leaf, and not into AND and OR.

    Args:
        answer: evaluates a leaf; called with a mask of the files whose result the leaf may still change.
        wanted: a mask of the files whose result the caller needs, all by default.

    Returns:
        a mask of the stripes in which every row certainly matches, and one of those in which some row may match.
    """
    count = len(group.stripe_rows)
    open_groups: list[_OpenGroup] = []
    wanted = np.ones(len(group.at), np.bool_) if wanted is None else wanted
    node = root
    while True:
        if isinstance(node, AllOf | AnyOf):
            open_groups.append(_OpenGroup(type(node), list(reversed(node.children)), wanted))
            node = open_groups[-1].waiting.pop()
            continue
        if isinstance(node, Leaf):
            lower, upper = answer(node, wanted)
            if node.is_superset:
                lower = np.zeros(count, np.bool_)
            unsettled = wanted & group.any_stripe(upper & ~lower)
            if node.condition is not None and unsettled.any():
                also_lower, also_upper = _combine(node.condition, group, answer, unsettled)
                lower, upper = lower | also_lower, upper & also_upper
        else:
            lower = np.full(count, isinstance(node, Always))
            upper = np.full(count, not isinstance(node, Never))
        while open_groups:
            current = open_groups[-1]
            lower, upper = current.add(lower, upper)
            # a file is settled if no stripe may match (AND), or if every stripe matches (OR)
            unsettled = group.any_stripe(upper if current.kind is AllOf else ~lower)
            wanted = current.wanted & unsettled
            if current.waiting and wanted.any():
                node = current.waiting.pop()
                break
            open_groups.pop()
        else:
            return lower, upper


class ManifestStatistics:
    """The manifest's column statistics of stripes.

    Args:
        indexes: the table's indexes by column.
        binding: the table's data columns.
    """

    def __init__(self, indexes: Mapping[str, Sequence[IndexEntry]], binding: tuple[str, ...]) -> None:
        self._indexes = {column: sorted(entries, key=_order) for column, entries in indexes.items()}
        self._binding = binding
        self._matches: dict[tuple[EntryTable, str, Domain], tuple[Mask, Mask, Mask]] = {}

    def answers(self, group: FileGroup, leaf: Leaf, wanted: Mask) -> Iterator[StripeAnswer]:
        table = group.table
        if table is None:
            return
        for index in self._indexes.get(leaf.column, ()):
            stats = table.stats(index.id)
            if stats is None:
                continue
            usable = np.zeros(len(group.at), np.bool_)
            for recorded, files in group.with_types(leaf, self._binding):
                if same_keys(recorded, leaf.type):
                    usable |= files
            key = table, index.id, leaf.domain
            if key not in self._matches:
                self._matches[key] = self._match(table, index.id, leaf)
            files, lower, upper = self._matches[key]
            usable &= files[group.rows]
            if (usable & wanted).any():
                yield StripeAnswer(index.name, usable, group.of_stripes(lower), group.of_stripes(upper))

    @staticmethod
    def _match(table: EntryTable, index_id: str, leaf: Leaf) -> tuple[Mask, Mask, Mask]:
        """Return a mask of the files of a segment with statistics of an index, and their answer for all stripes."""
        stats, numbers = table.stats(index_id) or (None, None)
        assert stats is not None
        assert numbers is not None
        kind = key_kind(leaf.type)
        files = numbers >= 0
        stripes = np.repeat(files, table.num_stripes)
        lower, upper = np.zeros(len(stripes), np.bool_), np.ones(len(stripes), np.bool_)
        lower[stripes], upper[stripes] = stats.match(leaf.domain, kind)
        files[files] = stats.has_keys_of(kind)
        return files, lower, upper


def _order(entry: IndexEntry) -> int:
    """Return the lookup order of an index among those of a column; later indexes are more precise."""
    try:
        return index_type(entry.type).order
    except HindexError:
        # an index type of another version: its statistics are usable all the same
        return _LAST


def is_as_precise(entry: IndexEntry, as_other: IndexEntry) -> bool:
    """Return True if an index answers at least as precisely as another one on the same column."""
    try:
        one, other = index_type(entry.type), index_type(as_other.type)
    except HindexError:
        return False
    return one.order >= other.order and one.operators >= other.operators


class RowIdBounds:
    """Bounds of the row keys of original files, from their paths; they need no index.

    Args:
        binding: the table's data columns.
    """

    def __init__(self, binding: tuple[str, ...]) -> None:
        self._binding = binding

    def answers(self, group: FileGroup, leaf: Leaf, wanted: Mask) -> Iterator[StripeAnswer]:
        """Yield an answer for the files in which all rows match, or none."""
        acids = group.views.files.acids
        if not acids or not is_row_key(leaf.column, self._binding):
            return
        files, every, some = (np.zeros(len(group.at), np.bool_) for _ in range(3))
        for place in np.flatnonzero(wanted).tolist():
            at = int(group.at[place])
            num_rows = int(group.views.num_rows[at])
            rows = row_id_bounds(leaf.column, leaf.domain, acids[at], 0, num_rows) if at in acids else None
            if rows is not None:
                every[place], some[place] = len(rows.lower) == num_rows, bool(rows.upper)
                files[place] = every[place] or not some[place]
        if files.any():
            yield StripeAnswer(StatisticsSource.PLACE, files, group.by_stripe(every), group.by_stripe(some))


def row_id_bounds(column: str, domain: Domain, file: AcidFile, first_row: int, rows: int) -> Bounds | None:
    """Return the rows of a stripe whose row key, or field of it, is in a domain; None if it cannot be determined.

    Args:
        column: the key, or the field by its dotted path, as `hindex.orc.acid.schema.row_key` gives it.
        file: the file; for a file that is not flat, the answer is None.
        first_row: the number of the stripe's first row in the file.
    """
    if file.bucket is None or file.first_row_id is None:
        # not determined here: reading the key fails with the reason
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
