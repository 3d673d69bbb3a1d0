"""Fields within structs by dotted path: indexed, filtered by, and read on their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError
from hindex.plan.reasons import Reason
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import ids, write_columns

ROWS = 3000
CITIES = ("Athens", "Berlin", "Cairo", None)


def address(row: int) -> dict[str, Any] | None:
    """Every 7th is null, every 4th has no city; streets are within another struct, null for every 5th."""
    if row % 7 == 0:
        return None
    place = None if row % 5 == 0 else {"street": f"st{row // 10}", "number": row}
    return {"city": CITIES[row // 100 % 4], "place": place, "tags": [row]}


_OF_C = pa.struct({"c": pa.int32()})


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (
            {"a.b": pa.array([{"c": 1}, {"c": 2}], _OF_C), "a": pa.array([{"b": {"c": 5}}, {"b": {"c": 1}}])},
            "a.b.c",
        ),
        ({"a": pa.array([{"b.c": 1, "b": {"c": 5}}, {"b.c": 2, "b": {"c": 1}}])}, "a.b.c"),
        ({"a.b.c": pa.array([1, 2]), "A.b": pa.array([{"c": 5}, {"c": 1}], _OF_C)}, "`A.b`.c"),
    ],
)
def test_paths_of_more_than_one_meaning(tmp_path: Path, columns: dict[str, pa.Array], asked: str) -> None:
    write_columns(tmp_path / "t" / "0.orc", {"i": pa.array([0, 1]), **columns})
    hx: Any = LocalConnection()
    for select in ("{0}", "MAX({0})", "COUNT(DISTINCT {0})", "i", "*"):
        where = f" WHERE {asked} = 1" if select in ("i", "*") else ""
        with raises(ColumnError):
            hx.sql(f"SELECT {select.format(asked)} FROM '{tmp_path / 't'}'{where}").to_arrow()
    assert hx.table(str(tmp_path / "t")).scan().to_arrow().to_pylist() == [
        {name: column[row].as_py() for name, column in {"i": pa.array([0, 1]), **columns}.items()}
        for row in range(2)
    ]


def test_a_column_that_a_file_lacks_is_no_path_of_it(tmp_path: Path) -> None:
    write_columns(tmp_path / "t" / "0.orc", {"id": pa.array([1, 2]), "a.b": pa.array([1, 2])})
    write_columns(tmp_path / "t" / "1.orc", {"id": pa.array([3, 4]), "a": pa.array([{"b": 5}, {"b": 1}])})
    table = LocalConnection().table(str(tmp_path / "t"))
    assert table.scan().to_arrow().column("a.b").to_pylist() == [1, 2, None, None]
    assert ids(table.scan("`a.b` = 1")) == [1]
    assert ids(table.scan("`a.b` IS NULL")) == [3, 4]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = pa.struct({"street": pa.string(), "number": pa.int32()})
    of = pa.struct({"city": pa.string(), "place": place, "tags": pa.list_(pa.int32())})
    for number in range(2):
        rows = range(number * ROWS, (number + 1) * ROWS)
        columns = {"id": pa.array(rows, pa.int64()), "address": pa.array(map(address, rows), of)}
        write_columns(tmp_path / "t" / f"{number}.orc", columns, stripe=40_000, stride=100)
    # a file without the street, its fields in another order and spelled otherwise; and one without the column
    place = pa.struct({"NUMBER": pa.int32()})
    of = pa.struct({"place": place, "City": pa.string(), "tags": pa.list_(pa.int32())})
    values = [{"place": {"NUMBER": 5}, "City": "Berlin", "tags": None}, None]
    write_columns(
        tmp_path / "t" / "2.orc", {"id": pa.array([90_000, 90_001]), "address": pa.array(values, of)}
    )
    write_columns(tmp_path / "t" / "3.orc", {"id": pa.array([90_002])})
    return tmp_path / "t"


@pytest.fixture
def table(path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    local_build.install(monkeypatch)
    return LocalConnection().table(str(path))


def values(of: Table) -> dict[int, Any]:
    result = {row: address(row) for row in range(2 * ROWS)}
    result[90_000] = {"city": "Berlin", "place": {"number": 5, "street": None}}
    return result | {90_001: None, 90_002: None}


def get(value: Any, *names: str) -> Any:
    for name in names:
        value = None if value is None else value.get(name)
    return value


CASES: list[tuple[str, Any]] = [
    ("address.city = 'Berlin'", lambda v: get(v, "city") == "Berlin"),
    ("address.city IS NULL", lambda v: get(v, "city") is None),
    ("address.city <> 'Cairo'", lambda v: get(v, "city") not in (None, "Cairo")),
    ("address.place.number = 1234", lambda v: get(v, "place", "number") == 1234),
    ("ADDRESS.PLACE.NUMBER BETWEEN 5 AND 9", lambda v: 5 <= (get(v, "place", "number") or 0) <= 9),
    ("address.place.street LIKE 'st12%'", lambda v: str(get(v, "place", "street")).startswith("st12")),
    ("address.place.street IS NULL AND address.city = 'Berlin'",
     lambda v: get(v, "place", "street") is None and get(v, "city") == "Berlin"),
    ("address.city = 'Athens' OR address.place.number < 3",
     lambda v: get(v, "city") == "Athens" or (get(v, "place", "number") or 9) < 3),
    ("address.place.number > 100000", lambda v: False),
]  # fmt: skip


@pytest.mark.parametrize(
    "using", [(), ("bitmap",), ("bloom",), ("minmax",), ("bitmap", "bloom", "minmax")], ids=str
)
def test_predicates_on_fields(table: Table, using: tuple[str, ...]) -> None:
    fields = ("address.city", "address.place.number", "address.place.street")
    specs = [IndexSpec(f"x{at}_{name}", field, name) for at, field in enumerate(fields) for name in using]
    if specs:
        table.create_indexes(specs)
        assert {index.status for index in table.indexes()} == {"fresh"}
    known = values(table)
    for where, keep in CASES:
        scan = table.scan(where)
        assert ids(scan) == [row for row, value in known.items() if keep(value)], where
        explained = scan.explain()
        if "bitmap" in using:
            assert explained.exact, where
            # the writer's statistics of structs within structs
            assert {note.reason for note in explained.notes} <= {Reason.UNRELIABLE_STATISTICS}, where


def test_fields_are_read_on_their_own(table: Table) -> None:
    rows = table.scan("address.place.number < 30", ["id", "address.city", "address.place.number"]).to_arrow()
    assert rows.column_names == ["id", "address.city", "address.place.number"]
    expected = [
        {"id": row, "address.city": get(value, "city"), "address.place.number": get(value, "place", "number")}
        for row, value in values(table).items()
        if get(value, "place", "number") is not None and get(value, "place", "number") < 30
    ]
    assert rows.to_pylist() == expected
    assert len(expected) > 10
    whole = dict(
        zip(*(table.scan().to_arrow().column(name).to_pylist() for name in ("id", "address")), strict=True)
    )
    for row, value in values(table).items():
        assert whole[row] == (value and {"tags": None} | value), row


def test_what_cannot_be_indexed(table: Table, path: Path) -> None:
    for column in ["address", "address.place", "address.tags", "address.tags.item", "address.zip"]:
        for using in ("bitmap", "bloom", "minmax"):
            with raises(ColumnError):
                table.create_index("x", column, using)
    assert table.indexes() == []


def test_a_path_that_is_also_a_columns_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    of = pa.struct({"b": pa.int32()})
    columns = {"id": pa.array([1, 2]), "a": pa.array([{"b": 5}, {"b": 6}], of), "a.b": pa.array([6, 5])}
    write_columns(tmp_path / "t" / "0.orc", columns)
    table = LocalConnection().table(str(tmp_path / "t"))
    assert ids(table.scan("`a.b` = 5")) == [2]
    with raises(ColumnError):
        table.scan("a.b = 5").count()
    select = f"SELECT {{}} FROM '{tmp_path / 't'}'"
    for asked in ("a.b", "id, a.b", "COUNT(DISTINCT a.b)", "MIN(a.b), a.b"):
        group = " GROUP BY a.b" if asked.startswith("MIN") else ""
        with raises(ColumnError):
            LocalConnection().sql(select.format(asked) + group)
    assert table.scan().to_arrow().column("a.b").to_pylist() == [6, 5]


def test_a_field_whose_name_has_a_dot_is_named_as_what_it_is(tmp_path: Path) -> None:
    write_columns(
        tmp_path / "t" / "0.orc", {"id": pa.array([1, 2]), "st": pa.array([{"a.b": 1}, {"a.b": 2}])}
    )
    hx: Any = LocalConnection()
    for text in ("SELECT st.`a.b` FROM {}", "SELECT st.`a.b` FROM {} WHERE st.`a.b` >= 1"):
        result = hx.sql(text.format(f"'{tmp_path / 't'}'")).to_arrow()
        assert [list(row.values()) for row in result.to_pylist()] == [[1], [2]]
    assert hx.sql(f"SELECT id FROM '{tmp_path / 't'}' WHERE st.`a.b` = 2").to_arrow().column(
        0
    ).to_pylist() == [2]
    assert hx.sql(f"SELECT st FROM '{tmp_path / 't'}'").to_arrow().column("st").to_pylist() == [
        {"a.b": 1},
        {"a.b": 2},
    ]


@pytest.mark.parametrize("using", ["bitmap", "btree", "bloom", "minmax"])
def test_fields_with_dots_in_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, using: str) -> None:
    """Names in backquotes, as strings and as paths; files that lack the field, or have another of its letters."""
    local_build.install(monkeypatch)
    path = tmp_path / "t"
    values = [i % 50 for i in range(1000)]
    structs = pa.array([{"a.b": value, "x": {"y.z.w": -value}} for value in values])
    write_columns(path / "0.orc", {"id": pa.array(range(1000)), "st": structs}, stride=100)
    write_columns(path / "1.orc", {"id": pa.array([1000]), "st": pa.array([{"x": {"y.z.w": -7}}])})
    hx = LocalConnection()
    table = hx.table(str(path))
    table.create_index("i", "st.`a.b`", using)
    table.create_index("j", ("st", "x", "y.z.w"), using)
    assert [index.column for index in table.indexes()] == ["st.`a.b`", "st.x.`y.z.w`"]
    sevens = [i for i, value in enumerate(values) if value == 7]
    for where, expected in {
        "st.`a.b` = 7": sevens,
        "ST.`A.B` = 7": sevens,
        "st.x.`y.z.w` = -7": [*sevens, 1000],
        "st.`a.b` = 7 AND st.x.`y.z.w` = -7": sevens,
        "st.`a.b` IS NULL": [1000],
    }.items():
        scan = table.scan(where, ["id"])
        assert (where, ids(scan)) == (where, expected)
        assert scan.count() == len(expected)
        if "IS NULL" not in where:
            explained = scan.explain()
            assert {note.reason for note in explained.notes} <= {
                Reason.NO_INDEX,
                Reason.UNRELIABLE_STATISTICS,
            }
            assert Reason.NO_INDEX not in {note.reason for note in explained.notes}
    column = table.scan("id = 57 OR id = 1000", [("st", "a.b"), "st.x.`y.z.w`"]).to_arrow()
    assert column.to_pylist() == [
        {"st.`a.b`": 7, "st.x.`y.z.w`": -7},
        {"st.`a.b`": None, "st.x.`y.z.w`": -7},
    ]
    # a field within a struct of the same letters is another column
    write_columns(path / "2.orc", {"id": pa.array([1001]), "st": pa.array([{"a": {"b": 7}}])})
    table = hx.table(str(path))
    assert ids(table.scan("st.`a.b` = 7", ["id"])) == sevens
    with raises(ColumnError):
        table.scan("st.a.b = 7", ["id"]).count()
