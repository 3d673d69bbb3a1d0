"""Columns decoded in windows of row groups: of any size, and of files with odd chunks, row indexes and encodings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import EncodingKind, StreamKind
from hindex.orc.reader import orc_reader, stripe_reader
from tests.fuzz.parts import FileParts, Hooks, put_together, take_apart
from tests.orc.generated import PAIR, STRIDE, TEXT, array, mixed_table, orc_bytes
from tests.orc.oracle import Oracle, check_selections, selections
from tests.support.cases import cases
from tests.support.writers import write_pyarrow

ROWS = 14 * STRIDE + 50
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD, BROTLI = range(7)

Ints = npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def written() -> tuple[FileParts, pa.Table]:
    """A stripe of 15 row groups, and its rows."""
    table = mixed_table(ROWS, seed=17)
    parts = take_apart(orc_bytes(table, row_index_stride=STRIDE, dictionary_key_size_threshold=0.3))
    assert len(parts.stripes) == 1
    return parts, table


def test_windows_of_any_size(
    written: tuple[FileParts, pa.Table], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """`test_conformance` reads one row group in a window, and all of them; here are some of them."""
    parts, table = written
    oracle = Oracle(table)
    for _ in range(cases(3, 40)):
        codec, size = int(rng.integers(7)), int(rng.integers(1, 1 << 18))
        monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", size)
        monkeypatch.setattr(orc_reader, "_PIECE_BYTES", size)
        check_selections(put_together(parts, codec, 1000), oracle, rng, f"{codec} {size}", 4)


@pytest.mark.parametrize("entries", [-1, 1], ids=["one less", "one more"])
def test_a_row_index_of_another_number_of_row_groups_is_not_used(
    written: tuple[FileParts, pa.Table],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
    entries: int,
) -> None:
    monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
    parts, table = written

    def change(name: str, message: Any) -> None:
        if name == "row index" and entries < 0:
            del message.entry[entries:]
        elif name == "row index":
            message.entry.append(message.entry[-1])

    data = put_together(parts, ZSTD, 1000, Hooks(message=change))
    with OrcReader(BytesSource(data)) as reader:
        for rows in selections(reader, rng).values():
            assert reader.read(rows=rows).equals(table if rows is None else table.take(rows))
        assert reader.counts.row_groups == 0


@pytest.mark.parametrize("codec", [ZLIB, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("name", ["sorted", "double", "text"])
def test_row_groups_that_begin_in_an_empty_chunk(
    tmp_path: Path, rng: np.random.Generator, codec: int, name: str
) -> None:
    chance = random.Random(int(rng.integers(1 << 32)))
    values = pa.array(np.arange(ROWS) / 7) if name == "double" else array(name, ROWS, chance)
    table = pa.table({name: values})
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
        for rows in selections(OrcReader(BytesSource(data)), rng).values():
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
    monkeypatch.setattr(stripe_reader, "MAX_GROUPS", 10)
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
