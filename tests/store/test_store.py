"""Stores on disk: places, commits under races and crashes, damage, garbage."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hindex.errors import (
    CommitConflictError,
    IndexExistsError,
    NewerFormatError,
    StoreError,
)
from hindex.store import store as store_module
from hindex.store.files import read_whole
from hindex.store.format import VERSION
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    IndexFileEntry,
    Manifest,
    add_indexes,
    drop_index,
    merge_build_result,
    new_index_id,
)
from hindex.store.store import Store, list_stores, shared_name

HERE = Path(__file__).parent


def index(name: str) -> IndexEntry:
    return IndexEntry(new_index_id(), name, f"c_{name}", "bitmap", "int")


def adding(name: str) -> Callable[[Manifest], Manifest]:
    entry = index(name)
    return lambda old: add_indexes(old, [entry])


def names(store: Store) -> list[str]:
    found = store.load()
    return [] if found is None else [item.name for item in found.indexes]


def all_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    path.mkdir()
    return path


@pytest.fixture
def store(table: Path) -> Store:
    return Store.for_table(str(table))


def test_the_place_beside_the_data(tmp_path: Path, table: Path) -> None:
    (table / "one.orc").touch()
    (tmp_path / "link").symlink_to(table)
    for spelling in (str(table), f"{table}/", f"file:{table}", str(tmp_path / "link")):
        found = Store.for_table(spelling)
        assert (found.root, found.table_uri) == (f"{table}/_hindex", str(table))
    assert Store.for_table(f"{table}/one.orc").root == f"{table}/_hindex/files/one.orc"
    assert list(table.iterdir()) == [table / "one.orc"]


def test_the_place_in_a_shared_store(tmp_path: Path, table: Path) -> None:
    shared = tmp_path / "shared"
    found = Store.for_table(str(table), str(shared))
    assert Path(found.root).parent == shared
    assert Path(found.root).name.startswith("t-")
    assert Store.for_table(f"{table}/", f"file:{shared}/").root == found.root
    other = Store.for_table("s3a://bucket/t/", str(shared))
    assert other.table_uri == "s3://bucket/t"
    assert Path(other.root).name.startswith("t-")
    assert other.root != found.root
    assert not shared.exists()


@pytest.mark.parametrize("uri", ["/", "s3://b/.._", "/x/" + "é" * 300, "/a b#?"])
def test_shared_names_are_plain(uri: str) -> None:
    name = shared_name(uri)
    assert name.isascii()
    assert len(name) <= 81
    assert not name.startswith((".", "_", "-"))
    assert "/" not in name


@pytest.mark.parametrize(
    ("table_uri", "place", "root"),
    [
        ("s3a://b/t//", None, "s3://b/t/_hindex"),
        ("S3N://b/t", None, "s3://b/t/_hindex"),
        ("s3://b/t/x.orc", None, "s3://b/t/_hindex/files/x.orc"),
        ("s3://b", None, "s3://b/_hindex"),
        ("/t", "s3a://b/store/", f"s3://b/store/{shared_name('/t')}"),
        ("memory://t/", None, "memory://t/_hindex"),
    ],
)
def test_places_elsewhere(table_uri: str, place: str | None, root: str) -> None:
    assert Store.for_table(table_uri, place).root == root


def test_a_store_is_the_same_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert Store.for_table("/t", str(tmp_path / "link")).root == Store.for_table("/t", str(tmp_path)).root


def test_options_in_the_uri_of_a_store() -> None:
    with pytest.raises(StoreError, match="give them in the environment, such as AWS_ENDPOINT_URL"):
        Store.for_table("s3://b/t?region=eu-west-1")


def test_nothing_committed(store: Store, table: Path) -> None:
    assert store.load() is None
    assert store.garbage() == ()
    assert list(table.iterdir()) == []


def test_commits(store: Store, table: Path) -> None:
    first = store.commit(adding("a"))
    second = store.commit(adding("b"))
    assert (first.number, second.number) == (1, 2)
    assert second.created_ms > 1_700_000_000_000
    assert store.load() == second == Store.for_table(str(table)).load()
    assert all_files(table) == [f"_hindex/manifests/{number:020d}.manifest" for number in (1, 2)]
    assert store.commit(lambda old: drop_index(old, "a")).number == 3
    assert names(store) == ["b"]


def test_a_change_that_changes_nothing_writes_nothing(store: Store, table: Path) -> None:
    assert store.commit(lambda old: old).number == 0
    assert list(table.iterdir()) == []
    store.commit(adding("a"))
    before = all_files(table)
    assert store.commit(lambda old: merge_build_result(old)).number == 1
    assert all_files(table) == before


def test_a_change_that_fails_leaves_the_old_state(store: Store, table: Path) -> None:
    store.commit(adding("a"))
    before = all_files(table)
    with pytest.raises(IndexExistsError):
        store.commit(adding("a"))
    assert all_files(table) == before


def test_a_change_is_rebased_on_what_came_first(store: Store) -> None:
    seen: list[int] = []

    def slow(old: Manifest) -> Manifest:
        seen.append(old.number)
        if len(seen) <= 2:
            store.commit(adding(f"fast{len(seen)}"))
        return add_indexes(old, [index("slow")])

    assert store.commit(slow).number == 3
    assert seen == [0, 1, 2]
    assert names(store) == ["fast1", "fast2", "slow"]


def test_a_rebase_that_no_longer_applies(store: Store) -> None:
    calls = 0

    def late(old: Manifest) -> Manifest:
        nonlocal calls
        calls += 1
        new = add_indexes(old, [index("same")])
        if calls == 1:
            store.commit(adding("same"))
        return new

    with pytest.raises(IndexExistsError, match=r"^Index 'same' already exists"):
        store.commit(late)
    assert calls == 2


def test_conflicts_end(store: Store, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "COMMIT_ATTEMPTS", 5)
    rivals = iter(range(100))

    def beaten(old: Manifest) -> Manifest:
        store.commit(adding(f"rival{next(rivals)}"))
        return add_indexes(old, [index("late")])

    with pytest.raises(CommitConflictError, match="5 times in a row"):
        store.commit(beaten)
    assert names(store) == [f"rival{number}" for number in range(5)]
    assert len(all_files(table)) == 5


def test_racing_writers_lose_nothing(tmp_path: Path) -> None:
    writers, changes = 8, 20
    command = [
        sys.executable,
        str(HERE / "racing_writers.py"),
        str(tmp_path / "s"),
        str(writers),
        str(changes),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    store = Store(str(tmp_path / "s"), "/t")
    found = store.load()
    assert found is not None
    assert found.number == writers * changes
    assert {item.name for item in found.indexes} == {
        f"w{w}_{c}" for w in range(writers) for c in range(changes)
    }
    assert store.garbage() == ()


def test_killed_writers_leave_the_old_or_the_new_state(tmp_path: Path, rng: np.random.Generator) -> None:
    seed = int(rng.integers(2**32))
    command = [sys.executable, str(HERE / "crash_writer.py"), str(tmp_path / "s"), "60", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    # the kills did fall into commits
    assert report["acknowledged"] > 0


@pytest.mark.parametrize("function", ["write", "fsync", "link", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_failing_writes(
    store: Store, table: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int
) -> None:
    store.commit(adding("a"))
    before = all_files(table)
    real = getattr(os, function)

    def fail(*args: Any, **keywords: Any) -> Any:
        if function == "open" and not args[1] & os.O_CREAT:
            return real(*args, **keywords)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(StoreError, match=f"{os.strerror(number)}; nothing was changed") as caught:
            store.commit(adding("b"))
    assert "\n" not in str(caught.value)
    assert all_files(table) == before
    assert names(store) == ["a"]
    assert store.commit(adding("b")).number == 2


def test_a_link_whose_answer_is_lost(store: Store, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over NFS: the request is sent again, and told that the name is there."""
    monkeypatch.setattr("hindex.store.format.INLINE_BYTES", 0)
    entry = IndexEntry(new_index_id(), "a", "c", "bitmap", "int")
    own = IndexFileEntry(entry.id, f"data/{entry.id}/x.hidx", 1, 1)
    file = FileEntry("x.orc", 1, 1, 1, 1, (1,), "struct<c:int>", (own,))
    real = os.link

    def twice(source: Path, name: Path) -> None:
        real(source, name)
        real(source, name)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", twice)
        done = store.commit(lambda old: merge_build_result(old, new_indexes=[entry], files=[file]))
    assert done.number == 1
    found = Store.for_table(str(table)).load()
    assert found is not None
    assert list(found.files) == [file]
    assert store.garbage() == ()


def test_a_commit_that_may_not_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the name is there a commit cannot be taken back, so nobody is told that nothing was changed."""
    store.commit(adding("a"))

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("hindex.store.files.sync_directory", fail)
        with pytest.raises(
            StoreError, match=r"was committed, but .*Input/output error.* visible now"
        ) as caught:
            store.commit(adding("b"))
    assert "nothing was changed" not in str(caught.value)
    assert names(store) == ["a", "b"]
    assert store.commit(adding("c")).number == 3


def test_a_writer_that_stopped_is_not_waited_for_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hindex.store.local.TURN_S", 0.05)
    store.commit(adding("a"))
    descriptor = os.open(Path(store.root, "manifests"), os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert store.commit(adding("b")).number == 2
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("seen", [1, 3])
def test_a_vanished_store(store: Store, table: Path, seen: int) -> None:
    for number in range(3):
        store.commit(adding(f"i{number}"))
    gone = sorted(Path(store.root, "manifests").iterdir())[seen - 1 :]
    for path in gone:
        path.unlink()
    before = all_files(table)
    with pytest.raises(StoreError, match=r"vanished: its manifest 3 was there before, now .* is the latest"):
        store.commit(adding("late"))
    assert all_files(table) == before
    # whoever starts from what is there now may go on
    assert len(names(store)) == seen - 1
    assert store.commit(adding("late")).number == seen


def torture(root: Path, processes: int, rounds: int, seed: int, kills: int) -> dict[str, Any]:
    command = [
        sys.executable,
        str(HERE / "torture.py"),
        str(root),
        *map(str, (processes, rounds, seed, kills)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["problems"] == [], done.stderr
    assert report["next_commit"] == 1
    assert report["segments"] > 1
    return report


#: Rounds of the long run, such as 50; then with sixteen processes and four kills a round.
LONG = int(os.environ.get("HINDEX_ROUNDS", "0"))


def test_many_writers_of_one_table(tmp_path: Path, rng: np.random.Generator) -> None:
    processes, rounds = (16, LONG) if LONG else (4, 4)
    report = torture(tmp_path / "s", processes, rounds, int(rng.integers(2**32)), 0)
    assert report["commits"] == processes * rounds


def test_many_writers_some_of_them_killed(tmp_path: Path, rng: np.random.Generator) -> None:
    processes, rounds, kills = (16, LONG, 4 * LONG) if LONG else (4, 6, 8)
    report = torture(tmp_path / "s", processes, rounds, int(rng.integers(2**32)), kills)
    assert report["kills"] == kills


def test_a_file_system_without_hard_links(store: Store, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StoreError, match="no hard links"):
        store.commit(adding("a"))
    assert all_files(table) == []


def test_places_that_cannot_hold_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write to the store .*Not a directory"):
        Store(str(tmp_path / "file"), "/t").commit(adding("a"))
    with pytest.raises(StoreError, match="cannot create"):
        Store(str(tmp_path / "file"), "/t").prepare_index_directory(new_index_id())


def latest(store: Store) -> Path:
    return max(Path(store.root, "manifests").glob("*.manifest"))


@pytest.mark.parametrize("data", [b"", b"x", b"HINDEXMF" * 10])
def test_a_corrupt_manifest(store: Store, data: bytes) -> None:
    store.commit(adding("a"))
    store.commit(adding("b"))
    latest(store).write_bytes(data)
    with pytest.raises(
        StoreError, match=r"000002\.manifest' is corrupt: .*; restore it from a copy, or delete it"
    ):
        store.load()
    with pytest.raises(StoreError, match="is corrupt"):
        store.commit(adding("c"))
    # the advice of the message holds
    latest(store).unlink()
    assert names(store) == ["a"]


def test_a_manifest_under_another_number(store: Store) -> None:
    store.commit(adding("a"))
    latest(store).rename(latest(store).with_name(f"{7:020d}.manifest"))
    with pytest.raises(StoreError, match="it is number 1 under another name"):
        store.load()


def test_manifests_that_are_no_files(store: Store) -> None:
    store.commit(adding("a"))
    path = latest(store).with_name(f"{2:020d}.manifest")
    os.mkfifo(path)
    with pytest.raises(StoreError, match="no regular file"):
        store.load()
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError):
        store.load()
    path.rmdir()
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)
    with pytest.raises(StoreError, match="more than the"):
        store.load()


def test_a_manifest_of_a_newer_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hindex.store.format.VERSION", VERSION + 1)
        store.commit(adding("a"))
    with pytest.raises(NewerFormatError, match="upgrade hindex"):
        store.load()


def test_other_names_beside_the_manifests_are_passed_over(store: Store) -> None:
    store.commit(adding("a"))
    for name in ("9.manifest", f"{9:020d}.manifest.bak", ".tmp-1-x", "٠" * 20 + ".manifest"):
        latest(store).with_name(name).write_bytes(b"junk")
    assert names(store) == ["a"]


def test_a_manifest_that_vanishes_while_it_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit(adding("a"))
    vanished: list[Path] = []

    def vanish_once(path: Path, limit: int) -> bytes:
        if not vanished:
            vanished.append(path)
            Store(store.root, store.table_uri).commit(adding("b"))
            raise FileNotFoundError(errno.ENOENT, "gone", str(path))
        return read_whole(path, limit)

    monkeypatch.setattr("hindex.store.local.read_whole", vanish_once)
    assert names(store) == ["a", "b"]


def test_a_moved_table_keeps_its_indexes(store: Store, table: Path) -> None:
    store.commit(adding("a"))
    moved = table.rename(table.with_name("moved"))
    found = Store.for_table(str(moved)).load()
    assert found is not None
    assert found.table_uri == str(moved)
    assert found.find_index("a") is not None


def put_index_file(store: Store, entry: IndexEntry, data: bytes = b"12345") -> IndexFileEntry:
    path = f"{store.index_directory(entry.id)}/{uuid.uuid4().hex}.hidx"
    store.prepare_index_directory(entry.id)
    Path(store.absolute(path)).write_bytes(data)
    return IndexFileEntry(entry.id, path, len(data), 0)


def test_index_files_and_garbage(store: Store, table: Path) -> None:
    entry = index("a")
    file, orphan = put_index_file(store, entry), put_index_file(store, entry)
    assert [item.path for item in store.garbage()] == sorted([file.path, orphan.path])
    data_file = FileEntry("x.orc", 1, 2, 3, 4, (4,), "struct<a:int>", (file,))
    store.commit(lambda old: merge_build_result(old, new_indexes=[entry], files=[data_file]))
    Path(store.root, "manifests", ".tmp-1-left").write_bytes(b"half")
    garbage = store.garbage()
    assert [(item.path, item.length) for item in garbage] == [(orphan.path, 5), ("manifests/.tmp-1-left", 4)]
    assert garbage[0].mtime_ns == Path(store.absolute(orphan.path)).stat().st_mtime_ns
    store.commit(lambda old: drop_index(old, "a"))
    assert {item.path for item in store.garbage()} == {file.path, orphan.path, "manifests/.tmp-1-left"}


def test_directories_of_indexes(store: Store) -> None:
    entry = index("a")
    assert store.index_directory(entry.id) == f"data/{entry.id}"
    for wrong in ("", "../../../x", "A" * 32):
        with pytest.raises(ValueError, match="is not the id of an index"):
            store.index_directory(wrong)


def test_links_do_not_leave_the_store(store: Store, tmp_path: Path) -> None:
    file = put_index_file(store, index("a"))
    assert store.absolute(file.path) == f"{store.root}/{file.path}"
    (tmp_path / "secret").write_bytes(b"12345")
    Path(store.root, file.path).unlink()
    Path(store.root, file.path).symlink_to(tmp_path / "secret")
    with pytest.raises(StoreError, match="symbolic link that leaves the store"):
        store.absolute(file.path)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "data/../../x", "a\0b"])
def test_names_do_not_leave_the_store(store: Store, path: str) -> None:
    with pytest.raises(StoreError, match="not within the store"):
        store.absolute(path)


def test_tables_of_a_shared_store(tmp_path: Path, table: Path) -> None:
    shared = tmp_path / "shared"
    assert list_stores(str(shared)) == ()
    for uri in (str(table), "s3://b/t", "/elsewhere"):
        Store.for_table(uri, str(shared)).commit(adding("a"))
    (shared / "junk").mkdir()
    (shared / "file").touch()
    broken = Store.for_table("/broken", str(shared))
    broken.commit(adding("a"))
    latest(broken).write_bytes(b"junk")
    found = list_stores(str(shared))
    assert [item.table_uri for item in found] == sorted([str(table), "s3://b/t", "/elsewhere"])
    assert all(names(item) == ["a"] for item in found)


def test_a_manifest_is_never_seen_half_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a reader can list at any step of a commit is the old state or the whole new one."""
    store.commit(adding("a"))
    seen: list[list[str]] = []
    for function in ("open", "write", "fsync", "link", "close"):
        real = getattr(os, function)

        def watched(*args: Any, real: Any = real, **keywords: Any) -> Any:
            manifests = sorted(Path(store.root, "manifests").glob("*.manifest"))
            seen.append([path.name for path in manifests if path.stat().st_size == 0])
            return real(*args, **keywords)

        monkeypatch.setattr(os, function, watched)
    store.commit(adding("b"))
    assert len(seen) > 4
    assert not any(seen)
