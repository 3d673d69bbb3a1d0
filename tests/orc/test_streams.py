"""What windows of streams give, beside the whole stream decompressed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
import zstandard
from isal import isal_zlib

from hindex.errors import OrcError
from hindex.orc.compression import CODECS, Decompressor
from hindex.orc.encoding.rle_v2.chain import follow
from hindex.orc.fetched import Fetched
from hindex.orc.places import Places
from hindex.orc.streams import StreamWindow

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
def test_spans_end_after_the_most_that_is_wanted(rng: np.random.Generator, codec: int) -> None:
    """With a chunk's end, and no more chunks than hold so much; their end position is not looked at."""
    cut = 0
    for _ in range(60):
        sizes = rng.integers(200, BLOCK + 1, int(rng.integers(2, 12))).tolist()
        stored, content, chunks = _stream(rng, codec, sizes)
        firsts = np.cumsum([0, *sizes])
        count = len(sizes)
        begin = int(rng.integers(count - 1))
        end = int(rng.integers(begin + 1, count))
        start = int(firsts[begin]) + int(rng.integers(sizes[begin]))
        limit = int(firsts[end]) + int(rng.integers(sizes[end]))
        most = int(rng.integers(1, len(content)))
        places = _place(chunks[begin], start - firsts[begin], chunks[end], limit - firsts[end])
        window = _window(stored, codec)
        found = window.spans(places, [True], np.array([most]))
        first, last = int(found.starts[0]), int(found.limits[0])
        taken = found.buffer[first:last].tobytes()
        assert taken == content[start : start + len(taken)]
        reach = int(firsts[np.searchsorted(firsts, start + most)]) if start + most < len(content) else 1 << 60
        if reach <= int(firsts[end]):
            cut += 1
            assert start + len(taken) == reach
            assert int(found.ends[0]) == last
        else:
            assert start + len(taken) >= min(limit, len(content))
            if reach > int(firsts[end]) + BLOCK:
                assert int(found.ends[0]) - first == limit - start
    assert cut > 5


@pytest.mark.parametrize("codec", [ZLIB, ZSTD])
def test_ends_that_are_no_chunks_are_refused(rng: np.random.Generator, codec: int) -> None:
    stored, _, chunks = _stream(rng, codec, [1000, 1000, 1000])
    for end in (int(chunks[1]) + 1, len(stored), len(stored) + 9):
        with pytest.raises(OrcError, match=f"a position points to byte {end}, which is not a chunk's first"):
            _window(stored, codec).spans(_place(0, 0, end, 0), [True], np.array([1 << 20]))


def _place(chunk: int, inner: int, end: int, end_inner: int) -> Places:
    """One row group, five values of which are in the run at its end."""
    at, zero = [np.array([n], np.int64) for n in (chunk, inner, end, end_inner)], np.zeros(1, np.int64)
    return Places(at[0], at[1], zero, at[2], at[3], zero + 5, zero)


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


@pytest.mark.parametrize("pieces", [1, 2])
def test_the_head_of_a_chunk_that_is_there_in_part(pieces: int) -> None:
    content = bytes(range(256)) * 2
    body = zstandard.ZstdCompressor().compress(content)
    chunk = (len(body) << 1).to_bytes(3, "little") + body
    stored, decompressor = memoryview(chunk * 2), Decompressor(CODECS[ZSTD], BLOCK)
    for held in range(30):
        asked: list[tuple[int, int]] = []

        def load(ranges: Sequence[tuple[int, int]], asked: list[tuple[int, int]] = asked) -> list[memoryview]:
            asked += ranges
            return [stored[at : at + length] for at, length in ranges]

        fetched, end = Fetched(len(stored), load), len(chunk) + held
        fetched.put(0, stored[:end])
        if pieces == 2:
            fetched.put(end, stored[end:])
        assert decompressor.size_of(fetched.outline(len(chunk), 21)) == len(content)
        assert bool(asked) == (pieces == 1 and held < 21)
