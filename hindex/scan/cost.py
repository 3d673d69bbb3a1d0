"""Decide if an index lookup saves more than it costs.

The constants were measured with ``python -m tests.bench.cost``, by processor time, on TPC-H's lineitem and orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hindex.index.index_type import Bounds, LookupCost
from hindex.keys import KeyKind

#: How many rows can be decoded and compared while one is unpacked from an index: 45 ns against 13 of a bigint, and a
#: little more as indexes are asked one after the other. With nothing in memory, asking one that keeps 24 % of the rows
#: took 0.97 of the time, 27 % 1.01 and 30 % 1.07; by the clock 0.96, 1.09 and 1.18.
_ROWS_PER_WALKED = 4
#: The same where the column is read anyway, so that only comparing it and skipping between the rows are saved: up to
#: here an index was no slower (it took 0.94 of the time where it kept 5 % of the rows, and 1.0 to 1.1 at 10 %).
_ROWS_PER_WALKED_IF_READ = 12
#: How many rows can be while a page is read and parsed: 0.1 ms of 10 ns each, for text 0.25 ms of 65 ns.
_ROWS_PER_PAGE = {KeyKind.INT64: 10_000, KeyKind.BYTES: 4_000}
#: Lookups that unpack no more rows than these, from a few pages, are not worth a thought.
_CHEAP_ROWS = 10_000
_CHEAP_PAGES = 4
#: An index of so many keys for each row that is left is not walked: reading the rows is less.
_KEYS_PER_ROW = 64
#: Rows that can be read and grouped while the rows of two keys are intersected: 21 combinations took a tenth of the
#: time of reading 1.1 million rows, 350 two thirds.
_ROWS_PER_CROSSING = 2_000
#: Rows of sets that can be intersected while one value is read and grouped: 0.6 ns each where they are spread evenly,
#: which is the worst for bitmaps, against 6 ns; but sets have to be fetched, too.
_CROSSED_PER_VALUE = 4


def is_walked(keys: int, rows: int) -> bool:
    """Return True if walking so many keys of an index pays for the remaining rows."""
    return keys <= _KEYS_PER_ROW * rows


def are_crossed(keys: Sequence[int], rows: int, stripe_rows: int) -> bool:
    """Return True if intersecting the keys of several columns pays for the remaining rows.

    All rows of the last column's keys are gone through for each combination of keys of the others.

    :param keys: how many each column has, ascending.
    """
    combinations = prod(count + 1 for count in keys)
    passed = prod(max(count, 1) for count in keys[:-1]) * stripe_rows
    return _ROWS_PER_CROSSING * combinations <= rows and passed <= _CROSSED_PER_VALUE * len(keys) * rows


def is_cheap(effort: LookupCost) -> bool:
    """Return True if a lookup is so cheap that its cost needs no further estimate."""
    return effort.walked <= _CHEAP_ROWS and effort.pages <= _CHEAP_PAGES


def why_not_ask(effort: LookupCost, known: Bounds, rows: int, kind: KeyKind, *, is_read: bool) -> str | None:
    """Return the reason why a lookup does not pay, for people; None if it pays.

    :param kind: of the index's keys.
    :param known: what cheaper indexes and the file's own statistics say of the stripe's ``rows``.
    :param is_read: whether the column is read anyway, so that comparing it costs little.
    """
    if is_cheap(effort):
        return None
    left, undecided = len(known.upper), len(known.upper) - len(known.lower)
    keeps_most = 2 * effort.rows >= left
    walked = (_ROWS_PER_WALKED_IF_READ if is_read else _ROWS_PER_WALKED) * effort.walked
    if max(walked, _ROWS_PER_PAGE[kind] * effort.pages) < undecided and not (is_read and keeps_most):
        return None
    if undecided < rows:
        return "other indexes and statistics rule out about as much"
    return "most rows match" if keeps_most else "a lookup takes as long as reading the remaining rows"
