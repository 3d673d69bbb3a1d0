"""The functions of SQL: the types of their arguments and results, and the evaluators of their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hindex.errors import PredicateError
from hindex.expr import arithmetic, collections, dates, json_paths, strings
from hindex.expr.coerce import (
    FLOATING,
    NUMERIC,
    REMEDY,
    apply,
    arithmetic_sides,
    as_date,
    as_int,
    as_string,
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
    TIMESTAMP,
    Apply,
    Column,
    Constant,
    Node,
    decimal_type,
)
from hindex.expr.vector import Vector
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.predicate import Interval
from hindex.value_class import value_class

#: Types the arguments of a function by its name.
Signature = Callable[[str, Sequence[Node]], Node]
#: Computes values from the result's type, the arguments' values and the options of `Apply`.
Evaluator = Callable[..., Vector]


@value_class
class Function:
    """A function of SQL.

    Attributes:
        signature: the types of its arguments and result.
        evaluator: its values; None if `hindex.expr.evaluate` evaluates its arguments lazily.
    """

    signature: Signature
    evaluator: Evaluator | None


def type_arithmetic(op: str, args: Sequence[Node]) -> Node:
    """Type ``+ - * / % DIV`` of two numbers, and + and - of a date and a number of days."""
    left, right = args
    if DATE in (type_of(left), type_of(right)) and op in ("+", "-"):
        return _type_date_shift(op, left, right)
    left, right = arithmetic_sides(op, left, right)
    decimals = decimal_sides(left, right)
    if decimals is not None:
        data_type = BIGINT if op == "DIV" else decimal_result(op, type_of(decimals[0]), type_of(decimals[1]))
        return apply(op, decimals, data_type)
    if op == "/":
        return apply(op, coerced((left, right), DOUBLE), DOUBLE)
    if op == "DIV":
        if {type_of(left).kind, type_of(right).kind} & FLOATING:
            raise PredicateError("DIV takes integers and decimals, in Spark too: use / and floor")
        return apply(op, coerced((left, right), BIGINT), BIGINT)
    data_type = common_type((left, right), op)
    return apply(op, coerced((left, right), data_type), data_type)


def _type_date_shift(op: str, left: Node, right: Node) -> Node:
    if type_of(left) == DATE and type_of(right).kind in (Kind.BYTE, Kind.SHORT, Kind.INT):
        return apply("date_add" if op == "+" else "date_sub", (left, as_int(right, op)), DATE)
    if op == "+" and type_of(left).kind in (Kind.BYTE, Kind.SHORT, Kind.INT):
        return apply("date_add", (right, as_int(left, op)), DATE)
    raise PredicateError(
        f"{op} of values of type {type_of(left)} and {type_of(right)} is not evaluated: use date_add, date_sub or "
        f"datediff; {REMEDY}"
    )


def type_interval_shift(value: Node, interval: Interval, sign: int = 1) -> Node:
    """Type a date or time plus an interval: a date remains one if the interval has days or months only."""
    data_type = type_of(value)
    months, micros = sign * interval.months, sign * interval.micros
    if data_type == DATE and interval.has_days_only:
        function, number = ("add_months", months) if months else ("date_add", micros // MICROS_PER_DAY)
        return apply(function, (value, Constant(number, INT)), DATE)
    if data_type not in (DATE, TIMESTAMP):
        raise PredicateError(f"a value of type {data_type} plus {interval} is not evaluated; {REMEDY}")
    return apply("SHIFT", (cast_to(value, TIMESTAMP),), TIMESTAMP, (str(months), str(micros)))


def _type_signed(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    data_type = type_of(value)
    if is_null_literal(value):
        return Constant(None, DOUBLE)
    if data_type.kind not in NUMERIC:
        raise PredicateError(f"{name} of a value of type {data_type} is not evaluated; {REMEDY}")
    return apply(name, (value,), data_type)


def _type_floor(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    data_type = type_of(value)
    if data_type.kind is Kind.DECIMAL:
        carry = 1 if data_type.scale else 0
        return apply(name, (value,), decimal_type(min(data_type.precision - data_type.scale + carry, 38), 0))
    if is_null_literal(value) or data_type.kind in FLOATING:
        return apply(name, (cast_to(value, DOUBLE),), BIGINT)
    if data_type.kind in INTEGER_KINDS:
        return apply(name, (cast_to(value, BIGINT),), BIGINT)
    raise PredicateError(f"{name} of a value of type {data_type} is not evaluated; {REMEDY}")


def _type_round(name: str, args: Sequence[Node]) -> Node:
    value = args[0]
    digits = args[1] if len(args) > 1 else Constant(0, INT)
    data_type = type_of(value)
    if not isinstance(digits, Constant) or not isinstance(digits.value, int) or digits.value < 0:
        raise PredicateError(f"round is evaluated to a fixed number of digits, 0 or more; {REMEDY}")
    if data_type.kind in INTEGER_KINDS:
        return apply(name, (value,), data_type)
    if data_type.kind is not Kind.DECIMAL:
        raise PredicateError(
            f"round of a value of type {data_type} depends on how Java prints doubles; {REMEDY}"
        )
    scale = min(data_type.scale, digits.value)
    return apply(
        name, (value,), decimal_type(min(data_type.precision - data_type.scale + 1 + scale, 38), scale)
    )


def _type_isnan(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    data_type = type_of(value)
    if not is_null_literal(value) and data_type.kind not in NUMERIC | {Kind.STRING}:
        raise PredicateError(
            f"{name} takes a number, in Spark too, not a value of type {data_type}; cast it to double"
        )
    return apply(name, (value if data_type.kind in FLOATING else cast_to(value, DOUBLE),), BOOLEAN)


def _common(name: str, args: Sequence[Node]) -> Node:
    """Cast the arguments to one type, which is that of the result."""
    data_type = common_type(args, name)
    return apply(name, coerced(args, data_type), data_type)


def _strings(data_type: OrcType) -> Signature:
    return lambda name, args: apply(name, tuple(_string(name, arg) for arg in args), data_type)


def _in_case(name: str, args: Sequence[Node]) -> Node:
    """Leave out a change of case below another one, as Spark's optimizer does: ``lower(upper(s))`` is ``lower(s)``."""
    (arg,) = args
    while isinstance(arg, Apply) and arg.function in ("lower", "upper"):
        (arg,) = arg.args
    return apply(name, (_string(name, arg),), STRING)


def _string(name: str, arg: Node) -> Node:
    if type_of(arg).kind is Kind.BINARY:
        raise PredicateError(f"{name} of a binary value is not evaluated; {REMEDY}")
    return as_string(arg)


def _string_and_integers(name: str, args: Sequence[Node]) -> Node:
    return apply(name, (_string(name, args[0]), *(as_int(arg, name) for arg in args[1:])), STRING)


def _type_length(name: str, args: Sequence[Node]) -> Node:
    (value,) = args
    return apply(name, (value if type_of(value).kind is Kind.BINARY else as_string(value),), INT)


def _type_concat(name: str, args: Sequence[Node]) -> Node:
    if all(type_of(arg).kind is Kind.BINARY for arg in args):
        return apply(name, args, type_of(args[0]))
    return _strings(STRING)(name, args)


def _dates(data_type: OrcType) -> Signature:
    return lambda name, args: apply(name, tuple(map(as_date, args)), data_type)


def _timestamps(name: str, args: Sequence[Node]) -> Node:
    return apply(name, tuple(map(as_timestamp, args)), INT)


def _date_and_days(name: str, args: Sequence[Node]) -> Node:
    if type_of(args[1]).kind is Kind.LONG:
        raise PredicateError(f"{name} takes an int, not a bigint, in Spark too; cast it to int")
    return apply(name, (as_date(args[0]), as_int(args[1], name)), DATE)


def _type_array_contains(name: str, args: Sequence[Node]) -> Node:
    lists, *values = args
    element = _part_of(name, lists, Kind.LIST, 0)
    return apply(name, (lists, *(_as_element(name, element, value) for value in values)), BOOLEAN)


def _type_array(name: str, args: Sequence[Node]) -> Node:
    data_type = common_type(args, name)
    return Apply(name, coerced(args, data_type), OrcType(Kind.LIST, children=(data_type,)))


def _type_overlap(name: str, args: Sequence[Node]) -> Node:
    """Type it as `array_contains` of several values, which are those of the other array."""
    lists, others = args if isinstance(args[1], Apply) and args[1].function == "array" else args[::-1]
    if not isinstance(others, Apply) or others.function != "array":
        raise PredicateError(
            f"{name} is evaluated for an array of constants, as in array('a', 'b'); {REMEDY}"
        )
    return _type_array_contains("array_contains", (lists, *others.args))


def _type_map_part(name: str, args: Sequence[Node]) -> Node:
    (maps,) = args
    part = _part_of(name, maps, Kind.MAP, 0 if name == "map_keys" else 1)
    return apply(name, args, OrcType(Kind.LIST, children=(part,)))


def _type_element(name: str, args: Sequence[Node]) -> Node:
    maps, key = args
    key_type = _part_of(name, maps, Kind.MAP, 0)
    value = Column("", _part_of(name, maps, Kind.MAP, 1))
    return apply(name, (maps, _as_element("the key in [...]", key_type, key)), value.type)


def _type_elements(name: str, args: Sequence[Node]) -> Node:
    """Return an array for its elements: only indexes have several values a row."""
    (lists,) = args
    _part_of("[*]", lists, Kind.LIST, 0)
    return lists


def _type_element_field(name: str, args: Sequence[Node]) -> Node:
    lists, field = args
    data_type = type_of(lists)
    element = data_type.children[0] if data_type.kind is Kind.LIST else data_type
    names = [item.lower() for item in element.field_names] if element.kind is Kind.STRUCT else []
    wanted = field.value.lower() if isinstance(field, Constant) and isinstance(field.value, str) else ""
    if data_type.kind is not Kind.LIST or names.count(wanted) != 1:
        raise PredicateError(
            f"a value of type {data_type} has no elements with one field {wanted!r}; {REMEDY}"
        )
    at = names.index(wanted)
    return apply(name, (lists,), OrcType(Kind.LIST, children=(element.children[at],)), (str(at),))


def _part_of(name: str, value: Node, kind: Kind, at: int) -> OrcType:
    """Return the type of the elements of an array, or of the keys or values of a map."""
    data_type = type_of(value)
    if data_type.kind is not kind:
        raise PredicateError(f"{name} of a value of type {data_type} is not evaluated; {REMEDY}")
    part = data_type.children[at]
    if part.kind in _PLAIN_PARTS:
        return part
    raise PredicateError(f"{name} is not evaluated for elements of type {part}; {REMEDY}")


def _as_element(name: str, element: OrcType, value: Node) -> Constant:
    """Return a constant in the type of the elements that it is compared with."""
    # strings of limited length are strings in expressions
    to, own = Column("", element).type, type_of(value)
    is_number = element.kind in _EXACT_NUMBERS and own.kind in _EXACT_NUMBERS
    is_double = element.kind is Kind.DOUBLE and own.kind in _EXACT_NUMBERS
    if isinstance(value, Constant) and value.value is not None and (own == to or is_number or is_double):
        constant = cast_to(value, to)
        if isinstance(constant, Constant) and (own == to or is_double or constant.value == value.value):
            return constant
    raise PredicateError(
        f"{name} is evaluated for constants of type {element}, the type of the elements or keys; {REMEDY}"
    )


#: Types of elements whose equality is that of their keys.
_PLAIN_PARTS = frozenset(
    {Kind.BOOLEAN, Kind.STRING, Kind.VARCHAR, Kind.BINARY, Kind.DATE, Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE}
    | INTEGER_KINDS
)
_EXACT_NUMBERS = INTEGER_KINDS | {Kind.DECIMAL}
#: Functions that take arrays or maps.
OF_COLLECTIONS = frozenset(
    {"[]", "[*]", "[*].", "array_contains", "arrays_overlap", "map_keys", "map_values"}
)


def _type_months(name: str, args: Sequence[Node]) -> Node:
    return apply(name, (as_date(args[0]), as_int(args[1], name)), DATE)


def _type_trunc(name: str, args: Sequence[Node]) -> Node:
    return _truncated(name, as_date(args[0]), args[1], DATE, dates.DATE_UNITS)


def _type_date_trunc(name: str, args: Sequence[Node]) -> Node:
    return _truncated(name, as_timestamp(args[1]), args[0], TIMESTAMP, dates.UNITS)


def _truncated(name: str, value: Node, unit: Node, data_type: OrcType, units: Mapping[str, str]) -> Node:
    if not isinstance(unit, Constant) or not isinstance(unit.value, str | None):
        raise PredicateError(f"{name} takes a unit in quotes here, such as 'MONTH'; {REMEDY}")
    known_unit = None if unit.value is None else units.get(unit.value.upper())
    return (
        Constant(None, data_type) if known_unit is None else apply(name, (value,), data_type, (known_unit,))
    )


def _type_get_json_object(name: str, args: Sequence[Node]) -> Node:
    text, path = args
    if type_of(text) != STRING and not is_null_literal(text):
        raise PredicateError(
            f"{name} takes a string, in Spark too, not a value of type {type_of(text)}; cast it"
        )
    if not isinstance(path, Constant) or not isinstance(path.value, str | None):
        raise PredicateError(f"{name} takes a path in quotes here, such as '$.user.id'; {REMEDY}")
    steps = None if path.value is None else json_paths.parse_path(path.value)
    return Constant(None, STRING) if steps is None else apply(name, (as_string(text),), STRING, steps)


#: Functions by the names of `hindex.sql.functions.EVALUATED`; a test compares both tables.
FUNCTIONS: dict[str, Function] = {
    "[]": Function(_type_element, collections.value_of_key),
    "[*]": Function(_type_elements, None),
    "[*].": Function(_type_element_field, collections.element_field),
    "abs": Function(_type_signed, arithmetic.absolute),
    "add_months": Function(_type_months, dates.add_months),
    "array": Function(_type_array, collections.array),
    "array_contains": Function(_type_array_contains, collections.contains_any),
    "arrays_overlap": Function(_type_overlap, None),
    "ceil": Function(_type_floor, arithmetic.ceil),
    "coalesce": Function(_common, None),
    "concat": Function(_type_concat, strings.concat),
    "contains": Function(_strings(BOOLEAN), strings.contains),
    "date_add": Function(_date_and_days, dates.date_add),
    "date_sub": Function(_date_and_days, dates.date_sub),
    "date_trunc": Function(_type_date_trunc, dates.date_trunc),
    "datediff": Function(_dates(INT), dates.datediff),
    "day": Function(_dates(INT), dates.day),
    "dayofweek": Function(_dates(INT), dates.dayofweek),
    "dayofyear": Function(_dates(INT), dates.dayofyear),
    "endswith": Function(_strings(BOOLEAN), strings.endswith),
    "floor": Function(_type_floor, arithmetic.floor),
    "get_json_object": Function(_type_get_json_object, json_paths.get_json_object),
    "greatest": Function(_common, None),
    "hour": Function(_timestamps, dates.hour),
    "instr": Function(_strings(INT), strings.instr),
    "isnan": Function(_type_isnan, arithmetic.isnan),
    "last_day": Function(_dates(DATE), dates.last_day),
    "least": Function(_common, None),
    "left": Function(_string_and_integers, strings.left),
    "length": Function(_type_length, strings.length),
    "lower": Function(_in_case, strings.lower),
    "ltrim": Function(_strings(STRING), strings.ltrim),
    "map_keys": Function(_type_map_part, collections.map_keys),
    "map_values": Function(_type_map_part, collections.map_values),
    "minute": Function(_timestamps, dates.minute),
    "month": Function(_dates(INT), dates.month),
    "negative": Function(_type_signed, arithmetic.negative),
    "quarter": Function(_dates(INT), dates.quarter),
    "replace": Function(_strings(STRING), strings.replace),
    "right": Function(_string_and_integers, strings.right),
    "round": Function(_type_round, arithmetic.round_half_up),
    "rtrim": Function(_strings(STRING), strings.rtrim),
    "second": Function(_timestamps, dates.second),
    "startswith": Function(_strings(BOOLEAN), strings.startswith),
    "substring": Function(_string_and_integers, strings.substring),
    "trim": Function(_strings(STRING), strings.trim),
    "trunc": Function(_type_trunc, dates.trunc),
    "upper": Function(_in_case, strings.upper),
    "weekday": Function(_dates(INT), dates.weekday),
    "weekofyear": Function(_dates(INT), dates.weekofyear),
    "year": Function(_dates(INT), dates.year),
}
