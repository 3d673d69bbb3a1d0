"""The container of every index file (``.hidx``): pages, a protobuf footer, a trailer.

The bytes are specified in ``docs/format.md``. A page is a list of blocks, each stored raw or as a zstd frame;
the page's place, length and crc32c are kept by whoever points to it. Nothing read here is trusted: every
length is checked against what holds it before it is used, and every checksum before its bytes are parsed.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, cast

import google_crc32c
import zstandard
from google.protobuf.message import DecodeError

from hindex.errors import IndexFileError, NewerFormatError, OrcError
from hindex.index.page_cache import Cache
from hindex.keys import KeyKind
from hindex.orc.io.source import ByteSource
from hindex.proto import index_file_pb2 as pb

MAGIC = b"HIDX\r\n\x1a\n"
#: The version written, and the newest one read.
VERSION = 1
#: How much of the file's end is read first, in bytes: nearly always the whole footer.
TAIL_READ = 64 * 1024

#: Greatest raw length of a block, in bytes: a corrupt length must not allocate the machine's memory.
MAX_BLOCK = (1 << 31) - 1
#: A block that has more raw bytes has at most so many times as many as are stored of it, so that few bytes on the disk
#: cannot take the machine's memory either: one that would shrink further is stored as it is.
LONG_BLOCK = 1 << 26
LONG_BLOCK_FACTOR = 1024
#: Greatest length of a page as stored, in bytes (a :class:`PageRef`'s field has 32 bits).
MAX_PAGE = (1 << 32) - 1
#: Most blocks of a page.
MAX_BLOCKS = 255

CODEC_NONE = 0
CODEC_ZSTD = 1

_ZSTD_LEVEL = 1
# below this, a frame's header eats the gain
_COMPRESS_FROM = 32

_TRAILER = struct.Struct("<III8s")
_BLOCK = struct.Struct("<BII")

_KEY_KINDS = {pb.KEY_KIND_INT64: KeyKind.INT64, pb.KEY_KIND_BYTES: KeyKind.BYTES}
_KEY_KIND_NUMBERS = {kind: number for number, kind in _KEY_KINDS.items()}

#: Bytes of decoded pages kept by a reader that is given no cache.
OWN_CACHE_BYTES = 16 * 1024 * 1024

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview


class BinarySink(Protocol):
    """The output of an index file that is not a local path."""

    def write(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class PageRef:
    """The offset and length of a page in its file, in bytes, and the crc32c of its bytes."""

    offset: int
    length: int
    crc32c: int


@dataclass(frozen=True, slots=True)
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
    """A zstd context serves one thread at a time."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=False)
        self.decompressor = zstandard.ZstdDecompressor()


_codecs = _Codecs()


class IndexFileWriter:
    """Writes one index file from front to back.

    :param sink: a path that must not exist, or something to write to that the caller closes.
    """

    def __init__(self, sink: str | os.PathLike[str] | BinarySink) -> None:
        self._path: Path | None = None
        self._sink: BinarySink
        self._owned = None
        if isinstance(sink, str | os.PathLike):
            self._path = Path(sink)
            try:
                self._owned = self._path.open("xb")
            except OSError as error:
                raise IndexFileError(
                    f"Index file {str(self._path)!r} cannot be created: {error.strerror}"
                ) from error
            self._sink = self._owned
        else:
            self._sink = sink
        self._length = 0
        self._write(MAGIC)

    @property
    def length(self) -> int:
        """Bytes written so far."""
        return self._length

    def write_page(self, blocks: Sequence[Buffer], *, compress: bool = True) -> PageRef:
        """Append a page, each block compressed where that pays.

        :param compress: False stores blocks raw, so that they can be used where they lie in a memory-mapped file.
        :raises IndexFileError: if a block or the page is too long for the format.
        """
        return self.append_page(encode_page(blocks, compress=compress))

    def append_page(self, page: bytes) -> PageRef:
        """Append a page that was encoded before."""
        found = PageRef(self._length, len(page), google_crc32c.value(page))
        self._write(page)
        return found

    def append_bytes(self, data: Buffer) -> None:
        """Append a piece of pages as they were encoded before; what points to them is known elsewhere."""
        self._write(data)

    def finish(self, footer: Footer) -> tuple[int, int]:
        """Write footer and trailer, and make an own file durable.

        :returns: the file's length in bytes, and the crc32c of its footer.
        """
        data = _footer_bytes(footer)
        if len(data) > MAX_BLOCK:
            raise IndexFileError(
                f"a footer of {len(data)} bytes cannot be written: the most is {MAX_BLOCK}; "
                "raise values_per_page"
            )
        head = struct.pack("<II", len(data), VERSION)
        crc = google_crc32c.value(data + head)
        self._write(data + _TRAILER.pack(len(data), VERSION, crc, MAGIC))
        if self._owned is not None and self._path is not None:
            self._owned.flush()
            os.fsync(self._owned.fileno())
            self._owned.close()
            _sync_directory(self._path.parent)
        return self._length, crc

    def abort(self) -> None:
        """Close and remove an own file; a sink of the caller's is left as it is."""
        if self._owned is not None and self._path is not None and not self._owned.closed:
            self._owned.close()
            self._path.unlink()

    def _write(self, data: Buffer) -> None:
        self._sink.write(data)  # type: ignore[arg-type]
        self._length += len(data)


def encode_page(blocks: Sequence[Buffer], *, compress: bool = True) -> bytes:
    """The bytes of a page of some blocks.

    :raises IndexFileError: if a block or the page is too long for the format.
    """
    if len(blocks) > MAX_BLOCKS:
        raise IndexFileError(f"a page of {len(blocks)} blocks cannot be written: the most is {MAX_BLOCKS}")
    headers, bodies = bytearray([len(blocks)]), []
    for block in blocks:
        raw, codec, stored = len(block), CODEC_NONE, block
        if raw > MAX_BLOCK:
            raise IndexFileError(f"a block of {raw} bytes cannot be written: the most is {MAX_BLOCK}")
        if compress and raw >= _COMPRESS_FROM:
            packed = _codecs.compressor.compress(block)
            if len(packed) < raw - raw // 16 and raw <= _most_raw(len(packed)):
                codec, stored = CODEC_ZSTD, packed
        headers += _BLOCK.pack(codec, len(stored), raw)
        bodies.append(stored)
    page = b"".join((headers, *bodies))
    if len(page) > MAX_PAGE:
        raise IndexFileError(f"a page of {len(page)} bytes cannot be written: the most is {MAX_PAGE}")
    return page


def _most_raw(stored: int) -> int:
    """Raw bytes that a block of some stored ones may have."""
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
    """A page whose checksum held; blocks are decompressed when asked for."""

    __slots__ = ("_blocks", "_what")

    def __init__(self, data: memoryview, what: str) -> None:
        self._what = what
        self._blocks: list[tuple[int, memoryview, int]] = []
        count = data[0] if len(data) else 0
        at = 1 + count * _BLOCK.size
        if not len(data) or at > len(data):
            raise self.error("its block headers do not fit in it")
        for codec, stored, raw in _BLOCK.iter_unpack(data[1:at]):
            if at + stored > len(data):
                raise self.error("a block does not fit in it")
            if codec not in (CODEC_NONE, CODEC_ZSTD):
                raise self.error(f"block codec {codec} is unknown")
            if raw > MAX_BLOCK or (raw != stored if codec == CODEC_NONE else raw > _most_raw(stored)):
                raise self.error(f"a block of {stored} bytes says that it holds {raw}")
            self._blocks.append((codec, data[at : at + stored], raw))
            at += stored
        if at != len(data):
            raise self.error(f"{len(data) - at} bytes follow its blocks")

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def sizes(self) -> list[tuple[int, int, int]]:
        """The codec of each block, and its lengths as stored and raw."""
        return [(codec, len(stored), raw) for codec, stored, raw in self._blocks]

    def error(self, message: str) -> IndexFileError:
        """The error of this page that says what is wrong with it."""
        return IndexFileError(f"{self._what} is corrupt: {message}; rebuild the index")

    def block(self, number: int, length: int | None = None, *, most: int | None = None) -> memoryview:
        """The raw bytes of a block.

        :param length: what its raw length must be, where that is known.
        :param most: the greatest raw length that it may have, where that is known.
        :raises IndexFileError: if there is no such block, or it is not as it says.
        """
        if number >= len(self._blocks):
            raise self.error(f"it has {len(self._blocks)} blocks and number {number} is wanted")
        codec, stored, raw = self._blocks[number]
        if length is not None and raw != length:
            raise self.error(f"block {number} holds {raw} bytes and {length} are expected")
        if most is not None and raw > most:
            raise self.error(f"block {number} holds {raw} bytes and {most} are the most there can be")
        if codec == CODEC_NONE:
            return stored
        try:
            # a size that the frame states would be allocated, whatever the bound
            if zstandard.frame_content_size(stored) not in (-1, raw):
                raise self.error(f"block {number} disagrees with its frame about its length")
            # a bound of 0 would mean none
            data = _codecs.decompressor.decompress(stored, max_output_size=max(raw, 1))
        except (zstandard.ZstdError, MemoryError) as error:
            raise self.error(f"block {number} cannot be decompressed ({error})") from error
        if len(data) != raw:
            raise self.error(f"block {number} decompresses to {len(data)} bytes and {raw} are expected")
        return memoryview(data)


class IndexFileReader:
    """An open index file: its footer, and pages on demand.

    ``pages_read`` and ``bytes_read`` count what was fetched after the footer.

    :param cache: where decoded pages are kept; by default a small one of its own.
    :raises IndexFileError: if the file is not an index file, truncated or corrupt.
    :raises NewerFormatError: if a newer version wrote it.
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
        tail = self._fetch([(start, self.length - start)])[0]
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
        #: crc32c of the footer, as the manifest records it.
        self.footer_crc32c: int = crc
        #: Where the pages end, in bytes.
        self.pages_end = self.length - whole
        covered = tail[len(tail) - whole : len(tail) - _TRAILER.size + 8]
        if google_crc32c.value(bytes(covered)) != crc:
            raise self.error("the checksum of its footer does not hold")
        self.footer = self._parse_footer(bytes(covered[:size]))

    def _parse_footer(self, data: bytes) -> Footer:
        try:
            found = pb.FileFooter.FromString(data)
        except DecodeError as error:
            raise self.error(f"its footer cannot be parsed ({error})") from error
        if found.key_kind not in _KEY_KINDS:
            raise self.error(f"key kind {found.key_kind} is unknown")
        return Footer(
            index_type=found.index_type,
            column=found.column,
            column_type=found.column_type,
            key_kind=_KEY_KINDS[found.key_kind],
            properties={entry.name: entry.value for entry in found.properties},
            metadata={entry.name: entry.value for entry in found.metadata},
            body=found.body,
            writer=found.writer,
        )

    def error(self, message: str) -> IndexFileError:
        """The error of this file that says what is wrong with it."""
        return IndexFileError(f"Index file {self.path!r} is corrupt: {message}; rebuild the index")

    def read_pages(self, refs: Sequence[PageRef]) -> list[Page]:
        """Pages in the order asked for, fetched together.

        :raises IndexFileError: if one does not lie among the pages or its checksum does not hold.
        """
        encoded = self.read_encoded(refs)
        pages = [Page(data, self._page(ref)) for ref, data in zip(refs, encoded, strict=True)]
        self.pages_read += len(refs)
        self.bytes_read += sum(ref.length for ref in refs)
        self._cache.count_read(len(refs), sum(ref.length for ref in refs))
        return pages

    def read_encoded(self, refs: Sequence[PageRef]) -> list[memoryview]:
        """The bytes of pages in the order asked for, fetched together.

        :raises IndexFileError: as :meth:`read_pages`.
        """
        for ref in refs:
            if ref.offset < len(MAGIC) or ref.length == 0 or ref.offset + ref.length > self.pages_end:
                raise self.error(f"a page of {ref.length} bytes at {ref.offset} lies outside its pages")
        if not refs:
            return []
        found = self._fetch([(ref.offset, ref.length) for ref in refs])
        for ref, data in zip(refs, found, strict=True):
            if google_crc32c.value(bytes(data)) != ref.crc32c:
                raise IndexFileError(
                    f"{self._page(ref)} is corrupt: its checksum does not hold; rebuild the index"
                )
        return found

    def _page(self, ref: PageRef) -> str:
        return f"Index file {self.path!r}, page at {ref.offset},"

    def read_bytes(self, offset: int, length: int) -> memoryview:
        """Some bytes as they are, of any pages, to be copied.

        :raises IndexFileError: if they cannot be read, or are not all among the pages.
        """
        if offset < len(MAGIC) or length < 0 or offset + length > self.pages_end:
            raise self.error(f"{length} bytes at {offset} lie outside its pages")
        return self._fetch([(offset, length)])[0]

    def decoded(
        self, refs: Sequence[PageRef], decode: Callable[[int, Page], T], nbytes: Callable[[T], int]
    ) -> Iterator[T]:
        """Yield the decoded pages in the given order, from the cache or from the file.

        Those that are not cached are fetched together. The values are shared: they must not be changed.

        :param decode: makes the value of a page, given its place in ``refs``.
        :param nbytes: about how much memory a value takes.
        :raises IndexFileError: as :meth:`read_pages`, and what ``decode`` raises.
        """
        found = [self._cache.get((self._identity, ref.offset)) for ref in refs]
        missing = [at for at, value in enumerate(found) if value is None]
        if len(missing) < len(refs) and not self._source.is_remote:
            # what is kept may lie in the mapped file still, whose length is looked at before it is read
            self._fetch([])
        pages = iter(self.read_pages([refs[at] for at in missing]))
        for at, (ref, known) in enumerate(zip(refs, found, strict=True)):
            if known is not None:
                yield cast("T", known)
                continue
            value = decode(at, next(pages))
            self._cache.put((self._identity, ref.offset), value, nbytes(value))
            yield value

    def derived(self, ref: PageRef, part: int, make: Callable[[], T], nbytes: Callable[[T], int]) -> T:
        """Return a value derived from a part of a page, from the cache if possible.

        The value is shared: callers must not change it.

        :param part: tells it from other parts of the page.
        """
        key = self._identity, ref.offset, part
        found = self._cache.get(key)
        if found is not None:
            return cast("T", found)
        value = make()
        self._cache.put(key, value, nbytes(value))
        return value

    @property
    def _identity(self) -> tuple[str, int, int]:
        return self.path, self.length, self.footer_crc32c

    def _fetch(self, ranges: list[tuple[int, int]]) -> list[memoryview]:
        try:
            return self._source.read(ranges)
        except (OSError, OrcError) as error:
            raise IndexFileError(f"Index file {self.path!r} cannot be read: {error}") from error

    def close(self) -> None:
        self._source.close()
