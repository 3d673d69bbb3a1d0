"""DESCRIBE TABLE and SHOW COLUMNS return the rows of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyorc
import pytest

import hindex
from hindex.api.statement_table import StatementTable
from hindex.errors import NotOrcError, StatementError, TableNotFoundError, UnknownTableError
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "struct<id:bigint,c:char(4),v:varchar(9),d:decimal(10,2),bin:binary,f:float,b:boolean,`we ird`:int,t:timestamp,"
    "i:timestamp with local time zone,st:struct<a:tinyint,b:array<map<string,date>>,i:timestamp with local time zone>>"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for region in ("EU", "US"):
        directory = tmp_path / "t" / f"region={region}" / "year=2023"
        directory.mkdir(parents=True)
        with (directory / "a.orc").open("wb") as file:
            pyorc.Writer(file, SCHEMA).close()
    return tmp_path / "t"


@pytest.fixture
def names(spark: SparkSession, path: Path) -> Iterator[list[str]]:
    """Create a table on the path, a table with comments, and a view; yield their names."""
    spark.sql(f"CREATE TABLE inferred USING orc LOCATION '{path}'")
    spark.sql(
        "CREATE TABLE declared (id INT NOT NULL COMMENT 'key', c CHAR(4), n TIMESTAMP_NTZ, dt STRING COMMENT 'day') "
        "USING orc PARTITIONED BY (dt)"
    )
    spark.sql("CREATE VIEW seen AS SELECT id, dt FROM declared")
    yield ["inferred", "default.declared", "seen"]
    spark.sql("DROP VIEW seen")
    spark.sql("DROP TABLE declared")
    spark.sql("DROP TABLE inferred")


def rows(table: Any) -> list[dict[str, Any]]:
    assert isinstance(table, StatementTable)
    values: list[dict[str, Any]] = table.to_pylist()
    return values


def test_tables_by_path_without_spark(spark: SparkSession, path: Path, names: list[str]) -> None:
    hx = hindex.connect()
    described = spark.sql("DESCRIBE inferred").toArrow()
    for text in (f"DESCRIBE '{path}'", f"desc table orc.`{path}`;"):
        assert rows(hx.sql(text)) == described.to_pylist()
    listed = spark.sql("SHOW COLUMNS IN inferred").toArrow()
    for text in (f"SHOW COLUMNS IN '{path}'", f"SHOW COLUMNS FROM orc.`{path}`"):
        assert rows(hx.sql(text)) == listed.to_pylist()
    assert hx.sql(f"DESCRIBE '{path}'").schema.equals(described.schema)  # type: ignore[union-attr]
    # a directory without partitions, and one without files
    part = path / "region=EU" / "year=2023"
    spark.read.orc(str(part)).createOrReplaceTempView("part")
    assert rows(hx.sql(f"DESCRIBE '{part}'")) == spark.sql("DESCRIBE part").toArrow().to_pylist()
    (path.parent / "empty").mkdir()
    assert rows(hx.sql(f"DESCRIBE '{path.parent / 'empty'}'")) == []
    assert rows(hx.sql(f"SHOW COLUMNS IN '{path.parent / 'empty'}'")) == []


def test_names_of_the_catalog(spark: SparkSession, names: list[str]) -> None:
    hx = hindex.connect(spark=spark)
    for name in names:
        for statement in (f"DESCRIBE TABLE {name}", f"SHOW COLUMNS IN {name}"):
            assert rows(hx.sql(statement)) == spark.sql(statement).toArrow().to_pylist()


def test_unknown_tables(spark: SparkSession, path: Path) -> None:
    misspelled = path.with_name("tt")
    for head in ("DESCRIBE", "DESCRIBE TABLE", "SHOW COLUMNS IN"):
        with raises(TableNotFoundError):
            hindex.connect().sql(f"{head} '{misspelled}'")
        with raises(UnknownTableError):
            hindex.connect().sql(f"{head} nope")
        with raises(NotOrcError):
            hindex.connect().sql(f"{head} parquet.`x`")
        with raises(UnknownTableError):
            hindex.connect(spark=spark).sql(f"{head} nope")
    with raises(StatementError):
        hindex.connect(spark=spark).sql("SHOW COLUMNS ON declared")
