"""Rows, schemas and methods of query results are the same from hindex and from Spark."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.errors import ColumnError, HindexError, UnsupportedError
from hindex.explanations.explanation import Explanation
from hindex.queries.decisions import QueryExplanation
from hindex.queries.query_execution import shorten
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 40
#: Statements that hindex answers: each with all rows, with no rows, and on an empty table.
STATEMENTS = [
    "SELECT * FROM {} WHERE {}",
    "SELECT id, s AS t, st.x, day, day FROM {} WHERE {}",
    "SELECT s, dec, big, bin FROM {} WHERE {} ORDER BY dec DESC LIMIT 7",
    "SELECT count(*), count(s) AS n, min(f), max(dec), min(s), max(bin), max(day), count(DISTINCT s) FROM {} WHERE {}",
    "SELECT min(flag), max(tiny), min(small), max(i), min(dec), max(big), min(x) FROM {} WHERE {}",
    "SELECT s, count(*) AS n, count(s), min(s), count(DISTINCT i) FROM {} WHERE {} GROUP BY s ORDER BY s",
    "SELECT DISTINCT flag, dec FROM {} WHERE {}",
    "SELECT ts, count(*) AS n, max(ts) FROM {} WHERE {} GROUP BY ts",
    "SELECT min(ts), max(ts) AS latest FROM {} WHERE {}",
    "SELECT x, count(*) AS n FROM {} WHERE {} GROUP BY x HAVING count(*) > 0",
    "SELECT EXISTS(SELECT 1 FROM {} WHERE {})",
    "SELECT EXISTS(SELECT id FROM {} WHERE {}) AS any",
]


def columns(rows: int) -> dict[str, pa.Array]:
    rng = random.Random(7)

    def some(values: list[Any], data_type: pa.DataType) -> pa.Array:
        return pa.array([rng.choice([*values, None]) for _ in range(rows)], data_type)

    return {
        "id": pa.array(range(rows), pa.int64()),
        "flag": some([True, False], pa.bool_()),
        "tiny": some([-1, 2], pa.int8()),
        "small": some([-300, 300], pa.int16()),
        "i": some([1, 2, 3], pa.int32()),
        "f": some([1.5, -2.0], pa.float32()),
        "x": some([float("nan"), 0.0, -0.0, 3.25], pa.float64()),
        "s": some(["a", "b", "ä"], pa.string()),
        "bin": some([b"a", b"\xff"], pa.binary()),
        "day": some([datetime.date(2020, 1, 2), datetime.date(1900, 1, 1)], pa.date32()),
        "dec": some([Decimal("1.10"), Decimal("-2.00")], pa.decimal128(9, 2)),
        "big": some([Decimal("1e20"), Decimal(-5)], pa.decimal128(38, 10)),
        "ts": some(
            [datetime.datetime(2020, 1, 2, 3, 4, 5, 6), datetime.datetime(1999, 1, 1)], pa.timestamp("us")
        ),
        "list": some([[1, None], []], pa.list_(pa.int64())),
        "map": some([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
        "st": some([{"x": 1, "y": "z"}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    }


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    write_columns(root / "full" / "1.orc", columns(COUNT))
    write_columns(root / "empty" / "1.orc", columns(0))
    return root


def row_texts(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


@sampled(6)
@pytest.mark.parametrize("text", STATEMENTS)
def test_schemas_and_rows_are_those_of_spark(text: str, spark: SparkSession, place: Path) -> None:
    """The schema depends neither on the engine nor on the number of rows."""
    hx = hindex.connect(spark=spark)
    schema = None
    for name, where in (("full", "id >= 0"), ("full", "id < 0"), ("empty", "id >= 0")):
        by_hindex: Any = hx.sql(text.format(f"'{place / name}'", where))
        by_spark: Any = hx.sql(f"SELECT * FROM ({text}) q".format(f"'{place / name}'", where))
        wanted = spark.sql(text.format(f"orc.`{place / name}`", where)).toArrow()
        assert type(by_hindex) is type(by_spark) is QueryResult
        assert isinstance(by_hindex.explain(), Explanation)
        assert isinstance(by_spark.explain(), QueryExplanation)
        for result in (by_hindex, by_spark):
            rows = result.to_arrow()
            assert rows.schema == result.schema == wanted.schema == (schema or wanted.schema)
            assert [field.nullable for field in rows.schema] == [field.nullable for field in wanted.schema]
            assert row_texts(rows) == row_texts(wanted)
            assert rows.schema.field(0).metadata is None
        if len(set(by_hindex.columns)) == len(by_hindex.columns):
            fields = [
                [(field.name, field.dataType, field.nullable) for field in result.to_spark().schema]
                for result in (by_hindex, by_spark)
            ]
            assert fields[0] == fields[1]
        assert row_texts(by_hindex.to_spark().toArrow()) == row_texts(wanted)
        schema = wanted.schema


@sampled(2)
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT id, x, s, dec FROM {}", ["x", "s", "dec"]),
        ("SELECT s AS x, x AS s FROM {} LIMIT 20", ["x", "s"]),
        ("SELECT x, count(*) AS n, min(x) AS s FROM {} GROUP BY x", ["x", "n", "s"]),
        ("SELECT max(day) AS x, min(big) AS n FROM {} WHERE id < 0", ["x", "n"]),
    ],
)
def test_methods_of_results_agree(text: str, names: list[str], spark: SparkSession, place: Path) -> None:
    hx = hindex.connect(spark=spark)
    text = text.format(f"'{place / 'full'}'")
    by_hindex: Any = hx.sql(text)
    by_spark: Any = hx.sql(f"SELECT * FROM ({text}) q")
    num_rows = by_hindex.count()
    assert num_rows == by_spark.count()
    assert by_hindex.exists() is by_spark.exists()
    heads = by_hindex.head(3), by_spark.head(3)
    assert heads[0].schema == heads[1].schema
    assert heads[0].num_rows == heads[1].num_rows == min(3, num_rows)
    counts = by_hindex.value_counts(*names)
    assert counts.schema.field("count").type == pa.int64()
    assert row_texts(counts) == row_texts(by_spark.value_counts(*names))
    for name in names:
        for method in ("count", "min", "max", "count_distinct"):
            values = [getattr(result, method)(name.upper()) for result in (by_hindex, by_spark)]
            assert repr(values[0]) == repr(values[1]), (method, name)
        assert repr(by_hindex.distinct(name).to_pylist()) == repr(by_spark.distinct(name).to_pylist())
        assert by_hindex.value_counts(name).schema.field("count").type == pa.int64()
        for descending in (False, True):
            for nulls_first in (None, True, False):
                orders = [
                    result.order_by(name, descending=descending, nulls_first=nulls_first)
                    for result in (by_hindex, by_spark)
                ]
                values = [order.to_arrow().column(name).to_pylist() for order in orders]
                assert repr(values[0]).replace("-0.0", "0.0") == repr(values[1]).replace("-0.0", "0.0")
                assert orders[1].columns == by_hindex.columns
    if len(names) > 1:
        keys = names[::-1]
        directions = [at % 2 == 0 for at in range(len(keys))]
        by_all = [result.order_by(*keys, descending=directions) for result in (by_hindex, by_spark)]
        texts = [repr(rows.to_arrow().select(names).to_pylist()).replace("-0.0", "0.0") for rows in by_all]
        assert texts[0] == texts[1]


def test_a_result_of_spark(spark: SparkSession, place: Path) -> None:
    hx = hindex.connect(spark=spark)
    text = f"SELECT t.id, t.s, t.st, r.id FROM '{place / 'full'}' t JOIN range(5) r ON t.id = r.id WHERE r.id = 2"
    result: Any = hx.sql(text)
    assert repr(result) == (
        f"QueryResult[id: int64, s: string, st: struct<x: int32, y: string>, id: int64]({text})".replace(
            text, text if len(text) <= 200 else f"{text[:197]}..."
        )
    )
    frame = result.to_spark()
    assert frame is result.to_spark(spark)
    assert pa.table(result).column(0).to_pylist() == [2]
    with raises(ColumnError):
        result.min("id")
    with raises(ColumnError):
        result.order_by("nope")
    with raises(UnsupportedError):
        result.explain(analyze=True)
    one: Any = hx.sql("VALUES (1, 'x', named_struct('f', 3)), (2, NULL, named_struct('f', NULL))")
    assert (one.max("col3.f"), one.count("col3.f"), one.columns) == (3, 1, ["col1", "col2", "col3"])
    assert "<div>2 rows, 3 columns</div>" in one._repr_html_()


def test_show_looks_as_sparks(spark: SparkSession, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hx = hindex.connect(spark=spark)
    text = "SELECT id, flag, s, day, dec, 'a text of more than twenty characters' AS long FROM {}"
    for options in ({}, {"n": 3}, {"n": 1, "truncate": False}, {"truncate": 3}, {"n": 50, "truncate": 10}):
        result: Any = hx.sql(text.format(f"'{place / 'full'}'"))
        result.show(**options)
        output = capsys.readouterr().out
        spark.sql(text.format(f"orc.`{place / 'full'}`")).show(**options)  # type: ignore[arg-type]
        assert output.strip() == capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("SELECT id, i + 1 AS n FROM {}", "select expression 'i + 1'"),
        ("SELECT t.id FROM {} t JOIN range(3) r ON t.id = r.id", "JOIN"),
        ("SELECT id FROM {} ORDER BY length(s)", "ORDER BY of 'length(s)'"),
        ("SELECT id FROM {} WHERE i = 1 UNION SELECT 2", "UNION"),
        ("WITH q AS (SELECT * FROM {}) SELECT id FROM q", "a query that begins with WITH"),
        ("SELECT id FROM {} WHERE length(upper(repeat(s, 2))) = 2", "function repeat"),
        ("SELECT id FROM results_view", "Table 'results_view' is a view"),
    ],
)
def test_queries_that_spark_runs_report_the_cause(
    text: str, cause: str, spark: SparkSession, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW results_view AS SELECT 1L AS id")
    hx = hindex.connect(spark=spark)
    hindex_text, spark_text = (
        text.format(name) for name in (f"'{place / 'full'}'", f"orc.`{place / 'full'}`")
    )
    try:
        with caplog.at_level("INFO", logger="hindex.queries"):
            result: Any = hx.sql(hindex_text)
        assert row_texts(result.to_arrow()) == row_texts(spark.sql(spark_text).toArrow())
        explained: Any = hx.sql(f"EXPLAIN {hindex_text}")
        for explanation in (result.explain(), explained):
            assert explanation.cause.startswith(cause)
            assert str(explanation).startswith(f"Query run by Spark: {cause}")
            assert "\n" not in explanation.cause
            assert explanation.to_json()["cause"] == explanation.cause
        (line,) = [record.getMessage() for record in caplog.records if record.name == "hindex.queries"]
        assert line.startswith(f"run by Spark: {explained.cause} | ")
        assert line.endswith(f"| {shorten(hindex_text)}")
    finally:
        spark.catalog.dropTempView("results_view")
    # without a session the error names the solution
    with raises(HindexError):
        hindex.connect().sql("SELECT id, i + 1 AS n FROM 'x'")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT *\n  FROM t -- all\n\tWHERE c = 'ABC77   '", "SELECT * FROM t -- all WHERE c = 'ABC77   '"),
        ("  x\r\ny ", "x y"),
        ("x" * 400, "x" * 300 + " ..."),
    ],
)
def test_queries_in_the_log_are_one_line_with_the_blanks_of_strings(text: str, expected: str) -> None:
    assert shorten(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT c, count(*) AS n FROM stocks GROUP BY c",
        "SELECT DISTINCT v, c AS code FROM stocks",
        "SELECT k, min(c), c, v FROM stocks GROUP BY k, c, v",
        "SELECT c, v FROM stocks LIMIT 9",
    ],
)
def test_columns_keep_the_metadata_of_the_catalog(spark: SparkSession, text: str) -> None:
    """Spark pads literals that are compared with CHAR by it, and declares the columns of a new table."""
    spark.sql("CREATE TABLE stocks (k INT COMMENT 'key', c CHAR(3), v VARCHAR(5)) USING orc")
    try:
        spark.sql("INSERT INTO stocks VALUES (1, 'ab', 'x'), (1, 'ab', 'y'), (2, 'c', 'x')")
        hx = hindex.connect(spark=spark)
        hx.table("stocks").create_index("by_c", "c")
        result: Any = hx.sql(text)
        alone = spark.sql(text)
        name = "code" if "code" in alone.columns else "c"
        for frame in (result.to_spark(), result.order_by(name).to_spark()):
            # Spark's own note about columns without an alias
            kept = [
                {key: field.metadata[key] for key in field.metadata if key[:6] != "__auto"}
                for field in alone.schema
            ]
            assert [field.metadata for field in frame.schema] == kept
            filtered = frame.where(f"{name} = 'ab'").toArrow()
            assert row_texts(filtered) == row_texts(alone.where(f"{name} = 'ab'").toArrow()) != []
    finally:
        spark.sql("DROP TABLE stocks")
