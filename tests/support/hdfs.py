"""An HDFS on loopback, and what may go wrong with one: Hadoop's ``MiniDFSCluster``, driven through Py4J."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.elsewhere import QUICK_JAVA
from tests.support.kerberos import Realm, kerberos_jars, realm
from tests.support.parts import hadoop_version, maven_jar, spark_jars

#: Jars of PySpark that the cluster runs with: a client of HDFS, and loggers.
_JARS = (
    "commons-io-*",
    "hadoop-client-api-*",
    "hadoop-client-runtime-*",
    "jcl-over-slf4j-*",
    "log4j-*",
    "slf4j-api-*",
)
_SETTINGS = {
    "dfs.replication": "1",
    # a small file of a test has several blocks
    "dfs.namenode.fs-limits.min-block-size": "4096",
    # a change of safe mode, quotas or nodes is seen at once
    "dfs.heartbeat.interval": "1",
}
#: Of the nodes of a cluster with Kerberos; who has no root may not use the ports that it asks for.
_SECURE_NODES = {"dfs.block.access.token.enable": "true", "ignore.secure.ports.for.testing": "true"}


@dataclass
class HdfsCluster:
    """The cluster: its address, and the Java objects that run it.

    Attributes:
        uri: ``hdfs://127.0.0.1:PORT``; who has started the cluster is its superuser, and ``HADOOP_USER_NAME`` in the
            environment of a client names another user.
        jvm: the entry to Hadoop's Java classes.
        nodes: the ``MiniDFSCluster``.
    """

    uri: str
    jvm: Any
    nodes: Any

    @property
    def admin(self) -> Any:
        """The ``DistributedFileSystem`` of the superuser."""
        return self.nodes.getFileSystem()

    def path(self, path: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(path)

    @contextmanager
    def safe_mode(self) -> Iterator[None]:
        """Refuse all changes for a while."""
        actions = self.jvm.org.apache.hadoop.fs.SafeModeAction
        self.admin.setSafeMode(actions.ENTER)
        try:
            yield
        finally:
            self.admin.setSafeMode(actions.LEAVE)

    @contextmanager
    def quota(self, path: str, *, names: int | None = None, space: int | None = None) -> Iterator[None]:
        """Limit a folder for a while: to a number of names, itself among them, and to bytes of all replicas."""
        constants = self.jvm.org.apache.hadoop.hdfs.protocol.HdfsConstants
        kept, none = constants.QUOTA_DONT_SET, constants.QUOTA_RESET
        limits = [kept if limit is None else limit for limit in (names, space)]
        self.admin.setQuota(self.path(path), *limits)
        try:
            yield
        finally:
            self.admin.setQuota(
                self.path(path), *[kept if limit is None else none for limit in (names, space)]
            )

    def snapshot(self, path: str, name: str) -> str:
        """Make a snapshot of a folder and return its path."""
        self.admin.allowSnapshot(self.path(path))
        made: str = self.admin.createSnapshot(self.path(path), name).toUri().getPath()
        return made

    @contextmanager
    def without_data_node(self) -> Iterator[None]:
        """Stop the data node for a while; its port stays."""
        stopped = self.nodes.stopDataNode(0)
        try:
            yield
        finally:
            self.nodes.restartDataNode(stopped, True)
            self.nodes.waitActive()

    @contextmanager
    def without_name_node(self) -> Iterator[None]:
        """Stop the name node for a while; its port stays."""
        self.nodes.shutdownNameNode(0)
        try:
            yield
        finally:
            self.nodes.restartNameNode(0)


@contextmanager
def hdfs_cluster() -> Iterator[HdfsCluster]:
    """Run a cluster of one name node and one data node; its files go with it.

    Raises:
        MissingPartError: if its jars cannot be fetched.
    """
    with _java() as (gateway, directory), _nodes(gateway.jvm, directory, {}) as cluster:
        yield cluster


@contextmanager
def secure_hdfs_cluster(protection: str) -> Iterator[tuple[HdfsCluster, Realm]]:
    """Run a cluster that authenticates its users by Kerberos, and its realm.

    Args:
        protection: of requests and data: ``authentication``, ``integrity`` or ``privacy``.

    Raises:
        MissingPartError: if its jars cannot be fetched, or the system has no library of Kerberos.
    """
    with _java(kerberos_jars()) as (gateway, directory), realm(gateway, directory) as kerberos:
        nodes = {
            f"dfs.{node}.{name}": value
            for node in ("namenode", "datanode")
            for name, value in (("kerberos.principal", kerberos.nodes), ("keytab.file", kerberos.keytab))
        }
        settings = {**secure_settings(protection), **nodes, **_SECURE_NODES}
        with _nodes(gateway.jvm, directory, settings) as cluster:
            yield cluster, kerberos


def secure_settings(protection: str) -> dict[str, str]:
    """Return the settings of clients of such a cluster."""
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.rpc.protection": protection,
        "dfs.data.transfer.protection": protection,
    }


def write_configuration(path: Path, settings: Mapping[str, str]) -> None:
    """Write a directory for ``HADOOP_CONF_DIR``."""
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (path / name).write_text(f"<configuration>{properties}</configuration>")


@contextmanager
def _java(jars: Iterable[str] = ()) -> Iterator[tuple[Any, str]]:
    """Run Java with a cluster's classes; yield Py4J's gateway and a directory that goes with it."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    spark = spark_jars()
    class_path = [str(jar) for pattern in _JARS for jar in spark.glob(pattern)]
    class_path += [str(maven_jar(f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}")), *jars]
    with tempfile.TemporaryDirectory(prefix="hdfs-") as directory:
        port, token, process = launch_gateway(
            jarpath=str(next(spark.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(class_path),
            javaopts=[*QUICK_JAVA.split(), "-Xmx512m", f"-Djava.io.tmpdir={directory}"],
            # Java ends with this process, however that ends
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            yield gateway, directory
        finally:
            gateway.shutdown()
            process.kill()
            process.stdin.close()
            process.wait()


@contextmanager
def _nodes(jvm: Any, directory: str, settings: Mapping[str, str]) -> Iterator[HdfsCluster]:
    from py4j.protocol import Py4JJavaError

    hadoop = jvm.org.apache.hadoop
    conf = hadoop.conf.Configuration()
    for name, value in {**_SETTINGS, "hdfs.minidfs.basedir": directory, **settings}.items():
        conf.set(name, value)
    try:
        nodes = getattr(hadoop.hdfs, "MiniDFSCluster$Builder")(conf).build()
    except Py4JJavaError as error:
        # Java has the message, and ends before the error is shown
        raise RuntimeError(str(error)) from None
    try:
        yield HdfsCluster(f"hdfs://127.0.0.1:{nodes.getNameNodePort()}", jvm, nodes)
    finally:
        nodes.shutdown()
