"""The rows of a table that a predicate keeps: planned and read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hindex.plan.explain import Explanation
from hindex.scan.execute import OpenTask, StripeAnswer, output_schema
from hindex.scan.explaining import explain_plan
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.running import Unit, answered, run_units
from hindex.sql.predicate import Predicate
from hindex.table.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession


class Scan:
    """A query of one table: ``columns`` of the rows that ``where`` keeps, at most ``limit`` of them.

    Nothing is read before rows are asked for, and each time the table is looked at anew. Rows come in the
    order of the files' paths and of the rows within them.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._where = where
        self._columns = None if columns is None else tuple(columns)
        self._limit = limit
        self._last_plan: ScanPlan | None = None

    def __repr__(self) -> str:
        columns = "*" if self._columns is None else ", ".join(self._columns)
        where = "" if self._where is None else f" WHERE {self._where}"
        limit = "" if self._limit is None else f" LIMIT {self._limit}"
        return f"Scan(SELECT {columns}{where}{limit})"

    @property
    def limit(self) -> int | None:
        """The greatest number of rows; None for all."""
        return self._limit

    def plan(self) -> ScanPlan:
        """What reading will do, against the table as it is now.

        :raises ColumnError: for an unknown column.
        :raises PredicateError: for a predicate that does not fit the columns' types.
        """
        self._last_plan = plan_scan(self._snapshot(), self._where, self._columns)
        return self._last_plan

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, as the table was when the scan was last planned."""
        return output_schema(_typed(self._last_plan or self.plan()))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a batch for each stripe that has any."""
        return self._batches(self.plan())

    def to_arrow(self) -> pa.Table:
        """The rows as one table."""
        plan = self.plan()
        return pa.Table.from_batches(list(self._batches(plan)), output_schema(_typed(plan)))

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def count(self) -> int:
        """How many rows there are; no data is read where the indexes decide."""
        if self._limit is not None and self._limit <= 0:
            return 0
        certain = 0

        def undecided() -> Iterator[Unit]:
            nonlocal certain
            for task, answer in answered(self.plan().tasks):
                if answer.undecided:
                    yield task, answer
                else:
                    certain += len(answer.bounds.lower)

        total = sum(run_units(undecided(), OpenTask.count)) + certain
        return total if self._limit is None else min(total, self._limit)

    def explain(self) -> Explanation:
        """What the indexes decide, what is left to read, and why anything was not used. No rows are read."""
        return explain_plan(self.plan(), self._where)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The rows as a Spark DataFrame: read by Spark's executors, or here where they are few."""
        from hindex.spark.scan import scan_frame

        return scan_frame(spark, self)

    def _batches(self, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
        left = self._limit
        if left is not None and left <= 0:
            return

        def read(task: OpenTask, answer: StripeAnswer) -> pa.RecordBatch:
            return task.read(answer.first(self._limit))

        for batch in run_units(answered(plan.tasks), read):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return


def _typed(plan: ScanPlan) -> Sequence[Any]:
    """The plan's columns; a partition's value, where known, gives its type."""
    return plan.tasks[0].columns if plan.tasks else plan.columns
