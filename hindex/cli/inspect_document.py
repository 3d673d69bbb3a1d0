"""The document of an inspection, and its columns as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hindex.api.value_formatting import printable

#: The content of a file, as values for JSON.
Document = dict[str, Any]


def columns(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> list[str]:
    """Return lines of left-aligned columns; control characters are escaped."""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
