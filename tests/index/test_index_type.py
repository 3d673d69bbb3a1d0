"""Bounds, and the registry of index types."""

from __future__ import annotations

import importlib.metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from hindex.errors import HindexError
from hindex.index import index_type as registry
from hindex.index.bitmap import BITMAP
from hindex.index.index_type import Bounds, IndexType, index_type, index_type_names

ROWS = 12
sets = st.frozensets(st.integers(0, ROWS - 1))


@given(sets, sets, sets, sets)
def test_bounds_keep_their_promise(
    lower: frozenset[int], unsure: frozenset[int], other: frozenset[int], more: frozenset[int]
) -> None:
    """Whatever the true rows within the bounds, the combination's bounds hold them."""
    one = Bounds(BitMap(lower), BitMap(lower | unsure))
    right = Bounds(BitMap(other), BitMap(other | more))
    for true_left in (lower, lower | unsure):
        for true_right in (other, other | more):
            both, either = one & right, one | right
            assert set(both.lower) <= true_left & true_right <= set(both.upper)
            assert set(either.lower) <= true_left | true_right <= set(either.upper)
    assert one.exact == (unsure <= lower)


def test_bounds_that_are_named() -> None:
    every = BitMap(range(ROWS))
    assert Bounds.all(ROWS) == Bounds(every, every)
    assert Bounds.none() == Bounds(BitMap(), BitMap())
    assert Bounds.unknown(ROWS) == Bounds(BitMap(), every)
    assert not Bounds.unknown(ROWS).exact
    assert Bounds.unknown(0).exact
    exact = Bounds.exactly(BitMap([1, 2]))
    assert exact.exact
    combined = exact & Bounds.exactly(BitMap([2, 3]))
    assert combined.lower is combined.upper
    assert (exact & Bounds.unknown(ROWS)) == Bounds(BitMap(), BitMap([1, 2]))
    assert (exact | Bounds.unknown(ROWS)) == Bounds(BitMap([1, 2]), every)


def test_names_in_any_case() -> None:
    index: IndexType = index_type("bitmap")
    assert index is BITMAP
    assert index_type("BitMap") is BITMAP
    assert "BITMAP" in index_type_names()


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(HindexError, match=r"^Unknown index type 'nonsense': known types are .*BITMAP"):
        index_type("nonsense")


def test_types_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        importlib.metadata.EntryPoint("length", "hindex.index.bitmap:BITMAP", registry.ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint("broken", "hindex.nowhere:X", registry.ENTRY_POINT_GROUP),
        importlib.metadata.EntryPoint(
            "aclass", "hindex.index.bitmap:BitmapIndex", registry.ENTRY_POINT_GROUP
        ),
    ]
    monkeypatch.setattr(
        registry, "entry_points", lambda group: points if group == registry.ENTRY_POINT_GROUP else []
    )
    assert index_type("LENGTH") is BITMAP
    assert index_type("aclass").name == "BITMAP"
    with pytest.raises(HindexError, match=r"'broken' cannot be loaded from 'hindex.nowhere:X'"):
        index_type("broken")
    with pytest.raises(
        HindexError, match=r"known types are ACLASS, BITMAP, BLOOM, .*BROKEN, .*LENGTH, MINMAX"
    ):
        index_type("nonsense")


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("bitmap", "BITMAP"),
        ("Bloom", "BLOOM"),
        ("MINMAX", "MINMAX"),
        ("btree", "BTREE"),
        ("COMPACT", "BTREE"),
        ("compact", "BTREE"),
        ("org.apache.hadoop.hive.ql.index.compact.CompactIndexHandler", "BTREE"),
        ("org.apache.hadoop.hive.ql.index.bitmap.BitmapIndexHandler", "BITMAP"),
    ],
)
def test_names_of_other_systems(spelled: str, name: str) -> None:
    assert index_type(spelled).name == name


def test_what_two_answers_say_together() -> None:
    rows = BitMap(range(ROWS))
    first, second = Bounds(BitMap([1]), BitMap([1, 2, 3])), Bounds(BitMap([3]), BitMap([1, 3, 4]))
    assert first.refine(second) == Bounds(BitMap([1, 3]), BitMap([1, 3]))
    assert first.refine(second).exact
    assert first.refine(Bounds.unknown(ROWS)) == first
    assert Bounds.unknown(ROWS).refine(first) == first
    assert Bounds(BitMap(), rows).refine(Bounds.none()) == Bounds.none()
