"""Queries that Spark runs on tables with indexes: the answers are those of Spark alone."""

from __future__ import annotations

import json
import os
import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
import hindex.tables
from hindex import connection
from hindex.errors import StatementError, TableError, UnsupportedError
from hindex.scan.running import Runner
from hindex.spark import agreement, catalog, partitions, query_plan
from hindex.spark.queries import QueryExplanation, explain_query, run_query
from hindex.spark.query_plan import plan_query
from hindex.spark.session import has_own_settings
from hindex.spark.settings import is_ansi, is_set
from hindex.sql.queries import parse_query
from tests.acid.writing import bucket_property, write_acid
from tests.support.queries import ROWS, compare, counted, rows
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("always")

#: A query, and which of its tables are read through indexes, in order.
QUERIES: list[tuple[str, str]] = [
    ("SELECT a, count(*) FROM qt WHERE a > 15 GROUP BY a", "+"),
    ("SELECT qt.id, x FROM qt JOIN qu ON a = k WHERE s = 's3' AND x = 2", "++"),
    ("SELECT * FROM qt t LEFT JOIN qu u ON t.a = u.k AND u.x = 1 AND t.b = 2", "-+"),
    ("SELECT * FROM qt t LEFT JOIN qu u ON t.a = u.k WHERE u.x IS NULL AND t.b = 2", "+-"),
    ("SELECT * FROM qt t FULL JOIN qu u ON t.a = u.k AND t.a = 3 WHERE u.x = 1", "-+"),
    ("SELECT * FROM qt t LEFT ANTI JOIN qu u ON t.a = u.k AND u.x = 1 AND t.b = 3", "-+"),
    ("SELECT id FROM qt WHERE a IN (SELECT k FROM qu WHERE x = 3) AND b = 1", "++"),
    ("SELECT id FROM qt WHERE a NOT IN (SELECT k FROM qu WHERE x = 3) AND b = 1", "++"),
    ("SELECT id FROM qt o WHERE b = 1 AND a > (SELECT avg(k) FROM qu WHERE x = o.b AND b = 2)", "++"),
    ("WITH w AS (SELECT * FROM qt) SELECT * FROM w p JOIN w q ON p.id = q.id WHERE p.a = 3 AND q.b = 1", "+"),
    ("SELECT * FROM (SELECT a, max(id) AS m FROM qt GROUP BY a) WHERE a = 5", "+"),
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
    # beside another column, and cut, the star is of all columns
    ("SELECT count(*, a), count(*) FROM qt WHERE a = 3", "+"),
    ("SELECT count(* EXCEPT (s)) FROM qt WHERE a = 3", "+"),
    ("SELECT `input_file_name`() <> '', id FROM qt WHERE a = 3", "-"),
    ("SELECT id FROM qt WHERE a = 3 AND `_metadata`.file_size > 0", "-"),
    ("WITH qt AS (SELECT * FROM qt WHERE a = 3) SELECT count(id) FROM qt WHERE b = 1", "+"),
    ("TABLE qv", ""),
    ("VALUES (1), (2)", ""),
]


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


def test_random_queries(tables: hindex.Connection) -> None:
    seed = int(os.environ.get("HINDEX_TEST_SEED", random.randrange(2**32)))
    print(f"HINDEX_TEST_SEED={seed}")
    rng = random.Random(seed)
    accelerated = 0
    for _ in range(int(os.environ.get("HINDEX_CASES", "6"))):
        text = random_query(rng)
        print(text)
        explained = compare(tables, text)
        accelerated += sum(item.is_accelerated for item in explained.tables)
    assert accelerated


def test_what_sql_returns(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "SELECT t.id, u.x FROM qt t JOIN qu u ON t.a = u.k WHERE t.s = 's3'"
    found = tables.sql(text)
    assert rows(found) == rows(spark.sql(text))  # type: ignore[arg-type]
    # a table's rows alone are a scan still
    assert isinstance(tables.sql("SELECT id FROM qt WHERE a = 3"), hindex.Scan)
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.01)
    explained = tables.sql(f"EXPLAIN {text}")
    assert isinstance(explained, QueryExplanation)
    wide, none = explained.tables
    assert wide.predicate == "s = 's3'"
    assert wide.reason is not None
    assert wide.reason.startswith("NOT_SELECTIVE")
    assert wide.rows is not None
    assert wide.rows.total == ROWS
    assert (none.predicate, none.reason) == (None, "no condition of the query is on its columns alone")
    assert explained.to_json()["tables"][0]["reason"] == wide.reason  # type: ignore[index]
    assert "Table qt: by Spark alone" in str(explained)
    # views are gone
    assert [view.name for view in spark.catalog.listTables() if view.isTemporary] == []


@pytest.mark.parametrize(
    ("text", "at", "is_here"),
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
    text: str, at: int, is_here: bool, tables: hindex.Connection
) -> None:
    found: Any = tables.sql(text)
    assert isinstance(found, pa.Table) == is_here
    mine, theirs = (found if is_here else found.toArrow()), tables.spark().sql(text).toArrow()
    assert mine.column(at).to_pylist() == theirs.column(at).to_pylist()
    listed = [
        sorted(map(repr, zip(*(c.to_pylist() for c in t.columns), strict=True))) for t in (mine, theirs)
    ]
    assert listed[0] == listed[1]


def test_a_query_asks_for_each_table_once(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    described, listed = (
        counted(monkeypatch, connection, "describe_for_query"),
        counted(monkeypatch, hindex.tables, "take_snapshot"),
    )
    text = "SELECT * FROM qt p, qt q, qu, qv v WHERE p.a = 3 AND q.a = 4 AND qu.b = p.b AND v.a = p.a"
    query = parse_query(text)
    assert query is not None
    run_query(tables, query)
    # qu has no condition of its own, and qv no index: neither is listed with what is in it
    assert (len(described), len(listed)) == (3, 1)


def test_tables_that_are_too_small(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of indexes where Spark is done before."""
    asked = counted(monkeypatch, Runner, "answer")
    monkeypatch.setattr(query_plan, "MIN_VALUES", 2 * ROWS + 1)
    text = "SELECT sum(id) FROM qt WHERE {} = 3"
    (few,) = compare(tables, text.format("a")).tables
    assert few.reason == f"TOO_SMALL: Spark reads 2 columns of {ROWS} rows sooner"
    assert not asked
    monkeypatch.setattr(query_plan, "MIN_VALUES", 2 * ROWS)
    assert compare(tables, text.format("a")).tables[0].is_accelerated
    assert asked


def test_indexes_are_asked_until_too_many_rows_are_left(
    tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = counted(monkeypatch, Runner, "answer")
    query = parse_query("SELECT sum(id) FROM qt WHERE a >= 0")
    assert query is not None
    run_query(tables, query)
    # both files once: what they said serves for reading too
    assert len(asked) == 2
    asked.clear()
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.1)
    (found,) = explain_query(tables, query).tables
    assert found.reason == "NOT_SELECTIVE: more than 10.0% of the rows may match"
    assert len(asked) == 1
    assert found.rows is not None
    assert 0.6 * ROWS < (found.rows.kept or 0) < ROWS == found.rows.total


def test_files_of_partitions_are_compared_only_if_they_are_read(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compared = counted(monkeypatch, partitions, "_input_files")
    spark.sql(f"CREATE TABLE parted (a INT, b INT, p INT) USING orc PARTITIONED BY (p) LOCATION '{tmp_path}'")
    try:
        spark.sql("INSERT INTO parted SELECT id % 2, id, 1 FROM range(10)")
        tables.table("parted").create_index("i", "a")
        for share, least, times in ((1.0, 1000, 0), (0.1, 0, 0), (1.0, 0, 1)):
            monkeypatch.setattr(query_plan, "MAX_SHARE", share)
            monkeypatch.setattr(query_plan, "MIN_VALUES", least)
            compared.clear()
            query = parse_query("SELECT sum(b) FROM parted WHERE a = 1")
            assert query is not None
            assert run_query(tables, query).collect()[0][0] == 25
            assert len(compared) == times
    finally:
        spark.sql("DROP TABLE parted")


def test_whoever_watches_over_the_session_sees_what_is_done_to_a_table(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The short lookup is of queries: statements about indexes ask in full, also about tables of earlier queries."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2, 3]), "a": pa.array([1, 2, 3])})
    tables.table(str(tmp_path)).create_index("watched", "a")
    spark.sql(f"CREATE TABLE guarded USING orc LOCATION '{tmp_path}'")

    def refused(*_: object) -> object:
        raise TableError("no privilege")

    try:
        hx = hindex.connect(spark=spark)
        with monkeypatch.context() as patch:
            for module in (catalog, agreement):
                patch.setattr(module, "run", refused)
            query = parse_query("SELECT count(*) FROM guarded WHERE a = 3")
            assert query is not None
            (found,) = explain_query(hx, query).tables
            assert (found.reason, found.rows) == ("no privilege", None)
            # it is Spark's then, which has its own say
            assert run_query(hx, query).collect()[0][0] == 1
            for text in (
                "DROP INDEX watched ON guarded",
                "SHOW INDEXES ON guarded",
                "SELECT id FROM guarded WHERE a = 3",
            ):
                with pytest.raises(TableError, match=r"^no privilege$"):
                    hx.sql(text)
            with pytest.raises(TableError, match=r"^no privilege$"):
                hx.table("guarded")
            for text in ("DROP INDEX watched", "SHOW INDEXES"):
                with pytest.raises(TableError, match=r"^no privilege$"):
                    hx.sql(text)
        assert tables.table(str(tmp_path)).has_index("watched")
        shown: Any = hx.sql("SHOW INDEXES")
        assert shown.column("name").to_pylist() == ["watched"]
    finally:
        spark.sql("DROP TABLE guarded")


def test_the_session_that_is_asked(tables: hindex.Connection, spark: SparkSession) -> None:
    """Its settings count, and the one that was active stays so."""
    sessions: Any = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    name = "spark.sql.ansi.doubleQuotedIdentifiers"
    active = sessions.getActiveSession().get()
    other: Any = spark.newSession()._jsparkSession
    statement = 'DESCRIBE TABLE EXTENDED "qt" AS JSON'
    assert catalog._value_inside(spark, statement) is None
    spark.conf.set(name, "true")
    try:
        sessions.setActiveSession(other)
        found = catalog._value_inside(spark, statement)
        assert found is not None
        assert json.loads(found)["table_name"] == "qt"
        assert sessions.getActiveSession().get().equals(other)
        sessions.clearActiveSession()
        assert catalog._value_inside(spark, statement) == found
        assert not sessions.getActiveSession().isDefined()
    finally:
        sessions.setActiveSession(active)
        spark.conf.unset(name)


def test_a_table_that_the_catalog_has_otherwise_is_left_to_spark(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark pads what it reads of a CHAR, which the files do not tell."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2], pa.int64()), "a": pa.array(["x", "y"])})
    tables.table(str(tmp_path)).create_index("i", "id")
    spark.sql(f"CREATE TABLE padded (id BIGINT, a CHAR(4)) USING orc LOCATION '{tmp_path}'")
    try:
        (found,) = compare(tables, "SELECT max(length(a)) AS n FROM padded WHERE id = 1").tables
    finally:
        spark.sql("DROP TABLE padded")
    assert found.reason is not None
    assert "column 'a' is char(4) in the catalog" in found.reason
    assert (found.rows and found.rows.kept) == 1


def test_what_the_java_side_is_asked(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only tables that are read here are compared with the catalog, and none takes a statement to look up."""
    statements, compared = counted(monkeypatch, catalog, "run"), counted(monkeypatch, agreement, "run")
    query = parse_query(
        "SELECT count(*) FROM qt JOIN qu ON a = k JOIN qv ON qv.a = k WHERE s = 's3' AND z = 1"
    )
    assert query is not None
    for most, read in ((1.0, [True, False, False]), (0.0, [False, False, False])):
        monkeypatch.setattr(query_plan, "MAX_SHARE", most)
        compared.clear()
        assert [item.decision.is_accelerated for item in plan_query(tables, query)] == read
        assert (len(statements), len(compared)) == (0, sum(read))
    (row,) = spark.sql("DESCRIBE TABLE EXTENDED qt AS JSON").collect()
    assert catalog.describe_for_query(spark, "qt") == json.loads(row[0])
    assert not statements
    # as over Spark Connect
    monkeypatch.setattr(catalog, "java_session", lambda _: None)
    assert catalog.describe_for_query(spark, "qt") == json.loads(row[0])
    assert len(statements) == 1


def test_paths_and_their_columns(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    for number, column in enumerate(("b", "c")):
        write_columns(tmp_path / "t" / f"{number}.orc", {"a": pa.array([1, 2]), column: pa.array([3, 4])})
    path = tmp_path / "t"
    tables.table(str(path)).create_index("i", "a")
    text = "SELECT count(*), max(p.a) FROM {} p, qv WHERE p.a = 2"
    query = parse_query(text.format(f"'{path}'"))
    assert query is not None
    explained = explain_query(tables, query)
    # Spark takes the columns of one file, whichever it is
    assert explained.tables[0].reason == "its files have different columns, of which Spark reads those of one"
    assert rows(run_query(tables, query)) == rows(spark.sql(text.format(f"orc.`{path}`")))
    (path / "1.orc").unlink()
    assert explain_query(tables, query).tables[0].is_accelerated
    assert rows(run_query(tables, query)) == rows(spark.sql(text.format(f"orc.`{path}`")))


def test_reasons(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    def reason(text: str) -> str | None:
        query = parse_query(text)
        assert query is not None
        return explain_query(tables, query).tables[0].reason

    assert reason("SELECT * FROM qv JOIN qt USING (a) WHERE z = 1") == "it has no index"
    assert reason("SELECT sum(id) FROM qt WHERE id = 3") == "no index that could be used is on id"
    assert reason("SELECT sum(id) FROM qt WHERE a = b") == "no condition of the query is on its columns alone"
    spark.sql("CREATE TEMPORARY VIEW a_view AS SELECT * FROM qt")
    try:
        assert "Table 'a_view' is invalid" in str(reason("SELECT sum(id) FROM a_view WHERE a = 3"))
    finally:
        spark.catalog.dropTempView("a_view")


def test_timestamps_outside_of_utc(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    stamps = pa.array([0, 10**15, None], pa.timestamp("us"))
    write_columns(tmp_path / "x.orc", {"a": pa.array([1, 2, 3]), "t": stamps})
    tables.table(str(tmp_path)).create_indexes([hindex.IndexSpec("i", "a"), hindex.IndexSpec("j", "t")])
    texts = [
        f"SELECT sum(a) FROM '{tmp_path}' WHERE a = 2",
        f"SELECT max(t) FROM '{tmp_path}' WHERE a = 2",
        f"SELECT count(*) FROM '{tmp_path}' WHERE t < TIMESTAMP '1990-01-01 00:00:00'",
    ]

    def accelerated() -> list[bool]:
        found = []
        for text in texts:
            query = parse_query(text)
            assert query is not None
            plain = spark.sql(text.replace(f"'{tmp_path}'", f"orc.`{tmp_path}`"))
            assert rows(run_query(tables, query)) == rows(plain)
            found.append(explain_query(tables, query).tables[0].is_accelerated)
        return found

    assert accelerated() == [True, True, True]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert accelerated() == [True, False, False]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_file_that_spark_has_not_seen(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """No answer mixes the files of two listings, and hindex makes Spark keep none."""

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
        # nothing was listed by Spark up to here
        assert spark.sql("SELECT count(*) FROM seen").collect()[0][0] == 2
        add(3)
        # now it was: both places are of that time, or both of now
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


def test_paths_that_are_no_patterns(tables: hindex.Connection, tmp_path: Path) -> None:
    """Nor fields of a text: Spark reads the table of that name, and not those that a pattern would find."""
    for at, name in enumerate(("g1", "g[1]", "g{1}")):
        write_columns(tmp_path / name / "1.orc", {"id": pa.array([1, 2]), "k": pa.array([10**at] * 2)})
    for name, where, wanted, marks in (
        ("g[1]", "p.id = 2", 10, "++"),
        ("g[1]", "p.id + 0 = 2", 10, "-+"),
        ("g{1}", "p.id + 0 = 2", 100, "-+"),
    ):
        if "+" in marks[0]:
            tables.table(str(tmp_path / name)).create_index("i", "id")
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


def test_a_table_that_is_transactional(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would take its deltas for rows, so it is read here whether or not an index helps."""
    prop = bucket_property(0)
    rows_of = [((1, prop, number), 1, (number, number % 3, "x")) for number in range(9)]
    write_acid(tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000", rows_of)
    deleted = [((1, prop, number), 2, None) for number in (2, 3)]
    write_acid(tmp_path / "t" / "delete_delta_0000002_0000002" / "bucket_00000", deleted)
    for where, wanted in (("x.id > 1 AND b = 3", 5), ("x.id > 1 + rand() * 0", None), ("true", 7)):
        text = f"SELECT count(*) AS n FROM '{tmp_path / 't'}' x JOIN (SELECT 3 AS b) WHERE {where}"
        if wanted is None:
            with pytest.raises(TableError, match="is transactional, which Spark cannot read by itself"):
                tables.sql(text)
            continue
        query = parse_query(text)
        assert query is not None
        assert run_query(tables, query).collect()[0]["n"] == wanted
        assert explain_query(tables, query).tables[0].is_accelerated
    # however it is named
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s STRING) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        text = "WITH acid AS (SELECT * FROM acid) SELECT count(*) AS n FROM acid"
        assert tables.sql(text).collect()[0]["n"] == 7  # type: ignore[union-attr]
        for text in (
            "TABLE acid",
            "SELECT count(*) + 0 FROM IDENTIFIER('acid')",
            "SELECT count(*) FROM acid qualify WHERE qualify.id > 1",
        ):
            with pytest.raises(TableError, match="a transactional table, which Spark cannot read by itself"):
                tables.sql(text)
    finally:
        spark.sql("DROP TABLE acid")
    for value in ("true", "false"):
        spark.conf.set("spark.sql.ansi.enabled", value)
        try:
            found: Any = tables.sql(f"SELECT id FROM '{tmp_path / 't'}' WHERE ROW__ID.rowId > 6")
            assert sorted(found.to_arrow().column("id").to_pylist()) == [7, 8]
        finally:
            spark.conf.unset("spark.sql.ansi.enabled")
    # where the catalog has it otherwise, nobody reads it
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s CHAR(4)) USING orc LOCATION '{tmp_path / 't'}'")
    try:
        with pytest.raises(TableError, match=r"column 's' is char\(4\) in the catalog"):
            tables.sql("SELECT count(*) AS n FROM acid x JOIN (SELECT 3 AS b) WHERE x.id > 1")
    finally:
        spark.sql("DROP TABLE acid")


@pytest.mark.parametrize(
    ("setting", "value", "text", "accelerated"),
    [
        ("spark.sql.caseSensitive", "true", "SELECT sum(id) FROM qt WHERE a = 3", [False]),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT sum(id) FROM "qt" WHERE s = "s"', []),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", "SELECT sum(id) FROM qt WHERE a = 3", [True]),
        (
            "spark.sql.parser.escapedStringLiterals",
            "true",
            r"SELECT sum(id) FROM qt WHERE s > '\\163'",
            [False],
        ),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = 3", [True]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE s = 3", [False]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = 3F", [False]),
        ("spark.sql.ansi.enabled", "false", "SELECT sum(id) FROM qt WHERE a = '3.0' AND b = 1.0", [True]),
    ],
)
def test_settings(
    setting: str,
    value: str,
    text: str,
    accelerated: list[bool],
    tables: hindex.Connection,
    spark: SparkSession,
) -> None:
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        explained = compare(tables, text)
    finally:
        spark.conf.unset(setting) if before is None else spark.conf.set(setting, before)
    assert [item.is_accelerated for item in explained.tables] == accelerated
    if accelerated != [True] and "ansi.enabled" not in setting:
        assert setting in str(explained)


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT id FROM qt WHERE s = "s"'),
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'SELECT id FROM "qt" WHERE a = 3'),
        ("spark.sql.parser.escapedStringLiterals", "true", r"SELECT count(*) FROM qt WHERE s = '\163\063'"),
        ("spark.sql.ansi.enabled", "false", "SELECT id FROM qt WHERE a IN ('03')"),
        ("spark.sql.ansi.enabled", "false", "SELECT id FROM qt WHERE a + 2147483647 < 0"),
        ("spark.sql.ansi.enabled", "false", "SELECT a, count(*) FROM qt GROUP BY a HAVING a / 0 IS NULL"),
        ("my.value", "s3", "SELECT id FROM qt WHERE s = '${my.value}'"),
    ],
)
def test_statements_that_settings_change(
    setting: str, value: str, text: str, tables: hindex.Connection, spark: SparkSession
) -> None:
    """What hindex could answer alone is Spark's where the session reads the text otherwise."""
    before = spark.conf.get(setting, None)
    spark.conf.set(setting, value)
    try:
        found: Any = tables.sql(text)
        assert rows(found) == rows(spark.sql(text))
        assert isinstance(tables.sql("SELECT id FROM qt WHERE a = 3"), hindex.Scan)
        if setting != "my.value":
            # the session that is there is the one that such a connection is going to have
            asked = hindex.connect(conf={"spark.sql.shuffle.partitions": "1"})
            assert asked._is_set(setting, value != "true") is (value == "true")
            given = hindex.connect(conf={setting: "true" if value == "false" else "false"})
            assert given._is_set(setting, value == "true") is (value == "false")
    finally:
        spark.conf.unset(setting) if before is None else spark.conf.set(setting, before)
    asked = hindex.connect(conf={"spark.sql.parser.escapedStringLiterals": "true"})
    with pytest.raises(UnsupportedError, match=r"has spark\.sql\.parser\.escapedStringLiterals"):
        asked._check_text(r"SELECT '\n'")


def test_settings_of_a_session_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They may come from elsewhere than :func:`hindex.connect`, and no session is started where they do not."""
    for name in ("SPARK_ANSI_SQL_MODE", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert has_own_settings("sc://localhost")
    assert not has_own_settings("local[1]")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert not has_own_settings(None)
    (tmp_path / "spark-defaults.conf").write_text("spark.sql.ansi.enabled false\n")
    assert has_own_settings(None)
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_ANSI_SQL_MODE", "false")
    assert has_own_settings(None)


def test_partitions_whose_values_are_texts_to_the_session(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    for number, directory in enumerate(("p=1", "p=01")):
        write_columns(tmp_path / directory / "1.orc", {"id": pa.array([number])})
    name = "spark.sql.sources.partitionColumnTypeInference.enabled"
    spark.conf.set(name, "false")
    try:
        found: Any = tables.sql(f"SELECT id FROM '{tmp_path}' WHERE p = '01'")
        assert [row.id for row in found.collect()] == [1]
    finally:
        spark.conf.unset(name)


def test_whether_types_are_compared_by_the_standard_is_asked_of_spark() -> None:
    """Its default depends on the environment."""

    class Session:
        class conf:  # noqa: N801 as Spark calls it
            @staticmethod
            def get(key: str, default: str = "false") -> str:
                return default

    assert not is_ansi(partial(is_set, Session))  # type: ignore[arg-type]


def test_a_view_of_a_transactional_table(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark would read the flat files alone, or none."""
    rows_of = [((1, bucket_property(0), n), 1, (n, n, "x")) for n in range(5)]
    write_acid(tmp_path / "t" / "delta_0000001_0000001" / "bucket_00000", rows_of)
    spark.sql(f"CREATE TABLE acid (id BIGINT, k INT, s STRING) USING orc LOCATION '{tmp_path / 't'}'")
    spark.sql("CREATE VIEW of_acid AS SELECT id FROM acid WHERE k > (SELECT 1)")
    spark.sql("CREATE VIEW inside AS SELECT 1 AS id WHERE 0 IN (SELECT id FROM acid)")
    try:
        for text in ("SELECT id FROM of_acid", "SELECT id + 1 FROM of_acid", "EXPLAIN SELECT id FROM inside"):
            with pytest.raises(TableError, match="a transactional table, which Spark cannot read by itself"):
                tables.sql(text)
    finally:
        for what in ("VIEW inside", "VIEW of_acid", "TABLE acid"):
            spark.sql(f"DROP {what}")


def test_a_table_of_a_query_is_the_same_one_in_another_database(spark: SparkSession, tmp_path: Path) -> None:
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
        assert hx.sql("SELECT sum(id) AS n FROM t WHERE id = 3").collect()[0].n == 3  # type: ignore[union-attr]
        spark.catalog.setCurrentDatabase("two")
        hx.sql("DROP INDEX by_id")
        left = {name for name in ("one", "two") if hindex.connect().table(str(tmp_path / name)).indexes()}
        assert left == {"two"}
        # one that is made anew elsewhere is another one
        hx = hindex.connect(spark=spark)
        hx.sql("SELECT sum(id) AS n FROM one.t WHERE id = 3")
        spark.sql("DROP TABLE one.t")
        spark.sql(f"CREATE TABLE one.t USING orc LOCATION '{tmp_path / 'two'}'")
        with pytest.raises(StatementError, match="needs ON"):
            hx.sql("DROP INDEX by_id")
        assert hx.table(str(tmp_path / "two")).has_index("by_id")
    finally:
        spark.catalog.setCurrentDatabase(current)
        for database in ("one", "two"):
            spark.sql(f"DROP DATABASE {database} CASCADE")
