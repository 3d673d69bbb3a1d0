"""The queries of TPC-H on tables with indexes: the answers are those of Spark alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.spark import query_plan
from hindex.spark.queries import explain_query, run_query
from hindex.sql.queries import parse_query
from tests.support import local_build
from tests.support.tpch import INDEXES, QUERIES, rounded, write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = "0.01"
#: By the number of a query, the tables that are read through their indexes, however many rows are left.
ACCELERATED = {
    1: ["lineitem"],
    2: ["part", "region", "region"],
    3: ["customer", "orders", "lineitem"],
    4: ["orders"],
    5: ["orders", "region"],
    6: ["lineitem"],
    7: ["lineitem", "nation", "nation"],
    8: ["part", "orders", "region"],
    9: [],
    10: ["orders", "lineitem"],
    11: ["nation", "nation"],
    12: ["lineitem"],
    13: [],
    14: ["lineitem"],
    15: ["lineitem"],
    16: ["part"],
    17: ["part"],
    18: [],
    19: ["lineitem", "part"],
    20: ["nation", "lineitem"],
    21: ["orders", "nation"],
    22: [],
}
#: Those that a plain run goes through; all with HINDEX_CASES.
FEW = (3, 13, 16, 19, 21)


@pytest.fixture(scope="module")
def tpch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hindex.Connection]:
    root = tmp_path_factory.mktemp("tpch")
    write_tables(root, SCALE)
    local = local_build.LocalConnection()
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        for name, columns in INDEXES.items():
            spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{root / name}'")
            indexes = [hindex.IndexSpec(column, column) for column in columns]
            if indexes:
                local.table(str(root / name)).create_indexes(indexes)
    yield hindex.connect(spark=spark)
    for name in INDEXES:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("number", range(1, 23) if "HINDEX_CASES" in os.environ else FEW)
def test_answers(
    number: int, tpch: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_plan, "MAX_SHARE", 1.0)
    monkeypatch.setattr(query_plan, "MIN_VALUES", 0)
    text = QUERIES[number - 1]
    query = parse_query(text)
    assert query is not None
    explained = explain_query(tpch, query)
    assert [item.table for item in explained.tables if item.is_accelerated] == ACCELERATED[number], str(
        explained
    )
    found, wanted = run_query(tpch, query), spark.sql(text)
    assert found.schema == wanted.schema
    # averages are doubles, which depend on the order of their rows
    assert [rounded(row) for row in found.collect()] == [rounded(row) for row in wanted.collect()]
