"""Counts, ends, distinct values and groups: right whatever tells them, and without data where an index does."""

from __future__ import annotations

import datetime
import math
import warnings
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.errors import ColumnError
from hindex.index import rowsets
from hindex.index.base import KeyCounts
from hindex.orc import OrcReader
from hindex.orc.types import Kind, OrcType
from hindex.plan.explain import ReadPath
from hindex.scan import groups, shared
from hindex.scan.aggregate import Aggregate, Group, Item
from hindex.scan.scan import Scan
from hindex.sql.statements import AggregateFunction
from hindex.tables import IndexSpec, Table
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns, write_rows
from tests.support.work import decoded
from tests.support.writers import write_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1200
A: list[int | None] = [None if i % 7 == 0 else i % 50 for i in range(2 * ROWS)]
S: list[str | None] = [None if i % 11 == 0 else f"s{i % 3}" for i in range(2 * ROWS)]
Row = tuple[int, int | None, str | None]
TABLE: list[Row] = list(zip(range(2 * ROWS), A, S, strict=True))


@pytest.fixture
def table(connection: LocalConnection, tmp_path: Path) -> Table:
    """Two files of a dozen stripes; ``a`` and ``s`` have a BITMAP, ``id`` has none."""
    for number in range(2):
        part = slice(number * ROWS, (number + 1) * ROWS)
        write_rows(tmp_path / "t" / f"{number}.orc", part.start, A[part], S[part])
    found = connection.table(str(tmp_path / "t"))
    found.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return found


def grouped(values: list[Any]) -> dict[Any, int]:
    """How often each value occurs, in the order of results."""
    counted = Counter(values)
    nulls = {None: counted.pop(None)} if None in counted else {}
    return nulls | dict(sorted(counted.items()))


def found_groups(scan: Scan, column: str) -> dict[Any, int]:
    counted = scan.value_counts(column)
    return dict(zip(counted.column(0).to_pylist(), counted.column("count").to_pylist(), strict=True))


#: Predicates that indexes decide, with what they keep.
DECIDED: list[tuple[str | None, Callable[[Row], bool]]] = [
    (None, lambda r: True),
    ("a = 3", lambda r: r[1] == 3),
    ("a > 40 OR s = 's1'", lambda r: (r[1] or 0) > 40 or r[2] == "s1"),
    ("a IS NULL", lambda r: r[1] is None),
    ("s IS NULL AND a = 3", lambda r: r[2] is None and r[1] == 3),
    ("a = 99", lambda r: False),
]


@pytest.mark.parametrize(("where", "keep"), DECIDED, ids=[str(where) for where, _ in DECIDED])
def test_no_data_is_read(
    table: Table, opened: list[OrcReader], where: str | None, keep: Callable[[Row], bool]
) -> None:
    kept = [row for row in TABLE if keep(row)]
    a, s = [r[1] for r in kept if r[1] is not None], [r[2] for r in kept if r[2] is not None]
    scan = table.scan(where)
    forms: list[tuple[str, Callable[[], object], object]] = [
        ("count", scan.count, len(kept)),
        ("count a", lambda: scan.count("a"), len(a)),
        ("count s", lambda: scan.count("s"), len(s)),
        ("exists", scan.exists, bool(kept)),
        ("min", lambda: (scan.min("a"), scan.min("s")), (min(a, default=None), min(s, default=None))),
        ("max", lambda: (scan.max("a"), scan.max("s")), (max(a, default=None), max(s, default=None))),
        ("distinct a", lambda: scan.distinct("a").to_pylist(), list(grouped([r[1] for r in kept]))),
        ("groups of a", lambda: found_groups(scan, "a"), grouped([r[1] for r in kept])),
        ("groups of s", lambda: found_groups(scan, "s"), grouped([r[2] for r in kept])),
    ]
    for name, ask, expected in forms:
        opened.clear()
        assert ask() == expected, name
        # of each file its tail alone, which has no data and no footers of stripes
        assert {reader.counts.ranges for reader in opened} <= {1}, name
        assert decoded(opened) == 0, name


def test_one_select_of_many(connection: LocalConnection, table: Table, opened: list[OrcReader]) -> None:
    sql = (
        f"SELECT COUNT(*), COUNT(a) AS n, MIN(a), MAX(a) AS `most a`, MIN(s) FROM '{table.name}' WHERE a < 5"
    )
    opened.clear()
    found = connection.sql(sql)
    assert isinstance(found, pa.Table)
    kept = [r for r in TABLE if r[1] is not None and r[1] < 5]
    assert found.to_pylist() == [
        {
            "count(1)": len(kept),
            "n": len(kept),
            "min(a)": min(r[1] for r in kept if r[1] is not None),
            "most a": 4,
            "min(s)": "s0",
        }
    ]
    assert found.schema.types == [pa.int64(), pa.int64(), pa.int32(), pa.int32(), pa.string()]
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
        found = connection.sql(f"SELECT EXISTS(SELECT {items} FROM '{table.name}' WHERE {where}) AS any")
        assert isinstance(found, pa.Table)
        return found

    for where in EXISTS:
        found = ask(where)
        assert found.schema == pa.schema([("any", pa.bool_())])
        assert found.to_pylist() == [{"any": table.scan(where).to_arrow().num_rows > 0}], where
    opened.clear()
    for where in EXISTS:
        ask(where, "s, id")
    assert opened
    assert decoded(opened) == 0
    # what no index decides is read, and no further than the first row
    opened.clear()
    assert ask("id % 7 = 3").column(0).to_pylist() == [True]
    assert 0 < decoded(opened) <= 2
    told: Any = connection.sql(f"EXPLAIN ANALYZE SELECT EXISTS(SELECT 1 FROM '{table.name}' WHERE a = 3)")
    assert told.path is ReadPath.INDEX_ONLY
    assert told.analyzed.rows == 1
    # one row is enough, but nobody wrote a limit
    assert told.limit is None
    none: Any = connection.sql(f"SELECT EXISTS(SELECT 1 FROM '{table.name}' WHERE a = 3 LIMIT 0)")
    assert none.to_pylist() == [{"exists()": False}]
    with pytest.raises(ColumnError, match="nosuch"):
        ask("a = 3", "nosuch")


def test_exists_is_what_spark_says(connection: LocalConnection, table: Table, spark: SparkSession) -> None:
    def union(of: str, of_table: str) -> list[str]:
        return [f"SELECT EXISTS(SELECT {of} FROM {of_table} WHERE {where})" for where in EXISTS]

    theirs = spark.sql(" UNION ALL ".join(union("1", f"orc.`{table.uri}`")))
    ours = [connection.sql(text) for text in union("1", f"'{table.uri}'")]
    values = [found.column(0)[0].as_py() for found in ours if isinstance(found, pa.Table)]
    assert sorted(values) == sorted(row[0] for row in theirs.collect())
    assert {tuple(found.column_names) for found in ours if isinstance(found, pa.Table)} == {
        tuple(theirs.columns)
    }


def test_statements(connection: LocalConnection, table: Table) -> None:
    def run(text: str) -> list[dict[str, Any]]:
        found: Any = connection.sql(text.replace("TABLE", f"'{table.name}'"))
        rows: list[dict[str, Any]] = (found.to_arrow() if isinstance(found, Scan) else found).to_pylist()
        return rows

    counted = grouped(A)
    assert run("SELECT DISTINCT a FROM TABLE") == [{"a": key} for key in counted]
    assert run("SELECT DISTINCT a AS b FROM TABLE ORDER BY b DESC LIMIT 2") == [{"b": 49}, {"b": 48}]
    assert run("SELECT DISTINCT a FROM TABLE ORDER BY a DESC NULLS FIRST LIMIT 2") == [{"a": None}, {"a": 49}]
    assert run("SELECT a, COUNT(*) AS n, COUNT(a), MAX(a) m FROM TABLE GROUP BY a LIMIT 2") == [
        {"a": None, "n": counted[None], "count(a)": 0, "m": None},
        {"a": 0, "n": counted[0], "count(a)": counted[0], "m": 0},
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
    with pytest.raises(ColumnError, match="nope"):
        run("SELECT MIN(nope) FROM TABLE")


def test_what_is_not_decided_is_read(table: Table, opened: list[OrcReader]) -> None:
    """``id`` has no index: its rows are decided by reading it, and all else still comes from indexes."""
    kept = [r for r in TABLE if 77 <= r[0] < 1333]
    scan = table.scan("id >= 77 AND id < 1333")
    assert found_groups(scan, "a") == grouped([r[1] for r in kept])
    assert scan.count("s") == sum(r[2] is not None for r in kept)
    assert (scan.min("id"), scan.max("id")) == (77, 1332)
    assert found_groups(scan, "id") == grouped([r[0] for r in kept])
    opened.clear()
    assert scan.exists()
    assert decoded(opened) == 0
    opened.clear()
    assert not table.scan("id > 77 AND id < 78 AND a = 3").exists()
    # a is asked of its index although what decides is read
    assert found_groups(table.scan("id = 100"), "a") == {None if 100 % 7 == 0 else 0: 1}


def test_statistics_of_the_file_tell_of_whole_stripes(table: Table, opened: list[OrcReader]) -> None:
    """Of a column without an index: its nulls, and the ends where no writer cuts or rounds them."""
    opened.clear()
    scan = table.scan()
    assert (scan.count("id"), scan.min("id"), scan.max("id")) == (2 * ROWS, 0, 2 * ROWS - 1)
    assert decoded(opened) == 0
    # a predicate that keeps every row of some stripes and none of the others
    opened.clear()
    assert table.scan("a >= 0 OR a IS NULL").max("id") == 2 * ROWS - 1
    assert decoded(opened) == 0


def test_nulls_that_nothing_tells_of_are_read(table: Table, opened: list[OrcReader]) -> None:
    """Of a column without an index, some rows of whose stripes are null."""
    table.drop_index("by_s")
    kept = [r for r in TABLE if r[1] == 3]
    opened.clear()
    assert table.scan("a = 3").count("s") == sum(r[2] is not None for r in kept)
    assert decoded(opened) > 0
    # of whole stripes the file's statistics tell how many
    opened.clear()
    assert table.scan().count("s") == sum(s is not None for s in S)
    assert decoded(opened) == 0


def test_keys_of_many_rows(
    connection: LocalConnection, tmp_path: Path, opened: list[OrcReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rows are bitmaps of their own, in pages beside those of the keys."""
    masks: list[int] = []
    real = rowsets.to_mask

    def told(rows: Any, total: int) -> Any:
        masks.append(total)
        return real(rows, total)

    monkeypatch.setattr(rowsets, "to_mask", told)
    rng = np.random.default_rng(11)
    few, part = rng.integers(0, 3, 30_000), rng.integers(0, 40, 30_000)
    few_or_null = pa.array(few, mask=rng.random(30_000) < 0.1)
    columns = pa.table({"few": few_or_null, "part": part, "name": few_or_null.cast(pa.string())})
    write_pyarrow(tmp_path / "t" / "0.orc", columns, "none", stripe=1 << 26, stride=10_000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec(name, name) for name in columns.column_names])
    for where, kept in ((None, np.full(30_000, True)), ("part < 7", part < 7), ("part = 7", part == 7)):
        values = few_or_null.filter(pa.array(kept)).to_pylist()
        opened.clear()
        assert found_groups(table.scan(where), "few") == grouped(values), where
        names = [None if value is None else str(value) for value in values]
        assert found_groups(table.scan(where), "name") == grouped(names), where
        # no row of theirs is unpacked
        assert (decoded(opened), masks) == (0, [])
    assert found_groups(table.scan("few = 1"), "part") == grouped(
        part[few_or_null.to_numpy(False) == 1].tolist()
    )
    assert masks == [30_000]
    masks.clear()
    first = table.scan("part = 7", ["few"], 500).order_by("few", descending=True).to_arrow().column("few")
    values = [value for value in few_or_null.filter(pa.array(part == 7)).to_pylist() if value is not None]
    assert first.to_pylist() == sorted(values, reverse=True)[:500]


def test_minmax_alone(connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]) -> None:
    write_rows(tmp_path / "t" / "0.orc", 0, A[:ROWS], S[:ROWS])
    table = connection.table(str(tmp_path / "t"))
    table.create_index("m", "a", "minmax")
    opened.clear()
    scan = table.scan()
    assert (scan.count("a"), scan.min("a"), scan.max("a")) == (sum(a is not None for a in A[:ROWS]), 0, 49)
    assert decoded(opened) == 0
    assert found_groups(scan, "a") == grouped(A[:ROWS])
    assert decoded(opened) > 0


def test_stale_new_and_unindexed_files_are_read_and_merged(table: Table, opened: list[OrcReader]) -> None:
    path = Path(table.uri)
    write_rows(path / "0.orc", 0, [70, None, 70])
    write_rows(path / "9.orc", 10_000, [71, None])
    kept = [70, None, 70, *A[ROWS:], 71, None]
    assert found_groups(table.scan(), "a") == grouped(kept)
    assert table.scan().max("a") == 71
    assert table.scan("a >= 49").count("a") == sum((a or 0) >= 49 for a in kept)
    read = [reader for reader in opened if decoded([reader])]
    assert {Path(reader.path).name for reader in read} == {"0.orc", "9.orc"}
    explained = table.scan().aggregate([], "a").explain()
    assert explained.path in (ReadPath.DENSE, ReadPath.MIXED, ReadPath.SPARSE)


def test_a_damaged_index_is_not_used(table: Table) -> None:
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[20:60] = b"\xff" * 40
        file.write_bytes(data)
    assert found_groups(table.scan(), "a") == grouped(A)
    assert (table.scan().min("a"), table.scan().max("s")) == (0, "s2")
    assert found_groups(table.scan("id > 5"), "s") == grouped(S[6:])


def test_partitions_and_absent_columns(connection: LocalConnection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_columns(path / "p=1" / "a.orc", {"x": pa.array([1, 2, None]), "y": pa.array(["u", None, "v"])})
    write_columns(path / "p=2" / "b.orc", {"x": pa.array([2, 2])})
    write_columns(path / "p=__HIVE_DEFAULT_PARTITION__" / "c.orc", {"x": pa.array([5, 6, 6])})
    table = connection.table(str(path))
    for indexed in (False, True):
        if indexed:
            table.create_indexes([IndexSpec("x", "x"), IndexSpec("y", "y")])
        assert found_groups(table.scan(), "p") == {None: 3, 1: 3, 2: 2}
        assert found_groups(table.scan("x > 5 OR y = 'u'"), "p") == {None: 2, 1: 1}
        assert found_groups(table.scan("x = 2"), "p") == {1: 1, 2: 2}
        assert (table.scan().min("p"), table.scan().max("p"), table.scan().count("p")) == (1, 2, 5)
        assert found_groups(table.scan(), "y") == {None: 6, "u": 1, "v": 1}
        assert found_groups(table.scan("y IS NULL"), "x") == {2: 3, 5: 1, 6: 2}
        assert (table.scan("p = 2").max("y"), table.scan("p = 2").count("y")) == (None, 0)
        assert table.scan("p = 7").value_counts("x").num_rows == 0
        assert table.scan("p = 7").min("x") is None


def test_refused(table: Table, connection: LocalConnection, tmp_path: Path) -> None:
    write_columns(tmp_path / "n" / "a.orc", {"l": pa.array([[1], None, [2]])})
    nested = connection.table(str(tmp_path / "n")).scan()
    assert nested.count("l") == 2
    for ask in (nested.distinct, nested.min, nested.value_counts):
        with pytest.raises(ColumnError, match="'l' is of type array<bigint>"):
            ask("l")
    with pytest.raises(ValueError, match="limit"):
        table.scan(limit=3).max("a")
    with pytest.raises(ColumnError, match="nope"):
        table.scan().count("nope")


@pytest.mark.parametrize(
    ("items", "group", "message"),
    [
        (
            [Group("a", "a"), Aggregate(AggregateFunction.MIN, "id", "m")],
            "a",
            "'id' is asked of groups by 'a'",
        ),
        (
            [Group("a", "a"), Aggregate(AggregateFunction.COUNT, "S", "n")],
            "a",
            "'S' is asked of groups by 'a'",
        ),
        ([Group("id", "id")], "a", "'id' is asked of groups by 'a'"),
        ([Group("a", "a")], None, "'a' stands beside aggregates"),
    ],
)
def test_only_the_groups_own_column(table: Table, items: list[Item], group: str | None, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        table.scan().aggregate(items, group).to_arrow()


def test_the_groups_column_in_other_letters(table: Table) -> None:
    items: list[Item] = [Group("A", "x"), Aggregate(AggregateFunction.COUNT, "a", "n")]
    found = table.scan("a = 3").aggregate(items, "A").to_arrow()
    assert found.to_pylist() == [{"x": 3, "n": A.count(3)}]


@pytest.mark.parametrize("using", [None, "bitmap"])
def test_ends_that_python_cannot_hold_are_text(
    connection: LocalConnection, tmp_path: Path, using: str | None
) -> None:
    columns = {
        "d": pa.array([-800_000, 3_000_000, 0, None], pa.int32()).view(pa.date32()),
        "t": pa.array([-70_000_000_000_000_000, 253_500_000_000_000_000, 0, None]).view(pa.timestamp("us")),
        "s": pa.array([b"a", b"\xff\xfe", None, b"b"]).view(pa.string()),
    }
    write_columns(tmp_path / "t" / "0.orc", columns)
    table = connection.table(str(tmp_path / "t"))
    if using is not None:
        table.create_indexes([IndexSpec(name, name, using) for name in columns])
    scan = table.scan()
    assert (scan.max("d"), scan.min("s"), scan.max("s")) == ("+10183-09-21", "a", "\udcff\udcfe")
    assert (scan.min("d")[:5], scan.min("t")[:5], scan.max("t")[:6]) == ("-0221", "-0249", "+10003")
    # proofs compare them, too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.scan(None, list(columns), mode="prove").to_arrow().num_rows == 4


def test_explained_where_one_value_or_none_is_known(connection: LocalConnection, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_columns(path / "p=1" / "a.orc", {"x": pa.array([1, 2, 3]), "y": pa.array([1, 2, 3])})
    write_columns(path / "p=__HIVE_DEFAULT_PARTITION__" / "b.orc", {"x": pa.array([1, 2, 3])})
    table = connection.table(str(path))
    table.create_indexes([IndexSpec("x", "x"), IndexSpec("y", "y")])
    for select in ("MIN(p), MAX(p), COUNT(p)", "MIN(y)", "MAX(y), COUNT(y)"):
        found: Any = connection.sql(f"EXPLAIN ANALYZE SELECT {select} FROM '{path}' WHERE x > 1")
        assert (found.path, found.analyzed.row_groups) == (ReadPath.INDEX_ONLY, 0), select


def test_groups_that_are_held_are_not_put_together_for_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[int] = []
    real = groups._joined

    def counted(parts: Any) -> pa.Table:
        put.append(sum(part.num_rows for part in parts))
        return real(parts)

    monkeypatch.setattr(groups, "_joined", counted)
    monkeypatch.setattr(groups, "_HELD_GROUPS", 50)
    ones = np.ones(10, np.int64)
    parts = (groups.of_key_counts(KeyCounts(np.arange(at, at + 10), ones, 1)) for at in range(0, 4000, 10))
    found = groups.joined([OrcType(Kind.LONG)], parts)
    assert found.column(0).to_pylist() == [None, *range(4000)]
    assert found.column("count").to_pylist() == [400] + [1] * 4000
    # each doubling joins once
    assert sum(put) < 5 * 4000


@pytest.mark.parametrize("kinds", ["l", "s", "ls", "sl", "ssl"])
def test_groups_in_order(kinds: str) -> None:
    """Parts in any order, with nulls, put together and sorted, NULL first, against Python's."""
    rng = np.random.default_rng(len(kinds))
    types = [OrcType(Kind.LONG if kind == "l" else Kind.STRING) for kind in kinds]
    values: list[list[Any]] = [[None, -(2**63), 2**63 - 1, 0, 7], [None, "", "\u00e9", "z", "ab"]]
    rows, parts = [], []
    for _ in range(4):
        columns = [[values[kind == "s"][i] for i in rng.integers(0, 5, 40)] for kind in kinds]
        rows += list(zip(*columns, strict=True))
        parts.append(
            groups.of_values(
                types, [pa.array(c, of.to_arrow()) for c, of in zip(columns, types, strict=True)]
            )
        )
    found = groups.joined(types, iter(parts))
    counted = Counter(rows)

    def rank(row: tuple[Any, ...]) -> list[Any]:
        return [(value is not None, value.encode() if isinstance(value, str) else value) for value in row]

    keys = [groups.values_of(of, found, at).to_pylist() for at, of in enumerate(types)]
    wanted = sorted(counted, key=rank)
    assert list(zip(*keys, strict=True)) == wanted
    assert groups.counts_of(found).to_pylist() == [counted[row] for row in wanted]
    assert groups.joined(types, []).num_rows == 0
    nulls = groups.of_values(types, [pa.nulls(3, of.to_arrow()) for of in types])
    assert groups.joined(types, [nulls, nulls]).to_pylist() == [
        dict.fromkeys(map(str, range(len(types)))) | {"count": 6}
    ]


def test_groups_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end, and not in each part; integers of one column are counted by sorting them."""
    calls: list[str] = []

    def told(name: str) -> None:
        real = getattr(groups, name)

        def counted(found: pa.Table) -> pa.Table:
            calls.append(name)
            return real(found)

        monkeypatch.setattr(groups, name, counted)

    told("ordered")
    told("_joined_integers")
    for kind, array, expected in (
        (Kind.LONG, pa.array([3, None, 1, 3]), ["_joined_integers", "ordered"]),
        (Kind.STRING, pa.array(["b", None, "a", "b"]), ["ordered"]),
    ):
        parts = [groups.of_values([OrcType(kind)], [array]) for _ in range(3)]
        assert groups.joined([OrcType(kind)], parts).column("count").to_pylist() == [3, 3, 6]
        assert calls == expected
        calls.clear()


def test_explained(table: Table) -> None:
    explained = table.scan("a = 3").aggregate([], "s").explain()
    assert explained.path is ReadPath.INDEX_ONLY
    assert explained.group == "s"
    assert explained.bytes is not None
    assert explained.bytes.kept == 0
    assert table.scan("a = 3 AND id > 5").aggregate([], "s").explain().path is not ReadPath.INDEX_ONLY
    assert table.scan("a = 3").aggregate([], "id").explain().path is not ReadPath.INDEX_ONLY


def test_groups_are_put_together_as_they_come(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "_HELD_GROUPS", 30)
    assert found_groups(table.scan(), "a") == grouped(A)
    assert found_groups(table.scan(), "s") == grouped(S)


def test_an_index_of_many_keys_is_not_walked_for_a_few_rows(
    connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]
) -> None:
    keys = list(range(5000))
    columns = {"k": pa.array(keys), "g": pa.array([i % 5000 for i in keys])}
    write_pyarrow(tmp_path / "t" / "a.orc", pa.table(columns), "none", stripe=1 << 26, stride=1000)
    table = connection.table(str(tmp_path / "t"))
    table.create_indexes([IndexSpec("k", "k"), IndexSpec("g", "g")])
    opened.clear()
    assert found_groups(table.scan("k = 77"), "g") == {77: 1}
    assert decoded(opened) == 1
    opened.clear()
    assert len(found_groups(table.scan("k < 2000"), "g")) == 2000
    assert decoded(opened) == 0


def test_a_limit_of_no_rows_asks_no_index_of_several_files(
    connection: LocalConnection, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("tree", "id", "btree")

    def opens(*_: Any) -> Any:
        raise AssertionError("an index file is opened")

    monkeypatch.setattr(shared, "open_btree_file", opens)
    found: Any = connection.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 7 LIMIT 0")
    assert found.num_rows == 0
    told: Any = connection.sql(f"EXPLAIN SELECT a, s FROM '{table.name}' WHERE id = 7 GROUP BY a, s LIMIT 0")
    assert told.path is ReadPath.NOTHING
    with pytest.raises(AssertionError):
        connection.sql(f"SELECT COUNT(*) FROM '{table.name}' WHERE id = 7")


@pytest.mark.parametrize("limit", [-1, 1.5, "x"])
def test_limits_that_are_none(table: Table, limit: Any) -> None:
    with pytest.raises(ValueError, match=f"^limit is {limit!r}: it "):
        table.scan().aggregate([Group("a", "a")], "a", limit)
    assert table.scan().aggregate([Group("a", "a")], "a", 2).to_arrow().column(0).to_pylist() == [None, 0]


def test_columns_that_are_given_as_one(table: Table) -> None:
    names: Any = ["a", "s"]
    with pytest.raises(
        ColumnError, match=r"^Column 'a\.s' cannot be resolved: a value of type int has no fields"
    ):
        table.scan().value_counts(names)


def special_values() -> dict[str, pa.Array]:
    """Values whose comparison has a trap, each several times and in several stripes."""
    nan, inf = math.nan, math.inf
    day, moment = datetime.date, datetime.datetime
    base: dict[str, tuple[pa.DataType, list[Any]]] = {
        "b": (pa.bool_(), [True, False, None]),
        "t": (pa.int8(), [-128, 127, 0, None]),
        "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, None, -1]),
        "f": (pa.float32(), [nan, -0.0, 0.0, 1.5, -inf, inf, None]),
        "d": (pa.float64(), [-0.0, 0.0, nan, 1e300, -5e-324, None]),
        "z": (pa.float64(), [nan, None]),
        "n": (pa.decimal128(10, 2), [Decimal("1.10"), Decimal("-99999999.99"), None, Decimal(0)]),
        "w": (pa.decimal128(38, 10), [Decimal("-1e27"), Decimal("0.0000000001"), Decimal("1e27"), None]),
        "s": (
            pa.string(),
            ["", "a", "a ", "\u00e9", "\U0001f600", "x" * 100 + "1", "x" * 100 + "2", "\x00", None],
        ),
        "y": (pa.binary(), [b"", b"\xff\x00", b"\xff", b"a", None]),
        "c": (pa.date32(), [day(1582, 10, 4), day(1582, 10, 15), day(1, 1, 1), day(9999, 12, 31), None]),
        "m": (
            pa.timestamp("us"),
            [moment(1969, 12, 31, 23, 59, 59, 999_999), moment(2020, 1, 1), None, moment(1900, 1, 1)],
        ),
        "e": (pa.string(), [None]),
    }
    rng = np.random.default_rng(7)
    return {
        name: pa.array([values[i] for i in rng.integers(0, len(values), 900)], of)
        for name, (of, values) in base.items()
    }


def plain(value: Any) -> Any:
    """Equal for what Spark takes for one value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return bytes(value) if isinstance(value, bytearray) else value


def test_special_values_as_spark(
    spark: SparkSession, connection: LocalConnection, tmp_path: Path, opened: list[OrcReader]
) -> None:
    columns = special_values()
    for number in range(2):
        part = {name: array.slice(number * 450, 450) for name, array in columns.items()}
        write_pyarrow(tmp_path / "t" / f"{number}.orc", pa.table(part), "zlib", stripe=2000, stride=100)
    frame = spark.read.orc(str(tmp_path / "t"))
    ends = frame.selectExpr(
        *(
            f"{function}({name}) AS {function}_{name}"
            for name in columns
            for function in ("min", "max", "count")
        )
    ).toArrow()
    counted = {name: frame.groupBy(name).count().toArrow() for name in columns}
    table = connection.table(str(tmp_path / "t"))
    for indexed in (False, True):
        if indexed:
            table.create_indexes([IndexSpec(name, name) for name in columns])
        opened.clear()
        for name, array in columns.items():
            scan = table.scan()
            for function, found in (
                ("min", scan.min(name)),
                ("max", scan.max(name)),
                ("count", scan.count(name)),
            ):
                expected = ends.column(f"{function}_{name}")
                if pa.types.is_timestamp(expected.type):
                    expected = expected.cast(pa.timestamp("us"))
                assert plain(found) == plain(expected[0].as_py()), (function, name, indexed)
            got = scan.value_counts(name)
            assert got.schema.field(0).type == array.type
            values = counted[name].column(0)
            if pa.types.is_timestamp(values.type):
                values = values.cast(pa.timestamp("us"))
            wanted = dict(
                zip(map(plain, values.to_pylist()), counted[name].column(1).to_pylist(), strict=True)
            )
            listed = list(map(plain, got.column(0).to_pylist()))
            assert dict(zip(listed, got.column(1).to_pylist(), strict=True)) == wanted, (name, indexed)
            assert len(listed) == len(wanted), name
        assert (decoded(opened) == 0) == indexed
