"""The build of BTREE indexes: the plan of files to read and sets to merge, and the Spark job that sorts their entries.

An index has one set of files for the table, or for each partition. A refresh writes another set, for changed and new
data files. Many sets, or sets with mostly outdated entries, are merged.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hindex.build.btree_task import (
    WRITTEN_SCHEMA,
    BTreeJob,
    CopyTask,
    EntryTask,
    ReadTask,
    SortedPart,
    chunk_schema,
    entry_chunks,
    kept_locations,
    unpack_key,
    write_parts,
)
from hindex.build.task import open_version
from hindex.build.task_splitting import split_entry_tasks, task_bytes
from hindex.domain import Key
from hindex.errors import BuildError, HindexError
from hindex.index.btree import IndexedFile, first_locations
from hindex.index.column_stats import ColumnStats, Int64s, Mask
from hindex.index.reader_cache import open_btree_file
from hindex.keys import array_keys, key_list, list_elements
from hindex.orc import OrcReader, RowSelection
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.types import Kind
from hindex.plan.index_columns import IndexColumn
from hindex.progress import Progress
from hindex.spark.jobs import collect
from hindex.spark.tasks import cores, task_frame
from hindex.store.file_views import FileView
from hindex.store.manifest import FileEntry, IndexEntry, SharedFileEntry, SharedIndexEntry
from hindex.store.metadata_copy import FileVersion, batches_with_copies
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store
from hindex.table.file_schema import file_schema
from hindex.table.location import reading_pool
from hindex.table.partitions import NULL_PARTITION, PartitionColumn, RawPartition
from hindex.table.type_text import type_text
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Maximum number of index sets of a table or partition; a refresh merges more.
MAX_SETS = 8
#: Rows, or merged entries, for each index file of a set.
PART_ROWS = 4 << 20
#: Maximum number of files of a set.
MAX_PARTS = 1024
#: Maximum number of writing tasks, each of which may write several files, and number for each core: small files share
#: tasks.
MAX_WRITERS = 1000
_WRITERS_PER_CORE = 3

#: Maximum number of entries that a writer buffers if the keys of all runs overlap; it determines the size of chunks.
MAX_BUFFERED_ENTRIES = 8 << 20
#: Minimum and maximum number of entries of a chunk.
_CHUNK_ENTRIES = (128, 1024)

#: Number of sampled stripes, and of rows in each, from which the distribution of keys is estimated.
_SAMPLED_STRIPES = 32
_SAMPLED_ROWS = 512


@value_class
class BTreeGroup:
    """The data files of a table or partition for a new index set.

    Attributes:
        partition: the name of the partition's directory; None for the table.
        read: data files whose column is read.
        kept: data files whose entries are copied from ``merged``, the sets that are replaced.
    """

    partition: str | None
    read: tuple[FileView, ...]
    kept: tuple[FileView, ...] = ()
    merged: tuple[SharedIndexEntry, ...] = ()


@value_class
class BTreePlan:
    """The input and output of a build of one BTREE index.

    Attributes:
        versions: the versions of the data files in object stores, by path.
    """

    build_id: str
    index: IndexEntry
    on: IndexColumn
    binding: tuple[str, ...]
    store: Store
    groups: tuple[BTreeGroup, ...]
    versions: Mapping[str, FileVersion] = field(default_factory=dict)

    def open(self, view: FileView) -> OrcReader:
        """Open a data file in its planned version.

        Raises:
            OrcError: if it is not readable as ORC, or has another version.
        """
        file = view.file
        return open_version(file.uri, file.length, file.acid, self.versions.get(file.path))

    @property
    def directory(self) -> str:
        """Return the directory of the files, relative to the store."""
        return self.store.index_directory(self.index.id)

    @property
    def absolute_directory(self) -> str:
        return self.store.absolute(self.directory)

    @property
    def data_files(self) -> frozenset[str]:
        """Return the paths of the data files that the build reads."""
        return frozenset(view.file.path for group in self.groups for view in group.read)


def plan_btree(
    snapshot: Snapshot, index: IndexEntry, column: IndexColumn, wanted: Mask, stays: Mask, build_id: str
) -> BTreePlan | None:
    """Plan a build; return None if there is nothing to build.

    Args:
        wanted: a mask of the data files that the index covers.
        stays: a mask of those that are unchanged since they were indexed.
    """
    files = snapshot.views.files
    sets, set_numbers = _file_sets(snapshot, index)
    positions = np.flatnonzero(wanted)
    groups: list[tuple[str | None, Int64s]] = [(None, positions)] if len(positions) else []
    if index.level == "partition":
        columns = snapshot.listing.partitioning.columns
        numbers = files.partition_numbers[positions]
        positions = positions[np.argsort(numbers, kind="stable")]
        distinct, starts = np.unique(np.sort(numbers), return_index=True)
        groups = [
            (_partition_name(columns, files.partitions[number]), members)
            for number, members in zip(distinct.tolist(), np.split(positions, starts[1:]), strict=False)
        ]
    planned = (_plan_group(snapshot, name, members, stays, sets, set_numbers) for name, members in groups)
    groups_to_build = tuple(group for group in planned if group is not None)
    if not groups_to_build:
        return None
    binding = tuple(column.name for column in snapshot.schema.data_columns)
    return BTreePlan(build_id, index, column, binding, snapshot.store, groups_to_build)


def _partition_name(columns: Sequence[PartitionColumn], partition: RawPartition) -> str | None:
    """Return the name of a partition's directory; None for that of a table without partitions."""
    values = zip(columns, partition, strict=True)
    return (
        "/".join(f"{column.name}={NULL_PARTITION if value is None else value}" for column, value in values)
        or None
    )


@value_class
class _IndexSet:
    """A set of index files, and the number of the existing data files whose manifest entries name it."""

    entry: SharedIndexEntry
    num_files: int


def _file_sets(snapshot: Snapshot, index: IndexEntry) -> tuple[list[_IndexSet], Int64s]:
    """Return the sets of an index, and for each file the number of the one that its entry names, or -1."""
    numbers: dict[str, int] = {}
    entries: list[SharedIndexEntry] = []
    counts: Counter[str] = Counter()
    for segment in snapshot.manifest.entries.segments:
        if segment.has_index(index.id):
            own, own_numbers = segment.table.shared_of(index.id)
            for number, item in enumerate(own):
                counts[item.id] += int((own_numbers == number).sum())
    for entry in snapshot.manifest.entries.find(snapshot.vanished).values():
        index_set = entry.shared_index(index.id)
        if index_set is not None:
            counts[index_set.id] -= 1
    set_numbers = np.full(len(snapshot.files), -1, np.int64)
    for table, at, rows in snapshot.views.by_segment():
        own, own_numbers = table.shared_of(index.id)
        for item in own:
            if item.id not in numbers:
                numbers[item.id] = len(entries)
                entries.append(item)
        # number -1 selects this last element
        by_number = np.array([*(numbers[item.id] for item in own), -1], np.int64)
        set_numbers[at] = by_number[own_numbers[rows]]
    return [_IndexSet(item, counts[item.id]) for item in entries], set_numbers


def _plan_group(
    snapshot: Snapshot,
    name: str | None,
    members: Int64s,
    stays: Mask,
    index_sets: Sequence[_IndexSet],
    set_numbers: Int64s,
) -> BTreeGroup | None:
    """Plan the set of a table or partition; None if its sets stay as they are.

    Its sets are merged into the new one if they are too many, or one is named by less than half of the data files that
    it was written for. One that also covers data files of other groups has to stay.

    Args:
        members: positions of the data files.
        stays: a mask over all data files of those whose entries stay.
        index_sets: the sets of the index; ``set_numbers`` are those of all data files, or -1.
    """
    views = snapshot.views
    is_staying, numbers = stays[members], set_numbers[members]
    read = tuple(views.views(members[~is_staying]))
    sets, num_staying = np.unique(numbers[is_staying], return_counts=True)
    num_members = dict(zip(*(item.tolist() for item in np.unique(numbers, return_counts=True)), strict=True))
    merged, is_sparse = [], False
    for number, count in zip(sets.tolist(), num_staying.tolist(), strict=True):
        index_set = index_sets[number]
        if num_members[number] == index_set.num_files and index_set.entry.files:
            merged.append(number)
            is_sparse |= 2 * count < index_set.entry.num_files
    if (len(sets) + bool(read) > MAX_SETS and len(merged) + bool(read) > 1) or is_sparse:
        kept = members[is_staying & np.isin(numbers, merged)]
        entries = tuple(index_sets[number].entry for number in merged)
        return BTreeGroup(name, read, tuple(views.views(kept)), entries)
    return BTreeGroup(name, read) if read else None


@value_class
class _PreparedGroup:
    """A group with the file tails and index sets that its build needs.

    Attributes:
        files: all data files of the group, sorted by path.
        changes: the recorded changes of the files that are read (``DataFile.change_to_record``).
        without_zone: paths of files that are read and have timestamps without a writer time zone.
        old_files: each merged set with all of its data files, and those whose entries are copied from it. Several sets
            may cover the same version of a file; its entries are copied from one of them.
        lows: the smallest key of each index file; None for the first.
    """

    group: BTreeGroup
    files: tuple[IndexedFile, ...]
    tails: dict[str, FileTail]
    changes: dict[str, int]
    without_zone: frozenset[str]
    old_files: tuple[tuple[SharedIndexEntry, tuple[IndexedFile, ...], frozenset[IndexedFile]], ...]
    lows: tuple[Key | None, ...]


def run_btree(spark: SparkSession, plan: BTreePlan, progress: Progress) -> list[FileEntry]:
    """Run a build as one Spark job and return a manifest entry for each data file that it covers.

    Raises:
        BuildError: if a task failed; the message names its data file.
    """
    with reading_pool(view.file.uri for group in plan.groups for view in group.read) as pool:
        tails, without_zone = _read_tails(plan, pool)
        prepared = pool.map(partial(_prepare, plan, pool, tails, without_zone), plan.groups)
    job = _job(plan, prepared)
    tasks = split_entry_tasks(_tasks(plan, prepared), job, tails, cores(spark), task_bytes(spark))
    progress.start(len(tasks), f"building {plan.index.name}", "task")
    try:
        table = _run_sort_job(spark, job, tasks, _num_writers(job, cores(spark)), progress)
    finally:
        progress.finish()
    return _entries(plan, prepared, job, table)


def _num_writers(job: BTreeJob, num_cores: int) -> int:
    """Return the number of writing tasks: one for `PART_ROWS` rows of all data files, at least some for each core."""
    rows = sum(sum(file.stripe_rows) for files in job.groups for file in files)
    return min(len(job.parts), max(num_cores * _WRITERS_PER_CORE, rows // PART_ROWS), MAX_WRITERS)


def _run_sort_job(
    spark: SparkSession,
    job: BTreeJob,
    tasks: Sequence[Sequence[EntryTask]],
    num_writers: int,
    progress: Progress,
) -> pa.Table:
    from pyspark.sql.pandas.types import from_arrow_schema

    # tasks before the sort do not need the list of all files
    lean = replace(job, groups=())

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return write_parts(job, batches)

    frame = (
        task_frame(spark, tasks, partial(entry_chunks, lean), chunk_schema(job.kind))
        .repartitionById(num_writers, "part")
        .sortWithinPartitions("part", "first")
        .mapInArrow(write, from_arrow_schema(WRITTEN_SCHEMA))
    )
    return collect(spark, frame, job.build_id, progress, len(tasks))


def _read_tails(plan: BTreePlan, pool: ThreadPool) -> tuple[dict[str, FileTail], frozenset[str]]:
    """Return the tails of the data files by path, and the paths of those with timestamps of an unnamed time zone."""
    tails: dict[str, FileTail] = {}
    without_zone = set()
    read = [view for group in plan.groups for view in group.read]
    for views in batches_with_copies(read, lambda view: plan.versions.get(view.file.path)):
        for view, (tail, lacks_zone) in zip(views, pool.map(partial(_read_tail, plan), views), strict=True):
            tails[view.file.path] = tail
            if lacks_zone:
                without_zone.add(view.file.path)
    return tails, frozenset(without_zone)


def _prepare(
    plan: BTreePlan,
    pool: ThreadPool,
    all_tails: Mapping[str, FileTail],
    without_zone: frozenset[str],
    group: BTreeGroup,
) -> _PreparedGroup:
    changes = {view.file.path: view.file.change_to_record() for view in group.read}
    tails = {path: all_tails[path] for path in changes}
    old = []
    versions: dict[str, dict[str, tuple[int, int]]] = {}
    for view in group.kept:
        index_set = None if view.entry is None else view.entry.shared_index(plan.index.id)
        if view.entry is not None and index_set is not None:
            version = view.entry.length, view.entry.tail_checksum
            versions.setdefault(index_set.id, {})[view.file.path] = version
    for index_set in group.merged:
        file = index_set.files[0]
        try:
            reader = open_btree_file(plan.store.absolute(file.path), file.length, file.footer_checksum)
            all_files = tuple(reader.all_files())
        except HindexError as error:
            raise BuildError(
                f"index {plan.index.name!r} cannot be merged: {error}; drop it and create it again"
            ) from error
        recorded = versions.get(index_set.id, {})
        kept = frozenset(
            file for file in all_files if recorded.get(file.path) == (file.length, file.tail_checksum)
        )
        old.append((index_set, all_files, kept))
    files = [_indexed_file(view, tails[view.file.path]) for view in group.read]
    files += [file for _, _, kept in old for file in kept]
    files.sort(key=lambda file: file.path)
    lows = _split_keys(plan, pool, group, tails)
    return _PreparedGroup(group, tuple(files), tails, changes, without_zone & tails.keys(), tuple(old), lows)


def _physical_delta(view: FileView) -> AcidFile | None:
    return None if view.file.acid is None else view.file.acid.physical()


def _read_tail(plan: BTreePlan, view: FileView) -> tuple[FileTail, bool]:
    """Return the tail of a data file, and True if it has timestamps and a stripe names no writer time zone."""
    has_times = any(item.type.kind is Kind.TIMESTAMP for item in plan.on.inputs)
    try:
        with plan.open(view) as reader:
            tail = reader.tail
            lacks_zone = has_times and not all(
                reader.stripe(number).writer_timezone for number in range(len(reader.stripes))
            )
    except HindexError as error:
        raise BuildError(f"index build failed on data file {view.file.path!r}: {error}") from error
    if tail.file_length != view.file.length:
        raise BuildError(
            f"index build failed on data file {view.file.path!r}: it had {view.file.length} bytes when the build "
            f"began and has {tail.file_length} now: run the build again when nothing writes to the table"
        )
    return tail, lacks_zone


def _indexed_file(view: FileView, tail: FileTail) -> IndexedFile:
    return IndexedFile(
        view.file.path,
        view.file.length,
        tail.checksum,
        tail.row_index_stride,
        tuple(stripe.num_rows for stripe in tail.stripes),
    )


def _split_keys(
    plan: BTreePlan, pool: ThreadPool, group: BTreeGroup, tails: dict[str, FileTail]
) -> tuple[Key | None, ...]:
    """Choose the smallest key of each file of a set, so that all files have about the same number of entries."""
    rows = sum(tail.num_rows for tail in tails.values())
    old = [file.stats for index_set in group.merged for file in index_set.files]
    total = rows + sum(stats.rows for stats in old)
    parts = min(-(-total // PART_ROWS), MAX_PARTS)
    if parts < 2:
        return (None,)
    weighted = [(stats.min_key, stats.rows) for stats in old if stats.min_key is not None]
    sample = _sample_keys(plan, pool, group, tails)
    weighted += [(key, rows // max(len(sample), 1)) for key in sample]
    weighted.sort(key=lambda item: item[0])
    if not weighted:
        return (None,)
    ends = np.cumsum([weight for _, weight in weighted])
    at = np.searchsorted(ends, [ends[-1] * part // parts for part in range(1, parts)])
    lows = sorted({weighted[i][0] for i in at.tolist()})
    return (None, *(low for low in lows if low > weighted[0][0]))


def _sample_keys(
    plan: BTreePlan, pool: ThreadPool, group: BTreeGroup, tails: dict[str, FileTail]
) -> list[Key]:
    """Return the keys of a sample of rows."""
    stripes = [
        (view, number, stripe.num_rows)
        for view in group.read
        for number, stripe in enumerate(tails[view.file.path].stripes)
        if stripe.num_rows
    ]
    if len(stripes) > _SAMPLED_STRIPES:
        stripes = [stripes[at * len(stripes) // _SAMPLED_STRIPES] for at in range(_SAMPLED_STRIPES)]

    def keys(turn: int) -> list[Key]:
        view, number, rows = stripes[turn]
        # other positions in each stripe, for columns whose values restart with every stripe
        start = max(rows - _SAMPLED_ROWS, 0) * turn // len(stripes)
        selection = RowSelection.of(np.arange(start, min(start + _SAMPLED_ROWS, rows)), rows)
        try:
            acid = view.file.acid
            with plan.open(view) as reader:
                column = plan.on.in_file(plan.binding, reader.tail.schema, transactional=acid is not None)
                if column is None or number >= len(reader.stripes):
                    return []
                values = column.table_values(column.read(reader, number, selection))
                values = list_elements(values)[0] if plan.on.has_lists else values
        except HindexError as error:
            raise BuildError(f"index build failed on data file {view.file.path!r}: {error}") from error
        return key_list(array_keys(plan.on.type, values.drop_null()))

    return list(chain.from_iterable(pool.map(keys, range(len(stripes)))))


def _job(plan: BTreePlan, prepared: Sequence[_PreparedGroup]) -> BTreeJob:
    runs = max(
        sum(len(tail.stripes) for tail in item.tails.values())
        + sum(len(index_set.files) for index_set, _, _ in item.old_files)
        for item in prepared
    )
    min_entries, max_entries = _CHUNK_ENTRIES
    return BTreeJob(
        build_id=plan.build_id,
        on=plan.on,
        binding=plan.binding,
        properties=plan.index.properties,
        metadata=(("level", plan.index.level),),
        directory=plan.directory,
        absolute_directory=plan.absolute_directory,
        parts=tuple(SortedPart(group, low) for group, item in enumerate(prepared) for low in item.lows),
        groups=tuple(item.files for item in prepared),
        chunk_entries=min(max(MAX_BUFFERED_ENTRIES // max(runs, 1), min_entries), max_entries),
    )


def _tasks(plan: BTreePlan, prepared: Sequence[_PreparedGroup]) -> list[EntryTask]:
    tasks: list[EntryTask] = []
    for number, item in enumerate(prepared):
        first = dict(zip((file.path for file in item.files), first_locations(item.files), strict=False))
        files = {file.path: file for file in item.files}
        tasks += [
            ReadTask(
                view.file.uri,
                files[view.file.path],
                number,
                first[view.file.path],
                _physical_delta(view),
                version=plan.versions.get(view.file.path),
            )
            for view in item.group.read
        ]
        for index_set, old, kept in item.old_files:
            locations = kept_locations(old, kept, item.files)
            tasks += [
                CopyTask(plan.store.absolute(file.path), file.length, file.footer_checksum, number, locations)
                for file in index_set.files
            ]
    return tasks


def _entries(
    plan: BTreePlan, prepared: Sequence[_PreparedGroup], job: BTreeJob, table: pa.Table
) -> list[FileEntry]:
    written: dict[int, list[SharedFileEntry]] = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["part"]):
        low, high = (
            None if row[name] is None else unpack_key(row[name], job.kind) for name in ("min_key", "max_key")
        )
        stats = ColumnStats(row["entries"], row["null_count"], low, high).truncate()
        written.setdefault(job.parts[row["part"]].group, []).append(
            SharedFileEntry(row["path"], row["length"], row["footer_checksum"], stats)
        )
    entries = []
    for number, item in enumerate(prepared):
        shared = SharedIndexEntry(
            id=uuid.uuid4().hex,
            index_id=plan.index.id,
            column_type=str(plan.on.type),
            partition=item.group.partition,
            num_files=len(item.files),
            num_row_groups=first_locations(item.files)[-1],
            files=tuple(written.get(number, ())),
        )
        by_path = {file.path: file for file in item.files}
        for view in item.group.read:
            file, tail = by_path[view.file.path], item.tails[view.file.path]
            entries.append(
                FileEntry(
                    path=file.path,
                    length=file.length,
                    mtime_ns=view.file.mtime_ns,
                    tail_checksum=file.tail_checksum,
                    num_rows=tail.num_rows,
                    stripe_rows=file.stripe_rows,
                    schema=type_text(file_schema(tail)),
                    shared=(shared,),
                    changed_ns=item.changes[view.file.path],
                    num_row_groups=file.num_groups,
                    lacks_time_zone=file.path in item.without_zone,
                )
            )
        entries += [
            replace(view.entry, index_files=(), shared=(shared,))
            for view in item.group.kept
            if view.entry is not None and view.file.path in by_path
        ]
    return sorted(entries, key=lambda entry: entry.path)
