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

    def fetch(self, begin: int, end: int) -> None:
        """Fetch the missing parts of a byte range."""
        missing = self.missing(begin, end)
        if missing:
            for (offset, _), view in zip(missing, self._source.read(missing), strict=True):
                self.put(offset, view)

    def count(self, length: int) -> None:
        """Count the used bytes of a local file; those of a remote file are counted as they are fetched."""
        if not self._is_remote:
            self._source.count(1, length)

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

    def segments(
        self,
        begins: Ints,
        ends: Ints,
        max_bytes: Ints,
        *,
        next_group: int | None = None,
        fresh: bool = False,
    ) -> Segments:
        """Load the content of segments.

        Args:
            max_bytes: int64[S], the maximum number of bytes needed of each.
            next_group: the row group that is loaded next, which may begin in the last chunk.
            fresh: load into new memory.

        Raises:
            OrcError: if a position lies outside the stream, or a chunk is corrupt.
        """
        raise NotImplementedError

    def values(
        self,
        begins: Ints,
        ends: Ints,
        bounds: Ints,
        lows: Ints,
        sizes: Ints,
        *,
        next_group: int | None = None,
    ) -> tuple[Bytes, Ints]:
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
            for begin, end, extra in zip(begins.tolist(), ends.tolist(), extras.tolist(), strict=True):
                while (begin < end or extra) and begin < stored.length:
                    extra -= begin >= end
                    stored.fetch(begin, begin + HEADER_LENGTH)
                    head = stored.data[begin : begin + HEADER_LENGTH].tobytes()
                    after = begin + HEADER_LENGTH + (int.from_bytes(head, "little") >> 1)
                    stored.fetch(begin, after)
                    begin = after
        return self._decompressor.list_chunks(stored.data, begins, ends, extras)

    def _decompress(self, chunks: Chunks, index: int, out: Bytes) -> int:
        count = self._decompressor.decompress(self._stored.data, chunks, index, out)
        self._stored.count(HEADER_LENGTH + int(chunks.lengths[index]))
        return count


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
        # the maximum to load at once
        self._max_bytes = 0

    def segments(
        self,
        begins: Ints,
        ends: Ints,
        max_bytes: Ints,
        *,
        next_group: int | None = None,
        fresh: bool = False,
    ) -> Segments:
        self._max_bytes = int(max_bytes[0]) + _MAX_RUN_BYTES
        if self._decompressor.codec is None:
            self._stored.fetch(self._next, self._stored.length)
        else:
            self._load(self._stored.length * int(ends[0]) // self._num_rows)
        return self._segments()

    def values(
        self,
        begins: Ints,
        ends: Ints,
        bounds: Ints,
        lows: Ints,
        sizes: Ints,
        *,
        next_group: int | None = None,
    ) -> tuple[Bytes, Ints]:
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
        # about twice as much
        length = int(segments.limits[0] - segments.starts[0])
        self._load(self._next + max(length // 2, 1))
        return self._segments()

    def advance(self, stops: Ints) -> None:
        stop, self._skip = stops[0].tolist()
        if self._decompressor.codec is None:
            self._stored.count(stop - self._next)
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
        if self._next >= min(until, self._stored.length):
            return
        chunks = self._list(np.array([self._next]), np.array([min(until, self._stored.length)]), _ZERO)
        at, block_size = len(self._content), self._decompressor.block_size
        sizes = np.where(chunks.sizes < 0, block_size, chunks.sizes)
        content = allocate(min(at + int(sizes.sum()), max(at, self._max_bytes) + block_size), np.uint8)
        content[:at] = self._content
        for index, size in enumerate(sizes.tolist()):
            if at >= self._max_bytes:
                break
            at += self._decompress(chunks, index, content[at : at + size])
            self._next = int(chunks.ends[index])
        self._content = content[:at]


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
        # the chunk in which the next content begins: its offset, and the beginning of its content
        self._last: tuple[int, Bytes] | None = None
        # the number of chunks behind a segment that its last run may reach into; True if these are loaded whole
        self._extras, self._is_extended = 1, False
        # the arguments of the last request, which extend() repeats
        self._request: tuple[Ints, Ints, Ints, int | None, bool] | None = None

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

    def segments(
        self,
        begins: Ints,
        ends: Ints,
        max_bytes: Ints,
        *,
        next_group: int | None = None,
        fresh: bool = False,
    ) -> Segments:
        """Load row groups ``begins[s]`` to ``ends[s]``, and behind each as much as its last run may need."""
        # most writers fill all chunks of a stream but the last
        self._extras, self._is_extended = -(-_MAX_RUN_BYTES // self._decompressor.block_size), False
        self._request = begins, ends, max_bytes, next_group, fresh
        return self._segments(*self._request)

    def extend(self, segments: Segments) -> Segments | None:
        # the run at the end of a row group may need more chunks than were loaded
        if self._decompressor.codec is None or self._request is None:
            return None
        self._extras, self._is_extended = 4 * self._extras, True
        more = self._segments(*self._request)
        return more if (more.limits - more.starts > segments.limits - segments.starts).any() else None

    def _segments(
        self, begins: Ints, ends: Ints, max_bytes: Ints, next_group: int | None, fresh: bool
    ) -> Segments:
        chunk, inner, skip, end_chunk, end_inner, has_tail = self._bounds(begins, ends)
        stored = self._stored
        if self._decompressor.codec is None:
            limits = np.minimum(end_chunk + np.where(has_tail, _MAX_RUN_BYTES, 0), stored.length)
            for begin, end in zip(chunk.tolist(), limits.tolist(), strict=True):
                stored.fetch(begin, end)
                stored.count(end - begin)
            return Segments(stored.data, chunk, limits, skip)
        is_cut = (end_inner > 0) | has_tail
        chunks = self._list(chunk, end_chunk + is_cut, np.where(has_tail, self._extras, 0))
        first = self._find(chunks, chunk, end_chunk)
        end = chunks.offsets.searchsorted(end_chunk + is_cut) - 1
        last = np.where(has_tail, np.minimum(end + self._extras, len(chunks.offsets) - 1), end)
        is_empty = last < first
        if is_empty.all():
            return Segments(_NO_BYTES, np.zeros_like(chunk), np.zeros_like(chunk), skip)
        # the number of bytes to load of each chunk: all, except of the chunks in which segments end
        sizes = np.where(chunks.sizes < 0, self._decompressor.block_size, chunks.sizes)
        wanted = np.zeros(len(sizes), np.int64)
        # the number of bytes that suffice from the first chunk of a segment on; -1 for other chunks
        needed = np.full(len(sizes), -1)
        for s in np.flatnonzero(~is_empty).tolist():
            at, stop = int(end[s]), int(end_inner[s])
            wanted[first[s] : at] = sizes[first[s] : at]
            needed[first[s]] = max(needed[first[s]], inner[s] + max_bytes[s])
            if self._is_extended:
                wanted[at : last[s] + 1] = sizes[at : last[s] + 1]
                continue
            if has_tail[s]:
                stop += _MAX_RUN_BYTES
            wanted[at] = max(wanted[at], min(stop, sizes[at]) if is_cut[s] else sizes[at])
            for index in range(at + 1, int(last[s]) + 1):
                # the content of two chunks is contiguous only if the first one is loaded whole
                stop -= int(sizes[index - 1])
                if stop > 0:
                    wanted[index] = max(wanted[index], min(stop, sizes[index]))
        kept = self._keep(chunks, wanted, next_group)
        if kept is not None:
            wanted[kept] = sizes[kept]
        data, bases, loaded = self._load(chunks, wanted, kept, needed, fresh=fresh)
        # the last loaded chunk of each segment
        last = np.maximum.accumulate(np.where(loaded > 0, np.arange(len(loaded)), 0))[last]
        starts = np.where(is_empty, 0, bases[np.minimum(first, len(bases) - 1)] + inner)
        limits = np.where(is_empty, 0, bases[last] + loaded[last])
        if (starts > limits).any():
            raise OrcError("a position points past the end of a chunk")
        return Segments(data, starts, limits, skip, is_owned=fresh)

    def values(
        self,
        begins: Ints,
        ends: Ints,
        bounds: Ints,
        lows: Ints,
        sizes: Ints,
        *,
        next_group: int | None = None,
    ) -> tuple[Bytes, Ints]:
        per_segment = np.diff(bounds)
        if self._decompressor.codec is not None:
            chunk, inner, _, end_chunk, end_inner, _ = self._bounds(begins, ends)
            is_cut = end_inner > 0
            chunks = self._list(chunk, end_chunk + is_cut, np.zeros(len(chunk), np.int64))
            if chunks.has_sizes and len(lows) < _SPARSE_VALUES * len(chunks.offsets):
                # content coordinates: those of the listed chunks one after another
                edges = np.concatenate([[0], np.cumsum(chunks.sizes)])
                first = self._find(chunks, chunk, end_chunk)
                last = chunks.offsets.searchsorted(end_chunk + is_cut)
                if (edges[first] + inner > edges[last]).any():
                    raise OrcError("a position points past the end of a chunk")
                low = np.repeat(edges[first] + inner, per_segment) + lows
                high = low + sizes
                if (high > np.repeat(edges[last], per_segment)).any():
                    raise OrcError(kernel.ERRORS[kernel.STREAM_ENDS])
                wanted = np.zeros(len(chunks.sizes), np.int64)
                chosen = sizes > 0
                head = edges.searchsorted(low[chosen], "right") - 1
                tail = edges.searchsorted(high[chosen], "left") - 1
                np.maximum.at(wanted, tail, high[chosen] - edges[tail])
                for a, b in zip(*(item[head < tail].tolist() for item in (head, tail)), strict=True):
                    wanted[a:b] = chunks.sizes[a:b]
                data, bases, _ = self._load(chunks, wanted, self._keep(chunks, wanted, next_group))
                at = np.zeros(len(low), np.int64)
                at[chosen] = bases[head] + low[chosen] - edges[head]
                return data, at
        highs = np.zeros(len(begins), np.int64)
        np.maximum.at(highs, np.repeat(np.arange(len(begins)), per_segment), lows + sizes)
        segments = self.segments(begins, ends, highs, next_group=next_group)
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

    def _find(self, chunks: Chunks, offsets: Ints, ends: Ints) -> Ints:
        """Find chunks by their offsets; an empty segment at the end of the list has none."""
        index = chunks.offsets.searchsorted(offsets)
        actual = (
            chunks.offsets[np.minimum(index, len(chunks.offsets) - 1)] if len(chunks.offsets) else offsets - 1
        )
        if ((actual != offsets) & (offsets < ends)).any():
            raise OrcError("a position points into the middle of a chunk")
        return index

    def _keep(self, chunks: Chunks, wanted: Ints, next_group: int | None) -> int | None:
        """Find the loaded chunk in which the next content begins."""
        if next_group is None or self._positions is None:
            return None
        offset = self._positions.chunk[next_group]
        at = int(chunks.offsets.searchsorted(offset))
        return at if at < len(wanted) and wanted[at] and chunks.offsets[at] == offset else None

    def _load(
        self,
        chunks: Chunks,
        wanted: Ints,
        kept: int | None,
        needed: Ints | None = None,
        *,
        fresh: bool = False,
    ) -> tuple[Bytes, Ints, Ints]:
        """Decompress the beginnings of chunks, one behind the other.

        Args:
            wanted: the number of bytes of each chunk.
            kept: the chunk to keep for the next content.
            needed: the number of bytes that suffice from the first chunk of a segment on; -1 for other chunks.

        Returns:
            the data, and the begin and the number of bytes of each chunk in it.
        """
        total = int(wanted.sum())
        if needed is not None:
            # chunks without a recorded size count as a block: a segment exceeds its needs by less than one
            firsts = needed[needed >= 0]
            total = min(total, int(firsts.sum()) + (len(firsts) + 1) * self._decompressor.block_size)
        data = allocate(total, np.uint8) if fresh else _scratch(self._slot, total)
        bases, loaded = np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64)
        at, until = 0, total
        last, self._last = self._last, None
        # a segment may begin in an empty chunk
        is_read = wanted > 0 if needed is None else (wanted > 0) | (needed >= 0)
        for index in is_read.nonzero()[0].tolist():
            bases[index] = at
            if needed is not None and needed[index] >= 0:
                until = at + int(needed[index])
            elif at >= until and index != kept:
                continue
            size, offset = int(wanted[index]), int(chunks.offsets[index])
            if not size:
                continue
            if last is not None and last[0] == offset and len(last[1]) >= size:
                data[at : at + size] = last[1][:size]
                count = size
            else:
                count = self._decompress(chunks, index, data[at : at + size])
            loaded[index] = count
            if index == kept:
                self._last = offset, data[at : at + count].copy()
            at += count
        return data, bases, loaded


def _scratch(slot: int, size: int) -> Bytes:
    """Return a buffer that this thread reuses for streams of the same kind."""
    buffers: dict[int, Bytes] = _local.__dict__.setdefault("buffers", {})
    buffer = buffers.get(slot)
    if buffer is None or len(buffer) < size:
        buffer = allocate(size, np.uint8)
        if size <= _MAX_SCRATCH:
            buffers[slot] = buffer
    return buffer[:size]
