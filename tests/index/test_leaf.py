"""Rows of some keys of a leaf page, against the column itself, and how many are unpacked for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.index.leaf import Leaf
from tests.index.support import TYPES, build, read, rows

ROWS = 40_000


@pytest.mark.parametrize("most", [1, 60], ids=["a row a key", "rows by the dozen"])
@pytest.mark.parametrize("wanted", [5, 40, 400])
def test_many_keys_unpack_their_own_rows_only(
    most: int, wanted: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # keys of rows here and there, most of them inline; some are frequent enough for a bitmap outside
    column = np.repeat(np.arange(ROWS), rng.integers(1, most, ROWS, endpoint=True))[:ROWS]
    column[rng.random(ROWS) < 0.05] = 7
    column = rng.permutation(column) * 3
    reader = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))
    points = rng.choice(np.unique(column), wanted, replace=False)
    unpacked: list[int] = []
    whole = Leaf._unpacked

    def counted(
        leaf: Leaf,
        firsts: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        inner: npt.NDArray[np.uint32],
    ) -> npt.NDArray[np.uint32]:
        found = whole(leaf, firsts, counts, inner)
        unpacked.append(len(found))
        return found

    monkeypatch.setattr(Leaf, "_unpacked", counted)
    found = rows(reader, 0, Domain.points(points.tolist()))
    assert set(found) == set(np.flatnonzero(np.isin(column, points)).tolist())
    # those of few keys are unpacked one by one
    assert sum(unpacked) <= len(found)
    if wanted == 400:
        assert sum(unpacked) > 0
