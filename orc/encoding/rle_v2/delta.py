"""Delta runs: a first value, a first step, and the sizes of all further steps in the same direction.

Source: ORC specification v1, "Delta". The first value is a varint, zigzag coded if the stream is signed; the
first step is always a zigzag varint and its sign is the direction. Width 0 means that all steps are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hindex.orc.encoding.buffers import Bytes, Ints, ragged, starts_of, unzigzag
from hindex.orc.encoding.rle_v2 import headers, packed
from hindex.orc.encoding.varint import read_varints

Bools = NDArray[np.bool_]

#: Bytes of a varint from here on are followed by another.
_MORE = 128


def values_in(buf: Bytes, at: Ints, pair: Ints, run: Ints, index: Ints, reach: Ints, *, signed: bool) -> Ints:
    """Value ``index[i]`` of run ``run[i]``, for all i.

    :param at: int64[R], where the delta runs' headers begin.
    :param pair: int64[R], their headers.
    :param reach: int64[R], the greatest index wanted of each: steps beyond it are not unpacked.
    :raises OrcError: if a varint has more than ten bytes.
    """
    first, first_size = read_varints(buf, at + 2)
    step, step_size = read_varints(buf, at + 2 + first_size)
    if signed:
        first = unzigzag(first).view(np.uint64)
    step = unzigzag(step).view(np.uint64)
    width = headers.WIDTH[pair]
    # The index in units of the first step: for varying steps it counts once, the others are summed below.
    times = np.where(width[run] == 0, index, np.minimum(index, 1)).astype(np.uint64)
    values = first[run] + times * step[run]
    varying = np.flatnonzero((width > 0) & (reach > 1))
    if len(varying):
        size = np.zeros_like(at)
        size[varying] = reach[varying] - 1
        bounds = starts_of(size)
        data = at + 2 + first_size + step_size
        total = np.zeros(int(bounds[-1]) + 1, np.uint64)
        chosen = size[varying]
        bit = np.repeat(data[varying] << 3, chosen) + ragged(chosen) * np.repeat(width[varying], chosen)
        np.cumsum(packed.bits_at(buf, bit, np.repeat(width[varying], chosen)), out=total[1:])
        later = np.flatnonzero((index > 1) & (width[run] > 0))
        of = run[later]
        distance = total[bounds[of] + index[later] - 1] - total[bounds[of]]
        down = step.view(np.int64)[of] < 0
        np.negative(distance, out=distance, where=down)
        values[later] += distance
    return values.view(np.int64)


def decode(buf: Bytes, at: Ints, pair: Ints, count: Ints, *, signed: bool) -> Ints:
    """The first ``count[r]`` values of each run, concatenated."""
    run = np.repeat(np.arange(len(at)), count)
    return values_in(buf, at, pair, run, ragged(count), count - 1, signed=signed)


def ends_of(buf: Bytes, at: Ints, count: Ints) -> tuple[Ints, Ints, Bools]:
    """The least and the greatest value of each run of equal steps, unsigned, where its varints have one byte each.

    :returns: int64[R] each, zeros where they have more, and whether they are told.
    """
    first, step = buf[at + 2].astype(np.int64), buf[at + 3].astype(np.int64)
    is_told = (first < _MORE) & (step < _MORE)
    last = first + (step >> 1 ^ -(step & 1)) * (count - 1)
    return np.minimum(first, last) * is_told, np.maximum(first, last) * is_told, is_told
