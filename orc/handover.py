"""Columns that pyarrow decodes from a part of a stripe: their streams, handed over as an ORC file in memory.

pyarrow reads a stripe whole or not at all. Where the wanted rows fill the row groups that hold them, or where a
stream is made of many short runs, its decoder is faster than ours, and the parts of a stripe that matter can be
given to it as a stripe of one column, without compression, row index or nulls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc

from hindex.orc.stripe import EncodingKind, StreamKind
from hindex.orc.types import Kind, OrcType
from hindex.proto import orc_metadata_pb2 as pb

Buffer = bytes | memoryview

#: Digits of decimals that pyarrow holds in 64 bits. Longer ones it brings to their scale in small steps, which takes
#: hours where a corrupt stream has scales of billions, so somebody must look at these first.
SHORT_PRECISION = 18

_MAGIC = b"ORC"
#: Writes as the C++ writer does; only timestamps and statistics would differ.
_WRITER_VERSION = 6
_LONG = OrcType(Kind.LONG)


def decode_column(
    of: OrcType,
    encoding: EncodingKind,
    streams: Mapping[StreamKind, Sequence[Buffer]],
    rows: int,
    *,
    dictionary_size: int = 0,
) -> pa.Array | None:
    """The first ``rows`` values of a primitive column without nulls, or None where pyarrow refuses them.

    Its decoder refuses what is corrupt, and a little more: a delta run of one value. Ours has the last word.

    :param streams: the decompressed content of each stream, in pieces; integers begin at a run's header.
    :returns: an array of pyarrow's own type for ``of``.
    """
    file = _file(of, encoding, streams, rows, dictionary_size)
    try:
        batch = pyarrow.orc.ORCFile(pa.BufferReader(file)).read_stripe(0)
    except (pa.ArrowException, OSError):
        return None
    return batch.column(0)


def decode_integers(pieces: Sequence[Buffer], rows: int) -> npt.NDArray[np.int64] | None:
    """The first ``rows`` integers of a signed stream of the second run-length encoding; see :func:`decode_column`."""
    array = decode_column(_LONG, EncodingKind.DIRECT_V2, {StreamKind.DATA: pieces}, rows)
    if array is None:
        return None
    # from its buffer: to_numpy would import pandas, where it is installed
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)


def _file(
    of: OrcType,
    encoding: EncodingKind,
    streams: Mapping[StreamKind, Sequence[Buffer]],
    rows: int,
    dictionary_size: int,
) -> bytes:
    stripe = pb.StripeFooter()
    stripe.columns.add(kind=EncodingKind.DIRECT)
    stripe.columns.add(kind=encoding, dictionary_size=dictionary_size)
    length = 0
    for stream, pieces in streams.items():
        size = sum(len(piece) for piece in pieces)
        stripe.streams.add(kind=stream, column=1, length=size)
        length += size
    stripe_footer = stripe.SerializeToString()
    footer = pb.Footer(
        header_length=len(_MAGIC),
        content_length=len(_MAGIC) + length + len(stripe_footer),
        number_of_rows=rows,
        row_index_stride=0,
    )
    footer.stripes.add(
        offset=len(_MAGIC),
        index_length=0,
        data_length=length,
        footer_length=len(stripe_footer),
        number_of_rows=rows,
    )
    footer.types.add(kind=Kind.STRUCT, subtypes=[1], field_names=["values"])
    footer.types.add(kind=of.kind, precision=of.precision, scale=of.scale)
    tail = footer.SerializeToString()
    postscript = pb.PostScript(
        footer_length=len(tail),
        compression=0,
        compression_block_size=1 << 18,
        metadata_length=0,
        version=[0, 12],
        writer_version=_WRITER_VERSION,
        magic=_MAGIC.decode(),
    ).SerializeToString()
    content = (piece for pieces in streams.values() for piece in pieces)
    return b"".join([_MAGIC, *content, stripe_footer, tail, postscript, bytes([len(postscript)])])
