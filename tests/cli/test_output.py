"""Rows as text for people and programs: nothing is hidden, and nulls and odd characters stay clear."""

from __future__ import annotations

import csv
import datetime
import io
import json
from decimal import Decimal
from importlib.metadata import version

import pyarrow as pa
import pytest

from hindex.api.index_statements import SHOW_INDEXES_SCHEMA, brief_columns
from hindex.api.statement_table import RecordList, StatementTable
from hindex.api.value_formatting import format_json, format_values
from hindex.cli.output import SLICE_ROWS, output_for
from hindex.cli.results import write_result
from hindex.maintain.results import CheckResult, IndexState, RenameResult, VacuumedFile, VacuumResult

TABLE = pa.table(
    {
        "id": pa.array([1, -20, None], pa.int64()),
        "name": ["MAIL", None, ""],
        "price": pa.array([Decimal("1.50"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
    }
)


def written(name: str, table: pa.Table) -> str:
    stream = io.StringIO()
    output_for(name, stream).rows(table.schema, table.to_batches())
    return stream.getvalue()


def test_table() -> None:
    assert written("table", TABLE) == (
        "id   │ name │ price\n"
        "─────┼──────┼──────\n"
        "   1 │ MAIL │  1.50\n"
        " -20 │ NULL │ -0.01\n"
        "NULL │      │  NULL\n"
        "(3 rows)\n"
    )


def test_a_table_without_columns_is_one_line() -> None:
    nothing = pa.table({})
    assert written("table", nothing) == "(0 rows; no data file has a column)\n"
    assert written("json", nothing) == "[]\n"


def test_indexes_are_brief_in_a_table_alone() -> None:
    """People get the columns that fit, and partitions where there are any; programs get all."""
    row = dict.fromkeys(SHOW_INDEXES_SCHEMA.names) | {
        "name": "i",
        "column": "a",
        "size_bytes": 5,
        "comment": "why",
    }
    brief = ["name", "table", "column", "type", "status", "size_bytes"]
    for where, names in ((None, brief), ("p = 1", [*brief, "partitions"])):
        table = pa.Table.from_pylist([row, row | {"partitions": where}], SHOW_INDEXES_SCHEMA)
        result = {}
        for name in ("table", "csv", "json"):
            stream = io.StringIO()
            result_table = StatementTable("SHOW INDEXES", table, brief_columns(table))
            assert write_result(result_table, output_for(name, stream)) == 2
            result[name] = stream.getvalue()
        assert [name.strip() for name in result["table"].split("\n")[0].split("│")] == names
        assert result["csv"].split("\n")[0] == ",".join(SHOW_INDEXES_SCHEMA.names)
        assert list(json.loads(result["json"])[0]) == SHOW_INDEXES_SCHEMA.names


def test_json() -> None:
    text = written("json", TABLE)
    assert text.splitlines()[1] == '  {"id": 1, "name": "MAIL", "price": 1.50},'
    assert json.loads(text) == [
        {"id": 1, "name": "MAIL", "price": 1.5},
        {"id": -20, "name": None, "price": -0.01},
        {"id": None, "name": "", "price": None},
    ]


@pytest.mark.parametrize("width", [17, -1])
def test_wide_tables_have_a_column_per_line(width: int) -> None:
    stream = io.StringIO()
    assert output_for("table", stream, lambda: width).rows(TABLE.schema, TABLE.slice(0, 2).to_batches()) == 2
    assert stream.getvalue() == (
        "─[ row 1 ]─\nid    │ 1\nname  │ MAIL\nprice │ 1.50\n"
        "─[ row 2 ]─\nid    │ -20\nname  │ NULL\nprice │ -0.01\n(2 rows)\n"
    )
    fitting = io.StringIO()
    output_for("table", fitting, lambda: 19).rows(TABLE.schema, TABLE.to_batches())
    assert fitting.getvalue() == written("table", TABLE)


def test_ndjson() -> None:
    rows = [json.loads(line) for line in written("ndjson", TABLE).splitlines()]
    assert rows == json.loads(written("json", TABLE))
    stream = io.StringIO()
    output_for("ndjson", stream).explanation("text", {"a": [1]})
    assert stream.getvalue() == '{"a": [1]}\n'


def test_csv() -> None:
    assert written("csv", TABLE) == 'id,name,price\n1,MAIL,1.50\n-20,,-0.01\n,"",\n'


def test_csv_that_needs_quotes() -> None:
    rows = ["a,b", 'say "hi"', "two\nlines", " edge", "plain"]
    text = written("csv", pa.table({"a,b": rows}))
    assert list(csv.reader(io.StringIO(text))) == [["a,b"], *([row] for row in rows)]


@pytest.mark.parametrize(("name", "text"), [("json", "[]\n"), ("csv", "id,name,price\n")])
def test_no_rows(name: str, text: str) -> None:
    assert written(name, TABLE.slice(0, 0)) == text


def test_no_rows_of_a_table() -> None:
    assert written("table", TABLE.slice(0, 0)) == "id │ name │ price\n───┼──────┼──────\n(0 rows)\n"


def test_one_row() -> None:
    assert written("table", TABLE.slice(0, 1)).endswith("(1 row)\n")


@pytest.mark.parametrize("name", ["table", "json", "csv"])
def test_every_row_of_many_batches_is_written_in_order(name: str) -> None:
    count = 2 * SLICE_ROWS + 7
    table = pa.table({"n": range(count)})
    stream = io.StringIO()
    result = output_for(name, stream).rows(table.schema, table.to_batches(max_chunksize=SLICE_ROWS + 1))
    assert result == count
    digits = "".join(c if c.isdigit() else " " for c in stream.getvalue()).split()
    assert list(map(int, digits))[:count] == list(range(count))


def test_values_wider_than_the_first_rows_are_not_cut() -> None:
    long = "x" * 300
    assert long in written("table", pa.table({"s": ["a"] * SLICE_ROWS + [long]}))


def test_a_table_has_no_characters_that_steer_a_terminal() -> None:
    text = written("table", pa.table({"s": ["\x1b[2J", "a\tb", "line\nline", "\x00"]}))
    assert text.splitlines()[2:6] == [r"\x1b[2J", r"a\tb", r"line\nline", r"\x00"]


older_rich = pytest.mark.skipif(
    tuple(map(int, version("rich").split(".")[:2])) < (14, 3), reason="rich counts one column before 14.3"
)


@pytest.mark.parametrize(
    ("wide", "width"),
    [("東京", 4), ("👍", 2), pytest.param("❤️", 2, marks=older_rich), ("e\u0301", 1), ("é", 1), ("🇫🇷", 2)],
)
def test_wide_characters_stay_in_line(wide: str, width: int) -> None:
    lines = written("table", pa.table({"s": [wide, "abcde"], "t": ["x", "y"]})).splitlines()
    assert lines[2:4] == [f"{wide}{' ' * (5 - width)} │ x", "abcde │ y"]


def test_rows_of_several_batches_stay_in_line() -> None:
    words = ["a", "emoji", "somewhat longer"] * 8 + ["b"]
    numbers = [10**at for at in range(12)] * 2 + [7]
    table = pa.table({"s": words, "n": numbers, "end": ["|"] * 25})
    stream = io.StringIO()
    batches = [table.slice(at, 1).combine_chunks().to_batches()[0] for at in range(25)]
    assert output_for("table", stream).rows(table.schema, batches) == 25
    lines = stream.getvalue().splitlines()[:-1]
    assert {line.rindex("│") for line in (lines[0], *lines[2:])} == {lines[1].rindex("┼")}
    assert stream.getvalue() == written("table", table)


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", r'"{""a"": ""\u00e4"", ""b"": [""x\ud83d\ude00""]}"'),
        ("latin-1", r'"{""a"": ""\u00e4"", ""b"": [""x\ud83d\ude00""]}"'),
        ("utf-8", '"{""a"": ""ä"", ""b"": [""x😀""]}"'),
    ],
)
def test_nested_values_fit_into_any_encoding(encoding: str, expected: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding, newline="")
    table = pa.table({"s": [{"a": "ä", "b": ["x😀"]}, {"a": "plain", "b": None}, None]})
    output_for("csv", stream).rows(table.schema, table.to_batches())
    stream.flush()
    assert raw.getvalue().decode(encoding).splitlines() == [
        "s",
        expected,
        '"{""a"": ""plain"", ""b"": null}"',
        "",
    ]
    fields = [row[0] for row in csv.reader(io.StringIO(raw.getvalue().decode(encoding))) if row]
    assert json.loads(fields[1]) == {"a": "ä", "b": ["x😀"]}


def test_characters_of_the_encoding_are_not_escaped() -> None:
    assert format_values(pa.array([["ä"], ["東"]]), "latin-1") == ['["ä"]', '["\\u6771"]']


@pytest.mark.parametrize(
    ("values", "kind", "text", "document"),
    [
        ([True, None], pa.bool_(), ["true", None], ["true", "null"]),
        ([0.1, 1e20, float("nan")], pa.float64(), ["0.1", "1e+20", "NaN"], ["0.1", "1e+20", '"NaN"']),
        ([float("-inf")], pa.float32(), ["-Infinity"], ['"-Infinity"']),
        ([Decimal("0.0000001")], pa.decimal128(38, 7), ["0.0000001"], ["0.0000001"]),
        ([b"\x00\xff"], pa.binary(), ["00FF"], ['"00FF"']),
        ([datetime.date(1, 2, 3)], pa.date32(), ["0001-02-03"], ['"0001-02-03"']),
        ([0, 1_500_000], pa.timestamp("us"), ["1970-01-01 00:00:00", "1970-01-01 00:00:01.5"], None),
        ([-1], pa.timestamp("us"), ["1969-12-31 23:59:59.999999"], ['"1969-12-31 23:59:59.999999"']),
        ([10_000_000], pa.timestamp("us", "Asia/Tokyo"), ["1970-01-01 00:00:10Z"], None),
        ([[1, None]], pa.list_(pa.int32()), ["[1, null]"], ["[1, null]"]),
        ([{"a": "x"}], pa.struct([("a", pa.string())]), ['{"a": "x"}'], ['{"a": "x"}']),
        ([None], pa.struct([("a", pa.string())]), [None], ["null"]),
        ([[float("nan"), -1.5]], pa.list_(pa.float64()), ['["NaN", -1.5]'], ['["NaN", -1.5]']),
        ([[b"\xff"], None, []], pa.list_(pa.binary()), ['["FF"]', None, "[]"], ['["FF"]', "null", "[]"]),
        ([[Decimal("1.50")]], pa.list_(pa.decimal128(5, 2)), ["[1.50]"], ["[1.50]"]),
        # the year 10000, which Python's datetime does not have
        ([[253402300800000000]], pa.list_(pa.timestamp("us")), ['["10000-01-01 00:00:00"]'], None),
        ([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int32()), ['[["a", 1], ["b", null]]'], None),
        (['"ü"'], pa.string(), ['"ü"'], [json.dumps('"ü"')]),
        # people read the one, any output takes the other
        (
            [{"città": ["São", "\n"]}],
            pa.struct([("città", pa.list_(pa.string()))]),
            ['{"città": ["São", "\\n"]}'],
            ['{"citt\\u00e0": ["S\\u00e3o", "\\n"]}'],
        ),
        ([[("é", "東")]], pa.map_(pa.string(), pa.string()), ['[["é", "東"]]'], None),
        ([2**63 - 1], pa.int64(), ["9223372036854775807"], ["9223372036854775807"]),
    ],
)
def test_text_of_values(
    values: list[object], kind: pa.DataType, text: list[str | None], document: list[str] | None
) -> None:
    column = pa.array(values, kind)
    assert format_values(column) == text
    if document is not None:
        assert format_json(column) == document
    for part in format_json(column):
        json.loads(part)


def test_strings_that_are_not_utf8() -> None:
    column = pa.array([b"ok", b"\xff!", None], pa.binary()).view(pa.string())
    assert format_values(column) == ["ok", r"\xff!", None]


class Explanation:
    def to_text(self) -> str:
        return "predicate  a = 1"

    def to_json(self) -> object:
        return {"predicate": "a = 1"}


class Index:
    name = "g"
    column = "gender"
    type = "BITMAP"
    status = "FRESH"
    size_bytes = 123


VACUUMED = VacuumResult("t", (VacuumedFile("data/x", 1500, "why"),), 1500, 2, 24, True, False)
CHECKED = CheckResult("g", "t", IndexState.STALE, 3, 1, 1, 1, 0, 99.9, 2, ("torn", "wrong"), ("left",))
CHECK_HEADER = (
    "index,table,state,files,fresh,changed,added,gone,rows_covered,verified_stripes,problems,notes\n"
)
HEADER = "name,column,type,status,size_bytes\n"
ROW = "g,gender,BITMAP,FRESH,123\n"


@pytest.mark.parametrize(
    ("result", "name", "text"),
    [
        (RenameResult("g", "h", "t"), "table", "Index 'g' of 't' is now 'h'\n"),
        (RenameResult("g", "h", "t"), "json", '[\n  {"index": "g", "new_name": "h", "table": "t"}\n]\n'),
        (RenameResult("g", "h", "t"), "csv", "index,new_name,table\ng,h,t\n"),
        (VACUUMED, "table", "Would remove 1 file of 't' (1.5 kB); 2 more not needed, kept for 24 h\n"),
        (VACUUMED, "csv", "path,bytes,reason\ndata/x,1500,why\n"),
        (pa.table({"count(1)": [42]}), "table", "count(1)\n────────\n      42\n(1 row)\n"),
        (pa.table({"count(1)": [42]}), "json", '[\n  {"count(1)": 42}\n]\n'),
        (pa.table({"count(1)": [42]}), "csv", "count(1)\n42\n"),
        (Explanation(), "table", "predicate  a = 1\n"),
        (Explanation(), "json", '{\n  "predicate": "a = 1"\n}\n'),
        (Index(), "csv", HEADER + ROW),
        (
            RecordList("CHECK", CheckResult, [CHECKED]),
            "csv",
            CHECK_HEADER + 'g,t,stale,3,1,1,1,0,99.9,2,"[""torn"", ""wrong""]","[""left""]"\n',
        ),
        (RecordList("CHECK", CheckResult, []), "csv", CHECK_HEADER),
    ],
)
def test_results_of_statements(result: object, name: str, text: str) -> None:
    stream = io.StringIO()
    write_result(result, output_for(name, stream))
    assert stream.getvalue() == text


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": 1}, None, {"a": None}], pa.struct([("a", pa.int32())])),
        pa.array([[1, 2], None, [3]], pa.list_(pa.int32())),
        pa.array([[("a", 1), ("b", 2)], None, [("c", 3)]], pa.map_(pa.string(), pa.int32())),
    ],
)
def test_slices_of_nested_values(column: pa.Array) -> None:
    whole = format_json(column)
    for start in range(4):
        for end in range(start, 4):
            assert format_json(column[start:end]) == whole[start:end]
