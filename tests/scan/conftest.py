"""A small table with indexes on ``a`` and ``s``, and the data files that scans open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.index.page_cache import shared_cache
from hindex.orc import OrcReader
from hindex.scan import scan_task_reader
from tests.support import local_build
from tests.support.small import ROWS, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def indexed_tens(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Row i has id i and a = i % 10, in two files of a few stripes each; made once."""
    path = tmp_path_factory.mktemp("tens") / "table"
    write_rows(path / "one.orc", 0, [i % 10 for i in range(ROWS)])
    write_rows(path / "two.orc", ROWS, [i % 10 for i in range(ROWS, 2 * ROWS)])
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return path


@pytest.fixture
def path(indexed_tens: Path, tmp_path: Path) -> Path:
    """A copy of the table: mtimes are kept, and its index files are open nowhere yet."""
    return Path(shutil.copytree(indexed_tens, tmp_path / "table"))


@pytest.fixture
def table(path: Path) -> Table:
    """The copy, by a connection without Spark."""
    return hindex.connect().table(str(path))


@pytest.fixture
def bare(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The same table without indexes."""
    return hindex.connect(store=str(tmp_path_factory.mktemp("none"))).table(path)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[OrcReader]:
    """The data files that scans open meanwhile."""
    readers: list[OrcReader] = []

    def open_reader(source: str, timezone: str | None = None) -> OrcReader:
        readers.append(OrcReader(source, timezone=timezone))
        return readers[-1]

    monkeypatch.setattr(scan_task_reader, "OrcReader", open_reader)
    return readers


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Builds run in this process, and no index file is open from another test."""
    local_build.install(monkeypatch)
    shared_cache().clear()
    yield
    shared_cache().clear()
