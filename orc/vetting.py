"""What must be sound in a column before pyarrow may decode it, whose reader trusts the lengths of strings and lists.

Negative and very great lengths make it read and write outside of its buffers, or take memory without bound. They are
looked at first, which costs nearly nothing; what does not pass goes to our own decoders, which tell what is wrong or
read what is merely unusual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.claims import is_doubtful
from hindex.orc.compression import Decompressor
from hindex.orc.encoding import rle_v1, rle_v2
from hindex.orc.source import ByteSource
from hindex.orc.streams import PADDING
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import STRING_KINDS, Kind, OrcType

#: Strings and lists from this length on are not given to pyarrow.
_SHORT = 1 << 16
#: Rows that pyarrow decodes by one call, at most.
_ROWS_AT_ONCE = 1024
#: For the bytes of all strings of a call it makes room before it looks for them. So many may always be; beyond, as
#: many as this for each that is stored.
_ROOM = _ROWS_AT_ONCE * _SHORT
_PER_BYTE = 16


@dataclass(frozen=True, slots=True)
class _Claim:
    """How many values a node has: at most, at most in one call of pyarrow's reader, and at least."""

    most: int
    at_once: int
    least: int


def may_decode(
    source: ByteSource, stripe: Stripe, of: OrcType, rows: int, decompressor: Decompressor
) -> bool:
    """Whether pyarrow may decode a column of a stripe of so many rows."""
    try:
        claim = _Claim(rows, min(rows, _ROWS_AT_ONCE), rows)
        return _is_sound(source, stripe, of, claim, decompressor)
    except OrcError:
        return False


def may_have_null_keys(stripe: Stripe, of: OrcType) -> bool:
    """Whether a map somewhere in a column might have a null key, on which pyarrow ends the process."""
    return any(
        node.kind == Kind.MAP and (node.children[0].column, StreamKind.PRESENT) in stripe.streams
        for node in of.walk()
    )


def _is_sound(
    source: ByteSource, stripe: Stripe, of: OrcType, claim: _Claim, decompressor: Decompressor
) -> bool:
    """Whether pyarrow may decode a node that claims to have so many values."""
    encoding = stripe.encodings[of.column]
    if is_doubtful(stripe, of, claim.most):
        return False
    if (of.column, StreamKind.PRESENT) in stripe.streams:
        claim = _Claim(claim.most, claim.at_once, 0)
    if of.kind == Kind.STRUCT:
        return all(_is_sound(source, stripe, child, claim, decompressor) for child in of.children)
    has_lengths = of.kind in (Kind.LIST, Kind.MAP)
    if not has_lengths and of.kind not in STRING_KINDS and of.kind != Kind.BINARY:
        return True
    buffer, end = _content(source, stripe, of.column, StreamKind.LENGTH, decompressor)
    if encoding.is_dictionary and not has_lengths:
        zero, limit = np.zeros(1, np.int64), np.array([end], np.int64)
        size = np.array([stripe.dictionary_sizes[of.column]], np.int64)
        rle = rle_v2 if encoding.is_v2 else rle_v1
        lengths = rle.decode(buffer, zero, limit, size, signed=False)
        return is_dictionary(
            lengths, _content(source, stripe, of.column, StreamKind.DICTIONARY_DATA, decompressor)[1]
        )
    if not encoding.is_v2:
        return False
    longest, total, held = rle_v2.bounds(buffer, 0, end, claim.most)
    if longest >= _SHORT or held < claim.least:
        return False
    at_once = min(total, claim.at_once * longest)
    if has_lengths:
        below = _Claim(total, at_once, 0)
        return all(_is_sound(source, stripe, child, below, decompressor) for child in of.children)
    data = stripe.streams.get((of.column, StreamKind.DATA))
    return at_once <= max(_ROOM, _PER_BYTE * (data.length if data else 0))


def is_dictionary(lengths: npt.NDArray[np.int64], size: int) -> bool:
    """Whether a dictionary's entries lie within its bytes."""
    return not len(lengths) or (int(lengths.min()) >= 0 and int(lengths.max()) <= size >= int(lengths.sum()))


def _content(
    source: ByteSource, stripe: Stripe, column: int, kind: StreamKind, decompressor: Decompressor
) -> tuple[npt.NDArray[np.uint8], int]:
    """A whole stream, decompressed, with some zeros behind it; and how long it is without them.

    :raises OrcError: if a chunk of it is empty: pyarrow would read on in memory that is not the stream's.
    """
    stream = stripe.streams.get((column, kind))
    pieces: list[memoryview | bytes] = []
    if stream is not None:
        pieces = list(decompressor.contents(memoryview(source.read([(stream.offset, stream.length)])[0])))
        if stream.length and not all(map(len, pieces)):
            raise OrcError("a chunk has no content")
    buffer = np.frombuffer(b"".join([*pieces, bytes(PADDING)]), np.uint8)
    return buffer, len(buffer) - PADDING
