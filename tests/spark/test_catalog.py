"""What the catalog tells of tables, and what it says where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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
    with pytest.raises(TableError, match="Table 'a b' is invalid: ") as caught:
        describe_table(spark, "a b")
    assert "\n" not in str(caught.value)
