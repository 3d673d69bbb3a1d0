"""Lookups of keys in leaf pages, shared by BITMAP and BTREE files.

The inner level is a ``BTrees`` tree in memory from each leaf's lower bound to the leaf's ordinal. A lookup walks
it to learn which leaves some ranges touch, fetches those that are not cached in one read, and the outside bitmaps
they point to in a second.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from BTrees.LLBTree import LLBTree
from BTrees.OOBTree import OOBTree
from pyroaring import BitMap

from hindex.domain import Key, Range, RangeArray, count_points, integer_arrays
from hindex.index import roaring
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.index_type import KeyRows, LookupCost
from hindex.index.leaf_page import LeafPage, OverflowRows
from hindex.index.tree_writer import Int64s, byte_keys
from hindex.keys import KeyArray, KeyKind

#: Inline rows of a key from which on its row set is kept once it was unpacked.
_MANY_ROWS = 1024
#: How many rows of a bitmap take as long as one that is unpacked.
_BITMAP_GAIN = 16
#: More ranges than this are compared with the leaves' bounds as arrays.
_FEW_RANGES = 64


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The keys of one leaf that a lookup needs: those in some ranges, which with ``is_whole`` are all of them."""

    ranges: Sequence[Range]
    is_whole: bool


class TreeReader:
    """The leaves of one tree, in key order: their places, keys, rows, and lower bounds.

    Args:
        total: rows are numbers below it.
        shared_rows: True if a row may belong to several keys.

    Raises:
        ValueError: if the lists contradict each other.
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

    def select(self, ranges: Sequence[Range]) -> dict[int, KeySelection]:
        """Select the keys in sorted, disjoint ranges: the leaves that these touch, in order, and the ranges of each."""
        if self._kind is KeyKind.INT64:
            ranges = RangeArray(*integer_arrays(ranges))
        if not self._leaves or not ranges:
            return {}
        first, last = self._touched_leaves(ranges)
        # ranges below every bound touch no leaf
        skipped = int(np.searchsorted(last, 0))
        first, last, ranges = np.maximum(first[skipped:], 0), last[skipped:], ranges[skipped:]
        changes = np.zeros(len(self) + 1, np.int64)
        np.add.at(changes, first, 1)
        np.subtract.at(changes, last + 1, 1)
        numbers = np.flatnonzero(np.cumsum(changes[:-1]))
        # both ascend, because ranges do
        starts, ends = np.searchsorted(last, numbers), np.searchsorted(first, numbers, side="right")
        selections = {}
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
            part = ranges[start:end]
            selections[number] = KeySelection(part, len(part) == 1 and self._is_inside(number, part[0]))
        return selections

    def _touched_leaves(self, ranges: Sequence[Range]) -> tuple[Int64s, Int64s]:
        """Return the first and last leaf of each range; -1 for a bound below every leaf."""
        if isinstance(ranges, RangeArray) and len(ranges) > _FEW_RANGES:
            if ranges.integers is not None:
                bounds = np.array(self._bounds, np.int64)
                first, last = (np.searchsorted(bounds, keys, side="right") - 1 for keys in ranges.integers)
                return first, last
            assert ranges.byte_keys is not None
            keys = byte_keys(ranges.byte_keys)
            numbers = np.empty(len(keys), np.int64)
            start = 0
            while start < len(keys):
                number, end = self._leaf_number(keys[start]), len(keys)
                if number + 1 < len(self):
                    end = bisect_left(keys, self._bounds[number + 1], lo=start)
                numbers[start:end] = number
                start = end
            return numbers, numbers
        touched = []
        for item in ranges:
            number = len(self) - 1
            if item.high is not None:
                number = self._leaf_number(item.high)
                number -= number >= 0 and self._bounds[number] == item.high and not item.high_inclusive
            touched.append((0 if item.low is None else self._leaf_number(item.low), number))
        array = np.array(touched, np.int64)
        return array[:, 0], array[:, 1]

    def count_rows(self, selections: Mapping[int, KeySelection]) -> int:
        """Count the rows of selected keys, once for each of their keys; ranges of a single key are left out.

        Raises:
            IndexFileError: if a leaf that is selected in part is corrupt.
        """
        before = self._rows_before
        total, parts = 0, {}
        for number, selection in selections.items():
            if selection.is_whole:
                total += before[number + 1] - before[number]
            elif count_points(selection.ranges) < len(selection.ranges):
                parts[number] = selection.ranges
        for leaf, ranges in zip(self.leaves(list(parts)), parts.values(), strict=True):
            if isinstance(ranges, RangeArray) and ranges.integers is not None:
                is_span = np.not_equal(*ranges.integers)
                spans: Sequence[Range] = RangeArray(*(keys[is_span] for keys in ranges.integers))
            else:
                spans = [item for item in ranges if not item.is_point]
            total += int(leaf.counts[leaf.find(spans)].sum())
        return total

    def rows(self, selections: Mapping[int, KeySelection]) -> BitMap:
        """Return the rows of selected keys; the bitmap may be shared and must not be changed.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        inline: list[npt.NDArray[np.uint32]] = []
        outside: list[OverflowRows] = []
        for leaf, (number, selection) in zip(self.leaves(list(selections)), selections.items(), strict=True):
            keys = np.arange(len(leaf.keys)) if selection.is_whole else leaf.find(selection.ranges)
            if len(selections) == len(keys) == 1 and leaf.inline_counts[keys[0]] >= _MANY_ROWS:
                return self._rows_of_key(number, leaf, int(keys[0]))
            rows = leaf.rows(keys)
            if len(rows):
                inline.append(rows)
            outside.extend(leaf.overflow_pages(keys))
        sets = self.bitmaps(outside) if outside else []
        if inline:
            near = np.concatenate(inline) if len(inline) > 1 else inline[0]
            sets.append(roaring.from_rows(np.unique(near) if self._shared_rows else near, self._total))
        return BitMap.union(*sets) if len(sets) > 1 else sets[0] if sets else BitMap()

    def _rows_of_key(self, number: int, leaf: LeafPage, key: int) -> BitMap:
        """Return the inline rows of one key, cached because unpacking them is slow."""

        def make() -> BitMap:
            return roaring.from_rows(leaf.rows(np.array([key])), self._total)

        return self._file.get_or_derive(self._leaves[number], key, make, roaring.nbytes)

    def estimate_cost(self, selections: Mapping[int, KeySelection]) -> LookupCost:
        """Estimate the rows of selected keys, how many of them are unpacked one by one, and the leaves to read.

        By the directory alone: all keys of a leaf are taken to have as many rows, and a range that ends within it to
        have half of it. Keys with many rows have bitmaps, which a lookup uses in a small part of the time.
        """
        rows = walked = 0
        for number, selection in selections.items():
            leaf_rows = self._rows_before[number + 1] - self._rows_before[number]
            keys, points = self._leaf_keys[number], count_points(selection.ranges)
            share = (
                leaf_rows if selection.is_whole else leaf_rows // 2 if points < len(selection.ranges) else 0
            )
            share = max(share, points * leaf_rows // keys)
            rows += share
            walked += share if leaf_rows < keys * _MANY_ROWS else share // _BITMAP_GAIN
        return LookupCost(rows, walked, len(selections))

    def key_counts(self, rows: BitMap | None) -> list[tuple[KeyArray, npt.NDArray[np.int64]]]:
        """Return the keys of some rows (all if None) and their row counts, leaf by leaf.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        if rows is None:
            return [
                (leaf.key_array(), leaf.counts.astype(np.int64)) for leaf in self.leaves(range(len(self)))
            ]
        mask = None
        results = []
        for leaf in self.leaves(range(len(self))):
            inline = leaf.rows()
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

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        mask = None if rows is None else roaring.to_mask(rows, self._total)
        for number in reversed(range(len(self))) if descending else range(len(self)):
            (leaf,) = self.leaves([number])
            numbers, owners = leaf.rows(), leaf.owners()
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
        return list(zip(leaf.overflow_keys.tolist(), self.bitmaps(pointers), strict=True)) if pointers else []

    def bitmaps(self, pointers: Sequence[OverflowRows]) -> list[BitMap]:
        """Row sets that are pages of their own; they are shared and must not be changed.

        Raises:
            IndexFileError: if one is corrupt.
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
        """Return the only leaf that can have a key; -1 for a key below every bound."""
        if key < self._bounds[0]:  # type: ignore[operator]
            return -1
        number: int = self._tree[self._tree.maxKey(key)]
        return number

    def _is_inside(self, number: int, item: Range) -> bool:
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
