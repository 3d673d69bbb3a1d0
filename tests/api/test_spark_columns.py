"""PySpark's columns are read as the predicates they are."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

import hindex
from hindex.api.predicate_input import parse_condition
from hindex.errors import HindexError, PredicateError
from hindex.sql import parse_predicate
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_columns_of_pyspark(spark: SparkSession) -> None:
    c = f.col
    cases: list[tuple[Any, str]] = [
        (c("a") > 20, "a > 20"),
        (f.lit(20) > c("a"), "a < 20"),
        ((c("a") == 1) & (c("s") == "x'y") | ~c("flag"), "a = 1 AND s = 'x\\'y' OR NOT flag"),
        (c("a") != 1, "NOT a = 1"),
        (c("r.g.h").isNull(), "r.g.h IS NULL"),
        (c("a").isNotNull(), "a IS NOT NULL"),
        (c("`a.b`") == 1, "`a.b` = 1"),
        (c("s").like("a%"), "s LIKE 'a%'"),
        (c("s").rlike("^a"), "s RLIKE '^a'"),
        (c("s").startswith("x"), "startswith(s, 'x')"),
        (c("a").isin(1, 2), "a IN (1, 2)"),
        (c("a").between(1, c("b")), "a BETWEEN 1 AND b"),
        (c("a").eqNullSafe(f.lit(None)), "a <=> NULL"),
        (c("d") == datetime.date(2020, 1, 1), "d = DATE '2020-01-01'"),
        (c("t") > datetime.datetime(2020, 1, 1, 1, 2, 3, 5), "t > TIMESTAMP '2020-01-01 01:02:03.000005'"),
        (c("x") == 1.5, "x = 1.5D"),
        (c("x") == Decimal("1.50"), "x = 1.50"),
        (c("bin") == bytearray(b"x"), "bin = X'78'"),
        (f.lower("s") == "x", "lower(s) = 'x'"),
        (c("s").substr(1, 2) == "x", "substring(s, 1, 2) = 'x'"),
        (c("a") % 2 + 1 == -c("b"), "a % 2 + 1 = -b"),
        (
            c("a").cast("decimal(10,2)") > c("b").cast("bigint"),
            "CAST(a AS DECIMAL(10, 2)) > CAST(b AS BIGINT)",
        ),
        (c("s").try_cast("int") == 1, "TRY_CAST(s AS INT) = 1"),
        (f.when(c("a") > 1, 1).otherwise(2) == 1, "CASE WHEN a > 1 THEN 1 ELSE 2 END = 1"),
        (f.expr("a + 1 > 2 AND s LIKE 'x%'"), "a + 1 > 2 AND s LIKE 'x%'"),
        ((c("flag")).alias("q"), "flag"),
        (spark.range(1)["id"] == 1, "id = 1"),
    ]
    for column, text in cases:
        assert parse_condition(column) == parse_predicate(text), text
    refused: list[Any] = [f.udf(lambda value: value)("a") == 1, f.rand() > 0.5, f.lit("x")]
    for column in refused:
        with raises(PredicateError):
            parse_condition(column)


def test_long_and_deep_columns() -> None:
    terms = [f.col("a") == n for n in range(700)]
    for combined, word in ((reduce(or_, terms), " OR "), (reduce(and_, terms), " AND ")):
        assert str(parse_condition(combined)) == word.join(f"a = {n}" for n in range(700))
    with raises(PredicateError):
        parse_condition(reduce(lambda column, _: ~column, range(1500), f.col("a") == 1))


def test_columns_of_spark_connect_are_refused() -> None:
    class Column:
        __module__ = "pyspark.sql.connect.column"

    with raises(PredicateError):
        parse_condition(Column())  # type: ignore[arg-type]


def test_none_in_conditions_is_the_null_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """By rows, as each negation of them and what stands beside them decides which there are."""
    frame = spark.createDataFrame(
        [(1, None, True), (2, 2, None), (3, 5, False), (4, 4, True), (5, None, None), (6, 3, False)],
        "id int, a int, flag boolean",
    )
    frame.coalesce(1).write.orc(str(tmp_path / "t"))
    table = hindex.connect().table(str(tmp_path / "t"))
    null: Any = f.lit(None)
    theirs: Any = f.col("a")
    ours = hindex.col("a")
    pairs: list[tuple[Any, Any]] = [
        (ours.between(None, 3), theirs.between(null, 3)),
        (ours.between(3, None), theirs.between(3, null)),
        (ours.between(None, None), theirs.between(null, null)),
        (ours.isin(2, None), theirs.isin(2, None)),
        (ours.isin(None), theirs.isin(None)),
        (ours.isin([None, 4]), theirs.isin([None, 4])),
        (ours.eq_null_safe(None), theirs.eqNullSafe(null)),
        (ours == hindex.lit(None), theirs == null),
        (ours != hindex.lit(None), theirs != null),
        (ours < hindex.lit(None), theirs < null),
    ]
    flag = hindex.col("flag")
    their_flag: Any = f.col("flag")
    pairs += [
        (flag & None, their_flag & null.cast("boolean")),
        (flag | None, their_flag | null.cast("boolean")),
        (None | ~flag, null.cast("boolean") | ~their_flag),
    ]
    shapes: list[Callable[[Any, Any], Any]] = [
        lambda c, _: c,
        lambda c, _: ~c,
        lambda c, other: ~c & other,
        lambda c, other: c | other,
        lambda c, other: ~(c | other),
        lambda c, other: ~(~c & other),
    ]
    kept = set()
    for mine, spark_column in pairs:
        for combine in shapes:
            condition = combine(mine, flag)
            expected = sorted(row.id for row in frame.where(combine(spark_column, their_flag)).collect())
            for where in (condition, str(condition), combine(spark_column, their_flag)):
                result = table.scan(where, ["id"]).to_arrow()["id"].to_pylist()
                assert sorted(result) == expected, str(condition)
            kept.update(expected)
    assert kept == {1, 2, 3, 4, 5, 6}
    assert table.scan(~ours.between(None, 3), ["id"]).to_arrow()["id"].to_pylist() == [3, 4]


def test_columns_of_pyspark_where_they_have_no_place(spark: SparkSession, tmp_path: Path) -> None:
    """They look like a collection, and cannot be asked what is in them."""
    spark.range(3).coalesce(1).write.orc(str(tmp_path / "t"))
    table: Any = hindex.connect().table(tmp_path / "t")
    column: Any = hindex.col("a")
    cases: list[Any] = [
        lambda: table.scan(columns=f.col("id")),
        lambda: table.scan(columns=[f.col("id")]),
        lambda: column.isin(f.col("b")),
        lambda: column == f.col("b"),
        lambda: table.check_indexes(f.col("b")),
    ]
    for use in cases:
        with raises(HindexError):
            use()
    assert table.scan(f.col("id") > 1).count() == 1
