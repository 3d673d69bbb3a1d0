"""Which way columns of many row groups are decoded, and what is fetched for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader, RowSelection
from hindex.orc.source import BytesSource
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
