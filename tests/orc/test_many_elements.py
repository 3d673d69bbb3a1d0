"""Lists of so many elements that a row group has megabytes of them, of which a few rows' are wanted.

How many elements a row group has is not known without decoding all lengths: just up to the last wanted one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.orc import OrcReader
from hindex.orc.decode import columns
from hindex.orc.io.source import BytesSource
from tests.fuzz.parts import put_together, take_apart
from tests.orc.generated import long_list_table
from tests.support.writers import write_pyarrow

STRIDE = 1000
#: Random numbers of 63 bits take eight bytes each: 1.6 MB in a row group.
ELEMENTS = 200
BLOCK = 1 << 16
NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD = range(6)


@pytest.mark.parametrize("codec", [NONE, ZLIB, SNAPPY, LZO, LZ4, ZSTD])
def test_chunks_behind_the_last_selected_list_stay_compressed(tmp_path: Path, codec: int) -> None:
    """A row group has more bytes than the elements of its first rows can take, by whatever encoding."""
    table = long_list_table(STRIDE, ELEMENTS, seed=4).select(["numbers", "nulls", "lists", "struct"])
    path = tmp_path / "t.orc"
    write_pyarrow(path, table, "none", stride=STRIDE, dictionary_key_size_threshold=0.5)
    data = put_together(take_apart(path.read_bytes()), codec, BLOCK)
    for name in table.column_names:
        reader = OrcReader(BytesSource(data))
        assert reader.read([name], [1]).column(0).equals(table[name].slice(1, 1))
        if reader.tail.codec is not None:
            assert reader.counts.bytes_decompressed <= (1 << 20) + 4 * BLOCK


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
