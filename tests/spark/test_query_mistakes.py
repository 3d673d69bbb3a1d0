"""Mistakes in queries that Spark runs: the more specific error, at positions in the original text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import hindex
import hindex.api.table
from hindex.errors import StatementError
from hindex.spark.jobs import first_line
from tests.support.messages import raises
from tests.support.queries import compare
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_mistakes_about_tables_that_spark_reads(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark answers if a column is ambiguous to hindex; a column that files lack is null."""
    strict = hindex.connect(spark=spark, mode="strict")
    for name in ("1", "2"):
        write_columns(tmp_path / "t" / f"{name}.orc", {"a": pa.array([1, 2, 3]), "b": pa.array([4, 5, 6])})
        if name == "1":
            tables.table(str(tmp_path / "t")).create_index("i", "a")
    nested = pa.array([{"x": 4}, {"x": 5}, {"x": 6}])
    columns = {"a.x": pa.array([1, 2, 3]), "a": nested, "b": pa.array([1, 2, 3])}
    write_columns(tmp_path / "dotted" / "1.orc", columns)
    tables.table(str(tmp_path / "dotted")).create_index("i", "b")
    spark.sql(f"CREATE TABLE added (a BIGINT, b BIGINT, z INT) USING orc LOCATION '{tmp_path}/t'")
    spark.sql(f"CREATE TABLE same USING orc LOCATION '{tmp_path}/t'")
    spark.sql(f"CREATE TABLE dotted USING orc LOCATION '{tmp_path}/dotted'")
    try:
        (decision,) = compare(strict, "SELECT sum(b) AS n FROM added WHERE a = 2").tables
        assert decision.is_accelerated
        (decision,) = compare(tables, "SELECT count(*) AS n FROM dotted WHERE a.x = 5 AND b = 2").tables
        assert "Column 'a.x' is ambiguous" in decision.detail
        # Spark runs the query: in strict mode, too, it reads the file without an index
        (decision,) = compare(strict, "SELECT sum(b) AS n FROM same WHERE a = 2").tables
        assert decision.is_accelerated
    finally:
        for name in ("added", "same", "dotted"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_path_of_other_files_is_named(tables: hindex.Connection, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1" * 10)
    with raises(hindex.HindexError):
        tables.sql(f"SELECT sum(a) FROM '{tmp_path}'")
    # the error does not blame another name
    tables.spark().sql("CREATE OR REPLACE TEMP VIEW innocent AS SELECT 1 AS a")
    for text in (f"innocent v JOIN '{tmp_path}' p", f"'{tmp_path}' p JOIN innocent v"):
        with raises(hindex.HindexError):
            tables.sql(f"SELECT sum(v.a) FROM {text} ON v.a = p.a")


def test_a_mistake_is_marked_in_the_original_text(tables: hindex.Connection, wide: Path) -> None:
    """Spark would mark it in a statement with rewritten paths, or take the word for an alias."""
    for text, message in (
        (f"SELECT id, FROM '{wide}'", r"^syntax error at line 1, column 12: expected a column, found 'FROM'"),
        (
            f"SELECT count(*) FROM '{wide}' HAVING",
            r"^syntax error .*: expected a condition after HAVING, found the end",
        ),
        (f"EXPLAIN SELECT id, FROM '{wide}'", r"^syntax error at line 1, column 20: expected a column"),
        (f"SELECT count(* FROM '{wide}'", r"^syntax error at line 1, column 16: expected \), found 'FROM'"),
    ):
        with pytest.raises(StatementError, match=message):
            tables.sql(text)
    for limit in ("x", "`x`", "-1", "1.5", "'a'"):
        message = r"^syntax error at line 1, column \d+: expected a whole number after LIMIT"
        with pytest.raises(StatementError, match=message):
            tables.sql(f"SELECT id FROM '{wide}' LIMIT {limit}")
    result: Any = tables.sql(f"SELECT id FROM '{wide}' LIMIT 1 + 1")
    assert result.count() == 2
    # a query that only Spark runs is not a mistake
    with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]"):
        tables.sql(f"SELECT sum(id), count(* FROM '{wide}'")
    # Spark supports the clause
    with pytest.raises(StatementError, match=r"^\[UNRESOLVED_COLUMN"):
        tables.sql(f"SELECT count(*) FROM '{wide}' HAVING nope > 1")


def test_errors_that_name_the_solution(tables: hindex.Connection, wide: Path) -> None:
    for text, message in (
        (
            "SELECT id, count(*) FROM {}",
            r"^syntax error at line 1, column 1: id beside COUNT\(\*\): add GROUP BY id",
        ),
        (
            "EXPLAIN SELECT id, count(*) FROM {}",
            r"^syntax error at .*: id beside COUNT\(\*\): add GROUP BY id",
        ),
        (
            "SELECT id FROM {} WHERE id = ?",
            r"^syntax error at .*: a parameter has no value here: write the value",
        ),
        (
            "SELECT id FROM {} WHERE id = :x",
            r"^syntax error at .*: a parameter has no value here: write the value",
        ),
        ("SELECT id FROM {} WHERE from = 3", r"^syntax error at .*; a column of that name is written `from`"),
    ):
        with pytest.raises(StatementError, match=message):
            tables.sql(text.format(f"'{wide}'"))
    # Spark reads these names in another way
    for text in ("SELECT count(*) AS n, n FROM {}", "SELECT current_date, count(*) FROM {}"):
        result: Any = tables.sql(text.format(f"'{wide}'"))
        wanted = tables.spark().sql(text.format(f"orc.`{wide}`"))
        assert result.to_spark().collect() == wanted.collect()


def test_paths_in_quotes_are_not_to_blame(tables: hindex.Connection, wide: Path) -> None:
    for text, word in (
        ("SELECT * FROM {0} f JION {0} d ON f.id = d.id", "JION"),
        ("SELECT *\nFROM {0} f JOIN {0} d ON f.id = d.id\n GRUP BY 1 2", "GRUP"),
        ("SELECT sum(f.id) FROM {0}, {0} AS d, {0} f WERE 1 = 2", "WERE"),
        ("SELECT trim(both 'x' FROM 'xax') a, f.id IS DISTINCT FROM 'y' FROM {0} f JION {0} d", "JION"),
    ):
        written = text.format(f"'{wide}'")
        # hindex raises its own error if its grammar parses the statement up to the mistake
        message = rf"^\[PARSE_SYNTAX_ERROR\].* near '{word}'|^syntax error .*: unexpected '{word}'"
        with pytest.raises(StatementError, match=message) as caught:
            tables.sql(written)
        before = written[: written.index(word)].split("\n")
        line, column = len(before), len(before[-1])
        positions = (f"(line {line}, pos {column})", f"at line {line}, column {column + 1}: ")
        assert any(position in str(caught.value) for position in positions)


def test_paths_without_quotes(
    tables: hindex.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_columns(tmp_path / "flat" / "1.orc", {"a": pa.array([1])})
    for text in ("SELECT a FROM {}", "SELECT sum(a) FROM {}", "SHOW INDEXES ON `{}`"):
        with pytest.raises(hindex.HindexError, match=r"Quote the path: FROM 'flat'$"):
            tables.sql(text.format("flat"))
        with pytest.raises(hindex.HindexError) as caught:
            tables.sql(text.format("nodir"))
        assert "FROM 'nodir'" not in str(caught.value)
    with raises(hindex.HindexError):
        tables.table("nodir")


def test_mistakes(tables: hindex.Connection) -> None:
    with pytest.raises(StatementError, match=r"^\[TABLE_OR_VIEW_NOT_FOUND\]"):
        tables.sql("SELECT count(*), 1 FROM nope")
    with pytest.raises(StatementError, match=r"^\[UNRESOLVED_COLUMN"):
        tables.sql("EXPLAIN SELECT sum(nope) FROM qt WHERE a = 3")
    with raises(hindex.HindexError):
        tables.sql("SELECT nope FROM qt")
    with raises(StatementError):
        tables.sql("SELECT a FROM qt WHER a = 3")
    with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]"):
        tables.sql("WITH q AS (SELECT 1 SELECT 2")
    # Spark marks mistakes in queries that only Spark runs
    for text in ("SELECT sum(a), max(b FROM qt WHERE b = 1", "SELECT sum(a) FROM some/path"):
        with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]"):
            tables.sql(text)
    with raises(StatementError):
        tables.sql("MERGE INTO qt USING qu")


@pytest.mark.parametrize("kind", ["EXTENDED", "formatted", "COST", "CODEGEN", "ANALYZE"])
def test_kinds_of_explain_that_only_spark_has(kind: str, tables: hindex.Connection) -> None:
    with raises(StatementError):
        tables.sql(f"/* x */ EXPLAIN /* y */ {kind} SELECT * FROM qt JOIN qu USING (b)")
    # hindex explains queries of one table, and reports their mistakes as usual
    if kind == "ANALYZE":
        assert "rows" in str(tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHERE a = 3"))
        with raises(StatementError):
            tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHER a = 3 4")
        with raises(hindex.HindexError):
            tables.sql("EXPLAIN ANALYZE SELECT id FROM qt WHERE nope = 3")
    else:
        with raises(StatementError):
            hindex.connect().sql(f"EXPLAIN {kind} SELECT id FROM qt WHERE a = 3")


def test_a_mistake_in_a_query_that_only_spark_runs(tables: hindex.Connection) -> None:
    """With a session, the error is that of Spark, and does not ask for a session."""
    with pytest.raises(StatementError, match=r"^\[PARSE_SYNTAX_ERROR\]") as caught:
        tables.sql("SELECT a FROM qt UNION SELECT b FROM qu WHERE (1 = ")
    assert "hindex.connect(spark=" not in str(caught.value)


def test_without_a_session() -> None:
    with raises(StatementError):
        hindex.connect().sql("SELECT a FROM t JOIN u")
    with raises(StatementError):
        hindex.connect().sql("WITH t AS (SELECT 1) SELECT * FROM t")


def test_a_mistake_in_a_query_of_a_view_raises_the_error_of_spark(
    tables: hindex.Connection, spark: SparkSession
) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW ones AS SELECT 1 AS amount")
    for text in ("SELECT amuont FROM ones", "SELECT amount FROM ones WHERE amuont = 1"):
        with pytest.raises(StatementError, match=r"UNRESOLVED_COLUMN[\s\S]*amount"):
            tables.sql(text)


def test_no_query_changes_a_table(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_columns(tmp_path / "t" / "1.orc", {"a": pa.array([1, 2, 3])})
    spark.sql(f"CREATE TABLE changed USING orc LOCATION '{tmp_path}/t'")
    hx = hindex.connect(spark=spark)
    hx.table("changed").create_index("i", "a")

    def rows() -> list[Any]:
        spark.catalog.refreshTable("changed")
        return sorted(row["a"] for row in spark.table("changed").collect())

    texts = [
        "WITH x AS (SELECT 7 a) INSERT INTO changed SELECT a FROM x",
        "WITH x AS (SELECT 7 a) INSERT OVERWRITE changed SELECT a FROM x",
        "WITH x AS (SELECT 9 a) FROM x INSERT INTO changed SELECT a",
        "WITH x AS (SELECT 7 a) DELETE FROM changed",
        "FROM changed INSERT INTO changed SELECT 8",
        "FROM changed INSERT INTO changed SELECT 8 INSERT INTO changed SELECT 9",
        "-- x\n/* y */ FROM changed INSERT OVERWRITE changed SELECT a WHERE a = 1;",
    ]
    # statements that only Spark recognizes as changes
    others = [
        "FROM changed |> INSERT INTO changed",
        "(WITH x AS (SELECT 7 a) INSERT INTO changed SELECT a FROM x)",
        "WITH x AS (INSERT INTO changed SELECT 1) SELECT * FROM x",
        "SELECT a FROM changed UNION SELECT 1; INSERT INTO changed SELECT 1",
        "FROM changed `x` ${hindex.test.verb} INTO changed SELECT 1",
    ]
    spark.conf.set("hindex.test.verb", "INSERT")
    try:
        for text in texts:
            for statement in (text, f"EXPLAIN {text}"):
                with raises(StatementError):
                    hx.sql(statement)
        for statement in (
            "BEGIN INSERT INTO changed SELECT 1; END",
            "EXECUTE IMMEDIATE 'SELECT 1'",
            "CALL p()",
        ):
            with raises(StatementError):
                hx.sql(statement)
        # without the check of keywords, Spark changes no table either
        monkeypatch.setattr("hindex.sql.queries._change", lambda tokens: None)
        for text in [*texts, *others]:
            for statement in (text, f"EXPLAIN {text}"):
                with pytest.raises(StatementError, match=r"PARSE_SYNTAX_ERROR|one statement at a time"):
                    hx.sql(statement)
        assert rows() == [1, 2, 3]
    finally:
        spark.conf.unset("hindex.test.verb")
        spark.sql("DROP TABLE changed")


@pytest.mark.parametrize(
    "text",
    [
        "WITH insert AS (SELECT a FROM qt WHERE a = 3) SELECT insert.a AS delete FROM insert",
        "WITH x AS (SELECT a AS update FROM qt WHERE a = 3) FROM x insert SELECT update overwrite",
        "FROM qt insert SELECT a, 'INSERT INTO qt' AS `merge` /* DELETE */ WHERE a = 3; -- INSERT",
        "SELECT a AS insert FROM qt delete WHERE delete.a = 3 UNION ALL VALUES (3) -- \\",
        "FROM qt |> WHERE a = 3 |> SELECT a AS delete",
        "(SELECT count(*) AS insert FROM qt)",
        "TABLE qv",
    ],
)
def test_words_of_changes_in_queries(text: str, tables: hindex.Connection, spark: SparkSession) -> None:
    result: Any = tables.sql(text)
    expected = spark.sql(text)
    assert result.columns == expected.columns
    assert sorted(map(str, result.to_spark().collect())) == sorted(map(str, expected.collect()))


def test_spark_marks_mistakes_in_the_original_text(tables: hindex.Connection, spark: SparkSession) -> None:
    for text in (
        "SELECT sum(a) FROM qt UNION SELECT 1 2 3",
        "WITH q AS (SELECT 1)\nSELECT 1 2 3",
        "SELECT sum(a) FROM qt UNION",
    ):
        with pytest.raises(PySparkException) as expected:
            spark.sql(text)
        with pytest.raises(StatementError) as caught:
            tables.sql(text)
        assert str(caught.value) == first_line(expected.value)
    with pytest.raises(StatementError, match=r"at or near end of input: missing '\)'.* \(line 2, pos 2\)"):
        tables.sql("SELECT 1 UNION SELECT 2 WHERE (1 = \n 2")
    for text in ("FROM qt SELECT a) UNION (SELECT 1", "SELECT a FROM qt UNION SELECT 1) UNION (SELECT 2"):
        with raises(StatementError):
            tables.sql(text)
