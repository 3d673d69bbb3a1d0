"""Integers of the second run-length encoding (DIRECT_V2 and DICTIONARY_V2 columns).

Source: ORC specification v1, "Integer Run Length Encoding, version 2". One module for each sub-encoding; here
the runs are found and each wanted value is given to the module that knows its run. Nothing is done run by run
but the walk over their headers. Arithmetic wraps at 64 bits as the writers' does.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, starts_of, unaligned, wanted_counts
from hindex.orc.encoding.byte_rle import clip_last
from hindex.orc.encoding.rle_v2 import delta, direct, headers, patched_base, ranges
from hindex.orc.encoding.rle_v2.bounding import bounds
from hindex.orc.encoding.rle_v2.chain import follow
from hindex.orc.encoding.rle_v2.headers import Encoding
from hindex.orc.encoding.rle_v2.walk import Runs, find_runs

__all__ = ["Runs", "bounds", "cut", "decode", "gather", "runs_per_value"]


def gather(
    buf: Bytes,
    starts: Ints,
    limits: Ints,
    ordinals: Ints,
    offsets: Ints,
    *,
    signed: bool,
    walked: list[Runs] | None = None,
) -> Ints:
    """The integers at some ordinals of each group.

    :param starts: int64[G], byte of a run's header.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], value numbers from the first value of the run at the group's start,
        non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :param signed: whether values are zigzag coded. Unsigned values of 2**63 and above come out negative.
    :param walked: the runs that were walked over are appended to it.
    :returns: int64[N].
    :raises OrcError: if runs go past the limit before the last ordinal is reached, or are impossible.
    """
    runs = find_runs(buf, starts, limits, wanted_counts(ordinals, offsets))
    if walked is not None:
        walked.append(runs)
    if not len(ordinals):
        return np.zeros(0, np.int64)
    first = starts_of(runs.count)
    key = ordinals + np.repeat(first[runs.bounds[:-1]], np.diff(offsets))
    run = np.searchsorted(first, key, side="right") - 1
    index = key - first[run]
    pair = runs.pair[run]
    encoding = headers.ENCODING[pair]
    if int(encoding.max()) <= Encoding.DIRECT:
        return direct.values_at(buf, runs.at[run], pair, index, signed=signed)
    values = np.empty(len(ordinals), np.int64)
    plain = np.flatnonzero(encoding <= Encoding.DIRECT)
    values[plain] = direct.values_at(buf, runs.at[run[plain]], pair[plain], index[plain], signed=signed)
    for kind in (Encoding.PATCHED_BASE, Encoding.DELTA):
        chosen = np.flatnonzero(encoding == kind)
        if not len(chosen):
            continue
        # Ordinals do not decrease, so a run's are neighbours and the last of them is its greatest.
        of, places = run[chosen], index[chosen]
        last = np.append(of[1:] != of[:-1], True)
        used = of[last]
        number = np.cumsum(last) - last
        at, used_pair = runs.at[used], runs.pair[used]
        if kind is Encoding.DELTA:
            values[chosen] = delta.values_in(buf, at, used_pair, number, places, places[last], signed=signed)
        else:
            values[chosen] = patched_base.values_in(buf, at, used_pair, number, places)
    return values


def decode(
    buf: Bytes,
    starts: Ints,
    limits: Ints,
    counts: Ints,
    *,
    signed: bool,
    walked: list[Runs] | None = None,
) -> Ints:
    """The first ``counts[g]`` integers of each group, concatenated.

    :param walked: the runs that were walked over are appended to it.
    :returns: int64[sum(counts)].
    :raises OrcError: if runs go past the limit before the last value is reached, or are impossible.
    """
    runs = find_runs(buf, starts, limits, counts)
    if walked is not None:
        walked.append(runs)
    lengths = runs.count.copy()
    clip_last(lengths, runs.bounds, counts)
    encoding = headers.ENCODING[runs.pair]
    kinds = np.flatnonzero(np.bincount(encoding, minlength=1)).tolist()
    if len(kinds) == 1:
        return _decode_kind(Encoding(kinds[0]), buf, runs.at, runs.pair, lengths, signed)
    values = np.empty(int(lengths.sum()), np.int64)
    of_value = np.repeat(encoding, lengths)
    for kind in kinds:
        chosen = np.flatnonzero(encoding == kind)
        values[of_value == kind] = _decode_kind(
            Encoding(kind), buf, runs.at[chosen], runs.pair[chosen], lengths[chosen], signed
        )
    return values


def runs_per_value(buf: Bytes, start: int, limit: int, values: int) -> float:
    """How many runs the first ``values`` values of a group take, for each of them.

    :raises OrcError: if runs go past the limit, or are impossible.
    """
    positions: list[int] = []
    follow(buf.data, start, limit, values, positions)
    held = int(headers.COUNT[unaligned(buf, ">u2")[positions]].sum()) if positions else 1
    return len(positions) / held


def cut(
    buf: Bytes,
    starts: Ints,
    ends: Ints,
    limits: Ints,
    skips: Ints,
    tails: Ints,
    counts: Ints,
    *,
    signed: bool,
) -> list[list[bytes | memoryview]]:
    """The values of some ranges of a stream, as a stream of their own; see :mod:`.ranges`.

    :param starts: int64[R], byte of a run's header.
    :param ends: int64[R], byte where the last run that ends in the range does.
    :param limits: int64[R], exclusive byte bound of each range.
    :param skips: int64[R], values from the start that come before the range.
    :param tails: int64[R], values of the range from ``ends`` on.
    :param counts: int64[R], values of the range.
    :returns: the stream's bytes, the pieces of each range.
    :raises OrcError: if runs go past their bounds, or are impossible.
    """

    known = partial(decode, buf, signed=signed)
    return ranges.cut(buf, starts, ends, limits, skips, tails, counts, known, signed=signed)


def _decode_kind(encoding: Encoding, buf: Bytes, at: Ints, pair: Ints, lengths: Ints, signed: bool) -> Ints:
    match encoding:
        case Encoding.SHORT_REPEAT:
            return direct.decode_short_repeat(buf, at, pair, lengths, signed=signed)
        case Encoding.DIRECT:
            return direct.decode_direct(buf, at, pair, lengths, signed=signed)
        case Encoding.PATCHED_BASE:
            return patched_base.decode(buf, at, pair, lengths)
        case Encoding.DELTA:
            return delta.decode(buf, at, pair, lengths, signed=signed)
