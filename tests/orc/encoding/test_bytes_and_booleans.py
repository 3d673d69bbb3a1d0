"""Byte and boolean run-length encoding against a scalar encoder and decoder, from the specification."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.errors import OrcError
from hindex.orc.encoding import boolean, byte_rle


def encode(rng: random.Random, runs: int) -> tuple[bytes, bytes]:
    data, values = bytearray(), bytearray()
    for _ in range(runs):
        if rng.random() < 0.5:
            count, value = rng.randint(3, 130), rng.randbytes(1)
            data += bytes([count - 3]) + value
            values += value * count
        else:
            literals = rng.randbytes(rng.choice([1, 128, rng.randint(1, 128)]))
            data += bytes([256 - len(literals)]) + literals
            values += literals
    return bytes(data), bytes(values)


def scalar(data: bytes, count: int) -> bytes | None:
    """The first values, or None where the data ends before them."""
    at, values = 0, b""
    while len(values) < count:
        if at + 2 > len(data):
            return None
        control = data[at]
        size = 1 if control < 128 else 256 - control
        if at + 1 + size > len(data):
            return None
        part = data[at + 1 : at + 1 + size]
        values += part * (control + 3) if control < 128 else part
        at += 1 + size
    return values[:count]


def bits_of(values: bytes) -> list[bool]:
    return [bool(value >> (7 - bit) & 1) for value in values for bit in range(8)]


@given(runs=st.lists(st.integers(0, 6), min_size=1, max_size=5), seed=st.integers(0, 1 << 32))
@settings(max_examples=150, deadline=None)
def test_random_runs(runs: list[int], seed: int) -> None:
    rng = random.Random(seed)
    stream, groups = bytearray(), []
    for size in runs:
        stream += rng.randbytes(rng.choice([0, 3]))
        data, values = encode(rng, size)
        assert scalar(data, len(values)) == values
        groups.append((len(stream), len(stream) + len(data), values))
        stream += data
    rng.shuffle(groups)
    starts, limits = np.array([g[:2] for g in groups]).T
    buf = np.frombuffer(bytes(stream) + bytes(16), np.uint8)

    expected = [g[2][: rng.choice([len(g[2]), rng.randint(0, len(g[2]))])] for g in groups]
    dense = byte_rle.decode(buf, starts, limits, np.array([len(v) for v in expected]))
    assert dense.dtype == np.uint8
    assert dense.tobytes() == b"".join(expected)
    every = np.array([i for v in expected for i in range(len(v))], np.int64)
    offsets = np.cumsum([0] + [len(v) for v in expected])
    assert byte_rle.gather(buf, starts, limits, every, offsets).tobytes() == b"".join(expected)

    bits = [bits_of(g[2]) for g in groups]
    bits = [b[: rng.choice([len(b), rng.randint(0, len(b))])] for b in bits]
    flags = boolean.decode(buf, starts, limits, np.array([len(b) for b in bits]))
    assert flags.dtype == np.bool_
    assert flags.tolist() == [bit for b in bits for bit in b]
    wanted = [sorted(rng.choices(range(len(b)), k=rng.randint(0, 9))) if b else [] for b in bits]
    offsets = np.cumsum([0] + [len(w) for w in wanted])
    ordinals = np.array([o for w in wanted for o in w], np.int64)
    some = boolean.gather(buf, starts, limits, ordinals, offsets)
    assert some.dtype == np.bool_
    assert some.tolist() == [b[o] for b, w in zip(bits, wanted, strict=True) for o in w]


def decode(data: bytes, count: int) -> bytes:
    buf = np.frombuffer(data + b"\xff" * 3 + bytes(16), np.uint8)
    return byte_rle.decode(buf, np.array([0]), np.array([len(data)]), np.array([count])).tobytes()


@pytest.mark.parametrize(("data", "values"), [("6100", bytes(100)), ("fe4445", b"\x44\x45")])
def test_examples_of_the_specification(data: str, values: bytes) -> None:
    assert decode(bytes.fromhex(data), len(values)) == values


def test_example_of_booleans() -> None:
    buf = np.frombuffer(bytes.fromhex("ff80") + bytes(16), np.uint8)
    found = boolean.decode(buf, np.array([0]), np.array([2]), np.array([8]))
    assert found.tolist() == [True] + [False] * 7


@given(data=st.binary(max_size=30), count=st.integers(1, 400))
def test_garbage_is_read_alike_or_refused(data: bytes, count: int) -> None:
    expected = scalar(data, count)
    if expected is None:
        with pytest.raises(OrcError, match="run past byte"):
            decode(data, count)
    else:
        assert decode(data, count) == expected


@pytest.mark.parametrize("count", [-1, 1 << 40])
def test_absurd_counts(count: int) -> None:
    buf = np.frombuffer(bytes.fromhex("6100") + bytes(16), np.uint8)
    start, limit, offsets = np.array([0]), np.array([2]), np.array([0, 1])
    for attempt in (
        lambda: byte_rle.decode(buf, start, limit, np.array([count])),
        lambda: boolean.decode(buf, start, limit, np.array([count])),
        lambda: byte_rle.gather(buf, start, limit, np.array([count]), offsets),
        lambda: boolean.gather(buf, start, limit, np.array([count]), offsets),
    ):
        with pytest.raises(OrcError, match=r"row index is corrupt|run past byte"):
            attempt()


def test_nothing_wanted() -> None:
    buf, none, one = np.zeros(16, np.uint8), np.zeros(0, np.int64), np.zeros(1, np.int64)
    assert byte_rle.decode(buf, none, none, none).tolist() == []
    assert boolean.decode(buf, one, one, one).tolist() == []
    assert byte_rle.gather(buf, one, one, none, np.zeros(2, np.int64)).tolist() == []
    assert boolean.gather(buf, none, none, none, one).tolist() == []
