"""Tables of a Hive metastore: partitions outside their directories, and writes of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration import writes_run
from tests.integration.hive_run import OTHERS, PARTITIONS, WHERES
from tests.support.elsewhere import found_by

#: Writes that keep the directory of the table and its other files, and writes that drop the table.
KEEPS_DIRECTORY = {"insert", "truncate partition", "drop partition", "overwrite partition"}
DROPS_TABLE = {"saveAsTable"}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hive")


@pytest.fixture(scope="module")
def report(root: Path) -> dict[str, Any]:
    """Run all in another process: a metastore serves one session, and a session keeps its metastore."""
    return found_by("tests.integration.hive_run", str(root))


def test_writes_of_every_kind(report: dict[str, Any]) -> None:
    reports = report["writes"]
    assert set(reports) == {" ".join(case) for case in writes_run.cases()}
    for kind, layout, owner, write in writes_run.cases():
        result = reports[f"{kind} {layout} {owner} {write}"]
        where = (kind, layout, owner, write, result)
        assert result["rows"] is True, where
        assert result["rows after"] is True, where
        is_partitioned = layout == "partitioned"
        keeps_store = write in KEEPS_DIRECTORY or (
            write in ("overwrite dynamic", "truncate") and is_partitioned
        )
        # Spark writes Hive's partitions one by one
        keeps_store |= kind == "hive" and is_partitioned and write in ("overwrite", "insertInto")
        assert result["store"] == keeps_store, where
        if write in DROPS_TABLE:
            assert (result["states"], result["refreshed"], result["after"]) == (
                [],
                "IndexNotFoundError",
                [],
            ), where
        else:
            assert (result["states"], result["refreshed"], result["after"]) == (["STALE"], True, ["FRESH"]), (
                where
            )


def test_partitions_elsewhere_in_a_hive_metastore(root: Path, report: dict[str, Any]) -> None:
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
    assert f"{root}/old data/p4".replace("/", "%2F").replace(" ", "%20") in subject
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
