"""Which way columns of many row groups are decoded, and what is fetched for it."""

from __future__ import annotations

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import DecodePath, OrcReader, RowSelection

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
