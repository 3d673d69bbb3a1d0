"""Look up keys in leaf pages, for BITMAP and BTREE files.

The inner level is a ``BTrees`` tree in memory from each leaf's lower bound to the leaf's ordinal. Many ranges are
compared with the bounds as arrays. A lookup selects the leaves that its ranges touch, fetches the uncached ones in
one read, and their outside bitmaps in a second.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import lt
from typing import Any

import numpy as np
import numpy.typing as npt
from BTrees.LLBTree import LLBTree
from BTrees.OOBTree import OOBTree
from pyroaring import BitMap

from hindex.domain import MANY_RANGES, MAX_KEY, Key, Range, RangeArray, integer_arrays
from hindex.index import roaring
from hindex.index.index_file import IndexFileReader, Page, PageRefs
from hindex.index.index_type import KeyRows, LookupCost
from hindex.index.leaf_page import OverflowRows
from hindex.index.leaf_reader import LeafKeys, LeafPages, RangeBounds
from hindex.index.tree_writer import Int64s, byte_keys
from hindex.keys import KeyArray, KeyKind, join_keys
from hindex.orc.io.thread_pool import ThreadPool, processors

#: The number of rows from which a key is assumed to have a bitmap.
_MANY_ROWS = 1024
#: The number of rows of a bitmap that take as long as unpacking one row.
_BITMAP_GAIN = 16
#: The approximate bytes of pages that are decoded at once.
_BYTES_AT_ONCE = 1 << 20


@cache
def _lookup_threads() -> ThreadPool:
    """Return the threads of all lookups: starting some for each stripe took 15 % of a lookup of 257 keys."""
    return ThreadPool(processors() - 1)


if hasattr(os, "register_at_fork"):
    # a forked process does not have its parent's threads
    os.register_at_fork(after_in_child=_lookup_threads.cache_clear)


@dataclass(frozen=True, slots=True, eq=False)
class KeySelection:
    """The keys that a lookup needs, in sorted, disjoint ranges.

    Args:
        leaves: int64[L], the numbers of the leaves that the ranges touch, ascending.
        begins: int64[L], the ordinal of each leaf's first range.
        ends: int64[L], the ordinal of the first range after those of each leaf.
        is_whole: bool[L], True if all keys of a leaf are certainly selected.
    """

    leaves: Int64s
    begins: Int64s
    ends: Int64s
    is_whole: npt.NDArray[np.bool_]
    ranges: Sequence[Range]

    def __len__(self) -> int:
        return len(self.leaves)

    def part(self, within: slice | npt.NDArray[np.bool_]) -> KeySelection:
        """Return the selection of some leaves, given by their ordinals or by a mask."""
        return KeySelection(
            self.leaves[within], self.begins[within], self.ends[within], self.is_whole[within], self.ranges
        )

    def count_points(self) -> Int64s:
        """Count the single-key ranges of each leaf."""
        ranges = self.ranges
        if not isinstance(ranges, RangeArray):
            are_points = np.array([item.is_point for item in ranges], np.bool_)
        elif ranges.integers is None:
            return self.ends - self.begins
        else:
            are_points = np.equal(*ranges.integers)
        before: Int64s = np.concatenate([np.zeros(1, np.int64), np.cumsum(are_points)])
        return before[self.ends] - before[self.begins]


class TreeReader:
    """A reader of the leaves of one tree, in key order.

    Args:
        total: the upper bound of row numbers, exclusive.
        leaves: the leaf pages.
        leaf_keys: the number of keys of each leaf.
        leaf_rows: the number of rows of each leaf.
        bounds: the lower bound of each leaf.
        shared_rows: True if a row may belong to several keys.

    Raises:
        ValueError: if the lists are inconsistent.
    """

    def __init__(
        self,
        file: IndexFileReader,
        *,
        total: int,
        leaves: PageRefs,
        leaf_keys: Sequence[int],
        leaf_rows: Sequence[int],
        bounds: Sequence[Key],
        shared_rows: bool = False,
    ) -> None:
        if not len(leaves) == len(leaf_keys) == len(leaf_rows) == len(bounds):
            raise ValueError("its lists are not of one length")
        keys, rows = np.array(leaf_keys, np.uint64), np.array(leaf_rows, np.uint64)
        if not bool(((keys > 0) & (keys <= rows) & (rows <= roaring.MAX_ROWS)).all()):
            raise ValueError("a leaf without keys, with more keys than rows, or with too many rows")
        self._file = file
        self._kind = file.footer.key_kind
        self._total = total
        self._shared_rows = shared_rows
        self._leaves = leaves
        self._leaf_keys: Int64s = keys.view(np.int64)
        self._leaf_rows: Int64s = rows.view(np.int64)
        self._bounds: list[Any] = list(bounds)
        if not all(map(lt, self._bounds, self._bounds[1:])):
            raise ValueError("its leaves are not in order")
        self._tree: LLBTree | OOBTree | None = None
        self._int_bounds = np.array(self._bounds if self._kind is KeyKind.INT64 else (), np.int64)
        # the next leaf's bound is above every key of a leaf
        self._int_ends = np.append(self._int_bounds[1:], MAX_KEY)

    def _inner_level(self) -> LLBTree | OOBTree:
        if self._tree is None:
            entries = list(zip(self._bounds, range(len(self)), strict=True))
            self._tree = LLBTree(entries) if self._kind is KeyKind.INT64 else OOBTree(entries)
        return self._tree

    def __len__(self) -> int:
        return len(self._leaves)

    @property
    def kind(self) -> KeyKind:
        return self._kind

    @property
    def key_count(self) -> int:
        """The number of keys of all leaves."""
        return int(self._leaf_keys.sum())

    @property
    def row_count(self) -> int:
        """The number of rows of all keys; a row of several keys counts for each."""
        return int(self._leaf_rows.sum())

    def select(self, ranges: Sequence[Range]) -> KeySelection:
        """Select the keys in sorted, disjoint ranges: the leaves that these touch, and the ranges of each leaf."""
        if self._kind is KeyKind.INT64:
            ranges = RangeArray(*integer_arrays(ranges))
        if not len(self) or not ranges:
            none = np.zeros(0, np.int64)
            return KeySelection(none, none, none, none.astype(np.bool_), ranges)
        first, last = self._touched_leaves(ranges)
        if len(ranges) == 1:
            # one key is the usual case: merging would take a fifth of its lookup
            numbers = np.arange(max(int(first[0]), 0), int(last[0]) + 1)
            begins = np.zeros(len(numbers), np.int64)
            ends = begins + 1
            return KeySelection(numbers, begins, ends, self._are_whole(numbers, begins, ends, ranges), ranges)
        # ranges below every bound touch no leaf
        skipped = int(np.searchsorted(last, 0))
        first, last = np.maximum(first[skipped:], 0), last[skipped:]
        changes = np.zeros(len(self) + 1, np.int64)
        np.add.at(changes, first, 1)
        np.subtract.at(changes, last + 1, 1)
        numbers = np.flatnonzero(np.cumsum(changes[:-1]))
        # both ascend, because ranges do
        begins = np.searchsorted(last, numbers) + skipped
        ends = np.searchsorted(first, numbers, side="right") + skipped
        return KeySelection(numbers, begins, ends, self._are_whole(numbers, begins, ends, ranges), ranges)

    def _are_whole(
        self, numbers: Int64s, begins: Int64s, ends: Int64s, ranges: Sequence[Range]
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the leaves whose keys are certainly all selected: one range contains their bounds."""
        is_whole: npt.NDArray[np.bool_] = ends - begins == 1
        if not isinstance(ranges, RangeArray):
            for at in np.flatnonzero(is_whole).tolist():
                is_whole[at] = self._is_inside(int(numbers[at]), ranges[int(begins[at])])
            return is_whole
        if ranges.integers is None:
            return np.zeros(len(numbers), np.bool_)
        lows, highs = ranges.integers
        is_whole &= (lows[begins] <= self._int_bounds[numbers]) & (highs[begins] >= self._int_ends[numbers])
        return is_whole

    def _touched_leaves(self, ranges: Sequence[Range]) -> tuple[Int64s, Int64s]:
        """Return the first and last leaf of each range; -1 for a bound below every leaf."""
        if isinstance(ranges, RangeArray) and len(ranges) >= MANY_RANGES:
            if ranges.integers is not None:
                first, last = (
                    self._int_bounds.searchsorted(keys, side="right") - 1 for keys in ranges.integers
                )
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
                if number >= 0 and not item.high_inclusive and self._bounds[number] == item.high:
                    number -= 1
            touched.append((0 if item.low is None else self._leaf_number(item.low), number))
        array = np.array(touched, np.int64)
        return array[:, 0], array[:, 1]

    def find(self, selection: KeySelection, *, with_rows: bool = True) -> list[LeafKeys]:
        """Find the selected keys and their rows, some leaves at a time, in order.

        Many leaves are decoded on all processors.

        Args:
            with_rows: False leaves out the rows.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        bounds = RangeBounds.of(self._kind, selection.ranges)

        def find(part: KeySelection) -> LeafKeys:
            return self._pages(part.leaves).find(bounds, part.begins, part.ends, with_rows=with_rows)

        if len(selection) <= 1:
            return [find(selection)] if len(selection) else []
        total = int(self._leaves.lengths[selection.leaves].sum())
        leaves_at_once = 1 + len(selection) * _BYTES_AT_ONCE // total
        if len(selection) <= leaves_at_once:
            return [find(selection)]
        parts = [
            selection.part(slice(at, at + leaves_at_once)) for at in range(0, len(selection), leaves_at_once)
        ]
        return _lookup_threads().map(find, parts)

    def _pages(self, numbers: Int64s, data: npt.NDArray[np.uint8] | None = None) -> LeafPages:
        """Return some leaves; read their bytes if ``data`` is None."""
        return LeafPages(
            self._file.read_stored(self._leaves, numbers) if data is None else data,
            self._leaves.lengths[numbers],
            self._kind,
            total=self._total,
            key_counts=self._leaf_keys[numbers],
            row_counts=self._leaf_rows[numbers],
            name=lambda at: self._file.page_name(int(self._leaves.offsets[numbers[at]])),
        )

    def max_rows(self, selection: KeySelection) -> int:
        """Return the number of rows of all keys of the selected leaves."""
        return int(self._leaf_rows[selection.leaves].sum())

    def count_rows(self, selection: KeySelection) -> int:
        """Count the rows of selected keys, except in leaves whose ranges are all single keys.

        Raises:
            IndexFileError: if a partially selected leaf is corrupt.
        """
        total = int(self._leaf_rows[selection.leaves[selection.is_whole]].sum())
        has_spans = selection.count_points() < selection.ends - selection.begins
        if not has_spans.any():
            return total
        parts = selection.part(has_spans & ~selection.is_whole)
        return total + sum(int(keys.counts.sum()) for keys in self.find(parts, with_rows=False))

    def rows(self, selection: KeySelection) -> BitMap:
        """Return the rows of selected keys; the bitmap may be shared and must not be changed.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        return self.union(self.find(selection))

    def union(self, parts: Sequence[LeafKeys]) -> BitMap:
        """Return the rows of the keys that `find` returned; the bitmap may be shared and must not be changed.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        inline: list[npt.NDArray[np.uint32]] = []
        sets: list[BitMap] = []
        for keys in parts:
            if len(keys.rows):
                inline.append(keys.rows)
            if keys.bitmap_pages:
                sets += self.bitmaps(keys.bitmap_pages)
        if inline:
            near = np.concatenate(inline) if len(inline) > 1 else inline[0]
            sets.append(roaring.from_rows(np.unique(near) if self._shared_rows else near, self._total))
        return BitMap.union(*sets) if len(sets) > 1 else sets[0] if sets else BitMap()

    def join(self, parts: Sequence[LeafKeys]) -> KeyRows:
        """Return the keys that `find` returned with all their rows.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        whole = [self._with_bitmaps(keys) for keys in parts]
        return KeyRows(
            join_keys(self._kind, [part.keys for part in whole]),
            np.concatenate([np.zeros(0, np.int64), *(part.counts for part in whole)]),
            np.concatenate([np.zeros(0, np.uint32), *(part.rows for part in whole)]),
        )

    def _with_bitmaps(self, keys: LeafKeys) -> KeyRows:
        """Return keys with all their rows, including those of bitmap pages."""
        if not keys.bitmap_pages:
            return KeyRows(keys.key_array(), keys.counts, keys.rows)
        sets = [np.asarray(bitmap.to_array()) for bitmap in self.bitmaps(keys.bitmap_pages)]
        rows = np.concatenate([keys.rows, *sets])
        owners = [
            keys.owners(),
            *(np.full(len(part), at) for at, part in zip(keys.outside.tolist(), sets, strict=True)),
        ]
        order = np.argsort(np.concatenate(owners), kind="stable")
        return KeyRows(keys.key_array(), keys.counts, rows[order])

    def estimate_cost(self, selection: KeySelection) -> LookupCost:
        """Estimate the rows of selected keys, the rows that are unpacked one by one, and the leaves to read.

        The estimate uses only the directory. It assumes that all keys of a leaf have equally many rows, and that a
        range which ends within a leaf has half of it. Keys with many rows have bitmaps, which take little time.
        """
        rows, keys = self._leaf_rows[selection.leaves], self._leaf_keys[selection.leaves]
        points, ranges = selection.count_points(), selection.ends - selection.begins
        shares = np.where(selection.is_whole, rows, np.where(points < ranges, rows // 2, 0))
        shares = np.maximum(shares, points * rows // np.maximum(keys, 1))
        walked = np.where(rows < keys * _MANY_ROWS, shares, shares // _BITMAP_GAIN)
        page_bytes = int(self._leaves.lengths[selection.leaves].sum())
        return LookupCost(int(shares.sum()), int(walked.sum()), len(selection), len(self), page_bytes)

    def key_counts(self, rows: BitMap | None) -> list[tuple[KeyArray, npt.NDArray[np.int64]]]:
        """Return the keys of some rows (all if None) and their row counts, leaf by leaf.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        if rows is None:
            every = self.find(self.select((Range(),)), with_rows=False)
            return [(keys.key_array(), keys.counts) for keys in every]
        mask = None
        results = []
        for leaf in self.leaves():
            if len(leaf.rows) and mask is None:
                mask = roaring.to_mask(rows, self._total)
            inside = leaf.owners() if mask is None else leaf.owners()[mask[leaf.rows]]
            counts = np.bincount(inside, minlength=len(leaf.keys))
            for key, bitmap in zip(leaf.outside.tolist(), self.bitmaps(leaf.bitmap_pages), strict=True):
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
            numbers = self._with_bitmaps(leaf).rows
            owners = np.repeat(np.arange(len(leaf.keys)), leaf.counts)
            if mask is not None:
                inside = mask[numbers]
                numbers, owners = numbers[inside], owners[inside]
            counts = np.bincount(owners, minlength=len(leaf.keys))
            kept = counts > 0
            yield KeyRows(leaf.key_array(kept), counts[kept], numbers)

    def bitmaps(self, pointers: Sequence[OverflowRows]) -> list[BitMap]:
        """Return the row sets of some bitmap pages; they are shared and must not be changed.

        Raises:
            IndexFileError: if a page is corrupt.
        """
        max_bytes = roaring.max_bytes(self._total)

        def decode(at: int, page: Page) -> BitMap:
            try:
                return roaring.load(page.block(0, max_length=max_bytes), self._total, pointers[at].count)
            except ValueError as error:
                raise page.error(str(error)) from error

        return list(self._file.decode_pages([item.page for item in pointers], decode, roaring.nbytes))

    def leaves(self, numbers: Sequence[int] | None = None) -> Iterator[LeafKeys]:
        """Yield the keys of whole leaves, by default all; leaves that are not cached are fetched together."""
        ordinals = np.arange(len(self)) if numbers is None else np.array(numbers, np.int64)

        def decode(at: int, page: Page) -> LeafKeys:
            return self._pages(ordinals[at : at + 1], np.frombuffer(page.stored, np.uint8)).find_all()

        return self._file.decode_pages(self._leaves.refs(ordinals), decode, _leaf_bytes)

    def _leaf_number(self, key: Key) -> int:
        """Return the only leaf that can have a key; -1 for a key below every bound."""
        if key < self._bounds[0]:
            return -1
        tree = self._inner_level()
        number: int = tree[tree.maxKey(key)]
        return number

    def _is_inside(self, number: int, item: Range) -> bool:
        """Return True if the bounds of a leaf lie within a range."""
        low, bounds = item.low, self._bounds
        if low is not None and (bounds[number] < low or (bounds[number] == low and not item.low_inclusive)):
            return False
        if item.high is None:
            return True
        # the next leaf's bound is above every key of this one
        return number + 1 < len(bounds) and bounds[number + 1] <= item.high


def _leaf_bytes(leaf: LeafKeys) -> int:
    return leaf.nbytes
