"""The BITMAP index type: every key of a column with the exact rows that have it, stripe by stripe.

The index of a stripe is a B+tree. Its leaves are pages of the file (`hindex.index.leaf_page`); its inner level is
the directory in the footer, which the reader keeps as a ``BTrees`` tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key, RangeArray, integer_arrays
from hindex.errors import IndexFileError
from hindex.index import roaring
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import VALUES_PER_PAGE, FileBuilder
from hindex.index.index_file import (
    MAGIC,
    BinarySink,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRef,
    PageRefs,
    page_message,
    page_ref,
)
from hindex.index.index_type import (
    Bounds,
    IndexFileSummary,
    KeyCounts,
    KeyRows,
    Level,
    LookupCost,
    Operator,
    StripeSummary,
)
from hindex.index.leaf_page import OverflowRows, shift_overflow_pages
from hindex.index.merge import copy_pages, directory, move_pages
from hindex.index.postings import group_key_ranges
from hindex.index.roaring import MAX_ROWS
from hindex.index.tree_reader import TreeReader
from hindex.index.tree_writer import BufferedPages, TreeWriter, byte_keys, key_at, write_bitmap
from hindex.keys import KeyKind, join_keys, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb


@dataclass(slots=True)
class _Stripe:
    """The directory of one stripe."""

    rows: int
    null_count: int
    key_count: int
    nulls: PageRef | None
    tree: TreeReader
    shares_rows: bool = False


class BitmapReader:
    """A reader of a BITMAP index file. Threads may share it.

    Raises:
        IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        self._kind = file.footer.key_kind
        if file.footer.index_type != "BITMAP":
            raise file.error(f"it holds a {file.footer.index_type!r} index where BITMAP is expected")
        try:
            body = pb.BitmapBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.BitmapStripe) -> _Stripe:
        def broken(message: object) -> IndexFileError:
            return self.file.error(f"the directory of stripe {number}: {message}")

        if item.rows > MAX_ROWS:
            raise broken(f"it counts {item.rows} rows")
        if bool(item.null_count) != item.HasField("nulls"):
            raise broken("its null rows are not where they should be")
        try:
            tree = open_tree(self.file, item, shared_rows=item.shares_rows)
        except ValueError as error:
            raise broken(error) from error
        if not item.shares_rows and tree.row_count + item.null_count != item.rows:
            raise broken("its rows do not add up")
        return _Stripe(
            rows=item.rows,
            null_count=item.null_count,
            key_count=item.key_count,
            nulls=page_ref(item.nulls) if item.null_count else None,
            tree=tree,
            shares_rows=item.shares_rows,
        )

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe, nulls included."""
        return tuple(stripe.rows for stripe in self._stripes)

    def null_count(self, stripe: int) -> int:
        """Return the number of null rows of a stripe."""
        return self._stripes[stripe].null_count

    def key_count(self, stripe: int) -> int:
        """Return the number of distinct non-null values of a stripe."""
        return self._stripes[stripe].key_count

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Look up the rows of a stripe whose value is in ``domain``; the bounds are always exact.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        return self.lookup_keys(stripe, domain, 0)[0]

    def lookup_keys(self, stripe: int, domain: Domain, max_rows: int) -> tuple[Bounds, KeyRows | None]:
        """Implement `hindex.index.index_type.KeyedReader`."""
        directory = self._stripes[stripe]
        ranges = domain.ranges
        if self._kind is KeyKind.INT64:
            ranges = RangeArray(*integer_arrays(ranges))
        if Domain(ranges).has_every_value:
            if domain.null_allowed or not directory.null_count:
                return Bounds.all(directory.rows), None
            return Bounds.exactly(self._but(directory, self._nulls(directory))), None
        if not ranges or not len(directory.tree):
            return Bounds.exactly(self._nulls(directory) if domain.null_allowed else BitMap()), None
        selections = directory.tree.select(ranges)
        half = (directory.rows - directory.null_count) // 2
        is_large = not directory.shares_rows and directory.tree.max_rows(selections) > half
        if is_large and directory.tree.count_rows(selections) > half:
            # most rows are members: the others are cheaper to look up
            others = Domain(ranges).complement(null_allowed=not domain.null_allowed)
            excluded = directory.tree.rows(directory.tree.select(others.ranges))
            if others.null_allowed:
                excluded = excluded | self._nulls(directory)
            return Bounds.exactly(self._but(directory, excluded)), None
        parts = directory.tree.find(selections)
        rows = directory.tree.union(parts)
        if domain.null_allowed:
            rows = rows | self._nulls(directory)
        has_keys = len(rows) <= max_rows and not domain.null_allowed and not directory.shares_rows
        return Bounds.exactly(rows), directory.tree.join(parts) if has_keys else None

    def null_rows(self, stripe: int) -> BitMap:
        """Return the null rows of a stripe."""
        return self._nulls(self._stripes[stripe])

    def key_counts(self, stripe: int, rows: BitMap | None = None) -> KeyCounts:
        """Implement `hindex.index.index_type.KeyedReader`."""
        directory = self._stripes[stripe]
        if rows is not None and len(rows) == directory.rows:
            rows = None
        nulls = (
            directory.null_count if rows is None else self._nulls(directory).intersection_cardinality(rows)
        )
        parts = directory.tree.key_counts(rows)
        counts = np.concatenate([counts for _, counts in parts]) if parts else np.zeros(0, np.int64)
        return KeyCounts(join_keys(self._kind, [keys for keys, _ in parts]), counts, nulls)

    def key_rows(
        self, stripe: int, rows: BitMap | None = None, *, descending: bool = False
    ) -> Iterator[KeyRows]:
        """Implement `hindex.index.index_type.KeyedReader`."""
        directory = self._stripes[stripe]
        if rows is not None and len(rows) == directory.rows:
            rows = None
        return directory.tree.key_rows(rows, descending=descending)

    def estimate_cost(self, stripe: int, domain: Domain) -> LookupCost:
        """Implement `hindex.index.index_type.CostedReader`."""
        directory = self._stripes[stripe]
        filled = directory.rows - directory.null_count
        nulls = directory.null_count if domain.null_allowed else 0
        if not len(directory.tree) or domain.has_every_value:
            return LookupCost((filled if domain.has_every_value else 0) + nulls, 0)
        cost = directory.tree.estimate_cost(directory.tree.select(domain.ranges))
        rows = cost.rows
        if 2 * rows > filled and domain.has_spans:
            others = Domain(domain.ranges).complement(null_allowed=False)
            cost = directory.tree.estimate_cost(directory.tree.select(others.ranges))
        return replace(cost, rows=rows + nulls)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _but(self, directory: _Stripe, rows: BitMap) -> BitMap:
        return BitMap(range(directory.rows)) - rows

    def _nulls(self, directory: _Stripe) -> BitMap:
        if directory.nulls is None:
            return BitMap()
        return directory.tree.bitmaps([OverflowRows(directory.null_count, directory.nulls)])[0]


# the number of leaf pages that are copied at a time
_LEAVES_TOGETHER = 64


class BitmapBuilder(FileBuilder):
    """A builder of a BITMAP index file; see `hindex.index.file_builder.FileBuilder` for the parameters."""

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
        """Index the values of the next stripe: one per row, of the type ``data_type.to_arrow()``.

        A dictionary array of that type is accepted, too, and is faster. So are lists of it: the elements of a
        row's list are its keys, and a list without elements is NULL.

        Raises:
            BuildError: if the array is of another type, or has more rows than a bitmap can number.
        """
        array = self._one_array(array)
        stripe = self._body.stripes.add(rows=len(array), shares_rows=isinstance(array, pa.ListArray))
        buffered = BufferedPages()
        tree = TreeWriter(self._writer, self._values_per_page, buffered)
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
        set_tree(stripe, tree, buffered.release(self._writer), self._kind)
        stats = ColumnStats(len(array), stripe.null_count, ends[0], ends[1])
        self._stripes.append(StripeSummary(stats, stripe.key_count))

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        return self._finish(self._body.SerializeToString(deterministic=True))


class BitmapIndex:
    """The BITMAP type, as `hindex.index.index_type.IndexType` describes it."""

    name = "BITMAP"
    order = 30
    levels = frozenset({Level.STRIPE})
    operators = frozenset(Operator)
    summarizes = True
    properties = (VALUES_PER_PAGE,)

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None

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
                end = join_trees(writer, part, body.stripes.add(), stripe, end)
        return body.SerializeToString(deterministic=True)


BITMAP = BitmapIndex()


# Trees of stripes, shared with other index types


def open_tree(file: IndexFileReader, stripe: pb.BitmapStripe, *, shared_rows: bool = False) -> TreeReader:
    """Return the tree of a stripe's directory.

    Args:
        shared_rows: True if a row may belong to several keys.

    Raises:
        ValueError: if the directory is inconsistent.
    """
    is_integer = file.footer.key_kind is KeyKind.INT64
    tree = TreeReader(
        file,
        total=stripe.rows,
        leaves=_leaves(stripe),
        leaf_keys=stripe.leaf_keys,
        leaf_rows=stripe.leaf_rows,
        bounds=stripe.int_bounds if is_integer else stripe.byte_bounds,
        shared_rows=shared_rows,
    )
    if tree.key_count != stripe.key_count:
        raise ValueError("its keys do not add up")
    return tree


def set_tree(stripe: pb.BitmapStripe, tree: TreeWriter, leaves: list[PageRef], kind: KeyKind) -> None:
    """Set the fields of a stripe's directory that describe its tree.

    Args:
        leaves: the leaf pages, which are contiguous.
    """
    stripe.key_count = sum(tree.keys)
    if not leaves:
        return
    stripe.leaf_offset = leaves[0].offset
    stripe.leaf_length.extend(page.length for page in leaves)
    stripe.leaf_crc32c.extend(page.crc32c for page in leaves)
    stripe.leaf_keys.extend(tree.keys)
    stripe.leaf_rows.extend(tree.rows)
    if kind is KeyKind.BYTES:
        stripe.byte_bounds.extend(tree.bounds)  # type: ignore[arg-type]
    else:
        stripe.int_bounds.extend(tree.bounds)  # type: ignore[arg-type]


def join_trees(
    writer: IndexFileWriter, part: IndexFileReader, to: pb.BitmapStripe, stripe: pb.BitmapStripe, start: int
) -> int:
    """Copy the pages of a stripe, which begin at ``start``, and set its directory; return their end offset."""
    to.CopyFrom(stripe)
    # the null rows and the overflow pages lie before the leaves
    end = stripe.leaf_offset
    if not stripe.leaf_length:
        end = stripe.nulls.offset + stripe.nulls.length if stripe.HasField("nulls") else start
    shift = copy_pages(writer, part, start, end)
    move_pages([to], ("nulls",), shift)
    if not stripe.leaf_length:
        return end
    to.leaf_offset = writer.length
    del to.leaf_length[:], to.leaf_crc32c[:]
    leaves = _leaves(stripe)
    numbers = np.arange(len(leaves))
    for at in range(0, len(leaves), _LEAVES_TOGETHER):
        for page in part.read_encoded(leaves.refs(numbers[at : at + _LEAVES_TOGETHER])):
            blocks = shift_overflow_pages(Page(memoryview(page), f"Index file {part.path!r}, a leaf,"), shift)
            copied = writer.append_page(page) if blocks is None else writer.write_page(blocks)
            to.leaf_length.append(copied.length)
            to.leaf_crc32c.append(copied.crc32c)
    return end + int(leaves.lengths.sum())


def _leaves(stripe: pb.BitmapStripe) -> PageRefs:
    """Return the leaf pages of a stripe.

    Raises:
        ValueError: if its lists have different lengths.
    """
    runs = [(stripe.leaf_offset, len(stripe.leaf_length))]
    return PageRefs.of_runs(runs, stripe.leaf_length, stripe.leaf_crc32c)
