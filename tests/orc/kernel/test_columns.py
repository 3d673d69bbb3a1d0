"""Columns put together of their streams: nulls, strings and dictionaries, of which any rows are wanted."""

from __future__ import annotations

import random

import numpy as np

from hindex.orc import kernel
from tests.orc.kernel.encoders import booleans, integers_v2, lengths_v2
from tests.orc.kernel.segments import as_ints, guarded


def segment(data: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray, None]:
    """The first four parameters of a stream that is one segment."""
    return np.frombuffer(data, np.uint8), as_ints([0]), as_ints([len(data)]), None


def positions_of(
    present: list[bool], wanted: list[int], chance: random.Random
) -> tuple[list[int], np.ndarray]:
    """Of the wanted rows, whether they have a value, and the numbers of those values, read of a PRESENT stream."""
    valid, ranks = np.zeros(len(wanted), np.uint8), np.zeros(len(wanted), np.int64)
    set_bounds, bounds = as_ints([0, 0]), as_ints([0, len(wanted)])
    stream = segment(booleans(present, chance))
    assert kernel.decode_bits(*stream, bounds, as_ints(wanted), valid, ranks, set_bounds) == 0
    return valid.tolist(), ranks[: set_bounds[1]]


def test_numbers_with_nulls(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        data, values = integers_v2(chance, True)
        present = [True] * len(values) + [False] * chance.choice([0, 1, 100])
        chance.shuffle(present)
        remaining = iter(values)
        rows = [next(remaining) if flag else None for flag in present]
        wanted = sorted(chance.sample(range(len(rows)), chance.randint(0, len(rows))))
        valid, ranks = positions_of(present, wanted, chance)
        assert valid == [rows[row] is not None for row in wanted]
        out = np.zeros(len(ranks), np.int64)
        bounds = as_ints([0, len(ranks)])
        assert kernel.decode_integers(*segment(data), bounds, ranks, out, True, True) == 0
        scattered, _ = guarded(len(wanted), np.int64)
        kernel.scatter(
            out.view(np.uint8).reshape(-1, 8),
            np.array(valid, np.uint8),
            scattered.view(np.uint8).reshape(-1, 8),
        )
        assert scattered.tolist() == [rows[row] or 0 for row in wanted]


def test_strings(rng: np.random.Generator) -> None:
    """Of a stream of bytes and one of lengths, which are written once; or of a dictionary."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        entries = [
            chance.randbytes(chance.choice([0, 1, 5, 16, 17, 200])) for _ in range(chance.choice([1, 9, 700]))
        ]
        lengths = np.zeros(len(entries), np.int64)
        stream = lengths_v2([len(entry) for entry in entries])
        bounds = as_ints([0, len(entries)])
        assert kernel.decode_integers(*segment(stream), bounds, None, lengths, True, False) == 0
        data = np.frombuffer(b"".join(entries), np.uint8)

        wanted = sorted(chance.sample(range(len(entries)), chance.randint(0, len(entries))))
        begins, selected = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        bounds = as_ints([0, len(wanted)])
        assert (
            kernel.decode_lengths(
                *segment(stream), bounds, as_ints(wanted), begins, selected, len(data) + 1, True
            )
            == 0
        )
        text = np.zeros(selected.sum(), np.uint8)
        assert kernel.copy_values(data, begins, selected, text) == 0
        assert text.tobytes() == b"".join(entries[row] for row in wanted)

        codes = np.array(
            [chance.randrange(min(len(entries), 256)) for _ in range(chance.choice([0, 3, 600]))], np.int64
        )
        decoded = np.zeros(len(codes), np.int64)
        bounds = as_ints([0, len(codes)])
        stream = lengths_v2(codes.tolist())
        assert kernel.decode_integers(*segment(stream), bounds, None, decoded, True, False) == 0
        ends = np.concatenate([[0], np.cumsum(lengths)])
        text = np.zeros(int(lengths[decoded].sum()), np.uint8)
        assert kernel.copy_values(data, ends[decoded], lengths[decoded], text) == 0
        assert text.tobytes() == b"".join(entries[code] for code in codes)
