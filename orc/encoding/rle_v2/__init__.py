"""Integers of the second run-length encoding (DIRECT_V2 and DICTIONARY_V2 columns).

Source: ORC specification v1, "Integer Run Length Encoding, version 2". One module for each sub-encoding; here
the runs are found and each wanted value is given to the module that knows its run. Nothing is done run by run
but the walk over their headers. Arithmetic wraps at 64 bits as the writers' does.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, starts_of, wanted_counts
from hindex.orc.encoding.byte_rle import clip_last
from hindex.orc.encoding.rle_v2 import delta, direct, headers, patched_base
from hindex.orc.encoding.rle_v2.headers import Encoding
from hindex.orc.encoding.rle_v2.walk import find_runs

__all__ = ["decode", "gather"]


def gather(buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints, *, signed: bool) -> Ints:
    """The integers at some ordinals of each group.

    :param starts: int64[G], byte of a run's header.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], value numbers from the first value of the run at the group's start,
        non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :param signed: whether values are zigzag coded. Unsigned values of 2**63 and above come out negative.
    :returns: int64[N].
    :raises OrcError: if runs go past the limit before the last ordinal is reached, or are impossible.
    """
    runs = find_runs(buf, starts, limits, wanted_counts(ordinals, offsets))
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


def decode(buf: Bytes, starts: Ints, limits: Ints, counts: Ints, *, signed: bool) -> Ints:
    """The first ``counts[g]`` integers of each group, concatenated.

    :returns: int64[sum(counts)].
    :raises OrcError: if runs go past the limit before the last value is reached, or are impossible.
    """
    runs = find_runs(buf, starts, limits, counts)
    lengths = runs.count
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
