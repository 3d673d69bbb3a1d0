"""What the catalog tells of tables, and what it says where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.errors import TableError
from hindex.spark.catalog import describe_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(
        f"CREATE TABLE described (id BIGINT, day STRING) USING orc PARTITIONED BY (day) LOCATION '{tmp_path}'"
    )
    yield "described"
    spark.sql("DROP TABLE described")


def test_a_table(spark: SparkSession, table: str, tmp_path: Path) -> None:
    found = describe_table(spark, table)
    assert found["location"] == f"file:{tmp_path}"
    assert found["provider"] == "orc"
    assert found["partition_columns"] == ["day"]


@pytest.mark.parametrize("name", ["missing", "no_such_schema.missing"])
def test_no_table(spark: SparkSession, name: str) -> None:
    with pytest.raises(TableError, match=rf"Table '{name}' is invalid: .*no such table.*in quotes"):
        describe_table(spark, name)


def test_a_name_that_is_none(spark: SparkSession) -> None:
    with pytest.raises(TableError, match=r"Table 'a b' is invalid: .+") as caught:
        describe_table(spark, "a b")
    assert "\n" not in str(caught.value)


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A partitioned table with two partitions; where it stands in the catalog is up to the test."""
    spark.sql(
        "CREATE TABLE made (a INT, s VARCHAR(9), t TIMESTAMP, n STRUCT<x: INT>, p INT) USING orc "
        f"PARTITIONED BY (p) LOCATION '{tmp_path}/made'"
    )
    spark.sql("INSERT INTO made VALUES (1, 'x', now(), struct(1), 1), (2, NULL, NULL, NULL, 2)")
    yield "made"
    spark.sql("DROP TABLE made")


def test_a_table_whose_files_say_what_the_catalog_says(spark: SparkSession, made: str) -> None:
    found = hindex.connect(spark=spark).table(made).scan("p = 2").to_arrow()
    assert found.column("a").to_pylist() == [2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "ALTER TABLE made ADD COLUMNS (z BIGINT)",
            "column 'z' is in the catalog and not in the files",
        ),
        (
            "ALTER TABLE made DROP PARTITION (p = 1)",
            # the table is external: its files stay
            "partition 'p=1' has files and is not in the catalog",
        ),
        (
            "ALTER TABLE made ADD PARTITION (p = 3) LOCATION '{other}'",
            "partition 'p=3' is in the catalog and has no files below the table's location",
        ),
        (
            # its old files stay where they are
            "ALTER TABLE made PARTITION (p = 2) SET LOCATION '{other}'",
            "data file 'p=2/part-.*orc' is of no partition of the catalog",
        ),
        (
            "ALTER TABLE made PARTITION (p = 2) SET LOCATION '{copy}'",
            "the catalog has data file '.*/copy/p=2/part-.*orc', which is not below the table's location",
        ),
    ],
)
def test_a_table_that_the_catalog_has_otherwise(
    spark: SparkSession, made: str, tmp_path: Path, change: str, message: str
) -> None:
    table = hindex.connect(spark=spark).table(made)
    assert table.scan("a > 0").count() == 2
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(tmp_path / "made" / "p=2", tmp_path / "copy" / "p=2")
    spark.sql(change.format(other=tmp_path / "elsewhere", copy=tmp_path / "copy" / "p=2"))
    with pytest.raises(TableError, match=rf"^Table 'made' is invalid: {message}, and rows are read by"):
        table.scan("a > 0").count()


@pytest.mark.parametrize(
    ("columns", "values", "message"),
    [
        ("a INT, p STRING", "1, '01'", "column 'p' is string in the catalog and int in the files"),
        (
            "a CHAR(4), p INT",
            "'a', 1",
            r"column 'a' is char\(4\) in the catalog, where Spark pads its values",
        ),
        ("a TIMESTAMP_NTZ, p INT", "NULL, 1", "column 'a' is timestamp_ntz in the catalog and bigint in"),
    ],
)
def test_types_that_files_do_not_tell(
    spark: SparkSession, tmp_path: Path, columns: str, values: str, message: str
) -> None:
    spark.sql(f"CREATE TABLE odd ({columns}) USING orc PARTITIONED BY (p) LOCATION '{tmp_path}/odd'")
    try:
        spark.sql(f"INSERT INTO odd VALUES ({values})")
        with pytest.raises(TableError, match=f"^Table 'odd' is invalid: {message}"):
            hindex.connect(spark=spark).sql("SELECT * FROM odd")
    finally:
        spark.sql("DROP TABLE odd")


def test_partition_values_that_need_escapes(spark: SparkSession, tmp_path: Path) -> None:
    """Also in a table whose path has a blank, and is reached by a link."""
    (tmp_path / "a b").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a b")
    spark.sql(
        "CREATE TABLE escaped (a INT, p STRING, q STRING) USING orc PARTITIONED BY (p, q) "
        f"LOCATION '{tmp_path}/link/t'"
    )
    try:
        spark.sql("INSERT INTO escaped VALUES (1, 'x y/z', 'ä%'), (2, 'b=c', '#'), (3, 'b:c', 'd?')")
        table = hindex.connect(spark=spark).table("escaped")
        table.create_index("i", "a")
        for where in ("p = 'x y/z'", "q = '#' AND a = 2", "a >= 2 AND q <> 'ä%'"):
            found = table.scan(where).to_arrow().to_pylist()
            wanted = [row.asDict() for row in spark.table("escaped").where(where).collect()]
            assert sorted(map(str, found)) == sorted(map(str, wanted))
            assert found
    finally:
        spark.sql("DROP TABLE escaped")
