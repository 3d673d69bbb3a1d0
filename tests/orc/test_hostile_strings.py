"""Strings and dictionaries of excessive size: what does not fit one array is an error on every path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.errors import OrcError
from hindex.orc import OrcReader
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind
from tests.fuzz.parts import FileParts, put_together, take_apart
from tests.orc.hostile import (
    NONE,
    ROWS,
    STRIDE,
    TABLE,
    ZSTD,
    bounded,
    column_of,
    repeated,
    with_message,
    with_stream,
)
from tests.support.messages import raises
from tests.support.writers import write_pyarrow


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("top", "item"), [("texts", "texts/0"), ("map", "map/1")], ids=["items of lists", "values of maps"]
)
@pytest.mark.parametrize(("elements", "length"), [(1000, 65_535), (1000, 1000), (300, 255)])
@pytest.mark.usefixtures("windows")
def test_strings_that_exceed_one_array(
    parts: FileParts, top: str, item: str, elements: int, length: int, codec: int
) -> None:
    """None is long; pyarrow makes room for all of a thousand rows, and writes to it before it looks for their bytes."""
    damaged = with_stream(parts, top, StreamKind.LENGTH, repeated(elements, ROWS))
    if top == "map":
        damaged = with_stream(damaged, "map/0", StreamKind.DATA, repeated(2, ROWS * elements))
    damaged = with_stream(damaged, item, StreamKind.LENGTH, repeated(length, ROWS * elements))
    data = put_together(damaged, codec, 1 << 18)
    with raises(OrcError) as caught:
        OrcReader(BytesSource(data, "x.orc")).read([top])
    assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)


def test_an_entry_that_is_wanted_too_often(tmp_path: Path) -> None:
    """Of a dictionary's entry of three megabytes a thousand values do not fit one array."""
    count, long = 8000, "x" * (3 << 20)
    path = tmp_path / "t.orc"
    texts = pa.array(["a", long] * 2 + ["a"] * (count - 4))
    write_pyarrow(path, pa.table({"c": texts}), "none", stride=1000, dictionary_key_size_threshold=1.0)
    parts = take_apart(path.read_bytes())
    stripe = parts.stripes[0]
    places = [(s.column, s.kind) for s in stripe.footer.streams]
    # the row index does not fit other runs
    parts.footer.row_index_stride = 0
    code = places.index((1, StreamKind.DATA))
    assert parts.stripes[0].footer.columns[1].kind == 3
    stripe.streams[code] = repeated(1, count)
    data = put_together(parts, ZSTD, 1 << 20)
    with raises(OrcError) as caught:
        OrcReader(BytesSource(data, "x.orc")).read(["c"])
    assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, "c")
    reader = OrcReader(BytesSource(data))
    assert reader.read(["c"], [5, 7999]).column(0).to_pylist() == [long, long]


@pytest.mark.parametrize("name", ["mode", "modes"])
@pytest.mark.parametrize("entries", [1 << 21, 1 << 28])
@pytest.mark.usefixtures("windows")
def test_entries_that_are_nothing(parts: FileParts, tmp_path: Path, entries: int, name: str) -> None:
    """A dictionary whose entries have no bytes, in runs of one length: a few bytes say that there are any number."""
    texts = TABLE["mode"].combine_chunks()
    modes = pa.ListArray.from_arrays(np.arange(ROWS + 1, dtype=np.int32), texts)
    path = tmp_path / "t.orc"
    table = pa.table({"mode": texts, "modes": modes})
    write_pyarrow(path, table, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    parts = take_apart(path.read_bytes())
    top, column = name, name if name == "mode" else "modes/0"

    def claim(footer: Any) -> None:
        footer.columns[column_of(parts, column)].dictionary_size = entries

    lengths = repeated(0, min(entries, 1 << 22))
    data = put_together(
        with_stream(parts, column, StreamKind.LENGTH, lengths),
        ZSTD,
        1 << 18,
        with_message("stripe footer", claim),
    )
    for rows in (None, [5, 850]):
        reader = OrcReader(BytesSource(data, "x.orc"))
        with pytest.raises(OrcError, match=f"there should be {entries} entries of a dictionary") as caught:
            bounded(lambda reader=reader, rows=rows: reader.read([top], rows))  # type: ignore[misc]
        assert (caught.value.path, caught.value.stripe, caught.value.column) == ("x.orc", 0, top)


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize("codec", ["none", "zlib"])
@pytest.mark.usefixtures("windows")
def test_a_long_entry_that_is_wanted_once(
    tmp_path: Path, rng: np.random.Generator, nulls: float, codec: str
) -> None:
    """Were each value the longest entry, they would not fit one array: they are counted then."""
    count, long = 3000, "x" * (1 << 20)
    texts = pa.array(
        [f"mode {i}" for i in rng.integers(0, 9, count)], pa.string(), mask=rng.random(count) < nulls
    )
    at = int(rng.integers(count))
    table = pa.table({"c": pa.chunked_array([texts.slice(0, at), pa.array([long]), texts.slice(at)])})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, codec, stride=1000, dictionary_key_size_threshold=1.0)
    reader = OrcReader(path)
    assert reader.read(threads=1).equals(table)
