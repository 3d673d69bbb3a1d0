"""The ROWS index type: copies of columns in blocks of few rows.

An ORC file compresses some 256 KiB of a column at once, so that reading one row costs as much as reading
thousands. A ROWS index stores copies of columns together, in blocks of 64 rows. Each block is compressed on its
own with the dictionary of its stripe, so that scattered rows cost a few kilobytes each. The index answers no
conditions: scans read the rows that other indexes find from it.

A block is an Arrow record batch message. `docs/format.md` specifies the file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard
from google.protobuf.message import DecodeError

from hindex.domain import Domain
from hindex.errors import BuildError
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import FileBuilder, whole_number
from hindex.index.index_file import (
    BinarySink,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRefs,
    page_message,
    page_ref,
)
from hindex.index.index_type import (
    Bounds,
    IndexFileSummary,
    Level,
    Operator,
    Property,
    StripeSummary,
)
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.roaring import MAX_ROWS
from hindex.orc.decode.arrow_arrays import fixed_array
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import index_file_pb2 as pb
from hindex.table.type_text import parse_type

Int64s = npt.NDArray[np.int64]

#: The approximate most raw bytes of a block: a block has fewer rows if they are long.
_BLOCK_BYTES = 64 << 10
#: The raw bytes of blocks that are decoded together.
_BYTES_TOGETHER = 64 << 20
#: The greatest raw length of a block, in bytes.
_MAX_BLOCK = (1 << 31) - 1
_LEVEL = 3
#: The bytes of a stripe's dictionary, the number of blocks that it is trained on, and their bytes.
_DICTIONARY_BYTES = 32 << 10
_SAMPLES = 1000
_SAMPLED_BYTES = 4 << 20
#: A stripe with fewer blocks has no dictionary, which would take more bytes than it saves.
_MIN_BLOCKS = 100


class RowsReader:
    """A reader of a ROWS index file. Threads may share it.

    Raises:
        IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        if file.footer.index_type != "ROWS":
            raise file.error(f"it holds a {file.footer.index_type!r} index where ROWS is expected")
        try:
            self.type = parse_type(file.footer.column_type)
            self._stripes = pb.RowsBody.FromString(file.footer.body).stripes
        except (DecodeError, ValueError) as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        if self.type.kind is not Kind.STRUCT or not all(map(_is_supported, self.type.children)):
            raise file.error(f"its columns are of type {self.type}")
        for number, stripe in enumerate(self._stripes):
            if stripe.rows > MAX_ROWS or (stripe.rows and not stripe.block_rows):
                raise file.error(f"the directory of stripe {number} has {stripe.rows} rows")
        names = [str(number) for number in range(len(self.type.children))]
        types = [child.to_arrow() for child in self.type.children]
        # strings need not be UTF-8, which a full validation would check
        self._schema = pa.schema(list(zip(names, map(_strings_as_binary, types), strict=True)))
        self._types = types

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe."""
        return tuple(stripe.rows for stripe in self._stripes)

    def lookup(self, stripe: int, _: Domain) -> Bounds:
        """Return bounds that leave all rows undecided."""
        return Bounds.unknown(self._stripes[stripe].rows)

    def count_blocks(self, stripe: int, rows: Int64s) -> int:
        """Return the number of blocks that contain some of the rows, which are ascending."""
        numbers = rows // self._stripes[stripe].block_rows
        return int(np.count_nonzero(np.diff(numbers))) + 1 if len(rows) else 0

    def block_bytes(self, stripe: int) -> float:
        """Return the mean stored bytes of a stripe's blocks."""
        item = self._stripes[stripe]
        count = -(-item.rows // item.block_rows) if item.rows else 1
        return (item.blocks.offset - item.offset) / count

    def read(self, stripe: int, rows: Int64s, columns: Sequence[int]) -> list[pa.Array]:
        """Read some rows of a stripe, in order.

        Args:
            rows: int64, ascending.
            columns: ordinals of columns, ascending.

        Returns:
            the values of each column.

        Raises:
            IndexFileError: if a block that it needs is corrupt.
            ArrowInvalid: if an array cannot have so many bytes.
        """
        if not len(rows):
            return [pa.array([], self._types[at]) for at in columns]
        item = self._stripes[stripe]
        if int(rows[-1]) >= item.rows:
            raise self.file.error(f"stripe {stripe} has {item.rows} rows, and row {rows[-1]} is read")
        numbers, batch_of_row = np.unique(rows // item.block_rows, return_inverse=True)
        blocks, decompressor = self._directory(stripe)
        encoded = self.file.read_encoded(blocks.refs(numbers))
        # a decoded block has many rows for each one that is read, so only a few blocks are in memory at once
        together = max(1, _BYTES_TOGETHER // max(item.max_block, 1))
        parts: list[list[pa.Array]] = []
        for start in range(0, len(numbers), together):
            batches = []
            for number, data in zip(
                numbers[start : start + together].tolist(), encoded[start:], strict=False
            ):
                count = min(item.block_rows, item.rows - number * item.block_rows)
                batches.append(self._decode(data, decompressor, count))
            first, end = batch_of_row.searchsorted([start, start + len(batches)])
            # all blocks before the last one of the stripe are full
            positions = (batch_of_row[first:end] - start) * item.block_rows + rows[
                first:end
            ] % item.block_rows
            indices = fixed_array(pa.int64(), positions, None)
            # arrays one by one: taking few rows from a table costs ten times as much
            table = pa.Table.from_batches(batches).select(list(columns)).combine_chunks()
            parts.append([column.chunk(0).take(indices) for column in table.columns])
        return [
            pa.concat_arrays(arrays).view(self._types[at])
            for arrays, at in zip(zip(*parts, strict=True), columns, strict=True)
        ]

    def _decode(self, data: bytes, decompressor: _Decompressor, rows: int) -> pa.RecordBatch:
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(decompressor.decompress(data)), self._schema)
            batch.validate(full=True)
        except (zstandard.ZstdError, pa.ArrowException, MemoryError, OSError, EOFError, ValueError) as error:
            raise self.file.error(f"a block of rows cannot be read ({error})") from error
        if batch.num_rows != rows:
            raise self.file.error(f"a block has {batch.num_rows} rows, and {rows} are expected")
        return batch

    def _directory(self, stripe: int) -> tuple[PageRefs, _Decompressor]:
        """Return the blocks of a stripe, and their decompressor."""
        item = self._stripes[stripe]
        count = -(-item.rows // item.block_rows)
        refs = [page_ref(item.blocks), *([page_ref(item.dictionary)] if item.HasField("dictionary") else [])]

        def decode(at: int, page: Page) -> PageRefs | _Decompressor:
            if at:
                return _Decompressor(bytes(page.block(0, max_length=_DICTIONARY_BYTES)), item.max_block)
            lengths, checksums = (
                np.frombuffer(page.block(number, 4 * count), "<u4").tolist() for number in range(2)
            )
            try:
                return PageRefs.of_runs([(item.offset, count)], lengths, checksums)
            except ValueError as error:
                raise page.error(str(error)) from error

        blocks, *others = self.file.decode_pages(refs, decode, lambda _: 24 * count + 2 * _DICTIONARY_BYTES)
        assert isinstance(blocks, PageRefs)
        decompressor = others[0] if others else _Decompressor(b"", item.max_block)
        assert isinstance(decompressor, _Decompressor)
        return blocks, decompressor

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class _Decompressor:
    """A decompressor of blocks with a maximum length. Threads may share it."""

    def __init__(self, dictionary: bytes, max_length: int) -> None:
        self._dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        self._max_length = min(max_length, _MAX_BLOCK)
        self._local = threading.local()

    def decompress(self, data: bytes) -> bytes:
        """Decompress a block.

        Raises:
            ZstdError: if the block is corrupt.
            ValueError: if its header has a length above the maximum.
        """
        length = zstandard.frame_content_size(data)
        if not 0 < length <= self._max_length:
            raise ValueError(f"its frame has {length} bytes in place of at most {self._max_length}")
        context = getattr(self._local, "context", None)
        if context is None:
            context = self._local.context = zstandard.ZstdDecompressor(dict_data=self._dictionary)
        result: bytes = context.decompress(data)
        return result


class RowsBuilder(FileBuilder):
    """A builder of a ROWS index file; see `hindex.index.file_builder.FileBuilder` for the parameters.

    Args:
        data_type: a struct of the columns.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            ROWS, sink, data_type, column=column, properties=properties, metadata=metadata, has_keys=False
        )
        self._block_rows = int(self._properties["rows_per_block"])
        self._body = pb.RowsBody()

    def add_stripe(self, array: pa.Array) -> None:
        """Add the rows of the next stripe, a struct array of the columns.

        Raises:
            BuildError: if the array is of another type.
        """
        array = self._one_array(array)
        self._stripes.append(StripeSummary(ColumnStats(len(array), 0, None, None)))
        item = self._body.stripes.add(rows=len(array))
        if not len(array):
            return
        batch = pa.RecordBatch.from_arrays(
            array.flatten(), [str(number) for number in range(array.type.num_fields)]
        )
        # for a slice, only the bytes of its rows
        mean = batch.nbytes / len(array)
        item.block_rows = max(1, min(self._block_rows, int(_BLOCK_BYTES / max(mean, 1))))
        starts = range(0, len(array), item.block_rows)
        dictionary = self._dictionary(batch, starts, item.block_rows)
        compressor = zstandard.ZstdCompressor(level=_LEVEL, dict_data=dictionary)
        item.offset = self._writer.length
        lengths, checksums = (np.zeros(len(starts), "<u4") for _ in range(2))
        for number, start in enumerate(starts):
            raw = _message(batch, start, item.block_rows)
            if len(raw) > _MAX_BLOCK:
                raise BuildError(
                    f"the {item.block_rows} rows from row {start} on have {len(raw):,} bytes in {self._column}, and "
                    f"a block has {_MAX_BLOCK:,} at most: leave out a column, or set rows_per_block to 1"
                )
            item.max_block = max(item.max_block, len(raw))
            block = compressor.compress(raw)
            lengths[number], checksums[number] = len(block), google_crc32c.value(block)
            self._writer.append_bytes(block)
        item.blocks.CopyFrom(page_message(self._writer.write_page([lengths.tobytes(), checksums.tobytes()])))
        if dictionary is not None:
            page = self._writer.write_page([dictionary.as_bytes()], compress=False)
            item.dictionary.CopyFrom(page_message(page))

    def _dictionary(
        self, batch: pa.RecordBatch, starts: range, block_rows: int
    ) -> zstandard.ZstdCompressionDict | None:
        if len(starts) < _MIN_BLOCKS:
            return None
        samples: list[bytes | bytearray | memoryview[int]] = []
        size = 0
        for start in starts[:: max(1, len(starts) // _SAMPLES)]:
            samples.append(_message(batch, start, block_rows))
            size += len(samples[-1])
            if size > _SAMPLED_BYTES:
                break
        try:
            # without k and d, a search for the best values takes five times as long, and results in these
            dictionary = zstandard.train_dictionary(_DICTIONARY_BYTES, samples, k=1024, d=8, level=_LEVEL)
        except zstandard.ZstdError:
            # the samples have too little in common
            return None
        dictionary.precompute_compress(level=_LEVEL)
        return dictionary

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        return self._finish(self._body.SerializeToString(deterministic=True))


class _Rows:
    """The ROWS index type."""

    name = "ROWS"
    order = 0
    levels = frozenset({Level.STRIPE})
    operators: frozenset[Operator] = frozenset()
    summarizes = False
    properties = (
        Property("rows_per_block", "64", lambda text: whole_number(text, 4096), "rows of a block, at most"),
    )

    def supports(self, data_type: OrcType) -> bool:
        """Return True for a struct of columns that can be included."""
        return data_type.kind is Kind.STRUCT and all(map(_is_supported, data_type.children))

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> RowsBuilder:
        return RowsBuilder(sink, data_type, properties, column=column, metadata=metadata)

    def reader(self, file: IndexFileReader) -> RowsReader:
        return RowsReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        """Implement `hindex.index.merge.MergingType`."""
        joined = pb.RowsBody()
        for part in parts:
            body = directory(part, pb.RowsBody)
            shift = copy_pages(writer, part)
            move_pages(body.stripes, ("blocks", "dictionary"), shift)
            for stripe in body.stripes:
                stripe.offset += shift if stripe.rows else 0
            joined.stripes.extend(body.stripes)
        return joined.SerializeToString(deterministic=True)


ROWS = _Rows()


def _is_supported(data_type: OrcType) -> bool:
    return all(node.kind is not Kind.UNION for node in data_type.walk())


def _message(batch: pa.RecordBatch, start: int, rows: int) -> bytes:
    message: bytes = batch.slice(start, rows).serialize().to_pybytes()
    return message


def _strings_as_binary(data_type: pa.DataType) -> pa.DataType:
    """Return a type of the same layout, with binary in place of strings."""
    if pa.types.is_string(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_strings_as_binary(field.type)) for field in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_strings_as_binary(data_type.value_type)))
    if pa.types.is_map(data_type):
        return pa.map_(
            _strings_as_binary(data_type.key_type),
            data_type.item_field.with_type(_strings_as_binary(data_type.item_type)),
        )
    return data_type
