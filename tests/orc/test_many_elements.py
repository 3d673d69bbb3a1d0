"""Lists of so many elements that a row group has megabytes of them, of which a few rows' are wanted.

How many elements a row group has is not known without decoding all lengths: just up to the last wanted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.orc import OrcReader
from hindex.orc.decode import columns
from hindex.orc.io.source import BytesSource
from tests.fuzz.parts import FileParts, put_together, take_apart
from tests.support.writers import write_pyarrow

ROWS, STRIDE = 2600, 1000
#: Random numbers of 63 bits take eight bytes each: 1.6 MB in a row group.
ELEMENTS = 200
BLOCK = 1 << 16
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)


def _columns(rng: np.random.Generator) -> Mapping[str, pa.Array]:
    lengths = rng.integers(ELEMENTS // 2, ELEMENTS * 3 // 2, ROWS)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count = int(offsets[-1])
    numbers = rng.integers(-(1 << 62), 1 << 62, count)
    small = rng.integers(0, 200, count)
    items = {
        "numbers": pa.array(numbers),
        "nulls": pa.array(numbers, mask=rng.random(count) < 0.1),
        "doubles": pa.array(rng.random(count)),
        "texts": pa.array(numbers).cast(pa.string()),
        "modes": pa.array(small).cast(pa.string()),
        "moments": pa.array(rng.integers(0, 1 << 50, count), pa.timestamp("us")),
        "money": pa.array(numbers).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 10)),
        "flags": pa.array(small < 70),
        "structs": pa.StructArray.from_arrays([pa.array(numbers), pa.array(small)], ["a", "b"]),
    }
    # the rows of the first half have two lists each, the others none
    outer = np.minimum(np.arange(ROWS + 1) * 2, ROWS).astype(np.int32)
    columns = {name: pa.ListArray.from_arrays(offsets, item) for name, item in items.items()}
    columns["lists"] = pa.ListArray.from_arrays(outer, columns["numbers"])
    columns["map"] = pa.MapArray.from_arrays(offsets, pa.array(numbers), pa.array(numbers[::-1]))
    columns["struct"] = pa.StructArray.from_arrays([columns["numbers"]], ["inner"])
    return columns


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[pa.Table, FileParts]:
    table = pa.table(_columns(np.random.default_rng(4)))
    path = tmp_path_factory.mktemp("elements") / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    return table, take_apart(path.read_bytes())


@pytest.fixture(scope="module", params=[NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD])
def stored(request: pytest.FixtureRequest, file: tuple[pa.Table, FileParts]) -> bytes:
    return put_together(file[1], request.param, BLOCK)


@pytest.mark.usefixtures("windows")
def test_a_few_rows(file: tuple[pa.Table, FileParts], stored: bytes, rng: np.random.Generator) -> None:
    table, _ = file
    chosen = np.unique(rng.integers(0, ROWS, int(rng.integers(1, 5)))).tolist()
    for rows in ([0], [STRIDE - 1], [STRIDE + 1, 2 * STRIDE], chosen):
        expected = table.take(rows)
        result = OrcReader(BytesSource(stored)).read(rows=rows)
        assert result.equals(expected), rows


def test_chunks_behind_the_last_selected_list_stay_compressed(
    file: tuple[pa.Table, FileParts], stored: bytes
) -> None:
    """A row group has more bytes than the elements of its first rows can take, by whatever encoding."""
    table, _ = file
    for name in ("numbers", "nulls", "lists", "struct"):
        reader = OrcReader(BytesSource(stored))
        assert reader.read([name], [1]).column(0).equals(table[name].slice(1, 1))
        if reader.tail.codec is not None:
            assert reader.counts.bytes_decompressed <= (1 << 20) + 4 * BLOCK


def test_all_rows_of_some_row_groups(
    file: tuple[pa.Table, FileParts], stored: bytes, rng: np.random.Generator
) -> None:
    table, _ = file
    group = int(rng.integers(ROWS // STRIDE))
    rows = list(range(group * STRIDE, (group + 1) * STRIDE))
    for name in table.column_names:
        result = OrcReader(BytesSource(stored)).read([name], rows)
        assert result.equals(table.select([name]).take(rows)), (name, group)


@pytest.mark.parametrize("kind", ["lists", "structs", "maps"])
def test_nested_lists_are_checked_once_for_each_level_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not twice at each level, which would take as long as 2 to the power of the depth."""
    depth, rows = 8, 3
    data_type: pa.DataType = pa.int64()
    value: Any = 7
    for _ in range(depth):
        if kind == "maps":
            data_type, value = pa.map_(pa.int64(), data_type), [(1, value), (2, value)]
        elif kind == "structs":
            data_type, value = pa.list_(pa.struct([("a", data_type)])), [{"a": value}, None, {"a": value}]
        else:
            data_type, value = pa.list_(data_type), [value, value]
    table = pa.table({"a": pa.array([value] * rows, data_type)})
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "zstd", stride=STRIDE)
    monkeypatch.setattr(columns, "_UNCHECKED_VALUES", 0)
    monkeypatch.setattr(columns, "_VALUES_PER_BYTE", 0)
    reads = 0
    read_stream = columns.ColumnDecoder._read

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal reads
        reads += 1
        return read_stream(*args, **options)

    monkeypatch.setattr(columns.ColumnDecoder, "_read", counted)
    assert OrcReader(path).read().equals(table)
    # of each level its lengths, structs that are null, and keys; and as much of each level below
    assert depth < reads <= 3 * (depth + 1) * (depth + 2) // 2
    assert OrcReader(path).read(rows=[1]).equals(table.slice(1, 1))


def test_more_empty_structs_than_are_believed_without_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_UNCHECKED_VALUES", 10)
    empty = pa.struct([])
    table = pa.table(
        {
            "a": pa.array([[{}] * 3, [], [{}]] * 20, pa.list_(empty)),
            "b": pa.array([[(1, {}), (2, {})], None, []] * 20, pa.map_(pa.int64(), empty)),
            "c": pa.array([[{"d": {}}] * 2, None, []] * 20, pa.list_(pa.struct([("d", empty)]))),
        }
    )
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "zstd", stride=STRIDE)
    assert OrcReader(path).read().equals(table)
    rows = list(range(0, 60, 2))
    assert OrcReader(path).read(rows=rows).equals(table.take(rows))
