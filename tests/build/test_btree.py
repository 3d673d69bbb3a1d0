"""Building, refreshing and merging BTREE indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.build import btree_job, btree_task
from hindex.build.btree_task import BTreeJob, Part, write_parts
from hindex.build.job import plan_build, run_build
from hindex.errors import BuildError
from hindex.index.btree import BTreeWriter
from hindex.index.btree_locations import IndexedFile
from hindex.index.cache import shared_cache
from hindex.index.grouping import Groups
from hindex.index.open_files import open_btree_file
from hindex.keys import KeyKind
from hindex.orc.types import Kind, OrcType
from hindex.progress import NullProgress
from hindex.store.manifest import IndexEntry, SharedIndexEntry, new_index_id
from hindex.store.store import Store
from hindex.table.fingerprint import Fingerprint
from hindex.table.snapshot import fresh_paths
from hindex.tables import IndexSpec, Table
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.oracle import spark_where
from tests.support.small import ids, store_state, write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local_build.install(monkeypatch)
    yield
    shared_cache().clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three files; row i has a = i % 700."""
    path = tmp_path / "table"
    for number in range(3):
        write_rows(path / f"f{number}.orc", number * 1000, values(number * 1000, 1000))
    return path


@pytest.fixture
def connection() -> LocalConnection:
    return LocalConnection()


@pytest.fixture
def table(path: Path, connection: LocalConnection) -> Table:
    return connection.table(str(path))


def values(first: int, count: int) -> list[int]:
    return [i % 700 for i in range(first, first + count)]


def sets(table: Table) -> tuple[SharedIndexEntry, ...]:
    return table.snapshot().manifest.shared_indexes()


def garbage(table: Table) -> list[str]:
    return [item.path for item in Store.for_table(table.uri).garbage()]


def contents(table: Table, held: SharedIndexEntry) -> dict[Any, set[tuple[str, int]]]:
    """Everything that a set's files say: the row groups of each key, and of None."""
    store = Store.for_table(table.uri)
    found: dict[Any, set[tuple[str, int]]] = {}
    for file in held.files:
        reader = open_btree_file(store.absolute(file.path), file.length, file.footer_checksum)
        places = [(item.path, n) for item in reader.all_files() for n in range(item.num_groups)]
        for number in reader.nulls():
            found.setdefault(None, set()).add(places[number])
        for leaf in reader.all_leaves():
            for number, location in zip(*(part.tolist() for part in reader.entries(leaf)), strict=True):
                found.setdefault(leaf.keys[number], set()).add(places[location])
    return found


def groups(name: str, column: list[Any]) -> dict[Any, set[tuple[str, int]]]:
    """The same of one data file, by plain Python; its row groups have 100 rows."""
    found: dict[Any, set[tuple[str, int]]] = {}
    for row, value in enumerate(column):
        found.setdefault(value, set()).add((name, row // 100))
    return found


def union(*some: dict[Any, set[tuple[str, int]]]) -> dict[Any, set[tuple[str, int]]]:
    found: dict[Any, set[tuple[str, int]]] = {}
    for item in some:
        for key, places in item.items():
            found.setdefault(key, set()).update(places)
    return found


def test_one_set_of_files_for_the_table(table: Table, connection: LocalConnection) -> None:
    index = table.create_index("by_a", "a", "compact")
    assert (index.type, index.status, index.num_files, index.num_fresh_files) == ("BTREE", "fresh", 3, 3)
    (held,) = sets(table)
    assert (held.partition, held.num_files, held.num_row_groups, len(held.files)) == (None, 3, 30, 1)
    assert contents(table, held) == union(*(groups(f"f{n}.orc", values(n * 1000, 1000)) for n in range(3)))
    assert (
        index.size_bytes
        == held.files[0].length
        == sum(len(data) for name, data in store_state(table).items() if name.endswith(".hidx"))
    )
    assert held.files[0].extent.min_key == 0
    assert held.files[0].extent.max_key == 699
    assert connection.told == ["f0.orc", "f1.orc", "f2.orc"]
    assert garbage(table) == []


def test_together_with_other_types(table: Table, connection: LocalConnection) -> None:
    made = table.create_indexes(
        [IndexSpec("tree", "a", "btree"), IndexSpec("bits", "a", "bitmap"), IndexSpec("s", "s", "btree")]
    )
    assert [index.status for index in made] == ["fresh"] * 3
    manifest = table.snapshot().manifest
    assert manifest.number == 1
    assert [(len(e.index_files), len(e.shared)) for e in manifest.files] == [(1, 2)] * 3
    # a pass of its own for each that covers many files
    assert connection.told == ["f0.orc", "f1.orc", "f2.orc"] * 3
    table.drop_index("bits")
    assert [len(e.shared) for e in table.snapshot().manifest.files] == [2] * 3
    table.drop_index("tree")
    table.drop_index("s")
    assert table.snapshot().manifest.files == ()
    assert len(garbage(table)) == 5


# Refreshing


def test_nothing_changed_nothing_written(table: Table, connection: LocalConnection) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    connection.told.clear()
    table.refresh_indexes()
    assert store_state(table) == before
    assert connection.told == []


def test_only_what_changed_is_read(path: Path, table: Table, connection: LocalConnection) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    connection.told.clear()
    write_rows(path / "f1.orc", 1000, [5000, 5001])
    write_rows(path / "f3.orc", 9000, [5000, 7])
    os.utime(path / "f3.orc", ns=(10**18, 10**18))
    assert plan_build(
        table.snapshot(), table.snapshot().manifest.indexes, fresh=fresh_paths(table.snapshot())
    ).data_files == {"f1.orc", "f3.orc"}
    table.index("by_a").refresh()
    assert connection.told == ["f1.orc", "f3.orc"]
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
        connection.told.clear()
        data[f"f{number}.orc"] = [number, -number, 2 * number]
        write_rows(path / f"f{number}.orc", 1000 * number, data[f"f{number}.orc"])
        if number == 5:
            (path / "f1.orc").unlink()
            del data["f1.orc"]
        table.refresh_indexes()
        assert connection.told == [f"f{number}.orc"] * 2
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
    connection.told.clear()
    table.refresh_indexes()
    (held,) = sets(table)
    assert held.num_files == 1
    assert contents(table, held) == groups("f1.orc", values(1000, 1000))
    assert connection.told == []
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
    (held,) = sets(table)
    assert contents(table, held) == union(
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
    with pytest.raises(BuildError, match=r"index build failed on index file .*checksum does not hold"):
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
    connection.told.clear()
    table.refresh_indexes()
    assert connection.told == ["p=1/y.orc"]
    now = {held.partition: held for held in sets(table)}
    assert (now["p=0"], now["p=2"]) == (first["p=0"], first["p=2"])
    assert contents(table, now["p=1"]) == union(groups("p=1/x.orc", [1] * 10), groups("p=1/y.orc", [77]))


# Files of other shapes


def test_columns_that_some_files_lack_and_files_without_rows(path: Path, table: Table) -> None:
    write_columns(path / "b.orc", {"id": pa.array([7000, 7001]), "b": pa.array([1, None], pa.int32())})
    (path / "zero-bytes.orc").touch()
    write_rows(path / "zero-rows.orc", 0, [])
    made = table.create_indexes([IndexSpec("by_b", "b", "btree"), IndexSpec("by_a", "a", "btree")])
    assert [index.status for index in made] == ["fresh", "fresh"]
    for where, expected in [
        ("b = 1", [7000]),
        ("a IS NULL", [7000, 7001]),
        ("a = 3 OR b = 1", [7000, 3, 703, 1403, 2103, 2803]),
        ("b IS NULL AND a = 3", [3, 703, 1403, 2103, 2803]),
    ]:
        assert ids(table.scan(where)) == expected, where
        assert table.scan(where).explain().notes == (), where


def test_a_table_of_zero_rows(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "table" / "x.orc", 0, []).parent
    table = LocalConnection().table(str(path))
    assert table.create_index("by_a", "a", "btree").status == "fresh"
    assert sets(table)[0].files == ()
    assert ids(table.scan("a = 1 OR a IS NULL")) == []
    write_rows(path / "y.orc", 0, [1])
    table.refresh_indexes()
    assert ids(table.scan("a = 1")) == [0]
    assert table.index("by_a").status == "fresh"


def test_a_column_that_becomes_wider(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_columns(path / "a.orc", {"id": pa.array([0, 1]), "n": pa.array([5, 6], pa.int32())})
    write_columns(path / "b.orc", {"id": pa.array([2]), "n": pa.array([5], pa.int16())})
    connection = LocalConnection()
    table = connection.table(str(path))
    table.create_index("by_n", "n", "btree")
    write_columns(path / "c.orc", {"id": pa.array([3, 4]), "n": pa.array([5, 1 << 40], pa.int64())})
    assert ids(table.scan("n = 5")) == [0, 2, 3]
    connection.told.clear()
    table.refresh_indexes()
    # int and bigint have the same keys
    assert connection.told == ["c.orc"]
    assert ids(table.scan("n = 5")) == [0, 2, 3]
    assert [task.path for task in table.scan("n > 100").plan().tasks] == ["c.orc"]
    assert ids(table.scan("n > 100")) == [4]


# Failing


def test_a_failing_build_leaves_nothing(path: Path, table: Table, spark: SparkSession) -> None:
    """A file whose tail is sound and whose rows are not, built here and by Spark."""
    rng = np.random.default_rng(1)
    write_columns(
        path / "bad.orc",
        {"id": pa.array(range(3000)), "a": pa.array(rng.integers(0, 1000, 3000), pa.int32())},
        codec="zstd",
    )
    table.create_index("bits", "s", "bitmap")
    before = store_state(table)
    bad = path / "bad.orc"
    data = bytearray(bad.read_bytes())
    data[len(data) // 4 : len(data) // 2] = rng.bytes(len(data) // 2 - len(data) // 4)
    bad.write_bytes(data)
    for some in (table, hindex.connect(spark=spark).table(str(path))):
        with pytest.raises(
            BuildError, match=r"^index build failed on data file 'bad.orc', stripe 0: "
        ) as raised:
            some.create_index("by_a", "a", "btree")
        assert "\n" not in str(raised.value)
        assert store_state(table) == before
        assert garbage(table) == []


def test_a_writer_that_fails_leaves_nothing(
    path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    write_rows(path / "f3.orc", 9000, [1])

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BTreeWriter, "add", fail)
    with pytest.raises(BuildError, match=r"index build failed on column 'a': .*No space left"):
        table.refresh_indexes()
    assert store_state(table) == before
    assert ids(table.scan("a = 1")) == [1, 701, 1401, 2101, 2801, 9000]


def test_a_build_that_is_killed_before_its_commit(
    path: Path, table: Table, connection: LocalConnection
) -> None:
    """What it wrote is garbage, and the next build goes on as if nothing had been."""
    entry = IndexEntry(new_index_id(), "by_a", "a", "BTREE", "int", level="table")
    entries = run_build(connection.spark(), plan_build(table.snapshot(), [entry]), NullProgress())
    assert [item.path for item in entries] == ["f0.orc", "f1.orc", "f2.orc"]
    assert table.snapshot().manifest.indexes == ()
    assert len(garbage(table)) == 1
    assert table.create_index("by_a", "a", "btree").status == "fresh"
    assert len(garbage(table)) == 1
    assert ids(table.scan("a = 5")) == [5, 705, 1405, 2105, 2805]


def test_a_file_that_changes_while_the_build_runs(
    path: Path, table: Table, connection: LocalConnection
) -> None:
    entry = IndexEntry(new_index_id(), "by_a", "a", "BTREE", "int", level="table")
    plan = plan_build(table.snapshot(), [entry])
    write_rows(path / "f1.orc", 0, [1] * 9000)
    with pytest.raises(BuildError, match=r"'f1.orc': it had \d+ bytes when the build began and has \d+ now"):
        run_build(connection.spark(), plan, NullProgress())
    real = btree_job._prepare

    def late(*arguments: Any) -> Any:
        prepared = real(*arguments)
        write_rows(path / "f1.orc", 0, [2] * 9000)
        return prepared

    plan = plan_build(table.snapshot(), [entry])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(btree_job, "_prepare", late)
        with pytest.raises(BuildError, match=r"'f1.orc': it changed since the build began"):
            run_build(connection.spark(), plan, NullProgress())


# Out of core


def test_spark_sorts_into_disjoint_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Keys of every byte and sign through Spark's sort, several files a set, and what a refresh merges."""
    monkeypatch.setattr(btree_job, "PART_ROWS", 700)
    path = tmp_path / "table"
    alphabet = ["", "a", "z", "\x7f", "\x80", "é", "ÿ", "\u20ac", "\U0001f600", "\uffff"]
    data: dict[str, tuple[list[int | None], list[str | None]]] = {}
    for number in range(3):
        a = [None if rng.random() < 0.05 else int(v) for v in rng.integers(-(1 << 31), 1 << 31, 1000)]
        s = [
            None
            if rng.random() < 0.05
            else "".join(alphabet[int(k)] for k in rng.integers(0, 10, int(rng.integers(0, 5))))
            for _ in a
        ]
        data[f"f{number}.orc"] = a, s
        write_rows(path / f"f{number}.orc", number * 1000, a, s)
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a", "btree"), IndexSpec("by_s", "s", "btree")])

    def check(least_files: int) -> None:
        manifest = table.snapshot().manifest
        for name, at in (("by_a", 0), ("by_s", 1)):
            (held,) = (item for item in sets(table) if item.index_id == manifest.index(name).id)
            assert len(held.files) >= least_files
            ends = [(file.extent.min_key, file.extent.max_key) for file in held.files]
            assert all(a[1] < b[0] for a, b in pairwise(ends))  # type: ignore[operator]
            expected = union(*(groups(file, list(columns[at])) for file, columns in data.items()))
            assert contents(table, held) == {
                key.encode() if isinstance(key, str) else key: places for key, places in expected.items()
            }

    check(3)
    # two sets become one, by Spark too
    monkeypatch.setattr(btree_job, "MAX_SETS", 1)
    data["f9.orc"] = [1, None], ["new", None]
    write_rows(path / "f9.orc", 9000, *data["f9.orc"])
    table.refresh_indexes()
    check(3)
    pool = [value for value in data["f0.orc"][1] if value]
    for where in (
        f"s = '{pool[0]}'",
        f"s >= '{pool[1]}' AND a > 0",
        "a IS NULL OR s IS NULL",
        "a < -2000000000",
    ):
        assert sorted(ids(table.scan(where))) == spark_where(spark, path, where), where


@pytest.mark.parametrize("kind", list(KeyKind))
def test_a_writer_holds_back_only_what_overlaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: KeyKind, rng: np.random.Generator
) -> None:
    """Chunks of forty runs, each over all keys: far more entries come than are ever held."""
    runs, each, chunk = 40, 3000, 50
    monkeypatch.setattr(btree_task, "MERGE_ENTRIES", 1000)
    of = OrcType(Kind.LONG) if kind is KeyKind.INT64 else OrcType(Kind.STRING)
    files = tuple(IndexedFile(f"f{n}", Fingerprint(1, 1, n), 10, (each * 10,)) for n in range(runs))
    job = BTreeJob(
        "b",
        "c",
        of,
        ("c",),
        (),
        (),
        "data/x",
        str(tmp_path),
        (Part(0, None), Part(0, _key(kind, 500_000))),
        (files,),
        chunk,
    )
    expected: dict[Any, set[int]] = {}
    chunks: list[dict[str, Any]] = []
    for run in range(runs):
        keys = np.sort(rng.choice(1_000_000, each, replace=False))
        locations = run * each + rng.permutation(each)
        groups_ = Groups(
            keys
            if kind is KeyKind.INT64
            else pa.array([_key(kind, int(key)) for key in keys], pa.large_binary()),
            np.arange(each + 1),
            locations.astype(np.uint32),
            np.array([run * each], np.uint32),
        )
        for key, location in zip(keys.tolist(), locations.tolist(), strict=True):
            expected.setdefault(_key(kind, key), set()).add(location)
        chunks += btree_task._chunks(job, groups_, [(0, None), (1, _key(kind, 500_000))]).to_pylist()
    assert len(chunks) > runs * each // chunk
    chunks.sort(key=lambda row: (row["part"], (0, 0) if row["first"] is None else (1, row["first"])))
    schema = btree_task.chunk_schema(kind)
    held = 0
    real = btree_task._PartWriter.add

    def watch(self: Any, batch: pa.RecordBatch) -> None:
        nonlocal held
        real(self, batch)
        held = max(held, self._held)

    monkeypatch.setattr(btree_task._PartWriter, "add", watch)
    batches = (pa.RecordBatch.from_pylist(chunks[at : at + 7], schema) for at in range(0, len(chunks), 7))
    rows = [row for batch in write_parts(job, batches) for row in batch.to_pylist()]
    assert [row["part"] for row in rows] == [0, 1]
    assert sum(row["entries"] for row in rows) == runs * each
    assert held < 1000 + runs * chunk + 7 * chunk < runs * each // 10
    found: dict[Any, set[int]] = {}
    for row in rows:
        reader = open_btree_file(
            f"{tmp_path}/{Path(row['path']).name}", row["length"], row["footer_checksum"]
        )
        for leaf in reader.all_leaves():
            for number, location in zip(*(part.tolist() for part in reader.entries(leaf)), strict=True):
                found.setdefault(leaf.keys[number], set()).add(location)
    assert found == expected
    first = open_btree_file(
        f"{tmp_path}/{Path(rows[0]['path']).name}", rows[0]["length"], rows[0]["footer_checksum"]
    )
    assert list(first.nulls()) == [run * each for run in range(runs)]


def _key(kind: KeyKind, number: int) -> Any:
    return number if kind is KeyKind.INT64 else b"k%07d" % number


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


def check_one_set(table: Table, data: dict[str, list[Any]]) -> None:
    (held,) = sets(table)
    assert held.num_files == len(data)
    assert contents(table, held) == union(*(groups(name, column) for name, column in data.items()))
    assert len(ids(table.scan("a = 7"))) == sum(column.count(7) for column in data.values())
    assert table.scan("a = 7").explain().notes == ()
    assert [item.problems for item in table.check_indexes(verify=True)] == [()]
