"""Modes of scans: strict takes what falls back for an error, and no rows take nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, FallbackError, HindexError, PredicateError
from hindex.explanations.explanation import ReadPath
from hindex.plan.modes import Mode
from hindex.plan.reasons import Reason
from hindex.scan import shared_index_pruning
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.spark.tasks import group_tasks, read_group
from tests.scan.wrong_indexes import (
    KNOWN,
    ROWS,
    TOLD,
    change_a_file,
    damage_pages,
    indexed_table,
    remove_index_files,
)
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, reasons, write_columns, write_rows
from tests.support.work import forget


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    return indexed_table(connection, tmp_path / "t")


ASKED: list[Callable[[Scan], object]] = [
    lambda scan: scan.to_arrow(),
    lambda scan: list(scan.to_batches()),
    lambda scan: scan.count(),
    lambda scan: scan.exists(),
    lambda scan: scan.min("a"),
    lambda scan: scan.value_counts("a"),
    lambda scan: scan.order_by("a").to_arrow(),
]


def test_strict_lets_pass_what_indexes_answer(table: Table) -> None:
    for ask in ASKED:
        assert ask(table.scan("a = 3 AND s <> 's4'", mode="strict")) is not None
    assert table.scan(mode="strict").count() == 2 * ROWS
    assert ids(table.scan("a = 77", mode="strict")) == []


CHANGES = pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(remove_index_files, Reason.INDEX_MISSING, id="missing"),
        pytest.param(change_a_file, Reason.STALE_FILE, id="stale"),
        pytest.param(damage_pages, Reason.CORRUPT, id="corrupt"),
    ],
)


@CHANGES
def test_strict_refuses_to_read(table: Table, change: Callable[[Table], None], reason: Reason) -> None:
    change(table)
    for ask in ASKED:
        scan = table.scan("a = 3", mode="strict")
        with pytest.raises(FallbackError, match=rf"{reason.name}: .*{reason.sentence}"):
            ask(scan)
    # an explanation is what tells why
    assert reason in reasons_of(table.scan("a = 3", mode="strict"))
    assert table.scan("a = 3").count() > 0


@CHANGES
def test_executors_refuse_what_changes_after_the_plan(
    table: Table, change: Callable[[Table], None], reason: Reason
) -> None:
    (group,) = group_tasks(table.scan("a = 3", mode="strict").plan(), 1)
    forget()
    change(table)
    with pytest.raises(FallbackError, match=reason.name):
        list(read_group(group, mode=Mode.STRICT))
    assert sum(batch.num_rows for batch in read_group(group)) > 0


def reasons_of(scan: Scan) -> set[Reason]:
    return {note.reason for note in scan.explain().notes}


def test_strict_names_columns_without_an_index(table: Table) -> None:
    with raises(FallbackError):
        table.scan("a = 3 AND id > 5", mode="strict").count()
    with raises(FallbackError):
        table.scan(mode="strict").min("id")


def test_strict_takes_an_index_for_each_partition(connection: LocalConnection, tmp_path: Path) -> None:
    for p in (1, 2):
        write_rows(tmp_path / "parts" / f"p={p}" / "x.orc", 100 * p, [i % 10 for i in range(100)])
    table = connection.table(str(tmp_path / "parts"))
    table.create_index("one", "a", where="p = 1")
    table.create_index("ends", "a", "minmax")
    strict = table.scan("a = 3", mode="strict")
    # MINMAX leaves open what the index of the other partition would not
    assert reasons(table.scan("a = 3")) == {Reason.PARTITION_NOT_INDEXED: ["one on p=2/x.orc"]}
    with raises(FallbackError):
        strict.count()
    table.create_index("two", "a", where="p = 2")
    assert reasons(table.scan("a = 3")) == {}
    assert ids(strict) == [i for i in range(100, 300) if i % 10 == 3]
    assert table.scan("a = 3").explain().exact
    # of a file that came later, that is what is told
    write_rows(tmp_path / "parts" / "p=2" / "y.orc", 300, [3])
    assert reasons(table.scan("a = 3")) == {Reason.NEW_FILE: ["p=2/y.orc"]}


def test_strict_takes_an_index_file_for_each_file_beside_one_without_the_column(
    connection: LocalConnection, tmp_path: Path
) -> None:
    """A file that lacks the column needs no index file, and does not stand for those that have it."""
    for number in range(2):
        write_rows(tmp_path / f"{number}.orc", 10 * number, [3, 4])
    write_columns(tmp_path / "9.orc", {"id": pa.array([90])})
    table = connection.table(str(tmp_path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_id", "id")])
    assert ids(table.scan("a = 3", mode="strict")) == [0, 10]
    write_rows(tmp_path / "5.orc", 50, [3, 4])
    table.index("by_id").refresh()
    assert reasons(table.scan("a = 3")) == {Reason.NOT_BUILT: ["by_a on 5.orc"]}
    with pytest.raises(FallbackError, match="NOT_BUILT"):
        table.scan("a = 3", mode="strict").to_arrow()
    assert ids(table.scan("a = 3")) == [0, 10, 50]


def test_filters_are_not_taken_for_ranges(connection: LocalConnection, tmp_path: Path) -> None:
    for p in (1, 2):
        write_rows(tmp_path / "parts" / f"p={p}" / "x.orc", 100 * p, [i % 10 for i in range(100)])
    table = connection.table(str(tmp_path / "parts"))
    table.create_index("members", "a", "bloom")
    table.create_index("ends", "a", "minmax", where="p = 1")
    assert reasons(table.scan("a > 3")) == {Reason.PARTITION_NOT_INDEXED: ["ends on p=2/x.orc"]}
    with raises(FallbackError):
        table.scan("a > 3", mode="strict").count()


def test_an_index_file_of_a_partition_that_it_no_longer_covers(
    connection: LocalConnection, tmp_path: Path
) -> None:
    """A text that is no number makes texts of the partitions' values, and '01' is not '1'."""
    path = tmp_path / "parts"
    write_rows(path / "p=01" / "x.orc", 0, [i % 10 for i in range(100)])
    connection.table(str(path)).create_index("one", "a", where="p = '1'")
    write_rows(path / "p=abc" / "x.orc", 100, [3])
    table = connection.table(str(path))
    where = "a = 3 AND p = '01'"
    assert reasons(table.scan(where)) == {}
    assert ids(table.scan(where, mode="strict")) == list(range(3, 100, 10))
    # stale, and nothing else tells of it
    write_rows(path / "p=01" / "x.orc", 0, [i % 7 for i in range(150)])
    assert reasons(table.scan(where)) == {Reason.PARTITION_NOT_INDEXED: ["one on p=01/x.orc"]}
    with raises(FallbackError):
        table.scan(where, mode="strict").count()


def test_strict_is_of_the_indexes_that_are_asked(constant: Table) -> None:
    """Other conditions of the predicate do not open an index that cannot answer them."""
    remove_index_files(constant)
    constant.create_index("by_a", "a")
    for where, rows in KNOWN.items():
        forget()
        assert constant.scan(where, mode="strict").count() == rows, where


def test_strict_refuses_what_only_the_last_stripe_falls_back_to(
    connection: LocalConnection, tmp_path: Path
) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, [i % 7 for i in range(90)])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("by_a", "a")
    damage_pages(table)
    for name in ("groups", "distinct", "order"):
        forget()
        with raises(FallbackError):
            TOLD[name][0](table.scan(mode="strict"))
    assert table.scan().distinct("a").to_pylist() == list(range(7))


@pytest.mark.parametrize("mode", list(Mode))
def test_no_rows_take_nothing(table: Table, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """``LIMIT 0``: names and types are looked at; no file is opened, no index asked or missed, and nothing proved."""
    table.create_index("tree", "id", "btree")
    damage_pages(table)
    change_a_file(table)

    def opens(*_: Any) -> Any:
        raise AssertionError("a file is opened")

    whole = table.scan("s = 's1'").schema
    monkeypatch.setattr(ScanTaskReader, "__init__", opens)
    monkeypatch.setattr(shared_index_pruning, "open_btree_file", opens)
    where = "(id = 7 AND s = 's1' OR a > 3) AND a + 1 > 2"
    scan = table.scan(where, limit=0, mode=mode)
    assert scan.to_arrow().equals(whole.empty_table())
    assert list(scan.to_batches()) == []
    assert scan.order_by("a", descending=True).to_arrow().equals(whole.empty_table())
    assert (scan.count(), scan.exists(), scan.proof) == (0, False, None)
    for analyze in (False, True):
        messages = scan.explain(analyze=analyze)
        assert (messages.path, messages.notes, messages.stripes.kept) == (ReadPath.NOTHING, (), 0)
        assert "nothing: the limit is 0" in messages.to_text()
        assert "nothing: the limit is 0" in messages.to_html()
        assert messages.to_json()["limit"] == 0
    for wrong, problem in (("nosuch = 1", ColumnError), ("a = 'x'", PredicateError)):
        for ask in (Scan.to_arrow, Scan.count, Scan.exists, Scan.explain):
            with pytest.raises(problem):
                ask(table.scan(wrong, limit=0, mode=mode))


def test_modes_of_connections(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hindex.connect().mode is Mode.LENIENT
    strict = hindex.connect(mode="STRICT")
    assert strict.table(table.name).scan().mode is Mode.STRICT
    assert strict.table(table.name).scan(mode="lenient").mode is Mode.LENIENT
    with pytest.raises(FallbackError):
        strict.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 3")
    with pytest.raises(FallbackError):
        strict.sql(f"SELECT a FROM '{table.name}' WHERE id = 3")
    with raises(HindexError):
        hindex.connect(mode="sure")
