"""A small table with indexes on its columns ``a`` and ``s``, for tests that change or damage it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.tables import IndexSpec, Table
from tests.support.small import ROWS, write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def indexed_tens(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Row i has id i and a = i % 10, in two files of a few stripes each; made once."""
    path = tmp_path_factory.mktemp("tens") / "table"
    write_rows(path / "one.orc", 0, [i % 10 for i in range(ROWS)])
    write_rows(path / "two.orc", ROWS, [i % 10 for i in range(ROWS, 2 * ROWS)])
    table = hindex.connect(spark=spark).table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return path


@pytest.fixture
def path(indexed_tens: Path, tmp_path: Path) -> Path:
    """A copy of the table: mtimes are kept, and its index files are open nowhere yet."""
    return Path(shutil.copytree(indexed_tens, tmp_path / "table"))


@pytest.fixture
def table(path: Path) -> Table:
    """The copy, by a connection without Spark."""
    return hindex.connect().table(str(path))
