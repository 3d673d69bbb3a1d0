"""Integers of the first run-length encoding (files written before Hive 0.12, and DIRECT columns today).

Source: ORC specification v1, "Integer Run Length Encoding, version 1". A control byte c < 128 begins a run of
c + 3 values: a signed byte, the step, and a varint, the first value. Otherwise 256 - c varints follow.
Signed values are zigzag coded; arithmetic wraps at 64 bits as the writers' does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hindex.orc.encoding.buffers import (
    Bytes,
    Ints,
    Words,
    check_groups,
    ragged,
    starts_of,
    stream_end,
    unzigzag,
    wanted_counts,
)
from hindex.orc.encoding.byte_rle import clip_last
from hindex.orc.encoding.varint import MOST_BYTES, VarintEnds, too_long, varint_bits

_COUNT = [c + 3 if c < 128 else 256 - c for c in range(256)]
_COUNTS = np.array(_COUNT, np.int64)


@dataclass(frozen=True, slots=True)
class _Runs:
    """The runs of all groups, one group after the other.

    ``at``: int64[R], each control byte; ``rank``: int64[R], number of each run's first varint (a run's only
    one) among ``ends``, the last bytes of all varints; ``bounds``: int64[G + 1], where each group's begin.
    """

    at: Ints
    rank: Ints
    bounds: Ints
    ends: Ints


def _walk(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> _Runs:
    """Find the runs that hold the first ``wanted[g]`` values of each group.

    Varints are not parsed on the way: all bytes that end one are known beforehand, and it is only counted how
    many of them a run takes (a step or control byte below 0x80 looks like one, too).
    """
    check_groups(buf, starts, limits, wanted)
    # No value takes more than a varint of ten bytes, a control byte and a step; the last run has up to 130.
    scan = VarintEnds(buf, starts, np.minimum(limits, starts + (wanted + 130) * (MOST_BYTES + 2)))
    ends = np.ascontiguousarray(scan.positions).data
    data = buf.data
    count = _COUNT
    positions: list[int] = []
    ranks: list[int] = []
    bounds = [0]
    for at, limit, missing, rank in zip(
        starts.tolist(), limits.tolist(), wanted.tolist(), scan.first_rank.tolist(), strict=True
    ):
        try:
            while missing > 0:
                if at >= limit:
                    raise stream_end(limit)
                positions.append(at)
                control = data[at]
                if control < 128:
                    rank += 1 if data[at + 1] >= 128 else 2
                    ranks.append(rank)
                    rank += 1
                else:
                    ranks.append(rank)
                    rank += 256 - control
                missing -= count[control]
                at = ends[rank - 1] + 1
        except IndexError:
            raise stream_end(limit) from None
        if at > limit:
            raise stream_end(limit)
        bounds.append(len(positions))
    return _Runs(
        np.array(positions, np.int64), np.array(ranks, np.int64), np.array(bounds, np.int64), scan.positions
    )


def _values(
    buf: Bytes, runs: _Runs, control: Bytes, run: NDArray[np.intp], index: Ints, signed: bool
) -> Ints:
    """Value ``index[i]`` of run ``run[i]``, for all i."""
    at = runs.at[run]
    literal = control[run] >= 128
    rank = runs.rank[run] + np.where(literal, index, 0)
    # A literal begins after the literal before it, the first one after the control byte.
    begin = np.where(literal, np.where(index > 0, runs.ends[rank - 1], at) + 1, at + 2)
    sizes = runs.ends[rank] - begin + 1
    if len(sizes) and int(sizes.max()) > MOST_BYTES:
        raise too_long(int(begin[np.argmax(sizes)]), MOST_BYTES)
    bits: Words = varint_bits(buf, begin, sizes)
    values = unzigzag(bits) if signed else bits.view(np.int64)
    if not literal.all():
        steps = buf[at + 1].view(np.int8).astype(np.int64)
        values += np.where(literal, 0, steps * index)
    return values


def gather(buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints, *, signed: bool) -> Ints:
    """The integers at some ordinals of each group.

    :param starts: int64[G], byte of a run's control byte.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], value numbers from the first value of the run at the group's start,
        non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :param signed: whether values are zigzag coded. Unsigned values of 2**63 and above come out negative.
    :returns: int64[N].
    :raises OrcError: if runs go past the limit before the last ordinal is reached, or a varint is too long.
    """
    runs = _walk(buf, starts, limits, wanted_counts(ordinals, offsets))
    if not len(ordinals):
        return np.zeros(0, np.int64)
    control = buf[runs.at]
    first = starts_of(_COUNTS[control])
    key = ordinals + np.repeat(first[runs.bounds[:-1]], np.diff(offsets))
    run = np.searchsorted(first, key, side="right") - 1
    return _values(buf, runs, control, run, key - first[run], signed)


def decode(buf: Bytes, starts: Ints, limits: Ints, counts: Ints, *, signed: bool) -> Ints:
    """The first ``counts[g]`` integers of each group, concatenated.

    :returns: int64[sum(counts)].
    :raises OrcError: if runs go past the limit before the last value is reached, or a varint is too long.
    """
    runs = _walk(buf, starts, limits, counts)
    control = buf[runs.at]
    lengths = _COUNTS[control]
    clip_last(lengths, runs.bounds, counts)
    run = np.repeat(np.arange(len(lengths)), lengths)
    return _values(buf, runs, control, run, ragged(lengths), signed)
