"""MINMAX from ORC's own statistics: the same extents as the values have, and nothing read where that is sure."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from hindex.api.table import Table
from hindex.build.task import RowGroupStatistics
from hindex.domain import Domain
from hindex.index.column_stats import ColumnStats, array_stats
from hindex.index.reader_cache import open_index_file
from hindex.orc import OrcReader
from tests.fuzz.parts import put_together, take_apart
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.values import TYPES, Column, random_column, random_pool
from tests.support.writers import write_pyarrow, write_pyorc, write_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, STRIDE = 1000, 100


def truth(reader: OrcReader, stripe: int, name: str) -> list[ColumnStats]:
    data_type = reader.column_type(name)
    array = reader.read_stripe(stripe, [name]).column(0)
    return [array_stats(data_type, array.slice(at, STRIDE)) for at in range(0, len(array), STRIDE)]


@pytest.mark.parametrize("write", [write_pyarrow, write_pyorc], ids=["pyarrow", "pyorc"])
@pytest.mark.parametrize("data_type", TYPES)
def test_statistics_are_those_of_the_values(tmp_path: Path, write: Any, data_type: str) -> None:
    seed = 77
    rng = np.random.default_rng(seed)
    column = Column("c", data_type, random_pool(rng, data_type))
    values = random_column(rng, column, ROWS)
    file = tmp_path / "x.orc"
    write(file, pa.table({"c": values}), "zlib", stride=STRIDE)
    from_statistics = 0
    with OrcReader(file) as reader:
        statistics = RowGroupStatistics(reader)
        for stripe in range(len(reader.stripes)):
            answer = statistics.stats(stripe, reader.column_type("c"))
            if answer is None:
                continue
            from_statistics += 1
            for extent, true in zip(answer, truth(reader, stripe, "c"), strict=True):
                assert (extent.rows, extent.null_count) == (true.rows, true.null_count), (seed, data_type)
                if not extent.max_is_prefix:
                    assert extent == true, (seed, data_type)
    if data_type in ("int", "bigint", "date") and write is write_pyorc:
        assert from_statistics


def test_no_data_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    columns = {
        "i": pa.array([i // 7 if i % 11 else None for i in range(ROWS)], pa.int32()),
        "s": pa.array([f"v{i:05}" for i in range(ROWS)]),
        "f": pa.array([float(i) for i in range(ROWS)]),
        "n": pa.array([math.nan if i == 500 else float(i) for i in range(ROWS)]),
    }
    write_pyarrow(path / "x.orc", pa.table(columns), "none", stride=STRIDE)
    local_build.install(monkeypatch)
    table = LocalConnection().table(str(path))
    read: list[tuple[str, ...]] = []
    real = OrcReader.read_stripe

    def read_stripe(self: OrcReader, stripe: int, names: Any = None, *given: Any) -> pa.RecordBatch:
        read.append(tuple(names))
        return real(self, stripe, names, *given)

    monkeypatch.setattr(OrcReader, "read_stripe", read_stripe)
    for name in columns:
        table.create_index(name, name, "minmax")
    # a NaN among the values: statistics do not tell it, so the column is read
    assert {names for names in read if names} == {("n",)}
    monkeypatch.undo()
    for name in columns:
        reader = _reader(table, path, name)
        with OrcReader(path / "x.orc") as orc:
            for stripe in range(len(orc.stripes)):
                for start, true in enumerate(truth(orc, stripe, name)):
                    answer = reader.lookup(stripe, Domain.between(true.min_key, true.max_key))
                    assert start * STRIDE in answer.upper
    for where, keep in [
        ("i = 70", lambda row: row // 7 == 70 and row % 11 > 0),
        ("s = 'v00490'", lambda row: row == 490),
        ("f > 989", lambda row: row > 989),
        ("n > 1e10", lambda row: row == 500),
        ("n = CAST('NaN' AS DOUBLE)", lambda row: row == 500),
    ]:
        assert table.scan(where).count() == len([row for row in range(ROWS) if keep(row)]), where  # type: ignore[no-untyped-call]


def test_decimals_of_more_digits_than_their_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers round the values, so that a least or greatest one of the file is no value of the column."""
    written = [1254, 1255, -1255, 1244]
    path = tmp_path / "t" / "x.orc"
    values = [Decimal(value).scaleb(-3) for value in written for _ in range(STRIDE)]
    write_pyarrow(path, pa.table({"m": pa.array(values, pa.decimal128(9, 3))}), "none", stride=STRIDE)
    parts = take_apart(path.read_bytes())
    parts.footer.types[1].scale = 2
    path.write_bytes(put_together(parts))
    local_build.install(monkeypatch)
    table = LocalConnection().table(str(path.parent))
    table.create_index("m", "m", "minmax")
    read = [value.quantize(Decimal("0.01"), ROUND_HALF_UP) for value in values]
    assert table.scan().to_arrow()["m"].to_pylist() == read
    for value in (*sorted(set(read)), Decimal("1.27")):
        assert table.scan(f"m = {value}").count() == read.count(value), value
        assert table.scan(f"m >= {value}").count() == sum(one >= value for one in read), value


def test_strings_that_the_writer_cut(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's writer keeps 1024 bytes of a least and greatest string, cut at a character."""
    most = "y" * 1023
    groups = [most + "a", most + "z" * 77, "é" * 900, most + "b", "y" * 2000]
    values = pa.array([text for text in groups for _ in range(ROWS)])
    ids = pa.array(range(len(values)), pa.int64())
    write_spark(spark, tmp_path / "t" / "x.orc", pa.table({"id": ids, "s": values}), "none", stride=ROWS)
    local_build.install(monkeypatch)
    table = LocalConnection().table(str(tmp_path / "t"))
    monkeypatch.setattr(OrcReader, "read_stripe", _unexpected)
    table.create_index("s", "s", "minmax")
    monkeypatch.undo()
    reader = _reader(table, tmp_path / "t", "s")
    for number, text in enumerate(groups):
        answer = reader.lookup(0, Domain.points([text.encode()]))
        assert number * ROWS in answer.upper, number
        assert table.scan(f"s = '{text}'").count() == ROWS, number
    explained = table.scan(f"s = '{groups[2]}'").explain()
    assert (explained.notes, explained.rows and explained.rows.kept) == ((), ROWS)


def _unexpected(self: OrcReader, stripe: int, names: Any = None, rows: Any = None) -> Any:
    assert not names, "the file's statistics tell all that is needed"
    return _READ_STRIPE(self, stripe, names, rows)


_READ_STRIPE = OrcReader.read_stripe


def _reader(table: Table, path: Path, name: str) -> Any:
    snapshot = table.snapshot()
    (view,) = snapshot.files
    assert view.entry is not None
    file = view.entry.index_file(snapshot.manifest.index(name).id)
    assert file is not None
    return open_index_file(snapshot.store.absolute(file.path), file.length, file.footer_checksum).reader
