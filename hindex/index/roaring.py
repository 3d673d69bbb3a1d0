"""Row sets: roaring bitmaps from numpy arrays and from untrusted bytes.

A bitmap of many rows is assembled in its portable serialised form and deserialised, which costs a copy. Adding
rows one by one costs some ten nanoseconds each from an array, and fifty from other sources. Source:
RoaringFormatSpec, the layout without run containers.
"""

from __future__ import annotations

import array
import struct
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

#: The most rows of a stripe, and row groups of an index: they are numbered from 0 in 32 bits.
MAX_ROWS = (1 << 32) - 1

_COOKIE_NO_RUNS = 12346
_CHUNK = 1 << 16
#: The most bytes of a container with its header, if all its runs are one row; and those of the bitmap's header.
_CONTAINER_BYTES = 2 + 4 * (_CHUNK // 2) + 9
_HEAD_BYTES = 8
#: Containers of more rows than this are bitsets.
_MAX_ARRAY = 4096
# below this, the detour over serialised bytes costs more than it saves
_FEW = 4096


def from_rows(rows: npt.NDArray[np.uint32], total: int) -> BitMap:
    """Make a bitmap of distinct row numbers below ``total``, in any order."""
    if len(rows) * 32 > total:
        mask = np.zeros(total, np.bool_)
        mask[rows] = True
        return from_mask(mask)
    # the rows of one key, the most frequent lookup, are in order
    if bool((rows[1:] < rows[:-1]).any()):
        rows = np.sort(rows)
    return from_sorted(rows)


def from_sorted(rows: npt.NDArray[np.uint32]) -> BitMap:
    """Make a bitmap of ascending row numbers."""
    if len(rows) < _FEW:
        return BitMap(array.array("I", rows.tobytes()))
    chunks = int(rows[-1]) // _CHUNK + 1
    starts = np.arange(chunks, dtype=np.uint32) * np.uint32(_CHUNK)
    begins = rows.searchsorted(starts)
    low = rows.astype("<u2")
    edges = np.append(begins, len(rows))
    counts = edges[1:] - begins
    if int(counts.max()) <= _MAX_ARRAY:
        return _from_arrays(low, counts)
    containers = []
    for chunk, (start, end) in enumerate(pairwise(edges.tolist())):
        if end - start > _MAX_ARRAY:
            bits = np.zeros(_CHUNK, np.bool_)
            bits[low[start:end]] = True
            containers.append((chunk, end - start, _bitset(bits)))
        elif end > start:
            containers.append((chunk, end - start, low[start:end].tobytes()))
    return _assemble(containers)


def from_mask(mask: npt.NDArray[np.bool_]) -> BitMap:
    """Make a bitmap of the true positions of a mask."""
    containers = []
    for start in range(0, len(mask), _CHUNK):
        bits = mask[start : start + _CHUNK]
        count = int(np.count_nonzero(bits))
        if count > _MAX_ARRAY:
            containers.append((start // _CHUNK, count, _bitset(bits)))
        elif count:
            containers.append((start // _CHUNK, count, np.flatnonzero(bits).astype("<u2").tobytes()))
    return _assemble(containers)


def to_mask(rows: BitMap, total: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the row numbers below ``total`` that are in a set."""
    mask = np.zeros(total, np.bool_)
    mask[np.asarray(rows.to_array())] = True
    return mask


def from_groups(mask: npt.NDArray[np.bool_], size: int, total: int) -> BitMap:
    """Make a bitmap of the rows of the row groups under a mask.

    Row groups have ``size`` rows, and the last one the rest of ``total``. With a size of 0, there is at most one.
    """
    size = size or total
    rows = BitMap()
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        rows.add_range(start * size, min(end * size, total))
    return rows


def group_count(size: int, total: int) -> int:
    """Return the number of row groups of a stripe of ``total`` rows."""
    return -(-total // size) if size else min(total, 1)


def _bitset(bits: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(bits, bitorder="little").tobytes().ljust(_CHUNK // 8, b"\0")


def _from_arrays(low: npt.NDArray[np.uint16], counts: npt.NDArray[np.int64]) -> BitMap:
    """Make a bitmap from the low halves of ascending rows and their counts by high half, all of them small."""
    highs = np.flatnonzero(counts)
    counts = counts[highs]
    header = np.empty((len(highs), 2), "<u2")
    header[:, 0], header[:, 1] = highs, counts - 1
    offsets = (8 + 8 * len(highs) + 2 * (np.cumsum(counts) - counts)).astype("<u4")
    start = struct.pack("<II", _COOKIE_NO_RUNS, len(highs))
    return BitMap.deserialize(b"".join((start, header.tobytes(), offsets.tobytes(), low.tobytes())))


def _assemble(containers: list[tuple[int, int, bytes]]) -> BitMap:
    """Make a bitmap of containers, each a tuple of its high half, its number of rows, and its body."""
    if not containers:
        return BitMap()
    header = bytearray(struct.pack("<II", _COOKIE_NO_RUNS, len(containers)))
    offsets = bytearray()
    at = 8 + 8 * len(containers)
    for high, count, body in containers:
        header += struct.pack("<HH", high, count - 1)
        offsets += struct.pack("<I", at)
        at += len(body)
    return BitMap.deserialize(b"".join((header, offsets, *(body for _, _, body in containers))))


def nbytes(rows: BitMap) -> int:
    """Estimate the bytes of a bitmap in memory."""
    statistics = rows.get_statistics()
    container_bytes = (
        statistics["n_bytes_array_containers"]
        + statistics["n_bytes_run_containers"]
        + statistics["n_bytes_bitset_containers"]
    )
    return int(64 + 16 * statistics["n_containers"] + container_bytes)


def max_bytes(total: int) -> int:
    """Return the most bytes of a serialised bitmap of row numbers below ``total``, in any kind of containers."""
    return _HEAD_BYTES + -(-total // _CHUNK) * _CONTAINER_BYTES


def load(data: memoryview, total: int, count: int) -> BitMap:
    """Deserialise a bitmap that must have ``count`` rows, all below ``total``.

    Raises:
        ValueError: if it does not, or if the bytes are not a portable roaring bitmap.
    """
    if len(data) < 8:
        raise ValueError(f"a bitmap of {len(data)} bytes is too short")
    try:
        rows = BitMap.deserialize(bytes(data))
    except (ValueError, IndexError) as error:
        raise ValueError(f"a bitmap cannot be read ({error})") from error
    if len(rows) != count:
        raise ValueError(f"a bitmap holds {len(rows)} rows and {count} are expected")
    if count and rows.max() >= total:
        raise ValueError(f"a bitmap holds row {rows.max()} of {total}")
    return rows
