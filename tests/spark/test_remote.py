"""Builds and scans on a cluster that loses executors, and over Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.archive import write_archive
from tests.support.cases import nightly
from tests.support.elsewhere import connect_packages, found_by
from tests.support.small import ROWS, WHERE, expected, write_rows

FILES = 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    size = 2 * ROWS // FILES
    for number in range(FILES):
        first = number * size
        write_rows(tmp_path / "t" / f"{number}.orc", first, [i % 10 for i in range(first, first + size)])
    return tmp_path / "t"


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
@pytest.mark.slow
def test_a_cluster_that_loses_executors(path: Path, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "hindex.zip")
    report = found_by("tests.spark.remote_run", "cluster", str(path), str(archive))
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


@pytest.mark.slow
@pytest.mark.network
def test_spark_connect(path: Path) -> None:
    report = found_by("tests.spark.remote_run", "connect", str(path), "", packages=connect_packages())
    assert report["killed"] == [False, False, False]
    check(report, path)
    assert [loaded for _, loaded in report["executors"]] == [""]
