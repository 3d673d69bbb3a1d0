"""Connections: the lookup of tables, and the results of statements."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.connection import STORE_VARIABLE
from hindex.api.query_result import QueryResult
from hindex.api.statement_table import StatementTable
from hindex.api.table import Index
from hindex.errors import IndexNotFoundError, StatementError, StoreError, TableError
from hindex.explanations.explanation import Explanation
from hindex.maintain.results import DropResult
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "users" / "x.orc", 0, [i % 10 for i in range(500)]).parent


@pytest.fixture
def catalog(spark: SparkSession, path: Path) -> Iterator[str]:
    """The table under a name that needs quoting."""
    spark.sql(f"CREATE TABLE `1users` USING orc LOCATION '{path}'")
    yield "`1users`"
    spark.sql("DROP TABLE `1users`")


def test_results_of_statements(path: Path, spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    made = hx.sql(f"CREATE INDEX by_a USING BITMAP ON '{path}' (a)")
    assert isinstance(made, Index)
    assert repr(made) == "Index('by_a', BITMAP on 'a', fresh)"
    scan = hx.sql(f"SELECT id, s FROM '{path}' WHERE a = 3 LIMIT 2")
    assert isinstance(scan, QueryResult)
    assert scan.to_arrow().to_pydict() == {"id": [3, 13], "s": ["s3", "s3"]}
    assert (
        repr(scan)
        == f"QueryResult[id: int64, s: string](SELECT id, s FROM {str(path)!r} WHERE a = 3 LIMIT 2)"
    )
    count = hx.sql(f"SELECT COUNT(*) FROM '{path}' WHERE a IN (3, 4)")
    assert isinstance(count, QueryResult)
    assert count.to_arrow().to_pydict() == {"count(1)": [100]}
    explained = hx.sql(f"EXPLAIN SELECT id FROM '{path}' WHERE a = 3")
    assert isinstance(explained, Explanation)
    assert explained.columns == ("id",)
    assert explained.exact
    everything = hx.sql(f"SELECT * FROM orc.`{path}`")
    assert isinstance(everything, QueryResult)
    assert everything.schema.names == ["id", "a", "s"]
    assert ids(everything) == list(range(500))
    output = hx.sql(f"SHOW INDEXES ON '{path}'")
    assert isinstance(output, StatementTable)
    (row,) = output.to_pylist()
    assert row.pop("size_bytes") > 0
    assert row.pop("created") <= row.pop("refreshed")
    assert row == {
        "name": "by_a",
        "table": str(path),
        "column": "a",
        "type": "BITMAP",
        "level": "stripe",
        "status": "fresh",
        "partitions": None,
        "time_zones": None,
        "properties": '{"values_per_page": "4096"}',
        "column_type": "int",
        "creator": getpass.getuser(),
        "comment": None,
    }
    assert hx.sql(f"DROP INDEX by_a ON '{path}'") == DropResult("by_a", str(path), None, 1, True)
    assert hx.sql(f"DROP INDEX IF EXISTS by_a ON '{path}'") == DropResult("by_a", str(path), None, 0, False)
    with pytest.raises(IndexNotFoundError):
        hx.sql(f"DROP INDEX by_a ON '{path}'")


def test_a_table_of_the_catalog(path: Path, catalog: str, spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    hx.sql(f"CREATE INDEX by_a USING bitmap ON {catalog} (a)")
    for name in (catalog, f"default.{catalog}", f"spark_catalog.default.{catalog}"):
        scan = hx.sql(f"SELECT id FROM {name} WHERE a = 3 LIMIT 1")
        assert isinstance(scan, QueryResult)
        assert ids(scan) == [3]
        explained = scan.explain()
        assert isinstance(explained, Explanation)
        assert explained.exact
        assert ids(hx.table(name).scan("a = 3", ["id"], 1)) == [3]
        # the catalog of a running session comes before a path of that name
        assert ids(hindex.connect().sql(f"SELECT id FROM {name} WHERE a = 3 LIMIT 1")) == [3]  # type: ignore[arg-type]
    # it is the same table by its path
    assert hindex.connect().table(str(path)).scan("a = 3").explain().exact


def test_names_that_are_no_tables_of_orc_files(spark: SparkSession, tmp_path: Path) -> None:
    hx = hindex.connect(spark=spark)
    spark.sql(f"CREATE TABLE texts (a STRING) USING csv LOCATION '{tmp_path / 'texts'}'")
    spark.sql("CREATE TEMPORARY VIEW a_view AS SELECT 1 AS a")
    try:
        with raises(TableError):
            hx.table("texts")
        with raises(TableError):
            hx.table("a_view")
        # queries of them are for Spark, which a session that was not asked for is not
        for table, rows in (("texts", 0), ("a_view", 1)):
            for text in (
                "SELECT a FROM {}",
                "SELECT DISTINCT a, a AS b FROM {}",
                "SELECT a, COUNT(*) FROM {} GROUP BY a LIMIT 9",
                "SELECT COUNT(a) FROM {}",
                "SELECT a FROM {} LIMIT 0",
            ):
                result: Any = hx.sql(text.format(table))
                expected = spark.sql(text.format(table))
                assert (result.to_spark().schema, result.to_arrow()) == (expected.schema, expected.toArrow())
            result = hx.sql(f"SELECT EXISTS(SELECT 1 FROM {table})")
            assert result.to_arrow().to_pylist() == [{"exists()": rows > 0}]
            assert f"Table {table}: by Spark alone" in str(hx.sql(f"EXPLAIN SELECT a FROM {table}"))
            with raises(TableError):
                hindex.connect().sql(f"SELECT DISTINCT a, a AS b FROM {table}")
            with raises(TableError):
                hx.sql(f"CREATE INDEX i USING bitmap ON {table} (a)")
    finally:
        spark.sql("DROP TABLE texts")
        spark.sql("DROP VIEW a_view")
    with raises(TableError):
        hx.sql("SELECT * FROM nope")


def test_without_a_session_a_path_wins_over_a_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    assert ids(hindex.connect().table("users").scan("id < 3")) == [0, 1, 2]
    with raises(TableError):
        hindex.connect().table("nope").scan().to_arrow()


def test_a_path_is_never_a_name_of_the_catalog(
    path: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hx = hindex.connect(tmp_path / "store", spark)
    assert repr(hx) == f"Connection(store={str(tmp_path / 'store')!r}, spark='local[2]')"
    assert repr(hindex.connect(mode="prove")) == "Connection(store=None, spark=None, mode='prove')"
    assert ids(hx.table(path).scan("id < 3")) == [0, 1, 2]
    with raises(TableError):
        hx.table(Path("nope")).indexes()
    monkeypatch.setenv(STORE_VARIABLE, "")
    assert repr(hindex.connect()) == "Connection(store=None, spark=None)"


def test_a_store_of_its_own(
    path: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = write_rows(tmp_path / "others" / "x.orc", 0, [1, 2]).parent
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path / "store"))
    hx = hindex.connect(spark=spark)
    for table in (path, other):
        hx.sql(f"CREATE INDEX i USING bitmap ON '{table}' (a)")
    hx.sql(f"CREATE INDEX j USING bitmap ON '{other}' (s)")
    assert not (path / "_hindex").exists()
    output = hx.sql("SHOW INDEXES i")
    assert isinstance(output, StatementTable)
    assert output.column("table").to_pylist() == sorted(map(str, (path, other)))
    with raises(StatementError):
        hx.sql("DROP INDEX I")

    # a table that is gone is listed, and its index can be dropped
    (other / "x.orc").unlink()
    other.rmdir()
    output = hx.sql("SHOW INDEXES")
    assert isinstance(output, StatementTable)
    result = {(row["name"], row["table"]): row["status"] for row in output.to_pylist()}
    assert result["i", str(path)] == "fresh"
    assert result["j", str(other)].startswith(f"table gone: Table '{other}' is invalid: no such file")
    hx.sql("DROP INDEX j")
    hx.sql(f"DROP INDEX i ON '{other}'")
    hx.sql("DROP INDEX i")
    with raises(IndexNotFoundError):
        hx.sql("DROP INDEX i")
    assert hx.sql("DROP INDEX IF EXISTS i") == DropResult("i", None, None, 0, False)

    (tmp_path / "another").mkdir()
    explicit = hindex.connect(store=str(tmp_path / "another"))
    assert explicit.table(str(path)).indexes() == []
    output = explicit.sql("SHOW INDEXES")
    assert isinstance(output, StatementTable)
    assert output.num_rows == 0


def test_missing_store(path: Path, tmp_path: Path) -> None:
    """Statements that only read report a missing store; the first index creates it."""
    (tmp_path / "store").mkdir()
    missing = tmp_path / "stroe"
    hx = hindex.connect(missing)
    for text in ("SHOW INDEXES", f"SHOW INDEXES ON '{path}'", "SHOW INDEX i", f"CHECK INDEXES ON '{path}'"):
        with raises(StoreError):
            hx.sql(text)
    for text in ("DESCRIBE INDEX i", "DROP INDEX i", "REFRESH INDEX i"):
        with raises(IndexNotFoundError):
            hx.sql(text)
    assert hx.sql("DROP INDEX IF EXISTS i") == DropResult("i", None, None, 0, False)
    scan = hx.table(path).scan("a = 3", ["id"])
    assert ids(scan) == list(range(3, 500, 10))
    assert [note.detail for note in scan.explain().notes] == [
        f"no index on this column: there is no store at {str(missing)!r}"
    ]
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a) WITH DEFERRED REBUILD")
    assert hx.sql("SHOW INDEXES").num_rows == 1  # type: ignore[union-attr]


def test_a_name_that_no_catalog_has_starts_no_session(path: Path) -> None:
    code = """
import sys, hindex
from hindex.errors import UnknownTableError
for text in sys.stdin.read().splitlines():
    try:
        hindex.connect().sql(text)
    except UnknownTableError as error:
        print(error)
assert "pyspark" not in sys.modules
"""
    cases = {
        "SELECT * FROM users": "Quote the path: FROM 'users'",
        "SHOW INDEXES ON `users/x.orc`": "Quote the path: FROM 'users/x.orc'",
        "EXPLAIN SELECT * FROM user": "Did you mean the path 'users'? Quote it",
        "CREATE INDEX i USING bitmap ON db.t (a)": "Quote a path: FROM 'data/users'",
    }
    gone = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(cases),
        env={name: value for name, value in os.environ.items() if name not in gone},
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    message = ran.stdout.splitlines()
    end = "; to find it in a catalog, use hindex.connect(spark=spark) or --master 'local[*]'"
    assert [line.partition("'. ")[2].partition(end)[0] for line in message] == list(cases.values())
    assert all(line.endswith(end) for line in message)


def test_nothing_of_spark_is_loaded_by_a_query(path: Path, tmp_path: Path) -> None:
    code = f"""
import sys, hindex
scan = hindex.connect().table({str(path)!r}).scan("a = 3", ["id"])
assert scan.count() == 50 and scan.to_arrow().num_rows == 50
assert hindex.connect().table({str(path)!r}).indexes() == []
assert "pyspark" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=tmp_path)


def test_the_limit_of_a_count_is_of_its_one_row(path: Path) -> None:
    hx = hindex.connect()
    for limit, rows in [(0, []), (1, [500]), (7, [500]), (1000, [500])]:
        result = hx.sql(f"SELECT COUNT(*) FROM '{path}' LIMIT {limit}")
        assert isinstance(result, QueryResult)
        assert result.to_arrow().column("count(1)").to_pylist() == rows


def test_drop_on_a_missing_table(path: Path) -> None:
    hx = hindex.connect()
    with raises(TableError):
        hx.sql(f"DROP INDEX x ON '{path}/nope'")
    with pytest.raises(IndexNotFoundError):
        hx.sql(f"DROP INDEX x ON '{path}'")
    nope = f"{path}/nope"
    assert hx.sql(f"DROP INDEX IF EXISTS x ON '{nope}'") == DropResult("x", nope, None, 0, False)


def test_a_path_that_is_too_long() -> None:
    with pytest.raises(TableError, match="File name too long"):
        hindex.connect().sql(f"SELECT * FROM '{'a' * 300}'")


def test_places_that_are_neither_text_nor_paths(path: Path) -> None:
    hx = hindex.connect()
    assert ids(hx.table(path).scan("id < 3")) == [0, 1, 2]
    with raises(TypeError):
        hx.table(b"big")  # type: ignore[arg-type]
    with raises(TypeError):
        hx.table(5)  # type: ignore[arg-type]
    with raises(TypeError):
        hindex.connect(b"x")  # type: ignore[arg-type]
    for made in (lambda: hx.table(Path("s3://b/x")), lambda: hindex.connect(Path("abfs://b/x"))):
        with raises(ValueError):
            made()
    # one slash is enough there
    assert hx.table(Path(f"file://{path}")).uri == str(path)


@pytest.mark.parametrize("argument", [5, None, b"SELECT 1", ["SELECT 1"]])
def test_statements_must_be_strings(argument: Any) -> None:
    with raises(StatementError):
        hindex.connect().sql(argument)


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("HINDEX_CACHE_BYTES", "bytes, 0 for no cache"),
        ("HINDEX_ORC_CACHE_BYTES", "bytes, 0 for no cache"),
        ("HINDEX_REQUESTS", "requests from 1 to 1024"),
    ],
)
def test_a_bound_of_the_environment_that_is_none(variable: str, remedy: str) -> None:
    """It is message at once: of an index that cannot be asked for it, EXPLAIN alone would tell."""
    code = f"import os; os.environ[{variable!r}] = '64m'; import hindex; hindex.connect()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = f"{variable} is '64m': set it to a number of {remedy}"
    assert ran.stderr.strip().splitlines()[-1].endswith(message), ran.stderr


def test_queries_import_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is forked while a thread imports a module cannot import it."""
    local_build.install(monkeypatch)
    columns = {name: pa.array(range(2000)) for name in ("a", "b", "c", "d")}
    write_columns(tmp_path / "t" / "x.orc", columns, codec="zstd", stride=100)
    table = LocalConnection().table(str(tmp_path / "t"))
    for name, using in zip("abcd", ("bitmap", "btree", "bloom", "minmax"), strict=True):
        table.create_index(f"by_{name}", name, using)
    program = f"""
import sys
import hindex

class Finder:
    def find_spec(self, name, path=None, target=None):
        assert name.split(".")[0] not in ("hindex", "sqlglot", "zstandard", "BTrees", "mmh3"), name

table = hindex.connect().table({table.uri!r})
sys.meta_path.insert(0, Finder())
for where in ("a = 5", "b = 5", "c = 5", "d = 5", "a IN (1, 5) AND b = 5", "a + 1 = 6"):
    for _ in range(4):
        assert table.scan(where).to_arrow().column("a").to_pylist() == [5], where
        assert table.scan(where).count() == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)
