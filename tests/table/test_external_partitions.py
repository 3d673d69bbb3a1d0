"""Partitions that are not below their table: how they are listed, named, and told from those that are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hindex.errors import TableError, TableNotFoundError
from hindex.store.segment import is_safe_path
from hindex.table.listing import list_data_files
from hindex.table.partitions import CatalogPartitions, PartitionLocation, is_external
from tests.support.messages import raises


def put(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"ORC")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Partitions here and elsewhere, and files that belong to none."""
    root = tmp_path / "t"
    put(root / "p=1" / "a", root / "p=1" / "deep" / "b", root / "p=2" / "old", root / "p=9" / "dropped")
    put(
        tmp_path / "x y" / "n",
        tmp_path / "x y" / "_hidden",
        tmp_path / "x y" / "below" / "m",
        tmp_path / "z" / "k",
    )
    return root


def places(tmp_path: Path) -> CatalogPartitions:
    elsewhere = [("p=2", "x y"), ("p=3", "x y"), ("p=__HIVE_DEFAULT_PARTITION__", "z"), ("p=5", "missing")]
    return CatalogPartitions(
        frozenset({"p=1", "p=4"}),
        tuple(PartitionLocation(name, str(tmp_path / at)) for name, at in elsewhere),
    )


def test_which_files_count(table: Path, tmp_path: Path) -> None:
    """Those directly in the catalog's partitions, as Spark has it; one place may be that of two."""
    listing = list_data_files(str(table), partitions=places(tmp_path))
    top = str(tmp_path).replace("/", "%2F")
    assert [
        (file.path, file.uri, listing.partitioning.values[file.partition][0].value) for file in listing.files
    ] == [
        (f"_at/{top}%2Fx%20y/p=2/n", f"{tmp_path}/x y/n", 2),
        (f"_at/{top}%2Fx%20y/p=3/n", f"{tmp_path}/x y/n", 3),
        (f"_at/{top}%2Fz/p=__HIVE_DEFAULT_PARTITION__/k", f"{tmp_path}/z/k", None),
        ("p=1/a", f"{table}/p=1/a", 1),
    ]
    assert [is_external(file.path) for file in listing.files] == [True, True, True, False]
    assert all(is_safe_path(file.path) for file in listing.files)
    assert [column.name for column in listing.partitioning.columns] == ["p"]


def test_a_table_whose_directory_is_gone(table: Path, tmp_path: Path) -> None:
    """Its partitions elsewhere are still there; without any, it is missing."""
    shutil.rmtree(table)
    listing = list_data_files(str(table), partitions=places(tmp_path))
    assert [file.uri for file in listing.files] == [f"{tmp_path}/x y/n"] * 2 + [f"{tmp_path}/z/k"]
    for none in (None, CatalogPartitions(frozenset())):
        with raises(TableNotFoundError):
            list_data_files(str(table), partitions=none)


def test_without_a_catalog(table: Path) -> None:
    """The directories alone tell, and none can be taken for a partition elsewhere."""
    put(table / "_at" / "%2Fx" / "p=7" / "no")
    listing = list_data_files(str(table))
    assert [file.path for file in listing.files] == ["p=1/a", "p=1/deep/b", "p=2/old", "p=9/dropped"]


@pytest.mark.parametrize(("name", "kind"), [("delta_1_1/bucket_00000", "transactional"), ("", "a file")])
def test_what_a_place_cannot_be(table: Path, tmp_path: Path, name: str, kind: str) -> None:
    put(tmp_path / "odd" / name if name else tmp_path / "odd")
    odd = CatalogPartitions(frozenset({"p=1"}), (PartitionLocation("p=2", str(tmp_path / "odd")),))
    with pytest.raises(
        TableError, match=rf"the location '.*/odd' of partition 'p=2' is {kind}, and external partitions"
    ):
        list_data_files(str(table), partitions=odd)


def test_values_that_are_escaped(table: Path, tmp_path: Path) -> None:
    away = PartitionLocation("p=a%2Fb%3D%25", str(tmp_path / "z"))
    listing = list_data_files(str(table), partitions=CatalogPartitions(frozenset(), (away,)))
    assert [listing.partitioning.values[file.partition][0].value for file in listing.files] == ["a/b=%"]


def test_places_of_object_stores() -> None:
    assert PartitionLocation("p=1", "s3://bucket/a b?x=1").path == "_at/s3%3A%2F%2Fbucket%2Fa%20b%3Fx%3D1/p=1"
