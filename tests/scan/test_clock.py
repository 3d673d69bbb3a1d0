"""Queries read the clock once, and use that time wherever they depend on it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api import scan
from hindex.errors import PredicateError
from hindex.expr import constant_times
from tests.support.local_build import LocalConnection, indexed_table, install
from tests.support.messages import raises
from tests.support.small import ids, write_rows
from tests.support.work import record_listings

#: 2024-05-01 23:59:59 of UTC
BEFORE_MIDNIGHT = 1_714_607_999_000_000
SECOND = 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times at which the clock is read: it starts before midnight, and each reading is two seconds later."""
    readings: list[int] = []

    def read() -> int:
        readings.append(BEFORE_MIDNIGHT + 2 * SECOND * len(readings))
        return readings[-1]

    monkeypatch.setattr(constant_times, "current_instant", read)
    return readings


def days_table(path: Path) -> Path:
    for number, day in enumerate(("2024-04-30", "2024-05-01", "2024-05-02")):
        write_rows(path / f"d={day}" / "x.orc", number, [number])
    return path


def test_partitions_and_rows_are_those_of_one_day(
    tmp_path: Path, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    table = LocalConnection().table(str(days_table(tmp_path / "t")))
    assert table.scan().count() == 3
    listed = record_listings(monkeypatch)
    today = table.scan("d = current_date", ["id"])
    clock.clear()
    listed.clear()
    assert today.to_arrow()["id"].to_pylist() == [1]
    assert (sorted(listed), clock) == (["", "d=2024-05-01"], [BEFORE_MIDNIGHT])
    # a kept scan reads the clock again
    assert today.to_arrow()["id"].to_pylist() == [2]


def test_aggregates_read_the_clock_once(
    tmp_path: Path, clock: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    root = days_table(tmp_path / "t")
    connection = LocalConnection()
    assert connection.table(str(root)).scan().count() == 3
    summary = connection.sql(
        f"SELECT d, COUNT(*) FROM '{root}' WHERE d >= current_date() GROUP BY d HAVING d <= curdate()"
    )
    clock.clear()
    assert summary.to_arrow()["d"].to_pylist() == [datetime.date(2024, 5, 1)]  # type: ignore[union-attr]
    assert clock == [BEFORE_MIDNIGHT]
    assert connection.table(str(root)).scan("d > current_date()").count() == 0


def test_indexes_answer_times_of_the_clock(tmp_path: Path, clock: list[int]) -> None:
    times = pa.array([datetime.datetime(2024, 5, 1, hour) for hour in (0, 12, 22, 23)], pa.timestamp("us"))
    table = indexed_table(tmp_path, {"t": times})
    recent = table.scan("t >= now() - INTERVAL 2 HOURS", ["id"])
    clock.clear()
    explanation = recent.explain()
    assert "t >= TIMESTAMP '2024-05-01 21:59:59'" in explanation.to_text()
    assert "UNSUPPORTED_PREDICATE" not in explanation.to_text()
    clock.clear()
    assert recent.to_arrow()["id"].to_pylist() == [2, 3]


def test_partitions_of_indexes_are_fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    table = LocalConnection().table(str(days_table(tmp_path / "t")))
    with raises(PredicateError):
        table.create_index("i", "id", where="d >= current_date()")
    table.create_index("i", "id")
    with raises(PredicateError):
        table.refresh_indexes(where="d >= current_date() - 7")


def test_column_with_the_name_of_a_clock_function(tmp_path: Path) -> None:
    table = indexed_table(tmp_path, {"current_date": pa.array([1, 2]), "d": pa.array([3, 4])})
    with raises(PredicateError):
        table.scan("d = year(current_date)")
    assert ids(table.scan("`current_date` = 2", ["id"])) == [1]
