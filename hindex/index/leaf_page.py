"""Leaf pages of a BITMAP index: sorted keys with their rows inline, or a pointer to a bitmap outside.

The bytes are specified in ``docs/format.md``, "Leaf page". Blocks, in order: the header, the keys, the
counts, the first inline row of each key, the gaps between the other inline rows, the pointers.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key, Range, RangeArray, concatenate_ranges, integer_arrays
from hindex.index.index_file import Buffer, Page, PageRef, byte_width, split_bytes
from hindex.keys import KeyArray, KeyKind
from hindex.orc import kernel
from hindex.orc.decode.arrow_arrays import bool_array

_HEADER = struct.Struct("<IIqQBBBBB")
_OVERFLOW = np.dtype([("key", "<u4"), ("offset", "<u8"), ("length", "<u4"), ("crc32c", "<u4")])

_FIRSTS_ABSOLUTE = 0
_FIRSTS_DELTA = 1
#: Greatest number of a leaf's keys and of its inline rows, which are decoded at once.
MAX_KEYS = 1 << 20
MAX_INLINE_ROWS = 1 << 20
#: Most bytes that its keys have together, where it has more than one: a single one may be as long as values are.
MAX_KEY_BYTES = 1 << 20
# a delta must be shorter than the row number by this many bits to be worth the prefix sum
_DELTA_GAIN = 2.0
#: More byte keys than this are looked up in a leaf as a set.
_FEW_KEYS = 16

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32 | np.int64]
UInt32s = npt.NDArray[np.uint32]
#: Byte planes of an array of numbers: width, then count.
Planes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ByteKeys:
    """Bytes keys in one buffer: key ``i`` is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Int64s
    data: Buffer

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        return bytes(self.data[self.offsets[number] : self.offsets[number + 1]])

    def part(self, start: int, end: int) -> ByteKeys:
        """Return keys ``start`` to ``end`` (exclusive)."""
        low, high = int(self.offsets[start]), int(self.offsets[end])
        return ByteKeys(self.offsets[start : end + 1] - low, memoryview(self.data)[low:high])


@dataclass(frozen=True, slots=True)
class OverflowRows:
    """A key of a leaf whose ``count`` rows are a bitmap page of their own."""

    count: int
    page: PageRef


def encode(
    keys: Int64s | ByteKeys, counts: Int64s, rows: UInt32s, outside: dict[int, PageRef]
) -> list[Buffer]:
    """Encode a leaf page as blocks.

    Args:
        counts: rows of each key.
        rows: the rows of the keys that are not ``outside``, in key order, ascending within a key.
        outside: bitmap pages by the key's number in this leaf.
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
        IndexFileError: if the page contradicts itself.
    """
    outside = _HEADER.unpack(page.block(0, _HEADER.size))[1]
    if not outside:
        return None
    blocks: list[Buffer] = [page.block(number) for number in range(len(page) - 1)]
    pointers = np.frombuffer(page.block(len(page) - 1, outside * _OVERFLOW.itemsize), _OVERFLOW).copy()
    pointers["offset"] += np.uint64(shift)
    return [*blocks, pointers.tobytes()]


class LeafPage:
    """A decoded leaf page. Its rows stay packed.

    Args:
        total: rows of the stripe.

    Raises:
        IndexFileError: if the page contradicts itself or the directory (``key_count``, ``row_count``).
    """

    def __init__(self, page: Page, kind: KeyKind, *, total: int, key_count: int, row_count: int) -> None:
        self._page = page
        self._total = total
        header = page.block(0, _HEADER.size)
        (
            count,
            overflow_count,
            first_key,
            self._inline,
            key_width,
            count_width,
            self._mode,
            first_width,
            gap_width,
        ) = _HEADER.unpack(header)
        if count != key_count or overflow_count > count or self._inline > row_count:
            raise page.error("it does not hold the keys and rows of its directory entry")
        if count > MAX_KEYS or self._inline > MAX_INLINE_ROWS:
            raise page.error(f"it claims {count} keys and {self._inline} inline rows")
        if key_width > 8 or count_width > 4 or first_width > 4 or gap_width > 4:
            raise page.error("an integer wider than its field is promised")
        if self._mode not in (_FIRSTS_ABSOLUTE, _FIRSTS_DELTA):
            raise page.error(f"mode {self._mode} of first rows is unknown")
        self._at = 1
        self.keys: Int64s | ByteKeys
        if kind is KeyKind.INT64:
            self.keys = self._integer_keys(count, first_key, key_width)
        else:
            self.keys = self._byte_keys(count, first_key, key_width)
        # a count has at most four bytes, so the sum cannot wrap
        ends = np.zeros(count + 1, np.int64)
        kernel.sum_planes(self._planes(count_width, count), 0, ends[1:])
        if int(ends[-1]) != row_count:
            raise page.error("its counts do not add up to its directory entry")
        self._firsts_at, self._first_width, self._gap_width = self._at, first_width, gap_width
        self._at += first_width + gap_width
        self._pointers = np.frombuffer(
            page.block(self._at, overflow_count * _OVERFLOW.itemsize) if overflow_count else b"", _OVERFLOW
        )
        if len(page) != self._at + (1 if overflow_count else 0):
            raise page.error(f"it has {len(page)} blocks")
        #: Ordinals of the keys whose rows are overflow pages, ascending.
        self.overflow_keys: Int64s = self._pointers["key"].astype(np.int64)
        self._counts: Int64s | None = None
        if overflow_count:
            numbers = self.overflow_keys
            if int(numbers.max()) >= count or bool((np.diff(numbers) <= 0).any()):
                raise page.error("its pointers are not in order")
            self._counts = np.diff(ends)
            inline = self._counts.copy()
            inline[numbers] = 0
            np.cumsum(inline, out=ends[1:])
        if int(ends[-1]) != self._inline:
            raise page.error("its inline rows do not add up")
        # thousands of leaves are cached, and 32 bits hold the number of inline rows
        self._starts: Int32s = ends.astype(np.int32)

    @property
    def counts(self) -> Ints:
        """Return the number of rows of each key."""
        return self.inline_counts if self._counts is None else self._counts

    @property
    def inline_counts(self) -> Int32s:
        """Return the number of inline rows of each key: 0 for a key outside."""
        return np.diff(self._starts)

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes, with the page that its rows are unpacked from."""
        leaf_keys = self.keys
        keys = (
            leaf_keys.nbytes
            if isinstance(leaf_keys, np.ndarray)
            else len(leaf_keys.data) + leaf_keys.offsets.nbytes
        )
        counts = self._starts.nbytes + (0 if self._counts is None else self._counts.nbytes)
        pointers = self._pointers.nbytes + self.overflow_keys.nbytes
        return int(keys + counts + pointers + self._page.nbytes)

    def _planes(self, width: int, count: int) -> Planes:
        planes = self._read_planes(self._at, width, count)
        self._at += width
        return planes

    def _read_planes(self, at: int, width: int, count: int) -> Planes:
        """Return the planes of an array of numbers whose first block is ``at``."""
        blocks = [self._page.block(at + plane, count) for plane in range(width)]
        data = blocks[0] if width == 1 else b"".join(blocks)
        return np.frombuffer(data, np.uint8).reshape(width, count)

    def _integer_keys(self, count: int, first_key: int, width: int) -> Int64s:
        steps = np.ascontiguousarray(self._planes(width, count)[:, 1:])
        keys = np.empty(count, np.int64)
        keys[:1] = first_key
        if kernel.sum_planes(steps, first_key, keys[1:]):
            raise self._page.error("its keys are not in order")
        return keys

    def _byte_keys(self, count: int, length: int, width: int) -> ByteKeys:
        if width > 4:
            raise self._page.error("a key length wider than 32 bits is promised")
        offsets = np.zeros(count + 1, np.int64)
        kernel.sum_planes(self._planes(width, count), 0, offsets[1:])
        # the sums count one more for each length
        offsets -= np.arange(count + 1)
        if int(offsets[-1]) != length:
            raise self._page.error("its key lengths do not add up")
        if count > 1 and length > MAX_KEY_BYTES:
            raise self._page.error(
                f"its {count} keys have {length} bytes, more than the {MAX_KEY_BYTES} allowed"
            )
        data = self._page.block(self._at, length)
        self._at += 1
        return ByteKeys(offsets, data)

    def owners(self) -> Int64s:
        """Return the key ordinal of each inline row, in the order of `rows`."""
        return np.repeat(np.arange(len(self.keys)), self.inline_counts)

    def key_array(self, kept: npt.NDArray[np.bool_] | None = None) -> KeyArray:
        """Return the keys, or those under a mask."""
        leaf_keys = self.keys
        if isinstance(leaf_keys, np.ndarray):
            return leaf_keys if kept is None else leaf_keys[kept]
        buffers = [None, pa.py_buffer(np.ascontiguousarray(leaf_keys.offsets)), pa.py_buffer(leaf_keys.data)]
        array = pa.Array.from_buffers(pa.large_binary(), len(leaf_keys), buffers)
        return array if kept is None else array.filter(bool_array(kept, None))

    def rows(self, numbers: Int64s | None = None) -> UInt32s:
        """Return the inline rows of some keys, given by their ascending ordinals in this leaf, or of all.

        Those of other keys stay packed.

        Raises:
            IndexFileError: if one lies outside the stripe, or a block is corrupt.
        """
        starts = self._starts
        if numbers is None:
            numbers, count = np.arange(len(self.keys)), self._inline
        else:
            count = int((starts[numbers + 1] - starts[numbers]).sum())
        rows = np.empty(count, np.uint32)
        if not count:
            return rows
        inline_keys = len(self.keys) - len(self.overflow_keys)
        firsts = self._read_planes(self._firsts_at, self._first_width, inline_keys)
        gaps = self._read_planes(
            self._firsts_at + self._first_width, self._gap_width, self._inline - inline_keys
        )
        is_delta = self._mode == _FIRSTS_DELTA
        status = kernel.unpack_rows(
            firsts, gaps, starts, self.overflow_keys, numbers, is_delta, self._total, rows
        )
        if status:
            raise self._page.error(kernel.ERRORS[status & 255])
        return rows

    def overflow_pages(self, numbers: Int64s) -> list[OverflowRows]:
        """Return the overflow pages of some keys, given by their ascending ordinals in this leaf."""
        keys = self.overflow_keys
        if not len(keys):
            return []
        positions = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
        chosen = self._pointers[positions[keys[positions] == numbers]]
        return [
            OverflowRows(int(self.counts[number]), PageRef(offset, length, crc32c))
            for number, offset, length, crc32c in chosen.tolist()
        ]

    def find(self, ranges: Sequence[Range]) -> Int64s:
        """Return the ordinals of this leaf's keys in sorted, disjoint ranges.

        Many ranges are merged with the keys as arrays.
        """
        if isinstance(self.keys, np.ndarray):
            lows, highs = integer_arrays(ranges)
            starts, ends = self.keys.searchsorted(lows), self.keys.searchsorted(highs, side="right")
        elif isinstance(ranges, RangeArray) and len(ranges) > _FEW_KEYS:
            return np.flatnonzero(_mask(pc.is_in(self.key_array(), value_set=ranges.byte_keys)))
        else:
            starts, ends = np.array([self._span(item) for item in ranges], np.int64).reshape(-1, 2).T
        return concatenate_ranges(starts, ends - starts)

    def _span(self, item: Range) -> tuple[int, int]:
        """Return the ordinals of the first key in a range, and of the first one after it."""
        start = 0 if item.low is None else self._bisect(item.low, right=not item.low_inclusive)
        end = len(self.keys) if item.high is None else self._bisect(item.high, right=item.high_inclusive)
        return start, end

    def _bisect(self, key: Key, *, right: bool) -> int:
        """Return the number of keys below ``key``; with ``right``, of those not above it."""
        keys = self.keys
        return (bisect_right if right else bisect_left)(range(len(keys)), key, key=keys.__getitem__)


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return np.from_dlpack(array.cast(pa.uint8())).astype(np.bool_)
