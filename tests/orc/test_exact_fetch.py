"""A sparse read fetches the chunks that hold the rows, and next to nothing else."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.io.adapted import FileSystemSource
from hindex.orc.io.metrics import CountedSource
from hindex.orc.io.source import TAIL_GUESS, LocalSource, Range
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.reader import stripe_reader
from hindex.orc.reader.file_cache import FILE_CACHE
from tests.fuzz.parts import put_together, take_apart
from tests.orc.chunks import bytes_that_hold
from tests.support.cases import sampled

#: So many times the chunks and metadata that hold the rows may be fetched: where chunks end is guessed, which counts
#: for most where a segment of row groups is a single chunk.
MOST = 1.6

ROWS = 40_000

CODECS = ["zlib", "snappy", "lz4", "zstd"]
SIZES = [(1000, 64 << 10), (10_000, 64 << 10), (1000, 256 << 10)]

Ints = npt.NDArray[np.int64]


def table(rng: np.random.Generator) -> pa.Table:
    """Row groups of a part of a chunk (numbers), of about one (texts) and of many (long texts)."""
    words = [f"{v:x}" for v in rng.integers(0, 1 << 60, 2000)]
    picks = rng.integers(0, len(words), (ROWS, 3))
    nulls = rng.random(ROWS) < 0.1
    # so many digits of so large a number that neither is compressed away
    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(0, 1 << 40, ROWS)]
    return pa.table(
        {
            "n": rng.integers(0, 1 << 60, ROWS),
            "d": pa.array(rng.random(ROWS), mask=nulls),
            "day": pa.array(rng.integers(0, 20_000, ROWS).astype(np.int32)).cast(pa.date32()),
            "money": pa.array(money, pa.decimal128(15, 2)),
            "mode": pa.array([words[i % 7] for i in picks[:, 0]]).take(pa.array(np.arange(ROWS))),
            "text": pa.array([f"{words[a]} {words[b]}" for a, b in picks[:, :2]], mask=nulls),
            "long": pa.array([words[a] * 9 + words[b] * (b % 40) for a, b in picks[:, :2]]),
        }
    )


@pytest.fixture(scope="module")
def written() -> pa.Table:
    return table(np.random.default_rng(11))


def selections(rng: np.random.Generator, stride: int) -> dict[str, Ints]:
    starts = np.arange(0, ROWS, stride)
    chosen = rng.choice(starts, max(len(starts) // 6, 1), replace=False)
    return {
        "whole row groups": np.sort(np.concatenate([np.arange(s, s + stride) for s in chosen])),
        "rows of some row groups": np.sort(np.concatenate([s + rng.choice(stride, 4) for s in chosen])),
        "rows of every row group": np.sort(np.concatenate([s + rng.choice(stride, 2) for s in starts])),
        "one row": rng.choice(ROWS, 1),
    }


@sampled(6)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("stride", "block"), SIZES)
def test_only_the_chunks_of_the_rows_are_fetched(
    tmp_path: Path,
    written: pa.Table,
    codec: str,
    stride: int,
    block: int,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a chunk that two windows share may be decompressed twice
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1 << 40)
    path = tmp_path / "t.orc"
    pa.orc.write_table(
        written,
        path,
        compression=codec,
        row_index_stride=stride,
        compression_block_size=block,
        stripe_size=16 << 20,
        batch_size=1000,
        dictionary_key_size_threshold=0.5,
    )
    for name, rows in selections(rng, stride).items():
        for columns in (["n", "day", "mode"], ["text", "long", "d"], ["text", "d", "money"]):
            needed = bytes_that_hold(path, columns, rows)
            least = bytes_that_hold(path, columns, rows, run_bytes=0)
            indexes = sum(stripe.index_length for stripe in OrcReader(path).stripes)
            expected = written.select(columns).take(np.unique(rows))
            remote = FileSystemSource(pyarrow.fs.LocalFileSystem(), str(path))
            for source in (LocalSource(path), remote):
                FILE_CACHE.clear()
                reader = OrcReader(source)
                opened = reader.counts.bytes_fetched
                assert (reader.counts.ranges, opened) == (1, min(TAIL_GUESS, path.stat().st_size))
                assert reader.read(columns, rows).equals(expected)
                # those of all columns come with the footer of a stripe, which saves a request
                others = indexes if source.is_remote else 0
                fetched = reader.counts.bytes_fetched - opened
                assert fetched <= MOST * (needed + others), (name, columns, source.is_remote)
                # a row needs less than its row group, and the footer of the last stripe may come with the tail
                assert fetched >= 0.5 * least or not source.is_remote, (name, columns)


def test_ranges_are_planned_and_fetched_together(tmp_path: Path, written: pa.Table) -> None:
    path = tmp_path / "t.orc"
    pa.orc.write_table(written, path, compression="zstd", row_index_stride=10_000, batch_size=1000)
    source = _Steps(path)
    reader = OrcReader(source)
    assert len(reader.stripes) == 1
    source.steps.clear()
    rows = np.concatenate([np.arange(s, s + 10_000) for s in (10_000, 30_000)])
    assert reader.read(rows=rows).equals(written.take(rows))
    # the footer, unless it came with the tail, beside the row indexes of all columns, and their chunks
    metadata, chunks = map(len, source.steps)
    assert metadata <= 2
    assert chunks > 1


@pytest.mark.parametrize("codec", ["zlib", "snappy"])
def test_runs_that_cross_row_groups_take_no_further_steps(
    tmp_path: Path, written: pa.Table, codec: str, rng: np.random.Generator
) -> None:
    path = tmp_path / "t.orc"
    options = {"row_index_stride": 1000, "compression_block_size": 1 << 16, "batch_size": 1000}
    pa.orc.write_table(written, path, compression=codec, stripe_size=16 << 20, **options)
    for rows in selections(rng, 1000).values():
        FILE_CACHE.clear()
        source = _Steps(path)
        reader = OrcReader(source)
        source.steps.clear()
        assert reader.read(["n", "day"], rows).equals(written.select(["n", "day"]).take(np.unique(rows)))
        # the footer with the row indexes, and the chunks; none more for the chunks behind a row group's last one
        assert len(source.steps) <= 2, source.steps


@pytest.mark.parametrize("codec", [1, 2], ids=["zlib", "snappy"])
def test_the_chunk_behind_a_row_group_is_fetched_if_its_last_run_needs_it(tmp_path: Path, codec: int) -> None:
    path, rows, stride = tmp_path / "t.orc", 60_000, 700
    written = pa.table({"n": np.random.default_rng(7).integers(0, 1 << 60, rows)})
    pa.orc.write_table(written, path, compression="uncompressed", row_index_stride=stride)
    # a run takes 4 KB
    path.write_bytes(put_together(take_apart(path.read_bytes()), codec, 20_000))
    steps = []
    for first in range(0, rows, stride):
        FILE_CACHE.clear()
        source = _Steps(path)
        reader = OrcReader(source)
        source.steps.clear()
        wanted = np.arange(first, min(first + stride, rows))
        assert reader.read(rows=wanted).equals(written.take(wanted))
        steps.append(len(source.steps))
    # two more, for the header and the body of the chunk
    assert set(steps) == {2, 4}
    assert steps.count(2) > 5 * steps.count(4)


@pytest.mark.parametrize("columns", [["n"], ["text"], ["list", "d"], None])
def test_a_stripe_is_fetched_in_one_step(
    tmp_path: Path, written: pa.Table, columns: list[str] | None
) -> None:
    path = tmp_path / "t.orc"
    data = written.append_column("list", pa.array([[i, i + 1] for i in range(ROWS)]))
    pa.orc.write_table(data, path, compression="zstd", stripe_size=1 << 19, batch_size=1000)
    source = _Steps(path)
    reader = OrcReader(source)
    stripes = len(reader.stripes)
    assert stripes > 1
    before = len(source.steps)
    expected = data if columns is None else data.select(columns)
    assert reader.read(columns, threads=1).equals(expected)
    # one step for each stripe's footer, but that of the last one, which comes with the tail; and one for its columns
    assert len(source.steps) - before == 2 * stripes - 1
    requests = [item for step in source.steps for item in step]
    assert reader.counts.ranges == len(requests)
    assert reader.counts.bytes_fetched == sum(length for _, length in requests)
    stored = sum(
        reader.stripe(at).data_length(node.column)
        for at in range(stripes)
        for name in expected.column_names
        for node in reader.column_type(name).walk()
    )
    # beside the columns there are the tail and the footers, twice, with the row indexes, and gaps
    indexes = 2 * sum(stripe.index_length for stripe in reader.stripes)
    assert stored <= reader.counts.bytes_fetched < stored * 1.1 + 2 * TAIL_GUESS + 4096 * stripes + indexes


class _Steps(FileSystemSource):
    """Remembers the requests of each step of a read."""

    def __init__(self, path: Path) -> None:
        super().__init__(pyarrow.fs.LocalFileSystem(), str(path))
        self.steps: list[list[Range]] = []

    def _fetch(self, ranges: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        self.steps += [list(ranges)] if ranges else []
        return super()._fetch(ranges)


def test_row_groups_that_adjoin_are_one_range(tmp_path: Path, written: pa.Table) -> None:
    """Without compression, and with runs that cross their borders."""
    path = tmp_path / "file.orc"
    pyarrow.orc.write_table(written, path, compression="uncompressed", row_index_stride=1000)
    reader = OrcReader(path)
    streams = [stream for stream in reader.stripe(0).streams.values() if stream.kind < StreamKind.ROW_INDEX]
    # the row indexes are kept
    reader.read(rows=[0])
    before = reader.counts.as_dict()
    # without the fifth row group
    rows = np.concatenate([np.arange(0, 4000, 3), np.arange(5000, ROWS // 2, 3)])
    assert reader.read(rows=rows).equals(written.take(rows))
    counts = {name: count - before[name] for name, count in reader.counts.as_dict().items()}
    assert counts["row_groups"] == 19 * len(reader.names)
    assert len(streams) < counts["ranges"] <= 2 * len(streams)
    assert counts["bytes_fetched"] < 0.6 * sum(stream.length for stream in streams)


def test_counts_equal_the_bytes_read(tmp_path: Path, written: pa.Table) -> None:
    path = tmp_path / "t.orc"
    pa.orc.write_table(written, path, compression="zstd", row_index_stride=1000)

    class Asked(FileSystemSource):
        total = count = 0

        def _read_range(self, item: tuple[int, int]) -> bytes:
            type(self).total += item[1]
            type(self).count += 1
            return super()._read_range(item)

    reader = OrcReader(Asked(pyarrow.fs.LocalFileSystem(), str(path)))
    reader.read(["n", "text"], rows=range(0, ROWS, 2503))
    assert isinstance(reader._file.source, CountedSource)
    assert (reader.counts.bytes_fetched, reader.counts.ranges) == (Asked.total, Asked.count)


@pytest.mark.parametrize("codec", [2, 5], ids=["snappy", "zstd"])
def test_chunks_of_which_only_the_first_bytes_were_fetched(
    tmp_path: Path, codec: int, rng: np.random.Generator
) -> None:
    # what is fetched on a guess, the wrong one where chunks are not packed alike, ends anywhere: also within the few
    # bytes that tell how long a chunk's content is
    path, rows = tmp_path / "t.orc", 20_000
    sizes = rng.integers(2, 30, rows).tolist()
    words = [rng.bytes(size).hex() if i % 5000 > 1500 else "x" * size for i, size in enumerate(sizes)]
    written = pa.table({"text": words, "d": rng.random(rows)})
    pa.orc.write_table(written, path, compression="uncompressed", row_index_stride=5000)
    path.write_bytes(put_together(take_apart(path.read_bytes()), codec, 1000))
    source = FileSystemSource(pyarrow.fs.LocalFileSystem(), str(path))
    reader = OrcReader(source)
    for size in [1, 3, 10] * 20:
        rows_of_chunk = np.sort(rng.choice(rows, size, replace=False))
        assert reader.read(rows=rows_of_chunk).equals(written.take(rows_of_chunk))
