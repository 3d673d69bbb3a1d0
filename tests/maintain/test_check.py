"""CHECK INDEXES notices what is stale, missing or wrong."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.api.table import IndexSpec, Table
from hindex.index.bitmap import BitmapReader
from hindex.index.index_file import IndexFileReader
from hindex.index.index_type import Bounds
from hindex.index.page_cache import shared_cache
from hindex.maintain import checks
from hindex.maintain.results import IndexState
from hindex.orc import OrcReader
from hindex.orc.io.source import LocalSource
from hindex.store.store import Store
from hindex.table.listing import DataFiles
from tests.maintain.conftest import add_file
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.small import ids, keep_stat, write_columns, write_rows
from tests.support.writers import write_pyarrow


@pytest.fixture
def table(path: Path, hx: LocalConnection) -> Table:
    table = hx.table(str(path))
    table.create_index("i", "a")
    return table


def index_file(table: Table, number: int = 0) -> Path:
    store = Store.for_table(table.uri)
    return Path(store.absolute(sorted(table.snapshot().manifest.file_paths())[number]))


def test_a_stale_index_is_no_problem(table: Table, path: Path) -> None:
    add_file(path / "p=1" / "new.orc", 11_000)
    write_rows(path / "p=2" / "x.orc", 20_000, [1])
    (path / "p=3" / "x.orc").unlink()
    result = table.index("i").check(verify=True)
    assert (result.state, result.ok) == (IndexState.STALE, True)
    assert (result.files, result.fresh, result.changed, result.added, result.gone) == (3, 1, 1, 1, 1)
    assert result.rows_covered == 49.9
    assert result.verified_stripes > 0
    stripes = "1 stripe" if result.verified_stripes == 1 else f"{result.verified_stripes} stripes"
    assert str(result) == (
        f"Index 'i' of {str(path)!r} is stale: 1 of 3 files indexed, 49.9 % of the rows; {stripes} verified"
    )


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
    assert str(result).endswith(f"; {'; '.join(result.problems)}")
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


def test_verify_goes_on_after_the_first_damage(table: Table) -> None:
    """A missing file and one of damaged content are both reported, and the sound rest is verified."""
    sound = table.index("i").check(verify=True)
    assert sound.verified_stripes > 0
    missing, damaged = index_file(table, 0), index_file(table, 1)
    missing.unlink()
    data = damaged.read_bytes()

    def damage() -> None:
        damaged.write_bytes(bytes(byte ^ 0x55 for byte in data))

    keep_stat(damaged, damage)
    result = table.index("i").check(verify=True)
    assert [missing.name in problem for problem in result.problems] == [True, False]
    assert "i on p=" in result.problems[1]
    assert 0 < result.verified_stripes < sound.verified_stripes
    assert repr(result) == str(result)
    assert "i on p=" in repr(result)
    many = replace(result, problems=tuple(map(str, range(12))))
    assert str(many).endswith("; 8; 9; 2 more problems in .problems")


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
    for name in plain.snapshot().manifest.file_paths():
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


def test_a_file_that_was_replaced_with_the_same_length_and_time(
    table: Table, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = path / "p=1" / "x.orc"
    keep_stat(file, lambda: write_rows(file, 10_000, [i % 9 for i in range(500)]))
    result = table.index("i").check(verify=True)
    assert (result.state, result.changed, result.problems) == (IndexState.STALE, 1, ())
    with monkeypatch.context() as patch:
        # as of a remote file, nothing but the listing is known
        patch.setattr(DataFiles, "are_untouched_since", lambda _, at, __: np.ones(len(at), np.bool_))
        assert table.index("i").check().state is IndexState.FRESH
        result = table.index("i").check(verify=True)
        assert [problem.split(" ")[0] for problem in result.problems] == ["p=1/x.orc"]
    table.index("i").refresh()
    assert table.index("i").check(verify=True).ok


@sampled(4)
@pytest.mark.parametrize("kind", ["bitmap", "minmax", "btree", "bloom"])
@pytest.mark.parametrize("rows", [None, 300])
def test_files_that_change_while_they_are_verified(
    path: Path, hx: LocalConnection, monkeypatch: pytest.MonkeyPatch, kind: str, rows: int | None
) -> None:
    """They are replaced or deleted after the table was listed, or between two reads of one."""
    for part in (1, 2, 3):
        add_file(path / f"p={part}" / "x.orc", part * 10_000, 200)
    table = hx.table(str(path))
    table.create_index("i", "a", kind)
    file = path / "p=1" / "x.orc"
    content = file.read_bytes()
    other = None if rows is None else write_rows(path.parent / "other.orc", 10_000, [77] * rows).read_bytes()
    for name in ("run", "_verify_stripe", "_inputs"):
        method = getattr(checks._Verifier, name)

        def changed(*args: Any, method: Any = method, name: str = name) -> Any:
            if name == "_inputs":
                result = method(*args)
            if other is None:
                file.unlink(missing_ok=True)
            else:
                file.write_bytes(other)
            return result if name == "_inputs" else method(*args)

        with monkeypatch.context() as patch:
            patch.setattr(checks._Verifier, name, changed)
            result = table.index("i").check(verify=True)
        assert result.problems == (), name
        file.write_bytes(content)
        table.index("i").refresh()


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
    assert problem.startswith("Column 'a.c.b' is ambiguous")


KINDS = ("bitmap", "bloom", "btree", "minmax")
#: Index types, each with the number of rows of a file; a stripe has 100 rows.
SMALL = [pytest.param((kind, 100), id=kind) for kind in KINDS]
LARGER = [pytest.param((kind, 300), id=kind) for kind in KINDS]


@pytest.fixture
def used(tmp_path: Path, hx: LocalConnection, request: pytest.FixtureRequest) -> Table:
    """Files of so few values that VERIFY asks for each, with an index whose files a scan left in memory."""
    kind, rows = request.param
    for number in range(2):
        write_rows(tmp_path / "used" / f"{number}.orc", number * rows, [i % 5 for i in range(rows)])
    table = hx.table(str(tmp_path / "used"))
    table.create_index("i", "a", kind)
    shared_cache().clear()
    assert ids(table.scan("a = 3", columns=["id"])) == list(range(3, 2 * rows, 5))
    assert table.index("i").check(verify=True).problems == ()
    return table


@sampled(4)
@pytest.mark.parametrize("used", SMALL, indirect=True)
@pytest.mark.parametrize("again", ["same table", "another connection"])
def test_verify_notices_damage_of_what_is_in_memory(used: Table, again: str) -> None:
    file = index_file(used)
    sound = file.read_bytes()
    unnoticed = []
    for at in sorted({*range(0, len(sound), max(len(sound) // 5, 1)), *range(4), len(sound) - 1}):
        file.write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
        table = used if again == "same table" else LocalConnection().table(used.uri)
        if not table.index("i").check(verify=True).problems:
            unnoticed.append(at)
    file.write_bytes(sound)
    assert (unnoticed, len(sound) > 100) == ([], True)
    assert used.index("i").check(verify=True).ok


@pytest.mark.parametrize("used", LARGER, indirect=True)
def test_verify_reads_each_index_file_once_and_leaves_what_is_in_memory(
    used: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[IndexFileReader] = []
    real = IndexFileReader.__init__

    def noted(self: IndexFileReader, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        opened.append(self)

    monkeypatch.setattr(IndexFileReader, "__init__", noted)
    pages = []
    before = shared_cache().counts
    for _ in range(2):
        opened.clear()
        assert used.index("i").check(verify=True).verified_stripes == 6
        assert len(opened) == len(used.snapshot().manifest.file_paths())
        pages.append(sum(reader.pages_read for reader in opened))
    assert pages[0] == pages[1]
    # what a MINMAX file holds is in its footer
    assert (pages[0] > 0) == (used.index("i").type != "MINMAX")
    assert shared_cache().counts == before
    opened.clear()
    assert ids(used.scan("a = 3", columns=["id"])) == list(range(3, 600, 5))
    counts = shared_cache().counts.since(before)
    assert (opened, counts.pages_read, counts.misses) == ([], 0, 0)
    assert counts.hits > 0


@pytest.mark.parametrize("used", LARGER[:1], indirect=True)
def test_verify_reads_data_whose_metadata_is_in_memory(used: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that shows no change of a file, what it was known by still names it."""
    monkeypatch.setattr(LocalSource, "identity", lambda self: self.path)
    wanted = list(range(3, 600, 5))
    assert ids(used.scan(columns=["id"])) == list(range(600))
    for view in used.snapshot().files:
        file = Path(view.file.uri.removeprefix("file://"))
        damaged = bytearray(file.read_bytes())
        for stripe in OrcReader(file).stripes:
            footer = stripe.offset + stripe.index_length + stripe.data_length
            for at in range(footer, footer + stripe.footer_length):
                damaged[at] ^= 0x55
        keep_stat(file, partial(file.write_bytes, damaged))
    assert ids(used.scan("a = 3", columns=["id"])) == wanted, "the scan goes by what it knows"
    result = used.index("i").check(verify=True)
    assert (len(result.problems), result.verified_stripes) == (6, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_verify_names_the_files_that_it_leaves_out(tmp_path: Path, hx: LocalConnection, kind: str) -> None:
    for part, number, name in ((1, 0, "a"), (1, 1, "b"), (1, 2, "b"), (2, 3, "b"), (2, 4, "b"), (2, 5, "a")):
        write_columns(tmp_path / "t" / f"p={part}" / f"{number}.orc", {name: pa.array([1, 2, 2])})
    table = hx.table(str(tmp_path / "t"))
    table.create_index("every", "a", kind)
    table.create_index("first", "a", kind, where="p = 1")
    table.create_index("b", "b", kind)
    every, first, b = (table.index(name).check(verify=True) for name in ("every", "first", "b"))
    (note,) = every.notes
    assert note == (
        "4 files without 'a' not compared, a column is missing there: 'p=1/1.orc', 'p=1/2.orc', "
        "'p=2/3.orc' and 1 more"
    )
    assert first.notes == (
        "2 files without 'a' not compared, a column is missing there: 'p=1/1.orc', 'p=1/2.orc'",
    )
    assert b.notes == (
        "2 files without 'b' not compared, a column is missing there: 'p=1/0.orc', 'p=2/5.orc'",
    )
    assert [(item.ok, item.files, item.verified_stripes) for item in (every, first, b)] == [
        (True, 2, 2),
        (True, 1, 1),
        (True, 4, 4),
    ]
    assert table.index("every").check().notes == ()
