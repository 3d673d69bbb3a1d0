"""Which streams a column has, and how a row index entry's numbers are dealt out to them.

Source: ORC specification v1, "Column Encodings" and "Row Index". An entry lists, stream by stream, the
chunk's offset (compressed files only), the byte within the chunk's content, and then how many values of the
run there belong to earlier row groups; boolean streams add the bit within the byte.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.streams import Places
from hindex.orc.stripe import EncodingKind, StreamKind, Stripe
from hindex.orc.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType

Ints = npt.NDArray[np.int64]

#: Numbers in a position after the place itself, by how the stream is encoded.
_BYTES, _RUNS, _BITS = 0, 1, 2


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


def run_streams(of: OrcType, encoding: EncodingKind, version: tuple[int, int]) -> tuple[StreamKind, ...]:
    """The streams of a primitive column that are run-length encoded integers."""
    if of.kind == Kind.BYTE:
        return ()
    return tuple(kind for kind, extra in stream_layout(of, encoding, version) if extra == _RUNS)


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
) -> dict[StreamKind, Places] | None:
    """The places of touched row groups, by stream.

    :returns: None where the entries do not have the numbers that the layout asks for.
    """
    place = 2 if compressed else 1
    present = place + _BITS
    full = ((StreamKind.PRESENT, _BITS), *layout) if has_present else tuple(layout)
    length = sum(place + extra for _, extra in full)
    # a writer that drops a PRESENT stream without nulls may leave its numbers in the entries
    dropped = 0 if has_present else present
    if any(group >= len(entries) for group in groups):
        return None
    wanted = sorted({g for group in groups for g in (group, group + 1) if g < len(entries)})
    rows = []
    for group in wanted:
        numbers = list(entries[group])
        if len(numbers) == length + dropped:
            numbers = numbers[dropped:]
        elif len(numbers) != length:
            return None
        rows.append(numbers)
    try:
        table = np.array(rows, np.int64).reshape(len(rows), length)
    except OverflowError:
        return None
    at_start = np.searchsorted(wanted, groups)
    has_end = np.array([group + 1 < len(entries) for group in groups], bool)
    at_end = np.where(has_end, at_start + 1, 0)
    found: dict[StreamKind, Places] = {}
    at = 0
    for kind, extra in full:
        chunk, inner = table[:, at], table[:, at + 1] if compressed else np.zeros(len(rows), np.int64)
        skip = _skips(table, at + place, extra)
        found[kind] = Places(
            chunk=chunk[at_start],
            inner=inner[at_start],
            skip=skip[at_start],
            end_chunk=np.where(has_end, chunk[at_end], -1),
            end_inner=np.where(has_end, inner[at_end], 0),
            end_skip=np.where(has_end, skip[at_end], 0),
        )
        at += place + extra
    return found


def whole_stream(layout: Sequence[tuple[StreamKind, int]], *, has_present: bool) -> dict[StreamKind, Places]:
    """Places that make the whole stripe one group: for files without a row index."""
    kinds = [kind for kind, _ in layout] + ([StreamKind.PRESENT] if has_present else [])
    return {kind: Places.whole() for kind in kinds}


def has_present(stripe: Stripe, column: int) -> bool:
    return (column, StreamKind.PRESENT) in stripe.streams


def _skips(table: Ints, at: int, extra: int) -> Ints:
    if extra == _BYTES:
        return np.zeros(len(table), np.int64)
    return table[:, at] if extra == _RUNS else table[:, at] * 8 + table[:, at + 1]
