"""Read tables from Spark's catalog."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hindex.errors import NotOrcError, StoreError, TableError, UnknownTableError
from hindex.spark.jobs import first_line
from hindex.spark.session import as_active, java_session
from hindex.spark.types import quoted
from hindex.sql.predicate import quote_string
from hindex.sql.statements import TableRef
from hindex.sql.words import WITH_SPARK
from hindex.store.definitions import MAX_LENGTH, PREFIX, decode_definition, encode_definition
from hindex.store.manifest import IndexEntry
from hindex.store.storage import is_missing
from hindex.store.store import Store
from hindex.table.location import normalize_uri, suggest_path
from hindex.validation import suggestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

#: Name of the session's own catalog, which has a Java interface.
_SESSION_CATALOG = "spark_catalog"
#: Spark's error conditions for a missing table.
MISSING = frozenset({"SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"})

#: Maximum number of databases in which a missing table is looked up, and of those that the error names.
_MAX_DATABASES, _MAX_SHOWN = 50, 3


def describe_table(spark: SparkSession, name: str) -> dict[str, Any]:
    """Return the catalog's description of a table: location, provider, columns and so on.

    Args:
        name: name in SQL, with dots and backquotes.

    Raises:
        TableError: if there is no such table, or Spark cannot describe it.
    """
    description: dict[str, Any] = json.loads(run(spark, name, _statement(name)).collect()[0][0])
    return description


def describe_for_query(spark: SparkSession, name: str) -> dict[str, Any]:
    """Return the catalog's description of a table, for a query that Spark analyses before rows are read.

    In a classic session this runs no statement: listeners do not see it, nor do rules of the optimizer, such as
    authorizers. Spark's analysis of the query is the check of permissions.
    """
    text = _run_command(spark, _statement(name))
    if text is None:
        return describe_table(spark, name)
    description: dict[str, Any] = json.loads(text)
    return description


def _statement(name: str) -> str:
    return f"DESCRIBE TABLE EXTENDED {name} AS JSON"


def _run_command(spark: SparkSession, statement: str) -> str | None:
    """Return the string result of a statement, by running its analysed command on the Java side.

    This takes a third of the time of ``spark.sql``, which also calls listeners and optimizer rules and transfers rows.
    None over Spark Connect, for Spark versions with other internals, and if Spark rejects the statement: ``spark.sql``
    then raises the error.
    """
    session = java_session(spark)
    if session is None:
        return None
    # a client of Spark Connect may lack py4j
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        # parsing and running use the settings of the thread's active session, which may be another
        with as_active(spark):
            state = session.sessionState()
            execution = state.executePlan(
                state.sqlParser().parsePlan(statement), getattr(state, "executePlan$default$2")()
            )
            return str(execution.analyzed().run(session).head().getString(0))
    except (Py4JError, PySparkException):
        return None


def call_session_catalog(
    spark: SparkSession, description: Mapping[str, Any], call: Callable[[Any, Any], T]
) -> T | None:
    """Call the Java interface of the session's catalog for a table, without a statement.

    Args:
        description: the catalog's description of the table.
        call: takes the catalog and the table's identifier, and makes as few Java calls as possible.

    Returns:
        the result of ``call``; None over Spark Connect, for other catalogs, for Spark versions with other internals,
        and if the call fails: a statement then returns the answer, or raises the error.
    """
    session = java_session(spark)
    if session is None or description.get("catalog_name") != _SESSION_CATALOG:
        return None
    # a client of Spark Connect may lack py4j
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        state = session.sessionState()
        name = ".".join(quoted(str(description[part])) for part in ("schema_name", "table_name"))
        return call(state.catalog(), state.sqlParser().parseTableIdentifier(name))
    except (Py4JError, PySparkException):
        return None


def described_columns(description: Mapping[str, Any]) -> list[str]:
    """Return the names of a description's columns, partition columns last."""
    return [str(column["name"]) for column in description["columns"]]


def indexed_tables(spark: SparkSession, database: TableRef | None, store: str | None) -> list[str]:
    """Return the full names of the tables of a database that may have indexes, by one statement.

    Args:
        database: the current one if None.
        store: the store of the indexes; None if they are beside the tables.

    Raises:
        TableError: if there is no such database, or Spark cannot list it.
    """
    from pyspark.errors import PySparkException

    place = "" if database is None else f" IN {database}"
    try:
        rows = spark.sql(f"SHOW TABLE EXTENDED{place} LIKE '*'").collect()
    except PySparkException as error:
        if database is not None and error.getCondition() in MISSING:
            names = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
            raise UnknownTableError(
                f"Database {database.text!r} does not exist: {suggestion(database.text, names)}"
                f"Spark's catalog has {', '.join(names)}"
            ) from error
        raise TableError(f"the tables{place} cannot be listed: {first_line(error)}") from error
    qualifier = () if database is None else database.parts
    return [
        str(TableRef.name(*qualifier, row.tableName))
        for row in rows
        if not row.isTemporary and _may_have_indexes(row.information, store)
    ]


def _may_have_indexes(information: str, store: str | None) -> bool:
    """Return True if a table has a store of indexes, or their definitions.

    Args:
        information: the lines of SHOW TABLE EXTENDED.
    """
    if PREFIX in information:
        return True
    locations = re.findall(r"^Location: (.+)$", information, re.MULTILINE)
    return any(not is_missing(Store.for_table(location_uri(uri), store).root) for uri in locations)


def full_name(description: Mapping[str, Any]) -> str | None:
    """Return a table's name in SQL with catalog and database; None if the description lacks a part."""
    namespace = description.get("namespace") or ()
    parts = [description.get("catalog_name"), *namespace, description.get("table_name")]
    return ".".join(quoted(str(part)) for part in parts) if all(parts) and len(parts) > 2 else None


def location_uri(location: str) -> str:
    """Return the normalized URI of a described location, in which nothing is percent-encoded, even after ``file:``."""
    return normalize_uri(re.sub("^file:/*", "/", location))


def is_path(name: str) -> bool:
    """Return True if a name that is missing in the catalog is a local path."""
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # too long for a path, or with a null character
        return False


def quoting_hint(name: str) -> str:
    """Return a hint to quote a path in place of a missing table: the name itself, or a similar path."""
    if is_path(name):
        return f"Quote the path: FROM {quote_string(name)}"
    similar = suggest_path(name)
    if similar is not None:
        return f"Did you mean the path {quote_string(similar)}? Quote it"
    return "Quote a path: FROM 'data/users'"


def wrong_format_error(name: str, file_format: str) -> NotOrcError:
    """Return the error for a path in Spark's notation with another format than ORC."""
    return NotOrcError(
        f"Table {name!r} is invalid: hindex reads tables of ORC files, and this names {file_format} files. {WITH_SPARK}"
    )


def run(spark: SparkSession, name: str, statement: str) -> DataFrame:
    """Run a statement about a table. Spark runs it at once; collecting its rows is another job.

    Args:
        name: name of the table, for messages.

    Raises:
        TableError: if Spark rejects it.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.sql(statement)
    except PySparkException as error:
        if error.getCondition() in MISSING:
            hint = _other_databases_hint(spark, name)
            message = f"Table {name!r} is invalid: Spark's catalog has no such table"
            remedy = f".{hint}" if hint else f". {quoting_hint(name.replace('`', ''))}"
            unknown = UnknownTableError(message + remedy)
            unknown.hint = hint
            raise unknown from error
        raise TableError(f"Table {name!r} is invalid: {first_line(error)}") from error


def _other_databases_hint(spark: SparkSession, name: str) -> str:
    """Return a hint if other databases have a table of a plain name."""
    from pyspark.errors import PySparkException

    plain = name.strip("`")
    if not plain.isidentifier():
        return ""
    try:
        databases = [row[0] for row in spark.sql("SHOW DATABASES").take(_MAX_DATABASES)]
        candidates = [str(TableRef.name(database, plain)) for database in databases]
        existing = [candidate for candidate in candidates if spark.catalog.tableExists(candidate)]
    except PySparkException:
        return ""  # the catalog may list no databases
    return f" Did you mean {' or '.join(existing[:_MAX_SHOWN])}?" if existing else ""


_LOG = logging.getLogger("hindex")


class CatalogDefinitions:
    """Index definitions in the properties of a table, see `hindex.store.definitions.Definitions`.

    Args:
        name: name of the table in SQL.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        self._too_long: set[str] = set()

    def read(self) -> tuple[IndexEntry, ...]:
        try:
            rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").collect()
        except Exception as error:  # noqa: BLE001 catalogs raise errors of their own, and the store works without them
            _LOG.warning("cannot read the index definitions of %s: %s", self._name, first_line(error))
            return ()
        definitions = []
        for key, value in rows:
            if not key.startswith(PREFIX):
                continue
            try:
                definitions.append(decode_definition(key, value))
            except StoreError as error:
                _LOG.warning("%s of %s is ignored", error, self._name)
        return tuple(sorted(definitions, key=lambda entry: (entry.created_ms, entry.name)))

    def write(self, entries: Sequence[IndexEntry], dropped: Sequence[str] = ()) -> bool:
        pairs = []
        for entry in entries:
            value = encode_definition(entry)
            if len(value) > MAX_LENGTH:
                if entry.id not in self._too_long:
                    self._too_long.add(entry.id)
                    self._warn(entry.name, f"it has {len(value):,} characters, of at most {MAX_LENGTH:,}")
                continue
            pairs.append(f"{quote_string(PREFIX + entry.id)} = {quote_string(value)}")
        names = ", ".join(entry.name for entry in entries)
        is_changed = False
        if pairs:
            is_changed = self._alter(names, f"SET TBLPROPERTIES ({', '.join(pairs)})")
        if dropped:
            keys = ", ".join(quote_string(PREFIX + index_id) for index_id in dropped)
            is_changed |= self._alter(names, f"UNSET TBLPROPERTIES IF EXISTS ({keys})")
        return is_changed

    def _alter(self, names: str, change: str) -> bool:
        try:
            self._spark.sql(f"ALTER TABLE {self._name} {change}").collect()
        except Exception as error:  # noqa: BLE001 as above
            self._warn(names, first_line(error))
            return False
        return True

    def _warn(self, names: str, problem: str) -> None:
        _LOG.warning(
            "the catalog does not keep the definition of index %s on %s, so a write that deletes the index with the "
            "table's files deletes it for good: %s",
            names,
            self._name,
            problem,
        )
