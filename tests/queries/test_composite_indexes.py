"""Indexes on several columns in an accelerated session: rows and schema of Spark alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 the usual name

import hindex
from hindex.api.table import IndexSpec
from tests.queries.comparison import compare_accelerated
from tests.scan.test_composite_indexes import ROWS, write_file
from tests.support.cases import sampled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("nothing_declined")


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("composites")
    for number in range(2):
        write_file(path / f"{number}.orc", number, number * ROWS)
    table = hindex.connect(spark=spark).table(path)
    table.create_indexes(
        [
            IndexSpec("joined_as", ["a", "s"]),
            IndexSpec("joined_qt", ["q", "t"], "btree"),
            IndexSpec("joined_wda", ["w", "d", "a"], "bloom"),
        ]
    )
    return path


@sampled(5)
@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("a = 2 AND s = 'a'", "joined_as"),
        ("a IN (1, 2) AND s > 'a' AND id < 2000", "joined_as"),
        ("a <=> NULL AND s IS NULL", "joined_as"),
        ("(a, s) IN ((1, 'a'), (2, 'b'))", "joined_as"),
        ("a = 5", "joined_as"),
        ("q = 1.5 AND t = TIMESTAMP '2020-03-05 12:00:00'", "joined_qt"),
        ("q = 0 AND t >= TIMESTAMP '2020-03-06'", "joined_qt"),
        ("w = 1 AND d = 0.0D AND a = 3", "joined_wda"),
        ("w = 0 AND d = double('NaN') AND a = -3", "joined_wda"),
    ],
)
def test_conditions(
    spark: SparkSession, folder: Path, condition: str, index: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = compare_accelerated(spark.read.orc(str(folder)).where(condition), caplog)
    assert f" through {index}," in log


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_times_of_another_zone(
    spark: SparkSession, folder: Path, zone: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        condition = "q = 1.5 AND t = to_timestamp('2020-03-05 12:00:00Z')"
        log = compare_accelerated(spark.read.orc(str(folder)).where(condition), caplog)
        assert " through joined_qt," in log
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_counts_come_from_the_index(spark: SparkSession, folder: Path) -> None:
    def counted() -> DataFrame:
        return spark.read.orc(str(folder)).where("a = 2 AND s = 'a'").agg(F.count("*"))

    expected = counted().collect()
    with hindex.accelerate(spark, always=True) as acceleration:
        assert counted().collect() == expected != [(0,)]
        assert "through its indexes" in str(acceleration.explain(counted()))


@pytest.mark.parametrize("condition", ["TRUE", "a = 2"])
def test_keys_of_joins_are_looked_up_together(
    spark: SparkSession, folder: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of two columns, and those of the second one where a condition is on the first one."""
    small = spark.sql("SELECT * FROM VALUES (1, 'a'), (5, 'zz'), (NULL, 'b'), (2, NULL), (2, 'a') AS t(a, s)")
    on = ["a", "s"] if condition == "TRUE" else ["s"]
    large = spark.read.orc(str(folder)).where(condition)
    log = compare_accelerated(large.join(small.select(on), on).select("id", "a", "s", "q"), caplog)
    assert " through joined_as," in log
    assert re.search(r"s by \d keys of", log)
