"""Columns that an index includes, in an accelerated session: rows and schema of Spark alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.queries import selectivity
from hindex.scan import included_columns
from hindex.scan.included_columns import BlockRead, IncludedColumns
from tests.queries.comparison import compare_accelerated

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS = 3000


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of columns of many types with nulls; the index includes all but ``id``."""
    path = tmp_path_factory.mktemp("rows") / "t"
    frame = spark.range(2 * ROWS, numPartitions=2).selectExpr(
        "id",
        "int(pmod(hash(id), 400)) k",
        "IF(id % 9 = 0, NULL, int(hash(id))) n",
        "IF(id % 7 = 0, NULL, concat('é', id)) s",
        "CAST(id % 1000 AS CHAR(6)) c",
        "CAST(id / 7 AS DECIMAL(9, 2)) d",
        "date_add(DATE '2024-01-01', int(id % 800)) day",
        "TIMESTAMP '2024-03-30 12:00:00' + make_dt_interval(0, 0, id) t",
        "CAST(TIMESTAMP '2024-03-30 12:00:00' + make_dt_interval(0, 0, id) AS TIMESTAMP_NTZ) u",
        "slice(array('x', NULL, string(id)), 1, int(id % 4)) a",
        "IF(id % 5 = 0, NULL, map(string(id), int(id))) m",
        "named_struct('p', int(id), 'q', array(int(id), NULL)) r",
        "CAST(CASE id % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-0.0' ELSE id / 3 END AS FLOAT) f",
        "CAST(CAST(id AS STRING) AS BINARY) b",
    )
    frame.write.orc(str(path))
    table = hindex.connect(spark=spark).table(path)
    table.create_index("by_k", "k", include=[name for name in table.columns if name != "id"])
    return path


@pytest.fixture(autouse=True)
def included(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The columns that are read from blocks on the driver, whatever they cost."""
    names: set[str] = set()
    read = IncludedColumns.read

    def note(included_columns: IncludedColumns, chosen: BlockRead, *args: Any) -> dict[str, pa.Array]:
        names.update(column.name for column in chosen.columns)
        return read(included_columns, chosen, *args)

    monkeypatch.setattr(included_columns, "block_micros", lambda *_, **__: 0.0)
    monkeypatch.setattr(IncludedColumns, "read", note)
    selectivity.DECLINED.clear()
    yield names
    selectivity.DECLINED.clear()


def test_frames_are_read_from_blocks(
    spark: SparkSession, folder: Path, included: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Random columns and conditions."""
    chance = random.Random(3)
    frame = spark.read.orc(str(folder))
    for _ in range(25):
        names = chance.sample(frame.columns, chance.randint(1, 8))
        keys = ", ".join(str(chance.randrange(400)) for _ in range(chance.choice([2, 3, 20])))
        condition = f"k IN ({keys})" + chance.choice(["", " AND n > 0", " AND s LIKE 'é%'", " AND d < 600"])
        included.clear()
        compare_accelerated(frame.where(condition).select(*names), caplog)
        assert set(names) - {"id", "k"} <= included
        assert "id" not in included


def test_zones(
    spark: SparkSession, folder: Path, included: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.read.orc(str(folder)).where("k = 7").select("t", "u", "day")
        compare_accelerated(frame, caplog)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {"day", "t"} <= included
