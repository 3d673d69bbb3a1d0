"""The entries of all data files of a manifest: a sequence whose segments are read on demand."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TypeAlias, overload

import google_crc32c
import numpy as np

from hindex.errors import StoreError
from hindex.lru_cache import cached_property
from hindex.store.entry_table import EntryTable
from hindex.store.segment import (
    MAX_RAW_BYTES,
    FileEntry,
    SharedIndexEntry,
    StoredSegment,
    Summary,
    batch_indexes,
    check_size,
    decode_segment,
    encode_segment,
    file_paths,
    string_array,
)

#: The most data files of a segment: a commit rewrites at most so many entries for each changed file.
SEGMENT_FILES = 2048
#: The approximate limit of their uncompressed bytes, well below `MAX_RAW_BYTES`.
SEGMENT_RAW_BYTES = MAX_RAW_BYTES // 2
# the number of segments that are read at once
_READ_TOGETHER = 64

#: Reads segments: returns the bytes of each, in order, or raises StoreError.
Load: TypeAlias = Callable[[Sequence[StoredSegment]], Sequence[bytes]]


class Segment:
    """A run of entries sorted by path, either in memory or read on demand. Immutable.

    Attributes:
        summary: its summary, available without a read.
        stored: its file; None if it has none.
    """

    def __init__(
        self,
        summary: Summary,
        stored: StoredSegment | None,
        load: Load | None,
        *,
        data: bytes | None = None,
        table: EntryTable | None = None,
    ) -> None:
        self.summary = summary
        self.stored = stored
        self._load = load
        self._data = data
        self._table = table

    @classmethod
    def from_table(cls, table: EntryTable) -> Segment:
        """Make a segment of at least one entry."""
        return cls(table.summary(), None, None, table=table)

    def has_index(self, index_id: str) -> bool:
        """Return True if an index covers some of its data files."""
        summary = self.summary
        return index_id in summary.indexes or any(item.index_id == index_id for item in summary.shared)

    @property
    def is_read(self) -> bool:
        """Return True if its entries are in memory."""
        return self._table is not None

    @property
    def data(self) -> bytes:
        """Its bytes.

        Raises:
            StoreError: if it cannot be read, or exceeds a limit of segments.
        """
        # threads share segments: another thread may drop the bytes at any time
        data, table = self._data, self._table
        if data is not None:
            return data
        if table is None or self.stored is not None:
            return self.fetch([self])[0]
        data = encode_segment(table.batch)
        try:
            check_size(data)
        except ValueError as error:
            raise StoreError(
                f"the index entries of data files {table.path(0)!r} to {table.path(-1)!r} cannot be recorded: "
                f"{error}; nothing was changed. Drop an index, or rewrite these files with fewer stripes"
            ) from error
        self._data = data
        return data

    @property
    def table(self) -> EntryTable:
        """Its entries as columns, decoded at their first use.

        Raises:
            StoreError: if it cannot be read or is corrupt.
        """
        table = self._table
        if table is None:
            with self._as_corrupt():
                table = EntryTable.decode(self.data, self.summary.shared)
                counts = {index_id: item.num_files for index_id, item in self.summary.indexes.items()}
                if (len(table), batch_indexes(table.batch)) != (self.summary.num_files, counts):
                    raise ValueError("it contradicts the manifest's summary")
                if (table.path(0), table.path(-1)) != (self.summary.first, self.summary.last):
                    raise ValueError("its paths are not those in the manifest")
            self._table = table
            if self.stored is not None:
                self._data = None  # it can be read again
        return table

    def file_paths(self) -> list[str]:
        """Return the index files of single data files, and the files with copies of their metadata.

        Raises:
            StoreError: as `table`.
        """
        table = self._table
        if table is not None:
            return table.file_paths()
        # all segments are decoded for this, so none stays in memory
        with self._as_corrupt():
            return file_paths(decode_segment(self.data))

    def keep(self, stored: StoredSegment, load: Load) -> None:
        """Set the file to which the segment was written."""
        self.stored, self._load, self._data = stored, load, None

    @staticmethod
    def fetch(segments: Iterable[Segment]) -> list[bytes]:
        """Return the bytes of segments, and keep them in the segments; missing ones are read together."""
        cached = [(segment, segment._data) for segment in segments]
        missing = [segment for segment, data in cached if data is None]
        read: Iterator[bytes] = iter(())
        if missing:
            load = missing[0]._load
            assert load is not None
            read = iter(load([segment.stored for segment in missing if segment.stored is not None]))
        contents = []
        for segment, data in cached:
            if data is None:
                data, stored = next(read), segment.stored
                assert stored is not None
                if len(data) != stored.length or google_crc32c.value(data) != stored.checksum:
                    raise segment._corrupt("its length or checksum does not match")
                segment._data = data
            contents.append(data)
        return contents

    @contextmanager
    def _as_corrupt(self) -> Iterator[None]:
        """Add the segment's name to errors about its bytes."""
        try:
            yield
        except (ValueError, TypeError) as error:
            raise self._corrupt(error) from error

    def _corrupt(self, message: object) -> StoreError:
        location = "within the manifest" if self.stored is None else repr(self.stored.path)
        return StoreError(
            f"segment {location} is corrupt: {' '.join(str(message).split())}; restore it from a copy, or delete the "
            "manifests that name it to go back to an older state"
        )


class FileEntries(Sequence[FileEntry]):
    """Entries of data files in ascending order of path, in segments. Immutable; equal to any equal sequence."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = tuple(segments)

    @classmethod
    def from_entries(cls, entries: Iterable[FileEntry]) -> FileEntries:
        """Return some entries, sorted by path."""
        entries = list(entries)
        return cls(_split([EntryTable.from_entries(entries)]) if entries else ())

    @cached_property
    def _ends(self) -> list[int]:
        return np.cumsum([segment.summary.num_files for segment in self.segments]).tolist()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self._ends[-1] if self.segments else 0

    @overload
    def __getitem__(self, at: int) -> FileEntry: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[FileEntry, ...]: ...

    def __getitem__(self, at: int | slice) -> FileEntry | tuple[FileEntry, ...]:
        if isinstance(at, slice):
            return tuple(self[i] for i in range(*at.indices(len(self))))
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"there are {len(self)} data files, not {at}")
        segment = bisect_right(self._ends, number)
        row = number - (self._ends[segment - 1] if segment else 0)
        return self.segments[segment].table.entries([row])[0]

    def __iter__(self) -> Iterator[FileEntry]:
        for segment in self._fetched(self.segments):
            yield from segment.table.entries()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileEntries | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<entries of {len(self)} data files>"

    def shared(self) -> dict[str, SharedIndexEntry]:
        """Return the entries of shared indexes by id, in the order of the data files that name them."""
        return {item.id: item for segment in self.segments for item in segment.summary.shared}

    def own_bytes(self, index_id: str) -> int:
        """Return the total length of an index's files that cover a single data file, in bytes."""
        summaries = (segment.summary.indexes.get(index_id) for segment in self.segments)
        return sum(item.length for item in summaries if item is not None)

    def num_covered(self, index_id: str) -> int:
        """Return the number of data files that an index covers.

        Raises:
            StoreError: if segments cannot be read.
        """
        return sum(
            int(segment.table.is_covered(index_id).sum())
            for segment in self._fetched([item for item in self.segments if item.has_index(index_id)])
        )

    def difference(self, other: FileEntries) -> FileEntries:
        """Return the entries of the segments that ``other`` does not have."""
        others = set(other.segments)
        return FileEntries([segment for segment in self.segments if segment not in others])

    def own_paths(self) -> Iterator[str]:
        """Yield the index files of single data files, and the files with copies of their metadata."""
        for segment in self._fetched(self.segments):
            yield from segment.file_paths()

    def updated(self, changes: Mapping[str, FileEntry | None]) -> FileEntries:
        """Return the entries with those of some paths added or replaced, or removed if the change is None.

        Segments without such a path are not changed.
        """
        firsts = [segment.summary.first for segment in self.segments]
        touched: dict[int, dict[str, FileEntry | None]] = {}
        for path, entry in changes.items():
            touched.setdefault(max(bisect_right(firsts, path) - 1, 0), {})[path] = entry

        self.fetch([self.segments[at] for at in touched if at < len(self.segments)])
        if not self.segments and touched:
            return FileEntries.from_entries(
                entry for _, entry in sorted(changes.items()) if entry is not None
            )
        return self._replace_segments(lambda at, table: table.updated(touched[at]), touched)

    def without_index(self, index_id: str, paths: Collection[str] | None = None) -> FileEntries:
        """Return the entries without the files of an index for some data files, or for all.

        Data files without any other index are removed.
        """
        touched = [at for at, segment in enumerate(self.segments) if segment.has_index(index_id)]
        self.fetch([self.segments[at] for at in touched])
        ordered = None if paths is None else sorted(paths)

        def change(at: int, table: EntryTable) -> EntryTable:
            files = np.full(len(table), ordered is None)
            if ordered is not None:
                start, end = bisect_left(ordered, table.path(0)), bisect_right(ordered, table.path(-1))
                rows = table.find(string_array(ordered[start:end]))
                files[rows[rows >= 0]] = True
            return table.without_index(index_id, files)

        return self._replace_segments(change, touched)

    def find(self, paths: Iterable[str]) -> dict[str, FileEntry]:
        """Return the entries of the paths that have one."""
        firsts = [segment.summary.first for segment in self.segments]
        paths_by_segment: dict[int, list[str]] = {}
        for path in paths:
            at = bisect_right(firsts, path) - 1
            if at >= 0 and path <= self.segments[at].summary.last:
                paths_by_segment.setdefault(at, []).append(path)
        by_path: dict[str, FileEntry] = {}
        for at, segment in zip(
            paths_by_segment, self._fetched([self.segments[at] for at in paths_by_segment]), strict=True
        ):
            rows = segment.table.find(string_array(paths_by_segment[at]))
            by_path.update((entry.path, entry) for entry in segment.table.entries(rows[rows >= 0]))
        return by_path

    def _replace_segments(
        self, change: Callable[[int, EntryTable], EntryTable], touched: Collection[int]
    ) -> FileEntries:
        """Return the entries with some segments changed; adjacent changed segments are joined.

        Args:
            change: returns the table itself if nothing changes.
            touched: the numbers of the segments to change.
        """
        segments_after: list[Segment] = []
        pending: list[EntryTable] = []
        for at, segment in enumerate(self.segments):
            table = change(at, segment.table) if at in touched else None
            if table is not None and table is not segment.table:
                pending.append(table)
            elif pending and _is_small(sum(map(len, pending)), segment):
                # few entries join the segment after them, so that segments do not get small
                pending.append(segment.table)
            else:
                segments_after += [*_split(pending), segment]
                pending = []
        if segments_after and pending and _is_small(sum(map(len, pending)), segments_after[-1]):
            pending.insert(0, segments_after.pop().table)
        segments_after += _split(pending)
        is_changed = any(a is not b for a, b in zip_longest(segments_after, self.segments))
        return FileEntries(segments_after) if is_changed else self

    def fetch(self, segments: Sequence[Segment] | None = None) -> None:
        """Read and decode some segments, or all, so that no later use can fail.

        Raises:
            StoreError: if one cannot be read or is corrupt.
        """
        for segment in self._fetched(self.segments if segments is None else segments):
            _ = segment.table

    def _fetched(self, segments: Sequence[Segment]) -> Iterator[Segment]:
        """Yield segments in order; those that are not in memory are read several at a time."""
        for start in range(0, len(segments), _READ_TOGETHER):
            together = segments[start : start + _READ_TOGETHER]
            Segment.fetch(segment for segment in together if not segment.is_read)
            yield from together


def _is_small(num_files: int, neighbour: Segment) -> bool:
    """Return True if some entries are few enough to join a neighbouring segment, and fit into it."""
    return 0 < num_files < SEGMENT_FILES // 4 and neighbour.summary.num_files < SEGMENT_FILES


def _split(tables: Sequence[EntryTable]) -> list[Segment]:
    """Join consecutive tables, and split them into segments of about the same length within the limits."""
    tables = [table for table in tables if len(table)]
    if not tables:
        return []
    parts = EntryTable.concat(tables).split(SEGMENT_FILES, SEGMENT_RAW_BYTES)
    return [Segment.from_table(part) for part in parts]
