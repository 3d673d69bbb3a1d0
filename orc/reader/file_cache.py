"""A bounded cache of the metadata of files: tails, stripe footers and row indexes.

A local file is identified by its inode, length and times, and by its tail's checksum, a remote file by its listed
version: a changed or replaced file is a new one.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, field

import google_crc32c

from hindex.errors import ArgumentError
from hindex.lru_cache import LruCache
from hindex.orc.decode.positions import RowIndexPositions
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.metadata.stripe import Stripe

#: The environment variable with the size of the process's cache in bytes; 0 for no cache.
VARIABLE = "HINDEX_ORC_CACHE_BYTES"
DEFAULT_BYTES = 64 * 1024 * 1024

#: The approximate memory in bytes of a file's tail, a field of its footer, a stripe, a stream, an encoding, a row
#: group's statistics, and a number of a position.
_TAIL, _FIELD, _STRIPE, _STREAM, _ENCODING, _ENTRY, _NUMBER = 8192, 64, 1024, 320, 40, 200, 40


@dataclass(slots=True, eq=False)
class CachedFile:
    """The metadata of a file, as far as it has been read. Threads may share it: entries are only added."""

    tail: FileTail
    #: None if it is not cached.
    identity: Hashable | None = None
    stripes: dict[int, Stripe] = field(default_factory=dict)
    positions: dict[tuple[int, int], RowIndexPositions | None] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The approximate memory use."""
        total = _TAIL + 2 * self.tail.length + _FIELD * self.tail.fields
        for stripe in list(self.stripes.values()):
            total += _STRIPE + _STREAM * len(stripe.streams) + _ENCODING * len(stripe.encodings)
            for entries in list(stripe.row_entries.values()):
                total += sum(_ENTRY + _NUMBER * len(entry.positions) for entry in entries[:1]) * len(entries)
        tables = [table for table in list(self.positions.values()) if table is not None]
        return total + sum(3 * item.chunk.nbytes for table in tables for item in table.values())


class FileCache:
    """A cache of the metadata of files by identity; the least recently used are dropped first.

    Args:
        limit: the size in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._files: LruCache[Hashable, CachedFile] = LruCache(limit)

    def open(self, source: ByteSource) -> CachedFile:
        """Return the metadata of a file, at least its tail; readers add to it.

        Raises:
            OrcError: if the file is not a readable ORC file.
        """
        identity = source.identity()
        file = self._files.get(identity)
        # a remote file is identified by its version, and no other version is read
        if file is None or not (source.is_remote or _is_same(file.tail, source)):
            file = CachedFile(read_tail(source), identity)
        if identity is not None:
            self._files.put(identity, file, file.nbytes)
        return file

    def weigh(self, file: CachedFile) -> None:
        """Update the size of a file's metadata, to which readers have added."""
        if self._files.get(file.identity) is file:
            self._files.put(file.identity, file, file.nbytes)

    def __len__(self) -> int:
        return len(self._files)

    @property
    def nbytes(self) -> int:
        return self._files.weight

    def clear(self) -> None:
        self._files.clear()


def _is_same(tail: FileTail, source: ByteSource) -> bool:
    (data,) = source.read([(tail.file_length - tail.length, tail.length)])
    return bool(google_crc32c.value(bytes(data)) == tail.checksum)


def check_bound() -> None:
    """Check the limit in the environment, since an invalid one is otherwise replaced by the default.

    Raises:
        ArgumentError: if it is not a number.
    """
    text = os.environ.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise ArgumentError(f"{VARIABLE} is {text!r}: set it to a number of bytes, 0 for no cache")


def _limit() -> int:
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() else DEFAULT_BYTES


#: The process's cache.
FILE_CACHE = FileCache(_limit())
