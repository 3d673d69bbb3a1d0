"""Read the selected rows of a stripe, column by column.

A column is decoded in windows of row groups, which limits the memory in addition to the result. If all rows are
selected, a stream is read from its first value on; otherwise row groups are skipped by the row index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.decode.columns import ColumnDecoder, ValueSelection
from hindex.orc.decode.positions import RowIndexPositions, has_present, parse_positions, stream_layout
from hindex.orc.decode.streams import IndexedReader, SequentialReader, StoredStream, StreamReader
from hindex.orc.io.metrics import CountedSource, ReadCounts
from hindex.orc.io.source import Range
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.projection import Projection, cpp_null_parents
from hindex.orc.metadata.stripe import (
    DATA_KINDS,
    StreamKind,
    Stripe,
    read_row_indexes,
    read_stripe_footer,
)
from hindex.orc.reader.file_cache import CachedFile
from hindex.orc.reader.row_selection import RowSelection

Ints = npt.NDArray[np.int64]

#: The approximate decompressed bytes of a column to decode at once. Reading 1,782 random rows of 12 million of
#: lineitem decompresses 2 % more chunks in windows of 8 MiB, and a fifth more in windows of 2 MiB.
WINDOW_BYTES = 32 << 20

#: The assumed compression ratio.
_COMPRESSION_RATIO = 4

#: The compressed bytes of a remote file that are fetched together.
_FETCH_BYTES = 32 << 20

#: The most rows of a row group if all rows are read, which needs no row index.
_STRIDE = 10_000

#: The most selected rows to decode at once: a column with few bytes may have many rows and long values.
_WINDOW_ROWS = 1 << 20

#: The stored bytes of a column that are decoded before their memory is released.
_RELEASE_BYTES = 1 << 20

#: The most rows of a stripe, so that they can be numbered in 32 bits.
_MAX_ROWS = (1 << 31) - 1

#: The most row groups of a stripe; a corrupt file may claim any number of rows.
MAX_GROUPS = 1 << 20

#: The consecutive parts of a column.
ArrayChunks = list[pa.Array]


@dataclass(slots=True, eq=False)
class FileContext:
    """An open file, shared by all reads of its stripes.

    ``timezone`` is the reader's time zone, see `hindex.orc.OrcReader`.
    """

    source: CountedSource
    metadata: CachedFile
    counts: ReadCounts
    timezone: str | None = None

    @property
    def tail(self) -> FileTail:
        return self.metadata.tail

    def stripe(self, index: int) -> Stripe:
        """Return a stripe's footer, which is read at its first use."""
        stripe = self.metadata.stripes.get(index)
        if stripe is None:
            decompressor = self.tail.decompressor()
            stripe = self.metadata.stripes[index] = read_stripe_footer(
                self.source, self.tail, index, decompressor
            )
            self.counts.add_decompressor(decompressor)
        return stripe


class StripeReader:
    """A reader of the selected rows of some columns of one stripe.

    Raises:
        OrcError: if the stripe cannot be read.
    """

    def __init__(
        self, file: FileContext, index: int, columns: Sequence[Projection], selection: RowSelection
    ) -> None:
        self.file = file
        self.index = index
        self.selection = selection
        self.stripe = file.stripe(index)
        try:
            _check_readable(file.tail, self.stripe, columns, selection)
        except OrcError as error:
            raise error.at(path=file.tail.path, stripe=index) from error
        stride = file.tail.row_index_stride
        is_usable = stride > 0 and selection.num_rows <= stride * MAX_GROUPS
        if selection.is_all and not (is_usable and stride <= _STRIDE):
            stride, is_usable = _STRIDE, True
        self.stride = stride if is_usable else max(selection.num_rows, 1)
        #: The row groups that have selected rows, and the offset of each one's rows in the selected rows.
        self.groups, self.offsets = selection.groups(self.stride)
        self._columns = columns

    @property
    def group_count(self) -> int:
        """The number of row groups of the stripe."""
        return -(-self.selection.num_rows // self.stride)

    def windows(self, size: int, max_bytes: int, max_rows: int) -> list[tuple[int, int]]:
        """Split the row groups with selected rows into ranges to decode at once.

        A single row group may exceed the limits.

        Args:
            size: the decompressed bytes of all row groups of the stripe.
            max_bytes: the approximate most bytes of a range.
            max_rows: the most selected rows of a range; four times as many if all rows are selected.
        """
        each = max(1, min(max_bytes * self.group_count // max(size, 1), 4 * max_rows // self.stride))
        rows = np.diff(self.offsets).tolist()
        return [
            (begin + first, begin + last)
            for begin in range(0, len(rows), each)
            for first, last in split_by_budget(rows[begin : begin + each], max_rows)
        ]

    def exceeds(self, max_rows: int) -> bool:
        """Return True if the stripe has too many rows for a single window."""
        return len(self.selection) > max_rows or self.selection.num_rows > 4 * max_rows

    def readers(self) -> list[ColumnReader]:
        """Make the readers of the columns."""
        return [ColumnReader(self, column) for column in self._columns]

    def read(self) -> list[ArrayChunks]:
        """Decode all columns one by one; in a remote file, fetch their bytes together."""
        parts, columns = [], self.readers()
        for begin, end in split_by_budget([column.stored_bytes for column in columns], _FETCH_BYTES):
            self._prefetch(columns[begin:end])
            parts += [column.read() for column in columns[begin:end]]
        return parts

    def iter_batches(self, max_bytes: int, max_rows: int) -> Iterator[list[pa.Array]]:
        """Decode all columns for some row groups at a time.

        Args:
            max_bytes: the approximate most decompressed bytes of a batch.
            max_rows: the most rows of a batch, unless it is one row group.
        """
        columns = self.readers()
        size = sum(column.content_bytes for column in columns)
        if size > max_bytes or self.exceeds(max_rows):
            # a small column without a row index would prevent windows; some have no bytes at all
            for column in columns:
                column.window_bytes = -1
        self._prefetch(columns)
        for column in columns:
            column.open()
        windows = [(0, len(self.groups))]
        if all(column.has_windows for column in columns):
            windows = self.windows(size, max_bytes, max_rows)
        for begin, end in windows:
            arrays = [column.decode(begin, end) for column in columns]
            yield arrays
            del arrays
        for column in columns:
            column.close()

    def bytes_to_read(self) -> int:
        """Return the stored bytes of the row groups with selected rows; the ends of some chunks are guessed."""
        if not len(self.groups):
            return 0
        if self.selection.is_all:
            nodes = {node.column for column in self._columns for node in column.nodes()}
            return sum(map(self.stripe.data_length, nodes))
        columns = self.readers()
        try:
            self._read_needed_row_indexes(columns)
            ranges = [item for column in columns for _, item in column.ranges()]
        except OrcError as error:
            raise error.at(path=self.file.tail.path, stripe=self.index) from error
        total, covered = 0, 0
        for begin, end in sorted((offset, offset + length) for offset, length in ranges):
            total += max(end - max(begin, covered), 0)
            covered = max(covered, end)
        return total

    def _read_needed_row_indexes(self, columns: Sequence[ColumnReader]) -> None:
        self.read_row_indexes(
            {number for column in columns if column.needs_row_index for number in column.layouts}
        )

    def read_row_indexes(self, columns: Iterable[int]) -> None:
        decompressor = self.file.tail.decompressor()
        read_row_indexes(self.file.source, self.stripe, columns, decompressor)
        self.file.counts.add_decompressor(decompressor)

    def _prefetch(self, columns: Sequence[ColumnReader]) -> None:
        """Fetch the bytes of columns of a remote file together."""
        if not self.file.source.is_remote or not len(self.groups):
            return
        try:
            self._read_needed_row_indexes(columns)
            plan = [item for column in columns for item in column.ranges()]
            views = self.file.source.read([item for _, item in plan]) if plan else []
        except OrcError as error:
            raise error.at(path=self.file.tail.path, stripe=self.index) from error
        for (stored, (offset, length)), view in zip(plan, views, strict=True):
            # ranges of a stream may overlap because their ends are guessed
            for at, size in stored.missing(offset - stored.offset, offset - stored.offset + length):
                stored.put(at, view[at - offset : at - offset + size])


class ColumnReader:
    """A reader of one column at the selected rows of a stripe. Only one thread at a time may use it."""

    def __init__(self, stripe: StripeReader, column: Projection) -> None:
        self._stripe = stripe
        self._column = column
        self._file = stripe.file
        self._nodes = {node.column: node for node in column.nodes()}
        self._decompressor = self._file.tail.decompressor()
        self._streams: dict[tuple[int, StreamKind], StoredStream] = {}
        self._readers: dict[tuple[int, StreamKind], StreamReader] = {}
        self._positions: dict[int, RowIndexPositions] | None = None
        self._decoder: ColumnDecoder | None = None
        self._released = 0
        footer = stripe.stripe
        #: A column with more decompressed bytes than this is decoded in windows, by the row index.
        self.window_bytes = WINDOW_BYTES
        #: The stored bytes of the column's streams, and the approximate decompressed bytes.
        self.stored_bytes = sum(footer.data_length(number) for number in self._nodes)
        self.content_bytes = self.stored_bytes * (1 if self._file.tail.codec is None else _COMPRESSION_RATIO)
        #: The streams of each node that have an entry in its row index, without PRESENT.
        self.layouts = {
            number: layout
            for number, node in self._nodes.items()
            if (layout := stream_layout(node, footer.encodings[number], self._file.tail.version))
            or has_present(footer, number)
        }

    @property
    def is_sequential(self) -> bool:
        """True if all rows are read, so that the row index is not needed."""
        return self._stripe.selection.is_all

    @property
    def needs_row_index(self) -> bool:
        stripe = self._stripe
        if self.is_sequential or stripe.stride >= stripe.selection.num_rows or self._is_misplaced():
            return False
        is_large = self.content_bytes > self.window_bytes or stripe.exceeds(_WINDOW_ROWS)
        return is_large or len(stripe.groups) < stripe.group_count

    @property
    def has_windows(self) -> bool:
        """True if the column can be decoded for some row groups at a time."""
        return self.is_sequential or self._positions is not None

    def read(self) -> ArrayChunks:
        """Decode the column at all selected rows."""
        self.open()
        windows = [(0, len(self._stripe.groups))]
        if self.has_windows:
            windows = self._stripe.windows(self.content_bytes, WINDOW_BYTES, _WINDOW_ROWS)
        parts = [self.decode(begin, end) for begin, end in windows]
        self.close()
        return parts

    def decode(self, begin: int, end: int) -> pa.Array:
        """Decode the column at the rows of a range of row groups with selected rows.

        Raises:
            OrcError: if the file is corrupt there.
        """
        assert self._decoder is not None
        selection = self._select(begin, end)
        try:
            array = self._decoder.decode(self._column.data_type, self._column.parents, selection)
        except OrcError as error:
            raise error.at(
                path=self._file.tail.path, stripe=self._stripe.index, column=self._column.name
            ) from error
        if self._positions is not None:
            self._file.counts.add(row_groups=end - begin)
        if self._decompressor.bytes_in - self._released > _RELEASE_BYTES:
            # otherwise the stored bytes of all columns stay in memory until the stripe is done
            self._released = self._decompressor.bytes_in
            for stored in self._streams.values():
                stored.release()
        return array

    def open(self) -> None:
        if self._decoder is not None:
            return
        try:
            self._positions = self._find_positions() if self.needs_row_index else None
        except OrcError as error:
            raise error.at(
                path=self._file.tail.path, stripe=self._stripe.index, column=self._column.name
            ) from error
        self._decoder = ColumnDecoder(self._file.tail, self._stripe.stripe, self._reader, self._file.timezone)

    def close(self) -> None:
        """Count the work and free the memory."""
        self._file.counts.add_decompressor(self._decompressor)
        if self._positions is None:
            self._file.counts.add(whole_columns=1)
        self._decoder = None
        self._streams.clear()
        self._readers.clear()

    def ranges(self) -> Iterator[tuple[StoredStream, Range]]:
        """Yield the byte ranges of the selected row groups."""
        self.open()
        selection = self._select(0, len(self._stripe.groups))
        for key in product(self._nodes, DATA_KINDS):
            if key not in self._stripe.stripe.streams:
                continue
            try:
                ranges = self._reader(*key).ranges(selection.begins, selection.ends)
            except OrcError as error:
                raise error.at(column=self._column.name, stream=key[1].name) from error
            for item in ranges:
                yield self._streams[key], item

    def _select(self, begin: int, end: int) -> ValueSelection:
        """Select the rows of a range of row groups with selected rows."""
        stripe = self._stripe
        first, last = int(stripe.offsets[begin]), int(stripe.offsets[end])
        rows = stripe.selection.wanted
        if rows is None and self._positions is None:
            # segments of sequential streams are ranges of rows
            return ValueSelection(np.array([first]), np.array([last]), np.array([0, last - first]), None)
        if self._positions is None:
            return ValueSelection(_ZERO, _ONE, np.array([0, last]), rows)
        groups = stripe.groups[begin:end]
        firsts = groups * stripe.stride
        num_rows = np.minimum(firsts + stripe.stride, stripe.selection.num_rows) - firsts
        if last - first == int(num_rows.sum()):
            starts = np.append(0, np.flatnonzero(groups[1:] - groups[:-1] != 1) + 1)
            ends = groups[np.append(starts[1:], len(groups)) - 1] + 1
            return ValueSelection(
                groups[starts], ends, np.append(stripe.offsets[begin + starts], last) - first, None
            )
        assert rows is not None
        # one segment per row group, so that each is decoded only up to its last selected row
        bounds = stripe.offsets[begin : end + 1] - first
        positions = rows[first:last] - firsts.repeat(bounds[1:] - bounds[:-1])
        return ValueSelection(groups, groups + 1, bounds, positions)

    def _reader(self, number: int, kind: StreamKind) -> StreamReader:
        reader = self._readers.get((number, kind))
        if reader is None:
            source, footer = self._file.source, self._stripe.stripe
            stored = self._streams[number, kind] = StoredStream(source, footer.streams.get((number, kind)))
            is_of_rows = kind == StreamKind.PRESENT or any(
                kind == item for item, _ in self.layouts.get(number, ())
            )
            if self.is_sequential and is_of_rows:
                reader = SequentialReader(stored, self._decompressor, self._stripe.selection.num_rows)
            else:
                table = (self._positions or {}).get(number, {})
                reader = IndexedReader(stored, self._decompressor, table.get(kind), kind)
            self._readers[number, kind] = reader
        return reader

    def _find_positions(self) -> dict[int, RowIndexPositions] | None:
        """Return the row indexes of the column's nodes, or None if they are unusable."""
        stripe, cache = self._stripe, self._file.metadata.positions
        stripe.read_row_indexes(self.layouts)
        positions = {}
        for number, layout in self.layouts.items():
            key = (stripe.index, number)
            if key not in cache:
                entries = stripe.stripe.row_entries.get(number, ())
                cache[key] = (
                    parse_positions(
                        layout,
                        [entry.positions for entry in entries],
                        is_compressed=self._file.tail.codec is not None,
                        has_present=has_present(stripe.stripe, number),
                    )
                    if len(entries) == stripe.group_count
                    else None
                )
            table = cache[key]
            if table is None:
                return None
            positions[number] = table
        return positions

    def _is_misplaced(self) -> bool:
        """Return True if row indexes may not fit the values; see `hindex.orc.metadata.projection`."""
        if self._file.tail.is_by_java:
            return False
        return any(has_present(self._stripe.stripe, node.column) for node in cpp_null_parents(self._column))


def _check_readable(
    tail: FileTail, stripe: Stripe, columns: Sequence[Projection], selection: RowSelection
) -> None:
    encrypted = tail.encrypted_columns
    for column in columns:
        if encrypted and any(node.column in encrypted for node in column.data_type.walk()):
            raise OrcError(
                "the column is encrypted and there is no key for it: leave it out", column=column.name
            )
    if selection.num_rows > _MAX_ROWS:
        raise OrcError(f"the stripe claims {selection.num_rows} rows, more than a stripe can have")
    count = len(stripe.encodings)
    if any(node.column >= count for column in columns for node in column.nodes()):
        raise OrcError(f"the stripe footer has only {count} column encodings")


def split_by_budget(sizes: Sequence[int], budget: int) -> list[tuple[int, int]]:
    """Split a sequence into ranges with a total size within a budget; a larger item is a range of its own."""
    ranges: list[tuple[int, int]] = []
    begin, total = 0, 0
    for index, size in enumerate(sizes):
        if index > begin and total + size > budget:
            ranges.append((begin, index))
            begin, total = index, 0
        total += size
    if begin < len(sizes):
        ranges.append((begin, len(sizes)))
    return ranges


_ZERO, _ONE = np.zeros(1, np.int64), np.ones(1, np.int64)
