"""Indexes on transactional tables: over physical rows, so that only new files are ever to be read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hindex.orc.acid.files import StoredFile, file_tail
from hindex.orc.tail import FileTail
from hindex.plan.explain import ReadPath
from hindex.plan.reasons import Reason
from hindex.table import snapshot
from hindex.tables import Table
from tests.acid.writing import Key, bucket_property, write_acid, write_flat
from tests.support import local_build
from tests.support.local_build import LocalConnection

B0 = bucket_property(0)
STALE = {Reason.NEW_FILE, Reason.STALE_FILE, Reason.FILE_GONE, Reason.NOT_BUILT}
TYPES = ("bitmap", "bloom", "minmax", "btree")


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> LocalConnection:
    local_build.install(monkeypatch)
    return LocalConnection()


def insert(path: Path, write_id: int, ids: range) -> None:
    write_acid(
        path / "bucket_00000", [((write_id, B0, at), write_id, (i, i % 5, "x")) for at, i in enumerate(ids)]
    )


def delete(path: Path, keys: list[Key], current: int) -> None:
    write_acid(path / "bucket_00000", [(key, current, None) for key in keys])


def ids(table: Table, where: str) -> list[int]:
    scan = table.scan(where=where, columns=["id"])
    found: list[int] = scan.to_arrow()["id"].to_pylist()
    assert scan.count() == len(found)
    return found


def stale(table: Table) -> set[Reason]:
    return {note.reason for note in table.scan(where="k = 2 AND id = 2").explain().notes} & STALE


@pytest.mark.parametrize("using", TYPES)
def test_what_makes_indexes_stale(tmp_path: Path, connection: LocalConnection, using: str) -> None:
    root = tmp_path / "t"
    write_flat(root / "000000_0", [(i, i % 5, "x") for i in range(100)])
    insert(root / "delta_1_1", 1, range(100, 200))
    table = connection.table(str(root))
    table.create_index("by_k", "k", using=using)
    assert sorted(connection.told) == ["000000_0", "delta_1_1/bucket_00000"]
    connection.told.clear()

    # a delete makes nothing stale
    delete(root / "delete_delta_2_2", [(0, B0, 2), (1, B0, 7)], 2)
    assert ids(table, "k = 2") == [i for i in range(200) if i % 5 == 2 and i not in (2, 107)]
    assert not stale(table)
    assert not table.refresh_indexes().changed

    # an update adds a file
    delete(root / "delete_delta_3_3", [(0, B0, 12)], 3)
    insert(root / "delta_3_3", 3, range(12, 13))
    assert sorted(ids(table, "k = 2")) == [i for i in range(200) if i % 5 == 2 and i not in (2, 107)]
    assert stale(table) == {Reason.NEW_FILE}
    table.refresh_indexes()
    assert connection.told == ["delta_3_3/bucket_00000"]
    assert not stale(table)
    connection.told.clear()

    # a minor compaction replaces the deltas, and not the original file
    keys = [(1, B0, at) for at in range(100)], [(3, B0, 0)]
    rows = [(key, key[0], (100 + key[2], key[2] % 5, "x")) for key in keys[0]] + [
        ((3, B0, 0), 3, (12, 2, "x"))
    ]
    write_acid(root / "delta_1_3_v5" / "bucket_00000", rows)
    delete(root / "delete_delta_1_3_v5", [(0, B0, 2), (0, B0, 12), (1, B0, 7)], 3)
    for name in ("delta_1_1", "delta_3_3", "delete_delta_2_2", "delete_delta_3_3"):
        shutil.rmtree(root / name)
    expected = [i for i in range(200) if i % 5 == 2 and i not in (2, 107)]
    assert sorted(ids(table, "k = 2")) == expected
    table.refresh_indexes()
    assert connection.told == ["delta_1_3_v5/bucket_00000"]
    assert sorted(ids(table, "k = 2")) == expected
    assert not stale(table)
    connection.told.clear()

    # a major one replaces everything
    live = [
        (key, key[0], (i, i % 5, "x")) for key, i in [((0, B0, i), i) for i in range(100)] if i not in (2, 12)
    ]
    live += [row for row in rows if row[0] != (1, B0, 7)]
    write_acid(root / "base_3_v6" / "bucket_00000", sorted(live))
    assert sorted(ids(table, "k = 2")) == expected
    table.refresh_indexes()
    assert connection.told == ["base_3_v6/bucket_00000"]
    assert sorted(ids(table, "k = 2")) == expected
    assert not stale(table)
    assert [result.problems for result in table.check_indexes(verify=True)] == [()]


def test_answers_of_indexes_alone_leave_out_what_is_deleted(
    tmp_path: Path, connection: LocalConnection
) -> None:
    insert(tmp_path / "delta_1_1", 1, range(1000))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    delete(tmp_path / "delete_delta_2_2", [(1, B0, at) for at in range(0, 1000, 10)], 2)
    scan = table.scan(where="k = 0", columns=[])
    found = scan.explain()
    assert (found.path, found.exact, found.deleted) == (ReadPath.INDEX_ONLY, True, 100)
    assert scan.count() == 100
    assert table.scan(where="k = 1").count() == 200
    assert table.scan().count() == 900
    # a limit is of rows that are there
    assert table.scan(where="k = 0", columns=["id"], limit=3).to_arrow()["id"].to_pylist() == [5, 15, 25]


def test_a_check_compares_deleted_rows_too(tmp_path: Path, connection: LocalConnection) -> None:
    insert(tmp_path / "delta_1_1", 1, range(100))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    delete(tmp_path / "delete_delta_2_2", [(1, B0, at) for at in range(50)], 2)
    (result,) = table.check_indexes(verify=True)
    assert result.verified_stripes
    assert not result.problems


def test_dry_runs(tmp_path: Path, connection: LocalConnection) -> None:
    insert(tmp_path / "delta_1_1", 1, range(100))
    delete(tmp_path / "delete_delta_2_2", [(1, B0, at) for at in range(50)], 2)
    for using in TYPES:
        estimate = connection.table(str(tmp_path)).create_index("i", "k", using=using, dry_run=True)
        assert (estimate.files, estimate.rows) == (1, 100)  # type: ignore[union-attr]


def test_the_manifest_skips_files(tmp_path: Path, connection: LocalConnection) -> None:
    for write_id in (1, 2, 3):
        insert(
            tmp_path / f"delta_{write_id}_{write_id}", write_id, range(100 * write_id, 100 * write_id + 100)
        )
    table = connection.table(str(tmp_path))
    table.create_index("by_id", "id", using="minmax")
    delete(tmp_path / "delete_delta_4_4", [(2, B0, 50)], 4)
    plan = table.scan(where="id >= 249 AND id <= 251").plan()
    assert [task.path for task in plan.tasks] == ["delta_2_2/bucket_00000"]
    assert ids(table, "id >= 249 AND id <= 251") == [249, 251]


def test_a_table_that_was_emptied(tmp_path: Path, connection: LocalConnection) -> None:
    insert(tmp_path / "delta_1_1", 1, range(100))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    (tmp_path / "base_2").mkdir()
    result = table.refresh_indexes()
    assert (result.files_read, result.files_forgotten, result.changed) == (0, 1, True)
    assert table.scan(columns=[]).count() == 0
    insert(tmp_path / "delta_3_3", 3, range(10))
    table.refresh_indexes()
    assert ids(table, "k = 2") == [2, 7]
    assert not stale(table)


def test_files_before_others_are_looked_at_unless_certainly_unchanged(
    tmp_path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row ids count through them, and whoever opens the others notices nothing."""
    for number in range(3):
        write_flat(tmp_path / f"000000_{number}", [(10 * number + i, i % 5, "x") for i in range(10)])
    insert(tmp_path / "delta_1_1", 1, range(100, 110))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    read: list[str] = []

    def watched(file: StoredFile) -> FileTail:
        read.append(Path(file.uri).name)
        return file_tail(file)

    monkeypatch.setattr(snapshot, "file_tail", watched)
    table.snapshot()
    assert read == []
    # the same length and modification time, but written again
    path = tmp_path / "000000_0"
    before = path.stat()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    table.snapshot()
    assert read == ["000000_0"]
