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
    starts_of,
    stream_end,
    unaligned,
    wanted_counts,
)

#: A varint of 64 bits has at most this many bytes, one of 128 bits at most that many.
MOST_BYTES = 10
_MOST_BYTES_128 = 19

#: Where each of more than so few groups wants no value behind so many, they are searched together; first in as
#: many bytes as so many values mostly have.
_FEW = 8
_NEAR = 256
_TYPICAL_BYTES = 6

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


def _extents(starts: Ints, limits: Ints, wanted: Ints) -> Ints:
    """Where even the longest of the wanted values must have ended."""
    bounds: Ints = np.minimum(limits, starts + wanted * _MOST_BYTES_128)
    return bounds


def _missing(start: int, bound: int, limit: int) -> OrcError:
    """The error of a group that does not have its values before ``bound``."""
    if bound < limit:
        return OrcError(f"a decimal after byte {start} has more than 128 bits: the stream is corrupt")
    return stream_end(limit)


def _ends_of(buf: Bytes, start: int, bound: int, ranks: Ints) -> tuple[Ints, Ints] | None:
    """Positions of the 64-bit words that hold some varints' last bytes, and which of the word's ends each is.

    :param ranks: int64[N], numbers of the varints, counted from the one at ``start``.
    :returns: None if there are not so many before ``bound``.
    """
    words = np.frombuffer(buf, "<u8", (bound - start + 7) >> 3, start)
    ends = np.bitwise_count(~words & _ENDS)
    total = np.cumsum(ends, dtype=np.int64)
    word = np.searchsorted(total, ranks, side="right")
    if int(word.max()) >= len(total):
        return None
    return start + (word << 3), ranks - total[word] + ends[word]


def _ends_together(buf: Bytes, starts: Ints, group: Ints, ranks: Ints, word: Ints, number: Ints) -> Ints:
    """Fill in what :func:`_ends_of` gives for groups whose values are short and few.

    :param group: int64[N], which group each of ``ranks`` belongs to.
    :returns: the groups for which that was not enough.
    """
    width = (int(ranks.max() + 1) * _TYPICAL_BYTES + 7) >> 3
    view = unaligned(buf, "<u8")
    at = np.minimum(starts[:, None] + 8 * np.arange(width), len(view) - 1)
    ends = np.bitwise_count(~view[at] & _ENDS)
    total = np.cumsum(ends, axis=1, dtype=np.int32)
    column = np.count_nonzero(total[group] <= ranks[:, None], axis=1)
    inside = column < width
    column[~inside] = 0
    word[:] = at[group, column]
    number[:] = ranks - total[group, column] + ends[group, column]
    return np.unique(group[~inside])


def _pick_ends(buf: Bytes, word: Ints, number: Ints) -> Ints:
    """The byte that is end ``number[i]`` of the eight bytes at ``word[i]``, for all i."""
    ends = ~unaligned(buf, "<u8")[word].astype(np.uint64) & _ENDS
    for skipped in range(int(number.max())):
        np.bitwise_and(ends, ends - _U1, out=ends, where=number > skipped)
    lowest = np.frexp((ends & (~ends + _U1)).astype(np.float64))[1] >> 3
    picked: Ints = word + lowest - 1
    return picked


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
    check_groups(buf, starts, limits, wanted)
    if not len(ordinals):
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    first, last = _locate(buf, starts, limits, ordinals, offsets, wanted)
    return _decimals(buf, first, last)


def starts_at(buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints) -> Ints:
    """Where the decimals at some ordinals of each group begin; arguments as for :func:`gather_decimal`."""
    wanted = wanted_counts(ordinals, offsets)
    check_groups(buf, starts, limits, wanted)
    if not len(ordinals):
        return np.zeros(0, np.int64)
    return _locate(buf, starts, limits, ordinals, offsets, wanted)[0]


def _locate(
    buf: Bytes, starts: Ints, limits: Ints, ordinals: Ints, offsets: Ints, wanted: Ints
) -> tuple[Ints, Ints]:
    """The first and the last byte of each wanted value."""
    bounds = _extents(starts, limits, wanted)
    # A value begins after the one before it; what stands for the first one's is corrected below.
    ranks = np.concatenate((np.maximum(ordinals - 1, 0), ordinals))
    word = np.empty(len(ranks), np.int64)
    number = np.empty(len(ranks), np.int64)
    far = np.flatnonzero(wanted)
    if len(far) > _FEW and int(wanted.max()) <= _NEAR:
        group = np.tile(np.repeat(np.arange(len(starts)), np.diff(offsets)), 2)
        far = _ends_together(buf, starts, group, ranks, word, number)
    for g in far.tolist():
        mine = np.r_[offsets[g] : offsets[g + 1]]
        mine = np.concatenate((mine, mine + len(ordinals)))
        start, bound, limit = int(starts[g]), int(bounds[g]), int(limits[g])
        found = _ends_of(buf, start, bound, ranks[mine]) if bound > start else None
        if found is None:
            raise _missing(start, bound, limit)
        word[mine], number[mine] = found
    before, last = _pick_ends(buf, word, number).reshape(2, -1)
    sizes = np.diff(offsets)
    over = last >= np.repeat(bounds, sizes)
    if over.any():
        bad = int(np.searchsorted(offsets, np.argmax(over), side="right")) - 1
        raise _missing(int(starts[bad]), int(bounds[bad]), int(limits[bad]))
    return np.where(ordinals == 0, np.repeat(starts, sizes), before + 1), last


def decode_decimal(buf: Bytes, starts: Ints, limits: Ints, counts: Ints) -> tuple[Words, Ints]:
    """The first ``counts[g]`` unscaled decimals of each group, concatenated.

    :returns: low words uint64[N] and high words int64[N] of 128-bit two's complement numbers.
    :raises OrcError: if a value is missing or has more than 128 bits.
    """
    check_groups(buf, starts, limits, counts)
    if bool(np.any(counts > limits - starts)):
        raise stream_end(int(limits[np.argmax(counts > limits - starts)]))
    used = counts > 0
    starts, limits, counts = starts[used], limits[used], counts[used]
    bounds = _extents(starts, limits, counts)
    ends = VarintEnds(buf, starts, bounds)
    missing = np.searchsorted(ends.positions, bounds) - ends.first_rank < counts
    if missing.any():
        group = int(np.argmax(missing))
        raise _missing(int(starts[group]), int(bounds[group]), int(limits[group]))
    last = ends.positions[np.repeat(ends.first_rank, counts) + ragged(counts)]
    first = np.empty_like(last)
    first[1:] = last[:-1] + 1
    first[starts_of(counts)[:-1]] = starts
    return _decimals(buf, first, last)
