"""Data files of which every row is wanted, read by Spark's own ORC reader, which is faster on them.

Only where it certainly gives the same rows, values and types: local files whose columns are of the table's names and
types, none of them a timestamp, whose reading depends on time zones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import Always
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import ScanTask
from hindex.spark.types import quoted, spark_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# what Spark's reader gives as it is stored
_SAFE = frozenset(
    {
        *(Kind.BOOLEAN, Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE),
        *(Kind.STRING, Kind.DATE, Kind.DECIMAL, Kind.LIST, Kind.MAP, Kind.STRUCT),
    }
)
_GLOB = re.compile(r"[\[\]{}*?\\]")


def split_native(plan: ScanPlan) -> tuple[list[ScanTask], ScanPlan]:
    """The tasks that Spark's own reader can do, and the plan without them."""
    # Spark's optimizer stumbles over a union of columns that are one and the same
    if len({column.name for column in plan.columns}) < len(plan.columns):
        return [], plan
    columns = plan.snapshot.schema.data_columns
    inner = [part.field_names for column in columns for part in column.type.walk()]
    # Spark refuses a schema with names that differ in letter case only
    if any(len({*map(str.lower, some)}) < len(some) for some in ([c.name for c in columns], *inner)):
        return [], plan
    if any(column.is_partition or not _is_safe(column.type) for column in plan.columns):
        return [], plan
    if any(
        part.kind is Kind.UNION for column in plan.snapshot.schema.data_columns for part in column.type.walk()
    ):
        return [], plan
    views = {view.file.path: view for view in plan.snapshot.files}
    table = [(column.name, column.type) for column in plan.snapshot.schema.data_columns]
    native = []
    for task in plan.tasks:
        view = views.get(task.path)
        # by the same names in the same order, so that it does not matter how Spark finds columns
        if (
            view is not None
            and view.file.acid is None
            and isinstance(task.filter, Always)
            and "://" not in task.uri
            and not _GLOB.search(task.uri)
            and [name for name, _ in view.columns] == [name for name, _ in table]
            and all(of.same_as(wanted) for (_, of), (_, wanted) in zip(view.columns, table, strict=True))
        ):
            native.append(task)
    if not native:
        return [], plan
    taken = {task.path for task in native}
    return native, replace(plan, tasks=tuple(task for task in plan.tasks if task.path not in taken))


def native_frame(spark: SparkSession, plan: ScanPlan, tasks: Sequence[ScanTask]) -> DataFrame:
    """The columns of a plan in the data files of some tasks, named by their position."""
    schema = [
        f"{quoted(column.name)} {spark_ddl(column.type)}" for column in plan.snapshot.schema.data_columns
    ]
    frame = (
        spark.read.schema(", ".join(schema))
        # values of directories are not asked for, and need not be understood
        .option("recursiveFileLookup", "true")
        # a session that passes over them would lose the rows of a file that was deleted
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
        .orc([task.uri for task in tasks])
    )
    return frame.select(*(frame[quoted(c.name)].alias(f"c{at}") for at, c in enumerate(plan.columns)))


def _is_safe(data_type: OrcType) -> bool:
    return all(part.kind in _SAFE for part in data_type.walk())
