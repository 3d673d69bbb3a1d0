"""Column statistics: the least and greatest key of some rows, and their null count.

A MINMAX index has them for every row group and stripe, a manifest for every stripe. Long keys are truncated to a
safe bound: a prefix of the least key is not above it, and a truncated greatest key is marked as a prefix.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Domain, Key, Range, RangeArray, integer_arrays
from hindex.keys import KeyKind, array_keys, list_elements, min_max_keys
from hindex.orc.metadata.types import OrcType
from hindex.proto import manifest_pb2 as pb
from hindex.value_class import value_class

#: The most bytes of a key that a manifest stores.
SHORT_KEY = 64

#: The lists of a ``StripeStats`` message, and the types of their values.
LISTS = {
    "null_counts": pa.uint64(),
    "int_mins": pa.int64(),
    "int_maxs": pa.int64(),
    "byte_mins": pa.binary(),
    "byte_maxs": pa.binary(),
    "cut": pa.uint32(),
}

# more ranges of bytes than this are replaced by the range around them
_MAX_RANGES = 16

Mask: TypeAlias = npt.NDArray[np.bool_]
Int64s: TypeAlias = npt.NDArray[np.int64]


@value_class
class ColumnStats:
    """The keys of ``rows`` rows lie between ``min_key`` and ``max_key``; None if every row is null.

    With ``max_is_prefix``, the greatest key begins with ``max_key`` and may be longer, and the least key may be above
    ``min_key``.
    """

    rows: int
    null_count: int
    min_key: Key | None
    max_key: Key | None
    max_is_prefix: bool = False

    @property
    def has_values(self) -> bool:
        return self.min_key is not None

    def truncate(self, limit: int = SHORT_KEY) -> ColumnStats:
        """Return the same statistics with keys of at most ``limit`` bytes."""
        low, high, is_prefix = self.min_key, self.max_key, self.max_is_prefix
        if isinstance(low, bytes) and len(low) > limit:
            low = low[:limit]
        if isinstance(high, bytes) and len(high) > limit:
            high, is_prefix = high[:limit], True
        return ColumnStats(self.rows, self.null_count, low, high, is_prefix)

    def can_match(self, domain: Domain) -> bool:
        """Return False if certainly no row is a member, otherwise True."""
        if domain.null_allowed and self.null_count:
            return True
        return self._candidate(domain) is not None

    def all_match(self, domain: Domain) -> bool:
        """Return True if certainly every row is a member, otherwise False."""
        if self.null_count and not domain.null_allowed:
            return False
        if not self.has_values:
            return True
        candidate = self._candidate(domain)
        return candidate is not None and self._is_inside(candidate)

    def _candidate(self, domain: Domain) -> Range | None:
        """Return the first range that may have a key: only this one can contain all keys."""
        low, high = self.min_key, self.max_key
        if low is None or high is None:
            return None
        ranges = domain.ranges
        # ranges ascend: the first one that does not end before the least key
        if isinstance(ranges, RangeArray) and ranges.integers is not None:
            at = int(ranges.integers[1].searchsorted(low))
        else:
            at = bisect_left(ranges, True, key=lambda item: not _ends_before(item, low))
        candidate = ranges[at] if at < len(ranges) else None
        return None if candidate is None or self._starts_after(candidate) else candidate

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


def array_stats(data_type: OrcType, array: pa.Array) -> ColumnStats:
    """Compute the statistics of an Arrow array of ``data_type.to_arrow()``, or of lists of it.

    Lists without a value count as nulls.
    """
    if isinstance(array, pa.ListArray):
        elements, rows = list_elements(array)
        values = array_stats(data_type, elements.drop_null())
        filled = len(np.unique(rows[np.asarray(elements.is_valid())]))
        return ColumnStats(len(array), len(array) - filled, values.min_key, values.max_key)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    nulls = array.null_count
    if nulls == len(array):
        return ColumnStats(len(array), nulls, None, None)
    keys = array_keys(data_type, array)
    if isinstance(keys, np.ndarray) and nulls:
        keys = keys[np.asarray(array.is_valid())]
    return ColumnStats(len(array), nulls, *min_max_keys(keys))


def merge_stats(parts: Sequence[ColumnStats]) -> ColumnStats:
    """Merge the statistics of some parts, whose keys are of one kind."""
    rows, nulls = sum(item.rows for item in parts), sum(item.null_count for item in parts)
    filled = [item for item in parts if item.has_values]
    if not filled:
        return ColumnStats(rows, nulls, None, None)
    low = min(item.min_key for item in filled)  # type: ignore[type-var]
    highest = max(filled, key=_upper_bound)
    return ColumnStats(rows, nulls, low, highest.max_key, highest.max_is_prefix)


def _upper_bound(stats: ColumnStats) -> int | str:
    """Return a sort key of greatest keys: a prefix comes after all keys that begin with it."""
    high = stats.max_key
    assert high is not None
    if isinstance(high, bytes):
        return high.decode("latin-1") + ("\u0100" if stats.max_is_prefix else "")
    return high


def are_of_kind(stats: Iterable[ColumnStats], kind: KeyKind | None) -> bool:
    """Return True if the keys of statistics are of a kind; they must all be of one kind."""
    for item in stats:
        if item.min_key is not None:
            return isinstance(item.min_key, bytes) is (kind is KeyKind.BYTES)
    return True


def compare_integers(ranges: Sequence[Range], mins: Int64s, maxs: Int64s) -> tuple[Mask, Mask]:
    """Compare spans of integer keys with the ranges of a domain, whose bounds may lie beyond 64 bits.

    Returns:
        a mask of the spans that lie within a range, and one of the spans that overlap a range.
    """
    lows, highs = integer_arrays(ranges)
    if not len(lows):
        nothing = np.zeros(len(mins), np.bool_)
        return nothing, nothing
    # only the first range that does not end before a span can contain it
    at = np.searchsorted(highs, mins)
    is_candidate = at < len(lows)
    at[~is_candidate] = 0
    return is_candidate & (lows[at] <= mins) & (maxs <= highs[at]), is_candidate & (lows[at] <= maxs)


def encode_stripe_stats(stats: Sequence[ColumnStats]) -> pb.StripeStats:
    """Encode the statistics of a file's stripes; long keys are truncated."""
    message = pb.StripeStats(null_counts=[item.null_count for item in stats])
    num_filled = 0
    for item in stats:
        item = item.truncate()
        if isinstance(item.min_key, int) and isinstance(item.max_key, int):
            message.int_mins.append(item.min_key)
            message.int_maxs.append(item.max_key)
        elif isinstance(item.min_key, bytes) and isinstance(item.max_key, bytes):
            message.byte_mins.append(item.min_key)
            message.byte_maxs.append(item.max_key)
            if item.max_is_prefix:
                message.cut.append(num_filled)
        num_filled += item.has_values
    return message


class StatsColumn:
    """The statistics of one index for the stripes of some data files, as columns of a segment. Immutable.

    Few statistics become objects: `match` compares all files at once.

    Args:
        column: for each file, the lists of a ``StripeStats`` message, without nulls.
        stripe_rows: for each file, the rows of its stripes.

    Raises:
        ValueError: if the lists are inconsistent.
    """

    def __init__(self, column: pa.StructArray, stripe_rows: pa.ListArray) -> None:
        self._rows = _Lists(stripe_rows)
        lists = {name: _Lists(column.field(name)) for name in LISTS}
        self._nulls, self._cut = lists["null_counts"], lists["cut"]
        self._ints = lists["int_mins"], lists["int_maxs"]
        self._bytes = lists["byte_mins"], lists["byte_maxs"]
        self._check()

    def _check(self) -> None:
        for lists in (self._rows, self._nulls, self._cut, *self._ints, *self._bytes):
            if lists.offsets[0] != 0 or lists.offsets[-1] != len(lists.values):
                raise ValueError("statistics have values that belong to no file")
        counts, stripes = self._nulls.lengths, self._rows.lengths
        for at in np.flatnonzero(counts != stripes)[:1]:
            raise ValueError(f"statistics of {counts[at]} stripes for a file of {stripes[at]}")
        nulls, rows = _numbers(self._nulls.values), _numbers(self._rows.values)
        for at in np.flatnonzero(nulls > rows)[:1]:
            raise ValueError(f"a stripe of {rows[at]} rows has {nulls[at]} null ones")
        filled = self._nulls.count(nulls < rows)
        ints, bytes_ = (mins.lengths for mins, _ in (self._ints, self._bytes))
        wrong = (ints + bytes_ != filled) | ((ints > 0) & (bytes_ > 0))
        wrong |= (ints != self._ints[1].lengths) | (bytes_ != self._bytes[1].lengths)
        for at in np.flatnonzero(wrong)[:1]:
            raise ValueError(
                f"statistics of {filled[at]} stripes with values have {ints[at] + bytes_[at]} keys"
            )
        cut = _numbers(self._cut.values) >= np.repeat(bytes_, self._cut.lengths)
        if cut.any():
            raise ValueError("truncated statistics have no key")
        for mins, maxs in (self._ints, self._bytes):
            if pc.any(pc.greater(mins.values, maxs.values)).as_py():
                raise ValueError("the least key of a stripe is above its greatest")

    def num_stripes(self, file: int) -> int:
        """Return the number of a file's stripes with statistics."""
        return int(self._rows.lengths[file])

    def stripe_stats(self, file: int) -> tuple[ColumnStats, ...]:
        """Return the statistics of a file's stripes."""
        lows: Sequence[Key] = self._ints[0].to_pylist(file) or self._bytes[0].to_pylist(file)
        highs: Sequence[Key] = self._ints[1].to_pylist(file) or self._bytes[1].to_pylist(file)
        rows, nulls = self._rows.to_pylist(file), self._nulls.to_pylist(file)
        return _stripe_stats(rows, nulls, lows, highs, self._cut.to_pylist(file))

    def all_stripe_stats(self) -> list[tuple[ColumnStats, ...]]:
        """Return the statistics of the stripes of every file, at little more cost than for one file."""
        columns = (self._rows, self._nulls, *self._ints, *self._bytes, self._cut)
        return [
            _stripe_stats(rows, nulls, int_lows or byte_lows, int_highs or byte_highs, cut)
            for rows, nulls, int_lows, int_highs, byte_lows, byte_highs, cut in zip(
                *(column.to_pylists() for column in columns), strict=True
            )
        ]

    def are_of_kind(self, file: int, kind: KeyKind | None) -> bool:
        """Return True if a file's keys are of a kind, or if it has none."""
        others, _ = self._ints if kind is KeyKind.BYTES else self._bytes
        return not others.lengths[file]

    def has_keys_of(self, kind: KeyKind | None) -> Mask:
        """Return a mask of the files whose keys are of a kind, or that have none."""
        others, _ = self._ints if kind is KeyKind.BYTES else self._bytes
        has_none: Mask = others.lengths == 0
        return has_none

    def match(self, domain: Domain, kind: KeyKind | None) -> tuple[Mask, Mask]:
        """Compare the stripes of all files with a domain, file by file.

        Args:
            kind: the kind of the domain's keys. The result is undefined for files with keys of another kind.

        Returns:
            a mask of the stripes in which every row is a member, and one of those in which some row may be.
        """
        mins, maxs = self._bytes if kind is KeyKind.BYTES else self._ints
        nulls, rows = _numbers(self._nulls.values), _numbers(self._rows.values)
        has_nulls, has_values = nulls > 0, nulls < rows
        inside, overlaps = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        has_key = has_values & np.repeat(mins.lengths > 0, self._rows.lengths)
        if domain.ranges and has_key.any():
            if kind is KeyKind.BYTES:
                inside[has_key], overlaps[has_key] = self._compare_bytes(domain.ranges)
            else:
                spans = _numbers(mins.values), _numbers(maxs.values)
                inside[has_key], overlaps[has_key] = compare_integers(domain.ranges, *spans)
        if domain.null_allowed:
            return ~has_values | inside, has_nulls | overlaps
        return ~has_nulls & (~has_values | inside), overlaps

    def _compare_bytes(self, ranges: Sequence[Range]) -> tuple[Mask, Mask]:
        """Compare the keys of stripes with ranges, as `compare_integers`."""
        mins, maxs = (lists.values for lists in self._bytes)
        cut = np.zeros(len(maxs), np.bool_)
        starts = np.repeat(self._bytes[1].offsets[:-1], self._cut.lengths)
        cut[starts + _numbers(self._cut.values).astype(np.int64)] = True
        if len(ranges) > _MAX_RANGES:
            # usually, stripes overlap neither the ranges nor the gaps between them
            _, near = _compare_byte_ranges([Range(ranges[0].low, ranges[-1].high)], mins, maxs, cut)
            inside, overlaps = np.zeros(len(mins), np.bool_), near
            domain = Domain(tuple(ranges))
            for at in np.flatnonzero(near).tolist():
                stats = ColumnStats(1, 0, mins[at].as_py(), maxs[at].as_py(), bool(cut[at]))
                inside[at], overlaps[at] = stats.all_match(domain), stats.can_match(domain)
            return inside, overlaps
        return _compare_byte_ranges(ranges, mins, maxs, cut)


def _compare_byte_ranges(
    ranges: Sequence[Range], mins: pa.Array, maxs: pa.Array, cut: Mask
) -> tuple[Mask, Mask]:
    """Compare spans of keys with ranges; the greatest keys under the mask ``cut`` are truncated."""
    # keys that another version truncated to another length are not compared
    cut_otherwise = cut & (_numbers(pc.binary_length(maxs)) != SHORT_KEY)
    some_inside, some_overlap = np.zeros(len(mins), np.bool_), np.zeros(len(mins), np.bool_)
    for item in ranges:
        inside, overlaps = np.ones(len(mins), np.bool_), np.ones(len(mins), np.bool_)
        if item.high is not None:
            assert isinstance(item.high, bytes)
            before = pc.less_equal if item.high_inclusive else pc.less
            overlaps &= _mask(before(mins, _scalar(item.high)))
            ends = _mask(pc.less(maxs, _scalar(item.high[:SHORT_KEY])))
            inside &= np.where(cut, ends & ~cut_otherwise, _mask(before(maxs, _scalar(item.high))))
        if item.low is not None:
            assert isinstance(item.low, bytes)
            after = pc.greater_equal if item.low_inclusive else pc.greater
            begins = _mask(pc.greater_equal(maxs, _scalar(item.low[:SHORT_KEY])))
            overlaps &= np.where(cut, begins | cut_otherwise, _mask(after(maxs, _scalar(item.low))))
            inside &= _mask(after(mins, _scalar(item.low)))
        some_inside |= inside
        some_overlap |= overlaps
    return some_inside, some_overlap


def _stripe_stats(
    rows: Sequence[int],
    nulls: Sequence[int],
    lows: Sequence[Key],
    highs: Sequence[Key],
    cut: Sequence[int],
) -> tuple[ColumnStats, ...]:
    keys = enumerate(zip(lows, highs, strict=True))
    stats = []
    for row_count, null_count in zip(rows, nulls, strict=True):
        if null_count == row_count:
            stats.append(ColumnStats(row_count, null_count, None, None))
        else:
            number, (low, high) = next(keys)
            stats.append(ColumnStats(row_count, null_count, low, high, number in cut))
    return tuple(stats)


class _Lists:
    """Lists of values: the offset of each list, and the concatenated values."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.offsets = _numbers(lists.offsets).astype(np.int64)
        self.lengths = np.diff(self.offsets)
        self.values: pa.Array = lists.values

    def to_pylist(self, at: int) -> list[Any]:
        """Return the values of one list."""
        return self.values.slice(self.offsets[at], self.lengths[at]).to_pylist()  # type: ignore[no-any-return]

    def to_pylists(self) -> list[list[Any]]:
        """Return the values of every list."""
        values, offsets = self.values.to_pylist(), self.offsets.tolist()
        return [values[start:end] for start, end in pairwise(offsets)]

    def count(self, flags: Mask) -> Int64s:
        """Count the flagged values of each list."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags)])
        counts: Int64s = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return counts


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Return integers without nulls; Arrow's own conversion would import pandas."""
    numbers: npt.NDArray[Any] = np.from_dlpack(array)
    return numbers


def _scalar(key: bytes) -> pa.Scalar:
    """Return a key as a scalar; pa.scalar would import pandas."""
    ends = pa.py_buffer(np.array([0, len(key)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(key)])[0]


def _mask(array: pa.Array) -> Mask:
    return _numbers(array.cast(pa.uint8())).astype(np.bool_)


class StoredStats(Sequence[ColumnStats]):
    """The statistics of one file of a `StatsColumn`. They become objects at their first use."""

    def __init__(self, column: StatsColumn, file: int) -> None:
        self.column = column
        self.file = file
        self._stats: tuple[ColumnStats, ...] | None = None

    @property
    def _all(self) -> tuple[ColumnStats, ...]:
        stats = self._stats
        if stats is None:
            self._stats = stats = self.column.stripe_stats(self.file)
        return stats

    def __len__(self) -> int:
        return self.column.num_stripes(self.file)

    @overload
    def __getitem__(self, at: int) -> ColumnStats: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[ColumnStats, ...]: ...

    def __getitem__(self, at: int | slice) -> ColumnStats | tuple[ColumnStats, ...]:
        return self._all[at]

    def __iter__(self) -> Iterator[ColumnStats]:
        return iter(self._all)

    def __eq__(self, other: object) -> bool:
        return self._all == tuple(other) if isinstance(other, tuple | StoredStats) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)
