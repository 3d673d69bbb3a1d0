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
from hindex.errors import ArgumentError, ColumnError, HindexError, PredicateError, UnknownNameError
from hindex.orc import OrcReader
from tests.support.messages import raises
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


def run_query(text: str, table: Path) -> QueryResult:
    result = hindex.connect().sql(text.format(f"'{table}'"))
    assert type(result) is hindex.QueryResult
    return result


@pytest.mark.parametrize("text", SHAPES)
def test_every_shape_has_every_method(text: str, table: Path) -> None:
    """The methods return the values that plain Python computes from the rows."""
    result = run_query(text, table)
    rows = result.to_arrow()
    assert rows.num_rows
    assert result.columns == result.schema.names == rows.column_names
    assert rows.schema == result.schema == result.to_reader().schema == pa.table(result).schema
    for other in (
        pa.table(result),
        result.to_reader().read_all(),
        pa.Table.from_batches(result.to_batches()),
    ):
        assert repr(other.to_pylist()) == repr(rows.to_pylist())
    assert repr(result.head(2).to_pylist()) == repr(rows.slice(0, 2).to_pylist())
    assert result.head(0).schema == rows.schema
    assert result.to_pandas(types_mapper={pa.int64(): None}.get).shape == (rows.num_rows, rows.num_columns)
    assert (result.count(), result.exists()) == (rows.num_rows, True)
    for name in result.columns:
        values = rows.column(name).to_pylist()
        keys = [None if value is None else key(value) for value in values]
        present = sorted({value for value in keys if value is not None})
        listed = [None] * (None in keys) + present
        assert result.count(name) == len(keys) - keys.count(None)
        assert result.count_distinct(name.upper()) == len(present)
        assert [result.min(name), result.max(name)] == [unkeyed(present[0]), unkeyed(present[-1])] or (
            present[-1] == NAN_KEY
        )
        assert [
            None if value is None else key(value) for value in result.distinct(name).to_pylist()
        ] == listed
        assert result.distinct(name).type == rows.schema.field(name).type
        counted = result.value_counts(name)
        assert counted.column_names == [name, "count"]
        assert counted.column(1).to_pylist() == [Counter(keys)[value] for value in listed]
        for descending in (False, True):
            ordered = result.order_by(name, descending=descending, nulls_first=True)
            assert ordered.schema == rows.schema
            places = [None if value is None else key(value) for value in ordered.to_arrow()[name].to_pylist()]
            expected = sorted((value for value in keys if value is not None), reverse=descending)
            assert places == [None] * keys.count(None) + expected
        last = result.columns[-1]
        if last != name and result.columns.count(last) == 1:
            check_order_by_two(result, name, last)
    if len(result.columns) > 1:
        pair = result.columns[:2]
        counts = Counter(zip(*(map(repr, rows.column(name).to_pylist()) for name in pair), strict=True))
        assert sum(result.value_counts(*pair)["count"].to_pylist()) == rows.num_rows
        assert result.value_counts(*pair).num_rows == len(counts)


def check_order_by_two(result: QueryResult, first: str, second: str) -> None:
    """Sort by a column in ascending order, then by another in descending order, both with NULL last."""
    rows = result.to_arrow().select([first, second])
    ordered = result.order_by(first, second, descending=[False, True], nulls_first=False).to_arrow()
    pairs = list(zip(*ordered.select([first, second]).to_pydict().values(), strict=True))
    assert Counter(map(repr, pairs)) == Counter(map(repr, zip(*rows.to_pydict().values(), strict=True)))
    expected = sorted(pairs, key=lambda pair: (pair[1] is not None, key(pair[1])), reverse=True)
    assert pairs == sorted(expected, key=lambda pair: (pair[0] is None, key(pair[0])))


NAN_KEY = (1, 0.0)


def key(value: Any) -> Any:
    """Return a key that sorts as Spark does: NaN is one, and greatest; -0.0 is 0.0; strings go by their bytes."""
    if isinstance(value, float):
        return NAN_KEY if value != value else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def unkeyed(value: Any) -> Any:
    if isinstance(value, tuple):
        return value[1]
    return value.decode() if isinstance(value, bytes) else value


def test_counts_are_never_null_in_the_schema(table: Path) -> None:
    result = run_query("SELECT count(*), count(a), count(DISTINCT a), min(a) FROM {}", table)
    assert [field.nullable for field in result.schema] == [False, False, False, True]
    assert result.to_arrow().schema.equals(result.schema)


def test_nan_is_the_greatest_value(table: Path) -> None:
    for text in ("SELECT x FROM {}", "SELECT x FROM {} LIMIT 9", "SELECT x FROM {} GROUP BY x"):
        result = run_query(text, table)
        assert math.isnan(result.max("x"))
        assert result.min("x") == 0
        assert result.count_distinct("x") == 3


def test_a_limit_cuts_the_rows_before_they_are_looked_into(table: Path) -> None:
    result = run_query("SELECT id, a FROM {} ORDER BY id DESC LIMIT 3", table)
    assert result.to_arrow()["id"].to_pylist() == [5, 4, 3]
    assert (result.min("id"), result.count("a"), result.distinct("a").to_pylist()) == (3, 3, [2, 3])
    assert result.order_by("a").to_arrow()["id"].to_pylist() == [4, 5, 3]
    assert result.order_by("id").head(2)["id"].to_pylist() == [3, 4]


def test_columns_go_by_their_names_in_the_result(table: Path) -> None:
    result = run_query("SELECT a AS s, s AS b, id, id FROM {}", table)
    assert (result.max("s"), result.min("B")) == (3, "a")
    assert result.order_by("s", nulls_first=False).to_arrow()["s"].to_pylist() == [1, 2, 3, 3, 3, None]
    assert result.columns == ["s", "b", "id", "id"]
    assert result.to_arrow().column(3).to_pylist() == list(range(6))
    for text in ("SELECT a AS s, s AS b, id, id FROM {}", "SELECT a AS s, s AS b, id, id FROM {} LIMIT 5"):
        result = run_query(text, table)
        with raises(ColumnError):
            result.max("id")
        with raises(ColumnError):
            result.value_counts("s", "a")
    grouped = run_query("SELECT s AS city, count(*) AS n FROM {} GROUP BY s", table)
    with raises(ColumnError):
        grouped.order_by("s")
    with raises(ColumnError):
        grouped.min("city.x")


def test_fields_of_structs(tmp_path: Path) -> None:
    columns = {"id": pa.array([1, 2, 3]), "st": pa.array([{"x": 5}, {"x": 4}, None])}
    write_columns(tmp_path / "1.orc", columns)
    result = run_query("SELECT st AS u, st.x FROM {}", tmp_path)
    assert (result.max("u.x"), result.max(("u", "x")), result.max("x")) == (5, 5, 5)
    assert result.value_counts("u.x").to_pylist() == [
        {"u.x": None, "count": 1},
        {"u.x": 4, "count": 1},
        {"u.x": 5, "count": 1},
    ]
    cut = run_query("SELECT st AS u FROM {} LIMIT 2", tmp_path)
    assert cut.count("u") == 2
    for column in ("u", "u.x"):
        with raises(ColumnError):
            cut.min(column)


def test_mistakes_are_raised_at_the_call_and_rows_are_read_later(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []

    def watch(name: str) -> None:
        real = getattr(OrcReader, name)

        def reading(*argument: Any, **options: Any) -> Any:
            decoded.append(name)
            return real(*argument, **options)

        monkeypatch.setattr(OrcReader, name, reading)

    watch("read_stripe")
    for text in SHAPES:
        result = run_query(text, table)
        assert repr(result).startswith("QueryResult[")
        assert decoded == [], text
    hindex.connect().sql(f"SELECT s FROM '{table}' WHERE a = 3").to_arrow()  # type: ignore[union-attr]
    assert decoded
    decoded.clear()
    for text, error in (
        ("SELECT nope FROM {}", ColumnError),
        ("SELECT max(nope) FROM {}", ColumnError),
        ("SELECT a FROM {} WHERE a = 'x'", PredicateError),
    ):
        with raises(error):
            run_query(text, table)
    assert decoded == []


def test_each_read_is_of_the_table_as_it_is_then(table: Path) -> None:
    result = [run_query(text, table) for text in ("SELECT id FROM {}", "SELECT count(*) AS n FROM {}")]
    assert [item.max(item.columns[0]) for item in result] == [5, 6]
    write(table / "3.orc", [(9, 1, "z", 1.0, None, None)])
    assert [item.max(item.columns[0]) for item in result] == [9, 7]


@pytest.mark.parametrize("text", [*SHAPES, "SELECT s, a FROM {} WHERE a > 2 LIMIT 0"])
def test_the_schema_does_not_depend_on_the_rows(text: str, table: Path, tmp_path: Path) -> None:
    """Of a table without matching rows, and of files without rows."""
    expected = run_query(text, table).schema
    nothing = (
        text.format("{} WHERE id < 0") if "WHERE" not in text else text.replace("WHERE", "WHERE id < 0 AND")
    )
    write(tmp_path / "empty" / "1.orc", [])
    for result in (run_query(nothing, table), run_query(text, tmp_path / "empty")):
        assert type(result) is QueryResult
        rows = result.to_arrow()
        assert result.schema == rows.schema == expected, text
        assert [result.schema.field(at).nullable for at in range(len(expected))] == [
            f.nullable for f in expected
        ]
        assert result.to_reader().read_all().schema == result.head().schema == expected
        assert result.order_by("a").schema == expected
        if "count(*) AS a" not in text and "EXISTS" not in text:
            assert (rows.num_rows, result.count(), result.exists()) == (0, 0, False)
            assert (result.min("a"), result.max("a"), result.count_distinct("a")) == (None, None, 0)
            assert len(result.distinct("a")) == result.value_counts("a").num_rows == 0


def test_show_and_repr(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_query("SELECT id, s, x, d, day\n  FROM {}", table)
    assert repr(result) == (
        "QueryResult[id: int64, s: string, x: double, d: decimal128(9, 2), day: date32[day]]"
        f"(SELECT id, s, x, d, day FROM '{table}')"
    )
    wide = run_query(f"SELECT {', '.join(f'id AS c{at}' for at in range(25))} FROM {{}}", table)
    assert "c19: int64, ... 5 more](SELECT id AS c0, " in repr(wide)
    assert repr(wide).endswith("...)")
    result.show(5)
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
    result = run_query("SELECT max(day) AS `the last day` FROM {}", table)
    result.show(truncate=5)
    result.show(truncate=False)
    assert capsys.readouterr().out == (
        "+------------+\n|the last day|\n+------------+\n|       20...|\n+------------+\n"
        "+------------+\n|the last day|\n+------------+\n|2020-01-02  |\n+------------+\n"
    )
    run_query("SELECT id FROM {} WHERE id < 0", table).show()
    run_query("SELECT id FROM {}", table).show(1)
    assert capsys.readouterr().out == (
        "+---+\n| id|\n+---+\n+---+\n+---+\n| id|\n+---+\n|  0|\n+---+\nonly showing top 1 row\n"
    )
    with raises(ArgumentError):
        result.show(-1)
    with raises(ArgumentError):
        result.show(truncate=-1)
    with raises(TypeError):
        result.show(truncate="no")  # type: ignore[arg-type]


def test_a_notebook_shows_the_first_rows(table: Path) -> None:
    html = run_query("SELECT s, count(*) AS n FROM {} GROUP BY s", table)._repr_html_()
    assert "<code>QueryResult[s: string, n: int64](SELECT s, count(*) AS n FROM" in html
    assert "<tr><th>s</th><th>n</th></tr>\n" in html
    assert "<tr><td>b</td><td>2</td></tr>" in html
    assert "<div>4 rows, 2 columns</div>" in html
    result = run_query("SELECT s FROM {}", table)
    (table / "1.orc").write_bytes(b"ORC")
    assert "OrcError" in result._repr_html_()


def test_names_and_ways_of_other_libraries(table: Path) -> None:
    result = run_query("SELECT id FROM {}", table)
    with raises(TypeError):
        list(result)
    for name in ("collect", "sort", "toArrow", "cout"):
        with raises(UnknownNameError):
            getattr(result, name)
    with raises(HindexError):
        result.to_spark()
    with raises(ArgumentError):
        result.head(-1)
    assert "rows" in str(result.explain(analyze=True))


def test_proofs(table: Path) -> None:
    hx = hindex.connect(mode="prove")
    for text in ("SELECT id FROM {} WHERE a = 3", "SELECT count(*) AS n FROM {} WHERE a = 3"):
        result = hx.sql(text.format(f"'{table}'"))
        assert isinstance(result, QueryResult)
        assert result.proof is None
        assert result.exists()
        assert result.proof is not None


def test_duckdb_and_polars_read_a_result(table: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    result = run_query("SELECT a, s FROM {} WHERE id > 0", table)  # noqa: F841 duckdb finds it by its name
    with duckdb.connect() as connection:
        assert connection.sql("SELECT sum(a) FROM result").fetchall() == [(9,)]
