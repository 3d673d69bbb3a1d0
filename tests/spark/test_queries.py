"""Queries that Spark runs on tables with indexes: the answers are those of Spark alone."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
import hindex.tables
from hindex import connection
from hindex.errors import StatementError, TableError
from hindex.scan.running import Runner
from hindex.spark import query_plan
from hindex.spark.queries import QueryExplanation, explain_query, run_query
from hindex.spark.query_plan import plan_query
from hindex.sql.queries import parse_query
from tests.acid.writing import bucket_property, write_acid
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 300


def column(rng: random.Random, most: int, nulls: float, rows: int = ROWS) -> list[int | None]:
    return [None if rng.random() < nulls else rng.randrange(most) for _ in range(rows)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hindex.Connection]:
    """Tables ``qt`` and ``qu`` with indexes on most columns, ``qv`` without; nulls everywhere."""
    rng = random.Random(11)
    root = tmp_path_factory.mktemp("queries")
    data = {
        "qt": {
            "id": pa.array(range(ROWS), pa.int64()),
            "a": pa.array(column(rng, 20, 0.2), pa.int32()),
            "b": pa.array(column(rng, 5, 0.3), pa.int32()),
            "s": pa.array([None if n is None else f"s{n}" for n in column(rng, 9, 0.2)], pa.string()),
        },
        "qu": {
            "k": pa.array(column(rng, 20, 0.1), pa.int32()),
            "x": pa.array(column(rng, 4, 0.3), pa.int64()),
            "b": pa.array(column(rng, 5, 0.3), pa.int32()),
        },
        "qv": {
            "a": pa.array(column(rng, 20, 0.1), pa.int32()),
            "z": pa.array(column(rng, 3, 0.1), pa.int32()),
        },
    }
    hx = hindex.connect(spark=spark)
    for name, columns in data.items():
        half = {key: array.slice(0, ROWS // 2) for key, array in columns.items()}
        rest = {key: array.slice(ROWS // 2) for key, array in columns.items()}
        write_columns(root / name / "1.orc", half)
        write_columns(root / name / "2.orc", rest)
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{root / name}'")
    for name in ("qt", "qu"):
        indexed = [c for c in data[name] if c not in ("id", "k")]
        hx.table(name).create_indexes([hindex.IndexSpec(f"i_{c}", c) for c in indexed])
    yield hx
    for name in data:
        spark.sql(f"DROP TABLE {name}")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read through their indexes however many rows are left."""
    monkeypatch.setattr(query_plan, "MAX_SHARE", 1.0)
    monkeypatch.setattr(query_plan, "MIN_VALUES", 0)


def rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.toArrow().to_pylist()))


def compare(hx: hindex.Connection, text: str) -> QueryExplanation:
    """The answer is that of Spark alone, with its columns; what EXPLAIN says of it."""
    wanted = hx.spark().sql(text)
    query = parse_query(text)
    assert query is not None
    found = run_query(hx, query)
    assert found.schema == wanted.schema
    assert rows(found) == rows(wanted), text
    return explain_query(hx, query)


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


def test_a_query_asks_for_each_table_once(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    described, listed = (
        counted(monkeypatch, connection, "describe_table"),
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


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[str]:
    """What is added to whenever a function is called."""
    real = getattr(owner, name)
    calls: list[str] = []

    def noted(*arguments: object, **options: object) -> object:
        calls.append(name)
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, noted)
    return calls


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


def test_mistakes(tables: hindex.Connection) -> None:
    with pytest.raises(StatementError, match=r"^\[TABLE_OR_VIEW_NOT_FOUND\]"):
        tables.sql("SELECT count(*), 1 FROM nope")
    with pytest.raises(StatementError, match=r"^\[UNRESOLVED_COLUMN"):
        tables.sql("EXPLAIN SELECT sum(nope) FROM qt WHERE a = 3")
    with pytest.raises(hindex.HindexError, match=r"^Column 'nope' cannot be resolved"):
        tables.sql("SELECT nope FROM qt")
    with pytest.raises(StatementError, match=r"did you mean WHERE"):
        tables.sql("SELECT a FROM qt WHER a = 3")
    with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]"):
        tables.sql("WITH q AS (SELECT 1 SELECT 2")
    with pytest.raises(StatementError, match=r"^unknown statement|unknown statement"):
        tables.sql("MERGE INTO qt USING qu")


@pytest.mark.parametrize("kind", ["EXTENDED", "formatted", "COST", "CODEGEN", "ANALYZE"])
def test_kinds_of_explain_that_only_spark_has(kind: str, tables: hindex.Connection) -> None:
    with pytest.raises(
        StatementError, match=rf"^there is no EXPLAIN {kind.upper()} here .* EXPLAIN alone tells"
    ):
        tables.sql(f"/* x */ EXPLAIN /* y */ {kind} SELECT * FROM qt JOIN qu USING (b)")
    # of one table's rows hindex has one, and tells of mistakes in it as ever
    if kind == "ANALYZE":
        assert "rows" in str(tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHERE a = 3"))
        with pytest.raises(StatementError, match=r"did you mean WHERE"):
            tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHER a = 3 4")
        with pytest.raises(hindex.HindexError, match=r"^Column 'nope' cannot be resolved"):
            tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHERE nope = 3")
    else:
        with pytest.raises(StatementError, match=rf"^there is no EXPLAIN {kind.upper()}"):
            hindex.connect().sql(f"EXPLAIN {kind} SELECT id FROM qt WHERE a = 3")


def test_a_mistake_in_what_only_spark_reads(tables: hindex.Connection) -> None:
    """Where there is a session, that one is needed is no remedy: what Spark says is."""
    with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]") as caught:
        tables.sql("SELECT a FROM qt UNION SELECT b FROM qu WHERE (1 = ")
    assert "hindex.connect(spark=" not in str(caught.value)


def test_without_a_session() -> None:
    with pytest.raises(
        StatementError, match=r"JOIN; hindex alone reads one table .* hindex\.connect\(spark="
    ):
        hindex.connect().sql("SELECT a FROM t JOIN u")
    with pytest.raises(StatementError, match=r"a query for Spark; .* hindex\.connect\(spark="):
        hindex.connect().sql("WITH t AS (SELECT 1) SELECT * FROM t")


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


def test_a_table_that_is_transactional(tables: hindex.Connection, tmp_path: Path) -> None:
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
