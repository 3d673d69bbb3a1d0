"""Rows of some keys of a leaf page, against the column itself, and how many are unpacked for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import IndexFileError
from hindex.index.index_file import Buffer, Page, PageRef, encode_page, split_bytes
from hindex.index.leaf_page import MAX_KEY_BYTES, ByteKeys, LeafPage, encode
from hindex.keys import KeyKind
from tests.index.support import TYPES, build, read, rows

ROWS = 40_000


@pytest.mark.parametrize("max_rows", [1, 60], ids=["a row a key", "rows by the dozen"])
@pytest.mark.parametrize("wanted", [5, 40, 400])
def test_many_keys_unpack_their_own_rows_only(
    max_rows: int, wanted: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    # keys of rows here and there, most of them inline; some are frequent enough for a bitmap outside
    column = np.repeat(np.arange(ROWS), rng.integers(1, max_rows, ROWS, endpoint=True))[:ROWS]
    column[rng.random(ROWS) < 0.05] = 7
    column = rng.permutation(column) * 3
    reader = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))
    points = rng.choice(np.unique(column), wanted, replace=False)
    unpacked: list[int] = []
    rows_of_keys = LeafPage.rows

    def counted(leaf: LeafPage, numbers: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.uint32]:
        unpacked_rows = rows_of_keys(leaf, numbers)
        unpacked.append(len(unpacked_rows))
        return unpacked_rows

    monkeypatch.setattr(LeafPage, "rows", counted)
    result = rows(reader, 0, Domain.points(points.tolist()))
    assert set(result) == set(np.flatnonzero(np.isin(column, points)).tolist())
    # the rows of the frequent key may be a bitmap outside
    frequent = np.count_nonzero(column == 7 * 3) if 7 * 3 in points else 0
    assert sum(unpacked) in (len(result), len(result) - frequent)


@pytest.mark.parametrize("frequent", [0, 7], ids=["all rows inline", "some keys outside"])
def test_a_leaf_says_how_much_memory_it_takes(frequent: int, rng: np.random.Generator) -> None:
    column = rng.integers(0, 10_000, ROWS)
    column[rng.random(ROWS) < 0.06 * frequent] = frequent
    reader = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))
    said = outside = 0
    tree = reader._stripes[0].tree
    leaves = list(tree.leaves(range(len(tree))))
    for leaf in leaves:
        assert isinstance(leaf.keys, np.ndarray)
        arrays = [value for value in vars(leaf).values() if isinstance(value, np.ndarray)]
        assert leaf.nbytes == sum(array.nbytes for array in arrays) + leaf._page.nbytes
        said += leaf.nbytes
        outside += len(leaf.overflow_pages(np.arange(len(leaf.keys))))
    assert (outside > 0) == (frequent > 0)
    # thousands are kept: a key takes 12 bytes of memory, or 20, one outside 28 more, and a leaf 4 more
    keys = sum(len(leaf.keys) for leaf in leaves)
    assert said <= (20 if frequent else 12) * keys + 28 * outside + 4 * len(leaves) + reader.file.length


@pytest.mark.parametrize("counts", [[1 << 32, 2, 1], [(1 << 32) - 1, 4, 1, 1, 1], [1 << 31, 1 << 31, 3]])
def test_counts_that_add_up_in_32_bits_alone_are_an_error(counts: list[int]) -> None:
    # what a leaf holds inline is what is left of the sum
    inline = sum(counts) % (1 << 32)
    page = _page(np.array(counts), inline)
    with pytest.raises(IndexFileError, match="its inline rows do not add up"):
        LeafPage(page, KeyKind.INT64, total=100, key_count=len(counts), row_count=sum(counts))


def test_a_key_outside_may_have_more_rows_than_fit_32_bits_with_a_sign() -> None:
    counts = np.array([2, 3_000_000_000, 1])
    blocks = encode(
        np.array([5, 6, 7]), counts, np.array([4, (1 << 32) - 3, 9], np.uint32), {1: PageRef(8, 9, 10)}
    )
    leaf = LeafPage(
        _as_page(blocks), KeyKind.INT64, total=(1 << 32) - 1, key_count=3, row_count=int(counts.sum())
    )
    assert leaf.rows().tolist() == [4, (1 << 32) - 3, 9]
    assert leaf.rows(np.array([0, 1])).tolist() == [4, (1 << 32) - 3]
    assert leaf.rows(np.array([1, 2])).tolist() == [9]
    assert leaf.counts.tolist() == counts.tolist()
    assert [item.count for item in leaf.overflow_pages(np.arange(3))] == [3_000_000_000]
    with pytest.raises(IndexFileError, match="its counts do not add up"):
        LeafPage(
            _as_page(blocks), KeyKind.INT64, total=(1 << 32) - 1, key_count=3, row_count=int(counts.sum()) + 1
        )


def test_rows_of_single_keys_near_the_end_of_32_bits() -> None:
    rows = np.array([(1 << 32) - 2, 7, 1 << 31], np.uint32)
    blocks = encode(np.array([1, 2, 3]), np.ones(3, np.int64), rows, {})
    leaf = LeafPage(_as_page(blocks), KeyKind.INT64, total=(1 << 32) - 1, key_count=3, row_count=3)
    assert leaf.rows().tolist() == rows.tolist()
    assert leaf.rows(np.array([2])).tolist() == [1 << 31]
    with pytest.raises(IndexFileError, match="a row lies outside the stripe"):
        LeafPage(_as_page(blocks), KeyKind.INT64, total=1 << 31, key_count=3, row_count=3).rows()


def test_keys_that_no_leaf_of_several_has_are_not_unpacked() -> None:
    def made(lengths: list[int]) -> LeafPage:
        keys = ByteKeys(np.concatenate([[0], np.cumsum(lengths)]), bytes(sum(lengths)))
        count = len(lengths)
        blocks = encode(keys, np.ones(count, np.int64), np.arange(count, dtype=np.uint32), {})
        return LeafPage(_as_page(blocks), KeyKind.BYTES, total=count, key_count=count, row_count=count)

    max_bytes = MAX_KEY_BYTES
    assert len(made([max_bytes - 1, 1]).keys) == 2
    assert len(made([max_bytes + 1]).keys) == 1
    with pytest.raises(
        IndexFileError, match=f"its 2 keys have {max_bytes + 1} bytes, more than the {max_bytes} allowed"
    ):
        made([max_bytes, 1])


def _page(counts: npt.NDArray[np.int64], inline: int) -> Page:
    """A leaf page that tells of counts that it does not have the rows for."""
    keys, ones = np.arange(len(counts)), np.ones(len(counts), np.int64)
    blocks = encode(keys, ones, keys.astype(np.uint32), {})
    header = bytearray(blocks[0])
    struct.pack_into("<Q", header, 16, inline)
    header[25] = 4
    # keys in sequence and counts of one have no planes
    return _as_page([bytes(header), *split_bytes((counts - 1).astype(np.uint64), 4), *blocks[1:]])


def _as_page(blocks: Sequence[Buffer]) -> Page:
    return Page(memoryview(encode_page(blocks)), "A page")
