"""Bitmaps put together from numpy equal those made row by row."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from hindex.index import roaring


@pytest.mark.parametrize("density", [0.0, 0.0001, 0.01, 0.05, 0.06, 0.0625, 0.07, 0.5, 1.0])
@pytest.mark.parametrize("total", [0, 1, 65_535, 65_536, 65_537, 300_000])
def test_all_ways_agree(total: int, density: float) -> None:
    seed = total + int(density * 1e4)
    rng = np.random.default_rng(seed)
    mask = rng.random(total) < density
    rows = np.flatnonzero(mask).astype(np.uint32)
    expected = BitMap(rows.tolist())
    assert roaring.from_mask(mask) == expected, seed
    assert roaring.from_sorted(rows) == expected, seed
    assert roaring.from_rows(rng.permutation(rows), total) == expected, seed
    # what was put together can be changed and serialised as any other
    bitmap = roaring.from_mask(mask)
    bitmap.run_optimize()
    assert BitMap.deserialize(bitmap.serialize()) == expected, seed


def test_the_greatest_rows() -> None:
    rows = np.array([*range(200), (1 << 32) - 1], np.uint32)
    assert roaring.from_sorted(rows) == BitMap(rows.tolist())


@pytest.mark.parametrize("total", [0, 1, 65_536, 65_537, 400_000])
def test_no_bitmap_is_longer_than_is_allowed(total: int) -> None:
    """Not with runs of one row each, which take most, nor in any other form."""
    for step in (1, 2, 3, 20):
        rows = BitMap(range(0, total, step))
        assert len(rows.serialize()) <= roaring.max_bytes(total)
        rows.run_optimize()
        assert len(rows.serialize()) <= roaring.max_bytes(total)
    chunks = [min(1 << 16, total - start) for start in range(0, total, 1 << 16)]
    runs = sum(2 + 4 * -(-rows // 2) for rows in chunks)
    assert 4 + -(-len(chunks) // 8) + 8 * len(chunks) + runs <= roaring.max_bytes(total)


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        (b"", 0, "too short"),
        (b"12345678", 0, "cannot be read"),
        (BitMap([1, 2]).serialize(), 3, "holds 2 rows and 3 are expected"),
        (BitMap([1, 50]).serialize(), 2, "holds row 50 of 50"),
    ],
)
def test_bytes_are_not_trusted(data: bytes, count: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        roaring.load(memoryview(data), 50, count)
