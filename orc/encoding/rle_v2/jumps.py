"""Finding one group's runs where they are short: many headers at once instead of one after the other.

For *every* byte of a window it is computed where the next header would be if a run began there. From that follows where
the header after two, four, eight and sixteen runs would be, so that a step in Python passes sixteen, and those between
are looked up together. What a window does not tell is left to :func:`~.chain.follow`, which also has the last word on
errors.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, unaligned
from hindex.orc.encoding.rle_v2 import headers
from hindex.orc.encoding.rle_v2.chain import follow

#: Bytes of a window: what is computed of them fits in the processor's cache.
_WINDOW = 1 << 14
#: Values that tell how short the runs behind them are, and how many of these there must be.
_SAMPLE = 1024
_LEAST_RUNS = 500
#: Where runs are not short, so many times as many values tell whether those behind them are.
_MORE_SAMPLES = 4
#: Of longer runs, a look at each byte takes longer than one at each run (measured).
_MOST_BYTES = 8
#: Bytes behind a window in which the varints of its last runs end.
_AHEAD = 12

#: The least first bytes of such runs.
_PATCHED, _DELTA = headers.Encoding.PATCHED_BASE << 6, headers.Encoding.DELTA << 6
#: Bytes of a run by its pair; of delta runs without the varints; of patched base without base value and patch list.
_SIZE = np.select(
    [headers.ENCODING == headers.Encoding.PATCHED_BASE, headers.ENCODING == headers.Encoding.DELTA],
    [-headers.SIZE - headers.PATCHED_MARK, -headers.SIZE],
    headers.SIZE,
).astype(np.int16)
_PATCHED_SIZE = headers.PATCHED_SIZE.astype(np.int16)


def follow_group(buf: Bytes, start: int, limit: int, wanted: int, found: list[Ints]) -> int:
    """Append the positions of the headers of the runs that hold the first ``wanted`` values of a group.

    :param start: byte of the first header.
    :param limit: the byte that no run may go beyond.
    :returns: where the last run ends.
    :raises OrcError: if a run goes beyond the limit, or a header is impossible; it is the last of those in ``found``
        that begin at the limit or before.
    """
    at, missing, sample = start, wanted, _SAMPLE
    while True:
        begin = at
        at, held = _follow(buf, begin, limit, min(missing, sample), found)
        missing -= held
        if missing <= 0:
            return at
        runs = len(found[-1])
        size = (at - begin) / runs
        is_short = size <= _MOST_BYTES and min(missing * runs / held, (limit - at) / size) >= _LEAST_RUNS
        while is_short and at < limit:
            begin = at
            chain = _in_window(buf, begin, min(limit - begin, _WINDOW))
            total = np.cumsum(headers.COUNT[unaligned(buf, ">u2")[chain]])
            last = int(total.searchsorted(missing))
            if last < len(chain) - 1:
                found.append(chain[: last + 1])
                return int(chain[last + 1])
            found.append(chain[:-1])
            missing -= int(total[-2]) if len(total) > 1 else 0
            at, held = _follow(buf, int(chain[-1]), limit, 1, found)
            missing -= held
            if missing <= 0:
                return at
            is_short = at - begin <= _MOST_BYTES * len(chain)
        # runs that were long may go on so: the next look is at more of them
        sample *= _MORE_SAMPLES


def _follow(buf: Bytes, at: int, limit: int, missing: int, found: list[Ints]) -> tuple[int, int]:
    """Follow runs one by one, until no values are missing; where the last one ends, and how many values they hold."""
    positions: list[int] = []
    try:
        at = follow(buf.data, at, limit, missing, positions)
    finally:
        runs = np.array(positions, np.int64)
        found.append(runs)
    return at, int(headers.COUNT[unaligned(buf, ">u2")[runs]].sum())


def _in_window(buf: Bytes, begin: int, size: int) -> Ints:
    """The positions of the headers in a window whose first byte is one; what follows the last is not known."""
    end = min(size + _AHEAD, len(buf) - begin)
    following = _following(buf[begin : begin + end], size)
    hops = [following]
    for _ in range(4):
        hops.append(hops[-1].take(hops[-1]))
    one, two, four, eight, sixteen = hops
    heads: list[int] = []
    at, step = 0, sixteen.data
    while at < size:
        heads.append(at)
        at = step[at]
    chain = np.empty((len(heads), 16), np.int64)
    chain[:, 0] = heads
    chain[:, 8] = eight.take(chain[:, 0])
    chain[:, 4::8] = four.take(chain[:, 0::8])
    chain[:, 2::4] = two.take(chain[:, 0::4])
    chain[:, 1::2] = one.take(chain[:, 0::2])
    found: Ints = chain.reshape(-1)
    # all that lies behind the window stands at its end
    found = found[: int(np.searchsorted(found, size))]
    found += begin
    return found


def _following(window: Bytes, size: int) -> Ints:
    """int64[size + 1]: where the run that might begin at each byte ends; ``size`` where it ends behind the window.

    It is ``size`` too where the bytes do not tell.
    """
    pair = unaligned(window, ">u2")[:size].astype(np.int64)
    found = np.empty(size + 1, np.int64)
    ends = found[:size]
    np.add(_SIZE.take(pair), np.arange(size), out=ends)
    long = np.flatnonzero(window[:size] >= _PATCHED)
    is_delta = window[long] >= _DELTA
    delta, patched = long[is_delta], long[~is_delta]
    # two varints follow the header of a delta run
    is_last = window < 128
    last_bytes = np.append(np.flatnonzero(is_last), [2 * len(window)] * 2)
    ends[delta] += last_bytes.take(np.cumsum(is_last).take(delta + 1) + 1) - delta - 1
    more = _PATCHED_SIZE.take(unaligned(window, ">u2").take(np.minimum(patched + 2, len(window) - 2)))
    ends[patched] = np.where(more < 0, size, ends[patched] + more)
    np.minimum(found, size, out=found)
    found[size] = size
    return found
