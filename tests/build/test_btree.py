"""Building BTREE indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.build import btree_job
from hindex.build.job import plan_build, run_build
from hindex.errors import BuildError
from hindex.index.btree import BTreeWriter
from hindex.progress import NullProgress
from hindex.store.manifest import IndexEntry, new_index_id
from tests.build.btree_sets import contents, garbage, groups, sets, union, values
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, store_state, write_columns, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("here")


def test_one_set_of_files_for_the_table(table: Table, connection: LocalConnection) -> None:
    index = table.create_index("by_a", "a", "compact")
    assert (index.type, index.status, index.num_files, index.num_fresh_files) == ("BTREE", "fresh", 3, 3)
    (index_set,) = sets(table)
    assert (index_set.partition, index_set.num_files, index_set.num_row_groups, len(index_set.files)) == (
        None,
        3,
        30,
        1,
    )
    assert contents(table, index_set) == union(
        *(groups(f"f{n}.orc", values(n * 1000, 1000)) for n in range(3))
    )
    assert (
        index.size_bytes
        == index_set.files[0].length
        == sum(len(data) for name, data in store_state(table).items() if name.endswith(".hidx"))
    )
    assert index_set.files[0].stats.min_key == 0
    assert index_set.files[0].stats.max_key == 699
    assert connection.built_paths == ["f0.orc", "f1.orc", "f2.orc"]
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
    assert connection.built_paths == ["f0.orc", "f1.orc", "f2.orc"] * 3
    table.drop_index("bits")
    assert [len(e.shared) for e in table.snapshot().manifest.files] == [2] * 3
    table.drop_index("tree")
    table.drop_index("s")
    assert table.snapshot().manifest.files == ()
    assert len(garbage(table)) == 5


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
    connection.built_paths.clear()
    table.refresh_indexes()
    # int and bigint have the same keys
    assert connection.built_paths == ["c.orc"]
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


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), r".*No space left"),
        (MemoryError(), "MemoryError"),
        (pa.ArrowMemoryError("malloc of size 9 failed"), "malloc of size 9 failed"),
    ],
)
def test_a_writer_that_fails_leaves_nothing(
    path: Path, table: Table, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("by_a", "a", "btree")
    before = store_state(table)
    write_rows(path / "f3.orc", 9000, [1])

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(BTreeWriter, "add", fail)
    with pytest.raises(BuildError, match=f"index build failed on column 'a': {message}"):
        table.refresh_indexes()
    assert store_state(table) == before
    assert ids(table.scan("a = 1")) == [1, 701, 1401, 2101, 2801, 9000]


def test_a_build_that_is_killed_before_its_commit(
    path: Path, table: Table, connection: LocalConnection
) -> None:
    """Its output is garbage, and the next build goes on as if nothing had been written."""
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
        with raises(BuildError):
            run_build(connection.spark(), plan, NullProgress())
