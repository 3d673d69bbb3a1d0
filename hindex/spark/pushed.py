"""Filters that Spark pushes to a Python data source, as a predicate.

Spark's classes are told by their names, so that nothing of it is imported.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from hindex.sql.predicate import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    all_of,
)

_COMPARISONS = {
    "EqualTo": ComparisonOp.EQ,
    "EqualNullSafe": ComparisonOp.NULL_SAFE_EQ,
    "GreaterThan": ComparisonOp.GT,
    "GreaterThanOrEqual": ComparisonOp.GE,
    "LessThan": ComparisonOp.LT,
    "LessThanOrEqual": ComparisonOp.LE,
}
_PATTERNS = {"StringStartsWith": "{}%", "StringEndsWith": "%{}", "StringContains": "%{}%"}
_MAX_DIGITS = 38


def predicate_of(filters: Iterable[Any]) -> tuple[Predicate | None, list[Any]]:
    """The conjunction of the filters that a predicate can say exactly, and the other filters.

    :param filters: of :mod:`pyspark.sql.datasource`.
    :returns: None as the predicate where there is none.
    """
    taken: list[Predicate] = []
    rest: list[Any] = []
    for item in filters:
        found = _predicate(item)
        if found is None:
            rest.append(item)
        else:
            taken.append(found)
    return (all_of(taken) if taken else None), rest


def _predicate(item: Any) -> Predicate | None:  # noqa: ANN401
    name = type(item).__name__
    if name == "Not":
        child = _predicate(item.child)
        return None if child is None else Not(child)
    column = ColumnRef(tuple(item.attribute))
    if name == "IsNull":
        return IsNull(column)
    if name == "IsNotNull":
        return Not(IsNull(column))
    if name == "In":
        literals = [_literal(value) for value in item.value]
        known = tuple(literal for literal in literals if literal is not None)
        return In(column, known) if known and len(known) == len(literals) else None
    if name in _PATTERNS:
        escaped = "".join(f"\\{char}" if char in "\\%_" else char for char in item.value)
        return Like(column, _PATTERNS[name].format(escaped))
    literal = _literal(item.value) if name in _COMPARISONS else None
    return None if literal is None else Comparison(_COMPARISONS[name], column, literal)


def _literal(value: object) -> Literal | None:
    match value:
        case None:
            return Literal(None, LiteralKind.NULL)
        case bool():
            return Literal(value, LiteralKind.BOOLEAN)
        case int():
            return Literal(value, LiteralKind.INTEGER)
        case float():
            return Literal(value, LiteralKind.DOUBLE)
        case Decimal():
            return _decimal(value)
        case str():
            return Literal(value, LiteralKind.STRING)
        case bytes() | bytearray():
            return Literal(bytes(value), LiteralKind.BINARY)
        case datetime.datetime():
            # an instant would be one of a time zone that is not known here
            return None if value.tzinfo else Literal(value.isoformat(" "), LiteralKind.TIMESTAMP)
        case datetime.date():
            return Literal(value, LiteralKind.DATE)
        case _:
            return None


def _decimal(value: Decimal) -> Literal | None:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or max(len(digits) + max(exponent, 0), -exponent) > _MAX_DIGITS:
        return None
    return Literal(value, LiteralKind.DECIMAL)
