"""The BTREE index type (Hive's COMPACT): every key of a column with the row groups that have it.

One index file covers all data files of a partition or of the table. It is one B+tree whose leaves are like those
of BITMAP, with numbers of row groups in place of rows. Row groups are numbered from 0 through all data files. Only
the files are listed, because the numbers of row groups follow from the rows of their stripes. A large index
consists of several files, each with a range of the keys.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.domain import Domain, Key
from hindex.index import roaring
from hindex.index.column_stats import ColumnStats
from hindex.index.file_builder import VALUES_PER_PAGE
from hindex.index.index_file import (
    BinarySink,
    Footer,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRef,
    PageRefs,
    page_message,
    page_ref,
)
from hindex.index.index_type import (
    Level,
    Operator,
    check_column,
    resolve_properties,
)
from hindex.index.leaf_page import ByteKeys, OverflowRows
from hindex.index.leaf_reader import LeafKeys
from hindex.index.postings import Postings, group, group_pairs
from hindex.index.roaring import MAX_ROWS, group_count
from hindex.index.tree_reader import TreeReader
from hindex.index.tree_writer import Int64s, TreeWriter, UInt32s, byte_keys, key_at, write_bitmap
from hindex.keys import KeyKind, join_keys, key_kind
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb
from hindex.value_class import value_class

#: The raw bytes after which a page of locations is closed, and the most files of a page.
PAGE_BYTES = 32 * 1024
PAGE_FILES = 512
# a page is longer if its last file has very many stripes: the most raw bytes of a page, the most without stripes,
# and the bytes of a stripe, which has a row group unless it is empty
_MAX_PAGE_BYTES = 1 << 24
_BASE_PAGE_BYTES = 1 << 20
_ENCODED_STRIPE_BYTES = 10
#: The number of leaves that are looked up together: these few may already have all row groups.
_LEAVES_AT_ONCE = 64
# rough bytes in memory of a data file's location without its path, and of one stripe
_FILE_MEMORY = 400
_STRIPE_MEMORY = 36


@value_class
class IndexedFile:
    """One data file as it was when it was indexed.

    Its modification time is in the manifest only: a copy of the file has the same row groups.

    Args:
        path: relative to the table, with forward slashes.
        length: in bytes.
        tail_checksum: the crc32c of the ORC tail.
        row_group_rows: the rows of a row group, fewer in the last of a stripe; 0 if each stripe is one row group.
        stripe_rows: the rows of each stripe, in file order.
    """

    path: str
    length: int
    tail_checksum: int
    row_group_rows: int
    stripe_rows: tuple[int, ...]

    @property
    def stripe_groups(self) -> tuple[int, ...]:
        """The number of row groups of each stripe."""
        return tuple(group_count(self.row_group_rows, rows) for rows in self.stripe_rows)

    @property
    def num_groups(self) -> int:
        return sum(self.stripe_groups)


@value_class
class FileGroups:
    """Some row groups of one data file, numbered from 0 through its stripes, ascending."""

    file: IndexedFile
    groups: npt.NDArray[np.uint32]


def group_rows(groups: BitMap, row_group_rows: int, stripe_rows: Sequence[int], stripe: int) -> BitMap:
    """Return the rows of a stripe in some row groups of its file, which are numbered through all stripes."""
    file = IndexedFile("", 0, 0, row_group_rows, tuple(stripe_rows))
    counts, rows = file.stripe_groups, stripe_rows[stripe]
    first = sum(counts[:stripe])
    step = row_group_rows or rows
    rows_in_groups = BitMap()
    for number in groups & BitMap(range(first, first + counts[stripe])):
        rows_in_groups.add_range((number - first) * step, min((number - first + 1) * step, rows))
    return rows_in_groups


def first_locations(files: Iterable[IndexedFile]) -> list[int]:
    """Return the number of each file's first row group, followed by the total number of row groups."""
    firsts = [0]
    for file in files:
        firsts.append(firsts[-1] + file.num_groups)
    return firsts


def write_locations(writer: IndexFileWriter, files: Sequence[IndexedFile]) -> list[tuple[PageRef, int]]:
    """Write the pages that list the files; return each page with the number of its first row group.

    Raises:
        ValueError: if a file has more stripes than a page can list.
    """
    pages, first, at = [], 0, 0
    page, size = pb.Locations(), 0
    for number, file in enumerate(files, 1):
        message = pb.LocatedFile(
            path=file.path,
            length=file.length,
            tail_checksum=file.tail_checksum,
            row_group_rows=file.row_group_rows,
            stripe_rows=file.stripe_rows,
        )
        page.files.append(message)
        size += message.ByteSize()
        at += file.num_groups
        if size >= PAGE_BYTES or len(page.files) == PAGE_FILES or number == len(files):
            block = page.SerializeToString(deterministic=True)
            if len(block) > _max_page_bytes(at - first):
                raise ValueError(
                    f"data file {file.path!r} has {len(file.stripe_rows)} stripes, more than an index of many files "
                    "can list: rewrite it with longer ones"
                )
            pages.append((writer.write_page([block]), first))
            first, page, size = at, pb.Locations(), 0
    return pages


def _max_page_bytes(groups: int) -> int:
    """Return the most raw bytes of a page of files with some row groups."""
    return min(_BASE_PAGE_BYTES + _ENCODED_STRIPE_BYTES * groups, _MAX_PAGE_BYTES)


def read_locations(page: Page, groups: int) -> tuple[IndexedFile, ...]:
    """Decode the files of a page.

    Args:
        groups: the number of row groups of these files.

    Raises:
        IndexFileError: if the page is corrupt, or has another number of row groups.
    """
    try:
        message = pb.Locations.FromString(bytes(page.block(0, max_length=_max_page_bytes(groups))))
    except DecodeError as error:
        raise page.error(f"its locations cannot be parsed ({error})") from error
    files = tuple(
        IndexedFile(
            item.path,
            item.length,
            item.tail_checksum,
            item.row_group_rows,
            tuple(item.stripe_rows),
        )
        for item in message.files
    )
    if first_locations(files)[-1] != groups:
        raise page.error("its files do not have the row groups of its directory entry")
    return files


def split_by_file(
    files: Sequence[IndexedFile], first: int, locations: npt.NDArray[np.uint32]
) -> Iterator[FileGroups]:
    """Translate ascending locations to row groups, file by file.

    Args:
        first: the number of the first file's first row group.
        locations: the locations, which must all be in these files.
    """
    starts = np.array(first_locations(files), np.int64) + first
    ends = np.searchsorted(locations, starts[1:])
    begin = 0
    for number in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
        end = int(ends[number])
        yield FileGroups(
            files[number], (locations[begin:end].astype(np.int64) - starts[number]).astype(np.uint32)
        )
        begin = end


class BTreeReader:
    """A reader of a BTREE index file. Threads may share it.

    Raises:
        IndexFileError: if the file is of another index type, or its directory is corrupt.
    """

    def __init__(self, file: IndexFileReader) -> None:
        self.file = file
        if file.footer.index_type != "BTREE":
            raise file.error(f"it holds a {file.footer.index_type!r} index where BTREE is expected")
        try:
            body = pb.BTreeBody.FromString(file.footer.body)
        except DecodeError as error:
            raise file.error(f"its directory cannot be parsed ({error})") from error
        #: The number of row groups, of keys, and of row groups with a null.
        self.num_locations = body.locations
        self.key_count = body.key_count
        self.null_count = body.null_count
        self._firsts = [item.first for item in body.location_pages]
        self._location_pages = [page_ref(item.page) for item in body.location_pages]
        self._nulls = page_ref(body.nulls) if body.null_count else None
        try:
            self._check(body)
            self._tree = TreeReader(
                file,
                total=body.locations,
                leaves=PageRefs.of_runs(
                    [(run.offset, run.leaves) for run in body.runs], body.leaf_length, body.leaf_crc32c
                ),
                leaf_keys=body.leaf_keys,
                leaf_rows=body.leaf_rows,
                bounds=body.int_bounds if file.footer.key_kind is KeyKind.INT64 else body.byte_bounds,
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
            raise ValueError("it does not list its locations")

    def locate(self, domain: Domain, *, max_leaves: int | None = None) -> BitMap | None:
        """Return the numbers of exactly the row groups that have a value of ``domain``.

        Args:
            max_leaves: return None if more leaf pages than this are needed.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        locations = BitMap()
        if domain.null_allowed and self._nulls is not None:
            locations |= self._tree.bitmaps([OverflowRows(self.null_count, self._nulls)])[0]
        selection = self._tree.select(domain.ranges)
        if max_leaves is not None and len(selection) > max_leaves:
            return None
        for at in range(0, len(selection), _LEAVES_AT_ONCE):
            if len(locations) == self.num_locations:
                break
            locations |= self._tree.rows(selection.part(slice(at, at + _LEAVES_AT_ONCE)))
        return locations

    def files(self, locations: BitMap) -> Iterator[FileGroups]:
        """Translate location numbers to row groups of files, in order.

        Raises:
            IndexFileError: if a page that it needs is corrupt.
        """
        numbers = np.asarray(locations.to_array())
        at = 0
        while at < len(numbers):
            page = bisect_right(self._firsts, int(numbers[at])) - 1
            end = len(numbers)
            if page + 1 < len(self._firsts):
                end = int(np.searchsorted(numbers, self._firsts[page + 1]))
            yield from split_by_file(self._read_files(page), self._firsts[page], numbers[at:end])
            at = end

    def all_files(self) -> Iterator[IndexedFile]:
        """Yield every indexed data file, in order."""
        for page in range(len(self._firsts)):
            yield from self._read_files(page)

    def all_leaves(self) -> Iterator[LeafKeys]:
        """Yield every leaf in key order, for rewriting the file.

        Raises:
            IndexFileError: if a leaf is corrupt.
        """
        for number in range(len(self._tree)):
            yield from self._tree.leaves([number])

    def entries(self, leaf: LeafKeys) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32]]:
        """Return the entries of a leaf in any order: ordinals of keys, and numbers of row groups.

        Raises:
            IndexFileError: if the leaf, or a page that it points to, is corrupt.
        """
        numbers, locations = [leaf.owners()], [leaf.rows]
        bitmaps = self._tree.bitmaps(leaf.bitmap_pages)
        for number, rows in zip(leaf.outside.tolist(), bitmaps, strict=True):
            numbers.append(np.full(len(rows), number, np.int64))
            locations.append(np.asarray(rows.to_array()))
        return np.concatenate(numbers), np.concatenate(locations).astype(np.uint32)

    def nulls(self) -> BitMap:
        """Return the row groups with a null."""
        locations = self.locate(Domain.only_null())
        assert locations is not None
        return locations

    def close(self) -> None:
        """Close the source."""
        self.file.close()

    def _read_files(self, page: int) -> tuple[IndexedFile, ...]:
        end = self._firsts[page + 1] if page + 1 < len(self._firsts) else self.num_locations

        def decode(_: int, read: Page) -> tuple[IndexedFile, ...]:
            return read_locations(read, end - self._firsts[page])

        return next(self.file.decode_pages([self._location_pages[page]], decode, _locations_bytes))


def _locations_bytes(files: tuple[IndexedFile, ...]) -> int:
    return sum(_FILE_MEMORY + len(file.path) + _STRIPE_MEMORY * len(file.stripe_rows) for file in files)


def stripe_entries(data_type: OrcType, array: pa.Array, *, row_group_rows: int, first: int) -> Postings:
    """Group a stripe by key, with the numbers of row groups in place of rows.

    Args:
        array: values of the type ``data_type.to_arrow()``, or a dictionary array of it.
        row_group_rows: the rows of a row group; 0 if the stripe is one row group.
        first: the number of the stripe's first row group.
    """
    postings = group(data_type, array)
    step = np.uint32(row_group_rows or max(len(array), 1))
    nulls = np.unique(postings.nulls // step) + np.uint32(first)
    if not len(postings.rows):
        return replace(postings, nulls=nulls)
    located = postings.rows // step
    heads = np.ones(len(located), np.bool_)
    np.not_equal(located[1:], located[:-1], out=heads[1:])
    heads[postings.starts[:-1]] = True
    ends = np.cumsum(heads, dtype=np.uint32)[postings.starts[1:] - 1].astype(np.int64)
    return Postings(
        postings.keys, np.concatenate([np.zeros(1, np.int64), ends]), located[heads] + np.uint32(first), nulls
    )


def sample_bytes(
    data_type: OrcType,
    files: Sequence[IndexedFile],
    arrays: Sequence[pa.Array],
    properties: Mapping[str, str] | None = None,
) -> int:
    """Build an index on some stripes in memory, and return its size in bytes.

    Args:
        files: the file of each stripe, as if it had only this stripe.
        arrays: the stripes, see `stripe_entries`.
    """
    entries = [
        stripe_entries(data_type, array, row_group_rows=file.row_group_rows, first=first)
        for file, array, first in zip(files, arrays, first_locations(files), strict=False)
    ]
    merged = group_pairs(
        join_keys(check_column(BTREE, "", data_type), [item.keys for item in entries]),
        np.concatenate([item.rows for item in entries]),
        counts=np.concatenate([np.diff(item.starts) for item in entries]),
    )
    writer = BTreeWriter(io.BytesIO(), data_type, files, properties=properties)
    keys = merged.keys if isinstance(merged.keys, np.ndarray) else byte_keys(merged.keys)
    writer.add(keys, merged.starts, merged.rows)
    for item in entries:
        writer.add_nulls(item.nulls)
    return writer.finish().length


@value_class
class BTreeFileSummary:
    """The manifest's record of a finished file. ``length`` is in bytes.

    ``stats.rows`` counts pairs of a key and a row group, ``stats.null_count`` row groups with a null.
    """

    length: int
    footer_crc32c: int
    key_count: int
    stats: ColumnStats


class BTreeWriter:
    """A writer of one BTREE index file with ascending keys. It writes added keys immediately.

    Args:
        sink: a path that must not exist, or something to write to that the caller closes.
        data_type: the column's type in the table, which determines the keys.
        files: the data files whose row groups are numbered.

    Raises:
        ColumnError: if columns of this type cannot be indexed.
        HindexError: if a property is unknown or ill-formed.
        ValueError: if there are too many row groups to be numbered.
    """

    def __init__(
        self,
        sink: str | os.PathLike[str] | BinarySink,
        data_type: OrcType,
        files: Sequence[IndexedFile],
        *,
        column: str = "",
        properties: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._type = data_type
        self._kind = check_column(BTREE, column, data_type)
        self._column = column
        self._metadata = dict(metadata or {})
        self._properties = resolve_properties(BTREE, properties)
        self._files = files
        self._locations = first_locations(files)[-1]
        if self._locations > roaring.MAX_ROWS:
            raise ValueError(f"{self._locations} row groups are more than can be numbered")
        self._nulls: UInt32s = np.zeros(0, np.uint32)
        self._ends: tuple[Key, Key] | None = None
        self._writer = IndexFileWriter(sink)
        self._tree = TreeWriter(self._writer, int(self._properties["values_per_page"]))

    def add(self, keys: Int64s | ByteKeys, starts: Int64s, locations: UInt32s) -> None:
        """Add keys above all earlier ones; key ``i`` has ``locations[starts[i]:starts[i + 1]]``, ascending."""
        if not len(keys):
            return
        last = key_at(keys, len(keys) - 1)
        self._ends = (key_at(keys, 0) if self._ends is None else self._ends[0], last)
        self._tree.add(keys, starts, locations)

    def add_nulls(self, locations: npt.NDArray[np.uint32]) -> None:
        """Add row groups with a null."""
        self._nulls = np.union1d(self._nulls, locations)

    def finish(self) -> BTreeFileSummary:
        """Write nulls, locations and the footer; sync and close the file if the writer opened it."""
        tree = self._tree
        body = pb.BTreeBody(locations=self._locations, null_count=len(self._nulls), key_count=sum(tree.keys))
        if len(self._nulls):
            body.nulls.CopyFrom(page_message(write_bitmap(self._writer, roaring.from_sorted(self._nulls))))
        for page, first in write_locations(self._writer, self._files):
            body.location_pages.add(page=page_message(page), first=first)
        end = 0
        for page in tree.pages:
            if page.offset != end:
                body.runs.add(offset=page.offset)
            body.runs[-1].leaves += 1
            end = page.offset + page.length
        body.leaf_length.extend(page.length for page in tree.pages)
        body.leaf_crc32c.extend(page.crc32c for page in tree.pages)
        body.leaf_keys.extend(tree.keys)
        body.leaf_rows.extend(tree.rows)
        bounds = body.int_bounds if self._kind is KeyKind.INT64 else body.byte_bounds
        bounds.extend(tree.bounds)  # type: ignore[arg-type]
        footer = Footer(
            index_type=BTREE.name,
            column=self._column,
            column_type=str(self._type),
            key_kind=self._kind,
            properties=self._properties,
            metadata=self._metadata,
            body=body.SerializeToString(deterministic=True),
            writer="hindex",
        )
        length, crc = self._writer.finish(footer)
        low, high = self._ends if self._ends is not None else (None, None)
        stats = ColumnStats(sum(tree.rows), len(self._nulls), low, high)
        return BTreeFileSummary(length, crc, sum(tree.keys), stats)

    def abort(self) -> None:
        """Stop writing; remove the file if the writer opened it."""
        self._writer.abort()


class BTreeIndex:
    """The BTREE type, as `hindex.index.index_type.IndexType` describes it."""

    name = "BTREE"
    order = 25
    levels = frozenset({Level.PARTITION, Level.TABLE})
    operators = frozenset(Operator)
    properties = (VALUES_PER_PAGE,)

    def supports(self, data_type: OrcType) -> bool:
        return key_kind(data_type) is not None


BTREE = BTreeIndex()
