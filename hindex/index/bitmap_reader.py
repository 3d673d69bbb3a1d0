"""Looking up rows in a BITMAP index file.

A stripe's inner level is a ``BTrees`` tree from each leaf's lower bound to the leaf's ordinal. A lookup
walks it to learn which leaves a domain touches, fetches those that are not cached in one read, and the
outside bitmaps they point to in a second.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from BTrees.LLBTree import LLBTree
from BTrees.OOBTree import OOBTree
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key, Range
from hindex.errors import IndexFileError
from hindex.index import rowsets
from hindex.index.base import Bounds
from hindex.index.file import IndexFileReader, PageRef
from hindex.index.leaf import Leaf, Outside
from hindex.keys import INT64_MAX, INT64_MIN, KeyKind
from hindex.proto import index_file_pb2 as pb

#: Bytes of decoded leaves that a reader keeps, roughly.
CACHE_BYTES = 16 * 1024 * 1024

_MAX_ROWS = 1 << 32


@dataclass(slots=True)
class _Stripe:
    """The directory of one stripe. ``rows_before[i]`` counts the rows of the leaves before leaf ``i``."""

    rows: int
    null_count: int
    key_count: int
    nulls: PageRef | None
    leaves: list[PageRef]
    leaf_keys: list[int]
    rows_before: list[int]
    bounds: list[Key]
    tree: Any


@dataclass(slots=True)
class _Wanted:
    """What a lookup needs of one leaf: all of it, or some of its keys."""

    whole: bool = False
    points: list[Key] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


class BitmapReader:
    """Reads a BITMAP index file; may be shared by threads.

    :param cache_bytes: rough bound on the decoded leaves that are kept.
    :raises IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.file = file
        self._kind = file.footer.key_kind
        if file.footer.index_type != "BITMAP":
            raise file.error(f"it holds a {file.footer.index_type!r} index where BITMAP is expected")
        try:
            body = pb.BitmapBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]
        self._cache: OrderedDict[tuple[int, int], Leaf] = OrderedDict()
        self._cache_left = cache_bytes
        self._lock = threading.Lock()

    def _directory(self, number: int, item: pb.BitmapStripe) -> _Stripe:
        def broken(message: str) -> IndexFileError:
            return self.file.error(f"the directory of stripe {number}: {message}")

        count = len(item.leaf_length)
        bounds: list[Key] = list(item.int_bounds if self._kind is KeyKind.INT64 else item.byte_bounds)
        if not count == len(item.leaf_crc32c) == len(item.leaf_keys) == len(item.leaf_rows) == len(bounds):
            raise broken("its lists are not of one length")
        if item.rows >= _MAX_ROWS:
            raise broken(f"it counts {item.rows} rows")
        rows = sum(item.leaf_rows)
        if rows + item.null_count != item.rows or sum(item.leaf_keys) != item.key_count:
            raise broken("its rows or keys do not add up")
        if any(a >= b for a, b in pairwise(bounds)):  # type: ignore[operator]
            raise broken("its leaves are not in order")
        if not all(0 < keys <= held for keys, held in zip(item.leaf_keys, item.leaf_rows, strict=True)):
            raise broken("a leaf without keys, or with more keys than rows")
        if bool(item.null_count) != item.HasField("nulls"):
            raise broken("its null rows are not where they should be")
        leaves, at = [], item.leaf_offset
        for length, crc in zip(item.leaf_length, item.leaf_crc32c, strict=True):
            leaves.append(PageRef(at, length, crc))
            at += length
        before = [0]
        for held in item.leaf_rows:
            before.append(before[-1] + held)
        entries = list(zip(bounds, range(count), strict=True))
        return _Stripe(
            rows=item.rows,
            null_count=item.null_count,
            key_count=item.key_count,
            nulls=_page(item.nulls) if item.null_count else None,
            leaves=leaves,
            leaf_keys=list(item.leaf_keys),
            rows_before=before,
            bounds=bounds,
            tree=LLBTree(entries) if self._kind is KeyKind.INT64 else OOBTree(entries),
        )

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """Rows of each stripe, nulls included."""
        return tuple(stripe.rows for stripe in self._stripes)

    def null_count(self, stripe: int) -> int:
        """Null rows of a stripe."""
        return self._stripes[stripe].null_count

    def key_count(self, stripe: int) -> int:
        """Distinct non-null values of a stripe."""
        return self._stripes[stripe].key_count

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """The rows of a stripe whose value is in ``domain``: exact, always.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        held = self._stripes[stripe]
        ranges = domain.ranges
        if self._kind is KeyKind.INT64:
            ranges = _clipped(ranges)
        if ranges == (Range(),):
            if domain.null_allowed or not held.null_count:
                return Bounds.all(held.rows)
            return Bounds.exactly(self._but(held, self._nulls(held)))
        if not ranges or not held.leaves:
            return Bounds.exactly(self._nulls(held) if domain.null_allowed else BitMap())
        wanted = self._wanted(held, ranges)
        whole = sum(
            held.rows_before[number + 1] - held.rows_before[number]
            for number, part in wanted.items()
            if part.whole
        )
        if 2 * whole > held.rows - held.null_count:
            # most values are members: the few that are not are cheaper to find
            others = Domain(ranges).complement(null_allowed=not domain.null_allowed)
            rest = _clipped(others.ranges) if self._kind is KeyKind.INT64 else others.ranges
            excluded = self._rows(stripe, self._wanted(held, rest))
            if others.null_allowed:
                excluded |= self._nulls(held)
            return Bounds.exactly(self._but(held, excluded))
        found = self._rows(stripe, wanted)
        if domain.null_allowed:
            found |= self._nulls(held)
        return Bounds.exactly(found)

    def close(self) -> None:
        """Close the file and forget its leaves."""
        with self._lock:
            self._cache.clear()
        self.file.close()

    def _but(self, held: _Stripe, rows: BitMap) -> BitMap:
        return BitMap(range(held.rows)) - rows

    def _nulls(self, held: _Stripe) -> BitMap:
        if held.nulls is None:
            return BitMap()
        return self._bitmaps(held, [Outside(held.null_count, held.nulls)])[0]

    def _wanted(self, held: _Stripe, ranges: tuple[Range, ...]) -> dict[int, _Wanted]:
        """The leaves that sorted, disjoint ranges touch, in order, and what is wanted of each."""
        found: dict[int, _Wanted] = {}
        points = [item.low for item in ranges if item.low is not None and item.is_point]
        at = 0
        while at < len(points):
            number = self._leaf_of(held, points[at])
            following = held.bounds[number + 1] if number + 1 < len(held.bounds) else None
            end = len(points) if following is None else bisect_left(points, following, lo=at)
            if points[end - 1] >= held.bounds[0]:  # type: ignore[operator]
                found.setdefault(number, _Wanted()).points.extend(points[at:end])
            at = end
        for item in ranges:
            if item.is_point:
                continue
            start = None if item.low is None else held.bounds[self._leaf_of(held, item.low)]
            touched = held.tree.values(min=start, max=item.high, excludemax=not item.high_inclusive)
            for number in touched:
                part = found.setdefault(number, _Wanted())
                if self._inside(held, number, item):
                    part.whole = True
                else:
                    part.ranges.append(item)
        return dict(sorted(found.items()))

    def _leaf_of(self, held: _Stripe, key: Key) -> int:
        """The only leaf that can hold a key; the first one for a key below every bound."""
        if key < held.bounds[0]:  # type: ignore[operator]
            return 0
        number: int = held.tree[held.tree.maxKey(key)]
        return number

    def _inside(self, held: _Stripe, number: int, item: Range) -> bool:
        """Whether the bounds tell that every key of a leaf is in a range."""
        low, bounds = item.low, held.bounds
        if low is not None and (bounds[number] < low or (bounds[number] == low and not item.low_inclusive)):  # type: ignore[operator]
            return False
        if item.high is None:
            return True
        # the next leaf's bound is above every key of this one
        return number + 1 < len(bounds) and bounds[number + 1] <= item.high  # type: ignore[operator]

    def _rows(self, stripe: int, wanted: dict[int, _Wanted]) -> BitMap:
        held = self._stripes[stripe]
        inline: list[npt.NDArray[np.uint32]] = []
        outside: list[Outside] = []
        for leaf, part in zip(self._leaves(stripe, list(wanted)), wanted.values(), strict=True):
            spans = [(0, len(leaf.keys))] if part.whole else leaf.spans(part.ranges)
            if len(spans) == 1 and not part.points:
                ((start, end),) = spans
                inline.append(leaf.rows(start, end))
                outside.extend(leaf.outside(np.arange(start, end)))
                continue
            numbers = leaf.find(part.points)
            if spans:
                numbers = np.sort(np.concatenate([numbers, *(np.arange(start, end) for start, end in spans)]))
            inline.extend(leaf.rows_of(numbers))
            outside.extend(leaf.outside(numbers))
        found = rowsets.from_rows(np.concatenate(inline), held.rows) if inline else BitMap()
        if outside:
            found = BitMap.union(found, *self._bitmaps(held, outside))
        return found

    def _bitmaps(self, held: _Stripe, wanted: list[Outside]) -> list[BitMap]:
        pages = self.file.read_pages([item.page for item in wanted])
        found = []
        for page, item in zip(pages, wanted, strict=True):
            try:
                found.append(rowsets.load(page.block(0), held.rows, item.count))
            except ValueError as error:
                raise page.error(str(error)) from error
        return found

    def _leaves(self, stripe: int, numbers: list[int]) -> Iterator[Leaf]:
        """Decoded leaves, one by one; those that are not cached are fetched in one read."""
        held = self._stripes[stripe]
        with self._lock:
            cached = {number: self._cache.get((stripe, number)) for number in numbers}
            for number, leaf in cached.items():
                if leaf is not None:
                    self._cache.move_to_end((stripe, number))
        missing = [number for number in numbers if cached[number] is None]
        pages = dict(
            zip(missing, self.file.read_pages([held.leaves[number] for number in missing]), strict=True)
        )
        for number in numbers:
            leaf = cached[number]
            if leaf is None:
                leaf = Leaf(
                    pages.pop(number),
                    self._kind,
                    total=held.rows,
                    key_count=held.leaf_keys[number],
                    row_count=held.rows_before[number + 1] - held.rows_before[number],
                )
                self._keep((stripe, number), leaf)
            yield leaf

    def _keep(self, place: tuple[int, int], leaf: Leaf) -> None:
        with self._lock:
            if place in self._cache:
                return
            self._cache[place] = leaf
            self._cache_left -= leaf.nbytes
            while self._cache_left < 0 and self._cache:
                _, dropped = self._cache.popitem(last=False)
                self._cache_left += dropped.nbytes


def _page(message: pb.PageRef) -> PageRef:
    return PageRef(message.offset, message.length, message.crc32c)


def _clipped(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
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
