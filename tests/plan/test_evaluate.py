from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from hindex.domain import Domain, Key, Range, make_range
from hindex.index.index_type import Bounds
from hindex.keys import float_key
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import ALWAYS, NEVER, AllOf, AnyOf, Filter, Indexable, Leaf, leaves
from hindex.plan.filter_evaluation import bounds, mask, prune
from hindex.plan.rules import all_of, any_of, leaf
from tests.support.messages import raises

INT = OrcType(Kind.INT)
STRING = OrcType(Kind.STRING)
TYPES = {"a": INT, "b": INT, "s": STRING}

integers = st.one_of(st.none(), st.integers(-4, 4))
texts = st.one_of(st.none(), st.text("ab", max_size=3))
rows = st.lists(st.tuples(integers, integers, texts), max_size=12)


def ranges_of(ends: st.SearchStrategy[Key]) -> st.SearchStrategy[Range | None]:
    end = st.one_of(st.none(), ends)
    return st.builds(
        lambda low, high, first, last: make_range(low, high, low_inclusive=first, high_inclusive=last),
        end,
        end,
        st.booleans(),
        st.booleans(),
    )


def domains_of(ends: st.SearchStrategy[Key]) -> st.SearchStrategy[Domain]:
    return st.builds(
        lambda ranges, null: Domain.from_ranges((r for r in ranges if r is not None), null_allowed=null),
        st.lists(ranges_of(ends), max_size=14),
        st.booleans(),
    )


int_leaves = st.builds(
    lambda name, d: leaf(name, INT, d, name), st.sampled_from("ab"), domains_of(st.integers(-4, 4))
)
text_leaves = st.builds(
    lambda d: leaf("s", STRING, d, "s"), domains_of(st.text("ab", max_size=3).map(str.encode))
)
filters: st.SearchStrategy[Filter] = st.recursive(
    st.one_of(int_leaves, text_leaves),
    lambda children: st.builds(
        lambda build, children: build(children),
        st.sampled_from((all_of, any_of)),
        st.lists(children, max_size=4),
    ),
    max_leaves=12,
)


def key_of(value: int | str | None) -> Key | None:
    return value.encode() if isinstance(value, str) else value


def holds(node: Filter, row: dict[str, Key | None]) -> bool:
    """The oracle: one row, plain recursion."""
    if isinstance(node, Leaf):
        return node.domain.contains(row[node.column])
    if isinstance(node, AllOf):
        return all(holds(child, row) for child in node.children)
    if isinstance(node, AnyOf):
        return any(holds(child, row) for child in node.children)
    return node == ALWAYS


def as_rows(data: list[tuple[int | None, int | None, str | None]]) -> list[dict[str, Key | None]]:
    return [{"a": a, "b": b, "s": key_of(s)} for a, b, s in data]


def as_arrays(data: list[tuple[int | None, int | None, str | None]]) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[at] for row in data], data_type.to_arrow())
        for at, (name, data_type) in enumerate(TYPES.items())
    }


@given(filters, rows)
def test_mask_is_row_by_row(root: Filter, data: list[tuple[int | None, int | None, str | None]]) -> None:
    rows = mask(root, as_arrays(data), len(data))
    assert rows.dtype == np.bool_
    assert rows.tolist() == [holds(root, row) for row in as_rows(data)]


@given(filters, rows, st.integers(0, 3))
def test_mask_of_slices_and_chunks(
    root: Filter, data: list[tuple[int | None, int | None, str | None]], cut: int
) -> None:
    expected = mask(root, as_arrays(data), len(data)).tolist()
    padded = {name: pa.concat_arrays([array[:1], array]) for name, array in as_arrays(data).items()}
    sliced = {name: array[min(1, len(data)) :] for name, array in padded.items()}
    assert mask(root, sliced, len(data)).tolist() == expected
    chunked = {
        name: pa.chunked_array([array[:cut], array[cut:]], array.type)
        for name, array in as_arrays(data).items()
    }
    assert mask(root, chunked, len(data)).tolist() == expected


@given(filters, rows, st.sets(st.sampled_from("abs")))
def test_prune_decides_known_columns(
    root: Filter, data: list[tuple[int | None, int | None, str | None]], names: set[str]
) -> None:
    for row in as_rows(data):
        left = prune(root, {name: row[name] for name in names})
        assert not names & {item.column for item in leaves(left)}
        assert holds(left, row) is holds(root, row)
        if len(names) == 3:
            assert left in (ALWAYS, NEVER)


@given(filters, rows, st.randoms(use_true_random=False))
def test_bounds_enclose_the_rows(
    root: Filter, data: list[tuple[int | None, int | None, str | None]], random: object
) -> None:
    n = len(data)
    table = as_rows(data)

    def rows_of(node: Filter) -> BitMap:
        return BitMap([at for at, row in enumerate(table) if holds(node, row)])

    def lookup(node: Indexable) -> Bounds | None:
        exact = rows_of(node)
        other = BitMap([at for at in range(n) if random.random() < 0.5])  # type: ignore[attr-defined]
        kind = random.randrange(3)  # type: ignore[attr-defined]
        return (None, Bounds.exactly(exact), Bounds(exact - other, exact | other))[kind]

    result = bounds(root, lookup, n)
    assert result.lower <= rows_of(root) <= result.upper <= BitMap(range(n))
    exact = bounds(root, lambda node: Bounds.exactly(rows_of(node)), n)
    assert exact.exact
    assert exact.lower == rows_of(root)


def answers(bounds_by_column: dict[str, Bounds], lookups: list[str]) -> Callable[[Indexable], Bounds | None]:
    def lookup(node: Indexable) -> Bounds | None:
        lookups.append(node.column)
        return bounds_by_column.get(node.column)

    return lookup


def one(column: str) -> Leaf:
    return Leaf(column, INT, Domain.points([1]))


def test_bounds_stop_when_decided() -> None:
    lookups: list[str] = []
    nothing = bounds(AllOf((one("a"), one("b"))), answers({"a": Bounds.exactly(BitMap())}, lookups), 9)
    assert (lookups, nothing.exact, len(nothing.upper)) == (["a"], True, 0)
    lookups.clear()
    everything = bounds(AnyOf((one("a"), one("b"))), answers({"a": Bounds.all(9)}, lookups), 9)
    assert (lookups, everything.exact, len(everything.lower)) == (["a"], True, 9)


def test_or_with_an_unknown_side_keeps_every_row() -> None:
    result = bounds(AnyOf((one("a"), one("b"))), answers({"a": Bounds.exactly(BitMap([2]))}, []), 5)
    assert (list(result.lower), list(result.upper)) == ([2], [0, 1, 2, 3, 4])


def test_and_with_an_unknown_side_is_not_exact() -> None:
    result = bounds(AllOf((one("b"), one("a"))), answers({"a": Bounds.exactly(BitMap([2]))}, []), 5)
    assert (list(result.lower), list(result.upper)) == ([], [2])


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("data_type", [INT, STRING, OrcType(Kind.DECIMAL, precision=38, scale=2)], ids=str)
def test_long_lists(data_type: OrcType, negated: bool, rng: np.random.Generator) -> None:
    values = rng.integers(0, 100_000, 2_000)
    listed = rng.choice(100_000, 10_000, replace=False)
    if data_type is INT:
        keys: list[Key] = listed.tolist()
        array = pa.array(values, pa.int32())
    elif data_type is STRING:
        keys = [str(v).encode() for v in listed]
        array = pa.array([str(v) for v in values])
    else:
        keys = [(int(v) + (1 << 127)).to_bytes(16, "big") for v in listed]
        array = pa.array(values, pa.int64()).cast(pa.decimal128(38, 0)).view(pa.decimal128(38, 2))
    domain = Domain.points(keys)
    if negated:
        domain = domain.complement(null_allowed=False)
    expected = np.isin(values, listed) ^ negated
    assert np.array_equal(mask(Leaf("c", data_type, domain), {"c": array}, len(array)), expected)


def test_null_slots_hold_any_bits() -> None:
    zeros = pa.array([0, None, 1], pa.int32())
    assert mask(Leaf("a", INT, Domain.points([0])), {"a": zeros}, 3).tolist() == [True, False, False]
    with_null = Domain.points([1], null_allowed=True)
    assert mask(Leaf("a", INT, with_null), {"a": zeros}, 3).tolist() == [False, True, True]


def test_all_null_columns() -> None:
    nulls = pa.nulls(3, pa.string())
    for domain, expected in (
        (Domain.only_null(), True),
        (Domain.not_null(), False),
        (Domain.points([b""]), False),
    ):
        assert mask(Leaf("s", STRING, domain), {"s": nulls}, 3).tolist() == [expected] * 3


def test_null_test_of_composite_columns() -> None:
    data_type = OrcType(Kind.LIST, children=(INT,))
    array = pa.array([[1], None, []], data_type.to_arrow())
    assert mask(Leaf("l", data_type, Domain.only_null()), {"l": array}, 3).tolist() == [False, True, False]
    assert mask(Leaf("l", data_type, Domain.not_null()), {"l": array}, 3).tolist() == [True, False, True]


def test_values_with_traps() -> None:
    double = OrcType(Kind.DOUBLE)
    array = pa.array([-0.0, 0.0, float("nan"), float("inf"), 5.5, None])
    above = Leaf("d", double, Domain.between(float_key(5), None))
    zero = Leaf("d", double, Domain.points([float_key(0.0)]))
    assert mask(above, {"d": array}, 6).tolist() == [False, False, True, True, True, False]
    assert mask(zero, {"d": array}, 6).tolist() == [True, True, False, False, False, False]
    day = OrcType(Kind.DATE)
    days = pa.array([datetime.date(1582, 10, 4), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)])
    assert mask(Leaf("d", day, Domain.between(None, -1)), {"d": days}, 3).tolist() == [True, True, False]


def test_constants_and_no_rows() -> None:
    assert mask(ALWAYS, {}, 2).tolist() == [True, True]
    assert mask(NEVER, {}, 2).tolist() == [False, False]
    assert mask(one("a"), {"a": pa.array([], pa.int32())}, 0).tolist() == []
    assert bounds(ALWAYS, lambda _: None, 3) == Bounds.all(3)
    assert bounds(NEVER, lambda _: None, 3) == Bounds.none()


def test_callers_mistakes() -> None:
    with pytest.raises(KeyError):
        mask(one("a"), {}, 1)
    with raises(ValueError):
        mask(one("a"), {"a": pa.array([1, 2], pa.int32())}, 3)
