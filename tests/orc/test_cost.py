"""Which way columns of many row groups are decoded, and what is fetched for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.errors import OrcError
from hindex.orc import DecodePath, OrcReader, RowSelection
from hindex.orc.source import BytesSource
from hindex.orc.stripe import StreamKind
from tests.fuzz.parts import put_together, take_apart

ROWS, STRIDE = 600_000, 10_000


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One file of random texts and numbers in a local folder, and in a store that counts as remote."""
    rng = np.random.default_rng(3)
    letters = rng.integers(97, 123, (ROWS, 12), np.uint8).tobytes().decode()
    table = pa.table(
        {
            "text": [letters[at : at + 12] for at in range(0, 12 * ROWS, 12)],
            "number": rng.integers(0, 1 << 40, ROWS),
        }
    )
    path = tmp_path_factory.mktemp("cost") / "t.orc"
    pyarrow.orc.write_table(
        table, path, compression="zstd", row_index_stride=STRIDE, dictionary_key_size_threshold=0.0
    )
    fsspec.filesystem("memory").pipe("/cost/t.orc", path.read_bytes())
    return {"local": str(path), "remote": "memory://cost/t.orc"}


@pytest.mark.parametrize(
    ("place", "share"), [("local", 0.22), ("local", 0.28), ("remote", 0.25), ("remote", 0.5)]
)
def test_of_a_range_of_texts_its_share_is_fetched(places: dict[str, str], place: str, share: float) -> None:
    first, count = ROWS // 3, int(ROWS * share)
    with OrcReader(places[place]) as reader:
        found = reader.read(["text"], np.arange(first, first + count))
        fetched = reader.counts.bytes_fetched
    assert found.equals(pyarrow.orc.read_table(places["local"], ["text"]).slice(first, count))
    with OrcReader(places[place], path=DecodePath.DENSE) as reader:
        reader.read(["text"])
        assert fetched < (share + 0.1) * reader.counts.bytes_fetched


@pytest.mark.parametrize(
    ("column", "share", "way"),
    [
        ("text", 0.01, DecodePath.SPARSE),
        ("text", 0.15, DecodePath.DENSE),
        ("number", 0.0001, DecodePath.SPARSE),
        ("number", 0.05, DecodePath.DENSE),
    ],
)
def test_scattered_values_are_decoded_one_by_one_where_they_are_few(
    places: dict[str, str], column: str, share: float, way: DecodePath
) -> None:
    rows = np.flatnonzero(np.random.default_rng(4).random(ROWS) < share)
    with OrcReader(places["local"]) as reader:
        assert len(reader.stripes) == 1
        assert reader.decode_paths(0, [column], RowSelection.of(rows, ROWS)) == (way,)


def test_what_is_fetched_counts_where_the_store_is_remote(places: dict[str, str]) -> None:
    """A third of each of half of the row groups: pyarrow is quicker, and fetches twice the bytes."""
    rows = np.flatnonzero((np.arange(ROWS) % (2 * STRIDE) < STRIDE) & (np.arange(ROWS) % 3 == 0))
    ways = {}
    for place, where in places.items():
        with OrcReader(where) as reader:
            (ways[place],) = reader.decode_paths(0, ["number"], RowSelection.of(rows, ROWS))
    assert ways == {"local": DecodePath.DENSE, "remote": DecodePath.SPARSE}


LISTS, ELEMENTS = 6000, 100


def of_lists_only(footer: Any) -> None:
    footer.statistics[1].collection_statistics.total_children = LISTS * ELEMENTS
    footer.statistics[2].ClearField("number_of_values")


def absurd(footer: Any) -> None:
    for statistics in footer.statistics:
        statistics.number_of_values = (1 << 64) - 1


#: What becomes of the statistics that tell how many elements there are.
STATISTICS: dict[str, Callable[[Any], None]] = {
    "as written": lambda footer: None,
    "of lists only": of_lists_only,
    "none": lambda footer: footer.ClearField("statistics"),
    "absurd": absurd,
}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("statistics", STATISTICS)
def test_elements_of_lists_count(statistics: str, depth: int) -> None:
    """A value in each third row group: pyarrow would decode a hundred times what a row has."""
    numbers = pa.array(np.random.default_rng(5).integers(0, 1 << 40, LISTS * ELEMENTS))
    lists = numbers
    for length in (ELEMENTS,) if depth == 1 else (ELEMENTS // 2, 2):
        lists = pa.ListArray.from_arrays(np.arange(0, len(lists) + 1, length, dtype=np.int32), lists)
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"l": lists}), sink, row_index_stride=LISTS // 60, stripe_size=1 << 28)
    parts = take_apart(sink.getvalue().to_pybytes())
    if depth == 1 or statistics != "of lists only":
        STATISTICS[statistics](parts.footer)
    data = put_together(parts)
    few, most = np.arange(7, LISTS, 3 * LISTS // 60), np.flatnonzero(np.arange(LISTS) % 4)
    for rows, dense in ((few, 0), (most, 1)):
        reader = OrcReader(BytesSource(data))
        assert len(reader.stripes) == 1
        assert reader.read(["l"], rows)["l"].combine_chunks().equals(lists.take(pa.array(rows)))
        assert reader.counts.dense_columns == dense


MANY = 200_000


def _kinds(rng: np.random.Generator) -> pa.Table:
    """Columns whose lengths come in short runs, some with nulls; and one whose values come in long ones."""
    words = np.array([f"{'w' * (i % 9)}{i}" for i in range(2000)], object)

    def runs(values: int) -> Any:
        """Texts of which a few neighbours each are equally long."""
        return words[np.repeat(rng.integers(0, 2000, values), rng.integers(3, 7, values))[:values]]

    texts = runs(MANY)
    nulls = rng.random(MANY) < 0.4
    sizes = rng.integers(0, 4, MANY)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    elements = pa.array(runs(int(offsets[-1])))
    version = pa.array(rng.integers(0, 20, MANY).astype(np.int32))
    return pa.table(
        {
            "text": pa.array(texts),
            "text with nulls": pa.array(texts, mask=nulls),
            "struct": pa.StructArray.from_arrays([pa.array(texts), version], ["os", "version"]),
            "list": pa.ListArray.from_arrays(pa.array(offsets), elements),
            "long": pa.array(rng.integers(0, 1 << 40, MANY)),
        }
    )


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pa.Table]:
    """20 row groups in one stripe."""
    table, path = _kinds(np.random.default_rng(6)), tmp_path_factory.mktemp("kinds") / "t.orc"
    pyarrow.orc.write_table(
        table,
        path,
        compression="zstd",
        row_index_stride=STRIDE,
        stripe_size=1 << 28,
        dictionary_key_size_threshold=0.0,
    )
    return path, table


@pytest.mark.parametrize(
    ("column", "share", "part", "dense"),
    [
        # each row group is touched: all lengths would be decoded for a few values
        *((column, share, 1, True) for column in ("text", "struct", "list") for share in (0.1, 0.01, 0.003)),
        *((column, 0.003, 4, False) for column in ("text", "struct", "list", "text with nulls", "long")),
        *((column, 0.0001, 1, False) for column in ("text", "struct", "list")),
        # of nulls there is nothing to decode, and pyarrow is slow where they are irregular
        ("text with nulls", 0.1, 1, True),
        ("text with nulls", 0.0003, 1, False),
        ("long", 0.1, 1, True),
    ],
)
def test_short_runs_and_nulls_count(
    kinds: tuple[Path, pa.Table], column: str, share: float, part: int, dense: bool
) -> None:
    """Of each row group, or of each fourth one, a share of the rows."""
    path, table = kinds
    rows = np.flatnonzero(np.random.default_rng(7).random(MANY) < share)
    rows = rows[rows // STRIDE % part == 0]
    # what other tests have learnt of the file is not known here
    reader = OrcReader(BytesSource(path.read_bytes()))
    assert len(reader.stripes) == 1
    found = reader.read([column], rows)[column].combine_chunks()
    assert found.equals(table[column].combine_chunks().take(pa.array(rows)))
    assert (reader.counts.dense_columns, reader.counts.dense_rows) == ((1, MANY) if dense else (0, 0))
    assert (reader.counts.row_groups == 0) == dense


@pytest.mark.parametrize(
    ("rows", "lists", "dense"),
    [(50, False, False), (50, True, True), (2000, False, True), (2, True, False)],
)
def test_few_row_groups_are_weighed_where_much_of_them_is_wanted(rows: int, lists: bool, dense: bool) -> None:
    """Eight row groups, all of them touched, but two rows in one."""
    count, each = 8000, 50
    column = pa.array(np.random.default_rng(8).integers(0, 1 << 40, count * (each if lists else 1)))
    if lists:
        column = pa.ListArray.from_arrays(np.arange(0, len(column) + 1, each, dtype=np.int32), column)
    sink = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.table({"c": column}), sink, row_index_stride=1000, stripe_size=1 << 28)
    reader = OrcReader(BytesSource(sink.getvalue().to_pybytes()))
    assert len(reader.stripes) == 1
    wanted = np.arange(rows) if rows == 2 else np.arange(0, count, count // rows)
    assert reader.read(["c"], wanted)["c"].combine_chunks().equals(column.take(pa.array(wanted)))
    assert reader.counts.dense_columns == dense


def test_lengths_are_looked_at_once(kinds: tuple[Path, pa.Table], tmp_path: Path) -> None:
    """Before pyarrow gets them; again where the file was changed meanwhile, though its time says that it was not."""
    path, table = tmp_path / "t.orc", kinds[1]
    path.write_bytes(kinds[0].read_bytes())
    rows = np.arange(0, MANY, 7)
    expected = table["text"].combine_chunks().take(pa.array(rows))
    with OrcReader(path) as reader:
        chunks = []
        for _ in range(3):
            before = reader.counts.chunks
            assert reader.read(["text"], rows)["text"].combine_chunks().equals(expected)
            chunks.append(reader.counts.chunks - before)
        assert reader.counts.dense_columns == 3
        assert chunks[0] > chunks[1] == chunks[2] == 0
        with OrcReader(path) as again:
            # what is known of a file is known to all its readers
            assert again.read(["text"], rows)["text"].combine_chunks().equals(expected)
            assert (again.counts.dense_columns, again.counts.chunks) == (1, 0)
        (lengths,) = (
            stream
            for (number, kind), stream in reader.stripe(0).streams.items()
            if kind == StreamKind.LENGTH and number == reader.column_type("text").column
        )
        status = path.stat()
        with path.open("r+b") as file:
            file.seek(lengths.offset)
            file.write(bytes(lengths.length))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        before = reader.counts.dense_columns
        with pytest.raises(OrcError):
            reader.read(["text"], rows)
        assert reader.counts.dense_columns == before
