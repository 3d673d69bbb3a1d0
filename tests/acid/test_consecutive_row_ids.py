"""Row ids that count up: the bytes that are expected of them are those that writers give them, and no others'."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from hindex.orc import OrcReader
from hindex.orc.acid.live_rows import is_consecutive
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.stripe import StreamKind


def _reader(values: pa.Array, compression: str = "zlib") -> OrcReader:
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"a": values}), file, compression=compression)
    return OrcReader(BytesSource(file.getvalue()))


@pytest.mark.parametrize("compression", ["zlib", "uncompressed", "zstd", "snappy"])
@pytest.mark.parametrize("count", [4, 5, 511, 512, 516, 5000, 70_000])
def test_numbers_that_count_up(count: int, compression: str) -> None:
    """The first ones of a run need varints of every length there is."""
    for first in (0, 1, 63, 64, 8000, 10**6, 2**31 - 300, 2**34, 2**40):
        reader = _reader(pa.array(np.arange(count) + first), compression)
        assert is_consecutive(reader, 0, "a", first)
        assert not is_consecutive(reader, 0, "a", first + 1)


@pytest.mark.parametrize("compression", ["zlib", "zstd"])
def test_a_stream_that_is_damaged_is_left_to_whoever_decodes_it(compression: str) -> None:
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"a": np.arange(50_000)}), file, compression=compression)
    reader = OrcReader(BytesSource(file.getvalue()))
    stream = reader.stripe(0).streams[reader.column_type("a").column, StreamKind.DATA]
    for at in range(3 + 4):
        content = bytearray(file.getvalue())
        content[stream.offset + at] ^= 0xFE
        assert not is_consecutive(OrcReader(BytesSource(bytes(content))), 0, "a", 0)


@pytest.mark.parametrize("count", [1, 2, 3, 513, 515])
def test_the_last_few_are_written_in_another_way(count: int) -> None:
    assert not is_consecutive(_reader(pa.array(np.arange(count))), 0, "a", 0)


def test_numbers_that_do_not(rng: np.random.Generator) -> None:
    for _ in range(100):
        values = np.arange(3000)
        at = rng.integers(3000, size=2)
        match rng.integers(4):
            case 0:
                values[at] = values[at[::-1]]
            case 1:
                values[at[0]] = values[at[1]]
            case 2:
                values[at[0] :] += 1
            case 3:
                values = values * 2
        expected = bool(np.array_equal(values, np.arange(3000)))
        assert is_consecutive(_reader(pa.array(values)), 0, "a", 0) is expected


@pytest.mark.parametrize(
    "values",
    [
        pa.array([*range(999), None]),
        pa.array([*range(999), None]).fill_null(0),
        pa.array(range(1000), pa.int32()),
        pa.array(range(-1000, 0)),
    ],
)
def test_columns_that_are_not_looked_at(values: pa.Array) -> None:
    assert not is_consecutive(_reader(values), 0, "a", values[0].as_py())
