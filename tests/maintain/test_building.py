"""Builds under way are seen by others, and those that were killed are not."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hindex.api.index import Index
from hindex.api.statement_table import StatementTable
from hindex.api.table import Table
from hindex.errors import BuildError
from hindex.maintain.results import IndexState
from hindex.progress import NullProgress
from hindex.store.build_files import BUILDS, Builder, notice_name
from hindex.store.store import GarbageKind, Store
from tests.support.local_build import LocalConnection


class Watcher(NullProgress):
    """Looks at the table from another connection whenever a data file was read."""

    def __init__(self, path: Path, fails: bool = False) -> None:
        self.path = path
        self.fails = fails
        self.seen: list[dict[str, str]] = []
        self.described: list[str] = []
        self.states: list[list[IndexState]] = []

    def advance(self, count: int = 1) -> None:
        other = LocalConnection()
        shown = other.sql(f"SHOW INDEXES ON '{self.path}'")
        assert isinstance(shown, StatementTable)
        self.seen.append(dict(zip(*(shown[name].to_pylist() for name in ("name", "status")), strict=True)))
        described = other.sql(f"DESCRIBE INDEX i ON '{self.path}'")
        assert isinstance(described, StatementTable)
        facts = dict(zip(described["fact"].to_pylist(), described["value"].to_pylist(), strict=True))
        self.described.append(facts["status"])
        self.states.append([index.state for index in other.table(str(self.path)).indexes()])
        if self.fails:
            raise BuildError("no luck")


def by_this_process(status: str) -> bool:
    return status.startswith("building: since 20") and status.endswith(
        f"Z by process {os.getpid()} on {Builder.this().host}"
    )


def test_a_new_index_is_shown_while_it_is_built(path: Path) -> None:
    watcher = Watcher(path)
    hx = LocalConnection(progress=watcher)
    index = hx.table(str(path)).create_index("i", "a")
    assert len(watcher.seen) == 3
    assert all(by_this_process(seen["i"]) for seen in watcher.seen)
    assert all(by_this_process(status) for status in watcher.described)
    # the table does not have it yet
    assert watcher.states == [[], [], []]
    assert index.state is IndexState.FRESH
    assert hx.table(str(path)).indexes_being_built() == []
    assert not Path(path, "_hindex", BUILDS).exists()


def test_an_index_that_is_rebuilt_serves_and_is_shown(path: Path, hx: LocalConnection) -> None:
    table = hx.table(str(path))
    table.create_index("i", "a")
    table.create_index("j", "s")
    watcher = Watcher(path)
    LocalConnection(progress=watcher).table(str(path)).rebuild_index("i")
    assert watcher.states == [[IndexState.BUILDING, IndexState.FRESH]] * 3
    assert [seen["j"] for seen in watcher.seen] == ["fresh"] * 3
    assert [index.state for index in table.indexes()] == [IndexState.FRESH] * 2


def test_a_build_that_fails_takes_its_notice_back(path: Path) -> None:
    watcher = Watcher(path, fails=True)
    hx = LocalConnection(progress=watcher)
    with pytest.raises(BuildError, match="no luck"):
        hx.table(str(path)).create_index("i", "a")
    assert len(watcher.seen) == 1
    assert hx.table(str(path)).indexes_being_built() == []


def test_a_killed_builder_is_not_building(path: Path, hx: LocalConnection) -> None:
    table = hx.table(str(path))
    table.create_index("i", "a")
    store = Store.for_table(table.uri)
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    this = Builder.this()
    left = Path(store.root, BUILDS, notice_name(Builder(this.host, int(ended.stdout), 1)))
    # the process number is in use again, by this process, which began at another time
    reused = Path(store.root, BUILDS, notice_name(Builder(this.host, os.getpid(), this.began + 1)))
    elsewhere = Path(store.root, BUILDS, notice_name(Builder("another.host", 1, 1)))
    with store.register_build(table.snapshot().manifest.indexes):
        (mine,) = Path(store.root, BUILDS).iterdir()
        notice = mine.read_bytes()
        assert table.index("i").state is IndexState.BUILDING
        assert [index.state for index in table.indexes()] == [IndexState.BUILDING]
        assert [item.kind for item in store.garbage()] == []
    left.parent.mkdir()
    left.write_bytes(notice)
    reused.write_bytes(notice)
    assert [index.state for index in table.indexes()] == [IndexState.FRESH]
    elsewhere.write_bytes(notice)
    # of another host nobody knows: it is told whose it is
    (index,) = table.indexes()
    assert index.status.endswith("by process 1 on another.host")
    result = table.vacuum(retain_hours=0, dry_run=True)
    assert {Path(item.path).name for item in result.files} == {left.name, reused.name, elsewhere.name}
    assert {item.reason for item in result.files} == {GarbageKind.BUILD.value}
    table.vacuum(retain_hours=1)
    assert elsewhere.exists()
    table.vacuum(retain_hours=0)
    assert not left.parent.exists()


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_notice_that_cannot_be_read_is_none(path: Path, hx: LocalConnection, damage: bytes | None) -> None:
    table = hx.table(str(path))
    table.create_index("i", "a")
    place = Path(Store.for_table(table.uri).root, BUILDS, notice_name(Builder("another.host", 1, 1)))
    place.parent.mkdir()
    place.mkdir() if damage is None else place.write_bytes(damage)
    (index,) = table.indexes()
    assert isinstance(index, Index)
    assert index.state is IndexState.FRESH


class FullDisk(io.FileIO):
    """A file that has room for some bytes."""

    room = 0

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("room", [0, 100, 1 << 40])
@pytest.mark.parametrize("using", ["bitmap", "btree", "bloom", "minmax"])
def test_build_on_full_disk_leaves_nothing(
    path: Path, hx: LocalConnection, monkeypatch: pytest.MonkeyPatch, using: str, room: int
) -> None:
    """The disk is full when a page is written, when buffered bytes are, or when the file is made durable."""
    real_open, real_fsync = Path.open, os.fsync

    def open_(self: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if self.suffix == ".hidx" and mode == "xb":
            return io.BufferedWriter(FullDisk(self, "xb"))
        return real_open(self, mode, *arguments, **options)

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().suffix == ".hidx":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real_fsync(descriptor)

    table = hx.table(str(path))
    with monkeypatch.context() as patch:
        patch.setattr(FullDisk, "room", room)
        patch.setattr(Path, "open", open_)
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(
            BuildError, match=r"Index file '.*\.hidx' cannot be written: No space left on device; make room"
        ):
            table.create_index("i", "a", using)
    assert list(path.rglob("*.hidx")) == []
    assert table.indexes() == []
    assert table.create_index("i", "a", using).state is IndexState.FRESH


@pytest.mark.parametrize("how", ["drop", "replace"])
def test_created_index_is_that_of_its_commit(
    path: Path, hx: LocalConnection, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Another writer drops the index, or puts one of its name in its place, before the statement ends."""
    real = Table._save_definitions

    def after_commit(self: Table, *arguments: Any) -> None:
        real(self, *arguments)
        if self is table:
            other = LocalConnection().table(str(path))
            other.drop_index("i")
            if how == "replace":
                other.create_index("i", "s", "bloom")

    table = hx.table(str(path))
    monkeypatch.setattr(Table, "_save_definitions", after_commit)
    index = table.create_index("i", "a")
    assert (index.name, index.column, index.type, index.state) == ("i", "a", "BITMAP", IndexState.FRESH)
    assert [item.column for item in table.indexes()] == ([] if how == "drop" else ["s"])
