"""What decoding a remote file's columns whole asks of its store: all of a stripe together, and each byte once."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader
from hindex.orc.held import HeldFile
from hindex.orc.source import BytesSource, FileSystemSource, Range
from hindex.orc.stripe import StreamKind
from hindex.orc.vetting import may_decode

ROWS = 300_000


class _Told(FileSystemSource):
    """Remembers its requests, those of one step together."""

    def __init__(self, path: Path) -> None:
        super().__init__(pa.fs.LocalFileSystem(), str(path))
        self.steps: list[list[Range]] = []

    def _fetch(self, wanted: Sequence[Range]) -> Sequence[bytes | pa.Buffer]:
        self.steps += [list(wanted)] if wanted else []
        return super()._fetch(wanted)

    def open_arrow(self) -> pa.NativeFile:
        raise AssertionError("pyarrow's requests would not be counted")


class _Counted(BytesSource):
    """Counts the requests."""

    fetched = 0

    def read(self, ranges: Sequence[Range]) -> list[memoryview]:
        self.fetched += 1
        return super().read(ranges)


class _Asked(dict[tuple[int, StreamKind], memoryview]):
    """Remembers what it was asked for, and is not gone through."""

    def __init__(self, of: dict[tuple[int, StreamKind], memoryview]) -> None:
        super().__init__(of)
        self.asked: list[tuple[int, StreamKind]] = []

    def __contains__(self, key: object) -> bool:
        self.asked.append(key)  # type: ignore[arg-type]
        return super().__contains__(key)

    def __getitem__(self, key: tuple[int, StreamKind]) -> memoryview:
        self.asked.append(key)
        return super().__getitem__(key)

    def __iter__(self) -> NoReturn:
        raise AssertionError("all streams of the stripe were looked at")

    items = keys = values = __iter__


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(3)
    table = pa.table(
        {
            "number": random.integers(0, 1 << 40, ROWS),
            "text": [f"text {value}" for value in random.integers(0, 1 << 30, ROWS).tolist()],
            "list": pa.array([[i, i + 1] for i in range(ROWS)]),
            "double": random.random(ROWS),
        }
    )
    found = tmp_path_factory.mktemp("held") / "t.orc"
    pyarrow.orc.write_table(table, found, compression="zstd", stripe_size=1 << 20)
    return found


@pytest.mark.parametrize("columns", [["number"], ["text"], ["list", "double"], None])
def test_a_stripe_is_fetched_in_one_step(path: Path, columns: list[str] | None) -> None:
    source = _Told(path)
    reader = OrcReader(source, path=DecodePath.DENSE)
    expected = pyarrow.orc.read_table(path, columns)
    stripes = len(reader.stripes)
    assert stripes > 1
    before = len(source.steps)
    assert reader.read(columns, threads=1).equals(expected)
    # one step for each stripe's footer, and one for its columns
    assert len(source.steps) - before == 2 * stripes
    assert reader.counts.dense_columns == stripes * expected.num_columns
    requests = [item for step in source.steps for item in step]
    assert reader.counts.ranges == len(requests)
    assert reader.counts.bytes_fetched == sum(length for _, length in requests)
    known = [reader.stripe(i) for i in range(stripes)]
    stored = sum(
        stripe.data_length(node.column)
        for stripe in known
        for name in expected.column_names
        for node in reader.column_type(name).walk()
    )
    # beside the columns there are the tail and the footers, twice, and gaps
    assert stored <= reader.counts.bytes_fetched < stored * 1.1 + 2 * (16 << 10) + 4096 * stripes


def test_reads_within_and_beside_what_is_held() -> None:
    data = bytes(range(256))
    file = HeldFile(BytesSource(data))
    assert [bytes(view) for view in file.hold([(10, 20), (100, 50)])] == [data[10:30], data[100:150]]
    assert (file.seek(0, io.SEEK_END), file.tell()) == (256, 256)
    for begin, length in ((10, 20), (12, 3), (5, 10), (29, 2), (100, 50), (140, 20), (250, 20), (256, 1)):
        assert file.seek(begin) == begin
        assert file.read(length) == data[begin : begin + length]
        assert file.seek(0, io.SEEK_CUR) == min(begin + length, len(data))
    file.seek(-6, io.SEEK_END)
    assert file.read() == data[-6:]
    assert not file.closed
    file.close()
    assert file.closed


def test_reads_among_many_ranges(rng: np.random.Generator) -> None:
    """In any order, and some within others: all that one range has comes from memory."""
    data = rng.bytes(2000)
    source = _Counted(data)
    file = HeldFile(source)
    ranges = [(int(a), int(rng.integers(0, 60))) for a in rng.permutation(1900)[:50]]
    ranges = [item for item in ranges if rng.random() < 0.9] + [(ranges[0][0], 5), (ranges[0][0], 70)]
    file.hold(ranges)
    source.fetched = 0
    apart = [
        r for r in ranges if not any(r != q and r[0] <= q[0] + q[1] and q[0] <= r[0] + r[1] for q in ranges)
    ]
    for begin, length in apart:
        file.seek(begin)
        assert file.read(length // 2) == data[begin : begin + length // 2]
        assert file.read(length - length // 2) == data[begin + length // 2 : begin + length]
    assert not source.fetched
    for begin in rng.integers(0, 1900, 200).tolist():
        file.seek(begin)
        length = int(rng.integers(0, 70))
        assert file.read(length) == data[begin : begin + length]
    assert source.fetched


def test_a_table_of_many_columns() -> None:
    """A column is vetted by a look at its own streams."""
    count = 600
    table = pa.table({f"c{i}": [i, None] if i % 2 else [str(i), ""] for i in range(count)})
    file = io.BytesIO()
    pyarrow.orc.write_table(table, file)
    reader = OrcReader(BytesSource(file.getvalue()))
    stripe = reader.stripe(0)
    stored = _Asked(
        {
            place: memoryview(file.getvalue())[stream.offset : stream.offset + stream.length]
            for place, stream in stripe.streams.items()
        }
    )
    of = reader.column_type("c300")
    assert may_decode(stored, stripe, of, table.num_rows, reader.tail.decompressor())
    assert {column for column, _ in stored.asked} == {of.column}
    assert len(stored.asked) < 20
    assert reader.read().equals(table)
