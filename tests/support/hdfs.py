"""An HDFS on loopback, and what may go wrong with one: Hadoop's ``MiniDFSCluster``, driven through Py4J."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.support.elsewhere import QUICK_JAVA
from tests.support.parts import hadoop_version, maven_jar, spark_jars

#: Jars of PySpark that the cluster runs with: a client of HDFS, and loggers.
_JARS = ("hadoop-client-api-*", "hadoop-client-runtime-*", "jcl-over-slf4j-*", "log4j-*", "slf4j-api-*")
_SETTINGS = {
    "dfs.replication": "1",
    # a small file of a test has several blocks
    "dfs.namenode.fs-limits.min-block-size": "4096",
    # a change of safe mode, quotas or nodes is seen at once
    "dfs.heartbeat.interval": "1",
}


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
def hdfs_cluster(settings: Mapping[str, str] | None = None) -> Iterator[HdfsCluster]:
    """A cluster of its own, of one name node and one data node; its files go with it.

    Args:
        settings: what ``hdfs-site.xml`` would say.

    Raises:
        MissingPartError: there is no jar of the cluster, and it cannot be fetched.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JJavaError

    jars = spark_jars()
    class_path = [str(jar) for pattern in _JARS for jar in jars.glob(pattern)]
    class_path.append(str(maven_jar(f"org.apache.hadoop:hadoop-client-minicluster:{hadoop_version()}")))
    with tempfile.TemporaryDirectory(prefix="hdfs-") as folder:
        port, token, process = launch_gateway(
            jarpath=str(next(jars.glob("py4j-*.jar"))),
            classpath=os.pathsep.join(class_path),
            javaopts=[*QUICK_JAVA.split(), "-Xmx512m", f"-Djava.io.tmpdir={folder}"],
            # Java ends with this process, however that ends
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            hadoop = gateway.jvm.org.apache.hadoop
            conf = hadoop.conf.Configuration()
            for name, value in {**_SETTINGS, "hdfs.minidfs.basedir": folder, **(settings or {})}.items():
                conf.set(name, value)
            try:
                nodes = getattr(hadoop.hdfs, "MiniDFSCluster$Builder")(conf).build()
            except Py4JJavaError as error:
                # Java has the message, and ends before the error is shown
                raise RuntimeError(str(error)) from None
            try:
                yield HdfsCluster(f"hdfs://127.0.0.1:{nodes.getNameNodePort()}", gateway.jvm, nodes)
            finally:
                nodes.shutdown()
        finally:
            gateway.shutdown()
            process.kill()
            process.stdin.close()
            process.wait()
