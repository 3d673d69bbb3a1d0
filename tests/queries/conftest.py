"""A small warehouse with indexes, as Spark writes one."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.queries import selectivity
from hindex.queries.selectivity import DECLINED
from tests.support.local_build import without_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400


def make_warehouse(spark: SparkSession, database: str) -> None:
    """Make tables ``sales`` and ``shops`` of a database, with indexes on columns of the first."""
    rng = random.Random(5)
    rows = [
        (
            at,
            rng.choice([None, 1, 3, 7, 11]),
            None if rng.random() < 0.1 else datetime.date(2024, 1, 1 + rng.randrange(6)),
            None if rng.random() < 0.1 else Decimal(rng.randrange(10_000)).scaleb(-2),
            None if rng.random() < 0.3 else f"note {at % 13}",
        )
        for at in range(ROWS)
    ]
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(
        f"CREATE TABLE {database}.sales (id BIGINT NOT NULL COMMENT 'a number', shop INT COMMENT 'where', "
        "day DATE, amount DECIMAL(10, 2), note STRING DEFAULT 'none' COMMENT 'said') USING orc"
    )
    types = "id BIGINT, shop INT, day DATE, amount DECIMAL(10, 2), note STRING"
    spark.createDataFrame(rows, types).repartition(2).write.insertInto(f"{database}.sales")
    spark.sql(f"CREATE TABLE {database}.shops (shop INT, city STRING COMMENT 'of the shop') USING orc")
    spark.sql(f"INSERT INTO {database}.shops VALUES (1, 'Ulm'), (3, 'Bonn'), (7, 'Ulm'), (9, NULL)")
    sales = hindex.connect(spark=spark).table(f"{database}.sales")
    sales.create_indexes([hindex.IndexSpec(f"i_{name}", name) for name in ("shop", "day")])


@pytest.fixture(scope="module", autouse=True)
def _builds_without_jobs() -> Iterator[None]:
    """Build indexes in this process: the tests here are of queries, and a job takes longer."""
    with without_jobs():
        yield


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read through their indexes however many rows are left."""
    monkeypatch.setattr(selectivity, "MAX_SHARE", 1.0)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    DECLINED.clear()


@pytest.fixture
def nothing_declined() -> Iterator[None]:
    """Clear the record of declined queries before and after the test."""
    DECLINED.clear()
    yield
    DECLINED.clear()


@pytest.fixture(scope="session")
def made_warehouse(spark: SparkSession) -> Iterator[str]:
    make_warehouse(spark, "shopping")
    yield "shopping"
    spark.sql("DROP DATABASE shopping CASCADE")


@pytest.fixture
def warehouse(spark: SparkSession, made_warehouse: str) -> Iterator[str]:
    """The name of a database, which is the current one; its tables may be read, and others be made."""
    spark.sql(f"USE {made_warehouse}")
    yield made_warehouse
    spark.sql(f"USE {made_warehouse}")
    for row in spark.sql("SHOW VIEWS").collect():
        spark.sql(f"DROP VIEW {row.viewName}")
    for row in spark.sql("SHOW TABLES").collect():
        if row.tableName not in ("sales", "shops"):
            spark.sql(f"DROP TABLE {row.tableName}")
    spark.sql("USE default")


@pytest.fixture
def own_warehouse(spark: SparkSession) -> Iterator[str]:
    """A database as ``warehouse``, whose tables may be changed."""
    make_warehouse(spark, "changing")
    spark.sql("USE changing")
    yield "changing"
    for row in spark.sql("SHOW VIEWS").collect():
        spark.sql(f"DROP VIEW {row.viewName}")
    spark.sql("USE default")
    spark.sql("DROP DATABASE changing CASCADE")
