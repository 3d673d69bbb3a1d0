"""Columns decoded in windows of row groups of any size: the rows that were written, whatever the selection."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.decode import streams
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import EncodingKind, StreamKind
from hindex.orc.reader import orc_reader, stripe_reader
from tests.fuzz.parts import FileParts, Hooks, put_together, take_apart
from tests.support.cases import IS_NIGHTLY
from tests.support.writers import write_pyarrow

ROWS, STRIDE = 2950, 100
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(7)
CODECS = [NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI]

Ints = npt.NDArray[np.int64]
Maker = Callable[[random.Random, int], Any]


def maybe(make: Maker, share: float = 0.2) -> Maker:
    """Make nulls, too: single ones, and in runs that leave row groups without a value."""
    return lambda r, row: None if r.random() < share or row // 130 % 7 == 3 else make(r, row)


def some(make: Maker, max_length: int = 4) -> Maker:
    return lambda r, row: [make(r, row) for _ in range(r.randrange(max_length))]


def number(r: random.Random, row: int) -> int:
    return r.choice([row, 7, r.getrandbits(62), -(1 << 63)])


def text(r: random.Random, row: int) -> str:
    return r.choice(["", f"text {row * row}", "\U0001d11e" * r.randrange(40)])


def pair(r: random.Random, row: int) -> dict[str, Any]:
    return {"a": maybe(number)(r, row), "b": maybe(text)(r, row)}


INT, TEXT = pa.int64(), pa.string()
PAIR = pa.struct([("a", INT), ("b", TEXT)])

COLUMNS: dict[str, tuple[pa.DataType, Maker]] = {
    "sorted": (INT, lambda r, row: row * 3),
    "number": (INT, number),
    "number or null": (INT, maybe(number)),
    "byte": (pa.int8(), maybe(lambda r, row: r.choice([5, row % 128]))),
    "flag": (pa.bool_(), lambda r, row: r.random() < 0.3),
    "flag or null": (pa.bool_(), maybe(lambda r, row: r.random() < 0.3)),
    "double": (pa.float64(), maybe(lambda r, row: r.random())),
    "text": (TEXT, text),
    "text or null": (TEXT, maybe(text)),
    "mode": (TEXT, maybe(lambda r, row: f"mode {r.randrange(9)}")),
    "day": (pa.date32(), lambda r, row: datetime.date(1990, 1, 1) + datetime.timedelta(r.randrange(9999))),
    "money": (pa.decimal128(12, 2), maybe(lambda r, row: decimal.Decimal(r.randrange(10**11)).scaleb(-2))),
    "huge": (pa.decimal128(38, 0), lambda r, row: decimal.Decimal(r.choice([row, r.getrandbits(120)]))),
    "moment": (
        pa.timestamp("us"),
        maybe(lambda r, row: datetime.datetime(2001, 1, 1) + datetime.timedelta(0, row, r.randrange(10**6))),
    ),
    "list": (pa.list_(INT), maybe(some(maybe(number)))),
    "texts": (pa.list_(TEXT), some(maybe(text))),
    "lists": (pa.list_(pa.list_(TEXT)), maybe(some(maybe(some(maybe(text)))))),
    "map": (
        pa.map_(TEXT, pa.list_(INT)),
        maybe(lambda r, row: [(f"k{i}", maybe(some(maybe(number)))(r, row)) for i in range(r.randrange(3))]),
    ),
    "pair": (PAIR, maybe(pair)),
    "pairs": (pa.list_(PAIR), maybe(some(maybe(pair)))),
    "pair of lists": (
        pa.struct([("n", pa.list_(INT)), ("m", pa.map_(INT, TEXT))]),
        maybe(
            lambda r, row: {
                "n": maybe(some(maybe(number)))(r, row),
                "m": maybe(lambda r, row: [(i, text(r, row)) for i in range(r.randrange(3))])(r, row),
            }
        ),
    ),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[FileParts, pa.Table]:
    """A stripe of 30 row groups, and its rows; pyarrow reads the same."""
    rng = random.Random(17)
    table = pa.table(
        {
            name: pa.array([make(rng, row) for row in range(ROWS)], data_type)
            for name, (data_type, make) in COLUMNS.items()
        }
    )
    path = tmp_path_factory.mktemp("windows") / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE, dictionary_key_size_threshold=0.3)
    parts = take_apart(path.read_bytes())
    assert len(parts.stripes) == 1
    theirs = pyarrow.orc.read_table(path)
    assert theirs.cast(table.schema).equals(table)
    return parts, table


def selections(rng: np.random.Generator) -> dict[str, Ints | None]:
    """Rows of segments of row groups: one, some with gaps between them, all."""
    groups = np.arange(ROWS) // STRIDE
    chosen = np.flatnonzero(rng.random(ROWS // STRIDE + 1) < 0.5)
    return {
        "all": None,
        "all but one": np.delete(np.arange(ROWS), int(rng.integers(ROWS))),
        "half": np.flatnonzero(rng.random(ROWS) < 0.5),
        "every other row group": np.flatnonzero(groups % 2 == 1),
        "some row groups": np.flatnonzero(np.isin(groups, chosen)),
        "some rows of some row groups": np.flatnonzero(np.isin(groups, chosen) & (rng.random(ROWS) < 0.1)),
        "ends": np.flatnonzero((np.arange(ROWS) % STRIDE) % (STRIDE - 1) == 0),
        "few": np.unique(rng.integers(0, ROWS, 5)),
        "last": np.array([ROWS - 1]),
    }


@pytest.mark.parametrize(
    ("block", "codec"),
    [
        *((257, codec) for codec in CODECS),
        *((1 << 16, codec) for codec in (CODECS if IS_NIGHTLY else [ZLIB])),
    ],
)
def test_rows_of_any_selection(
    written: tuple[FileParts, pa.Table],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
    codec: int,
    block: int,
) -> None:
    parts, table = written
    data = put_together(parts, codec, block)
    for size in (1, int(rng.integers(1, 1 << 18)), 1 << 40):
        monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", size)
        with OrcReader(BytesSource(data)) as reader:
            for name, rows in selections(rng).items():
                expected = table if rows is None else table.take(rows)
                result = reader.read(rows=rows, threads=int(rng.integers(1, 3)))
                result.validate(full=True)
                for column in table.column_names:
                    assert result[column].equals(expected[column]), (size, name, column)


@pytest.mark.parametrize("codec", [NONE, ZLIB, ZSTD] if IS_NIGHTLY else [ZSTD])
def test_batches_of_any_selection(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, codec: int
) -> None:
    parts, table = written
    data = put_together(parts, codec, 1000)
    for size in (1, 1 << 40):
        monkeypatch.setattr(orc_reader, "_PIECE_BYTES", size)
        for name, rows in selections(rng).items():
            expected = table if rows is None else table.take(rows)
            batch_size = int(rng.integers(1, 500))
            batches = list(OrcReader(BytesSource(data)).batches(rows=rows, batch_size=batch_size))
            assert all(0 < batch.num_rows <= batch_size for batch in batches)
            assert pa.Table.from_batches(batches).equals(expected), (size, name)


@pytest.mark.parametrize("codec", [NONE, ZLIB, LZ4, ZSTD])
def test_fields_of_null_structs(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, codec: int
) -> None:
    parts, table = written
    data = put_together(parts, codec, 1000)
    expected = {
        f"{top}.{field}": [None if row is None else row[field] for row in table[top].to_pylist()]
        for top, field in (("pair", "a"), ("pair", "b"), ("pair of lists", "n"), ("pair of lists", "m"))
    }
    for size in (1, 5000, 1 << 40):
        monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", size)
        for name, rows in selections(rng).items():
            result = OrcReader(BytesSource(data)).read(list(expected), rows)
            for path, values in expected.items():
                chosen = values if rows is None else [values[row] for row in rows.tolist()]
                assert result[path].to_pylist() == chosen, (size, name, path)


@pytest.mark.skipif(
    int(pa.__version__.split(".")[0]) < 25,
    reason="before 25, pyarrow's ORC reader has wrong nulls in lists of unions",
)
def test_unions_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Unions in lists; their children have nulls, and row groups without a value."""
    tags = rng.choice(np.array([0, 1, 2], np.int8), ROWS, p=[0.6, 0.3, 0.1])
    tags[STRIDE : 4 * STRIDE] = 1
    rand = random.Random(int(rng.integers(1 << 32)))
    makers: list[tuple[pa.DataType, Maker]] = [
        (INT, maybe(number)),
        (TEXT, maybe(text)),
        (pa.list_(INT), maybe(some(maybe(number)))),
    ]
    children = [
        pa.array([make(rand, row) for row in range(int((tags == tag).sum()))], data_type)
        for tag, (data_type, make) in enumerate(makers)
    ]
    offsets = np.zeros(ROWS, np.int32)
    for tag in range(3):
        offsets[tags == tag] = np.arange(int((tags == tag).sum()))
    unions = pa.UnionArray.from_dense(pa.array(tags), pa.array(offsets), children)
    lists = np.minimum(np.arange(ROWS + 1, dtype=np.int32) * 2, ROWS).astype(np.int32)
    table = pa.table({"union": unions, "unions": pa.ListArray.from_arrays(lists, unions)})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE)
    parts = take_apart(path.read_bytes())
    values = pyarrow.orc.read_table(path)
    columns = {name: values[name].to_pylist() for name in table.column_names}
    for codec in (NONE, ZLIB, ZSTD):
        data = put_together(parts, codec, 300)
        for size in (1, 3000, 1 << 40):
            monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", size)
            for name, rows in selections(rng).items():
                result = OrcReader(BytesSource(data)).read(rows=rows)
                result.validate(full=True)
                for column, expected in columns.items():
                    chosen = expected if rows is None else [expected[row] for row in rows.tolist()]
                    assert result[column].to_pylist() == chosen, (codec, size, name, column)


def test_a_row_index_that_lacks_entries_is_not_used(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
    parts, table = written

    def shorten(name: str, message: Any) -> None:
        if name == "row index":
            del message.entry[-1]

    data = put_together(parts, ZSTD, 1000, Hooks(message=shorten))
    for rows in selections(rng).values():
        reader = OrcReader(BytesSource(data))
        assert reader.read(rows=rows).equals(table if rows is None else table.take(rows))
        assert reader.counts.row_groups == 0


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("name", ["sorted", "double", "text"])
def test_row_groups_that_begin_in_an_empty_chunk(
    tmp_path: Path, rng: np.random.Generator, codec: int, name: str
) -> None:
    rand = random.Random(int(rng.integers(1 << 32)))
    data_type, make = {**COLUMNS, "double": (pa.float64(), lambda r, row: row / 7)}[name]
    table = pa.table({name: pa.array([make(rand, row) for row in range(ROWS)], data_type)})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE)
    parts = take_apart(path.read_bytes())
    empty, moved = b"\x01\x00\x00", 0

    def cut(content: bytes, block: int) -> list[tuple[bytes, bool | None]]:
        pieces: list[tuple[bytes, bool | None]] = []
        for at in range(0, len(content), block):
            pieces += [(b"", True), (content[at : at + block], None)]
        return pieces

    def move(kind: str, message: Any) -> None:
        nonlocal moved
        if kind == "row index":
            for entry in message.entry:
                # of each stream a chunk and a byte; of strings, LENGTH comes behind DATA
                for at in (0, 2)[: len(entry.positions) // 2]:
                    if entry.positions[at + 1] == 0:
                        entry.positions[at] -= len(empty)
                        moved += 1

    for block in (8, 100, 800):
        data = put_together(parts, codec, block, Hooks(message=move, cut=cut))
        for rows in selections(rng).values():
            expected = table if rows is None else table.take(rows)
            assert OrcReader(BytesSource(data)).read(rows=rows).equals(expected)
    assert moved


@pytest.mark.parametrize("empties", [1, 6])
@pytest.mark.parametrize("is_remote", [False, True])
def test_empty_chunks_within_the_last_run(
    tmp_path: Path, rng: np.random.Generator, *, is_remote: bool, empties: int
) -> None:
    table = pa.table({"a": pa.array(rng.integers(0, 1 << 40, ROWS))})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE)

    def cut(content: bytes, block: int) -> list[tuple[bytes, bool | None]]:
        pieces: list[tuple[bytes, bool | None]] = []
        for at in range(0, len(content), block):
            pieces += [(content[at : at + block], None), *[(b"", True)] * empties]
        return pieces

    data = put_together(take_apart(path.read_bytes()), ZLIB, 1000, Hooks(cut=cut))
    filesystem = fsspec.filesystem("memory")
    filesystem.pipe("/t.orc", data)
    for group in range(ROWS // STRIDE):
        row = group * STRIDE + STRIDE - 1
        source = (filesystem, "/t.orc") if is_remote else BytesSource(data)
        assert OrcReader(source).read(rows=[row]).equals(table.slice(row, 1))


@pytest.mark.parametrize("stride", [1, 100])
def test_all_rows_of_more_row_groups_than_are_believed(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """Rows are decoded in windows of another size, as no row index is needed."""
    monkeypatch.setattr(stripe_reader, "MAX_GROUPS", 20)
    monkeypatch.setattr(stripe_reader, "_STRIDE", 200)
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
    parts, table = written

    def claim(name: str, message: Any) -> None:
        if name == "footer":
            message.row_index_stride = stride

    data = put_together(parts, ZSTD, 1000, Hooks(message=claim))
    result = OrcReader(BytesSource(data)).read()
    assert result.equals(table)
    assert max(map(len, result.column("sorted").chunks)) == 200
    rows = list(range(0, ROWS, 7))
    assert OrcReader(BytesSource(data)).read(rows=rows).equals(table.take(rows))


@pytest.mark.parametrize("codec", [ZLIB, LZ4])
def test_chunks_that_are_far_smaller_than_a_block(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, codec: int
) -> None:
    """Memory is taken for the values, not for as many blocks as there are chunks."""
    parts, table = written

    def cut(content: bytes, block: int) -> list[tuple[bytes, bool | None]]:
        return [(content[at : at + 64], False) for at in range(0, len(content), 64)]

    def limited(size: int, dtype: type[np.uint8]) -> npt.NDArray[np.uint8]:
        assert size < 8 * block
        return np.empty(size, dtype)

    block = 1 << 23
    names = ["number or null", "text", "list"]
    data = put_together(parts, codec, block, Hooks(cut=cut))
    monkeypatch.setattr(streams, "allocate", limited)
    for rows in (None, np.array([5, 2000]), np.arange(0, ROWS, 2)):
        result = OrcReader(BytesSource(data)).read(names, rows)
        assert result.equals((table if rows is None else table.take(rows)).select(names))


@pytest.mark.parametrize("kind", [EncodingKind.DIRECT, EncodingKind.DICTIONARY, 9, (1 << 32) - 1])
def test_the_encoding_of_columns_without_streams_is_ignored(tmp_path: Path, kind: int) -> None:
    """Of structs, and of columns without a value: cuDF writes what is no encoding there, and other readers read it."""
    count = 250
    table = pa.table(
        {
            "number": pa.array(range(count)),
            "pair": pa.array([{"a": i, "b": None} for i in range(count)], PAIR),
            "texts": pa.array([[] for _ in range(count)], pa.list_(TEXT)),
        }
    )
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE)
    parts = take_apart(path.read_bytes())
    stripe = parts.stripes[0]
    stored = {
        s.column for s, data in zip(stripe.footer.streams, stripe.streams, strict=True) if data and s.kind < 6
    }
    without = [column for column in range(len(parts.footer.types)) if column not in stored]
    assert {0, 2} <= set(without)
    indexes = [i for i, s in enumerate(stripe.footer.streams) if s.column in stored or s.kind >= 6]
    streams = [stripe.footer.streams[i] for i in indexes]
    stripe.streams = [stripe.streams[i] for i in indexes]
    del stripe.footer.streams[:]
    stripe.footer.streams.extend(streams)

    def encode(columns: list[int]) -> bytes:
        def change(name: str, message: Any) -> None:
            if name == "stripe footer":
                for column in columns:
                    message.columns[column].kind = kind

        return put_together(parts, ZSTD, hooks=Hooks(message=change))

    for rows in (None, [5, 249], list(range(100, 200))):
        result = OrcReader(BytesSource(encode(without))).read(rows=rows)
        assert result.equals(table if rows is None else table.take(rows))
    if kind not in set(EncodingKind):
        # a column with streams has an encoding
        with pytest.raises(OrcError, match="unknown column encoding"):
            OrcReader(BytesSource(encode([1]))).read(["number"])


@pytest.mark.parametrize("rows", [None, np.arange(0, ROWS, 2)])
def test_damage_in_a_later_window_is_an_error(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, rows: Ints | None
) -> None:
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
    parts, table = written
    with OrcReader(BytesSource(put_together(parts, ZLIB, 1000))) as reader:
        column = reader.column_type("text").column
        stream = reader.stripe(0).streams[column, StreamKind.DATA]
    data = bytearray(put_together(parts, ZLIB, 1000))
    # a chunk in the middle runs past the end of its stream
    at = stream.offset
    while at < stream.offset + stream.length // 2:
        at += 3 + (int.from_bytes(data[at : at + 3], "little") >> 1)
    data[at : at + 3] = (2 * stream.length).to_bytes(3, "little")
    reader = OrcReader(BytesSource(bytes(data), "x.orc"))
    with pytest.raises(OrcError, match="past the end of its stream") as caught:
        reader.read(["number", "text"], rows)
    assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, "text")
    first = np.arange(0, 3 * STRIDE, 7)
    assert reader.read(["text"], first).equals(table.select(["text"]).take(first))
