"""Leaf pages of a BITMAP index: sorted keys, each with its rows inline or a pointer to a bitmap page outside.

The bytes are specified in ``docs/format.md``, "Leaf page". Blocks, in order: the header, the keys, the
counts, the first inline row of each key, the gaps between the other inline rows, the pointers.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from hindex.index.index_file import Buffer, Page, PageRef, byte_width, split_bytes
from hindex.value_class import value_class

_HEADER = struct.Struct("<IIqQBBBBB")
_OVERFLOW = np.dtype([("key", "<u4"), ("offset", "<u8"), ("length", "<u4"), ("crc32c", "<u4")])

_FIRSTS_ABSOLUTE = 0
_FIRSTS_DELTA = 1
#: The most keys of a leaf.
MAX_KEYS = 1 << 20
#: The most bytes of all keys of a leaf; a single key may be as long as any value.
MAX_KEY_BYTES = 1 << 20
# deltas must be shorter than row numbers by this many bits to be worth the prefix sum
_DELTA_GAIN = 2.0

Int64s = npt.NDArray[np.int64]
UInt32s = npt.NDArray[np.uint32]


@value_class
class ByteKeys:
    """Byte keys in one buffer: key ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Int64s
    data: Buffer

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        return bytes(self.data[self.offsets[number] : self.offsets[number + 1]])

    def part(self, start: int, end: int) -> ByteKeys:
        """Return the keys from ``start`` to ``end`` (exclusive)."""
        low, high = int(self.offsets[start]), int(self.offsets[end])
        return ByteKeys(self.offsets[start : end + 1] - low, memoryview(self.data)[low:high])


@value_class
class OverflowRows:
    """A key of a leaf whose ``count`` rows are a bitmap page of their own."""

    count: int
    page: PageRef


def encode(
    keys: Int64s | ByteKeys, counts: Int64s, rows: UInt32s, outside: dict[int, PageRef]
) -> list[Buffer]:
    """Encode a leaf page as blocks.

    Args:
        counts: the number of rows of each key.
        rows: the rows of the keys that are not ``outside``, in key order, ascending within a key.
        outside: the bitmap pages by the key's number in this leaf.
    """
    if isinstance(keys, ByteKeys):
        lengths = (keys.offsets[1:] - keys.offsets[:-1]).astype(np.uint32)
        first_key, key_width = len(keys.data), byte_width(lengths)
        key_blocks: list[Buffer] = [*split_bytes(lengths, key_width), keys.data]
    else:
        words = keys.view(np.uint64)
        steps = np.zeros(len(words), np.uint64)
        steps[1:] = words[1:] - words[:-1] - np.uint64(1)
        first_key, key_width = int(keys[0]), byte_width(steps)
        key_blocks = list(split_bytes(steps, key_width))
    more = (counts - 1).astype(np.uint64)
    count_width = byte_width(more)
    inline = counts
    if outside:
        inline = counts.copy()
        inline[list(outside)] = 0
        inline = inline[inline > 0]
    starts = np.cumsum(inline) - inline
    firsts, mode = _encode_firsts(rows[starts])
    between = np.diff(rows, prepend=np.uint32(0)) - np.uint32(1)
    inner = np.ones(len(rows), np.bool_)
    inner[starts] = False
    gaps = between[inner]
    first_width, gap_width = byte_width(firsts), byte_width(gaps)
    header = _HEADER.pack(
        len(counts), len(outside), first_key, len(rows), key_width, count_width, mode, first_width, gap_width
    )
    pointers = np.zeros(len(outside), _OVERFLOW)
    for at, (number, page) in enumerate(sorted(outside.items())):
        pointers[at] = (number, page.offset, page.length, page.crc32c)
    return [
        header,
        *key_blocks,
        *split_bytes(more, count_width),
        *split_bytes(firsts, first_width),
        *split_bytes(gaps, gap_width),
        *([pointers.tobytes()] if outside else []),
    ]


def _encode_firsts(firsts: UInt32s) -> tuple[UInt32s, int]:
    """Encode the first rows as they are, or as zigzag deltas if those are shorter; return them and the mode."""
    steps = firsts.astype(np.int64)
    steps[1:] -= steps[:-1].copy()
    folded = ((steps << 1) ^ (steps >> 63)).astype(np.uint64)
    sample = slice(None, None, max(1, len(firsts) // 256))
    gain = np.log2(firsts[sample] + 1.0) - np.log2(folded[sample] + 1.0)
    # a folded difference of two 32-bit numbers may need 33 bits
    if len(firsts) and gain.mean() > _DELTA_GAIN and int(folded.max()) < 1 << 32:
        return folded.astype(np.uint32), _FIRSTS_DELTA
    return np.ascontiguousarray(firsts), _FIRSTS_ABSOLUTE


def shift_overflow_pages(page: Page, shift: int) -> list[Buffer] | None:
    """Return the blocks of a leaf page after its overflow pages moved by ``shift`` bytes; None if it has none.

    Raises:
        IndexFileError: if the page is inconsistent.
    """
    outside = _HEADER.unpack(page.block(0, _HEADER.size))[1]
    if not outside:
        return None
    blocks: list[Buffer] = [page.block(number) for number in range(len(page) - 1)]
    pointers = np.frombuffer(page.block(len(page) - 1, outside * _OVERFLOW.itemsize), _OVERFLOW).copy()
    pointers["offset"] += np.uint64(shift)
    return [*blocks, pointers.tobytes()]
