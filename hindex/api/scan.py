"""Scans: queries of one table, planned and run on demand."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import pyarrow as pa

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, GroupFilter, Item, check_items
from hindex.api.predicate_input import Where, parse_condition
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    ColumnError,
    DeletedFileError,
    HindexError,
    PredicateError,
)
from hindex.expr import constant_times
from hindex.formatting import counted
from hindex.keys import array_keys, key_value, nth_key
from hindex.orc.io.thread_pool import ThreadPool
from hindex.plan.modes import Mode
from hindex.plan.time_zones import ZonesOf, no_zones
from hindex.scan.metrics import MetricsCollector
from hindex.scan.planning import ScanPlan, output_columns, plan_no_files, plan_scan
from hindex.scan.scan_task import OutputColumn, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import (
    KnownSnapshot,
    Runner,
    Unit,
    deleted_again,
    drop_snapshot,
    is_deleted_file,
)
from hindex.sql.predicate import Predicate, all_of, quote_name
from hindex.sql.statements import AggregateFunction
from hindex.store.manifest import Manifest
from hindex.store.snapshot import Snapshot, forget_listings
from hindex.store.store import Store
from hindex.table.schema import ColumnName, FieldMetadata, column_names, spelled
from hindex.validation import check_keywords, check_session, is_whole, raise_missing_attribute, suggestion

if TYPE_CHECKING:
    import pandas
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession

    from hindex.engines.arrow_expressions import TranslatedFilter
    from hindex.explanations.explanation import Explanation
    from hindex.maintain.verification import ProveReport
    from hindex.plan.order import Order

T = TypeVar("T")

#: Greatest limit of rows.
_MAX_ROWS = (1 << 63) - 1

#: Undecided stripes that `Scan.exists` defers, in case another one certainly has a row.
_MAX_DEFERRED = 64


#: Tables with fewer files are listed whole: object stores list as many in one request.
MANY_FILES = 1000
#: Seconds after which a query lists a whole table with an inferred schema again: partitions not listed may have
#: new columns.
SCHEMA_SECONDS = 60.0
#: The environment variable with the seconds for which the listing of a table serves later queries of the process.
LISTING_VARIABLE = "HINDEX_LISTING_SECONDS"
_MAX_LISTING_SECONDS = 60.0


@lru_cache(maxsize=1)
def listing_seconds() -> float:
    """Return the seconds for which queries use the listing of an earlier one; 0 by default.

    Raises:
        ArgumentError: if the environment has another value than such a number.
    """
    text = os.environ.get(LISTING_VARIABLE, "") or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_LISTING_SECONDS:
        raise ArgumentError(
            f"{LISTING_VARIABLE} is {text!r}: set it to seconds from 0 to {_MAX_LISTING_SECONDS:g}"
        )
    return seconds


class SchemaSnapshot:
    """A kept snapshot without files, whose schema checks queries without a listing for each.

    Args:
        take: returns the current snapshot of the table.
        declared: returns a snapshot without files from the schema of the catalog, in place of the first snapshot. Its
            argument is the least number of recorded files; None if there are fewer, or no catalog.
        is_remote: True if a listing takes requests.
        take_partitions: returns the current snapshot of the partitions in which a predicate may keep rows. It is called
            with an earlier one.
    """

    def __init__(
        self,
        take: Callable[[], Snapshot],
        *,
        is_remote: bool = False,
        take_partitions: Callable[[Snapshot, Predicate | None, ZonesOf, int], Snapshot] | None = None,
        declared: Callable[[int], Snapshot | None] | None = None,
    ) -> None:
        self._take = take
        self._declared = declared
        self._take_partitions = take_partitions
        self._num_files = 0
        self._kept_at = 0.0
        self._is_remote = is_remote
        self._snapshot: Snapshot | None = None
        self._is_fresh = False

    @property
    def is_deferred(self) -> bool:
        """True if the schema is not known yet, and the first query that runs will list the table anyway."""
        return self._is_remote and self._snapshot is None

    def unlisted(self) -> Snapshot | None:
        """Return the snapshot of an earlier call, or that of the catalog; None if there is neither. Lists nothing."""
        if self._snapshot is None and self._declared is not None:
            declared, self._declared = self._declared(MANY_FILES), None
            if declared is not None:
                self._num_files, self._snapshot = MANY_FILES, declared
        return self._snapshot

    def current(self) -> Snapshot:
        """Return the table as it is now."""
        taken = _without_deleted(self._take)
        self._keep(taken)
        return taken

    def current_partitions(self, where: Predicate | None, zones: ZonesOf, instant: int) -> Snapshot:
        """Return the partitions of the table as it is now in which a predicate may keep rows; all if they are few."""
        kept = self._snapshot if where is None else self.unlisted()
        if kept is None or self._take_partitions is None or self._num_files < MANY_FILES:
            return self.current()
        if kept.declared is None and time.monotonic() > self._kept_at + SCHEMA_SECONDS:
            return self.current()
        taken = _without_deleted(partial(self._take_partitions, kept, where, zones, instant))
        if not taken.listing.is_pruned:
            self._keep(taken)
        return taken

    def _keep(self, taken: Snapshot) -> Snapshot:
        self._num_files, self._kept_at = len(taken.files), time.monotonic()
        self._snapshot = _without_files(taken)
        return self._snapshot

    def __call__(self) -> Snapshot:
        """Return the snapshot; it is taken at the first call."""
        kept = self.unlisted()
        self._is_fresh = kept is None
        return self._keep(_without_deleted(self._take)) if kept is None else kept

    def adopt(self, earlier: SchemaSnapshot, name: str, store: Store) -> None:
        """Use the schema of an earlier one of the same table, unless it is old.

        Args:
            name: of the table, as messages call it.
        """
        if earlier._snapshot is not None and time.monotonic() <= earlier._kept_at + SCHEMA_SECONDS:
            self._snapshot = replace(earlier._snapshot, name=name, store=store)
            self._num_files, self._kept_at = earlier._num_files, earlier._kept_at

    def __getstate__(self) -> dict[str, object]:
        # another process takes its own
        return {**self.__dict__, "_snapshot": None, "_is_fresh": False}

    def refresh(self) -> bool:
        """Drop a snapshot that an earlier call has taken; return False if it was just taken."""
        if self._is_fresh:
            return False
        self._snapshot = None
        return True


def _without_deleted(run: Callable[[], T]) -> T:
    """Run something that lists a table and opens its files, and once more if one was deleted in between."""
    try:
        return run()
    except HindexError as error:
        if not is_deleted_file(error):
            raise
    forget_listings()
    return run()


def _without_files(snapshot: Snapshot) -> Snapshot:
    return replace(
        snapshot,
        files=(),
        listing=replace(snapshot.listing, files=()),
        manifest=Manifest.empty(snapshot.manifest.table_uri),
    )


class Scan:
    """A query of one table: ``columns`` of the rows that satisfy ``where``, at most ``limit`` of them after ``offset``.

    Each method that returns rows lists the table and reads it as it is at that moment. Rows have the order of the
    files' paths and of the rows within them, unless `order_by` sets another.

    Args:
        names: the names of the result columns; those of the table if None.
        mode: the behaviour if an index cannot be used, or may be wrong.
        quarantine: receives the names of indexes that a proof finds wrong, and the reason.
        table: the table's name in messages.
        session: returns the Spark session of the connection, if any.
        zones: returns the time zones that make timestamps instants; without zones they are wall clocks.
        schema: the schema that checks the query; by default from a snapshot.
        translate: translates PyArrow expressions for `where`.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        where: Predicate | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        offset: int = 0,
        names: Sequence[str] | None = None,
        orders: Sequence[Order] = (),
        mode: Mode = Mode.LENIENT,
        quarantine: Callable[[Sequence[str], str], None] | None = None,
        table: str = "",
        session: Callable[[], SparkSession | None] = lambda: None,
        zones: ZonesOf = no_zones,
        schema: SchemaSnapshot | None = None,
        translate: Callable[[pc.Expression], TranslatedFilter] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._where = where
        self._columns = None if columns is None else column_names(columns, "columns")
        self._limit = None if limit is None else int(limit)
        self._offset = int(offset)
        self._names = None if names is None else tuple(names)
        self._orders = tuple(orders)
        self._runner = Runner(mode)
        self._quarantine = quarantine
        self._table = table
        self._session = session
        self._zones = zones
        self._schema = SchemaSnapshot(snapshot) if schema is None else schema
        self._translate = translate
        self._keeps_errors = False
        #: True after `limit`: an order would select other rows than the limited ones.
        self._is_order_final = False
        self._last_plan: ScanPlan | None = None
        #: The report of the last proof, if the mode is ``prove``.
        self.proof: ProveReport | None = None

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(self, name, "a scan")

    def __getstate__(self) -> dict[str, object]:
        # another process plans for itself
        return {**self.__dict__, "_last_plan": None, "proof": None}

    def __iter__(self) -> NoReturn:
        raise ArgumentTypeError(
            "a scan is not iterable: .to_batches() yields its rows in batches, and .to_arrow().to_pylist() has them as "
            "dicts"
        )

    def __repr__(self) -> str:
        return f"Scan({self._text(None, repr(self._table))})"

    def _text(self, columns: str | None, table: str) -> str:
        """Return the query as SQL for messages.

        Args:
            columns: the select list; the scan's columns if None.
        """
        if columns is None:
            columns = "*" if self._columns is None else ", ".join(map(spelled, self._columns))
        where = "" if self._where is None else f" WHERE {self._where}"
        order = f" ORDER BY {', '.join(map(str, self._orders))}" if self._orders else ""
        limit = "" if self._limit is None else f" LIMIT {self._limit}"
        offset = f" OFFSET {self._offset}" if self._offset else ""
        return f"SELECT {columns} FROM {table}{where}{order}{limit}{offset}"

    def _repr_html_(self) -> str:
        """Return the first rows for notebooks, or the error as text.

        They are not proved, which would read the whole table.
        """
        from hindex.api.rows_html import rows_html

        preview = self.without_proof()
        return rows_html(
            repr(self), lambda rows: (preview.head(rows), "" if preview is self else "not proved")
        )

    def without_proof(self) -> Scan:
        """Return the scan without the proof of the ``prove`` mode."""
        if self.mode is not Mode.PROVE:
            return self
        scan = copy.copy(self)
        scan._runner = Runner()
        return scan

    @property
    def predicate(self) -> Predicate | None:
        """The condition; None for every row."""
        return self._where

    @property
    def selected_columns(self) -> tuple[ColumnName, ...] | None:
        """The selected columns of the table; None for all."""
        return self._columns

    @property
    def row_limit(self) -> int | None:
        """The limit of the number of rows; None for all."""
        return self._limit

    @property
    def row_offset(self) -> int:
        """The number of rows that are skipped before the first one."""
        return self._offset

    @property
    def is_limited(self) -> bool:
        """True if the scan returns some of the rows that satisfy its condition, chosen by their number."""
        return self._limit is not None or self._offset > 0

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders of the rows, the first one first; none for the order of the files."""
        return self._orders

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

    def narrowed(
        self,
        where: Predicate | None,
        columns: Sequence[ColumnName] | None,
        limit: int | None,
        names: Sequence[str] | None = None,
        *,
        offset: int = 0,
    ) -> Scan:
        """Another scan of the same table, in the same mode."""
        return Scan(
            self._snapshot,
            where,
            columns,
            limit,
            offset=offset,
            names=names,
            mode=self.mode,
            quarantine=self._quarantine,
            table=self._table,
            session=self._session,
            zones=self._zones,
            schema=self._schema,
            translate=self._translate,
        )

    def with_zones(self, zones: ZonesOf) -> Scan:
        """Read timestamps as instants by other time zones."""
        scan = copy.copy(self)
        scan._zones = zones
        scan._last_plan = None
        return scan

    def with_undecided_rows(self) -> Scan:
        """Return a scan that keeps rows whose condition cannot be evaluated, for readers that filter them again."""
        scan = copy.copy(self)
        scan._keeps_errors = True
        scan._last_plan = None
        return scan

    def snapshot(self) -> Snapshot:
        """Return the current state of the table."""
        return self._snapshot()

    def on_snapshot(self, snapshot: Snapshot) -> Scan:
        """Return the scan of a snapshot, or of the current table if a file of the snapshot was deleted."""
        scan = copy.copy(self)
        scan._snapshot = KnownSnapshot(snapshot, self._snapshot)
        return scan

    def where(self, condition: Where) -> Scan:
        """Return a scan of the rows that also satisfy a condition.

        Args:
            condition: a condition as `hindex.Table.scan` takes it, on any columns of the table.

        Raises:
            ArgumentError: if the scan has a limit.
            ColumnError: for an unknown column.
            PredicateError: for a condition that does not fit the columns' types.
        """
        if self.is_limited:
            raise ArgumentError(
                "where() does not filter the rows of a limit: call .where() before .limit(), or filter the table of "
                ".to_arrow()"
            )
        predicate = parse_condition(condition, self._translate)
        if predicate is None:
            return self
        return self._modified(_where=predicate if self._where is None else all_of([self._where, predicate]))

    def select(self, *columns: ColumnName) -> Scan:
        """Return a scan of columns, in this order; after another selection, of some of its columns or their fields.

        Args:
            columns: names, ``"address.city"`` for a field; a tuple of names is the path of a field.

        Raises:
            ColumnError: for a column that is unknown, or not selected by the scan.
        """
        if not columns:
            raise ArgumentError("select() has no columns: name them, such as .select('id', 'name')")
        names = column_names(columns, "select")
        scan = self._modified(_columns=names, _names=None)
        if self._columns is not None:
            schema = self._schema().schema
            selected = [
                column.name for column in output_columns(schema, self._columns, row_keys=schema.transactional)
            ]
            for column in output_columns(schema, names, row_keys=schema.transactional):
                if not any(column.name == name or column.name.startswith(f"{name}.") for name in selected):
                    raise ColumnError(
                        f"Column {column.name!r} is not selected: {suggestion(column.name, selected)}the scan has "
                        f"{', '.join(map(quote_name, selected))}"
                    )
        return scan

    @check_keywords
    def limit(self, rows: int | None, *, offset: int = 0) -> Scan:
        """Return a scan of at most a number of rows: the first ones after ``offset``, in the scan's order.

        Args:
            rows: the number of rows; None for all after ``offset``.
            offset: the number of rows to skip.

        Raises:
            ArgumentError: if ``rows`` or ``offset`` is not a number of rows.
        """
        if rows is not None:
            check_limit(rows)
        check_limit(offset, "offset", "leave it out for the first rows")
        limits = [] if rows is None else [int(rows)]
        if self._limit is not None:
            limits.append(max(self._limit - int(offset), 0))
        total_offset = min(self._offset + int(offset), _MAX_ROWS)
        return self._modified(_limit=min(limits, default=None), _offset=total_offset, _is_order_final=True)

    @check_keywords
    def order_by(
        self,
        column: ColumnName,
        *others: ColumnName,
        descending: bool | Sequence[bool] = False,
        nulls_first: bool | None = None,
    ) -> Scan:
        """Return a scan of the rows sorted by one or more columns, instead of an earlier order.

        The limit of ``table.scan(limit=n)`` applies to the ordered rows. An index on a single column is walked from its
        end, as far as the limit needs.

        Args:
            descending: for all columns, or one for each.
            nulls_first: put NULL before all values, for all columns; if None, only in ascending order.

        Raises:
            ArgumentError: after `limit`, whose rows have been chosen already.
            ColumnError: for an unknown column, or one whose values have no order.
        """
        from hindex.plan.order import column_orders

        if self._is_order_final:
            raise ArgumentError(
                "order_by() does not sort the rows of a limit: call .order_by() before .limit(), or sort the table of "
                ".to_arrow()"
            )
        return self.sorted_by(column_orders((column, *others), descending, nulls_first))

    def sorted_by(self, orders: Sequence[Order]) -> Scan:
        """Return a scan of the rows in some orders, the first one first.

        Raises:
            ColumnError: as `order_by`.
        """
        return self._modified(_orders=tuple(orders))

    def _modified(self, **attributes: object) -> Scan:
        scan = copy.copy(self)
        vars(scan).update(attributes, _last_plan=None, proof=None)
        return scan.checked()

    def checked(self) -> Scan:
        """Check names and types of the query now instead of when rows are read, and return the scan.

        Of a remote table that has not been listed, they are checked when rows are read: that lists it.

        Raises:
            TableError: if the table does not exist.
            ColumnError: for an unknown column.
            PredicateError: for a condition that does not fit the columns' types.
        """
        if self._schema.is_deferred:
            return self
        try:
            self._check(self._schema())
        except (ColumnError, PredicateError):
            # the table may have got other columns since the schema was read
            if not self._schema.refresh():
                raise
            self._check(self._schema())
        return self

    def cached_schema(self) -> Snapshot | None:
        """Return the table without its files, of an earlier listing or the catalog; None if there is neither."""
        return self._schema.unlisted()

    def _check(self, snapshot: Snapshot) -> None:
        from hindex.aggregate.top_n import check_orders

        plan = plan_no_files(snapshot, self._where, self._columns, self._lookups, zones=self._zones)
        check_orders(plan, self._orders)

    @property
    def _stop(self) -> int | None:
        """The number of rows up to the last one of the limit, those of the offset included; None for all."""
        return None if self._limit is None else self._offset + self._limit

    @property
    def _lookups(self) -> tuple[ColumnName, ...]:
        """The columns of the orders."""
        return tuple(order.column for order in self._orders)

    def plan(self) -> ScanPlan:
        """Plan the scan against the table's current state.

        Raises:
            ColumnError: for an unknown column.
            PredicateError: for a predicate that does not fit the columns' types.
            FallbackError: in strict mode, where an index cannot be used.
        """
        self._last_plan = self._make_plan(self._runner, all_partitions=True)
        return self._last_plan

    def _partitions(self, instant: int) -> Snapshot:
        """Return the current state of the partitions in which rows may be at some time."""
        # a proof shows that no partition is left out wrongly
        if isinstance(self._snapshot, KnownSnapshot) or self.mode is Mode.PROVE:
            return self._snapshot()
        return self._schema.current_partitions(self._where, self._zones, instant)

    def _make_plan(self, runner: Runner, *, all_partitions: bool = False) -> ScanPlan:
        """Plan the scan.

        Args:
            all_partitions: count the files of other partitions, too.
        """
        from hindex.aggregate.top_n import check_orders

        make = plan_no_files if self._limit == 0 else plan_scan
        # the time at which partitions are chosen is that of the plan
        instant = constant_times.current_instant()
        plan = runner.plan(
            self._snapshot if all_partitions else partial(self._partitions, instant),
            lambda snapshot: make(
                snapshot, self._where, self._columns, self._lookups, zones=self._zones, instant=instant
            ),
        )
        check_orders(plan, self._orders)
        return plan.map_tasks(lambda task: replace(task, keeps_errors=True)) if self._keeps_errors else plan

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, according to the last plan."""
        return self._output_schema(self._last_plan or self.plan())

    def output_columns(self) -> Sequence[OutputColumn]:
        """Return the columns of the rows, according to the last plan."""
        plan = self._last_plan or self.plan()
        return plan.tasks[0].columns if plan.tasks else plan.columns

    def field_metadata(self) -> Mapping[str, FieldMetadata]:
        """Return the metadata that the catalog has for the table's columns, according to the last plan."""
        return (self._last_plan or self.plan()).snapshot.field_metadata

    def has_keys(self, column: ColumnName) -> bool:
        """Return True if a column of the table is compared by its index keys, according to the last plan."""
        plan = self._last_plan or self.plan()
        resolved = plan.snapshot.schema.resolve(column)
        return plan.are_index_keys(OutputColumn(resolved.name, resolved.type, resolved.is_partition))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Read the rows, a batch for each stripe with rows; with an order, all rows are read and sorted first."""
        return self._stream()[1]

    def to_reader(self) -> pa.RecordBatchReader:
        """Read the rows as a stream with a schema, for Arrow writers and engines.

        Files stay open until the stream is exhausted or garbage-collected; Arrow's ``close()`` does not close them.
        """
        return pa.RecordBatchReader.from_batches(*self._stream())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Read the rows through Arrow's PyCapsule interface, by which DuckDB, Polars and pyarrow accept a scan."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Read the rows as one table."""

        def run(runner: Runner) -> pa.Table:
            plan = self._last_plan = self._make_plan(runner)
            return pa.Table.from_batches(list(self._rows(plan, runner)), self._output_schema(plan))

        return self.attempt(run)

    def head(self, rows: int = 5) -> pa.Table:
        """Read the first rows as one table, with only the stripes that they need.

        Raises:
            ArgumentError: if ``rows`` is not a number of rows.
        """
        check_limit(rows, "the number of rows", "to_arrow() gives them all")
        scan = copy.copy(self)
        scan._limit = int(rows) if self._limit is None else min(int(rows), self._limit)
        table = scan.to_arrow()
        self.proof = scan.proof
        return table

    def to_pandas(self, **options: Any) -> pandas.DataFrame:  # noqa: ANN401 options of pyarrow's
        """Read the rows as a pandas DataFrame.

        Args:
            options: options of ``pyarrow.Table.to_pandas``.
        """
        return self.to_arrow().to_pandas(**options)

    def count(self, column: ColumnName | None = None) -> int:
        """Count the rows, or the non-null values of a column.

        No data is read where the indexes decide.
        """
        if column is not None:
            non_null: int = self._aggregate_value(Aggregate(AggregateFunction.COUNT, column, "count"))
            return non_null

        def run(runner: Runner) -> int:
            plan, certain = self._counting_plan(runner), 0

            def undecided() -> Iterator[Unit]:
                nonlocal certain
                for task, result in runner.run_lookups(plan.tasks):
                    if result.undecided:
                        yield task, result
                    else:
                        certain += len(result.bounds.lower)

            total = sum(runner.run_units(undecided(), ScanTaskReader.count)) + certain
            total = max(total - self._offset, 0)
            total = total if self._limit is None else min(total, self._limit)
            self.log(plan, runner, f"{counted(total, 'row')} counted", "count(*)")
            return total

        return self.attempt(run)

    def exists(self) -> bool:
        """Return True if there is any row.

        Data is read only if no index decides, and only up to the first match. After an offset, the rows are counted.
        """
        if self._offset:
            return self.count() > 0

        def run(runner: Runner) -> bool:
            plan = self._counting_plan(runner)
            has_rows = self._has_rows(plan, runner)
            self.log(plan, runner, "a row" if has_rows else "no row", "EXISTS")
            return has_rows

        return self.attempt(run)

    def _has_rows(self, plan: ScanPlan, runner: Runner) -> bool:
        deferred: list[Unit] = []
        for task, result in runner.run_lookups(plan.tasks, cautious=True):
            if len(result.bounds.lower):
                return True
            deferred.append((task, result))
            if len(deferred) > _MAX_DEFERRED:
                first, undecided = deferred.pop(0)
                if first.count(undecided):
                    return True
        return any(runner.run_units(deferred, ScanTaskReader.count, cautious=True))

    def min(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """Return the least non-null value of a column; None if there is none."""
        return self._aggregate_value(Aggregate(AggregateFunction.MIN, column, "min"))

    def max(self, column: ColumnName) -> Any:  # noqa: ANN401 a value of the column's type
        """Return the greatest non-null value of a column, NaN if it occurs; None if there is none."""
        return self._aggregate_value(Aggregate(AggregateFunction.MAX, column, "max"))

    def count_distinct(self, column: ColumnName) -> int:
        """Count the distinct non-null values of a column."""
        count: int = self._aggregate_value(Aggregate(AggregateFunction.COUNT_DISTINCT, column, "count"))
        return count

    def distinct(self, column: ColumnName) -> pa.Array:
        """Return the distinct values of a column in ascending order, NULL first if it occurs."""
        groups = self.aggregate([Group(column, "value")], group=[column]).to_arrow()
        return groups.column(0).combine_chunks()

    def value_counts(self, column: ColumnName, *others: ColumnName) -> pa.Table:
        """Count the rows of each value of a column, NULL included, or of each combination of several columns.

        Returns:
            the values of each column in ascending order, NULL first, and their ``count``.

        Raises:
            ColumnError: for an unknown column. A sequence of names is the path of one field.
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
        """Aggregate the rows: in one row, or in one for each combination of values of the columns ``group``.

        Args:
            group: a column's name, or several columns: ``("a", "b")`` are two, ``[("a", "b")]`` is a field.
            limit: the greatest number of rows of the result.
            having: a condition of groups.

        Raises:
            ArgumentError: if the scan has a limit, ``limit`` is not a number of rows, or ``having`` has no ``group``.
            ArgumentTypeError: for ``items`` or ``having`` of other types.
        """
        if self.is_limited:
            raise ArgumentError(
                "a scan with a limit has no aggregates but the count of its rows: leave the limit out"
            )
        if limit is not None:
            check_limit(limit)
        groups = (group,) if isinstance(group, str) else column_names(() if group is None else group, "group")
        if having is not None and not isinstance(cast("object", having), GroupFilter):
            raise ArgumentTypeError(f"having is {having!r}: pass a {GroupFilter.__module__}.GroupFilter")
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
            verify_plan=self.verify_plan,
            zones=self._zones,
            partitions=self._partitions,
        )

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain the decisions of indexes, the data to read, and fallbacks. No rows are read.

        Args:
            analyze: read the rows too, and measure it.
        """
        from hindex.explanations.scan_explanation import explain_analyze

        if not analyze:
            return _without_deleted(
                lambda: self._explain_plan(self._make_plan(Runner(), all_partitions=True))
            )
        meter = MetricsCollector()
        runner = Runner(meter=meter)

        def run() -> tuple[ScanPlan, int]:
            plan = self._make_plan(runner, all_partitions=True)
            return plan, sum(batch.num_rows for batch in self._batches(plan, runner))

        return explain_analyze(meter, run, self._explain_plan)

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a Spark DataFrame, read by Spark's executors, or by this process if they are few.

        Args:
            spark: the session; that of the connection if None.

        Raises:
            HindexError: if there is no session.
            ArgumentTypeError: for another object than a session.
        """
        from hindex.spark.scan import scan_frame

        session = self._session() if spark is None else spark
        if session is None:
            raise HindexError(
                "there is no Spark session for the rows: give one, to_spark(spark), or hindex.connect(spark=spark)"
            )
        check_session(session)
        return scan_frame(session, self)

    def _explain_plan(self, plan: ScanPlan) -> Explanation:
        from hindex.explanations.scan_explanation import explain_plan

        labels = self._names or ()
        return explain_plan(
            plan,
            self._where,
            labels=labels,
            shown=tuple(map(quote_name, labels)),
            orders=self._orders,
            limit=self._limit,
            offset=self._offset,
        )

    def _aggregate_value(self, item: Aggregate) -> Any:  # noqa: ANN401 a value of any type
        value = self.aggregate([item]).to_arrow().column(0)[0]
        try:
            return value.as_py()
        except (OverflowError, ValueError):
            # Python cannot represent the year, or the bytes: return a string
            assert item.column is not None
            data_type = self._snapshot().schema.resolve(item.column).type
            return key_value(data_type, nth_key(array_keys(data_type, pa.repeat(value, 1)), 0))

    def _counting_plan(self, runner: Runner) -> ScanPlan:
        """Return a plan without columns, for counting rows: every index that decides stripes then pays."""
        plan = self._last_plan = self._make_plan(runner)
        plan = replace(plan, columns=()).map_tasks(lambda task: replace(task, columns=()))
        # prove the plan that runs
        return self.verify_plan(plan)

    def verify_plan(self, plan: ScanPlan) -> ScanPlan:
        """Return the plan; in prove mode, compare it with a full scan, and return the plan of that."""
        if self.mode is not Mode.PROVE or self._limit == 0:
            return plan
        from hindex.maintain.verification import prove_scan

        self.proof, full = prove_scan(plan)
        if self.proof.disagreements and self._quarantine is not None:
            self._quarantine(self.proof.indexes, str(self.proof))
        return full

    def _batches(self, plan: ScanPlan, runner: Runner) -> Iterator[pa.RecordBatch]:
        if self._orders and plan.columns:
            yield from self._ordered(plan, runner).to_batches()
            return
        remaining, skipped = self._limit, self._offset

        def units() -> Iterator[Unit]:
            nonlocal skipped
            unplanned, are_decided = self._stop, True
            for task, result in runner.run_lookups(plan.tasks, cautious=remaining is not None):
                rows = result.first(unplanned)
                are_decided = are_decided and not result.undecided
                # rows to skip are not read, as long as their number is certain
                if skipped and are_decided:
                    rows = rows.after(skipped)
                    skipped = max(skipped - len(result.bounds.lower), 0)
                if len(rows.bounds.upper):
                    yield task, rows
                if unplanned is not None:
                    unplanned -= len(result.bounds.lower)
                    if unplanned <= 0:
                        return

        for batch in runner.run_units(units(), ScanTaskReader.read, cautious=remaining is not None):
            if skipped:
                unwanted = min(skipped, batch.num_rows)
                batch = batch.slice(unwanted)
                skipped -= unwanted
            if remaining is not None:
                batch = batch.slice(0, remaining)
                remaining -= batch.num_rows
            if batch.num_rows:
                yield batch
            if remaining == 0:
                return

    def _ordered(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        from hindex.aggregate.top_n import SortKey, first_rows, sorted_rows

        if self._stop is not None and plan.is_walkable:
            return first_rows(plan, self._orders[0], self._offset, self._stop, runner)
        width = len(plan.columns)

        def read(task: ScanTaskReader, result: StripeResult, pool: ThreadPool) -> pa.RecordBatch:
            batch = task.read(result, pool, (*task.task.columns, *task.task.lookups))
            # columns are numbered: those of the orders may also be selected
            return pa.RecordBatch.from_arrays(batch.columns, names=list(map(str, range(len(batch.columns)))))

        schema = plan.output_schema()
        batches = list(runner.run(plan.tasks, read))
        if not batches:
            return schema.empty_table()
        table = pa.Table.from_batches(batches)
        rows = pa.Table.from_arrays(table.columns[:width], schema=schema)
        keys = [
            SortKey(order, column.type, values)
            for order, column, values in zip(self._orders, plan.lookups, table.columns[width:], strict=True)
        ]
        return sorted_rows(rows, keys).slice(self._offset, self._limit)

    def _stream(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the schema and the batches of the rows; plan again, once, if a data file was deleted.

        There is no second plan after the first batch, or if it has another schema.
        """
        runner = self._runner.logged()
        try:
            plan = self._last_plan = self._make_plan(runner)
        except HindexError as error:
            if not is_deleted_file(error):
                raise
            drop_snapshot(self._snapshot)
            plan = self._last_plan = self._make_plan(runner)
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
                replanned = self._make_plan(again)
                if self._output_schema(replanned) != schema:
                    raise DeletedFileError(
                        "the table was replaced by one with other columns after the query was planned: run it again"
                    )
                yield from self._rows(replanned, again)
            except HindexError as error:
                raise deleted_again(error) from error.__cause__

        return schema, batches()

    def _rows(self, plan: ScanPlan, runner: Runner) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a plan with the result's names, and log the query at their end."""
        plan = self.verify_plan(plan)
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
        """Run a way to read the rows, see `hindex.scan.task_runner.Runner.attempt`."""
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
        """Log the query in one line.

        Args:
            result: the outcome, such as ``37 rows``.
            columns: the select list; the scan's columns if None.
            by_executors: Spark's executors read the rows.
        """
        runner.log(lambda: self._text(columns, plan.snapshot.name), plan, result, by_executors=by_executors)

    def _named(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._names is None:
            return batches
        return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)

    def _output_schema(self, plan: ScanPlan) -> pa.Schema:
        schema = plan.output_schema()
        if self._names is None:
            return schema
        return pa.schema([field.with_name(name) for field, name in zip(schema, self._names, strict=True)])


def check_limit(limit: int, what: str = "limit", for_all: str = "leave it out for all rows") -> None:
    """Check a number of rows.

    Raises:
        ArgumentError: if ``limit`` is not one.
    """
    if not is_whole(limit):
        raise ArgumentError(f"{what} is {limit!r}: pass a whole number, such as 10")
    if limit < 0:
        raise ArgumentError(f"{what} is {limit}: it cannot be negative")
    if limit > _MAX_ROWS:
        raise ArgumentError(f"{what} is {limit}: it cannot be above {_MAX_ROWS}; {for_all}")
