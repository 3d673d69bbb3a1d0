"""The live rows of one data file (visible and not deleted), and the keys of its rows."""

from __future__ import annotations

from dataclasses import field, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import OrcError
from hindex.lru_cache import LruCache, cached_property
from hindex.orc.acid.deletes import DeletedRows, int64s, row_keys
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.acid.row_keys import (
    FlatKeys,
    KeyRange,
    KeySet,
    KeyStatistics,
    RowKeys,
    StoredKeys,
    bucket_code,
    bucket_property,
    flat_range,
)
from hindex.orc.acid.schema import ROW_ID_TYPE, AcidColumns, acid_columns
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.codec import HEADER_LENGTH
from hindex.orc.decode.positions import has_present
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind
from hindex.orc.reader.orc_reader import OrcReader
from hindex.orc.reader.row_selection import RowSelection, as_rows
from hindex.value_class import value_class

#: Size of the cache of deleted rows, and the approximate overhead of a stripe.
_DELETED_BYTES = 16 << 20
_BITMAP_BYTES = 200
#: Size of the cache of stripes with consecutive row ids, and the approximate size of an entry.
_CONSECUTIVE_BYTES = 1 << 20
_FLAG_BYTES = 200

#: The keys of up to this many rows are read; for more rows, a stripe with consecutive row ids needs no keys.
_FEW_ROWS = 4096


@value_class
class RemovedRows:
    """The deleted rows of a stripe, and the other invisible rows.

    Attributes:
        columns: the data file's columns that were read to find them, now or before.
    """

    deleted: BitMap = field(default_factory=BitMap)
    invisible: BitMap = field(default_factory=BitMap)
    columns: tuple[str, ...] = ()


#: Deleted rows of whole stripes, by the state of the file and its delete files, and the stripe.
DELETED: LruCache[tuple[bytes, int], RemovedRows] = LruCache(_DELETED_BYTES)
#: True for stripes whose row ids are certainly consecutive, which is found by reading them; by the same key.
CONSECUTIVE: LruCache[tuple[bytes, int], bool] = LruCache(_CONSECUTIVE_BYTES)


class InvisibleRows:
    """The rows of one ACID file that invalid transactions wrote."""

    def __init__(
        self, reader: OrcReader, columns: AcidColumns, statistics: KeyStatistics, valid: ValidWriteIds
    ) -> None:
        self._reader = reader
        self._name = columns.current_transaction
        self._statistics = statistics
        self._valid = valid
        self._is_all_visible = valid.is_all or self._all_valid(None)

    def columns(self, stripe: int) -> tuple[str, ...]:
        """Return the columns to read for the invisible rows of a stripe."""
        return () if self._is_all_visible or self._all_valid(stripe) else (self._name,)

    def rows(self, stripe: int, candidates: BitMap) -> BitMap:
        """Return the invisible rows among the candidates of a stripe."""
        if not candidates or not self.columns(stripe):
            return BitMap()
        rows = as_rows(candidates)
        selection = RowSelection.of(rows, self._reader.stripes[stripe].num_rows)
        batch = self._reader.read_stripe(stripe, [self._name], selection)
        visible = self._valid.valid_mask(int64s(batch.column(0), self._name, self._reader))
        return BitMap(rows[~visible].astype(np.uint32))

    def _all_valid(self, stripe: int | None) -> bool:
        low, high = self._statistics.current_transactions(stripe)
        return low is not None and high is not None and self._valid.all_valid(low, high)


class LiveRows:
    """The deleted and the invisible rows of an open data file, and the keys of its rows.

    Raises:
        OrcError: if a compaction wrote a flat file after the list of valid write ids was made.
    """

    def __init__(self, reader: OrcReader, file: AcidFile) -> None:
        self._reader = reader
        self._file = file
        self._columns = acid_columns(reader.tail.schema, reader.path)
        self._deleted: DeletedRows | None = None
        self._invisible: InvisibleRows | None = None
        self._statistics: KeyStatistics | None = None
        if self._columns is not None:
            self._statistics = KeyStatistics(reader, self._columns)
            if not file.valid.is_all:
                self._invisible = InvisibleRows(reader, self._columns, self._statistics, file.valid)
        elif file.is_newer and reader.num_rows:
            raise OrcError(
                "not enough history: the rows of this flat file are of several write ids, of which the list of valid "
                f"ones (up to {file.valid.high_watermark}) does not include all, and flat files do not store them by "
                "row; read the table with a newer list",
                path=reader.path,
            )
        if file.deletes and reader.num_rows:
            self._deleted = DeletedRows(file.deletes, file.valid, self._file_range())

    def close(self) -> None:
        if self._deleted is not None:
            self._deleted.close()

    def removed(self, stripe: int, candidates: BitMap) -> RemovedRows:
        """Find the deleted and the invisible rows among the candidates of a stripe.

        Raises:
            OrcError: if a delete delta or the keys cannot be read.
        """
        invisible = BitMap()
        columns: tuple[str, ...] = ()
        if self._invisible is not None:
            invisible, columns = self._invisible.rows(stripe, candidates), self._invisible.columns(stripe)
        visible = candidates - invisible if invisible else candidates
        removed = self._deleted_rows(stripe, visible) if visible else RemovedRows()
        return RemovedRows(removed.deleted & visible, invisible, (*columns, *removed.columns))

    def _deleted_rows(self, stripe: int, rows: BitMap) -> RemovedRows:
        """Find the deleted rows of a stripe, at least those among ``rows``, and the columns of their keys."""
        if self._deleted is None:
            return RemovedRows()
        version = self._version
        cached = None if version is None else DELETED.get((version, stripe))
        if cached is not None:
            return cached
        if not self._deleted.may_touch(self._stripe_range(stripe)):
            return RemovedRows()
        keys = self._keys(stripe, rows)
        removed = RemovedRows(self._deleted.rows(keys), columns=tuple(self._key_columns(stripe)))
        if isinstance(keys, FlatKeys):
            is_whole = keys.is_whole
        else:
            is_whole = len(rows) == self._reader.stripes[stripe].num_rows
        if version is not None and is_whole:
            DELETED.put((version, stripe), removed, _BITMAP_BYTES + len(removed.deleted.serialize()))
        return removed

    @cached_property
    def _version(self) -> bytes | None:
        """A digest of the state of the file and its delete files; None if the state is unknown."""
        assert self._deleted is not None
        deletes = self._deleted.files
        if not self._file.changed_ns or not all(file.changed_ns for file in deletes):
            return None
        state = (
            replace(self._file, deletes=deletes),
            self._reader.tail.file_length,
            self._reader.tail.checksum,
        )
        return blake2b(repr(state).encode(), digest_size=16).digest()

    def row_ids(self, stripe: int, selection: RowSelection) -> pa.Array:
        """Return the keys of the selected rows as structs of the type `hindex.orc.acid.schema.ROW_ID_TYPE`."""
        columns = self._columns
        if columns is None:
            bucket = bucket_property(self._bucket, self._file.statement)
            rows = selection.to_array() + (self._first_row_id + self._reader.stripes[stripe].first_row)
            parts = [np.full(len(rows), self._file.write_id), np.full(len(rows), bucket), rows]
        else:
            batch = self._reader.read_stripe(stripe, columns.key, selection)
            parts = [
                int64s(batch.column(index), name, self._reader) for index, name in enumerate(columns.key)
            ]
        fields = ROW_ID_TYPE.to_arrow()
        arrays = [
            pa.Array.from_buffers(pa.int64(), len(part), [None, pa.py_buffer(np.ascontiguousarray(part))])
            for part in parts
        ]
        return pa.StructArray.from_arrays(
            [array.cast(field.type) for array, field in zip(arrays, fields, strict=True)], fields=list(fields)
        )

    def _keys(self, stripe: int, rows: BitMap) -> KeySet:
        """Return the keys of some rows, or of the whole stripe if that does not read more deletes."""
        information = self._reader.stripes[stripe]
        if self._columns is None:
            bucket, first = self._bucket_code, self._first_row_id + information.first_row
            wanted = self._wanted(stripe, rows)
            return FlatKeys(self._file.write_id, bucket, first, information.num_rows, wanted)
        if len(rows) > min(_FEW_ROWS, information.num_rows - 1):
            keys = self._consecutive_keys(stripe, rows)
            if keys is not None:
                return keys
        stored = None if len(rows) == information.num_rows else as_rows(rows)
        selection = RowSelection(information.num_rows, stored)
        return StoredKeys(stored, self._stored_keys(stripe, selection))

    def _wanted(self, stripe: int, rows: BitMap) -> BitMap | None:
        """Return the rows whose deletes are needed; None for all rows."""
        assert self._deleted is not None
        is_all = len(rows) == self._reader.stripes[stripe].num_rows
        return None if is_all or self._deleted.are_small(self._stripe_range(stripe)) else rows

    def _consecutive_keys(self, stripe: int, candidates: BitMap) -> FlatKeys | None:
        """Return the keys of a stripe with consecutive row ids, as in a flat file; None if they may not be."""
        assert self._columns is not None
        assert self._statistics is not None
        constants = self._statistics.constants(stripe)
        write_id, bucket = (constants.get(name) for name in self._columns.key[:2])
        low, high = self._stripe_range(stripe).row_ids
        rows = self._reader.stripes[stripe].num_rows
        if write_id is None or bucket is None or low is None or high is None or high - low + 1 != rows:
            return None
        if not self._is_consecutive(stripe, low):
            return None
        try:
            return FlatKeys(write_id, bucket_code(bucket), low, rows, self._wanted(stripe, candidates))
        except OrcError as error:
            raise error.at(path=self._reader.path, column=self._columns.bucket) from error

    def _is_consecutive(self, stripe: int, first: int) -> bool:
        """Return True if the row ids of a stripe are certainly consecutive, cached if the version is known."""
        assert self._columns is not None
        version = self._version
        answer = None if version is None else CONSECUTIVE.get((version, stripe))
        if answer is None:
            answer = is_consecutive(self._reader, stripe, self._columns.row_id, first)
            if version is not None:
                CONSECUTIVE.put((version, stripe), answer, _FLAG_BYTES)
        return answer

    def _stored_keys(self, stripe: int, selection: RowSelection) -> RowKeys:
        """Read the keys of some rows; columns that are constant by their statistics are not read."""
        assert self._columns is not None
        assert self._statistics is not None
        batch = self._reader.read_stripe(stripe, self._key_columns(stripe), selection)
        return row_keys(batch, self._statistics.constants(stripe), self._columns, self._reader)

    def _key_columns(self, stripe: int) -> list[str]:
        """Return the columns to read for the keys of a stripe."""
        if self._columns is None or self._statistics is None:
            return []
        constants = self._statistics.constants(stripe)
        return [name for name in self._columns.key if name not in constants]

    def _file_range(self) -> KeyRange:
        if self._statistics is not None:
            return self._statistics.file()
        return self._flat_range(0, self._reader.num_rows)

    def _stripe_range(self, stripe: int) -> KeyRange:
        if self._statistics is not None:
            return self._statistics.stripe(stripe)
        information = self._reader.stripes[stripe]
        return self._flat_range(information.first_row, information.num_rows)

    def _flat_range(self, first_row: int, num_rows: int) -> KeyRange:
        """Return the key range of some rows of a flat file; without a bucket, only the write id is bounded."""
        write_id = self._file.write_id
        if self._file.bucket is None:
            return KeyRange((write_id, write_id))
        return flat_range(write_id, self._bucket_code, self._first_row_id + first_row, num_rows)

    @property
    def _bucket(self) -> int:
        if self._file.bucket is None:
            raise self._unknown_keys("its name has no bucket number")
        return self._file.bucket

    @property
    def _bucket_code(self) -> int:
        return bucket_code(bucket_property(self._bucket, self._file.statement))

    @property
    def _first_row_id(self) -> int:
        if self._file.first_row_id is None:
            raise self._unknown_keys("the rows before it are not counted")
        return self._file.first_row_id

    def _unknown_keys(self, reason: str) -> OrcError:
        return OrcError(
            f"unknown keys of the rows of this flat file, which deletes and {'row__id'!r} need: {reason}; "
            "compact the table with Hive",
            path=self._reader.path,
        )


#: The values of each run except the last, and the minimum of a run.
_RUN, _MIN_RUN = 512, 4
#: The first byte of a delta run with equal steps, and the bytes of a run without its base.
_DELTA = 0b11_00000_0
_RUN_BYTES = 3
#: The step, 1, as the varint of a signed number.
_STEP = 2
#: No table has so many rows; greater row ids are decoded.
_MAX_ROW_ID = 1 << 48


def is_consecutive(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    """Return True if the values of a column in a stripe are certainly ``first``, ``first + 1`` and so on.

    No value is decoded. If the rows of one transaction and bucket are in order, as after a load or a major
    compaction, all writers of the run-length encoding's version 2 split the row ids into delta runs of 512 values
    with a step of 1. The bytes of such runs are computed and compared with the stored ones. Nothing is read if the
    stored length differs. A stream that cannot be read is no error here, only when it is decoded.

    Source: ORC specification v1, "Integer Run Length Encoding, version 2", delta.
    """
    try:
        return _is_consecutive(reader, stripe, column, first)
    except OrcError:
        return False


def _is_consecutive(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    data_type, tail = reader.column_type(column), reader.tail
    rows = tail.stripes[stripe].num_rows
    if (
        data_type.kind is not Kind.LONG
        or data_type.column in tail.encrypted_columns
        or not 0 <= first < _MAX_ROW_ID - rows
    ):
        return False
    if not rows or 0 < rows % _RUN < _MIN_RUN:
        return False
    footer = reader.stripe(stripe)
    if data_type.column >= len(footer.encodings) or not footer.encodings[data_type.column].is_v2:
        return False
    stream = footer.streams.get((data_type.column, StreamKind.DATA))
    if stream is None or any(
        has_present(footer, number) for number in (tail.schema.column, data_type.column)
    ):
        return False
    runs = -(-rows // _RUN)
    # an incompressible chunk is stored uncompressed, after a header
    if stream.length > runs * (_RUN_BYTES + 10) + HEADER_LENGTH * runs:
        return False
    file, decompressor = reader._file, tail.decompressor()
    expected = encode_consecutive(first, rows)
    try:
        (data,) = file.source.read([(stream.offset, stream.length)])
        return decompressor.decompress_all(data, len(expected)) == expected
    finally:
        file.counts.add_decompressor(decompressor)


def encode_consecutive(first: int, rows: int) -> bytes:
    """Encode consecutive non-negative numbers from ``first`` on, as writers do.

    >>> encode_consecutive(0, 512).hex(" "), encode_consecutive(100, 5).hex(" ")
    ('c1 ff 00 02', 'c0 04 c8 01 02')

    Args:
        rows: the number of values; the last run has at least 4.
    """
    counts = np.full(-(-rows // _RUN), _RUN)
    counts[-1] = rows - _RUN * (len(counts) - 1)
    bases = (first + _RUN * np.arange(len(counts))).astype(np.uint64) << np.uint64(1)
    # bytes of each varint: 7 bits in each
    sizes = 1 + np.searchsorted(1 << (7 * np.arange(1, 9)), bases.astype(np.int64), side="right")
    ends = np.cumsum(_RUN_BYTES + sizes)
    out: npt.NDArray[np.uint8] = np.empty(int(ends[-1]), np.uint8)
    begins = ends - (_RUN_BYTES + sizes)
    out[begins] = _DELTA | (counts - 1) >> 8
    out[begins + 1] = (counts - 1) & 0xFF
    for byte in range(int(sizes.max())):
        mask = sizes > byte
        part = (bases[mask] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
        out[begins[mask] + 2 + byte] = np.where(sizes[mask] > byte + 1, part | 0x80, part)
    out[ends - 1] = _STEP
    return out.tobytes()
