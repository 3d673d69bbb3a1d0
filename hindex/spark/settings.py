"""Settings of a session that change what a query means, or how its values are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind
from hindex.sql.predicate import Comparison, In, LiteralKind, Predicate, leaves
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
}
_NUMBERS = frozenset({*INTEGER_KINDS, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL})
_SAME_KINDS: dict[LiteralKind, frozenset[Kind]] = {
    LiteralKind.BOOLEAN: frozenset({Kind.BOOLEAN}),
    LiteralKind.INTEGER: _NUMBERS,
    LiteralKind.DECIMAL: _NUMBERS,
    LiteralKind.DOUBLE: _NUMBERS,
    LiteralKind.STRING: STRING_KINDS,
    LiteralKind.DATE: frozenset({Kind.DATE}),
    LiteralKind.TIMESTAMP: frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT}),
    LiteralKind.BINARY: frozenset({Kind.BINARY}),
}


def strange_setting(spark: SparkSession, text: str) -> str | None:
    """A setting with which Spark reads the text of a query otherwise than hindex does."""
    for key, what in _TEXTS.items():
        if what in text and str(spark.conf.get(key, "false")).lower() == "true":
            return key
    return None


def is_ansi(spark: SparkSession) -> bool:
    """Whether values of different types are compared by the rules of the SQL standard, as by default."""
    return str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true"


def is_of_one_type(predicate: Predicate, schema: TableSchema) -> bool:
    """Whether a predicate compares values of the same sort only, which is the same by all rules."""
    for leaf in leaves(predicate):
        if not isinstance(leaf, Comparison | In):
            continue
        kind = schema.resolve(leaf.column.parts).type.kind
        for literal in leaf.literals if isinstance(leaf, In) else (leaf.literal,):
            if kind not in _SAME_KINDS.get(literal.kind, {kind}):
                return False
    return True
