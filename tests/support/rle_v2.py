"""A scalar encoder of RLE version 2: each kind of run gives its bytes and the values that it stands for.

Written from the ORC specification v1, "Integer Run Length Encoding, version 2".
"""

from __future__ import annotations

import random
from collections.abc import Callable

WIDTHS = [*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64]
MASK = (1 << 64) - 1


def wrap(value: int) -> int:
    """The number that is left of ``value`` in 64 bits of two's complement."""
    value &= MASK
    return value - (1 << 64) if value >> 63 else value


def plain(raw: int, signed: bool) -> int:
    return wrap(raw >> 1 ^ -(raw & 1)) if signed else wrap(raw)


def varint(raw: int) -> bytes:
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def zigzag(value: int) -> int:
    return (value << 1 ^ value >> 63) & MASK


def pack(values: list[int], width: int) -> bytes:
    bits = "".join(format(value, f"0{width}b") for value in values) if width else ""
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""


def header(kind: int, code: int, count: int) -> bytes:
    return bytes([kind << 6 | code << 1 | count - 1 >> 8, count - 1 & 255])


def short_repeat(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    size, count = rng.randint(1, 8), rng.randint(3, 10)
    raw = rng.getrandbits(8 * size)
    return bytes([size - 1 << 3 | count - 3]) + raw.to_bytes(size, "big"), [plain(raw, signed)] * count


def some_count(rng: random.Random) -> int:
    return rng.choice([1, 2, 3, 7, 8, 9, 16, rng.randint(1, 512), 511, 512])


def direct(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    code, count = rng.randrange(32), some_count(rng)
    width = WIDTHS[code]
    raw = [rng.choice([rng.getrandbits(width), (1 << width) - 1, 0]) for _ in range(count)]
    return header(1, code, count) + pack(raw, width), [plain(value, signed) for value in raw]


def patched_base(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    code, count = rng.randrange(31), some_count(rng)
    width = WIDTHS[code]
    patch_code, gap_width = rng.choice(
        [(c, g) for c in range(32) for g in range(1, 9) if WIDTHS[c] + g <= 64]
    )
    patch_width = WIDTHS[patch_code]
    base_size = rng.randint(1, 8)
    magnitude = rng.getrandbits(8 * base_size - 1)
    negative = rng.random() < 0.5
    base = -magnitude if negative else magnitude
    raw = [rng.getrandbits(width) for _ in range(count)]
    entries: list[tuple[int, int]] = []
    values, place = list(raw), 0
    while len(entries) < rng.randint(0, 31):
        gap = rng.randint(0 if not entries else 1, (1 << gap_width) - 1)
        steps = rng.choice([0, 0, 1, 2]) if gap_width == 8 else 0
        if place + gap + 255 * steps >= count or len(entries) + steps >= 31:
            break
        place += gap + 255 * steps
        patch = rng.randint(1, (1 << patch_width) - 1)
        entries += [(255, 0)] * steps + [(gap, patch)]
        values[place] |= patch << width
    if not entries:
        patch = rng.randint(1, (1 << patch_width) - 1)
        entries.append((0, patch))
        values[0] |= patch << width
    entry_width = next(w for w in WIDTHS if w >= patch_width + gap_width)

    def filling() -> int:
        used = patch_width + gap_width
        return int(rng.choice([0, (1 << entry_width) - (1 << used)]))

    return (
        header(2, code, count)
        + bytes([base_size - 1 << 5 | patch_code, gap_width - 1 << 5 | len(entries)])
        + (negative << (8 * base_size - 1) | magnitude).to_bytes(base_size, "big")
        + pack(raw, width)
        + pack([filling() | gap << patch_width | patch for gap, patch in entries], entry_width),
        [wrap(base + value) for value in values],
    )


def odd_patches(rng: random.Random, count: int) -> bytes:
    """A patched run as no writer makes it: patches at one place, without bits, behind the run or shifted out of it."""
    code = rng.choice([0, 3, 7, 23, 26, 27, 29, 30, 31])
    patch_code, gap_width = rng.choice([(c, g) for c in range(32) for g in (1, 2, 8) if WIDTHS[c] + g <= 64])
    width, patch_width = WIDTHS[code], WIDTHS[patch_code]
    base_size, patches = rng.randint(1, 8), rng.choice([1, 2, 3, 4, 31])
    gaps = [min(rng.choice([0, 1, 1, 2, 255]), (1 << gap_width) - 1) for _ in range(patches)]
    # behind a filling at the end, the C++ reader takes what the run before left there
    gaps[-1] = min(gaps[-1], 2)
    entries = [gap << patch_width | rng.choice([0, 1, rng.getrandbits(patch_width)]) for gap in gaps]
    return (
        header(2, code, count)
        + bytes([base_size - 1 << 5 | patch_code, gap_width - 1 << 5 | patches])
        + rng.randbytes(base_size)
        + pack([rng.choice([0, 1, rng.getrandbits(width)]) for _ in range(count)], width)
        + pack(entries, next(w for w in WIDTHS if w >= patch_width + gap_width))
    )


def delta(rng: random.Random, signed: bool) -> tuple[bytes, list[int]]:
    code, count = rng.randrange(32), some_count(rng)
    width = WIDTHS[code] if code else 0
    big = rng.choice([4, 20, 62])
    first = rng.randint(-(1 << big), 1 << big) if signed else rng.getrandbits(rng.choice([5, 30, 64]))
    step = rng.choice([0, rng.randint(-100, 100), rng.randint(-(1 << 63), (1 << 63) - 1)])
    further = [rng.getrandbits(width) for _ in range(max(count - 2, 0))] if width else []
    values = [first, first + step][:count]
    for i in range(2, count):
        size = further[i - 2] if width else abs(step)
        values.append(values[-1] - size if step < 0 else values[-1] + size)
    return (
        header(3, code, count)
        + varint(zigzag(first) if signed else first)
        + varint(zigzag(step))
        + pack(further, width),
        [wrap(value) for value in values],
    )


ENCODERS: list[Callable[[random.Random, bool], tuple[bytes, list[int]]]] = [
    short_repeat,
    direct,
    patched_base,
    delta,
]


def runs_of(rng: random.Random, kinds: list[int], signed: bool) -> tuple[bytes, list[int]]:
    runs = [ENCODERS[kind](rng, signed) for kind in kinds]
    return b"".join(data for data, _ in runs), [value for _, values in runs for value in values]
