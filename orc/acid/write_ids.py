"""The write ids of a table that a reader may see."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hindex.errors import TableError

_MOST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ValidWriteIds:
    """The write ids of one table that a snapshot sees.

    :ivar high_watermark: the greatest one that was given when the snapshot was taken.
    :ivar min_open: the least one whose transaction was open; the greatest integer where none was.
    :ivar invalid: those of open and aborted transactions, ascending.
    :ivar aborted: those of them whose transactions were aborted: they never become valid.
    """

    high_watermark: int = _MOST
    min_open: int = _MOST
    invalid: tuple[int, ...] = ()
    aborted: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> ValidWriteIds:
        """Read ``table:highWatermark:minOpen:open,...:aborted,...``, as Hive writes it; empty: all are valid.

        >>> ids = ValidWriteIds.parse("db.t:10:7:7,9:3")
        >>> [w for w in range(1, 12) if ids.valid(w)]
        [1, 2, 4, 5, 6, 8, 10]

        :raises TableError: if it is no such text.
        """
        if not isinstance(cast("object", text), str):
            raise _unreadable(text, "it is not a string")
        if not text.strip():
            return ALL_VALID
        parts = text.strip().split(":")
        if not 2 <= len(parts) <= 5:
            raise _unreadable(text, f"it has {len(parts)} parts")
        _, watermark, min_open, opened, aborted = (*parts, "", "", "")[:5]
        try:
            still, never = (
                frozenset(int(item) for item in part.split(",") if item.strip()) for part in (opened, aborted)
            )
            invalid = tuple(sorted(still | never))
            # what is in the list of open ones is open, wherever the least of them is said to be
            least = min({int(min_open) if min_open else _MOST} | still)
            return cls(int(watermark), least, invalid, never - still)
        except ValueError as error:
            raise _unreadable(text, "one of its parts is no whole number") from error

    @property
    def is_all(self) -> bool:
        """Return True if every write id is valid."""
        return not self.invalid and self.high_watermark == _MOST and self.min_open == _MOST

    def valid(self, write_id: int) -> bool:
        return write_id <= self.high_watermark and not self._invalid_in(write_id, write_id)

    def any_valid(self, low: int, high: int) -> bool:
        """Return True if a write id from ``low`` to ``high``, both included, is valid."""
        high = min(high, self.high_watermark)
        return self._invalid_in(low, high) < high - low + 1

    def all_valid(self, low: int, high: int) -> bool:
        """Return True if all write ids from ``low`` to ``high`` are valid."""
        return high <= self.high_watermark and not self._invalid_in(low, high)

    def all_decided(self, low: int, high: int) -> bool:
        """Return True if all write ids from ``low`` to ``high`` were allocated and no transaction of them is open."""
        some = self.invalid[bisect_left(self.invalid, low) : bisect_right(self.invalid, high)]
        return high <= self.high_watermark and self.aborted.issuperset(some)

    def compacted_valid(self, write_id: int) -> bool:
        """Return True if a compacted base of a write id may be read: it contains no open transaction."""
        return write_id < self.min_open and write_id <= self.high_watermark

    def valid_mask(self, write_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask of the valid write ids."""
        found: npt.NDArray[Any] = write_ids <= self.high_watermark
        if self.invalid:
            inside = [w for w in self.invalid if -_MOST <= w <= _MOST]
            found &= ~np.isin(write_ids, np.array(inside, np.int64))
        return found

    def _invalid_in(self, low: int, high: int) -> int:
        return max(bisect_right(self.invalid, high) - bisect_left(self.invalid, low), 0)


def _unreadable(text: str, why: str) -> TableError:
    return TableError(
        f"the list of valid write ids {text!r} cannot be read: {why}; it is written "
        "table:highWatermark:minOpen:open,...:aborted,..."
    )


#: Without a metastore nobody tells which transactions are open or aborted.
ALL_VALID = ValidWriteIds()
