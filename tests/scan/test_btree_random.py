"""Random tables, refreshes and predicates with BTREE indexes: no row group is opened that holds no match."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hindex.orc import OrcReader
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_rows
from tests.support.work import planned_rows

pytestmark = pytest.mark.usefixtures("here")


@pytest.mark.slow
def test_random_tables_and_ranges(tmp_path: Path, rng: np.random.Generator) -> None:
    """Files, refreshes and predicates at random: the rows are right, and the row groups no more than needed."""
    for turn in range(6):
        path = tmp_path / str(turn)
        partitioned = turn % 2 == 1
        data: dict[Path, list[int | None]] = {}
        count = 0

        firsts: dict[Path, int] = {}

        def write(
            file: Path, into: dict[Path, list[int | None]] = data, firsts: dict[Path, int] = firsts
        ) -> None:
            nonlocal count
            values = rng.integers(-30, 30, int(rng.integers(1, 700))) * int(rng.choice([1, 1, 1 << 55]))
            column = [None if rng.random() < 0.1 else int(value) % (1 << 31) - (1 << 30) for value in values]
            into[file] = column
            write_rows(file, count, column)
            firsts[file] = count
            count += len(column)

        places = [path / f"p={n}" for n in range(3)] if partitioned else [path]
        for number in range(4):
            write(places[int(rng.integers(len(places)))] / f"f{number}.orc")
        table = LocalConnection().table(str(path))
        level = str(rng.choice(["table", "partition"])) if partitioned else "table"
        table.create_index(
            "by_a",
            "a",
            "btree",
            properties={"level": level, "values_per_page": str(rng.choice([1, 5, 4096]))},
        )
        for step in range(5):
            fresh = True
            if step:
                for what in rng.permutation(["add", "replace", "delete"])[: int(rng.integers(1, 4))]:
                    if what == "add":
                        write(places[int(rng.integers(len(places)))] / f"g{step}.orc")
                    elif what == "replace":
                        write(list(data)[int(rng.integers(len(data)))])
                    elif len(data) > 2:
                        gone = list(data)[int(rng.integers(len(data)))]
                        gone.unlink()
                        del data[gone]
                fresh = bool(rng.random() < 0.7)
                if fresh:
                    table.refresh_indexes()
            pool = sorted({value for column in data.values() for value in column if value is not None})
            for _ in range(4):
                low, high = sorted(pool[int(at)] for at in rng.integers(len(pool), size=2))
                where, member = _random_predicate(rng, low, high)
                context = (turn, step, level, where)
                expected = sorted(
                    firsts[file] + i
                    for file, column in data.items()
                    for i, a in enumerate(column)
                    if member(a)
                )
                scan = table.scan(where)
                assert sorted(ids(scan)) == expected, context
                if fresh:
                    expected_values = sum(
                        len(column[at : at + 100])
                        for file, column in data.items()
                        for at in group_starts(file)
                        if any(member(a) for a in column[at : at + 100])
                    )
                    assert planned_rows(table, where) == expected_values, context


def group_starts(file: Path) -> list[int]:
    """The first row of each row group of 100; no stripe of these files ends within one."""
    with OrcReader(str(file)) as reader:
        assert all(stripe.num_rows % 100 == 0 for stripe in reader.stripes[:-1])
        return list(range(0, reader.tail.num_rows, 100))


def _random_predicate(
    rng: np.random.Generator, low: int, high: int
) -> tuple[str, Callable[[int | None], bool]]:
    cases: list[tuple[str, Callable[[int | None], bool]]] = [
        (f"a = {low}", lambda a: a == low),
        (f"a IN ({low}, {high})", lambda a: a in (low, high)),
        (f"a >= {low} AND a < {high}", lambda a: a is not None and low <= a < high),
        (f"a > {high} OR a IS NULL", lambda a: a is None or a > high),
        (f"a <> {low}", lambda a: a not in (None, low)),
        ("a IS NULL", lambda a: a is None),
        (f"a <= {low} AND a IS NOT NULL", lambda a: a is not None and a <= low),
    ]
    return cases[int(rng.integers(len(cases)))]
