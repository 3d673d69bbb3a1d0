"""Streams that are pulled by an engine's own threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("where", [None, "n < 500"])
def test_each_batch_may_be_pulled_by_another_thread(tmp_path: Path, where: str | None) -> None:
    """Of threads that Python does not know, in a process of its own, which ends where one leaves what it may not."""
    numbers = np.random.default_rng(6).permutation(20_000)
    table = pa.table({"n": numbers, "text": [f"text {number}" for number in numbers]})
    pyarrow.orc.write_table(table, tmp_path / "t.orc", compression="zstd", stripe_size=50_000, batch_size=500)
    code = f"""
import hindex
from tests.support.native import on_native_thread
scan = hindex.connect().table({str(tmp_path)!r}).scan({where!r}, ["n", "text"])
rows = 0
for _ in range(10):
    stream, batch = scan.to_reader(), 1
    while batch:
        batch = on_native_thread(lambda: next(stream, None))
        rows += batch.num_rows if batch else 0
print(rows)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT, timeout=300
    )
    expected = 10 * (int((numbers < 500).sum()) if where else len(numbers))
    assert (ran.returncode, ran.stdout.strip()) == (0, str(expected)), ran.stderr
