"""A remote file as pyarrow reads it: what was fetched beforehand comes from memory.

Its reader asks for a stream in small pieces, one after another, each of which would be a request.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Sequence

from hindex.orc.source import ByteSource, Range


class HeldFile:
    """A file object; what is not held is read from its source."""

    closed = False

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._at = 0
        self._begins: list[int] = []
        self._views: list[memoryview] = []

    def hold(self, ranges: Sequence[Range]) -> list[memoryview]:
        """Fetch ranges ``(offset, length)`` together, and hold them instead of what was held before."""
        views = self._source.read(ranges)
        # of ranges that begin together the longest is the last
        order = sorted(range(len(ranges)), key=ranges.__getitem__)
        self._begins, self._views = [ranges[i][0] for i in order], [views[i] for i in order]
        return views

    def let_go(self) -> None:
        """Hold nothing."""
        self._begins, self._views = [], []

    def read(self, length: int = -1) -> bytes:
        """So many bytes, or all that are left."""
        left = max(self._source.size() - self._at, 0)
        begin, length = self._at, left if length < 0 else min(length, left)
        self._at += length
        at = bisect_right(self._begins, begin) - 1
        if at >= 0:
            inner = begin - self._begins[at]
            if inner + length <= len(self._views[at]):
                return bytes(self._views[at][inner : inner + length])
        return bytes(self._source.read([(begin, length)])[0])

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position; where it is."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size()}[whence]
        self._at = origin + offset
        return self._at

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def close(self) -> None:
        """The source belongs to its reader."""
        self.let_go()
        self.closed = True
