"""Run-length encoded bytes: TINYINT data, union tags, and below booleans.

Source: ORC specification v1, "Byte Run Length Encoding". A control byte c < 128 is followed by one byte that
stands c + 3 times; otherwise 256 - c literal bytes follow.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import (
    Bytes,
    Ints,
    check_groups,
    ragged,
    starts_of,
    stream_end,
    wanted_counts,
)

_COUNT = [c + 3 if c < 128 else 256 - c for c in range(256)]
_SIZE = [2 if c < 128 else 257 - c for c in range(256)]
_COUNTS = np.array(_COUNT, np.int64)


def _walk(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Positions of control bytes int64[R], group after group, and where each group's begin, int64[G + 1]."""
    check_groups(buf, starts, limits, wanted)
    data = buf.data
    count, size = _COUNT, _SIZE
    positions: list[int] = []
    append = positions.append
    bounds = [0]
    for at, limit, missing in zip(starts.tolist(), limits.tolist(), wanted.tolist(), strict=True):
        while missing > 0:
            if at >= limit:
                raise stream_end(limit)
            append(at)
            control = data[at]
            missing -= count[control]
            at += size[control]
        if at > limit:
            raise stream_end(limit)
        bounds.append(len(positions))
    return np.array(positions, np.int64), np.array(bounds, np.int64)


def gather(buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints) -> Bytes:
    """The bytes at some ordinals of each group.

    :param starts: int64[G], byte of a control byte.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], value numbers from the first value of the run at the group's start,
        non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :returns: uint8[N].
    :raises OrcError: if runs go past the limit before the last ordinal is reached.
    """
    runs, bounds = _walk(buf, starts, limits, wanted_counts(ordinals, offsets))
    if not len(ordinals):
        return np.zeros(0, np.uint8)
    control = buf[runs]
    first = starts_of(_COUNTS[control])
    key = ordinals + np.repeat(first[bounds[:-1]], np.diff(offsets))
    run = np.searchsorted(first, key, side="right") - 1
    at = runs[run] + 1
    at += np.where(control[run] < 128, 0, key - first[run])
    return buf[at]


def decode(buf: Bytes, starts: Ints, limits: Ints, counts: Ints) -> Bytes:
    """The first ``counts[g]`` bytes of each group, concatenated.

    :returns: uint8[sum(counts)].
    :raises OrcError: if runs go past the limit before the last value is reached.
    """
    runs, bounds = _walk(buf, starts, limits, counts)
    control = buf[runs]
    lengths = _COUNTS[control]
    clip_last(lengths, bounds, counts)
    literal = control >= 128
    if not literal.any():
        return np.repeat(buf[runs + 1], lengths)
    at = np.repeat(runs + 1, lengths)
    at += np.where(np.repeat(literal, lengths), ragged(lengths), 0)
    return buf[at]


def clip_last(lengths: Ints, bounds: Ints, counts: Ints) -> None:
    """Shorten, in place, each group's last run so that the group's runs hold ``counts`` values."""
    filled = np.flatnonzero(counts)
    have = starts_of(lengths)
    lengths[bounds[1:][filled] - 1] -= (have[bounds[1:]] - have[bounds[:-1]] - counts)[filled]
