"""Whether asking an index saves more than it takes."""

from __future__ import annotations

from hindex.index.base import Bounds, Effort

#: How many rows can be decoded and compared while one is unpacked from an index, with a margin.
_ROWS_PER_WALKED = 3
#: Lookups that unpack no more rows than these are not worth a thought.
CHEAP_ROWS = 10_000
#: An index that leaves one of so many rows always pays.
_SELECTIVE = 4
#: An index of so many keys for each row that is left is not walked: reading the rows is less.
_KEYS_PER_ROW = 64


def is_walked(keys: int, rows: int) -> bool:
    """Whether so many keys of an index are walked for so many rows that are left."""
    return keys <= _KEYS_PER_ROW * rows


def why_not_ask(effort: Effort, known: Bounds, rows: int, *, is_read: bool) -> str | None:
    """Why a lookup does not pay, for people; None where it does.

    :param known: what cheaper indexes and the file's own statistics say of the stripe's ``rows``.
    :param is_read: whether the column is read anyway, so that comparing it costs nothing.
    """
    left, undecided = len(known.upper), len(known.upper) - len(known.lower)
    if effort.walked <= CHEAP_ROWS or _SELECTIVE * effort.rows <= left:
        return None
    keeps_most = 2 * effort.rows >= left
    if _ROWS_PER_WALKED * effort.walked < undecided and not (is_read and keeps_most):
        return None
    if undecided < rows:
        return "what else is known tells about as much"
    return "most rows match" if keeps_most else "it rules out little of what is left"
