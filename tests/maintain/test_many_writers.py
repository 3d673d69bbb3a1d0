"""Writers that race, and builders that are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hindex.store.store import Store
from tests.support.cases import cases
from tests.support.local_build import LocalConnection
from tests.support.small import write_columns

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: ``HINDEX_CASES=200`` kills two hundred builders, and lets sixteen processes race for fifty rounds.
CASES = cases(6, 40)


def run(program: str, *arguments: object) -> str:
    command = [sys.executable, str(HERE / program), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_racing_builders(tmp_path: Path) -> None:
    processes, rounds = (16, 50) if CASES >= 200 else (4, 3)
    columns = {f"c{n}": pa.array([(i + n) % 10 for i in range(100)], pa.int32()) for n in range(processes)}
    path = tmp_path / "table"
    for name in ("one", "two"):
        write_columns(path / f"{name}.orc", columns)
    run("racing_builders.py", path, processes, rounds)
    table = LocalConnection().table(str(path))
    assert {index.name: index.status for index in table.indexes()} == {
        f"i{number}": "fresh" for number in range(1, processes, 2)
    }
    table.vacuum(retain_hours=0)
    assert Store.for_table(table.uri).garbage() == ()
    assert [result.problems for result in table.check_indexes(verify=True)] == [()] * (processes // 2)


def test_killed_builders(path: Path, rng: np.random.Generator) -> None:
    report = json.loads(run("killed_builders.py", path, CASES, int(rng.integers(2**32))))
    assert report["problems"] == []
    # the kills did fall between the writes
    assert report["leftovers"] > 0
