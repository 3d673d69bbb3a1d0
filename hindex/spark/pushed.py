"""Filters that Spark pushes to a Python data source, as a predicate.

Spark's classes are told by their names, so that nothing of it is imported.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from hindex.sql.literals import LiteralError, of_value
from hindex.sql.predicate import (
    ColumnRef,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Like,
    Literal,
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
    if not all(item.attribute):
        # a field without a name is none that a predicate can have
        return None
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
    if isinstance(value, datetime.datetime) and value.tzinfo:
        # an instant would be one of a time zone that is not known here
        return None
    try:
        return of_value(value)
    except LiteralError:
        return None
