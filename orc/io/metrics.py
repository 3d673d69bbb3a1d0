"""Metrics of a reader's work, for tests and EXPLAIN."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields

from hindex.orc.codec import Decompressor
from hindex.orc.io.source import ByteSource, Range


@dataclass(slots=True)
class ReadCounts:
    """Sums over all reads of one reader; bytes are of the file unless they say otherwise.

    ``ranges`` are the requests that were made, near ones merged, and ``bytes_fetched`` what they brought, the
    file's tail and all metadata included; of a local file, each chunk that is decompressed is one.

    ``row_groups`` counts each touched row group once a column; ``whole_columns`` counts the columns of stripes that
    were decoded without a row index, from the first row on.
    """

    ranges: int = 0
    bytes_fetched: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    bytes_decompressed: int = 0
    row_groups: int = 0
    whole_columns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                setattr(self, name, getattr(self, name) + count)

    def add_read(self, ranges: int, length: int) -> None:
        """The same for requests, which are told one by one."""
        with self._lock:
            self.ranges += ranges
            self.bytes_fetched += length

    def add_decompressor(self, decompressor: Decompressor) -> None:
        self.add(
            chunks=decompressor.chunks,
            chunk_bytes=decompressor.bytes_in,
            bytes_decompressed=decompressor.bytes_out,
        )

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}


class CountedSource:
    """A source that counts what is read from it."""

    def __init__(self, source: ByteSource, counts: ReadCounts) -> None:
        self._source = source
        self._counts = counts
        self.is_remote = source.is_remote

    @property
    def path(self) -> str:
        return self._source.path

    def size(self) -> int:
        return self._source.size()

    def identity(self) -> Hashable | None:
        return self._source.identity()

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return self._source.has_other_mtime(mtime_ns)

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return self._source.requests(ranges)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        views = self._source.read(ranges)
        if ranges:
            asked = self._source.requests(ranges)
            self.count(len(asked), sum(length for _, length in asked))
        return views

    def view(self, ranges: Sequence[Range]) -> list[memoryview]:
        """Look at bytes of a source that is not remote; whoever uses some of them counts these."""
        return self._source.read(ranges)

    def count(self, ranges: int, length: int) -> None:
        self._counts.add_read(ranges, length)

    def release(self, offset: int, length: int) -> None:
        self._source.release(offset, length)

    def close(self) -> None:
        self._source.close()
