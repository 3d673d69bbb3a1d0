"""Grouping of rows by key, compared with a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from hindex.index.postings import group_pairs
from hindex.keys import key_list


@pytest.mark.parametrize("span", [3, 1 << 20, 1 << 40, (1 << 64) - 1], ids=lambda span: f"{span:,}")
@pytest.mark.parametrize("greatest", [1, 2, 4, 5, 1 << 12, 1 << 16])
def test_the_greatest_row_may_be_a_power_of_two(span: int, greatest: int) -> None:
    """Key and row share one word, whose bits are just enough for the greatest row."""
    least = -(1 << 63)
    keys = [least, least + span, least, least + span // 3, least + span]
    rows = [greatest, greatest, 0, greatest, greatest - 1]
    expected = {key: sorted(row for one, row in zip(keys, rows, strict=True) if one == key) for key in keys}
    grouped = group_pairs(np.array(keys, np.int64), np.array(rows, np.uint32))
    assert key_list(grouped.keys) == sorted(expected)
    by_key = np.split(grouped.rows, grouped.starts[1:-1])
    assert [part.tolist() for part in by_key] == [expected[key] for key in sorted(expected)]
