"""Dates and times that a query computes once: the clock's, and those computed from constants, as literals.

Spark computes timestamps as instants: it adds months and days to what the session's clock shows, and hours to the
instant. Expressions are evaluated on what a clock shows. So each step from a constant time is evaluated here on the
session's clock, and its result is placed in time again.

>>> from hindex.sql import parse_predicate
>>> str(with_constant_times(parse_predicate("d >= date_sub(current_date(), 7)"), None, 1_700_000_000_000_000))
"d >= DATE '2023-11-07'"
"""

from __future__ import annotations

import datetime
import time
from typing import NoReturn, TypeVar, cast

from hindex.errors import ColumnError, PredicateError
from hindex.expr.dates import DATE_UNITS
from hindex.expr.instants import has_midnight, instant_constant, to_instant, to_wall_clock
from hindex.expr.nodes import DATE, TIMESTAMP, Constant
from hindex.expr.typing import typed
from hindex.keys import INT64_MAX, INT64_MIN
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.sql.functions import CLOCK_FUNCTIONS
from hindex.sql.literals import of_value
from hindex.sql.predicate import (
    Arithmetic,
    ArithmeticOp,
    Call,
    Cast,
    ColumnRef,
    Expression,
    Interval,
    Literal,
    LiteralKind,
    columns,
    operands,
    with_operands,
)
from hindex.sql.string_values import date_from_days, format_timestamp

E = TypeVar("E", bound=Expression)

#: Functions of what a clock shows. Others compare times, which is done on instants.
_CALENDAR_FUNCTIONS = frozenset(
    {
        *("year", "quarter", "month", "weekofyear", "day", "dayofyear", "dayofweek", "weekday"),
        *("hour", "minute", "second", "last_day", "trunc", "date_trunc"),
        *("date_add", "date_sub", "add_months", "datediff"),
    }
)
_TIMES = frozenset({LiteralKind.DATE, LiteralKind.TIMESTAMP})


def current_instant() -> int:
    """Return the time now, in microseconds since 1970 of UTC."""
    return time.time_ns() // 1000


def with_constant_times(root: E, zone: datetime.tzinfo | None, instant: int | None) -> E:
    """Replace constant dates and times in an expression by literals.

    Expressions that have no value, or are not evaluated here, stay: typing them raises the error.

    Args:
        zone: the session's time zone; None where wall clocks are compared: then the clock is that of UTC.
        instant: what the clock shows, in microseconds since 1970 of UTC; None where no clock may be read.

    Raises:
        PredicateError: for a function of the clock where none may be read, or the zone's rules are unknown.
    """
    return cast("E", _ConstantTimes(zone, instant).replaced(root))


class _ConstantTimes:
    def __init__(self, zone: datetime.tzinfo | None, instant: int | None) -> None:
        self._zone = zone or datetime.UTC
        self._has_zone = zone is not None
        self._instant = instant

    def replaced(self, node: Expression) -> Expression:
        if isinstance(node, ColumnRef | Literal):
            return node
        if isinstance(node, Call) and node.name in CLOCK_FUNCTIONS:
            return self._clock(node)
        node = with_operands(node, self.replaced)
        if not isinstance(node, Arithmetic | Call | Cast) or columns(node):
            return node
        times = [arg for arg in operands(node) if isinstance(arg, Literal) and arg.kind in _TIMES]
        if not times:
            return node
        is_compared = isinstance(node, Call) and node.name not in _CALENDAR_FUNCTIONS
        if is_compared and any(time.kind is LiteralKind.TIMESTAMP for time in times):
            return node
        try:
            return self._shifted(node) or self._evaluated(node) or node
        except PredicateError:
            return node

    def _clock(self, node: Call) -> Literal:
        if self._instant is None:
            raise PredicateError(f"{node} is another value each time; write a date or a time")
        shown = to_wall_clock(self._instant, self._zone)
        assert shown is not None
        match node.name:
            case "current_date":
                return Literal(date_from_days(shown // MICROS_PER_DAY), LiteralKind.DATE)
            case "localtimestamp":
                return Literal(format_timestamp(shown), LiteralKind.TIMESTAMP_NTZ)
            case _:
                return self._timestamp(self._instant)

    def _timestamp(self, instant: int) -> Literal:
        zone = "" if self._zone is datetime.UTC else "Z"
        return Literal(format_timestamp(instant) + zone, LiteralKind.TIMESTAMP)

    def _shifted(self, node: Expression) -> Literal | None:
        """Evaluate a timestamp plus or minus an interval, or a date if hours are added; None for any other node."""
        match node:
            case Arithmetic(
                ArithmeticOp.ADD | ArithmeticOp.SUBTRACT as op, Literal() as start, Interval() as interval
            ):
                sign = 1 if op is ArithmeticOp.ADD else -1
            case Arithmetic(ArithmeticOp.ADD, Interval() as interval, Literal() as start):
                sign = 1
            case _:
                return None
        if self._zone is datetime.UTC or (start.kind is LiteralKind.DATE and interval.has_days_only):
            return None
        if start.kind is LiteralKind.DATE:
            midnight = self._evaluated(Cast(start, "TIMESTAMP"))
            if not isinstance(midnight, Literal):
                return None
            start = midnight
        # towards zero, as in Java
        days = abs(interval.micros) // MICROS_PER_DAY * (1 if interval.number >= 0 else -1)
        calendar = Interval(days, "DAY") if not interval.months else interval
        moved = self._evaluated(
            Arithmetic(ArithmeticOp.ADD if sign > 0 else ArithmeticOp.SUBTRACT, start, calendar)
        )
        if not isinstance(moved, Literal):
            return None
        instant = self._instant_of(moved) + sign * (interval.micros - days * MICROS_PER_DAY)
        return self._timestamp(instant) if INT64_MIN <= instant <= INT64_MAX else None

    def _evaluated(self, node: Expression) -> Expression | None:
        """Evaluate an expression of constants on the session's clock; None if it has no value, or not one of here.

        Raises:
            PredicateError: if it is not evaluated here.
        """
        times = [
            arg for arg in operands(node) if isinstance(arg, Literal) and arg.kind is LiteralKind.TIMESTAMP
        ]
        value = typed(with_operands(node, self._reading), _no_column)
        if not isinstance(value, Constant):
            return None
        data_type, result = value.type, value.value
        if data_type == TIMESTAMP and isinstance(result, int):
            return self._placed(result, None if not times or _is_of_days(node) else self._offset_of(times[0]))
        if data_type == DATE and isinstance(result, int):
            return Literal(date_from_days(result), LiteralKind.DATE)
        if not times and data_type not in (DATE, TIMESTAMP):
            return None  # typing computes it
        literal = of_value(result)
        return None if literal is None else Cast(literal, str(data_type).upper())

    def _placed(self, shown: int, offset: int | None) -> Literal | None:
        """Return the time at which the session's clock shows a reading; None if that is not certain."""
        if shown % MICROS_PER_DAY == 0 and not has_midnight(shown, self._zone):
            return None
        instant = to_instant(shown, self._zone, offset)
        return None if instant is None else self._timestamp(instant)

    def _instant_of(self, literal: Literal) -> int:
        instant = instant_constant(literal, self._zone).value
        assert isinstance(instant, int)
        return instant

    def _offset_of(self, literal: Literal) -> int:
        instant = self._instant_of(literal)
        shown = to_wall_clock(instant, self._zone)
        return 0 if shown is None else shown - instant

    def _reading(self, node: Expression) -> Expression:
        """Return a timestamp as the session's clock shows it; any other node as it is."""
        if not isinstance(node, Literal) or node.kind is not LiteralKind.TIMESTAMP or not self._has_zone:
            return node
        shown = to_wall_clock(self._instant_of(node), self._zone)
        if shown is None:
            raise PredicateError(f"the time zone {str(self._zone)!r} has no rules for {node}")
        return Literal(format_timestamp(shown), LiteralKind.TIMESTAMP)


def _is_of_days(node: Expression) -> bool:
    """Return True for a timestamp cut to weeks and longer units: Spark computes with the day, and not with its time."""
    match node:
        case Call("date_trunc", (Literal(str() as unit), _)):
            return unit.upper() in DATE_UNITS
    return False


def _no_column(parts: tuple[str, ...]) -> NoReturn:
    raise ColumnError(f"{'.'.join(parts)} is no constant")
