"""The cluster of these tests: files of another client than Hadoop's own, and what the cluster refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hdfs_native import Client, WriteOptions

from hindex.orc.io.hdfs import Hdfs
from tests.support.hdfs import HdfsCluster

#: Bytes of a block.
BLOCK = 4096
#: Of four blocks.
DATA = bytes(range(256)) * 64
#: By default, a client tries for three minutes.
ONE_TRY = {"dfs.client.failover.max.attempts": "0"}


@pytest.fixture
def client(hdfs: HdfsCluster) -> Client:
    return Client(hdfs.uri, ONE_TRY)


def write(client: Client, path: str, data: bytes = DATA) -> None:
    # one block: the client does not wait until the name node takes a second one
    with client.create(path, WriteOptions(block_size=len(data))) as file:
        file.write(data)


def test_files_are_read_as_written(hdfs: HdfsCluster, client: Client) -> None:
    path = "/files/day=%2F 1/é"
    file = hdfs.admin.create(hdfs.path(path), True, BLOCK, 1, BLOCK)
    file.write(DATA)
    file.close()
    reader = client.read(path)
    assert len(reader) == len(DATA)
    assert reader.read_range(4000, 9000) == DATA[4000:13000]
    status = hdfs.admin.getFileStatus(hdfs.path(path))
    assert (status.getLen(), status.getBlockSize()) == (len(DATA), BLOCK)
    (listed,) = (status for status in client.list_status("/files", recursive=True) if not status.isdir)
    assert (listed.path, listed.modification_time) == (path, status.getModificationTime())


def test_uploads_have_one_block(hdfs: HdfsCluster, tmp_path: Path) -> None:
    data = os.urandom((3 << 20) + 1)
    (tmp_path / "file").write_bytes(data)
    files = Hdfs(hdfs.uri)
    files.upload("/uploaded/file", str(tmp_path / "file"))
    assert files.read("/uploaded/file", len(data)) == data
    status = hdfs.admin.getFileStatus(hdfs.path("/uploaded/file"))
    # whole checksums
    assert (status.getLen(), status.getBlockSize()) == ((3 << 20) + 1, (3 << 20) + 512)


def test_safe_mode_refuses_changes(hdfs: HdfsCluster, client: Client) -> None:
    write(client, "/safe/file")
    with hdfs.safe_mode():
        with pytest.raises(RuntimeError, match="SafeModeException"):
            client.delete("/safe/file")
        assert client.read("/safe/file").read() == DATA
    assert client.delete("/safe/file")


def test_quotas_refuse_files_and_bytes(hdfs: HdfsCluster, client: Client) -> None:
    client.mkdirs("/quota")
    with hdfs.quota("/quota", names=2):
        write(client, "/quota/one")
        with pytest.raises(RuntimeError, match="NSQuotaExceededException"):
            write(client, "/quota/two")
    with hdfs.quota("/quota", space=len(DATA)), pytest.raises(RuntimeError, match="DSQuotaExceededException"):
        write(client, "/quota/two")
    write(client, "/quota/three")


def test_users_have_permissions(hdfs: HdfsCluster, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    write(client, "/users/file")
    client.set_permission("/users/file", 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    with pytest.raises(RuntimeError, match="Permission denied: user=bob"):
        Client(hdfs.uri).read("/users/file")


def test_snapshots_keep_deleted_files(hdfs: HdfsCluster, client: Client) -> None:
    write(client, "/kept/file")
    snapshot = hdfs.snapshot("/kept", "before")
    assert client.delete("/kept/file")
    assert client.read(f"{snapshot}/file").read() == DATA
    assert [*client.list_status("/kept", recursive=True)] == []


def test_nodes_come_back(hdfs: HdfsCluster, client: Client) -> None:
    write(client, "/nodes/file")
    with hdfs.without_data_node(), pytest.raises(RuntimeError, match="All DataNodes failed"):
        client.read("/nodes/file").read()
    assert client.read("/nodes/file").read() == DATA
    with hdfs.without_name_node(), pytest.raises(OSError, match="Connection refused"):
        client.get_file_info("/nodes/file")
    assert client.read("/nodes/file").read() == DATA
