"""Several stripes decoded together: their streams, row indexes and wanted rows, laid end to end.

What a column costs to decode is half a fixed price, paid here once for all stripes. Only columns come here that have
the same streams in each of them, and only of files that are mapped or in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.columns.layout import PositionTable
from hindex.orc.compression import Decompressor
from hindex.orc.counts import CountedSource
from hindex.orc.crew import Crew
from hindex.orc.fetched import Range
from hindex.orc.marks import ColumnMarks
from hindex.orc.open_file import RELEASE_BYTES, OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import GroupedRows, RowSelection
from hindex.orc.stripe import StreamInformation, StreamKind, Stripe
from hindex.orc.types import Kind, OrcType
from hindex.orc.units import UnitDecoder, concatenated, cut, units_of

Ints = npt.NDArray[np.int64]

#: Stripes that are decoded together at most: then the fixed price is small.
MOST_STRIPES = 8

#: Stored bytes, and rows, of the touched row groups that are decoded together at most.
_MOST_BYTES = 8 << 20
_MOST_ROWS = 1 << 20

#: Stored bytes of dictionaries that are compared, to see whether all stripes have the same.
_DICTIONARY_BYTES = 1 << 14

#: The streams of values.
_VALUES = tuple(kind for kind in StreamKind if kind < StreamKind.ROW_INDEX)
_DICTIONARY = (StreamKind.LENGTH, StreamKind.DICTIONARY_DATA)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One of the stripes: its footer, its wanted rows by row groups, and the row indexes of some columns.

    ``counts``: int64[G], the rows of each touched row group. ``packed`` is about how many bytes of the columns are
    stored in these.
    """

    stripe: Stripe
    groups: GroupedRows
    counts: Ints
    tables: Mapping[int, PositionTable]
    packed: int


def small_lots(parts: Sequence[Part]) -> list[tuple[int, int]]:
    """Ranges of neighbouring stripes that are small enough to be decoded together; those of one are not.

    So what is held at once is bounded, however many stripes there are. Where there is more to decode than that, the
    fixed price does not matter.
    """
    packed = np.array([part.packed for part in parts], np.int64)
    rows = np.array([int(part.counts.sum()) for part in parts], np.int64)
    return [
        (begin + first, begin + last)
        for begin, end in cut(packed, _MOST_BYTES)
        for first, last in cut(rows[begin:end], _MOST_ROWS)
    ]


class JoinedSource:
    """Where the joined streams are: an address space of its own, in which the parts of a stream are neighbours."""

    is_remote = False

    def __init__(self, source: CountedSource) -> None:
        self._source = source
        self._streams: dict[int, tuple[StreamInformation, ...]] = {}
        self._size = 0

    def add(self, streams: Sequence[StreamInformation]) -> StreamInformation:
        """The stream that is made of some."""
        found = replace(streams[0], offset=self._size, length=sum(stream.length for stream in streams))
        self._streams[found.offset] = tuple(streams)
        self._size += found.length
        return found

    def peek(self, offset: int, length: int) -> list[tuple[int, memoryview]]:
        """A whole stream, in pieces."""
        pieces, at = [], 0
        for stream in self._streams[offset]:
            pieces += [(at + begin, view) for begin, view in self._source.peek(stream.offset, stream.length)]
            at += stream.length
        assert at == length
        return pieces

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        if ranges:
            raise OrcError(f"bytes {ranges[0][0]} to {sum(ranges[0])} are in none of the streams")
        return []

    def count(self, ranges: int, length: int) -> None:
        self._source.count(ranges, length)


class JoinedDecoder(UnitDecoder):
    """Decodes columns of several stripes at the selected rows; use it once, from one thread."""

    def __init__(self, file: OpenFile, parts: Sequence[Part], decompressor: Decompressor, crew: Crew) -> None:
        super().__init__(file, -1, RowSelection(0), decompressor, crew)
        self._parts = parts
        self._joined = JoinedSource(file.source)
        self.source = self._joined
        self._tables: dict[int, PositionTable] = {}
        self._released = 0

    @cached_property
    def groups(self) -> GroupedRows:
        ids, offsets, before = [], [np.zeros(1, np.int64)], 0
        for part, first in zip(self._parts, self._firsts.tolist(), strict=True):
            ids.append(part.groups.ids + first)
            offsets.append(part.groups.offsets[1:] + before)
            before += len(part.groups.rows)
        rows = np.concatenate([part.groups.rows for part in self._parts])
        return GroupedRows(np.concatenate(ids), np.concatenate(offsets), rows)

    @cached_property
    def counts(self) -> Ints:
        return np.concatenate([part.counts for part in self._parts])

    @cached_property
    def stripe(self) -> Stripe:
        """The first one, with the joined streams in place of its own."""
        return replace(self._parts[0].stripe, streams={}, positions={}, row_entries={}, marks={})

    def table(self, column: int) -> PositionTable | None:
        return self._tables.get(column)

    @cached_property
    def _firsts(self) -> Ints:
        """The number of each stripe's first row group."""
        stride = self._file.tail.row_index_stride
        counts = [-(-part.stripe.information.num_rows // stride) for part in self._parts]
        return np.cumsum([0, *counts[:-1]])

    def add(self, of: OrcType) -> bool:
        """Join a primitive column, if it has the same streams and encodings in all stripes."""
        column, first = of.column, self._parts[0].stripe
        stripes = [part.stripe for part in self._parts]
        kinds = _kinds(first, column)
        encoding = first.encodings[column]
        if any(stripe.encodings[column] != encoding or _kinds(stripe, column) != kinds for stripe in stripes):
            return False
        if of.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT) and any(
            s.writer_timezone != first.writer_timezone for s in stripes
        ):
            return False
        tables = [part.tables[column] for part in self._parts]
        shared = _DICTIONARY if encoding.is_dictionary else ()
        if not kinds.issuperset((*tables[0].columns, *shared)):
            return False
        if shared and not self._is_one_dictionary(column):
            return False
        lengths = {
            kind: [stripe.streams[column, kind].length for stripe in stripes] for kind in tables[0].columns
        }
        table = PositionTable.joined(tables, lengths)
        if table is None:
            return False
        self._tables[column] = table
        for kind in tables[0].columns:
            streams = [stripe.streams[column, kind] for stripe in stripes]
            self.stripe.streams[column, kind] = self._joined.add(streams)
        for kind in shared:
            self.stripe.streams[column, kind] = self._joined.add([first.streams[column, kind]])
        marks = [stripe.marks.setdefault(column, ColumnMarks()) for stripe in stripes]
        self.stripe.marks[column] = ColumnMarks.joined(marks, self._firsts)
        return True

    def _is_one_dictionary(self, column: int) -> bool:
        """Whether the stripes have the same dictionary: stored as the same bytes."""
        first, *others = (part.stripe for part in self._parts)
        streams = [first.streams[column, kind] for kind in _DICTIONARY]
        if sum(stream.length for stream in streams) > _DICTIONARY_BYTES:
            return False
        source = self._file.source
        known = [source.peek(stream.offset, stream.length) for stream in streams]
        for stripe in others:
            mine = [stripe.streams[column, kind] for kind in _DICTIONARY]
            if stripe.dictionary_sizes[column] != first.dictionary_sizes[column] or any(
                one.length != other.length for one, other in zip(streams, mine, strict=True)
            ):
                return False
            found = source.read([(stream.offset, stream.length) for stream in mine])
            if any(view != expected for view, ((_, expected),) in zip(found, known, strict=True)):
                return False
        return True

    def arrays(self, columns: Mapping[int, Projection]) -> dict[int, pa.Array]:
        """The values of joined columns, by their numbers in the result."""
        units = units_of(list(columns.items()))
        places = {
            column.of.column: self._tables[column.of.column].places(self.groups.ids)
            for column in columns.values()
        }
        pieces = []
        for begin, end in self.slices(units, places, None):
            pieces.append(self.slice(units, places, begin, end))
            self._release()
        self._file.counts.add(row_groups=len(self.groups.ids) * len(columns))
        if len(pieces) == 1:
            return pieces[0]
        return {i: concatenated([piece[i] for piece in pieces], column) for i, column in columns.items()}

    def _let_go(self, columns: Set[int]) -> None:
        """Nothing: the streams have no places of their own, and a slice is small."""

    def _release(self) -> None:
        """Let go of the stripes' mapped pages, if many were read: the next slice maps others."""
        if self._decompressor.bytes_in - self._released > RELEASE_BYTES:
            self._released = self._decompressor.bytes_in
            for part in self._parts:
                self._file.release(part.stripe.information)


def _kinds(stripe: Stripe, column: int) -> frozenset[StreamKind]:
    """The kinds of the streams that a column's values are in."""
    return frozenset(kind for kind in _VALUES if (column, kind) in stripe.streams)
