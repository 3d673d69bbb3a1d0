"""Random SELECT statements of one table, whose clauses meet in every combination: the rows are DuckDB's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from hindex.api.query_result import QueryResult
from hindex.api.table import IndexSpec
from tests.support import local_build
from tests.support.cases import cases
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns

pytestmark = pytest.mark.slow

ROWS = 120
CONDITIONS = (
    *(
        "a = 3",
        "a IS NULL",
        "a > 2",
        "s IN ('x', 'y')",
        "s LIKE 'x%'",
        "NOT a = 3",
        "p = 1",
        "id < 100",
        "x > 0.5",
    ),
    *(
        "a = 3 AND s = 'x'",
        "a = 1 OR s = 'y'",
        "a + id > 60",
        "s <> 'x' AND p = 0",
        "a = 77",
        "id BETWEEN 50 AND 180",
    ),
)
KEYS = ("a", "s", "p", "x")


def random_values(chance: random.Random, first: int) -> dict[str, pa.Array]:
    return {
        "id": pa.array(range(first, first + ROWS), pa.int64()),
        "a": pa.array([chance.choice((None, 1, 2, 3, 4)) for _ in range(ROWS)], pa.int32()),
        "s": pa.array([chance.choice((None, "", "x", "xy", "y", "é")) for _ in range(ROWS)]),
        "x": pa.array([chance.choice((None, -1.5, 0.0, 0.5, 2.0, float("nan"))) for _ in range(ROWS)]),
    }


class Statement:
    """A random statement in both dialects; its rows are in a total order, or there is one."""

    def __init__(self, chance: random.Random) -> None:
        where = f" WHERE {chance.choice(CONDITIONS)}" if chance.random() < 0.7 else ""
        kind = chance.choice(("rows", "rows", "total", "groups", "groups", "groups", "distinct"))
        limits = ""
        if chance.random() < 0.6:
            limits += f" LIMIT {chance.choice((0, 1, 2, 5, 1000))}"
        if chance.random() < 0.5:
            limits += f" OFFSET {chance.choice((0, 1, 3, 40))}"
        if kind == "rows":
            items = chance.sample(("id", "a", "s", "x", "p"), chance.randint(1, 4))
            orders = [*chance.sample(("a", "s", "p"), chance.randint(0, 2)), "id"]
            self._make(", ".join(items), where, "", orders, limits, chance)
        elif kind == "total":
            self._make(", ".join(self._aggregates(chance, [], 3)), where, "", [], "", chance)
        else:
            keys = chance.sample(KEYS, chance.randint(1, 3))
            if kind == "distinct":
                self._make(f"DISTINCT {', '.join(keys)}", where, "", keys, limits, chance)
                return
            items = [*keys, *self._aggregates(chance, keys, chance.randint(0, 3))]
            groups = f" GROUP BY {', '.join(keys)}"
            if chance.random() < 0.4:
                conditions = ("COUNT(*) > 3", "COUNT(*) BETWEEN 2 AND 9", f"{keys[0]} IS NOT NULL")
                groups += f" HAVING {chance.choice(conditions)}"
            # groups come in the order of their keys, NULL first
            is_ordered = chance.random() < 0.6
            self._make(", ".join(items), where, groups, keys, limits, chance, is_ordered=is_ordered)

    @staticmethod
    def _aggregates(chance: random.Random, keys: list[str], count: int) -> list[str]:
        of_columns = [f"{name}({key})" for name in ("COUNT", "MIN", "MAX") for key in keys or KEYS]
        names = ["COUNT(*)", *of_columns, *(f"COUNT(DISTINCT {key})" for key in KEYS)]
        return [f"{item} AS n{at}" for at, item in enumerate(chance.choices(names, k=count))]

    def _make(
        self,
        items: str,
        where: str,
        groups: str,
        orders: list[str],
        limits: str,
        chance: random.Random,
        *,
        is_ordered: bool = True,
    ) -> None:
        ours, theirs = [], []
        for name in orders:
            descending = is_ordered and chance.random() < 0.4
            nulls_first = chance.choice((None, True, False)) if is_ordered else None
            own = f"{name}{' DESC' * descending}"
            ours.append(own if nulls_first is None else f"{own} NULLS {'FIRST' if nulls_first else 'LAST'}")
            first = not descending if nulls_first is None else nulls_first
            theirs.append(f"{own} NULLS {'FIRST' if first else 'LAST'}")
        order = f" ORDER BY {', '.join(ours)}" if orders and is_ordered else ""
        self.text = f"SELECT {items} FROM {{}}{where}{groups}{order}{limits}"
        total_order = f" ORDER BY {', '.join(theirs)}" if orders else ""
        self.oracle = f"SELECT {items} FROM t{where}{groups}{total_order}{limits}"


def comparable(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as values of Python, where NaN equals NaN."""
    columns = [
        ["NaN" if value != value else value for value in column.to_pylist()] for column in rows.columns
    ]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    local_build.install(monkeypatch)
    chance = random.Random(seed)
    root = tmp_path / "t"
    parts = []
    for number in range(4):
        values = random_values(chance, number * ROWS)
        write_columns(root / f"p={number % 2}" / f"{number}.orc", values)
        parts.append(pa.table(values).append_column("p", pa.array([number % 2] * ROWS, pa.int32())))
        if number == 2:
            # the last file is not indexed
            LocalConnection().table(str(root)).create_indexes(
                [
                    IndexSpec("a", "a"),
                    IndexSpec("s", "s", "btree"),
                    IndexSpec("x", "x", "minmax"),
                    IndexSpec("i", "id"),
                ]
            )
    connection = duckdb.connect()
    connection.register("t", pa.concat_tables(parts))
    hx = LocalConnection()
    for _ in range(cases(30, 120)):
        statement = Statement(chance)
        text = statement.text.format(f"'{root}'")
        result = hx.sql(text)
        assert isinstance(result, QueryResult)
        assert comparable(result.to_arrow()) == comparable(
            connection.sql(statement.oracle).to_arrow_table()
        ), text
