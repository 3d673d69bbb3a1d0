"""Tables and stores on Azure and Google Cloud Storage, from the first index to its end, and what the servers refuse."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
from hindex.errors import OrcError, StoreError, TableError, TableNotFoundError
from hindex.orc.io.file_system import WritableFileSystem, file_system, open_source
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from hindex.store import remote
from hindex.store.store import Store
from hindex.table.listing import list_data_files
from tests.store.changes import adding, check_race, names
from tests.support import local_build
from tests.support.local_build import LocalConnection
from tests.support.places import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000
#: Files of the table. The names must not be decoded, and each but the last is a partition of its own.
PATHS = ("t/p=a%2Fb 1/x y.orc", "t/p=é=%25/naïve%20+.orc", "t/p=x/#1&2?.orc")
PARTITIONS = ("a/b 1", "é=%", "x")


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "g": [f"g{i % 7}" for i in ids]})


@pytest.fixture
def table(place: Place, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a table of three files, which PyArrow has written."""
    local_build.install(monkeypatch)
    monkeypatch.setattr(remote, "_proven", set())
    for number, path in enumerate(PATHS):
        place.write(path, rows(number))
    return f"{place.uri}/t"


def opened(place: Place) -> WritableFileSystem:
    files, _ = file_system(place.uri)
    assert isinstance(files, WritableFileSystem)
    return files


def check(table: str, files: dict[int, str]) -> None:
    """Compare rows, and the number of files that are read, with those of plain Python.

    Args:
        files: the partition of each file, by the number of its rows.
    """
    t = LocalConnection().table(table)
    stored = {(row["id"], row["g"], p) for number, p in files.items() for row in rows(number).to_pylist()}
    first = min(files) * ROWS
    conditions: list[tuple[str, Callable[[int, str], bool], int]] = [
        (f"id = {first + 5}", lambda i, _: i == first + 5, 1),
        (f"g = 'g3' AND id < {first + 500}", lambda i, g: g == "g3" and i < first + 500, 1),
        ("g IN ('g1', 'g5')", lambda _, g: g in ("g1", "g5"), len(files)),
        ("g = 'none'", lambda _i, _g: False, 0),
    ]
    for condition, is_true, kept in conditions:
        expected = {row for row in stored if is_true(row[0], row[1])}
        scan = t.scan(condition, ["id", "g", "p"])
        assert {tuple(row.values()) for row in scan.to_arrow().to_pylist()} == expected, condition
        assert scan.count() == len(expected)
        explained = scan.explain()
        assert (explained.files.kept, explained.files.total, explained.notes) == (kept, len(files), ()), (
            condition
        )


def test_index_lifecycle(place: Place, table: str) -> None:
    t = LocalConnection().table(f"{table}/")
    specs = [("g", "g", "bitmap"), ("tree", "id", "btree"), ("range", "id", "minmax")]
    t.create_indexes([hindex.IndexSpec(*spec) for spec in specs])
    check(table, dict(enumerate(PARTITIONS)))
    place.write(PATHS[1], rows(5))
    place.files.delete_file(PATHS[2])
    place.write("t/p=new/x.orc", rows(3))
    assert {index.status.partition(";")[0] for index in t.indexes()} == {"stale: 1 changed, 1 added, 1 gone"}
    assert t.scan("id IN (1005, 2005, 3005, 5005)", ["id"]).count() == 2
    assert t.refresh_indexes().files_read == 2
    check(table, {0: PARTITIONS[0], 5: PARTITIONS[1], 3: "new"})
    assert [index.status for index in t.indexes()] == ["fresh"] * 3
    assert [item.problems for item in t.check_indexes(verify=True)] == [()] * 3
    assert not t.refresh_indexes().changed
    for name, _, _ in specs:
        t.drop_index(name)
    t.vacuum(retain_hours=0)
    # the manifests stay for an hour, and so does the copy of the last one
    left = place.keys("t/_hindex")
    assert left
    assert all(key.endswith((".manifest", "latest.hint")) for key in left), left


def test_spark_builds_and_reads(
    table: str, place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors read the data and write the index files with what their environment says of the server."""
    for name, value in place.variables.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    t = hindex.connect(spark=spark).table(table)
    t.create_indexes([hindex.IndexSpec("g", "g"), hindex.IndexSpec("range", "id", "btree")])
    check(table, dict(enumerate(PARTITIONS)))
    frame = t.scan("g = 'g3'", ["id"]).to_spark(spark)
    assert {row.id for row in frame.collect()} == {i for i in range(3 * ROWS) if i % 7 == 3}


def test_racing_writers_lose_nothing(place: Place) -> None:
    check_race(f"{place.uri}/s", writers=8, changes=10)


def test_create_refuses_an_existing_file(place: Place) -> None:
    files = opened(place)
    version = files.create("d/é %2F=", b"first")
    with pytest.raises(FileExistsError):
        files.create("d/é %2F=", b"second")
    assert files.read("d/é %2F=", 100) == b"first"
    assert [info.version for info in files.entries("d")] == [version]
    files.delete("d/é %2F=")
    files.delete("d/é %2F=")
    assert place.keys("d") == set()


def test_long_files_are_uploaded_in_parts(place: Place, tmp_path: Path) -> None:
    data = os.urandom(12 << 20)
    (tmp_path / "long").write_bytes(data)
    files = opened(place)
    files.upload("d/long", str(tmp_path / "long"))
    (info,) = files.entries("d")
    source = files.open("d/long", info.length, info.version)
    ranges = [(0, 10), (5 << 20, 1 << 20), (len(data) - 7, 7)]
    assert [bytes(view) for view in source.read(ranges)] == [data[at : at + size] for at, size in ranges]


def test_an_object_that_is_replaced_while_it_is_read(place: Place, table: str) -> None:
    (file,) = (file for file in list_data_files(table).files if file.path == PATHS[2].removeprefix("t/"))
    source = open_source(file.uri, length=file.length, version=file.version)
    assert bytes(source.read([(0, 3)])[0]) == b"ORC"
    t = LocalConnection().table(table)
    t.create_index("g", "g")
    scan = t.scan("g = 'g3'", ["id"])
    plan = scan.plan()
    place.write(PATHS[2], rows(7))
    with pytest.raises(OrcError, match="the file was overwritten while it was open: run again"):
        source.read([(100, 100)])
    with pytest.raises(OrcError, match="the file was overwritten while it was open: run again"):
        list(run_units(run_lookups(plan.tasks), ScanTaskReader.read))
    # a query is planned anew
    expected = {i for number in (0, 1, 7) for i in range(number * ROWS, (number + 1) * ROWS) if i % 7 == 3}
    assert set(scan.to_arrow()["id"].to_pylist()) == expected


def test_objects_that_stand_for_directories(place: Place, table: str) -> None:
    for directory in ("t/p=empty", "t/plain", "t/_hindex"):
        place.files.create_dir(directory)
    with place.files.open_output_stream("t/p=x/empty.orc"):
        pass
    assert [file.path for file in list_data_files(table).files if file.length == 0] == ["p=x/empty.orc"]
    assert LocalConnection().table(table).scan().count() == 3 * ROWS


def test_wrong_credentials(place: Place, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"{place.uri}/s", "/t")
    store.commit(adding("a"))
    with monkeypatch.context() as patch:
        for name, value in place.wrong_variables.items():
            patch.setenv(name, value)
        with pytest.raises(TableError, match=f"cannot list {table}: .*check the credentials") as unlisted:
            LocalConnection().table(table).scan().count()
        with pytest.raises(StoreError, match=r"cannot list .*check the credentials") as uncommitted:
            Store(f"{place.uri}/s", "/t").commit(adding("b"))
    assert "\n" not in f"{unlisted.value}{uncommitted.value}"
    assert names(store) == ["a"]


def test_a_bucket_that_does_not_exist(place: Place) -> None:
    uri = f"{place.uri[:-4]}{uuid.uuid4().hex[:8]}"
    with pytest.raises(TableNotFoundError, match=f"no such bucket or container: {uri}/t"):
        LocalConnection().table(f"{uri}/t").scan().count()
    with pytest.raises(StoreError, match=r"does not exist.*; nothing was changed; create the bucket"):
        Store(f"{uri}/s", "/t").commit(adding("a"))
