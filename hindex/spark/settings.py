"""Settings of a session that change what a query means, or how its values are compared."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind
from hindex.sql.predicate import (
    Comparison,
    In,
    LiteralKind,
    Predicate,
    TruthValue,
    leaves,
    literals,
    tested_column,
)
from hindex.table.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings that are off by default, and what has to be in a query for them to matter.
_TEXTS = {
    "spark.sql.caseSensitive": "",
    "spark.sql.ansi.doubleQuotedIdentifiers": '"',
    "spark.sql.ansi.relationPrecedence": ",",
    "spark.sql.parser.quotedRegexColumnNames": "`",
    "spark.sql.parser.escapedStringLiterals": "\\",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "",
}
#: Settings that are on by default, and matter in queries that group or order.
_ORDINALS = ("spark.sql.groupByOrdinal", "spark.sql.orderByOrdinal")
#: Whether a setting is on, and what it is where nobody has set it.
Setting: TypeAlias = Callable[[str, bool], bool]
_NUMBERS = frozenset({*INTEGER_KINDS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL})
_SAME_KINDS: dict[LiteralKind, frozenset[Kind]] = {
    LiteralKind.BOOLEAN: frozenset({Kind.BOOLEAN}),
    # by its older rules Spark makes FLOATs of a whole number and a FLOAT; a literal does not tell FLOAT from DOUBLE
    LiteralKind.INTEGER: _NUMBERS - {Kind.FLOAT},
    LiteralKind.DECIMAL: _NUMBERS,
    LiteralKind.DOUBLE: _NUMBERS - INTEGER_KINDS,
    LiteralKind.STRING: STRING_KINDS,
    LiteralKind.DATE: frozenset({Kind.DATE}),
    LiteralKind.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT}),
    LiteralKind.BINARY: frozenset({Kind.BINARY}),
}


def is_set(spark: SparkSession, key: str, default: bool) -> bool:
    """Return True if a setting is on; ``default`` is for Spark versions without it."""
    from pyspark.errors import PySparkException

    try:
        # a default that is given goes before Spark's own, which may depend on the environment
        return str(spark.conf.get(key)).lower() == "true"
    except PySparkException:
        return default


def strange_setting(setting: Setting, text: str) -> str | None:
    """A reason why Spark reads the text of a query otherwise than hindex does."""
    for key, what in _TEXTS.items():
        if what in text and setting(key, False):
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


def is_of_one_type(predicate: Predicate, schema: TableSchema) -> bool:
    """Return True if a predicate compares only values of the same type family: all rules agree on these.

    An expression may be an error by one rule, and NULL or another number by the other.
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
