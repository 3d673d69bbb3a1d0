"""Translate PyArrow's filter expressions to predicates, as far as indexes can answer them.

PyArrow compares as IEEE 754 does, hindex as Spark does: NaN is the greatest value there, and equal to itself. So each
part of an expression becomes two predicates: one that holds at least for the rows where the part is true, one at least
for those where it is false. A part that has none prunes nothing. Where both hold for no other rows, the translation is
exact.

An expression is read as PyArrow pickles it, which keeps every function, option and literal. Substrait, the alternative,
has no casts that check for overflow (PyArrow adds them to compare ``float`` columns), no timestamps in nanoseconds, and
fails as a whole where it lacks one part.

Source: Apache Arrow C++, ``Serialize`` of ``arrow/compute/expression.h``; the Arrow C data interface, "Metadata".
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import HindexError
from hindex.keys import INT64_MAX, INT64_MIN
from hindex.sql.literals import of_value
from hindex.sql.predicate import (
    BooleanValue,
    Call,
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
    TruthValue,
    all_of,
    any_of,
    quote_string,
)
from hindex.sql.string_values import format_date
from hindex.value_class import value_class

_TRUE, _FALSE = TruthValue(True), TruthValue(False)
_NAN = Literal(math.nan, LiteralKind.DOUBLE)

_COMPARISONS = {
    "equal": ComparisonOp.EQ,
    "not_equal": ComparisonOp.NE,
    "less": ComparisonOp.LT,
    "less_equal": ComparisonOp.LE,
    "greater": ComparisonOp.GT,
    "greater_equal": ComparisonOp.GE,
}
_SYMBOLS = {
    op: "==" if op is ComparisonOp.EQ else "!=" if op is ComparisonOp.NE else op.value for op in ComparisonOp
}
_OPPOSITES = {
    ComparisonOp.LT: ComparisonOp.GE,
    ComparisonOp.GE: ComparisonOp.LT,
    ComparisonOp.GT: ComparisonOp.LE,
    ComparisonOp.LE: ComparisonOp.GT,
}
#: Tests of a part of a string, as patterns of LIKE.
_PARTS = {"starts_with": "{}%", "ends_with": "%{}", "match_substring": "%{}%"}
#: Spark's functions of dates with the values of PyArrow's.
_DATE_PARTS = {name: name for name in ("year", "quarter", "month", "day")} | {"day_of_year": "dayofyear"}
#: ``null_matching_behavior`` of ``is_in``.
_MATCH, _SKIP = 0, 1

_MICROS_PER_DAY = 86_400_000_000
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}
#: PyArrow may compare in 32-bit floats, which have 24 bits: two more than enough.
_FLOAT_ERROR = Decimal(2) ** -22
#: Characters that are shown of a literal, and of a call.
_LITERAL_SHOWN, _CALL_SHOWN = 60, 1000


@value_class
class TranslatedFilter:
    """A filter expression as a predicate that keeps at least its rows.

    Attributes:
        text: the expression for people; long parts are cut.
        predicate: None where it would keep every row.
        is_exact: True if it keeps no other rows than the expression does.
        unsupported: the parts that no predicate stands for, as text.
        columns: top-level columns that the expression reads; None if unknown.
    """

    text: str
    predicate: Predicate | None
    is_exact: bool
    unsupported: tuple[str, ...] = ()
    columns: frozenset[str] | None = None


def translate_filter(
    expression: pc.Expression,
    schema: pa.Schema,
    accepts: Callable[[Predicate], object],
    is_padded: Callable[[tuple[str, ...]], bool] = lambda path: False,
) -> TranslatedFilter:
    """Translate a filter expression to a predicate.

    Args:
        schema: the columns that it is on.
        accepts: raises a HindexError for a predicate that cannot be evaluated on the table.
        is_padded: returns True if hindex pads the strings that a column, or a field of structs, is compared with, as
            Spark does for CHAR.
    """
    try:
        tokens = list(_tokens(expression))
    except (pa.ArrowException, NotImplementedError, ValueError):
        # fields by number, and what a later version of PyArrow may write
        text = _expression_text(expression)
        return TranslatedFilter(text, None, False, (text,))
    translator = _Translator(schema, accepts, is_padded)
    for kind, value in tokens:
        translator.add(kind, value)
    condition = translator.condition(translator.result())
    always = isinstance(condition.true, TruthValue) and condition.true.value is True
    return TranslatedFilter(
        condition.text,
        None if always else condition.true,
        condition.is_exact,
        tuple(dict.fromkeys(translator.unsupported)),
        frozenset(translator.columns),
    )


def read_columns(expression: pc.Expression) -> frozenset[str] | None:
    """Return the top-level columns that an expression reads; None if unknown."""
    try:
        return frozenset(value[0] for kind, value in _tokens(expression) if kind == "field")
    except (pa.ArrowException, NotImplementedError, ValueError):
        return None


# Reading


def _tokens(expression: pc.Expression) -> Iterator[tuple[str, Any]]:
    """Yield ``("field", path)``, ``("literal", scalar)``, ``("call", name)`` and ``("end", options)``, in order.

    Raises:
        ValueError: for what is not an expression as it is written here.
    """
    with pa.ipc.open_file(expression.__reduce__()[1][0]) as file:
        batch = file.get_batch(0)
    words = iter(_metadata(batch.schema))
    options: dict[str, Any] = {}
    for key, value in words:
        match key:
            case "field_ref":
                yield "field", (value,)
            case "nested_field_ref":
                path = tuple(next(words, ("", "")) for _ in range(int(value)))
                if any(step != "field_ref" for step, _ in path):
                    raise ValueError("a step of the path is not a name")
                yield "field", tuple(name for _, name in path)
            case "literal":
                yield "literal", batch.column(int(value))[0]
            case "call":
                yield "call", value
            case "options":
                options = dict(batch.column(int(value))[0].items())
            case "end":
                yield "end", options
                options = {}
            case _:
                raise ValueError(f"{key!r} is not a part of an expression")


class _ArrowSchema(ctypes.Structure):
    """The beginning of ``struct ArrowSchema``."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the metadata in order: as a dictionary, which ``schema.metadata`` is, it lacks repeated keys."""
    capsule = schema.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = get_pointer(capsule, b"arrow_schema")
    assert address is not None
    at = _ArrowSchema.from_address(address).metadata

    def number() -> int:
        nonlocal at
        assert at is not None
        (value,) = struct.unpack("=i", ctypes.string_at(at, 4))
        at += 4
        return int(value)

    def text() -> str:
        nonlocal at
        length = number()
        assert at is not None
        value = ctypes.string_at(at, length)
        at += length
        return value.decode()

    return [(text(), text()) for _ in range(number())] if at else []


# Translating


@value_class
class _Column:
    """A column, or a field within structs, and its type; or a part of a date, by the name of Spark's function."""

    path: tuple[str, ...]
    type: pa.DataType
    text: str
    is_padded: bool = False
    part: str = ""

    @property
    def ref(self) -> ColumnRef | Call:
        column = ColumnRef(self.path)
        return Call(self.part, (column,)) if self.part else column


@value_class
class _Value:
    """A literal."""

    scalar: pa.Scalar[Any]
    text: str


@value_class
class _Condition:
    """A condition: predicates of at least the rows where it is true, and of those where it is false.

    It is exact if each holds for no other rows.
    """

    true: Predicate
    false: Predicate
    is_exact: bool
    text: str


@value_class
class _Other:
    """A value that nothing here stands for."""

    text: str


_Part = _Column | _Value | _Condition | _Other


class _Translator:
    """Translates the parts of an expression from its leaves up, without recursion."""

    def __init__(
        self,
        schema: pa.Schema,
        accepts: Callable[[Predicate], object],
        is_padded: Callable[[tuple[str, ...]], bool],
    ) -> None:
        self._schema = schema
        self._accepts = accepts
        self._is_padded = is_padded
        # one for each open call, below them one for the whole: the call's name, and its arguments so far
        self._open: list[tuple[str, list[_Part]]] = [("", [])]
        self.unsupported: list[str] = []
        self.columns: set[str] = set()

    def add(self, kind: str, value: Any) -> None:  # noqa: ANN401 as the kind says
        """Add a token of `_tokens`."""
        match kind:
            case "call":
                self._open.append((value, []))
                return
            case "end":
                name, args = self._open.pop()
                part = self._call(name, args, value)
            case "field":
                part = self._field(value)
            case _:
                is_string = value.is_valid and _is_string(value.type)
                part = _Value(value, _shortened(quote_string(value.as_py()) if is_string else value))
        self._open[-1][1].append(part)

    def result(self) -> _Part:
        [(_, [part])] = self._open
        return part

    def _field(self, path: tuple[str, ...]) -> _Part:
        self.columns.add(path[0])
        data_type: pa.DataType = pa.struct(list(self._schema))
        text = ".".join(path)
        for name in path:
            at = data_type.get_field_index(name) if pa.types.is_struct(data_type) else -1
            if at < 0:
                return _Other(text)
            data_type = data_type.field(at).type
        return _Column(path, data_type, text, self._is_padded(path))

    def condition(self, part: _Part) -> _Condition:
        """Return a part as a condition."""
        match part:
            case _Condition():
                return part
            case _Column(path, data_type, text) if pa.types.is_boolean(data_type):
                predicate = BooleanValue(ColumnRef(path))
                return self._checked(predicate, Not(predicate), True, text)
            case _Value(scalar, text) if pa.types.is_boolean(scalar.type) or pa.types.is_null(scalar.type):
                truth = scalar.as_py()
                return _Condition(TruthValue(truth is True), TruthValue(truth is False), True, text)
            case _:
                return self._unknown(part.text)

    def _unknown(self, text: str) -> _Condition:
        self.unsupported.append(text)
        return _Condition(_TRUE, _TRUE, False, text)

    def _checked(self, true: Predicate, false: Predicate, is_exact: bool, text: str) -> _Condition:
        """Return a condition, if the table can evaluate both of its predicates."""
        try:
            self._accepts(true)
            self._accepts(false)
        except HindexError:
            return self._unknown(text)
        if not is_exact:
            self.unsupported.append(text)
        return _Condition(true, false, is_exact, text)

    def _call(self, name: str, args: list[_Part], options: dict[str, Any]) -> _Part:
        text = _shortened(f"{name}({', '.join(arg.text for arg in args)})", _CALL_SHOWN)
        match name, args:
            case "and_kleene" | "or_kleene", [left, right]:
                return _connected(name == "and_kleene", self.condition(left), self.condition(right))
            case "invert", [child]:
                negated = self.condition(child)
                return _Condition(negated.false, negated.true, negated.is_exact, f"not ({negated.text})")
            case "if_else", [test, then, otherwise]:
                return _chosen(self.condition(test), self.condition(then), self.condition(otherwise), text)
            case "is_valid" | "true_unless_null" | "is_null" | "is_nan", [_Column() as column]:
                return self._tested(name, column, options, text)
            case "is_in", [_Column() as column]:
                return self._member(column, options, text)
            case _, [_Column(part="") as column] if name in _DATE_PARTS and pa.types.is_date32(column.type):
                return replace(column, type=pa.int64(), text=text, part=_DATE_PARTS[name])
            case _, [_Column() as column] if name in _PARTS:
                return self._matched(name, column, options, text)
            case "cast", [_Column() as column]:
                return self._cast(column, options, text)
            case _, [_Column() as column, _Value() as value] if name in _COMPARISONS:
                return self._compared(_COMPARISONS[name], column, value)
            case _, [_Value() as value, _Column() as column] if name in _COMPARISONS:
                return self._compared(_COMPARISONS[name].flipped, column, value)
            case _:
                return _Other(text)

    def _tested(self, name: str, column: _Column, options: dict[str, Any], text: str) -> _Part:
        null: Predicate = IsNull(column.ref)
        valid: Predicate = Not(null)
        is_float = pa.types.is_floating(column.type)
        nan = Comparison(ComparisonOp.EQ, column.ref, _NAN)
        not_nan = Comparison(ComparisonOp.LT, column.ref, _NAN)
        match name:
            case "is_valid":
                return self._checked(valid, null, True, text)
            case "true_unless_null":
                return self._checked(valid, _FALSE, True, text)
            case "is_null" if is_float and options["nan_is_null"].as_py():
                return self._checked(any_of((null, nan)), not_nan, True, text)
            case "is_null":
                return self._checked(null, valid, True, text)
            case _ if is_float:
                return self._checked(nan, not_nan, True, text)
            case _:
                return _Other(text)

    def _member(self, column: _Column, options: dict[str, Any], text: str) -> _Part:
        values = options["value_set"]
        nulls = options["null_matching_behavior"].as_py()
        literals: list[Literal] = []
        # beside a padded column, shorter strings may be equal to a value
        is_exact = not column.is_padded
        is_float = pa.types.is_floating(column.type)
        for scalar in values.values:
            if not scalar.is_valid:
                continue
            bounds = _bounds(column.type, scalar)
            if bounds is None or bounds[0] != bounds[1]:
                return _Other(text)
            literals.append(bounds[0])
            # it looks values up by their bits: 0.0 is not -0.0, and NaN may be NaN
            is_exact &= not (is_float and (not scalar.as_py() or math.isnan(scalar.as_py())))
        null, has_null = IsNull(column.ref), values.values.null_count > 0
        members: list[Predicate] = [In(column.ref, tuple(literals))] if literals else []
        others: list[Predicate] = [Not(members[0])] if literals else [Not(null)]
        if nulls == _MATCH and has_null:
            members.append(null)
        elif nulls in (_MATCH, _SKIP):
            others.append(null)
        else:
            # how NULL is answered differs between versions
            is_exact = False
        shown = f"{column.text} in ({', '.join(_shortened(literal) for literal in literals[:5])}"
        shown += f", … {len(literals) - 5:,} more)" if len(literals) > 5 else ")"
        return self._checked(any_of(members), any_of(others) if is_exact else _TRUE, is_exact, shown)

    def _matched(self, name: str, column: _Column, options: dict[str, Any], text: str) -> _Part:
        try:
            pattern = options["pattern"].as_py()
        except UnicodeDecodeError:
            return _Other(text)
        if (
            not _is_string(column.type)
            or column.is_padded
            or options["ignore_case"].as_py()
            or not isinstance(pattern, str)
        ):
            return _Other(text)
        escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        predicate = Like(column.ref, _PARTS[name].format(escaped))
        return self._checked(predicate, Not(predicate), True, f"{name}({column.text}, {_shortened(pattern)})")

    def _cast(self, column: _Column, options: dict[str, Any], text: str) -> _Part:
        """Return a column for a cast that changes none of its values, if only its type's name is another."""
        to = options["to_type"].type
        is_wider = (
            (
                pa.types.is_integer(column.type)
                and pa.types.is_signed_integer(to)
                and to.bit_width >= column.type.bit_width
            )
            or (_is_bytes(column.type) and _is_bytes(to))
            or (pa.types.is_float32(column.type) and pa.types.is_float64(to))
            or to == column.type
        )
        if not is_wider or column.is_padded:
            return _Other(text)
        return replace(column, type=to, text=text)

    def _compared(self, op: ComparisonOp, column: _Column, value: _Value) -> _Part:
        text = f"{column.text} {_SYMBOLS[op]} {value.text}"
        null: Predicate = IsNull(column.ref)
        if not value.scalar.is_valid:
            return _Condition(_FALSE, _FALSE, True, text)
        is_float = pa.types.is_floating(column.type)
        if is_float and pa.types.is_floating(value.scalar.type) and math.isnan(value.scalar.as_py()):
            is_true = op is ComparisonOp.NE
            return self._checked(
                Not(null) if is_true else _FALSE, _FALSE if is_true else Not(null), True, text
            )
        bounds = _bounds(column.type, value.scalar)
        if bounds is None:
            return _Other(text)
        low, high = bounds
        is_exact = low == high and not column.is_padded
        if column.is_padded and op not in (ComparisonOp.EQ, ComparisonOp.NE):
            return _Other(text)
        if op in (ComparisonOp.EQ, ComparisonOp.NE):
            equal: Predicate = Comparison(ComparisonOp.EQ, column.ref, low)
            other: Predicate = Comparison(ComparisonOp.NE, column.ref, low)
            if not is_exact:
                other = Not(null)
            if low != high:
                equal = all_of(
                    (
                        Comparison(ComparisonOp.GE, column.ref, low),
                        Comparison(ComparisonOp.LE, column.ref, high),
                    )
                )
            pair = (equal, other) if op is ComparisonOp.EQ else (other, equal)
            return self._checked(*pair, is_exact, text)
        true, false = (
            _ordered(each, column.ref, low, high, is_float, is_negated)
            for each, is_negated in ((op, False), (_OPPOSITES[op], True))
        )
        return self._checked(true, false, is_exact, text)


def _connected(is_and: bool, left: _Condition, right: _Condition) -> _Condition:
    first, second = (all_of, any_of) if is_and else (any_of, all_of)
    return _Condition(
        _simple(first, left.true, right.true),
        _simple(second, left.false, right.false),
        left.is_exact and right.is_exact,
        _shortened(f"({left.text} {'and' if is_and else 'or'} {right.text})", _CALL_SHOWN),
    )


def _chosen(test: _Condition, then: _Condition, otherwise: _Condition, text: str) -> _Condition:
    def either(a: Predicate, b: Predicate) -> Predicate:
        return _simple(any_of, _simple(all_of, test.true, a), _simple(all_of, test.false, b))

    is_exact = test.is_exact and then.is_exact and otherwise.is_exact
    return _Condition(either(then.true, otherwise.true), either(then.false, otherwise.false), is_exact, text)


def _ordered(
    op: ComparisonOp, column: ColumnRef | Call, low: Literal, high: Literal, is_float: bool, is_negated: bool
) -> Predicate:
    """Return the predicate of ``column op literal``, where the literal is between two others.

    Args:
        is_negated: NaN, which compares with nothing, is among the rows.
    """
    is_below = op in (ComparisonOp.LT, ComparisonOp.LE)
    comparison = Comparison(op, column, high if is_below else low)
    if not is_float:
        return comparison
    if is_below and is_negated:
        return any_of((comparison, Comparison(ComparisonOp.EQ, column, _NAN)))
    if not is_below and not is_negated:
        return all_of((comparison, Comparison(ComparisonOp.LT, column, _NAN)))
    return comparison


def _simple(
    combine: Callable[[Sequence[Predicate]], Predicate], left: Predicate, right: Predicate
) -> Predicate:
    """Combine two predicates; a constant decides, or goes."""
    neutral = combine is all_of
    for one, other in ((left, right), (right, left)):
        if isinstance(one, TruthValue):
            return other if one.value is neutral else one
    return combine((left, right))


# Literals


def _bounds(column: pa.DataType, scalar: pa.Scalar[Any]) -> tuple[Literal, Literal] | None:
    """Return literals that a value is between, beside a column of a type; equal ones if it is exactly that.

    PyArrow may round a value, or the column's, before it compares them; the literals are so far apart that this makes
    no difference. None where the types are of different families.
    """
    data_type = scalar.type
    value = None if pa.types.is_temporal(data_type) else scalar.as_py()
    try:
        if pa.types.is_boolean(column) and isinstance(value, bool):
            return _both(of_value(value))
        if pa.types.is_integer(column):
            return _integer_bounds(value)
        if pa.types.is_floating(column):
            return _float_bounds(column, value)
        if pa.types.is_decimal(column):
            return _decimal_bounds(column, value)
        if _is_bytes(column) and isinstance(value, str | bytes):
            return _both(_string_literal(column, value))
        if pa.types.is_date32(column):
            return _date_bounds(scalar)
        if pa.types.is_timestamp(column):
            return _timestamp_bounds(column, scalar)
    except (HindexError, ArithmeticError, ValueError):
        pass  # what SQL has no literals of
    return None


def _both(literal: Literal | None) -> tuple[Literal, Literal] | None:
    return None if literal is None else (literal, literal)


def _integer_bounds(value: object) -> tuple[Literal, Literal] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Decimal) and not INT64_MIN <= value <= INT64_MAX:
        # Spark's comparison with such a number is a constant, also for null, and PyArrow's is not
        return None
    if isinstance(value, int):
        return _both(of_value(value))
    if isinstance(value, float) and math.isfinite(value):
        low, high = _widened(Decimal(value))
        # Python rounds to whole numbers without a bound on their digits
        return Literal(math.floor(low) - 1, LiteralKind.INTEGER), Literal(
            math.ceil(high) + 1, LiteralKind.INTEGER
        )
    if isinstance(value, Decimal):
        return Literal(math.floor(value), LiteralKind.INTEGER), Literal(math.ceil(value), LiteralKind.INTEGER)
    return None


def _float_bounds(column: pa.DataType, value: object) -> tuple[Literal, Literal] | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    exact = float(value)
    if exact != value:
        return None
    if pa.types.is_float64(column):
        return _both(of_value(exact))
    with np.errstate(over="ignore"):
        rounded = float(np.float32(exact))
    return (
        Literal(min(exact, rounded), LiteralKind.DOUBLE),
        Literal(max(exact, rounded), LiteralKind.DOUBLE),
    )


def _decimal_bounds(column: pa.DataType, value: object) -> tuple[Literal, Literal] | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return _both(of_value(Decimal(value)))
    if isinstance(value, Decimal):
        return _both(of_value(value))
    if isinstance(value, float) and math.isfinite(value):
        low, high = _widened(Decimal(value))
        with localcontext() as context:
            context.prec = 80
            unit = Decimal(1).scaleb(-column.scale)
            ends = low.quantize(unit, ROUND_FLOOR), high.quantize(unit, ROUND_CEILING)
        literals = [of_value(end) for end in ends]
        if literals[0] is not None and literals[1] is not None:
            return literals[0], literals[1]
    return None


def _widened(value: Decimal) -> tuple[Decimal, Decimal]:
    with localcontext() as context:
        context.prec = 80
        error = abs(value) * _FLOAT_ERROR
        return value - error, value + error


def _string_literal(column: pa.DataType, value: str | bytes) -> Literal | None:
    if _is_string(column) and isinstance(value, bytes):
        return of_value(value.decode())
    if not _is_string(column) and isinstance(value, str):
        return of_value(value.encode())
    return of_value(value)


def _date_bounds(scalar: pa.Scalar[Any]) -> tuple[Literal, Literal] | None:
    data_type = scalar.type
    if pa.types.is_date32(data_type):
        days, rest = scalar.value, 0
    elif pa.types.is_date64(data_type):
        days, rest = divmod(scalar.value, 86_400_000)
    elif pa.types.is_timestamp(data_type) and data_type.tz is None:
        days, rest = divmod(scalar.value * _NANOS[data_type.unit], _MICROS_PER_DAY * 1000)
    else:
        return None
    return Literal(days, LiteralKind.DATE), Literal(days + bool(rest), LiteralKind.DATE)


def _timestamp_bounds(column: pa.DataType, scalar: pa.Scalar[Any]) -> tuple[Literal, Literal] | None:
    data_type = scalar.type
    if pa.types.is_date(data_type) and column.tz is None:
        per_day = _MICROS_PER_DAY if pa.types.is_date32(data_type) else 1000
        micros, rest = scalar.value * per_day, 0
    elif pa.types.is_timestamp(data_type) and (data_type.tz is None) == (column.tz is None):
        micros, rest = divmod(scalar.value * _NANOS[data_type.unit], 1000)
    else:
        return None
    has_zone = column.tz is not None
    return _timestamp(micros, has_zone), _timestamp(micros + bool(rest), has_zone)


def _timestamp(micros: int, has_zone: bool) -> Literal:
    """Return the literal of microseconds since 1970, of a clock or of UTC's."""
    days, rest = divmod(micros, _MICROS_PER_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return Literal(f"{format_date(days)} {clock}{'+00:00' if has_zone else ''}", LiteralKind.TIMESTAMP)


def _is_string(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


def _is_bytes(data_type: pa.DataType) -> bool:
    return bool(
        _is_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


def _shortened(value: object, max_length: int = _LITERAL_SHOWN) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= max_length else f"{text[:max_length]}…"


def _expression_text(expression: pc.Expression) -> str:
    try:
        return _shortened(expression, _CALL_SHOWN)
    except UnicodeDecodeError:
        return "an expression"  # PyArrow cuts long strings within characters
