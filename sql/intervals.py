"""Dates plus and minus intervals, computed in a parsed expression.

Source: Spark SQL reference, "Datetime operators": a month that is too short ends the sum on its last day.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from hindex.sql.string_values import parse_date

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_UNITS = {"DAY": 1, "WEEK": 7}
_MONTHS = {"MONTH": 1, "YEAR": 12}


def folded(node: Node) -> Node:
    """With the values of dates plus or minus intervals in their place."""

    def fold(part: Node) -> Node:
        if not isinstance(part, exp.Add | exp.Sub):
            return part
        date, interval = _date(part.this.unnest()), part.expression.unnest()
        if date is None or not isinstance(interval, exp.Interval):
            return part
        shifted = _shifted(date, interval, -1 if isinstance(part, exp.Sub) else 1)
        return part if shifted is None else exp.cast(exp.Literal.string(shifted.isoformat()), "date")

    # from the inside out: a sum of a date and two intervals is one date
    for part in reversed(list(node.walk())):
        if isinstance(part, exp.Add | exp.Sub) and part is not node:
            part.replace(fold(part))
    return fold(node)


def _date(node: Node) -> datetime.date | None:
    if (
        not isinstance(node, exp.Cast)
        or not node.to.is_type("date")
        or not isinstance(node.this, exp.Literal)
    ):
        return None
    date = parse_date(node.this.name) if node.this.is_string else None
    return date if isinstance(date, datetime.date) else None


def _shifted(date: datetime.date, interval: exp.Interval, sign: int) -> datetime.date | None:
    unit, amount = interval.args.get("unit"), interval.this
    if not isinstance(unit, exp.Var) or not isinstance(amount, exp.Literal) or not amount.name.isdecimal():
        return None
    word = unit.name.upper().removesuffix("S")
    try:
        number = sign * int(amount.name)
        if word in _UNITS:
            return date + datetime.timedelta(days=number * _UNITS[word])
        if word not in _MONTHS:
            return None
        months = date.year * 12 + date.month - 1 + number * _MONTHS[word]
        first = datetime.date(months // 12, months % 12 + 1, 1)
        length = (datetime.date(first.year + first.month // 12, first.month % 12 + 1, 1) - first).days
        return first.replace(day=min(date.day, length))
    except (ValueError, OverflowError):
        return None
