"""RLE version 1 against a scalar encoder and a scalar decoder, both written from the specification."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.errors import OrcError
from hindex.orc.encoding import rle_v1

MASK = (1 << 64) - 1


def wrap(value: int) -> int:
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def varint(raw: int) -> bytes:
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def some_raw(rng: random.Random) -> int:
    return rng.getrandbits(rng.choice([3, 7, 8, 20, 33, 56, 57, 63, 64]))


def plain(raw: int, signed: bool) -> int:
    return wrap(raw >> 1 ^ -(raw & 1)) if signed else wrap(raw)


def a_run(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    count, step, raw = rng.randint(3, 130), rng.randint(-128, 127), some_raw(rng)
    first = plain(raw, signed)
    return bytes([count - 3, step & 255]) + varint(raw), [wrap(first + i * step) for i in range(count)]


def literals(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    raws = [some_raw(rng) for _ in range(rng.choice([1, 2, 128, rng.randint(1, 128)]))]
    data = bytes([256 - len(raws)]) + b"".join(map(varint, raws))
    return data, [plain(raw, signed) for raw in raws]


class BadStreamError(Exception):
    """The reference decoder's only error."""


def scalar(data: bytes, count: int, signed: bool) -> list[int]:
    at, values = 0, list[int]()

    def byte() -> int:
        nonlocal at
        if at >= len(data):
            raise BadStreamError
        at += 1
        return data[at - 1]

    def number() -> int:
        total = 0
        for place in range(10):
            part = byte()
            total |= (part & 127) << 7 * place
            if part < 128:
                return plain(total & MASK, signed)
        raise BadStreamError

    while len(values) < count:
        control = byte()
        if control < 128:
            step = byte()
            step -= 256 * (step > 127)
            first = number()
            values += [wrap(first + i * step) for i in range(control + 3)]
        else:
            values += [number() for _ in range(256 - control)]
    return values[:count]


def decode(data: bytes, count: int, signed: bool) -> list[int]:
    buf = np.frombuffer(data + b"\x05" * 30 + bytes(16), np.uint8)
    start, limit = np.array([0]), np.array([len(data)])
    found = rle_v1.decode(buf, start, limit, np.array([count]), signed=signed)
    some = rle_v1.gather(buf, start, limit, np.arange(count), np.array([0, count]), signed=signed)
    values: list[int] = found.tolist()
    assert values == some.tolist()
    return values


@given(
    kinds=st.lists(st.lists(st.booleans(), max_size=7), min_size=1, max_size=5),
    seed=st.integers(0, 1 << 32),
    signed=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_random_runs(kinds: list[list[bool]], seed: int, signed: bool) -> None:
    rng = random.Random(seed)
    stream, expected, bounds = bytearray(), [], []
    for group in kinds:
        stream += rng.randbytes(rng.choice([0, 0, 4]))
        runs = [(a_run if kind else literals)(rng, signed) for kind in group]
        data, values = b"".join(d for d, _ in runs), [value for _, v in runs for value in v]
        assert scalar(data, len(values), signed) == values
        bounds.append((len(stream), len(stream) + len(data)))
        stream += data
        expected.append(values[: rng.choice([len(values), rng.randint(0, len(values))])])
    order = rng.sample(range(len(kinds)), len(kinds))
    expected = [expected[i] for i in order]
    starts, limits = np.array([bounds[i] for i in order]).T
    buf = np.frombuffer(bytes(stream) + bytes(16), np.uint8)
    counts = np.array([len(values) for values in expected])
    dense = rle_v1.decode(buf, starts, limits, counts, signed=signed)
    assert dense.dtype == np.int64
    assert dense.tolist() == [value for values in expected for value in values]
    wanted = [sorted(rng.choices(range(len(v)), k=rng.randint(0, 9))) if v else [] for v in expected]
    offsets = np.cumsum([0] + [len(w) for w in wanted])
    ordinals = np.array([o for w in wanted for o in w], np.int64)
    found = rle_v1.gather(buf, starts, limits, ordinals, offsets, signed=signed)
    assert found.dtype == np.int64
    assert found.tolist() == [v[o] for v, w in zip(expected, wanted, strict=True) for o in w]


@pytest.mark.parametrize(
    ("data", "values"),
    [
        ("610007", [7] * 100),
        ("61ff64", list(range(100, 0, -1))),
        ("fb020306070b", [2, 3, 6, 7, 11]),
    ],
)
def test_examples_of_the_specification(data: str, values: list[int]) -> None:
    assert decode(bytes.fromhex(data), len(values), False) == values


def test_a_run_wraps_at_64_bits() -> None:
    assert decode(bytes([0, 1]) + varint(MASK - 1), 3, True) == [(1 << 63) - 1, -(1 << 63), -(1 << 63) + 1]


@given(data=st.binary(max_size=60), count=st.integers(1, 300), signed=st.booleans())
@settings(max_examples=300, deadline=None)
def test_garbage_is_read_alike_or_refused(data: bytes, count: int, signed: bool) -> None:
    try:
        expected = scalar(data, count, signed)
    except BadStreamError:
        # A varint that is too long may lie behind the last wanted value of its run.
        try:
            decode(data, count, signed)
        except OrcError:
            return
        assert any(data[i] > 127 for i in range(len(data)))
    else:
        assert decode(data, count, signed) == expected


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        ("", 1, "run past byte 0"),
        ("61", 1, "run past byte 1"),
        ("6100", 1, "run past byte 2"),
        ("610080", 1, "run past byte 3"),
        ("fb02030607", 1, "run past byte 5"),
        ("610007", 101, "run past byte 3"),
        ("610007", 1 << 50, "row index is corrupt"),
        ("6100" + "80" * 10 + "01", 1, "varint at byte 2 has more than 10 bytes"),
    ],
)
def test_errors(data: str, count: int, message: str) -> None:
    with pytest.raises(OrcError, match=message):
        decode(bytes.fromhex(data), count, False) if count < 1000 else rle_v1.decode(
            np.frombuffer(bytes.fromhex(data) + bytes(16), np.uint8),
            np.array([0]),
            np.array([3]),
            np.array([count]),
            signed=False,
        )


def test_nothing_wanted() -> None:
    buf, none = np.zeros(16, np.uint8), np.zeros(0, np.int64)
    assert rle_v1.decode(buf, none, none, none, signed=True).tolist() == []
    assert rle_v1.gather(buf, none, none, none, np.zeros(1, np.int64), signed=True).tolist() == []
    one = np.zeros(1, np.int64)
    assert rle_v1.decode(buf, one, one, one, signed=True).tolist() == []
    assert rle_v1.gather(buf, one, one, none, np.zeros(2, np.int64), signed=True).tolist() == []
