"""Expressions as written to typed expressions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import assert_never

from hindex.errors import ColumnError, PredicateError
from hindex.expr import functions, patterns
from hindex.expr.coerce import (
    apply,
    as_string,
    cast_to,
    coerced,
    column,
    common_type,
    decimal_constant,
    fits_bigint,
    is_null_literal,
    literal_constant,
    type_of,
)
from hindex.expr.instants import instant_constant
from hindex.expr.nodes import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Apply,
    Column,
    Constant,
    Node,
    decimal_type,
)
from hindex.keys import INT64_MAX, INT64_MIN
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.functions import element_field
from hindex.sql.predicate import (
    And,
    Arithmetic,
    ArithmeticOp,
    BooleanValue,
    Call,
    Case,
    Cast,
    ColumnRef,
    Comparison,
    ComparisonOp,
    Expression,
    In,
    Interval,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Not,
    Or,
    Predicate,
    RLike,
    TruthValue,
    operands,
)
from hindex.sql.string_values import WallClock, date_to_days, is_epoch, parse_wall_clock
from hindex.validation import is_utf8

#: Deeper expressions could exhaust the stack.
MAX_DEPTH = 150

#: To which side Spark rounds a decimal literal beside a whole number.
_ROUNDED = {
    ComparisonOp.GT: ROUND_FLOOR,
    ComparisonOp.LE: ROUND_FLOOR,
    ComparisonOp.GE: ROUND_CEILING,
    ComparisonOp.LT: ROUND_CEILING,
}

_TYPES = {
    "BOOLEAN": BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": SMALLINT,
    "INT": INT,
    "BIGINT": BIGINT,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": STRING,
    "BINARY": BINARY,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
}

#: A column of the table by the parts of its name: its name there, and its type.
Resolve = Callable[[tuple[str, ...]], tuple[str, OrcType]]


#: Literals that Spark casts to instants beside a column of these.
_TIME_KINDS = frozenset({LiteralKind.STRING, LiteralKind.DATE, LiteralKind.TIMESTAMP})


def typed(expression: Expression, resolve: Resolve) -> Node:
    """Type a value as Spark's analyzer does in ANSI mode.

    Raises:
        PredicateError: if Spark refuses it, or it is not evaluated here; the message says which.
        ColumnError: if a column cannot be resolved.
    """
    return _Typer(resolve).value(expression, 0)


def typed_condition(predicate: Predicate, resolve: Resolve, zone: datetime.tzinfo = datetime.UTC) -> Node:
    """Type a condition; errors are those of `typed`.

    Args:
        zone: the session's time zone: that of times written without one, beside a column of instants.
    """
    return _Typer(resolve, zone).condition(predicate, 0)


def too_deep() -> PredicateError:
    return PredicateError(f"an expression is deeper than {MAX_DEPTH} levels; write a shorter one")


def check_depth(root: Expression) -> None:
    """Check that an expression cannot exhaust the stack.

    Raises:
        PredicateError: if it could.
    """
    stack = [(root, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise too_deep()
        stack.extend((child, depth + 1) for child in operands(node))


class _Typer:
    def __init__(self, resolve: Resolve, zone: datetime.tzinfo = datetime.UTC) -> None:
        self._resolve = resolve
        self._zone = zone

    def value(self, node: Expression, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise too_deep()
        below = depth + 1
        match node:
            case ColumnRef(parts):
                return column(*self._resolve(parts))
            case Literal():
                return constant(node)
            case Arithmetic(ArithmeticOp.ADD | ArithmeticOp.SUBTRACT as op, left, Interval() as interval):
                sign = 1 if op is ArithmeticOp.ADD else -1
                return functions.type_interval_shift(self.value(left, below), interval, sign)
            case Arithmetic(ArithmeticOp.ADD, Interval() as interval, right):
                return functions.type_interval_shift(self.value(right, below), interval)
            case Arithmetic(op, left, right):
                return functions.type_arithmetic(
                    op.value, (self.value(left, below), self.value(right, below))
                )
            case Call(name, args):
                function = functions.FUNCTIONS.get(name)
                if function is None:
                    # queries have constants in the place of the clock's functions
                    raise PredicateError(f"{name} has another value at another time")
                return function.signature(name, [self._argument(name, arg, below) for arg in args])
            case Cast(Literal(int() as number), to, is_literal=True):
                return literal_constant(number, _TYPES[to])
            case Cast(child, to, is_try):
                value = cast_to(self.value(child, below), _cast_type(to), is_try=is_try)
                # as any value that is computed, and unlike the column, it is not filled beside others
                return apply("concat", (value,), STRING) if _char_length(value) else value
            case Interval():
                raise PredicateError(f"{node} can only be added to a date or a time, or subtracted from one")
            case Case(whens, otherwise):
                return self._case(whens, otherwise, below)
            case _:
                return self.condition(node, depth)

    def _argument(self, function: str, arg: Expression, depth: int) -> Node:
        """Type an argument of a function: only some take columns of arrays and maps."""
        if isinstance(arg, ColumnRef) and function in functions.OF_COLLECTIONS:
            try:
                return Column(*self._resolve(arg.parts))
            except ColumnError:
                if len(arg.parts) == 1:
                    raise
            # Spark's spelling of a field of all elements
            return self.value(element_field(ColumnRef(arg.parts[:-1]), arg.parts[-1]), depth)
        return self.value(arg, depth)

    def condition(self, node: Predicate, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise too_deep()
        below = depth + 1
        match node:
            case TruthValue(truth):
                return Constant(truth, BOOLEAN)
            case And(children) | Or(children):
                sides = [self.condition(child, below) for child in children]
                return apply("AND" if isinstance(node, And) else "OR", sides, BOOLEAN)
            case Not(child):
                return apply("NOT", (self.condition(child, below),), BOOLEAN)
            case BooleanValue(value):
                return _condition(self.value(value, below))
            case Comparison(op, left, right):
                sides = self._compared((left, right), below)
                if not node.pads_char and list(_padded(sides)) != sides:
                    raise PredicateError(
                        "BETWEEN, nullif and lists of values compare a CHAR column without filling texts with blanks "
                        "in Spark, which is not evaluated here; write >= and <=, or CASE"
                    )
                return comparison(op, *sides)
            case In(value, items):
                return membership(self._compared((value, *items), below))
            case IsNull(value):
                return apply("IS NULL", (self.value(value, below),), BOOLEAN)
            case Like(value, pattern, escape):
                return like(self.value(value, below), pattern, escape)
            case RLike(value, pattern):
                return rlike(self.value(value, below), pattern)
            case _:
                assert_never(node)

    def _compared(self, sides: Sequence[Expression], depth: int) -> list[Node]:
        """Type values that are compared: times are read as the column beside them has them."""
        kinds = {self._resolve(side.parts)[1].kind for side in sides if isinstance(side, ColumnRef)}
        nodes: list[Node] = []
        for side in sides:
            if isinstance(side, Literal) and side.kind in _TIME_KINDS and Kind.TIMESTAMP_INSTANT in kinds:
                nodes.append(instant_constant(side, self._zone))
                continue
            if (
                isinstance(side, Literal)
                and side.kind is LiteralKind.TIMESTAMP_NTZ
                and Kind.TIMESTAMP_NTZ in kinds
            ):
                side = Literal(side.value, LiteralKind.STRING)
            nodes.append(self.value(side, depth))
        return nodes

    def _case(
        self, whens: tuple[tuple[Predicate, Expression], ...], otherwise: Expression | None, depth: int
    ) -> Node:
        conditions = [self.condition(condition, depth) for condition, _ in whens]
        values = [self.value(value, depth) for _, value in whens]
        values.append(Constant(None, None) if otherwise is None else self.value(otherwise, depth))
        data_type = common_type(values, "CASE")
        cast = coerced(values, data_type)
        args = [arg for pair in zip(conditions, cast[:-1], strict=True) for arg in pair]
        return apply("CASE", (*args, cast[-1]), data_type)


def comparison(op: ComparisonOp, left: Node, right: Node) -> Node:
    """Type ``left op right``.

    A whole number beside a decimal literal that no bigint reaches is decided by Spark's analyzer, even for NULL; beside
    another, what is less or greater is decided by the next whole number.
    """
    for operator, value, other in ((op, left, right), (op.flipped, right, left)):
        number = _decimal_literal(other)
        if type_of(value).kind not in INTEGER_KINDS or number is None or operator not in _ROUNDED:
            continue
        if not INT64_MIN <= number <= INT64_MAX:
            is_less = operator in (ComparisonOp.LT, ComparisonOp.LE)
            return Constant((number > 0) is is_less, BOOLEAN)
        whole = int(number.to_integral_value(_ROUNDED[operator]))
        return comparison(operator, value, literal_constant(whole, BIGINT))
    return apply(op.value, _comparable((left, right), f"the comparison {op.value}", narrow=True), BOOLEAN)


def _decimal_literal(node: Node) -> Decimal | None:
    is_literal = isinstance(node, Constant) and node.is_literal
    return (
        node.value if is_literal and isinstance(node, Constant) and isinstance(node.value, Decimal) else None
    )


def membership(nodes: Sequence[Node]) -> Node:
    """Type ``nodes[0] IN (the others)``."""
    value, *items = nodes
    texts = [item for item in items if isinstance(item, Constant) and item.type == STRING]
    if _char_length(value) and len(texts) == len(items) and any(item.value is None for item in texts):
        # Spark fills such a list, and leaves as many of its last members out as there are NULLs
        raise PredicateError(
            "IN of a CHAR column with a NULL that is computed is not evaluated here; write NULL"
        )
    is_filled = _char_length(value) and all(_literal_length(item) is not None for item in items)
    return apply("IN", _comparable(nodes, "IN", filled=bool(is_filled)), BOOLEAN)


def like(value: Node, pattern: str, escape: str) -> Node:
    """Type ``value LIKE pattern``."""
    regex = patterns.like_regex(patterns.like_parts(pattern, escape))
    return apply("MATCHES", (_text(value, "LIKE"),), BOOLEAN, (regex,))


def rlike(value: Node, pattern: str) -> Node:
    """Type ``value RLIKE pattern``."""
    return apply("MATCHES", (_text(value, "RLIKE"),), BOOLEAN, patterns.java_regex(pattern))


def _text(value: Node, subject: str) -> Node:
    if type_of(value).kind is Kind.BINARY:
        raise PredicateError(f"{subject} is for strings, not for binary values; cast it to string")
    return as_string(value)


def _comparable(
    nodes: Sequence[Node], subject: str, *, filled: bool = True, narrow: bool = False
) -> tuple[Node, ...]:
    padded = _padded(nodes) if filled else nodes
    common = common_type(padded, subject, is_comparison=True, narrow=narrow)
    for node in padded:
        if (
            isinstance(node, Apply)
            and node.type.kind is common.kind is Kind.DECIMAL
            and common.scale < node.type.scale
        ):
            beyond = 10 ** (node.type.precision - node.type.scale)
            if any(_number(other) >= beyond for other in padded):
                # Spark's optimizer may cast the constant to the type of the other side, an error, or may not
                raise PredicateError(
                    f"{subject} rounds a value of type {node.type} to {common}, beside a number "
                    "outside its range; cast it to double or to fewer digits"
                )
    return coerced(padded, common)


def _number(node: Node) -> Decimal:
    """Return the absolute value of a constant number; 0 for any other node."""
    value = node.value if isinstance(node, Constant) else None
    return Decimal(value).copy_abs() if isinstance(value, int | Decimal) else Decimal(0)


def _padded(nodes: Sequence[Node]) -> Sequence[Node]:
    """Pad CHAR columns beside each other, and beside literals, to the greatest length."""
    lengths = [_char_length(node) for node in nodes]
    literal_lengths = [_literal_length(node) for node in nodes]
    if not any(lengths) or not all(a or b is not None for a, b in zip(lengths, literal_lengths, strict=True)):
        return nodes
    max_length = max(*lengths, *(length or 0 for length in literal_lengths))
    return [
        Constant(node.value.ljust(max_length), STRING)
        if isinstance(node, Constant) and isinstance(node.value, str)
        else apply("PAD", (node,), STRING, (str(max_length),))
        if length != max_length
        else node
        for node, length in zip(nodes, lengths, strict=True)
    ]


def _char_length(node: Node) -> int:
    return (
        node.column_type.max_length if isinstance(node, Column) and node.column_type.kind is Kind.CHAR else 0
    )


def _literal_length(node: Node) -> int | None:
    """Return the length of a constant string, computed or not."""
    return len(node.value) if isinstance(node, Constant) and isinstance(node.value, str) else None


def _condition(node: Node) -> Node:
    if is_null_literal(node):
        return Constant(None, BOOLEAN)
    if type_of(node) != BOOLEAN:
        kind = "column" if isinstance(node, Column) else "value"
        raise PredicateError(f"a {kind} of type {type_of(node)} is not a condition; compare it with a value")
    return node


def constant(literal: Literal) -> Constant:
    """Type a literal: an integer outside the range of bigint is a decimal."""
    value = literal.value
    match literal.kind, value:
        case LiteralKind.NULL, _:
            return literal_constant(None, None)
        case LiteralKind.BOOLEAN, bool():
            return literal_constant(value, BOOLEAN)
        case LiteralKind.INTEGER, int():
            if not fits_bigint(value):
                return decimal_constant(value)
            return literal_constant(value, INT if -(1 << 31) <= value < 1 << 31 else BIGINT)
        case LiteralKind.DECIMAL, Decimal():
            return decimal_constant(value)
        case LiteralKind.DOUBLE, float():
            return literal_constant(value, DOUBLE)
        case LiteralKind.STRING, str():
            if not is_utf8(value):
                raise PredicateError(f"the literal {literal!s:.60} is not Unicode text")
            return literal_constant(value, STRING)
        case LiteralKind.BINARY, bytes():
            return literal_constant(value, BINARY)
        case LiteralKind.DATE, int() | datetime.date():
            return literal_constant(date_to_days(value), DATE)
        case LiteralKind.TIMESTAMP, str():
            clock = WallClock(0) if is_epoch(value) else parse_wall_clock(value)
            if clock is None:
                raise PredicateError(
                    f"the literal {literal!s:.60} is not read as a time here; write a date and a time"
                )
            if clock.zone is not None:
                raise PredicateError(
                    f"the literal {literal} names the time zone {clock.zone!r}, and is compared with wall clock times "
                    "without one; leave the zone out"
                )
            return literal_constant(clock.micros, TIMESTAMP)
        case LiteralKind.TIMESTAMP_NTZ, _:
            raise PredicateError(
                f"the literal {literal} is compared with TIMESTAMP_NTZ columns only; use Spark"
            )
        case _:
            raise AssertionError(literal)


def _cast_type(text: str) -> OrcType:
    data_type = _TYPES.get(text)
    if data_type is not None:
        return data_type
    precision, scale = (int(part) for part in text.removeprefix("DECIMAL(").removesuffix(")").split(","))
    return decimal_type(precision, scale)
