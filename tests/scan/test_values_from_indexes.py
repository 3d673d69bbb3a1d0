"""Columns whose values an index has are not read: rows and values are those of the data, bit by bit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.index.index_type import KeyRows
from hindex.orc import OrcReader
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.modes import Mode
from hindex.scan import lookup_cost
from hindex.scan.file_columns import values_at
from tests.support.local_build import LocalConnection, indexed_table
from tests.support.small import write_columns
from tests.support.work import decoded

#: Rows of a stripe for each value, so that any three of them are few.
RARITY = 300
ROWS = 2 * RARITY
#: Of each type three values that few rows have, with the literals of two, and one that all others have.
TYPES: dict[str, tuple[pa.DataType, list[Any], str, Any]] = {
    "byte": (pa.int8(), [-128, 5, 127], "-128, 127", 0),
    "small": (pa.int16(), [300, 5, -300], "300, -300", 0),
    "int": (pa.int32(), [7, 8, -9], "7, -9", 0),
    "big": (pa.int64(), [2**63 - 1, 8, -(2**63)], "9223372036854775807, -9223372036854775808", 0),
    "text": (pa.string(), ["ä'b", "", "ä'b "], "'ä''b', 'ä''b '", "?"),
    "bytes": (pa.binary(), [b"\x00\xff", b"\x00", b""], "X'00FF', X''", b"?"),
    "short": (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("1.50"), Decimal(3)], "-1.5, 3", Decimal(0)),
    "long": (
        pa.decimal128(38, 4),
        [Decimal("-12345678901234567890.5"), Decimal(1), Decimal("99999999999999999999.25")],
        "-12345678901234567890.5, 99999999999999999999.25",
        Decimal(0),
    ),
    "day": (
        pa.date32(),
        [datetime.date(1600, 2, 29), datetime.date(2020, 1, 1), datetime.date(9999, 12, 31)],
        "DATE '1600-02-29', DATE '9999-12-31'",
        datetime.date(1970, 1, 1),
    ),
}
#: Types whose equal values may differ, or depend on a time zone: they are read.
OTHERS: dict[str, tuple[pa.DataType, list[Any], str, Any]] = {
    "double": (pa.float64(), [1.5, 2.5, 3.5], "1.5, 3.5", 0.0),
    "float": (pa.float32(), [1.5, 2.5, 3.5], "1.5, 3.5", 0.0),
    "time": (
        pa.timestamp("us"),
        [
            datetime.datetime(2001, 2, 3, 4, 5, 6, 789012),
            datetime.datetime(2020, 1, 1),
            datetime.datetime(2021, 1, 1),
        ],
        "TIMESTAMP '2001-02-03 04:05:06.789012', TIMESTAMP '2021-01-01 00:00:00'",
        datetime.datetime(1970, 1, 1),
    ),
}
ALL = {**TYPES, **OTHERS}


def values_of(name: str) -> list[Any]:
    """The column: the rare values each once in ``RARITY`` rows, from the last to the first, and some nulls."""
    _, rare, _, common = ALL[name]
    values = [None if row % 7 == 6 else common for row in range(ROWS)]
    for start in range(0, ROWS, RARITY):
        for at, value in enumerate(rare):
            values[start + 100 - 10 * at] = value
    return values


def wanted(name: str) -> list[int]:
    """The rows with the first and the last rare value."""
    return sorted(start + row for start in range(0, ROWS, RARITY) for row in (100, 80))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    columns = {name: pa.array(values_of(name), ALL[name][0]) for name in ALL}
    return indexed_table(tmp_path_factory.mktemp("typed"), columns)


@pytest.mark.parametrize("name", ALL)
def test_values_are_those_of_the_data(typed: Table, name: str, opened: list[OrcReader]) -> None:
    of, _, literals, _ = ALL[name]
    rows, values = wanted(name), values_of(name)
    both = typed.scan(f"{name} IN ({literals})", ["id", name])
    result = both.to_arrow()
    assert result.schema.field(name).type == of
    assert result.to_pydict() == {"id": rows, name: [values[row] for row in rows]}
    assert result.equals(typed.scan(f"{name} IN ({literals})", ["id", name], mode=Mode.PROVE).to_arrow())
    before = decoded(opened)
    alone = typed.scan(f"{name} IN ({literals})", [name])
    assert alone.to_arrow().column(name).to_pylist() == [values[row] for row in rows]
    explained = alone.explain()
    if name in OTHERS:
        assert decoded(opened) > before
        assert explained.from_indexes == ()
        return
    assert decoded(opened) == before
    assert explained.from_indexes == (name,)
    assert f"not read (an index has their values): {name}" in str(explained)
    assert f"<div>not read (an index has their values): {name}</div>" in explained.to_html()
    assert explained.to_json()["from_indexes"] == [name]
    assert str(explained.path.value).startswith("index")
    # beside another column, that one alone is read
    typed.scan("id >= 0", ["id"]).to_arrow()
    once = decoded(opened) - before
    both.to_arrow()
    assert decoded(opened) == before + 2 * once


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("int IN (7, -9)", ("int",)),
        ("int > 6", ("int",)),
        ("int BETWEEN -20 AND -1 AND id >= 0", ("int",)),
        ("int IN (7, -9) AND text LIKE 'ä%'", ("int", "text")),
        ("int IN (7, -9) AND small = 300", ("int",)),
        ("int IN (7, -9) AND (big > 0 OR text = 'x')", ("int",)),
        ("int IN (7, -9) OR text LIKE 'ä%'", ()),
        ("int IN (7, -9) OR int IS NULL", ()),
        # most rows
        ("int <> 7", ()),
        # what is checked on data is read
        ("int IN (7, -9) AND length(text) > 3", ()),
    ],
)
def test_conditions(typed: Table, where: str, columns: tuple[str, ...]) -> None:
    scan = typed.scan(where, ["text", "int", "small", "id"])
    everything = typed.scan(where, ["text", "int", "small", "id"], mode=Mode.PROVE)
    rows = scan.to_arrow()
    assert rows.equals(everything.to_arrow())
    assert everything.proof is not None
    assert not everything.proof.disagreements
    assert {*scan.explain().from_indexes} == {*columns}
    # the same rows one by one, from the front and the back
    for limit, offset in ((1, 0), (2, 1), (3, 2)):
        assert scan.limit(limit, offset=offset).to_arrow().equals(rows.slice(offset, limit))


def test_an_order(typed: Table) -> None:
    expected = sorted((values_of("int")[row], row) for row in wanted("int"))
    rows = typed.scan("int IN (7, -9)", ["int", "id"]).order_by("int").to_arrow()
    assert list(zip(*rows.to_pydict().values(), strict=True)) == expected


def test_as_many_rows_as_are_few(
    tmp_path: Path, connection: LocalConnection, opened: list[OrcReader]
) -> None:
    share = lookup_cost._ROWS_PER_VALUE
    for name, count in (("few", 100), ("many", 101)):
        values = [row % 2 if row < count else 9 for row in range(100 * share)]
        write_columns(tmp_path / name / "x.orc", {"n": pa.array(values, pa.int32())})
        table = connection.table(tmp_path / name)
        table.create_index("by_n", "n")
        before = decoded(opened)
        assert table.scan("n < 2", ["n"]).to_arrow().column(0).to_pylist() == values[:count]
        assert (decoded(opened) == before) == (name == "few")


def test_values_of_many_rows_are_bitmaps(
    tmp_path: Path, connection: LocalConnection, opened: list[OrcReader]
) -> None:
    # two of the keys have so many neighboring rows that these lie outside of the leaf
    values = [5] * 300 + [6] * 300 + list(range(10, 30)) + [50] * 60_000
    write_columns(tmp_path / "t" / "x.orc", {"n": pa.array(values, pa.int64())})
    table = connection.table(tmp_path / "t")
    table.create_index("by_n", "n")
    for where, expected in (
        ("n < 15", [value for value in values if value < 15]),
        ("n IN (6, 12, 29)", [value for value in values if value in (6, 12, 29)]),
    ):
        before = decoded(opened)
        assert table.scan(where, ["n"]).to_arrow().column(0).to_pylist() == expected
        assert decoded(opened) == before


def test_files_of_other_types_and_without_the_column(
    tmp_path: Path, connection: LocalConnection, opened: list[OrcReader]
) -> None:
    many = list(range(10, 1000))
    write_columns(tmp_path / "t" / "a.orc", {"n": pa.array([1, 2, *many], pa.int32())})
    write_columns(
        tmp_path / "t" / "b.orc", {"n": pa.array([2, 1, *many], pa.int64()), "s": pa.array(["z"] * 992)}
    )
    write_columns(tmp_path / "t" / "c.orc", {"s": pa.array(["u"])})
    table = connection.table(tmp_path / "t")
    table.create_index("by_n", "n")
    rows = table.scan("n IN (1, 2)", ["n"]).to_arrow()
    assert rows.schema.field("n").type == pa.int64()
    assert rows.column("n").to_pylist() == [1, 2, 2, 1]
    # the file of integers is read
    assert decoded(opened) > 0
    assert table.scan("n IN (1, 2)", ["n"]).explain().from_indexes == ()


def test_an_index_that_is_damaged(typed: Table, tmp_path: Path, connection: LocalConnection) -> None:
    values = [row if row < 5 else 9 + row for row in range(3000)]
    write_columns(tmp_path / "t" / "x.orc", {"n": pa.array(values, pa.int32())})
    table = connection.table(tmp_path / "t")
    table.create_index("by_n", "n")
    (file,) = (tmp_path / "t").glob("_hindex/data/*/*.hidx")
    data = bytearray(file.read_bytes())
    data[20] ^= 255
    file.write_bytes(data)
    scan = table.scan("n < 5", ["n"])
    assert scan.to_arrow().column("n").to_pylist() == [0, 1, 2, 3, 4]
    assert scan.explain().from_indexes == ()


def test_fields_of_structs(tmp_path: Path, connection: LocalConnection, opened: list[OrcReader]) -> None:
    people = [{"city": f"city {row}", "zip": row} for row in range(1000)]
    write_columns(tmp_path / "t" / "x.orc", {"addr": pa.array(people)})
    table = connection.table(tmp_path / "t")
    table.create_index("by_zip", "addr.zip")
    assert table.scan("addr.zip IN (7, 700)", ["addr.zip"]).to_arrow().column(0).to_pylist() == [7, 700]
    assert decoded(opened) == 0
    assert table.scan("addr.zip IN (7, 700)", ["addr"]).to_arrow().column(0).to_pylist() == [
        people[7],
        people[700],
    ]
    assert decoded(opened) > 0


def test_rows_without_a_key_have_no_values() -> None:
    """Any row that the keys lack, at either end or between, and the column is read."""
    keys = KeyRows(np.array([7, 9]), np.array([2, 1]), np.array([3, 8, 5], np.uint32))
    of_columns = {3: 7, 8: 7, 5: 9}
    integer = OrcType(Kind.LONG, 1)
    for rows in ([], [3], [5, 8], [3, 5, 8], [1, 3], [4], [3, 4, 8], [8, 9], [9]):
        values = values_at(integer, keys, np.array(rows, np.uint32))
        expected = [of_columns[row] for row in rows] if of_columns.keys() >= {*rows} else None
        assert (None if values is None else values.to_pylist()) == expected, rows
