"""``hindex bench`` on small tables: the readers, the comparison of their rows, and messages."""

from __future__ import annotations

import datetime
import json
import re
import zoneinfo
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyorc
import pytest

from hindex.api.connection import Connection
from hindex.cli import bench, main
from hindex.errors import HindexError, PredicateError
from hindex.scan.planning import plan_scan
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
WHERE = "a IN (3, 4) AND p = 2"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two partitions; row i of a file has a = i % 10, and the file of p = 1 lacks the column s. Indexed on a."""
    local_build.install(monkeypatch)
    first = {
        "id": pa.array(range(ROWS), pa.int64()),
        "a": pa.array([i % 10 for i in range(ROWS)], pa.int32()),
    }
    write_columns(tmp_path / "t" / "p=1" / "x.orc", first)
    write_rows(tmp_path / "t" / "p=2" / "y.orc", ROWS, [i % 10 if i % 7 else None for i in range(ROWS)])
    LocalConnection().table(str(tmp_path / "t")).create_index("a", "a")
    return str(tmp_path / "t")


def run(
    path: str, where: str | None, columns: list[str] | None, rounds: int = 2
) -> dict[str, dict[str, object]]:
    results = bench.run_bench(Connection(), path, where, columns, rounds=rounds, with_spark=False)
    return {str(row["reader"]): row for row in results.to_pylist()}


def test_a_mistake_is_raised_before_progress_is_shown(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main.main(["bench", path, "--where", "nope = 1"])
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, "")
    assert err.startswith("Error: Column 'nope' cannot be resolved")


EXPECTED = sum(1 for i in range(ROWS) if i % 7 and i % 10 in (3, 4))


@pytest.mark.parametrize(
    ("where", "columns", "rows"),
    [
        (WHERE, None, EXPECTED),
        (WHERE, ["s", "P"], EXPECTED),
        (WHERE, ["id"], EXPECTED),
        ("a IS NULL", ["a", "s"], len(range(0, ROWS, 7))),
        ("s IS NULL AND a = 3", ["id", "s", "p"], 300),
        ("id = 1 OR id = 5999", ["id"], 2),
        ("a = 77", None, 0),
        ("p = 9", None, 0),
        (None, ["id"], 2 * ROWS),
    ],
)
def test_both_readers_find_the_rows(
    path: str, where: str | None, columns: list[str] | None, rows: int
) -> None:
    results = run(path, where, columns)
    assert list(results) == ["hindex", "pyarrow"]
    for row in results.values():
        assert row["rows"] == rows
        assert row["note"] is None
        assert row["ratio_least"] <= row["ratio"] <= row["ratio_most"]  # type: ignore[operator]
        assert row["ms_least"] <= row["ms"] <= row["ms_most"]  # type: ignore[operator]
    assert results["hindex"]["ratio"] == 1


def test_the_other_reader_knows_no_index(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def noted(*arguments: object, **options: object) -> object:
        plan = plan_scan(*arguments, **options)  # type: ignore[arg-type]
        opened.extend(use.path for task in plan.tasks for use in task.indexes)
        return plan

    monkeypatch.setattr(bench, "plan_scan", noted)
    assert run(path, "a = 3", ["id"])["pyarrow"]["rows"] == 300 + sum(1 for i in range(3, ROWS, 10) if i % 7)
    assert opened == []
    plan = Connection().table(path).scan("a = 3", ["id"]).plan()
    assert [len(task.indexes) for task in plan.tasks] == [1, 1]


def test_rows_that_differ_are_an_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench.pyarrow_rows
    monkeypatch.setattr(bench, "pyarrow_rows", lambda question: real(question).slice(1))
    with raises(HindexError):
        run(path, WHERE, ["id"])


def test_columns_that_pyarrow_may_not_decode_leave_it_out(tmp_path: Path) -> None:
    pairs = pa.array([[(1, 2)], [], None], pa.map_(pa.int32(), pa.int32()))
    write_columns(tmp_path / "t" / "x.orc", {"id": pa.array([1, 2, 3]), "at": pairs})
    results = run(str(tmp_path / "t"), "id > 1", ["at"])
    assert results["hindex"]["rows"] == 2
    assert results["pyarrow"]["rows"] is results["pyarrow"]["ratio"] is None
    assert "excluded: pyarrow cannot read column 'at' (map<int,int>) of" in str(results["pyarrow"]["note"])
    assert run(str(tmp_path / "t"), "id > 1", ["id"])["pyarrow"]["rows"] == 2


def write_times(path: Path, zone: str, times: Sequence[datetime.datetime | None]) -> str:
    path.mkdir()
    with (path / "x.orc").open("wb") as file:
        schema = "struct<at:timestamp,instant:timestamp with local time zone>"
        writer = pyorc.Writer(file, schema, timezone=zoneinfo.ZoneInfo(zone))
        for time in times:
            instant = None if time is None else time.replace(tzinfo=datetime.UTC)
            writer.write((instant, instant))
        writer.close()
    return str(path)


def test_timestamps_of_writers_in_utc_are_compared(tmp_path: Path, rng: np.random.Generator) -> None:
    epoch = datetime.datetime(1970, 1, 1)
    seconds = [*rng.integers(-(9 * 10**9), 9 * 10**9, 500).tolist(), -1, 0, 1]
    times = [epoch + datetime.timedelta(seconds=s, microseconds=u) for s in seconds for u in (0, 1, 999_999)]
    expected = sum(time > datetime.datetime(1980, 1, 2, 3, 4, 5) for time in times)
    for column, literal in (("at", "TIMESTAMP '1980-01-02 03:04:05'"), ("instant", None)):
        where = None if literal is None else f"{column} > {literal}"
        for zone in ("UTC", "Asia/Kolkata"):
            path = tmp_path / f"{column}_{zone.replace('/', '_')}"
            results = run(write_times(path, zone, [*times, None]), where, [column])
            if column == "at" and zone != "UTC":
                assert results["pyarrow"]["note"] == (
                    "excluded: pyarrow reads other values of column 'at' (timestamp): its writer's time zone is "
                    "Asia/Kolkata, not UTC"
                )
            else:
                rows = len(times) + 1 if where is None else expected
                assert results["hindex"]["rows"] == results["pyarrow"]["rows"] == rows


def test_timestamps_beyond_nanoseconds_leave_pyarrow_out(tmp_path: Path) -> None:
    path = write_times(tmp_path / "t", "UTC", [datetime.datetime(1900, 1, 1), datetime.datetime(2300, 1, 1)])
    results = run(path, None, ["at"])
    assert results["hindex"]["rows"] == 2
    note = "excluded: pyarrow reads other values of column 'at' (timestamp): some are out of the range of nanoseconds"
    assert results["pyarrow"]["note"] == note


def test_dates_of_the_gregorian_calendar_are_compared(tmp_path: Path) -> None:
    """Such as those of files of pyarrow, which name no calendar."""
    day = datetime.date(1582, 10, 15)
    for name, days in (("new", [day, None]), ("old", [day, day - datetime.timedelta(days=1)])):
        write_columns(tmp_path / name / "x.orc", {"day": pa.array(days)})
    assert run(str(tmp_path / "new"), "day > DATE '1500-01-01'", ["day"])["pyarrow"]["rows"] == 1
    assert run(str(tmp_path / "old"), None, ["day"])["pyarrow"]["rows"] is None


def test_mistakes_are_errors(path: str) -> None:
    with pytest.raises(PredicateError):
        run(path, "a = DATE '2020-01-01'", ["id"])


def test_the_command_writes_a_line_for_each_reader(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--output", "json", "bench", path, "--where", WHERE, "--columns", "id, s", "--rounds", "1"]
    with pytest.raises(SystemExit) as done:
        main.main(command)
    out, err = capsys.readouterr()
    assert done.value.code == 0, err
    assert [(row["reader"], row["rows"]) for row in json.loads(out)] == [
        ("hindex", EXPECTED),
        ("pyarrow", EXPECTED),
    ]
    assert re.search(r"Comparing the rows of .*: 2 of 2 readers in", err)
    assert re.search(r"Reading .*: 2 of 2 runs in", err)


def test_excluded_readers_are_not_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_times(tmp_path / "t", "Asia/Kolkata", [datetime.datetime(1990, 1, 1)])
    with pytest.raises(SystemExit):
        main.main(["bench", str(tmp_path / "t"), "--rounds", "3"])
    lines = re.findall(r": (\d of \d) \w+ in", capsys.readouterr().err)
    assert lines == ["2 of 2", "3 of 3"]


@pytest.mark.parametrize(
    ("ms", "ratio", "said"),
    [
        (12.7, 0.4, "pyarrow reads the whole table in 12.7 ms: no index pays on so little data"),
        (
            1200.0,
            0.4,
            "pyarrow was faster: `hindex explain` shows which indexes were used, and why others were not",
        ),
        (1200.0, 1.4, None),
        (None, None, None),
    ],
)
def test_where_an_index_cannot_gain(ms: float | None, ratio: float | None, said: str | None) -> None:
    rows = [{"reader": "hindex", "ms": 33.0, "ratio": 1.0}, {"reader": "pyarrow", "ms": ms, "ratio": ratio}]
    assert bench.bench_note(pa.Table.from_pylist(rows)) == said


def test_spark_takes_part(path: str, spark: SparkSession) -> None:
    results = bench.run_bench(Connection(spark=spark), path, WHERE, ["id", "s"], rounds=1, with_spark=True)
    assert results.column("reader").to_pylist() == ["hindex", "pyarrow", "Spark"]
    assert results.column("rows").to_pylist() == [EXPECTED] * 3
