"""The types that Spark gives to operators and functions in ANSI mode, and the casts that it puts in for them.

Source: Spark's ``AnsiTypeCoercion`` and ``DecimalPrecision``. What it would cast in a way that is not evaluated here is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from hindex.errors import PredicateError
from hindex.expr.casting import can_cast
from hindex.expr.nodes import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    STRING,
    TIMESTAMP,
    Apply,
    Column,
    Constant,
    ConstantValue,
    Node,
    decimal_type,
)
from hindex.expr.spark_types import MAX_PRECISION, Family, SparkType, column_type, wider
from hindex.keys import INT64_MAX, INT64_MIN, key_limits
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.string_values import date_from_days, format_date, format_timestamp, is_epoch, is_named_time

REMEDY = "filter with Spark on scan(...).to_spark()"

_INTEGERS = {3: OrcType(Kind.BYTE), 5: OrcType(Kind.SHORT), 10: OrcType(Kind.INT), 20: OrcType(Kind.LONG)}
_TYPES = {
    Family.BOOLEAN: BOOLEAN,
    Family.FLOAT: FLOAT,
    Family.DOUBLE: DOUBLE,
    Family.STRING: STRING,
    Family.BINARY: BINARY,
    Family.DATE: DATE,
    Family.TIMESTAMP: TIMESTAMP,
}
FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_EXACT = INTEGER_KINDS | {Kind.DECIMAL}
NUMERIC = _EXACT | FLOATING
#: What Spark casts to instants beside them, by the clock of the session.
_BESIDE_INSTANTS = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.DATE, Kind.STRING})
_MIN_SCALE = 6
#: Constants up to this number are cast one by one.
_FEW = 8
#: Characters of a constant in a message.
_SHOWN = 60


def apply(function: str, args: Sequence[Node], data_type: OrcType, options: tuple[str, ...] = ()) -> Node:
    """Apply a function to values; return its result if all of them are constants."""
    # evaluation needs the table of functions, whose signatures need this module
    from hindex.expr.evaluate import evaluate

    node = Apply(function, tuple(args), data_type, options)
    if not all(isinstance(arg, Constant) for arg in args):
        return node
    result = evaluate(node, {}, 1)
    # an error concerns only the rows that need the value
    return node if result.errors is not None else Constant(_constants(result.array)[0], data_type)


def _constants(array: pa.Array) -> list[ConstantValue]:
    if pa.types.is_date32(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    values: list[ConstantValue] = array.to_pylist()
    return values


def type_of(node: Node) -> OrcType:
    """Return the type of a value; an untyped NULL is a boolean by default."""
    return node.type or BOOLEAN


def is_null_literal(node: Node) -> bool:
    return isinstance(node, Constant) and node.type is None


def cast_to(node: Node, to: OrcType, *, is_try: bool = False) -> Node:
    """Cast a value to a type.

    Raises:
        PredicateError: for a cast that is not evaluated here.
    """
    value = node.value if isinstance(node, Constant) else None
    if isinstance(node, Constant) and value is None:
        return Constant(None, to)
    data_type = type_of(node)
    if data_type == to:
        return replace(node, is_literal=False) if isinstance(node, Constant) else node
    if to in (DATE, TIMESTAMP) and isinstance(value, str) and is_named_time(value):
        # Spark's optimizer reads these names where it knows the text; in the values of a column they are no times
        if is_epoch(value):
            return Constant(0, to)
        raise PredicateError(f"{value[:60]!r} is not read as a time here; write a date, or {REMEDY}")
    if data_type.kind in _EXACT and isinstance(value, int | Decimal) and _holds(to, value):
        # without an evaluation: lists may be long
        return Constant(value if to.kind in INTEGER_KINDS else Decimal(value), to)
    if not can_cast(data_type, to):
        raise PredicateError(f"the cast from {data_type} to {to} is not evaluated here; {REMEDY}")
    if to == DOUBLE and isinstance(node, Apply) and node.function.endswith("CAST") and data_type == FLOAT:
        source = type_of(node.args[0])
        if source.kind in (Kind.INT, Kind.LONG):
            # Spark's optimizer leaves the inner cast out, and with it its rounding
            raise PredicateError(
                f"a cast from {source} to float, taken as a double, is not evaluated here; cast it to double"
            )
    return apply("TRY_CAST" if is_try else "CAST", (node,), to)


def _holds(data_type: OrcType, number: int | Decimal) -> bool:
    """Return True if a type has a number exactly as it is."""
    if data_type.kind is Kind.DECIMAL:
        _, digits, exponent = Decimal(number).as_tuple()
        assert isinstance(exponent, int)
        return (
            -exponent <= data_type.scale and len(digits) + exponent <= data_type.precision - data_type.scale
        )
    limits = key_limits(data_type) if data_type.kind in INTEGER_KINDS else None
    return limits is not None and isinstance(number, int) and limits[0] <= number <= limits[1]


def common_type(
    nodes: Sequence[Node], subject: str, *, is_comparison: bool = False, narrow: bool = False
) -> OrcType:
    """Return the type that all values are cast to.

    Args:
        is_comparison: whether texts take the other values' type.
        narrow: whether whole literals have as many digits as are written, beside a decimal.

    Raises:
        PredicateError: if there is none, or it is not that of Spark for sure.
    """
    kinds = {type_of(node).kind for node in nodes if not is_null_literal(node)}
    if Kind.TIMESTAMP_INSTANT in kinds and len(kinds) > 1 and kinds <= _BESIDE_INSTANTS:
        raise PredicateError(
            f"{subject} mixes timestamps with and without a time zone, which depends on the session's; {REMEDY}"
        )
    if not is_comparison and Kind.STRING in kinds and len(kinds) > 1:
        raise PredicateError(f"{subject} mixes strings with other types; cast them to one type, or {REMEDY}")
    narrow = narrow and Kind.DECIMAL in kinds
    # in their order, as Spark does: a text beside 1 and then 2.5 is a decimal, beside 2.5 and then 1 a double
    common: SparkType | None = None
    for node in nodes:
        if is_null_literal(node):
            continue
        own = _narrow(node) if narrow else column_type(type_of(node))
        if own is None:
            raise PredicateError(f"{subject} of a value of type {type_of(node)} is not evaluated; {REMEDY}")
        common = own if common is None else wider(common, own)
        if common is None:
            first = next(other for other in nodes if not is_null_literal(other))
            raise PredicateError(
                f"{subject} of {_described(first)} and {_described(node)} is refused, in Spark too; cast them to one "
                "type"
            )
    if common is None:
        return BOOLEAN
    if kinds == {Kind.TIMESTAMP_INSTANT}:
        return OrcType(Kind.TIMESTAMP_INSTANT)
    return _orc_type(common)


def _described(node: Node) -> str:
    """Describe a column or a constant with its type, and any other value by its type."""
    match node:
        case Column(name, column_type):
            return f"column {name!r} of type {column_type}"
        case Constant(str() | bytes() | bool() | int() | float() | Decimal() as value):
            return f"the {type_of(node)} {constant_text(value, type_of(node))}"
    return f"a value of type {type_of(node)}"


def constant_text(value: ConstantValue, data_type: OrcType) -> str:
    """Return a constant for messages, abbreviated where it is long."""
    match data_type.kind, value:
        case Kind.DATE, int():
            text = format_date(date_from_days(value))
        case ((Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT), int()):
            text = format_timestamp(value)
        case _, str():
            text = repr(value)
        case _, bool():
            text = str(value).upper()
        case _:
            text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def coerced(nodes: Sequence[Node], data_type: OrcType) -> tuple[Node, ...]:
    """Cast values to a type; many constants of one type are cast together."""
    cast = _cast_together(nodes, data_type) if len(nodes) > _FEW else {}
    return tuple(cast.get(at) or cast_to(node, data_type) for at, node in enumerate(nodes))


def _cast_together(nodes: Sequence[Node], to: OrcType) -> dict[int, Node]:
    """Return the casts of constants, by position; without those that `cast_to` has to look at one by one."""
    from hindex.expr.evaluate import evaluate

    positions: dict[OrcType, list[int]] = {}
    for at, node in enumerate(nodes):
        value = node.value if isinstance(node, Constant) else None
        is_named = isinstance(value, str) and to in (DATE, TIMESTAMP) and is_named_time(value)
        if value is not None and type_of(node) != to and not is_named:
            positions.setdefault(type_of(node), []).append(at)
    cast: dict[int, Node] = {}
    for data_type, group in positions.items():
        if not can_cast(data_type, to) or {data_type.kind, to.kind} <= _EXACT:
            # an error, or quick one by one
            continue
        values = [node.value for at in group if isinstance(node := nodes[at], Constant)]
        arrow_type = data_type.to_arrow()
        width = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64()}.get(data_type.kind)
        array = pa.array(values, arrow_type) if width is None else pa.array(values, width).cast(arrow_type)
        result = evaluate(Apply("CAST", (Column("", data_type),), to), {"": array}, len(values))
        if result.errors is None:
            for at, value in zip(group, _constants(result.array), strict=True):
                cast[at] = Constant(value, to)
    return cast


def as_string(node: Node) -> Node:
    """Cast an argument to a string, as Spark does."""
    return cast_to(node, STRING)


def as_date(node: Node) -> Node:
    return cast_to(node, DATE)


def as_timestamp(node: Node) -> Node:
    if type_of(node).kind is Kind.TIMESTAMP_INSTANT:
        raise PredicateError(f"parts of an instant depend on the session's time zone; {REMEDY}")
    return cast_to(node, TIMESTAMP)


def as_int(node: Node, subject: str) -> Node:
    """Cast an argument that counts characters or days to an int."""
    data_type = type_of(node)
    if not is_null_literal(node) and data_type.kind not in INTEGER_KINDS:
        raise PredicateError(
            f"{subject} takes a whole number here, not a value of type {data_type}; cast it to int"
        )
    return cast_to(node, OrcType(Kind.INT))


def arithmetic_sides(op: str, left: Node, right: Node) -> tuple[Node, Node]:
    """Return both sides of an operator, with a string cast to the type that Spark gives it beside the other side."""
    for mine, other in ((left, right), (right, left)):
        if type_of(other).kind is Kind.STRING and not is_null_literal(other):
            if type_of(mine).kind not in NUMERIC or is_null_literal(mine):
                break
            to = OrcType(Kind.LONG) if type_of(mine).kind in INTEGER_KINDS else DOUBLE
            return (mine, cast_to(other, to)) if mine is left else (cast_to(other, to), mine)
    for side in (left, right):
        if not is_null_literal(side) and type_of(side).kind not in NUMERIC:
            raise PredicateError(
                f"{op} of values of type {type_of(left)} and {type_of(right)} is not evaluated; {REMEDY}"
            )
    if is_null_literal(left):
        left = Constant(None, type_of(right) if not is_null_literal(right) else DOUBLE)
    if is_null_literal(right):
        right = Constant(None, type_of(left))
    return left, right


def decimal_sides(left: Node, right: Node) -> tuple[Node, Node] | None:
    """Return both sides as decimals if one is a decimal and neither is a floating-point number; otherwise None."""
    kinds = {type_of(left).kind, type_of(right).kind}
    if Kind.DECIMAL not in kinds or kinds & FLOATING:
        return None
    sides = []
    for side in (left, right):
        own = _narrow(side)
        assert own is not None
        as_decimal = own if own.family is Family.DECIMAL else SparkType(Family.DECIMAL, own.precision, 0)
        sides.append(cast_to(side, decimal_type(as_decimal.precision, as_decimal.scale)))
    return sides[0], sides[1]


def bounded_decimal(precision: int, scale: int) -> OrcType:
    """Limit a result's type to 38 digits: fraction digits beyond the sixth give way to whole ones."""
    if precision <= MAX_PRECISION:
        return decimal_type(precision, scale)
    whole = precision - scale
    return decimal_type(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MIN_SCALE)))


def decimal_result(op: str, a: OrcType, b: OrcType) -> OrcType:
    """Return the type of an operator's result on two decimals."""
    whole = (a.precision - a.scale, b.precision - b.scale)
    match op:
        case "+" | "-":
            scale = max(a.scale, b.scale)
            return bounded_decimal(max(whole) + scale + 1, scale)
        case "*":
            return bounded_decimal(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(_MIN_SCALE, a.scale + b.precision + 1)
            return bounded_decimal(whole[0] + b.scale + scale, scale)
        case _:
            scale = max(a.scale, b.scale)
            return bounded_decimal(min(whole) + scale, scale)


def _narrow(node: Node) -> SparkType | None:
    """Return the type of a side beside a decimal: a whole literal has as many digits as are written."""
    if isinstance(node, Constant) and node.is_literal and type_of(node).kind in INTEGER_KINDS:
        assert isinstance(node.value, int)
        return SparkType(Family.DECIMAL, len(str(abs(node.value))), 0)
    return column_type(type_of(node))


def _orc_type(data_type: SparkType) -> OrcType:
    if data_type.family is Family.INTEGER:
        return _INTEGERS[data_type.precision]
    if data_type.family is Family.DECIMAL:
        return decimal_type(data_type.precision, data_type.scale)
    return _TYPES[data_type.family]


def literal_constant(value: ConstantValue, data_type: OrcType | None) -> Constant:
    return Constant(value, data_type, is_literal=True)


def decimal_constant(value: int | Decimal) -> Constant:
    """Return a decimal literal of its narrowest type.

    Raises:
        PredicateError: if it has more than 38 digits.
    """
    exact = Decimal(value)
    exponent = exact.as_tuple().exponent
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(exact.as_tuple().digits), scale)
    if precision > MAX_PRECISION:
        raise PredicateError(
            f"the number {value} has more than {MAX_PRECISION} digits; write fewer digits, or a double such as 1e40"
        )
    return literal_constant(exact, decimal_type(precision, scale))


def fits_bigint(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def column(name: str, data_type: OrcType) -> Column:
    """Return a column.

    Raises:
        PredicateError: for a composite type.
    """
    if column_type(data_type) is None:
        raise PredicateError(f"a column of type {data_type} can only be tested for NULL, not evaluated")
    return Column(name, data_type)
