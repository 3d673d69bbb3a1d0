"""The Spark job that builds indexes: one task a data file, one commit at the end."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.build.task import RESULT_SCHEMA, BuildTask, IndexTarget, run_build_task
from hindex.errors import BuildError, HindexError
from hindex.plan.evaluate import prune
from hindex.plan.filter import Never
from hindex.progress import Progress
from hindex.scan.planning import columns_held, index_filter
from hindex.spark.frames import task_frame
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry
from hindex.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """What a build will read and write: a task for each data file that needs one."""

    indexes: tuple[IndexEntry, ...]
    tasks: tuple[BuildTask, ...]


def plan_build(
    snapshot: Snapshot, indexes: Sequence[IndexEntry], *, fresh: Collection[str] = ()
) -> BuildPlan:
    """The tasks that build indexes over every file that has their columns, in the partitions each covers.

    :param fresh: paths of files that have not changed since they were indexed: what an index has of them
        is left as it is.
    """
    wheres = [
        (index, snapshot.schema.resolve(index.column).name, index_filter(index, snapshot.schema))
        for index in indexes
    ]
    columns = snapshot.listing.partitioning.columns
    binding = tuple(column.name for column in snapshot.schema.data_columns)
    store = snapshot.store
    build_id = uuid.uuid4().hex
    tasks = []
    for view in snapshot.files:
        keys = {c.name: v.key for c, v in zip(columns, view.partition, strict=True)}
        targets = []
        held = columns_held(binding, view.names)
        for index, column, where in wheres:
            if column not in held or isinstance(prune(where, keys), Never):
                continue
            if view.file.path in fresh and view.entry is not None and view.entry.index_file(index.id):
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
                )
            )
        if targets:
            file = view.file
            tasks.append(
                BuildTask(build_id, file.path, file.uri, file.length, file.mtime_ns, binding, tuple(targets))
            )
    return BuildPlan(tuple(indexes), tuple(tasks))


def run_build(spark: SparkSession, plan: BuildPlan, progress: Progress) -> list[FileEntry]:
    """Run a build as one Spark job and return a manifest entry for each data file.

    Nothing is committed: whoever calls does that with the result.

    :raises BuildError: if a task failed; the message names its data file.
    """
    if not plan.tasks:
        return []
    names = ", ".join(index.name for index in plan.indexes)
    progress.start(len(plan.tasks), f"building {names}")
    try:
        table = _collect(spark, plan.tasks, progress)
    finally:
        progress.finish()
    return _entries(plan.tasks, table)


def discard_build(plan: BuildPlan) -> None:
    """Remove the index files that a failed build left; what cannot be removed stays as garbage of the store."""
    for directory in {Path(target.absolute_directory) for task in plan.tasks for target in task.targets}:
        for build_id in {task.build_id for task in plan.tasks}:
            for file in directory.glob(f"{build_id}-*"):
                # a file that cannot be removed must not hide why the build failed
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            directory.rmdir()


def _collect(spark: SparkSession, tasks: Sequence[BuildTask], progress: Progress) -> pa.Table:
    frame = task_frame(spark, tasks, run_build_task, RESULT_SCHEMA)
    tag = f"hindex-build-{tasks[0].build_id}"
    done, succeeded = threading.Event(), threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(spark, done, succeeded, progress, len(tasks)), daemon=True
    )
    watcher.start()
    spark.addTag(tag)
    try:
        table = frame.toArrow()
        succeeded.set()
        return table
    except BaseException as error:
        # Spark does not notice that nobody waits for its job any more: it would go on to write index files
        with contextlib.suppress(Exception):
            spark.interruptTag(tag)
        if isinstance(error, HindexError) or not isinstance(error, Exception):
            raise
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        raise _build_error(error) from error
    finally:
        done.set()
        watcher.join()
        with contextlib.suppress(Exception):
            spark.removeTag(tag)


def _was_interrupted(error: BaseException) -> bool:
    """Whether an error arose while Ctrl-C was handled: PySpark raises the end of its job in its place."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _watch(
    spark: SparkSession, done: threading.Event, succeeded: threading.Event, progress: Progress, total: int
) -> None:
    """Report finished tasks until the job ends; where the session does not tell, only its success is reported."""
    told = 0
    context = getattr(spark, "_sc", None)
    while not done.wait(_POLL_SECONDS):
        if context is None:
            continue
        tracker = context.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        finished = max((info.numCompletedTasks for info in infos if info is not None), default=0)
        if told < finished <= total:
            progress.advance(finished - told)
            told = finished
    if told < total and succeeded.is_set():
        progress.advance(total - told)


def _build_error(error: Exception) -> BuildError:
    """The error of a failed Spark job, in one line: what the task said, where it can be found."""
    text = str(error)
    mark = "hindex.errors.BuildError: "
    at = text.find(mark)
    if at >= 0:
        return BuildError(text[at + len(mark) :].splitlines()[0])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return BuildError(f"the Spark job failed: {first}")


def _entries(tasks: Sequence[BuildTask], table: pa.Table) -> list[FileEntry]:
    stripes: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[str, object]] = {}
    for row in table.to_pylist():
        if row["stripe"] >= 0:
            stripes.setdefault(row["path"], {})[row["stripe"]] = row["num_rows"]
        if row["index_files"]:
            ends[row["path"]] = row
    entries = []
    for task in tasks:
        end = ends.get(task.path)
        if end is None:
            continue
        rows = tuple(count for _, count in sorted(stripes.get(task.path, {}).items()))
        files = [IndexFileEntry(**item) for item in end["index_files"]]  # type: ignore[attr-defined]
        entries.append(
            FileEntry(
                path=task.path,
                length=task.length,
                mtime_ns=task.mtime_ns,
                tail_checksum=int(end["tail_checksum"]),  # type: ignore[call-overload]
                num_rows=sum(rows),
                stripe_rows=rows,
                schema=str(end["schema"]),
                index_files=tuple(files),
            )
        )
    return entries
