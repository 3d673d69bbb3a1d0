"""Queries of any shape, run by Spark: tables with indexes are read through them where that leaves few rows.

Spark gets the query as it was written. In place of a table that its indexes narrow, it gets a view of the rows that
the query's own conditions keep, with the columns, their order and their types unchanged: columns that the query does
not name are null there. So the answer is that of Spark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from hindex.errors import ColumnError, HindexError, PredicateError, StatementError, TableError
from hindex.orc.types import Kind, OrcType
from hindex.plan.explain import Explanation, Kept
from hindex.plan.normalize import normalize
from hindex.scan.execute import OpenTask
from hindex.scan.planning import ScanPlan
from hindex.scan.scan import Scan
from hindex.spark.scan import scan_frame
from hindex.spark.settings import is_ansi, is_of_one_type, is_utc, strange_setting
from hindex.spark.types import same_type, spark_ddl
from hindex.sql.predicate import Predicate, all_of, columns
from hindex.sql.statements import TableRefKind
from hindex.table.schema import TableSchema
from hindex.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hindex.connection import Connection
    from hindex.sql.queries import Query, QueryTable
    from hindex.tables import Table

#: The greatest share of a table's rows for which it is read through its indexes: Spark's own reader, which decodes
#: whole stripes without leaving the Java side, is faster on more.
MAX_SHARE = 0.05
#: Data files that are asked to estimate that share.
_SAMPLED_FILES = 16


@dataclass(frozen=True, slots=True)
class TableDecision:
    """How one table of a query is read.

    :param table: as the query names it.
    :param predicate: the conditions of the query that hold for its rows; None where there are none.
    :param reason: why Spark reads it alone; None where it is read through its indexes.
    :param rows: those that its indexes leave, about, where they were asked.
    :param explanation: of the scan, where it is read through its indexes.
    """

    table: str
    predicate: str | None
    reason: str | None = None
    rows: Kept | None = None
    explanation: Explanation | None = None

    @property
    def is_accelerated(self) -> bool:
        """Whether the table is read through its indexes."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class QueryExplanation:
    """How the tables of a query are read, in the order in which it names them."""

    tables: tuple[TableDecision, ...]
    problem: str | None = None

    def to_text(self) -> str:
        """Plain text."""
        lines = ["Query run by Spark"]
        if self.problem is not None:
            lines.append(f"  no table is read through indexes: {self.problem}")
        for item in self.tables:
            how = "by Spark alone" if item.reason is not None else "through its indexes"
            lines += ["", f"Table {item.table}: {how}"]
            if item.predicate is not None:
                lines.append(f"  where      {item.predicate}")
            if item.rows is not None:
                lines.append(f"  rows       about {item.rows}")
            if item.reason is not None:
                lines.append(f"  because    {item.reason}")
            if item.explanation is not None:
                lines += ["  " + line if line else "" for line in item.explanation.to_text().splitlines()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Plain values for ``json.dumps``."""
        return {
            "problem": self.problem,
            "tables": [
                {
                    "table": item.table,
                    "predicate": item.predicate,
                    "accelerated": item.is_accelerated,
                    "reason": item.reason,
                    "rows": None if item.rows is None else {"kept": item.rows.kept, "total": item.rows.total},
                    "scan": None if item.explanation is None else item.explanation.to_json(),
                }
                for item in self.tables
            ],
        }

    def __str__(self) -> str:
        return self.to_text()


def run_query(connection: Connection, query: Query) -> DataFrame:
    """The rows of a query, as Spark gives them.

    Indexes are asked now, and so the rows of tables that they narrow are those of now.

    :raises StatementError: if Spark cannot parse or resolve the query.
    """
    spark = connection.spark()
    planned = _plan(connection, query)
    return _analysed(connection, query, planned, lambda item: item.frame(spark, query))


def explain_query(connection: Connection, query: Query) -> QueryExplanation:
    """How the tables of a query are read, and why. No rows are read.

    :raises StatementError: if Spark cannot parse or resolve the query.
    """
    spark = connection.spark()
    planned = _plan(connection, query)
    _analysed(connection, query, planned, lambda item: spark.createDataFrame([], item.known_schema))
    decisions = [
        item.decision if item.scan is None else replace(item.decision, explanation=item.scan.explain())
        for item in planned
    ]
    return QueryExplanation(tuple(decisions), query.problem)


def _analysed(
    connection: Connection, query: Query, tables: Sequence[_Planned], frame: Callable[[_Planned], DataFrame]
) -> DataFrame:
    """The query with frames in place of the tables that are read here."""
    from pyspark.errors import PySparkException

    spark = connection.spark()
    names: list[str | None] = []
    frames: dict[str, Any] = {}
    for item in tables:
        if item.scan is None:
            names.append(_spark_name(connection, item.table))
            continue
        name = f"hindex_{len(frames)}"
        frames[name] = frame(item)
        names.append("{" + name + "}")
    try:
        if frames:
            # a DataFrame in braces becomes a view that is there for as long as the text is analysed
            found = spark.sql(query.with_tables(names, is_format=True), **frames)
        else:
            found = spark.sql(query.with_tables(names))
        # with Spark Connect, nothing has been looked at so far
        found.schema  # noqa: B018
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise StatementError(lines[0] if lines else type(error).__name__) from error
    return found


@dataclass(frozen=True, slots=True)
class _Planned:
    """One table of a query. ``scan`` and ``plan`` are of a table that is read through its indexes."""

    table: QueryTable
    decision: TableDecision
    scan: Scan | None = None
    plan: ScanPlan | None = None
    schema: StructType | None = None

    def frame(self, spark: SparkSession, query: Query) -> DataFrame:
        """The rows, with all columns of the table: those that are not asked for are null."""
        from pyspark.sql import functions

        assert self.scan is not None
        found = scan_frame(spark, self.scan, self.plan)
        at = {name.lower(): name for name in found.columns}
        return found.select(
            *(
                found[at[field.name.lower()]].alias(field.name)
                if query.needs(field.name)
                else functions.lit(None).cast(field.dataType).alias(field.name)
                for field in self.known_schema
            )
        )

    @property
    def known_schema(self) -> StructType:
        """The table's columns as Spark has them, of a table that is read through its indexes."""
        assert self.schema is not None
        return self.schema


def _plan(connection: Connection, query: Query) -> list[_Planned]:
    """How each table of a query is to be read."""
    spark = connection.spark()
    setting = strange_setting(spark, query.text)
    if setting is not None:
        query.leave(f"the session has {setting}")
    if query.problem is not None:
        reason = query.problem
        return [_Planned(table, _alone(table, reason)) for table in query.tables]
    known: dict[str, _Found | str] = {}
    for table in query.tables:
        if str(table.ref) not in known:
            known[str(table.ref)] = _find(connection, table)
    found = [known[str(table.ref)] for table in query.tables]
    conditions = query.conditions(
        [None if isinstance(item, str) else item.snapshot.schema.names for item in found]
    )
    if not is_ansi(spark):
        conditions = [
            [p for p in some if not isinstance(item, str) and is_of_one_type(p, item.snapshot.schema)]
            for some, item in zip(conditions, found, strict=True)
        ]
    in_utc = cache(lambda: is_utc(spark))
    planned = []
    for table, item, wanted in zip(query.tables, found, conditions, strict=True):
        if table.blocked is not None or isinstance(item, str):
            planned.append(_Planned(table, _alone(table, table.blocked or str(item))))
            continue
        planned.append(_plan_table(spark, query, table, item, wanted, in_utc))
    return planned


def _plan_table(
    spark: SparkSession,
    query: Query,
    table: QueryTable,
    found: _Found,
    conditions: Sequence[Predicate],
    in_utc: Callable[[], bool],
) -> _Planned:
    schema = found.snapshot.schema
    if found.snapshot.listing.transactional:
        return _plan_transactional(query, table, found, conditions, in_utc)
    usable = [
        item for item in conditions if _fits(item, schema) and (not _has_time(item, schema) or in_utc())
    ]
    if not usable:
        reason = (
            "none of the query's conditions on it can be answered by indexes"
            if conditions
            else "no condition of the query is on its columns alone"
        )
        return _Planned(table, _alone(table, reason))
    where = all_of(usable)
    names = [name for name in schema.names if query.needs(name)]
    if any(_is_time(schema.resolve(name).type) for name in names) and not in_utc():
        reason = "it has timestamps that the query asks for, and the session's time zone is not UTC"
        return _Planned(table, _alone(table, reason, where))
    scan = found.table.scan(where, names)
    plan = scan.plan()
    if not plan.skipped and not any(task.indexes or task.located for task in plan.tasks):
        listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
        return _Planned(table, _alone(table, f"no index that could be used is on {listed}", where))
    rows = _estimated_rows(plan)
    assert rows.kept is not None
    if rows.share is not None and rows.share > MAX_SHARE:
        reason = f"NOT_SELECTIVE: more than {MAX_SHARE:.0%} of the rows may match"
        return _Planned(table, replace(_alone(table, reason, where), rows=rows))
    from_spark = _spark_schema(spark, table, found)
    difference = _difference(plan.snapshot.schema, from_spark)
    if difference is not None:
        return _Planned(table, replace(_alone(table, difference, where), rows=rows))
    return _Planned(table, TableDecision(_shown(table), str(where), None, rows), scan, plan, from_spark)


def _plan_transactional(
    query: Query,
    table: QueryTable,
    found: _Found,
    conditions: Sequence[Predicate],
    in_utc: Callable[[], bool],
) -> _Planned:
    """A transactional table is always read here: Spark would take its deltas for rows."""
    from pyspark.sql.types import StructType

    schema = found.snapshot.schema
    usable = [
        item for item in conditions if _fits(item, schema) and (not _has_time(item, schema) or in_utc())
    ]
    where = all_of(usable) if usable else None
    names = [name for name in schema.names if query.needs(name)]
    scan = found.table.scan(where, names)
    decision = TableDecision(_shown(table), None if where is None else str(where))
    columns = ", ".join(f"`{c.name.replace('`', '``')}` {spark_ddl(c.type)}" for c in schema.columns)
    from_ddl = StructType.fromDDL(columns)
    assert isinstance(from_ddl, StructType)
    return _Planned(table, decision, scan, scan.plan(), from_ddl)


@dataclass(frozen=True, slots=True)
class _Found:
    """A table that may be read through its indexes, as it is now."""

    table: Table
    snapshot: Snapshot


def _find(connection: Connection, table: QueryTable) -> _Found | str:
    """A table with indexes, or a transactional one; for any other, why it cannot be read through indexes."""
    try:
        found = connection.resolve(table.ref)
        if not found.is_indexed() and not found.is_transactional():
            return "it has no index"
        return _Found(found, found.snapshot())
    except HindexError as error:
        return str(error)


def _estimated_rows(plan: ScanPlan) -> Kept:
    """About how many rows the indexes leave: some data files are asked."""
    total = sum(view.num_rows for view in plan.snapshot.files)
    step = max(len(plan.tasks) / _SAMPLED_FILES, 1.0)
    sample = [plan.tasks[int(at * step)] for at in range(min(len(plan.tasks), _SAMPLED_FILES))]
    kept = 0
    for task in sample:
        with OpenTask(task) as opened:
            kept += sum(len(opened.answer(stripe).bounds.upper) for stripe in opened.stripes)
    return Kept(round(kept * len(plan.tasks) / len(sample)) if sample else 0, total)


def _fits(predicate: Predicate, schema: TableSchema) -> bool:
    try:
        normalize(predicate, schema)
    except (PredicateError, ColumnError):
        return False
    return True


def _has_time(predicate: Predicate, schema: TableSchema) -> bool:
    return any(_is_time(schema.resolve(column.parts).type) for column in columns(predicate))


def _is_time(of: OrcType) -> bool:
    return any(part.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT) for part in of.walk())


def _spark_schema(spark: SparkSession, table: QueryTable, found: _Found) -> StructType:
    if table.ref.kind is TableRefKind.PATH:
        return spark.read.orc(found.snapshot.listing.uri).schema
    return spark.table(str(table.ref)).schema


def _difference(schema: TableSchema, from_spark: StructType) -> str | None:
    """What Spark's own reader makes of the files otherwise."""
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
    return TableDecision(_shown(table), None if where is None else str(where), reason)


def _shown(table: QueryTable) -> str:
    return str(table.ref)


def _spark_name(connection: Connection, table: QueryTable) -> str | None:
    """How Spark is told of a table that it reads itself; None where that is as written.

    :raises TableError: for a transactional table, whose deltas Spark would not read or take for rows.
    """
    is_path = table.ref.kind is TableRefKind.PATH
    try:
        found = connection.resolve(table.ref)
        is_transactional = found.is_transactional()
    except HindexError:
        if is_path:
            raise
        return None  # of whatever else the catalog has, Spark knows more
    if is_transactional:
        raise TableError(
            f"Table {str(table.ref)!r} is transactional, which Spark cannot read by itself: make a view of "
            "hx.table(...).scan().to_spark(spark), and query that"
        )
    return f"orc.`{found.uri.replace('`', '``')}`" if is_path else None
