"""Run-length encoded bytes, and the bits in them, against plain Python."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hindex.orc import kernel
from tests.orc.kernel import encoders, reference
from tests.orc.kernel.reference import BAD_SEGMENT, STREAM_ENDS
from tests.orc.kernel.segments import Segments, as_ints, assert_guarded, check, damage, guarded, segments_of
from tests.support.messages import raises

DENSE = pytest.mark.parametrize("is_dense", [False, True])

#: Without its types: mypy takes a starred list for all arguments.
_kernel: Any = kernel


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


def values_of(segments: Segments, number: int) -> list[int]:
    """All values of a segment's runs."""
    stream = segments.data[segments.starts[number] : segments.limits[number]]
    values, at = list[int](), 0
    while at < len(stream):
        count = stream[at] + 3 if stream[at] < 128 else 256 - stream[at]
        values += [stream[at + 1]] * count if stream[at] < 128 else stream[at + 1 : at + 1 + count]
        at += 2 if stream[at] < 128 else 1 + count
    return values


@DENSE
@pytest.mark.parametrize("is_bits", [True, False])
def test_random_bits_and_tags(is_dense: bool, is_bits: bool, rng: np.random.Generator) -> None:
    """Bits, and how many that are set lie before each; tags, and how many equal ones do."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(200):
        streams = [encoders.run_length_bytes(chance) for _ in range(chance.choice([0, 1, 3]))]
        segments = segments_of(chance, streams, is_dense=is_dense)
        skips, positions = list[int](), list[list[int]]()
        values, ranks, set_counts = list[int](), list[int](), list[int]()
        for number in range(len(streams)):
            every = values_of(segments, number)
            if is_bits:
                every = [byte >> (7 - bit) & 1 for byte in every for bit in range(8)]
            skips.append(chance.choice([0, chance.randint(0, len(every))]))
            every = every[skips[-1] :]
            count = chance.randint(0, len(every))
            chosen = range(count) if is_dense else sorted(chance.sample(range(len(every)), min(count, 40)))
            positions.append(list(chosen))
            values += [every[position] for position in chosen]
            set_counts.append(sum(every[position] for position in chosen))
            ranks += [
                every[:position].count(every[position])
                for position in chosen
                if every[position] or not is_bits
            ]
        bounds = Segments(b"", positions=positions).bounds()
        out, whole_out = guarded(bounds[-1], np.uint8)
        ranks_out, whole_ranks = guarded(bounds[-1], np.int64)
        set_bounds, whole_bounds = guarded(len(bounds), np.int64)
        stops, byte_stops = (np.zeros((len(skips), 2), np.int64) for _ in range(2))
        arrays: list[Any] = [np.frombuffer(segments.data, np.uint8)]
        arrays += map(as_ints, (segments.starts, segments.limits))
        flat = None if is_dense else as_ints([position for each in positions for position in each])
        arrays += [as_ints(skips), as_ints(bounds), flat]
        if is_bits:
            assert _kernel.decode_bits(*arrays, out, ranks_out, set_bounds, stops) == 0
            assert set_bounds.tolist() == [sum(set_counts[:number]) for number in range(len(bounds))]
            # a stop is where the run of the last bit begins, and the number of its bits up to that one
            for number, (run, bits) in enumerate(stops.tolist()):
                rest = Segments(segments.data, [run], [segments.limits[number]])
                last = skips[number] + (positions[number][-1] + 1 if positions[number] else 0)
                assert 8 * len(values_of(segments, number)) - last == 8 * len(values_of(rest, 0)) - bits
            without = np.zeros_like(out)
            assert _kernel.decode_bits(*arrays, without, None, set_bounds) == 0
            assert np.array_equal(without, out)
        else:
            assert _kernel.decode_tags(*arrays, out, ranks_out, stops) == 0
            assert _kernel.decode_bytes(*arrays, np.zeros_like(out), byte_stops) == 0
            assert np.array_equal(stops, byte_stops)
        for whole in (whole_out, whole_bounds, whole_ranks):
            assert_guarded(whole)
        assert out.tolist() == values
        assert ranks_out[: len(ranks)].tolist() == ranks


@pytest.mark.parametrize(
    ("data", "skip", "positions", "code"),
    [
        (b"", 0, [0], STREAM_ENDS),
        (b"\x00", 0, [0], STREAM_ENDS),
        (b"\xfe\x80", 0, [8], STREAM_ENDS),
        (b"\xfe\x80", 8, [0], STREAM_ENDS),
        (b"\xfe\x80", 0, [0, 200], STREAM_ENDS),
        (b"\x00\x01", 0, [24], STREAM_ENDS),
        (b"\x00\x01", 0, [(1 << 63) - 1], STREAM_ENDS),
        (b"\x00\x01", 9, [(1 << 63) - 1], STREAM_ENDS),
        (b"\x00\x01", 0, [2, 1], STREAM_ENDS),
        (b"\x00\x01", 0, [0, -1], STREAM_ENDS),
        (b"\x00\x01", 0, [-1], BAD_SEGMENT),
        (b"\x00\x01", -1, [0], BAD_SEGMENT),
    ],
)
def test_bits_and_tags_outside_are_errors(data: bytes, skip: int, positions: list[int], code: int) -> None:
    count = len(positions)
    arrays: list[Any] = [np.frombuffer(data, np.uint8), as_ints([0]), as_ints([len(data)]), as_ints([skip])]
    arrays += [as_ints([0, count]), as_ints(positions)]
    out, ranks = np.zeros(count, np.uint8), np.zeros(count, np.int64)
    assert _kernel.decode_bits(*arrays, out, ranks, as_ints([0, 0])) & 255 == code
    assert _kernel.decode_bits(*arrays, out, None, as_ints([0, 0])) & 255 == code
    tags = [position // 8 for position in positions]
    if all(earlier < later for earlier, later in pairwise(tags)):
        arrays[3], arrays[5] = as_ints([skip // 8]), as_ints(tags)
        assert _kernel.decode_tags(*arrays, out, ranks) & 255 == code


def test_a_billion_bits_before_one() -> None:
    """Runs without a selected bit take no memory: there were 128 MiB of them."""
    data = bytes([127, 0x81]) * (1 << 20) + b"\xff\xff"
    before = 8 * 130 << 20
    arrays: list[Any] = [np.frombuffer(data, np.uint8), as_ints([0]), as_ints([len(data)]), None]
    arrays.append(as_ints([0, 1]))
    bits, ranks, set_bounds = np.zeros(1, np.uint8), as_ints([0]), as_ints([0, 0])
    assert _kernel.decode_bits(*arrays, as_ints([before]), bits, ranks, set_bounds) == 0
    assert (bits.tolist(), ranks.tolist()) == ([1], [before // 4])
    assert _kernel.decode_tags(*arrays, as_ints([before // 8]), bits, ranks) == 0
    assert (bits.tolist(), ranks.tolist()) == ([255], [0])


@pytest.mark.parametrize(
    "changes", [{"bits": []}, {"ranks": []}, {"set_bounds": [0]}, {"bounds": [0]}, {"stops": [[0, 0]] * 2}]
)
def test_arrays_that_do_not_fit(changes: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {
        "data": [0, 1],
        "starts": [0],
        "limits": [2],
        "skips": None,
        "bounds": [0, 1],
        "positions": [0],
        "bits": [0],
        "ranks": [0],
        "set_bounds": [0, 0],
        "stops": [[0, 0]],
        **changes,
    }
    types = {"data": np.uint8, "bits": np.uint8}
    arrays: dict[str, Any] = {
        name: None if values is None else np.array(values, types.get(name, np.int64))
        for name, values in arguments.items()
    }
    with raises(ValueError):
        kernel.decode_bits(**arrays)
    if "set_bounds" not in changes:
        arrays["tags"] = arrays.pop("bits")
        del arrays["set_bounds"]
        with raises(ValueError):
            kernel.decode_tags(**arrays)


def test_bounds_that_descend() -> None:
    for bounds in ([0, 5, 2], [0, -1, 2]):
        with pytest.raises((IndexError, ValueError)):
            kernel.decode_bits(
                np.zeros(9, np.uint8),
                as_ints([0, 0]),
                as_ints([9, 9]),
                None,
                as_ints(bounds),
                as_ints([0, 1]),
                np.zeros(2, np.uint8),
                None,
                np.zeros(3, np.int64),
            )
