"""Hive tables with partitions outside their directories, some of them indexed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.hive_run import OTHERS, PARTITIONS, WHERES

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_partitions_elsewhere_in_a_hive_metastore(tmp_path: Path) -> None:
    """Run in another process: a metastore serves one session, and a session keeps its metastore."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.hive_run", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(os.environ),
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")]
    report = json.loads(line.removeprefix("FOUND "))
    assert report["index"] == ["fresh", 2]
    everything = [number for _, _, ids in PARTITIONS for number in ids]
    wanted = {
        "a = 1": [n for n in everything if n % 3 == 1],
        "a = 1 AND p >= 3": [7, 10],
        "q = 'plain' AND a >= 0": [1, 2, 3, 10, 11, 12],
        "p = 3": [7, 8, 9],
        "a = 2 AND p = 4": [11],
        "a = 0 OR p = 5": [3, 6, 9, 12],
        "p IS NULL": [],
    }
    # in the partitions of the predicate: the rows that the index keeps, and all rows of unindexed partitions
    kept = {"a = 1": 8, "a = 1 AND p >= 3": 4, "q = 'plain' AND a >= 0": 6, "p = 3": 3, "a = 2 AND p = 4": 3}
    unindexed = {
        "a = 1": 2,
        "a = 1 AND p >= 3": 1,
        "q = 'plain' AND a >= 0": 1,
        "a = 2 AND p = 4": 1,
        "a = 0 OR p = 5": 2,
    }
    assert set(wanted) == set(WHERES) == set(report["scans"])
    for where, scan in report["scans"].items():
        assert scan["rows"] == wanted[where] == scan["spark"], where
        assert {name: len(subjects) for name, subjects in scan["reasons"].items()} == (
            {"PARTITION_NOT_INDEXED": unindexed[where]} if where in unindexed else {}
        ), where
        assert scan["kept"] == kept.get(where, scan["kept"]), where
    (subject,) = report["scans"]["a = 2 AND p = 4"]["reasons"]["PARTITION_NOT_INDEXED"]
    assert f"{tmp_path}/old data/p4".replace("/", "%2F").replace(" ", "%20") in subject
    assert report["join"] == [4, 4]
    assert report["moved"] == [1, 4, 10] == report["moved_spark"]
    assert report["moved_reasons"] == ["FILE_GONE", "PARTITION_NOT_INDEXED"]
    # the dropped partition was indexed, the moved one was not
    assert report["refreshed"] == [0, 1]
    others = report["shared locations"]
    assert others["rows"] == others["spark"]
    assert others["rows"] == [[n, partition] for partition, _, ids in OTHERS for n in ids if n % 3 <= 1]
    assert others["exact"]
    # Hive's reader also reads files below the directories of partitions
    assert others["error"].startswith(
        "Table 'u' cannot be read here: Spark has Hive's reader for it (spark.sql.hive.convertMetastoreOrc is false)"
    )
