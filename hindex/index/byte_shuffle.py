"""Unsigned integers as byte planes: all lowest bytes, then all second bytes, and so on.

The planes of an array are compressed one by one. Noise stays raw at no cost while the higher bytes, which
are few different ones, shrink to their entropy; a mixed stream would share one Huffman table and lose that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

UIntArray = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


def width_of(values: UIntArray) -> int:
    """Bytes that the greatest value needs: 0 where all are 0 or there is none."""
    return (int(values.max()).bit_length() + 7) // 8 if len(values) else 0


def split(values: UIntArray, width: int) -> list[bytes]:
    """The lowest ``width`` bytes of each value: one plane per byte, lowest first."""
    view = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.itemsize)
    return [view[:, plane].tobytes() for plane in range(width)]


def join(planes: Sequence[memoryview], count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The ``count`` values of planes of ``count`` bytes each; no plane means zeros."""
    values = np.zeros(count, np.dtype(dtype).newbyteorder("<"))
    view = values.view(np.uint8).reshape(count, values.itemsize)
    for number, plane in enumerate(planes):
        view[:, number] = np.frombuffer(plane, np.uint8)
    return values
