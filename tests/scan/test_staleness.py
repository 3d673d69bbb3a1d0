"""Tables that change after indexing: the rows are right, and EXPLAIN says why."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.api.table import Table
from hindex.errors import ColumnError, OrcError, TableError
from hindex.orc import OrcReader
from hindex.orc.metadata.file_tail import FileTail
from hindex.plan.reasons import Reason
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from hindex.store import snapshot
from hindex.store.manifest import Manifest
from hindex.store.snapshot import read_file_tail
from hindex.store.store import Store
from hindex.table import directory_tree, listing
from hindex.table.directory_tree import DirectoryTree
from hindex.table.partitions import PartitionFilter
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import OLD, ROWS, WHERE, expected, ids, keep_stat, reasons, write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def built_here(monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)


def tails_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose tails snapshots read meanwhile."""
    read: list[str] = []

    def watched(file: listing.DataFile) -> FileTail:
        read.append(file.path)
        return read_file_tail(file)

    monkeypatch.setattr(snapshot, "read_file_tail", watched)
    return read


def test_an_unchanged_table_is_answered_by_its_index_alone(table: Table) -> None:
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    explained = scan.explain()
    assert explained.exact
    assert explained.notes == ()
    assert explained.rows is not None
    assert (explained.rows.kept, explained.rows.total) == (len(expected()), 2 * ROWS)
    assert explained.stripes.total is not None
    assert explained.stripes.total > 2


def test_a_file_replaced_by_one_of_the_same_length_and_time(path: Path, table: Table) -> None:
    file = path / "one.orc"
    # only the statistics in the tail tell: values whose statistics are equal too would not be noticed
    a = [i % 9 for i in range(ROWS)]
    keep_stat(file, lambda: write_rows(file, 0, a))
    scan = table.scan(WHERE)
    assert ids(scan) == [i for i in range(ROWS) if a[i] in (3, 4)] + expected(ROWS)
    assert reasons(scan) == {Reason.STALE_FILE: ["one.orc"]}
    assert "checksum" in scan.explain().notes[0].detail
    assert not scan.explain().exact


@pytest.mark.usefixtures("built_here")
@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "renamed over"])
def test_a_file_without_matches_is_skipped_unopened_only_while_it_is_the_same(
    tmp_path: Path, using: str, in_place: bool
) -> None:
    table = LocalConnection().table(str(tmp_path / "t"))
    for number in range(2):
        write_rows(
            tmp_path / "t" / f"{number}.orc",
            1000 * number,
            list(range(1000 + 500 * number, 1500 + 500 * number)),
        )
    table.create_index("by_a", "a", using)
    assert ids(table.scan("a = 2050")) == []
    skipped = {task.path for task in table.scan("a = 2050").plan().tasks}
    assert skipped == (set() if using != "bloom" else {"0.orc", "1.orc"})

    file, new = tmp_path / "t" / "1.orc", tmp_path / "new"
    write_rows(new, 1000, list(range(1600, 2100)))
    keep_stat(file, lambda: file.write_bytes(new.read_bytes()) if in_place else new.replace(file))
    scan = table.scan("a = 2050")
    assert [task.path for task in scan.plan().tasks] == (
        ["1.orc"] if using != "bloom" else ["0.orc", "1.orc"]
    )
    assert ids(scan) == [1450]
    assert reasons(scan) == {Reason.STALE_FILE: ["1.orc"]}


@pytest.mark.usefixtures("built_here")
def test_a_copied_table_looks_into_its_files_before_it_skips_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tails_read(monkeypatch)
    table = LocalConnection().table(str(tmp_path / "t"))
    write_rows(tmp_path / "t" / "0.orc", 0, list(range(500)))
    table.create_index("by_a", "a", "minmax")
    assert not table.scan("a = 2300").plan().tasks
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    read.clear()
    scan = LocalConnection().table(str(tmp_path / "copy")).scan("a = 2300")
    assert scan.plan().tasks == ()
    assert read == ["0.orc"]
    # of what has not changed since, that is known
    assert scan.plan().tasks == ()
    assert read == ["0.orc"]
    assert ids(scan) == []
    # the index is used all the same: the file is the one that it is of
    assert reasons(scan) == {}
    rows = scan.explain().rows
    assert rows is not None
    assert rows.kept == 0
    # one that was replaced before it was copied, too
    write_rows(tmp_path / "new", 0, [*range(499), 2300]).replace(tmp_path / "t" / "0.orc")
    shutil.copy(tmp_path / "t" / "0.orc", tmp_path / "copy" / "0.orc")
    assert ids(scan) == [499]


def test_a_file_replaced_by_one_of_another_type_with_the_same_length_and_time(
    path: Path, table: Table
) -> None:
    file = path / "one.orc"
    data = OrcReader(file).read()
    changed = data.set_column(1, "a", data.column("a").cast(pa.string()))

    def replace() -> None:
        from tests.support.writers import write_pyarrow

        length = file.stat().st_size
        write_pyarrow(file, changed.slice(0, 10), "none")
        # what stands before the stripes is never read: pad the file to its old length
        content = file.read_bytes()
        file.write_bytes(content[:3] + bytes(length - len(content)) + content[3:])

    keep_stat(file, replace)
    with raises(TableError):
        ids(table.scan(WHERE))
    (path / "two.orc").unlink()
    assert str(table.schema.resolve("a").type) == "string"
    assert table.index("by_a").status.startswith("stale: 1 changed, 1 gone")


@pytest.fixture
def renamed(tmp_path: Path, connection: LocalConnection) -> tuple[Table, Path]:
    """A table with an index on ``aa``, whose first file was replaced by one of the same length and time without it."""
    path = tmp_path / "t"
    for number in range(2):
        write_columns(
            path / f"{number}.orc",
            {"id": pa.array([2 * number, 2 * number + 1]), "aa": pa.array([1, 2])},
            codec="none",
        )
    table = connection.table(str(path))
    table.create_index("i", "aa")
    columns = {"id": pa.array([0, 1]), "bb": pa.array([1, 2])}
    keep_stat(path / "0.orc", lambda: write_columns(path / "0.orc", columns, codec="none"))
    return table, path


RENAMED = [
    {"id": 0, "bb": 1, "aa": None},
    {"id": 1, "bb": 2, "aa": None},
    {"id": 2, "bb": None, "aa": 1},
    {"id": 3, "bb": None, "aa": 2},
]


def test_a_file_replaced_by_one_of_other_columns_with_the_same_length_and_time(
    renamed: tuple[Table, Path],
) -> None:
    table, path = renamed
    assert table.scan().to_arrow().to_pylist() == RENAMED
    for where, found in (("aa = 1", [2]), ("bb = 1", [0]), ("aa IS NULL", [0, 1])):
        assert ids(table.scan(where)) == found
    assert reasons(table.scan("aa = 1")) == {}
    assert table.scan("aa = 1").explain().rows.kept == 1  # type: ignore[union-attr]
    assert table.index("i").status == "fresh"
    refreshed = table.refresh_indexes()
    assert (refreshed.files_read, refreshed.files_forgotten, refreshed.changed) == (0, 1, True)
    assert not table.refresh_indexes().changed
    (path / "1.orc").unlink()
    assert table.scan().to_arrow().to_pylist() == [{"id": 0, "bb": 1}, {"id": 1, "bb": 2}]
    with raises(ColumnError):
        table.refresh_indexes()
    table.drop_index("i")
    assert ids(table.scan("bb = 2")) == [1]


def test_such_a_file_where_the_listing_alone_is_believed(
    renamed: tuple[Table, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a remote store is, which sets the times itself."""
    table, _ = renamed
    with monkeypatch.context() as patch:
        patch.setattr(listing.DataFiles, "are_untouched_since", lambda _, at, __: np.ones(len(at), np.bool_))
        with raises(TableError):
            table.scan().to_arrow()
    assert table.refresh_indexes().changed
    assert table.scan().to_arrow().to_pylist() == RENAMED
    assert ids(table.scan("aa = 1")) == [2]
    assert not table.refresh_indexes().changed


def test_columns_of_an_unreadable_recorded_schema_are_those_of_the_file(
    connection: LocalConnection, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    write_columns(path / "0.orc", {"id": pa.array([0, 1]), "aa": pa.array([1, 2]), "bb": pa.array([5, 6])})
    write_columns(path / "1.orc", {"id": pa.array([2, 3]), "aa": pa.array([1, 2])})
    table = connection.table(str(path))
    before = table.scan().to_arrow()
    table.create_index("i", "aa")

    def change(manifest: Manifest) -> Manifest:
        first, second = manifest.files
        return replace(manifest, files=(replace(first, schema="struct<id:unheard of>"), second))

    Store.for_table(table.uri).commit(change)
    table = LocalConnection().table(str(path))
    assert table.scan().to_arrow().equals(before)
    assert ids(table.scan("aa = 2 AND (bb = 6 OR bb IS NULL)")) == [1, 3]


def test_every_reader_reports_an_unreadable_data_file(connection: LocalConnection, tmp_path: Path) -> None:
    for part in (1, 2):
        write_rows(tmp_path / f"t/p={part}/x.orc", part, [part])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("i", "a")
    file = tmp_path / "t" / "p=1" / "x.orc"
    keep_stat(file, lambda: file.write_bytes(bytes(file.stat().st_size)))
    assert ids(table.scan("p = 2")) == [2]
    with raises(OrcError):
        ids(table.scan("p = 1"))


def test_a_file_replaced_by_one_of_other_types_after_planning(path: Path, table: Table) -> None:
    batches = table.scan(WHERE).to_batches()
    write_columns(path / "one.orc", {"id": pa.array([1], pa.int64()), "a": pa.array(["x"])})
    with raises(TableError):
        list(batches)


def test_a_file_rewritten(path: Path, table: Table) -> None:
    write_rows(path / "one.orc", 0, [4] * 50)
    scan = table.scan(WHERE)
    assert ids(scan) == [*range(50), *expected(ROWS)]
    assert reasons(scan) == {Reason.STALE_FILE: ["one.orc"]}
    assert "length" in scan.explain().notes[0].detail
    assert [index.status for index in table.indexes()] == [
        "stale: 1 changed; 1 of 2 files indexed, 98.3 % of the rows"
    ] * 2


def test_a_file_touched_only(path: Path, table: Table) -> None:
    os.utime(path / "one.orc", ns=(OLD, OLD))
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert reasons(scan) == {Reason.STALE_FILE: ["one.orc"]}
    assert "time" in scan.explain().notes[0].detail


def test_a_file_added_with_an_older_time(path: Path, table: Table) -> None:
    os.utime(write_rows(path / "added.orc", 9000, [3, 5, None]), ns=(OLD, OLD))
    scan = table.scan(WHERE)
    assert ids(scan) == [9000, *expected()]
    assert reasons(scan) == {Reason.NEW_FILE: ["added.orc"]}
    assert scan.explain().rows is not None
    # the new file's rows are undecided, the others known
    assert scan.explain().rows.kept == len(expected()) + 3  # type: ignore[union-attr]


def test_a_file_deleted(path: Path, table: Table) -> None:
    (path / "one.orc").unlink()
    scan = table.scan(WHERE)
    assert ids(scan) == expected(ROWS)
    assert reasons(scan) == {Reason.FILE_GONE: ["one.orc"]}
    assert scan.explain().exact
    assert [index.status for index in table.indexes()] == [
        "stale: 1 gone; 1 of 1 file indexed, 100 % of the rows"
    ] * 2


def test_a_file_renamed_is_a_new_one(path: Path, table: Table) -> None:
    (path / "one.orc").rename(path / "zzz.orc")
    scan = table.scan(WHERE)
    assert ids(scan) == expected(ROWS) + expected(0, ROWS)
    assert reasons(scan) == {Reason.FILE_GONE: ["one.orc"], Reason.NEW_FILE: ["zzz.orc"]}


def test_two_files_that_change_places(path: Path, table: Table) -> None:
    one, two, other = path / "one.orc", path / "two.orc", path / ".other"
    one.rename(other)
    two.rename(one)
    other.rename(two)
    # a = id % 10 in both, so that a wrong answer would show in a file of other rows only
    write_rows(one, ROWS, [(i + 5) % 10 for i in range(ROWS)])
    scan = table.scan(WHERE)
    assert ids(scan) == [i + ROWS for i in range(ROWS) if (i + 5) % 10 in (3, 4)] + expected(0, ROWS)
    assert set(reasons(scan)) == {Reason.STALE_FILE}


def test_a_file_deleted_after_planning(path: Path, table: Table) -> None:
    plan = table.scan(WHERE).plan()
    (path / "two.orc").unlink()
    with raises(TableError):
        list(run_units(run_lookups(plan.tasks), ScanTaskReader.read))


def test_a_file_rewritten_after_planning(path: Path, table: Table) -> None:
    plan = table.scan(WHERE).plan()
    # writers put a new file in the place of the old one
    write_rows(path / ".new", 0, [4, 5, 3]).replace(path / "one.orc")
    rows = [
        (id_, [note.reason for note in task.notes])
        for task, batch in run_units(
            run_lookups(plan.tasks), lambda task, answer, _: (task, task.read(answer))
        )
        for id_ in batch.column("id").to_pylist()
    ]
    assert [id_ for id_, _ in rows] == [0, 2, *expected(ROWS)]
    assert {id_: notes for id_, notes in rows if id_ < ROWS} == {i: [Reason.STALE_FILE] for i in (0, 2)}
    assert all(notes == [] for id_, notes in rows if id_ >= ROWS)


def test_a_rewrite_back_to_the_same_bytes_is_fresh_again(path: Path, table: Table) -> None:
    file = path / "one.orc"
    content, before = file.read_bytes(), file.stat()
    write_rows(file, 0, [4])
    assert ids(table.scan(WHERE)) == [0, *expected(ROWS)]
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ids(table.scan(WHERE)) == expected()
    assert table.scan(WHERE).explain().exact


@pytest.mark.parametrize(
    "spelling", ["{}/", "{}//", "file:{}", "file://{}", "{}/../table", "{}/./", "link", "relative"]
)
def test_every_spelling_of_a_table_finds_its_indexes(
    spelling: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if spelling == "link":
        link = path.with_name("link")
        link.symlink_to(path)
        text = str(link)
    elif spelling == "relative":
        monkeypatch.chdir(path.parent)
        text = "table"
    else:
        text = spelling.format(path)
    table = hindex.connect().table(text)
    scan = table.scan(WHERE)
    assert ids(scan) == expected()
    assert scan.explain().exact
    assert [index.status for index in table.indexes()] == ["fresh", "fresh"]
    result = hindex.connect().sql(f"SELECT COUNT(*) FROM '{text}' WHERE {WHERE}")
    assert isinstance(result, hindex.QueryResult)
    assert result.to_arrow().column(0).to_pylist() == [len(expected())]


def test_a_table_that_was_moved_keeps_its_indexes(path: Path) -> None:
    moved = path.rename(path.with_name("moved"))
    scan = hindex.connect().table(str(moved)).scan(WHERE)
    assert ids(scan) == expected()
    assert scan.explain().exact


def test_partitions_added_and_dropped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "table"
    for part in (1, 2):
        write_rows(path / f"part={part}" / "x.orc", part * 1000, [i % 10 for i in range(500)])
    table = hindex.connect(spark=spark).table(str(path))
    table.create_index("by_a", "a", where="part IN (1, 3)")
    expected_rows = {part: [part * 1000 + i for i in range(500) if i % 10 == 4] for part in (1, 2, 3)}
    scan = table.scan("a = 4")
    assert ids(scan) == expected_rows[1] + expected_rows[2]
    assert reasons(scan) == {Reason.PARTITION_NOT_INDEXED: ["by_a on part=2/x.orc"]}
    assert table.scan("a = 4 AND part = 1").explain().exact
    assert ids(table.scan("a = 4 AND part = 2")) == expected_rows[2]

    write_rows(path / "part=3" / "x.orc", 3000, [i % 10 for i in range(500)])
    assert ids(scan) == expected_rows[1] + expected_rows[2] + expected_rows[3]
    assert reasons(scan) == {
        Reason.PARTITION_NOT_INDEXED: ["by_a on part=2/x.orc"],
        Reason.NEW_FILE: ["part=3/x.orc"],
    }
    assert table.index("by_a").status.startswith("stale: 1 added; 1 of 2 files indexed, ")
    shutil.rmtree(path / "part=1")
    assert ids(scan) == expected_rows[2] + expected_rows[3]
    assert Reason.FILE_GONE in reasons(scan)

    # a value that makes the partition column a string: the index's WHERE no longer fits it
    write_rows(path / "part=x" / "x.orc", 4000, [4])
    assert ids(scan) == [*expected_rows[2], *expected_rows[3], 4000]
    assert set(reasons(scan)) >= {Reason.PARTITION_NOT_INDEXED, Reason.FILE_GONE}


@pytest.mark.usefixtures("built_here")
@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
def test_a_file_system_that_tells_no_times(using: str, tmp_path: Path) -> None:
    root = f"/no-times-{using}"
    length = put_in_memory(root, 2000)
    table = LocalConnection(str(tmp_path)).table(f"memory:/{root}")
    table.create_index("by_a", "a", using)
    assert ids(table.scan("a = 2450")) == [450]
    assert ids(table.scan("a = 3050")) == []
    assert put_in_memory(root, 2600) == length
    scan = table.scan("a = 3050")
    assert ids(scan) == [450]
    assert reasons(scan) == {Reason.STALE_FILE: ["x.orc"]}
    assert ids(table.scan("a = 2450")) == []


def put_in_memory(root: str, first: int) -> int:
    """Write the only file of a table of fsspec's file system in memory, with ``a`` from ``first`` on; its length."""
    sink = pa.BufferOutputStream()
    table = pa.table({"id": pa.array(range(500)), "a": pa.array(range(first, first + 500))})
    pyarrow.orc.write_table(table, sink, compression="uncompressed")
    fsspec.filesystem("memory").pipe(f"{root}/x.orc", sink.getvalue().to_pybytes())
    return len(sink.getvalue())


@pytest.mark.usefixtures("built_here")
@pytest.mark.parametrize("using", ["bitmap", "btree", "minmax"])
@pytest.mark.parametrize(
    ("age", "fraction", "is_skipped"), [(0, 0, False), (60, 0, True), (0, 5_000_000, True)]
)
def test_a_file_replaced_within_the_second_in_which_it_was_written(
    using: str, age: int, fraction: int, is_skipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Object stores tell whole seconds: what was read in one is looked into before it is skipped."""
    read = tails_read(monkeypatch)
    root = f"/one-second-{using}-{age}-{fraction}"
    messages = (int(time.time()) - age) * 10**9 + fraction
    real = directory_tree._remote_files

    def in_that_second(table: str, uri: str, within: PartitionFilter | None) -> tuple[bool, DirectoryTree]:
        is_file, tree = real(table, uri, within)
        tree.files.mtimes_ns = [messages] * len(tree.files)
        return is_file, tree

    monkeypatch.setattr(directory_tree, "_remote_files", in_that_second)
    length = put_in_memory(root, 2000)
    table = LocalConnection(str(tmp_path)).table(f"memory:/{root}")
    table.create_index("by_a", "a", using)
    read.clear()
    assert not table.scan("a = 3050").plan().tasks
    assert bool(read) != is_skipped
    if is_skipped:
        return  # it cannot be replaced without another time
    assert ids(table.scan("a = 2450")) == [450]
    assert put_in_memory(root, 2600) == length
    scan = table.scan("a = 3050")
    assert ids(scan) == [450]
    assert reasons(scan) == {Reason.STALE_FILE: ["x.orc"]}
    # once it is over, a rebuild lets the file be skipped unopened
    monkeypatch.setattr(listing, "_SETTLES_NS", -(10**9))
    table.rebuild_index("by_a")
    read.clear()
    assert not table.scan("a = 2450").plan().tasks
    assert read == []
    assert ids(table.scan("a = 3050")) == [450]


@pytest.mark.usefixtures("built_here")
@pytest.mark.parametrize("using", ["bitmap", "btree", "minmax"])
def test_a_rebuild_lets_files_be_skipped_unopened_again(
    tmp_path: Path, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tails_read(monkeypatch)
    table = LocalConnection().table(str(tmp_path / "t"))
    file = write_rows(tmp_path / "t" / "0.orc", 0, list(range(500)))
    table.create_index("by_a", "a", using)
    file.chmod(0o600)
    read.clear()
    assert not table.scan("a = 2300").plan().tasks
    assert read == ["0.orc"]
    table.rebuild_index("by_a")
    read.clear()
    assert not table.scan("a = 2300").plan().tasks
    assert read == []
    # of two indexes too: the tail that the build compares is what tells whether the other one is of this file
    table.create_index("by_id", "id", "minmax")
    file.chmod(0o644)
    read.clear()
    assert not table.scan("a = 2300").plan().tasks
    assert read == ["0.orc"]
    table.rebuild_index("by_a")
    read.clear()
    assert not table.scan("a = 2300").plan().tasks
    assert not table.scan("id = 2300").plan().tasks
    assert read == []
    table.rebuild_index("by_id")
    assert not table.scan("a = 2300").plan().tasks


@pytest.mark.usefixtures("built_here")
def test_directories_that_change_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files may have the same size and time: clocks of file systems tick every few milliseconds."""
    for part, first in ((1, 2000), (2, 2600)):
        write_rows(tmp_path / "t" / f"p={part}" / "x.orc", 0, list(range(first, first + 500)))
    assert len({path.stat().st_size for path in (tmp_path / "t").rglob("*.orc")}) == 1
    real = directory_tree._times

    def in_one_tick(status: os.stat_result) -> tuple[int, int]:
        messages: Any = SimpleNamespace(st_mtime_ns=OLD, st_ctime_ns=OLD, st_ino=status.st_ino)
        return real(messages)

    monkeypatch.setattr(directory_tree, "_times", in_one_tick)
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", "minmax")
    assert table.scan("a = 2100").to_arrow().column("p").to_pylist() == [1]
    assert [task.path for task in table.scan("a = 2100").plan().tasks] == ["p=1/x.orc"]
    (tmp_path / "t" / "p=1").rename(tmp_path / "other")
    (tmp_path / "t" / "p=2").rename(tmp_path / "t" / "p=1")
    (tmp_path / "other").rename(tmp_path / "t" / "p=2")
    assert table.scan("a = 2100").to_arrow().column("p").to_pylist() == [2]
