"""Lookups of keys in leaf pages, shared by BITMAP and BTREE files.

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

from hindex.domain import Key, Range, clip_to_int64
from hindex.index import roaring
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.index_type import KeyRows, LookupCost
from hindex.index.leaf_page import LeafPage, OverflowRows
from hindex.keys import KeyArray, KeyKind

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
    :param shared_rows: True if a row may belong to several keys.
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
        for rows in leaf_rows:
            self._rows_before.append(self._rows_before[-1] + rows)
        self._bounds = bounds
        entries = list(zip(bounds, range(len(bounds)), strict=True))
        self._tree: Any = LLBTree(entries) if self._kind is KeyKind.INT64 else OOBTree(entries)

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def kind(self) -> KeyKind:
        return self._kind

    def select(self, ranges: tuple[Range, ...]) -> dict[int, KeySelection]:
        """Select the keys in sorted, disjoint ranges: the leaves that these touch, in order, and the keys of each."""
        if self._kind is KeyKind.INT64:
            ranges = clip_to_int64(ranges)
        if not self._leaves:
            return {}
        selections: dict[int, KeySelection] = {}
        bounds = self._bounds
        points = [item.low for item in ranges if item.low is not None and item.is_point]
        at = 0
        while at < len(points):
            number = self._leaf_number(points[at])
            following = bounds[number + 1] if number + 1 < len(bounds) else None
            end = len(points) if following is None else bisect_left(points, following, lo=at)
            if points[end - 1] >= bounds[0]:  # type: ignore[operator]
                selections.setdefault(number, KeySelection()).points.extend(points[at:end])
            at = end
        for item in ranges:
            if item.is_point:
                continue
            start = None if item.low is None else bounds[self._leaf_number(item.low)]
            touched = self._tree.values(min=start, max=item.high, excludemax=not item.high_inclusive)
            for number in touched:
                part = selections.setdefault(number, KeySelection())
                if self._inside(number, item):
                    part.whole = True
                else:
                    part.ranges.append(item)
        return dict(sorted(selections.items()))

    def count_rows(self, selections: Mapping[int, KeySelection]) -> int:
        """Count the rows of selected keys, once for each of their keys; single keys are left out.

        :raises IndexFileError: if a leaf that is wanted in part is corrupt.
        """
        before = self._rows_before
        total = sum(before[number + 1] - before[number] for number, part in selections.items() if part.whole)
        parts = {number: part for number, part in selections.items() if part.ranges and not part.whole}
        for leaf, selection in zip(self.leaves(list(parts)), parts.values(), strict=True):
            total += sum(int(leaf.counts[start:end].sum()) for start, end in leaf.spans(selection.ranges))
        return total

    def rows(self, selections: Mapping[int, KeySelection]) -> BitMap:
        """Return the rows of selected keys; the bitmap may be shared and must not be changed.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        inline: list[npt.NDArray[np.uint32]] = []
        outside: list[OverflowRows] = []
        for leaf, (number, selection) in zip(self.leaves(list(selections)), selections.items(), strict=True):
            spans = [(0, len(leaf.keys))] if selection.whole else leaf.spans(selection.ranges)
            if len(spans) == 1 and not selection.points:
                ((start, end),) = spans
                inline.append(leaf.rows(start, end))
                outside.extend(leaf.overflow_pages(np.arange(start, end)))
                continue
            numbers = leaf.find(selection.points)
            if len(selections) == len(numbers) == 1 and not spans:
                key = int(numbers[0])
                if leaf.inline_counts[key] >= _MANY_ROWS:
                    return self._rows_of_key(number, leaf, key)
            if spans:
                numbers = np.sort(np.concatenate([numbers, *(np.arange(start, end) for start, end in spans)]))
            inline.extend(leaf.select_rows(numbers))
            outside.extend(leaf.overflow_pages(numbers))
        sets = self.bitmaps(outside) if outside else []
        inline = [rows for rows in inline if len(rows)]
        if inline:
            near = np.concatenate(inline) if len(inline) > 1 else inline[0]
            sets.append(roaring.from_rows(np.unique(near) if self._shared_rows else near, self._total))
        return BitMap.union(*sets) if len(sets) > 1 else sets[0] if sets else BitMap()

    def _rows_of_key(self, number: int, leaf: LeafPage, key: int) -> BitMap:
        """Return the inline rows of one key, cached because unpacking them is slow."""

        def make() -> BitMap:
            return roaring.from_rows(leaf.rows(key, key + 1), self._total)

        return self._file.get_or_derive(self._leaves[number], key, make, roaring.nbytes)

    def estimate_cost(self, selections: Mapping[int, KeySelection]) -> LookupCost:
        """Estimate the rows of selected keys, how many of these have to be unpacked one by one, and the leaves to
        read.

        By the directory alone: all keys of a leaf are taken to have as many rows, and a range that ends within it to
        have half of it. Keys with many rows have bitmaps, which a lookup uses in a small part of the time.
        """
        rows = walked = 0
        for number, selection in selections.items():
            leaf_rows, keys = (
                self._rows_before[number + 1] - self._rows_before[number],
                self._leaf_keys[number],
            )
            share = leaf_rows if selection.whole else leaf_rows // 2 if selection.ranges else 0
            share = max(share, len(selection.points) * leaf_rows // keys)
            rows += share
            walked += share if leaf_rows < keys * _MANY_ROWS else share // _BITMAP_GAIN
        return LookupCost(rows, walked, len(selections))

    def key_counts(self, rows: BitMap | None) -> list[tuple[KeyArray, npt.NDArray[np.int64]]]:
        """Return the keys of some rows (all if None) and their row counts, leaf by leaf.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        if rows is None:
            return [
                (leaf.key_array(), leaf.counts.astype(np.int64)) for leaf in self.leaves(range(len(self)))
            ]
        mask = None
        results = []
        for leaf in self.leaves(range(len(self))):
            inline = leaf.rows(0, len(leaf.keys))
            if len(inline) and mask is None:
                mask = roaring.to_mask(rows, self._total)
            inside = leaf.owners() if mask is None else leaf.owners()[mask[inline]]
            counts = np.bincount(inside, minlength=len(leaf.keys))
            for key, bitmap in self._overflow_rows(leaf):
                counts[key] = bitmap.intersection_cardinality(rows)
            kept = counts > 0
            results.append((leaf.key_array(kept), counts[kept]))
        return results

    def key_rows(self, rows: BitMap | None, *, descending: bool) -> Iterator[KeyRows]:
        """Yield the keys of some rows with these rows, leaf by leaf; leaves are read one at a time.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        mask = None if rows is None else roaring.to_mask(rows, self._total)
        for number in reversed(range(len(self))) if descending else range(len(self)):
            (leaf,) = self.leaves([number])
            numbers, owners = leaf.rows(0, len(leaf.keys)), leaf.owners()
            sets = [(key, np.asarray(bitmap.to_array())) for key, bitmap in self._overflow_rows(leaf)]
            if sets:
                numbers = np.concatenate([numbers, *(key_rows for _, key_rows in sets)])
                owners = np.concatenate([owners, *(np.full(len(key_rows), key) for key, key_rows in sets)])
                order = np.argsort(owners, kind="stable")
                numbers, owners = numbers[order], owners[order]
            if mask is not None:
                inside = mask[numbers]
                numbers, owners = numbers[inside], owners[inside]
            counts = np.bincount(owners, minlength=len(leaf.keys))
            kept = counts > 0
            yield KeyRows(leaf.key_array(kept), counts[kept], numbers)

    def _overflow_rows(self, leaf: LeafPage) -> list[tuple[int, BitMap]]:
        """Return the ordinals of a leaf's keys with overflow pages, and their bitmaps."""
        pointers = leaf.overflow_pages(np.arange(len(leaf.keys)))
        keys = np.flatnonzero((leaf.inline_counts == 0) & (leaf.counts > 0)).tolist()
        return list(zip(keys, self.bitmaps(pointers), strict=True)) if pointers else []

    def bitmaps(self, pointers: Sequence[OverflowRows]) -> list[BitMap]:
        """Row sets that are pages of their own; they are shared and must not be changed.

        :raises IndexFileError: if one is corrupt.
        """
        max_bytes = roaring.max_bytes(self._total)

        def decode(at: int, page: Page) -> BitMap:
            try:
                return roaring.load(page.block(0, max_length=max_bytes), self._total, pointers[at].count)
            except ValueError as error:
                raise page.error(str(error)) from error

        return list(self._file.decode_pages([item.page for item in pointers], decode, roaring.nbytes))

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

        return self._file.decode_pages([self._leaves[number] for number in numbers], decode, _leaf_bytes)

    def _leaf_number(self, key: Key) -> int:
        """Return the only leaf that can have a key; the first one for a key below every bound."""
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
