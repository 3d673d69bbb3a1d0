"""Jobs of hindex describe their purpose, and keep the caller's own description."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import hindex
from hindex.build.task import run_build_tasks
from hindex.errors import BuildError
from hindex.progress import NullProgress
from hindex.spark.jobs import collect, job_description
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = "spark.job.description"


def run_and_record(run: Any, path: str, task: Any) -> Iterator[pa.RecordBatch]:
    """Run a task, and append the description of its job to a file."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    with Path(path).open("a") as file:
        file.write(f"{context.getLocalProperty(DESCRIPTION)}\n")
    yield from run(task)


def fail(task: Any) -> Iterator[pa.RecordBatch]:
    raise OSError("disk full")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> hindex.Table:
    for number in range(3):
        write_rows(tmp_path / "t" / f"{number}.orc", 4 * number, [1, 2, 3, 4])
    return hindex.connect(spark=spark).table(str(tmp_path / "t"))


@pytest.fixture
def description(spark: SparkSession) -> Iterator[str]:
    spark.sparkContext.setJobDescription("nightly report")
    yield "nightly report"
    spark.sparkContext.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def test_builds_describe_their_jobs(
    table: hindex.Table,
    spark: SparkSession,
    description: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "descriptions"
    monkeypatch.setattr(
        "hindex.build.job.run_build_tasks", partial(run_and_record, run_build_tasks, str(path))
    )

    def recorded_descriptions() -> set[str]:
        lines = set(path.read_text().splitlines())
        path.unlink()
        assert spark.sparkContext.getLocalProperty(DESCRIPTION) == description
        return lines

    table.create_indexes([hindex.IndexSpec("i", "a"), hindex.IndexSpec("j", "s")])
    assert recorded_descriptions() == {f"hindex: CREATE INDEX i, j ON {table.name} (3 files)"}
    write_rows(tmp_path / "t" / "3.orc", 100, [1])
    table.refresh_indexes(["i"])
    assert recorded_descriptions() == {f"hindex: REFRESH INDEX i ON {table.name} (1 file)"}
    table.rebuild_index("j")
    assert recorded_descriptions() == {f"hindex: ALTER INDEX j ON {table.name} REBUILD (4 files)"}


def test_jobs_of_btree_indexes_are_described(
    table: hindex.Table, spark: SparkSession, description: str
) -> None:
    """The status store has the descriptions that Spark's UI shows."""
    context: Any = spark.sparkContext._jsc.sc()

    def descriptions() -> list[str]:
        context.listenerBus().waitUntilEmpty()
        jobs = context.statusStore().jobsList(None)
        options = [jobs.apply(at).description() for at in range(jobs.size())]
        return [option.get() for option in options if option.isDefined()]

    before = descriptions().count(description)
    table.create_index("b", "a", using="btree")
    after = descriptions()
    assert f"hindex: CREATE INDEX b ON {table.name} (3 files)" in after
    assert after.count(description) == before
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) == description


def test_a_failed_build_leaves_the_description(
    table: hindex.Table, spark: SparkSession, description: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindex.build.job.run_build_tasks", fail)
    with pytest.raises(BuildError, match="disk full") as caught:
        table.create_index("i", "a")
    # neither the error nor its traceback contains Java
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) == description


def test_a_missing_description_stays_missing(spark: SparkSession) -> None:
    with job_description(spark, "a,\n b"):
        assert spark.sparkContext.getLocalProperty(DESCRIPTION) == "hindex: a, b"
    assert spark.sparkContext.getLocalProperty(DESCRIPTION) is None


class ConnectSession:
    """The methods of a Spark Connect session that descriptions need."""

    def __init__(self) -> None:
        self.tags = {"users"}

    def getTags(self) -> set[str]:  # noqa: N802
        return set(self.tags)

    def addTag(self, tag: str) -> None:  # noqa: N802
        assert "," not in tag
        self.tags.add(tag)

    def removeTag(self, tag: str) -> None:  # noqa: N802
        self.tags.discard(tag)


def test_operations_of_spark_connect_are_tagged() -> None:
    session: Any = ConnectSession()

    def run() -> None:
        with job_description(session, "CREATE INDEX i, j ON t"):
            assert session.tags == {"users", "hindex: CREATE INDEX i; j ON t"}
            with job_description(session, "CREATE INDEX i, j ON t"):
                pass
            assert len(session.tags) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert session.tags == {"users"}


def test_an_interruption_that_fails_is_a_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(tag: str) -> None:
        raise RuntimeError(f"no tag {tag}\n\tat org.apache.spark.Some")

    monkeypatch.setattr(spark, "interruptTag", refuse)
    frame = spark.sql("SELECT raise_error('no such page')")
    with pytest.raises(BuildError, match="no such page"):
        collect(spark, frame, "b7", NullProgress(), 1)
    assert caplog.messages == [
        "Spark may go on with a failed build: interrupting it failed: no tag hindex-build-b7"
    ]
