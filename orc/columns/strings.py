"""Strings and binary: direct, and by dictionary.

Source: ORC specification v1, "String, Char, and VarChar Columns" and "Binary Columns".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.errors import OrcError
from hindex.orc.columns.arrays import bytes_array, validity
from hindex.orc.columns.context import ColumnContext
from hindex.orc.streams import Places
from hindex.orc.stripe import StreamKind

Ints = npt.NDArray[np.int64]


def read_strings(context: ColumnContext) -> pa.Array:
    if not len(context.wanted.ranks):
        return pa.nulls(context.num_rows, context.type.to_arrow())
    return _dictionary(context) if context.encoding.is_dictionary else _direct(context)


def _direct(context: ColumnContext) -> pa.Array:
    wanted = context.wanted
    lengths, firsts = context.prefix_integers(StreamKind.LENGTH)
    _check_lengths(lengths)
    ends = np.cumsum(lengths)
    per_group = np.diff(wanted.offsets)
    at = wanted.ranks + np.repeat(firsts, per_group)
    # a group's bytes are counted from its own first value
    base = np.repeat(ends[firsts] - lengths[firsts], per_group)
    high = ends[at] - base
    size = lengths[at]
    places = context.places(StreamKind.DATA)
    data, begins = context.window(StreamKind.DATA).values(places, wanted.offsets, high - size, high)
    return bytes_array(context.type.to_arrow(), data, begins, size, wanted.valid)


def _dictionary(context: ColumnContext) -> pa.Array:
    codes = context.integers(StreamKind.DATA, signed=False)
    count = context.dictionary_size
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= count:
        raise OrcError(f"a value is entry {high if low >= 0 else low} of a dictionary of {count}")
    lengths = context.whole_integers(StreamKind.LENGTH, count)
    _check_lengths(lengths)
    ends = np.cumsum(lengths)
    if len(codes) < count:
        entries, codes = np.unique(codes, return_inverse=True)
    else:
        entries = np.arange(count)
    data, begins = context.window(StreamKind.DICTIONARY_DATA).values(
        Places.whole(), np.array([0, len(entries)], np.int64), (ends - lengths)[entries], ends[entries]
    )
    values = bytes_array(context.type.to_arrow(), data, begins, lengths[entries], None)
    valid = context.wanted.valid
    indices = codes.astype(np.int32)
    if valid is not None:
        full = np.zeros(len(valid), np.int32)
        full[valid] = indices
        indices = full
    return values.take(
        pa.Array.from_buffers(pa.int32(), len(indices), [validity(valid), pa.py_buffer(indices)])
    )


def _check_lengths(lengths: Ints) -> None:
    # a sum of valid lengths stays far below 2^48, so the running sums cannot wrap unnoticed
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) >= 1 << 40):
        raise OrcError("a string's length is negative or absurdly large")
