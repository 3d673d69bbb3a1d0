"""Comparisons with literals as domains of keys, with the semantics of Spark 4 in ANSI mode (its default).

Spark casts both sides of a comparison to a common type. The cast of the column never changes the order of its
values, but it may map several to one (bigints to a double) or round them (decimals of too many digits). So
the values that equal a literal are a span, possibly empty, and those below and above it follow. Spans are
half-open, in *ordinals*: the integer behind each key (the key itself, or a decimal's unscaled value).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile

import numpy as np
import pyarrow as pa

from hindex.domain import Domain, Int64s, Key, Range
from hindex.errors import PredicateError
from hindex.expr.patterns import like_parts
from hindex.expr.spark_types import Family, SparkType, column_type, exact_decimal, literal_type, wider
from hindex.keys import (
    INT64_MAX,
    INT64_MIN,
    KeyKind,
    decimal_key,
    float_key,
    key_float,
    key_kind,
    key_limits,
)
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.plan.time_zones import has_midnight, parse_time_zone, to_instant
from hindex.sql.predicate import ComparisonOp, Literal, LiteralArray, LiteralKind
from hindex.sql.string_values import (
    WallClock,
    date_to_days,
    is_epoch,
    parse_bigint,
    parse_boolean,
    parse_days,
    parse_decimal,
    parse_double,
    parse_wall_clock,
)
from hindex.validation import is_utf8
from hindex.value_class import value_class

Span = tuple[int | None, int | None]

#: A literal beside a CHAR column may be so many characters longer than its values.
_MOST_BLANKS = 1000

#: Literals of integers and NULL, whose values are keys of integer columns.
_KEY_KINDS = frozenset({LiteralKind.INTEGER, LiteralKind.NULL})
_RANGE_OPS = frozenset({ComparisonOp.LT, ComparisonOp.LE, ComparisonOp.GT, ComparisonOp.GE})
_LESS_OPS = frozenset({ComparisonOp.LT, ComparisonOp.LE})


def comparison_domain(
    data_type: OrcType, op: ComparisonOp, literal: Literal, zone: datetime.tzinfo = datetime.UTC
) -> Domain:
    """Return the values of a column for which ``column op literal`` is TRUE.

    >>> str_type = OrcType(Kind.STRING)
    >>> comparison_domain(str_type, ComparisonOp.EQ, Literal("a", LiteralKind.STRING)).contains(b"a")
    True

    Args:
        zone: the session's time zone: that of times written without one, beside a column of instants.

    Raises:
        PredicateError: if Spark refuses the comparison, or ranges of keys cannot answer it: names the type and the
            literal.
    """
    (literal,) = _without_ntz(data_type, (literal,))
    common = _common_type(data_type, (literal,), op)
    if literal.kind is LiteralKind.NULL:
        return Domain.only_null() if op is ComparisonOp.NULL_SAFE_EQ else Domain.none()
    if _beyond_bigint(data_type, literal) and op in _RANGE_OPS:
        # Spark's analyzer replaces this comparison by a constant, so that even NULL is kept
        return Domain.all() if (op in _LESS_OPS) == _is_positive(literal) else Domain.none()
    if _is_text(data_type):
        if data_type.kind is Kind.CHAR and isinstance(literal.value, str):
            return _char_domain(op, _fill_literal(data_type, literal.value))
        return _text_domain(op, _text_key(literal))
    own = _own_type(data_type)
    low, above = _equal_span(data_type, own, common, _cast_literal(data_type, common, literal, zone))
    match op:
        case ComparisonOp.EQ | ComparisonOp.NULL_SAFE_EQ:
            return _spans_domain(data_type, [(low, above)])
        case ComparisonOp.NE:
            return _spans_domain(data_type, [(None, low), (above, None)])
        case ComparisonOp.LT:
            return _spans_domain(data_type, [(None, low)])
        case ComparisonOp.LE:
            return _spans_domain(data_type, [(None, above)])
        case ComparisonOp.GT:
            return _spans_domain(data_type, [(above, None)])
        case ComparisonOp.GE:
            return _spans_domain(data_type, [(low, None)])


def membership_domain(
    data_type: OrcType, literals: Iterable[Literal], zone: datetime.tzinfo = datetime.UTC
) -> Domain:
    """Return the values of a column for which ``column IN (literals)`` is TRUE; NULL among them matches nothing.

    The common type is that of the column and all literals together, so one double makes doubles of all.

    Raises:
        PredicateError: as `comparison_domain` does.
    """
    own = _own_type(data_type)
    if isinstance(literals, LiteralArray):
        keys = _array_keys(data_type, own, literals)
        if keys is not None:
            return Domain.from_keys(keys)
    operands = _without_ntz(data_type, literals)
    if own.family is Family.INTEGER and all(literal.kind in _KEY_KINDS for literal in operands):
        # no cast: each step of a long list takes time
        least, greatest = _limits(data_type)
        numbers = (literal.value for literal in operands)
        return Domain.points(
            number for number in numbers if isinstance(number, int) and least <= number <= greatest
        )
    common = _common_type(data_type, operands, None)
    values = [literal for literal in operands if literal.kind is not LiteralKind.NULL]
    if _is_text(data_type):
        # Spark fills CHAR values and literals to one length only where every literal is a string
        texts = [literal.value for literal in values if isinstance(literal.value, str)]
        if (
            data_type.kind is not Kind.CHAR
            or common.family is not Family.STRING
            or len(texts) < len(operands)
        ):
            return Domain.points({_text_key(literal) for literal in values})
        length = max(data_type.max_length, *map(len, texts)) if texts else data_type.max_length
        equal = [_equal_domain(_fill_literal(data_type, text, length)) for text in texts]
        return Domain.from_ranges([item for domain in equal for item in domain.ranges])
    targets = {_cast_literal(data_type, common, literal, zone) for literal in values}
    return _spans_domain(data_type, (_equal_span(data_type, own, common, target) for target in targets))


def _without_ntz(data_type: OrcType, literals: Iterable[Literal]) -> tuple[Literal, ...]:
    """Return literals with the strings of TIMESTAMP_NTZ in their place, which Spark casts beside such a column.

    Raises:
        PredicateError: beside a column of another type.
    """
    operands = tuple(literals)
    if any(literal.kind is LiteralKind.TIMESTAMP_NTZ for literal in operands):
        if data_type.kind is not Kind.TIMESTAMP_NTZ:
            raise PredicateError(
                f"a TIMESTAMP_NTZ literal is compared with columns of that type only, and not with one of {data_type}; "
                "use Spark"
            )
        return tuple(
            Literal(literal.value, LiteralKind.STRING)
            if literal.kind is LiteralKind.TIMESTAMP_NTZ
            else literal
            for literal in operands
        )
    return operands


def _array_keys(
    data_type: OrcType, own: SparkType, literals: LiteralArray
) -> Int64s | pa.LargeBinaryArray | None:
    """Return the keys that are equal to literals of the column's own type; None if Spark casts either."""
    if own.family is Family.INTEGER and literals.kind is LiteralKind.INTEGER:
        least, greatest = _limits(data_type)
        keys: Int64s = literals.values.to_numpy()
        return keys[(keys >= least) & (keys <= greatest)]
    if own.family is Family.DATE and literals.kind is LiteralKind.DATE:
        return literals.values.view(pa.int32()).to_numpy().astype(np.int64)
    # Spark fills CHAR values and literals to one length
    if (
        own.family is Family.STRING
        and literals.kind is LiteralKind.STRING
        and data_type.kind is not Kind.CHAR
    ):
        return literals.values.view(pa.large_binary())
    return None


def like_domain(pattern: str, escape: str) -> tuple[Domain, bool]:
    r"""Return the domain of strings that begin as a pattern does, and True if all of them match it.

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
    return Domain.between(prefix, _prefix_end(prefix), high_inclusive=False) if prefix else Domain.not_null()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _prefix_end(prefix: bytes) -> bytes | None:
    """Return the least string above all with a prefix; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def casts_strings(data_type: OrcType, literals: Iterable[Literal]) -> bool:
    """Return True if Spark casts every string of a column to compare it: no string range is equivalent."""
    if column_type(data_type) is None or _own_type(data_type).family is not Family.STRING:
        return False
    texts = (LiteralKind.STRING, LiteralKind.BINARY, LiteralKind.NULL)
    kinds = [literals.kind] if isinstance(literals, LiteralArray) else (literal.kind for literal in literals)
    return any(kind not in texts for kind in kinds)


def _own_type(data_type: OrcType) -> SparkType:
    own = column_type(data_type)
    if own is None:
        raise PredicateError(f"a column of type {data_type} can only be tested for NULL, not compared")
    return own


def _common_type(data_type: OrcType, literals: tuple[Literal, ...], op: ComparisonOp | None) -> SparkType:
    """Return the type that Spark casts the column and all literals to. ``op`` is None for IN.

    Raises:
        PredicateError: if there is none.
    """
    own = _own_type(data_type)
    common = own
    for literal in literals:
        wider_type = wider(common, _literal_type(own, literal, op))
        if wider_type is None:
            raise PredicateError(
                f"a column of type {data_type} cannot be compared with the {literal.kind.value} literal "
                f"{_shown(literal)}, in Spark neither; write a literal of a type that matches the column's"
            )
        common = wider_type
    if own.family is Family.INTEGER and common.family is Family.DECIMAL and op in _RANGE_OPS:
        # for `<` and its like Spark rounds the literal to a whole number on the right side: exact
        return SparkType(Family.DECIMAL, 0, _literal_type(own, literals[0], op).scale)
    return common


def _literal_type(own: SparkType, literal: Literal, op: ComparisonOp | None) -> SparkType:
    if op is not None and own.family is Family.DECIMAL and literal.kind is LiteralKind.INTEGER:
        return exact_decimal(literal)
    return literal_type(literal)


def _beyond_bigint(data_type: OrcType, literal: Literal) -> bool:
    value = literal.value
    return (
        data_type.kind in INTEGER_KINDS
        and literal.kind in (LiteralKind.INTEGER, LiteralKind.DECIMAL)
        and isinstance(value, int | Decimal)
        and not INT64_MIN <= value <= INT64_MAX
    )


def _is_positive(literal: Literal) -> bool:
    return isinstance(literal.value, int | Decimal) and literal.value > 0


def _shown(literal: Literal) -> str:
    text = str(literal)
    return text if len(text) <= 60 else text[:57] + "..."


# Columns of bytes


def _is_text(data_type: OrcType) -> bool:
    return key_kind(data_type) is KeyKind.BYTES and data_type.kind is not Kind.DECIMAL


def _text_key(literal: Literal) -> bytes:
    """Return the key of a string or binary literal, as it is written.

    Raises:
        PredicateError: if it is not Unicode text.
    """
    if isinstance(literal.value, bytes):
        return literal.value
    assert isinstance(literal.value, str)
    try:
        return literal.value.encode()
    except UnicodeEncodeError:
        raise PredicateError(f"the literal {literal!s:.60} is not Unicode text; write it as X'...'") from None


def _text_domain(op: ComparisonOp, key: bytes) -> Domain:
    low = key or None
    match op:
        case ComparisonOp.EQ | ComparisonOp.NULL_SAFE_EQ:
            return Domain.points([key])
        case ComparisonOp.NE:
            return Domain.points([key]).complement(null_allowed=False)
        case ComparisonOp.LT:
            return Domain.between(None, key, high_inclusive=False)
        case ComparisonOp.LE:
            return Domain.between(None, key)
        case ComparisonOp.GT:
            return Domain.between(key, None, low_inclusive=False)
        case ComparisonOp.GE:
            return Domain.between(low, None)


@value_class
class _FilledLiteral:
    """A literal that is compared with a CHAR(``length``) column: ``text`` has blanks up to that length at least.

    Values have ``length`` characters or more: files may hold longer ones, and Spark fills what it reads and cuts
    nothing. Beside a longer literal, though, values are filled, or cut, to its length.
    """

    text: str
    length: int

    def prefixes(self) -> Iterator[tuple[bytes, int]]:
        """Yield the keys that are filled to be compared, and whether each is below (-1), at or above (1) it."""
        for size in range(self.length, len(self.text)):
            rest = self.text[size:].encode()
            blanks = b" " * len(rest)
            yield self.text[:size].encode(), (blanks > rest) - (blanks < rest)


def _fill_literal(data_type: OrcType, text: str, length: int = 0) -> _FilledLiteral:
    """Return a literal filled to the length of a CHAR column, or to a greater one.

    Raises:
        PredicateError: if it is not Unicode text, or much longer than the column.
    """
    if not is_utf8(text):
        raise PredicateError(f"the literal {text!r:.60} is not Unicode text; write it as X'...'")
    if max(len(text), length) - data_type.max_length > _MOST_BLANKS:
        raise PredicateError(f"the literal {text!r:.60} is much longer than {data_type}; write a shorter one")
    return _FilledLiteral(text.ljust(max(data_type.max_length, length)), data_type.max_length)


def _equal_domain(literal: _FilledLiteral) -> Domain:
    """Return the values that are equal to a literal; those that begin with it where they are cut to its length."""
    if len(literal.text) == literal.length:
        return Domain.points([literal.text.encode()])
    filled = Domain.points([key for key, side in literal.prefixes() if side == 0])
    return filled.union(prefix_domain(literal.text))


def _char_domain(op: ComparisonOp, literal: _FilledLiteral) -> Domain:
    key, equal = literal.text.encode(), _equal_domain(literal)
    not_below = Domain.points([key, *(prefix for prefix, side in literal.prefixes() if side >= 0)])
    below = Domain.between(None, key).intersect(not_below.complement(null_allowed=False))
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


# Columns of numbers and times


def _equal_span(data_type: OrcType, own: SparkType, common: SparkType, target: int) -> tuple[int, int]:
    """Return the span of ordinals whose cast equals a literal's: the first, and the first above them."""
    match common.family:
        case Family.TIMESTAMP if own.family is Family.DATE:
            return _scaled_span(target, MICROS_PER_DAY)
        case Family.DECIMAL if common.scale >= own.scale:
            return _scaled_span(target, 10 ** (common.scale - own.scale))
        case Family.DECIMAL:
            factor = 10 ** (own.scale - common.scale)
            return _searched_span(data_type, lambda at: _divided(at, factor), target, target * factor)
        case Family.DOUBLE if own.family in (Family.INTEGER, Family.DECIMAL):
            # integers divide to the nearest double, as Java casts
            unit = 10**own.scale
            guess = _nearest(key_float(target), unit)
            return _searched_span(data_type, lambda at: float_key(at / unit), target, guess)
    return target, target + 1


def _scaled_span(target: int, factor: int) -> tuple[int, int]:
    """Return the span of the integers that give ``target`` when multiplied."""
    return -(-target // factor), target // factor + 1


def _searched_span(
    data_type: OrcType, cast: Callable[[int], int], target: int, guess: int
) -> tuple[int, int]:
    low, high = _limits(data_type)
    guess = min(max(guess, low), high)
    return (
        _first(lambda at: cast(at) >= target, guess, low, high),
        _first(lambda at: cast(at) > target, guess, low, high),
    )


def _first(holds: Callable[[int], bool], guess: int, low: int, high: int) -> int:
    """Return the first integer from low to high for which a monotone condition holds; high + 1 if for none.

    Looks around a good guess first: a long IN list of doubles costs a few casts each.
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


def _cast_literal(data_type: OrcType, common: SparkType, literal: Literal, zone: datetime.tzinfo) -> int:
    """Return the ordinal of a literal cast to the common type.

    Raises:
        PredicateError: if it is a text that Spark cannot cast, or a time that cannot be placed.
    """
    value = literal.value
    ordinal: int | None = None
    match common.family:
        case Family.INTEGER:
            ordinal = parse_bigint(value) if isinstance(value, str) else _integer(value)
        case Family.BOOLEAN:
            truth = parse_boolean(value) if isinstance(value, str) else value
            ordinal = None if truth is None else int(truth is True)
        case Family.DOUBLE:
            number = parse_double(value) if isinstance(value, str) else _double(value)
            ordinal = None if number is None else float_key(number)
        case Family.DECIMAL:
            assert isinstance(value, str | int | Decimal)
            ordinal = (
                parse_decimal(value, common.precision, common.scale)
                if isinstance(value, str)
                else _unscaled(value, common.scale)
            )
        case Family.DATE:
            assert isinstance(value, str | int | datetime.date)
            if isinstance(value, str):
                ordinal = 0 if is_epoch(value) else parse_days(value)
            else:
                ordinal = date_to_days(value)
        case Family.TIMESTAMP:
            assert isinstance(value, str | int | datetime.date)
            ordinal = _cast_timestamp(data_type, literal, value, zone)
    if ordinal is None:
        type_name = "bigint" if common.family is Family.INTEGER else common.family.value
        raise PredicateError(
            f"the literal {_shown(literal)} cannot be cast to {type_name}, as Spark would to compare it with "
            f"a column of type {data_type}; write a {type_name} literal"
        )
    return ordinal


def _cast_timestamp(
    data_type: OrcType, literal: Literal, value: str | int | datetime.date, zone: datetime.tzinfo
) -> int | None:
    if isinstance(value, str):
        if is_epoch(value):
            # an instant in Spark, whatever the session's time zone
            return 0
        clock = parse_wall_clock(value)
        if clock is None:
            return None
    else:
        clock = WallClock(date_to_days(value) * MICROS_PER_DAY)
        if data_type.kind is Kind.TIMESTAMP_INSTANT and not has_midnight(clock.micros, zone):
            raise PredicateError(
                f"the day of the literal {_shown(literal)} does not begin at midnight in the time zone {str(zone)!r}; "
                "write a timestamp literal"
            )
    if data_type.kind is not Kind.TIMESTAMP_INSTANT:
        if clock.zone is not None:
            raise PredicateError(
                f"the literal {_shown(literal)} names the time zone {clock.zone!r}, but a {data_type} column holds "
                "wall clock times without one; write the wall clock time without the zone"
            )
        return clock.micros
    written = zone if clock.zone is None else parse_time_zone(clock.zone)
    instant = None if written is None else to_instant(clock.micros, written)
    if instant is None:
        raise PredicateError(
            f"the time zone {clock.zone or str(zone)!r} of the literal {_shown(literal)} is not known for "
            "that time; write an offset such as +01:00"
        )
    return instant


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value


def _double(value: object) -> float:
    assert isinstance(value, int | float | Decimal)
    return float(value)


def _unscaled(value: int | Decimal, scale: int) -> int:
    exact = Fraction(value) * 10**scale
    return exact.numerator if exact.denominator == 1 else _divided(exact.numerator * 2, exact.denominator * 2)


def _limits(data_type: OrcType) -> tuple[int, int]:
    """Return the least and greatest ordinal of a type."""
    return key_limits(data_type) or (-(1 << 127), (1 << 127) - 1)


def _spans_domain(data_type: OrcType, spans: Iterable[Span]) -> Domain:
    """Return the union of spans of ordinals as a domain of keys, with open ends at the type's limits."""
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
