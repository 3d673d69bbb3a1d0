"""Row keys: properties, lookups against a plain dictionary, and the rows before those of flat files."""

from __future__ import annotations

import numpy as np
import pytest
from pyroaring import BitMap

from hindex.errors import OrcError
from hindex.orc.acid.row_keys import (
    FlatKeys,
    KeyRange,
    PackedKeys,
    RowKeys,
    StoredKeys,
    bucket_code,
    bucket_codes,
    bucket_property,
    first_row_ids,
)
from tests.support.messages import raises


def test_bucket_properties() -> None:
    assert bucket_property(0) == bucket_property(0, 0) == 536870912
    assert bucket_property(1, 3) == 536870912 + 65536 + 3
    distinct = {
        bucket_code(bucket_property(bucket, statement)) for bucket in range(5) for statement in range(5)
    }
    assert len(distinct) == 25
    # version 0 holds the bucket alone
    assert bucket_codes(np.array([7, bucket_property(7)])).tolist() == [bucket_code(7)] * 2


@pytest.mark.parametrize("value", [2 << 29, 7 << 29, -1, 1 << 29 | 1 << 12, 1 << 29 | 1 << 28, 4096])
def test_unknown_bucket_properties(value: int) -> None:
    with raises(OrcError):
        bucket_code(value)


def keys_of(items: list[tuple[int, int, int]]) -> RowKeys:
    columns = np.array(items, np.int64).reshape(-1, 3)
    return RowKeys(*(np.ascontiguousarray(columns[:, at]) for at in range(3)))


@pytest.mark.parametrize("spread", [1, 1 << 40, 1 << 61])
@pytest.mark.parametrize("order", ["sorted", "shuffled", "twice"])
@pytest.mark.parametrize("size", [1, 5, 300, 6000])
def test_lookups(rng: np.random.Generator, spread: int, order: str, size: int) -> None:
    def some(count: int) -> list[tuple[int, int, int]]:
        write_ids = rng.integers(0, rng.choice([1, 3, 50]), count)
        return [
            (int(w), bucket_code(bucket_property(int(b), int(s))), int(r) * spread % ((1 << 63) - 1))
            for w, b, s, r in zip(
                write_ids, *(rng.integers(0, n, count) for n in (3, 2, max(size // 3, 2))), strict=True
            )
        ]

    present = sorted(set(some(size)))
    if order != "sorted":
        present = [present[at] for at in rng.permutation(len(present))]
    if order == "twice":
        present += present[:3]
    rows = np.sort(rng.choice(10 * size + 10, len(present), replace=False)).astype(np.int64)
    stored = StoredKeys(rows, keys_of(present))
    wanted = list(dict.fromkeys(some(size) + present[::3]))
    wanted_keys = set(wanted)
    expected = sorted(int(row) for row, key in zip(rows, present, strict=True) if key in wanted_keys)
    assert sorted(stored.rows_of(keys_of(wanted)).tolist()) == expected
    assert not len(stored.rows_of(keys_of([])))
    for low, high in rng.integers(0, max(size // 3, 2), (8, 2)).tolist():
        some_range = KeyRange((low, high), (None, None), (low * spread, None))
        inside = any(low <= w <= high and r >= low * spread for w, _, r in present)
        # of many keys only the least and greatest parts are looked at
        assert stored.overlaps(some_range) >= inside
        if len(present) <= 4096:
            assert stored.overlaps(some_range) == inside


def test_keys_of_flat_files() -> None:
    keys = FlatKeys(7, bucket_code(bucket_property(1)), 100, 10)
    code = bucket_code(bucket_property(1))
    wanted = [(7, code, 99), (7, code, 100), (7, code, 109), (7, code, 110), (6, code, 105), (7, 0, 105)]
    assert keys.rows_of(keys_of(wanted)).tolist() == [0, 9]
    assert keys.overlaps(KeyRange((0, 7), (code, None), (109, 200)))
    assert not keys.overlaps(KeyRange((0, 7), (code, None), (110, 200)))
    assert not keys.overlaps(KeyRange((8, None)))


def test_the_article_on_original_files() -> None:
    """A bucket of three files, of X1, X2 and X3 rows: ids from 0, from X1, and from X1 + X2."""
    x1, x2, x3 = 5, 7, 11
    files = [
        ("000000_0_copy_2", 0, x3),
        ("000000_0", 0, x1),
        ("000001_0", 1, 100),
        ("000000_0_copy_1", 0, x2),
    ]
    assert first_row_ids(files) == {
        "000000_0": 0,
        "000000_0_copy_1": x1,
        "000000_0_copy_2": x1 + x2,
        "000001_0": 0,
    }


def test_original_files_are_in_the_order_of_their_paths() -> None:
    files = [(f"000000_0_copy_{number}", 0, 10**number) for number in (1, 2, 10)]
    assert first_row_ids(files) == {
        "000000_0_copy_1": 0,
        "000000_0_copy_10": 10,
        "000000_0_copy_2": 10 + 10**10,
    }
    assert first_row_ids([("part-0.orc", None, 5)]) == {}


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_packed_keys(rng: np.random.Generator, size: int) -> None:
    def some() -> list[tuple[int, int, int]]:
        columns = rng.integers(0, 4, size), rng.integers(0, 3, size), rng.integers(-5, (1 << 63) - 1, size)
        keys = list(zip(*(column.tolist() for column in columns), strict=True))
        return sorted(keys) if rng.random() < 0.5 else keys

    parts = [some() for _ in range(3)]
    packed = PackedKeys(keys_of(part) for part in parts)
    unpacked = [
        key
        for part in packed.parts()
        for key in zip(part.write_ids.tolist(), part.buckets.tolist(), part.row_ids.tolist(), strict=True)
    ]
    assert len(unpacked) == len(set(unpacked))
    assert set(unpacked) == {key for part in parts for key in part}


def test_packed_keys_that_lie_close_take_little_memory() -> None:
    ids = np.arange(0, 65_536 * 100, 100)
    packed = PackedKeys([RowKeys(np.full(len(ids), 1), np.full(len(ids), 0), ids)])
    assert packed.nbytes < 2.5 * len(ids)


def test_flat_keys_overlap_a_range_that_ends_at_the_only_wanted_row() -> None:
    keys = FlatKeys(1, 2, 100, 10, BitMap([4]))
    for low in (None, 90, 100, 104):
        assert keys.overlaps(KeyRange((1, 1), (2, 2), (low, 104)))
        assert not keys.overlaps(KeyRange((1, 1), (2, 2), (low, 103) if low != 104 else (105, None)))
    assert keys.overlaps(KeyRange((1, 1), (2, 2), (104, None)))
    # the last row of the stripe, and one beyond
    for high in (109, 110):
        assert FlatKeys(1, 2, 100, 10, BitMap([9])).overlaps(KeyRange(row_ids=(109, high)))


def test_flat_keys_of_some_rows_overlap_ranges_that_hold_one(rng: np.random.Generator) -> None:
    for _ in range(300):
        first, count = int(rng.integers(100)), int(rng.integers(1, 40))
        chosen = BitMap(rng.choice(count, int(rng.integers(1, count + 1)), replace=False).tolist())
        low, high = sorted(int(end) for end in rng.integers(-5, 150, size=2))
        ends = (low if rng.random() < 0.8 else None, high if rng.random() < 0.8 else None)
        inside = [
            at + first
            for at in chosen
            if (ends[0] is None or at + first >= low) and (ends[1] is None or at + first <= high)
        ]
        within = KeyRange((1, 1), (2, 2), ends)
        assert FlatKeys(1, 2, first, count, chosen).overlaps(within) is bool(inside)
        assert not FlatKeys(0, 2, first, count, chosen).overlaps(within)
        whole = FlatKeys(1, 2, first, count)
        assert whole.overlaps(within) is FlatKeys(1, 2, first, count, BitMap(range(count))).overlaps(within)
        assert whole.is_whole
