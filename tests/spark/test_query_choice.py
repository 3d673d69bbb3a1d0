"""The choice of the tables that a query reads through their indexes, and the lookups that it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.errors import FallbackError, TableError
from hindex.maintain import verification
from hindex.queries import selectivity
from hindex.queries.query_execution import explain_query, run_query
from hindex.queries.query_plan import plan_query
from hindex.scan.task_runner import Runner
from hindex.spark import catalog, catalog_schema
from hindex.sql.queries import parse_query
from hindex.store.snapshot import take_snapshot
from tests.support.messages import raises
from tests.support.queries import ROWS, compare, count_calls
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def test_each_table_is_looked_up_once(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    described, listed = (
        count_calls(monkeypatch, catalog, catalog.describe_for_query),
        count_calls(monkeypatch, hindex.api.table, take_snapshot),
    )
    text = "SELECT * FROM qt p, qt q, qu, qv v WHERE p.a = 3 AND q.a = 4 AND qu.b = p.b AND v.a = p.a"
    query = parse_query(text)
    assert query is not None
    run_query(tables, query)
    # qu has no condition of its own, and qv no index, so they need no snapshot
    assert (len(described), len(listed)) == (3, 1)


@pytest.mark.parametrize("mode", ["strict", "prove"])
def test_queries_that_spark_runs_ignore_the_mode(
    mode: str, tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such queries may read tables without an index, and run no proofs."""
    proofs = count_calls(monkeypatch, verification, verification.prove_scan)
    hx = hindex.connect(spark=spark, mode=mode)
    explained = compare(hx, "SELECT qt.id, z FROM qt JOIN qv ON qt.a = qv.a WHERE b = 1 AND qt.id > 5")
    assert [item.is_accelerated for item in explained.tables] == [True, False]
    assert not proofs
    # the mode applies to queries that hindex answers without Spark
    alone = "SELECT id FROM qt WHERE b = 1 AND id > 5"
    if mode == "strict":
        with raises(FallbackError):
            hx.sql(alone)
    else:
        result = hx.sql(alone)
        assert isinstance(result, hindex.QueryResult)
        assert result.to_arrow().num_rows
        assert proofs


def test_tables_that_are_too_small(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Spark reads a table sooner, its indexes are not looked up."""
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 2 * ROWS + 1)
    text = "SELECT sum(id) FROM qt WHERE {} = 3"
    (few,) = compare(tables, text.format("a")).tables
    assert few.because == f"TOO_SMALL: Spark reads 2 columns of {ROWS} rows sooner"
    assert not lookups
    monkeypatch.setattr(selectivity, "MIN_VALUES", 2 * ROWS)
    assert compare(tables, text.format("a")).tables[0].is_accelerated
    assert lookups


def test_lookups_stop_once_too_many_rows_match(
    tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = count_calls(monkeypatch, Runner, Runner.look_up)
    query = parse_query("SELECT sum(id) FROM qt WHERE a >= 0")
    assert query is not None
    run_query(tables, query)
    # one lookup for each of both files, which also serves for reading
    assert len(lookups) == 2
    lookups.clear()
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.1)
    (decision,) = explain_query(tables, query).tables
    assert decision.because == "NOT_SELECTIVE: more than 10.0% of the rows may match"
    assert len(lookups) == 1
    assert decision.rows is not None
    assert 0.6 * ROWS < (decision.rows.kept or 0) < ROWS == decision.rows.total


def test_statements_that_the_catalog_runs(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only tables that hindex reads are compared with the catalog; a lookup needs no statement."""
    run = catalog.run
    statements, compared = (
        count_calls(monkeypatch, catalog, run),
        count_calls(monkeypatch, catalog_schema, run),
    )
    query = parse_query(
        "SELECT count(*) FROM qt JOIN qu ON a = k JOIN qv ON qv.a = k WHERE s = 's3' AND z = 1"
    )
    assert query is not None
    for max_share, is_accelerated in ((1.0, [True, False, False]), (0.0, [False, False, False])):
        monkeypatch.setattr(selectivity, "MAX_SHARE", max_share)
        compared.clear()
        assert [item.decision.is_accelerated for item in plan_query(tables, query)] == is_accelerated
        assert (len(statements), len(compared)) == (0, sum(is_accelerated))
    (row,) = spark.sql("DESCRIBE TABLE EXTENDED qt AS JSON").collect()
    assert catalog.describe_for_query(spark, "qt") == json.loads(row[0])
    assert not statements
    # as over Spark Connect
    monkeypatch.setattr(catalog, "java_session", lambda _: None)
    assert catalog.describe_for_query(spark, "qt") == json.loads(row[0])
    assert len(statements) == 1


def test_char_columns_are_compared_as_spark_does(
    tables: hindex.Connection, spark: SparkSession, tmp_path: Path
) -> None:
    """Spark pads CHAR values and the strings compared with them; files do not store this."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2], pa.int64()), "a": pa.array(["x", "y"])})
    tables.table(str(tmp_path)).create_index("i", "id")
    spark.sql(f"CREATE TABLE padded (id BIGINT, a CHAR(4)) USING orc LOCATION '{tmp_path}'")
    try:
        for text in (
            "SELECT max(length(a)) AS n FROM padded WHERE id = 1",
            "SELECT count(*) AS n FROM padded JOIN (SELECT 1 AS one) ON id = one WHERE id = 1 AND a = 'x'",
            "SELECT * FROM padded WHERE id = 2 AND a IN ('y', 'z') AND id + 0 = 2",
        ):
            (decision,) = compare(tables, text).tables
            assert decision.is_accelerated
            assert (decision.rows and decision.rows.kept) == 1
    finally:
        spark.sql("DROP TABLE padded")


def test_reasons(tables: hindex.Connection, spark: SparkSession, tmp_path: Path) -> None:
    def reason(text: str) -> str:
        query = parse_query(text)
        assert query is not None
        return explain_query(tables, query).tables[0].because

    assert reason("SELECT * FROM qv CROSS JOIN qt WHERE z = 1") == "NO_INDEX: it has no index"
    assert reason("SELECT sum(id) FROM qt WHERE id = 3") == "NO_INDEX: no index that could be used is on id"
    assert reason("SELECT sum(id) FROM qt WHERE a = b") == (
        "UNSUPPORTED_PREDICATE: none of the query's conditions on it can be answered by indexes"
    )
    nothing = "SELECT sum(id) AS s, count(*) AS n FROM qt WHERE id = 3 AND id IS NULL"
    assert compare(tables, nothing).tables[0].is_accelerated
    spark.sql("CREATE TEMPORARY VIEW a_view AS SELECT * FROM qt")
    try:
        assert reason("SELECT sum(id) FROM a_view WHERE a = 3") == (
            "UNSUPPORTED_TABLE: Table 'a_view' is a view, and indexes are those of tables"
        )
    finally:
        spark.catalog.dropTempView("a_view")


def test_statements_about_indexes_check_privileges(
    tables: hindex.Connection, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only queries use the short lookup; statements about indexes describe each table in full."""
    write_columns(tmp_path / "1.orc", {"id": pa.array([1, 2, 3]), "a": pa.array([1, 2, 3])})
    tables.table(str(tmp_path)).create_index("watched", "a")
    spark.sql(f"CREATE TABLE guarded USING orc LOCATION '{tmp_path}'")

    def refuse(*_: object) -> object:
        raise TableError("no privilege")

    try:
        hx = hindex.connect(spark=spark)
        with monkeypatch.context() as patch:
            for module in (catalog, catalog_schema):
                patch.setattr(module, "run", refuse)
            query = parse_query("SELECT count(*) FROM guarded WHERE a = 3")
            assert query is not None
            (decision,) = explain_query(hx, query).tables
            assert (decision.because, decision.rows) == ("UNSUPPORTED_TABLE: no privilege", None)
            # Spark then runs the query, and checks privileges itself
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
        assert "watched" in shown.column("name").to_pylist()
    finally:
        spark.sql("DROP TABLE guarded")
