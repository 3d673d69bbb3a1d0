"""What is kept in memory of index files: one bounded cache, shared by all scans of a process.

Index files never change once written, and a key names a file by path, length and checksum: nothing that is cached
can go stale. What a file has become on the disk since, only who reads it into a cache of his own gets to know, as
CHECK INDEXES VERIFY does. Its bound comes from ``hindex.connect(cache_bytes=...)`` or the environment.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache

from hindex.errors import HindexError

#: Environment variable with the bound, in bytes.
VARIABLE = "HINDEX_CACHE_BYTES"
DEFAULT_BYTES = 128 * 1024 * 1024
#: Most files that are kept open, whatever the bytes: each has a file descriptor.
MAX_FILES = 256


@dataclass(frozen=True, slots=True)
class CacheCounts:
    """How often something was found in the cache, how often not, and how many bytes it holds, roughly.

    ``pages_read`` and ``bytes_read`` are what was read of index files for it.
    """

    hits: int
    misses: int
    bytes: int
    pages_read: int = 0
    bytes_read: int = 0

    def since(self, before: CacheCounts) -> CacheCounts:
        """What was counted after an earlier moment."""
        return CacheCounts(
            self.hits - before.hits,
            self.misses - before.misses,
            self.bytes,
            self.pages_read - before.pages_read,
            self.bytes_read - before.bytes_read,
        )

    def __str__(self) -> str:
        return f"{self.hits:,} found in memory, {self.misses:,} read"


class Cache:
    """Values by key, those used longest ago dropped first. May be shared by threads.

    :param limit: bytes that are kept, by what whoever puts values says they take. A greater value is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: OrderedDict[Hashable, tuple[object, int, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0
        self._files = 0
        self._hits = 0
        self._misses = 0
        self._pages_read = 0
        self._bytes_read = 0

    @property
    def counts(self) -> CacheCounts:
        with self._lock:
            return CacheCounts(self._hits, self._misses, self._bytes, self._pages_read, self._bytes_read)

    def count_read(self, pages: int, nbytes: int) -> None:
        """Tell of pages of index files that were read."""
        with self._lock:
            self._pages_read += pages
            self._bytes_read += nbytes

    def get(self, key: Hashable) -> object | None:
        """The value of a key, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self._misses += 1
                return None
            self._hits += 1
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object, nbytes: int, *, files: int = 0) -> None:
        """Keep a value, in place of what the key had.

        :param files: open files that it holds.
        """
        with self._lock:
            self._remove(key)
            if nbytes > self._limit:
                return
            self._held[key] = (value, nbytes, files)
            self._bytes += nbytes
            self._files += files
            self._shrink()

    def resize(self, limit: int) -> None:
        """Change the bound, and drop what is beyond it."""
        with self._lock:
            self._limit = limit
            self._shrink()

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            self._held.clear()
            self._bytes = self._files = 0

    def _shrink(self) -> None:
        while self._held and self._bytes > self._limit:
            self._remove(next(iter(self._held)))
        while self._files > MAX_FILES:
            # not closed: a scan may still be using it; the last reference frees it
            self._remove(next(key for key, item in self._held.items() if item[2]))

    def _remove(self, key: Hashable) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= found[1]
            self._files -= found[2]


def parse_bytes(text: str) -> int:
    """The bound that the environment names.

    :raises HindexError: if it is not a number of bytes.
    """
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise HindexError(f"{VARIABLE} is {text!r}: a number of bytes is expected, 0 for no cache")
    return value


@cache
def shared_cache() -> Cache:
    """The cache of this process, made when it is first asked for.

    :raises HindexError: if the environment names no bound that can be read.
    """
    return Cache(parse_bytes(os.environ.get(VARIABLE, "") or str(DEFAULT_BYTES)))
