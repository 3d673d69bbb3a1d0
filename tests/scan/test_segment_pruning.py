"""A manifest's summaries of many files rule out those that cannot match together, and never wrongly."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hindex.api.table import IndexSpec, Table
from hindex.explanations.explanation import RowCount
from hindex.index.column_stats import ColumnStats
from hindex.plan.reasons import Reason
from hindex.store.entry_table import EntryTable
from hindex.store.manifest import Manifest
from hindex.store.segment import FileEntry
from hindex.store.store import RECENT, Store
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.small import ids, reasons, write_rows

FILES, ROWS = 24, 50


def file(number: int) -> str:
    return f"{number:02}.orc"


@pytest.fixture
def clustered(connection: LocalConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File n has ids and ``a`` from 50 n to 50 n + 49, and ``s`` of one value; its manifest is of three segments."""
    monkeypatch.setattr("hindex.store.entries.SEGMENT_FILES", 8)
    monkeypatch.setattr("hindex.store.manifest_file.INLINE_BYTES", 0)
    path = tmp_path / "t"
    for number in range(FILES):
        first = number * ROWS
        texts = [None if number == 5 else f"s{number}"] * ROWS
        write_rows(path / file(number), first, list(range(first, first + ROWS)), texts)
    table = connection.table(str(path))
    table.create_indexes([IndexSpec("by_a", "a", "minmax"), IndexSpec("by_s", "s", "minmax")])
    return path


@pytest.fixture
def entries_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files of whose entries objects are made meanwhile."""
    paths: list[str] = []
    real = EntryTable.entries

    def entries(self: EntryTable, rows: Sequence[int] | None = None) -> tuple[FileEntry, ...]:
        made = real(self, rows)
        paths.extend(entry.path for entry in made)
        return made

    monkeypatch.setattr(EntryTable, "entries", entries)
    return paths


def read_anew(path: Path) -> Table:
    """The table as a new process has it: its manifest is read."""
    RECENT.clear()
    return LocalConnection().table(str(path))


def test_files_that_cannot_match_are_ruled_out_unlooked_at(clustered: Path, entries_made: list[str]) -> None:
    assert len(list((clustered / "_hindex" / "segments").iterdir())) == 3
    table = read_anew(clustered)
    scan = table.scan("a = 70")
    explained = scan.explain()
    assert explained.files.kept == 1
    assert (explained.files.total, explained.rows) == (FILES, RowCount(ROWS, FILES * ROWS))
    assert set(entries_made) == {file(1)}
    assert ids(scan) == [70]
    entries_made.clear()
    none = read_anew(clustered).scan("a > 5000 OR s = 'no'")
    assert none.explain().files.kept == 0
    assert none.explain().rows == RowCount(0, FILES * ROWS)
    assert ids(none) == []
    assert entries_made == []


@sampled(7)
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("a = 70", {1}),
        ("a IN (70, 399, 1100)", {1, 7, 22}),
        ("a BETWEEN 99 AND 100", {1, 2}),
        ("a > 99 AND a < 101", {2}),
        ("a >= 1150", {23}),
        ("NOT (a < 1150)", {23}),
        ("s IS NULL", {5}),
        ("s = 's3' OR a = 0", {0, 3}),
        ("(a = 70 AND s = 's1') OR (a = 399 AND s = 's7')", {1, 7}),
        ("s IN ('s1', 's12') AND a < 600", {1}),
        ("s LIKE 's2%'", {2, 20, 21, 22, 23}),
        ("s IS NULL AND a = 0", set()),
        ("a IN (" + ", ".join(map(str, range(0, 100, 2))) + ")", {0, 1}),
        ("s IN (" + ", ".join(f"'t{n}'" for n in range(30)) + ")", set()),
    ],
)
def test_the_plan_is_the_one_that_each_file_alone_gives(
    clustered: Path, monkeypatch: pytest.MonkeyPatch, where: str, kept: set[int]
) -> None:
    plan = read_anew(clustered).scan(where).plan()
    assert [task.path for task in plan.tasks] == [file(number) for number in sorted(kept)]
    assert len(plan.skipped) == FILES - len(kept)
    explained = str(read_anew(clustered).scan(where).explain())
    monkeypatch.setattr("hindex.store.entries.SEGMENT_FILES", 1)
    for index in read_anew(clustered).indexes():
        index.rebuild()
    assert len(list((clustered / "_hindex" / "segments").iterdir())) >= FILES
    # each file is compared on its own
    assert read_anew(clustered).scan(where).plan().skipped == plan.skipped
    assert str(read_anew(clustered).scan(where).explain()) == explained


def test_recorded_keys_of_another_type_rule_out_nothing(clustered: Path) -> None:
    table = read_anew(clustered)
    by_s = table.snapshot().manifest.index("by_s").id

    def change(manifest: Manifest) -> Manifest:
        files = [
            replace(
                entry,
                index_files=tuple(
                    replace(file, stripe_stats=(ColumnStats(ROWS, 0, 1, 2),))
                    if file.index_id == by_s
                    else file
                    for file in entry.index_files
                ),
            )
            for entry in manifest.files
        ]
        return replace(manifest, files=tuple(files))

    Store.for_table(table.uri).commit(change)
    assert ids(read_anew(clustered).scan("s = 's3'")) == list(range(3 * ROWS, 4 * ROWS))
    assert ids(read_anew(clustered).scan("s = 's3' AND a < 160")) == list(range(3 * ROWS, 160))


def test_files_without_stripes_stay_where_no_index_answers(
    connection: LocalConnection, tmp_path: Path
) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, [])
    write_rows(tmp_path / "t" / "1.orc", 0, [1, 2])
    table = connection.table(str(tmp_path / "t"))
    where = "id >= 0"
    before = [task.path for task in table.scan(where).plan().tasks]
    table.create_index("by_a", "a", "minmax")
    plan = table.scan(where).plan()
    assert ([task.path for task in plan.tasks], len(plan.skipped)) == (before, 0)
    assert ids(table.scan(where)) == [0, 1]


def rewrite(path: Path) -> None:
    write_rows(path / file(20), 9000, [70, 71])


def delete(path: Path) -> None:
    (path / file(20)).unlink()


def add(path: Path) -> None:
    write_rows(path / "05b.orc", 9000, [70, 71])


def copy(path: Path) -> None:
    """Of the same length and time: only the tail tells that it is as it was."""
    data, status = (path / file(20)).read_bytes(), (path / file(20)).stat()
    (path / file(20)).unlink()
    (path / file(20)).write_bytes(data)
    os.utime(path / file(20), ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("change", "rows", "files", "expected"),
    [
        (rewrite, [70, 9000], {1, 20}, {Reason.STALE_FILE: [file(20)]}),
        (add, [70, 9000], {1}, {Reason.NEW_FILE: ["05b.orc"]}),
        (delete, [70], {1}, {Reason.FILE_GONE: [file(20)]}),
        (copy, [70], {1}, {}),
    ],
)
def test_a_change_among_files_that_are_ruled_out_is_seen(
    clustered: Path,
    entries_made: list[str],
    change: Callable[[Path], None],
    rows: list[int],
    files: set[int],
    expected: dict[Reason, list[str]],
) -> None:
    change(clustered)
    scan = read_anew(clustered).scan("a = 70")
    planned = {task.path for task in scan.plan().tasks}
    assert planned == {file(number) for number in files} | ({"05b.orc"} if change is add else set())
    assert set(entries_made) == {file(number) for number in files}
    assert sorted(ids(scan)) == rows
    assert reasons(scan) == expected
