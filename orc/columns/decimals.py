"""Decimals: unbounded varints and a scale a value.

Source: ORC specification v1, "Decimal Columns".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.columns.arrays import fixed_array
from hindex.orc.columns.context import ColumnContext
from hindex.orc.handover import SHORT_PRECISION, decode_column
from hindex.orc.stripe import StreamKind, is_decimal64
from hindex.orc.tail import FileTail
from hindex.orc.types import OrcType

_WORDS = np.dtype([("low", "<u8"), ("high", "<i8")])
_MASK = (1 << 64) - 1
_INT64_MAX = np.int64((1 << 63) - 1)
_POWERS = 10 ** np.arange(19, dtype=np.int64)

Lows = npt.NDArray[np.uint64]
Highs = npt.NDArray[np.int64]


def read_decimal(context: ColumnContext, tail: FileTail) -> pa.Array:
    wanted, arrow = context.wanted, context.type.to_arrow()
    if is_decimal64(context.type, tail.version):
        values = context.integers(StreamKind.DATA, signed=True)
        return fixed_array(arrow, _words(values.view(np.uint64), values >> 63), wanted.valid)
    if context.fills_groups and can_hand_over(context.type, tail):
        found = _handed_over(context)
        if found is not None:
            return found
    try:
        low, high = context.decimals()
    except OrcError as error:
        raise error.at(stream="DATA") from error
    scales = context.integers(StreamKind.SECONDARY, signed=True)
    if (scales != arrow.scale).any():
        low, high = _rescale(low, high, scales, arrow)
    return fixed_array(arrow, _words(low, high), wanted.valid)


def can_hand_over(of: OrcType, tail: FileTail) -> bool:
    """Whether pyarrow decodes the varints of a column's row groups as they are to be understood."""
    return 0 < of.precision <= SHORT_PRECISION and tail.has_fitting_scales


def _handed_over(context: ColumnContext) -> pa.Array | None:
    streams = {
        StreamKind.DATA: context.bytes_of_groups(StreamKind.DATA),
        StreamKind.SECONDARY: context.runs_of_groups(StreamKind.SECONDARY, signed=True),
    }
    values = decode_column(context.type, context.encoding, streams, context.rows_of_stripes)
    if values is None:
        return None
    return context.taken(values)


def _words(low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    words = np.empty(len(low), _WORDS)
    words["low"], words["high"] = low, high
    return words


def _rescale(low: Lows, high: Highs, scales: npt.NDArray[np.int64], arrow: pa.DataType) -> tuple[Lows, Highs]:
    """Bring values whose own scale differs to the column's: writers drop trailing zeros."""
    shift = arrow.scale - scales
    values = low.view(np.int64)
    # the usual case in one go: a value of 64 bits that still has 64 bits with the zeros put back
    fits = (high == values >> 63) & (shift >= 0) & (shift < len(_POWERS))
    power = _POWERS[np.where(fits, shift, 0)]
    largest = _INT64_MAX // power
    fits &= (values <= largest) & (values >= -largest)
    scaled = np.where(fits, values * power, values)
    low, high = scaled.view(np.uint64).copy(), np.where(fits, scaled >> 63, high)
    for i in np.flatnonzero(~fits & (shift != 0)).tolist():
        value = _rescaled((int(high[i]) << 64) | int(low[i]), int(shift[i]), arrow)
        low[i], high[i] = value & _MASK, value >> 64
    return low, high


def _rescaled(value: int, shift: int, arrow: pa.DataType) -> int:
    """One value with ``shift`` more digits after the point, rounding half away from zero where it has less."""
    if abs(shift) > 76:
        raise OrcError(f"a decimal of scale {arrow.scale - shift} is outside the format's bounds")
    if shift >= 0:
        value *= 10**shift
    else:
        unit = 10**-shift
        value = (abs(value) + unit // 2) // unit * (1 if value >= 0 else -1)
    if abs(value) >= 10**38:
        raise OrcError(f"a decimal does not fit precision 38 at scale {arrow.scale}")
    return value
