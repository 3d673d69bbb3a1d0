"""One read of one stripe: a way to decode each column, the bytes for it, and the values.

Columns decoded sparsely go through the touched row groups in slices: what is held at once is the compressed bytes
of a slice, the decompressed chunks of a window of it for one column, and the selected values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.claims import is_doubtful
from hindex.orc.columns.layout import (
    PositionTable,
    by_value,
    has_present,
    run_streams,
    runs_of,
    stream_layout,
    whole_stream,
)
from hindex.orc.columns.nested import ColumnTree, Level, StreamPlaces
from hindex.orc.compression import Decompressor
from hindex.orc.cost import FEW_GROUPS, DecodePath, Work, dense_cost, sparse_cost
from hindex.orc.counts import CountedSource, ReadCounts
from hindex.orc.dense import DenseReader
from hindex.orc.density import runs_per_value
from hindex.orc.fetch import Wanted, fetch, open_stream, row_groups, whole
from hindex.orc.fetched import Fetched
from hindex.orc.known_files import KnownFile
from hindex.orc.marks import ColumnMarks
from hindex.orc.projection import Projection
from hindex.orc.selection import GroupedRows, RowSelection
from hindex.orc.stripe import StreamKind, Stripe, read_row_indexes, read_stripe_footer
from hindex.orc.tail import FileTail
from hindex.orc.types import Kind, OrcType
from hindex.orc.vetting import may_decode

Ints = npt.NDArray[np.int64]

#: Rows of a stripe that can be numbered in 32 bits; no writer makes nearly as many.
_MOST_ROWS = (1 << 31) - 1

#: Compressed bytes that are fetched for one slice of a stripe.
FETCH_BYTES = 32 << 20

#: Decompressed bytes of one column that are held at once, as far as can be told beforehand.
WINDOW_BYTES = 8 << 20

#: Compressed bytes of a stripe that may stay mapped when its rows are read.
_RELEASE_BYTES = 4 << 20

#: Assumed content of a compressed byte, where the number of chunks does not tell more.
_INFLATES = 4

#: Columns of a remote file that are decoded, and fetch what is then found to be wanted, at once.
_REMOTE_THREADS = 8


@dataclass(slots=True, eq=False)
class OpenFile:
    """A file that is being read: what all reads of it share."""

    source: CountedSource
    known: KnownFile
    counts: ReadCounts
    dense: DenseReader
    path: DecodePath | None

    @property
    def tail(self) -> FileTail:
        return self.known.tail

    @property
    def tables(self) -> dict[tuple[int, int], PositionTable | None]:
        return self.known.tables

    def stripe(self, index: int, decompressor: Decompressor) -> Stripe:
        found = self.known.stripes.get(index)
        if found is None:
            found = self.known.stripes[index] = read_stripe_footer(
                self.source, self.tail, index, decompressor
            )
        return found


@dataclass(frozen=True, slots=True)
class _Unit:
    """Columns that are decoded together, as they are fields of one struct; ``at`` is their place in the result."""

    columns: tuple[Projection, ...]
    at: tuple[int, ...]


class StripeRead:
    """The selected rows of some columns of one stripe; use it once, from one thread."""

    def __init__(
        self, file: OpenFile, index: int, columns: Sequence[Projection], selection: RowSelection
    ) -> None:
        self._file = file
        self._index = index
        self._columns = columns
        self._selection = selection
        self._streams: dict[int, dict[StreamKind, Fetched]] = {}
        self._lock = threading.Lock()
        self._is_dense = False
        self.decompressor = file.tail.decompressor()

    def paths(self) -> tuple[DecodePath, ...]:
        """How each column is decoded."""
        return tuple(self._choose(column) for column in self._columns)

    def arrays(self) -> list[pa.Array]:
        """The columns at all selected rows."""
        pieces = list(self.pieces(None))
        if len(pieces) == 1:
            return pieces[0]
        return [_concatenated(parts, c) for c, *parts in zip(self._columns, *pieces, strict=True)]

    def pieces(self, most_rows: int | None) -> Iterator[list[pa.Array]]:
        """The columns, some row groups at a time.

        :param most_rows: that a piece should have; one row group may have more.
        """
        try:
            yield from self._pieces(most_rows)
        finally:
            self._file.counts.add_decompressor(self.decompressor)
            self._release()

    def _release(self) -> None:
        """Let go of the mapped pages of a stripe of which much was read."""
        if self._is_dense or self.decompressor.codec is None or self.decompressor.bytes_in > _RELEASE_BYTES:
            stripe = self._file.tail.stripes[self._index]
            self._file.source.release(stripe.offset, stripe.index_length + stripe.data_length)

    def _pieces(self, most_rows: int | None) -> Iterator[list[pa.Array]]:
        self._check_readable()
        if not len(self._selection) or not self._columns:
            yield [pa.nulls(0, column.of.to_arrow()) for column in self._columns]
            return
        if not self._selection.is_all:
            for column in self._columns:
                self._marks(column.of.column).reads += 1
        held: dict[int, pa.Array] = {}
        sparse: list[tuple[int, Projection]] = []
        for i, (column, path) in enumerate(zip(self._columns, self.paths(), strict=True)):
            if path is DecodePath.DENSE:
                decoded = self._dense(column)
                if decoded is not None:
                    held[i] = decoded
            elif path is DecodePath.SPARSE:
                sparse.append((i, column))
        tables = self._tables([column for _, column in sparse])
        units = _units([item for item in sparse if item[0] not in held and self._is_indexed(item[1], tables)])
        done = held.keys() | {i for unit in units for i in unit.at}
        remaining = [(i, c) for i, c in enumerate(self._columns) if i not in done]
        for unit in _units(remaining):
            held.update(zip(unit.at, self._whole(unit), strict=True))
        if not units:
            yield [held[i] for i in range(len(self._columns))]
            return
        places = {column: table.places(self._groups.ids) for column, table in tables.items()}
        first = 0
        for begin, end in self._slices(units, places, most_rows):
            found = self._slice(units, places, begin, end)
            rows = int(self._groups.offsets[end])
            yield [
                held[i].slice(first, rows - first) if i in held else found[i]
                for i in range(len(self._columns))
            ]
            first = rows
        self._file.counts.add(row_groups=len(self._groups.ids) * sum(len(unit.columns) for unit in units))

    # what to do

    @cached_property
    def _groups(self) -> GroupedRows:
        return self._selection.groups(self._file.tail.row_index_stride)

    def _choose(self, column: Projection) -> DecodePath:
        file, of = self._file, column.of
        dense = not column.is_nested and of.is_primitive and file.dense.can_read(column.name)
        if file.path is not None:
            return file.path if dense or file.path is not DecodePath.DENSE else DecodePath.SPARSE
        if self._selection.is_all:
            return DecodePath.DENSE if dense else DecodePath.WHOLE
        if len(self._groups.ids) < FEW_GROUPS or not dense:
            return DecodePath.SPARSE
        stripe = self._stripe()
        rows, stride = self._selection.num_rows, file.tail.row_index_stride
        encoding = stripe.encodings[of.column]
        work = Work(
            groups=len(self._groups.ids),
            all_groups=-(-rows // stride) if stride else 1,
            rows=len(self._selection),
            stripe_rows=rows,
            stream_bytes=stripe.data_length(of.column),
            marked=encoding.is_v2 and self._marks(of.column).reads > 1,
            runs_per_value=runs_per_value(
                file.source,
                stripe,
                of.column,
                run_streams(of, encoding, file.tail.version),
                self.decompressor,
            ),
        )
        sparse_ns = sparse_cost(of, work, is_dictionary=encoding.is_dictionary)
        dense_ns = dense_cost(of, rows, is_dictionary=encoding.is_dictionary)
        return DecodePath.SPARSE if sparse_ns < dense_ns else DecodePath.DENSE

    def _marks(self, column: int) -> ColumnMarks:
        return self._stripe().marks.setdefault(column, ColumnMarks())

    def _stripe(self) -> Stripe:
        return self._file.stripe(self._index, self.decompressor)

    def _check_readable(self) -> None:
        encrypted = self._file.tail.encrypted_columns
        for column in self._columns:
            if encrypted and any(node.column in encrypted for node in column.of.walk()):
                raise OrcError(
                    "the column is encrypted and there is no key for it: leave it out", column=column.name
                )
        if not len(self._selection):
            return
        if self._selection.num_rows > _MOST_ROWS:
            raise OrcError(f"the stripe claims {self._selection.num_rows} rows, more than a stripe can have")
        known = len(self._stripe().encodings)
        if any(node.column >= known for column in self._columns for node in column.of.walk()):
            raise OrcError(f"the stripe footer has only {known} column encodings")

    def _nodes(self, column: Projection) -> Iterator[OrcType]:
        """The nodes of a column, and of its parents, that have streams of their own."""
        stripe = self._stripe()
        for node in column.nodes():
            if node.kind != Kind.STRUCT or has_present(stripe, node.column):
                yield node

    def _layout(self, of: OrcType) -> tuple[tuple[StreamKind, int], ...]:
        return stream_layout(of, self._stripe().encodings[of.column], self._file.tail.version)

    def _tables(self, columns: Sequence[Projection]) -> dict[int, PositionTable]:
        """The row indexes of columns, as far as they can be used."""
        tail, stripe = self._file.tail, self._stripe()
        if self._selection.is_all or not tail.row_index_stride or not columns:
            return {}
        nodes = {node.column: node for column in columns for node in self._nodes(column)}
        read_row_indexes(self._file.source, stripe, nodes, self.decompressor)
        expected = -(-self._selection.num_rows // tail.row_index_stride)
        found = {}
        for number, node in nodes.items():
            key = (self._index, number)
            if key not in self._file.tables:
                entries = stripe.positions.get(number, ())
                self._file.tables[key] = None
                if len(entries) == expected:
                    self._file.tables[key] = PositionTable.of(
                        self._layout(node),
                        entries,
                        compressed=tail.codec is not None,
                        has_present=has_present(stripe, number),
                    )
            table = self._file.tables[key]
            if table is not None:
                found[number] = table
        return found

    def _is_indexed(self, column: Projection, tables: Mapping[int, PositionTable]) -> bool:
        return (
            bool(self._file.tail.row_index_stride)
            and not self._selection.is_all
            and all(node.column in tables and not self._misplaces(node) for node in self._nodes(column))
        )

    def _misplaces(self, of: OrcType) -> bool:
        """Whether the row indexes of a node's children may not fit what readers take for their values.

        Where a union is null, writers in C++ give a child a value all the same, and no reader skips it.
        """
        return (
            of.kind == Kind.UNION
            and has_present(self._stripe(), of.column)
            and not self._file.tail.is_by_java
        )

    # columns decoded whole

    def _dense(self, column: Projection) -> pa.Array | None:
        """The column as pyarrow decodes it; None where that is not safe, or it cannot: our decoders will tell."""
        file, stripe, rows = self._file, self._stripe(), self._selection.num_rows
        if not may_decode(file.source, stripe, column.of, rows, self.decompressor):
            return None
        try:
            array = file.dense.read(self._index, column.name, column.of, self._selection)
        except OrcError:
            return None
        self._is_dense = True
        file.counts.add(
            dense_columns=1,
            dense_rows=rows,
            bytes_fetched=stripe.data_length(column.of.column),
        )
        return array

    def _whole(self, unit: _Unit) -> list[pa.Array]:
        nodes = {node.column: node for column in unit.columns for node in self._nodes(column)}
        places = {
            number: whole_stream(self._layout(node), has_present=has_present(self._stripe(), number))
            for number, node in nodes.items()
        }
        fetch(self._file.source, self._wanted(nodes, {}, np.zeros(0, bool)))
        rows = self._selection.num_rows
        if self._selection.is_all and any(is_doubtful(self._stripe(), c.of, rows) for c in unit.columns):
            last = RowSelection(rows, np.array([rows - 1], np.int64))
            self._decode(unit, Level.of(last, last.groups(0), 0), places, self.decompressor)
        level = Level.of(self._selection, self._selection.groups(0), 0)
        found = self._decode(unit, level, places, self.decompressor)
        for number in nodes:
            self._streams.pop(number, None)
        self._file.counts.add(whole_columns=len(unit.columns))
        return found

    # columns decoded row group by row group

    def _slices(
        self, units: Sequence[_Unit], places: Mapping[int, StreamPlaces], most_rows: int | None
    ) -> Iterator[tuple[int, int]]:
        """Ranges of touched row groups that are fetched together."""
        if len(self._groups.ids) == 1:
            yield 0, 1
            return
        sizes = np.zeros(len(self._groups.ids), np.int64)
        for unit in units:
            sizes += self._sizes(unit, places)[0]
        for begin, end in _cut(sizes, FETCH_BYTES):
            if most_rows is None:
                yield begin, end
                continue
            rows = np.diff(self._groups.offsets[begin : end + 1])
            for first, last in _cut(rows, most_rows):
                yield begin + first, begin + last

    def _sizes(self, unit: _Unit, places: Mapping[int, StreamPlaces]) -> tuple[Ints, Ints]:
        """About how many bytes each touched row group adds to those before it: compressed, and decompressed."""
        count = len(self._groups.ids)
        packed, unpacked = np.zeros(count, np.int64), np.zeros(count, np.int64)
        stripe, block = self._stripe(), self._file.tail.block_size
        for number in {node.column for column in unit.columns for node in self._nodes(column)}:
            for kind, found in places[number].items():
                length = stripe.streams[number, kind].length if (number, kind) in stripe.streams else 0
                end = np.where(found.end_chunk < 0, length, found.end_chunk)
                begin = found.chunk.copy()
                begin[1:] = np.maximum(begin[1:], end[:-1])
                new = np.maximum(end - begin, 0)
                packed += new
                if self.decompressor.codec is None:
                    unpacked += new
                else:
                    chunks = np.diff(found.chunk, prepend=-1) != 0
                    unpacked += np.maximum(new * _INFLATES, np.where(chunks, block, 0))
        return packed, unpacked

    def _slice(
        self, units: Sequence[_Unit], places: Mapping[int, StreamPlaces], begin: int, end: int
    ) -> dict[int, pa.Array]:
        """The values of a range of touched row groups."""
        nodes = {node.column: node for unit in units for c in unit.columns for node in self._nodes(c)}
        groups = self._groups.part(begin, end)
        level = Level.of(self._selection, groups, self._file.tail.row_index_stride)
        mine = {
            number: {kind: found.part(begin, end) for kind, found in places[number].items()}
            for number in nodes
        }
        is_full = np.diff(groups.offsets) == level.counts
        fetch(self._file.source, self._wanted(nodes, mine, is_full))
        run = partial(self._windows, places=places, begin=begin, end=end)
        if self._file.source.is_remote and len(units) > 1 and not has_present(self._stripe(), 0):
            with ThreadPoolExecutor(min(_REMOTE_THREADS, len(units))) as pool:
                arrays = list(pool.map(run, units))
        else:
            arrays = [run(unit) for unit in units]
        return {
            i: array
            for unit, found in zip(units, arrays, strict=True)
            for i, array in zip(unit.at, found, strict=True)
        }

    def _windows(
        self, unit: _Unit, *, places: Mapping[int, StreamPlaces], begin: int, end: int
    ) -> list[pa.Array]:
        """The columns of one unit, so many row groups at a time that their chunks may be held together."""
        decompressor = self._file.tail.decompressor()
        numbers = {node.column for column in unit.columns for node in self._nodes(column)}
        parts = []
        windows: Iterable[tuple[int, int]] = [(0, 1)]
        if end - begin > 1:
            windows = _cut(self._sizes(unit, places)[1][begin:end], WINDOW_BYTES)
        for first, last in windows:
            first, last = begin + first, begin + last
            level = Level.of(
                self._selection, self._groups.part(first, last), self._file.tail.row_index_stride
            )
            mine = {
                number: {kind: found.part(first, last) for kind, found in places[number].items()}
                for number in numbers
            }
            parts.append(self._decode(unit, level, mine, decompressor))
        with self._lock:
            self.decompressor.add_counts(decompressor)
        if len(parts) == 1:
            return parts[0]
        return [_concatenated(found, c) for c, *found in zip(unit.columns, *parts, strict=True)]

    def _decode(
        self, unit: _Unit, level: Level, places: Mapping[int, StreamPlaces], decompressor: Decompressor
    ) -> list[pa.Array]:
        tree = ColumnTree(
            self._file.tail, self._stripe(), decompressor, lambda n: self._streams.get(n, {}), places
        )
        found = []
        for column in unit.columns:
            try:
                found.append(tree.read(column.of, column.parents, level))
            except OrcError as error:
                raise error.at(column=column.name) from error
        return found

    def _wanted(
        self,
        nodes: Mapping[int, OrcType],
        places: Mapping[int, StreamPlaces],
        is_full: npt.NDArray[np.bool_],
    ) -> Iterator[Wanted]:
        """What to fetch of columns: their streams at some places, or whole where a stream has none.

        Of streams whose values are found by their length only row groups that are selected whole are fetched
        now, the others when it is known which bytes are wanted.
        """
        stripe, decompressor = self._stripe(), self.decompressor
        full = np.flatnonzero(is_full)
        for (number, kind), stream in stripe.streams.items():
            if number not in nodes or kind >= StreamKind.ROW_INDEX:
                continue
            found = places.get(number, {}).get(kind)
            table = self._file.tables.get((self._index, number)) if found is not None else None
            known = self._streams.setdefault(number, {})
            fetched = known.get(kind)
            if fetched is None:
                fetched = known[kind] = open_stream(
                    self._file.source,
                    stream,
                    runs_of(nodes[number], stripe.encodings[number], kind),
                    table.starts(kind) if table is not None else (),
                    len(table.lines) if table is not None else 0,
                )
            if found is None:
                yield whole(stream, fetched)
                continue
            if len(found.chunk):
                fetched.forget(int(found.chunk[0]))
            if by_value(nodes[number], stripe.encodings[number], kind):
                found = found.of(full)
            try:
                yield row_groups(stream, fetched, found, decompressor)
            except OrcError as error:
                raise error.at(column=str(nodes[number]), stream=kind.name) from error


def _units(columns: Sequence[tuple[int, Projection]]) -> list[_Unit]:
    """Columns by the top-level struct that they are fields of; each other column by itself."""

    def top(item: tuple[int, Projection]) -> tuple[int, int]:
        i, column = item
        return (column.parents[1].column, -1) if column.is_nested else (column.of.column, i)

    return [
        _Unit(tuple(c for _, c in items), tuple(i for i, _ in items))
        for items in (list(group) for _, group in groupby(sorted(columns, key=top), key=top))
    ]


def _cut(sizes: Ints, budget: int) -> list[tuple[int, int]]:
    """Ranges of neighbours whose sizes sum up to no more than a budget, or of one that alone has more."""
    if not len(sizes):
        return []
    total = np.cumsum(sizes)
    found, begin, before = [], 0, 0
    while begin < len(sizes):
        end = max(int(np.searchsorted(total, before + budget, "right")), begin + 1)
        found.append((begin, end))
        begin, before = end, int(total[end - 1])
    return found


def _concatenated(parts: Sequence[pa.Array], column: Projection) -> pa.Array:
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowException as error:
        raise OrcError(
            f"the selected values do not fit one array: select fewer rows ({error})", column=column.name
        ) from error
