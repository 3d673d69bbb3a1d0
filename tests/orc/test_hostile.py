"""Files made to mislead: each ends in an error that names the place, in bounded memory, on every decode path.

Most of them were found by ``python -m tests.fuzz``. Where pyarrow's own reader ends the process, hangs or takes memory
without bound on a file, the case says so.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from google.protobuf.message import Message

from hindex.errors import OrcError
from hindex.orc import DecodePath, OrcReader, vetting
from hindex.orc.built_in import BuiltInIndexes
from hindex.orc.columns.temporal import julian_to_gregorian
from hindex.orc.dense import DenseReader
from hindex.orc.source import BytesSource
from hindex.orc.stripe import StreamKind
from hindex.orc.types import Kind
from tests.fuzz.parts import FileParts, Hooks, compressed, put_together, take_apart
from tests.support.rle_v2 import pack, varint, zigzag
from tests.support.vetted import is_vetted
from tests.support.writers import write_pyarrow

PATHS = [DecodePath.SPARSE, DecodePath.DENSE, DecodePath.WHOLE, None]
ROWS, STRIDE = 900, 100
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)

#: Beyond what the same file takes as it was written.
MOST_BYTES = 64 << 20

TABLE = pa.table(
    {
        "number": pa.array([None if i % 9 == 8 else i * i for i in range(ROWS)], pa.int64()),
        "tiny": pa.array([i % 128 for i in range(ROWS)], pa.int8()),
        "flag": pa.array([i % 7 < 3 for i in range(ROWS)]),
        "double": pa.array([i / 7 for i in range(ROWS)]),
        "text": pa.array([f"text {i * i}" for i in range(ROWS)]),
        "mode": pa.array([f"mode {i % 5}" for i in range(ROWS)]),
        "money": pa.array(range(ROWS), pa.decimal128(9, 0)),
        "huge": pa.array(range(ROWS), pa.decimal128(38, 0)),
        "moment": pa.array(range(ROWS), pa.timestamp("us")),
        "list": pa.array([[i, None] if i % 3 else [] for i in range(ROWS)], pa.list_(pa.int32())),
        "pair": pa.array([{"a": i, "b": str(i)} for i in range(ROWS)]),
        "texts": pa.array([[str(i)] for i in range(ROWS)]),
        "map": pa.array([[(i, str(i))] for i in range(ROWS)], pa.map_(pa.int32(), pa.string())),
    }
)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> FileParts:
    path = tmp_path_factory.mktemp("hostile") / "t.orc"
    write_pyarrow(path, TABLE, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    return take_apart(path.read_bytes())


def column_of(parts: FileParts, name: str) -> int:
    top, *below = name.split("/")
    of = parts.schema.children[parts.schema.field_names.index(top)]
    for child in below:
        of = of.children[int(child)]
    return of.column


def with_stream(parts: FileParts, name: str, kind: StreamKind, content: bytes) -> FileParts:
    """The file with other content of one stream of a column."""
    found = parts.copy()
    stripe = found.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    stripe.streams[places.index((column_of(parts, name), kind))] = content
    return found


def with_message(name: str, change: Callable[[Any], None]) -> Hooks:
    def apply(found: str, message: Message) -> None:
        if found == name:
            change(message)

    return Hooks(message=apply)


def repeated(value: int, count: int) -> bytes:
    """Runs of the second encoding of one unsigned value."""
    run = bytes([0xC0 | 511 >> 8, 511 & 255]) + varint(value) + b"\0"
    return run * -(-count // 512)


def direct_64(values: list[int]) -> bytes:
    """Direct runs of 64 bits."""
    return b"".join(
        bytes([0x7E | len(part) - 1 >> 8, len(part) - 1 & 255]) + pack([v % 2**64 for v in part], 64)
        for part in (values[at : at + 512] for at in range(0, len(values), 512))
    )


#: Streams of a column that are not what they should be, and the error.
STREAMS: list[tuple[str, StreamKind, bytes, str]] = [
    # pyarrow ends the process
    ("text", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    ("text", StreamKind.LENGTH, direct_64([1 << 62] * ROWS), "length is negative or absurdly large"),
    # pyarrow takes gigabytes
    ("text", StreamKind.LENGTH, repeated(1 << 30, ROWS), "past the stream's end|more than one array"),
    ("text", StreamKind.LENGTH, b"", "past byte 0"),
    ("text", StreamKind.DATA, b"", "past the stream's end"),
    ("mode", StreamKind.LENGTH, direct_64([1 << 63, 1 << 63, 2, 2, 2]), "length is negative"),
    ("mode", StreamKind.LENGTH, repeated(1 << 39, 5), "past the stream's end|more than one array"),
    ("mode", StreamKind.DATA, repeated(5, ROWS), "entry 5 of a dictionary of 5"),
    # pyarrow counts to two billion for each value
    (
        "huge",
        StreamKind.SECONDARY,
        direct_64([zigzag((1 << 31) - 1)] * ROWS),
        "scale .* is outside the format's bounds",
    ),
    ("money", StreamKind.SECONDARY, direct_64([zigzag(-(1 << 30))] * ROWS), "is outside the format's bounds"),
    ("money", StreamKind.DATA, b"\xff" * 2000, "128 bits|past byte"),
    ("moment", StreamKind.SECONDARY, direct_64([(1 << 40) << 3] * ROWS), "more than 999,999,999 nanoseconds"),
    ("list", StreamKind.LENGTH, repeated(1 << 29, ROWS), "more than one array holds|run past"),
    ("list", StreamKind.LENGTH, repeated(1 << 21, ROWS), "run past byte"),
    ("list", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    # two elements, then one less than none, by steps
    ("list", StreamKind.LENGTH, direct_64([2]) + b"\xc1\xff\x02\x01" * 2, "length is negative"),
    ("list/0", StreamKind.DATA, b"", "past byte 0"),
    ("texts/0", StreamKind.LENGTH, direct_64([-1] * ROWS), "length is negative"),
    ("texts/0", StreamKind.LENGTH, repeated(1 << 30, ROWS), "past the stream's end|more than one array"),
    ("map", StreamKind.LENGTH, repeated(1 << 29, ROWS), "more than one array holds|run past"),
    ("map/1", StreamKind.LENGTH, direct_64([1 << 62] * ROWS), "negative or absurdly large"),
    ("number", StreamKind.PRESENT, b"\x7f", "run past|past byte"),
    ("double", StreamKind.DATA, bytes(8), "past the stream's end"),
    ("pair/1", StreamKind.LENGTH, direct_64([1 << 63] * ROWS), "length is negative"),
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("name", "kind", "content", "message"),
    STREAMS,
    ids=[f"{n}-{k.name}-{i}" for i, (n, k, _, _) in enumerate(STREAMS)],
)
def test_streams_of_hostile_content(
    parts: FileParts,
    name: str,
    kind: StreamKind,
    content: bytes,
    message: str,
    codec: int,
    path: DecodePath | None,
) -> None:
    data = put_together(with_stream(parts, name, kind, content), codec)
    top = name.partition("/")[0]
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc"), path=path).read([top]))
    assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)
    others = [other for other in TABLE.column_names if other != top]
    assert OrcReader(BytesSource(data), path=path).read(others).equals(TABLE.select(others))


def bounded(act: Callable[[], object]) -> None:
    """Run something that does not take more memory than a small file may."""
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    try:
        act()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES
        assert pa.total_allocated_bytes() - before < MOST_BYTES


@pytest.mark.parametrize("rows", [ROWS + STRIDE, 1 << 22, 1 << 27, (1 << 31) - 1, 1 << 40])
@pytest.mark.parametrize("name", TABLE.column_names)
def test_more_rows_than_there_are(parts: FileParts, name: str, rows: int) -> None:
    def claim(footer: Any) -> None:
        footer.stripes[0].number_of_rows = rows

    data = put_together(parts, ZLIB, 1 << 18, with_message("footer", claim))
    for path in PATHS:
        for wanted in (None, [rows - 1]):
            reader = OrcReader(BytesSource(data, "x.orc"), path=path)
            with pytest.raises(OrcError) as caught:
                bounded(lambda reader=reader, wanted=wanted: reader.read([name], wanted))  # type: ignore[misc]
            assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


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
    ("too many digits", "footer", lambda m: setattr(m.types[8], "precision", 39), "38 are the most"),
    ("too many decimals", "footer", lambda m: setattr(m.types[8], "scale", 1 << 31), "38 are the most"),
    (
        "a stripe behind the end",
        "footer",
        lambda m: setattr(m.stripes[0], "offset", 1 << 63),
        "truncated or corrupt",
    ),
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
    ("an unknown version", "postscript", lambda m: m.version.__setitem__(0, 7), "version 7.12 is not known"),
    (
        "a stream behind the end",
        "stripe footer",
        lambda m: setattr(m.streams[3], "length", 1 << 62),
        "past the stripe",
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
        "'No/Where' is not known",
    ),
    (
        "a zone that is a folder",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "America"),
        "is not known",
    ),
    (
        "a zone outside",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "../../etc/passwd"),
        "is not known",
    ),
    (
        "a zone without end",
        "stripe footer",
        lambda m: setattr(m, "writer_timezone", "x" * 5000),
        "is not known",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "message"), [m[1:] for m in MESSAGES], ids=[m[0] for m in MESSAGES]
)
@pytest.mark.parametrize("path", PATHS)
def test_messages_of_hostile_content(
    parts: FileParts, name: str, change: Callable[[Any], None], message: str, path: DecodePath | None
) -> None:
    data = put_together(parts, ZLIB, 1 << 16, with_message(name, change))
    with pytest.raises(OrcError, match=message) as caught:
        bounded(lambda: OrcReader(BytesSource(data, "x.orc"), path=path).read())
    assert caught.value.path == "x.orc"
    assert (caught.value.stripe == 0) >= (name == "stripe footer")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (StreamKind.LENGTH, direct_64([-1] * ROWS)),
        (StreamKind.LENGTH, b""),
        (StreamKind.ROW_INDEX, b""),
    ],
)
def test_a_stream_that_is_listed_twice(
    parts: FileParts, kind: StreamKind, content: bytes, path: DecodePath | None
) -> None:
    """pyarrow takes the first of them, whatever was looked at, and ends the process on its lengths."""
    column, other = column_of(parts, "text"), column_of(parts, "tiny")

    def rename(footer: Any) -> None:
        (stream,) = (s for s in footer.streams if (s.column, s.kind) == (other, StreamKind.DATA))
        stream.column, stream.kind = column, kind

    data = put_together(
        with_stream(parts, "tiny", StreamKind.DATA, content), hooks=with_message("stripe footer", rename)
    )
    with pytest.raises(OrcError, match=f"lists the stream {kind.name} of column {column} twice") as caught:
        OrcReader(BytesSource(data, "x.orc"), path=path).read(["text"])
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("length", [1, -1])
def test_types_that_are_not_in_pre_order(parts: FileParts, length: int, path: DecodePath | None) -> None:
    """pyarrow gives each column the streams of another then, and ends the process on lengths not looked at."""

    def swap(footer: Any) -> None:
        # the list's element and the column after it change places
        texts, element, after = (column_of(parts, name) for name in ("texts", "texts/0", "map"))
        footer.types[texts].subtypes[0] = after
        footer.types[0].subtypes[TABLE.column_names.index("map")] = element

    lengths = direct_64([length] * ROWS)
    data = put_together(
        with_stream(parts, "texts/0", StreamKind.LENGTH, lengths), hooks=with_message("footer", swap)
    )
    with pytest.raises(OrcError, match="not a tree in pre-order") as caught:
        OrcReader(BytesSource(data, "x.orc"), path=path).read()
    assert caught.value.path == "x.orc"


def test_the_built_in_indexes_name_file_and_stripe(parts: FileParts) -> None:
    data = put_together(
        parts, hooks=with_message("stripe footer", lambda m: setattr(m.streams[0], "length", 1 << 62))
    )
    with pytest.raises(OrcError) as caught:
        BuiltInIndexes(OrcReader(BytesSource(data, "x.orc"))).bloom_stream(0, parts.schema.children[0])
    assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


#: What becomes of the second chunk of the file, by its header and body; and the error.
CHUNKS: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("longer than the stream", lambda chunk: b"\xfe\xff\xff" + chunk[3:], "past the stream's end"),
    ("header cut", lambda chunk: b"\x01", "header|past the stream's end"),
    ("larger than a block", lambda chunk: _header(1 << 17, 1) + bytes(1 << 17), "larger than the block size"),
]


def _header(length: int, original: int) -> bytes:
    return (length << 1 | original).to_bytes(3, "little")


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize(("change", "message"), [c[1:] for c in CHUNKS], ids=[c[0] for c in CHUNKS])
def test_chunks_of_hostile_content(
    parts: FileParts, codec: int, change: Callable[[bytes], bytes], message: str
) -> None:
    wanted = with_stream(parts, "text", StreamKind.LENGTH, repeated(8, ROWS))
    body = put_together(wanted, codec)
    target = repeated(8, ROWS)
    packed = next(c for c in _chunks_seen(wanted, codec) if _content(codec, c) == target)
    data = put_together(wanted, codec, hooks=Hooks(chunk=lambda c: change(c) if c == packed else c))
    assert data != body
    for path in PATHS:
        with pytest.raises(OrcError, match=message) as caught:
            bounded(lambda path=path: OrcReader(BytesSource(data, "x.orc"), path=path).read(["text"]))  # type: ignore[misc]
        assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


@pytest.mark.parametrize("rows", [None, [5, 850]])
def test_a_chunk_that_holds_less_than_it_claims(parts: FileParts, rows: list[int] | None) -> None:
    content = "".join(TABLE["text"].to_pylist()).encode()
    packed = next(c for c in _chunks_seen(parts, ZSTD) if _content(ZSTD, c) == content)
    # the frame's head tells the size, and nothing follows
    head = zstandard.ZstdCompressor().compress(content)[:8]
    assert zstandard.get_frame_parameters(head).content_size == len(content)
    data = put_together(
        parts, ZSTD, hooks=Hooks(chunk=lambda c: _header(len(head), 0) + head if c == packed else c)
    )
    for path in PATHS:
        with pytest.raises(OrcError, match=f"ends after 0 bytes and claims {len(content)}") as caught:
            bounded(lambda path=path: OrcReader(BytesSource(data, "x.orc"), path=path).read(["text"], rows))  # type: ignore[misc]
        assert (caught.value.path, caught.value.stripe) == ("x.orc", 0)


@pytest.mark.parametrize("codec", [ZLIB, LZO, LZ4])
def test_chunks_far_smaller_than_a_block(parts: FileParts, codec: int) -> None:
    """A block size is a bound, and these codecs do not tell how much less there is in a chunk."""
    hooks = with_message("postscript", lambda message: setattr(message, "compression_block_size", 8 << 20))
    data = put_together(parts, codec, 64, hooks=hooks)
    expected = TABLE.select(["text", "mode"])
    found: list[pa.Table] = []
    for path in (DecodePath.SPARSE, DecodePath.WHOLE):
        reader = OrcReader(BytesSource(data), path=path)
        bounded(lambda reader=reader: found.append(reader.read(["text", "mode"])))  # type: ignore[misc]
        bounded(lambda reader=reader: found.append(reader.read(["text", "mode"], [5, 850])))  # type: ignore[misc]
    assert found == [expected, expected.take([5, 850])] * 2


def _chunks_seen(parts: FileParts, codec: int) -> list[bytes]:
    seen: list[bytes] = []

    def see(chunk: bytes) -> bytes:
        seen.append(chunk)
        return chunk

    put_together(parts, codec, hooks=Hooks(chunk=see))
    return seen


def _content(codec: int, chunk: bytes) -> bytes:
    from hindex.orc.compression import Decompressor, codec_of

    return Decompressor(codec_of(codec, ""), 1 << 16).all(memoryview(chunk), 1 << 20)


@pytest.mark.parametrize("codec", [NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize("block", [16, 64, 257, 1000, 5000])
def test_chunks_smaller_than_a_run(parts: FileParts, codec: int, block: int) -> None:
    # sound files: a run of the end of a row group reaches over several chunks; pyarrow refuses some of the LZO chunks
    data = put_together(parts, codec, block)
    rng = np.random.default_rng(block)
    selections = [np.arange(ROWS), np.array([99, 100, 299, 899]), np.unique(rng.integers(0, ROWS, 40))]
    for path in PATHS:
        for rows in selections:
            found = OrcReader(BytesSource(data), path=path).read(rows=rows)
            assert found.equals(TABLE.take(pa.array(rows))), (path, rows)


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
    found = OrcReader(BytesSource(data)).read(["moment"])
    # the seconds are counted from 2015 in the writer's zone, so that its clock shows the same
    expected = TABLE.select(["moment"])
    assert found.num_rows == ROWS
    assert abs(found["moment"][0].as_py() - expected["moment"][0].as_py()).total_seconds() <= 3600
    assert hours != 0


def test_names_that_are_not_utf8(parts: FileParts) -> None:
    data = put_together(parts)
    name = TABLE.column_names[4].encode()
    broken = data.replace(b"\x04" + name + b"\x1a", b"\x04" + name[:2] + b"\xff\xfe" + b"\x1a")
    assert broken != data
    reader = OrcReader(BytesSource(broken))
    assert reader.names[4] == "te\ufffd\ufffd"
    assert reader.read([reader.names[4]]).column(0).equals(TABLE["text"])


def test_no_rows_of_a_union(tmp_path: Path) -> None:
    from tests.fuzz.corpus import parts as corpus

    found = next(part for name, part in corpus(tmp_path) if name.startswith("union"))
    for path in PATHS:
        table = OrcReader(BytesSource(put_together(found)), path=path).read(rows=[])
        assert table.num_rows == 0
        assert pa.types.is_union(table.schema.field(0).type)


@pytest.mark.parametrize("path", PATHS)
def test_a_union_of_nothing_has_no_values(parts: FileParts, path: DecodePath | None) -> None:
    column = column_of(parts, "number")

    def make_union(footer: Any) -> None:
        footer.types[column].kind = Kind.UNION

    reader = OrcReader(
        BytesSource(put_together(parts, ZLIB, hooks=with_message("footer", make_union))), path=path
    )
    for rows in (None, [8]):  # row 8 is null: no value is looked at
        with pytest.raises(OrcError, match="number"):
            reader.read(["number"], rows)
    assert reader.read(["tiny"]).column(0).equals(TABLE["tiny"])


@pytest.mark.parametrize("extra", [b"\0", b"trailing", bytes(300)])
def test_bytes_behind_the_file_are_refused(parts: FileParts, extra: bytes) -> None:
    with pytest.raises(OrcError, match=r"not an ORC file, or a truncated one|corrupt"):
        OrcReader(BytesSource(put_together(parts, ZLIB) + extra))


@pytest.fixture
def asked_pyarrow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The columns that were given to pyarrow, which ends the process on what some of these tests read."""
    asked: list[str] = []

    def spy(reader: DenseReader, stripe: int, columns: Any, selection: Any) -> list[pa.Array]:
        asked.extend(name for name, _ in columns)
        return []

    monkeypatch.setattr(DenseReader, "read", spy)
    return asked


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("top", "item"), [("texts", "texts/0"), ("map", "map/1")], ids=["items of lists", "values of maps"]
)
@pytest.mark.parametrize(("elements", "length"), [(1000, 65_535), (1000, 1000), (300, 255)])
def test_texts_that_are_too_many_together(
    parts: FileParts, asked_pyarrow: list[str], top: str, item: str, elements: int, length: int, codec: int
) -> None:
    """None is long; pyarrow makes room for all of a thousand rows, and writes to it before it looks for their bytes."""
    found = with_stream(parts, top, StreamKind.LENGTH, repeated(elements, ROWS))
    if top == "map":
        found = with_stream(found, "map/0", StreamKind.DATA, repeated(2, ROWS * elements))
    found = with_stream(found, item, StreamKind.LENGTH, repeated(length, ROWS * elements))
    data = put_together(found, codec, 1 << 18)
    for path in PATHS:
        with pytest.raises(OrcError, match=r"past the stream's end|more than one array") as caught:
            OrcReader(BytesSource(data, "x.orc"), path=path).read([top])
        assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)
    assert not asked_pyarrow


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize("room", [100, 10_000])
def test_texts_that_are_there_are_for_pyarrow(
    parts: FileParts, monkeypatch: pytest.MonkeyPatch, room: int, codec: int
) -> None:
    """However many there are: what is stored bounds them."""
    monkeypatch.setattr(vetting, "_ROOM", room)
    for name in ("text", "texts", "map"):
        reader = OrcReader(BytesSource(put_together(parts, codec, 1 << 18)), path=DecodePath.DENSE)
        assert reader.read([name]).equals(TABLE.select([name]))
        assert reader.counts.dense_columns == 1


def test_lengths_that_are_sure_to_be_missing(parts: FileParts, asked_pyarrow: list[str]) -> None:
    """No row is null, so there must be as many as rows; the last run may have more."""
    for name, kind, values in (("texts", StreamKind.LENGTH, 512), ("text", StreamKind.LENGTH, 512)):
        data = put_together(with_stream(parts, name, kind, repeated(1, values)))
        for path in PATHS:
            with pytest.raises(OrcError, match="run past byte"):
                OrcReader(BytesSource(data), path=path).read([name])
    assert not asked_pyarrow


@pytest.mark.parametrize("name", ["text", "texts/0", "list", "map"])
def test_patched_lengths_of_64_bits(parts: FileParts, asked_pyarrow: list[str], name: str) -> None:
    """Where the packed values have 64 bits, a patch is put over their lowest ones by Java, C++ and processors."""
    held = TABLE.num_rows
    patch = ((1 << 47) + 5).to_bytes(7, "big")
    run = bytes([0x80 | 31 << 1 | 1, 255, 29, 1, 0]) + pack([1] * 512, 64) + patch
    data = put_together(with_stream(parts, name, StreamKind.LENGTH, run + repeated(1, held)))
    top = name.partition("/")[0]
    for path in PATHS:
        with pytest.raises(OrcError, match="negative or absurdly large"):
            OrcReader(BytesSource(data), path=path).read([top])
    assert not asked_pyarrow


#: A length for each row, by runs of ten.
ONES = bytes([7, 1]) * (ROWS // 10)
#: A frame that decompressors pass over.
_SKIPPED = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"

#: A chunk of more than one compressed piece, by the piece that is found there and one with other lengths.
PIECES: list[tuple[str, Callable[[bytes, bytes], bytes]]] = [
    ("another behind it", lambda good, bad: good + bad),
    ("another before it", lambda good, bad: bad + good),
    ("the same twice", lambda good, bad: good + good),
    ("a frame without content behind it", lambda good, bad: good + _SKIPPED),
    ("a frame without content before it", lambda good, bad: _SKIPPED + good),
    ("bytes behind it", lambda good, bad: good + b"junk"),
]


@pytest.mark.parametrize("codec", [SNAPPY, LZO, LZ4, ZSTD])
@pytest.mark.parametrize("pieces", [p[1] for p in PIECES], ids=[p[0] for p in PIECES])
@pytest.mark.parametrize("name", ["text", "texts", "list", "map"])
def test_chunks_of_several_pieces(
    parts: FileParts,
    asked_pyarrow: list[str],
    name: str,
    pieces: Callable[[bytes, bytes], bytes],
    codec: int,
) -> None:
    """pyarrow decompresses all of zstd's and LZO's, where a chunk's head tells the size of the first one only."""
    lengths = ONES
    good, bad = compressed(codec, lengths), compressed(codec, direct_64([-1] * 512))
    new = pieces(good, bad)
    wanted, old = with_stream(parts, name, StreamKind.LENGTH, lengths), _header(len(good), 0) + good
    data = put_together(
        wanted, codec, hooks=Hooks(chunk=lambda c: _header(len(new), 0) + new if c == old else c)
    )
    assert data != put_together(wanted, codec)
    for path in PATHS:
        for rows in (None, [5, 850]):
            with pytest.raises(OrcError, match=r"corrupt|claims"):
                OrcReader(BytesSource(data), path=path).read([name], rows)
    assert not asked_pyarrow


@pytest.mark.parametrize("name", ["text", "texts", "list", "map"])
@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZO, LZ4, ZSTD])
def test_lengths_with_chunks_of_nothing(
    parts: FileParts, asked_pyarrow: list[str], codec: int, name: str
) -> None:
    """Java passes over them, as we do; pyarrow goes on in memory that is not the stream's."""
    lengths = ONES
    packed = compressed(codec, lengths)
    old, nothing = _header(len(packed), 0) + packed, compressed(codec, b"")
    stored = [_header(0, 1), _header(len(nothing), 0) + nothing]
    wanted = with_stream(parts, name, StreamKind.LENGTH, lengths)
    for new in (stored[0] + old, old + stored[0], stored[1] + old):
        data = put_together(wanted, codec, hooks=Hooks(chunk=lambda c, new=new: new if c == old else c))  # type: ignore[misc]
        assert data != put_together(wanted, codec)
        OrcReader(BytesSource(data), path=DecodePath.WHOLE).read([name])
        assert not is_vetted(data, name)
    assert not asked_pyarrow


def test_rows_without_a_row(parts: FileParts) -> None:
    """A root that says which rows are null, as no writer's does; pyarrow does not ask it."""
    found = parts.copy()
    found.stripes[0].footer.streams.add(kind=StreamKind.PRESENT, column=0)
    found.stripes[0].streams.append(b"\x6d\x55")  # every other row, of 112 bytes and so 896 rows
    found.stripes[0].streams[-1] += b"\xff\x55"
    expected = pa.array([i if i % 2 else None for i in range(ROWS)])
    for path in PATHS:
        reader = OrcReader(BytesSource(put_together(found)), path=path)
        tiny = reader.read(["tiny"]).column(0)
        assert tiny.is_valid().to_pylist() == expected.is_valid().to_pylist()
        assert reader.counts.dense_columns == 0


@pytest.mark.parametrize(
    ("name", "kind", "codec"),
    [
        ("text", StreamKind.LENGTH, ZLIB),
        ("mode", StreamKind.LENGTH, ZSTD),
        ("mode", StreamKind.DICTIONARY_DATA, ZLIB),
        ("list", StreamKind.LENGTH, ZSTD),
        ("number", StreamKind.DATA, ZSTD),
        ("number", StreamKind.PRESENT, ZSTD),
        ("double", StreamKind.DATA, ZSTD),
    ],
)
def test_much_behind_the_last_value(parts: FileParts, name: str, kind: StreamKind, codec: int) -> None:
    """What no value can need is not decompressed: here it is a hundred megabytes."""
    stripe = parts.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    good = stripe.streams[places.index((column_of(parts, name), kind))]
    block = 1 << 20
    content = good + bytes(100 * block - len(good))
    data = put_together(with_stream(parts, name, kind, content), codec, block)
    for path in PATHS:
        for rows in (None, list(range(ROWS - STRIDE, ROWS))):
            reader = OrcReader(BytesSource(data), path=path)
            tracemalloc.start()
            found = reader.read([name], rows)
            expected = TABLE.select([name])
            assert found.equals(expected if rows is None else expected.take(rows))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MOST_BYTES, (path, rows, peak)
            assert reader.counts.bytes_decompressed < 8 * block, (path, rows)


@pytest.mark.parametrize("stride", [STRIDE, 0])
def test_an_entry_that_is_wanted_too_often(asked_pyarrow: list[str], tmp_path: Path, stride: int) -> None:
    """Of a dictionary's entry of three megabytes a thousand values do not fit one array."""
    count, long = 8000, "x" * (3 << 20)
    path = tmp_path / "t.orc"
    texts = pa.array(["a", long] * 2 + ["a"] * (count - 4))
    write_pyarrow(path, pa.table({"c": texts}), "none", stride=1000, dictionary_key_size_threshold=1.0)
    parts = take_apart(path.read_bytes())
    stripe = parts.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    parts.footer.row_index_stride = stride and 1000
    code = places.index((1, StreamKind.DATA))
    assert parts.stripes[0].footer.columns[1].kind == 3
    stripe.streams[code] = repeated(1, count)
    data = put_together(parts, ZSTD, 1 << 20)
    for forced in PATHS:
        with pytest.raises(OrcError, match=r"more than one array holds: select fewer rows") as caught:
            OrcReader(BytesSource(data, "x.orc"), path=forced).read(["c"])
        assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, "c")
    assert not asked_pyarrow
    reader = OrcReader(BytesSource(data), path=DecodePath.WHOLE)
    assert reader.read(["c"], [5, 7999]).column(0).to_pylist() == [long, long]


@pytest.mark.parametrize("name", ["mode", "modes"])
@pytest.mark.parametrize("entries", [1 << 21, 1 << 28])
def test_entries_that_are_nothing(
    parts: FileParts, asked_pyarrow: list[str], tmp_path: Path, entries: int, name: str
) -> None:
    """A dictionary whose entries have no bytes, in runs of one length: a few bytes say that there are any number."""
    texts = TABLE["mode"].combine_chunks()
    modes = pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), texts)
    path = tmp_path / "t.orc"
    table = pa.table({"mode": texts, "modes": modes})
    write_pyarrow(path, table, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    parts = take_apart(path.read_bytes())
    top, column = name, name if name == "mode" else "modes/0"

    def claim(footer: Any) -> None:
        footer.columns[column_of(parts, column)].dictionary_size = entries

    lengths = repeated(0, min(entries, 1 << 22))
    data = put_together(
        with_stream(parts, column, StreamKind.LENGTH, lengths),
        ZSTD,
        1 << 18,
        with_message("stripe footer", claim),
    )
    for forced in PATHS:
        for rows in (None, [5, 850]):
            reader = OrcReader(BytesSource(data, "x.orc"), path=forced)
            with pytest.raises(
                OrcError, match=f"there should be {entries} entries of a dictionary"
            ) as caught:
                bounded(lambda reader=reader, rows=rows: reader.read([top], rows))  # type: ignore[misc]
            assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)
    assert not asked_pyarrow


@pytest.mark.parametrize("calendar", [1, 2])
def test_days_beyond_the_calendar(tmp_path: Path, rng: np.random.Generator, calendar: int) -> None:
    """What does not fit 32 bits is the same on every path: its low bits, then of the file's calendar."""
    days = [*rng.integers(-(1 << 63), (1 << 63) - 1, ROWS - 4).tolist(), 1 << 31, -1 << 32, (1 << 32) + 7, -9]
    path = tmp_path / "t.orc"
    write_pyarrow(path, pa.table({"day": pa.array(range(ROWS), pa.date32())}), "none", stride=STRIDE)
    found = with_stream(
        take_apart(path.read_bytes()), "day", StreamKind.DATA, direct_64([zigzag(day) for day in days])
    )
    found.footer.row_index_stride = 0
    data = put_together(found, ZSTD, hooks=with_message("footer", lambda m: setattr(m, "calendar", calendar)))
    known = julian_to_gregorian(np.array(days).astype(np.int32).astype(np.int64))
    low = (known if calendar == 1 else np.array(days)).astype(np.int32)
    for forced in PATHS:
        reader = OrcReader(BytesSource(data), path=forced)
        assert reader.read().column(0).cast(pa.int32()).to_pylist() == low.tolist()


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("codec", ["none", "zlib"])
def test_a_long_entry_that_is_wanted_once(
    tmp_path: Path, rng: np.random.Generator, nulls: float, codec: str
) -> None:
    """Were each value the longest entry, they would not fit one array: they are counted then."""
    count, long = 3000, "x" * (1 << 20)
    texts = pa.array(
        [f"mode {i}" for i in rng.integers(0, 9, count)], pa.string(), mask=rng.random(count) < nulls
    )
    at = int(rng.integers(count))
    table = pa.table({"c": pa.chunked_array([texts.slice(0, at), pa.array([long]), texts.slice(at)])})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, codec, stride=1000, dictionary_key_size_threshold=1.0)
    for forced in (DecodePath.DENSE, None, DecodePath.SPARSE, DecodePath.WHOLE):
        reader = OrcReader(path, path=forced)
        assert reader.read(threads=1).equals(table)
        assert reader.counts.dense_columns == (forced in (DecodePath.DENSE, None))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            b"PAR1" + bytes(range(200)) + b"PAR1",
            r"like Parquet; only ORC .*: spark\.read\.parquet\(.*\)\.write\.orc\(.*\) makes them of it$",
        ),
        (b"\x1f\x8b\x08" + bytes(100), "looks like gzip$"),
        (b"id,name\n1,one\n" * 20, "looks like text"),
        (b"ORC" + bytes(100), "an ORC file that was cut"),
        (b"\x00\x01\x02" * 9, "does not end in an ORC postscript"),
        (b"", "is empty"),
    ],
)
def test_files_of_other_formats(data: bytes, told: str) -> None:
    with pytest.raises(OrcError, match=told):
        OrcReader(BytesSource(data, "x"))
