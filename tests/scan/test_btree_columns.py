"""BTREE indexes of partitions, of names that became other columns, and of fields within structs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hindex.index.index_file import IndexFileReader
from hindex.index.page_cache import shared_cache
from tests.support.local_build import LocalConnection
from tests.support.small import ids, write_columns, write_rows

pytestmark = pytest.mark.usefixtures("here")


def test_each_partition_has_a_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    for number, part in enumerate(("day=1/region=EU", "day=1/region=US", "day=2/region=EU")):
        write_rows(path / part / "x.orc", number * 1000, [number * 10 + i % 7 for i in range(500)])
        write_rows(path / part / "y.orc", number * 1000 + 500, [number * 10 + 7] * 5)
    write_rows(path / "day=2" / "region=__HIVE_DEFAULT_PARTITION__" / "x.orc", 9000, [99])
    table = LocalConnection().table(str(path))
    table.create_index("by_a", "a", "btree")
    entries = table.snapshot().manifest.shared_indexes()
    assert [(item.partition, item.num_files, len(item.files)) for item in entries] == [
        ("day=1/region=EU", 2, 1),
        ("day=1/region=US", 2, 1),
        ("day=2/region=EU", 2, 1),
        ("day=2/region=__HIVE_DEFAULT_PARTITION__", 1, 1),
    ]
    opened: list[str] = []
    real = IndexFileReader.__init__

    def counting(self: IndexFileReader, source: Any, *arguments: Any) -> None:
        opened.append(Path(source.path).name)
        real(self, source, *arguments)

    monkeypatch.setattr(IndexFileReader, "__init__", counting)
    own = {item.partition: Path(item.files[0].path).name for item in entries}
    scan = table.scan("a = 17 AND region = 'US'")
    assert scan.to_arrow().column("id").to_pylist() == list(range(1500, 1505))
    assert [task.path for task in scan.plan().tasks] == ["day=1/region=US/y.orc"]
    assert opened == [own["day=1/region=US"]]
    # the manifest's ends of each file's keys rule the others out
    opened.clear()
    shared_cache().clear()
    assert ids(table.scan("a = 27")) == list(range(2500, 2505))
    assert set(opened) == {own["day=2/region=EU"]}
    # leaves that partition values leave alone
    where = "(a = 7 AND day = 1) OR (a = 26 AND day = 2) OR day = 3"
    assert ids(table.scan(where)) == [*range(500, 505), *(i for i in range(2000, 2500) if i % 1000 % 7 == 6)]
    # one index file for the whole of it
    table.drop_index("by_a")
    table.create_index("by_a", "a", "btree", properties={"level": "table"})
    (entry,) = table.snapshot().manifest.shared_indexes()
    assert (entry.partition, entry.num_files) == (None, 7)
    assert [task.path for task in table.scan("a = 17").plan().tasks] == ["day=1/region=US/y.orc"]


@pytest.mark.parametrize(
    ("column", "indexed", "later"),
    [
        # the first file spells the column; once some file has both, only that very name is it
        ("A", {"A": [1, 2]}, {"A": [7, None], "a": [8, 9]}),
        # a field's path, and a column of just that name
        ("a.b", {"a": [{"b": 1}, {"b": 2}]}, {"a.b": [7, None]}),
    ],
)
def test_a_name_that_became_another_column(
    tmp_path: Path, column: str, indexed: dict[str, list[Any]], later: dict[str, list[Any]]
) -> None:
    """A file that was indexed under it is null in every row of it now, whatever the index has of that file."""
    path = tmp_path / "table"
    files = [indexed, {"a": [4, 5]}, later] if column == "A" else [indexed, later]
    for number, columns in enumerate(files[:-1]):
        write_columns(
            path / f"{number}.orc", {"id": pa.array([number * 10, number * 10 + 1])} | arrays(columns)
        )
    table = LocalConnection().table(str(path))
    table.create_index("i", column, "btree")
    assert table.index("i").num_fresh_files == len(files) - 1
    write_columns(path / "9.orc", {"id": pa.array([90, 91])} | arrays(later))
    bare = LocalConnection(store=str(tmp_path / "none")).table(str(path))
    for where in (f"`{column}` IS NULL", f"`{column}` IS NULL OR `{column}` = 2", f"NOT `{column}` <=> 2"):
        assert ids(table.scan(where)) == ids(bare.scan(where)), where
    assert ids(table.scan(f"`{column}` IS NULL")) == ([10, 11, 91] if column == "A" else [0, 1, 91])
    # files that have the column are skipped as ever
    if column == "A":
        assert [task.path for task in table.scan("A = 5").plan().tasks] == ["1.orc", "9.orc"]


@pytest.mark.parametrize("kind", ["btree", "minmax", "bloom", "bitmap"])
def test_a_name_that_became_another_column_of_the_same_file(tmp_path: Path, kind: str) -> None:
    """A third spelling, in a new file, takes the column that the index has; the name is another one then."""
    path = tmp_path / "table"
    write_columns(path / "5.orc", {"id": pa.array([0, 1])} | arrays({"Ab": [1, 2]}))
    write_columns(path / "6.orc", {"id": pa.array([10, 11])} | arrays({"AB": [3, 4], "ab": [7, 8]}))
    table = LocalConnection().table(str(path))
    table.create_index("i", "Ab", kind)
    assert ids(table.scan("Ab = 3")) == [10]
    write_columns(path / "0.orc", {"id": pa.array([20, 21])} | arrays({"AB": [31, 41], "Ab": [71, 81]}))
    assert ids(table.scan("Ab = 7")) == [10]
    assert sorted(ids(table.scan("Ab > 6"))) == [10, 11, 20, 21]
    table.refresh_indexes()
    (path / "0.orc").unlink()
    assert ids(table.scan("Ab = 3")) == [10]
    assert ids(table.scan("Ab = 7")) == []


def arrays(columns: dict[str, list[Any]]) -> dict[str, pa.Array]:
    return {name: pa.array(values) for name, values in columns.items()}


def test_a_field_within_a_struct(tmp_path: Path) -> None:
    path = tmp_path / "nested"
    for number in range(3):
        places = [None if i % 10 == 0 else {"City": f"c{number * 100 + i}"} for i in range(100)]
        address = pa.array(places, pa.struct([("City", pa.string())]))
        write_columns(
            path / f"{number}.orc",
            {"id": pa.array(range(number * 100, number * 100 + 100)), "address": address},
        )
    table = LocalConnection().table(str(path))
    table.create_index("by_city", "address.city", "btree")
    scan = table.scan("address.city = 'c155'")
    assert [task.path for task in scan.plan().tasks] == ["1.orc"]
    assert ids(scan) == [155]
    assert ids(table.scan("address.city IS NULL")) == list(range(0, 300, 10))
