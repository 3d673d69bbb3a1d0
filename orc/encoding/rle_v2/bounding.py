"""How great the values of an unsigned stream may be, by its headers: only few runs are decoded for it."""

from __future__ import annotations

import numpy as np

from hindex.errors import OrcError
from hindex.orc.encoding.buffers import Bytes, Ints, starts_of, unaligned
from hindex.orc.encoding.rle_v2 import delta, headers, jumps, patched_base
from hindex.orc.encoding.rle_v2.headers import Encoding

#: Runs that fit between a stream's end and the byte behind it.
_ZEROS = 2

_MOST_SIGNED = (1 << 63) - 1
_TOO_GREAT = 1 << 63
#: Sums of so great values do not overflow: a stream has less than 2**31.
_SUMMED = 1 << 31

#: The greatest value of a direct run or a short repeat by its first byte, as far as 64 bits with a sign hold it; 0 for
#: others, and for repeats of one byte, which is soon looked at.
_GREATEST: Ints = np.where(
    (headers.ENCODING == Encoding.DIRECT)
    | ((headers.ENCODING == Encoding.SHORT_REPEAT) & (headers.WIDTH > 8)),
    np.array([(1 << min(n, 63)) - 1 for n in range(65)], np.int64)[headers.WIDTH],
    0,
)[:: 1 << 8].copy()
#: Values of a run by its first byte, without what the second adds to it if the first is not below ``_LONG``.
_COUNT: Ints = headers.COUNT[:: 1 << 8].copy()
_LONG = Encoding.DIRECT << 6
#: First bytes below the one are of repeats of one byte; from the other on, of runs that have to be looked into.
_TWO_BYTES, _PATCHED = 1 << 3, Encoding.PATCHED_BASE << 6

#: Runs looked at together: for the arrays of more, the system is asked for new memory each time.
_TOGETHER = 1 << 15


def bounds(buf: Bytes, start: int, limit: int, values: int) -> tuple[int, int, int]:
    """At least the greatest and at least the sum of the first ``values`` values of an unsigned stream, and their count.

    A look at its headers; it is no error if the stream ends before. The first two are ``2**63`` where a value may be
    that great or is negative, as far as 64 bits with a sign tell. The last run is counted whole.

    :raises OrcError: if a run goes beyond the limit, or a header is impossible.
    """
    at = _headers(buf, start, limit, values)
    greatest = total = held = 0
    rest = [at[:0]]
    for low in range(0, len(at), _TOGETHER):
        part = at[low : low + _TOGETHER]
        first, second = buf.take(part), buf.take(part + 1)
        count, most = _COUNT.take(first), _GREATEST.take(first)
        count += second * (first >= _LONG)
        most += second * (first < _TWO_BYTES)
        held += int(count.sum())
        greatest = max(greatest, int(most.max()))
        total += int(most.dot(count))
        rest.append(part[first >= _PATCHED])
    inside = np.concatenate(rest)
    if len(inside):
        most, count = _greatest_inside(buf, inside)
        if int(most.min()) < 0:
            return _TOO_GREAT, _TOO_GREAT, held
        greatest = max(greatest, int(most.max()))
        total += int(most.dot(count))
    if greatest > _SUMMED:
        return greatest if greatest < _MOST_SIGNED else _TOO_GREAT, _TOO_GREAT, held
    return greatest, total, held


def _headers(buf: Bytes, start: int, limit: int, values: int) -> Ints:
    """int64[R]: where the runs of the first ``values`` values begin, or of all that there are."""
    pieces = [np.zeros(0, np.int64)]
    try:
        jumps.follow_group(buf, start, limit, values, pieces)
    except OrcError:
        # where the last run ends with the stream, the zeros behind it were taken for another
        if limit not in pieces[-1][-_ZEROS:]:
            raise
    at = np.concatenate(pieces)
    return at[at < limit] if len(at) and int(at[-1]) >= limit else at


def _greatest_inside(buf: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """int64[R] each: the greatest value of patched base and delta runs, -1 where one is negative; and their counts."""
    pair = unaligned(buf, ">u2")[at].astype(np.intp)
    encoding, count = headers.ENCODING.take(pair), headers.COUNT.take(pair)
    most = np.zeros(len(at), np.int64)
    is_unknown = np.ones(len(at), np.bool_)
    steady = np.flatnonzero((encoding == Encoding.DELTA) & (headers.WIDTH.take(pair) == 0))
    least, most[steady], is_told = delta.ends_of(buf, at[steady], count[steady])
    is_unknown[steady] = ~is_told
    most[steady[least < 0]] = -1
    if bool((least < 0).any()):
        return most, count
    for kind in (Encoding.PATCHED_BASE, Encoding.DELTA):
        chosen = np.flatnonzero((encoding == kind) & is_unknown)
        if not len(chosen):
            continue
        lengths, starts = count[chosen], starts_of(count[chosen])[:-1]
        if kind is Encoding.DELTA:
            values = delta.decode(buf, at[chosen], pair[chosen], lengths, signed=False)
        else:
            values = patched_base.decode(buf, at[chosen], pair[chosen], lengths)
        most[chosen] = np.where(
            np.minimum.reduceat(values, starts) < 0, -1, np.maximum.reduceat(values, starts)
        )
    return most, count
