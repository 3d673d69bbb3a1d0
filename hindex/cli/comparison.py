"""Compare readers: their rows, and their times in turn."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def seconds(run: Callable[[], object]) -> float:
    """Return the duration of a run."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def in_turn(
    rounds: int, *runs: Callable[[], object], advance: Callable[[], None] = lambda: None
) -> list[list[float]]:
    """Return the milliseconds of each run in each round.

    Runs take turns, and another one begins each round, so that a slow moment of the machine affects all of them.

    Args:
        advance: called after each run.
    """
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds):
        for position in range(len(runs)):
            index = (number + position) % len(runs)
            times[index].append(round(seconds(runs[index]) * 1000, 4))
            advance()
    return times


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """Divide the times of one run by those of another, round by round."""
    return [a / b for a, b in zip(over, under, strict=True)]


def same_rows(ours: pa.Table, theirs: pa.Table) -> bool:
    """Return True if two tables hold the same rows, each as often, in any order.

    NaN equals NaN, and -0.0 equals 0.0.
    """
    if ours.schema.names != theirs.schema.names or ours.num_rows != theirs.num_rows:
        return False
    if any(pa.types.is_nested(kind) for kind in ours.schema.types) or not ours.num_columns:
        first, second = (Counter(map(_plain, table.to_pylist())) for table in (ours, theirs))
        return first == second
    first, second = map(_bits, (ours, theirs.cast(ours.schema)))
    keys = [(name, "ascending") for name in first.schema.names]
    return bool(first.sort_by(keys).equals(second.sort_by(keys)))


def _bits(table: pa.Table) -> pa.Table:
    """Replace floating point columns by integers that are equal where the values are."""
    for at, kind in enumerate(table.schema.types):
        if pa.types.is_floating(kind):
            column = table.column(at)
            values = np.asarray(column.cast(pa.float64()).fill_null(0.0))
            whole = (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)
            array = pc.if_else(column.is_valid(), pa.array(whole), pa.scalar(None, pa.int64()))
            table = table.set_column(at, table.schema.names[at], array)
    return table


def _plain(value: object) -> str:
    """Serialize a nested value so that equal values give equal strings."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    return repr(value)
