"""Strings and binary: direct, and by dictionary.

Source: ORC specification v1, "String, Char, and VarChar Columns" and "Binary Columns".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.orc.claims import (
    MOST_BYTES,
    check_dictionary,
    dictionary_bytes,
    most_run_bytes,
    values_bytes,
)
from hindex.orc.columns.arrays import bytes_array, check_size, filled, validity
from hindex.orc.columns.context import ColumnContext, check_lengths
from hindex.orc.encoding.buffers import starts_of
from hindex.orc.handover import Buffer, decode_column
from hindex.orc.places import Places
from hindex.orc.stripe import StreamKind
from hindex.orc.types import Kind, OrcType

Ints = npt.NDArray[np.int64]

_TEXT = OrcType(Kind.STRING)


def read_strings(context: ColumnContext) -> pa.Array:
    if not len(context.wanted.ranks):
        return pa.nulls(context.num_rows, context.type.to_arrow())
    found = _dictionary(context) if context.encoding.is_dictionary else _direct(context)
    return filled(found, context.type.max_length) if context.type.kind is Kind.CHAR else found


def _direct(context: ColumnContext) -> pa.Array:
    places, wanted = context.places(StreamKind.DATA), context.wanted
    if wanted.is_all:
        # each row group's values are a single piece of the stream
        lengths = context.integers(StreamKind.LENGTH, signed=False)
        check_lengths(lengths)
        sizes = np.diff(starts_of(lengths)[wanted.offsets])
        groups = np.arange(len(sizes) + 1)
        data, begins = context.window(StreamKind.DATA).values(places, groups, np.zeros_like(sizes), sizes)
        return bytes_array(context.type.to_arrow(), data, begins, lengths, wanted.valid, sizes=sizes)
    ends, lengths = context.extents()
    data, begins = context.window(StreamKind.DATA).values(places, wanted.offsets, ends - lengths, ends)
    return bytes_array(context.type.to_arrow(), data, begins, lengths, wanted.valid)


def _dictionary(context: ColumnContext) -> pa.Array:
    count = context.dictionary_size
    check_dictionary(count, context.stored)
    if context.fills_groups:
        handed_over = _handed_over(context)
        if handed_over is not None:
            return handed_over
    codes = context.integers(StreamKind.DATA, signed=False)
    lengths = context.whole_integers(StreamKind.LENGTH, count)
    check_lengths(lengths)
    check_size(values_bytes(codes, lengths))
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


def _handed_over(context: ColumnContext) -> pa.Array | None:
    rows, size = context.rows_of_stripes, context.dictionary_size
    entries = np.array([size], np.int64)
    lengths = context.whole_integers(StreamKind.LENGTH, size)
    total = dictionary_bytes(lengths)
    if total is None or int(lengths.max(initial=0)) * sum(rows) > MOST_BYTES:
        return None
    streams = {StreamKind.DATA: context.runs_of_groups(StreamKind.DATA, signed=False)}
    for kind, most in (
        (StreamKind.LENGTH, most_run_bytes(entries)),
        (StreamKind.DICTIONARY_DATA, np.array([total], np.int64)),
    ):
        spans = context.window(kind).spans(Places.whole(), [False], most)
        held: Buffer = spans.buffer.data[int(spans.starts[0]) : int(spans.limits[0])]
        streams[kind] = [[held]] * len(rows)
    if total > len(held):
        return None
    values = decode_column(_TEXT, context.encoding, streams, rows, dictionary_size=size)
    if values is None:
        return None
    found = context.taken(values)
    of = context.type.to_arrow()
    return (
        found
        if found.type == of
        else pa.Array.from_buffers(of, len(found), found.buffers(), offset=found.offset)
    )
