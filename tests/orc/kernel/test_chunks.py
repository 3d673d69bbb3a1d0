"""Headers of compressed chunks, what of them is needed, and their contents, against plain Python."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import cramjam
import numpy as np
import pytest
import zstandard
from numpy.typing import NDArray

from hindex.orc import kernel
from hindex.orc.codec import zstd_functions
from tests.orc.kernel.reference import (
    BAD_BLOCK_SIZE,
    BAD_CHUNK,
    BAD_CONTENT,
    BAD_FRAME,
    BEYOND_CHUNK,
    INSIDE_CHUNK,
    SHORT_CONTENT,
    SNAPPY,
    STREAM_ENDS,
    ZSTD,
)
from tests.orc.kernel.segments import as_ints, assert_guarded, guarded
from tests.support.messages import raises

HIGH = (1 << 63) - 1
#: Positions are below it.
FAR = 1 << 54

#: The offset of a chunk's header, the length of its body, whether that is not compressed, and the size of the content.
Chunk = tuple[int, int, int, int]


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def chunk_of(body: bytes, is_original: int = 0) -> bytes:
    return (len(body) << 1 | is_original).to_bytes(3, "little") + body


def other_lengths(arguments: list[Any], numbers: range) -> list[list[Any]]:
    """The same arguments, but for one of some arrays that is too short, or too long."""
    return [
        [*arguments[:at], other, *arguments[at + 1 :]]
        for at in numbers
        for other in (arguments[at][:-1], np.concatenate([arguments[at], arguments[at][:1]]))
    ]


def block_of(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def list_chunks(
    data: bytes, ranges: list[tuple[int, int, int]], room: int, codec: int = 0
) -> tuple[int, list[Chunk]]:
    """The kernel's chunks of ranges: first byte, end, and how many more; those that it lists before an error, too."""
    outputs: list[tuple[Any, Any]] = [
        guarded(room, dtype) for dtype in (np.int64, np.int64, np.uint8, np.int64)
    ]
    begins, ends, extras = (as_ints([each[column] for each in ranges]) for column in range(3))
    zstd = zstd_functions() if codec == ZSTD else None
    count = kernel.list_chunks(
        as_bytes(data), begins, ends, extras, codec, zstd, *(out for out, _ in outputs)
    )
    for _, whole in outputs:
        assert_guarded(whole)
    chunks = list(zip(*(out.tolist() for out, _ in outputs), strict=True))
    return count, chunks if count < 0 else chunks[:count]


def broken(offset: int, code: int) -> int:
    return -1 - (offset << 8 | code)


def select(chunks: list[Chunk], ranges: list[tuple[int, int, int]]) -> list[Chunk]:
    """Those of the ranges, and some more behind each; none twice."""
    offsets = [offset for offset, *_ in chunks]
    selected: list[Chunk] = []
    number = 0
    for begin, end, extra in ranges:
        first = offsets.index(begin) if begin in offsets else len(chunks)
        number = max(number, first) if selected else first
        while number < len(chunks) and offsets[number] < end:
            selected.append(chunks[number])
            number += 1
        # chunks behind this range may have been listed for the ones before
        more = max(0, extra - sum(offset >= end for offset, *_ in selected))
        selected += chunks[number : number + more]
        number = min(number + more, len(chunks))
    return selected


def some_chunks(chance: random.Random) -> tuple[bytes, list[Chunk]]:
    data, chunks = chance.randbytes(chance.choice([0, 2])), []
    for _ in range(chance.choice([0, 1, 3, 9])):
        size, is_original = chance.choice([0, 1, 100, 70_000]), chance.randrange(2)
        chunks.append((len(data), size, is_original, size if is_original else -1))
        data += chunk_of(bytes(size), is_original)
    return data, chunks


def test_random_ranges(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(400):
        data, chunks = some_chunks(chance)
        offsets = [offset for offset, *_ in chunks]
        begins = sorted(chance.choices([*offsets, len(data)], k=chance.choice([0, 1, 3])))
        ends = [*offsets, chance.randint(0, len(data)), len(data)]
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
        wrong = next((offset for offset, size, *_ in expected if offset + 3 + size > cut), None)
        if wrong is not None and wrong < cut:
            assert list_chunks(data[:cut], ranges, len(chunks))[0] == broken(wrong, BAD_CHUNK)


@pytest.mark.parametrize(
    ("data", "span", "count"),
    [
        # the specification's example: 100,000 bytes compressed, and five that are not
        (bytes.fromhex("400d03") + bytes(100_000), (0, 1, 0), 1),
        (bytes.fromhex("0b0000") + bytes(5), (0, 8, 5), 1),
        (b"", (0, 0, 9), 0),
        (b"", (0, 1, 0), broken(0, BAD_CHUNK)),
        (b"\0", (0, 1, 0), broken(0, BAD_CHUNK)),
        (b"\0\0", (0, 0, 1), broken(0, BAD_CHUNK)),
        (b"\xff\xff\xff", (0, 3, 0), broken(0, BAD_CHUNK)),
        (b"\0\0\0\2\0\0", (0, 6, 0), broken(3, BAD_CHUNK)),
        (b"\0\0\0\2\0\0", (0, 3, 0), 1),
        (b"\0\0\0\2\0\0", (0, 3, 1), broken(3, BAD_CHUNK)),
        # a range that ends where a chunk begins, and one more
        (bytes(9), (0, 3, 0), 1),
        (bytes(9), (0, 3, 1), 2),
        (bytes(9), (0, 4, 1), 3),
        (b"\0\0\0", (4, 9, 0), broken(4, BAD_CHUNK)),
        (b"\0\0\0", (FAR - 1, HIGH, HIGH), broken(FAR - 1, BAD_CHUNK)),
        (b"\0\0\0", ((1 << 54) - 1, HIGH, -HIGH), broken((1 << 54) - 1, BAD_CHUNK)),
        (b"\0\0\0", (0, -1, -1), 0),
    ],
)
def test_ranges(data: bytes, span: tuple[int, int, int], count: int) -> None:
    assert list_chunks(data, [span], 9)[0] == count


def test_ranges_that_do_not_fit() -> None:
    data, two, three = as_bytes(bytes(9)), as_ints([0, 0]), as_ints([0, 0, 0])
    fitting: list[Any] = [two, two, np.zeros(2, np.uint8), two]
    assert kernel.list_chunks(data, two, two, two, 0, None, *fitting) == 0
    for other in other_lengths(fitting, range(4)):
        with raises(ValueError):
            kernel.list_chunks(data, two, two, two, 0, None, *other)
    for arrays in ((three, two, two), (two, three, two), (two, two, three)):
        with raises(ValueError):
            kernel.list_chunks(data, *arrays, 0, None, *fitting)
    for begin in (-1, FAR, HIGH):
        with raises(ValueError):
            kernel.list_chunks(data, as_ints([0, begin]), two, two, 0, None, *fitting)


@pytest.mark.parametrize(
    ("codec", "body", "code"), [(ZSTD, b"\x02no", BAD_FRAME), (SNAPPY, b"\xff" * 5, BAD_BLOCK_SIZE)]
)
def test_only_listed_chunks_are_looked_at(codec: int, body: bytes, code: int) -> None:
    """Sound, not sound, and the same bytes as they are."""
    good = chunk_of(zstandard.compress(b"12345") if codec == ZSTD else block_of(b"12345"))
    wrong, original = chunk_of(body), chunk_of(body, 1)
    data = original + good + wrong + original
    at, end = len(original) + len(good), len(original) + len(good) + len(wrong)
    assert list_chunks(data, [(0, at, 0)], 9, codec) == list_chunks(data, [(0, end, 0)], 2, codec)
    count, chunks = list_chunks(data, [(0, at, 0)], 9, codec)
    assert (count, [chunk[3] for chunk in chunks]) == (2, [len(body), 5])
    assert list_chunks(data, [(end, len(data), 0)], 9, codec) == (1, [(end, len(body), 1, len(body))])
    for span in ((0, at, 1), (0, len(data), 0), (at, end, 0)):
        assert list_chunks(data, [span], 9, codec)[0] == broken(at, code)
    count, chunks = list_chunks(data, [(0, len(data), 0)], 9)
    assert [chunk[3] for chunk in chunks] == [len(body), -1, -1, len(body)]
    # the header of a chunk is read before its body
    assert list_chunks(data[: end - 1], [(at, end, 0)], 9, codec)[0] == broken(at, BAD_CHUNK)


def frame_size(frame: bytes) -> int | None:
    """The content size of one whole frame by RFC 8878, -1 where its head does not have it; None for other bytes.

    Frames with the reserved bit, or a window above 2^31 bytes, are not decompressed.
    """
    if frame[:4] != bytes.fromhex("28b52ffd") or len(frame) < 5:
        return None
    descriptor = frame[4]
    is_single = descriptor // 32 % 2 == 1
    if descriptor // 8 % 2 or (not is_single and len(frame) > 5 and 10 + frame[5] // 8 > 31):
        return None
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
    return size if size < FAR else -1


def measure(bodies: list[tuple[bytes, int]], codec: int = ZSTD) -> tuple[int, list[int]]:
    """The number of a broken chunk, or -1, and the sizes of those before, each with whether it is not compressed."""
    chunks = [chunk_of(*body) for body in bodies]
    offsets = [sum(map(len, chunks[:number])) for number in range(len(chunks))]
    data = b"".join(chunks)
    count, listed = list_chunks(data, [(0, len(data), 0)], len(chunks), codec)
    number = count
    if count < 0:
        assert -1 - count & 255 == (BAD_FRAME if codec == ZSTD else BAD_BLOCK_SIZE)
        number = offsets.index(-1 - count >> 8)
    expected = [(offset, len(body), flag) for offset, (body, flag) in zip(offsets, bodies, strict=True)]
    assert [chunk[:3] for chunk in listed][:number] == expected[:number]
    return number if count < 0 else -1, [chunk[3] for chunk in listed[:number]]


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
            assert (number, sizes) == (wrong, [size for _, size in frames[:wrong]])


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
        assert measure([(bytes(frame), 0)]) == ((-1, [expected]) if expected is not None else (0, []))
        outcomes.add(expected is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        # a size of eight bytes, of which no content has so many
        ("28b52ffde0" + "ff" * 8 + "010000", -1),
        ("28b52ffde0" + "ff" * 6 + "3f00" + "010000", (1 << 54) - 1),
        ("28b52ffde0" + "00" * 6 + "40" + "00" + "010000", -1),
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
    assert measure([(bytes.fromhex(frame), 0)]) == ((-1, [size]) if size is not None else (0, []))


def test_blocks_of_a_compressor(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(60):
        sizes = [
            chance.choice([0, 1, 127, 128, 16_383, 16_384, 70_000]) for _ in range(chance.choice([0, 1, 4]))
        ]
        blocks = [block_of(bytes(size)) for size in sizes]
        assert measure([(block, 0) for block in blocks], SNAPPY) == (-1, sizes)
        assert measure([(block, 1) for block in blocks], SNAPPY) == (-1, [len(block) for block in blocks])
        wrong = chance.randint(0, len(blocks))
        bodies = [(block, 0) for block in blocks]
        bodies.insert(wrong, (chance.choice([b"", b"\x80", b"\x80" * 4, b"\xff" * 5 + b"\0"]), 0))
        assert measure(bodies, SNAPPY) == (wrong, sizes[:wrong])


@pytest.mark.parametrize(
    ("block", "size"),
    [
        ("00", 0),
        ("7fff", 127),
        ("8001", 128),
        ("8000", 0),
        ("ffffffff0f", (1 << 32) - 1),
        ("ffffffff7f", (1 << 35) - 1),
        ("808080800100", 1 << 28),
        ("ffffffffff00", None),
        ("808080", None),
        ("ff", None),
    ],
)
def test_blocks(block: str, size: int | None) -> None:
    assert measure([(bytes.fromhex(block), 0)], SNAPPY) == ((-1, [size]) if size is not None else (0, []))


#: Of a segment: begin, inner, end, end_inner, has_tail, max_bytes.
Segment = tuple[int, int, int, int, int, int]


def select_chunks(
    chunks: list[tuple[int, int]],
    segments: list[Segment],
    extras: int = 0,
    max_tail: int = 0,
    block_size: int = 0,
) -> tuple[int, list[list[int]]]:
    """The kernel's firsts, lasts, wanted and needed for chunks with an offset and a size."""
    outputs: list[Any] = [guarded(len(each), np.int64) for each in (segments, segments, chunks, chunks)]
    columns = [[each[column] for each in segments] for column in range(6)]
    arrays: list[Any] = [
        np.array(each, np.uint8 if column == 4 else np.int64) for column, each in enumerate(columns)
    ]
    offsets, sizes = (as_ints([each[column] for each in chunks]) for column in range(2))
    arrays += [extras, max_tail, block_size, *(out for out, _ in outputs)]
    code = kernel.select_chunks(offsets, sizes, *arrays)
    for _, whole in outputs:
        assert_guarded(whole)
    return code, [out.tolist() for out, _ in outputs]


def expected_chunks(
    chunks: list[tuple[int, int]], segments: list[Segment], extras: int, max_tail: int, block_size: int
) -> list[list[int]] | None:
    """The same by the bytes that each segment may read, each a chunk and a place in it; None inside a chunk."""
    sizes = [size if size >= 0 else block_size for _, size in chunks]
    firsts, lasts, needed = [-1] * len(segments), [-1] * len(segments), [-1] * len(chunks)
    read = set[tuple[int, int]]()
    for s, (begin, inner, end, end_inner, has_tail, max_bytes) in enumerate(segments):
        if begin < end and begin not in [offset for offset, _ in chunks]:
            return None
        is_cut = end_inner > 0 or has_tail
        own = [
            i
            for i, (offset, _) in enumerate(chunks)
            if begin <= offset and offset < end + (1 if is_cut else 0)
        ]
        if not own:
            continue
        behind = list(range(own[-1] + 1, len(chunks)))[:extras] if has_tail else []
        whole = own[:-1] if is_cut else own
        read |= {(i, byte) for i in whole for byte in range(sizes[i])}
        if is_cut:
            content = [(i, byte) for i in (own[-1], *behind) for byte in range(sizes[i])]
            read |= set(content[: end_inner + (max_tail if has_tail else 0)])
        firsts[s], lasts[s] = own[0], [*own, *behind][-1]
        needed[own[0]] = max(needed[own[0]], inner + max_bytes)
    wanted = [max((byte + 1 for at, byte in read if at == i), default=0) for i in range(len(chunks))]
    return [firsts, lasts, wanted, needed]


def some_offsets(chance: random.Random) -> tuple[list[int], int]:
    """Return a random chunk list, and the end of its last chunk."""
    bounds = list(
        accumulate([chance.randint(3, 9) for _ in range(chance.choice([0, 1, 2, 5, 8]))], initial=0)
    )
    first = chance.choice([0, 4])
    return [first + bound for bound in bounds[:-1]], first + bounds[-1]


def test_random_chunks_of_segments(rng: np.random.Generator) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    outcomes = set()
    for _ in range(1500):
        offsets, stop = some_offsets(chance)
        chunks = [(offset, chance.choice([-1, 0, 1, 5, 12])) for offset in offsets]
        segments: list[Segment] = []
        for _ in range(chance.choice([0, 1, 1, 2, 4])):
            begin = chance.choice([*offsets, stop] if chance.random() < 0.95 else range(stop + 3))
            end = chance.choice(
                [*[each for each in (*offsets, stop) if each >= begin], chance.randint(0, stop)]
            )
            inner, end_inner = chance.choice([0, 0, 3]), chance.choice([0, 0, 1, 5, 14])
            segments.append((begin, inner, end, end_inner, chance.randrange(2), chance.choice([0, 1, 40])))
        limits = chance.choice([0, 1, 2, 9]), chance.choice([0, 1, 6, 30]), chance.choice([0, 1, 7])
        expected = expected_chunks(chunks, segments, *limits)
        code, selected = select_chunks(chunks, segments, *limits)
        assert code == (INSIDE_CHUNK if expected is None else 0)
        assert expected is None or selected == expected
        outcomes.add(code)
    assert outcomes == {0, INSIDE_CHUNK}


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        # the segment has whole chunks, a part of its last chunk, and a run that may go on behind it
        ((0, 2, 10, 0, 0, 5), [[0], [1], [7, 5, 0, 0], [7, -1, -1, -1]]),
        ((0, 2, 10, 3, 0, 5), [[0], [2], [7, 5, 3, 0], [7, -1, -1, -1]]),
        ((5, 0, 10, 0, 1, 0), [[1], [3], [0, 5, 4, 6], [-1, 0, -1, -1]]),
        ((5, 0, 5, 2, 1, 0), [[1], [2], [0, 5, 4, 0], [-1, 0, -1, -1]]),
        # none
        ((5, 2, 5, 0, 0, 9), [[-1], [-1], [0, 0, 0, 0], [-1, -1, -1, -1]]),
        ((20, 2, 20, 0, 0, 9), [[-1], [-1], [0, 0, 0, 0], [-1, -1, -1, -1]]),
        ((15, 0, 5, 1, 1, 9), [[-1], [-1], [0, 0, 0, 0], [-1, -1, -1, -1]]),
    ],
)
def test_chunks_of_a_segment(segment: Segment, expected: list[list[int]]) -> None:
    """The first chunk does not tell its size: it counts as seven bytes. A run has ten, and up to one more chunk."""
    chunks = [(0, -1), (5, 5), (10, 4), (15, 9)]
    assert select_chunks(chunks, [segment], 1, 10, 7) == (0, expected)


@pytest.mark.parametrize("begin", [1, 4, 11, FAR - 1])
def test_segments_that_begin_inside_of_a_chunk(begin: int) -> None:
    good = (0, 0, 5, 0, 0, 1)
    assert select_chunks([(0, 5), (5, 5), (10, 5)], [good, (begin, 0, begin, 0, 0, 0)])[0] == 0
    if begin < FAR - 1:
        wrong = (begin, 0, begin + 1, 0, 0, 1)
        assert select_chunks([(0, 5), (5, 5), (10, 5)], [good, wrong])[0] == INSIDE_CHUNK
        assert select_chunks([], [wrong])[0] == INSIDE_CHUNK


@pytest.mark.parametrize("value", [-1, FAR, HIGH, -HIGH - 1])
def test_segments_beyond_any_file(value: int) -> None:
    for at in (0, 1, 2, 3, *([5] if value < 0 else [])):
        segment: list[Any] = [0, 0, 5, 0, 1, 0]
        segment[at] = value
        with raises(ValueError):
            select_chunks([(0, 5), (5, 5)], [(0, 0, 5, 0, 1, 0), (*segment,)])
    for limits in ({"extras": value}, {"max_tail": value}, {"block_size": value}):
        with raises(ValueError):
            select_chunks([(0, 5)], [], **limits)
    if value > 0:
        with raises(ValueError):
            select_chunks([(0, 5), (5, value)], [])


def test_segments_at_the_end_of_any_file() -> None:
    """As many bytes as there may be suffice."""
    most = FAR - 1
    for max_bytes, needed in ((most, 2 * most), (FAR, most + FAR), (HIGH, most + FAR)):
        segment = (0, most, most, most, 1, max_bytes)
        _, selected = select_chunks([(0, 5), (most, -1)], [segment], most, most, most)
        assert selected == [[0], [1], [5, most], [needed, -1]]


def test_arrays_of_segments_that_do_not_fit() -> None:
    two = as_ints([0, 0])
    arguments: list[Any] = [
        as_ints([0, 9]),
        *[two] * 5,
        np.zeros(2, np.uint8),
        two,
        0,
        0,
        0,
        *(two.copy() for _ in range(4)),
    ]
    assert kernel.select_chunks(*arguments) == 0
    for numbers in (range(2, 8), range(11, 13)):
        for other in other_lengths(arguments, numbers):
            with raises(ValueError):
                kernel.select_chunks(*other)
    for numbers in (range(2), range(13, 15)):
        for other in other_lengths(arguments, numbers):
            with raises(ValueError):
                kernel.select_chunks(*other)


#: Of values within a segment: its begin, inner and end, and the begin and length of each of them.
ValuesSegment = tuple[int, int, int, list[tuple[int, int]]]


def select_values(
    offsets: list[int], edges: list[int], segments: list[ValuesSegment]
) -> tuple[int, list[int], list[tuple[int, int]]]:
    """The kernel's bytes of each chunk, and the chunk of each value and its place in it."""
    values = [value for *_, each in segments for value in each]
    wanted, whole_wanted = guarded(len(offsets), np.int64)
    heads, whole_heads = guarded(len(values), np.int64)
    insides, whole_insides = guarded(len(values), np.int64)
    begins, inners, ends = (as_ints([each[column] for each in segments]) for column in range(3))  # type: ignore[misc]
    bounds = as_ints([0, *accumulate(len(each[3]) for each in segments)])
    lows, lengths = (as_ints([value[column] for value in values]) for column in range(2))
    code = kernel.select_values(
        *(as_ints(offsets), as_ints(edges), begins, inners, ends, bounds, lows, lengths),
        *(wanted, heads, insides),
    )
    for whole in (whole_wanted, whole_heads, whole_insides):
        assert_guarded(whole)
    return code, wanted.tolist(), list(zip(heads.tolist(), insides.tolist(), strict=True))


def expected_values(
    offsets: list[int], edges: list[int], segments: list[ValuesSegment]
) -> tuple[int, list[int], list[tuple[int, int]]]:
    """The same by the chunk and the place of each byte of the contents."""
    sizes = [end - begin for begin, end in pairwise(edges)]
    places = [(i, byte) for i, size in enumerate(sizes) for byte in range(size)]
    wanted, heads = [0] * len(offsets), list[tuple[int, int]]()
    for begin, inner, end, values in segments:
        if begin < end and begin not in offsets:
            return INSIDE_CHUNK, wanted, heads
        first = sum(sizes[i] for i, offset in enumerate(offsets) if offset < begin) + inner
        last = sum(sizes[i] for i, offset in enumerate(offsets) if offset < max(begin, end))
        if first > last:
            return BEYOND_CHUNK, wanted, heads
        for low, length in values:
            if first + low + length > last:
                return STREAM_ENDS, wanted, heads
            part = places[first + low : first + low + length]
            heads.append(part[0] if part else (0, 0))
            for i, byte in part:
                wanted[i] = max(wanted[i], byte + 1)
    return 0, wanted, heads


def test_random_values_in_chunks(rng: np.random.Generator) -> None:
    """Any values of segments, in any order; empty ones, and of empty chunks."""
    chance = random.Random(int(rng.integers(1 << 32)))
    outcomes = set()
    for _ in range(1500):
        offsets, stop = some_offsets(chance)
        sizes = [chance.choice([0, 1, 5, 12]) for _ in offsets]
        edges = list(accumulate(sizes, initial=chance.choice([0, 0, 50])))
        segments: list[ValuesSegment] = []
        for _ in range(chance.choice([0, 1, 1, 3])):
            begin = chance.choice([*offsets, stop] if chance.random() < 0.95 else range(stop + 3))
            end = chance.choice(
                [*[each for each in (*offsets, stop) if each >= begin], chance.randint(0, stop)]
            )
            total = sum(size for offset, size in zip(offsets, sizes, strict=True) if begin <= offset < end)
            inner = chance.randint(0, total) if chance.random() < 0.95 else total + 1
            values = []
            for _ in range(chance.choice([0, 1, 4])):
                low = chance.randint(0, max(total - inner, 0))
                room = max(total - inner - low, 0)
                values.append((low, chance.choice([0, 1, room, chance.randint(0, room)])))
                if chance.random() < 0.95:
                    values[-1] = low, min(values[-1][1], room)
            segments.append((begin, inner, end, values))
        code, wanted, heads = expected_values(offsets, edges, segments)
        selected = select_values(offsets, edges, segments)
        outcomes.add(code)
        assert selected[0] == code
        assert selected[2][: len(heads)] == heads
        assert selected[1] == wanted
    assert outcomes == {0, INSIDE_CHUNK, BEYOND_CHUNK, STREAM_ENDS}


@pytest.mark.parametrize(
    ("begin", "inner", "end", "value", "code"),
    [
        (10, 0, 20, (0, 9), 0),
        (10, 0, 20, (0, 10), STREAM_ENDS),
        (10, 4, 20, (5, 0), 0),
        (10, 4, 20, (5, 1), STREAM_ENDS),
        (10, 4, 20, (6, 0), STREAM_ENDS),
        (10, 9, 20, (0, 0), 0),
        (10, 10, 20, (0, 0), BEYOND_CHUNK),
        (10, FAR - 1, 20, (0, 0), BEYOND_CHUNK),
        (10, 0, FAR - 1, (FAR - 1, FAR - 1), STREAM_ENDS),
        (10, 0, FAR - 1, (FAR, 0), STREAM_ENDS),
        (10, 0, FAR - 1, (0, FAR), STREAM_ENDS),
        (10, 7, FAR - 1, (HIGH, 1), STREAM_ENDS),
        (10, 7, FAR - 1, (1, HIGH), STREAM_ENDS),
        (10, 7, FAR - 1, (-1, 1), STREAM_ENDS),
        (10, 7, FAR - 1, (1, -1), STREAM_ENDS),
        (10, 7, FAR - 1, (-HIGH - 1, -HIGH - 1), STREAM_ENDS),
        (10, 7, FAR - 1, (HIGH, HIGH), STREAM_ENDS),
        # an empty segment, inside of a chunk, too
        (10, 0, 10, (0, 0), 0),
        (12, 0, 12, (0, 0), 0),
        (20, 0, 20, (0, 0), 0),
        (20, 1, 20, (0, 0), BEYOND_CHUNK),
        (FAR - 1, 0, 0, (0, 0), 0),
        (12, 0, 13, (0, 0), INSIDE_CHUNK),
        (20, 0, 21, (0, 0), INSIDE_CHUNK),
    ],
)
def test_values_of_a_segment(begin: int, inner: int, end: int, value: tuple[int, int], code: int) -> None:
    """The two chunks hold three and six bytes."""
    assert select_values([10, 15], [7, 10, 16], [(begin, inner, end, [value])])[0] == code


def fitting_values() -> list[Any]:
    """Return valid arguments."""
    two = as_ints([0, 0])
    arrays = [[0, 9], [0, 5, 9], [0, 9], [0, 0], [9, 18], [0, 1, 2], [0, 0], [1, 1]]
    return [*map(as_ints, arrays), *(two.copy() for _ in range(3))]


def test_arrays_of_values_that_do_not_fit() -> None:
    assert kernel.select_values(*fitting_values()) == 0
    for numbers in (range(1, 2), range(8, 9), range(3, 6)):
        for other in other_lengths(fitting_values(), numbers):
            with raises(ValueError):
                kernel.select_values(*other)
    for numbers in (range(7, 8), range(9, 11)):
        for other in other_lengths(fitting_values(), numbers):
            with raises(ValueError):
                kernel.select_values(*other)
    for at in (0, 2, 6):
        for other in other_lengths(fitting_values(), range(at, at + 1)):
            with raises(ValueError):
                kernel.select_values(*other)


@pytest.mark.parametrize(
    ("at", "values", "message"),
    [
        (5, [1, 1, 2], "do not fit"),
        (5, [0, 1, 1], "do not fit"),
        (5, [0, 1, 3], "do not fit"),
        (5, [0, -1, 2], "bounds descend"),
        (5, [0, 9, 2], "bounds descend"),
        (1, [5, 4, 9], "edges descend"),
        (1, [-1, 4, 9], "edges descend"),
        (1, [0, 9, 5], "edges descend"),
        (1, [0, 5, FAR], "edges descend"),
        *(
            (at, [value, 0], "negative, or beyond")
            for at in (2, 3, 4)
            for value in (-1, FAR, HIGH, -HIGH - 1)
        ),
    ],
)
def test_values_that_do_not_fit(at: int, values: list[int], message: str) -> None:
    arguments = fitting_values()
    arguments[at] = as_ints(values)
    with pytest.raises(ValueError, match=message):
        kernel.select_values(*arguments)


@pytest.mark.parametrize("edge", [-1, FAR, HIGH])
def test_edges_of_no_chunk(edge: int) -> None:
    one, none = as_ints([0]), as_ints([])
    arrays = (none, as_ints([edge]), one, one, one, as_ints([0, 1]), one, as_ints([1]))
    with raises(ValueError):
        kernel.select_values(*arrays, none.copy(), one.copy(), one.copy())


class Stored:
    """Chunks, their contents, and the arguments that describe them."""

    def __init__(self) -> None:
        self.data = b"\xff"
        self.offsets: list[int] = []
        self.lengths: list[int] = []
        self.originals: list[int] = []
        self.sizes: list[int] = []
        self.contents: list[bytes] = []

    def add(self, content: bytes, body: bytes, size: int, is_original: int = 0) -> None:
        self.offsets.append(len(self.data))
        self.lengths.append(len(body))
        self.originals.append(is_original)
        self.sizes.append(size)
        self.contents.append(content)
        self.data += chunk_of(body, is_original)

    def arguments(self) -> list[Any]:
        """The first five of the kernel's function."""
        flags = np.array(self.originals, np.uint8)
        return [as_bytes(self.data), as_ints(self.offsets), as_ints(self.lengths), flags, as_ints(self.sizes)]


def decompress(
    stored: Stored,
    wanted: list[int],
    needed: list[int],
    room: int,
    *,
    is_zstd: bool = True,
    codec: Callable[[bytes, int], bytes] | None = None,
) -> tuple[int, bytes, list[int], list[int]]:
    """What the kernel makes of chunks: its result, the output, and the begin and number of bytes of each chunk."""
    out, whole_out = guarded(room, np.uint8)
    begins, whole_begins = guarded(len(wanted), np.int64)
    loaded, whole_loaded = guarded(len(wanted), np.int64)

    def fill(number: int, begin: int, end: int) -> int:
        assert codec is not None
        at = stored.offsets[number] + 3
        content = codec(stored.data[at : at + stored.lengths[number]], end - begin)
        out[begin : begin + len(content)] = as_bytes(content)
        return len(content)

    addresses = zstd_functions() if is_zstd else None
    arguments = [*stored.arguments(), as_ints(wanted), as_ints(needed)]
    counts, whole_counts = guarded(3, np.int64)
    arguments += [addresses, fill if codec is not None else None, out, begins, loaded, counts]
    result = kernel.decompress_chunks(*arguments)
    for whole in (whole_out, whole_begins, whole_loaded, whole_counts):
        assert_guarded(whole)
    if not result:
        used = [number for number, size in enumerate(loaded.tolist()) if size]
        lengths, sizes = (sum(numbers[i] for i in used) for numbers in (stored.lengths, loaded.tolist()))
        assert counts.tolist() == [len(used), lengths, sizes]
    return result, out.tobytes(), begins.tolist(), loaded.tolist()


def inflate(body: bytes, size: int) -> bytes:
    return zlib.decompressobj(-15).decompress(body, size)


def some_stored(chance: random.Random, *, is_zstd: bool) -> Stored:
    stored = Stored()
    for _ in range(chance.choice([0, 1, 3, 8])):
        size = chance.choice([0, 1, 100, 100, 3000, 200_000])
        content = bytes([chance.randrange(256)]) * size if chance.random() < 0.5 else chance.randbytes(size)
        form = chance.randrange(4)
        if form == 0:
            stored.add(content, content, size, 1)
        elif is_zstd:
            has_size, checks = form < 3, chance.random() < 0.5
            compressor = zstandard.ZstdCompressor(write_content_size=has_size, write_checksum=checks)
            stored.add(content, compressor.compress(content), size if has_size else -1)
        else:
            stored.add(content, zlib.compress(content, wbits=-15), chance.choice([-1, size]))
    return stored


@pytest.mark.parametrize("is_zstd", [False, True])
def test_random_contents(is_zstd: bool, rng: np.random.Generator) -> None:
    """Beginnings of chunks, up to as many bytes as suffice, or as there is room for."""
    chance = random.Random(int(rng.integers(1 << 32)))
    for _ in range(300):
        stored = some_stored(chance, is_zstd=is_zstd)
        count = len(stored.contents)
        wanted = [
            chance.choice([0, 0, -1, 1, 50, size, size, max(size - 1, 0), size + 9, HIGH])
            for size in map(len, stored.contents)
        ]
        some = (-1, -1, -1, 0, 1, 60, 4000, HIGH)
        needed = [chance.choice([-1, HIGH]), *(chance.choice(some) for _ in wanted)][:count]
        total = sum(map(len, stored.contents))
        room = chance.choice([total + 10, total, chance.randint(0, total), 0])
        out, until, places = b"", 0, []
        for i in range(count):
            until = len(out) + needed[i] if needed[i] >= 0 else until
            size = min(wanted[i], room - len(out))
            if (needed[i] < 0 and len(out) >= until) or size <= 0:
                size = 0
            content = stored.contents[i]
            places.append((len(out), len(content[:size])))
            out += content[:size]
        options: dict[str, Any] = {
            "is_zstd": is_zstd,
            "codec": None if is_zstd else inflate,
        }
        result, filled, begins, loaded = decompress(stored, wanted, needed, room, **options)
        assert result == 0
        assert list(zip(begins, loaded, strict=True)) == places
        assert filled[: len(out)] == out


def test_calls_of_a_codec() -> None:
    """The codec is called for compressed chunks that are needed; its errors are raised."""
    stored, calls = Stored(), []
    for content, is_original in ((b"abc", 0), (b"def", 1), (b"ghi", 0), (b"jkl", 0), (b"mno", 0)):
        stored.add(content, content, -1, is_original)
    arguments: list[Any] = [*stored.arguments(), as_ints([2, 2, 2, 2, 3]), as_ints([7, -1, -1, -1, -1])]

    def call(got: int) -> tuple[int, list[int], list[int]]:
        def codec(*numbers: int) -> int:
            calls.append(numbers)
            return got

        calls.clear()
        begins, loaded = as_ints([0] * 5), as_ints([0] * 5)
        outputs: list[Any] = [None, codec, np.zeros(9, np.uint8), begins, loaded, as_ints([0] * 3)]
        result = kernel.decompress_chunks(*arguments, *outputs)
        return result, begins.tolist(), loaded.tolist()

    assert call(1) == (0, [0, 1, 3, 4, 5], [1, 2, 1, 1, 1])
    assert calls == [(0, 0, 2), (2, 3, 5), (3, 4, 6), (4, 5, 8)]
    assert call(2) == (0, [0, 2, 4, 6, 8], [2, 2, 2, 2, 0])
    assert call(0)[2] == [0, 2, 0, 0, 0]
    for got in (3, -1, HIGH, -HIGH - 1):
        with raises(ValueError):
            call(got)
    with pytest.raises(ZeroDivisionError):
        decompress(stored, [1] * 5, [9] * 5, 9, is_zstd=False, codec=lambda _, size: bytes(size // 0))


@pytest.mark.parametrize(
    ("content", "size", "wanted", "code"),
    [
        (5, 5, 5, 0),
        (5, 6, 5, 0),
        (5, 6, 6, SHORT_CONTENT),
        (5, 9, 6, SHORT_CONTENT),
        (5, -1, 6, 0),
        (5, 5, 6, 0),
        (0, 1, 1, SHORT_CONTENT),
        (0, -1, 1, 0),
        (5, HIGH, 4, 0),
        (5, HIGH, HIGH, SHORT_CONTENT),
    ],
)
@pytest.mark.parametrize("form", ["original", "zstd", "zlib"])
def test_content_that_is_too_short(form: str, content: int, size: int, wanted: int, code: int) -> None:
    """Behind another chunk; of the next one nothing is read."""
    text, stored = b"x" * content, Stored()
    body = {"original": text, "zstd": zstandard.compress(text), "zlib": zlib.compress(text, wbits=-15)}[form]
    for number in range(3):
        stored.add(text, body, size if number == 1 else -1, int(form == "original"))
    result, _, _, loaded = decompress(
        stored, [1, wanted, 1], [HIGH, -1, -1], 99, is_zstd=form != "zlib", codec=inflate
    )
    assert result == (stored.offsets[1] << 8 | code if code else 0)
    first = min(content, 1)
    assert loaded[:2] == [first, 0 if code else min(content, wanted)]
    assert code or loaded[2] == first


def test_damaged_contents(rng: np.random.Generator) -> None:
    """Frames that are cut anywhere, or changed: as many bytes as lie before that, and frames behind are read afresh."""
    chance = random.Random(int(rng.integers(1 << 32)))
    content = chance.randbytes(300_000)
    frame = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(content)
    # blocks of 128 KiB as they are, behind a head of six bytes
    second = 6 + 3 + (1 << 17)
    assert frame[second + 3 : second + 99] == content[1 << 17 :][:96]
    changed = bytearray(frame)
    changed[second] |= 6
    flipped = bytearray(frame)
    flipped[second + 9] ^= 1
    cases: list[tuple[bytes, int, bool]] = [
        (frame, 300_000, True),
        (bytes(changed), (1 << 17) - 1, True),
        (bytes(changed), (1 << 17) + 1, False),
        (bytes(flipped), 1 << 17, True),
        (bytes(flipped), 300_000, False),
        (bytes(flipped), 300_001, False),
        (frame[:second], 1 << 17, True),
        (frame[:second], (1 << 17) + 1, False),
        (frame[: second + 9], 150_000, False),
        (frame[:-1], 300_001, False),
        *((frame[:cut], 1, False) for cut in (0, 1, 4, 5, 6, 8, 9)),
        (b"\0" + frame, 1, False),
        (b"what is this", 1, False),
    ]
    for body, wanted, is_sound in cases:
        stored = Stored()
        for _ in range(2):
            stored.add(content, frame, -1)
            stored.add(content, body, -1)
        wants, needs = [10, wanted, 10, 0], [HIGH, -1, -1, -1]
        result, out, begins, loaded = decompress(stored, wants, needs, 400_000)
        if is_sound:
            assert (result, begins, loaded) == (0, [0, 10, 10 + wanted, 20 + wanted], [10, wanted, 10, 0])
            assert out[: 20 + wanted] == content[:10] + content[:wanted] + content[:10]
        else:
            assert result == stored.offsets[1] << 8 | BAD_CONTENT
            assert (loaded[:2], out[:10]) == ([10, 0], content[:10])
            # the context is of use behind a frame that failed
            assert decompress(stored, [9, 0, 0, 0], needs, 9)[:2] == (0, content[:9])
    # at the end of the data, and without a byte
    stored = Stored()
    stored.add(b"", b"", -1)
    assert decompress(stored, [1], [1], 1)[0] == 1 << 8 | BAD_CONTENT


def fitting_chunks() -> list[Any]:
    stored = Stored()
    stored.add(b"abc", b"abc", 3, 1)
    two = as_ints([1])
    return [
        *stored.arguments(),
        *(
            two,
            two,
            zstd_functions(),
            None,
            np.zeros(9, np.uint8),
            two.copy(),
            two.copy(),
            as_ints([0] * 3),
        ),
    ]


def test_arrays_of_contents_that_do_not_fit() -> None:
    assert kernel.decompress_chunks(*fitting_chunks()) == 0
    for numbers in (range(1, 7), range(10, 12)):
        for other in other_lengths(fitting_chunks(), numbers):
            with raises(ValueError):
                kernel.decompress_chunks(*other)
    for other in other_lengths(fitting_chunks(), range(12, 13)):
        with raises(ValueError):
            kernel.decompress_chunks(*other)
    for addresses in (*_wrong_addresses(), zstd_functions()[:0]):
        arguments = fitting_chunks()
        arguments[7] = addresses
        with raises(ValueError):
            kernel.decompress_chunks(*arguments)
    for wrong in (None, *_wrong_addresses()):
        none = as_ints([])
        with raises(ValueError):
            kernel.list_chunks(
                as_bytes(b""), none, none, none, ZSTD, wrong, none, none, np.zeros(0, np.uint8), none
            )


def _wrong_addresses() -> list[NDArray[np.uint64]]:
    return [zstd_functions()[:-1], np.concatenate([zstd_functions(), zstd_functions()[:1]])]


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
    arguments = fitting_chunks()
    arguments[0] = as_bytes(bytes(9))
    arguments[1:4] = as_ints([offset]), as_ints([length]), np.array([is_original], np.uint8)
    # even if nothing is wanted of it
    for wanted in (0, 1):
        arguments[5] = as_ints([wanted])
        with raises(ValueError):
            kernel.decompress_chunks(*arguments)
