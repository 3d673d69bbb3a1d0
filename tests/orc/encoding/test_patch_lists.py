"""Patch lists that no writer makes mean what they mean in pyarrow, which gets columns of numbers as they are."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader
from hindex.orc.encoding import rle_v2
from hindex.orc.encoding.buffers import PADDING
from hindex.orc.source import BytesSource
from hindex.orc.stripe import StreamKind
from tests.fuzz.parts import FileParts, put_together, take_apart
from tests.support.rle_v2 import WIDTHS, header, odd_patches, pack

ROWS = 512


@pytest.fixture(scope="module")
def parts() -> FileParts:
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": pa.array(range(ROWS))}), sink, compression="uncompressed")
    return take_apart(sink.getvalue().to_pybytes())


def with_numbers(parts: FileParts, data: bytes) -> bytes:
    found = parts.copy()
    stripe = found.stripes[0]
    stripe.streams[[(s.column, s.kind) for s in stripe.footer.streams].index((1, StreamKind.DATA))] = data
    return put_together(found)


def test_random_lists(parts: FileParts, rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        data, held = b"", 0
        while held < ROWS:
            count = min(chance.choice([1, 2, 7, 40, 300]), ROWS - held)
            data += odd_patches(chance, count)
            held += count
        file = with_numbers(parts, data)
        expected = pa.orc.ORCFile(io.BytesIO(file)).read().column("c")
        some = sorted(chance.sample(range(ROWS), 20))
        for path in DecodePath:
            assert OrcReader(BytesSource(file), path=path).read().column("c").equals(expected), path
            found = OrcReader(BytesSource(file), path=path).read(rows=some).column("c")
            assert found.equals(expected.take(some)), path


def run(width: int, base: int, values: list[int], gaps_and_patches: list[tuple[int, int]]) -> bytes:
    """Patches of 48 bits."""
    return (
        header(2, WIDTHS.index(width), len(values))
        + bytes([WIDTHS.index(48), 7 << 5 | len(gaps_and_patches), base])
        + pack(values, width)
        + pack([gap << 48 | patch for gap, patch in gaps_and_patches], 56)
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (run(64, 1, [8, 8, 8], [(1, 3)]), [9, 12, 9]),
        (run(56, 0, [8, 8], [(1, 257)]), [8, 8 | 1 << 56]),
        (run(4, 0, [1, 1, 1], [(0, 1), (1, 1)]), [17, 17, 1]),
        # the second patch of a place is not reached, nor is any behind it
        (run(4, 0, [1, 1, 1], [(0, 1), (0, 2), (1, 1)]), [17, 1, 1]),
        (run(4, 0x85, [1, 1, 1], [(0, 1), (0, 0), (1, 1)]), [12, -4, -4]),
        # one without bits is no step
        (run(4, 0, [1, 1, 1], [(0, 0), (0, 2), (1, 1)]), [1, 1, 1]),
    ],
)
def test_lists(data: bytes, expected: list[int]) -> None:
    buf = np.frombuffer(data + bytes(PADDING), np.uint8)
    limits, counts = np.array([len(data)]), np.array([len(expected)])
    found = rle_v2.decode(buf, np.zeros(1, np.int64), limits, counts, signed=False)
    assert found.tolist() == expected
    told = rle_v2.bounds(buf, 0, len(data), len(expected))
    if min(expected) < 0:
        assert told[0] == 1 << 63
    else:
        assert told[0] >= max(expected)


def test_two_runs_are_told_apart() -> None:
    """What ends one list does not end the next one."""
    first, second = run(4, 0, [1, 1], [(0, 1), (0, 1), (1, 1)]), run(4, 0, [1, 1], [(0, 1), (1, 1)])
    buf = np.frombuffer(first + second + bytes(PADDING), np.uint8)
    limits = np.array([len(first) + len(second)])
    for ordinals, expected in (([0, 1, 2, 3], [17, 1, 17, 17]), ([1, 3], [1, 17])):
        found = rle_v2.gather(
            buf, np.zeros(1, np.int64), limits, np.array(ordinals), np.array([0, len(ordinals)]), signed=True
        )
        assert found.tolist() == expected
