"""The cost of index lookups against reading rows.

The constants were measured with ``python -m tests.bench.cost``, by processor time, on TPC-H's lineitem and orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from hindex.index.index_type import Bounds, LookupCost
from hindex.keys import KeyKind

#: Rows that can be decoded and compared while one row is unpacked from an index: 6 to 13 ns against 13 for a bigint.
#: With cold caches, an index that kept 20 % of the rows took 0.67 of the time, 35 % 0.70 to 0.78 and 50 % 0.76 to
#: 0.85.
_ROWS_PER_WALKED = 1
#: The same where the column is read anyway, so that only comparing it and skipping between the rows are saved: an index
#: that kept 20 % of the rows took 0.67 to 0.83 of the time. A third of the rows is the most.
_ROWS_PER_WALKED_IF_READ = 3
#: Rows that can be decoded and compared while a page is read and parsed: a page takes 40 µs and a bigint 13 ns; for
#: strings, 50 µs and 65 ns. A smaller page takes less, down to an eighth: with a quarter of the bytes it took a
#: third of the time.
_ROWS_PER_PAGE = {KeyKind.INT64: 3_000, KeyKind.BYTES: 800}
_PAGE_BYTES = 16 * 1024
#: A lookup is always cheap if it unpacks at most this many rows from at most this many pages.
_CHEAP_ROWS = 10_000
_CHEAP_PAGES = 4
#: Values are taken from an index for at most one in so many rows of a stripe: each takes up to 16 bytes of memory
#: until its stripe is read.
_ROWS_PER_VALUE = 64
#: An index with more keys per remaining row is not walked: reading the rows costs less.
_KEYS_PER_ROW = 64
#: Rows that can be read and grouped while the rows of two keys are intersected: 21 combinations took a tenth of the
#: time of reading 1.1 million rows, 350 two thirds.
_ROWS_PER_CROSSING = 2_000
#: Rows of sets that can be intersected while one value is read and grouped: 0.6 ns each against 6 ns if they are
#: spread evenly, which is the worst case for bitmaps; but sets have to be fetched, too.
_CROSSED_PER_VALUE = 4


#: Microseconds to read a block of a ROWS index, each of its columns, and each of its stored bytes.
_BLOCK_MICROS = 10.0
_BLOCK_COLUMN_MICROS = 1.5
_BLOCK_BYTE_MICROS = 0.004
#: Microseconds to read a row group of a column of a data file, and a stored byte of its chunks, which are read
#: whole; the stored bytes of a chunk per raw byte.
_GROUP_MICROS = 15.0
_BYTE_MICROS = 0.0025
_CHUNK_RATIO = 0.4
#: Microseconds to fetch a byte from an object store; and to fetch the footer and then the directory of an index,
#: which reading the data does not need.
_REMOTE_BYTE_MICROS = 0.01
_REMOTE_REQUESTS_MICROS = 60_000.0


def block_micros(blocks: float, columns: int, stored_bytes: float, *, is_remote: bool = False) -> float:
    """Estimate the microseconds to read some blocks of a ROWS index.

    Args:
        columns: the number of columns in each block.
        stored_bytes: the stored bytes of each block.
    """
    byte_micros = _BLOCK_BYTE_MICROS + (_REMOTE_BYTE_MICROS if is_remote else 0)
    micros = blocks * (_BLOCK_MICROS + _BLOCK_COLUMN_MICROS * columns + byte_micros * stored_bytes)
    return micros + (_REMOTE_REQUESTS_MICROS if is_remote else 0)


def column_micros(
    column_bytes: Iterable[float], groups: int, group_share: float, chunk: int, *, is_remote: bool = False
) -> float:
    """Estimate the microseconds to read columns at some row groups of a stripe of a data file.

    Args:
        column_bytes: the stored bytes of each column to read, in the whole stripe.
        groups: the number of row groups to read.
        group_share: their share of the stripe's row groups.
        chunk: the raw bytes of a chunk of the data file; 0 if it is not compressed.
    """
    byte_micros = _BYTE_MICROS + (_REMOTE_BYTE_MICROS if is_remote else 0)
    chunk_bytes = groups * chunk * _CHUNK_RATIO
    return sum(
        groups * _GROUP_MICROS + min(size, group_share * size + chunk_bytes) * byte_micros
        for size in column_bytes
    )


def are_keys_spread(cost: LookupCost, rows: int) -> bool:
    """Return True if a few keys are in most pages of an index: the file's statistics then rule out little.

    Reading the statistics took 0.07 of 0.47 s on 46 stripes with 60 million rows and 2,000 keys.
    """
    return cost.rows <= max_values(rows) and 2 * cost.pages > cost.all_pages > _CHEAP_PAGES


def max_values(rows: int) -> int:
    """Return the number of matching rows of a stripe up to which their values are taken from an index."""
    return rows // _ROWS_PER_VALUE


def is_key_walk_worthwhile(keys: int, rows: int) -> bool:
    """Return True if walking all keys of an index costs less than reading the remaining rows."""
    return keys <= _KEYS_PER_ROW * rows


def is_key_intersection_worthwhile(keys: Sequence[int], rows: int, stripe_rows: int) -> bool:
    """Return True if intersecting the keys of several columns costs less than reading the remaining rows.

    For each combination of keys of the other columns, all rows of the last column's keys are visited.

    Args:
        keys: the number of keys of each column, ascending.
    """
    combinations = prod(count + 1 for count in keys)
    passed = prod(max(count, 1) for count in keys[:-1]) * stripe_rows
    return _ROWS_PER_CROSSING * combinations <= rows and passed <= _CROSSED_PER_VALUE * len(keys) * rows


def is_cheap(cost: LookupCost) -> bool:
    """Return True if a lookup is so cheap that its cost needs no further estimate."""
    return cost.walked <= _CHEAP_ROWS and cost.pages <= _CHEAP_PAGES


def reason_to_skip_lookup(
    cost: LookupCost, bounds: Bounds, rows: int, kind: KeyKind, *, is_read: bool
) -> str | None:
    """Return the reason why a lookup does not pay, for messages; None if it pays.

    Args:
        bounds: the bounds from cheaper indexes and the file's own statistics.
        rows: the number of rows in the stripe.
        kind: the kind of the index's keys.
        is_read: True if the column is read anyway, so that comparing its values costs little.
    """
    if is_cheap(cost):
        return None
    possible, undecided = len(bounds.upper), len(bounds.upper) - len(bounds.lower)
    keeps_most = 2 * cost.rows >= possible
    walked = (_ROWS_PER_WALKED_IF_READ if is_read else _ROWS_PER_WALKED) * cost.walked
    whole_pages = cost.pages / 8 + min(cost.pages, cost.page_bytes / _PAGE_BYTES) * 7 / 8
    if max(walked, _ROWS_PER_PAGE[kind] * whole_pages) < undecided and not (is_read and keeps_most):
        return None
    if undecided < rows:
        return "other indexes and statistics rule out about as much"
    return "most rows match" if keeps_most else "a lookup takes as long as reading the remaining rows"
