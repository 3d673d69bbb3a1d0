"""How many runs a column's integers come in: what walking over them costs depends on it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hindex.errors import OrcError
from hindex.orc.compression import HEADER_LENGTH, Decompressor
from hindex.orc.encoding.buffers import PADDING, unaligned
from hindex.orc.encoding.rle_v2 import headers
from hindex.orc.encoding.rle_v2.chain import follow
from hindex.orc.source import ByteSource
from hindex.orc.stripe import StreamInformation, StreamKind, Stripe

#: Values at a stream's head that tell what the rest is like.
_SAMPLE = 2048

#: Bytes that hold so many values, whatever they are.
_SAMPLE_BYTES = _SAMPLE * 9

#: Assumed where the streams are not version 2 of the run-length encoding.
_DEFAULT = 0.01


def runs_per_value(
    source: ByteSource,
    stripe: Stripe,
    column: int,
    kinds: Iterable[StreamKind],
    decompressor: Decompressor,
) -> float:
    """Run headers for each value of a column, over its integer streams ``kinds``, from a look at their heads."""
    known = stripe.runs_per_value.get(column)
    if known is None:
        streams = [stripe.streams[column, kind] for kind in kinds if (column, kind) in stripe.streams]
        if stripe.encodings[column].is_v2:
            known = sum(_sample(source, stream, decompressor) for stream in streams)
        else:
            known = _DEFAULT * len(streams)
        stripe.runs_per_value[column] = known
    return known


def _sample(source: ByteSource, stream: StreamInformation, decompressor: Decompressor) -> float:
    if decompressor.codec is None:
        (data,) = source.read([(stream.offset, min(stream.length, _SAMPLE_BYTES))])
        head = np.frombuffer(data, np.uint8)
    else:
        (data,) = source.read([(stream.offset, min(stream.length, HEADER_LENGTH + decompressor.block_size))])
        chunk = next(decompressor.chunks_of(data))
        out = np.empty(min(_SAMPLE_BYTES, decompressor.block_size), np.uint8)
        head = out[: decompressor.into(chunk, out)]
    padded = np.concatenate([head, np.zeros(PADDING, np.uint8)])
    positions: list[int] = []
    try:
        follow(padded.data, 0, len(head), _SAMPLE, positions)
    except OrcError:
        # the sample ends within a run, or the stream is corrupt: who decodes it will tell
        positions = positions[:-1]
    if not positions:
        return _DEFAULT
    values = int(headers.COUNT[unaligned(padded, ">u2")[positions]].sum())
    return len(positions) / values
