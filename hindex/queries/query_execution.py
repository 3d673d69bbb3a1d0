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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hindex.errors import ArgumentTypeError, StatementError, TableError
from hindex.plan.reasons import group_notes
from hindex.queries.decisions import QueryExplanation, TableDecision
from hindex.queries.query_plan import PlannedTable, plan_query
from hindex.queries.table_resolution import TableResolver
from hindex.spark.catalog import MISSING, is_path
from hindex.spark.jobs import first_line
from hindex.spark.locations import transactional_location
from hindex.spark.session import java_session
from hindex.spark.types import quoted
from hindex.sql.predicate import quote_string
from hindex.sql.queries import as_literal

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from hindex.queries.plan_rule import PlanRule
    from hindex.sql.queries import Query

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


def run_query(
    resolver: TableResolver, query: Query, cause: str | None = None, rule: PlanRule | None = None
) -> DataFrame:
    """Run a query by Spark, with tables read through their indexes.

    Without a rule the indexes are read at the call, so tables that they narrow have the rows of the call.

    Args:
        cause: why hindex does not answer the query itself, for the log.
        rule: the rule of the session's optimizer, which plans all but transactional tables; None over Spark Connect.

    Raises:
        StatementError: if Spark cannot parse or resolve the query.
    """
    planned = plan_query(resolver, query, has_rule=rule is not None)
    if rule is None:
        log_tables(query.text, planned, cause)
    elif cause is not None:
        _LOG.info("run by Spark: %s | %s", cause, shorten(query.text))
    names = [item.state.spark_name() if item.scan is None else None for item in planned]
    return run_planned(resolver, query, planned, names)


def explain_query(resolver: TableResolver, query: Query, rule: PlanRule | None = None) -> QueryExplanation:
    """Explain how the tables of a query are read, and why.

    Args:
        rule: see `run_query`.

    Raises:
        StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    planned = plan_query(resolver, query, in_full=True, has_rule=rule is not None)
    names = [item.state.spark_name() if item.scan is None else None for item in planned]
    frame = _submit(resolver, query, planned, names, lambda item: item.empty(spark))
    decisions = [
        item.decision if item.scan is None else replace(item.decision, explanation=item.scan.explain())
        for item in planned
        # the rule sees neither tables of other formats nor names of views
        if rule is None or item.scan is not None or item.state.problem is not None
    ]
    if rule is not None:
        decisions += rule.explain(frame).tables
    return QueryExplanation(tuple(decisions), query.problem)


def run_planned(
    resolver: TableResolver, query: Query, tables: Sequence[PlannedTable], names: Sequence[str | None]
) -> DataFrame:
    """Run a query by Spark, with DataFrames in place of the tables that are read here.

    Args:
        names: the names of the other tables; None for the written name. See `Query.with_tables`.

    Raises:
        StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    if any(item.state.uri is None for item in tables):
        # a view may read a table that is read here, too: both have to see the same files
        for item in tables:
            if item.scan is not None:
                item.state.refresh()
    return _submit(resolver, query, tables, names, lambda item: item.frame(spark, query))


def _submit(
    resolver: TableResolver,
    query: Query,
    tables: Sequence[PlannedTable],
    names: Sequence[str | None],
    make_frame: Callable[[PlannedTable], DataFrame],
) -> DataFrame:
    """Submit a query to Spark with DataFrames in place of the tables that are read here."""
    from pyspark.errors import PySparkException

    spark = resolver.spark()
    # PySpark makes a temporary view of a DataFrame in braces, for the time of the analysis
    frames = {f"hindex_{at}": make_frame(item) for at, item in enumerate(tables) if item.scan is not None}
    references = [
        f"{{hindex_{at}}}" if item.scan is not None else as_literal(name) if name and frames else name
        for at, (item, name) in enumerate(zip(tables, names, strict=True))
    ]
    try:
        text = query.with_tables(references, is_format=bool(frames))
        result = spark_sql(spark)(text, query.args, **frames)
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
        message = _original_message(error, query, [None] * len(names) if frames else names)
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


def spark_sql(spark: SparkSession) -> Callable[..., DataFrame]:
    """Return the session's original ``sql``, which ``hindex.accelerate`` may have replaced."""
    original: Callable[..., DataFrame] = getattr(spark.sql, SPARK_SQL, spark.sql)
    return original


def log_tables(text: str, tables: Sequence[PlannedTable], cause: str | None = None) -> None:
    """Log in one line how the tables of a query are read, and why hindex does not answer the query itself.

    Warn about indexes that exist and cannot be used: those of changed files, damaged ones and so on.
    """
    for item in tables:
        notes = group_notes(note for note in item.notes if note.reason.is_problem)
        if notes:
            _LOG.warning("index not used on %s: %s", item.decision.table, "; ".join(map(str, notes)))
    if not _LOG.isEnabledFor(logging.INFO):
        return
    parts = []
    for item in tables:
        if item.scan is None:
            parts.append(f"{item.decision.table} by Spark: {item.decision.because}")
        else:
            details = [] if item.decision.rows is None else [f"{item.decision.row_text} rows"]
            through = ", ".join([*(item.indexes or ["a scan"]), *details])
            parts.append(f"{item.decision.table} through {through}")
    is_accelerated = any(item.scan is not None for item in tables)
    prefix = "accelerated" if is_accelerated else "not accelerated"
    if cause is not None:
        prefix = f"run by Spark: {cause}: {prefix}"
    _LOG.info("%s: %s | %s", prefix, "; ".join(parts), shorten(text))


def shorten(text: object) -> str:
    """Return the beginning of a query in one line. Blanks within a line stay: they may be those of a string."""
    line = " ".join(line.strip() for line in str(text).splitlines())
    return line if len(line) <= _MAX_LOGGED else f"{line[:_MAX_LOGGED]} ..."


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
