"""The write ids of a table that are visible to a reader."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hindex.errors import TableError
from hindex.value_class import value_class

_MAX_INT64 = (1 << 63) - 1


@value_class
class ValidWriteIds:
    """The write ids of one table that are visible in a snapshot.

    Attributes:
        high_watermark: the greatest write id that was allocated when the snapshot was taken.
        min_open: the first write id of an open transaction; the greatest integer if there was none.
        invalid: the write ids of open and aborted transactions, ascending.
        aborted: the write ids of aborted transactions, which never become valid.
    """

    high_watermark: int = _MAX_INT64
    min_open: int = _MAX_INT64
    invalid: tuple[int, ...] = ()
    aborted: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> ValidWriteIds:
        """Parse ``table:highWatermark:minOpen:open,...:aborted,...``, as Hive writes it; all are valid if it is empty.

        >>> ids = ValidWriteIds.parse("db.t:10:7:7,9:3")
        >>> [w for w in range(1, 12) if ids.valid(w)]
        [1, 2, 4, 5, 6, 8, 10]

        Raises:
            TableError: if the string has another form.
        """
        if not isinstance(cast("object", text), str):
            raise _invalid_list(text, "it is not a string")
        if not text.strip():
            return ALL_VALID
        parts = text.strip().split(":")
        if not 2 <= len(parts) <= 5:
            raise _invalid_list(text, f"it has {len(parts)} parts")
        _, watermark, min_open, opened, aborted = (*parts, "", "", "")[:5]
        try:
            open_ids, aborted_ids = (
                frozenset(int(item) for item in part.split(",") if item.strip()) for part in (opened, aborted)
            )
            invalid = tuple(sorted(open_ids | aborted_ids))
            # a listed open write id is open, even if it is below the recorded minimum
            first_open = min({int(min_open) if min_open else _MAX_INT64} | open_ids)
            return cls(int(watermark), first_open, invalid, aborted_ids - open_ids)
        except ValueError as error:
            raise _invalid_list(text, "one of its parts is not a whole number") from error

    @property
    def is_all(self) -> bool:
        """True if every write id is valid."""
        return not self.invalid and self.high_watermark == _MAX_INT64 and self.min_open == _MAX_INT64

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
        """Return True if all write ids from ``low`` to ``high`` are allocated and none is open."""
        invalid = self.invalid[bisect_left(self.invalid, low) : bisect_right(self.invalid, high)]
        return high <= self.high_watermark and self.aborted.issuperset(invalid)

    def compacted_valid(self, write_id: int) -> bool:
        """Return True if a compacted base of a write id may be read because it contains no open transaction."""
        return write_id < self.min_open and write_id <= self.high_watermark

    def valid_mask(self, write_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask of the valid write ids."""
        mask: npt.NDArray[Any] = write_ids <= self.high_watermark
        if self.invalid:
            representable = [w for w in self.invalid if -_MAX_INT64 <= w <= _MAX_INT64]
            mask &= ~np.isin(write_ids, np.array(representable, np.int64))
        return mask

    def _invalid_in(self, low: int, high: int) -> int:
        return max(bisect_right(self.invalid, high) - bisect_left(self.invalid, low), 0)


def _invalid_list(text: str, reason: str) -> TableError:
    return TableError(
        f"the list of valid write ids {text!r} cannot be read: {reason}; write "
        "table:highWatermark:minOpen:open,...:aborted,..."
    )


#: Without a metastore, all transactions count as committed.
ALL_VALID = ValidWriteIds()
