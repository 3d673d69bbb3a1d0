"""Convert typed conditions on one column to the domain of keys for which they are TRUE.

`hindex.expr.typing` has inserted the casts of Spark's analyzer. Casts of constants are evaluated, and casts and
other functions of the column are inverted here. Only monotone (non-decreasing) functions are inverted: the keys
whose result is at least some value begin at one key. Keys are counted in *ordinals*: the integer behind each key
(the key itself, or a decimal's unscaled value).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from hindex.domain import Domain, Int64s, Key, Range
from hindex.errors import PredicateError
from hindex.expr.coerce import constant_text, type_of
from hindex.expr.dates import max_micros
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import (
    BINARY,
    DATE,
    DOUBLE,
    TIMESTAMP,
    Apply,
    Column,
    Constant,
    Node,
    columns,
    substitute,
    walk,
)
from hindex.expr.patterns import like_parts
from hindex.expr.spark_types import column_type
from hindex.keys import decimal_key, float_key, key_float, key_limits
from hindex.orc.calendars import MICROS_PER_DAY, days_from_civil
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.sql.predicate import ComparisonOp, LiteralArray, LiteralKind
from hindex.value_class import value_class

#: A column, and the keys of it for which a condition is TRUE.
ColumnDomain: TypeAlias = tuple[Column, Domain]

#: Ordinals from the first up to, but not including, the second; None for no bound.
_Span: TypeAlias = tuple[int | None, int | None]

#: Returns the first ordinal of an argument for which a function is at least some ordinal of its results.
_LowerBound: TypeAlias = Callable[[int], int]

#: The most characters that a literal compared with a CHAR column may be longer than the column's values.
_MOST_BLANKS = 1000

_OPERATORS = {op.value: op for op in ComparisonOp}
#: Functions that are NULL if their first argument is, and the others are constants.
_STRICT_FUNCTIONS = frozenset(
    {"CAST", "PAD", "year", "trunc", "date_trunc", "left", "substring", "startswith", "IN"}
    | {"=", "<>", "<", "<=", ">", ">="}
)
_FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_TEXT_KINDS = frozenset({Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BINARY})

#: The negations of comparisons of values that are not NULL. `<=>` has none: its domain is complemented.
OPPOSITES = {
    ComparisonOp.EQ: ComparisonOp.NE,
    ComparisonOp.NE: ComparisonOp.EQ,
    ComparisonOp.LT: ComparisonOp.GE,
    ComparisonOp.GE: ComparisonOp.LT,
    ComparisonOp.GT: ComparisonOp.LE,
    ComparisonOp.LE: ComparisonOp.GT,
}


def column_domain(condition: Node, *, negated: bool = False) -> ColumnDomain | None:
    """Return the column that a condition tests, and the keys for which it, or its negation, is TRUE.

    None if the condition is not equivalent to a test of one column.

    >>> from hindex.expr.nodes import BOOLEAN, INT
    >>> _, domain = column_domain(Apply("=", (Column("a", INT), Constant(5, INT)), BOOLEAN))
    >>> domain.contains(5), domain.contains(6)
    (True, False)

    Raises:
        PredicateError: for a constant that Spark cannot cast to the column's type.
    """
    split = _split_default(condition)
    if split is not None:
        return _with_default(*split, negated=negated)
    match condition:
        case Column(_, OrcType(kind=Kind.BOOLEAN)):
            return condition, Domain.points([0 if negated else 1])
        case Apply("IS NULL", (Column() as column,)):
            return column, Domain.not_null() if negated else Domain.only_null()
        case Apply("startswith", (Column(_, data_type) as column, Constant(str() as text))):
            if data_type.kind is Kind.CHAR:
                return None
            return column, _complemented(prefix_domain(text), negated)
        case Apply("isnan", (value,)):
            tested = _number_column(value)
            if tested is None:
                return None
            is_nan = tested.members([Constant(math.nan, type_of(value))])
            return tested.column, is_nan.complement(null_allowed=True) if negated else is_nan
        case Apply("IN", (value, *items)):
            return _membership(value, items, negated=negated)
        case Apply(name, (left, right)) if name in _OPERATORS:
            op = _OPERATORS[name]
            if isinstance(left, Constant):
                op, left, right = op.flipped, right, left
            return _comparison(op, left, right, negated=negated)
    return None


def array_domain(data_type: OrcType, literals: LiteralArray) -> Domain | None:
    """Return the keys equal to any of many literals of a column's own type; None if Spark casts either side."""
    keys: Int64s | pa.LargeBinaryArray | None = None
    if data_type.kind in INTEGER_KINDS and literals.kind is LiteralKind.INTEGER:
        least, greatest = _limits(data_type)
        numbers: Int64s = literals.values.to_numpy()
        keys = numbers[(numbers >= least) & (numbers <= greatest)]
    elif data_type.kind is Kind.DATE and literals.kind is LiteralKind.DATE:
        keys = literals.values.view(pa.int32()).to_numpy().astype(np.int64)
    elif data_type.kind in (Kind.STRING, Kind.VARCHAR) and literals.kind is LiteralKind.STRING:
        keys = literals.values.view(pa.large_binary())
    return None if keys is None else Domain.from_keys(keys)


def like_domain(pattern: str, escape: str) -> tuple[Domain, bool]:
    r"""Return the domain of strings with a pattern's literal prefix, and True if all of them match the pattern.

    >>> like_domain("ab%", "\\")[0].contains(b"abc"), like_domain("ab%c", "\\")[1]
    (True, False)

    Raises:
        PredicateError: for an escape character that escapes nothing.
    """
    parts = like_parts(pattern, escape)
    head = list(takewhile(bool, parts))
    rest = parts[len(head) :]
    text = "".join(part for part in head if part)
    if not rest:
        return Domain.points([_encode(text)]), True
    return prefix_domain(text), not any(part is not None for part in rest)


def prefix_domain(text: str) -> Domain:
    """Return the domain of strings with a prefix."""
    prefix = _encode(text)
    return Domain.between(prefix, prefix_end(prefix), high_inclusive=False) if prefix else Domain.not_null()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the least bytes above all that begin with a prefix; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _complemented(domain: Domain, negated: bool) -> Domain:
    """Return a domain, or if ``negated`` the non-NULL values outside it."""
    return domain.complement(null_allowed=False) if negated else domain


def _split_default(condition: Node) -> tuple[Node, Node] | None:
    """Split a condition on ``coalesce(value, constant)`` into one on the value and one on the constant.

    None if the condition has no coalesce, or if the value may be NULL although its column is not.
    """
    choices = [node for node in walk(condition) if isinstance(node, Apply) and node.function == "coalesce"]
    if not choices:
        return None
    choice = choices[-1]  # within others, if these contain it
    args = [arg for arg in choice.args if not isinstance(arg, Constant) or arg.value is not None]
    value, default = args[0], args[1] if len(args) > 1 else Constant(None, choice.type)
    if not isinstance(default, Constant) or not _is_null_with_column(value):
        return None
    return substitute(condition, choice, value), substitute(condition, choice, default)


def _is_null_with_column(node: Node) -> bool:
    """Return True if a value or condition with a domain is NULL exactly if its column is."""
    match node:
        case Column():
            return True
        case Apply(name, (_, *others)) if name in _STRICT_FUNCTIONS:
            return all(isinstance(other, Constant) and other.value is not None for other in others)
    return False


def _with_default(present: Node, absent: Node, *, negated: bool) -> ColumnDomain | None:
    """Return the domain of a condition with a default: ``present`` tests values, and ``absent`` is for NULL."""
    answer = column_domain(present, negated=negated)
    if answer is None or columns(absent):
        return None
    truth = evaluate(absent, {}, 1)
    if truth.errors is not None:
        return None
    column, domain = answer
    return column, replace(domain, null_allowed=bool(truth.valid[0] and truth.numbers[0] != negated))


def _comparison(op: ComparisonOp, left: Node, right: Node, *, negated: bool) -> ColumnDomain | None:
    """Return the domain of a comparison of one column with a constant on the right; None for any other."""
    if negated and op is not ComparisonOp.NULL_SAFE_EQ:
        op, negated = OPPOSITES[op], False
    tested = _text_column(left) or _number_column(left)
    if tested is None:
        return None
    _check_cast(right, tested.column)
    if not isinstance(right, Constant):
        return None
    if right.value is None:
        domain = Domain.only_null() if op is ComparisonOp.NULL_SAFE_EQ else Domain.none()
    else:
        domain = tested.compared(op, right)
    return tested.column, domain.complement(null_allowed=not domain.null_allowed) if negated else domain


def _membership(value: Node, items: Sequence[Node], *, negated: bool) -> ColumnDomain | None:
    """Return the domain of ``value IN (items)`` if it tests one column for constants; otherwise None."""
    tested = _text_column(value) or _number_column(value)
    if tested is None:
        return None
    for item in items:
        _check_cast(item, tested.column)
    if not all(isinstance(item, Constant) for item in items):
        return None
    constants = [item for item in items if isinstance(item, Constant) and item.value is not None]
    if negated and len(constants) < len(items):
        return tested.column, Domain.none()
    return tested.column, _complemented(tested.members(constants), negated)


def _check_cast(node: Node, column: Column) -> None:
    """Check that a constant beside a column has a value.

    Raises:
        PredicateError: for a constant that Spark cannot cast.
    """
    match node:
        case Apply("CAST", (Constant(value, data_type),), to) if evaluate(node, {}, 1).errors is not None:
            text = constant_text(value, data_type or to)
            raise PredicateError(
                f"the literal {text} cannot be cast to {to}, as Spark would to compare it with a column of type "
                f"{column.column_type}; write a literal of type {to}"
            )


# Columns of bytes


class _TextColumn:
    """A column of strings that is compared with constants.

    Values of CHAR(n) have n characters or more: files may contain longer values, and Spark pads what it reads and
    truncates nothing. In a comparison with a longer constant, values are padded or truncated to its length.

    Args:
        is_filled: whether the constants are longer than the column's values.
        max_length: the number of leading characters to compare; None for all.
    """

    def __init__(self, column: Column, *, is_filled: bool = False, max_length: int | None = None) -> None:
        self.column = column
        self._is_filled = is_filled
        self._max_length = max_length

    def compared(self, op: ComparisonOp, constant: Constant) -> Domain:
        """Return the keys for which a comparison with a constant is TRUE."""
        equal = self.members([constant])
        below = Domain.between(None, self._lower_bound(constant), high_inclusive=False)
        if self._is_filled:
            not_below = Domain.points([prefix for prefix, side in self._prefixes(constant) if side >= 0])
            below = below.intersect(not_below.complement(null_allowed=False))
        match op:
            case ComparisonOp.EQ | ComparisonOp.NULL_SAFE_EQ:
                return equal
            case ComparisonOp.NE:
                return equal.complement(null_allowed=False)
            case ComparisonOp.LT:
                return below
            case ComparisonOp.LE:
                return below.union(equal)
            case ComparisonOp.GT:
                return below.union(equal).complement(null_allowed=False)
            case ComparisonOp.GE:
                return below.complement(null_allowed=False)

    def members(self, constants: Iterable[Constant]) -> Domain:
        """Return the keys that are equal to a constant, or begin with it if they are truncated to its length."""
        if not self._is_filled and self._max_length is None:
            return Domain.points({_text_key(constant) for constant in constants})
        ranges: list[Range] = []
        for constant in constants:
            if self._max_length is not None:
                text = str(constant.value)
                if len(text) == self._max_length:
                    ranges += prefix_domain(text).ranges
                elif len(text) < self._max_length:
                    ranges += Domain.points([_text_key(constant)]).ranges
                continue
            ranges += Domain.points([key for key, side in self._prefixes(constant) if side == 0]).ranges
            ranges += prefix_domain(str(constant.value)).ranges
        return Domain.from_ranges(ranges)

    def _lower_bound(self, constant: Constant) -> bytes | None:
        """Return the least key that is not below a constant; None if there is none."""
        if self._max_length is None or len(str(constant.value)) <= self._max_length:
            return _text_key(constant)
        return prefix_end(_encode(str(constant.value)[: self._max_length]))

    def _prefixes(self, constant: Constant) -> Iterator[tuple[bytes, int]]:
        """Yield the keys that need padding, each with -1 if it is below the constant, 0 if equal, 1 if above."""
        text = str(constant.value)
        for size in range(self.column.column_type.max_length, len(text)):
            rest = text[size:].encode()
            blanks = b" " * len(rest)
            yield text[:size].encode(), (blanks > rest) - (blanks < rest)


def _text_column(node: Node) -> _TextColumn | None:
    """Return a node as a column of strings, perhaps padded or truncated; None if it is none."""
    match node:
        case Apply("PAD", (Column() as column,), _, (length,)):
            # each further character adds a range of keys
            is_near = int(length) - column.column_type.max_length <= _MOST_BLANKS
            return _TextColumn(column, is_filled=True) if is_near else None
        case Apply("left", (Column() as column, Constant(int() as length))) | Apply(
            "substring", (Column() as column, Constant(0 | 1), Constant(int() as length))
        ):
            is_char = column.column_type.kind is Kind.CHAR
            return None if is_char else _TextColumn(column, max_length=max(length, 0))
        case Column() as column:
            pass
        case Apply("CAST", (Column() as column,), to) if to == BINARY:
            pass
        case _:
            return None
    return _TextColumn(column) if column.column_type.kind in _TEXT_KINDS else None


def _text_key(constant: Constant) -> bytes:
    value = constant.value
    assert isinstance(value, str | bytes)
    return value.encode() if isinstance(value, str) else value


# Columns of numbers and times


@value_class
class _NumberColumn:
    """A monotone function of a column of numbers or times that is compared with constants.

    Attributes:
        lower_bound: returns the first ordinal of the column for which the function is at least an ordinal of its
            results.
    """

    column: Column
    lower_bound: _LowerBound

    def compared(self, op: ComparisonOp, constant: Constant) -> Domain:
        """Return the keys for which a comparison with a constant is TRUE."""
        low, above = self._equal(_ordinal(constant))
        spans: dict[ComparisonOp, list[_Span]] = {
            ComparisonOp.EQ: [(low, above)],
            ComparisonOp.NULL_SAFE_EQ: [(low, above)],
            ComparisonOp.NE: [(None, low), (above, None)],
            ComparisonOp.LT: [(None, low)],
            ComparisonOp.LE: [(None, above)],
            ComparisonOp.GT: [(above, None)],
            ComparisonOp.GE: [(low, None)],
        }
        return _spans_domain(self.column.column_type, spans[op])

    def members(self, constants: Iterable[Constant]) -> Domain:
        """Return the keys that are equal to any of the constants."""
        return _spans_domain(self.column.column_type, map(self._equal, set(map(_ordinal, constants))))

    def _equal(self, ordinal: int) -> tuple[int, int]:
        return self.lower_bound(ordinal), self.lower_bound(ordinal + 1)


def _number_column(node: Node) -> _NumberColumn | None:
    """Return a node as a monotone function of a column of numbers or times; None if it is none."""
    match node:
        case Column(_, data_type):
            return None if data_type.kind in _TEXT_KINDS else _NumberColumn(node, lambda at: at)
        case Apply("CAST", (arg,), to):
            lower_bound = _cast_lower_bound(type_of(arg), to)
        case Apply("year", (arg,)) if type_of(arg) == DATE:
            lower_bound = _first_day
        case Apply("trunc" | "date_trunc", (arg,), _, (unit,)):
            lower_bound = _unit_lower_bound(node, type_of(arg), unit)
        case _:
            return None
    inner = None if lower_bound is None else _number_column(arg)
    if lower_bound is None or inner is None:
        return None
    return replace(inner, lower_bound=lambda at: inner.lower_bound(lower_bound(at)))


def _cast_lower_bound(data_type: OrcType, to: OrcType) -> _LowerBound | None:
    """Return the lower bounds of a cast; None unless it is monotone and never fails.

    Dates beyond 290,000 years may fail.
    """
    own, cast = column_type(data_type), column_type(to)
    assert own is not None
    assert cast is not None
    kind = data_type.kind
    is_exact = kind in INTEGER_KINDS or kind is Kind.DECIMAL
    if to.kind in INTEGER_KINDS:
        return (lambda at: at) if kind in INTEGER_KINDS and cast.precision >= own.precision else None
    if to == DOUBLE and kind in _FLOATING:
        return lambda at: at
    if to == DOUBLE and is_exact:
        # integers divide to the nearest double, as Java casts
        unit = 10**own.scale
        return _searched(
            data_type, lambda at: float_key(at / unit), lambda key: _nearest(key_float(key), unit)
        )
    if to.kind is Kind.DECIMAL and is_exact:
        # a bigint has 19 digits, and rounding may carry into one more
        digits = (own.precision - own.scale if kind is not Kind.LONG else 19) + (cast.scale < own.scale)
        if cast.precision - cast.scale < digits:
            return None
        if cast.scale >= own.scale:
            return _multiplied(10 ** (cast.scale - own.scale))
        factor = 10 ** (own.scale - cast.scale)
        return _searched(data_type, lambda at: _divided(at, factor), lambda at: at * factor)
    if to == TIMESTAMP and data_type == DATE:
        return _multiplied(MICROS_PER_DAY)
    if to == DATE and data_type == TIMESTAMP:
        return lambda day: day * MICROS_PER_DAY
    return None


def _multiplied(factor: int) -> _LowerBound:
    return lambda at: -(-at // factor)


def _first_day(year: int) -> int:
    # far beyond every date of a column, and within what the calendar is computed in
    near = min(max(year, -6_000_000), 6_000_000)
    return int(days_from_civil(np.array([near]), np.array([1]), np.array([1]))[0])


def _unit_lower_bound(node: Apply, data_type: OrcType, unit: str) -> _LowerBound:
    """Return the lower bounds of dates or times truncated to a unit: the beginnings of units."""
    low, high = _limits(data_type)
    longest = max_micros(unit) // (MICROS_PER_DAY if data_type == DATE else 1)

    def start(at: int) -> int:
        value = evaluate(replace(node, args=(Constant(at, data_type),)), {}, 1)
        # the first unit may begin before the least value
        return at if value.errors is not None else min(at, int(value.numbers[0]))

    def lower_bound(at: int) -> int:
        if not low <= at <= high:
            return low if at < low else high + 1
        first = start(at)
        if first == at:
            return at
        following = start(min(first + longest, high))
        return following if following > first else high + 1

    return lower_bound


def _searched(data_type: OrcType, cast: Callable[[int], int], guess: Callable[[int], int]) -> _LowerBound:
    """Return the lower bounds of a cast. They are searched for, starting at a guess."""
    low, high = _limits(data_type)
    return lambda at: _search_first(
        lambda ordinal: cast(ordinal) >= at, min(max(guess(at), low), high), low, high
    )


def _search_first(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int:
    """Return the first integer from low to high for which a monotone condition holds; high + 1 if there is none.

    Search around the guess first: each value of a long IN list of doubles then costs only a few casts.
    """
    step = 1
    if holds(guess):
        above = guess
        while guess > low:
            guess = max(low, above - step)
            if not holds(guess):
                break
            above, step = guess, step * 2
        else:
            return low
        below = guess
    else:
        below = guess
        while guess < high:
            guess = min(high, below + step)
            if holds(guess):
                break
            below, step = guess, step * 2
        else:
            return high + 1
        above = guess
    while above - below > 1:
        middle = (below + above) // 2
        if holds(middle):
            above = middle
        else:
            below = middle
    return above


def _nearest(value: float, unit: int) -> int:
    """Return roughly ``value`` in units; 0 for NaN and infinity."""
    try:
        return round(Fraction(value) * unit)
    except (OverflowError, ValueError):
        return 0


def _divided(unscaled: int, factor: int) -> int:
    """Divide and round half up: away from zero, as Spark rounds decimals."""
    magnitude = (abs(unscaled) + factor // 2) // factor
    return magnitude if unscaled >= 0 else -magnitude


def _ordinal(constant: Constant) -> int:
    value = constant.value
    if isinstance(value, Decimal):
        return int(Fraction(value) * 10 ** type_of(constant).scale)
    if isinstance(value, float):
        return float_key(value)
    assert isinstance(value, int)
    return int(value)


def _limits(data_type: OrcType) -> tuple[int, int]:
    """Return the least and greatest ordinal of a type."""
    return key_limits(data_type) or (-(1 << 127), (1 << 127) - 1)


def _spans_domain(data_type: OrcType, spans: Iterable[_Span]) -> Domain:
    """Return the union of spans of ordinals as a domain of keys, unbounded at the type's limits."""
    least, greatest = _limits(data_type)
    limit = greatest + 1
    whole = sorted(
        (least if low is None or low < least else low, limit if above is None or above > limit else above)
        for low, above in spans
    )
    merged: list[tuple[int, int]] = []
    for low, above in whole:
        if low >= above:
            continue
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(above, merged[-1][1]))
        else:
            merged.append((low, above))
    key: Callable[[int], Key] = (
        (lambda at: decimal_key(at, data_type)) if data_type.kind is Kind.DECIMAL else int
    )
    return Domain(
        tuple(
            Range(
                None if low == least and above > low + 1 else key(low),
                None if above == limit and above > low + 1 else key(above - 1),
            )
            for low, above in merged
        )
    )
