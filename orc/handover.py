"""Columns that pyarrow decodes from a part of a stripe: their streams, handed over as an ORC file in memory.

pyarrow reads a stripe whole or not at all. Where the wanted rows fill the row groups that hold them, or where a
stream is made of many short runs, its decoder is faster than ours, and the parts of a stripe that matter can be
given to it as stripes of one column, without compression, row index or nulls. Stripes stay apart there too: what is
wrong in one, or is left over behind its last value, does not move the values of the next.
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
    streams: Mapping[StreamKind, Sequence[Sequence[Buffer]]],
    rows: Sequence[int],
    *,
    dictionary_size: int = 0,
) -> pa.Array | None:
    """The first ``rows[s]`` values of each stripe of a primitive column without nulls, or None where pyarrow refuses.

    Its decoder refuses what is corrupt, and a little more: a delta run of one value. Ours has the last word.

    :param streams: the decompressed content of each stream, of each stripe in pieces; integers begin at a run's header.
    :returns: one array of pyarrow's own type for ``of``.
    """
    file = _file(of, encoding, streams, rows, dictionary_size)
    try:
        reader = pyarrow.orc.ORCFile(pa.BufferReader(file))
        arrays = [reader.read_stripe(stripe).column(0) for stripe in range(len(rows))]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    except (pa.ArrowException, OSError):
        return None


def decode_integers(pieces: Sequence[Sequence[Buffer]], rows: Sequence[int]) -> npt.NDArray[np.int64] | None:
    """The first ``rows[s]`` integers of each stripe's signed stream of the second run-length encoding.

    See :func:`decode_column`.
    """
    array = decode_column(_LONG, EncodingKind.DIRECT_V2, {StreamKind.DATA: pieces}, rows)
    if array is None:
        return None
    # from its buffer: to_numpy would import pandas, where it is installed
    return np.frombuffer(array.buffers()[1], np.int64, len(array), array.offset * 8)


def _file(
    of: OrcType,
    encoding: EncodingKind,
    streams: Mapping[StreamKind, Sequence[Sequence[Buffer]]],
    rows: Sequence[int],
    dictionary_size: int,
) -> bytes:
    footer = pb.Footer(header_length=len(_MAGIC), number_of_rows=sum(rows), row_index_stride=0)
    content: list[Buffer] = [_MAGIC]
    offset = len(_MAGIC)
    for number, count in enumerate(rows):
        stripe = pb.StripeFooter()
        stripe.columns.add(kind=EncodingKind.DIRECT)
        stripe.columns.add(kind=encoding, dictionary_size=dictionary_size)
        length = 0
        for stream, stripes in streams.items():
            size = sum(len(piece) for piece in stripes[number])
            stripe.streams.add(kind=stream, column=1, length=size)
            length += size
            content += stripes[number]
        stripe_footer = stripe.SerializeToString()
        content.append(stripe_footer)
        footer.stripes.add(
            offset=offset,
            index_length=0,
            data_length=length,
            footer_length=len(stripe_footer),
            number_of_rows=count,
        )
        offset += length + len(stripe_footer)
    footer.content_length = offset
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
    return b"".join([*content, tail, postscript, bytes([len(postscript)])])
