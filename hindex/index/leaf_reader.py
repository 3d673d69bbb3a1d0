"""Decode leaf pages by the kernel: the keys in some ranges, with their rows.

Several pages are decoded at once. Rows of other keys stay packed. `hindex.index.leaf_page` writes the pages. Their
bytes are specified in ``docs/format.md``, "Leaf page".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from io import BytesIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.domain import Range, RangeArray, integer_arrays
from hindex.errors import IndexFileError
from hindex.index.index_file import PageRef, decompress_blocks
from hindex.index.leaf_page import ByteKeys, Int64s, OverflowRows, UInt32s
from hindex.index.tree_writer import byte_keys
from hindex.keys import KeyArray, KeyKind
from hindex.orc import kernel
from hindex.orc.decode.arrow_arrays import bool_array
from hindex.value_class import value_class

Bytes = npt.NDArray[np.uint8]

#: The fields of a page's header and of a block, as `kernel.list_leaf_blocks` lists them.
_HEAD_FIELDS = 11
_INLINE_ROWS, _OUTSIDE, _KEY_BYTES = 3, 4, 5
_BLOCK_FIELDS = 4
_IS_PACKED, _START, _STORED, _RAW = range(4)
# rough bytes in memory of a pointer to a bitmap page
_POINTER_MEMORY = 200


@value_class
class LeafKeys:
    """Keys of one leaf page or of several, ascending, with their rows.

    Args:
        counts: int64[K], the number of rows of each key, inline or outside.
        rows: uint32, the rows of the keys that are not outside, key by key.
        outside: int64[O], the ordinals of the keys whose rows are in bitmap pages.
        bitmap_pages: these pages.
    """

    keys: Int64s | ByteKeys
    counts: Int64s
    rows: UInt32s
    outside: Int64s
    bitmap_pages: list[OverflowRows]

    @property
    def inline_counts(self) -> Int64s:
        """The number of inline rows of each key: 0 for a key outside."""
        if not len(self.outside):
            return self.counts
        counts = self.counts.copy()
        counts[self.outside] = 0
        return counts

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        keys = self.keys
        size = keys.nbytes if isinstance(keys, np.ndarray) else len(keys.data) + keys.offsets.nbytes
        arrays = self.counts.nbytes + self.rows.nbytes + self.outside.nbytes
        return int(size + arrays + _POINTER_MEMORY * len(self.bitmap_pages))

    def owners(self) -> Int64s:
        """Return the key ordinal of each inline row, in the order of ``rows``."""
        return np.repeat(np.arange(len(self.keys)), self.inline_counts)

    def key_array(self, kept: npt.NDArray[np.bool_] | None = None) -> KeyArray:
        """Return the keys, or those under a mask."""
        leaf_keys = self.keys
        if isinstance(leaf_keys, np.ndarray):
            return leaf_keys if kept is None else leaf_keys[kept]
        buffers = [None, pa.py_buffer(np.ascontiguousarray(leaf_keys.offsets)), pa.py_buffer(leaf_keys.data)]
        array = pa.Array.from_buffers(pa.large_binary(), len(leaf_keys), buffers)
        return array if kept is None else array.filter(bool_array(kept, None))


@value_class
class RangeBounds:
    """Sorted, disjoint ranges of keys as arrays.

    Args:
        lows: int64, the least integer of each range; for byte keys, a 0 and the end of each one's bytes.
        highs: likewise the greatest integers, or the least bytes above each range; empty for single byte keys.
        low_bytes: uint8, None for integers.
        high_bytes: uint8, None for integers and for single byte keys.
        open_range: the ordinal of a range of bytes without an upper bound; -1 for none.
    """

    lows: Int64s
    highs: Int64s
    low_bytes: Bytes | None = None
    high_bytes: Bytes | None = None
    open_range: int = -1

    @classmethod
    def of(cls, kind: KeyKind, ranges: Sequence[Range]) -> RangeBounds:
        """Return the bounds of ranges of keys of a kind."""
        if kind is KeyKind.INT64:
            lows, highs = integer_arrays(ranges)
            return cls(np.ascontiguousarray(lows), np.ascontiguousarray(highs))
        if isinstance(ranges, RangeArray):
            assert ranges.byte_keys is not None
            keys = byte_keys(ranges.byte_keys)
            # the array may be a slice of a longer one
            keys = keys.part(0, len(keys))
            return cls(
                np.ascontiguousarray(keys.offsets), np.zeros(0, np.int64), np.frombuffer(keys.data, np.uint8)
            )
        low_keys, high_keys, open_range = list[bytes](), list[bytes](), -1
        for at, item in enumerate(ranges):
            assert not isinstance(item.low, int)
            assert not isinstance(item.high, int)
            # no key lies between a key and the same one with a zero byte
            low_keys.append((item.low or b"") + (b"" if item.low is None or item.low_inclusive else b"\0"))
            high_keys.append((item.high or b"") + (b"\0" if item.high_inclusive else b""))
            open_range = at if item.high is None else open_range
        (lows, low_bytes), (highs, high_bytes) = _joined(low_keys), _joined(high_keys)
        return cls(lows, highs, low_bytes, high_bytes, open_range)


def _joined(keys: Sequence[bytes]) -> tuple[Int64s, Bytes]:
    """Return a 0 and the end of each key, and the concatenated keys."""
    return np.cumsum([0, *map(len, keys)]).astype(np.int64), np.frombuffer(b"".join(keys), np.uint8)


#: Buffers of decompressed blocks that no lookup uses at the moment. The system clears new memory at its first
#: write: without these buffers, a lookup of 800 keys took half as long again.
_idle_buffers: deque[BytesIO] = deque(maxlen=4)
#: The most bytes of such a buffer: together they have at most 16 MiB.
_MAX_IDLE_BYTES = 1 << 22


def _take_buffer() -> BytesIO:
    try:
        return _idle_buffers.pop()
    except IndexError:
        return BytesIO()


class LeafPages:
    """Some leaf pages of one tree; their keys and rows stay packed.

    Args:
        data: uint8, the concatenated pages, whose checksums are verified.
        lengths: int64, the bytes of each page, at least one.
        total: the number of rows of the stripe.
        key_counts: int64, the number of keys of each page by the directory.
        row_counts: int64, the number of rows of each page by the directory.
        name: returns the name of a page for messages.

    Raises:
        IndexFileError: if a page is inconsistent, or does not match the directory.
    """

    def __init__(
        self,
        data: Bytes,
        lengths: Int64s,
        kind: KeyKind,
        *,
        total: int,
        key_counts: Int64s,
        row_counts: Int64s,
        name: Callable[[int], str],
    ) -> None:
        self._kind, self._total, self._name = kind, total, name
        self._data = data
        ends = lengths.cumsum()
        # the first byte of a page
        block_counts = data[ends - lengths]
        block_ends = block_counts.cumsum(dtype=np.int64)
        blocks = np.zeros((int(block_ends[-1]), _BLOCK_FIELDS), np.int64)
        self._heads = np.zeros((len(lengths), _HEAD_FIELDS), np.int64)
        self._heads[:, 0] = block_ends - block_counts
        self._heads[:, 1], self._heads[:, 2] = key_counts, row_counts
        self._check(kernel.list_leaf_blocks(self._data, ends, kind is KeyKind.BYTES, self._heads, blocks))
        self._blocks = blocks

    def find(self, bounds: RangeBounds, begins: Int64s, ends: Int64s, *, with_rows: bool = True) -> LeafKeys:
        """Find the keys in some ranges, and their rows.

        Args:
            begins: int64, for each page the ordinal of the first range that may contain a key of it.
            ends: int64, for each page the ordinal of the first range after these.
            with_rows: False leaves all rows packed.

        Raises:
            IndexFileError: if a page is inconsistent, or a row is outside the stripe.
        """
        heads, has_bytes = self._heads, self._kind is KeyKind.BYTES
        # memory that is not touched costs nothing
        room = int(heads[:, 1].sum())
        keys, counts = np.empty(room, np.int64), np.empty(room, np.int64)
        data = np.empty(int(heads[:, _KEY_BYTES].sum()), np.uint8) if has_bytes else None
        rows = np.empty(int(heads[:, _INLINE_ROWS].sum()) if with_rows else 0, np.uint32)
        outside = np.empty((int(heads[:, _OUTSIDE].sum()), 5), np.int64)
        sizes = np.zeros(4, np.int64)
        buffer = _take_buffer()
        blocks, contents = self._decompress(buffer)
        status = kernel.find_rows(
            self._data,
            contents,
            heads,
            blocks,
            self._total,
            begins,
            ends,
            bounds.lows,
            bounds.highs,
            bounds.low_bytes,
            bounds.high_bytes,
            bounds.open_range,
            np.empty(int(heads[:, 1].max()) + 1, np.int64),
            keys,
            data,
            counts,
            rows if with_rows else None,
            outside,
            sizes,
        )
        self._check(status)
        if len(contents) <= _MAX_IDLE_BYTES:
            # while an array refers to it, the buffer cannot be written
            del contents
            _idle_buffers.append(buffer)
        key_count, byte_count, row_count, outside_count = sizes.tolist()
        leaf_keys: Int64s | ByteKeys = keys[:key_count].copy()
        if data is not None:
            offsets = np.concatenate([np.zeros(1, np.int64), keys[:key_count]])
            leaf_keys = ByteKeys(offsets, data[:byte_count].tobytes())
        return LeafKeys(
            leaf_keys,
            counts[:key_count].copy(),
            rows[:row_count].copy(),
            outside[:outside_count, 0].copy(),
            [
                OverflowRows(count, PageRef(offset, length, crc32c))
                for _, count, offset, length, crc32c in outside[:outside_count].tolist()
            ],
        )

    def find_all(self) -> LeafKeys:
        """Return all keys with their rows.

        Raises:
            IndexFileError: as `find`.
        """
        pages = len(self._heads)
        bounds = RangeBounds.of(self._kind, (Range(),))
        return self.find(bounds, np.zeros(pages, np.int64), np.ones(pages, np.int64))

    def _decompress(self, buffer: BytesIO) -> tuple[Int64s, Bytes]:
        """Decompress the compressed blocks into a buffer; return the positions of all blocks, and the bytes."""
        blocks = self._blocks.copy()
        numbers = np.flatnonzero(blocks[:, _IS_PACKED])
        packed = blocks[numbers]
        blocks[numbers, _START] = np.cumsum(packed[:, _RAW]) - packed[:, _RAW]
        spans, sizes = packed[:, [_START, _STORED]], packed[:, _RAW]
        try:
            return blocks, decompress_blocks(self._data, spans, sizes, buffer)
        except ValueError as error:
            at, message = error.args
            page = int(np.searchsorted(self._heads[:, 0], numbers[at], side="right")) - 1
            block = int(numbers[at] - self._heads[page, 0])
            raise self._error(page, f"block {block} {message}") from error

    def _check(self, status: int) -> None:
        if status:
            raise self._error(status >> 8, kernel.ERRORS[status & 255])

    def _error(self, page: int, message: str) -> IndexFileError:
        return IndexFileError(f"{self._name(page)} is corrupt: {message}; rebuild the index")
