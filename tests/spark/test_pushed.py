"""Spark's pushed filters are taken as the predicates they are, or left to Spark."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pytest
from pyspark.sql import datasource as d

from hindex.spark.pushed import predicate_of
from hindex.sql import parse_predicate

TAKEN: list[tuple[d.Filter, str]] = [
    (d.EqualTo(("a",), 1), "a = 1"),
    (d.EqualTo(("r", "g", "h"), "x"), "r.g.h = 'x'"),
    (d.EqualNullSafe(("a",), None), "a <=> NULL"),
    (d.GreaterThan(("a",), Decimal("1.50")), "a > 1.50"),
    (d.GreaterThanOrEqual(("a",), 1.5), "a >= 1.5D"),
    (d.LessThan(("a",), datetime.date(2020, 1, 1)), "a < DATE '2020-01-01'"),
    (d.LessThanOrEqual(("a",), b"x"), "a <= X'78'"),
    (d.EqualTo(("a",), math.nan), "a = CAST('NaN' AS DOUBLE)"),
    (d.EqualTo(("flag",), True), "flag = TRUE"),
    (d.In(("a",), (1, None, 3)), "a IN (1, NULL, 3)"),
    (d.IsNull(("a",)), "a IS NULL"),
    (d.IsNotNull(("a",)), "a IS NOT NULL"),
    (d.Not(d.EqualTo(("a",), 1)), "NOT a = 1"),
    (d.Not(d.In(("a",), (1,))), "a NOT IN (1)"),
    (d.EqualTo(("t",), datetime.datetime(2020, 1, 1)), "t = TIMESTAMP '2020-01-01 00:00:00'"),
    (d.StringStartsWith(("s",), "a%"), "s LIKE 'a\\%%'"),
    (d.StringEndsWith(("s",), "b"), "s LIKE '%b'"),
    (d.StringContains(("s",), ""), "s LIKE '%%'"),
]
LEFT: list[d.Filter] = [
    d.EqualTo(("a",), [1, 2]),
    d.EqualTo(("t",), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)),
    d.EqualTo(("a",), Decimal(10**40)),
    d.In(("a",), ()),
    d.In(("a",), (1, {"x": 1})),
    d.Not(d.EqualTo(("a",), (1,))),
]


@pytest.mark.parametrize(("one", "text"), TAKEN, ids=[text for _, text in TAKEN])
def test_taken(one: d.Filter, text: str) -> None:
    assert predicate_of([one]) == (parse_predicate(text), [])


def test_the_rest_is_left_in_order() -> None:
    predicate, rest = predicate_of([LEFT[0], TAKEN[0][0], *LEFT[1:], TAKEN[5][0]])
    assert predicate == parse_predicate("a = 1 AND a < DATE '2020-01-01'")
    assert rest == LEFT
    assert predicate_of(LEFT) == (None, LEFT)
    assert predicate_of([]) == (None, [])
