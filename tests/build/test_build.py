"""Building indexes: one pass, all or nothing, and what the manifest says afterwards."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.api.statement_table import StatementTable
from hindex.api.table import IndexSpec, Table
from hindex.build import job
from hindex.build import task as build_task
from hindex.build.job import plan_build, run_build
from hindex.errors import BuildError, HindexError, HindexWarning, IndexExistsError, StoreError
from hindex.orc import OrcReader
from hindex.plan.reasons import Reason
from hindex.progress import NullProgress
from hindex.spark.workers import check_workers
from hindex.store.manifest import IndexEntry, Manifest, new_index_id
from hindex.store.store import Store
from tests.support.messages import raises
from tests.support.oracle import spark_where
from tests.support.small import ids, reasons, store_state, write_columns, write_rows
from tests.support.writers import write_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two files of several stripes; row i has id i and a = i % 10."""
    path = tmp_path / "table"
    write_rows(path / "one.orc", 0, [i % 10 for i in range(2500)])
    write_rows(path / "two.orc", 2500, [i % 10 for i in range(2500, 5000)])
    return path


@pytest.fixture
def table(path: Path, spark: SparkSession) -> Table:
    return hindex.connect(spark=spark).table(str(path))


def garbage(table: Table) -> list[str]:
    return [item.path for item in Store.for_table(table.uri).garbage()]


def test_several_indexes_take_one_pass(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column of every stripe is read once, however many indexes are built on it."""
    read: list[tuple[str, int, tuple[str, ...]]] = []

    whole = OrcReader.read_stripe

    def read_stripe(
        self: OrcReader, stripe: int, columns: Sequence[str] | None = None, *given: Any
    ) -> pa.RecordBatch:
        assert columns is not None
        read.append((Path(self.path).name, stripe, tuple(columns)))
        return whole(self, stripe, columns, *given)

    monkeypatch.setattr(OrcReader, "read_stripe", read_stripe)
    snapshot = table.snapshot()
    entries = [
        IndexEntry(new_index_id(), name, column, "BITMAP", "")
        for name, column in [("x", "a"), ("y", "s"), ("z", "a")]
    ]
    plan = plan_build(snapshot, entries)
    assert [task.path for task in plan.tasks] == ["one.orc", "two.orc"]
    for task in plan.tasks:
        batches = list(build_task.run_build_tasks([task]))
        with OrcReader(task.uri) as reader:
            stripes = len(reader.stripes)
        assert stripes > 2
        assert [call for call in read if call[0] == task.path] == [
            (task.path, stripe, ("a", "s")) for stripe in range(stripes)
        ]
        (row,) = (row for batch in batches for row in batch.to_pylist())
        assert len(row["stripe_rows"]) == stripes
        assert len(row["index_files"]) == 3


def test_several_indexes_are_one_job_and_one_commit(table: Table, spark: SparkSession) -> None:
    # a job of its own, once a session
    check_workers(spark)
    spark.sparkContext.setJobGroup("build", "")
    try:
        made = table.create_indexes(
            [IndexSpec("by_a", "a"), IndexSpec("by_s", "S"), IndexSpec("by_id", "id")]
        )
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("build")) == 1
    assert [(index.name, index.column, index.type, index.status) for index in made] == [
        ("by_a", "a", "BITMAP", "fresh"),
        ("by_s", "s", "BITMAP", "fresh"),
        ("by_id", "id", "BITMAP", "fresh"),
    ]
    manifest = table.snapshot().manifest
    assert manifest.number == 1
    assert [(item.path, item.num_rows, len(item.index_files)) for item in manifest.files] == [
        ("one.orc", 2500, 3),
        ("two.orc", 2500, 3),
    ]
    assert all(len(item.stripe_rows) > 2 and sum(item.stripe_rows) == 2500 for item in manifest.files)
    assert sum(index.size_bytes for index in made) == sum(
        length
        for name, length in ((n, len(d)) for n, d in store_state(table).items())
        if name.endswith(".hidx")
    )
    assert garbage(table) == []
    where = "a IN (1, 2) AND s <> 's2' AND id BETWEEN 100 AND 4000"
    scan = table.scan(where)
    assert scan.explain().exact
    assert ids(scan) == [i for i in range(100, 4001) if i % 10 == 1] == spark_where(spark, table.uri, where)


def test_indexes_of_every_type_are_one_commit(table: Table) -> None:
    types = ("bitmap", "bloom", "btree", "minmax")
    made = table.create_indexes([IndexSpec(f"{c}_{name}", c, name) for c in "as" for name in types])
    assert {(index.type, index.status) for index in made} == {(name.upper(), "fresh") for name in types}
    assert table.snapshot().manifest.number == 1
    assert garbage(table) == []
    for where, keep in [
        ("a = 3 AND s = 's3'", lambda i: i % 10 == 3),
        ("a > 7 OR s IN ('s0', 's1')", lambda i: i % 10 in (8, 9, 0, 1)),
        ("a = 11", lambda i: False),
    ]:
        scan = table.scan(where)
        assert ids(scan) == [i for i in range(5000) if keep(i)], where  # type: ignore[no-untyped-call]
        assert (scan.explain().exact, scan.explain().notes) == (True, ()), where
    before = store_state(table)
    table.refresh_indexes()
    assert store_state(table) == before
    for name in types[1:]:
        table.drop_index(f"a_{name}")
    assert ids(table.scan("a = 3")) == [i for i in range(5000) if i % 10 == 3]


def test_a_second_index_keeps_the_first(table: Table) -> None:
    first = table.create_index("by_a", "a")
    before = store_state(table)
    second = table.create_index("by_s", "s")
    after = store_state(table)
    assert {name: after[name] for name in before} == before
    assert [index.name for index in table.indexes()] == ["by_a", "by_s"]
    assert table.scan("a = 3 AND s = 's3'").explain().exact
    first.drop()
    assert [index.name for index in table.indexes()] == ["by_s"]
    assert reasons(table.scan("a = 3")) == {Reason.NO_INDEX: ["a"]}
    assert ids(table.scan("a = 3 AND s = 's3'")) == [i for i in range(5000) if i % 10 == 3]
    assert len(garbage(table)) == 2
    second.drop()
    assert table.indexes() == []
    assert table.snapshot().manifest.files == ()


@pytest.mark.parametrize("content", ["noise", "zeros"])
def test_a_failing_build_leaves_nothing(
    path: Path, table: Table, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One damaged file among good ones: its tail is sound, so that only reading its rows fails."""
    # the good files come first, in the same Spark task: another one might write its files after the failure
    monkeypatch.setattr(
        job, "split_build_tasks", lambda tasks, *_: [sorted(tasks, key=lambda task: "bad" in task.path)]
    )
    rng = np.random.default_rng(1)
    for name in ("bad", "later", "zero"):
        data = {"id": pa.array(range(3000)), "n": pa.array(rng.integers(0, 1000, 3000), pa.int32())}
        write_columns(path / f"{name}.orc", data, codec="zstd")
    table.create_index("by_a", "a")
    before = store_state(table)
    bad = path / "bad.orc"
    damaged = bytearray(bad.read_bytes())
    middle = slice(len(damaged) // 4, len(damaged) // 2)
    length = middle.stop - middle.start
    damaged[middle] = rng.bytes(length) if content == "noise" else bytes(length)
    bad.write_bytes(damaged)
    with pytest.raises(BuildError, match=r"^index build failed on data file 'bad.orc', stripe 0: ") as raised:
        table.create_indexes([IndexSpec("by_n", "n"), IndexSpec("by_s", "s")])
    assert "\n" not in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert store_state(table) == before
    assert garbage(table) == []
    assert [index.name for index in table.indexes()] == ["by_a"]
    # what was read by index still is
    assert ids(table.scan("a = 3 AND s = 's3'", ["id"])) == [i for i in range(5000) if i % 10 == 3]


def test_a_build_repeated_after_a_failure(path: Path, table: Table) -> None:
    good = (path / "one.orc").read_bytes()
    (path / "one.orc").write_bytes(good[:100] + bytes(600) + good[700:])
    with pytest.raises(BuildError, match=r"'one.orc'"):
        table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s"), IndexSpec("by_id", "id")])
    assert garbage(table) == []
    assert table.indexes() == []
    (path / "one.orc").write_bytes(good)
    assert table.create_index("by_a", "a").status == "fresh"


def test_a_task_that_fails_leaves_no_files(path: Path, table: Table) -> None:
    """Spark may run it again, and the build then succeeds."""
    plan = plan_build(table.snapshot(), [IndexEntry(new_index_id(), "x", "a", "BITMAP", "int")])
    good = (path / "one.orc").read_bytes()
    (path / "one.orc").write_bytes(good[:100] + bytes(600) + good[700:])
    with pytest.raises(BuildError, match=r"'one.orc'"):
        list(build_task.run_build_tasks(plan.tasks[:1]))
    assert Store.for_table(table.uri).index_files() == {}


def test_a_file_that_grows_during_a_build_is_an_error(path: Path, table: Table) -> None:
    snapshot = table.snapshot()
    plan = plan_build(snapshot, [IndexEntry(new_index_id(), "x", "a", "BITMAP", "int")])
    write_rows(path / "one.orc", 0, [1] * 9000)
    with pytest.raises(BuildError, match=r"'one.orc': it had \d+ bytes when the build began and has \d+ now"):
        list(build_task.run_build_tasks(plan.tasks[:1]))


def test_if_not_exists(table: Table) -> None:
    first = table.create_index("by_a", "a")
    before = store_state(table)
    with pytest.warns(HindexWarning, match="'by_a' of .* with column a instead of s: drop it"):
        again = table.create_index("BY_A", "s", if_not_exists=True)
    assert (again.name, again.column, again.created_ms) == ("by_a", "a", first.created_ms)
    assert store_state(table) == before
    made = table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")], if_not_exists=True)
    assert [index.name for index in made] == ["by_a", "by_s"]
    assert table.scan("s = 's3'").explain().exact
    for name, column in (("by_a", "id"), ("other", "a")):
        with pytest.raises(IndexExistsError):
            table.create_index(name, column)
    with raises(IndexExistsError):
        table.create_index("other", "a", if_not_exists=True)


@pytest.mark.parametrize(
    ("spec", "difference"),
    [
        (IndexSpec("i", "A", "Bloom"), ""),
        (IndexSpec("i", "a", "bloom", None, {"bloom.FPP": "0.0010"}, "a comment", deferred=True), ""),
        (IndexSpec("i", "a", "bloom", None, {"level": "stripe"}), ""),
        (IndexSpec("i", "a", "bloom", None, {"fpp": "0.1"}), "fpp 0.001 instead of 0.1"),
        (IndexSpec("i", "s", "bitmap"), "column a instead of s, type BLOOM instead of BITMAP"),
        (IndexSpec("i", "a", "bitmap", None, {"values_per_page": "9"}), "type BLOOM instead of BITMAP"),
        (
            IndexSpec("i", "a", "btree", None, {"level": "table"}),
            "type BLOOM instead of BTREE, level stripe instead of table",
        ),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_if_not_exists_with_another_definition(
    table: Table, spec: IndexSpec, difference: str, dry_run: bool
) -> None:
    table.create_index("i", "a", "bloom")
    create = partial(
        table.create_index,
        spec.name,
        spec.column,
        spec.using,
        spec.where,
        spec.properties,
        if_not_exists=True,
    )
    with warnings.catch_warnings(record=True, action="always") as caught:
        create(dry_run=dry_run)
    start = f"Index 'i' of '{table.name}' exists already and is kept, with "
    end = ": drop it first, or choose another name"
    assert [str(item.message) for item in caught] == ([start + difference + end] if difference else [])
    assert all((item.category, item.filename) == (HindexWarning, __file__) for item in caught)


def test_if_not_exists_with_other_partitions(tmp_path: Path, spark: SparkSession) -> None:
    for p in (1, 2):
        write_rows(tmp_path / f"p={p}" / "one.orc", 0, [1, 2])
    table = hindex.connect(spark=spark).table(str(tmp_path))
    table.create_index("i", "a", where="p = 1")
    for where, difference in ((None, "p = 1 instead of none"), ("p = 2", "p = 1 instead of p = 2")):
        with pytest.warns(HindexWarning, match=f"with where {difference}: "):
            table.create_index("i", "a", where=where, if_not_exists=True)


def test_if_not_exists_checks_the_definition(table: Table) -> None:
    table.create_index("i", "a")
    for spec in [
        IndexSpec("i", "nothing"),
        IndexSpec("i", "a", properties={"fpp": "0.1"}),
        IndexSpec("i", "a", where="a = 1"),
    ]:
        with raises(HindexError):
            table.create_indexes([spec], if_not_exists=True)


@pytest.mark.parametrize("if_not_exists", [False, True])
def test_two_builds_of_one_name_at_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, if_not_exists: bool
) -> None:
    """The other one commits between our check and our commit."""
    real = Store.commit

    def late(self: Store, *arguments: Any) -> Manifest:
        monkeypatch.setattr(Store, "commit", real)
        thread = threading.Thread(target=lambda: other.create_index("by_a", "s"))
        thread.start()
        thread.join()
        return real(self, *arguments)

    other = hindex.connect(spark=table._session.spark()).table(table.uri)
    monkeypatch.setattr(Store, "commit", late)
    specs = [IndexSpec("by_a", "a"), IndexSpec("by_id", "id")]
    if if_not_exists:
        with pytest.warns(HindexWarning, match="'by_a' of .* with column s instead of a: "):
            made = table.create_indexes(specs, if_not_exists=True)
        assert [(index.name, index.column) for index in made] == [("by_a", "s"), ("by_id", "id")]
    else:
        with raises(IndexExistsError):
            table.create_indexes(specs)
        assert [(index.name, index.column) for index in table.indexes()] == [("by_a", "s")]
        assert garbage(table) == []
    assert table.scan("s = 's3'").explain().exact
    assert ids(table.scan("a = 3")) == [i for i in range(5000) if i % 10 == 3]


def test_a_column_that_some_files_lack(path: Path, table: Table, spark: SparkSession) -> None:
    write_columns(path / "three.orc", {"id": pa.array([7000, 7001]), "b": pa.array([1, None], pa.int32())})
    made = table.create_indexes([IndexSpec("by_b", "b"), IndexSpec("by_a", "a")])
    assert [index.status for index in made] == ["fresh", "fresh"]
    for where, expected in [
        ("b = 1", [7000]),
        ("b IS NULL", [*range(2500), 7001, *range(2500, 5000)]),
        ("a IS NULL", [7000, 7001]),
        ("a = 3 OR b = 1", [*range(3, 2500, 10), 7000, *range(2503, 5000, 10)]),
        ("b IS NULL AND a = 3", list(range(3, 5000, 10))),
        ("NOT (b = 1) OR b <=> NULL AND a IS NULL", [7001]),
    ]:
        scan = table.scan(where)
        assert ids(scan) == expected, where
        assert sorted(expected) == spark_where(spark, path, where, "id bigint, a int, s string, b int"), where
        assert scan.explain().exact, where
        assert reasons(scan) == {}, where


def test_files_without_rows(path: Path, table: Table) -> None:
    (path / "a-zero-bytes.orc").touch()
    write_rows(path / "zero-rows.orc", 0, [])
    index = table.create_index("by_a", "a")
    assert index.status == "fresh"
    assert [item.path for item in table.snapshot().manifest.files] == ["one.orc", "two.orc", "zero-rows.orc"]
    scan = table.scan("a = 3")
    assert ids(scan) == [i for i in range(5000) if i % 10 == 3]
    assert scan.explain().exact
    assert scan.explain().notes == ()
    assert ids(table.scan()) == list(range(5000))


def test_a_table_of_zero_rows(tmp_path: Path, spark: SparkSession) -> None:
    path = write_rows(tmp_path / "table" / "x.orc", 0, []).parent
    table = hindex.connect(spark=spark).table(str(path))
    assert table.create_index("by_a", "a").status == "fresh"
    assert ids(table.scan("a = 1")) == []
    assert ids(table.scan()) == []
    assert table.scan("a IS NULL").explain().exact


def test_a_second_connection_sees_the_indexes(path: Path, table: Table) -> None:
    early = hindex.connect().table(str(path))
    assert early.indexes() == []
    table.create_index("by_a", "a")
    for other in (early, hindex.connect().table(f"{path}/")):
        assert [index.name for index in other.indexes()] == ["by_a"]
        assert other.scan("a = 3").explain().exact
    shown = hindex.connect().sql(f"SHOW INDEXES ON '{path}'")
    assert isinstance(shown, StatementTable)
    assert shown.column("name").to_pylist() == ["by_a"]
    assert shown.column("status").to_pylist() == ["fresh"]


def test_one_store_for_several_tables(path: Path, spark: SparkSession, tmp_path: Path) -> None:
    other = write_rows(tmp_path / "other" / "x.orc", 0, [1, 2]).parent
    connection = hindex.connect(store=str(tmp_path / "store"), spark=spark)
    connection.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a)")
    connection.sql(f"CREATE INDEX i USING bitmap ON '{other}' (a)")
    assert not (path / "_hindex").exists()
    shown = connection.sql("SHOW INDEXES")
    assert isinstance(shown, StatementTable)
    assert shown.column("table").to_pylist() == sorted([str(path), str(other)])
    assert connection.table(str(path)).scan("a = 3").explain().exact
    assert hindex.connect().table(str(path)).indexes() == []
    connection.sql(f"DROP INDEX i ON '{other}'")
    connection.sql("DROP INDEX i")
    assert connection.table(str(path)).indexes() == []


def test_an_index_of_some_partitions(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for number, part in enumerate(("region=EU/day=1", "region=EU/day=2", "region=US/day=1")):
        write_rows(path / part / "x.orc", number * 1000, [i % 10 for i in range(100)])
    connection = hindex.connect(spark=spark)
    connection.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a) WHERE region = 'EU' AND day IN (2, 3)")
    table = connection.table(str(path))
    index = table.index("i")
    assert (index.status, index.num_files) == ("fresh", 1)
    assert index.where == "region = 'EU' AND day IN (2, 3)"
    assert [item.path for item in table.snapshot().manifest.files] == ["region=EU/day=2/x.orc"]
    expected = [start + i for start in (0, 1000, 2000) for i in range(3, 100, 10)]
    scan = table.scan("a = 3")
    assert ids(scan) == expected == spark_where(spark, path, "a = 3")
    assert scan.explain().rows.kept == 210  # type: ignore[union-attr]
    assert set(reasons(scan)) == {Reason.PARTITION_NOT_INDEXED}
    one = table.scan("a = 3 AND region = 'EU' AND day = 2")
    assert one.explain().exact
    assert one.count() == 10
    assert table.create_index("rest", "a", where="NOT (region = 'EU' AND day IN (2, 3))").num_files == 2
    assert scan.explain().exact
    assert ids(scan) == expected


def test_one_file_as_a_table(path: Path, spark: SparkSession) -> None:
    table = hindex.connect(spark=spark).table(str(path / "one.orc"))
    table.create_index("by_a", "a")
    assert ids(table.scan("a = 3")) == [i for i in range(2500) if i % 10 == 3]
    assert table.scan("a = 3").explain().exact
    # the directory is another table, whose store is elsewhere
    assert hindex.connect().table(str(path)).indexes() == []
    assert ids(hindex.connect().table(str(path)).scan("a = 3")) == [i for i in range(5000) if i % 10 == 3]


def test_limits_and_batches_come_in_one_order(path: Path, table: Table) -> None:
    for name in ("a", "b", "zz"):
        write_rows(path / f"{name}.orc", 10_000 * (1 + ord(name[0])), [i % 10 for i in range(1500)])
    table.create_index("by_a", "a", where=None)
    for where in (None, "a IN (3, 5)", "s IN ('s3', 's4')"):
        everything = ids(table.scan(where))
        first = [batch.column("id").to_pylist() for batch in table.scan(where).to_batches()]
        assert [value for batch in first for value in batch] == everything
        for _ in range(2):
            assert [batch.column("id").to_pylist() for batch in table.scan(where).to_batches()] == first
        for limit in (0, 1, 700, len(everything) + 1):
            scan = table.scan(where, limit=limit)
            assert ids(scan) == everything[:limit]
            assert sum(batch.num_rows for batch in scan.to_batches()) == len(everything[:limit])


def test_many_stripes_and_more_files_than_threads(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    rng = np.random.default_rng(7)
    expected = []
    for number in range(12):
        a = rng.integers(0, 50, 2000)
        data = pa.table(
            {"id": pa.array(range(number * 2000, number * 2000 + 2000)), "a": pa.array(a, pa.int32())}
        )
        write_pyarrow(path / f"{number:02}.orc", data, "snappy", stripe=3000, stride=200)
        expected += (np.flatnonzero(a == 3) + number * 2000).tolist()
    table = hindex.connect(spark=spark).table(str(path))
    assert table.create_index("by_a", "a").status == "fresh"
    assert ids(table.scan("a = 3")) == expected
    assert table.scan("a = 3").explain().exact


@pytest.mark.parametrize("moment", ["the job is planned", "tasks run"])
# Py4J leaves the connection of an interrupted call to garbage collection
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_the_job(tmp_path: Path, spark: SparkSession, moment: str) -> None:
    """Also the Java side stops: it writes no more index files, and is free for the next job."""
    path = tmp_path / "many"
    for number in range(200):
        write_rows(path / f"{number}.orc", number, [1])
    collecting = threading.Event()

    class Told(NullProgress):
        def start(self, total_units: int, label: str, unit: str = "") -> None:
            collecting.set()

    hx = hindex.connect(spark=spark, progress=Told())
    table = hx.table(str(path))

    def interrupt() -> None:
        collecting.wait()
        time.sleep(0.1)
        while moment == "tasks run" and not list(path.glob("_hindex/data/*/*.hidx")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    with pytest.raises(KeyboardInterrupt):
        table.create_index("by_a", "a")
    watcher.join()
    gc.collect()
    tracker = spark.sparkContext.statusTracker()
    until = time.monotonic() + 30
    while tracker.getActiveJobsIds() and time.monotonic() < until:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()
    # tasks that were running may have ended; the others never start
    assert len(garbage(table)) < 200
    assert table.indexes() == []
    assert table.create_index("by_a", "a").status == "fresh"


def test_progress_of_a_failed_build_does_not_end_full(path: Path, table: Table, spark: SparkSession) -> None:
    class Told(NullProgress):
        units = 0

        def advance(self, units: int = 1) -> None:
            self.units += units

    progress = Told()
    plan = plan_build(table.snapshot(), [IndexEntry(new_index_id(), "x", "a", "BITMAP", "")])
    (path / "two.orc").unlink()
    with pytest.raises(BuildError, match=r"two\.orc"):
        run_build(spark, plan, progress)
    assert progress.units < len(plan.tasks)


def test_an_unwritable_store_is_an_error_before_spark_starts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path / "_hindex").write_text("in the way")
    monkeypatch.setattr("hindex.spark.session.local_session", lambda *_: pytest.fail("Spark was started"))
    with pytest.raises(
        StoreError, match=r"cannot create .*Not a directory; there is a file where a directory has to be"
    ):
        hindex.connect().table(str(path)).create_index("by_a", "a")


def test_a_user_without_a_name(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is a number."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", nobody)
    table.create_index("by_a", "a")
    assert table.snapshot().manifest.index("by_a").creator == str(os.getuid())
