"""Conditions that join the domain of a column with few values keep the rows that the expression keeps."""

from __future__ import annotations

import datetime
import random

import pyarrow as pa
import pytest

from hindex.errors import PredicateError
from hindex.expr.typing import typed_condition
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import Filter, Leaf, Never, Residual, residuals
from hindex.plan.filter_evaluation import evaluate_truth, mask
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import TimeZones
from hindex.sql import parse_predicate
from hindex.table.schema import TableColumn, TableSchema
from tests.support.cases import cases

DAYS = [datetime.date(2019, 12, 1) + datetime.timedelta(days=at) for at in range(0, 900, 7)]
COLUMNS: dict[OrcType, list[object]] = {
    OrcType(Kind.INT): [*range(-5, 30), 1 << 30],
    OrcType(Kind.BYTE): [*range(-5, 30), 127, -128],
    OrcType(Kind.STRING): ["", "a", "A", "b", "ab", "AB", "é", "c "],
    OrcType(Kind.VARCHAR, max_length=3): ["", "a", "A", "b", "ab", "AB", "é"],
    OrcType(Kind.CHAR, max_length=3): ["a", "A", "ab", "b"],
    # the types of a file have the numbers of their columns
    OrcType(Kind.DATE, column=3): list(DAYS),
    OrcType(Kind.TIMESTAMP, column=2): [
        datetime.datetime.combine(day, datetime.time(at % 24, at % 60, 59, at)) for at, day in enumerate(DAYS)
    ],
    OrcType(Kind.DECIMAL, precision=5, scale=0): [1, 2, 3],
    OrcType(Kind.BOOLEAN): [True, False],
}
FEW = {
    Kind.INT: ("c IN (1, 2, 3, 12)", "c BETWEEN 0 AND 20", "c = 4", "(c IN (0, 5) OR c IS NULL)", "c > -200"),
    Kind.STRING: ("c IN ('a', 'A', 'b', 'é')", "c = 'ab'", "(c IN ('a', 'AB') OR c IS NULL)", "c >= 'a'"),
    Kind.DATE: (
        *("year(c) = 2020", "year(c) IN (2020, 2021)", "c >= DATE '2020-02-28' AND c < DATE '2020-06-03'"),
        *("(year(c) = 2020 OR c IS NULL)", "c > DATE '2020-01-01'", "trunc(c, 'MM') = DATE '2020-02-01'"),
        "c BETWEEN TIMESTAMP '2020-01-05 12:30:00' AND TIMESTAMP '2020-02-05 12:30:00'",
    ),
    Kind.DECIMAL: ("c = 1",),
    Kind.BOOLEAN: ("c", "NOT c", "c IS NULL"),
}
REST = {
    Kind.INT: (
        "c % 2 = 0",
        "c * c > 9",
        "10 / c > 1",
        "abs(c) IN (1, 2, NULL)",
        "c + 1 IS NOT NULL",
        "c <=> c - 0",
    ),
    Kind.STRING: (
        "lower(c) = 'a'",
        "length(c) = 1",
        "c LIKE '%b'",
        "concat(c, 'x') IN ('ax', NULL)",
        "c RLIKE 'a'",
    ),
    Kind.DATE: (
        *("month(c) = 3", "day(c) > 15", "dayofweek(c) IN (1, 7)", "quarter(c) <> 1", "weekofyear(c) <= 9"),
        *("last_day(c) = CAST(c AS DATE)", "hour(c) = 3", "coalesce(month(c), 3) = 3", "month(c) = day(c)"),
    ),
    Kind.DECIMAL: ("c % 2 = 1",),
    Kind.BOOLEAN: ("coalesce(c, c) = TRUE",),
}
ALIKE = {Kind.BYTE: Kind.INT, Kind.VARCHAR: Kind.STRING, Kind.CHAR: Kind.STRING, Kind.TIMESTAMP: Kind.DATE}
SCHEMA = TableSchema(
    (
        *(TableColumn(name, OrcType(Kind.INT)) for name in ("a", "b")),
        TableColumn("d", OrcType(Kind.DATE)),
        TableColumn("t", OrcType(Kind.TIMESTAMP)),
        TableColumn("s", OrcType(Kind.STRING)),
    )
)


def filtered(text: str) -> Filter:
    return normalize(parse_predicate(text), SCHEMA, TimeZones("UTC", "UTC"))


@pytest.mark.parametrize("data_type", COLUMNS, ids=str)
def test_same_rows_as_the_expression(data_type: OrcType) -> None:
    chance = random.Random(str(data_type))
    kind = ALIKE.get(data_type.kind, data_type.kind)
    array = pa.array([None, *COLUMNS[data_type]], data_type.to_arrow())
    schema = TableSchema((TableColumn("c", data_type),))
    leaves = 0
    number = cases(80, 300)
    for _ in range(number):
        parts = [chance.choice(FEW[kind]), *chance.choices(REST[kind], k=chance.choice((1, 1, 2)))]
        parts = [f"NOT ({part})" if chance.random() < 0.15 else part for part in parts]
        chance.shuffle(parts)
        text = " AND ".join(parts)
        predicate = parse_predicate(text)
        root = normalize(predicate, schema)
        truth, errors = evaluate_truth(
            Residual(typed_condition(predicate, lambda _: ("c", data_type))), {"c": array}, len(array)
        )
        try:
            rows = mask(root, {"c": array}, len(array))
        except PredicateError:
            assert errors is not None
            continue
        assert rows.tolist() == truth.tolist(), text
        leaves += next(residuals(root), None) is None
    assert (leaves > number / 5) is (
        kind in (Kind.INT, Kind.STRING, Kind.DATE) and data_type.kind is not Kind.CHAR
    )


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("year(d) = 2024 AND month(d) = 3", [(19783, 19813)]),
        ("year(t) = 2024 AND month(t) = 3", [(19783 * 86_400_000_000, 19814 * 86_400_000_000 - 1)]),
        ("month(d) = 2 AND day(d) = 29 AND year(d) BETWEEN 2020 AND 2025", [(18321, 18321), (19782, 19782)]),
        ("a BETWEEN 0 AND 9 AND a % 4 = 1", [(1, 1), (5, 5), (9, 9)]),
        ("a IN (1, 2, 3) AND NOT (a + 1 = 3)", [(1, 1), (3, 3)]),
    ],
)
def test_becomes_one_domain(text: str, ranges: list[tuple[int, int]]) -> None:
    root = filtered(text)
    assert isinstance(root, Leaf)
    assert [(item.low, item.high) for item in root.domain.ranges] == ranges
    assert not root.domain.null_allowed


@pytest.mark.parametrize(
    "text",
    [
        "a BETWEEN 0 AND 20000 AND a % 4 = 1",
        "a > 0 AND a % 4 = 1",
        "a BETWEEN 0 AND 9 AND 10 / a = 5",
        "a IN (1, 2) AND a + b = 3",
        "a IN (1, 2) OR a % 2 = 0",
        "s LIKE 'a%' AND length(s) = 3",
        "year(t) = 2024 AND hour(t) = 3",
        "year(t) = 2024 AND month(t) = 3 + hour(t)",
    ],
)
def test_stays_a_condition_on_rows(text: str) -> None:
    assert next(residuals(filtered(text)), None) is not None


def test_no_value_is_never_true() -> None:
    assert isinstance(filtered("year(d) = 2024 AND month(d) = 13"), Never)
