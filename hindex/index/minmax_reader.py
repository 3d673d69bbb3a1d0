"""Looking up rows in a MINMAX index file: a stripe at once where its own extent decides, else row group by group."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.index import byte_shuffle
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import page_ref
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.index_type import Bounds, MinMax
from hindex.index.roaring import MAX_ROWS, from_groups, group_count
from hindex.keys import INT64_MAX, INT64_MIN, KeyKind
from hindex.proto import index_file_pb2 as pb

#: Groups, groups with keys, widths of four arrays, and two numbers that depend on the kind of keys.
GROUP_HEADER = struct.Struct("<IIBBBBqq")

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Stripe:
    extent: ColumnStats
    groups: PageRef | None


@dataclass(frozen=True, slots=True)
class _Groups:
    """The extents of row groups: plain integer keys as arrays, all others one by one."""

    rows: npt.NDArray[np.int64]
    nulls: npt.NDArray[np.int64]
    lows: npt.NDArray[np.int64]
    highs: npt.NDArray[np.int64]
    extents: tuple[ColumnStats, ...] | None

    @property
    def nbytes(self) -> int:
        return 32 * len(self.rows) + 256 * len(self.extents or ())

    def matches(self, domain: Domain) -> tuple[Mask, Mask]:
        """Return masks of the groups with only matching rows, and of those that may have one."""
        if self.extents is not None:
            every = [item.all_match(domain) for item in self.extents]
            some = [item.can_match(domain) for item in self.extents]
            return np.array(every, np.bool_), np.array(some, np.bool_)
        filled = self.nulls < self.rows
        inside, overlap = _against(domain, self.lows, self.highs)
        some_nulls = self.nulls > 0
        if domain.null_allowed:
            return inside | ~filled, (overlap & filled) | some_nulls
        return inside & filled & ~some_nulls, overlap & filled


class MinMaxReader:
    """Reads a MINMAX index file; may be shared by threads.

    :raises IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        self._kind = file.footer.key_kind
        try:
            body = pb.MinMaxBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._group_rows = body.row_group_rows
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.MinMaxStripe) -> _Stripe:
        where = f"the directory of stripe {number}:"
        found = item.extent
        low: Key | None
        high: Key | None
        if self._kind is KeyKind.INT64:
            low = found.int_min if found.HasField("int_min") else None
            high = found.int_max if found.HasField("int_max") else None
        else:
            low = found.byte_min if found.HasField("byte_min") else None
            high = found.byte_max if found.HasField("byte_max") else None
        if item.rows > MAX_ROWS or found.null_count > item.rows:
            raise self.file.error(f"{where} it counts {item.rows} rows and {found.null_count} null ones")
        filled = found.null_count < item.rows
        if filled != (low is not None) or filled != (high is not None):
            raise self.file.error(f"{where} keys and null rows disagree")
        if filled and low > high:  # type: ignore[operator]
            raise self.file.error(f"{where} its least key is above its greatest")
        if found.max_is_prefix and self._kind is KeyKind.INT64:
            raise self.file.error(f"{where} an integer key is cut")
        if item.HasField("groups") != (group_count(self._group_rows, item.rows) > 1):
            raise self.file.error(f"{where} its row groups are not where they should be")
        extent = ColumnStats(item.rows, found.null_count, low, high, found.max_is_prefix)
        return _Stripe(extent, page_ref(item.groups) if item.HasField("groups") else None)

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """Rows of each stripe."""
        return tuple(stripe.extent.rows for stripe in self._stripes)

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Rows of row groups of which all, and of which some, may be members.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        held = self._stripes[stripe]
        rows = held.extent.rows
        if not held.extent.can_match(domain):
            return Bounds.none()
        if held.extent.all_match(domain):
            return Bounds.all(rows)
        if held.groups is None:
            return Bounds.unknown(rows)
        every, some = self._groups(held).matches(domain)
        lower = from_groups(every, self._group_rows, rows) if every.any() else BitMap()
        return Bounds(lower, from_groups(some, self._group_rows, rows))

    def ends(self, stripe: int) -> MinMax:
        """See :class:`~hindex.index.index_type.MinMaxSource`: bytes may be cut, or come from statistics that were."""
        found = self._stripes[stripe].extent
        if self._kind is KeyKind.BYTES:
            return MinMax(found.null_count, None, None)
        return MinMax(found.null_count, found.min_key, found.max_key)

    def close(self) -> None:
        self.file.close()

    def _groups(self, held: _Stripe) -> _Groups:
        assert held.groups is not None
        pages = self.file.decoded([held.groups], lambda _, page: self._decode(page, held.extent), _size)
        return next(pages)

    def _decode(self, page: Page, whole: ColumnStats) -> _Groups:
        count, filled, *widths, first, second = GROUP_HEADER.unpack(page.block(0, GROUP_HEADER.size))
        if count != group_count(self._group_rows, whole.rows) or filled > count:
            raise page.error(f"it says that it holds {count} row groups, {filled} of them with keys")
        if max(widths) > 8:
            raise page.error("an integer wider than its field is promised")
        if len(page) != 1 + sum(widths) + (2 if filled and self._kind is KeyKind.BYTES else 0):
            raise page.error(f"it has {len(page)} blocks")
        at = 1
        arrays = []
        for width, length in zip(widths, (count, filled, filled, filled), strict=True):
            parts = [page.block(at + plane, length) for plane in range(width)]
            arrays.append(byte_shuffle.join(parts, length, np.uint64))
            at += width
        nulls, lows, highs, prefixes = arrays
        rows = np.full(count, self._group_rows, np.int64)
        rows[-1] = whole.rows - self._group_rows * (count - 1)
        if bool((nulls > rows.view(np.uint64)).any()) or int(nulls.sum()) != whole.null_count:
            raise page.error("its null rows do not add up")
        has_keys = nulls < rows.view(np.uint64)
        if int(np.count_nonzero(has_keys)) != filled:
            raise page.error("keys and null rows disagree")
        if self._kind is KeyKind.BYTES:
            low_keys = _cut_up(page, at, lows, first) if filled else []
            high_keys = _cut_up(page, at + 1, highs, second) if filled else []
            if any(low > high for low, high in zip(low_keys, high_keys, strict=True)):
                raise page.error("a least key is above the greatest")
            extents = _extents(rows, nulls, has_keys, low_keys, high_keys, prefixes)
            empty = np.zeros(0, np.int64)
            return _Groups(rows, nulls.astype(np.int64), empty, empty, extents)
        low_array, high_array = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        low_array[has_keys] = lows + np.array(first, np.int64).view(np.uint64)
        high_array[has_keys] = low_array[has_keys] + highs
        found = _Groups(
            rows, nulls.astype(np.int64), low_array.view(np.int64), high_array.view(np.int64), None
        )
        if bool((found.lows > found.highs).any()):
            raise page.error("a least key is above the greatest")
        return found


def _size(groups: _Groups) -> int:
    return groups.nbytes


def _cut_up(page: Page, number: int, lengths: npt.NDArray[np.uint64], total: int) -> list[bytes]:
    if total < 0 or int(lengths.max()) > total or int(lengths.sum()) != total:
        raise page.error("its key lengths do not add up")
    data = bytes(page.block(number, total))
    ends = np.cumsum(lengths).tolist()
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _extents(
    rows: npt.NDArray[np.int64],
    nulls: npt.NDArray[np.uint64],
    has_keys: Mask,
    lows: list[bytes],
    highs: list[bytes],
    prefixes: npt.NDArray[np.uint64],
) -> tuple[ColumnStats, ...]:
    keys = iter(zip(lows, highs, prefixes.tolist(), strict=True))
    found = []
    for count, missing, filled in zip(rows.tolist(), nulls.tolist(), has_keys.tolist(), strict=True):
        low, high, prefix = next(keys) if filled else (None, None, 0)
        found.append(ColumnStats(count, missing, low, high, bool(prefix)))
    return tuple(found)


def _against(domain: Domain, lows: npt.NDArray[np.int64], highs: npt.NDArray[np.int64]) -> tuple[Mask, Mask]:
    """Return masks of the integer spans that lie within a range of the domain, and of those that overlap one."""
    starts, ends = [], []
    for item in domain.ranges:
        low = INT64_MIN if item.low is None else item.low
        high = INT64_MAX if item.high is None else item.high
        assert isinstance(low, int)
        assert isinstance(high, int)
        # literals may lie beyond 64 bits
        if low <= INT64_MAX and high >= INT64_MIN:
            starts.append(max(low, INT64_MIN))
            ends.append(min(high, INT64_MAX))
    if not starts:
        nothing = np.zeros(len(lows), np.bool_)
        return nothing, nothing
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    # the first range that does not end before a span is the only one that can hold it
    at = np.searchsorted(last, lows)
    known = at < len(last)
    at[~known] = 0
    return known & (first[at] <= lows) & (highs <= last[at]), known & (first[at] <= highs)
