"""Measure the cost of deletes: scan a transactional table with deleted rows, and the same table without.

    python -m tests.bench.acid --rows 4000000 --deleted 0.01

They are scanned in turn, so that a busy machine is as busy for one as for the other. The result is the CPU time of
the process, the least of several rounds: with deletes that are known from the scan before, and with deletes that are
not, for which row ids and delete deltas are read.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc

import hindex
from hindex.orc.acid.deletes import KEYS, RANGES
from hindex.orc.acid.live_rows import CONSECUTIVE, DELETED

_BUCKET = 1 << 29
_COLUMNS = ("id", "amount", "day", "mode", "comment")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--deleted", type=float, default=0.01, help="part of the rows")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, whole = Path(folder) / "deletes", Path(folder) / "whole"
        _write_table(root, options.rows, options.seed)
        whole.mkdir()
        (whole / "base_0000001").symlink_to(root / "base_0000001")
        deleted = _write_deletes(root, options.rows, options.deleted, options.seed)
        print(f"{options.rows:,} rows, {deleted:,} deleted, seed {options.seed}")
        for columns in (None, ["id", "amount", "day"], ["comment"]):
            _measure(whole, root, columns, options.rounds)
    return 0


def _measure(whole: Path, root: Path, columns: list[str] | None, rounds: int) -> None:
    connection = hindex.connect()
    tables = [connection.table(str(path)) for path in (whole, root, root)]
    times: list[list[float]] = [[], [], []]
    for _ in range(rounds + 1):
        for table, cpu_seconds in zip(tables, times, strict=True):
            if cpu_seconds is times[1]:
                for cache in (RANGES, KEYS, DELETED, CONSECUTIVE):
                    cache.clear()
            start = time.process_time()
            for _ in table.scan(columns=columns).to_batches():
                pass
            cpu_seconds.append(time.process_time() - start)
    without, first, cached = (min(cpu_seconds[1:]) for cpu_seconds in times)
    shown = "all columns" if columns is None else ", ".join(columns)
    print(
        f"{shown}: {1000 * without:.0f} ms without deletes, {1000 * cached:.0f} ms with, ratio {cached / without:.2f}; "
        f"the first time {1000 * first:.0f} ms, {first / without:.2f}"
    )


def _write_table(root: Path, rows: int, seed: int) -> None:
    """Write a base of four files, as a major compaction leaves it."""
    rng = np.random.default_rng(seed)
    directory = root / "base_0000001"
    directory.mkdir(parents=True)
    (directory / "_orc_acid_version").write_text("2")
    words = np.array(["furiously", "quick", "deposits", "sleep", "among", "pending", "ideas", "carefully"])
    per_file = rows // 4
    for bucket in range(4):
        row = pa.table(
            {
                "id": pa.array(np.arange(per_file) + bucket * per_file),
                "amount": pa.array(rng.integers(100, 10_000_000, per_file)),
                "day": pa.array(rng.integers(8000, 11_000, per_file).astype(np.int32)).cast(pa.date32()),
                "mode": pa.array(np.array(["AIR", "MAIL", "SHIP", "RAIL"])[rng.integers(0, 4, per_file)]),
                "comment": pa.array([" ".join(some) for some in words[rng.integers(0, 8, (per_file, 4))]]),
            }
        )
        keys = _keys(0, bucket, np.arange(per_file), 1)
        _write(directory / f"bucket_{bucket:05d}", keys, row.to_struct_array().combine_chunks())


def _write_deletes(root: Path, rows: int, part: float, seed: int) -> int:
    rng = np.random.default_rng(seed + 1)
    directory = root / "delete_delta_0000002_0000002_0000"
    directory.mkdir()
    (directory / "_orc_acid_version").write_text("2")
    per_file = rows // 4
    count = 0
    of = pa.struct([("id", pa.int64())])
    for bucket in range(4):
        gone = np.sort(rng.choice(per_file, round(per_file * part), replace=False))
        _write(directory / f"bucket_{bucket:05d}", _keys(2, bucket, gone, 2), pa.nulls(len(gone), of))
        count += len(gone)
    return count


def _keys(operation: int, bucket: int, row_ids: np.ndarray, current: int) -> dict[str, pa.Array]:
    count = len(row_ids)
    return {
        "operation": pa.array(np.full(count, operation, np.int32)),
        "originalTransaction": pa.array(np.full(count, 1, np.int64)),
        "bucket": pa.array(np.full(count, _BUCKET | bucket << 16, np.int32)),
        "rowId": pa.array(row_ids.astype(np.int64)),
        "currentTransaction": pa.array(np.full(count, current, np.int64)),
    }


def _write(path: Path, keys: dict[str, pa.Array], row: pa.Array) -> None:
    table = pa.table({**keys, "row": row})
    pyarrow.orc.write_table(table, os.fspath(path), compression="zstd", stripe_size=32 << 20)


if __name__ == "__main__":
    sys.exit(main())
