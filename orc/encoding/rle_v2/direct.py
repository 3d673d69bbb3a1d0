"""Short repeat and direct runs: plain values, or zigzag coded ones.

Source: ORC specification v1, "Short Repeat" and "Direct". A short repeat is a direct run whose values all lie
in the same one to eight bytes.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, Words, unzigzag
from hindex.orc.encoding.rle_v2 import headers, packed

_SHORT = headers.ENCODING == headers.Encoding.SHORT_REPEAT
#: By pair: bits from the header's first byte to the first value, and from each value to the next.
_FIRST_BIT = np.where(_SHORT, 8, 16)
_STRIDE = np.where(_SHORT, 0, headers.WIDTH)


def values_at(buf: Bytes, at: Ints, pair: Ints, index: Ints, *, signed: bool) -> Ints:
    """Value ``index[i]`` of the run at byte ``at[i]`` with header ``pair[i]``, for all i."""
    bit = (at << 3) + _FIRST_BIT[pair] + index * _STRIDE[pair]
    return _finish(packed.bits_at(buf, bit, headers.WIDTH[pair]), signed)


def decode_direct(buf: Bytes, at: Ints, pair: Ints, count: Ints, *, signed: bool) -> Ints:
    """The first ``count[r]`` values of each direct run, concatenated."""
    return _finish(packed.unpack(buf, at + 2, headers.WIDTH[pair], count), signed)


def decode_short_repeat(buf: Bytes, at: Ints, pair: Ints, count: Ints, *, signed: bool) -> Ints:
    """The first ``count[r]`` values of each short repeat, concatenated."""
    return np.repeat(values_at(buf, at, pair, np.zeros_like(at), signed=signed), count)


def _finish(values: Words, signed: bool) -> Ints:
    return unzigzag(values) if signed else values.view(np.int64)
