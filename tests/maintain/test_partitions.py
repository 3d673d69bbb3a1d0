"""Indexes of some partitions: partial drops and refreshes, and that answers stay those of a full read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hindex.api.table import Table
from hindex.errors import ColumnError, IndexNotFoundError
from hindex.maintain.coverage import named_partitions
from hindex.plan.reasons import Reason
from hindex.sql import parse_predicate
from tests.maintain.conftest import ROWS, add_file
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, store_state

NULL = "p=__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def table(path: Path, hx: LocalConnection) -> Table:
    return hx.table(str(path))


def answer(path: Path) -> list[int]:
    """The ids of the rows with a = 3, from the files' names alone: each directory has one file of ROWS rows."""
    starts = {1: 10_000, 2: 20_000, 3: 30_000, 4: 40_000, None: 50_000}
    parts = [directory.name.removeprefix("p=") for directory in sorted(path.glob("p=*"))]
    numbers = [int(part) if part.isdigit() else None for part in parts]
    return sorted(starts[number] + i for number in numbers for i in range(3, ROWS, 10))


def covered(table: Table, name: str) -> list[str]:
    """The directories of the files that an index has."""
    manifest = table.snapshot().manifest
    entry = manifest.index(name)
    return [item.path.partition("/")[0] for item in manifest.files if item.is_covered_by(entry.id)]


@pytest.mark.parametrize(
    ("where", "dropped", "left", "files"),
    [
        ("p IN (1, 2, 3)", "p = 2", "p IN (1, 3)", ["p=1", "p=3"]),
        ("p IN (1, 2, 3)", "p IN (1, 3)", "p = 2", ["p=2"]),
        ("p IN (1, 2, 3)", "p = 1 OR p = 2", "p = 3", ["p=3"]),
        ("p = 1 OR p = 2 OR p IS NULL", "p = 1", "p = 2 OR p IS NULL", ["p=2", NULL]),
        ("p = 1 OR p = 2 OR p IS NULL", "p IS NULL", "p IN (1, 2)", ["p=1", "p=2"]),
        ("p = 1 OR p = 2 OR p IS NULL", "p <=> NULL", "p IN (1, 2)", ["p=1", "p=2"]),
        ("p >= 1", "p = 2", "p >= 1 AND NOT p <=> 2", ["p=1", "p=3"]),
        (
            "p IS NULL OR p > 1",
            "p IN (2, 9)",
            "(p IS NULL OR p > 1) AND NOT (p <=> 2 OR p <=> 9)",
            ["p=3", NULL],
        ),
    ],
)
def test_a_partial_drop(
    table: Table, path: Path, where: str, dropped: str, left: str, files: list[str]
) -> None:
    add_file(path / NULL / "x.orc", 50_000)
    table.create_index("i", "a", where=where)
    result = table.index("i").drop(where=dropped)
    assert (result.index, result.partitions, result.dropped) == ("i", str(parse_predicate(dropped)), True)
    index = table.index("i")
    assert (index.where, index.status) == (left, "fresh")
    assert sorted(covered(table, "i")) == sorted(files)
    scan = table.scan("a = 3")
    assert sorted(ids(scan)) == answer(path)
    # what is not covered is read
    assert reasons(scan).keys() == {Reason.PARTITION_NOT_INDEXED}
    assert scan.explain().rows is not None
    # a refresh brings nothing of it back
    assert not index.refresh().changed


def test_dropping_the_last_partition_drops_the_index(table: Table) -> None:
    table.create_index("i", "a", where="p IN (1, 2)")
    table.drop_index("i", where="p = 1")
    result = table.drop_index("i", where="p = 2")
    assert (result.partitions, result.files) == (None, 1)
    assert table.indexes() == []


def test_partial_drops_with_two_partition_columns(tmp_path: Path, hx: LocalConnection) -> None:
    path = tmp_path / "two"
    for number, part in enumerate(("p=1/q=a", "p=1/q=b", "p=2/q=a")):
        add_file(path / part / "x.orc", number * 10_000)
    table = hx.table(str(path))
    table.create_index("i", "a", where="p = 1 OR p = 2")
    table.drop_index("i", where="p = 1 AND q = 'a'")
    assert table.index("i").where == "(p = 1 OR p = 2) AND NOT (p <=> 1 AND q <=> 'a')"
    assert [item.path for item in table.snapshot().manifest.files] == ["p=1/q=b/x.orc", "p=2/q=a/x.orc"]
    assert ids(table.scan("a = 3")) == [n * 10_000 + i for n in range(3) for i in range(3, ROWS, 10)]


@pytest.mark.parametrize(
    ("dropped", "error", "message"),
    [
        (
            "p = 3",
            IndexNotFoundError,
            r"^Index 'i' does not contain partitions: p = 3; it covers p IN \(1, 2\)$",
        ),
        ("p = 1 OR p = 4", IndexNotFoundError, "does not contain partitions: p = 4;"),
        ("p = NULL", IndexNotFoundError, "does not contain partitions: p = NULL;"),
        ("p > 1", ColumnError, "takes partitions by their values"),
        ("NOT p = 1", ColumnError, "takes partitions by their values"),
        ("id = 1", ColumnError, "partial drop is only supported for predicates on partition columns: 'id'"),
        ("nope = 1", ColumnError, "Column 'nope' cannot be resolved"),
    ],
)
def test_partial_drops_that_are_refused(
    table: Table, dropped: str, error: type[Exception], message: str
) -> None:
    table.create_index("i", "a", where="p IN (1, 2)")
    before = store_state(table)
    with pytest.raises(error, match=message):
        table.drop_index("i", where=dropped)
    assert store_state(table) == before


def test_a_refresh_of_some_partitions(table: Table, path: Path, hx: LocalConnection) -> None:
    table.create_index("i", "a")
    add_file(path / "p=1" / "y.orc", 11_000)
    add_file(path / "p=4" / "x.orc", 40_000)
    hx.built_paths.clear()
    result = table.index("i").refresh(where="p = 4")
    assert hx.built_paths == ["p=4/x.orc"]
    assert (result.files_read, result.rows, result.changed) == (1, ROWS, True)
    assert table.index("i").status.startswith("stale: 1 added; 4 of 5 files indexed, 80 % of the rows")
    # a predicate of any form will do, and partitions that the table does not have are not missed
    assert table.index("i").refresh(where="p > 1 OR p = 9").changed is False
    assert table.index("i").refresh(where="p <= 1").files_read == 1
    assert table.index("i").status == "fresh"


def test_a_refresh_of_partitions_that_are_not_covered(table: Table) -> None:
    table.create_index("i", "a", where="p IN (1, 2)")
    with raises(IndexNotFoundError):
        table.index("i").refresh(where="p IN (2, 3)")
    with raises(IndexNotFoundError):
        table.index("i").refresh(where="p > 2")
    with raises(ColumnError):
        table.index("i").refresh(where="a = 2")


def test_partitions_that_come_and_go_are_followed(table: Table, path: Path) -> None:
    table.create_index("i", "a", where="p IN (1, 2, 4)")
    add_file(path / "p=4" / "x.orc", 40_000)
    add_file(path / NULL / "x.orc", 50_000)
    (path / "p=1" / "x.orc").unlink()
    (path / "p=1").rmdir()
    assert table.index("i").status == "stale: 1 added, 1 gone; 1 of 2 files indexed, 50 % of the rows"
    result = table.index("i").refresh()
    assert (result.files_read, result.files_forgotten) == (1, 1)
    assert covered(table, "i") == ["p=2", "p=4"]
    assert table.index("i").status == "fresh"
    assert sorted(ids(table.scan("a = 3"))) == answer(path)


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("p = 1", ["p = 1"]),
        ("p IN (1, 2, 1)", ["p = 1", "p = 2"]),
        ("p = 1 OR q IN ('a', 'b')", ["p = 1", "q = 'a'", "q = 'b'"]),
        ("p IN (1, 2) AND q IN ('a', 'b')", [f"p = {p} AND q = '{q}'" for p in (1, 2) for q in "ab"]),
        ("p IS NULL", ["p IS NULL"]),
        ("p > 1", None),
        ("p = 1 OR NOT q = 'a'", None),
        ("p = 1 AND q LIKE 'a%'", None),
        ("p <> 1", None),
    ],
)
def test_partitions_named_by_value(where: str, named: list[str] | None) -> None:
    partitions = named_partitions(parse_predicate(where))
    assert (None if partitions is None else list(map(str, partitions))) == named
