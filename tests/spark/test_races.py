"""Writes during builds and queries: rows of one state or one clear error, and no lost index."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import hindex
from hindex.build.job import run_build
from hindex.errors import BuildError, StoreError
from hindex.maintain.results import IndexState
from hindex.plan.reasons import Reason
from hindex.spark import scan as scan_frame
from hindex.spark.jobs import failure_message
from tests.support.cases import cases, nightly, sampled
from tests.support.small import reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("always")

NAME = "raced"
ROWS = "SELECT id, CAST(id % 10 AS INT) AS a, concat('s', id % 7) AS s, CAST(id % 2 AS INT) AS p FROM range({}, {})"
QUERY = f"SELECT id FROM {NAME} WHERE a = 3"


#: The layout of the table, the moment of an overwrite, and whether the index is the first: all pairs by day.
OVERWRITES = [
    ("flat", "before the job", True),
    ("flat", "before the commit", False),
    ("partitioned", "before the job", False),
    ("partitioned", "before the commit", True),
    *(
        pytest.param(layout, moment, is_first, marks=nightly)
        for layout, moment, is_first in [
            ("flat", "before the job", False),
            ("flat", "before the commit", True),
            ("partitioned", "before the job", True),
            ("partitioned", "before the commit", False),
        ]
    ),
]
#: The layout of the table, and the number of values that a query may read without a job: each once by day.
READS = [
    pytest.param("flat", 0, id="flat-executors"),
    pytest.param("partitioned", 1_000_000, id="partitioned-here"),
    pytest.param("flat", 1_000_000, id="flat-here", marks=nightly),
    pytest.param("partitioned", 0, id="partitioned-executors", marks=nightly),
]


@pytest.fixture(params=["flat", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[hindex.Table]:
    """Create a managed table of 100 rows with indexes on ``a`` and ``s``."""
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {NAME} (id BIGINT, a INT, s STRING, p INT) USING orc {by}")
    spark.sql(f"INSERT INTO {NAME} {ROWS.format(0, 100)}")
    table = hindex.connect(spark=spark).table(NAME)
    table.create_indexes([hindex.IndexSpec("by_a", "a"), hindex.IndexSpec("by_s", "s", "btree")])
    yield table
    spark.sql(f"DROP TABLE {NAME}")


def overwrite(spark: SparkSession, first: int, end: int) -> None:
    spark.sql(f"INSERT OVERWRITE {NAME} {ROWS.format(first, end)}")


def expected(first: int, end: int) -> list[int]:
    """Return the ids that `QUERY` selects from rows in a range."""
    return [i for i in range(first, end) if i % 10 == 3]


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


def states(table: hindex.Table) -> dict[str, IndexState]:
    return {index.name: index.state for index in table.indexes()}


@pytest.mark.slow
@pytest.mark.parametrize(("table", "values"), READS, indirect=["table"])
def test_a_frame_that_was_returned(
    table: hindex.Table,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    values: int,
) -> None:
    """It has the rows of the time of its plan, or fails with a one-line error."""
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", values)
    with hindex.accelerate(spark):
        caplog.set_level(logging.INFO, "hindex.queries")
        frame = spark.sql(QUERY)
        # the plan is made now
        frame._jdf.queryExecution().executedPlan()
        assert caplog.messages[-1].startswith(f"accelerated: {NAME} through by_a")
        overwrite(spark, 200, 300)
        if values:
            assert ids(frame) == expected(0, 100)
        else:
            with pytest.raises(Exception, match="DeletedFileError") as caught:
                frame.collect()
            assert failure_message(caught.value).endswith(
                "was deleted or replaced after the DataFrame was made: make it again, which lists the table anew"
            )
        assert ids(spark.sql(QUERY)) == expected(200, 300)
        assert states(table) == {"by_a": IndexState.STALE, "by_s": IndexState.STALE}


@pytest.mark.slow
@pytest.mark.parametrize(("table", "values"), READS, indirect=["table"])
def test_a_table_that_is_overwritten_while_a_query_is_planned(
    table: hindex.Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    """Spark overwrites the table after the plan, and before the first file is opened."""
    from hindex.orc import OrcReader

    monkeypatch.setattr(scan_frame, "MAX_LOCAL_VALUES", values)
    done: list[str] = []

    def open_reader(uri: str, **options: Any) -> Any:
        if not done:
            done.append(uri)
            overwrite(spark, 200, 300)
        return OrcReader(uri, **options)

    with hindex.accelerate(spark):
        monkeypatch.setattr("hindex.scan.scan_task_reader.OrcReader", open_reader)
        result = ids(spark.sql(QUERY))
        monkeypatch.setattr("hindex.scan.scan_task_reader.OrcReader", OrcReader)
        assert done
        assert result == expected(200, 300)
        assert ids(spark.sql(QUERY)) == expected(200, 300)


@pytest.mark.slow
@sampled(1)
def test_a_nightly_overwrite_and_refresh(
    table: hindex.Table, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hindex.queries")
    with hindex.accelerate(spark):
        for night in range(1, cases(2, 3) + 1):
            first = 1000 * night
            overwrite(spark, first, first + 200)
            assert ids(spark.sql(QUERY)) == expected(first, first + 200)
            assert caplog.messages[-1].startswith(f"not accelerated: {NAME} by Spark: ")
            assert [row.name for row in spark.sql(f"SHOW INDEXES ON {NAME}").collect()] == ["by_a", "by_s"]
            assert set(states(table).values()) == {IndexState.STALE}
            (refreshed,) = spark.sql(f"REFRESH INDEXES ON {NAME}").collect()
            assert refreshed.rows == 200
            assert states(table) == {"by_a": IndexState.FRESH, "by_s": IndexState.FRESH}
            assert ids(spark.sql(QUERY)) == expected(first, first + 200)
            assert caplog.messages[-1].startswith(f"accelerated: {NAME} through by_a")
            # queries also read rows that are inserted after the refresh
            spark.sql(f"INSERT INTO {NAME} {ROWS.format(first + 200, first + 250)}")
            assert ids(spark.sql(QUERY)) == expected(first, first + 250)


@pytest.mark.slow
@sampled(2)
@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_a_table_that_is_overwritten_by_its_own_rows(
    table: hindex.Table, spark: SparkSession, mode: str
) -> None:
    """Spark allows this only for dynamic partitions."""
    from pyspark.errors import PySparkException

    def outcome(name: str) -> tuple[str, list[int]]:
        condition = ""
        try:
            spark.sql(f"INSERT OVERWRITE {name} SELECT id + 1000, a, s, p FROM {name} WHERE a = 3")
        except PySparkException as error:
            condition = str(error.getCondition())
        return condition, ids(spark.table(name))

    is_partitioned = any(column.isPartition for column in spark.catalog.listColumns(NAME))
    layout = " PARTITIONED BY (p)" if is_partitioned else ""
    spark.sql(f"CREATE TABLE twin USING orc{layout} AS SELECT * FROM {NAME}")
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        wanted = outcome("twin")
        with hindex.accelerate(spark):
            assert outcome(NAME) == wanted
            assert set(states(table)) == {"by_a", "by_s"}
            table.refresh_indexes()
            assert set(states(table).values()) == {IndexState.FRESH}
            assert ids(spark.sql(QUERY)) == ids(spark.table(NAME).where("a = 3"))
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("DROP TABLE twin")


def build_between(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[], object], after: Callable[[], object]
) -> None:
    """Call ``before`` ahead of the job of the next build, and ``after`` between job and commit."""
    name, real = "hindex.maintain.builds.run_build", run_build

    def run(*arguments: Any) -> Any:
        monkeypatch.setattr(name, real)
        before()
        files = real(*arguments)
        after()
        return files

    monkeypatch.setattr(name, run)


@pytest.mark.slow
@sampled(1)
def test_rows_that_are_inserted_during_a_build(
    table: hindex.Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_between(
        monkeypatch,
        lambda: spark.sql(f"INSERT INTO {NAME} {ROWS.format(100, 120)}"),
        lambda: spark.sql(f"INSERT INTO {NAME} {ROWS.format(120, 140)}"),
    )
    table.create_index("by_id", "id")
    assert set(states(table).values()) == {IndexState.STALE}
    scan = table.scan("id BETWEEN 95 AND 125", ["id"])
    assert sorted(scan.to_arrow().column("id").to_pylist()) == list(range(95, 126))
    assert set(reasons(scan)) == {Reason.NEW_FILE}
    with hindex.accelerate(spark):
        assert ids(spark.sql(f"SELECT id FROM {NAME} WHERE id BETWEEN 95 AND 125")) == list(range(95, 126))
    table.refresh_indexes()
    assert set(states(table).values()) == {IndexState.FRESH}
    assert table.scan("id BETWEEN 95 AND 125").explain().exact


@pytest.mark.slow
@pytest.mark.parametrize(("table", "moment", "is_first"), OVERWRITES, indirect=["table"])
def test_a_table_that_is_overwritten_during_a_build(
    table: hindex.Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, moment: str, is_first: bool
) -> None:
    """The overwrite also deletes the store."""
    others = {"by_a", "by_s"}
    if is_first:
        for name in sorted(others):
            table.drop_index(name)
        overwrite(spark, 0, 100)
        others = set()
        assert not table.indexes()

    def write() -> None:
        overwrite(spark, 200, 300)

    def do_nothing() -> None:
        pass

    build_between(monkeypatch, *((write, do_nothing) if moment == "before the job" else (do_nothing, write)))
    problem = ""
    try:
        table.create_index("by_id", "id")
    except (BuildError, StoreError) as error:
        problem = str(error)
    assert "\n" not in problem
    assert problem or is_first
    with hindex.accelerate(spark):
        for _ in range(2):
            assert ids(spark.sql(QUERY)) == expected(200, 300)
            assert table.scan("id = 222").count() == 1
            assert table.scan("s = 's3'").count() == len([i for i in range(200, 300) if i % 7 == 3])
            assert others <= set(states(table))
            if others:
                table.refresh_indexes()
                assert set(states(table).values()) == {IndexState.FRESH}
    if "by_id" in states(table):
        table.refresh_indexes()
    else:
        table.create_index("by_id", "id")
    assert table.scan("id = 222").explain().exact


@sampled(1)
@pytest.mark.slow
def test_writers_builders_and_readers_at_once(spark: SparkSession, table: hindex.Table) -> None:
    """Each INSERT adds ten rows with one value of ``a``: a query returns all or none of them."""
    turns, problems = 8, list[str]()
    stop = threading.Event()

    def run(work: Callable[[SparkSession], None]) -> threading.Thread:
        def run_and_collect_errors() -> None:
            try:
                work(spark.newSession())
            except Exception as error:  # noqa: BLE001 reported below
                problems.append(f"{type(error).__name__}: {error}"[:500])
                stop.set()

        thread = threading.Thread(target=run_and_collect_errors)
        thread.start()
        return thread

    def write(session: SparkSession) -> None:
        for turn in range(turns):
            session.sql(
                f"INSERT INTO {NAME} SELECT id, {100 + turn}, 's', {turn % 2} FROM range(0, 10, 1, 1)"
            )

    def build(session: SparkSession) -> None:
        own = hindex.connect(spark=session).table(NAME)
        while not stop.is_set():
            own.create_index("by_id", "id")
            own.refresh_indexes()
            own.drop_index("by_id")

    def read(session: SparkSession) -> None:
        own = hindex.connect(spark=session).table(NAME)
        seen = 0
        with hindex.accelerate(session):
            while not stop.is_set():
                session.catalog.refreshTable(NAME)
                for turn in range(turns):
                    where = f"a = {100 + turn}"
                    counts = (
                        own.scan(where).count(),
                        session.sql(f"SELECT * FROM {NAME} WHERE {where}").count(),
                    )
                    if not set(counts) <= {0, 10} or (turn < seen and counts != (10, 10)):
                        problems.append(f"{where}: {counts}")
                    if counts == (10, 10) and turn == seen:
                        seen += 1

    others = [run(build), run(read)]
    writer = run(write)
    writer.join()
    stop.set()
    for thread in others:
        thread.join()
    assert problems == []
    table.refresh_indexes()
    assert {name for name in states(table) if name != "by_id"} == {"by_a", "by_s"}
    for turn in range(turns):
        scan = table.scan(f"a = {100 + turn}")
        assert (scan.count(), scan.explain().exact) == (10, True)
