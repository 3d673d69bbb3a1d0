"""A stripe's streams, encodings and row index.

Source: ORC specification v1, "Stripes". A stripe consists of its index streams, its data streams and its footer;
the footer lists the streams in file order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hindex.errors import OrcError
from hindex.orc.codec import Decompressor
from hindex.orc.io.source import ByteSource
from hindex.orc.metadata.file_tail import FileTail, StripeInformation, decode_string
from hindex.orc.metadata.sections import parse_section
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import orc_metadata_pb2 as pb
from hindex.value_class import value_class


class StreamKind(enum.IntEnum):
    """The stream kinds, with the numbers of the specification's ``Stream.Kind``."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


#: Row indexes of up to this many bytes are fetched together with the footer of a stripe, if that saves a request.
_MAX_PREFETCH = 256 * 1024

#: The file version of pre-releases of version 2.0.
_WITH_DECIMAL64 = (1, 9999)

#: The streams of a column's values, without its indexes.
DATA_KINDS = tuple(kind for kind in StreamKind if kind < StreamKind.ROW_INDEX)


class EncodingKind(enum.IntEnum):
    """The column encodings, with the numbers of the specification's ``ColumnEncoding.Kind``."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3

    @property
    def is_dictionary(self) -> bool:
        return self in (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)

    @property
    def is_v2(self) -> bool:
        return self in (EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2)


@value_class
class StreamInformation:
    """A stream's position in the file, in bytes."""

    kind: StreamKind
    column: int
    offset: int
    length: int


@dataclass(slots=True)
class Stripe:
    """A stripe's decoded footer, and the row indexes that have been read so far.

    ``row_entries[column]`` has the entry of each row group: its positions and statistics. ``bloom_encodings`` has
    the encoding of timestamps in each column's bloom filters.
    """

    streams: dict[tuple[int, StreamKind], StreamInformation]
    encodings: tuple[EncodingKind, ...]
    dictionary_sizes: tuple[int, ...]
    writer_timezone: str
    bloom_encodings: tuple[int, ...] = ()
    row_entries: dict[int, Sequence[pb.RowIndexEntry]] = field(default_factory=dict)

    def data_length(self, column: int) -> int:
        """Return the stored bytes of a column's streams, without its indexes."""
        streams = (self.streams.get((column, kind)) for kind in DATA_KINDS)
        return sum(stream.length for stream in streams if stream is not None)


def read_stripe_footer(source: ByteSource, tail: FileTail, index: int, decompressor: Decompressor) -> Stripe:
    """Read and check the footer of one stripe.

    Raises:
        OrcError: if it is corrupt, or lists a stream twice (other readers use the first one).
    """
    try:
        return _read_stripe_footer(source, tail, tail.stripes[index], decompressor)
    except OrcError as error:
        raise error.at(path=tail.path, stripe=index) from error


def _read_stripe_footer(
    source: ByteSource, tail: FileTail, information: StripeInformation, decompressor: Decompressor
) -> Stripe:
    start = information.offset + information.index_length + information.data_length
    is_missing = source.is_remote and source.requests([(start, information.footer_length)])
    if is_missing and information.index_length <= _MAX_PREFETCH:
        source.prefetch([(start, information.footer_length), (information.offset, information.index_length)])
    (data,) = source.read([(start, information.footer_length)])
    footer, _ = parse_section(pb.StripeFooter, data, decompressor, "the stripe footer")
    streams, offset = {}, information.offset
    listed: set[tuple[int, int]] = set()
    for stream in footer.streams:
        try:
            kind = StreamKind(stream.kind)
        except ValueError:
            kind = None  # a kind of a later version, or encrypted: its length still counts
        if kind is not None:
            if (stream.column, kind) in listed:
                raise OrcError(
                    f"the stripe footer lists the stream {kind.name} of column {stream.column} twice"
                )
            listed.add((stream.column, kind))
            if stream.length:
                streams[stream.column, kind] = StreamInformation(kind, stream.column, offset, stream.length)
        offset += stream.length
        if offset > start:
            raise OrcError(f"the streams end at byte {offset}, beyond the stripe footer at {start}")
    has_values = {column for column, kind in streams if StreamKind.PRESENT < kind < StreamKind.ROW_INDEX}
    needed = {node.column for node in tail.schema.walk() if node.kind not in _PLAIN_KINDS} & has_values
    encodings = tuple(_encoding(item.kind, column in needed) for column, item in enumerate(footer.columns))
    if tail.version == _WITH_DECIMAL64:
        # the Java writer also records DIRECT for these, and its reader ignores that
        decimal64 = {node.column for node in tail.schema.walk() if is_decimal64(node, tail.version)}
        encodings = tuple(
            EncodingKind.DIRECT_V2 if column in decimal64 else encoding
            for column, encoding in enumerate(encodings)
        )
    return Stripe(
        streams=streams,
        encodings=encodings,
        dictionary_sizes=tuple(column.dictionary_size for column in footer.columns),
        writer_timezone=decode_string(footer.writer_timezone),
        bloom_encodings=tuple(column.bloom_encoding for column in footer.columns),
    )


#: Types whose values are stored in the same way, whatever the encoding.
_PLAIN_KINDS = frozenset({Kind.STRUCT, Kind.UNION, Kind.BOOLEAN, Kind.BYTE, Kind.FLOAT, Kind.DOUBLE})


def _encoding(kind: int, is_needed: bool) -> EncodingKind:
    """Return a column's encoding. It has no meaning, and may be any number, if no stream depends on it."""
    try:
        return EncodingKind(kind)
    except ValueError as error:
        if is_needed:
            raise OrcError(f"unknown column encoding: {error}") from error
        return EncodingKind.DIRECT


def is_decimal64(data_type: OrcType, version: tuple[int, int]) -> bool:
    """Return True if a decimal is stored as plain integers, as pre-releases of ORC 2.0 write short decimals."""
    return version == _WITH_DECIMAL64 and data_type.kind == Kind.DECIMAL and 0 < data_type.precision <= 18


def read_row_indexes(
    source: ByteSource, stripe: Stripe, columns: Iterable[int], decompressor: Decompressor
) -> None:
    """Read the row indexes of columns into ``stripe.row_entries``, in one request."""
    missing = [
        stripe.streams[column, StreamKind.ROW_INDEX]
        for column in columns
        if column not in stripe.row_entries and (column, StreamKind.ROW_INDEX) in stripe.streams
    ]
    if not missing:
        return
    for stream, data in zip(missing, source.read([(s.offset, s.length) for s in missing]), strict=True):
        try:
            index, _ = parse_section(pb.RowIndex, data, decompressor, "the row index")
        except OrcError as error:
            raise error.at(stream="ROW_INDEX") from error
        stripe.row_entries[stream.column] = index.entry
