"""Bundles: index files of several data files in one file."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.errors import IndexFileError
from hindex.index.bundle import BUNDLE, BUNDLE_SUFFIX, Bundle, BundledFile, write_bundle
from hindex.index.index_file import MAGIC, Footer, IndexFileReader, IndexFileWriter
from hindex.index.index_type import file_index_type
from hindex.index.page_cache import Cache
from hindex.index.reader_cache import open_bundle, open_index_file
from hindex.keys import KeyKind
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.types import Kind, OrcType
from hindex.proto import index_file_pb2 as pb
from tests.support.messages import raises

LONG = OrcType(Kind.LONG)


def index_file(first: int, values: Sequence[int] | None = None) -> BundledFile:
    sink = io.BytesIO()
    builder = file_index_type("BITMAP").builder(sink, LONG, column="n", metadata={"data_file": str(first)})
    builder.add_stripe(pa.array(values or range(first, first + 20), pa.int64()))
    summary = builder.finish()
    return BundledFile(sink.getvalue(), summary.footer_crc32c)


FILES = [index_file(first) for first in range(0, 500, 50)]


def nothing() -> None:
    pass


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / f"x{BUNDLE_SUFFIX}")
    write_bundle(path, "n", FILES, nothing)
    return path


def test_index_files_come_back(path: str) -> None:
    assert [source.read([(0, source.size())])[0] for source in open_bundle(path)] == [
        file.data for file in FILES
    ]
    for first, file in zip(range(0, 500, 50), FILES, strict=True):
        opened = open_index_file(path, len(file.data), file.footer_checksum)
        assert opened.footer.metadata["data_file"] == str(first)
        assert open_index_file(path, len(file.data), file.footer_checksum) is opened


def test_the_bundle_is_opened_once(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = IndexFileReader.__init__

    def init(self: IndexFileReader, source: BytesSource, cache: Cache | None = None) -> None:
        opened.append(type(source).__name__)
        real(self, source, cache)

    monkeypatch.setattr(IndexFileReader, "__init__", init)
    cache = Cache(1 << 20)
    for file in FILES:
        open_index_file(path, len(file.data), file.footer_checksum, cache)
    assert opened == ["LocalSource", *["BytesSource"] * len(FILES)]


def test_index_files_of_a_bundle_are_weighed_with_their_bytes(tmp_path: Path) -> None:
    """They are in memory."""
    path = str(tmp_path / f"x{BUNDLE_SUFFIX}")
    file = index_file(0, random.Random(0).sample(range(1 << 40), 20_000))
    write_bundle(path, "n", [file], nothing)
    cache = Cache(1 << 30)
    open_bundle(path, cache)
    before = cache.counts.bytes
    open_index_file(path, len(file.data), file.footer_checksum, cache)
    assert cache.counts.bytes - before > len(file.data) > 100_000


def test_another_index_file_than_the_recorded_one(path: str) -> None:
    one, other = FILES[:2]
    for length, checksum in ((len(one.data), 1), (len(one.data) + 1, one.footer_checksum)):
        with raises(IndexFileError):
            open_index_file(path, length, checksum)
    plain = Path(path).with_name("plain.hidx")
    plain.write_bytes(other.data)
    with raises(IndexFileError):
        open_index_file(str(plain), len(one.data), one.footer_checksum)


def test_index_files_that_cannot_be_distinguished(tmp_path: Path) -> None:
    with raises(IndexFileError):
        write_bundle(str(tmp_path / "x"), "n", [FILES[0], FILES[0]], nothing)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("index_type", "body"),
    [
        ("BITMAP", pb.BundleBody(length=[8], footer_crc32c=[1])),
        (BUNDLE, pb.BundleBody(length=[8], footer_crc32c=[1, 2])),
        (BUNDLE, pb.BundleBody(length=[4, 3], footer_crc32c=[1, 2])),
        (BUNDLE, pb.BundleBody(length=[4, 5], footer_crc32c=[1, 2])),
        (BUNDLE, pb.BundleBody()),
    ],
)
def test_a_directory_that_contradicts_the_file(index_type: str, body: pb.BundleBody) -> None:
    sink = io.BytesIO()
    writer = IndexFileWriter(sink)
    writer.append_bytes(MAGIC)
    writer.finish(Footer(index_type, "n", "", KeyKind.INT64, {}, {}, body.SerializeToString()))
    with raises(IndexFileError):
        Bundle(IndexFileReader(BytesSource(sink.getvalue(), "x.bundle.hidx")))


def test_every_changed_byte_is_an_error_or_changes_nothing(path: str) -> None:
    whole = Path(path).read_bytes()
    assert Bundle(IndexFileReader(BytesSource(whole))).files == {
        (len(file.data), file.footer_checksum) for file in FILES
    }
    # the first index file, and all that is behind the last one
    end = len(MAGIC) + len(FILES[0].data)
    num_read = 0
    for at in [*range(len(MAGIC), end), *range(len(whole) - 200, len(whole))]:
        data = bytearray(whole)
        data[at] ^= 0x55
        try:
            bundle = Bundle(IndexFileReader(BytesSource(bytes(data))))
            for file, source in zip(FILES, bundle, strict=True):
                reader = IndexFileReader(source)
                assert reader.footer_crc32c == file.footer_checksum
                num_read += 1
                lookups = file_index_type("BITMAP").reader(reader)
                assert lookups.stripe_rows == (20,)
        except IndexFileError:
            continue
    assert num_read
