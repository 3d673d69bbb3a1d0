"""Data files with their manifest entries, as columns: freshness is compared for all files at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias, overload

import numpy as np

from hindex.lru_cache import cached_property
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.metadata.types import OrcType
from hindex.store.entries import FileEntries, Segment
from hindex.store.entry_table import EntryTable
from hindex.store.segment import FileEntry, MetadataCopy, int64_array, string_array
from hindex.table.file_schema import stored_columns, stored_type
from hindex.table.listing import DataFile, DataFiles, Int64s, Mask
from hindex.value_class import value_class

Columns: TypeAlias = tuple[tuple[str, OrcType], ...]

#: The columns of `FileViews` with a value for each file, and all arguments of its constructor.
_COLUMNS = (
    *("segment_numbers", "rows", "tail_checksums"),
    *("kind_numbers", "num_rows", "num_stripes", "num_row_groups"),
)
_ARGUMENTS = ("files", "segments", "kinds", *_COLUMNS)

#: The number of views that an iteration makes at once.
_CHUNK = 4096


@value_class
class FileKind:
    """The schema of data files that have the same columns.

    Attributes:
        columns: the file's own columns with their types; for the ACID schema, the user's columns.
        names: the names of these columns.
        is_flat: False for files of the ACID schema.
    """

    columns: Columns
    names: tuple[str, ...]
    is_flat: bool = True

    def has_column(self, binding: tuple[str, ...], column: str) -> bool:
        """Return True if a file has a column of the table, or a field within a struct by its dotted path.

        Args:
            binding: the table's data columns.
        """
        if column in binding:
            return column in stored_columns(binding, self.names)
        return stored_type(binding, self.columns, column) is not None


@value_class
class FileView:
    """One data file in its current state.

    Attributes:
        entry: its manifest entry, fresh or stale; None if it has none.
        num_row_groups: 0 also if an older build recorded the file.
        tail_checksum: the checksum of its current tail, if that was read.
        is_listed_fresh: whether length and time, and the checksum of the tail if it was read, are the recorded
            ones. A checksum that was not read is compared when a task opens the file.
        is_replaced: whether the tail differs from the recorded one, although length and time are the same.
        has_recorded_version: whether its store lists the version whose metadata was copied, so that it has the
            recorded tail.
        is_certainly_fresh: whether it is certainly the recorded file, without opening it.
    """

    file: DataFile
    entry: FileEntry | None
    kind: FileKind = field(repr=False)
    num_rows: int = 0
    num_stripes: int = 0
    num_row_groups: int = 0
    tail_checksum: int | None = None
    is_listed_fresh: bool = False
    is_replaced: bool = False
    has_recorded_version: bool = False
    is_certainly_fresh: bool = False

    @property
    def metadata_copy(self) -> MetadataCopy | None:
        """The copy of the file's metadata; None if there is none, or it is of another version."""
        return self.entry.metadata if self.entry is not None and self.has_recorded_version else None

    @property
    def names(self) -> tuple[str, ...]:
        """The file's own columns."""
        return self.kind.names

    @property
    def columns(self) -> Columns:
        """The file's own columns with their types."""
        return self.kind.columns


class FileViews(Sequence[FileView]):
    """The data files of a table with their manifest entries, as columns. Immutable.

    Args:
        segments: the segments of manifest entries.
        segment_numbers: for each file, the number of the segment with its entry, or -1.
        rows: for each file, the row of its entry in the segment.
        tail_checksums: for each file, the checksum of its tail, or -1 if it was not read.
        kinds: the distinct kinds of the files.
        kind_numbers: for each file, the number of its kind.
    """

    def __init__(
        self,
        files: DataFiles,
        segments: Sequence[Segment],
        segment_numbers: Int64s,
        rows: Int64s,
        tail_checksums: Int64s,
        kinds: Sequence[FileKind] = (),
        kind_numbers: Int64s | None = None,
        num_rows: Int64s | None = None,
        num_stripes: Int64s | None = None,
        num_row_groups: Int64s | None = None,
    ) -> None:
        nothing = np.zeros(len(files), np.int64)
        self.files = files
        self.segments = segments
        self.segment_numbers = segment_numbers
        self.rows = rows
        self.tail_checksums = tail_checksums
        self.kinds = kinds or (FileKind((), ()),)
        self.kind_numbers = nothing if kind_numbers is None else kind_numbers
        self.num_rows = nothing if num_rows is None else num_rows
        self.num_stripes = nothing if num_stripes is None else num_stripes
        self.num_row_groups = nothing if num_row_groups is None else num_row_groups

    @classmethod
    def matched(
        cls,
        files: DataFiles,
        entries: FileEntries,
        *,
        only_listed: bool = False,
    ) -> tuple[FileViews, list[str]]:
        """Return the files with their entries, and the paths of entries without a file.

        Args:
            only_listed: read only the entries of the files, and return no other paths.

        Raises:
            StoreError: if entries cannot be read.
        """
        segment_numbers, rows = np.full(len(files), -1, np.int64), np.zeros(len(files), np.int64)
        others: list[str] = []
        spans: list[tuple[int, Segment, int, int]] = []
        start = 0
        for number, segment in enumerate(entries.segments):
            # both are sorted
            start = bisect_left(files.paths, segment.summary.first, start)
            end = bisect_right(files.paths, segment.summary.last, start)
            if start < end or not only_listed:
                spans.append((number, segment, start, end))
            start = end
        entries.fetch([segment for _, segment, _, _ in spans])
        for number, segment, start, end in spans:
            table = segment.table
            listed = string_array(files.paths[start:end])
            is_unchanged = listed.equals(table.paths)
            rows_of_listed = np.arange(len(table)) if is_unchanged else table.find(listed)
            if not (is_unchanged or only_listed):
                missing = np.ones(len(table), np.bool_)
                missing[rows_of_listed[rows_of_listed >= 0]] = False
                others += table.paths.take(int64_array(np.flatnonzero(missing))).to_pylist()
            segment_numbers[start:end] = np.where(rows_of_listed >= 0, number, -1)
            rows[start:end] = rows_of_listed
        unread = np.full(len(files), -1, np.int64)
        return cls(files, entries.segments, segment_numbers, rows, unread), others

    @classmethod
    def of(cls, views: Iterable[FileView]) -> FileViews:
        """Return the columns of some views, whose paths are ascending."""
        if isinstance(views, FileViews):
            return views
        views = list(views)
        entries = FileEntries.from_entries([view.entry for view in views if view.entry is not None])
        result, _ = cls.matched(DataFiles.of(view.file for view in views), entries)
        kinds: dict[FileKind, int] = {}
        numbers = [kinds.setdefault(view.kind, len(kinds)) for view in views]
        return result.with_contents(
            [-1 if view.tail_checksum is None else view.tail_checksum for view in views],
            list(kinds),
            numbers,
            [view.num_rows for view in views],
            [view.num_stripes for view in views],
            [view.num_row_groups for view in views],
        )

    def with_contents(
        self,
        tail_checksums: Sequence[int] | Int64s,
        kinds: Sequence[FileKind],
        kind_numbers: Sequence[int] | Int64s,
        num_rows: Sequence[int] | Int64s,
        num_stripes: Sequence[int] | Int64s,
        num_row_groups: Sequence[int] | Int64s,
    ) -> FileViews:
        """Return the files with their kinds, row counts and the checksums of their tails."""
        return self._with(
            tail_checksums=np.asarray(tail_checksums, np.int64),
            kinds=kinds,
            kind_numbers=np.asarray(kind_numbers, np.int64),
            num_rows=np.asarray(num_rows, np.int64),
            num_stripes=np.asarray(num_stripes, np.int64),
            num_row_groups=np.asarray(num_row_groups, np.int64),
        )

    def with_tail_checksums(self, tail_checksums: Int64s) -> FileViews:
        """Return the files with the checksums of their tails."""
        return self._with(tail_checksums=tail_checksums)

    def with_acids(self, acids: Mapping[int, AcidFile]) -> FileViews:
        """Return the files with other deletes and write ids, by position."""
        return self._with(files=self.files.with_acids(acids)) if acids else self

    def without_entries(self, positions: Mask | None = None) -> FileViews:
        """Return the files without the entries of some files, or of all."""
        numbers = np.full(len(self), -1, np.int64)
        return self._with(
            segment_numbers=numbers if positions is None else np.where(positions, -1, self.segment_numbers)
        )

    def _with(self, **changes: object) -> FileViews:
        # not a copy, which would keep masks that were computed from the old values
        arguments: dict[str, Any] = {name: getattr(self, name) for name in _ARGUMENTS} | changes
        return FileViews(**arguments)

    def take(self, positions: Int64s) -> FileViews:
        """Return some of the files, whose positions are ascending."""
        if len(positions) == len(self):
            return self
        columns = {name: getattr(self, name)[positions] for name in _COLUMNS}
        return self._with(files=self.files.take(positions), **columns)

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, at: int) -> FileView: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[FileView]: ...

    def __getitem__(self, at: int | slice) -> FileView | Sequence[FileView]:
        positions = range(len(self))[at]
        return self.views(positions) if isinstance(positions, range) else self.views([positions])[0]

    def __iter__(self) -> Iterator[FileView]:
        for start in range(0, len(self), _CHUNK):
            yield from self.views(range(start, min(start + _CHUNK, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileViews | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<{len(self)} data files>"

    def views(self, positions: Sequence[int] | Int64s) -> list[FileView]:
        """Return some of the files, as objects."""
        at = np.asarray(positions, np.int64)
        entries: list[FileEntry | None] = [None] * len(at)
        numbers, rows = self.segment_numbers[at], self.rows[at]
        for number in np.unique(numbers[numbers >= 0]).tolist():
            places = np.flatnonzero(numbers == number)
            some = self.segments[number].table.entries(rows[places])
            for place, entry in zip(places.tolist(), some, strict=True):
                entries[place] = entry
        numbers_of_files = (self.kind_numbers, self.num_rows, self.num_stripes, self.num_row_groups)
        masks = (self.is_listed_fresh, self.is_replaced, self.has_recorded_version, self.is_certainly_fresh)
        columns = (self.tail_checksums, *numbers_of_files, *masks)
        views = []
        for place, entry, checksum, kind_number, *numbers_and_flags in zip(
            at.tolist(), entries, *(column[at].tolist() for column in columns), strict=True
        ):
            file = self.files[place]
            num_rows, num_stripes, num_row_groups, *flags = numbers_and_flags
            views.append(
                FileView(
                    file,
                    entry,
                    self.kinds[kind_number],
                    num_rows,
                    num_stripes,
                    num_row_groups,
                    None if checksum < 0 else checksum,
                    *flags,
                )
            )
        return views

    def by_path(self, paths: Iterable[str]) -> dict[str, FileView]:
        """Return the views of some paths; unknown ones are left out."""
        positions = self.positions(paths)
        return {view.file.path: view for view in self.views(positions)}

    def positions(self, paths: Iterable[str]) -> list[int]:
        """Return the ascending positions of some paths; unknown ones are left out."""
        own, positions, at = self.files.paths, [], 0
        for path in sorted(set(paths)):
            # both ascend
            at = bisect_left(own, path, at)
            if at < len(own) and own[at] == path:
                positions.append(at)
        return positions

    def by_segment(self) -> Iterator[tuple[EntryTable, Int64s, Int64s]]:
        """Yield each segment with entries of the files, the positions of these files, and the rows of the entries."""
        order = np.argsort(self.segment_numbers, kind="stable")
        ends = np.searchsorted(self.segment_numbers[order], np.arange(len(self.segments) + 1))
        for number in np.flatnonzero(np.diff(ends)).tolist():
            at = order[ends[number] : ends[number + 1]]
            yield self.segments[number].table, at, self.rows[at]

    @cached_property
    def _has_recorded_status(self) -> Mask:
        """A mask of the files whose length and time are recorded."""
        result = np.zeros(len(self), np.bool_)
        for table, at, rows in self.by_segment():
            result[at] = (self.files.lengths[at] == table.lengths[rows]) & (
                self.files.mtimes_ns[at] == table.mtimes_ns[rows]
            )
        return result

    @cached_property
    def is_listed_fresh(self) -> Mask:
        """A mask as `FileView.is_listed_fresh`."""
        result = self._has_recorded_status.copy()
        for table, at, rows in self.by_segment():
            tails = self.tail_checksums[at]
            result[at] &= (tails < 0) | (tails == table.tail_checksums[rows])
        return result

    @cached_property
    def is_replaced(self) -> Mask:
        """A mask as `FileView.is_replaced`."""
        return self._has_recorded_status & ~self.is_listed_fresh

    @cached_property
    def has_recorded_version(self) -> Mask:
        """A mask as `FileView.has_recorded_version`."""
        result = np.zeros(len(self), np.bool_)
        versions = self.files.versions
        if versions is None:
            return result
        for table, at, rows in self.by_segment():
            if table.versions is not None:
                recorded = table.versions
                result[at] = [
                    recorded[row] is not None and recorded[row] == versions[place]
                    for place, row in zip(at.tolist(), rows.tolist(), strict=True)
                ]
        return result

    @cached_property
    def is_certainly_fresh(self) -> Mask:
        """A mask as `FileView.is_certainly_fresh`."""
        untouched = np.zeros(len(self), np.bool_)
        for table, at, rows in self.by_segment():
            untouched[at] = self.files.are_untouched_since(at, table.changed_ns[rows])
        return self.is_listed_fresh & ((self.tail_checksums >= 0) | self.has_recorded_version | untouched)
