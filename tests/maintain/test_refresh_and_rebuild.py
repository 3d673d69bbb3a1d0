"""Deferred indexes, refreshes of several in one pass, rebuilds that fail, names, and tables that are gone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.statement_table import StatementTable
from hindex.api.table import IndexSpec, Table
from hindex.build import job
from hindex.build.task import BuildTask, run_build_tasks
from hindex.cli.main import main
from hindex.errors import (
    BuildError,
    ColumnError,
    IndexExistsError,
    IndexNotFoundError,
    StatementError,
    TableError,
)
from hindex.formatting import percent_down
from hindex.maintain import builds
from hindex.maintain.results import BuildEstimate, CheckResult, IndexState
from hindex.plan.reasons import Reason
from hindex.store import snapshot
from hindex.store.manifest import FileEntry
from hindex.store.store import Store
from hindex.table.listing import Listing, list_data_files
from hindex.table.partitions import CatalogPartitions, PartitionLocation
from tests.maintain.conftest import ROWS, add_file
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, store_state, write_columns, write_rows
from tests.support.writers import write_pyarrow

THREES = [part * 10_000 + i for part in (1, 2, 3) for i in range(3, ROWS, 10)]


@pytest.fixture
def table(path: Path, hx: LocalConnection) -> Table:
    return hx.table(str(path))


def test_a_deferred_index(table: Table, hx: LocalConnection) -> None:
    index = table.create_index("i", "a", deferred=True)
    assert (index.state, index.size_bytes, index.refreshed_ms, hx.built_paths) == (
        IndexState.DEFERRED,
        0,
        None,
        [],
    )
    scan = table.scan("a = 3")
    assert ids(scan) == THREES
    assert reasons(scan) == {Reason.DEFERRED: ["i"]}
    result = index.refresh()
    assert (result.files_read, result.rows, result.changed) == (3, 3 * ROWS, True)
    after = table.index("i")
    assert after.state is IndexState.FRESH
    assert after.refreshed_ms is not None
    assert after.refreshed_ms >= after.created_ms
    assert table.scan("a = 3").explain().exact
    assert ids(table.scan("a = 3")) == THREES


def test_a_deferred_index_beside_one_that_is_built(table: Table, hx: LocalConnection) -> None:
    made = table.create_indexes([IndexSpec("i", "a"), IndexSpec("j", "s", deferred=True)])
    assert [index.state for index in made] == [IndexState.FRESH, IndexState.DEFERRED]
    hx.built_paths.clear()
    result = table.refresh_indexes()
    assert (result.indexes, result.files_read) == (("i", "j"), 3)
    assert sorted(hx.built_paths) == ["p=1/x.orc", "p=2/x.orc", "p=3/x.orc"]
    assert [index.state for index in table.indexes()] == [IndexState.FRESH] * 2


def test_several_indexes_are_refreshed_in_one_pass(table: Table, path: Path, hx: LocalConnection) -> None:
    table.create_indexes([IndexSpec("i", "a"), IndexSpec("j", "s"), IndexSpec("k", "id")])
    created = {index.name: index.refreshed_ms for index in table.indexes()}
    entries = {item.path: item for item in table.snapshot().manifest.files}
    before = store_state(table)
    add_file(path / "p=1" / "new.orc", 11_000)
    write_rows(path / "p=2" / "x.orc", 20_000, [3] * 7)
    (path / "p=3" / "x.orc").unlink()
    hx.built_paths.clear()
    dry = table.refresh_indexes(dry_run=True)
    assert (dry.files_read, dry.files_forgotten, dry.rows, dry.changed) == (2, 1, ROWS + 7, False)
    assert store_state(table) == before
    result = table.refresh_indexes()
    assert (result.indexes, result.files_read, result.files_forgotten) == (("i", "j", "k"), 2, 1)
    assert sorted(hx.built_paths) == ["p=1/new.orc", "p=2/x.orc"]
    after = {item.path: item for item in table.snapshot().manifest.files}
    # what did not change is carried over: the same entry, and no file of the store is touched
    assert after["p=1/x.orc"] == entries["p=1/x.orc"]
    assert before.items() <= store_state(table).items()
    assert after.keys() == {"p=1/x.orc", "p=1/new.orc", "p=2/x.orc"}
    assert all((index.refreshed_ms or 0) >= (created[index.name] or 0) for index in table.indexes())
    expected = [*range(10_003, 10_000 + ROWS, 10), *range(11_003, 11_000 + ROWS, 10)]
    assert sorted(ids(table.scan("a = 3"))) == [*expected, *range(20_000, 20_007)]
    state = store_state(table)
    assert not table.refresh_indexes().changed
    assert store_state(table) == state


def test_shares_of_rows_are_never_rounded_up(tmp_path: Path, hx: LocalConnection) -> None:
    path = tmp_path / "t"
    add_file(path / "x.orc", 0, 30_000)
    table = hx.table(str(path))
    table.create_index("i", "a")
    write_rows(path / "y.orc", 50_000, [1])
    assert table.index("i").status == "stale: 1 added; 1 of 2 files indexed, 99.9 % of the rows"
    assert [percent_down(*of) for of in ((0, 3), (1, 3), (2999, 3000), (3, 3), (0, 0))] == [
        0,
        33.3,
        99.9,
        100,
        100,
    ]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Builds fail at their last data file."""

    def run_build_job(spark: object, tasks: list[list[BuildTask]], progress: object) -> pa.Table:
        *others, last = (task for some in tasks for task in some)
        for task in others:
            list(run_build_tasks([task]))
        raise BuildError(f"index build failed on data file {last.path!r}: broken")

    with monkeypatch.context() as patch:
        patch.setattr(job, "_run_build_job", run_build_job)
        yield


@pytest.mark.usefixtures("failing")
def test_a_rebuild_that_fails(table: Table, path: Path, request: pytest.FixtureRequest) -> None:
    with pytest.MonkeyPatch.context() as patch:
        local_build.install(patch)
        table.create_index("i", "a")
    add_file(path / "p=1" / "new.orc", 11_000)
    before = store_state(table)
    for again in (table.index("i").rebuild, table.index("i").refresh):
        with pytest.raises(BuildError, match="broken"):
            again()
        assert store_state(table) == before
    # the old index serves the files that it still fits
    scan = table.scan("a = 3")
    assert reasons(scan) == {Reason.NEW_FILE: ["p=1/new.orc"]}
    assert sorted(ids(scan)) == sorted([*THREES, *range(11_003, 11_000 + ROWS, 10)])
    assert scan.explain().rows.kept == len(THREES) + ROWS  # type: ignore[union-attr]


def test_a_rebuild_writes_everything_anew(table: Table, path: Path, hx: LocalConnection) -> None:
    table.create_index("i", "a")
    before = table.snapshot().manifest
    (path / "p=3" / "x.orc").unlink()
    hx.built_paths.clear()
    result = table.index("i").rebuild()
    assert (result.files_read, result.files_forgotten, result.changed) == (2, 1, True)
    assert sorted(hx.built_paths) == ["p=1/x.orc", "p=2/x.orc"]
    after = table.snapshot().manifest
    assert after.index("i").id == before.index("i").id
    assert after.file_paths().isdisjoint(before.file_paths())
    assert ids(table.scan("a = 3")) == THREES[: 2 * ROWS // 10]
    # a part
    result = table.index("i").rebuild(where="p = 2")
    assert result.files_read == 1
    assert len(table.snapshot().manifest.file_paths() & after.file_paths()) == 1


def test_a_refresh_of_an_index_that_is_dropped_meanwhile(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_indexes([IndexSpec("i", "a"), IndexSpec("j", "s")])
    add_file(path / "p=1" / "new.orc", 11_000)
    real = job.run_build

    def build(*arguments: Any) -> list[FileEntry]:
        entries = real(*arguments)
        table.drop_index("i")
        return entries

    monkeypatch.setattr(builds, "run_build", build)
    table.refresh_indexes()
    assert [(index.name, index.status) for index in table.indexes()] == [("j", "fresh")]


def test_a_file_that_comes_back_while_it_is_forgotten(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow refresh that saw a file gone does not forget the one that another refresh indexed since."""
    table.create_index("i", "a")
    (path / "p=3" / "x.orc").unlink()
    add_file(path / "p=1" / "new.orc", 11_000)
    real = job.run_build

    def build(*arguments: Any) -> list[FileEntry]:
        monkeypatch.setattr(builds, "run_build", real)
        add_file(path / "p=3" / "x.orc", 30_000, 70)
        table.refresh_indexes()
        return real(*arguments)

    monkeypatch.setattr(builds, "run_build", build)
    table.refresh_indexes()
    assert table.index("i").status == "fresh"
    assert table.index("i").num_files == 4


@pytest.mark.parametrize("using", ["minmax", "btree"])
@pytest.mark.parametrize("is_new", [False, True])
def test_newer_entries_of_another_refresh_stay(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch, using: str, is_new: bool
) -> None:
    """A slow refresh does not replace those of files that were changed again, and indexed, since it read them."""
    table.create_index("i", "a", using)
    changed = path / "p=3" / ("new.orc" if is_new else "x.orc")
    add_file(changed, 31_000, 70)
    real = job.run_build

    def build(*arguments: Any) -> list[FileEntry]:
        entries = real(*arguments)
        monkeypatch.setattr(builds, "run_build", real)
        add_file(changed, 32_000, 80)
        LocalConnection().table(str(path)).refresh_indexes()
        return entries

    monkeypatch.setattr(builds, "run_build", build)
    table.refresh_indexes()
    assert table.index("i").status == "fresh"
    assert reasons(table.scan("a = 3")) == {}
    assert not table.refresh_indexes().changed


def test_a_file_that_is_indexed_while_the_table_is_listed(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that another refresh indexes right after the listing does not count as deleted."""
    table.create_index("i", "a")
    real = list_data_files

    def listed(*arguments: Any, **options: Any) -> Listing:
        listing = real(*arguments, **options)
        monkeypatch.setattr(snapshot, "list_data_files", real)
        add_file(path / "p=3" / "new.orc", 31_000)
        LocalConnection().table(str(path)).refresh_indexes()
        return listing

    monkeypatch.setattr(snapshot, "list_data_files", listed)
    assert not table.refresh_indexes().changed
    assert table.index("i").status == "fresh"
    assert table.index("i").num_files == 4


def test_refresh_of_some_partitions_keeps_entries_of_others(
    table: Table, path: Path, hx: LocalConnection
) -> None:
    table.create_index("i", "a")
    hx.built_paths.clear()
    for part in (1, 2):
        add_file(path / f"p={part}" / "x.orc", part * 10_000, 2 * ROWS)
    result = table.refresh_indexes(where="p = 2")
    assert (result.files_read, result.files_forgotten) == (1, 0)
    assert hx.built_paths == ["p=2/x.orc"]
    index = table.index("i")
    assert (index.num_fresh_files, index.num_changed_files, index.num_added_files) == (2, 1, 0)


def test_an_index_that_is_named_twice(table: Table, hx: LocalConnection) -> None:
    table.create_indexes([IndexSpec("i", "a", deferred=True), IndexSpec("k", "a", "btree", deferred=True)])
    assert table.refresh_indexes(["k", "i", "K", "i"]).indexes == ("k", "i")
    assert sorted(hx.built_paths) == sorted(2 * ["p=1/x.orc", "p=2/x.orc", "p=3/x.orc"])
    assert [result.problems for result in table.check_indexes(verify=True)] == [(), ()]
    assert ids(table.scan("a = 3")) == THREES


def test_names(table: Table) -> None:
    table.create_indexes([IndexSpec("i", "a"), IndexSpec("j", "s")])
    before = table.snapshot().manifest
    assert str(table.index("i").rename("k")).startswith("Index 'i' of ")
    table.index("k").rename("K")
    after = table.snapshot().manifest
    assert [entry.name for entry in after.indexes] == ["K", "j"]
    assert after.files == before.files
    assert table.scan("a = 3").explain().exact
    with raises(IndexExistsError):
        table.rename_index("j", "k")
    with pytest.raises(IndexNotFoundError):
        table.rename_index("i", "x")


@pytest.mark.parametrize("values", ["sorted", "random", "few", "strings"])
def test_the_size_of_a_btree_in_a_dry_run(
    hx: LocalConnection, tmp_path: Path, rng: np.random.Generator, values: str
) -> None:
    """Wherever its values lie: sorted ones take a small part of the bytes of random ones."""
    count, files = 20_000, 6
    numbers = {
        "sorted": np.arange(files * count) // 4,
        "random": rng.integers(0, files * count, files * count),
        "few": rng.integers(0, 50, files * count),
        "strings": rng.integers(0, 5000, files * count),
    }[values]
    column = pa.array(numbers, mask=rng.random(len(numbers)) < 0.1)
    if values == "strings":
        column = column.cast(pa.string())
    for number in range(files):
        table = pa.table({"a": column.slice(number * count, count)})
        write_pyarrow(tmp_path / "t" / f"{number}.orc", table, "zstd", stride=1000)
    table = hx.table(str(tmp_path / "t"))
    estimate = table.create_index("i", "a", "btree", dry_run=True)
    assert isinstance(estimate, BuildEstimate)
    made = table.create_index("i", "a", "btree")
    assert made.size_bytes * 0.75 < estimate.index_bytes < made.size_bytes * 1.5


def test_what_a_dry_run_says(table: Table, hx: LocalConnection, path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    for column, kind in (("a", "bitmap"), ("s", "bloom"), ("id", "minmax")):
        estimate = table.create_index("i", column, kind, dry_run=True)
        assert isinstance(estimate, BuildEstimate)
        stripes = sum(view.num_stripes for view in table.snapshot().files)
        assert (estimate.files, estimate.stripes, estimate.rows, estimate.sampled_stripes) == (
            3,
            stripes,
            3 * ROWS,
            3,
        )
        assert estimate.index_bytes > 0
        made = hx.table(str(copy)).create_index(f"on_{column}", column, kind)
        # each stripe is counted as an index file of its own
        assert made.size_bytes * 0.9 < estimate.index_bytes < made.size_bytes * 5
        files = sum(view.file.length for view in table.snapshot().files)
        assert 0 < estimate.read_bytes < files
    some = table.create_index("i", "a", where="p = 2", dry_run=True)
    assert isinstance(some, BuildEstimate)
    assert (some.files, some.rows) == (1, ROWS)
    assert not Path(Store.for_table(table.uri).root).exists()
    with raises(TableError):
        table.create_index("i", "a", where="p = 7", dry_run=True)


def test_one_table_under_many_spellings(path: Path, hx: LocalConnection, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    hx.table(str(path)).create_index("i", "a")
    spellings = [
        f"{path}/",
        f"{path}//",
        f"file:{path}",
        f"file://{path}/",
        str(tmp_path / "link"),
        f"{tmp_path}/./x/../{path.name}",
        os.path.relpath(path),
    ]
    for spelling in spellings:
        table = hx.table(spelling)
        assert table.uri == str(path), spelling
        assert [index.status for index in table.indexes()] == ["fresh"], spelling
        assert table.scan("a = 3").explain().exact, spelling
        with pytest.raises(IndexExistsError):
            hx.sql(f"CREATE INDEX i USING bitmap ON '{spelling}' (s)")
    # the connection knows one table
    shown = hx.sql("SHOW INDEXES")
    assert isinstance(shown, StatementTable)
    assert shown.num_rows == 1
    hx.sql(f"DROP INDEX i ON 'file:{path}'")
    assert hx.table(str(path)).indexes() == []


def test_bare_names(tmp_path: Path, path: Path) -> None:
    other = add_file(tmp_path / "other" / "x.orc").parent
    hx = LocalConnection()
    with raises(StatementError):
        hx.sql("REFRESH INDEX i")
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a)")
    hx.sql(f"CREATE INDEX j USING bitmap ON '{other}' (a)")
    for statement in ("REFRESH INDEX I", "ALTER INDEX i REBUILD", "DESCRIBE INDEX i", "CHECK INDEX i"):
        hx.sql(statement)
    hx.sql("ALTER INDEX j RENAME TO i")
    for statement in ("REFRESH INDEX i", "ALTER INDEX i REBUILD", "DESCRIBE INDEX i", "DROP INDEX i"):
        with raises(StatementError):
            hx.sql(statement)
    # CHECK and SHOW tell of all
    assert len(hx.sql("CHECK INDEX i")) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("ms", [2**62, -1, 253_402_300_800_000])
def test_a_moment_that_no_clock_shows(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ms: int
) -> None:
    monkeypatch.setattr("hindex.maintain.builds.now_ms", lambda: ms)
    hx = LocalConnection()
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a)")
    described = hx.sql(f"DESCRIBE INDEX i ON '{path}'")
    assert isinstance(described, StatementTable)
    facts = dict(zip(described["fact"].to_pylist(), described["value"].to_pylist(), strict=True))
    assert facts["created"] == facts["refreshed"] == f"{ms} ms since 1970"
    for output in ("table", "json", "csv"):
        for statement in ("SHOW", "DESCRIBE"):
            with pytest.raises(SystemExit, match=r"^0$"):
                main(["--output", output, "sql", f"{statement} INDEX i ON '{path}'"])
    assert capsys.readouterr().out.count(f"{ms} ms since 1970") == 6


def test_a_table_that_is_gone(path: Path, tmp_path: Path) -> None:
    hx = LocalConnection(store=str(tmp_path / "store"))
    hx.sql(f"CREATE INDEX i USING bitmap ON '{path}' (a) COMMENT 'kept'")
    shutil.rmtree(path)
    shown = hx.sql("SHOW INDEX")
    assert isinstance(shown, StatementTable)
    (row,) = shown.to_pylist()
    assert row["status"].startswith(f"table gone: Table '{path}' is invalid: no such file or directory")
    described = hx.sql("DESCRIBE INDEX i")
    assert isinstance(described, StatementTable)
    facts = dict(zip(described["fact"].to_pylist(), described["value"].to_pylist(), strict=True))
    assert (facts["comment"], facts["column"]) == ("kept", "a")
    (checked,) = hx.sql("CHECK INDEX i VERIFY")  # type: ignore[misc, attr-defined]
    assert isinstance(checked, CheckResult)
    assert checked.state is IndexState.TABLE_GONE
    with raises(TableError):
        hx.sql("REFRESH INDEX i")
    hx.sql(f"VACUUM INDEXES ON '{path}' RETAIN 1000 HOURS")
    assert list((tmp_path / "store").iterdir()) == []
    with raises(TableError):
        hx.sql(f"VACUUM INDEXES ON '{path}'")


@pytest.mark.parametrize("again", ["refresh", "rebuild"])
@pytest.mark.parametrize("using", ["bitmap", "btree"])
def test_what_was_not_seen_is_not_used_after_a_quarantine(
    path: Path, tmp_path: Path, hx: LocalConnection, using: str, again: str
) -> None:
    """A path does not tell of partitions elsewhere: what a wrong index has of them was not built anew."""
    shutil.move(path / "p=3", tmp_path / "away")
    places = CatalogPartitions(frozenset({"p=1", "p=2"}), (PartitionLocation("p=3", str(tmp_path / "away")),))
    by_path = hx.table(str(path))
    store = Store.for_table(by_path.uri)
    by_name = Table(hx, "db.t", by_path.uri, store, partitions=lambda: places)
    by_name.create_index("i", "a", using)
    by_name.quarantine_indexes(["i"], "it disagrees")
    getattr(by_path.index("i"), again)()
    assert by_name.index("i").status.startswith("stale: 1 added; 2 of 3 files indexed")
    (away,) = (
        file.path for file in list_data_files(by_path.uri, partitions=places).files if "_at/" in file.path
    )
    scan = by_name.scan("a = 3")
    assert reasons(scan) == {Reason.NEW_FILE: [away]}
    assert ids(scan) == [*range(30_003, 30_000 + ROWS, 10), *THREES[: 2 * ROWS // 10]]
    by_name.refresh_indexes()
    assert by_name.index("i").status == "fresh"


@pytest.mark.parametrize("using", ["bitmap", "bloom", "btree", "minmax"])
def test_a_column_that_cannot_be_indexed_any_more(tmp_path: Path, hx: LocalConnection, using: str) -> None:
    """Files replaced all: queries go on, and a refresh says which index to drop before it begins anything."""
    file = write_columns(tmp_path / "t" / "x.orc", {"a": pa.array([1, 2]), "id": pa.array([1, 2])})
    table = hx.table(str(tmp_path / "t"))
    table.create_index("i", "a", using)
    write_columns(file, {"a": pa.array([[1], [2]]), "id": pa.array([1, 2])})
    assert table.scan("id = 2").count() == 1
    hx.built_paths.clear()
    for again in (table.index("i").refresh, table.index("i").rebuild):
        with raises(ColumnError):
            again()
    assert not hx.built_paths
    table.drop_index("i")
