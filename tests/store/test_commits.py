"""Commits: what a change writes, one after another, and what is left when it fails."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from hindex.errors import (
    CommitConflictError,
    IndexExistsError,
    StoreError,
)
from hindex.store import store as store_module
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
from hindex.store.store import Store
from tests.store.changes import adding, all_files, index, names
from tests.support.messages import raises


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

    with raises(IndexExistsError):
        store.commit(late)
    assert calls == 2


def test_conflicts_end(store: Store, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "COMMIT_ATTEMPTS", 5)
    rivals = iter(range(100))

    def beaten(old: Manifest) -> Manifest:
        store.commit(adding(f"rival{next(rivals)}"))
        return add_indexes(old, [index("late")])

    with raises(CommitConflictError):
        store.commit(beaten)
    assert names(store) == [f"rival{number}" for number in range(5)]
    assert len(all_files(table)) == 5


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
    """Over NFS, a repeated request fails because the name exists."""
    monkeypatch.setattr("hindex.store.manifest_file.INLINE_BYTES", 0)
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
    stored = Store.for_table(str(table)).load()
    assert stored is not None
    assert list(stored.files) == [file]
    assert store.garbage() == ()


def test_a_commit_that_may_not_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit cannot be undone once the name exists: the error does not claim that nothing was changed."""
    store.commit(adding("a"))

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("hindex.store.local.sync_directory", fail)
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
    with raises(StoreError):
        store.commit(adding("late"))
    assert all_files(table) == before
    # whoever starts from what is there now may go on
    assert len(names(store)) == seen - 1
    assert store.commit(adding("late")).number == seen


def test_a_file_system_without_hard_links(store: Store, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StoreError, match="no hard links"):
        store.commit(adding("a"))
    assert all_files(table) == []


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
