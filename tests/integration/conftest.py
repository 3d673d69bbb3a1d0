"""The parts that tests of integration run with. One that cannot be had is skipped, and fails where ``CI`` is set."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.hdfs import HdfsCluster, MissingHdfsError, hdfs_cluster


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsCluster]:
    try:
        with hdfs_cluster() as cluster:
            yield cluster
    except MissingHdfsError as error:
        (pytest.fail if "CI" in os.environ else pytest.skip)(str(error))
