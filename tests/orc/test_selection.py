"""Selections of rows, against a plain set; where nearly all rows are wanted, they are kept by what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from hindex.errors import ArgumentError
from hindex.orc import DecodePath, OrcReader
from hindex.orc.selection import RowSelection
from tests.support.work import forget
from tests.support.writers import write_pyarrow


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
        is_range = not rows or rows[-1] - rows[0] + 1 == len(rows)
        assert (selection.span is not None) == is_range
        if rows and is_range:
            assert selection.span == (rows[0], len(rows))
        if stride:
            assert (groups.rows + np.repeat(groups.ids * stride, np.diff(groups.offsets))).tolist() == rows


@pytest.mark.parametrize("begin", [0, 1, 3, 49])
@pytest.mark.parametrize("end", [1000, 999, 997, 951])
@pytest.mark.parametrize("hole", [None, "first", "middle", "last"])
def test_a_range_of_nearly_all_rows(begin: int, end: int, hole: str | None) -> None:
    """Known by the others, which may lie at both ends."""
    inside = {None: None, "first": begin + 1, "middle": 500, "last": end - 2}[hole]
    selection = RowSelection.of(BitMap(range(begin, end)) - BitMap([] if inside is None else [inside]), 1000)
    assert selection.wanted is None
    assert selection.span == ((begin, end - begin) if hole is None else None)


@pytest.mark.parametrize("begin", [0, 1, 77, 1400])
@pytest.mark.parametrize("end", [1401, 2100, 2999, 3000])
def test_a_range_of_rows_of_dense_columns(tmp_path: Path, begin: int, end: int) -> None:
    """It is cut out of what is decoded, nulls and bits too, whatever part of a stripe it is."""
    numbers = [None if i % 3 == 0 else i for i in range(3000)]
    table = pa.table(
        {
            "a": pa.array(numbers, pa.int64()),
            "b": pa.array([None if n is None else n % 5 < 2 for n in numbers]),
            "s": pa.array([None if n is None else f"s{n}" for n in numbers]),
        }
    )
    write_pyarrow(tmp_path / "x.orc", table, stride=100)
    for rows in (BitMap(range(begin, end)), BitMap(range(begin, end)) - BitMap([(begin + end) // 2])):
        reader = OrcReader(tmp_path / "x.orc", path=DecodePath.DENSE)
        assert reader.read(rows=rows).equals(table.take(pa.array(rows.to_array(), pa.int64())))
        assert reader.counts.dense_columns == (3 if rows else 0)


def test_no_runs_are_looked_at_where_so_many_rows_are_wanted(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    write_pyarrow(tmp_path / "x.orc", pa.table({"a": rng.integers(0, 1 << 40, 120_000)}), stride=1000)
    chunks = []
    for rows in (None, np.arange(0, 120_000, 2), np.arange(0, 13_000, 1000)):
        forget()
        reader = OrcReader(tmp_path / "x.orc")
        reader.read(rows=rows)
        chunks.append(reader.counts.chunks)
    # the stripe's footer; where few rows are wanted, the head of the column too
    assert chunks[0] == chunks[1] < chunks[2]


def test_rows_outside() -> None:
    for rows in (BitMap(range(1, 101)), BitMap([100]), [100], [-1]):
        with pytest.raises(ValueError, match="outside the stripe's 100 rows"):
            RowSelection.of(rows, 100)
    assert RowSelection.of(BitMap(), 0).is_all


@pytest.mark.parametrize("stripe", [-1, 2, 9])
def test_stripes_that_are_not_there(tmp_path: Path, stripe: int) -> None:
    write_pyarrow(tmp_path / "t.orc", pa.table({"a": range(100)}), "none", stride=1000)
    reader = OrcReader(tmp_path / "t.orc")
    assert reader.read_stripe(0).num_rows == 100
    for read in (
        reader.read_stripe,
        reader.stripe,
        lambda n: reader.decode_paths(n, ["a"], RowSelection(100)),
    ):
        with pytest.raises(ArgumentError, match=rf"t\.orc' has no stripe {stripe}: they are numbered 0 to 0"):
            read(stripe)
    write_pyarrow(tmp_path / "none.orc", pa.table({"a": pa.array([], pa.int64())}), "none", stride=1000)
    with pytest.raises(ArgumentError, match=rf"none\.orc' has no stripe {stripe}: it has none"):
        OrcReader(tmp_path / "none.orc").read_stripe(stripe)
