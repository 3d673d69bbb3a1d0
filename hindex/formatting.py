"""Format counts, sizes and percentages."""

from __future__ import annotations

_UNITS = ("kB", "MB", "GB", "TB")


def plural(count: int, noun: str) -> str:
    """Return a noun in the number of a count: ``file`` or ``files``, ``query`` or ``queries``."""
    if count == 1:
        return noun
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("x") else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Format a count of things: ``1 file``, ``2,000 files``."""
    return f"{count:,} {plural(count, noun)}"


def megabytes(size: int) -> str:
    """Format a size in bytes, kB, MB, GB or TB."""
    if size < 1000:
        return counted(size, "byte")
    power = min(len(_UNITS), (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:,.1f} {_UNITS[power - 1]}"


def percent_down(part: int, whole: int) -> float:
    """Return the percentage with one decimal, rounded down: 100 only for the whole."""
    return 100.0 if part >= whole else part * 1000 // whole / 10
