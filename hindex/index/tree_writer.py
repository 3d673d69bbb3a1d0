"""Write keys and their rows as leaf pages, for BITMAP and BTREE files."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from hindex.domain import Key
from hindex.index import leaf_page, roaring
from hindex.index.index_file import Buffer, IndexFileWriter, PageRef, encode_page
from hindex.index.leaf_page import ByteKeys

#: The bytes of pages that are buffered in memory.
BUFFER_BYTES = 1 << 20
#: The raw bytes after which a leaf is closed, whatever its number of keys.
LEAF_BYTES = 64 * 1024
#: Keys with fewer rows are always inline: there may be many such keys, and none may cost a Python step.
OVERFLOW_FROM = 256
#: Keys with more rows are never inline: a lookup decodes all rows of a leaf.
OVERFLOW_AFTER = 1 << 16
#: The most bytes of a tree's first key in the directory.
FIRST_BOUND = 64
# with one row in this many or more, roaring uses a bitset, which is as small as gaps are; it decides that for so
# many rows at once, and stores fewer than 4096 of them as 16-bit numbers, which are larger
_DENSE = 16
_CONTAINER = 1 << 16
# the mean length of runs of adjacent rows from which roaring's run containers are smaller
_LONG_RUN = 4
# rough raw bytes of an inline row, and of a key without its bytes
_ROW_BYTES = 2.5
_KEY_BYTES = 4

Int64s = npt.NDArray[np.int64]
UInt32s = npt.NDArray[np.uint32]


class BufferedPages:
    """A buffer of pages that are written after other pages. Many pages are buffered on disk."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=BUFFER_BYTES)  # noqa: SIM115 - closed when released
        self._lengths: list[int] = []

    def write_page(self, blocks: Sequence[Buffer]) -> None:
        """Buffer a page."""
        page = encode_page(blocks)
        self._file.write(page)
        self._lengths.append(len(page))

    def release(self, writer: IndexFileWriter) -> list[PageRef]:
        """Write the buffered pages contiguously, and drop them."""
        self._file.seek(0)
        pages = [writer.append_page(self._file.read(length)) for length in self._lengths]
        self._file.close()
        return pages


class TreeWriter:
    """A writer of one tree with ascending keys, in one or more pieces. It collects the directory in lists.

    Attributes:
        pages: the leaf pages.
        keys: the number of keys of each leaf.
        rows: the number of rows of these keys, inline and outside.
        bounds: a lower bound of each leaf, above every key of the leaf before it.

    Args:
        buffer: a buffer for the leaf pages, if they must be contiguous; then they are not in ``pages``.
    """

    def __init__(
        self, writer: IndexFileWriter, values_per_page: int, buffer: BufferedPages | None = None
    ) -> None:
        self._writer = writer
        self._buffer = buffer
        self._values_per_page = values_per_page
        self._last: Key | None = None
        self.pages: list[PageRef] = []
        self.keys: list[int] = []
        self.rows: list[int] = []
        self.bounds: list[Key] = []

    def add(self, keys: Int64s | ByteKeys, starts: Int64s, rows: UInt32s) -> None:
        """Write the leaves of some keys, which are above all earlier ones.

        Args:
            starts: the rows of key ``i`` are ``rows[starts[i]:starts[i + 1]]``, ascending; every key has rows.
        """
        if not len(keys):
            return
        counts = np.diff(starts)
        outside = {
            number: write_bitmap(self._writer, roaring.from_sorted(_part(rows, starts, number, number + 1)))
            for number in _overflow_numbers(starts, rows, counts).tolist()
        }
        numbers = np.array(sorted(outside), np.int64)
        for start, end in _leaf_spans(keys, counts, numbers, self._values_per_page):
            inner = _part(rows, starts, start, end)
            leaf_overflow = numbers[np.searchsorted(numbers, start) : np.searchsorted(numbers, end)]
            if len(leaf_overflow):
                inline = np.ones(len(inner), np.bool_)
                for number in leaf_overflow:
                    inline[starts[number] - starts[start] : starts[number + 1] - starts[start]] = False
                inner = inner[inline]
            part = keys.part(start, end) if isinstance(keys, ByteKeys) else keys[start:end]
            pages = {number - start: outside[number] for number in leaf_overflow.tolist()}
            blocks = leaf_page.encode(part, counts[start:end], inner, pages)
            if self._buffer is None:
                self.pages.append(self._writer.write_page(blocks))
            else:
                self._buffer.write_page(blocks)
            self.keys.append(end - start)
            self.rows.append(int(starts[end] - starts[start]))
            self.bounds.append(self._bound(keys, start))
        self._last = key_at(keys, len(keys) - 1)

    def _bound(self, keys: Int64s | ByteKeys, start: int) -> Key:
        if not isinstance(keys, ByteKeys):
            return int(keys[start])
        last = keys[start - 1] if start else self._last
        if last is None:
            return keys[0][:FIRST_BOUND]
        assert isinstance(last, bytes)
        return _separator(last, keys[start])


def write_bitmap(writer: IndexFileWriter, rows: BitMap) -> PageRef:
    """Write a set of rows as a page."""
    rows.run_optimize()
    return writer.write_page([rows.serialize()])


def byte_keys(keys: pa.LargeBinaryArray) -> ByteKeys:
    """Wrap an array without nulls as byte keys, without a copy."""
    if not len(keys):
        return ByteKeys(np.zeros(1, np.int64), b"")
    buffers = keys.buffers()
    offsets = np.frombuffer(buffers[1], np.int64, count=len(keys) + 1, offset=8 * keys.offset)
    return ByteKeys(offsets, memoryview(buffers[2]) if buffers[2] is not None else b"")


def key_at(keys: Int64s | ByteKeys, number: int) -> Key:
    key = keys[number]
    return key if isinstance(key, bytes) else int(key)


def _part(rows: UInt32s, starts: Int64s, start: int, end: int) -> UInt32s:
    return np.ascontiguousarray(rows[starts[start] : starts[end]])


def _overflow_numbers(starts: Int64s, rows: UInt32s, counts: Int64s) -> Int64s:
    """Return the ordinals of the keys whose rows become overflow pages."""
    many = np.flatnonzero(counts >= OVERFLOW_FROM)
    if not len(many):
        return many
    count = counts[many]
    span = rows[starts[many + 1] - 1].astype(np.int64) - rows[starts[many]] + 1
    dense = (count * _DENSE >= np.maximum(span, _CONTAINER)) | (count > OVERFLOW_AFTER)
    runs = np.zeros(len(many), np.int64)
    for at in np.flatnonzero(~dense).tolist():
        number = many[at]
        own = rows[starts[number] : starts[number + 1]]
        runs[at] = np.count_nonzero(own[1:] - own[:-1] != 1) + 1
    numbers: Int64s = many[dense | (runs * _LONG_RUN < count)]
    return numbers


def _leaf_spans(
    keys: Int64s | ByteKeys, counts: Int64s, outside: Int64s, values_per_page: int
) -> list[tuple[int, int]]:
    """Split keys into leaves: return their non-empty ``(start, end)`` spans."""
    cost = counts * _ROW_BYTES
    cost[outside] = 0
    cost += _KEY_BYTES
    if isinstance(keys, ByteKeys):
        cost += np.diff(keys.offsets)
    total = np.cumsum(cost)
    spans = []
    start, before = 0, 0.0
    while start < len(counts):
        full = int(np.searchsorted(total, before + LEAF_BYTES, side="right"))
        end = min(max(full, start + 1), start + values_per_page, len(counts))
        spans.append((start, end))
        start, before = end, float(total[end - 1])
    return spans


def _separator(last: bytes, first: bytes) -> bytes:
    """Return the shortest prefix of ``first`` that is above ``last``, which is below ``first``."""
    short = min(len(last), len(first))
    differs = np.frombuffer(last, np.uint8, short) != np.frombuffer(first, np.uint8, short)
    same = int(differs.argmax()) if differs.any() else short
    return first[: same + 1]
