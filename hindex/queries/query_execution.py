"""Queries of any shape, run by Spark, with tables read through their indexes where few rows match.

Spark runs the query's own text, in parentheses, where its grammar allows no statement that changes tables. A table
that its indexes narrow is replaced by a view of its matching rows. The view has the table's columns, in their order
and with their types; columns that the query does not need are null. The rows are those that Spark alone returns after
REFRESH TABLE. Spark's own list of a table's files may be older, so all references of a query to one table are read
here, or all by Spark.
"""

from __future__ import annotations

import logging
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hindex.errors import ArgumentTypeError, HindexError, StatementError, TableError
from hindex.plan.reasons import group_notes
from hindex.queries.query_plan import PlannedTable, QueryExplanation, TableDecision, plan_query
from hindex.queries.table_resolution import TableResolver
from hindex.queries.view_expansion import ExpandedQuery, expand_views, expansion_difference
from hindex.spark.catalog import MISSING, is_path
from hindex.spark.jobs import first_line
from hindex.spark.locations import transactional_location
from hindex.spark.session import java_session
from hindex.spark.types import quoted
from hindex.sql.predicate import quote_string
from hindex.sql.queries import as_literal, is_within

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from hindex.sql.parameters import Args
    from hindex.sql.queries import Query, Span

#: Spark's error condition if it cannot read the files of a path that stands in place of a table.
_DIRECT_QUERY_FAILED = "FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY"
#: Spark's error condition for a syntax error.
_SYNTAX_ERROR = "PARSE_SYNTAX_ERROR"
#: Spark's error conditions for mistakes in the query's text, for which hindex suggests a remedy.
_TEXT_ERRORS = frozenset({_SYNTAX_ERROR, "MISSING_GROUP_BY", "UNBOUND_SQL_PARAMETER"})
#: Position of a mistake in Spark's messages: lines from 1, columns from 0.
_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")
_LOG = logging.getLogger("hindex.queries")
#: Maximum number of characters of a query in the log.
_MAX_LOGGED = 300

#: Attribute of the function that replaces a session's ``sql``: the original function.
SPARK_SQL = "__hindex_spark_sql__"

__all__ = ["QueryExplanation", "SparkSyntaxError", "TableDecision", "explain_query", "run_query"]


class SparkSyntaxError(StatementError):
    """Spark cannot parse the query; the position in its message refers to the rewritten text."""


def run_query(resolver: TableResolver, query: Query, cause: str | None = None) -> DataFrame:
    """Run a query by Spark, with tables read through their indexes.

    The indexes are read at the call, so tables that they narrow have the rows of the call.

    Args:
        cause: why hindex does not answer the query itself, for the log.

    Raises:
        StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    expanded = expand_views(resolver, query)
    planned = plan_query(resolver, expanded.query, expanded.tables)
    if expanded.views:
        frame = None
        if any(item.scan is not None for item in planned):
            frame = _run_expanded(spark, query, expanded, planned)
        if frame is not None:
            log_tables(query.text, planned, cause)
            return frame
        planned = plan_query(resolver, query)
    warn_about_unused_indexes(planned)
    log_tables(query.text, planned, cause)
    if any(item.state.uri is None for item in planned):
        # a view may read a table that is read here, too: both have to see the same files
        for item in planned:
            if item.scan is not None:
                item.state.refresh()
    implied = implied_subqueries(planned)
    return _run_planned(resolver, query, planned, lambda item: item.frame(spark, query), implied)


def _run_expanded(
    spark: SparkSession, query: Query, expanded: ExpandedQuery, planned: Sequence[PlannedTable]
) -> DataFrame | None:
    """Run a query with its views expanded; return None if its result may differ from the original query's."""
    from pyspark.errors import PySparkException

    sql = spark_sql(spark)
    try:
        names = [expanded.tables[table.ref].spark_name() for table in query.tables]
        original = sql(query.with_tables(names), query.args)
        difference = expansion_difference(spark, expanded, sql)
        if difference is None:
            others = [item.state.spark_name() if item.scan is None else None for item in planned]
            implied = implied_subqueries(planned)
            frames = make_frames(
                expanded.query, planned, lambda item: item.frame(spark, expanded.query), implied
            )
            frame = submit(spark, expanded.query, frames, others, implied=implied, args=query.args)
            if frame.schema.jsonValue() == original.schema.jsonValue():
                return frame
            difference = "its columns would differ from Spark's"
    except (HindexError, PySparkException) as error:
        difference = str(error).partition("\n")[0]
    _LOG.info("views are read by Spark: %s | %s", difference, shorten(query.text))
    return None


def explain_query(resolver: TableResolver, query: Query) -> QueryExplanation:
    """Explain how the tables of a query are read, and why. No rows are read.

    Raises:
        StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    expanded = expand_views(resolver, query, in_full=True)
    planned = plan_query(resolver, expanded.query, expanded.tables)
    as_written = plan_query(resolver, query, expanded.tables) if expanded.views else planned
    _run_planned(resolver, query, as_written, lambda item: item.empty(spark))
    is_expanded = any(item.scan is not None for item in planned)
    if not is_expanded or expansion_difference(spark, expanded, spark_sql(spark)) is not None:
        planned = as_written
    decisions = [
        item.decision if item.scan is None else replace(item.decision, explanation=item.scan.explain())
        for item in planned
    ]
    return QueryExplanation(tuple(decisions), query.problem)


def _run_planned(
    resolver: TableResolver,
    query: Query,
    tables: Sequence[PlannedTable],
    make_frame: Callable[[PlannedTable], DataFrame],
    implied: Sequence[Span] = (),
) -> DataFrame:
    """Run a query by Spark, with DataFrames in place of the tables that are read here.

    Args:
        implied: subqueries that are true of every row of the tables that are read here.
    """
    from pyspark.errors import PySparkException

    spark = resolver.spark()
    has_frames = any(item.scan is not None for item in tables)
    names = [item.state.spark_name() if item.scan is None else None for item in tables]
    frames = make_frames(query, tables, make_frame, implied)
    try:
        result = submit(spark, query, frames, names, implied=implied, args=query.args)
        if java_session(spark) is None:
            # Spark Connect analyses a query only when its schema or rows are requested
            result.schema  # noqa: B018
    except PySparkException as error:
        if error.getCondition() == _DIRECT_QUERY_FAILED:
            # Spark's message does not name the path: listing it here raises an error that does
            for item in tables:
                if item.state.is_path:
                    item.state.table.snapshot()
        condition = error.getCondition() or ""
        message = _original_message(error, query, [None] * len(names) if has_frames else names)
        if condition == _SYNTAX_ERROR and not query.is_parsed:
            message = _message_with_quoted_paths(spark, query) or message
        is_text_error = condition in _TEXT_ERRORS or _is_limit_error(
            condition, error.getMessageParameters() or {}, query.text
        )
        raise (SparkSyntaxError if is_text_error else StatementError)(message) from error
    except AttributeError as error:
        if query.args is None:
            raise
        raise ArgumentTypeError(f"Spark does not take these args: {error}") from error
    if query.problem is not None:
        # the text may name tables in ways that hindex does not parse
        location = transactional_location(spark, result, {item.state.uri for item in tables})
        if location is not None:
            raise TableError(
                f"The query reads {location!r}, a transactional table, which Spark cannot read by itself: "
                "make a view of hx.table(...).scan().to_spark(spark), and query that"
            )
    return result


def implied_subqueries(tables: Sequence[PlannedTable]) -> list[Span]:
    """Return the subqueries of a query's text that are true of every row of the tables that are read here."""
    return sorted({span for item in tables if item.scan is not None for span in item.implied})


def make_frames(
    query: Query,
    tables: Sequence[PlannedTable],
    make_frame: Callable[[PlannedTable], DataFrame],
    implied: Sequence[Span] = (),
) -> list[DataFrame | None]:
    """Make the DataFrames of the tables that are read here; None for others, and for those in an implied subquery.

    Tables that share a plan share its rows.

    Args:
        implied: subqueries that Spark does not get.
    """
    frames: dict[int, DataFrame] = {}
    by_position: list[DataFrame | None] = []
    for table, item in zip(query.tables, tables, strict=True):
        if item.scan is None or is_within(table.start, implied):
            by_position.append(None)
            continue
        if id(item.plan) not in frames:
            frames[id(item.plan)] = make_frame(item)
        by_position.append(frames[id(item.plan)])
    return by_position


def submit(
    spark: SparkSession,
    query: Query,
    frames: Sequence[DataFrame | None],
    names: Sequence[str | None] | None = None,
    *,
    implied: Sequence[Span] = (),
    args: Args | None = None,
    head: str | None = None,
) -> DataFrame:
    """Submit a query to Spark with DataFrames in place of tables.

    Args:
        names: the names of the other tables; None for the written name. See `Query.with_tables`.
        implied: subqueries that are true of every row of the DataFrames; see `Query.with_tables`.
        args: values of the statement's parameters.
        head: the beginning of a statement that writes the query's rows, which Spark runs at once.

    Raises:
        PySparkException: if Spark rejects it.
    """
    by_placeholder = {f"hindex_{at}": frame for at, frame in enumerate(frames) if frame is not None}
    names = names or [None] * len(frames)
    if by_placeholder:
        names = [None if name is None else as_literal(name) for name in names]
    references = [
        name if frame is None else f"{{hindex_{at}}}"
        for at, (frame, name) in enumerate(zip(frames, names, strict=True))
    ]
    # PySpark makes a temporary view of a DataFrame in braces, for the time of the analysis
    text = query.with_tables(references, implied=implied, is_format=bool(by_placeholder), head=head)
    return spark_sql(spark)(text, args, **by_placeholder)


def spark_sql(spark: SparkSession) -> Callable[..., DataFrame]:
    """Return the session's original ``sql``, which ``hindex.accelerate`` may have replaced."""
    original: Callable[..., DataFrame] = getattr(spark.sql, SPARK_SQL, spark.sql)
    return original


def warn_about_unused_indexes(tables: Sequence[PlannedTable]) -> None:
    """Warn about indexes that exist and cannot be used: those of changed files, damaged ones and so on."""
    for item in tables:
        notes = group_notes(note for note in item.notes if note.reason.is_problem)
        if notes:
            _LOG.warning("index not used on %s: %s", item.decision.table, "; ".join(map(str, notes)))


def log_tables(text: str, tables: Sequence[PlannedTable], cause: str | None = None) -> None:
    """Log in one line how the tables of a query are read, and why hindex does not answer the query itself."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    parts = []
    for item in tables:
        if item.scan is None:
            parts.append(f"{item.decision.table} by Spark: {item.decision.reason}")
        else:
            default = "its row keys" if item.rows is None else "a scan for its keys"
            details: list[object] = [*item.decision.lookups]
            if item.decision.rows is not None:
                details.append(f"{'' if item.decision.gives_keys else 'about '}{item.decision.rows} rows")
            through = ", ".join([", ".join(item.indexes) or default, *map(str, details)])
            parts.append(f"{item.decision.table} through {through}")
    is_accelerated = any(item.scan is not None for item in tables)
    prefix = "accelerated" if is_accelerated else "not accelerated"
    if cause is not None:
        prefix = f"run by Spark: {cause}: {prefix}"
    _LOG.info("%s: %s | %s", prefix, "; ".join(parts), shorten(text))


def shorten(text: object) -> str:
    """Return the beginning of a query in one line."""
    return textwrap.shorten(str(text), _MAX_LOGGED, placeholder=" ...")


def _message_with_quoted_paths(spark: SparkSession, query: Query) -> str | None:
    """Return Spark's syntax error for a query whose paths are quoted as Spark does; None if there is none then."""
    from pyspark.errors import PySparkException

    query = query.by_words()
    names = [f"orc.{quoted(table.ref.text)}" for table in query.tables]
    try:
        frame = spark_sql(spark)(query.with_tables(names), query.args)
        if java_session(spark) is None:
            frame.schema  # noqa: B018
    except PySparkException as error:
        return _original_message(error, query, names) if error.getCondition() == _SYNTAX_ERROR else None
    return None


def _original_message(error: PySparkException, query: Query, names: Sequence[str | None]) -> str:
    """Return Spark's message about a rewritten query, with positions in the text as the user wrote it."""
    message = first_line(error) + _quoting_hint(error)
    position = _POSITION.search(message)
    if position is None:
        return message
    lines = query.with_tables(names).split("\n")[: int(position[1]) - 1]
    at = query.place(sum(len(line) + 1 for line in lines) + int(position[2]), names)
    if at == len(query.text):
        message = message.replace("at or near ')'", "at or near end of input")
    before = query.text[:at].split("\n")
    return _POSITION.sub(f"(line {len(before)}, pos {len(before[-1])})", message)


def _quoting_hint(error: PySparkException) -> str:
    """Return a hint to quote the name of a missing table that looks like a path."""
    if error.getCondition() not in MISSING:
        return ""
    name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
    return f" Quote the path: FROM {quote_string(name)}" if is_path(name) else ""


def _is_limit_error(condition: str, parameters: Mapping[str, str], text: str) -> bool:
    """Return True if Spark rejects the expression after LIMIT, which is not a constant number."""
    name = re.escape(parameters.get("objectName", "").strip("`"))
    is_name = condition.startswith("UNRESOLVED_COLUMN") and bool(name)
    return condition.startswith("INVALID_LIMIT_LIKE_EXPRESSION") or (
        is_name and re.search(rf"\bLIMIT\s+`?{name}\b", text, re.IGNORECASE) is not None
    )
