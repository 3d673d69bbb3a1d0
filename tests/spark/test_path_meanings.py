"""Paths that mean another place to Spark than to this process: Spark reads, or both read the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.queries.query_execution import explain_query
from hindex.spark.locations import path_difference, spark_path
from hindex.sql.queries import parse_query
from hindex.table.location import normalize_uri
from tests.spark.layouts import rows
from tests.support.cases import sampled
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")


def make_table(hx: hindex.Connection, path: Path, first: int) -> None:
    write_columns(path / "1.orc", {"id": pa.array(range(first, first + 5), pa.int32())})
    hx.table(path).create_index("i", "id")


def java_directory(spark: SparkSession) -> str:
    java: Any = spark._jvm
    return str(java.System.getProperty("user.dir"))


def check(spark: SparkSession, path: str, where: str, difference: str | None) -> None:
    """Compare an accelerated session with Spark alone."""
    text = f"SELECT * FROM orc.`{path}` WHERE {where}"
    expected = rows(spark.sql(text).toArrow())
    hx = hindex.connect(spark=spark)
    found = path_difference(spark, path, normalize_uri(path))
    assert found is None if difference is None else difference in str(found)
    with hindex.accelerate(spark):
        assert rows(spark.sql(text).toArrow()) == expected
    query = parse_query(text)
    assert query is not None
    (table,) = explain_query(hx, query).tables
    assert table.is_accelerated is (difference is None)
    assert table.detail == (found or "")


@sampled(2)
@pytest.mark.parametrize("name", ["t*", "t[12]", "t?", "{t1,t2}"])
def test_names_that_are_patterns(spark: SparkSession, tmp_path: Path, name: str) -> None:
    hx = hindex.connect(spark=spark)
    make_table(hx, tmp_path / name, 0)
    for number, other in enumerate(("t1", "t2")):
        make_table(hx, tmp_path / other, 10 * number + 3)
    check(spark, str(tmp_path / name), "id = 3", "is a pattern to Spark")
    # a path in quotes is never a pattern, whoever reads it
    result: Any = hx.sql(f"SELECT sum(id) + max(id) AS n FROM '{tmp_path / name}'")
    assert result.to_arrow().to_pylist() == [{"n": 14}]
    check(spark, str(tmp_path / "t1"), "id = 3", None)


def test_relative_paths(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java resolves them in the directory in which it was started."""
    hx = hindex.connect(spark=spark)
    make_table(hx, tmp_path / "t", 0)
    path = os.path.relpath(tmp_path / "t", java_directory(spark))
    below = tmp_path / "a/b/c/d/e/f/g/h/i"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    make_table(hx, Path(normalize_uri(path)), 3)
    check(spark, path, "id = 3", "to Spark")
    result: Any = hx.sql(f"SELECT sum(id) + max(id) AS n FROM '{path}'")
    assert result.to_arrow().to_pylist() == [{"n": 32}]
    monkeypatch.chdir(java_directory(spark))
    check(spark, path, "id = 3", None)


def test_parents_of_links(spark: SparkSession, tmp_path: Path) -> None:
    """To Hadoop, ``link/../t`` is ``t`` beside the link; to the operating system, it is beside the link's target."""
    hx = hindex.connect(spark=spark)
    make_table(hx, tmp_path / "t", 0)
    make_table(hx, tmp_path / "other/t", 3)
    (tmp_path / "other/d").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "other/d")
    check(spark, f"{tmp_path}/link/../t", "id = 3", "to Spark")
    check(spark, f"{tmp_path}/other/d/../t", "id = 3", None)
    check(spark, f"file://{tmp_path}/t/", "id = 3", None)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a b/c", "file:/a b/c"),
        ("/a%20b", "file:/a%20b"),
        ("/t*/x", "file:/t\\*/x"),
        ("s3://b/t[1]", "s3://b/t\\[1\\]"),
        ("/a:b", "file:/a:b"),
    ],
)
def test_paths_for_spark(uri: str, path: str) -> None:
    assert spark_path(uri) == path


@pytest.mark.parametrize("name", ["a b", "a%20b", "a:b", "a#b", "a+b", "é", "a=b"])
def test_names_that_need_quotes_in_uris(spark: SparkSession, tmp_path: Path, name: str) -> None:
    hx = hindex.connect(spark=spark)
    make_table(hx, tmp_path / name / "t", 0)
    result: Any = hx.sql(f"SELECT sum(id) + max(id) AS n FROM '{tmp_path / name / 't'}'")
    assert result.to_arrow().to_pylist() == [{"n": 14}]
    assert hx.table(str(tmp_path / name / "t")).scan().to_spark(spark).count() == 5
