"""Read streams: fetch and decompress the chunks with the selected row groups or values."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc import kernel
from hindex.orc.codec import HEADER_LENGTH, MAX_CHUNKS, Chunks, Decompressor
from hindex.orc.decode.arrow_arrays import allocate
from hindex.orc.decode.positions import StreamPositions
from hindex.orc.io.metrics import CountedSource
from hindex.orc.io.source import Range, coalesce_ranges
from hindex.orc.metadata.stripe import StreamInformation

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: The longest run of any encoding, in bytes: 512 values of 8 bytes, a header and a full patch list.
_MAX_RUN_BYTES = 512 * 8 + 4 + 8 + 32 * 16

#: With fewer selected values per chunk, chunks without values are skipped; with more, nearly all chunks have some.
_SPARSE_VALUES = 4

#: The largest buffer that a thread keeps for later reads.
_MAX_SCRATCH = 8 << 20

#: The most bytes of an integer, a boolean or a varint; ``_MIN_BYTES`` are always allowed.
_BYTES_PER_VALUE = 32
_MIN_BYTES = 1 << 20

#: If the fetched range of a remote stream was too short, further chunks are fetched one by one; after so many
#: requests, each further one doubles the bytes, up to a power of two.
_FEW_REQUESTS, _MAX_AHEAD = 8, 20

_ZERO = np.zeros(1, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)

_local = threading.local()


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """The content of segments of a stream: bytes ``starts[s]`` to ``limits[s]`` of ``data``, see the kernel.

    ``skips[s]`` values (bits, of booleans) at the start belong to earlier row groups. Unless ``is_owned``, the
    data may belong to the file, or may be overwritten when the thread loads the next content of a stream of the
    same kind.
    """

    data: Bytes
    starts: Ints
    limits: Ints
    skips: Ints
    is_owned: bool = False


def max_run_bytes(values: Ints) -> Ints:
    """Return the most bytes of ``values`` values in any run-length encoding, or as varints."""
    return np.maximum(_BYTES_PER_VALUE * values, _MIN_BYTES)


class StoredStream:
    """A stream as stored: ``data`` has the ranges that have been read, at their positions in the stream.

    Files are not mapped: access to a mapped file that was truncated ends the process.
    """

    def __init__(self, source: CountedSource, information: StreamInformation | None) -> None:
        self._source = source
        self.offset = 0 if information is None else information.offset
        self.length = 0 if information is None else information.length
        self.is_remote = source.is_remote
        # begins and ends of the read ranges, ascending and disjoint
        self._begins: list[int] = []
        self._ends: list[int] = []
        # zeros take no memory until they are overwritten
        self.data: Bytes = np.zeros(self.length, np.uint8)

    def missing(self, begin: int, end: int) -> list[Range]:
        """List the parts of a byte range that have not been read, as ranges of the file."""
        end = min(end, self.length)
        if begin >= end:
            return []
        missing, at = list[Range](), bisect_right(self._begins, begin) - 1
        if at >= 0:
            begin = max(begin, self._ends[at])
        at += 1
        while begin < end:
            until = min(end, self._begins[at]) if at < len(self._begins) else end
            if until > begin:
                missing.append((self.offset + begin, until - begin))
            if at == len(self._begins):
                break
            begin = max(begin, self._ends[at])
            at += 1
        return missing

    def put(self, offset: int, view: memoryview) -> None:
        """Store a missing range; ``offset`` is its position in the file."""
        begin, end = offset - self.offset, offset - self.offset + len(view)
        self.data[begin:end] = np.frombuffer(view, np.uint8)
        at = bisect_right(self._begins, begin)
        if at and self._ends[at - 1] == begin:
            # a chunk may be in both
            self._ends[at - 1] = end
        else:
            self._begins.insert(at, begin)
            self._ends.insert(at, end)

    def fetch(self, begin: int, end: int) -> bool:
        """Read the missing parts of a byte range; return True if there were any."""
        return self.fetch_all([begin], [end])

    def fetch_all(self, begins: Sequence[int], ends: Sequence[int]) -> bool:
        """Read the missing parts of byte ranges together; return True if there were any."""
        missing = [item for span in zip(begins, ends, strict=True) for item in self.missing(*span)]
        if not missing:
            return False
        wanted = missing if len(missing) == 1 else coalesce_ranges(missing, 0)
        for (offset, _), view in zip(wanted, self._source.read(wanted), strict=True):
            self.put(offset, view)
        return True

    def has_all(self, begins: Ints, ends: Ints) -> bool:
        """Return True if byte ranges, which are not empty, have been read."""
        if not len(begins):
            return True
        at = np.searchsorted(np.array(self._begins, np.int64), begins, "right") - 1
        return int(at.min()) >= 0 and bool((ends <= np.array(self._ends, np.int64)[at]).all())

    def release(self) -> None:
        """Free the bytes that were read of a local file, which are cheap to read again."""
        if not self.is_remote and self._begins:
            self.data = np.zeros(self.length, np.uint8)
            self._begins.clear()
            self._ends.clear()


class StreamReader:
    """A reader of the content of one stream of a stripe. Threads must not share it."""

    def __init__(self, stored: StoredStream, decompressor: Decompressor) -> None:
        self._stored = stored
        self._decompressor = decompressor

    def ranges(self, begins: Ints, ends: Ints) -> list[Range]:
        """Return the byte ranges of row groups ``begins[s]`` to ``ends[s]``."""
        return self._stored.missing(0, self._stored.length)

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        """Load the content of segments.

        Args:
            max_bytes: int64[S], the most bytes needed of each segment.
            fresh: load into new memory.

        Raises:
            OrcError: if a position is outside the stream, or a chunk is corrupt.
        """
        raise NotImplementedError

    def values(self, begins: Ints, ends: Ints, bounds: Ints, lows: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        """Load the bytes of values by their position within segments.

        Args:
            bounds: int64[S + 1], the values of each segment.
            lows: int64[N], the start of each value, in bytes from its segment's start.
            sizes: int64[N], the bytes of each value.

        Returns:
            the data, and the start of each value in it.

        Raises:
            OrcError: if a value is outside its segment.
        """
        raise NotImplementedError

    def extend(self, segments: Segments) -> Segments | None:
        """Load more of the same content; return None if there is no more."""
        return None

    def advance(self, stops: Ints) -> None:
        """Continue at the end of the decoded values: int64[S, 2], see the kernel."""

    def _list(self, begins: Ints, ends: Ints, extras: Ints, until: Ints) -> Chunks:
        """List and read the chunks that begin in ascending byte ranges, and some chunks after each range.

        Args:
            extras: the number of chunks after each range.
            until: a guess of the end of each range's last chunk.
        """
        stored = self._stored
        if not stored.is_remote:
            stored.fetch_all(begins.tolist(), until.tolist())
        try:
            chunks = self._decompressor.list_chunks(stored.data, begins, ends, extras)
            # bytes that were not read are zeros, which look like chunks
            if stored.has_all(chunks.offsets, chunks.ends):
                return chunks
        except OrcError:
            if not stored.missing(0, stored.length):
                raise
        requests, ahead, num_chunks = 0, 0, 0
        for begin, end, extra in zip(begins.tolist(), ends.tolist(), extras.tolist(), strict=True):
            # more chunks than the maximum are refused below
            while (begin < end or extra) and begin < stored.length and num_chunks <= MAX_CHUNKS:
                num_chunks += 1
                extra -= begin >= end
                requests += stored.fetch(begin, begin + max(HEADER_LENGTH, ahead))
                head = stored.data[begin : begin + HEADER_LENGTH].tobytes()
                after = begin + HEADER_LENGTH + (int.from_bytes(head, "little") >> 1)
                requests += stored.fetch(begin, after)
                # a corrupt stream may have a chunk every few bytes
                ahead = 1 << min(requests, _MAX_AHEAD) if requests > _FEW_REQUESTS else 0
                begin = after
        return self._decompressor.list_chunks(stored.data, begins, ends, extras)

    def _decompress(self, chunks: Chunks, wanted: Ints, needed: Ints, out: Bytes) -> tuple[Ints, Ints]:
        return self._decompressor.decompress(self._stored.data, chunks, wanted, needed, out)


class SequentialReader(StreamReader):
    """A reader of a stream from its first value on, window by window, for all rows and without a row index.

    A window is rows ``begins[0]`` to ``ends[0]`` of the stripe. The size of its content is unknown before its values
    are decoded, so the reader loads the window's share of the stream, and more if needed.

    Args:
        num_rows: the number of rows of the stripe.
    """

    def __init__(self, stored: StoredStream, decompressor: Decompressor, num_rows: int) -> None:
        super().__init__(stored, decompressor)
        self._num_rows = max(num_rows, 1)
        # the offset of the next chunk, or of the next value's run in an uncompressed stream
        self._next = 0
        # content from the run of the next value on, and the number of decoded values of that run
        self._content: Bytes = _NO_BYTES
        self._skip = 0
        # the begin and the end of the bytes that were loaded for this window
        self._first = self._until = 0
        # the maximum to load at once
        self._max_bytes = 0

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        self._max_bytes = int(max_bytes[0]) + _MAX_RUN_BYTES
        self._first = self._until = self._next
        self._load(self._stored.length * int(ends[0]) // self._num_rows)
        return self._segments()

    def values(self, begins: Ints, ends: Ints, bounds: Ints, lows: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        high = int((lows + sizes).max(initial=0))
        segments: Segments | None = self.segments(begins, ends, np.array([high]))
        while segments is not None and int(segments.limits[0] - segments.starts[0]) < high:
            segments = self.extend(segments)
        if segments is None:
            raise OrcError(kernel.ERRORS[kernel.STREAM_ENDS])
        return segments.data, segments.starts[0] + lows

    def extend(self, segments: Segments) -> Segments | None:
        if self._decompressor.codec is None:
            is_all = self._until >= min(self._stored.length, self._next + self._max_bytes)
        else:
            is_all = self._next >= self._stored.length or len(self._content) >= self._max_bytes
        if is_all:
            return None
        # load about twice as much; there may be chunks without content
        length = int(segments.limits[0] - segments.starts[0])
        self._load(self._until + max(length // 2, self._next - self._first, 1))
        return self._segments()

    def advance(self, stops: Ints) -> None:
        stop, self._skip = stops[0].tolist()
        if self._decompressor.codec is None:
            self._next = stop
        else:
            self._content = self._content[stop:].copy()

    def _segments(self) -> Segments:
        skip = np.array([self._skip])
        if self._decompressor.codec is None:
            return Segments(self._stored.data, np.array([self._next]), np.array([self._until]), skip)
        return Segments(self._content, _ZERO, np.array([len(self._content)]), skip, is_owned=True)

    def _load(self, until: int) -> None:
        """Load the bytes, or decompress the chunks that begin, before an offset."""
        stored, block_size = self._stored, self._decompressor.block_size
        until = min(until, stored.length)
        if self._decompressor.codec is None:
            self._until = max(
                min(until + _MAX_RUN_BYTES, stored.length, self._next + self._max_bytes), self._until
            )
            stored.fetch(self._next, self._until)
            return
        if self._next >= until or len(self._content) >= self._max_bytes:
            return
        begin, end = np.array([self._next]), np.array([until])
        # the bytes read of the chunk after these belong to the next window
        chunks = self._list(begin, end, _ZERO, end + HEADER_LENGTH + block_size)
        at = len(self._content)
        sizes = np.where(chunks.sizes < 0, block_size, chunks.sizes)
        content = allocate(min(at + int(sizes.sum()), self._max_bytes + block_size), np.uint8)
        content[:at] = self._content
        needed = np.full(len(sizes), -1)
        needed[:1] = self._max_bytes - at
        _, loaded = self._decompress(chunks, sizes, needed, content[at:])
        totals = loaded.cumsum()
        # up to the chunk that completes the needed bytes, or the last one
        count = min(int(totals.searchsorted(needed[0])) + 1, len(totals))
        self._next = self._until = int(chunks.ends[count - 1])
        self._content = content[: at + int(totals[-1])]


class IndexedReader(StreamReader):
    """A reader of a stream by segments of consecutive row groups.

    Args:
        positions: the beginnings of the row groups; None if the stripe is one row group.
        slot: the buffer to use; streams that are not loaded at the same time may share one.
    """

    def __init__(
        self,
        stored: StoredStream,
        decompressor: Decompressor,
        positions: StreamPositions | None,
        slot: int,
    ) -> None:
        super().__init__(stored, decompressor)
        self._positions = positions
        self._slot = slot
        # the number of chunks after a segment into which its last run may reach; True if these are loaded whole
        self._extras, self._is_extended = 1, False
        # the number of chunks that were listed last
        self._listed = 0
        # the beginnings of chunks, as far as the row index has them
        self._chunk_offsets: Ints | None = None
        # the arguments of the last request, which extend() repeats
        self._request: tuple[Ints, Ints, Ints, bool] | None = None

    def ranges(self, begins: Ints, ends: Ints) -> list[Range]:
        """Return the byte ranges of row groups ``begins[s]`` to ``ends[s]``.

        The end of a chunk is unknown before its header is read, so ranges may be a little too long or too short.
        """
        if not len(begins):
            return []
        if self._positions is None:
            return self._stored.missing(0, self._stored.length)
        chunk, _, _, end_chunk, end_inner, has_tail = self._bounds(begins, ends)
        if self._decompressor.codec is None:
            until = end_chunk + np.where(has_tail, _MAX_RUN_BYTES, 0)
        else:
            until = self._ends_of_chunks(end_chunk, (end_inner > 0) | has_tail)
        return [
            item
            for begin, end in zip(chunk.tolist(), until.tolist(), strict=True)
            for item in self._stored.missing(begin, end)
        ]

    def _ends_of_chunks(self, offsets: Ints, is_needed: npt.NDArray[np.bool_]) -> Ints:
        """Guess the ends of chunks at some offsets by the offsets of the others; unneeded ones have no bytes."""
        if self._positions is None:
            return np.full_like(offsets, self._stored.length)
        if self._chunk_offsets is None:
            self._chunk_offsets = np.unique(self._positions.chunk)
        others, block_size = self._chunk_offsets, self._decompressor.block_size
        typical = int(np.median(np.diff(others))) if len(others) > 1 else block_size
        following = np.append(others, self._stored.length)[others.searchsorted(offsets, "right")]
        longest = HEADER_LENGTH + min(block_size, typical + typical // 4)
        return np.where(is_needed, np.minimum(following, offsets + longest), offsets)

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        """Load row groups ``begins[s]`` to ``ends[s]``, and after each as much as its last run may need."""
        # most writers fill all chunks except the last; a further chunk of a remote file would take two requests
        at_once = 0 if self._stored.is_remote else -(-_MAX_RUN_BYTES // self._decompressor.block_size)
        self._extras, self._is_extended = at_once, False
        self._request = begins, ends, max_bytes, fresh
        return self._segments(*self._request)

    def extend(self, segments: Segments) -> Segments | None:
        # the run at the end of a row group may need more chunks than were loaded
        if self._decompressor.codec is None or self._request is None:
            return None
        listed = -1
        while listed < self._listed:
            listed = self._listed
            self._extras, self._is_extended = max(4 * self._extras, 1), True
            more = self._segments(*self._request)
            if (more.limits - more.starts > segments.limits - segments.starts).any():
                return more
            # the further chunks were empty, or there were none
        return None

    def _segments(self, begins: Ints, ends: Ints, max_bytes: Ints, fresh: bool) -> Segments:
        chunk, inner, skip, end_chunk, end_inner, has_tail = self._bounds(begins, ends)
        stored = self._stored
        if self._decompressor.codec is None:
            limits = np.minimum(end_chunk + np.where(has_tail, _MAX_RUN_BYTES, 0), stored.length)
            # segments that touch are one range
            firsts = np.append(0, np.flatnonzero(chunk[1:] > np.maximum.accumulate(limits)[:-1]) + 1)
            ends_of_ranges = np.maximum.reduceat(limits, firsts)
            stored.fetch_all(chunk[firsts].tolist(), ends_of_ranges.tolist())
            return Segments(stored.data, chunk, limits, skip)
        has_last = (end_inner > 0) | has_tail
        chunks = self._list(
            chunk,
            end_chunk + has_last,
            np.where(has_tail, self._extras, 0),
            self._ends_of_chunks(end_chunk, has_last),
        )
        self._listed = len(chunks)
        firsts, lasts = np.empty(len(chunk), np.int64), np.empty(len(chunk), np.int64)
        wanted, needed = np.empty(len(chunks), np.int64), np.empty(len(chunks), np.int64)
        block_size = self._decompressor.block_size
        code = kernel.select_chunks(
            chunks.offsets,
            chunks.sizes,
            chunk,
            inner,
            end_chunk,
            end_inner,
            has_tail.view(np.uint8),
            max_bytes,
            self._extras,
            # all of the chunks after the segment, if the longest run was not enough
            (self._extras + 1) * block_size if self._is_extended else _MAX_RUN_BYTES,
            block_size,
            firsts,
            lasts,
            wanted,
            needed,
        )
        if code:
            raise OrcError(kernel.ERRORS[code])
        if not len(chunks):
            return Segments(_NO_BYTES, np.zeros_like(chunk), np.zeros_like(chunk), skip)
        data, bases, loaded = self._load(chunks, wanted, needed, fresh=fresh)
        starts = np.where(firsts < 0, 0, bases[firsts] + inner)
        limits = np.where(firsts < 0, 0, bases[lasts] + loaded[lasts])
        if (starts > limits).any():
            raise OrcError(kernel.ERRORS[kernel.BEYOND_CHUNK])
        return Segments(data, starts, limits, skip, is_owned=fresh)

    def values(self, begins: Ints, ends: Ints, bounds: Ints, lows: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        if self._decompressor.codec is not None:
            chunk, inner, _, end_chunk, end_inner, _ = self._bounds(begins, ends)
            ends_at = end_chunk + (end_inner > 0)
            chunks = self._list(
                chunk, ends_at, np.zeros(len(chunk), np.int64), self._ends_of_chunks(end_chunk, end_inner > 0)
            )
            if chunks.has_sizes and len(lows) < _SPARSE_VALUES * len(chunks):
                edges = np.zeros(len(chunks) + 1, np.int64)
                np.cumsum(chunks.sizes, out=edges[1:])
                heads, chunk_offsets = np.empty(len(lows), np.int64), np.empty(len(lows), np.int64)
                wanted = np.empty(len(chunks), np.int64)
                code = kernel.select_values(
                    chunks.offsets,
                    edges,
                    chunk,
                    inner,
                    ends_at,
                    bounds,
                    lows,
                    sizes,
                    wanted,
                    heads,
                    chunk_offsets,
                )
                if code:
                    raise OrcError(kernel.ERRORS[code])
                needed = np.full(len(chunks), -1)
                needed[:1] = edges[-1]
                data, bases, _ = self._load(chunks, wanted, needed)
                return data, bases[heads] + chunk_offsets
        per_segment = np.diff(bounds)
        highs = np.zeros(len(begins), np.int64)
        np.maximum.at(highs, np.repeat(np.arange(len(begins)), per_segment), lows + sizes)
        segments = self.segments(begins, ends, highs)
        at = np.repeat(segments.starts, per_segment) + lows
        if (at + sizes > np.repeat(segments.limits, per_segment)).any():
            raise OrcError(kernel.ERRORS[kernel.STREAM_ENDS])
        return segments.data, at

    def _bounds(self, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, npt.NDArray[np.bool_]]:
        """Return the first and last runs of segments, and a mask of segments that use values of their last run."""
        positions = self._positions
        if positions is None:
            return _ZERO, _ZERO, _ZERO, np.array([self._stored.length]), _ZERO, np.zeros(1, bool)
        has_end = ends < len(positions)
        end = np.where(has_end, ends, 0)
        end_chunk = np.where(has_end, positions.chunk[end], self._stored.length)
        if len(end_chunk) and int(end_chunk.max()) > self._stored.length:
            raise OrcError(f"a position points outside the stream's {self._stored.length} bytes")
        return (
            positions.chunk[begins],
            positions.inner[begins],
            positions.skip[begins],
            end_chunk,
            np.where(has_end, positions.inner[end], 0),
            has_end & (positions.skip[end] > 0),
        )

    def _load(
        self, chunks: Chunks, wanted: Ints, needed: Ints, *, fresh: bool = False
    ) -> tuple[Bytes, Ints, Ints]:
        """Decompress the beginnings of chunks: see `Decompressor.decompress`.

        Returns:
            the data, and the start and the number of bytes of each chunk in it.
        """
        block_size = self._decompressor.block_size
        # chunks without a recorded size count as a block: a segment exceeds its needs by less than one
        firsts = needed[needed >= 0]
        total = min(int(wanted.sum()), int(firsts.sum()) + (len(firsts) + 1) * block_size)
        data = allocate(total, np.uint8) if fresh else _scratch(self._slot, total)
        return data, *self._decompress(chunks, wanted, needed, data)


def _scratch(slot: int, size: int) -> Bytes:
    """Return a buffer that this thread reuses for streams of the same kind."""
    buffers: dict[int, Bytes] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(slot)
    if buffer is None or len(buffer) < size:
        buffer = allocate(size, np.uint8)
        if size <= _MAX_SCRATCH:
            buffers[slot] = buffer
    return buffer[:size]
