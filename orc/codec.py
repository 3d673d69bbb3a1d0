"""Compression: the chunks of ORC streams, and the codecs that decompress them.

Source: ORC specification v1, "Compression". A chunk is a 3-byte little-endian header, ``length * 2 + is_original``, and
that many bytes. The format does not record the decompressed length of a chunk: only the block size in the
postscript bounds it. So every codec here writes into a buffer of a given size and returns the actual length.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cramjam
import lzallright
import numpy as np
import numpy.typing as npt
import zstandard
from isal import isal_zlib

from hindex.errors import OrcError
from hindex.orc import kernel
from hindex.value_class import value_class

# imported here, not at the first zstd chunk: a process that is forked during that import would wait for its lock
try:
    from zstandard.backend_cffi import ffi, lib  # type: ignore[attr-defined]
except ImportError:
    ffi = lib = None

HEADER_LENGTH = 3

#: Chunk lengths have 23 bits, so no file needs larger blocks than this.
MAX_BLOCK_SIZE = 1 << 23

#: The most chunks of a stream that are listed together, each in some 80 bytes of memory: 64 GiB in blocks of 64
#: KiB. Chunks without content have three bytes in a file.
MAX_CHUNKS = 1 << 20

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_ZERO: Ints = np.zeros(1, np.int64)

_TOO_LARGE = "it has more bytes than a block, {}"

#: Threads must not share a zstd context.
_local = threading.local()


# the stub of isal declares its error class as an instance
_CODEC_ERRORS: tuple[Any, ...] = (
    ValueError,
    OverflowError,
    cramjam.DecompressionError,
    isal_zlib.error,
    lzallright.LZOError,
)


@value_class
class Codec:
    """A codec of chunks.

    Attributes:
        decompress: ``decompress(body, out)`` fills ``out`` and returns the number of bytes written, or a greater
            number if there are more; None for zstd, which the kernel calls.
        is_partial: True if the codec stops when ``out`` is full, so that the beginning of a chunk costs less than
            all of it. Other codecs need a buffer for the whole chunk, or raise an error.
        recorded_size: the kernel's ZSTD or SNAPPY if a chunk records the size of its content in that way, else 0.
    """

    name: str
    decompress: Callable[[memoryview, Bytes], int] | None
    recorded_size: int = 0
    is_partial: bool = False


def _decompress_zlib(body: memoryview, out: Bytes) -> int:
    # one more byte than fits, which shows whether the chunk is larger
    data = isal_zlib.decompressobj(wbits=-15).decompress(body, len(out) + 1)
    count = min(len(data), len(out))
    out[:count] = np.frombuffer(data, np.uint8, count)
    return len(data)


def _decompress_snappy(body: memoryview, out: Bytes) -> int:
    return int(cramjam.snappy.decompress_raw_into(body, out.data))


def _decompress_lz4(body: memoryview, out: Bytes) -> int:
    # without the length, cramjam reads it from the first four bytes
    return int(cramjam.lz4.decompress_block_into(body, out.data, output_len=len(out)))


def _decompress_lzo(body: memoryview, out: Bytes) -> int:
    data = lzallright.LZOCompressor.decompress(bytes(body), len(out))
    if len(data) > len(out):
        raise ValueError(f"{len(data)} bytes do not fit a block of {len(out)}")
    out[: len(data)] = np.frombuffer(data, np.uint8)
    return len(data)


def _decompress_brotli(body: memoryview, out: Bytes) -> int:
    return int(cramjam.brotli.decompress_into(body, out.data))


#: The codecs by the numbers of the specification's ``CompressionKind``; 0 is NONE, which has no chunks.
CODECS: dict[int, Codec] = {
    1: Codec("zlib", _decompress_zlib, is_partial=True),
    2: Codec("snappy", _decompress_snappy, kernel.SNAPPY),
    3: Codec("lzo", _decompress_lzo),
    4: Codec("lz4", _decompress_lz4),
    5: Codec("zstd", None, kernel.ZSTD, is_partial=True),
    6: Codec("brotli", _decompress_brotli),
}


def zstd_functions() -> npt.NDArray[np.uint64]:
    """Return the addresses of zstd's functions and of this thread's context, see `kernel.list_chunks`.

    Raises:
        OrcError: if zstd's functions are not available.
    """
    addresses: npt.NDArray[np.uint64] | None = getattr(_local, "zstd", None)
    if addresses is None:
        if ffi is None:
            raise OrcError("zstd files need the packages cffi, and zstandard with its cffi backend")
        context = lib.ZSTD_createDCtx()
        if context == ffi.NULL:
            raise MemoryError("no memory for a context of zstd")
        _local.context = ffi.gc(context, lib.ZSTD_freeDCtx)
        names = (
            "decompressStream",
            "DCtx_reset",
            "isError",
            "findFrameCompressedSize",
            "getFrameContentSize",
        )
        pointers = [*(ffi.addressof(lib, f"ZSTD_{name}") for name in names), context]
        _local.zstd = addresses = np.array([int(ffi.cast("uintptr_t", each)) for each in pointers], np.uint64)
    return addresses


def codec_of(kind: int) -> Codec | None:
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
        raise OrcError(f"unknown compression codec {kind}: the codecs are 0 (none), {codecs}") from None


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """Chunks of a stream, ascending; arrays of equal length.

    Attributes:
        offsets: the offsets of the headers.
        lengths: the bytes of the bodies.
        originals: 1 for a body that is not compressed.
        sizes: the bytes of the contents, -1 if unrecorded.
    """

    offsets: Ints
    lengths: Ints
    originals: Bytes
    sizes: Ints

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def ends(self) -> Ints:
        return self.offsets + HEADER_LENGTH + self.lengths

    @property
    def has_sizes(self) -> bool:
        return not len(self.sizes) or int(self.sizes.min()) >= 0


class Decompressor:
    """A decompressor of the chunks of a file, which counts them."""

    def __init__(self, codec: Codec | None, block_size: int) -> None:
        self.codec = codec
        self.block_size = block_size
        # chunks, the bytes of their bodies, the bytes of their contents
        self._counts = np.zeros(3, np.int64)

    @property
    def chunks(self) -> int:
        return int(self._counts[0])

    @property
    def bytes_in(self) -> int:
        return int(self._counts[1])

    @property
    def bytes_out(self) -> int:
        return int(self._counts[2])

    def list_chunks(self, data: Bytes, begins: Ints, ends: Ints, extras: Ints) -> Chunks:
        """List the chunks that begin in ascending ranges of a stream's bytes.

        Args:
            extras: the number of chunks to list after each range.

        Raises:
            OrcError: if a chunk ends after the bytes, its header is corrupt, it is larger than a block, or there
                are more than `MAX_CHUNKS`.
        """
        assert self.codec is not None
        codec, zstd, room = self.codec.recorded_size, self._zstd(), 64
        while True:
            offsets, lengths, sizes = (np.empty(room, np.int64) for _ in range(3))
            originals = np.empty(room, np.uint8)
            count = kernel.list_chunks(
                data, begins, ends, extras, codec, zstd, offsets, lengths, originals, sizes
            )
            if count < room:
                break
            if room > MAX_CHUNKS:
                raise OrcError(f"the stream has more than {MAX_CHUNKS} chunks to read at once: it is corrupt")
            room = min(8 * room, MAX_CHUNKS + 1)
        if count < 0:
            raise self._corrupt_by_status(-1 - count)
        chunks = Chunks(offsets[:count], lengths[:count], originals[:count], sizes[:count])
        if count and int(chunks.sizes.max()) > self.block_size:
            index = int(np.argmax(chunks.sizes))
            raise OrcError(
                f"the chunk at byte {offsets[index]} has {sizes[index]} bytes, beyond the block size {self.block_size}"
            )
        return chunks

    def decompress(
        self, data: Bytes, chunks: Chunks, wanted: Ints, needed: Ints, out: Bytes
    ) -> tuple[Ints, Ints]:
        """Decompress the beginnings of chunks into ``out``, contiguously.

        Args:
            data: the bytes of the stream.
            wanted: int64[N], the number of bytes to decompress of each chunk.
            needed: int64[N], for the first chunk of a segment, the number of bytes that suffice for the segment:
                later chunks of it are then left out. -1 for other chunks.

        Returns:
            the start of each chunk in ``out``, and its number of bytes, 0 if it was left out.

        Raises:
            OrcError: if a chunk is corrupt, or shorter than its recorded size.
        """
        assert self.codec is not None
        codec = self.codec

        def body_of(index: int) -> memoryview:
            begin = int(chunks.offsets[index]) + HEADER_LENGTH
            return data[begin : begin + int(chunks.lengths[index])].data

        def call_codec(index: int, begin: int, end: int) -> int:
            assert codec.decompress is not None
            size = int(chunks.sizes[index])
            room = self.block_size if size < 0 else size
            is_direct = codec.is_partial or end - begin >= room
            target = out[begin:end] if is_direct else np.empty(room, np.uint8)
            try:
                count = codec.decompress(body_of(index), target)
                if count > room:
                    raise ValueError(_TOO_LARGE.format(room))
            except _CODEC_ERRORS as error:
                raise self._corrupt(chunks.offsets[index], error) from error
            count = min(count, end - begin)
            if not is_direct:
                out[begin : begin + count] = target[:count]
            return count

        begins, loaded = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int64)
        counts = np.empty(3, np.int64)
        status = kernel.decompress_chunks(
            data,
            chunks.offsets,
            chunks.lengths,
            chunks.originals,
            chunks.sizes,
            wanted,
            needed,
            self._zstd(),
            call_codec,
            out,
            begins,
            loaded,
            counts,
        )
        if status:
            raise self._corrupt_by_status(status)
        if codec.decompress is None:
            # frames without a recorded size
            for index in np.flatnonzero((chunks.sizes < 0) & (loaded == self.block_size)).tolist():
                with zstandard.ZstdDecompressor().stream_reader(body_of(index)) as frame:
                    if len(frame.read(self.block_size + 1)) > self.block_size:
                        raise self._corrupt(chunks.offsets[index], _TOO_LARGE.format(self.block_size))
        self._counts += counts
        return begins, loaded

    def _zstd(self) -> npt.NDArray[np.uint64] | None:
        return zstd_functions() if self.codec is not None and self.codec.decompress is None else None

    def _corrupt_by_status(self, status: int) -> OrcError:
        return self._corrupt(status >> 8, kernel.ERRORS[status & 255])

    def _corrupt(self, offset: int, why: object) -> OrcError:
        assert self.codec is not None
        return OrcError(f"corrupt {self.codec.name} chunk at byte {offset}: {why}")

    def decompress_all(self, data: memoryview, limit: int) -> bytes:
        """Decompress a whole metadata section or stream of at most ``limit`` bytes.

        Raises:
            OrcError: if a chunk is corrupt, or there are more bytes.
        """
        if self.codec is None:
            return bytes(data)
        stored = np.frombuffer(data, np.uint8)
        chunks = self.list_chunks(stored, _ZERO, np.array([len(stored)], np.int64), _ZERO)
        wanted = np.where(chunks.sizes < 0, self.block_size, chunks.sizes)
        needed = np.full(len(wanted), -1)
        needed[:1] = limit + 1
        out = np.empty(min(int(wanted.sum()), limit + 1), np.uint8)
        _, loaded = self.decompress(stored, chunks, wanted, needed, out)
        total = int(loaded.sum())
        if total > limit:
            raise OrcError(f"{len(data)} stored bytes inflate beyond {limit}: the file is corrupt")
        return out[:total].tobytes()
