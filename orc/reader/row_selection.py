"""The selection of rows of a stripe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from hindex.errors import ArgumentError

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RowSelection:
    """Sorted, distinct row numbers within a stripe of ``num_rows`` rows, counted from 0.

    Every row is selected if ``wanted`` is None.
    """

    num_rows: int
    wanted: Rows | None = None

    @classmethod
    def of(cls, rows: BitMap | BitMap64 | Rows | pa.Array | Iterable[int], num_rows: int) -> RowSelection:
        """Select any set of row numbers.

        Raises:
            ArgumentError: if a row is outside the stripe.
        """
        if isinstance(rows, BitMap) and num_rows and len(rows) == num_rows and rows.max() < num_rows:
            return cls(num_rows)
        wanted = as_rows(rows)
        if len(wanted) and (wanted[0] < 0 or wanted[-1] >= num_rows):
            outside = wanted[0] if wanted[0] < 0 else wanted[-1]
            raise ArgumentError(f"row {outside} is outside the stripe's {num_rows} rows")
        return cls(num_rows, None if len(wanted) == num_rows else wanted)

    def __len__(self) -> int:
        return self.num_rows if self.wanted is None else len(self.wanted)

    @property
    def is_all(self) -> bool:
        return self.wanted is None

    def to_array(self) -> Rows:
        return np.arange(self.num_rows, dtype=np.int64) if self.wanted is None else self.wanted

    def groups(self, stride: int) -> tuple[Rows, Rows]:
        """Find the row groups of ``stride`` rows that have selected rows.

        Returns:
            int64[G], their numbers; and int64[G + 1], the offset of each one's rows in the selected rows.
        """
        if not len(self):
            return np.zeros(0, np.int64), np.zeros(1, np.int64)
        count = -(-self.num_rows // stride)
        edges = np.minimum(np.arange(count + 1, dtype=np.int64) * stride, self.num_rows)
        if self.wanted is not None:
            edges = self.wanted.searchsorted(edges)
        groups = np.flatnonzero(edges[1:] > edges[:-1])
        return groups, np.append(edges[groups], edges[-1])


def as_rows(rows: BitMap | BitMap64 | npt.NDArray[Any] | pa.Array | Iterable[int]) -> Rows:
    """Convert row numbers in any order to a sorted, distinct int64 array.

    Raises:
        ArgumentError: for anything but integers.
    """
    if isinstance(rows, BitMap):
        return (
            np.frombuffer(rows.to_array(), np.uint32).astype(np.int64) if len(rows) else np.zeros(0, np.int64)
        )
    argument: object = rows
    if not isinstance(argument, Iterable):
        raise ArgumentError(f"rows is {rows!r}: pass a list of row numbers, such as [0, 5]")
    numbers: npt.NDArray[Any]
    if isinstance(rows, BitMap64):
        numbers = np.array(rows.to_array(), np.uint64)
    elif isinstance(rows, pa.Array | pa.ChunkedArray):
        if rows.null_count:
            raise ArgumentError(f"rows are whole numbers, and {rows.null_count} of {len(rows)} are null")
        numbers = rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
    else:
        numbers = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows))
    if numbers.size and numbers.dtype.kind == "b":
        raise ArgumentError("rows are row numbers, not a mask: use numpy.flatnonzero(mask)")
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ArgumentError(f"rows are whole numbers of at most 64 bits, not {numbers.dtype}")
    if numbers.dtype.kind == "u" and numbers.size and int(numbers.max()) > np.iinfo(np.int64).max:
        raise ArgumentError(f"row {int(numbers.max())} is outside of every file")
    numbers = numbers.astype(np.int64).ravel()
    return numbers if len(numbers) < 2 or bool(np.all(np.diff(numbers) > 0)) else np.unique(numbers)
