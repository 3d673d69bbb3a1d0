"""Builds that run in this process: what executors run, without a Spark session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from hindex.api.connection import Connection
from hindex.build import btree_job, job
from hindex.build.btree_task import WRITTEN_SCHEMA, BTreeJob, EntryTask, ReadTask, entry_chunks, write_parts
from hindex.build.merge_parts import JOINED_SCHEMA, MergeTask, run_merge_task
from hindex.build.task import RESULT_SCHEMA, BuildTask, run_build_task, run_build_tasks
from hindex.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LocalConnection(Connection):
    """A connection that has no Spark: its builds run here, one task after the other.

    :ivar told: the paths of the data files that builds read, those of each build sorted.
    :ivar conf: the settings of what stands for a session.
    """

    def __init__(self, store: str | None = None, **options: Any) -> None:
        super().__init__(store, **options)
        self.told: list[str] = []
        self.conf: dict[str, str] = {}

    def spark(self) -> SparkSession:
        return cast("SparkSession", self)

    def getTags(self) -> set[str]:  # noqa: N802 as of a session of Spark Connect
        return set()

    def addTag(self, tag: str) -> None:  # noqa: N802
        pass

    def removeTag(self, tag: str) -> None:  # noqa: N802
        pass


_real = job._collect
_real_join = job._join
_real_btree = btree_job._collect


def _collect(spark: object, tasks: Sequence[Sequence[BuildTask]], progress: Progress) -> pa.Table:
    if not isinstance(spark, LocalConnection):
        return _real(cast("SparkSession", spark), tasks, progress)
    batches = []
    spark.told += sorted({task.path for some in tasks for task in some})
    for some in tasks:
        batches += list(run_build_tasks(some, run_build_task))
        progress.advance()
    return pa.Table.from_batches(batches, RESULT_SCHEMA)


def _join(spark: object, tasks: Sequence[MergeTask], progress: Progress) -> pa.Table:
    if not isinstance(spark, LocalConnection):
        return _real_join(cast("SparkSession", spark), tasks, progress)
    progress.advance(len(tasks))
    return pa.Table.from_batches([batch for task in tasks for batch in run_merge_task(task)], JOINED_SCHEMA)


def _collect_btree(
    spark: object, of: BTreeJob, tasks: Sequence[Sequence[EntryTask]], progress: Progress
) -> pa.Table:
    """What Spark does with the chunks of BTREE entries: sorted, and handed on in batches of a few."""
    if not isinstance(spark, LocalConnection):
        return _real_btree(cast("SparkSession", spark), of, tasks, progress)
    rows: list[dict[str, Any]] = []
    schema = None
    spark.told += sorted({task.file.path for some in tasks for task in some if isinstance(task, ReadTask)})
    for task in tasks:
        for batch in entry_chunks(of, task):
            schema = batch.schema
            rows += batch.to_pylist()
        progress.advance()
    # nulls first, as Spark sorts
    rows.sort(key=lambda row: (row["part"], (0, 0) if row["first"] is None else (1, row["first"])))
    batches = (pa.RecordBatch.from_pylist(rows[at : at + 3], schema) for at in range(0, len(rows), 3))
    return pa.Table.from_batches(list(write_parts(of, batches)), WRITTEN_SCHEMA)


def install(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Let builds of a :class:`LocalConnection` run here, and those of all others as ever."""
    if monkeypatch is None:
        job._collect = _collect
        job._join = _join
        btree_job._collect = _collect_btree  # type: ignore[assignment]
    else:
        monkeypatch.setattr(job, "_collect", _collect)
        monkeypatch.setattr(job, "_join", _join)
        monkeypatch.setattr(btree_job, "_collect", _collect_btree)
