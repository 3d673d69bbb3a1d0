"""Conditions on indexed expressions in an accelerated session: rows and schema of Spark alone."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 the usual name

import hindex
from hindex.api.table import IndexSpec
from tests.queries.comparison import compare, compare_accelerated
from tests.scan import test_element_indexes
from tests.scan.test_expression_indexes import EXPRESSIONS, evaluated, random_condition, write_file
from tests.support.cases import sampled
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("nothing_declined")

#: Of conditions on them, Spark's optimizer makes conditions on the columns.
REWRITTEN = ("CASE", "coalesce")


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("expressions")
    for number in range(2):
        write_file(path / f"{number}.orc", number, number * 1200)
    table = hindex.connect(spark=spark).table(path)
    table.create_indexes([IndexSpec(f"e{at}", text) for at, text in enumerate(EXPRESSIONS)])
    return path


@pytest.mark.parametrize(
    "condition",
    [
        "lower(s) = 'bob@x.orgx'",
        "lcase(s) LIKE 'bob%7'",
        "startswith(lower(s), 'bob')",
        "2017 = year(d)",
        "year(d) IN (2016, 2018) AND quarter(d) = 2",
        "NOT year(d) IN (2016, 2017, 2018, 2019, 2020, 2021)",
        "a % 7 + 1 = 3 AND t = 'a'",
        "q * 2 BETWEEN 1.5 AND 2.5",
        "CAST(q AS BIGINT) = 4",
        "substr(s, 2, 3) <=> NULL",
        "hour(ts) = 3 OR length(s) > 17",
        "concat(s, '/', t) = 'ann@Example.comx/b'",
        "contains(s, 'x') AND year(d) = 2017",
        "get_json_object(p, '$[''u''].id') = 'user 4'",
        "NOT get_json_object(p, '$.u.id') IN ('1', '1.5') OR get_json_object(p, '$.u.id') LIKE '2%'",
    ],
)
def test_conditions(
    spark: SparkSession, folder: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = compare_accelerated(spark.read.orc(str(folder)).where(condition), caplog)
    assert " through e" in log


@pytest.fixture(scope="module")
def lists(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elements")
    for number in range(2):
        test_element_indexes.write_file(path / f"{number}.orc", number, number * 900)
    table = hindex.connect(spark=spark).table(path)
    table.create_indexes([IndexSpec(f"e{at}", text) for at, text in enumerate(test_element_indexes.INDEXED)])
    return path


@sampled(12)
@pytest.mark.parametrize(
    "condition",
    [
        "array_contains(tags, 'red')",
        "array_contains(tags, 'red') AND array_contains(tags, '😀') AND id < 1500",
        "array_contains(ns, 8000L) OR array_contains(ns, 27L)",
        "array_contains(xs, 0.0D)",
        "array_contains(xs, double('NaN'))",
        "array_contains(ds, DATE '2024-01-09')",
        "map_contains_key(m, 'green')",
        "array_contains(map_values(m), 11)",
        "m['red'] BETWEEN 3 AND 5",
        "element_at(m, 'red') = 4",
        "NOT m['red'] IN (1, 2, 3)",
        "array_contains(qs, 1.5)",
        "exists(tags, x -> x = 'red')",
        "exists(ns, n -> 27 = n) OR exists(tags, x -> x IN ('', 'épée', 'none'))",
        "exists(xs, x -> x IN (1.5D, double('NaN')))",
        f"exists(ns, x -> x IN ({', '.join(f'{n**3}L' for n in range(40, 60))}))",
        "exists(map_values(m), v -> v = 11)",
        "array_contains(items.sku, 'sku 7')",
        "exists(items, x -> x.sku = 'sku 7')",
        "exists(items, x -> x.sku IN ('sku 7', 'sku 8')) AND id < 1500",
        "arrays_overlap(items.sku, array('sku 7', 'sku 8'))",
        "arrays_overlap(tags, array('blue', 'none', 'épée'))",
        "arrays_overlap(array(27L, 64L), ns)",
        "arrays_overlap(ds, array(DATE '2024-01-09'))",
    ],
)
def test_elements(spark: SparkSession, lists: Path, condition: str, caplog: pytest.LogCaptureFixture) -> None:
    # the rows without their maps, whose order Python does not keep
    frame = spark.read.orc(str(lists)).where(condition).drop("m")
    log = compare_accelerated(frame, caplog)
    assert " through e" in log


@pytest.mark.parametrize(
    "condition",
    [
        "NOT array_contains(tags, 'red')",
        "NOT exists(tags, x -> x = 'red')",
        "exists(tags, x -> x > 'red')",
        "exists(tags, x -> x <=> NULL)",
        "exists(ns, x -> x + 1 = 28)",
        "exists(ns, x -> x = id)",
        "exists(items, x -> x.qty = 3)",
        "exists(items, x -> x.box.id = 3)",
        "NOT array_contains(items.sku, 'sku 7')",
        "exists(tags, x -> x IN ('red', NULL))",
        "exists(tags, x -> exists(ns, y -> x = 'red'))",
        "arrays_overlap(tags, array('red', NULL))",
        "arrays_overlap(ns, array(id))",
        "arrays_overlap(tags, map_keys(m))",
        "arrays_overlap(tags, array())",
        "NOT arrays_overlap(tags, array('red'))",
        "array_contains(qs, 1)",
        "m['blue'] = 1",
    ],
)
def test_other_conditions_on_elements_stay_for_spark(
    spark: SparkSession, lists: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, log = compare(spark.read.orc(str(lists)).where(condition).select("id"), caplog)
    assert "not accelerated" in log


@pytest.mark.parametrize(
    "condition",
    ["upper(s) = 'BOB@X.ORG'", "year(ts) = 2020", "weekday(d) = 1", "get_json_object(p, '$.u') = ''"],
)
def test_other_expressions_stay_for_spark(
    spark: SparkSession, folder: Path, condition: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, log = compare(spark.read.orc(str(folder)).where(condition), caplog)
    assert "not accelerated" in log


def test_counts_come_from_the_index(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.orc(str(folder)).where("year(d) = 2018").agg(F.count("*"))
    expected = frame.collect()
    with hindex.accelerate(spark, always=True) as acceleration:
        again = spark.read.orc(str(folder)).where("year(d) = 2018").agg(F.count("*"))
        assert again.collect() == expected
        assert "through its indexes" in str(acceleration.explain(again))


def test_a_setting_of_casts_does_not_matter(
    spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without errors, a value is the same in ANSI mode and outside it."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        count, _ = compare(
            spark.read.orc(str(folder)).where("CAST(q AS BIGINT) = 4 AND a % 7 + 1 = 3"), caplog
        )
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert count


@pytest.fixture(scope="module")
def numbers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers")
    columns = {
        "a": pa.array([1, None, 9, None, 7], pa.int32()),
        "b": pa.array([1, 1, None, None, 2], pa.int32()),
        "t": pa.array([127, 1, 126, 5, None], pa.int8()),
        "f": pa.array([16777217.0, 0.1, 1, 2, None], pa.float32()),
    }
    write_columns(path / "0.orc", columns)
    texts = [
        "greatest(a, 4)",
        "CASE WHEN b > 0 THEN b ELSE a END",
        "greatest(a, b)",
        "t + 1",
        "f + 1",
        "f + 1D",
    ]
    table = hindex.connect(spark=spark).table(path)
    table.create_indexes([IndexSpec(f"e{at}", text) for at, text in enumerate(texts)])
    return path


@sampled(8)
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "condition",
    [
        # NULL in, and a value out
        "greatest(a, 4) = 4 AND a IS NOT NULL",
        "greatest(a, b) = 1 AND a IS NOT NULL",
        "greatest(a, b) = 9 AND b IS NOT NULL",
        # sums of other types than those of the index
        "t + CAST(1 AS TINYINT) = 6",
        "t + CAST(1 AS SMALLINT) = 128",
        "f + CAST(1 AS FLOAT) = 16777217",
        "t + 1 = 128",
        "f + 1 = 16777217",
    ],
)
def test_counts_of_types_and_nulls(spark: SparkSession, numbers: Path, condition: str, ansi: str) -> None:
    frame = spark.read.orc(str(numbers))
    if "TINYINT" in condition:
        # 127 + 1 is an error in ANSI mode
        frame = frame.where("t < 127")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for query in (frame.where(condition).agg(F.count("*")), frame.where(condition)):
            expected = query.collect()
            with hindex.accelerate(spark, always=True):
                assert query.where("true").collect() == expected
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.slow
def test_random_conditions(spark: SparkSession, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(17)
    frame = spark.read.orc(str(folder))
    rows = hindex.connect(spark=spark).table(folder).scan().to_arrow()
    used = 0
    for _ in range(25):
        expressions = [text for text in EXPRESSIONS if not text.startswith(REWRITTEN)]
        parts = [
            random_condition(chance, text, [*dict.fromkeys(evaluated(text, rows)), None])
            for text in chance.choices(expressions, k=chance.randint(1, 2))
        ]
        _, log = compare(frame.where(chance.choice([" AND ", " OR "]).join(parts)), caplog)
        used += " through e" in log
    assert used > 12


@pytest.mark.parametrize(
    ("query", "is_answered"),
    [
        ("SELECT year(d), count(*) FROM {t} GROUP BY year(d)", True),
        ("SELECT count(*) AS n, lower(s) AS l FROM {t} GROUP BY lower(s) HAVING n > 5 ORDER BY l", True),
        ("SELECT DISTINCT quarter(d) FROM {t} WHERE year(d) = 2018", True),
        ("SELECT y, count(*) FROM (SELECT year(d) AS y FROM {t}) WHERE y > 2017 GROUP BY y", True),
        ("SELECT get_json_object(p, '$.u.id'), count(*) FROM {t} GROUP BY 1", True),
        ("SELECT CAST(q AS BIGINT), count(*) FROM {t} GROUP BY 1", True),
        ("SELECT q * 2, count(*) FROM {t} GROUP BY 1", True),
        ("SELECT contains(s, 'x'), count(*) FROM {t} WHERE lower(s) < 'b' GROUP BY 1", True),
        ("SELECT hour(ts), count(*) FROM {t} GROUP BY 1", True),
        ("SELECT year(d), max(a) FROM {t} GROUP BY 1", False),
        ("SELECT year(d), count(*) FROM {t} WHERE a > 3 GROUP BY 1", False),
        ("SELECT upper(s), count(*) FROM {t} GROUP BY 1", False),
        ("SELECT year(d), month(d), count(*) FROM {t} GROUP BY 1, 2", False),
    ],
)
def test_groups_by_an_expression_come_from_its_index(
    spark: SparkSession, folder: Path, query: str, is_answered: bool, caplog: pytest.LogCaptureFixture
) -> None:
    _, log = compare(spark.sql(query.format(t=f"orc.`{folder}`")), caplog)
    assert bool(re.search(r" through e\d.* alone", log)) == is_answered, log


def test_groups_are_sparks_where_a_file_has_no_index_on_the_expression(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file is new, or lacks the column, whose expression has a value all the same."""
    query = "SELECT coalesce(a, 0), count(*) FROM orc.`{}` GROUP BY 1"
    for name, columns in (
        ("new", {"id": pa.array([1, 2]), "a": pa.array([5, None], pa.int32())}),
        ("lacking", {"id": pa.array([1, 2])}),
    ):
        path = tmp_path / name
        path.mkdir()
        write_file(path / "0.orc", 1, 0)
        if name == "lacking":
            write_columns(path / "1.orc", columns)
        hindex.connect(spark=spark).table(path).create_index("e0", "coalesce(a, 0)")
        if name == "new":
            assert " through e0 alone" in compare(spark.sql(query.format(path)), caplog)[1]
            write_columns(path / "1.orc", columns)
        assert "not accelerated" in compare(spark.sql(query.format(path)), caplog)[1]
