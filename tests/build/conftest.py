"""Builds that run in this process, and a table of three files for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hindex.api.table import Table
from hindex.index.page_cache import shared_cache
from tests.build.btree_sets import values
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local_build.install(monkeypatch)
    yield
    shared_cache().clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three files; row i has a = i % 700."""
    path = tmp_path / "table"
    for number in range(3):
        write_rows(path / f"f{number}.orc", number * 1000, values(number * 1000, 1000))
    return path


@pytest.fixture
def connection() -> LocalConnection:
    return LocalConnection()


@pytest.fixture
def table(path: Path, connection: LocalConnection) -> Table:
    return connection.table(str(path))
