"""``spark.sql`` of a session, with tables read through their indexes where that leaves few rows.

There is one fallback: Spark runs the user's own text, unchanged and once. A query uses indexes only if Spark has
analysed the original text, and the rewritten query has the same schema.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from hindex.api.index import Index
from hindex.api.index_statements import IndexResult, indexes_table, run_index_statement
from hindex.errors import ArgumentError, HindexError, StatementError
from hindex.maintain.results import CheckResult, records_table
from hindex.queries.query_execution import (
    SPARK_SQL,
    implied_subqueries,
    log_tables,
    make_frames,
    shorten,
    submit,
    warn_about_unused_indexes,
)
from hindex.queries.query_plan import PlannedTable, plan_query
from hindex.queries.table_resolution import CachingResolver, QueryTableState
from hindex.queries.view_expansion import ExpandedQuery, expand_views, expansion_difference
from hindex.spark.catalog import describe_for_query, location_uri
from hindex.spark.compatibility import is_set
from hindex.spark.jobs import first_line
from hindex.spark.locations import read_locations, table_locations
from hindex.spark.session import java_session
from hindex.validation import check_session
from hindex.value_class import value_class

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hindex.api.connection import Connection
    from hindex.sql.parameters import Args
    from hindex.sql.queries import Query
    from hindex.sql.writes import WriteStatement

_LOG = logging.getLogger("hindex.queries")

#: The beginning of a query, and of a statement that may write the rows of one.
_BLANKS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_QUERY = re.compile(rf"{_BLANKS}(?:SELECT|WITH|FROM)\b|{_BLANKS}\(", re.IGNORECASE | re.DOTALL)
_WRITE = re.compile(rf"{_BLANKS}(?:INSERT\b|CREATE\s+(?:EXTERNAL\s+)?TABLE\b)", re.IGNORECASE | re.DOTALL)
#: The setting with which CREATE TABLE ... AS may write into a directory that has files.
_WRITES_OVER_FILES = "spark.sql.legacy.allowNonEmptyLocationInCTAS"
_MISSING = object()


class NotAcceleratedError(Exception):
    """Spark runs a query without indexes; the message is the reason."""


def accelerate(spark: SparkSession, store: str | os.PathLike[str] | None = None) -> Acceleration:
    """Read the tables of ``spark.sql`` through their indexes, in this session object.

    From then on ``spark.sql(sqlQuery, args=None, **kwargs)`` reads tables through indexes where these leave few rows,
    and returns a DataFrame with Spark's rows and schema. It also runs statements about indexes (``CREATE INDEX ...``,
    ``SHOW INDEXES``). Rows that are read through indexes are those at the call, not at an action on the DataFrame.
    ``spark.table(...)``, ``spark.read`` and sessions made by ``spark.newSession()`` do not change.

    Args:
        store: the store of the indexes; beside the tables if None, or as ``HINDEX_STORE`` says.

    Returns:
        a handle whose `Acceleration.stop`, or the end of its ``with`` block, restores ``spark.sql``. Accelerating a
        session twice returns the same handle.

    Raises:
        ArgumentTypeError: for another object than a Spark session.
        ArgumentError: if the session is accelerated with another store.
    """
    from hindex.api.connection import connect

    check_session(spark)
    connection = connect(store, spark)
    running = getattr(vars(spark).get("sql"), _HANDLE, None)
    if isinstance(running, Acceleration):
        if running.store != connection.store:
            raise ArgumentError(
                f"The session is accelerated with the store {running.store!r}: stop() that acceleration first"
            )
        return running
    _LOG.info(
        "spark.sql(...) of this session reads tables through indexes from now on; spark.table(...).where(...) and "
        "spark.read.orc(...) do not: use spark.sql(...) or hx.table(...).scan(where=...).to_spark(spark)"
    )
    return Acceleration(connection)


_HANDLE = "__hindex_acceleration__"


@value_class
class _Plan:
    """The planned tables of a query whose views are expanded."""

    query: Query
    tables: list[PlannedTable]
    expanded: ExpandedQuery

    @property
    def is_accelerated(self) -> bool:
        """True if a table is read through its indexes."""
        return any(item.scan is not None for item in self.tables)


class Acceleration:
    """An accelerated session. Make one with `hindex.accelerate`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._spark = connection.spark()
        self._resolver = CachingResolver(connection)
        self._previous = vars(self._spark).get("sql", _MISSING)
        self._original: Callable[..., DataFrame] = self._spark.sql
        self._state = threading.local()
        self._is_stopped = False

        @functools.wraps(self._original)
        def sql(
            sqlQuery: str,  # noqa: N803 as PySpark has it
            args: dict[str, Any] | list[Any] | None = None,
            **kwargs: Any,  # noqa: ANN401
        ) -> DataFrame:
            return self._sql(sqlQuery, args, kwargs)

        setattr(sql, _HANDLE, self)
        setattr(sql, SPARK_SQL, self._original)
        self._replacement = sql
        vars(self._spark)["sql"] = sql

    @property
    def store(self) -> str | None:
        """Return the store of the indexes; None if they are beside the tables."""
        return self._connection.store

    def stop(self) -> None:
        """Restore ``spark.sql``; a second call does nothing."""
        self._is_stopped = True
        if vars(self._spark).get("sql") is not self._replacement:
            return
        if self._previous is _MISSING:
            del vars(self._spark)["sql"]
        else:
            vars(self._spark)["sql"] = self._previous

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Acceleration{' (stopped)' if self._is_stopped else ''} of {self._spark!r}>"

    def _sql(self, text: str, args: Args | None, kwargs: Mapping[str, Any]) -> DataFrame:
        is_inside = getattr(self._state, "is_inside", False)
        if self._is_stopped or is_inside or kwargs or not isinstance(text, str):
            if kwargs and not is_inside:
                _LOG.info("not accelerated: the query is given objects for its braces | %s", shorten(text))
            return self._original(text, args, **kwargs)
        # statements that hindex itself submits
        self._state.is_inside = True
        try:
            return self._run(text, args)
        finally:
            self._state.is_inside = False

    def _run(self, text: str, args: Args | None) -> DataFrame:
        from hindex.sql import parse_index_statement
        from hindex.sql.queries import parse_query
        from hindex.sql.writes import parse_write

        if args is not None and not isinstance(args, dict | list):
            return self._original(text, args)  # Spark reports the wrong type
        if _QUERY.match(text):
            try:
                query = parse_query(text, args)
            except StatementError:
                query = None
            return self._original(text, args) if query is None else self._run_query(text, query, args)
        # the statement may change the tables of names
        self._resolver.clear()
        if _WRITE.match(text):
            write = parse_write(text, args)
            if write is not None:
                return self._run_write(text, write, args)
            _LOG.info(
                "not accelerated: only INSERT ... SELECT and CREATE TABLE ... AS are | %s", shorten(text)
            )
            return self._original(text, args)
        try:
            statement = parse_index_statement(text)
        except StatementError as error:
            return self._run_by_spark(text, args, error)
        if statement is None:
            return self._original(text, args)
        return self._rows(run_index_statement(self._connection, statement))

    def _run_query(self, text: str, query: Query, args: Args | None) -> DataFrame:
        plan = self._plan(text, query)
        # the schema, or Spark's own error, of the query as the user wrote it
        original = self._original(text, args)
        if plan is None:
            return original
        try:
            frames = self._frames(plan, original)
            accelerated = self._checked(plan, frames, original, args)
        except Exception as error:  # noqa: BLE001 Spark answers whatever fails here
            _log_fallback(text, error)
            return original
        log_tables(text, plan.tables)
        return accelerated

    def _run_write(self, text: str, write: WriteStatement, args: Args | None) -> DataFrame:
        """Run a statement that writes a table. Spark runs it once, after all checks were made on its query."""
        query = write.query
        plan = self._plan(text, query)
        # the statement may write a table that was just listed
        self._resolver.clear()
        if plan is None:
            return self._original(text, args)
        try:
            body = self._original(query.with_tables([None] * len(query.tables)), write.query_args)
            self._check_target(write, plan, body)
            frames = self._frames(plan, body)
            self._checked(plan, frames, body, write.query_args)
        except Exception as error:  # noqa: BLE001 nothing is written so far
            _log_fallback(text, error)
            return self._original(text, args)
        log_tables(text, plan.tables)
        implied = implied_subqueries(plan.tables)
        return submit(self._spark, plan.query, frames, implied=implied, args=args, head=write.head)

    def _plan(self, text: str, query: Query) -> _Plan | None:
        """Plan the tables of a query; None if Spark is to read all of them."""
        if not query.tables:
            if query.problem is not None:
                _LOG.info("not accelerated: %s | %s", query.problem, shorten(text))
            return None
        try:
            if any(query.text[table.start] in "'\"" for table in query.tables):
                raise NotAcceleratedError("a table is named by a path in quotes, which Spark does not read")
            started = monotonic()
            plan = self._planned(query)
            # most queries are not accelerated, and need no second look at their tables
            accelerated = [item.state for item in plan.tables if item.scan is not None]
            if accelerated and not self._resolver.is_current(plan.expanded.tables, accelerated, started):
                plan = self._planned(query)
        except Exception as error:  # noqa: BLE001 Spark answers whatever fails here
            _log_fallback(text, error)
            return None
        warn_about_unused_indexes(plan.tables)
        if plan.is_accelerated:
            return plan
        log_tables(text, plan.tables)
        return None

    def _planned(self, query: Query) -> _Plan:
        expanded = expand_views(self._resolver, query, trust_catalog=True)
        return _Plan(expanded.query, plan_query(self._resolver, expanded.query, expanded.tables), expanded)

    def _frames(self, plan: _Plan, original: DataFrame) -> list[DataFrame | None]:
        """Make the frames that replace tables, after the last checks.

        Raises:
            NotAcceleratedError: if a check fails.
        """
        original.schema  # noqa: B018 has Spark Connect analyse the text
        difference = expansion_difference(self._spark, plan.expanded, self._original)
        if difference is not None:
            raise NotAcceleratedError(difference)
        self._check_caches(plan.tables)
        self._check_views(plan.tables)
        return make_frames(
            plan.query,
            plan.tables,
            lambda item: item.frame(self._spark, plan.query),
            implied_subqueries(plan.tables),
        )

    def _checked(
        self,
        plan: _Plan,
        frames: Sequence[DataFrame | None],
        original: DataFrame,
        args: Args | None,
    ) -> DataFrame:
        """Return the query with frames in place of tables.

        Raises:
            NotAcceleratedError: if its schema differs.
        """
        frame = submit(self._spark, plan.query, frames, implied=implied_subqueries(plan.tables), args=args)
        if frame.schema.jsonValue() != original.schema.jsonValue():
            raise NotAcceleratedError("its columns would differ from Spark's")
        return frame

    def _check_caches(self, tables: Sequence[PlannedTable]) -> None:
        """Reject a query of a table that Spark has cached: its rows may be older than the files."""
        session = java_session(self._spark)
        if session is not None and session.sharedState().cacheManager().isEmpty():
            return  # one call instead of an analysis of each table
        for item in tables:
            is_named = item.scan is not None and item.state.description is not None
            if is_named and self._spark.catalog.isCached(item.state.name):
                raise NotAcceleratedError(f"Spark has cached table {item.state.name}")

    def _check_views(self, tables: Sequence[PlannedTable]) -> None:
        """Reject a query in which a view may read another state of a table that is read through indexes."""
        read_here = {item.state.uri for item in tables if item.scan is not None}
        for item in tables:
            if item.scan is not None or item.state.uri is not None or not _is_view(item.state):
                continue
            if java_session(self._spark) is None:
                raise NotAcceleratedError(f"Spark Connect does not show what view {item.state.name} reads")
            locations = read_locations(self._spark, self._spark.table(item.state.name))
            if locations is None or any(
                overlap(location, uri) for location in locations for uri in read_here if uri
            ):
                raise NotAcceleratedError(
                    f"view {item.state.name} may read the same table, in an earlier state"
                )

    def _check_target(self, write: WriteStatement, plan: _Plan, body: DataFrame) -> None:
        """Reject a statement that may write a table that it reads.

        Raises:
            NotAcceleratedError: with the reason.
        """
        name = str(write.target)
        if write.is_create:
            if is_set(self._spark, _WRITES_OVER_FILES, False):
                raise NotAcceleratedError(f"the session has {_WRITES_OVER_FILES}")
            if write.location is None:
                return  # Spark requires an empty directory
            if not re.match(r"/|[A-Za-z][\w+.-]*:/", write.location):
                raise NotAcceleratedError(f"the location {write.location!r} is relative")
            written = {location_uri(write.location)}
        else:
            written = table_locations(self._spark, name, describe_for_query(self._spark, name)) or set()
            if not written:
                raise NotAcceleratedError(f"the location of {name} is not known")
        read = self._read_locations(plan.query, plan.tables, body)
        if read is None:
            raise NotAcceleratedError("the locations of all that it reads are not known")
        if any(overlap(one, other) for one in written for other in read):
            raise NotAcceleratedError(f"it writes {name}, which it also reads")

    def _read_locations(
        self, query: Query, tables: Sequence[PlannedTable], body: DataFrame
    ) -> set[str] | None:
        """Return the locations of all tables that a query reads; None if they are not certain."""
        read: set[str] = set()
        for item in tables:
            if item.scan is not None:
                files = item.state.snapshot.files
                read |= {item.state.table.uri, *(view.file.uri.rpartition("/")[0] for view in files)}
        if java_session(self._spark) is not None:
            locations = read_locations(self._spark, body)
            return None if locations is None else read | locations
        if query.has_other_functions:
            return None  # SQL functions may read tables
        for item in tables:
            if item.state.is_path:
                read.add(item.state.table.uri)
                continue
            description = item.state.description
            locations = (
                None if description is None else table_locations(self._spark, item.state.name, description)
            )
            if locations is None:
                return None
            read |= locations
        return read

    def _run_by_spark(self, text: str, args: Args | None, problem: StatementError) -> DataFrame:
        """Run a statement about indexes that hindex cannot parse: it may be about those of another catalog."""
        from pyspark.errors import PySparkException

        try:
            return self._original(text, args)
        except PySparkException as error:
            raise problem from error

    def _rows(self, result: IndexResult) -> DataFrame:
        """Return the result of a statement about indexes as a DataFrame."""
        from pyspark.sql.pandas.types import from_arrow_schema

        table = _arrow(result)
        schema = from_arrow_schema(table.schema)
        if not table.num_rows:
            return self._spark.createDataFrame([], schema)
        return self._spark.createDataFrame(table, schema)


def overlap(one: str, other: str) -> bool:
    """Return True if one location is the other, or within it."""
    shorter, longer = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return longer.startswith(shorter)


def _arrow(result: IndexResult) -> pa.Table:
    if isinstance(result, Index):
        return indexes_table([result])
    if isinstance(result, list):
        return records_table(CheckResult, result)
    return getattr(result, "to_arrow", lambda: result)()


def _is_view(state: QueryTableState) -> bool:
    return state.description is None or str(state.description.get("type", "")).upper() == "VIEW"


def _log_fallback(text: str, error: Exception) -> None:
    """Log the reason why Spark runs a query without indexes."""
    from pyspark.errors import PySparkException

    if isinstance(error, NotAcceleratedError | HindexError):
        _LOG.info("not accelerated: %s | %s", error, shorten(text))
    elif isinstance(error, PySparkException):
        _LOG.info("not accelerated: %s | %s", first_line(error), shorten(text))
    else:
        _LOG.warning("not accelerated: hindex failed | %s", shorten(text), exc_info=error)
