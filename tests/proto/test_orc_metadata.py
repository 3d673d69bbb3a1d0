"""The ORC metadata messages: bytes that others write are read as written, also where they are newer."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.proto import orc_metadata_pb2 as orc


def tail(data: bytes) -> tuple[orc.PostScript, orc.Footer]:
    """Postscript and footer of an uncompressed file."""
    length = data[-1]
    postscript = orc.PostScript.FromString(data[-1 - length : -1])
    end = len(data) - 1 - length
    return postscript, orc.Footer.FromString(data[end - postscript.footer_length : end])


@pytest.fixture(scope="module")
def file() -> bytes:
    sink = io.BytesIO()
    table = pa.table({"id": pa.array([1, 2, None], pa.int64()), "name": ["a", "ü", None]})
    pyarrow.orc.write_table(table, sink, compression="uncompressed")
    return sink.getvalue()


def test_the_tail_of_a_file(file: bytes) -> None:
    postscript, footer = tail(file)
    assert postscript.magic == "ORC"
    assert postscript.compression == orc.CompressionKind.NONE
    assert list(postscript.version) == [0, 12]
    assert footer.number_of_rows == 3
    assert [kind.kind for kind in footer.types] == [orc.Type.STRUCT, orc.Type.LONG, orc.Type.STRING]
    assert list(footer.types[0].field_names) == ["id", "name"]
    assert list(footer.types[0].subtypes) == [1, 2]
    _, numbers, strings = footer.statistics
    assert (numbers.int_statistics.minimum, numbers.int_statistics.maximum) == (1, 2)
    assert numbers.number_of_values == 2
    assert numbers.has_null
    assert (strings.string_statistics.minimum, strings.string_statistics.maximum) == (b"a", "ü".encode())


def test_the_streams_of_a_stripe_fill_it(file: bytes) -> None:
    _, footer = tail(file)
    (stripe,) = footer.stripes
    at = stripe.offset + stripe.index_length + stripe.data_length
    stripe_footer = orc.StripeFooter.FromString(file[at : at + stripe.footer_length])
    assert sum(stream.length for stream in stripe_footer.streams) == stripe.index_length + stripe.data_length
    assert [encoding.kind for encoding in stripe_footer.columns][1:] == [
        orc.ColumnEncoding.DIRECT_V2,
        orc.ColumnEncoding.DIRECT_V2,
    ]
    (index,) = (s for s in stripe_footer.streams if s.kind == orc.Stream.ROW_INDEX and s.column == 1)
    assert index.length > 0


def test_every_field_of_the_tail_is_known(file: bytes) -> None:
    for message in tail(file):
        before = message.ByteSize()
        message.DiscardUnknownFields()
        assert message.ByteSize() == before


def test_an_unknown_kind_keeps_its_number() -> None:
    # varint fields 1 (Type.kind) and 2 (PostScript.compression)
    assert orc.Type.FromString(b"\x08\x63").kind == 99
    assert orc.PostScript.FromString(b"\x10\x63").compression == 99


def test_unknown_fields_are_passed_over() -> None:
    message = orc.Footer(number_of_rows=7).SerializeToString()
    newer = message + b"\xfa\x3e\x02hi"  # field 1007, two bytes
    assert orc.Footer.FromString(newer).number_of_rows == 7


def test_statistics_of_cut_strings_are_bytes() -> None:
    cut = "ü".encode()[:1]
    written = orc.StringStatistics(lower_bound=cut).SerializeToString()
    assert orc.StringStatistics.FromString(written).lower_bound == cut


def test_missing_differs_from_zero() -> None:
    assert not orc.ColumnStatistics.FromString(b"").HasField("has_null")
    assert orc.ColumnStatistics(has_null=False).HasField("has_null")


def test_no_name_is_shared_with_other_orc_libraries() -> None:
    assert orc.DESCRIPTOR.package == "hindex.orc.v1"
    assert orc.DESCRIPTOR.name == "hindex/proto/orc_metadata.proto"
