"""Small changes of a store, and what is in it then."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hindex.store.manifest import (
    IndexEntry,
    IndexFileEntry,
    Manifest,
    add_indexes,
    new_index_id,
)
from hindex.store.store import Store


def index(name: str) -> IndexEntry:
    return IndexEntry(new_index_id(), name, f"c_{name}", "bitmap", "int")


def adding(name: str) -> Callable[[Manifest], Manifest]:
    entry = index(name)
    return lambda old: add_indexes(old, [entry])


def names(store: Store) -> list[str]:
    manifest = store.load()
    return [] if manifest is None else [item.name for item in manifest.indexes]


def all_files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())


def latest(store: Store) -> Path:
    return max(Path(store.root, "manifests").glob("*.manifest"))


def put_index_file(store: Store, entry: IndexEntry, data: bytes = b"12345") -> IndexFileEntry:
    path = f"{store.index_directory(entry.id)}/{uuid.uuid4().hex}.hidx"
    store.prepare_index_directory(entry.id)
    Path(store.absolute(path)).write_bytes(data)
    return IndexFileEntry(entry.id, path, len(data), 0)


def check_race(root: str, writers: int, changes: int = 4) -> None:
    """Commit to a new store from several threads, and check that it has every change and nothing else."""

    def write(writer: int) -> None:
        store = Store(root, "/t")
        for change in range(changes):
            store.commit(adding(f"w{writer}_{change}"))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    store = Store(root, "/t")
    latest = store.load()
    assert latest is not None
    assert latest.number == writers * changes
    assert {item.name for item in latest.indexes} == {
        f"w{writer}_{change}" for writer in range(writers) for change in range(changes)
    }
    assert store.garbage() == ()
