"""Hashes of keys: the two 64-bit halves of MurmurHash3 x64-128 with seed 0, for many keys at once.

An INT64 key is hashed as its eight bytes, little-endian; a BYTES key as it is. Source: MurmurHash3.cpp by
Austin Appleby, ``MurmurHash3_x64_128``.
"""

from __future__ import annotations

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

UInt64s = npt.NDArray[np.uint64]

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_WORD = np.uint64(8)
#: Keys that become Python objects at once.
_BLOCK = 1 << 16


def hash_integers(keys: npt.NDArray[np.int64]) -> tuple[UInt64s, UInt64s]:
    """Both halves of the hash of each key.

    Eight bytes are less than a block of the algorithm: only its tail and its end are left of it, with no second word.
    """
    word = np.ascontiguousarray(keys, np.int64).view(np.uint64) * _C1
    word = (word << np.uint64(31)) | (word >> np.uint64(33))
    word *= _C2
    first = word ^ _WORD
    second = np.full(len(word), _WORD)
    first += second
    second += first
    first, second = _mixed(first), _mixed(second)
    first += second
    second += first
    return first, second


def hash_bytes(keys: pa.LargeBinaryArray) -> tuple[UInt64s, UInt64s]:
    """Both halves of the hash of each key, none of which is null."""
    digests = b"".join(
        b"".join(map(mmh3.mmh3_x64_128_digest, keys.slice(at, _BLOCK).to_pylist()))
        for at in range(0, len(keys), _BLOCK)
    )
    halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
    return halves[:, 0].astype(np.uint64), halves[:, 1].astype(np.uint64)


def _mixed(value: UInt64s) -> UInt64s:
    value = value ^ (value >> np.uint64(33))
    value *= _MIX1
    value ^= value >> np.uint64(33)
    value *= _MIX2
    return value ^ (value >> np.uint64(33))
