"""A Spark session whose tables are read through their indexes where that leaves few rows.

In a classic session, hindex is a rule of Spark's optimizer: everything that makes a plan profits. A client of Spark
Connect cannot reach the optimizer, so there the texts of ``spark.sql`` are read: Spark runs the user's own text,
unchanged and once, or the text with rows in place of tables, if that has the same schema.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hindex.api.index import Index
from hindex.api.index_statements import IndexResult, indexes_table, run_index_statement
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    HindexError,
    StatementError,
    TableError,
    UnsupportedError,
)
from hindex.queries.query_execution import SPARK_SQL, log_tables, run_planned, shorten
from hindex.queries.query_plan import PlannedTable, plan_query
from hindex.spark.jobs import first_line
from hindex.spark.session import java_session
from hindex.validation import check_keywords, check_session

if TYPE_CHECKING:
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hindex.api.connection import Connection
    from hindex.queries.decisions import QueryExplanation
    from hindex.queries.plan_rule import PlanRule
    from hindex.sql.parameters import Args
    from hindex.sql.queries import Query

_LOG = logging.getLogger("hindex.queries")

#: The beginning of a query.
_BLANKS = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_QUERY = re.compile(rf"{_BLANKS}(?:SELECT|WITH|FROM)\b|{_BLANKS}\(", re.IGNORECASE | re.DOTALL)
_MISSING = object()


@check_keywords
def accelerate(
    spark: SparkSession, store: str | os.PathLike[str] | None = None, *, always: bool = False
) -> Acceleration:
    """Read the tables of a session through their indexes where that leaves few rows.

    In a classic session, that holds for every plan: ``spark.sql``, ``spark.table`` and ``spark.read.orc``, DataFrames
    and views, whatever action or write they end in. Over Spark Connect it holds for the queries of ``spark.sql`` of
    this session object. Rows and schema are Spark's. ``spark.sql`` also runs statements about indexes
    (``CREATE INDEX ...``, ``SHOW INDEXES``). Sessions made by ``spark.newSession()`` do not change.

    Args:
        store: the store of the indexes; beside the tables if None, or as ``HINDEX_STORE`` says.
        always: use every usable index, however many rows are left and whatever it costs: for tests and diagnosis.
            Spark Connect ignores it.

    Returns:
        a handle whose `Acceleration.stop`, or the end of its ``with`` block, ends it. Accelerating a session twice
        returns the same handle.

    Raises:
        ArgumentTypeError: for another object than a Spark session.
        ArgumentError: if the session is accelerated with another store.
        UnsupportedError: for a version of Spark whose optimizer takes no rules.
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
    return Acceleration(connection, always=always)


def explain(frame: DataFrame) -> QueryExplanation:
    """Explain how an accelerated session reads the tables of a DataFrame, and why.

    That plans the query: it computes the small sides of lookup joins, and compares the rows of row groups.

    A session that is accelerated with a store is explained with that store; see `hindex.Connection.explain`.

    Raises:
        ArgumentTypeError: for another object than a DataFrame of Spark.
        UnsupportedError: over Spark Connect, where Spark's plan is not in reach.
    """
    from hindex.api.connection import connect

    spark = getattr(frame, "sparkSession", None)
    if spark is None:
        raise ArgumentTypeError(f"df is {frame!r}: pass a DataFrame of Spark")
    running = getattr(vars(spark).get("sql"), _HANDLE, None)
    connection = connect(spark=spark) if running is None else running
    return connection.explain(frame)


_HANDLE = "__hindex_acceleration__"


class Acceleration:
    """An accelerated session. Make one with `hindex.accelerate`."""

    def __init__(self, connection: Connection, *, always: bool = False) -> None:
        self._connection = connection
        self._rule: PlanRule | None = None
        if java_session(connection.spark()) is not None:
            self._rule = connection.plan_rule()
            self._rule.rewriter.always = always
            self._rule.turn(True)
        self._sql = _SessionSql(connection.spark(), self._run, self)

    @property
    def store(self) -> str | None:
        """Return the store of the indexes; None if they are beside the tables."""
        return self._connection.store

    def stop(self) -> None:
        """End the acceleration; a second call does nothing."""
        if self._rule is not None and not self._sql.is_restored:
            self._rule.turn(False)
        self._sql.restore()

    def summary(self) -> str:
        """Return how many tables of plans were read through which index, and why Spark read others alone.

        Raises:
            UnsupportedError: over Spark Connect.
        """
        if self._rule is None:
            raise UnsupportedError(
                "there is no summary over Spark Connect: the log has a line for each query"
            )
        return self._rule.rewriter.summary()

    def explain(self, frame: DataFrame) -> QueryExplanation:
        """Explain how the tables of a DataFrame are read, see `hindex.Connection.explain`."""
        return self._connection.explain(frame)

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
        return (
            f"<Acceleration{' (stopped)' if self._sql.is_restored else ''} of {self._connection.spark()!r}>"
        )

    def _run(self, text: str, args: Args | None, original: Callable[..., DataFrame]) -> DataFrame:
        """Run a query or a statement of the session.

        Args:
            original: the session's own ``sql``.
        """
        from pyspark.errors import PySparkException

        from hindex.sql import parse_index_statement
        from hindex.sql.queries import parse_query

        if _QUERY.match(text) and self._rule is not None:
            return original(text, args)
        if _QUERY.match(text):
            try:
                query = parse_query(text, args)
            except StatementError:
                query = None
            return (
                original(text, args)
                if query is None
                else self._run_query(query, lambda: original(text, args))
            )
        try:
            statement = parse_index_statement(text)
        except StatementError as problem:
            # it may be about the indexes of another catalog
            try:
                return original(text, args)
            except PySparkException as error:
                raise problem from error
        if statement is None:
            return original(text, args)
        return self._rows(run_index_statement(self._connection, statement))

    def _run_query(self, query: Query, run_original: Callable[[], DataFrame]) -> DataFrame:
        """Run a query with tables read through their indexes, or as the user wrote it."""
        text = query.text
        try:
            planned = plan_query(self._connection, query, trust_catalog=True)
        except Exception as error:  # noqa: BLE001 Spark answers whatever fails here
            _log_fallback(text, error)
            return run_original()
        # Spark's own error, or its schema; after the plan, so that its list of files is not the older one
        original = run_original()
        if not planned and query.problem is not None:
            _LOG.info("not accelerated: %s | %s", query.problem, shorten(text))
        try:
            frame = original
            if any(item.scan is not None for item in planned):
                frame = self._through_indexes(query, planned, original)
        except Exception as error:  # noqa: BLE001 Spark answers whatever fails here
            _log_fallback(text, error)
            return original
        if planned:
            log_tables(text, planned)
        return frame

    def _through_indexes(
        self, query: Query, planned: Sequence[PlannedTable], original: DataFrame
    ) -> DataFrame:
        """Return a query's rows, with tables read through their indexes.

        Raises:
            TableError: if it may differ from the original.
        """
        frame = run_planned(self._connection, query, planned, [None] * len(planned))
        if frame.schema.jsonValue() != original.schema.jsonValue():
            raise TableError("its columns would differ from Spark's")
        return frame

    def _rows(self, result: IndexResult) -> DataFrame:
        """Return the result of a statement about indexes as a DataFrame."""
        from pyspark.sql.pandas.types import from_arrow_schema

        table = _arrow(result)
        schema = from_arrow_schema(table.schema)
        if not table.num_rows:
            return self._connection.spark().createDataFrame([], schema)
        return self._connection.spark().createDataFrame(table, schema)


class _SessionSql:
    """The replacement of a session object's ``sql``.

    Args:
        run: runs a text with its args; the last argument is the session's own ``sql``.
        handle: the acceleration that it belongs to.
    """

    def __init__(
        self,
        spark: SparkSession,
        run: Callable[[str, Args | None, Callable[..., DataFrame]], DataFrame],
        handle: Acceleration,
    ) -> None:
        self._spark = spark
        self._run = run
        self._previous = vars(spark).get("sql", _MISSING)
        self._original: Callable[..., DataFrame] = spark.sql
        self._state = threading.local()
        self.is_restored = False

        @functools.wraps(self._original)
        def sql(
            sqlQuery: str,  # noqa: N803 as PySpark has it
            args: dict[str, Any] | list[Any] | None = None,
            **kwargs: Any,  # noqa: ANN401
        ) -> DataFrame:
            return self._call(sqlQuery, args, kwargs)

        setattr(sql, _HANDLE, handle)
        setattr(sql, SPARK_SQL, self._original)
        self._replacement = sql
        vars(spark)["sql"] = sql

    def restore(self) -> None:
        """Restore the previous ``sql``, unless it has been replaced again; a second call does nothing."""
        self.is_restored = True
        if vars(self._spark).get("sql") is not self._replacement:
            return
        if self._previous is _MISSING:
            del vars(self._spark)["sql"]
        else:
            vars(self._spark)["sql"] = self._previous

    def _call(self, text: Any, args: Args | None, kwargs: Mapping[str, Any]) -> DataFrame:  # noqa: ANN401
        is_inside = getattr(self._state, "is_inside", False)
        # Spark reports args of a wrong type
        is_plain = isinstance(text, str) and (args is None or isinstance(args, dict | list))
        if self.is_restored or is_inside or kwargs or not is_plain:
            return self._original(text, args, **kwargs)
        # statements that hindex itself submits
        self._state.is_inside = True
        try:
            return self._run(text, args, self._original)
        finally:
            self._state.is_inside = False


def _arrow(result: IndexResult) -> pa.Table:
    if isinstance(result, Index):
        return indexes_table([result])
    return getattr(result, "to_arrow", lambda: result)()


def _log_fallback(text: str, error: Exception) -> None:
    """Log the reason why Spark runs a query without indexes."""
    from pyspark.errors import PySparkException

    if isinstance(error, HindexError):
        _LOG.info("not accelerated: %s | %s", error, shorten(text))
    elif isinstance(error, PySparkException):
        _LOG.info("not accelerated: %s | %s", first_line(error), shorten(text))
    else:
        _LOG.warning("not accelerated: hindex failed | %s", shorten(text), exc_info=error)
