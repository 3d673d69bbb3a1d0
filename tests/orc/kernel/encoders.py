"""Random streams: bytes, and the values that they stand for; runs of version 2 are those of tests.support."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.rle_v2 import plain, runs_of, varint, wrap

Stream = tuple[bytes, list[int]]


def some_raw(chance: random.Random) -> int:
    return chance.getrandbits(chance.choice([3, 7, 8, 20, 33, 56, 57, 63, 64]))


def integers_v1(chance: random.Random, is_signed: bool) -> Stream:
    data, values = b"", list[int]()
    for _ in range(chance.randint(0, 6)):
        if chance.random() < 0.5:
            count, step, raw = chance.randint(3, 130), chance.randint(-128, 127), some_raw(chance)
            data += bytes([count - 3, step % 256]) + varint(raw)
            values += [wrap(plain(raw, is_signed) + i * step) for i in range(count)]
        else:
            raws = [some_raw(chance) for _ in range(chance.choice([1, 2, 128, chance.randint(1, 128)]))]
            data += bytes([256 - len(raws)]) + b"".join(map(varint, raws))
            values += [plain(raw, is_signed) for raw in raws]
    return data, values


def integers_v2(chance: random.Random, is_signed: bool) -> Stream:
    kinds = chance.choice([[0], [1], [2], [3], [0, 3], [0, 1, 2, 3]])
    return runs_of(chance, [chance.choice(kinds) for _ in range(chance.randint(0, 5))], is_signed)


def run_length_bytes(chance: random.Random) -> Stream:
    data, values = b"", list[int]()
    for _ in range(chance.randint(0, 6)):
        if chance.random() < 0.5:
            count, value = chance.randint(3, 130), chance.randrange(256)
            data += bytes([count - 3, value])
            values += [value] * count
        else:
            literals = chance.randbytes(chance.choice([1, 2, 128, chance.randint(1, 128)]))
            data += bytes([256 - len(literals)]) + literals
            values += literals
    return data, values


def booleans(bits: list[bool], chance: random.Random) -> bytes:
    """Given bits, in runs and literals of random lengths; the last byte is filled with bits that mean nothing."""
    filled = [*bits, *(chance.random() < 0.5 for _ in range(-len(bits) % 8))]
    packed = bytes(
        sum(bit << (7 - i) for i, bit in enumerate(filled[at : at + 8])) for at in range(0, len(filled), 8)
    )
    data, at = b"", 0
    while at < len(packed):
        alike = next(
            (i for i in range(at, min(len(packed), at + 130)) if packed[i] != packed[at]), len(packed)
        )
        count = min(alike - at, 130)
        if count >= 3:
            data += bytes([count - 3, packed[at]])
        else:
            count = min(chance.randint(1, 128), len(packed) - at)
            data += bytes([256 - count]) + packed[at : at + count]
        at += count
    return data


def decimals(chance: random.Random) -> Stream:
    values = [
        chance.choice([-1, 1]) * chance.getrandbits(chance.choice([0, 6, 7, 30, 62, 63, 64, 65, 100, 127]))
        for _ in range(chance.choice([0, 1, 5, 60]))
    ]
    return b"".join(varint(2 * value if value >= 0 else -2 * value - 1) for value in values), values


def lengths_v2(values: list[int]) -> bytes:
    """Given numbers below 256 as direct runs."""
    data = b""
    for at in range(0, len(values), 512):
        part = values[at : at + 512]
        data += bytes([1 << 6 | 7 << 1 | len(part) - 1 >> 8, (len(part) - 1) % 256, *part])
    return data


#: What writes a stream of integers of a version.
INTEGERS: dict[bool, Callable[[random.Random, bool], Stream]] = {False: integers_v1, True: integers_v2}
