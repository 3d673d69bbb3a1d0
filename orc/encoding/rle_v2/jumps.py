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
#: Bytes of a varint from here on are followed by another.
_MORE = 128

#: The least first bytes of such runs.
_PATCHED, _DELTA = headers.Encoding.PATCHED_BASE << 6, headers.Encoding.DELTA << 6
#: Bytes of a run by its pair; of delta runs if their varints have one byte each; of patched base without base value
#: and patch list.
_SIZE = np.select(
    [headers.ENCODING == headers.Encoding.PATCHED_BASE, headers.ENCODING == headers.Encoding.DELTA],
    [-headers.SIZE - headers.PATCHED_MARK, 2 - headers.SIZE],
    headers.SIZE,
).astype(np.int16)
_PATCHED_SIZE = headers.PATCHED_SIZE.astype(np.int16)

_PLACES = np.arange(_WINDOW)
#: Stands for the end of a run that the window does not tell: behind any window.
_BEYOND = 1 << 40


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
            chain, pair = _in_window(buf, begin, min(limit - begin, _WINDOW))
            total = np.cumsum(headers.COUNT.take(pair))
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


def _in_window(buf: Bytes, begin: int, size: int) -> tuple[Ints, Ints]:
    """The positions of the headers in a window whose first byte is one, and their pairs.

    What follows the last is not known.
    """
    window = buf[begin : begin + size + _AHEAD]
    pair = unaligned(window, ">u2").astype(np.int64)
    following = _following(window, pair, size)
    hops = [following]
    for _ in range(4):
        hops.append(hops[-1].take(hops[-1], mode="clip"))
    one, two, four, eight, sixteen = hops
    heads: list[int] = []
    at, step = 0, sixteen.data
    while at < size:
        heads.append(at)
        at = step[at]
    chain = np.empty((len(heads), 16), np.int64)
    chain[:, 0] = heads
    chain[:, 8] = eight.take(chain[:, 0])
    chain[:, 4::8] = four.take(chain[:, 0::8], mode="clip")
    chain[:, 2::4] = two.take(chain[:, 0::4], mode="clip")
    chain[:, 1::2] = one.take(chain[:, 0::2], mode="clip")
    found: Ints = chain.reshape(-1)
    found = found[: int(np.searchsorted(found, size))]
    pair = pair.take(found)
    found += begin
    return found, pair


def _following(window: Bytes, pair: Ints, size: int) -> Ints:
    """int64[size + 1]: where the run that might begin at each byte ends; ``_BEYOND`` where the bytes do not tell.

    Behind the window it is ``_BEYOND`` too: a chain that has left the window stays out of it.
    """
    first = window[:size]
    found = np.empty(size + 1, np.int64)
    ends = found[:size]
    np.add(_SIZE.take(pair[:size]), _PLACES[:size], out=ends)
    found[size] = _BEYOND
    delta = np.flatnonzero(first >= _DELTA)
    long = delta[(window.take(delta + 2) | window.take(delta + 3)) >= _MORE]
    if len(long):
        is_last = window < _MORE
        last_bytes = np.append(np.flatnonzero(is_last), [_BEYOND] * 2)
        ends[long] += last_bytes.take(np.cumsum(is_last).take(long + 1) + 1) - long - 3
    patched = np.flatnonzero((first >= _PATCHED) & (first < _DELTA))
    if len(patched):
        more = _PATCHED_SIZE.take(pair.take(patched + 2))
        ends[patched] = np.where(more < 0, _BEYOND, ends.take(patched) + more)
    return found
