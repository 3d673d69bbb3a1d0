"""Queries that Spark runs on indexed tables return the rows of Spark alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.errors import StatementError
from hindex.explanations.explanation import Explanation
from hindex.queries import selectivity
from hindex.queries.decisions import QueryExplanation
from hindex.queries.query_execution import explain_query, run_query
from hindex.queries.query_plan import plan_query
from hindex.sql.queries import parse_query
from tests.support.cases import cases, sampled
from tests.support.messages import raises
from tests.support.queries import ROWS, compare, rows
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")

#: Queries, and a sign for each of their tables, in order: ``+`` if hindex reads it through indexes.
QUERIES: list[tuple[str, str]] = [
    ("SELECT a, count(*) FROM qt WHERE a > 15 GROUP BY a", "+"),
    ("SELECT qt.id, x FROM qt JOIN qu ON a = k WHERE s = 's3' AND x = 2", "++"),
    ("SELECT * FROM qt t LEFT JOIN qu u ON t.a = u.k AND u.x = 1 AND t.b = 2", "-+"),
    ("SELECT * FROM qt t LEFT JOIN qu u ON t.a = u.k WHERE u.x IS NULL AND t.b = 2", "+-"),
    ("SELECT * FROM qt t FULL JOIN qu u ON t.a = u.k AND t.a = 3 WHERE u.x = 1", "-+"),
    ("SELECT * FROM qt t FULL JOIN qu u ON t.a = u.k WHERE u.x IS NULL AND t.b = 2", "+-"),
    ("SELECT * FROM qt t LEFT ANTI JOIN qu u ON t.a = u.k AND u.x = 1 AND t.b = 3", "-+"),
    ("SELECT id FROM qt WHERE a IN (SELECT k FROM qu WHERE x = 3) AND b = 1", "++"),
    ("SELECT id FROM qt WHERE a NOT IN (SELECT k FROM qu WHERE x = 3) AND b = 1", "++"),
    ("SELECT id FROM qt o WHERE b = 1 AND a > (SELECT avg(k) FROM qu WHERE x = o.b AND b = 2)", "++"),
    ("WITH w AS (SELECT * FROM qt) SELECT * FROM w p JOIN w q ON p.id = q.id WHERE p.a = 3 AND q.b = 1", "-"),
    ("SELECT * FROM (SELECT a, max(id) AS m FROM qt GROUP BY a) WHERE a = 5", "-"),
    ("SELECT *, rank() OVER (PARTITION BY b ORDER BY id) FROM qt WHERE a = 5", "+"),
    ("SELECT * FROM (SELECT *, rank() OVER (PARTITION BY b ORDER BY id) AS r FROM qt) WHERE a = 5", "-"),
    ("SELECT id FROM qt WHERE a = 1 UNION SELECT x FROM qu WHERE b = 2 EXCEPT SELECT z FROM qv", "++-"),
    ("SELECT * FROM (SELECT id, a FROM qt ORDER BY id LIMIT 7) WHERE a = 5", "-"),
    ("SELECT id FROM qt WHERE a = 5 ORDER BY id DESC LIMIT 3 OFFSET 1", "+"),
    ("SELECT * FROM qt JOIN qv USING (a) WHERE b = 1", "+-"),
    ("SELECT count(*) FROM (SELECT 1 FROM qt WHERE b = 2)", "+"),
    ("SELECT * FROM qt t JOIN qu u ON (t.a = 1 AND u.x = 1) OR (t.a = 2 AND u.x = 2)", "++"),
    ("SELECT b, s, sum(id) FROM qt WHERE a < 9 GROUP BY CUBE (b, s) HAVING sum(id) > 100", "+"),
    ("SELECT default.qt.id FROM default.qt WHERE a = 3", "-"),
    ("SELECT spark_catalog.default.qt.id FROM spark_catalog.default.qt WHERE a = 3", "-"),
    ("SELECT QT.ID, '{x}' AS `{y}` FROM default.QT WHERE A = 3", "+"),
    ("SELECT id FROM qt WHERE a = '3' AND s <=> NULL", "+"),
    ("SELECT spark_partition_id() >= 0, id FROM qt WHERE a = 3", "-"),
    ("SELECT id, t.n FROM qt LATERAL VIEW explode(array(a, b)) t AS n WHERE a = 3", "+"),
    # with another column, or with EXCEPT, the star stands for all columns
    ("SELECT count(*, a), count(*) FROM qt WHERE a = 3", "+"),
    ("SELECT count(* EXCEPT (s)) FROM qt WHERE a = 3", "+"),
    ("SELECT `input_file_name`() <> '', id FROM qt WHERE a = 3", "-"),
    ("SELECT id FROM qt WHERE a = 3 AND `_metadata`.file_size > 0", "-"),
    ("WITH qt AS (SELECT * FROM qt WHERE a = 3) SELECT count(id) FROM qt WHERE b = 1", "+"),
    ("TABLE qv", ""),
    ("VALUES (1), (2)", ""),
]


@sampled(17)
@pytest.mark.parametrize(("text", "read"), QUERIES, ids=[text for text, _ in QUERIES])
def test_answers_are_those_of_spark(text: str, read: str, tables: hindex.Connection) -> None:
    explained = compare(tables, text)
    assert "".join("+" if item.is_accelerated else "-" for item in explained.tables) == read, str(explained)


_SIDES = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def random_condition(rng: random.Random, names: list[str]) -> str:
    leaf = [
        lambda n: f"{n} = {rng.randrange(4)}",
        lambda n: f"{n} > {rng.randrange(8)}",
        lambda n: f"{n} IS NULL",
        lambda n: f"{n} IS NOT NULL",
        lambda n: f"{n} <=> {rng.choice(['NULL', '2'])}",
        lambda n: f"{n} NOT IN (1, {rng.choice(['NULL', '2'])})",
        lambda n: f"{n} = {rng.choice(names)}",
    ]

    def make(depth: int) -> str:
        if depth and rng.random() < 0.6:
            word = rng.choice([" AND ", " OR "])
            return "(" + word.join(make(depth - 1) for _ in range(2)) + ")"
        text = rng.choice(leaf)(rng.choice(names))
        return f"NOT ({text})" if rng.random() < 0.2 else text

    return " AND ".join(make(2) for _ in range(rng.randrange(1, 4)))


def random_query(rng: random.Random) -> str:
    columns = {"t": ["t.a", "t.b"], "u": ["u.x", "u.b", "u.k"], "v": ["v.a", "v.b", "v.id"]}
    on = {"u": "t.a = u.k", "v": rng.choice(["t.a = v.a", "t.b = v.b AND t.a = v.a"])}
    visible, text = ["t"], "qt t"
    hidden: set[str] = set()
    for name, table in (("u", "qu"), ("v", "qt")):
        side = rng.choice(_SIDES)
        names = [c for n in (*visible, name) for c in columns[n]]
        more = f" AND {random_condition(rng, names)}" if rng.random() < 0.6 else ""
        if rng.random() < 0.3:
            table = f"(SELECT * FROM {table} {name} WHERE {random_condition(rng, columns[name])})"
        text += f" {side} {table} {name} ON {on[name]}{more}"
        if "SEMI" in side or "ANTI" in side:
            hidden.add(name)
        else:
            visible.append(name)
    names = [c for n in visible for c in columns[n]]
    shown = ", ".join(f"{c} AS c{i}" for i, c in enumerate(names))
    query = f"SELECT {shown} FROM {text} WHERE {random_condition(rng, names)}"
    if rng.random() < 0.3:
        outer = random_condition(rng, [f"c{i}" for i in range(len(names))])
        query = f"WITH w AS ({query}) SELECT count(*), sum(c0), count(c1) FROM w WHERE {outer}"
    return query


@pytest.mark.slow
def test_random_queries(tables: hindex.Connection, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(2**32)))
    accelerated = number = 0
    # a few random queries may all be without use of an index
    while number < cases(4, 40) or (not accelerated and number < 100):
        number += 1
        text = random_query(chance)
        print(text)
        explained = compare(tables, text)
        accelerated += sum(item.is_accelerated for item in explained.tables)
    assert accelerated


def test_results_of_sql(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "SELECT t.id, u.x FROM qt t JOIN qu u ON t.a = u.k WHERE t.s = 's3'"
    views = spark.sql("SHOW VIEWS").collect()
    result = tables.sql(text)
    assert rows(result.to_spark()) == rows(spark.sql(text))  # type: ignore[union-attr]
    # hindex answers a query of one table's rows without Spark
    assert isinstance(tables.sql("SELECT id FROM qt WHERE a = 3").explain(), Explanation)  # type: ignore[union-attr]
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.01)
    explained = tables.sql(f"EXPLAIN {text}")
    assert isinstance(explained, QueryExplanation)
    wide, other = explained.tables
    assert wide.predicate == "s = 's3' AND a IS NOT NULL"
    assert wide.because.startswith("NOT_SELECTIVE: ")
    assert wide.rows is not None
    assert wide.rows.total == ROWS
    assert other.predicate == "k IS NOT NULL"
    assert explained.to_json()["tables"][0]["reason"] == "NOT_SELECTIVE"  # type: ignore[index]
    assert "Table qt: by Spark alone" in str(explained)
    # hindex drops its own views
    assert spark.sql("SHOW VIEWS").collect() == views


@pytest.mark.parametrize(
    ("text", "at", "is_by_hindex"),
    [
        ("SELECT a AS b, b FROM qt GROUP BY a, b ORDER BY b", 1, False),
        ("SELECT a, b AS a FROM qt GROUP BY a, b ORDER BY a DESC", 0, False),
        ("SELECT a AS b, b FROM qt ORDER BY b", 1, False),
        ("SELECT a AS b, b AS c FROM qt GROUP BY a, b ORDER BY b", 0, True),
        ("SELECT a, A, b FROM qt GROUP BY a, b ORDER BY a DESC", 0, True),
        ("SELECT DISTINCT a AS x, b FROM qt ORDER BY X", 0, True),
    ],
)
def test_an_order_by_a_name_that_several_columns_have(
    text: str, at: int, is_by_hindex: bool, tables: hindex.Connection
) -> None:
    result: Any = tables.sql(text)
    assert isinstance(result.explain(), Explanation) == is_by_hindex
    actual, expected = result.to_arrow(), tables.spark().sql(text).toArrow()
    assert actual.column(at).to_pylist() == expected.column(at).to_pylist()
    listed = [
        sorted(map(repr, zip(*(c.to_pylist() for c in t.columns), strict=True))) for t in (actual, expected)
    ]
    assert listed[0] == listed[1]


def test_paths_and_their_columns(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    for number, column in enumerate(("b", "c")):
        write_columns(tmp_path / "t" / f"{number}.orc", {"a": pa.array([1, 2]), column: pa.array([3, 4])})
    path = tmp_path / "t"
    tables.table(str(path)).create_index("i", "a")
    text = "SELECT count(*), max(p.a) FROM {} p, qv WHERE p.a = 2"
    query = parse_query(text.format(f"'{path}'"))
    assert query is not None
    explained = explain_query(tables, query)
    # Spark takes the columns of an arbitrary file
    assert (
        explained.tables[0].detail
        == "its files have different columns, and Spark reads only the columns of one file"
    )
    assert rows(run_query(tables, query)) == rows(spark.sql(text.format(f"orc.`{path}`")))
    (path / "1.orc").unlink()
    assert explain_query(tables, query).tables[0].is_accelerated
    assert rows(run_query(tables, query)) == rows(spark.sql(text.format(f"orc.`{path}`")))


def test_paths_are_not_patterns(tables: hindex.Connection, tmp_path: Path) -> None:
    """Spark reads the table of that name, and not the tables that match a pattern or format field."""
    for at, name in enumerate(("g1", "g[1]", "g{1}")):
        write_columns(tmp_path / name / "1.orc", {"id": pa.array([1, 2]), "k": pa.array([10**at] * 2)})
    for name, where, wanted, marks in (
        ("g[1]", "p.id = 2", 10, "-+"),
        ("g[1]", "p.id + 0 = 2", 10, "-+"),
        ("g{1}", "p.id + 0 = 2", 100, "-+"),
    ):
        query = parse_query(f"SELECT max(p.k) FROM '{tmp_path / name}' p JOIN qt ON qt.a = 3 WHERE {where}")
        assert query is not None
        planned = plan_query(tables, query)
        assert "".join("-" if item.scan is None else "+" for item in planned) == marks
        assert run_query(tables, query).collect()[0][0] == wanted
    hidden = tmp_path / "h" / "_x.orc"
    write_columns(hidden, {"id": pa.array([1])})
    tables.table(str(hidden)).create_index("i", "id")
    with pytest.raises(StatementError, match=r"^\["):
        tables.sql(f"SELECT sum(id) + 0 FROM '{hidden}' WHERE id = 1")


def test_a_file_that_spark_has_not_seen(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """No result mixes the files of two listings, and hindex does not make Spark cache one."""

    def run(text: str) -> tuple[list[tuple[int, ...]], str]:
        query = parse_query(text)
        assert query is not None
        marks = "".join("+" if item.is_accelerated else "-" for item in explain_query(tables, query).tables)
        return [tuple(row) for row in run_query(tables, query).collect()], marks

    def add(number: int) -> None:
        columns = {"id": pa.array([number], pa.int64()), "a": pa.array([1], pa.int64())}
        write_columns(tmp_path / f"{number}.orc", columns)

    add(1)
    spark.sql(f"CREATE TABLE seen (id BIGINT, a BIGINT) USING orc LOCATION '{tmp_path}'")
    try:
        tables.table("seen").create_index("i", "a")
        assert run("SELECT count(*), sum(id) FROM seen WHERE a = 1 AND id + 1 > 0") == ([(1, 1)], "+")
        add(2)
        # Spark has not listed the files before
        assert spark.sql("SELECT count(*) FROM seen").collect()[0][0] == 2
        add(3)
        # now it has: both sides read its old listing, or both the current files
        left = "SELECT count(*), count(q.id) FROM seen p LEFT JOIN {} q ON p.id = q.id WHERE p.a = 1"
        assert run(left.format("seen")) == ([(2, 2)], "--")
        assert run(left.format("SEEN")) == ([(2, 2)], "--")
        assert run("SELECT count(*), count(q.id) FROM seen p, seen q WHERE p.a = 1 AND q.a = 1") == (
            [(9, 9)],
            "++",
        )
        spark.sql("CREATE VIEW seen_view AS SELECT * FROM seen")
        assert run(left.format("seen_view")) == ([(3, 3)], "+-")
    finally:
        spark.sql("DROP VIEW IF EXISTS seen_view")
        spark.sql("DROP TABLE seen")


def test_names_are_resolved_in_the_current_database(spark: SparkSession, tmp_path: Path) -> None:
    for database in ("one", "two"):
        place = tmp_path / database
        place.mkdir()
        write_columns(place / "1.orc", {"id": pa.array(range(9), pa.int64())})
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"CREATE TABLE {database}.t USING orc LOCATION '{place}'")
        hindex.connect(spark=spark).table(str(place)).create_index("by_id", "id")
    current = spark.catalog.currentDatabase()
    try:
        hx = hindex.connect(spark=spark)
        spark.catalog.setCurrentDatabase("one")
        assert hx.sql("SELECT sum(id) AS n FROM t WHERE id = 3").max("n") == 3  # type: ignore[union-attr]
        spark.catalog.setCurrentDatabase("two")
        hx.sql("DROP INDEX by_id")
        left = {name for name in ("one", "two") if hindex.connect().table(str(tmp_path / name)).indexes()}
        assert left == {"two"}
        # a table created again at another location is another table
        hx = hindex.connect(spark=spark)
        hx.sql("SELECT sum(id) AS n FROM one.t WHERE id = 3")
        spark.sql("DROP TABLE one.t")
        spark.sql(f"CREATE TABLE one.t USING orc LOCATION '{tmp_path / 'two'}'")
        with raises(StatementError):
            hx.sql("DROP INDEX by_id")
        assert hx.table(str(tmp_path / "two")).has_index("by_id")
    finally:
        spark.catalog.setCurrentDatabase(current)
        for database in ("one", "two"):
            spark.sql(f"DROP DATABASE {database} CASCADE")


def test_a_view_has_the_files_of_its_table(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark remembers the files of a table, and a query may name it and a view of it."""

    def add(number: int) -> None:
        ids = range(50 * number, 50 * number + 50)
        values = {"id": pa.array(ids, pa.int64()), "a": pa.array([at % 5 for at in ids], pa.int64())}
        write_columns(tmp_path / "t" / f"{number}.orc", values)

    add(0)
    spark.sql(f"CREATE TABLE viewed (id BIGINT, a BIGINT) USING orc LOCATION '{tmp_path / 't'}'")
    spark.sql("CREATE VIEW of_viewed AS SELECT id FROM viewed")
    try:
        tables.table("viewed").create_index("by_a", "a")
        query = parse_query(
            "SELECT count(*) AS n FROM viewed t JOIN of_viewed v ON t.id = v.id WHERE t.a = 3"
        )
        assert query is not None
        for number in (1, 2):
            assert run_query(tables, query).collect()[0]["n"] == 10 * number
            assert [item.is_accelerated for item in explain_query(tables, query).tables] == [True, False]
            add(number)
    finally:
        spark.sql("DROP VIEW of_viewed")
        spark.sql("DROP TABLE viewed")
