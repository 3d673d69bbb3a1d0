"""Streams cut into chunks of any size, empty and stored ones between them: each decode path gives the same rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.codec import CODECS, Decompressor, codec_of
from hindex.orc.decode.streams import Segments, SequentialReader, StoredStream
from hindex.orc.io.metrics import CountedSource, ReadCounts
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamInformation, StreamKind
from tests.fuzz.corpus import parts as corpus
from tests.fuzz.parts import FileParts, Hooks, compressed, put_together

FILES = 12
ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(1, 7)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, FileParts, pa.Table]]:
    """Files of all types, and their rows as they are read without compression."""
    files = corpus(tmp_path_factory.mktemp("chunks"))
    return [(name, part, OrcReader(BytesSource(put_together(part))).read()) for name, part in files]


def _same(table: pa.Table, expected: pa.Table) -> bool:
    # as text where a value may be a NaN, which is not equal to itself
    return table.equals(expected) or (
        any(pa.types.is_floating(data_type) for data_type in expected.schema.types)
        and str(table.to_pylist()) == str(expected.to_pylist())
    )


@pytest.mark.parametrize("with_empty", [False, True])
@pytest.mark.usefixtures("windows")
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
        for column in expected.column_names:
            case = name, codec, block, column
            reader = OrcReader(BytesSource(data))
            assert _same(reader.read([column]), expected.select([column])), case
            assert _same(reader.read([column], rows), expected.select([column]).take(rows)), case
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


def _chunk(body: bytes, *, is_original: bool = False) -> bytes:
    return (len(body) << 1 | is_original).to_bytes(3, "little") + body


@pytest.mark.parametrize(("codec", "body"), NOTHING.values(), ids=NOTHING)
def test_a_chunk_of_nothing(codec: int, body: bytes) -> None:
    """Accepted content adds nothing to the content of the chunks around it."""
    decompressor = Decompressor(CODECS[codec], 1 << 16)
    good = _chunk(compressed(codec, b"content")) + _chunk(b"c", is_original=True)
    assert decompressor.decompress_all(memoryview(good), 1 << 16) == b"contentc"
    for empty in (_chunk(body), _chunk(b"", is_original=True), _chunk(b"")):
        for data, goods in ((empty, 0), (empty + good, 1), (good + empty, 1), (good + empty + good, 2)):
            try:
                content = decompressor.decompress_all(memoryview(data), 1 << 16)
            except OrcError:
                assert empty != _chunk(b"", is_original=True)
            else:
                assert content == b"contentc" * goods
    for end in range(1, len(good)):
        if end != len(good) - 4:
            with pytest.raises(OrcError, match="past the end of its stream"):
                decompressor.decompress_all(memoryview(good[:end]), 1 << 16)


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI])
def test_a_chunk_of_anything(rng: np.random.Generator, codec: int) -> None:
    decompressor = Decompressor(CODECS[codec], 1 << 16)
    for size in (1, 2, 3, 20, 300, 5000, 1 << 16):
        for content in (rng.bytes(size), bytes(size), bytes(rng.integers(0, 4, size, np.uint8))):
            data = _chunk(compressed(codec, content))
            assert decompressor.decompress_all(memoryview(data), 1 << 16) == content
            # the head of a chunk is the same
            stored = np.frombuffer(data, np.uint8)
            chunks = decompressor.list_chunks(
                stored, np.zeros(1, np.int64), np.array([len(data)]), np.zeros(1, np.int64)
            )
            for wanted in {1, size // 2, size - 1, size} - {0}:
                out, bounds = np.zeros(wanted, np.uint8), np.array([wanted])
                begins, loaded = decompressor.decompress(stored, chunks, bounds, bounds, out)
                assert (begins.tolist(), loaded.tolist()) == ([0], [wanted])
                assert out.tobytes() == content[:wanted]


def test_frames_that_do_not_tell_their_size(rng: np.random.Generator) -> None:
    """Blocks of whatever kind and size."""
    decompressor = Decompressor(CODECS[ZSTD], 1 << 18)
    for size in (1, 2, 3, 20, 31, 32, 300, 4095, 4096, 5000, 1 << 17, 1 << 18):
        for content in (
            rng.bytes(size),
            bytes(size),
            bytes(rng.integers(0, 4, size, np.uint8)),
            (rng.bytes(size // 2 + 1) * 2)[:size],
        ):
            for level in (1, 3, 19):
                body = zstandard.ZstdCompressor(level, write_content_size=False).compress(content)
                data = _chunk(body)
                stored = np.frombuffer(data, np.uint8)
                chunks = decompressor.list_chunks(
                    stored, np.zeros(1, np.int64), np.array([len(data)]), np.zeros(1, np.int64)
                )
                assert chunks.sizes.tolist() == [-1]
                assert decompressor.decompress_all(memoryview(data), 1 << 18) == content
    repeated = b"\x28\xb5\x2f\xfd\0\x58\x0b\0\0a"
    assert decompressor.decompress_all(memoryview(_chunk(repeated)), 1 << 18) == b"a"


@pytest.mark.parametrize("size", [1155, 2310, 4620, 1000, 1])
def test_windows_that_end_with_their_chunk(size: int, rng: np.random.Generator) -> None:
    """Nothing is lost or repeated between the windows of a stream, wherever the most that is loaded at once ends."""
    content = rng.integers(0, 256, 40 * max(size, 100), np.uint8).tobytes()
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    data = b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)
    codec = codec_of(ZLIB)
    for window in (size, 2 * size, 5 * size + 1, max(size // 3, 1)):
        source = CountedSource(BytesSource(data), ReadCounts())
        stored = StoredStream(source, StreamInformation(StreamKind.DATA, 1, 0, len(data)))
        count = -(-len(content) // window)
        # values that take more bytes later on: the first windows' shares of the stream are more than they need
        reader = SequentialReader(stored, Decompressor(codec, 1 << 16), max(count // 8, 1))
        read = b""
        for number in range(count):
            wanted = min(window, len(content) - len(read))
            segments: Segments | None = reader.segments(
                np.array([number]), np.array([number + 1]), np.array([window])
            )
            while segments is not None and int(segments.limits[0] - segments.starts[0]) < wanted:
                segments = reader.extend(segments)
            assert segments is not None
            start = int(segments.starts[0])
            read += segments.data[start : start + wanted].tobytes()
            reader.advance(np.array([[start + wanted, 0]]))
        assert read == content
