"""The demo end to end, on a lineitem of a few thousand rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hindex.cli.demo import PREDICATES, same_rows

TABLE = pa.table({"a": [1, 2, 2, None], "b": ["x", None, "y", "z"]})


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (TABLE, True),
        (TABLE.take([3, 1, 0, 2]), True),
        (TABLE.slice(1), False),
        (TABLE.take([0, 1, 1, 3]), False),
        (TABLE.rename_columns(["a", "c"]), False),
        (TABLE.cast(pa.schema([("a", pa.int64()), ("b", pa.large_string())])), True),
    ],
)
def test_same_rows(other: pa.Table, same: bool) -> None:
    assert same_rows(TABLE, other) is same


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    conf = ["spark.driver.memory=1g", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    options = [*(f"--conf={setting}" for setting in conf), "demo", "--scale", "0.001", "--dir", str(tmp_path)]
    command = [sys.executable, "-m", "hindex.cli.main", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for predicate in PREDICATES:
        assert predicate in ran.stdout
    assert f"all {len(PREDICATES)} queries" in ran.stdout
    assert "Traceback" not in ran.stderr
