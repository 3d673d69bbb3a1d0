"""Decimals, which are varints of up to 128 bits, against Python's integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel import encoders, reference
from tests.orc.kernel.reference import BAD_SEGMENT, LONG_VARINT, STREAM_ENDS
from tests.orc.kernel.segments import Segments, as_ints, assert_guarded, check, damage, guarded, segments_of
from tests.support.messages import raises
from tests.support.rle_v2 import MASK, varint, wrap

LOW, HIGH = -(1 << 63), (1 << 63) - 1

DENSE = pytest.mark.parametrize("is_dense", [False, True])


def check_decimals(segments: Segments, *, is_dense: bool) -> int:
    return check(segments, reference.decimals, "decode_decimals", is_dense=is_dense)


@DENSE
def test_random_streams(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(150):
        streams = [encoders.decimals(chance) for _ in range(chance.choice([0, 1, 1, 4]))]
        for data, values in streams:
            assert reference.decimals(data, list(range(len(values)))) == values
        segments = segments_of(chance, streams, is_dense=is_dense)
        assert check_decimals(segments, is_dense=is_dense) == 0


@DENSE
def test_damaged_streams(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    codes = set()
    for _ in range(300):
        streams = [encoders.decimals(chance) for _ in range(chance.choice([1, 1, 3]))]
        segments = segments_of(chance, streams, is_dense=is_dense)
        damage(chance, segments)
        codes.add(check_decimals(segments, is_dense=is_dense))
    assert {0, STREAM_ENDS} <= codes


def test_bytes_that_are_no_stream(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(400):
        pool = chance.choice([range(256), (0, 1, 127, 128, 255, 255, 255)])
        data = bytes(chance.choice(pool) for _ in range(chance.randint(0, 90)))
        wanted = sorted(chance.sample(range(90), chance.choice([1, 3, 20])))
        check_decimals(Segments(data + bytes(9), [0], [len(data)], [0], [wanted]), is_dense=False)
        dense = list(range(chance.randint(1, 20)))
        check_decimals(Segments(data + bytes(9), [0], [len(data)], [0], [dense]), is_dense=True)


@DENSE
def test_a_stream_cut_anywhere(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    values = [chance.getrandbits(100) for _ in range(20)]
    data = b"".join(varint(value) for value in values)
    for limit in range(len(data) + 1):
        count = chance.randint(1, 20)
        wanted = list(range(count)) if is_dense else sorted(chance.sample(range(20), count))
        check_decimals(Segments(data, [0], [limit], [0], [wanted]), is_dense=is_dense)


def decode(data: bytes, positions: list[int]) -> list[int] | int:
    out = np.zeros((len(positions), 2), np.int64)
    result = kernel.decode_decimals(
        np.frombuffer(data + b"\0" * 20, np.uint8),
        as_ints([0]),
        as_ints([len(data)]),
        None,
        as_ints([0, len(positions)]),
        as_ints(positions),
        out,
    )
    if result:
        return result & 255
    return [(low & MASK) + (high << 64) for low, high in out.tolist()]


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ("00", [0]),
        ("01", [-1]),
        ("02", [1]),
        ("03", [-2]),
        ("04", [2]),
        ("00ff0180ff01", [0, -128, 16320]),
        # more bytes than a number needs
        ("8000", [0]),
        ("81" + "80" * 17 + "00", [-1]),
        ("fe" + "ff" * 17 + "03", [(1 << 127) - 1]),
        ("ff" * 18 + "03", [-(1 << 127)]),
    ],
)
def test_examples(data: str, values: list[int]) -> None:
    assert decode(bytes.fromhex(data), list(range(len(values)))) == values


@pytest.mark.parametrize(
    ("data", "positions", "code"),
    [
        ("", [0], STREAM_ENDS),
        ("0102", [2], STREAM_ENDS),
        ("0102", [0, 2], STREAM_ENDS),
        ("0180", [1], STREAM_ENDS),
        ("ff" * 18, [0], STREAM_ENDS),
        ("ff" * 18 + "04", [0], LONG_VARINT),
        ("00" + "ff" * 19 + "00", [1], LONG_VARINT),
        ("80" * 19 + "00", [0], LONG_VARINT),
        ("80" * 100 + "00", [0], LONG_VARINT),
        ("00" * 20, [5, 4], STREAM_ENDS),
        ("00" * 20, [5, 5], STREAM_ENDS),
        ("00" * 20, [1, -1], STREAM_ENDS),
        ("00" * 20, [1 << 62], STREAM_ENDS),
        ("00" * 20, [(1 << 63) - 1], STREAM_ENDS),
        ("00" * 20, [-1], BAD_SEGMENT),
        ("00" * 20, [-(1 << 63)], BAD_SEGMENT),
    ],
)
def test_errors(data: str, positions: list[int], code: int) -> None:
    assert decode(bytes.fromhex(data), positions) == code


def test_one_that_is_too_long_may_be_passed_over() -> None:
    assert decode(bytes.fromhex("80" * 100 + "0002"), [1]) == [1]


@pytest.mark.parametrize("positions", [None, [1]])
def test_a_stop_is_the_last_varint(positions: list[int] | None) -> None:
    """So that reading one after the other goes on, and does not come back to the first one."""
    data, stops, out = (
        np.array([2, 0x80, 2, 4, 6], np.uint8),
        np.zeros((1, 2), np.int64),
        np.zeros((1, 2), np.int64),
    )
    skips, wanted = (as_ints([2]), None) if positions is None else (as_ints([1]), as_ints(positions))
    one, bounds = as_ints([0]), as_ints([0, 1])
    assert kernel.decode_decimals(data, one, as_ints([5]), skips, bounds, wanted, out, stops) == 0
    assert out.tolist() == [[2, 0]]
    assert stops.tolist() == [[3, 1]]


def test_words_of_another_shape() -> None:
    data, one = np.zeros(9, np.uint8), as_ints([0])
    for shape in ((1, 1), (1, 3)):
        with raises(ValueError):
            kernel.decode_decimals(
                data, one, as_ints([9]), None, as_ints([0, 1]), one, np.zeros(shape, np.int64)
            )
    none = np.zeros((0, 2), np.int64)
    assert kernel.decode_decimals(data, one, as_ints([9]), None, as_ints([0, 0]), None, none) == 0


def test_values_of_other_scales(rng: np.random.Generator) -> None:
    """Those whose value and result have 64 bits; the others stay as they are, and are named."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        count, scale = chance.choice([0, 1, 40]), chance.choice([0, 5, 18, 38])
        values = [
            chance.choice([-1, 1]) * chance.getrandbits(chance.choice([0, 3, 30, 62, 63, 64, 100]))
            for _ in range(count)
        ]
        # some whose low word alone is a small number
        values = [
            chance.choice([value, LOW, HIGH, LOW - 1, HIGH + 1, (chance.randint(-2, 2) << 64) + value % 1000])
            for value in values
        ]
        scales = [
            chance.choice([scale, scale - 1, chance.randint(0, 38), -1, -63, 63, -64, 64, LOW, HIGH])
            for _ in range(count)
        ]
        words = np.array([[wrap(value), value >> 64] for value in values], np.int64).reshape(-1, 2)
        rest, whole_rest = guarded(count, np.int64)
        rest_count = kernel.rescale(words, as_ints(scales), scale, rest)
        assert_guarded(whole_rest)
        expected, others = [], []
        for number, (value, own) in enumerate(zip(values, scales, strict=True)):
            shift = scale - own
            if own == scale:
                expected.append(value)
            elif 0 <= shift <= 18 and LOW <= value <= HIGH and LOW <= value * 10**shift <= HIGH:
                expected.append(value * 10**shift)
            else:
                expected.append(value)
                others.append(number)
        assert [(low & MASK) + (high << 64) for low, high in words.tolist()] == expected
        assert rest[:rest_count].tolist() == others


@pytest.mark.parametrize("scale", [LOW, HIGH, -64, 64, 1 << 40])
def test_a_column_of_an_impossible_scale(scale: int) -> None:
    scales = as_ints([0, 63, -63, scale])
    words, rest = np.ones((4, 2), np.int64), np.zeros(4, np.int64)
    assert kernel.rescale(words, scales, scale, rest) == 3
    assert rest.tolist() == [0, 1, 2, 0]
    assert words.tolist() == [[1, 1]] * 4


@pytest.mark.parametrize("shapes", [((1, 2), 2, 2), ((2, 3), 2, 2), ((2, 2), 2, 1), ((2, 2), 1, 2)])
def test_scales_that_do_not_fit(shapes: tuple[tuple[int, int], int, int]) -> None:
    words, scales, rest = (np.zeros(shape, np.int64) for shape in shapes)
    with raises(ValueError):
        kernel.rescale(words, scales, 0, rest)
