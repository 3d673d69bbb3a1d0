"""Blocks of single codecs that decompressors are known to take for something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from hindex.orc.compression import CODECS


@pytest.mark.parametrize("block", [1 << 10, 1 << 18, 1 << 20])
def test_lz4_blocks_that_seem_to_begin_with_their_length(block: int) -> None:
    """14 equal bytes: the first four of the block, 0x00015619, are a length that fits 256 KiB."""
    data = b"V" * 14 + bytes(range(128))
    packed = pa.Codec("lz4_raw").compress(data, asbytes=True)
    assert int.from_bytes(packed[:4], "little") < 1 << 18
    out = np.zeros(block, np.uint8)
    length = CODECS[4].into(memoryview(packed), out)
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
    out = np.zeros(len(data), np.uint8)
    codec = CODECS[5]
    assert codec.size(memoryview(frame)) == (len(data) if has_size and not flushes else None)
    assert codec.into(memoryview(frame), out) == len(data)
    assert out.tobytes() == data
    # the head alone is the same
    head = np.zeros(1000, np.uint8)
    assert codec.into(memoryview(frame), head) == 1000
    assert head.tobytes() == data[:1000]
    for behind in (b"\0", b"\0" * 4, frame):
        with pytest.raises(ValueError, match=f"there are {len(behind)} bytes behind the frame"):
            codec.into(memoryview(frame + behind), out)
