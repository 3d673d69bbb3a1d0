"""Looking up row groups in a BTREE index file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.index.btree_locations import (
    FileGroups,
    IndexedFile,
    read_locations,
    split_by_file,
)
from hindex.index.file_builder import page_ref
from hindex.index.index_file import IndexFileReader, Page, PageRef
from hindex.index.leaf_page import LeafPage, OverflowRows
from hindex.index.roaring import MAX_ROWS
from hindex.index.tree_reader import TreeReader
from hindex.keys import KeyKind
from hindex.proto import index_file_pb2 as pb

#: Leaves that are fetched together when a range touches many.
_LEAVES_AT_ONCE = 64
# rough bytes in memory of a data file's location beside its path, and of one stripe
_FILE_BYTES = 400
_STRIPE_BYTES = 36


class BTreeReader:
    """Reads a BTREE index file; may be shared by threads.

    :raises IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        if file.footer.index_type != "BTREE":
            raise file.error(f"it holds a {file.footer.index_type!r} index where BTREE is expected")
        try:
            body = pb.BTreeBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        #: How many row groups are numbered, keys there are, and row groups hold a null.
        self.num_locations = body.locations
        self.key_count = body.key_count
        self.null_count = body.null_count
        self._firsts = [item.first for item in body.location_pages]
        self._location_pages = [page_ref(item.page) for item in body.location_pages]
        self._nulls = page_ref(body.nulls) if body.null_count else None
        try:
            self._check(body)
            bounds: list[Key] = list(
                body.int_bounds if file.footer.key_kind is KeyKind.INT64 else body.byte_bounds
            )
            self._tree = TreeReader(
                file,
                total=body.locations,
                leaves=_leaves(body),
                leaf_keys=body.leaf_keys,
                leaf_rows=body.leaf_rows,
                bounds=bounds,
                shared_rows=True,
            )
        except ValueError as error:
            raise file.error(f"its directory: {error}") from error

    def _check(self, body: pb.BTreeBody) -> None:
        if body.locations > MAX_ROWS:
            raise ValueError(f"it counts {body.locations} row groups")
        if sum(body.leaf_keys) != body.key_count:
            raise ValueError("its keys do not add up")
        if body.null_count > body.locations or bool(body.null_count) != body.HasField("nulls"):
            raise ValueError("its nulls are not where they should be")
        firsts = self._firsts
        if (firsts and firsts[0]) or any(a > b for a, b in pairwise([*firsts, body.locations])):
            raise ValueError("its locations are not in order")
        if body.locations and not firsts:
            raise ValueError("it does not say what its locations are")

    def locate(self, domain: Domain, *, most_leaves: int | None = None) -> BitMap | None:
        """The numbers of exactly those row groups that hold a value of ``domain``.

        :param most_leaves: give up with None where more leaf pages would have to be looked at.
        :raises IndexFileError: if a page that it needs is corrupt.
        """
        found = BitMap()
        if domain.null_allowed and self._nulls is not None:
            found |= self._tree.bitmaps([OverflowRows(self.null_count, self._nulls)])[0]
        wanted = self._tree.wanted(domain.ranges)
        if most_leaves is not None and len(wanted) > most_leaves:
            return None
        parts = iter(wanted.items())
        while len(found) < self.num_locations and (some := dict(islice(parts, _LEAVES_AT_ONCE))):
            found |= self._tree.rows(some)
        return found

    def files(self, locations: BitMap) -> Iterator[FileGroups]:
        """Translate location numbers to row groups of files, in order.

        :raises IndexFileError: if a page that it needs is corrupt.
        """
        numbers = np.asarray(locations.to_array())
        at = 0
        while at < len(numbers):
            page = bisect_right(self._firsts, int(numbers[at])) - 1
            end = len(numbers)
            if page + 1 < len(self._firsts):
                end = int(np.searchsorted(numbers, self._firsts[page + 1]))
            yield from split_by_file(self._files_of(page), self._firsts[page], numbers[at:end])
            at = end

    def all_files(self) -> Iterator[IndexedFile]:
        """Every data file whose row groups are numbered, in order."""
        for page in range(len(self._firsts)):
            yield from self._files_of(page)

    def all_leaves(self) -> Iterator[LeafPage]:
        """Every leaf in key order, for rewriting the file.

        :raises IndexFileError: if one is corrupt.
        """
        for number in range(len(self._tree)):
            yield from self._tree.leaves([number])

    def entries(self, leaf: LeafPage) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """The pairs of a leaf in no order: the key's number in it, and the number of a row group.

        :raises IndexFileError: if the leaf, or a page that it points to, is corrupt.
        """
        counts = leaf.inline_counts
        numbers, locations = [np.repeat(np.arange(len(counts)), counts)], [leaf.rows(0, len(counts))]
        outside = np.flatnonzero(counts == 0)
        for number, found in zip(outside.tolist(), self._tree.bitmaps(leaf.outside(outside)), strict=True):
            numbers.append(np.full(len(found), number, np.int64))
            locations.append(np.asarray(found.to_array()))
        return np.concatenate(numbers), np.concatenate(locations).astype(np.uint32)

    def nulls(self) -> BitMap:
        """The row groups with a null."""
        found = self.locate(Domain.only_null())
        assert found is not None
        return found

    def close(self) -> None:
        """Close the source."""
        self.file.close()

    def _files_of(self, page: int) -> tuple[IndexedFile, ...]:
        end = self._firsts[page + 1] if page + 1 < len(self._firsts) else self.num_locations

        def decode(_: int, read: Page) -> tuple[IndexedFile, ...]:
            return read_locations(read, end - self._firsts[page])

        return next(self.file.decoded([self._location_pages[page]], decode, _locations_bytes))


def _locations_bytes(files: tuple[IndexedFile, ...]) -> int:
    return sum(_FILE_BYTES + len(file.path) + _STRIPE_BYTES * len(file.stripe_rows) for file in files)


def _leaves(body: pb.BTreeBody) -> list[PageRef]:
    """The places of the leaves.

    :raises ValueError: if the directory contradicts itself.
    """
    count = len(body.leaf_length)
    if len(body.leaf_crc32c) != count or sum(run.leaves for run in body.runs) != count:
        raise ValueError("its lists are not of one length")
    found: list[PageRef] = []
    for run in body.runs:
        at, first = run.offset, len(found)
        for number in range(first, first + run.leaves):
            found.append(PageRef(at, body.leaf_length[number], body.leaf_crc32c[number]))
            at += body.leaf_length[number]
    return found
