"""What windows of streams give, beside the whole stream decompressed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from isal import isal_zlib

from hindex.orc.compression import CODECS, Decompressor
from hindex.orc.encoding.rle_v2.chain import follow
from hindex.orc.fetched import Fetched
from hindex.orc.streams import Places, StreamWindow

Ints = npt.NDArray[np.int64]

ZLIB, ZSTD = 1, 5
BLOCK = 4096


def _stream(rng: np.random.Generator, codec: int, sizes: list[int]) -> tuple[bytes, bytes, Ints]:
    """A stream in chunks of some sizes, all of it decompressed, and where its chunks begin.

    Its bytes are headers and values of short runs at once, wherever one begins to read.
    """
    content = rng.integers(0, 64, sum(sizes), np.uint8).tobytes()
    stored, starts, at = b"", [], 0
    for size in sizes:
        piece = content[at : at + size]
        body = (
            zstandard.compress(piece)
            if codec == ZSTD
            else isal_zlib.compress(piece, wbits=-isal_zlib.MAX_WBITS)
        )
        starts.append(len(stored))
        stored += (len(body) << 1).to_bytes(3, "little") + body
        at += size
    return stored, content, np.array(starts, np.int64)


def _window(stored: bytes, codec: int) -> StreamWindow:
    fetched = Fetched(len(stored), mapped=[(0, memoryview(stored))])
    return StreamWindow(fetched, Decompressor(CODECS[codec], BLOCK))


@pytest.mark.parametrize("codec", [ZLIB, ZSTD])
def test_spans_are_the_stream_from_place_to_place(codec: int) -> None:
    rng = np.random.default_rng(5)
    across = 0
    for _ in range(60):
        sizes = rng.integers(600, BLOCK + 1, int(rng.integers(1, 9))).tolist()
        stored, content, chunks = _stream(rng, codec, sizes)
        firsts = np.cumsum([0, *sizes[:-1]])
        count = int(rng.integers(1, 60))
        ends = np.unique(rng.integers(1, len(content), count))
        starts = np.append(0, ends[:-1])
        # some of the groups are not wanted, so that chunks are passed over
        kept = rng.random(len(ends)) < 0.6
        starts, ends = starts[kept], ends[kept]
        if not len(starts):
            continue
        begin, end = (np.searchsorted(firsts, at, "right") - 1 for at in (starts, ends))
        across += int((begin < end).sum())
        skip = rng.integers(0, 12, len(ends))
        tails = rng.random(len(ends)) < 0.5
        places = Places(
            chunks[begin],
            starts - firsts[begin],
            np.zeros_like(starts),
            chunks[end],
            ends - firsts[end],
            skip,
            np.zeros_like(starts),
        )
        found = _window(stored, codec).spans(places, tails.tolist(), np.full(len(tails), 1 << 20))
        data = memoryview(content + b"\0" * 16)
        for g, start in enumerate(starts.tolist()):
            first, limit = int(found.starts[g]), int(found.limits[g])
            taken = found.buffer[first:limit].tobytes()
            assert taken == content[start : start + len(taken)]
            assert int(found.ends[g]) - first == int(ends[g]) - start
            needed = int(ends[g])
            if tails[g] and needed < len(content) - 200:
                needed = follow(data, needed, len(content), int(skip[g]), [])
            assert len(taken) >= needed - start
    assert across > 50


@pytest.mark.parametrize("codec", [ZLIB, ZSTD])
def test_values_are_found_over_chunks(codec: int) -> None:
    rng = np.random.default_rng(6)
    for _ in range(40):
        sizes = rng.integers(100, BLOCK + 1, int(rng.integers(1, 9))).tolist()
        stored, content, chunks = _stream(rng, codec, sizes)
        firsts = np.cumsum([0, *sizes[:-1]])
        cuts = np.unique(rng.integers(0, len(content), 2 * int(rng.integers(1, 40))))
        cuts = cuts[: len(cuts) // 2 * 2]
        low, high = cuts[::2], cuts[1::2].copy()
        # some are empty
        empty = rng.random(len(low)) < 0.2
        high[empty] = low[empty]
        groups = np.unique(rng.integers(0, len(low), 5))
        groups[0] = 0
        offsets = np.append(groups, len(low))
        starts = np.array([int(rng.integers(max(low[g] - 50, 0), low[g] + 1)) for g in groups])
        chunk = np.searchsorted(firsts, starts, "right") - 1
        zeros = np.zeros_like(starts)
        ends = np.full_like(starts, -1)
        places = Places(chunks[chunk], starts - firsts[chunk], zeros, ends, zeros, zeros, zeros)
        shift = np.repeat(starts, np.diff(offsets))
        buffer, begins = _window(stored, codec).values(places, offsets, low - shift, high - shift)
        for i, begin in enumerate(begins.tolist()):
            length = int(high[i] - low[i])
            assert buffer[begin : begin + length].tobytes() == content[low[i] : high[i]]
