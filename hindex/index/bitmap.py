"""The BITMAP index type: every key of a column with the exact rows that hold it, stripe by stripe.

A stripe is a B+tree. Its leaves are pages of the file (:mod:`hindex.index.leaf`); its inner level is the
directory in the footer, which the reader (:mod:`hindex.index.bitmap_reader`) holds as a ``BTrees`` tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from hindex.errors import BuildError, ColumnError
from hindex.index import leaf, rowsets
from hindex.index.base import (
    IndexFileSummary,
    Level,
    Property,
    StripeSummary,
    resolve_properties,
)
from hindex.index.bitmap_reader import BitmapReader
from hindex.index.file import BinarySink, Footer, IndexFileReader, IndexFileWriter, PageRef
from hindex.index.grouping import Groups, group
from hindex.index.leaf import ByteKeys
from hindex.keys import key_kind
from hindex.orc.types import OrcType
from hindex.proto import index_file_pb2 as pb

DEFAULT_VALUES_PER_PAGE = 4096
MAX_VALUES_PER_PAGE = leaf.MAX_KEYS

#: Raw bytes after which a leaf is closed, whatever its number of keys.
LEAF_BYTES = 64 * 1024
#: Keys of fewer rows are always inline: there may be many of them, and none must cost a Python step.
OUTSIDE_FROM = 256
#: Keys of more rows are never inline: one lookup decodes all of a leaf's rows.
OUTSIDE_AFTER = 1 << 16
#: Most bytes kept of a stripe's first key in the directory.
FIRST_BOUND = 64
# one row in this many, or closer, is a bitset to roaring, which is then as small as gaps are
_DENSE = 16
# mean length of a run of neighboring rows from which roaring's run containers win
_LONG_RUN = 4
# rough raw bytes of an inline row, and of a key beside its bytes
_ROW_BYTES = 2.5
_KEY_BYTES = 4

Int64s = npt.NDArray[np.int64]


def _values_per_page(text: str) -> str:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= MAX_VALUES_PER_PAGE:
        raise ValueError(f"a whole number from 1 to {MAX_VALUES_PER_PAGE} is expected")
    return str(value)


class BitmapBuilder:
    """Writes a BITMAP index file.

    :param sink: a path that must not exist, or something to write to that the caller closes.
    :param of: the column's type.
    :param column: its dotted path, for people who look into the file.
    :param metadata: kept in the footer as it is, such as the data file's fingerprint.
    :raises ColumnError: if columns of this type cannot be indexed.
    :raises HindexError: if a property is unknown or ill-formed.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        of: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        kind = key_kind(of)
        if kind is None:
            named = f"Column {column!r}" if column else "A column"
            raise ColumnError(
                f"{named} of type {of} cannot have a BITMAP index: index a primitive field of it"
            )
        self._type = of
        self._kind = kind
        self._column = column
        self._metadata = dict(metadata or {})
        self._properties = resolve_properties(BITMAP, properties)
        self._values_per_page = int(self._properties["values_per_page"])
        self._body = pb.BitmapBody()
        self._stripes: list[StripeSummary] = []
        self._writer = IndexFileWriter(sink)

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type's ``to_arrow()``.

        A dictionary of that type will do, and is faster where it is at hand.

        :raises BuildError: if the array is of another type, or has more rows than a bitmap can number.
        """
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        _check_type(self._type, array.type)
        if len(array) >= 1 << 32:
            raise BuildError(f"a stripe of {len(array)} rows cannot be indexed: the most is {(1 << 32) - 1}")
        groups = group(self._type, array)
        stripe = self._body.stripes.add()
        stripe.rows = len(array)
        stripe.null_count = len(groups.nulls)
        stripe.key_count = len(groups.keys)
        if len(groups.nulls):
            stripe.nulls.CopyFrom(_page_message(self._write_bitmap(rowsets.from_sorted(groups.nulls))))
        keys = groups.keys if isinstance(groups.keys, np.ndarray) else _byte_keys(groups.keys)
        if len(keys):
            self._write_leaves(stripe, groups, keys)
        ends = [_key(keys, 0), _key(keys, len(keys) - 1)] if len(keys) else [None, None]
        self._stripes.append(StripeSummary(len(array), len(groups.nulls), len(keys), ends[0], ends[1]))

    def finish(self) -> IndexFileSummary:
        """Write the footer; an own file is made durable and closed."""
        footer = Footer(
            index_type=BITMAP.name,
            column=self._column,
            column_type=str(self._type),
            key_kind=self._kind,
            properties=self._properties,
            metadata=self._metadata,
            body=self._body.SerializeToString(deterministic=True),
            writer="hindex",
        )
        length, crc = self._writer.finish(footer)
        return IndexFileSummary(length, crc, tuple(self._stripes))

    def abort(self) -> None:
        """Give up; an own file is removed."""
        self._writer.abort()

    def _write_bitmap(self, rows: BitMap) -> PageRef:
        rows.run_optimize()
        return self._writer.write_page([rows.serialize()])

    def _write_leaves(self, stripe: pb.BitmapStripe, groups: Groups, keys: Int64s | ByteKeys) -> None:
        starts = groups.starts
        counts = np.diff(starts)
        outside = {
            number: self._write_bitmap(rowsets.from_sorted(_rows(groups, starts[number], starts[number + 1])))
            for number in _outside(groups, counts).tolist()
        }
        numbers = np.array(sorted(outside), np.int64)
        stripe.leaf_offset = self._writer.length
        for start, end in _leaf_spans(keys, counts, numbers, self._values_per_page):
            rows = _rows(groups, starts[start], starts[end])
            here = numbers[np.searchsorted(numbers, start) : np.searchsorted(numbers, end)]
            if len(here):
                inline = np.ones(len(rows), np.bool_)
                for number in here:
                    inline[starts[number] - starts[start] : starts[number + 1] - starts[start]] = False
                rows = rows[inline]
            part = keys.part(start, end) if isinstance(keys, ByteKeys) else keys[start:end]
            pages = {number - start: outside[number] for number in here.tolist()}
            page = self._writer.write_page(leaf.encode(part, counts[start:end], rows, pages))
            stripe.leaf_length.append(page.length)
            stripe.leaf_crc32c.append(page.crc32c)
            stripe.leaf_keys.append(end - start)
            stripe.leaf_rows.append(int(starts[end] - starts[start]))
            if isinstance(keys, ByteKeys):
                stripe.byte_bounds.append(
                    _separator(keys[start - 1], keys[start]) if start else keys[0][:FIRST_BOUND]
                )
            else:
                stripe.int_bounds.append(int(keys[start]))


class BitmapIndex:
    """The BITMAP type, as :class:`~hindex.index.base.IndexType` describes it."""

    name = "BITMAP"
    levels = frozenset({Level.STRIPE})
    properties = (
        Property(
            "values_per_page",
            str(DEFAULT_VALUES_PER_PAGE),
            _values_per_page,
            "most distinct values of a leaf page",
        ),
    )

    def supports(self, of: OrcType) -> bool:
        return key_kind(of) is not None

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        of: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> BitmapBuilder:
        return BitmapBuilder(sink, of, properties, column=column, metadata=metadata)

    def reader(self, file: IndexFileReader) -> BitmapReader:
        return BitmapReader(file)


BITMAP = BitmapIndex()


def _check_type(of: OrcType, given: pa.DataType) -> None:
    """A timestamp of another unit, or a decimal of another scale, would be indexed as other values."""
    expected = of.to_arrow()
    if pa.types.is_dictionary(given):
        given = given.value_type
    if given == expected:
        return
    textual = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if expected in textual and given in textual:
        return
    raise BuildError(
        f"values of Arrow type {given} were given for a column of type {of}: {expected} is expected"
    )


def _page_message(page: PageRef) -> pb.PageRef:
    return pb.PageRef(offset=page.offset, length=page.length, crc32c=page.crc32c)


def _rows(groups: Groups, start: int, end: int) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(groups.rows[start:end])


def _byte_keys(keys: pa.LargeBinaryArray) -> ByteKeys:
    if not len(keys):
        return ByteKeys(np.zeros(1, np.int64), b"")
    buffers = keys.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, count=len(keys) + 1, offset=8 * keys.offset)
    return ByteKeys(offsets, memoryview(buffers[2]) if buffers[2] is not None else b"")


def _key(keys: Int64s | ByteKeys, number: int) -> int | bytes:
    key = keys[number]
    return key if isinstance(key, bytes) else int(key)


def _outside(groups: Groups, counts: Int64s) -> Int64s:
    """The numbers of the keys whose rows go to a roaring bitmap of their own."""
    many = np.flatnonzero(counts >= OUTSIDE_FROM)
    if not len(many):
        return many
    starts, rows = groups.starts, groups.rows
    count = counts[many]
    span = rows[starts[many + 1] - 1].astype(np.int64) - rows[starts[many]] + 1
    dense = (count * _DENSE >= span) | (count > OUTSIDE_AFTER)
    runs = np.zeros(len(many), np.int64)
    for at in np.flatnonzero(~dense).tolist():
        number = many[at]
        own = rows[starts[number] : starts[number + 1]]
        runs[at] = np.count_nonzero(own[1:] - own[:-1] != 1) + 1
    return many[dense | (runs * _LONG_RUN < count)]


def _leaf_spans(
    keys: Int64s | ByteKeys, counts: Int64s, outside: Int64s, values_per_page: int
) -> list[tuple[int, int]]:
    """Which keys each leaf holds: ``(start, end)``, none of them empty."""
    cost = counts * _ROW_BYTES
    cost[outside] = 0
    cost += _KEY_BYTES
    if isinstance(keys, ByteKeys):
        cost += np.diff(keys.offsets)
    total = np.cumsum(cost)
    spans = []
    start, before = 0, 0.0
    while start < len(counts):
        full = int(np.searchsorted(total, before + LEAF_BYTES, side="right"))
        end = min(max(full, start + 1), start + values_per_page, len(counts))
        spans.append((start, end))
        start, before = end, float(total[end - 1])
    return spans


def _separator(last: bytes, first: bytes) -> bytes:
    """The shortest prefix of ``first`` that is above ``last``, which is below ``first``."""
    short = min(len(last), len(first))
    differs = np.frombuffer(last, np.uint8, short) != np.frombuffer(first, np.uint8, short)
    same = int(differs.argmax()) if differs.any() else short
    return first[: same + 1]
