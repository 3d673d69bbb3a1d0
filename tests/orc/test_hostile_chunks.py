"""Files made to mislead, by their compression chunks; and chunks that are sound, however odd they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
import zstandard
from pyarrow import orc

from hindex.errors import OrcError
from hindex.orc import OrcReader, codec
from hindex.orc.codec import MAX_CHUNKS, Chunks, Decompressor, codec_of
from hindex.orc.decode import streams
from hindex.orc.decode.streams import StoredStream, StreamReader
from hindex.orc.io.adapted import FileSystemSource
from hindex.orc.io.metrics import CountedSource, ReadCounts
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamInformation, StreamKind
from tests.fuzz.corpus import _without_index
from tests.fuzz.parts import FileParts, Hooks, compressed, put_together
from tests.orc.hostile import (
    LZ4,
    LZO,
    ROWS,
    SNAPPY,
    TABLE,
    ZLIB,
    ZSTD,
    bounded,
    direct_64,
    repeated,
    with_message,
    with_stream,
)
from tests.support.cases import IS_NIGHTLY
from tests.support.messages import raises

#: What becomes of the second chunk of the file, by its header and body; and the error.
CHUNKS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("longer than the stream", lambda chunk: b"\xfe\xff\xff" + chunk[3:], "past the end of its stream"),
    ("header cut", lambda chunk: b"\x01", "header|past the end of its stream"),
    (
        "larger than a block",
        lambda chunk: _header(1 << 17, 1) + bytes(1 << 17),
        "beyond the block size|past the end of its stream",
    ),
]


def _header(length: int, original: int) -> bytes:
    return (length << 1 | original).to_bytes(3, "little")


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize(("change", "message"), [c[1:] for c in CHUNKS], ids=[c[0] for c in CHUNKS])
@pytest.mark.usefixtures("windows")
def test_chunks_of_hostile_content(
    parts: FileParts, codec: int, change: Callable[[bytes], bytes], message: str
) -> None:
    wanted = with_stream(parts, "text", StreamKind.LENGTH, repeated(8, ROWS))
    body = put_together(wanted, codec)
    target = repeated(8, ROWS)
    packed = next(c for c in _chunks_seen(wanted, codec) if _content(codec, c) == target)
    data = put_together(wanted, codec, hooks=Hooks(chunk=lambda c: change(c) if c == packed else c))
    assert data != body
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read(["text"]))
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


@pytest.mark.parametrize("rows", [None, [5, 850]])
@pytest.mark.usefixtures("windows")
def test_a_chunk_that_holds_less_than_it_claims(parts: FileParts, rows: list[int] | None) -> None:
    content = "".join(TABLE["text"].to_pylist()).encode()
    packed = next(c for c in _chunks_seen(parts, ZSTD) if _content(ZSTD, c) == content)
    # the frame's head tells the size, and nothing follows
    head = zstandard.ZstdCompressor().compress(content)[:8]
    assert zstandard.get_frame_parameters(head).content_size == len(content)
    data = put_together(
        parts, ZSTD, hooks=Hooks(chunk=lambda c: _header(len(head), 0) + head if c == packed else c)
    )
    with raises(OrcError) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read(["text"], rows))
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


def _without_size(chunk: bytes) -> bytes:
    """Replace a zstd frame by one that does not tell its size."""
    if chunk[0] & 1:
        return chunk
    content = zstandard.ZstdDecompressor().decompress(chunk[3:])
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    return _header(len(frame), 0) + frame


@pytest.mark.parametrize(
    ("codec", "change"),
    [*((codec, None) for codec in (ZLIB, SNAPPY, LZO, LZ4, ZSTD)), (ZSTD, _without_size)],
)
@pytest.mark.usefixtures("windows")
def test_chunks_larger_than_a_block(
    parts: FileParts, codec: int, change: Callable[[bytes], bytes] | None
) -> None:
    """They are never cut: the values behind them would be others."""
    block = len("".join(TABLE["text"].to_pylist())) - 1

    def with_block(size: int) -> bytes:
        hooks = with_message("postscript", lambda message: setattr(message, "compression_block_size", size))
        return put_together(parts, codec, hooks=replace(hooks, chunk=change or hooks.chunk))

    data = with_block(block)
    with pytest.raises(OrcError, match=r"corrupt|beyond the block size") as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read(["text"]))
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)
    # a chunk of exactly a block is sound
    tables: list[pa.Table] = []
    reader = OrcReader(BytesSource(with_block(block + 1)))
    bounded(lambda: tables.append(reader.read(["text"])))
    assert tables == [TABLE.select(["text"])]


@pytest.mark.parametrize("codec", [ZLIB, LZO, LZ4])
@pytest.mark.usefixtures("windows")
def test_chunks_far_smaller_than_a_block(parts: FileParts, codec: int) -> None:
    """A block size is a bound, and these codecs do not tell how much less there is in a chunk."""
    hooks = with_message("postscript", lambda message: setattr(message, "compression_block_size", 8 << 20))
    data = put_together(parts, codec, 64, hooks=hooks)
    expected = TABLE.select(["text", "mode"])
    tables: list[pa.Table] = []
    reader = OrcReader(BytesSource(data))
    bounded(lambda reader=reader: tables.append(reader.read(["text", "mode"])))  # type: ignore[misc]
    bounded(lambda reader=reader: tables.append(reader.read(["text", "mode"], [5, 850])))  # type: ignore[misc]
    assert tables == [expected, expected.take([5, 850])]


def _chunks_seen(parts: FileParts, codec: int) -> list[bytes]:
    seen: list[bytes] = []

    def see(chunk: bytes) -> bytes:
        seen.append(chunk)
        return chunk

    put_together(parts, codec, hooks=Hooks(chunk=see))
    return seen


def _content(codec: int, chunk: bytes) -> bytes:
    return Decompressor(codec_of(codec), 1 << 16).decompress_all(memoryview(chunk), 1 << 20)


#: A length for each row, by runs of ten.
ONES = bytes([7, 1]) * (ROWS // 10)
#: A frame that decompressors pass over.
_SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"

#: A chunk of more than one compressed piece, by the stored piece and one with other lengths.
PIECES: list[tuple[str, Callable[[bytes, bytes], bytes]]] = [
    ("another behind it", lambda good, bad: good + bad),
    ("another before it", lambda good, bad: bad + good),
    ("the same twice", lambda good, bad: good + good),
    ("a frame without content behind it", lambda good, bad: good + _SKIPPED),
    ("a frame without content before it", lambda good, bad: _SKIPPED + good),
    ("bytes behind it", lambda good, bad: good + b"junk"),
]


@pytest.mark.parametrize("codec", [SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize("pieces", [p[1] for p in PIECES], ids=[p[0] for p in PIECES])
@pytest.mark.parametrize("name", ["text", "texts", "list", "map"])
@pytest.mark.usefixtures("windows")
def test_chunks_of_several_pieces(
    parts: FileParts,
    name: str,
    pieces: Callable[[bytes, bytes], bytes],
    codec: int,
) -> None:
    """Pyarrow decompresses all of zstd's and LZO's, where a chunk's head tells the size of the first one only."""
    lengths = ONES
    good, bad = compressed(codec, lengths), compressed(codec, direct_64([-1] * 512))
    new = pieces(good, bad)
    wanted, old = with_stream(parts, name, StreamKind.LENGTH, lengths), _header(len(good), 0) + good
    data = put_together(
        wanted, codec, hooks=Hooks(chunk=lambda c: _header(len(new), 0) + new if c == old else c)
    )
    assert data != put_together(wanted, codec)
    for rows in (None, [5, 850]):
        with pytest.raises(OrcError, match=r"corrupt|ends after"):
            OrcReader(BytesSource(data)).read([name], rows)


@pytest.mark.parametrize("name", ["text", "texts", "list", "map"])
@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
def test_lengths_around_empty_chunks_are_read(parts: FileParts, codec: int, name: str) -> None:
    """Java skips empty chunks, as we do; pyarrow goes on in memory that is not the stream's."""
    lengths = ONES
    packed = compressed(codec, lengths)
    old, nothing = _header(len(packed), 0) + packed, compressed(codec, b"")
    stored = [_header(0, 1), _header(len(nothing), 0) + nothing]
    wanted = with_stream(parts, name, StreamKind.LENGTH, lengths)
    sound = put_together(wanted, codec)
    expected = orc.ORCFile(pa.BufferReader(put_together(wanted, 0))).read([name])
    for new in (stored[0] + old, old + stored[0], stored[1] + old):
        data = put_together(wanted, codec, hooks=Hooks(chunk=lambda c, new=new: new if c == old else c))  # type: ignore[misc]
        assert data != sound
        assert OrcReader(BytesSource(data)).read([name]) == expected


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize("is_original", [True, False])
@pytest.mark.parametrize("rows", [None, [5, 850]])
@pytest.mark.usefixtures("windows")
def test_rounds_for_chunks_of_nothing(
    parts: FileParts,
    codec: int,
    is_original: bool,
    rows: list[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"" if is_original else compressed(codec, b"")
    nothing, content = _header(len(body), int(is_original)) + body, "".join(TABLE["text"].to_pylist())
    old = next(c for c in _chunks_seen(parts, codec) if _content(codec, c) == content.encode())
    rounds = [0]
    list_chunks = Decompressor.list_chunks

    def count(self: Decompressor, *arguments: Any) -> Chunks:
        rounds[0] += 1
        return list_chunks(self, *arguments)

    monkeypatch.setattr(Decompressor, "list_chunks", count)
    for number in (0, 5000):
        new = nothing * number + old
        hooks = Hooks(chunk=lambda c, new=new: new if c == old else c)  # type: ignore[misc]
        # positions would point into chunks without content
        file = parts if rows is None else _without_index(parts.copy())
        data = put_together(file, codec, hooks=hooks)
        rounds[0] = 0
        table = OrcReader(BytesSource(data)).read(["text"], rows)
        assert table.column(0).to_pylist() == TABLE["text"].take(rows or list(range(ROWS))).to_pylist()
        # nine windows at most, each with a few streams
        assert rounds[0] < 120, number


@pytest.mark.parametrize("rows", [None, [850]])
@pytest.mark.usefixtures("windows")
def test_more_chunks_than_a_stream_can_have(
    parts: FileParts, rows: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = MAX_CHUNKS if IS_NIGHTLY else 1 << 13
    monkeypatch.setattr(codec, "MAX_CHUNKS", most)
    monkeypatch.setattr(streams, "MAX_CHUNKS", most)
    old = next(
        c
        for c in _chunks_seen(parts, ZLIB)
        if _content(ZLIB, c) == "".join(TABLE["text"].to_pylist()).encode()
    )
    new = _header(0, 1) * (most * 8) + old
    data = put_together(parts, ZLIB, hooks=Hooks(chunk=lambda c: new if c == old else c))
    with pytest.raises(OrcError, match=f"more than {most} chunks"):
        bounded(lambda: OrcReader(BytesSource(data)).read(["text"], rows))


def test_requests_for_chunks_of_a_remote_stream(tmp_path: Path) -> None:
    """Those that were not fetched with the rest are fetched one by one at first."""
    path, count = tmp_path / "stream", 5000
    path.write_bytes(_header(0, 1) * count)
    counts = ReadCounts()
    source = CountedSource(FileSystemSource(pyarrow.fs.LocalFileSystem(), str(path)), counts)
    stored = StoredStream(source, StreamInformation(StreamKind.DATA, 1, 0, 3 * count))
    reader = StreamReader(stored, Decompressor(codec_of(ZLIB), 1 << 16))
    for listed in (4, count):
        chunks = reader._list(
            np.zeros(1, np.int64), np.array([3 * listed]), np.zeros(1, np.int64), np.array([3 * listed])
        )
        assert chunks.offsets.tolist() == list(range(0, 3 * listed, 3))
        assert counts.bytes_fetched == 3 * listed
    assert counts.ranges < 30
