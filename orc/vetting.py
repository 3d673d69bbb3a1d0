"""What must be sound in a column before pyarrow may decode it, whose reader trusts the lengths of strings.

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

#: Strings up to this length may be as many as they like: pyarrow decodes a thousand values at a time.
_SHORT = 1 << 16


def may_decode(
    source: ByteSource, stripe: Stripe, of: OrcType, rows: int, decompressor: Decompressor
) -> bool:
    """Whether pyarrow may decode a flat column of a stripe of so many rows."""
    encoding = stripe.encodings[of.column]
    try:
        if is_doubtful(stripe, of, rows):
            return False
        if of.kind not in STRING_KINDS and of.kind != Kind.BINARY:
            return True
        if not encoding.is_dictionary:
            if not encoding.is_v2:
                return False
            spans = _spans(source, stripe, of.column, StreamKind.LENGTH, decompressor)
            start, limit = int(spans.starts[0]), int(spans.limits[0])
            return rle_v2.greatest(spans.buffer, start, limit, rows) < _SHORT
        spans = _spans(source, stripe, of.column, StreamKind.LENGTH, decompressor)
        size = np.array([stripe.dictionary_sizes[of.column]], np.int64)
        rle = rle_v2 if encoding.is_v2 else rle_v1
        lengths = rle.decode(spans.buffer, spans.starts, spans.limits, size, signed=False)
        entries = _spans(source, stripe, of.column, StreamKind.DICTIONARY_DATA, decompressor)
        return is_dictionary(lengths, int(entries.limits[0] - entries.starts[0]))
    except OrcError:
        return False


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
