"""Lengths, values one behind the other, and valid rows, against plain Python."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel import reference
from tests.orc.kernel.encoders import INTEGERS, Stream, lengths_v2
from tests.orc.kernel.reference import BAD_LENGTH, BAD_SEGMENT, STREAM_ENDS, BadStreamError
from tests.orc.kernel.segments import (
    Segments,
    as_ints,
    assert_guarded,
    check_stop,
    damage,
    guarded,
    segments_of,
)
from tests.support.messages import raises
from tests.support.rle_v2 import WIDTHS, header, pack, varint

HIGH = (1 << 63) - 1

VERSIONS = pytest.mark.parametrize("is_v2", [False, True])


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def check_lengths(segments: Segments, longest: int, *, is_v2: bool) -> int:
    """Compare what the kernel makes of lengths with the reference: what it gives, or the code of the error."""
    bounds = segments.bounds()
    begins, whole_begins = guarded(bounds[-1], np.int64)
    selected, whole_selected = guarded(bounds[-1], np.int64)
    stops, whole_stops = guarded(len(segments.starts), np.int64, 2)
    result = kernel.decode_lengths(
        as_bytes(segments.data),
        as_ints(segments.starts),
        as_ints(segments.limits),
        as_ints(segments.skips) if any(segments.skips) else None,
        as_ints(bounds),
        as_ints([position for each in segments.positions for position in each]),
        begins,
        selected,
        longest,
        is_v2,
        stops,
    )
    for whole in (whole_begins, whole_selected, whole_stops):
        assert_guarded(whole)
    expected, code = list[tuple[int, int]](), 0
    oracle = partial(reference.integers, is_v2=is_v2, is_signed=False)
    for number, positions in enumerate(segments.positions):
        start, limit = segments.starts[number], segments.limits[number]
        try:
            for pair in reference.lengths(
                segments.data[start:limit], segments.skips[number], positions, longest, is_v2=is_v2
            ):
                expected.append(pair)
        except BadStreamError as error:
            code = error.code
            assert start <= result >> 8 <= limit
            break
        check_stop(segments, number, oracle, *stops[number].tolist())
    assert result & 255 == code
    assert code or result == 0
    pairs = zip(begins.tolist(), selected.tolist(), strict=True)
    assert list(pairs)[: len(expected)] == expected
    return code


def some_lengths(chance: random.Random, is_v2: bool) -> Stream:
    """Runs of small numbers, or of any."""
    if chance.random() < 0.25:
        return INTEGERS[is_v2](chance, False)
    data, values = b"", list[int]()
    for _ in range(chance.randint(0, 5)):
        width = chance.choice([1, 7, 8, 16])
        count = chance.choice([1, 3, 8, 128, 511, 512]) if is_v2 else chance.choice([1, 2, 30, 128])
        part = [chance.getrandbits(width) for _ in range(count)]
        if chance.random() < 0.3:
            count, step = chance.randint(3, 10), 0 if is_v2 else chance.randint(0, 3)
            part = [part[0] + i * step for i in range(count)]
            data += bytes([1 << 3 | count - 3, *part[0].to_bytes(2, "big")]) if is_v2 else b""
            data += b"" if is_v2 else bytes([count - 3, step]) + varint(part[0])
        elif is_v2:
            data += header(1, WIDTHS.index(width), count) + pack(part, width)
        else:
            data += bytes([256 - count]) + b"".join(map(varint, part))
        values += part
    return data, values


@VERSIONS
@pytest.mark.parametrize("is_damaged", [False, True])
def test_random_lengths(is_v2: bool, is_damaged: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    codes = set()
    for _ in range(200):
        streams = [some_lengths(chance, is_v2) for _ in range(chance.choice([0, 1, 1, 3]))]
        segments = segments_of(chance, streams, is_dense=chance.random() < 0.3)
        if is_damaged:
            damage(chance, segments)
        codes.add(check_lengths(segments, chance.choice([200, 1 << 20, 1 << 31, HIGH]), is_v2=is_v2))
    assert {0, BAD_LENGTH, *([STREAM_ENDS] if is_damaged else [])} <= codes
    assert is_damaged or codes == {0, BAD_LENGTH}


def decode_lengths(
    data: bytes, positions: list[int], longest: int = 1 << 31, *, skip: int = 0, is_v2: bool = True
) -> tuple[int, list[int], list[int]]:
    """Decode one segment."""
    begins, whole_begins = guarded(len(positions), np.int64)
    selected, whole_selected = guarded(len(positions), np.int64)
    arrays: list[Any] = [as_ints(each) for each in ([0], [len(data)], [skip], [0, len(positions)], positions)]
    arrays += [begins, selected, longest, is_v2]
    result = kernel.decode_lengths(as_bytes(data + b"\xff" * 9), *arrays)
    assert_guarded(whole_begins)
    assert_guarded(whole_selected)
    return result, begins.tolist(), selected.tolist()


def test_the_longest_length() -> None:
    """The bits of 9 and 6 together are above the limit, neither length is."""
    data = lengths_v2([9, 6, 10, 1]) + lengths_v2([11])
    assert decode_lengths(data, [0, 2, 3], 11) == (0, [0, 15, 25], [9, 10, 1])
    assert decode_lengths(data, [0, 1], 10) == (0, [0, 9], [9, 6])
    assert decode_lengths(data, [1], 10) == (0, [9], [6])
    # the error is behind the run
    for positions in ([2], [3], [0, 3], [4]):
        assert decode_lengths(data, positions, 10)[0] == 6 << 8 | BAD_LENGTH
    assert decode_lengths(data, [3, 4], 11)[0] == 9 << 8 | BAD_LENGTH
    # one that is skipped is not looked at, but one behind it is
    assert decode_lengths(data, [0], 10, skip=3) == (0, [0], [1])
    assert decode_lengths(data, [1], 10, skip=1)[0] & 255 == BAD_LENGTH
    assert decode_lengths(data, [0], 0, skip=1)[0] & 255 == BAD_LENGTH
    assert decode_lengths(data, [], 0) == (0, [], [])


@pytest.mark.parametrize("count", [1, 7, 8, 9, 257, 258, 511, 512])
@pytest.mark.parametrize("length", [254, 255])
def test_runs_of_lengths_of_a_byte(count: int, length: int) -> None:
    """Sums of the largest; and a run that the end of its segment cuts, which has the values before that."""
    data = (header(1, 7, count) + bytes([length]) * count) * 2
    for positions in ([count - 1, count], [0, 2 * count - 1]):
        expected = [position * length for position in positions], [length, length]
        assert decode_lengths(data, positions, 256) == (0, *expected)
    skip = count // 2
    assert decode_lengths(data, [count], skip=skip) == (0, [count * length], [length])
    last = 2 * count - 1
    assert decode_lengths(data[:-1], [last])[0] & 255 == STREAM_ENDS
    if count > 1:
        assert decode_lengths(data[:-1], [last - 1]) == (0, [(last - 1) * length], [length])


@VERSIONS
@pytest.mark.parametrize("length", [-1, -(1 << 63), HIGH, 1 << 31])
def test_lengths_that_are_not_believed(is_v2: bool, length: int) -> None:
    """In a run between others, of which no length or a later one is wanted, and of which it is the first."""
    raw = length % (1 << 64)
    small = header(1, 7, 2) + bytes([1, 2]) if is_v2 else bytes([254, 1, 2])
    large = header(1, 31, 2) + pack([5, raw], 64) if is_v2 else bytes([254, 5]) + varint(raw)
    data, behind = small + large + small, len(small) + len(large)
    for positions in ([3], [0, 3], [4], [1, 5]):
        result, begins, selected = decode_lengths(data, positions, is_v2=is_v2)
        assert result == behind << 8 | BAD_LENGTH
        sound = sum(position < 3 for position in positions)
        assert list(zip(begins, selected, strict=True))[:sound] == [(0, 1), (1, 2)][positions[0] :][:sound]
    assert decode_lengths(data, [1, 2], is_v2=is_v2) == (0, [1, 3], [2, 5])
    assert decode_lengths(data, [0, 1], skip=4, is_v2=is_v2) == (0, [0, 1], [1, 2])


@VERSIONS
def test_sums_beyond_64_bits_wrap(is_v2: bool) -> None:
    data = header(1, 31, 4) + pack([HIGH - 1] * 4, 64) if is_v2 else bytes([1, 0]) + varint(HIGH - 1)
    expected = (0, [0, HIGH - 1, -4], [HIGH - 1] * 3)
    assert decode_lengths(data, [0, 1, 2], HIGH, is_v2=is_v2) == expected
    assert decode_lengths(data, [2], HIGH, skip=1, is_v2=is_v2) == (0, [-4], [HIGH - 1])


@VERSIONS
@pytest.mark.parametrize(
    "positions", [[3, 2], [2, 2], [0, 5, 4], [0, 9, 8], [9, 0], [60, 5], [1 << 62], [HIGH], [5, -(1 << 63)]]
)
@pytest.mark.parametrize("skip", [0, 2])
def test_positions_that_do_not_ascend_end_the_stream(is_v2: bool, positions: list[int], skip: int) -> None:
    run = header(1, 7, 8) + bytes(8) if is_v2 else bytes([5, 1, 0])
    assert decode_lengths(run * 8, positions, skip=skip, is_v2=is_v2)[0] & 255 == STREAM_ENDS


@pytest.mark.parametrize(
    ("starts", "limits", "skip", "position"),
    [
        ([-1], [3], 0, 0),
        ([2], [1], 0, 0),
        ([0], [4], 0, 0),
        ([0], [3], -1, 1),
        ([0], [3], 1 << 62, 0),
        ([0], [3], 2, -1),
    ],
)
def test_lengths_outside(starts: list[int], limits: list[int], skip: int, position: int) -> None:
    arrays: list[Any] = [as_ints(each) for each in (starts, limits, [skip], [0, 1], [position])]
    begins, selected = as_ints([7]), as_ints([7])
    arrays += [begins, selected, 1 << 31, True]
    result = kernel.decode_lengths(as_bytes(b"\x0a\x27\x10"), *arrays)
    assert (result, begins.tolist(), selected.tolist()) == (BAD_SEGMENT, [7], [7])


def fitting_lengths() -> dict[str, Any]:
    arguments: dict[str, Any] = {"starts": [0], "limits": [3], "skips": [0], "bounds": [0, 2]}
    arguments |= {"positions": [0, 1], "begins": [0, 0], "selected": [0, 0]}
    arrays = {name: as_ints(values) for name, values in arguments.items()}
    return {"data": as_bytes(b"\x0a\x27\x10"), **arrays, "longest": 1 << 31, "is_v2": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": []}, "segments need"),
        ({"limits": []}, "segments need"),
        ({"skips": []}, "segments need"),
        ({"bounds": [0]}, "segments need"),
        ({"bounds": [1, 2]}, "the bounds do not fit"),
        ({"positions": [0]}, "the bounds do not fit"),
        ({"begins": [0]}, "the bounds do not fit"),
        ({"selected": [0]}, "the bounds do not fit"),
        ({"bounds": [0, -1]}, "the bounds descend"),
        ({"starts": [0, 0], "limits": [3, 3], "skips": [0, 0], "bounds": [0, 2, 1]}, "the bounds descend"),
    ],
)
def test_lengths_that_do_not_fit(change: dict[str, list[int]], message: str) -> None:
    assert kernel.decode_lengths(**fitting_lengths()) == 0
    changed = {name: as_ints(values) for name, values in change.items()}
    with pytest.raises(ValueError, match=message):
        kernel.decode_lengths(**{**fitting_lengths(), **changed})


def test_other_arguments_of_lengths_that_do_not_fit() -> None:
    with raises(ValueError):
        kernel.decode_lengths(**{**fitting_lengths(), "longest": -1})
    for shape in ((0, 2), (2, 2), (1, 1), (1, 3)):
        with raises(ValueError):
            kernel.decode_lengths(**fitting_lengths(), stops=np.zeros(shape, np.int64))
    with pytest.raises(TypeError, match="positions"):
        kernel.decode_lengths(**{**fitting_lengths(), "positions": None})


def test_stops_of_lengths() -> None:
    """Runs of four and of three values: the second one begins at byte 6, and the first value is skipped."""
    data = lengths_v2([1, 2, 3, 4]) + bytes([0, 9])
    for positions, expected in (
        ([], [0, 1]),
        ([0], [0, 2]),
        ([1, 2], [0, 4]),
        ([3], [6, 1]),
        ([0, 5], [6, 3]),
    ):
        stops, out = np.zeros((1, 2), np.int64), np.zeros(len(positions), np.int64)
        arrays: list[Any] = [as_ints(each) for each in ([0], [len(data)], [1], [0, len(out)], positions)]
        result = kernel.decode_lengths(as_bytes(data), *arrays, *[out, out.copy(), 99, True, stops])
        assert (result, stops.tolist()) == (0, [expected])


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
    with raises(ValueError):
        copy_values(b"abc", [0], [1, 1], 9)


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
    with raises(ValueError):
        kernel.scatter(np.zeros(values, np.uint8), np.ones(valid, np.uint8), np.zeros(out, np.uint8))
