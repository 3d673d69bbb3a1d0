"""The reader: columns and rows of an ORC file, as Arrow.

>>> from hindex.orc import OrcReader
>>> reader = OrcReader("users.orc")                       # doctest: +SKIP
>>> reader.read(columns=["id", "name"], rows=[3, 70_000])  # doctest: +SKIP
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from hindex.errors import ColumnError, OrcError
from hindex.orc.columns.context import ColumnContext
from hindex.orc.columns.layout import deal_positions, has_present, run_streams, stream_layout
from hindex.orc.columns.primitive import read_primitive
from hindex.orc.columns.whole import WholeColumns
from hindex.orc.compression import Decompressor
from hindex.orc.cost import FEW_GROUPS, DecodePath, Work, dense_cost, sparse_cost
from hindex.orc.counts import ReadCounts
from hindex.orc.dense import DenseReader
from hindex.orc.density import runs_per_value
from hindex.orc.selection import GroupedRows, RowSelection, as_rows
from hindex.orc.source import ByteSource, open_source
from hindex.orc.streams import Fetched, Places, fetch_ranges
from hindex.orc.stripe import StreamKind, Stripe, read_row_indexes, read_stripe_footer
from hindex.orc.tail import FileTail, StripeInformation, read_tail
from hindex.orc.types import OrcType

Rows = BitMap | BitMap64 | np.ndarray[Any, Any] | Iterable[int] | Mapping[int, BitMap | Iterable[int]]


class OrcReader:
    """Reads the rows and columns that are asked for, and counts what that took.

    :param source: a local path, a URI that pyarrow knows, or a :class:`~hindex.orc.source.ByteSource`.
    :param path: force one way of decoding flat columns instead of the cheaper one.
    :raises OrcError: if the file is not a readable ORC file.

    A reader may be shared between threads.
    """

    def __init__(
        self, source: str | os.PathLike[str] | ByteSource, *, path: DecodePath | None = None
    ) -> None:
        self._source = open_source(source) if isinstance(source, str | os.PathLike) else source
        self.tail: FileTail = read_tail(self._source)
        self.counts = ReadCounts()
        self._path = path
        self._dense = DenseReader(self._source, self.tail)
        self._stripes: dict[int, Stripe] = {}

    def __enter__(self) -> OrcReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._source.close()

    @property
    def path(self) -> str:
        return self.tail.path

    @property
    def num_rows(self) -> int:
        return self.tail.num_rows

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        return self.tail.stripes

    @property
    def names(self) -> tuple[str, ...]:
        """The top-level columns' names."""
        return self.tail.schema.field_names

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of all columns."""
        return self._schema(self._resolve(None))

    def column_type(self, name: str) -> OrcType:
        """The type of a column, by its exact name or, within structs, its dotted path.

        :raises ColumnError: if there is no such column.
        """
        names = self.tail.schema.field_names
        if name in names:
            return self.tail.schema.children[names.index(name)]
        node, rest = self.tail.schema, name.split(".")
        for part in rest:
            if part not in node.field_names:
                raise ColumnError(
                    f"Column {name!r} cannot be resolved in {self.path}: its columns are {', '.join(names)}"
                )
            node = node.children[node.field_names.index(part)]
        return node

    def read(
        self, columns: Sequence[str] | None = None, rows: Rows | None = None, *, threads: int | None = None
    ) -> pa.Table:
        """Rows of the file, in their order.

        :param columns: names, or dotted paths within structs; all top-level columns if None.
        :param rows: row numbers in the file counted from 0, as a bitmap or any integers, or a mapping from
            stripe to row numbers in that stripe; all rows if None.
        :param threads: how many stripes are decoded at once; the number of processors if None.
        :raises ColumnError: for an unknown column.
        :raises ValueError: for rows outside the file.
        """
        wanted = self._resolve(columns)
        selections = [
            (stripe, selection) for stripe, selection in enumerate(self.select(rows)) if len(selection)
        ]
        schema = self._schema(wanted)
        if not selections:
            return schema.empty_table()
        workers = min(threads or os.cpu_count() or 1, len(selections))
        if workers == 1:
            batches = [self._read_stripe(s, wanted, selection) for s, selection in selections]
        else:
            with ThreadPoolExecutor(workers) as pool:
                batches = list(pool.map(lambda item: self._read_stripe(item[0], wanted, item[1]), selections))
        return pa.Table.from_batches(batches, schema)

    def batches(
        self, columns: Sequence[str] | None = None, rows: Rows | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same rows as :meth:`read`, a stripe at a time."""
        wanted = self._resolve(columns)
        for stripe, selection in enumerate(self.select(rows)):
            if len(selection):
                yield self._read_stripe(stripe, wanted, selection)

    def read_stripe(
        self, stripe: int, columns: Sequence[str] | None = None, rows: Rows | RowSelection | None = None
    ) -> pa.RecordBatch:
        """Rows of one stripe, numbered within it; all if None."""
        count = self.tail.stripes[stripe].num_rows
        if not isinstance(rows, RowSelection):
            rows = RowSelection(count) if rows is None else RowSelection.of(rows, count)
        return self._read_stripe(stripe, self._resolve(columns), rows)

    def decode_paths(
        self, stripe: int, columns: Sequence[str], selection: RowSelection
    ) -> tuple[DecodePath, ...]:
        """How each column of a selection of one stripe would be decoded."""
        task = _StripeRead(self, stripe, selection)
        groups = selection.groups(self.tail.row_index_stride)
        return tuple(task.choose(name, of, groups) for name, of in self._resolve(columns))

    def select(self, rows: Rows | None) -> list[RowSelection]:
        """A selection of rows of the file, stripe by stripe."""
        counts = [stripe.num_rows for stripe in self.tail.stripes]
        if rows is None:
            return [RowSelection(count) for count in counts]
        if isinstance(rows, Mapping):
            unknown = [stripe for stripe in rows if not 0 <= stripe < len(counts)]
            if unknown:
                raise ValueError(f"stripe {unknown[0]} is outside the file's {len(counts)} stripes")
            return [RowSelection.of(rows.get(i, ()), count) for i, count in enumerate(counts)]
        found = as_rows(rows)
        if len(found) and (found[0] < 0 or found[-1] >= self.num_rows):
            outside = found[0] if found[0] < 0 else found[-1]
            raise ValueError(f"row {outside} is outside the file's {self.num_rows} rows")
        firsts = np.array([stripe.first_row for stripe in self.tail.stripes] + [self.num_rows], np.int64)
        cuts = np.searchsorted(found, firsts)
        return [
            RowSelection.of(found[cuts[i] : cuts[i + 1]] - firsts[i], count) for i, count in enumerate(counts)
        ]

    def _resolve(self, columns: Sequence[str] | None) -> list[tuple[str, OrcType]]:
        if columns is None:
            return list(zip(self.tail.schema.field_names, self.tail.schema.children, strict=True))
        return [(name, self.column_type(name)) for name in columns]

    def _schema(self, columns: Sequence[tuple[str, OrcType]]) -> pa.Schema:
        return pa.schema([pa.field(name, of.to_arrow()) for name, of in columns])

    def _stripe(self, index: int, decompressor: Decompressor) -> Stripe:
        found = self._stripes.get(index)
        if found is None:
            found = self._stripes[index] = read_stripe_footer(self._source, self.tail, index, decompressor)
            self.counts.add(ranges=1, bytes_fetched=found.information.footer_length)
        return found

    def _read_stripe(
        self, index: int, columns: Sequence[tuple[str, OrcType]], selection: RowSelection
    ) -> pa.RecordBatch:
        task = _StripeRead(self, index, selection)
        try:
            arrays = task.run(columns)
        except OrcError as error:
            raise error.at(path=self.path, stripe=index) from error
        finally:
            self.counts.add_decompressor(task.decompressor)
        if not columns:
            return _no_columns(len(selection))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema(columns))


class _StripeRead:
    """One read of one stripe: choose a path for each column, fetch together, decode."""

    def __init__(self, reader: OrcReader, index: int, selection: RowSelection) -> None:
        self._reader = reader
        self._index = index
        self._selection = selection
        self.decompressor = reader.tail.decompressor()
        self._fetched: dict[tuple[int, StreamKind], Fetched] = {}

    def run(self, columns: Sequence[tuple[str, OrcType]]) -> list[pa.Array]:
        reader, tail, selection = self._reader, self._reader.tail, self._selection
        for name, of in columns:
            if tail.encrypted_columns and any(c.column in tail.encrypted_columns for c in of.walk()):
                raise OrcError(
                    "the column is encrypted and there is no key for it: leave it out", column=name
                )
        if not len(selection) or not columns:
            return [pa.nulls(0, of.to_arrow()) for _, of in columns]
        groups = selection.groups(tail.row_index_stride)
        paths = [self.choose(name, of, groups) for name, of in columns]
        found: list[pa.Array | None] = [None] * len(columns)
        dense = [i for i, path in enumerate(paths) if path is DecodePath.DENSE]
        if dense:
            arrays = reader._dense.read(self._index, [columns[i] for i in dense], selection)
            for i, array in zip(dense, arrays, strict=True):
                found[i] = array
            stripe = tail.stripes[self._index]
            reader.counts.add(dense_columns=len(dense), dense_rows=stripe.num_rows * len(dense))
        own = [i for i, path in enumerate(paths) if path is not DecodePath.DENSE]
        if own:
            self._decode([(i, *columns[i], paths[i]) for i in own], groups, found)
        return [array for array in found if array is not None]

    def choose(self, name: str, of: OrcType, groups: GroupedRows) -> DecodePath:
        reader = self._reader
        if not of.is_primitive:
            return DecodePath.WHOLE
        if reader._path is not None:
            can_do = reader._path is not DecodePath.DENSE or reader._dense.can_read(name)
            return reader._path if can_do else DecodePath.SPARSE
        if self._selection.is_all:
            return DecodePath.DENSE if reader._dense.can_read(name) else DecodePath.WHOLE
        if len(groups.ids) < FEW_GROUPS or not reader._dense.can_read(name):
            return DecodePath.SPARSE
        stripe = reader._stripe(self._index, self.decompressor)
        rows, stride = self._selection.num_rows, reader.tail.row_index_stride
        work = Work(
            groups=len(groups.ids),
            all_groups=-(-rows // stride) if stride else 1,
            rows=len(self._selection),
            stripe_rows=rows,
            stream_bytes=stripe.data_length(of.column),
            runs_per_value=runs_per_value(
                reader._source,
                stripe,
                of.column,
                run_streams(of, stripe.encodings[of.column], reader.tail.version),
                self.decompressor,
            ),
        )
        is_dictionary = stripe.encodings[of.column].is_dictionary
        sparse = sparse_cost(of, work, is_dictionary=is_dictionary)
        dense = dense_cost(of, rows, is_dictionary=is_dictionary)
        return DecodePath.SPARSE if sparse < dense else DecodePath.DENSE

    def _decode(
        self,
        columns: list[tuple[int, str, OrcType, DecodePath]],
        groups: GroupedRows,
        found: list[pa.Array | None],
    ) -> None:
        reader, selection = self._reader, self._selection
        stripe = reader._stripe(self._index, self.decompressor)
        if any(c.column >= len(stripe.encodings) for _, _, of, _ in columns for c in of.walk()):
            raise OrcError("the stripe footer has too few column encodings")
        sparse = [of.column for _, _, of, path in columns if path is DecodePath.SPARSE]
        if not selection.is_all:
            read_row_indexes(reader._source, stripe, sparse, self.decompressor)
        places: dict[int, dict[StreamKind, Places]] = {}
        for _, _, of, path in columns:
            if path is DecodePath.SPARSE:
                dealt = self._positions(of, groups)
                if dealt is not None:
                    places[of.column] = dealt
        self._fetch([of for _, _, of, _ in columns], places)
        rows_left = selection.num_rows - groups.ids * (reader.tail.row_index_stride or selection.num_rows)
        group_rows = np.minimum(rows_left, reader.tail.row_index_stride or selection.num_rows)
        for i, name, of, _ in columns:
            try:
                if of.column in places:
                    context = ColumnContext(
                        of,
                        stripe.encodings[of.column],
                        groups,
                        group_rows,
                        places[of.column],
                        self._streams(of.column),
                        self.decompressor,
                        dictionary_size=stripe.dictionary_sizes[of.column],
                    )
                    found[i] = read_primitive(context, reader.tail, stripe)
                    reader.counts.add(row_groups=len(groups.ids))
                else:
                    array = WholeColumns(reader.tail, stripe, self.decompressor, self._streams).read(
                        of, selection.num_rows
                    )
                    found[i] = array if selection.is_all else array.take(selection.to_indices())
                    reader.counts.add(whole_columns=1)
            except OrcError as error:
                raise error.at(column=name) from error

    def _positions(self, of: OrcType, groups: GroupedRows) -> dict[StreamKind, Places] | None:
        """Positions of the touched row groups; None to decode the column whole."""
        tail = self._reader.tail
        if self._selection.is_all:
            return None
        stripe = self._reader._stripe(self._index, self.decompressor)
        entries = stripe.positions.get(of.column)
        if not tail.row_index_stride or entries is None:
            return None
        expected = -(-self._selection.num_rows // tail.row_index_stride)
        if len(entries) != expected:
            return None
        return deal_positions(
            stream_layout(of, stripe.encodings[of.column], tail.version),
            entries,
            groups.ids.tolist(),
            compressed=tail.codec is not None,
            has_present=has_present(stripe, of.column),
        )

    def _fetch(self, types: Sequence[OrcType], places: Mapping[int, Mapping[StreamKind, Places]]) -> None:
        """Plan the ranges of all columns' streams, fetch them together."""
        stripe = self._reader._stripe(self._index, self.decompressor)
        plan = []
        for of in types:
            for column in [c.column for c in of.walk()]:
                known = places.get(column, {})
                for (number, kind), stream in stripe.streams.items():
                    if number != column or kind >= StreamKind.ROW_INDEX:
                        continue
                    ranges = [(0, stream.length)]
                    if kind in known:
                        ranges = fetch_ranges(stream, known[kind], self.decompressor)
                    plan.append((stream, ranges))
        views = self._reader._source.read(
            [(stream.offset + offset, length) for stream, ranges in plan for offset, length in ranges]
        )
        at = 0
        for stream, ranges in plan:
            self._fetched[stream.column, stream.kind] = Fetched(
                stream.length, [offset for offset, _ in ranges], views[at : at + len(ranges)]
            )
            at += len(ranges)
        self._reader.counts.add(ranges=len(views), bytes_fetched=sum(map(len, views)))

    def _streams(self, column: int) -> dict[StreamKind, Fetched]:
        return {kind: fetched for (number, kind), fetched in self._fetched.items() if number == column}


def _no_columns(rows: int) -> pa.RecordBatch:
    """A batch without columns that still knows its number of rows."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None], children=[]))
