"""The queries of TPC-H on tables with indexes: the answers are those of Spark alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest

import hindex
from hindex.spark import queries
from hindex.spark.queries import explain_query, run_query
from hindex.sql.queries import parse_query
from tests.support import local_build
from tests.support.tpch import INDEXES, QUERIES, rounded

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
    program = str(Path(sys.executable).with_name("tpchgen-cli"))
    subprocess.run(
        [program, "parquet", "-s", SCALE, "--output-dir", str(root)], check=True, capture_output=True
    )
    local = local_build.LocalConnection()
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        for name, columns in INDEXES.items():
            table = _plain(pa.parquet.read_table(root / f"{name}.parquet"))
            (root / name).mkdir()
            for part in range(2):
                rows = table.num_rows // 2 + 1
                path = root / name / f"{part}.orc"
                pa.orc.write_table(table.slice(part * rows, rows), path, stripe_size=1 << 19)
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
    monkeypatch.setattr(queries, "MAX_SHARE", 1.0)
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


def _plain(table: pa.Table) -> pa.Table:
    """With strings of a type that ORC has."""
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field for field in table.schema
    ]
    return table.cast(pa.schema(fields))
