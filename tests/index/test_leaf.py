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
        firsts: npt.NDArray[np.uint32],
        counts: npt.NDArray[np.int32 | np.int64],
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


@pytest.mark.parametrize("frequent", [0, 7], ids=["all rows inline", "some keys outside"])
def test_a_leaf_says_how_much_memory_it_takes(frequent: int, rng: np.random.Generator) -> None:
    column = rng.integers(0, 10_000, ROWS)
    column[rng.random(ROWS) < 0.06 * frequent] = frequent
    reader = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))
    said = held = keys = 0
    for leaf in reader._stripes[0].tree.leaves(range(reader.leaf_count(0))):
        assert isinstance(leaf.keys, np.ndarray)
        leaf.rows(0, len(leaf.keys))
        arrays = [leaf.keys, leaf.counts, leaf.inline_counts, leaf._starts, *leaf._packed]
        held += sum({id(array): array.nbytes for array in arrays}.values())
        said += leaf.nbytes
        keys += len(leaf.keys)
        # one key's rows are in a page of their own
        assert bool(leaf.outside(np.arange(len(leaf.keys)))) == (frequent in leaf.keys and frequent > 0)
    # without the first rows, which are no gaps, and with one end more than there are keys
    assert abs(said - held) <= 4 * keys + 64
    # thousands are kept: the keys take 8 bytes of it, each row 4 at most
    assert held <= 24 * keys + 4 * ROWS
