"""Scans as Spark DataFrames: few rows are read here and handed over, many by Spark's executors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import pyarrow as pa

from hindex.formatting import counted
from hindex.scan.open_task import OpenTask
from hindex.scan.task_runner import Runner, Unit, run_units
from hindex.spark.frames import cores, task_frame
from hindex.spark.native import native_frame, split_native
from hindex.spark.session_time_zones import zones
from hindex.spark.tasks import group_units, numbered, numbered_schema, read_group
from hindex.spark.types import spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.explain.explanation import Explanation
    from hindex.plan.modes import Mode
    from hindex.plan.order import Order
    from hindex.plan.time_zones import ZonesOf
    from hindex.scan.planning import ScanPlan

#: Up to so many values (rows times columns) are read here: starting a Spark job takes longer.
MAX_LOCAL_VALUES = 1_000_000
#: The indexes of more files than these are not asked here: each is held open, and systems often allow 1,024.
MAX_LOCAL_FILES = 400


T = TypeVar("T")


class RowScan(Protocol):
    """The part of :class:`hindex.Scan` that reading it through Spark needs."""

    @property
    def mode(self) -> Mode:
        """Return the mode of fallbacks."""

    @property
    def runner(self) -> Runner:
        """Return the runner of scan tasks."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the result columns; None for the table's own."""

    @property
    def order(self) -> Order | None:
        """Return the order of the rows; None for file order."""

    @property
    def row_limit(self) -> int | None:
        """Return the maximum number of rows; None for all."""

    def with_zones(self, zones: ZonesOf) -> Self:
        """Return the scan with timestamps as instants in other time zones."""

    def plan(self) -> ScanPlan:
        """Plan the scan against the current files."""

    def proved(self, plan: ScanPlan) -> ScanPlan:
        """Return the plan, or in prove mode the verified full scan."""

    def attempt(self, run: Callable[[Runner], T]) -> T:
        """Run a read, once more if a data file was deleted meanwhile."""

    def count(self) -> int:
        """Count the rows."""

    def to_arrow(self) -> pa.Table:
        """Read the rows."""

    def explain(self) -> Explanation:
        """Explain the scan."""

    def log(self, plan: ScanPlan, runner: Runner, result: str, *, by_executors: bool = False) -> None:
        """Log the scan in one line."""


def scan_frame(
    spark: SparkSession,
    scan: RowScan,
    plan: ScanPlan | None = None,
    units: Sequence[Unit] | None = None,
) -> DataFrame:
    """The rows of a scan as a DataFrame with the types that ``spark.read.orc`` gives.

    The table is planned, and its indexes are asked, now; rows that are few are read now as well. Data files of which
    every row is wanted are left to Spark's own reader, where that certainly gives the same. Timestamps are the
    session's instants, whatever the time zones of the scan. Rows in an order are read now, too.

    :param plan: of the scan in the session's time zones, where it is known already.
    :param units: the stripes of the plan that may have rows, where its indexes were asked already.
    :raises ColumnError: for an unknown column, or one whose type Spark does not have.
    :raises DeletedFileError: if a data file is deleted; where no ``plan`` was given, after the second plan only.
    """
    scan = scan.with_zones(lambda: zones(spark))
    if plan is not None:
        return _frame_of_plan(spark, scan, plan, scan.runner, units)

    def run(runner: Runner) -> DataFrame:
        plan = scan.plan()
        frame = _frame_of_plan(spark, scan, plan, runner)
        return _with_field_metadata(frame, plan, scan.names or [column.name for column in plan.columns])

    return scan.attempt(run)


def read_few(
    scan: RowScan, plan: ScanPlan, most: int, units: Sequence[Unit] | None = None
) -> pa.Table | None:
    """Read the rows of a plan here; None if there are more than ``most``.

    Columns are named by their position. Reading stops early where many rows match.
    """
    reads = scan.runner.run_lookups(plan.tasks) if units is None else units
    batches, rows = [], 0
    for batch in run_units(reads, OpenTask.read, cautious=True):
        rows += batch.num_rows
        if rows > most:
            return None
        batches.append(numbered(batch))
    schema = numbered_schema(plan.output_schema())
    return pa.Table.from_batches(batches, schema) if batches else schema.empty_table()


def rows_frame(spark: SparkSession, rows: pa.Table, plan: ScanPlan) -> DataFrame:
    """Return rows of :func:`read_few` as a DataFrame with the types of :func:`scan_frame`."""
    return _frame(spark, rows).toDF(*(column.name for column in plan.columns))


def _with_field_metadata(frame: DataFrame, plan: ScanPlan, names: Sequence[str]) -> DataFrame:
    """Give the columns of a frame the metadata that the catalog has of them: comments, defaults, CHAR and VARCHAR.

    Without it, Spark does not pad what is compared with a CHAR column.
    """
    from pyspark.sql.types import StructField, StructType

    declared = plan.snapshot.declared
    if declared is None or len({*map(str.lower, names)}) < len(names):
        return frame
    metadata = {field["name"]: field.get("metadata") for field in json.loads(declared.spark_json)["fields"]}
    if not any(metadata.get(column.name) for column in plan.columns):
        return frame
    fields = zip(names, frame.schema, plan.columns, strict=True)
    return frame.to(
        StructType(
            [
                StructField(name, field.dataType, field.nullable, metadata.get(column.name))
                for name, field, column in fields
            ]
        )
    )


def _frame_of_plan(
    spark: SparkSession,
    scan: RowScan,
    planned: ScanPlan,
    runner: Runner,
    units: Sequence[Unit] | None = None,
) -> DataFrame:
    """The rows of a plan of a scan; other parameters are those of :func:`scan_frame`."""
    plan, limit = scan.proved(planned), scan.row_limit
    columns = plan.columns
    names = scan.names or [column.name for column in columns]
    if not columns:
        return spark.range(scan.count()).select()
    for column in columns:
        spark_ddl(column.type)  # a type that Spark does not have is an error
    schema = numbered_schema(plan.output_schema())
    if scan.order is not None:
        ordered = [numbered(batch) for batch in scan.to_arrow().to_batches()]
        return _frame(spark, pa.Table.from_batches(ordered, schema)).toDF(*names)
    found = _few_reads(plan, limit, runner, units if plan is planned else None)
    if not isinstance(found, int):
        rows = _read(found, schema, limit)
        scan.log(plan, runner, f"{counted(rows.num_rows, 'row')} for Spark")
        return _frame(spark, rows).toDF(*names)
    scan.log(plan, runner, f"about {counted(found, 'row')}", by_executors=True)
    native, rest = split_native(plan)
    frame = None
    if rest.tasks or not native:
        groups = group_units(rest, cores(spark))
        read = partial(read_group, limit=limit, mode=scan.mode)
        frame = task_frame(spark, groups, read, schema, rows=found)
    if native:
        dense = native_frame(spark, plan, native)
        frame = dense if frame is None else frame.unionAll(dense)
    assert frame is not None
    typed = frame.toDF(*names)
    return typed if limit is None else typed.limit(limit)


def _few_reads(
    plan: ScanPlan, limit: int | None, runner: Runner, units: Sequence[Unit] | None
) -> list[Unit] | int:
    """The stripes to read where they hold few candidate rows, by the indexes; about how many rows where not."""
    if limit == 0:
        return []
    paths = {task.path for task in plan.tasks}
    total = sum(view.num_rows for view in plan.snapshot.files if view.file.path in paths)
    if len(plan.tasks) > MAX_LOCAL_FILES:
        return total
    most = MAX_LOCAL_VALUES // len(plan.columns)
    candidates = certain = seen = 0
    found: list[Unit] = []

    for task, answer in runner.run_lookups(plan.tasks, every=True) if units is None else units:
        seen += answer.num_rows
        answer = answer.first(None if limit is None else limit - certain)
        if not len(answer.bounds.upper):
            continue
        candidates += len(answer.bounds.upper)
        certain += len(answer.bounds.lower)
        if candidates > most:
            return max(candidates * total // seen, candidates)
        found.append((task, answer))
        if limit is not None and certain >= limit:
            break
    return found


def _read(reads: Sequence[Unit], schema: pa.Schema, limit: int | None) -> pa.Table:
    found = run_units(reads, OpenTask.read)
    batches = [numbered(batch) for batch in found]
    # PySpark cannot take a table of no batches
    return pa.Table.from_batches(batches, schema).slice(0, limit) if batches else schema.empty_table()


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    # Spark takes an empty batch for the end of the rows
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    table = pa.Table.from_batches(batches, table.schema) if batches else table.schema.empty_table()
    return spark.createDataFrame(table, from_arrow_schema(table.schema))
