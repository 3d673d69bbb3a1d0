"""Queries of any shape, run by Spark: tables with indexes are read through them where that leaves few rows.

Spark gets the query as it was written, in parentheses, where its grammar has no place for statements that change
tables. In place of a table that its indexes narrow, it gets a view of the rows that
the query's own conditions keep, with the columns, their order and their types unchanged: columns that the query does
not name are null there. So the answer is that of Spark alone once it has looked at the tables' files anew, as after
REFRESH TABLE. Spark's own list of a catalog table's files may be older, so places of a query that name one table are
either all read here or all by Spark.
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
from hindex.queries.query_explanation import QueryExplanation, TableDecision
from hindex.queries.query_plan import PlannedTable, plan_query
from hindex.queries.table_resolution import TableResolver
from hindex.queries.view_expansion import ExpandedQuery, expand_views, expansion_difference
from hindex.queries.views import place_in_frame
from hindex.spark.catalog import MISSING, first_line, is_path
from hindex.spark.session import java_session
from hindex.spark.types import quoted
from hindex.sql.expression import quote_string
from hindex.sql.queries import as_literal

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

    from hindex.sql.parameters import Args
    from hindex.sql.queries import Query

#: Spark's name for its failure to look into the files of a path that is written in place of a table.
_NOT_READ_DIRECTLY = "FAILED_TO_CREATE_PLAN_FOR_DIRECT_QUERY"
#: Spark's name for a text that its grammar has no place for.
_NOT_PARSED = "PARSE_SYNTAX_ERROR"
#: Its names for mistakes that are seen in the text alone, and that hindex tells the remedy of.
_OF_TEXT = frozenset({_NOT_PARSED, "MISSING_GROUP_BY", "UNBOUND_SQL_PARAMETER"})
#: Where Spark marks a mistake: lines from 1, columns from 0.
_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")
_LOG = logging.getLogger("hindex.queries")
#: Characters that the log shows of a query.
_SHOWN = 300

#: Attribute of a function in place of a session's ``sql``: the function that was there.
SPARK_SQL = "__hindex_spark_sql__"

__all__ = ["QueryExplanation", "SparkSyntaxError", "TableDecision", "explain_query", "run_query"]


class SparkSyntaxError(StatementError):
    """Spark cannot make sense of the text; the place that it names is one of it with other names for tables."""


def run_query(resolver: TableResolver, query: Query, cause: str | None = None) -> DataFrame:
    """The rows of a query, as Spark gives them.

    Indexes are asked now, and so the rows of tables that they narrow are those of now.

    :param cause: why hindex does not answer it by itself, for the log.
    :raises StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    expanded = expand_views(resolver, query)
    planned = plan_query(resolver, expanded.query, expanded.tables)
    if expanded.views:
        found = None
        if any(item.scan is not None for item in planned):
            found = _without_views(spark, query, expanded, planned)
        if found is not None:
            log_tables(query.text, planned, cause)
            return found
        planned = plan_query(resolver, query)
    warn_of_indexes(planned)
    log_tables(query.text, planned, cause)
    if any(item.known.uri is None for item in planned):
        # a view may be of a table that is read here: its files are those of now for both
        for item in planned:
            if item.scan is not None:
                item.known.refresh()
    return _analysed(resolver, query, planned, lambda item: item.frame(spark))


def _without_views(
    spark: SparkSession, query: Query, expanded: ExpandedQuery, planned: Sequence[PlannedTable]
) -> DataFrame | None:
    """The query with the tables below its views read here; None where that is not certain to be the same."""
    from pyspark.errors import PySparkException

    sql = spark_sql(spark)
    try:
        names = [expanded.tables[table.ref].spark_name() for table in query.tables]
        original = sql(query.with_tables(names), query.args)
        difference = expansion_difference(spark, expanded, sql)
        if difference is None:
            others = [item.known.spark_name() if item.scan is None else None for item in planned]
            frames = make_frames(planned, lambda item: item.frame(spark))
            found = submit(spark, expanded.query, frames, others, args=query.args)
            if found.schema.jsonValue() == original.schema.jsonValue():
                return found
            difference = "its columns would differ from Spark's"
    except (HindexError, PySparkException) as error:
        difference = str(error).partition("\n")[0]
    _LOG.info("views are left to Spark: %s | %s", difference, shorten(query.text))
    return None


def explain_query(resolver: TableResolver, query: Query) -> QueryExplanation:
    """Explain how the tables of a query are read, and why. No rows are read.

    :raises StatementError: if Spark cannot parse or resolve the query.
    """
    spark = resolver.spark()
    expanded = expand_views(resolver, query, in_full=True)
    planned = plan_query(resolver, expanded.query, expanded.tables)
    as_written = plan_query(resolver, query, expanded.tables) if expanded.views else planned
    _analysed(resolver, query, as_written, lambda item: item.empty(spark))
    is_expanded = any(item.scan is not None for item in planned)
    if not is_expanded or expansion_difference(spark, expanded, spark_sql(spark)) is not None:
        planned = as_written
    decisions = [
        item.decision if item.scan is None else replace(item.decision, explanation=item.scan.explain())
        for item in planned
    ]
    return QueryExplanation(tuple(decisions), query.problem)


def _analysed(
    resolver: TableResolver,
    query: Query,
    tables: Sequence[PlannedTable],
    frame: Callable[[PlannedTable], DataFrame],
) -> DataFrame:
    """The query with frames in place of the tables that are read here."""
    from pyspark.errors import PySparkException

    spark = resolver.spark()
    has_frames = any(item.scan is not None for item in tables)
    names = [item.known.spark_name() if item.scan is None else None for item in tables]
    frames = make_frames(tables, frame)
    try:
        found = submit(spark, query, frames, names, args=query.args)
        if java_session(spark) is None:
            # nothing has been looked at so far
            found.schema  # noqa: B018
    except PySparkException as error:
        if error.getCondition() == _NOT_READ_DIRECTLY:
            # what is wrong with which path is not in Spark's words
            for item in tables:
                if item.known.is_path:
                    item.known.table.snapshot()
        condition = error.getCondition() or ""
        told = _told(error, query, [None] * len(names) if has_frames else names)
        if condition == _NOT_PARSED and not query.is_parsed:
            told = _of_other_paths(spark, query) or told
        is_of_text = condition in _OF_TEXT or _is_of_limit(
            condition, error.getMessageParameters() or {}, query.text
        )
        raise (SparkSyntaxError if is_of_text else StatementError)(told) from error
    except AttributeError as error:
        if query.args is None:
            raise
        raise ArgumentTypeError(f"Spark does not take these args: {error}") from error
    if query.problem is not None:
        # the text may name tables in ways that are not known here
        place = place_in_frame(spark, found, {item.known.uri for item in tables})
        if place is not None:
            raise TableError(
                f"The query reads {place!r}, a transactional table, which Spark cannot read by itself: "
                "make a view of hx.table(...).scan().to_spark(spark), and query that"
            )
    return found


def make_frames(
    tables: Sequence[PlannedTable], frame: Callable[[PlannedTable], DataFrame]
) -> list[DataFrame | None]:
    """Make the frames of the tables that are read here; None for those that Spark reads."""
    return [None if item.scan is None else frame(item) for item in tables]


def submit(
    spark: SparkSession,
    query: Query,
    frames: Sequence[DataFrame | None],
    names: Sequence[str | None] | None = None,
    *,
    args: Args | None = None,
    head: str | None = None,
) -> DataFrame:
    """Give Spark a query with frames in place of tables.

    :param names: what the other tables are called, if not as written; see :meth:`Query.with_tables`.
    :param args: the values of the statement's parameters.
    :param head: the beginning of a statement that writes the query's rows, which Spark then carries out.
    :raises PySparkException: if Spark refuses it.
    """
    named = {f"hindex_{at}": frame for at, frame in enumerate(frames) if frame is not None}
    others = names or [None] * len(frames)
    if named:
        others = [None if other is None else as_literal(other) for other in others]
    with_frames = [
        other if frame is None else f"{{hindex_{at}}}"
        for at, (frame, other) in enumerate(zip(frames, others, strict=True))
    ]
    # a DataFrame in braces becomes a view that is there for as long as the text is analysed
    text = query.with_tables(with_frames, is_format=bool(named), head=head)
    return spark_sql(spark)(text, args, **named)


def spark_sql(spark: SparkSession) -> Callable[..., DataFrame]:
    """Return the session's own ``sql``, where ``hindex.accelerate`` has put another one in its place."""
    own: Callable[..., DataFrame] = getattr(spark.sql, SPARK_SQL, spark.sql)
    return own


def warn_of_indexes(tables: Sequence[PlannedTable]) -> None:
    """Log the indexes that exist and could not be used: those of changed files, damaged ones and so on."""
    for item in tables:
        notes = group_notes(note for note in item.notes if note.reason.is_problem)
        if notes:
            _LOG.warning("index not used on %s: %s", item.decision.table, "; ".join(map(str, notes)))


def log_tables(text: str, tables: Sequence[PlannedTable], cause: str | None = None) -> None:
    """Log how the tables of a query are read, in one line, and why hindex does not answer it by itself."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    parts = []
    for item in tables:
        if item.scan is None:
            parts.append(f"{item.decision.table} by Spark: {item.decision.reason}")
        else:
            through = ", ".join(item.indexes) or "its row keys"
            rows = "" if item.decision.rows is None else f", about {item.decision.rows} rows"
            parts.append(f"{item.decision.table} through {through}{rows}")
    is_accelerated = any(item.scan is not None for item in tables)
    prefix = "accelerated" if is_accelerated else "not accelerated"
    if cause is not None:
        prefix = f"run by Spark: {cause}: {prefix}"
    _LOG.info("%s: %s | %s", prefix, "; ".join(parts), shorten(text))


def shorten(text: object) -> str:
    """Return the beginning of a query in one line."""
    return textwrap.shorten(str(text), _SHOWN, placeholder=" ...")


def _of_other_paths(spark: SparkSession, query: Query) -> str | None:
    """Return Spark's message about a query that it cannot parse for reasons other than quoted paths, or None."""
    from pyspark.errors import PySparkException

    query = query.by_words()
    names = [f"orc.{quoted(table.ref.text)}" for table in query.tables]
    try:
        found = spark_sql(spark)(query.with_tables(names), query.args)
        if java_session(spark) is None:
            found.schema  # noqa: B018
    except PySparkException as error:
        return _told(error, query, names) if error.getCondition() == _NOT_PARSED else None
    return None


def _told(error: PySparkException, query: Query, names: Sequence[str | None]) -> str:
    """Return Spark's message about a query, with the user's names in place of substituted ones."""
    told = first_line(error) + _in_quotes(error)
    place = _PLACE.search(told)
    if place is None:
        return told
    lines = query.with_tables(names).split("\n")[: int(place[1]) - 1]
    at = query.place(sum(len(line) + 1 for line in lines) + int(place[2]), names)
    if at == len(query.text):
        told = told.replace("at or near ')'", "at or near end of input")
    before = query.text[:at].split("\n")
    return _PLACE.sub(f"(line {len(before)}, pos {len(before[-1])})", told)


def _in_quotes(error: PySparkException) -> str:
    """A remark where a table that Spark does not have is a path."""
    if error.getCondition() not in MISSING:
        return ""
    name = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
    return f" Quote the path: FROM {quote_string(name)}" if is_path(name) else ""


def _is_of_limit(condition: str, told: Mapping[str, str], text: str) -> bool:
    """Return True if Spark rejects the expression after LIMIT, which is not a constant number."""
    name = re.escape(told.get("objectName", "").strip("`"))
    is_name = condition.startswith("UNRESOLVED_COLUMN") and bool(name)
    return condition.startswith("INVALID_LIMIT_LIKE_EXPRESSION") or (
        is_name and re.search(rf"\bLIMIT\s+`?{name}\b", text, re.IGNORECASE) is not None
    )
