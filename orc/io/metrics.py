"""Metrics of a reader's work, for tests and EXPLAIN."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields

from hindex.orc.codec import Decompressor
from hindex.orc.io.source import ByteSource, Range


@dataclass(slots=True)
class ReadCounts:
    """The counts of all reads of one reader.

    ``ranges`` counts the requests, or reads of a local file, after coalescing, and ``bytes_fetched`` their bytes,
    including the file's tail and all metadata.

    ``row_groups`` counts each decoded row group once per column; ``whole_columns`` counts the columns of stripes that
    were decoded from the first row on, without a row index.
    """

    ranges: int = 0
    bytes_fetched: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    bytes_decompressed: int = 0
    row_groups: int = 0
    whole_columns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)

    def add_decompressor(self, decompressor: Decompressor) -> None:
        self.add(
            chunks=decompressor.chunks,
            chunk_bytes=decompressor.bytes_in,
            bytes_decompressed=decompressor.bytes_out,
        )

    def as_dict(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self) if not f.name.startswith("_")}


class CountedSource:
    """A source that counts its reads."""

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
        requests = self._source.requests(ranges)
        views = self._source.read(ranges)
        if requests:
            self._counts.add(ranges=len(requests), bytes_fetched=sum(length for _, length in requests))
        return views

    def prefetch(self, ranges: Sequence[Range]) -> None:
        if self.is_remote:
            requests = self._source.requests(ranges)
            self._source.prefetch(ranges)
            self._counts.add(ranges=len(requests), bytes_fetched=sum(length for _, length in requests))

    def close(self) -> None:
        self._source.close()
