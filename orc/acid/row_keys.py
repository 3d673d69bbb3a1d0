"""Row keys, which identify the rows of a transactional table across its files.

A key is a write id, a bucket property and a row id. ACID files store them as columns. The keys of flat files follow
from the file's directory and name, and from the number of rows before it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap, BitMap64

from hindex.errors import OrcError
from hindex.orc.acid.schema import AcidColumns
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls, ValueRange, value_range
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.orc.reader.orc_reader import OrcReader
from hindex.value_class import value_class

Ints = npt.NDArray[np.int64]

#: A bucket property has its version in three bits, then the bucket, four unused bits, and the statement.
_VERSION_SHIFT, _BUCKET_SHIFT = 29, 16
_PART = 0xFFF
_V1 = 1 << _VERSION_SHIFT
#: The shift of the bucket in a bucket code.
_CODE_SHIFT = 12
#: More keys than this are compared with a range only by their minimum and maximum, not one by one.
_FEW_KEYS = 4096
#: The approximate memory of a bitmap without its content, in bytes.
_GROUP_BYTES = 400


@value_class
class KeyRange:
    """The ranges of the parts of some keys, bounds included; None for no bound. Buckets are codes."""

    write_ids: tuple[int | None, int | None] = (None, None)
    buckets: tuple[int | None, int | None] = (None, None)
    row_ids: tuple[int | None, int | None] = (None, None)

    def overlaps(self, other: KeyRange) -> bool:
        """Return True if a key may be in both ranges."""
        return (
            _meet(self.write_ids, other.write_ids)
            and _meet(self.buckets, other.buckets)
            and _meet(self.row_ids, other.row_ids)
        )


def _meet(a: tuple[int | None, int | None], b: tuple[int | None, int | None]) -> bool:
    return not (
        (a[1] is not None and b[0] is not None and a[1] < b[0])
        or (b[1] is not None and a[0] is not None and b[1] < a[0])
    )


@dataclass(frozen=True, slots=True, eq=False)
class RowKeys:
    """Keys as int64 arrays of one length; ``buckets`` are codes, see `bucket_codes`."""

    write_ids: Ints
    buckets: Ints
    row_ids: Ints

    def __len__(self) -> int:
        return len(self.row_ids)

    def filter(self, mask: npt.NDArray[np.bool_]) -> RowKeys:
        return RowKeys(self.write_ids[mask], self.buckets[mask], self.row_ids[mask])


class PackedKeys:
    """Many keys in little memory: a roaring bitmap of row ids for each write id and bucket."""

    def __init__(self, parts: Iterable[RowKeys]) -> None:
        self._row_ids: dict[tuple[int, int], BitMap64] = {}
        for part in parts:
            for run in _runs(part):
                key = int(part.write_ids[run.start]), int(part.buckets[run.start])
                # a negative row id, which is invalid, stays distinct as an unsigned number
                row_ids = BitMap64(array("Q", part.row_ids[run].tobytes()))
                self._row_ids[key] = self._row_ids[key] | row_ids if key in self._row_ids else row_ids

    @property
    def nbytes(self) -> int:
        """The approximate memory use."""
        return sum(_GROUP_BYTES + len(row_ids.serialize()) for row_ids in self._row_ids.values())

    def parts(self) -> Iterator[RowKeys]:
        """Yield the keys, one write id and bucket at a time."""
        for (write_id, bucket), bitmap in self._row_ids.items():
            row_ids = np.array(bitmap.to_array(), np.uint64).view(np.int64)
            yield RowKeys(_repeat(write_id, len(row_ids)), _repeat(bucket, len(row_ids)), row_ids)


def _runs(keys: RowKeys) -> Iterator[slice]:
    """Yield the runs of keys with the same write id and bucket."""
    if not len(keys):
        return
    steps = (keys.write_ids[1:] != keys.write_ids[:-1]) | (keys.buckets[1:] != keys.buckets[:-1])
    ends = [*(steps.nonzero()[0] + 1).tolist(), len(keys)]
    for first, end in zip([0, *ends], ends, strict=False):
        yield slice(first, end)


def bucket_property(bucket: int, statement: int = -1) -> int:
    """Encode a bucket and statement as the bucket property that Hive 3 writes.

    >>> bucket_property(0), bucket_property(1, 2)
    (536870912, 536936450)
    """
    return _V1 | bucket << _BUCKET_SHIFT | max(statement, 0)


def bucket_codes(properties: Ints) -> Ints:
    """Map bucket properties of version 0 or 1 to codes that are equal if bucket and statement are equal.

    Raises:
        OrcError: for a property of an unknown version.
    """
    distinct = _distinct(properties)
    if len(distinct) < len(properties):
        codes = bucket_codes(distinct)
        return _repeat(codes[0], len(properties)) if len(codes) == 1 else codes[_ranks(distinct, properties)]
    versions = properties >> _VERSION_SHIFT
    codes = (properties >> _BUCKET_SHIFT & _PART) << _CODE_SHIFT | properties & _PART
    is_v1 = versions == 1
    is_valid = is_v1 & ((_V1 | codes >> _CODE_SHIFT << _BUCKET_SHIFT | codes & _PART) == properties)
    if is_valid.all():
        return codes
    is_v0 = (versions == 0) & (properties <= _PART)
    if not (is_valid | is_v0).all():
        invalid = int(properties[~(is_valid | is_v0)][0])
        raise OrcError(f"the bucket property {invalid} has an unknown version: upgrade hindex to read it")
    return np.where(is_v1, codes, properties << _CODE_SHIFT)


def bucket_code(value: int) -> int:
    """Convert one property to a code, as `bucket_codes` does."""
    code = (value >> _BUCKET_SHIFT & _PART) << _CODE_SHIFT | value & _PART
    if value >> _VERSION_SHIFT == 1 and bucket_property(code >> _CODE_SHIFT, code & _PART) == value:
        return code
    return int(bucket_codes(np.array([value], np.int64))[0])


class KeySet(Protocol):
    """The keys of some rows of a stripe."""

    def overlaps(self, key_range: KeyRange) -> bool:
        """Return True if any of the keys may be in a range."""
        ...

    def rows_of(self, keys: RowKeys) -> Ints:
        """Return the rows with one of ``keys``, in any order."""
        ...


class FlatKeys:
    """The keys of all rows of a stripe with consecutive row ids, as in a flat file.

    Args:
        first_row_id: the row id of row 0 of the stripe.
        wanted: the relevant rows, at least one; None for all. Only ranges with a key of these rows overlap.
    """

    def __init__(
        self, write_id: int, bucket: int, first_row_id: int, num_rows: int, wanted: BitMap | None = None
    ) -> None:
        self._write_id, self._bucket = write_id, bucket
        self._first, self._end = first_row_id, first_row_id + num_rows
        self._wanted = wanted

    @property
    def is_whole(self) -> bool:
        """True if all rows of the stripe are included."""
        return self._wanted is None

    def overlaps(self, key_range: KeyRange) -> bool:
        if not flat_range(self._write_id, self._bucket, self._first, self._end - self._first).overlaps(
            key_range
        ):
            return False
        if self._wanted is None:
            return True
        low, high = key_range.row_ids
        first = 0 if low is None else max(low - self._first, 0)
        end = self._end if high is None else min(high + 1, self._end)
        return self._wanted.range_cardinality(first, end - self._first) > 0

    def rows_of(self, keys: RowKeys) -> Ints:
        mask = (keys.write_ids == self._write_id) & (keys.buckets == self._bucket)
        mask &= (keys.row_ids >= self._first) & (keys.row_ids < self._end)
        rows: Ints = keys.row_ids[mask] - self._first
        return rows


def row_set(rows: Ints) -> BitMap:
    """Convert rows of a stripe to a bitmap, by an array of the standard library: pyroaring iterates over numpy's."""
    return BitMap(array("I", rows.astype(np.uint32).tobytes()))


def flat_range(write_id: int, bucket: int, first_row_id: int, num_rows: int) -> KeyRange:
    """Return the key range of some rows of a flat file."""
    return KeyRange((write_id, write_id), (bucket, bucket), (first_row_id, first_row_id + num_rows - 1))


class StoredKeys:
    """The stored keys of at least one row of a file.

    Each key is encoded as one integer: the rank of its write id and bucket among the existing ones, then its row
    id. In files that Hive writes, these codes ascend; the codes of other files are sorted here.

    Args:
        rows: int64[N], the rows of the stripe that have these keys; None if they are the first N.
    """

    def __init__(self, rows: Ints | None, keys: RowKeys) -> None:
        self._keys = keys
        self._write_ids = _distinct(keys.write_ids)
        self._buckets = _distinct(keys.buckets)
        self._min_row_id = int(keys.row_ids.min())
        self._max_row_id = int(keys.row_ids.max())
        pairs = self._pairs_of(keys)
        self._pairs = _distinct(pairs)
        self._row_ids: Ints | None = None
        self._span = self._max_row_id - self._min_row_id + 1
        if len(self._pairs) > 1 and self._span * len(self._pairs) >= 1 << 62:
            # row ids are too far apart for one integer: use their ranks
            self._row_ids = _distinct(keys.row_ids)
            self._span = len(self._row_ids)
        codes = self._codes(pairs, keys.row_ids)
        self._order: Ints | None = None
        if len(codes) > 1 and not bool(np.all(codes[1:] > codes[:-1])):
            self._order = np.argsort(codes, kind="stable")
            codes = codes[self._order]
        self._sorted = codes
        self._rows = rows

    def overlaps(self, key_range: KeyRange) -> bool:
        own = KeyRange(
            (int(self._write_ids[0]), int(self._write_ids[-1])),
            (int(self._buckets[0]), int(self._buckets[-1])),
            (self._min_row_id, self._max_row_id),
        )
        if not own.overlaps(key_range):
            return False
        keys = self._keys
        if len(keys) > _FEW_KEYS:
            return True
        inside = np.ones(len(keys), np.bool_)
        for values, (low, high) in (
            (keys.write_ids, key_range.write_ids),
            (keys.buckets, key_range.buckets),
            (keys.row_ids, key_range.row_ids),
        ):
            if low is not None:
                inside &= values >= low
            if high is not None:
                inside &= values <= high
        return bool(inside.any())

    def rows_of(self, keys: RowKeys) -> Ints:
        keys = keys.filter((keys.row_ids >= self._min_row_id) & (keys.row_ids <= self._max_row_id))
        keys = keys.filter(_is_in(self._write_ids, keys.write_ids) & _is_in(self._buckets, keys.buckets))
        pairs = self._pairs_of(keys)
        mask = _is_in(self._pairs, pairs)
        if self._row_ids is not None:
            mask &= _is_in(self._row_ids, keys.row_ids)
        if not len(keys) or not mask.any():
            return np.zeros(0, np.int64)
        codes = self._codes(pairs[mask], keys.row_ids[mask])
        if self._order is None:
            index = np.searchsorted(self._sorted, codes)
            index = index[_is_at(self._sorted, index, codes)]
        else:
            # a key that occurs more than once, which is invalid, selects all its rows
            index = self._order[np.isin(self._sorted, codes)]
        return index.astype(np.int64) if self._rows is None else self._rows[index]

    def _pairs_of(self, keys: RowKeys) -> Ints:
        """Combine the ranks of write id and bucket into one number."""
        if len(self._write_ids) == 1 and len(self._buckets) == 1:
            return _repeat(0, len(keys))
        ranks = _ranks(self._write_ids, keys.write_ids) * len(self._buckets)
        return ranks + _ranks(self._buckets, keys.buckets)

    def _codes(self, pairs: Ints, row_ids: Ints) -> Ints:
        if len(self._pairs) == 1:
            return row_ids
        inner = row_ids - self._min_row_id if self._row_ids is None else _ranks(self._row_ids, row_ids)
        codes: Ints = _ranks(self._pairs, pairs) * self._span + inner
        return codes


def _repeat(value: int | np.int64, count: int) -> Ints:
    """Repeat a value without taking memory."""
    values: Ints = np.broadcast_to(np.int64(value), count)
    return values


def _distinct(values: Ints) -> Ints:
    """Return the distinct values, ascending; fast for one value, and for values in order."""
    if not len(values) or not values.strides[0] or values[0] == values[-1] == values.min() == values.max():
        return values[:1]
    steps = values[1:] != values[:-1]
    if bool(np.all(values[1:] >= values[:-1])):
        firsts: Ints = values[np.concatenate([[True], steps])]
        return firsts
    return np.unique(values)


def _ranks(distinct: Ints, values: Ints) -> Ints:
    if len(distinct) == 1:
        return _repeat(0, len(values))
    return np.searchsorted(distinct, values).astype(np.int64, copy=False)


def _is_at(ordered: Ints, index: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = ordered[np.minimum(index, len(ordered) - 1)] == values
    return same


def _is_in(ordered: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    return _is_at(ordered, np.searchsorted(ordered, values), values)


def first_row_ids(files: Iterable[tuple[str, int | None, int]]) -> dict[str, int]:
    """Return the row id of each flat file's first row: the rows of its bucket in files before it by path.

    Args:
        files: path, bucket and number of rows of the files of one directory. Files without a bucket have no row ids.
    """
    first_ids: dict[str, int] = {}
    rows_of_bucket: dict[int, int] = {}
    for path, bucket, rows in sorted(files, key=lambda item: item[0]):
        if bucket is not None:
            first_ids[path] = rows_of_bucket.get(bucket, 0)
            rows_of_bucket[bucket] = first_ids[path] + rows
    return first_ids


Range = tuple[int | None, int | None]
_Statistics = ColumnStatistics | Distrust | None

_OPEN: Range = (None, None)


class KeyStatistics:
    """The ranges of keys and of current transactions by a file's statistics; unbounded if these are unusable."""

    def __init__(self, reader: OrcReader, columns: AcidColumns) -> None:
        self._tail = reader.tail
        self._indexes = FileIndexes(reader)
        self._names = columns.key
        self._key = [reader.column_type(name) for name in columns.key]
        self._current = reader.column_type(columns.current_transaction)

    def file(self) -> KeyRange:
        """Return the range of the keys of the whole file."""
        return self._key_range([self._indexes.file_statistics(field.column) for field in self._key])

    def stripe(self, stripe: int) -> KeyRange:
        """Return the range of the keys of one stripe."""
        return self._key_range([self._indexes.stripe_statistics(stripe, field.column) for field in self._key])

    def constants(self, stripe: int) -> dict[str, int]:
        """Return the values of the write id and bucket columns that are constant in a stripe, by column."""
        rows = self._tail.stripes[stripe].num_rows
        constants: dict[str, int] = {}
        for index, name in enumerate(self._names[:2]):
            statistics = self._indexes.stripe_statistics(stripe, self._key[index].column)
            low, high = self._range(statistics, index)
            has_all = isinstance(statistics, ColumnStatistics) and statistics.nulls(rows) is Nulls.NONE
            if has_all and low is not None and low == high:
                constants[name] = low
        return constants

    def groups(self, stripe: int) -> Iterator[tuple[int, int, KeyRange]]:
        """Yield the first row, number of rows and key range of each row group; nothing without row index."""
        rows = self._indexes.group_rows(stripe)
        statistics = [self._indexes.group_statistics(stripe, field.column) for field in self._key]
        first = 0
        for number, count in enumerate(rows):
            ranges = [item[number] if isinstance(item, list) else None for item in statistics]
            yield first, count, self._key_range(ranges)
            first += count

    def current_transactions(self, stripe: int | None = None) -> Range:
        """Return the range of the current transactions of a stripe, or of the whole file."""
        column = self._current.column
        if stripe is None:
            return self._range(self._indexes.file_statistics(column), 3)
        return self._range(self._indexes.stripe_statistics(stripe, column), 3)

    def _key_range(self, statistics: Sequence[_Statistics]) -> KeyRange:
        write_ids, buckets, row_ids = (self._range(item, index) for index, item in enumerate(statistics))
        return KeyRange(write_ids, _codes(buckets), row_ids)

    def _range(self, statistics: _Statistics, index: int) -> Range:
        if not isinstance(statistics, ColumnStatistics):
            return _OPEN
        values = value_range(statistics, (*self._key, self._current)[index], self._tail)
        if not isinstance(values, ValueRange):
            return _OPEN
        low, high = values.low, values.high
        return (low if isinstance(low, int) else None), (high if isinstance(high, int) else None)


def _codes(properties: Range) -> Range:
    """Convert a range of bucket properties to a range of codes. Only within a version do both ascend together."""
    low, high = properties
    if low is None or high is None or low >> 29 != high >> 29:
        return _OPEN
    try:
        return bucket_code(low), bucket_code(high)
    except OrcError:
        # perhaps no row has the property, which only reading shows
        return _OPEN
