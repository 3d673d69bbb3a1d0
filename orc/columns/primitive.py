"""Decoders of primitive columns, one a type.

Source: ORC specification v1, "Column Encodings".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.columns.arrays import bool_array, fixed_array
from hindex.orc.columns.context import ColumnContext
from hindex.orc.columns.decimals import read_decimal
from hindex.orc.columns.strings import read_strings
from hindex.orc.columns.temporal import read_date, read_timestamp
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.tail import FileTail
from hindex.orc.types import BINARY_KINDS, STRING_KINDS, Kind

_INTEGER_DTYPES = {Kind.SHORT: np.int16, Kind.INT: np.int32, Kind.LONG: np.int64}


def read_primitive(
    context: ColumnContext, tail: FileTail, stripe: Stripe, timezone: str | None = None
) -> pa.Array:
    """Decode the wanted values of a primitive column into an array of ``type.to_arrow()``.

    :param timezone: the reader's time zone, see :class:`~hindex.orc.OrcReader`.
    """
    kind = context.type.kind
    if not len(context.wanted.ranks):
        return pa.nulls(context.num_rows, context.type.to_arrow())
    if kind in _INTEGER_DTYPES:
        values = context.integers(StreamKind.DATA, signed=True)
        return fixed_array(
            context.type.to_arrow(), values.astype(_INTEGER_DTYPES[kind], copy=False), context.wanted.valid
        )
    if kind in STRING_KINDS or kind in BINARY_KINDS:
        return read_strings(context)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return _floating(context)
    if kind == Kind.DECIMAL:
        return read_decimal(context, tail)
    if kind == Kind.DATE:
        return read_date(context, is_proleptic=tail.is_proleptic)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
        return read_timestamp(
            context,
            kind=Kind(tail.footer.types[context.type.column].kind),
            writer=stripe.writer_timezone,
            reader=timezone,
            is_proleptic=tail.is_proleptic,
        )
    if kind == Kind.BOOLEAN:
        return bool_array(context.bits(StreamKind.DATA), context.wanted.valid)
    if kind == Kind.BYTE:
        return fixed_array(pa.int8(), context.bytes(StreamKind.DATA).view(np.int8), context.wanted.valid)
    raise OrcError(f"type {context.type} is not a primitive")


def _floating(context: ColumnContext) -> pa.Array:
    dtype = np.dtype("<f4" if context.type.kind == Kind.FLOAT else "<f8")
    wanted = context.wanted
    low = wanted.ranks * dtype.itemsize
    places = context.places(StreamKind.DATA)
    data, begins = context.window(StreamKind.DATA).values(places, wanted.offsets, low, low + dtype.itemsize)
    # a stride of one byte lets each value begin anywhere
    view = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, buffer=data, strides=(1,))
    return fixed_array(context.type.to_arrow(), view[begins], wanted.valid)
