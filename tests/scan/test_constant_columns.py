"""Columns that a condition leaves one value are not read: rows and values are those of the data, bit by bit."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyorc
import pytest

from hindex.api.scan import Scan
from hindex.api.table import Table
from hindex.orc import OrcReader
from hindex.plan.modes import Mode
from hindex.scan import file_columns
from tests.support.local_build import LocalConnection, indexed_table
from tests.support.small import ROWS as SMALL
from tests.support.small import keep_stat, write_columns, write_rows
from tests.support.work import decoded

ROWS = 500
#: Of each type some values, the first of which is asked for, with the literal; they take turns.
TYPES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "bool": (pa.bool_(), [True, False, None], "TRUE"),
    "byte": (pa.int8(), [-128, 5, None], "-128"),
    "small": (pa.int16(), [300, 5], "300"),
    "int": (pa.int32(), [7, 8, None], "7"),
    "big": (pa.int64(), [2**63 - 1, 8], "9223372036854775807"),
    "text": (pa.string(), ["ä'b", "", "ä'b ", None], "'ä''b'"),
    "empty": (pa.string(), ["", "x", None], "''"),
    "bytes": (pa.binary(), [b"\x00\xff", b"\x00"], "X'00FF'"),
    "short": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("1.50")], "-1.5"),
    "long": (
        pa.decimal128(38, 4),
        [Decimal("-12345678901234567890.5"), Decimal(0)],
        "-12345678901234567890.5",
    ),
    "day": (pa.date32(), [datetime.date(1600, 2, 29), datetime.date(2020, 1, 1)], "DATE '1600-02-29'"),
    "time": (
        pa.timestamp("us"),
        [datetime.datetime(2001, 2, 3, 4, 5, 6, 789012), datetime.datetime(2020, 1, 1)],
        "TIMESTAMP '2001-02-03 04:05:06.789012'",
    ),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    columns = {
        name: pa.array([values[i % len(values)] for i in range(ROWS)], of)
        for name, (of, values, _) in TYPES.items()
    }
    return indexed_table(tmp_path_factory.mktemp("typed"), columns)


@pytest.mark.parametrize("name", TYPES)
def test_values_are_those_of_the_data(typed: Table, name: str, opened: list[OrcReader]) -> None:
    of, values, literal = TYPES[name]
    expected = [i for i in range(ROWS) if i % len(values) == 0]
    both = typed.scan(f"{name} = {literal}", ["id", name])
    rows = both.to_arrow()
    assert rows.schema.field(name).type == of
    assert rows.to_pydict() == {"id": expected, name: [values[0]] * len(expected)}
    assert rows.equals(typed.scan(f"{name} = {literal}", ["id", name], mode=Mode.PROVE).to_arrow())
    assert both.explain().fixed == (name,)

    before = decoded(opened)
    alone = typed.scan(f"{name} = {literal}", [name])
    assert alone.to_arrow().column(name).to_pylist() == [values[0]] * len(expected)
    assert alone.head(3).num_rows == 3
    assert decoded(opened) == before
    assert str(alone.explain().path.value).startswith("index")
    # with another column as much as of that one
    typed.scan(f"{name} = {literal}", ["id"]).to_arrow()
    once = decoded(opened) - before
    both.to_arrow()
    assert once > 0
    assert decoded(opened) == before + 2 * once


def test_nulls(typed: Table, opened: list[OrcReader]) -> None:
    expected = [i for i in range(ROWS) if i % 3 == 2]
    scan = typed.scan("int IS NULL AND bool IS NULL", ["int", "bool"])
    rows = scan.to_arrow()
    assert rows.equals(
        pa.table({"int": pa.nulls(len(expected), pa.int32()), "bool": pa.nulls(len(expected), pa.bool_())})
    )
    assert decoded(opened) == 0
    explained = scan.explain()
    assert explained.fixed == ("int", "bool")
    messages = "not read (constant under the predicate): int, bool"
    assert f"\n  {messages}\n" in str(explained) + "\n"
    assert f"<div>{messages}</div>" in explained.to_html()
    assert explained.to_json()["fixed"] == ["int", "bool"]


@pytest.mark.parametrize(
    ("where", "constant"),
    [
        ("int = 7 AND small > 0", ("int",)),
        ("int = 7 AND (small = 5 OR big = 8)", ("int",)),
        ("int IN (7) AND small BETWEEN 5 AND 5", ("small", "int")),
        ("NOT (int <> 7)", ("int",)),
        ("7 <=> int", ("int",)),
        ("int = 7 OR small = 5", ()),
        ("int IN (7, 8)", ()),
        ("int = 7 OR int IS NULL", ()),
        ("int > 7", ()),
        ("upper(text) = 'X' AND int = 7", ()),
        ("int = 7 AND int = 8", ()),
        ("int = 7 AND int IS NULL", ()),
    ],
)
def test_only_what_all_rows_have(typed: Table, where: str, constant: tuple[str, ...]) -> None:
    scan = typed.scan(where, ["small", "int", "id"])
    everything = typed.scan(where, ["small", "int", "id"], mode=Mode.PROVE)
    assert scan.to_arrow().equals(everything.to_arrow())
    assert everything.proof is not None
    assert not everything.proof.disagreements
    assert scan.explain().fixed == constant


def test_values_that_are_equal_and_differ_are_read(tmp_path: Path, connection: LocalConnection) -> None:
    zeros = [0.0, -0.0, 1.0] * 100
    write_columns(
        tmp_path / "t" / "x.orc",
        {
            "d": pa.array(zeros, pa.float64()),
            "f": pa.array(zeros, pa.float32()),
            "c": pa.array(["a", "a ", "b"] * 100),
        },
    )
    table = connection.table(tmp_path / "t")
    for name in "df":
        table.create_index(f"by_{name}", name)
        scan = table.scan(f"{name} = 0", [name])
        signs = [math.copysign(1, value) for value in scan.to_arrow().column(name).to_pylist()]
        assert signs == [1, -1] * 100
        assert scan.explain().fixed == ()


def test_a_file_that_changed_is_read(path: Path, table: Table) -> None:
    assert table.scan("a = 3", ["a"]).explain().fixed == ("a",)
    scan = table.scan("a = 3", ["a", "id"])
    # of the same length and time: only its tail tells, by the statistics
    new = [i % 9 for i in range(SMALL)]
    keep_stat(path / "one.orc", lambda: write_rows(path / "one.orc", 0, new))
    expected = [i for i in range(SMALL) if new[i] == 3] + [i for i in range(SMALL, 2 * SMALL) if i % 10 == 3]
    assert scan.to_arrow().to_pydict() == {"a": [3] * len(expected), "id": expected}
    # what is checked on data is read
    assert scan.explain().fixed == ()


def test_what_is_too_large_for_an_array_is_read(
    typed: Table, opened: list[OrcReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> Scan:
        return typed.scan("text = 'ä''b'", ["text"])

    assert asked().to_arrow().num_rows == ROWS // 4
    assert decoded(opened) == 0
    monkeypatch.setattr(file_columns, "_MAX_BYTES", 100)
    assert asked().to_arrow().column("text").to_pylist() == ["ä'b"] * (ROWS // 4)
    assert decoded(opened) > 0


def test_files_of_other_types_and_without_the_column(tmp_path: Path, connection: LocalConnection) -> None:
    write_columns(tmp_path / "t" / "a.orc", {"n": pa.array([1, 2], pa.int32()), "s": pa.array(["x", "y"])})
    write_columns(tmp_path / "t" / "b.orc", {"n": pa.array([2, 1], pa.int64()), "s": pa.array(["z", "w"])})
    write_columns(tmp_path / "t" / "c.orc", {"s": pa.array(["u"])})
    table = connection.table(tmp_path / "t")
    table.create_index("by_n", "n")
    rows = table.scan("n = 1", ["n", "s"]).to_arrow()
    assert rows.schema.field("n").type == pa.int64()
    assert rows.to_pydict() == {"n": [1, 1], "s": ["x", "w"]}
    assert table.scan("n IS NULL", ["n", "s"]).to_arrow().to_pydict() == {"n": [None], "s": ["u"]}


def test_fields_of_structs(tmp_path: Path, connection: LocalConnection, opened: list[OrcReader]) -> None:
    people = [{"city": "Ulm", "zip": 1}, None, {"city": None, "zip": 2}, {"city": "Bonn", "zip": 3}]
    write_columns(tmp_path / "t" / "x.orc", {"addr": pa.array(people)})
    table = connection.table(tmp_path / "t")
    table.create_index("by_city", "addr.city")
    assert table.scan("addr.city = 'Ulm'", ["addr.city"]).to_arrow().column(0).to_pylist() == ["Ulm"]
    assert table.scan("addr.city IS NULL", ["addr.city"]).to_arrow().column(0).to_pylist() == [None, None]
    assert decoded(opened) == 0
    # the struct itself is another column
    assert table.scan("addr.city IS NULL", ["addr"]).to_arrow().column(0).to_pylist() == people[1:3]
    assert decoded(opened) > 0


def test_orders_groups_and_limits(typed: Table) -> None:
    expected = [i for i in range(ROWS) if i % 3 == 0]
    rows = typed.scan("int = 7", ["int", "id"], limit=4).to_arrow().to_pydict()
    assert rows == {"int": [7] * 4, "id": expected[:4]}
    scan = typed.scan("int = 7")
    assert (scan.min("int"), scan.max("int"), scan.count("int")) == (7, 7, len(expected))
    counts = scan.value_counts("int", "small").to_pydict()
    assert dict(zip(counts["small"], counts["count"], strict=True)) == {
        300: sum(i % 2 == 0 for i in expected),
        5: sum(i % 2 == 1 for i in expected),
    }
    assert counts["int"] == [7, 7]


@pytest.mark.parametrize("limit", [None, 5])
def test_an_order_s_column_is_read(typed: Table, limit: int | None) -> None:
    # none of its indexes is worth a walk, and it has none
    messages = typed.scan("int = 7", ["int"], limit=limit).order_by("id").explain()
    assert messages.fixed == ("int",)
    assert not str(messages.path.value).startswith("index")
    assert messages.bytes is not None
    assert messages.bytes.kept
    messages = typed.scan("int = 7", ["int"], limit=limit).order_by("int").explain()
    assert str(messages.path.value).startswith("index")


def test_unions_that_are_null(tmp_path: Path, connection: LocalConnection) -> None:
    file = tmp_path / "t" / "x.orc"
    file.parent.mkdir()
    with (
        file.open("wb") as out,
        pyorc.Writer(out, "struct<id:int,u:uniontype<int,string>,s:struct<u:uniontype<int>>>") as writer,
    ):
        writer.writerows([(i, i if i % 2 else None, (i,) if i % 2 else None) for i in range(10)])
    table = connection.table(tmp_path / "t")
    for name in "us":
        scan = table.scan(f"{name} IS NULL", ["id", name])
        assert scan.to_arrow().equals(table.scan(f"{name} IS NULL", ["id", name], mode=Mode.PROVE).to_arrow())
