"""Keys and rows of leaf pages, against pages that plain Python writes and sets of their keys."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel.leaf_pages import HIGH, LOW, Key, Leaf, Pages, Pointer, random_leaf
from tests.orc.kernel.reference import (
    BAD_BLOCK,
    BAD_COUNTS,
    BAD_KEYS,
    BAD_LEAF,
    BAD_ORDER,
    BAD_POINTERS,
    BAD_ROW,
)
from tests.orc.kernel.segments import Array, as_ints, assert_guarded, guarded
from tests.support.messages import raises


def open_pages(pages: Pages, leaves: list[Leaf]) -> tuple[int, list[Any]]:
    """List the blocks; return the status, and the first four arguments of `find_rows`."""
    arguments = pages.arguments(leaves)
    data, _, _, heads, blocks = arguments
    status = kernel.list_leaf_blocks(*arguments)
    if not status:
        blocks[blocks[:, 0] == 1, 1] = pages.places
    return status, [data, np.frombuffer(pages.contents, np.uint8), heads, blocks]


@dataclass
class Selected:
    status: int
    keys: list[Key]
    counts: list[int]
    rows: list[int]
    outside: list[tuple[int, int, Pointer]]


def arguments_of(
    pages: Pages,
    leaves: list[Leaf],
    ranges: list[list[tuple[Any, Any]]],
    total: int,
    *,
    with_rows: bool = True,
) -> dict[str, Any]:
    """The arguments of `find_rows` by name, after `list_leaf_blocks`. Ranges are half-open for bytes."""
    status, (data, contents, heads, blocks) = open_pages(pages, leaves)
    assert not status
    has_bytes = any(isinstance(leaf.keys[0], bytes) for leaf in leaves)
    flat = [item for part in ranges for item in part]
    ends = list(accumulate(map(len, ranges)))
    room = sum(len(leaf.keys) for leaf in leaves)
    prepared: dict[str, Any] = {
        "data": data,
        "contents": contents,
        "heads": heads,
        "blocks": blocks,
        "total": total,
        "begins": as_ints([0, *ends[:-1]]),
        "ends": as_ints(ends),
        "lows": as_ints([low for low, _ in flat]) if not has_bytes else None,
        "highs": as_ints([high for _, high in flat]) if not has_bytes else None,
        "low_bytes": None,
        "high_bytes": None,
        "open_range": -1,
        "scratch": guarded(max(len(leaf.keys) for leaf in leaves) + 1, np.int64)[0],
        "keys": guarded(room, np.int64)[0],
        "key_bytes": None,
        "counts": guarded(room, np.int64)[0],
        "rows": guarded(int(heads[:, 3].sum()), np.uint32)[0] if with_rows else None,
        "outside": np.zeros((int(heads[:, 4].sum()), 5), np.int64),
        "sizes": guarded(4, np.int64)[0],
    }
    if has_bytes:
        lows = [low for low, _ in flat]
        prepared["lows"] = as_ints([0, *accumulate(map(len, lows))])
        prepared["low_bytes"] = np.frombuffer(b"".join(lows), np.uint8)
        prepared["key_bytes"] = guarded(int(heads[:, 5].sum()), np.uint8)[0]
        if any(high != low for low, high in flat):
            highs = [high or b"" for _, high in flat]
            prepared["highs"] = as_ints([0, *accumulate(map(len, highs))])
            prepared["high_bytes"] = np.frombuffer(b"".join(highs), np.uint8)
            prepared["open_range"] = next((at for at, (_, high) in enumerate(flat) if high is None), -1)
    return prepared


def find(prepared: dict[str, Any]) -> Selected:
    status = kernel.find_rows(**prepared)
    for name in ("scratch", "keys", "counts", "sizes", "key_bytes", "rows"):
        if prepared[name] is not None:
            assert_guarded(prepared[name].base)
    key_count, byte_count, row_count, outside_count = prepared["sizes"].tolist()
    keys: list[Key] = prepared["keys"][:key_count].tolist()
    if prepared["key_bytes"] is not None:
        data = prepared["key_bytes"][:byte_count].tobytes()
        keys = [data[begin:end] for begin, end in pairwise([0, *keys])]
    return Selected(
        status,
        keys,
        prepared["counts"][:key_count].tolist(),
        [] if prepared["rows"] is None else prepared["rows"][:row_count].tolist(),
        [
            (at, count, (offset, length, crc))
            for at, count, offset, length, crc in prepared["outside"][:outside_count].tolist()
        ],
    )


def expected(leaves: list[Leaf], ranges: list[list[tuple[Any, Any]]]) -> Selected:
    has_bytes = isinstance(leaves[0].keys[0], bytes)
    selected = Selected(0, [], [], [], [])
    for leaf, part in zip(leaves, ranges, strict=True):
        for key, rows, count in zip(leaf.keys, leaf.rows, leaf.counts, strict=True):
            if has_bytes:
                is_in = any(
                    key == low if low == high else low <= key and (high is None or key < high)
                    for low, high in part
                )
            else:
                is_in = any(low <= key <= high for low, high in part)
            if not is_in:
                continue
            if isinstance(rows, list):
                selected.rows += rows
            else:
                selected.outside.append((len(selected.keys), *rows))
            selected.keys.append(key)
            selected.counts.append(count)
    return selected


def random_ranges(chance: random.Random, keys: list[Any], *, are_points: bool) -> list[tuple[Any, Any]]:
    """Ascending, disjoint ranges: some begin or end at keys, and some beside them."""
    if isinstance(keys[0], bytes):
        near = sorted(
            {*chance.sample(keys, min(len(keys), 6)), b"", b"\xff" * 3, chance.choice(keys) + b"\0"}
        )
    else:
        near = sorted(
            {
                max(min(key + chance.choice([-1, 0, 0, 1]), HIGH), LOW)
                for key in chance.sample(keys, min(len(keys), 8))
            }
        )
    if are_points:
        return [(key, key) for key in near]
    ranges = [(low, high) for low, high in zip(near[::2], near[1::2], strict=False)]
    if isinstance(keys[0], bytes) and len(near) % 2 and chance.random() < 0.7:
        ranges.append((near[-1], None))
    return ranges


@pytest.mark.parametrize("has_bytes", [False, True], ids=["integers", "bytes"])
@pytest.mark.parametrize("are_points", [False, True], ids=["ranges", "points"])
@pytest.mark.parametrize("total", [3, 1 << 20, 1 << 31])
def test_random_leaves(total: int, are_points: bool, has_bytes: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for case in range(60):
        leaves = [
            random_leaf(chance, total, has_bytes=has_bytes, size=chance.choice([1, 2, 20, 300]))
            for _ in range(chance.choice([1, 1, 3]))
        ]
        pages = Pages()
        for leaf in leaves:
            pages.add(leaf.blocks(), chance)
        # an open range is the last one
        ranges = [random_ranges(chance, leaf.keys, are_points=are_points) for leaf in leaves]
        for part in ranges[:-1]:
            part[:] = [item for item in part if item[1] is not None]
        with_rows = chance.random() < 0.8
        selected = find(arguments_of(pages, leaves, ranges, total, with_rows=with_rows))
        wanted = expected(leaves, ranges)
        if not with_rows:
            wanted.rows = []
        assert selected == wanted, case


def test_keys_near_the_ends_of_64_bits() -> None:
    keys = [LOW, LOW + 1, -1, 0, HIGH - 300, *range(HIGH - 200, HIGH + 1)]
    leaf = Leaf(keys, [[at] for at in range(len(keys))])
    pages = Pages()
    pages.add(leaf.blocks())
    for ranges in ([(LOW, HIGH)], [(LOW, LOW), (HIGH, HIGH)], [(HIGH - 1, HIGH)], [(1, HIGH - 301)]):
        assert find(arguments_of(pages, [leaf], [ranges], 1000)) == expected([leaf], [ranges])


def test_a_first_row_below_zero() -> None:
    leaf = Leaf([1, 2], [[4], [2]], is_delta=True, changed={})
    blocks = leaf.blocks()
    pages = Pages()
    pages.add([*blocks[:-1], bytes([8, 9])])
    for ranges in ([(1, 2)], [(2, 2)]):
        # the sum is that of the keys before, whether they are selected or not
        assert find(arguments_of(pages, [leaf], [ranges], 10)).status == BAD_ROW
    assert find(arguments_of(pages, [leaf], [[(1, 1)]], 10)).rows == [4]


GOOD = Leaf([5, 7, 9], [[0, 3], (4, (8, 9, 10)), [2]])
TEXTS = Leaf([b"a", b"cd"], [[1], [0]])


@pytest.mark.parametrize("leaf", [GOOD, TEXTS], ids=["integers", "bytes"])
def test_every_changed_byte_is_an_error_or_another_page(leaf: Leaf) -> None:
    # a damaged page never makes the kernel read outside of it
    blocks = leaf.blocks()
    whole = Pages()
    whole.add(blocks)
    everything: list[tuple[Any, Any]] = [(b"", None)] if leaf is TEXTS else [(LOW, HIGH)]
    codes = set()
    for at in range(len(whole.data)):
        for value in (0, 1, 2, 127, 255):
            data = bytearray(whole.data)
            data[at] = value
            pages = Pages(bytes(data), [len(data)])
            if data[0] > len(data):
                continue
            status, _ = open_pages(pages, [leaf]) if not pages_packed(data) else (0, [])
            if not status and not pages_packed(data):
                status = find(arguments_of(pages, [leaf], [everything], 5)).status
            codes.add(status & 255)
    wanted = {0, BAD_BLOCK, BAD_LEAF, BAD_ROW}
    assert codes == wanted | ({BAD_KEYS} if leaf is TEXTS else {BAD_COUNTS, BAD_POINTERS})


def pages_packed(data: bytes | bytearray) -> bool:
    """Return True if a block claims to be compressed."""
    return any(data[1 + 9 * at] == 1 for at in range(data[0]) if 1 + 9 * at < len(data))


def status_of(leaf: Leaf, blocks: list[bytes], number: int = 0) -> int:
    """The status of a page after ``number`` good ones."""
    pages = Pages()
    for _ in range(number):
        pages.add(leaf.blocks())
    pages.add(blocks)
    leaves = [leaf] * (number + 1)
    status, _ = open_pages(pages, leaves)
    if status:
        return status
    everything: list[tuple[Any, Any]] = [(b"", b"~")] if isinstance(leaf.keys[0], bytes) else [(LOW, HIGH)]
    return find(arguments_of(pages, leaves, [everything] * len(leaves), 100)).status


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({0: 4}, BAD_LEAF),
        ({0: 0}, BAD_LEAF),
        ({1: 4}, BAD_LEAF),
        ({1: 0}, BAD_LEAF),
        ({3: 1}, BAD_LEAF),
        ({3: 8}, BAD_LEAF),
        ({3: 1 << 63}, BAD_LEAF),
        ({4: 9}, BAD_LEAF),
        ({5: 5}, BAD_LEAF),
        ({6: 2}, BAD_LEAF),
        ({7: 5}, BAD_LEAF),
        ({8: 5}, BAD_LEAF),
        ({8: 2}, BAD_LEAF),
    ],
)
@pytest.mark.parametrize("number", [0, 2])
def test_headers_that_contradict(header: dict[int, int], code: int, number: int) -> None:
    leaf = Leaf(GOOD.keys, GOOD.rows, header=header)
    assert status_of(GOOD, leaf.blocks(), number) == number << 8 | code


@pytest.mark.parametrize(
    ("leaf", "code"),
    [
        # a key that wraps, also to the same number
        (Leaf([5, 4], [[1], [2]]), BAD_ORDER),
        (Leaf([5, 5], [[1], [2]]), BAD_ORDER),
        (Leaf([HIGH, LOW], [[1], [2]]), BAD_ORDER),
        (Leaf([b"a", b"cd"], [[1], [0]], header={2: 2}), BAD_LEAF),
        (Leaf([b"a", b"cd"], [[1], [0]], header={2: -1}), BAD_KEYS),
        (Leaf([b"a", b"cd"], [[1], [0]], header={4: 5}), BAD_LEAF),
        # lengths that do not add up
        (Leaf([b"a", b"cd"], [[1], [0]], changed={1: bytes([1, 1])}), BAD_KEYS),
        (Leaf([1, 2], [[1], [100]]), BAD_ROW),
        (Leaf([1, 2], [[1], [9, 100]]), BAD_ROW),
        (Leaf([1, 2], [(1, (1, 1, 1)), (1, (1, 1, 1))], header={3: 1}), BAD_LEAF),
    ],
)
def test_leaves_that_contradict(leaf: Leaf, code: int) -> None:
    assert status_of(leaf, leaf.blocks(), 0) == code


def test_counts_and_pointers_that_contradict() -> None:
    blocks = GOOD.blocks()
    # header, keys, counts, first rows, gaps, pointers
    assert len(blocks) == 6
    for counts in (bytes([1, 3, 1]), bytes([2, 3, 0]), bytes([0, 3, 0]), bytes([1, 2, 0])):
        assert status_of(GOOD, [*blocks[:2], counts, *blocks[3:]]) == BAD_COUNTS
    other = Leaf([1, 2, 3], [(2, (1, 1, 1)), (2, (2, 2, 2)), [4]])
    blocks = other.blocks()
    for numbers in ((1, 0), (0, 0), (0, 3)):
        pointers = b"".join(struct.pack("<IQII", number, 1, 1, 1) for number in numbers)
        assert status_of(other, [*blocks[:-1], pointers]) == BAD_POINTERS


def test_blocks_that_contradict() -> None:
    def page(headers: list[tuple[int, int, int]], body: bytes) -> int:
        data = bytes([len(headers)]) + b"".join(struct.pack("<BII", *each) for each in headers) + body
        pages = Pages(data, [len(data)])
        return open_pages(pages, [GOOD])[0]

    header = GOOD.blocks()[0]
    assert page([], b"") == BAD_BLOCK
    assert page([(0, 29, 29)], header) == BAD_LEAF
    assert page([(2, 29, 29)], header) == BAD_BLOCK
    assert page([(0, 29, 30)], header) == BAD_BLOCK
    assert page([(0, 29, 29)], header + b"?") == BAD_BLOCK
    assert page([(0, 30, 30)], header) == BAD_BLOCK
    assert page([(0, 30, 30)], header + b"?") == BAD_LEAF
    # the header is not compressed
    assert page([(1, 29, 29)], header) == BAD_LEAF
    assert page([(1, 4, 1 << 31)], b"????") == BAD_BLOCK
    assert page([(1, 4, (1 << 26) + 1)], b"????") == BAD_BLOCK
    assert page([(1, (1 << 16) + 1, (1 << 26) + 1)], bytes((1 << 16) + 1)) == BAD_LEAF
    pages = Pages(b"\x05\0", [2])
    assert open_pages(pages, [GOOD])[0] == BAD_BLOCK
    arguments = Pages(b"\1", [1]).arguments([GOOD])
    arguments[1] = as_ints([0])
    assert kernel.list_leaf_blocks(*arguments) == BAD_BLOCK


@pytest.mark.parametrize("keys", [1, 2])
def test_many_bytes_of_keys(keys: int) -> None:
    texts = [b"a" * (1 << 20), b"b"][:keys]
    leaf = Leaf(texts, [[at] for at in range(keys)])
    assert status_of(leaf, leaf.blocks()) == (BAD_KEYS if keys == 2 else 0)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        (1, as_ints([1 << 40])),
        (1, as_ints([-1])),
        (3, np.zeros((1, 10), np.int64)),
        (3, np.zeros((2, 11), np.int64)),
        (3, np.full((1, 11), 1, np.int64)),
        (4, np.zeros((5, 4), np.int64)),
        (4, np.zeros((6, 3), np.int64)),
    ],
)
def test_lists_that_do_not_fit(argument: int, value: Array) -> None:
    pages = Pages()
    pages.add(GOOD.blocks())
    arguments = pages.arguments([GOOD])
    arguments[argument] = value
    with raises(ValueError):
        kernel.list_leaf_blocks(*arguments)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("data", np.zeros(30, np.uint8)),
        ("heads", np.zeros((1, 10), np.int64)),
        ("heads", np.zeros((1, 11), np.int64)),
        ("heads", np.zeros((2, 11), np.int64)),
        ("blocks", np.zeros((6, 3), np.int64)),
        ("blocks", np.zeros((5, 4), np.int64)),
        ("blocks", np.full((6, 4), -1, np.int64)),
        ("total", -1),
        ("total", 1 << 32),
        ("begins", as_ints([3])),
        ("begins", as_ints([-1])),
        ("ends", as_ints([3])),
        ("ends", as_ints([0, 0])),
        ("highs", as_ints([1])),
        ("low_bytes", np.zeros(3, np.uint8)),
        ("high_bytes", np.zeros(3, np.uint8)),
        ("scratch", as_ints([0] * 3)),
        ("keys", as_ints([0] * 2)),
        ("counts", as_ints([0] * 2)),
        ("rows", np.zeros(2, np.uint32)),
        ("outside", np.zeros((0, 5), np.int64)),
        ("outside", np.zeros((1, 4), np.int64)),
        ("sizes", as_ints([0] * 3)),
    ],
)
def test_arguments_that_do_not_fit(argument: str, value: Any) -> None:
    pages = Pages()
    pages.add(GOOD.blocks())
    prepared = arguments_of(pages, [GOOD], [[(5, 5), (6, 9)]], 10)
    assert find(prepared).keys == [5, 7, 9]
    prepared[argument] = value
    with raises(ValueError):
        kernel.find_rows(**prepared)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("lows", as_ints([1, 1, 2])),
        ("lows", as_ints([0, 2, 1])),
        ("lows", as_ints([0, 1, 9])),
        ("lows", as_ints([])),
        ("highs", as_ints([0, 1, 9])),
        ("highs", as_ints([0, 1])),
        ("key_bytes", None),
        ("key_bytes", np.zeros(2, np.uint8)),
    ],
)
def test_arguments_of_bytes_that_do_not_fit(argument: str, value: Any) -> None:
    pages = Pages()
    pages.add(TEXTS.blocks())
    prepared = arguments_of(pages, [TEXTS], [[(b"a", b"b"), (b"c", b"d")]], 10)
    assert find(prepared).keys == [b"a", b"cd"]
    prepared[argument] = value
    with raises(ValueError):
        kernel.find_rows(**prepared)
