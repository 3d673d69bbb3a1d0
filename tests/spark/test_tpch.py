"""Queries of TPC-H on indexed tables return the rows of Spark alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from tests.support.cases import IS_NIGHTLY, nightly
from tests.support.elsewhere import connect_packages, found_by
from tests.support.tpch import ACCELERATED, INDEXES, QUERIES, rounded, write_indexed
from tests.support.tpch_frames import FRAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

#: The queries of a plain run; all run at night.
FEW = (19, 21)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tpch")
    write_indexed(path)
    return path


@pytest.fixture(scope="module")
def tpch(spark: SparkSession, root: Path) -> Iterator[hindex.Connection]:
    for name in INDEXES:
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{root / name}'")
    yield hindex.connect(spark=spark)
    for name in INDEXES:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("number", range(1, 23) if IS_NIGHTLY else FEW)
def test_answers(number: int, tpch: hindex.Connection, spark: SparkSession) -> None:
    """Run a query as a text and as DataFrame code."""
    text = QUERIES[number - 1]
    # averages are doubles, which depend on the order of their rows
    expected = [rounded(row) for row in spark.sql(text).collect()]
    queries: dict[str, Callable[[], DataFrame]] = {
        "sql": lambda: spark.sql(text),
        "frame": lambda: FRAMES[number - 1](spark),
    }
    for kind, query in queries.items():
        schema = query().schema
        with hindex.accelerate(spark, always=True) as handle:
            result = query()
            assert result.schema == schema, kind
            assert [rounded(row) for row in result.collect()] == expected, kind
            explained = handle.explain(result)
        used = {item.table for item in explained.tables if item.is_accelerated}
        # the rule finds what the conditions of the text alone restrict, and more
        assert used >= set(ACCELERATED[number]), str(explained)


@pytest.mark.network
@nightly
@pytest.mark.parametrize("kind", ["cluster", "connect"])
def test_answers_elsewhere(kind: str, root: Path) -> None:
    """Run all queries on a cluster that loses an executor, and over Spark Connect."""
    packages = connect_packages() if kind == "connect" else None
    report = found_by("tests.spark.tpch_run", kind, str(root), packages=packages)
    assert report["different"] == []
    assert {int(number): names for number, names in report["accelerated"].items()} == ACCELERATED
    assert report["killed"] == (kind == "cluster")
