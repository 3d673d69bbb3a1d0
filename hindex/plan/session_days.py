"""Conditions on the days that a session's clock shows of timestamps, as ranges of instants.

`CAST(ts AS DATE) = DATE '2024-03-31'` is solved for readings of a wall clock, as in a session in UTC: those from one
midnight to the next. The instants at which the session's clock shows these are a range, too, unless the clock is put
back across one of its ends.
"""

from __future__ import annotations

import datetime
from typing import cast

from hindex.domain import Domain, Range
from hindex.errors import PredicateError
from hindex.expr.coerce import type_of
from hindex.expr.dates import DATE_UNITS
from hindex.expr.instants import first_instant, instant_constant, to_instant, to_wall_clock
from hindex.expr.nodes import DATE, Apply, Column, Constant, Node, walk
from hindex.expr.typing import Resolve, typed_condition
from hindex.orc.metadata.types import Kind
from hindex.plan.column_domains import ColumnDomain, column_domain
from hindex.sql.predicate import Expression, Literal, LiteralKind, PredicateLeaf, columns, with_operands
from hindex.sql.string_values import format_timestamp


def instants_domain(
    leaf: PredicateLeaf, resolve: Resolve, clock: datetime.tzinfo, *, negated: bool
) -> ColumnDomain | None:
    """Return the column of timestamps that a condition tests by their days, and the instants for which it is TRUE.

    None for any other condition, and one on days near which the clock is put back across midnight.

    Args:
        resolve: gives timestamps as wall clocks, of type TIMESTAMP.
        clock: the session's.

    Raises:
        ColumnError: if a column cannot be resolved.
    """
    if all(resolve(column.parts)[1].kind is not Kind.TIMESTAMP for column in columns(leaf)):
        return None
    try:
        condition = typed_condition(_with_readings(leaf, clock), resolve)
    except PredicateError:
        return None  # typed for instants, it has an error of its own
    if not _is_of_days(condition) or not all(_is_shown(node, clock) for node in walk(condition)):
        return None
    answer = column_domain(condition, negated=negated)
    if answer is None or type_of(answer[0]).kind is not Kind.TIMESTAMP:
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


def _with_readings(leaf: PredicateLeaf, clock: datetime.tzinfo) -> PredicateLeaf:
    """Write literals of instants as the clock shows them; those that it shows twice stay, and typing refuses them."""

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
    """Return True if a value depends on timestamps by their days only."""
    match node:
        case Column():
            return type_of(node).kind is not Kind.TIMESTAMP
        case Apply("CAST", (Column(),)) if type_of(node) == DATE:
            return True
        case Apply("date_trunc", (Column(),), _, (unit,)):
            return unit == "DAY" or unit in DATE_UNITS
        case Apply(_, args):
            return all(map(_is_of_days, args))
    return True


def _is_shown(node: Node, clock: datetime.tzinfo) -> bool:
    """Return True unless a node is a constant time that the clock skips, or the first time after those that it skips.

    Where a day does not begin at midnight, Spark compares the time at which it begins.
    """
    if (
        not isinstance(node, Constant)
        or not isinstance(node.value, int)
        or type_of(node).kind is not Kind.TIMESTAMP
    ):
        return True
    instant = to_instant(node.value, clock)
    if instant is None:
        return False
    return to_wall_clock(instant, clock) == node.value and to_wall_clock(instant - 1, clock) == node.value - 1
