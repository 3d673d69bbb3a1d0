"""Ranges cut out of a stream hold their values and no others, for us and for pyarrow."""

from __future__ import annotations

import random
from itertools import chain

import numpy as np
import pytest

from hindex.errors import OrcError
from hindex.orc.encoding import rle_v2
from hindex.orc.handover import decode_integers
from tests.support.rle_v2 import ENCODERS

PADDING = bytes(16)


def cut(
    runs: list[tuple[bytes, list[int]]], ranges: list[tuple[int, int]], *, signed: bool, behind: int = 5000
) -> bytes:
    """The stream of some ranges of values, told as a row index tells them."""
    lengths = np.array([len(data) for data, _ in runs])
    counts = np.array([len(values) for _, values in runs])
    byte, first = np.cumsum(lengths) - lengths, np.cumsum(counts) - counts
    stream = b"".join(data for data, _ in runs)
    told = []
    for low, high in ranges:
        # a writer notes where its last finished run ends, and how many values it has seen since
        start = max(int(np.searchsorted(first, low, "right")) - 1, 0)
        end = int(np.searchsorted(first, high, "right")) - 1
        inside = high - int(first[end])
        told.append(
            (
                byte[start],
                byte[end],
                min(byte[end] + behind, len(stream)),
                low - first[start],
                inside,
                high - low,
            )
        )
    columns = np.array(told, np.int64).T
    buf = np.frombuffer(stream + PADDING, np.uint8)
    return b"".join(chain.from_iterable(rle_v2.cut(buf, *columns, signed=signed)))


def some_ranges(rng: random.Random, total: int) -> list[tuple[int, int]]:
    cuts = sorted(rng.sample(range(total + 1), min(2 * rng.randint(1, 6), (total + 1) // 2 * 2)))
    return [(low, high) for low, high in zip(cuts[::2], cuts[1::2], strict=True) if high > low]


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_the_values_of_ranges(seed: int, signed: bool) -> None:
    rng = random.Random(seed)
    kinds = rng.choice([[0], [1], [2], [3], [0, 1, 2, 3], [0, 0, 0, 1]])
    runs = [ENCODERS[rng.choice(kinds)](rng, signed) for _ in range(rng.choice([1, 2, 40]))]
    values = [value for _, of_run in runs for value in of_run]
    ranges = some_ranges(rng, len(values))
    expected = [value for low, high in ranges for value in values[low:high]]
    has_lonely_delta = any(data[0] >> 6 == 3 and len(of_run) == 1 for data, of_run in runs)
    stream = cut(runs, ranges, signed=signed)
    buf = np.frombuffer(stream + PADDING, np.uint8)
    bounds = np.array([0]), np.array([len(stream)]), np.array([len(expected)])
    assert rle_v2.decode(buf, *bounds, signed=signed).tolist() == expected
    with pytest.raises(OrcError):
        # and no value more
        rle_v2.decode(buf, bounds[0], bounds[1], bounds[2] + 1, signed=signed)
    if signed:
        found = decode_integers([[stream]], [len(expected)])
        # pyarrow refuses delta runs of one value
        assert (found is None and has_lonely_delta) or (found is not None and found.tolist() == expected)


def test_runs_within_a_range_are_taken_as_they_are() -> None:
    rng = random.Random(1)
    runs = [ENCODERS[0](rng, True) for _ in range(50)]
    stream = b"".join(data for data, _ in runs)
    first = np.cumsum([len(values) for _, values in runs])
    assert cut(runs, [(0, int(first[9]))], signed=True) == b"".join(data for data, _ in runs[:10])
    within = cut(runs, [(1, int(first[9]) + 1)], signed=True)
    kept = b"".join(data for data, _ in runs[1:10])
    assert kept in within
    # the ends of the range, written as direct runs of 64-bit values
    assert len(within) == len(kept) + 2 + 8 * (len(runs[0][1]) - 1) + 2 + 8
    assert len(stream) > len(kept)


def test_a_truncated_stream_is_refused() -> None:
    rng = random.Random(2)
    data, values = ENCODERS[1](rng, True)
    with pytest.raises(OrcError):
        cut([(data[:-1], values)], [(1, len(values))], signed=True)
    assert decode_integers([[data[:-1]]], [len(values)]) is None
