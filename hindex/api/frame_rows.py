"""The rows of a DataFrame, and computed rows as a DataFrame."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from hindex.api.result_rows import find_column, python_value
from hindex.errors import UnsupportedError
from hindex.lru_cache import cached_property
from hindex.plan.order import Order
from hindex.spark.jobs import job_description, raised_in_task
from hindex.spark.session import java_session, session_time_zones
from hindex.table.schema import ColumnName

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from hindex.api.result_rows import ComputedRows
    from hindex.maintain.verification import ProveReport
    from hindex.queries.decisions import QueryExplanation


T = TypeVar("T")

#: Characters of a query in the description of its jobs.
_DESCRIBED = 100


class FrameRows:
    """The rows of a DataFrame.

    Args:
        explanation: explains how the tables of its query are read.
        query: the text of the query, for the descriptions of its jobs.
        planning: returns a context in which Spark plans the jobs.
    """

    proof: ProveReport | None = None

    def __init__(
        self,
        frame: DataFrame,
        explanation: Callable[[], QueryExplanation],
        query: str = "",
        planning: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._frame = frame
        self._explanation = explanation
        self._query = query
        self._planning = planning

    @cached_property
    def schema(self) -> pa.Schema:
        # no rows, so that Spark runs no job
        schema: pa.Schema = self._frame.limit(0).toArrow().schema
        return pa.schema([field.remove_metadata() for field in schema])

    def to_arrow(self) -> pa.Table:
        return self._collected(self._frame)

    def to_reader(self) -> pa.RecordBatchReader:
        return self.to_arrow().to_reader()

    def head(self, rows: int) -> pa.Table:
        return self._collected(self._frame.limit(rows))

    def preview(self, rows: int) -> tuple[pa.Table, str]:
        return self.head(rows), ""

    def count(self, column: ColumnName | None = None) -> int:
        if column is None:
            return self._run(self._frame.count)
        from pyspark.sql import functions as f

        count: int = self._aggregated(column, f.count)
        return count

    def exists(self) -> bool:
        return not self._run(self._frame.isEmpty)

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        from pyspark.sql import functions as f

        return self._aggregated(column, f.min)

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        from pyspark.sql import functions as f

        return self._aggregated(column, f.max)

    def count_distinct(self, column: ColumnName) -> int:
        from pyspark.sql import functions as f

        count: int = self._aggregated(column, f.count_distinct)
        return count

    def distinct(self, column: ColumnName) -> pa.Array:
        values = self._numbered.select(self._column(column).alias("c")).distinct()
        return self._run(values.orderBy(values["c"].asc_nulls_first()).toArrow).column(0).combine_chunks()

    def value_counts(self, columns: Sequence[ColumnName]) -> pa.Table:
        keys = [self._column(column).alias(f"g{at}") for at, column in enumerate(columns)]
        groups = self._numbered.groupBy(*keys).count()
        order = [groups[f"g{at}"].asc_nulls_first() for at in range(len(columns))]
        counts = self._run(groups.orderBy(*order).toArrow)
        names = [".".join(self._path(column)) for column in columns]
        return counts.rename_columns([*names, "count"])

    def order_by(self, orders: Sequence[Order]) -> FrameRows:
        ordered = self._numbered.orderBy(*map(self._sort_key, orders)).toDF(*self._frame.columns)
        return FrameRows(ordered, self._explanation, self._query, self._planning)

    def _sort_key(self, order: Order) -> Column:
        key = self._column(order.column)
        if order.descending:
            return key.desc_nulls_first() if order.has_nulls_first else key.desc_nulls_last()
        return key.asc_nulls_first() if order.has_nulls_first else key.asc_nulls_last()

    def explain(self, *, analyze: bool = False) -> QueryExplanation:
        if analyze:
            raise UnsupportedError(
                "Spark runs this query, and hindex measures only what it reads itself: leave analyze out, or use "
                ".to_spark().explain('extended') for Spark's own plan"
            )
        return self._explanation()

    def to_spark(self, spark: SparkSession) -> DataFrame:
        if spark is self._frame.sparkSession:
            if java_session(spark) is not None:
                # the plan of a DataFrame is made once
                with self._planning():
                    self._frame._jdf.queryExecution().executedPlan()
            return self._frame
        return spark.createDataFrame(self._run(self._frame.toArrow), self._frame.schema)

    @cached_property
    def _numbered(self) -> DataFrame:
        """The same rows with columns named by position, since names of a frame need not be unique."""
        return self._frame.toDF(*(f"c{at}" for at in range(len(self._frame.columns))))

    def _path(self, column: ColumnName) -> tuple[str, ...]:
        at, fields = find_column(self._frame.columns, column)
        return (self._frame.columns[at], *fields)

    def _column(self, column: ColumnName) -> Column:
        at, fields = find_column(self._frame.columns, column)
        value = self._numbered[f"c{at}"]
        for field in fields:
            value = value.getField(field)
        return value

    def _aggregated(self, column: ColumnName, function: Callable[[Column], Column]) -> Any:  # noqa: ANN401
        result = self._run(self._numbered.select(function(self._column(column)).alias("c")).toArrow)
        return python_value(result.column(0).combine_chunks())

    def _run(self, action: Callable[[], T]) -> T:
        """Run an action of Spark, with the query as the description of its jobs.

        Raises:
            HindexError: the error of a task of hindex, in one line.
        """
        with job_description(
            self._frame.sparkSession, textwrap.shorten(self._query, _DESCRIBED, placeholder=" ...")
        ):
            try:
                with self._planning():
                    return action()
            except Exception as error:  # of PySpark or Py4J
                raised = raised_in_task(error)
                if raised is None:
                    raise
                raise raised from None

    def _collected(self, frame: DataFrame) -> pa.Table:
        table = self._run(frame.toArrow)
        schema = pa.schema([field.remove_metadata() for field in table.schema])
        return pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in table.to_batches()], schema
        )


def computed_frame(spark: SparkSession, rows: ComputedRows) -> DataFrame:
    """Return computed rows as a DataFrame; timestamps are the session's instants."""
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = rows.with_zones(lambda: session_time_zones(spark))
    values, columns = rows.to_arrow(), rows.columns
    fields = [
        pa.field(f"c{at}", array.type, column.field.nullable)
        for at, (array, column) in enumerate(zip(values.columns, columns, strict=True))
    ]
    table = pa.Table.from_arrays(values.columns, schema=pa.schema(fields))
    frame = spark.createDataFrame(table, from_arrow_schema(table.schema))
    return frame.select(
        *(
            frame[f"c{at}"].alias(column.name, metadata=dict(column.metadata or {}))
            for at, column in enumerate(columns)
        )
    )
