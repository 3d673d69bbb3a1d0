"""SQL of one table that hindex answers without Spark: qualified names, orders and offsets match Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.explanations.explanation import Explanation
from tests.support.cases import cases, sampled
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILE_ROWS = 300, 100


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(11)
    root = tmp_path_factory.mktemp("one_table") / "t"

    def some(values: list[Any], data_type: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(values) for _ in range(FILE_ROWS)], data_type)

    for start in range(0, ROWS, FILE_ROWS):
        fields = [{"a": rng.randint(0, 3)} for _ in range(FILE_ROWS)]
        write_columns(
            root / f"{start}.orc",
            {
                "id": pa.array(range(start, start + FILE_ROWS), pa.int64()),
                "a": some([1, 2, 3, None], pa.int32()),
                "x": some([float("nan"), -0.0, 0.0, 2.5, None], pa.float64()),
                "s": some(["", "b", "ä", None], pa.string()),
                "st": pa.array(fields, pa.struct([("a", pa.int32())])),
            },
        )
    hindex.connect(spark=spark).table(root).create_index("by_a", "a", "bitmap")
    return root


@sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT e.id, E.a, e.st.a FROM {} AS e WHERE e.a = 3 AND (upper(e.s) = 'B' OR e.st.a > 1) ORDER BY e.id",
        "SELECT e.id AS n, a FROM {} e WHERE `e`.a IS NULL ORDER BY n DESC",
        """SELECT e.a, count(DISTINCT e.s), max(e.st.a) AS m FROM {} e GROUP BY e.a, e.st.a
           HAVING count(DISTINCT e.s) > 2 AND e.a > 1 ORDER BY e.a, count(DISTINCT e.s) DESC, m""",
        "SELECT DISTINCT a, s FROM {} e ORDER BY s DESC NULLS FIRST, e.a",
        "SELECT a, s, count(*) AS n FROM {} GROUP BY a, s ORDER BY n DESC, 2, a DESC LIMIT 5",
        "SELECT s, x, id FROM {} ORDER BY x DESC, s, id DESC",
        "SELECT id FROM {} ORDER BY st.a DESC, a NULLS LAST, id LIMIT 17",
        "SELECT id FROM {} e WHERE e.a = 2 ORDER BY e.id LIMIT 4 OFFSET 3",
        "SELECT E.* FROM {} e WHERE e.st.a = 1 ORDER BY e.id",
        "SELECT a, s, count(*) FROM {} GROUP BY a, s ORDER BY a DESC, s OFFSET 13",
        "SELECT EXISTS(SELECT 1 FROM {} WHERE a = 2 OFFSET 300)",
    ],
)
def test_rows_and_names_are_those_of_spark(text: str, spark: SparkSession, table: Path) -> None:
    hx = hindex.connect(spark=spark)
    expected = spark.sql(text.format(f"orc.`{table}`"))
    place = f"'{table}'"
    result = hx.sql(text.format(place))
    assert isinstance(result, QueryResult)
    assert isinstance(hx.sql(f"EXPLAIN {text.format(place)}"), Explanation), "hindex answers it by itself"
    assert result.columns == expected.columns
    assert_rows(result.to_arrow(), expected.toArrow())
    assert_rows(result.to_spark().toArrow(), expected.toArrow())


def test_random_orders_with_limits_and_offsets(
    spark: SparkSession, table: Path, rng: np.random.Generator
) -> None:
    rand = random.Random(int(rng.integers(1 << 30)))
    hx = hindex.connect(spark=spark)
    ids_seen = set()
    for _ in range(cases(15, 100)):
        columns = rand.sample(["a", "x", "s", "st.a", "id"], rand.randrange(1, 4))
        directions = rand.choices(["", " ASC", " DESC"], k=len(columns))
        nulls = rand.choices(["", " NULLS FIRST", " NULLS LAST"], k=len(columns))
        orders = ", ".join(map("".join, zip(columns, directions, nulls, strict=True)))
        where = rand.choice(["", " WHERE a >= 2", " WHERE x IS NOT NULL", " WHERE s = 'b' AND id % 3 > 0"])
        limit = rand.choice(["", " LIMIT ALL", f" LIMIT {rand.randrange(ROWS)}", " LIMIT 3"])
        offset = rand.choice(["", f" OFFSET {rand.randrange(ROWS)}", f" OFFSET {rand.randrange(30)}"])
        keys = ", ".join(f"{column} AS k{at}" for at, column in enumerate(columns))
        text = f"SELECT id AS row, {keys} FROM {{}}{where} ORDER BY {orders}{limit}{offset}"
        expected = spark.sql(text.format(f"orc.`{table}`")).toArrow()
        own = text.format(f"'{table}'")
        assert isinstance(hx.sql(f"EXPLAIN {own}"), Explanation), text
        result = hx.sql(own)
        assert isinstance(result, QueryResult)
        rows = result.to_arrow()
        # rows with equal values in all sort columns may be in any order
        assert sort_keys(rows) == sort_keys(expected), text
        ids = rows.column("row").to_pylist()
        assert len(set(ids)) == len(ids), text
        if "id" in columns:
            assert ids == expected.column("row").to_pylist(), text
        ids_seen.update(ids)
        assert result.count() == expected.num_rows, text
    assert ids_seen


def sort_keys(rows: pa.Table) -> list[str]:
    """Return the values after the first column as strings: NaN equals NaN, and 0.0 equals -0.0."""
    return [
        str([value + 0.0 if isinstance(value, float) else value for value in list(row.values())[1:]])
        for row in rows.to_pylist()
    ]


def test_names_of_a_table_of_the_catalog(spark: SparkSession, table: Path) -> None:
    spark.sql(f"CREATE TABLE one_table USING orc LOCATION '{table}'")
    try:
        hx = hindex.connect(spark=spark)
        for text in (
            "SELECT one_table.id FROM one_table WHERE One_Table.a = 3 ORDER BY one_table.id",
            "SELECT default.one_table.id, one_table.a FROM default.one_table WHERE one_table.a = 2 ORDER BY 1",
        ):
            result = hx.sql(text)
            assert isinstance(result, QueryResult)
            assert isinstance(hx.sql(f"EXPLAIN {text}"), Explanation)
            assert_rows(result.to_arrow(), spark.sql(text).toArrow())
        # the struct, since the table has no column of that name
        result = hx.sql("SELECT st.a FROM one_table AS st ORDER BY st.st.a LIMIT 3")
        assert isinstance(result, QueryResult)
        expected = spark.sql("SELECT st.a FROM one_table AS st ORDER BY st.st.a, id LIMIT 3")
        assert result.columns == expected.columns
    finally:
        spark.sql("DROP TABLE one_table")


def assert_rows(actual: pa.Table, expected: pa.Table) -> None:
    # as strings: NaN equals NaN
    assert [str(row) for row in actual.to_pylist()] == [str(row) for row in expected.to_pylist()]
    assert actual.num_rows
