"""Run-length encoded bytes, and the bits in them, against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel import encoders, reference
from tests.orc.kernel.reference import BAD_SEGMENT, STREAM_ENDS
from tests.orc.kernel.segments import Segments, as_ints, assert_guarded, check, damage, guarded, segments_of

DENSE = pytest.mark.parametrize("is_dense", [False, True])


def check_bytes(segments: Segments, *, is_dense: bool) -> int:
    return check(segments, reference.run_length_bytes, "decode_bytes", is_dense=is_dense)


@DENSE
def test_random_streams(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(100):
        streams = [encoders.run_length_bytes(chance) for _ in range(chance.choice([0, 1, 1, 4]))]
        for data, values in streams:
            assert reference.run_length_bytes(data, list(range(len(values)))) == values
        assert check_bytes(segments_of(chance, streams, is_dense=is_dense), is_dense=is_dense) == 0


@DENSE
def test_damaged_streams(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    codes = set()
    for _ in range(200):
        streams = [encoders.run_length_bytes(chance) for _ in range(chance.choice([1, 1, 3]))]
        segments = segments_of(chance, streams, is_dense=is_dense)
        damage(chance, segments)
        codes.add(check_bytes(segments, is_dense=is_dense))
    assert codes == {0, STREAM_ENDS}


@DENSE
def test_a_stream_cut_anywhere(is_dense: bool, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    data, values = b"", list[int]()
    while not 20 < len(data) < 500:
        data, values = encoders.run_length_bytes(chance)
    for limit in range(len(data) + 1):
        count = chance.randint(1, len(values))
        wanted = list(range(count)) if is_dense else sorted(chance.sample(range(len(values)), count))
        check_bytes(Segments(data, [0], [limit], [0], [wanted]), is_dense=is_dense)


@pytest.mark.parametrize(
    ("data", "values"), [("6100", [0] * 100), ("fe4445", [0x44, 0x45]), ("ff80", [0x80]), ("7f05", [5] * 130)]
)
def test_examples(data: str, values: list[int]) -> None:
    """The first three are those of the specification."""
    content = bytes.fromhex(data)
    for is_dense in (False, True):
        segments = Segments(content, [0], [len(content)], [0], [list(range(len(values)))])
        assert reference.run_length_bytes(content, segments.positions[0]) == values
        assert check_bytes(segments, is_dense=is_dense) == 0
        # one more
        segments.positions[0].append(len(values))
        assert check_bytes(segments, is_dense=is_dense) == STREAM_ENDS


@pytest.mark.parametrize(
    ("positions", "code"),
    [
        ([100, 5], STREAM_ENDS),
        ([5, 5], STREAM_ENDS),
        ([0, -1], STREAM_ENDS),
        ([0, 1 << 62], STREAM_ENDS),
        ([0, (1 << 63) - 1], STREAM_ENDS),
        ([-1], BAD_SEGMENT),
        ([-(1 << 63)], BAD_SEGMENT),
    ],
)
def test_positions_that_do_not_ascend(positions: list[int], code: int) -> None:
    for data in (bytes([256 - 128, *range(128)]), bytes([125, 7]), bytes([251, 1, 2, 3, 4, 5, 100, 9])):
        out = np.zeros(len(positions), np.uint8)
        result = kernel.decode_bytes(
            np.frombuffer(data, np.uint8),
            as_ints([0]),
            as_ints([len(data)]),
            None,
            as_ints([0, len(positions)]),
            as_ints(positions),
            out,
        )
        assert result & 255 == code


def test_nothing_wanted() -> None:
    none, room = as_ints([]), np.zeros(0, np.uint8)
    for data in (b"", b"\x80"):
        buffer = np.frombuffer(data, np.uint8)
        assert kernel.decode_bytes(buffer, as_ints([0]), as_ints([0]), None, as_ints([0, 0]), none, room) == 0
        assert kernel.decode_bytes(buffer, none, none, None, as_ints([0]), None, room) == 0


@DENSE
def test_random_bits(is_dense: bool, rng: np.random.Generator) -> None:
    """Bits of segments anywhere in packed ones, and how many that are set lie before each."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        packed = bytes(
            chance.choice([0, 255, chance.randrange(256)]) for _ in range(chance.choice([0, 1, 3, 9, 40]))
        )
        every = [bool(byte >> (7 - bit) & 1) for byte in packed for bit in range(8)]
        firsts, positions = [], []
        for _ in range(chance.choice([0, 1, 3])):
            first = chance.randint(0, len(every))
            count = len(every) - first
            firsts.append(first)
            if is_dense:
                positions.append(list(range(chance.randint(0, count))))
            else:
                positions.append(sorted(chance.sample(range(count), chance.randint(0, count))))
        bounds = Segments(b"", positions=positions).bounds()
        bits, whole_bits = guarded(bounds[-1], np.uint8)
        set_bounds, whole_bounds = guarded(len(firsts) + 1, np.int64)
        expected = [
            every[first + position]
            for first, each in zip(firsts, positions, strict=True)
            for position in each
        ]
        flat = None if is_dense else as_ints([position for each in positions for position in each])
        packed_array = np.frombuffer(packed, np.uint8)
        ranks, whole_ranks = guarded(sum(expected), np.int64)
        if is_dense or len(ranks) < bounds[-1]:
            ranks, whole_ranks = guarded(bounds[-1], np.int64)
        takes_ranks = not is_dense and chance.random() < 0.7
        kernel.select_bits(
            packed_array,
            as_ints(firsts),
            as_ints(bounds),
            flat,
            bits,
            ranks if takes_ranks else None,
            set_bounds,
        )
        for whole in (whole_bits, whole_bounds, whole_ranks):
            assert_guarded(whole)
        assert bits.tolist() == expected
        counts = [
            sum(every[first + position] for position in each)
            for first, each in zip(firsts, positions, strict=True)
        ]
        assert set_bounds.tolist() == [sum(counts[:number]) for number in range(len(counts) + 1)]
        if takes_ranks:
            assert ranks[: sum(counts)].tolist() == [
                sum(every[first : first + position])
                for first, each in zip(firsts, positions, strict=True)
                for position in each
                if every[first + position]
            ]


@pytest.mark.parametrize(
    ("firsts", "positions"),
    [
        ([0], [16]),
        ([1], [15]),
        ([0], [-1]),
        ([-1], [1]),
        ([17], [0]),
        ([0], [(1 << 63) - 1]),
        ([(1 << 63) - 1], [(1 << 63) - 1]),
        ([16], []),
        ([0], [5, 4]),
        ([0], [0, -1]),
    ],
)
@pytest.mark.parametrize("takes_ranks", [False, True])
def test_bits_outside(firsts: list[int], positions: list[int], takes_ranks: bool) -> None:
    packed, count = np.array([0x80, 0xFF], np.uint8), len(positions)

    def run() -> None:
        kernel.select_bits(
            packed,
            as_ints(firsts),
            as_ints([0, count]),
            as_ints(positions),
            np.zeros(count, np.uint8),
            np.zeros(count, np.int64) if takes_ranks else None,
            np.zeros(2, np.int64),
        )

    if positions:
        with pytest.raises(ValueError, match="outside the bits"):
            run()
    else:
        run()


@pytest.mark.parametrize(
    "changes",
    [
        {"firsts": []},
        {"bounds": [0]},
        {"bounds": [1, 1]},
        {"bounds": [0, 3]},
        {"positions": [0]},
        {"positions": None},
        {"bits": [0]},
        {"ranks": [0]},
        {"set_bounds": [0]},
    ],
)
def test_arrays_that_do_not_fit(changes: dict[str, list[int] | None]) -> None:
    arguments: dict[str, list[int] | None] = {
        "firsts": [0],
        "bounds": [0, 2],
        "positions": [0, 1],
        "bits": [0, 0],
        "ranks": [0, 0],
        "set_bounds": [0, 0],
        **changes,
    }
    types = {"bits": np.uint8}
    arrays = {
        name: None if values is None else np.array(values, types.get(name, np.int64))
        for name, values in arguments.items()
    }
    with pytest.raises(ValueError, match=r"segments need|the bounds|ranks need"):
        kernel.select_bits(np.array([0x80], np.uint8), **arrays)  # type: ignore[arg-type]


def test_bounds_that_descend() -> None:
    for bounds in ([0, 5, 2], [0, -1, 2]):
        with pytest.raises((IndexError, ValueError)):
            kernel.select_bits(
                np.zeros(9, np.uint8),
                as_ints([0, 0]),
                as_ints(bounds),
                as_ints([0, 1]),
                np.zeros(2, np.uint8),
                None,
                np.zeros(3, np.int64),
            )
