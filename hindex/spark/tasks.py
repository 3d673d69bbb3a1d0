"""Spark tasks: groups of stripes of even size, and DataFrames of the batches that tasks yield.

Executors import this module, so it imports neither PySpark nor SQL.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from hindex.errors import DeletedFileError, HindexError, OrcError
from hindex.orc.io.thread_pool import ThreadPool
from hindex.plan.modes import Mode
from hindex.scan.scan_task import ScanTask, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Runner, is_deleted_file
from hindex.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.scan.planning import ScanPlan

#: Maximum number of rows in a batch that an executor passes to Spark.
BATCH_ROWS = 1 << 16
#: Maximum (a stripe is never cut) and minimum number of bytes of data files for a Spark task.
MAX_BYTES = 128 << 20
MIN_BYTES = 4 << 20
#: Spark tasks for each core, because tasks differ in duration.
_TASKS_PER_CORE = 3

#: The scan tasks that one Spark task runs.
TaskGroup = tuple[ScanTask, ...]


def group_tasks(plan: ScanPlan, cores: int) -> list[TaskGroup]:
    """Split the tasks of a plan between stripes and combine them to groups of about the same number of bytes."""
    views = plan.snapshot.views
    stripes = {views.files.paths[at]: max(int(views.num_stripes[at]), 1) for at in plan.positions()}
    total = sum(task.length for task in plan.tasks)
    target = min(max(total // (max(cores, 1) * _TASKS_PER_CORE), MIN_BYTES), MAX_BYTES)
    groups: list[TaskGroup] = []
    current: list[ScanTask] = []
    current_bytes = 0
    for task in plan.tasks:
        count = stripes.get(task.path, 1)
        pieces = min(-(-task.length // target), count)
        bounds = [count * piece // pieces for piece in range(pieces)] if pieces else [0]
        size = task.length // len(bounds)
        for first, end in zip(bounds, [*bounds[1:], None], strict=True):
            if current and current_bytes + size > target:
                groups.append(tuple(current))
                current, current_bytes = [], 0
            current.append(replace(task, first_stripe=first, end_stripe=end) if len(bounds) > 1 else task)
            current_bytes += size
    if current:
        groups.append(tuple(current))
    return groups


def read_group(
    group: TaskGroup, limit: int | None = None, mode: Mode = Mode.LENIENT
) -> Iterator[pa.RecordBatch]:
    """Read the selected rows of a group on an executor, at most ``limit``.

    Requests for different files of a remote store overlap. Columns are named by their position, so that a DataFrame may
    have any names, and equal ones. Timestamps are instants if the plan has time zones, otherwise wall clocks.

    Raises:
        FallbackError: in strict mode, if an index is not usable.
        DeletedFileError: if a data file was deleted or replaced.
    """
    if limit == 0:
        return

    def read(task: ScanTaskReader, result: StripeResult, pool: ThreadPool) -> pa.RecordBatch:
        # no stripe has to give more
        return numbered(task.read(result.first(limit), pool))

    rows = 0
    try:
        for batch in Runner(mode, is_executor=True).run(group, read, cautious=limit is not None):
            part = batch.slice(0, None if limit is None else limit - rows)
            rows += part.num_rows
            yield from (part.slice(at, BATCH_ROWS) for at in range(0, part.num_rows, BATCH_ROWS))
            if rows == limit:
                return
    except HindexError as error:
        if not is_deleted_file(error):
            raise
        orc_error = error if isinstance(error, OrcError) else error.__cause__
        path = orc_error.path if isinstance(orc_error, OrcError) else None
        file = "a data file" if path is None else f"data file {path!r}"
        # Spark shows the whole traceback, which is short without the cause
        raise DeletedFileError(
            f"{file} was deleted or replaced after the DataFrame was made: make it again, which lists the table anew"
        ) from None


def numbered_schema(schema: pa.Schema) -> pa.Schema:
    """Name columns by their position."""
    return pa.schema([field.with_name(f"c{at}") for at, field in enumerate(schema)])


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Name a batch's columns by their position."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=numbered_schema(batch.schema))


@cache
def freeze_objects() -> None:
    """Exclude the objects of a worker process from later garbage collections: most are of imported modules.

    Spark's workers collect garbage after every task. To visit these objects took a third of a worker's time.
    """
    gc.collect()
    gc.freeze()


T = TypeVar("T")

#: Assumed number of cores of a cluster of unknown size.
_UNKNOWN_CORES = 8
#: Maximum number of placeholder values, by which Spark estimates the size of a DataFrame.
_MAX_PLACEHOLDERS = 16_000_000


def cores(spark: SparkSession) -> int:
    """Return the number of tasks that the session's cluster runs at a time, or an assumption."""
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError):
        # Spark Connect has no context
        parallelism = spark.conf.get("spark.default.parallelism", None)
        return int(parallelism) if parallelism and parallelism.isdigit() else _UNKNOWN_CORES


def task_frame(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    rows: int = 0,
) -> DataFrame:
    """Make a DataFrame of the batches that ``run`` yields for each task, one Spark task each.

    Spark sends both to the executors, so tasks are small and picklable. Timestamps of ``schema`` without a zone are
    Spark's ``timestamp_ntz``.

    Args:
        rows: estimated number of rows, if there are many: Spark assumes that a DataFrame has as many bytes as its
            input, and would broadcast a large one with a small input in a join.

    Raises:
        MissingRuntimeError: if the session's Python workers cannot run hindex.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    check_workers(spark)
    # each worker gets all tasks, and makes objects of its own ones only
    all_tasks = tuple(map(pickle.dumps, tasks))
    # input numbers for each task: eight bytes each, about the size of a value
    per_task = max(min(rows * len(schema), _MAX_PLACEHOLDERS) // max(len(all_tasks), 1), 1)

    def run_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = -1
        for batch in batches:
            # ascending, without gaps
            ends = [batch.column(0)[at].as_py() // per_task for at in (0, -1)] if batch.num_rows else [0, -1]
            for number in range(max(ends[0], done + 1), ends[1] + 1):
                done = number
                yield from run(pickle.loads(all_tasks[number]))  # noqa: S301 from the driver
        freeze_objects()

    return spark.range(0, len(all_tasks) * per_task, 1, len(all_tasks)).mapInArrow(
        run_partition, from_arrow_schema(schema)
    )
