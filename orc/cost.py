"""Which way to decode a column: only the wanted values, or the whole column.

The figures are what decoding costs per unit, measured on TPC-H lineitem, and for nulls, lists and short runs on
the events of ``tests/bench``; their ratios are what counts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from hindex.orc.marks import VALUES_APART
from hindex.orc.types import BINARY_KINDS, STRING_KINDS, Kind, OrcType


class DecodePath(enum.Enum):
    """How a column of a stripe is decoded."""

    SPARSE = "sparse"
    """Only the compression chunks and values of the wanted rows."""
    DENSE = "dense"
    """The whole column by pyarrow, then the wanted rows are taken."""
    WHOLE = "whole"
    """The whole column by hindex's own decoders, then the wanted rows are taken."""


#: Nanoseconds of what both ways do, for each compressed byte that is decompressed: text is packed more tightly.
BYTE_NS = 1.5
TEXT_BYTE_NS = 2.2

#: The sparse path's: of each node, of each touched row group, of each header of a run walked over, and of each
#: selected value.
NODE_NS = 300_000.0
GROUP_NS = 10_000
RUN_NS = 35
VALUE_NS = 35.0
#: Of each element of a selected list but its first: they lie side by side.
ELEMENT_NS = 30
#: Of each selected decimal, besides, and of each one before it.
DECIMAL_NS = 125
VARINT_NS = 2
#: Of each selected direct string, besides: its bytes are gathered from among those of others that are not wanted.
TEXT_NS = 150
#: Of each value of the touched row groups that may be null: all are counted.
PRESENT_NS = 3
#: Of each length of a direct string or a list from a row group's start to the wanted one, and of each of their runs:
#: they are decoded, not walked over.
LENGTH_NS = 6
LENGTH_RUN_NS = 210

#: The dense path's: of each column, and of each run that pyarrow decodes.
COLUMN_NS = 150_000.0
DENSE_RUN_NS = 22.0
#: Of each run of lengths, besides, that are looked at first and only once; see :mod:`hindex.orc.vetting`.
VETTING_RUN_NS = 80
#: Of each compressed byte of text, besides: it is copied.
COPY_BYTE_NS = 0.8
#: Of each compressed byte that tells of nulls: the more of them, the less foreseeable is where values are null.
NULLS_BYTE_NS = 40
TEXT_NULLS_BYTE_NS = 160
#: Of each value, by its kind; of a dictionary's entries; and of others.
DENSE_VALUE_NS = {Kind.DECIMAL: 7.5, Kind.LIST: 20.0, Kind.MAP: 20.0} | dict.fromkeys(
    STRING_KINDS | BINARY_KINDS, 10.0
)
ENTRY_NS = 10.0
PLAIN_NS = 1.4

#: Kinds whose values are told by their lengths and their children.
LENGTH_KINDS = frozenset({Kind.LIST, Kind.MAP})

#: Nanoseconds of each compressed byte that is fetched from a remote store: some 100 MB/s.
REMOTE_BYTE_NS = 10.0

#: No stream has more run headers for each value, but for a few.
MOST_RUNS = 0.25

#: With fewer touched row groups, which are a small part of all or of few rows, the sparse path wins whatever the data
#: is like: that need not be weighed.
FEW_GROUPS = 12
FEW_ROWS = 100
SMALL_PART = 4


@dataclass(frozen=True, slots=True)
class NodeData:
    """What a stripe has of a node: ``values`` that are not null, of ``places``, in so many compressed bytes.

    ``is_vetted`` where its lengths need not be looked at any more before pyarrow gets them.
    """

    places: int
    values: int
    data_bytes: int
    present_bytes: int
    is_dictionary: bool
    is_vetted: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """``rows`` of ``stripe_rows`` rows are wanted, and lie in ``groups`` of ``all_groups`` row groups."""

    groups: int
    all_groups: int
    rows: int
    stripe_rows: int


def sparse_cost(
    of: OrcType, stored: NodeData, wanted: Wanted, runs_per_value: float, *, marked: bool = False
) -> float:
    """Nanoseconds to decode only the wanted values of a node.

    :param runs_per_value: run headers for each value, over its run-length streams.
    :param marked: whether the way to a value starts near it.
    """
    per_group = wanted.rows / wanted.groups
    touched = wanted.groups / wanted.all_groups
    per_row = stored.values / wanted.stripe_rows
    values = stored.values * touched
    # of r values spread over a row group, the last lies r / (r + 1) of the way into it
    walked = values * per_group / (per_group + 1)
    if marked:
        walked = min(walked, wanted.rows * VALUES_APART / 2)
    is_text = _is_text(of, stored)
    cost = NODE_NS + wanted.groups * GROUP_NS
    cost += stored.data_bytes * touched * (TEXT_BYTE_NS if is_text else BYTE_NS)
    if stored.present_bytes:
        cost += stored.places * touched * PRESENT_NS
    if is_text or of.kind in LENGTH_KINDS:
        cost += walked * (LENGTH_NS + LENGTH_RUN_NS * runs_per_value)
    else:
        runs = walked * runs_per_value * RUN_NS
        if not stored.is_dictionary and of.kind != Kind.DECIMAL:
            # of the touched row groups, so many have another one before them
            ranges = 1 + wanted.groups * (1 - touched)
            runs = min(runs, handover_cost(values, ranges, runs_per_value))
        cost += runs
    each = min(per_row, 1) * VALUE_NS + max(per_row - 1, 0) * ELEMENT_NS
    if of.kind == Kind.DECIMAL:
        each += per_row * DECIMAL_NS
        cost += walked * VARINT_NS
    if is_text:
        # neighbours are gathered at once: what matters are the gaps within the touched row groups
        each += per_row * max(0.0, 1 - wanted.rows / (wanted.stripe_rows * touched)) * TEXT_NS
    return cost + wanted.rows * each


def dense_cost(of: OrcType, stored: NodeData, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode all values of a node; see :func:`sparse_cost`."""
    is_text = _is_text(of, stored)
    run = DENSE_RUN_NS
    if (is_text or of.kind in LENGTH_KINDS) and not stored.is_vetted:
        run += VETTING_RUN_NS
    each = ENTRY_NS if stored.is_dictionary else DENSE_VALUE_NS.get(of.kind, PLAIN_NS)
    cost = stored.values * (each + run * runs_per_value)
    cost += stored.data_bytes * (TEXT_BYTE_NS + COPY_BYTE_NS if is_text else BYTE_NS)
    return cost + stored.present_bytes * (TEXT_NULLS_BYTE_NS if is_text else NULLS_BYTE_NS)


def _is_text(of: OrcType, stored: NodeData) -> bool:
    return not stored.is_dictionary and (of.kind in STRING_KINDS or of.kind in BINARY_KINDS)


#: Nanoseconds that pyarrow takes to decode integers: for a call, a value, a run; and to cut out a range first.
_HANDOVER_CALL_NS = 200_000
_HANDOVER_VALUE_NS = 2
_HANDOVER_RUN_NS = 22
_HANDOVER_RANGE_NS = 120_000
#: And what numpy takes for each run and value when it decodes all, and for each run when it walks over them: in few row
#: groups at least, among which the work is shared out.
_DECODE_RUN_NS = 350
_WALK_RUN_NS = 115
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
    return theirs < walked * _WALK_RUN_NS * runs_per_value


def handover_cost(total: float, ranges: float, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode integers that are handed over; see :func:`handover_pays`."""
    fixed = _HANDOVER_CALL_NS + ranges * _HANDOVER_RANGE_NS
    return fixed + total * (_HANDOVER_VALUE_NS + _HANDOVER_RUN_NS * runs_per_value)
