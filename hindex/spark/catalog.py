"""Read tables from Spark's catalog."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hindex.errors import NotOrcError, TableError, UnknownTableError
from hindex.spark.session import as_active, java_session
from hindex.spark.types import quoted
from hindex.sql.predicate import quote_string
from hindex.sql.words import WITH_SPARK
from hindex.table.location import normalize_uri, suggest_path

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: The catalog of a session whose Java side can be asked about a table.
_SESSION_CATALOG = "spark_catalog"
#: Spark's names for its failure to find a table.
MISSING = frozenset({"SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"})


def describe_table(spark: SparkSession, name: str) -> dict[str, Any]:
    """The catalog's description of a table: location, provider, columns and so on.

    :param name: as SQL has it, with dots and backquotes.
    :raises TableError: if there is no such table, or it cannot be described.
    """
    found: dict[str, Any] = json.loads(run(spark, name, _statement(name)).collect()[0][0])
    return found


def describe_for_query(spark: SparkSession, name: str) -> dict[str, Any]:
    """As :func:`describe_table`, where Spark is asked about the table again before its rows are read.

    With a session in this process that is no statement to Spark: listeners do not see it, nor do rules of the
    optimizer, which authorizers may be.
    """
    text = _value_inside(spark, _statement(name))
    if text is None:
        return describe_table(spark, name)
    found: dict[str, Any] = json.loads(text)
    return found


def _statement(name: str) -> str:
    return f"DESCRIBE TABLE EXTENDED {name} AS JSON"


def _value_inside(spark: SparkSession, statement: str) -> str | None:
    """The text that a statement gives, whose command the Java side runs as it analysed it.

    What Spark does around it, for listeners, rules and rows on their way, takes three times as long as that. None over
    Spark Connect, from a Spark whose inner parts differ, and where the statement is refused: in full, it tells why.
    """
    session = java_session(spark)
    if session is None:
        return None
    # which a client of Spark Connect need not have
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        # parsing and running go by the settings of the thread's active session, which may be another
        with as_active(spark):
            state = session.sessionState()
            execution = state.executePlan(
                state.sqlParser().parsePlan(statement), getattr(state, "executePlan$default$2")()
            )
            return str(execution.analyzed().run(session).head().getString(0))
    except (Py4JError, PySparkException):
        return None


def ask_session_catalog(
    spark: SparkSession, described: Mapping[str, Any], ask: Callable[[Any, Any], T]
) -> T | None:
    """Ask the Java side of a session about a table, without a statement.

    :param described: the catalog's description of the table.
    :param ask: takes the catalog and the table's identifier, and calls as little of them as it can.
    :returns: None over Spark Connect, for other catalogs, for a Spark whose inner parts differ, and where the
        call fails: a statement then has the answer, or the error.
    """
    session = java_session(spark)
    if session is None or described.get("catalog_name") != _SESSION_CATALOG:
        return None
    # which a client of Spark Connect need not have
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        state = session.sessionState()
        name = ".".join(quoted(str(described[part])) for part in ("schema_name", "table_name"))
        return ask(state.catalog(), state.sqlParser().parseTableIdentifier(name))
    except (Py4JError, PySparkException):
        return None


def described_columns(described: Mapping[str, Any]) -> list[str]:
    """The names of a description's columns, partition columns last."""
    return [str(column["name"]) for column in described["columns"]]


def first_line(error: PySparkException) -> str:
    """Return the message of a Spark error without plan and stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def full_name(described: Mapping[str, Any]) -> str | None:
    """A table's name with its catalog and database, as SQL has it; None where the description does not tell."""
    parts = [described.get("catalog_name"), *(described.get("namespace") or ()), described.get("table_name")]
    return ".".join(quoted(str(part)) for part in parts) if all(parts) and len(parts) > 2 else None


def location_uri(location: str) -> str:
    """The normalised place that a description tells: nothing in its text is encoded, not in ``file:`` URIs either."""
    return normalize_uri(re.sub("^file:/*", "/", location))


def is_path(name: str) -> bool:
    """Return True if a name that is missing in the catalog is a local path."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for one, or with what none has
        return False


def in_quotes(name: str) -> str:
    """Return the quoted path to suggest; the path similar to a name, if there is one."""
    if is_path(name):
        return f"Quote the path: FROM {quote_string(name)}"
    near = suggest_path(name)
    if near is not None:
        return f"Did you mean the path {quote_string(near)}? Quote it"
    return "Quote a path: FROM 'data/users'"


def of_other_files(name: str, of: str) -> NotOrcError:
    """The error of a name that is a path of files of another format than ORC, as Spark writes it."""
    return NotOrcError(
        f"Table {name!r} is invalid: hindex reads tables of ORC files, and this names {of} files; {WITH_SPARK}"
    )


def run(spark: SparkSession, name: str, statement: str) -> DataFrame:
    """Run a statement about a table, which Spark carries out at once. To collect its rows is another job of Spark.

    :param name: the table's, for messages.
    :raises TableError: if Spark refuses it.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.sql(statement)
    except PySparkException as error:
        if error.getCondition() in MISSING:
            raise UnknownTableError(
                f"Table {name!r} is invalid: Spark's catalog has no such table. {in_quotes(name.replace('`', ''))}"
            ) from error
        raise TableError(f"Table {name!r} is invalid: {first_line(error)}") from error
