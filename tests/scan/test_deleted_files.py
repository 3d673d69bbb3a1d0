"""Data files that are deleted between plan and read: the query is planned once more, and its rows are of one state."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Group
from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.errors import DeletedFileError, HindexError
from hindex.orc import OrcReader
from hindex.table.listing import list_data_files
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns, write_rows

#: Reading methods, each with its result of rows whose ids are given, in order of the files' paths.
READS: dict[str, tuple[Callable[[Scan], Any], Callable[[list[int]], Any]]] = {
    "to_arrow": (lambda scan: scan.to_arrow()["id"].to_pylist(), lambda ids: ids),
    "to_batches": (
        lambda scan: pa.Table.from_batches(list(scan.to_batches()))["id"].to_pylist(),
        lambda ids: ids,
    ),
    "to_reader": (lambda scan: scan.to_reader().read_all()["id"].to_pylist(), lambda ids: ids),
    "to_pandas": (lambda scan: scan.to_pandas()["id"].tolist(), lambda ids: ids),
    "head": (lambda scan: scan.head(3)["id"].to_pylist(), lambda ids: ids[:3]),
    "order_by": (
        lambda scan: scan.order_by("id", descending=True).to_arrow()["id"].to_pylist(),
        lambda ids: sorted(ids, reverse=True),
    ),
    "count": (lambda scan: scan.count(), len),
    "exists": (lambda scan: scan.exists(), bool),
    "max": (lambda scan: scan.max("id"), max),
    "count_distinct": (lambda scan: scan.count_distinct("id"), len),
    "distinct": (lambda scan: scan.distinct("id").to_pylist(), sorted),
    "value_counts": (lambda scan: scan.value_counts("id")["id"].to_pylist(), sorted),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(connection: LocalConnection, path: Path) -> Table:
    """Three files; ids of the rows are 0 to 29, all with a = 1."""
    for number in range(3):
        write_rows(path / f"{number}.orc", 10 * number, [1] * 10)
    table = connection.table(str(path))
    table.create_index("by_a", "a")
    return table


class Openings:
    """Runs something before data files are opened by scans, each time with the path of the file."""

    def __init__(self) -> None:
        self.before: Callable[[str], None] = lambda _: None
        self.opened: list[str] = []


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> Openings:
    result = Openings()

    def open_reader(uri: str, **options: Any) -> Any:
        name = uri.rpartition("/")[2]
        result.before(name)
        result.opened.append(name)
        return OrcReader(uri, **options)

    monkeypatch.setattr("hindex.scan.scan_task_reader.OrcReader", open_reader)
    return result


def overwrite(path: Path, first: int) -> None:
    """As INSERT OVERWRITE: the files are deleted, and others are written under other names."""
    for file in path.glob("*.orc"):
        file.unlink()
    for number in range(2):
        write_rows(path / f"new-{first}-{number}.orc", first + 10 * number, [1] * 10)


@pytest.mark.parametrize("where", ["a = 1", "id >= 0"], ids=["by index", "read"])
@pytest.mark.parametrize("kind", READS)
def test_rows_are_of_one_state(kind: str, where: str, table: Table, path: Path, openings: Openings) -> None:
    """The table is overwritten when the second of its files is about to be opened, or the first of few."""
    read, result = READS[kind]
    done: list[str] = []

    def before(name: str) -> None:
        if not done and name in ("1.orc", "2.orc"):
            done.append(name)
            overwrite(path, 100)

    openings.before = before
    rows = read(table.scan(where, ["id"]))
    if not done:
        # one file was enough
        assert kind in ("exists", "head")
        assert rows == result(list(range(30)))
        return
    assert rows == result(list(range(100, 120)))
    # once more, and no more
    assert [name for name in openings.opened if name.startswith("new")] == [
        "new-100-0.orc",
        "new-100-1.orc",
    ] or (kind in ("head", "exists"))


def test_the_plan_is_made_once_more_only(table: Table, path: Path, openings: Openings) -> None:
    times: list[int] = []

    def before(name: str) -> None:
        times.append(len(times))
        overwrite(path, 100 * len(times))

    openings.before = before
    with pytest.raises(DeletedFileError) as caught:
        table.scan("id >= 0").to_arrow()
    assert len(times) == 2
    assert "planned anew" in str(caught.value)
    assert "'new-100-0.orc'" in str(caught.value)
    assert "run it again" in str(caught.value)


def test_a_stream_that_has_handed_out_rows_ends_with_the_error(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindex.scan.task_runner.processors", lambda: 1)
    for number in range(3, 40):
        write_rows(path / f"{number:03}.orc", 10 * number, [1] * 10)
    batches = table.scan("id >= 0", ["id"]).to_batches()
    seen = next(batches)["id"].to_pylist()
    overwrite(path, 1000)

    def rest() -> None:
        for batch in batches:
            seen.extend(batch["id"].to_pylist())

    with raises(DeletedFileError):
        rest()
    # nothing of the other state
    assert max(seen) < 1000


def test_a_stream_keeps_its_schema(table: Table, path: Path, openings: Openings) -> None:
    def before(name: str) -> None:
        if name == "0.orc" and not (path / "new.orc").exists():
            shutil.rmtree(path)
            path.mkdir()
            write_columns(path / "new.orc", {"id": pa.array(["x"]), "a": pa.array([1], pa.int32())})

    openings.before = before
    reader = table.scan("a = 1", ["id"]).to_reader()
    with pytest.raises((DeletedFileError, pa.ArrowInvalid, OSError), match="other columns"):
        reader.read_all()


@pytest.mark.parametrize("is_checked", [False, True])
def test_a_file_that_is_deleted_while_the_table_is_listed(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    """Its tail is looked for, because no manifest knows the file."""
    write_rows(path / "3.orc", 30, [1] * 10)
    times: list[int] = []

    def list_once(*args: Any, **options: Any) -> Any:
        listing = list_data_files(*args, **options)
        times.append(1)
        if len(times) == 1:
            (path / "3.orc").unlink()
        return listing

    monkeypatch.setattr("hindex.store.snapshot.list_data_files", list_once)
    scan = table.scan("a = 1") if is_checked else table.unchecked_scan("a = 1")
    assert scan.count() == 30
    # twice by the deletion, and once more by a count after a check
    assert len(times) == (3 if is_checked else 2)


def test_statements_that_listed_the_table_list_it_again(
    connection: LocalConnection, table: Table, path: Path, openings: Openings
) -> None:
    """A scan of a snapshot that was taken already takes another one."""
    scan = table.scan("id >= 0", ["id"])
    listed = scan.on_snapshot(table.snapshot())
    overwrite(path, 100)
    groups = listed.aggregate([Group("id", "id")], "id").to_arrow()
    assert groups["id"].to_pylist() == list(range(100, 120))
    assert listed.to_arrow()["id"].to_pylist() == list(range(100, 120))


def test_a_listed_table_that_has_other_columns_by_then_is_refused(table: Table, path: Path) -> None:
    """What was checked against the snapshot, such as the types of a statement, may not hold any more."""
    listed = table.scan(None, ["id"]).on_snapshot(table.snapshot())
    for file in path.glob("*.orc"):
        file.unlink()
    write_columns(path / "new.orc", {"id": pa.array(["x"]), "a": pa.array([1], pa.int32())})
    with pytest.raises(DeletedFileError, match="other columns"):
        listed.to_arrow()


def test_the_result_of_a_statement_is_of_one_state(
    connection: LocalConnection, table: Table, path: Path, openings: Openings
) -> None:
    """Its rows are not those of a stream, of which some may have been handed out."""
    result: Any = connection.sql(f"SELECT id FROM '{path}' WHERE id >= 0")

    def before(name: str) -> None:
        if name == "2.orc":
            overwrite(path, 100)

    openings.before = before
    assert result.to_arrow()["id"].to_pylist() == list(range(100, 120))


def test_other_errors_are_not_tried_again(table: Table, path: Path, openings: Openings) -> None:
    def before(name: str) -> None:
        raise HindexError("no")

    openings.before = before
    with pytest.raises(HindexError, match=r"^no$"):
        table.scan("id >= 0").to_arrow()
    with pytest.raises(HindexError, match=r"^no$"):
        list(table.scan("id >= 0").to_batches())
    assert openings.opened == []
