"""Lookup joins: rows and schema are Spark's, and the large table is read by the keys of the small one."""

from __future__ import annotations

import datetime
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

import hindex
from hindex.plan.reasons import Reason
from hindex.queries import lookup_joins, plan_rewriting, selectivity
from hindex.queries.decisions import QueryExplanation
from hindex.spark import scan
from tests.support.cases import cases, sampled
from tests.support.queries import compare_plans, count_calls, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``HINDEX_CASES=2000`` tries two thousand queries.
CASES = cases(10, 60)
ROWS = {"fact": 400, "bridge": 60, "dim": 25, "names": 8}

#: In the log, a lookup join that is used.
_LOOKUP = re.compile(r" by [\d,]+ keys? of [\w.`]+[,; ]")

#: A name in FROM, and the kinds of its columns.
Part: TypeAlias = tuple[str, Mapping[str, str]]


#: Columns by kind of value: numbers, strings, dates, amounts.
TABLES = {
    "fact": {"id": "n", "k": "n", "b": "n", "s": "s", "d": "d", "a": "a"},
    "bridge": {"b": "n", "k": "n", "s": "s", "a": "a"},
    "dim": {"k": "n", "s": "s", "d": "d", "g": "n", "a": "a"},
    "names": {"s": "s", "g": "n"},
}
#: The types of the columns by kind, and of those whose keys have another type than the column they are compared with.
TYPES = {"n": "INT", "s": "STRING", "d": "DATE", "a": "DECIMAL(9, 2)"}
OTHER_TYPES = {("bridge", "k"): "BIGINT", ("bridge", "a"): "DECIMAL(7, 1)", ("names", "g"): "SMALLINT"}


@pytest.fixture(autouse=True)
def forget() -> None:
    lookup_joins.DECLINED.clear()


@pytest.fixture(scope="module")
def star(spark: SparkSession) -> Iterator[str]:
    """A star of tables that tests only read."""
    with _star(spark, "star") as database:
        yield database


@contextmanager
def _star(spark: SparkSession, database: str) -> Iterator[str]:
    """Make a star of tables with nulls and duplicates in all columns; the two largest have indexes."""
    random = np.random.default_rng(29)
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"USE {database}")
    try:
        for name in TABLES:
            spark.sql(f"CREATE TABLE {name} ({_schema(name)}) USING orc")
            _insert(spark, name, ROWS[name], random)
        _index(spark)
        # a file without an index
        spark.sql("INSERT INTO fact SELECT id + 1000, k, b, s, d, a FROM fact WHERE id < 3")
        yield database
    finally:
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {database} CASCADE")


def _index(spark: SparkSession) -> None:
    hx = hindex.connect(spark=spark)
    hx.table("fact").create_indexes(
        [hindex.IndexSpec(f"i_{name}", name) for name in ("k", "s", "d", "a")]
        + [hindex.IndexSpec("i_b", "b", "btree")],
        if_not_exists=True,
    )
    specs = [hindex.IndexSpec("i_k", "k"), hindex.IndexSpec("i_s", "s")]
    hx.table("bridge").create_indexes(specs, if_not_exists=True)


def _schema(table: str) -> str:
    return ", ".join(
        f"{column} {OTHER_TYPES.get((table, column), TYPES[kind])}" for column, kind in TABLES[table].items()
    )


def _insert(
    spark: SparkSession, table: str, size: int, random: np.random.Generator, *, overwrite: bool = False
) -> None:
    """Write random rows into one or two new files of a table."""

    def column(kind: str) -> list[Any]:
        values: list[Any] = []
        for drawn in random.integers(12 if table == "names" else 30, size=size):
            number = int(drawn)
            value: Any = number
            if kind == "s":
                value = ["", "s1 ", "S1"][number] if number < 3 else f"s{number}"
            elif kind == "d":
                value = datetime.date(2024, 1, 1) + datetime.timedelta(days=number)
            elif kind == "a":
                value = Decimal(number * 5).scaleb(-1)
            values.append(None if random.random() < 0.12 else value)
        return values

    columns = [column(kind) for kind in TABLES[table].values()]
    frame = spark.createDataFrame(list(zip(*columns, strict=True)), _schema(table))
    frame.repartition(2 if size > 50 else 1).write.insertInto(table, overwrite=overwrite)


class JoinGenerator:
    """Makes random queries that join a few tables."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._number = 0

    def query(self) -> str:
        """Make the text of a query."""
        self._number = 0
        shapes = [
            "join",
            "join",
            "join",
            "in",
            "exists",
            "filtered",
            "filtered",
            "correlated",
            "cte",
            "branches",
        ]
        shape = self._pick(shapes)
        return str(getattr(self, f"_{shape}")())

    def _is(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _pick(self, items: Any) -> Any:
        items = list(items)
        return items[int(self._rng.integers(len(items)))]

    def _alias(self) -> str:
        self._number += 1
        return f"t{self._number}"

    def _constant(self, kind: str) -> str:
        number = int(self._rng.integers(30))
        if kind == "n":
            return str(number)
        if kind == "d":
            return f"DATE '2024-01-{number + 1:02}'"
        if kind == "a":
            return f"{number / 2}"
        return f"'{self._pick(['', 's1 ', 'S1', f's{number}'])}'"

    def _condition(self, alias: str, columns: Mapping[str, str]) -> str:
        column, kind = self._pick(columns.items())
        constant = self._constant(kind)
        return str(
            self._pick(
                [
                    *[f"{alias}.{column} = {constant}"] * 3,
                    f"{alias}.{column} < {constant}",
                    f"{alias}.{column} IN ({constant}, {self._constant(kind)}, NULL)",
                    f"{alias}.{column} IS NULL",
                    f"({alias}.{column} = {constant} OR {alias}.{column} IS NULL)",
                    f"NOT {alias}.{column} <=> {constant}",
                    f"upper({alias}.{column}) = 'S3'" if kind == "s" else f"{alias}.{column} >= {constant}",
                ]
            )
        )

    def _where(self, parts: list[Part], share: float = 0.8) -> str:
        conditions = [self._condition(*part) for part in parts if self._is(share)]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def _equality(self, left: Part, right: Part) -> str:
        (left_name, left_columns), (right_name, right_columns) = left, right
        pairs = [
            (a, b)
            for a, one in left_columns.items()
            for b, other in right_columns.items()
            if (one == other and (a == b or self._is(0.2))) or ({one, other} == {"n", "a"} and self._is(0.03))
        ]
        if not pairs:
            pairs = [("s", "s")]
        a, b = self._pick(pairs)
        sides = [f"{left_name}.{a}", f"{right_name}.{b}"]
        if self._is(0.5):
            sides.reverse()
        text = " = ".join(sides)
        if self._is(0.1):
            text = f"{sides[0]} <=> {sides[1]}"
        return text

    def _output(self, parts: list[Part]) -> str:
        chosen = [
            f"{alias}.{self._pick(columns)} AS c{at}"
            for at, (alias, columns) in enumerate([*parts, *parts[:1]])
        ]
        draw = self._rng.random()
        if draw < 0.15:
            return f"count(*) AS n, min({chosen[0].split()[0]}) AS m"
        return ("DISTINCT " if draw < 0.25 else "") + ", ".join(chosen)

    def _join(self, ctes: Mapping[str, Mapping[str, str]] | None = None) -> str:
        tables = {**TABLES, **(ctes or {})}
        names = [
            self._pick(["fact", *tables]),
            *(self._pick(tables) for _ in range(int(self._rng.integers(1, 4)))),
        ]
        if self._is(0.5):
            names.reverse()
        parts: list[Part] = []
        text = ""
        for name in names:
            alias, columns = self._alias(), tables[name]
            source = name
            if self._is(0.12):
                source = f"(SELECT * FROM {name} x{self._where([('x', columns)])})"
            if not parts:
                text = f"{source} {alias}"
                parts.append((alias, columns))
                continue
            kind = self._pick(
                ["JOIN"] * 4 + ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
            )
            on = self._equality(self._pick(parts), (alias, columns))
            if self._is(0.25):
                on += f" AND {self._condition(*self._pick([*parts, (alias, columns)]))}"
            if self._is(0.08):
                on = f"({on} OR {self._equality(self._pick(parts), (alias, columns))})"
            shared = [column for column in columns if column in parts[0][1]]
            if len(names) == 2 and shared and self._is(0.2):
                text += f" {kind} {source} {alias} USING ({self._pick(shared)})"
            else:
                text += f" {kind} {source} {alias} ON {on}"
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                parts.append((alias, columns))
        where = self._where(parts, 0.6)
        if self._is(0.2):
            condition = self._subquery(*self._pick(parts))
            where += f"{' AND' if where else ' WHERE'} {condition}"
        return f"SELECT {self._output(parts)} FROM {text}{where}"

    def _in(self) -> str:
        small = self._pick(["dim", "bridge", "names"])
        columns = TABLES[small]
        inner = [name for name in columns if name in TABLES["fact"]]
        column = self._pick(inner)
        limits = self._pick(["", "", f" GROUP BY y.{column}", " LIMIT 1000"])
        source = f"{small} y"
        if self._is(0.2):
            source += f" JOIN dim x ON {self._equality(('y', columns), ('x', TABLES['dim']))}"
        where = self._where([("y", columns)])
        body = f"SELECT {'DISTINCT ' * self._is(0.2)}y.{column} FROM {source}{where}{limits}"
        if self._is(0.2):
            body = f"SELECT {column} FROM ({body}) z"
        negated = "NOT " * self._is(0.15)
        more = f" AND {self._condition('f', TABLES['fact'])}" * self._is(0.3)
        other = f" OR {self._condition('f', TABLES['fact'])}" * self._is(0.15)
        return f"SELECT f.id, f.s, f.k FROM fact f WHERE (f.{column} {negated}IN ({body}){other}){more}"

    def _exists(self) -> str:
        outer, inner = ("fact", self._pick(["dim", "bridge", "names"]))
        if self._is(0.5):
            outer, inner = inner, outer
        equality = self._equality(("o", TABLES[outer]), ("i", TABLES[inner]))
        output = self._pick(["1", "*", "i.s", "count(*)"])
        where = self._where([("i", TABLES[inner])]) or " WHERE true"
        body = f"SELECT {output} FROM {inner} i{where} AND {equality}"
        return (
            f"SELECT o.* FROM {outer} o WHERE {'NOT ' * self._is(0.3)}EXISTS ({body})"
            f" AND {self._condition('o', TABLES[outer])}"
        )

    def _correlated(self) -> str:
        small = self._pick(["dim", "bridge"])
        column = self._pick([name for name in TABLES[small] if name in TABLES["fact"]])
        aggregate = self._pick(["count(*)", "max(g.id)", "sum(g.k)", "avg(g.b)", "min(g.id) + 1"])
        inner = f"(SELECT {aggregate} FROM fact g WHERE g.{column} = t.{column})"
        where = f" AND {self._condition('t', TABLES[small])}"
        if self._is(0.5):
            other = self._pick(["f.id", "f.k", "f.b"])
            return (
                f"SELECT f.id, t.s FROM fact f, {small} t WHERE f.{column} = t.{column}{where} "
                f"AND {other} {self._pick(['<', '>='])} {inner}"
            )
        if self._is(0.5):
            return f"SELECT t.s, {inner} AS n FROM {small} t WHERE true{where}"
        return f"SELECT t.* FROM {small} t WHERE {inner} > {self._rng.integers(0, 20)}{where}"

    def _cte(self) -> str:
        small = self._pick(["dim", "bridge", "names"])
        columns = TABLES[small]
        body = f"SELECT * FROM {small} y{self._where([('y', columns)])}"
        if self._is(0.3):
            on = self._equality(("y", columns), ("x", TABLES["fact"]))
            body = f"SELECT y.* FROM {small} y JOIN fact x ON {on}{self._where([('y', columns)])}"
        return f"WITH w AS ({body}) {self._join({'w': columns})}"

    def _branches(self) -> str:
        branches = [
            f"(f.k = t.k AND {self._condition('t', TABLES['dim'])} AND {self._condition('f', TABLES['fact'])})"
            for _ in range(2)
        ]
        return f"SELECT f.id, t.s FROM fact f, dim t WHERE {' OR '.join(branches)}"

    def _filtered(self) -> str:
        """Make a query of the large table, alone or joined, with one or two subqueries in its WHERE."""
        kind = self._pick(
            ["", "", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
        parts: list[Part] = [("f", TABLES["fact"])]
        source = "fact f"
        if kind:
            name = self._pick(["dim", "bridge", "names"])
            source += f" {kind} {name} t ON {self._equality(('f', TABLES['fact']), ('t', TABLES[name]))}"
            if "SEMI" not in kind and "ANTI" not in kind:
                parts.append(("t", TABLES[name]))
        conditions = [self._subquery(*self._pick(parts)) for _ in range(1 + self._is(0.3))]
        if self._is(0.4):
            conditions.append(self._condition(*self._pick(parts)))
        self._rng.shuffle(conditions)
        return f"SELECT {self._output(parts)} FROM {source} WHERE {' AND '.join(conditions)}"

    def _subquery(self, alias: str, columns: Mapping[str, str]) -> str:
        """Make a condition that a column is among those of a small table."""
        small = self._pick(["dim", "bridge", "names"])
        column = self._pick([name for name in columns if name in TABLES[small]] or ["s"])
        where = self._where([("y", TABLES[small])])
        if self._is(0.3):
            return (
                f"EXISTS (SELECT 1 FROM {small} y{where or ' WHERE true'} AND y.{column} = {alias}.{column})"
            )
        return f"{alias}.{column} IN (SELECT y.{column} FROM {small} y{where})"


def _lookups(explained: QueryExplanation) -> list[str]:
    return [f"{table.table}.{lookup}" for table in explained.tables for lookup in table.lookups]


@sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT fact.*, dim.s FROM fact JOIN dim ON fact.k = dim.k WHERE g < 6",
        "SELECT * FROM dim LEFT JOIN fact ON fact.k = dim.k WHERE g < 6",
        "SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE g < 6)",
        "SELECT * FROM fact WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = fact.k AND g < 6)",
        "SELECT dim.*, (SELECT count(*) FROM fact WHERE fact.k = dim.k) AS n FROM dim WHERE g < 6",
        "SELECT dim.* FROM dim WHERE g < 6 AND NOT EXISTS (SELECT 1 FROM fact WHERE fact.k = dim.k)",
        "SELECT n, dim.s FROM dim JOIN (SELECT k, count(*) AS n FROM fact GROUP BY k) f ON f.k = dim.k WHERE g < 6",
        "SELECT u.id FROM dim JOIN (SELECT k + 0 AS z, k AS y, id FROM fact) u ON u.y = dim.k WHERE g < 6",
        "SELECT f.id FROM dim JOIN (SELECT DISTINCT k, id FROM fact) f ON f.k = dim.k WHERE g < 6",
    ],
)
def test_keys_select_the_rows_of_the_large_table(spark: SparkSession, star: str, text: str) -> None:
    """The large table is read at the rows of the keys, and no others; the small one is computed once."""
    explained = compare_plans(hindex.connect(spark=spark), text)
    values = {row.k for row in spark.sql("SELECT k FROM dim WHERE g < 6").collect()} - {None}
    keys = f"{len(values)} key{'s' * (len(values) != 1)}"
    assert _lookups(explained) == [f"fact.k by {keys} of dim.k"]
    fact = next(table for table in explained.tables if table.table == "fact")
    listed = ", ".join(map(str, values))
    (row,) = spark.sql(f"SELECT count(*) AS n FROM fact WHERE k IN ({listed}) AND id < 1000").collect()
    assert fact.rows is not None
    # of the file without an index all rows may match
    assert fact.rows.kept is not None
    assert row.n <= fact.rows.kept < (fact.rows.total or 0) / 2
    assert [table.gives_keys for table in explained.tables if table.table == "dim"] == [True]


@pytest.mark.parametrize(
    "small", ["(SELECT k FROM dim WHERE g < 6)", "(SELECT k FROM dim WHERE g < 6 GROUP BY k)"]
)
def test_keys_pass_a_union(spark: SparkSession, star: str, small: str) -> None:
    text = (
        "SELECT u.id FROM (SELECT id, k FROM fact WHERE s > 's2' UNION ALL SELECT id, k FROM fact WHERE id < 50) u "
        f"JOIN {small} d ON u.k = d.k"
    )
    explained = compare_plans(hindex.connect(spark=spark), text)
    assert [table.is_accelerated for table in explained.tables if table.table == "fact"] == [True, True]
    assert len(_lookups(explained)) == 2


def test_keys_of_a_join_beyond_the_next(spark: SparkSession, star: str) -> None:
    """Keys of a dimension select the rows of a bridge; the rows of their join select those of the fact table."""
    explained = compare_plans(
        hindex.connect(spark=spark),
        "SELECT /*+ LEADING(dim) */ fact.id, bridge.s FROM bridge JOIN dim ON bridge.k = dim.k "
        "JOIN fact ON fact.b = bridge.b WHERE dim.g < 6 AND dim.d IS NOT NULL",
    )
    assert sorted((table.table, table.gives_keys) for table in explained.tables) == [
        ("bridge", True),
        ("dim", True),
        ("fact", False),
    ]
    (fact,) = (table for table in explained.tables if table.table == "fact")
    assert [lookup.source for lookup in fact.lookups if lookup.reason is None] == ["bridge.b"]


@sampled(6)
@pytest.mark.parametrize(
    "text",
    [
        # rows without a partner reach the result
        "SELECT * FROM fact LEFT JOIN dim ON fact.k = dim.k AND g < 6",
        "SELECT * FROM fact FULL JOIN dim ON fact.k = dim.k AND g < 6",
        "SELECT * FROM fact WHERE NOT EXISTS (SELECT 1 FROM dim WHERE fact.k = dim.k AND g < 6)",
        "SELECT * FROM fact WHERE k NOT IN (SELECT k FROM dim WHERE g < 6 AND k IS NOT NULL)",
        "SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE g < 6) OR id < 20",
        # the limit would choose among other rows
        "SELECT * FROM (SELECT * FROM fact ORDER BY id LIMIT 50) f JOIN dim ON f.k = dim.k WHERE g < 6",
        # other rows would be numbered, or counted
        "SELECT * FROM (SELECT k, row_number() OVER (ORDER BY id) AS n FROM fact) f JOIN dim USING (k) WHERE g < 6",
        "SELECT * FROM (SELECT max(k) AS k FROM fact) f JOIN dim ON f.k = dim.k WHERE g < 6",
        # equality of other values
        "SELECT * FROM fact JOIN dim ON fact.k <=> dim.k WHERE g < 6",
        "SELECT * FROM fact JOIN dim ON fact.s = dim.k WHERE g < 6 AND fact.s IN ('3', '4')",
        "SELECT * FROM fact JOIN dim ON fact.k + 1 = dim.k WHERE g < 6",
        # rounded ones
        "SELECT * FROM fact JOIN dim ON CAST(fact.a AS DECIMAL(9, 1)) = CAST(dim.a AS DECIMAL(9, 1)) WHERE g < 6",
    ],
)
def test_other_joins_select_no_rows(spark: SparkSession, star: str, text: str) -> None:
    explained = compare_plans(hindex.connect(spark=spark), text)
    assert not any(table.lookups for table in explained.tables if table.table == "fact")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM fact JOIN dim ON fact.k = dim.k WHERE g = 3 AND dim.s = 'nothing'",
        "SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE g = 3 AND s = 'nothing')",
    ],
)
def test_no_keys_select_no_rows(spark: SparkSession, star: str, text: str) -> None:
    explained = compare_plans(hindex.connect(spark=spark), text)
    (fact,) = (table for table in explained.tables if table.table == "fact")
    assert (fact.is_accelerated, fact.rows and fact.rows.kept) == (True, 0)


def test_sides_with_too_many_rows_are_computed_in_part_once(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_joins, "MAX_ROWS", 3)
    computed = count_calls(monkeypatch, lookup_joins._Sources, lookup_joins._Sources._compute)
    text = "SELECT fact.id FROM fact JOIN dim ON fact.k = dim.k WHERE g > 3"
    for _ in range(2):
        explained = compare_plans(hindex.connect(spark=spark), text)
        assert _lookups(explained)[0].startswith("fact.k by keys of dim.k: not used, more than 3 rows")
    assert len(computed) == 1


def test_a_side_without_conditions_gives_keys_if_it_is_tiny(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT fact.id FROM fact JOIN names ON fact.s = names.s"
    assert _lookups(compare_plans(hindex.connect(spark=spark), text))[0].startswith("fact.s by ")
    monkeypatch.setattr(lookup_joins, "MAX_UNFILTERED_BYTES", 10)
    (lookup,) = _lookups(compare_plans(hindex.connect(spark=spark), text))
    assert lookup.endswith("not used, no condition restricts its rows")


def test_keys_that_leave_too_many_rows_are_not_used(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.005)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    selectivity.DECLINED.clear()
    text = "SELECT fact.id FROM fact JOIN dim ON fact.k = dim.k WHERE g > 3"
    expected = rows(spark.sql(text))
    computed = count_calls(monkeypatch, lookup_joins._Sources, lookup_joins._Sources._compute)
    with hindex.accelerate(spark) as handle:
        first, second = handle.explain(spark.sql(text)), handle.explain(spark.sql(text))
        assert rows(spark.sql(text)) == expected
        assert len(computed) == 1
        # the small side has other rows, and another size
        assert rows(spark.sql(text.replace("dim ON", "bridge AS dim ON").replace("g > 3", "dim.b < 9"))) != []
    assert len(computed) == 2
    for explained, is_computed in ((first, True), (second, False)):
        (lookup,) = _lookups(explained)
        assert lookup.endswith(" of dim.k: not used, NOT_SELECTIVE: more than 1.0% of the rows may match")
        # the rows of a computed side stand for it all the same
        assert [table.gives_keys for table in explained.tables if table.table == "dim"] == [is_computed]


def test_declined_keys_are_computed_again_for_another_reading(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that uses every index, one of other columns, and one after a failure of the index."""
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.005)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    text = "SELECT {} FROM fact JOIN dim ON fact.k = dim.k WHERE g > 3"
    computed = count_calls(monkeypatch, lookup_joins._Sources, lookup_joins._Sources._compute)

    def count_computed(columns: str, *, always: bool = False) -> int:
        selectivity.DECLINED.clear()
        computed.clear()
        with hindex.accelerate(spark, always=always):
            rows(spark.sql(text.format(columns)))
        return len(computed)

    assert [count_computed("fact.id"), count_computed("fact.id")] == [1, 0]
    assert count_computed("fact.id", always=True) == 1
    assert count_computed("fact.id, fact.s") == 1
    lookup_joins.DECLINED.clear()
    with monkeypatch.context() as patch:
        patch.setattr(selectivity, "has_failures", lambda _: True)
        assert [count_computed("fact.id"), count_computed("fact.id")] == [1, 1]


def test_no_keys_are_computed_for_a_table_that_spark_reads_sooner(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT fact.id FROM fact JOIN dim ON fact.k = dim.k WHERE g = 3"
    expected = rows(spark.sql(text))
    computed = count_calls(monkeypatch, lookup_joins._Sources, lookup_joins._Sources._compute)
    # by its own condition, that k is not null, it is not read either
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.005)
    for smallest, is_computed in ((10_000, False), (0, True)):
        monkeypatch.setattr(selectivity, "MIN_VALUES", smallest)
        selectivity.DECLINED.clear()
        with hindex.accelerate(spark) as handle:
            tables = {table.table: table for table in handle.explain(spark.sql(text)).tables}
            assert rows(spark.sql(text)) == expected
        assert bool(computed) is is_computed
        assert tables["fact"].reason is (Reason.NOT_SELECTIVE if is_computed else Reason.TOO_SMALL)


def test_conditions_are_compared_with_the_rows_of_few_row_groups(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only if that decodes a small part of the values that Spark would."""
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    # 20 row groups
    frame = spark.range(20_000).selectExpr("id AS b", "id % 7 AS x", "id % 11 AS y", "id % 13 AS z")
    frame.coalesce(1).write.option("orc.row.index.stride", 1000).orc(str(tmp_path / "t"))
    hindex.connect(spark=spark).table(tmp_path / "t").create_index("i_b", "b", "btree")
    spark.read.orc(str(tmp_path / "t")).createOrReplaceTempView("large")
    # two keys in two row groups of twenty; no index is on the condition of the first ones' side
    keys = "SELECT {} FROM large WHERE b IN (SELECT id * 700 + 31 FROM range(9) WHERE id % 6 = 1)"
    literals = "SELECT {} FROM large WHERE b IN (731, 4931)"
    try:
        for text, limit in ((keys, "2.0%"), (literals, "1.0%")):
            for columns, is_used in (("b, x, y", True), ("x", True), ("b", False)):
                expected = rows(spark.sql(text.format(columns)))
                assert len(expected) == 2
                with hindex.accelerate(spark) as handle:
                    query = spark.sql(text.format(columns))
                    assert rows(query) == expected
                    (large,) = (table for table in handle.explain(query).tables if "/t" in table.table)
                assert large.is_accelerated is is_used, columns
                if is_used:
                    assert (large.row_text, large.is_counted) == ("2 of 20,000", True)
                else:
                    assert f"more than {limit}" in f"{large.detail} {large.lookups}"
        # a condition that more rows satisfy: those beyond the limit are not compared
        compared = count_calls(monkeypatch, plan_rewriting, scan.collect_if_small)
        for owner, name, most in (
            (selectivity, "MAX_CANDIDATES", 1999),
            (plan_rewriting, "MAX_LOCAL_FILES", 0),
        ):
            with monkeypatch.context() as patch, hindex.accelerate(spark) as handle:
                patch.setattr(owner, name, most)
                (large,) = handle.explain(spark.sql(literals.format(f"b, x, z, y + {len(name)}"))).tables
            assert not compared
            assert large.reason is Reason.NOT_SELECTIVE
    finally:
        spark.catalog.dropTempView("large")


def test_a_query_that_is_repeated_compiles_no_code(spark: SparkSession, star: str) -> None:
    """Spark keeps generated code by its text, so that of the side with the keys must not differ between plans."""
    jvm: Any = spark._jvm
    metrics = getattr(jvm, "org.apache.spark.metrics.source.CodegenMetrics$").__getattr__("MODULE$")

    def compiled() -> int:
        with hindex.accelerate(spark, always=True) as handle:
            spark.sql("SELECT fact.id, dim.s FROM fact JOIN dim ON fact.k = dim.k WHERE g % 7 = 3").collect()
        assert "i_k" in handle.summary()
        return int(metrics.METRIC_COMPILATION_TIME().getCount())

    # tests of rows run without generated code
    modes = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {name: str(spark.conf.get(name)) for name in modes}
    try:
        for name, value in modes.items():
            spark.conf.set(name, value)
        first, *others = [compiled() for _ in range(4)]
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert first > 0
    assert others[1:] == others[:1] * 2


def test_few_rows_are_not_shuffled(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of one partition are grouped and sorted where they are."""
    joined = "fact JOIN dim ON fact.k = dim.k WHERE g < 6"
    texts = [
        f"SELECT dim.s, count(*), max(fact.id) FROM {joined} GROUP BY dim.s",
        "SELECT s, max(a) FROM fact WHERE k = 7 GROUP BY s",
        "SELECT DISTINCT b FROM fact WHERE k = 7 AND id < 300",
        "SELECT id, s FROM fact WHERE k = 7 ORDER BY id",
        "SELECT id, rank() OVER (PARTITION BY s ORDER BY id) FROM fact WHERE k = 7",
    ]

    def plan(text: str) -> str:
        capsys.readouterr()
        with hindex.accelerate(spark, always=True):
            spark.sql(text).explain()
        return capsys.readouterr().out

    for text in texts:
        compare_plans(hindex.connect(spark=spark), text)
        assert not re.search("Exchange (hash|range)partitioning", plan(text)), text
    monkeypatch.setattr(scan, "ONE_PARTITION_ROWS", 0)
    for text in texts:
        assert re.search("Exchange (hash|range)partitioning", plan(text)), text


def test_rows_are_of_one_state(spark: SparkSession, star: str) -> None:
    """A frame that is planned has the rows of both tables then, whatever is written before it is collected."""
    spark.sql("CREATE TABLE few USING orc AS SELECT 3 AS k, 'a' AS a")
    try:
        text = "SELECT fact.id, few.a FROM fact JOIN few ON fact.k = few.k WHERE few.a < 'c'"
        with hindex.accelerate(spark, always=True):
            expected = rows(spark.sql(text))
            frame = spark.sql(text)
            frame._jdf.queryExecution().executedPlan()
            spark.sql("INSERT INTO few VALUES (4, 'b')")
            assert rows(frame) == expected
            assert len(rows(spark.sql(text))) > len(expected)
        assert expected
    finally:
        spark.sql("DROP TABLE few")


class _Changes:
    """Writes to the tables: appends, replaces or removes files, and sometimes refreshes the indexes."""

    def __init__(self, spark: SparkSession, rng: np.random.Generator) -> None:
        self._spark = spark
        self._rng = rng

    def write(self) -> str:
        """Change one table, and return the kind of the change."""
        table = str(self._rng.choice(["fact", "fact", "bridge", "dim", "names"]))
        kind = str(self._rng.choice(["append", "append", "remove", "replace", "rewrite"]))
        files = self._files(table)
        if kind in ("remove", "replace") and len(files) < 2:
            kind = "append"
        if len(files) > 6:
            kind = "rewrite"
        if kind == "append":
            _insert(self._spark, table, max(ROWS[table] // 12, 2), self._rng)
        elif kind == "rewrite":
            _insert(self._spark, table, ROWS[table], self._rng, overwrite=True)
        else:
            file = files[int(self._rng.integers(len(files)))]
            if kind == "replace":
                self._replace(file, files[int(self._rng.integers(len(files)))])
            else:
                _checksum(file).unlink(missing_ok=True)
                file.unlink()
        return f"{kind} {table}"

    def settle(self) -> None:
        """Let Spark list the files again, and refresh the indexes at times."""
        for table in TABLES:
            self._spark.sql(f"REFRESH TABLE {table}")
        if self._rng.random() < 0.6:
            for table in ("fact", "bridge"):
                hindex.connect(spark=self._spark).table(table).refresh_indexes()

    def _files(self, table: str) -> list[Path]:
        (row,) = self._spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
        return sorted(Path(row.data_type.removeprefix("file:")).glob("*.orc"))

    def _replace(self, file: Path, other: Path) -> None:
        """Put the rows of another file under the name of a file."""
        content = other.read_bytes()
        _checksum(file).unlink(missing_ok=True)
        new = file.with_name("_new")
        new.write_bytes(content)
        new.replace(file)


def _checksum(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")


@pytest.mark.slow
def test_random_joins(
    spark: SparkSession,
    rng: np.random.Generator,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tables change between queries, and between the planning and the reading of some."""
    caplog.set_level(logging.INFO, "hindex.queries")
    generator = JoinGenerator(rng)
    counts: Counter[str] = Counter()
    with _star(spark, "changing_star"):
        changes = _Changes(spark, rng)
        # a table may have no index for a while: few queries go on until enough of them had lookup joins
        for case in range(4 * CASES):
            is_enough = counts["lookup join"] >= CASES // 5 and counts["lookup join with rows"] >= CASES // 10
            if case >= CASES and is_enough:
                break
            if rng.random() < 0.1:
                counts[changes.write().split()[0]] += 1
                changes.settle()
            text = generator.query()
            try:
                frame = spark.sql(text)
                expected = frame.schema.jsonValue(), rows(frame)
            except Exception as error:  # noqa: BLE001 whatever Spark does not take
                counts["not taken by Spark"] += 1
                print(f"case {case}: {text}\n  {str(error).splitlines()[0]}")
                continue
            caplog.clear()
            with hindex.accelerate(spark, always=True):
                frame = spark.sql(text)
                # the plan is made now
                frame._jdf.queryExecution().executedPlan()
                lines = list(caplog.messages)
                assert not any("failed" in line for line in lines), (case, text, lines)
                is_accelerated = any(line.startswith("accelerated: ") for line in lines)
                is_changing = is_accelerated and rng.random() < 0.1
                change = changes.write() if is_changing else ""
                try:
                    result = frame.schema.jsonValue(), rows(frame)
                except Exception as error:  # a file is gone
                    if not is_changing:
                        raise AssertionError((case, text, lines)) from error
                    counts["changed: error"] += 1
                    result = None
            if is_changing:
                changes.settle()
                counts["changed meanwhile"] += 1
                frame = spark.sql(text)
                # one state of a file or the other, as Spark alone; a file that is replaced has the new rows
                later = frame.schema.jsonValue(), rows(frame)
                assert result in (None, expected, later), (case, text, change, lines)
            else:
                assert result == expected, (case, text, lines)
                # the bridge seldom gives keys then, but a table beyond it may
                with monkeypatch.context() as patch, hindex.accelerate(spark, always=True):
                    patch.setattr(lookup_joins, "MAX_ROWS", 20)
                    frame = spark.sql(text)
                    assert (frame.schema.jsonValue(), rows(frame)) == expected, (case, text, "few keys")
            is_lookup = any(_LOOKUP.search(line) for line in lines)
            counts["index"] += is_accelerated
            counts["lookup join"] += is_lookup
            counts["lookup join with rows"] += is_lookup and bool(expected[1])
            counts["queries"] += 1
    print(dict(counts))
    assert counts["not taken by Spark"] <= CASES // 10
    assert counts["lookup join"] >= CASES // 5
    assert counts["lookup join with rows"] >= CASES // 10
