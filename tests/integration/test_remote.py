"""Builds, scans and accelerated queries on a cluster that loses executors, and over Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.archive import write_archive
from tests.support.cases import nightly
from tests.support.elsewhere import connect_packages, found_by
from tests.support.small import ROWS, WHERE, expected, write_rows

FILES = 6


def write_files(root: Path) -> Path:
    size = 2 * ROWS // FILES
    for number in range(FILES):
        first = number * size
        write_rows(root / "t" / f"{number}.orc", first, [i % 10 for i in range(first, first + size)])
    return root / "t"


def check(report: dict[str, Any], path: Path) -> None:
    assert report["advanced"] == FILES
    # the manifest names each index file once, although a task ran again
    assert report["indexed"] == [2 * FILES, 2 * FILES]
    assert report["exact"]
    assert report["scan"] == expected()
    assert report["query"] == [sum(i for i in range(2 * ROWS) if i % 10 == 3), True]
    assert report["source"] == 2 * ROWS // 10
    assert WHERE == "a IN (3, 4)"
    lines, tags = report["described"]
    assert len(lines) >= FILES
    # tasks that ran again have the same description
    assert all("hindex: CREATE INDEX i" in line and f" j ON {path} (6 files)" in line for line in lines)
    assert tags == ["users"]


@nightly
def test_a_cluster_that_loses_executors(tmp_path: Path) -> None:
    path = write_files(tmp_path)
    archive = write_archive(tmp_path / "hindex.zip")
    report = found_by("tests.integration.remote_run", "cluster", str(path), str(archive))
    assert report["killed"] == [True, True, True]
    check(report, path)
    repeated = report["repeated"]
    # the build cuts each data file into parts; the manifest names one whole file for each data file and index
    assert repeated["tasks"] >= 2 * FILES
    assert repeated["named"] == [2 * FILES, 2 * FILES]
    # for each part and index, the failed attempt and the unreported one leave a file each
    assert repeated["garbage"] == [4 * repeated["tasks"], 0]
    assert repeated["problems"] == []
    assert repeated["scan"] == [True, 2]
    for module_path, loaded in report["executors"]:
        assert "unpacked/hindex/spark" in module_path
        assert loaded == ""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("remote"))


@pytest.fixture(scope="module")
def connect_report(path: Path) -> dict[str, Any]:
    return found_by("tests.integration.remote_run", "connect", str(path), "", packages=connect_packages())


@pytest.mark.network
def test_spark_connect(path: Path, connect_report: dict[str, Any]) -> None:
    assert connect_report["killed"] == [False, False, False]
    check(connect_report, path)
    assert [loaded for _, loaded in connect_report["executors"]] == [""]


@pytest.mark.network
def test_accelerated_queries_over_spark_connect(connect_report: dict[str, Any]) -> None:
    report = connect_report["queries"]
    assert report["different"] == []
    assert report["empty"] == []
    assert report["conditions"]
    assert report["shown"] == ["i_day", "i_shop"]
    assert report["restored"]
    lines = report["lines"]
    accelerated = [line for line in lines if line.startswith("accelerated: ")]
    # those of the script, the one beside a view, and the one with conditions on both tables
    assert len(accelerated) == 10
    assert any("JOIN big" in line for line in accelerated)
    assert any("of[1]' is a pattern to Spark" in line for line in lines)
    # Spark reads views, what it writes, and tables whose conditions are those of a join
    assert not any("FROM kept" in line or "INSERT" in line or "CREATE" in line for line in accelerated)
    assert any("answered by indexes" in line and "c.city = 'Ulm'" in line for line in lines)
