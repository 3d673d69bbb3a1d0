"""Streams cut into chunks of any size, empty and stored ones between them: each decode path gives the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from hindex.orc import DecodePath, OrcReader
from hindex.orc.compression import CODECS, Decompressor
from hindex.orc.source import BytesSource
from tests.fuzz.corpus import parts as corpus
from tests.fuzz.parts import FileParts, Hooks, compressed, put_together

FILES = 12
ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(1, 7)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, FileParts, pa.Table]]:
    """Files of all types, and their rows as they are read without compression."""
    found = corpus(tmp_path_factory.mktemp("chunks"))
    return [
        (name, part, OrcReader(BytesSource(put_together(part)), path=DecodePath.WHOLE).read())
        for name, part in found
    ]


def _same(found: pa.Table, expected: pa.Table) -> bool:
    # as text where a value may be a NaN, which is not equal to itself
    return found.equals(expected) or (
        any(pa.types.is_floating(of) for of in expected.schema.types)
        and str(found.to_pylist()) == str(expected.to_pylist())
    )


@pytest.mark.parametrize("with_empty", [False, True])
def test_chunks_of_any_size(
    sound: list[tuple[str, FileParts, pa.Table]], rng: np.random.Generator, with_empty: bool
) -> None:
    had_empty = [False]

    def cut(data: bytes, block: int) -> list[tuple[bytes, bool]]:
        pieces, at = [], 0
        while at < len(data) or (with_empty and rng.random() < 0.1):
            is_empty = at == len(data) or (with_empty and rng.random() < 0.02)
            size = 0 if is_empty else int(rng.choice([1, 7, block, block, int(rng.integers(1, block + 1))]))
            had_empty[0] |= not size
            pieces.append((data[at : at + size], bool(rng.random() < 0.4)))
            at += size
        return pieces

    for number in rng.permutation(len(sound))[:FILES].tolist():
        name, part, expected = sound[number]
        codec = int(rng.choice([ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI]))
        block = int(rng.choice([64, 256, 1000, 1 << 16]))
        data = put_together(part, codec, block, Hooks(cut=cut))
        rows = np.sort(rng.permutation(expected.num_rows)[: int(rng.choice([1, 5, 100]))])
        for path in DecodePath:
            for column in expected.column_names:
                what = name, codec, block, path, column
                reader = OrcReader(BytesSource(data), path=path)
                assert _same(reader.read([column]), expected.select([column])), what
                assert _same(reader.read([column], rows), expected.select([column]).take(rows)), what
    assert had_empty[0] == with_empty


#: Bodies of a chunk that have no content, by the codec.
NOTHING = {
    "zlib, a fixed code": (ZLIB, compressed(ZLIB, b"")),
    "zlib, a stored block": (ZLIB, b"\x01\0\0\xff\xff"),
    "zlib, many stored blocks": (ZLIB, b"\0\0\0\xff\xff" * 500 + b"\x03\0"),
    "zlib, cut": (ZLIB, b"\x03"),
    "snappy": (SNAPPY, compressed(SNAPPY, b"")),
    "lzo": (LZO, b"\x11\0\0"),
    "lz4": (LZ4, b"\0"),
    "zstd": (ZSTD, compressed(ZSTD, b"")),
    "zstd, a plain block": (ZSTD, b"\x28\xb5\x2f\xfd\0\x58\x01\0\0"),
    "zstd, a block that repeats a byte": (ZSTD, b"\x28\xb5\x2f\xfd\0\x58\x03\0\0a"),
    "zstd, a compressed block": (ZSTD, b"\x28\xb5\x2f\xfd\0\x58\x15\0\0\0\0"),
    "zstd, a frame left out": (ZSTD, b"\x50\x2a\x4d\x18\x04\0\0\0abcd"),
}


@pytest.mark.parametrize(("codec", "body"), NOTHING.values(), ids=NOTHING)
def test_a_chunk_of_nothing_is_told(codec: int, body: bytes) -> None:
    decompressor = Decompressor(CODECS[codec], 1 << 16)

    def chunk(body: bytes, *, is_original: bool = False) -> bytes:
        return (len(body) << 1 | is_original).to_bytes(3, "little") + body

    good = chunk(compressed(codec, b"content")) + chunk(b"c", is_original=True)
    assert decompressor.fills_all(memoryview(good))
    for empty in (chunk(body), chunk(b"", is_original=True), chunk(b"")):
        for data in (empty, empty + good, good + empty, good + empty + good):
            assert not decompressor.fills_all(memoryview(data))
    # nor is it told that there is content where a chunk is cut
    for end in range(1, len(good)):
        if end != len(good) - 4:
            assert not decompressor.fills_all(memoryview(good[:end]))


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
def test_a_chunk_of_anything_is_told(rng: np.random.Generator, codec: int) -> None:
    """Whatever a compressor makes of some bytes goes to pyarrow."""
    decompressor = Decompressor(CODECS[codec], 1 << 16)
    for size in (1, 2, 3, 20, 300, 5000, 1 << 16):
        for content in (rng.bytes(size), bytes(size), bytes(rng.integers(0, 4, size, np.uint8))):
            body = compressed(codec, content)
            if len(body) < 1 << 16:
                assert decompressor.fills_all(memoryview((len(body) << 1).to_bytes(3, "little") + body))


def test_a_frame_of_anything_that_does_not_tell_its_size(rng: np.random.Generator) -> None:
    """By the head of its first block, of whatever kind and size."""
    decompressor = Decompressor(CODECS[ZSTD], 1 << 18)
    kinds = set()
    for size in (1, 2, 3, 20, 31, 32, 300, 4095, 4096, 5000, 1 << 17, 1 << 18):
        for content in (
            rng.bytes(size),
            bytes(size),
            bytes(rng.integers(0, 4, size, np.uint8)),
            rng.bytes(size // 2 + 1) * 2,
            rng.bytes(16) * (size // 16) + bytes(rng.integers(0, 50, size // 16 + 1, np.uint8)),
        ):
            for level in (1, 3, 19):
                packer = zstandard.ZstdCompressor(level, write_content_size=False)
                body = packer.compress(content)
                at = zstandard.frame_header_size(body)
                kind = body[at] >> 1 & 3
                kinds.add((kind, body[at + 3] & 15 if kind == 2 else None))
                assert CODECS[ZSTD].size(memoryview(body)) is None
                assert decompressor.fills_all(memoryview((len(body) << 1).to_bytes(3, "little") + body))
    # blocks: plain, and compressed, with literals by several formats of their number
    assert (0, None) in kinds
    assert len(kinds) > 5
    repeated = b"\x28\xb5\x2f\xfd\0\x58\x0b\0\0a"
    assert zstandard.ZstdDecompressor().decompressobj().decompress(repeated) == b"a"
    assert decompressor.fills_all(memoryview((len(repeated) << 1).to_bytes(3, "little") + repeated))


@pytest.mark.parametrize(
    ("kind", "form", "shift", "bits"),
    [(kind, 0, 3, 5) for kind in (0, 1)]
    + [(kind, form, 4, bits) for kind in (0, 1) for form, bits in ((1, 12), (3, 20))]
    + [(kind, form, 4, bits) for kind in (2, 3) for form, bits in ((0, 10), (1, 10), (2, 14), (3, 18))],
)
def test_numbers_of_literals(kind: int, form: int, shift: int, bits: int) -> None:
    """RFC 8878, 3.1.1.3.1.1: what follows upon the number has nothing to do with it."""
    behind = (1 << 40) - (1 << shift + bits)
    for number in (0, *(1 << bit for bit in range(bits))):
        literals = (behind | number << shift | form << 2 | kind).to_bytes(5, "little")
        body = b"\x28\xb5\x2f\xfd\0\x58" + (99 << 3 | 2 << 1 | 1).to_bytes(3, "little") + literals
        assert CODECS[ZSTD].fills(memoryview(body)) == (number > 0)
