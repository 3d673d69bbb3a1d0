"""The cache of files serves the same file only, and stays within its bound."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource, LocalSource
from hindex.orc.reader.file_cache import FILE_CACHE, FileCache

ROWS = 30_000


@pytest.fixture(autouse=True)
def forgotten() -> None:
    FILE_CACHE.clear()


def write(path: Path, values: np.ndarray) -> None:
    pa.orc.write_table(pa.table({"x": values}), path, compression="zstd", row_index_stride=1000)


def rows_of(path: Path, rows: list[int]) -> tuple[list[int], int]:
    """Some values, and the bytes fetched for them."""
    with OrcReader(path) as reader:
        return reader.read(["x"], rows)["x"].to_pylist(), reader.counts.bytes_fetched


def test_the_second_reader_fetches_no_metadata_but_the_tail(tmp_path: Path, rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 40, ROWS)
    write(tmp_path / "t.orc", values)
    rows = [17, 1234, 29_000]
    first, second, third = (rows_of(tmp_path / "t.orc", rows) for _ in range(3))
    assert first[0] == second[0] == third[0] == values[rows].tolist()
    tail = OrcReader(tmp_path / "t.orc").tail
    stripe = tail.stripes[0]
    assert first[1] - second[1] > stripe.footer_length
    assert second[1] == third[1]


@pytest.mark.parametrize("replace", [True, False], ids=["renamed over", "written in place"])
def test_a_replaced_file_of_the_same_length_and_time_is_another(
    tmp_path: Path, replace: bool, rng: np.random.Generator
) -> None:
    path, other = tmp_path / "t.orc", tmp_path / "other.orc"
    values = rng.integers(1 << 39, 1 << 40, 40 * 512)
    # runs of the same values in another order: the same lengths and statistics
    turned = values.reshape(40, -1)[:, ::-1].reshape(-1)
    for to, data in ((path, values), (other, turned)):
        pa.orc.write_table(pa.table({"x": data}), to, compression="uncompressed", row_index_stride=1024)
    status, tail = path.stat(), OrcReader(path).tail.checksum
    rows = [5, 20_007]
    for _ in range(2):
        assert rows_of(path, rows)[0] == values[rows].tolist()
    if replace:
        other.replace(path)
    else:
        path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, OrcReader(path).tail.checksum) == (status.st_size, tail)
    size = len(FILE_CACHE)
    assert rows_of(path, rows)[0] == turned[rows].tolist()
    assert size == 2


class TimelessSource(LocalSource):
    """A file on a file system whose times and inodes do not tell versions of a file apart."""

    def identity(self) -> str:
        return "always the same"


def test_another_tail_is_another_file_whatever_its_identity(tmp_path: Path) -> None:
    cache = FileCache(1 << 30)
    for first in (0, 7):
        values = np.arange(first, first + ROWS)
        write(tmp_path / "t.orc", values)
        reader = OrcReader(TimelessSource(tmp_path / "t.orc"), cache=cache)
        assert reader.read(["x"], [17, 29_000])["x"].to_pylist() == values[[17, 29_000]].tolist()
    again = OrcReader(TimelessSource(tmp_path / "t.orc"), cache=cache)
    assert again.tail is reader.tail


def test_the_bound(tmp_path: Path, rng: np.random.Generator) -> None:
    for i in range(6):
        write(tmp_path / f"{i}.orc", rng.integers(0, 1 << 40, ROWS))
    sources = [LocalSource(tmp_path / f"{i}.orc") for i in range(6)]
    size = FileCache(1 << 30).open(sources[0]).nbytes
    few = FileCache(3 * size + size // 2)
    cached = [few.open(source) for source in sources]
    assert len(few) == 3
    assert few.nbytes == sum(file.nbytes for file in cached[3:])
    assert few.open(sources[5]) is cached[5]
    assert few.open(sources[0]) is not cached[0]
    # the one used longest ago went
    assert few.open(sources[4]) is cached[4]
    assert few.open(sources[3]) is not cached[3]
    for limit in (0, size // 2):
        none = FileCache(limit)
        assert none.open(sources[0]) is not none.open(sources[0])
        assert not len(none)


@pytest.mark.parametrize("noticed", ["opened", "closed", "read"])
def test_metadata_read_later_counts(tmp_path: Path, rng: np.random.Generator, noticed: str) -> None:
    write(tmp_path / "t.orc", rng.integers(0, 1 << 40, ROWS))
    cache = FileCache(1 << 30)
    reader = OrcReader(tmp_path / "t.orc", cache=cache)
    before = cache.nbytes
    rows = np.arange(0, ROWS, 3000)
    if noticed == "read":
        reader.read(rows=rows)
    else:
        assert len(reader.stripes) == 1
        reader.read_stripe(0, rows=rows)
    grown = before + 3 * 8 * (ROWS // 1000)
    if noticed == "opened":
        other = OrcReader(tmp_path / "t.orc", cache=cache)
        assert other.tail is reader.tail
    elif noticed == "closed":
        reader.close()
    assert cache.nbytes > grown
    # files that are opened once each stay within the bound, too
    few = FileCache(cache.nbytes * 2)
    for name in "abcdef":
        write(tmp_path / f"{name}.orc", rng.integers(0, 1 << 40, ROWS))
        OrcReader(tmp_path / f"{name}.orc", cache=few).read(rows=np.arange(0, ROWS, 3000))
    assert 1 <= len(few) <= 2
    assert few.nbytes <= cache.nbytes * 2


def test_bytes_in_memory_are_not_cached(tmp_path: Path) -> None:
    write(tmp_path / "t.orc", np.arange(ROWS))
    OrcReader(BytesSource((tmp_path / "t.orc").read_bytes())).read(rows=[1])
    assert not len(FILE_CACHE)


def test_readers_in_threads_share_the_cache(tmp_path: Path, rng: np.random.Generator) -> None:
    values = np.repeat(rng.integers(0, 1 << 40, ROWS), 3)[:ROWS]
    write(tmp_path / "t.orc", values)
    wanted = [np.unique(rng.integers(0, ROWS, 40)).tolist() for _ in range(60)]
    with ThreadPoolExecutor(6) as pool:
        tables = list(pool.map(lambda rows: rows_of(tmp_path / "t.orc", rows)[0], wanted))
    assert tables == [values[rows].tolist() for rows in wanted]
