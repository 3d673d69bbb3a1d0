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

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Decompressor, chunk_end
from hindex.orc.encoding.buffers import PADDING, begins_of
from hindex.orc.fetched import Fetched
from hindex.orc.places import Bytes, Ints, Places, Spans
from hindex.orc.runs import MAX_RUN_LENGTH
from hindex.orc.wanted_chunks import SIZE_BYTES, WantedChunks

#: Where chunks must be walked from header to header to find the wanted ones, so many steps are made, and more as
#: long as so many bytes are ahead: then these are fetched instead.
_ROUNDS = 8
_ROUND_BYTES = 1 << 20

#: Fewer spans than these are looked at one by one.
_FEW_SPANS = 8

#: More than any chunk has.
_UNKNOWN_SIZE = 1 << 62


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


class StreamWindow:
    """The wanted part of one stream.

    Ask once, with :meth:`spans` or :meth:`values`, the groups in ascending order.
    """

    def __init__(self, fetched: Fetched, decompressor: Decompressor) -> None:
        self._fetched = fetched
        self._decompressor = decompressor
        self._plain = decompressor.codec is None
        self._chunks = WantedChunks(fetched, decompressor)

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
                first[g] = self._chunks.at(start)
                last[g], until[g], is_whole = self._want_span(
                    start,
                    int(places.end_chunk[g]),
                    int(places.end_inner[g]),
                    int(skips[g]),
                    int(places.inner[g] + most[g]),
                )
                if not is_whole:
                    skips[g] = 0
        buffer, bases, lengths = self._chunks.load()
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
        ordinals = [self._chunks.known(offset) for offset in offsets.tolist()]
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
        ordinals = [self._chunks.at(offset) for offset in offsets[begins].tolist()]
        sizes: list[int] = []
        for ordinal, is_needed in zip(
            ordinals, np.logical_or.reduceat(skipping, begins).tolist(), strict=True
        ):
            size = self._chunks.size(ordinal) if is_needed else self._chunks[ordinal].size
            sizes.append(_UNKNOWN_SIZE if size is None else size)
        fits = reach <= np.array(sizes, np.int64)[chunk]
        most = np.maximum.reduceat(np.where(fits, reach, 0), begins)
        for ordinal, end in zip(ordinals, most.tolist(), strict=True):
            self._chunks.want(ordinal, end)
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
            ordinal, until = self._chunks.at(offset), block
            self._chunks.want(ordinal, until)
            offset = self._chunks[ordinal].end
            size = self._chunks[ordinal].size
            if size is None:
                untold.append(ordinal)
            held += size or 0
            while untold and held + block * len(untold) >= most > held:
                held += self._chunks.size(untold.pop())
        return ordinal, until, offset >= length or (0 <= end <= offset and not (skip or end_inner))

    def _want_head(self, offset: int, inner: int, skip: int) -> tuple[int, int]:
        """Mark the head of the chunk in which a span ends, and of the next where its last runs reach into it.

        :param skip: how many values of the runs at the end are wanted too.
        """
        ordinal, until = self._chunks.at(offset), inner + (MAX_RUN_LENGTH if skip else 0)
        size = self._chunks.size(ordinal) if skip else self._chunks[ordinal].size
        if skip and size is not None and until > size:
            content = np.append(self._chunks.content(ordinal), np.uint8(0))
            end = self._fetched.runs.end(content.data, inner, skip)
            until = until if end is None else end
        limit = self._fetched.end(offset) if size is not None and until > size else 0
        while size is not None and until > size:
            self._chunks.want(ordinal, size)
            following = self._chunks[ordinal].end
            if following >= limit:
                return ordinal, size
            # of chunks smaller than a run there may be several
            ordinal, until = self._chunks.at(following), until - size
            size = self._chunks.size(ordinal)
        self._chunks.want(ordinal, until)
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
        buffer, bases, _ = self._chunks.load()
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
                fetched.look_at([walk.at for walk in walks], HEADER_LENGTH + SIZE_BYTES)
            for walk in walks:
                if skips_heads:
                    end, size = fetched.bound(walk.at, block), None
                else:
                    head = fetched.outline(walk.at, HEADER_LENGTH + SIZE_BYTES)
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
            size, end = self._chunks.outline(offset)
            upto = bisect_left(low, passed + size, done, count)
            if upto > done:
                reach = max(reach, high[upto - 1])
            # a value that begins in an earlier chunk may reach into this one
            if reach > passed:
                ordinal = self._chunks.at(offset)
                yield done, upto, passed, ordinal
                self._chunks.want(ordinal, min(size, reach - passed))
            done = upto
            passed += size
            offset = end

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
