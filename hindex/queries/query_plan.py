"""Choose and explain the tables of a query that are read through their indexes: those with few matching rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from hindex.errors import ColumnError, HindexError, PredicateError, TableError, UnsupportedError
from hindex.explanations.explanation import RowCount
from hindex.formatting import counted
from hindex.plan.reasons import Note, Reason
from hindex.queries import selectivity
from hindex.queries.decisions import TableDecision
from hindex.queries.relation_reading import used_indexes
from hindex.queries.table_resolution import QueryTableState, TableResolver, resolve_tables
from hindex.queries.table_scans import fits_types, plan_table_scan
from hindex.scan.planning import ScanPlan
from hindex.scan.task_runner import Unit
from hindex.spark.compatibility import is_ansi, is_rule_independent, is_set, setting_difference
from hindex.spark.scan import RowScan, scan_frame
from hindex.spark.session import session_time_zones
from hindex.spark.settings import setting_reason
from hindex.spark.types import is_same_type
from hindex.sql.predicate import Predicate, all_of, columns
from hindex.table.schema import TableSchema
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hindex.sql.queries import Query, QueryTable

#: Reason why Spark reads a table whose indexes cannot narrow it.
_NO_USABLE_CONDITION = "none of the query's conditions on it can be answered by indexes"
#: Reason why Spark reads a table that its indexes would narrow.
_READ_BY_SPARK_TOO = "Spark reads it in another place of the query, and both have to see the same files"


@value_class
class PlannedTable:
    """One table of a query, and how it is read.

    Args:
        scan: the scan through the indexes; None if Spark reads the table. ``plan`` and ``schema``, the table's columns
            in Spark, belong to it.
        units: the stripes with matching rows, if all indexes were read.
        notes: indexes that could not be used.
    """

    state: QueryTableState
    decision: TableDecision
    scan: RowScan | None = None
    plan: ScanPlan | None = None
    schema: StructType | None = None
    units: list[Unit] | None = None
    notes: tuple[Note, ...] = ()

    def frame(self, spark: SparkSession, query: Query) -> DataFrame:
        """Return the matching rows, with all columns of the table: columns that the query does not need are null."""
        assert self.scan is not None
        assert self.schema is not None
        # Spark pads literals that are compared with CHAR by the field metadata of its own schema
        frame = scan_frame(spark, self.scan, self.plan, self.units, one_partition=query.may_shuffle)
        return frame.to(self.schema)

    @property
    def indexes(self) -> list[str]:
        """Return the names of the indexes through which the table is read."""
        if self.plan is None:
            return []
        return used_indexes(self.plan)

    def empty(self, spark: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the same columns."""
        assert self.schema is not None
        return spark.createDataFrame([], self.schema)


def plan_query(
    resolver: TableResolver, query: Query, *, has_rule: bool = False, **options: bool
) -> list[PlannedTable]:
    """Plan how each table of a query is read.

    Args:
        has_rule: the rule of the optimizer plans all but transactional tables.
        options: options of `resolve_tables`.
    """
    spark = resolver.spark()
    reason = setting_difference(partial(is_set, spark), query.text) or setting_reason(spark)
    if reason is not None:
        query.leave(reason)
    by_ref = resolve_tables(resolver, [table.ref for table in query.tables], **options)
    in_order = [by_ref[table.ref] for table in query.tables]
    if query.problem is not None:
        code = Reason.UNSUPPORTED_PLAN if reason is None else Reason.SETTING
        return [
            _by_spark(state, table, code, query.problem)
            for table, state in zip(query.tables, in_order, strict=True)
        ]
    conditions = query.conditions([state.names() for state in in_order])
    planner = TablePlanner(spark, query)
    planned = [
        _by_spark(state, table, *unusable)
        if (unusable := _unusable_reason(table, state, has_rule=has_rule)) is not None
        else planner.plan(table, state, predicates)
        for table, state, predicates in zip(query.tables, in_order, conditions, strict=True)
    ]
    return _read_consistently(planned)


def _read_consistently(planned: Sequence[PlannedTable]) -> list[PlannedTable]:
    """If Spark reads one occurrence of a table in a query, let it read all of them.

    Spark's list of the table's files may be older than the one here, and a query must not mix two states of one table.
    Spark never reads transactional tables.
    """
    by_spark = {item.state.uri for item in planned if item.scan is None and item.state.uri is not None}
    return [
        replace(
            item,
            decision=replace(item.decision, reason=Reason.UNSUPPORTED_PLAN, detail=_READ_BY_SPARK_TOO),
            scan=None,
            plan=None,
            units=None,
        )
        if item.scan is not None and item.state.uri in by_spark
        else item
        for item in planned
    ]


class TablePlanner:
    """Plans the tables of one query; reads settings of the session at most once, and only if they matter."""

    def __init__(self, spark: SparkSession, query: Query) -> None:
        self._spark = spark
        self._query = query
        self._zones = cache(lambda: session_time_zones(spark))
        self._is_ansi: Callable[[], bool] = cache(lambda: is_ansi(partial(is_set, spark)))

    def plan(
        self, table: QueryTable, state: QueryTableState, conditions: Sequence[Predicate]
    ) -> PlannedTable:
        """Plan how one table is read; all its relevant rows satisfy the conditions."""
        try:
            is_transactional = state.is_transactional
            if not is_transactional and not conditions:
                return _by_spark(state, table, Reason.UNSUPPORTED_PREDICATE, _NO_USABLE_CONDITION)
            schema = state.snapshot.schema
            usable = [item for item in conditions if self._is_usable(item, schema)]
        except HindexError as error:
            return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, str(error))
        if is_transactional:
            if state.catalog_mismatch is not None:
                return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, state.catalog_mismatch)
            return self._plan_transactional(table, state, usable)
        if not usable:
            return _by_spark(state, table, Reason.UNSUPPORTED_PREDICATE, _NO_USABLE_CONDITION)
        try:
            return self._plan_plain(table, state, all_of(usable))
        except UnsupportedError as error:
            return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, str(error), all_of(usable))

    def _plan_plain(self, table: QueryTable, state: QueryTableState, where: Predicate) -> PlannedTable:
        """Plan a table without deltas: read it through its indexes if few of its rows match."""
        if state.snapshot.listing.transactional:
            detail = "its files are those of a transactional table, but its catalog entry is not"
            return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, detail, where)
        names = self._query.needed(state.snapshot.schema.names)
        rows = state.snapshot.num_rows
        if rows * len(names) < selectivity.MIN_VALUES:
            detail = f"Spark reads {counted(len(names), 'column')} of {counted(rows, 'row')} sooner"
            return _by_spark(state, table, Reason.TOO_SMALL, detail, where)
        files = [view.file for view in state.snapshot.files]
        key = selectivity.reading_key(state.snapshot.manifest, files, where, selectivity.MAX_SHARE)
        declined = selectivity.DECLINED.get(key)
        if declined is not None:
            return _by_spark(
                state, table, declined.reason, declined.detail, where, declined.rows, declined.notes
            )
        try:
            scan, plan = plan_table_scan(state.table, state.snapshot, where, names, self._zones)
            is_indexed = plan.skipped or any(task.indexes or task.candidates for task in plan.tasks)
            # without a task, no row can satisfy the conditions
            if plan.tasks and not is_indexed:
                listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
                detail = f"no index that could be used is on {listed}"
                return _by_spark(state, table, Reason.NO_INDEX, detail, where, notes=plan.notes)
            estimate = selectivity.estimate_selectivity(scan, plan, selectivity.MAX_SHARE)
        except HindexError as error:
            # the error of a table that would not be read here anyway is no error of the query
            if state.catalog_mismatch is not None:
                detail = state.catalog_mismatch
                return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, detail, where)
            if isinstance(error, (ColumnError, PredicateError)):
                return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, str(error), where)
            raise
        notes = (*plan.notes, *estimate.fallbacks)
        if estimate.rows.share is not None and estimate.rows.share > selectivity.MAX_SHARE:
            detail = selectivity.share_detail(selectivity.MAX_SHARE, estimate)
            if selectivity.may_be_kept(estimate, plan.notes):
                declined = selectivity.Declined(Reason.NOT_SELECTIVE, detail, estimate.rows, notes)
                selectivity.DECLINED.put(key, declined)
            return _by_spark(state, table, Reason.NOT_SELECTIVE, detail, where, estimate.rows, notes=notes)
        try:
            mismatch = _mismatch(state)
        except TableError as error:
            mismatch = str(error)
        if mismatch is not None:
            return _by_spark(state, table, Reason.UNSUPPORTED_TABLE, mismatch, where, estimate.rows)
        decision = TableDecision(str(table.ref), str(where), rows=estimate.rows, is_counted=estimate.is_exact)
        return PlannedTable(state, decision, scan, plan, state.spark_schema, estimate.units, notes)

    def _plan_transactional(
        self, table: QueryTable, state: QueryTableState, usable: Sequence[Predicate]
    ) -> PlannedTable:
        """Plan a transactional table, which is always read here: Spark would read its deltas as rows."""
        where = all_of(usable) if usable else None
        names = self._query.needed(state.snapshot.schema.names)
        scan, plan = plan_table_scan(state.table, state.snapshot, where, names, self._zones)
        decision = TableDecision(str(table.ref), None if where is None else str(where))
        return PlannedTable(state, decision, scan, plan, state.spark_schema)

    def _is_usable(self, predicate: Predicate, schema: TableSchema) -> bool:
        """Return True if Spark evaluates a condition as hindex does, and it fits the types of its columns."""
        if not self._is_ansi() and not is_rule_independent(predicate, schema):
            return False
        return fits_types(predicate, schema, self._zones)


def _mismatch(state: QueryTableState) -> str | None:
    """Return how the files of a table differ from the catalog, or from Spark's reading of them, or None.

    Raises:
        TableError: if Spark does not know the table.
    """
    if state.catalog_mismatch is not None or state.snapshot.declared is not None:
        return state.catalog_mismatch
    return _schema_difference(state.snapshot.schema, state.spark_schema)


def _schema_difference(schema: TableSchema, spark_schema: StructType) -> str | None:
    """Return how Spark's own reader interprets the files differently, or None."""
    names = [name.lower() for name in schema.names]
    spark_names = [field.name.lower() for field in spark_schema]
    if sorted(names) != sorted(spark_names):
        return "its files have different columns, and Spark reads only the columns of one file"
    for field in spark_schema:
        data_type = schema.resolve((field.name,)).type
        if not is_same_type(data_type, field.dataType):
            return f"column {field.name!r} is {field.dataType.simpleString()} in Spark and {data_type} in the files"
    return None


def _by_spark(
    state: QueryTableState,
    table: QueryTable,
    reason: Reason,
    detail: str,
    where: Predicate | None = None,
    rows: RowCount | None = None,
    notes: tuple[Note, ...] = (),
) -> PlannedTable:
    """Return a table that Spark reads by itself."""
    decision = TableDecision(str(table.ref), None if where is None else str(where), reason, detail, rows)
    return PlannedTable(state, decision, notes=notes)


def _unusable_reason(
    table: QueryTable, state: QueryTableState, *, has_rule: bool
) -> tuple[Reason, str] | None:
    """Return why a table is not read here, whatever the conditions; None if it may be."""
    if table.blocked is not None:
        return Reason.UNSUPPORTED_PLAN, table.blocked
    if state.unusable_reason is not None:
        return state.unusable_reason
    if has_rule and not state.is_transactional:
        return Reason.UNSUPPORTED_PLAN, "the rule of the optimizer reads it"
    return None
