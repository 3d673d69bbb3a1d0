"""Manifests that all stores of a process share once they are decoded, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hindex.lru_cache import LruCache
from hindex.store import manifest_file, store
from hindex.store.entries import Segment
from hindex.store.entry_table import EntryTable
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, Manifest
from hindex.store.store import Store

INDEX = IndexEntry("0" * 32, "i", "a", "bitmap", "int")


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    store.RECENT.clear()
    yield
    store.RECENT.clear()


def manifest(files: int, number: int = 1) -> Manifest:
    own = (IndexFileEntry(INDEX.id, f"data/{INDEX.id}/x.hidx", 10, 1),)
    entries = tuple(
        FileEntry(f"{at:05}.orc", 100, number, 1, 10, (10,), "struct<a:int>", own) for at in range(files)
    )
    return Manifest(number, "/t", 0, (INDEX,), entries)


def test_another_store_object_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Store(str(tmp_path), "/t")
    first.commit(lambda old: replace(old, indexes=(INDEX,), files=manifest(3).files))
    decoded: list[str] = []
    real = manifest_file.decode

    def counted(data: bytes, name: str, *rest: object) -> Manifest:
        decoded.append(name)
        return real(data, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "decode", counted)
    loaded = [Store(str(tmp_path), "/t").load() for _ in range(3)]
    assert [item.entries[2].path for item in loaded if item] == ["00002.orc"] * 3
    assert len(decoded) == 1
    # entries that one decoded are there for all
    assert len({id(item.entries.segments[0]) for item in loaded if item}) == 1
    # another table's URI is put in without being decoded again, and a newer manifest is a new one
    assert [item.table_uri for item in [Store(str(tmp_path), "/u").load()] if item] == ["/u"]
    first.commit(lambda old: replace(old, files=manifest(2).files))
    assert [len(item.files) for item in [Store(str(tmp_path), "/t").load()] if item] == [2]
    assert len(decoded) == 2


def test_a_manifest_written_again_is_read_again(tmp_path: Path) -> None:
    """As when a store is deleted and built anew: the number is the same, the file is another."""
    for files in (3, 1):
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        entries = manifest(files).files

        def fill(old: Manifest, entries: Sequence[FileEntry] = entries) -> Manifest:
            return replace(old, indexes=(INDEX,), files=entries)

        Store(str(tmp_path), "/t").commit(fill)
        loaded = Store(str(tmp_path), "/t").load()
        assert loaded is not None
        assert (loaded.number, len(loaded.files)) == (1, files)


def test_open_store_reads_a_manifest_that_was_written_again(tmp_path: Path) -> None:
    """A store object that has the manifest of the deleted store notices the other file of the same number."""
    opened = Store(str(tmp_path), "/t")
    for files in (3, 1):
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        entries = manifest(files).files

        def fill(old: Manifest, entries: Sequence[FileEntry] = entries) -> Manifest:
            return replace(old, indexes=(INDEX,), files=entries)

        Store(str(tmp_path), "/t").commit(fill)
        for _ in range(2):
            loaded = opened.load()
            assert loaded is not None
            assert (loaded.number, [entry.path for entry in loaded.files]) == (
                1,
                [entry.path for entry in entries],
            )


def test_bounds() -> None:
    kept: LruCache[int, Manifest] = LruCache(10, 3)
    for number, files in enumerate((4, 4, 2), 1):
        kept.put(number, manifest(files, number), files)
    assert kept.get(1) is not None
    kept.put(4, manifest(1, 4), 1)
    # the one used longest ago went, for being a fourth
    assert [number for number in range(1, 5) if kept.get(number)] == [1, 3, 4]
    kept.put(5, manifest(9, 5), 9)
    assert [number for number in range(1, 6) if kept.get(number)] == [4, 5]
    kept.put(6, manifest(11, 6), 11)
    assert [number for number in range(1, 7) if kept.get(number)] == [4, 5]
    kept.put(5, manifest(2, 7), 2)
    kept.put(7, manifest(7, 8), 7)
    assert [number for number in range(1, 8) if kept.get(number)] == [4, 5, 7]
    assert len(kept) == 3


def test_one_manifest_of_a_store_is_kept_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RECENT", LruCache(4))
    for files in (3, 4, 5):

        def fill(old: Manifest, files: int = files) -> Manifest:
            return replace(old, indexes=(INDEX,), files=manifest(files).files)

        Store(str(tmp_path), "/t").commit(fill)
        assert Store(str(tmp_path), "/t").load() is not None
        # one that exceeds the bound is not kept in any way
        kept = files if files <= 4 else 0
        assert (len(store.RECENT), store.RECENT.weight) == (bool(kept), kept)


@pytest.mark.parametrize("ask", [lambda segment: segment.data, lambda segment: segment.file_paths()])
def test_bytes_that_another_thread_lets_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Segment], object]
) -> None:
    """Threads share segments: one that decodes the entries drops the bytes while another one has just read them."""
    Store(str(tmp_path), "/t").commit(lambda old: replace(old, indexes=(INDEX,), files=manifest(2100).files))
    store.RECENT.clear()
    loaded = Store(str(tmp_path), "/t").load()
    assert loaded is not None
    segment = loaded.entries.segments[0]
    wanted = Segment.from_table(EntryTable.from_entries(segment.table.entries()))
    real = Segment.fetch

    def fetch(segments: Iterable[Segment]) -> list[bytes]:
        contents = real(segments)
        segment._data = None
        return contents

    monkeypatch.setattr(Segment, "fetch", staticmethod(fetch))
    segment._table = None
    assert ask(segment) == ask(wanted)
    assert segment.table.entries() == wanted.table.entries()
