"""Units: the columns of a stripe that are decoded together, at the selected rows.

Row groups are gone through in slices: what is held at once is the compressed bytes of a slice, the decompressed chunks
of a window of it for one unit, and the selected values.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
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
    runs_of,
    stream_layout,
    whole_stream,
)
from hindex.orc.columns.nested import ColumnTree, Level, StreamPlaces
from hindex.orc.compression import Decompressor
from hindex.orc.crew import Crew
from hindex.orc.encoding.buffers import begins_of
from hindex.orc.fetch import StreamSource, Wanted, fetch, open_stream, row_groups
from hindex.orc.fetch import whole as whole_range
from hindex.orc.fetched import Fetched
from hindex.orc.open_file import OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import GroupedRows, RowSelection
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import Kind, OrcType

Ints = npt.NDArray[np.int64]

#: Compressed bytes that are fetched for one slice of a stripe.
FETCH_BYTES = 32 << 20

#: Decompressed bytes of one column that are held at once, as far as can be told beforehand. Each further window costs
#: a fixed price, and decompresses the chunk again in which the last one ended.
WINDOW_BYTES = 10 << 20

#: Where so few rows of each row group are wanted on average, little but the chunks is held, and windows are so many
#: times as large; where more are, they are slower for it (measured).
_FEW_ROWS = 8
_SPARSE_WINDOWS = 2

#: Stored bytes of a unit from which on its mapped pages are let go of as soon as it is decoded.
_RELEASED_BYTES = 1 << 20

#: Assumed content of a compressed byte, where the number of chunks does not tell more.
_INFLATES = 4

#: Decompressed bytes of a slice, about, from which on other threads help: to call one takes as long as a few chunks.
_SHARED_BYTES = 4 << 20

#: Columns of a remote file that are decoded, and fetch what is then found to be wanted, at once.
_REMOTE_THREADS = 8


@dataclass(frozen=True, slots=True)
class Unit:
    """Columns that are decoded together, as they are one column at the top or within one; ``at`` is their place in the
    result.
    """

    columns: tuple[Projection, ...]
    at: tuple[int, ...]


class UnitDecoder:
    """Decodes units of one stripe at the selected rows; use it once, from one thread."""

    def __init__(
        self, file: OpenFile, index: int, selection: RowSelection, decompressor: Decompressor, crew: Crew
    ) -> None:
        self._file = file
        self._crew = crew
        self._index = index
        self._selection = selection
        self._decompressor = decompressor
        self.source: StreamSource = file.source
        self._streams: dict[int, dict[StreamKind, Fetched]] = {}
        self._lock = threading.Lock()
        self._known_sizes: dict[tuple[int, ...], tuple[Ints, Ints]] = {}

    @cached_property
    def groups(self) -> GroupedRows:
        """The selection by row groups."""
        return self._selection.groups(self._file.tail.row_index_stride)

    @cached_property
    def counts(self) -> Ints:
        """How many rows each touched row group has."""
        return Level.of(self._selection, self.groups, self._file.tail.row_index_stride).counts

    @cached_property
    def stripe(self) -> Stripe:
        """What the stripe's footer says, read when it is first asked for."""
        return self._file.stripe(self._index, self._decompressor)

    def table(self, column: int) -> PositionTable | None:
        """The row index of a column, if it was read and can be used."""
        return self._file.tables.get((self._index, column))

    def _level(self, begin: int, end: int) -> Level:
        """The rows of a range of touched row groups."""
        return Level(self.groups.part(begin, end), np.arange(end - begin), self.counts[begin:end])

    def nodes(self, column: Projection) -> Iterator[OrcType]:
        """The nodes of a column, and of its parents, that have streams of their own."""
        stripe = self.stripe
        for node in column.nodes():
            if node.kind != Kind.STRUCT or has_present(stripe, node.column):
                yield node

    def layout(self, of: OrcType) -> tuple[tuple[StreamKind, int], ...]:
        """The streams of a node, in the order in which its row index has their positions."""
        return stream_layout(of, self.stripe.encodings[of.column], self._file.tail.version)

    def whole(self, unit: Unit) -> list[pa.Array]:
        """The columns of one unit, decoded from the stripe's first row on."""
        nodes = {node.column: node for column in unit.columns for node in self.nodes(column)}
        places = {
            number: whole_stream(self.layout(node), has_present=has_present(self.stripe, number))
            for number, node in nodes.items()
        }
        fetch(self.source, self._wanted(nodes, {}, np.zeros(0, bool)))
        rows = self._selection.num_rows
        if self._selection.is_all and any(is_doubtful(self.stripe, c.nodes(), rows) for c in unit.columns):
            last = RowSelection(rows, np.array([rows - 1], np.int64))
            self._decode(unit, Level.of(last, last.groups(0), 0), places, self._decompressor)
        level = Level.of(self._selection, self._selection.groups(0), 0)
        found = self._decode(unit, level, places, self._decompressor)
        for number in nodes:
            self._streams.pop(number, None)
        self._file.counts.add(whole_columns=len(unit.columns))
        return found

    def slices(
        self, units: Sequence[Unit], places: Mapping[int, StreamPlaces], most_rows: int | None
    ) -> Iterator[tuple[int, int]]:
        """Ranges of touched row groups that are fetched together."""
        if len(self.groups.ids) == 1:
            yield 0, 1
            return
        sizes = np.zeros(len(self.groups.ids), np.int64)
        for unit in units:
            sizes += self._sizes(unit, places)[0]
        for begin, end in cut(sizes, FETCH_BYTES):
            if most_rows is None:
                yield begin, end
                continue
            rows = np.diff(self.groups.offsets[begin : end + 1])
            for first, last in cut(rows, most_rows):
                yield begin + first, begin + last

    def _sizes(self, unit: Unit, places: Mapping[int, StreamPlaces]) -> tuple[Ints, Ints]:
        """About how many bytes each touched row group adds to those before it: compressed, and decompressed."""
        known = self._known_sizes.get(unit.at)
        if known is not None:
            return known
        count = len(self.groups.ids)
        packed, unpacked = np.zeros(count, np.int64), np.zeros(count, np.int64)
        stripe, block = self.stripe, self._file.tail.block_size
        for number in {node.column for column in unit.columns for node in self.nodes(column)}:
            for kind, found in places[number].items():
                length = stripe.streams[number, kind].length if (number, kind) in stripe.streams else 0
                end = np.where(found.end_chunk < 0, length, found.end_chunk)
                begin = found.chunk.copy()
                begin[1:] = np.maximum(begin[1:], end[:-1])
                new = np.maximum(end - begin, 0)
                packed += new
                if self._decompressor.codec is None:
                    unpacked += new
                else:
                    chunks = begins_of(found.chunk)
                    unpacked += np.maximum(new * _INFLATES, np.where(chunks, block, 0))
        self._known_sizes[unit.at] = packed, unpacked
        return packed, unpacked

    def slice(
        self, units: Sequence[Unit], places: Mapping[int, StreamPlaces], begin: int, end: int
    ) -> dict[int, pa.Array]:
        """The values of a range of touched row groups."""
        nodes = {node.column: node for unit in units for c in unit.columns for node in self.nodes(c)}
        groups = self.groups.part(begin, end)
        mine = {
            number: {kind: found.part(begin, end) for kind, found in places[number].items()}
            for number in nodes
        }
        is_full = np.diff(groups.offsets) == self.counts[begin:end]
        fetch(self.source, self._wanted(nodes, mine, is_full))
        run = partial(self._windows, places=places, begin=begin, end=end)
        if len(units) == 1 or has_present(self.stripe, 0):
            arrays = [run(unit) for unit in units]
        elif self.source.is_remote:
            with ThreadPoolExecutor(min(_REMOTE_THREADS, len(units))) as pool:
                arrays = list(pool.map(run, units))
        else:
            sizes = [int(self._sizes(unit, places)[1][begin:end].sum()) for unit in units]
            if sum(sizes) < _SHARED_BYTES:
                arrays = [run(unit) for unit in units]
            else:
                # those first that take longest, so that the threads come to an end together
                units = [units[at] for at in np.argsort(sizes, kind="stable")[::-1]]
                arrays = self._crew.share(run, units)
        return {
            i: array
            for unit, found in zip(units, arrays, strict=True)
            for i, array in zip(unit.at, found, strict=True)
        }

    def _windows(
        self, unit: Unit, *, places: Mapping[int, StreamPlaces], begin: int, end: int
    ) -> list[pa.Array]:
        """The columns of one unit, so many row groups at a time that their chunks may be held together."""
        decompressor = self._file.tail.decompressor()
        numbers = {node.column for column in unit.columns for node in self.nodes(column)}
        parts = []
        released = 0
        windows: Iterable[tuple[int, int]] = [(0, 1)]
        if end - begin > 1:
            offsets = self.groups.offsets
            is_sparse = int(offsets[end] - offsets[begin]) <= _FEW_ROWS * (end - begin)
            budget = WINDOW_BYTES * _SPARSE_WINDOWS if is_sparse else WINDOW_BYTES
            windows = cut(self._sizes(unit, places)[1][begin:end], budget)
        for first, last in windows:
            first, last = begin + first, begin + last
            level = self._level(first, last)
            mine = {
                number: {kind: found.part(first, last) for kind, found in places[number].items()}
                for number in numbers
            }
            parts.append(self._decode(unit, level, mine, decompressor))
            if decompressor.bytes_in - released > _RELEASED_BYTES:
                released = decompressor.bytes_in
                self._let_go(numbers)
        with self._lock:
            self._decompressor.add_counts(decompressor)
        if len(parts) == 1:
            return parts[0]
        return [concatenated(found, c) for c, *found in zip(unit.columns, *parts, strict=True)]

    def _let_go(self, columns: Set[int]) -> None:
        """Let go of the mapped pages of columns: otherwise those of all columns are held until the stripe is done."""
        for number in columns:
            for stream in self.stripe.data_streams(number):
                self._file.source.release(stream.offset, stream.length)

    def _decode(
        self, unit: Unit, level: Level, places: Mapping[int, StreamPlaces], decompressor: Decompressor
    ) -> list[pa.Array]:
        tree = ColumnTree(
            self._file.tail,
            self.stripe,
            decompressor,
            lambda n: self._streams.get(n, {}),
            places,
            self._file.timezone,
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
        stripe, decompressor = self.stripe, self._decompressor
        full = np.flatnonzero(is_full)
        for (number, kind), stream in stripe.streams.items():
            if number not in nodes or kind >= StreamKind.ROW_INDEX:
                continue
            found = places.get(number, {}).get(kind)
            table = self.table(number) if found is not None else None
            known = self._streams.setdefault(number, {})
            fetched = known.get(kind)
            if fetched is None:
                fetched = known[kind] = open_stream(
                    self.source,
                    stream,
                    runs_of(nodes[number], stripe.encodings[number], kind),
                    table.starts(kind) if table is not None else (),
                    len(table.lines) if table is not None else 0,
                )
            if found is None:
                yield whole_range(stream, fetched)
                continue
            if len(found.chunk):
                fetched.forget(int(found.chunk[0]))
            if by_value(nodes[number], stripe.encodings[number], kind):
                found = found.of(full)
            try:
                yield row_groups(stream, fetched, found, decompressor)
            except OrcError as error:
                raise error.at(column=str(nodes[number]), stream=kind.name) from error


def units_of(columns: Sequence[tuple[int, Projection]]) -> list[Unit]:
    """Columns by the one at the top that they are or lie within: units share no streams, as threads may decode them."""

    def top(item: tuple[int, Projection]) -> int:
        _, column = item
        return (column.parents[1] if column.is_nested else column.of).column

    return [
        Unit(tuple(c for _, c in items), tuple(i for i, _ in items))
        for items in (list(group) for _, group in groupby(sorted(columns, key=top), key=top))
    ]


def cut(sizes: Ints, budget: int) -> list[tuple[int, int]]:
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


def concatenated(parts: Sequence[pa.Array], column: Projection) -> pa.Array:
    """The parts of a column as one array.

    :raises OrcError: if they are too large for one.
    """
    try:
        return pa.concat_arrays(parts)
    except pa.ArrowException as error:
        raise OrcError(
            f"the selected values do not fit one array: select fewer rows ({error})", column=column.name
        ) from error
