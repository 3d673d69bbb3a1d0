"""VACUUM INDEXES removes what nothing needs, and nothing else."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from hindex.api.table import IndexSpec, Table
from hindex.errors import IndexNotFoundError, StoreError
from hindex.lru_cache import LruCache
from hindex.maintain.results import VacuumResult
from hindex.store import entries, store
from hindex.store.local import LocalStorage
from hindex.store.store import Store
from hindex.table.partitions import CatalogPartitions, PartitionLocation
from tests.maintain.conftest import add_file
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import store_state

HOUR = 3600


@pytest.fixture
def table(path: Path, hx: LocalConnection) -> Table:
    return hx.table(str(path))


@pytest.fixture
def root(table: Table) -> Path:
    return Path(Store.for_table(table.uri).root)


def age(root: Path, hours: float) -> None:
    """Make every file of the store that much older."""
    for file in root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            then = file.stat().st_mtime - hours * HOUR
            os.utime(file, (then, then))


def removed(result: VacuumResult) -> list[str]:
    return [item.path for item in result.files]


def test_a_dropped_index_after_the_retention(table: Table, root: Path) -> None:
    table.create_indexes([IndexSpec("i", "a"), IndexSpec("j", "s")])
    gone = [file.path for entry in table.snapshot().manifest.files for file in entry.index_files[:1]]
    first = table.snapshot().manifest.indexes
    name = next(entry.name for entry in first if entry.id in gone[0])
    age(root, 100)
    table.drop_index(name)
    live = table.snapshot().manifest.file_paths()
    # the state before the drop ended just now: who reads it finds its files
    assert removed(table.vacuum(retain_hours=50)) == []
    age(root, 100)
    assert removed(table.vacuum(retain_hours=250)) == []
    dry = table.vacuum(retain_hours=50, dry_run=True)
    assert removed(dry) == sorted([*gone, "manifests/00000000000000000001.manifest"])
    assert dry.bytes == sum((root / item).stat().st_size for item in removed(dry))
    result = table.vacuum(retain_hours=50)
    assert removed(result) == removed(dry)
    assert not any((root / item).exists() for item in removed(result))
    assert all((root / item).exists() for item in live)
    assert not (root / "data" / Path(gone[0]).parent.name).exists()
    assert table.index({"i": "j", "j": "i"}[name]).status == "fresh"
    assert [item.problems for item in table.check_indexes(verify=True)] == [()]
    assert removed(table.vacuum(retain_hours=0)) == []


def test_leftovers_of_failed_builds_and_commits(table: Table, root: Path) -> None:
    table.create_index("i", "a")
    (entry,) = table.snapshot().manifest.indexes
    orphan = root / "data" / entry.id / "left.hidx"
    other = root / "data" / ("0" * 32) / "left.hidx"
    temporary = root / "manifests" / ".tmp-1-x"
    foreign = [
        root / "data" / "README",
        root / "data" / "mine" / "x.hidx",
        root / "notes",
        root / "manifests" / "x",
    ]
    other.parent.mkdir()
    foreign[1].parent.mkdir()
    for file in (orphan, other, temporary, *foreign):
        file.write_bytes(b"12345")
    # they are young: a build that is under way may need them
    assert (removed(table.vacuum()), table.vacuum().kept_young) == ([], 3)
    age(root, 169)
    before = store_state(table)
    result = table.vacuum()
    paths = sorted(str(file.relative_to(root)) for file in (orphan, other, temporary))
    assert (removed(result), result.bytes) == (paths, 15)
    assert not other.parent.exists()
    # nothing else is touched
    after = store_state(table)
    assert after == {name: data for name, data in before.items() if name not in paths}
    assert all(file.exists() for file in foreign)


def test_superseded_manifests(table: Table, root: Path) -> None:
    table.create_index("i", "a")
    for _ in range(3):
        table.index("i").rebuild()
        age(root, 10)
    # numbers 1 to 4 were written 40 (with the first rebuild), 30, 20, 10 hours ago, superseded at the next
    numbers = [int(path.stem) for path in sorted((root / "manifests").iterdir())]
    assert numbers == [1, 2, 3, 4]
    result = table.vacuum(retain_hours=15)
    assert [item for item in removed(result) if "manifest" in item] == [
        f"manifests/{number:020}.manifest" for number in (1, 2)
    ]
    # what is kept is whole
    store = Store.for_table(table.uri)
    for number in (3, 4):
        manifest = store._read(number)
        assert manifest is not None
        assert all((root / item).exists() for item in manifest.file_paths())
    result = table.vacuum(retain_hours=0)
    assert [item.reason for item in result.files].count("superseded manifest") == 1
    assert table.index("i").status == "fresh"
    assert table.check_indexes(verify=True)[0].ok


def test_a_fresh_manifest_keeps_its_number_taken(table: Table, root: Path) -> None:
    """A commit under way has read one as the latest: its number must not become free below a higher one."""
    table.create_index("i", "a")
    table.index("i").rebuild()
    assert all("manifest" not in item for item in removed(table.vacuum(retain_hours=0)))
    age(root, 2)
    assert [item for item in removed(table.vacuum(retain_hours=0)) if "manifest" in item]


def test_manifests_that_are_kept_for_their_numbers_alone(
    path: Path, root: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their segments are gone: a retention that reaches further back does not ask for these."""
    monkeypatch.setattr(entries, "SEGMENT_FILES", 1)
    table.create_index("i", "a")
    for _ in range(2):
        table.index("i").rebuild()
    assert [item.reason for item in table.vacuum(retain_hours=0).files].count(
        "segment that no retained manifest names"
    ) == 6
    assert len(list((root / "manifests").iterdir())) == 3
    monkeypatch.setattr(store, "RECENT", LruCache(1 << 15))
    other = LocalConnection().table(str(path))
    before = store_state(other)
    for hours in (168, 0.5):
        assert not removed(other.vacuum(retain_hours=hours))
    assert store_state(other) == before
    assert other.check_indexes(verify=True)[0].ok
    # one that is there, and cannot be read, is another matter
    kept = sorted((root / "segments").iterdir())
    monkeypatch.setattr(LocalStorage, "read_all", failing_read)
    monkeypatch.setattr(store, "RECENT", LruCache(1 << 15))
    with pytest.raises(StoreError, match="cannot read a segment of a manifest in "):
        LocalConnection().table(str(path)).vacuum()
    assert sorted((root / "segments").iterdir()) == kept


def failing_read(storage: LocalStorage, paths: list[str], limit: int) -> list[bytes]:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_links_are_not_followed(table: Table, root: Path, tmp_path: Path) -> None:
    table.create_index("i", "a")
    (entry,) = table.snapshot().manifest.indexes
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.hidx").write_bytes(b"1")
    (root / "data" / ("f" * 32)).symlink_to(outside)
    link = root / "data" / entry.id / "link.hidx"
    link.symlink_to(outside / "precious.hidx")
    then = time.time() - 200 * HOUR
    os.utime(link, (then, then), follow_symlinks=False)
    assert removed(table.vacuum()) == [f"data/{entry.id}/link.hidx"]
    assert not link.is_symlink()
    assert (outside / "precious.hidx").exists()


def test_a_store_whose_data_is_a_link(table: Table, root: Path, tmp_path: Path) -> None:
    table.create_index("i", "a")
    outside = tmp_path / "outside"
    (root / "data").rename(outside)
    (root / "data").symlink_to(outside)
    with raises(StoreError):
        table.vacuum(retain_hours=0)
    assert list(outside.rglob("*.hidx"))


def test_a_table_without_a_store(table: Table) -> None:
    result = table.vacuum()
    assert (removed(result), result.bytes, result.removed_store) == ([], 0, False)
    with raises(ValueError):
        table.vacuum(retain_hours=-1)


def test_what_cannot_be_deleted(
    table: Table, root: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    table.create_index("i", "a")
    add_file(path / "p=1" / "new.orc", 11_000)
    table.index("i").rebuild()

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(
            StoreError, match=r"cannot delete .*Permission denied; grant access there and run VACUUM"
        ):
            table.vacuum(retain_hours=0)
    assert table.check_indexes(verify=True)[0].ok


def test_a_table_whose_partitions_are_all_elsewhere(path: Path, hx: LocalConnection, tmp_path: Path) -> None:
    """It is there as long as its catalog has it, though its own directory is not."""
    places = CatalogPartitions(frozenset(), (PartitionLocation("p=1", str(path / "p=1")),))
    uri = str(tmp_path / "moved")
    store = Store.for_table(uri, str(tmp_path / "store"))
    table = Table(hx, "moved", uri, store, partitions=lambda: places)
    table.create_index("i", "a")
    before = store_state_of(store)
    for hours in (0.0, 168.0):
        assert not table.vacuum(retain_hours=hours).removed_store
    assert store_state_of(store) == before
    assert table.scan("a = 3").explain().exact
    with raises(IndexNotFoundError):
        table.drop_index("j")
    places = CatalogPartitions(frozenset())
    assert table.vacuum().removed_store


def store_state_of(store: Store) -> dict[str, bytes]:
    root = Path(store.root)
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
