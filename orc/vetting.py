"""What must be sound in a column before pyarrow may decode it, whose reader trusts the lengths of strings and lists.

Negative and very great lengths make it read and write outside of its buffers, or take memory without bound; after a
chunk without content it reads on in memory that is not the stream's, and gives what it finds there. Both are looked at
first, which costs nearly nothing; what does not pass goes to our own decoders, which tell what is wrong or read what
is merely unusual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.claims import (
    MOST_BYTES,
    check_dictionary,
    dictionary_bytes,
    is_doubtful,
    most_run_bytes,
    values_bytes,
)
from hindex.orc.compression import Decompressor
from hindex.orc.encoding import rle_v1, rle_v2
from hindex.orc.encoding.buffers import PADDING
from hindex.orc.stripe import StreamKind, Stripe
from hindex.orc.types import STRING_KINDS, Kind, OrcType

#: A column's data streams as stored, by its number and their kind.
Stored = Mapping[tuple[int, StreamKind], memoryview]

#: Strings and lists from this length on are not given to pyarrow.
_SHORT = 1 << 16
#: Rows that pyarrow decodes by one call, at most.
_ROWS_AT_ONCE = 1024
#: For the bytes of all strings of a call it makes room before it looks for them. So many may always be; beyond, as
#: many as this for each that is stored.
_ROOM = _ROWS_AT_ONCE * _SHORT
_PER_BYTE = 16

_NOTHING = memoryview(b"")


@dataclass(frozen=True, slots=True)
class _Claim:
    """How many values a node has: at most, at most in one call of pyarrow's reader, and at least."""

    most: int
    at_once: int
    least: int


def may_decode(stored: Stored, stripe: Stripe, of: OrcType, rows: int, decompressor: Decompressor) -> bool:
    """Whether pyarrow may decode a column of a stripe of so many rows."""
    streams = (stream for node in of.walk() for stream in stripe.data_streams(node.column))
    if not all(decompressor.fills_all(stored[stream.column, stream.kind]) for stream in streams):
        return False
    try:
        claim = _Claim(rows, min(rows, _ROWS_AT_ONCE), rows)
        return _is_sound(stored, stripe, of, claim, decompressor)
    except OrcError:
        return False


def may_have_null_keys(stripe: Stripe, of: OrcType) -> bool:
    """Whether a map somewhere in a column might have a null key, on which pyarrow ends the process."""
    return any(
        node.kind == Kind.MAP and (node.children[0].column, StreamKind.PRESENT) in stripe.streams
        for node in of.walk()
    )


def _is_sound(stored: Stored, stripe: Stripe, of: OrcType, claim: _Claim, decompressor: Decompressor) -> bool:
    """Whether pyarrow may decode a node that claims to have so many values."""
    encoding = stripe.encodings[of.column]
    if is_doubtful(stripe, of.walk(), claim.most):
        return False
    if (of.column, StreamKind.PRESENT) in stripe.streams:
        claim = _Claim(claim.most, claim.at_once, 0)
    if of.kind == Kind.STRUCT:
        return all(_is_sound(stored, stripe, child, claim, decompressor) for child in of.children)
    has_lengths = of.kind in (Kind.LIST, Kind.MAP)
    if not has_lengths and of.kind not in STRING_KINDS and of.kind != Kind.BINARY:
        return True
    if encoding.is_dictionary and not has_lengths:
        return _is_sound_dictionary(stored, stripe, of, claim, decompressor)
    if not encoding.is_v2:
        return False
    buffer, end = _runs(stored.get((of.column, StreamKind.LENGTH), _NOTHING), claim.most, decompressor)
    longest, total, held = rle_v2.bounds(buffer, 0, end, claim.most)
    if longest >= _SHORT or held < claim.least:
        return False
    at_once = min(total, claim.at_once * longest)
    if has_lengths:
        below = _Claim(total, at_once, 0)
        return all(_is_sound(stored, stripe, child, below, decompressor) for child in of.children)
    return at_once <= max(_ROOM, _PER_BYTE * len(stored.get((of.column, StreamKind.DATA), _NOTHING)))


def _is_sound_dictionary(
    stored: Stored, stripe: Stripe, of: OrcType, claim: _Claim, decompressor: Decompressor
) -> bool:
    """Whether the entries of a column are there, and the values fit one array."""
    encoding, entries = stripe.encodings[of.column], stripe.dictionary_sizes[of.column]
    lengths, codes, content = (
        stored.get((of.column, kind), _NOTHING)
        for kind in (StreamKind.LENGTH, StreamKind.DATA, StreamKind.DICTIONARY_DATA)
    )
    check_dictionary(entries, len(lengths) + len(codes) + len(content))
    buffer, end = _runs(lengths, entries, decompressor)
    sizes = (rle_v2 if encoding.is_v2 else rle_v1).decode(
        buffer, np.zeros(1, np.int64), np.array([end]), np.array([entries]), signed=False
    )
    total = dictionary_bytes(sizes)
    if total is None or not decompressor.reaches(content, total):
        return False
    if not entries or int(sizes.max()) * claim.most <= MOST_BYTES:
        return True
    if not encoding.is_v2:
        return False
    # not every value is the longest entry
    buffer, end = _runs(codes, claim.most, decompressor)
    held = min(rle_v2.bounds(buffer, 0, end, claim.most)[2], claim.most)
    found = rle_v2.decode(buffer, np.zeros(1, np.int64), np.array([end]), np.array([held]), signed=False)
    return values_bytes(found, sizes) <= MOST_BYTES


def _runs(data: memoryview, values: int, decompressor: Decompressor) -> tuple[npt.NDArray[np.uint8], int]:
    """As much of a stream, decompressed, as so many integers take, with some zeros behind; how long it is without."""
    pieces: list[memoryview | bytes] = []
    held, most = 0, int(most_run_bytes(np.array(values)))
    for piece in decompressor.contents(data):
        pieces.append(piece)
        held += len(piece)
        if held >= most:
            break
    buffer = np.frombuffer(b"".join([*pieces, bytes(PADDING)]), np.uint8)
    return buffer, len(buffer) - PADDING
