"""Java, the session and the writers of files in different time zones: rows are Spark's, indexes are used."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.queries import selectivity
from tests.integration import unnamed_zone_run
from tests.spark.layouts import (
    LAYOUTS,
    LAYOUTS_OF_TIMES,
    LAYOUTS_OVER_CONNECT,
    compare_layouts,
    drop_layouts,
    make_layouts,
)
from tests.spark.zones_run import (
    SESSIONS,
    UNSTEADY,
    compare_days,
    compare_in_zone,
    session_zone,
    statements_in,
    write_tables,
    write_tables_of_days,
)
from tests.support import local_build
from tests.support.cases import IS_NIGHTLY, nightly
from tests.support.elsewhere import connect_packages, found_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check(report: dict[str, Any], java: str, session: str) -> None:
    """Check that all rows are Spark's, and that hindex answers every statement that it can."""
    answered_sorts = (
        {"all"} | ({"java"} if java == "UTC" else set()) | ({"session"} if session == "UTC" else set())
    )
    frames = report["frames"]
    assert len(frames) == 8
    assert all(rows > 0 for rows, *_ in frames.values())
    assert {name: same for name, (_, *same) in frames.items()} == {name: [True, True] for name in frames}
    for (text, sort), (is_by_hindex, is_explained, _, is_same) in zip(
        statements_in(java, session).items(), report["statements"], strict=True
    ):
        is_wanted = sort in answered_sorts
        assert (text, is_by_hindex, is_explained, is_same) == (text, is_wanted, is_wanted, True)
    assert [item[0] for item in report["joins"]] == [True, True]
    for _, rows, wanted in report["joins"]:
        assert rows == wanted
        assert wanted[0] > 0
    for at, (kept, wanted) in enumerate(report["columns"]):
        assert wanted > 0
        if at == 1 and session != "UTC":
            # a date beside a timestamp is a date of the session's clock
            assert f"in the session's time zone, {session}" in kept
        else:
            assert kept == wanted
    for at, (text, kept, wanted, is_same) in enumerate(report["parts"][:-1]):
        assert is_same, text
        assert wanted > 0
        assert kept == wanted if at < 3 else wanted <= kept < 3500, text
    assert report["parts"][-1] == ["groups", 25, True, True]
    if report["days"] is not None:
        check_days(report["days"], java, session)
    if report["layouts"] is not None:
        check_layouts(report["layouts"], session, LAYOUTS_OF_TIMES)


def check_layouts(results: dict[str, Any], session: str, names: Iterable[str]) -> None:
    """Check that nothing differs from Spark, and that indexes answer the same queries in every zone."""
    assert list(results) == list(names)
    assert [line for layout in results.values() for line in layout["different"]] == []
    for name, result in results.items():
        layout = LAYOUTS[name]
        assert len(result["counts"]) >= 5, name
        is_of_time = name in ("timestamps", "timestamp_ntz") and session != "UTC"
        if not is_of_time:
            exact = min(layout.exact, 5)
            assert (result["accelerated"][:exact], result["refused"]) == ([True] * exact, []), name


def check_days(report: dict[str, Any], java: str, session: str) -> None:
    """Check that no rows or values differ from Spark's, and that indexes keep as few rows as they can."""
    assert report["different"] == []
    assert report["count"] > 80
    for where, how, rows, is_same in report["values"]:
        assert (where, how, is_same) == (where, how, True)
        assert rows > 0
    for name, text, is_exact, kept, wanted in report["kept"]:
        if name == "none":
            assert not is_exact
            assert kept > 1000
        elif name == "bitmap":
            is_steady = text not in (UNSTEADY.format("t"), UNSTEADY.format("s.t"))
            assert is_exact == (is_steady or java == "UTC")
            # near a transition, an instant has two readings, each of which a clock may show twice, in three files
            assert kept == wanted > 0 if is_exact else wanted <= kept <= 12
        else:
            assert wanted <= kept < report["rows"]


def test_java_in_another_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java is in Berlin, the session in UTC, Berlin and New York; some indexes are built without either."""
    local_build.install(monkeypatch)
    write_tables_of_days(local_build.LocalConnection(), tmp_path / "days")
    reports = found_by("tests.spark.zones_run", "Europe/Berlin", str(tmp_path))
    lifecycle = reports.pop("lifecycle")
    for session in SESSIONS:
        check(reports[session], "Europe/Berlin", session)
    rows = {zone: result["statements"][0][2] for zone, result in reports.items()}
    every = {"UTC": 4200, "Europe/Berlin": 600, "America/New_York": 5000}
    assert rows == {zone: every[zone] for zone in SESSIONS}
    assert (lifecycle["before"], lifecycle["is_started"]) == (["Scan", [3, 3]], False)
    assert lifecycle["first"] == lifecycle["again"] == ["Scan", lifecycle["wanted"]]
    assert lifecycle["analyze"][0] == "Explanation"
    assert "session of this connection was stopped" in lifecycle["stopped"]


def test_files_that_name_no_zone_of_their_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java takes its own zone for the writer's, with its offset of 2015-01-01 at all times."""
    local_build.install(monkeypatch)
    unnamed_zone_run.write_tables(local_build.LocalConnection(), tmp_path)
    report = found_by("tests.integration.unnamed_zone_run", "America/Los_Angeles", str(tmp_path))
    assert report["days"]["different"] == []
    assert report["days"]["count"] > 80
    assert all(rows > 0 and is_same for _, _, rows, is_same in report["days"]["values"])
    # an index decides nothing of such a file
    assert not any(is_exact for _, _, is_exact, _, _ in report["days"]["kept"])
    assert report["notes"] == ["t on 0.orc", "t on 1.orc"]
    is_same, rows = report["mixed"]
    assert is_same
    assert rows > 0


def test_java_in_utc(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # tables are read through their indexes however many rows match
    monkeypatch.setattr(selectivity, "MAX_SHARE", 1.0)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    write_tables(spark, tmp_path)
    for session in ("UTC", "America/Sao_Paulo") if IS_NIGHTLY else ("America/Sao_Paulo",):
        check(compare_in_zone(spark, tmp_path, "UTC", session), "UTC", session)
    write_tables_of_days(hindex.connect(spark=spark), tmp_path / "days")
    for session in ("UTC", "Asia/Kolkata") if IS_NIGHTLY else ("UTC",):
        with session_zone(spark, session):
            check_days(compare_days(spark, tmp_path / "days", is_brief=session == "UTC"), "UTC", session)
    layouts = ("timestamps", "timestamp_ntz") if IS_NIGHTLY else ("timestamps",)
    make_layouts(spark, tmp_path / "layouts", layouts)
    try:
        with session_zone(spark, "Asia/Kolkata"):
            results = compare_layouts(spark, layouts)
            check_layouts(results, "Asia/Kolkata", layouts)
    finally:
        drop_layouts(spark, layouts)


@nightly
@pytest.mark.parametrize(("java", "session"), [("Europe/Berlin", "America/New_York"), ("UTC", "UTC")])
def test_spark_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str, session: str) -> None:
    local_build.install(monkeypatch)
    write_tables_of_days(local_build.LocalConnection(), tmp_path / "days")
    report = found_by("tests.spark.zones_run", java, str(tmp_path), session, packages=connect_packages())
    check_days(report["days"], java, session)
    check_layouts(report["layouts"], session, LAYOUTS_OVER_CONNECT)
