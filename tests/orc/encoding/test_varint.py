"""Decimal varints against Python's integers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.errors import OrcError
from hindex.orc.encoding import varint


def encode(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def numbers(words: tuple[np.ndarray, np.ndarray]) -> list[int]:
    low, high = words
    assert low.dtype == np.dtype(np.uint64)
    assert high.dtype == np.dtype(np.int64)
    return [(h << 64) + n for n, h in zip(low.tolist(), high.tolist(), strict=True)]


NUMBER = st.one_of(
    st.integers(-(1 << 62), (1 << 62) - 1),
    st.integers(-(1 << 127), (1 << 127) - 1),
    st.integers(0, 127)
    .flatmap(lambda n: st.sampled_from([1 << n, -(1 << n), (1 << n) - 1]))
    .filter(lambda n: -(1 << 127) <= n < 1 << 127),
)


@given(groups=st.lists(st.lists(NUMBER, max_size=30), min_size=1, max_size=5), seed=st.integers(0, 1 << 32))
@settings(max_examples=200, deadline=None)
def test_random_values(groups: list[list[int]], seed: int) -> None:
    rng = random.Random(seed)
    stream, places = bytearray(), {}
    for i in rng.sample(range(len(groups)), len(groups)):
        stream += rng.randbytes(rng.choice([0, 3]))
        start = len(stream)
        stream += b"".join(map(encode, groups[i]))
        places[i] = (start, len(stream))
    starts, limits = np.array([places[i] for i in range(len(groups))]).T
    buf = np.frombuffer(bytes(stream) + bytes(16), np.uint8)
    expected = [v[: rng.choice([len(v), rng.randint(0, len(v))])] for v in groups]
    counts = np.array([len(v) for v in expected])
    dense = varint.decode_decimal(buf, starts, limits, counts)
    assert numbers(dense) == [value for v in expected for value in v]
    wanted = [sorted(rng.choices(range(len(v)), k=rng.randint(0, 9))) if v else [] for v in expected]
    offsets = np.cumsum([0] + [len(w) for w in wanted])
    ordinals = np.array([o for w in wanted for o in w], np.int64)
    found = varint.gather_decimal(buf, starts, limits, ordinals, offsets)
    assert numbers(found) == [v[o] for v, w in zip(expected, wanted, strict=True) for o in w]


@pytest.mark.parametrize(
    ("data", "values"),
    [("00", [0]), ("01", [-1]), ("02", [1]), ("03", [-2]), ("04", [2]), ("00ff0180ff01", [0, -128, 16320])],
)
def test_examples(data: str, values: list[int]) -> None:
    buf = np.frombuffer(bytes.fromhex(data) + bytes(16), np.uint8)
    found = varint.decode_decimal(buf, np.array([0]), np.array([len(data) // 2]), np.array([len(values)]))
    assert numbers(found) == values


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        ("", 1, "run past byte 0"),
        ("0102", 3, "run past byte 2"),
        ("0180", 2, "run past byte 2"),
        ("ff" * 18 + "04", 1, "decimal at byte 0 has more than 128 bits"),
        ("00" + "ff" * 19 + "00", 2, "decimal at byte 1 has more than 128 bits"),
        ("80" * 100 + "00", 1, "more than 128 bits"),
        ("00", 1 << 40, "row index is corrupt"),
        ("00", -2, "row index is corrupt"),
    ],
)
def test_errors(data: str, count: int, message: str) -> None:
    stream = bytes.fromhex(data)
    buf = np.frombuffer(stream + bytes(16), np.uint8)
    start, limit = np.array([0]), np.array([len(stream)])
    with pytest.raises(OrcError, match=message):
        varint.decode_decimal(buf, start, limit, np.array([count]))
    with pytest.raises(OrcError, match=message):
        varint.gather_decimal(buf, start, limit, np.array([count - 1]), np.array([0, 1]))


@given(data=st.binary(max_size=60), count=st.integers(1, 70))
def test_garbage_is_read_or_refused(data: bytes, count: int) -> None:
    buf = np.frombuffer(data + bytes(16), np.uint8)
    try:
        low, _ = varint.decode_decimal(buf, np.array([0]), np.array([len(data)]), np.array([count]))
    except OrcError:
        return
    assert len(low) == count
    assert sum(byte < 128 for byte in data) >= count


def test_nothing_wanted() -> None:
    buf, none, one = np.zeros(16, np.uint8), np.zeros(0, np.int64), np.zeros(1, np.int64)
    assert numbers(varint.decode_decimal(buf, none, none, none)) == []
    assert numbers(varint.decode_decimal(buf, one, one, one)) == []
    assert numbers(varint.gather_decimal(buf, one, one, none, np.zeros(2, np.int64))) == []
