"""Clocks of writers' time zones show what Java, and so Spark, says that they did."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.time_zones import normalize_zone, to_instants, to_wall_clock
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Both hemispheres, half hours of daylight saving, none, a negative one, names of Java's own, and offsets.
ZONES = (
    "America/Los_Angeles",
    "America/Nuuk",
    "Europe/Dublin",
    "Europe/London",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Asia/Manila",
    "Africa/Casablanca",
    "Africa/Monrovia",
    "Africa/Windhoek",
    "Pacific/Apia",
    "PST",
    "EST5EDT",
    "GMT+05:45",
    "UTC",
)

#: From and to so many seconds since 1970: years 1 to 1900, 1970 to 2018, 2038 to 2438, and to 9999. Editions of the
#: time zone database differ in what is between.
ERAS = (
    (-62_135_596_800, -2_208_988_800),
    (0, 1_514_764_800),
    (2_145_916_800, 14_768_697_600),
    (14_768_697_600, 253_402_300_800),
)


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_at_any_time(spark: SparkSession, zone: str, rng: np.random.Generator) -> None:
    """Pyarrow has local mean time before 1900, and no daylight saving time from 2038 on."""
    java = spark._jvm.java.util.TimeZone.getTimeZone(zone)  # type: ignore[union-attr]
    instants = np.concatenate([rng.integers(first, last, 8) for first, last in ERAS]) * 1_000_000 + 999_999
    # the instants at which the eras meet, and at which Java leaves the last rule of a zone
    meeting = [-2_208_988_800, 2_145_916_800, 2_114_377_199, 2_114_377_200]
    # around each change of the clocks in a year
    year = int(np.datetime64("2044-01-01", "s").astype(np.int64))
    hours = year + np.arange(366 * 24) * 3600
    shown = to_wall_clock(hours * 1_000_000, normalize_zone(zone)) - hours * 1_000_000
    changes = hours[1:][np.diff(shown) != 0]
    instants = np.concatenate([instants, np.array([*meeting, *changes, *(changes - 1)]) * 1_000_000])
    expected = [int(micros) + java.getOffset(int(micros) // 1000) * 1000 for micros in instants]
    assert to_wall_clock(instants, normalize_zone(zone)).tolist() == expected


def test_each_hour_of_a_year_far_from_now() -> None:
    """2444 has the days of 2044, 400 years on: the clocks change in the same hours."""
    hours = np.arange(366 * 24) * 3_600_000_000
    starts = [int(np.datetime64(f"{year}-01-01", "us").astype(np.int64)) for year in (2044, 2444, 8844)]
    shown = [to_wall_clock(start + hours, "Europe/London") - start for start in starts]
    summer = (shown[0] - hours) // 3_600_000_000
    # from the last Sunday of March to that of October, at 01:00 of UTC
    assert np.flatnonzero(np.diff(summer)).tolist() == [86 * 24, 303 * 24]
    assert all(np.array_equal(one, shown[0]) for one in shown)


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "Asia/Manila", "Europe/London"])
def test_readings_before_zones_had_transitions(zone: str, rng: np.random.Generator) -> None:
    """A reader shows them as the local mean time of its own zone."""
    year_1800 = int(np.datetime64("1800-01-01", "s").astype(np.int64))
    seconds = np.append(rng.integers(-62_000_000_000, year_1800, 20), [year_1800 - 86_400, year_1800])
    clocks = seconds * 1_000_000
    reader = zoneinfo.ZoneInfo(zone)
    shown = [datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=int(one)) for one in seconds]
    instants = [(time.replace(tzinfo=reader) - EPOCH) // MICROSECOND for time in shown]
    assert to_instants(clocks, clocks, zone).tolist() == instants


@pytest.mark.parametrize("zone", ["No/Where", "America", "../../etc/passwd", "+99:00"])
def test_zones_that_are_not(tmp_path: Path, zone: str) -> None:
    file = tmp_path / "t.orc"
    pa.orc.write_table(pa.table({"a": [1]}), file)
    with raises(OrcError):
        to_wall_clock(np.zeros(1, np.int64), zone)
    with raises(OrcError):
        OrcReader(file, timezone=zone)
