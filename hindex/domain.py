"""Domains: the set of one column's values for which a predicate is TRUE.

A domain is a union of disjoint ranges of *keys* (see `hindex.keys`) and a flag for NULL.
Three-valued logic ends here: NOT has been pushed to the leaves before domains are formed, so a row is kept
exactly where its key, or NULL, is a member.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.value_class import value_class

Key = int | bytes
Int64s: TypeAlias = npt.NDArray[np.int64]

#: Keys that are integers have 64 bits.
MIN_KEY, MAX_KEY = -(1 << 63), (1 << 63) - 1

#: From so many ranges on, a domain keeps them as arrays where it can.
MANY_RANGES = 64


@value_class
class Range:
    """A non-empty range of keys of one kind; ``None`` is an open end.

    Integer bounds are always inclusive (keys are discrete), so equal sets of integers have equal ranges.
    Bytes may exclude their bounds. A range of bytes that starts at the empty string, the least of all, has an
    open low end, unless it is that single point.
    """

    low: Key | None = None
    high: Key | None = None
    low_inclusive: bool = True
    high_inclusive: bool = True

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high

    def contains(self, key: Key) -> bool:
        if self.low is not None and (key < self.low or (key == self.low and not self.low_inclusive)):  # type: ignore[operator]
            return False
        return not (
            self.high is not None and (key > self.high or (key == self.high and not self.high_inclusive))  # type: ignore[operator]
        )


def make_range(
    low: Key | None, high: Key | None, *, low_inclusive: bool = True, high_inclusive: bool = True
) -> Range | None:
    """Return the canonical range between two bounds, or None if it is empty."""
    if isinstance(low, int) and not low_inclusive:
        if low >= MAX_KEY:
            return None
        low, low_inclusive = low + 1, True
    if isinstance(high, int) and not high_inclusive:
        if high <= MIN_KEY:
            return None
        high, high_inclusive = high - 1, True
    if low == b"" and low_inclusive and high != b"":
        low = None  # no bytes are less
    elif high == b"" and low is None:
        low, low_inclusive = b"", True
    if low is None:
        low_inclusive = True
    if high is None:
        high_inclusive = True
    if low is not None and high is not None:
        if low > high:  # type: ignore[operator]
            return None
        if low == high and not (low_inclusive and high_inclusive):
            return None
    return Range(low, high, low_inclusive, high_inclusive)


class RangeArray(Sequence[Range]):
    """Many ranges as arrays: ranges of integers, or single byte keys. Immutable; equal to any sequence of the same.

    A large list of keys is one object, and readers compare it with sorted keys as a whole. Iteration makes ranges.

    Args:
        lows: int64, ascending, or large binary without nulls.
        highs: int64, as many, none below its low; byte keys have none. The least and greatest 64-bit integer are open
            ends, except of a single point.
    """

    __slots__ = ("_highs", "_lows")

    def __init__(self, lows: Int64s | pa.LargeBinaryArray, highs: Int64s | None = None) -> None:
        self._lows = lows
        self._highs = highs

    @property
    def integers(self) -> tuple[Int64s, Int64s] | None:
        """The least and greatest integer of each range, or None for byte keys."""
        return (
            None
            if self._highs is None or not isinstance(self._lows, np.ndarray)
            else (self._lows, self._highs)
        )

    @property
    def byte_keys(self) -> pa.LargeBinaryArray | None:
        """The byte keys, or None for integers."""
        return None if isinstance(self._lows, np.ndarray) else self._lows

    def __len__(self) -> int:
        return len(self._lows)

    @overload
    def __getitem__(self, at: int) -> Range: ...

    @overload
    def __getitem__(self, at: slice) -> RangeArray: ...

    def __getitem__(self, at: int | slice) -> Range | RangeArray:
        if isinstance(at, slice):
            return RangeArray(self._lows[at], None if self._highs is None else self._highs[at])
        if self.byte_keys is not None:
            key = self.byte_keys[at].as_py()
            return Range(key, key)
        lows, highs = integer_arrays(self)
        return _integer_range(int(lows[at]), int(highs[at]))

    def __iter__(self) -> Iterator[Range]:
        if self.byte_keys is not None:
            return (Range(key, key) for key in self.byte_keys.to_pylist())
        lows, highs = integer_arrays(self)
        return map(_integer_range, lows.tolist(), highs.tolist())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RangeArray):
            if self.integers is None or other.integers is None:
                return bool(self.byte_keys == other.byte_keys)
            return all(np.array_equal(a, b) for a, b in zip(self.integers, other.integers, strict=True))
        if not isinstance(other, tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash((len(self), self[0], self[-1]))

    def __repr__(self) -> str:
        # equal representations mean equal ranges: callers may use a representation as a key
        if self.byte_keys is None:
            parts = [keys.tobytes() for keys in integer_arrays(self)]
        else:
            _, ends, data = self.byte_keys.buffers()
            offsets = np.frombuffer(ends, np.int64, len(self) + 1, 8 * self.byte_keys.offset)
            parts = [np.diff(offsets).tobytes(), bytes(memoryview(data or b"")[offsets[0] : offsets[-1]])]
        return f"<{len(self)} ranges {blake2b(b''.join(parts), digest_size=16).hexdigest()}>"


def _integer_range(low: int, high: int) -> Range:
    if low == high:
        return Range(low, high)
    return Range(None if low == MIN_KEY else low, None if high == MAX_KEY else high)


@value_class
class Domain:
    """Sorted, disjoint, non-touching ranges, and a flag for NULL.

    Build it with the class methods: they establish the invariants. Many ranges are a `RangeArray`.
    """

    ranges: Sequence[Range] = ()
    null_allowed: bool = False

    def __hash__(self) -> int:
        # a plan looks domains up many times, and a list may have many members
        ranges = self.ranges
        return hash((len(ranges), *((ranges[0], ranges[-1]) if ranges else ()), self.null_allowed))

    @classmethod
    def none(cls) -> Domain:
        return cls()

    @classmethod
    def all(cls) -> Domain:
        return cls((Range(),), True)

    @classmethod
    def not_null(cls) -> Domain:
        return cls((Range(),), False)

    @classmethod
    def only_null(cls) -> Domain:
        return cls((), True)

    @classmethod
    def points(cls, keys: Iterable[Key], *, null_allowed: bool = False) -> Domain:
        """Return the domain of single keys, in any order."""
        keys = list(keys)
        if len(keys) >= MANY_RANGES:
            if all(isinstance(key, bytes) for key in keys):
                return cls.from_keys(pa.array(keys, pa.large_binary()), null_allowed=null_allowed)
            # literals may lie beyond 64 bits
            if all(isinstance(key, int) and MIN_KEY <= key <= MAX_KEY for key in keys):
                return cls.from_keys(np.array(keys, np.int64), null_allowed=null_allowed)
        return cls.from_ranges((Range(key, key) for key in keys), null_allowed=null_allowed)

    @classmethod
    def from_keys(cls, keys: Int64s | pa.LargeBinaryArray, *, null_allowed: bool = False) -> Domain:
        """Return the domain of the keys of an array, in any order, without an object for each.

        Args:
            keys: int64 array, or large binary array without nulls.
        """
        if isinstance(keys, np.ndarray):
            # np.unique takes ten times as long
            keys = np.sort(keys)
            is_new = np.ones(len(keys), np.bool_)
            np.not_equal(keys[1:], keys[:-1], out=is_new[1:])
            keys = keys[is_new]
            is_start = np.ones(len(keys) + 1, np.bool_)
            # differences that overflow wrap around, none of them to 1
            is_start[1:-1] = keys[1:] - keys[:-1] != 1
            ranges = RangeArray(keys[is_start[:-1]], keys[is_start[1:]])
        else:
            distinct = pc.unique(keys)
            ranges = RangeArray(distinct.take(pc.array_sort_indices(distinct)))
        return cls(ranges if len(ranges) >= MANY_RANGES else tuple(ranges), null_allowed)

    @classmethod
    def between(
        cls,
        low: Key | None,
        high: Key | None,
        *,
        low_inclusive: bool = True,
        high_inclusive: bool = True,
    ) -> Domain:
        item = make_range(low, high, low_inclusive=low_inclusive, high_inclusive=high_inclusive)
        return cls(() if item is None else (item,))

    @classmethod
    def from_ranges(cls, ranges: Iterable[Range], *, null_allowed: bool = False) -> Domain:
        """Return the union of any ranges, in any order."""
        merged: list[Range] = []
        for item in sorted(ranges, key=_low_order):
            if merged and _touches(merged[-1], item):
                merged[-1] = _merge(merged[-1], item)
            else:
                merged.append(item)
        return cls(_pack(merged), null_allowed)

    @property
    def is_none(self) -> bool:
        return not self.ranges and not self.null_allowed

    @property
    def is_all(self) -> bool:
        return self.null_allowed and self.has_every_value

    @property
    def has_every_value(self) -> bool:
        """Return True if every non-null value is a member."""
        return len(self.ranges) == 1 and self.ranges[0] == Range()

    @property
    def has_points(self) -> bool:
        """Return True if some range is a single key."""
        return count_points(self.ranges) > 0

    @property
    def has_spans(self) -> bool:
        """Return True if some range is more than a single key."""
        return count_points(self.ranges) < len(self.ranges)

    def contains(self, key: Key | None) -> bool:
        if key is None:
            return self.null_allowed
        # the last range that starts at or before the key is the only one that can hold it
        at = bisect_right(self.ranges, _low_order(Range(key, key)), key=_low_order)
        return at > 0 and self.ranges[at - 1].contains(key)

    def union(self, other: Domain) -> Domain:
        return Domain.from_ranges(
            (*self.ranges, *other.ranges), null_allowed=self.null_allowed or other.null_allowed
        )

    def intersect(self, other: Domain) -> Domain:
        ranges: list[Range] = []
        own_at, other_at = 0, 0
        while own_at < len(self.ranges) and other_at < len(other.ranges):
            a, b = self.ranges[own_at], other.ranges[other_at]
            low = max(a, b, key=_low_order)
            high = min(a, b, key=_high_order)
            both = make_range(
                low.low,
                high.high,
                low_inclusive=low.low_inclusive,
                high_inclusive=high.high_inclusive,
            )
            if both is not None:
                ranges.append(both)
            if high is a:
                own_at += 1
            else:
                other_at += 1
        return Domain(_pack(ranges), self.null_allowed and other.null_allowed)

    def complement(self, *, null_allowed: bool) -> Domain:
        """Return every value outside this domain; the caller decides if NULL is a member.

        SQL's ``NOT`` over a comparison leaves NULL out, ``IS NOT NULL`` and ``IS NULL`` trade it.
        """
        if isinstance(self.ranges, RangeArray) and self.ranges.integers is not None and len(self.ranges):
            lows, highs = self.ranges.integers
            starts = np.concatenate([np.array([MIN_KEY], np.int64), highs[highs < MAX_KEY] + 1])
            ends = np.concatenate([lows[lows > MIN_KEY] - 1, np.array([MAX_KEY], np.int64)])
            is_open = [int(lows[0]) > MIN_KEY, int(highs[-1]) < MAX_KEY]
            starts, ends = starts[0 if is_open[0] else 1 :], ends[: None if is_open[1] else -1]
            return Domain(RangeArray(starts, ends), null_allowed)
        gaps: list[Range] = []
        low: Key | None = None
        low_inclusive = True
        open_low = True
        for item in self.ranges:
            if item.low is not None:
                gap = make_range(
                    None if open_low else low,
                    item.low,
                    low_inclusive=low_inclusive,
                    high_inclusive=not item.low_inclusive,
                )
                if gap is not None:
                    gaps.append(gap)
            if item.high is None:
                return Domain(tuple(gaps), null_allowed)
            low, low_inclusive, open_low = item.high, not item.high_inclusive, False
        last = Range() if open_low else make_range(low, None, low_inclusive=low_inclusive)
        return Domain((*gaps, last) if last is not None else tuple(gaps), null_allowed)


def count_points(ranges: Sequence[Range]) -> int:
    """Return the number of ranges that are a single key."""
    if isinstance(ranges, RangeArray):
        return len(ranges) if ranges.integers is None else int(np.count_nonzero(np.equal(*ranges.integers)))
    return sum(item.is_point for item in ranges)


def integer_arrays(ranges: Sequence[Range]) -> tuple[Int64s, Int64s]:
    """Return the least and greatest 64-bit key of ranges of integers, without those beyond 64 bits."""
    if isinstance(ranges, RangeArray) and ranges.integers is not None:
        return ranges.integers
    ends = []
    for item in ranges:
        assert not isinstance(item.low, bytes)
        assert not isinstance(item.high, bytes)
        low = MIN_KEY if item.low is None else max(item.low, MIN_KEY)
        high = MAX_KEY if item.high is None else min(item.high, MAX_KEY)
        # literals may lie beyond 64 bits
        if low <= high:
            ends.append((low, high))
    arrays = np.array(ends, np.int64).reshape(-1, 2)
    return arrays[:, 0], arrays[:, 1]


def concatenate_ranges(
    starts: npt.NDArray[np.int32 | np.int64], counts: npt.NDArray[np.int32 | np.int64]
) -> Int64s:
    """Return so many consecutive numbers from each start, one range after the other."""
    numbers = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    numbers += np.arange(len(numbers))
    return numbers


def _pack(ranges: list[Range]) -> Sequence[Range]:
    """Return ranges as arrays if they are many and arrays can represent them, else as a tuple."""
    if len(ranges) >= MANY_RANGES:
        if all(isinstance(item.low, int) and isinstance(item.high, int) for item in ranges):
            lows, highs = integer_arrays(ranges)
            if len(lows) == len(ranges):
                return RangeArray(lows, highs)
        keys = [item.low for item in ranges if item.is_point]
        if len(keys) == len(ranges) and all(isinstance(key, bytes) for key in keys):
            return RangeArray(pa.array(keys, pa.large_binary()))
    return tuple(ranges)


def _low_order(item: Range) -> tuple[int, Key, int]:
    if item.low is None:
        return (0, 0, 0)
    return (1, item.low, 0 if item.low_inclusive else 1)


def _high_order(item: Range) -> tuple[int, Key, int]:
    if item.high is None:
        return (1, 0, 0)
    return (0, item.high, 1 if item.high_inclusive else 0)


def _touches(first: Range, second: Range) -> bool:
    """Return True if ``second``, which does not start before ``first``, overlaps or adjoins it."""
    if first.high is None or second.low is None:
        return True
    if isinstance(first.high, int) and isinstance(second.low, int):
        return second.low <= first.high + 1
    if second.low == first.high:
        return first.high_inclusive or second.low_inclusive
    return second.low < first.high  # type: ignore[operator]


def _merge(first: Range, second: Range) -> Range:
    high = max(first, second, key=_high_order)
    low = None if first.low == b"" and first.low_inclusive and high.high != b"" else first.low
    return Range(low, high.high, first.low_inclusive, high.high_inclusive)
