"""Compression chunks: the blocks that every compressed ORC stream is cut into.

Source: ORC specification v1, "Compression". A chunk is a 3-byte little-endian header, ``length * 2 +
is_original``, and that many bytes. The format does not record how long a chunk is once decompressed: only
the block size in the postscript bounds it. So every codec here writes into a buffer of a given size and
returns the true length.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib

from hindex.errors import OrcError
from hindex.orc import zstd_frames
from hindex.orc.encoding.buffers import PADDING

HEADER_LENGTH = 3

#: Of fewer bytes, a call for several chunks costs as much as it saves.
LEAST_JOINED = 1 << 18

#: Of what such a call decompresses, at least one part in so many is wanted: of some chunks it takes much more
#: than the head, and the memory for that.
_MOST_OF_WANTED = 3

#: Chunk lengths have 23 bits, so no file needs a larger block than this.
MAX_BLOCK_SIZE = 1 << 23

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of a stream: where its header starts, and its body.

    ``size`` is the decompressed length where the chunk itself tells it, otherwise None.
    """

    offset: int
    body: memoryview
    original: bool
    size: int | None

    @property
    def end(self) -> int:
        """Offset of the next chunk's header."""
        return self.offset + HEADER_LENGTH + len(self.body)


@dataclass(frozen=True, slots=True)
class Codec:
    """How chunks of one file are decompressed.

    ``into(body, out)`` fills ``out`` and returns the number of bytes written. ``partial`` codecs stop when
    ``out`` is full, so the head of a chunk costs less than the whole; the others need room for all of it.
    ``fills(body)`` is whether a look at the head tells that a chunk of any bytes is either corrupt or has content.
    Of codecs that ``join``, chunks one behind the other are decompressed by one call.
    """

    name: str
    into: Callable[[memoryview, Bytes], int]
    size: Callable[[memoryview], int | None]
    fills: Callable[[memoryview], bool]
    partial: bool
    joins: bool = False


def _zlib_into(body: memoryview, out: Bytes) -> int:
    data = isal_zlib.decompressobj(wbits=-15).decompress(body, len(out))
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


#: Of the blocks of deflate, the kind that describes a code of its own, whose description fits into so many bytes.
_DYNAMIC = 2
_DESCRIPTION_BYTES = 512


def _zlib_fills(body: memoryview) -> bool:
    """By its first block, which may be one of nothing.

    Source: RFC 1951, 3.2.
    """
    kind = body[0] >> 1 & 3
    if kind == _DYNAMIC:
        # unlike ISA-L, it stops after the byte asked for
        return bool(zlib.decompressobj(wbits=-15).decompress(body[:_DESCRIPTION_BYTES], 1))
    # a stored block begins with its length, one of the fixed code with seven bits of zero if it ends there
    return kind < _DYNAMIC and any(body[1:3] if kind == 0 else (body[0] >> 3, body[1] & 3))


def _snappy_into(body: memoryview, out: Bytes) -> int:
    return int(cramjam.snappy.decompress_raw_into(body, out.data))


def _snappy_size(body: memoryview) -> int | None:
    size = shift = 0
    for byte in body[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
        shift += 7
    raise ValueError("no length at the head of a snappy block")


def _snappy_fills(body: memoryview) -> bool:
    # there must be as much as it says
    return bool(_snappy_size(body))


def _lz4_into(body: memoryview, out: Bytes) -> int:
    # without the length, a block whose first four bytes could be one is decompressed from the fifth on
    return int(cramjam.lz4.decompress_block_into(body, out.data, output_len=len(out)))


def _lz4_fills(body: memoryview) -> bool:
    # a match can only follow upon literals
    return body[0] >> 4 > 0


def _lzo_into(body: memoryview, out: Bytes) -> int:
    import lzallright

    data = lzallright.LZOCompressor.decompress(bytes(body), len(out))
    if len(data) > len(out):
        raise ValueError(f"{len(data)} bytes do not fit a block of {len(out)}")
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def _lzo_fills(body: memoryview) -> bool:
    # literals, but for two instructions: one of them ends the content
    return body[0] not in (16, 17)


def _brotli_into(body: memoryview, out: Bytes) -> int:
    return int(cramjam.brotli.decompress_into(body, out.data))


def _unknown(body: memoryview) -> int | None:
    return None


def _may_be_empty(body: memoryview) -> bool:
    return False


#: By the numbers of the specification's ``CompressionKind``; 0 is NONE, which has no chunks.
CODECS: dict[int, Codec] = {
    1: Codec("zlib", _zlib_into, _unknown, _zlib_fills, partial=True),
    2: Codec("snappy", _snappy_into, _snappy_size, _snappy_fills, partial=False),
    3: Codec("lzo", _lzo_into, _unknown, _lzo_fills, partial=False),
    4: Codec("lz4", _lz4_into, _unknown, _lz4_fills, partial=False),
    5: Codec("zstd", zstd_frames.into, zstd_frames.size, zstd_frames.fills, partial=True, joins=True),
    6: Codec("brotli", _brotli_into, _unknown, _may_be_empty, partial=False),
}


def codec_of(kind: int, path: str) -> Codec | None:
    """The codec with a number, or None for uncompressed files.

    :raises OrcError: for a number that this version does not know.
    """
    if kind == 0:
        return None
    try:
        return CODECS[kind]
    except KeyError:
        known = ", ".join(f"{number} ({codec.name})" for number, codec in CODECS.items())
        raise OrcError(f"unknown compression codec {kind}: known are 0 (none), {known}", path=path) from None


def chunk_end(head: memoryview, offset: int, length: int) -> int:
    """Where the chunk ends that begins with ``head`` at an offset of a stream.

    :raises OrcError: if that is not within the stream.
    """
    if len(head) < HEADER_LENGTH:
        raise OrcError(f"a chunk header at byte {offset} runs past the stream's end at {length}")
    size = (head[0] | head[1] << 8 | head[2] << 16) >> 1
    end = offset + HEADER_LENGTH + size
    if end > length:
        raise OrcError(f"a chunk of {size} bytes at byte {offset} runs past the stream's end at {length}")
    return end


class Decompressor:
    """Decompresses the chunks of one file, and counts them."""

    def __init__(self, codec: Codec | None, block_size: int) -> None:
        self.codec = codec
        self.block_size = block_size
        self.chunks = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def chunks_of(self, data: memoryview, offset: int = 0, until: int | None = None) -> Iterator[Chunk]:
        """The chunks of a stream's bytes from the header at ``offset``, those starting before ``until``."""
        end = len(data)
        until = end if until is None else until
        while offset < until:
            after = chunk_end(data[offset : offset + HEADER_LENGTH], offset, end)
            yield self.chunk(data[offset:after], offset)
            offset = after

    def chunk(self, data: memoryview, offset: int) -> Chunk:
        """The chunk that is ``data``, its header included, at an offset of its stream."""
        body = data[HEADER_LENGTH:]
        original = bool(data[0] & 1)
        return Chunk(offset, body, original, len(body) if original else self._size(body))

    def into(self, chunk: Chunk, out: Bytes) -> int:
        """Decompress a chunk into ``out``; returns the bytes written.

        ``out`` may be shorter than the chunk's content: then only its head is produced.
        """
        self.chunks += 1
        if chunk.original:
            count = min(len(chunk.body), len(out))
            if len(chunk.body) > self.block_size:
                raise OrcError(
                    f"a chunk of {len(chunk.body)} bytes is larger than the block size {self.block_size}"
                )
            out[:count] = np.frombuffer(chunk.body, np.uint8, count)
        else:
            assert self.codec is not None
            try:
                if self.codec.partial or len(out) >= self.block_size or len(out) == chunk.size:
                    count = self.codec.into(chunk.body, out)
                else:
                    whole = np.empty(self.block_size if chunk.size is None else chunk.size, np.uint8)
                    count = min(self.codec.into(chunk.body, whole), len(out))
                    out[:count] = whole[:count]
            except _CODEC_ERRORS as error:
                raise OrcError(f"corrupt {self.codec.name} chunk at byte {chunk.offset}: {error}") from error
        self.bytes_in += len(chunk.body)
        self.bytes_out += count
        return count

    def together(self, chunks: Sequence[Chunk], sizes: Sequence[int]) -> tuple[Bytes, list[int]] | None:
        """Decompress several chunks by one call, where the codec has one for them.

        :param sizes: the bytes wanted of each, from its first one on.
        :returns: a buffer, which ends in :data:`PADDING` zeros, and where each chunk begins in it. None where that
            cannot be done, or one of them is corrupt: one by one it is told which.
        """
        if self.codec is None or not self.codec.joins or sum(sizes) < LEAST_JOINED or len(chunks) < 2:
            return None
        pieces, bases, at = list[bytes | memoryview](), list[int](), 0
        try:
            for chunk, size in zip(chunks, sizes, strict=True):
                bases.append(at)
                if chunk.size is None or not size <= chunk.size <= self.block_size:
                    return None
                if not size:
                    continue
                if chunk.original:
                    pieces += zstd_frames.plain(chunk.body[:size])
                    at += size
                else:
                    frame, length = zstd_frames.head(chunk.body, chunk.size, size)
                    pieces += frame
                    at += length
            if at > _MOST_OF_WANTED * sum(sizes):
                return None
            pieces += zstd_frames.plain(memoryview(bytes(PADDING)))
            buffer = zstd_frames.joined(pieces, at + PADDING)
        except _JOINED_ERRORS:
            return None
        wanted = [chunk for chunk, size in zip(chunks, sizes, strict=True) if size]
        self.chunks += len(wanted)
        self.bytes_in += sum(len(chunk.body) for chunk in wanted)
        self.bytes_out += sum(sizes)
        return buffer, bases

    def all(self, data: memoryview, limit: int) -> bytes:
        """A whole metadata section, decompressed: at most ``limit`` bytes."""
        pieces, total = [], 0
        for piece in self.contents(data):
            pieces.append(piece)
            total += len(piece)
            if total > limit and self.codec is not None:
                raise OrcError(f"a metadata section inflates beyond {limit} bytes")
        return b"".join(pieces)

    def contents(self, data: memoryview) -> Iterator[memoryview | bytes]:
        """What each chunk of a stream's bytes holds; uncompressed, all of it at once."""
        if self.codec is None:
            yield data
            return
        for chunk in self.chunks_of(data):
            out = np.empty(self.block_size if chunk.size is None else chunk.size, np.uint8)
            count = self.into(chunk, out)
            if chunk.size is not None and count < chunk.size:
                raise OrcError(
                    f"the chunk at byte {chunk.offset} ends after {count} bytes and claims {chunk.size}"
                )
            yield out[:count].tobytes()

    def fills_all(self, data: memoryview) -> bool:
        """Whether no chunk of a stream is empty, by a look at their heads; False also where they do not tell."""
        if self.codec is None:
            return True
        fills, offset, length = self.codec.fills, 0, len(data)
        try:
            while offset < length:
                begin = offset + HEADER_LENGTH
                is_original = data[offset] & 1
                offset = chunk_end(data[offset:begin], offset, length)
                if offset == begin or not (is_original or fills(data[begin:offset])):
                    return False
        except (OrcError, IndexError):
            return False
        except _CODEC_ERRORS:
            return False
        return True

    def reaches(self, data: memoryview, length: int) -> bool:
        """Whether a stream's bytes hold so many once decompressed; only what does not tell is decompressed.

        :raises OrcError: if a chunk that is looked at is corrupt.
        """
        if self.codec is None:
            return len(data) >= length
        held = 0
        chunks = self.chunks_of(data)
        while held < length:
            chunk = next(chunks, None)
            if chunk is None:
                return False
            held += (
                self.into(chunk, np.empty(self.block_size, np.uint8)) if chunk.size is None else chunk.size
            )
        return True

    @property
    def tells_size(self) -> bool:
        """Whether chunks mostly tell the length of their content."""
        return self.codec is not None and self.codec.size is not _unknown

    def size_of(self, head: memoryview) -> int | None:
        """The content length of the chunk that begins with ``head``: its header and, if there are so many, the
        next 18 bytes. None where the codec does not tell.
        """
        if len(head) < HEADER_LENGTH:
            raise OrcError(
                f"a chunk header has {len(head)} bytes, not {HEADER_LENGTH}: the stream is truncated"
            )
        if head[0] & 1:
            return (head[0] | head[1] << 8 | head[2] << 16) >> 1
        return self._size(head[HEADER_LENGTH:])

    def add_counts(self, other: Decompressor) -> None:
        """Count what another one did as well."""
        self.chunks += other.chunks
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out

    def _size(self, body: memoryview) -> int | None:
        assert self.codec is not None
        try:
            size = self.codec.size(body)
        except _CODEC_ERRORS as error:
            raise OrcError(f"corrupt {self.codec.name} chunk: {error}") from error
        if size is not None and size > self.block_size:
            raise OrcError(f"a chunk claims {size} bytes, beyond the block size {self.block_size}")
        return size


def _codec_errors() -> tuple[type[BaseException], ...]:
    found: list[Any] = [
        ValueError,
        OverflowError,
        cramjam.DecompressionError,
        zstandard.ZstdError,
        isal_zlib.error,
        zlib.error,
    ]
    try:
        import lzallright
    except ImportError:
        pass
    else:
        found += [lzallright.LZOError]
    return tuple(found)


_CODEC_ERRORS = _codec_errors()
#: pyarrow's are errors of reading; one by one, less memory may be enough.
_JOINED_ERRORS: tuple[type[BaseException], ...] = (*_CODEC_ERRORS, OSError, MemoryError)
