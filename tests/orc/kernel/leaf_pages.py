"""Leaf pages written by plain Python, as docs/format.md specifies them."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

LOW, HIGH = -(1 << 63), (1 << 63) - 1
#: Offset, length and crc32c of a bitmap page.
Pointer = tuple[int, int, int]
Key = int | bytes


@dataclass
class Leaf:
    """A leaf page: keys with their rows, or for a key outside the number of its rows and its page."""

    keys: list[Any]
    rows: list[list[int] | tuple[int, Pointer]]
    is_delta: bool = False
    #: Planes beyond those that are needed, of keys, counts, first rows and gaps.
    spare: tuple[int, int, int, int] = (0, 0, 0, 0)
    #: Fields of the header that are written in place of the true ones.
    header: dict[int, int] = field(default_factory=dict)
    #: Blocks that are written in place of the true ones.
    changed: dict[int, bytes] = field(default_factory=dict)

    @property
    def counts(self) -> list[int]:
        return [len(rows) if isinstance(rows, list) else rows[0] for rows in self.rows]

    def blocks(self) -> list[bytes]:
        inline = [rows for rows in self.rows if isinstance(rows, list)]
        firsts = [rows[0] for rows in inline]
        if self.is_delta:
            steps = [first - before for first, before in zip(firsts, [0, *firsts], strict=False)]
            firsts = [2 * step if step >= 0 else -2 * step - 1 for step in steps]
        gaps = [b - a - 1 for rows in inline for a, b in pairwise(rows)]
        texts = [key for key in self.keys if isinstance(key, bytes)]
        if texts:
            key_numbers, first_key = [len(key) for key in texts], len(b"".join(texts))
        else:
            key_numbers = [0, *((b - a - 1) % (1 << 64) for a, b in pairwise(self.keys))]
            first_key = self.keys[0]
        arrays = [key_numbers, [count - 1 for count in self.counts], firsts, gaps]
        widths = [
            min((max(values, default=0).bit_length() + 7) // 8 + spare, 8 if at == 0 and not texts else 4)
            for at, (values, spare) in enumerate(zip(arrays, self.spare, strict=True))
        ]
        outside = [(at, *rows[1]) for at, rows in enumerate(self.rows) if isinstance(rows, tuple)]
        head = [len(self.keys), len(outside), first_key, sum(map(len, inline))]
        head += [widths[0], widths[1], int(self.is_delta), widths[2], widths[3]]
        for at, value in self.header.items():
            head[at] = value
        planes = [planes_of(values, width) for values, width in zip(arrays, widths, strict=True)]
        blocks = [struct.pack("<IIqQBBBBB", *head), *planes[0], *([b"".join(texts)] if texts else [])]
        blocks += [*planes[1], *planes[2], *planes[3]]
        if outside:
            blocks.append(b"".join(struct.pack("<IQII", *pointer) for pointer in outside))
        return [self.changed.get(at, block) for at, block in enumerate(blocks)]


def planes_of(values: list[int], width: int) -> list[bytes]:
    """All lowest bytes, then all second bytes, and so on."""
    return [bytes(value >> 8 * plane & 255 for value in values) for plane in range(width)]


@dataclass
class Pages:
    """Pages in one buffer. Some blocks are elsewhere, as decompressed ones are: what is stored of them is nonsense."""

    data: bytes = b""
    ends: list[int] = field(default_factory=list)
    contents: bytes = b""
    #: Where each packed block begins in ``contents``.
    places: list[int] = field(default_factory=list)

    def add(self, blocks: list[bytes], chance: random.Random | None = None) -> None:
        headers, bodies = bytes([len(blocks)]), b""
        for at, block in enumerate(blocks):
            stored, codec = block, 0
            if at and chance is not None and chance.random() < 0.5:
                stored, codec = b"?" * chance.randint(1, 3), 1
                self.contents += chance.randbytes(chance.choice([0, 2]))
                self.places.append(len(self.contents))
                self.contents += block
            headers += struct.pack("<BII", codec, len(stored), len(block))
            bodies += stored
        self.data += headers + bodies
        self.ends.append(len(self.data))

    def arguments(self, leaves: list[Leaf]) -> list[Any]:
        """Return the arguments of `list_leaf_blocks`; the directory describes some leaves."""
        counts = [self.data[begin] for begin in [0, *self.ends[:-1]]]
        heads = np.zeros((len(leaves), 11), np.int64)
        heads[:, 0] = [sum(counts[:at]) for at in range(len(leaves))]
        heads[:, 1] = [len(leaf.keys) for leaf in leaves]
        heads[:, 2] = [sum(leaf.counts) for leaf in leaves]
        has_bytes = any(isinstance(leaf.keys[0], bytes) for leaf in leaves)
        return [
            np.frombuffer(self.data, np.uint8),
            np.array(self.ends, np.int64),
            has_bytes,
            heads,
            np.zeros((sum(counts), 4), np.int64),
        ]


def random_leaf(chance: random.Random, total: int, *, has_bytes: bool, size: int) -> Leaf:
    if has_bytes:
        alphabet = chance.choice([b"ab", b"\0\1\xfe\xff", bytes(range(256))])
        keys: set[Any] = {
            bytes(chance.choices(alphabet, k=chance.choice([0, 1, 3, 9, 300 * (size < 50)])))
            for _ in range(size)
        }
    else:
        spread = chance.choice([size, 3 * size, 1 << 12, 1 << 20, 1 << 63])
        base = chance.choice([0, LOW + spread, HIGH - 2 * spread, -size]) if spread < 1 << 63 else 0
        keys = {max(min(base + chance.randint(-spread, spread), HIGH), LOW) for _ in range(size)}
    rows: list[Any] = []
    for _ in keys:
        if chance.random() < 0.1:
            pointer = (chance.getrandbits(62), chance.getrandbits(32), chance.getrandbits(32))
            rows.append((chance.choice([1, 300, 1 << 20]), pointer))
        else:
            rows.append(sorted(chance.sample(range(total), min(chance.choice([1, 1, 1, 2, 7]), total))))
    spare = [chance.choice([0, 0, 0, 1]) for _ in range(4)]
    return Leaf(sorted(keys), rows, chance.random() < 0.5, (spare[0], spare[1], spare[2], spare[3]))
