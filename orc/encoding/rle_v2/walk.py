"""Finding the runs without decoding what lies between: the only part that is inherently sequential."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, check_groups, starts_of, unaligned
from hindex.orc.encoding.rle_v2 import headers, jumps, lockstep
from hindex.orc.encoding.rle_v2.chain import follow

#: Of so many groups each is followed on its own.
_FEW_GROUPS = 12


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of all groups, one group after the other.

    ``at``: int64[R], the byte where each header begins; ``pair``: int64[R], index into the tables of
    :mod:`.headers`; ``count``: int64[R], values in each; ``bounds``: int64[G + 1], where each group's begin.
    """

    at: Ints
    pair: Ints
    count: Ints
    bounds: Ints


def find_runs(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> Runs:
    """The runs that hold the first ``wanted[g]`` values of each group.

    :raises OrcError: if they go on past the group's limit, or a header is impossible.
    """
    check_groups(buf, starts, limits, wanted)
    find = _in_each if len(starts) <= _FEW_GROUPS else _in_many
    at, size = find(buf, starts, limits, wanted)
    pair = unaligned(buf, ">u2")[at].astype(np.int64)
    return Runs(at, pair, headers.COUNT[pair], starts_of(size))


def _in_each(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """The positions of the headers, and how many each group has."""
    found = [np.zeros(0, np.int64)]
    sizes: list[int] = []
    for start, limit, count in zip(starts.tolist(), limits.tolist(), wanted.tolist(), strict=True):
        known = len(found)
        jumps.follow_group(buf, start, limit, count, found)
        sizes.append(sum(len(piece) for piece in found[known:]))
    return np.concatenate(found), np.array(sizes, np.int64)


def _in_many(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """The same of groups that may be followed together."""
    data = buf.data
    found: list[int] = []
    sizes: list[int] = []
    more: tuple[Ints, Ints] | None = None
    for start, limit, count in zip(starts.tolist(), limits.tolist(), wanted.tolist(), strict=True):
        known = len(found)
        end = follow(data, start, limit, count, found)
        sizes.append(len(found) - known)
        rest = len(starts) - len(sizes)
        others = slice(len(sizes), None)
        # The first group with values tells what the others are like.
        if count and not known and lockstep.pays(rest, *_likely(buf, found, end - start, wanted[others])):
            more = lockstep.follow_together(buf, starts[others], limits[others], wanted[others])
            break
    at, size = np.array(found, np.int64), np.array(sizes, np.int64)
    if more is not None:
        at, size = np.concatenate((at, more[0])), np.concatenate((size, more[1]))
    return at, size


def _likely(buf: Bytes, found: list[int], size: int, wanted: Ints) -> tuple[float, float]:
    """Bytes of a run, and runs in all groups, if those are like the runs that were found, of ``size`` bytes."""
    # of the last one only a few values may have been wanted
    held = int(headers.COUNT[unaligned(buf, ">u2")[found]].sum())
    return size / len(found), len(found) / held * int(wanted.sum())
