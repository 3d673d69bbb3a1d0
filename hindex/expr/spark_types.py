"""Spark's common types: which type a comparison's two sides are cast to before they are compared.

Follows Spark 4 with ANSI mode on, its default (``AnsiTypeCoercion`` and ``DecimalPrecision``): a string takes
the other side's type, an integer or decimal beside a double becomes a double, decimals widen up to 38 digits
and then give up fraction digits for integral ones.
"""

from __future__ import annotations

import enum

from hindex.orc.metadata.types import Kind, OrcType
from hindex.value_class import value_class

MAX_PRECISION = 38


class Family(enum.Enum):
    """Types that compare alike."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"


@value_class
class SparkType:
    """A type as coercion sees it.

    ``precision`` and ``scale`` are of decimals; an integer type has the precision of the decimal that Spark
    casts it to: 3, 5, 10 or 20 digits.
    """

    family: Family
    precision: int = 0
    scale: int = 0


BIGINT = SparkType(Family.INTEGER, 20)
_INT = SparkType(Family.INTEGER, 10)
_DOUBLE = SparkType(Family.DOUBLE)
_FLOATING = (Family.FLOAT, Family.DOUBLE)
_NUMERIC = (Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.DECIMAL)

_BY_KIND = {
    Kind.BOOLEAN: SparkType(Family.BOOLEAN),
    Kind.BYTE: SparkType(Family.INTEGER, 3),
    Kind.SHORT: SparkType(Family.INTEGER, 5),
    Kind.INT: _INT,
    Kind.LONG: BIGINT,
    Kind.FLOAT: SparkType(Family.FLOAT),
    Kind.DOUBLE: _DOUBLE,
    Kind.STRING: SparkType(Family.STRING),
    Kind.VARCHAR: SparkType(Family.STRING),
    Kind.CHAR: SparkType(Family.STRING),
    Kind.BINARY: SparkType(Family.BINARY),
    Kind.DATE: SparkType(Family.DATE),
    Kind.TIMESTAMP: SparkType(Family.TIMESTAMP),
    Kind.TIMESTAMP_INSTANT: SparkType(Family.TIMESTAMP),
    Kind.TIMESTAMP_NTZ: SparkType(Family.TIMESTAMP),
}


def column_type(data_type: OrcType) -> SparkType | None:
    """Return the type of a column; None for composite types, whose values cannot be compared with literals."""
    if data_type.kind is Kind.DECIMAL:
        return SparkType(
            Family.DECIMAL, data_type.precision or 38, data_type.scale if data_type.precision else 18
        )
    return _BY_KIND.get(data_type.kind)


def wider(a: SparkType, b: SparkType) -> SparkType | None:
    """Return the type that both are cast to for a comparison; None if Spark refuses to compare them."""
    if a == b:
        return a
    if a.family is Family.STRING:
        return _beside_string(b)
    if b.family is Family.STRING:
        return _beside_string(a)
    if a.family in _NUMERIC and b.family in _NUMERIC:
        if a.family in _FLOATING or b.family in _FLOATING:
            return _DOUBLE
        if a.family is b.family is Family.INTEGER:
            return a if a.precision >= b.precision else b
        return _wider_decimal(a, b)
    if {a.family, b.family} == {Family.DATE, Family.TIMESTAMP}:
        return SparkType(Family.TIMESTAMP)
    return None


def _beside_string(other: SparkType) -> SparkType:
    if other.family is Family.INTEGER:
        return BIGINT
    return _DOUBLE if other.family in (*_FLOATING, Family.DECIMAL) else other


def _wider_decimal(a: SparkType, b: SparkType) -> SparkType:
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    excess = max(0, precision - MAX_PRECISION)
    return SparkType(Family.DECIMAL, precision - excess, max(0, scale - excess))
