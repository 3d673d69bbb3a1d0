"""Conditions on the local time of timestamps in the session's time zone: days, hours, strings.

`CAST(ts AS DATE) = DATE '2024-03-31'` is solved for local times, as in a session in UTC: the times from one
midnight to the next. The instants of these local times are also a range, unless the clock is put back across one
of its ends. Other conditions, such as `hour(ts) = 3`, are evaluated on the local time of each instant.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from hindex.domain import Domain, Range
from hindex.errors import PredicateError
from hindex.expr.coerce import type_of
from hindex.expr.dates import is_of_days
from hindex.expr.instants import first_instant, instant_constant, is_shown_once, to_instant, to_wall_clock
from hindex.expr.nodes import DATE, LOCAL_TIME, STRING, TIMESTAMP, Apply, Column, Constant, Node, walk
from hindex.expr.typing import Resolve, typed_condition
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import Kind
from hindex.plan.column_domains import ColumnDomain, column_domain
from hindex.sql.predicate import Expression, Literal, LiteralKind, PredicateLeaf, with_operands
from hindex.sql.string_values import format_timestamp

#: Fields of a local time.
_FIELDS = frozenset({"hour", "minute", "second"})


def local_time_condition(leaf: PredicateLeaf, resolve: Resolve, clock: datetime.tzinfo) -> Node | None:
    """Type a condition as if columns of timestamps had local times; None if it cannot be typed.

    Args:
        resolve: resolves columns; timestamps have the type TIMESTAMP.
        clock: the session's time zone.

    Raises:
        ColumnError: if a column cannot be resolved.
    """
    try:
        return typed_condition(_with_readings(leaf, clock), resolve)
    except PredicateError:
        return None  # typing it for instants raises an error of its own


def instants_domain(condition: Node, clock: datetime.tzinfo, *, negated: bool) -> ColumnDomain | None:
    """Return the column of timestamps that a condition tests by their days, and the instants for which it is TRUE.

    None for any other condition, and for days near which the clock is put back across midnight.

    Args:
        condition: see `local_time_condition`.
        clock: the session's time zone.
    """
    if not _is_of_days(condition):
        return None
    # Spark truncates a time to the last midnight before it, also of two equal ones, and never to a skipped one
    compares_times = any(_is_time(node) for node in walk(condition))
    if compares_times and not all(is_shown_once(time, clock) for time in _constant_times(condition)):
        return None
    answer = column_domain(condition, negated=negated)
    if answer is None or answer[0].column_type.kind is not Kind.TIMESTAMP:
        return None
    column, domain = answer
    ranges: list[Range] = []
    for item in domain.ranges:
        assert not isinstance(item.low, bytes)
        assert not isinstance(item.high, bytes)
        low = None if item.low is None else first_instant(item.low, clock)
        end = None if item.high is None else first_instant(item.high + 1, clock)
        if (low is None) is not (item.low is None) or (end is None) is not (item.high is None):
            return None
        if low is None or end is None or low < end:
            ranges.append(Range(low, None if end is None else end - 1))
    return column, Domain.from_ranges(ranges, null_allowed=domain.null_allowed)


def on_instants(condition: Node, zone: str) -> Node | None:
    """Return a condition on local times as one on instants; None if it compares or computes times.

    Args:
        condition: see `local_time_condition`.
        zone: the session's time zone, in the spelling of `hindex.plan.time_zones.canonical_zone`.
    """
    match condition:
        case Apply(function, (Column() as column,)) if _is_time_column(column):
            instants = Column(column.name, column.column_type.with_instants())
            if function == "IS NULL":
                return replace(condition, args=(instants,))
            if function in _FIELDS or (function == "CAST" and condition.type in (DATE, STRING)):
                return replace(condition, args=(Apply(LOCAL_TIME, (instants,), TIMESTAMP, (zone,)),))
        case Apply(_, args) if not _is_time(condition):
            converted = [on_instants(arg, zone) for arg in args]
            complete = tuple(arg for arg in converted if arg is not None)
            return replace(condition, args=complete) if len(complete) == len(args) else None
        case Column() if not _is_time_column(condition):
            return condition
        case Constant():
            return condition
    return None


def _is_time_column(node: Column) -> bool:
    return node.column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT)


def _is_time(node: Node) -> bool:
    return isinstance(node, Apply) and type_of(node).kind is Kind.TIMESTAMP


def _constant_times(condition: Node) -> Iterator[int]:
    """Yield the dates and times in a condition, as readings of a clock."""
    for node in walk(condition):
        if isinstance(node, Constant) and isinstance(node.value, int) and node.type is not None:
            if node.type.kind is Kind.TIMESTAMP:
                yield node.value
            elif node.type == DATE:
                yield node.value * MICROS_PER_DAY


def _with_readings(leaf: PredicateLeaf, clock: datetime.tzinfo) -> PredicateLeaf:
    """Replace literals of instants by local times. Ambiguous local times stay, and typing refuses them."""

    def written(node: Expression) -> Expression:
        if not isinstance(node, Literal) or node.kind is not LiteralKind.TIMESTAMP:
            return with_operands(node, written)
        instant = instant_constant(node, clock).value
        assert isinstance(instant, int)
        shown = to_wall_clock(instant, clock)
        if shown is None or to_instant(shown, clock) != instant:
            return node
        return Literal(format_timestamp(shown), LiteralKind.TIMESTAMP)

    return cast("PredicateLeaf", with_operands(leaf, written))


def _is_of_days(node: Node) -> bool:
    """Return True if a value depends only on the days of timestamps."""
    match node:
        case Column():
            return type_of(node).kind is not Kind.TIMESTAMP
        case Apply("CAST", (Column(),)) if type_of(node) == DATE:
            return True
        case Apply("date_trunc", (Column(),), _, (unit,)):
            return is_of_days(unit)
        case Apply(_, args):
            return all(map(_is_of_days, args))
    return True
