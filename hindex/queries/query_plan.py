"""Choose the tables of a query that are read through their indexes: those with few matching rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from hindex.errors import ColumnError, HindexError, PredicateError, TableError, UnsupportedError
from hindex.plan.filter import columns as filter_columns
from hindex.plan.modes import Mode
from hindex.plan.normalize import normalize
from hindex.plan.reasons import Note, group_notes
from hindex.plan.time_zones import ZonesOf, is_about_time
from hindex.queries.query_explanation import TableDecision
from hindex.queries.selectivity_estimate import estimate_selectivity
from hindex.queries.table_resolution import QueryTableState, TableResolver, resolve_tables
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.task_runner import Unit
from hindex.spark.scan import RowScan, scan_frame
from hindex.spark.session_time_zones import zones
from hindex.spark.settings import is_ansi, is_of_one_type, is_set, strange_setting
from hindex.spark.types import same_type
from hindex.sql.predicate import Predicate, all_of, columns
from hindex.table.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hindex.sql.queries import Query, QueryTable
    from hindex.sql.statements import TableRef

#: The greatest share of a table's rows for which it is read through its indexes. On six million rows of lineitem, with
#: three columns asked for and the rows anywhere, the processor time was half of Spark's with 0.04 % of them, 0.9 of it
#: with 0.3 %, and 1.3 of it with 1.2 %: handing one row over takes as long as Spark takes to decode a hundred.
MAX_SHARE = 0.005
#: The least number of values (rows times the columns that are asked for) for which indexes are asked at all: planning
#: takes about as long as Spark takes to decode so many.
MIN_VALUES = 5_000_000
#: Why a table is left to Spark that its indexes would narrow.
_ELSEWHERE = "Spark reads it in another place of the query, and both have to see the same files"


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """One table of a query.

    ``scan``, ``plan`` and its columns in Spark are of one that is read through its indexes; ``units`` are the stripes
    that may have rows, where all were asked. ``notes`` name what could not be used.
    """

    known: QueryTableState
    decision: TableDecision
    scan: RowScan | None = None
    plan: ScanPlan | None = None
    schema: StructType | None = None
    units: list[Unit] | None = None
    notes: tuple[Note, ...] = ()

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows, with all columns of the table: those that are not asked for are null."""
        assert self.scan is not None
        assert self.schema is not None
        # Spark's own types and field metadata, by which it pads what is compared with CHAR, and nulls for the rest
        return scan_frame(spark, self.scan, self.plan, self.units).to(self.schema)

    @property
    def indexes(self) -> list[str]:
        """The names of the indexes through which it is read."""
        if self.plan is None:
            return []
        used = [use.name for task in self.plan.tasks for use in task.indexes]
        used += [groups.name for task in self.plan.tasks for groups in task.located]
        if not used and self.plan.skipped:
            # what the driver knows rules out all files
            conditions = {name.lower() for name in filter_columns(self.plan.filter)}
            known = self.plan.snapshot.manifest.indexes
            used = [entry.name for entry in known if entry.column.lower() in conditions]
        return sorted(set(used))

    def empty(self, spark: SparkSession) -> DataFrame:
        """None of the rows, with the same columns."""
        assert self.schema is not None
        return spark.createDataFrame([], self.schema)


def plan_query(
    resolver: TableResolver, query: Query, known_by_ref: Mapping[TableRef, QueryTableState] | None = None
) -> list[PlannedTable]:
    """Plan how each table of a query is read.

    :param known_by_ref: the tables that it names, where they were looked up already.
    """
    spark = resolver.spark()
    reason = strange_setting(partial(is_set, spark), query.text)
    if reason is not None:
        query.leave(reason)
    refs = [table.ref for table in query.tables]
    by_ref = resolve_tables(resolver, refs) if known_by_ref is None else known_by_ref
    known = [by_ref[table.ref] for table in query.tables]
    if query.problem is not None:
        return [
            PlannedTable(item, _alone(table, query.problem))
            for table, item in zip(query.tables, known, strict=True)
        ]
    conditions = query.conditions([item.names() for item in known])
    planner = _Planner(spark, query)
    return _alike(
        [
            PlannedTable(item, _alone(table, reason))
            if (reason := table.blocked or item.why_not) is not None
            else planner.plan(table, item, wanted)
            for table, item, wanted in zip(query.tables, known, conditions, strict=True)
        ]
    )


def _alike(planned: Sequence[PlannedTable]) -> list[PlannedTable]:
    """Tables that are left to Spark in one place of a query are left to it in all.

    Spark may have listed the files of a table earlier than they were listed here, and rows of two states of one table
    are no answer. Transactional tables are never left to it.
    """
    left = {item.known.uri for item in planned if item.scan is None and item.known.uri is not None}
    return [
        replace(item, decision=replace(item.decision, reason=_ELSEWHERE), scan=None, plan=None, units=None)
        if item.scan is not None and item.known.uri in left
        else item
        for item in planned
    ]


class _Planner:
    """Plans the tables of one query; what is asked of the session is asked once, and if it matters."""

    def __init__(self, spark: SparkSession, query: Query) -> None:
        self._spark = spark
        self._query = query
        self._zones = cache(lambda: zones(spark))
        self._is_ansi: Callable[[], bool] = cache(lambda: is_ansi(partial(is_set, spark)))

    def plan(
        self, table: QueryTable, known: QueryTableState, conditions: Sequence[Predicate]
    ) -> PlannedTable:
        """Plan how one table is read; all its relevant rows satisfy the conditions."""
        try:
            is_transactional = known.is_transactional
            if not is_transactional and not conditions:
                reason = "no condition of the query is on its columns alone"
                return PlannedTable(known, _alone(table, reason))
            schema = known.snapshot.schema
            usable = self._usable(conditions, schema)
        except HindexError as error:
            return PlannedTable(known, _alone(table, str(error)))
        if is_transactional:
            if known.disagreement is not None:
                return PlannedTable(known, _alone(table, known.disagreement))
            return self._transactional(table, known, usable)
        if not usable:
            reason = "none of the query's conditions on it can be answered by indexes"
            return PlannedTable(known, _alone(table, reason))
        try:
            return self._plain(table, known, all_of(usable))
        except UnsupportedError as error:
            return PlannedTable(known, _alone(table, str(error), all_of(usable)))

    def _plain(self, table: QueryTable, known: QueryTableState, where: Predicate) -> PlannedTable:
        schema = known.snapshot.schema
        if known.snapshot.listing.transactional:
            reason = "its files are those of a transactional table, which it is not in the catalog"
            return PlannedTable(known, _alone(table, reason, where))
        names = [name for name in schema.names if self._query.needs(name)]
        rows = sum(view.num_rows for view in known.snapshot.files)
        if rows * len(names) < MIN_VALUES:
            reason = f"TOO_SMALL: Spark reads {len(names)} columns of {rows:,} rows sooner"
            return PlannedTable(known, _alone(table, reason, where))
        try:
            scan, plan = _planned(known, where, names, self._zones)
            if not plan.skipped and not any(task.indexes or task.located for task in plan.tasks):
                listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
                reason = f"no index that could be used is on {listed}"
                return PlannedTable(known, _alone(table, reason, where), notes=plan.notes)
            surveyed = estimate_selectivity(scan, plan, MAX_SHARE)
        except HindexError as error:
            # of a table that would not be read here anyway, it is no error
            if known.disagreement is not None:
                return PlannedTable(known, _alone(table, known.disagreement, where))
            if isinstance(error, (ColumnError, PredicateError)):
                return PlannedTable(known, _alone(table, str(error), where))
            raise
        kept, notes = surveyed.rows, (*plan.notes, *surveyed.fallbacks)
        if kept.share is not None and kept.share > MAX_SHARE:
            reason = f"NOT_SELECTIVE: more than {MAX_SHARE:.1%} of the rows may match"
            if surveyed.fallbacks:
                reason += "; " + "; ".join(map(str, group_notes(surveyed.fallbacks)))
            return PlannedTable(known, replace(_alone(table, reason, where), rows=kept), notes=notes)
        try:
            difference = known.disagreement or (
                _difference(schema, known.spark_schema) if known.snapshot.declared is None else None
            )
        except TableError as error:
            difference = str(error)
        if difference is not None:
            return PlannedTable(known, replace(_alone(table, difference, where), rows=kept))
        decision = TableDecision(str(table.ref), str(where), None, kept)
        return PlannedTable(known, decision, scan, plan, known.spark_schema, surveyed.units, notes)

    def _transactional(
        self, table: QueryTable, known: QueryTableState, usable: Sequence[Predicate]
    ) -> PlannedTable:
        """A transactional table is always read here: Spark would take its deltas for rows."""
        schema = known.snapshot.schema
        where = all_of(usable) if usable else None
        names = [name for name in schema.names if self._query.needs(name)]
        scan, plan = _planned(known, where, names, self._zones)
        decision = TableDecision(str(table.ref), None if where is None else str(where))
        return PlannedTable(known, decision, scan, plan, known.spark_schema)

    def _usable(self, conditions: Sequence[Predicate], schema: TableSchema) -> list[Predicate]:
        """The conditions that mean here what they mean to Spark, and that fit the columns' types."""
        return [
            item
            for item in conditions
            if (self._is_ansi() or is_of_one_type(item, schema)) and self._fits(item, schema)
        ]

    def _fits(self, predicate: Predicate, schema: TableSchema) -> bool:
        try:
            about_time = is_about_time(predicate, lambda parts: schema.resolve(parts).type)
            normalize(predicate, schema, self._zones() if about_time else None)
        except (PredicateError, ColumnError, UnsupportedError):
            return False
        return True


def _planned(
    known: QueryTableState, where: Predicate | None, names: Sequence[str], zones_of: ZonesOf
) -> tuple[RowScan, ScanPlan]:
    """A scan, and its plan against the table as it was listed for this query."""
    columns = [(name,) for name in names]
    # whatever the connection's: of tables that Spark reads alone, no mode tells anything either
    scan = known.table.scan(where, columns, mode=Mode.LENIENT)
    return scan, scan.runner.plan(
        lambda: known.snapshot, lambda found: plan_scan(found, where, columns, zones=zones_of)
    )


def _difference(schema: TableSchema, from_spark: StructType) -> str | None:
    """Return how Spark's own reader interprets the files differently, or None."""
    ours = [name.lower() for name in schema.names]
    theirs = [field.name.lower() for field in from_spark]
    if sorted(ours) != sorted(theirs):
        return "its files have different columns, of which Spark reads those of one"
    for field in from_spark:
        of = schema.resolve((field.name,)).type
        if not same_type(of, field.dataType):
            return f"column {field.name!r} is {field.dataType.simpleString()} to Spark and {of} in the files"
    return None


def _alone(table: QueryTable, reason: str, where: Predicate | None = None) -> TableDecision:
    return TableDecision(str(table.ref), None if where is None else str(where), reason)
