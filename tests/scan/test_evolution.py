"""Files of one table whose columns differ: rows are those of Spark given the wider schema, indexed or not."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, TableError
from hindex.orc import OrcReader
from hindex.orc.metadata.types import Kind as OrcKind
from hindex.plan.reasons import Reason
from tests.fuzz.parts import put_together, take_apart
from tests.support import local_build
from tests.support.chars import as_char
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.oracle import assert_same_rows, spark_answers
from tests.support.small import ids, reasons, write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Decimal = decimal.Decimal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def check(table: Table, spark: SparkSession, schema: str, predicates: Sequence[str]) -> None:
    """All rows, and those of every predicate, are Spark's."""
    answers = spark_answers(spark, table.uri, predicates, schema)
    assert_same_rows(table.scan().to_arrow(), answers.rows, schema)
    for predicate, expected in zip(predicates, answers.ids, strict=True):
        assert sorted(ids(table.scan(predicate))) == expected.tolist(), (
            f"{predicate}\n{table.scan(predicate).explain()}"
        )


def test_integers_widen(path: Path, spark: SparkSession) -> None:
    values = {
        pa.int8(): [1, -1, None],
        pa.int16(): [1, 300, 300],
        pa.int32(): [1, 1 << 30, -1],
        pa.int64(): [1, 1 << 40, None],
    }
    for number, (of, column) in enumerate(values.items()):
        at = {"id": pa.array(range(number * 10, number * 10 + 3), pa.int64())}
        write_columns(path / f"{number}.orc", at | {"a": pa.array(column, of)})
    table = hindex.connect(spark=spark).table(str(path))
    assert str(table.schema.resolve("a").type) == "bigint"
    table.create_index("by_a", "a")
    predicates = [
        "a = 1",
        "a <> 1",
        "a > 127",
        "a < 0",
        "a = 1099511627776",
        "a IS NULL",
        "a IN (-1, 300)",
        "NOT a >= 2",
    ]
    check(table, spark, "id bigint, a bigint", predicates)
    for predicate in predicates:
        assert table.scan(predicate).explain().exact, predicate
        assert reasons(table.scan(predicate)) == {}


def test_a_wider_file_that_comes_later(path: Path, spark: SparkSession) -> None:
    """Indexes made when the column was narrow still answer."""
    write_columns(
        path / "1.orc",
        {"id": pa.array([1, 2]), "a": pa.array([1, 2], pa.int8()), "f": pa.array([0.1, 2.5], pa.float32())},
    )
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_f", "f")])
    write_columns(
        path / "2.orc", {"id": pa.array([3, 4]), "a": pa.array([2, 1 << 33]), "f": pa.array([0.1, 2.5])}
    )
    check(
        table,
        spark,
        "id bigint, a bigint, f double",
        ["a = 2", "a > 100", "a < 2", "f = 0.1D", "f = 2.5", "f > 0.1D"],
    )
    for where, kept in (("a = 2", 3), ("f = 2.5", 3)):
        scan = table.scan(where)
        assert set(reasons(scan)) == {Reason.NEW_FILE}
        # one row by index, two to check in the new file
        assert scan.explain().rows.kept == kept  # type: ignore[union-attr]


def test_floats_widen(path: Path, spark: SparkSession) -> None:
    special = [0.1, -0.0, 0.0, float("nan"), float("inf"), None]
    for number, of in enumerate((pa.float32(), pa.float64())):
        at = {"id": pa.array(range(number * 10, number * 10 + 6), pa.int64())}
        write_columns(path / f"{number}.orc", at | {"f": pa.array(special, of)})
    table = hindex.connect(spark=spark).table(str(path))
    table.create_index("by_f", "f")
    predicates = [
        "f = 0.1D",
        "f = 0",
        "f = -0.0D",
        "f > 1",
        "f = CAST('NaN' AS DOUBLE)",
        "f IS NULL",
        "f < 0.1D",
        "f >= 0.1D",
    ]
    check(table, spark, "id bigint, f double", predicates)
    assert all(table.scan(predicate).explain().exact for predicate in predicates)


def test_index_on_short_decimals_does_not_answer_for_long_ones(path: Path, spark: SparkSession) -> None:
    """Decimals of up to 18 digits have other keys than longer ones, at the same scale, too."""
    one = [Decimal("1.00"), Decimal("1.50"), Decimal("-2.25"), None]
    two = [Decimal("1.00"), Decimal("100000000000000000000.50"), Decimal("-2.25"), None]
    write_columns(path / "1.orc", {"id": pa.array([1, 2, 3, 4]), "d": pa.array(one, pa.decimal128(9, 2))})
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_d", "d"), IndexSpec("ends", "d", "minmax")])
    write_columns(path / "2.orc", {"id": pa.array([5, 6, 7, 8]), "d": pa.array(two, pa.decimal128(23, 2))})
    predicates = ["d = 1", "d > 1", "d < 0", "d IS NULL", "d <> 1.0", "d IN (1, -2.25)", "d = 7"]
    check(table, spark, "id bigint, d decimal(23,2)", predicates)
    assert set(reasons(table.scan("d = 1"))) == {Reason.TYPE_MISMATCH, Reason.NEW_FILE}
    table.refresh_indexes()
    check(table, spark, "id bigint, d decimal(23,2)", predicates)
    assert table.scan("d = 1").explain().exact


@pytest.mark.parametrize("indexed_late", [False, True])
def test_a_decimal_of_another_scale(path: Path, spark: SparkSession, indexed_late: bool) -> None:
    """Keys are unscaled numbers, so that an index of another scale does not answer."""
    one = [Decimal("1.00"), Decimal("1.50"), Decimal("-2.25"), None]
    two = [Decimal("1.0000"), Decimal("1.5001"), Decimal("-2.2500"), None]
    write_columns(path / "1.orc", {"id": pa.array([1, 2, 3, 4]), "d": pa.array(one, pa.decimal128(9, 2))})
    table = hindex.connect(spark=spark).table(str(path))
    if not indexed_late:
        table.create_index("by_d", "d")
        assert table.scan("d = 1").explain().exact
    write_columns(path / "2.orc", {"id": pa.array([5, 6, 7, 8]), "d": pa.array(two, pa.decimal128(12, 4))})
    if indexed_late:
        table.create_index("by_d", "d")
    assert str(table.schema.resolve("d").type) == "decimal(12,4)"
    predicates = [
        "d = 1",
        "d = 1.5",
        "d > 1.5",
        "d < 0",
        "d IS NULL",
        "d <> 1.0",
        "d IN (1, 1.5001)",
        "d = 100",
        "d = 10000",
    ]
    check(table, spark, "id bigint, d decimal(12,4)", predicates)
    notes = reasons(table.scan("d = 1.5"))
    stale = {Reason.TYPE_MISMATCH: ["by_d on 1.orc"], Reason.NEW_FILE: ["2.orc"]}
    assert notes == ({} if indexed_late else stale)
    table.refresh_indexes()
    check(table, spark, "id bigint, d decimal(12,4)", predicates)
    assert table.scan("d = 1.5").explain().exact


def test_columns_added_and_reordered(path: Path, spark: SparkSession) -> None:
    write_columns(path / "1.orc", {"id": pa.array([1, 2]), "a": pa.array([1, 2], pa.int32())})
    table = hindex.connect(spark=spark).table(str(path))
    table.create_index("by_a", "a")
    write_columns(
        path / "2.orc",
        {"b": pa.array(["x", None]), "a": pa.array([2, 1], pa.int32()), "id": pa.array([3, 4])},
    )
    assert table.schema.names == ("id", "a", "b")
    table.create_index("by_b", "b")
    predicates = [
        "a = 1",
        "b = 'x'",
        "b IS NULL",
        "b IS NULL AND a = 1",
        "b <> 'x' OR a = 2",
        "NOT (b = 'x' AND a = 2)",
    ]
    check(table, spark, "id bigint, a int, b string", predicates)
    assert reasons(table.scan("b IS NULL")) == {}
    assert table.scan("b IS NULL").explain().exact
    # the second file has an entry by now, for the other index
    assert reasons(table.scan("a = 1")) == {Reason.NOT_BUILT: ["by_a on 2.orc"]}


def test_a_column_renamed_by_case(path: Path, spark: SparkSession) -> None:
    for number, name in ((5, "name"), (6, "NAME"), (7, "Name")):
        write_columns(
            path / f"{number}.orc", {"id": pa.array([number, number + 10]), name: pa.array(["x", "y"])}
        )
    table = hindex.connect(spark=spark).table(str(path))
    assert table.schema.names == ("id", "name")
    table.create_index("by_name", "Name")
    predicates = ["name = 'x'", "NAME <> 'x'", "nAmE IS NULL", "name IN ('y', 'z')"]
    check(table, spark, "id bigint, name string", predicates)
    assert all(table.scan(predicate).explain().exact for predicate in predicates)
    assert table.scan(columns=["NAME"]).schema.names == ["name"]

    # a file that sorts first makes the table spell the column in another way
    write_columns(path / "1.orc", {"ID": pa.array([1, 11]), "NAME": pa.array(["x", None])})
    assert table.schema.names == ("ID", "NAME")
    scan = table.scan("name = 'x'")
    assert scan.to_arrow().column("ID").to_pylist() == [1, 5, 6, 7]
    assert reasons(scan) == {Reason.NEW_FILE: ["1.orc"]}
    assert scan.explain().rows.kept == 5  # type: ignore[union-attr]
    assert table.index("by_name").status.startswith("stale: 1 added; 3 of 4 files indexed, ")


def test_a_column_that_is_gone_from_every_file(path: Path, spark: SparkSession) -> None:
    write_columns(path / "1.orc", {"id": pa.array([1, 2]), "a": pa.array([1, 2])})
    table = hindex.connect(spark=spark).table(str(path))
    table.create_index("by_a", "a")
    write_columns(path / "1.orc", {"id": pa.array([1, 2]), "b": pa.array([1, 2])})
    assert ids(table.scan("b = 2")) == [2]
    with raises(ColumnError):
        table.scan("a = 1").to_arrow()
    (index,) = table.indexes()
    assert index.status.startswith("unusable: Column 'a' cannot be resolved")
    index.drop()
    assert table.indexes() == []


def test_types_that_do_not_fit(path: Path, spark: SparkSession) -> None:
    write_columns(path / "1.orc", {"id": pa.array([1]), "a": pa.array([1])})
    write_columns(path / "2.orc", {"id": pa.array([2]), "a": pa.array(["x"])})
    table = hindex.connect(spark=spark).table(str(path))
    for act in (lambda: table.scan("id = 1").to_arrow(), lambda: table.create_index("i", "id")):
        with raises(TableError):
            act()
    assert not (path / "_hindex").exists()


def test_a_partition_column_that_the_files_hold_too(path: Path, spark: SparkSession) -> None:
    """The directory's value stands in the place of the file's."""
    for part in (1, 2):
        write_columns(
            path / f"part={part}" / "x.orc",
            {
                "id": pa.array([part * 10, part * 10 + 1]),
                "part": pa.array([7, 7], pa.int32()),
                "a": pa.array([1, 2]),
            },
        )
    table = hindex.connect(spark=spark).table(str(path))
    table.create_index("by_a", "a")
    answers = spark_answers(spark, path, ["part = 1", "part = 7", "part = 2 AND a = 1"])
    assert_same_rows(table.scan().to_arrow(), answers.rows, "")
    assert ids(table.scan("part = 1")) == answers.ids[0].tolist() == [10, 11]
    assert ids(table.scan("part = 7")) == answers.ids[1].tolist() == []
    assert ids(table.scan("part = 2 AND a = 1")) == answers.ids[2].tolist() == [20]
    assert table.scan("part = 2 AND a = 1").explain().exact


@pytest.mark.usefixtures("windows")
def test_char_without_its_blanks(path: Path, spark: SparkSession) -> None:
    as_char(path / "1.orc", ["a", "ab ", "abc", "", None, "é", "日本", "é "] * 20, 3)
    expected = spark.read.orc(str(path)).select("id", "c").toArrow()
    assert expected["c"][:3].to_pylist() == ["a  ", "ab ", "abc"]
    for rows in (None, [0, 5, 17, 150], range(3, 160)):
        result = OrcReader(path / "1.orc").read(["id", "c"], rows)
        assert result.equals(expected if rows is None else expected.take(list(rows)))
    table = hindex.connect(spark=spark).table(str(path))
    assert table.scan().to_arrow().equals(expected)
    assert set(table.scan("c = 'é'").to_arrow()["c"].to_pylist()) == {"é  "}


@pytest.mark.parametrize("using", [None, "bitmap", "btree"])
def test_char_beside_string(path: Path, spark: SparkSession, using: str | None) -> None:
    """The blanks of a CHAR do not belong to the text that it is in a table of texts, whether they are stored or not."""
    as_char(path / "1.orc", ["ab", "x", "", "y"], 4)
    as_char(path / "2.orc", ["ab  ", "x   ", "    ", None], 4, 4)
    as_char(path / "3.orc", ["ab ", "x", "z "], 3, 8)
    write_columns(path / "4.orc", {"id": pa.array([11, 12, 13]), "c": pa.array(["ab", "ab  ", ""])})
    table = hindex.connect(spark=spark).table(str(path))
    assert str(table.schema.resolve("c").type) == "string"
    if using:
        table.create_index("by_c", "c", using=using)
    predicates = [
        "c = 'ab'",
        "c = 'ab  '",
        "c IN ('x', 'z')",
        "c = ''",
        "c LIKE 'ab%'",
        "c < 'b'",
        "length(c) = 2",
    ]
    check(table, spark, "id bigint, c string", predicates)
    if using:
        assert table.index("by_c").check(verify=True).problems == ()


def test_char_within_others(path: Path, spark: SparkSession) -> None:
    """The blanks do not belong to the text in structs, lists and maps either."""
    values = {
        "id": pa.array(range(4)),
        "s": pa.array([{"c": "ab  ", "n": 1}, None, {"c": None, "n": 2}, {"c": "x   ", "n": None}]),
        "l": pa.array([["ab  ", None], [], None, ["q   "]]),
        "m": pa.array([[("a   ", "b   ")], None, [], [("c   ", None)]], pa.map_(pa.string(), pa.string())),
    }
    write_columns(path / "1.orc", values, codec="none")
    parts = take_apart((path / "1.orc").read_bytes())
    for of in parts.footer.types:
        if of.kind == OrcKind.STRING:
            of.kind, of.maximum_length = OrcKind.CHAR, 4
    (path / "1.orc").write_bytes(put_together(parts))
    write_columns(path / "2.orc", values | {"id": pa.array(range(4, 8))})
    schema = "id bigint, s struct<c:string,n:bigint>, l array<string>, m map<string,string>"
    expected = spark.read.schema(schema).orc(str(path)).orderBy("id").toArrow().to_pylist()
    assert expected[0]["l"] == ["ab", None]
    table = hindex.connect(spark=spark).table(str(path))
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == expected
    assert table.scan("id IN (0, 3, 4)").to_arrow().to_pylist() == [expected[i] for i in (0, 3, 4)]


def test_fields_of_structs_are_found_by_their_names(path: Path, spark: SparkSession) -> None:
    """In another order, spelled otherwise, narrower or missing, within lists and maps too: as fields read alone are."""
    wide = pa.struct(
        {"n": pa.int64(), "t": pa.string(), "in": pa.struct({"x": pa.int32(), "y": pa.string()})}
    )
    other = pa.struct(
        {"IN": pa.struct({"Y": pa.string(), "X": pa.int8()}), "T": pa.string(), "N": pa.int32()}
    )
    less = pa.struct({"t": pa.string()})
    files = [
        (wide, {"n": 1, "t": "a", "in": {"x": 2, "y": "b"}}, {"n": None, "t": "c", "in": None}),
        (
            other,
            {"N": 3, "T": "d", "IN": {"X": 4, "Y": "e"}},
            {"N": 5, "T": None, "IN": {"X": None, "Y": "f"}},
        ),
        (less, {"t": "g"}, {"t": None}),
    ]
    for number, (of, one, two) in enumerate(files):
        columns = {
            "id": pa.array(range(4 * number, 4 * number + 4)),
            "s": pa.array([one, None, two, one], of),
            "l": pa.array([[one, two], None, [], [None, one]], pa.list_(of)),
            "m": pa.array([[("k", two)], [], None, [("k", one), ("l", None)]], pa.map_(pa.string(), of)),
        }
        write_columns(path / f"{number}.orc", columns)
    fields = "struct<n:bigint,t:string,`in`:struct<x:int,y:string>>"
    schema = f"id bigint, s {fields}, l array<{fields}>, m map<string,{fields}>"
    expected = spark.read.schema(schema).orc(str(path)).orderBy("id").toArrow().to_pylist()
    assert expected[4]["s"] == {"n": 3, "t": "d", "in": {"x": 4, "y": "e"}}
    table = hindex.connect(spark=spark).table(str(path))
    assert table.scan().to_arrow().to_pylist() == expected
    table.create_index("by_t", "s.t")
    for value, rows in (("a", [0, 3]), ("d", [4, 7]), ("g", [8, 11])):
        assert table.scan(f"s.t = '{value}'").to_arrow().to_pylist() == [expected[row] for row in rows]
        assert table.scan(f"s.t = '{value}'", ["l"]).to_arrow()["l"].to_pylist() == [
            expected[row]["l"] for row in rows
        ]


def test_file_whose_names_are_matched_by_letter_case_alone_is_not_indexed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of such a column depends on the other files, so its index may be on another column later."""
    local_build.install(monkeypatch)
    at = {"id": pa.array([1, 2, 3])}
    write_columns(path / "2.orc", at | {"AB": pa.array([1, 2, 3]), "ab": pa.array([3, 4, 5])})
    table = LocalConnection().table(str(path))
    table.create_index("upper", ("AB",))
    assert (ids(table.scan("AB = 3")), reasons(table.scan("AB = 3"))) == ([3], {})
    # another file of the table calls the first of the two otherwise
    write_columns(path / "1.orc", at | {"aB": pa.array([7, 3, 3])})
    table = LocalConnection().table(str(path))
    assert [column.name for column in table.schema.columns] == ["id", "aB", "ab"]
    table.drop_index("upper")
    table.create_index("mixed", ("aB",))
    scan = table.scan("aB = 3", ["id", "aB"])
    assert sorted(row["id"] for row in scan.to_arrow().to_pylist()) == [2, 3, 3]
    assert reasons(scan) == {Reason.NEW_FILE: ["2.orc"]}
