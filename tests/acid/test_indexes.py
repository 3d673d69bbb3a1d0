"""Indexes on transactional tables: over physical rows, so that only new files are ever to be read again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.errors import ColumnError
from hindex.explanations.explanation import ReadPath
from hindex.orc.acid.delta_files import StoredFile, file_tail
from hindex.orc.metadata.file_tail import FileTail
from hindex.plan.reasons import Reason
from hindex.scan import included_columns
from hindex.store import snapshot
from tests.acid.writing import ACID, Key, bucket_property, write_acid, write_flat
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises

B0 = bucket_property(0)
MOST = 9223372036854775807
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
    values: list[int] = scan.to_arrow()["id"].to_pylist()
    assert scan.count() == len(values)
    return values


def stale(table: Table) -> set[Reason]:
    return {note.reason for note in table.scan(where="k = 2 AND id = 2").explain().notes} & STALE


@pytest.mark.parametrize("using", TYPES)
def test_copied_table(tmp_path: Path, connection: LocalConnection, using: str) -> None:
    root = tmp_path / "t"
    write_flat(root / "000000_0", [(i, i % 5, "x") for i in range(100)])
    insert(root / "delta_1_1", 1, range(100, 200))
    connection.table(str(root)).create_index("by_k", "k", using=using)
    delete(root / "delete_delta_2_2", [(0, B0, 2), (1, B0, 7)], 2)
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    for name in ("000000_0", "delta_1_1/bucket_00000"):
        os.utime(copy / name, ns=(1, 10**18))
    table = connection.table(str(copy))
    expected = [i for i in range(200) if i % 5 == 2 and i not in (2, 107)]
    assert ids(table, "k = 2") == expected
    assert stale(table) == {Reason.STALE_FILE}
    connection.built_paths.clear()
    result = table.adopt_indexes()
    assert (result.files_adopted, result.files_differing, result.verified_stripes) == (2, 0, 6)
    assert ids(table, "k = 2") == expected
    assert not stale(table)
    assert table.index("by_k").status == "fresh"
    assert not table.refresh_indexes().changed
    assert not connection.built_paths


@pytest.mark.parametrize("using", TYPES)
def test_changes_that_make_indexes_stale(tmp_path: Path, connection: LocalConnection, using: str) -> None:
    root = tmp_path / "t"
    write_flat(root / "000000_0", [(i, i % 5, "x") for i in range(100)])
    insert(root / "delta_1_1", 1, range(100, 200))
    table = connection.table(str(root))
    table.create_index("by_k", "k", using=using)
    assert sorted(connection.built_paths) == ["000000_0", "delta_1_1/bucket_00000"]
    connection.built_paths.clear()

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
    assert connection.built_paths == ["delta_3_3/bucket_00000"]
    assert not stale(table)
    connection.built_paths.clear()

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
    assert connection.built_paths == ["delta_1_3_v5/bucket_00000"]
    assert sorted(ids(table, "k = 2")) == expected
    assert not stale(table)
    connection.built_paths.clear()

    # a major one replaces everything
    live = [
        (key, key[0], (i, i % 5, "x")) for key, i in [((0, B0, i), i) for i in range(100)] if i not in (2, 12)
    ]
    live += [row for row in rows if row[0] != (1, B0, 7)]
    write_acid(root / "base_3_v6" / "bucket_00000", sorted(live))
    assert sorted(ids(table, "k = 2")) == expected
    table.refresh_indexes()
    assert connection.built_paths == ["base_3_v6/bucket_00000"]
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
    explanation = scan.explain()
    # no column of the table is read, and row ids are
    assert (explanation.path, explanation.exact, explanation.deleted) == (ReadPath.INDEX_AND_KEYS, True, 100)
    assert explanation.bytes is not None
    assert 0 < (explanation.bytes.kept or 0) < 0.5 * (explanation.bytes.total or 0)
    assert scan.count() == 100
    assert table.scan(where="k = 1").count() == 200
    assert table.scan().count() == 900
    # a limit is of rows that are there
    assert table.scan(where="k = 0", columns=["id"], limit=3).to_arrow()["id"].to_pylist() == [5, 15, 25]


def test_a_transaction_deletes_rows_of_its_own(tmp_path: Path, connection: LocalConnection) -> None:
    """Statements of one transaction write under one id."""
    insert(tmp_path / "delta_0000001_0000001_0000", 1, range(10))
    delete(tmp_path / "delete_delta_0000001_0000001_0001", [(1, B0, 3)], 1)
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    assert ids(table, "k = 3") == [8]
    assert ids(table, "k IS NOT NULL") == [i for i in range(10) if i != 3]


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


@pytest.mark.parametrize("using", TYPES)
def test_a_refresh_forgets_no_file_that_others_see(
    tmp_path: Path, connection: LocalConnection, using: str
) -> None:
    for write_id in (1, 2, 3):
        insert(
            tmp_path / f"delta_{write_id}_{write_id}", write_id, range(100 * write_id, 100 * write_id + 100)
        )
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using=using)
    insert(tmp_path / "delta_4_4", 4, range(400, 500))
    few = connection.table(str(tmp_path), valid_write_ids=f"t:4:{MOST}::2")
    wanted = [i for i in range(100, 500) if i % 5 == 2]
    assert sorted(ids(few, "k = 2")) == [i for i in wanted if not 200 <= i < 300]
    assert Reason.FILE_GONE not in stale(few)
    connection.built_paths.clear()
    assert few.refresh_indexes().changed
    assert connection.built_paths == ["delta_4_4/bucket_00000"]
    assert sorted(ids(few, "k = 2")) == [i for i in wanted if not 200 <= i < 300]
    # whoever sees all has nothing to do
    assert sorted(ids(table, "k = 2")) == wanted
    assert not stale(table)
    assert not table.refresh_indexes().changed
    # what is gone for all is forgotten, whatever is seen
    shutil.rmtree(tmp_path / "delta_2_2")
    assert Reason.FILE_GONE in stale(few)
    assert few.refresh_indexes().changed
    assert not stale(table)
    assert sorted(ids(table, "k = 2")) == [i for i in wanted if not 200 <= i < 300]


def test_an_emptied_table_has_the_columns_that_were_indexed(
    tmp_path: Path, connection: LocalConnection
) -> None:
    """A major compaction of a table without rows leaves a base without files."""
    insert(tmp_path / "delta_1_1", 1, range(100))
    connection.table(str(tmp_path)).create_index("by_k", "k", using="bitmap")
    shutil.rmtree(tmp_path / "delta_1_1")
    (tmp_path / "base_2_v3").mkdir()
    table = connection.table(str(tmp_path))
    result = table.scan(where="k = 2").to_arrow()
    assert (result.num_rows, result.column_names) == (0, ["id", "k", "s"])
    assert (table.scan().count(), table.scan(columns=["s"]).to_arrow().num_rows) == (0, 0)
    other = tmp_path / "other"
    (other / "base_2_v3").mkdir(parents=True)
    with raises(ColumnError):
        connection.table(str(other)).scan(where="k = 2").count()


def test_an_emptied_partition_keeps_its_column(tmp_path: Path, connection: LocalConnection) -> None:
    insert(tmp_path / "p=7" / "delta_1_1", 1, range(100))
    table = connection.table(str(tmp_path))
    table.create_index("by_k", "k", using="bitmap")
    shutil.rmtree(tmp_path / "p=7" / "delta_1_1")
    (tmp_path / "p=7" / "base_2_v3").mkdir()
    wanted = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("s", pa.string()), ("p", pa.int32())])
    for where in (None, "p = 7", "p > 7 OR k = 2"):
        result = table.scan(where=where).to_arrow()
        assert (result.num_rows, result.schema) == (0, wanted), where
        assert table.scan(where=where).count() == 0
    # the directory tells the partition, and nothing the other columns, once the index has forgotten the file
    assert table.refresh_indexes().changed
    assert table.scan().to_arrow().schema == pa.schema([("p", pa.int32())])
    with raises(ColumnError):
        table.scan(where="k = 2").count()


def test_an_emptied_table_whose_files_had_other_types(tmp_path: Path, connection: LocalConnection) -> None:
    """The newer of those that do not fit each other count, and a refresh forgets all."""
    insert(tmp_path / "delta_1_1", 1, range(30))
    table = connection.table(str(tmp_path))
    table.create_index("by_id", "id", using="bitmap")
    # one base in place of all, which a reader that hides nothing and one with a list see
    rows = [((2, B0, at), 2, (at, "a", "x")) for at in range(5)]
    newer = tmp_path / "base_2" / "bucket_00000"
    write_acid(newer, rows, schema=ACID.replace("k:int", "k:string"))  # type: ignore[arg-type]
    connection.table(str(tmp_path), valid_write_ids="t:9:::").refresh_indexes()
    (tmp_path / "base_3").mkdir()
    result = table.scan(where="k = 'a'").to_arrow()
    assert (result.num_rows, result.column_names) == (0, ["id", "k", "s"])
    assert result.schema.field("k").type == pa.string()
    assert table.scan().count() == 0
    assert table.refresh_indexes().changed
    assert not table.refresh_indexes().changed


def test_a_table_of_which_nothing_is_seen(tmp_path: Path, connection: LocalConnection) -> None:
    insert(tmp_path / "delta_1_1", 1, range(10))
    none = connection.table(str(tmp_path), valid_write_ids="t:0:::")
    assert none.scan().count() == 0
    with raises(ColumnError):
        none.scan(where="k = 2").count()


def test_included_columns(
    tmp_path: Path, connection: LocalConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted rows are in the blocks, and queries leave them out; a delete makes nothing stale."""
    monkeypatch.setattr(included_columns, "block_micros", lambda *_, **__: 0.0)
    root = tmp_path / "t"
    write_flat(root / "000000_0", [(i, i % 5, "x") for i in range(100)])
    insert(root / "delta_1_1", 1, range(100, 200))
    table = connection.table(str(root))
    table.create_index("by_k", "k", include=["id", "k"])
    delete(root / "delete_delta_2_2", [(0, B0, 2), (1, B0, 7)], 2)
    expected = [i for i in range(200) if i % 5 == 2 and i not in (2, 107)]
    assert ids(table, "k = 2") == expected
    explanation = table.scan("k = 2", ["id"]).explain()
    assert dict(explanation.included) == {"by_k_rows": ("id",)}
    assert explanation.path is ReadPath.INDEX_AND_KEYS
    assert ids(table, "k = 2 AND id > 150") == [i for i in expected if i > 150]
    assert not stale(table)
    assert not table.refresh_indexes().changed
    assert table.check_indexes(["by_k_rows"], verify=True)[0].problems == ()
    # an update adds a file
    delete(root / "delete_delta_3_3", [(0, B0, 12)], 3)
    insert(root / "delta_3_3", 3, range(12, 13))
    table.refresh_indexes()
    assert sorted(ids(table, "k = 2")) == expected
    assert not stale(table)
