"""Lengths, values one behind the other, entries of dictionaries, and valid rows, against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel.reference import BAD_ENTRY, BAD_LENGTH
from tests.orc.kernel.segments import Segments, as_ints, assert_guarded, guarded

HIGH = (1 << 63) - 1


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def sum_lengths(
    lengths: list[int], firsts: list[int], positions: list[list[int]], longest: int = 1 << 31
) -> tuple[int, list[int], list[int]]:
    bounds = Segments(b"", positions=positions).bounds()
    begins, whole_begins = guarded(bounds[-1], np.int64)
    selected, whole_selected = guarded(bounds[-1], np.int64)
    flat = as_ints([position for each in positions for position in each])
    result = kernel.sum_lengths(
        as_ints(lengths), as_ints(firsts), as_ints(bounds), flat, begins, selected, longest
    )
    assert_guarded(whole_begins)
    assert_guarded(whole_selected)
    return result, begins.tolist(), selected.tolist()


def test_random_lengths(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        lengths = [
            chance.choice([0, 1, 7, chance.randrange(1 << 20)]) for _ in range(chance.choice([0, 1, 30]))
        ]
        firsts, positions = [], []
        for _ in range(chance.choice([0, 1, 3])):
            firsts.append(chance.randint(0, len(lengths)))
            count = len(lengths) - firsts[-1]
            positions.append(sorted(chance.sample(range(count), chance.randint(0, count))))
        places = [(f, p) for f, each in zip(firsts, positions, strict=True) for p in each]
        result, begins, selected = sum_lengths(lengths, firsts, positions)
        assert result == 0
        assert begins == [sum(lengths[first : first + position]) for first, position in places]
        assert selected == [lengths[first + position] for first, position in places]
        # a length that is not believed, wanted or before one that is
        wrong = chance.randrange(len(lengths)) if lengths else 0
        if lengths:
            lengths[wrong] = chance.choice([-1, 1 << 31, -(1 << 63), HIGH])
        result, begins, selected = sum_lengths(lengths, firsts, positions)
        reached = [first <= wrong <= first + position for first, position in places]
        if any(reached):
            assert result == wrong << 8 | BAD_LENGTH
            sound = reached.index(True)
        else:
            assert result == 0
            sound = len(places)
        places = places[:sound]
        assert begins[:sound] == [sum(lengths[first : first + position]) for first, position in places]


def test_the_longest_length() -> None:
    assert sum_lengths([9, 10], [0], [[0, 1]], 11) == (0, [0, 9], [9, 10])
    assert sum_lengths([9, 10], [0], [[0, 1]], 10)[0] == 1 << 8 | BAD_LENGTH
    assert sum_lengths([9, 10], [0], [[0]], 10) == (0, [0], [9])


@pytest.mark.parametrize(
    ("firsts", "positions"),
    [
        ([0], [[2]]),
        ([1], [[1]]),
        ([2], [[0]]),
        ([3], [[0]]),
        ([-1], [[1]]),
        ([0], [[-1]]),
        ([0], [[1, 0]]),
        ([0], [[HIGH]]),
        ([HIGH], [[HIGH]]),
        ([-(1 << 63)], [[0]]),
    ],
)
def test_lengths_outside(firsts: list[int], positions: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="outside the lengths"):
        sum_lengths([1, 2], firsts, positions)


def test_sums_beyond_64_bits_wrap() -> None:
    assert sum_lengths([HIGH - 1] * 3, [0], [[0, 1, 2]], HIGH) == (0, [0, HIGH - 1, -4], [HIGH - 1] * 3)


@pytest.mark.parametrize("wrong", ["firsts", "bounds", "begins", "selected", "positions", "first bound"])
def test_lengths_that_do_not_fit(wrong: str) -> None:
    arrays = {
        "lengths": as_ints([1, 2]),
        "firsts": as_ints([0]),
        "bounds": as_ints([0, 2]),
        "positions": as_ints([0, 1]),
        "begins": as_ints([0, 0]),
        "selected": as_ints([0, 0]),
    }
    if wrong == "first bound":
        arrays["bounds"] = as_ints([1, 2])
    else:
        arrays[wrong] = arrays[wrong][:-1]
    with pytest.raises(ValueError, match=r"segments need|the bounds"):
        kernel.sum_lengths(**arrays, longest=9)


def copy_values(data: bytes, begins: list[int], lengths: list[int], room: int) -> tuple[int, bytes]:
    out, whole = guarded(room, np.uint8)
    result = kernel.copy_values(as_bytes(data), as_ints(begins), as_ints(lengths), out)
    assert_guarded(whole)
    return result, out.tobytes()


def test_random_values(rng: np.random.Generator) -> None:
    """Of all lengths around those that are copied at once, near the ends of both sides."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(300):
        data = chance.randbytes(chance.choice([0, 1, 15, 16, 17, 40, 300]))
        begins = [chance.randint(0, len(data)) for _ in range(chance.choice([0, 1, 3, 20]))]
        lengths = [min(chance.choice([0, 1, 8, 15, 16, 17, 33, 300]), len(data) - begin) for begin in begins]
        expected = b"".join(data[b : b + n] for b, n in zip(begins, lengths, strict=True))
        assert copy_values(data, begins, lengths, len(expected)) == (0, expected)
        result, copied = copy_values(data, begins, lengths, len(expected) + 5)
        assert (result, copied[: len(expected)]) == (0, expected)
        if expected:
            # no room for the last value that is not empty
            last = max(number for number, length in enumerate(lengths) if length)
            result, copied = copy_values(data, begins, lengths, len(expected) - 1)
            assert result == last << 8 | BAD_LENGTH
            sound = len(expected) - lengths[last]
            assert copied[:sound] == expected[:sound]


@pytest.mark.parametrize(
    ("begin", "length"),
    [
        (0, 4),
        (3, 1),
        (4, 0),
        (-1, 1),
        (0, -1),
        (HIGH, 1),
        (1, HIGH),
        (HIGH, HIGH),
        (-(1 << 63), 1),
        (0, -(1 << 63)),
    ],
)
def test_values_outside(begin: int, length: int) -> None:
    assert copy_values(b"abc", [0, begin], [1, length], 100)[0] == 1 << 8 | BAD_LENGTH


def test_as_many_begins_as_lengths() -> None:
    with pytest.raises(ValueError, match="as many"):
        copy_values(b"abc", [0], [1, 1], 9)


def measure_entries(ends: list[int], codes: list[int], valid: list[int] | None) -> tuple[int, list[int]]:
    rows = len(codes) if valid is None else len(valid)
    offsets, whole = guarded(rows + 1, np.int32)
    flags = None if valid is None else np.array(valid, np.uint8)
    result = kernel.measure_entries(as_ints(ends), as_ints(codes), flags, offsets)
    assert_guarded(whole)
    return result, offsets.tolist()


def copy_entries(data: bytes, ends: list[int], codes: list[int], room: int) -> tuple[int, bytes]:
    out, whole = guarded(room, np.uint8)
    result = kernel.copy_entries(as_bytes(data), as_ints(ends), as_ints(codes), out)
    assert_guarded(whole)
    return result, out.tobytes()


def test_random_dictionaries(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(300):
        entries = [
            chance.randbytes(chance.choice([0, 1, 15, 16, 17, 100])) for _ in range(chance.choice([1, 2, 9]))
        ]
        ends = [sum(map(len, entries[:number])) for number in range(len(entries) + 1)]
        rows = chance.choice([0, 1, 40])
        valid = [chance.choice([0, 0, 1, 255]) for _ in range(rows)] if chance.random() < 0.6 else None
        count = rows if valid is None else sum(map(bool, valid))
        codes = [chance.randrange(len(entries)) for _ in range(count)]
        remaining = iter(codes)
        values = [entries[next(remaining)] if valid is None or valid[row] else b"" for row in range(rows)]
        result, offsets = measure_entries(ends, codes, valid)
        assert result == 0
        assert offsets == [sum(map(len, values[:row])) for row in range(rows + 1)]
        data = b"".join(entries)
        assert copy_entries(data, ends, codes, offsets[-1]) == (0, b"".join(values))
        if codes:
            wrong = chance.randrange(len(codes))
            codes[wrong] = chance.choice([-1, len(entries), HIGH, -(1 << 63)])
            assert measure_entries(ends, codes, valid)[0] == wrong << 8 | BAD_ENTRY
            assert copy_entries(data, ends, codes, offsets[-1] + 100)[0] == wrong << 8 | BAD_ENTRY


@pytest.mark.parametrize(
    ("ends", "codes", "code"),
    [
        ([0, 5, 3], [0, 1], BAD_LENGTH),
        ([0, 4, 4], [1, 0], BAD_LENGTH),
        ([0, 1, -1], [0, 1], BAD_LENGTH),
        ([0, 3, 3], [0, 0], BAD_LENGTH),
        ([0, 3, HIGH], [0, 1], BAD_LENGTH),
        ([0, 1, HIGH, -(1 << 63)], [0, 2], BAD_LENGTH),
        ([0, 1, -(1 << 63), HIGH], [0, 2], BAD_LENGTH),
        ([], [0], BAD_ENTRY),
        ([0], [0], BAD_ENTRY),
    ],
)
def test_entries_outside_of_their_data(ends: list[int], codes: list[int], code: int) -> None:
    """Of three bytes, to an output of three."""
    assert copy_entries(b"abc", ends, codes, 3)[0] & 255 == code


def test_offsets_have_31_bits() -> None:
    max_offset = (1 << 31) - 1
    assert measure_entries([0, max_offset], [0], None) == (0, [0, max_offset])
    assert measure_entries([0, max_offset, max_offset + 1], [0, 1], None)[0] == -1
    assert measure_entries([0, max_offset + 1], [0], None)[0] == -1
    assert measure_entries([0, 1, HIGH], [0, 1], [1, 0, 1])[0] == -1
    assert measure_entries([0, 2, 1], [0, 1], None)[0] == 1 << 8 | BAD_LENGTH
    assert measure_entries([0, HIGH, -(1 << 63)], [1], None)[0] == 0
    assert measure_entries([0, -(1 << 63), HIGH], [1], None)[0] == BAD_LENGTH


@pytest.mark.parametrize(
    ("codes", "valid", "offsets"),
    [
        ([0, 0], [1], 2),
        ([0], [0], 2),
        ([0], [1, 1], 3),
        ([], [1], 2),
        ([0], None, 1),
        ([0], None, 3),
        ([0], [1], 3),
    ],
)
def test_codes_that_do_not_fit_the_rows(codes: list[int], valid: list[int] | None, offsets: int) -> None:
    flags = None if valid is None else np.array(valid, np.uint8)
    with pytest.raises(ValueError, match="there "):
        kernel.measure_entries(as_ints([0, 1]), as_ints(codes), flags, np.zeros(offsets, np.int32))
    with pytest.raises(ValueError, match="there "):
        kernel.measure_entries(as_ints([]), as_ints([]), None, np.zeros(1, np.int32))


def test_scattered_rows(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        width, rows = chance.choice([0, 1, 2, 4, 8, 12, 16]), chance.choice([0, 1, 2, 30])
        valid = [chance.choice([0, 1, 255]) for _ in range(rows)]
        values = [chance.randbytes(width) for flag in valid if flag]
        remaining = iter(values)
        expected = b"".join(next(remaining) if flag else bytes(width) for flag in valid)
        out, whole = guarded(rows, np.uint8, width)
        kernel.scatter(as_bytes(b"".join(values)).reshape(len(values), width), np.array(valid, np.uint8), out)
        assert_guarded(whole)
        assert out.tobytes() == expected


@pytest.mark.parametrize(
    ("values", "valid", "out"),
    [((1, 4), 1, (2, 4)), ((1, 4), 1, (1, 8)), ((1, 4), 2, (2, 4)), ((0, 4), 1, (1, 4))],
)
def test_rows_that_do_not_fit(values: tuple[int, int], valid: int, out: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="there "):
        kernel.scatter(np.zeros(values, np.uint8), np.ones(valid, np.uint8), np.zeros(out, np.uint8))
