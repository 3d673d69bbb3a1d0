"""Timestamps where Spark's Java, its session and the writers of files are in different time zones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.errors import HindexError
from hindex.orc.columns.zones import instants
from hindex.spark.instants import as_instants, with_instants
from hindex.spark.zones import Zones, zones
from hindex.table.type_text import parse_type
from tests.spark.zones_run import STATEMENTS, all_of, write_tables
from tests.support.elsewhere import found_by
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOUR = 3_600_000_000


def check(found: dict[str, Any], answered: set[str], *, has_two: bool) -> None:
    """That all is as Spark has it, and which sorts of statements hindex answered.

    :param has_two: whether the zones of Java and the session differ.
    """
    frames = found["frames"]
    assert len(frames) == 8
    assert all(rows > 0 for rows, *_ in frames.values())
    assert {name: same for name, (_, *same) in frames.items()} == {name: [True, True] for name in frames}
    for (text, sort), (is_ours, is_explained, _, is_same) in zip(
        STATEMENTS.items(), found["statements"], strict=True
    ):
        is_wanted = sort in answered
        assert (text, is_ours, is_explained, is_same) == (text, is_wanted, is_wanted, True)
    # of the other one, the condition that is left in other zones is answered by an index as well
    assert [item[0] for item in found["pushed"]] == ["utc" in answered, True]
    for _, rows, wanted in found["pushed"]:
        assert rows == wanted
        assert wanted[0] > 0
    for kept, wanted in found["columns"]:
        assert wanted > 0
        assert "set spark.sql.session.timeZone to " in kept if has_two else kept == wanted


@pytest.mark.slow
def test_java_in_another_zone(tmp_path: Path) -> None:
    """Java in Berlin; the session in UTC and in Berlin."""
    found = found_by("tests.spark.zones_run", "Europe/Berlin", str(tmp_path))
    asked = found.pop("asked")
    check(found["UTC"], {"all"}, has_two=True)
    check(found["Europe/Berlin"], {"all", "one"}, has_two=False)
    rows = {zone: result["statements"][0][2] for zone, result in found.items()}
    assert rows == {"UTC": 4200, "Europe/Berlin": 600}
    assert (asked["before"], asked["is_started"]) == (["Scan", [3, 3]], False)
    assert asked["first"] == asked["again"] == ["DataFrame", asked["wanted"]]
    assert "by Europe/Berlin, the zone of its Java" in asked["analyze"]
    assert "session of this connection was stopped" in asked["stopped"]


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_java_in_utc(tmp_path: Path, spark: SparkSession) -> None:
    write_tables(spark, tmp_path)
    check(all_of(spark, tmp_path, "UTC"), {"all", "one", "utc"}, has_two=False)
    check(all_of(spark, tmp_path, "America/Sao_Paulo"), {"all"}, has_two=True)


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
        assert (instants(clocks * 1000, zone) // 1000).tolist() == wanted, zone


def test_clocks_at_any_depth() -> None:
    """Of slices too, whose children have more values than they."""
    of = parse_type(
        "struct<a:array<timestamp>,m:map<timestamp,array<timestamp>>,s:struct<t:timestamp,x:int>>"
    )
    rows: list[Any] = [
        {"a": [0, None], "m": [(0, [_HOUR])], "s": {"t": 5, "x": 1}},
        None,
        {"a": None, "m": None, "s": None},
        {"a": [], "m": [(_HOUR, None), (0, [])], "s": {"t": None, "x": None}},
        {"a": [7 * _HOUR], "m": [], "s": {"t": 7 * _HOUR, "x": 2}},
    ]

    array = pa.array(rows, of.to_arrow())
    later = as_instants(array, of, "GMT-01:00")
    assert later.type == with_instants(of).to_arrow()
    later.validate(full=True)
    for first in range(len(rows)):
        cut = as_instants(array.slice(first, 3), of, "GMT-01:00")
        cut.validate(full=True)
        assert cut.to_pylist() == later.slice(first, 3).to_pylist()

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: item if key == "x" else moved(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(moved, value))
        return None if value is None else value + _HOUR

    assert later.equals(pa.array(list(map(moved, rows)), with_instants(of).to_arrow()))


def test_which_times_are_steady() -> None:
    def steady(text: str, java: str = "Europe/Berlin", session: str = "Europe/Berlin") -> bool:
        micros = np.datetime64(text, "us").astype(np.int64)
        return Zones(java, session).is_steady(int(micros))

    assert steady("2020-01-01")
    assert steady("2020-10-21")
    assert not steady("2020-10-25T02:30")
    assert not steady("2020-10-25T23:00")
    assert not steady("2020-03-27")
    assert steady("2020-04-02")
    assert not steady("1850-01-01")
    assert not steady("9999-12-31")
    assert not steady("2020-01-01", session="UTC")
    assert not steady("2020-01-01", "No/Where", "No/Where")
    assert steady("2020-10-25T02:30", "Asia/Kolkata", "Asia/Kolkata")
    assert Zones("GMT", "Etc/UTC").are_utc
    assert not Zones("UTC", "Europe/London").are_utc


def test_the_zone_of_java_is_asked_for_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    first = zones(spark)
    monkeypatch.setattr(type(spark), "sql", None)
    assert zones(spark) == first


def test_the_session_of_the_connection(spark: SparkSession, tmp_path: Path) -> None:
    write_columns(tmp_path / "x.orc", {"a": pa.array([1, 2])})
    of_connection = hindex.connect(spark=spark).table(str(tmp_path)).scan("a = 1")
    assert [row.a for row in of_connection.to_spark().collect()] == [1]
    assert [row.a for row in of_connection.order_by("a").to_spark().collect()] == [1]
    found: Any = hindex.connect(spark=spark).sql(f"SELECT a FROM '{tmp_path}' WHERE a > 1")
    assert [row.a for row in found.to_spark().collect()] == [2]
    alone = hindex.connect().table(str(tmp_path)).scan("a = 1")
    with pytest.raises(HindexError, match=r"give one, to_spark\(spark\), or hindex.connect\(spark=spark\)"):
        alone.to_spark()
    assert alone.to_spark(spark).count() == 1
