"""From row index positions to decompressed bytes: which chunks of a stream are wanted, and where values lie.

A :class:`StreamWindow` is asked for spans (everything between two positions, for run-length streams) or for
values (exact byte ranges, for string data); it then decompresses just the chunks that hold them, each no
further than the last byte wanted, into one buffer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Chunk, Decompressor
from hindex.orc.stripe import StreamInformation

#: Zero bytes after a buffer's logical end, so that decoders may read whole words.
PADDING = 16

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a stream: the offset of a chunk's header and the byte within its content.

    In an uncompressed stream ``chunk`` is the byte offset and ``inner`` 0.
    """

    chunk: int
    inner: int


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Decompressed bytes with one span a row group: bytes ``starts[g]`` to ``limits[g]`` of ``buffer``."""

    buffer: Bytes
    starts: Ints
    limits: Ints


@dataclass(slots=True)
class Fetched:
    """Byte ranges of a stream that were fetched, by offset within the stream."""

    length: int
    offsets: list[int] = field(default_factory=list)
    views: list[memoryview] = field(default_factory=list)

    def piece(self, offset: int) -> tuple[int, memoryview]:
        """The fetched piece that holds a byte, and the piece's own offset."""
        at = bisect_right(self.offsets, offset) - 1
        if at < 0 or offset > self.offsets[at] + len(self.views[at]):
            raise OrcError(f"a position points to byte {offset}, outside the stream's {self.length} bytes")
        return self.offsets[at], self.views[at]


def fetch_ranges(
    stream: StreamInformation,
    starts: Sequence[Position],
    ends: Sequence[Position | None],
    decompressor: Decompressor,
) -> list[tuple[int, int]]:
    """The byte ranges ``(offset, length)`` within a stream that hold the given spans, merged.

    A chunk's length is known only from its header, so a span that ends inside a chunk asks for as much as
    such a chunk, and a run that straddles into the next one, may take.
    """
    ranges: list[tuple[int, int]] = []
    compressed = decompressor.codec is not None
    slack = 2 * (HEADER_LENGTH + decompressor.block_size) if compressed else MAX_RUN_LENGTH
    for start, end in zip(starts, ends, strict=True):
        low = start.chunk
        high = stream.length if end is None else min(end.chunk + slack, stream.length)
        if low > stream.length:
            raise OrcError(f"a position points to byte {low}, past the stream's {stream.length} bytes")
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        else:
            ranges.append((low, high))
    return [(low, high - low) for low, high in ranges]


#: The longest run of any integer encoding, in bytes: 512 values of 8 bytes, a header and a full patch list.
MAX_RUN_LENGTH = 512 * 8 + 4 + 8 + 32 * 16


class StreamWindow:
    """The wanted part of one stream.

    Ask with :meth:`span` or :meth:`values` in ascending order, then :meth:`load` once.
    """

    def __init__(self, fetched: Fetched, decompressor: Decompressor) -> None:
        self._fetched = fetched
        self._decompressor = decompressor
        self._plain = decompressor.codec is None
        self._chunks: list[Chunk] = []
        self._wanted: list[int] = []
        self._by_offset: dict[int, int] = {}
        self._whole: dict[int, Bytes] = {}

    def _chunk(self, offset: int) -> int:
        """The ordinal of the chunk whose header is at ``offset``."""
        found = self._by_offset.get(offset)
        if found is None:
            base, view = self._fetched.piece(offset)
            try:
                chunk = next(self._decompressor.chunks_of(view, offset - base))
            except StopIteration:
                raise OrcError(f"a position points to byte {offset}, at the stream's end") from None
            found = self._by_offset[offset] = len(self._chunks)
            self._chunks.append(Chunk(offset, chunk.body, chunk.original, chunk.size))
            self._wanted.append(0)
        return found

    def _want(self, ordinal: int, until: int) -> None:
        if until > self._wanted[ordinal]:
            self._wanted[ordinal] = until

    def _size(self, ordinal: int) -> int:
        """A chunk's content length, decompressing it where nothing else tells."""
        chunk = self._chunks[ordinal]
        if chunk.size is not None:
            return chunk.size
        whole = self._whole.get(ordinal)
        if whole is None:
            out = np.empty(self._decompressor.block_size, np.uint8)
            whole = self._whole[ordinal] = out[: self._decompressor.into(chunk, out)]
        return len(whole)

    def spans(
        self, starts: Sequence[Position], ends: Sequence[Position | None], tails: Sequence[bool]
    ) -> Spans:
        """Everything from each start to its end (None: the stream's end), decompressed.

        Where ``tails[g]``, the run that begins at the end position is wanted too.
        """
        if self._plain:
            return self._plain_spans(starts, ends, tails)
        block = self._decompressor.block_size
        first: list[int] = []
        last: list[tuple[int, int]] = []
        length = self._fetched.length
        for start, end, tail in zip(starts, ends, tails, strict=True):
            offset, ordinal = start.chunk, -1
            until = block
            if offset < length:
                first.append(self._chunk(offset))
            else:
                first.append(-1)
                last.append((-1, 0))
                continue
            while offset < length:
                if end is not None and offset >= end.chunk:
                    # beyond the end position only the run that begins there can be wanted
                    if not tail and end.inner == 0:
                        break
                    ordinal = self._chunk(offset)
                    until = end.inner + (MAX_RUN_LENGTH if tail else 0)
                    size = self._chunks[ordinal].size
                    if size is None and tail:
                        size = self._size(ordinal)
                    if size is not None and until >= size:
                        until, over = size, until - size
                        self._want(ordinal, until)
                        following = self._chunks[ordinal].end
                        if over and tail and following < length:
                            ordinal = self._chunk(following)
                            until = min(over, block)
                            self._want(ordinal, until)
                        break
                    self._want(ordinal, until)
                    break
                ordinal = self._chunk(offset)
                until = block
                self._want(ordinal, until)
                offset = self._chunks[ordinal].end
            if ordinal < 0:  # an empty span: the group has no bytes of its own
                last.append((-1, 0))
            else:
                last.append((ordinal, until))
        buffer, bases, lengths = self._load()
        starts_at = np.zeros(len(first), np.int64)
        limits = np.zeros(len(first), np.int64)
        for g, (ordinal, (final, until)) in enumerate(zip(first, last, strict=True)):
            if final >= 0:
                starts_at[g] = bases[ordinal] + starts[g].inner
                limits[g] = bases[final] + min(until, lengths[final])
        return Spans(buffer, starts_at, np.maximum(limits, starts_at))

    def values(self, starts: Sequence[Position], offsets: Ints, low: Ints, high: Ints) -> tuple[Bytes, Ints]:
        """The bytes of values: those of group g, ``offsets[g]`` to ``offsets[g + 1]``, lie at ``low`` to ``high``,
        counted in decompressed bytes from the group's start and ascending.

        :returns: a buffer and where in it each value begins.
        """
        if self._plain:
            return self._plain_values(starts, offsets, low, high)
        in_chunk = np.zeros(len(low), np.int64)
        inner = np.zeros(len(low), np.int64)
        for g, start in enumerate(starts):
            at, stop = int(offsets[g]), int(offsets[g + 1])
            if at == stop:
                continue
            begins = low[at:stop] + start.inner
            ends = high[at:stop] + start.inner
            last_end = int(ends[-1])
            offset, passed, done = start.chunk, 0, 0
            count = stop - at
            straddles_until = 0
            while passed < last_end:
                if offset >= self._fetched.length:
                    raise OrcError(f"values reach {last_end - passed} bytes past the stream's end")
                ordinal = self._chunk(offset)
                chunk = self._chunks[ordinal]
                size = self._size(ordinal)
                upto = done + int(np.searchsorted(begins[done:], passed + size, "left"))
                if upto > done:
                    in_chunk[at + done : at + upto] = ordinal
                    inner[at + done : at + upto] = begins[done:upto] - passed
                    straddles_until = max(straddles_until, int(ends[upto - 1]))
                if straddles_until > passed:
                    self._want(ordinal, min(size, straddles_until - passed))
                done = upto
                passed += size
                offset = chunk.end
                if done == count and passed >= straddles_until:
                    break
            # empty values at the very end of the last chunk need no bytes
            if done < count and int(begins[done]) > passed:
                raise OrcError(f"values reach past the stream's end at {passed} bytes")
        buffer, bases, _ = self._load()
        return buffer, (bases[in_chunk] + inner if len(bases) else inner)

    def _load(self) -> tuple[Bytes, Ints, Ints]:
        """Decompress the wanted chunks into one buffer; where each begins there, and how much of it there is."""
        sizes = [
            min(wanted, self._decompressor.block_size if chunk.size is None else chunk.size)
            for wanted, chunk in zip(self._wanted, self._chunks, strict=True)
        ]
        buffer = np.empty(sum(sizes) + PADDING, np.uint8)
        bases = np.zeros(len(sizes), np.int64)
        lengths = np.zeros(len(sizes), np.int64)
        at = 0
        for ordinal, size in enumerate(sizes):
            bases[ordinal] = at
            if size:
                whole = self._whole.get(ordinal)
                if whole is None:
                    count = self._decompressor.into(self._chunks[ordinal], buffer[at : at + size])
                else:
                    count = min(size, len(whole))
                    buffer[at : at + count] = whole[:count]
                lengths[ordinal] = count
                at += count
        buffer[at : at + PADDING] = 0
        return buffer[: at + PADDING], bases, lengths

    def _plain_spans(
        self, starts: Sequence[Position], ends: Sequence[Position | None], tails: Sequence[bool]
    ) -> Spans:
        length = self._fetched.length
        low = [start.chunk for start in starts]
        high = [
            length if end is None else min(length, end.chunk + (MAX_RUN_LENGTH if tail else 0))
            for end, tail in zip(ends, tails, strict=True)
        ]
        buffer, placed = self._copy(np.array(low, np.int64), np.array(high, np.int64))
        return Spans(buffer, placed, placed + np.array(high, np.int64) - np.array(low, np.int64))

    def _plain_values(
        self, starts: Sequence[Position], offsets: Ints, low: Ints, high: Ints
    ) -> tuple[Bytes, Ints]:
        base = np.repeat(np.array([start.chunk for start in starts], np.int64), np.diff(offsets))
        return self._copy(low + base, high + base)

    def _copy(self, low: Ints, high: Ints) -> tuple[Bytes, Ints]:
        """Copy ascending byte ranges of an uncompressed stream into one buffer, each byte once."""
        if not len(low):
            return np.zeros(PADDING, np.uint8), np.zeros(0, np.int64)
        if int(high.max()) > self._fetched.length:
            raise OrcError(f"values reach past the stream's end at {self._fetched.length} bytes")
        # ranges that overlap or adjoin are copied as one
        reach = np.maximum.accumulate(high)
        breaks = np.flatnonzero(low[1:] > reach[:-1]) + 1
        firsts = np.concatenate([[0], breaks])
        block_low = low[firsts]
        block_high = reach[np.append(breaks, len(low)) - 1]
        block_base = np.concatenate([[0], np.cumsum(block_high - block_low)])
        buffer = np.zeros(int(block_base[-1]) + PADDING, np.uint8)
        for i in range(len(block_low)):
            begin, end = int(block_low[i]), int(block_high[i])
            if end > begin:
                base, view = self._fetched.piece(begin)
                if end - base > len(view):
                    raise OrcError(f"values reach past the bytes fetched at {base + len(view)}")
                buffer[int(block_base[i]) : int(block_base[i]) + end - begin] = np.frombuffer(
                    view[begin - base : end - base], np.uint8
                )
        block = np.searchsorted(firsts, np.arange(len(low)), "right") - 1
        return buffer, block_base[block] + low - block_low[block]
