"""Groups that are put together of parts: in order, and no more often than needed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.aggregate import groups
from hindex.index.index_type import KeyCounts
from hindex.orc.metadata.types import Kind, OrcType


def test_groups_that_are_held_are_not_put_together_for_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    put: list[int] = []
    real = groups._merge

    def counted(parts: Any) -> pa.Table:
        put.append(sum(part.num_rows for part in parts))
        return real(parts)

    monkeypatch.setattr(groups, "_merge", counted)
    monkeypatch.setattr(groups, "_MAX_PENDING_GROUPS", 50)
    ones = np.ones(10, np.int64)
    parts = (
        groups.groups_from_key_counts(KeyCounts(np.arange(at, at + 10), ones, 1)) for at in range(0, 4000, 10)
    )
    result = groups.merge_groups([OrcType(Kind.LONG)], parts)
    assert result.column(0).to_pylist() == [None, *range(4000)]
    assert result.column("count").to_pylist() == [400] + [1] * 4000
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
            groups.groups_from_values(
                types, [pa.array(c, of.to_arrow()) for c, of in zip(columns, types, strict=True)]
            )
        )
    result = groups.merge_groups(types, iter(parts))
    counted = Counter(rows)

    def rank(row: tuple[Any, ...]) -> list[Any]:
        return [(value is not None, value.encode() if isinstance(value, str) else value) for value in row]

    keys = [groups.group_values(of, result, at).to_pylist() for at, of in enumerate(types)]
    expected = sorted(counted, key=rank)
    assert list(zip(*keys, strict=True)) == expected
    assert groups.row_counts(result).to_pylist() == [counted[row] for row in expected]
    assert groups.merge_groups(types, []).num_rows == 0
    nulls = groups.groups_from_values(types, [pa.nulls(3, of.to_arrow()) for of in types])
    assert groups.merge_groups(types, [nulls, nulls]).to_pylist() == [
        dict.fromkeys(map(str, range(len(types)))) | {"count": 6}
    ]


def test_groups_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the end, and not in each part; integers of one column are counted by sorting them."""
    calls: list[str] = []

    def count_calls_of(name: str) -> None:
        real = getattr(groups, name)

        def counted(table: pa.Table) -> pa.Table:
            calls.append(name)
            return real(table)

        monkeypatch.setattr(groups, name, counted)

    count_calls_of("sort_groups")
    count_calls_of("_merge_integers")
    for kind, array, expected in (
        (Kind.LONG, pa.array([3, None, 1, 3]), ["_merge_integers", "sort_groups"]),
        (Kind.STRING, pa.array(["b", None, "a", "b"]), ["sort_groups"]),
    ):
        parts = [groups.groups_from_values([OrcType(kind)], [array]) for _ in range(3)]
        assert groups.merge_groups([OrcType(kind)], parts).column("count").to_pylist() == [3, 3, 6]
        assert calls == expected
        calls.clear()
