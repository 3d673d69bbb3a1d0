"""Random histories of transactional tables, here and in Spark; ``tests.acid.histories`` runs thousands."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.acid.checking import check_rows, create_indexes, run_history, table_of
from tests.acid.history import History
from tests.support import local_build
from tests.support.local_build import LocalConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 10


def test_histories(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    local_build.install(monkeypatch)
    for number in range(HISTORIES):
        run_history(tmp_path / str(number), int(rng.integers(1 << 40)))


def test_histories_in_spark(
    spark: SparkSession, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors leave out the same rows, whether they read many or the driver reads few."""
    from hindex.spark import scan as spark_scan

    local_build.install(monkeypatch)
    for number in range(3):
        seed = int(rng.integers(1 << 40))
        history = History(tmp_path / str(number), seed)
        while history.watermark < 6 or history.lacks_history(history.now):
            history.step()
        connection = LocalConnection()
        some = random.Random(seed)
        create_indexes(history, connection, some)
        monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 0 if number < 2 else 1_000_000)
        table = table_of(history, connection, history.now)
        check_rows(table, history.expected(history.now), lambda scan: scan.to_spark(spark).toArrow(), some)
