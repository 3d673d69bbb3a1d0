"""Frames of zstd cut after some blocks, and many of them decompressed by one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import zstandard

from hindex.errors import OrcError
from hindex.orc import compression, zstd_frames
from hindex.orc.compression import CODECS, Chunk, Decompressor
from hindex.orc.fetched import Fetched
from hindex.orc.places import Places
from hindex.orc.streams import StreamWindow

BLOCK = 1 << 17
CHUNK = 1 << 18


def text(rng: np.random.Generator, length: int) -> bytes:
    return b"".join(b"%d," % n for n in rng.integers(0, 1000, length // 2))[:length]


def packed(content: bytes, write_checksum: bool = False) -> memoryview:
    return memoryview(zstandard.ZstdCompressor(level=3, write_checksum=write_checksum).compress(content))


def content_of(pieces: Sequence[bytes | memoryview]) -> bytes:
    return zstandard.ZstdDecompressor().decompress(b"".join(pieces))


@pytest.mark.parametrize("has_checksum", [True, False])
@pytest.mark.parametrize("length", [1000, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 5])
def test_the_first_blocks_of_a_frame(rng: np.random.Generator, length: int, has_checksum: bool) -> None:
    content = text(rng, length)
    body = packed(content, write_checksum=has_checksum)
    for wanted in (1, length - 1, length, *range(BLOCK, length, BLOCK), *range(BLOCK + 1, length, BLOCK)):
        pieces, count = zstd_frames.head(body, length, wanted)
        assert count == min(-(-wanted // BLOCK) * BLOCK, length)
        assert content_of(pieces) == content[:count]
        # nothing is compressed or copied for a frame that is wanted whole
        assert (pieces == [body]) == (count == length)


def flushed(content: bytes, at: Sequence[int]) -> memoryview:
    """A frame whose blocks end at some bytes."""
    writer = zstandard.ZstdCompressor(level=3).compressobj(size=len(content))
    pieces, begin = [], 0
    for end in at:
        pieces += [writer.compress(content[begin:end]), writer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)]
        begin = end
    return memoryview(b"".join([*pieces, writer.compress(content[begin:]), writer.flush()]))


def test_blocks_of_any_length(rng: np.random.Generator) -> None:
    """Of three blocks of a frame for two, nobody knows how much the first two have."""
    content = text(rng, 2 * BLOCK)
    body = flushed(content, [BLOCK - 30_000, BLOCK + 10_000])
    for wanted in (1, BLOCK, BLOCK + 1, 2 * BLOCK):
        assert zstd_frames.head(body, len(content), wanted) == ([body], len(content))


def test_blocks_that_are_as_many_and_shorter(rng: np.random.Generator) -> None:
    """What a cut frame's head says of two blocks is wrong if they have less; then chunks are taken one by one."""
    content = text(rng, 2 * BLOCK + 1000)
    body = flushed(content, [BLOCK - 500, 2 * BLOCK - 500])
    chunks = [Chunk(0, body, False, len(content)), Chunk(len(body) + 3, body, False, len(content))]
    decompressor = Decompressor(CODECS[5], 1 << 19)
    assert decompressor.together(chunks, [BLOCK + 1] * 2) is None
    assert decompressor.chunks == decompressor.bytes_in == decompressor.bytes_out == 0
    found = decompressor.together(chunks, [len(content)] * 2)
    assert found is not None
    assert found[0].tobytes() == content * 2 + bytes(16)


def test_a_frame_that_needs_a_dictionary_is_not_cut(rng: np.random.Generator) -> None:
    content = text(rng, 2 * BLOCK)
    samples: list[bytes | bytearray | memoryview] = [text(rng, 200) for _ in range(500)]
    dictionary = zstandard.train_dictionary(4096, samples)
    body = memoryview(zstandard.ZstdCompressor(dict_data=dictionary, write_dict_id=True).compress(content))
    assert zstd_frames.head(body, len(content), 1) == ([body], len(content))


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 7])
def test_bytes_that_are_not_compressed(rng: np.random.Generator, length: int) -> None:
    content = rng.bytes(length)
    frames = [*zstd_frames.plain(memoryview(content)), *zstd_frames.plain(memoryview(b"behind"))]
    assert zstd_frames.joined(frames, length + 6).tobytes() == content + b"behind"


def stream(rng: np.random.Generator, lengths: Sequence[int]) -> tuple[bytes, bytes, list[int]]:
    """A stream of chunks, some of which are stored as they are; its content; and where each chunk begins."""
    contents, chunks, offsets = [], [], [0]
    for length in lengths:
        content = rng.bytes(length) if rng.random() < 0.2 else text(rng, length)
        body = bytes(packed(content, write_checksum=bool(rng.integers(2))))
        original = rng.random() < 0.2 or len(body) >= length
        body = content if original else body
        chunks.append((len(body) << 1 | original).to_bytes(3, "little") + body)
        contents.append(content)
        offsets.append(offsets[-1] + len(chunks[-1]))
    return b"".join(chunks), b"".join(contents), offsets


def chunks_of(decompressor: Decompressor, data: bytes) -> list[Chunk]:
    return list(decompressor.chunks_of(memoryview(data)))


def test_chunks_together_are_the_chunks_one_by_one(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(10):
        lengths = rng.choice([1, 5000, BLOCK, BLOCK + 1, CHUNK], int(rng.integers(3, 9))).tolist()
        data, _, _ = stream(rng, [CHUNK, CHUNK, CHUNK, *lengths])
        one_by_one, together = Decompressor(CODECS[5], CHUNK), Decompressor(CODECS[5], CHUNK)
        chunks = chunks_of(together, data)
        sizes = [CHUNK, 0, CHUNK]
        sizes += [int(rng.integers(0, (chunk.size or 0) + 1)) for chunk in chunks[3:]]
        expected = []
        for chunk, size in zip(chunks, sizes, strict=True):
            out = np.zeros(size, np.uint8)
            if size:
                assert one_by_one.into(chunk, out) == size
            expected.append(out.tobytes())
        with monkeypatch.context() as patch:
            patch.setattr(zstandard, "ZstdDecompressor", None)
            found = together.together(chunks, sizes)
        assert found is not None
        buffer, bases = found
        assert not buffer[-16:].any()
        assert [buffer[at : at + size].tobytes() for at, size in zip(bases, sizes, strict=True)] == expected
        # what is not wanted of a chunk lies between it and the next, so it is before the zeros, too
        assert bases == sorted(bases)
        assert bases[-1] + sizes[-1] <= len(buffer) - 16 <= sum(-(-size // BLOCK) * BLOCK for size in sizes)
        counts = [(each.chunks, each.bytes_in, each.bytes_out) for each in (one_by_one, together)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("codec", "lengths"),
    [(5, [CHUNK]), (5, [1000, 1000]), (1, [CHUNK, CHUNK]), (0, [CHUNK, CHUNK])],
    ids=["one", "small", "zlib", "none"],
)
def test_what_is_not_worth_a_call_for_all(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, codec: int, lengths: list[int]
) -> None:
    monkeypatch.setattr(compression, "LEAST_JOINED", CHUNK)
    chunks = [Chunk(0, packed(text(rng, length)), False, length) for length in lengths]
    assert Decompressor(CODECS.get(codec), CHUNK).together(chunks, lengths) is None


@pytest.mark.parametrize("damage", ["value", "claim", "behind", "cut"])
def test_the_corrupt_one_of_many_chunks_is_named(rng: np.random.Generator, damage: str) -> None:
    content = text(rng, CHUNK)
    good = bytes(packed(content, write_checksum=True))
    bad = bytearray(good)
    if damage == "value":
        bad[-1] ^= 1
    elif damage == "claim":
        # one byte more than there is
        at = bad.index(CHUNK.to_bytes(4, "little"))
        bad[at : at + 4] = (CHUNK + 1).to_bytes(4, "little")
    elif damage == "behind":
        bad += b"\0" * 8
    else:
        del bad[-100:]
    data = b"".join((len(body) << 1).to_bytes(3, "little") + body for body in (good, good, bad, good))
    window = StreamWindow(
        Fetched(len(data), mapped=[(0, memoryview(data))]), Decompressor(CODECS[5], CHUNK * 2)
    )
    with pytest.raises(OrcError, match=rf"chunk at byte {2 * (len(good) + 3)}\b"):
        window.spans(Places.whole(), [False], np.array([1 << 40]))


def frame_of(length: int, blocks: bytes) -> bytes:
    return b"\x28\xb5\x2f\xfd\xa0" + length.to_bytes(4, "little") + blocks


def same_bytes(length: int, is_last: bool) -> bytes:
    return (length << 3 | 1 << 1 | is_last).to_bytes(3, "little") + b"y"


def test_a_chunk_that_is_cut_off_does_not_go_on_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LEAST_JOINED", 1)
    # behind what the first one lacks, the second one is a frame of as many bytes as it had
    inner = frame_of(13, same_bytes(13, True))
    second = frame_of(len(inner), (len(inner) << 3 | 1).to_bytes(3, "little") + inner)
    length = 10 + len(second) - len(inner)
    first = frame_of(length, (length << 3 | 1).to_bytes(3, "little") + b"x" * 10)
    data = b"".join((len(body) << 1).to_bytes(3, "little") + body for body in (first, second))
    window = StreamWindow(Fetched(len(data), mapped=[(0, memoryview(data))]), Decompressor(CODECS[5], CHUNK))
    with pytest.raises(OrcError, match=f"the chunk at byte 0 ends after 10 bytes and claims {length}"):
        window.spans(Places.whole(), [False], np.array([1 << 40]))


@pytest.mark.parametrize("empty_blocks", [0, 1], ids=["cut", "whole"])
def test_much_more_than_is_wanted_is_not_decompressed(
    monkeypatch: pytest.MonkeyPatch, empty_blocks: int
) -> None:
    monkeypatch.setattr(compression, "LEAST_JOINED", 1)
    blocks = [same_bytes(BLOCK, i == 63) for i in range(64)]
    body = memoryview(frame_of(64 * BLOCK, b"\0\0\0" * empty_blocks + b"".join(blocks)))
    chunks = [Chunk(at, body, False, 64 * BLOCK) for at in range(4)]
    decompressor = Decompressor(CODECS[5], 64 * BLOCK)
    assert decompressor.together(chunks, [1000] * 4) is None
    assert decompressor.together(chunks, [BLOCK * 60] * 4) is not None


def test_a_stored_chunk_among_others_that_is_larger_than_a_block_is_refused(rng: np.random.Generator) -> None:
    frame, content = bytes(packed(text(rng, CHUNK))), rng.bytes(CHUNK + 1)
    data = b"".join(
        (len(body) << 1 | original).to_bytes(3, "little") + body
        for body, original in ((frame, False), (content, True))
    )
    window = StreamWindow(Fetched(len(data), mapped=[(0, memoryview(data))]), Decompressor(CODECS[5], CHUNK))
    with pytest.raises(OrcError, match=f"a chunk of {CHUNK + 1} bytes is larger than the block size {CHUNK}"):
        window.spans(Places.whole(), [False], np.array([1 << 40]))


def test_a_chunk_that_had_to_be_looked_at_is_decompressed_once(rng: np.random.Generator) -> None:
    data, content, offsets = stream(rng, [CHUNK] * 4)
    decompressor = Decompressor(CODECS[5], CHUNK)
    window = StreamWindow(Fetched(len(data), mapped=[(0, memoryview(data))]), decompressor)
    one = [np.array([n]) for n in (0, 0, 0, offsets[2], CHUNK - 100, 5, 0)]
    spans = window.spans(Places(*one), [True], np.array([1 << 40]))
    found = spans.buffer[spans.starts[0] : spans.limits[0]].tobytes()
    assert len(found) > 3 * CHUNK - 100
    assert content.startswith(found)
    assert decompressor.chunks == 3 + (len(found) > 3 * CHUNK)


def test_a_window_is_decompressed_by_one_call(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, content, offsets = stream(rng, [CHUNK] * 6)
    calls = []
    joined = zstd_frames.joined

    def counted(pieces: Sequence[bytes | memoryview], length: int) -> zstd_frames.Bytes:
        calls.append(length)
        return joined(pieces, length)

    monkeypatch.setattr(zstd_frames, "joined", counted)
    decompressor = Decompressor(CODECS[5], CHUNK)
    window = StreamWindow(Fetched(len(data), mapped=[(0, memoryview(data))]), decompressor)
    # two groups: all of the second chunk and the head of the third; the head of the fifth
    chunk, end = np.array([offsets[1], offsets[4]]), np.array([offsets[2], offsets[4]])
    zero = np.zeros(2, np.int64)
    inner, end_inner = np.array([10, 100]), np.array([300, 2000])
    spans = window.spans(
        Places(chunk, inner, zero, end, end_inner, zero, zero), [False, False], np.array([1 << 40] * 2)
    )
    found = [
        spans.buffer[a:b].tobytes() for a, b in zip(spans.starts.tolist(), spans.limits.tolist(), strict=True)
    ]
    assert found == [content[CHUNK + 10 : 2 * CHUNK + 300], content[4 * CHUNK + 100 : 4 * CHUNK + 2000]]
    assert len(calls) == 1
    assert decompressor.chunks == 3
    assert decompressor.bytes_out == CHUNK + 300 + 2000
    # of the fourth and the sixth chunk nothing, and of those of which only the head is wanted one block at most
    assert calls[0] <= CHUNK + 2 * BLOCK + 16
