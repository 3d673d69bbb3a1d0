"""Blocks of single codecs that decompressors are known to take for something else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

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
