"""A table of two files whose counts are told by plain Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from tests.support.local_build import LocalConnection
from tests.support.small import write_rows

ROWS = 1200
A: list[int | None] = [None if i % 7 == 0 else i % 50 for i in range(2 * ROWS)]
S: list[str | None] = [None if i % 11 == 0 else f"s{i % 3}" for i in range(2 * ROWS)]
Row = tuple[int, int | None, str | None]
TABLE: list[Row] = list(zip(range(2 * ROWS), A, S, strict=True))


def indexed_table(connection: LocalConnection, path: Path) -> Table:
    """Two files of a dozen stripes; ``a`` and ``s`` have a BITMAP, ``id`` has none."""
    for number in range(2):
        part = slice(number * ROWS, (number + 1) * ROWS)
        write_rows(path / f"{number}.orc", part.start, A[part], S[part])
    table = connection.table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return table


def grouped(values: list[Any]) -> dict[Any, int]:
    """Count each value, in the order of results."""
    counted = Counter(values)
    nulls = {None: counted.pop(None)} if None in counted else {}
    return nulls | dict(sorted(counted.items()))


def found_groups(scan: Scan, column: str) -> dict[Any, int]:
    counted = scan.value_counts(column)
    return dict(zip(counted.column(0).to_pylist(), counted.column("count").to_pylist(), strict=True))
