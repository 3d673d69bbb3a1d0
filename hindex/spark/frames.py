"""DataFrames of what tasks yield, one Spark task for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: What is taken for the size of a cluster that does not tell.
_UNKNOWN_CORES = 8


def cores(spark: SparkSession) -> int:
    """How many tasks a session's cluster runs at a time, as far as it tells."""
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
) -> DataFrame:
    """A DataFrame of what ``run`` yields for each task, one Spark task each.

    Both travel to the executors, so tasks are small and picklable. Timestamps of ``schema`` without a zone are
    Spark's ``timestamp_ntz``.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    everything = tuple(tasks)

    def run_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from run(everything[number])

    return spark.range(0, len(everything), 1, len(everything)).mapInArrow(
        run_partition, from_arrow_schema(schema)
    )
