"""Directories that a stream writes: their log says which files count."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.errors import UnsupportedError
from tests.spark.layouts import rows
from tests.support.cases import sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def write_sink(spark: SparkSession, path: Path, partitions: list[str]) -> None:
    """Write 40 rows into a directory by a stream of four batches, of which the first three are compacted."""
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    try:
        for batch in range(4):
            frame = spark.range(10 * batch, 10 * batch + 10).selectExpr("id", "CAST(id % 2 AS INT) AS p")
            frame.coalesce(1).write.mode("append").orc(f"{path}.source")
            stream = spark.readStream.schema("id BIGINT, p INT").orc(f"{path}.source")
            writer = stream.writeStream.format("orc").partitionBy(*partitions).option("path", str(path))
            writer = writer.option("checkpointLocation", f"{path}.checkpoint").trigger(availableNow=True)
            writer.start().awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")


@pytest.mark.slow
@sampled(1)
@pytest.mark.parametrize("partitions", [[], ["p"]])
def test_files_that_the_log_lacks(spark: SparkSession, tmp_path: Path, partitions: list[str]) -> None:
    path = tmp_path / "sink"
    write_sink(spark, path, partitions)
    assert "2.compact" in {item.name for item in (path / "_spark_metadata").iterdir()}
    hx = hindex.connect(spark=spark)
    table = hx.table(str(path))
    table.create_index("i", "id")
    data = sorted(path.rglob("part-*.orc"))[0]
    for stray in {data.with_name("stray.orc"), path / "p=7" / "stray.orc", path / "stray.orc"}:
        stray.parent.mkdir(exist_ok=True)
        shutil.copy(data, stray)
    strays = {str(item.relative_to(path)) for item in path.rglob("stray.orc")}
    for where in ("true", "id = 13", "p = 1 AND id > 5", "p = 7"):
        expected = rows(spark.read.orc(str(path)).where(where).toArrow())
        with pytest.warns(hindex.HindexWarning, match="or its stream's log"):
            assert rows(table.scan(where).to_arrow()) == expected, where
        with pytest.warns(hindex.HindexWarning):
            assert rows(query_rows(hx, f"SELECT * FROM '{path}' WHERE {where}")) == expected, where
    with pytest.warns(hindex.HindexWarning):
        assert table.scan().count() == 40
    assert table.scan("id = 13").explain().exact
    assert set(table.index("i").ignored_files) == strays
    # a directory within has no log for Spark either
    if partitions:
        assert hx.table(str(path / "p=0")).scan().count() == spark.read.orc(str(path / "p=0")).count() > 20


def query_rows(hx: hindex.Connection, text: str) -> pa.Table:
    result = hx.sql(text)
    assert isinstance(result, QueryResult)
    return result.to_arrow()


def test_log_that_names_other_files(spark: SparkSession, tmp_path: Path) -> None:
    """The log has absolute paths: Spark reads a copied directory's files where they were."""
    path, copy = tmp_path / "sink", tmp_path / "copy"
    write_sink(spark, path, ["p"])
    shutil.copytree(path, copy)
    expected = spark.read.orc(str(path)).where("p = 1").toArrow()
    shutil.rmtree(copy / "p=1")
    hx = hindex.connect(spark=spark)
    with raises(UnsupportedError):
        hx.table(str(copy)).scan().to_arrow()
    assert rows(query_rows(hx, f"SELECT * FROM '{copy}' WHERE p = 1")) == rows(expected)
    # a link to a directory has the same files
    (tmp_path / "link").symlink_to(path)
    assert rows(hx.table(str(tmp_path / "link")).scan("p = 1").to_arrow()) == rows(expected)
    for file in (path / "p=1").iterdir():
        file.unlink()
    with raises(UnsupportedError):
        hx.table(str(path)).scan().to_arrow()
