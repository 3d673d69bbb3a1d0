"""Scans as Spark DataFrames: few rows are read here and handed over, many by Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.scan.execute import OpenTask
from hindex.scan.running import Unit, answered, run_units
from hindex.scan.task import OutputColumn, ScanTask
from hindex.spark.frames import task_frame
from hindex.spark.types import has_wall_clock, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.scan.planning import ScanPlan
    from hindex.scan.scan import Scan

#: Up to so many values (rows times columns) are read here: starting a Spark job takes longer.
MAX_LOCAL_VALUES = 1_000_000
#: The indexes of more files than these are not asked here: each is held open, and systems often allow 1,024.
MAX_LOCAL_FILES = 400
#: Rows that executors hand to Spark at a time.
BATCH_ROWS = 1 << 16


def scan_frame(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of a scan as a DataFrame with the types that ``spark.read.orc`` gives.

    The table is planned, and its indexes are asked, now; rows that are few are read now as well. ORC
    timestamps, wall clocks without a zone, are taken in the session's time zone.

    :raises ColumnError: for an unknown column, or one whose type Spark does not have.
    """
    plan, limit = scan.plan(), scan.limit
    columns = plan.columns
    types = [spark_ddl(column.type) for column in columns]
    if not columns:
        return spark.range(scan.count()).select()
    schema = _numbered_schema(columns)
    reads = _few_reads(plan, limit)
    if reads is None:
        frame = task_frame(spark, plan.tasks, partial(read_task, limit=limit), schema)
    else:
        frame = _frame(spark, _read(reads, schema, limit))
    found = frame.select(
        *(
            (frame[field.name].cast(ddl) if has_wall_clock(column.type) else frame[field.name]).alias(
                column.name
            )
            for field, column, ddl in zip(schema, columns, types, strict=True)
        )
    )
    return found if limit is None or reads is not None else found.limit(limit)


def read_task(task: ScanTask, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The wanted rows of one data file, at most ``limit``: what an executor runs.

    Columns are named by their position, so that any names, and equal ones, can be asked for.
    """
    schema = _numbered_schema(task.columns)
    with OpenTask(task) as opened:
        for stripe in opened.stripes:
            if limit is not None and limit <= 0:
                return
            answer = opened.answer(stripe)
            if not len(answer.bounds.upper):
                continue
            batch = _numbered(opened.read(answer.first(limit)), schema).slice(0, limit)
            for at in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(at, BATCH_ROWS)
            if limit is not None:
                limit -= batch.num_rows


def _few_reads(plan: ScanPlan, limit: int | None) -> list[Unit] | None:
    """The stripes to read where they hold few candidate rows, by the indexes; None where there are many."""
    if limit == 0:
        return []
    if len(plan.tasks) > MAX_LOCAL_FILES:
        return None
    most = MAX_LOCAL_VALUES // len(plan.columns)
    candidates = certain = 0
    found: list[Unit] = []

    for task, answer in answered(plan.tasks):
        answer = answer.first(None if limit is None else limit - certain)
        candidates += len(answer.bounds.upper)
        certain += len(answer.bounds.lower)
        if candidates > most:
            return None
        found.append((task, answer))
        if limit is not None and certain >= limit:
            break
    return found


def _read(reads: Sequence[Unit], schema: pa.Schema, limit: int | None) -> pa.Table:
    batches = list(run_units(reads, lambda task, answer: _numbered(task.read(answer), schema)))
    # PySpark cannot take a table of no batches
    return pa.Table.from_batches(batches, schema).slice(0, limit) if batches else schema.empty_table()


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def _numbered_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    return pa.schema([pa.field(f"c{at}", column.type.to_arrow()) for at, column in enumerate(columns)])


def _numbered(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
