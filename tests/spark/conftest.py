"""Indexed tables in Spark's catalog, and a fixture that accelerates queries however many rows match."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
import hindex.api.table
from hindex.queries import selectivity
from hindex.queries.selectivity import DECLINED
from tests.support.queries import ROWS, column
from tests.support.small import write_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[hindex.Connection]:
    """Create tables ``qt`` and ``qu`` with indexes on most columns, and ``qv`` without; all have nulls."""
    rng = random.Random(11)
    root = tmp_path_factory.mktemp("queries")
    data = {
        "qt": {
            "id": pa.array(range(ROWS), pa.int64()),
            "a": pa.array(column(rng, 20, 0.2), pa.int32()),
            "b": pa.array(column(rng, 5, 0.3), pa.int32()),
            "s": pa.array([None if n is None else f"s{n}" for n in column(rng, 9, 0.2)], pa.string()),
        },
        "qu": {
            "k": pa.array(column(rng, 20, 0.1), pa.int32()),
            "x": pa.array(column(rng, 4, 0.3), pa.int64()),
            "b": pa.array(column(rng, 5, 0.3), pa.int32()),
        },
        "qv": {
            "a": pa.array(column(rng, 20, 0.1), pa.int32()),
            "z": pa.array(column(rng, 3, 0.1), pa.int32()),
        },
    }
    hx = hindex.connect(spark=spark)
    for name, columns in data.items():
        half = {key: array.slice(0, ROWS // 2) for key, array in columns.items()}
        rest = {key: array.slice(ROWS // 2) for key, array in columns.items()}
        write_columns(root / name / "1.orc", half)
        write_columns(root / name / "2.orc", rest)
        spark.sql(f"CREATE TABLE {name} USING orc LOCATION '{root / name}'")
    for name in ("qt", "qu"):
        indexed = [c for c in data[name] if c not in ("id", "k")]
        hx.table(name).create_indexes([hindex.IndexSpec(f"i_{c}", c) for c in indexed])
    yield hx
    for name in data:
        spark.sql(f"DROP TABLE {name}")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read tables through their indexes however many rows match."""
    monkeypatch.setattr(selectivity, "MAX_SHARE", 1.0)
    monkeypatch.setattr(selectivity, "MIN_VALUES", 0)
    DECLINED.clear()


@pytest.fixture
def wide(tables: hindex.Connection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Write a table of two files: 90 % of the rows match ``a = 3``, too many, and 10 % match ``a = 5``."""
    monkeypatch.setattr(selectivity, "MAX_SHARE", 0.1)
    for number in range(2):
        columns = {"id": pa.array([7] * 10), "b": pa.array([1] * 10), "a": pa.array([3] * 9 + [5])}
        write_columns(tmp_path / "wide" / f"{number}.orc", columns)
    tables.table(str(tmp_path / "wide")).create_index("i", "a")
    return tmp_path / "wide"
