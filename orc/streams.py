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


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where each of G row groups starts and ends in one stream; int64 arrays of length G.

    ``chunk`` is the offset of a chunk's header and ``inner`` the byte within its content (in an uncompressed
    stream, the byte and 0). ``skip`` values of the run there belong to earlier row groups (bits, for boolean
    streams). An ``end_chunk`` of -1 is the stream's end; otherwise ``end_skip`` values of the run at the end
    still belong to the group.
    """

    chunk: Ints
    inner: Ints
    skip: Ints
    end_chunk: Ints
    end_inner: Ints
    end_skip: Ints

    @classmethod
    def whole(cls) -> Places:
        """One group: the whole stream."""
        zero = np.zeros(1, np.int64)
        return cls(zero, zero, zero, np.array([-1], np.int64), zero, zero)

    def of(self, groups: Ints) -> Places:
        """Those of some of the groups."""
        if len(groups) == len(self.chunk):
            return self
        return Places(
            self.chunk[groups],
            self.inner[groups],
            self.skip[groups],
            self.end_chunk[groups],
            self.end_inner[groups],
            self.end_skip[groups],
        )


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
    stream: StreamInformation, places: Places, decompressor: Decompressor
) -> list[tuple[int, int]]:
    """The byte ranges ``(offset, length)`` within a stream that hold row groups, merged.

    A chunk's length is known only from its header, so a group that ends inside a chunk asks for as much as
    such a chunk, and a run that straddles into the next one, may take.
    """
    if not len(places.chunk):
        return []
    compressed = decompressor.codec is not None
    slack = 2 * (HEADER_LENGTH + decompressor.block_size) if compressed else MAX_RUN_LENGTH
    low = places.chunk
    if int(low.max()) > stream.length or int(low.min()) < 0:
        raise OrcError(f"a position points to byte {int(low.max())}, past the stream's {stream.length} bytes")
    high = np.where(places.end_chunk < 0, stream.length, np.minimum(places.end_chunk + slack, stream.length))
    if (np.diff(low) < 0).any():
        raise OrcError("the row index's positions do not ascend")
    reach = np.maximum.accumulate(high)
    breaks = np.flatnonzero(low[1:] > reach[:-1])
    lows = low[np.concatenate([[0], breaks + 1])].tolist()
    highs = reach[np.append(breaks, len(low) - 1)].tolist()
    return [(a, max(b - a, 0)) for a, b in zip(lows, highs, strict=True)]


#: The longest run of any integer encoding, in bytes: 512 values of 8 bytes, a header and a full patch list.
MAX_RUN_LENGTH = 512 * 8 + 4 + 8 + 32 * 16


class StreamWindow:
    """The wanted part of one stream.

    Ask once, with :meth:`spans` or :meth:`values`, the groups in ascending order.
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

    def spans(self, places: Places, tails: Sequence[bool]) -> Spans:
        """Everything from each start to its end, decompressed.

        Where ``tails[g]``, the run that begins at the end position is wanted too.
        """
        if self._plain:
            return self._plain_spans(places, tails)
        first: list[int] = []
        last: list[tuple[int, int]] = []
        for start, end, end_inner, tail in zip(
            places.chunk.tolist(), places.end_chunk.tolist(), places.end_inner.tolist(), tails, strict=True
        ):
            first.append(self._chunk(start) if start < self._fetched.length else -1)
            last.append(self._want_span(start, end, end_inner, tail))
        buffer, bases, lengths = self._load()
        starts = np.zeros(len(first), np.int64)
        limits = np.zeros(len(first), np.int64)
        for g, (ordinal, (final, until)) in enumerate(zip(first, last, strict=True)):
            if final >= 0:
                starts[g] = bases[ordinal] + places.inner[g]
                limits[g] = bases[final] + min(until, lengths[final])
        return Spans(buffer, starts, np.maximum(limits, starts))

    def _want_span(self, offset: int, end: int, end_inner: int, tail: bool) -> tuple[int, int]:
        """Mark the chunks of one span as wanted; the last one's ordinal and how far it reaches there.

        An ordinal of -1 is an empty span.
        """
        block, length = self._decompressor.block_size, self._fetched.length
        ordinal, until = -1, 0
        while offset < length:
            if end >= 0 and offset >= end:
                # beyond the end position only the run that begins there can be wanted
                if tail or end_inner:
                    return self._want_head(offset, end_inner, tail)
                break
            ordinal, until = self._chunk(offset), block
            self._want(ordinal, until)
            offset = self._chunks[ordinal].end
        return ordinal, until

    def _want_head(self, offset: int, inner: int, tail: bool) -> tuple[int, int]:
        """Mark the head of the chunk in which a span ends, and of the next where a run may straddle into it."""
        ordinal, until = self._chunk(offset), inner + (MAX_RUN_LENGTH if tail else 0)
        size = self._size(ordinal) if tail else self._chunks[ordinal].size
        if size is None or until <= size:
            self._want(ordinal, until)
            return ordinal, until
        self._want(ordinal, size)
        following = self._chunks[ordinal].end
        if following >= self._fetched.length:
            return ordinal, size
        ordinal, until = self._chunk(following), min(until - size, self._decompressor.block_size)
        self._want(ordinal, until)
        return ordinal, until

    def values(self, places: Places, offsets: Ints, low: Ints, high: Ints) -> tuple[Bytes, Ints]:
        """The bytes of values, those of group g being ``offsets[g]`` to ``offsets[g + 1]``.

        They lie at ``low`` to ``high``, counted in decompressed bytes from the group's start and ascending.

        :returns: a buffer and where in it each value begins.
        """
        per_group = np.diff(offsets)
        if self._plain:
            base = np.repeat(places.chunk, per_group)
            return self._copy(low + base, high + base)
        shift = np.repeat(places.inner, per_group)
        low, high = low + shift, high + shift
        in_chunk = np.zeros(len(low), np.int64)
        inner = np.zeros(len(low), np.int64)
        cuts = offsets.tolist()
        for g, offset in enumerate(places.chunk.tolist()):
            if cuts[g] < cuts[g + 1]:
                part = slice(cuts[g], cuts[g + 1])
                self._want_values(offset, low[part], high[part], in_chunk[part], inner[part])
        buffer, bases, _ = self._load()
        return buffer, (bases[in_chunk] + inner if len(bases) else inner)

    def _want_values(self, offset: int, low: Ints, high: Ints, in_chunk: Ints, inner: Ints) -> None:
        """Mark the chunks of one group's values as wanted, and fill in where each value begins."""
        count, last_end = len(low), int(high[-1])
        passed = done = reach = 0
        while passed < last_end and not (done == count and passed >= reach):
            if offset >= self._fetched.length:
                raise OrcError(f"values reach {last_end - passed} bytes past the stream's end")
            ordinal = self._chunk(offset)
            size = self._size(ordinal)
            upto = done + int(np.searchsorted(low[done:], passed + size, "left"))
            if upto > done:
                in_chunk[done:upto] = ordinal
                inner[done:upto] = low[done:upto] - passed
                reach = max(reach, int(high[upto - 1]))
            # a value that begins in an earlier chunk may reach into this one
            if reach > passed:
                self._want(ordinal, min(size, reach - passed))
            done = upto
            passed += size
            offset = self._chunks[ordinal].end

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

    def _plain_spans(self, places: Places, tails: Sequence[bool]) -> Spans:
        length = self._fetched.length
        reach = places.end_chunk + np.where(np.array(tails, bool), MAX_RUN_LENGTH, 0)
        high = np.where(places.end_chunk < 0, length, np.minimum(reach, length))
        high = np.maximum(high, places.chunk)
        buffer, placed = self._copy(places.chunk, high)
        return Spans(buffer, placed, placed + high - places.chunk)

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
