"""Sections of metadata whose few stored bytes claim much: they are refused before they take memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import zstandard
from google.protobuf.message import Message

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.codec import CODECS, Decompressor
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata import sections
from hindex.orc.metadata.sections import parse_section
from hindex.orc.metadata.statistics import Distrust
from hindex.orc.metadata.types import Kind
from hindex.orc.reader.file_cache import CachedFile
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.proto import orc_metadata_pb2 as pb
from tests.fuzz.parts import FileParts, put_together
from tests.orc.hostile import TABLE, ZLIB, ZSTD, bounded, with_message
from tests.support.cases import sampled
from tests.support.messages import raises

BLOCK = 1 << 16

#: Fields of two bytes each, by the section that they are of.
FIELDS: list[tuple[str, type[Message], bytes]] = [
    ("types", pb.Footer, b"\x22\x00"),
    ("stripes", pb.Footer, b"\x1a\x00"),
    ("statistics of the file", pb.Footer, b"\x3a\x00"),
    ("names", pb.Footer, b"\x22\xfe\x03" + b"\x1a\x00" * 255),
    ("children", pb.Footer, b"\x22\xff\x03\x12\xfc\x03" + bytes(508)),
    ("user metadata", pb.Footer, b"\x2a\x00"),
    ("statistics of stripes", pb.Metadata, b"\x0a\x02\x0a\x00"),
    ("integer statistics", pb.Metadata, b"\x0a\x04\x0a\x02\x12\x00"),
    ("streams", pb.StripeFooter, b"\x0a\x00"),
    ("encodings", pb.StripeFooter, b"\x12\x00"),
    ("row groups", pb.RowIndex, b"\x0a\x02\x12\x00"),
    ("positions", pb.RowIndex, b"\x0a\xff\x03\x0a\xfc\x03" + bytes(508)),
    ("filters", pb.BloomFilterIndex, b"\x0a\x00"),
    ("unknown", pb.Footer, b"\xf8\x07\x00"),
]


def stored(content: bytes) -> memoryview:
    """Encode a section in chunks of zstd."""
    chunks = b""
    for at in range(0, len(content), BLOCK):
        frame = zstandard.compress(content[at : at + BLOCK])
        chunks += (len(frame) << 1).to_bytes(3, "little") + frame
    return memoryview(chunks)


@pytest.mark.parametrize(("section", "field"), [f[1:] for f in FIELDS], ids=[f[0] for f in FIELDS])
def test_fields_of_few_stored_bytes(section: type[Message], field: bytes) -> None:
    data = stored(field * ((12 << 20) // len(field)))
    assert len(data) < 40_000
    decompressor = Decompressor(CODECS[ZSTD], BLOCK)
    with pytest.raises(OrcError, match=rf"the part is corrupt: .* fields in {len(data)} stored bytes"):
        bounded(lambda: parse_section(section, data, decompressor, "the part"))


def test_bytes_of_few_stored_ones() -> None:
    data = stored(b"\xfa\x07\xff\xff\xff\x3f" + bytes((1 << 27) - 1))
    limit = max(sections._FREE_BYTES, sections._MAX_RATIO * len(data))
    assert limit < 64 << 20
    decompressor = Decompressor(CODECS[ZSTD], BLOCK)
    with raises(OrcError):
        bounded(lambda: parse_section(pb.Footer, data, decompressor, "the part"))
    # nothing behind the limit is decompressed
    assert decompressor.bytes_out <= limit + BLOCK


def test_groups_are_refused() -> None:
    with raises(OrcError):
        parse_section(pb.Footer, memoryview(b"\xfb\x07\xfc\x07"), Decompressor(None, 0), "the part")


def _add(data: bytes) -> Any:
    return lambda message: message.MergeFromString(data)


@sampled(8)
@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("footer", b"\x22\x00", "the file's footer is corrupt"),
        ("footer", b"\x22\x02\x1a\x00", "the file's footer is corrupt"),
        ("stripe footer", b"\x0a\x00", "the stripe footer is corrupt"),
        ("row index", b"\x0a\x00", "the row index is corrupt"),
    ],
)
@pytest.mark.parametrize("codec", [ZLIB, ZSTD])
@pytest.mark.usefixtures("windows")
def test_files_with_such_sections(
    parts: FileParts, codec: int, name: str, fields: bytes, message: str
) -> None:
    hooks = with_message(name, _add(fields * 2_000_000))
    if name == "row index":
        # one of them would do
        parts = parts.copy()
        hooks = with_message(name, _add(fields * 300_000))
    data = put_together(parts, codec, hooks=hooks)
    assert len(data) < 100_000
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read(rows=[5]))
    assert caught.value.path == "x.orc"


def test_statistics_of_such_sections_are_not_used(parts: FileParts) -> None:
    data = put_together(parts, ZSTD, hooks=with_message("metadata", _add(b"\x0a\x02\x0a\x00" * 1_000_000)))
    reader = OrcReader(BytesSource(data))
    bounded(lambda: FileIndexes(reader).stripe_statistics(0, 1))
    assert FileIndexes(reader).stripe_statistics(0, 1) is Distrust.CORRUPT
    assert reader.read().equals(TABLE)


def _wide(columns: int, stripes: int) -> pb.Footer:
    footer = pb.Footer(header_length=3, row_index_stride=10_000, writer=0)
    names = [f"column{i}" for i in range(columns)]
    footer.types.add(kind=Kind.STRUCT, subtypes=range(1, columns + 1), field_names=names)
    for number in range(columns + 1):
        statistics = footer.statistics.add(number_of_values=0, has_null=True, bytes_on_disk=10)
        if number:
            footer.types.add(kind=Kind.LONG)
            statistics.int_statistics.sum = 0
    for stripe in range(stripes):
        footer.stripes.add(
            offset=3 + stripe, index_length=0, data_length=0, footer_length=1, number_of_rows=1
        )
    return footer


@pytest.mark.parametrize(("columns", "stripes"), [(10_000, 10_000), (60_000, 1), (10, 100_000)])
def test_wide_and_long_files_are_sound(columns: int, stripes: int) -> None:
    section = stored(_wide(columns, stripes).SerializeToString())
    body = bytes(stripes)
    postscript = pb.PostScript(
        footer_length=len(section),
        compression=ZSTD,
        compression_block_size=BLOCK,
        version=[0, 12],
        magic="ORC",
    ).SerializeToString()
    reader = OrcReader(BytesSource(b"ORC" + body + section + postscript + bytes([len(postscript)])))
    assert (len(reader.names), reader.num_rows) == (columns, stripes)
    assert len(reader.schema) == columns


def test_statistics_of_many_null_columns_are_sound() -> None:
    """A row group of nulls has some 40 bytes of a file, and next to none of this section."""
    metadata, columns, stripes = pb.Metadata(), 1000, 300
    for _ in range(stripes):
        stripe = metadata.stripe_stats.add()
        for _ in range(columns):
            stripe.col_stats.add(number_of_values=0, has_null=True).int_statistics.sum = 0
    data, decompressor = stored(metadata.SerializeToString()), Decompressor(CODECS[ZSTD], BLOCK)
    with raises(OrcError):
        parse_section(pb.Metadata, data, decompressor, "the statistics")
    length = 40 * columns * stripes
    message, _ = parse_section(pb.Metadata, data, decompressor, "the statistics", min_fields=length)
    assert message == metadata


def test_cached_tails_weigh_their_fields(parts: FileParts) -> None:
    small, large = (
        CachedFile(OrcReader(BytesSource(put_together(parts, ZSTD, hooks=hooks))).tail)
        for hooks in (None, with_message("footer", _add(b"\x2a\x00" * 100_000)))
    )
    # each takes 52 bytes
    assert large.nbytes - small.nbytes > 52 * 100_000


@pytest.mark.parametrize(("length", "is_sound"), [(1 << 16, True), ((1 << 16) + 1, False)])
def test_lengths_of_char(parts: FileParts, length: int, is_sound: bool) -> None:
    """Values, bounds and literals are filled to that length."""
    column = 1 + TABLE.column_names.index("text")

    def claim(footer: Any) -> None:
        footer.types[column].kind, footer.types[column].maximum_length = Kind.CHAR, length

    data = put_together(parts, hooks=with_message("footer", claim))
    if is_sound:
        (text,) = OrcReader(BytesSource(data)).read(["text"], [5]).column(0).to_pylist()
        assert text == "text 25".ljust(length)
        return
    with raises(OrcError):
        OrcReader(BytesSource(data))


def test_many_columns_are_not_compared_with_each_other() -> None:
    """Names, and the statistics of columns, are looked up without a walk over all columns."""
    columns = 3000
    section = _wide(columns, 0).SerializeToString()
    postscript = pb.PostScript(footer_length=len(section), version=[0, 12], magic="ORC").SerializeToString()
    reader = OrcReader(BytesSource(b"ORC" + section + postscript + bytes([len(postscript)])))
    assert reader.read(list(reader.names)).column_names == list(reader.names)
    indexes = FileIndexes(reader)
    assert np.all([indexes.file_statistics(number) is not None for number in range(columns + 1)])
