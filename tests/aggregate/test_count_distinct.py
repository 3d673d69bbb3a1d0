"""COUNT(DISTINCT ...), positions in GROUP BY and ORDER BY: as Spark has them, and without data where indexes tell."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Aggregate, Group, GroupFilter
from hindex.api.table import IndexSpec, Table
from hindex.errors import ColumnError, PredicateError, StatementError
from hindex.explanations.explanation import ReadPath
from hindex.orc import OrcReader
from hindex.plan.reasons import Reason
from hindex.sql import parse
from hindex.sql.statements import AggregateFunction
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import reasons
from tests.support.writers import write_pyarrow, write_pyorc

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 3000
FLOATS = [0.0, -0.0, math.nan, 1.5, math.inf, None]


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path, rng: np.random.Generator) -> Table:
    """Two files whose values overlap; ``many`` has no index, all others have a BITMAP."""
    for number in range(2):
        few = rng.integers(number, 4 + number, ROWS)
        columns = {
            "few": pa.array(few, pa.int32(), mask=rng.random(ROWS) < 0.2),
            "name": pa.array(few % 3).cast(pa.string()),
            "real": pa.array(rng.choice(np.array(FLOATS, object), ROWS).tolist(), pa.float64()),
            "part": pa.array(rng.integers(20 * number, 20 * number + 30, ROWS)),
            "many": pa.array(rng.integers(0, 2000, ROWS), mask=rng.random(ROWS) < 0.1),
        }
        write_pyarrow(
            tmp_path / "t" / f"{number}.orc", pa.table(columns), "none", stripe=1 << 26, stride=1000
        )
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec(name, name) for name in ("few", "name", "real", "part")])
    return table


def run(connection: LocalConnection, table: Table, text: str) -> pa.Table:
    result: Any = connection.sql(text.replace("TABLE", f"'{table.uri}'"))
    return result.to_arrow()


def decoded(readers: list[OrcReader]) -> int:
    counts = [reader.counts for reader in readers]
    return sum(item.row_groups + item.whole_columns for item in counts)


def same(value: float | None) -> float | str | None:
    """Return the key by which a double is distinct."""
    return None if value is None else "NaN" if math.isnan(value) else value + 0.0


@pytest.mark.parametrize(
    "where", ["", "WHERE part < 7", "WHERE part = 25 OR few IS NULL", "WHERE part > 999"]
)
def test_values_are_counted_without_data(
    connection: LocalConnection, table: Table, opened: list[OrcReader], where: str
) -> None:
    rows = run(connection, table, f"SELECT * FROM TABLE {where}").to_pylist()
    opened.clear()
    text = f"SELECT COUNT(DISTINCT few), COUNT(DISTINCT real) AS r, COUNT(*), COUNT(DISTINCT name) FROM TABLE {where}"
    result = run(connection, table, text)
    assert result.column_names == ["count(DISTINCT few)", "r", "count(1)", "count(DISTINCT name)"]
    assert result.schema.types == [pa.int64()] * 4
    assert [column[0].as_py() for column in result.columns] == [
        len({row["few"] for row in rows} - {None}),
        len({same(row["real"]) for row in rows} - {None}),
        len(rows),
        len({row["name"] for row in rows}),
    ]
    assert decoded(opened) == 0
    messages: Any = connection.sql(f"EXPLAIN {text.replace('TABLE', repr(table.uri))}")
    assert messages.path in (ReadPath.INDEX_ONLY, ReadPath.NOTHING)


def test_values_that_no_index_tells_are_read_once(
    connection: LocalConnection, table: Table, opened: list[OrcReader]
) -> None:
    rows = run(connection, table, "SELECT few, many FROM TABLE WHERE few = 2").to_pylist()
    expected = len({row["many"] for row in rows} - {None})
    text = "SELECT few, COUNT(DISTINCT many) AS n, COUNT(DISTINCT few) AS one FROM TABLE WHERE few = 2 GROUP BY few"
    assert run(connection, table, text).to_pylist() == [{"few": 2, "n": expected, "one": 1}]

    def reads(query: str) -> int:
        opened.clear()
        run(connection, table, query)
        return decoded(opened)

    # of what an index tells nothing is read, and of a column in two of the groups no more than of one
    assert (
        reads("SELECT COUNT(DISTINCT many), COUNT(DISTINCT part) FROM TABLE")
        == reads("SELECT many FROM TABLE")
        > 0
    )
    assert reads("SELECT many, COUNT(DISTINCT few) FROM TABLE GROUP BY many") == reads(
        "SELECT many, few FROM TABLE"
    )
    messages: Any = connection.sql(
        f"EXPLAIN SELECT COUNT(DISTINCT many), COUNT(DISTINCT part) FROM '{table.uri}'"
    )
    assert messages.path is not ReadPath.INDEX_ONLY
    # what decides the predicate is read anyway
    assert run(connection, table, "SELECT COUNT(DISTINCT many) FROM TABLE WHERE many < 50").to_pylist() == [
        {
            "count(DISTINCT many)": len(
                {m for m in _column(connection, table, "many") if m is not None and m < 50}
            )
        }
    ]


def _column(connection: LocalConnection, table: Table, name: str) -> list[Any]:
    rows: list[Any] = run(connection, table, f"SELECT {name} FROM TABLE").column(0).to_pylist()
    return rows


def test_stale_files_count_with_the_others(connection: LocalConnection, table: Table) -> None:
    columns = {
        "few": pa.array([77, None], pa.int32()),
        "name": ["x", "0"],
        "real": [math.nan, 2.5],
        "part": [1, 2],
        "many": [5, None],
    }
    before = run(
        connection, table, "SELECT COUNT(DISTINCT few), COUNT(DISTINCT name) FROM TABLE"
    ).to_pylist()[0]
    write_pyarrow(Path(table.uri) / "9.orc", pa.table(columns), "none", stripe=1 << 26, stride=1000)
    after = run(connection, table, "SELECT COUNT(DISTINCT few), COUNT(DISTINCT name) FROM TABLE").to_pylist()[
        0
    ]
    assert [after[name] - before[name] for name in before] == [1, 1]


SAME_AS_SPARK = [
    "SELECT COUNT(DISTINCT few), count(distinct REAL), COUNT(few), MIN(part) FROM TABLE",
    "SELECT COUNT(DISTINCT real) AS n FROM TABLE WHERE part > 999",
    "SELECT few, COUNT(DISTINCT real) FROM TABLE GROUP BY few ORDER BY few",
    "SELECT few, COUNT(DISTINCT real) AS r, COUNT(DISTINCT many) AS m, COUNT(*) FROM TABLE GROUP BY 1 ORDER BY 1 DESC",
    "SELECT name, few, COUNT(DISTINCT part), COUNT(DISTINCT few) FROM TABLE WHERE many > 100 GROUP BY name, few",
    "SELECT COUNT(DISTINCT part) AS p, name FROM TABLE WHERE few = 3 OR few IS NULL GROUP BY 2",
    "SELECT real, COUNT(DISTINCT few) FROM TABLE GROUP BY real",
    "SELECT few AS x, COUNT(*) AS n FROM TABLE GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
    "SELECT DISTINCT few AS x, name FROM TABLE ORDER BY 1",
    "SELECT part AS p, few FROM TABLE WHERE part = 7 ORDER BY 2 DESC",
    "SELECT COUNT(DISTINCT few) FROM TABLE LIMIT 0",
    "SELECT few, COUNT(*) AS n FROM TABLE GROUP BY few HAVING n > 500 AND Few IS NOT NULL",
    "SELECT few AS x FROM TABLE GROUP BY few HAVING count(1) > 500 OR x IS NULL ORDER BY 1 DESC",
    "SELECT few AS x, COUNT(*) AS few FROM TABLE GROUP BY few HAVING few = 2",
    "SELECT COUNT(*) AS many, few FROM TABLE GROUP BY few HAVING many > 500",
    "SELECT few FROM TABLE GROUP BY few HAVING COUNT(few) = 0",
    "SELECT name, few FROM TABLE GROUP BY name, few HAVING COUNT(DISTINCT part) > 20 AND MAX(few) <> 3",
    "SELECT part FROM TABLE WHERE few = 2 GROUP BY part HAVING 2 * COUNT(*) > part + COUNT(DISTINCT many) + 40",
    "SELECT real, COUNT(*) FROM TABLE GROUP BY real HAVING real > 1 OR real = 0",
    "SELECT real FROM TABLE GROUP BY real HAVING MIN(real) >= double('inf')",
    "SELECT name FROM TABLE GROUP BY name HAVING name LIKE '1%' OR COUNT(*) > '2000'",
    "SELECT name FROM TABLE GROUP BY name HAVING COUNT(*) > 1.5 AND NOT name IN ('0', NULL)",
    "SELECT few FROM TABLE GROUP BY few HAVING COUNT(*) > 99999",
    "SELECT few FROM TABLE GROUP BY few HAVING few > 1 LIMIT 0",
    "SELECT few FROM TABLE GROUP BY few HAVING few > 1 AND few < 4 ORDER BY few LIMIT 1",
    # what is no predicate is cast to one
    "SELECT few FROM TABLE GROUP BY few HAVING few",
    "SELECT few FROM TABLE GROUP BY few HAVING (COUNT(few))",
    "SELECT few FROM TABLE GROUP BY few HAVING 1",
    "SELECT few FROM TABLE GROUP BY few HAVING 0.0",
    "SELECT few FROM TABLE GROUP BY few HAVING 'no'",
    "SELECT real FROM TABLE GROUP BY real HAVING MAX(real)",
    "SELECT name FROM TABLE WHERE name < '2' GROUP BY name HAVING name",
    "SELECT name FROM TABLE GROUP BY name HAVING CASE WHEN name = '1' THEN 1 ELSE 0 END",
    # several keys with nulls among them, in whatever order they are hashed
    "SELECT few, part, COUNT(DISTINCT many) FROM TABLE GROUP BY few, part",
    "SELECT many, few, COUNT(DISTINCT part), COUNT(DISTINCT real) FROM TABLE GROUP BY many, few",
    "SELECT few, many FROM TABLE GROUP BY 1, 2 HAVING COUNT(DISTINCT part) = 2",
]


@pytest.mark.slow
def test_rows_are_those_of_spark(connection: LocalConnection, table: Table, spark: SparkSession) -> None:
    for text in SAME_AS_SPARK:
        ours = run(connection, table, text)
        theirs = spark.sql(text.replace("TABLE", f"orc.`{table.uri}`")).toArrow()
        assert ours.column_names == theirs.column_names, text
        assert ours.schema.types == theirs.schema.types, text
        assert sorted(map(repr, _rows(ours))) == sorted(map(repr, _rows(theirs))), text
        if "ORDER BY 1" in text or "ORDER BY few" in text:
            assert ours.column(0).equals(theirs.column(0)), text


def test_every_group_has_its_own_count(connection: LocalConnection, tmp_path: Path) -> None:
    """Group number ``n`` has ``n`` values, so that no two of them could change places."""
    keys = [(a, b) for a in (None, 5, -3, 0) for b in (2, None, 9)]
    rows = [(a, b, value) for number, (a, b) in enumerate(keys) for value in [None, *range(number)]]
    a, b, c = zip(*rows, strict=True)
    columns = {"a": pa.array(a, pa.int32()), "b": pa.array(b, pa.int64()), "c": pa.array(c, pa.int32())}
    write_pyarrow(tmp_path / "u" / "0.orc", pa.table(columns), "none")
    table = connection.table(str(tmp_path / "u"))
    text = "SELECT a, b, COUNT(DISTINCT c) AS n FROM TABLE GROUP BY a, b"
    expected = {key: number for number, key in enumerate(keys)}
    by_a = {a: max(number for key, number in expected.items() if key[0] == a) for a in (None, 5, -3, 0)}
    for indexed in (False, True):
        if indexed:
            table.create_indexes([IndexSpec(name, name) for name in ("a", "b", "c")])
        result = run(connection, table, text).to_pylist()
        assert {(row["a"], row["b"]): row["n"] for row in result} == expected
        result = run(connection, table, f"{text} HAVING COUNT(DISTINCT c) > 6").to_pylist()
        assert {(row["a"], row["b"]): row["n"] for row in result} == {
            key: number for key, number in expected.items() if number > 6
        }
        result = run(connection, table, "SELECT a, COUNT(DISTINCT c) AS n FROM TABLE GROUP BY a").to_pylist()
        assert [(row["a"], row["n"]) for row in result] == [(a, by_a[a]) for a in (None, -3, 0, 5)]


CHARS = [
    ("ch = 'a'", ["a   "]),
    ("MAX(ch) = 'a'", []),
    ("MAX(ch) = 'a   '", ["a   "]),
    ("most = 'a'", []),
    ("MIN(ch) IN ('a', 'ab  ')", ["ab  "]),
    ("MIN(ch) = ch", ["    ", "a   ", "ab  "]),
    ("MAX(ch) BETWEEN 'a' AND 'ab'", ["a   "]),
    ("ch IN ('a', 'ab  ')", ["a   ", "ab  "]),
]


def _chars(connection: LocalConnection, tmp_path: Path) -> Table:
    values = {"ch": pa.array(["a", "a  ", "ab", "", None])}
    write_pyorc(
        tmp_path / "u" / "0.orc",
        pa.table(values),
        "none",
        types={"ch": "char(4)"},
        stripe=1 << 20,
        stride=1000,
    )
    return connection.table(str(tmp_path / "u"))


_OF_CHARS = "SELECT ch, MAX(ch) AS most FROM TABLE GROUP BY ch HAVING"


def test_ends_of_chars_are_texts_filled_with_blanks(connection: LocalConnection, tmp_path: Path) -> None:
    table = _chars(connection, tmp_path)
    for condition, expected in CHARS:
        result = run(connection, table, f"{_OF_CHARS} {condition}")
        assert result.column("ch").to_pylist() == expected, condition


def test_chars_are_compared_as_by_spark(
    connection: LocalConnection, tmp_path: Path, spark: SparkSession
) -> None:
    uri = _chars(connection, tmp_path).uri
    for condition, expected in CHARS:
        result = spark.sql(f"{_OF_CHARS} {condition}".replace("TABLE", f"orc.`{uri}`"))
        assert sorted(row.ch for row in result.collect()) == expected, condition


def test_conditions_without_groups_or_items(table: Table) -> None:
    having = parse(f"SELECT few FROM '{table.uri}' GROUP BY few HAVING COUNT(*) > 5").having  # type: ignore[union-attr]
    assert having is not None
    rows, few = Aggregate(AggregateFunction.COUNT, None, "COUNT(*)"), Group("few", "few")
    aggregation = table.scan().aggregate([few], "few", having=GroupFilter(having.predicate, (few,)))
    with raises(ValueError):
        table.scan().aggregate([rows], having=GroupFilter(having.predicate, (rows,)))
    with raises(ColumnError):
        aggregation.to_arrow()


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [
        [same(value) for value in column.to_pylist()]
        if pa.types.is_floating(column.type)
        else column.to_pylist()
        for column in table.columns
    ]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT few AS x FROM TABLE ORDER BY few",
        "SELECT few, COUNT(*) FROM TABLE GROUP BY 2",
        "SELECT few, COUNT(*) FROM TABLE GROUP BY 3",
        "SELECT few FROM TABLE ORDER BY 0",
        "SELECT DISTINCT few FROM TABLE HAVING few > 1",
        "SELECT few FROM TABLE GROUP BY few HAVING many > 1",
    ],
)
def test_what_spark_refuses_is_refused(
    connection: LocalConnection, table: Table, spark: SparkSession, text: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(StatementError):
        run(connection, table, text)
    with pytest.raises(AnalysisException):
        spark.sql(text.replace("TABLE", f"orc.`{table.uri}`")).collect()


def test_modes(connection: LocalConnection, table: Table) -> None:
    for mode in ("strict", "prove"):
        scan = table.scan("part < 7", mode=mode)
        assert scan.count_distinct("few") == table.scan("part < 7").count_distinct("few") > 0
    assert Reason.NO_INDEX in reasons(table.scan("many = 1"))
    with raises(ColumnError):
        run(connection, table, "SELECT COUNT(DISTINCT nosuch) FROM TABLE")


def test_conditions_of_groups_take_no_data(
    connection: LocalConnection, table: Table, opened: list[OrcReader]
) -> None:
    few = [value for value in _column(connection, table, "few") if value is not None]
    counted = {value: few.count(value) for value in set(few)}
    most = sorted(counted.values())[-2]
    opened.clear()
    text = f"SELECT few FROM TABLE GROUP BY few HAVING COUNT(few) >= {most} AND few IS NOT NULL ORDER BY few"
    expected = sorted(value for value, count in counted.items() if count >= most)
    assert run(connection, table, text).column("few").to_pylist() == expected
    assert decoded(opened) == 0
    messages: Any = connection.sql(f"EXPLAIN ANALYZE {text.replace('TABLE', repr(table.uri))}")
    assert (messages.path, messages.columns, messages.analyzed.rows) == (
        ReadPath.INDEX_ONLY,
        ("few",),
        len(expected),
    )
    assert messages.group == f"few HAVING COUNT(few) >= {most} AND few IS NOT NULL"
    # the rows are cut after groups are left out
    first = run(connection, table, f"{text.replace('ORDER BY few', '')} LIMIT 1")
    assert first.column("few").to_pylist() == expected[:1]


@pytest.mark.parametrize(
    "condition",
    ["few = 'x'", "NOT few", "few AND TRUE", "NOT COUNT(*)", "COUNT(*) OR 1 = 1", "DATE '2020-01-01'"],
)
def test_conditions_that_do_not_fit(connection: LocalConnection, table: Table, condition: str) -> None:
    for explain in ("", "EXPLAIN "):
        with pytest.raises(PredicateError):
            run(
                connection,
                table,
                f"{explain}SELECT few, name FROM TABLE GROUP BY few, name HAVING {condition}",
            )


def test_conditions_that_fail_on_rows(connection: LocalConnection, table: Table) -> None:
    for condition in ("'x'", "name || 'x'"):
        with raises(PredicateError):
            run(connection, table, f"SELECT name FROM TABLE GROUP BY name HAVING {condition}")


def test_a_column_that_is_called_like_an_aggregate(connection: LocalConnection, tmp_path: Path) -> None:
    write_pyarrow(tmp_path / "u" / "0.orc", pa.table({"COUNT(*)": [1, 1, 2], "b": [1, 2, 3]}), "none")
    of = f"FROM '{tmp_path / 'u'}' GROUP BY `COUNT(*)`"
    result: Any = connection.sql(f"SELECT `COUNT(*)` {of} HAVING `COUNT(*)` = 2")
    assert result.to_arrow().column(0).to_pylist() == [2]
    with raises(ColumnError):
        connection.sql(f"SELECT `COUNT(*)` {of} HAVING COUNT(*) = 2")


def test_the_values_of_a_group_are_one_or_none(connection: LocalConnection, table: Table) -> None:
    result = run(connection, table, "SELECT few, COUNT(DISTINCT few) AS n FROM TABLE GROUP BY few")
    assert result.to_pylist() == [
        {"few": value, "n": int(value is not None)} for value in result.column("few").to_pylist()
    ]
    assert result.column("few").null_count == 1
