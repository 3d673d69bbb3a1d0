"""Small transactional tables, and what hindex reads of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import hindex
from hindex.api.table import Table
from tests.acid.writing import Key, bucket_property, write_acid

B0 = bucket_property(0)
MOST = 9223372036854775807


def table_of(path: Path, valid: str = "") -> Table:
    return hindex.connect().table(str(path), valid_write_ids=valid)


def ids_of(path: Path, valid: str = "", where: str | None = None) -> list[int]:
    """The ids that a scan gives; its count must say the same."""
    scan = table_of(path, valid).scan(where=where, columns=["id"])
    ids: list[int] = sorted(scan.to_arrow()["id"].to_pylist())
    assert scan.count() == len(ids)
    return ids


def insert(path: Path, write_id: int, ids: Iterable[int], prop: int = B0, current: int | None = None) -> None:
    """Rows of these ids, with row ids from 0."""
    current = write_id if current is None else current
    write_acid(path, [((write_id, prop, at), current, (i, i % 3, "x")) for at, i in enumerate(ids)])


def delete(path: Path, keys: Iterable[Key], current: int) -> None:
    write_acid(path, [(key, current, None) for key in keys])


def keys_of(path: Path) -> dict[int, Key]:
    """The key of each id."""
    keys = table_of(path).scan(columns=["id", "row__id"]).to_arrow().to_pylist()
    return {row["id"]: tuple(row["row__id"].values()) for row in keys}
