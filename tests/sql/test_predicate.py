"""Predicates and their parts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hindex.sql.predicate import NULL, Literal, LiteralArray, LiteralKind


@pytest.mark.parametrize("has_null", [False, True])
def test_an_array_of_literals_is_the_sequence_of_them(has_null: bool) -> None:
    array = LiteralArray(LiteralKind.INTEGER, pa.array([3, 1, 1], pa.int64()), has_null)
    expected = [*(Literal(value, LiteralKind.INTEGER) for value in (3, 1, 1)), *[NULL] * has_null]
    assert list(array) == [array[at] for at in range(len(array))] == expected
    assert [array[at - len(array)] for at in range(len(array))] == expected
    assert array[1:] == tuple(expected[1:])
    assert array[-1:] == tuple(expected[-1:])
    assert (NULL in array) is has_null
    assert Literal(1, LiteralKind.INTEGER) in array
    assert Literal(2, LiteralKind.INTEGER) not in array
    with pytest.raises(IndexError):
        array[len(array)]
