"""The MINMAX index type: the least and greatest key of every row group and stripe, and their null rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from hindex.errors import BuildError
from hindex.index import byte_shuffle
from hindex.index.column_stats import ColumnStats, around
from hindex.index.file_builder import FileBuilder, page_message
from hindex.index.index_file import BinarySink, Buffer, IndexFileReader, IndexFileWriter
from hindex.index.index_type import IndexFileSummary, Level, Operator, StripeSummary, mean_key_bytes
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.minmax_reader import GROUP_HEADER, MinMaxReader
from hindex.index.roaring import group_count
from hindex.keys import array_keys, key_ends, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb

#: Bytes of a key that the file keeps: longer ones become safe bounds.
LONG_KEY = 1024


class MinMaxBuilder(FileBuilder):
    """Writes a MINMAX index file; see :class:`~hindex.index.file_builder.FileBuilder` for the other parameters.

    :param row_group_rows: rows of the data file's row groups; 0 where it has none.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> None:
        super().__init__(MINMAX, sink, data_type, column=column, properties=properties, metadata=metadata)
        self._group_rows = row_group_rows
        self._body = pb.MinMaxBody(row_group_rows=row_group_rows)

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type's ``to_arrow()``.

        :raises BuildError: if the array is of another type.
        """
        array = self._one_array(array)
        size = self._group_rows or max(len(array), 1)
        self.add_extents(
            len(array),
            [array_extent(self._type, array.slice(at, size)) for at in range(0, len(array), size)],
        )

    def add_extents(self, rows: int, groups: Sequence[ColumnStats]) -> None:
        """Index the next stripe, of which the extents of its row groups are known.

        :raises BuildError: if they are not those of the stripe's row groups.
        """
        if len(groups) != group_count(self._group_rows, rows) or sum(item.rows for item in groups) != rows:
            raise BuildError(
                f"extents of {len(groups)} row groups do not describe a stripe of {rows} rows in groups of "
                f"{self._group_rows}"
            )
        whole = around(groups)
        stripe = self._body.stripes.add(rows=rows, extent=_message(whole.cut(LONG_KEY)))
        if len(groups) > 1:
            page = self._writer.write_page(_blocks([item.cut(LONG_KEY) for item in groups]))
            stripe.groups.CopyFrom(page_message(page))
        self._stripes.append(StripeSummary(whole))

    def finish(self) -> IndexFileSummary:
        """Write the footer; an own file is made durable and closed."""
        return self._finish(self._body.SerializeToString(deterministic=True))


class MinMaxIndex:
    """The MINMAX type, as :class:`~hindex.index.index_type.FileIndexType` describes it."""

    name = "MINMAX"
    order = 10
    levels = frozenset({Level.STRIPE})
    operators = frozenset(Operator)
    summarizes = True
    properties = ()

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

    def estimate_bytes(self, data_type: OrcType, rows: int, distinct: int) -> int:
        return 120 + (rows // 10_000 + 1) * 2 * (mean_key_bytes(data_type) + 2)

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> MinMaxBuilder:
        return MinMaxBuilder(
            sink, data_type, properties, column=column, metadata=metadata, row_group_rows=row_group_rows
        )

    def reader(self, file: IndexFileReader) -> MinMaxReader:
        return MinMaxReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        body = pb.MinMaxBody()
        for part in parts:
            found = directory(part, pb.MinMaxBody)
            move_pages(found.stripes, ("groups",), copy_pages(writer, part))
            body.MergeFrom(found)
        return body.SerializeToString(deterministic=True)


MINMAX = MinMaxIndex()


def array_extent(data_type: OrcType, array: pa.Array) -> ColumnStats:
    """The extent of the values of an Arrow array of ``of.to_arrow()``."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    nulls = array.null_count
    if nulls == len(array):
        return ColumnStats(len(array), nulls, None, None)
    keys = array_keys(data_type, array)
    if isinstance(keys, np.ndarray) and nulls:
        keys = keys[np.asarray(array.is_valid())]
    return ColumnStats(len(array), nulls, *key_ends(keys))


def _message(extent: ColumnStats) -> pb.Extent:
    found = pb.Extent(null_count=extent.null_count, max_is_prefix=extent.max_is_prefix)
    if isinstance(extent.min_key, int) and isinstance(extent.max_key, int):
        found.int_min, found.int_max = extent.min_key, extent.max_key
    elif isinstance(extent.min_key, bytes) and isinstance(extent.max_key, bytes):
        found.byte_min, found.byte_max = extent.min_key, extent.max_key
    return found


def _blocks(groups: Sequence[ColumnStats]) -> list[Buffer]:
    """The blocks of a page of row groups' extents."""
    nulls = np.array([item.null_count for item in groups], np.uint64)
    held = [item for item in groups if item.has_values]
    lows, highs = [item.min_key for item in held], [item.max_key for item in held]
    prefixes = np.array([item.max_is_prefix for item in held], np.uint64)
    first = second = 0
    data: list[Buffer] = []
    if held and isinstance(lows[0], bytes):
        low_numbers = np.array([len(key) for key in lows], np.uint64)  # type: ignore[arg-type]
        high_numbers = np.array([len(key) for key in highs], np.uint64)  # type: ignore[arg-type]
        data = [b"".join(lows), b"".join(highs)]  # type: ignore[arg-type]
        first, second = len(data[0]), len(data[1])
    else:
        low_keys, high_keys = (np.array(keys, np.int64).view(np.uint64) for keys in (lows, highs))
        first = min((key for key in lows if isinstance(key, int)), default=0)
        # differences wrap around to what is right where they overflow
        low_numbers = low_keys - np.array(first, np.int64).view(np.uint64)
        high_numbers = high_keys - low_keys
    arrays = [nulls, low_numbers, high_numbers, prefixes]
    widths = [byte_shuffle.width_of(array) for array in arrays]
    header = GROUP_HEADER.pack(len(groups), len(held), *widths, first, second)
    blocks: list[Buffer] = [header]
    for array, width in zip(arrays, widths, strict=True):
        blocks += byte_shuffle.split(array, width)
    return [*blocks, *data]
