"""Builds and scans on a cluster, some of it killed, and over Spark Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.archive import write_archive
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


def check(found: dict[str, Any], path: Path) -> None:
    assert found["advanced"] == FILES
    # no index file is named twice, by a task that was run again
    assert found["indexed"] == [2 * FILES, 2 * FILES]
    assert found["exact"]
    assert found["scan"] == expected()
    assert found["query"] == [sum(i for i in range(2 * ROWS) if i % 10 == 3), True]
    assert found["source"] == 2 * ROWS // 10
    assert WHERE == "a IN (3, 4)"
    lines, tags = found["described"]
    assert len(lines) >= FILES
    # also those of tasks that ran again
    assert all("hindex: CREATE INDEX i" in line and f" j ON {path} (6 files)" in line for line in lines)
    assert tags == ["users"]


@pytest.mark.slow
def test_a_cluster_some_of_which_is_killed(path: Path, tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "hindex.zip")
    found = found_by("tests.spark.remote_run", "cluster", str(path), str(archive))
    assert found["killed"] == [True, True, True]
    check(found, path)
    again = found["repeated"]
    # each data file was cut into parts, of two indexes; what is named is one file for each, whole
    assert again["tasks"] >= 2 * FILES
    assert again["named"] == [2 * FILES, 2 * FILES]
    # of each part, one file was of the attempt that failed and one of that which nobody heard of
    assert again["garbage"] == [4 * again["tasks"], 0]
    assert again["problems"] == []
    assert again["scan"] == [True, 2]
    for place, loaded in found["executors"]:
        assert "unpacked/hindex/spark" in place
        assert loaded == ""


@pytest.mark.slow
@pytest.mark.network
def test_spark_connect(path: Path) -> None:
    found = found_by("tests.spark.remote_run", "connect", str(path), "", packages=connect_packages())
    assert found["killed"] == [False, False, False]
    check(found, path)
    assert [loaded for _, loaded in found["executors"]] == [""]
