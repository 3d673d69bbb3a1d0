"""Threads that decode whole columns through pyarrow: what they share, and what stays behind when they end."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader, RowSelection
from hindex.orc.counts import CountedSource, ReadCounts
from hindex.orc.dense import DenseReader
from hindex.orc.source import ByteSource, FileSystemSource, LocalSource, Range

ROOT = Path(__file__).parents[2]
ROWS = 20_000


class _Block(np.ndarray):
    """Bytes that can be asked whether they are still there."""

    __hash__ = object.__hash__  # type: ignore[assignment]


class _Remote(FileSystemSource):
    """Remembers what it was asked for, and which of the bytes it gave are still in use."""

    def __init__(self, path: Path) -> None:
        super().__init__(pa.fs.LocalFileSystem(), str(path))
        self.asked: list[Range] = []
        self.blocks: weakref.WeakSet[_Block] = weakref.WeakSet()

    def _fetch(self, wanted: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        self.asked += wanted
        found = [np.frombuffer(block, np.uint8).view(_Block) for block in super()._fetch(wanted)]
        self.blocks.update(found)
        return found


Source = Callable[[Path], ByteSource]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(5)
    table = pa.table({name: random.integers(0, 1 << 40, ROWS) for name in "ab"})
    found = tmp_path_factory.mktemp("threads") / "t.orc"
    pyarrow.orc.write_table(table, found, compression="zstd", stripe_size=100_000, batch_size=500)
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What pyarrow opened as ORC files."""
    found: list[object] = []
    real = pyarrow.orc.ORCFile.__init__

    def told(file: pyarrow.orc.ORCFile, source: object) -> None:
        found.append(source)
        real(file, source)

    monkeypatch.setattr(pyarrow.orc.ORCFile, "__init__", told)
    return found


@pytest.mark.parametrize("source", [LocalSource, _Remote])
def test_threads_that_python_does_not_know_may_end(path: Path, source: Source) -> None:
    """In a process of its own, which ended when the second such thread did, before its file was left to others."""
    code = f"""
from pathlib import Path
from tests.orc.test_dense_threads import {source.__name__}, DecodePath, OrcReader, pyarrow
from tests.support.native import on_native_thread
path = Path({str(path)!r})
reader = OrcReader({source.__name__}(path), path=DecodePath.DENSE)
expected = pyarrow.orc.read_table(path)
assert all(on_native_thread(lambda: reader.read(threads=1)).equals(expected) for _ in range(20))
print(reader.counts.dense_columns)
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)
    stripes = len(OrcReader(path).stripes)
    assert (ran.returncode, ran.stdout.strip()) == (0, str(20 * stripes * 2)), ran.stderr


@pytest.mark.parametrize("source", [LocalSource, _Remote])
def test_one_file_serves_threads_that_come_after_one_another(
    path: Path, opened: list[object], source: Source
) -> None:
    given = source(path)
    reader = OrcReader(given, path=DecodePath.DENSE)
    expected = pyarrow.orc.read_table(path)
    opened.clear()
    for _ in range(4):
        asked: list[Range] = []
        if isinstance(given, _Remote):
            asked = given.asked = []
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(reader.read, threads=1).result().equals(expected)
    assert len(opened) == 1
    # the file's tail is asked for by who opens it
    assert all(sum(item) < given.size() for item in asked)
    assert bool(asked) == given.is_remote


@pytest.mark.parametrize("source", [LocalSource, _Remote])
def test_threads_at_once_have_a_file_each(
    path: Path, opened: list[object], monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    reader = OrcReader(source(path), path=DecodePath.DENSE)
    expected = pyarrow.orc.read_table(path)
    count, inside, most, together = 3, 0, 0, False
    lock, all_here = threading.Lock(), threading.Barrier(count)
    busy: set[int] = set()
    real = pyarrow.orc.ORCFile.read_stripe

    def read_stripe(file: pyarrow.orc.ORCFile, stripe: int, columns: list[str]) -> pa.RecordBatch:
        nonlocal inside, most
        with lock:
            assert id(file) not in busy, "a file serves one thread at a time"
            busy.add(id(file))
            inside += 1
            most = max(most, inside)
        if stripe == 0 and together:
            all_here.wait(timeout=20)
        try:
            return real(file, stripe, columns)
        finally:
            with lock:
                inside -= 1
                busy.remove(id(file))

    monkeypatch.setattr(pyarrow.orc.ORCFile, "read_stripe", read_stripe)
    opened.clear()
    pools = [ThreadPoolExecutor(1) for _ in range(count)]
    for pool in pools:
        assert pool.submit(reader.read, threads=1).result().equals(expected)
    assert (most, len(opened)) == (1, 1)
    together = True
    for _ in range(2):
        reads = [pool.submit(reader.read, threads=1) for pool in pools]
        assert all(read.result().equals(expected) for read in reads)
    assert (most, len(opened)) == (count, count)
    assert reader.counts.dense_columns == 3 * count * len(reader.stripes) * 2
    for pool in pools:
        pool.shutdown()


def test_a_file_that_asked_for_every_piece_does_so_no_more(path: Path, opened: list[object]) -> None:
    """It was opened for who fetched nothing beforehand."""
    expected = pyarrow.orc.read_table(path, ["a"])
    reader = OrcReader(path)
    counts = ReadCounts()
    dense = DenseReader(CountedSource(_Remote(path), counts), reader.tail)
    opened.clear()
    stripe, columns = reader.stripe(1), [("a", reader.column_type("a"))]
    everything = RowSelection(stripe.information.num_rows)
    rows = expected["a"].combine_chunks().slice(reader.stripes[0].num_rows, len(everything))
    for of_its_own in (True, False, False):
        if of_its_own:
            found = dense.read(stripe, columns, everything)
        else:
            with dense.stored(stripe, stripe.data_streams(1)):
                before = counts.ranges
                found = dense.read(stripe, columns, everything)
                assert counts.ranges == before
        assert found[0].equals(rows)
    assert [isinstance(source, pa.PythonFile) for source in opened] == [False, True]


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_that_waits_holds_no_bytes(path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    source = _Remote(path)
    reader = OrcReader(source, path=DecodePath.DENSE)
    held: list[int] = []
    real = pyarrow.orc.ORCFile.read_stripe

    def read_stripe(file: pyarrow.orc.ORCFile, stripe: int, columns: list[str]) -> pa.RecordBatch:
        held.append(sum(block.nbytes for block in source.blocks))
        if fails:
            raise pa.ArrowInvalid("as corrupt data does")
        return real(file, stripe, columns)

    monkeypatch.setattr(pyarrow.orc.ORCFile, "read_stripe", read_stripe)
    found = reader.read(["a"], threads=1)
    assert found.equals(pyarrow.orc.read_table(path, ["a"]))
    gc.collect()
    size = reader.stripe(0).data_length(1)
    assert min(held) >= size / 2
    # the file's tail is kept with what is known of the file
    assert sum(block.nbytes for block in source.blocks) < size / 2
    assert reader.counts.dense_columns == (0 if fails else len(reader.stripes))
