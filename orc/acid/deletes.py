"""The rows of a data file that delete deltas delete.

Delete deltas are sorted by row key, and so are data files: what of a delete delta cannot hold one of the wanted keys
is skipped by its statistics, and the rest is read a batch at a time. Neither order is relied on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import OrcError
from hindex.orc.acid.files import DeleteFile, open_file
from hindex.orc.acid.keys import Ints, KeyRange, KeySet, RowKeys, bucket_codes
from hindex.orc.acid.ranges import KeyStatistics
from hindex.orc.acid.schema import AcidColumns, acid_columns
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.reader import OrcReader

#: Delete rows that are held at once.
BATCH_ROWS = 1 << 16
#: Files that stay open for the stripes to come; beyond, each is opened as it is needed.
_MOST_OPEN = 32


class DeletedRows:
    """Finds the rows of one data file that are deleted.

    :param within: what the keys of all rows of the data file lie in.
    """

    def __init__(self, files: Sequence[DeleteFile], valid: ValidWriteIds, within: KeyRange) -> None:
        self._files = files
        self._valid = valid
        self._within = within
        self._wanted: list[DeleteFile] | None = None
        self._open: dict[DeleteFile, _DeleteReader] = {}

    def close(self) -> None:
        for reader in self._open.values():
            reader.close()
        self._open.clear()

    def may_touch(self, keys: KeyRange) -> bool:
        """Whether a row whose key is in a range may be deleted."""
        return any(any(True for _ in reader.stripes(keys)) for reader in self._readers())

    def rows(self, keys: KeySet) -> BitMap:
        """The rows of a stripe that are deleted, of those whose keys are given.

        :raises OrcError: if a delete delta cannot be read.
        """
        found = BitMap()
        for reader in self._readers():
            for some in reader.keys(keys):
                rows = keys.rows_of(some)
                if len(rows):
                    found |= BitMap(rows.astype(np.uint32))
        return found

    def _readers(self) -> Iterator[_DeleteReader]:
        """The files that may hold a key of the data file, one after the other."""
        wanted = []
        for file in self._files if self._wanted is None else self._wanted:
            reader = self._open.get(file)
            held = reader is not None
            reader = reader or _DeleteReader(file, self._valid)
            keep = False
            try:
                if self._wanted is not None or reader.file_range.overlaps(self._within):
                    wanted.append(file)
                    keep = held or len(self._open) < _MOST_OPEN
                    if keep:
                        self._open[file] = reader
                    yield reader
            finally:
                if not keep:
                    reader.close()
        self._wanted = wanted


class _DeleteReader:
    """One file of a delete delta."""

    def __init__(self, file: DeleteFile, valid: ValidWriteIds) -> None:
        self._reader = open_file(file.file)
        columns = acid_columns(self._reader.tail.schema, self._reader.path)
        if columns is None:
            path = self._reader.path
            self._reader.close()
            raise OrcError(
                "a file of a delete delta is not of the ACID schema: rows may be missing or too many; restore it",
                path=path,
            )
        self._columns = columns
        self._statistics = KeyStatistics(self._reader, columns)
        self.file_range = self._statistics.file()
        self._valid = valid
        low, high = self._statistics.current_transactions()
        self._all_valid = valid.is_all or (
            low is not None and high is not None and valid.all_valid(low, high)
        )

    def close(self) -> None:
        self._reader.close()

    def stripes(self, keys: KeyRange | KeySet) -> Iterator[int]:
        """The stripes that may hold one of some keys."""
        if keys.overlaps(self.file_range):
            for stripe in range(len(self._reader.stripes)):
                if keys.overlaps(self._statistics.stripe(stripe)):
                    yield stripe

    def keys(self, of: KeySet) -> Iterator[RowKeys]:
        """The keys of deleted rows, without some that cannot be wanted, in batches."""
        for stripe in self.stripes(of):
            rows: BitMap | None = None
            for first, count, found in self._statistics.groups(stripe):
                rows = BitMap() if rows is None else rows
                if of.overlaps(found):
                    rows.add_range(first, first + count)
            wanted = range(self._reader.stripes[stripe].num_rows) if rows is None else rows
            yield from self._batches(stripe, wanted)

    def _batches(self, stripe: int, rows: BitMap | range) -> Iterator[RowKeys]:
        names = list(self._columns.key)
        if not self._all_valid:
            names.append(self._columns.current_transaction)
        for batch in self._reader.batches(names, {stripe: rows}, batch_size=BATCH_ROWS):
            keys = row_keys(batch, self._columns, self._reader)
            if not self._all_valid:
                keys = keys.where(self._valid.valid_mask(int64s(batch.column(3), names[3], self._reader)))
            yield keys


def row_keys(batch: pa.RecordBatch, columns: AcidColumns, reader: OrcReader) -> RowKeys:
    """The keys of rows of which the key columns were read first."""
    write_ids, buckets, row_ids = (
        int64s(batch.column(at), name, reader) for at, name in enumerate(columns.key)
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
