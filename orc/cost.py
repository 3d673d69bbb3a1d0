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

#: The sparse path's: of each node, of each touched row group, of each selected value that is gathered, and of each one
#: that is taken from among others which are decoded as well.
NODE_NS = 500_000.0
GROUP_NS = 8_000
VALUE_NS = 35.0
TAKEN_NS = 10.0
#: Of each header of a run walked over; and besides in few row groups, which share this out among them if they are more.
RUN_NS = 15
STEP_NS = 85
SHARING_GROUPS = 40
#: Of each element of a selected list but its first: they lie side by side.
ELEMENT_NS = 30
#: Of each selected floating-point number, besides.
FLOATING_NS = 25
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
#: Of each selected text: it is copied once more as it is taken.
TAKEN_TEXT_NS = 5
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

#: Fewer values are never worth a call of pyarrow's.
LEAST_HANDED_OVER = 4096
#: One in so many values of the row groups must be wanted for pyarrow to decode a column of them.
FILLED = 4


@dataclass(frozen=True, slots=True)
class NodeData:
    """What a stripe has of a node: ``values`` that are not null, of ``places``, in so many compressed bytes.

    ``is_vetted`` where its lengths need not be looked at any more before pyarrow gets them; ``can_hand_over`` where
    pyarrow can decode the values of some row groups only.
    """

    places: int
    values: int
    data_bytes: int
    present_bytes: int
    is_dictionary: bool
    is_vetted: bool
    can_hand_over: bool


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
    gathered = wanted.rows * min(per_row, 1)
    # of the rows of the touched row groups; the last one may have fewer than the others
    density = min(1.0, wanted.rows / (wanted.stripe_rows * touched))
    # of r values spread over a row group, the last lies r / (r + 1) of the way into it
    walked = values * per_group / (per_group + 1)
    if marked:
        walked = min(walked, wanted.rows * VALUES_APART / 2)
    is_text, is_decimal = _is_text(of, stored), of.kind == Kind.DECIMAL
    cost = NODE_NS + wanted.groups * GROUP_NS
    cost += stored.data_bytes * touched * (TEXT_BYTE_NS if is_text else BYTE_NS)
    if stored.present_bytes:
        cost += stored.places * touched * PRESENT_NS
    cost += wanted.rows * max(per_row - 1, 0) * ELEMENT_NS
    if is_text or of.kind in LENGTH_KINDS:
        cost += walked * (LENGTH_NS + LENGTH_RUN_NS * runs_per_value)
        cost += gathered * (TAKEN_NS if density == 1 else VALUE_NS)
        # neighbours are gathered at once: what matters are the gaps within the touched row groups
        return cost + (wanted.rows * per_row * (1 - density) * TEXT_NS if is_text else 0)
    if stored.is_dictionary or is_decimal:
        if stored.can_hand_over and is_filled(values, values * density):
            return (
                cost + _HANDOVER_CALL_NS + gathered * TAKEN_NS + _decoding(of, stored, values, runs_per_value)
            )
        cost += gathering_cost(walked, gathered, wanted.groups, runs_per_value)
        return cost + (wanted.rows * per_row * DECIMAL_NS + walked * VARINT_NS if is_decimal else 0)
    gathering = gathering_cost(walked, gathered, wanted.groups, runs_per_value)
    if of.kind in (Kind.FLOAT, Kind.DOUBLE):
        return cost + gathering + gathered * FLOATING_NS
    if not stored.can_hand_over:
        return cost + gathering
    # of the touched row groups, so many have another one before them
    ranges = 1 + wanted.groups * (1 - touched)
    return cost + min(gathering, handover_cost(values, gathered, ranges, runs_per_value))


def dense_cost(of: OrcType, stored: NodeData, wanted: Wanted, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode all values of a node; see :func:`sparse_cost`."""
    is_text = _is_text(of, stored)
    cost = _decoding(of, stored, stored.values, runs_per_value)
    if is_text or stored.is_dictionary:
        cost += wanted.rows * stored.values / wanted.stripe_rows * TAKEN_TEXT_NS
    if (is_text or of.kind in LENGTH_KINDS) and not stored.is_vetted:
        cost += stored.values * VETTING_RUN_NS * runs_per_value
    cost += stored.data_bytes * (TEXT_BYTE_NS + COPY_BYTE_NS if is_text else BYTE_NS)
    return cost + stored.present_bytes * (TEXT_NULLS_BYTE_NS if is_text else NULLS_BYTE_NS)


def _decoding(of: OrcType, stored: NodeData, values: float, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode so many values of a node from what is decompressed."""
    each = ENTRY_NS if stored.is_dictionary else DENSE_VALUE_NS.get(of.kind, PLAIN_NS)
    return values * (each + DENSE_RUN_NS * runs_per_value)


def _is_text(of: OrcType, stored: NodeData) -> bool:
    return not stored.is_dictionary and (of.kind in STRING_KINDS or of.kind in BINARY_KINDS)


#: Nanoseconds that pyarrow takes to decode integers: for a call, a value, a run; and to cut out a range first, and
#: to take each wanted value, besides, the more others lie between them.
_HANDOVER_CALL_NS = 100_000
_HANDOVER_VALUE_NS = 2
_HANDOVER_RUN_NS = 22
_HANDOVER_RANGE_NS = 10_000
_HANDOVER_GAP_NS = 20
#: And what numpy takes for each run and value when it decodes all.
_DECODE_RUN_NS = 350
_DECODE_VALUE_NS = 6


def is_filled(total: float, wanted: float) -> bool:
    """Whether so many values of the touched row groups are wanted that pyarrow may as well decode them all."""
    return LEAST_HANDED_OVER <= total <= FILLED * wanted


def handover_pays(
    total: int, wanted: int, groups: int, ranges: int, runs_per_value: float, walked: int
) -> bool:
    """Whether pyarrow decodes integers faster than they are decoded here.

    :param total: values of all touched row groups, which pyarrow decodes.
    :param wanted: how many of them are wanted.
    :param groups: how many row groups these are.
    :param ranges: in so many ranges that do not adjoin.
    :param walked: how many values lie before the last wanted ones.
    """
    theirs = handover_cost(total, wanted, ranges, runs_per_value)
    if wanted == total:
        return theirs < total * (TAKEN_NS + _DECODE_VALUE_NS + _DECODE_RUN_NS * runs_per_value)
    return theirs < gathering_cost(walked, wanted, groups, runs_per_value)


def gathering_cost(walked: float, wanted: float, groups: float, runs_per_value: float) -> float:
    """Nanoseconds to decode the wanted integers only; see :func:`handover_pays`."""
    run = RUN_NS + STEP_NS * min(1.0, SHARING_GROUPS / groups)
    return walked * run * runs_per_value + wanted * VALUE_NS


def handover_cost(total: float, wanted: float, ranges: float, runs_per_value: float) -> float:
    """Nanoseconds for pyarrow to decode integers that are handed over, and to take the wanted ones."""
    fixed = _HANDOVER_CALL_NS + ranges * _HANDOVER_RANGE_NS
    each = TAKEN_NS + _HANDOVER_GAP_NS * (1 - wanted / max(total, 1))
    return fixed + total * (_HANDOVER_VALUE_NS + _HANDOVER_RUN_NS * runs_per_value) + wanted * each
