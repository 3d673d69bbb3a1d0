"""A second reader, written from ``docs/format.md`` alone, finds every row where the page says."""

from __future__ import annotations

import struct
from collections import defaultdict

import google_crc32c
import numpy as np
import pyarrow as pa
import zstandard
from pyroaring import BitMap

from hindex.index.planes import join, split
from hindex.proto import index_file_pb2 as pb
from tests.index.support import TYPES, build

MAGIC = bytes.fromhex("484944580D0A1A0A")


def blocks(data: bytes, offset: int, length: int, crc32c: int) -> list[bytes]:
    page = data[offset : offset + length]
    assert google_crc32c.value(page) == crc32c
    found, at = [], 1 + 9 * page[0]
    for number in range(page[0]):
        codec, stored, raw = struct.unpack_from("<BII", page, 1 + 9 * number)
        block = page[at : at + stored]
        if codec == 1:
            block = zstandard.ZstdDecompressor().decompress(block, max_output_size=raw)
        assert len(block) == raw
        found.append(block)
        at += stored
    assert at == length
    return found


def array(parts: list[bytes], width: int, count: int) -> list[int]:
    planes = [parts.pop(0) for _ in range(width)]
    return [sum(plane[n] << (8 * i) for i, plane in enumerate(planes)) for n in range(count)]


def leaf(data: bytes, parts: list[bytes], kind: int) -> dict[int | bytes | None, list[int]]:
    count, outside, first_key, inline, *widths = struct.unpack("<IIqQBBBBB", parts.pop(0))
    key_width, count_width, mode, first_width, gap_width = widths
    steps = array(parts, key_width, count)
    keys: list[int | bytes] = []
    if kind == pb.KEY_KIND_INT64:
        for number, step in enumerate(steps):
            key = first_key if number == 0 else int(keys[-1]) + step + 1
            keys.append(key if key < 1 << 63 else key - (1 << 64))
    else:
        text = parts.pop(0)
        for step in steps:
            keys.append(text[:step])
            text = text[step:]
    counts = [n + 1 for n in array(parts, count_width, count)]
    pointers = list(struct.iter_unpack("<IQII", parts[-1])) if outside else []
    far = {pointer[0] for pointer in pointers}
    near = [number for number in range(count) if number not in far]
    firsts = array(parts, first_width, len(near))
    if mode == 1:
        row, rows = 0, []
        for folded in firsts:
            row += -(folded + 1) // 2 if folded & 1 else folded // 2
            rows.append(row)
        firsts = rows
    gaps = array(parts, gap_width, inline - len(near))
    found: dict[int | bytes | None, list[int]] = {}
    for number, row in zip(near, firsts, strict=True):
        held = [row]
        for _ in range(counts[number] - 1):
            held.append(held[-1] + gaps.pop(0) + 1)
        found[keys[number]] = held
    for number, *place in pointers:
        found[keys[number]] = list(BitMap.deserialize(blocks(data, *place)[0]))
        assert len(found[keys[number]]) == counts[number]
    assert not gaps
    return found


def read_all(data: bytes) -> list[dict[int | bytes | None, list[int]]]:
    length, version, crc32c, magic = struct.unpack("<III8s", data[-20:])
    assert (data[:8], magic, version) == (MAGIC, MAGIC, 1)
    assert google_crc32c.value(data[-20 - length : -12]) == crc32c
    footer = pb.FileFooter.FromString(data[-20 - length : -20])
    found = []
    for stripe in pb.BitmapBody.FromString(footer.body).stripes:
        rows: dict[int | bytes | None, list[int]] = {}
        if stripe.null_count:
            place = stripe.nulls
            rows[None] = list(BitMap.deserialize(blocks(data, place.offset, place.length, place.crc32c)[0]))
        at = stripe.leaf_offset
        for size, crc in zip(stripe.leaf_length, stripe.leaf_crc32c, strict=True):
            rows |= leaf(data, blocks(data, at, size, crc), footer.key_kind)
            at += size
        assert sum(map(len, rows.values())) == stripe.rows
        found.append(rows)
    return found


def test_the_example_of_the_page() -> None:
    data = build(TYPES["bigint"], [pa.array([7, None, 5, 7], pa.int64())])
    assert read_all(data) == [{None: [1], 5: [2], 7: [0, 3]}]
    body = pb.BitmapBody.FromString(pb.FileFooter.FromString(data[_footer(data) : -20]).body)
    (stripe,) = body.stripes
    assert (stripe.rows, stripe.null_count, stripe.key_count, list(stripe.int_bounds)) == (4, 1, 2, [5])
    header, *rest = blocks(data, stripe.leaf_offset, stripe.leaf_length[0], stripe.leaf_crc32c[0])
    assert struct.unpack("<IIqQBBBBB", header) == (2, 0, 5, 3, 1, 1, 0, 1, 1)
    assert rest == [b"\0\1", b"\0\1", b"\2\0", b"\2"]


def _footer(data: bytes) -> int:
    (length,) = struct.unpack("<I", data[-20:-16])
    return len(data) - 20 - int(length)


def test_every_row_is_where_the_page_says() -> None:
    seed = 11
    rng = np.random.default_rng(seed)
    count = 6000
    columns = {
        "mixed": np.where(rng.random(count) < 0.4, -1, rng.integers(-(1 << 62), 1 << 62, count)),
        "clustered": np.arange(count) // 5,
        "sorted": np.sort(rng.integers(0, 9, count)),
        "wide": np.concatenate([[-(1 << 63), (1 << 63) - 1], rng.integers(0, 50, count)]),
    }
    missing = rng.random(count + 2) < 0.1
    for name, column in columns.items():
        for of, values in (
            ("bigint", pa.array(column, pa.int64(), mask=missing[: len(column)])),
            ("string", pa.array([f"v{n}" for n in column], mask=missing[: len(column)])),
        ):
            expected = defaultdict(list)
            for row, value in enumerate(values.to_pylist()):
                expected[value.encode() if isinstance(value, str) else value].append(row)
            assert read_all(build(TYPES[of], [values], values_per_page=500)) == [expected], (seed, name, of)


def test_planes_hold_any_width() -> None:
    for width in range(9):
        values = np.array([0, 1, (1 << (8 * width)) - 1 if width else 0], np.uint64)
        values &= np.uint64((1 << (8 * width)) - 1)
        planes = split(values, width)
        assert [len(plane) for plane in planes] == [3] * width
        assert join([memoryview(plane) for plane in planes], 3, np.uint64).tolist() == values.tolist()
