"""Which way to decode a column: only the wanted values, or the whole column.

The figures are what decoding costs per unit, measured on TPC-H lineitem; their ratios are what counts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hindex.orc.marks import VALUES_APART
from hindex.orc.types import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind, OrcType


class DecodePath(enum.Enum):
    """How a column of a stripe is decoded."""

    SPARSE = "sparse"
    """Only the compression chunks and values of the wanted rows."""
    DENSE = "dense"
    """The whole column by pyarrow, then the wanted rows are taken."""
    WHOLE = "whole"
    """The whole column by hindex's own decoders, then the wanted rows are taken."""


#: Nanoseconds: of each touched row group, of each header of a run walked over, and of each selected value.
GROUP_NS = 30_000
RUN_NS = 115
VALUE_NS = 100
#: Of each element of a selected list but its first: they lie side by side.
ELEMENT_NS = 30
#: Of each selected decimal, besides.
DECIMAL_NS = 300
#: Of each selected direct string, besides: its bytes are gathered from among those of others that are not wanted.
TEXT_NS = 100

#: Nanoseconds of each compressed byte of the chunks that are decompressed: text is packed more tightly.
BYTE_NS = 1.0
TEXT_BYTE_NS = 3.0

#: Kinds whose values are told by their lengths and their children.
LENGTH_KINDS = frozenset({Kind.LIST, Kind.MAP})
#: Nanoseconds of each list or map that pyarrow decodes, without its elements.
LIST_NS = 25.0

#: Nanoseconds that the length of a direct string or a list takes, for each value from a row group's start to the wanted
#: one.
LENGTH_NS = 8

#: Nanoseconds of each compressed byte that is fetched from a remote store: some 100 MB/s.
REMOTE_BYTE_NS = 10.0

#: With fewer touched row groups the sparse path wins whatever the data is like.
FEW_GROUPS = 12


@dataclass(frozen=True, slots=True)
class Work:
    """What the sparse path would have to do for one column of a stripe.

    ``groups`` of ``all_groups`` row groups are touched, for ``rows`` of ``stripe_rows`` rows; the column has
    ``per_row`` values for each row, ``stream_bytes`` compressed bytes, and its run-length streams ``runs_per_value``
    headers for each value. Where it is ``marked``, the way to a value starts near it.
    """

    groups: int
    all_groups: int
    rows: int
    stripe_rows: int
    per_row: float
    stream_bytes: int
    runs_per_value: float
    marked: bool = False


def sparse_cost(of: OrcType, work: Work, *, is_dictionary: bool) -> float:
    """Nanoseconds to decode only the wanted values."""
    per_group = work.rows / work.groups
    touched = work.groups / work.all_groups
    values = work.stripe_rows * work.per_row * touched
    # of r values spread over a row group, the last lies r / (r + 1) of the way into it
    walked = values * per_group / (per_group + 1)
    if work.marked:
        walked = min(walked, work.rows * VALUES_APART / 2)
    cost = least_sparse_cost(of, work.groups, work.rows, work.per_row)
    is_text = not is_dictionary and (of.kind in STRING_KINDS or of.kind in BINARY_KINDS)
    has_lengths = is_text or of.kind in LENGTH_KINDS
    runs = walked * work.runs_per_value * RUN_NS
    if not has_lengths and not is_dictionary:
        # of the touched row groups, so many have another one before them
        ranges = 1 + work.groups * (1 - touched)
        runs = min(runs, handover_cost(values, ranges, work.runs_per_value))
    cost += runs
    cost += work.stream_bytes * touched * (TEXT_BYTE_NS if is_text else BYTE_NS)
    if has_lengths:
        cost += walked * LENGTH_NS
    if not is_text:
        return cost
    # neighbours are gathered at once: what matters are the gaps within the touched row groups
    gaps = 1 - work.rows / (work.stripe_rows * touched)
    return cost + work.rows * work.per_row * max(0.0, gaps) * TEXT_NS


def least_sparse_cost(of: OrcType, groups: int, rows: int, per_row: float) -> float:
    """Nanoseconds that the sparse path takes at least for rows of so many values each, whatever the data is like."""
    cost = min(per_row, 1) * VALUE_NS + max(per_row - 1, 0) * ELEMENT_NS
    if of.kind == Kind.DECIMAL:
        cost += per_row * DECIMAL_NS
    return groups * GROUP_NS + rows * cost


def dense_cost(of: OrcType, values: int, stream_bytes: int, *, is_dictionary: bool) -> float:
    """Nanoseconds for pyarrow to decode the whole column, which has so many values in so many compressed bytes."""
    if of.kind in STRING_KINDS or of.kind in BINARY_KINDS:
        return values * 18.0 if is_dictionary else values * 35.0 + stream_bytes * BYTE_NS
    if of.kind in INTEGER_KINDS or of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return max(values * 6.1, values * 4.0 + stream_bytes * BYTE_NS)
    if of.kind == Kind.DECIMAL:
        return values * 26.0
    if of.kind in LENGTH_KINDS:
        return values * LIST_NS
    return values * 4.7


#: Nanoseconds that pyarrow takes to decode integers: for a call, a value, a run; and to cut out a range first.
_HANDOVER_CALL_NS = 200_000
_HANDOVER_VALUE_NS = 2
_HANDOVER_RUN_NS = 22
_HANDOVER_RANGE_NS = 120_000
#: And what numpy takes for each run and value when it decodes all, where it walks over them being :data:`RUN_NS`.
_DECODE_RUN_NS = 350
_DECODE_VALUE_NS = 6


def handover_pays(total: int, ranges: int, runs_per_value: float, walked: int | None) -> bool:
    """Whether pyarrow decodes integers faster than they are decoded here.

    :param total: values of all touched row groups, which pyarrow decodes.
    :param ranges: in so many ranges that do not adjoin.
    :param walked: how many values lie before the last wanted ones; None where all are wanted.
    """
    theirs = handover_cost(total, ranges, runs_per_value)
    if walked is None:
        return theirs < total * (_DECODE_VALUE_NS + _DECODE_RUN_NS * runs_per_value)
    return theirs < walked * RUN_NS * runs_per_value


def handover_cost(total: float, ranges: float, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode integers that are handed over; see :func:`handover_pays`."""
    fixed = _HANDOVER_CALL_NS + ranges * _HANDOVER_RANGE_NS
    return fixed + total * (_HANDOVER_VALUE_NS + _HANDOVER_RUN_NS * runs_per_value)
