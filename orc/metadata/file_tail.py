"""A file's tail: postscript, footer, type tree and stripe list.

Source: ORC specification v1, "File Tail".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
from google.protobuf.message import DecodeError

from hindex.errors import OrcError
from hindex.lru_cache import LruCache
from hindex.orc.codec import MAX_BLOCK_SIZE, Codec, Decompressor, codec_of
from hindex.orc.io.source import COALESCE_GAP, TAIL_GUESS, ByteSource
from hindex.orc.metadata.sections import parse_section
from hindex.orc.metadata.types import MAX_CHAR_LENGTH, Kind, OrcType
from hindex.proto import orc_metadata_pb2 as pb
from hindex.value_class import value_class

MAGIC = b"ORC"

MAX_TYPE_DEPTH = 150
_KINDS = frozenset(Kind) - {Kind.TIMESTAMP_NTZ}

#: ``Footer.writer`` of ORC's Java and C++ writers and of cuDF; and of all Java writers, with Presto and Trino.
ORC_JAVA_WRITER, CPP_WRITER, CUDF_WRITER = 0, 1, 5
JAVA_WRITERS = frozenset({ORC_JAVA_WRITER, 2, 4})

#: The key of Spark's version in a file's metadata.
_SPARK_KEY = "org.apache.spark.version"

#: Decimals have 128 bits.
MAX_DECIMAL_DIGITS = 38
#: The scale of decimals without a recorded one.
_DEFAULT_SCALE = 10

#: Row numbers are 64-bit integers.
MAX_ROWS = 1 << 62

#: The formats by the first bytes of a file.
_MAGICS = {
    MAGIC: "an ORC file that is truncated, or still being written",
    b"PAR1": "Parquet",
    b"PARE": "encrypted Parquet",
    b"Obj\1": "Avro",
    b"ARROW1": "Arrow IPC",
    b"SEQ": "a Hadoop sequence file",
    b"RCF": "RCFile",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\3\4": "a zip archive",
}
#: The remedies for the formats of tables.
_REMEDIES = {
    name: f"; only ORC files can be read and indexed: convert it with spark.read.{reader}(...).write.orc(...)"
    for name, reader in (
        ("Parquet", "parquet"),
        ("encrypted Parquet", "parquet"),
        ("Avro", 'format("avro").load'),
    )
}
#: The bytes at the beginning that are checked for text.
_HEAD_BYTES = 64

#: Type trees by their encoded types, with at most 65,536 types in some 40 MiB.
_TREES: LruCache[tuple[bytes, ...], OrcType] = LruCache(1 << 16)

_KNOWN_VERSIONS = {(0, 11), (0, 12), (1, 9999)}


@value_class
class StripeInformation:
    """The position of a stripe in the file, in bytes, and its rows, numbered from 0 in the file."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    first_row: int
    num_rows: int


@dataclass(frozen=True, slots=True, eq=False)
class FileTail:
    """The contents of a file's tail.

    Attributes:
        length: in bytes.
        checksum: the crc32c of these bytes as stored: it changes with nearly any rewrite of the file, even if the
            file's length and modification time do not.
        metadata: the section of the stripes' statistics, as stored.
        fields: the number of the footer's protobuf fields.
    """

    path: str
    file_length: int
    codec: Codec | None
    block_size: int
    version: tuple[int, int]
    writer_version: int
    schema: OrcType
    stripes: tuple[StripeInformation, ...]
    row_index_stride: int
    footer: pb.Footer
    length: int
    checksum: int
    encrypted_columns: frozenset[int]
    fields: int
    metadata: bytes = b""

    @property
    def num_rows(self) -> int:
        return self.stripes[-1].first_row + self.stripes[-1].num_rows if self.stripes else 0

    @property
    def compression(self) -> str:
        return self.codec.name if self.codec else "none"

    @property
    def is_proleptic(self) -> bool:
        """True if dates before 1582-10-15 use the proleptic Gregorian calendar, not the Julian."""
        return self.footer.calendar == pb.CalendarKind.PROLEPTIC_GREGORIAN

    @property
    def is_by_java(self) -> bool:
        """True if the footer names a Java writer. The first Java versions left no name."""
        return self.footer.HasField("writer") and self.footer.writer in JAVA_WRITERS

    @property
    def is_by_cpp(self) -> bool:
        """True if the footer names ORC's C++ writer."""
        return self.footer.HasField("writer") and self.footer.writer == CPP_WRITER

    @property
    def is_by_spark(self) -> bool:
        """True if the file's metadata names Spark as the writer. Versions before 2.4 left no name."""
        return any(item.name == _SPARK_KEY for item in self.footer.metadata)

    def decompressor(self) -> Decompressor:
        return Decompressor(self.codec, self.block_size)


def read_tail(source: ByteSource) -> FileTail:
    """Read a file's tail, with one read for most files and two if the footer is large.

    Raises:
        OrcError: if the file is not ORC, truncated, corrupt or of an unknown version or codec.
    """
    try:
        return _read_tail(source)
    except OrcError as error:
        raise error.at(path=source.path) from error


def _read_tail(source: ByteSource) -> FileTail:
    size = source.size()
    if size == 0:
        raise OrcError("the file is empty (0 bytes): it is not an ORC file")
    guess = size if source.is_remote and size <= COALESCE_GAP else min(size, TAIL_GUESS)
    if source.requests([(size - 1, 1)]):
        # this includes all of a small file, and the last stripe footer of a large one
        source.prefetch([(size - guess, guess)])
    else:
        # the source already has the tail, perhaps only that: begin with the postscript
        guess = min(size, 1 + source.read([(size - 1, 1)])[0][0])
    (tail,) = source.read([(size - guess, guess)])
    postscript_length = tail[-1]
    if postscript_length + 1 > size or postscript_length == 0:
        raise _not_orc(source)
    postscript = pb.PostScript()
    try:
        postscript.ParseFromString(bytes(tail[-1 - postscript_length : -1]))
    except DecodeError:
        raise _not_orc(source) from None
    # the first writers wrote the magic only at the beginning of the file
    if postscript.magic != MAGIC.decode() and (postscript.magic or source.read([(0, 3)])[0] != MAGIC):
        raise _not_orc(source)
    version = tuple(postscript.version) or (0, 11)
    if version not in _KNOWN_VERSIONS:
        raise OrcError(
            f"ORC file version {'.'.join(map(str, version))} is unknown: versions 0.11 and 0.12 can be read"
        )
    codec = codec_of(postscript.compression)
    block_size = postscript.compression_block_size or 256 * 1024
    if codec is not None and block_size > MAX_BLOCK_SIZE:
        raise OrcError(
            f"the compression block size {block_size} exceeds the format's maximum {MAX_BLOCK_SIZE}"
        )
    end = size - 1 - postscript_length
    footer_length = postscript.footer_length
    if footer_length > end:
        raise OrcError(
            f"the footer should have {footer_length} bytes but the file has {size}: it is truncated or corrupt"
        )
    metadata_length = postscript.metadata_length
    if footer_length + metadata_length > end:
        raise OrcError(
            f"the metadata should have {metadata_length} bytes but the file has {size}: it is corrupt"
        )
    length = metadata_length + footer_length + postscript_length + 1
    if length > guess:
        (tail,) = source.read([(size - length, length)])
    tail = tail[len(tail) - length :]
    stored = tail[metadata_length : metadata_length + footer_length]
    footer, fields = parse_section(pb.Footer, stored, Decompressor(codec, block_size), "the file's footer")
    schema = parse_types(tuple(item.SerializeToString() for item in footer.types))
    if schema.kind != Kind.STRUCT:
        raise OrcError(f"the root type is {schema}, not a struct: the file has no columns to read")
    return FileTail(
        path=source.path,
        file_length=size,
        codec=codec,
        block_size=block_size,
        version=(version[0], version[1]),
        writer_version=postscript.writer_version,
        schema=schema,
        stripes=_stripes(footer.stripes, end),
        row_index_stride=footer.row_index_stride,
        footer=footer,
        length=length,
        checksum=google_crc32c.value(bytes(tail)),
        encrypted_columns=_encrypted(footer, schema),
        fields=fields,
        metadata=bytes(tail[:metadata_length]),
    )


def _encrypted(footer: pb.Footer, schema: OrcType) -> frozenset[int]:
    roots = {variant.root for variant in footer.encryption.variants}
    if not roots:
        return frozenset()
    return frozenset(below.column for node in schema.walk() if node.column in roots for below in node.walk())


def _not_orc(source: ByteSource) -> OrcError:
    (head,) = source.read([(0, min(source.size(), _HEAD_BYTES))])
    format_name = next((name for magic, name in _MAGICS.items() if bytes(head).startswith(magic)), None)
    if format_name is None and all(byte >= 0x20 or byte in b"\t\r\n" for byte in head):
        format_name = "text"
    detail = f"it looks like {format_name}" if format_name else "it does not end in an ORC postscript"
    remedy = _REMEDIES.get(format_name or "", "")
    return OrcError(f"not an ORC file, or a truncated one: {detail}{remedy}", path=source.path)


def _stripes(stripes: Sequence[pb.StripeInformation], end: int) -> tuple[StripeInformation, ...]:
    if len(stripes) > end:
        raise OrcError(
            f"the footer lists {len(stripes)} stripes, and only {end} bytes precede it: it is corrupt"
        )
    information, first_row = [], 0
    for index, stripe in enumerate(stripes):
        length = stripe.index_length + stripe.data_length + stripe.footer_length
        if stripe.offset + length > end:
            raise OrcError(
                f"the stripe ends at byte {stripe.offset + length}, beyond the data's end at {end}: the file is "
                "truncated or corrupt",
                stripe=index,
            )
        information.append(
            StripeInformation(
                offset=stripe.offset,
                index_length=stripe.index_length,
                data_length=stripe.data_length,
                footer_length=stripe.footer_length,
                first_row=first_row,
                num_rows=stripe.number_of_rows,
            )
        )
        first_row += stripe.number_of_rows
        if first_row > MAX_ROWS:
            raise OrcError(f"the stripes should have {first_row} rows: the file is corrupt", stripe=index)
    return tuple(information)


def decode_string(value: str | bytes) -> str:
    """Decode a string field of a message, which is bytes if it is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def parse_types(serialized: tuple[bytes, ...]) -> OrcType:
    """Build the tree of a type list in pre-order. Refuse any other list, as the Java reader does.

    The C++ reader numbers the columns of any list in pre-order, and so reads other columns. The files of a table
    mostly have the same types, so trees are cached.
    """
    tree = _TREES.get(serialized)
    if tree is None:
        tree = _build_tree(serialized)
        _TREES.put(serialized, tree, len(serialized))
    return tree


def _build_tree(serialized: tuple[bytes, ...]) -> OrcType:
    types = [pb.Type.FromString(item) for item in serialized]
    next_column = 0

    def build(column: int, depth: int) -> OrcType:
        nonlocal next_column
        if column != next_column or column >= len(types):
            raise OrcError(
                f"the type list is not a tree in pre-order: a child is type {column} where type {next_column} of "
                f"{len(types)} should be"
            )
        if depth > MAX_TYPE_DEPTH:
            raise OrcError(f"the types are nested more than {MAX_TYPE_DEPTH} deep")
        next_column += 1
        node = types[column]
        if node.kind not in _KINDS:
            raise OrcError(f"type {column} is of the unknown kind {node.kind}")
        kind = Kind(node.kind)
        if kind == Kind.STRUCT and len(node.field_names) != len(node.subtypes):
            raise OrcError(
                f"struct type {column} has {len(node.subtypes)} fields and {len(node.field_names)} names"
            )
        arity = {Kind.LIST: 1, Kind.MAP: 2}.get(kind)
        if arity is not None and len(node.subtypes) != arity:
            raise OrcError(
                f"type {column} ({kind.name.lower()}) has {len(node.subtypes)} children, not {arity}"
            )
        if kind == Kind.DECIMAL and max(node.precision, node.scale) > MAX_DECIMAL_DIGITS:
            raise OrcError(
                f"type {column} is a decimal of {node.precision} digits, {node.scale} after the point: "
                f"the maximum is {MAX_DECIMAL_DIGITS}"
            )
        if kind == Kind.CHAR and node.maximum_length > MAX_CHAR_LENGTH:
            raise OrcError(
                f"type {column} is a CHAR of {node.maximum_length} characters: the maximum is {MAX_CHAR_LENGTH}"
            )
        precision, scale = node.precision, node.scale
        if kind == Kind.DECIMAL and not precision:
            # writers before Hive 0.12 recorded neither; these are the defaults of the Java reader, and so of Spark
            precision, scale = MAX_DECIMAL_DIGITS, scale if node.HasField("scale") else _DEFAULT_SCALE
        return OrcType(
            kind=kind,
            column=column,
            children=tuple(build(child, depth + 1) for child in node.subtypes),
            field_names=tuple(map(decode_string, node.field_names)),
            max_length=node.maximum_length,
            precision=precision,
            scale=scale,
        )

    if not types:
        raise OrcError("the footer has no types")
    return build(0, 0)
