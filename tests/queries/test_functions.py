"""Functions of columns in the plans of an accelerated session: indexes answer them, with the rows of Spark alone."""

from __future__ import annotations

import datetime
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec
from tests.support.cases import sampled
from tests.support.queries import compare_plans
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000
ANSWERED = (
    "left(s, 2) = 'ab'",
    "substr(s, 1, 2) IN ('ab', 'c')",
    "NOT substring(s, 0, 1) = 'a'",
    "year(d) = 2024",
    "year(d) = 2024 AND month(d) = 3",
    "year(d) = 2023 AND dayofweek(d) = 1 AND quarter(d) IN (1, 2)",
    "trunc(d, 'MM') = DATE '2024-02-01'",
    "isnan(x)",
    "NOT isnan(x)",
    "coalesce(a, 0) = 0",
    "NOT coalesce(a, 0) = 1",
    "nvl(a, 7) IN (6, 7)",
    "coalesce(f, false)",
    "NOT coalesce(f, true)",
    "(a, b) IN ((1, 2), (3, 4))",
    "(a, b) NOT IN ((1, 2), (3, 4))",
    "(a, b) = (2, 2)",
    f"(a, b) IN ({', '.join(f'({a}, {b})' for a in range(4) for b in range(5))})",
    "year(t) = 2024",
    "year(t) = 2023 AND month(t) = 12",
    "date_trunc('MONTH', t) = TIMESTAMP '2024-01-01 00:00:00'",
    "trunc(t, 'YEAR') = DATE '2024-01-01'",
)
ANSWERED_IN_UTC = ("coalesce(t, TIMESTAMP '2024-01-01 00:00:00') <= TIMESTAMP '2023-02-01 00:00:00'",)
NOT_ANSWERED = (
    "month(d) = 3",
    "substr(s, 2, 1) = 'b'",
    "coalesce(a, b) = 1",
    "(s, a) IS NOT NULL AND isnan(x + 1)",
)


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an index on each of its columns but ``id``."""
    chance = random.Random(3)
    root = tmp_path_factory.mktemp("functions")

    def column(values: list[object], data_type: pa.DataType) -> pa.Array:
        return pa.array([chance.choice([None, *values]) for _ in range(ROWS)], data_type)

    days: list[object] = [datetime.date(2022, 12, 1) + datetime.timedelta(days=at) for at in range(0, 600, 3)]
    times: list[object] = [
        datetime.datetime(2022, 12, 1) + datetime.timedelta(hours=at) for at in range(0, 14_000, 37)
    ]
    columns = {
        "a": column([*range(8)], pa.int32()),
        "b": column([*range(6)], pa.int32()),
        "s": column(["", "a", "ab", "abc", "ac", "b", "c", "éa"], pa.string()),
        "d": column(days, pa.date32()),
        "t": column(times, pa.timestamp("us")),
        "x": column([0.5, float("nan"), -1.0], pa.float64()),
        "f": column([True, False], pa.bool_()),
    }
    write_columns(root / "x.orc", {**columns, "id": pa.array(range(ROWS), pa.int64())}, stripe=64 << 10)
    hindex.connect(spark=spark).table(root).create_indexes(
        [IndexSpec(f"by_{name}", name) for name in columns]
    )
    return root


def is_answered(hx: hindex.Connection, text: str) -> bool:
    """Compare the rows of a query with Spark's; return True if an index answers more than that Spark excludes NULL."""
    explanation = str(compare_plans(hx, text))
    return (
        "by_" in explanation
        and re.search(r"(?m)^  where +(?=\S)(?!\w+ IS NOT NULL$)", explanation) is not None
    )


@pytest.mark.slow
@sampled(1)
@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_rows_are_those_of_spark(spark: SparkSession, path: Path, zone: str) -> None:
    hx = hindex.connect(spark=spark)
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        answered = {
            condition: is_answered(hx, f"SELECT id, a FROM orc.`{path}` WHERE {condition}")
            for condition in (*ANSWERED, *ANSWERED_IN_UTC, *NOT_ANSWERED)
        }
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    expected = {*ANSWERED, *(ANSWERED_IN_UTC if zone == "UTC" else ())}
    assert {condition for condition, by_index in answered.items() if by_index} == expected
