"""Builds of many small data files, whose index files share a file for each directory."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.api.table import IndexSpec, Table
from hindex.build import job, task
from hindex.build.task import MAX_BUNDLED_BYTES, MIN_BUNDLED, BuildTask
from hindex.build.task_splitting import split_build_tasks
from hindex.errors import BuildError, IndexFileError
from hindex.index.bundle import is_bundle
from hindex.index.page_cache import shared_cache
from hindex.plan.reasons import Reason
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import ids, reasons, write_rows

FILES, ROWS = 12, 20
SPECS = [
    IndexSpec("bits", "a", "bitmap"),
    IndexSpec("range", "id", "minmax"),
    IndexSpec("text", "s", "bloom"),
]
WHERES: list[tuple[str, Callable[[int], bool]]] = [
    ("a = 3", lambda row: row % ROWS == 3),
    ("id BETWEEN 95 AND 123", lambda row: 95 <= row <= 123),
    ("s = 's7'", lambda row: row % ROWS == 7),
    ("a IN (1, 19) AND id > 200", lambda row: row % ROWS in (1, 19) and row > 200),
    ("a > 100", lambda row: False),
]


def write_table(root: Path) -> None:
    """Write two directories of small files: row ``id`` has ``a = id % ROWS``."""
    for number in range(2 * FILES):
        write_file(root, number)


def write_file(root: Path, number: int) -> Path:
    path = root / f"p={number // FILES}" / f"{number:03}.orc"
    return write_rows(path, number * ROWS, list(range(ROWS)))


@pytest.fixture(autouse=True)
def local_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    # one task, as for many files and few cores
    monkeypatch.setattr(job, "split_build_tasks", lambda tasks, *_: [tuple(tasks)] if tasks else [])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_table(tmp_path / "t")
    return tmp_path / "t"


@pytest.fixture
def table(root: Path) -> Table:
    table = LocalConnection().table(root)
    table.create_indexes(SPECS)
    return table


def index_files(root: Path) -> list[Path]:
    return sorted((root / "_hindex").rglob("*.hidx"))


def check_rows(table: Table, skipping: bool = True) -> None:
    rows = range(2 * FILES * ROWS)
    for where, matches in WHERES:
        scan = table.scan(where)
        assert ids(scan) == [row for row in rows if matches(row)], where
    if skipping:
        assert reasons(table.scan("a = 3")) == {}
        assert reasons(table.scan("id = 100 AND s = 's0'")) == {}


def test_files_of_a_directory_share_index_files(root: Path, table: Table) -> None:
    # one for each index and directory
    assert Counter(is_bundle(path.name) for path in index_files(root)) == {True: len(SPECS) * 2}
    check_rows(table)
    for spec in SPECS:
        info = table.index(spec.name)
        assert (info.status, info.num_files) == ("fresh", 2 * FILES)
    assert [result.problems for result in table.check_indexes(verify=True)] == [()] * len(SPECS)


def test_files_read_and_synced_do_not_grow_with_the_data_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and directories written to disk, and batches that are returned, count by directory and index."""
    synced: list[str] = []
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if "data" in path.parts:
            synced.append("directory" if path.is_dir() else path.suffix)
        real_fsync(descriptor)

    batches: list[pa.RecordBatch] = []
    real = task.run_build_tasks

    def run(tasks: Any) -> Any:
        for batch in real(tasks):
            batches.append(batch)
            yield batch

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(local_build, "run_build_tasks", run)
    LocalConnection().table(root).create_indexes(SPECS)
    assert Counter(synced)[".hidx"] == 2 * len(SPECS)
    # the directory of each index with each of its files, and that of all indexes with each of them
    assert Counter(synced)["directory"] == 3 * len(SPECS)
    assert [batch.num_rows for batch in batches] == [FILES, FILES]


def test_index_files_that_look_alike_go_to_different_files(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is found by length and checksum, which other data may have, too."""
    real, alike = task._run_build_task, []

    def run(item: Any, *, in_memory: bool) -> Any:
        result = real(item, in_memory=in_memory)
        if item.path in ("p=0/003.orc", "p=0/007.orc", "p=0/009.orc"):
            alike.append(result)
            return replace(result, files=alike[0].files, contents=alike[0].contents)
        return result

    monkeypatch.setattr(task, "_run_build_task", run)
    LocalConnection().table(root).create_index("i", "a", "bitmap")
    bundles = [path for path in index_files(root) if is_bundle(path.name)]
    # two more for the second and the third file that looks alike
    assert len(bundles) == 4
    assert ids(LocalConnection().table(root).scan("a = 3")) == list(range(3, 2 * FILES * ROWS, ROWS))


def test_a_bundle_is_written_when_it_is_large(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "MAX_BUNDLE_BYTES", 1)
    table = LocalConnection().table(root)
    table.create_indexes(SPECS)
    assert Counter(is_bundle(path.name) for path in index_files(root)) == {True: len(SPECS) * 2 * FILES}
    check_rows(table)


def test_fewest_files_that_share_an_index_file(tmp_path: Path) -> None:
    for number in range(MIN_BUNDLED):
        write_rows(tmp_path / "t" / f"{number}.orc", number * ROWS, list(range(ROWS)))
    LocalConnection().table(tmp_path / "t").create_index("i", "a")
    assert [is_bundle(path.name) for path in index_files(tmp_path / "t")] == [True]


@pytest.mark.slow
def test_few_or_large_files_have_their_own(tmp_path: Path) -> None:
    for number in range(MIN_BUNDLED - 1):
        write_rows(tmp_path / "few" / f"{number}.orc", number * ROWS, list(range(ROWS)))
    LocalConnection().table(tmp_path / "few").create_index("i", "a")
    assert [is_bundle(path.name) for path in index_files(tmp_path / "few")] == [False] * (MIN_BUNDLED - 1)
    rows = 30_000
    for number in range(MIN_BUNDLED):
        file = write_rows(tmp_path / "large" / f"{number}.orc", number * rows, list(range(rows)))
        assert file.stat().st_size > MAX_BUNDLED_BYTES
    table = LocalConnection().table(tmp_path / "large")
    table.create_index("i", "a")
    assert [is_bundle(path.name) for path in index_files(tmp_path / "large")] == [False] * MIN_BUNDLED
    assert ids(table.scan("a = 77")) == [number * rows + 77 for number in range(MIN_BUNDLED)]


def test_parts_of_a_small_file_in_one_task_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 3000
    write_rows(tmp_path / "t" / "x.orc", 0, [row % ROWS for row in range(rows)])
    tasks: list[BuildTask] = []

    def split(whole: Sequence[BuildTask], *_: object) -> list[tuple[BuildTask, ...]]:
        tasks.extend(part for group in split_build_tasks(whole, 1, 1) for part in group)
        return [tuple(tasks)]

    monkeypatch.setattr(job, "split_build_tasks", split)
    table = LocalConnection().table(tmp_path / "t")
    table.create_indexes(SPECS)
    assert len(tasks) >= MIN_BUNDLED
    assert max(part.length for part in tasks) <= MAX_BUNDLED_BYTES
    assert ids(table.scan("a = 3")) == list(range(3, rows, ROWS))
    assert reasons(table.scan("a = 3")) == {}
    assert [result.problems for result in table.check_indexes(verify=True)] == [()] * len(SPECS)


def test_a_refresh_reads_the_changed_file_only(root: Path) -> None:
    hx = LocalConnection()
    table = hx.table(root)
    table.create_indexes(SPECS)
    before = index_files(root)
    write_rows(root / "p=0" / "003.orc", 3 * ROWS, [*range(ROWS - 1), 500])
    hx.built_paths.clear()
    table.refresh_indexes()
    assert hx.built_paths == ["p=0/003.orc"]
    added = set(index_files(root)) - set(before)
    assert [is_bundle(path.name) for path in added] == [False] * len(SPECS)
    assert ids(table.scan("a = 500")) == [4 * ROWS - 1]
    assert ids(table.scan("a = 19")) == [
        row for row in range(2 * FILES * ROWS) if row % ROWS == 19 and row != 4 * ROWS - 1
    ]
    assert reasons(table.scan("a = 500")) == {}
    # the other files of the directory still need the bundle
    table.vacuum(retain_hours=0)
    assert index_files(root) == sorted([*before, *added])
    assert [result.problems for result in table.check_indexes(verify=True)] == [()] * len(SPECS)


def test_vacuum_deletes_the_bundle_of_a_rewritten_directory(root: Path, table: Table) -> None:
    before = index_files(root)
    shutil.rmtree(root / "p=0")
    write_rows(root / "p=0" / "all.orc", 0, [row % ROWS for row in range(FILES * ROWS)])
    table.refresh_indexes()
    table.vacuum(retain_hours=0)
    after = index_files(root)
    assert sum(is_bundle(path.name) for path in after) == len(SPECS)
    assert len(set(after) & set(before)) == len(SPECS)
    check_rows(table)


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_bundle_is_reported_and_only_it_is_not_used(root: Path, table: Table, damage: str) -> None:
    manifest = table.snapshot().manifest
    index_id = manifest.index("bits").id
    first, second = sorted((root / "_hindex" / "data" / index_id).iterdir())
    members = sorted(
        entry.path
        for entry in manifest.files
        if (file := entry.index_file(index_id)) is not None and Path(file.path).name == first.name
    )
    assert len(members) == FILES
    if damage == "missing":
        first.unlink()
        reason, problem = Reason.INDEX_MISSING, "is missing"
    elif damage == "cut":
        first.write_bytes(first.read_bytes()[:-10])
        reason, problem = Reason.CORRUPT, "cannot be used"
    else:
        shutil.copy(second, first)
        reason, problem = Reason.CORRUPT, "lacks 12 index files"
    table = LocalConnection().table(root)
    (checked,) = [result for result in table.check_indexes() if result.index == "bits"]
    (message,) = checked.problems
    assert problem in message
    assert "and 11 more" in message
    shared_cache().clear()
    check_rows(table, skipping=False)
    scan = table.scan("a = 3")
    ((noted, subjects),) = reasons(scan).items()
    assert noted is reason
    assert sorted(subjects) == [f"bits on {path}" for path in members]
    # the other bundle finds the row of each of its files
    kept = scan.explain().rows
    assert kept is not None
    assert kept.kept == FILES * ROWS + FILES
    table.rebuild_index("bits")
    assert [result.problems for result in table.check_indexes()] == [()] * len(SPECS)
    check_rows(table)


def test_damage_within_a_bundle_is_that_of_one_data_file(root: Path, table: Table) -> None:
    index_id = next(entry.id for entry in table.snapshot().manifest.indexes if entry.name == "bits")
    path = min((root / "_hindex" / "data" / index_id).iterdir())
    data = bytearray(path.read_bytes())
    # the first page of the first index file
    data[20] ^= 0xFF
    path.write_bytes(data)
    shared_cache().clear()
    check_rows(table, skipping=False)
    ((reason, subjects),) = reasons(table.scan("a = 3")).items()
    assert (reason, len(subjects)) == (Reason.CORRUPT, 1)


def test_a_copied_table_is_adopted(root: Path, table: Table, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    copied = LocalConnection().table(copy)
    assert copied.adopt_indexes().files_adopted == 2 * FILES
    check_rows(copied)
    # a copy of the data without all of the index files
    again = tmp_path / "again"
    shutil.copytree(root, again)
    index_files(again)[0].unlink()
    with pytest.raises(IndexFileError, match=r"is missing: .*copy '_hindex' again as a whole"):
        LocalConnection().table(again).adopt_indexes()


def test_data_files_with_other_permissions_have_their_own_bundle(root: Path) -> None:
    for path in root.rglob("*.orc"):
        path.chmod(0o640 if int(path.stem) % 2 else 0o644)
    table = LocalConnection().table(root)
    table.create_index("i", "a")
    modes = Counter(path.stat().st_mode & 0o777 for path in index_files(root))
    assert modes == {0o640: 2, 0o644: 2}
    assert ids(table.scan("a = 3")) == list(range(3, 2 * FILES * ROWS, ROWS))


def test_a_broken_data_file_leaves_nothing(root: Path) -> None:
    file = root / "p=1" / "015.orc"
    good = file.read_bytes()
    # the streams; the tail stays
    file.write_bytes(good[:3] + bytes(len(good) // 3) + good[3 + len(good) // 3 :])
    table = LocalConnection().table(root)
    with pytest.raises(BuildError, match=r"index build failed on data file 'p=1/015.orc', stripe 0: "):
        table.create_indexes(SPECS)
    assert index_files(root) == []
    assert table.indexes() == []
    file.write_bytes(good)
    table.create_indexes(SPECS)
    check_rows(table)
