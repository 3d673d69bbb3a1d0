"""Which way to decode a column: only the wanted values, or the whole column.

The figures are what decoding costs per unit, measured on TPC-H lineitem; their ratios are what counts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType


class DecodePath(enum.Enum):
    """How a column of a stripe is decoded."""

    SPARSE = "sparse"
    """Only the compression chunks and values of the wanted rows."""
    DENSE = "dense"
    """The whole column by pyarrow, then the wanted rows are taken."""
    WHOLE = "whole"
    """The whole column by hindex's own decoders, then the wanted rows are taken."""


@dataclass(frozen=True, slots=True)
class ColumnCost:
    """Nanoseconds: per touched row group and selected row when sparse, per row of the stripe when dense."""

    group: float
    row: float
    dense_row: float


_COSTS = {
    "integer": ColumnCost(40_000, 60, 6),
    "date": ColumnCost(40_000, 60, 10),
    "floating": ColumnCost(60_000, 30, 6),
    "decimal": ColumnCost(110_000, 120, 20),
    "string": ColumnCost(200_000, 250, 36),
    "dictionary": ColumnCost(100_000, 100, 18),
    "boolean": ColumnCost(30_000, 40, 3),
}


def column_cost(of: OrcType, *, is_dictionary: bool) -> ColumnCost:
    """What decoding a column of a type costs."""
    if of.kind in STRING_KINDS or of.kind == Kind.BINARY:
        return _COSTS["dictionary" if is_dictionary else "string"]
    if of.kind in INTEGER_KINDS:
        return _COSTS["integer"]
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return _COSTS["floating"]
    if of.kind == Kind.DECIMAL:
        return _COSTS["decimal"]
    return _COSTS["boolean" if of.kind == Kind.BOOLEAN else "date"]


def choose_path(
    of: OrcType, *, is_dictionary: bool, groups: int, rows: int, stripe_rows: int, can_be_dense: bool
) -> DecodePath:
    """The cheaper path for ``rows`` selected rows in ``groups`` row groups of a stripe."""
    if not of.is_primitive:
        return DecodePath.WHOLE
    if not can_be_dense:
        return DecodePath.SPARSE
    cost = column_cost(of, is_dictionary=is_dictionary)
    sparse = groups * cost.group + rows * cost.row
    return DecodePath.SPARSE if sparse < stripe_rows * cost.dense_row else DecodePath.DENSE
