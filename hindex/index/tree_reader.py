"""Looking up keys in leaf pages: what BITMAP and BTREE files have in common.

The inner level is a ``BTrees`` tree in memory from each leaf's lower bound to the leaf's ordinal. A lookup walks
it to learn which leaves some ranges touch, fetches those that are not cached in one read, and the outside bitmaps
they point to in a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from BTrees.LLBTree import LLBTree
from BTrees.OOBTree import OOBTree
from pyroaring import BitMap

from hindex.domain import Key, Range
from hindex.index import roaring
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.index_type import KeyRows, LookupCost
from hindex.index.leaf_page import LeafPage, OverflowRows
from hindex.keys import INT64_MAX, INT64_MIN, KeyArray, KeyKind

#: Inline rows of a key from which on its row set is kept once it was unpacked.
_MANY_ROWS = 1024
#: How many rows of a bitmap take as long as one that is unpacked.
_BITMAP_GAIN = 16


@dataclass(slots=True)
class KeySelection:
    """The keys of one leaf that a lookup needs: all or some."""

    whole: bool = False
    points: list[Key] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


class TreeReader:
    """The leaves of one tree, in key order: their places, keys, rows, and lower bounds.

    :param total: rows are numbers below it.
    :param shared_rows: whether a row may belong to several keys.
    :raises ValueError: if the lists contradict each other.
    """

    def __init__(
        self,
        file: IndexFileReader,
        *,
        total: int,
        leaves: list[PageRef],
        leaf_keys: Sequence[int],
        leaf_rows: Sequence[int],
        bounds: list[Key],
        shared_rows: bool = False,
    ) -> None:
        if not len(leaves) == len(leaf_keys) == len(leaf_rows) == len(bounds):
            raise ValueError("its lists are not of one length")
        if any(a >= b for a, b in pairwise(bounds)):  # type: ignore[operator]
            raise ValueError("its leaves are not in order")
        if not all(0 < keys <= rows for keys, rows in zip(leaf_keys, leaf_rows, strict=True)):
            raise ValueError("a leaf without keys, or with more keys than rows")
        self._file = file
        self._kind = file.footer.key_kind
        self._total = total
        self._shared_rows = shared_rows
        self._leaves = leaves
        self._leaf_keys = list(leaf_keys)
        # rows of the leaves before each
        self._rows_before = [0]
        for held in leaf_rows:
            self._rows_before.append(self._rows_before[-1] + held)
        self._bounds = bounds
        entries = list(zip(bounds, range(len(bounds)), strict=True))
        self._tree: Any = LLBTree(entries) if self._kind is KeyKind.INT64 else OOBTree(entries)

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def kind(self) -> KeyKind:
        return self._kind

    def wanted(self, ranges: tuple[Range, ...]) -> dict[int, KeySelection]:
        """The leaves that sorted, disjoint ranges touch, in order, and what is wanted of each."""
        if self._kind is KeyKind.INT64:
            ranges = clipped(ranges)
        if not self._leaves:
            return {}
        found: dict[int, KeySelection] = {}
        bounds = self._bounds
        points = [item.low for item in ranges if item.low is not None and item.is_point]
        at = 0
        while at < len(points):
            number = self._leaf_of(points[at])
            following = bounds[number + 1] if number + 1 < len(bounds) else None
            end = len(points) if following is None else bisect_left(points, following, lo=at)
            if points[end - 1] >= bounds[0]:  # type: ignore[operator]
                found.setdefault(number, KeySelection()).points.extend(points[at:end])
            at = end
        for item in ranges:
            if item.is_point:
                continue
            start = None if item.low is None else bounds[self._leaf_of(item.low)]
            touched = self._tree.values(min=start, max=item.high, excludemax=not item.high_inclusive)
            for number in touched:
                part = found.setdefault(number, KeySelection())
                if self._inside(number, item):
                    part.whole = True
                else:
                    part.ranges.append(item)
        return dict(sorted(found.items()))

    def count_rows(self, wanted: Mapping[int, KeySelection]) -> int:
        """Rows of the keys that are wanted, each counted once for each of its keys; single keys are left out.

        :raises IndexFileError: if a leaf that is wanted in part is corrupt.
        """
        before = self._rows_before
        total = sum(before[number + 1] - before[number] for number, part in wanted.items() if part.whole)
        parts = {number: part for number, part in wanted.items() if part.ranges and not part.whole}
        for leaf, part in zip(self.leaves(list(parts)), parts.values(), strict=True):
            total += sum(int(leaf.counts[start:end].sum()) for start, end in leaf.spans(part.ranges))
        return total

    def rows(self, wanted: Mapping[int, KeySelection]) -> BitMap:
        """The rows of the keys that are wanted: may be shared with other lookups, and must not be changed.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        inline: list[npt.NDArray[np.uint32]] = []
        outside: list[OverflowRows] = []
        for leaf, (number, part) in zip(self.leaves(list(wanted)), wanted.items(), strict=True):
            spans = [(0, len(leaf.keys))] if part.whole else leaf.spans(part.ranges)
            if len(spans) == 1 and not part.points:
                ((start, end),) = spans
                inline.append(leaf.rows(start, end))
                outside.extend(leaf.outside(np.arange(start, end)))
                continue
            numbers = leaf.find(part.points)
            if len(wanted) == len(numbers) == 1 and not spans:
                key = int(numbers[0])
                if leaf.inline_counts[key] >= _MANY_ROWS:
                    return self._rows_of_key(number, leaf, key)
            if spans:
                numbers = np.sort(np.concatenate([numbers, *(np.arange(start, end) for start, end in spans)]))
            inline.extend(leaf.rows_of(numbers))
            outside.extend(leaf.outside(numbers))
        sets = self.bitmaps(outside) if outside else []
        inline = [rows for rows in inline if len(rows)]
        if inline:
            near = np.concatenate(inline) if len(inline) > 1 else inline[0]
            sets.append(roaring.from_rows(np.unique(near) if self._shared_rows else near, self._total))
        return BitMap.union(*sets) if len(sets) > 1 else sets[0] if sets else BitMap()

    def _rows_of_key(self, number: int, leaf: LeafPage, key: int) -> BitMap:
        """The inline rows of one key, which takes a while to unpack: kept for the next to ask."""

        def make() -> BitMap:
            return roaring.from_rows(leaf.rows(key, key + 1), self._total)

        return self._file.derived(self._leaves[number], key, make, roaring.nbytes)

    def effort(self, wanted: Mapping[int, KeySelection]) -> LookupCost:
        """About how many rows the wanted keys have, how many must be unpacked one by one, and from how many leaves.

        By the directory alone: all keys of a leaf are taken to have as many rows, and a range that ends within it to
        have half of it. Rows of keys that have many are bitmaps, of which a lookup takes a small part of the time.
        """
        rows = walked = 0
        for number, part in wanted.items():
            held, keys = self._rows_before[number + 1] - self._rows_before[number], self._leaf_keys[number]
            share = held if part.whole else held // 2 if part.ranges else 0
            share = max(share, len(part.points) * held // keys)
            rows += share
            walked += share if held < keys * _MANY_ROWS else share // _BITMAP_GAIN
        return LookupCost(rows, walked, len(wanted))

    def key_counts(self, rows: BitMap | None) -> list[tuple[KeyArray, npt.NDArray[np.int64]]]:
        """The keys that any of some rows (all if None) has and how many have each, leaf by leaf.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        if rows is None:
            return [
                (leaf.key_array(), leaf.counts.astype(np.int64)) for leaf in self.leaves(range(len(self)))
            ]
        mask = None
        found = []
        for leaf in self.leaves(range(len(self))):
            inline = leaf.rows(0, len(leaf.keys))
            if len(inline) and mask is None:
                mask = roaring.to_mask(rows, self._total)
            inside = leaf.owners() if mask is None else leaf.owners()[mask[inline]]
            counts = np.bincount(inside, minlength=len(leaf.keys))
            for key, held in self._outside(leaf):
                counts[key] = held.intersection_cardinality(rows)
            kept = counts > 0
            found.append((leaf.key_array(kept), counts[kept]))
        return found

    def key_rows(self, rows: BitMap | None, *, descending: bool) -> Iterator[KeyRows]:
        """The same with the rows; a leaf is read when it is its turn.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        mask = None if rows is None else roaring.to_mask(rows, self._total)
        for number in reversed(range(len(self))) if descending else range(len(self)):
            (leaf,) = self.leaves([number])
            numbers, owners = leaf.rows(0, len(leaf.keys)), leaf.owners()
            sets = [(key, np.asarray(held.to_array())) for key, held in self._outside(leaf)]
            if sets:
                numbers = np.concatenate([numbers, *(held for _, held in sets)])
                owners = np.concatenate([owners, *(np.full(len(held), key) for key, held in sets)])
                order = np.argsort(owners, kind="stable")
                numbers, owners = numbers[order], owners[order]
            if mask is not None:
                inside = mask[numbers]
                numbers, owners = numbers[inside], owners[inside]
            counts = np.bincount(owners, minlength=len(leaf.keys))
            kept = counts > 0
            yield KeyRows(leaf.key_array(kept), counts[kept], numbers)

    def _outside(self, leaf: LeafPage) -> list[tuple[int, BitMap]]:
        """The keys of a leaf whose rows are bitmaps of their own, by their numbers, and these."""
        found = leaf.outside(np.arange(len(leaf.keys)))
        keys = np.flatnonzero((leaf.inline_counts == 0) & (leaf.counts > 0)).tolist()
        return list(zip(keys, self.bitmaps(found), strict=True)) if found else []

    def bitmaps(self, wanted: Sequence[OverflowRows]) -> list[BitMap]:
        """Row sets that are pages of their own; they are shared and must not be changed.

        :raises IndexFileError: if one is corrupt.
        """
        most = roaring.max_bytes(self._total)

        def decode(at: int, page: Page) -> BitMap:
            try:
                return roaring.load(page.block(0, most=most), self._total, wanted[at].count)
            except ValueError as error:
                raise page.error(str(error)) from error

        return list(self._file.decoded([item.page for item in wanted], decode, roaring.nbytes))

    def leaves(self, numbers: Sequence[int]) -> Iterator[LeafPage]:
        """Decoded leaves, one by one; those that are not cached are fetched in one read."""

        def decode(at: int, page: Page) -> LeafPage:
            number = numbers[at]
            return LeafPage(
                page,
                self._kind,
                total=self._total,
                key_count=self._leaf_keys[number],
                row_count=self._rows_before[number + 1] - self._rows_before[number],
            )

        return self._file.decoded([self._leaves[number] for number in numbers], decode, _leaf_bytes)

    def _leaf_of(self, key: Key) -> int:
        """The only leaf that can hold a key; the first one for a key below every bound."""
        if key < self._bounds[0]:  # type: ignore[operator]
            return 0
        number: int = self._tree[self._tree.maxKey(key)]
        return number

    def _inside(self, number: int, item: Range) -> bool:
        """Return True if the bounds of a leaf lie within a range."""
        low, bounds = item.low, self._bounds
        if low is not None and (bounds[number] < low or (bounds[number] == low and not item.low_inclusive)):  # type: ignore[operator]
            return False
        if item.high is None:
            return True
        # the next leaf's bound is above every key of this one
        return number + 1 < len(bounds) and bounds[number + 1] <= item.high  # type: ignore[operator]


def _leaf_bytes(leaf: LeafPage) -> int:
    return leaf.nbytes


def clipped(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The parts of integer ranges that 64-bit keys can be in; literals may lie beyond."""
    if not ranges:
        return ()
    # ranges ascend, so the outermost bounds speak for all
    ends = (ranges[0].low, ranges[0].high, ranges[-1].low, ranges[-1].high)
    if all(end is None or INT64_MIN < end < INT64_MAX for end in ends):  # type: ignore[operator]
        return ranges
    found = []
    for item in ranges:
        low, high = item.low, item.high
        assert not isinstance(low, bytes)
        assert not isinstance(high, bytes)
        if low is not None and low <= INT64_MIN:
            low = None
        if high is not None and high >= INT64_MAX:
            high = None
        if (low is None or low <= INT64_MAX) and (high is None or high >= INT64_MIN):
            found.append(Range(low, high))
    return tuple(found)
