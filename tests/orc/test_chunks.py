"""Streams cut into chunks of any size, empty and stored ones between them: each decode path gives the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

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
