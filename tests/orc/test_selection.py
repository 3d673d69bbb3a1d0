"""Selections of rows, against a plain set; where nearly all rows are wanted, they are kept by what is not."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from hindex.orc.selection import RowSelection


@pytest.mark.parametrize("lacking", [0, 1, 17, 99, 100, 500, 1000])
@pytest.mark.parametrize("stride", [0, 7, 100, 128, 5000])
def test_any_form_of_the_same_rows(rng: np.random.Generator, lacking: int, stride: int) -> None:
    gone = set(rng.choice(1000, lacking, replace=False).tolist())
    if stride in (100, 128) and lacking >= 99:
        # whole row groups, the last one among them
        gone = set(range(1000 - lacking, 1000))
    rows = [row for row in range(1000) if row not in gone]
    for selection in (RowSelection.of(BitMap(rows), 1000), RowSelection.of(rows, 1000)):
        assert (len(selection), selection.is_all) == (len(rows), not gone)
        assert selection.is_nearly_all == (lacking <= 100)
        assert selection.to_array().tolist() == rows
        assert selection.to_indices().to_pylist() == rows
        assert selection.mask.to_pylist() == [row not in gone for row in range(1000)]
        groups = selection.groups(stride)
        wanted = sorted({row // stride for row in rows}) if stride else [0] * bool(rows)
        assert groups.ids.tolist() == wanted
        assert selection.count_groups(stride) == len(wanted)
        if stride:
            assert (groups.rows + np.repeat(groups.ids * stride, np.diff(groups.offsets))).tolist() == rows


def test_rows_outside() -> None:
    for rows in (BitMap(range(1, 101)), BitMap([100]), [100], [-1]):
        with pytest.raises(ValueError, match="outside the stripe's 100 rows"):
            RowSelection.of(rows, 100)
    assert RowSelection.of(BitMap(), 0).is_all
