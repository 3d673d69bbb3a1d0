"""Which bytes of a stripe's streams are fetched, and when: all of one step together.

The row index tells where the chunks begin in which row groups begin. Most streams have several row groups in a
chunk, so that these are all of its chunks and a chunk's end is known. Of the others the headers of the chunks in
which row groups end are looked at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Decompressor, chunk_end
from hindex.orc.fetched import Fetched, Range
from hindex.orc.places import Places
from hindex.orc.runs import MAX_RUN_LENGTH, Runs
from hindex.orc.stripe import StreamInformation

Ints = npt.NDArray[np.int64]

#: So many row groups for each chunk that one begins in make it unlikely that there are other chunks.
_GROUPS_OF_CHUNK = 2


class StreamSource(Protocol):
    """Where streams are read from, as far as that goes: :class:`~hindex.orc.counts.CountedSource`, mostly."""

    is_remote: bool

    def read(self, ranges: Sequence[Range]) -> list[memoryview]: ...

    def peek(self, offset: int, length: int) -> list[tuple[int, memoryview]]: ...

    def count(self, ranges: int, length: int) -> None: ...


def open_stream(
    source: StreamSource, stream: StreamInformation, runs: Runs, starts: Sequence[int], row_groups: int
) -> Fetched:
    """A stream of which nothing has been fetched yet.

    :param starts: where chunks are known to begin.
    :param row_groups: that the stripe has; 0 if its row index is not known.
    """

    def load(ranges: Sequence[Range]) -> list[memoryview]:
        return source.read([(stream.offset + offset, length) for offset, length in ranges])

    def count(length: int) -> None:
        source.count(1, length)

    mapped = [] if source.is_remote else source.peek(stream.offset, stream.length)
    return Fetched(
        stream.length,
        load,
        mapped=mapped,
        count=count if mapped else None,
        bounds=starts,
        is_dense=0 < _GROUPS_OF_CHUNK * len(starts) <= row_groups,
        is_remote=source.is_remote,
        runs=runs,
    )


@dataclass(slots=True, eq=False)
class Wanted:
    """What will be read of one stream: ranges, and the chunks at ``ends`` as far as their headers tell."""

    stream: StreamInformation
    fetched: Fetched
    ranges: list[Range]
    ends: list[int]


def whole(stream: StreamInformation, fetched: Fetched) -> Wanted:
    return Wanted(stream, fetched, [(0, stream.length)], [])


def row_groups(
    stream: StreamInformation, fetched: Fetched, places: Places, decompressor: Decompressor
) -> Wanted:
    """The chunks that hold row groups.

    :raises OrcError: if the row index points outside the stream.
    """
    if not len(places.chunk):
        return Wanted(stream, fetched, [], [])
    low, length = places.chunk, stream.length
    if int(low.min()) < 0 or int(low.max()) > length or int(places.end_chunk.max()) > length:
        raise OrcError(f"a position points outside the stream's {length} bytes")
    if fetched.is_mapped:
        return Wanted(stream, fetched, [], [])
    high = np.where(places.end_chunk < 0, length, places.end_chunk)
    if decompressor.codec is None:
        high = np.where(places.end_skip > 0, np.minimum(high + MAX_RUN_LENGTH, length), high)
        return Wanted(stream, fetched, _merged(low, high), [])
    straddles = (places.end_chunk >= 0) & (places.end_inner > 0)
    if fetched.is_dense:
        bounds = [fetched.bound(at, decompressor.block_size) for at in high[straddles].tolist()]
        high = high.copy()
        high[straddles] = bounds
        return Wanted(stream, fetched, _merged(low, high), [])
    return Wanted(stream, fetched, _merged(low, high), np.unique(high[straddles]).tolist())


def fetch(source: StreamSource, wanted: Iterable[Wanted]) -> None:
    """Fetch what is wanted of all streams: in one step, or two where headers tell how much more there is."""
    wanted = list(wanted)
    looked_at = [
        (item, at)
        for item in wanted
        for at in item.ends
        if at + HEADER_LENGTH <= item.stream.length and not _holds(item, at)
    ]
    plan = [(item, part) for item in wanted for part in item.fetched.missing(item.ranges)]
    views = source.read(
        [(item.stream.offset + offset, length) for item, (offset, length) in plan]
        + [(item.stream.offset + at, HEADER_LENGTH) for item, at in looked_at]
    )
    for (item, (offset, _)), view in zip(plan, views, strict=False):
        item.fetched.put(offset, view)
    if not looked_at:
        return
    bodies = [
        (item, part)
        for (item, at), head in zip(looked_at, views[len(plan) :], strict=True)
        for part in item.fetched.missing([(at, chunk_end(head, at, item.stream.length) - at)])
    ]
    views = source.read([(item.stream.offset + offset, length) for item, (offset, length) in bodies])
    for (item, (offset, _)), view in zip(bodies, views, strict=True):
        item.fetched.put(offset, view)


def _holds(item: Wanted, at: int) -> bool:
    """Whether a chunk is within what is fetched anyway, or was fetched before."""
    return any(offset <= at < offset + length for offset, length in item.ranges) or not item.fetched.missing(
        [(at, 1)]
    )


def _merged(low: Ints, high: Ints) -> list[Range]:
    """The ranges of row groups in ascending order, as ``(offset, length)``, those merged that touch."""
    reach = np.maximum.accumulate(high)
    breaks = np.flatnonzero(low[1:] > reach[:-1])
    lows = low[np.concatenate([[0], breaks + 1])].tolist()
    highs = reach[np.append(breaks, len(low) - 1)].tolist()
    return [(a, b - a) for a, b in zip(lows, highs, strict=True) if b > a]
