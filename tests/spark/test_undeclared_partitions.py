"""Catalog tables whose directories are partitioned otherwise than declared: queries of them are Spark's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import UnsupportedError
from tests.spark.layouts import rows
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ID = {"id": pa.array([1, 2], pa.int32())}
BOTH = {**ID, "p": pa.array([7, 8], pa.int32())}


@sampled(4)
@pytest.mark.parametrize(
    ("declared", "files", "where"),
    [
        ("id INT", {"p=1/a.orc": ID, "p=2/a.orc": ID}, "id = 1"),
        ("id INT, p INT", {"p=1/a.orc": ID, "p=2/a.orc": ID}, "p = 1"),
        ("id INT, q INT", {"p=1/a.orc": ID}, "q IS NULL"),
        ("id INT, p INT", {"p=1/a.orc": BOTH, "p=2/a.orc": BOTH}, "p = 1"),
        ("id INT, p INT", {"p=1/a.orc": BOTH, "b.orc": BOTH}, "p = 7"),
        ("id INT, p INT, q STRING", {"p=1/q=a/a.orc": ID, "p=2/q=b/a.orc": ID}, "q = 'a' AND id = 2"),
        ("id INT", {"x/p=1/a.orc": ID}, "id = 1"),
    ],
)
def test_queries_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, declared: str, files: dict[str, dict[str, pa.Array]], where: str
) -> None:
    for name, columns in files.items():
        write_columns(tmp_path / "t" / name, columns)
    spark.sql(f"CREATE TABLE undeclared ({declared}) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        hx = hindex.connect(spark=spark)
        with raises(UnsupportedError):
            hx.table("undeclared").scan(where).to_arrow()
        for text in (
            f"SELECT * FROM undeclared WHERE {where}",
            f"SELECT count(*) AS n FROM undeclared WHERE {where}",
        ):
            result: Any = hx.sql(text)
            assert rows(result.to_arrow()) == rows(spark.sql(text).toArrow())
            assert "its directories are partitioned by" in str(result.explain())
    finally:
        spark.sql("DROP TABLE undeclared")


def test_partition_column_within_the_files(spark: SparkSession, tmp_path: Path) -> None:
    """The values are those of the directories; indexes on other columns are used."""
    for number in (1, 2):
        write_columns(tmp_path / "t" / f"p={number}" / "a.orc", BOTH)
    spark.sql(
        f"CREATE TABLE undeclared (id INT, p INT) USING orc PARTITIONED BY (p) LOCATION '{tmp_path / 't'}'"
    )
    try:
        spark.sql("MSCK REPAIR TABLE undeclared")
        table = hindex.connect(spark=spark).table("undeclared")
        table.create_index("i", "id")
        for where in ("p = 1", "p = 7", "id = 2 AND p > 1"):
            assert rows(table.scan(where).to_arrow()) == rows(
                spark.table("undeclared").where(where).toArrow()
            )
        assert table.scan("id = 2").explain().exact
    finally:
        spark.sql("DROP TABLE undeclared")
