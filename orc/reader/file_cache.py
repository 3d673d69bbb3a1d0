"""Metadata of files that were read before: tails, stripe footers and row indexes.

Kept in one bounded cache of the process, for local files: a file is known again by its inode, length and times, and
by its tail's checksum. A file that was changed or replaced is a new one.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import google_crc32c

from hindex.errors import ArgumentError
from hindex.orc.decode.positions import RowIndexPositions
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.metadata.stripe import Stripe

#: Environment variable with the bound, in bytes; 0 keeps nothing.
VARIABLE = "HINDEX_ORC_CACHE_BYTES"
DEFAULT_BYTES = 64 * 1024 * 1024

#: About what Python objects take: a file's tail, a stripe, one of its streams, a row group's statistics, and a number
#: of a position.
_TAIL, _STRIPE, _STREAM, _ENTRY, _NUMBER = 8192, 1024, 320, 200, 40


@dataclass(slots=True, eq=False)
class CachedFile:
    """A file's metadata, as far as it has been read. Threads may share it: entries are only added."""

    tail: FileTail
    stripes: dict[int, Stripe] = field(default_factory=dict)
    positions: dict[tuple[int, int], RowIndexPositions | None] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The memory it takes, roughly."""
        total = _TAIL + 2 * self.tail.length
        for stripe in list(self.stripes.values()):
            total += _STRIPE + _STREAM * len(stripe.streams)
            total += sum(_NUMBER * len(e) * len(e[0]) for e in list(stripe.positions.values()) if len(e))
            total += sum(_ENTRY * len(entries) for entries in list(stripe.row_entries.values()))
        tables = [table for table in list(self.positions.values()) if table is not None]
        return total + sum(3 * item.chunk.nbytes for table in tables for item in table.values())


class FileCache:
    """Known files by identity, those used longest ago dropped first.

    :param limit: bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, tuple[CachedFile, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def open(self, source: ByteSource) -> CachedFile:
        """What is known of a file, its tail at least. What its readers learn of it is added to that.

        :raises OrcError: if the file is not a readable ORC file.
        """
        identity = source.identity() if self._limit else None
        if identity is None:
            return CachedFile(read_tail(source))
        with self._lock:
            held = self._held.get(identity)
        known = (
            held[0] if held is not None and _is_same(held[0].tail, source) else CachedFile(read_tail(source))
        )
        self._keep(identity, known)
        return known

    def _keep(self, identity: Hashable, known: CachedFile) -> None:
        # a file grows as it is read, so it is weighed again whenever it is opened
        size = known.nbytes
        with self._lock:
            self._bytes -= self._held.pop(identity, (known, 0))[1]
            if size > self._limit:
                return
            self._held[identity] = (known, size)
            self._bytes += size
            while self._bytes > self._limit:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        return self._bytes

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0


def _is_same(tail: FileTail, source: ByteSource) -> bool:
    (data,) = source.read([(tail.file_length - tail.length, tail.length)])
    return bool(google_crc32c.value(bytes(data)) == tail.checksum)


def check_bound() -> None:
    """Refuse a bound in the environment that cannot be read; where nobody asks, the default is taken for it.

    :raises ArgumentError: naming it.
    """
    text = os.environ.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise ArgumentError(f"{VARIABLE} is {text!r}: a number of bytes is expected, 0 for no cache")


def _limit() -> int:
    text = os.environ.get(VARIABLE, "")
    return int(text) if text.isdecimal() else DEFAULT_BYTES


#: The process's.
KNOWN_FILES = FileCache(_limit())
