"""Which rows of a stripe are wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap, BitMap64

from hindex.errors import ArgumentError
from hindex.orc.columns.arrays import bool_array

Rows = npt.NDArray[np.int64]

#: From this part of a stripe's rows on, leaving out the others is quicker than taking the wanted ones.
_NEARLY_ALL = 0.9


@dataclass(frozen=True, eq=False)
class RowSelection:
    """Sorted, distinct row numbers within a stripe of ``num_rows`` rows, counted from 0.

    At most one of the arrays is there, and every row is selected where none is. Where a bitmap has nearly all rows,
    the ``others`` are kept instead of them: there is little to do for each row then.
    """

    num_rows: int
    wanted: Rows | None = None
    others: Rows | None = None

    @classmethod
    def of(cls, rows: BitMap | BitMap64 | Rows | pa.Array | Iterable[int], num_rows: int) -> RowSelection:
        """Any set of row numbers.

        :raises ArgumentError: where a row lies outside the stripe.
        """
        if (
            isinstance(rows, BitMap)
            and num_rows
            and len(rows) >= _NEARLY_ALL * num_rows
            and rows.max() < num_rows
        ):
            others = rows.flip(0, num_rows)
            return cls(num_rows, None, as_rows(others) if others else None)
        found = as_rows(rows)
        if len(found) and (found[0] < 0 or found[-1] >= num_rows):
            outside = found[0] if found[0] < 0 else found[-1]
            raise ArgumentError(f"row {outside} is outside the stripe's {num_rows} rows")
        return cls(num_rows, None if len(found) == num_rows else found)

    def __len__(self) -> int:
        if self.wanted is not None:
            return len(self.wanted)
        return self.num_rows - (0 if self.others is None else len(self.others))

    @property
    def is_all(self) -> bool:
        return self.wanted is None and self.others is None

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The first row and how many there are, where each follows the one before it; None where there are gaps."""
        if self.others is not None:
            # some before the wanted rows, and some after them
            before = int((self.others - np.arange(len(self.others))).searchsorted(0, side="right"))
            after = len(self.others) - before
            is_span = not after or int(self.others[before]) == self.num_rows - after
            return (before, len(self)) if is_span else None
        if self.wanted is None or not len(self.wanted):
            return (0, len(self))
        first, last = int(self.wanted[0]), int(self.wanted[-1])
        return (first, len(self)) if last - first + 1 == len(self) else None

    @property
    def is_nearly_all(self) -> bool:
        """Whether so many rows are wanted that decoding all and leaving out the others is quickest."""
        return len(self) >= _NEARLY_ALL * self.num_rows

    def to_array(self) -> Rows:
        return self._rows if self.wanted is None else self.wanted

    def to_others(self) -> Rows:
        """The rows that are not wanted."""
        if self.others is not None:
            return self.others
        return np.zeros(0, np.int64) if self.wanted is None else (~self._flags).nonzero()[0]

    @cached_property
    def _rows(self) -> Rows:
        return np.arange(self.num_rows, dtype=np.int64) if self.others is None else self._flags.nonzero()[0]

    @cached_property
    def mask(self) -> pa.Array:
        """Of every row of the stripe, whether it is wanted, for ``filter``."""
        return bool_array(self._flags, None)

    @property
    def _flags(self) -> npt.NDArray[np.bool_]:
        if self.wanted is None:
            flags = np.ones(self.num_rows, np.bool_)
            if self.others is not None:
                flags[self.others] = False
        else:
            flags = np.zeros(self.num_rows, np.bool_)
            flags[self.wanted] = True
        return flags

    def to_indices(self) -> pa.Array:
        """The rows as an Arrow array, for ``take``.

        Made from its buffer: ``pyarrow.array`` would import pandas, where it is installed, to look for its types.
        """
        rows = np.ascontiguousarray(self.to_array())
        return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows)])

    def count_groups(self, stride: int) -> int:
        """How many row groups of ``stride`` rows the selection touches."""
        if stride <= 0 or stride >= self.num_rows:
            return min(len(self), 1)
        count = -(-self.num_rows // stride)
        if self.wanted is None:
            gone = np.zeros(0, np.int64) if self.others is None else self.others
            last = self.num_rows - (count - 1) * stride
            lacking = np.bincount(gone // stride, minlength=count)
            return count - int(np.count_nonzero(lacking[:-1] == stride)) - int(lacking[-1] == last)
        rows = self.wanted
        if len(rows) <= count:
            return len(np.unique(rows // stride))
        edges = rows.searchsorted(np.arange(count + 1, dtype=np.int64) * stride)
        return int(np.count_nonzero(edges[1:] - edges[:-1]))

    def groups(self, stride: int) -> GroupedRows:
        """The selection by row groups of ``stride`` rows; 0 makes the stripe one group."""
        rows = self.to_array()
        if stride <= 0 or stride >= self.num_rows:
            ids = np.zeros(1 if len(rows) else 0, np.int64)
            return GroupedRows(ids, np.array([0, len(rows)] if len(rows) else [0], np.int64), rows)
        count = -(-self.num_rows // stride)
        if len(rows) > count:
            edges = rows.searchsorted(np.arange(count + 1, dtype=np.int64) * stride)
            counts = edges[1:] - edges[:-1]
            ids = counts.nonzero()[0]
            offsets = np.append(edges[ids], len(rows))
        else:
            # a look at each row costs less than one at each row group
            group_of_row = rows // stride
            ids, starts = np.unique(group_of_row, return_index=True)
            offsets = np.append(starts, len(rows))
        return GroupedRows(ids, offsets, rows - np.repeat(ids * stride, offsets[1:] - offsets[:-1]))


@dataclass(frozen=True, slots=True, eq=False)
class GroupedRows:
    """A selection cut by row group.

    ``ids`` are the G touched row groups, ascending; ``rows`` the wanted rows, numbered within their row
    group; those of the i-th touched group are ``rows[offsets[i]:offsets[i + 1]]``.
    """

    ids: Rows
    offsets: Rows
    rows: Rows

    def part(self, begin: int, end: int) -> GroupedRows:
        """Some of the touched groups."""
        if begin == 0 and end == len(self.ids):
            return self
        first, last = int(self.offsets[begin]), int(self.offsets[end])
        return GroupedRows(self.ids[begin:end], self.offsets[begin : end + 1] - first, self.rows[first:last])

    def last(self) -> Rows:
        """The last wanted row of each touched group."""
        return self.rows[self.offsets[1:] - 1]


def as_rows(rows: BitMap | BitMap64 | npt.NDArray[Any] | pa.Array | Iterable[int]) -> Rows:
    """Row numbers as a sorted, distinct int64 array: a set of rows, in whatever order and how often given.

    :raises ArgumentError: for anything but whole numbers.
    """
    if isinstance(rows, BitMap):
        return (
            np.frombuffer(rows.to_array(), np.uint32).astype(np.int64) if len(rows) else np.zeros(0, np.int64)
        )
    given: object = rows
    if not isinstance(given, Iterable):
        raise ArgumentError(f"rows is {rows!r}: it is a list of row numbers, such as [0, 5]")
    found: npt.NDArray[Any]
    if isinstance(rows, BitMap64):
        found = np.array(rows.to_array(), np.uint64)
    elif isinstance(rows, pa.Array | pa.ChunkedArray):
        if rows.null_count:
            raise ArgumentError(f"rows are whole numbers, and {rows.null_count} of {len(rows)} are null")
        found = rows.to_numpy(zero_copy_only=False) if isinstance(rows, pa.Array) else rows.to_numpy()
    else:
        found = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows))
    if found.size and found.dtype.kind == "b":
        raise ArgumentError("rows are row numbers, not a mask: numpy.flatnonzero(mask) gives those of a mask")
    if found.size and found.dtype.kind not in "iu":
        raise ArgumentError(f"rows are whole numbers of at most 64 bits, not {found.dtype}")
    if found.dtype.kind == "u" and found.size and int(found.max()) > np.iinfo(np.int64).max:
        raise ArgumentError(f"row {int(found.max())} is outside of every file")
    found = found.astype(np.int64).ravel()
    return found if len(found) < 2 or bool(np.all(np.diff(found) > 0)) else np.unique(found)
