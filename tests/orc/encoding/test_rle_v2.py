"""RLE version 2 against a scalar encoder and a scalar decoder, both written from the specification."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindex.errors import OrcError
from hindex.orc.encoding import rle_v2
from hindex.orc.encoding.buffers import Bytes, Ints
from hindex.orc.encoding.rle_v2 import lockstep
from tests.support.rle_v2 import ENCODERS, MASK, WIDTHS, header, pack, plain, runs_of, varint, wrap, zigzag

# --- A scalar decoder: one value at a time, from the bytes alone.


class BadStreamError(Exception):
    """The reference decoder's only error."""


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        if self.at >= len(self.data):
            raise BadStreamError
        self.at += 1
        return self.data[self.at - 1]

    def big(self, size: int) -> int:
        total = 0
        for _ in range(size):
            total = total * 256 + self.byte()
        return total

    def packed(self, count: int, width: int) -> list[int]:
        size = (count * width + 7) // 8
        blob = self.big(size)
        return [blob >> (size * 8 - (i + 1) * width) & ((1 << width) - 1) for i in range(count)]

    def varint(self) -> int:
        total = 0
        for place in range(10):
            byte = self.byte()
            total |= (byte & 127) << 7 * place
            if byte < 128:
                return total & MASK
        raise BadStreamError


def scalar_run(reader: Reader, signed: bool) -> list[int]:
    first = reader.byte()
    if first >> 6 == 0:
        return [plain(reader.big((first >> 3 & 7) + 1), signed)] * ((first & 7) + 3)
    count = ((first & 1) << 8 | reader.byte()) + 1
    width = WIDTHS[first >> 1 & 31]
    if first >> 6 == 1:
        return [plain(raw, signed) for raw in reader.packed(count, width)]
    if first >> 6 == 3:
        width = 0 if width == 1 else width
        raw = reader.varint()
        values = [plain(raw, signed)]
        step = plain(reader.varint(), True)
        values.append(values[0] + step)
        for size in reader.packed(max(count - 2, 0), width):
            size = size if width else abs(step)
            values.append(values[-1] - size if step < 0 else values[-1] + size)
        return [wrap(value) for value in values[:count]]
    third, fourth = reader.byte(), reader.byte()
    base_bits = 8 * ((third >> 5) + 1)
    patch_width, gap_width = WIDTHS[third & 31], (fourth >> 5) + 1
    if patch_width + gap_width > 64 or not fourth & 31:
        raise BadStreamError
    base = reader.big(base_bits // 8)
    if base >> (base_bits - 1):
        base = -(base - (1 << (base_bits - 1)))
    values = reader.packed(count, width)
    entry_width = min(w for w in WIDTHS if w >= patch_width + gap_width)
    place, before = 0, -1
    for entry in reader.packed(fourth & 31, entry_width):
        gap = entry >> patch_width & ((1 << gap_width) - 1)
        patch = entry & ((1 << patch_width) - 1)
        place += gap
        if (gap, patch) == (255, 0):
            continue
        if place in (before, count) or place > count:
            # Java's and the C++ reader are past this place already, and wait for it in vain
            break
        before = place
        values[place] |= patch << width % 64 & MASK
    return [wrap(base + value) for value in values]


def scalar(data: bytes, count: int, signed: bool) -> list[int]:
    reader, values = Reader(data), list[int]()
    while len(values) < count:
        values += scalar_run(reader, signed)
    return values[:count]


# --- The decoder under test, fed with groups.


def layout(groups: list[bytes], rng: random.Random) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A padded buffer with garbage between the groups, and their starts and limits, in no order."""
    stream, places = bytearray(), {}
    for number in rng.sample(range(len(groups)), len(groups)):
        stream += rng.randbytes(rng.choice([0, 0, 5]))
        places[number] = (len(stream), len(stream) + len(groups[number]))
        stream += groups[number]
    bounds = np.array([places[number] for number in range(len(groups))], np.int64).reshape(-1, 2)
    return np.frombuffer(bytes(stream) + bytes(16), np.uint8), bounds[:, 0], bounds[:, 1]


def check(groups: list[tuple[bytes, list[int]]], rng: random.Random, signed: bool) -> None:
    """decode and gather of random ordinals and of all give the values told."""
    buf, starts, limits = layout([data for data, _ in groups], rng)
    counts = np.array([rng.choice([len(v), rng.randint(0, len(v))]) for _, v in groups], np.int64)
    expected = [v[:n] for (_, v), n in zip(groups, counts.tolist(), strict=True)]
    flat = [value for values in expected for value in values]
    dense = rle_v2.decode(buf, starts, limits, counts, signed=signed)
    assert dense.dtype == np.int64
    assert dense.tolist() == flat
    for share in (0.02, 0.3, 1.0):
        wanted = [sorted(rng.choices(range(n), k=int(n * share) + 1)) if n else [] for n in counts.tolist()]
        if share == 1.0:
            wanted = [list(range(n)) for n in counts.tolist()]
        offsets = np.cumsum([0] + [len(w) for w in wanted])
        ordinals = np.array([o for w in wanted for o in w], np.int64)
        found = rle_v2.gather(buf, starts, limits, ordinals, offsets, signed=signed)
        assert found.dtype == np.int64
        assert found.tolist() == [v[o] for v, w in zip(expected, wanted, strict=True) for o in w]


KINDS = st.lists(st.lists(st.integers(0, 3), max_size=8), min_size=1, max_size=5)


@given(kinds=KINDS, seed=st.integers(0, 1 << 32), signed=st.booleans())
@settings(max_examples=150, deadline=None)
def test_random_runs(kinds: list[list[int]], seed: int, signed: bool) -> None:
    rng = random.Random(seed)
    groups = [runs_of(rng, of_group, signed) for of_group in kinds]
    for data, values in groups:
        assert scalar(data, len(values), signed) == values
    check(groups, rng, signed)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("kinds", [(0,), (1,), (2,), (3,), (0, 1), (0, 3), (0, 0, 0, 1, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("seed", range(2))
def test_many_runs(kinds: tuple[int, ...], signed: bool, seed: int) -> None:
    """Long groups: several groups of many runs, where other ways of walking and unpacking are used."""
    rng = random.Random(seed)
    groups = []
    for size in (150, 3, 60):
        groups.append(runs_of(rng, [rng.choice(kinds) for _ in range(size)], signed))
    if kinds == (0, 1, 2, 3):
        groups.append((b"", []))
    check(groups, rng, signed)


@pytest.fixture
def stepping_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walk over even few runs as over many."""
    monkeypatch.setattr(lockstep, "_LEAST_RUNS", 0)


@pytest.mark.usefixtures("stepping_together")
@pytest.mark.parametrize("kinds", [(0,), (0, 3), (3,), (0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3)])
@pytest.mark.parametrize("groups", [20, 64, 150])
def test_many_groups_of_short_runs(kinds: tuple[int, ...], groups: int) -> None:
    """Runs of a few bytes in many groups, which are walked over together."""
    rng = random.Random(groups)
    made = []
    for _ in range(groups):
        data, values = runs_of(rng, [0] * 3, True)
        for _ in range(rng.choice([0, 10, 40, rng.randint(0, 150)])):
            kind = rng.choice(kinds)
            run = ENCODERS[kind](rng, True)
            while kind and len(run[0]) > 40:
                run = ENCODERS[kind](rng, True)
            data, values = data + run[0], values + run[1]
        made.append((data, values))
    check(made, rng, True)


@pytest.mark.usefixtures("stepping_together")
@pytest.mark.parametrize("wrong", [0, 1, 17, 59])
@pytest.mark.parametrize("tail", [b"", bytes(5000)])
def test_one_of_many_groups_is_truncated(wrong: int, tail: bytes) -> None:
    rng = random.Random(wrong)
    made = [runs_of(rng, [0] * 700, True) for _ in range(60)]
    stream = b"".join(data for data, _ in made) + tail + bytes(16)
    ends = np.cumsum([len(data) for data, _ in made])
    starts, limits = np.append(0, ends[:-1]), ends.copy()
    limits[wrong] -= 1
    counts = np.array([len(values) for _, values in made])
    buf = np.frombuffer(stream, np.uint8)
    with pytest.raises(OrcError, match=f"run past byte {limits[wrong]},"):
        rle_v2.decode(buf, starts, limits, counts, signed=True)
    counts[wrong] -= 10
    found = rle_v2.decode(buf, starts, limits, counts, signed=True)
    assert found.tolist() == [v for (_, vs), n in zip(made, counts.tolist(), strict=True) for v in vs[:n]]


@pytest.mark.parametrize("first", [1, 600])
@pytest.mark.parametrize("is_short", [False, True])
def test_groups_are_taken_to_be_like_the_runs_of_the_first(
    monkeypatch: pytest.MonkeyPatch, is_short: bool, first: int
) -> None:
    """However few values of its runs are wanted: walking together costs by the byte."""
    together: list[int] = []
    follow = lockstep.follow_together

    def told(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
        together.append(len(starts))
        return follow(buf, starts, limits, wanted)

    monkeypatch.setattr(lockstep, "follow_together", told)
    run = bytes([0, 7]) if is_short else header(3, 0, 512) + varint(7) + varint(0)
    group, groups = run * (200 if is_short else 2), 200
    buf = np.frombuffer(group * groups + bytes(16), np.uint8)
    starts = np.arange(groups) * len(group)
    counts = np.full(groups, 600)
    counts[0] = first
    found = rle_v2.decode(buf, starts, starts + len(group), counts, signed=False)
    assert found.tolist() == [7] * int(counts.sum())
    assert together == ([groups - 1] if is_short else [])


@given(data=st.lists(st.binary(max_size=40), min_size=20, max_size=30), count=st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_garbage_in_many_groups(data: list[bytes], count: int) -> None:
    """After a group of short runs, so that the others are walked over together."""
    groups = [bytes.fromhex("0007") * 20, *data]
    ends = np.cumsum([len(group) for group in groups])
    starts = np.append(0, ends[:-1])
    buf = np.frombuffer(b"".join(groups) + bytes(5000), np.uint8)
    counts = np.full(len(groups), count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockstep, "_LEAST_RUNS", 0)
        try:
            expected = [value for group in groups for value in scalar(group, count, False)]
        except BadStreamError:
            with pytest.raises(OrcError):
                rle_v2.decode(buf, starts, ends, counts, signed=False)
        else:
            assert rle_v2.decode(buf, starts, ends, counts, signed=False).tolist() == expected


@pytest.mark.parametrize("code", range(32))
@pytest.mark.parametrize("count", [1, 5, 8, 133, 512])
def test_direct_widths(code: int, count: int) -> None:
    rng = random.Random(code)
    groups = []
    for _ in range(4):
        raw = [rng.getrandbits(WIDTHS[code]) for _ in range(count)]
        groups.append((header(1, code, count) + pack(raw, WIDTHS[code]), [plain(v, True) for v in raw]))
    check(groups, rng, True)


EXAMPLES = [
    ("0a2710", [10000] * 5),
    ("5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
    (
        "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
        [2030, 2000, 2020, 1000000, *range(2040, 2200, 10)],
    ),
    ("c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
]


@pytest.mark.parametrize(("data", "values"), EXAMPLES)
def test_examples_of_the_specification(data: str, values: list[int]) -> None:
    check([(bytes.fromhex(data), values)], random.Random(0), False)


def test_extremes() -> None:
    low, high = -(1 << 63), (1 << 63) - 1
    both = header(1, 31, 4) + pack([zigzag(v) for v in (low, high, 0, -1)], 64)
    check([(both, [low, high, 0, -1])], random.Random(0), True)
    top = bytes([7 << 3]) + b"\xff" * 8
    check([(top, [-1] * 3)], random.Random(0), False)
    check([(top, [low] * 3)], random.Random(0), True)
    beyond = header(3, 0, 3) + varint(zigzag(high)) + varint(zigzag(1))
    check([(beyond, [high, low, low + 1])], random.Random(0), True)


@given(data=st.binary(max_size=80), count=st.integers(1, 600), signed=st.booleans())
@settings(max_examples=400, deadline=None)
def test_garbage_is_read_alike_or_refused(data: bytes, count: int, signed: bool) -> None:
    buf = np.frombuffer(data + b"\xff" * 4 + bytes(16), np.uint8)
    starts, limits = np.array([0]), np.array([len(data)])
    try:
        expected = scalar(data, count, signed)
    except BadStreamError:
        with pytest.raises(OrcError):
            rle_v2.decode(buf, starts, limits, np.array([count]), signed=signed)
        with pytest.raises(OrcError):
            rle_v2.gather(buf, starts, limits, np.arange(count), np.array([0, count]), signed=signed)
    else:
        assert rle_v2.decode(buf, starts, limits, np.array([count]), signed=signed).tolist() == expected
        all_of_it = rle_v2.gather(buf, starts, limits, np.arange(count), np.array([0, count]), signed=signed)
        assert all_of_it.tolist() == expected


@pytest.mark.parametrize(
    ("data", "count", "message"),
    [
        ("", 1, "run past byte 0"),
        ("0a27", 1, "run past byte 2"),
        ("5e035ca1ab1edeadbe", 1, "run past byte 9"),
        ("0a2710", 6, "run past byte 3"),
        ("0a2710", 1 << 40, "row index is corrupt"),
        ("0a2710", -1, "row index is corrupt"),
        ("8000" + "1f01" + "00" * 20, 1, "patches of more than 64 bits"),
        ("8000" + "0000" + "00" * 20, 1, "has no patches"),
        ("c001" + "80" * 12 + "00" * 9, 2, "varint at byte 2 has more than 10 bytes"),
        ("c001" + "00" + "80" * 12 + "00" * 9, 2, "varint at byte 3 has more than 10 bytes"),
    ],
)
def test_errors(data: str, count: int, message: str) -> None:
    stream = bytes.fromhex(data)
    buf = np.frombuffer(stream + bytes(16), np.uint8)
    starts, limits = np.array([0]), np.array([len(stream)])
    with pytest.raises(OrcError, match=message):
        rle_v2.decode(buf, starts, limits, np.array([count]), signed=False)
    with pytest.raises(OrcError, match=message):
        rle_v2.gather(buf, starts, limits, np.array([count - 1]), np.array([0, 1]), signed=False)


@pytest.mark.parametrize(("start", "limit"), [(-1, 3), (2, 1), (0, 4), (5, 5)])
def test_groups_outside_the_stream(start: int, limit: int) -> None:
    buf = np.frombuffer(bytes.fromhex("0a2710") + bytes(16), np.uint8)
    with pytest.raises(OrcError, match="row index is corrupt"):
        rle_v2.decode(buf, np.array([start]), np.array([limit]), np.array([1]), signed=False)


def test_only_the_runs_up_to_the_last_ordinal_are_walked() -> None:
    good = header(1, 7, 4) + bytes([1, 2, 3, 4])
    buf = np.frombuffer(good + b"\xff" * 8 + bytes(16), np.uint8)
    found = rle_v2.gather(
        buf, np.array([0]), np.array([len(good) + 8]), np.array([3]), np.array([0, 1]), signed=False
    )
    assert found.tolist() == [4]


def test_nothing_wanted() -> None:
    buf, none = np.zeros(16, np.uint8), np.zeros(0, np.int64)
    assert rle_v2.decode(buf, none, none, none, signed=True).tolist() == []
    assert rle_v2.gather(buf, none, none, none, np.zeros(1, np.int64), signed=True).tolist() == []
    one = np.zeros(1, np.int64)
    assert rle_v2.decode(buf, one, one, one, signed=True).tolist() == []
    assert rle_v2.gather(buf, one, one, none, np.zeros(2, np.int64), signed=True).tolist() == []
