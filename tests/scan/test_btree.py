"""Scans with BTREE indexes: rows as ever, and only the row groups read that hold a match."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.api.table import IndexSpec, Table
from hindex.build import btree_job
from hindex.domain import Domain
from hindex.index.column_stats import ColumnStats
from hindex.index.page_cache import shared_cache
from hindex.orc import OrcReader
from hindex.plan.filter import leaves
from hindex.plan.reasons import Reason
from hindex.scan import orc_statistics, scan_task_reader, shared_index_pruning
from hindex.store.manifest import Manifest
from hindex.store.store import Store
from hindex.table.listing import DataFiles
from tests.support.local_build import LocalConnection
from tests.support.small import ids, keep_stat, reasons, write_rows
from tests.support.work import planned_rows
from tests.support.writers import write_pyarrow

#: Rows of each of the four files; row i has a = i % 997, in row groups of 100.
ROWS = 3000
A = [i % 997 if i % 50 else None for i in range(4 * ROWS)]
FILES = ("four.orc", "one.orc", "three.orc", "two.orc")

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    for number, name in enumerate(FILES):
        first = number * ROWS
        write_rows(path / name, first, A[first : first + ROWS])
    return path


@pytest.fixture
def table(path: Path) -> Table:
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    return table


def rows_where(member: Callable[[int, int | None], bool]) -> list[int]:
    return [i for i, a in enumerate(A) if member(i, a)]


def index_file(table: Table, index: str = "by_a") -> Path:
    manifest = table.snapshot().manifest
    (entry,) = (item for item in manifest.shared_indexes() if item.index_id == manifest.index(index).id)
    (file,) = entry.files
    return Path(Store.for_table(table.uri).absolute(file.path))


def groups_of(rows: list[int]) -> set[tuple[str, int]]:
    """The row groups, numbered through the file, of rows by id."""
    return {(FILES[row // ROWS], row % ROWS // 100) for row in rows}


def planned_groups(table: Table, where: str) -> dict[str, set[int]]:
    """Return the row groups of 100 rows, by file, in the tasks of a scan with one indexed leaf."""
    result = {}
    for task in table.scan(where).plan().tasks:
        (located,) = task.candidates
        assert located.row_group_rows == 100
        result[task.path] = set(BitMap.deserialize(located.groups))
    return result


@pytest.mark.parametrize(
    ("where", "member"),
    [
        ("a = 5", lambda i, a: a == 5),
        ("a = 1000", lambda i, a: False),
        ("a IN (5, 700, 5000)", lambda i, a: a in (5, 700)),
        ("a BETWEEN 990 AND 2000", lambda i, a: a is not None and a >= 990),
        ("a > 5 AND a < 7", lambda i, a: a == 6),
        ("a IS NULL", lambda i, a: a is None),
        ("a IS NULL OR a = 3", lambda i, a: a in (None, 3)),
        ("a <> 5", lambda i, a: a not in (None, 5)),
        ("NOT (a = 5 OR a IS NULL)", lambda i, a: a not in (None, 5)),
        ("a NOT IN (5, NULL)", lambda i, a: False),
    ],
)
def test_exactly_the_row_groups_with_a_match_are_kept(
    table: Table, where: str, member: Callable[[int, int | None], bool]
) -> None:
    expected = rows_where(member)
    scan = table.scan(where)
    assert ids(scan) == expected
    planned = planned_groups(table, where)
    assert {(path, group) for path, some in planned.items() for group in some} == groups_of(expected)
    explained = scan.explain()
    assert explained.rows is not None
    assert explained.rows.kept == 100 * len(groups_of(expected))
    assert explained.files is not None
    assert (explained.files.kept, explained.files.total) == (
        len({path for path, _ in groups_of(expected)}),
        4,
    )
    assert all(note.reason.is_surprise for note in explained.notes)
    if expected:
        assert not explained.exact


def test_statistics_are_judged_for_candidate_row_groups_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": list(range(ROWS)), "a": A[:ROWS]}
    write_pyarrow(tmp_path / "t" / "0.orc", pa.table(columns), "none", stripe=1 << 26, stride=100)
    table = LocalConnection().table(str(tmp_path / "t"))
    table.create_index("by_a", "a", "btree")
    judged: list[int] = []

    def judge(domain: Domain, stats: ColumnStats) -> orc_statistics.Verdict:
        judged.append(stats.rows)
        return original(domain, stats)

    original = orc_statistics.judge
    monkeypatch.setattr(orc_statistics, "judge", judge)
    assert table.scan("a = 5").to_arrow()["id"].to_pylist() == [5, 1002, 1999, 2996]
    # the file, its stripe, and four of 30 row groups
    assert judged == [ROWS, ROWS, 100, 100, 100, 100]


def test_keys_in_several_files_of_one_set(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(btree_job, "PART_ROWS", 1000)
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    (held,) = table.snapshot().manifest.shared_indexes()
    assert len(held.files) > 5
    for where, expected_values in (
        ("a IN (5, 501, 990)", {5, 501, 990}),
        ("a IS NULL OR a = 990", {None, 990}),
    ):
        expected = rows_where(lambda i, a, wanted=expected_values: a in wanted)  # type: ignore[misc]
        planned = planned_groups(table, where)
        assert {(name, group) for name, some in planned.items() for group in some} == groups_of(expected)
        assert ids(table.scan(where)) == expected


def test_files_without_a_match_are_not_opened(
    path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_reader(source: str, timezone: str | None = None) -> OrcReader:
        opened.append(Path(source).name)
        return OrcReader(source, timezone=timezone)

    write_rows(path / "needle.orc", 50_000, [7_777, 8_888, None])
    table.index("by_a").refresh()
    monkeypatch.setattr(scan_task_reader, "OrcReader", open_reader)
    cases: list[tuple[str, list[int], list[str]]] = [
        ("a = 7777", [50_000], ["needle.orc"]),
        ("a > 1000 AND id >= 0", [50_000, 50_001], ["needle.orc"]),
        # another column may be anything
        ("a = 7777 OR id = 3", [3, 50_000], [*FILES[:1], "needle.orc", *FILES[1:]]),
        # only one side of the AND rules files out
        ("a = 7777 AND (a = 5 OR id = 3)", [], ["needle.orc"]),
        ("a = 123456", [], []),
    ]
    for where, expected, files in cases:
        opened.clear()
        assert table.scan(where).to_arrow().column("id").to_pylist() == expected, where
        assert opened == files, where


def test_with_other_indexes_of_the_column_and_others(table: Table) -> None:
    table.create_indexes([IndexSpec("bits", "a", "bitmap"), IndexSpec("by_s", "s", "bitmap")])
    scan = table.scan("a = 5")
    assert scan.explain().exact
    assert ids(scan) == rows_where(lambda i, a: a == 5)
    assert not table.scan("a > 900 OR id < 10").explain().exact
    scan = table.scan("a IN (5, 6) AND s <> 's6'")
    assert scan.explain().exact
    assert ids(scan) == rows_where(lambda i, a: a == 5)
    # what the manifest knows of stripes, of another column
    table.create_index("ends", "id", "minmax")
    assert A[4001] == 13
    assert ids(table.scan("id = 4001 AND a = 13")) == [4001]
    assert ids(table.scan("id = 4002 AND a = 13")) == []
    table.drop_index("ends")
    # two indexes on several columns
    table.create_index("by_id", "id", "compact")
    assert planned_rows(table, "id = 4001") == 100
    assert planned_rows(table, "id = 4001 AND a = 13") == 1
    assert ids(table.scan("id IN (3999, 4001) OR a = 12")) == rows_where(
        lambda i, a: a == 12 or i in (3999, 4001)
    )


def test_tasks_are_small_and_travel(table: Table) -> None:
    plan = table.scan("a = 5 OR a IS NULL").plan()
    for task in plan.tasks:
        data = pickle.dumps(task)
        assert len(data) < 6000
        assert pickle.loads(data) == task
        (leaf,) = leaves(task.filter)
        assert task.candidates[0].domain == leaf.domain


# Staleness


def test_a_file_that_was_added_or_replaced_is_read(path: Path, table: Table) -> None:
    write_rows(path / "added.orc", 100_000, [5, 6])
    os.utime(path / "added.orc", ns=(10**18, 10**18))
    write_rows(path / "one.orc", 200_000, [5, 7, 5])
    (path / "two.orc").unlink()
    expected = [i for i in rows_where(lambda i, a: a == 5) if FILES[i // ROWS] not in ("one.orc", "two.orc")]
    scan = table.scan("a = 5")
    assert sorted(ids(scan)) == [*expected, 100_000, 200_000, 200_002]
    messages = reasons(scan)
    assert messages == {
        Reason.NEW_FILE: ["added.orc"],
        Reason.STALE_FILE: ["one.orc"],
        Reason.FILE_GONE: ["two.orc"],
    }
    assert table.index("by_a").status.startswith("stale")
    table.index("by_a").refresh()
    assert sorted(ids(table.scan("a = 5"))) == [*expected, 100_000, 200_000, 200_002]
    assert table.scan("a = 5").explain().notes == ()
    assert table.index("by_a").status == "fresh"


def test_a_file_replaced_with_the_same_length_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tail tells: that of a file whose status changed is read at once, others when they are opened."""
    path = tmp_path / "small"
    for number, first in enumerate((0, 1000)):
        write_rows(path / f"{number}.orc", first, list(range(100_000 + first, 100_500 + first)), ["k"] * 500)
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    file = path / "0.orc"
    keep_stat(file, lambda: write_rows(file, 0, list(range(100_300, 100_800)), ["k"] * 500))
    scan = table.scan("a = 100450")
    (task,) = scan.plan().tasks
    assert (task.path, task.candidates) == ("0.orc", ())
    assert ids(scan) == [150]
    assert reasons(scan) == {Reason.STALE_FILE: ["0.orc"]}
    with monkeypatch.context() as patch:
        patch.setattr(DataFiles, "are_untouched_since", lambda _, at, __: np.ones(len(at), np.bool_))
        assert planned_groups(table, "a = 100450") == {"0.orc": {4}}
        assert ids(scan) == [150]
        assert reasons(scan) == {Reason.STALE_FILE: ["0.orc"]}
    table.refresh_indexes()
    assert planned_groups(table, "a = 100450") == {"0.orc": {1}}
    assert ids(table.scan("a = 100450")) == [150]


def test_stale_btree_version_is_read(path: Path, table: Table) -> None:
    """The index describes another version of a file than the manifest, which says that the index covers the file."""
    (covering,) = table.snapshot().manifest.shared_indexes()
    write_rows(path / "one.orc", 200_000, [5, 7, 5])
    table.create_index("by_s", "s", "bitmap")

    def cover(manifest: Manifest) -> Manifest:
        files = [
            replace(entry, shared=(covering,)) if entry.path == "one.orc" else entry
            for entry in manifest.files
        ]
        return replace(manifest, files=tuple(files))

    Store.for_table(table.uri).commit(cover)
    scan = LocalConnection().table(str(path)).scan("a = 5")
    others = [i for i in rows_where(lambda i, a: a == 5) if FILES[i // ROWS] != "one.orc"]
    assert sorted(ids(scan)) == [*others, 200_000, 200_002]
    assert reasons(scan) == {Reason.CORRUPT: ["by_a on one.orc"]}


def test_files_of_one_set_that_describe_two_versions_of_a_data_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a store that was put together of two: row groups of one version are not those of the other one."""
    monkeypatch.setattr(btree_job, "PART_ROWS", 1000)
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    (older,) = table.snapshot().manifest.shared_indexes()
    changed = [A[first + ROWS - 1 - at] for first in range(0, 4 * ROWS, ROWS) for at in range(ROWS)]
    for number, name in enumerate(FILES):
        first = number * ROWS
        write_rows(path / name, first, changed[first : first + ROWS])
    table.index("by_a").rebuild()
    (newer,) = table.snapshot().manifest.shared_indexes()
    mixed = replace(newer, files=(older.files[0], *newer.files[1:]))

    def mix(manifest: Manifest) -> Manifest:
        return replace(manifest, files=tuple(replace(entry, shared=(mixed,)) for entry in manifest.files))

    Store.for_table(table.uri).commit(mix)
    scan = LocalConnection().table(str(path)).scan("a IN (2, 501, 990)")
    assert ids(scan) == [i for i, a in enumerate(changed) if a in (2, 501, 990)]
    assert reasons(scan) == {Reason.CORRUPT: ["by_a"]}


# Damage


def damaged(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0x55
    return bytes(changed)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(Path.unlink, Reason.INDEX_MISSING, id="missing"),
        pytest.param(lambda file: file.write_bytes(b""), Reason.CORRUPT, id="empty"),
        pytest.param(lambda file: file.write_bytes(file.read_bytes()[:-7]), Reason.CORRUPT, id="truncated"),
        pytest.param(
            lambda file: file.write_bytes(damaged(file.read_bytes(), -30)), Reason.CORRUPT, id="footer"
        ),
        pytest.param(
            lambda file: file.write_bytes(damaged(file.read_bytes(), 20)), Reason.CORRUPT, id="leaf"
        ),
    ],
)
def test_a_damaged_file(table: Table, damage: Callable[[Path], Any], reason: Reason) -> None:
    damage(index_file(table))
    scan = table.scan("a = 5")
    assert ids(scan) == rows_where(lambda i, a: a == 5)
    assert reasons(scan) == {reason: ["by_a"]}
    # nothing is ruled out
    assert [(task.path, task.candidates) for task in scan.plan().tasks] == [(name, ()) for name in FILES]


@pytest.mark.slow
def test_every_flipped_byte_is_found_and_the_rows_are_right(tmp_path: Path) -> None:
    path = tmp_path / "small"
    write_rows(path / "x.orc", 0, [1, 2, None, 2])
    write_rows(path / "y.orc", 10, [3, 2])
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    file = index_file(table)
    good = file.read_bytes()
    for at in range(len(good)):
        file.write_bytes(damaged(good, at))
        shared_cache().clear()
        answered = 0
        for where, expected in (("a = 2", [1, 3, 11]), ("a IS NULL", [2]), ("a > 2", [10])):
            scan = table.scan(where)
            messages = scan.plan().notes
            answered += not messages
            # an index that is left out changes no rows: some of those are enough
            if not messages or at % 16 == 0:
                assert scan.to_arrow().column("id").to_pylist() == expected, (at, where)
        # what one lookup does not read it cannot miss; together they read everything
        assert answered < 3, at
    for length in range(len(good)):
        file.write_bytes(good[:length])
        shared_cache().clear()
        scan = table.scan("a = 2")
        assert [note.reason for note in scan.plan().notes] == [Reason.CORRUPT], length
        if length % 16 == 0:
            assert scan.to_arrow().column("id").to_pylist() == [1, 3, 11], length


def test_a_file_in_the_place_of_another(table: Table) -> None:
    table.create_index("by_id", "id", "btree")
    shutil.copy(index_file(table, "by_id"), index_file(table))
    scan = table.scan("a = 5")
    assert ids(scan) == rows_where(lambda i, a: a == 5)
    assert reasons(scan) == {Reason.CORRUPT: ["by_a"]}


def test_a_range_that_is_too_wide(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.drop_index("by_a")
    table.create_index("by_a", "a", "btree", properties={"values_per_page": "10"})
    monkeypatch.setattr(shared_index_pruning, "MAX_LEAVES", 5)
    scan = table.scan("a > 500")
    assert ids(scan) == rows_where(lambda i, a: a is not None and a > 500)
    assert reasons(scan) == {Reason.NOT_SELECTIVE: ["by_a"]}
    assert table.scan("a > 990").explain().notes == ()


def test_leaves_of_one_column_are_looked_up_apart(tmp_path: Path, connection: LocalConnection) -> None:
    """The entry of one value of a column does not serve for another value."""
    for number in range(3):
        values = [1000 * number + i for i in range(500)]
        write_rows(tmp_path / "t" / f"{number}.orc", 500 * number, values)
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_a", "a", "btree")
    for where, expected in (
        ("(a = 3 AND s = 's3') OR (a = 2007 AND s = 's2007')", [3, 1007]),
        ("(a = 1003 AND s = 's1003') OR (a BETWEEN 5 AND 6 AND s > 's')", [5, 6, 503]),
    ):
        scan = table.scan(where)
        assert sorted(ids(scan)) == expected
        assert len(scan.plan().tasks) == 2
