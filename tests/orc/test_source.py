"""Byte sources: ranges, coalescing, and files that change while they are open."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pytest

from hindex.errors import OrcError, TableError
from hindex.orc import OrcReader
from hindex.orc.io.adapted import FileSystemSource, FsspecSource
from hindex.orc.io.file_system import file_system, open_source
from hindex.orc.io.source import (
    COALESCE_GAP,
    GAPS_BYTES,
    GAPS_PART,
    BytesSource,
    LocalSource,
    coalesce_ranges,
)
from hindex.orc.reader import orc_reader
from tests.support.messages import raises

DATA = bytes(range(256)) * 4096


class CountingFile:
    """A file of a pyarrow file system that tells which ranges were asked for."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self.asked: list[tuple[int, int]] = []

    def read_at(self, length: int, offset: int) -> bytes:
        self.asked.append((offset, length))
        data: bytes = self._file.read_at(length, offset)
        return data


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(DATA)
    return path


def test_every_source_gives_the_same_bytes(file: Path) -> None:
    ranges = [(0, 3), (700_000, 5), (10, 0), (100, 300), (len(DATA) - 1, 1), (len(DATA), 0), (0, 0)]
    filesystem = pyarrow.fs.LocalFileSystem()
    for source in (BytesSource(DATA), LocalSource(file), FileSystemSource(filesystem, str(file))):
        assert source.size() == len(DATA)
        assert [bytes(view) for view in source.read(ranges)] == [DATA[o : o + n] for o, n in ranges]
        assert [bytes(view) for view in source.read([(len(DATA), 0), (5, 0)])] == [b"", b""]
        for outside in ((len(DATA), 1), (-1, 1), (0, len(DATA) + 1)):
            with raises(OrcError):
                source.read([outside])
        source.close()


def test_reads_that_the_system_cuts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads at most 2 GiB at once."""
    whole = os.pread
    monkeypatch.setattr(
        os, "pread", lambda descriptor, length, offset: whole(descriptor, min(length, 700), offset)
    )
    source = LocalSource(file)
    ranges = [(0, 700), (1000, 2500), (len(DATA) - 2000, 2000)]
    assert [bytes(view) for view in source.read(ranges)] == [DATA[o : o + n] for o, n in ranges]
    source.close()


def test_times_of_headers_have_whole_seconds_and_those_of_listings_fractions(file: Path) -> None:
    source = FileSystemSource(pyarrow.fs.LocalFileSystem(), str(file))
    second = 10**9
    for own, listed, is_other in (
        (100 * second, 100 * second, False),
        (100 * second, 101 * second - 1, False),
        (100 * second, 101 * second, True),
        (100 * second, 99 * second, True),
        # with a fraction, it is as fine as the listing's
        (100 * second + 5, 100 * second + 5, False),
        (100 * second + 5, 100 * second + 6, True),
        (0, 100 * second, False),
        (100 * second, 0, False),
    ):
        source._mtime_ns = own
        assert source.has_other_mtime(listed) is is_other, (own, listed)
    source.close()


@pytest.mark.parametrize(
    ("metadata", "seconds"),
    [
        ({"Last-Modified": "2024-02-29T12:00:00Z"}, 1_709_208_000),
        ({b"Content-Length": b"7", b"Last-Modified": b"2024-02-29T12:00:00Z"}, 1_709_208_000),
        ({"Last-Modified": "yesterday"}, 0),
        ({"ETag": "1"}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_times_in_headers(file: Path, metadata: Any, seconds: int) -> None:
    class Headers(pyarrow.fs.LocalFileSystem):  # type: ignore[misc]
        def open_input_file(self, path: str) -> Any:
            opened = super().open_input_file(path)
            return SimpleNamespace(size=opened.size, metadata=lambda: metadata, close=opened.close)

    source = FileSystemSource(Headers(), str(file))
    assert source._mtime_ns == seconds * 10**9
    source.close()


def test_a_descriptor_that_belongs_to_another_file(file: Path, tmp_path: Path) -> None:
    """Another thread has closed it, and opened a file of the same length."""
    other = tmp_path / "other"
    other.write_bytes(DATA[::-1])
    source = LocalSource(file, detects_changes=False)
    assert source._file is not None
    with other.open("rb") as opened:
        os.dup2(opened.fileno(), source._file.fileno())
    with raises(OrcError):
        source.read([(0, 10)])
    source.close()


def test_near_ranges_are_one_request(file: Path) -> None:
    source = FileSystemSource(pyarrow.fs.LocalFileSystem(), str(file))
    counting = source._file = CountingFile(source._file)
    far = 100 + COALESCE_GAP + 1
    assert [bytes(v) for v in source.read([(far, 10), (0, 100), (50, 20)])] == [
        DATA[far : far + 10],
        DATA[:100],
        DATA[50:70],
    ]
    assert sorted(counting.asked) == source.requests([(far, 10), (0, 100), (50, 20)]) == [(0, 100), (far, 10)]
    counting.asked.clear()
    source.read([(0, 100), (100 + GAPS_BYTES, 10)])
    assert counting.asked == [(0, 110 + GAPS_BYTES)]


@pytest.mark.parametrize(
    ("ranges", "max_gap", "expected"),
    [
        ([], 100, []),
        ([(5, 0)], 100, []),
        ([(10, 5), (0, 10), (12, 1)], 0, [(0, 15)]),
        ([(0, 10), (11, 10)], 0, [(0, 10), (11, 10)]),
        ([(0, 10), (11, 10)], 1, [(0, 21)]),
        # gaps take no more than their part of the wanted bytes, the smallest first
        ([(0, 100_000), (104_000, 10), (107_000, 10)], 1 << 20, [(0, 100_000), (104_000, 3010)]),
        ([(0, 100_000), (104_000, 90_000), (200_000, 10)], 1 << 20, [(0, 194_000), (200_000, 10)]),
        ([(0, 100_000), (104_000, 90_000), (199_000, 10)], 1 << 20, [(0, 199_010)]),
        ([(0, 1 << 30), ((1 << 30) + 101, 1)], 100, [(0, 1 << 30), ((1 << 30) + 101, 1)]),
    ],
)
def test_coalesced_ranges(
    ranges: list[tuple[int, int]], max_gap: int, expected: list[tuple[int, int]]
) -> None:
    assert coalesce_ranges(ranges, max_gap) == expected


def test_coalesced_ranges_cover_all_requested_bytes(rng: np.random.Generator) -> None:
    for max_gap in (0, 50, 1 << 20):
        starts, lengths = rng.integers(0, 50_000, 40), rng.integers(0, 3000, 40)
        ranges = list(zip(starts.tolist(), lengths.tolist(), strict=True))
        merged = coalesce_ranges(ranges, max_gap)
        assert merged == sorted(merged)
        assert all(a + n < b for (a, n), (b, _) in pairwise(merged))
        for start, length in ranges:
            assert not length or any(a <= start and start + length <= a + n for a, n in merged)
        wanted = len({i for start, length in ranges for i in range(start, start + length)})
        assert wanted <= sum(n for _, n in merged) <= wanted + max(wanted * GAPS_PART, GAPS_BYTES)


def test_requests_of_one_read_run_together(file: Path) -> None:
    class Waiting(FileSystemSource):
        """Answers none of two requests before both are made."""

        both = threading.Barrier(2, timeout=30)

        def _read_range(self, item: tuple[int, int]) -> bytes:
            self.both.wait()
            return super()._read_range(item)

    source = Waiting(pyarrow.fs.LocalFileSystem(), str(file))
    views = source.read([(0, 10), (500_000, 10)])
    assert [bytes(view) for view in views] == [DATA[:10], DATA[500_000:500_010]]


@pytest.mark.usefixtures("windows")
def test_fsspec_uris_and_file_systems() -> None:
    table = pa.table({"a": pa.array(range(20_000)), "s": [f"{i:x}" * 3 for i in range(20_000)]})
    sink = pa.BufferOutputStream()
    pa.orc.write_table(table, sink, row_index_stride=1000, compression="zlib")
    memory = fsspec.filesystem("memory")
    memory.pipe("/dir/t.orc", sink.getvalue().to_pybytes())
    wanted = [5, 7000, 19_999]
    locations: list[Any] = [
        "memory://dir/t.orc",
        (memory, "/dir/t.orc"),
        (pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(memory)), "/dir/t.orc"),
    ]
    for location in locations:
        with OrcReader(location) as reader:
            assert isinstance(reader._source, FsspecSource)
            assert reader.read(rows=wanted).equals(table.take(wanted))
            assert reader.read().equals(table)
    with pytest.raises(OrcError, match="cannot open the file"):
        OrcReader("memory://dir/nope.orc")
    memory.pipe("/dir/short.orc", b"")
    with raises(OrcError):
        OrcReader((memory, "/dir/short.orc"))


def test_a_remote_file_that_changed(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/changed", DATA)
    source = FsspecSource(memory, "/changed")
    memory.pipe("/changed", DATA[:1000])
    with raises(OrcError):
        source.read([(0, 10), (990, 20)])


def test_file_systems_with_errors_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/own-errors", DATA)

    def fail(*args: Any, **keywords: Any) -> None:
        raise RuntimeError("the token\nexpired")

    source = FsspecSource(memory, "/own-errors")
    monkeypatch.setattr(type(memory), "cat_ranges", fail)
    with raises(OrcError):
        source.read([(0, 10)])
    monkeypatch.setattr(type(memory), "info", fail)
    with raises(OrcError):
        FsspecSource(memory, "/own-errors")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/t/p=a%3Ab/x.orc", "t/p=a%3Ab/x.orc"),
        ("s3a://bucket/t/p=a b/é#?%.orc", "t/p=a b/é#?%.orc"),
        ("s3://bucket", ""),
        ("file:/t/a#b?c.orc", "/t/a#b?c.orc"),
        ("file:a#b.orc", "a#b.orc"),
        ("file://host/t/a%23b.orc", "/t/a#b.orc"),
        ("memory://t/p=a%3Ab/x y.orc", "/t/p=a%3Ab/x y.orc"),
    ],
)
def test_names_are_taken_as_they_are_written(uri: str, expected: str) -> None:
    """As Hive escapes values in the names of directories, these must not be unescaped on the way."""
    assert file_system(uri)[1] == expected


def test_local_files_of_any_file_system_are_read_by_position(file: Path) -> None:
    local = fsspec.filesystem("file")
    for location in (
        str(file),
        file,
        file.as_uri(),
        (pyarrow.fs.LocalFileSystem(), str(file)),
        (local, str(file)),
    ):
        assert isinstance(open_source(location), LocalSource)


def test_a_missing_file_and_an_unknown_scheme(tmp_path: Path) -> None:
    with pytest.raises(OrcError, match=r"cannot open the file: No such file"):
        open_source(tmp_path / "nope")
    with pytest.raises(OrcError, match=r"cannot open the file: embedded null byte"):
        open_source(f"{tmp_path}/a\0b")
    with pytest.raises(TableError, match=r"Table 'nope://x' is invalid"):
        open_source("nope://x")


def overwrite(file: Path) -> None:
    """Write as ``cp`` does: into the same file."""
    file.write_bytes(file.read_bytes()[::-1])


@pytest.mark.usefixtures("windows")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: os.truncate(file, 100), "was truncated while it was open"),
        (overwrite, "was overwritten while it was open"),
        (lambda file: os.utime(file, ns=(1, 1)), "was overwritten while it was open"),
    ],
)
@pytest.mark.parametrize("codec", ["zlib", "uncompressed"])
def test_file_changed_in_place_while_open(
    tmp_path: Path,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    codec: str,
    change: Callable[[Path], None],
    message: str,
) -> None:
    monkeypatch.setattr(orc_reader, "_PIECE_BYTES", 1)
    file = tmp_path / "t.orc"
    table = pa.table({"a": rng.integers(0, 1 << 60, 400_000)})
    pa.orc.write_table(table, file, compression=codec, compression_block_size=1 << 16)
    reader = OrcReader(file)
    batches = OrcReader(file).batches(batch_size=1000)
    rows = next(batches).num_rows
    change(file)
    with pytest.raises(OrcError, match=message):
        reader.read(rows=[5])
    # rows that were read before are those of the file as it was
    read = list[pa.RecordBatch]()
    with pytest.raises(OrcError, match=message):
        read.extend(batches)
    for batch in read:
        assert batch["a"].equals(table["a"].chunk(0).slice(rows, batch.num_rows))
        rows += batch.num_rows


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_closed_reader_refuses_to_read_and_leaves_nothing_wrong_in_the_cache(
    tmp_path: Path, is_remote: bool
) -> None:
    file = tmp_path / "t.orc"
    table = pa.table({"f": np.arange(50_000.0), "i": np.arange(50_000)})
    pa.orc.write_table(table, file, compression="uncompressed")

    def open_reader() -> OrcReader:
        return OrcReader(FileSystemSource(pyarrow.fs.LocalFileSystem(), str(file)) if is_remote else file)

    with open_reader() as reader:
        batches = reader.batches(rows=[3])
    with pytest.raises(OrcError, match="closed"):
        next(batches)
    with open_reader() as reader:
        assert reader.read(rows=[3]).equals(table.slice(3, 1))
    for columns in (["f"], ["i"]):
        for rows in (None, [4]):
            with pytest.raises(OrcError, match="closed"):
                reader.read(columns, rows)
    assert open_reader().read().equals(table)


def test_a_file_replaced_while_it_is_open(tmp_path: Path) -> None:
    file, other = tmp_path / "t.orc", tmp_path / "other"
    table = pa.table({"a": pa.array(range(1000))})
    pa.orc.write_table(table, file)
    reader = OrcReader(file)
    pa.orc.write_table(pa.table({"a": pa.array([0] * 1000)}), other)
    other.replace(file)
    # one reader sees one file
    assert reader.read().equals(table)
    assert reader.read(rows=[7]).equals(table.slice(7, 1))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    file = tmp_path / "t.orc"
    pa.orc.write_table(pa.table({"a": pa.array(range(1000))}), file)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        OrcReader(file).read(rows=[1])
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_directory_is_named_as_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(OrcError, match="cannot open the file: Is a directory"):
        LocalSource(str(tmp_path))


def test_interrupted_close_closes_no_other_file(file: Path) -> None:
    """An interrupt at any line of a close: the next one does not close what has the same descriptor by now."""
    for step in range(20):
        source = LocalSource(file)
        lines = 0

        def interrupt(frame: FrameType, event: str, _: object, last: int = step) -> Any:
            nonlocal lines
            if frame.f_code.co_name == "close" and event in ("line", "return"):
                lines += 1
                if lines > last:
                    raise KeyboardInterrupt
            return interrupt

        tracer = sys.gettrace()
        sys.settrace(interrupt)
        try:
            source.close()
        except KeyboardInterrupt:
            is_interrupted = True
        else:
            is_interrupted = False
        finally:
            sys.settrace(tracer)
        other = os.open(file, os.O_RDONLY)
        source.close()
        os.fstat(other)
        os.close(other)
        if not is_interrupted:
            break
    assert 0 < step < 19
