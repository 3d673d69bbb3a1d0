"""Cutting ranges out of a stream: the runs that hold just their values.

A range may begin and end within a run. Its part of such a run is written anew, as direct runs of whole 64-bit
values; all runs between are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, check_groups
from hindex.orc.encoding.rle_v2 import headers
from hindex.orc.encoding.rle_v2.chain import follow

#: Values of the longest run.
_MOST = 512
#: The header of a direct run of one 64-bit value.
_DIRECT_64 = (1 << 6 | 31 << 1) << 8
_COUNT: list[int] = headers.COUNT.tolist()


def cut(
    buf: Bytes,
    starts: Ints,
    ends: Ints,
    limits: Ints,
    skips: Ints,
    tails: Ints,
    counts: Ints,
    decode: Callable[[Ints, Ints, Ints], Ints],
    *,
    signed: bool,
) -> list[list[bytes | memoryview]]:
    """See :func:`hindex.orc.encoding.rle_v2.cut`.

    :param decode: gives the first values of groups, by their starts, limits and counts.
    """
    check_groups(buf, starts, limits, skips + counts)
    data = buf.data
    #: what is written anew: from where, up to where, how many values, and how many of them are dropped
    anew: list[tuple[int, int, int, int]] = []
    cuts: list[list[tuple[int, int] | None]] = []
    for start, end, limit, skip, tail, count in zip(
        *(item.tolist() for item in (starts, ends, limits, skips, tails, counts)), strict=True
    ):
        begin, known = start, 0
        parts: list[tuple[int, int] | None] = []
        cuts.append(parts)
        if skip:
            positions: list[int] = []
            begin = follow(data, start, limit, skip, positions)
            known = sum(_COUNT[data[at] << 8 | data[at + 1]] for at in positions)
        if begin >= end:
            # not one run lies within the range
            parts.append(None)
            anew.append((start, limit, skip + count, skip))
            continue
        if known > skip:
            parts.append(None)
            anew.append((start, limit, known, skip))
        parts.append((begin, end))
        if tail:
            parts.append(None)
            anew.append((end, limit, tail, 0))
    written = iter(_written(anew, decode, signed))
    return [[next(written) if part is None else data[slice(*part)] for part in parts] for parts in cuts]


def _written(
    anew: list[tuple[int, int, int, int]], decode: Callable[[Ints, Ints, Ints], Ints], signed: bool
) -> list[bytes]:
    if not anew:
        return []
    start, limit, count, drop = np.array(anew, np.int64).T
    values = decode(start, limit, count)
    words = ((values << 1 ^ values >> 63) if signed else values).astype(">i8").data.cast("B")
    ends = np.cumsum(count)
    return [
        b"".join(_direct(words[8 * first : 8 * end]))
        for first, end in zip((ends - count + drop).tolist(), ends.tolist(), strict=True)
    ]


def _direct(words: memoryview) -> Iterator[bytes | memoryview]:
    """Direct runs of 64-bit values."""
    for low in range(0, len(words), 8 * _MOST):
        part = words[low : low + 8 * _MOST]
        yield (_DIRECT_64 | len(part) // 8 - 1).to_bytes(2, "big")
        yield part
