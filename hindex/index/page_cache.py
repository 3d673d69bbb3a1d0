"""The cache of index files: one bounded cache for all scans of a process.

Index files never change once written, and a key names a file by path, length and checksum, so that cached values
never become stale. Only readers with a private cache, such as CHECK INDEXES VERIFY, notice later changes on disk.
The limit comes from ``hindex.connect(cache_bytes=...)`` or the environment.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import cache

from hindex.errors import HindexError
from hindex.lru_cache import LruCache
from hindex.value_class import value_class

#: The environment variable with the limit, in bytes.
VARIABLE = "HINDEX_CACHE_BYTES"
DEFAULT_BYTES = 128 * 1024 * 1024
#: The most files that are kept open, whatever their bytes: each has a file descriptor.
MAX_FILES = 256


@value_class
class CacheCounts:
    """The hits and misses of the cache, and its approximate bytes.

    ``pages_read`` and ``bytes_read`` count reads of index files for the cache.
    """

    hits: int
    misses: int
    bytes: int
    pages_read: int = 0
    bytes_read: int = 0

    def since(self, before: CacheCounts) -> CacheCounts:
        """Return the counts since an earlier moment."""
        return CacheCounts(
            self.hits - before.hits,
            self.misses - before.misses,
            self.bytes,
            self.pages_read - before.pages_read,
            self.bytes_read - before.bytes_read,
        )

    def __str__(self) -> str:
        return f"{self.hits:,} found in memory, {self.misses:,} read"


class Cache(LruCache[Hashable, object]):
    """A cache of parts of index files by key, weighted in bytes, with counts of its use.

    It keeps at most ``MAX_FILES`` open files, whatever their weight.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._files: OrderedDict[Hashable, int] = OrderedDict()
        self._hits = 0
        self._misses = 0
        self._pages_read = 0
        self._bytes_read = 0

    @property
    def counts(self) -> CacheCounts:
        """The counts so far."""
        with self._lock:
            return CacheCounts(self._hits, self._misses, self.weight, self._pages_read, self._bytes_read)

    def count_read(self, pages: int, nbytes: int) -> None:
        """Count pages and bytes that were read from index files."""
        with self._lock:
            self._pages_read += pages
            self._bytes_read += nbytes

    def get(self, key: Hashable) -> object | None:
        """Return the value of a key, or None, and count a hit or a miss."""
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[Hashable]) -> list[object | None]:
        """Return the value of each key, or None, and count hits and misses."""
        values: list[object | None] = []
        hits = 0
        with self._lock:
            for key in keys:
                entry = self._entries.get(key)
                if entry is not None:
                    hits += 1
                    self._entries.move_to_end(key)
                    if key in self._files:
                        self._files.move_to_end(key)
                values.append(None if entry is None else entry[0])
            self._hits += hits
            self._misses += len(values) - hits
        return values

    def put_file(self, key: Hashable, value: object, nbytes: int) -> None:
        """Keep a value with an open file."""
        self.put(key, value, nbytes)
        with self._lock:
            if key in self._entries:
                self._files[key] = 1
            while len(self._files) > MAX_FILES:
                # not closed: a scan may still use it; the last reference frees it
                self._remove(next(iter(self._files)))

    def clear(self) -> None:
        """Drop all values."""
        super().clear()
        with self._lock:
            self._files.clear()

    def _remove(self, key: Hashable) -> None:
        super()._remove(key)
        self._files.pop(key, None)


def parse_bytes(text: str) -> int:
    """Parse the limit given in the environment.

    Raises:
        HindexError: if it is not a number of bytes.
    """
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise HindexError(f"{VARIABLE} is {text!r}: set it to a number of bytes, 0 for no cache")
    return value


@cache
def shared_cache() -> Cache:
    """Return the cache of this process, created at its first use.

    Raises:
        HindexError: if the environment variable is not a number of bytes.
    """
    return Cache(parse_bytes(os.environ.get(VARIABLE, "") or str(DEFAULT_BYTES)))
