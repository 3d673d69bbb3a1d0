"""Row indexes as arrays of positions: the beginning of each row group in the streams of a column.

Source: ORC specification v1, "Column Encodings" and "Row Index". An entry has, for each stream, the chunk's offset
(compressed files only), the byte within the chunk's content, and the number of values of the run there that belong
to earlier row groups; boolean streams add the bit within the byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from hindex.orc.metadata.stripe import EncodingKind, StreamKind, Stripe, is_decimal64
from hindex.orc.metadata.types import BINARY_KINDS, INTEGER_KINDS, STRING_KINDS, Kind, OrcType

Ints = npt.NDArray[np.int64]

#: The number of numbers in a position after the location itself, by the encoding of the stream.
_BYTES, _RUNS, _BITS = 0, 1, 2

#: No stream is so long. The kernel accepts up to twice as much, and eight times as much fits into 64 bits.
_MAX_POSITION = 1 << 53

#: No run has so many values: a run of integers has 512, and a run of booleans 130 bytes.
_MAX_SKIP = 1 << 16


def stream_layout(
    data_type: OrcType, encoding: EncodingKind, version: tuple[int, int]
) -> tuple[tuple[StreamKind, int], ...]:
    """List the streams of a column's values, in the order of its positions, without PRESENT."""
    kind = data_type.kind
    if kind in STRING_KINDS or kind in BINARY_KINDS:
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
        if is_decimal64(data_type, version):
            return ((StreamKind.DATA, _RUNS),)
        return ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _RUNS))
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        return ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS))
    if kind in (Kind.LIST, Kind.MAP):
        return ((StreamKind.LENGTH, _RUNS),)
    if kind == Kind.UNION:
        return ((StreamKind.DATA, _RUNS),)
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class StreamPositions:
    """The positions of the G row groups of a stripe in one stream; int64 arrays of length G.

    ``chunk`` is the offset of a chunk's header and ``inner`` the byte within its content; in an uncompressed stream,
    ``chunk`` is the byte and ``inner`` 0. ``skip`` values of the run there (bits, in boolean streams) belong to
    earlier row groups.
    """

    chunk: Ints
    inner: Ints
    skip: Ints

    def __len__(self) -> int:
        return len(self.chunk)


RowIndexPositions = dict[StreamKind, StreamPositions]


def parse_positions(
    layout: Sequence[tuple[StreamKind, int]],
    entries: Sequence[Sequence[int]],
    *,
    is_compressed: bool,
    has_present: bool,
) -> RowIndexPositions | None:
    """Split the numbers of a column's row index entries by stream.

    Returns:
        None if the entries do not fit the layout, do not ascend, or exceed any stream or run, so that their sums would
        overflow.
    """
    location_length = 2 if is_compressed else 1
    full = ((StreamKind.PRESENT, _BITS), *layout) if has_present else tuple(layout)
    length = sum(location_length + extra for _, extra in full)
    # a writer that omits a PRESENT stream without nulls may still write its numbers into the entries
    dropped = 0 if has_present else location_length + _BITS
    lengths = {len(entry) for entry in entries}
    try:
        if lengths == {length}:
            numbers = np.fromiter(chain.from_iterable(entries), np.int64, len(entries) * length)
        elif lengths <= {length, length + dropped}:
            kept = [list(entry)[len(entry) - length :] for entry in entries]
            numbers = np.fromiter(chain.from_iterable(kept), np.int64, len(entries) * length)
        else:
            return None
    except OverflowError:
        return None
    if len(numbers) and int(numbers.max()) > _MAX_POSITION:
        return None
    lines = numbers.reshape(len(entries), length)
    zeros = np.zeros(len(entries), np.int64)
    positions, offset = RowIndexPositions(), 0
    for kind, extra in full:
        chunk = np.ascontiguousarray(lines[:, offset])
        if (chunk[1:] < chunk[:-1]).any():
            return None
        inner = np.ascontiguousarray(lines[:, offset + 1]) if is_compressed else zeros
        offset += location_length
        skip = zeros
        if extra:
            skip = (
                lines[:, offset] * 8 + lines[:, offset + 1]
                if extra == _BITS
                else np.ascontiguousarray(lines[:, offset])
            )
            if int(skip.max(initial=0)) > _MAX_SKIP:
                return None
        positions[kind] = StreamPositions(chunk, inner, skip)
        offset += extra
    return positions


def has_present(stripe: Stripe, column: int) -> bool:
    return (column, StreamKind.PRESENT) in stripe.streams
