"""What the benchmarks share in measuring and in telling what they found."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path


def seconds(run: Callable[[], object]) -> float:
    """How long a run takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_turn(rounds: int, *runs: Callable[[], object]) -> list[list[float]]:
    """The milliseconds of each run, so many times, one after the other in every round.

    A machine that slows down slows down all that is measured in that round.
    """
    taken = [[round(seconds(run) * 1000, 4) for run in runs] for _ in range(rounds)]
    return [list(times) for times in zip(*taken, strict=True)]


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Round by round, the one time divided by the other."""
    return [a / b for a, b in zip(over, under, strict=True)]


def spread(values: Sequence[float], digits: int) -> str:
    """From the least to the greatest."""
    return f"{min(values):.{digits}f} - {max(values):.{digits}f}"


def machine(*packages: str) -> dict[str, object]:
    """What times depend on: processors, system, and versions of Python, hindex and some packages."""
    return {
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("hindex", "numpy", "pyarrow", *packages)},
    }


def finish(report: object, path: Path | None, different: Sequence[str], other: str) -> int:
    """Write a report where it is asked for, and tell of results that are not the same.

    :param different: what differs.
    :param other: from whose.
    :returns: the exit code.
    """
    if path is not None:
        path.write_text(json.dumps(report, indent=2) + "\n")
    if different:
        print(f"rows differ from {other}'s: {'; '.join(different)}", file=sys.stderr)
    return 1 if different else 0
