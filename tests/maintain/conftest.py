"""A partitioned table without Spark: builds run in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows

#: Rows of each file; row i of every file has a = i % 10 and s = 's<a>'.
ROWS = 500


@pytest.fixture(autouse=True)
def _local_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)


def add_file(path: Path, first_id: int = 0, rows: int = ROWS) -> Path:
    """One more file of the table's kind, several stripes long."""
    return write_rows(path, first_id, [i % 10 for i in range(rows)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table of the partitions p = 1, 2, 3, a file each."""
    for part in (1, 2, 3):
        add_file(tmp_path / "table" / f"p={part}" / "x.orc", part * 10_000)
    return tmp_path / "table"


@pytest.fixture
def hx() -> LocalConnection:
    return LocalConnection()
