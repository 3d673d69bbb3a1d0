"""Tables and stores on an HDFS that authenticates its users by Kerberos, with a ticket and without."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

import hindex
from hindex.errors import StoreError, TableError
from hindex.orc.io.file_system import file_system
from hindex.orc.io.hdfs import Hdfs
from hindex.store.store import Store
from tests.store.changes import adding, check_race, names
from tests.support import local_build
from tests.support.hdfs import HdfsCluster, secure_settings, write_configuration
from tests.support.kerberos import USER, Realm
from tests.support.local_build import LocalConnection

ROWS = 1000
#: Tests that do not depend on how requests and data are protected.
once = pytest.mark.parametrize("secure_hdfs", ["privacy"], indirect=True)
Parts = tuple[HdfsCluster, Realm, str]


@pytest.fixture
def place(secure_hdfs: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of an empty directory of the user, with a ticket and the configuration in the environment."""
    cluster, realm, protection = secure_hdfs
    path = f"/tests/{uuid.uuid4().hex}"
    cluster.admin.mkdirs(cluster.path(path))
    cluster.admin.setOwner(cluster.path(path), USER, USER)
    write_configuration(tmp_path, {**secure_settings(protection), "dfs.client.failover.max.attempts": "0"})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("KRB5_CONFIG", realm.configuration)
    monkeypatch.setenv("KRB5CCNAME", realm.ticket("ticket"))
    local_build.install(monkeypatch)
    return f"{cluster.uri}{path}"


def put(secure_hdfs: Parts, uri: str, path: Path, number: int) -> None:
    """Write an ORC file through Hadoop's own client."""
    cluster, _, _ = secure_hdfs
    ids = range(number * ROWS, (number + 1) * ROWS)
    pyarrow.orc.write_table(pa.table({"id": pa.array(ids), "g": [f"g{i % 7}" for i in ids]}), path)
    cluster.admin.copyFromLocalFile(cluster.path(str(path)), cluster.path(uri))
    cluster.admin.setOwner(cluster.path(uri), USER, USER)


def test_index_lifecycle(secure_hdfs: Parts, place: str, tmp_path: Path) -> None:
    for number in range(3):
        put(secure_hdfs, f"{place}/t/p=a%2F {number}/x.orc", tmp_path / "x.orc", number)
    cluster, _, _ = secure_hdfs
    cluster.admin.setOwner(cluster.path(f"{place}/t"), USER, USER)
    t = LocalConnection().table(f"{place}/t")
    t.create_indexes([hindex.IndexSpec("g", "g"), hindex.IndexSpec("tree", "id", "btree")])
    put(secure_hdfs, f"{place}/t/p=new/x.orc", tmp_path / "x.orc", 5)
    assert t.refresh_indexes().files_read == 1
    scan = t.scan("g = 'g3' AND id BETWEEN 1000 AND 1499", ["id"])
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [i for i in range(1000, 1500) if i % 7 == 3]
    explained = scan.explain()
    assert (explained.files.kept, explained.files.total, explained.notes) == (1, 4, ())
    assert t.scan("id IN (7, 2007, 5007, 9000)").count() == 3
    assert [item.problems for item in t.check_indexes(verify=True)] == [(), ()]
    files, root = file_system(f"{place}/t/_hindex")
    assert isinstance(files, Hdfs)
    owners = {files.client.get_file_info(f"{root}/{info.path}").owner for info in files.entries(root)}
    assert owners == {USER}


@once
def test_racing_writers_lose_nothing(place: str) -> None:
    check_race(f"{place}/s", 4)


@once
def test_without_a_ticket(
    secure_hdfs: Parts, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, realm, _ = secure_hdfs
    Store(f"{place}/s", "/t").commit(adding("a"))
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    check_refusal(place, "No Kerberos credentials available .*; get a ticket by kinit")
    monkeypatch.setenv("KRB5CCNAME", realm.ticket("short", seconds=2))
    time.sleep(3)
    check_refusal(place, "[Ee]xpired.*; get a ticket by kinit")
    monkeypatch.setenv("KRB5CCNAME", realm.ticket("new"))
    assert names(Store(f"{place}/s", "/t")) == ["a"]


@once
def test_a_delegation_token_takes_the_place_of_a_ticket(
    secure_hdfs: Parts, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As executors on YARN have one."""
    cluster, _, _ = secure_hdfs
    credentials = cluster.jvm.org.apache.hadoop.security.Credentials()
    cluster.admin.addDelegationTokens("anyone", credentials)
    credentials.writeTokenStorageFile(cluster.path(f"file:{tmp_path}/tokens"), cluster.admin.getConf())
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "none"))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    store = Store(f"{place}/s", "/t")
    store.commit(adding("a"))
    assert names(store) == ["a"]


@once
def test_a_configuration_without_kerberos(place: str, tmp_path: Path) -> None:
    write_configuration(tmp_path, {"dfs.client.failover.max.attempts": "0"})
    check_refusal(place, "closed the connection: if it has Kerberos, set hadoop.security.authentication")


def check_refusal(place: str, message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        LocalConnection().table(f"{place}/t").scan().count()
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=message):
        Store(f"{place}/s", "/t").commit(adding("b"))
