"""Tasks are made when they are needed, and then are those that a plan would make at once, with the same notes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.index.column_stats import ColumnStats
from hindex.plan.reasons import Reason
from hindex.scan.planning import ScanPlan, ScanTasks, _Planner
from hindex.scan.scan_task import ScanTask
from hindex.store.manifest import merge_build_result
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_columns, write_rows

FILES = 12


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Files in two partitions, one with other columns, with an index of each scope, and without changes since."""
    local_build.install(monkeypatch)
    write_columns(
        tmp_path / "t" / "p=1" / "12.orc", {"id": pa.array([36, 38]), "new": pa.array([1, 2], pa.int32())}
    )
    for number in range(FILES):
        write_rows(tmp_path / "t" / f"p={number % 2}" / f"{number:02}.orc", number * 3, [number, None, 99])
    result = LocalConnection().table(str(tmp_path / "t"))
    result.create_index("by_a", "a", "minmax")
    result.create_index("by_s", "s", "bitmap", where="p = 1")
    result.create_index("by_id", "id", "btree")
    return result


def made(plan: ScanPlan) -> list[ScanTask]:
    assert isinstance(plan.tasks, ScanTasks)
    return list(plan.tasks._made.values())


def at_once(table: Table, where: str, monkeypatch: pytest.MonkeyPatch) -> ScanPlan:
    """The plan with the tasks of all files made when it is planned."""
    with monkeypatch.context() as patch:
        patch.setattr(_Planner, "_has_all_indexes", lambda self: np.zeros(len(self._snapshot.files), bool))
        plan = table.scan(where).plan()
    assert len(made(plan)) == len(plan.tasks)
    return plan


def test_tasks_are_made_as_they_are_read(table: Table) -> None:
    plan = table.scan("a >= 0").plan()
    assert len(plan.tasks) == FILES + 1
    # one of each kind of file for the notes
    assert len(made(plan)) == 2
    task = plan.tasks[-2]
    assert task.path == "p=1/11.orc"
    assert len(made(plan)) == 3
    assert plan.tasks[FILES - 1] is task
    assert list(plan.tasks)[FILES - 1] is task
    assert len(made(plan)) == FILES + 1
    assert plan.tasks[2:4] == tuple(plan.tasks)[2:4]
    assert list(plan.positions()) == list(range(FILES + 1))
    # elsewhere they are a tuple
    assert pickle.loads(pickle.dumps(plan.tasks)) == tuple(plan.tasks)


def test_tasks_that_are_changed_are_made_as_they_are_read(table: Table) -> None:
    plan = table.scan("a >= 0").plan().map_tasks(lambda task: replace(task, always_looks_up=True))
    assert len(made(plan)) == 2
    assert [task.always_looks_up for task in plan.tasks] == [True] * (FILES + 1)


@pytest.mark.parametrize(
    "where",
    [
        *("a >= 0", "a = 3", "s = 's3'", "s >= 's'", "id >= 0", "id = 5 OR a = 3", "p = 1 AND s = 's99'"),
        *("p = 0 AND s = 's99'", "a >= 0 AND id >= 0 AND s IS NOT NULL", "new = 1 OR a = 3", "length(s) = 2"),
    ],
)
def test_tasks_and_notes_are_those_of_all_files(
    table: Table, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With files that were added, replaced, rewritten with other columns or deleted, and an index that has no files."""
    root = Path(table.uri)
    write_rows(root / "p=1" / "50.orc", 200, [3, 4, 5])
    write_rows(root / "p=0" / "04.orc", 300, [3] * 100)
    write_columns(root / "p=1" / "03.orc", {"id": pa.array([500]), "other": pa.array([1], pa.int32())})
    (root / "p=0" / "02.orc").unlink()
    table.create_index("deferred", "s", "minmax", deferred=True)
    plan = table.scan(where).plan()
    num_made = len(made(plan))
    eager = at_once(table, where, monkeypatch)
    assert plan.notes == eager.notes
    assert list(plan.tasks) == list(eager.tasks)
    # an index over several files may give a note for each
    assert num_made < len(plan.tasks) or "id" in where or "s" in where or len(plan.tasks) < 5
    assert any(note.reason is not Reason.NO_INDEX for note in plan.notes)
    assert plan.skipped == eager.skipped


def test_a_quarantined_index_is_noted(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.quarantine_indexes(["by_a"], "it is wrong")
    plan, eager = table.scan("a >= 0").plan(), at_once(table, "a >= 0", monkeypatch)
    assert plan.notes == eager.notes
    assert [note.reason for note in plan.notes] == [Reason.QUARANTINED]
    assert list(plan.tasks) == list(eager.tasks)


def test_statistics_with_keys_of_another_type_are_noted(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = table.snapshot().manifest
    entry = manifest.files[5]
    index_id = manifest.index("by_a").id
    changed = replace(
        entry,
        index_files=tuple(
            replace(file, stripe_stats=(ColumnStats(3, 1, b"a", b"b"),))
            if file.index_id == index_id
            else file
            for file in entry.index_files
        ),
    )
    table._store.commit(lambda old: merge_build_result(old, files=[changed]))
    plan, eager = table.scan("a >= 0").plan(), at_once(table, "a >= 0", monkeypatch)
    assert [(note.reason, note.subject) for note in plan.notes] == [(Reason.CORRUPT, f"by_a on {entry.path}")]
    assert plan.notes == eager.notes
    assert sorted(ids(table.scan("a >= 0"))) == [n for n in range(3 * FILES) if n % 3 != 1]
