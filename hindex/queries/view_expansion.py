"""Expansion of Spark's views in a query, so that the tables below them can be read through their indexes.

Spark resolves the query of a view in the view's own database, with the session's settings at the time of its creation.
Here it becomes a subquery with the full names of its tables, if that certainly means the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from hindex.errors import StatementError
from hindex.queries.table_resolution import QueryTableState, TableResolver, resolve_tables
from hindex.spark.types import quoted
from hindex.sql.queries import Query, parse_query
from hindex.sql.statements import TableRef, TableRefKind
from hindex.value_class import value_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

#: Maximum depth of views within views that are expanded.
_MAX_DEPTH = 8
#: Settings that change how a query is run, not its meaning; Spark does not keep the first ones with a view.
_EXECUTION_SETTINGS = (
    *("spark.sql.optimizer.", "spark.sql.codegen.", "spark.sql.execution.", "spark.sql.shuffle."),
    *("spark.sql.adaptive.", "spark.sql.hive.convertMetastore", "spark.sql.orc.", "spark.sql.files."),
    *(
        "spark.sql.catalog.",
        "spark.sql.catalogImplementation",
        "spark.sql.warehouse.",
        "spark.sql.extensions",
    ),
    *("spark.sql.ui.", "spark.sql.artifact.", "spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcast"),
    *("spark.sql.join.", "spark.sql.cache.", "spark.sql.inMemory", "spark.sql.statistics.", "spark.sql.cbo."),
    *("spark.sql.repl.", "spark.sql.streaming.", "spark.sql.pyspark.", "spark.sql.event."),
    *("spark.sql.defaultSizeInBytes", "spark.sql.queryExecutionListeners"),
)


@value_class
class ExpandedQuery:
    """A query whose views are replaced by their queries, where possible.

    Args:
        tables: the states of its tables.
        views: the replaced views: the query of each by its name in SQL.
        settings: the settings with which each of these views was created.
    """

    query: Query
    tables: dict[TableRef, QueryTableState]
    views: dict[str, str] = field(default_factory=dict)
    settings: list[Mapping[str, str]] = field(default_factory=list)


def expand_views(resolver: TableResolver, query: Query, **options: bool) -> ExpandedQuery:
    """Replace the views of a query by their queries. Check `expansion_difference` before rows are read.

    Args:
        options: options of `resolve_tables`.
    """
    states: dict[TableRef, QueryTableState] = {}
    views: dict[str, str] = {}
    settings: list[Mapping[str, str]] = []
    for _ in range(_MAX_DEPTH):
        refs = [table.ref for table in query.tables]
        states |= resolve_tables(resolver, [ref for ref in refs if ref not in states], **options)
        names: list[str | None] = []
        for table in query.tables:
            state = states[table.ref]
            text = _view_query(state) if table.blocked is None and query.problem is None else None
            names.append(None if text is None else f"({text})")
            if text is not None:
                views[state.name] = text
                settings.append((state.description or {}).get("view_creation_spark_configuration") or {})
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
        states |= resolve_tables(resolver, [ref for ref in refs if ref not in states], **options)
    return ExpandedQuery(query, states, views, settings)


def expansion_difference(
    spark: SparkSession, expanded: ExpandedQuery, sql: Callable[[str], DataFrame]
) -> str | None:
    """Return why an expanded query may differ in meaning from the original one; None if it does not.

    Args:
        sql: the session's original ``sql``.
    """
    if not expanded.views:
        return None
    current = {row.key: row.value for row in sql("SET").collect() if row.key.startswith("spark.sql.")}
    semantic = {key: value for key, value in current.items() if not key.startswith(_EXECUTION_SETTINGS)}
    for settings in expanded.settings:
        for key in sorted({*semantic, *(key for key in settings if not key.startswith(_EXECUTION_SETTINGS))}):
            value = semantic.get(key) or _setting(spark, key)
            if settings.get(key) != value and (key in settings or spark.conf.isModifiable(key)):
                return f"a view was created while {key} was {settings.get(key)!r}; it is {value!r} now"
    for name, text in expanded.views.items():
        if spark.table(name).schema.jsonValue() != sql(text).schema.jsonValue():
            return f"view {name} declares other columns than its query has"
    return None


def _setting(spark: SparkSession, key: str) -> str | None:
    """Return a setting of the session, or its default; None if Spark does not have it."""
    from pyspark.errors import PySparkException

    try:
        value: str | None = spark.conf.get(key)
        return value
    except PySparkException:
        return None


def _view_query(view: QueryTableState) -> str | None:
    """Return a query with the result of a view; None for anything but a view, and if that is not certain."""
    description = view.description or {}
    text = description.get("view_text")
    namespace = str(description.get("view_catalog_and_namespace") or "").split(".")
    outputs = [str(name) for name in description.get("view_query_output_columns") or ()]
    columns = [str(column["name"]) for column in description.get("columns") or ()]
    is_sure = (
        str(description.get("type", "")).upper() == "VIEW"
        and isinstance(text, str)
        and len(namespace) == 2
        and "`" not in "".join(namespace)
        # temporary views may read other temporary views, which have no full name
        and description.get("catalog_name") == namespace[0]
        and description.get("schema_name") != "global_temp"
        # without it, Spark applies the rules of the version that created the view
        and "spark.sql.ansi.enabled" in (description.get("view_creation_spark_configuration") or {})
        and len(outputs) == len(columns)
        and len({name.lower() for name in outputs}) == len(outputs) > 0
        # other collations apply to literals, too
        and description.get("collation", "UTF8_BINARY") == "UTF8_BINARY"
    )
    if not is_sure:
        return None
    try:
        query = parse_query(str(text))
    except StatementError:
        return None
    # the session may have another function of the same name
    if query is None or query.is_explain or query.problem is not None or query.has_other_functions:
        return None
    names = [
        None if table.ref.kind is TableRefKind.PATH else _full_name(table.ref, namespace)
        for table in query.tables
    ]
    inner = query.with_tables(names)
    listed = ", ".join(
        f"{quoted(output)} AS {quoted(column)}" for output, column in zip(outputs, columns, strict=True)
    )
    return f"SELECT {listed} FROM {inner}"


def _full_name(ref: TableRef, namespace: list[str]) -> str:
    """Return the name of a view's table with catalog and database."""
    parts = ref.parts
    missing = namespace[: max(3 - len(parts), 0)]
    return ".".join(quoted(part) for part in (*missing, *parts))
