"""Data files that are replaced between plan and read by a permutation of their rows: length and tail stay the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from hindex.api.table import Table
from hindex.errors import OrcError
from hindex.orc.io.adapted import FileSystemSource, FsspecSource
from hindex.orc.io.source import LocalSource
from hindex.plan.reasons import REPLACED_SINCE, Note, Reason
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from hindex.spark import scan as scan_frame
from tests.acid.writing import bucket_property, write_acid, write_flat, write_side_file
from tests.support.local_build import LocalConnection
from tests.support.small import APART, EXCHANGED, ids, reasons, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = ("bitmap", "btree", "bloom", "minmax")
WHERE = f"a = {APART[10]}"
NOTE = Note(Reason.STALE_FILE, "0.orc", REPLACED_SINCE)


class TimedFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A file system in memory that has modification times."""

    protocol = "timed"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("timed://")))

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = super().info(path, **options)
        if result["type"] == "file":
            result["mtime"] = self.store[result["name"]].modified
        return result

    def find(self, path: str, **options: Any) -> dict[str, Any]:
        return {name: self.info(name) for name in super().find(path, **options)}


fsspec.register_implementation("timed", TimedFileSystem, clobber=True)


def write(path: Path, first_id: int, a: Sequence[int]) -> Path:
    """A file of one stripe with row groups of 100 rows."""
    columns = {"id": pa.array(range(first_id, first_id + len(a)), pa.int64()), "a": pa.array(a, pa.int32())}
    return write_columns(path, columns, codec="none", stride=100)


def table_of(path: Path, connection: LocalConnection, using: str) -> Table:
    """A table of two files, the first of which is going to be replaced, with an index on ``a``."""
    write(path / "0.orc", 0, APART)
    write(path / "1.orc", len(APART), [5000 + i for i in range(len(APART))])
    table = connection.table(str(path))
    table.create_index("by_a", "a", using)
    return table


def replace(file: Path, make: Callable[[Path], object]) -> None:
    """Put a new file in the place of one, with the same length and tail."""
    new = file.with_name(f".{file.name}")
    make(new)
    before, after = file.read_bytes(), new.read_bytes()
    assert before != after
    # the footer, and what stands before it
    assert (len(after), after[-200:]) == (len(before), before[-200:])
    new.replace(file)


def permute(path: Path) -> None:
    replace(path / "0.orc", lambda new: write(new, 0, EXCHANGED))


def run(plan: ScanPlan) -> tuple[list[int], list[Note]]:
    """The ids of a plan's rows, and what its tasks note."""
    result: list[int] = []
    notes: dict[Note, None] = {}
    for task, batch in run_units(run_lookups(plan.tasks), lambda task, answer, _: (task, task.read(answer))):
        result += batch.column("id").to_pylist()
        notes |= dict.fromkeys(task.notes)
    return result, list(notes)


@pytest.mark.parametrize("using", TYPES)
def test_a_file_replaced_after_planning(tmp_path: Path, connection: LocalConnection, using: str) -> None:
    table = table_of(tmp_path / "t", connection, using)
    plan = table.scan(WHERE).plan()
    assert run(plan) == ([10], [])
    batches = table.scan(WHERE).to_batches()
    permute(tmp_path / "t")
    assert run(plan) == ([250], [NOTE])
    assert [row for batch in batches for row in batch.column("id").to_pylist()] == [250]
    # the next plan sees it in the listing
    assert ids(table.scan(WHERE)) == [250]
    assert reasons(table.scan(WHERE)) == {Reason.STALE_FILE: ["0.orc"]}
    table.refresh_indexes()
    assert run(table.scan(WHERE).plan()) == ([250], [])


@pytest.mark.parametrize("using", TYPES)
def test_executors_compare_too(
    tmp_path: Path,
    spark: SparkSession,
    connection: LocalConnection,
    using: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # few rows would be read before the frame is returned
    monkeypatch.setattr(scan_frame, "MAX_LOCAL_FILES", 0)
    table = table_of(tmp_path / "t", connection, using)
    frame = table.scan(WHERE, ["id"]).to_spark(spark)
    permute(tmp_path / "t")
    assert [row.id for row in frame.collect()] == [250]


@pytest.mark.parametrize("using", ["bitmap", "minmax"])
def test_aggregates_compare_too(
    tmp_path: Path, connection: LocalConnection, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their values are those of the file as it is when it is opened."""
    table = table_of(tmp_path / "t", connection, using)
    opened: list[ScanTask] = []
    real = ScanTaskReader.__init__

    def replace_first(self: ScanTaskReader, task: ScanTask, *args: Any) -> None:
        if not opened:
            permute(tmp_path / "t")
        opened.append(task)
        real(self, task, *args)

    monkeypatch.setattr(ScanTaskReader, "__init__", replace_first)
    assert table.scan(f"{WHERE} AND id < 100").count() == 0
    assert opened


@pytest.mark.parametrize("mtime", [0, 1_600_000_000_123_456_789, 10_000_000_000 * 10**9])
def test_the_time_is_compared_as_it_was_listed(
    tmp_path: Path, connection: LocalConnection, mtime: int
) -> None:
    """Times of 1970, with fractions, and so late that 64 bits do not hold their nanoseconds."""
    write(tmp_path / "t" / "0.orc", 0, APART)
    os.utime(tmp_path / "t" / "0.orc", ns=(mtime, mtime))
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_a", "a", "bitmap")
    plan = table.scan(WHERE).plan()
    assert run(plan) == ([10], [])
    permute(tmp_path / "t")
    os.utime(tmp_path / "t" / "0.orc", ns=(mtime + 1000, mtime + 1000))
    assert run(plan) == ([250], [NOTE])


@pytest.mark.parametrize("using", TYPES)
@pytest.mark.parametrize("layout", ["acid", "flat", "growing"])
def test_a_file_of_a_transactional_table(
    tmp_path: Path, connection: LocalConnection, using: str, layout: str
) -> None:
    """Its row keys are compared, too: those of a flat file follow from its place, and no index is asked for them."""
    is_flat = layout == "flat"
    file = tmp_path / "t" / ("000000_0" if is_flat else "delta_1_1/bucket_00000")
    key = bucket_property(0)

    def write_rows(path: Path, k: Sequence[int]) -> None:
        rows = [(i, value, "x") for i, value in enumerate(k)]
        if is_flat:
            write_flat(path, rows)
        else:
            write_acid(path, [((1, key, i), 1, row) for i, row in enumerate(rows)])

    def write_file(path: Path, k: Sequence[int]) -> None:
        write_rows(path, k)
        if layout == "growing":
            length = path.stat().st_size
            write_side_file(file, length)
            path.write_bytes(path.read_bytes() + b"more")

    write_file(file, APART)
    write_acid(tmp_path / "t" / "delta_2_2" / "bucket_00000", [((2, key, 0), 2, (len(APART), 9999, "x"))])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_k", "k", using)
    where = f"k = {APART[10]}"
    plans = {
        part: table.scan(f"{where} AND {part}").plan()
        for part in ("id >= 0", "row__id.rowId IN (10, 11, 14)")
    }
    assert [run(plan)[0] for plan in plans.values()] == [[10], [10]]
    assert run(plans["id >= 0"])[1] == []
    # values within one stripe of 48 rows are exchanged, in different row groups of 16
    permuted = [*APART[:10], APART[40], *APART[11:40], APART[10], *APART[41:]]
    replace(file, lambda new: write_file(new, permuted))
    note = Note(Reason.STALE_FILE, file.relative_to(tmp_path / "t").as_posix(), REPLACED_SINCE)
    assert [run(plan) for plan in plans.values()] == [([40], [note]), ([], [note])]


@pytest.mark.usefixtures("here")
def test_a_file_of_a_file_system_with_times(tmp_path: Path) -> None:
    def put(a: Sequence[int]) -> None:
        content = write(tmp_path / "0.orc", 0, a).read_bytes()
        fsspec.filesystem("timed").pipe(f"/{tmp_path.name}/0.orc", content)

    put(APART)
    table = LocalConnection(str(tmp_path / "store")).table(f"timed://{tmp_path.name}")
    table.create_index("by_a", "a", "bitmap")
    plan = table.scan(WHERE).plan()
    assert run(plan) == ([10], [])
    put(EXCHANGED)
    assert run(plan) == ([250], [NOTE])


@pytest.mark.usefixtures("here")
def test_a_refresh_trusts_no_time_that_can_be_set(tmp_path: Path) -> None:
    """As on HDFS, where a copy may keep the time of the file before."""
    filesystem, root = fsspec.filesystem("timed"), f"/{tmp_path.name}"
    filesystem.pipe(f"{root}/0.orc", write(tmp_path / "0.orc", 0, list(range(1000, 1500))).read_bytes())
    table = LocalConnection(str(tmp_path / "store")).table(f"timed:/{root}")
    table.create_index("by_a", "a", "bitmap")
    before = filesystem.store[f"{root}/0.orc"].modified
    filesystem.pipe(f"{root}/0.orc", write(tmp_path / "0.orc", 0, list(range(1300, 1800))).read_bytes())
    filesystem.store[f"{root}/0.orc"].modified = before
    assert reasons(table.scan("a = 1350")) == {Reason.STALE_FILE: ["0.orc"]}
    assert table.refresh_indexes().files_read == 1
    assert reasons(table.scan("a = 1350")) == {}
    assert ids(table.scan("a IN (1350, 1700, 1000)")) == [50, 400]
    assert table.refresh_indexes().files_read == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("using", ["bitmap", "btree", "minmax"])
def test_a_refresh_notices_other_columns_behind_the_same_time(tmp_path: Path, using: str) -> None:
    filesystem, root = fsspec.filesystem("timed"), f"/{tmp_path.name}"

    def put(name: str, column: str) -> None:
        columns = {"id": pa.array([1, 2], pa.int64()), column: pa.array([3, 4], pa.int32())}
        filesystem.pipe(
            f"{root}/{name}", write_columns(tmp_path / "x.orc", columns, codec="none").read_bytes()
        )

    for name, column in (("0.orc", "aa"), ("1.orc", "bb"), ("2.orc", "aa")):
        put(name, column)
    table = LocalConnection(str(tmp_path / "store")).table(f"timed:/{root}")
    for column in ("aa", "bb"):
        table.create_index(f"by_{column}", column, using)
    file = filesystem.store[f"{root}/0.orc"]
    before, length = file.modified, len(file.getvalue())
    put("0.orc", "bb")
    file = filesystem.store[f"{root}/0.orc"]
    file.modified = before
    assert len(file.getvalue()) == length
    assert table.refresh_indexes().changed
    assert sorted(ids(table.scan("bb = 3"))) == [1, 1]
    assert ids(table.scan("aa = 3")) == [1]
    assert reasons(table.scan("bb = 3")) == {}
    assert not table.refresh_indexes().changed


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("using", ["bitmap", "btree", "minmax"])
def test_an_unreadable_file_that_a_predicate_rules_out(tmp_path: Path, using: str) -> None:
    """By its partition, or by what is known of its values where its store says that nothing wrote to it."""
    filesystem = fsspec.filesystem("timed")
    root = f"/{tmp_path.name}"
    for part in (1, 2):
        content = write(tmp_path / "0.orc", 0, [value + 5000 * part for value in APART]).read_bytes()
        filesystem.pipe(f"{root}/p={part}/0.orc", content)
    table = LocalConnection(str(tmp_path / "store")).table(f"timed:/{root}")
    table.create_index("by_a", "a", using)
    file = filesystem.store[f"{root}/p=1/0.orc"]
    before = file.modified
    file.seek(0)
    file.write(bytes(len(file.getvalue())))
    file.modified = before
    for where in ("p = 2", f"a = {APART[10] + 10000}", "a > 10000", "p = 2 AND a > 0"):
        scan = table.scan(where)
        assert [task.path for task in scan.plan().tasks] == ["p=2/0.orc"], where
        assert ids(scan) == ([10] if "=" in where and "p" not in where else list(range(len(APART)))), where
    for where in ("p = 1", f"a = {APART[10] + 5000}", "a > 0", "id = 3"):
        with pytest.raises(OrcError, match=r"p=1/0\.orc"):
            ids(table.scan(where))


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[dict[str, Any]]:
    file = tmp_path / "x"
    file.write_bytes(b"data")
    fsspec.filesystem("memory").pipe("/untimed", b"data")
    result: dict[str, Any] = {
        "local": LocalSource(file),
        "pyarrow": FileSystemSource(pyarrow.fs.LocalFileSystem(), str(file)),
        "fsspec": FsspecSource(fsspec.filesystem("file"), str(file)),
        "untimed": FsspecSource(fsspec.filesystem("memory"), "/untimed"),
    }
    yield result
    for source in result.values():
        source.close()


def test_times_of_sources(tmp_path: Path, sources: dict[str, Any]) -> None:
    mtime = (tmp_path / "x").stat().st_mtime_ns
    handler = pyarrow.fs.FSSpecHandler(fsspec.filesystem("file"))
    # the library's times are floating-point numbers
    listed = {"fsspec": pyarrow.fs.PyFileSystem(handler).get_file_info(str(tmp_path / "x")).mtime_ns}
    assert not any(source.has_other_mtime(listed.get(name, mtime)) for name, source in sources.items())
    later = {name for name, source in sources.items() if source.has_other_mtime(mtime + 10**10)}
    assert later == {"local", "fsspec"}
    # a listing that has no times
    assert not sources["fsspec"].has_other_mtime(0)


def test_headers_name_whole_seconds(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"data")

    class Headed(pyarrow.fs.LocalFileSystem):  # type: ignore[misc]
        """As S3's file systems open objects."""

    source = FileSystemSource(Headed(), str(tmp_path / "x"))
    source._mtime_ns = 1_700_000_000 * 10**9
    for mtime, is_other in (
        (1_700_000_000_000_000_000, False),
        (1_700_000_000_999_000_000, False),
        (1_700_000_001_000_000_000, True),
        (1_699_999_999_000_000_000, True),
        (0, False),
    ):
        assert source.has_other_mtime(mtime) == is_other
    source.close()
