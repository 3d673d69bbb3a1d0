"""Values of Spark's optimized plans as SQL expressions: function calls, arithmetic, casts and CASE.

Source: Apache Spark, ``org.apache.spark.sql.catalyst.expressions``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hindex.errors import ArgumentError
from hindex.sql.functions import call, element_field
from hindex.sql.predicate import CAST_TYPES, Arithmetic, ArithmeticOp, Case, Cast, Expression, Predicate

_ARITHMETIC = {
    "Add": ArithmeticOp.ADD,
    "Subtract": ArithmeticOp.SUBTRACT,
    "Multiply": ArithmeticOp.MULTIPLY,
    "Divide": ArithmeticOp.DIVIDE,
    "Remainder": ArithmeticOp.REMAINDER,
    "IntegralDivide": ArithmeticOp.DIV,
}
#: Functions by Spark's classes. Functions with the name of their class in lower case are in `_SAME_NAME`.
_FUNCTIONS = {
    "ElementAt": "[]",
    "GetMapValue": "[]",
    "MapKeys": "map_keys",
    "MapValues": "map_values",
    "DateAdd": "date_add",
    "DateSub": "date_sub",
    "DayOfMonth": "day",
    "GetJsonObject": "get_json_object",
    "LastDay": "last_day",
    "StringInstr": "instr",
    "StringReplace": "replace",
    "StringTrim": "trim",
    "StringTrimLeft": "ltrim",
    "StringTrimRight": "rtrim",
    "UnaryMinus": "negative",
}
_SAME_NAME = frozenset(
    {
        *("Abs", "Ceil", "Coalesce", "Concat", "Contains", "DateDiff", "DayOfWeek", "DayOfYear", "EndsWith"),
        *("Floor", "Greatest", "Hour", "IsNaN", "Least", "Length", "Lower", "Minute", "Month", "Quarter"),
        *("Second", "StartsWith", "Substring", "Upper", "WeekDay", "WeekOfYear", "Year"),
    }
)
#: The length of a substring that has none.
_TO_THE_END = ["Literal", "int", "2147483647"]
#: Types of literals that have the same type here; NULL has none.
_TYPED_BY_VALUE = frozenset(
    {"string", "int", "double", "boolean", "date", "timestamp", "binary", "void", "null"}
)
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def value(
    expression: list[Any],
    leaf: Callable[[list[Any]], Expression | None],
    condition: Callable[[list[Any]], Predicate | None],
) -> Expression | None:
    """Return the SQL expression of a value; None if some part is not understood.

    Args:
        leaf: returns a column or literal, None for anything else.
        condition: returns the condition of a CASE; None if it is not understood.
    """
    kind, *parts = expression
    own = leaf(expression)
    if own is not None:
        # hindex types literals by their digits, and Spark's literals have types of their own
        return own if kind != "Literal" or parts[0] in _TYPED_BY_VALUE else _cast(own, parts[0])
    if kind in ("Cast", "TryCast"):
        child = value(parts[0], leaf, condition)
        return None if child is None else _cast(child, parts[2], is_try=kind == "TryCast")
    if kind == "ElementField":
        array = value(parts[0], leaf, condition)
        return None if array is None else element_field(array, parts[1])
    if kind == "Substring" and parts[2:] == [_TO_THE_END]:
        parts.pop()
    if kind in ("CaseWhen", "If"):
        return _case(parts, leaf, condition)
    args = [value(part, leaf, condition) for part in parts]
    values = [arg for arg in args if arg is not None]
    if len(values) < len(args):
        return None
    if kind in _ARITHMETIC:
        return Arithmetic(_ARITHMETIC[kind], *values)
    name = _FUNCTIONS.get(kind) or (kind.lower() if kind in _SAME_NAME else None)
    try:
        return None if name is None else call(name, values)
    except ArgumentError:
        return None


def _cast(child: Expression, to: str, *, is_try: bool = False) -> Expression | None:
    """Return a cast to a type of Spark; None if it is not evaluated here."""
    name = _DECIMAL.sub(r"DECIMAL(\1, \2)", to).upper()
    return Cast(child, name, is_try) if name in CAST_TYPES or name.startswith("DECIMAL(") else None


def _case(
    parts: list[Any],
    leaf: Callable[[list[Any]], Expression | None],
    condition: Callable[[list[Any]], Predicate | None],
) -> Expression | None:
    """Return CASE of conditions and values in turn, and the value of ELSE if their number is odd."""
    conditions = [condition(part) for part in parts[:-1:2]]
    values = [value(part, leaf, condition) for part in parts[1::2]]
    otherwise = value(parts[-1], leaf, condition) if len(parts) % 2 else None
    whens = tuple(
        (test, item)
        for test, item in zip(conditions, values, strict=True)
        if test is not None and item is not None
    )
    if len(whens) < len(conditions) or (len(parts) % 2 and otherwise is None):
        return None
    return Case(whens, otherwise)
