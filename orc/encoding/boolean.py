"""Bits: boolean data and every PRESENT stream.

Source: ORC specification v1, "Boolean Run Length Encoding". Eight bits a byte, the most significant first;
the bytes are run-length encoded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hindex.orc.encoding import byte_rle
from hindex.orc.encoding.buffers import Bytes, Ints, check_groups

Bools = NDArray[np.bool_]


def gather(buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints) -> Bools:
    """The bits at some ordinals of each group.

    :param starts: int64[G], byte of a control byte.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], bit numbers from the first bit of the first byte of the run at the group's
        start, non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :returns: bool[N].
    :raises OrcError: if runs go past the limit before the last ordinal is reached.
    """
    packed = byte_rle.gather(buf, starts, limits, ordinals >> 3, offsets)
    packed >>= (7 - (ordinals & 7)).astype(np.uint8)
    packed &= 1
    found: Bools = packed.view(np.bool_)
    return found


def decode(buf: Bytes, starts: Ints, limits: Ints, counts: Ints) -> Bools:
    """The first ``counts[g]`` bits of each group, concatenated.

    :returns: bool[sum(counts)].
    :raises OrcError: if runs go past the limit before the last bit is reached.
    """
    check_groups(buf, starts, limits, counts)
    packed = byte_rle.decode(buf, starts, limits, (counts + 7) >> 3)
    bits = np.unpackbits(packed).view(np.bool_)
    spare = -counts & 7
    if not spare.any():
        return bits
    # Each group is its bits, then the spare ones of its last byte.
    keep = np.repeat(
        np.tile(np.array([True, False]), len(counts)), np.stack((counts, spare), axis=1).reshape(-1)
    )
    kept: Bools = bits[keep]
    return kept
