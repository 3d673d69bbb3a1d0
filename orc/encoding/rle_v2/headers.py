"""Tables over the first two bytes of a run: everything that follows from them without looking further.

A *pair* is the big-endian number of a run's first two bytes (a short repeat's header is the first alone).
Source: ORC specification v1, "Integer Run Length Encoding, version 2".
"""

from __future__ import annotations

import enum

import numpy as np
from numpy.typing import NDArray


class Encoding(enum.IntEnum):
    """The sub-encoding in a header's top two bits."""

    SHORT_REPEAT = 0
    DIRECT = 1
    PATCHED_BASE = 2
    DELTA = 3


#: Widths in bits by the five-bit code of the headers. None of them lets a value of a packed blob span nine
#: bytes: whatever is wider than 32 bits is made of whole bytes.
WIDTHS = np.array([*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64], np.int64)

#: The smallest width of the table that holds n bits, for n = 0 .. 64.
CLOSEST_WIDTH = WIDTHS[np.searchsorted(WIDTHS, np.arange(65))]

_PAIR = np.arange(1 << 16)
_FIRST, _SECOND = _PAIR >> 8, _PAIR & 255
_CODE = _FIRST >> 1 & 31
_LONG_COUNT = ((_FIRST & 1) << 8 | _SECOND) + 1

#: :class:`Encoding` of a run by its pair.
ENCODING: NDArray[np.uint8] = (_FIRST >> 6).astype(np.uint8)

_SHORT = ENCODING == Encoding.SHORT_REPEAT
_DELTA = ENCODING == Encoding.DELTA

#: Number of values of a run.
COUNT: NDArray[np.int64] = np.where(_SHORT, (_FIRST & 7) + 3, _LONG_COUNT)

#: Bits of a packed value: the repeated value of a short repeat; 0 where all steps of a delta run are equal.
WIDTH: NDArray[np.int64] = np.where(
    _SHORT, ((_FIRST >> 3 & 7) + 1) * 8, np.where(_DELTA & (_CODE == 0), 0, WIDTHS[_CODE])
)

_PACKED = np.where(_DELTA, np.maximum(COUNT - 2, 0), np.where(_SHORT, 1, COUNT))
_PACKED_SIZE = (_PACKED * WIDTH + 7) // 8

#: What tells the sizes of patched base from those of delta.
PATCHED_MARK = 1 << 16

#: Bytes of a run if its pair tells, which is so for short repeat and direct. Otherwise negative: minus the
#: known bytes, for delta without its two varints; for patched base without base value and patch list, and
#: with :data:`PATCHED_MARK` subtracted.
SIZE: NDArray[np.int64] = np.select(
    [_SHORT, ENCODING == Encoding.DIRECT, _DELTA],
    [1 + _PACKED_SIZE, 2 + _PACKED_SIZE, -(2 + _PACKED_SIZE)],
    -(4 + _PACKED_SIZE) - PATCHED_MARK,
)

#: Patched base, by its third and fourth bytes: bytes of the base value, bits of patch and gap, patches.
BASE_SIZE: NDArray[np.int64] = (_FIRST >> 5) + 1
PATCH_WIDTH: NDArray[np.int64] = WIDTHS[_FIRST & 31]
GAP_WIDTH: NDArray[np.int64] = (_SECOND >> 5) + 1
PATCHES: NDArray[np.int64] = _SECOND & 31
#: Bits of an entry of the patch list; meaningless where gap and patch together have more than 64.
ENTRY_WIDTH: NDArray[np.int64] = CLOSEST_WIDTH[np.minimum(PATCH_WIDTH + GAP_WIDTH, 64)]
#: Bytes of base value and patch list; -1 where an entry would have more than 64 bits, or there is none: no writer
#: makes such runs, and neither Java's nor the C++ reader takes them.
PATCHED_SIZE: NDArray[np.int64] = np.where(
    (PATCH_WIDTH + GAP_WIDTH > 64) | (PATCHES == 0), -1, BASE_SIZE + (PATCHES * ENTRY_WIDTH + 7) // 8
)
