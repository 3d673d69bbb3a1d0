"""Stripes that are decoded together give the rows that each gives by itself, for the same work."""

from __future__ import annotations

import decimal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import DecodePath, OrcReader, RowSelection, stripes_read, units
from hindex.orc.compression import CODECS, Decompressor
from hindex.orc.counts import CountedSource
from hindex.orc.fetched import Fetched
from hindex.orc.known_files import KNOWN_FILES
from hindex.orc.marks import ColumnMarks
from hindex.orc.places import Places
from hindex.orc.streams import StreamWindow
from hindex.orc.stripe import StreamKind
from tests.support.writers import write_pyarrow

#: The writer looks after every so many rows whether the stripe is large enough.
ROWS, STRIDE, STRIPE = 12_000, 500, 5_000

#: Columns that have the same streams in all stripes; the others have not.
ALIKE = ("key", "small", "double", "flag", "day", "when", "price", "price_or_null", "word", "text", "null")
#: At least the bytes that the dictionary of ``word`` takes.
_WORDS_STORED = 64


def table(rng: np.random.Generator) -> pa.Table:
    nulls = rng.random(ROWS) < 0.3
    # a whole row group and a half of nulls, so that places of several groups are the same
    nulls[3 * STRIDE : 4 * STRIDE + STRIDE // 2] = True
    keys = np.repeat(np.arange(ROWS), rng.integers(1, 8, ROWS))[:ROWS] - 900
    cents = rng.integers(-(10**7), 10**7, ROWS)
    words = np.array(["", "a", "of", "mistletoe", "\U0001d11e"])[rng.integers(0, 5, ROWS)]
    prices = [decimal.Decimal(int(c)).scaleb(-2) for c in cents]
    late = np.arange(ROWS) >= STRIPE
    pair = pa.StructArray.from_arrays([pa.array(keys), pa.array(words)], ["a", "b"], mask=pa.array(nulls))
    return pa.table(
        {
            "key": pa.array(keys, mask=nulls),
            "small": pa.array(rng.integers(-100, 100, ROWS).astype(np.int8), mask=nulls),
            "double": rng.normal(size=ROWS),
            "flag": pa.array(rng.random(ROWS) < 0.5, mask=nulls),
            "day": pa.array(rng.integers(8000, 9000, ROWS).astype(np.int32), pa.date32()),
            "when": pa.array(keys * 1_000_003 + 1_600_000_000_000_000, pa.timestamp("us"), mask=nulls),
            "price": pa.array(prices, pa.decimal128(15, 2)),
            "price_or_null": pa.array(prices, pa.decimal128(30, 2), mask=nulls),
            "word": pa.array(words, mask=nulls),
            "text": pa.array([f"{w}{k}{c}" for w, k, c in zip(words, keys, cents, strict=True)]),
            "null": pa.array(keys % 10, mask=np.arange(ROWS) % 2 == 0),
            "late_null": pa.array(keys, mask=late & nulls),
            "own_words": pa.array([f"{word}{row // STRIPE}" for row, word in enumerate(words)]),
            "list": pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32) * 2, np.arange(2 * ROWS)),
            "pair": pair,
        }
    )


def write(path: Path, data: pa.Table, codec: str) -> None:
    write_pyarrow(
        path,
        data,
        codec,
        stripe=1 << 15,
        stride=STRIDE,
        dictionary_key_size_threshold=0.1,
        compression_block_size=1 << 16,
    )


def selections(rng: np.random.Generator) -> dict[str, np.ndarray]:
    groups = np.arange(ROWS) // STRIDE
    return {
        "few": np.unique(rng.integers(0, ROWS, 12)),
        "every other row group, whole": np.flatnonzero(groups % 2 == 0),
        "neighbouring row groups, whole": np.flatnonzero((groups > 2) & (groups < 20)),
        "most rows of some groups": np.flatnonzero((groups % 3 == 1) & (rng.random(ROWS) < 0.8)),
        "ends": np.flatnonzero(np.arange(ROWS) % STRIDE >= STRIDE - 2),
        "half": np.flatnonzero(rng.random(ROWS) < 0.5),
        "again few": np.unique(rng.integers(0, ROWS, 40)),
    }


@pytest.mark.parametrize("codec", ["zstd", "zlib", "snappy"])
def test_rows_of_several_stripes(
    tmp_path: Path, codec: str, rng: np.random.Generator, joins: list[set[int]]
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, codec)
    names = data.column_names
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        assert [stripe.num_rows for stripe in reader.stripes] == [STRIPE, STRIPE, ROWS - 2 * STRIPE]
        for name, rows in selections(rng).items():
            joins.clear()
            found = reader.read(rows=rows, threads=1)
            found.validate(full=True)
            for column in names:
                assert found[column].equals(data[column].take(pa.array(rows))), (name, column)
            if len(np.unique(rows // STRIPE)) == 3:
                assert [{names[i] for i in found} for found in joins] == [set(ALIKE)], name


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_columns_are_decoded_by_several_threads(
    tmp_path: Path, codec: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, codec)
    monkeypatch.setattr(units, "_SHARED_BYTES", 0)
    at_once: list[set[int]] = []
    active: set[int] = set()
    windows = units.UnitDecoder._windows

    def spy(self: units.UnitDecoder, unit: units.Unit, **places: Any) -> list[pa.Array]:
        active.add(threading.get_ident())
        at_once.append(set(active))
        time.sleep(0.001)
        try:
            return windows(self, unit, **places)
        finally:
            active.discard(threading.get_ident())

    monkeypatch.setattr(units.UnitDecoder, "_windows", spy)
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        for name, rows in selections(rng).items():
            at_once.clear()
            assert reader.read(rows=rows, threads=3).equals(data.take(pa.array(rows))), name
            # a single row group may be less work than to call for help, or pyarrow's
            assert not at_once or max(map(len, at_once)) <= 3, name
            if codec == "zstd":
                assert max(map(len, at_once)) > 1, name
        at_once.clear()
        second = reader.stripes[1]
        (one,) = reader.read_stripes(None, [(1, RowSelection.of(range(5), second.num_rows))])
        assert pa.Table.from_batches([one]).equals(data.slice(second.first_row, 5))
        assert set(map(len, at_once)) == {1}


def test_mapped_pages_of_a_column_are_let_go_of_when_it_is_decoded(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, "zstd")
    monkeypatch.setattr(units, "_RELEASED_BYTES", 0)
    released: list[tuple[int, int]] = []
    release = CountedSource.release

    def spy(self: CountedSource, offset: int, length: int) -> None:
        released.append((offset, length))
        release(self, offset, length)

    monkeypatch.setattr(CountedSource, "release", spy)
    rows = np.arange(0, ROWS, 2 * STRIDE)
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        of_first = RowSelection.of(rows[rows < STRIPE], STRIPE)
        found = reader.read_stripe(0, ["text", "key"], of_first)
        assert pa.Table.from_batches([found]).equals(data.select(["text", "key"]).take(rows[rows < STRIPE]))
        streams = [
            (stream.offset, stream.length)
            for name in ("text", "key")
            for stream in reader.stripe(0).data_streams(reader.column_type(name).column)
        ]
        assert sorted(released) == sorted(streams)
        released.clear()
        # those that are laid end to end have no places of their own
        assert reader.read(["text", "key"], rows).equals(data.select(["text", "key"]).take(rows))
        assert released == []


def test_the_largest_column_is_begun_with(
    tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "t.orc", table(rng), "zstd")
    monkeypatch.setattr(units, "_SHARED_BYTES", 0)
    begun: list[str] = []
    windows = units.UnitDecoder._windows

    def spy(self: units.UnitDecoder, unit: units.Unit, **places: Any) -> list[pa.Array]:
        begun.append(unit.columns[0].name)
        return windows(self, unit, **places)

    monkeypatch.setattr(units.UnitDecoder, "_windows", spy)
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        reader.read(["flag", "key", "text"], np.arange(0, ROWS, 2 * STRIDE), threads=1)
    assert begun[0] == "text"
    assert sorted(begun) == ["flag", "key", "text"]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_work_is_that_of_each_stripe_by_itself(
    tmp_path: Path, rng: np.random.Generator, threads: int
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, "zstd")
    for name, rows in selections(rng).items():
        KNOWN_FILES.clear()
        with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
            together = reader.read(ALIKE, rows, threads=threads)
            counts = reader.counts.as_dict()
        KNOWN_FILES.clear()
        with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
            parts = [
                reader.read_stripe(stripe, ALIKE, selection)
                for stripe, selection in enumerate(reader.select(rows))
                if len(selection)
            ]
            alone = reader.counts.as_dict()
        assert together.equals(pa.Table.from_batches(parts)), name
        assert counts["row_groups"] == alone["row_groups"] > 0, name
        assert counts["failed_joins"] == 0
        # the shared dictionary is read once; each other byte as often
        for key in ("chunks", "chunk_bytes", "bytes_decompressed", "bytes_fetched"):
            # alone, the dictionary of a stripe is not read where the wanted words are null
            more = 2 * _WORDS_STORED if key == "bytes_fetched" else 0
            assert 0.9 * alone[key] < counts[key] <= alone[key] + more, (name, key)


def test_a_read_is_counted_once_for_each_stripe(tmp_path: Path, rng: np.random.Generator) -> None:
    write(tmp_path / "t.orc", table(rng), "zstd")
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        numbers = [reader.column_type(name).column for name in ("key", "list")]
        for times in (1, 2):
            reader.read(["key", "list"], [0, STRIPE, ROWS - 1], threads=1)
            for stripe in range(3):
                assert [reader.stripe(stripe).marks[n].reads for n in numbers] == [times] * 2


def test_marks_of_several_stripes_are_each_stripes_own(rng: np.random.Generator) -> None:
    firsts = np.array([0, 4, 9])
    together, apart = [[ColumnMarks() for _ in firsts] for _ in range(2)]
    joined = ColumnMarks.joined(together, firsts).of(StreamKind.DATA)
    for _ in range(3):
        groups = np.sort(rng.integers(0, 12, 8))
        ordinals, offsets, sums = rng.integers(0, 5000, (3, 8))
        joined.learn(groups, ordinals, offsets, sums)
        for group, *place in zip(groups, ordinals, offsets, sums, strict=True):
            part = int(np.searchsorted(firsts, group, "right")) - 1
            apart[part].of(StreamKind.DATA).learn(
                np.array([group - firsts[part]]), *(np.array([value]) for value in place)
            )
    groups = np.repeat(np.arange(12), 3)
    ordinals = rng.integers(0, 5000, len(groups))
    found = joined.before(groups, ordinals)
    assert found.known.any()
    for i, (group, ordinal) in enumerate(zip(groups, ordinals, strict=True)):
        part = int(np.searchsorted(firsts, group, "right")) - 1
        mine = np.array([group - firsts[part]]), np.array([ordinal])
        for marks in (together[part], apart[part]):
            known = marks.of(StreamKind.DATA).before(*mine)
            for field in ("ordinals", "offsets", "sums", "known"):
                assert getattr(known, field)[0] == getattr(found, field)[i]


def test_a_chunk_does_not_go_on_into_the_next_stripe() -> None:
    first, second = b"\x0b\x00\x00hello", b"\x07\x00\x00you"
    decompressor = Decompressor(CODECS[5], 65_536)

    def fetched(first: bytes) -> Fetched:
        pieces = [(0, memoryview(first)), (len(first), memoryview(second))]
        return Fetched(len(first) + len(second), mapped=pieces)

    assert fetched(first).missing([(0, 12), (3, 9)]) == []
    assert [fetched(first).end(at) for at in (0, 7, 8, 13)] == [8, 8, 14, 14]
    chunks = [fetched(first).chunk(at, decompressor) for at in (0, 8)]
    assert [bytes(chunk.body) for chunk in chunks] == [b"hello", b"you"]
    with pytest.raises(OrcError, match="runs past the stream's end at 8"):
        fetched(b"\x0d" + first[1:]).chunk(0, decompressor)
    # nor does a row group that a position lets end there
    group = Places(*(np.array([n]) for n in (0, 0, 0, 0, 7, 0, 0)))
    spans = StreamWindow(fetched(first), decompressor).spans(group, [False], np.array([1 << 20]))
    assert (spans.starts.tolist(), spans.limits.tolist()) == ([0], [5])


def test_stripes_without_wanted_rows_between_others(
    tmp_path: Path, rng: np.random.Generator, joins: list[set[int]]
) -> None:
    data = table(rng)
    write(tmp_path / "t.orc", data, "zstd")
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        last = reader.stripes[-1].first_row
        rows = np.array([7, last, ROWS - 1])
        assert reader.read(ALIKE, rows, threads=1).equals(data.select(ALIKE).take(rows))
        assert joins == [set(range(len(ALIKE)))]
        # with all rows of a stripe wanted it is read by itself
        rows = np.concatenate([np.arange(reader.stripes[1].first_row), [last, ROWS - 1]])
        assert reader.read(ALIKE, rows, threads=1).equals(data.select(ALIKE).take(rows))


def test_what_is_corrupt_is_told_with_its_stripe(tmp_path: Path, rng: np.random.Generator) -> None:
    data = table(rng).select(["key", "text"])
    path = tmp_path / "t.orc"
    write(path, data, "zstd")
    with OrcReader(path) as reader:
        number = reader.column_type("text").column
        stream = reader.stripe(1).streams[number, StreamKind.LENGTH]
        first = reader.stripes[1].first_row
        sound = np.arange(0, first, 100)
        wanted = np.append(sound, [first, first + 1])
    content = bytearray(path.read_bytes())
    # a chunk that would go on into the next stripe's stream
    content[stream.offset : stream.offset + 3] = (2 * (stream.length + 100)).to_bytes(3, "little")
    path.write_bytes(content)
    with OrcReader(path, path=DecodePath.SPARSE) as reader:
        with pytest.raises(OrcError, match="runs past the stream's end") as caught:
            reader.read(rows=wanted, threads=1)
        assert (caught.value.stripe, caught.value.column) == (1, "text")
        assert reader.counts.failed_joins == 1
        assert reader.read(rows=sound).equals(data.take(sound))
        assert reader.read(["key"], wanted).equals(data.select(["key"]).take(wanted))


def test_lots(tmp_path: Path, rng: np.random.Generator) -> None:
    data = table(rng).select(["key"])
    some = [(i, RowSelection.of([1, 2], 10)) for i in range(20)]
    every = [(i, RowSelection(10)) for i in range(3)]
    for codec, joins in (("zstd", True), ("none", False)):
        write(tmp_path / codec, data, codec)
        with OrcReader(tmp_path / codec) as reader:
            file = reader._file
            sizes = [len(lot) for lot in stripes_read.lots_of(file, some)]
            assert sizes == ([8, 8, 4] if joins else [1] * 20)
            none = (7, RowSelection.of([], 10))
            mixed = [*some[:2], *every, *some[5:7], none, *some[8:10]]
            lots = stripes_read.lots_of(file, mixed)
            assert [item for lot in lots for item in lot] == mixed
            assert [len(lot) for lot in lots] == ([2, 1, 1, 1, 2, 1, 2] if joins else [1] * 10)


def test_a_dictionary_of_its_own_is_not_taken_for_another_stripes(
    tmp_path: Path, rng: np.random.Generator, joins: list[set[int]]
) -> None:
    # as many words in each stripe, of the same lengths: only their bytes differ
    data = table(rng)
    write(tmp_path / "t.orc", data, "zstd")
    rows = np.arange(0, ROWS, 97)
    with OrcReader(tmp_path / "t.orc", path=DecodePath.SPARSE) as reader:
        number = reader.column_type("own_words").column
        assert {reader.stripe(i).dictionary_sizes[number] for i in range(3)} == {5}
        columns = ["own_words", "word"]
        assert reader.read(columns, rows, threads=1).equals(data.select(columns).take(rows))
    assert joins == [{1}]
