"""Make missing tables in a separate process, so that this one starts no Java."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench.data import Dataset, is_made, make


def ensure_table(dataset: Dataset, data: Path) -> Path:
    """Return the directory of a table's ORC files; make them if they are missing."""
    if not is_made(dataset, data):
        print(f"making {dataset.name}", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(make, dataset, data).result()
    return dataset.orc(data)
