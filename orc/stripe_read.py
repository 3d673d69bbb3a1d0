"""One read of one stripe: a way to decode each column, and the values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.choice import PathChoice
from hindex.orc.columns.layout import PositionTable, has_present
from hindex.orc.cost import DecodePath
from hindex.orc.crew import ALONE, Crew
from hindex.orc.joined import Part
from hindex.orc.misplaced import misplacing
from hindex.orc.open_file import RELEASE_BYTES, OpenFile
from hindex.orc.projection import Projection
from hindex.orc.selection import RowSelection
from hindex.orc.stripe import StreamInformation, StreamKind, read_row_indexes
from hindex.orc.types import OrcType
from hindex.orc.units import FETCH_BYTES, UnitDecoder, concatenated, cut, units_of
from hindex.orc.vetting import Stored, may_decode

#: Rows of a stripe that can be numbered in 32 bits; no writer makes nearly as many.
_MOST_ROWS = (1 << 31) - 1


class StripeRead:
    """The selected rows of some columns of one stripe; use it once, from one thread, which a crew may help."""

    def __init__(
        self,
        file: OpenFile,
        index: int,
        columns: Sequence[Projection],
        selection: RowSelection,
        crew: Crew = ALONE,
    ) -> None:
        self._file = file
        self._index = index
        self._columns = columns
        self._selection = selection
        self._is_dense = False
        self._has_begun = False
        self._given: dict[int, pa.Array] = {}
        self.decompressor = file.tail.decompressor()
        self._decoder = UnitDecoder(file, index, selection, self.decompressor, crew)

    def paths(self) -> tuple[DecodePath, ...]:
        """How each column is decoded."""
        return self._paths

    @cached_property
    def _paths(self) -> tuple[DecodePath, ...]:
        choice = PathChoice(self._file, self._decoder.stripe, self._selection, self.decompressor)
        return tuple(choice.of(column) for column in self._columns)

    @cached_property
    def part(self) -> tuple[Part, frozenset[int]]:
        """What decoding this stripe together with others takes, and the columns for which that can be thought of.

        These are primitive, at the top, and decoded sparsely from the row index's positions.
        """
        self._begin()
        decoder = self._decoder
        sparse = [
            (i, column)
            for i, (column, path) in enumerate(zip(self._columns, self.paths(), strict=True))
            if path is DecodePath.SPARSE and column.of.is_primitive and not column.is_nested
        ]
        if has_present(decoder.stripe, self._file.tail.schema.column):
            sparse = []
        tables = self._tables([column for _, column in sparse])
        found = frozenset(i for i, column in sparse if self._is_indexed(column, tables))
        numbers = {self._columns[i].of.column for i in found}
        stored = sum(
            stream.length
            for (number, kind), stream in decoder.stripe.streams.items()
            if number in numbers and kind < StreamKind.ROW_INDEX
        )
        packed = stored * int(decoder.counts.sum()) // max(self._selection.num_rows, 1)
        return Part(decoder.stripe, decoder.groups, decoder.counts, tables, packed), found

    def arrays(self, given: Mapping[int, pa.Array] | None = None) -> list[pa.Array]:
        """The columns at all selected rows.

        :param given: those that have been decoded already.
        """
        self._given = dict(given or {})
        pieces = list(self.pieces(None))
        if len(pieces) == 1:
            return pieces[0]
        return [concatenated(parts, c) for c, *parts in zip(self._columns, *pieces, strict=True)]

    def pieces(self, most_rows: int | None) -> Iterator[list[pa.Array]]:
        """The columns, some row groups at a time.

        :param most_rows: that a piece should have; one row group may have more.
        """
        try:
            yield from self._pieces(most_rows)
        finally:
            self._file.counts.add_decompressor(self.decompressor)
            if (
                self._is_dense
                or self.decompressor.codec is None
                or self.decompressor.bytes_in > RELEASE_BYTES
            ):
                self._file.release(self._file.tail.stripes[self._index])

    def _begin(self) -> None:
        """Check what is asked for, and count that its columns are read."""
        if self._has_begun:
            return
        self._check_readable()
        self._has_begun = True
        if len(self._selection) and not self._selection.is_all:
            for column in self._columns:
                self._decoder.stripe.marks_of(column.of.column).reads += 1

    def _pieces(self, most_rows: int | None) -> Iterator[list[pa.Array]]:
        self._begin()
        if not len(self._selection) or not self._columns:
            yield [pa.nulls(0, column.of.to_arrow()) for column in self._columns]
            return
        chosen = [
            (i, column, path)
            for i, (column, path) in enumerate(zip(self._columns, self.paths(), strict=True))
            if i not in self._given
        ]
        held = self._given | self._dense(
            [(i, column) for i, column, path in chosen if path is DecodePath.DENSE]
        )
        sparse = [(i, column) for i, column, path in chosen if path is DecodePath.SPARSE]
        tables = self._tables([column for _, column in sparse])
        units = units_of(
            [item for item in sparse if item[0] not in held and self._is_indexed(item[1], tables)]
        )
        done = held.keys() | {i for unit in units for i in unit.at}
        remaining = [(i, c) for i, c in enumerate(self._columns) if i not in done]
        for unit in units_of(remaining):
            held.update(zip(unit.at, self._decoder.whole(unit), strict=True))
        if not units:
            yield [held[i] for i in range(len(self._columns))]
            return
        places = {column: table.places(self._decoder.groups.ids) for column, table in tables.items()}
        first = 0
        for begin, end in self._decoder.slices(units, places, most_rows):
            found = self._decoder.slice(units, places, begin, end)
            rows = int(self._decoder.groups.offsets[end])
            yield [
                held[i].slice(first, rows - first) if i in held else found[i]
                for i in range(len(self._columns))
            ]
            first = rows
        self._file.counts.add(
            row_groups=len(self._decoder.groups.ids) * sum(len(unit.columns) for unit in units)
        )

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
        known = len(self._decoder.stripe.encodings)
        if any(node.column >= known for column in self._columns for node in column.of.walk()):
            raise OrcError(f"the stripe footer has only {known} column encodings")

    def _tables(self, columns: Sequence[Projection]) -> dict[int, PositionTable]:
        """The row indexes of columns, as far as they can be used."""
        tail, stripe = self._file.tail, self._decoder.stripe
        if self._selection.is_all or not tail.row_index_stride or not columns:
            return {}
        nodes = {node.column: node for column in columns for node in self._decoder.nodes(column)}
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
                        self._decoder.layout(node),
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
            and all(node.column in tables for node in self._decoder.nodes(column))
            and not self._is_misplaced(column)
        )

    def _is_misplaced(self, column: Projection) -> bool:
        """Whether its row indexes may not fit what readers take for its values; see :mod:`hindex.orc.misplaced`."""
        if self._file.tail.is_by_java:
            return False
        return any(has_present(self._decoder.stripe, node.column) for node in misplacing(column))

    def _dense(self, columns: Sequence[tuple[int, Projection]]) -> dict[int, pa.Array]:
        """Columns as pyarrow decodes them, by their numbers.

        Those are left out where that is not safe, or it cannot: our decoders will tell.
        """
        file, stripe, rows = self._file, self._decoder.stripe, self._selection.num_rows
        streams = [
            [stream for node in column.of.walk() for stream in stripe.data_streams(node.column)]
            for _, column in columns
        ]
        sizes = [sum(stream.length for stream in found) for found in streams]
        held: dict[int, pa.Array] = {}
        for begin, end in cut(np.array(sizes, np.int64), FETCH_BYTES):
            found = self._fetched(columns[begin:end], list(chain.from_iterable(streams[begin:end])))
            held |= found
            file.counts.add(
                dense_columns=len(found),
                dense_rows=len(found) * rows,
                # requests are counted as they are made
                bytes_fetched=0
                if file.source.is_remote
                else sum(sizes[at] for at in range(begin, end) if columns[at][0] in found),
            )
        self._is_dense |= bool(held)
        return held

    def _fetched(
        self, columns: Sequence[tuple[int, Projection]], streams: Sequence[StreamInformation]
    ) -> dict[int, pa.Array]:
        """Columns whose streams are fetched together; nothing of what is stored is held afterwards."""
        with self._file.dense.stored(self._decoder.stripe, streams) as views:
            stored = {(stream.column, stream.kind): view for stream, view in zip(streams, views, strict=True)}
            return self._vetted(columns, stored)

    def _vetted(self, columns: Sequence[tuple[int, Projection]], stored: Stored) -> dict[int, pa.Array]:
        """The columns of which pyarrow may decode what is stored, and can."""
        fit = [item for item in columns if self._may_decode(item[1].of, stored)]
        found = self._by_pyarrow(fit)
        if fit and not found:
            # one of them cannot be decoded: the others can
            found = {i: array for item in fit for i, array in self._by_pyarrow([item]).items()}
        return found

    def _may_decode(self, of: OrcType, stored: Stored) -> bool:
        """Whether pyarrow may decode a column; what was found is good as long as the file is as it was."""
        stripe = self._decoder.stripe
        # before the content is looked at, so that a change meanwhile shows
        state = self._file.source.identity()
        known = stripe.verdict(of.column, state)
        if known is not None:
            return known
        is_sound = may_decode(stored, stripe, of, self._selection.num_rows, self.decompressor)
        if state is not None:
            stripe.vetted[of.column] = (state, is_sound)
        return is_sound

    def _by_pyarrow(self, columns: Sequence[tuple[int, Projection]]) -> dict[int, pa.Array]:
        wanted = [(column.name, column.of) for _, column in columns]
        try:
            arrays = self._file.dense.read(self._decoder.stripe, wanted, self._selection)
        except OrcError:
            return {}
        return {i: array for (i, _), array in zip(columns, arrays, strict=True)}
