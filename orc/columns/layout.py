"""Which streams a column has, and how a row index entry's numbers are dealt out to them.

Source: ORC specification v1, "Column Encodings" and "Row Index". An entry lists, stream by stream, the
chunk's offset (compressed files only), the byte within the chunk's content, and then how many values of the
run there belong to earlier row groups; boolean streams add the bit within the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hindex.errors import OrcError
from hindex.orc.streams import Position
from hindex.orc.stripe import EncodingKind, StreamKind, Stripe
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType

#: Numbers in a position after the place itself, by how the stream is encoded.
_BYTES, _RUNS, _BITS = 0, 1, 2


@dataclass(slots=True)
class StreamPositions:
    """Where each touched row group starts and ends in one stream.

    ``skips[g]`` values of the run at ``starts[g]`` belong to earlier row groups (bits, for boolean streams);
    ``end_skips[g]`` values of the run at ``ends[g]`` still belong to row group g. An end of None is the
    stream's end.
    """

    starts: list[Position] = field(default_factory=list)
    skips: list[int] = field(default_factory=list)
    ends: list[Position | None] = field(default_factory=list)
    end_skips: list[int] = field(default_factory=list)


def stream_layout(
    of: OrcType, encoding: EncodingKind, version: tuple[int, int]
) -> tuple[tuple[StreamKind, int], ...]:
    """The streams that hold a primitive column's values, in the order of its positions; PRESENT excluded."""
    kind = of.kind
    if kind in STRING_KINDS or kind == Kind.BINARY:
        if encoding.is_dictionary:
            return ((StreamKind.DATA, _RUNS),)
        return ((StreamKind.DATA, _BYTES), (StreamKind.LENGTH, _RUNS))
    if kind in INTEGER_KINDS or kind == Kind.DATE:
        return ((StreamKind.DATA, _RUNS),)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return ((StreamKind.DATA, _BYTES),)
    if kind == Kind.BOOLEAN:
        return ((StreamKind.DATA, _BITS),)
    if kind == Kind.DECIMAL:
        if is_decimal64(of, version):
            return ((StreamKind.DATA, _RUNS),)
        return ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _RUNS))
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        return ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS))
    raise OrcError(f"values of type {of} have no row positions")


def is_decimal64(of: OrcType, version: tuple[int, int]) -> bool:
    """Whether a decimal is held as plain integers, as pre-releases of version 2.0 write short ones."""
    return version == (1, 9999) and 0 < of.precision <= 18


def deal_positions(
    layout: Sequence[tuple[StreamKind, int]],
    entries: Sequence[Sequence[int]],
    groups: Sequence[int],
    *,
    compressed: bool,
    has_present: bool,
) -> dict[StreamKind, StreamPositions] | None:
    """The positions of touched row groups, by stream.

    :returns: None where the entries do not have the numbers that the layout asks for.
    """
    place = 2 if compressed else 1
    present = place + _BITS
    needed = sum(place + extra for _, extra in layout)
    full = ((StreamKind.PRESENT, _BITS), *layout) if has_present else tuple(layout)
    length = needed + (present if has_present else 0)
    # a writer that drops a PRESENT stream without nulls may leave its numbers in the entries
    dropped = 0 if has_present else present
    found: dict[StreamKind, StreamPositions] = {kind: StreamPositions() for kind, _ in full}
    for group in groups:
        if group >= len(entries):
            return None
        numbers = entries[group]
        skip = _leading(len(numbers), length, dropped)
        following = entries[group + 1] if group + 1 < len(entries) else None
        end_skip = skip if following is None else _leading(len(following), length, dropped)
        if skip is None or end_skip is None:
            return None
        at, end_at = skip, end_skip
        for kind, extra in full:
            into = found[kind]
            into.starts.append(_position(numbers, at, compressed))
            into.skips.append(_extra(numbers, at + place, extra))
            if following is None:
                into.ends.append(None)
                into.end_skips.append(0)
            else:
                into.ends.append(_position(following, end_at, compressed))
                into.end_skips.append(_extra(following, end_at + place, extra))
            at += place + extra
            end_at += place + extra
    return found


def whole_stream(
    layout: Sequence[tuple[StreamKind, int]], *, has_present: bool
) -> dict[StreamKind, StreamPositions]:
    """Positions that make the whole stripe one group: for files without a row index."""
    kinds = [kind for kind, _ in layout] + ([StreamKind.PRESENT] if has_present else [])
    return {kind: StreamPositions([Position(0, 0)], [0], [None], [0]) for kind in kinds}


def has_present(stripe: Stripe, column: int) -> bool:
    return (column, StreamKind.PRESENT) in stripe.streams


def _leading(count: int, length: int, dropped: int) -> int | None:
    if count == length:
        return 0
    return dropped if dropped and count == length + dropped else None


def _position(numbers: Sequence[int], at: int, compressed: bool) -> Position:
    return Position(numbers[at], numbers[at + 1]) if compressed else Position(numbers[at], 0)


def _extra(numbers: Sequence[int], at: int, extra: int) -> int:
    if extra == _BYTES:
        return 0
    return numbers[at] if extra == _RUNS else numbers[at] * 8 + numbers[at + 1]
