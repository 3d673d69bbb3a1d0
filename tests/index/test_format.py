"""A second reader, written from ``docs/format.md`` alone, finds every row where the page says."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import google_crc32c
import mmh3
import numpy as np
import pyarrow as pa
import zstandard
from pyroaring import BitMap

from hindex.index.index_file import join_bytes, split_bytes
from hindex.proto import index_file_pb2 as pb
from tests.index.support import TYPES, build

MAGIC = bytes.fromhex("484944580D0A1A0A")


def blocks(data: bytes, offset: int, length: int, crc32c: int) -> list[bytes]:
    page = data[offset : offset + length]
    assert google_crc32c.value(page) == crc32c
    parts, at = [], 1 + 9 * page[0]
    for number in range(page[0]):
        codec, stored, raw = struct.unpack_from("<BII", page, 1 + 9 * number)
        block = page[at : at + stored]
        if codec == 1:
            block = zstandard.ZstdDecompressor().decompress(block, max_output_size=raw)
        assert len(block) == raw
        parts.append(block)
        at += stored
    assert at == length
    return parts


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
    rows_by_key: dict[int | bytes | None, list[int]] = {}
    for number, row in zip(near, firsts, strict=True):
        key_rows = [row]
        for _ in range(counts[number] - 1):
            key_rows.append(key_rows[-1] + gaps.pop(0) + 1)
        rows_by_key[keys[number]] = key_rows
    for number, *place in pointers:
        rows_by_key[keys[number]] = list(BitMap.deserialize(blocks(data, *place)[0]))
        assert len(rows_by_key[keys[number]]) == counts[number]
    assert not gaps
    return rows_by_key


def read_all(data: bytes) -> list[dict[int | bytes | None, list[int]]]:
    length, version, crc32c, magic = struct.unpack("<III8s", data[-20:])
    assert (data[:8], magic, version) == (MAGIC, MAGIC, 1)
    assert google_crc32c.value(data[-20 - length : -12]) == crc32c
    footer = pb.FileFooter.FromString(data[-20 - length : -20])
    stripes = []
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
        stripes.append(rows)
    return stripes


def test_the_example_of_the_page() -> None:
    data = build(TYPES["bigint"], [pa.array([7, None, 5, 7], pa.int64())])
    assert read_all(data) == [{None: [1], 5: [2], 7: [0, 3]}]
    body = pb.BitmapBody.FromString(pb.FileFooter.FromString(data[_footer(data) : -20]).body)
    (stripe,) = body.stripes
    assert (stripe.rows, stripe.null_count, stripe.key_count, list(stripe.int_bounds)) == (4, 1, 2, [5])
    header, *rest = blocks(data, stripe.leaf_offset, stripe.leaf_length[0], stripe.leaf_crc32c[0])
    assert struct.unpack("<IIqQBBBBB", header) == (2, 0, 5, 3, 1, 1, 0, 1, 1)
    assert rest == [b"\0\1", b"\0\1", b"\2\0", b"\2"]


def body_of(data: bytes) -> bytes:
    return pb.FileFooter.FromString(data[_footer(data) : -20]).body


def extents(data: bytes) -> list[list[tuple[int, object, object, bool]]]:
    """Null rows, least and greatest key, and whether that is cut, of every row group of a MINMAX file."""
    kind = pb.FileFooter.FromString(data[_footer(data) : -20]).key_kind
    body = pb.MinMaxBody.FromString(body_of(data))
    stripes: list[list[tuple[int, object, object, bool]]] = []
    for stripe in body.stripes:
        whole = stripe.extent
        ends: tuple[object, object]
        if kind == pb.KEY_KIND_INT64:
            ends = (whole.int_min, whole.int_max) if whole.HasField("int_min") else (None, None)
        else:
            ends = (whole.byte_min, whole.byte_max) if whole.HasField("byte_min") else (None, None)
        if not stripe.HasField("groups"):
            stripes.append([(whole.null_count, *ends, whole.max_is_prefix)] if stripe.rows else [])
            continue
        place = stripe.groups
        parts = blocks(data, place.offset, place.length, place.crc32c)
        count, filled, *widths, first, second = struct.unpack("<IIBBBBqq", parts.pop(0))
        nulls = array(parts, widths[0], count)
        lows, highs = array(parts, widths[1], filled), array(parts, widths[2], filled)
        cut = array(parts, widths[3], filled)
        keys: list[tuple[object, object, bool]] = []
        if kind == pb.KEY_KIND_INT64:
            for low, span, is_cut in zip(lows, highs, cut, strict=True):
                keys.append((first + low, first + low + span, bool(is_cut)))
        elif filled:
            low_text, high_text = parts
            assert (len(low_text), len(high_text)) == (first, second)
            for low, high, is_cut in zip(lows, highs, cut, strict=True):
                keys.append((low_text[:low], high_text[:high], bool(is_cut)))
                low_text, high_text = low_text[low:], high_text[high:]
        groups: list[tuple[int, object, object, bool]] = []
        for number, missing in enumerate(nulls):
            rows = min(body.row_group_rows, stripe.rows - number * body.row_group_rows)
            groups.append((missing, *(keys.pop(0) if missing < rows else (None, None, False))))
        assert not keys
        assert sum(nulls) == whole.null_count
        stripes.append(groups)
    return stripes


def test_the_extents_of_the_page() -> None:
    column = [5, None, -(1 << 63), (1 << 63) - 1, None, None, 3]
    data = build(TYPES["bigint"], [pa.array(column, pa.int64())] * 2, using="MINMAX", row_group_rows=2)
    groups = [
        (1, 5, 5, False),
        (0, -(1 << 63), (1 << 63) - 1, False),
        (2, None, None, False),
        (0, 3, 3, False),
    ]
    assert extents(data) == [groups, groups]
    texts = ["b", "a", None, None, "z" * 1025]
    data = build(TYPES["string"], [pa.array(texts)], using="MINMAX", row_group_rows=2)
    expected = [(0, b"a", b"b", False), (2, None, None, False), (0, b"z" * 1024, b"z" * 1024, True)]
    assert extents(data) == [expected]
    assert extents(build(TYPES["string"], [pa.array(texts)], using="MINMAX")) == [
        [(2, b"a", b"z" * 1024, True)]
    ]


def is_set(filter_: bytes, bits: int, hashes: int, key: bytes) -> bool:
    a, b = mmh3.hash64(key, signed=False)
    places = [(a + i * (1 + b % (bits - 1))) % bits for i in range(hashes)]
    return all(filter_[place // 8] >> place % 8 & 1 for place in places)


def test_the_filters_of_the_page() -> None:
    cases: list[tuple[str, list[Any], Callable[[Any], bytes]]] = [
        ("bigint", [7, None, 5, 7, None, None, 9], lambda key: key.to_bytes(8, "little", signed=True)),
        ("string", ["x", None, "", "x", None, None, "longer than a block of 16"], str.encode),
    ]
    for type_name, column, key_bytes in cases:
        array_ = pa.array(column, TYPES[type_name].to_arrow())
        data = build(TYPES[type_name], [array_], using="BLOOM", row_group_rows=2, fpp=1e-6)
        body = pb.BloomBody.FromString(body_of(data))
        (stripe,) = body.stripes
        assert (body.hashes, body.row_group_rows, list(stripe.group_nulls)) == (20, 2, [1, 0, 2, 0])
        place = stripe.filter
        (whole,) = blocks(data, place.offset, place.length, place.crc32c)
        assert len(whole) == (stripe.bits + 7) // 8
        place = stripe.groups
        (rest,) = blocks(data, place.offset, place.length, place.crc32c)
        values = {value for value in column if value is not None}
        for number, bits in enumerate(stripe.group_bits):
            members = {value for value in column[2 * number : 2 * number + 2] if value is not None}
            assert bool(bits) == bool(members)
            size = (bits + 7) // 8
            one, rest = rest[:size], rest[size:]
            if members:
                assert {v for v in values if is_set(one, bits, 20, key_bytes(v))} == members
        assert not rest
        assert all(is_set(whole, stripe.bits, 20, key_bytes(v)) for v in values)


def test_the_filter_of_the_example() -> None:
    data = build(TYPES["bigint"], [pa.array([7], pa.int64())], using="BLOOM", fpp=0.001)
    (stripe,) = pb.BloomBody.FromString(body_of(data)).stripes
    assert stripe.bits == 59
    (bits,) = blocks(data, stripe.filter.offset, stripe.filter.length, stripe.filter.crc32c)
    assert {n for n in range(59) if bits[n // 8] >> n % 8 & 1} == {(9 + 40 * i) % 59 for i in range(10)}


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
        for type_name, values in (
            ("bigint", pa.array(column, pa.int64(), mask=missing[: len(column)])),
            ("string", pa.array([f"v{n}" for n in column], mask=missing[: len(column)])),
        ):
            expected = defaultdict(list)
            for row, value in enumerate(values.to_pylist()):
                expected[value.encode() if isinstance(value, str) else value].append(row)
            assert read_all(build(TYPES[type_name], [values], values_per_page=500)) == [expected], (
                seed,
                name,
                type_name,
            )


def test_planes_hold_any_width() -> None:
    for width in range(9):
        values = np.array([0, 1, (1 << (8 * width)) - 1 if width else 0], np.uint64)
        values &= np.uint64((1 << (8 * width)) - 1)
        planes = split_bytes(values, width)
        assert [len(plane) for plane in planes] == [3] * width
        assert join_bytes([memoryview(plane) for plane in planes], 3, np.uint64).tolist() == values.tolist()


def ngram_blocks(data: bytes) -> list[dict[int | bytes | None, list[int]]]:
    """The blocks of every n-gram of each stripe of an NGRAM file."""
    stripes = []
    for stripe in pb.NgramBody.FromString(body_of(data)).stripes:
        tree, at = stripe.blocks, stripe.blocks.leaf_offset
        found: dict[int | bytes | None, list[int]] = {}
        for size, crc in zip(tree.leaf_length, tree.leaf_crc32c, strict=True):
            found |= leaf(data, blocks(data, at, size, crc), pb.KEY_KIND_BYTES)
            at += size
        assert (len(found), sum(map(len, found.values()))) == (tree.key_count, sum(tree.leaf_rows))
        stripes.append(found)
    return stripes


def test_the_example_of_ngrams() -> None:
    data = build(TYPES["string"], [pa.array(["Ab", "xAbc", "éabC"])], using="NGRAM", block_rows=2)
    assert ngram_blocks(data) == [{b"xab": [0], b"abc": [0, 1], b"\xe9ab": [1]}]
    body = pb.NgramBody.FromString(body_of(data))
    assert (body.block_rows, body.stripes[0].rows, body.stripes[0].blocks.rows) == (2, 3, 2)


def test_ngrams_of_random_strings() -> None:
    """Of more than one leaf, and of frequent n-grams with bitmap pages."""
    rng = np.random.default_rng(4)
    words = ["".join(rng.choice(list("ABcdé"), 5)) for _ in range(60)]
    stripes = [[" ".join(rng.choice(words, 4)) for _ in range(rows)] for rows in (20_000, 7)]
    data = build(TYPES["string"], [pa.array(part) for part in stripes], using="NGRAM", block_rows=3)
    for part, found in zip(stripes, ngram_blocks(data), strict=True):
        expected: dict[int | bytes | None, list[int]] = defaultdict(list)
        for row, text in enumerate(part):
            folded = bytes(ord(c) if ord(c) < 128 else 128 + ord(c) % 128 for c in text.lower())
            for at in range(len(folded) - 2):
                numbers = expected[folded[at : at + 3]]
                if not numbers or numbers[-1] != row // 3:
                    numbers.append(row // 3)
        assert found == expected
