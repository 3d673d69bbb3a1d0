"""Measure runs within one process, in turn."""

from __future__ import annotations

from collections.abc import Sequence

from hindex.cli.comparison import in_turn, ratios, seconds

__all__ = ["in_turn", "ratios", "seconds", "spread"]


def spread(values: Sequence[float], digits: int) -> str:
    """Format the range from the least to the greatest value."""
    return f"{min(values):.{digits}f} - {max(values):.{digits}f}"
