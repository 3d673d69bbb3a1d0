"""The directories that statements list."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindex.api import scan
from hindex.errors import ColumnError
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_rows
from tests.support.work import record_listings


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories that are listed meanwhile."""
    monkeypatch.setattr(scan, "MANY_FILES", 0)
    return record_listings(monkeypatch)


def test_later_statements_list_once_and_the_wanted_partitions_only(tmp_path: Path, listed: list[str]) -> None:
    root = tmp_path / "t"
    for number in range(3):
        write_rows(root / f"p={number}" / "x.orc", number, [number])
    connection = LocalConnection()

    def ids(where: str) -> list[int]:
        listed.clear()
        rows = connection.sql(f"SELECT id FROM '{root}' WHERE {where}").to_arrow()  # type: ignore[union-attr]
        return rows["id"].to_pylist()  # type: ignore[no-any-return]

    assert ids("a >= 1") == [1, 2]
    assert ids("a >= 1") == [1, 2]
    assert sorted(listed) == ["", "p=0", "p=1", "p=2"]
    assert ids("p = 1 AND a >= 0") == [1]
    assert sorted(listed) == ["", "p=1"]
    write_rows(root / "p=1" / "y.orc", 7, [7])
    assert sorted(ids("p = 1 AND a >= 0")) == [1, 7]
    assert sorted(listed) == ["", "p=1"]


def test_mistakes_are_those_of_the_current_table(tmp_path: Path, listed: list[str]) -> None:
    root = tmp_path / "t"
    write_rows(root / "p=1" / "x.orc", 0, [1])
    connection = LocalConnection()
    assert connection.sql(f"SELECT id FROM '{root}' WHERE a = 1").to_arrow().num_rows == 1  # type: ignore[union-attr]
    with raises(ColumnError):
        connection.sql(f"SELECT id FROM '{root}' WHERE q = 1")
    # a column that the table has by now
    (root / "p=1").rename(root / "q=1")
    assert connection.sql(f"SELECT id FROM '{root}' WHERE q = 1").to_arrow().num_rows == 1  # type: ignore[union-attr]
    with raises(ColumnError):
        connection.sql(f"SELECT id FROM '{root}' WHERE p = 1").to_arrow()  # type: ignore[union-attr]
