"""Scans as Spark DataFrames: the driver reads few rows, Spark's executors read many.

Spark's own ORC reader, which is faster on whole files, reads local files that a scan needs completely. Their columns
have the table's names and types, and none is a timestamp, whose values depend on time zones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import pyarrow as pa

from hindex.formatting import counted
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import Always
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Runner, Unit
from hindex.spark.locations import escape_glob, spark_path
from hindex.spark.session import session_time_zones
from hindex.spark.tasks import cores, group_tasks, numbered_schema, read_group, task_frame
from hindex.spark.types import quoted, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.explanations.explanation import Explanation
    from hindex.plan.modes import Mode
    from hindex.plan.order import Order
    from hindex.plan.time_zones import ZonesOf
    from hindex.scan.planning import ScanPlan

#: Maximum number of values (rows times columns) that the driver reads. It passes a row to Spark in 2 to 4 microseconds,
#: one after the other; executors need 0.1 to 0.2 s to start, and look up again what the driver has looked up. On 60
#: million rows of lineitem, TPC-H 20 with 392,000 values took 2.8 s through the driver and 4.2 s through executors.
MAX_LOCAL_VALUES = 500_000
#: Maximum number of bytes of rows that the driver reads to count them.
MAX_LOCAL_BYTES = 256 << 20
#: Maximum number of rows that are one partition, which Spark need not shuffle. Of the time with several, a lookup join
#: with EXISTS took 0.5, a star join of 3,600 rows 0.8, one of 48,000 rows 0.85. But work that multiplies them, such as
#: a join with many partners, is then left to one task.
ONE_PARTITION_ROWS = 1 << 15
#: Maximum number of files whose indexes the driver reads: each stays open, and systems often allow 1,024.
MAX_LOCAL_FILES = 400


#: Option of relations that are read by Spark's own reader as part of a scan; `OptimizerRule.java` names it too.
PLANNED_OPTION = "hindex.planned"

T = TypeVar("T")


class RowScan(Protocol):
    """The part of `hindex.Scan` that reading it through Spark needs."""

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
    def orders(self) -> tuple[Order, ...]:
        """Return the orders of the rows, the first one first; none for file order."""

    @property
    def row_limit(self) -> int | None:
        """Return the maximum number of rows; None for all."""

    @property
    def row_offset(self) -> int:
        """Return the number of rows that are skipped before the first one."""

    def with_zones(self, zones: ZonesOf) -> Self:
        """Return the scan with timestamps as instants in other time zones."""

    def plan(self) -> ScanPlan:
        """Plan the scan against the current files."""

    def verify_plan(self, plan: ScanPlan) -> ScanPlan:
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
    *,
    one_partition: bool = False,
) -> DataFrame:
    """Return the rows of a scan as a DataFrame with the types of ``spark.read.orc``.

    Planning, index lookups and the reading of few or ordered rows happen at the call, the reading of many rows in
    Spark's job. Timestamps are instants in the session's time zones, whatever those of the scan.

    Args:
        plan: the plan of the scan in the session's time zones, if there is one already.
        units: the stripes with matching rows, if the indexes of the plan were read already.
        one_partition: put few rows into one partition, so that Spark need not shuffle them.

    Raises:
        ColumnError: for an unknown column, or one whose type Spark lacks.
        DeletedFileError: if a data file is deleted; without ``plan`` only after a second attempt.
    """
    scan = scan.with_zones(lambda: session_time_zones(spark))
    if plan is not None:
        return _frame_of_plan(spark, scan, plan, scan.runner, units, one_partition=one_partition)

    def run(runner: Runner) -> DataFrame:
        plan = scan.plan()
        frame = _frame_of_plan(spark, scan, plan, runner, one_partition=one_partition)
        return _with_field_metadata(frame, plan, scan.names or [column.name for column in plan.columns])

    return scan.attempt(run)


def collect_if_small(
    scan: RowScan, plan: ScanPlan, max_rows: int, units: Sequence[Unit] | None = None
) -> pa.Table | None:
    """Read the rows of a plan in the driver; return None, after reading a part, if they are many.

    That is, more than ``max_rows``, or than 256 MiB.
    """
    selected = scan.runner.run_lookups(plan.tasks) if units is None else units
    batches, rows, nbytes = [], 0, 0
    for batch in scan.runner.run_units(selected, ScanTaskReader.read, cautious=True):
        rows += batch.num_rows
        nbytes += batch.nbytes
        if rows > max_rows or nbytes > MAX_LOCAL_BYTES:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches, plan.output_schema())


def rows_frame(
    spark: SparkSession, rows: pa.Table, names: Sequence[str], *, one_partition: bool = False
) -> DataFrame:
    """Return rows of `collect_if_small`, or of an aggregation, as a DataFrame with the types of `scan_frame`."""
    return _local_frame(spark, rows, names, one_partition)


def _with_field_metadata(frame: DataFrame, plan: ScanPlan, names: Sequence[str]) -> DataFrame:
    """Add the catalog's metadata to the columns of a DataFrame: comments, defaults, CHAR and VARCHAR.

    Without it, Spark does not pad literals that are compared with a CHAR column.
    """
    from pyspark.sql.types import StructField, StructType

    metadata = plan.snapshot.field_metadata
    if len({*map(str.lower, names)}) < len(names):
        return frame
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
    *,
    one_partition: bool,
) -> DataFrame:
    """Return the rows of a plan of a scan; other parameters are those of `scan_frame`."""
    plan, limit, offset = scan.verify_plan(planned), scan.row_limit, scan.row_offset
    stop = None if limit is None else offset + limit
    columns = plan.columns
    names = scan.names or [column.name for column in columns]
    if not columns:
        return spark.range(scan.count()).select()
    for column in columns:
        spark_ddl(column.type)  # raises an error for a type that Spark lacks
    if scan.orders:
        return _local_frame(spark, scan.to_arrow(), names, one_partition)
    local_units = _local_units(plan, stop, runner, units if plan is planned else None)
    if not isinstance(local_units, int):
        batches = runner.run_units(local_units, ScanTaskReader.read)
        rows = pa.Table.from_batches(batches, plan.output_schema()).slice(offset, limit)
        scan.log(plan, runner, f"{counted(rows.num_rows, 'row')} for Spark")
        return _local_frame(spark, rows, names, one_partition)
    num_rows = local_units
    scan.log(plan, runner, f"about {counted(num_rows, 'row')}", by_executors=True)
    native, rest = split_native(plan)
    frame = None
    if rest.tasks or not native:
        groups = group_tasks(rest, cores(spark))
        read = partial(read_group, limit=stop, mode=scan.mode)
        schema = numbered_schema(plan.output_schema())
        frame = task_frame(spark, groups, read, schema, rows=num_rows)
    if native:
        spark_frame = native_frame(spark, plan, native)
        frame = spark_frame if frame is None else frame.unionAll(spark_frame)
    assert frame is not None
    typed = frame.toDF(*names)
    typed = typed.offset(offset) if offset else typed
    return typed if limit is None else typed.limit(limit)


def _local_units(
    plan: ScanPlan, limit: int | None, runner: Runner, units: Sequence[Unit] | None
) -> list[Unit] | int:
    """Return the stripes that the driver reads, if few rows may match; otherwise an estimate of the number of rows."""
    if limit == 0:
        return []
    views = plan.snapshot.views
    total = int(views.num_rows[plan.positions()].sum())
    if len(plan.tasks) > MAX_LOCAL_FILES:
        return total
    max_rows = MAX_LOCAL_VALUES // len(plan.columns)
    candidates = certain = seen = 0
    selected: list[Unit] = []
    for task, result in runner.run_lookups(plan.tasks, every=True) if units is None else units:
        seen += result.num_rows
        result = result.first(None if limit is None else limit - certain)
        if not len(result.bounds.upper):
            continue
        candidates += len(result.bounds.upper)
        certain += len(result.bounds.lower)
        if candidates > max_rows:
            return max(candidates * total // seen, candidates)
        selected.append((task, result))
        if limit is not None and certain >= limit:
            break
    return selected


def _local_frame(
    spark: SparkSession, table: pa.Table, names: Sequence[str], one_partition: bool
) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    # Spark stops reading at an empty batch
    batches = [batch for batch in table.to_batches() if batch.num_rows]
    table = pa.Table.from_batches(batches, table.schema) if batches else table.schema.empty_table()
    if any(chunk.offset for column in table.columns for chunk in column.chunks):
        # PySpark fails on lists that begin within their buffers
        table = table.take(pa.array(range(table.num_rows)))
    table = table.rename_columns(list(names))
    frame = spark.createDataFrame(table, from_arrow_schema(table.schema))
    return frame.coalesce(1) if one_partition and table.num_rows <= ONE_PARTITION_ROWS else frame


#: Kinds whose stored values Spark's reader returns unchanged.
_NATIVE_KINDS = frozenset(
    {
        *(Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE),
        *(Kind.STRING, Kind.DATE, Kind.DECIMAL, Kind.LIST, Kind.MAP, Kind.STRUCT),
    }
)


def split_native(plan: ScanPlan) -> tuple[list[ScanTask], ScanPlan]:
    """Return the tasks that Spark's own reader can run, and the plan without them."""
    # Spark's optimizer fails on a union with equal columns
    if len({column.name for column in plan.columns}) < len(plan.columns):
        return [], plan
    columns = plan.snapshot.schema.data_columns
    types = [part for column in columns for part in column.type.walk()]
    # Spark rejects a schema with names that differ in letter case only
    for names in ([column.name for column in columns], *(part.field_names for part in types)):
        if len({*map(str.lower, names)}) < len(names):
            return [], plan
    if any(column.is_partition or not _is_native(column.type) for column in plan.columns):
        return [], plan
    if any(part.kind is Kind.UNION for part in types):
        return [], plan
    views = plan.snapshot.views.by_path(task.path for task in plan.tasks)
    native = []
    for task in plan.tasks:
        view = views.get(task.path)
        # the same names in the same order: Spark may match columns by name or by position
        if (
            view is not None
            and view.file.acid is None
            and isinstance(task.filter, Always)
            and "://" not in task.uri
            and escape_glob(task.uri) == task.uri
            and [name for name, _ in view.columns] == [column.name for column in columns]
            and all(
                data_type.same_as(column.type)
                for (_, data_type), column in zip(view.columns, columns, strict=True)
            )
        ):
            native.append(task)
    if not native:
        return [], plan
    paths = {task.path for task in native}
    return native, replace(plan, tasks=tuple(task for task in plan.tasks if task.path not in paths))


def native_frame(spark: SparkSession, plan: ScanPlan, tasks: Sequence[ScanTask]) -> DataFrame:
    """Read the columns of a plan from the data files of some tasks by Spark, named by their position."""
    schema = [
        f"{quoted(column.name)} {spark_ddl(column.type)}" for column in plan.snapshot.schema.data_columns
    ]
    frame = (
        spark.read.schema(", ".join(schema))
        # no column is a partition value, so Spark need not infer any from directories
        .option("recursiveFileLookup", "true")
        # a session that ignores missing files would lose the rows of a deleted one
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
        # the rule of the optimizer leaves these files alone
        .option(PLANNED_OPTION, "true")
        .orc([spark_path(task.uri) for task in tasks])
    )
    return frame.select(*(frame[quoted(c.name)].alias(f"c{at}") for at, c in enumerate(plan.columns)))


def _is_native(data_type: OrcType) -> bool:
    return all(part.kind in _NATIVE_KINDS for part in data_type.walk())
