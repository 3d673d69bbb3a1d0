"""Extents: the least and greatest key of some rows, and how many of them are null.

What MINMAX keeps of every row group and stripe, and a manifest of every stripe. Long keys are cut to a safe
bound: a prefix of the least key is not above it, and of a cut greatest key it is known that it begins so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hindex.domain import Domain, Key, Range
from hindex.keys import KeyKind

#: Bytes of a key that a manifest keeps.
SHORT_KEY = 64


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """The keys of ``rows`` rows lie between ``min_key`` and ``max_key``; None where every row is null.

    With ``max_is_prefix``, the greatest key is not ``max_key`` itself but some bytes that begin with it, and the
    least key may be above ``min_key`` too.
    """

    rows: int
    null_count: int
    min_key: Key | None
    max_key: Key | None
    max_is_prefix: bool = False

    @property
    def has_values(self) -> bool:
        return self.min_key is not None

    def cut(self, limit: int = SHORT_KEY) -> ColumnStats:
        """The same with keys of at most ``limit`` bytes."""
        low, high, prefix = self.min_key, self.max_key, self.max_is_prefix
        if isinstance(low, bytes) and len(low) > limit:
            low = low[:limit]
        if isinstance(high, bytes) and len(high) > limit:
            high, prefix = high[:limit], True
        return ColumnStats(self.rows, self.null_count, low, high, prefix)

    def can_match(self, domain: Domain) -> bool:
        """Return True if some row may be a member: False is certain, True is not."""
        if domain.null_allowed and self.null_count:
            return True
        return self._range(domain) is not None

    def all_match(self, domain: Domain) -> bool:
        """Return True if every row is a member: True is certain, False is not."""
        if self.null_count and not domain.null_allowed:
            return False
        if not self.has_values:
            return True
        found = self._range(domain)
        return found is not None and self._is_inside(found)

    def _range(self, domain: Domain) -> Range | None:
        """The first range that any key may be in: the only one that can hold them all."""
        low, high = self.min_key, self.max_key
        if low is None or high is None:
            return None
        ranges = domain.ranges
        # ranges ascend: the first one that does not end before the least key
        at = bisect_left(ranges, True, key=lambda item: not _ends_before(item, low))
        return ranges[at] if at < len(ranges) and not self._starts_after(ranges[at]) else None

    def _starts_after(self, item: Range) -> bool:
        low, high = item.low, self.max_key
        if low is None:
            return False
        if self.max_is_prefix:
            assert isinstance(low, bytes)
            assert isinstance(high, bytes)
            return low[: len(high)] > high
        return low > high or (low == high and not item.low_inclusive)  # type: ignore[operator]

    def _is_inside(self, item: Range) -> bool:
        low, high = self.min_key, self.max_key
        if item.low is not None and (low < item.low or (low == item.low and not item.low_inclusive)):  # type: ignore[operator]
            return False
        if item.high is None:
            return True
        if self.max_is_prefix:
            assert isinstance(item.high, bytes)
            assert isinstance(high, bytes)
            return item.high[: len(high)] > high
        return high < item.high or (high == item.high and item.high_inclusive)  # type: ignore[operator]


def _ends_before(item: Range, key: Key) -> bool:
    high = item.high
    return high is not None and (high < key or (high == key and not item.high_inclusive))  # type: ignore[operator]


def around(extents: Sequence[ColumnStats]) -> ColumnStats:
    """The extent of all the rows of some extents, whose keys are of one kind."""
    rows, nulls = sum(item.rows for item in extents), sum(item.null_count for item in extents)
    held = [item for item in extents if item.has_values]
    if not held:
        return ColumnStats(rows, nulls, None, None)
    low = min(item.min_key for item in held)  # type: ignore[type-var]
    highest = max(held, key=_reach)
    return ColumnStats(rows, nulls, low, highest.max_key, highest.max_is_prefix)


def are_of_kind(extents: Iterable[ColumnStats], kind: KeyKind | None) -> bool:
    """Return True if the keys of statistics, which are all of one kind, are of that kind."""
    for item in extents:
        if item.min_key is not None:
            return isinstance(item.min_key, bytes) is (kind is KeyKind.BYTES)
    return True


def _reach(extent: ColumnStats) -> int | str:
    """Something that orders as far as keys may reach: a cut greatest key beyond all that begin with it."""
    high = extent.max_key
    assert high is not None
    if isinstance(high, bytes):
        return high.decode("latin-1") + ("\u0100" if extent.max_is_prefix else "")
    return high
