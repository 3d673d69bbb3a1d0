"""Spark tasks of a scan: groups of stripes, split and combined by their bytes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.errors import FallbackError
from hindex.orc import OrcReader
from hindex.plan.modes import Mode
from hindex.plan.reasons import Note, Reason
from hindex.scan.scan_task import StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.spark import tasks as spark_tasks
from hindex.spark.tasks import TaskGroup, group_tasks, read_group, task_frame
from tests.support.small import write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 3


@pytest.fixture
def scan(tmp_path: Path) -> hindex.Scan:
    for file in range(FILES):
        write_rows(tmp_path / f"{file}.orc", file * 3000, [i % 10 for i in range(3000)])
    return hindex.connect().table(str(tmp_path)).scan("a > 5", ["id"])


def rows(groups: list[TaskGroup]) -> list[Any]:
    return [
        number for group in groups for batch in read_group(group) for number in batch.column(0).to_pylist()
    ]


def test_small_files_are_combined(scan: hindex.Scan) -> None:
    (group,) = group_tasks(scan.plan(), 4)
    assert group == tuple(task for task in scan.plan().tasks)
    assert len(group) == FILES
    assert group_tasks(hindex.connect().table(scan.plan().snapshot.listing.uri).scan("FALSE").plan(), 4) == []


@pytest.mark.parametrize("cores", [1, 2, 7, 1000])
def test_large_files_are_cut(scan: hindex.Scan, cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "MIN_BYTES", 100)
    plan = scan.plan()
    groups = group_tasks(plan, cores)
    stripes = {view.file.path: view.num_stripes for view in plan.snapshot.files}
    assert min(stripes.values()) > 5
    # the tasks cover every stripe once, in order; the last task of a file has no end
    for path in stripes:
        tasks = [task for group in groups for task in group if task.path == path]
        assert [task.end_stripe for task in tasks] == [*(task.first_stripe for task in tasks[1:]), None]
        assert tasks[0].first_stripe == 0
    assert rows(groups) == scan.to_arrow()["id"].to_pylist()
    if cores == 1000:
        assert len(groups) == sum(stripes.values())
    else:
        assert cores <= len(groups) <= 4 * cores + FILES


def test_a_task_has_no_more_than_its_limit(scan: hindex.Scan) -> None:
    (group,) = group_tasks(scan.plan(), 1)
    wanted = scan.to_arrow()["id"].to_pylist()
    for limit in (0, 1, 1201, 5000):
        ids = [number for batch in read_group(group, limit) for number in batch.column(0).to_pylist()]
        assert ids == wanted[:limit]


@pytest.mark.parametrize("mode", [Mode.LENIENT, Mode.STRICT])
def test_an_index_that_fails_while_rows_are_read(
    scan: hindex.Scan, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    """As columns are that an index stores: strict mode ends the task, at the last stripe, too."""
    plan = scan.plan()
    (group,) = group_tasks(plan, 1)
    last = list(plan.tasks)[-1]
    read = ScanTaskReader.read

    def read_with_note(self: ScanTaskReader, result: StripeResult, *arguments: Any) -> pa.RecordBatch:
        if self.task.path == last.path and result.stripe == self.stripes[-1]:
            self.notes.append(Note(Reason.CORRUPT, "by_x", "a block is damaged"))
        return read(self, result, *arguments)

    monkeypatch.setattr(ScanTaskReader, "read", read_with_note)
    if mode is Mode.STRICT:
        with pytest.raises(FallbackError, match="a block is damaged"):
            list(read_group(group, mode=mode))
    else:
        assert sum(batch.num_rows for batch in read_group(group, mode=mode)) == scan.count()


def text(i: int) -> str:
    return f"{i * 7919 % 10007} {i * 104729 % 100003} {i}"


def test_stripes_behind_a_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {"id": pa.array(range(20_000)), "s": pa.array(list(map(text, range(20_000))))}
    write_columns(tmp_path / "t" / "a.orc", columns, codec="zstd", stripe=1 << 12, stride=500)
    scan = hindex.connect().table(str(tmp_path / "t")).scan("id % 500 < 3", ["s"])
    (group,) = group_tasks(scan.plan(), 1)
    wanted = [text(i) for i in range(20_000) if i % 500 < 3]
    reads: list[int] = []
    read = OrcReader.read_stripe

    def spy(self: OrcReader, stripe: int, names: Any, *arguments: Any) -> pa.RecordBatch:
        if "s" in names:
            reads.append(stripe)
        return read(self, stripe, names, *arguments)

    monkeypatch.setattr(OrcReader, "read_stripe", spy)
    assert rows([group]) == wanted
    with OrcReader(tmp_path / "t" / "a.orc") as reader:
        stripes = len(reader.stripes)
    assert stripes > 2
    assert sorted(reads) == list(range(stripes))
    reads.clear()
    assert [text for batch in read_group(group, 2) for text in batch.column(0).to_pylist()] == wanted[:2]
    assert reads == [0]


def numbered_rows(task: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"n": [task], "t": [str(task)]})


@pytest.mark.parametrize("rows", [0, 10, 700_000, 10**12])
def test_a_frame_has_an_estimated_size(rows: int, spark: SparkSession) -> None:
    schema = pa.schema([("n", pa.int64()), ("t", pa.string())])
    frame = task_frame(spark, [7, 8, 9], numbered_rows, schema, rows=rows)
    # Spark runs each task once, whatever the number of rows
    assert sorted(row["n"] for row in frame.collect()) == [7, 8, 9]
    assert frame.rdd.getNumPartitions() == 3
    size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    # Spark broadcasts a table of less than 10 MiB for a join
    assert (size > 10 << 20) == (rows >= 700_000)


class _RangeFrame:
    """Stands in for a session and its DataFrame: ``mapInArrow`` returns the function that runs the tasks."""

    def range(self, *_: int) -> _RangeFrame:
        return self

    def mapInArrow(self, run: Any, _: Any) -> Any:  # noqa: N802 a method of PySpark's
        return run


def test_imported_modules_are_no_part_of_collections_after_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_tasks, "check_workers", lambda _: None)
    batch = pa.RecordBatch.from_pydict({"a": [1]})
    session: Any = _RangeFrame()
    run: Any = task_frame(session, ["task"], lambda _: iter([batch]), batch.schema)
    spark_tasks.freeze_objects.cache_clear()
    gc.unfreeze()
    try:
        assert list(run(iter([pa.RecordBatch.from_pydict({"id": [0]})]))) == [batch]
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        spark_tasks.freeze_objects.cache_clear()
