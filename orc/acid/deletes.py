"""The rows of a data file that delete deltas delete.

Delete deltas are sorted by row key, and so are data files: what of a delete delta cannot hold one of the wanted keys
is skipped by its statistics, and the rest is read a batch at a time. Neither order is relied on. Small files are read
once for all data files, also where there are many thousands of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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

#: Delete rows that are held at once.
BATCH_ROWS = 1 << 16
#: Files that stay open for the stripes to come; beyond, each is opened as it is needed.
_MOST_OPEN = 32
#: Files of so many rows are read whole, and kept for other data files.
SMALL_ROWS = 1 << 16
#: Bytes of ranges that are kept: those of some 50,000 files; and about what a file and a range take.
_RANGES_BYTES = 64 << 20
_FILE_BYTES, _RANGE_BYTES = 250, 450
#: Bytes of keys that are kept: two for each of many deletes that lie far apart, and less the closer they are.
_KEYS_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Key ranges of a delete file, from its statistics: of the file, of each stripe, and the transactions."""

    num_rows: int
    file: KeyRange
    stripes: tuple[KeyRange, ...]
    current: Range

    def stripes_with(self, keys: KeyRange | KeySet) -> list[int]:
        """The stripes that may hold one of some keys."""
        if not keys.overlaps(self.file):
            return []
        return [stripe for stripe, found in enumerate(self.stripes) if keys.overlaps(found)]


class DeletedRows:
    """Finds the rows of one data file that are deleted.

    :param within: what the keys of all rows of the data file lie in.
    """

    def __init__(self, files: Sequence[DeleteFile], valid: ValidWriteIds, within: KeyRange) -> None:
        known = ((file, _ranges_of(file)) for file in files)
        self._files = [(file, found) for file, found in known if found.file.overlaps(within)]
        self._valid = valid
        self._open: dict[DeleteFile, _DeleteReader] = {}

    def close(self) -> None:
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    @property
    def files(self) -> tuple[DeleteFile, ...]:
        """Those that may delete rows of the data file."""
        return tuple(file for file, _ in self._files)

    def may_touch(self, keys: KeyRange) -> bool:
        """Return True if a row with a key in a range may be deleted. No file is opened."""
        return any(found.stripes_with(keys) for _, found in self._files)

    def are_small(self, keys: KeyRange) -> bool:
        """Return True if all delete files that concern a range of keys are read whole."""
        return not any(found.stripes_with(keys) for file, found in self._files if not _is_small(file, found))

    def rows(self, keys: KeySet) -> BitMap:
        """The rows of a stripe that are deleted, of those whose keys are given.

        :raises OrcError: if a delete delta cannot be read.
        """
        deleted = BitMap()
        for file, found in self._files:
            stripes = found.stripes_with(keys)
            if not stripes:
                continue
            if _is_small(file, found):
                for some in _keys_of(file, self._valid, found).parts():
                    deleted |= row_set(keys.rows_of(some))
                continue
            kept = self._open.get(file)
            reader = kept or _DeleteReader(file, self._valid, found)
            try:
                for some in reader.keys(keys, stripes):
                    rows = keys.rows_of(some)
                    if len(rows):
                        deleted |= row_set(rows)
            finally:
                if kept is None:
                    self._keep(file, reader)
        return deleted

    def _keep(self, file: DeleteFile, reader: _DeleteReader) -> None:
        """Keep a reader for the stripes to come; close it where enough are open, or another thread kept one."""
        if len(self._open) >= _MOST_OPEN or self._open.setdefault(file, reader) is not reader:
            reader.close()


def _is_small(file: DeleteFile, ranges: _Ranges) -> bool:
    """Return True if all keys of a file are read at once and cached."""
    return bool(file.changed_ns) and ranges.num_rows <= SMALL_ROWS


def _ranges_of(file: DeleteFile) -> _Ranges:
    """The ranges of a file of deletes, read once where its version is known."""
    found = RANGES.get(file) if file.changed_ns else None
    if found is None:
        found = _read_ranges(file)
        if file.changed_ns:
            RANGES.put(file, found, _FILE_BYTES + _RANGE_BYTES * (1 + len(found.stripes)))
    return found


def _read_ranges(file: DeleteFile) -> _Ranges:
    with _opened(file) as reader:
        statistics = KeyStatistics(reader, _columns(reader))
        whole = statistics.file()
        stripes = tuple(statistics.stripe(stripe) for stripe in range(len(reader.stripes)))
        return _Ranges(reader.num_rows, whole, stripes, statistics.current_transactions())


def _keys_of(file: DeleteFile, valid: ValidWriteIds, ranges: _Ranges) -> PackedKeys:
    """All keys of a file whose version is known, read once."""
    found = KEYS.get((file, valid))
    if found is None:
        reader = _DeleteReader(file, valid, ranges)
        try:
            found = PackedKeys(reader.every())
        finally:
            reader.close()
        KEYS.put((file, valid), found, _FILE_BYTES + found.nbytes)
    return found


#: The ranges of files whose version is known.
RANGES: LruCache[DeleteFile, _Ranges] = LruCache(_RANGES_BYTES)
#: The keys of small files, for readers that see the same transactions.
KEYS: LruCache[tuple[DeleteFile, ValidWriteIds], PackedKeys] = LruCache(_KEYS_BYTES)


def _opened(file: DeleteFile) -> OrcReader:
    try:
        return open_file(file.file)
    except OrcError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise DeletedFileError(
                f"the file of deletes {file.file.uri!r} was removed after the scan was planned, as after a compaction: "
                "run the query again"
            ) from error
        raise


def _columns(reader: OrcReader) -> AcidColumns:
    found = acid_columns(reader.tail.schema, reader.path)
    if found is None:
        raise OrcError(
            "a file of a delete delta is not of the ACID schema: rows may be missing or too many; restore it",
            path=reader.path,
        )
    return found


class _DeleteReader:
    """One file of a delete delta, open."""

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

    def keys(self, of: KeySet, stripes: Sequence[int]) -> Iterator[RowKeys]:
        """The keys of deleted rows of some stripes, without some that cannot be wanted, in batches."""
        for stripe in stripes:
            if stripe not in self._groups:
                self._groups[stripe] = list(self._statistics.groups(stripe))
            rows = BitMap()
            for first, count, found in self._groups[stripe]:
                if of.overlaps(found):
                    rows.add_range(first, first + count)
            yield from self._batches(stripe, rows if self._groups[stripe] else self._all_rows(stripe))

    def every(self) -> Iterator[RowKeys]:
        """The keys of all deleted rows, in batches."""
        for stripe in range(len(self._reader.stripes)):
            yield from self._batches(stripe, self._all_rows(stripe))

    def _all_rows(self, stripe: int) -> BitMap:
        # a bitmap, as a range is looked at row by row
        return BitMap(range(self._reader.stripes[stripe].num_rows))

    def _batches(self, stripe: int, rows: BitMap) -> Iterator[RowKeys]:
        known = self._statistics.constants(stripe)
        names = [name for name in self._columns.key if name not in known]
        current = self._columns.current_transaction
        if not self._all_valid:
            names.append(current)
        for batch in self._reader.batches(names, {stripe: rows}, batch_size=BATCH_ROWS):
            keys = row_keys(batch, known, self._columns, self._reader)
            if not self._all_valid:
                written = int64s(batch.column(current), current, self._reader)
                keys = keys.where(self._valid.valid_mask(written))
            yield keys


def row_keys(
    batch: pa.RecordBatch, known: Mapping[str, int], columns: AcidColumns, reader: OrcReader
) -> RowKeys:
    """The keys of rows of a stripe.

    :param batch: the columns of the key, but for those that have one known value in all rows of the stripe.
    :param known: these, and that value.
    """
    write_ids, buckets, row_ids = (
        np.broadcast_to(np.int64(known[name]), batch.num_rows)
        if name in known
        else int64s(batch.column(name), name, reader)
        for name in columns.key
    )
    try:
        return RowKeys(write_ids, bucket_codes(buckets), row_ids)
    except OrcError as error:
        raise error.at(path=reader.path, column=columns.bucket) from error


def int64s(array: pa.Array, name: str, reader: OrcReader) -> Ints:
    """A column of the ACID schema, which has no nulls.

    :raises OrcError: if it has.
    """
    if array.null_count:
        raise OrcError("a row has no value for it: the file is corrupt", path=reader.path, column=name)
    if array.type != pa.int64():
        array = array.cast(pa.int64())
    # from its buffer: to_numpy would import pandas, where it is installed
    if not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)
