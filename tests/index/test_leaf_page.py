"""Rows of some keys of a leaf page, against the column itself, and how many are unpacked for them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hindex.domain import Domain, Range
from hindex.errors import IndexFileError
from hindex.index.index_file import PageRef, encode_page, split_bytes
from hindex.index.leaf_page import MAX_KEY_BYTES, ByteKeys, OverflowRows, encode
from hindex.index.leaf_reader import LeafKeys, LeafPages
from hindex.keys import KeyKind, key_list
from hindex.orc import kernel
from tests.index.support import TYPES, build, read, rows, to_array
from tests.support.messages import raises

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
    find_rows = kernel.find_rows

    def counted(*args: Any) -> int:
        status = find_rows(*args)
        unpacked.append(int(args[-1][2]))
        return status

    monkeypatch.setattr(kernel, "find_rows", counted)
    result = rows(reader, 0, Domain.points(points.tolist()))
    assert set(result) == set(np.flatnonzero(np.isin(column, points)).tolist())
    # the rows of the frequent key may be a bitmap outside
    frequent = np.count_nonzero(column == 7 * 3) if 7 * 3 in points else 0
    assert sum(unpacked) in (len(result), len(result) - frequent)


@pytest.mark.parametrize("frequent", [0, 7], ids=["all rows inline", "some keys outside"])
@pytest.mark.parametrize("kind", ["bigint", "string"])
def test_keys_with_their_rows(kind: str, frequent: int, rng: np.random.Generator) -> None:
    column = rng.integers(0, 10_000, ROWS)
    column[rng.random(ROWS) < 0.06 * frequent] = frequent
    values: list[Any] = column.tolist() if kind == "bigint" else [f"{value:05}" for value in column]
    reader = read(build(TYPES[kind], [to_array(TYPES[kind], values)]))
    wanted = sorted({*rng.choice(values, 400).tolist(), values[int(np.flatnonzero(column == column[5])[0])]})
    wanted = sorted({*wanted, values[list(column).index(frequent)]} if frequent else wanted)
    keys = wanted if kind == "bigint" else [value.encode() for value in wanted]
    bounds, key_rows = reader.lookup_keys(0, Domain.points(keys), ROWS)
    assert key_rows is not None
    assert set(key_rows.rows.tolist()) == set(bounds.lower)
    assert reader.lookup_keys(0, Domain.points(keys), len(key_rows.rows) - 1) == (bounds, None)
    assert key_list(key_rows.keys) == keys
    by_value: dict[Any, list[int]] = {}
    for row, value in enumerate(values):
        by_value.setdefault(value, []).append(row)
    assert key_rows.counts.tolist() == [len(by_value[value]) for value in wanted]
    assert key_rows.rows.tolist() == [row for value in wanted for row in by_value[value]]
    tree = reader._stripes[0].tree
    outside = sum(len(leaf.bitmap_pages) for leaf in tree.leaves())
    assert (outside > 0) == (frequent > 0)


def test_a_leaf_says_how_much_memory_it_takes(rng: np.random.Generator) -> None:
    column = rng.integers(0, 10_000, ROWS)
    column[rng.random(ROWS) < 0.4] = 7
    tree = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))._stripes[0].tree
    for leaf in tree.leaves():
        assert isinstance(leaf.keys, np.ndarray)
        arrays = sum(array.nbytes for array in (leaf.keys, leaf.counts, leaf.rows, leaf.outside))
        assert leaf.nbytes == arrays + 200 * len(leaf.bitmap_pages)


def test_keys_are_counted_without_their_rows(rng: np.random.Generator) -> None:
    column = rng.integers(0, 10_000, ROWS)
    reader = read(build(TYPES["bigint"], [pa.array(column, pa.int64())]))
    tree = reader._stripes[0].tree
    leaves = tree.find(tree.select((Range(),)), with_rows=False)
    assert not any(len(leaf.rows) for leaf in leaves)
    counts = np.concatenate([leaf.counts for leaf in leaves])
    assert counts.tolist() == np.unique(column, return_counts=True)[1].tolist()


@pytest.mark.parametrize("counts", [[1 << 32, 2, 1], [(1 << 32) - 1, 4, 1, 1, 1], [1 << 31, 1 << 31, 3]])
def test_counts_that_add_up_in_32_bits_alone_are_an_error(counts: list[int]) -> None:
    # what a leaf holds inline is what is left of the sum
    page = _page(np.array(counts), sum(counts) % (1 << 32))
    with raises(IndexFileError):
        _leaf(page, KeyKind.INT64, total=100, keys=len(counts), rows=sum(counts))
    with raises(IndexFileError):
        _leaf(page, KeyKind.INT64, total=100, keys=len(counts), rows=sum(counts) % (1 << 32))


def test_a_key_outside_may_have_more_rows_than_fit_32_bits_with_a_sign() -> None:
    counts = np.array([2, 3_000_000_000, 1])
    blocks = encode(
        np.array([5, 6, 7]), counts, np.array([4, (1 << 32) - 3, 9], np.uint32), {1: PageRef(8, 9, 10)}
    )
    page, row_count = encode_page(blocks), int(counts.sum())
    leaf = _leaf(page, KeyKind.INT64, total=(1 << 32) - 1, keys=3, rows=row_count)
    assert leaf.rows.tolist() == [4, (1 << 32) - 3, 9]
    assert leaf.counts.tolist() == counts.tolist()
    assert leaf.inline_counts.tolist() == [2, 0, 1]
    assert leaf.owners().tolist() == [0, 0, 2]
    assert leaf.outside.tolist() == [1]
    assert leaf.bitmap_pages == [OverflowRows(3_000_000_000, PageRef(8, 9, 10))]
    with raises(IndexFileError):
        _leaf(page, KeyKind.INT64, total=(1 << 32) - 1, keys=3, rows=row_count + 1)


def test_rows_of_single_keys_near_the_end_of_32_bits() -> None:
    rows = np.array([(1 << 32) - 2, 7, 1 << 31], np.uint32)
    page = encode_page(encode(np.array([1, 2, 3]), np.ones(3, np.int64), rows, {}))
    leaf = _leaf(page, KeyKind.INT64, total=(1 << 32) - 1, keys=3, rows=3)
    assert leaf.rows.tolist() == rows.tolist()
    with raises(IndexFileError):
        _leaf(page, KeyKind.INT64, total=1 << 31, keys=3, rows=3)


def test_keys_that_no_leaf_of_several_has_are_not_unpacked() -> None:
    def made(lengths: list[int]) -> LeafKeys:
        keys = ByteKeys(np.concatenate([[0], np.cumsum(lengths)]), bytes(sum(lengths)))
        count = len(lengths)
        blocks = encode(keys, np.ones(count, np.int64), np.arange(count, dtype=np.uint32), {})
        return _leaf(encode_page(blocks), KeyKind.BYTES, total=count, keys=count, rows=count)

    max_bytes = MAX_KEY_BYTES
    assert len(made([max_bytes - 1, 1]).keys) == 2
    assert len(made([max_bytes + 1]).keys) == 1
    with raises(IndexFileError):
        made([max_bytes, 1])


@pytest.mark.parametrize("count", [2, 40])
def test_a_block_that_cannot_be_decompressed_is_named(count: int) -> None:
    # few blocks are decompressed one by one, many in one call
    blocks = encode(np.arange(0, 4000, 2), np.ones(2000, np.int64), np.arange(2000, dtype=np.uint32), {})
    good = encode_page(blocks)
    # the last block is compressed, and its frame ends the page
    pages = [*[good] * (count - 1), good[:-3] + b"???"]
    counts = [2000] * count
    leaves = _pages([memoryview(page) for page in pages], KeyKind.INT64, total=2000, keys=counts, rows=counts)
    with pytest.raises(
        IndexFileError, match=rf"page {count - 1} is corrupt: block \d cannot be decompressed"
    ):
        leaves.find_all()
    intact = _pages([memoryview(good)] * count, KeyKind.INT64, total=2000, keys=counts, rows=counts)
    for _ in range(2):
        leaf_keys = intact.find_all()
        assert isinstance(leaf_keys.keys, np.ndarray)
        assert np.array_equal(leaf_keys.keys, np.tile(np.arange(0, 4000, 2), count))
        assert np.array_equal(leaf_keys.rows, np.tile(np.arange(2000), count))


def _page(counts: npt.NDArray[np.int64], inline: int) -> bytes:
    """A leaf page that tells of counts that it does not have the rows for."""
    keys, ones = np.arange(len(counts)), np.ones(len(counts), np.int64)
    blocks = encode(keys, ones, keys.astype(np.uint32), {})
    header = bytearray(blocks[0])
    struct.pack_into("<Q", header, 16, inline)
    header[25] = 4
    # keys in sequence and counts of one have no planes, and there is a plane of first rows
    more = max(inline - len(counts), 0)
    header[28] = 1
    planes = split_bytes((counts - 1).astype(np.uint64), 4)
    return encode_page([bytes(header), *planes, *blocks[1:], bytes(more)])


def _leaf(page: bytes, kind: KeyKind, *, total: int, keys: int, rows: int) -> LeafKeys:
    pages = _pages([memoryview(page)], kind, total=total, keys=[keys], rows=[rows])
    return pages.find_all()


def _pages(
    pages: list[memoryview], kind: KeyKind, *, total: int, keys: list[int], rows: list[int]
) -> LeafPages:
    return LeafPages(
        np.frombuffer(b"".join(pages), np.uint8),
        np.array([len(page) for page in pages]),
        kind,
        total=total,
        key_counts=np.array(keys),
        row_counts=np.array(rows),
        name=lambda at: f"page {at}",
    )
