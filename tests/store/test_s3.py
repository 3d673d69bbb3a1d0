"""Tables and stores on an S3 server, from the first index to its end, and what may go wrong there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.api.table import IndexSpec
from hindex.errors import IndexExistsError, OrcError, StoreError, TableError, TableNotFoundError
from hindex.plan.reasons import REPLACED_SINCE, Reason
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Runner, Unit, run_lookups, run_units
from hindex.store.manifest import Manifest, drop_index, new_index_id
from hindex.store.remote import RemoteStorage
from hindex.store.store import Store, list_stores
from hindex.table import listing
from tests.store.changes import adding, check_race, names
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.s3 import S3Server, copy_object, delete_objects, make_bucket, object_keys, put_object
from tests.support.small import APART, EXCHANGED
from tests.support.work import forget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "g": [f"g{i % 7}" for i in ids]})


def put(uri: str, data: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(data, sink, stripe_size=1 << 16)
    put_object(uri, sink.getvalue().to_pybytes())


@pytest.fixture
def table(bucket: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a table of three files; their partition has a name that must not be decoded twice."""
    local_build.install(monkeypatch)
    for number in range(3):
        put(f"{bucket}/t/p=a%2Fb {number}/x.orc", rows(number))
    return f"{bucket}/t"


@pytest.mark.parametrize("store", [None, "{bucket}/indexes/", "local"])
def test_an_indexs_life(table: str, bucket: str, store: str | None, tmp_path: Any) -> None:
    place = (
        str(tmp_path) if store == "local" else store and store.format(bucket=bucket.replace("s3:", "s3a:"))
    )
    hx = LocalConnection(place)
    t = hx.table(table.replace("s3:", "s3n:") + "/")
    t.create_index("g", "g", "bitmap")
    t.create_index("i", "id", "minmax")

    def check(number: int, values: range) -> None:
        scan = hx.table(table).scan(f"g = 'g3' AND id >= {values.start} AND id < {values.stop}")
        expected = [
            row["id"]
            for n in range(number)
            for row in rows(n).to_pylist()
            if row["g"] == "g3" and row["id"] in values
        ]
        assert sorted(scan.to_arrow().column("id").to_pylist()) == expected
        assert expected
        kept = scan.explain().files
        assert (kept.kept, kept.total) == (1, number)
        assert not scan.explain().notes

    check(3, range(1000, 1500))
    put(f"{table}/p=a%2Fb 3/x.orc", rows(3))
    t.refresh_indexes()
    check(4, range(3200, 3300))
    assert [index.status for index in t.indexes()] == ["fresh", "fresh"]
    assert not hx.table(table).refresh_indexes().changed
    t.drop_index("g")
    t.drop_index("i")
    t.vacuum(retain_hours=0)
    where = {None: f"{table}/_hindex", "local": ""}.get(store, f"{bucket}/indexes")
    if where:
        # the manifests stay for an hour, and so does the copy of the last one
        assert all(key.endswith((".manifest", "latest.hint")) for key in object_keys(where))


@pytest.mark.slow
def test_copied_table_keeps_its_indexes(
    table: str, bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Object by object into another prefix, as by ``aws s3 sync``: every object has another time."""
    specs = [IndexSpec("g", "g"), IndexSpec("tree", "id", "btree"), IndexSpec("range", "id", "minmax")]
    LocalConnection().table(table).create_indexes([*specs, IndexSpec("bloom", "g", "bloom")])
    copy = f"{bucket}/copy"
    # the server keeps whole seconds
    time.sleep(1.1)
    for key in object_keys(table):
        copy_object(f"{table}/{key}", f"{copy}/{key}")
    put(f"{copy}/p=a%2Fb 2/x.orc", rows(5))
    hx = LocalConnection()
    t = hx.table(copy)
    scan = t.scan("g = 'g3' AND id IN (1375, 5000)", ["id"])
    assert scan.to_arrow().column("id").to_pylist() == [1375]
    assert Reason.STALE_FILE in {note.reason for note in scan.explain().notes}
    before = object_keys(copy)
    dry: Any = hx.sql(f"ADOPT INDEXES ON '{copy}' DRY RUN")
    assert (dry.files_adopted, dry.files_differing) == (2, 1)
    assert object_keys(copy) == before
    # all files were written just now: they might be replaced within the same second
    monkeypatch.setattr(listing, "_SETTLES_NS", 10**15)
    s3.requests.clear()
    result = t.adopt_indexes()
    assert (result.files_adopted, result.files_differing, result.files_gone) == (2, 1, 0)
    assert result.verified_stripes >= len(specs) + 1
    # no index file is written, and no data
    assert s3.count("PUT", r"/data/|\.orc$") == 0
    scan = t.scan("g = 'g3' AND id IN (1375, 2000)", ["id"])
    assert scan.to_arrow().column("id").to_pylist() == [1375]
    assert {task.path for task in scan.plan().tasks} == {"p=a%2Fb 1/x.orc", "p=a%2Fb 2/x.orc"}
    assert {note.subject for note in scan.explain().notes} == {"p=a%2Fb 2/x.orc"}
    # the copies of the metadata are those of the present versions
    assert [task.path for task in scan.plan().tasks if task.metadata is not None] == ["p=a%2Fb 1/x.orc"]
    again = t.adopt_indexes()
    assert (again.files_adopted, again.files_fresh, again.files_differing) == (0, 2, 1)
    # the versions prove it, however young the files are
    certain = [view.file.path for view in t.snapshot().files if view.is_certainly_fresh]
    assert certain == ["p=a%2Fb 0/x.orc", "p=a%2Fb 1/x.orc"]
    s3.requests.clear()
    assert hx.built_paths == []
    t.refresh_indexes()
    assert set(hx.built_paths) == {"p=a%2Fb 2/x.orc"}
    assert s3.count("GET", r"b [01]/x.orc$") == 0
    assert not t.refresh_indexes().changed


def test_adopted_objects_settle_by_the_time_of_reading(
    table: str, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that could be replaced within the second while it was read stays unsettled, however long reading took."""
    LocalConnection().table(table).create_index("g", "g")
    # the server keeps whole seconds
    time.sleep(1.1)
    for key in object_keys(table):
        copy_object(f"{table}/{key}", f"{bucket}/copy/{key}")
    t = LocalConnection().table(f"{bucket}/copy")
    real, calls = time.time_ns, [0]

    def clock() -> int:
        calls[0] += 1
        return real() + (0 if calls[0] == 1 else 3600 * 10**9)

    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", clock)
        assert t.adopt_indexes().files_adopted == 3
    assert not any(
        view.file.is_untouched_since(view.entry.changed_ns) for view in t.snapshot().files if view.entry
    )


def test_objects_with_two_slashes_in_their_names(table: str) -> None:
    """Spark's paths have no such names, and what lists them says so."""
    copy_object(f"{table}/p=a%2Fb 1/x.orc", f"{table}/p=a%2Fb 1//x.orc")
    with pytest.raises(
        TableError, match=r"which Spark cannot address: .*p=a%2Fb 1//x.orc.*; rename or delete it"
    ):
        LocalConnection().table(table).scan().to_arrow()


def test_objects_that_stand_for_directories(table: str) -> None:
    expected = len(LocalConnection().table(table).scan().to_arrow())
    for name in ("", "p=a%2Fb 1/", "p=x/", "_hindex/", "p=7/000000_0"):
        put_object(f"{table}/{name}", b"")
    listed = listing.list_data_files(table)
    assert [file.path for file in listed.files if not file.length] == ["p=7/000000_0"]
    assert len(LocalConnection().table(table).scan().to_arrow()) == expected


def test_a_directory_that_is_named_as_a_file(bucket: str) -> None:
    """As by ``df.write.orc("s3://bucket/events.orc")``."""
    put(f"{bucket}/events.orc/part-0.orc", rows(0))
    assert LocalConnection().table(f"{bucket}/events.orc").scan("g = 'g3'").count() == 143
    assert LocalConnection().table(f"{bucket}/events.orc/part-0.orc").scan("g = 'g3'").count() == 143
    with raises(TableNotFoundError):
        LocalConnection().table(f"{bucket}/others.orc").scan().count()


def test_a_bucket_is_a_directory(bucket: str) -> None:
    with raises(TableNotFoundError):
        LocalConnection().table(bucket).scan().count()
    put(f"{bucket}/x.orc", rows(0))
    assert LocalConnection().table(bucket).scan("g = 'g3'").count() == 143


def test_a_few_rows_open_few_files(bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    local_build.install(monkeypatch)
    for number in range(12):
        put(f"{bucket}/t/{number:02}.orc", rows(number))
    LocalConnection().table(f"{bucket}/t").create_index("i", "id", "minmax")
    t = LocalConnection().table(f"{bucket}/t")
    for scan in (t.scan(limit=1), t.scan("g = 'g0'", limit=1)):
        s3.requests.clear()
        assert scan.to_arrow()["id"].to_pylist() == [0]
        opened = {path.rpartition("/")[2] for _, path in s3.requests if path.endswith(".orc")}
        assert "00.orc" in opened
        assert len(opened) < 6


def test_a_btree_on_an_object_store(table: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # objects that were written just now may be replaced within the second, and are opened before they are skipped
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    hx = LocalConnection()
    t = hx.table(table)
    t.create_index("i", "id", "btree")

    def check(value: int, files: int) -> None:
        scan = hx.table(table).scan(f"id = {value}", ["id", "p"])
        s3.requests.clear()
        assert scan.to_arrow().to_pylist() == [{"id": value, "p": f"a/b {value // ROWS}"}]
        opened = {path for method, path in s3.requests if method == "GET" and path.endswith(".orc")}
        assert [path.rpartition("/t/")[2] for path in opened] == [f"p=a%2Fb {value // ROWS}/x.orc"]
        explained = scan.explain()
        assert (explained.files.kept, explained.files.total, explained.notes) == (1, files, ())

    check(1500, 3)
    put(f"{table}/p=a%2Fb 3/x.orc", rows(3))
    assert t.refresh_indexes().files_read == 1
    check(3999, 4)
    assert [item.problems for item in t.check_indexes(verify=True)] == [()]
    t.drop_index("i")
    t.vacuum(retain_hours=0)
    assert not [key for key in object_keys(f"{table}/_hindex") if key.endswith(".hidx")]


@pytest.mark.parametrize("ignores", [False, True], ids=["server compares", "server ignores"])
def test_an_object_replaced_after_planning(
    bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch, ignores: bool
) -> None:
    """The new object has the same rows in another order, the same length and tail; only its version differs."""
    local_build.install(monkeypatch)

    def write(values: Sequence[int]) -> bytes:
        sink = pa.BufferOutputStream()
        table = pa.table({"id": pa.array(values, pa.int32())})
        pyarrow.orc.write_table(table, sink, row_index_stride=100, batch_size=100)
        return bytes(sink.getvalue().to_pybytes())

    first, second = write(APART), write(EXCHANGED)
    assert len(first) == len(second)
    assert first != second
    put_object(f"{bucket}/t/x.orc", first)
    table = LocalConnection().table(f"{bucket}/t")
    table.create_index("i", "id", "minmax")
    scan = table.scan(f"id = {APART[10]}")
    assert scan.to_arrow().to_pylist() == [{"id": APART[10]}]
    plan = scan.plan()
    s3.requests.clear()
    s3.ignores_conditions = ignores
    put_object(f"{bucket}/t/x.orc", second)
    with raises(OrcError):
        list(run_units(run_lookups(plan.tasks), ScanTaskReader.read))
    # another process has no tail of it, which is then the new object's if none was copied: the index is not used
    forget()
    for task in plan.map_tasks(lambda task: replace(task, metadata=None, mtime_ns=0)).tasks:
        with ScanTaskReader(task) as reader:
            assert reader.difference == REPLACED_SINCE
            batches = [reader.read(reader.look_up(stripe)) for stripe in reader.stripes]
            assert pa.Table.from_batches(batches).to_pylist() == [{"id": APART[10]}]
    # a query is planned anew, also if the file changes in between; here it is the first one again
    look_up = Runner.run_lookups

    def replaced(self: Runner, tasks: Sequence[ScanTask], **options: Any) -> Iterator[Unit]:
        monkeypatch.setattr(Runner, "run_lookups", look_up)
        put_object(f"{bucket}/t/x.orc", first)
        return look_up(self, tasks, **options)

    monkeypatch.setattr(Runner, "run_lookups", replaced)
    assert scan.to_arrow().to_pylist() == [{"id": APART[10]}]
    assert not s3.count("HEAD", "x.orc")


@pytest.mark.slow
def test_a_spark_job_on_an_object_store(
    table: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors read the data and write the index files with what their environment says of the server."""
    for name, value in os.environ.items():
        if name.startswith("AWS_"):
            monkeypatch.setitem(spark.sparkContext.environment, name, value)
    t = hindex.connect(spark=spark).table(table)
    t.create_indexes([IndexSpec("g", "g"), IndexSpec("i", "id", "btree")])
    expected = sorted(row["id"] for n in range(3) for row in rows(n).to_pylist() if row["g"] == "g3")
    frame = t.scan("g = 'g3'", ["id"]).to_spark(spark)
    assert sorted(row.id for row in frame.collect()) == expected
    explained = t.scan("g = 'g3' AND id = 1501").explain()
    assert explained.files.kept == 1
    assert not explained.notes
    assert t.scan("g = 'g3' AND id = 1501", ["id"]).to_arrow().num_rows == int(1501 in expected)
    assert [item.problems for item in t.check_indexes(verify=True)] == [(), ()]


def test_a_request_can_be_interrupted(table: str, s3: S3Server) -> None:
    """Before its answer has come."""

    class InterruptedByTestError(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise InterruptedByTestError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        scan = LocalConnection().table(table).scan("id = 7")
        s3.requests.clear()
        s3.answers.clear()
        with s3.failing("GET", "x.orc$", delay=5.0):
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(InterruptedByTestError):
                scan.to_arrow()
            assert len(s3.answers) < len(s3.requests)
        assert len(scan.to_arrow()) == 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_forked_process_says_that_it_cannot_go_on(table: str) -> None:
    """Instead of waiting for ever for threads that it does not have."""
    assert _answer(table) == str(3 * ROWS)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "used before this process was forked" in pool.apply_async(_answer, (table,)).get(60)
    code = f"import hindex; print(hindex.connect().table({table!r}).scan().count())"
    new = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert new.stdout == f"{3 * ROWS}\n"


def _answer(table: str) -> str:
    try:
        return str(hindex.connect().table(table).scan().count())
    except hindex.HindexError as error:
        return str(error)


def test_tables_of_a_shared_store(bucket: str) -> None:
    for uri in ("s3://b/t", "/t"):
        Store.for_table(uri, f"{bucket}/s").commit(adding("a"))
    put_object(f"{bucket}/s/junk/x", b"")
    assert [store.table_uri for store in list_stores(f"{bucket}/s/")] == ["/t", "s3://b/t"]
    assert list_stores(f"{bucket}/nothing") == ()


def test_racing_writers_lose_nothing(bucket: str) -> None:
    check_race(f"{bucket}/s", 4)


@pytest.fixture
def store(bucket: str) -> Store:
    """A store with one index, whose bucket is known to create exclusively."""
    result = Store(f"{bucket}/s", "/t")
    result.commit(adding("a"))
    return result


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("PUT", "manifest$", "InternalError", "cannot write to the store .*injected .*; nothing was changed"),
        ("PUT", "manifest$", "AccessDenied", "cannot write to the store .*; nothing was changed"),
        ("PUT", "manifest$", "NoSuchBucket", "cannot write to the store .*; nothing was changed"),
        ("GET", "^/b[0-9a-f]*/?$", "InternalError", "cannot list .*injected .*; check its permissions"),
        ("GET", "^/b[0-9a-f]*/?$", "AccessDenied", "cannot list .*; check its permissions"),
        ("GET", "(manifest|hint)$", "InternalError", "cannot read manifest .*injected .*; check its access"),
        ("GET", "(manifest|hint)$", "AccessDenied", "cannot read manifest .*; check its access"),
    ],
)
def test_injected_errors(store: Store, s3: S3Server, method: str, path: str, code: str, message: str) -> None:
    before = object_keys(store.root)
    with s3.failing(method, path, code) as fault:
        with pytest.raises(StoreError, match=message) as caught:
            Store(store.root, "/t").commit(adding("b"))
        assert fault.seen
    assert "\n" not in str(caught.value)
    assert object_keys(store.root) == before
    assert names(store) == ["a"]
    assert store.commit(adding("b")).number == 2


def test_missing_credentials(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
        monkeypatch.delenv(name)
    # nothing listens there
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")
    with pytest.raises(TableError, match=r"cannot list .*; check the credentials in the environment"):
        LocalConnection().table(f"{bucket}/t").scan().count()


def test_a_slow_server(store: Store, s3: S3Server) -> None:
    with s3.failing("PUT", "manifest$", delay=0.5) as fault:
        assert store.commit(adding("b")).number == 2
    assert fault.seen == 1


@pytest.mark.parametrize("code", ["ConditionalRequestConflict", "PreconditionFailed"])
def test_conflicts_are_tried_again(store: Store, s3: S3Server, code: str) -> None:
    with s3.failing("PUT", "manifest$", code, times=2) as fault:
        assert store.commit(adding("b")).number == 2
    assert fault.seen == 2
    assert names(store) == ["a", "b"]


@pytest.mark.parametrize("code", ["InternalError", "PreconditionFailed"])
def test_an_answer_that_is_lost(store: Store, s3: S3Server, code: str) -> None:
    """The manifest is written and the answer says that it is not: as after a request that was sent twice."""
    with s3.failing("PUT", "manifest$", code, served=True, times=1) as fault:
        assert store.commit(adding("b")).number == 2
    assert fault.seen == 1
    assert names(store) == ["a", "b"]


def test_an_answer_that_is_lost_to_another_writer(store: Store, s3: S3Server) -> None:
    rival = Store(store.root, "/t")
    beaten = False

    def late(old: Manifest) -> Manifest:
        nonlocal beaten
        if not beaten:
            beaten = True
            rival.commit(adding("rival"))
        return adding("late")(old)

    with s3.failing("PUT", "00002.manifest$", "InternalError", served=True):
        assert store.commit(late).number == 3
    assert names(store) == ["a", "rival", "late"]


def test_an_outcome_that_is_not_known(store: Store, s3: S3Server) -> None:
    with (
        s3.failing("PUT", "00002.manifest$", "InternalError", served=True),
        s3.failing("GET", "00002.manifest$", "InternalError"),
        pytest.raises(
            StoreError, match=r"the outcome of writing .*00002.manifest' is unknown: .*Run SHOW INDEXES"
        ),
    ):
        store.commit(adding("b"))
    assert names(store) == ["a", "b"]


def test_a_server_that_is_not_there(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError, match=r"cannot list .*127.0.0.1:9") as caught:
        Store(store.root, "/t").load()
    assert "\n" not in str(caught.value)


def test_a_bucket_that_is_not_there(s3: S3Server) -> None:
    store = Store("s3://no-such-bucket-here/s", "/t")
    assert store.load() is None
    with pytest.raises(
        StoreError, match=r"cannot write to the store .*bucket does not exist .*; nothing was changed"
    ):
        store.commit(adding("a"))


def test_a_vanished_store(store: Store, bucket: str) -> None:
    assert names(store) == ["a"]
    delete_objects(f"{bucket}/s")
    with raises(StoreError):
        store.commit(lambda old: drop_index(old, "a"))
    assert object_keys(store.root) == set()


def test_a_probe_whose_answer_is_lost(bucket: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library sends it again, and finds it there."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    with s3.failing("PUT", "tmp-", "InternalError", served=True, times=1) as fault:
        assert Store(f"{bucket}/s", "/t").commit(adding("a")).number == 1
    assert fault.seen == 1


def test_a_server_without_conditional_writes(
    store: Store, bucket: str, s3: S3Server, monkeypatch: Any
) -> None:
    monkeypatch.setattr("hindex.store.remote._proven", set())
    s3.ignores_conditions = True
    with raises(StoreError):
        store.commit(adding("b"))
    with raises(StoreError):
        store.prepare_index_directory(new_index_id())
    assert names(store) == ["a"]
    assert {key.partition("/")[0] for key in object_keys(store.root)} == {"manifests"}


def test_each_bucket_has_to_refuse_to_create_a_file_twice(bucket: str, s3: S3Server) -> None:
    """What one has proved says nothing of another, which may be on another server."""
    Store(f"{bucket}/s", "/t").commit(adding("a"))
    s3.ignores_conditions = True
    assert Store(f"{bucket}/other", "/t").commit(adding("a")).number == 1
    make_bucket(f"{bucket}-2")
    with pytest.raises(StoreError, match="cannot commit to the store"):
        Store(f"{bucket}-2/s", "/t").commit(adding("a"))


def test_a_failed_build_leaves_nothing(table: str, s3: S3Server) -> None:
    t = LocalConnection().table(table)
    t.create_index("i", "id", "minmax")
    before = object_keys(table)
    with s3.failing("PUT", "hidx$", "InternalError"), pytest.raises(Exception, match="injected"):
        t.create_index("g", "g", "bitmap")
    assert object_keys(table) == before
    assert [index.name for index in t.indexes()] == ["i"]
    with pytest.raises(IndexExistsError):
        t.create_index("i", "id", "minmax")


def test_index_files_that_cannot_be_read_are_named(table: str, s3: S3Server) -> None:
    LocalConnection().table(table).create_index("g", "g", "bitmap")
    with s3.failing("GET", "hidx$", "AccessDenied"):
        scan = LocalConnection().table(table).scan("g = 'g3'")
        assert len(scan.to_arrow()) == sum(i % 7 == 3 for i in range(3 * ROWS))
        assert {note.reason for note in scan.explain().notes} == {Reason.UNREADABLE}


def test_other_file_systems() -> None:
    """A store needs a put if absent that is atomic; these file systems check first and write afterwards."""
    for name in ("memory://somewhere", "dir://somewhere"):
        with pytest.raises(StoreError, match="cannot"):
            Store(name, "/t").commit(adding("a"))


def test_objects_are_read_up_to_their_last_byte(bucket: str, s3: S3Server) -> None:
    """There is no range of one without bytes."""
    storage = RemoteStorage(f"{bucket}/t")
    storage.write({"some": b"x" * 10, "none": b""})
    for limit in (10, 11, 1000):
        assert storage.read("some", limit) == b"x" * 10
        assert storage.read("none", limit) == b""
    assert storage.read_all(["none", "some", "none"], 10) == [b"", b"x" * 10, b""]
    with raises(ValueError):
        storage.read("some", 9)
    with pytest.raises(FileNotFoundError):
        storage.read("other", 10)
    with s3.failing("GET", "some", "InternalError"), pytest.raises(OSError, match="injected"):
        storage.read("some", 10)


def test_an_empty_manifest_is_an_error(table: str) -> None:
    t = LocalConnection().table(table)
    t.create_index("g", "g", "bitmap")
    (last,) = (key for key in object_keys(f"{table}/_hindex") if key.endswith(".manifest"))
    put_object(f"{table}/_hindex/{last}", b"")
    with raises(StoreError):
        LocalConnection().table(table).indexes()


def test_schemes_that_nothing_knows() -> None:
    with pytest.raises(StoreError, match="cannot open the store 'nope://x/s'"):
        Store("nope://x/s", "/t").load()
