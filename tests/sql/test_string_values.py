"""Times in strings; Python's own are the oracle where it has the year."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindex.sql.string_values import (
    WallClock,
    date_to_days,
    format_date,
    format_timestamp,
    parse_date,
    parse_days,
    parse_wall_clock,
)

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


@given(st.datetimes(), st.sampled_from([1, 1000, 100_000, 1_000_000]))
def test_times(value: datetime.datetime, unit: int) -> None:
    value = value.replace(microsecond=value.microsecond // unit * unit % 1_000_000)
    micros = (value - EPOCH) // MICROSECOND
    text = format_timestamp(micros)
    written = value.isoformat(" ")
    assert text == (written.rstrip("0") if value.microsecond else written)
    assert parse_wall_clock(text) == parse_wall_clock(written) == WallClock(micros)
    # digits behind microseconds are cut
    precise = written if value.microsecond else f"{written}.000000"
    assert parse_wall_clock(f"{precise}9") == WallClock(micros)


@given(st.dates())
def test_dates(value: datetime.date) -> None:
    text = value.isoformat()
    assert parse_date(text) == value
    assert parse_days(text) == date_to_days(value) == (value - EPOCH.date()).days
    assert format_date(value) == format_date(date_to_days(value)) == text


@given(st.integers(-(2**31), 2**31 - 1))
def test_days_of_any_year(days: int) -> None:
    assert parse_days(format_date(days)) == days


@given(st.integers(-(2**63), 2**63 - 1))
def test_times_of_any_year(micros: int) -> None:
    text = format_timestamp(micros)
    year = text.lstrip("+-").partition("-")[0]
    # Spark writes longer years of timestamps than it reads
    assert parse_wall_clock(text) == (WallClock(micros) if len(year) <= 6 else None)


@pytest.mark.parametrize(
    ("text", "micros", "zone"),
    [
        ("2020-01-02", 1_577_923_200_000_000, None),
        ("2020-1-2 3", 1_577_934_000_000_000, None),
        (" 2020-01-02T03:04:05.5 Europe/Berlin\t", 1_577_934_245_500_000, "Europe/Berlin"),
        ("2020-01-02 03:04:05.", 1_577_934_245_000_000, None),
        ("1969-12-31 23:59:59.999999", -1, None),
        ("-0001-01-01 00:00:00.25", -62_198_755_199_750_000, None),
    ],
)
def test_forms_of_times(text: str, micros: int, zone: str | None) -> None:
    assert parse_wall_clock(text) == WallClock(micros, zone)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-02 24:00:00",
        "2020-01-02 00:60:00",
        "2020-01-02 00:00:60",
        "2020-02-30 00:00:00",
        "2020 10:00",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_wall_clock(text) is None
