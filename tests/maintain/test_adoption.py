"""ADOPT INDEXES: a table that was copied with its indexes keeps them where the data files are the same bytes."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api.table import IndexSpec, Table
from hindex.build.btree_job import MAX_SETS
from hindex.errors import IndexFileError, IndexNotFoundError
from hindex.maintain import adoption
from hindex.maintain.checks import verify_index
from hindex.orc.io.source import LocalSource
from hindex.orc.metadata.file_tail import read_tail
from hindex.plan.reasons import Reason
from hindex.store.manifest import Manifest
from hindex.store.store import Store
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, store_state, write_columns

ROWS = 500
#: All values of a stripe are looked up when an index is compared with it.
DISTINCT = 5
SPECS = [
    IndexSpec("bits", "a", "bitmap"),
    IndexSpec("tree", "id", "btree", properties={"level": "TABLE"}),
    IndexSpec("range", "id", "minmax"),
    IndexSpec("text", "s", "bloom"),
]


def values(part: int) -> list[int]:
    return random.Random(part).choices(range(DISTINCT), k=ROWS)


def write_part(path: Path, part: int, a: list[int] | None = None) -> Path:
    """Write a file of one stripe, uncompressed."""
    a = values(part) if a is None else a
    columns = {
        "id": pa.array(range(part * 1000, part * 1000 + ROWS), pa.int64()),
        "a": pa.array(a, pa.int32()),
        "s": [f"s{part}-{i}" for i in range(ROWS)],
    }
    return write_columns(path / f"p={part}" / "x.orc", columns, codec="none", stride=100)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    root = tmp_path / "table"
    for part in (1, 2, 3):
        write_part(root, part)
    LocalConnection().table(root).create_indexes(SPECS)
    return root


def copy(path: Path) -> Path:
    """Copy a table without its times."""
    target = path.with_name("copy")
    shutil.copytree(path, target, copy_function=shutil.copyfile)
    for part in (1, 2, 3):
        # also where the clock of the file system is coarse
        os.utime(target / f"p={part}" / "x.orc", ns=(part, 10**18 + part))
    return target


def copy_with_times(path: Path) -> Path:
    shutil.copytree(path, path.with_name("copy"))
    return path.with_name("copy")


def has_a(part: int, value: int, a: list[int] | None = None) -> list[int]:
    return [part * 1000 + i for i, v in enumerate(values(part) if a is None else a) if v == value]


def check_answers(table: Table) -> None:
    """Compare answers with plain Python, and let each index skip what it can."""
    scan = table.scan("a = 3", ["id"])
    assert ids(scan) == [row for part in (1, 2, 3) for row in has_a(part, 3)]
    for where, part, expected in (
        ("id = 2007", 2, [2007]),
        ("id BETWEEN 1490 AND 1600", 1, list(range(1490, 1500))),
        ("a = 3 AND id >= 3000", 3, has_a(3, 3)),
    ):
        scan = table.scan(where, ["id"])
        assert ids(scan) == expected
        assert reasons(scan) == {}
        assert {task.path for task in scan.plan().tasks} == {f"p={part}/x.orc"}
    explained = table.scan("s = 's2-7'", ["id"]).explain(analyze=True)
    assert ids(table.scan("s = 's2-7'", ["id"])) == [2007]
    assert not explained.notes
    # of the row groups of 100 rows, the filter lets pass the right one, and rarely another one
    assert explained.rows is not None
    assert (explained.rows.kept or 0) <= 2 * 100
    # unopened: entries whose times are not the present ones are not trusted without the file's tail
    assert table.scan("id = 7").plan().tasks == ()


@pytest.mark.parametrize("copied", [copy, copy_with_times])
def test_copied_table(path: Path, copied: Callable[[Path], Path]) -> None:
    target = copied(path)
    hx = LocalConnection()
    table = hx.table(target)
    before = store_state(table)
    if copied is copy:
        assert reasons(table.scan("a = 3"))[Reason.STALE_FILE]
    dry = table.adopt_indexes(dry_run=True)
    assert (dry.files_adopted, dry.files_fresh, dry.files_differing, dry.files_gone) == (3, 0, 0, 0)
    assert store_state(table) == before
    done = hx.sql(f"ADOPT INDEXES ON '{target}'")
    assert str(done) == (
        f"Indexes 'bits', 'tree', 'range', 'text' of {str(target)!r}: adopted 3 files (12 stripes compared with the "
        "indexes); 0 fresh already"
    )
    # all index files as they were, and one more manifest
    after = store_state(table)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1
    check_answers(table)
    assert all(view.is_certainly_fresh for view in table.snapshot().files)
    assert not table.refresh_indexes().changed
    assert all(result.ok for result in table.check_indexes(verify=True))
    again = table.adopt_indexes()
    assert (again.files_adopted, again.files_fresh, again.verified_stripes) == (0, 3, 0)
    assert "nothing to adopt; 3 fresh already" in str(again)
    assert store_state(table) == after
    assert hx.built_paths == []


def test_moved_table_stays_fresh(path: Path) -> None:
    target = path.rename(path.with_name("moved"))
    result = LocalConnection().table(target).adopt_indexes()
    assert (result.files_adopted, result.files_fresh) == (0, 3)
    check_answers(LocalConnection().table(target))


def test_differing_and_missing_files_are_left_to_a_refresh(path: Path) -> None:
    target = copy(path)
    changed, other = target / "p=2" / "x.orc", [4 - value for value in values(2)]
    length = changed.stat().st_size
    write_part(target, 2, other)
    assert changed.stat().st_size == length
    shutil.rmtree(target / "p=3")
    write_part(target, 4)
    hx = LocalConnection()
    table = hx.table(target)
    result = table.adopt_indexes()
    assert (result.files_adopted, result.files_fresh) == (1, 0)
    assert (result.files_differing, result.files_gone) == (1, 1)
    assert str(result).endswith("; 1 different, 1 gone: run REFRESH INDEXES for these")
    expected = [*has_a(1, 3), *has_a(2, 3, other), *has_a(4, 3)]
    scan = table.scan("a = 3", ["id"])
    assert ids(scan) == expected
    assert reasons(scan) == {
        Reason.STALE_FILE: ["p=2/x.orc"],
        Reason.NEW_FILE: ["p=4/x.orc"],
        Reason.FILE_GONE: ["p=3/x.orc"],
    }
    table.refresh_indexes()
    assert set(hx.built_paths) == {"p=2/x.orc", "p=4/x.orc"}
    assert ids(table.scan("a = 3", ["id"])) == expected
    assert reasons(table.scan("a = 3", ["id"])) == {}


def test_exchanged_values_of_equal_length_and_tail_are_refused(path: Path) -> None:
    target = copy(path)
    file, other = target / "p=2" / "x.orc", values(2)
    first, second = other.index(1), other.index(2)
    other[first], other[second] = 2, 1
    before = read_tail(LocalSource(file))
    write_part(target, 2, other)
    after = read_tail(LocalSource(file))
    assert (after.file_length, after.checksum) == (before.file_length, before.checksum)
    table = LocalConnection().table(target)
    state = store_state(table)
    for dry_run in (True, False):
        # VERIFY looks up random values
        with pytest.raises(
            IndexFileError,
            match=r"^the indexes of '.*/copy' cannot be adopted: index 'bits': wrong answer for .* in stripe 0 of "
            r"'p=2/x\.orc': .* missing: REFRESH INDEXES indexes the file again, which is no copy of the indexed one$",
        ):
            table.adopt_indexes(dry_run=dry_run)
    assert store_state(table) == state
    expected = [row for part in (1, 2, 3) for row in has_a(part, 1, other if part == 2 else None)]
    assert ids(table.scan("a = 1", ["id"])) == expected
    table.refresh_indexes()
    assert ids(table.scan("a = 1", ["id"])) == expected
    assert reasons(table.scan("a = 1", ["id"])) == {}


def test_file_of_another_length_and_the_same_tail_differs(path: Path) -> None:
    """As a writer that leaves a gap before the tail makes one."""
    target = copy(path)
    file = target / "p=2" / "x.orc"
    data = file.read_bytes()
    tail = read_tail(LocalSource(file))
    file.write_bytes(data[: -tail.length] + b"gap" + data[-tail.length :])
    assert read_tail(LocalSource(file)).checksum == tail.checksum
    table = LocalConnection().table(target)
    result = table.adopt_indexes()
    assert (result.files_adopted, result.files_differing) == (2, 1)
    assert ids(table.scan("a = 3", ["id"])) == [row for part in (1, 2, 3) for row in has_a(part, 3)]
    assert reasons(table.scan("a = 3", ["id"])) == {Reason.STALE_FILE: ["p=2/x.orc"]}


def test_incomplete_copy_of_the_store(path: Path) -> None:
    target = copy(path)
    table = LocalConnection().table(target)
    root = Path(Store.for_table(table.uri).root)
    state = store_state(table)
    file = root / next(name for name in state if name.endswith(".hidx"))
    data = file.read_bytes()
    file.unlink()
    # a random one of the files
    with pytest.raises(
        IndexFileError, match=r"index file 'data/.* is missing: .*copy '_hindex' again as a whole"
    ):
        table.adopt_indexes()
    file.write_bytes(data)
    assert store_state(table) == state
    table.adopt_indexes()
    check_answers(table)


def test_table_without_indexes(tmp_path: Path) -> None:
    write_part(tmp_path, 1)
    with raises(IndexNotFoundError):
        LocalConnection().table(tmp_path).adopt_indexes()


def test_unusable_indexes_are_not_compared(path: Path) -> None:
    table = LocalConnection().table(path)
    table.create_index("later", "s", "bitmap", deferred=True)
    quarantined = {
        file.path
        for entry in table.snapshot().manifest.files
        if (file := entry.index_file(table.snapshot().manifest.index("bits").id)) is not None
    }
    table.quarantine_indexes(["bits"], "a proof")
    target = LocalConnection().table(copy(path))
    for name in quarantined:
        (Path(Store.for_table(target.uri).root) / name).unlink()
    assert target.adopt_indexes().verified_stripes == 9
    assert ids(target.scan("id = 2007", ["id"])) == [2007]
    assert target.index("bits").status.startswith("quarantined")
    assert target.index("later").status.startswith("deferred")


def test_partial_refresh_keeps_entries_of_other_changed_files(path: Path) -> None:
    """They are stale, and neither deleted nor replaced unnoticed."""
    table = LocalConnection().table(path)
    for part in (1, 2):
        write_part(path, part, [4 - value for value in values(part)])
        os.utime(path / f"p={part}" / "x.orc", ns=(part, 10**18 + part))
    result = table.refresh_indexes(where="p = 1")
    assert (result.files_read, result.files_forgotten) == (1, 0)
    assert [entry.path for entry in table.snapshot().manifest.files] == [
        f"p={part}/x.orc" for part in (1, 2, 3)
    ]
    expected = [row for part in (1, 2) for row in has_a(part, 3, [4 - value for value in values(part)])]
    scan = table.scan("a = 3", ["id"])
    assert ids(scan) == expected + has_a(3, 3)
    assert reasons(scan) == {Reason.STALE_FILE: ["p=2/x.orc"]}


def test_shared_index_of_another_version_is_not_used(path: Path) -> None:
    table = LocalConnection().table(path)

    def change(manifest: Manifest) -> Manifest:
        files = [replace(entry, tail_checksum=entry.tail_checksum ^ 1) for entry in manifest.files[:1]]
        return replace(manifest, files=(*files, *manifest.files[1:]))

    Store.for_table(table.uri).commit(change)
    scan = LocalConnection().table(path).scan("id = 1007", ["id"])
    assert ids(scan) == [1007]
    assert any("another version of the file" in note.detail for note in scan.explain().notes)


def test_entries_of_other_writers_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh that commits while files are compared has indexed them: its entries are newer."""
    target = copy(path)
    refreshed: list[str] = []

    def verify_beside_refresh(*args: object, **options: object) -> int:
        if not refreshed:
            hx = LocalConnection()
            hx.table(target).refresh_indexes(where="p = 2")
            refreshed.extend(hx.built_paths)
        return verify_index(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(adoption, "verify_index", verify_beside_refresh)
    table = LocalConnection().table(target)
    result = table.adopt_indexes()
    assert set(refreshed) == {"p=2/x.orc"}
    assert result.files_adopted == 2
    check_answers(table)
    assert not table.refresh_indexes().changed


def test_refreshes_merge_adopted_shared_indexes(path: Path) -> None:
    target = copy(path)
    hx = LocalConnection()
    table = hx.table(target)
    table.adopt_indexes()
    for part in range(4, 5 + MAX_SETS):
        write_part(target, part)
        table.refresh_indexes(["tree"])
    assert set(hx.built_paths) == {f"p={part}/x.orc" for part in range(4, 5 + MAX_SETS)}
    snapshot = table.snapshot()
    assert len(snapshot.manifest.shared_indexes()) <= MAX_SETS
    assert all(
        entry.fingerprint.mtime_ns == view.file.mtime_ns for view in snapshot.files if (entry := view.entry)
    )
    scan = table.scan("id = 2007", ["id"])
    assert ids(scan) == [2007]
    assert {task.path for task in scan.plan().tasks} == {"p=2/x.orc"}
