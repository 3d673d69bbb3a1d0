"""Copies of the metadata of remote data files in the store: the bytes that a reader needs before rows.

The tail of a remote file, the footers of its stripes and their row indexes take three sequential requests. The
builds of a remote table copy these bytes, so that the first request to a data file is for rows. A copy belongs to
one version of the file: readers use it only if the listing has that version, and they request the data of no other
version.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

import google_crc32c
from google.protobuf.message import DecodeError

from hindex.errors import HindexError
from hindex.lru_cache import LruCache
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import ByteSource, Range, RequestSource
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.file_tail import read_tail
from hindex.orc.metadata.stripe import StreamKind, read_stripe_footer
from hindex.proto import manifest_pb2 as pb
from hindex.store.segment import MetadataCopy
from hindex.value_class import value_class

_LOG = logging.getLogger("hindex.scan")

#: The limits of the bytes copied of a file, which are a part of its length. A reader fetches the rest itself.
_MAX_BYTES = 1 << 20
_MIN_BYTES = 1 << 14
_PART = 1 / 64

#: The number of files with copies that are read at once.
_FILES_AT_ONCE = 32
#: The number of data files whose copies a build fetches at a time.
_BATCH = 64

#: The most bytes of copies that the process keeps. A copy that cannot be read is kept without bytes.
_CACHE_BYTES = 32 << 20
COPIES: LruCache[MetadataCopy, bytes] = LruCache(_CACHE_BYTES)

Item = TypeVar("Item")


@value_class
class FileVersion:
    """One version of a data file in an object store.

    Attributes:
        copy: the copy of its metadata, with an absolute path; None if there is none.
    """

    version: Hashable
    copy: MetadataCopy | None = None

    def open(self, uri: str, length: int) -> ByteSource:
        """Open this version of the file at ``uri``, with its metadata from the copy.

        A later read raises `OrcError` if the file is gone, or (``ESTALE``) has another version.
        """
        source = open_source(uri, length=length, version=self.version)
        if self.copy is not None:
            keep_metadata(source, self.copy)
        return source


def batches_with_copies(
    items: Sequence[Item], version_of: Callable[[Item], FileVersion | None]
) -> Iterator[Sequence[Item]]:
    """Yield items in batches. First fetch the metadata copies of a batch together: they are adjacent in one file."""
    for first in range(0, len(items), _BATCH):
        batch = items[first : first + _BATCH]
        versions = map(version_of, batch)
        fetch_copies([item.copy for item in versions if item is not None and item.copy is not None])
        yield batch


def copy_metadata(source: RequestSource) -> tuple[int, bytes] | None:
    """Read the metadata of a data file.

    The tail comes first, then the footers of the stripes, then the row indexes of as many stripes as fit.

    Returns:
        the checksum of the tail, and the bytes to store; None if the tail alone is too long.

    Raises:
        OrcError: if the file is not readable as ORC.
    """
    tail = read_tail(source)
    size = source.size()
    budget = min(max(int(size * _PART), _MIN_BYTES), _MAX_BYTES) - tail.length
    if budget < 0:
        return None
    ranges = [(size - tail.length, tail.length)]
    footers = [
        (item.offset + item.index_length + item.data_length, item.footer_length) for item in tail.stripes
    ]
    budget -= sum(length for _, length in footers)
    if budget >= 0:
        ranges += footers
        source.keep(zip((start for start, _ in footers), source.read(footers), strict=True))
        decompressor = tail.decompressor()
        for number in range(len(tail.stripes)):
            stripe = read_stripe_footer(source, tail, number, decompressor)
            row_indexes = [
                (stream.offset, stream.length)
                for (_, kind), stream in stripe.streams.items()
                if kind is StreamKind.ROW_INDEX
            ]
            budget -= sum(length for _, length in row_indexes)
            if budget < 0:
                break
            ranges += row_indexes
    ranges = _joined(ranges)
    message = pb.FileMetadata()
    for (start, _), data in zip(ranges, source.read(ranges), strict=True):
        message.ranges.add(offset=start, data=bytes(data))
    return tail.checksum, message.SerializeToString()


def _joined(ranges: Iterable[Range]) -> list[Range]:
    """Join adjacent ranges, such as a stripe's footer and the indexes of the next stripe."""
    joined: list[Range] = []
    for start, length in sorted(ranges):
        if joined and sum(joined[-1]) == start:
            joined[-1] = joined[-1][0], joined[-1][1] + length
        else:
            joined.append((start, length))
    return joined


def fetch_copies(copies: Iterable[MetadataCopy]) -> None:
    """Fetch copies together, for `keep_metadata` in this process. Unreadable copies are left out.

    Copies that would evict others from the cache before their use are left out, too.

    Args:
        copies: the copies, with absolute paths.
    """
    by_path: dict[str, list[MetadataCopy]] = {}
    room = _CACHE_BYTES // 2
    for copy in copies:
        room -= copy.length
        if room >= 0 and COPIES.get(copy) is None:
            by_path.setdefault(copy.path, []).append(copy)
    if by_path:
        with ThreadPool(min(len(by_path), _FILES_AT_ONCE) - 1) as pool:
            pool.map(_fetch, list(by_path.values()))


def _fetch(copies: Sequence[MetadataCopy]) -> None:
    """Fetch copies of one file into the cache."""
    ranges = [(copy.offset, copy.length) for copy in copies]
    try:
        with contextlib.closing(open_source(copies[0].path, length=copies[0].file_length)) as source:
            for copy, data in zip(copies, source.read(ranges), strict=True):
                # a copy of the bytes, so that the cache does not keep other bytes of the request
                COPIES.put(copy, bytes(data), copy.length)
    except HindexError as error:
        for copy in copies:
            # not read again for each data file
            COPIES.put(copy, b"")
        _LOG.warning(
            "copies of metadata cannot be read (%s): the data files are read instead; ALTER INDEX ... REBUILD writes "
            "them again",
            error,
        )


def keep_metadata(source: ByteSource, copy: MetadataCopy) -> None:
    """Make a source serve the metadata of a data file from its copy.

    Args:
        source: the source of the version of the file that was copied.
        copy: the copy, with an absolute path.
    """
    if not isinstance(source, RequestSource):
        return
    fetch_copies([copy])
    data = COPIES.get(copy)
    if not data:
        return
    message = pb.FileMetadata()
    try:
        if google_crc32c.value(data) != copy.checksum:
            raise DecodeError("its checksum does not match")
        message.ParseFromString(data)
    except DecodeError as error:
        _LOG.warning("the copy of the metadata of %s in %s is corrupt: %s", source.path, copy.path, error)
        return
    source.keep((item.offset, memoryview(item.data)) for item in message.ranges)
