"""Where bytes come from: ranges, coalescing, and files that change while they are open."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pytest

from hindex.errors import OrcError, TableError
from hindex.orc import DecodePath, OrcReader
from hindex.orc.source import COALESCE_GAP, BytesSource, FileSystemSource, LocalSource, open_source

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
    ranges = [(0, 3), (700_000, 5), (10, 0), (100, 300), (len(DATA) - 1, 1)]
    filesystem = pyarrow.fs.LocalFileSystem()
    for source in (BytesSource(DATA), LocalSource(file), FileSystemSource(filesystem, str(file))):
        assert source.size() == len(DATA)
        assert [bytes(view) for view in source.read(ranges)] == [DATA[o : o + n] for o, n in ranges]
        for outside in ((len(DATA), 1), (-1, 1), (0, len(DATA) + 1)):
            with pytest.raises(OrcError, match="truncated or corrupt"):
                source.read([outside])
        assert source.open_arrow().read() == DATA
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
    assert counting.asked == [(0, 100), (far, 10)]
    counting.asked.clear()
    source.read([(0, 100), (100 + COALESCE_GAP, 10)])
    assert counting.asked == [(0, 110 + COALESCE_GAP)]


def test_a_missing_file_and_an_unknown_scheme(tmp_path: Path) -> None:
    with pytest.raises(OrcError, match=r"cannot open the file: No such file"):
        open_source(tmp_path / "nope")
    with pytest.raises(TableError, match=r"Table 'nope://x' is invalid"):
        open_source("nope://x")


@pytest.mark.parametrize("path", [DecodePath.SPARSE, DecodePath.DENSE, DecodePath.WHOLE])
def test_a_file_cut_short_while_it_is_open(tmp_path: Path, path: DecodePath) -> None:
    file = tmp_path / "t.orc"
    pa.orc.write_table(pa.table({"a": pa.array(range(100_000))}), file, compression="zlib")
    reader = OrcReader(file, path=path)
    os.truncate(file, 100)
    with pytest.raises(OrcError, match="was cut short while it was open"):
        reader.read(rows=[5])


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
