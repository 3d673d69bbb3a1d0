"""Finding the runs of many groups at once, for streams of many short runs.

A window of bytes is taken of each group. It is computed for *every* byte where the next header would be if a
run began there; then all groups step from header to header together, one indexing operation a step.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from hindex.orc.encoding.buffers import Bytes, Ints, stream_end, unaligned
from hindex.orc.encoding.rle_v2 import headers
from hindex.orc.encoding.rle_v2.chain import follow

#: Groups that step together, and bytes in all their windows: what is computed of them fits in the cache.
_GROUPS = 128
_WINDOW_BYTES = 1 << 16
_MOST_WIDTH = 2048
#: With fewer groups left than that, each is followed on its own.
_FEW = 12
#: With fewer runs in all groups, too.
_LEAST_RUNS = 12_000
#: Bytes that are looked at after the first of a header: a second one and eight of varints.
_AHEAD = 12
#: Steps between two looks at whether all groups have left their windows.
_STEPS = 16

_ENDS, _U1 = np.uint64(0x8080808080808080), np.uint64(1)

#: Bytes of a run by its pair; of delta runs if their varints have one byte each; 0 for patched base.
_STEP = np.select(
    [headers.ENCODING == headers.Encoding.PATCHED_BASE, headers.ENCODING == headers.Encoding.DELTA],
    [0, 2 - headers.SIZE],
    headers.SIZE,
).astype(np.int32)
#: The pair that stands for the end of a window: a run of no values.
_OUTSIDE = 1 << 16
_COUNT = np.append(headers.COUNT, 0).astype(np.int32)


def pays(groups: int, bytes_per_run: float, runs: float) -> bool:
    """Whether stepping together over so many runs is faster than following each group.

    The cost here is one for each byte and one for each step of all groups, there one for each run (measured).
    """
    return groups > _FEW and runs > _LEAST_RUNS and 8 * bytes_per_run + 1200 / groups < 110


def follow_together(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Header positions int64[R], group after group, and int64[G], how many each group has.

    :raises OrcError: if a run goes beyond its group's limit, or a header is impossible.
    """
    positions, sizes = [], []
    parts = -(-len(starts) // _GROUPS)
    bounds = [len(starts) * i // parts for i in range(parts + 1)]
    for low, high in itertools.pairwise(bounds):
        part = slice(low, high)
        found = _follow_part(buf, starts[part], limits[part], wanted[part])
        positions.append(found[0])
        sizes.append(found[1])
    return np.concatenate(positions), np.concatenate(sizes)


def _follow_part(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    at, missing = starts.copy(), wanted.copy()
    groups: list[NDArray[np.int16]] = []
    positions: list[Ints] = []
    left = np.flatnonzero(missing > 0)
    while len(left) > _FEW:
        width = min(max(128, _WINDOW_BYTES // len(left)), _MOST_WIDTH)
        near = at[left] > len(buf) - width - _AHEAD
        _follow_each(buf, at, limits, missing, left[near], groups, positions)
        left = left[~near]
        if len(left):
            _follow_window(buf, at, limits, missing, left, width, groups, positions)
            left = left[missing[left] > 0]
    _follow_each(buf, at, limits, missing, left, groups, positions)
    group = np.concatenate(groups) if groups else np.zeros(0, np.int16)
    order = np.argsort(group, kind="stable")
    found = np.concatenate(positions)[order] if positions else np.zeros(0, np.int64)
    return found, np.bincount(group, minlength=len(starts)).astype(np.int64)


def _follow_each(
    buf: Bytes,
    at: Ints,
    limits: Ints,
    missing: Ints,
    lanes: NDArray[np.intp],
    groups: list[NDArray[np.int16]],
    positions: list[Ints],
) -> None:
    """Bring each of some groups to its end."""
    for lane in lanes.tolist():
        found: list[int] = []
        follow(buf.data, int(at[lane]), int(limits[lane]), int(missing[lane]), found)
        groups.append(np.full(len(found), lane, np.int16))
        positions.append(np.array(found, np.int64))
        missing[lane] = 0


def _follow_window(
    buf: Bytes,
    at: Ints,
    limits: Ints,
    missing: Ints,
    lanes: NDArray[np.intp],
    width: int,
    groups: list[NDArray[np.int16]],
    positions: list[Ints],
) -> None:
    """Bring some groups to the end of their next windows, and ``at`` and ``missing`` up to date."""
    begin = at[lanes]
    window = np.lib.stride_tricks.sliding_window_view(buf, width + _AHEAD)[begin]
    pair = np.empty((len(lanes), width + 1), np.int32)
    np.left_shift(window[:, :width], 8, out=pair[:, :width], dtype=np.int32)
    pair[:, :width] |= window[:, 1 : width + 1]
    pair[:, width] = _OUTSIDE
    step = _steps(window, pair[:, :width])
    # From here on [steps, groups]. Cells count the windows' bytes, and one for the end of each window.
    row = np.arange(len(lanes)) * (width + 1)
    cell = _chain(step, row)
    count = _COUNT[pair.reshape(-1)[cell]]
    if bool(np.any(cell[-1] != row + width)):
        count[1:][cell[1:] == cell[:-1]] = 0
    before = np.cumsum(count, axis=0)
    total = before[-1].copy()
    before -= count
    used = (count > 0) & (before < missing[lanes])
    here = np.count_nonzero(used, axis=0)
    groups.append(np.repeat(lanes.astype(np.int16), here))
    positions.append((cell + (begin - row)).T[used.T])

    lane, last = np.arange(len(lanes)), here - 1
    missing[lanes] -= np.where(here < len(cell), before[np.minimum(here, len(cell) - 1), lane], total)
    place = cell[last, lane] - row
    size = step[lane, place]
    at[lanes] = begin + place + size
    for stalled in np.flatnonzero(size == 0).tolist():
        number = int(lanes[stalled])
        at[number] = follow(buf.data, int(at[number]), int(limits[number]), 1, [])
    over = (at[lanes] > limits[lanes]) | ((missing[lanes] > 0) & (at[lanes] == limits[lanes]))
    if over.any():
        raise stream_end(int(limits[lanes][np.argmax(over)]))


def _steps(window: Bytes, pair: NDArray[np.int32]) -> NDArray[np.int32]:
    """int32[G, width]: size of the run that begins at each byte; 0 where only a closer look could tell."""
    width = pair.shape[1]
    step = _STEP.take(pair, mode="clip")
    long = (window[:, 2 : width + 2] | window[:, 3 : width + 3]) >= 0x80
    row, column = np.nonzero(long & (window[:, :width] >= 0xC0))
    words = unaligned(window.reshape(-1), "<u8")[row * window.shape[1] + column + 2].astype(np.uint64)
    ends = ~words & _ENDS
    ends &= ends - _U1
    # What is left of the lowest bits is the end of the second varint: bit 8 * bytes - 1.
    size = np.frexp((ends & (~ends + _U1)).astype(np.float64))[1] >> 3
    step[row, column] = np.where(size > 0, step[row, column] - 2 + size, 0)
    return step


def _chain(step: NDArray[np.int32], row: NDArray[np.intp]) -> NDArray[np.intp]:
    """intp[steps, G]: the cell that each group is at after each number of steps.

    Groups stay at their windows' ends when they have left them, and at a run of unknown size.

    :param row: the cell of each window's first byte.
    """
    groups, width = step.shape
    following = np.empty((groups, width + 1), np.intp)
    np.add(step, np.arange(width), out=following[:, :width])
    np.minimum(following[:, :width], width, out=following[:, :width])
    following[:, width] = width
    following += row[:, None]
    flat = following.reshape(-1)
    # The shortest runs have two bytes.
    chain = np.empty((width // 2 + 2, groups), np.intp)
    chain[0] = row
    done, most = 0, len(chain) - 1
    while done < most and not (done and (flat[chain[done]] == chain[done]).all()):
        until = min(done + _STEPS, most)
        for number in range(done, until):
            flat.take(chain[number], out=chain[number + 1], mode="clip")
        done = until
    return chain[: done + 1]
