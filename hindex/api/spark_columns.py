"""Convert PySpark columns to predicates: their unresolved trees, node by node."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import Any

from hindex.api.conditions import literal
from hindex.errors import PredicateError
from hindex.spark.session import session_time_zones
from hindex.sql.functions import call
from hindex.sql.predicate import (
    Arithmetic,
    ArithmeticOp,
    Case,
    Cast,
    ColumnRef,
    ComparisonOp,
    Expression,
    In,
    Like,
    Literal,
    LiteralKind,
    Not,
    Predicate,
    RLike,
    all_of,
    any_of,
    as_predicate,
    as_value,
    compare,
    is_null,
)
from hindex.sql.string_values import format_timestamp

_REMEDY = (
    "write the condition as SQL text or with hindex.col(...), or filter the DataFrame of scan(...).to_spark()"
)
_COMPARISONS = {op.value: op for op in ComparisonOp} | {"==": ComparisonOp.EQ}
_ARITHMETIC = {op.value: op for op in ArithmeticOp if op is not ArithmeticOp.DIV}
_CHAINS: dict[str, Callable[[Iterable[Predicate]], Predicate]] = {"and": all_of, "or": any_of}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
#: Before it, java.sql.Date uses the Julian calendar.
_FIRST_DATE = datetime.date(1582, 10, 15)


def column_predicate(column: Any) -> Predicate:  # noqa: ANN401
    """Return the predicate of a column of a classic session.

    Raises:
        PredicateError: for a column of Spark Connect, and one with an unsupported expression.
    """
    if not hasattr(column, "_jc"):
        raise PredicateError(f"a column of Spark Connect cannot be read here: {_REMEDY}")
    try:
        return as_predicate(_expression(column._jc.node()))
    except ValueError as error:
        raise PredicateError(f"{error}; {_REMEDY}") from None
    except RecursionError:
        raise PredicateError(f"the column is nested too deeply; {_REMEDY}") from None


def _expression(node: Any) -> Expression:  # noqa: ANN401
    kind = node.getClass().getSimpleName()
    match kind:
        case "UnresolvedAttribute":
            return ColumnRef(tuple(_sequence(node.nameParts())))
        case "Literal":
            return _literal(node.value())
        case "UnresolvedFunction" if node.functionName().lower() in _CHAINS:
            return _CHAINS[node.functionName().lower()](
                as_predicate(_expression(part)) for part in _chain(node)
            )
        case "UnresolvedFunction":
            return _function(node.functionName(), [_expression(arg) for arg in _sequence(node.arguments())])
        case "Cast":
            return _cast(node)
        case "Alias":
            return _expression(node.child())
        case "SqlExpression":
            from hindex.sql import parse_predicate

            return as_value(parse_predicate(node.expression()))
        case "CaseWhenOtherwise":
            whens = tuple(
                (as_predicate(_expression(pair._1())), _expression(pair._2()))
                for pair in _sequence(node.branches())
            )
            default = node.otherwise()
            return Case(whens, _expression(default.get()) if default.isDefined() else None)
        case "ExpressionColumnNode" if node.expression().getClass().getSimpleName() == "AttributeReference":
            return ColumnRef((node.expression().name(),))
    raise PredicateError(f"a column of the kind {kind} is not evaluated here; {_REMEDY}")


def _chain(node: Any) -> list[Any]:  # noqa: ANN401
    """Return the operands of nested ANDs, or ORs, from left to right; they may be nested thousands of times."""
    name, operands, stack = node.functionName(), [], [node]
    while stack:
        part = stack.pop()
        if part.getClass().getSimpleName() == "UnresolvedFunction" and part.functionName() == name:
            stack += reversed(_sequence(part.arguments()))
        else:
            operands.append(part)
    return operands


def _function(name: str, args: list[Expression]) -> Expression:
    if name in _COMPARISONS:
        return compare(_COMPARISONS[name], args[0], args[1])
    if name in _ARITHMETIC and len(args) == 2:
        return Arithmetic(_ARITHMETIC[name], args[0], args[1])
    match name.lower():
        case "!" | "not":
            return Not(as_predicate(args[0]))
        case "in":
            return In(args[0], tuple(args[1:]))
        case "isnull":
            return is_null(args[0])
        case "isnotnull":
            return Not(is_null(args[0]))
        case "like":
            return Like(args[0], *map(_pattern, args[1:]))
        case "rlike":
            return RLike(args[0], _pattern(args[1]))
        case "-":
            return call("negative", args)
        case other:
            return call(other, args)


def _pattern(value: Expression) -> str:
    if not isinstance(value, Literal) or not isinstance(value.value, str):
        raise PredicateError(f"the pattern {value} is not a string; {_REMEDY}")
    return value.value


def _cast(node: Any) -> Cast:  # noqa: ANN401
    mode = node.evalMode()
    is_try = bool(mode.isDefined())
    if is_try and "Try" not in mode.get().getClass().getName():
        raise PredicateError(f"a cast of another mode than Spark's own is not evaluated here; {_REMEDY}")
    name = str(node.dataType().sql())
    return Cast(_expression(node.child()), _DECIMAL.sub(r"DECIMAL(\1, \2)", name), is_try)


def _literal(value: Any) -> Literal:  # noqa: ANN401
    if not hasattr(value, "getClass"):
        return literal(value)
    match value.getClass().getName():
        case "java.sql.Date":
            date = datetime.date.fromisoformat(value.toString())
            if date >= _FIRST_DATE:
                return literal(date)
        case "java.sql.Timestamp":
            return _timestamp(value)
    raise PredicateError(f"the literal {value.toString()} is not read from a column here; {_REMEDY}")


def _timestamp(value: Any) -> Literal:  # noqa: ANN401
    """Return the literal of an instant: in the session's time zone if that is UTC, otherwise with an offset.

    Raises:
        PredicateError: without a session.
    """
    from pyspark.sql import SparkSession

    # other threads have no active session
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is None:
        raise PredicateError(
            f"a time is read from a column by the zone of a session: there is none; {_REMEDY}"
        )
    java: Any = session._jvm
    micros = java.org.apache.spark.sql.catalyst.util.DateTimeUtils.fromJavaTimestamp(value)
    zone = "" if session_time_zones(session).is_session_utc else "Z"
    return Literal(format_timestamp(micros) + zone, LiteralKind.TIMESTAMP)


def _sequence(items: Any) -> list[Any]:  # noqa: ANN401
    return [items.apply(at) for at in range(items.size())]
