"""The manifest entries of a segment as columns: planning compares all files of a segment at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.index.column_stats import Int64s, Mask, StatsColumn, StoredStats
from hindex.keys import KeyKind
from hindex.lru_cache import cached_property
from hindex.store.segment import (
    INDEX_PREFIX,
    METADATA_COLUMN,
    STATS_PREFIX,
    FileEntry,
    IndexFileEntry,
    IndexSummary,
    MetadataCopy,
    SharedIndexEntry,
    Summary,
    batch_indexes,
    concat_batches,
    decode_segment,
    entry_batch,
    file_paths,
    int64_array,
    string_array,
    take_rows,
    with_nulls,
)

#: A path that `hindex.store.segment.is_safe_path` refuses.
_UNSAFE = r"(^|/)\.{0,2}(/|$)|\x00"
#: If a sum in floating point is below this, the sum of the integers does not exceed 64 bits.
_SAFE_SUM = 2.0**62


class EntryTable:
    """The entries of a segment. Immutable; an object is made for an entry only when it is needed.

    Args:
        batch: the columns, as `hindex.store.segment.entry_batch` returns them.
        shared: the entries of shared indexes that its rows may name.

    Attributes:
        paths: the paths of the files, ascending.
        stripe_ends: for each file, the number of its last stripe plus 1, counted through all files.
        stripe_rows: the rows of each stripe, through all files.
        schemas: the distinct types of the files, as strings.
        schema_numbers: for each file, the number of its type among them.
    """

    def __init__(self, batch: pa.RecordBatch, shared: Iterable[SharedIndexEntry]) -> None:
        self.batch = batch
        self._shared = {item.id: item for item in shared}
        self.paths: pa.StringArray = batch.column("path")
        self.lengths = _int64s(batch.column("length"))
        self.mtimes_ns = _int64s(batch.column("mtime_ns"))
        self.changed_ns = _int64s(batch.column("changed_ns"))
        self.tail_checksums = _int64s(batch.column("tail_checksum"))
        self.num_rows = _int64s(batch.column("num_rows"))
        self.num_row_groups = _int64s(batch.column("num_row_groups"))
        stripes = batch.column("stripe_rows")
        offsets = _int64s(stripes.offsets)
        self.stripe_ends: Int64s = offsets[1:] - offsets[0]
        self.num_stripes: Int64s = np.diff(offsets)
        self.stripe_rows = _int64s(stripes.flatten())
        schema = batch.column("schema")
        self.schemas: list[str] = schema.dictionary.to_pylist()
        self.schema_numbers = _int64s(schema.indices)
        self.lacks_time_zone = _mask(batch.column("lacks_time_zone"))

    @classmethod
    def decode(cls, data: bytes, shared: Iterable[SharedIndexEntry]) -> EntryTable:
        """Decode a segment.

        Raises:
            ValueError: if it is not a segment, a row is inconsistent, or a path leaves the table or store.
        """
        table = cls(decode_segment(data), shared)
        table._check()
        return table

    @classmethod
    def from_entries(cls, entries: Sequence[FileEntry]) -> EntryTable:
        """Return the columns of entries, which are sorted by path."""
        return cls(
            entry_batch(entries), {item.id: item for entry in entries for item in entry.shared}.values()
        )

    @classmethod
    def concat(cls, tables: Sequence[EntryTable]) -> EntryTable:
        """Concatenate one or more tables, whose ranges of paths are ascending."""
        if len(tables) == 1:
            return tables[0]
        shared = {item.id: item for table in tables for item in table.shared}
        return cls(concat_batches([table.batch for table in tables]), shared.values())

    @property
    def shared(self) -> tuple[SharedIndexEntry, ...]:
        """The shared entries that its rows name, in this order."""
        return tuple(self._shared[id_] for id_ in self._shared_ids[0])

    def summary(self) -> Summary:
        """Return the summary of the entries. There must be at least one."""
        indexes = {}
        for index_id in sorted(batch_indexes(self.batch)):
            column = self.batch.column(INDEX_PREFIX + index_id)
            num_bytes = sum(column.field("length").filter(column.is_valid()).to_pylist())
            indexes[index_id] = IndexSummary(len(column) - column.null_count, num_bytes)
        return Summary(len(self), self.path(0), self.path(-1), self.shared, indexes)

    def take(self, rows: Int64s) -> EntryTable:
        """Return the entries of some rows, which are ascending."""
        return EntryTable(take_rows(self.batch, int64_array(rows)), self._shared.values())

    def split(self, max_files: int, max_bytes: int) -> Iterator[EntryTable]:
        """Split the table into tables with about the same number of entries, within limits of files and bytes."""
        parts = max(-(-len(self) // max_files), min(2, len(self)) if self.batch.nbytes > max_bytes else 1)
        if parts == 1:
            yield self
            return
        cuts = [len(self) * part // parts for part in range(parts + 1)]
        for start, end in pairwise(cuts):
            yield from self.take(np.arange(start, end)).split(max_files, max_bytes)

    def updated(self, changes: Mapping[str, FileEntry | None]) -> EntryTable:
        """Return the table with the entries of some paths added or replaced, or removed if the change is None.

        Return the table itself if nothing changes.
        """
        paths = sorted(changes)
        rows = self.find(string_array(paths))
        before = {entry.path: entry for entry in self.entries(rows[rows >= 0])}
        if all(before.get(path) == entry for path, entry in changes.items()):
            return self
        is_kept = np.ones(len(self), np.bool_)
        is_kept[rows[rows >= 0]] = False
        added = EntryTable.from_entries([entry for path in paths if (entry := changes[path]) is not None])
        joined = concat_batches([self.batch.take(int64_array(np.flatnonzero(is_kept))), added.batch])
        order = pc.sort_indices(joined.column("path")).cast(pa.int64())
        return EntryTable(take_rows(joined, order), [*self._shared.values(), *added.shared])

    def without_index(self, index_id: str, files: Mask) -> EntryTable:
        """Return the table without the index files of an index for some data files.

        Data files without any other index are removed. Return the table itself if nothing changes.
        """
        batch = self.batch
        files = files & self.is_covered(index_id)
        if not files.any():
            return self
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in (INDEX_PREFIX + index_id, STATS_PREFIX + index_id):
            if name in columns:
                columns[name] = with_nulls(columns[name], name, files)
        if self.has_shared[files].any():
            columns["shared"] = self._shared_without(index_id, files)
        batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
        changed = EntryTable(batch, self._shared.values())
        is_needed = changed.has_shared
        for other in batch_indexes(batch):
            is_needed = is_needed | changed.has_own_file(other)
        return changed.take(np.flatnonzero(is_needed))

    def _shared_without(self, index_id: str, files: Mask) -> pa.ListArray:
        """Return the ids of shared entries without those of an index for some data files."""
        column = self.batch.column("shared")
        ids, numbers = self._shared_ids
        is_of_index = np.array([self._shared[id_].index_id == index_id for id_ in ids], np.bool_)
        counts = np.diff(_int64s(column.offsets))
        is_kept = ~(is_of_index[numbers] & np.repeat(files, counts))
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(is_kept)])
        # the values begin at the first offset
        offsets = int64_array(ends[_int64s(column.offsets) - int(column.offsets[0].as_py())])
        kept = column.flatten().take(int64_array(np.flatnonzero(is_kept)))
        return pa.ListArray.from_arrays(offsets.cast(pa.int32()), kept)

    def file_paths(self) -> list[str]:
        """Return the index files of single data files, and the files with copies of their metadata."""
        return file_paths(self.batch)

    def __len__(self) -> int:
        return len(self.paths)

    def _check(self) -> None:
        self._check_paths("data file name", self.paths, "leaves the table")
        behind = pc.less_equal(self.paths[1:], self.paths[:-1])
        for at in pc.indices_nonzero(behind).to_pylist()[:1]:
            raise ValueError(f"data file {self.paths[at + 1].as_py()!r} is out of order or occurs twice")
        for at in np.flatnonzero(self._row_sums() != self.num_rows)[:1]:
            rows = self.batch.column("num_rows")[int(at)]
            raise ValueError(f"the stripes of {self.path(at)!r} do not add up to its {rows} rows")
        for at in np.flatnonzero(self.num_row_groups.view(np.uint64) > self.num_rows.view(np.uint64))[:1]:
            raise ValueError(
                f"{self.path(at)!r} has {self.num_row_groups[at]} row groups of {self.num_rows[at]} rows"
            )
        names, _ = self._shared_ids
        for id_ in names:
            if id_ not in self._shared:
                raise ValueError(f"data file {self._names(id_)!r} names a shared index that is not there")
        for index_id in batch_indexes(self.batch):
            column = self.batch.column(INDEX_PREFIX + index_id)
            files = column.field("path").filter(column.is_valid())
            self._check_paths("index file name", files, "leaves the store")
        if METADATA_COLUMN in self.batch.schema.names:
            column = self.batch.column(METADATA_COLUMN)
            self._check_paths("file name", column.field("path").filter(column.is_valid()), "leaves the store")
        for index_id in batch_indexes(self.batch):
            self.stats(index_id)

    @staticmethod
    def _check_paths(kind: str, paths: pa.StringArray, problem: str) -> None:
        for path in paths.filter(pc.match_substring_regex(paths, _UNSAFE)).to_pylist()[:1]:
            raise ValueError(f"{kind} {path!r} {problem}")

    def _row_sums(self) -> Int64s:
        rows = self.stripe_rows.view(np.uint64)
        if rows.sum(dtype=np.float64) >= _SAFE_SUM:
            # only damaged segments have so many rows; a sum beyond 64 bits equals no stored value
            sums = [sum(rows.tolist()[a:b]) for a, b in self._stripe_slices()]
            return np.array([item if item < 1 << 63 else -1 for item in sums], np.int64)
        return _sums(self.stripe_rows, self.stripe_ends)

    def _stripe_slices(self) -> Iterator[tuple[int, int]]:
        ends = self.stripe_ends.tolist()
        return zip([0, *ends[:-1]], ends, strict=True)

    def _names(self, id_: str) -> str:
        path: str = next(
            path
            for path, ids in zip(self.paths.to_pylist(), self.batch.column("shared").to_pylist(), strict=True)
            if id_ in ids
        )
        return path

    def path(self, at: int) -> str:
        """Return the path of one data file."""
        path: str = self.paths[int(at)].as_py()
        return path

    @cached_property
    def _shared_ids(self) -> tuple[list[str], Int64s]:
        """The distinct ids of shared entries, and for each name in the column the number of its id."""
        encoded = self.batch.column("shared").flatten().dictionary_encode()
        return encoded.dictionary.to_pylist(), _int64s(encoded.indices)

    def shared_of(self, index_id: str) -> tuple[list[SharedIndexEntry], Int64s]:
        """Return the shared entries of an index, and for each file the number of its entry among them, or -1."""
        ids, numbers = self._shared_ids
        entries = [self._shared[id_] for id_ in ids]
        own = [item for item in entries if item.index_id == index_id]
        is_own = np.array([item.index_id == index_id for item in entries], np.bool_)
        number_of = np.where(is_own, np.cumsum(is_own) - 1, -1)
        result = np.full(len(self), -1, np.int64)
        if own:
            files = np.repeat(np.arange(len(self)), np.diff(_int64s(self.batch.column("shared").offsets)))
            named = number_of[numbers] >= 0
            result[files[named]] = number_of[numbers][named]
        return own, result

    @cached_property
    def has_shared(self) -> Mask:
        """A mask of the files that are covered by a shared index."""
        return np.diff(_int64s(self.batch.column("shared").offsets)) > 0

    @cached_property
    def versions(self) -> list[str | None] | None:
        """The version of each file whose metadata was copied; None if there are no copies."""
        if METADATA_COLUMN not in self.batch.schema.names:
            return None
        column = self.batch.column(METADATA_COLUMN)
        return pc.if_else(column.is_valid(), column.field("version"), None).to_pylist()  # type: ignore[no-any-return]

    @cached_property
    def _stats(self) -> dict[str, tuple[StatsColumn, Int64s]]:
        return {}

    def stats(self, index_id: str) -> tuple[StatsColumn, Int64s] | None:
        """Return the statistics of an index, and for each file its number in them, or -1; None if it has none."""
        pair = self._stats.get(index_id)
        if pair is None and STATS_PREFIX + index_id in self.batch.schema.names:
            column = self.batch.column(STATS_PREFIX + index_id)
            is_valid, stripe_rows = column.is_valid(), self.batch.column("stripe_rows")
            if column.null_count:
                column, stripe_rows = column.filter(is_valid), stripe_rows.filter(is_valid)
            stats = StatsColumn(column, stripe_rows)
            flags = _mask(is_valid)
            pair = self._stats[index_id] = stats, np.where(flags, np.cumsum(flags) - 1, -1)
        return pair

    def has_own_file(self, index_id: str) -> Mask:
        """Return a mask of the data files that have an own file of an index."""
        name = INDEX_PREFIX + index_id
        if name not in self.batch.schema.names:
            return np.zeros(len(self), np.bool_)
        return _mask(self.batch.column(name).is_valid())

    def is_covered(self, index_id: str) -> Mask:
        """Return a mask of the data files that an index covers, by an own or a shared index file."""
        return self.has_own_file(index_id) | (self.shared_of(index_id)[1] >= 0)

    def has_index_file(self, index_id: str, kind: KeyKind | None) -> Mask:
        """Return a mask of the data files with an own index file whose statistics, if any, have keys of a kind."""
        result = self.has_own_file(index_id)
        stats = self.stats(index_id)
        if stats is not None:
            column, numbers = stats
            # number -1 selects this last element
            fits = np.append(column.has_keys_of(kind), [True])
            result &= fits[numbers]
        return result

    def find(self, paths: pa.StringArray) -> Int64s:
        """Return the row of each path, or -1."""
        numbers = pc.index_in(paths, value_set=self.paths)
        rows = np.full(len(paths), -1, np.int64)
        # fill_null would import pandas
        rows[_mask(numbers.is_valid())] = _int64s(numbers.drop_null())
        return rows

    def entries(self, rows: Sequence[int] | Int64s | None = None) -> tuple[FileEntry, ...]:
        """Return the entries of some rows, or of all."""
        # statistics are read where they are needed
        batch = self.batch.select(
            [name for name in self.batch.schema.names if not name.startswith(STATS_PREFIX)]
        )
        numbers = list(range(len(self))) if rows is None else [int(row) for row in rows]
        if rows is not None:
            batch = batch.take(int64_array(np.array(numbers, np.int64)))
        plain = [_values(batch.column(name)) for name in _PLAIN_NAMES]
        own = self._index_files(batch, numbers)
        copies = _metadata_copies(batch)
        by_id = self._shared
        return tuple(
            FileEntry(
                path,
                length,
                mtime,
                checksum,
                rows_of_file,
                tuple(stripes),
                schema,
                tuple(files),
                tuple([by_id[id_] for id_ in ids]) if ids else (),
                changed,
                groups,
                lacks_zone,
                metadata,
            )
            for (
                *(
                    path,
                    length,
                    mtime,
                    checksum,
                    rows_of_file,
                    stripes,
                    schema,
                    ids,
                    changed,
                    groups,
                    lacks_zone,
                ),
                files,
                metadata,
            ) in zip(*plain, own, copies, strict=True)
        )

    def _index_files(self, batch: pa.RecordBatch, rows: Sequence[int]) -> list[list[IndexFileEntry]]:
        own: list[list[IndexFileEntry]] = [[] for _ in rows]
        for index_id in sorted(batch_indexes(batch)):
            column = batch.column(INDEX_PREFIX + index_id)
            paths, lengths, checksums = (column.field(at).to_pylist() for at in range(3))
            stats = self.stats(index_id)
            for at, is_valid in enumerate(column.is_valid().to_pylist()):
                if is_valid:
                    number = -1 if stats is None else int(stats[1][rows[at]])
                    stored = () if stats is None or number < 0 else StoredStats(stats[0], number)
                    own[at].append(IndexFileEntry(index_id, paths[at], lengths[at], checksums[at], stored))
        return own


_PLAIN_NAMES = (
    *("path", "length", "mtime_ns", "tail_checksum", "num_rows", "stripe_rows", "schema", "shared"),
    *("changed_ns", "num_row_groups", "lacks_time_zone"),
)


def _metadata_copies(batch: pa.RecordBatch) -> list[MetadataCopy | None]:
    if METADATA_COLUMN not in batch.schema.names:
        return [None] * batch.num_rows
    return [None if row is None else MetadataCopy(**row) for row in batch.column(METADATA_COLUMN).to_pylist()]


def _values(array: pa.Array) -> list[Any]:
    """Return the values of an array; equal values of a dictionary array are one object."""
    if not pa.types.is_dictionary(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    dictionary = array.dictionary.to_pylist()
    return [dictionary[at] for at in array.indices.to_pylist()]


def _int64s(array: pa.Array) -> Int64s:
    """Return integers without nulls in 64 bits, as two's complement; Arrow's own conversion would import pandas."""
    numbers: npt.NDArray[Any] = np.from_dlpack(array)
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64, copy=False)


def _mask(array: pa.BooleanArray) -> Mask:
    return np.from_dlpack(array.cast(pa.uint8())).astype(np.bool_)


def _sums(values: Int64s, ends: Int64s) -> Int64s:
    """Return the sums of runs of values."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    differences: Int64s = np.diff(sums[np.concatenate([np.zeros(1, np.int64), ends])])
    return differences
