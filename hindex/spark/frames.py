"""DataFrames of what tasks yield, one Spark task for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from hindex.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: What is taken for the size of a cluster that does not tell.
_UNKNOWN_CORES = 8
#: Values that Spark is told of at most.
_TOLD_VALUES = 16_000_000


def cores(spark: SparkSession) -> int:
    """Return the number of tasks that the session's cluster runs at a time, as far as it is known."""
    from pyspark.errors import PySparkException

    try:
        return int(spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError):
        # Spark Connect has no context
        known = spark.conf.get("spark.default.parallelism", None)
        return int(known) if known and known.isdigit() else _UNKNOWN_CORES


def task_frame(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
    *,
    rows: int = 0,
) -> DataFrame:
    """A DataFrame of what ``run`` yields for each task, one Spark task each.

    Both travel to the executors, so tasks are small and picklable. Timestamps of ``schema`` without a zone are
    Spark's ``timestamp_ntz``.

    :param rows: about how many there will be, if many: Spark takes a frame to have as many bytes as the one that it is
        made of, and would send one that seems short to every executor for a join.
    :raises MissingRuntimeError: if the session's Python workers cannot run hindex.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    check_workers(spark)
    everything = tuple(tasks)
    # so many numbers stand for each task: eight bytes each, as a value has, about
    each = max(min(rows * len(schema), _TOLD_VALUES) // max(len(everything), 1), 1)

    def run_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        done = -1
        for batch in batches:
            # ascending, without gaps
            ends = [batch.column(0)[at].as_py() // each for at in (0, -1)] if batch.num_rows else [0, -1]
            for number in range(max(ends[0], done + 1), ends[1] + 1):
                done = number
                yield from run(everything[number])

    return spark.range(0, len(everything) * each, 1, len(everything)).mapInArrow(
        run_partition, from_arrow_schema(schema)
    )
