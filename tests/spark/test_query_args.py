"""Arguments of queries have the same meaning as in spark.sql, whether hindex or Spark answers."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import ArgumentError, HindexError
from hindex.explanations.explanation import Explanation
from tests.support.cases import sampled
from tests.support.messages import raises
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 600)


@pytest.fixture(scope="module")
def named(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("args") / "t"
    columns = {
        "id": pa.array(range(6)),
        "i": pa.array([1, -1, 2**31 - 1, None, 0, 5], pa.int32()),
        "big": pa.array([1, -(2**63), 2**31, None, 0, 5], pa.int64()),
        "x": pa.array([1.5, float("nan"), -0.0, None, float("inf"), 5.0]),
        "d": pa.array([Decimal("1.10"), Decimal("-1.00"), None, Decimal("0.00"), None, Decimal("5.00")]),
        "s": pa.array(["it's", "a\\\\b", "' OR 1 = 1 --", None, "", ":x ?"]),
        "bin": pa.array([b"a", b"\x00\xff", b"", None, b"'", b"5"]),
        "day": pa.array(
            [MOMENT.date(), datetime.date(1900, 1, 1), None, None, None, datetime.date(2020, 1, 3)]
        ),
        "flag": pa.array([True, False, None, True, False, None]),
        "ts": pa.array([MOMENT, None, datetime.datetime(1999, 1, 1), None, None, None], pa.timestamp("us")),
    }
    write_columns(place / "1.orc", columns)
    spark.sql(f"CREATE TABLE args_table USING orc LOCATION '{place}'")
    hindex.connect(spark=spark).table("args_table").create_indexes(
        [hindex.IndexSpec(f"by_{name}", name) for name in ("id", "i", "s", "ts")]
    )
    yield "args_table"
    spark.sql("DROP TABLE args_table")


CASES: list[tuple[str, Any]] = [
    ("i = :v", {"v": -1}),
    ("i IN (:a, :b, 0) AND id >= :low", {"a": 1, "b": 2**31, "low": 0}),
    ("big = ? OR big = ?", [-(2**63), 2**31]),
    ("x = :v OR x = :w OR x > :z", {"v": float("nan"), "w": 0.0, "z": 1e300}),
    ("d = ?", [Decimal("1.1")]),
    ("d < :d AND i > :f", {"d": Decimal("2"), "f": -0.5}),
    ("s = ?", ["it's"]),
    ("s IN (?, ?, ?)", ["a\\\\b", "' OR 1 = 1 --", ":x ?"]),
    ("s LIKE :p", {"p": "it%"}),
    ("bin = ? OR bin = ?", [b"\x00\xff", b"'"]),
    ("day = :d", {"d": MOMENT.date()}),
    ("day >= :d", {"d": "2020-01-02"}),
    ("flag = ?", [True]),
    ("flag <=> :n", {"n": None}),
    ("ts = ?", [MOMENT.replace(tzinfo=datetime.UTC)]),
    ("ts < :t", {"t": MOMENT}),
    ("s = ':v' OR s = ':x ?' -- :v", {}),
    ("id - :n = 2 * :n", {"n": -1}),
]


@sampled(6)
@pytest.mark.parametrize(("where", "args"), CASES, ids=[where for where, _ in CASES])
def test_rows_are_those_of_spark(where: str, args: Any, named: str, spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    texts = [
        f"SELECT id FROM {named} WHERE {where}",
        f"SELECT t.id FROM {named} t JOIN (SELECT 1) ON true WHERE t.id >= 0 AND ({where}\n)",
        f"SELECT count(*) AS n FROM {named} WHERE {where}",
    ]
    for text in texts:
        result: Any = hx.sql(text, args)
        wanted = spark.sql(text, args).toArrow()
        assert sorted(result.to_arrow().column(0).to_pylist()) == sorted(wanted.column(0).to_pylist()), text
        assert result.to_arrow().schema == wanted.schema
    explained: Any = hx.sql(f"EXPLAIN {texts[0]}", args)
    assert isinstance(explained, Explanation) or "ts" in where
    by_spark: Any = hx.sql(f"EXPLAIN {texts[1]}", args)
    if where in ("i = :v", "s = ?"):
        assert by_spark.tables[0].is_accelerated
        assert explained.exact


def test_spark_takes_arguments_of_other_types(named: str, spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    hx = hindex.connect(spark=spark)
    result: Any = hx.sql(
        f"SELECT id FROM {named} WHERE array_contains(:v, i)", {"v": f.array(f.lit(1), f.lit(5))}
    )
    assert sorted(result.to_arrow()["id"].to_pylist()) == [0, 5]
    result = hx.sql(f"SELECT id FROM {named} WHERE i = :v", {"v": f.lit(5)})
    assert result.to_arrow()["id"].to_pylist() == [5]
    result = hx.sql("SELECT :n AS n, ':n' AS s FROM range(:m)", {"n": 7, "m": 2})
    assert result.to_arrow().to_pylist() == [{"n": 7, "s": ":n"}] * 2
    with raises(HindexError):
        hindex.connect().sql(f"SELECT id FROM {named} WHERE i = :v", {"v": {1}})


def test_mistakes_in_arguments(named: str, spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    for text in ("SELECT id FROM {} WHERE i = :v", "SELECT sum(id) FROM {} WHERE i = :v"):
        with raises(ArgumentError):
            hx.sql(text.format(named), {"w": 1})
        with raises(ArgumentError):
            hx.sql(text.format(named), {"v": 1, "w": 1})
        with raises(ArgumentError):
            hx.sql(text.format(named), [1])
    with raises(TypeError):
        hx.sql(f"SELECT id FROM {named}", "x")
    with pytest.raises(TypeError, match="Spark does not take these args: "):
        hx.sql(f"SELECT sum(id) FROM {named} WHERE i = :v", {"v": object()})
