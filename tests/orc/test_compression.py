"""Blocks of single codecs that decompressors are known to take for something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from hindex.errors import OrcError
from hindex.orc.codec import CODECS, Decompressor
from tests.support.messages import raises


@pytest.mark.parametrize("block", [1 << 10, 1 << 18, 1 << 20])
def test_lz4_blocks_that_seem_to_begin_with_their_length(block: int) -> None:
    """14 equal bytes: the first four of the block, 0x00015619, are a length that fits 256 KiB."""
    data = b"V" * 14 + bytes(range(128))
    packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
    assert int.from_bytes(packed[:4], "little") < 1 << 18
    out = np.zeros(block, np.uint8)
    decompress = CODECS[4].decompress
    assert decompress is not None
    length = decompress(memoryview(packed), out)
    assert out[:length].tobytes() == data


def _frame(content: bytes, *, flushes: int, has_checksum: bool, has_size: bool) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=has_checksum, write_content_size=has_size)
    if not flushes:
        return compressor.compress(content)
    writer = compressor.compressobj()
    size = len(content) // flushes
    pieces = []
    for start in range(0, len(content), size):
        pieces += [
            writer.compress(content[start : start + size]),
            writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
        ]
    return b"".join([*pieces, writer.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)])


@pytest.mark.parametrize("content", ["random", "repeated", "text"])
@pytest.mark.parametrize("has_checksum", [True, False])
@pytest.mark.parametrize("has_size", [True, False])
@pytest.mark.parametrize("flushes", [0, 3])
def test_frames_of_zstd_as_writers_make_them(
    rng: np.random.Generator, content: str, has_checksum: bool, has_size: bool, flushes: int
) -> None:
    size = 300_000
    data = {
        "random": rng.bytes(size),
        "repeated": b"a" * size,
        "text": b"".join(b"%d," % n for n in rng.integers(0, 1000, size // 4)),
    }[content]
    frame = _frame(data, flushes=flushes, has_checksum=has_checksum, has_size=has_size)
    decompressor = Decompressor(CODECS[5], 1 << 19)
    stored = _chunk(frame)
    chunks = decompressor.list_chunks(
        stored, np.zeros(1, np.int64), np.array([len(stored)]), np.zeros(1, np.int64)
    )
    assert chunks.sizes.tolist() == [len(data) if has_size and not flushes else -1]
    # the head alone is the same as that of all
    for size in (len(data), 1000):
        out, wanted = np.zeros(size, np.uint8), np.array([size])
        _, loaded = decompressor.decompress(stored, chunks, wanted, wanted, out)
        assert loaded.tolist() == [size]
        assert out.tobytes() == data[:size]
    for behind in (b"\0", b"\0" * 4, frame):
        stored = _chunk(frame + behind)
        with raises(OrcError):
            decompressor.list_chunks(
                stored, np.zeros(1, np.int64), np.array([len(stored)]), np.zeros(1, np.int64)
            )


def _chunk(body: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer((len(body) << 1).to_bytes(3, "little") + body, np.uint8)


@pytest.mark.parametrize("damage", ["value", "claim", "behind", "cut"])
def test_the_corrupt_one_of_many_chunks_is_named(rng: np.random.Generator, damage: str) -> None:
    content = b"".join(b"%d," % n for n in rng.integers(0, 1000, 100_000))[:200_000]
    good = zstandard.ZstdCompressor(write_checksum=True).compress(content)
    bad = bytearray(good)
    if damage == "value":
        bad[-1] ^= 1
    elif damage == "claim":
        # one byte more than there is
        at = bad.index(len(content).to_bytes(4, "little"))
        bad[at : at + 4] = (len(content) + 1).to_bytes(4, "little")
    elif damage == "behind":
        bad += b"\0" * 8
    else:
        del bad[-100:]
    data = b"".join(_chunk(bytes(body)).tobytes() for body in (good, good, bad, good))
    with pytest.raises(OrcError, match=rf"chunk at byte {2 * (len(good) + 3)}\b"):
        Decompressor(CODECS[5], 1 << 18).decompress_all(memoryview(data), 1 << 20)


def test_few_stored_bytes_that_inflate_to_many() -> None:
    block = 1 << 20
    data = _chunk(zstandard.compress(bytes(block))).tobytes() * 3
    assert Decompressor(CODECS[5], block).decompress_all(memoryview(data), 3 * block) == bytes(3 * block)
    with pytest.raises(OrcError, match=f"{len(data)} stored bytes inflate beyond {3 * block - 1}"):
        Decompressor(CODECS[5], block).decompress_all(memoryview(data), 3 * block - 1)
