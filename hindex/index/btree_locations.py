"""The locations of a BTREE index: the row groups of its data files, numbered from 0 through all of them.

Only the files are listed. Which row group a number is follows from the rows of their stripes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from hindex.index.index_file import IndexFileWriter, Page, PageRef
from hindex.index.roaring import group_count
from hindex.proto import index_file_pb2 as pb
from hindex.table.listing import Fingerprint

#: Raw bytes after which a page of locations is closed, and most files of one.
PAGE_BYTES = 32 * 1024
PAGE_FILES = 512
# a page is longer where its last file has very many stripes: raw bytes at most, without the stripes, and of a stripe,
# which has a row group unless it is empty
_MOST_BYTES = 1 << 24
_BYTES_BESIDE = 1 << 20
_STRIPE_BYTES = 10

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One data file as it was when it was indexed.

    :param path: relative to the table, with forward slashes.
    :param row_group_rows: rows of a row group, of which the last in a stripe may have fewer; 0 where a stripe is one.
    :param stripe_rows: rows of each stripe, in file order.
    """

    path: str
    fingerprint: Fingerprint
    row_group_rows: int
    stripe_rows: tuple[int, ...]

    @property
    def stripe_groups(self) -> tuple[int, ...]:
        """Row groups of each stripe."""
        return tuple(group_count(self.row_group_rows, rows) for rows in self.stripe_rows)

    @property
    def num_groups(self) -> int:
        return sum(self.stripe_groups)


@dataclass(frozen=True, slots=True)
class FileGroups:
    """Some row groups of one data file, numbered from 0 through its stripes, ascending."""

    file: IndexedFile
    groups: npt.NDArray[np.uint32]


def group_rows(groups: BitMap, row_group_rows: int, stripe_rows: Sequence[int], stripe: int) -> BitMap:
    """The rows of a stripe that are in some row groups of its file, which are numbered through the stripes."""
    file = IndexedFile("", Fingerprint(0, 0, 0), row_group_rows, tuple(stripe_rows))
    counts, rows = file.stripe_groups, stripe_rows[stripe]
    first = sum(counts[:stripe])
    step = row_group_rows or rows
    found = BitMap()
    for number in groups & BitMap(range(first, first + counts[stripe])):
        found.add_range((number - first) * step, min((number - first + 1) * step, rows))
    return found


def first_locations(files: Iterable[IndexedFile]) -> list[int]:
    """The number of each file's first row group, and behind the last one how many there are."""
    found = [0]
    for file in files:
        found.append(found[-1] + file.num_groups)
    return found


def write_locations(writer: IndexFileWriter, files: Sequence[IndexedFile]) -> list[tuple[PageRef, int]]:
    """Write the pages that list the files: each page, and the number of its first row group.

    :raises ValueError: if a file has more stripes than a page can list.
    """
    found, first, at = [], 0, 0
    page, size = pb.Locations(), 0
    for number, file in enumerate(files, 1):
        message = pb.LocatedFile(
            path=file.path,
            length=file.fingerprint.length,
            mtime_ns=file.fingerprint.mtime_ns,
            tail_checksum=file.fingerprint.tail_checksum,
            row_group_rows=file.row_group_rows,
            stripe_rows=file.stripe_rows,
        )
        page.files.append(message)
        size += message.ByteSize()
        at += file.num_groups
        if size >= PAGE_BYTES or len(page.files) == PAGE_FILES or number == len(files):
            block = page.SerializeToString(deterministic=True)
            if len(block) > _most_bytes(at - first):
                raise ValueError(
                    f"data file {file.path!r} has {len(file.stripe_rows)} stripes, more than an index of many files "
                    "can list: write it anew with longer ones"
                )
            found.append((writer.write_page([block]), first))
            first, page, size = at, pb.Locations(), 0
    return found


def _most_bytes(groups: int) -> int:
    """Raw bytes that a page of files of so many row groups may have."""
    return min(_BYTES_BESIDE + _STRIPE_BYTES * groups, _MOST_BYTES)


def read_locations(page: Page, groups: int) -> tuple[IndexedFile, ...]:
    """The files of a page.

    :param groups: row groups that they have.
    :raises IndexFileError: if it does not hold these.
    """
    try:
        message = pb.Locations.FromString(bytes(page.block(0, most=_most_bytes(groups))))
    except DecodeError as error:
        raise page.error(f"its locations cannot be parsed ({error})") from error
    found = tuple(
        IndexedFile(
            item.path,
            Fingerprint(item.length, item.mtime_ns, item.tail_checksum),
            item.row_group_rows,
            tuple(item.stripe_rows),
        )
        for item in message.files
    )
    if first_locations(found)[-1] != groups:
        raise page.error("its files do not have the row groups of its directory entry")
    return found


def split_by_file(
    files: Sequence[IndexedFile], first: int, locations: npt.NDArray[np.uint32]
) -> Iterator[FileGroups]:
    """Translate ascending locations to row groups, file by file.

    :param first: the number of the first file's first row group.
    :param locations: all of them in one of the files.
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
