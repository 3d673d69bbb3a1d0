"""The rows of a data file that delete deltas delete.

Delete deltas and data files are sorted by row key, so the statistics of a delete delta rule out most of its rows. The
rest is read in batches. Results do not depend on the order. Small delete files are read once for all data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import DeletedFileError, OrcError
from hindex.lru_cache import LruCache
from hindex.orc.acid.delta_files import DeleteFile, open_file
from hindex.orc.acid.row_keys import (
    Ints,
    KeyRange,
    KeySet,
    KeyStatistics,
    PackedKeys,
    Range,
    RowKeys,
    bucket_codes,
    row_set,
)
from hindex.orc.acid.schema import AcidColumns, acid_columns
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.reader.orc_reader import OrcReader
from hindex.value_class import value_class

#: The number of delete rows in memory at once.
BATCH_ROWS = 1 << 16
#: The number of delete files that stay open for later stripes.
_MAX_OPEN = 32
#: Delete files with at most this many rows are read whole and cached for other data files.
SMALL_ROWS = 1 << 16
#: Size of the cache of key ranges, some 50,000 files, and the approximate size of a file and of a range.
_RANGES_BYTES = 64 << 20
_FILE_BYTES, _RANGE_BYTES = 250, 450
#: Size of the cache of keys. A key takes two bytes or less.
_KEYS_BYTES = 64 << 20


@value_class
class _Ranges:
    """The key ranges of a delete file and its stripes, and its range of transactions, from statistics."""

    num_rows: int
    file: KeyRange
    stripes: tuple[KeyRange, ...]
    current: Range

    def stripes_with(self, keys: KeyRange | KeySet) -> list[int]:
        """Return the stripes that may have any of the keys."""
        if not keys.overlaps(self.file):
            return []
        return [stripe for stripe, key_range in enumerate(self.stripes) if keys.overlaps(key_range)]


class DeletedRows:
    """The deleted rows of one data file.

    Args:
        file_range: the range of all keys of the data file.
    """

    def __init__(self, files: Sequence[DeleteFile], valid: ValidWriteIds, file_range: KeyRange) -> None:
        candidates = ((file, _ranges_of(file)) for file in files)
        self._files = [(file, ranges) for file, ranges in candidates if ranges.file.overlaps(file_range)]
        self._valid = valid
        self._open: dict[DeleteFile, _DeleteReader] = {}

    def close(self) -> None:
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    @property
    def files(self) -> tuple[DeleteFile, ...]:
        """The delete files that may delete rows of the data file."""
        return tuple(file for file, _ in self._files)

    def may_touch(self, keys: KeyRange) -> bool:
        """Return True if a row with a key in a range may be deleted. This opens no file."""
        return any(ranges.stripes_with(keys) for _, ranges in self._files)

    def are_small(self, keys: KeyRange) -> bool:
        """Return True if all delete files with keys in a range are small."""
        return not any(
            ranges.stripes_with(keys) for file, ranges in self._files if not _is_small(file, ranges)
        )

    def rows(self, keys: KeySet) -> BitMap:
        """Return the rows of ``keys`` whose key is deleted.

        Raises:
            OrcError: if a delete delta cannot be read.
        """
        deleted = BitMap()
        for file, ranges in self._files:
            stripes = ranges.stripes_with(keys)
            if not stripes:
                continue
            if _is_small(file, ranges):
                for batch in _keys_of(file, self._valid, ranges).parts():
                    deleted |= row_set(keys.rows_of(batch))
                continue
            cached = self._open.get(file)
            reader = cached or _DeleteReader(file, self._valid, ranges)
            try:
                for batch in reader.keys(keys, stripes):
                    rows = keys.rows_of(batch)
                    if len(rows):
                        deleted |= row_set(rows)
            finally:
                if cached is None:
                    self._keep(file, reader)
        return deleted

    def _keep(self, file: DeleteFile, reader: _DeleteReader) -> None:
        """Keep a reader for later stripes; close it if enough are open, or another thread has kept one."""
        if len(self._open) >= _MAX_OPEN or self._open.setdefault(file, reader) is not reader:
            reader.close()


def _is_small(file: DeleteFile, ranges: _Ranges) -> bool:
    """Return True if the file is read whole, and its keys are cached."""
    return bool(file.changed_ns) and ranges.num_rows <= SMALL_ROWS


def _ranges_of(file: DeleteFile) -> _Ranges:
    """Return the ranges of a delete file, cached if its time of change is known."""
    ranges = RANGES.get(file) if file.changed_ns else None
    if ranges is None:
        ranges = _read_ranges(file)
        if file.changed_ns:
            RANGES.put(file, ranges, _FILE_BYTES + _RANGE_BYTES * (1 + len(ranges.stripes)))
    return ranges


def _read_ranges(file: DeleteFile) -> _Ranges:
    with _opened(file) as reader:
        statistics = KeyStatistics(reader, _columns(reader))
        whole = statistics.file()
        stripes = tuple(statistics.stripe(stripe) for stripe in range(len(reader.stripes)))
        return _Ranges(reader.num_rows, whole, stripes, statistics.current_transactions())


def _keys_of(file: DeleteFile, valid: ValidWriteIds, ranges: _Ranges) -> PackedKeys:
    """Return all keys of a small file, cached."""
    keys = KEYS.get((file, valid))
    if keys is None:
        reader = _DeleteReader(file, valid, ranges)
        try:
            keys = PackedKeys(reader.all_keys())
        finally:
            reader.close()
        KEYS.put((file, valid), keys, _FILE_BYTES + keys.nbytes)
    return keys


#: Ranges of delete files with a known time of change.
RANGES: LruCache[DeleteFile, _Ranges] = LruCache(_RANGES_BYTES)
#: Keys of small files, for readers that see the same transactions.
KEYS: LruCache[tuple[DeleteFile, ValidWriteIds], PackedKeys] = LruCache(_KEYS_BYTES)


def _opened(file: DeleteFile) -> OrcReader:
    try:
        return open_file(file.file)
    except OrcError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise DeletedFileError(
                f"the delete file {file.file.uri!r} was removed after the scan was planned, probably by a compaction: "
                "run the query again"
            ) from error
        raise


def _columns(reader: OrcReader) -> AcidColumns:
    columns = acid_columns(reader.tail.schema, reader.path)
    if columns is None:
        raise OrcError(
            "a file of a delete delta does not have the ACID schema, so its deletes are unknown: restore the file",
            path=reader.path,
        )
    return columns


class _DeleteReader:
    """An open file of a delete delta."""

    def __init__(self, file: DeleteFile, valid: ValidWriteIds, ranges: _Ranges) -> None:
        self._reader = _opened(file)
        self._columns = _columns(self._reader)
        self._statistics = KeyStatistics(self._reader, self._columns)
        self._groups: dict[int, list[tuple[int, int, KeyRange]]] = {}
        self._valid = valid
        low, high = ranges.current
        self._all_valid = valid.is_all or (
            low is not None and high is not None and valid.all_valid(low, high)
        )

    def close(self) -> None:
        self._reader.close()

    def keys(self, wanted: KeySet, stripes: Sequence[int]) -> Iterator[RowKeys]:
        """Yield batches of deleted keys of some stripes, without row groups that have none of the keys."""
        for stripe in stripes:
            if stripe not in self._groups:
                self._groups[stripe] = list(self._statistics.groups(stripe))
            rows = BitMap()
            for first, count, key_range in self._groups[stripe]:
                if wanted.overlaps(key_range):
                    rows.add_range(first, first + count)
            yield from self._batches(stripe, rows if self._groups[stripe] else self._all_rows(stripe))

    def all_keys(self) -> Iterator[RowKeys]:
        """Yield all deleted keys in batches."""
        for stripe in range(len(self._reader.stripes)):
            yield from self._batches(stripe, self._all_rows(stripe))

    def _all_rows(self, stripe: int) -> BitMap:
        # a bitmap, as the reader iterates over a range
        return BitMap(range(self._reader.stripes[stripe].num_rows))

    def _batches(self, stripe: int, rows: BitMap) -> Iterator[RowKeys]:
        constants = self._statistics.constants(stripe)
        names = [name for name in self._columns.key if name not in constants]
        current = self._columns.current_transaction
        if not self._all_valid:
            names.append(current)
        for batch in self._reader.batches(names, {stripe: rows}, batch_size=BATCH_ROWS):
            keys = row_keys(batch, constants, self._columns, self._reader)
            if not self._all_valid:
                transactions = int64s(batch.column(current), current, self._reader)
                keys = keys.filter(self._valid.valid_mask(transactions))
            yield keys


def row_keys(
    batch: pa.RecordBatch, constants: Mapping[str, int], columns: AcidColumns, reader: OrcReader
) -> RowKeys:
    """Make the keys of rows of a stripe.

    Args:
        batch: the key's columns, without the constant ones.
        constants: the values of columns that are constant in the stripe.
    """
    write_ids, buckets, row_ids = (
        np.broadcast_to(np.int64(constants[name]), batch.num_rows)
        if name in constants
        else int64s(batch.column(name), name, reader)
        for name in columns.key
    )
    try:
        return RowKeys(write_ids, bucket_codes(buckets), row_ids)
    except OrcError as error:
        raise error.at(path=reader.path, column=columns.bucket) from error


def int64s(array: pa.Array, name: str, reader: OrcReader) -> Ints:
    """Convert a column of the ACID schema to int64.

    Raises:
        OrcError: if it has nulls.
    """
    if array.null_count:
        raise OrcError("a row key has a null: the file is corrupt", path=reader.path, column=name)
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    # from its buffer, as to_numpy imports pandas if it is installed
    if not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
