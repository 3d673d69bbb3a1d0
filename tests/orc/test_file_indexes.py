"""Statistics and bloom filters of files of every writer, against the data beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest

from hindex.keys import array_keys, key_kind, key_value
from hindex.orc import Kind, OrcReader, OrcType
from hindex.orc.io.source import BytesSource
from hindex.orc.metadata.bloom_filters import value_hashes
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls, Value, ValueRange, value_range
from hindex.orc.metadata.stripe import StreamKind
from hindex.orc.reader.file_indexes import FileIndexes
from tests.support.values import TYPES, Column, random_column, random_pool
from tests.support.writers import WRITERS, write_pyarrow, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 4000


def values_of(data_type: OrcType, array: pa.Array) -> list[Value | None]:
    """Values in the form that ranges and filters have."""
    keys = array_keys(data_type, array)
    listed = keys.tolist() if isinstance(keys, np.ndarray) else keys.to_pylist()
    valued = data_type.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE)
    return [
        None if not valid else key_value(data_type, key) if valued else key  # type: ignore[misc]
        for key, valid in zip(listed, array.is_valid().to_pylist(), strict=True)
    ]


def check(
    statistics: ColumnStatistics, value_range: ValueRange | Distrust, values: list[Value | None]
) -> bool:
    """That statistics hold for the values that they are of; whether they give a range."""
    nulls = statistics.nulls(len(values))
    count = values.count(None)
    if nulls is not Nulls.UNKNOWN:
        assert nulls is (Nulls.NONE if not count else Nulls.ALL if count == len(values) else Nulls.SOME)
    if isinstance(value_range, Distrust):
        return False
    for value in values:
        if value is None:
            continue
        assert not (isinstance(value, float) and math.isnan(value))
        assert value_range.low is None or value >= value_range.low  # type: ignore[operator]
        if value_range.high is not None and not value <= value_range.high:  # type: ignore[operator]
            assert value_range.high_is_prefix
            assert value.startswith(value_range.high)  # type: ignore[union-attr, arg-type]
    return True


@pytest.mark.parametrize("name", WRITERS)
def test_all_of_a_file_holds_for_its_data(
    name: str, spark: SparkSession, rng: np.random.Generator, tmp_path: Path
) -> None:
    columns = [Column(f"c{i}", data_type, random_pool(rng, data_type)) for i, data_type in enumerate(TYPES)]
    arrays = {column.name: random_column(rng, column, ROWS) for column in columns}
    long = "".join(chr(int(c)) for c in rng.integers(0x20, 0xD7FF, 1500))
    arrays["long"] = pa.array([long[: int(n)] for n in rng.integers(990, 1500, ROWS)])
    options: dict[str, dict[str, Any]] = {
        "pyarrow": {"bloom_filter_columns": list(range(1, len(arrays) + 1))},
        "pyorc": {"bloom_filter_columns": list(arrays)},
        "spark": {
            "orc.bloom.filter.columns": ",".join(arrays),
            "orc.bloom.filter.write.version": str(rng.choice(["original", "utf8"])),
        },
    }
    path = tmp_path / "x.orc"
    writer(name, spark)(path, pa.table(arrays), "zlib", stride=500, stripe=100_000, **options[name])

    ranges, filters = check_indexes(path, is_complete=True)
    assert ranges > 10
    assert filters > 10


#: Files of other writers, and whether they have statistics and filters that are used.
SAMPLES = {
    "TestOrcFile.testDate1900": (True, False),
    "TestOrcFile.testPredicatePushdown": (True, False),
    "TestOrcFile.testStripeLevelStats": (True, False),
    "bad_bloom_filter_1.6.11": (True, True),
    "decimal64_v2_cplusplus": (True, False),
    "orc-file-no-double-statistic": (False, False),
    "orc-file-presto-string": (True, False),
    "orc_split_elim_cpp": (True, False),
    "over1k_bloom": (True, False),
}


@pytest.mark.parametrize(("name", "is_used"), SAMPLES.items(), ids=SAMPLES)
def test_indexes_of_other_writers_hold_or_are_not_used(name: str, is_used: tuple[bool, bool]) -> None:
    ranges, filters = check_indexes(Path(__file__).parent / "files" / f"{name}.orc")
    assert (ranges > 0, filters > 0) == is_used


def check_indexes(path: Path, *, is_complete: bool = False) -> tuple[int, int]:
    """Check statistics and filters of flat columns; count the ranges and filters that are used.

    Args:
        is_complete: all columns have statistics.
    """
    reader = OrcReader(path)
    indexes = FileIndexes(reader)
    ranges = filters = 0
    for column, data_type in zip(reader.names, reader.tail.schema.children, strict=True):
        everything: list[Value | None] = []
        for stripe in range(len(reader.stripes)):
            values = values_of(data_type, reader.read_stripe(stripe, [column]).column(0))
            everything += values
            statistics = indexes.stripe_statistics(stripe, data_type.column)
            assert not is_complete or isinstance(statistics, ColumnStatistics)
            if isinstance(statistics, ColumnStatistics):
                check(statistics, value_range(statistics, data_type, reader.tail), values)
            groups = indexes.group_statistics(stripe, data_type.column)
            assert not is_complete or isinstance(groups, list)
            if not isinstance(groups, list):
                continue
            stream = indexes.bloom_stream(stripe, data_type)
            bloom = None
            if isinstance(stream, tuple):
                bloom = indexes.bloom_filters(stripe, data_type.column, stream[0])
            start = 0
            for group, (rows, item) in enumerate(zip(indexes.group_rows(stripe), groups, strict=True)):
                part = values[start : start + rows]
                zone = indexes.writer_timezone(stripe)
                ranges += check(item, value_range(item, data_type, reader.tail, zone=zone), part)
                start += rows
                if bloom is None or isinstance(bloom, Distrust):
                    continue
                filters += 1
                for value in set(part):
                    hashes = None if value is None else value_hashes(value, data_type, reader.tail)
                    assert hashes is None or bloom.might_contain_any(hashes)[group], (
                        column,
                        data_type,
                        value,
                    )
            assert start == len(values)
        whole = indexes.file_statistics(data_type.column)
        assert not is_complete or isinstance(whole, ColumnStatistics)
        if isinstance(whole, ColumnStatistics):
            check(whole, value_range(whole, data_type, reader.tail), everything)
    return ranges, filters


@pytest.mark.parametrize("name", WRITERS)
def test_absent_values_are_mostly_ruled_out(name: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "n": pa.array(range(0, 20_000, 2), pa.int64()),
            "s": pa.array([f"value {i}" for i in range(0, 20_000, 2)]),
        }
    )
    options: dict[str, dict[str, Any]] = {
        "pyarrow": {"bloom_filter_columns": [1, 2]},
        "pyorc": {"bloom_filter_columns": ["n", "s"]},
        "spark": {"orc.bloom.filter.columns": "n,s"},
    }
    writer(name, spark)(tmp_path / "x.orc", rows, "zlib", stride=1000, **options[name])
    reader = OrcReader(tmp_path / "x.orc")
    indexes = FileIndexes(reader)
    for column, absent in (
        ("n", list(range(1, 2000, 2))),
        ("s", [f"value {i}".encode() for i in range(1, 2000, 2)]),
    ):
        data_type = reader.column_type(column)
        stream = indexes.bloom_stream(0, data_type)
        assert isinstance(stream, tuple)
        filters = indexes.bloom_filters(0, data_type.column, stream[0])
        assert not isinstance(filters, Distrust)
        assert key_kind(data_type) is not None
        hits = np.stack(
            [filters.might_contain_any(value_hashes(v, data_type, reader.tail) or []) for v in absent]
        )
        assert hits.mean() < 0.15, column


def damaged(path: Path, change: Callable[[bytearray, OrcReader], None]) -> OrcReader:
    """A file with some of its bytes changed."""
    data = bytearray(path.read_bytes())
    change(data, OrcReader(path))
    return OrcReader(BytesSource(bytes(data)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = pa.table({"n": pa.array(range(3000), pa.int64())})
    write_pyarrow(tmp_path / "x.orc", rows, "none", stride=1000, bloom_filter_columns=[1])
    return tmp_path / "x.orc"


def test_corrupt_indexes_are_ignored_with_a_reason(path: Path) -> None:
    def overwrite(kind: StreamKind) -> Callable[[bytearray, OrcReader], None]:
        def change(data: bytearray, reader: OrcReader) -> None:
            stream = reader.stripe(0).streams[1, kind]
            data[stream.offset : stream.offset + stream.length] = b"\xff" * stream.length

        return change

    def no_metadata(data: bytearray, reader: OrcReader) -> None:
        at = bytes(data).rindex(reader.tail.metadata)
        data[at : at + len(reader.tail.metadata)] = b"\xff" * len(reader.tail.metadata)

    sound = FileIndexes(OrcReader(path))
    assert isinstance(sound.stripe_statistics(0, 1), ColumnStatistics)
    assert isinstance(sound.group_statistics(0, 1), list)
    assert not isinstance(sound.bloom_filters(0, 1, StreamKind.BLOOM_FILTER_UTF8), Distrust)

    reader = damaged(path, overwrite(StreamKind.ROW_INDEX))
    assert FileIndexes(reader).group_statistics(0, 1) is Distrust.CORRUPT
    reader = damaged(path, overwrite(StreamKind.BLOOM_FILTER_UTF8))
    result = FileIndexes(reader).bloom_filters(0, 1, StreamKind.BLOOM_FILTER_UTF8)
    assert result is Distrust.BAD_FILTER
    reader = damaged(path, no_metadata)
    assert FileIndexes(reader).stripe_statistics(0, 1) is Distrust.CORRUPT
    for reader in (damaged(path, overwrite(StreamKind.BLOOM_FILTER_UTF8)), damaged(path, no_metadata)):
        assert reader.read().column("n").to_pylist() == list(range(3000))


def test_a_row_index_of_other_row_groups_is_not_used(path: Path) -> None:
    reader = OrcReader(path)
    indexes = FileIndexes(reader)
    # as if it had been read
    stripe = reader.stripe(0)
    other = OrcReader(path)
    FileIndexes(other).group_statistics(0, 1)
    entries = other.stripe(0).row_entries[1]
    stripe.row_entries[1] = entries[:2]
    assert len(entries) == 3
    assert indexes.group_statistics(0, 1) is Distrust.CORRUPT


def test_missing_indexes(tmp_path: Path) -> None:
    with (
        (tmp_path / "y.orc").open("wb") as file,
        pyorc.Writer(file, "struct<n:bigint>", row_index_stride=0) as out,
    ):
        out.writerows((i,) for i in range(3000))
    indexes = FileIndexes(OrcReader(tmp_path / "y.orc"))
    assert indexes.group_statistics(0, 1) is None
    assert indexes.group_rows(0) == []
    # a corrupt file may claim any number of rows
    part = replace(indexes._tail.stripes[0], index_length=1 << 40, num_rows=(1 << 20) + 1)
    indexes._tail = replace(indexes._tail, stripes=(part,), row_index_stride=1)
    assert indexes.group_rows(0) == []
    assert indexes.file_statistics(99) is None
    assert indexes.stripe_statistics(0, 99) is None


def test_row_indexes_are_read_once(path: Path) -> None:
    reader = OrcReader(path)
    indexes = FileIndexes(reader)
    before = reader.counts.bytes_fetched
    indexes.group_statistics(0, 1)
    stripe = reader.stripe(0)
    length = stripe.streams[1, StreamKind.ROW_INDEX].length
    assert reader.counts.bytes_fetched == before + reader.stripes[0].footer_length + length
    indexes.group_statistics(0, 1)
    assert reader.counts.bytes_fetched == before + reader.stripes[0].footer_length + length
    # and serve for reading rows, too
    assert 1 in stripe.row_entries
    indexes.bloom_filters(0, 1, StreamKind.BLOOM_FILTER_UTF8)
    bloom = stripe.streams[1, StreamKind.BLOOM_FILTER_UTF8].length
    assert reader.counts.bytes_fetched == before + reader.stripes[0].footer_length + length + bloom


@pytest.mark.parametrize("more", [False, True])
def test_statistics_of_another_number_of_stripes_are_of_none(
    tmp_path: Path, more: bool, rng: np.random.Generator
) -> None:
    path = tmp_path / "x.orc"
    values = rng.integers(0, 1 << 60, 200_000)
    pa.orc.write_table(pa.table({"a": values}), path, stripe_size=1 << 18, batch_size=1024)
    with OrcReader(path) as reader:
        stripes = reader.tail.stripes
        assert len(stripes) > 1
        indexes = FileIndexes(reader)
        assert isinstance(indexes.stripe_statistics(0, 1), ColumnStatistics)
        indexes._tail = replace(reader.tail, stripes=(*stripes, stripes[-1]) if more else stripes[1:])
        assert indexes.stripe_statistics(0, 1) is None
