"""Tables and stores on HDFS: from the first index to its end, and what the cluster refuses."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hindex
from hindex.errors import StoreError, TableError, TableNotFoundError
from hindex.orc.io import file_system as file_systems
from hindex.orc.io.hdfs import Hdfs
from hindex.store.store import Store
from hindex.table.listing import list_data_files
from tests.store.changes import adding, check_race
from tests.support import local_build
from tests.support.hdfs import HdfsCluster, write_configuration
from tests.support.local_build import LocalConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONDITIONS = {
    "k = 7": 1,
    "k IN (3, 999, 1500)": 2,
    "id BETWEEN 100 AND 130": 1,
    "s = 's12' AND k < 1200": 2,
    "k IS NULL": 0,
}


@pytest.fixture
def place(hdfs: HdfsCluster) -> str:
    return f"{hdfs.uri}/tests/{uuid.uuid4().hex}"


@pytest.fixture
def table(spark: SparkSession, place: str) -> str:
    """Two partitions of one file each, the second one with a name that must not be decoded."""
    frame = spark.range(2000).selectExpr(
        "id", "id AS k", "concat('s', id % 50) AS s", "if(id < 1000, 'a', 'b/c d%') AS p"
    )
    frame.coalesce(1).write.partitionBy("p").orc(f"{place}/t")
    return f"{place}/t"


def check(spark: SparkSession, table: str) -> None:
    scanned = hindex.connect(spark=spark).table(table)
    for condition, files in CONDITIONS.items():
        expected = spark.read.orc(table).where(condition).select("id", "p").collect()
        scan = scanned.scan(condition, ["id", "p"])
        rows = scan.to_arrow().to_pylist()
        assert sorted((row["id"], row["p"]) for row in rows) == sorted((row.id, row.p) for row in expected)
        assert scan.count() == len(expected)
        explained = scan.explain()
        assert (explained.files.kept, explained.notes) == (files, ()), condition


def test_the_life_of_an_index(spark: SparkSession, table: str) -> None:
    t = hindex.connect(spark=spark).table(f"{table}/")
    t.create_indexes(
        [
            hindex.IndexSpec("k", "k"),
            hindex.IndexSpec("i", "id", "btree"),
            hindex.IndexSpec("s", "s", "bloom"),
        ]
    )
    check(spark, table)
    with hindex.accelerate(spark, always=True) as handle:
        assert [row.id for row in spark.read.orc(table).where("k = 1234").collect()] == [1234]
        assert "k 1" in handle.summary()
    spark.range(5000, 5010).selectExpr("id", "id AS k", "'s' AS s").coalesce(1).write.mode("append").orc(
        f"{table}/p=a"
    )
    assert {index.status.partition(";")[0] for index in t.indexes()} == {"stale: 1 added"}
    assert t.scan("k = 5003").count() == 1
    assert t.refresh_indexes().files_read == 1
    assert [index.status for index in t.indexes()] == ["fresh"] * 3
    assert [item.problems for item in t.check_indexes(verify=True)] == [()] * 3
    for name in "kis":
        t.drop_index(name)
    t.vacuum(retain_hours=0)
    files, path = file_systems.file_system(f"{table}/_hindex")
    assert all(info.is_directory or info.path.startswith("manifests/") for info in files.entries(path)), list(
        files.entries(path)
    )


def test_a_file_that_is_replaced_is_read_without_its_index(spark: SparkSession, table: str) -> None:
    t = hindex.connect(spark=spark).table(table)
    t.create_index("k", "k")
    (name,) = (file.uri for file in list_data_files(table).files if "p=a/" in file.uri)
    files, path = file_systems.file_system(name)
    assert isinstance(files, Hdfs)
    (other,) = (file.uri for file in list_data_files(table).files if "p=a/" not in file.uri)
    data = files.read(file_systems.file_system(other)[1], 1 << 20)
    scan = t.scan("k = 1500", ["id"])
    assert scan.count() == 1
    files.delete(path)
    files.write(path, data)
    assert scan.count() == 2
    assert {note.reason.name for note in scan.explain().notes} == {"STALE_FILE"}


def test_a_store_is_as_open_as_the_table(hdfs: HdfsCluster, spark: SparkSession, table: str) -> None:
    path = hdfs.path(table)
    mode = hdfs.jvm.org.apache.hadoop.fs.permission.FsPermission("750")
    hdfs.admin.setPermission(path, mode)
    hindex.connect(spark=spark).table(table).create_index("k", "k")
    files, root = file_systems.file_system(f"{table}/_hindex")
    assert isinstance(files, Hdfs)
    modes = {
        (
            info.is_directory,
            hdfs.admin.getFileStatus(hdfs.path(f"{root}/{info.path}")).getPermission().toString(),
        )
        for info in files.entries(root)
    }
    assert modes == {(True, "rwxr-x---"), (False, "rw-r-----")}


def test_a_table_that_is_being_written(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is removed during the listing has no files, and `_temporary` is not listed."""
    files, path = file_systems.file_system(table)
    assert isinstance(files, Hdfs)
    files.write(f"{path}/_temporary/0/task_1/part.orc", b"data")
    files.write(f"{path}/p=gone/part.orc", b"data")
    list_directory = files.client.list_status
    listed = []

    def list_status(path: str, *args: bool) -> object:
        listed.append(path)
        if path.endswith("p=gone"):
            files.client.delete(path, True)
        return list_directory(path, *args)

    monkeypatch.setattr(files.client, "list_status", list_status)
    assert hindex.connect().table(table).scan("k < 5").count() == 5
    assert f"{path}/p=gone" in listed
    assert f"{path}/_temporary/0" not in listed


def test_racing_writers_lose_nothing(place: str) -> None:
    check_race(f"{place}/s", 6)


def test_a_rename_whose_answer_is_lost(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library sends it again, and then the name that it renames is gone."""
    store = Store(f"{place}/s", "/t")
    store.commit(adding("a"))
    files, path = file_systems.file_system(f"{place}/s")
    create = Hdfs.create

    def lose(self: Hdfs, path: str, data: bytes) -> None:
        create(self, path, data)
        raise FileNotFoundError(2, "rename source not found")

    monkeypatch.setattr(Hdfs, "create", lose)
    assert store.commit(adding("b")).number == 2
    monkeypatch.undo()
    assert [info.path for info in files.entries(f"{path}/manifests")] == [
        f"{number:020}.manifest" for number in (1, 2)
    ]


def test_what_the_cluster_refuses(hdfs: HdfsCluster, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"{place}/s", "/t")
    store.commit(adding("a"))
    with hdfs.safe_mode():
        with pytest.raises(StoreError, match=r"cannot write to the store .*safe mode.*nothing was changed"):
            store.commit(adding("b"))
        loaded = Store(f"{place}/s", "/t").load()
        assert loaded is not None
    with (
        hdfs.quota(f"{place}/s", names=3),
        pytest.raises(StoreError, match=r"quota .* is exceeded.*make room there"),
    ):
        store.commit(adding("b"))
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    with pytest.raises(StoreError, match=r"Permission denied: user=somebody-else.*grant access there"):
        Store(f"{place}/s", "/t").commit(adding("b"))
    monkeypatch.undo()
    assert [item.name for item in store.commit(adding("b")).indexes] == ["a", "b"]


def test_what_is_not_there(hdfs: HdfsCluster, place: str) -> None:
    with pytest.raises(TableNotFoundError, match=f"no such file or directory: {place}/no"):
        hindex.connect().table(f"{place}/no").scan().count()
    with pytest.raises(
        TableError, match="'hdfs://no-such-service/' cannot be opened: No NameNode hosts found"
    ):
        hindex.connect().table("hdfs://no-such-service/t").scan().count()
    assert Store(f"{place}/s", "/t").load() is None


def test_a_forked_process_says_that_it_cannot_go_on(spark: SparkSession, table: str) -> None:
    """Instead of waiting for ever for threads that it does not have."""
    assert hindex.connect().table(table).scan("k = 7").count() == 1
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert "used before this process was forked" in pool.apply_async(_error, (table,)).get(60)
    code = f"import hindex; print(hindex.connect().table({table!r}).scan('k = 7').count())"
    new = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert new.stdout == "1\n"


def _error(table: str) -> str:
    try:
        return str(hindex.connect().table(table).scan("k = 7").count())
    except hindex.HindexError as error:
        return str(error)


def test_a_snapshot_is_a_table_of_its_own(hdfs: HdfsCluster, spark: SparkSession, table: str) -> None:
    snapshot = hdfs.snapshot(table.removeprefix(hdfs.uri), "before")
    spark.range(5000, 5010).selectExpr("id", "id AS k", "'s' AS s").write.mode("append").orc(f"{table}/p=a")
    hx = hindex.connect()
    assert hx.table(table).scan().count() == 2010
    assert hx.table(f"{hdfs.uri}{snapshot}").scan().count() == 2000


def test_one_file(spark: SparkSession, table: str) -> None:
    (name,) = (file.uri for file in list_data_files(table).files if "p=a/" in file.uri)
    hx = hindex.connect()
    assert hx.table(name).scan("id < 10").count() == 10
    assert os.path.basename(name) in {file.path for file in list_data_files(name).files}  # noqa: PTH119 a URI


@pytest.mark.parametrize("kind", ["viewfs", "name service"])
def test_names_of_the_configuration(
    hdfs: HdfsCluster,
    spark: SparkSession,
    table: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mount of viewfs, and a name service whose first name node does not answer."""
    place = table.removeprefix(hdfs.uri)
    if kind == "viewfs":
        mounts = {"link./lake": f"{hdfs.uri}{place}", "linkFallback": f"{hdfs.uri}/tests"}
        settings = {f"fs.viewfs.mounttable.views.{name}": target for name, target in mounts.items()}
        write_configuration(tmp_path, settings)
        uri = "viewfs://views/lake"
    else:
        write_configuration(
            tmp_path,
            {
                "dfs.nameservices": "lake",
                "dfs.ha.namenodes.lake": "gone,active",
                "dfs.namenode.rpc-address.lake.gone": f"127.0.0.1:{free_port()}",
                "dfs.namenode.rpc-address.lake.active": hdfs.uri.removeprefix("hdfs://"),
            },
        )
        uri = f"hdfs://lake{place}"
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    local_build.install(monkeypatch)
    named = LocalConnection().table(uri)
    named.create_index("by_k", "k")
    assert named.scan("k = 7", ["id"]).to_arrow()["id"].to_pylist() == [7]
    assert named.scan("k = 7").explain().files.kept == 1
    # the same store under the other name
    plain = LocalConnection().table(table)
    assert [index.status for index in plain.indexes()] == ["fresh"]
    assert plain.scan("k IN (3, 1500)").count() == 2


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
