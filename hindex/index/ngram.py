"""The NGRAM index type: every n-gram of a column of strings, with the blocks of rows that have it, stripe by stripe.

It finds strings that contain a substring. Blocks in place of rows make the index several times smaller, at little
cost, since an ORC reader decompresses far more rows at once.

The index of a stripe is a B+tree, as in `hindex.index.bitmap`: its keys are folded n-grams of three bytes, and its
rows are numbers of blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Range
from hindex.errors import IndexFileError
from hindex.index import roaring
from hindex.index.bitmap import join_trees, open_tree, set_tree
from hindex.index.character_ngrams import block_ngrams
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import VALUES_PER_PAGE, FileBuilder, whole_number
from hindex.index.index_file import MAGIC, BinarySink, IndexFileReader, IndexFileWriter
from hindex.index.index_type import (
    Bounds,
    IndexFileSummary,
    Level,
    Operator,
    Property,
    StripeSummary,
)
from hindex.index.leaf_reader import LeafKeys
from hindex.index.merge import directory
from hindex.index.tree_reader import TreeReader
from hindex.index.tree_writer import BufferedPages, TreeWriter
from hindex.keys import KeyKind
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import index_file_pb2 as pb

#: The most n-grams of a lookup: more exclude hardly any further block.
_MAX_LOOKED_UP = 16
_MAX_BLOCK_ROWS = 1 << 16


@dataclass(slots=True)
class _Stripe:
    """The directory of one stripe."""

    rows: int
    tree: TreeReader


class NgramReader:
    """A reader of an NGRAM index file. Threads may share it.

    Raises:
        IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        if file.footer.index_type != "NGRAM":
            raise file.error(f"it holds a {file.footer.index_type!r} index where NGRAM is expected")
        try:
            body = pb.NgramBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        self._block_rows = body.block_rows
        if not 1 <= self._block_rows <= _MAX_BLOCK_ROWS:
            raise file.error(f"its blocks have {self._block_rows} rows")
        self._stripes = [self._directory(number, item) for number, item in enumerate(body.stripes)]

    def _directory(self, number: int, item: pb.NgramStripe) -> _Stripe:
        def broken(message: object) -> IndexFileError:
            return self.file.error(f"the directory of stripe {number}: {message}")

        if item.rows > roaring.MAX_ROWS or item.blocks.rows != -(-item.rows // self._block_rows):
            raise broken(f"it counts {item.rows} rows in {item.blocks.rows} blocks")
        try:
            return _Stripe(item.rows, open_tree(self.file, item.blocks, shared_rows=True))
        except ValueError as error:
            raise broken(error) from error

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The number of rows of each stripe, nulls included."""
        return tuple(stripe.rows for stripe in self._stripes)

    def lookup(self, stripe: int, domain: Domain) -> Bounds:
        """Look up the rows of a stripe that may have every n-gram of a domain; the lower bound is empty.

        Args:
            domain: the n-grams, at least one.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        directory = self._stripes[stripe]
        ngrams = _sampled_ngrams(domain)
        parts = directory.tree.find(directory.tree.select(ngrams))
        if sum(len(part.counts) for part in parts) < len(ngrams):
            return Bounds.none()
        blocks = _common_blocks(directory.tree, parts)
        mask = roaring.to_mask(blocks, -(-directory.rows // self._block_rows))
        return Bounds(BitMap(), roaring.from_groups(mask, self._block_rows, directory.rows))

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _sampled_ngrams(domain: Domain) -> Sequence[Range]:
    ngrams = domain.ranges
    if len(ngrams) <= _MAX_LOOKED_UP:
        return ngrams
    return [ngrams[len(ngrams) * at // _MAX_LOOKED_UP] for at in range(_MAX_LOOKED_UP)]


def _common_blocks(tree: TreeReader, parts: Sequence[LeafKeys]) -> BitMap:
    """Return the blocks that all keys have. Reads bitmap pages only if the inline rows have common blocks."""
    inline: list[BitMap] = []
    for part in parts:
        counts = part.inline_counts
        ends = np.cumsum(counts)
        inline += [
            roaring.from_sorted(part.rows[end - count : end])
            for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
            if count
        ]
    inline.sort(key=len)
    common = reduce(BitMap.__and__, inline) if inline else None
    pages = [page for part in parts for page in part.bitmap_pages]
    if not pages or (common is not None and not common):
        return BitMap() if common is None else common
    return reduce(BitMap.__and__, sorted(tree.bitmaps(pages), key=len), *([] if common is None else [common]))


class NgramBuilder(FileBuilder):
    """A builder of an NGRAM index file; see `hindex.index.file_builder.FileBuilder` for the parameters."""

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        properties: Mapping[str, str] | None = None,
        *,
        column: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(NGRAM, sink, data_type, column=column, properties=properties, metadata=metadata)
        self._values_per_page = int(self._properties["values_per_page"])
        self._body = pb.NgramBody(block_rows=int(self._properties["block_rows"]))

    def add_stripe(self, array: pa.Array) -> None:
        """Index the values of the next stripe: one per row, of the type ``data_type.to_arrow()``.

        Raises:
            BuildError: if the array is of another type, or has more rows than a bitmap can number.
        """
        array = self._one_array(array)
        block_rows = self._body.block_rows
        stripe = self._body.stripes.add(rows=len(array))
        stripe.blocks.rows = -(-len(array) // block_rows)
        buffered = BufferedPages()
        tree = TreeWriter(self._writer, self._values_per_page, buffered)
        for part in block_ngrams(array, block_rows):
            tree.add(part.keys, part.starts, part.blocks)
        set_tree(stripe.blocks, tree, buffered.release(self._writer), KeyKind.BYTES)
        self._stripes.append(StripeSummary(ColumnStats(len(array), array.null_count, None, None)))

    def finish(self) -> IndexFileSummary:
        """Write the footer; sync and close the file if the builder opened it."""
        return self._finish(self._body.SerializeToString(deterministic=True))


def _block_rows(text: str) -> str:
    return whole_number(text, _MAX_BLOCK_ROWS)


class NgramIndex:
    """The NGRAM type, as `hindex.index.index_type.FileIndexType` describes it."""

    name = "NGRAM"
    # after the types that may decide every row
    order = 40
    levels = frozenset({Level.STRIPE})
    operators: frozenset[Operator] = frozenset()
    has_ngrams = True
    summarizes = False
    properties = (
        Property(
            "block_rows", "32", _block_rows, "rows of a block; more make the index smaller and less selective"
        ),
        VALUES_PER_PAGE,
    )

    def supports(self, data_type: OrcType) -> bool:
        return data_type.kind in (Kind.STRING, Kind.VARCHAR)

    def builder(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        row_group_rows: int = 0,
    ) -> NgramBuilder:
        return NgramBuilder(sink, data_type, properties, column=column, metadata=metadata)

    def reader(self, file: IndexFileReader) -> NgramReader:
        return NgramReader(file)

    def join(self, writer: IndexFileWriter, parts: Iterable[IndexFileReader]) -> bytes:
        body = pb.NgramBody()
        for part in parts:
            part_body = directory(part, pb.NgramBody)
            body.block_rows = part_body.block_rows
            end = len(MAGIC)
            for stripe in part_body.stripes:
                to = body.stripes.add(rows=stripe.rows)
                end = join_trees(writer, part, to.blocks, stripe.blocks, end)
        return body.SerializeToString(deterministic=True)


NGRAM = NgramIndex()
