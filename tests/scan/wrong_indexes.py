"""Tables whose index files are gone, damaged, or those of other data; and what is asked of them."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from hindex.api.scan import Scan
from hindex.api.table import IndexSpec, Table
from hindex.store.store import Store
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_columns, write_rows

ROWS = 1000


def indexed_table(connection: LocalConnection, path: Path) -> Table:
    """Two files of some stripes, a = i % 10 in both; ``a`` and ``s`` are indexed, ``id`` is not."""
    for number in range(2):
        write_rows(path / f"{number}.orc", number * ROWS, [i % 10 for i in range(ROWS)])
    table = connection.table(str(path))
    table.create_indexes([IndexSpec("by_a", "a"), IndexSpec("by_s", "s")])
    return table


def constant_table(connection: LocalConnection, path: Path) -> Table:
    """``k`` is 7 in every row, so that the file's own statistics tell all of it; a = i % 10. Only ``k`` is indexed."""
    columns = {"k": pa.array([7] * ROWS), "a": pa.array([i % 10 for i in range(ROWS)])}
    write_columns(path / "0.orc", columns)
    table = connection.table(str(path))
    table.create_index("by_k", "k")
    return table


#: Predicates of that table, and how many rows they keep.
KNOWN = {"k = 7": ROWS, "a = 3 AND k = 7": ROWS // 10, "a = 3 OR k = 8": ROWS // 10, "k = 8": 0}


#: Questions of ``a`` that indexes answer from their pages, or of which they know the ends, with the answers where
#: a = i % 10 in two files of 300 rows.
TOLD: dict[str, tuple[Callable[[Scan], object], object]] = {
    "groups": (lambda scan: scan.value_counts("a").num_rows, 10),
    "distinct": (lambda scan: scan.distinct("a").to_pylist(), list(range(10))),
    "min": (lambda scan: scan.min("a"), 0),
    "max": (lambda scan: scan.max("a"), 9),
    "count": (lambda scan: scan.count("a"), 600),
    "order": (lambda scan: ids(scan.narrowed(None, ["id", "a"], 5).order_by("a")), [0, 10, 20, 30, 40]),
}


def remove_index_files(table: Table) -> None:
    for file in Path(table.uri).rglob("*.hidx"):
        file.unlink()


def damage_pages(table: Table) -> None:
    """Damage all index files where only reading a page shows it."""
    for file in Path(table.uri).rglob("*.hidx"):
        data = bytearray(file.read_bytes())
        data[10] ^= 0x55
        file.write_bytes(data)


def change_a_file(table: Table) -> None:
    write_rows(Path(table.uri) / "0.orc", 0, [1, 2, 3])


def exchange(table: Table, other: Path, column: str, *, extents: bool = True) -> None:
    """Give one data file the index file of another one's content, recorded as its own.

    Args:
        extents: whether the manifest says the same.
    """
    store = Store.for_table(table.uri)
    manifest = store.load()
    assert manifest is not None
    index = next(item for item in manifest.indexes if item.column == column)
    wrong = LocalConnection().table(str(other))
    wrong.create_index("wrong", column.split(", "), index.type)
    theirs = Store.for_table(wrong.uri)
    entry = theirs.load().files[0].index_files[0]  # type: ignore[union-attr]
    entry = entry if extents else dataclasses.replace(entry, stripe_stats=())
    name = f"{store.index_directory(index.id)}/{'0' * 32}.hidx"
    shutil.copy(theirs.absolute(entry.path), store.absolute(name))

    def change(old: Any) -> Any:
        files = []
        for file in old.files:
            own = tuple(
                dataclasses.replace(entry, path=name, index_id=index.id)
                if item.index_id == index.id and file.path == "0.orc"
                else item
                for item in file.index_files
            )
            files.append(dataclasses.replace(file, index_files=own))
        return dataclasses.replace(old, files=files)

    store.commit(change)
