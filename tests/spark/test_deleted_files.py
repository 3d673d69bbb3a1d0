"""Data files that are deleted during a query: rows of one state, or one clear error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.errors import DeletedFileError
from hindex.orc import OrcReader
from hindex.queries import selectivity
from hindex.spark import scan as scan_frame
from hindex.spark.jobs import failure_message
from tests.support.messages import raises
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for number in range(FILES):
        write_rows(tmp_path / "t" / f"{number}.orc", 10 * number, [i % 2 for i in range(10)])
    return tmp_path / "t"


@pytest.fixture
def table(path: Path, spark: SparkSession) -> hindex.Table:
    """Index the table in a separate store, since INSERT OVERWRITE empties the table's directory."""
    table = hindex.connect(str(path.parent / "store"), spark).table(str(path))
    table.create_index("by_a", "a")
    return table


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


@pytest.mark.parametrize("values", [0, 1_000_000], ids=["executors", "here"])
def test_a_frame_is_planned_once_more(
    values: int,
    table: hindex.Table,
    path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark overwrites the table after the plan, and before the first file is opened."""
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", values)
    done: list[str] = []

    def open_reader(uri: str, **options: Any) -> Any:
        if not done:
            done.append(uri)
            rows = spark.range(100, 120).selectExpr("id", "CAST(id % 2 AS int) AS a", "'x' AS s")
            rows.write.mode("overwrite").orc(str(path))
            table.refresh_indexes()
        return OrcReader(uri, **options)

    monkeypatch.setattr("hindex.scan.scan_task_reader.OrcReader", open_reader)
    caplog.set_level(logging.INFO, "hindex.scan")
    frame = table.scan("a = 1", ["id"]).to_spark(spark)
    assert done
    lines = [record.getMessage() for record in caplog.records]
    monkeypatch.setattr("hindex.scan.scan_task_reader.OrcReader", OrcReader)
    assert ids(frame) == list(range(101, 120, 2))
    # the failed attempt is not logged
    (line,) = lines
    assert line.startswith(f"SELECT id FROM {path} WHERE a = 1: ")
    assert " through by_a (BITMAP)" in line
    assert ("2 of 2 files left to Spark's executors" if values == 0 else "10 rows for Spark") in line


def test_a_frame_of_deleted_files_fails_with_one_line(
    table: hindex.Table, path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", 0)
    frame = table.scan("a = 1", ["id"]).to_spark(spark)
    assert len(ids(frame)) == 5 * FILES
    (path / "2.orc").unlink()
    with pytest.raises(Exception, match="DeletedFileError") as caught:
        frame.collect()
    assert failure_message(caught.value) == (
        f"data file {str(path / '2.orc')!r} was deleted or replaced after the DataFrame was made: make it again, which "
        "lists the table anew"
    )
    # the worker's error has no chained traceback
    assert "direct cause" not in str(caught.value)
    assert len(ids(table.scan("a = 1", ["id"]).to_spark(spark))) == 5 * (FILES - 1)


def test_missing_files_are_not_skipped(
    path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query never returns the rows of only some files, whatever the settings for missing files."""
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", 0)
    settings = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")
    for name in settings:
        spark.conf.set(name, "true")
    try:
        scan = hindex.connect(spark=spark).table(str(path)).scan(None, ["id"])
        frame = scan.to_spark(spark)
        assert "PythonMapInArrow" not in frame._jdf.queryExecution().toString()
        assert len(ids(frame)) == 10 * FILES
        frame = scan.to_spark(spark)
        (path / "2.orc").unlink()
        with pytest.raises(Exception, match=r"2\.orc"):
            frame.collect()
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_a_query_whose_tables_spark_reads_fails_with_one_line(path: Path, spark: SparkSession) -> None:
    """One line replaces Spark's own error, which has a hundred lines of Java."""
    path = path.rename(path.parent / "with blank")
    text = f"SELECT length(t.s) AS n FROM '{path}' t JOIN range(0, 100) r ON t.id = r.id"
    hx = hindex.connect(spark=spark)
    results: list[Any] = [hx.sql(text) for _ in range(3)]
    (path / "2.orc").unlink()
    for read in (results[0].to_arrow, results[1].count, lambda: results[2].max("n")):
        with raises(DeletedFileError) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__
    again: Any = hx.sql(text)
    assert again.count() == 10 * (FILES - 1)


def test_a_query_of_spark_fails_with_one_line(
    table: hindex.Table, path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectivity, "MAX_SHARE", 1.0)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", 0)
    hx = hindex.connect(str(path.parent / "store"), spark)
    text = f"SELECT t.id FROM '{path}' t JOIN range(0, 100) r ON t.id = r.id WHERE t.a = 1"
    description = spark.sparkContext.getLocalProperty("spark.job.description")
    result: Any = hx.sql(text)
    assert isinstance(result, QueryResult)
    assert result.to_arrow().num_rows == 5 * FILES
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    descriptions = {jobs.apply(at).description().toString() for at in range(jobs.size())}
    assert any(item.startswith("Some(hindex: SELECT t.id FROM ") for item in descriptions)
    assert spark.sparkContext.getLocalProperty("spark.job.description") == description
    # Spark may still cache the broadcast of a result that was read before
    results: list[Any] = [hx.sql(text) for _ in range(4)]
    (path / "2.orc").unlink()
    for read in (
        results[0].to_arrow,
        results[1].count,
        lambda: results[2].max("id"),
        lambda: results[3].value_counts("id"),
    ):
        with raises(DeletedFileError) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert caught.value.__suppress_context__
