"""The BITMAP index type: every key of a column with the exact rows that hold it, stripe by stripe.

A stripe is a B+tree. Its leaves are pages of the file (:mod:`hindex.index.leaf_page`); its inner level is the
directory in the footer, which the reader (:mod:`hindex.index.bitmap_reader`) holds as a ``BTrees`` tree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from hindex.domain import Key
from hindex.index import roaring
from hindex.index.bitmap_reader import BitmapReader
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import VALUES_PER_PAGE, FileBuilder, page_message
from hindex.index.index_file import MAGIC, BinarySink, IndexFileReader, IndexFileWriter, Page, PageRef
from hindex.index.index_type import (
    IndexFileSummary,
    Level,
    Operator,
    StripeSummary,
    mean_key_bytes,
)
from hindex.index.key_ranges import group_key_ranges
from hindex.index.leaf_page import moved
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.tree_writer import BufferedPages, TreeWriter, byte_keys, key_at, write_bitmap
from hindex.keys import KeyKind, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb

# leaf pages that are copied at a time
_LEAVES_TOGETHER = 64


class BitmapBuilder(FileBuilder):
    """Writes a BITMAP index file; see :class:`~hindex.index.file_builder.FileBuilder` for the parameters."""

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(BITMAP, sink, data_type, column=column, properties=properties, metadata=metadata)
        self._values_per_page = int(self._properties["values_per_page"])
        self._body = pb.BitmapBody()

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type's ``to_arrow()``.

        A dictionary of that type will do, and is faster where it is at hand.

        :raises BuildError: if the array is of another type, or has more rows than a bitmap can number.
        """
        array = self._one_array(array)
        stripe = self._body.stripes.add(rows=len(array))
        held = BufferedPages()
        tree = TreeWriter(self._writer, self._values_per_page, held)
        ends: list[Key | None] = [None, None]
        for groups in group_key_ranges(self._type, array):
            keys = groups.keys if isinstance(groups.keys, np.ndarray) else byte_keys(groups.keys)
            if len(groups.nulls):
                stripe.null_count = len(groups.nulls)
                nulls = write_bitmap(self._writer, roaring.from_sorted(groups.nulls))
                stripe.nulls.CopyFrom(page_message(nulls))
            tree.add(keys, groups.starts, groups.rows)
            if len(keys):
                ends = [key_at(keys, 0) if ends[0] is None else ends[0], key_at(keys, len(keys) - 1)]
        self._write_directory(stripe, tree, held.release(self._writer))
        extent = ColumnStats(len(array), stripe.null_count, ends[0], ends[1])
        self._stripes.append(StripeSummary(extent, stripe.key_count))

    def finish(self) -> IndexFileSummary:
        """Write the footer; an own file is made durable and closed."""
        return self._finish(self._body.SerializeToString(deterministic=True))

    def _write_directory(self, stripe: pb.BitmapStripe, tree: TreeWriter, leaves: list[PageRef]) -> None:
        stripe.key_count = sum(tree.keys)
        if not leaves:
            return
        stripe.leaf_offset = leaves[0].offset
        stripe.leaf_length.extend(page.length for page in leaves)
        stripe.leaf_crc32c.extend(page.crc32c for page in leaves)
        stripe.leaf_keys.extend(tree.keys)
        stripe.leaf_rows.extend(tree.rows)
        if self._kind is KeyKind.BYTES:
            stripe.byte_bounds.extend(tree.bounds)  # type: ignore[arg-type]
        else:
            stripe.int_bounds.extend(tree.bounds)  # type: ignore[arg-type]


class BitmapIndex:
    """The BITMAP type, as :class:`~hindex.index.index_type.IndexType` describes it."""

    name = "BITMAP"
    order = 30
    levels = frozenset({Level.STRIPE})
    operators = frozenset(Operator)
    summarizes = True
    properties = (VALUES_PER_PAGE,)

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

    def estimate_bytes(self, data_type: OrcType, rows: int, distinct: int) -> int:
        distinct = max(min(distinct, rows), 1)
        # gaps of rows cost their entropy: what tells one of so many values
        row_bytes = rows * (math.log2(distinct) + 1) / 8
        return int(row_bytes + distinct * mean_key_bytes(data_type))

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> BitmapBuilder:
        return BitmapBuilder(sink, data_type, properties, column=column, metadata=metadata)

    def reader(self, file: IndexFileReader) -> BitmapReader:
        return BitmapReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        body = pb.BitmapBody()
        for part in parts:
            end = len(MAGIC)
            for stripe in directory(part, pb.BitmapBody).stripes:
                end = _join_stripe(writer, part, body.stripes.add(), stripe, end)
        return body.SerializeToString(deterministic=True)


BITMAP = BitmapIndex()


def _join_stripe(
    writer: IndexFileWriter, part: IndexFileReader, to: pb.BitmapStripe, stripe: pb.BitmapStripe, start: int
) -> int:
    """Copy the pages of a stripe, which begin at ``start``; where they end is returned."""
    to.CopyFrom(stripe)
    # the null rows and the pages that leaves point to lie before the leaves
    end = stripe.leaf_offset
    if not stripe.leaf_length:
        end = stripe.nulls.offset + stripe.nulls.length if stripe.HasField("nulls") else start
    shift = copy_pages(writer, part, start, end)
    move_pages([to], ("nulls",), shift)
    if not stripe.leaf_length:
        return end
    to.leaf_offset = writer.length
    del to.leaf_length[:], to.leaf_crc32c[:]
    leaves = []
    for length, crc in zip(stripe.leaf_length, stripe.leaf_crc32c, strict=True):
        leaves.append(PageRef(end, length, crc))
        end += length
    for at in range(0, len(leaves), _LEAVES_TOGETHER):
        for page in part.read_encoded(leaves[at : at + _LEAVES_TOGETHER]):
            blocks = moved(Page(page, f"Index file {part.path!r}, a leaf,"), shift)
            copied = writer.append_page(bytes(page)) if blocks is None else writer.write_page(blocks)
            to.leaf_length.append(copied.length)
            to.leaf_crc32c.append(copied.crc32c)
    return end
