"""The signature of each function: argument types and result type, one table line each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hindex.errors import PredicateError
from hindex.expr.coerce import (
    FLOATING,
    NUMERIC,
    REMEDY,
    apply,
    arithmetic_sides,
    as_date,
    as_int,
    as_text,
    as_timestamp,
    cast_to,
    coerced,
    common_type,
    decimal_result,
    decimal_sides,
    is_null_literal,
    type_of,
)
from hindex.expr.nodes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    Constant,
    Node,
    decimal_type,
)
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType

Rule = Callable[[str, Sequence[Node]], Node]


def arithmetic(op: str, args: Sequence[Node]) -> Node:
    """``+ - * / % DIV`` of two numbers; a date and a number of days for + and -."""
    left, right = args
    if DATE in (type_of(left), type_of(right)) and op in ("+", "-"):
        return _moved_date(op, left, right)
    left, right = arithmetic_sides(op, left, right)
    decimals = decimal_sides(left, right)
    if decimals is not None:
        of = BIGINT if op == "DIV" else decimal_result(op, type_of(decimals[0]), type_of(decimals[1]))
        return apply(op, decimals, of)
    if op == "/":
        return apply(op, coerced((left, right), DOUBLE), DOUBLE)
    if op == "DIV":
        if {type_of(left).kind, type_of(right).kind} & FLOATING:
            raise PredicateError("DIV is of integers and decimals, in Spark too; use / and floor")
        return apply(op, coerced((left, right), BIGINT), BIGINT)
    of = common_type((left, right), op)
    return apply(op, coerced((left, right), of), of)


def _moved_date(op: str, left: Node, right: Node) -> Node:
    if type_of(left) == DATE and type_of(right).kind in (Kind.BYTE, Kind.SHORT, Kind.INT):
        return apply("date_add" if op == "+" else "date_sub", (left, as_int(right, op)), DATE)
    if op == "+" and type_of(left).kind in (Kind.BYTE, Kind.SHORT, Kind.INT):
        return apply("date_add", (right, as_int(left, op)), DATE)
    raise PredicateError(
        f"{op} of values of type {type_of(left)} and {type_of(right)} is not evaluated: use date_add, date_sub or "
        f"datediff; {REMEDY}"
    )


def _signed(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    of = type_of(value)
    if is_null_literal(value):
        return Constant(None, DOUBLE)
    if of.kind not in NUMERIC:
        raise PredicateError(f"{name} of a value of type {of} is not evaluated; {REMEDY}")
    return apply(name, (value,), of)


def _whole(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    of = type_of(value)
    if of.kind is Kind.DECIMAL:
        carry = 1 if of.scale else 0
        return apply(name, (value,), decimal_type(min(of.precision - of.scale + carry, 38), 0))
    if is_null_literal(value) or of.kind in FLOATING:
        return apply(name, (cast_to(value, DOUBLE),), BIGINT)
    if of.kind in INTEGER_KINDS:
        return apply(name, (cast_to(value, BIGINT),), BIGINT)
    raise PredicateError(f"{name} of a value of type {of} is not evaluated; {REMEDY}")


def _round(name: str, args: Sequence[Node]) -> Node:
    value = args[0]
    digits = args[1] if len(args) > 1 else Constant(0, INT)
    of = type_of(value)
    if not isinstance(digits, Constant) or not isinstance(digits.value, int) or digits.value < 0:
        raise PredicateError(f"round is evaluated to a fixed number of digits, 0 or more; {REMEDY}")
    if of.kind in INTEGER_KINDS:
        return apply(name, (value,), of)
    if of.kind is not Kind.DECIMAL:
        raise PredicateError(f"round of a value of type {of} depends on how Java prints doubles; {REMEDY}")
    scale = min(of.scale, digits.value)
    return apply(name, (value,), decimal_type(min(of.precision - of.scale + 1 + scale, 38), scale))


def _isnan(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    of = type_of(value)
    return apply(name, (value if of.kind in FLOATING else cast_to(value, DOUBLE),), BOOLEAN)


def _same(name: str, args: Sequence[Node]) -> Node:
    """Of one type, and so is the result."""
    of = common_type(args, name)
    return apply(name, coerced(args, of), of)


def _texts(data_type: OrcType) -> Rule:
    return lambda name, args: apply(name, tuple(map(_text(name), args)), data_type)


def _text(name: str) -> Callable[[Node], Node]:
    def text(arg: Node) -> Node:
        if type_of(arg).kind is Kind.BINARY:
            raise PredicateError(f"{name} of a binary value is not evaluated; {REMEDY}")
        return as_text(arg)

    return text


def _text_and_counts(name: str, args: Sequence[Node]) -> Node:
    return apply(name, (_text(name)(args[0]), *(as_int(arg, name) for arg in args[1:])), STRING)


def _length(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    return apply(name, (value if type_of(value).kind is Kind.BINARY else as_text(value),), INT)


def _concat(name: str, args: Sequence[Node]) -> Node:
    if all(type_of(arg).kind is Kind.BINARY for arg in args):
        return apply(name, args, type_of(args[0]))
    return _texts(STRING)(name, args)


def _of_date(data_type: OrcType) -> Rule:
    return lambda name, args: apply(name, tuple(map(as_date, args)), data_type)


def _of_time(name: str, args: Sequence[Node]) -> Node:
    return apply(name, tuple(map(as_timestamp, args)), INT)


def _days(name: str, args: Sequence[Node]) -> Node:
    if type_of(args[1]).kind is Kind.LONG:
        raise PredicateError(f"{name} takes an int, not a bigint, in Spark too; cast it to int")
    return apply(name, (as_date(args[0]), as_int(args[1], name)), DATE)


#: By the names of :data:`hindex.sql.functions.FUNCTIONS`; a test holds the two against each other.
RULES: dict[str, Rule] = {
    "abs": _signed,
    "ceil": _whole,
    "coalesce": _same,
    "concat": _concat,
    "contains": _texts(BOOLEAN),
    "date_add": _days,
    "date_sub": _days,
    "datediff": _of_date(INT),
    "day": _of_date(INT),
    "dayofweek": _of_date(INT),
    "dayofyear": _of_date(INT),
    "endswith": _texts(BOOLEAN),
    "floor": _whole,
    "greatest": _same,
    "hour": _of_time,
    "isnan": _isnan,
    "last_day": _of_date(DATE),
    "least": _same,
    "left": _text_and_counts,
    "length": _length,
    "lower": _texts(STRING),
    "ltrim": _texts(STRING),
    "minute": _of_time,
    "month": _of_date(INT),
    "negative": _signed,
    "quarter": _of_date(INT),
    "replace": _texts(STRING),
    "right": _text_and_counts,
    "round": _round,
    "rtrim": _texts(STRING),
    "second": _of_time,
    "startswith": _texts(BOOLEAN),
    "substring": _text_and_counts,
    "trim": _texts(STRING),
    "upper": _texts(STRING),
    "weekday": _of_date(INT),
    "weekofyear": _of_date(INT),
    "year": _of_date(INT),
}
