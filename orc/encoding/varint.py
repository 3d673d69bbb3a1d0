"""Base-128 varints, and the DATA stream of decimals that is made of them.

Source: ORC specification v1, "Base 128 Varint" and "Decimal Columns". Seven bits a byte, least significant
first; the top bit says that another byte follows. Decimals are zigzag varints of up to 128 bits.
"""

from __future__ import annotations

import numpy as np

from hindex.errors import OrcError
from hindex.orc.encoding.buffers import (
    Bytes,
    Ints,
    Words,
    check_groups,
    ragged,
    stream_end,
    unaligned,
    wanted_counts,
)

#: A varint of 64 bits has at most this many bytes, one of 128 bits at most that many.
MOST_BYTES = 10
_MOST_BYTES_128 = 19

_ENDS = np.uint64(0x8080808080808080)
_U1, _U2, _U63 = np.uint64(1), np.uint64(2), np.uint64(63)


def _squeeze(words: Words) -> Words:
    """56 bits of eight 7-bit groups, one in each byte (top bits already clear)."""
    pairs = (words & np.uint64(0x007F007F007F007F)) | ((words & np.uint64(0x7F007F007F007F00)) >> _U1)
    quads = (pairs & np.uint64(0x00003FFF00003FFF)) | (
        (pairs & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2)
    )
    return (quads & np.uint64(0xFFFFFFF)) | ((quads & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


def _bits(buf: Bytes, at: Ints, sizes: Ints) -> Words:
    """The up to 56 bits of the first eight bytes of varints that begin at ``at`` and have ``sizes`` bytes."""
    words = unaligned(buf, "<u8")[at].astype(np.uint64)
    words &= np.uint64(0x7F7F7F7F7F7F7F7F)
    unused = np.maximum(8 - sizes, 0).astype(np.uint64) << np.uint64(3)
    words <<= unused
    words >>= unused
    return _squeeze(words)


def varint_bits(buf: Bytes, at: Ints, sizes: Ints) -> Words:
    """The low 64 bits of varints of known ``sizes`` (1 or more bytes) that begin at ``at``."""
    values = _bits(buf, at, sizes)
    long = np.flatnonzero(sizes > 8)
    if len(long):
        rest = _bits(buf, at[long] + 8, np.minimum(sizes[long] - 8, 8))
        values[long] |= rest << np.uint64(56)
    return values


def read_varints(buf: Bytes, at: Ints) -> tuple[Words, Ints]:
    """The 64-bit varints that begin at each of ``at``, and how many bytes each has.

    :raises OrcError: if one has more than ten bytes.
    """
    ends = ~unaligned(buf, "<u8")[at].astype(np.uint64) & _ENDS
    # The lowest end bit, at 8 * size - 1: its power of two is exact as a float.
    sizes = (np.frexp((ends & (~ends + _U1)).astype(np.float64))[1] >> 3).astype(np.int64)
    for i in np.flatnonzero(ends == 0):
        first = int(at[i])
        tail = buf[first + 8 : first + MOST_BYTES] < 0x80
        if not tail.any():
            raise too_long(first, MOST_BYTES)
        sizes[i] = 9 + int(np.argmax(tail))
    return varint_bits(buf, at, sizes), sizes


def too_long(at: int, most: int) -> OrcError:
    """The error of a varint that has more bytes than its type allows."""
    return OrcError(f"the varint at byte {at} has more than {most} bytes: the stream is corrupt")


class VarintEnds:
    """The last bytes of all varints in the byte ranges of some groups; every byte below 0x80 ends one.

    ``positions``: int64[n], sorted. ``first_rank``: int64[G], the first of them at or after each start.
    """

    __slots__ = ("first_rank", "positions")

    def __init__(self, buf: Bytes, starts: Ints, limits: Ints) -> None:
        pieces = []
        if len(starts):
            order = np.argsort(starts, kind="stable")
            lows, highs = starts[order], np.maximum.accumulate(limits[order])
            # Overlapping or touching ranges are searched once.
            breaks = np.flatnonzero(lows[1:] > highs[:-1]) + 1
            for low, high in zip(
                lows[np.concatenate(([0], breaks))].tolist(),
                highs[np.concatenate((breaks - 1, [len(highs) - 1]))].tolist(),
                strict=True,
            ):
                pieces.append(np.flatnonzero(buf[low:high] < 0x80) + low)
        self.positions: Ints = np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
        self.first_rank: Ints = np.searchsorted(self.positions, starts).astype(np.int64)


def _decimals(buf: Bytes, first: Ints, last: Ints) -> tuple[Words, Ints]:
    """Values whose varints have their first and last bytes there, as two's complement words."""
    sizes = last - first + 1
    if len(sizes) and int(sizes.max()) > 9:
        return _wide_decimals(buf, first, sizes)
    zigzag = varint_bits(buf, first, sizes)
    sign = np.negative(zigzag & _U1)
    return (zigzag >> _U1) ^ sign, sign.view(np.int64)


def _wide_decimals(buf: Bytes, first: Ints, sizes: Ints) -> tuple[Words, Ints]:
    low = varint_bits(buf, first, sizes)
    high = np.zeros(len(low), np.uint64)
    # 18 bytes hold 126 bits; the nineteenth holds the last two.
    bad = sizes > _MOST_BYTES_128
    widest = sizes == _MOST_BYTES_128
    bad[widest] |= buf[first[widest] + 18] > 3
    if bad.any():
        raise OrcError(
            f"the decimal at byte {first[int(np.argmax(bad))]} has more than 128 bits: the stream is corrupt"
        )
    ten = np.flatnonzero(sizes >= 10)
    # The tenth byte straddles the words: one bit below, six above.
    high[ten] = (buf[first[ten] + 9].astype(np.uint64) & np.uint64(0x7F)) >> _U1
    more = np.flatnonzero(sizes > 10)
    high[more] |= _bits(buf, first[more] + 10, sizes[more] - 10) << np.uint64(6)
    most = np.flatnonzero(sizes > 18)
    high[most] |= buf[first[most] + 18].astype(np.uint64) << np.uint64(62)
    sign = np.negative(low & _U1)
    low = ((low >> _U1) | (high << _U63)) ^ sign
    high = (high >> _U1) ^ sign
    return low, high.view(np.int64)


def _locate(
    buf: Bytes, starts: Ints, limits: Ints, wanted: Ints, ordinals: Ints, sizes: Ints
) -> tuple[Words, Ints]:
    """Decimals at ``ordinals``, of which the groups have ``sizes`` each."""
    check_groups(buf, starts, limits, wanted)
    used = wanted > 0
    if not used.all():
        starts, limits, wanted, sizes = starts[used], limits[used], wanted[used], sizes[used]
    # Where even the longest values must have ended.
    bounds = np.minimum(limits, starts + wanted * _MOST_BYTES_128)
    ends = VarintEnds(buf, starts, bounds)
    have = np.searchsorted(ends.positions, bounds) - ends.first_rank
    if bool(np.any(have < wanted)):
        group = int(np.argmax(have < wanted))
        if bounds[group] < limits[group]:
            raise OrcError(
                f"a decimal after byte {starts[group]} has more than 128 bits: the stream is corrupt"
            )
        raise stream_end(int(limits[group]))
    if not len(ordinals):
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    rank = ordinals + np.repeat(ends.first_rank, sizes)
    first = ends.positions[rank - 1] + 1
    zero = ordinals == 0
    first[zero] = np.repeat(starts, sizes)[zero]
    return _decimals(buf, first, ends.positions[rank])


def gather_decimal(
    buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints
) -> tuple[Words, Ints]:
    """The unscaled decimals at some ordinals of each group.

    :param starts: int64[G], byte where each group's first value begins.
    :param limits: int64[G], exclusive byte bound of each group.
    :param ordinals: int64[N], value numbers within their group, non-decreasing in each group.
    :param offsets: int64[G + 1]; group g wants ``ordinals[offsets[g]:offsets[g + 1]]``.
    :returns: low words uint64[N] and high words int64[N] of 128-bit two's complement numbers.
    :raises OrcError: if a value is missing or has more than 128 bits.
    """
    wanted = wanted_counts(ordinals, offsets)
    return _locate(buf, starts, limits, wanted, ordinals, np.diff(offsets))


def decode_decimal(buf: Bytes, starts: Ints, limits: Ints, counts: Ints) -> tuple[Words, Ints]:
    """The first ``counts[g]`` unscaled decimals of each group, concatenated.

    :returns: low words uint64[N] and high words int64[N] of 128-bit two's complement numbers.
    :raises OrcError: if a value is missing or has more than 128 bits.
    """
    check_groups(buf, starts, limits, counts)
    if bool(np.any(counts > limits - starts)):
        raise stream_end(int(limits[np.argmax(counts > limits - starts)]))
    return _locate(buf, starts, limits, counts, ragged(counts), counts)
