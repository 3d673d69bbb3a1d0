"""Random histories of transactional tables, here and in Spark; ``tests.acid.histories`` runs thousands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.acid.checking import run_history, run_history_in_spark
from tests.support import local_build

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HISTORIES = 10


@pytest.mark.slow
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
        monkeypatch.setattr(spark_scan, "MAX_LOCAL_VALUES", 0 if number < 2 else 1_000_000)
        run_history_in_spark(tmp_path / str(number), int(rng.integers(1 << 40)), spark)
