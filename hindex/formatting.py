"""Amounts for people: counted things, sizes, percentages."""

from __future__ import annotations

_UNITS = ("kB", "MB", "GB", "TB")


def plural(count: int, noun: str) -> str:
    """``file`` or ``files``, ``index`` or ``indexes``."""
    if count == 1:
        return noun
    return f"{noun}es" if noun.endswith("x") else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """``1 file``, ``2,000 files``."""
    return f"{count:,} {plural(count, noun)}"


def megabytes(size: int) -> str:
    """A size for people: bytes below a kilobyte, then with one decimal."""
    if size < 1000:
        return counted(size, "byte")
    power = min(len(_UNITS), (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:,.1f} {_UNITS[power - 1]}"


def percent_down(part: int, whole: int) -> float:
    """The percentage with one decimal, rounded down: 100 only where nothing is missing."""
    return 100.0 if part >= whole else part * 1000 // whole / 10
