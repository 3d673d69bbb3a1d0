"""Locations of stores, their owners, and names that would leave them."""

from __future__ import annotations

import shutil
from collections.abc import Hashable
from pathlib import Path

import pytest

from hindex.errors import (
    StoreError,
)
from hindex.store.manifest import (
    FileEntry,
    drop_index,
    merge_build_result,
    new_index_id,
)
from hindex.store.storage import StoredFile
from hindex.store.store import Store, list_stores, shared_name
from tests.store.changes import adding, index, latest, names, put_index_file
from tests.support.messages import raises


def test_the_place_beside_the_data(tmp_path: Path, table: Path) -> None:
    (table / "one.orc").touch()
    (tmp_path / "link").symlink_to(table)
    for spelling in (str(table), f"{table}/", f"file:{table}", str(tmp_path / "link")):
        store = Store.for_table(spelling)
        assert (store.root, store.table_uri) == (f"{table}/_hindex", str(table))
    assert Store.for_table(f"{table}/one.orc").root == f"{table}/_hindex/files/one.orc"
    assert list(table.iterdir()) == [table / "one.orc"]


def test_the_place_in_a_shared_store(tmp_path: Path, table: Path) -> None:
    shared = tmp_path / "shared"
    store = Store.for_table(str(table), str(shared))
    assert Path(store.root).parent == shared
    assert Path(store.root).name.startswith("t-")
    assert Store.for_table(f"{table}/", f"file:{shared}/").root == store.root
    other = Store.for_table("s3a://bucket/t/", str(shared))
    assert other.table_uri == "s3://bucket/t"
    assert Path(other.root).name.startswith("t-")
    assert other.root != store.root
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
    with raises(StoreError):
        Store.for_table("s3://b/t?region=eu-west-1")


def test_places_that_cannot_hold_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write to the store .*Not a directory"):
        Store(str(tmp_path / "file"), "/t").commit(adding("a"))
    with pytest.raises(StoreError, match="cannot create"):
        Store(str(tmp_path / "file"), "/t").prepare_index_directory(new_index_id())


def test_a_moved_table_keeps_its_indexes(store: Store, table: Path) -> None:
    store.commit(adding("a"))
    moved = table.rename(table.with_name("moved"))
    loaded = Store.for_table(str(moved)).load()
    assert loaded is not None
    assert loaded.table_uri == str(moved)
    assert loaded.find_index("a") is not None


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


@pytest.mark.parametrize("step", range(7))
def test_what_is_committed_while_garbage_is_listed_is_none(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Another writer finishes a build before any of the steps: each listing of a directory, and of the manifests."""
    steps = iter(range(step))
    entry = index("a")
    new_files: list[str] = []

    def write() -> None:
        if next(steps, None) is None and not new_files:
            other = Store(store.root, store.table_uri)
            file = put_index_file(other, entry)
            new_files.append(file.path)
            data_file = FileEntry("x.orc", 1, 2, 3, 4, (4,), "struct<a:int>", (file,))
            other.commit(lambda old: merge_build_result(old, new_indexes=[entry], files=[data_file]))

    store.commit(adding("b"))
    storage = store._storage
    files, listed = storage.files, storage.names

    def files_after(directory: str) -> list[StoredFile]:
        write()
        return list(files(directory))

    def names_after(directory: str) -> dict[str, Hashable | None]:
        write()
        return listed(directory)

    monkeypatch.setattr(storage, "files", files_after)
    monkeypatch.setattr(storage, "names", names_after)
    garbage = {item.path for item in store.garbage()}
    assert len(new_files) == (step < 6)
    assert garbage.isdisjoint(new_files)


def test_directories_of_indexes(store: Store) -> None:
    entry = index("a")
    assert store.index_directory(entry.id) == f"data/{entry.id}"
    for wrong in ("", "../../../x", "A" * 32):
        with raises(ValueError):
            store.index_directory(wrong)


def test_links_do_not_leave_the_store(store: Store, tmp_path: Path) -> None:
    file = put_index_file(store, index("a"))
    assert store.absolute(file.path) == f"{store.root}/{file.path}"
    (tmp_path / "secret").write_bytes(b"12345")
    Path(store.root, file.path).unlink()
    Path(store.root, file.path).symlink_to(tmp_path / "secret")
    with raises(StoreError):
        store.absolute(file.path)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "data/../../x", "a\0b"])
def test_names_do_not_leave_the_store(store: Store, path: str) -> None:
    with raises(StoreError):
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
    # a backup is not another store of its table
    shutil.copytree(shared / shared_name("/elsewhere"), shared / "backup")
    stores = list_stores(str(shared))
    assert [item.table_uri for item in stores] == sorted([str(table), "s3://b/t", "/elsewhere"])
    assert all(names(item) == ["a"] for item in stores)
