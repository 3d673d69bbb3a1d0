"""Headers of compressed chunks, and the frames of zstd in them, against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
import zstandard

from hindex.orc import kernel
from tests.orc.kernel.reference import BAD_FRAME
from tests.orc.kernel.segments import as_ints, assert_guarded, guarded

HIGH = (1 << 63) - 1

#: The offset of a chunk's header, the length of its body, and whether that is not compressed.
Chunk = tuple[int, int, int]


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def list_chunks(data: bytes, ranges: list[tuple[int, int, int]], room: int) -> tuple[int, list[Chunk]]:
    """The kernel's chunks of ranges: first byte, end, and how many more."""
    offsets, whole_offsets = guarded(room, np.int64)
    lengths, whole_lengths = guarded(room, np.int64)
    originals, whole_originals = guarded(room, np.uint8)
    begins, ends, extras = (as_ints([each[column] for each in ranges]) for column in range(3))
    count = kernel.list_chunks(as_bytes(data), begins, ends, extras, offsets, lengths, originals)
    for whole in (whole_offsets, whole_lengths, whole_originals):
        assert_guarded(whole)
    chunks = (offsets.tolist(), lengths.tolist(), originals.tolist())
    return count, list(zip(*chunks, strict=True))[: max(count, 0)]


def select(chunks: list[Chunk], ranges: list[tuple[int, int, int]]) -> list[Chunk]:
    """Those of the ranges, and some more behind each; none twice."""
    offsets = [offset for offset, _, _ in chunks]
    selected: list[Chunk] = []
    number = 0
    for begin, end, extra in ranges:
        first = offsets.index(begin) if begin in offsets else len(chunks)
        number = max(number, first) if selected else first
        while number < len(chunks) and offsets[number] < end:
            selected.append(chunks[number])
            number += 1
        # chunks behind this range may have been listed for the ones before
        more = max(0, extra - sum(offset >= end for offset, _, _ in selected))
        selected += chunks[number : number + more]
        number = min(number + more, len(chunks))
    return selected


def some_chunks(chance: random.Random) -> tuple[bytes, list[Chunk]]:
    data, chunks = chance.randbytes(chance.choice([0, 2])), []
    for _ in range(chance.choice([0, 1, 3, 9])):
        size, is_original = chance.choice([0, 1, 100, 70_000]), chance.randrange(2)
        chunks.append((len(data), size, is_original))
        data += (size << 1 | is_original).to_bytes(3, "little") + bytes(size)
    return data, chunks


def test_random_ranges(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(400):
        data, chunks = some_chunks(chance)
        begins = sorted(
            chance.choices([*(offset for offset, _, _ in chunks), len(data)], k=chance.choice([0, 1, 3]))
        )
        ends = [*(offset for offset, _, _ in chunks), chance.randint(0, len(data)), len(data)]
        ranges = [
            (begin, chance.choice([end for end in ends if end >= begin]), chance.choice([0, 0, 1, 2]))
            for begin in begins
        ]
        expected = select(chunks, ranges)
        assert list_chunks(data, ranges, len(chunks) + 3) == (len(expected), expected)
        few = chance.randint(0, len(expected))
        assert list_chunks(data, ranges, few) == (few, expected[:few])
        # a chunk that is cut short
        cut = chance.randint(0, len(data))
        broken = next((offset for offset, size, _ in expected if offset + 3 + size > cut), None)
        if broken is not None and broken < cut:
            assert list_chunks(data[:cut], ranges, len(chunks))[0] == -1 - broken


@pytest.mark.parametrize(
    ("data", "span", "count"),
    [
        # the specification's example: 100,000 bytes compressed, and five that are not
        (bytes.fromhex("400d03") + bytes(100_000), (0, 1, 0), 1),
        (bytes.fromhex("0b0000") + bytes(5), (0, 8, 5), 1),
        (b"", (0, 0, 9), 0),
        (b"", (0, 1, 0), -1),
        (b"\0", (0, 1, 0), -1),
        (b"\0\0", (0, 0, 1), -1),
        (b"\xff\xff\xff", (0, 3, 0), -1),
        (b"\0\0\0\2\0\0", (0, 6, 0), -4),
        (b"\0\0\0\2\0\0", (0, 3, 0), 1),
        (b"\0\0\0\2\0\0", (0, 3, 1), -4),
        # a range that ends where a chunk begins, and one more
        (bytes(9), (0, 3, 0), 1),
        (bytes(9), (0, 3, 1), 2),
        (bytes(9), (0, 4, 1), 3),
        (b"\0\0\0", (4, 9, 0), -5),
        (b"\0\0\0", (HIGH, HIGH, HIGH), 0),
        (b"\0\0\0", (HIGH - 1, HIGH, -HIGH), -HIGH),
        (b"\0\0\0", (0, -1, -1), 0),
    ],
)
def test_ranges(data: bytes, span: tuple[int, int, int], count: int) -> None:
    assert list_chunks(data, [span], 9)[0] == count


def test_ranges_that_do_not_fit() -> None:
    data, two, three, flags = as_bytes(bytes(9)), as_ints([0, 0]), as_ints([0, 0, 0]), np.zeros(2, np.uint8)
    for offsets, lengths, originals in ((three, two, flags), (two, three, flags), (two, two, flags[:1])):
        with pytest.raises(ValueError, match="same length"):
            kernel.list_chunks(data, two, two, two, offsets, lengths, originals)
    for arrays in ((three, two, two), (two, three, two), (two, two, three)):
        with pytest.raises(ValueError, match="as many"):
            kernel.list_chunks(data, *arrays, two, two, flags)
    with pytest.raises(ValueError, match="before the data"):
        kernel.list_chunks(data, as_ints([0, -1]), two, two, two, two, flags)


def frame_size(frame: bytes) -> int | None:
    """The content size of one whole frame by RFC 8878, -1 where its head does not have it; None for other bytes."""
    if frame[:4] != bytes.fromhex("28b52ffd") or len(frame) < 5:
        return None
    descriptor = frame[4]
    is_single = descriptor // 32 % 2 == 1
    size_bytes = [1 if is_single else 0, 2, 4, 8][descriptor // 64]
    at = 5 + (not is_single) + [0, 1, 2, 4][descriptor % 4]
    field = frame[at : at + size_bytes]
    if len(frame) < at + size_bytes:
        return None
    size = int.from_bytes(field, "little") + (256 if size_bytes == 2 else 0) if size_bytes else -1
    at += size_bytes
    is_last = False
    while not is_last:
        header = int.from_bytes(frame[at : at + 3], "little")
        if len(frame) < at + 3 or header // 2 % 4 == 3:
            return None
        is_last = header % 2 == 1
        at += 3 + (1 if header // 2 % 4 == 1 else header // 8)
        if at > len(frame):
            return None
    at += 4 * (descriptor // 4 % 2)
    if at != len(frame):
        return None
    return size if size <= 1 << 62 else -1


def measure(frames: list[tuple[bytes, int]]) -> tuple[int, list[int]]:
    """The kernel's sizes of chunks, each with whether it is not compressed."""
    data, offsets = b"", []
    for frame, is_original in frames:
        offsets.append(len(data))
        data += (len(frame) << 1 | is_original).to_bytes(3, "little") + frame
    sizes, whole = guarded(len(frames), np.int64)
    result = kernel.measure_frames(
        as_bytes(data),
        as_ints(offsets),
        as_ints([len(frame) for frame, _ in frames]),
        np.array([is_original for _, is_original in frames], np.uint8),
        sizes,
    )
    assert_guarded(whole)
    if result:
        assert result & 255 == BAD_FRAME
        assert result >> 8 in offsets
        return offsets.index(result >> 8), sizes.tolist()
    return -1, sizes.tolist()


def some_frame(chance: random.Random) -> tuple[bytes, int]:
    length = chance.choice([0, 1, 255, 256, 300, 66_000, 200_000])
    content = bytes(length) if chance.random() < 0.5 else chance.randbytes(length)
    has_size = chance.random() < 0.8
    compressor = zstandard.ZstdCompressor(
        level=chance.choice([1, 3]), write_checksum=chance.random() < 0.5, write_content_size=has_size
    )
    frame = compressor.compress(content)
    assert zstandard.get_frame_parameters(frame).content_size == (len(content) if has_size else (1 << 64) - 1)
    return frame, len(content) if has_size else -1


def test_frames_of_a_compressor(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        frames = [some_frame(chance) for _ in range(chance.choice([0, 1, 4]))]
        for frame, size in frames:
            assert frame_size(frame) == size
        chunks = [(frame, 0) for frame, _ in frames]
        assert measure(chunks) == (-1, [size for _, size in frames])
        # not compressed: as many bytes as there are, whatever they are
        assert measure([(frame, 1) for frame, _ in frames]) == (-1, [len(frame) for frame, _ in frames])
        for other in (b"", frames[0][0] + b"\0", frames[0][0] * 2, frames[0][0][:-1]) if frames else ():
            wrong = chance.randint(0, len(chunks))
            number, sizes = measure([*chunks[:wrong], (other, 0), *chunks[wrong:]])
            assert number == wrong
            assert sizes[:wrong] == [size for _, size in frames[:wrong]]


def test_damaged_frames(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    outcomes = set()
    for _ in range(600):
        frame = bytearray(some_frame(chance)[0][: chance.choice([1 << 20, 400])])
        if chance.random() < 0.3:
            frame = frame[: chance.randrange(len(frame) + 1)]
        for _ in range(chance.choice([0, 1, 2]) if frame else 0):
            frame[chance.randrange(min(len(frame), 20))] = chance.choice([0, 255, chance.randrange(256)])
        expected = frame_size(bytes(frame))
        number, sizes = measure([(bytes(frame), 0)])
        assert (number, sizes[0] if number else None) == (
            (-1, expected) if expected is not None else (0, None)
        )
        outcomes.add(expected is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        # a size of eight bytes, of which no content has so many
        ("28b52ffde0" + "ff" * 8 + "010000", -1),
        ("28b52ffde0" + "00" * 7 + "40" + "010000", 1 << 62),
        ("28b52ffde0" + "01" + "00" * 6 + "40" + "010000", -1),
        # two bytes are 256 more
        ("28b52ffd60" + "0000" + "010000", 256),
        # a dictionary's number of one, two and four bytes
        ("28b52ffd21" + "aa" + "05" + "010000", 5),
        ("28b52ffd22" + "aabb" + "05" + "010000", 5),
        ("28b52ffd23" + "aabbccdd" + "05" + "010000", 5),
        # a window, and no size
        ("28b52ffd00" + "aa" + "010000", -1),
        # blocks: raw, of one byte repeated, compressed
        ("28b52ffd2000" + "100000aabb" + "fa0f00cc" + "050000", 0),
        # a reserved one
        ("28b52ffd2000" + "070000", None),
        # a checksum that is cut short
        ("28b52ffd2400" + "010000" + "aabbcc", None),
        ("28b52ffd2400" + "010000" + "aabbccdd", 0),
        # a skippable frame
        ("502a4d1800000000", None),
        ("28b52ffd", None),
        ("28b52ffd20", None),
    ],
)
def test_frames(frame: str, size: int | None) -> None:
    assert frame_size(bytes.fromhex(frame)) == size
    number, sizes = measure([(bytes.fromhex(frame), 0)])
    assert (number, sizes[0] if number else None) == ((-1, size) if size is not None else (0, None))


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (-1, 1),
        (0, -1),
        (0, 7),
        (7, 0),
        (1, 6),
        (HIGH, HIGH),
        (HIGH, 0),
        (0, HIGH),
        (-HIGH, HIGH),
        (-HIGH - 1, 0),
    ],
)
@pytest.mark.parametrize("is_original", [0, 1])
def test_chunks_outside_of_the_data(offset: int, length: int, is_original: int) -> None:
    sizes = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="outside the data"):
        kernel.measure_frames(
            as_bytes(bytes(9)), as_ints([offset]), as_ints([length]), np.array([is_original], np.uint8), sizes
        )


def test_sizes_that_do_not_fit() -> None:
    one, two, flags = as_ints([0]), as_ints([0, 0]), np.zeros(1, np.uint8)
    for arrays in (
        (two, one, flags, one),
        (one, two, flags, one),
        (one, one, flags[:0], one),
        (one, one, flags, two),
    ):
        with pytest.raises(ValueError, match="same length"):
            kernel.measure_frames(as_bytes(bytes(9)), *arrays)
