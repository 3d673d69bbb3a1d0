"""Manifests that are damaged, of other versions or no files, and what lies beside them."""

from __future__ import annotations

import errno
import os
import tracemalloc
from pathlib import Path

import pytest

from hindex.errors import (
    NewerFormatError,
    StoreError,
)
from hindex.store.local import read_whole
from hindex.store.manifest_file import VERSION
from hindex.store.store import Store
from tests.store.changes import adding, latest, names
from tests.support.messages import raises


@pytest.mark.parametrize("data", [b"", b"x", b"HINDEXMF" * 10])
def test_a_corrupt_manifest(store: Store, data: bytes) -> None:
    store.commit(adding("a"))
    store.commit(adding("b"))
    latest(store).write_bytes(data)
    with raises(StoreError):
        store.load()
    with raises(StoreError):
        store.commit(adding("c"))
    # the advice of the message holds
    latest(store).unlink()
    assert names(store) == ["a"]


def test_a_manifest_under_another_number(store: Store) -> None:
    store.commit(adding("a"))
    latest(store).rename(latest(store).with_name(f"{7:020d}.manifest"))
    with raises(StoreError):
        store.load()


def test_manifests_that_are_no_files(store: Store) -> None:
    store.commit(adding("a"))
    path = latest(store).with_name(f"{2:020d}.manifest")
    os.mkfifo(path)
    with raises(StoreError):
        store.load()
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreError):
        store.load()
    path.rmdir()
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)
    with raises(StoreError):
        store.load()


def test_a_manifest_of_a_newer_version(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("hindex.store.manifest_file.VERSION", VERSION + 1)
        store.commit(adding("a"))
    with raises(NewerFormatError):
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


def test_a_short_file_takes_no_more_memory_than_its_length(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_whole(path, 1 << 30) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
