"""Running sums of byte planes and the rows of a leaf page's keys, against plain Python."""

from __future__ import annotations

import random
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel.reference import BAD_ORDER, BAD_ROW, wrap
from tests.orc.kernel.segments import Array, as_ints, assert_guarded, guarded

LOW, HIGH = -(1 << 63), (1 << 63) - 1


def planes(values: list[int], width: int) -> Array:
    """All lowest bytes, then all second bytes, and so on."""
    data = bytes(value >> 8 * plane & 255 for plane in range(width) for value in values)
    return np.frombuffer(data, np.uint8).reshape(width, len(values))


def sum_planes(values: list[int], width: int, before: int) -> tuple[int, list[int]]:
    out, whole = guarded(len(values), np.int64)
    result = kernel.sum_planes(planes(values, width), before, out)
    assert_guarded(whole)
    return result, out.tolist()


@pytest.mark.parametrize("width", range(9))
def test_random_sums(width: int, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(40):
        values = [
            chance.randrange(1 << chance.randint(0, 8 * width)) for _ in range(chance.choice([0, 1, 2, 30]))
        ]
        before = chance.choice([0, LOW, HIGH, chance.randint(LOW, HIGH)])
        sums = [wrap(total) for total in accumulate((value + 1 for value in values), initial=before)][1:]
        # a sum that wraps is below the one before it
        wrong = next((at for at, (a, b) in enumerate(pairwise([before, *sums])) if b <= a), None)
        result, out = sum_planes(values, width, before)
        assert result == (0 if wrong is None else wrong << 8 | BAD_ORDER)
        assert out[:wrong] == sums[:wrong]


def test_sums_that_wrap_to_the_same_number() -> None:
    assert sum_planes([0, (1 << 64) - 1], 8, 5)[0] == 1 << 8 | BAD_ORDER


@pytest.mark.parametrize(("shape", "count"), [((1, 3), 2), ((1, 3), 4), ((9, 3), 3)])
def test_planes_that_do_not_fit(shape: tuple[int, int], count: int) -> None:
    with pytest.raises(ValueError, match="a sum for each number"):
        kernel.sum_planes(np.zeros(shape, np.uint8), 0, np.zeros(count, np.int64))


def leaf(chance: random.Random, total: int) -> list[list[int]]:
    """Rows of each key: none for a key whose rows are elsewhere."""
    return [
        sorted(chance.sample(range(total), min(chance.choice([0, 1, 1, 2, 7]), total)))
        for _ in range(chance.choice([0, 1, 4, 40]))
    ]


def arguments(rows: list[list[int]], numbers: list[int], *, is_delta: bool, total: int) -> dict[str, Any]:
    """The arguments for the rows of some keys, without the room for them."""
    inline = [each for each in rows if each]
    firsts = [each[0] for each in inline]
    if is_delta:
        steps = [first - before for first, before in zip(firsts, [0, *firsts], strict=False)]
        firsts = [2 * step if step >= 0 else -2 * step - 1 for step in steps]
    gaps = [b - a - 1 for each in inline for a, b in pairwise(each)]
    first_width, gap_width = ((max(values, default=0).bit_length() + 7) // 8 for values in (firsts, gaps))
    return {
        "firsts": planes(firsts, first_width),
        "gaps": planes(gaps, gap_width),
        "starts": np.array([0, *accumulate(map(len, rows))], np.int32),
        "outside": as_ints([at for at, each in enumerate(rows) if not each]),
        "numbers": as_ints(numbers),
        "is_delta": is_delta,
        "total": total,
    }


@pytest.mark.parametrize("is_delta", [False, True])
@pytest.mark.parametrize("total", [3, 300, 1 << 20, (1 << 32) - 1])
def test_random_rows(total: int, is_delta: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(40):
        # differences of rows must fit in four bytes
        top = min(total, 1 << 31) if is_delta else total
        rows = leaf(chance, top)
        numbers = sorted(chance.sample(range(len(rows)), chance.randint(0, len(rows))))
        expected = [row for number in numbers for row in rows[number]]
        out, whole = guarded(len(expected), np.uint32)
        prepared = arguments(rows, numbers, is_delta=is_delta, total=top)
        assert kernel.unpack_rows(**prepared, out=out) == 0
        assert_guarded(whole)
        assert out.tolist() == expected
        if not expected:
            continue
        # one row fewer: the first key with the last row is an error
        prepared["total"] = max(expected)
        wrong = next(number for number in numbers if max(expected) in rows[number])
        assert kernel.unpack_rows(**prepared, out=out) == wrong << 8 | BAD_ROW
        assert_guarded(whole)


def test_a_first_row_below_zero() -> None:
    prepared = arguments([[4], [2]], [0, 1], is_delta=True, total=10)
    prepared["firsts"] = planes([8, 9], 1)
    assert kernel.unpack_rows(**prepared, out=np.zeros(2, np.uint32)) == 1 << 8 | BAD_ROW
    # the sum is that of the keys before, whether they are selected or not
    prepared["numbers"] = as_ints([1])
    assert kernel.unpack_rows(**prepared, out=np.zeros(1, np.uint32)) == 1 << 8 | BAD_ROW


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("firsts", np.zeros((5, 2), np.uint8)),
        ("firsts", np.zeros((1, 1), np.uint8)),
        ("gaps", np.zeros((5, 1), np.uint8)),
        ("gaps", np.zeros((1, 0), np.uint8)),
        ("starts", np.array([0, 2, 2], np.int32)),
        ("starts", np.array([2, 0, 1], np.int32)),
        ("starts", np.array([-5, -3, -2], np.int32)),
        ("starts", np.array([0], np.int32)),
        ("outside", np.array([-1], np.int64)),
        ("outside", np.array([-2, -1], np.int64)),
        ("numbers", np.array([1, 0], np.int64)),
        ("numbers", np.array([1, 1], np.int64)),
        ("numbers", np.array([0, 2], np.int64)),
        ("numbers", np.array([-1, 0], np.int64)),
        ("numbers", np.array([0], np.int64)),
        ("total", -1),
        ("total", 1 << 32),
    ],
)
def test_rows_that_do_not_fit(argument: str, value: Any) -> None:
    prepared = arguments([[1, 5], [3]], [0, 1], is_delta=False, total=10)
    out = np.zeros(3, np.uint32)
    assert kernel.unpack_rows(**prepared, out=out) == 0
    assert out.tolist() == [1, 5, 3]
    prepared[argument] = value
    with pytest.raises(ValueError, match=r"do not fit each other|at most four bytes"):
        kernel.unpack_rows(**prepared, out=out)


@pytest.mark.parametrize("room", [2, 4])
def test_another_room_than_the_rows_need(room: int) -> None:
    prepared = arguments([[1, 5], [3]], [0, 1], is_delta=False, total=10)
    with pytest.raises(ValueError, match="do not fit each other"):
        kernel.unpack_rows(**prepared, out=np.zeros(room, np.uint32))
