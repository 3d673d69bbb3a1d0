"""Measuring runs within one process, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


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
