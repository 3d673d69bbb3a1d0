"""Views of Spark's catalog in a query, replaced by their texts, so that the tables below them are seen.

A view's text is a query that Spark resolves in the view's own database, by the settings that the session had when the
view was made. Here it becomes a subquery, with the full names of its tables, wherever that certainly means the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hindex.errors import StatementError
from hindex.queries.table_resolution import QueryTableState, TableResolver, resolve_tables
from hindex.spark.types import quoted
from hindex.sql.queries import Query, parse_query
from hindex.sql.statements import TableRef, TableRefKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

#: Views within views that are replaced at most.
_MAX_DEPTH = 8
#: Settings that change how a query is run, and not what it means; Spark does not keep the first ones with a view.
_RUNNING = tuple(
    f"spark.sql.{name}"
    for name in (
        *("optimizer.", "codegen.", "execution.", "shuffle.", "adaptive.", "hive.convertMetastore"),
        *(
            "orc.",
            "files.",
            "catalog.",
            "catalogImplementation",
            "warehouse.",
            "extensions",
            "ui.",
            "artifact.",
        ),
        *("autoBroadcastJoinThreshold", "broadcast", "join.", "cache.", "inMemory", "statistics.", "cbo."),
        *("repl.", "streaming.", "pyspark.", "event.", "defaultSizeInBytes", "queryExecutionListeners"),
    )
)


@dataclass(frozen=True, slots=True)
class ExpandedQuery:
    """A query without the views that could be replaced.

    :ivar tables: what is known of its tables.
    :ivar views: the views that were replaced, by their names as SQL has them: the query in place of each.
    :ivar settings: the settings that these were made with.
    """

    query: Query
    tables: dict[TableRef, QueryTableState]
    views: dict[str, str] = field(default_factory=dict)
    settings: list[Mapping[str, str]] = field(default_factory=list)


def expand_views(resolver: TableResolver, query: Query, **options: bool) -> ExpandedQuery:
    """Replace the views of a query by their texts. :meth:`check_expansion` has to be asked before rows are read.

    :param options: of :func:`resolve_tables`.
    """
    known: dict[TableRef, QueryTableState] = {}
    views: dict[str, str] = {}
    settings: list[Mapping[str, str]] = []
    for _ in range(_MAX_DEPTH):
        refs = [table.ref for table in query.tables]
        known |= resolve_tables(resolver, [ref for ref in refs if ref not in known], **options)
        names: list[str | None] = []
        for table in query.tables:
            item = known[table.ref]
            text = _view_query(item) if table.blocked is None and query.problem is None else None
            names.append(None if text is None else f"({text})")
            if text is not None:
                views[item.name] = text
                settings.append((item.described or {}).get("view_creation_spark_configuration") or {})
        if not any(names):
            break
        try:
            expanded = parse_query(query.with_tables(names, head=""), query.args)
        except StatementError:
            break
        if expanded is None or expanded.problem is not None:
            break
        query = expanded
    else:
        refs = [table.ref for table in query.tables]
        known |= resolve_tables(resolver, [ref for ref in refs if ref not in known], **options)
    return ExpandedQuery(query, known, views, settings)


def expansion_difference(
    spark: SparkSession, expanded: ExpandedQuery, sql: Callable[[str], DataFrame]
) -> str | None:
    """Return why a query may mean something else without its views; None where it does not.

    :param sql: gives Spark a query.
    """
    if not expanded.views:
        return None
    current = {row.key: row.value for row in sql("SET").collect() if row.key.startswith("spark.sql.")}
    meaningful = {key: value for key, value in current.items() if not key.startswith(_RUNNING)}
    for settings in expanded.settings:
        for key in sorted({*meaningful, *(key for key in settings if not key.startswith(_RUNNING))}):
            now = meaningful.get(key) or _setting(spark, key)
            if settings.get(key) != now and (key in settings or spark.conf.isModifiable(key)):
                return f"a view was made while {key} was {settings.get(key)!r}, and it is {now!r}"
    for name, text in expanded.views.items():
        if spark.table(name).schema.jsonValue() != sql(text).schema.jsonValue():
            return f"view {name} declares other columns than its query has"
    return None


def _setting(spark: SparkSession, key: str) -> str | None:
    """Return a setting of the session, or its default; None where Spark does not have it."""
    from pyspark.errors import PySparkException

    try:
        value: str | None = spark.conf.get(key)
        return value
    except PySparkException:
        return None


def _view_query(view: QueryTableState) -> str | None:
    """Return a query that gives what a view gives; None for anything else, and where that is not certain."""
    described = view.described or {}
    text = described.get("view_text")
    namespace = str(described.get("view_catalog_and_namespace") or "").split(".")
    outputs = [str(name) for name in described.get("view_query_output_columns") or ()]
    columns = [str(column["name"]) for column in described.get("columns") or ()]
    is_sure = (
        str(described.get("type", "")).upper() == "VIEW"
        and isinstance(text, str)
        and len(namespace) == 2
        and "`" not in "".join(namespace)
        # temporary views may name others, which have no full name
        and described.get("catalog_name") == namespace[0]
        and described.get("schema_name") != "global_temp"
        # without it, Spark goes by the rules of the version that made the view
        and "spark.sql.ansi.enabled" in (described.get("view_creation_spark_configuration") or {})
        and len(outputs) == len(columns)
        and len({name.lower() for name in outputs}) == len(outputs) > 0
        # with other collations, literals would be others
        and described.get("collation", "UTF8_BINARY") == "UTF8_BINARY"
    )
    if not is_sure:
        return None
    try:
        query = parse_query(str(text))
    except StatementError:
        return None
    # another function of the same name may be the session's
    if query is None or query.is_explain or query.problem is not None or query.has_other_functions:
        return None
    names = [
        None if table.ref.kind is TableRefKind.PATH else _full(table.ref, namespace) for table in query.tables
    ]
    inner = query.with_tables(names)
    listed = ", ".join(
        f"{quoted(output)} AS {quoted(column)}" for output, column in zip(outputs, columns, strict=True)
    )
    return f"SELECT {listed} FROM {inner}"


def _full(ref: TableRef, namespace: list[str]) -> str:
    """Return a table's name with catalog and database, as it is within a view."""
    parts = ref.parts
    missing = namespace[: max(3 - len(parts), 0)]
    return ".".join(quoted(part) for part in (*missing, *parts))
