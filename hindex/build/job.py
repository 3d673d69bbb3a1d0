"""The Spark job that builds indexes: tasks of about the same size, one commit at the end.

Small data files share a task. A large one is cut between stripes: several tasks write parts of its index files, and a
second job puts these together.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.build.btree_job import BTreePlan, plan_btree, run_btree
from hindex.build.job_runner import collect
from hindex.build.manifest_entries import built_files, merged_files
from hindex.build.merge_parts import JOINED_SCHEMA, MergeTask, discard_parts, run_merge_task
from hindex.build.present_keys import has_present_keys
from hindex.build.stripes import cut_tasks
from hindex.build.task import RESULT_SCHEMA, BuildTask, IndexTarget, run_build_task, run_build_tasks
from hindex.build.task_splitting import task_bytes
from hindex.errors import ColumnError, HindexError
from hindex.formatting import megabytes
from hindex.index.index_type import Level, index_type
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import Never
from hindex.plan.filter_evaluation import prune
from hindex.plan.normalize import index_filter
from hindex.progress import Progress
from hindex.spark.tasks import cores, task_frame
from hindex.store.build_files import discard_files
from hindex.store.manifest import FileEntry, IndexEntry
from hindex.store.snapshot import FileView, Snapshot, is_indexable
from hindex.table.schema import ResolvedColumn, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The input and output of a build.

    :ivar tasks: one for each data file, of the indexes that have a file for each: they are built in one pass. How
        they are cut and put together to Spark's tasks is decided when they are run.
    :ivar shared: of the indexes whose files cover many data files: each is a Spark job of its own.
    :ivar column_types: the text of the type that each index's column has in the table now, by the index's id.
    """

    indexes: tuple[IndexEntry, ...]
    tasks: tuple[BuildTask, ...]
    shared: tuple[BTreePlan, ...] = ()
    column_types: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to build."""
        return not self.tasks and not self.shared

    @property
    def data_files(self) -> frozenset[str]:
        """The paths of the data files that are read."""
        return frozenset(task.path for task in self.tasks).union(*(item.data_files for item in self.shared))

    @property
    def index_ids(self) -> frozenset[str]:
        """The indexes that are written."""
        own = {target.index_id for task in self.tasks for target in task.targets}
        return frozenset(own | {item.index.id for item in self.shared})


def plan_build(
    snapshot: Snapshot, indexes: Sequence[IndexEntry], *, fresh: Collection[str] = ()
) -> BuildPlan:
    """The tasks that build indexes over every file that has their columns, in the partitions each covers.

    :param fresh: paths of files that have not changed since they were indexed: what an index has of them
        is left as it is.
    :raises ColumnError: if the table no longer has an index's column.
    """
    if not snapshot.files:
        # no file tells the columns: what indexes have of files that are gone can be forgotten all the same
        return BuildPlan(tuple(indexes), ())
    wheres = [
        (index, _column(index, snapshot.schema), index_filter(index, snapshot.schema)) for index in indexes
    ]
    columns = snapshot.listing.partitioning.columns
    binding = tuple(column.name for column in snapshot.schema.data_columns)
    store = snapshot.store
    build_id = uuid.uuid4().hex
    tasks = []
    covered: dict[str, list[FileView]] = {index.id: [] for index in indexes if is_shared(index)}
    for view in snapshot.files:
        keys = {c.name: v.key for c, v in zip(columns, view.partition, strict=True)}
        targets = []
        for index, resolved, where in wheres:
            column = resolved.name
            if not is_indexable(view, snapshot, binding, resolved) or isinstance(prune(where, keys), Never):
                continue
            if index.id in covered:
                covered[index.id].append(view)
                continue
            known = view.entry is not None and view.entry.index_file(index.id) is not None
            if (
                view.file.path in fresh
                and known
                and index.quarantined is None
                and has_present_keys(view, index, column, resolved.type, binding, store)
            ):
                continue
            directory = store.index_directory(index.id)
            targets.append(
                IndexTarget(
                    index.id,
                    index.name,
                    index.type,
                    column,
                    index.properties,
                    directory,
                    store.absolute(directory),
                    resolved.type,
                )
            )
        if targets:
            file = view.file
            tasks.append(
                BuildTask(
                    build_id,
                    file.path,
                    file.uri,
                    file.length,
                    file.mtime_ns,
                    binding,
                    tuple(targets),
                    file.change_to_record(),
                    None if file.acid is None else file.acid.physical(),
                )
            )
    planned = [
        plan_btree(snapshot, index, covered[index.id], build_id, fresh if index.quarantined is None else ())
        for index in indexes
        if index.id in covered
    ]
    return BuildPlan(
        tuple(indexes),
        tuple(tasks),
        tuple(item for item in planned if item is not None),
        {index.id: str(resolved.type) for index, resolved, _ in wheres},
    )


def _column(index: IndexEntry, schema: TableSchema) -> ResolvedColumn:
    """An index's column as the table has it.

    :raises ColumnError: if the table has no such column any more, or one that cannot be indexed.
    """
    try:
        found = schema.resolve(index.column, is_stored=True)
    except ColumnError as error:
        raise ColumnError(
            f"Index {index.name!r} is on a column that the table does not have any more: drop the index ({error})"
        ) from error
    if not found.is_partition and not _is_supported(index, found.type):
        raise ColumnError(
            f"Index {index.name!r} is on column {found.name!r}, which is of type {found.type} by now and cannot be "
            "indexed: drop the index"
        )
    return found


def _is_supported(index: IndexEntry, data_type: OrcType) -> bool:
    try:
        return index_type(index.type).supports(data_type)
    except HindexError:
        return True  # of an index type that is not known here: who builds it tells


def is_shared(index: IndexEntry) -> bool:
    """Return True if each file of an index covers many data files."""
    return index.level != Level.STRIPE.value


def run_build(spark: SparkSession, plan: BuildPlan, progress: Progress) -> list[FileEntry]:
    """Run a build as Spark jobs and return manifest entries of the data files, one for each job.

    Nothing is committed: whoever calls does that with the result.

    :raises BuildError: if a task failed; the message names its data file.
    """
    found: list[FileEntry] = []
    if plan.tasks:
        names = ", ".join(index.name for index in plan.indexes if not is_shared(index))
        size = megabytes(sum(task.length for task in plan.tasks))
        tasks = cut_tasks(plan.tasks, cores(spark), task_bytes(spark))
        progress.start(len(tasks), f"building {names} from data files of {size}")
        try:
            built = built_files(plan.tasks, _collect(spark, tasks, progress))
        finally:
            progress.finish()
        joined = JOINED_SCHEMA.empty_table()
        joins = [join for item in built for join in item.joins]
        if joins:
            progress.start(len(joins), f"putting together {names}")
            try:
                joined = _join(spark, joins, progress)
            finally:
                progress.finish()
            discard_parts(joins)
        found += merged_files(built, joined)
    for item in plan.shared:
        found += run_btree(spark, item, progress)
    return found


def discard_build(plan: BuildPlan) -> None:
    """Remove the index files that a failed build left; what cannot be removed stays as garbage of the store."""
    directories = {target.absolute_directory for task in plan.tasks for target in task.targets}
    directories.update(item.absolute_directory for item in plan.shared)
    build_ids = {task.build_id for task in plan.tasks} | {item.build_id for item in plan.shared}
    for directory in directories:
        for build_id in build_ids:
            discard_files(directory, f"{build_id}-")


def _collect(spark: SparkSession, tasks: Sequence[Sequence[BuildTask]], progress: Progress) -> pa.Table:
    frame = task_frame(spark, tasks, partial(run_build_tasks, run=run_build_task), RESULT_SCHEMA)
    return collect(spark, frame, tasks[0][0].build_id, progress, len(tasks))


def _join(spark: SparkSession, tasks: Sequence[MergeTask], progress: Progress) -> pa.Table:
    frame = task_frame(spark, tasks, run_merge_task, JOINED_SCHEMA)
    return collect(spark, frame, tasks[0].build_id, progress, len(tasks))
