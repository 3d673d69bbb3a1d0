"""Timestamps if Spark's Java, its session and the writers of files are in different time zones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.domain import Domain
from hindex.errors import HindexError, PredicateError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.time_zones import FIRST_TRANSITIONS, normalize_zone, to_instants, to_wall_clock
from hindex.plan.filter import Leaf
from hindex.plan.filter_evaluation import mask, prune
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import TimeZones, keyed_by_wall_clocks
from hindex.spark.session import session_time_zones
from hindex.sql import parse_predicate
from hindex.table.schema import TableColumn, TableSchema
from tests.spark.zones_run import (
    session_zone,
)
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.local_build import LocalConnection


#: Sessions whose clock is put back to midnight, skips midnight, or neither, the days around that, and how many of the
#: conditions of the test are refused.
CLOCKS_AT_MIDNIGHT = [
    ("America/Havana", ["2024-11-02", "2024-11-03", "2024-11-04"], 2),
    ("America/Sao_Paulo", ["2018-11-03", "2018-11-04", "2018-11-05"], 2),
    ("Europe/Berlin", ["2024-10-26", "2024-10-27", "2024-10-28"], 0),
]


@pytest.mark.parametrize(("zone", "days", "refused"), CLOCKS_AT_MIDNIGHT)
def test_days_whose_midnight_is_shown_twice_or_not_at_all(
    spark: SparkSession, tmp_path: Path, connection: LocalConnection, zone: str, days: list[str], refused: int
) -> None:
    """Spark cuts times after the second of two midnights to that one: such days are not compared here."""
    step = np.timedelta64(15, "m")
    times = pa.array(
        np.arange(np.datetime64(days[0], "us"), np.datetime64(days[2], "us") + 2 * 96 * step, step),
        pa.timestamp("us"),
    )
    write_columns(tmp_path / "t" / "0.orc", {"id": pa.array(range(len(times))), "ts": times})
    connection.table(tmp_path / "t").create_index("i", "ts")
    conditions = [
        f"{subject} {op} {literal}"
        for day in days
        for subject, op, literal in (
            ("date_trunc('DAY', ts)", "=", f"TIMESTAMP '{day} 00:00:00'"),
            ("date_trunc('DAY', ts)", ">", f"DATE '{day}'"),
            ("CAST(ts AS DATE)", "=", f"DATE '{day}'"),
            ("CAST(ts AS DATE)", "<=", f"TIMESTAMP '{day} 12:00:00'"),
        )
    ]
    answers, refusals = 0, 0
    with session_zone(spark, zone):
        frame = spark.read.orc(str(tmp_path / "t"))
        truth = frame.selectExpr("id", *(f"{text} AS c{at}" for at, text in enumerate(conditions))).toArrow()
        table = hindex.connect(spark=spark).table(tmp_path / "t")
        for at, condition in enumerate(conditions):
            wanted = sorted(truth.filter(truth[f"c{at}"])["id"].to_pylist())
            try:
                scan = table.scan(condition, ["id"])
            except PredicateError:
                refusals += 1
                continue
            assert sorted(scan.to_arrow()["id"].to_pylist()) == wanted, condition
            assert scan.explain().exact
            answers += len(wanted)
    assert refusals == refused
    assert answers > 1000


def test_instants_are_those_of_javas_reader(spark: SparkSession, rng: np.random.Generator) -> None:
    java: Any = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    convert: Any = spark._jvm.org.apache.orc.impl.SerializationUtils.convertBetweenTimezones  # type: ignore[union-attr]
    writer = java.getTimeZone("UTC")
    for zone in (
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
        "PST",
        "GMT+08:00",
    ):
        reader = java.getTimeZone(zone)
        # between 1970 and 2105, half of them within a day of a transition in March, April, October or November
        millis = rng.integers(0, 135 * 31_556_952_000, 60)
        near = [
            np.datetime64(f"{rng.integers(1990, 2100)}-{month:02}-01", "ms").astype(np.int64)
            + rng.integers(0, 30 * 86_400_000)
            for month in (3, 4, 10, 11)
            for _ in range(15)
        ]
        clocks = np.concatenate([millis, np.array(near, np.int64)])
        wanted = [int(clock) + convert(writer, reader, int(clock)) for clock in clocks]
        assert (to_instants(clocks * 1000, clocks * 1000, zone) // 1000).tolist() == wanted, zone


def test_keys_of_instants(rng: np.random.Generator) -> None:
    """The keys of a domain cover every reading that is one of its instants, and no others if it is steady."""
    for zone in ("Europe/Berlin", "America/New_York", "Pacific/Apia", "Asia/Kolkata", "GMT+08:00"):
        for kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            for year in (1850, 1899, 1900, 1947, 2011, 2024, 2050, 3000):
                start = np.datetime64(f"{year}-01-01", "us").astype(np.int64)
                stored = start + rng.integers(0, 366 * 24 * 4, 500) * 900_000_000
                for writer in ("UTC", zone, "Pacific/Apia"):
                    clocks = to_wall_clock(
                        stored, normalize_zone(zone if kind is Kind.TIMESTAMP_INSTANT else writer)
                    )
                    keys = stored if kind is Kind.TIMESTAMP_INSTANT else clocks
                    shown = to_instants(clocks, stored, zone)
                    if kind is Kind.TIMESTAMP_INSTANT:
                        shown = np.where(stored >= FIRST_TRANSITIONS, stored, shown)
                    low, high = np.sort(rng.choice(shown, 2)).tolist()
                    for domain in (
                        Domain.points([low]),
                        Domain.between(low, high),
                        Domain.between(None, low),
                    ):
                        leaf = keyed_by_wall_clocks(Leaf("t", OrcType(kind), domain), TimeZones(zone, "UTC"))
                        assert isinstance(leaf, Leaf)
                        inside = np.array([domain.contains(value) for value in shown.tolist()])
                        has_key = np.array([leaf.domain.contains(key) for key in keys.tolist()])
                        assert not (inside & ~has_key).any(), (zone, kind, year, writer, domain)
                        if not leaf.is_superset:
                            assert (inside == has_key).all(), (zone, kind, year, writer, domain)


def test_steady_times() -> None:
    def is_steady(text: str, zone: str = "Europe/Berlin") -> bool:
        micros = int(np.datetime64(text, "us").astype(np.int64))
        leaf = Leaf("t", OrcType(Kind.TIMESTAMP), Domain.between(micros, None))
        keyed_leaf = keyed_by_wall_clocks(leaf, TimeZones(zone, "UTC"))
        assert isinstance(keyed_leaf, Leaf)
        return not keyed_leaf.is_superset

    assert is_steady("2020-01-01")
    assert is_steady("2020-10-21")
    assert not is_steady("2020-10-25T02:30")
    assert not is_steady("2020-10-25T23:00")
    assert not is_steady("2020-03-27")
    assert is_steady("2020-04-02")
    assert is_steady("9999-12-31")
    assert not is_steady("1893-04-02")
    assert is_steady("2020-10-25T02:30", "Asia/Kolkata")
    assert is_steady("2020-10-25T02:30", "UTC")
    with raises(PredicateError):
        is_steady("2020-01-01", "No/Where")
    assert TimeZones("GMT", "Etc/UTC").is_reader_utc
    assert TimeZones("Europe/London", "Etc/UTC").is_session_utc


def test_leaves_that_partitions_join() -> None:
    """Pruning joins leaves and compares them as instants, whatever keys they have."""
    columns = (
        TableColumn("t", OrcType(Kind.TIMESTAMP)),
        TableColumn("p", OrcType(Kind.INT)),
    )
    zones = TimeZones("Europe/Berlin", "America/New_York")
    shown = np.arange(
        np.datetime64("2024-10-26T20:00", "us"),
        np.datetime64("2024-10-27T16:00", "us"),
        np.timedelta64(900_000_000, "us"),
    )
    array = pa.array(shown.astype(np.int64), pa.timestamp("us", tz="UTC"))

    def matching_times(text: str) -> list[str]:
        leaf = prune(normalize(parse_predicate(text), TableSchema(columns), zones), {"p": 1})
        assert isinstance(leaf, Leaf)
        assert leaf.is_superset
        return [str(value)[5:16] for value in shown[mask(leaf, {"t": array}, len(array))]]

    bounds = "t > '2024-10-26 20:00:00' AND t < '2024-10-26 21:00:00'"
    assert matching_times(f"p = 1 AND {bounds} OR p > 0 AND t = '2024-10-27 03:00:00'") == [
        "10-27T00:15",
        "10-27T00:30",
        "10-27T00:45",
        "10-27T07:00",
    ]
    assert matching_times(f"(p = 2 OR {bounds}) AND (p = 3 OR t <> '2024-10-26 20:30:00')") == [
        "10-27T00:15",
        "10-27T00:45",
    ]


def test_the_time_zone_of_java_is_looked_up_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = session_time_zones(spark)
    monkeypatch.setattr(type(spark), "sql", None)
    assert session_time_zones(spark) == first


def test_the_session_of_the_connection(spark: SparkSession, tmp_path: Path) -> None:
    write_columns(tmp_path / "x.orc", {"a": pa.array([1, 2])})
    session_scan = hindex.connect(spark=spark).table(str(tmp_path)).scan("a = 1")
    assert [row.a for row in session_scan.to_spark().collect()] == [1]
    assert [row.a for row in session_scan.order_by("a").to_spark().collect()] == [1]
    result: Any = hindex.connect(spark=spark).sql(f"SELECT a FROM '{tmp_path}' WHERE a > 1")
    assert [row.a for row in result.to_spark().collect()] == [2]
    alone = hindex.connect().table(str(tmp_path)).scan("a = 1")
    with raises(HindexError):
        alone.to_spark()
    assert alone.to_spark(spark).count() == 1
