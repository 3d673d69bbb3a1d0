"""Where row groups lie in a stream, and where their decompressed bytes are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
