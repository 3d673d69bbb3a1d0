"""Bit-packed values: the blob of direct runs, and the same bits inside the other sub-encodings.

Source: ORC specification v1, "Direct": values of one width follow each other without gaps, the most
significant bit first, and the blob ends at a whole byte.
"""

from __future__ import annotations

import numpy as np

from hindex.orc.encoding.buffers import Bytes, Ints, Words, ragged, starts_of, unaligned

#: Runs of at least this many blocks of eight values on average are copied together before they are unpacked.
_LONG_BLOCKS = 12
#: Blocks of eight values unpacked at a time: input, output and scratch then stay in the processor's cache.
_SLICE = 4096

_U64 = np.uint64
_MASKS: Words = np.array([(1 << n) - 1 for n in range(65)], np.uint64)


def bits_at(buf: Bytes, bit: Ints, width: Ints) -> Words:
    """The numbers of ``width`` bits (1 to 64) that begin at each bit position.

    :param bit: int64[N]; a number must not touch more than eight bytes.
    """
    words: Words = unaligned(buf, ">u8")[bit >> 3].astype(np.uint64)
    words >>= (64 - width - (bit & 7)).astype(np.uint64)
    words &= _MASKS[width]
    return words


def unpack(buf: Bytes, data: Ints, width: Ints, count: Ints) -> Words:
    """All values of some blobs, concatenated.

    :param data: int64[R], byte where each blob begins.
    :param width: int64[R], bits of each one's values, 1 to 64.
    :param count: int64[R], number of values of each.
    """
    if not len(data):
        return np.zeros(0, np.uint64)
    blocks = (count + 7) >> 3
    if int(width.min()) == int(width.max()):
        padded = _blocks(buf, data, blocks, int(width[0]))
    else:
        rows = starts_of(blocks)
        padded = np.empty((int(rows[-1]), 8), np.uint64)
        for bits in np.flatnonzero(np.bincount(width)).tolist():
            chosen = np.flatnonzero(width == bits)
            size = blocks[chosen]
            padded[np.repeat(rows[chosen], size) + ragged(size)] = _blocks(buf, data[chosen], size, bits)
    values = padded.reshape(-1)
    spare = -count & 7
    if not spare.any():
        return values
    if len(count) == 1:
        return values[: int(count[0])]
    keep = np.ones(len(values), np.bool_)
    keep[np.repeat((starts_of(blocks)[1:] << 3) - spare, spare) + ragged(spare)] = False
    return values[keep]


def _blocks(buf: Bytes, data: Ints, blocks: Ints, width: int) -> Words:
    """uint64[sum(blocks), 8]: as many blocks of eight values (``width`` bytes) as told from each position."""
    total = int(blocks.sum())
    out = np.empty((total, 8), np.uint64)
    if total >= _LONG_BLOCKS * len(blocks):
        view = buf.data
        ends = data + blocks * width
        pieces: list[memoryview | bytes]
        pieces = [view[low:high] for low, high in zip(data.tolist(), ends.tolist(), strict=True)]
        # A last block may end beyond the buffer; what is missing there is dropped later.
        for i in np.flatnonzero(ends > len(buf)).tolist():
            pieces[i] = bytes(pieces[i]) + bytes(int(ends[i]) - len(buf))
        pieces.append(bytes(8))
        joined = np.frombuffer(b"".join(pieces), np.uint8)
        for low in range(0, total, _SLICE):
            _unpack_joined(joined, low, out[low : low + _SLICE], width)
    else:
        at = np.repeat(data, blocks) + ragged(blocks) * width
        _unpack_scattered(buf, at, out, width)
    return out


def _unpack_joined(joined: Bytes, low: int, out: Words, width: int) -> None:
    """Unpack consecutive blocks, from block ``low`` on, until ``out`` is full."""
    if width in (8, 16, 32, 64):
        whole = np.frombuffer(joined, f">u{width // 8}", out.size, low * width)
        out[...] = whole.reshape(out.shape)
        return
    mask = _MASKS[width]
    for j in range(8):
        byte, bit = divmod(j * width, 8)
        words = np.ndarray((len(out),), ">u8", joined, low * width + byte, (width,)).astype(np.uint64)
        words >>= _U64(64 - width - bit)
        words &= mask
        out[:, j] = words


def _unpack_scattered(buf: Bytes, at: Ints, out: Words, width: int) -> None:
    """Unpack the block at each of ``at``."""
    words = unaligned(buf, ">u8")
    mask = _MASKS[width]
    if width <= 8:
        shifts = np.arange(64 - width, 64 - 9 * width, -width).astype(np.uint64)
        np.right_shift(words[at].astype(np.uint64)[:, None], shifts, out=out)
        out &= mask
        return
    last = len(words) - 1
    for j in range(8):
        byte, bit = divmod(j * width, 8)
        value = words[np.minimum(at + byte, last)].astype(np.uint64)
        value >>= _U64(64 - width - bit)
        value &= mask
        out[:, j] = value
