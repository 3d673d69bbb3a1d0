"""The parts that tests of integration run with. One that cannot be had is skipped, and fails where ``CI`` is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.azure import azurite
from tests.support.gcs import GcsServer, gcs_server
from tests.support.hdfs import HdfsCluster, hdfs_cluster, secure_hdfs_cluster
from tests.support.kerberos import Realm
from tests.support.parts import MissingPartError, hadoop_version, maven_jar
from tests.support.places import Place, azure_place, gcs_place


@contextmanager
def _needing(part: str) -> Iterator[None]:
    try:
        yield
    except MissingPartError as error:
        (pytest.fail if "CI" in os.environ else pytest.skip)(f"no {part}: {error}")


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsCluster]:
    with _needing("HDFS"), hdfs_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module", params=["authentication", "integrity", "privacy"])
def secure_hdfs(request: pytest.FixtureRequest) -> Iterator[tuple[HdfsCluster, Realm, str]]:
    """A cluster with Kerberos, its realm, and how it protects requests and data."""
    with _needing("HDFS with Kerberos"), secure_hdfs_cluster(request.param) as (cluster, realm):
        yield cluster, realm, request.param


@pytest.fixture(scope="session")
def azure() -> Iterator[str]:
    with _needing("Azure"), azurite() as address:
        yield address


@pytest.fixture(scope="session")
def gcs() -> Iterator[GcsServer]:
    with _needing("Google Cloud Storage"), gcs_server() as server:
        yield server


@pytest.fixture(params=["azure", "gcs"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty bucket or container, with what names its server in the environment."""
    server = request.getfixturevalue(request.param)
    made = azure_place(server) if request.param == "azure" else gcs_place(server)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


#: The AWS SDK, and a library for reads, of that version of hadoop-aws.
_AWS = {
    "3.5.0": (
        "software.amazon.awssdk:bundle:2.35.4",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    )
}


@pytest.fixture(scope="session")
def s3a_jars() -> list[str]:
    """The jars with which Spark reads and writes ``s3a:``."""
    version = hadoop_version()
    with _needing("s3a"):
        if version not in _AWS:
            raise MissingPartError(f"the jars that hadoop-aws {version} needs are not known")
        artifacts = [f"org.apache.hadoop:hadoop-aws:{version}", *_AWS[version]]
        return [str(maven_jar(artifact)) for artifact in artifacts]
    raise AssertionError
