"""Content of streams: the chunks with the selected row groups or values, fetched and decompressed."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc import kernel
from hindex.orc.codec import HEADER_LENGTH, Chunks, Decompressor
from hindex.orc.decode.arrow_arrays import allocate
from hindex.orc.decode.positions import StreamPositions
from hindex.orc.io.metrics import CountedSource
from hindex.orc.io.source import Range
from hindex.orc.metadata.stripe import StreamInformation

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: The longest run of any encoding, in bytes: 512 values of 8 bytes, a header and a full patch list.
_MAX_RUN_BYTES = 512 * 8 + 4 + 8 + 32 * 16

#: With fewer selected values per chunk, chunks without one are skipped; with more, nearly all chunks have one.
_SPARSE_VALUES = 4

#: The largest buffer that a thread keeps for later reads.
_MAX_SCRATCH = 8 << 20

#: The maximum bytes of an integer, a boolean or a varint; ``_MIN_BYTES`` are always allowed.
_BYTES_PER_VALUE = 32
_MIN_BYTES = 1 << 20

#: Chunks of a remote stream whose fetched range was too short are fetched one by one; after so many requests, twice as
#: many bytes with each further one, up to a power of two.
_FEW_REQUESTS, _MAX_AHEAD = 8, 20

_ZERO = np.zeros(1, np.int64)
_NO_BYTES = np.zeros(0, np.uint8)

_local = threading.local()


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Content of segments of a stream: bytes ``starts[s]`` to ``limits[s]`` of ``data``, see the kernel.

    ``skips[s]`` values (bits, of booleans) at the start belong to earlier row groups. Unless the data ``is_owned``, it
    may be overwritten when the next content of a stream of the same kind is loaded by the same thread, or belong to the
    file.
    """

    data: Bytes
    starts: Ints
    limits: Ints
    skips: Ints
    is_owned: bool = False


def max_run_bytes(values: Ints) -> Ints:
    """Bound the bytes of ``values`` values in any run-length encoding, or as varints."""
    return np.maximum(_BYTES_PER_VALUE * values, _MIN_BYTES)


class StoredStream:
    """A stream as it is stored: a view of a local file, or the ranges of a remote one that have been fetched."""

    def __init__(self, source: CountedSource, information: StreamInformation | None) -> None:
        self._source = source
        self.offset = 0 if information is None else information.offset
        self.length = 0 if information is None else information.length
        self._is_remote = source.is_remote and self.length > 0
        # begins and ends of the fetched ranges of a remote stream, ascending and disjoint
        self._begins: list[int] = []
        self._ends: list[int] = []
        if self._is_remote:
            # zeros take no memory until they are overwritten
            self.data: Bytes = np.zeros(self.length, np.uint8)
        elif self.length:
            (view,) = source.view([(self.offset, self.length)])
            self.data = np.frombuffer(view, np.uint8)
        else:
            self.data = _NO_BYTES

    def missing(self, begin: int, end: int) -> list[Range]:
        """List the parts of a byte range that have not been fetched, as ranges of the file."""
        end = min(end, self.length)
        if not self._is_remote or begin >= end:
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
        self._begins.insert(at, begin)
        self._ends.insert(at, end)

    def fetch(self, begin: int, end: int) -> bool:
        """Fetch the missing parts of a byte range; return True if there were any."""
        missing = self.missing(begin, end)
        if missing:
            for (offset, _), view in zip(missing, self._source.read(missing), strict=True):
                self.put(offset, view)
        return bool(missing)

    def count(self, ranges: int, length: int) -> None:
        """Count the used bytes of a local file; those of a remote file are counted as they are fetched."""
        if not self._is_remote and ranges:
            self._source.count(ranges, length)

    def release(self) -> None:
        """Release the mapped pages of a local file."""
        if not self._is_remote and self.length:
            self._source.release(self.offset, self.length)

    @property
    def is_remote(self) -> bool:
        return self._is_remote


class StreamReader:
    """Reads the content of one stream of a stripe; not shared between threads."""

    def __init__(self, stored: StoredStream, decompressor: Decompressor) -> None:
        self._stored = stored
        self._decompressor = decompressor

    def ranges(self, begins: Ints, ends: Ints) -> list[Range]:
        """List what a remote file's source should fetch for row groups ``begins[s]`` to ``ends[s]``."""
        return self._stored.missing(0, self._stored.length)

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        """Load the content of segments.

        Args:
            max_bytes: int64[S], the maximum number of bytes needed of each.
            fresh: load into new memory.

        Raises:
            OrcError: if a position lies outside the stream, or a chunk is corrupt.
        """
        raise NotImplementedError

    def values(self, begins: Ints, ends: Ints, bounds: Ints, lows: Ints, sizes: Ints) -> tuple[Bytes, Ints]:
        """Load the bytes of values by their position within segments.

        Args:
            bounds: int64[S + 1], the values of each segment.
            lows: int64[N], the begin of each value, in bytes from its segment's start.
            sizes: int64[N], in bytes.

        Returns:
            the data, and the begin of each value in it.

        Raises:
            OrcError: if a value lies outside its segment.
        """
        raise NotImplementedError

    def extend(self, segments: Segments) -> Segments | None:
        """Load more of the same content; None if there is no more."""
        return None

    def advance(self, stops: Ints) -> None:
        """Continue at the end of the decoded values: int64[S, 2], see the kernel."""

    def _list(self, begins: Ints, ends: Ints, extras: Ints) -> Chunks:
        stored = self._stored
        if stored.is_remote:
            requests, ahead = 0, 0
            for begin, end, extra in zip(begins.tolist(), ends.tolist(), extras.tolist(), strict=True):
                while (begin < end or extra) and begin < stored.length:
                    extra -= begin >= end
                    requests += stored.fetch(begin, begin + max(HEADER_LENGTH, ahead))
                    head = stored.data[begin : begin + HEADER_LENGTH].tobytes()
                    after = begin + HEADER_LENGTH + (int.from_bytes(head, "little") >> 1)
                    requests += stored.fetch(begin, after)
                    # a corrupt stream may have a chunk in each few bytes
                    ahead = 1 << min(requests, _MAX_AHEAD) if requests > _FEW_REQUESTS else 0
                    begin = after
        return self._decompressor.list_chunks(stored.data, begins, ends, extras)

    def _decompress(self, chunks: Chunks, wanted: Ints, needed: Ints, out: Bytes) -> tuple[Ints, Ints]:
        decompressor = self._decompressor
        before = decompressor.chunks, decompressor.bytes_in
        begins, loaded = decompressor.decompress(self._stored.data, chunks, wanted, needed, out)
        count = decompressor.chunks - before[0]
        self._stored.count(count, HEADER_LENGTH * count + decompressor.bytes_in - before[1])
        return begins, loaded


class SequentialReader(StreamReader):
    """Reads a stream from its first value on, window by window, for all rows and without a row index.

    A window is rows ``begins[0]`` to ``ends[0]`` of the stripe. The size of its content is unknown before its values
    are decoded, so the reader loads the window's share of the stream, and more if needed.

    Args:
        num_rows: of the stripe.
    """

    def __init__(self, stored: StoredStream, decompressor: Decompressor, num_rows: int) -> None:
        super().__init__(stored, decompressor)
        self._num_rows = max(num_rows, 1)
        # the offset of the next chunk, or of the next value's run in an uncompressed stream
        self._next = 0
        # content from the run of the next value on, and the number of decoded values of that run
        self._content: Bytes = _NO_BYTES
        self._skip = 0
        # where the chunks that were loaded for this window begin
        self._first = 0
        # the maximum to load at once
        self._max_bytes = 0

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        self._max_bytes = int(max_bytes[0]) + _MAX_RUN_BYTES
        self._first = self._next
        if self._decompressor.codec is None:
            self._stored.fetch(self._next, self._stored.length)
        else:
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
        is_all = self._next >= self._stored.length or len(self._content) >= self._max_bytes
        if self._decompressor.codec is None or is_all:
            return None
        # about twice as much; chunks may be stored without content
        length = int(segments.limits[0] - segments.starts[0])
        self._load(self._next + max(length // 2, self._next - self._first, 1))
        return self._segments()

    def advance(self, stops: Ints) -> None:
        stop, self._skip = stops[0].tolist()
        if self._decompressor.codec is None:
            self._stored.count(1, stop - self._next)
            self._next = stop
        else:
            self._content = self._content[stop:].copy()

    def _segments(self) -> Segments:
        skip = np.array([self._skip])
        if self._decompressor.codec is None:
            return Segments(self._stored.data, np.array([self._next]), np.array([self._stored.length]), skip)
        return Segments(self._content, _ZERO, np.array([len(self._content)]), skip, is_owned=True)

    def _load(self, until: int) -> None:
        """Decompress the chunks that begin before an offset."""
        if self._next >= min(until, self._stored.length) or len(self._content) >= self._max_bytes:
            return
        chunks = self._list(np.array([self._next]), np.array([min(until, self._stored.length)]), _ZERO)
        at, block_size = len(self._content), self._decompressor.block_size
        sizes = np.where(chunks.sizes < 0, block_size, chunks.sizes)
        content = allocate(min(at + int(sizes.sum()), self._max_bytes + block_size), np.uint8)
        content[:at] = self._content
        needed = np.full(len(sizes), -1)
        needed[:1] = self._max_bytes - at
        _, loaded = self._decompress(chunks, sizes, needed, content[at:])
        totals = loaded.cumsum()
        # up to the chunk that makes it enough, or the last one
        count = min(int(totals.searchsorted(needed[0])) + 1, len(totals))
        self._next = int(chunks.ends[count - 1])
        self._content = content[: at + int(totals[-1])]


class IndexedReader(StreamReader):
    """Reads a stream by segments of consecutive row groups.

    Args:
        positions: where row groups begin; None if the stripe is one.
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
        # the number of chunks behind a segment that its last run may reach into; True if these are loaded whole
        self._extras, self._is_extended = 1, False
        # the number of chunks that were listed last
        self._listed = 0
        # the arguments of the last request, which extend() repeats
        self._request: tuple[Ints, Ints, Ints, bool] | None = None

    def ranges(self, begins: Ints, ends: Ints) -> list[Range]:
        """List what a remote file's source should fetch for row groups ``begins[s]`` to ``ends[s]``.

        The end of a chunk is unknown before its header is read: such ranges may be a little too long or too short.
        """
        if not self._stored.is_remote or not len(begins):
            return []
        if self._positions is None:
            return self._stored.missing(0, self._stored.length)
        chunk, _, _, end_chunk, end_inner, has_tail = self._bounds(begins, ends)
        offsets = np.unique(self._positions.chunk)
        typical = int(np.median(np.diff(offsets))) if len(offsets) > 1 else self._decompressor.block_size
        if self._decompressor.codec is None:
            until = end_chunk + np.where(has_tail, _MAX_RUN_BYTES, 0)
        else:
            following = np.append(offsets, self._stored.length)[offsets.searchsorted(end_chunk, "right")]
            max_length = HEADER_LENGTH + min(self._decompressor.block_size, typical + typical // 4)
            until = np.where(
                (end_inner > 0) | has_tail, np.minimum(following, end_chunk + max_length), end_chunk
            )
        return [
            item
            for begin, end in zip(chunk.tolist(), until.tolist(), strict=True)
            for item in self._stored.missing(begin, end)
        ]

    def segments(self, begins: Ints, ends: Ints, max_bytes: Ints, *, fresh: bool = False) -> Segments:
        """Load row groups ``begins[s]`` to ``ends[s]``, and behind each as much as its last run may need."""
        # most writers fill all chunks of a stream but the last; a further one of a remote file would take two requests
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
            for begin, end in zip(chunk[firsts].tolist(), ends_of_ranges.tolist(), strict=True):
                stored.fetch(begin, end)
                stored.count(1, end - begin)
            return Segments(stored.data, chunk, limits, skip)
        chunks = self._list(
            chunk, end_chunk + ((end_inner > 0) | has_tail), np.where(has_tail, self._extras, 0)
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
            # all of the chunks behind, if the longest run has not been enough
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
            chunks = self._list(chunk, ends_at, np.zeros(len(chunk), np.int64))
            if chunks.has_sizes and len(lows) < _SPARSE_VALUES * len(chunks):
                edges = np.zeros(len(chunks) + 1, np.int64)
                np.cumsum(chunks.sizes, out=edges[1:])
                heads, insides = np.empty(len(lows), np.int64), np.empty(len(lows), np.int64)
                wanted = np.empty(len(chunks), np.int64)
                code = kernel.select_values(
                    chunks.offsets, edges, chunk, inner, ends_at, bounds, lows, sizes, wanted, heads, insides
                )
                if code:
                    raise OrcError(kernel.ERRORS[code])
                needed = np.full(len(chunks), -1)
                needed[:1] = edges[-1]
                data, bases, _ = self._load(chunks, wanted, needed)
                return data, bases[heads] + insides
        per_segment = np.diff(bounds)
        highs = np.zeros(len(begins), np.int64)
        np.maximum.at(highs, np.repeat(np.arange(len(begins)), per_segment), lows + sizes)
        segments = self.segments(begins, ends, highs)
        at = np.repeat(segments.starts, per_segment) + lows
        if (at + sizes > np.repeat(segments.limits, per_segment)).any():
            raise OrcError(kernel.ERRORS[kernel.STREAM_ENDS])
        return segments.data, at

    def _bounds(self, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, npt.NDArray[np.bool_]]:
        """Return the runs where segments begin and end, and a mask of those that use values of their last run."""
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
            the data, and the begin and the number of bytes of each chunk in it.
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
