"""Places within a stream between those of the row index, learnt while it is read.

A row index entry leads to a row group's first value; from there on runs have to be walked over, or varints
counted, up to the wanted one. Where a walk passed, some places are kept, and the next one starts nearer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hindex.orc.encoding.buffers import begins_of

if TYPE_CHECKING:
    from hindex.orc.stripe import StreamKind

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Values, and runs, between two marks.
VALUES_APART = 512
RUNS_APART = 8
#: And between two marks in a stream of varints.
VARINTS_APART = 128

#: About what a walk takes, and passing a value on it, in nanoseconds.
_WALK_NS = 6000
_VALUE_NS = 10

_SHIFT = 32
_MASK = (1 << _SHIFT) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Starts:
    """Where to start for each wanted value: the mark before it, or its row group's position.

    ``ordinals`` and ``offsets`` are the values and bytes from the row group's position to the start; ``sums`` what
    the values up to there add up to, from the row group's first one. ``known`` tells marks from positions.
    """

    ordinals: Ints
    offsets: Ints
    sums: Ints
    known: Bools

    def of(self, some: Ints) -> Starts:
        return Starts(self.ordinals[some], self.offsets[some], self.sums[some], self.known[some])


class Marks:
    """The marks of one stream of one stripe. Threads may share them: each change replaces them as a whole."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        #: keys (row group and ordinal in one number), ascending; offsets; sums, or none where all are zero
        self._marks: tuple[Ints, Ints, Ints | None] = (empty, empty, None)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._marks if array is not None)

    def before(self, groups: Ints, ordinals: Ints) -> Starts:
        """The starts of values, by the numbers of their row groups and their ordinals from the position."""
        keys, offsets, sums = self._marks
        if not len(keys):
            zeros = np.zeros(len(groups), np.int64)
            return Starts(zeros, zeros, zeros, np.zeros(len(groups), bool))
        at = np.searchsorted(keys, groups << _SHIFT | ordinals, "right") - 1
        found = keys[at]
        known = (at >= 0) & (found >> _SHIFT == groups)
        return Starts(
            np.where(known, found & _MASK, 0),
            np.where(known, offsets[at], 0),
            np.zeros(len(at), np.int64) if sums is None else np.where(known, sums[at], 0),
            known,
        )

    def learn(self, groups: Ints, ordinals: Ints, offsets: Ints, sums: Ints | None = None) -> None:
        """Keep some places; see :class:`Starts`."""
        if not len(groups):
            return
        known, places, totals = self._marks
        keys, first = np.unique(np.concatenate((known, groups << _SHIFT | ordinals)), return_index=True)
        if totals is not None or sums is not None:
            totals = np.zeros(len(known), np.int64) if totals is None else totals
            sums = np.zeros(len(groups), np.int64) if sums is None else sums
            totals = np.concatenate((totals, sums))[first]
        self._marks = (keys, np.concatenate((places, offsets))[first], totals)


class JoinedMarks(Marks):
    """The marks of a stream of several stripes, whose row groups are numbered through.

    :param parts: the marks of each stripe.
    :param firsts: int64[P], the number of each stripe's first row group.
    """

    __slots__ = ("_firsts", "_parts")

    def __init__(self, parts: Sequence[Marks], firsts: Ints) -> None:
        super().__init__()
        self._parts = parts
        self._firsts = firsts

    def before(self, groups: Ints, ordinals: Ints) -> Starts:
        """As of one stripe; the groups ascend."""
        found = [part.before(groups[mine] - first, ordinals[mine]) for part, first, mine in self._cut(groups)]
        return Starts(
            np.concatenate([starts.ordinals for starts in found]),
            np.concatenate([starts.offsets for starts in found]),
            np.concatenate([starts.sums for starts in found]),
            np.concatenate([starts.known for starts in found]),
        )

    def learn(self, groups: Ints, ordinals: Ints, offsets: Ints, sums: Ints | None = None) -> None:
        """As of one stripe; the groups ascend."""
        for part, first, mine in self._cut(groups):
            part.learn(
                groups[mine] - first, ordinals[mine], offsets[mine], None if sums is None else sums[mine]
            )

    def _cut(self, groups: Ints) -> Iterator[tuple[Marks, int, slice]]:
        cuts = [*groups.searchsorted(self._firsts).tolist(), len(groups)]
        for i, part in enumerate(self._parts):
            yield part, int(self._firsts[i]), slice(cuts[i], cuts[i + 1])


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """The wanted values of some groups by where the walk to them starts: S starts, N values.

    ``groups``: int64[S], which group each start lies in. ``starts``: the S starts. ``bounds``: int64[S + 1], where
    each one's values are among the N. ``ordinals``: int64[N], counted from the start.
    """

    groups: Ints
    starts: Starts
    bounds: Ints
    ordinals: Ints

    @classmethod
    def to(cls, marks: Marks, ids: Ints, ordinals: Ints, bounds: Ints) -> Walks:
        """The walks to values, from the nearest mark or else from their row group's position.

        :param ids: int64[G], the row groups' numbers.
        :param ordinals: int64[N], values from the position, ascending in each group.
        :param bounds: int64[G + 1], where each group's are.
        """
        group = np.repeat(np.arange(len(ids)), np.diff(bounds))
        start = marks.before(ids[group], ordinals)
        first = np.flatnonzero(begins_of(group) | begins_of(start.ordinals))
        return cls(group[first], start.of(first), np.append(first, len(ordinals)), ordinals - start.ordinals)

    def spares(self, bounds: Ints) -> bool:
        """Whether they are less work than one walk from each row group's position.

        :param bounds: int64[G + 1], where each group's values are among the N.
        """
        passed = self.starts.ordinals + self.ordinals[self.bounds[1:] - 1] + 1
        # the walk to a group's last value, which is in its last start, passes all others
        last = np.searchsorted(self.bounds, bounds[1:], "left") - 1
        spared = int(passed[last].sum() - self.lengths().sum())
        return spared * _VALUE_NS >= (len(self.groups) - len(bounds) + 1) * _WALK_NS

    def lengths(self) -> Ints:
        """How many values each walk passes, its last wanted one included."""
        found: Ints = self.ordinals[self.bounds[1:] - 1] + 1
        return found

    @property
    def is_long(self) -> bool:
        """Whether marks on the way would spare much of it."""
        return bool((self.lengths() > 2 * VALUES_APART).any())


def apart(first: Ints, bounds: Ints) -> Ints:
    """Which of the runs on some walks get a mark.

    :param first: int64[R], values on the walk before each run.
    :param bounds: int64[S + 1], where each walk's runs are.
    """
    place = np.arange(len(first)) - np.repeat(bounds[:-1], np.diff(bounds))
    step = first // VALUES_APART
    chosen = place % RUNS_APART == 0
    chosen[1:] |= step[1:] != step[:-1]
    chosen &= place > 0
    return np.flatnonzero(chosen)


class ColumnMarks:
    """The marks of one column of one stripe, by stream.

    ``reads`` counts the reads of some of its rows, the present one included. The first one takes the fastest way;
    whoever reads again is taken to do so often, and what it learns is kept.
    """

    __slots__ = ("reads", "streams")

    def __init__(self) -> None:
        self.reads = 0
        self.streams: dict[StreamKind, Marks] = {}

    @property
    def nbytes(self) -> int:
        return sum(marks.nbytes for marks in list(self.streams.values()))

    @property
    def learns(self) -> bool:
        return self.reads > 1

    def of(self, kind: StreamKind) -> Marks:
        return self.streams.setdefault(kind, Marks())

    @classmethod
    def joined(cls, parts: Sequence[ColumnMarks], firsts: Ints) -> ColumnMarks:
        """Those of the same column in several stripes; see :class:`JoinedMarks`."""
        found = _JoinedColumnMarks()
        found.reads = max(part.reads for part in parts)
        found.parts, found.firsts = parts, firsts
        return found


class _JoinedColumnMarks(ColumnMarks):
    __slots__ = ("firsts", "parts")

    parts: Sequence[ColumnMarks]
    firsts: Ints

    def of(self, kind: StreamKind) -> Marks:
        return JoinedMarks([part.of(kind) for part in self.parts], self.firsts)
