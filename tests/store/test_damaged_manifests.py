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
        patch.setattr("hindex.store.manifest_file.VERSION", VERSION + 1)
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


def test_a_short_file_takes_no_more_memory_than_its_length(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_whole(path, 1 << 30) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
