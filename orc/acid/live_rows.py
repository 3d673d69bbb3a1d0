"""The rows of one data file that are there: not deleted, of a valid transaction. And the keys of its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import OrcError
from hindex.lru_cache import LruCache
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

#: Bytes of deleted rows that are kept for other scans, and about what one stripe's take besides.
_DELETED_BYTES = 16 << 20
_BITMAP_BYTES = 200
#: Bytes of what is known of row ids: of some 5,000 stripes, each of which takes about so many.
_COUNTED_BYTES = 1 << 20
_FLAG_BYTES = 200

#: Up to so many rows have their keys read, which are then compared with what deletes there are; more of a stripe whose
#: row ids count up are told apart by these alone.
_FEW_ROWS = 4096


@dataclass(frozen=True, slots=True)
class RemovedRows:
    """Rows of a stripe that are not there; none is in both.

    :ivar columns: those of the data file that tell it, and were read unless that was known from before.
    """

    deleted: BitMap = field(default_factory=BitMap)
    invisible: BitMap = field(default_factory=BitMap)
    columns: tuple[str, ...] = ()


#: What deletes took of stripes of which all rows were looked at, by the state of the file and of its deletes.
DELETED: LruCache[tuple[bytes, int], RemovedRows] = LruCache(_DELETED_BYTES)
#: Whether the row ids of stripes certainly count up, which takes reading them; by the same.
COUNTED: LruCache[tuple[bytes, int], bool] = LruCache(_COUNTED_BYTES)


class InvisibleRows:
    """Finds them in one ACID file; statistics tell where there are none."""

    def __init__(
        self, reader: OrcReader, columns: AcidColumns, statistics: KeyStatistics, valid: ValidWriteIds
    ) -> None:
        self._reader = reader
        self._name = columns.current_transaction
        self._statistics = statistics
        self._valid = valid
        self._none = valid.is_all or self._all_valid(None)

    def columns(self, stripe: int) -> tuple[str, ...]:
        """Return the columns to read to find the visible rows of a stripe."""
        return () if self._none or self._all_valid(stripe) else (self._name,)

    def rows(self, stripe: int, candidates: BitMap) -> BitMap:
        """The rows of a stripe that are not visible, of some."""
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
    """Tells which rows of an open data file are there, from what the directory holds now.

    :raises OrcError: for a file that may have deleted rows, and whose name does not tell the bucket that they are
        known by; and for a flat one that a compaction wrote which the valid write ids do not know of.
    """

    def __init__(self, reader: OrcReader, of: AcidFile) -> None:
        self._reader = reader
        self._of = of
        self._columns = acid_columns(reader.tail.schema, reader.path)
        self._deleted: DeletedRows | None = None
        self._invisible: InvisibleRows | None = None
        self._statistics: KeyStatistics | None = None
        if self._columns is not None:
            self._statistics = KeyStatistics(reader, self._columns)
            if not of.valid.is_all:
                self._invisible = InvisibleRows(reader, self._columns, self._statistics, of.valid)
        elif of.is_newer and reader.num_rows:
            raise OrcError(
                "not enough history: the rows of this flat file are of several write ids, of which the list of valid "
                f"ones (up to {of.valid.high_watermark}) does not include all, and nothing tells which row is of "
                "which; read the table with a newer list",
                path=reader.path,
            )
        if of.deletes and reader.num_rows:
            self._deleted = DeletedRows(of.deletes, of.valid, self._file_range())

    def close(self) -> None:
        if self._deleted is not None:
            self._deleted.close()

    def removed(self, stripe: int, candidates: BitMap) -> RemovedRows:
        """The rows of a stripe that are not there, of those that matter.

        :raises OrcError: if a delete delta or the keys cannot be read.
        """
        invisible = BitMap()
        columns: tuple[str, ...] = ()
        if self._invisible is not None:
            invisible, columns = self._invisible.rows(stripe, candidates), self._invisible.columns(stripe)
        left = candidates - invisible if invisible else candidates
        found = self._deleted_rows(stripe, left) if left else RemovedRows()
        return RemovedRows(found.deleted & left, invisible, (*columns, *found.columns))

    def _deleted_rows(self, stripe: int, rows: BitMap) -> RemovedRows:
        """The deleted rows of a stripe, at least those of some rows, and the columns of their keys."""
        if self._deleted is None:
            return RemovedRows()
        version = self._version
        held = None if version is None else DELETED.get((version, stripe))
        if held is not None:
            return held
        if not self._deleted.may_touch(self._stripe_range(stripe)):
            return RemovedRows()
        keys = self._keys(stripe, rows)
        found = RemovedRows(self._deleted.rows(keys), columns=tuple(self._key_columns(stripe)))
        if isinstance(keys, FlatKeys):
            is_whole = keys.is_whole
        else:
            is_whole = len(rows) == self._reader.stripes[stripe].num_rows
        if version is not None and is_whole:
            DELETED.put((version, stripe), found, _BITMAP_BYTES + len(found.deleted.serialize()))
        return found

    @cached_property
    def _version(self) -> bytes | None:
        """Return a digest of the state of the file and its delete files; None if the state is unknown."""
        assert self._deleted is not None
        deletes = self._deleted.files
        if not self._of.changed_ns or not all(file.changed_ns for file in deletes):
            return None
        state = replace(self._of, deletes=deletes), self._reader.tail.file_length, self._reader.tail.checksum
        return blake2b(repr(state).encode(), digest_size=16).digest()

    def row_ids(self, stripe: int, selection: RowSelection) -> pa.Array:
        """The keys of some rows as structs of the type :data:`~hindex.orc.acid.schema.ROW_ID_TYPE`."""
        columns = self._columns
        if columns is None:
            bucket = bucket_property(self._bucket, self._of.statement)
            rows = selection.to_array() + (self._first_row_id + self._reader.stripes[stripe].first_row)
            parts = [np.full(len(rows), self._of.write_id), np.full(len(rows), bucket), rows]
        else:
            batch = self._reader.read_stripe(stripe, columns.key, selection)
            parts = [int64s(batch.column(at), name, self._reader) for at, name in enumerate(columns.key)]
        of = ROW_ID_TYPE.to_arrow()
        arrays = [
            pa.Array.from_buffers(pa.int64(), len(part), [None, pa.py_buffer(np.ascontiguousarray(part))])
            for part in parts
        ]
        return pa.StructArray.from_arrays(
            [array.cast(item.type) for array, item in zip(arrays, of, strict=True)], fields=list(of)
        )

    def _keys(self, stripe: int, rows: BitMap) -> KeySet:
        """The keys of some rows, or of the whole stripe where that takes reading no more deletes."""
        information = self._reader.stripes[stripe]
        if self._columns is None:
            first = self._first_row_id + information.first_row
            wanted = self._wanted(stripe, rows)
            return FlatKeys(self._of.write_id, self._bucket_code, first, information.num_rows, wanted)
        if len(rows) > min(_FEW_ROWS, information.num_rows - 1):
            counted = self._counted_keys(stripe, rows)
            if counted is not None:
                return counted
        stored = None if len(rows) == information.num_rows else as_rows(rows)
        selection = RowSelection(information.num_rows, stored)
        return StoredKeys(stored, self._stored_keys(stripe, selection))

    def _wanted(self, stripe: int, rows: BitMap) -> BitMap | None:
        """The rows to find deletes of, where some matter; None for all."""
        assert self._deleted is not None
        is_all = len(rows) == self._reader.stripes[stripe].num_rows
        return None if is_all or self._deleted.are_small(self._stripe_range(stripe)) else rows

    def _counted_keys(self, stripe: int, some: BitMap) -> FlatKeys | None:
        """The keys of a stripe whose rows follow each other as in a flat file; None where that is not known."""
        assert self._columns is not None
        assert self._statistics is not None
        known = self._statistics.constants(stripe)
        write_id, bucket = (known.get(name) for name in self._columns.key[:2])
        low, high = self._stripe_range(stripe).row_ids
        rows = self._reader.stripes[stripe].num_rows
        if write_id is None or bucket is None or low is None or high is None or high - low + 1 != rows:
            return None
        if not self._counts_up(stripe, low):
            return None
        try:
            return FlatKeys(write_id, bucket_code(bucket), low, rows, self._wanted(stripe, some))
        except OrcError as error:
            raise error.at(path=self._reader.path, column=self._columns.bucket) from error

    def _counts_up(self, stripe: int, first: int) -> bool:
        """Return True if the row ids of a stripe certainly are consecutive.

        The answer is cached if the version is known.
        """
        assert self._columns is not None
        version = self._version
        known = None if version is None else COUNTED.get((version, stripe))
        if known is None:
            known = count_up(self._reader, stripe, self._columns.row_id, first)
            if version is not None:
                COUNTED.put((version, stripe), known, _FLAG_BYTES)
        return known

    def _stored_keys(self, stripe: int, selection: RowSelection) -> RowKeys:
        """The keys of some rows; what the statistics tell to be the same for all rows is not read."""
        assert self._columns is not None
        assert self._statistics is not None
        batch = self._reader.read_stripe(stripe, self._key_columns(stripe), selection)
        return row_keys(batch, self._statistics.constants(stripe), self._columns, self._reader)

    def _key_columns(self, stripe: int) -> list[str]:
        """The columns of the key that are read to tell those of a stripe's rows."""
        if self._columns is None or self._statistics is None:
            return []
        known = self._statistics.constants(stripe)
        return [name for name in self._columns.key if name not in known]

    def _file_range(self) -> KeyRange:
        if self._statistics is not None:
            return self._statistics.file()
        return flat_range(self._of.write_id, self._bucket_code, self._first_row_id, self._reader.num_rows)

    def _stripe_range(self, stripe: int) -> KeyRange:
        if self._statistics is not None:
            return self._statistics.stripe(stripe)
        information = self._reader.stripes[stripe]
        first = self._first_row_id + information.first_row
        return flat_range(self._of.write_id, self._bucket_code, first, information.num_rows)

    @property
    def _bucket(self) -> int:
        if self._of.bucket is None:
            raise self._no_key("its name has no bucket number")
        return self._of.bucket

    @property
    def _bucket_code(self) -> int:
        return bucket_code(bucket_property(self._bucket, self._of.statement))

    @property
    def _first_row_id(self) -> int:
        if self._of.first_row_id is None:
            raise self._no_key("the rows before it were not counted")
        return self._of.first_row_id

    def _no_key(self, why: str) -> OrcError:
        return OrcError(
            f"the keys of the rows of this flat file, which deletes and {'row__id'!r} go by, are not known: {why}; "
            "compact the table with Hive",
            path=self._reader.path,
        )


#: Values of a run, but for the last one; and the fewest that are written as one.
_RUN, _FEWEST = 512, 4
#: A delta run whose steps are all equal: its header, then two bytes at most of its length and step.
_DELTA = 0b11_00000_0
_RUN_BYTES = 3
#: The step, 1, as the varint of a signed number.
_STEP = 2
#: Row ids from here on are not looked for: no table has so many rows.
_MOST = 1 << 48


def count_up(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    """Return True if the values of a column in a stripe certainly are ``first``, ``first + 1`` and so on.

    Nothing is read where the length of what is stored already tells that they may not be. What cannot be read so is
    no error: whoever decodes the column has the last word.
    """
    try:
        return _counts_up(reader, stripe, column, first)
    except OrcError:
        return False


def _counts_up(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    of, tail = reader.column_type(column), reader.tail
    rows = tail.stripes[stripe].num_rows
    if of.kind is not Kind.LONG or of.column in tail.encrypted_columns or not 0 <= first < _MOST - rows:
        return False
    if not rows or 0 < rows % _RUN < _FEWEST:
        return False
    found = reader.stripe(stripe)
    if of.column >= len(found.encodings) or not found.encodings[of.column].is_v2:
        return False
    stream = found.streams.get((of.column, StreamKind.DATA))
    if stream is None or any(has_present(found, number) for number in (tail.schema.column, of.column)):
        return False
    runs = -(-rows // _RUN)
    # a chunk that does not get smaller is stored as it is, behind a header
    if stream.length > runs * (_RUN_BYTES + 10) + HEADER_LENGTH * runs:
        return False
    file, decompressor = reader._file, tail.decompressor()
    expected = encoded(first, rows)
    try:
        (data,) = file.source.read([(stream.offset, stream.length)])
        return decompressor.decompress_all(data, len(expected)) == expected
    finally:
        file.counts.add_decompressor(decompressor)


def encoded(first: int, rows: int) -> bytes:
    """The bytes that writers give the numbers from ``first`` on, none below 0.

    >>> encoded(0, 512).hex(" "), encoded(100, 5).hex(" ")
    ('c1 ff 00 02', 'c0 04 c8 01 02')

    :param rows: how many; what is left of them after runs of 512 is at least 4, or nothing.
    """
    counts = np.full(-(-rows // _RUN), _RUN)
    counts[-1] = rows - _RUN * (len(counts) - 1)
    bases = (first + _RUN * np.arange(len(counts))).astype(np.uint64) << np.uint64(1)
    # bytes of each varint: 7 bits in each
    sizes = 1 + np.searchsorted(1 << (7 * np.arange(1, 9)), bases.astype(np.int64), side="right")
    ends = np.cumsum(_RUN_BYTES + sizes)
    out: npt.NDArray[np.uint8] = np.empty(int(ends[-1]), np.uint8)
    at = ends - (_RUN_BYTES + sizes)
    out[at] = _DELTA | (counts - 1) >> 8
    out[at + 1] = (counts - 1) & 0xFF
    for byte in range(int(sizes.max())):
        has = sizes > byte
        part = (bases[has] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
        out[at[has] + 2 + byte] = np.where(sizes[has] > byte + 1, part | 0x80, part)
    out[ends - 1] = _STEP
    return out.tobytes()
