"""The extents of data files' stripes as a manifest keeps them: a list for each of their parts.

Few of them ever become objects: which files of a segment may hold a wanted key is told of all at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import MAX_KEY, MIN_KEY, Domain, Key, Range
from hindex.index.column_stats import SHORT_KEY, ColumnStats
from hindex.index.tree_reader import clipped
from hindex.keys import KeyKind
from hindex.proto import manifest_pb2 as pb

#: The lists of a ``StripeExtents`` message, and what is in them.
LISTS = {
    "null_counts": pa.uint64(),
    "int_mins": pa.int64(),
    "int_maxs": pa.int64(),
    "byte_mins": pa.binary(),
    "byte_maxs": pa.binary(),
    "cut": pa.uint32(),
}

# with more ranges of bytes, the one around all of them is looked at
_MOST_RANGES = 16

Mask: TypeAlias = npt.NDArray[np.bool_]


def encode_extents(extents: Sequence[ColumnStats]) -> pb.StripeExtents:
    """The message of one extent a stripe; long keys are cut."""
    found = pb.StripeExtents(null_counts=[item.null_count for item in extents])
    held = 0
    for item in extents:
        item = item.cut()
        if isinstance(item.min_key, int) and isinstance(item.max_key, int):
            found.int_mins.append(item.min_key)
            found.int_maxs.append(item.max_key)
        elif isinstance(item.min_key, bytes) and isinstance(item.max_key, bytes):
            found.byte_mins.append(item.min_key)
            found.byte_maxs.append(item.max_key)
            if item.max_is_prefix:
                found.cut.append(held)
        held += item.has_values
    return found


def decode_extents(message: pb.StripeExtents, stripe_rows: Sequence[int]) -> tuple[ColumnStats, ...]:
    """The extent of each stripe.

    :param stripe_rows: rows of each stripe.
    :raises ValueError: if the lists contradict each other.
    """
    lists = [pa.array([list(getattr(message, name))], pa.list_(of)) for name, of in LISTS.items()]
    column = pa.StructArray.from_arrays(lists, names=list(LISTS))
    return ExtentColumn(column, pa.array([list(stripe_rows)], pa.list_(pa.uint64()))).extents(0)


class ExtentColumn:
    """The extents that one index gives of some data files' stripes. Immutable.

    :param column: for each file the lists of a ``StripeExtents`` message; not sliced, without nulls.
    :param stripe_rows: for each file the rows of its stripes.
    :raises ValueError: if the lists contradict each other.
    """

    def __init__(self, column: pa.StructArray, stripe_rows: pa.ListArray) -> None:
        self._rows = _Lists(stripe_rows)
        lists = {name: _Lists(column.field(name)) for name in LISTS}
        self._nulls, self._cut = lists["null_counts"], lists["cut"]
        self._ints = lists["int_mins"], lists["int_maxs"]
        self._bytes = lists["byte_mins"], lists["byte_maxs"]
        self._check()

    def _check(self) -> None:
        told, stripes = self._nulls.lengths, self._rows.lengths
        for at in np.flatnonzero(told != stripes)[:1]:
            raise ValueError(f"extents of {told[at]} stripes for a file of {stripes[at]}")
        nulls, rows = _numbers(self._nulls.values), _numbers(self._rows.values)
        for at in np.flatnonzero(nulls > rows)[:1]:
            raise ValueError(f"a stripe of {rows[at]} rows has {nulls[at]} null ones")
        filled = self._nulls.count(nulls < rows)
        ints, bytes_ = (mins.lengths for mins, _ in (self._ints, self._bytes))
        wrong = (ints + bytes_ != filled) | ((ints > 0) & (bytes_ > 0))
        wrong |= (ints != self._ints[1].lengths) | (bytes_ != self._bytes[1].lengths)
        for at in np.flatnonzero(wrong)[:1]:
            raise ValueError(f"extents of {filled[at]} stripes with values have {ints[at] + bytes_[at]} keys")
        cut = _numbers(self._cut.values) >= np.repeat(bytes_, self._cut.lengths)
        if cut.any():
            raise ValueError("an extent that is cut has no key")
        for mins, maxs in (self._ints, self._bytes):
            if pc.any(pc.greater(mins.values, maxs.values)).as_py():
                raise ValueError("the least key of a stripe is above its greatest")

    def num_stripes(self, file: int) -> int:
        """Of how many stripes of a file there are extents."""
        return int(self._rows.lengths[file])

    def extents(self, file: int) -> tuple[ColumnStats, ...]:
        """The extents of a file's stripes."""
        lows: Sequence[Key] = self._ints[0].of(file) or self._bytes[0].of(file)
        highs: Sequence[Key] = self._ints[1].of(file) or self._bytes[1].of(file)
        keys = enumerate(zip(lows, highs, strict=True))
        cut = set(self._cut.of(file))
        found = []
        for rows, nulls in zip(self._rows.of(file), self._nulls.of(file), strict=True):
            if nulls == rows:
                found.append(ColumnStats(rows, nulls, None, None))
            else:
                number, (low, high) = next(keys)
                found.append(ColumnStats(rows, nulls, low, high, number in cut))
        return tuple(found)

    def are_of_kind(self, file: int, kind: KeyKind | None) -> bool:
        """Return True if a file's keys are of a kind, or if it has none."""
        others, _ = self._ints if kind is KeyKind.BYTES else self._bytes
        return not others.lengths[file]

    def may_match(self, domain: Domain, kind: KeyKind | None) -> Mask:
        """Return a mask of the files that may have a member of a domain; False is certain.

        :param kind: of the domain's keys. Files whose keys are of another one are not judged.
        """
        is_bytes = kind is KeyKind.BYTES
        mins, maxs = self._bytes if is_bytes else self._ints
        (others, _) = self._ints if is_bytes else self._bytes
        found: Mask = others.lengths > 0
        if domain.null_allowed:
            found |= self._nulls.count(_numbers(self._nulls.values) > 0) > 0
        # literals may lie beyond all keys
        ranges = domain.ranges if is_bytes else clipped(domain.ranges)
        if ranges and len(mins.values):
            near = self._bytes_overlap(ranges) if is_bytes else _ints_overlap(mins, maxs, ranges)
            found |= mins.count(near) > 0
        return found

    def _bytes_overlap(self, ranges: Sequence[Range]) -> Mask:
        """Return a mask of the stripes with values that may have one in some range."""
        mins, maxs = (lists.values for lists in self._bytes)
        if len(ranges) > _MOST_RANGES:
            ranges = [Range(ranges[0].low, ranges[-1].high)]
        cut = np.zeros(len(maxs), np.bool_)
        starts = np.repeat(self._bytes[1].offsets[:-1], self._cut.lengths)
        cut[starts + _numbers(self._cut.values).astype(np.int64)] = True
        # what was cut elsewhere than this version does is not looked at
        odd = cut & (_numbers(pc.binary_length(maxs)) != SHORT_KEY)
        found = np.zeros(len(mins), np.bool_)
        for item in ranges:
            near = np.ones(len(mins), np.bool_)
            if item.high is not None:
                assert isinstance(item.high, bytes)
                before = pc.less_equal if item.high_inclusive else pc.less
                near &= _truths(before(mins, _scalar(item.high)))
            if item.low is not None:
                assert isinstance(item.low, bytes)
                after = pc.greater_equal if item.low_inclusive else pc.greater
                reaches = _truths(after(maxs, _scalar(item.low)))
                begins = _truths(pc.greater_equal(maxs, _scalar(item.low[:SHORT_KEY])))
                near &= np.where(cut, begins | odd, reaches)
            found |= near
        return found


class _Lists:
    """Lists of values: where each begins and ends, and the values one after another."""

    def __init__(self, lists: pa.ListArray) -> None:
        self.offsets = _numbers(lists.offsets).astype(np.int64)
        self.lengths = np.diff(self.offsets)
        self.values: pa.Array = lists.values

    def of(self, at: int) -> list[Any]:
        """The values of one list."""
        return self.values.slice(self.offsets[at], self.lengths[at]).to_pylist()  # type: ignore[no-any-return]

    def count(self, flags: Mask) -> npt.NDArray[np.int64]:
        """Count the flagged values of each list."""
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags)])
        found: npt.NDArray[np.int64] = sums[self.offsets[1:]] - sums[self.offsets[:-1]]
        return found


def _ints_overlap(mins: _Lists, maxs: _Lists, ranges: Sequence[Range]) -> Mask:
    """Return a mask of the stripes with values that may have one in some range."""
    lows = np.array([MIN_KEY if item.low is None else item.low for item in ranges], np.int64)
    highs = np.array([MAX_KEY if item.high is None else item.high for item in ranges], np.int64)
    # the first range that does not end before the least key
    at = np.searchsorted(highs, _numbers(mins.values))
    near = lows[np.minimum(at, len(ranges) - 1)] <= _numbers(maxs.values)
    return (at < len(ranges)) & near


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    """Integers without nulls; Arrow's own way would import pandas."""
    found: npt.NDArray[Any] = np.from_dlpack(array)
    return found


def _scalar(key: bytes) -> pa.Scalar:
    """A key; pa.scalar would import pandas."""
    ends = pa.py_buffer(np.array([0, len(key)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(key)])[0]


def _truths(array: pa.Array) -> Mask:
    return _numbers(array.cast(pa.uint8())).astype(np.bool_)


class StoredExtents(Sequence[ColumnStats]):
    """The extents of one file of a column, which become objects when they are asked for."""

    def __init__(self, column: ExtentColumn, file: int) -> None:
        self.column = column
        self.file = file
        self._found: tuple[ColumnStats, ...] | None = None

    @property
    def _all(self) -> tuple[ColumnStats, ...]:
        found = self._found
        if found is None:
            self._found = found = self.column.extents(self.file)
        return found

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
        return self._all == tuple(other) if isinstance(other, tuple | StoredExtents) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all)

    def __repr__(self) -> str:
        return repr(self._all)
