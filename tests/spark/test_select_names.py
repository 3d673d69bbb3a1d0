"""Columns of a SELECT that hindex answers have the names that Spark gives them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SELECTS = [
    "SELECT addr.city FROM {}",
    "SELECT ID, addr.CITY, `addr`.zip FROM {}",
    "SELECT addr.city, city FROM {}",
    "SELECT addr.city, addr.zip AS z, ID FROM {} WHERE addr.zip > 1",
    "SELECT id, id FROM {}",
    "SELECT addr.city FROM {} ORDER BY addr.city DESC",
    "SELECT addr.city AS c, city FROM {} ORDER BY c",
    "SELECT ADDR.City FROM {} ORDER BY city LIMIT 2",
    "SELECT deep.inner.x, deep.`inner` FROM {}",
    "SELECT DISTINCT addr.City FROM {} ORDER BY city",
    "SELECT addr.CITY, count(*), addr.city FROM {} GROUP BY addr.city",
    "SELECT addr.city, count(*) FROM {} GROUP BY addr.city HAVING city = 'x' ORDER BY 2",
    "SELECT MIN(addr.CITY), MAX(ID), COUNT(DISTINCT Addr.city) FROM {}",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "t"
    columns = {
        "id": pa.array([1, 2, 3]),
        "city": pa.array(["a", "b", "c"]),
        "addr": pa.array([{"city": "x", "Zip": 1}, {"city": "y", "Zip": 2}, {"city": "x", "Zip": 3}]),
        "deep": pa.array([{"inner": {"x": 1}}] * 3),
    }
    write_columns(path / "1.orc", columns)
    return path


@pytest.mark.parametrize("text", SELECTS)
def test_names_are_those_of_spark(text: str, spark: SparkSession, place: Path) -> None:
    result: Any = hindex.connect().sql(text.format(f"'{place}'"))
    expected = spark.sql(text.format(f"orc.`{place}`"))
    table = result.to_arrow()
    assert table.schema.names == expected.columns
    rows = sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))
    assert rows == sorted(repr(tuple(_plain(value) for value in row)) for row in expected.collect())
    assert result.schema.names == expected.columns
    assert result.to_spark(spark).columns == expected.columns


def test_tables_and_keywords_take_precedence_over_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Spark resolves a name before a dot to a table first."""
    fields = pa.array([{"a": 3, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 1}])
    columns = {name: pa.array([5, 6, 7]) for name in ("all", "true", "null")}
    write_columns(
        tmp_path / "1.orc", {"id": pa.array([1, 2, 3]), "a": pa.array([1, 2, 3]), "nt": fields, **columns}
    )
    spark.sql(f"CREATE TABLE nt USING orc LOCATION '{tmp_path}'")
    try:
        hx = hindex.connect(spark=spark)
        for text in (
            "SELECT id FROM nt WHERE nt.a = 3",
            "SELECT nt.a, nt.b FROM nt WHERE id = 1",
            "SELECT id FROM nt ORDER BY NT.A",
            "SELECT max(nt.a) FROM nt WHERE id < 3",
            "SELECT id FROM default.nt WHERE default.nt.a = 3",
            "SELECT id FROM default.nt WHERE DEFAULT.NT.A = 3",
            "SELECT a, count(*) FROM default.nt GROUP BY a HAVING count(DISTINCT default.nt.id) > 0",
            "SELECT nt.nt.a FROM nt",
            "SELECT ALL id, a FROM nt",
            "SELECT ALL id FROM nt",
            "SELECT true, id FROM nt",
            "SELECT COUNT(null) FROM nt",
            "SELECT null, count(*) FROM nt GROUP BY null",
            "SELECT `true`, `null` AS n FROM nt",
        ):
            result: Any = hx.sql(text)
            wanted = spark.sql(text)
            rows = result.to_arrow().to_pylist()
            if "ORDER" not in text:
                rows.sort(key=repr)
            assert rows == sorted(wanted.toArrow().to_pylist(), key=repr), text
    finally:
        spark.sql("DROP TABLE nt")


def test_the_table_of_a_database_takes_precedence_over_fields(spark: SparkSession, tmp_path: Path) -> None:
    """A struct may have the name of the current database, and a field of it that of the table."""
    fields = pa.array([{"t": {"a": value}} for value in (3, 2, None)])
    columns = {"id": pa.array([1, 2, 3]), "a": pa.array([None, 2, 3]), "s": fields}
    write_columns(tmp_path / "1.orc", columns)
    spark.sql("CREATE DATABASE s")
    spark.sql("USE s")
    spark.sql(f"CREATE TABLE t USING orc LOCATION '{tmp_path}'")
    try:
        hx = hindex.connect(spark=spark)
        for text in (
            "SELECT id FROM t WHERE s.t.a = 3",
            "SELECT id FROM t WHERE S.T.a = 3",
            "SELECT id, S.T.A FROM t",
            "SELECT id, count(*) FROM t GROUP BY id HAVING count(DISTINCT S.T.a) > 0",
            "SELECT id, s.t.s.t.a AS f FROM s.t",
        ):
            result: Any = hx.sql(text)
            wanted = spark.sql(text).toArrow().to_pylist()
            assert sorted(result.to_arrow().to_pylist(), key=repr) == sorted(wanted, key=repr), text
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE s CASCADE")


def _plain(value: Any) -> Any:
    return value.asDict() if hasattr(value, "asDict") else value


def test_a_scan_from_python_keeps_the_path(place: Path) -> None:
    scan = hindex.connect().table(str(place)).scan(columns=["addr.city", "ID"])
    assert scan.schema.names == ["addr.city", "id"]
