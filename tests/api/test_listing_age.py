"""Queries that use the listing of an earlier one: what they see at once, and what after a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.api import scan
from hindex.api.table import Table
from hindex.errors import ArgumentError
from hindex.store.snapshot import forget_listings
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, write_rows
from tests.support.work import record_listings


@pytest.fixture(autouse=True)
def seconds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local_build.install(monkeypatch)
    monkeypatch.setenv(scan.LISTING_VARIABLE, "10")
    scan.listing_seconds.cache_clear()
    yield
    scan.listing_seconds.cache_clear()
    forget_listings()


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are listed meanwhile."""
    return record_listings(monkeypatch)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(3):
        write_rows(tmp_path / "t" / f"{number}.orc", number, [number])
    return tmp_path / "t"


def opened(root: Path) -> Table:
    return LocalConnection().table(str(root))


def rows(table: Table, columns: str) -> pa.Table:
    return LocalConnection().sql(f"SELECT {columns} FROM '{table.uri}'").to_arrow()  # type: ignore[union-attr]


def pass_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 11)


def test_queries_of_a_process_list_a_table_once(
    root: Path, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert ids(opened(root).scan("a >= 1")) == [1, 2]
        assert opened(root).scan().count() == 3
    assert listings == [""]
    write_rows(root / "3.orc", 3, [3])
    assert opened(root).scan().count() == 3
    pass_time(monkeypatch)
    assert opened(root).scan().count() == 4
    assert listings == ["", ""]


def test_deleted_and_replaced_files_are_noticed(root: Path, listings: list[str]) -> None:
    assert ids(opened(root).scan()) == [0, 1, 2]
    (root / "1.orc").unlink()
    assert ids(opened(root).scan()) == [0, 2]
    assert listings == ["", ""]
    write_rows(root / "2.orc", 7, [7, 8])
    assert ids(opened(root).scan("a >= 1")) == [7, 8]


def test_a_replaced_file_is_read_without_its_index(root: Path) -> None:
    table = opened(root)
    table.create_index("i", "a", "minmax")
    assert ids(opened(root).scan("a = 1")) == [1]
    write_rows(root / "1.orc", 9, [1, 1])
    assert ids(opened(root).scan("a = 1")) == [9, 10]


def test_indexes_are_used_and_brought_up_to_date_at_once(root: Path, listings: list[str]) -> None:
    assert len(opened(root).scan("a = 1").plan().tasks) == 3
    opened(root).create_index("i", "a", "minmax")
    assert len(opened(root).scan("a = 1").plan().tasks) == 1
    write_rows(root / "3.orc", 3, [1])
    opened(root).refresh_indexes()
    # an entry of a file that the listing lacks: it was added since
    assert ids(opened(root).scan("a = 1")) == [1, 3]
    assert opened(root).index("i").num_files == 4


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.scan().explain().files.total,
        lambda table: table.scan().count(),
        lambda table: table.dataset().to_table().num_rows,
        lambda table: rows(table, "count(*) AS n")["n"][0].as_py(),
        lambda table: rows(table, "id").num_rows,
    ],
)
def test_every_reader_notices_a_deleted_file(root: Path, run: Callable[[Table], int]) -> None:
    assert opened(root).scan().count() == 3
    (root / "1.orc").unlink()
    # another connection, which does not know the schema
    assert run(opened(root)) == 2


def test_a_newer_manifest_needs_a_newer_listing(root: Path, listings: list[str]) -> None:
    table = opened(root)
    table.create_index("i", "a", "minmax")
    assert ids(table.scan("a = 1")) == [1]
    write_rows(root / "1.orc", 1, [1, 1])
    table.refresh_indexes()
    assert ids(table.scan("a = 1", mode="strict")) == [1, 2]
    (root / "2.orc").unlink()
    assert ids(opened(root).scan("a = 1")) == [1, 2]
    listings.clear()
    # a recorded file that is gone is no reason to list again
    assert ids(opened(root).scan("a = 1")) == [1, 2]
    assert listings == []


def test_large_tables_are_listed_once_too(
    root: Path, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    table = opened(root)
    for _ in range(3):
        assert ids(table.scan("a = 1")) == [1]
    assert listings == [""]


@pytest.mark.parametrize("value", ["-1", "61", "nan", "soon"])
def test_other_values_are_refused(root: Path, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scan.LISTING_VARIABLE, value)
    scan.listing_seconds.cache_clear()
    with raises(ArgumentError):
        opened(root).scan()
