"""Make random histories of transactional tables, and compare what hindex reads with what the histories say.

    python -m tests.acid.histories --cases 2000 --seed 1

Case ``n`` of a seed is the history of the seed ``seed * 1000000 + n``; ``--only`` runs one of these again, and keeps
its files in ``build/acid``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.acid.checking import run_history
from tests.support.local_build import install

_REPORT_EVERY = 20.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the seed of one history")
    options = parser.parse_args()
    install()
    if options.only is not None:
        kept = Path("build/acid") / str(options.only)
        shutil.rmtree(kept, ignore_errors=True)
        print(run_history(kept / "t", options.only), f"in {kept}")
        return 0
    started = told = time.monotonic()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.cases):
            seed = options.seed * 1_000_000 + number
            root = Path(folder) / str(number)
            try:
                run_history(root / "t", seed)
            except AssertionError as error:
                failures += 1
                print(f"FAILED: {error}", flush=True)
            shutil.rmtree(root, ignore_errors=True)
            if time.monotonic() - told > _REPORT_EVERY:
                told = time.monotonic()
                print(f"{number + 1} histories in {told - started:.0f} s, {failures} failed", flush=True)
    print(f"seed {options.seed}: {options.cases} histories, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
