"""Row ids that count up by one, told from how they are encoded: none of them is decoded.

Where the rows of one transaction and bucket follow each other, as a load or a major compaction of one leaves them, all
writers of the run-length encoding's version 2 cut the row ids into delta runs of 512 values with a step of 1. So the
bytes that such row ids have are known, and where a stripe has just these its row ids are known for certain.
Source: ORC specification v1, "Integer Run Length Encoding, version 2", delta.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindex.errors import OrcError
from hindex.orc.codec import HEADER_LENGTH
from hindex.orc.decode.positions import has_present
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind
from hindex.orc.reader.orc_reader import OrcReader

#: Values of a run, but for the last one; and the fewest that are written as one.
_RUN, _FEWEST = 512, 4
#: A delta run whose steps are all equal: its header, then two bytes at most of its length and step.
_DELTA = 0b11_00000_0
_RUN_BYTES = 3
#: The step, 1, as the varint of a signed number.
_STEP = 2
#: Row ids from here on are not looked for: no table has so many rows.
_MOST = 1 << 48


def count_up(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    """Return True if the values of a column in a stripe certainly are ``first``, ``first + 1`` and so on.

    Nothing is read where the length of what is stored already tells that they may not be. What cannot be read so is
    no error: whoever decodes the column has the last word.
    """
    try:
        return _counts_up(reader, stripe, column, first)
    except OrcError:
        return False


def _counts_up(reader: OrcReader, stripe: int, column: str, first: int) -> bool:
    of, tail = reader.column_type(column), reader.tail
    rows = tail.stripes[stripe].num_rows
    if of.kind is not Kind.LONG or of.column in tail.encrypted_columns or not 0 <= first < _MOST - rows:
        return False
    if not rows or 0 < rows % _RUN < _FEWEST:
        return False
    found = reader.stripe(stripe)
    if of.column >= len(found.encodings) or not found.encodings[of.column].is_v2:
        return False
    stream = found.streams.get((of.column, StreamKind.DATA))
    if stream is None or any(has_present(found, number) for number in (tail.schema.column, of.column)):
        return False
    runs = -(-rows // _RUN)
    # a chunk that does not get smaller is stored as it is, behind a header
    if stream.length > runs * (_RUN_BYTES + 10) + HEADER_LENGTH * runs:
        return False
    file, decompressor = reader._file, tail.decompressor()
    expected = encoded(first, rows)
    try:
        (data,) = file.source.read([(stream.offset, stream.length)])
        return decompressor.decompress_all(data, len(expected)) == expected
    finally:
        file.counts.add_decompressor(decompressor)


def encoded(first: int, rows: int) -> bytes:
    """The bytes that writers give the numbers from ``first`` on, none below 0.

    >>> encoded(0, 512).hex(" "), encoded(100, 5).hex(" ")
    ('c1 ff 00 02', 'c0 04 c8 01 02')

    :param rows: how many; what is left of them after runs of 512 is at least 4, or nothing.
    """
    counts = np.full(-(-rows // _RUN), _RUN)
    counts[-1] = rows - _RUN * (len(counts) - 1)
    bases = (first + _RUN * np.arange(len(counts))).astype(np.uint64) << np.uint64(1)
    # bytes of each varint: 7 bits in each
    sizes = 1 + np.searchsorted(1 << (7 * np.arange(1, 9)), bases.astype(np.int64), side="right")
    ends = np.cumsum(_RUN_BYTES + sizes)
    out: npt.NDArray[np.uint8] = np.empty(int(ends[-1]), np.uint8)
    at = ends - (_RUN_BYTES + sizes)
    out[at] = _DELTA | (counts - 1) >> 8
    out[at + 1] = (counts - 1) & 0xFF
    for byte in range(int(sizes.max())):
        has = sizes > byte
        part = (bases[has] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
        out[at[has] + 2 + byte] = np.where(sizes[has] > byte + 1, part | 0x80, part)
    out[ends - 1] = _STEP
    return out.tobytes()
