"""Aggregates as statements and methods ask for them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from hindex.aggregate.aggregation import Aggregate, Group, Item
from hindex.api.table import Table
from hindex.errors import ColumnError
from hindex.explanations.explanation import ReadPath
from hindex.orc import OrcReader
from hindex.scan import shared_index_pruning
from hindex.sql.statements import AggregateFunction
from tests.scan.counted import TABLE, A, grouped, indexed_table
from tests.support.local_build import LocalConnection
from tests.support.messages import raises
from tests.support.small import write_columns
from tests.support.work import decoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    return indexed_table(connection, tmp_path / "t")


def test_one_select_of_many(connection: LocalConnection, table: Table, opened: list[OrcReader]) -> None:
    sql = (
        f"SELECT COUNT(*), COUNT(a) AS n, MIN(a), MAX(a) AS `most a`, MIN(s) FROM '{table.name}' WHERE a < 5"
    )
    opened.clear()
    rows: Any = connection.sql(sql)
    rows = rows.to_arrow()
    kept = [r for r in TABLE if r[1] is not None and r[1] < 5]
    assert rows.to_pylist() == [
        {
            "count(1)": len(kept),
            "n": len(kept),
            "min(a)": min(r[1] for r in kept if r[1] is not None),
            "most a": 4,
            "min(s)": "s0",
        }
    ]
    assert rows.schema.types == [pa.int64(), pa.int64(), pa.int32(), pa.int32(), pa.string()]
    assert {reader.counts.ranges for reader in opened} <= {1}


EXISTS = (
    "a = 3",
    "a = 99",
    "a = 3 AND s = 's1'",
    "a IS NULL OR s = 's1'",
    "s LIKE 's2%' AND a > 48",
    "a > 49",
)


def test_exists_of_a_statement(connection: LocalConnection, table: Table, opened: list[OrcReader]) -> None:
    def ask(where: str, items: str = "1") -> pa.Table:
        result: Any = connection.sql(
            f"SELECT EXISTS(SELECT {items} FROM '{table.name}' WHERE {where}) AS any"
        )
        return result.to_arrow()

    for where in EXISTS:
        result = ask(where)
        assert result.schema == pa.schema([pa.field("any", pa.bool_(), nullable=False)])
        assert result.to_pylist() == [{"any": table.scan(where).to_arrow().num_rows > 0}], where
    opened.clear()
    for where in EXISTS:
        ask(where, "s, id")
    assert opened
    assert decoded(opened) == 0
    # what no index decides is read, and no further than the first row
    opened.clear()
    assert ask("id % 7 = 3").column(0).to_pylist() == [True]
    assert 0 < decoded(opened) <= 2
    messages: Any = connection.sql(f"EXPLAIN ANALYZE SELECT EXISTS(SELECT 1 FROM '{table.name}' WHERE a = 3)")
    assert messages.path is ReadPath.INDEX_ONLY
    assert messages.analyzed.rows == 1
    # one row is enough, but nobody wrote a limit
    assert messages.limit is None
    none: Any = connection.sql(f"SELECT EXISTS(SELECT 1 FROM '{table.name}' WHERE a = 3 LIMIT 0)")
    assert none.to_arrow().to_pylist() == [{"exists()": False}]
    with raises(ColumnError):
        ask("a = 3", "nosuch")


def test_exists_is_what_spark_says(connection: LocalConnection, table: Table, spark: SparkSession) -> None:
    def union(of: str, of_table: str) -> list[str]:
        return [f"SELECT EXISTS(SELECT {of} FROM {of_table} WHERE {where})" for where in EXISTS]

    theirs = spark.sql(" UNION ALL ".join(union("1", f"orc.`{table.uri}`")))
    results: list[Any] = [connection.sql(text) for text in union("1", f"'{table.uri}'")]
    ours = [found.to_arrow() for found in results]
    values = [found.column(0)[0].as_py() for found in ours]
    assert sorted(values) == sorted(row[0] for row in theirs.collect())
    assert {tuple(found.column_names) for found in ours} == {tuple(theirs.columns)}


def test_statements(connection: LocalConnection, table: Table) -> None:
    def run(text: str) -> list[dict[str, Any]]:
        result: Any = connection.sql(text.replace("TABLE", f"'{table.name}'"))
        rows: list[dict[str, Any]] = result.to_arrow().to_pylist()
        return rows

    counted = grouped(A)
    assert run("SELECT DISTINCT a FROM TABLE") == [{"a": key} for key in counted]
    assert run("SELECT DISTINCT a AS b FROM TABLE ORDER BY b DESC LIMIT 2") == [{"b": 49}, {"b": 48}]
    assert run("SELECT DISTINCT a FROM TABLE ORDER BY a DESC NULLS FIRST LIMIT 2") == [{"a": None}, {"a": 49}]
    assert run("SELECT a, COUNT(*) AS n, COUNT(a), MAX(a) m FROM TABLE GROUP BY a LIMIT 2") == [
        {"a": None, "n": counted[None], "count(a)": 0, "m": None},
        {"a": 0, "n": counted[0], "count(a)": counted[0], "m": 0},
    ]
    assert run("SELECT a, COUNT(*) AS n FROM TABLE GROUP BY a LIMIT 2 OFFSET 3") == [
        {"a": key, "n": counted[key]} for key in list(counted)[3:5]
    ]
    assert run("SELECT s, COUNT(*) FROM TABLE WHERE id < 11 GROUP BY s ORDER BY COUNT(*) DESC LIMIT 1") == [
        {"s": "s1", "count(1)": 4}
    ]
    assert run("SELECT S, MAX(s) FROM TABLE WHERE id < 11 GROUP BY s ORDER BY MAX(S) DESC LIMIT 1") == [
        {"S": "s2", "max(s)": "s2"}
    ]
    assert run("SELECT COUNT(*) FROM TABLE LIMIT 0") == []
    assert run("SELECT COUNT(*) FROM TABLE WHERE a = 99") == [{"count(1)": 0}]
    assert run("SELECT MIN(a), COUNT(a) FROM TABLE WHERE a = 99") == [{"min(a)": None, "count(a)": 0}]
    assert run("SELECT DISTINCT a FROM TABLE WHERE a = 99") == []
    assert run("SELECT id AS x, a FROM TABLE WHERE id = 8") == [{"x": 8, "a": 8}]
    with raises(ColumnError):
        run("SELECT MIN(nope) FROM TABLE")


def test_a_limit_of_no_rows_asks_no_index_of_several_files(
    connection: LocalConnection, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("tree", "id", "btree")

    def opens(*_: Any) -> Any:
        raise AssertionError("an index file is opened")

    monkeypatch.setattr(shared_index_pruning, "open_btree_file", opens)
    result: Any = connection.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 7 LIMIT 0")
    assert result.count() == 0
    messages: Any = connection.sql(
        f"EXPLAIN SELECT a, s FROM '{table.name}' WHERE id = 7 GROUP BY a, s LIMIT 0"
    )
    assert messages.path is ReadPath.NOTHING
    result = connection.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 7")
    with pytest.raises(AssertionError):
        result.to_arrow()


@pytest.mark.parametrize("limit", [-1, 1.5, "x"])
def test_limits_that_are_none(table: Table, limit: Any) -> None:
    with raises(ValueError):
        table.scan().aggregate([Group("a", "a")], "a", limit)
    assert table.scan().aggregate([Group("a", "a")], "a", 2).to_arrow().column(0).to_pylist() == [None, 0]


def test_refused(table: Table, connection: LocalConnection, tmp_path: Path) -> None:
    write_columns(tmp_path / "n" / "a.orc", {"l": pa.array([[1], None, [2]])})
    nested = connection.table(str(tmp_path / "n")).scan()
    assert nested.count("l") == 2
    for ask in (nested.distinct, nested.min, nested.value_counts):
        with raises(ColumnError):
            ask("l")
    with raises(ValueError):
        table.scan(limit=3).max("a")
    with raises(ColumnError):
        table.scan().count("nope")


@pytest.mark.parametrize(
    ("items", "group", "message"),
    [
        (
            [Group("a", "a"), Aggregate(AggregateFunction.MIN, "id", "m")],
            "a",
            "'id' is in the result of GROUP BY a: only that column",
        ),
        (
            [Group("a", "a"), Aggregate(AggregateFunction.COUNT, "S", "n")],
            "a",
            "'S' is in the result of GROUP BY a: only that column",
        ),
        ([Group("id", "id")], "a", "'id' is in the result of GROUP BY a: only that column"),
        ([Group("a", "a")], None, "'a' stands beside aggregates"),
    ],
)
def test_only_the_groups_own_column(table: Table, items: list[Item], group: str | None, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        table.scan().aggregate(items, group).to_arrow()


def test_the_groups_column_in_other_letters(table: Table) -> None:
    items: list[Item] = [Group("A", "x"), Aggregate(AggregateFunction.COUNT, "a", "n")]
    rows = table.scan("a = 3").aggregate(items, "A").to_arrow()
    assert rows.to_pylist() == [{"x": 3, "n": A.count(3)}]


def test_columns_that_are_given_as_one(table: Table) -> None:
    names: Any = ["a", "s"]
    with raises(ColumnError):
        table.scan().value_counts(names)
