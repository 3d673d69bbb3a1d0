"""The Spark job that builds indexes: its tasks of about the same size, and the manifest entries of its results.

Small data files share a task. A large one is split between stripes: several tasks write parts of its index files, and a
second job merges the parts.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hindex.build.btree_job import BTreePlan, plan_btree, run_btree
from hindex.build.index_coverage import index_coverage
from hindex.build.metadata_job import MetadataPlan, plan_metadata, run_metadata_job
from hindex.build.task import (
    MERGED_SCHEMA,
    RESULT_SCHEMA,
    BuildTask,
    BuiltFile,
    IndexTarget,
    MergeTask,
    PartFile,
    discard_parts,
    run_build_tasks,
    run_merge_task,
)
from hindex.build.task_splitting import split_build_tasks, task_bytes
from hindex.errors import ColumnError, HindexError
from hindex.formatting import counted, megabytes
from hindex.index.column_stats import ColumnStats, Mask, StatsColumn
from hindex.index.index_type import Level, index_type
from hindex.index.roaring import group_count
from hindex.orc.metadata.types import OrcType
from hindex.plan.index_columns import IndexColumn, index_column
from hindex.plan.normalize import index_filter
from hindex.progress import Progress
from hindex.spark.jobs import collect
from hindex.spark.tasks import cores, task_frame
from hindex.store.build_files import discard_files
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, MetadataCopy
from hindex.store.metadata_copy import FileVersion
from hindex.store.snapshot import Snapshot
from hindex.table.schema import TableSchema
from hindex.table.type_text import type_text
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@value_class
class BuildPlan:
    """The input and output of a build.

    Attributes:
        tasks: one for each data file, for all indexes with a file for each data file. Running the build splits and
            combines them to Spark tasks.
        shared: plans of the indexes whose files cover many data files, each a Spark job of its own.
        column_types: the current type of each index's column in the table, as a string, by the index's id.
        versions: the versions of the data files in object stores, by path.
        metadata: the data files whose metadata the build copies first; None if there are none.
    """

    indexes: tuple[IndexEntry, ...]
    tasks: tuple[BuildTask, ...]
    shared: tuple[BTreePlan, ...] = ()
    column_types: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, FileVersion] = field(default_factory=dict)
    metadata: MetadataPlan | None = None

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to build."""
        return not self.tasks and not self.shared

    @property
    def data_files(self) -> frozenset[str]:
        """Return the paths of the data files that the build reads."""
        return frozenset(task.path for task in self.tasks).union(*(item.data_files for item in self.shared))

    @property
    def index_ids(self) -> frozenset[str]:
        """Return the ids of the indexes that the build writes."""
        ids = {target.index_id for task in self.tasks for target in task.targets}
        return frozenset(ids | {item.index.id for item in self.shared})


def plan_build(
    snapshot: Snapshot,
    indexes: Sequence[IndexEntry],
    *,
    fresh: Mask | None = None,
    copies_again: bool = False,
) -> BuildPlan:
    """Plan the build of indexes over all files that have their columns, in the partitions that each index covers.

    Args:
        fresh: a mask of the files that are unchanged since they were indexed: their index files stay. None if none is.
        copies_again: copy the metadata of all files in an object store, also where the store has a copy.

    Raises:
        ColumnError: if the table no longer has an index's column.
    """
    if not snapshot.files:
        # without files, the columns may be unknown; entries of deleted files can be dropped all the same
        return BuildPlan(tuple(indexes), ())
    resolved_indexes = [
        (index, resolve_index_column(index, snapshot.schema), index_filter(index, snapshot.schema))
        for index in indexes
    ]
    views = snapshot.views
    binding = tuple(column.name for column in snapshot.schema.data_columns)
    store = snapshot.store
    build_id = uuid.uuid4().hex
    planned: list[BTreePlan | None] = []
    targets: dict[int, list[IndexTarget]] = {}
    for index, resolved, where in resolved_indexes:
        coverage = index_coverage(snapshot, index, resolved, where)
        stays = np.zeros(len(views), np.bool_)
        if fresh is not None and index.quarantined is None:
            stays = fresh & coverage.is_current
        if is_shared(index):
            planned.append(plan_btree(snapshot, index, resolved, coverage.wanted, stays, build_id))
            continue
        directory = store.index_directory(index.id)
        target = IndexTarget(
            index.id,
            index.name,
            index.type,
            resolved,
            index.properties,
            directory,
            store.absolute(directory),
        )
        for at in np.flatnonzero(coverage.wanted & ~stays).tolist():
            targets.setdefault(at, []).append(target)
    positions = sorted(targets)
    shared = tuple(item for item in planned if item is not None)
    versions: dict[str, FileVersion] = {}
    metadata = None
    if views.files.versions is not None:
        read = views.views(np.array(positions, np.int64))
        read_by_any = [*read, *(view for item in shared for group in item.groups for view in group.read)]
        versions, metadata = plan_metadata(store, build_id, read_by_any, copies_again=copies_again)
    tasks = tuple(
        BuildTask(
            build_id,
            file.path,
            file.uri,
            file.length,
            file.mtime_ns,
            binding,
            tuple(targets[at]),
            file.change_to_record(),
            None if file.acid is None else file.acid.physical(),
            version=versions.get(file.path),
        )
        for at, file in ((at, views.files[at]) for at in positions)
    )
    return BuildPlan(
        tuple(indexes),
        tasks,
        shared,
        {index.id: type_text(resolved.type) for index, resolved, _ in resolved_indexes},
        versions,
        metadata,
    )


def resolve_index_column(index: IndexEntry, schema: TableSchema) -> IndexColumn:
    """Resolve an index's column in the table.

    Raises:
        ColumnError: if the table no longer has the column, or its type cannot be indexed.
    """
    try:
        column = index_column(index, schema)
    except ColumnError as error:
        if index.inputs:
            raise
        raise ColumnError(
            f"Index {index.name!r} is on a column that the table no longer has: drop the index ({error})"
        ) from error
    if not column.inputs[0].is_partition and not _is_supported(index, column.type):
        raise ColumnError(
            f"Index {index.name!r} is on column {column.name!r}, which now has type {column.type} and cannot be "
            "indexed: drop the index"
        )
    return column


def _is_supported(index: IndexEntry, data_type: OrcType) -> bool:
    try:
        return index_type(index.type).supports(data_type)
    except HindexError:
        return True  # an index type of a later version: building it raises the error


def is_shared(index: IndexEntry) -> bool:
    """Return True if each file of an index covers many data files."""
    return index.level != Level.STRIPE.value


def run_build(spark: SparkSession, plan: BuildPlan, progress: Progress) -> list[FileEntry]:
    """Run a build as Spark jobs and return the manifest entries of the data files, without committing them.

    A data file has one entry for each job.

    Raises:
        BuildError: if a task failed; the message names its data file.
    """
    entries: list[FileEntry] = []
    build_tasks, versions = plan.tasks, dict(plan.versions)
    copies: Mapping[str, tuple[int, MetadataCopy]] = {}
    if plan.metadata is not None:
        # before the tasks, which then read metadata from the copies
        copies = run_metadata_job(spark, plan.metadata, progress)
        for path, (_, copy) in copies.items():
            versions[path] = replace(versions[path], copy=plan.metadata.store.locate(copy))
        build_tasks = tuple(replace(task, version=versions.get(task.path)) for task in build_tasks)
    if build_tasks:
        names = ", ".join(index.name for index in plan.indexes if not is_shared(index))
        size = megabytes(sum(task.length for task in build_tasks))
        tasks = split_build_tasks(build_tasks, cores(spark), task_bytes(spark))
        files = counted(len(build_tasks), "data file")
        progress.start(len(tasks), f"building {names} from {files} of {size}", "task")
        try:
            built = built_files(build_tasks, _run_build_job(spark, tasks, progress))
        finally:
            progress.finish()
        merged = MERGED_SCHEMA.empty_table()
        merges = [merge for item in built for merge in item.merges]
        if merges:
            progress.start(len(merges), f"merging {names}", "data file")
            try:
                merged = _run_merge_job(spark, merges, progress)
            finally:
                progress.finish()
            discard_parts(merges)
        entries += merged_files(built, merged)
    for item in plan.shared:
        entries += run_btree(spark, replace(item, versions=versions), progress)
    return [
        replace(entry, metadata=copies[entry.path][1])
        if entry.path in copies and copies[entry.path][0] == entry.tail_checksum
        else entry
        for entry in entries
    ]


def discard_build(plan: BuildPlan) -> None:
    """Delete the index files of a failed build; VACUUM deletes what this cannot, or a running task writes later."""
    directories = {target.absolute_directory for task in plan.tasks for target in task.targets}
    directories.update(item.absolute_directory for item in plan.shared)
    build_ids = {task.build_id for task in plan.tasks} | {item.build_id for item in plan.shared}
    if plan.metadata is not None:
        directories.add(plan.metadata.absolute_directory)
    for directory in directories:
        for build_id in build_ids:
            discard_files(directory, f"{build_id}-")


def _run_build_job(spark: SparkSession, tasks: Sequence[Sequence[BuildTask]], progress: Progress) -> pa.Table:
    frame = task_frame(spark, tasks, run_build_tasks, RESULT_SCHEMA)
    return collect(spark, frame, tasks[0][0].build_id, progress, len(tasks))


def _run_merge_job(spark: SparkSession, tasks: Sequence[MergeTask], progress: Progress) -> pa.Table:
    frame = task_frame(spark, tasks, run_merge_task, MERGED_SCHEMA)
    return collect(spark, frame, tasks[0].build_id, progress, len(tasks))


@value_class
class IndexedData:
    """An indexed data file.

    Attributes:
        entry: its manifest entry, without index files that are in parts.
        merges: the tasks that merge the parts.
        stripe_stats: statistics of the data file's stripes, for each of `merges`.
    """

    entry: FileEntry
    merges: tuple[MergeTask, ...] = ()
    stripe_stats: tuple[tuple[ColumnStats, ...], ...] = ()


def built_files(tasks: Sequence[BuildTask], table: pa.Table) -> list[IndexedData]:
    """Collect the results of a build for each indexed data file.

    Args:
        tasks: one for each data file.
        table: the rows of `hindex.build.task.run_build_tasks`.
    """
    results: dict[str, list[_TaskResult]] = {}
    for result in _task_results(table):
        results.setdefault(result.path, []).append(result)
    return [
        _indexed_data(task, sorted(results[task.path], key=lambda result: result.first))
        for task in tasks
        if task.path in results
    ]


def merged_files(built: Sequence[IndexedData], table: pa.Table) -> list[FileEntry]:
    """Return the manifest entries of data files, with the merged index files.

    Args:
        table: the rows of `hindex.build.task.run_merge_task`.
    """
    rows = {(row["data_file"], row["index_id"]): row for row in table.to_pylist()}
    entries = []
    for item in built:
        files = list(item.entry.index_files)
        for merge, stripe_stats in zip(item.merges, item.stripe_stats, strict=True):
            row = rows[merge.path, merge.target.index_id]
            files.append(
                IndexFileEntry(
                    row["index_id"], row["path"], row["length"], row["footer_checksum"], stripe_stats
                )
            )
        entries.append(replace(item.entry, index_files=tuple(files)))
    return entries


@value_class
class _TaskResult:
    """The result of a build task: of a data file, or of some of its stripes from ``first`` on."""

    path: str
    first: int
    stripe_rows: tuple[int, ...]
    tail_checksum: int
    row_group_rows: int
    schema: str
    lacks_time_zone: bool
    files: tuple[BuiltFile, ...]


def _task_results(table: pa.Table) -> Iterator[_TaskResult]:
    """Yield the results of the tasks whose data files have the columns."""
    stats = _stripe_stats(table)
    for row in table.drop_columns(["stripe_stats"]).to_pylist():
        described = row.pop("index_files")
        row["stripe_rows"] = tuple(row["stripe_rows"])
        files = tuple([BuiltFile(**item, stripe_stats=next(stats)) for item in described])
        if files:
            yield _TaskResult(**row, files=files)


def _stripe_stats(table: pa.Table) -> Iterator[tuple[ColumnStats, ...]]:
    """Yield the statistics of the stripes for each index file of each row."""
    lists = pa.concat_arrays(table.column("stripe_stats").chunks) if table.num_rows else None
    if lists is None:
        return
    rows = pa.concat_arrays(table.column("stripe_rows").chunks)
    stats, parents = lists.flatten(), lists.value_parent_indices()
    is_valid = stats.is_valid()
    decoded = iter(
        StatsColumn(stats.filter(is_valid), rows.take(parents.filter(is_valid))).all_stripe_stats()
    )
    for item in is_valid.to_pylist():
        yield next(decoded) if item else ()


def _indexed_data(task: BuildTask, results: Sequence[_TaskResult]) -> IndexedData:
    stripe_rows = tuple(count for result in results for count in result.stripe_rows)
    last = results[-1]
    entry = FileEntry(
        path=task.path,
        length=task.length,
        mtime_ns=task.mtime_ns,
        tail_checksum=last.tail_checksum,
        num_rows=sum(stripe_rows),
        stripe_rows=stripe_rows,
        schema=last.schema,
        index_files=tuple(
            IndexFileEntry(file.index_id, file.path, file.length, file.footer_checksum, file.stripe_stats)
            for file in last.files
            if len(results) == 1
        ),
        changed_ns=task.changed_ns,
        num_row_groups=sum(group_count(last.row_group_rows, count) for count in stripe_rows),
        lacks_time_zone=any(result.lacks_time_zone for result in results),
    )
    if len(results) == 1:
        return IndexedData(entry)
    targets = {target.index_id: target for target in task.targets}
    merges, stripe_stats = [], []
    for at, file in enumerate(last.files):
        part_files = [result.files[at] for result in results]
        parts = tuple(
            PartFile(part.path.rpartition("/")[2], part.length, part.footer_checksum) for part in part_files
        )
        merges.append(MergeTask(task.build_id, task.path, task.uri, targets[file.index_id], parts))
        stripe_stats.append(tuple(stats for part in part_files for stats in part.stripe_stats))
    return IndexedData(entry, tuple(merges), tuple(stripe_stats))
