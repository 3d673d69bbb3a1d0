"""Selections of rows, against a plain set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.errors import ArgumentError
from hindex.orc import OrcReader
from hindex.orc.reader.row_selection import RowSelection
from tests.support.messages import raises
from tests.support.writers import write_pyarrow


@pytest.mark.parametrize("lacking", [0, 1, 17, 99, 100, 500, 1000])
@pytest.mark.parametrize("stride", [1, 7, 100, 128, 1000, 5000])
def test_any_form_of_the_same_rows(rng: np.random.Generator, lacking: int, stride: int) -> None:
    gone = set(rng.choice(1000, lacking, replace=False).tolist())
    if stride in (100, 128) and lacking >= 99:
        # whole row groups, the last one among them
        gone = set(range(1000 - lacking, 1000))
    rows = [row for row in range(1000) if row not in gone]
    for selection in (RowSelection.of(BitMap(rows), 1000), RowSelection.of(rows, 1000)):
        assert (len(selection), selection.is_all) == (len(rows), not gone)
        assert selection.to_array().tolist() == rows
        groups, offsets = selection.groups(stride)
        assert groups.tolist() == sorted({row // stride for row in rows})
        assert (offsets[0], offsets[-1], len(offsets)) == (0, len(rows), len(groups) + 1)
        assert np.repeat(groups, np.diff(offsets)).tolist() == [row // stride for row in rows]


def test_rows_outside() -> None:
    for rows in (BitMap(range(1, 101)), BitMap([100]), [100], [-1]):
        with raises(ValueError):
            RowSelection.of(rows, 100)
    assert RowSelection.of(BitMap(), 0).is_all


@pytest.mark.parametrize("stripe", [-1, 2, 9])
def test_missing_stripes(tmp_path: Path, stripe: int) -> None:
    write_pyarrow(tmp_path / "t.orc", pa.table({"a": range(100)}), "none", stride=1000)
    reader = OrcReader(tmp_path / "t.orc")
    assert reader.read_stripe(0).num_rows == 100
    for read in (reader.read_stripe, reader.stripe):
        with raises(ArgumentError):
            read(stripe)
    write_pyarrow(tmp_path / "none.orc", pa.table({"a": pa.array([], pa.int64())}), "none", stride=1000)
    with raises(ArgumentError):
        OrcReader(tmp_path / "none.orc").read_stripe(stripe)
