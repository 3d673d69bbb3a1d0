"""Run-length encoded integers of both versions, as the specification has them, against a reference in plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel import reference
from tests.orc.kernel.encoders import INTEGERS
from tests.orc.kernel.reference import BAD_PATCHES, BAD_SEGMENT, LONG_VARINT, STREAM_ENDS
from tests.orc.kernel.segments import Segments, as_ints, check, damage, segments_of
from tests.support.messages import raises
from tests.support.rle_v2 import MASK, WIDTHS, header, odd_patches, pack, plain, varint, zigzag

LOW, HIGH = -(1 << 63), (1 << 63) - 1

VERSIONS = pytest.mark.parametrize("is_v2", [False, True])
SIGNS = pytest.mark.parametrize("is_signed", [False, True])
DENSE = pytest.mark.parametrize("is_dense", [False, True])


def check_integers(segments: Segments, *, is_v2: bool, is_signed: bool, is_dense: bool) -> int:
    oracle = partial(reference.integers, is_v2=is_v2, is_signed=is_signed)
    return check(segments, oracle, "decode_integers", is_dense=is_dense, is_v2=is_v2, is_signed=is_signed)


def decode(
    data: bytes,
    count: int,
    *,
    is_v2: bool = True,
    is_signed: bool = False,
    positions: list[int] | None = None,
) -> list[int] | int:
    """The values of one segment, all of them or some, or the code of the error."""
    out = np.zeros(count if positions is None else len(positions), np.int64)
    result = kernel.decode_integers(
        np.frombuffer(data + b"\xff" * 30, np.uint8),
        as_ints([0]),
        as_ints([len(data)]),
        None,
        as_ints([0, len(out)]),
        None if positions is None else as_ints(positions),
        out,
        is_v2,
        is_signed,
    )
    if result:
        return result & 255
    values: list[int] = out.tolist()
    return values


@VERSIONS
@SIGNS
@DENSE
def test_random_streams(is_v2: bool, is_signed: bool, is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        streams = [INTEGERS[is_v2](chance, is_signed) for _ in range(chance.choice([0, 1, 1, 4]))]
        for data, values in streams:
            everything = list(range(len(values)))
            assert reference.integers(data, everything, is_v2=is_v2, is_signed=is_signed) == values
        segments = segments_of(chance, streams, is_dense=is_dense)
        assert check_integers(segments, is_v2=is_v2, is_signed=is_signed, is_dense=is_dense) == 0


@VERSIONS
@SIGNS
@DENSE
def test_damaged_streams(is_v2: bool, is_signed: bool, is_dense: bool, rng: np.random.Generator) -> None:
    """The same values as the reference's, or the same error."""
    chance = random.Random(int(rng.integers(1 << 32)))
    codes = set()
    for _ in range(150):
        streams = [INTEGERS[is_v2](chance, is_signed) for _ in range(chance.choice([1, 1, 3]))]
        segments = segments_of(chance, streams, is_dense=is_dense)
        damage(chance, segments)
        codes.add(check_integers(segments, is_v2=is_v2, is_signed=is_signed, is_dense=is_dense))
    assert {0, STREAM_ENDS} <= codes


@VERSIONS
@SIGNS
def test_bytes_that_are_no_stream(is_v2: bool, is_signed: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(400):
        pool = chance.choice([range(256), (0, 1, 127, 128, 129, 192, 255)])
        data = bytes(chance.choice(pool) for _ in range(chance.randint(0, 60)))
        count = chance.randint(1, 600)
        positions = sorted(chance.sample(range(count), min(count, chance.choice([1, 5, 600]))))
        for is_dense in (False, True):
            wanted = list(range(count)) if is_dense else positions
            segments = Segments(data + b"\x05" * 9, [0], [len(data)], [chance.choice([0, 3])], [wanted])
            check_integers(segments, is_v2=is_v2, is_signed=is_signed, is_dense=is_dense)


@VERSIONS
@DENSE
def test_a_stream_cut_anywhere(is_v2: bool, is_dense: bool, rng: np.random.Generator) -> None:
    """Never another value than the whole stream has."""
    chance = random.Random(int(rng.integers(1 << 32)))
    data, values = b"", list[int]()
    while not 50 < len(data) < 600:
        data, values = INTEGERS[is_v2](chance, True)
    for limit in range(len(data) + 1):
        count = chance.randint(1, len(values))
        wanted = list(range(count)) if is_dense else sorted(chance.sample(range(len(values)), count))
        segments = Segments(data, [0], [limit], [0], [wanted])
        check_integers(segments, is_v2=is_v2, is_signed=True, is_dense=is_dense)


@pytest.mark.parametrize("code", range(32))
@DENSE
def test_packed_widths(code: int, is_dense: bool, rng: np.random.Generator) -> None:
    """Of each width, runs of all lengths around whole bytes, at the end of the buffer and not."""
    chance = random.Random(int(rng.integers(1 << 32)))
    width = WIDTHS[code]
    for count in (1, 2, 5, 7, 8, 9, 133, 511, 512):
        raw = [chance.choice([chance.getrandbits(width), (1 << width) - 1, 0]) for _ in range(count)]
        data = header(1, code, count) + pack(raw, width)
        for is_signed in (False, True):
            values = [plain(value, is_signed) for value in raw]
            assert decode(data, count, is_signed=is_signed) == values
            for tail in (b"", b"\xff" * 3, b"\xff" * 12):
                skip = chance.randrange(count)
                wanted = list(range(count - skip))
                if not is_dense:
                    wanted = sorted(chance.sample(wanted, (len(wanted) + 1) // 2))
                segments = Segments(data + tail, [0], [len(data)], [skip], [wanted])
                assert check_integers(segments, is_v2=True, is_signed=is_signed, is_dense=is_dense) == 0


@DENSE
def test_patch_lists_that_no_writer_makes(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(150):
        counts = [chance.choice([1, 2, 7, 40, 300, 512]) for _ in range(chance.randint(1, 3))]
        data = b"".join(odd_patches(chance, count) for count in counts)
        segments = segments_of(chance, [(data, [0] * sum(counts))], is_dense=is_dense)
        assert check_integers(segments, is_v2=True, is_signed=False, is_dense=is_dense) == 0


def patched(width: int, base: int, values: list[int], gaps_and_patches: list[tuple[int, int]]) -> bytes:
    """A run with patches of 48 bits and a base of one byte."""
    return (
        header(2, WIDTHS.index(width), len(values))
        + bytes([WIDTHS.index(48), 7 << 5 | len(gaps_and_patches), base])
        + pack(values, width)
        + pack([gap << 48 | patch for gap, patch in gaps_and_patches], 56)
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # values of 64 bits are shifted by 64 modulo 64
        (patched(64, 1, [8, 8, 8], [(1, 3)]), [9, 12, 9]),
        (patched(56, 0, [8, 8], [(1, 257)]), [8, 8 | 1 << 56]),
        (patched(4, 0, [1, 1, 1], [(0, 1), (1, 1)]), [17, 17, 1]),
        # the second patch of a place is not reached, nor is any behind it
        (patched(4, 0, [1, 1, 1], [(0, 1), (0, 2), (1, 1)]), [17, 1, 1]),
        # the base has a sign, in an unsigned stream, too
        (patched(4, 0x85, [1, 1, 1], [(0, 1), (0, 0), (1, 1)]), [12, -4, -4]),
        # one without bits is no step
        (patched(4, 0, [1, 1, 1], [(0, 0), (0, 2), (1, 1)]), [1, 1, 1]),
        # a gap of more than 255
        (patched(1, 0, [0] * 300, [(255, 0), (44, 1)]), [0] * 299 + [2]),
        (patched(1, 0, [1] * 512, [(255, 0), (255, 0), (0, 1), (1, 2)]), [1] * 510 + [3, 5]),
        # a patch at 255 is no filling, if it has bits
        (patched(1, 0, [0] * 257, [(255, 1), (1, 1)]), [0] * 255 + [2, 2]),
        # behind the last value
        (patched(1, 0, [1, 1], [(2, 1)]), [1, 1]),
        (patched(1, 0, [1, 1], [(1, 1), (200, 1)]), [1, 3]),
    ],
)
def test_patch_lists(data: bytes, expected: list[int]) -> None:
    count = len(expected)
    for is_signed in (False, True):
        assert decode(data, count, is_signed=is_signed) == expected
        for position in {0, count // 2, count - 2, count - 1}:
            assert decode(data, 1, is_signed=is_signed, positions=[position]) == [expected[position]]
    # values and patches are wanted together: without the last byte there is none
    assert decode(data[:-1], 1) == STREAM_ENDS


def test_a_patch_list_does_not_end_the_next_one() -> None:
    data = patched(4, 0, [1, 1], [(0, 1), (0, 1), (1, 1)]) + patched(4, 0, [1, 1], [(0, 1), (1, 1)])
    assert decode(data, 4) == [17, 1, 17, 17]
    assert decode(data, 0, positions=[1, 3]) == [1, 17]


@pytest.mark.parametrize(
    ("data", "is_v2", "values"),
    [
        ("610007", False, [7] * 100),
        ("61ff64", False, list(range(100, 0, -1))),
        ("fb020306070b", False, [2, 3, 6, 7, 11]),
        ("0a2710", True, [10000] * 5),
        ("5e035ca1ab1edeadbeef", True, [23713, 43806, 57005, 48879]),
        (
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            True,
            [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
        ),
        ("c609020222424246", True, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_examples_of_the_specification(data: str, is_v2: bool, values: list[int]) -> None:
    assert decode(bytes.fromhex(data), len(values), is_v2=is_v2) == values
    for position, value in enumerate(values):
        assert decode(bytes.fromhex(data), 1, is_v2=is_v2, positions=[position]) == [value]


@pytest.mark.parametrize(
    ("data", "is_v2", "is_signed", "values"),
    [
        (bytes([0, 1]) + varint(MASK - 1), False, True, [HIGH, LOW, LOW + 1]),
        (bytes([0, 1]) + varint(MASK), False, False, [-1, 0, 1]),
        # the tenth byte of a varint has one bit that counts
        (bytes([255]) + b"\xff" * 9 + b"\x7f", False, False, [-1]),
        (
            header(1, 31, 4) + pack([zigzag(v) for v in (LOW, HIGH, 0, -1)], 64),
            True,
            True,
            [LOW, HIGH, 0, -1],
        ),
        (bytes([7 << 3]) + b"\xff" * 8, True, False, [-1] * 3),
        (bytes([7 << 3]) + b"\xff" * 8, True, True, [LOW] * 3),
        (header(3, 0, 3) + varint(zigzag(HIGH)) + varint(zigzag(1)), True, True, [HIGH, LOW, LOW + 1]),
        # a step of the least number
        (header(3, 0, 3) + varint(0) + varint(zigzag(LOW)), True, True, [0, LOW, 0]),
        # steps of width 0, up, down to below zero, and none
        (header(3, 0, 5) + bytes([7, 2]), True, False, [7, 8, 9, 10, 11]),
        (header(3, 0, 9) + bytes([7, 1]), True, False, [7, 6, 5, 4, 3, 2, 1, 0, -1]),
        (header(3, 0, 4) + bytes([7, 0]), True, False, [7, 7, 7, 7]),
        # steps that differ: the sign of the first one is that of all
        (header(3, 1, 4) + bytes([7, 3]) + pack([3, 1], 2), True, False, [7, 5, 2, 1]),
        (header(3, 1, 4) + bytes([7, 0]) + pack([3, 1], 2), True, False, [7, 7, 10, 11]),
        # of 64 bits, as a writer may need them
        (header(3, 31, 3) + bytes([2, 2]) + b"\xff" * 8, True, False, [2, 3, 2]),
        # runs of one and of two values have no packed steps
        (header(3, 0, 1) + bytes([7, 2]) + bytes([0, 9]), True, False, [7, 9, 9, 9]),
        (header(3, 4, 1) + bytes([7, 2]) + bytes([0, 9]), True, False, [7, 9, 9, 9]),
        (header(3, 4, 2) + bytes([7, 2]) + bytes([0, 9]), True, False, [7, 8, 9, 9, 9]),
        # a base with the sign bit and nothing else
        (header(2, 0, 1) + bytes([0, 1, 0x80, 0x80, 0]), True, False, [1]),
    ],
)
def test_extremes(data: bytes, is_v2: bool, is_signed: bool, values: list[int]) -> None:
    assert decode(data, len(values), is_v2=is_v2, is_signed=is_signed) == values
    for position, value in enumerate(values):
        decoded = decode(data, 1, is_v2=is_v2, is_signed=is_signed, positions=[position])
        assert decoded == [value]


@pytest.mark.parametrize(
    ("data", "is_v2", "count", "code"),
    [
        ("", False, 1, STREAM_ENDS),
        ("61", False, 1, STREAM_ENDS),
        ("6100", False, 1, STREAM_ENDS),
        ("610080", False, 1, STREAM_ENDS),
        ("fb02030607", False, 5, STREAM_ENDS),
        ("610007", False, 101, STREAM_ENDS),
        ("6100" + "80" * 10, False, 1, STREAM_ENDS),
        ("6100" + "80" * 10 + "01", False, 1, LONG_VARINT),
        ("ff" + "80" * 10 + "01", False, 1, LONG_VARINT),
        ("", True, 1, STREAM_ENDS),
        ("0a27", True, 1, STREAM_ENDS),
        ("5e", True, 1, STREAM_ENDS),
        ("5e035ca1ab1edeadbe", True, 4, STREAM_ENDS),
        ("0a2710", True, 6, STREAM_ENDS),
        ("8000", True, 1, STREAM_ENDS),
        ("800000", True, 1, STREAM_ENDS),
        ("80000001", True, 1, STREAM_ENDS),
        ("8000" + "1f01" + "00" * 20, True, 1, BAD_PATCHES),
        ("8000" + "0000" + "00" * 20, True, 1, BAD_PATCHES),
        # behind a run of which nothing is wanted
        ("8001" + "0000" + "00" * 20, True, -3, BAD_PATCHES),
        ("c001" + "80" * 12 + "00" * 9, True, 2, LONG_VARINT),
        ("c001" + "00" + "80" * 12 + "00" * 9, True, 2, LONG_VARINT),
        ("c001" + "80" * 12 + "00" * 9, True, -3, LONG_VARINT),
        ("c001", True, 1, STREAM_ENDS),
        ("c00100", True, 1, STREAM_ENDS),
        ("c20300" + "02", True, 3, STREAM_ENDS),
    ],
)
def test_errors(data: str, is_v2: bool, count: int, code: int) -> None:
    """Of the first values, or of a later one alone where the number is negative."""
    positions = None if count > 0 else [-count]
    assert decode(bytes.fromhex(data), count, is_v2=is_v2, positions=positions) == code


@VERSIONS
def test_nothing_is_read_behind_the_last_wanted_value(is_v2: bool) -> None:
    good = header(1, 7, 4) + bytes([1, 2, 3, 4]) if is_v2 else bytes([252, 1, 2, 3, 4])
    assert decode(good + b"\x80" * 30, 4, is_v2=is_v2) == [1, 2, 3, 4]
    assert decode(good + b"\x80" * 30, 0, is_v2=is_v2, positions=[3]) == [4]
    assert decode(good[:-1], 3, is_v2=is_v2) == [1, 2, 3]
    assert decode(good[:-2], 0, is_v2=is_v2, positions=[1]) == [2]


@VERSIONS
@pytest.mark.parametrize(
    "positions", [[3, 2], [2, 2], [0, 5, 4], [0, 9, 8], [60, 5], [1 << 62], [HIGH], [5, LOW]]
)
def test_positions_that_do_not_ascend_end_the_stream(is_v2: bool, positions: list[int]) -> None:
    run = header(1, 7, 8) + bytes(range(8)) if is_v2 else bytes([248, *range(8)])
    for data in (run * 8, header(3, 1, 64) + bytes([0, 2]) + b"\xff" * 8, bytes([61, 1, 0])):
        if decode(data, 64, is_v2=is_v2) not in (STREAM_ENDS, LONG_VARINT):
            assert decode(data, 0, is_v2=is_v2, positions=positions) == STREAM_ENDS


@pytest.mark.parametrize(
    ("start", "limit", "skip", "position"),
    [
        (-1, 3, 0, 0),
        (2, 1, 0, 0),
        (0, 4, 0, 0),
        (5, 5, 0, 0),
        (1 << 62, 1 << 63 - 1, 0, 0),
        (0, 3, -1, 0),
        (0, 3, -1, 1),
        (0, 3, 1 << 62, 0),
        (0, 3, HIGH, 1),
        (0, 3, 0, -1),
        (0, 3, 2, -1),
        (0, 3, 2, LOW),
    ],
)
def test_segments_outside_of_the_stream(start: int, limit: int, skip: int, position: int) -> None:
    limit = min(limit, HIGH)
    out = np.zeros(1, np.int64)
    result = kernel.decode_integers(
        np.frombuffer(bytes.fromhex("0a2710"), np.uint8),
        as_ints([start]),
        as_ints([limit]),
        as_ints([skip]),
        as_ints([0, 1]),
        as_ints([position]),
        out,
        True,
        False,
    )
    assert result == BAD_SEGMENT
    assert out.tolist() == [0]


@pytest.mark.parametrize(
    "changes",
    [
        {"limits": [3, 3]},
        {"starts": [0, 0]},
        {"skips": []},
        {"bounds": [0]},
        {"bounds": [0, 1, 1]},
        {"bounds": [1, 1]},
        {"bounds": [0, 2]},
        {"bounds": [0, -1]},
        {"positions": []},
        {"out": []},
        {"starts": [0, 0], "limits": [3, 3], "skips": [0, 0], "bounds": [0, 3, 1]},
        {"starts": [0, 0], "limits": [3, 3], "skips": [0, 0], "bounds": [0, -3, 1]},
    ],
)
def test_arrays_that_do_not_fit(changes: dict[str, list[int]]) -> None:
    arguments = {
        "starts": [0],
        "limits": [3],
        "skips": [0],
        "bounds": [0, 1],
        "positions": [0],
        "out": [0],
        **changes,
    }
    arrays = {name: as_ints(values) for name, values in arguments.items()}
    with raises(ValueError):
        kernel.decode_integers(
            np.frombuffer(bytes.fromhex("0a2710"), np.uint8), **arrays, is_v2=True, is_signed=False
        )


@VERSIONS
def test_nothing_wanted(is_v2: bool) -> None:
    empty = np.zeros(0, np.int64)
    data = np.frombuffer(b"\x80", np.uint8)
    for positions in (None, empty):
        for skips in (None, as_ints([0])):
            assert (
                kernel.decode_integers(
                    data, as_ints([0]), as_ints([1]), skips, as_ints([0, 0]), positions, empty, is_v2, True
                )
                == 0
            )
        assert (
            kernel.decode_integers(data[:0], empty, empty, None, as_ints([0]), positions, empty, is_v2, True)
            == 0
        )


@pytest.mark.parametrize("shape", [(0, 2), (2, 2), (1, 1), (1, 3)])
def test_stops_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    data, none, stops = np.zeros(9, np.uint8), np.zeros(0, np.int64), np.zeros(shape, np.int64)
    segment = (as_ints([0]), as_ints([9]))
    calls: list[Callable[[], int]] = [
        lambda: kernel.decode_integers(data, *segment, None, as_ints([0, 0]), None, none, True, True, stops),
        lambda: kernel.decode_bytes(data, *segment, None, as_ints([0, 0]), None, data[:0].copy(), stops),
        lambda: kernel.decode_decimals(
            data, *segment, None, as_ints([0, 0]), None, none.reshape(0, 2), stops
        ),
    ]
    for call in calls:
        with raises(ValueError):
            call()


def test_stops() -> None:
    """Runs of four and of three values: the second one begins at byte 6."""
    data = np.frombuffer(header(1, 7, 4) + bytes([1, 2, 3, 4]) + bytes([0, 9]), np.uint8)
    for positions, expected in (
        ([], [0, 1]),
        ([0], [0, 2]),
        ([1, 2], [0, 4]),
        ([3], [6, 1]),
        ([0, 5], [6, 3]),
    ):
        stops = np.zeros((1, 2), np.int64)
        out = np.zeros(len(positions), np.int64)
        bounds, wanted = as_ints([0, len(out)]), as_ints(positions)
        one, limits = as_ints([1]), as_ints([len(data)])
        assert (
            kernel.decode_integers(data, as_ints([0]), limits, one, bounds, wanted, out, True, False, stops)
            == 0
        )
        assert stops.tolist() == [expected]
