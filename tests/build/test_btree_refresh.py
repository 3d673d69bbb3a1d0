"""Refreshing BTREE indexes, and merging what many refreshes wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hindex.api.table import Table
from hindex.build import btree_job
from hindex.build.job import plan_build
from hindex.errors import BuildError
from hindex.index.page_cache import shared_cache
from hindex.store.snapshot import find_fresh_files
from hindex.store.store import Store
from tests.build.btree_sets import check_one_set, contents, garbage, groups, sets, union, values
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, store_state, write_rows

pytestmark = pytest.mark.usefixtures("here")


def test_nothing_changed_nothing_written(table: Table, connection: LocalConnection) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    connection.built_paths.clear()
    table.refresh_indexes()
    assert store_state(table) == before
    assert connection.built_paths == []


def test_only_what_changed_is_read(path: Path, table: Table, connection: LocalConnection) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    connection.built_paths.clear()
    write_rows(path / "f1.orc", 1000, [5000, 5001])
    write_rows(path / "f3.orc", 9000, [5000, 7])
    os.utime(path / "f3.orc", ns=(10**18, 10**18))
    assert plan_build(
        table.snapshot(), table.snapshot().manifest.indexes, fresh=find_fresh_files(table.snapshot())
    ).data_files == {"f1.orc", "f3.orc"}
    table.index("by_a").refresh()
    assert connection.built_paths == ["f1.orc", "f3.orc"]
    assert table.index("by_a").status == "fresh"
    first, second = sets(table)
    assert (first.num_files, second.num_files) == (3, 2)
    assert contents(table, second) == union(groups("f1.orc", [5000, 5001]), groups("f3.orc", [5000, 7]))
    after = store_state(table)
    assert before.items() <= after.items()
    assert ids(table.scan("a = 5000")) == [1000, 9000]
    assert ids(table.scan("a = 7")) == [7, 707, 2107, 2807, 9001]
    # the old set still says that f1 has a 7: it is of another version
    assert {task.path for task in table.scan("a = 7").plan().tasks} == {"f0.orc", "f2.orc", "f3.orc"}


def test_many_sets_are_merged_without_reading_data(
    path: Path, table: Table, connection: LocalConnection
) -> None:
    table.create_index("by_a", "a", "btree")
    table.create_index("by_s", "s", "btree")
    data = {f"f{n}.orc": values(n * 1000, 1000) for n in range(3)}
    for number in range(3, 3 + btree_job.MAX_SETS):
        connection.built_paths.clear()
        data[f"f{number}.orc"] = [number, -number, 2 * number]
        write_rows(path / f"f{number}.orc", 1000 * number, data[f"f{number}.orc"])
        if number == 5:
            (path / "f1.orc").unlink()
            del data["f1.orc"]
        table.refresh_indexes()
        assert connection.built_paths == [f"f{number}.orc"] * 2
    merged = {held.index_id: held for held in sets(table)}
    assert len(merged) == len(sets(table)) == 2
    by_a, by_s = (merged[table.snapshot().manifest.index(name).id] for name in ("by_a", "by_s"))
    assert by_a.num_files == len(data)
    assert contents(table, by_a) == union(*(groups(name, column) for name, column in data.items()))
    assert contents(table, by_s) == union(
        *(groups(name, [f"s{value}".encode() for value in column]) for name, column in data.items())
    )
    assert [index.status for index in table.indexes()] == ["fresh", "fresh"]
    before = store_state(table)
    table.refresh_indexes()
    assert store_state(table) == before
    assert len(garbage(table)) == 2 * btree_job.MAX_SETS
    assert ids(table.scan("a = 7 OR s = 's8'")) == sorted(ids(table.scan("a IN (7, 8)")))


def test_a_set_of_which_little_is_left_is_written_anew(
    path: Path, table: Table, connection: LocalConnection
) -> None:
    table.create_index("by_a", "a", "btree")
    (path / "f0.orc").unlink()
    (path / "f2.orc").unlink()
    connection.built_paths.clear()
    table.refresh_indexes()
    (index_set,) = sets(table)
    assert index_set.num_files == 1
    assert contents(table, index_set) == groups("f1.orc", values(1000, 1000))
    assert connection.built_paths == []
    assert table.index("by_a").status == "fresh"


def test_keys_of_very_many_row_groups_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide"
    column = [None if i % 7 == 0 else i % 2 for i in range(40_000)]
    write_rows(path / "wide.orc", 0, column)
    write_rows(path / "other.orc", 50_000, [1, 3])
    write_rows(path / "third.orc", 60_000, [3])
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree", properties={"values_per_page": "1"})
    (path / "third.orc").unlink()
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    write_rows(path / "fourth.orc", 70_000, [0, 4])
    table.refresh_indexes()
    (index_set,) = sets(table)
    assert contents(table, index_set) == union(
        groups("wide.orc", column), groups("other.orc", [1, 3]), groups("fourth.orc", [0, 4])
    )


def test_a_damaged_set_is_not_merged(path: Path, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.create_index("by_a", "a", "btree")
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    file = Path(Store.for_table(table.uri).absolute(sets(table)[0].files[0].path))
    data = bytearray(file.read_bytes())
    data[12] ^= 1
    file.write_bytes(data)
    shared_cache().clear()
    write_rows(path / "f3.orc", 9000, [1])
    before = store_state(table)
    with raises(BuildError):
        table.refresh_indexes()
    assert store_state(table) == before
    file.unlink()
    shared_cache().clear()
    with pytest.raises(BuildError, match=r"^index 'by_a' cannot be merged: .*drop it and create it again"):
        table.refresh_indexes()
    assert ids(table.scan("a = 1")) == [1, 701, 1401, 2101, 2801, 9000]


def test_one_partition_is_refreshed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "parts"
    for part in range(3):
        write_rows(path / f"p={part}" / "x.orc", part * 100, [part] * 10)
    connection = LocalConnection()
    table = connection.table(str(path))
    table.create_index("by_a", "a", "btree")
    first = {held.partition or "": held for held in sets(table)}
    assert sorted(first) == ["p=0", "p=1", "p=2"]
    write_rows(path / "p=1" / "y.orc", 900, [77])
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    connection.built_paths.clear()
    table.refresh_indexes()
    assert connection.built_paths == ["p=1/y.orc"]
    now = {held.partition: held for held in sets(table)}
    assert (now["p=0"], now["p=2"]) == (first["p=0"], first["p=2"])
    assert contents(table, now["p=1"]) == union(groups("p=1/x.orc", [1] * 10), groups("p=1/y.orc", [77]))


def test_refreshing_a_partition_keeps_a_set_that_covers_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "parts"
    for part in range(3):
        write_rows(path / f"p={part}" / "x.orc", part * 100, [part] * 10)
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree", properties={"level": "table"})
    (first,) = sets(table)
    write_rows(path / "p=1" / "y.orc", 900, [77])
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    table.refresh_indexes(["by_a"], where="p = 1")
    # nothing would be won by copying what the first set has of this partition: the others still need it
    assert {held.id: held.num_files for held in sets(table)}.pop(first.id) == 3
    assert sorted(held.num_files for held in sets(table)) == [1, 3]
    assert table.index("by_a").status == "fresh"
    assert [task.path for task in table.scan("a IN (2, 77)").plan().tasks] == ["p=1/y.orc", "p=2/x.orc"]
    before = store_state(table)
    table.refresh_indexes(["by_a"], where="p = 1")
    assert store_state(table) == before
    # the whole table's refresh may merge it
    write_rows(path / "p=0" / "z.orc", 950, [78])
    table.refresh_indexes()
    assert len(sets(table)) == 1
    assert ids(table.scan("a IN (2, 77, 78)")) == [950, 900, *range(200, 210)]


def test_a_file_that_two_sets_describe_is_merged_once(
    path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {f"f{n}.orc": values(n * 1000, 1000) for n in range(3)}
    table.create_index("by_a", "a", "btree")
    file = path / "f1.orc"
    content, status = file.read_bytes(), file.stat()
    monkeypatch.setattr(btree_job, "MAX_SETS", 2)
    write_rows(file, 1000, [1])
    table.refresh_indexes()
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    table.refresh_indexes()
    # the first set, which its other files name still, and the last one are of the same version
    assert sorted(held.num_files for held in sets(table)) == [1, 3]
    data["f3.orc"] = [7, 8]
    write_rows(path / "f3.orc", 5000, data["f3.orc"])
    table.refresh_indexes()
    check_one_set(table, data)


def test_a_partition_that_was_built_anew_is_merged_once(tmp_path: Path) -> None:
    path = tmp_path / "parts"
    data = {f"p={name in 'abc':d}/{name}.orc": values(1000 * n, 1000) for n, name in enumerate("abcd")}
    for number, (name, column) in enumerate(data.items()):
        write_rows(path / name, 1000 * number, column)
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree", properties={"level": "table"})
    table.rebuild_index("by_a", where="p = 1")
    assert sorted(held.num_files for held in sets(table)) == [3, 4]
    # little is left of the set of the whole table
    table.refresh_indexes()
    check_one_set(table, data)
