"""Make random histories of transactional tables, and compare what hindex reads with what the histories say.

    python -m tests.acid.histories --cases 2000 --seed 1
    python -m tests.acid.histories --cases 100 --seed 1 --spark

With ``--spark`` executors read the tables, however little there is to read.
Case ``n`` of a seed is the history of the seed ``seed * 1000000 + n``; ``--only`` runs one of these again, and keeps
its files in ``build/acid``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.acid.checking import run_history, run_history_in_spark
from tests.support.local_build import install

_REPORT_EVERY = 20.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the seed of one history")
    parser.add_argument("--spark", action="store_true", help="read in Spark")
    options = parser.parse_args()
    install()
    run = _in_spark() if options.spark else run_history
    if options.only is not None:
        path = Path("build/acid") / str(options.only)
        shutil.rmtree(path, ignore_errors=True)
        print(run(path / "t", options.only), f"in {path}")
        return 0
    started = reported = time.monotonic()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.cases):
            seed = options.seed * 1_000_000 + number
            root = Path(folder) / str(number)
            try:
                run(root / "t", seed)
            except AssertionError as error:
                failures += 1
                print(f"FAILED: {error}", flush=True)
            shutil.rmtree(root, ignore_errors=True)
            if time.monotonic() - reported > _REPORT_EVERY:
                reported = time.monotonic()
                print(f"{number + 1} histories in {reported - started:.0f} s, {failures} failed", flush=True)
    print(f"seed {options.seed}: {options.cases} histories, {failures} failed")
    return 1 if failures else 0


def _in_spark() -> Callable[[Path, int], str]:
    from hindex.spark import scan
    from hindex.spark.session import local_session

    scan.MAX_LOCAL_VALUES = 0
    spark = local_session("local[1]")
    return partial(run_history_in_spark, spark=spark)


if __name__ == "__main__":
    sys.exit(main())
