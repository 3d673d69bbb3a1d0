"""Lookup joins: rows and schema are Spark's, and the large table is read by the keys of the small one."""

from __future__ import annotations

import datetime
import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest

import hindex
from hindex.api import acceleration
from hindex.errors import StatementError
from hindex.queries import lookup_joins, query_execution, query_plan
from hindex.queries.query_execution import run_query
from hindex.queries.query_plan import QueryExplanation
from hindex.spark import scan
from hindex.spark.scan import collect_if_small
from hindex.sql.queries import parse_query
from tests.support.queries import compare, count_calls, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``HINDEX_CASES=2000`` tries two thousand queries.
CASES = int(os.environ.get("HINDEX_CASES", "24"))
ROWS = {"fact": 400, "bridge": 60, "dim": 25, "names": 8}

#: In the log, a lookup join that is used.
_LOOKUP = re.compile(r" by [\d,]+ keys? of [\w.`]+[,; ]")

#: A name in FROM, and the kinds of its columns.
Part: TypeAlias = tuple[str, Mapping[str, str]]

pytestmark = pytest.mark.usefixtures("always")

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


@pytest.mark.parametrize(
    ("text", "lookups"),
    [
        ("SELECT fact.*, dim.s FROM fact JOIN dim ON fact.k = dim.k WHERE g < 6", ["fact.k by {} of dim.k"]),
        ("SELECT * FROM dim LEFT JOIN fact ON fact.k = dim.k WHERE g < 6", ["fact.k by {} of dim.k"]),
        ("SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE g < 6)", ["fact.k by {} of dim.k"]),
        (
            "SELECT * FROM fact WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = fact.k AND g < 6)",
            ["fact.k by {} of dim.k"],
        ),
        (
            "SELECT dim.*, (SELECT count(*) FROM fact WHERE fact.k = dim.k) AS n FROM dim WHERE g < 6",
            ["fact.k by {} of dim.k"],
        ),
    ],
)
def test_patterns(spark: SparkSession, star: str, text: str, lookups: list[str]) -> None:
    """The large table is read at the rows of the keys, and no others."""
    explained = compare(hindex.connect(spark=spark), text)
    values = {row.k for row in spark.sql("SELECT k FROM dim WHERE g < 6").collect()} - {None}
    keys = f"{len(values)} key{'s' * (len(values) != 1)}"
    assert _lookups(explained) == [item.format(keys) for item in lookups]
    fact = next(table for table in explained.tables if table.table == "fact")
    listed = ", ".join(map(str, values))
    (row,) = spark.sql(f"SELECT count(*) AS n FROM fact WHERE k IN ({listed}) AND id < 1000").collect()
    assert fact.rows is not None
    # of the file without an index all rows may match
    assert fact.rows.kept is not None
    assert row.n <= fact.rows.kept < (fact.rows.total or 0) / 2
    assert [table.gives_keys for table in explained.tables if table.table == "dim"] == [True]


def test_a_chain(spark: SparkSession, star: str) -> None:
    """Keys of a dimension select the rows of a bridge, whose keys select those of the fact table."""
    explained = compare(
        hindex.connect(spark=spark),
        "SELECT fact.id, bridge.s FROM fact JOIN bridge ON fact.b = bridge.b JOIN dim ON bridge.k = dim.k "
        "WHERE dim.g < 6 AND dim.d IS NOT NULL",
    )
    assert [(table.table, table.gives_keys, len(table.lookups)) for table in explained.tables] == [
        ("fact", False, 1),
        ("bridge", True, 1),
        ("dim", True, 0),
    ]


#: The bridge has too many rows of its own to give keys.
_LARGE_BRIDGE = "SELECT fact.id, bridge.s FROM fact, bridge WHERE fact.k = bridge.k AND {}"


@pytest.mark.parametrize(
    "text",
    [
        _LARGE_BRIDGE.format("bridge.k IN (SELECT k FROM dim WHERE g < 6)"),
        "SELECT fact.id, bridge.s FROM fact, bridge, dim WHERE fact.k = bridge.k AND bridge.k = dim.k AND g < 6",
        """SELECT bridge.s, (SELECT sum(fact.id) FROM fact WHERE fact.k = bridge.k) FROM bridge
        WHERE EXISTS (SELECT 1 FROM dim WHERE dim.k = bridge.k AND g < 6)""",
    ],
)
def test_keys_of_a_table_beyond_the_next(
    spark: SparkSession, star: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of a dimension select the rows of the fact table where the table between them is too large to be read."""
    read_source = lookup_joins._LookupJoins._read_source

    def small(self: Any, at: int, *args: Any) -> bool:
        if str(self._query.tables[at].ref) == "dim":
            return read_source(self, at, *args)
        self._reasons[at] = "too large"
        return False

    monkeypatch.setattr(lookup_joins._LookupJoins, "_read_source", small)
    explained = compare(hindex.connect(spark=spark), text)
    values = {row.k for row in spark.sql("SELECT k FROM dim WHERE g < 6").collect()} - {None}
    (fact,) = (table for table in explained.tables if table.table == "fact")
    assert fact.is_accelerated
    assert [str(lookup) for lookup in fact.lookups] == [f"k by {len(values)} keys of dim.k"]
    assert fact.rows is not None
    assert fact.rows.kept is not None
    assert fact.rows.kept < (fact.rows.total or 0) / 2


def test_the_nearer_keys_are_used(spark: SparkSession, star: str) -> None:
    text = _LARGE_BRIDGE.format("bridge.k IN (SELECT k FROM dim WHERE g < 6) AND bridge.s = 's7'")
    explained = compare(hindex.connect(spark=spark), text)
    (fact,) = (table for table in explained.tables if table.table == "fact")
    assert [lookup.source for lookup in fact.lookups] == ["bridge.k"]


def test_keys_of_another_type_between(spark: SparkSession, star: str) -> None:
    """Equality of numbers and strings is not transitive: 01 and 1."""
    spark.sql("CREATE TABLE words USING orc AS SELECT DISTINCT concat('0', k) AS k FROM fact")
    try:
        explained = compare(
            hindex.connect(spark=spark),
            "SELECT fact.id FROM fact, words WHERE fact.k = words.k AND words.k IN (SELECT k FROM dim WHERE g < 6)",
        )
        (fact,) = (table for table in explained.tables if table.table == "fact")
        assert not fact.is_accelerated
    finally:
        spark.sql("DROP TABLE words")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM fact LEFT JOIN dim ON fact.k = dim.k AND g < 6",
        "SELECT * FROM fact FULL JOIN dim ON fact.k = dim.k AND g < 6",
        "SELECT * FROM fact WHERE k NOT IN (SELECT k FROM dim WHERE g < 6 AND k IS NOT NULL)",
        "SELECT * FROM fact JOIN dim ON fact.k <=> dim.k WHERE g < 6",
        "SELECT * FROM fact JOIN dim ON fact.s = dim.k WHERE g < 6 AND fact.s IN ('3', '4')",
    ],
)
def test_other_joins_are_left_to_spark(spark: SparkSession, star: str, text: str) -> None:
    explained = compare(hindex.connect(spark=spark), text)
    assert not any(
        table.lookups and table.is_accelerated for table in explained.tables if table.table == "fact"
    )


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM fact JOIN dim ON fact.k = dim.k WHERE g = 3 AND g = 4",
        "SELECT * FROM fact WHERE k IN (SELECT k FROM dim WHERE g = 3 AND g = 4)",
    ],
)
def test_no_keys(spark: SparkSession, star: str, text: str) -> None:
    explained = compare(hindex.connect(spark=spark), text)
    assert [(table.is_accelerated, table.rows and table.rows.kept) for table in explained.tables] == [
        (True, 0),
        (True, 0),
    ]


_IMPLIED = "SELECT id, s FROM fact WHERE k IN (SELECT k FROM dim WHERE g < 6)"


@pytest.mark.parametrize(
    "text",
    [
        _IMPLIED,
        f"{_IMPLIED} AND id < 300",
        "SELECT count(*) FROM fact WHERE k IN (SELECT k FROM dim WHERE g BETWEEN 2 AND 5)",
        "SELECT fact.id FROM fact WHERE EXISTS (SELECT * FROM dim WHERE dim.k = fact.k AND g < 6) ORDER BY id",
        "SELECT t.id, u.s FROM fact t, names u WHERE t.s = u.s AND t.k IN (SELECT k FROM dim WHERE g < 6)",
        f"WITH w AS ({_IMPLIED}) SELECT w.s, count(*) FROM w, w AS v WHERE w.id = v.id GROUP BY w.s",
    ],
)
def test_subqueries_that_keys_imply(
    spark: SparkSession, star: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark gets the rows that satisfy the subquery, and does not evaluate it."""
    assert any(table.gives_keys for table in compare(hindex.connect(spark=spark), text).tables)
    assert "LeftSemi" not in _plan(spark, text, capsys)


@pytest.mark.parametrize(
    "text",
    [
        # the keys are those of g < 6 alone
        _IMPLIED.replace("g < 6", "g < 6 AND length(s) > 2"),
        # the fewest keys are those of another subquery
        "SELECT id FROM fact WHERE k IN (SELECT b FROM dim JOIN bridge USING (k) WHERE g < 6)",
        f"{_IMPLIED} OR k IN (SELECT k FROM dim WHERE g = 7)",
        # keys that are not used: decimals of another scale, and all values of a table
        f"{_IMPLIED} AND a IN (SELECT a FROM bridge WHERE k < 5)",
        f"{_IMPLIED} AND s IN (SELECT s FROM names)",
    ],
)
def test_subqueries_that_spark_evaluates(
    spark: SparkSession, star: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(hindex.connect(spark=spark), text)
    assert re.search("LeftSemi|ExistenceJoin", _plan(spark, text, capsys))


def test_a_subquery_whose_condition_hindex_cannot_evaluate(
    spark: SparkSession, star: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The keys are those of all rows, then."""
    spark.sql("CREATE TABLE words USING orc AS SELECT * FROM VALUES (3, '05'), (4, 'x'), (5, '5') AS t(k, s)")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        text = "SELECT id, k FROM fact WHERE k IN (SELECT k FROM words WHERE s = 5)"
        assert _lookups(compare(hindex.connect(spark=spark), text)) == ["fact.k by 3 keys of words.k"]
        assert "LeftSemi" in _plan(spark, text, capsys)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.sql("DROP TABLE words")


def test_a_subquery_of_a_table_that_spark_reads(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows that were not selected by keys need the subquery."""
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.0)
    compare(hindex.connect(spark=spark), _IMPLIED)
    assert "LeftSemi" in _plan(spark, _IMPLIED, capsys)


def test_a_subquery_of_a_table_that_is_read_otherwise_by_spark(spark: SparkSession, star: str) -> None:
    """Keys of a table that are not used imply nothing, though they equal those that are: Spark sees no row of it."""
    options = "OPTIONS (modifiedBefore '2020-01-01T00:00:00')"
    spark.sql(f"CREATE TABLE unseen (k INT) USING orc {options}")
    spark.sql("CREATE TABLE seen USING orc AS SELECT k, 1 AS g FROM VALUES (3), (5) AS t(k)")
    try:
        spark.sql("INSERT INTO unseen VALUES (3), (5)")
        text = (
            "SELECT id FROM fact WHERE k IN (SELECT k FROM unseen) AND k IN (SELECT k FROM seen WHERE g = 1)"
        )
        assert _lookups(compare(hindex.connect(spark=spark), text)) == ["fact.k by 2 keys of seen.k"]
    finally:
        spark.sql("DROP TABLE unseen")
        spark.sql("DROP TABLE seen")


def test_a_subquery_without_blanks_around_it(spark: SparkSession, star: str) -> None:
    text = "SELECT id FROM fact WHERE`k`IN(SELECT k FROM dim WHERE g<6)AND id<300"
    assert compare(hindex.connect(spark=spark), text).tables[0].is_accelerated


def test_errors_behind_a_subquery_tell_the_place(spark: SparkSession, star: str) -> None:
    query = parse_query(_IMPLIED.replace("(SELECT", "(\nSELECT") + " AND nothing = 1")
    assert query is not None
    with pytest.raises(StatementError, match=r"`nothing` cannot be resolved.* line 2 pos 35"):
        run_query(hindex.connect(spark=spark), query)


def test_too_many_keys(spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small table is read once in vain; then the query is known."""
    monkeypatch.setattr(lookup_joins, "MAX_ROWS", 3)
    reads = count_calls(monkeypatch, lookup_joins, collect_if_small)
    hx = hindex.connect(spark=spark)
    for _ in range(2):
        explained = compare(hx, "SELECT fact.id FROM fact JOIN dim ON fact.k = dim.k WHERE g > 3")
        assert _lookups(explained) == [
            "fact.k by keys of dim.k: not used, dim: more than 3 rows match its conditions"
        ]
    assert len(reads) == 1


@pytest.mark.parametrize("using", ["bitmap", "btree"])
def test_small_table_with_an_index(
    spark: SparkSession, star: str, using: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of row groups leaves more rows than match: they are no reason not to read them."""
    monkeypatch.setattr(lookup_joins, "MAX_ROWS", 3)
    # each of the two files has one row group
    spark.sql("CREATE TABLE named USING orc AS SELECT id AS k, concat('n', id) AS name FROM range(24)")
    try:
        hx = hindex.connect(spark=spark)
        hx.table("named").create_index("by_name", "name", using=using)
        text = "SELECT fact.id, name FROM fact JOIN named ON fact.k = named.k WHERE name LIKE 'n1{}%'"
        explained = compare(hx, text.format("7"))
        assert _lookups(explained) == ["fact.k by 1 key of named.k"]
        assert [str(table.rows) for table in explained.tables if table.gives_keys] == ["1 of 24"]
        # n1 and n10 to n19
        (lookup,) = _lookups(compare(hx, text.format("")))
        reason = "more than 3 rows " + ("may match" if using == "bitmap" else "match its conditions")
        assert lookup.endswith(f"not used, named: {reason}")
        monkeypatch.setattr(lookup_joins, "MAX_SOURCE_SHARE", 0.0)
        monkeypatch.setattr(lookup_joins, "MIN_SOURCE_VALUES", 20)
        (lookup,) = _lookups(compare(hx, text.format("8")))
        # the 12 rows of a file, of two columns each, are too many to be read
        assert ("not used" in lookup) == (using == "btree")
    finally:
        spark.sql("DROP TABLE named")


def test_a_small_table_is_looked_up_once(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan by its own conditions gives the keys."""
    estimates = count_calls(monkeypatch, query_plan, query_plan.estimate_selectivity)
    spark.sql("CREATE TABLE named USING orc AS SELECT id AS k, concat('n', id) AS name FROM range(24)")
    try:
        hx = hindex.connect(spark=spark)
        hx.table("named").create_index("by_name", "name")
        explained = compare(
            hx, "SELECT fact.id, name FROM fact JOIN named ON fact.k = named.k WHERE name = 'n17'"
        )
        assert _lookups(explained) == ["fact.k by 1 key of named.k"]
        # compare explains and runs the query
        assert len(estimates) == 2 * 2
    finally:
        spark.sql("DROP TABLE named")


def test_keys_that_leave_too_many_rows(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_plan, "MAX_SHARE", 0.005)
    explained = compare(
        hindex.connect(spark=spark), "SELECT fact.id FROM fact JOIN dim ON fact.k = dim.k WHERE g > 3"
    )
    (lookup,) = _lookups(explained)
    assert lookup.endswith(" of dim.k: not used, NOT_SELECTIVE: more than 1.0% of the rows may match")
    assert not any(table.is_accelerated for table in explained.tables)


def _plan(spark: SparkSession, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return Spark's plan of a query that is read through indexes."""
    query = parse_query(text)
    assert query is not None
    capsys.readouterr()
    run_query(hindex.connect(spark=spark), query).explain()
    return capsys.readouterr().out


def test_few_rows_are_not_shuffled(
    spark: SparkSession, star: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of one partition are grouped and sorted where they are; without either, Spark needs no job for them."""
    hx = hindex.connect(spark=spark)
    joined = "fact JOIN dim ON fact.k = dim.k WHERE g < 6"
    texts = [
        f"SELECT dim.s, count(*), max(fact.id) FROM {joined} GROUP BY dim.s",
        "SELECT s, max(a) FROM fact WHERE k = 7 GROUP BY s",
        "SELECT DISTINCT b FROM fact WHERE k = 7",
        "SELECT id, s FROM fact WHERE k = 7 ORDER BY id",
        "SELECT id, rank() OVER (PARTITION BY s ORDER BY id) FROM fact WHERE k = 7",
    ]

    for text in texts:
        assert compare(hx, text).tables[0].is_accelerated
        assert "Exchange hashpartitioning" not in _plan(spark, text, capsys)
        assert "Exchange rangepartitioning" not in _plan(spark, text, capsys)
    filtered = _plan(spark, "SELECT id, s FROM fact WHERE k = 7", capsys)
    assert "LocalTableScan" in filtered
    assert "Coalesce" not in filtered
    monkeypatch.setattr(scan, "ONE_PARTITION_ROWS", 0)
    for text in texts:
        compare(hx, text)
        assert re.search("Exchange (hash|range)partitioning", _plan(spark, text, capsys))


def test_rows_are_of_one_state(spark: SparkSession, star: str) -> None:
    """A frame has the rows of both tables at the call, whatever is written to the small one before it is collected."""
    spark.sql("CREATE TABLE few USING orc AS SELECT 3 AS k, 'a' AS a")
    try:
        text = "SELECT fact.id, few.a FROM fact JOIN few ON fact.k = few.k WHERE few.a < 'c'"
        with hindex.accelerate(spark):
            expected = rows(spark.sql(text))
            frame = spark.sql(text)
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
    implied_subqueries = query_execution.implied_subqueries
    implied: list[object] = []

    def noted(tables: Sequence[query_plan.PlannedTable]) -> list[tuple[int, int]]:
        implied[:] = spans = implied_subqueries(tables)
        return spans

    monkeypatch.setattr(acceleration, "implied_subqueries", noted)
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
            implied.clear()
            with hindex.accelerate(spark):
                frame = spark.sql(text)
                counts["implied subquery"] += bool(implied)
                lines = [message for message in caplog.messages if "of this session" not in message]
                assert not any("hindex failed" in line for line in lines), (case, text, lines)
                is_accelerated = any("accelerated: " in line.replace("not accelerated", "") for line in lines)
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
                with monkeypatch.context() as patch, hindex.accelerate(spark):
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
