"""A database of small tables for random queries: nulls everywhere, several files, some of them without indexes."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

import hindex

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200

#: Columns of the tables, and of a view, by kind of value: numbers, strings, dates, amounts, timestamps with and
#: without a time zone.
TABLES = {
    "orders": {"id": "n", "k": "n", "q": "n", "s": "s", "d": "d", "m": "m"},
    "items": {"k": "n", "x": "n", "s": "s", "c": "s"},
    "plain": {"k": "n", "z": "n", "d": "d"},
    "visits": {"k": "n", "t": "t", "u": "u", "s": "s"},
    "some": {"id": "n", "k": "n", "t": "s", "m": "m"},
}


@contextmanager
def random_tables(spark: SparkSession, database: str) -> Iterator[None]:
    """Tables with nulls everywhere, two of them with indexes, in several files, some of them partitioned; a view."""
    random = np.random.default_rng(17)

    def column(values: list[Any], nulls: float) -> list[Any]:
        return [
            None if random.random() < nulls else values[int(random.integers(len(values)))]
            for _ in range(ROWS)
        ]

    strings = [f"s{n}" for n in range(6)] + ["", "S1", "s1 "]
    dates = [datetime.date(2024, 1, 1 + n) for n in range(8)]
    times = [datetime.datetime(2024, 3, 10, 1) + datetime.timedelta(minutes=30 * n) for n in range(12)]
    numbers = list(range(12))
    amounts = [Decimal(n * 125).scaleb(-2) for n in range(10)]
    data: dict[str, tuple[str, list[list[Any]]]] = {
        "orders": (
            "id BIGINT NOT NULL, k INT COMMENT 'key', q SMALLINT, s STRING, d DATE, m DECIMAL(9, 2)",
            [
                *(list(range(ROWS)), column(numbers, 0.1), column(numbers[:4], 0.2)),
                *(column(strings, 0.2), column(dates, 0.1), column(amounts, 0.2)),
            ],
        ),
        "items": (
            "k INT, x BIGINT, s STRING DEFAULT 'none', c CHAR(3)",
            [column(numbers, 0.1), column(numbers[:5], 0.3), column(strings, 0.3), column(strings[:4], 0.2)],
        ),
        "plain": (
            "k INT, z INT, d DATE",
            [column(numbers, 0.1), column(numbers[:3], 0.2), column(dates, 0.2)],
        ),
        "visits": (
            "k INT, t TIMESTAMP, u TIMESTAMP_NTZ, s STRING",
            [column(numbers, 0.1), column(times, 0.1), column(times, 0.1), column(strings, 0.2)],
        ),
    }
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"USE {database}")
    try:
        for name, (columns, values) in data.items():
            spark.sql(
                f"CREATE TABLE {name} ({columns}) USING orc" + (" PARTITIONED BY (x)" * (name == "items"))
            )
            names = spark.table(name).columns
            types = (
                columns.replace(" NOT NULL", "").replace("CHAR(3)", "STRING").replace(" DEFAULT 'none'", "")
            )
            frame = spark.createDataFrame(
                list(zip(*values, strict=True)), types.replace(" COMMENT 'key'", "")
            )
            frame.select(names).repartition(2).write.insertInto(name)
        hx = hindex.connect(spark=spark)
        hx.table("orders").create_indexes(
            [hindex.IndexSpec(f"i_{name}", name) for name in ("k", "s", "d", "m")]
            + [hindex.IndexSpec("i_id", "id", "btree"), hindex.IndexSpec("i_q", "q", "minmax")]
        )
        hx.table("items").create_indexes([hindex.IndexSpec(f"i_{name}", name) for name in ("k", "s", "c")])
        hx.table("visits").create_indexes([hindex.IndexSpec(f"i_{name}", name) for name in ("t", "u", "s")])
        # one file that no index covers
        spark.sql("INSERT INTO orders SELECT id + 1000, k, q, s, d, m FROM orders WHERE id < 20")
        spark.sql(
            "CREATE VIEW some AS SELECT id, k, concat(s, 'x') AS t, m FROM orders WHERE q < 3 OR q IS NULL"
        )
        yield
    finally:
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {database} CASCADE")
