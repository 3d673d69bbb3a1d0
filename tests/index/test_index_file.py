"""The container of index files: every damage is detected and reported."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest

from hindex.domain import Domain
from hindex.errors import HindexError, IndexFileError, NewerFormatError
from hindex.index import index_file as file_module
from hindex.index.bitmap import BitmapBuilder, BitmapReader
from hindex.index.index_file import (
    CODEC_NONE,
    CODEC_ZSTD,
    Footer,
    IndexFileReader,
    IndexFileWriter,
    Page,
    PageRef,
    encode_page,
    page_message,
)
from hindex.index.index_type import file_index_type
from hindex.keys import KeyKind
from hindex.orc.io.source import BytesSource, LocalSource
from hindex.orc.metadata.types import OrcType
from hindex.proto import index_file_pb2 as pb
from tests.index.support import TYPES, build, read
from tests.support.messages import raises

LONG = TYPES["bigint"]
STRING = TYPES["string"]
TRAILER = 20


def integers() -> tuple[OrcType, list[pa.Array], list[Domain]]:
    first = [None, *([7] * 300), *range(20), 1 << 40, None, -5]
    arrays = [pa.array(first, pa.int64()), pa.array([1, None], pa.int64())]
    domains = [
        Domain.points([7]),
        Domain.points([-5, 3, 1 << 40]),
        Domain.between(2, 9),
        Domain.between(4, None),
    ]
    return LONG, arrays, [*domains, Domain.only_null()]


def strings() -> tuple[OrcType, list[pa.Array], list[Domain]]:
    first = ["", None, *(["often"] * 300), *(f"key {n % 13}" for n in range(40))]
    arrays = [pa.array(first), pa.array(["z", None])]
    domains = [Domain.points([b"often"]), Domain.points([b"", b"key 3"]), Domain.between(b"key 1", b"key 5")]
    domains.append(Domain.points([b"z", *(f"key {n}".encode() for n in range(13))]))
    return STRING, arrays, [*domains, Domain.between(b"key 2", None), Domain.only_null()]


Example = Callable[[], tuple[OrcType, list[pa.Array], list[Domain]]]
examples = pytest.mark.parametrize("example", [integers, strings])


def answers(data: bytes, domains: list[Domain]) -> list[list[int]]:
    reader = read(data)
    return [list(reader.lookup(s, d).lower) for s in range(len(reader.stripe_rows)) for d in domains]


@examples
def test_every_flipped_byte_is_found_or_harmless(example: Example) -> None:
    data_type, arrays, domains = example()
    data = build(data_type, arrays, {"source.length": "12"}, values_per_page=5)
    right = answers(data, domains)
    assert any(right)
    for at in range(len(data)):
        for mask in (1 << at % 8, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= mask
            try:
                results = answers(bytes(damaged), domains)
            except IndexFileError as error:
                assert "test.hidx" in str(error), (at, mask)  # noqa: PT017
                assert "\n" not in str(error)  # noqa: PT017
            else:
                pytest.fail(
                    f"byte {at} of {len(data)}: {'right' if results == right else 'WRONG'} rows, no error"
                )


@examples
def test_every_truncation_is_found(example: Example) -> None:
    data_type, arrays, _ = example()
    data = build(data_type, arrays, values_per_page=5)
    for length in range(len(data)):
        with pytest.raises(IndexFileError, match=r"test\.hidx"):
            read(data[:length])


@examples
def test_contradictions_under_right_checksums_are_errors_of_the_family(example: Example) -> None:
    """A hostile or buggy writer: bytes change and all checksums are made to hold again."""
    data_type, arrays, domains = example()
    data = build(data_type, arrays, values_per_page=5)
    seed = 7
    rng = np.random.default_rng(seed)
    outcomes = {"error": 0, "rows": 0}
    for turn in range(600):
        damaged = _rewritten(data, rng, in_footer=turn % 3 == 0)
        try:
            reader = read(damaged)
            for stripe, total in enumerate(reader.stripe_rows):
                for domain in domains:
                    rows = reader.lookup(stripe, domain).lower
                    assert not rows or rows.max() < total, (seed, turn)
            outcomes["rows"] += 1
        except IndexFileError:
            outcomes["error"] += 1
    assert outcomes["error"] > 100, outcomes


def _rewritten(data: bytes, rng: np.random.Generator, *, in_footer: bool) -> bytes:
    (size,) = struct.unpack("<I", data[-TRAILER : -TRAILER + 4])
    pages, footer = bytearray(data[: -TRAILER - size]), bytearray(data[-TRAILER - size : -TRAILER])
    if in_footer:
        footer[rng.integers(len(footer))] ^= 1 << int(rng.integers(8))
    else:
        pages[rng.integers(8, len(pages))] = rng.integers(256)
        parsed = pb.FileFooter.FromString(bytes(footer))
        body = pb.BitmapBody.FromString(parsed.body)
        for stripe in body.stripes:
            if stripe.HasField("nulls"):
                at, length = stripe.nulls.offset, stripe.nulls.length
                stripe.nulls.crc32c = google_crc32c.value(bytes(pages[at : at + length]))
            at = stripe.leaf_offset
            for number, length in enumerate(stripe.leaf_length):
                stripe.leaf_crc32c[number] = google_crc32c.value(bytes(pages[at : at + length]))
                at += length
        parsed.body = body.SerializeToString()
        footer = bytearray(parsed.SerializeToString())
    return bytes(pages + _closed(bytes(footer)))


def _closed(footer: bytes, version: int = file_module.VERSION) -> bytes:
    covered = footer + struct.pack("<II", len(footer), version)
    return covered + struct.pack("<I", google_crc32c.value(covered)) + file_module.MAGIC


def test_a_newer_version_says_so() -> None:
    data = build(LONG, [pa.array([1], pa.int64())])
    newer = data[:-TRAILER] + struct.pack("<III", 5, 2, 0) + data[-8:]
    with raises(NewerFormatError):
        read(newer)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ORC",
        b"x" * 100,
        b"x" * 100 + file_module.MAGIC + struct.pack("<III", 99, 1, 0) + file_module.MAGIC,
    ],
)
def test_other_files_are_refused(data: bytes) -> None:
    with raises(IndexFileError):
        read(data)


def test_a_file_of_another_index_type() -> None:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    writer.finish(Footer("BLOOM", "c", "int", KeyKind.INT64, {}, {}, b""))
    with raises(IndexFileError):
        read(sink.getvalue())


def test_footer_values_come_back() -> None:
    metadata = {"source.length": "123", "source.mtime_ns": "9", "größe": "ü"}
    data = build(STRING, [], metadata)
    footer = IndexFileReader(BytesSource(data)).footer
    assert (footer.index_type, footer.column, footer.column_type) == ("BITMAP", "c", "string")
    assert footer.key_kind is KeyKind.BYTES
    assert footer.metadata == metadata
    assert footer.properties == {"values_per_page": "4096"}


def test_a_footer_longer_than_the_tail_read() -> None:
    keys = np.random.default_rng(4).integers(-(1 << 62), 1 << 62, 5000)
    reader = read(build(LONG, [pa.array(keys, pa.int64())], values_per_page=1))
    assert reader.file.length - reader.file.pages_end > file_module.TAIL_READ
    assert list(reader.lookup(0, Domain.points([int(keys[1234])])).lower) == [1234]


class CountingSource(BytesSource):
    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.calls: list[int] = []

    def read(self, ranges: object) -> list[memoryview]:
        self.calls.append(len(ranges))  # type: ignore[arg-type]
        return super().read(ranges)  # type: ignore[arg-type]


def test_a_lookup_asks_for_its_pages_together() -> None:
    keys = np.random.default_rng(1).permutation(20_000)
    source = CountingSource(build(LONG, [pa.array(keys, pa.int64())], values_per_page=1000))
    reader = BitmapReader(IndexFileReader(source))
    assert source.calls == [1]
    reader.lookup(0, Domain.points([1, 5_000, 12_000]))
    assert source.calls == [1, 3]


def test_pages_come_back_and_are_bounded() -> None:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    blocks = [b"", b"short", b"z" * 100_000, np.random.default_rng(2).bytes(5000)]
    ref = writer.write_page(blocks)
    writer.finish(Footer("BITMAP", "", "int", KeyKind.INT64, {}, {}, b""))
    reader = IndexFileReader(BytesSource(sink.getvalue()))
    (page,) = reader.read_pages([ref])
    assert [bytes(page.block(number)) for number in range(len(page))] == blocks
    with raises(IndexFileError):
        page.block(4)
    with raises(IndexFileError):
        page.block(1, 6)
    outside = PageRef(0, 5, 0), PageRef(8, 1 << 31, 0), PageRef(1 << 60, 1, 0), PageRef(8, 0, 0)
    for bad in outside:
        with raises(IndexFileError):
            reader.read_pages([bad])


def test_a_block_that_unpacks_to_more_than_it_says() -> None:
    import zstandard

    for content_size in (True, False):
        frame = zstandard.ZstdCompressor(write_content_size=content_size).compress(b"\0" * 100_000_000)
        page = b"\1" + struct.pack("<BII", 1, len(frame), 1000) + frame
        data = file_module.MAGIC + page
        footer = pb.FileFooter(index_type="BITMAP", key_kind=pb.KEY_KIND_INT64).SerializeToString()
        reader = IndexFileReader(BytesSource(data + _closed(footer)))
        (page_read,) = reader.read_pages([PageRef(8, len(page), google_crc32c.value(page))])
        # a size that the frame states is refused before it is allocated
        message = "disagrees with its frame" if content_size else "cannot be decompressed|decompresses to"
        with pytest.raises(IndexFileError, match=message):
            page_read.block(0)


def test_few_bytes_that_would_take_the_memory_of_the_machine_are_refused_unread() -> None:
    import zstandard

    frame = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    page = b"\1" + struct.pack("<BII", 1, len(frame), file_module.LONG_BLOCK + 1) + frame
    with pytest.raises(
        IndexFileError, match=rf"a page is corrupt: a block of {len(frame)} bytes claims .* rebuild"
    ):
        Page(memoryview(page), "a page")


def test_the_longest_blocks_that_a_writer_makes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that shrinks so far that it would be refused is stored as it is."""
    monkeypatch.setattr(file_module, "LONG_BLOCK", 1 << 16)
    monkeypatch.setattr(file_module, "LONG_BLOCK_FACTOR", 4)
    letters = np.random.default_rng(1).integers(97, 101, 1 << 17).astype(np.uint8).tobytes()
    blocks = [bytes(1 << 16), bytes((1 << 16) + 1), letters]
    page = Page(memoryview(encode_page(blocks)), "a page")
    assert [codec for codec, _, _ in page.sizes] == [CODEC_ZSTD, CODEC_NONE, CODEC_ZSTD]
    assert [bytes(page.block(number)) for number in range(3)] == blocks
    # also as a key of its own among others
    array = pa.array(["a", "b" * (1 << 17), "c", None])
    assert answers(build(STRING, [array]), [Domain.points([b"b" * (1 << 17)])]) == [[1]]


def test_a_bitmap_that_is_longer_than_any_of_so_many_rows_is_not_unpacked() -> None:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    ref = writer.write_page([bytes(1 << 26)])
    body = pb.BitmapBody()
    body.stripes.add(rows=100, null_count=100, nulls=page_message(ref))
    writer.finish(Footer("BITMAP", "", "bigint", KeyKind.INT64, {}, {}, body.SerializeToString()))
    reader = read(sink.getvalue())
    tracemalloc.start()
    try:
        with raises(IndexFileError):
            reader.lookup(0, Domain.only_null())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_local_files(tmp_path: Path) -> None:
    path = tmp_path / "a.hidx"
    builder = BitmapBuilder(path, LONG)
    builder.add_stripe(pa.array([4, 5], pa.int64()))
    summary = builder.finish()
    reader = BitmapReader(IndexFileReader(LocalSource(path)))
    assert (reader.file.length, reader.file.footer_crc32c) == (summary.length, summary.footer_crc32c)
    assert list(reader.lookup(0, Domain.points([5])).lower) == [1]
    reader.close()
    with pytest.raises(IndexFileError, match=r"a\.hidx' cannot be created: File exists"):
        BitmapBuilder(path, LONG)
    other = BitmapBuilder(tmp_path / "b.hidx", LONG)
    other.abort()
    assert [item.name for item in tmp_path.iterdir()] == ["a.hidx"]
    # after the end, giving up removes nothing
    builder.abort()
    assert path.exists()


def test_a_read_error_is_an_index_file_error() -> None:
    source = BytesSource(build(LONG, [pa.array([1], pa.int64())]))
    reader = read(build(LONG, [pa.array([1], pa.int64())]))
    reader.file._source = BytesSource(b"")
    with raises(HindexError):
        reader.lookup(0, Domain.points([1]))
    assert source.size()


@pytest.mark.parametrize("is_truncated", [True, False])
@pytest.mark.parametrize("name", ["BITMAP", "BLOOM", "MINMAX"])
def test_pages_are_used_as_they_were_verified(tmp_path: Path, name: str, is_truncated: bool) -> None:
    """The file changes in place while it is open: what was read stays, what was not is an error."""
    path = tmp_path / "x.hidx"
    index = file_index_type(name)
    builder = index.builder(path, LONG, row_group_rows=100)
    for stripe in range(2):
        builder.add_stripe(pa.array(range(1000 * stripe, 1000 * stripe + 1000)))
    builder.finish()
    reader = index.reader(IndexFileReader(LocalSource(path, detects_changes=False)))
    domains = [Domain.points([value]) for value in range(5, 1000, 100)]
    before = [reader.lookup(0, domain) for domain in domains]
    assert all(5 + 100 * i in bounds.upper for i, bounds in enumerate(before))
    length = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"" if is_truncated else bytes(length))
        file.truncate(0 if is_truncated else length)
    assert [reader.lookup(0, domain) for domain in domains] == before
    with pytest.raises(IndexFileError, match="was truncated" if is_truncated else "checksum does not hold"):
        reader.lookup(1, Domain.points([1005]))
