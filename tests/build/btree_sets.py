"""The content of the files of BTREE indexes, compared with plain Python."""

from __future__ import annotations

from typing import Any

from hindex.api.table import Table
from hindex.index.reader_cache import open_btree_file
from hindex.store.manifest import SharedIndexEntry
from hindex.store.store import Store
from tests.support.small import ids


def values(first: int, count: int) -> list[int]:
    return [i % 700 for i in range(first, first + count)]


def sets(table: Table) -> tuple[SharedIndexEntry, ...]:
    return table.snapshot().manifest.shared_indexes()


def garbage(table: Table) -> list[str]:
    return [item.path for item in Store.for_table(table.uri).garbage()]


def contents(table: Table, index_set: SharedIndexEntry) -> dict[Any, set[tuple[str, int]]]:
    """Everything that a set's files say: the row groups of each key, and of None."""
    store = Store.for_table(table.uri)
    places_by_key: dict[Any, set[tuple[str, int]]] = {}
    for file in index_set.files:
        reader = open_btree_file(store.absolute(file.path), file.length, file.footer_checksum)
        places = [(item.path, n) for item in reader.all_files() for n in range(item.num_groups)]
        for number in reader.nulls():
            places_by_key.setdefault(None, set()).add(places[number])
        for leaf in reader.all_leaves():
            for number, location in zip(*(part.tolist() for part in reader.entries(leaf)), strict=True):
                places_by_key.setdefault(leaf.keys[number], set()).add(places[location])
    return places_by_key


def groups(name: str, column: list[Any]) -> dict[Any, set[tuple[str, int]]]:
    """The same of one data file, by plain Python; its row groups have 100 rows."""
    places_by_key: dict[Any, set[tuple[str, int]]] = {}
    for row, value in enumerate(column):
        places_by_key.setdefault(value, set()).add((name, row // 100))
    return places_by_key


def union(*some: dict[Any, set[tuple[str, int]]]) -> dict[Any, set[tuple[str, int]]]:
    places_by_key: dict[Any, set[tuple[str, int]]] = {}
    for item in some:
        for key, places in item.items():
            places_by_key.setdefault(key, set()).update(places)
    return places_by_key


def check_one_set(table: Table, data: dict[str, list[Any]]) -> None:
    (index_set,) = sets(table)
    assert index_set.num_files == len(data)
    assert contents(table, index_set) == union(*(groups(name, column) for name, column in data.items()))
    assert len(ids(table.scan("a = 7"))) == sum(column.count(7) for column in data.values())
    assert table.scan("a = 7").explain().notes == ()
    assert [item.problems for item in table.check_indexes(verify=True)] == [()]
