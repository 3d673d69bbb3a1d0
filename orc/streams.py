"""From row index positions to decompressed bytes: which chunks of a stream are wanted, and where values lie.

A :class:`StreamWindow` is asked for spans (everything between two positions, for run-length streams) or for
values (exact byte ranges, for string data); it then decompresses just the chunks that hold them, each no
further than the last byte wanted, into one buffer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Chunk, Decompressor, chunk_end
from hindex.orc.encoding.buffers import PADDING, begins_of
from hindex.orc.fetched import Fetched
from hindex.orc.runs import MAX_RUN_LENGTH

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where each of G row groups starts and ends in one stream; int64 arrays of length G.

    ``chunk`` is the offset of a chunk's header and ``inner`` the byte within its content (in an uncompressed
    stream, the byte and 0). ``skip`` values of the run there belong to earlier row groups (bits, for boolean
    streams). An ``end_chunk`` of -1 is the stream's end; otherwise ``end_skip`` values of the run at the end
    still belong to the group. ``stripe`` is the ordinal of the group's stripe, of those decoded together.
    """

    chunk: Ints
    inner: Ints
    skip: Ints
    end_chunk: Ints
    end_inner: Ints
    end_skip: Ints
    stripe: Ints

    @classmethod
    def whole(cls) -> Places:
        """One group: the whole stream."""
        zero = np.zeros(1, np.int64)
        return cls(zero, zero, zero, np.array([-1], np.int64), zero, zero, zero)

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
            self.stripe[groups],
        )

    def part(self, begin: int, end: int) -> Places:
        """Those of a range of the groups."""
        return self if begin == 0 and end == len(self.chunk) else self.of(np.arange(begin, end))

    def ranges(self) -> tuple[Ints, Ints]:
        """The first and the last group of each range of groups that follow each other in a stripe's stream.

        None goes on into the next stripe: between its values and the last of this one there may be other bytes.
        """
        follows = (
            (self.chunk[1:] == self.end_chunk[:-1])
            & (self.inner[1:] == self.end_inner[:-1])
            & (self.skip[1:] == self.end_skip[:-1])
            & (self.stripe[1:] == self.stripe[:-1])
        )
        breaks = np.flatnonzero(~follows)
        return np.concatenate([[0], breaks + 1]), np.append(breaks, len(self.chunk) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Decompressed bytes with one span a row group: bytes ``starts[g]`` to ``limits[g]`` of ``buffer``.

    ``ends[g]`` is the end position: only what is wanted of the run that begins there lies behind it.
    """

    buffer: Bytes
    starts: Ints
    ends: Ints
    limits: Ints


#: Where chunks must be walked from header to header to find the wanted ones, so many steps are made, and more as
#: long as so many bytes are ahead: then these are fetched instead.
_ROUNDS = 8
_ROUND_BYTES = 1 << 20

#: Fewer spans than these are looked at one by one.
_FEW_SPANS = 8

#: More than any chunk has.
_UNKNOWN_SIZE = 1 << 62

#: Bytes after a chunk's header that tell the length of its content, for codecs that do.
_SIZE_BYTES = 18


@dataclass(slots=True, eq=False)
class _Walk:
    """One row group's way through its chunks: the next one, and what it has behind it."""

    start: int
    at: int
    passed: int
    low: Ints
    high: Ints

    def ahead(self) -> int:
        """About how many bytes there are from the next chunk to the end of the one with the last value."""
        missing = int(self.high[-1]) - self.passed
        return -(-(self.at - self.start) * missing // max(self.passed, 1)) + HEADER_LENGTH

    def passes(self, size: int) -> bool:
        """Go past a chunk of some content bytes; whether it holds bytes that are wanted."""
        first = int(np.searchsorted(self.high, self.passed, "right"))
        self.passed += size
        return first < len(self.low) and int(self.low[first]) < self.passed


#: Where chunks do not tell their size, those that would be packed tighter than this are looked at first.
_LIKELY_RATIO = 64


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
            chunk = self._fetched.chunk(offset, self._decompressor)
            found = self._by_offset[offset] = len(self._chunks)
            self._chunks.append(chunk)
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
        return len(self._content(ordinal))

    def _content(self, ordinal: int) -> Bytes:
        """All of a chunk's content; it is not decompressed again when it is loaded."""
        whole = self._whole.get(ordinal)
        if whole is None:
            chunk = self._chunks[ordinal]
            out = np.empty(self._decompressor.block_size if chunk.size is None else chunk.size, np.uint8)
            whole = out[: self._decompressor.into(chunk, out)]
            if len(whole) < len(out) // 2:
                whole = whole.copy()  # so that what was not filled can be freed
            self._whole[ordinal] = whole
        return whole

    def spans(self, places: Places, tails: Sequence[bool], most: Ints) -> Spans:
        """Everything from each start to its end, decompressed.

        Where ``tails[g]``, the values of runs at the end position that belong to the row group are wanted too. Chunks
        behind the first ``most[g]`` bytes of a span are left out, and it ends where the last of the others does.
        """
        if self._plain:
            return self._plain_spans(places, tails)
        skips = np.where(np.array(tails, bool), places.end_skip, 0)
        first, until = self._want_inner_spans(places, skips)
        last = first.copy()
        for g in np.flatnonzero(first < 0).tolist():
            start = int(places.chunk[g])
            if start < self._fetched.length:
                first[g] = self._chunk(start)
                last[g], until[g], is_whole = self._want_span(
                    start,
                    int(places.end_chunk[g]),
                    int(places.end_inner[g]),
                    int(skips[g]),
                    int(places.inner[g] + most[g]),
                )
                if not is_whole:
                    skips[g] = 0
        buffer, bases, lengths = self._load()
        starts = np.zeros(len(first), np.int64)
        limits = np.zeros(len(first), np.int64)
        some = np.flatnonzero(last >= 0)
        starts[some] = bases[first[some]] + places.inner[some]
        limits[some] = bases[last[some]] + np.minimum(until[some], lengths[last[some]])
        ends = limits.copy()
        skipping = some[skips[some] != 0]
        ends[skipping] = self._positions(bases, places.end_chunk[skipping]) + places.end_inner[skipping]
        limits = np.maximum(limits, starts)
        return Spans(buffer, starts, np.clip(ends, starts, limits), limits)

    def _positions(self, bases: Ints, offsets: Ints) -> Ints:
        """Where the chunks at some offsets lie in the buffer."""
        ordinals = [self._by_offset.get(offset, -1) for offset in offsets.tolist()]
        if -1 in ordinals:
            offset = int(offsets[ordinals.index(-1)])
            raise OrcError(f"a position points to byte {offset}, which is not a chunk's first")
        return bases[ordinals] if ordinals else np.zeros(0, np.int64)

    def _want_inner_spans(self, places: Places, skips: Ints) -> tuple[Ints, Ints]:
        """Mark as wanted, chunk by chunk, what the spans take that do not leave the chunk they begin in.

        :param skips: as of :meth:`_want_head`, for each group.
        :returns: int64[G] each, the ordinal of a span's chunk and how far it reaches there; -1 and 0 for others.
        """
        found = np.full(len(places.chunk), -1, np.int64)
        until = np.zeros(len(places.chunk), np.int64)
        if len(found) < _FEW_SPANS:
            return found, until
        inner = np.flatnonzero(
            (places.chunk == places.end_chunk)
            & (places.chunk < self._fetched.length)
            & ((skips != 0) | (places.end_inner != 0))
        )
        if not len(inner):
            return found, until
        offsets, skipping = places.chunk[inner], skips[inner] != 0
        reach = places.end_inner[inner] + np.where(skipping, MAX_RUN_LENGTH, 0)
        is_first = begins_of(offsets)
        begins, chunk = np.flatnonzero(is_first), np.cumsum(is_first) - 1
        ordinals = [self._chunk(offset) for offset in offsets[begins].tolist()]
        sizes: list[int] = []
        for ordinal, is_needed in zip(
            ordinals, np.logical_or.reduceat(skipping, begins).tolist(), strict=True
        ):
            size = self._size(ordinal) if is_needed else self._chunks[ordinal].size
            sizes.append(_UNKNOWN_SIZE if size is None else size)
        fits = reach <= np.array(sizes, np.int64)[chunk]
        most = np.maximum.reduceat(np.where(fits, reach, 0), begins)
        for ordinal, end in zip(ordinals, most.tolist(), strict=True):
            self._want(ordinal, end)
        found[inner[fits]] = np.array(ordinals, np.int64)[chunk[fits]]
        until[inner[fits]] = reach[fits]
        return found, until

    def _want_span(
        self, offset: int, end: int, end_inner: int, skip: int, most: int
    ) -> tuple[int, int, bool]:
        """Mark the chunks of one span as wanted, but none behind ``most`` bytes from its first chunk's on.

        :returns: the last one's ordinal, -1 in an empty span; how far it reaches there; and whether that is all of it.
        """
        block, length = self._decompressor.block_size, self._fetched.length
        ordinal, until = -1, 0
        held, untold = 0, list[int]()
        while offset < length and held < most:
            if end >= 0 and offset >= end:
                # beyond the end position only the runs that begin there can be wanted
                if skip or end_inner:
                    ordinal, until = self._want_head(offset, end_inner, skip)
                return ordinal, until, True
            ordinal, until = self._chunk(offset), block
            self._want(ordinal, until)
            offset = self._chunks[ordinal].end
            size = self._chunks[ordinal].size
            if size is None:
                untold.append(ordinal)
            held += size or 0
            while untold and held + block * len(untold) >= most > held:
                held += self._size(untold.pop())
        return ordinal, until, offset >= length or (0 <= end <= offset and not (skip or end_inner))

    def _want_head(self, offset: int, inner: int, skip: int) -> tuple[int, int]:
        """Mark the head of the chunk in which a span ends, and of the next where its last runs reach into it.

        :param skip: how many values of the runs at the end are wanted too.
        """
        ordinal, until = self._chunk(offset), inner + (MAX_RUN_LENGTH if skip else 0)
        size = self._size(ordinal) if skip else self._chunks[ordinal].size
        if skip and size is not None and until > size:
            content = np.append(self._content(ordinal), np.uint8(0))
            end = self._fetched.runs.end(content.data, inner, skip)
            until = until if end is None else end
        limit = self._fetched.end(offset) if size is not None and until > size else 0
        while size is not None and until > size:
            self._want(ordinal, size)
            following = self._chunks[ordinal].end
            if following >= limit:
                return ordinal, size
            # of chunks smaller than a run there may be several
            ordinal, until = self._chunk(following), until - size
            size = self._size(ordinal)
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
        # of each value, the bytes before its chunk
        before = low.copy()
        if self._fetched.is_remote:
            self._prefetch(places, offsets, low, high)
        lows, highs = low.tolist(), high.tolist()
        for offset, (begin, end) in zip(places.chunk.tolist(), pairwise(offsets.tolist()), strict=True):
            if begin < end:
                for first, last, passed, ordinal in self._want_values(offset, lows, highs, begin, end):
                    in_chunk[first:last] = ordinal
                    before[first:last] = passed
        buffer, bases, _ = self._load()
        inner = low - before
        return buffer, (bases[in_chunk] + inner if len(bases) else inner)

    def _prefetch(self, places: Places, offsets: Ints, low: Ints, high: Ints) -> None:
        """Fetch the chunks of all groups' values together.

        Chunks whose header does not tell are taken to be full, as most writers fill them. What this gets wrong
        is fetched when it is asked for.
        """
        fetched, block = self._fetched, self._decompressor.block_size
        # otherwise it takes a look at a chunk's head to know whether its content is needed to find the next one's
        skips_heads = fetched.is_dense and self._decompressor.tells_size
        wanted: list[tuple[int, int]] = []
        walks = [
            _Walk(start, start, 0, low[a:b], high[a:b])
            for start, a, b in zip(
                places.chunk.tolist(),
                offsets[:-1].tolist(),
                offsets[1:].tolist(),
                strict=True,
            )
            if a < b and start < fetched.length
        ]
        rounds = 0
        while walks and (rounds < _ROUNDS or sum(walk.ahead() for walk in walks) > _ROUND_BYTES):
            rounds += 1
            if not skips_heads:
                fetched.look_at([walk.at for walk in walks], HEADER_LENGTH + _SIZE_BYTES)
            for walk in walks:
                if skips_heads:
                    end, size = fetched.bound(walk.at, block), None
                else:
                    head = fetched.outline(walk.at, HEADER_LENGTH + _SIZE_BYTES)
                    end, size = chunk_end(head, walk.at, fetched.length), self._decompressor.size_of(head)
                is_wanted = walk.passes(block if size is None else size)
                # without its content its length is not known, and so not where the next one's begins
                if is_wanted or (size is None and not skips_heads):
                    wanted.append((walk.at, end - walk.at))
                walk.at = end
            walks = [walk for walk in walks if walk.at < fetched.length and walk.passed < int(walk.high[-1])]
        # of the others about as much as is left up to their last value
        wanted += [(walk.at, min(walk.ahead(), fetched.length - walk.at)) for walk in walks]
        fetched.ensure(wanted)

    def _want_values(
        self, offset: int, low: Sequence[int], high: Sequence[int], done: int, count: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Mark the chunks of one group's values, which are those from ``done`` up to ``count``, as wanted.

        :returns: which values begin in a chunk, from and up to; the group's bytes before it; and its ordinal.
        """
        last_end = high[count - 1]
        passed = reach = 0
        limit = self._fetched.end(offset)
        while passed < last_end and not (done == count and passed >= reach):
            if offset >= limit:
                raise OrcError(f"values reach {last_end - passed} bytes past the stream's end")
            size, end = self._outline(offset)
            upto = bisect_left(low, passed + size, done, count)
            if upto > done:
                reach = max(reach, high[upto - 1])
            # a value that begins in an earlier chunk may reach into this one
            if reach > passed:
                ordinal = self._chunk(offset)
                yield done, upto, passed, ordinal
                self._want(ordinal, min(size, reach - passed))
            done = upto
            passed += size
            offset = end

    def _outline(self, offset: int) -> tuple[int, int]:
        """A chunk's content length, and where it ends; its body is not asked for where its head tells."""
        ordinal = self._by_offset.get(offset)
        if ordinal is None:
            fetched = self._fetched
            head = fetched.outline(offset, HEADER_LENGTH + _SIZE_BYTES)
            size = self._decompressor.size_of(head)
            if size is not None:
                return size, chunk_end(head, offset, fetched.length)
            ordinal = self._chunk(offset)
        return self._size(ordinal), self._chunks[ordinal].end

    def _most(self, ordinal: int) -> int:
        """A bound of a chunk's content, which memory is set aside for."""
        chunk = self._chunks[ordinal]
        if chunk.size is not None:
            return chunk.size
        if ordinal in self._whole or len(chunk.body) * _LIKELY_RATIO < self._decompressor.block_size:
            return self._size(ordinal)
        return self._decompressor.block_size

    def _load(self) -> tuple[Bytes, Ints, Ints]:
        """Decompress the wanted chunks into one buffer; where each begins there, and how much of it there is."""
        sizes = [
            min(wanted, self._most(ordinal)) if wanted else 0 for ordinal, wanted in enumerate(self._wanted)
        ]
        bases = np.zeros(len(sizes), np.int64)
        lengths = np.zeros(len(sizes), np.int64)
        # in the stream's order, as a span may go on from one chunk to the next
        ordinals = sorted(range(len(sizes)), key=lambda i: self._chunks[i].offset)
        joined = None
        if not self._whole:
            joined = self._decompressor.together(
                [self._chunks[i] for i in ordinals], [sizes[i] for i in ordinals]
            )
        if joined is not None:
            buffer, begins = joined
            bases[ordinals] = begins
            lengths[ordinals] = [sizes[i] for i in ordinals]
            return buffer, bases, lengths
        buffer, at = np.empty(sum(sizes) + PADDING, np.uint8), 0
        for ordinal in ordinals:
            bases[ordinal] = at
            if sizes[ordinal]:
                lengths[ordinal] = self._put(ordinal, buffer[at : at + sizes[ordinal]])
                at += int(lengths[ordinal])
        buffer[at : at + PADDING] = 0
        return buffer[: at + PADDING], bases, lengths

    def _put(self, ordinal: int, out: Bytes) -> int:
        """Fill ``out`` with the beginning of a chunk's content; the bytes written."""
        whole = self._whole.get(ordinal)
        if whole is not None:
            count = min(len(out), len(whole))
            out[:count] = whole[:count]
            return count
        chunk = self._chunks[ordinal]
        count = self._decompressor.into(chunk, out)
        if count < len(out) and chunk.size is not None:
            raise OrcError(
                f"the chunk at byte {chunk.offset} ends after {count} bytes and claims {chunk.size}"
            )
        return count

    def _plain_spans(self, places: Places, tails: Sequence[bool]) -> Spans:
        length = self._fetched.length
        reach = places.end_chunk + np.where(np.array(tails, bool), MAX_RUN_LENGTH, 0)
        high = np.where(places.end_chunk < 0, length, np.minimum(reach, length))
        high = np.maximum(high, places.chunk)
        buffer, placed = self._copy(places.chunk, high)
        end = np.where(places.end_chunk < 0, high, np.minimum(places.end_chunk, high))
        return Spans(buffer, placed, placed + end - places.chunk, placed + high - places.chunk)

    def _copy(self, low: Ints, high: Ints) -> tuple[Bytes, Ints]:
        """Copy ascending byte ranges of an uncompressed stream into one buffer, each byte once."""
        if not len(low):
            return np.zeros(PADDING, np.uint8), np.zeros(0, np.int64)
        if int(high.max()) > self._fetched.length:
            raise OrcError(f"values reach past the stream's end at {self._fetched.length} bytes")
        if (low[1:] < low[:-1]).any():
            raise OrcError("the row groups' values overlap: the row index or the lengths are corrupt")
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
                self._fetched.use(begin, end - begin)
                buffer[int(block_base[i]) : int(block_base[i]) + end - begin] = np.frombuffer(
                    self._fetched.bytes(begin, end - begin), np.uint8
                )
        block = np.searchsorted(firsts, np.arange(len(low)), "right") - 1
        return buffer, block_base[block] + low - block_low[block]
