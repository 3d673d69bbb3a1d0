"""The index type of the documentation, installed as a package of its own: built and asked like any other."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hindex.api.connection import Connection
from hindex.api.table import Index, Table
from hindex.errors import ColumnError, HindexError
from hindex.index.index_type import index_type, index_type_names
from hindex.index.page_cache import shared_cache
from hindex.plan.reasons import Reason
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, write_rows

PAGE = Path(__file__).parents[2] / "docs" / "index-types.md"
WORDS = ("apple", "apricot", "banana", "cherry", "citrus", "damson", "élan", "")


def _code(language: str) -> str:
    """Return the last block of code in a language."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(blocks[-1])


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as pip leaves it: a module, and its metadata with the entry point."""
    site = tmp_path / "site"
    metadata = site / "hindex_prefix-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "hindex_prefix.py").write_text(_code("python"))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: hindex-prefix\nVersion: 1.0\n")
    group, line = _code("toml").splitlines()
    assert group == '[project.entry-points."hindex.indexes"]'
    (metadata / "entry_points.txt").write_text(f"[hindex.indexes]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def connection(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    local_build.install(monkeypatch)
    return LocalConnection()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Row i of a file has the word i // 100 mod 8 (in row groups of 100) and its number; every 50th is null."""
    for number in range(2):
        words = [f"{WORDS[i // 100 % 8]}{i}" if i % 50 else None for i in range(2000)]
        write_rows(tmp_path / "t" / f"{number}.orc", 2000 * number, [0] * 2000, words)
    return tmp_path / "t"


def _value(row: int) -> str | None:
    row %= 2000
    return f"{WORDS[row // 100 % 8]}{row}" if row % 50 else None


def test_it_is_found_by_its_name(installed: Path) -> None:
    assert index_type("Prefix").name == "PREFIX"
    assert "PREFIX" in index_type_names()
    with pytest.raises(HindexError, match=r"known types are .*MINMAX, NGRAM, PREFIX"):
        index_type("suffix")


def test_it_is_built_and_asked(connection: Connection, path: Path) -> None:
    statement = re.sub(r"'data/users' \(name\)", f"'{path}' (s)", _code("sql"))
    created = connection.sql(statement)
    assert isinstance(created, Index)
    assert (created.type, created.properties, created.status) == ("PREFIX", {"length": "2"}, "fresh")
    table = connection.table(str(path))
    for where, keep in [
        ("s LIKE 'banana2%'", lambda v: v is not None and v.startswith("banana2")),
        ("s LIKE 'c%'", lambda v: v is not None and v.startswith("c")),
        ("s > 'd'", lambda v: v is not None and v > "d"),
        ("s <> 'x'", lambda v: v is not None),
        ("s IS NULL", lambda v: v is None),
        ("s IN ('apple1', 'damson501')", lambda v: v in ("apple1", "damson501")),
        ("s = 'zebra'", lambda v: v == "zebra"),
    ]:
        scan = table.scan(where)
        expected = [row for row in range(4000) if keep(_value(row))]  # type: ignore[no-untyped-call]
        assert ids(scan) == expected, where
        tree = scan.explain().to_json()["tree"]
        (first, *_) = tree["sources"]
        assert first["index"] == "beginnings", where
        # one word in eight begins so, or two
        assert first["rows"] <= 1600 or where.endswith(("'x'", "'d'", "NULL")), where
        assert first["rows"] >= len(expected), where


def test_it_narrows_what_others_leave(connection: Connection, path: Path) -> None:
    table = connection.table(str(path))
    table.create_index("low", "s", "minmax")
    table.create_index("beginnings", "s", "prefix")
    answer = str(table.scan("s = 'cherry301'").explain())
    assert "MINMAX low, PREFIX beginnings" in answer
    assert ids(table.scan("s = 'cherry301'")) == [301, 2301]


def test_where_the_package_is_missing(
    connection: Connection, path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = connection.table(str(path))
    table.create_index("beginnings", "s", "prefix")
    shared_cache().clear()
    monkeypatch.setattr(sys, "path", [item for item in sys.path if item != str(installed)])
    scan = table.scan("s = 'cherry301'")
    assert ids(scan) == [301, 2301]
    assert set(reasons(scan)) == {Reason.UNKNOWN_INDEX_TYPE}


def test_it_refuses_what_it_does_not_support(connection: Connection, path: Path) -> None:
    table: Table = connection.table(str(path))
    with raises(ColumnError):
        table.create_index("no", "a", "prefix")
    with raises(HindexError):
        table.create_index("no", "s", "prefix", properties={"length": "0"})
