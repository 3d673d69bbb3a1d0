"""Rows of two readers: the same ones, each as often, whatever their order."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from hindex.cli.comparison import same_rows

TABLE = pa.table({"a": [1, 2, 2, None], "b": ["x", None, "y", "z"]})
FLOATS = pa.table({"a": [1.5, math.nan, 0.0, None]})
NESTED = pa.table({"a": [{"x": 1, "y": [1.0, None]}, {"x": None, "y": []}, None]})


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (TABLE, TABLE, True),
        (TABLE, TABLE.take([3, 1, 0, 2]), True),
        (TABLE, TABLE.slice(1), False),
        (TABLE, TABLE.take([0, 1, 1, 3]), False),
        (TABLE, TABLE.rename_columns(["a", "c"]), False),
        (TABLE, TABLE.cast(pa.schema([("a", pa.int64()), ("b", pa.large_string())])), True),
        (FLOATS, FLOATS.take([3, 2, 1, 0]), True),
        (FLOATS, pa.table({"a": [1.5, math.nan, -0.0, None]}), True),
        (FLOATS, pa.table({"a": [1.5, math.nan, None, None]}), False),
        (FLOATS, pa.table({"a": [1.5, 1.0, 0.0, None]}), False),
        (NESTED, NESTED.take([2, 0, 1]), True),
        (NESTED, NESTED.take([2, 0, 0]), False),
        (TABLE.select([]), TABLE.select([]), True),
    ],
)
def test_same_rows(ours: pa.Table, theirs: pa.Table, same: bool) -> None:
    assert same_rows(ours, theirs) is same
