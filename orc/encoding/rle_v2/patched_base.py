"""Patched base runs: small distances from a base value, with the missing high bits of a few in a patch list.

Source: ORC specification v1, "Patched Base". The base value is big-endian with its sign in the top bit,
whether the stream is signed or not; distances and patches are unsigned. An entry of the patch list is the gap
to the value that it patches, counted from the last one, and the bits to put above that value's. A gap of more
than 255 is made of entries with gap 255 and an empty patch, which change nothing where they point at.

Of lists that no writer makes, the same becomes as in Java's and the C++ reader: patches of values of 64 bits are
shifted by 64 modulo 64; and where one points at the place of the one before, neither it nor any behind it is reached.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, Words, ragged, starts_of, unaligned
from hindex.orc.encoding.rle_v2 import headers, packed

#: More than the highest place in a run that a patch list can reach (31 gaps of up to 255).
_PLACES = 1 << 13

#: The gap of an entry that only leads on to the next one.
_FILLING = 255
#: Of how far a patch is shifted, as many bits count.
_MOST_SHIFT = 63


def _bases(buf: Bytes, at: Ints, base_size: Ints) -> Words:
    bits = base_size << 3
    raw = packed.bits_at(buf, at << 3, bits)
    sign = np.uint64(1) << (bits - 1).astype(np.uint64)
    negative = (raw & sign) != 0
    raw &= ~sign
    np.negative(raw, out=raw, where=negative)
    return raw


def _patches(buf: Bytes, at: Ints, detail: Ints, shift: Ints) -> tuple[Ints, Words]:
    """The patches of all runs: sorted keys ``run * _PLACES + place``, and the bits to set there.

    :param at: int64[R], where the patch lists begin.
    :param detail: int64[R], the runs' third and fourth bytes as a pair.
    :param shift: int64[R], width of the runs' packed values.
    """
    count = headers.PATCHES[detail]
    run = np.repeat(np.arange(len(at)), count)
    width = headers.ENTRY_WIDTH[detail][run]
    entry = packed.bits_at(buf, (at[run] << 3) + ragged(count) * width, width)
    patch_width = headers.PATCH_WIDTH[detail][run]
    # Bits above gap and patch are the filling up to the next width of the table.
    gap_width = headers.GAP_WIDTH[detail][run]
    gap = ((entry >> patch_width.astype(np.uint64)).view(np.int64)) & ((1 << gap_width) - 1)
    patch = entry & ((np.uint64(1) << patch_width.astype(np.uint64)) - np.uint64(1))
    reached = starts_of(gap)
    place = reached[1:] - reached[starts_of(count)[:-1]][run]
    chosen = np.flatnonzero((patch != 0) | (gap != _FILLING))
    keys: Ints = (run * _PLACES + place)[chosen]
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    if len(again):
        ends = np.full(len(at), len(keys))
        np.minimum.at(ends, run[chosen[again]], again)
        is_reached = np.arange(len(keys)) < ends[run[chosen]]
        chosen, keys = chosen[is_reached], keys[is_reached]
    bits: Words = np.left_shift(patch[chosen], (shift[run[chosen]] & _MOST_SHIFT).astype(np.uint64))
    return keys, bits


def values_in(buf: Bytes, at: Ints, pair: Ints, run: Ints, index: Ints) -> Ints:
    """Value ``index[i]`` of run ``run[i]``, for all i.

    :param at: int64[R], where the patched runs' headers begin.
    :param pair: int64[R], their headers.
    """
    width = headers.WIDTH[pair]
    detail = unaligned(buf, ">u2")[at + 2].astype(np.int64)
    base_size = headers.BASE_SIZE[detail]
    data = at + 4 + base_size
    values = packed.bits_at(buf, (data[run] << 3) + index * width[run], width[run])
    keys, patches = _patches(buf, data + ((headers.COUNT[pair] * width + 7) >> 3), detail, width)
    if len(keys):
        wanted = run * _PLACES + index
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = np.flatnonzero(keys[found] == wanted)
        values[hit] |= patches[found[hit]]
    values += _bases(buf, at + 4, base_size)[run]
    return values.view(np.int64)


def decode(buf: Bytes, at: Ints, pair: Ints, count: Ints) -> Ints:
    """The first ``count[r]`` values of each run, concatenated."""
    return values_in(buf, at, pair, np.repeat(np.arange(len(at)), count), ragged(count))
