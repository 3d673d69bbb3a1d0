"""Constant dates and times have the values that Spark computes in the session's time zone."""

from __future__ import annotations

import datetime
import random
import zoneinfo
from typing import TYPE_CHECKING

import pytest

from hindex.errors import PredicateError
from hindex.expr.constant_times import with_constant_times
from hindex.expr.instants import instant_constant, to_instant, to_wall_clock
from hindex.expr.nodes import Constant
from hindex.expr.typing import typed
from hindex.sql import parse_predicate
from hindex.sql.predicate import Comparison, Expression, Literal, LiteralKind
from hindex.sql.string_values import format_timestamp
from tests.support.cases import sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: 2024-05-01 21:46:40.123456 of UTC
INSTANT = 1_714_600_000_123_456
ZONES = ("UTC", "America/Los_Angeles", "Atlantic/Azores", "Australia/Lord_Howe", "+05:30")
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
INTERVALS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
DAY = 86_400_000_000


def value_of(text: str) -> Expression:
    predicate = parse_predicate(f"c = {text}")
    assert isinstance(predicate, Comparison)
    return predicate.right


def zone_of(name: str) -> datetime.tzinfo:
    if name == "UTC":
        return datetime.UTC
    if name[0] == "+":
        return datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    return zoneinfo.ZoneInfo(name)


def computed(text: str, zone: datetime.tzinfo | None, instant: int = INSTANT) -> str:
    return str(with_constant_times(value_of(text), zone, instant))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("current_date", "DATE '2024-05-01'"),
        ("curdate()", "DATE '2024-05-01'"),
        ("now()", "TIMESTAMP '2024-05-01 21:46:40.123456'"),
        ("current_timestamp", "TIMESTAMP '2024-05-01 21:46:40.123456'"),
        ("localtimestamp()", "TIMESTAMP_NTZ '2024-05-01 21:46:40.123456'"),
        ("date_sub(current_date(), 3 + 4)", "DATE '2024-04-24'"),
        ("current_date() - INTERVAL 1 MONTH", "DATE '2024-04-01'"),
        ("current_date() + INTERVAL 1 HOUR", "TIMESTAMP '2024-05-01 01:00:00'"),
        ("date_trunc('MONTH', now()) - INTERVAL 1 DAY", "TIMESTAMP '2024-04-30 00:00:00'"),
        ("trunc(now(), 'YEAR')", "DATE '2024-01-01'"),
        ("trunc(now(), 'x')", "CAST(NULL AS DATE)"),
        ("hour(now())", "CAST(21 AS INT)"),
        ("CAST(now() AS STRING)", "CAST('2024-05-01 21:46:40.123456' AS STRING)"),
        ("datediff(current_date(), DATE '2024-01-01')", "datediff(DATE '2024-05-01', DATE '2024-01-01')"),
        ("a + 1", "a + 1"),
        ("date_add(current_date(), a)", "date_add(DATE '2024-05-01', a)"),
        ("add_months(DATE '5881580-07-11', 1)", "add_months(DATE '+5881580-07-11', 1)"),
        ("greatest(now(), a)", "greatest(TIMESTAMP '2024-05-01 21:46:40.123456', a)"),
    ],
)
def test_constants_become_literals(text: str, expected: str) -> None:
    assert computed(text, None) == expected
    assert computed(text, datetime.UTC) == expected


def test_clock_shows_the_session_time() -> None:
    zone = zone_of("America/Los_Angeles")
    before_midnight = INSTANT + 9 * 3_600_000_000
    assert computed("current_date()", zone, before_midnight) == "DATE '2024-05-01'"
    assert computed("current_date()", datetime.UTC, before_midnight) == "DATE '2024-05-02'"
    assert computed("now()", zone) == "TIMESTAMP '2024-05-01 21:46:40.123456Z'"
    assert computed("localtimestamp()", zone) == "TIMESTAMP_NTZ '2024-05-01 14:46:40.123456'"
    assert computed("hour(now())", zone) == "CAST(14 AS INT)"


def test_clock_is_refused_where_the_time_may_not_matter() -> None:
    with raises(PredicateError):
        with_constant_times(value_of("current_date() - 7"), None, None)
    assert str(with_constant_times(value_of("DATE '2024-05-08' - 7"), None, None)) == "DATE '2024-05-01'"


def test_wall_clocks_are_the_inverse_of_instants() -> None:
    chance = random.Random(1)
    for name in ZONES:
        zone = zone_of(name)
        for _ in range(500):
            instant = chance.randrange(0, 2**50)
            shown = to_wall_clock(instant, zone)
            assert shown is not None
            assert to_instant(shown, zone, shown - instant) == instant


def random_start(chance: random.Random, zone: datetime.tzinfo) -> str:
    """Return a constant time, often within a day of a change of the zone's offset."""
    if chance.random() < 0.3:
        return f"DATE '{datetime.date(2024, 1, 1) + datetime.timedelta(days=chance.randrange(800))}'"
    changes = [
        day * DAY
        for day in range(19_723, 20_454)
        if (to_wall_clock((day + 1) * DAY, zone) or 0) - (to_wall_clock(day * DAY, zone) or 0) != DAY
    ]
    day = (
        chance.choice(changes)
        if changes and chance.random() < 0.7
        else chance.randrange(19_723, 20_454) * DAY
    )
    instant = day + chance.randrange(-12 * 4, 36 * 4) * DAY // 96 + chance.choice((0, 0, 1, 123_456))
    return f"TIMESTAMP '{format_timestamp(instant)}Z'"


def random_time(chance: random.Random, zone: datetime.tzinfo, depth: int = 0) -> str:
    if depth > 2 or chance.random() < 0.2:
        return random_start(chance, zone)
    value = random_time(chance, zone, depth + 1)
    match chance.randrange(8):
        case 0 | 1 | 2:
            number, unit = chance.choice((-1, 1, 1, 2, 24, 25, -36, 181)), chance.choice(INTERVALS)
            if chance.random() < 0.2:
                return f"(INTERVAL '{number}' {unit} + {value})"
            return f"({value} {chance.choice('+-')} INTERVAL '{number}' {unit})"
        case 3 | 4:
            return f"date_trunc('{chance.choice(UNITS)}', {value})"
        case 5:
            return f"CAST({value} AS {chance.choice(('DATE', 'TIMESTAMP'))})"
        case 6:
            return chance.choice(
                (
                    f"date_sub({value}, 7)",
                    f"last_day({value})",
                    f"add_months({value}, {chance.randrange(-20, 20)})",
                )
            )
        case _:
            return f"trunc({value}, '{chance.choice(('YEAR', 'MM', 'WEEK'))}')"


@sampled(2)
@pytest.mark.parametrize("name", ZONES)
def test_values_are_sparks(spark: SparkSession, name: str) -> None:
    zone = zone_of(name)
    chance = random.Random(name)
    texts = list(dict.fromkeys(random_time(chance, zone) for _ in range(400)))
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        answers = [
            spark.sql(
                "SELECT "
                + ", ".join(f"unix_micros(CAST({text} AS TIMESTAMP))" for text in texts[at : at + 50])
            )
            for at in range(0, len(texts), 50)
        ]
        expected = [value for answer in answers for value in answer.collect()[0]]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    unanswered = 0
    for text, micros in zip(texts, expected, strict=True):
        value = with_constant_times(value_of(f"CAST({text} AS TIMESTAMP)"), zone, INSTANT)
        if not isinstance(value, Literal):
            unanswered += 1
            continue
        assert value.kind is LiteralKind.TIMESTAMP
        assert instant_constant(value, zone).value == micros, text
    assert unanswered < len(texts) / 50


def test_computed_numbers_are_no_literals() -> None:
    value = with_constant_times(value_of("year(now())"), datetime.UTC, INSTANT)
    node = typed(value, lambda parts: pytest.fail(str(parts)))
    assert isinstance(node, Constant)
    assert (node.value, node.is_literal) == (2024, False)
