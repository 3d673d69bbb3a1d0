"""What must be sound in a column before pyarrow may decode it, whose reader trusts the lengths of strings and lists.

Negative and very great lengths make it read and write outside of its buffers, or take memory without bound. They are
looked at first, which costs nearly nothing; what does not pass goes to our own decoders, which tell what is wrong or
read what is merely unusual.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.claims import is_doubtful
from hindex.orc.compression import Decompressor
from hindex.orc.encoding import rle_v1, rle_v2
from hindex.orc.fetched import Fetched
from hindex.orc.source import ByteSource
from hindex.orc.streams import Places, Spans, StreamWindow
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import STRING_KINDS, Kind, OrcType

#: Strings and lists up to this length may be as many as they like: pyarrow decodes a thousand rows at a time.
_SHORT = 1 << 16


def may_decode(
    source: ByteSource, stripe: Stripe, of: OrcType, rows: int, decompressor: Decompressor
) -> bool:
    """Whether pyarrow may decode a column of a stripe of so many rows."""
    try:
        return _is_sound(source, stripe, of, rows, decompressor)
    except OrcError:
        return False


def may_have_null_keys(stripe: Stripe, of: OrcType) -> bool:
    """Whether a map somewhere in a column might have a null key, on which pyarrow ends the process."""
    return any(
        node.kind == Kind.MAP and (node.children[0].column, StreamKind.PRESENT) in stripe.streams
        for node in of.walk()
    )


def _is_sound(
    source: ByteSource, stripe: Stripe, of: OrcType, values: int, decompressor: Decompressor
) -> bool:
    """Whether pyarrow may decode a node of which there are at most so many values."""
    encoding = stripe.encodings[of.column]
    if is_doubtful(stripe, of, values):
        return False
    if of.kind == Kind.STRUCT:
        return all(_is_sound(source, stripe, child, values, decompressor) for child in of.children)
    has_lengths = of.kind in (Kind.LIST, Kind.MAP)
    if not has_lengths and of.kind not in STRING_KINDS and of.kind != Kind.BINARY:
        return True
    spans = _spans(source, stripe, of.column, StreamKind.LENGTH, decompressor)
    if encoding.is_dictionary and not has_lengths:
        size = np.array([stripe.dictionary_sizes[of.column]], np.int64)
        rle = rle_v2 if encoding.is_v2 else rle_v1
        lengths = rle.decode(spans.buffer, spans.starts, spans.limits, size, signed=False)
        entries = _spans(source, stripe, of.column, StreamKind.DICTIONARY_DATA, decompressor)
        return is_dictionary(lengths, int(entries.limits[0] - entries.starts[0]))
    if not encoding.is_v2:
        return False
    longest, total = rle_v2.bounds(spans.buffer, int(spans.starts[0]), int(spans.limits[0]), values)
    if longest >= _SHORT:
        return False
    return not has_lengths or all(
        _is_sound(source, stripe, child, total, decompressor) for child in of.children
    )


def is_dictionary(lengths: npt.NDArray[np.int64], size: int) -> bool:
    """Whether a dictionary's entries lie within its bytes."""
    return not len(lengths) or (int(lengths.min()) >= 0 and int(lengths.max()) <= size >= int(lengths.sum()))


def _spans(
    source: ByteSource, stripe: Stripe, column: int, kind: StreamKind, decompressor: Decompressor
) -> Spans:
    """A whole stream, decompressed."""
    stream = stripe.streams.get((column, kind))
    fetched = Fetched(0)
    if stream is not None:
        fetched = Fetched(stream.length)
        fetched.put(0, source.read([(stream.offset, stream.length)])[0])
    return StreamWindow(fetched, decompressor).spans(Places.whole(), [False])
