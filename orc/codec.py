"""Compression: the chunks of ORC streams, and the codecs that decompress them.

Source: ORC specification v1, "Compression". A chunk is a 3-byte little-endian header, ``length * 2 + is_original``, and
that many bytes. The format does not record how long a chunk is once decompressed: only the block size in the postscript
bounds it. So every codec here writes into a buffer of a given size and returns the true length.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cramjam
import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib

from hindex.errors import OrcError
from hindex.orc import kernel

HEADER_LENGTH = 3

#: Chunk lengths have 23 bits, so no file needs a larger block than this.
MAX_BLOCK_SIZE = 1 << 23

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Threads may not share a decompressor of zstd.
_local = threading.local()


@dataclass(frozen=True, slots=True)
class Codec:
    """A way to decompress chunks.

    ``decompress(body, out)`` fills ``out`` and returns the number of bytes written. ``is_partial`` codecs stop when
    ``out`` is full, so that the beginning of a chunk costs less than the whole; the others need room for all of it.
    ``measure(data, offsets, lengths, originals, sizes)`` fills ``sizes`` with the content sizes that chunks record, -1
    for chunks that do not; it is None for codecs whose chunks never do.
    """

    name: str
    decompress: Callable[[memoryview, Bytes], int]
    measure: Callable[[Bytes, Ints, Ints, Bytes, Ints], None] | None = None
    is_partial: bool = False


def _decompress_zlib(body: memoryview, out: Bytes) -> int:
    data = isal_zlib.decompressobj(wbits=-15).decompress(body, len(out))
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def _decompress_snappy(body: memoryview, out: Bytes) -> int:
    return int(cramjam.snappy.decompress_raw_into(body, out.data))


def _measure_snappy(data: Bytes, offsets: Ints, lengths: Ints, originals: Bytes, sizes: Ints) -> None:
    for i, (offset, length) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
        sizes[i] = (
            length if originals[i] else _snappy_size(bytes(data[offset + 3 : offset + 3 + min(length, 5)]))
        )


def _snappy_size(head: bytes) -> int:
    size = shift = 0
    for byte in head:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size
        shift += 7
    raise ValueError("no length at the head of a snappy block")


def _decompress_lz4(body: memoryview, out: Bytes) -> int:
    # without the length, cramjam takes the first four bytes for one
    return int(cramjam.lz4.decompress_block_into(body, out.data, output_len=len(out)))


def _decompress_lzo(body: memoryview, out: Bytes) -> int:
    import lzallright

    data = lzallright.LZOCompressor.decompress(bytes(body), len(out))
    if len(data) > len(out):
        raise ValueError(f"{len(data)} bytes do not fit a block of {len(out)}")
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def _decompress_zstd(body: memoryview, out: Bytes) -> int:
    decompressor = getattr(_local, "zstd", None)
    if decompressor is None:
        decompressor = _local.zstd = zstandard.ZstdDecompressor()
    reader = decompressor.stream_reader(body, read_across_frames=False)
    view, done = out.data, 0
    while done < len(view):
        count = reader.readinto(view[done:])
        if not count:
            break
        done += count
    return done


def _measure_zstd(data: Bytes, offsets: Ints, lengths: Ints, originals: Bytes, sizes: Ints) -> None:
    status = kernel.measure_frames(data, offsets, lengths, originals, sizes)
    if status:
        raise OrcError(f"corrupt zstd chunk at byte {status >> 8}: {kernel.ERRORS[status & 255]}")


def _decompress_brotli(body: memoryview, out: Bytes) -> int:
    return int(cramjam.brotli.decompress_into(body, out.data))


#: By the numbers of the specification's ``CompressionKind``; 0 is NONE, which has no chunks.
CODECS: dict[int, Codec] = {
    1: Codec("zlib", _decompress_zlib, is_partial=True),
    2: Codec("snappy", _decompress_snappy, _measure_snappy),
    3: Codec("lzo", _decompress_lzo),
    4: Codec("lz4", _decompress_lz4),
    5: Codec("zstd", _decompress_zstd, _measure_zstd, is_partial=True),
    6: Codec("brotli", _decompress_brotli),
}


def codec_of(kind: int, path: str) -> Codec | None:
    """Return the codec of a compression kind, or None for uncompressed files.

    Raises:
        OrcError: for an unknown kind.
    """
    if kind == 0:
        return None
    try:
        return CODECS[kind]
    except KeyError:
        codecs = ", ".join(f"{number} ({codec.name})" for number, codec in CODECS.items())
        raise OrcError(
            f"unknown compression codec {kind}: the codecs are 0 (none), {codecs}", path=path
        ) from None


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks of a stream, ascending; arrays of equal length.

    ``offsets`` are those of the headers, ``lengths`` the bytes of the bodies, ``originals`` 1 for a body that is not
    compressed, and ``sizes`` the bytes of the contents, -1 if unknown before decompression.
    """

    offsets: Ints
    lengths: Ints
    originals: Bytes
    sizes: Ints

    @property
    def ends(self) -> Ints:
        return self.offsets + HEADER_LENGTH + self.lengths

    @property
    def has_sizes(self) -> bool:
        return not len(self.sizes) or int(self.sizes.min()) >= 0


class Decompressor:
    """Decompresses the chunks of a file, and counts them."""

    def __init__(self, codec: Codec | None, block_size: int) -> None:
        self.codec = codec
        self.block_size = block_size
        self.chunks = 0
        self.bytes_in = 0
        self.bytes_out = 0

    def list_chunks(self, data: Bytes, begins: Ints, ends: Ints, extras: Ints | None = None) -> Chunks:
        """List the chunks that begin in ascending ranges of a stream's bytes.

        Args:
            extras: the number of chunks to list behind each range.

        Raises:
            OrcError: if a chunk runs past the end of the bytes, or its header is corrupt.
        """
        if extras is None:
            extras = np.zeros(len(begins), np.int64)
        room = 64
        while True:
            offsets, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
            originals = np.empty(room, np.uint8)
            count = kernel.list_chunks(data, begins, ends, extras, offsets, lengths, originals)
            if count < room:
                break
            room *= 8
        if count < 0:
            raise OrcError(f"the chunk at byte {-1 - count} runs past the stream's end at {len(data)}")
        offsets, lengths, originals = offsets[:count], lengths[:count], originals[:count]
        sizes = np.where(originals, lengths, -1)
        assert self.codec is not None
        if self.codec.measure is not None:
            try:
                self.codec.measure(data, offsets, lengths, originals, sizes)
            except ValueError as error:
                raise OrcError(f"corrupt {self.codec.name} chunk: {error}") from error
        if count and int(sizes.max()) > self.block_size:
            index = int(np.argmax(sizes))
            raise OrcError(
                f"the chunk at byte {offsets[index]} has {sizes[index]} bytes, beyond the block size {self.block_size}"
            )
        return Chunks(offsets, lengths, originals, sizes)

    def decompress(self, data: Bytes, chunks: Chunks, index: int, out: Bytes) -> int:
        """Decompress the beginning of a chunk into ``out``; returns the bytes written.

        Args:
            data: the bytes of the stream.

        Raises:
            OrcError: if the chunk is corrupt, or shorter than its recorded size.
        """
        begin, length = int(chunks.offsets[index]) + HEADER_LENGTH, int(chunks.lengths[index])
        size = int(chunks.sizes[index])
        if chunks.originals[index]:
            count = min(length, len(out))
            out[:count] = data[begin : begin + count]
        else:
            assert self.codec is not None
            body = data[begin : begin + length].data
            try:
                if self.codec.is_partial or len(out) >= (self.block_size if size < 0 else size):
                    count = self.codec.decompress(body, out)
                else:
                    whole = np.empty(self.block_size if size < 0 else size, np.uint8)
                    count = min(self.codec.decompress(body, whole), len(out))
                    out[:count] = whole[:count]
            except _CODEC_ERRORS as error:
                raise OrcError(
                    f"corrupt {self.codec.name} chunk at byte {begin - HEADER_LENGTH}: {error}"
                ) from error
        if size >= 0 and count < min(size, len(out)):
            raise OrcError(f"the chunk at byte {begin - HEADER_LENGTH} ends after {count} of {size} bytes")
        self.chunks += 1
        self.bytes_in += length
        self.bytes_out += count
        return count

    def decompress_all(self, data: memoryview, limit: int) -> bytes:
        """Decompress a whole metadata section, or stream: at most ``limit`` bytes.

        Raises:
            OrcError: if a chunk is corrupt, or there are more bytes.
        """
        if self.codec is None:
            return bytes(data)
        stored = np.frombuffer(data, np.uint8)
        chunks = self.list_chunks(stored, np.zeros(1, np.int64), np.array([len(stored)], np.int64))
        pieces, total = list[bytes](), 0
        for index, size in enumerate(chunks.sizes.tolist()):
            out = np.empty(self.block_size if size < 0 else size, np.uint8)
            count = self.decompress(stored, chunks, index, out)
            pieces.append(out[:count].tobytes())
            total += count
            if total > limit:
                raise OrcError(f"a metadata section inflates beyond {limit} bytes")
        return b"".join(pieces)

    def add_counts(self, other: Decompressor) -> None:
        """Add the counts of another decompressor."""
        self.chunks += other.chunks
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


def _codec_errors() -> tuple[type[BaseException], ...]:
    errors: list[Any] = [
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
        errors += [lzallright.LZOError]
    return tuple(errors)


_CODEC_ERRORS = _codec_errors()
