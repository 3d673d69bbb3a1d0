"""Row keys: what a row of a transactional table is known by, whatever file it is in.

A key is a write id, a bucket property and a row id. Rows of ACID files have them as columns; those of flat files have
keys that follow from the file's place and the rows before it.
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

Ints = npt.NDArray[np.int64]

#: A bucket property holds its version in three bits, then the bucket, four unused bits, and the statement.
_VERSION_SHIFT, _BUCKET_SHIFT = 29, 16
_PART = 0xFFF
_V1 = 1 << _VERSION_SHIFT
#: Where a bucket stands in a code.
_CODE_SHIFT = 12
#: Up to so many keys are each compared with a range; of more only the least and the greatest are.
_FEW_KEYS = 4096
#: About what a bitmap takes besides what is in it.
_GROUP_BYTES = 400


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Ranges that the parts of some keys lie in, ends included; None is an open end. Buckets are codes."""

    write_ids: tuple[int | None, int | None] = (None, None)
    buckets: tuple[int | None, int | None] = (None, None)
    row_ids: tuple[int | None, int | None] = (None, None)

    def overlaps(self, other: KeyRange) -> bool:
        """Return True if some key may be in both ranges."""
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
    """Some keys, as int64 arrays of one length. ``buckets`` are codes: :func:`bucket_codes`."""

    write_ids: Ints
    buckets: Ints
    row_ids: Ints

    def __len__(self) -> int:
        return len(self.row_ids)

    def where(self, kept: npt.NDArray[np.bool_]) -> RowKeys:
        return RowKeys(self.write_ids[kept], self.buckets[kept], self.row_ids[kept])


class PackedKeys:
    """Many keys in little memory: a roaring bitmap of row ids for each write id and bucket that occurs."""

    def __init__(self, parts: Iterable[RowKeys]) -> None:
        self._row_ids: dict[tuple[int, int], BitMap64] = {}
        for part in parts:
            for at in _runs(part):
                key = int(part.write_ids[at.start]), int(part.buckets[at.start])
                # a row id below 0, which should not be, is told from the others as an unsigned number, too
                some = BitMap64(array("Q", part.row_ids[at].tobytes()))
                self._row_ids[key] = self._row_ids[key] | some if key in self._row_ids else some

    @property
    def nbytes(self) -> int:
        """The memory they take, roughly."""
        return sum(_GROUP_BYTES + len(found.serialize()) for found in self._row_ids.values())

    def parts(self) -> Iterator[RowKeys]:
        """The keys, those of one write id and bucket at a time."""
        for (write_id, bucket), found in self._row_ids.items():
            row_ids = np.array(found.to_array(), np.uint64).view(np.int64)
            yield RowKeys(_every(write_id, len(row_ids)), _every(bucket, len(row_ids)), row_ids)


def _runs(keys: RowKeys) -> Iterator[slice]:
    """The stretches of keys of one write id and bucket each."""
    if not len(keys):
        return
    steps = (keys.write_ids[1:] != keys.write_ids[:-1]) | (keys.buckets[1:] != keys.buckets[:-1])
    ends = [*(steps.nonzero()[0] + 1).tolist(), len(keys)]
    for first, end in zip([0, *ends], ends, strict=False):
        yield slice(first, end)


def bucket_property(bucket: int, statement: int = -1) -> int:
    """The property that Hive 3 writes.

    >>> bucket_property(0), bucket_property(1, 2)
    (536870912, 536936450)
    """
    return _V1 | bucket << _BUCKET_SHIFT | max(statement, 0)


def bucket_codes(properties: Ints) -> Ints:
    """Bucket and statement of properties of either version as one number, so that equal ones are equal.

    :raises OrcError: for a property of an unknown version.
    """
    distinct = _distinct(properties)
    if len(distinct) < len(properties):
        codes = bucket_codes(distinct)
        return _every(codes[0], len(properties)) if len(codes) == 1 else codes[_ranks(distinct, properties)]
    versions = properties >> _VERSION_SHIFT
    code = (properties >> _BUCKET_SHIFT & _PART) << _CODE_SHIFT | properties & _PART
    is_v1 = versions == 1
    known = is_v1 & ((_V1 | code >> _CODE_SHIFT << _BUCKET_SHIFT | code & _PART) == properties)
    if known.all():
        return code
    is_v0 = (versions == 0) & (properties <= _PART)
    if not (known | is_v0).all():
        strange = int(properties[~(known | is_v0)][0])
        raise OrcError(f"the bucket property {strange} is of no known version: upgrade hindex to read it")
    return np.where(is_v1, code, properties << _CODE_SHIFT)


def bucket_code(value: int) -> int:
    """:func:`bucket_codes` of one property."""
    code = (value >> _BUCKET_SHIFT & _PART) << _CODE_SHIFT | value & _PART
    if value >> _VERSION_SHIFT == 1 and bucket_property(code >> _CODE_SHIFT, code & _PART) == value:
        return code
    return int(bucket_codes(np.array([value], np.int64))[0])


class KeySet(Protocol):
    """The keys of some rows of a stripe."""

    def overlaps(self, some: KeyRange) -> bool:
        """Return True if some key may be in a range."""
        ...

    def rows_of(self, keys: RowKeys) -> Ints:
        """The rows whose keys are among others, in any order."""
        ...


class FlatKeys:
    """The keys of rows that follow each other in a flat file, or as there: all rows of a stripe.

    :param first_row_id: the row id of row 0 of the stripe.
    :param wanted: the rows that matter, at least one: a range that has the key of none of them is not overlapped; None
        for all.
    """

    def __init__(
        self, write_id: int, bucket: int, first_row_id: int, num_rows: int, wanted: BitMap | None = None
    ) -> None:
        self._write_id, self._bucket = write_id, bucket
        self._first, self._end = first_row_id, first_row_id + num_rows
        self._wanted = wanted

    @property
    def is_whole(self) -> bool:
        """Return True if all rows of the stripe are included."""
        return self._wanted is None

    def overlaps(self, some: KeyRange) -> bool:
        if not flat_range(self._write_id, self._bucket, self._first, self._end - self._first).overlaps(some):
            return False
        if self._wanted is None:
            return True
        low, high = some.row_ids
        first = 0 if low is None else max(low - self._first, 0)
        end = self._end if high is None else min(high + 1, self._end)
        return self._wanted.range_cardinality(first, end - self._first) > 0

    def rows_of(self, keys: RowKeys) -> Ints:
        here = (keys.write_ids == self._write_id) & (keys.buckets == self._bucket)
        here &= (keys.row_ids >= self._first) & (keys.row_ids < self._end)
        rows: Ints = keys.row_ids[here] - self._first
        return rows


def row_set(rows: Ints) -> BitMap:
    """Rows of a stripe as a bitmap: from an array of the standard library, as a numpy one is looked at row by row."""
    return BitMap(array("I", rows.astype(np.uint32).tobytes()))


def flat_range(write_id: int, bucket: int, first_row_id: int, num_rows: int) -> KeyRange:
    """The range of the keys of rows of a flat file."""
    return KeyRange((write_id, write_id), (bucket, bucket), (first_row_id, first_row_id + num_rows - 1))


class StoredKeys:
    """Keys that were read from a file, of at least one row.

    Each is brought to one integer: the rank of its write id and bucket among those that occur, then its row id. In
    files that Hive writes these ascend; where they do not, they are sorted here.

    :param rows: int64[N], the rows of the stripe that have these keys; None where these are the first N.
    """

    def __init__(self, rows: Ints | None, keys: RowKeys) -> None:
        self._keys = keys
        self._write_ids = _distinct(keys.write_ids)
        self._buckets = _distinct(keys.buckets)
        self._least = int(keys.row_ids.min())
        self._greatest = int(keys.row_ids.max())
        pairs = self._pairs_of(keys)
        self._pairs = _distinct(pairs)
        self._row_ids: Ints | None = None
        self._span = self._greatest - self._least + 1
        if len(self._pairs) > 1 and self._span * len(self._pairs) >= 1 << 62:
            # row ids lie so far apart that they are ranked, too
            self._row_ids = _distinct(keys.row_ids)
            self._span = len(self._row_ids)
        codes = self._codes(pairs, keys.row_ids)
        self._order: Ints | None = None
        if len(codes) > 1 and not bool(np.all(codes[1:] > codes[:-1])):
            self._order = np.argsort(codes, kind="stable")
            codes = codes[self._order]
        self._sorted = codes
        self._rows = rows

    def overlaps(self, some: KeyRange) -> bool:
        own = KeyRange(
            (int(self._write_ids[0]), int(self._write_ids[-1])),
            (int(self._buckets[0]), int(self._buckets[-1])),
            (self._least, self._greatest),
        )
        if not own.overlaps(some):
            return False
        keys = self._keys
        if len(keys) > _FEW_KEYS:
            return True
        inside = np.ones(len(keys), np.bool_)
        for values, (low, high) in (
            (keys.write_ids, some.write_ids),
            (keys.buckets, some.buckets),
            (keys.row_ids, some.row_ids),
        ):
            if low is not None:
                inside &= values >= low
            if high is not None:
                inside &= values <= high
        return bool(inside.any())

    def rows_of(self, keys: RowKeys) -> Ints:
        keys = keys.where((keys.row_ids >= self._least) & (keys.row_ids <= self._greatest))
        keys = keys.where(_is_in(self._write_ids, keys.write_ids) & _is_in(self._buckets, keys.buckets))
        pairs = self._pairs_of(keys)
        kept = _is_in(self._pairs, pairs)
        if self._row_ids is not None:
            kept &= _is_in(self._row_ids, keys.row_ids)
        if not len(keys) or not kept.any():
            return np.zeros(0, np.int64)
        wanted = self._codes(pairs[kept], keys.row_ids[kept])
        if self._order is None:
            at = np.searchsorted(self._sorted, wanted)
            at = at[_same_at(self._sorted, at, wanted)]
        else:
            # a key that occurs more than once, which it should not, stands for all its rows
            at = self._order[np.isin(self._sorted, wanted)]
        return at.astype(np.int64) if self._rows is None else self._rows[at]

    def _pairs_of(self, keys: RowKeys) -> Ints:
        """The ranks of write id and bucket as one number."""
        if len(self._write_ids) == 1 and len(self._buckets) == 1:
            return _every(0, len(keys))
        ranks = _ranks(self._write_ids, keys.write_ids) * len(self._buckets)
        return ranks + _ranks(self._buckets, keys.buckets)

    def _codes(self, pairs: Ints, row_ids: Ints) -> Ints:
        if len(self._pairs) == 1:
            return row_ids
        inner = row_ids - self._least if self._row_ids is None else _ranks(self._row_ids, row_ids)
        codes: Ints = _ranks(self._pairs, pairs) * self._span + inner
        return codes


def _every(value: int | np.int64, count: int) -> Ints:
    """One value many times, in no memory."""
    found: Ints = np.broadcast_to(np.int64(value), count)
    return found


def _distinct(values: Ints) -> Ints:
    """The distinct values, ascending: nearly always one, or many in order already."""
    if not len(values) or not values.strides[0] or values[0] == values[-1] == values.min() == values.max():
        return values[:1]
    steps = values[1:] != values[:-1]
    if bool(np.all(values[1:] >= values[:-1])):
        firsts: Ints = values[np.concatenate([[True], steps])]
        return firsts
    return np.unique(values)


def _ranks(distinct: Ints, values: Ints) -> Ints:
    if len(distinct) == 1:
        return _every(0, len(values))
    return np.searchsorted(distinct, values).astype(np.int64, copy=False)


def _same_at(ordered: Ints, at: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    same: npt.NDArray[np.bool_] = ordered[np.minimum(at, len(ordered) - 1)] == values
    return same


def _is_in(ordered: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    return _same_at(ordered, np.searchsorted(ordered, values), values)


def first_row_ids(files: Iterable[tuple[str, int | None, int]]) -> dict[str, int]:
    """The row id of each flat file's first row: the rows of all files of the same bucket before it, by their paths.

    :param files: of one directory: path, bucket and number of rows. Those without a bucket have no row ids.
    """
    found: dict[str, int] = {}
    so_far: dict[int, int] = {}
    for path, bucket, rows in sorted(files, key=lambda item: item[0]):
        if bucket is not None:
            found[path] = so_far.get(bucket, 0)
            so_far[bucket] = found[path] + rows
    return found


Range = tuple[int | None, int | None]
_Found = ColumnStatistics | Distrust | None

_OPEN: Range = (None, None)


class KeyStatistics:
    """The ranges of keys, and of current transactions, that a file's statistics tell; open where they do not."""

    def __init__(self, reader: OrcReader, columns: AcidColumns) -> None:
        self._tail = reader.tail
        self._built_in = FileIndexes(reader)
        self._names = columns.key
        self._key = [reader.column_type(name) for name in columns.key]
        self._current = reader.column_type(columns.current_transaction)

    def file(self) -> KeyRange:
        """The keys of the whole file."""
        return self._key_range([self._built_in.file_statistics(of.column) for of in self._key])

    def stripe(self, stripe: int) -> KeyRange:
        """The keys of one stripe."""
        return self._key_range([self._built_in.stripe_statistics(stripe, of.column) for of in self._key])

    def constants(self, stripe: int) -> dict[str, int]:
        """The columns of the key, but for the row id, that have one value in all rows of a stripe; and that value."""
        rows = self._tail.stripes[stripe].num_rows
        found: dict[str, int] = {}
        for at, name in enumerate(self._names[:2]):
            statistics = self._built_in.stripe_statistics(stripe, self._key[at].column)
            low, high = self._range(statistics, at)
            has_all = isinstance(statistics, ColumnStatistics) and statistics.nulls(rows) is Nulls.NONE
            if has_all and low is not None and low == high:
                found[name] = low
        return found

    def groups(self, stripe: int) -> Iterator[tuple[int, int, KeyRange]]:
        """First row, number of rows and keys of each row group; nothing where the stripe tells of none."""
        rows = self._built_in.group_rows(stripe)
        found = [self._built_in.group_statistics(stripe, of.column) for of in self._key]
        first = 0
        for number, count in enumerate(rows):
            ranges = [item[number] if isinstance(item, list) else None for item in found]
            yield first, count, self._key_range(ranges)
            first += count

    def current_transactions(self, stripe: int | None = None) -> Range:
        """The current transactions of a stripe, or of the whole file."""
        column = self._current.column
        if stripe is None:
            return self._range(self._built_in.file_statistics(column), 3)
        return self._range(self._built_in.stripe_statistics(stripe, column), 3)

    def _key_range(self, found: Sequence[_Found]) -> KeyRange:
        write_ids, buckets, row_ids = (self._range(item, at) for at, item in enumerate(found))
        return KeyRange(write_ids, _codes(buckets), row_ids)

    def _range(self, found: _Found, at: int) -> Range:
        if not isinstance(found, ColumnStatistics):
            return _OPEN
        values = value_range(found, (*self._key, self._current)[at], self._tail)
        if not isinstance(values, ValueRange):
            return _OPEN
        low, high = values.low, values.high
        return (low if isinstance(low, int) else None), (high if isinstance(high, int) else None)


def _codes(properties: Range) -> Range:
    """The range of codes of a range of bucket properties: they ascend together within a version only."""
    low, high = properties
    if low is None or high is None or low >> 29 != high >> 29:
        return _OPEN
    try:
        return bucket_code(low), bucket_code(high)
    except OrcError:
        # reading the rows tells whether one of them has such a property
        return _OPEN
