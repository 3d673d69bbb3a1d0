"""Scans as Spark DataFrames: few rows are read here and handed over, many by Spark's executors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.scan.running import Runner, Unit, run_units
from hindex.scan.task import OutputColumn
from hindex.spark.frames import cores, task_frame
from hindex.spark.native import native_frame, split_native
from hindex.spark.tasks import group_units, numbered, numbered_schema, read_group
from hindex.spark.types import has_wall_clock, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.scan.planning import ScanPlan
    from hindex.scan.scan import Scan

#: Up to so many values (rows times columns) are read here: starting a Spark job takes longer.
MAX_LOCAL_VALUES = 1_000_000
#: The indexes of more files than these are not asked here: each is held open, and systems often allow 1,024.
MAX_LOCAL_FILES = 400


def scan_frame(spark: SparkSession, scan: Scan, plan: ScanPlan | None = None) -> DataFrame:
    """The rows of a scan as a DataFrame with the types that ``spark.read.orc`` gives.

    The table is planned, and its indexes are asked, now; rows that are few are read now as well. Data files of which
    every row is wanted are left to Spark's own reader, where that certainly gives the same. ORC timestamps, wall clocks
    without a zone, are taken in the session's time zone. Rows in an order are read now, too.

    :param plan: of the scan, where it is known already.
    :raises ColumnError: for an unknown column, or one whose type Spark does not have.
    """
    plan, limit = scan.proved(plan or scan.plan()), scan.limit
    columns = plan.columns
    names = scan.names or tuple(column.name for column in columns)
    types = [spark_ddl(column.type) for column in columns]
    if not columns:
        return spark.range(scan.count()).select()
    schema = numbered_schema(columns)
    if scan.order is not None:
        ordered = pa.Table.from_arrays(scan.to_arrow().columns, schema=schema)
        return _typed(_frame(spark, ordered), names, columns, types)
    reads = _few_reads(plan, limit, scan.runner)
    if reads is not None:
        return _typed(_frame(spark, _read(reads, schema, limit)), names, columns, types)
    native, rest = split_native(plan)
    found = None
    if rest.tasks or not native:
        groups = group_units(rest, cores(spark))
        found = task_frame(spark, groups, partial(read_group, limit=limit, mode=scan.mode), schema)
    if native:
        dense = native_frame(spark, plan, native)
        found = dense if found is None else found.unionAll(dense)
    assert found is not None
    typed = _typed(found, names, columns, types)
    return typed if limit is None else typed.limit(limit)


def _typed(
    frame: DataFrame, names: Sequence[str], columns: Sequence[OutputColumn], types: Sequence[str]
) -> DataFrame:
    """Columns that are named by their position under their names, wall clocks as Spark's timestamps."""
    return frame.select(
        *(
            (frame[f"c{at}"].cast(ddl) if has_wall_clock(column.type) else frame[f"c{at}"]).alias(name)
            for at, (name, column, ddl) in enumerate(zip(names, columns, types, strict=True))
        )
    )


def _few_reads(plan: ScanPlan, limit: int | None, runner: Runner) -> list[Unit] | None:
    """The stripes to read where they hold few candidate rows, by the indexes; None where there are many."""
    if limit == 0:
        return []
    if len(plan.tasks) > MAX_LOCAL_FILES:
        return None
    most = MAX_LOCAL_VALUES // len(plan.columns)
    candidates = certain = 0
    found: list[Unit] = []

    for task, answer in runner.answered(plan.tasks):
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
    batches = list(run_units(reads, lambda task, answer: numbered(task.read(answer), schema)))
    # PySpark cannot take a table of no batches
    return pa.Table.from_batches(batches, schema).slice(0, limit) if batches else schema.empty_table()


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, from_arrow_schema(table.schema))
