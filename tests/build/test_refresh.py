"""REFRESH INDEX reads what changed, forgets what is gone, and leaves the rest as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.build.job import plan_build
from hindex.errors import ColumnError, IndexNotFoundError
from hindex.maintain.results import RefreshResult
from hindex.store.snapshot import find_fresh_files
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import (
    ROWS,
    WHERE,
    expected,
    ids,
    keep_stat,
    store_state,
    write_columns,
    write_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    write_rows(path / "one.orc", 0, [i % 10 for i in range(ROWS)])
    write_rows(path / "two.orc", ROWS, [i % 10 for i in range(ROWS, 2 * ROWS)])
    return path


@pytest.fixture
def table(spark: SparkSession, path: Path) -> Table:
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return table


def test_nothing_changed_nothing_written(path: Path, table: Table) -> None:
    before = store_state(table)
    # a connection that could not build anything: no Spark is needed
    hindex.connect(master="no-such-master").table(str(path)).refresh_indexes()
    assert store_state(table) == before


def test_only_what_changed_is_read(path: Path, table: Table) -> None:
    (path / "two.orc").unlink()
    write_rows(path / "three.orc", ROWS, [i % 10 for i in range(ROWS, 2 * ROWS)])
    before = store_state(table)
    snapshot = table.snapshot()
    plan = plan_build(snapshot, snapshot.manifest.indexes, fresh=find_fresh_files(snapshot))
    assert [task.path for task in plan.tasks] == ["three.orc"]
    assert not table.scan(WHERE).explain().exact

    table.refresh_indexes()

    explained = table.scan(WHERE).explain()
    assert explained.exact
    assert explained.notes == ()
    assert ids(table.scan(WHERE)) == sorted(expected())
    assert [index.status for index in table.indexes()] == ["fresh", "fresh"]
    # what was there is there still, byte for byte; one file more for each index
    after = store_state(table)
    assert before.items() <= after.items()
    assert len([name for name in after if name.endswith(".hidx")]) == 6


def test_a_file_replaced_with_the_same_length_and_time(path: Path, table: Table) -> None:
    file = path / "one.orc"
    a = [i % 9 for i in range(ROWS)]
    keep_stat(file, lambda: write_rows(file, 0, a))
    assert table.index("by_a").status == "stale: 1 changed; 1 of 2 files indexed, 50 % of the rows"
    refreshed = table.index("by_a").refresh()
    assert (refreshed.files_read, refreshed.files_forgotten, refreshed.rows) == (1, 0, ROWS)
    scan = table.scan(WHERE)
    assert ids(scan) == [i for i in range(ROWS) if a[i] in (3, 4)] + expected(ROWS)
    assert scan.explain().exact
    # the other index of that file described the old one
    assert table.index("by_s").status == "stale: 1 added; 1 of 2 files indexed, 50 % of the rows"


def test_a_replaced_file_without_the_column_is_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the length and the time of the indexed one: a refresh does not read it, and drops its entry."""
    local_build.install(monkeypatch)
    table = LocalConnection().table(str(path))
    table.create_index("by_s", "s")
    file = path / "one.orc"
    data = file.read_bytes()
    name, other = b"\x1a\x01s", b"\x1a\x01t"
    assert data.count(name) == 1
    keep_stat(file, lambda: file.write_bytes(data.replace(name, other)))

    refreshed = table.index("by_s").refresh()
    assert (refreshed.files_read, refreshed.files_forgotten, refreshed.changed) == (0, 1, True)
    assert [entry.path for entry in table.snapshot().manifest.files] == ["two.orc"]
    assert table.index("by_s").status == "fresh"
    scan = table.scan("s = 's3'")
    assert ids(scan) == [i for i in range(ROWS, 2 * ROWS) if i % 10 == 3]
    assert scan.explain().exact
    assert ids(table.scan("s IS NULL")) == list(range(ROWS))
    assert table.index("by_s").refresh().changed is False


def test_by_statement_and_by_name(path: Path, table: Table, spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    shutil.copy2(path / "one.orc", path / "copy.orc")
    refreshed = hx.sql(f"REFRESH INDEX by_a ON '{path}'")
    assert isinstance(refreshed, RefreshResult)
    assert (refreshed.indexes, refreshed.files_read, refreshed.changed) == (("by_a",), 1, True)
    assert hx.table(str(path)).index("by_a").status == "fresh"
    with raises(IndexNotFoundError):
        hx.sql(f"REFRESH INDEX nope ON '{path}'")


def test_a_column_that_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    table = LocalConnection().table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s", "btree")])
    for file in path.glob("*.orc"):
        write_columns(file, {"id": pa.array([1, 2]), "a": pa.array([3, 5], pa.int32())})
    before = store_state(table)
    with raises(ColumnError):
        table.refresh_indexes(["by_s"])
    assert store_state(table) == before
    table.drop_index("by_s")
    table.refresh_indexes()
    assert ids(table.scan(WHERE)) == [1, 1]
    assert table.scan(WHERE).explain().exact
