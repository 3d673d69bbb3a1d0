"""The entries of all data files of a manifest: a sequence whose segments are read on demand."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias, overload

import google_crc32c
import numpy as np

from hindex.errors import StoreError
from hindex.index.column_stats import Int64s
from hindex.store.entry_table import EntryTable, string_array
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
    raw_size,
    summarize,
)

#: Greatest number of data files in a segment: a commit rewrites at most so many entries for each changed file.
SEGMENT_FILES = 2048
#: Approximate limit of their uncompressed bytes, well below `MAX_RAW_BYTES`.
SEGMENT_RAW_BYTES = MAX_RAW_BYTES // 2
# bytes of a row in the columns of an index
_COLUMN_BYTES = 64

# an entry of so many in a segment is worth making without the others
_MOST = 4

# segments that are read at once
_READ_TOGETHER = 64

#: Reads segments: the bytes of each, in order, or raises StoreError.
Load: TypeAlias = Callable[[Sequence[StoredSegment]], Sequence[bytes]]


class Segment:
    """A run of entries sorted by path, either in memory or read on demand. Immutable.

    Attributes:
        summary: its summary, available without a read.
        stored: the file that holds it, if there is one.
    """

    def __init__(
        self,
        summary: Summary,
        stored: StoredSegment | None,
        load: Load | None,
        *,
        data: bytes | None = None,
        entries: tuple[FileEntry, ...] | None = None,
    ) -> None:
        self.summary = summary
        self.stored = stored
        self._load = load
        self._data = data
        self._entries = entries
        self._table: EntryTable | None = None

    @classmethod
    def from_entries(cls, entries: Sequence[FileEntry]) -> Segment:
        """Make a segment of at least one entry."""
        return cls(summarize(entries), None, None, entries=tuple(entries))

    @property
    def is_read(self) -> bool:
        """Return True if its entries are in memory."""
        return self._entries is not None or self._table is not None

    @property
    def data(self) -> bytes:
        """Its bytes.

        Raises:
            StoreError: if it cannot be read, or is more than a segment may be.
        """
        # threads share segments: another thread may drop the bytes at any time
        data, entries = self._data, self._entries
        if data is not None:
            return data
        if entries is None:
            return self.fetch([self])[0]
        data = encode_segment(entries)
        try:
            check_size(data)
        except ValueError as error:
            raise StoreError(
                f"the index entries of data files {entries[0].path!r} to {entries[-1].path!r} cannot be recorded: "
                f"{error}; nothing was changed. Drop an index, or rewrite these files with fewer stripes"
            ) from error
        self._data = data
        return data

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """Its entries, as objects that are made at their first use.

        Raises:
            StoreError: if it cannot be read or is corrupt.
        """
        entries = self._entries
        if entries is None:
            self._entries = entries = self.table.entries()
        return entries

    @property
    def table(self) -> EntryTable:
        """Its entries as columns, decoded at their first use.

        Raises:
            StoreError: as `entries`.
        """
        table = self._table
        if table is None:
            with self._as_corrupt():
                batch = decode_segment(self.data)
                counts = {index_id: item.num_files for index_id, item in self.summary.indexes.items()}
                if (batch.num_rows, batch_indexes(batch)) != (self.summary.num_files, counts):
                    raise ValueError("it contradicts the manifest's summary")
                table = EntryTable(batch, self.summary.shared)
                if (table.path(0), table.path(-1)) != (self.summary.first, self.summary.last):
                    raise ValueError("its paths are not those in the manifest")
            self._table = table
            if self.stored is not None:
                self._data = None  # it can be read again
        return table

    def some_entries(self, rows: Sequence[int] | Int64s) -> Sequence[FileEntry]:
        """Return the entries of some rows."""
        entries = self._entries
        if entries is None and len(rows) * _MOST < self.summary.num_files:
            return self.table.entries(rows)
        entries = self.entries
        return [entries[row] for row in rows]

    def file_paths(self) -> list[str]:
        """Return the index files of single data files, and the files with copies of their metadata.

        Raises:
            StoreError: as `entries`.
        """
        entries = self._entries
        if entries is not None:
            paths = [file.path for entry in entries for file in entry.index_files]
            return paths + [entry.metadata.path for entry in entries if entry.metadata is not None]
        with self._as_corrupt():
            return file_paths(self.data)

    def keep(self, stored: StoredSegment, load: Load) -> None:
        """Set the file that it was written to."""
        self.stored, self._load, self._data = stored, load, None

    @staticmethod
    def fetch(segments: Iterable[Segment]) -> list[bytes]:
        """Return the bytes of segments, which keep them; those that are missing are read together."""
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
        """Name the segment in errors about its bytes."""
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
    """Entries of data files in ascending order of path, in segments. Immutable, equal to any sequence of the same."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = tuple(segments)

    @classmethod
    def from_entries(cls, entries: Iterable[FileEntry]) -> FileEntries:
        """Given entries, sorted by path."""
        return cls(_split(list(entries)))

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
        return self.segments[segment].entries[number - (self._ends[segment - 1] if segment else 0)]

    def __iter__(self) -> Iterator[FileEntry]:
        for segment in self._fetched(self.segments):
            yield from segment.entries

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FileEntries):
            if self._stored() == other._stored() and None not in self._stored():
                return True
        elif not isinstance(other, tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<entries of {len(self)} data files>"

    def _stored(self) -> list[StoredSegment | None]:
        return [segment.stored for segment in self.segments]

    def shared(self) -> dict[str, SharedIndexEntry]:
        """Everything that covers several data files, by id, in the order of these."""
        return {item.id: item for segment in self.segments for item in segment.summary.shared}

    def own_bytes(self, index_id: str) -> int:
        """Return the total length of an index's files that cover a single data file."""
        summaries = (segment.summary.indexes.get(index_id) for segment in self.segments)
        return sum(item.length for item in summaries if item is not None)

    def own_paths(self) -> Iterator[str]:
        """Yield the index files of single data files, and the files with copies of their metadata."""
        for segment in self._fetched(self.segments):
            yield from segment.file_paths()

    def updated(self, changes: Mapping[str, FileEntry | None]) -> FileEntries:
        """Return the entries with those of some paths added or replaced, or removed if the change is None.

        Segments without such a path are kept as they are.
        """
        firsts = [segment.summary.first for segment in self.segments]
        touched: dict[int, dict[str, FileEntry | None]] = {}
        for path, entry in changes.items():
            touched.setdefault(max(bisect_right(firsts, path) - 1, 0), {})[path] = entry

        def change(at: int, segment: Segment | None) -> Sequence[FileEntry] | None:
            if at not in touched:
                return None
            by_path: dict[str, FileEntry | None] = {}
            if segment is not None:
                by_path.update((item.path, item) for item in segment.entries)
            by_path.update(touched[at])
            changed = tuple(item for _, item in sorted(by_path.items()) if item is not None)
            return None if segment is not None and changed == segment.entries else changed

        return self._replace_segments(change)

    def mapped(
        self, change: Callable[[FileEntry], FileEntry | None], needed: Callable[[Segment], bool]
    ) -> FileEntries:
        """Return the entries with each changed, or removed if the change is None.

        Other segments than the needed ones stay.
        """

        def change_all(at: int, segment: Segment | None) -> Sequence[FileEntry] | None:
            if segment is None or not needed(segment):
                return None
            changed = [change(item) for item in segment.entries]
            if all(a is b for a, b in zip(changed, segment.entries, strict=True)):
                return None
            return [item for item in changed if item is not None]

        return self._replace_segments(change_all)

    def find(self, paths: Iterable[str]) -> dict[str, FileEntry]:
        """Return the entries of those paths that have one."""
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
            by_path.update((entry.path, entry) for entry in segment.some_entries(rows[rows >= 0]))
        return by_path

    def _replace_segments(
        self, change: Callable[[int, Segment | None], Sequence[FileEntry] | None]
    ) -> FileEntries:
        """Return the entries with segments replaced where ``change`` returns any; changed neighbours are joined."""
        segments_after: list[Segment] = []
        pending: list[FileEntry] = []
        segments: Sequence[Segment | None] = self.segments or (None,)
        for at, segment in enumerate(segments):
            entries = change(at, segment)
            if entries is not None:
                pending += entries
            elif segment is not None:
                # few entries join the segment after them, so that segments do not get small
                if (
                    pending
                    and len(pending) < SEGMENT_FILES // 4
                    and segment.summary.num_files < SEGMENT_FILES
                ):
                    pending += segment.entries
                    continue
                segments_after += _split(pending)
                pending = []
                segments_after.append(segment)
        if (
            segments_after
            and 0 < len(pending) < SEGMENT_FILES // 4
            and segments_after[-1].summary.num_files < SEGMENT_FILES
        ):
            pending = [*segments_after.pop().entries, *pending]
        segments_after += _split(pending)
        same = len(segments_after) == len(self.segments) and all(
            a is b for a, b in zip(segments_after, self.segments, strict=True)
        )
        return self if same else FileEntries(segments_after)

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


def _split(entries: Sequence[FileEntry]) -> list[Segment]:
    """Split entries into segments of about the same length, none too long."""
    parts = -(-len(entries) // SEGMENT_FILES)
    cuts = [len(entries) * part // parts for part in range(parts + 1)] if parts else []
    return [
        Segment.from_entries(some) for start, end in pairwise(cuts) for some in _light(entries[start:end])
    ]


def _light(entries: Sequence[FileEntry]) -> Iterator[Sequence[FileEntry]]:
    """Yield runs of entries that fit a segment: more than one if files have very many stripes."""
    columns = _COLUMN_BYTES * len({file.index_id for entry in entries for file in entry.index_files})
    start = size_so_far = 0
    schemas: set[str] = set()
    for at, entry in enumerate(entries):
        own = raw_size(entry) + columns
        size = own + (0 if entry.schema in schemas else len(entry.schema))
        if size_so_far and size_so_far + size > SEGMENT_RAW_BYTES:
            yield entries[start:at]
            start, size_so_far, schemas = at, 0, set()
            size = own + len(entry.schema)
        size_so_far += size
        schemas.add(entry.schema)
    yield entries[start:]
