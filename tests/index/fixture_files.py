"""Index files as a released version wrote them; ``python -m tests.index.fixture_files`` makes those of this version.

They are made once for each version of the format and then kept: never make the files of a released version again.
"""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from hindex.index.index_file import VERSION
from tests.index.support import FILE_TYPES, TYPES, build, to_array

DIRECTORY = Path(__file__).parent / "fixtures"
ROW_GROUP_ROWS = 4

#: Two stripes of every column type that has a fixture, the second one shorter.
COLUMNS: dict[str, list[list[Any]]] = {
    "bigint": [[5, None, 7, 5, 9, -(1 << 63), (1 << 63) - 1, None, None], [3, 3]],
    "double": [[0.0, -0.0, float("nan"), 1.5, None, float("-inf"), 2.5, 2.5, 2.5], [None, None]],
    "string": [["b", None, "", "b", "z" * 1100, "é", "a\0", "b", "aa"], ["q"]],
    "decimal_38_4": [[decimal.Decimal("1.5"), None, decimal.Decimal(-(10**33)), decimal.Decimal(0)], []],
}


def arrays(name: str) -> list[pa.Array]:
    return [to_array(TYPES[name], column) for column in COLUMNS[name]]


def make(using: str, name: str) -> bytes:
    metadata = {"data_file": "part-0.orc", "length": "123"}
    return build(TYPES[name], arrays(name), metadata, using=using, row_group_rows=ROW_GROUP_ROWS)


def main() -> None:
    for using in FILE_TYPES:
        for name in COLUMNS:
            path = DIRECTORY / f"v{VERSION}" / f"{using.lower()}-{name}.hidx"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(make(using, name))


if __name__ == "__main__":
    main()
