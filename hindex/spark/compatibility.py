"""Differences between Spark's reading of a statement and hindex's: session settings, names and types.

Timestamps are compared and shown as Spark's instants, see `hindex.plan.time_zones`. Indexes have wall clocks, so
hindex orders, groups and aggregates by timestamps only if Spark's JVM is in UTC. Spark stores some types as numbers,
which only attributes in the files show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from hindex.errors import ColumnError, OrcError, UnsupportedError
from hindex.orc import OrcReader
from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind
from hindex.plan.time_zones import ZonesOf, has_time
from hindex.sql.predicate import (
    ColumnRef,
    Comparison,
    In,
    LiteralKind,
    Predicate,
    TruthValue,
    columns,
    leaves,
    literals,
    tested_column,
)
from hindex.sql.statements import AggregateCall, AggregateFunction, Select, SelectExists
from hindex.store.snapshot import Snapshot
from hindex.table.schema import ResolvedColumn, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Attribute with Spark's type of a column that ORC lacks.
_SPARK_TYPE = "spark.sql.catalyst.type"

#: Spark's types of integer columns that hindex reads: all but intervals.
_INTEGER_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "timestamp_ntz"})


def check_same_rows(
    zones: ZonesOf, setting: Setting, snapshot: Snapshot, select: Select | SelectExists
) -> None:
    """Check that Spark returns the same rows for a statement that hindex can answer itself.

    Args:
        zones: returns the session's time zones; called only if they matter.
        setting: returns True if a setting of the session is on.

    Raises:
        UnsupportedError: naming the column or clause, and the difference.
    """
    if isinstance(select, SelectExists):
        select = select.rows
    schema = snapshot.schema
    _check_names(select)
    output = (
        [ColumnRef((name,)) for name in schema.names] if select.items is None else _output_columns(select)
    )
    compared = _resolve(schema, _compared_columns(select))
    in_where = _resolve(schema, () if select.where is None else columns(select.where))
    used = [*_resolve(schema, output), *compared, *in_where]
    if any(part.kind in INTEGER_KINDS for item in used for part in item.type.walk()):
        spark_types = _spark_types(snapshot)
        for item in used:
            if item.path[0].lower() in spark_types:
                raise UnsupportedError(
                    f"Spark has the column {item.name!r} as {spark_types[item.path[0].lower()]}"
                )
    has_conditions = select.where is not None or select.having is not None
    if has_conditions and not is_ansi(setting) and not _is_typed(select, schema):
        raise UnsupportedError(
            "the session has spark.sql.ansi.enabled off, and compares types by other rules"
        )
    if any(item.is_partition for item in used) and not infers_partitions(setting):
        raise UnsupportedError("partition values are strings to the session, whatever they look like")
    for item in compared:
        if has_time(item.type):
            time_zones = zones()
            if time_zones is not None and not time_zones.are_index_keys(item.type):
                raise UnsupportedError(
                    f"Spark orders and groups timestamps of {item.name!r} as instants of {time_zones.reader}, and "
                    "indexes have wall clocks"
                )


def _is_typed(select: Select, schema: TableSchema) -> bool:
    """Return True if the conditions mean the same under all of Spark's rules for comparing types."""
    if select.having is not None:
        return False
    try:
        return select.where is None or is_rule_independent(select.where, schema)
    except ColumnError:
        # row keys of transactional tables are integers; the scan raises the error for an unknown column
        return True


def _check_names(select: Select) -> None:
    """Check that no struct has the name of the table: Spark resolves a name before a dot as the table's first.

    Raises:
        UnsupportedError: naming the field.
    """
    refs = [*_output_columns(select), *_compared_columns(select), *_counted_columns(select)]
    refs += [] if select.where is None else columns(select.where)
    for ref in refs:
        # Spark also accepts a database and a catalog before the table
        if select.table.parts and select.table.parts[-1].lower() in map(str.lower, ref.parts[:-1][:3]):
            raise UnsupportedError(f"{ref} may be a column of the table {select.table} to Spark")


def _counted_columns(select: Select) -> list[ColumnRef]:
    calls = [item.value for item in select.items or () if isinstance(item.value, AggregateCall)]
    calls += [] if select.having is None else select.having.calls
    return [call.column for call in calls if call.column is not None]


def _resolve(schema: TableSchema, refs: Iterable[ColumnRef]) -> list[ResolvedColumn]:
    resolved = []
    for ref in refs:
        # row keys of transactional tables are no columns of the schema
        with suppress(ColumnError):
            resolved.append(schema.resolve(ref.parts))
    return resolved


def _output_columns(select: Select) -> list[ColumnRef]:
    """Return the columns of the SELECT list outside of aggregates."""
    return [item.value for item in select.items or () if isinstance(item.value, ColumnRef)]


def _compared_columns(select: Select) -> list[ColumnRef]:
    """Return the columns whose values are compared with each other: grouped, ordered and aggregated ones."""
    ordered = [item.value for item in select.orders]
    values = [*select.groups, *ordered, *(item.value for item in select.items or ())]
    calls = [item for item in values if isinstance(item, AggregateCall)]
    calls += [] if select.having is None else select.having.calls
    return [
        *select.groups,
        *(item for item in ordered if isinstance(item, ColumnRef)),
        *(
            call.column
            for call in calls
            if call.column is not None and call.function is not AggregateFunction.COUNT
        ),
    ]


def _spark_types(snapshot: Snapshot) -> dict[str, str]:
    """Return Spark's types of integer columns that are no integers in Spark, by their names in lower case.

    The types are those of the first file: Spark reads one file, too.
    """
    # reading the rows raises the error of an unreadable file
    with suppress(OrcError):
        for file in snapshot.views.files[:1]:
            state = (file.length, file.mtime_ns, file.changed_ns)
            # if the store has no times of changes, a replaced file may have the same state
            is_cacheable = file.is_untouched_since(file.changed_ns or 0)
            return _cached_file_types(file.uri, state) if is_cacheable else _file_types(file.uri)
    return {}


@lru_cache(maxsize=256)
def _cached_file_types(uri: str, _state: tuple[int, int, int | None]) -> dict[str, str]:
    """Return the types from `_file_types`, cached by the state of the file."""
    return _file_types(uri)


def _file_types(uri: str) -> dict[str, str]:
    # the scan that follows finds the tail in the cache
    with OrcReader(uri) as reader:
        tail = reader.tail
    spark_types = {}
    for name, column in zip(tail.schema.field_names, tail.schema.children, strict=True):
        for part in column.walk():
            attributes = {item.key: item.value for item in tail.footer.types[part.column].attributes}
            spark_type = attributes.get(_SPARK_TYPE)
            if part.kind in INTEGER_KINDS and spark_type is not None and spark_type not in _INTEGER_TYPES:
                spark_types[name.lower()] = spark_type
    return spark_types


#: Settings that are off by default, and the characters of a query for which they matter.
_OFF_BY_DEFAULT = {
    "spark.sql.ansi.doubleQuotedIdentifiers": '"',
    "spark.sql.ansi.relationPrecedence": ",",
    "spark.sql.parser.quotedRegexColumnNames": "`",
    "spark.sql.parser.escapedStringLiterals": "\\",
}
#: Settings that are on by default, and matter in queries that group or order.
_ORDINALS = ("spark.sql.groupByOrdinal", "spark.sql.orderByOrdinal")
#: Returns True if a setting is on; takes its key, and its default for Spark versions without it.
Setting: TypeAlias = Callable[[str, bool], bool]
_NUMBERS = frozenset({*INTEGER_KINDS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL})
_SAME_KINDS: dict[LiteralKind, frozenset[Kind]] = {
    LiteralKind.BOOLEAN: frozenset({Kind.BOOLEAN}),
    # Spark's older rules compare an integer with a FLOAT as FLOATs; a literal may be FLOAT or DOUBLE
    LiteralKind.INTEGER: _NUMBERS - {Kind.FLOAT},
    LiteralKind.DECIMAL: _NUMBERS,
    LiteralKind.DOUBLE: _NUMBERS - INTEGER_KINDS,
    LiteralKind.STRING: STRING_KINDS,
    LiteralKind.DATE: frozenset({Kind.DATE}),
    LiteralKind.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT}),
    LiteralKind.TIMESTAMP_NTZ: frozenset({Kind.TIMESTAMP_NTZ}),
    LiteralKind.BINARY: frozenset({Kind.BINARY}),
}


def is_set(spark: SparkSession, key: str, default: bool) -> bool:
    """Return True if a setting is on; ``default`` is for Spark versions without it."""
    from pyspark.errors import PySparkException

    try:
        # without a default argument: it would override Spark's own, which may depend on the environment
        return str(spark.conf.get(key)).lower() == "true"
    except PySparkException:
        return default


def setting_difference(setting: Setting, text: str) -> str | None:
    """Return a setting of the session by which Spark reads the text of a query differently, or None."""
    for key, characters in _OFF_BY_DEFAULT.items():
        if characters in text and setting(key, False):
            return f"the session has {key}"
    if re.search(r"\bBY\b", text, re.IGNORECASE):
        for key in _ORDINALS:
            if not setting(key, True):
                return f"the session has {key} off"
    return "the query has variables that Spark replaces" if "${" in text else None


def is_ansi(setting: Setting) -> bool:
    """Return True if values of different types are compared by the SQL standard's rules (the default)."""
    return setting("spark.sql.ansi.enabled", True)


def infers_partitions(setting: Setting) -> bool:
    """Return True if Spark infers the types of partition columns from directory names (the default)."""
    return setting("spark.sql.sources.partitionColumnTypeInference.enabled", True)


def is_rule_independent(predicate: Predicate, schema: TableSchema) -> bool:
    """Return True if a predicate compares only values of the same type family: all of Spark's rules agree on these.

    An expression may be an error under one rule, and NULL or another number under the other.
    """
    for leaf in leaves(predicate):
        if isinstance(leaf, TruthValue):
            continue
        column = tested_column(leaf)
        if column is None:
            return False
        if isinstance(leaf, Comparison | In):
            kind = schema.resolve(column.parts).type.kind
            if not all(kind in _SAME_KINDS.get(literal.kind, {kind}) for literal in literals(leaf)):
                return False
    return True
