"""What all decoders share: checked buffers, stride-1 views and arithmetic on runs of unequal length.

A *buffer* is ``uint8[n]`` of decompressed stream bytes whose last :data:`PADDING` bytes are zeros that do
not belong to the stream, so that a whole 64-bit word can be read at any byte of the stream.
A *group* is an independent starting point in a buffer, usually a row group's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hindex.errors import OrcError

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Zero bytes that follow the logical end of a buffer.
PADDING = 16

#: Positions and value counts are kept below this, so that 32 bits hold either.
_MOST = 1 << 31

#: Values worked on at a time where scratch memory should stay in the processor's cache.
_SLICE = 1 << 15


def check_groups(buf: Bytes, starts: Ints, limits: Ints, wanted: Ints) -> None:
    """Refuse groups that do not lie within the buffer, or that want an absurd number of values.

    :param wanted: int64[G], how many values from its start each group needs.
    :raises OrcError: if a bound or a count comes from a corrupt position.
    """
    if not len(starts) == len(limits) == len(wanted):
        raise ValueError(f"{len(starts)} starts, {len(limits)} limits and {len(wanted)} counts do not match")
    if not len(starts):
        return
    end = len(buf) - PADDING
    if starts.min() < 0 or limits.max() > end or bool(np.any(starts > limits)):
        group = int(np.argmax((starts < 0) | (limits > end) | (starts > limits)))
        raise OrcError(
            f"values start at byte {starts[group]} and end at byte {limits[group]} "
            f"of a stream of {max(end, 0)} bytes: the row index is corrupt"
        )
    if wanted.min() < 0 or wanted.max() >= _MOST or end >= _MOST:
        raise OrcError(
            f"{wanted.min()} to {wanted.max()} values of a stream of {end} bytes are wanted: "
            "the row index is corrupt"
        )


def wanted_counts(ordinals: Ints, offsets: Ints) -> Ints:
    """How many values of each group must be walked over to reach its last ordinal (0 for empty groups).

    :raises OrcError: if an ordinal is negative, or so large that it would overflow.
    """
    if len(ordinals) and (int(ordinals.min()) < 0 or int(ordinals.max()) >= _MOST - 1):
        raise OrcError(
            f"value numbers {ordinals.min()} to {ordinals.max()} are wanted: the row index is corrupt"
        )
    sizes = np.diff(offsets)
    wanted = np.zeros(len(sizes), np.int64)
    filled = np.flatnonzero(sizes)
    wanted[filled] = ordinals[offsets[1:][filled] - 1] + 1
    return wanted


def stream_end(limit: int) -> OrcError:
    """The error of a group whose values go on beyond its bytes."""
    return OrcError(
        f"the values run past byte {limit}, where they must end: the stream is corrupt or truncated"
    )


def unaligned(buf: Bytes, dtype: str) -> NDArray[Any]:
    """A view with one item of ``dtype`` beginning at every byte."""
    view: NDArray[Any] = np.ndarray((max(len(buf) - np.dtype(dtype).itemsize + 1, 0),), dtype, buf, 0, (1,))
    return view


def starts_of(counts: Ints) -> Ints:
    """int64[n + 1]: where each run begins when runs of ``counts`` values are laid end to end, and the end."""
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    return bounds


def begins_of(values: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: whether each value differs from the one before it, as the first does."""
    found = np.empty(len(values), np.bool_)
    found[:1] = True
    np.not_equal(values[1:], values[:-1], out=found[1:])
    return found


def ragged(counts: Ints) -> Ints:
    """``0 .. counts[0]-1, 0 .. counts[1]-1, ...``: each value's place in its run."""
    bounds = starts_of(counts)
    return np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)


def unzigzag(values: Words) -> Ints:
    """Undo, in place, the zigzag coding of signed integers: 0, 1, 2, 3 stand for 0, -1, 1, -2."""
    for low in range(0, len(values), _SLICE):
        part = values[low : low + _SLICE]
        sign = part & np.uint64(1)
        np.negative(sign, out=sign)
        part >>= np.uint64(1)
        part ^= sign
    return values.view(np.int64)
