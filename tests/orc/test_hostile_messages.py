"""Files made to mislead, by their footers, types and zones: each ends in an error that names the place, on any path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.metadata.types import Kind
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.orc.time_zones import base_seconds, normalize_zone
from tests.fuzz.parts import FileParts, put_together
from tests.orc.hostile import (
    ROWS,
    STRIDE,
    TABLE,
    ZLIB,
    bounded,
    column_of,
    direct_64,
    with_message,
    with_stream,
)
from tests.support.messages import raises


@pytest.mark.parametrize("rows", [ROWS + STRIDE, 1 << 22, 1 << 27, (1 << 31) - 1, 1 << 40])
@pytest.mark.parametrize("name", TABLE.column_names)
@pytest.mark.usefixtures("windows")
def test_more_rows_than_there_are(parts: FileParts, name: str, rows: int) -> None:
    def claim(footer: Any) -> None:
        footer.stripes[0].number_of_rows = rows

    data = put_together(parts, ZLIB, 1 << 18, with_message("footer", claim))
    for wanted in (None, [rows - 1]):
        reader = OrcReader(BytesSource(data, "x.orc"))
        with pytest.raises(OrcError) as caught:
            bounded(lambda reader=reader, wanted=wanted: reader.read([name], wanted))  # type: ignore[misc]
        assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


def _add_stripes(stripes: Any, count: int) -> None:
    for _ in range(count):
        stripes.add()


#: Messages that are not what they should be, and the error of opening the file and reading it.
MESSAGES: list[tuple[str, str, Callable[[Any], None], str]] = [
    (
        "rows beyond 64 bits",
        "footer",
        lambda m: setattr(m.stripes[0], "number_of_rows", (1 << 64) - 1),
        "should have",
    ),
    ("a type of itself", "footer", lambda m: m.types[10].subtypes.__setitem__(0, 10), "not a tree"),
    ("a type of the root", "footer", lambda m: m.types[10].subtypes.__setitem__(0, 0), "not a tree"),
    ("a child twice", "footer", lambda m: m.types[0].subtypes.__setitem__(1, 1), "not a tree"),
    (
        "a child that is not there",
        "footer",
        lambda m: m.types[0].subtypes.__setitem__(1, 4_000_000_000),
        "not a tree",
    ),
    (
        "a list of nothing",
        "footer",
        lambda m: m.types[10].ClearField("subtypes"),
        "children, not 1|not a tree",
    ),
    ("an unknown kind", "footer", lambda m: setattr(m.types[1], "kind", 77), "unknown kind 77"),
    ("too many digits", "footer", lambda m: setattr(m.types[8], "precision", 39), "the maximum is 38"),
    ("too many decimals", "footer", lambda m: setattr(m.types[8], "scale", 1 << 31), "the maximum is 38"),
    (
        "a stripe behind the end",
        "footer",
        lambda m: setattr(m.stripes[0], "offset", 1 << 63),
        "truncated or corrupt",
    ),
    ("more stripes than bytes", "footer", lambda m: _add_stripes(m.stripes, 20_000), "stripes, and only"),
    (
        "a block beyond the format's",
        "postscript",
        lambda m: setattr(m, "compression_block_size", 1 << 40),
        "block size",
    ),
    (
        "a footer before the file",
        "postscript",
        lambda m: setattr(m, "footer_length", 1 << 62),
        "truncated or corrupt",
    ),
    ("an unknown codec", "postscript", lambda m: setattr(m, "compression", 9), "unknown compression codec 9"),
    ("an unknown version", "postscript", lambda m: m.version.__setitem__(0, 7), "version 7.12 is unknown"),
    (
        "a stream behind the end",
        "stripe footer",
        lambda m: setattr(m.streams[3], "length", 1 << 62),
        "beyond the stripe",
    ),
    (
        "an unknown encoding",
        "stripe footer",
        lambda m: setattr(m.columns[1], "kind", 9),
        "unknown column encoding",
    ),
    (
        "too few encodings",
        "stripe footer",
        lambda m: m.columns.__delitem__(slice(3, None)),
        "column encodings",
    ),
    (
        "an endless dictionary",
        "stripe footer",
        lambda m: setattr(m.columns[6], "dictionary_size", (1 << 32) - 1),
        "there should be 4294967295 entries of a dictionary",
    ),
    (
        "a zone that is not",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "No/Where"),
        "unknown time zone 'No/Where'",
    ),
    (
        "a zone that is a folder",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "America"),
        "unknown time zone",
    ),
    (
        "a zone outside",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "../../etc/passwd"),
        "unknown time zone",
    ),
    (
        "a zone without end",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "x" * 5000),
        "unknown time zone",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "message"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES]
)
@pytest.mark.usefixtures("windows")
def test_messages_of_hostile_content(
    parts: FileParts, name: str, change: Callable[[Any], None], message: str
) -> None:
    data = put_together(parts, ZLIB, 1 << 16, with_message(name, change))
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc")).read())
    assert caught.value.path == "x.orc"
    assert (caught.value.stripe == 0) >= (name == "stripe footer")


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize("length", [1, -1])
def test_types_that_are_not_in_pre_order(parts: FileParts, length: int) -> None:
    """Pyarrow gives each column the streams of another then, and ends the process on lengths not looked at."""

    def swap(footer: Any) -> None:
        # the list's element and the column after it change places
        texts, element, after = (column_of(parts, name) for name in ("texts", "texts/0", "map"))
        footer.types[texts].subtypes[0] = after
        footer.types[0].subtypes[TABLE.column_names.index("map")] = element

    lengths = direct_64([length] * ROWS)
    data = put_together(
        with_stream(parts, "texts/0", StreamKind.LENGTH, lengths), hooks=with_message("footer", swap)
    )
    with raises(OrcError) as caught:
        OrcReader(BytesSource(data, "x.orc")).read()
    assert caught.value.path == "x.orc"


def test_the_built_in_indexes_name_file_and_stripe(parts: FileParts) -> None:
    data = put_together(
        parts, hooks=with_message("stripe footer", lambda m: setattr(m.streams[0], "length", 1 << 62))
    )
    with pytest.raises(OrcError) as caught:
        FileIndexes(OrcReader(BytesSource(data, "x.orc"))).bloom_stream(0, parts.schema.children[0])
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


#: Zones that Java writes, the offset to UTC then, and what the time zone database has of them.
ZONES = [
    ("GMT+08:00", 8),
    ("GMT-3", -3),
    ("PST", -8),
    ("IST", 5.5),
    ("Asia/Tokyo", 9),
    ("Etc/GMT+5", -5),
    ("EST", -5),
]


@pytest.mark.parametrize(("zone", "hours"), ZONES)
def test_zones_that_java_names(parts: FileParts, zone: str, hours: float) -> None:
    def move(message: Any) -> None:
        message.writer_timezone = zone

    data = put_together(parts, hooks=with_message("stripe footer", move))
    # the seconds are counted from 2015 in the writer's zone, whose clock was as far from UTC then as in 1970
    assert base_seconds(normalize_zone(zone)) == base_seconds("UTC") - hours * 3600
    assert OrcReader(BytesSource(data)).read(["moment"]).equals(TABLE.select(["moment"]))


def test_names_that_are_not_utf8(parts: FileParts) -> None:
    data = put_together(parts)
    name = TABLE.column_names[4].encode()
    broken = data.replace(b"\x04" + name + b"\x1a", b"\x04" + name[:2] + b"\xff\xfe" + b"\x1a")
    assert broken != data
    reader = OrcReader(BytesSource(broken))
    assert reader.names[4] == "te\ufffd\ufffd"
    assert reader.read([reader.names[4]]).column(0).equals(TABLE["text"])


@pytest.mark.usefixtures("windows")
def test_no_rows_of_a_union(tmp_path: Path) -> None:
    from tests.fuzz.corpus import parts as corpus

    union = next(part for name, part in corpus(tmp_path) if name.startswith("union"))
    table = OrcReader(BytesSource(put_together(union))).read(rows=[])
    assert table.num_rows == 0
    assert pa.types.is_union(table.schema.field(0).type)


@pytest.mark.usefixtures("windows")
def test_a_union_of_nothing_has_no_values(parts: FileParts) -> None:
    column = column_of(parts, "number")

    def make_union(footer: Any) -> None:
        footer.types[column].kind = Kind.UNION

    reader = OrcReader(BytesSource(put_together(parts, ZLIB, hooks=with_message("footer", make_union))))
    for rows in (None, [8]):  # row 8 is null: no value is looked at
        with raises(OrcError):
            reader.read(["number"], rows)
    assert reader.read(["tiny"]).column(0).equals(TABLE["tiny"])


@pytest.mark.parametrize("extra", [b"\0", b"trailing", bytes(300)])
def test_bytes_behind_the_file_are_refused(parts: FileParts, extra: bytes) -> None:
    with raises(OrcError):
        OrcReader(BytesSource(put_together(parts, ZLIB) + extra))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"PAR1" + bytes(range(200)) + b"PAR1",
            r"like Parquet; only ORC .*: convert it with spark\.read\.parquet\(.*\)\.write\.orc\(.*\)$",
        ),
        (b"\x1f\x8b\x08" + bytes(100), "looks like gzip$"),
        (b"id,name\n1,one\n" * 20, "looks like text"),
        (b"ORC" + bytes(100), "an ORC file that is truncated"),
        (b"\x00\x01\x02" * 9, "does not end in an ORC postscript"),
        (b"", "is empty"),
    ],
)
def test_files_of_other_formats(data: bytes, message: str) -> None:
    with pytest.raises(OrcError, match=message):
        OrcReader(BytesSource(data, "x"))
