"""Making a table where it is missing, in a process of its own: this one keeps no Java."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.bench.data import Dataset, is_made, make


def made(dataset: Dataset, data: Path) -> Path:
    """The directory of a table's ORC files, made if it is not there."""
    if not is_made(dataset, data):
        print(f"making {dataset.name}", file=sys.stderr, flush=True)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(make, dataset, data).result()
    return dataset.orc(data)
