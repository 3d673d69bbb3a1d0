"""Byte sources of files, with positional reads.

A caller requests all ranges of one step together, so that a remote store can fetch them at once.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

import pyarrow as pa

from hindex.errors import OrcError

#: Ranges of a remote file with a smaller gap may be fetched as one: a request costs more than the gap.
COALESCE_GAP = 64 * 1024

#: The most bytes of all fetched gaps: the greater of this part of the requested bytes, and this many bytes.
GAPS_PART = 1 / 20
GAPS_BYTES = 4096

#: The headers of object stores have whole seconds.
SECOND_NS = 10**9

#: One read of this many bytes contains the tail of nearly every file.
TAIL_GUESS = 16 * 1024

#: The most ranges that a source keeps ahead of their use: those of the last few stripes.
_MAX_KEPT = 32

Range = tuple[int, int]

_START = itemgetter(0)


class ByteSource(Protocol):
    """Bytes that can be read at any position."""

    @property
    def path(self) -> str:
        """The name for messages."""
        ...

    def size(self) -> int:
        """Return the length in bytes."""
        ...

    def identity(self) -> Hashable | None:
        """Return a value that identifies the current state of the file, or None if there is none."""
        ...

    def has_other_mtime(self, mtime_ns: int) -> bool:
        """Return True if the modification time is not the listed one; False if either is missing. No request.

        Args:
            mtime_ns: the time in a listing of the same store, in nanoseconds since 1970.
        """
        ...

    @property
    def is_remote(self) -> bool:
        """True if a read costs a request, so that few and early reads are better."""
        ...

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the requests of `read` for ``(offset, length)`` ranges: ascending and coalesced."""
        ...

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        """Read the bytes of each ``(offset, length)``, in order.

        Raises:
            OrcError: if a range is outside the source.
        """
        ...

    def prefetch(self, ranges: Sequence[Range]) -> None:
        """Fetch ranges that will be read soon, and keep them until the source is closed, if it is remote."""
        ...

    def close(self) -> None:
        """Free the source's resources; returned views stay valid."""
        ...


def coalesce_ranges(ranges: Sequence[Range], max_gap: int) -> list[Range]:
    """Merge ranges that overlap, are adjacent or are close; the result is ascending.

    Args:
        max_gap: the widest gap to fetch with its neighbours. The smallest gaps are merged first, up to the part of
            the requested bytes that `GAPS_PART` allows.
    """
    merged: list[list[int]] = []
    for offset, length in sorted(ranges):
        if not length:
            continue
        if merged and offset <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], offset + length)
        else:
            merged.append([offset, offset + length])
    if max_gap and len(merged) > 1:
        budget = max(int(GAPS_PART * sum(end - start for start, end in merged)), GAPS_BYTES)
        gaps = sorted((merged[i + 1][0] - merged[i][1], i) for i in range(len(merged) - 1))
        closed = set()
        for gap, i in gaps:
            budget -= gap
            if gap > max_gap or budget < 0:
                break
            closed.add(i + 1)
        wider: list[list[int]] = []
        for i, (start, end) in enumerate(merged):
            if i in closed:
                wider[-1][1] = end
            else:
                wider.append([start, end])
        merged = wider
    return [(start, end - start) for start, end in merged]


def _check(path: str, size: int, ranges: Sequence[Range]) -> None:
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > size:
            raise OrcError(
                f"bytes {offset} to {offset + length} are requested but the file has {size}: it is truncated or "
                "corrupt",
                path=path,
            )


class BytesSource:
    """Bytes in memory."""

    is_remote = False

    def __init__(self, data: bytes | memoryview, path: str = "<memory>") -> None:
        self._view = memoryview(data).cast("B")
        self.path = path

    def size(self) -> int:
        return len(self._view)

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        return coalesce_ranges(ranges, 0)

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, len(self._view), ranges)
        return [self._view[offset : offset + length] for offset, length in ranges]

    def prefetch(self, ranges: Sequence[Range]) -> None:
        """Do nothing: the bytes are in memory."""

    def identity(self) -> None:
        """Return None: other bytes may have the same name."""

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: the caller owns the bytes."""


class RequestSource:
    """The base of sources that fetch bytes by requests. Close ranges are coalesced into one request."""

    path: str
    is_remote = True
    _size: int
    #: The modification time in the response with the size; 0 if it has none.
    _mtime_ns: int = 0
    #: The blocks that were prefetched, and those that the caller passed: positions and bytes.
    _kept: tuple[tuple[int, memoryview], ...] = ()
    _given: tuple[tuple[int, memoryview], ...] = ()
    #: Ranges with a smaller gap may be fetched as one.
    _max_gap = COALESCE_GAP

    def size(self) -> int:
        return self._size

    def requests(self, ranges: Sequence[Range]) -> list[Range]:
        if self._kept or self._given:
            ranges = [item for item in ranges if self._find_kept(item) is None]
        return coalesce_ranges(ranges, self._max_gap)

    def prefetch(self, ranges: Sequence[Range]) -> None:
        if self.is_remote:
            views = self.read(ranges)
            fetched = tuple((start, view) for (start, _), view in zip(ranges, views, strict=True))
            self._kept = (*self._kept, *fetched)[-_MAX_KEPT:]

    def keep(self, blocks: Iterable[tuple[int, memoryview]]) -> None:
        """Serve the caller's bytes at their positions until the source is closed. Blocks do not overlap."""
        self._given = tuple(sorted(blocks, key=_START))

    def _find_kept(self, item: Range) -> memoryview | None:
        offset, length = item
        after = bisect_right(self._given, offset, key=_START)
        for start, block in chain(self._kept, self._given[max(after - 1, 0) : after]):
            if start <= offset and offset + length <= start + len(block):
                return block[offset - start : offset - start + length]
        return None

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        if self._kept or self._given:
            kept = [self._find_kept(item) for item in ranges]
            missing = iter(
                self._read([item for item, view in zip(ranges, kept, strict=True) if view is None])
            )
            return [next(missing) if view is None else view for view in kept]
        return self._read(ranges)

    def _read(self, ranges: Sequence[Range]) -> list[memoryview]:
        _check(self.path, self._size, ranges)
        requests = coalesce_ranges(ranges, self._max_gap)
        blocks = [memoryview(block) for block in self._fetch(requests)]
        for (start, length), block in zip(requests, blocks, strict=True):
            if len(block) != length:
                raise OrcError(
                    f"bytes {start} to {start + length} are incomplete in the response: the file has changed",
                    path=self.path,
                )
        if len(ranges) == len(blocks) == 1:
            return blocks
        views: list[memoryview] = [memoryview(b"")] * len(ranges)
        number = 0
        for i in sorted((i for i, item in enumerate(ranges) if item[1]), key=lambda i: ranges[i]):
            offset, length = ranges[i]
            while offset >= sum(requests[number]):
                number += 1
            skip = offset - requests[number][0]
            views[i] = blocks[number][skip : skip + length]
        return views

    def identity(self) -> Hashable | None:
        """Return None: few stores have reliable versions of objects."""
        return None

    def has_other_mtime(self, mtime_ns: int) -> bool:
        own = self._mtime_ns
        if not own or not mtime_ns:
            return False
        # a header has whole seconds, a listing may have fractions
        return abs(own - mtime_ns) >= (1 if own % SECOND_NS else SECOND_NS)

    def close(self) -> None:
        """Free the kept bytes."""
        self._kept = self._given = ()

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        raise NotImplementedError


class LocalSource(RequestSource):
    """A local file, read by positional reads into memory of this process.

    It is not mapped: access to a mapped file that was truncated ends the process, and a mapped page changes with the
    file after it was verified.

    Args:
        detects_changes: refuse to read a file whose length or modification time has changed since it was opened:
            bytes of two versions would give wrong rows. False if the caller verifies the bytes, or if they do not
            change while the file grows.
    """

    is_remote = False
    _max_gap = 0

    def __init__(self, path: str | os.PathLike[str], *, detects_changes: bool = True) -> None:
        self.path = os.fspath(path)
        self._detects_changes = detects_changes
        self._file: io.FileIO | None = None
        try:
            self._file = io.FileIO(self.path)
            self._status = os.fstat(self._file.fileno())
        except OSError as error:
            raise OrcError(f"cannot open the file: {error.strerror}", path=self.path) from error
        except ValueError as error:
            # the path contains a NUL
            raise OrcError(f"cannot open the file: {error}", path=self.path) from error
        self._size = self._status.st_size

    def __del__(self) -> None:
        self.close()

    def identity(self) -> Hashable | None:
        if self._file is None or self._file.closed:
            return None
        status = self._status
        # a change of the content that restores the modification time still changes the ctime
        return (
            self.path,
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )

    def has_other_mtime(self, mtime_ns: int) -> bool:
        return listed_mtime(self._status) != mtime_ns

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes]:
        try:
            if self._file is None:
                raise ValueError("it was not opened")
            descriptor = self._file.fileno()
            blocks = [_read_at(descriptor, offset, length) for offset, length in ranges]
            # after the reads, to detect a change during them, and a descriptor that another thread has closed and
            # that now belongs to another file
            status = os.fstat(descriptor)
        except ValueError as error:
            raise OrcError("the file is closed: open it again", path=self.path) from error
        except OSError as error:
            raise OrcError(f"the file cannot be read: {error.strerror}", path=self.path) from error
        self._check_unchanged(status)
        return blocks

    def close(self) -> None:
        if self._file is not None:
            # FileIO clears its descriptor before closing: after an interrupt, a second call closes no other file
            self._file.close()

    def _check_unchanged(self, status: os.stat_result) -> None:
        before = self._status
        if (status.st_dev, status.st_ino) != (before.st_dev, before.st_ino):
            raise OrcError("the file is closed: open it again", path=self.path)
        if status.st_size < before.st_size:
            raise OrcError(
                f"the file had {before.st_size} bytes and was truncated while it was open: run again when nothing "
                "writes to it",
                path=self.path,
            )
        if self._detects_changes and (status.st_size, status.st_mtime_ns) != (
            before.st_size,
            before.st_mtime_ns,
        ):
            raise OrcError(
                "the file was overwritten while it was open: run again when nothing writes to it",
                path=self.path,
            )


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Read bytes at a position; fewer at the end of the file."""
    data = os.pread(descriptor, length, offset)
    # the system reads at most 2 GiB at once
    while len(data) < length and (more := os.pread(descriptor, length - len(data), offset + len(data))):
        data += more
    return data


def listed_mtime(status: os.stat_result) -> int:
    """Return the modification time of a local file as in listings: in 64 bits, so that it wraps from 2262 on."""
    return (status.st_mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63)


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, or its type if it has none."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__
