"""Spark reads the same meaning: each fixture predicate and its canonical text select the same rows there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hindex.sql import parse_predicate
from hindex.sql.predicate import columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXTURE = Path(__file__).with_name("fixtures") / "predicates.txt"
# Names of the fixture that are not columns of the table below.
_OTHERS = {"select", "a`b", "1a", "date"}
# Spark raises an error for these, on these rows.
_RAISING = {
    "a = 2147483647 + 1",
    "'a' = 1",
    "double(s) > double('nan')",
    "to_date(s) = d",
    "CAST('x' AS INT) = a",
}


def _pairs() -> list[tuple[str, str]]:
    pairs = []
    for line in FIXTURE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#") and " => error: " not in line:
            text = line.rsplit(" => ", 1)[0]
            parsed = parse_predicate(text)
            if text not in _RAISING and not {column.name for column in columns(parsed)} & _OTHERS:
                pairs.append((text, str(parsed)))
    return pairs


def test_same_rows(spark: SparkSession) -> None:
    numbers = "(NULL), (-3), (-2), (-1), (0), (1), (2), (3), (5), (7)"
    texts = "(NULL), (''), ('x'), ('xy'), ('_%'), ('%x!%'), ('it\\'s'), ('ab'), ('a\\'b\\\\c\\nd')"
    table = f"""
        SELECT a, b, s, a % 3 = 0 AS flag,
               CASE a WHEN 7 THEN double('nan') WHEN 5 THEN double('inf') ELSE a * 0.5D END AS x,
               date_add(DATE '2020-01-01', b) AS d,
               TIMESTAMP '2020-01-02 03:04:05.678' + make_interval(0, 0, 0, b) AS t, unhex(s) AS bin,
               named_struct('f', a, 'g', named_struct('h', b), 'm', map('k', a)) AS r, map('k', a, 'x', b) AS m,
               array(a, b) AS l
        FROM (VALUES {numbers}) AS p(a) CROSS JOIN (VALUES {numbers}) AS q(b)
             CROSS JOIN (VALUES {texts}) AS v(s)
    """
    pairs = _pairs()
    assert len(pairs) > 100
    spark.sql(table).createOrReplaceTempView("sql_fixture")
    rows: dict[str, int] = {}
    try:
        differing = ", ".join(
            f"count_if(NOT (({text}\n) <=> ({canonical}))) AS c{number}, count_if({canonical}) AS n{number}"
            for number, (text, canonical) in enumerate(pairs)
        )
        rows = spark.sql(f"SELECT {differing} FROM sql_fixture").first().asDict()  # type: ignore[union-attr]
    finally:
        spark.catalog.dropTempView("sql_fixture")
    wrong = [pair for number, pair in enumerate(pairs) if rows[f"c{number}"]]
    assert wrong == []
    # A table on which everything is false would prove little.
    assert sum(rows[f"n{number}"] > 0 for number in range(len(pairs))) > len(pairs) // 2
