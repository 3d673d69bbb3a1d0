"""Fixtures of all tests, and the order of test files."""

from __future__ import annotations

import gc
import os
import sys
import time
import zlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

# before anything reads the zone, and for the Java side and the Python workers too
os.environ["TZ"] = "UTC"
time.tzset()

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

from tests.support import messages  # noqa: E402
from tests.support.cases import SEED, beyond_samples, cases  # noqa: E402
from tests.support.class_archive import java_environment  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from hindex import Table
    from tests.support.local_build import LocalConnection

# for the programs that tests start, too
os.environ.update(java_environment())

hypothesis.settings.register_profile(
    "hindex", deadline=None, print_blob=True, derandomize=SEED == 0, max_examples=cases(30, 100)
)
hypothesis.settings.load_profile("hindex")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only ``make nightly`` runs, and put files with slow tests first.

    Begun last, such a file would keep a process busy when the others have nothing left.
    """
    beyond = beyond_samples(items)
    config.hook.pytest_deselected(items=[item for item in items if item in beyond])
    items[:] = [item for item in items if item not in beyond]
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Leave what was collected out of garbage collections, each of which would visit all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _directory_in_messages(tmp_path_factory: pytest.TempPathFactory) -> None:
    messages.use_directory(tmp_path_factory.getbasetemp())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    messages.start(item.nodeid)
    result = yield
    messages.save()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Compare the number of errors of a test that passes with the recorded ones."""
    yield
    messages.finish(item.nodeid)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session of two threads for the whole run."""
    from hindex.spark.session import local_session
    from tests.support.elsewhere import QUICK_JAVA, QUICK_WORKERS

    session = local_session(
        master="local[2]",
        conf={
            **QUICK_WORKERS,
            "spark.default.parallelism": "2",
            "spark.driver.extraJavaOptions": QUICK_JAVA,
            "spark.driver.memory": "1g",
            # the oracle reads all rows: pushed down, `IN (x, NULL)` fails, and strings are compared by UTF-16 units
            "spark.sql.orc.filterPushdown": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
        app_name="hindex-tests",
    )
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def _active_session() -> None:
    """Make the shared session the active one: some tests of another file may leave a session of theirs."""
    sql: Any = sys.modules.get("pyspark.sql")
    session = None if sql is None else sql.SparkSession._instantiatedSession
    if session is not None and session.sparkContext._jsc is not None:
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
        # PySpark would make another object of the same session
        sql.SparkSession._activeSession = session


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> LocalConnection:
    """A connection that builds indexes in this process."""
    from tests.support import local_build

    local_build.install(monkeypatch)
    return local_build.LocalConnection()


@pytest.fixture
def constant(connection: LocalConnection, tmp_path: Path) -> Table:
    """A table whose file statistics give all values of the indexed column."""
    from tests.scan.wrong_indexes import constant_table

    return constant_table(connection, tmp_path / "k")


@pytest.fixture(params=["large", "small"])
def windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Decode columns of small files in one window, or in one for each row group, as columns of large files are."""
    from hindex.orc.reader import orc_reader, stripe_reader

    if request.param == "small":
        monkeypatch.setattr(stripe_reader, "WINDOW_BYTES", 1)
        monkeypatch.setattr(orc_reader, "_PIECE_BYTES", 1)
    size: str = request.param
    return size


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers, others for each test. A failing test shows the seed."""
    print(f"HINDEX_TEST_SEED={SEED}")
    return np.random.default_rng((SEED, zlib.crc32(request.node.nodeid.encode())))
