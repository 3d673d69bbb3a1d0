"""Stripes that are decoded together give the rows that each gives by itself, for the same work."""

from __future__ import annotations

import decimal
import io
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from google.protobuf.message import Message

from hindex.errors import OrcError
from hindex.orc import DecodePath, OrcReader, RowSelection, cost, joined, stripes_read, units
from hindex.orc.columns import context
from hindex.orc.compression import CODECS, Decompressor
from hindex.orc.counts import CountedSource
from hindex.orc.fetched import Fetched
from hindex.orc.known_files import KNOWN_FILES
from hindex.orc.marks import ColumnMarks
from hindex.orc.source import BytesSource
from hindex.orc.streams import Places, StreamWindow
from hindex.orc.stripe import StreamKind
from tests.fuzz.parts import FileParts, Hooks, put_together, take_apart
from tests.support.writers import write_pyarrow

#: The writer looks after every so many rows whether the stripe is large enough.
ROWS, STRIDE, STRIPE = 12_000, 500, 5_000

#: Columns that have the same streams in all stripes, and those that have not.
ALIKE = ("key", "small", "double", "flag", "day", "when", "price", "price_or_null", "word", "text", "null")
NOT_ALIKE = ("late_null", "own_words", "list", "pair")
#: At least the bytes that the dictionary of ``word`` takes.
_WORDS_STORED = 64


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """What was decoded together, as ordinals of columns. An error of it fails the test: none is hidden."""

    def failed(*_: object) -> None:
        raise AssertionError("stripes could not be decoded together")

    found: list[set[int]] = []
    original = stripes_read._joined

    def spy(*args: object) -> dict[int, pa.Array]:
        arrays: dict[int, pa.Array] = original(*args)  # type: ignore[arg-type]
        if len(args[2]) > 1:  # type: ignore[arg-type]
            found.append(set(arrays))
        return arrays

    monkeypatch.setattr(stripes_read, "_joined", spy)
    monkeypatch.setattr(stripes_read, "_failed", failed)
    return found


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


#: Stripes that are taken apart: rows, and rows of one and of a row group.
SMALL_ROWS, SMALL_STRIPE, SMALL_STRIDE = 18_000, 6000, 500
ZSTD = 5


def small_table() -> pa.Table:
    rng = np.random.default_rng(5)
    cents = rng.integers(0, 10**6, SMALL_ROWS)
    return pa.table(
        {
            "key": np.cumsum(np.repeat(rng.integers(0, 9, SMALL_ROWS), 4)[:SMALL_ROWS]),
            "price": pa.array([decimal.Decimal(int(c)).scaleb(-2) for c in cents], pa.decimal128(10, 2)),
            "word": pa.array([f"w{i}" for i in np.arange(SMALL_ROWS) * 7 % 5]),
            "text": pa.array([str(c) for c in cents]),
            "when": pa.array(cents * 10**9, pa.timestamp("us")),
        }
    )


@pytest.fixture(scope="module")
def small() -> pa.Table:
    return small_table()


@pytest.fixture(scope="module")
def taken_apart(small: pa.Table) -> FileParts:
    file = io.BytesIO()
    with pa.orc.ORCWriter(
        file,
        compression="uncompressed",
        stripe_size=1000,
        batch_size=SMALL_STRIPE,
        row_index_stride=SMALL_STRIDE,
        dictionary_key_size_threshold=0.9,
    ) as writer:
        writer.write(small)
    parts = take_apart(file.getvalue())
    assert [stripe.num_rows for stripe in parts.stripes] == [SMALL_STRIPE] * 3
    return parts


@pytest.fixture
def parts(taken_apart: FileParts) -> FileParts:
    return taken_apart.copy()


def stream_of(parts: FileParts, column: int, kind: StreamKind) -> int:
    """Which of the first stripe's streams it is."""
    (at,) = (i for i, s in enumerate(parts.stripes[0].footer.streams) if (s.column, s.kind) == (column, kind))
    return at


def read(data: bytes, rows: np.ndarray, columns: list[str] | None = None) -> pa.Table:
    with OrcReader(BytesSource(data), path=DecodePath.SPARSE) as reader:
        return reader.read(columns, rows, threads=1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("key", StreamKind.DATA),
        ("price", StreamKind.DATA),
        ("price", StreamKind.SECONDARY),
        ("word", StreamKind.DATA),
        ("text", StreamKind.DATA),
        ("text", StreamKind.LENGTH),
        ("when", StreamKind.DATA),
        ("when", StreamKind.SECONDARY),
    ],
)
@pytest.mark.parametrize("hands_over", [True, False])
def test_bytes_behind_a_stripes_last_value_are_not_the_next_ones(
    monkeypatch: pytest.MonkeyPatch,
    small: pa.Table,
    parts: FileParts,
    joins: list[set[int]],
    name: str,
    kind: StreamKind,
    hands_over: bool,
) -> None:
    # pyarrow decodes all that it can, or nothing
    monkeypatch.setattr(context, "handover_pays", lambda *_: hands_over)
    monkeypatch.setattr(cost, "FILLED", 4 if hands_over else 0)
    column = small.column_names.index(name) + 1
    # a run of ten values; of decimals, two
    parts.stripes[0].streams[stream_of(parts, column, kind)] += b"\x3f\x07"
    data = put_together(parts, ZSTD, 65_536)
    numbers = np.arange(SMALL_ROWS)
    for rows in (numbers[numbers % 5 != 0], numbers[numbers // SMALL_STRIDE % 4 != 1]):
        assert read(data, rows, [name]).equals(small.select([name]).take(rows))
    assert joins == [{0}] * 2


@pytest.mark.parametrize(("name", "bits"), [("price", 0x80), ("word", 0), ("key", 0)])
def test_damage_stays_in_its_stripe(
    monkeypatch: pytest.MonkeyPatch,
    small: pa.Table,
    parts: FileParts,
    rng: np.random.Generator,
    name: str,
    bits: int,
) -> None:
    monkeypatch.setattr(context, "handover_pays", lambda *_: True)
    at = stream_of(parts, small.column_names.index(name) + 1, StreamKind.DATA)
    sound = parts.stripes[0].streams[at]
    rows = np.flatnonzero(rng.random(SMALL_ROWS) < 0.8)
    others = rows[rows >= SMALL_STRIPE]
    expected = small[name].take(others)
    told: list[int | None] = []
    read_all_the_same = 0
    # most damage is told, so some luck is needed for damage that is not
    for tries in range(1000):
        if tries >= 12 and read_all_the_same:
            break
        damaged = bytearray(sound)
        damaged[rng.integers(len(sound))] ^= bits or int(rng.integers(1, 256))
        parts.stripes[0].streams[at] = bytes(damaged)
        try:
            found = read(put_together(parts, ZSTD, 65_536), rows, [name])
        except OrcError as error:
            told.append(error.stripe)
        else:
            assert found[name].slice(len(rows) - len(others)).equals(expected)
            read_all_the_same += 1
    assert set(told) <= {0}
    assert read_all_the_same


@pytest.mark.parametrize("name", ["key", "text"])
def test_a_position_at_the_streams_end_is_not_the_next_stripes(
    small: pa.Table, parts: FileParts, name: str
) -> None:
    column = small.column_names.index(name) + 1
    with OrcReader(BytesSource(put_together(parts, ZSTD, 1024))) as reader:
        length = reader.stripe(0).streams[column, StreamKind.DATA].length
    seen: list[Message] = []

    def damage(of: str, message: Any) -> None:
        if of == "row index":
            seen.append(message)
            if len(seen) == column + 1:
                message.entry[-1].positions[:2] = [length, 0]

    data = put_together(parts, ZSTD, 1024, Hooks(message=damage))
    rows = np.array([5, SMALL_STRIPE - 10, SMALL_STRIPE + 7, SMALL_ROWS - 1])
    with pytest.raises(OrcError) as caught:
        read(data, rows, [name])
    assert caught.value.stripe == 0
    others = [name for name in small.column_names if name != small.column_names[column - 1]]
    assert read(data, rows, others).equals(small.select(others).take(rows))


def test_what_cannot_be_read_is_told_of_its_own_stripe(small: pa.Table, parts: FileParts) -> None:
    rows = np.arange(0, SMALL_ROWS, 1000)
    encrypted = parts.copy()
    encrypted.footer.encryption.variants.add(root=2)
    with pytest.raises(OrcError, match="the column is encrypted") as caught:
        read(put_together(encrypted, ZSTD), rows)
    assert (caught.value.stripe, caught.value.column) == (0, "price")
    for stripe in range(3):
        short = parts.copy()
        seen: list[Message] = []

        def shorten(of: str, message: Any, *, at: int = stripe, seen: list[Message] = seen) -> None:
            if of == "stripe footer":
                seen.append(message)
                if len(seen) == at + 1:
                    del message.columns[3:]

        data = put_together(short, ZSTD, hooks=Hooks(message=shorten))
        with pytest.raises(OrcError, match="only 3 column encodings") as caught:
            read(data, rows, ["word"])
        assert caught.value.stripe == stripe
        assert read(data, rows, ["price"]).equals(small.select(["price"]).take(rows))


def test_stripes_of_different_time_zones(small: pa.Table, parts: FileParts, joins: list[set[int]]) -> None:
    rows = np.arange(0, SMALL_ROWS, 37)
    for stripe, zone in zip(parts.stripes, ("UTC", "Asia/Tokyo", "America/New_York"), strict=True):
        stripe.footer.writer_timezone = zone
    data = put_together(parts, ZSTD)
    whole = pa.orc.ORCFile(io.BytesIO(data)).read(["when"])["when"].cast(pa.timestamp("us"))
    assert not whole.equals(small["when"])
    found = read(data, rows)
    assert found["when"].equals(whole.take(rows))
    assert found.drop_columns(["when"]).equals(small.drop_columns(["when"]).take(rows))
    assert joins == [{0, 1, 2, 3}]


def test_dictionaries_of_different_sizes(small: pa.Table, parts: FileParts) -> None:
    rows = np.arange(0, SMALL_ROWS, 37)
    assert read(put_together(parts, ZSTD), rows, ["word"]).equals(small.select(["word"]).take(rows))
    # the bytes are the same, but of the second stripe's only three entries count
    parts.stripes[1].footer.columns[3].dictionary_size = 3
    with pytest.raises(OrcError, match="entry 4 of a dictionary of 3") as caught:
        read(put_together(parts, ZSTD), rows, ["word"])
    assert caught.value.stripe == 1


@pytest.mark.parametrize("bound", ["_MOST_BYTES", "_MOST_ROWS"])
def test_only_what_is_small_is_decoded_together(
    monkeypatch: pytest.MonkeyPatch, small: pa.Table, parts: FileParts, joins: list[set[int]], bound: str
) -> None:
    data = put_together(parts, ZSTD)
    stored = {"_MOST_BYTES": len(data), "_MOST_ROWS": SMALL_ROWS}[bound]
    rows = np.arange(0, SMALL_ROWS, 7)
    few = rows[rows % SMALL_STRIPE < SMALL_STRIDE]
    # of all stripes, two and none; a row group of each is far less
    for part, expected in ((1.0, [3]), (0.7, [2]), (0.1, [])):
        monkeypatch.setattr(joined, bound, int(stored * part))
        joins.clear()
        lots: list[int] = []
        original = joined.JoinedDecoder.arrays

        def arrays(self: joined.JoinedDecoder, *args: object) -> dict[int, pa.Array]:
            lots.append(len(self._parts))  # noqa: B023
            return original(self, *args)  # type: ignore[arg-type]  # noqa: B023

        with monkeypatch.context() as patched:
            patched.setattr(joined.JoinedDecoder, "arrays", arrays)
            assert read(data, rows).equals(small.take(rows))
            assert lots == expected
            assert read(data, few).equals(small.take(few))
            assert lots == [*expected, 3]


def test_small_lots_cover_all_stripes(rng: np.random.Generator) -> None:
    for _ in range(50):
        sizes = rng.integers(0, joined._MOST_BYTES, 8) // rng.integers(1, 20)
        counts = rng.integers(0, joined._MOST_ROWS, 8) // rng.integers(1, 20)
        found = joined.small_lots(
            [
                joined.Part(None, None, np.array([rows]), {}, int(size))  # type: ignore[arg-type]
                for rows, size in zip(counts, sizes, strict=True)
            ]
        )
        assert (found[0][0], found[-1][1]) == (0, 8)
        assert all(end == begin for (_, end), (begin, _) in pairwise(found))
        for begin, end in found:
            assert sizes[begin:end].sum() <= joined._MOST_BYTES or end - begin == 1
            assert counts[begin:end].sum() <= joined._MOST_ROWS or end - begin == 1
