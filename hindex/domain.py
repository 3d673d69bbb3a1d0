"""Domains: the set of one column's values for which a predicate is TRUE.

A domain is a union of disjoint ranges of *keys* (see :mod:`hindex.keys`) and a flag for NULL.
Three-valued logic ends here: NOT has been pushed to the leaves before domains are formed, so a row is kept
exactly where its key, or NULL, is a member.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

Key = int | bytes

#: Keys that are integers have 64 bits.
MIN_KEY, MAX_KEY = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Domain:
    """Sorted, disjoint, non-touching ranges, and a flag for NULL.

    Build it with the class methods: they establish the invariants.
    """

    ranges: tuple[Range, ...] = ()
    null_allowed: bool = False
    #: The cached hash: a plan looks domains up many times, and a list may have many members.
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.ranges, self.null_allowed)))
        assert self._hash is not None
        return self._hash

    def __reduce__(self) -> tuple[type[Domain], tuple[tuple[Range, ...], bool]]:
        # the hash stays behind: bytes have another one in another process
        return Domain, (self.ranges, self.null_allowed)

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
        return cls.from_ranges((Range(key, key) for key in keys), null_allowed=null_allowed)

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
        return cls(tuple(merged), null_allowed)

    @property
    def is_none(self) -> bool:
        return not self.ranges and not self.null_allowed

    @property
    def is_all(self) -> bool:
        return self.null_allowed and self.has_every_value

    @property
    def has_every_value(self) -> bool:
        """Return True if every non-null value is a member."""
        return self.ranges == (Range(),)

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
        return Domain(tuple(ranges), self.null_allowed and other.null_allowed)

    def complement(self, *, null_allowed: bool) -> Domain:
        """Return every value outside this domain; the caller decides if NULL is a member.

        SQL's ``NOT`` over a comparison leaves NULL out, ``IS NOT NULL`` and ``IS NULL`` trade it.
        """
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


def clip_to_int64(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """Return the parts of integer ranges that 64-bit keys can be in: literals may lie beyond."""
    if not ranges:
        return ()
    # ranges ascend, so the outermost bounds speak for all
    ends = (ranges[0].low, ranges[0].high, ranges[-1].low, ranges[-1].high)
    if all(end is None or MIN_KEY < end < MAX_KEY for end in ends):  # type: ignore[operator]
        return ranges
    clipped = []
    for item in ranges:
        low, high = item.low, item.high
        assert not isinstance(low, bytes)
        assert not isinstance(high, bytes)
        if low is not None and low <= MIN_KEY:
            low = None
        if high is not None and high >= MAX_KEY:
            high = None
        if (low is None or low <= MAX_KEY) and (high is None or high >= MIN_KEY):
            clipped.append(Range(low, high))
    return tuple(clipped)


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
