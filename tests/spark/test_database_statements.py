"""Statements about the indexes of a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.api.statement_table import RecordList
from hindex.errors import BuildError, UnknownTableError
from tests.support.cases import sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database with two indexed tables, one without indexes, a view, and one of another format."""
    spark.sql("CREATE DATABASE manytables")
    spark.sql("USE manytables")
    hx = hindex.connect(spark=spark)
    for name in ("one", "two", "none"):
        spark.sql(f"CREATE TABLE {name} USING orc AS SELECT id AS a FROM range(10)")
    for name in ("one", "two"):
        hx.sql(f"CREATE INDEX i_{name} USING bitmap ON {name} (a)")
    spark.sql("INSERT INTO two VALUES (11)")
    spark.sql("CREATE TABLE other USING parquet AS SELECT 1 AS a")
    spark.sql("CREATE VIEW seen AS SELECT * FROM one")
    yield "manytables"
    spark.sql("USE default")
    spark.sql("DROP DATABASE manytables CASCADE")


def shown(hx: hindex.Connection, statement: str) -> list[tuple[str, str, str]]:
    rows: Any = hx.sql(statement)
    assert all(row["size_bytes"] > 0 for row in rows.to_pylist())
    return sorted((row["name"], row["table"], row["status"].partition(":")[0]) for row in rows.to_pylist())


@sampled(1)
@pytest.mark.parametrize("has_store", [False, True])
def test_indexes_of_a_database(spark: SparkSession, database: str, tmp_path: Path, has_store: bool) -> None:
    hx = hindex.connect(tmp_path if has_store else None, spark=spark)
    if has_store:
        for name in ("one", "two"):
            hx.sql(f"CREATE INDEX i_{name} USING bitmap ON {name} (a)")
        spark.sql("INSERT INTO two VALUES (12)")
    else:
        assert shown(hx, "SHOW INDEXES") == [("i_one", "one", "fresh"), ("i_two", "two", "stale")]
        assert shown(hx, "SHOW INDEX i_two") == [("i_two", "two", "stale")]
    spark.sql("USE default")
    of_database = [("i_one", f"{database}.one", "fresh"), ("i_two", f"{database}.two", "stale")]
    for place in (f"IN {database}", f"FROM DATABASE {database}", f"IN SCHEMA spark_catalog.{database}"):
        found = shown(hx, f"SHOW INDEXES {place}")
        assert [
            (name, table.replace("spark_catalog.", ""), status) for name, table, status in found
        ] == of_database
    assert shown(hx, f"SHOW INDEX i_one IN {database}") == of_database[:1]
    # a table is taken before a database of the same name
    spark.sql("CREATE TABLE manytables USING orc AS SELECT 1 AS a")
    try:
        assert shown(hx, f"SHOW INDEXES IN {database}") == []
    finally:
        spark.sql("DROP TABLE manytables")
    planned: Any = hx.sql(f"REFRESH INDEXES IN {database} DRY RUN")
    refreshed: Any = hx.sql(f"REFRESH INDEXES IN {database}")
    for results in (planned, refreshed):
        assert [(item.indexes, item.files_read) for item in results] == [(("i_one",), 0), (("i_two",), 1)]
    assert [name for name, _, status in shown(hx, f"SHOW INDEXES IN {database}") if status == "fresh"] == [
        "i_one",
        "i_two",
    ]
    checked: Any = hx.sql(f"CHECK INDEXES IN {database} VERIFY")
    assert [(item.index, item.ok) for item in checked] == [("i_one", True), ("i_two", True)]
    assert isinstance(checked, RecordList)
    assert str(checked).splitlines()[1].startswith("|index|table ")
    assert "<th>verified_stripes</th>" in checked._repr_html_()
    with hindex.accelerate(spark, tmp_path if has_store else None):
        assert spark.sql(f"SHOW INDEXES IN {database}").count() == 2
        assert spark.sql(f"REFRESH INDEXES IN {database}").count() == 2


def test_an_unknown_database(spark: SparkSession, database: str) -> None:
    hx = hindex.connect(spark=spark)
    message = (
        r"^Database 'manytable' does not exist: did you mean 'manytables'\? Spark's catalog has default, "
    )
    for statement in ("SHOW INDEXES IN DATABASE {}", "REFRESH INDEXES IN {}", "CHECK INDEXES IN {}"):
        with pytest.raises(UnknownTableError, match=message):
            hx.sql(statement.format("manytable"))
    with raises(UnknownTableError):
        hx.sql("SHOW INDEXES IN manytable")


def test_a_database_without_tables(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE notables")
    try:
        hx = hindex.connect(spark=spark)
        shown_indexes: Any = hx.sql("SHOW INDEXES IN DATABASE notables")
        assert shown_indexes.num_rows == 0
        assert hx.sql("REFRESH INDEXES IN notables") == []
    finally:
        spark.sql("DROP DATABASE notables")


def test_a_table_that_fails_does_not_stop_the_others(spark: SparkSession, database: str) -> None:
    hx = hindex.connect(spark=spark)
    location = Path(hx.table("one").uri)
    (location / "damaged.orc").write_bytes(b"no ORC file")
    with raises(BuildError):
        hx.sql(f"REFRESH INDEXES IN {database}")
    assert ("i_two", f"{database}.two", "fresh") in shown(hx, f"SHOW INDEXES IN {database}")
