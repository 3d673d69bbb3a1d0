"""Queries of transactional tables, which Spark cannot read by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
import hindex.api.table
from hindex.errors import TableError, UnsupportedError
from hindex.queries.query_execution import explain_query, run_query
from hindex.sql.queries import parse_query
from tests.acid.writing import bucket_property, write_acid
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_a_table_that_is_transactional(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would read its deltas as rows, so hindex reads it even if no index helps."""
    prop = bucket_property(0)
    rows_of = [((1, prop, number), 1, (number, number % 3, "x")) for number in range(9)]
    write_acid(tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000", rows_of)
    deleted = [((1, prop, number), 2, None) for number in (2, 3)]
    write_acid(tmp_path / "t" / "delete_delta_0000002_0000002" / "bucket_00000", deleted)
    for where, wanted in (("x.id > 1 AND b = 3", 5), ("x.id > 1 + rand() * 0", None), ("true", 7)):
        text = f"SELECT count(*) AS n FROM '{tmp_path / 't'}' x JOIN (SELECT 3 AS b) WHERE {where}"
        if wanted is None:
            with raises(TableError):
                tables.sql(text)
            continue
        query = parse_query(text)
        assert query is not None
        assert run_query(tables, query).collect()[0]["n"] == wanted
        assert explain_query(tables, query).tables[0].is_accelerated
    # by any name
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s STRING) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        text = "WITH acid AS (SELECT * FROM acid) SELECT count(*) AS n FROM acid"
        assert tables.sql(text).to_arrow()["n"].to_pylist() == [7]  # type: ignore[union-attr]
        for text in (
            "TABLE acid",
            "SELECT count(*) + 0 FROM IDENTIFIER('acid')",
            "SELECT count(*) FROM acid qualify WHERE qualify.id > 1",
        ):
            with raises(TableError):
                tables.sql(text)
    finally:
        spark.sql("DROP TABLE acid")
    for value in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", value)
        try:
            result: Any = tables.sql(f"SELECT id FROM '{tmp_path / 't'}' WHERE ROW__ID.rowId > 6")
            assert sorted(result.to_arrow().column("id").to_pylist()) == [7, 8]
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
    # neither engine reads it if the catalog has other types
    spark.sql(f"CREATE TABLE acid (id INT, k INT, s CHAR(4)) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        with raises(UnsupportedError):
            tables.sql("SELECT count(*) AS n FROM acid x JOIN (SELECT 3 AS b) WHERE x.id > 1")
    finally:
        spark.sql("DROP TABLE acid")


def test_a_view_of_a_transactional_table(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would read only its flat files, or none."""
    rows_of = [((1, bucket_property(0), n), 1, (n, n, "x")) for n in range(5)]
    write_acid(tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000", rows_of)
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s STRING) USING orc LOCATION '{tmp_path / 't'}'")
    spark.sql("CREATE VIEW of_acid AS SELECT id FROM acid WHERE k > (SELECT 1)")
    spark.sql("CREATE VIEW inside AS SELECT 1 AS id WHERE 0 IN (SELECT id FROM acid)")
    try:
        for text in ("SELECT id FROM of_acid", "SELECT id + 1 FROM of_acid", "EXPLAIN SELECT id FROM inside"):
            with raises(TableError):
                tables.sql(text)
    finally:
        for relation in ("VIEW inside", "VIEW of_acid", "TABLE acid"):
            spark.sql(f"DROP {relation}")


def test_partitions_of_a_transactional_table_are_also_the_catalog_s(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Those of the directories alone were dropped, and others may be elsewhere."""
    for partition in (1, 2):
        rows_of = [((1, bucket_property(0), n), 1, (n, n, "x")) for n in range(5)]
        directory = tmp_path / "t" / f"p={partition}" / "delta_0000001_0000001"
        write_acid(directory / "bucket_00000", rows_of)
    spark.sql(
        "CREATE TABLE acid (id BIGINT, k INT, s STRING, p INT) USING orc PARTITIONED BY (p) "
        f"LOCATION '{tmp_path / 't'}'"
    )
    try:
        for partition, problem in (
            (1, "partition 'p=2' has files and is not in the catalog"),
            (2, None),
            (3, "partition 'p=3' is in the catalog and has no files below the table's location"),
        ):
            spark.sql(f"ALTER TABLE acid ADD PARTITION (p = {partition})")
            if problem is None:
                assert tables.table("acid").scan().count() == 10
                assert tables.table("acid").scan("p = 2 AND k = 3").count() == 1
            else:
                with raises(UnsupportedError):
                    tables.table("acid").scan().count()
    finally:
        spark.sql("DROP TABLE acid")


def test_the_property_of_a_transactional_table_in_any_case(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """The catalog decides whether an accelerated session reads a table as transactional."""
    rows_of = [((1, bucket_property(0), n), 1, (n, n, "x")) for n in range(5)]
    write_acid(tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000", rows_of)
    deleted = [((1, bucket_property(0), n), 2, None) for n in (2, 3)]
    write_acid(tmp_path / "t" / "delete_delta_0000002_0000002" / "bucket_00000", deleted)
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s STRING) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        spark.sql("ALTER TABLE acid SET TBLPROPERTIES ('transactional' = 'TRUE')")
        with hindex.accelerate(spark):
            assert sorted(row.id for row in spark.sql("SELECT id FROM acid").collect()) == [0, 1, 4]
            assert spark.sql("SELECT id FROM acid WHERE k > 2").count() == 1
    finally:
        spark.sql("DROP TABLE acid")
