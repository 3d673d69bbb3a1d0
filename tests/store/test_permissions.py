"""Mode and group of what a store writes: those of the data within a table, the umask's elsewhere."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from hindex.store.local import LocalStorage
from hindex.store.store import Store
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_rows

pytestmark = pytest.mark.usefixtures("local_builds")

GROUP = 4242
BUILDS = [
    "CREATE INDEX one ON {0} (a) USING bitmap",
    "CREATE INDEX two ON {0} (a) USING btree",
    "CREATE INDEX three ON {0} (id) USING minmax",
]


@pytest.fixture
def local_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)


def modes(root: Path) -> dict[str, set[tuple[int, int]]]:
    """Return the modes and groups of a store's directories, and of its files by the ending of their names."""
    found: dict[str, set[tuple[int, int]]] = {}
    for path in (root, *root.rglob("*")):
        status = path.stat()
        found.setdefault("directory" if path.is_dir() else path.suffix, set()).add(
            (stat.S_IMODE(status.st_mode), status.st_gid)
        )
    return found


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file another group")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
@pytest.mark.parametrize("single", [False, True])
def test_store_in_a_table_takes_mode_and_group_of_the_data(tmp_path: Path, umask: int, single: bool) -> None:
    table = tmp_path / "t"
    write_rows(table / "one.orc", 0, [i % 10 for i in range(2500)])
    for path, mode in ((table, 0o2750), (table / "one.orc", 0o640)):
        os.chown(path, -1, GROUP)
        path.chmod(mode)
    target = table / "one.orc" if single else table
    before = os.umask(umask)
    try:
        hx = LocalConnection()
        for text in BUILDS:
            hx.sql(text.format(f"'{target}'"))
    finally:
        os.umask(before)
    assert modes(table / "_hindex") == {
        "directory": {(0o2750, GROUP)},
        ".hidx": {(0o640, GROUP)},
        ".manifest": {(0o640, GROUP)},
    }
    scan = hx.table(str(target)).scan("a = 3")
    assert ids(scan) == list(range(3, 2500, 10))
    assert "one" in str(scan.explain())


def test_files_differ_as_their_data_does(tmp_path: Path) -> None:
    """An index file has the mode of its data file, the others no more than a data file and the directory allow."""
    table = tmp_path / "t"
    table.mkdir(mode=0o755)
    for name, mode in (("p=1", 0o600), ("p=2", 0o644)):
        write_rows(table / name / "a.orc", 0, [1, 2, 3])
        (table / name / "a.orc").chmod(mode)
    hx = LocalConnection()
    hx.sql(f"CREATE INDEX one ON '{table}' (a) USING bitmap")
    indexed = hx.table(str(table))
    index_modes = {}
    for entry in indexed.snapshot().manifest.files:
        (file,) = entry.index_files
        path = Path(Store.for_table(indexed.uri).absolute(file.path))
        index_modes[entry.path] = stat.S_IMODE(path.stat().st_mode)
    assert index_modes == {"p=1/a.orc": 0o600, "p=2/a.orc": 0o644}
    store = modes(table / "_hindex")
    assert {mode for mode, _ in store[".manifest"]} <= {0o600, 0o644}


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_store_elsewhere_follows_the_umask(tmp_path: Path, umask: int) -> None:
    table = tmp_path / "t"
    write_rows(table / "one.orc", 0, [1, 2, 3])
    (table / "one.orc").chmod(0o640)
    before = os.umask(umask)
    try:
        hx = LocalConnection(str(tmp_path / "stores"))
        hx.sql(f"CREATE INDEX one ON '{table}' (a) USING bitmap")
    finally:
        os.umask(before)
    store = modes(tmp_path / "stores")
    assert {mode for mode, _ in store["directory"]} == {0o777 & ~umask}
    assert {mode for mode, _ in store[".hidx"] | store[".manifest"]} == {0o666 & ~umask}


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file another group")
def test_group_that_cannot_be_set_admits_nobody_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = tmp_path / "t"
    table.mkdir()
    (table / "one.orc").write_bytes(b"x")
    (table / "one.orc").chmod(0o664)
    table.chmod(0o770)
    for path in (table, table / "one.orc"):
        os.chown(path, -1, GROUP)

    def refuse(path: object, uid: int, gid: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    with caplog.at_level(logging.WARNING, "hindex"):
        storage = LocalStorage(str(table / "_hindex"))
        storage.write({"builds/a": b"1", "builds/b": b"2"})
    monkeypatch.undo()
    assert {mode for mode, _ in modes(table / "_hindex")["directory"]} == {0o700}
    assert {mode for mode, _ in modes(table / "_hindex")[""]} == {0o600}
    assert len([record for record in caplog.records if "group" in record.getMessage()]) == 1
