"""Start Spark's Python workers before any measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def warm_workers(spark: SparkSession) -> None:
    """Start Spark's Python workers and have each load what a build needs."""

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import hindex.build.btree_task
        import hindex.build.task
        import hindex.index.bitmap  # noqa: F401

        # long enough for every worker to get a task
        time.sleep(0.2)
        yield from batches

    tasks = 2 * spark.sparkContext.defaultParallelism
    spark.range(0, tasks, 1, tasks).mapInArrow(load, "id long").toArrow()
