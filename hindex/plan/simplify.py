"""Expressions that say the same as a comparison of a column with a literal, so that indexes can answer them.

Only what is exactly equal, NULL included, is rewritten: casts that lose nothing, steps of dates (``year(d) = 1995``)
and prefixes of strings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hindex.domain import Domain
from hindex.expr.nodes import DATE, TIMESTAMP, Apply, Column, Constant, Node
from hindex.expr.spark_types import column_type
from hindex.keys import key_limits
from hindex.orc.calendars import MICROS_PER_DAY, days_from_civil
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.plan.column_domains import comparison_domain, membership_domain, prefix_domain
from hindex.sql.predicate import ComparisonOp, Literal, LiteralKind
from hindex.sql.string_values import date_from_days, format_timestamp

#: A column, and the values of it for which a condition is TRUE.
ColumnDomain = tuple[Column, Domain]

#: A decimal of so many digits is compared with any integer and any other such decimal without rounding either.
_EXACT_DIGITS = 18
#: NOT over a comparison of values that are not NULL. `<=>` has no opposite operator: it is complemented.
OPPOSITES = {
    ComparisonOp.EQ: ComparisonOp.NE,
    ComparisonOp.NE: ComparisonOp.EQ,
    ComparisonOp.LT: ComparisonOp.GE,
    ComparisonOp.GE: ComparisonOp.LT,
    ComparisonOp.GT: ComparisonOp.LE,
    ComparisonOp.LE: ComparisonOp.GT,
}


def comparison(op: ComparisonOp, left: Node, right: Node, *, negated: bool) -> ColumnDomain | None:
    """Return the column and domain of a comparison that tests one column; None for any other.

    Raises:
        PredicateError: if Spark refuses the comparison.
    """
    if isinstance(left, Constant):
        op, left, right = op.flipped, right, left
    if not isinstance(right, Constant) or isinstance(left, Constant):
        return None
    stepped = _stepped(left)
    if stepped is not None and _is_step(left, right):
        column, start = stepped
        return column, _step_domain(column.column_type, op, right, start, negated=negated)
    plain = _uncast(left, right)
    if plain is None:
        return None
    column, literal = plain
    if negated and op is not ComparisonOp.NULL_SAFE_EQ:
        op, negated = OPPOSITES[op], False
    domain = comparison_domain(column.column_type, op, literal)
    return column, domain.complement(null_allowed=not domain.null_allowed) if negated else domain


def membership(nodes: Sequence[Node], *, negated: bool) -> ColumnDomain | None:
    """Return the column and domain of ``nodes[0] IN (constants)``; None if that is no test of one column."""
    value, *items = nodes
    if isinstance(value, Column):
        return _listed(value, items, negated=negated)
    if _stepped(value) is None or not all(_is_step(value, item) for item in items):
        return None
    domains = [comparison(ComparisonOp.EQ, value, item, negated=False) for item in items]
    column = next(one[0] for one in domains if one is not None)
    members = Domain.from_ranges(part for one in domains if one is not None for part in one[1].ranges)
    if not negated:
        return column, members
    if any(isinstance(item, Constant) and item.value is None for item in items):
        return column, Domain.none()
    return column, members.complement(null_allowed=False)


def _listed(column: Column, items: Sequence[Node], *, negated: bool) -> ColumnDomain | None:
    literals = [
        _literal(item) if isinstance(item, Constant) and _compares_alike(column, item) else None
        for item in items
    ]
    converted = [literal for literal in literals if literal is not None]
    if len(converted) < len(literals) or column.column_type.kind is Kind.CHAR:
        return None
    members = membership_domain(column.column_type, converted)
    if not negated:
        return column, members
    if any(literal.kind is LiteralKind.NULL for literal in converted):
        return column, Domain.none()
    return column, members.complement(null_allowed=False)


def prefix(node: Node, *, negated: bool) -> ColumnDomain | None:
    """Return the column and domain of ``startswith(column, 'text')``; None for any other node."""
    match node:
        case Apply("startswith", (Column() as column, Constant(str() as text))):
            if column.column_type.kind is Kind.CHAR:
                return None
            domain = prefix_domain(text)
            return column, domain.complement(null_allowed=False) if negated else domain
    return None


# Casts that lose nothing


def _uncast(node: Node, constant: Constant) -> tuple[Column, Literal] | None:
    """Remove the cast of a column beside a constant; return the column and an equivalent literal, or None."""
    if isinstance(node, Column):
        literal = _literal(constant)
        return None if literal is None or not _compares_alike(node, constant) else (node, literal)
    if not isinstance(node, Apply) or node.function != "CAST" or not isinstance(node.args[0], Column):
        return None
    column, to, constant_type = node.args[0], node.type, constant.type
    source = column.column_type.kind
    if to.kind in INTEGER_KINDS and source in INTEGER_KINDS and _width(to) >= _width(column.type):
        return (
            _uncast(column, constant)
            if constant_type is None or constant_type.kind in INTEGER_KINDS
            else None
        )
    if to.kind is Kind.DOUBLE and (source in INTEGER_KINDS or source in (Kind.FLOAT, Kind.DECIMAL)):
        value = constant.value
        if value is None:
            return column, Literal(None, LiteralKind.NULL)
        if constant_type is not None and (
            constant_type.kind in INTEGER_KINDS
            or constant_type.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
        ):
            assert not isinstance(value, str | bytes)
            return column, Literal(float(value), LiteralKind.DOUBLE)
    if to == TIMESTAMP and source is Kind.DATE and constant_type in (TIMESTAMP, None):
        literal = _literal(constant)
        return None if literal is None else (column, literal)
    return None


def _compares_alike(column: Column, constant: Constant) -> bool:
    """Return True if Spark gives a constant the same type beside a column as the literal of the same value."""
    constant_type, orc_type = constant.type, column.column_type
    if constant_type is None or column_type(orc_type) is None:
        return column_type(orc_type) is not None
    if orc_type.kind in (Kind.TIMESTAMP_INSTANT, Kind.STRING, Kind.VARCHAR, Kind.CHAR):
        return constant_type.kind is Kind.STRING and orc_type.kind is not Kind.TIMESTAMP_INSTANT
    if orc_type.kind is Kind.DECIMAL or constant_type.kind is Kind.DECIMAL:
        return max(constant_type.precision, column.type.precision) <= _EXACT_DIGITS
    return True


def _literal(constant: Constant) -> Literal | None:
    value, data_type = constant.value, constant.type
    if value is None or data_type is None:
        return Literal(None, LiteralKind.NULL)
    if isinstance(value, int) and data_type == DATE:
        return Literal(date_from_days(value), LiteralKind.DATE)
    if isinstance(value, int) and data_type == TIMESTAMP:
        return Literal(format_timestamp(value), LiteralKind.TIMESTAMP)
    kinds = {
        Kind.BOOLEAN: LiteralKind.BOOLEAN,
        Kind.DECIMAL: LiteralKind.DECIMAL,
        Kind.FLOAT: LiteralKind.DOUBLE,
        Kind.DOUBLE: LiteralKind.DOUBLE,
        Kind.STRING: LiteralKind.STRING,
        Kind.BINARY: LiteralKind.BINARY,
        **dict.fromkeys(INTEGER_KINDS, LiteralKind.INTEGER),
    }
    kind = kinds.get(data_type.kind)
    return None if kind is None else Literal(value, kind)


def _width(data_type: OrcType) -> int:
    return (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG).index(data_type.kind)


# Steps: functions that never fall, and change at certain values only


def _stepped(node: Node) -> tuple[Column, Callable[[int], int]] | None:
    """Return the column of a step function, and a function from a result to the least key that has it."""
    match node:
        case Apply("year", (Column(_, OrcType(kind=Kind.DATE)) as column,)):
            return column, _first_day
        case Apply("year", (Apply("CAST", (Column(_, OrcType(kind=Kind.TIMESTAMP)) as column,)),)):
            return column, lambda year: _first_day(year) * MICROS_PER_DAY
        case Apply("CAST", (Column(_, OrcType(kind=Kind.TIMESTAMP)) as column,), of) if of == DATE:
            return column, lambda day: day * MICROS_PER_DAY
    return None


def _is_step(node: Node, item: Node) -> bool:
    if not isinstance(item, Constant):
        return False
    kinds = {Kind.DATE} if isinstance(node, Apply) and node.type == DATE else INTEGER_KINDS
    return item.type is None or item.type.kind in kinds


def _first_day(year: int) -> int:
    # far beyond every date of a column, and within what the calendar is computed in
    near = min(max(year, -6_000_000), 6_000_000)
    return int(days_from_civil(np.array([near]), np.array([1]), np.array([1]))[0])


def _step_domain(
    data_type: OrcType, op: ComparisonOp, constant: Constant, start: Callable[[int], int], *, negated: bool
) -> Domain:
    value = constant.value
    if value is None:
        if op is not ComparisonOp.NULL_SAFE_EQ:
            return Domain.none()
        return Domain.not_null() if negated else Domain.only_null()
    assert isinstance(value, int)
    low, above = start(value), start(value + 1)
    equal = _between(data_type, low, above)
    if op is ComparisonOp.NULL_SAFE_EQ:
        return equal.complement(null_allowed=True) if negated else equal
    match OPPOSITES[op] if negated else op:
        case ComparisonOp.EQ:
            return equal
        case ComparisonOp.NE:
            return equal.complement(null_allowed=False)
        case ComparisonOp.LT:
            return _between(data_type, None, low)
        case ComparisonOp.LE:
            return _between(data_type, None, above)
        case ComparisonOp.GT:
            return _between(data_type, above, None)
        case _:
            return _between(data_type, low, None)


def _between(data_type: OrcType, low: int | None, above: int | None) -> Domain:
    """Return the keys of a type from ``low`` up to, but not including, ``above``."""
    limits = key_limits(data_type)
    assert limits is not None
    least, greatest = limits
    if (low is not None and low > greatest) or (above is not None and above <= least):
        return Domain.none()
    if low is not None and low <= least:
        low = None
    if above is not None and above > greatest:
        above = None
    return Domain.between(low, above, high_inclusive=False)
