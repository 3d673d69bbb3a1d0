"""Builds that run in this process, without a Spark session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from hindex.api.connection import Connection
from hindex.api.table import IndexSpec, Table
from hindex.build import btree_job, job, metadata_job
from hindex.build.btree_task import WRITTEN_SCHEMA, BTreeJob, EntryTask, ReadTask, entry_chunks, write_parts
from hindex.build.metadata_job import COPIES_SCHEMA, CopiedFile, MetadataPlan, run_metadata_task
from hindex.build.task import (
    MERGED_SCHEMA,
    RESULT_SCHEMA,
    BuildTask,
    MergeTask,
    run_build_tasks,
    run_merge_task,
)
from hindex.progress import Progress
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LocalConnection(Connection):
    """A connection without Spark: its builds run here, one task after the other.

    Attributes:
        built_paths: the paths of the data files that builds read, sorted for each build.
        conf: the settings of the session that it stands for.
    """

    def __init__(self, store: str | None = None, **options: Any) -> None:
        super().__init__(store, **options)
        self.built_paths: list[str] = []
        self.conf: dict[str, str] = {}

    def spark(self) -> SparkSession:
        return cast("SparkSession", self)

    def getTags(self) -> set[str]:  # noqa: N802 as of a session of Spark Connect
        return set()

    def addTag(self, tag: str) -> None:  # noqa: N802
        pass

    def removeTag(self, tag: str) -> None:  # noqa: N802
        pass


_build_by_spark = job._run_build_job
_merge_by_spark = job._run_merge_job
_sort_by_spark = btree_job._run_sort_job
_copy_by_spark = metadata_job._run_metadata_tasks


def _build(spark: object, tasks: Sequence[Sequence[BuildTask]], progress: Progress) -> pa.Table:
    if not isinstance(spark, LocalConnection):
        return _build_by_spark(cast("SparkSession", spark), tasks, progress)
    batches = []
    spark.built_paths += sorted({task.path for group in tasks for task in group})
    for group in tasks:
        batches += list(run_build_tasks(group))
        progress.advance()
    return pa.Table.from_batches(batches, RESULT_SCHEMA)


def _merge(spark: object, tasks: Sequence[MergeTask], progress: Progress) -> pa.Table:
    if not isinstance(spark, LocalConnection):
        return _merge_by_spark(cast("SparkSession", spark), tasks, progress)
    progress.advance(len(tasks))
    return pa.Table.from_batches([batch for task in tasks for batch in run_merge_task(task)], MERGED_SCHEMA)


def _sort(
    spark: object,
    build: BTreeJob,
    tasks: Sequence[Sequence[EntryTask]],
    num_writers: int,
    progress: Progress,
) -> pa.Table:
    """Sort the chunks of BTREE entries as Spark does, and write them in batches of three."""
    if not isinstance(spark, LocalConnection):
        return _sort_by_spark(cast("SparkSession", spark), build, tasks, num_writers, progress)
    rows: list[dict[str, Any]] = []
    schema = None
    spark.built_paths += sorted(
        {task.file.path for group in tasks for task in group if isinstance(task, ReadTask)}
    )
    for group in tasks:
        for batch in entry_chunks(build, group):
            schema = batch.schema
            rows += batch.to_pylist()
        progress.advance()
    # nulls first, as Spark sorts
    rows.sort(key=lambda row: (row["part"], (0, 0) if row["first"] is None else (1, row["first"])))
    batches = (pa.RecordBatch.from_pylist(rows[at : at + 3], schema) for at in range(0, len(rows), 3))
    return pa.Table.from_batches(list(write_parts(build, batches)), WRITTEN_SCHEMA)


def _copy(
    spark: object, plan: MetadataPlan, tasks: Sequence[Sequence[CopiedFile]], progress: Progress
) -> pa.Table:
    if not isinstance(spark, LocalConnection):
        return _copy_by_spark(cast("SparkSession", spark), plan, tasks, progress)
    progress.advance(len(tasks))
    return pa.Table.from_batches(
        [
            batch
            for task in tasks
            for batch in run_metadata_task(plan.build_id, plan.absolute_directory, task)
        ],
        COPIES_SCHEMA,
    )


def install(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Run the builds of a `LocalConnection` here, and those of other connections by Spark."""
    if monkeypatch is None:
        job._run_build_job = _build
        job._run_merge_job = _merge
        btree_job._run_sort_job = _sort  # type: ignore[assignment]
        metadata_job._run_metadata_tasks = _copy
    else:
        monkeypatch.setattr(job, "_run_build_job", _build)
        monkeypatch.setattr(job, "_run_merge_job", _merge)
        monkeypatch.setattr(btree_job, "_run_sort_job", _sort)
        monkeypatch.setattr(metadata_job, "_run_metadata_tasks", _copy)


@contextmanager
def without_jobs() -> Iterator[None]:
    """Run builds of sessions here: those that sort no BTREE entries, of data files that are read in one part."""

    def build(spark: object, tasks: Sequence[Sequence[BuildTask]], progress: Progress) -> pa.Table:
        return _build(LocalConnection(), tasks, progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "_run_build_job", build)
        yield


def indexed_table(path: Path, columns: Mapping[str, pa.Array]) -> Table:
    """Write a table of one file with a row number ``id``, and index all other columns."""
    rows = len(next(iter(columns.values())))
    write_columns(path / "x.orc", {**columns, "id": pa.array(range(rows), pa.int64())}, stride=1000)
    with pytest.MonkeyPatch.context() as patch:
        install(patch)
        table = LocalConnection().table(path)
        table.create_indexes([IndexSpec(f"by_{name}", name) for name in columns])
    return table
