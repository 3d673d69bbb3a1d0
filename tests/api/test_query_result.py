"""Results of queries without a session: one class for every shape, read on demand."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hindex
from hindex.api.query_result import QueryResult
from hindex.errors import ArgumentError, ColumnError, HindexError, UnknownNameError
from hindex.orc import OrcReader
from tests.support.small import write_columns

NAN = math.nan
ROWS: list[tuple[Any, ...]] = [
    (0, 3, "b", 1.5, Decimal("1.10"), datetime.date(2020, 1, 2)),
    (1, None, "a", NAN, None, None),
    (2, 1, None, -0.0, Decimal("-2.00"), datetime.date(1999, 12, 31)),
    (3, 3, "a", 0.0, Decimal("1.10"), datetime.date(2020, 1, 2)),
    (4, 2, "ä\tx", None, Decimal("7.25"), datetime.date(2020, 1, 2)),
    (5, 3, "b", NAN, Decimal("0.00"), None),
]
TYPES = [pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.decimal128(9, 2), pa.date32()]
NAMES = ["id", "a", "s", "x", "d", "day"]
#: One of each shape; all have a column ``a``.
SHAPES = [
    "SELECT * FROM {}",
    "SELECT * FROM {} LIMIT 4",
    "SELECT a, s AS t FROM {} WHERE id > 0 ORDER BY id DESC",
    "SELECT id AS a FROM {} ORDER BY s LIMIT 3",
    "SELECT count(*) AS a, min(x), max(day) FROM {}",
    "SELECT DISTINCT a FROM {}",
    "SELECT a, count(*) AS n, count(DISTINCT s) AS m FROM {} GROUP BY a HAVING count(*) > 0 ORDER BY n DESC",
    "SELECT EXISTS(SELECT 1 FROM {} WHERE a = 2) AS a",
]


def write(path: Path, rows: list[tuple[Any, ...]]) -> None:
    columns = {
        name: pa.array([row[at] for row in rows], data_type)
        for at, (name, data_type) in enumerate(zip(NAMES, TYPES, strict=True))
    }
    write_columns(path, columns)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write(tmp_path / "t" / "1.orc", ROWS[:4])
    write(tmp_path / "t" / "2.orc", ROWS[4:])
    return tmp_path / "t"


def result(text: str, table: Path) -> QueryResult:
    found = hindex.connect().sql(text.format(f"'{table}'"))
    assert type(found) is hindex.QueryResult
    return found


@pytest.mark.parametrize("text", SHAPES)
def test_every_shape_has_every_method(text: str, table: Path) -> None:
    """What the methods say is what plain Python makes of the rows."""
    found = result(text, table)
    rows = found.to_arrow()
    assert rows.num_rows
    assert found.columns == found.schema.names == rows.column_names
    assert rows.schema == found.schema == found.to_reader().schema == pa.table(found).schema
    for other in (pa.table(found), found.to_reader().read_all(), pa.Table.from_batches(found.to_batches())):
        assert repr(other.to_pylist()) == repr(rows.to_pylist())
    assert repr(found.head(2).to_pylist()) == repr(rows.slice(0, 2).to_pylist())
    assert found.head(0).schema == rows.schema
    assert found.to_pandas(types_mapper={pa.int64(): None}.get).shape == (rows.num_rows, rows.num_columns)
    assert (found.count(), found.exists()) == (rows.num_rows, True)
    for name in found.columns:
        values = rows.column(name).to_pylist()
        keys = [None if value is None else key(value) for value in values]
        present = sorted({value for value in keys if value is not None})
        listed = [None] * (None in keys) + present
        assert found.count(name) == len(keys) - keys.count(None)
        assert found.count_distinct(name.upper()) == len(present)
        assert [found.min(name), found.max(name)] == [unkeyed(present[0]), unkeyed(present[-1])] or (
            present[-1] == NAN_KEY
        )
        assert [None if value is None else key(value) for value in found.distinct(name).to_pylist()] == listed
        assert found.distinct(name).type == rows.schema.field(name).type
        counted = found.value_counts(name)
        assert counted.column_names == [name, "count"]
        assert counted.column(1).to_pylist() == [Counter(keys)[value] for value in listed]
        for descending in (False, True):
            ordered = found.order_by(name, descending=descending, nulls_first=True)
            assert ordered.schema == rows.schema
            places = [None if value is None else key(value) for value in ordered.to_arrow()[name].to_pylist()]
            expected = sorted((value for value in keys if value is not None), reverse=descending)
            assert places == [None] * keys.count(None) + expected
    if len(found.columns) > 1:
        pair = found.columns[:2]
        counts = Counter(zip(*(map(repr, rows.column(name).to_pylist()) for name in pair), strict=True))
        assert sum(found.value_counts(*pair)["count"].to_pylist()) == rows.num_rows
        assert found.value_counts(*pair).num_rows == len(counts)


NAN_KEY = (1, 0.0)


def key(value: Any) -> Any:
    """What orders a value as Spark does: NaN is one, and greatest; -0.0 is 0.0; strings go by their bytes."""
    if isinstance(value, float):
        return NAN_KEY if value != value else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def unkeyed(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[1]
    return value.decode() if isinstance(value, bytes) else value


def test_counts_are_never_null_in_the_schema(table: Path) -> None:
    found = result("SELECT count(*), count(a), count(DISTINCT a), min(a) FROM {}", table)
    assert [field.nullable for field in found.schema] == [False, False, False, True]
    assert found.to_arrow().schema.equals(found.schema)


def test_nan_is_the_greatest_value(table: Path) -> None:
    for text in ("SELECT x FROM {}", "SELECT x FROM {} LIMIT 9", "SELECT x FROM {} GROUP BY x"):
        found = result(text, table)
        assert math.isnan(found.max("x"))
        assert found.min("x") == 0
        assert found.count_distinct("x") == 3


def test_a_limit_cuts_the_rows_before_they_are_looked_into(table: Path) -> None:
    found = result("SELECT id, a FROM {} ORDER BY id DESC LIMIT 3", table)
    assert found.to_arrow()["id"].to_pylist() == [5, 4, 3]
    assert (found.min("id"), found.count("a"), found.distinct("a").to_pylist()) == (3, 3, [2, 3])
    assert found.order_by("a").to_arrow()["id"].to_pylist() == [4, 5, 3]
    assert found.order_by("id").head(2)["id"].to_pylist() == [3, 4]


def test_columns_go_by_their_names_in_the_result(table: Path) -> None:
    found = result("SELECT a AS s, s AS b, id, id FROM {}", table)
    assert (found.max("s"), found.min("B")) == (3, "a")
    assert found.order_by("s", nulls_first=False).to_arrow()["s"].to_pylist() == [1, 2, 3, 3, 3, None]
    assert found.columns == ["s", "b", "id", "id"]
    assert found.to_arrow().column(3).to_pylist() == list(range(6))
    for text in ("SELECT a AS s, s AS b, id, id FROM {}", "SELECT a AS s, s AS b, id, id FROM {} LIMIT 5"):
        found = result(text, table)
        with pytest.raises(ColumnError, match=r"^Column 'id' is ambiguous: 2 columns of the result"):
            found.max("id")
        with pytest.raises(ColumnError, match=r"^Column 'a' cannot be resolved; the result has s, b, id, id"):
            found.value_counts("s", "a")
    grouped = result("SELECT s AS city, count(*) AS n FROM {} GROUP BY s", table)
    with pytest.raises(ColumnError, match=r"^Column 's' cannot be resolved; the result has city, n$"):
        grouped.order_by("s")
    with pytest.raises(ColumnError, match=r"^Column 'city.x' cannot be resolved: .* string has no fields$"):
        grouped.min("city.x")


def test_fields_of_structs(tmp_path: Path) -> None:
    columns = {"id": pa.array([1, 2, 3]), "st": pa.array([{"x": 5}, {"x": 4}, None])}
    write_columns(tmp_path / "1.orc", columns)
    found = result("SELECT st AS u, st.x FROM {}", tmp_path)
    assert (found.max("u.x"), found.max(("u", "x")), found.max("x")) == (5, 5, 5)
    assert found.value_counts("u.x").to_pylist() == [
        {"u.x": None, "count": 1},
        {"u.x": 4, "count": 1},
        {"u.x": 5, "count": 1},
    ]
    cut = result("SELECT st AS u FROM {} LIMIT 2", tmp_path)
    assert cut.count("u") == 2
    for column in ("u", "u.x"):
        with pytest.raises(ColumnError, match=r"is of type struct<x:bigint>: select a primitive field of it"):
            cut.min(column)


def test_mistakes_are_raised_at_the_call_and_rows_are_read_later(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def watch(name: str) -> None:
        real = getattr(OrcReader, name)

        def reading(*given: Any, **options: Any) -> Any:
            decoded.append(name)
            return real(*given, **options)

        monkeypatch.setattr(OrcReader, name, reading)

    watch("read_stripe")
    for text in SHAPES:
        found = result(text, table)
        assert repr(found).startswith("QueryResult[")
        assert decoded == [], text
    hindex.connect().sql(f"SELECT s FROM '{table}' WHERE a = 3").to_arrow()  # type: ignore[union-attr]
    assert decoded
    for text in ("SELECT nope FROM {}", "SELECT max(nope) FROM {}", "SELECT a FROM {} WHERE a = 'x'"):
        with pytest.raises(HindexError):
            result(text, table)


def test_each_read_is_of_the_table_as_it_is_then(table: Path) -> None:
    found = [result(text, table) for text in ("SELECT id FROM {}", "SELECT count(*) AS n FROM {}")]
    assert [item.max(item.columns[0]) for item in found] == [5, 6]
    write(table / "3.orc", [(9, 1, "z", 1.0, None, None)])
    assert [item.max(item.columns[0]) for item in found] == [9, 7]


@pytest.mark.parametrize("text", [*SHAPES, "SELECT s, a FROM {} WHERE a > 2 LIMIT 0"])
def test_the_schema_does_not_depend_on_the_rows(text: str, table: Path, tmp_path: Path) -> None:
    """Of a table without matching rows, and of files without rows."""
    wanted = result(text, table).schema
    nothing = (
        text.format("{} WHERE id < 0") if "WHERE" not in text else text.replace("WHERE", "WHERE id < 0 AND")
    )
    write(tmp_path / "empty" / "1.orc", [])
    for found in (result(nothing, table), result(text, tmp_path / "empty")):
        assert type(found) is QueryResult
        rows = found.to_arrow()
        assert found.schema == rows.schema == wanted, text
        assert [found.schema.field(at).nullable for at in range(len(wanted))] == [f.nullable for f in wanted]
        assert found.to_reader().read_all().schema == found.head().schema == wanted
        assert found.order_by("a").schema == wanted
        if "count(*) AS a" not in text and "EXISTS" not in text:
            assert (rows.num_rows, found.count(), found.exists()) == (0, 0, False)
            assert (found.min("a"), found.max("a"), found.count_distinct("a")) == (None, None, 0)
            assert len(found.distinct("a")) == found.value_counts("a").num_rows == 0


def test_what_is_shown_of_it(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result("SELECT id, s, x, d, day\n  FROM {}", table)
    assert repr(found) == (
        "QueryResult[id: int64, s: string, x: double, d: decimal128(9, 2), day: date32[day]]"
        f"(SELECT id, s, x, d, day FROM '{table}')"
    )
    wide = result(f"SELECT {', '.join(f'id AS c{at}' for at in range(25))} FROM {{}}", table)
    assert "c19: int64, ... 5 more](SELECT id AS c0, " in repr(wide)
    assert repr(wide).endswith("...)")
    found.show(5)
    assert capsys.readouterr().out == (
        "+---+----+----+-----+----------+\n"
        "| id|   s|   x|    d|       day|\n"
        "+---+----+----+-----+----------+\n"
        "|  0|   b| 1.5| 1.10|2020-01-02|\n"
        "|  1|   a| NaN| NULL|      NULL|\n"
        "|  2|NULL|  -0|-2.00|1999-12-31|\n"
        "|  3|   a|   0| 1.10|2020-01-02|\n"
        "|  4|ä\\tx|NULL| 7.25|2020-01-02|\n"
        "+---+----+----+-----+----------+\n"
        "only showing top 5 rows\n"
    )
    found = result("SELECT max(day) AS `the last day` FROM {}", table)
    found.show(truncate=5)
    found.show(truncate=False)
    assert capsys.readouterr().out == (
        "+------------+\n|the last day|\n+------------+\n|       20...|\n+------------+\n"
        "+------------+\n|the last day|\n+------------+\n|2020-01-02  |\n+------------+\n"
    )
    result("SELECT id FROM {} WHERE id < 0", table).show()
    result("SELECT id FROM {}", table).show(1)
    assert capsys.readouterr().out == (
        "+---+\n| id|\n+---+\n+---+\n+---+\n| id|\n+---+\n|  0|\n+---+\nonly showing top 1 row\n"
    )
    with pytest.raises(ArgumentError, match="n is -1"):
        found.show(-1)
    with pytest.raises(ArgumentError, match="truncate is -1"):
        found.show(truncate=-1)
    with pytest.raises(TypeError, match="truncate is 'no'"):
        found.show(truncate="no")  # type: ignore[arg-type]


def test_a_notebook_shows_the_first_rows(table: Path) -> None:
    html = result("SELECT s, count(*) AS n FROM {} GROUP BY s", table)._repr_html_()
    assert "<code>QueryResult[s: string, n: int64](SELECT s, count(*) AS n FROM" in html
    assert "<tr><th>s</th><th>n</th></tr>\n" in html
    assert "<tr><td>b</td><td>2</td></tr>" in html
    assert "<div>4 rows, 2 columns</div>" in html
    found = result("SELECT s FROM {}", table)
    (table / "1.orc").write_bytes(b"ORC")
    assert "OrcError" in found._repr_html_()


def test_names_and_ways_of_other_libraries(table: Path) -> None:
    found = result("SELECT id FROM {}", table)
    with pytest.raises(
        TypeError, match=r"\.to_batches\(\) gives its rows in batches, and \.to_arrow\(\)\.to_py"
    ):
        list(found)
    for name, told in (
        ("collect", "to_spark"),
        ("filter", "WHERE"),
        ("toArrow", "to_arrow"),
        ("cout", "count"),
    ):
        with pytest.raises(UnknownNameError, match=f"a query's result has no '{name}': .*{told}"):
            getattr(found, name)
    with pytest.raises(HindexError, match=r"there is no Spark session for the rows: give one"):
        found.to_spark()
    with pytest.raises(ArgumentError, match="the number of rows is -1"):
        found.head(-1)
    assert "rows" in str(found.explain(analyze=True))


def test_proofs(table: Path) -> None:
    hx = hindex.connect(mode="prove")
    for text in ("SELECT id FROM {} WHERE a = 3", "SELECT count(*) AS n FROM {} WHERE a = 3"):
        found = hx.sql(text.format(f"'{table}'"))
        assert isinstance(found, QueryResult)
        assert found.proof is None
        assert found.exists()
        assert found.proof is not None


def test_duckdb_and_polars_read_a_result(table: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = result("SELECT a, s FROM {} WHERE id > 0", table)  # noqa: F841 duckdb finds it by its name
    with duckdb.connect() as connection:
        assert connection.sql("SELECT sum(a) FROM found").fetchall() == [(9,)]
