"""The options that the benchmarks share."""

from __future__ import annotations

import argparse
from pathlib import Path

#: Git-ignored; what an earlier run made there is used again.
DEFAULT_DIRECTORY = Path("build", "bench")


def bench_parser(
    name: str, description: str, *, measured: str, rounds: int = 7, warmups: int = 1
) -> argparse.ArgumentParser:
    """A parser of ``--scale --dir --table --rounds --warmups --json``.

    :param name: of the module in ``tests.bench``.
    :param measured: what a round is, such as "measured pairs a predicate".
    """
    parser = argparse.ArgumentParser(prog=f"python -m tests.bench.{name}", description=description)
    parser.add_argument("--scale", type=float, default=2, help="TPC-H scale factor (default 2)")
    parser.add_argument("--dir", type=Path, default=DEFAULT_DIRECTORY, help="where the data is made and kept")
    parser.add_argument("--table", type=Path, help="a directory with lineitem as ORC, instead of making one")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"{measured} (default {rounds})")
    parser.add_argument("--warmups", type=int, default=warmups, help=f"before them (default {warmups})")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    return parser
