"""Random queries of an accelerated session, compared with Spark alone: rows and schema."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import hindex
from tests.queries.random_tables import TABLES, random_tables
from tests.support.cases import cases
from tests.support.queries import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: ``HINDEX_CASES=2000`` tries two thousand queries.
CASES = cases(6, 60)


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[None]:
    with random_tables(spark, "wild"):
        yield


_TYPES = {"t": "TIMESTAMP", "u": "TIMESTAMP_NTZ"}


@dataclass
class Part:
    """A name in FROM: the name, and the kinds of its columns."""

    name: str
    columns: dict[str, str]


class QueryGenerator:
    """Makes random queries. ``args`` are those of the last query, None if it has none."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._number = 0
        self._used: set[str] = set()
        self.args: dict[str, Any] | None = None

    def query(self) -> str:
        """Make the text of a query."""
        self._number = 0
        self._used.clear()
        self.args = {} if self._is(0.3) else None
        ctes: dict[str, dict[str, str]] = {}
        head = []
        for _ in range(int(self._rng.choice([0, 0, 0, 1, 2]))):
            name = self._name("w")
            text, kinds = self._select(ctes, 1)
            head.append(f"{name} AS ({text})")
            ctes[name] = kinds
        text, kinds = self._select(ctes, 2)
        if self._is(0.35):
            # what is restricted by little has rows, of which each may be wrong
            text = self._join()
        elif self._is(0.1):
            operator = self._pick(["UNION ALL", "UNION", "INTERSECT", "EXCEPT ALL"])
            text = f"({text}) {operator} ({text if self._is(0.3) else self._like(ctes, kinds)})"
        elif self._is(0.15):
            order = ", ".join(
                f"{at + 1} {self._pick(['ASC', 'DESC NULLS LAST'])}" for at in range(len(kinds))
            )
            text = f"{text} ORDER BY {order} LIMIT {self._rng.integers(0, 30)}"
        text = (f"WITH {', '.join(head)} " if head else "") + text
        # some were of parts that are not in the text
        self.args = {name: self.args[name] for name in re.findall(r":(p\d+)", text)} if self.args else None
        return text

    def _is(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def _pick(self, items: Any) -> Any:
        items = list(items)
        return items[int(self._rng.integers(len(items)))]

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def _table(self, names: Iterable[str]) -> str:
        """Pick a table, mostly another one each time: Spark reads one that has a place without a condition."""
        tables = {name: "orders" if name == "some" else name for name in names}
        unused = [name for name, table in tables.items() if table not in self._used]
        name: str = self._pick(unused if unused and self._is(0.85) else tables)
        self._used.add(tables[name])
        return name

    def _constant(self, kind: str) -> str:
        value: Any
        if kind == "n":
            value = int(self._pick([*range(12), 100, -1]))
            text = str(value)
        elif kind == "s":
            value = self._pick(["s1", "s2", "s5", "S1", "", "s1 ", "zzz", "s1x"])
            text = f"'{value}'"
        elif kind == "d":
            value = datetime.date(2024, 1, int(self._rng.integers(1, 10)))
            text = self._pick([f"DATE '{value}'", f"'{value}'"])
        elif kind in "tu":
            value = datetime.datetime(2024, 3, 10, 1) + datetime.timedelta(
                minutes=30 * int(self._rng.integers(12))
            )
            text = f"TIMESTAMP{'_NTZ' * (kind == 'u')} '{value}'"
        else:
            value = Decimal(int(self._rng.integers(0, 10)) * 125).scaleb(-2)
            text = str(value)
        if self.args is not None and self._is(0.4):
            name = self._name("p")
            self.args[name] = value
            return f":{name}"
        return text

    def _condition(self, parts: list[Part], ctes: dict[str, dict[str, str]], depth: int) -> str:
        draw = self._rng.random()
        if draw < 0.25:
            operator = self._pick(["AND", "OR"])
            return f"({self._condition(parts, ctes, depth)} {operator} {self._condition(parts, ctes, depth)})"
        if draw < 0.3:
            return f"NOT {self._condition(parts, ctes, depth)}"
        part = self._pick(parts)
        name, kind = self._pick(part.columns.items())
        column = f"{part.name}.{name}"
        if draw < 0.42 and depth > 0:
            inner = Part(self._name("t"), TABLES[table := self._table(TABLES)])
            same = [other for other, its in inner.columns.items() if its == kind]
            where = self._condition([inner], {}, 0)
            if same:
                other = f"{inner.name}.{self._pick(same)}"
                shape = self._pick(["IN", "NOT IN", "EXISTS", "NOT EXISTS", "="])
                body = f"FROM {table} {inner.name} WHERE {where}"
                if shape == "=":
                    return f"{column} = (SELECT {self._pick(['min', 'max'])}({other}) {body})"
                if "EXISTS" in shape:
                    return f"{shape} (SELECT 1 {body} AND {other} = {column})"
                return f"{column} {shape} (SELECT {other} {body})"
        constant = self._constant(kind)
        if draw < 0.7:
            return f"{column} {self._pick(['=', '=', '=', '<', '>=', '<>', '<=>'])} {constant}"
        if draw < 0.78:
            return f"{column} IN ({constant}, {self._constant(kind)}{', NULL' * self._is(0.2)})"
        if draw < 0.85:
            return f"{column} BETWEEN {constant} AND {self._constant(kind)}"
        if draw < 0.92:
            return f"{column} IS {'NOT ' * self._is(0.5)}NULL"
        if kind == "s":
            return str(
                self._pick([f"{column} LIKE 's1%'", f"length({column}) = 2", f"upper({column}) = 'S1'"])
            )
        return f"coalesce({column}, {constant}) = {self._constant(kind)}"

    def _from(self, ctes: dict[str, dict[str, str]], depth: int) -> tuple[str, list[Part]]:
        """Make a FROM clause, and say what is in it."""

        def item() -> tuple[str, Part]:
            alias = self._name("t")
            if depth > 0 and self._is(0.15):
                text, kinds = self._select(ctes, depth - 1)
                return f"({text}) AS {alias}", Part(alias, kinds)
            sources = TABLES | ctes
            name = self._table(sources)
            return f"{name}{self._pick([' AS ', ' '])}{alias}", Part(alias, sources[name])

        text, first = item()
        parts = [first]
        for _ in range(int(self._rng.choice([0, 0, 1, 1, 2]))):
            other, part = item()
            kind = self._pick(
                ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
            )
            pairs = [
                (f"{left.name}.{a}", f"{part.name}.{b}")
                for left in parts
                for a, one in left.columns.items()
                for b, its in part.columns.items()
                if one == its
            ]
            if not pairs:
                continue
            left_column, right_column = self._pick(pairs)
            condition = f"{left_column} = {right_column}"
            if self._is(0.4):
                condition += f" AND {self._condition([self._pick([*parts, part])], {}, 0)}"
            text += f" {kind} {other} ON {condition}"
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                parts.append(part)
        return text, parts

    def _join(self) -> str:
        """Make a join of two tables with a condition or two on one of them."""
        tables = [self._pick(["orders", "items"]), "plain"]
        if self._is(0.5):
            tables.reverse()
        left, right = (Part(alias, TABLES[name]) for alias, name in zip("lr", tables, strict=True))
        indexed = right if tables[0] == "plain" else left

        def condition() -> str:
            column, kind = self._pick([(name, kind) for name, kind in indexed.columns.items() if name != "x"])
            text = f"{indexed.name}.{column}"
            constant = self._constant(kind)
            return str(
                self._pick(
                    [
                        f"{text} IS NULL",
                        f"NOT {text} <=> {constant}",
                        f"{text} = {constant}",
                        f"{text} > {constant}",
                    ]
                )
            )

        kind = self._pick(
            ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
        on = "l.k = r.k" + (f" AND {condition()}" if self._is(0.5) else "")
        is_left_only = kind in ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
        where = f" WHERE {condition()}" if self._is(0.6) and not (is_left_only and indexed is right) else ""
        columns = "l.*" if is_left_only else "l.*, r.*"
        return f"SELECT {columns} FROM {tables[0]} l {kind} {tables[1]} r ON {on}{where}"

    def _select(self, ctes: dict[str, dict[str, str]], depth: int) -> tuple[str, dict[str, str]]:
        """Make a SELECT without an order; the names and kinds of its columns."""
        source, parts = self._from(ctes, depth)
        where = f" WHERE {self._condition(parts, ctes, depth)}" if self._is(0.9) else ""
        if len(parts) > 1 and self._is(0.4):
            # in an outer join, nulls of either side are of two kinds
            part = self._pick(parts)
            column, kind = self._pick(part.columns.items())
            constant = self._constant(kind)
            conditions = [
                f"{part.name}.{column} IS NULL",
                f"coalesce({part.name}.{column}, {constant}) = {constant}",
                f"NOT {part.name}.{column} <=> {constant}",
            ]
            where = f"{where or ' WHERE true'} AND {self._pick(conditions)}"
        available = [(f"{part.name}.{name}", kind) for part in parts for name, kind in part.columns.items()]
        if len(parts) == 1 and self._is(0.2):
            return f"SELECT * FROM {source}{where}", dict(parts[0].columns)
        chosen = [self._pick(available) for _ in range(int(self._rng.integers(1, 4)))]
        kinds: dict[str, str] = {}
        outputs = []
        if self._is(0.3):
            keys = [column for column, _ in chosen]
            for column, kind in chosen:
                name = self._name("c")
                outputs.append(f"{column} AS {name}")
                kinds[name] = kind
            column, kind = self._pick(available)
            name = self._name("c")
            function = self._pick(["count", "min", "max", "count(DISTINCT"])
            outputs.append(f"{function}{'' if function.endswith('DISTINCT') else '('} {column}) AS {name}")
            kinds[name] = kind if function in ("min", "max") else "n"
            having = f" HAVING count(*) > {self._rng.integers(0, 3)}" if self._is(0.4) else ""
            return (
                f"SELECT {', '.join(outputs)} FROM {source}{where} GROUP BY {', '.join(keys)}{having}",
                kinds,
            )
        for column, kind in chosen:
            name = self._name("c")
            if self._is(0.1):
                text = f"count({column}) OVER (PARTITION BY {self._pick(available)[0]})"
                kind = "n"
            elif kind == "n" and self._is(0.3):
                text = self._pick([f"{column} + 1", f"CASE WHEN {column} > 3 THEN 1 ELSE 0 END"])
            else:
                text = column
            outputs.append(f"{text} AS {name}")
            kinds[name] = kind
        distinct = "DISTINCT " if self._is(0.15) else ""
        return f"SELECT {distinct}{', '.join(outputs)} FROM {source}{where}", kinds

    def _like(self, ctes: dict[str, dict[str, str]], kinds: dict[str, str]) -> str:
        """Make a query of the same kinds of columns."""
        part = Part(self._name("t"), TABLES["orders"])
        columns = [
            self._pick(
                [n for n, its in part.columns.items() if its == kind] or [f"CAST(NULL AS {_TYPES[kind]})"]
            )
            for kind in kinds.values()
        ]
        return f"SELECT {', '.join(columns)} FROM orders {part.name} WHERE {self._condition([part], ctes, 0)}"


@pytest.mark.slow
@pytest.mark.usefixtures("always")
def test_random_queries(
    spark: SparkSession, database: None, rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hindex.queries")
    generator = QueryGenerator(rng)
    accelerated = failed = 0
    for case in range(CASES):
        text = generator.query()
        args = generator.args
        try:
            frame = spark.sql(text, args)
            expected = frame.schema.jsonValue(), rows(frame)
        except Exception as error:  # noqa: BLE001 whatever Spark does not take
            failed += 1
            print(f"case {case}: {text}\n  {str(error).splitlines()[0]}")
            continue
        caplog.clear()
        with hindex.accelerate(spark, always=True):
            frame = spark.sql(text, args)
            assert (frame.schema.jsonValue(), rows(frame)) == expected, (case, text, args)
        lines = caplog.messages
        accelerated += any(line.startswith("accelerated: ") for line in lines)
        assert not any("hindex failed" in line for line in lines), (case, text, args, lines)
        if case % 3 == 0:
            result: Any = hindex.connect(spark=spark).sql(text, args)
            assert sorted(map(repr, result.to_arrow().to_pylist())) == expected[1], (case, text, args)
    print(f"{CASES} queries, {accelerated} of them accelerated, {failed} not taken by Spark")
    # a few are no queries to Spark: a column of two names, a string that is no number
    assert failed <= max(3, CASES // 10)
    assert accelerated >= CASES // 3
