"""The container of every index file (``.hidx``): pages, a protobuf footer, a trailer.

The bytes are specified in ``docs/format.md``. A page is a list of blocks, each stored raw or as a zstd frame. A
reference to a page has its offset, length and crc32c. Nothing read here is trusted: every length is checked before
it is used, and every checksum before its bytes are parsed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import google_crc32c
import numpy as np
import numpy.typing as npt
import zstandard
from google.protobuf.message import DecodeError

from hindex.errors import IndexFileError, NewerFormatError, OrcError
from hindex.index.page_cache import Cache
from hindex.keys import KeyKind
from hindex.orc.io.source import ByteSource
from hindex.proto import index_file_pb2 as pb
from hindex.value_class import value_class

MAGIC = b"HIDX\r\n\x1a\n"
#: The version that is written, and the newest version that is read.
VERSION = 1
#: The bytes at the file's end that are read first: they nearly always include the whole footer.
TAIL_READ = 64 * 1024

#: The greatest raw length of a block, in bytes, so that a corrupt length does not exhaust memory.
MAX_BLOCK = (1 << 31) - 1
#: A block with more raw bytes than `LONG_BLOCK` has at most so many times its stored bytes, so that few bytes on
#: disk cannot exhaust memory: a block that would shrink further is stored raw.
LONG_BLOCK = 1 << 26
LONG_BLOCK_FACTOR = 1024
#: The greatest length of a page as stored, in bytes (a `PageRef`'s field has 32 bits).
MAX_PAGE = (1 << 32) - 1
#: The most blocks of a page.
MAX_BLOCKS = 255

CODEC_NONE = 0
CODEC_ZSTD = 1

#: Blocks are bytes of one significance, mostly unordered. In them, the matches of five bytes that level 1 looks
#: for in short inputs are coincidences: without them, frames are as short (of strings up to 3 % longer), and the
#: leaves of a column of keys are decompressed in two thirds of the time.
_ZSTD_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(1, min_match=7, write_content_size=False)
# a shorter block does not gain more than a frame's header costs
_COMPRESS_FROM = 32

_TRAILER = struct.Struct("<III8s")
_BLOCK = struct.Struct("<BII")

_KEY_KINDS = {pb.KEY_KIND_INT64: KeyKind.INT64, pb.KEY_KIND_BYTES: KeyKind.BYTES}
_KEY_KIND_NUMBERS = {kind: number for number, kind in _KEY_KINDS.items()}

#: The bytes that are decompressed in one call; they should fit into the processor's cache.
_CONTENTS_AT_ONCE = 1 << 19
#: Up to this many blocks, one call each takes less time than one for all: 20 and 55 µs for a leaf's blocks.
_FEW_BLOCKS = 20

#: Distinguishes the cache key of a stored page from that of its decoded value.
_STORED = "stored"

#: The bytes of decoded pages that a reader without shared cache keeps.
OWN_CACHE_BYTES = 16 * 1024 * 1024

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
Int64s = npt.NDArray[np.int64]

#: Greater offsets lie outside every file.
_MAX_OFFSET = 1 << 62


class BinarySink(Protocol):
    """The output of an index file that is not a local path."""

    def write(self, data: bytes, /) -> object: ...


class PageRef(NamedTuple):
    """The offset and length of a page in its file, in bytes, and the crc32c of its bytes."""

    offset: int
    length: int
    crc32c: int


@dataclass(frozen=True, slots=True, eq=False)
class PageRefs:
    """Many pages of a file: the offset, length and crc32c of each.

    Args:
        offsets: int64[P]; ``lengths`` and ``checksums`` likewise.
    """

    offsets: Int64s
    lengths: Int64s
    checksums: Int64s

    @classmethod
    def of_runs(
        cls, runs: Sequence[tuple[int, int]], lengths: Sequence[int], checksums: Sequence[int]
    ) -> PageRefs:
        """Return the references of pages in contiguous runs.

        Args:
            runs: the offset and the number of pages of each run.

        Raises:
            ValueError: if the lists have different lengths, or a page has no bytes.
        """
        starts = np.array([min(offset, _MAX_OFFSET) for offset, _ in runs], np.int64)
        counts = np.array([count for _, count in runs], np.int64)
        if not int(counts.sum()) == len(lengths) == len(checksums):
            raise ValueError("its lists are not of one length")
        if not all(lengths):
            raise ValueError("a page without bytes")
        sizes = np.array(lengths, np.int64)
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        first_pages = np.cumsum(counts) - counts
        offsets = before[:-1] + np.repeat(starts - before[first_pages], counts)
        return cls(offsets, sizes, np.array(checksums, np.int64))

    def __len__(self) -> int:
        return len(self.offsets)

    def refs(self, numbers: Int64s) -> list[PageRef]:
        """Return the single references of some pages, given by their ordinals."""
        arrays = (self.offsets, self.lengths, self.checksums)
        return list(map(PageRef, *(array[numbers].tolist() for array in arrays)))


@value_class
class Footer:
    """The footer of an index file. ``body`` is the index type's own directory."""

    index_type: str
    column: str
    column_type: str
    key_kind: KeyKind
    properties: Mapping[str, str]
    metadata: Mapping[str, str]
    body: bytes
    writer: str = ""


class _Codecs(threading.local):
    """The zstd contexts of a thread: only one thread at a time may use a context."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(compression_params=_ZSTD_PARAMETERS)
        self.decompressor = zstandard.ZstdDecompressor()


_codecs = _Codecs()


class IndexFileWriter:
    """A sequential writer of one index file.

    Args:
        sink: a path that must not exist, or an output that the caller closes.
    """

    def __init__(self, sink: str | os.PathLike[str] | BinarySink) -> None:
        self._sink: BinarySink
        self._owned = None
        self._is_finished = False
        if isinstance(sink, str | os.PathLike):
            self._path = os.fspath(sink)
            try:
                self._owned = Path(sink).open("xb")  # noqa: SIM115 finish() or abort() closes it
            except OSError as error:
                raise IndexFileError(
                    f"Index file {self._path!r} cannot be created: {error.strerror}"
                ) from error
            self._sink = self._owned
        else:
            self._path = str(getattr(sink, "name", "<memory>"))
            self._sink = sink
        self._length = 0
        self._write(MAGIC)

    @property
    def length(self) -> int:
        """The number of bytes written so far."""
        return self._length

    def write_page(self, blocks: Sequence[Buffer], *, compress: bool = True) -> PageRef:
        """Append a page; compress each block for which that pays.

        Args:
            compress: False stores all blocks raw, so that they can be used as they are read.

        Raises:
            IndexFileError: if a block or the page is too long for the format.
        """
        return self.append_page(encode_page(blocks, compress=compress))

    def append_page(self, page: bytes) -> PageRef:
        """Append a page that was encoded before."""
        page_ref = PageRef(self._length, len(page), google_crc32c.value(page))
        self._write(page)
        return page_ref

    def append_bytes(self, data: Buffer) -> None:
        """Append encoded pages; the caller records their offsets."""
        self._write(data)

    def finish(self, footer: Footer) -> tuple[int, int]:
        """Write footer and trailer; sync and close the file if the writer opened it.

        Returns:
            the file's length in bytes, and the crc32c of its footer.

        Raises:
            IndexFileError: if the file cannot be written.
        """
        data = _footer_bytes(footer)
        if len(data) > MAX_BLOCK:
            raise IndexFileError(
                f"a footer of {len(data)} bytes cannot be written: the limit is {MAX_BLOCK}; "
                "raise values_per_page"
            )
        head = struct.pack("<II", len(data), VERSION)
        crc = google_crc32c.value(data + head)
        self._write(data + _TRAILER.pack(len(data), VERSION, crc, MAGIC))
        if self._owned is not None:
            try:
                self._owned.flush()
                os.fsync(self._owned.fileno())
                self._owned.close()
                _sync_directory(Path(self._path).parent)
            except OSError as error:
                raise self._write_error(error) from error
        self._is_finished = True
        return self._length, crc

    def abort(self) -> None:
        """Close and remove an unfinished file that the writer opened; do not touch the caller's output.

        Errors are ignored: they would hide the error that led here.
        """
        if self._owned is not None and not self._is_finished:
            # closing writes the buffer, which fails again on a full disk; the file is closed all the same
            with contextlib.suppress(OSError):
                self._owned.close()
            with contextlib.suppress(OSError):
                Path(self._path).unlink(missing_ok=True)

    def _write(self, data: Buffer) -> None:
        try:
            self._sink.write(data)  # type: ignore[arg-type]
        except OSError as error:
            raise self._write_error(error) from error
        self._length += len(data)

    def _write_error(self, error: OSError) -> IndexFileError:
        return IndexFileError(
            f"Index file {self._path!r} cannot be written: {error.strerror or error}; make room or grant access "
            "there, or use a store in another place"
        )


def encode_page(blocks: Sequence[Buffer], *, compress: bool = True) -> bytes:
    """Encode blocks as a page.

    Raises:
        IndexFileError: if a block or the page is too long for the format.
    """
    if len(blocks) > MAX_BLOCKS:
        raise IndexFileError(f"a page of {len(blocks)} blocks cannot be written: the limit is {MAX_BLOCKS}")
    headers, bodies = bytearray([len(blocks)]), []
    for block in blocks:
        raw, codec, stored = len(block), CODEC_NONE, block
        if raw > MAX_BLOCK:
            raise IndexFileError(f"a block of {raw} bytes cannot be written: the limit is {MAX_BLOCK}")
        if compress and raw >= _COMPRESS_FROM:
            packed = _codecs.compressor.compress(block)
            if len(packed) < raw - raw // 16 and raw <= _max_raw(len(packed)):
                codec, stored = CODEC_ZSTD, packed
        headers += _BLOCK.pack(codec, len(stored), raw)
        bodies.append(stored)
    page = b"".join((headers, *bodies))
    if len(page) > MAX_PAGE:
        raise IndexFileError(f"a page of {len(page)} bytes cannot be written: the limit is {MAX_PAGE}")
    return page


@cache
def _block_headers(count: int) -> struct.Struct:
    """Return the format of the headers of all blocks of a page."""
    return struct.Struct("<" + _BLOCK.format.removeprefix("<") * count)


def _max_raw(stored: int) -> int:
    """Return the most raw bytes of a block, given its stored bytes."""
    return min(max(LONG_BLOCK, LONG_BLOCK_FACTOR * stored), MAX_BLOCK)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _footer_bytes(footer: Footer) -> bytes:
    return pb.FileFooter(
        index_type=footer.index_type,
        column=footer.column,
        column_type=footer.column_type,
        key_kind=_KEY_KIND_NUMBERS[footer.key_kind],
        properties=[pb.Entry(name=name, value=value) for name, value in sorted(footer.properties.items())],
        metadata=[pb.Entry(name=name, value=value) for name, value in sorted(footer.metadata.items())],
        writer=footer.writer,
        body=footer.body,
    ).SerializeToString(deterministic=True)


class Page:
    """A page whose checksum is verified; blocks are decompressed on demand."""

    # three tuples hold all headers: a lookup makes thousands of pages, and the garbage collector visits each object
    __slots__ = ("_codecs", "_data", "_name", "_raw", "_starts")

    def __init__(self, data: memoryview, name: str) -> None:
        self._data = data
        self._name = name
        count = data[0] if len(data) else 0
        at = 1 + count * _BLOCK.size
        if not len(data) or at > len(data):
            raise self.error("its block headers do not fit in it")
        headers = _block_headers(count).unpack_from(data, 1)
        self._codecs, self._raw = headers[::3], headers[2::3]
        self._starts = tuple(accumulate(headers[1::3], initial=at))
        for codec, stored, raw in zip(self._codecs, headers[1::3], self._raw, strict=True):
            if codec not in (CODEC_NONE, CODEC_ZSTD):
                raise self.error(f"block codec {codec} is unknown")
            if raw > MAX_BLOCK or (raw != stored if codec == CODEC_NONE else raw > _max_raw(stored)):
                raise self.error(f"a block of {stored} bytes claims a raw length of {raw}")
        end = self._starts[-1]
        if end > len(data):
            raise self.error("a block does not fit in it")
        if end < len(data):
            raise self.error(f"{len(data) - end} bytes follow its blocks")

    def __len__(self) -> int:
        return len(self._codecs)

    @property
    def stored(self) -> memoryview:
        """The bytes as stored."""
        return self._data

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """The codec of each block, and its lengths as stored and raw."""
        stored = (end - start for start, end in pairwise(self._starts))
        return list(zip(self._codecs, stored, self._raw, strict=True))

    def error(self, message: str) -> IndexFileError:
        """Return the error for this page."""
        return IndexFileError(f"{self._name} is corrupt: {message}; rebuild the index")

    def block(self, number: int, length: int | None = None, *, max_length: int | None = None) -> memoryview:
        """Return the raw bytes of a block.

        Args:
            length: the raw length that the block must have; None for any.
            max_length: the greatest raw length that the block may have; None for any.

        Raises:
            IndexFileError: if there is no such block, or it does not match its header.
        """
        if number >= len(self):
            raise self.error(f"it has {len(self)} blocks and number {number} is wanted")
        codec, raw = self._codecs[number], self._raw[number]
        stored = self._data[self._starts[number] : self._starts[number + 1]]
        if length is not None and raw != length:
            raise self.error(f"block {number} holds {raw} bytes and {length} are expected")
        if max_length is not None and raw > max_length:
            raise self.error(f"block {number} holds {raw} bytes, more than the {max_length} allowed")
        if codec == CODEC_NONE:
            return stored
        try:
            return memoryview(decompress_block(stored, raw))
        except ValueError as error:
            raise self.error(f"block {number} {error}") from error


def decompress_block(stored: memoryview, raw: int) -> bytes:
    """Decompress a block of ``raw`` bytes.

    Raises:
        ValueError: with the problem, if the block cannot be decompressed to ``raw`` bytes.
    """
    try:
        # the size in the frame would be allocated, whatever the bound
        if zstandard.frame_content_size(stored) not in (-1, raw):
            raise ValueError("disagrees with its frame about its length")
        # a bound of 0 would mean no bound
        data = _codecs.decompressor.decompress(stored, max_output_size=max(raw, 1))
    except (zstandard.ZstdError, MemoryError) as error:
        raise ValueError(f"cannot be decompressed ({error})") from error
    if len(data) != raw:
        raise ValueError(f"decompresses to {len(data)} bytes and {raw} are expected")
    return data


def decompress_blocks(
    data: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], out: BytesIO
) -> npt.NDArray[np.uint8]:
    """Decompress blocks into one buffer, in few calls, which let other threads run.

    Args:
        data: uint8, the stored blocks.
        spans: int64[N, 2], the start and the length of each block in ``data``.
        sizes: int64[N], the decompressed bytes of each block.
        out: the buffer, written from its beginning. Nothing may refer to its bytes when it is used again.

    Raises:
        ValueError: with the number and the problem of a block that cannot be decompressed to its size.
    """
    parts: list[Any] = []
    if len(sizes) > _FEW_BLOCKS:
        # a context of its own: threads must not share one
        decompressor = zstandard.ZstdDecompressor()
        try:
            count = max(1, len(sizes) * _CONTENTS_AT_ONCE // max(int(sizes.sum()), 1))
            for at in range(0, len(sizes), count):
                frames = zstandard.BufferWithSegments(
                    data.data, spans[at : at + count].astype(np.uint64).tobytes()
                )
                lengths = sizes[at : at + count].astype(np.uint64).tobytes()
                blocks = decompressor.multi_decompress_to_buffer(frames, decompressed_sizes=lengths)
                parts += [blocks[number] for number in range(len(blocks))]
        except (zstandard.ZstdError, MemoryError, ValueError):
            # decompress the blocks one by one, to name the corrupt one
            parts = []
    if not parts:
        for at, ((start, length), size) in enumerate(zip(spans.tolist(), sizes.tolist(), strict=True)):
            try:
                parts.append(decompress_block(data.data[start : start + length], size))
            except ValueError as error:
                raise ValueError(at, str(error)) from error
    out.seek(0)
    out.writelines(parts)
    return np.frombuffer(out.getbuffer(), np.uint8, out.tell())


class IndexFileReader:
    """An open index file: its footer, and pages on demand.

    ``pages_read`` and ``bytes_read`` count the fetches after the footer.

    Args:
        cache: the cache of decoded pages; by default, a small one of its own.

    Raises:
        IndexFileError: if the file is not an index file, truncated or corrupt.
        NewerFormatError: if a newer version wrote it.
    """

    def __init__(self, source: ByteSource, cache: Cache | None = None) -> None:
        self._source = source
        self._cache = Cache(OWN_CACHE_BYTES) if cache is None else cache
        self.path = source.path
        self.length = source.size()
        self.pages_read = 0
        self.bytes_read = 0
        if self.length < len(MAGIC) + _TRAILER.size:
            raise self.error(f"it has {self.length} bytes, too few for an index file")
        start = max(0, self.length - TAIL_READ)
        #: The bytes of a remote file that are kept: the pages near its end, or all pages of a small file.
        self.kept_bytes = self.length - start if source.is_remote else 0
        tail = self._fetch([(start, self.length - start)], keep=True)[0]
        size, version, crc, magic = _TRAILER.unpack(tail[-_TRAILER.size :])
        if magic != MAGIC:
            raise self.error("it does not end as an index file does: it is truncated or of another kind")
        if version > VERSION:
            raise NewerFormatError(
                f"Index file {self.path!r} has format version {version} and this version of hindex reads "
                f"up to {VERSION}: upgrade hindex or rebuild the index"
            )
        if version == 0:
            raise self.error("its format version is 0")
        whole = size + _TRAILER.size
        if whole > self.length - len(MAGIC):
            raise self.error(f"its footer of {size} bytes does not fit in its {self.length}")
        if whole > len(tail):
            tail = self._fetch([(self.length - whole, whole)])[0]
        elif start == 0 and tail[: len(MAGIC)] != MAGIC:
            raise self.error("it does not begin as an index file does")
        #: The crc32c of the footer, as the manifest records it.
        self.footer_crc32c: int = crc
        #: The offset of the end of the pages, in bytes.
        self.pages_end = self.length - whole
        covered = tail[len(tail) - whole : len(tail) - _TRAILER.size + 8]
        if google_crc32c.value(bytes(covered)) != crc:
            raise self.error("the checksum of its footer does not hold")
        self.footer = self._parse_footer(bytes(covered[:size]))

    def _parse_footer(self, data: bytes) -> Footer:
        try:
            message = pb.FileFooter.FromString(data)
        except DecodeError as error:
            raise self.error(f"its footer cannot be parsed ({error})") from error
        if message.key_kind not in _KEY_KINDS:
            raise self.error(f"key kind {message.key_kind} is unknown")
        return Footer(
            index_type=message.index_type,
            column=message.column,
            column_type=message.column_type,
            key_kind=_KEY_KINDS[message.key_kind],
            properties={entry.name: entry.value for entry in message.properties},
            metadata={entry.name: entry.value for entry in message.metadata},
            body=message.body,
            writer=message.writer,
        )

    def error(self, message: str) -> IndexFileError:
        """Return the error for this file."""
        return IndexFileError(f"Index file {self.path!r} is corrupt: {message}; rebuild the index")

    def read_pages(self, refs: Sequence[PageRef]) -> list[Page]:
        """Read pages in the given order, fetched together.

        Raises:
            IndexFileError: if a reference is not within the pages, or a checksum is wrong.
        """
        encoded = self.read_encoded(refs)
        return [
            Page(memoryview(data), self.page_name(ref.offset))
            for ref, data in zip(refs, encoded, strict=True)
        ]

    def read_encoded(self, refs: Sequence[PageRef]) -> list[bytes]:
        """Read the bytes of pages in the given order, fetched together.

        Raises:
            IndexFileError: as `read_pages`.
        """
        for ref in refs:
            if ref.offset < len(MAGIC) or ref.length == 0 or ref.offset + ref.length > self.pages_end:
                raise self.error(f"a page of {ref.length} bytes at {ref.offset} lies outside its pages")
        if not refs:
            return []
        # copies, so that other bytes of the request do not stay in memory
        pages = [bytes(view) for view in self._fetch([(ref.offset, ref.length) for ref in refs])]
        for ref, data in zip(refs, pages, strict=True):
            if google_crc32c.value(data) != ref.crc32c:
                raise IndexFileError(
                    f"{self.page_name(ref.offset)} is corrupt: its checksum does not hold; rebuild the index"
                )
        nbytes = sum(map(len, pages))
        self.pages_read += len(pages)
        self.bytes_read += nbytes
        self._cache.count_read(len(pages), nbytes)
        return pages

    def page_name(self, offset: int) -> str:
        """Return the name of a page for messages."""
        return f"Index file {self.path!r}, page at {offset},"

    def read_stored(self, pages: PageRefs, numbers: Int64s) -> npt.NDArray[np.uint8]:
        """Return the concatenated bytes of some pages, from the cache or from the file.

        Pages that are not cached are fetched together. Verified pages are cached and never read again.

        Args:
            numbers: int64, the ordinals of the pages.

        Raises:
            IndexFileError: as `read_pages`.
        """
        refs = pages.refs(numbers)
        keys = [(self._identity, ref, _STORED) for ref in refs]
        parts = cast("list[bytes | None]", self._cache.get_all(keys))
        missing = [at for at, page in enumerate(parts) if page is None]
        missing_refs = [refs[at] for at in missing]
        for at, page in zip(missing, self.read_encoded(missing_refs), strict=True):
            parts[at] = page
            self._cache.put(keys[at], page, len(page))
        stored = [page for page in parts if page is not None]
        return np.frombuffer(stored[0] if len(stored) == 1 else b"".join(stored), np.uint8)

    def read_bytes(self, offset: int, length: int) -> memoryview:
        """Read stored bytes of any pages, for a copy.

        Raises:
            IndexFileError: if they cannot be read, or are not all within the pages.
        """
        if offset < len(MAGIC) or length < 0 or offset + length > self.pages_end:
            raise self.error(f"{length} bytes at {offset} lie outside its pages")
        return self._fetch([(offset, length)])[0]

    def decode_pages(
        self, refs: Sequence[PageRef], decode: Callable[[int, Page], T], nbytes: Callable[[T], int]
    ) -> Iterator[T]:
        """Yield the decoded pages in the given order, from the cache or from the file.

        Pages that are not cached are fetched together. The values are shared and must not be changed.

        Args:
            decode: decodes a page, given its position in ``refs``.
            nbytes: returns the approximate memory of a value in bytes.

        Raises:
            IndexFileError: as `read_pages` and ``decode``.
        """
        cached = [self._cache.get((self._identity, ref.offset)) for ref in refs]
        missing = [at for at, value in enumerate(cached) if value is None]
        pages = iter(self.read_pages([refs[at] for at in missing]))
        for at, (ref, cached_value) in enumerate(zip(refs, cached, strict=True)):
            if cached_value is not None:
                yield cast("T", cached_value)
                continue
            value = decode(at, next(pages))
            self._cache.put((self._identity, ref.offset), value, nbytes(value))
            yield value

    @property
    def _identity(self) -> tuple[str, int, int]:
        return self.path, self.length, self.footer_crc32c

    def _fetch(self, ranges: list[tuple[int, int]], *, keep: bool = False) -> list[memoryview]:
        try:
            if keep:
                self._source.prefetch(ranges)
            return self._source.read(ranges)
        except (OSError, OrcError) as error:
            raise IndexFileError(f"Index file {self.path!r} cannot be read: {error}") from error

    def close(self) -> None:
        self._source.close()


UIntArray = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


# Unsigned integers are stored as byte planes: all lowest bytes, then all second bytes, and so on. The planes are
# compressed one by one: noise stays raw at no cost, while the higher bytes, which have few distinct values, shrink
# to their entropy. A mixed stream would share one Huffman table and lose that.


def byte_width(values: UIntArray) -> int:
    """Return the number of bytes that the greatest value needs: 0 if all are 0 or there are none."""
    return (int(values.max()).bit_length() + 7) // 8 if len(values) else 0


def split_bytes(values: UIntArray, width: int) -> list[bytes]:
    """Split the lowest ``width`` bytes of each value into one plane per byte, lowest first."""
    view = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.itemsize)
    return [view[:, plane].tobytes() for plane in range(width)]


def join_bytes(planes: Sequence[memoryview], count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Join planes of ``count`` bytes each to ``count`` values; zeros if there are no planes."""
    values = np.zeros(count, np.dtype(dtype).newbyteorder("<"))
    view = values.view(np.uint8).reshape(count, values.itemsize)
    for number, plane in enumerate(planes):
        view[:, number] = np.frombuffer(plane, np.uint8)
    return values


def page_message(page: PageRef) -> pb.PageRef:
    """Encode a page reference for a footer."""
    return pb.PageRef(offset=page.offset, length=page.length, crc32c=page.crc32c)


def page_ref(message: pb.PageRef) -> PageRef:
    """Decode a page reference of a footer."""
    return PageRef(message.offset, message.length, message.crc32c)
