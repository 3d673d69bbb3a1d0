"""Many headers found at once: the same positions and the same errors as one after the other, for any bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hindex.errors import OrcError
from hindex.orc.encoding import rle_v2
from hindex.orc.encoding.buffers import PADDING
from hindex.orc.encoding.rle_v2 import jumps
from hindex.orc.encoding.rle_v2.chain import follow
from tests.support.rle_v2 import ENCODERS, header, pack, short_repeat, varint

Found = tuple[list[int], int | str]


@pytest.fixture(params=[40, 300, 1 << 14])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows from the first runs on, however long they are."""
    monkeypatch.setattr(jumps, "_WINDOW", request.param)
    monkeypatch.setattr(jumps, "_SAMPLE", 1)
    monkeypatch.setattr(jumps, "_LEAST_RUNS", 0)
    monkeypatch.setattr(jumps, "_MOST_BYTES", 1 << 20)


def buffer(data: bytes, behind: bytes = b"") -> np.ndarray:
    return np.frombuffer(data + behind + bytes(PADDING), np.uint8)


def one_by_one(buf: np.ndarray, start: int, limit: int, wanted: int) -> Found:
    found: list[int] = []
    try:
        return found, follow(buf.data, start, limit, wanted, found)
    except OrcError as error:
        # what is no run's begin any more does not matter
        return [at for at in found if at <= limit], str(error)


def at_once(buf: np.ndarray, start: int, limit: int, wanted: int) -> Found:
    pieces: list[np.ndarray] = []

    def positions() -> list[int]:
        return [at for piece in pieces for at in piece.tolist()]

    try:
        end = jumps.follow_group(buf, start, limit, wanted, pieces)
    except OrcError as error:
        return [at for at in positions() if at <= limit], str(error)
    return positions(), end


def stream(rng: random.Random, runs: int) -> tuple[bytes, list[int]]:
    """Runs, mostly short ones, and their values."""
    data, values = b"", list[int]()
    for _ in range(runs):
        make = short_repeat if rng.random() < 0.6 else rng.choice(list(ENCODERS))
        content, numbers = make(rng, False)
        if len(content) > 100 and rng.random() < 0.9:
            continue
        data += content
        values += numbers
    return data, values


@pytest.mark.usefixtures("small")
def test_streams_of_all_encodings(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(40):
        data, values = stream(chance, chance.choice([1, 5, 100, 400]))
        start, behind = chance.randrange(3), chance.randbytes(chance.choice([0, 0, 40]))
        buf = buffer(bytes(start) + data, behind)
        end = start + len(data)
        for wanted in {1, len(values) // 2, len(values), len(values) + 1, chance.randint(1, len(values) + 1)}:
            limits = {end, max(start, end - 1), chance.randint(start, end)}
            for limit in limits:
                case = (buf, start, limit, max(wanted, 1))
                assert at_once(*case) == one_by_one(*case), (limit, wanted)


@pytest.mark.usefixtures("small")
def test_bytes_that_are_no_stream(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(150):
        size = chance.randint(0, 900)
        # long varints, and headers of runs that no writer makes
        data = bytes(
            chance.choice([chance.randrange(256), chance.randrange(8), 255, 192, 128]) for _ in range(size)
        )
        buf = buffer(data, chance.randbytes(chance.choice([0, 30])))
        case = (buf, 0, chance.choice([size, size // 2]), chance.choice([1, 10, 1000, 1 << 30]))
        assert at_once(*case) == one_by_one(*case)


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each call followed one by one."""
    found: list[int] = []

    def spy(*args: object) -> int:
        end = follow(*args)  # type: ignore[arg-type]
        found.append(len(args[-1]))  # type: ignore[arg-type]
        return end

    monkeypatch.setattr(jumps, "follow", spy)
    return found


def test_few_steps_are_made_in_python(followed: list[int]) -> None:
    """Of a stream of short runs only the sample and the last run of each window are followed one by one."""
    data = b"".join(bytes([i % 8, i % 256]) for i in range(50_000))
    values = sum(3 + i % 8 for i in range(50_000))
    found, end = at_once(buffer(data), 0, len(data), values)
    assert (found, end) == (list(range(0, 100_000, 2)), 100_000)
    windows = -(-len(data) // jumps._WINDOW)
    assert sum(followed) <= jumps._SAMPLE // 3 + windows


def test_long_runs_are_followed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jumps, "_in_window", None)
    data = (header(1, 23, 512) + pack([1] * 512, 24)) * 1000
    assert len(at_once(buffer(data), 0, len(data), 512_000)[0]) == 1000


@pytest.mark.parametrize("cycles", [1, 20])
def test_long_runs_behind_short_ones(monkeypatch: pytest.MonkeyPatch, cycles: int) -> None:
    """A window that held few runs is the last, until a look at more of them than before says otherwise."""
    windows: list[int] = []

    def spy(buf: np.ndarray, begin: int, size: int) -> np.ndarray:
        windows.append(begin)
        return in_window(buf, begin, size)

    in_window = jumps._in_window
    monkeypatch.setattr(jumps, "_in_window", spy)
    short, long = bytes([0, 1]) * 2000, (header(1, 31, 512) + bytes(4096)) * 200
    data = (short + long) * cycles
    values = cycles * (2000 * 3 + 200 * 512)
    buf = buffer(data)
    assert at_once(buf, 0, len(data), values) == one_by_one(buf, 0, len(data), values)
    # without this there was one for each run of 4 KB
    assert 1 <= len(windows) <= 8


def test_short_runs_behind_long_ones(followed: list[int]) -> None:
    long, short = (header(1, 23, 512) + pack([1] * 512, 24)) * 20, bytes([0, 1]) * 100_000
    data, values = long + short, 20 * 512 + 300_000
    found, end = at_once(buffer(data), 0, len(data), values)
    assert (len(found), end) == (100_020, len(data))
    assert sum(followed) < 20_000


def test_bounds(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(300):
        data, values = stream(chance, chance.choice([0, 1, 3, 60]))
        greatest, total, held = rle_v2.bounds(
            buffer(data), 0, len(data), chance.choice([len(values), 1 << 30])
        )
        assert held == len(values)
        if min(values, default=0) < 0:
            assert (greatest, total) == (1 << 63, 1 << 63)
            continue
        assert greatest >= max(values, default=0)
        assert total >= min(sum(values), 1 << 63)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", (0, 0)),
        (bytes([0 << 3 | 2, 200]), (200, 1000)),
        (bytes([1 << 3 | 0, 1, 0]), (65_535, 3 * 65_535)),
        (header(1, 1, 4) + pack([0, 1, 2, 3], 2), (3, 12)),
        # up and down in equal steps, to zero and below
        (header(3, 0, 5) + bytes([7, 2]), (11, 55)),
        (header(3, 0, 8) + bytes([7, 1]), (7, 56)),
        (header(3, 0, 9) + bytes([7, 1]), (1 << 63, 1 << 63)),
        (header(3, 0, 3) + varint(300) + varint(1), (300, 900)),
        (header(3, 0, 3) + varint(1) + varint(3), (1 << 63, 1 << 63)),
        # steps that differ
        (header(3, 1, 3) + bytes([7, 2]) + pack([3], 2), (11, 33)),
        (header(3, 1, 3) + bytes([2, 1]) + pack([3], 2), (1 << 63, 1 << 63)),
        (bytes([7 << 3]) + b"\xff" * 8, (1 << 63, 1 << 63)),
        (bytes([4 << 3]) + b"\0" * 5, ((1 << 40) - 1, 1 << 63)),
        # a patch of packed values of 64 bits is put over their lowest ones
        (
            header(2, 31, 2) + bytes([29, 1, 0]) + pack([1, 1], 64) + pack([1 << 47 | 4], 56),
            (1 << 47 | 5, 1 << 63),
        ),
    ],
)
def test_bounds_of_a_run(data: bytes, expected: tuple[int, int]) -> None:
    assert rle_v2.bounds(buffer(data), 0, len(data), 1 << 30)[:2] == expected


def test_bounds_of_what_is_cut_short() -> None:
    data = header(1, 1, 4) + pack([0, 1, 2, 3], 2)
    with pytest.raises(OrcError):
        rle_v2.bounds(buffer(data), 0, len(data) - 1, 4)
