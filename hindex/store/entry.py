"""Manifest entries of data files and their index files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hindex.index.column_stats import ColumnStats
from hindex.table.listing import Fingerprint


@dataclass(frozen=True, slots=True)
class IndexFileEntry:
    """One index file of one data file.

    :param path: relative to the store's directory, with forward slashes.
    :param length: bytes.
    :param footer_checksum: crc32c of the index file's footer.
    :param extents: what each stripe of the data file holds, to skip it by; empty for index types that give none.
    """

    index_id: str
    path: str
    length: int
    footer_checksum: int
    extents: Sequence[ColumnStats] = ()


@dataclass(frozen=True, slots=True)
class SharedFileEntry:
    """One index file of many data files.

    :param path: relative to the store's directory, with forward slashes.
    :param length: bytes.
    :param footer_checksum: crc32c of the index file's footer.
    :param extent: its keys; ``rows`` are pairs of a key and a row group, ``null_count`` row groups with a null.
    """

    path: str
    length: int
    footer_checksum: int
    extent: ColumnStats


@dataclass(frozen=True, slots=True)
class SharedIndexEntry:
    """The files that one build wrote for an index over many data files.

    :param id: 32 hexadecimal digits, never used again.
    :param column_type: text of the type whose keys are in the files.
    :param partition: the partition that it covers, as its directories are named, or None for the table.
    :param num_files: data files that were covered when it was written; those that changed do not name it any more.
    :param files: in order of their keys, of which no two have the same.
    """

    id: str
    index_id: str
    column_type: str
    partition: str | None
    num_files: int
    num_row_groups: int
    files: tuple[SharedFileEntry, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One indexed data file as it was when it was read.

    :param path: relative to the table, with forward slashes.
    :param stripe_rows: rows of each stripe, in file order.
    :param schema: text of the file's root type (:func:`hindex.table.type_text.type_text`).
    :param index_files: sorted by index id; at most one an index.
    :param shared: index files that cover other data files too, sorted by index id; at most one entry an index.
    :param changed_ns: when the status of the file had last changed (``DataFile.changed_ns``); 0 where that is not
        known.
    :param num_row_groups: of all stripes; 0 where that is not known, or there is no row.
    """

    path: str
    length: int
    mtime_ns: int
    tail_checksum: int
    num_rows: int
    stripe_rows: tuple[int, ...]
    schema: str
    index_files: tuple[IndexFileEntry, ...] = ()
    shared: tuple[SharedIndexEntry, ...] = ()
    changed_ns: int = 0
    num_row_groups: int = 0

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.length, self.mtime_ns, self.tail_checksum)

    def index_file(self, index_id: str) -> IndexFileEntry | None:
        """The file of one index, or None where this data file is not indexed by it."""
        return next((item for item in self.index_files if item.index_id == index_id), None)

    def shared_index(self, index_id: str) -> SharedIndexEntry | None:
        """Return the entry of the index files that cover this data file among others, or None."""
        return next((item for item in self.shared if item.index_id == index_id), None)

    def is_covered_by(self, index_id: str) -> bool:
        """Return True if an index covers this data file, in a file of its own or in a shared one."""
        return self.index_file(index_id) is not None or self.shared_index(index_id) is not None


def is_safe_path(path: str) -> bool:
    """Return True if a relative path stays below any directory that it is joined to."""
    return (
        bool(path)
        and "\0" not in path
        and not path.startswith("/")
        and all(part not in ("", ".", "..") for part in path.split("/"))
    )
