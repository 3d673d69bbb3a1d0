"""The rows of a table that a predicate keeps: planned and read when asked for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, GroupFilter, Item, check_items
from hindex.api.attribute_hints import SCAN_NAMES, raise_missing_attribute
from hindex.errors import ArgumentError, ArgumentTypeError, DeletedFileError, HindexError
from hindex.formatting import counted
from hindex.keys import array_keys, key_value, nth_key
from hindex.orc.io.thread_pool import ThreadPool
from hindex.plan.modes import Mode
from hindex.plan.time_zones import ZonesOf, no_zones
from hindex.scan.metrics import MetricsCollector
from hindex.scan.open_task import OpenTask
from hindex.scan.planning import ScanPlan, plan_nothing, plan_scan
from hindex.scan.scan_task import OutputColumn, StripeResult
from hindex.scan.task_runner import (
    KnownSnapshot,
    Runner,
    Unit,
    deleted_again,
    drop_snapshot,
    is_deleted_file,
    run_units,
)
from hindex.sql.predicate import Predicate, quote_name
from hindex.sql.statements import AggregateFunction
from hindex.store.snapshot import Snapshot
from hindex.table.schema import ColumnName, column_names, spelled
from hindex.validation import check_session, is_whole

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

    from hindex.explain.explanation import Explanation
    from hindex.maintain.verification import ProveReport
    from hindex.plan.order import Order

T = TypeVar("T")

#: Greatest limit of rows.
_MOST_ROWS = (1 << 63) - 1

#: Undecided stripes that :meth:`Scan.exists` leaves for later, in case another one has a row for certain.
_MOST_DEFERRED = 64


class Scan:
    """A query of one table: ``columns`` of the rows that ``where`` keeps, at most ``limit`` of them.

    Nothing is read before rows are asked for, and each time the table is looked at anew. Rows come in the
    order of the files' paths and of the rows within them, unless :meth:`order_by` says otherwise.

    :param names: what the columns are called in the result; as in the table if None.
    :param mode: what happens where an index cannot be used, or may be wrong.
    :param quarantine: is told of the indexes that a proof found wrong, by their names.
    :param table: the table's name, for people.
    :param session: gives the Spark session of its connection, where that has one.
    :param zones: gives the time zones by which timestamps are instants; without, they are wall clocks.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        where: Predicate | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        names: Sequence[str] | None = None,
        order: Order | None = None,
        mode: Mode = Mode.LENIENT,
        quarantine: Callable[[Sequence[str], str], None] | None = None,
        table: str = "",
        session: Callable[[], SparkSession | None] = lambda: None,
        zones: ZonesOf = no_zones,
    ) -> None:
        self._snapshot = snapshot
        self._where = where
        self._columns = None if columns is None else column_names(columns, "columns")
        self._limit = None if limit is None else int(limit)
        self._names = None if names is None else tuple(names)
        self._order = order
        self._runner = Runner(mode)
        self._quarantine = quarantine
        self._table = table
        self._session = session
        self._zones = zones
        self._last_plan: ScanPlan | None = None
        #: What the last proof found, where the mode is ``prove``.
        self.proof: ProveReport | None = None

    if not TYPE_CHECKING:  # else type checkers would take every name for one that there is

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(self, name, "a scan", SCAN_NAMES)

    def __getstate__(self) -> dict[str, object]:
        # another process plans for itself
        return {**self.__dict__, "_last_plan": None, "proof": None}

    def __repr__(self) -> str:
        return f"Scan({self._text(None, repr(self._table))})"

    def _text(self, columns: str | None, table: str) -> str:
        """The query for people.

        :param columns: what it selects; None for its columns.
        """
        if columns is None:
            columns = "*" if self._columns is None else ", ".join(map(spelled, self._columns))
        where = "" if self._where is None else f" WHERE {self._where}"
        order = "" if self._order is None else f" ORDER BY {self._order}"
        limit = "" if self._limit is None else f" LIMIT {self._limit}"
        return f"SELECT {columns} FROM {table}{where}{order}{limit}"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; an error as text. Nothing is read where ``repr()`` is asked for.

        A look proves nothing: that would read the whole table.
        """

        from hindex.api.rows_html import rows_html

        shown = self.unproved()
        return rows_html(repr(self), lambda rows: (shown.head(rows), "" if shown is self else "not proved"))

    def unproved(self) -> Scan:
        """The same scan, without a proof where the mode asks for one."""
        if self.mode is not Mode.PROVE:
            return self
        found = copy.copy(self)
        found._runner = Runner()
        return found

    @property
    def predicate(self) -> Predicate | None:
        """The condition; None for every row."""
        return self._where

    @property
    def selected_columns(self) -> tuple[ColumnName, ...] | None:
        """The columns of the table that are asked for; None for all."""
        return self._columns

    @property
    def row_limit(self) -> int | None:
        """The greatest number of rows; None for all."""
        return self._limit

    @property
    def order(self) -> Order | None:
        """The order of the rows; None for that of the files."""
        return self._order

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the result columns; None for the table's own."""
        return self._names

    @property
    def mode(self) -> Mode:
        """The mode, which decides what happens if an index cannot be used."""
        return self._runner.mode

    @property
    def runner(self) -> Runner:
        """The runner of its tasks."""
        return self._runner

    @property
    def zones(self) -> ZonesOf:
        """Give the time zones by which timestamps are instants, when called."""
        return self._zones

    def narrowed(
        self,
        where: Predicate | None,
        columns: Sequence[ColumnName] | None,
        limit: int | None,
        names: Sequence[str] | None = None,
    ) -> Scan:
        """Another scan of the same table, in the same mode."""
        return Scan(
            self._snapshot,
            where,
            columns,
            limit,
            names=names,
            mode=self.mode,
            quarantine=self._quarantine,
            table=self._table,
            session=self._session,
            zones=self._zones,
        )

    def with_zones(self, zones: ZonesOf) -> Scan:
        """Read timestamps as instants by other time zones."""
        found = copy.copy(self)
        found._zones = zones
        found._last_plan = None
        return found

    def snapshot(self) -> Snapshot:
        """The table as it is now."""
        return self._snapshot()

    def at(self, snapshot: Snapshot) -> Scan:
        """The same scan of the table as it was then, or, where a data file was deleted since, as it is."""
        found = copy.copy(self)
        found._snapshot = KnownSnapshot(snapshot, self._snapshot)
        return found

    def order_by(
        self, column: ColumnName, *, descending: bool = False, nulls_first: bool | None = None
    ) -> Scan:
        """The same rows in the order of a column's values; with a limit, the first ones of it.

        An index on the column is walked from its end, and no further than the limit needs.

        :param nulls_first: whether NULL is before all values; if None, it is in ascending order.
        :raises ColumnError: for an unknown column, or one whose values have no order.
        """

        from hindex.plan.order import Order

        found = copy.copy(self)
        found._order = Order(column, descending, nulls_first)
        found._last_plan = None
        found.plan()
        return found

    def plan(self) -> ScanPlan:
        """Plan the scan against the table's current state.

        :raises ColumnError: for an unknown column.
        :raises PredicateError: for a predicate that does not fit the columns' types.
        :raises FallbackError: in strict mode, where an index cannot be used.
        """
        self._last_plan = self._planned(self._runner)
        return self._last_plan

    def _planned(self, runner: Runner) -> ScanPlan:
        from hindex.aggregate.top_n import check_order

        lookups = () if self._order is None else (self._order.column,)
        make = plan_nothing if self._limit == 0 else plan_scan
        plan = runner.plan(
            self._snapshot, lambda found: make(found, self._where, self._columns, lookups, zones=self._zones)
        )
        if self._order is not None:
            check_order(plan, self._order)
        return plan

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, as the table was when the scan was last planned."""
        return self._output_schema(self._last_plan or self.plan())

    def output_columns(self) -> Sequence[OutputColumn]:
        """The columns of the rows, as the table was when the scan was last planned."""
        plan = self._last_plan or self.plan()
        return plan.tasks[0].columns if plan.tasks else plan.columns

    def has_keys(self, column: ColumnName) -> bool:
        """True if a column of the table is compared by what indexes store of it, as the table was when last planned."""
        plan = self._last_plan or self.plan()
        found = plan.snapshot.schema.resolve(column)
        return plan.are_keys(OutputColumn(found.name, found.type, found.is_partition))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a batch for each stripe that has any; of an order, all are read and sorted first."""
        return self._stream()[1]

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream that knows its schema, read as it is consumed: for writers and engines of Arrow.

        The files that are being read stay open until it is read to its end or collected: its ``close()``, with which
        a ``with`` block ends, is Arrow's, and tells nobody here.
        """
        return pa.RecordBatchReader.from_batches(*self._stream())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The stream for Arrow's PyCapsule interface: DuckDB, Polars and pyarrow take a scan as it is."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """The rows as one table."""

        def run(runner: Runner) -> pa.Table:
            plan = self._last_plan = self._planned(runner)
            return pa.Table.from_batches(list(self._rows(plan, runner)), self._output_schema(plan))

        return self.attempt(run)

    def head(self, rows: int = 5) -> pa.Table:
        """The first rows as one table; no more stripes are read than they need.

        :raises ArgumentError: if ``rows`` is no number of rows.
        """
        check_limit(rows, "the number of rows", "to_arrow() gives them all")
        found = copy.copy(self)
        found._limit = int(rows) if self._limit is None else min(int(rows), self._limit)
        table = found.to_arrow()
        self.proof = found.proof
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def count(self, column: ColumnName | None = None) -> int:
        """Count the rows, or the non-null values of a column.

        No data is read where the indexes decide.
        """
        if column is not None:
            found: int = self._single(Aggregate(AggregateFunction.COUNT, column, "count"))
            return found

        def run(runner: Runner) -> int:
            plan, certain = self._counting_plan(runner), 0

            def undecided() -> Iterator[Unit]:
                nonlocal certain
                for task, answer in runner.run_lookups(plan.tasks):
                    if answer.undecided:
                        yield task, answer
                    else:
                        certain += len(answer.bounds.lower)

            total = sum(run_units(undecided(), OpenTask.count)) + certain
            total = total if self._limit is None else min(total, self._limit)
            self.log(plan, runner, f"{counted(total, 'row')} counted", "count(*)")
            return total

        return self.attempt(run)

    def exists(self) -> bool:
        """Return True if there is any row.

        Data is read only if no index finds a row, and only up to the first match.
        """

        def run(runner: Runner) -> bool:
            plan = self._counting_plan(runner)
            is_there = self._has_rows(plan, runner)
            self.log(plan, runner, "a row" if is_there else "no row", "EXISTS")
            return is_there

        return self.attempt(run)

    def _has_rows(self, plan: ScanPlan, runner: Runner) -> bool:
        deferred: list[Unit] = []
        for task, answer in runner.run_lookups(plan.tasks):
            if len(answer.bounds.lower):
                return True
            deferred.append((task, answer))
            if len(deferred) > _MOST_DEFERRED:
                first, undecided = deferred.pop(0)
                if first.count(undecided):
                    return True
        return any(run_units(deferred, OpenTask.count, cautious=True))

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """The least value of a column that is not NULL; None where there is none."""
        return self._single(Aggregate(AggregateFunction.MIN, column, "min"))

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """The greatest value of a column that is not NULL, NaN where there is one; None where there is none."""
        return self._single(Aggregate(AggregateFunction.MAX, column, "max"))

    def count_distinct(self, column: ColumnName) -> int:
        """Count the distinct non-null values of a column."""
        found: int = self._single(Aggregate(AggregateFunction.COUNT_DISTINCT, column, "count"))
        return found

    def distinct(self, column: ColumnName) -> pa.Array:
        """The distinct values of a column, ascending; NULL, where it occurs, comes first."""
        found = self.aggregate([Group(column, "value")], group=[column]).to_arrow()
        return found.column(0).combine_chunks()

    def value_counts(self, column: ColumnName, *others: ColumnName) -> pa.Table:
        """Count the rows of each value of a column, NULL included, or of each combination of several columns.

        :returns: the values, ascending, NULL first, a column of them for each one asked for; and their ``count``.
        :raises ColumnError: for anything but names of columns, which several are told as one by one: a sequence of
            names is the path of one field.
        """
        names = column_names((column, *others), "value_counts")
        groups: list[Item] = [
            Group(name, name if isinstance(name, str) else ".".join(name)) for name in names
        ]
        items = (*groups, Aggregate(AggregateFunction.COUNT, None, "count"))
        return self.aggregate(items, group=names).to_arrow()

    def aggregate(
        self,
        items: Sequence[Item],
        group: str | Sequence[ColumnName] | None = None,
        limit: int | None = None,
        having: GroupFilter | None = None,
    ) -> Aggregation:
        """Aggregates of the rows: one row of them, or one for each combination of values of the columns ``group``.

        :param group: a column's name as text, or several columns: ``("a", "b")`` are two, ``[("a", "b")]`` is a field.
        :param limit: rows of the result at most.
        :param having: which of the groups are wanted.
        :raises ArgumentError: if the scan has a limit, ``limit`` is no number of rows, or ``having`` has no ``group``.
        :raises ArgumentTypeError: if ``items`` is not a list of them, or ``having`` no condition of groups.
        """
        if self._limit is not None:
            raise ArgumentError(
                "a scan with a limit has no aggregates but the count of its rows: leave the limit out"
            )
        if limit is not None:
            check_limit(limit)
        groups = (group,) if isinstance(group, str) else column_names(() if group is None else group, "group")
        if having is not None and not isinstance(cast("object", having), GroupFilter):
            raise ArgumentTypeError(f"having is {having!r}: it is a {GroupFilter.__module__}.GroupFilter")
        if having is not None and not groups:
            raise ArgumentError("having is a condition of groups: name the columns that they are by as group")
        return Aggregation(
            self._snapshot,
            self._where,
            check_items(items),
            groups,
            having,
            None if limit is None else int(limit),
            runner=self._runner,
            proved=self.proved,
            zones=self._zones,
        )

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain the indexes' decisions, the data that is left to read, and fallbacks. No rows are read.

        :param analyze: read the rows, too, and tell what that took.
        """

        from hindex.explain.scan_explanation import explain_analyze

        if not analyze:
            return self._explained(self._planned(Runner()))
        meter = MetricsCollector()
        runner = Runner(meter=meter)

        def run() -> tuple[ScanPlan, int]:
            plan = self._planned(runner)
            return plan, sum(batch.num_rows for batch in self._batches(plan, runner))

        return explain_analyze(meter, run, self._explained)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame: read by Spark's executors, or here where they are few.

        :param spark: the session; that of the connection if None.
        :raises HindexError: if neither is there.
        :raises ArgumentTypeError: for what is no session.
        """
        from hindex.spark.scan import scan_frame

        session = self._session() if spark is None else spark
        if session is None:
            raise HindexError(
                "there is no Spark session for the rows: give one, to_spark(spark), or hindex.connect(spark=spark)"
            )
        check_session(session)
        return scan_frame(session, self)

    def _explained(self, plan: ScanPlan) -> Explanation:
        from hindex.explain.scan_explanation import explain_plan

        labels = self._names or ()
        return explain_plan(
            plan,
            self._where,
            labels=labels,
            shown=tuple(map(quote_name, labels)),
            order=self._order,
            limit=self._limit,
        )

    def _single(self, item: Aggregate) -> Any:  # noqa: ANN401 a value of any type
        found = self.aggregate([item]).to_arrow().column(0)[0]
        try:
            return found.as_py()
        except (OverflowError, ValueError):
            # a year, or bytes, that Python's own types cannot hold: as text
            assert item.column is not None
            of = self._snapshot().schema.resolve(item.column).type
            return key_value(of, nth_key(array_keys(of, pa.repeat(found, 1)), 0))

    def _counting_plan(self, runner: Runner) -> ScanPlan:
        """A plan without columns to read: where rows are only counted, every index that decides pays."""
        plan = self._last_plan = self._planned(runner)
        bare = tuple(replace(task, columns=()) for task in plan.tasks)
        # a proof is of what is run
        return self.proved(replace(plan, columns=(), tasks=bare))

    def proved(self, plan: ScanPlan) -> ScanPlan:
        """The plan; in prove mode one that reads everything, after both were compared."""

        from hindex.maintain.verification import prove_scan

        if self.mode is not Mode.PROVE or self._limit == 0:
            return plan
        self.proof, full = prove_scan(plan)
        if self.proof.disagreements and self._quarantine is not None:
            self._quarantine(self.proof.indexes, str(self.proof))
        return full

    def _batches(self, plan: ScanPlan, runner: Runner) -> Iterator[pa.RecordBatch]:
        if self._order is not None and plan.columns:
            yield from self._ordered(plan, self._order, runner).to_batches()
            return
        left = self._limit

        def units() -> Iterator[Unit]:
            wanted = self._limit
            for task, answer in runner.run_lookups(plan.tasks):
                yield task, answer.first(wanted)
                if wanted is not None:
                    wanted -= len(answer.bounds.lower)
                    if wanted <= 0:
                        return

        for batch in run_units(units(), OpenTask.read, cautious=left is not None):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return

    def _ordered(self, plan: ScanPlan, order: Order, runner: Runner) -> pa.Table:
        from hindex.aggregate.top_n import first_rows, sorted_rows

        if self._limit is not None and plan.are_keys(plan.lookups[0]):
            return first_rows(plan, order, self._limit, runner)
        width = len(plan.columns)

        def read(task: OpenTask, answer: StripeResult, pool: ThreadPool) -> pa.RecordBatch:
            batch = task.read(answer, pool, (*task.task.columns, *task.task.lookups))
            # by number: the order's column may be among the others
            return pa.RecordBatch.from_arrays(batch.columns, names=list(map(str, range(width + 1))))

        schema = plan.output_schema()
        batches = list(runner.run(plan, read))
        if not batches:
            return schema.empty_table()
        table = pa.Table.from_batches(batches)
        rows = pa.Table.from_arrays(table.columns[:width], schema=schema)
        return sorted_rows(rows, table.column(width), plan.lookups[0], order).slice(0, self._limit)

    def _stream(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The schema of the rows and their batches; a plan is made now, and once more if a data file was deleted.

        It is not made anew once a batch was handed out, or where the rows would have another schema.
        """
        runner = self._runner.logged()
        try:
            plan = self._last_plan = self._planned(runner)
        except HindexError as error:
            if not is_deleted_file(error):
                raise
            drop_snapshot(self._snapshot)
            plan = self._last_plan = self._planned(runner)
        schema = self._output_schema(plan)
        first = self._rows(plan, runner)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                head = next(first, None)
            except HindexError as error:
                if not is_deleted_file(error):
                    raise
            else:
                if head is not None:
                    yield head
                    yield from first
                return
            drop_snapshot(self._snapshot)
            again = self._runner.logged()
            try:
                replanned = self._planned(again)
                if self._output_schema(replanned) != schema:
                    raise DeletedFileError(
                        "the table was replaced by one with other columns after the query was planned: run it again"
                    )
                yield from self._rows(replanned, again)
            except HindexError as error:
                raise deleted_again(error) from error.__cause__

        return schema, batches()

    def _rows(self, plan: ScanPlan, runner: Runner) -> Iterator[pa.RecordBatch]:
        """The rows of a plan, named; the query is logged at their end, or when nobody wants more of them."""
        plan = self.proved(plan)
        batches = self._named(self._batches(plan, runner), self._output_schema(plan))

        def logged() -> Iterator[pa.RecordBatch]:
            rows = 0
            try:
                for batch in batches:
                    rows += batch.num_rows
                    yield batch
            except GeneratorExit:
                self.log(plan, runner, f"{counted(rows, 'row')}, then stopped")
                raise
            self.log(plan, runner, counted(rows, "row"))

        return logged()

    def attempt(self, run: Callable[[Runner], T]) -> T:
        """The result of reading the rows in some way, see :meth:`~hindex.scan.task_runner.Runner.attempt`."""
        return self._runner.attempt(run, self._snapshot)

    def log(
        self,
        plan: ScanPlan,
        runner: Runner,
        result: str,
        columns: str | None = None,
        *,
        by_executors: bool = False,
    ) -> None:
        """Log that the query was run, in one line.

        :param result: such as ``37 rows``.
        :param columns: what it selects; None for its columns.
        :param by_executors: Spark's executors are going to read the rows.
        """
        runner.log(lambda: self._text(columns, plan.snapshot.name), plan, result, by_executors=by_executors)

    def _named(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._names is None:
            return batches
        return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)

    def _output_schema(self, plan: ScanPlan) -> pa.Schema:
        found = plan.output_schema()
        if self._names is None:
            return found
        return pa.schema([field.with_name(name) for field, name in zip(found, self._names, strict=True)])


def check_limit(limit: int, what: str = "limit", for_all: str = "leave it out for all rows") -> None:
    """:raises ArgumentError: for what cannot be a number of rows."""
    if not is_whole(limit):
        raise ArgumentError(f"{what} is {limit!r}: it is a whole number, such as 10")
    if limit < 0:
        raise ArgumentError(f"{what} is {limit}: it cannot be negative")
    if limit > _MOST_ROWS:
        raise ArgumentError(f"{what} is {limit}: it cannot be above {_MOST_ROWS}; {for_all}")
