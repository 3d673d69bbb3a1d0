"""Many headers found at once: the same positions and the same errors as one after the other, for any bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hindex.errors import OrcError
from hindex.orc.encoding import rle_v2
from hindex.orc.encoding.buffers import PADDING
from hindex.orc.encoding.rle_v2 import bounding, headers, jumps
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


@pytest.mark.parametrize(
    "runs",
    [
        [bytes([i % 8, i % 256]) for i in range(200)],
        # delta runs with varints of one byte, of more, and of all that a window looks ahead
        [header(3, 0, 5) + bytes([i, 2]) for i in range(100)],
        [header(3, 0, 3) + varint(300) + varint(i) for i in range(100, 200)],
        [bytes([2, 7]) * 2, header(3, 0, 5) + varint(1 << 62) + bytes([2])],
        [bytes([2, 7]) * 2, header(3, 0, 5) + varint(5) + varint(1 << 60)],
        [header(3, 1, 4) + varint(1 << 20) + varint(2) + pack([1, 0], 2), bytes([0, 200])],
        # patched base: one bit each, a base value of one byte, and one patch
        [header(2, 0, 4) + bytes([0, 1, 5]) + pack([1, 0, 1, 0], 1) + pack([1], 2), bytes([0, 130])],
    ],
)  # fmt: skip
def test_few_steps_are_made_in_python(followed: list[int], runs: list[bytes]) -> None:
    """Of a stream of short runs only the sample and the last run of each window are followed one by one."""
    data = b"".join(runs) * (100_000 // len(b"".join(runs)))
    buf = buffer(data)
    positions: list[int] = []
    end = follow(buf.data, 0, len(data), len(data) // 4, positions)
    values = int(headers.COUNT[[data[at] << 8 | data[at + 1] for at in positions]].sum())
    assert at_once(buf, 0, len(data), values) == (positions, end)
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

    def spy(buf: np.ndarray, begin: int, size: int) -> tuple[np.ndarray, np.ndarray]:
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


def told_by_each(buf: np.ndarray, limit: int) -> tuple[int, int, int]:
    """What the bounds of all values are: of packed values their width, of others the values themselves."""
    positions: list[int] = []
    with pytest.raises(OrcError):
        follow(buf.data, 0, limit, 1 << 30, positions)
    greatest = total = held = 0
    for at in (at for at in positions if at < limit):
        pair = int(buf[at]) << 8 | int(buf[at + 1])
        encoding, width, count = headers.ENCODING[pair], int(headers.WIDTH[pair]), int(headers.COUNT[pair])
        if encoding == 1 or (encoding == 0 and width > 8):
            most = (1 << width) - 1
        else:
            values = rle_v2.decode(buf, np.array([at]), np.array([limit]), np.array([count]), signed=False)
            most = int(values.max()) if values.min() >= 0 else 1 << 63
        held += count
        greatest, total = max(greatest, most), total + most * count
    if greatest >= (1 << 63) - 1:
        greatest = 1 << 63
    return greatest, total if greatest <= 1 << 31 else 1 << 63, held


@pytest.mark.parametrize("together", [1, 7, 1 << 15])
def test_bounds(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    """Never below what the values are, and no more above it than the widths of packed ones."""
    monkeypatch.setattr(bounding, "_TOGETHER", together)
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(100):
        data, values = stream(chance, chance.choice([0, 1, 3, 60]))
        buf = buffer(data)
        found = rle_v2.bounds(buf, 0, len(data), chance.choice([len(values), 1 << 30]))
        assert found == told_by_each(buf, len(data))
        greatest, total, held = found
        assert held == len(values)
        if min(values, default=0) < 0:
            assert (greatest, total) == (1 << 63, 1 << 63)
            continue
        assert greatest >= max(values, default=0)
        assert total >= min(sum(values), 1 << 63)


def lengths(chance: random.Random) -> tuple[bytes, list[int]]:
    """A run of small values, as of lengths; once in a while steps lead below zero."""
    kind = chance.randrange(6)
    count, first, step = chance.randint(3, 10), chance.randrange(300), chance.choice([0, 0, 1, 2, 3, 4])
    if kind < 2:
        data = bytes([count - 3, first & 255]) if kind else bytes([8 | count - 3]) + first.to_bytes(2, "big")
        return data, [first & 255 if kind else first] * count
    if kind < 4:
        width = chance.choice([1, 2, 4, 8, 16])
        values = [chance.randrange(1 << width) for _ in range(count)]
        return header(1, width - 1, count) + pack(values, width), values
    towards = -(step + 1 >> 1) if step & 1 else step >> 1
    return header(3, 0, count) + varint(first) + varint(step), [first + i * towards for i in range(count)]


def test_bounds_of_many_lengths(rng: np.random.Generator) -> None:
    """Of so many runs that they are found, and looked at, in several parts."""
    chance = random.Random(int(rng.integers(1 << 32)))
    kinds = [lengths(chance) for _ in range(500)]
    for chosen in (kinds, [kind for kind in kinds if min(kind[1]) >= 0]):
        runs = [chosen[i] for i in rng.integers(0, len(chosen), 40_000)]
        data = b"".join(run for run, _ in runs)
        found = rle_v2.bounds(buffer(data), 0, len(data), 1 << 30)
        assert found[2] == sum(len(values) for _, values in runs)
        if min(min(values) for _, values in runs) < 0:
            assert found[:2] == (1 << 63, 1 << 63)
        else:
            least = max(max(values) for _, values in runs), sum(sum(values) for _, values in runs)
            assert least[0] <= found[0] < 1 << 16
            assert least[1] <= found[1]


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
        (header(3, 1, 3) + bytes([2, 1]) + pack([1], 2), (2, 6)),
        (header(3, 1, 3) + bytes([2, 1]) + pack([2], 2), (1 << 63, 1 << 63)),
        # 8, 5, 6 and 5
        (header(2, 0, 4) + bytes([0, 1, 5]) + pack([1, 0, 1, 0], 1) + pack([1], 2), (8, 32)),
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
