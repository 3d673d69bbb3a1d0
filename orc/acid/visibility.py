"""Rows of a data file that were written by a transaction which is not valid."""

from __future__ import annotations

import numpy as np
from pyroaring import BitMap

from hindex.orc.acid.deletes import int64s
from hindex.orc.acid.key_statistics import KeyStatistics
from hindex.orc.acid.schema import AcidColumns
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.reader.orc_reader import OrcReader
from hindex.orc.reader.row_selection import RowSelection, as_rows


class InvisibleRows:
    """Finds them in one ACID file; statistics tell where there are none."""

    def __init__(
        self, reader: OrcReader, columns: AcidColumns, statistics: KeyStatistics, valid: ValidWriteIds
    ) -> None:
        self._reader = reader
        self._name = columns.current_transaction
        self._statistics = statistics
        self._valid = valid
        self._none = valid.is_all or self._all_valid(None)

    def columns(self, stripe: int) -> tuple[str, ...]:
        """Return the columns to read to find the visible rows of a stripe."""
        return () if self._none or self._all_valid(stripe) else (self._name,)

    def rows(self, stripe: int, candidates: BitMap) -> BitMap:
        """The rows of a stripe that are not visible, of some."""
        if not candidates or not self.columns(stripe):
            return BitMap()
        rows = as_rows(candidates)
        selection = RowSelection.of(rows, self._reader.stripes[stripe].num_rows)
        batch = self._reader.read_stripe(stripe, [self._name], selection)
        visible = self._valid.valid_mask(int64s(batch.column(0), self._name, self._reader))
        return BitMap(rows[~visible].astype(np.uint32))

    def _all_valid(self, stripe: int | None) -> bool:
        low, high = self._statistics.current_transactions(stripe)
        return low is not None and high is not None and self._valid.all_valid(low, high)
