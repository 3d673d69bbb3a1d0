"""Indexes on the elements of arrays, and keys and values of maps: rows against plain Python, and what was skipped."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec
from hindex.errors import ColumnError
from hindex.expr.evaluate import evaluate
from hindex.expr.functions import FUNCTIONS
from hindex.expr.nodes import STRING, Column, Constant
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.reasons import Reason
from tests.support.cases import sampled
from tests.support.local_build import LocalConnection
from tests.support.small import candidates, ids, reasons, write_columns

ROWS = 900
TYPES = ("bitmap", "btree", "bloom", "minmax")
WORDS = ["red", "green", "blue", "", "épée", "😀", "x" * 300]

ITEM = pa.struct({"Sku": pa.string(), "qty": pa.int32(), "box": pa.struct({"id": pa.int64()})})

Row = dict[str, Any]


def lists(chance: random.Random, item: Callable[[], object], rows: int) -> list[list[object] | None]:
    """Some NULL, some empty, with NULLs and duplicates."""
    return [
        None
        if chance.random() < 0.1
        else [None if chance.random() < 0.15 else item() for _ in range(chance.choice([0, 1, 2, 3, 7]))]
        for _ in range(rows)
    ]


def item(chance: random.Random) -> dict[str, object]:
    sku = None if chance.random() < 0.1 else f"sku {chance.randrange(40)}"
    return {"Sku": sku, "qty": chance.randrange(4), "box": {"id": chance.randrange(30)}}


def write_file(path: Path, seed: int, first_id: int) -> None:
    """A file whose last stripes have other values than its first."""
    chance = random.Random(seed)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(day) for day in range(50)]
    maps = [
        None
        if chance.random() < 0.1
        else [
            (key, None if chance.random() < 0.2 else chance.randrange(12))
            for key in chance.sample(WORDS, chance.randrange(4))
        ]
        for _ in range(ROWS)
    ]
    columns = {
        "id": pa.array(range(first_id, first_id + ROWS), pa.int64()),
        "tags": pa.array(lists(chance, lambda: chance.choice(WORDS), ROWS), pa.list_(pa.string())),
        "ns": pa.array(lists(chance, lambda: chance.randrange(60) ** 3, ROWS), pa.list_(pa.int64())),
        "xs": pa.array(
            lists(chance, lambda: chance.choice([0.0, -0.0, float("nan"), 1.5, -2.0]), ROWS),
            pa.list_(pa.float64()),
        ),
        "ds": pa.array(lists(chance, lambda: chance.choice(days), ROWS), pa.list_(pa.date32())),
        "qs": pa.array(
            lists(chance, lambda: Decimal(chance.randrange(90)) / 10, ROWS), pa.list_(pa.decimal128(5, 1))
        ),
        "m": pa.array(maps, pa.map_(pa.string(), pa.int32())),
        "items": pa.array(lists(chance, lambda: item(chance), ROWS), pa.list_(ITEM)),
    }
    write_columns(path, columns, stripe=16 << 10, stride=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elements")
    for number in range(2):
        write_file(path / f"{number}.orc", number, number * ROWS)
    return path


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    rows: list[Row] = hindex.connect().table(folder).scan().to_arrow().to_pylist()
    return rows


def has(row: Row, name: str, *values: object) -> bool:
    return not set(values).isdisjoint(row[name] or ())


def lacks(row: Row, name: str, value: object) -> bool:
    """Return True if NOT array_contains is TRUE."""
    return row[name] is not None and value not in row[name] and None not in row[name]


def skus(row: Row) -> list[object]:
    """Return the field of the elements, None for elements that are NULL."""
    return [element and element["Sku"] for element in row["items"] or ()]


def value(row: Row, key: str) -> Any:
    return dict(row["m"] or ()).get(key)


INDEXED = (
    "tags[*]",
    "ns[*]",
    "xs[*]",
    "ds[*]",
    "qs[*]",
    "map_keys(m)",
    "map_values(m)",
    "m['red']",
    "items[*].sku",
)

CASES: list[tuple[str, Callable[[Row], object]]] = [
    ("array_contains(tags, 'red')", lambda row: has(row, "tags", "red")),
    (
        "array_contains(tags, 'red') AND array_contains(tags, '😀')",
        lambda row: has(row, "tags", "red") and has(row, "tags", "😀"),
    ),
    ("array_contains(tags, 'red') OR array_contains(tags, '')", lambda row: has(row, "tags", "red", "")),
    ("arrays_overlap(tags, array('blue', 'none', 'épée'))", lambda row: has(row, "tags", "blue", "épée")),
    ("arrays_overlap(array(27, 64), ns)", lambda row: has(row, "ns", 27, 64)),
    ("array_contains(ns, 8000) OR id = 5", lambda row: has(row, "ns", 8000) or row["id"] == 5),
    (
        "array_contains(xs, 0.0) AND NOT array_contains(tags, 'red')",
        lambda row: has(row, "xs", 0.0) and lacks(row, "tags", "red"),
    ),
    ("array_contains(xs, double('NaN'))", lambda row: any(x is not None and x != x for x in row["xs"] or ())),
    ("array_contains(ds, DATE '2024-01-09')", lambda row: has(row, "ds", datetime.date(2024, 1, 9))),
    ("array_contains(qs, 1.5)", lambda row: has(row, "qs", Decimal("1.5"))),
    ("map_contains_key(m, 'green')", lambda row: "green" in dict(row["m"] or ())),
    ("array_contains(map_values(m), 11)", lambda row: 11 in dict(row["m"] or ()).values()),
    ("m['red'] BETWEEN 3 AND 5", lambda row: value(row, "red") in (3, 4, 5)),
    ("element_at(m, 'red') IS NULL", lambda row: value(row, "red") is None),
    ("NOT m['red'] = 4", lambda row: value(row, "red") not in (None, 4)),
    ("exists(tags, x -> x = 'red')", lambda row: has(row, "tags", "red")),
    ("exists(ns, n -> 27 = n) AND id >= 0", lambda row: has(row, "ns", 27)),
    ("EXISTS(tags, t -> t IN ('blue', 'none', 'épée'))", lambda row: has(row, "tags", "blue", "épée")),
    ("exists(map_values(m), v -> v IN (11))", lambda row: 11 in dict(row["m"] or ()).values()),
    ("array_contains(items.sku, 'sku 7')", lambda row: "sku 7" in skus(row)),
    ("array_contains(ITEMS[*].Sku, 'sku 7')", lambda row: "sku 7" in skus(row)),
    ("exists(items, x -> x.sku = 'sku 7')", lambda row: "sku 7" in skus(row)),
    ("exists(items, x -> x.SKU IN ('sku 7', 'sku 8'))", lambda row: {"sku 7", "sku 8"} & {*skus(row)}),
    ("arrays_overlap(items.sku, array('sku 7', 'sku 8'))", lambda row: {"sku 7", "sku 8"} & {*skus(row)}),
    (
        "NOT array_contains(items.sku, 'sku 7')",
        lambda row: row["items"] is not None and not {"sku 7", None} & {*skus(row)},
    ),
    ("exists(items, x -> x.qty = 3)", lambda row: any(x and x["qty"] == 3 for x in row["items"] or ())),
    ("NOT exists(tags, x -> x = 'red')", lambda row: lacks(row, "tags", "red")),
    ("NOT array_contains(tags, 'red')", lambda row: lacks(row, "tags", "red")),
]


@sampled(2)
@pytest.mark.parametrize("using", TYPES)
def test_rows(folder: Path, rows: list[Row], connection: LocalConnection, using: str, tmp_path: Path) -> None:
    table = type(connection)(str(tmp_path)).table(folder)
    table.create_indexes([IndexSpec(f"i{at}", text, using) for at, text in enumerate(INDEXED)])
    for where, matches in CASES:
        expected = [row["id"] for row in rows if matches(row)]
        assert expected, where
        assert ids(table.scan(where, ["id"])) == expected, where
        proved = table.scan(where, ["id"], mode="prove")
        assert proved.to_arrow()["id"].to_pylist() == expected, where
        if (
            using == "bitmap"
            and not where.startswith(("NOT array", "NOT exists"))
            and "qty" not in where
            and "id =" not in where
            and "AND NOT" not in where
        ):
            assert candidates(table.scan(where)) == len(expected), where
    for check in table.check_indexes(verify=True):
        assert not check.problems
        assert check.verified_stripes


def test_row_groups_and_files_are_skipped(tmp_path: Path, connection: LocalConnection) -> None:
    """By the statistics of elements, and by the row groups that have them."""
    for number in range(3):
        arrays = [[1000 * number + row, None, 1000 * number + row] for row in range(1000)]
        columns = {"id": pa.array(range(1000 * number, 1000 * number + 1000)), "a": pa.array(arrays)}
        write_columns(tmp_path / f"{number}.orc", columns, stride=100)
    table = connection.table(tmp_path)
    table.create_index("m", "a[*]", "minmax")
    assert candidates(table.scan("array_contains(a, 1234)")) == 100
    assert table.scan("array_contains(a, 1234)").explain().files.kept == 1
    table.drop_index("m")
    table.create_index("b", "a[*]", "btree")
    assert candidates(table.scan("array_contains(a, 1234)")) == 100
    assert table.scan("array_contains(a, 1234)").explain().files.kept == 1
    assert ids(table.scan("array_contains(a, 1234)", ["id"])) == [1234]
    assert ids(table.scan("array_contains(a, 5000)", ["id"])) == []


def test_an_element_of_most_rows(tmp_path: Path, connection: LocalConnection) -> None:
    """Which other elements of the rows do not hide."""
    arrays = [["x", "y"] if row % 10 else ["y"] for row in range(1000)]
    write_columns(tmp_path / "0.orc", {"id": pa.array(range(1000)), "a": pa.array(arrays)}, stride=100)
    table = connection.table(tmp_path)
    table.create_index("b", "a[*]")
    for where, count in (("array_contains(a, 'x')", 900), ("arrays_overlap(a, array('x', 'y'))", 1000)):
        assert table.scan(where).count() == count
        assert len(ids(table.scan(where, ["id"]))) == count
        assert candidates(table.scan(where)) == count


def test_slices_of_arrays_and_maps() -> None:
    """An array of Arrow may begin within its buffers, and a NULL may have elements there."""
    data_type = OrcType(Kind.MAP, children=(OrcType(Kind.STRING), OrcType(Kind.LONG)))
    pairs = [[("a", 1), ("b", 2)], None, [], [("b", None)], [("c", 5), ("b", 6), ("b", 7)], [("a", 8)]]
    whole = pa.array(pairs, pa.map_(pa.string(), pa.int64()))
    row = Column("m", data_type)
    for start, stop in ((0, 6), (1, 5), (3, 6), (4, 4)):
        part = {"m": whole.slice(start, stop - start)}
        names = FUNCTIONS["map_keys"].signature("map_keys", [row])
        is_b = FUNCTIONS["array_contains"].signature("array_contains", [names, Constant("b", STRING)])
        value = FUNCTIONS["[]"].signature("[]", [row, Constant("b", STRING)])
        expected = [None if item is None else [key for key, _ in item] for item in pairs[start:stop]]
        n = stop - start
        assert evaluate(names, part, n).array.to_pylist() == expected
        assert evaluate(is_b, part, n).array.to_pylist() == [
            None if keys is None else "b" in keys for keys in expected
        ]
        firsts = [dict(reversed(item or ())).get("b") for item in pairs[start:stop]]
        assert evaluate(value, part, n).array.to_pylist() == firsts


def test_slices_of_arrays_of_structs() -> None:
    struct = OrcType(Kind.STRUCT, children=(OrcType(Kind.LONG), OrcType(Kind.STRING)), field_names=("a", "b"))
    column = Column("items", OrcType(Kind.LIST, children=(struct,)))
    field = FUNCTIONS["[*]."].signature("[*].", [column, Constant("B", STRING)])
    rows = [[{"a": 1, "b": "x"}, None], None, [], [{"a": None, "b": "y"}], [{"a": 2, "b": None}]]
    whole = pa.array(rows, column.type.to_arrow())
    for start, stop in ((0, 5), (1, 4), (3, 5), (2, 2)):
        part = {"items": whole.slice(start, stop - start)}
        assert evaluate(field, part, stop - start).array.to_pylist() == [
            None if items is None else [each and each["b"] for each in items] for items in rows[start:stop]
        ]


def test_a_refresh_and_a_new_file(folder: Path, connection: LocalConnection, tmp_path: Path) -> None:
    for number in range(2):
        write_file(tmp_path / f"{number}.orc", number, number * ROWS)
    table = connection.table(tmp_path)
    table.create_indexes([IndexSpec("b", "tags[*]"), IndexSpec("t", "tags[*]", "btree")])
    write_file(tmp_path / "2.orc", 9, 2 * ROWS)
    where = "array_contains(tags, 'red')"
    expected = [row["id"] for row in table.scan().to_arrow().to_pylist() if has(row, "tags", "red")]
    assert ids(table.scan(where, ["id"])) == expected
    assert set(reasons(table.scan(where))) == {Reason.NEW_FILE}
    table.refresh_indexes()
    assert ids(table.scan(where, ["id"])) == expected
    assert not table.scan(where).explain().notes


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("tags", r"choose a column of a primitive type, or its elements: tags\[\*\]"),
        ("id[*]", r"\[\*\] of a value of type bigint"),
        ("m[*]", r"\[\*\] of a value of type map"),
        ("tags[0]", "of a value of type array<string>"),
        ("m[3]", r"the key in \[...\] is evaluated for constants of type string"),
        ("items[*]", r"\[\*\] is not evaluated for elements of type struct"),
        ("items[*].box", "of type struct<id:bigint>, which BITMAP cannot index"),
        ("items[*].nothing", "no elements with one field 'nothing'"),
        ("tags[*].sku", "no elements with one field 'sku'"),
        ("map_keys(tags)", "map_keys of a value of type array<string>"),
    ],
)
def test_what_has_no_elements(
    folder: Path, connection: LocalConnection, column: str, message: str, tmp_path: Path
) -> None:
    table = type(connection)(str(tmp_path)).table(folder)
    with pytest.raises(ColumnError, match=message):
        table.create_index("i", column)


def test_conditions_that_elements_do_not_answer(
    folder: Path, connection: LocalConnection, tmp_path: Path
) -> None:
    table = type(connection)(str(tmp_path)).table(folder)
    table.create_index("by_tag", "tags[*]")
    bare = hindex.connect(str(tmp_path / "none")).table(folder)
    for where in ("NOT array_contains(tags, 'red')", "tags IS NULL"):
        assert ids(table.scan(where, ["id"])) == ids(bare.scan(where, ["id"]))
        assert "by_tag  exact" not in str(table.scan(where).explain())
