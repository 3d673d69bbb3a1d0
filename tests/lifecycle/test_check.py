"""CHECK INDEXES notices what is stale, missing or wrong."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.index.base import Bounds
from hindex.index.bitmap_reader import BitmapReader
from hindex.index.cache import shared_cache
from hindex.lifecycle.results import IndexState
from hindex.store.store import Store
from hindex.tables import IndexSpec, Table
from tests.lifecycle.conftest import add_file
from tests.support.local_build import LocalConnection
from tests.support.small import keep_stat, write_columns, write_rows
from tests.support.writers import write_pyarrow


@pytest.fixture
def table(path: Path, hx: LocalConnection) -> Table:
    table = hx.table(str(path))
    table.create_index("i", "a")
    return table


def index_file(table: Table, number: int = 0) -> Path:
    store = Store.for_table(table.uri)
    return Path(store.absolute(sorted(table.snapshot().manifest.index_file_paths())[number]))


def test_a_stale_index_is_no_problem(table: Table, path: Path) -> None:
    add_file(path / "p=1" / "new.orc", 11_000)
    write_rows(path / "p=2" / "x.orc", 20_000, [1])
    (path / "p=3" / "x.orc").unlink()
    result = table.index("i").check(verify=True)
    assert (result.state, result.ok) == (IndexState.STALE, True)
    assert (result.files, result.fresh, result.changed, result.added, result.gone) == (3, 1, 1, 1, 1)
    assert result.rows_covered == 49.9
    assert result.verified_stripes > 0


def test_missing_and_cut_index_files(table: Table) -> None:
    index_file(table).unlink()
    with index_file(table, 1).open("r+b") as file:
        file.truncate(10)
    result = table.index("i").check()
    assert not result.ok
    assert sorted(
        problem.split("of 'p=")[1].split(" ", 1)[1].split(":")[0][:9] for problem in result.problems
    ) == [
        "has 10 by",
        "is missin",
    ]
    assert all("REBUILD" in problem for problem in result.problems)
    table.index("i").rebuild()
    assert table.index("i").check(verify=True).ok


def test_damage_is_found_by_verify(table: Table) -> None:
    file = index_file(table)

    def damage() -> None:
        data = bytearray(file.read_bytes())
        for at in range(len(data) - 12):
            data[at] ^= 0x55
        file.write_bytes(data)

    keep_stat(file, damage)
    assert table.index("i").check().ok
    result = table.index("i").check(verify=True)
    assert result.problems
    assert "i on p=" in result.problems[0]


@pytest.mark.parametrize("wrong", ["too many", "missing", "shifted"])
def test_a_wrong_answer_is_found(table: Table, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    real = BitmapReader.lookup

    def lookup(self: BitmapReader, stripe: int, domain: Any) -> Bounds:
        rows = real(self, stripe, domain).upper
        total = self.stripe_rows[stripe]
        match wrong:
            case "too many":
                return Bounds.exactly(rows | BitMap([0, 1, 2, 3]))
            case "missing":
                return Bounds.exactly(BitMap(list(rows)[1:]))
            case _:
                return Bounds.exactly(BitMap((row + 1) % total for row in rows))

    monkeypatch.setattr(BitmapReader, "lookup", lookup)
    result = table.index("i").check(verify=True)
    assert result.problems
    assert all(problem.startswith("wrong answer for a ") for problem in result.problems)
    assert (": 0 rows too many" in result.problems[0]) == (wrong == "missing")


@pytest.fixture
def plain(tmp_path: Path, hx: LocalConnection) -> Table:
    """One stripe whose own statistics answer most questions: a constant, nulls alone, and few values, all indexed."""
    rows = 20_000
    columns = {
        "k": pa.array([7] * rows),
        "n": pa.nulls(rows, pa.int64()),
        "few": pa.array([i % 3 for i in range(rows)]),
    }
    write_pyarrow(tmp_path / "plain" / "0.orc", pa.table(columns), "none", stripe=1 << 26, stride=10_000)
    table = hx.table(str(tmp_path / "plain"))
    table.create_indexes([IndexSpec(name, name) for name in columns])
    return table


def test_verify_asks_the_index_whatever_the_file_tells(plain: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    results = plain.check_indexes(verify=True)
    assert [(item.verified_stripes, item.problems) for item in results] == [(1, ())] * 3
    monkeypatch.setattr(BitmapReader, "lookup", lambda *_: Bounds.none())
    for result in plain.check_indexes(verify=True):
        assert result.problems, result.index
        assert "20000 missing" in result.problems[0] or result.index == "few", result.index


def test_verify_of_an_index_that_cannot_be_opened(plain: Table) -> None:
    store = Store.for_table(plain.uri)
    for name in plain.snapshot().manifest.index_file_paths():
        file = Path(store.absolute(name))
        data = bytearray(file.read_bytes())
        data[-30] ^= 0xFF
        file.write_bytes(data)
    shared_cache().clear()
    for result in plain.check_indexes(verify=True):
        assert result.verified_stripes == 0, result.index
        assert "is corrupt" in result.problems[0], result.index


VALUES: dict[str, pa.Array] = {
    "flag": pa.array([True, None, False] * 50),
    "small": pa.array([None, *range(-70, 79)], pa.int8()),
    "big": pa.array([2**62 + i for i in range(150)]),
    "single": pa.array([float("nan"), -0.0, 0.1, None, float("inf")] * 30, pa.float32()),
    "double": pa.array([float("nan"), -0.0, 0.1, None, 1e300] * 30),
    "text": pa.array(["", "é", "it's", "a\0b", None, "x" * 300] * 25),
    "raw": pa.array([b"", b"\xff", None] * 50),
    "day": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None] * 50),
    "at": pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), None] * 75, pa.timestamp("us")),
    "amount": pa.array([Decimal("1.50"), Decimal("-99999999.99"), None] * 50, pa.decimal128(10, 2)),
    "nothing": pa.array([None] * 150, pa.int32()),
}
FIELDS = pa.array([None if i % 7 == 0 else {"x": i % 10} for i in range(150)])


@pytest.mark.parametrize("kind", ["bitmap", "bloom", "minmax"])
def test_every_type_is_verified(tmp_path: Path, hx: LocalConnection, kind: str) -> None:
    path = tmp_path / "types"
    for file in ("x.orc", "y.orc"):
        write_columns(path / file, {**VALUES, "fields": FIELDS})
    table = hx.table(str(path))
    table.create_indexes([IndexSpec(name, name, kind) for name in (*VALUES, "fields.x")])
    for result in table.check_indexes(verify=True):
        # a filter is asked for values, and here there are none
        asked = 0 if (kind, result.index) == ("bloom", "nothing") else 2
        assert (result.problems, result.verified_stripes) == ((), asked), result.index


def test_stripes_are_sampled(tmp_path: Path, hx: LocalConnection) -> None:
    path = tmp_path / "many"
    for number in range(15):
        add_file(path / f"{number}.orc", number * 1000)
    table = hx.table(str(path))
    table.create_index("i", "a")
    assert table.index("i").check(verify=True).verified_stripes == 10


def test_a_file_that_was_replaced_with_the_same_length_and_time(table: Table, path: Path) -> None:
    file = path / "p=1" / "x.orc"
    keep_stat(file, lambda: write_rows(file, 10_000, [i % 9 for i in range(500)]))
    assert table.index("i").check().state is IndexState.FRESH
    result = table.index("i").check(verify=True)
    assert [problem.split(" ")[0] for problem in result.problems] == ["p=1/x.orc"]
    table.index("i").refresh()
    assert table.index("i").check(verify=True).ok


def nested(*values: int) -> pa.Array:
    return pa.StructArray.from_arrays([pa.array(values, pa.int32())], ["b"])


@pytest.mark.parametrize("later", ["a.b", "A.B"])
def test_verify_where_a_name_became_another_column(tmp_path: Path, hx: LocalConnection, later: str) -> None:
    """A file that was indexed on a field has nothing of the column that the dotted name is by now."""
    write_columns(tmp_path / "t" / "0.orc", {"a": nested(1, 2, 3)})
    table = hx.table(str(tmp_path / "t"))
    table.create_index("i", "a.b")
    write_columns(tmp_path / "t" / "1.orc", {later: pa.array([7, 8, 9], pa.int32())})
    result = table.index("i").check(verify=True)
    assert (result.problems, result.verified_stripes) == ((), 0)
    table.index("i").refresh()
    result = table.index("i").check(verify=True)
    assert (result.problems, result.verified_stripes, result.files) == ((), 1, 1)
    assert table.scan().max((later,)) == 9


def test_verify_tells_once_of_a_name_that_has_two_meanings(tmp_path: Path, hx: LocalConnection) -> None:
    inner = pa.StructArray.from_arrays([nested(1, 2, 3)], ["c"])
    write_columns(tmp_path / "t" / "0.orc", {"a": inner})
    table = hx.table(str(tmp_path / "t"))
    table.create_index("i", "a.c.b")
    write_columns(tmp_path / "t" / "1.orc", {"a.c": nested(7, 8, 9)})
    table.index("i").refresh()
    (problem,) = table.index("i").check(verify=True).problems
    assert problem.startswith("Column 'a.c.b' cannot be told from another of that name")
