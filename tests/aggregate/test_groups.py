"""Groups of keys, against plain Python: their order, what is put together, and how many values each has."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest

from hindex.aggregate.groups import (
    Groups,
    count_distinct,
    groups_from_values,
    make_groups,
    merge_groups,
    row_counts,
    sort_groups,
)
from hindex.orc.metadata.types import Kind, OrcType

Row = tuple[int | bytes | None, ...]
TYPES = {"integer": OrcType(Kind.LONG), "text": OrcType(Kind.STRING)}


def draw(rng: np.random.Generator, kinds: list[str], count: int) -> list[Row]:
    """Rows of few values, so that many have the same."""
    return [
        tuple(
            None
            if rng.random() < 0.2
            else (value := int(rng.integers(-3, rng.choice([1, 4, 30]))), b"%d" % value)[kind == "text"]
            for kind in kinds
        )
        for _ in range(count)
    ]


def made(kinds: list[str], counted: dict[Row, int]) -> Groups:
    """The groups of distinct rows, in any order."""
    keys = [
        pa.array([row[at] for row in counted], pa.int64() if kind == "integer" else pa.large_binary())
        for at, kind in enumerate(kinds)
    ]
    return make_groups(keys, pa.array(counted.values(), pa.int64()))


def valued(kinds: list[str], counted: Counter[Row]) -> Groups:
    """The groups of rows of these values."""
    rows = list(counted.elements())
    types = [TYPES[kind] for kind in kinds]
    texts = [[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]
    return groups_from_values(
        types, [pa.array([row[at] for row in texts], of.to_arrow()) for at, of in enumerate(types)]
    )


def rows_of(groups: Groups) -> list[Row]:
    return list(zip(*(column.to_pylist() for column in groups.columns[:-1]), strict=True))


def place(row: Row) -> list[tuple[bool, int | bytes | None]]:
    """NULL comes first."""
    return [(value is not None, value) for value in row]


KINDS = [["integer"], ["text"], ["integer", "integer"], ["text", "integer"], ["integer", "text", "integer"]]


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_groups_are_ordered_and_put_together(kinds: list[str], rng: np.random.Generator) -> None:
    types = [TYPES[kind] for kind in kinds]
    for _ in range(40):
        parts = [draw(rng, kinds, int(rng.integers(0, 40))) for _ in range(int(rng.integers(0, 4)))]
        total = Counter(row for part in parts for row in part)
        expected = sorted(total.items(), key=lambda item: place(item[0]))
        for make in (valued, made):
            result = merge_groups(types, [make(kinds, Counter(part)) for part in parts])
            assert list(zip(rows_of(result), row_counts(result).to_pylist(), strict=True)) == expected
        assert rows_of(sort_groups(made(kinds, total))) == [row for row, _ in expected]


@pytest.mark.parametrize(
    "kinds", [*KINDS[2:], ["integer", "integer", "integer"], ["text", "text"]], ids="-".join
)
def test_values_of_each_combination(kinds: list[str], rng: np.random.Generator) -> None:
    for _ in range(100):
        groups = sort_groups(made(kinds, Counter(draw(rng, kinds, int(rng.integers(0, 200))))))
        expected = [
            sum(row[-1] is not None for row in rows)
            for _, rows in groupby(rows_of(groups), key=lambda row: row[:-1])
        ]
        assert count_distinct(groups).to_pylist() == expected
        # of a part of an array, too
        half = groups.slice(groups.num_rows // 2)
        expected = [
            sum(row[-1] is not None for row in rows)
            for _, rows in groupby(rows_of(half), key=lambda row: row[:-1])
        ]
        assert count_distinct(half).to_pylist() == expected
