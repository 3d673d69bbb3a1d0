"""Sessions that hindex starts: they are quiet and shared, and errors name missing requirements."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hindex.errors import HindexError, MissingRuntimeError
from hindex.spark.session import (
    _archive_option,
    _warehouse_conf,
    default_conf,
    find_java,
    java_version,
    local_session,
    may_have_tables,
    running_session,
)
from tests.support.cases import nightly, sampled
from tests.support.messages import raises

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_a_session_prints_nothing(tmp_path: Path) -> None:
    code = """
import tempfile, warnings; warnings.simplefilter("default")
from pathlib import Path
from hindex.spark.session import local_session
conf = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
spark = local_session("local[1]", conf)
def same(batches):
    yield from batches
assert len(spark.range(3).mapInArrow(same, "id long").collect()) == 3
from pyspark.errors import AnalysisException
try:
    spark.sql("SELECT missing FROM nowhere")
except AnalysisException:
    pass
assert len(list(Path(tempfile.gettempdir()).glob("hindex-warehouse-*"))) == 1
spark.stop()
"""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    for directory in (here, temporary):
        directory.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert ran.stdout == ""
    assert ran.stderr == ""
    assert list(here.iterdir()) == []
    assert list(temporary.glob("hindex-*")) == []


def _java_processes(mark: str) -> list[int]:
    """Return the ids of the Java processes with a variable in their environment."""
    ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "java\n" and mark in (process / "environ").read_text():
                ids.append(int(process.name))
        except OSError:  # the process has ended
            continue
    return ids


@pytest.mark.slow
@sampled(1)
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("delay", [0, 1])
def test_an_interrupted_start_leaves_no_java_process(delay: float) -> None:
    """The interrupt comes as Java starts, or while it runs; the program can start another session."""
    code = """
import os
from hindex.spark.session import local_session
conf = {"spark.driver.memory": "1g"}
try:
    local_session("local[1]", conf)
    raise AssertionError("it started before the interrupt")
except KeyboardInterrupt:
    print("interrupted", flush=True)
input()
print(local_session("local[1]", conf).range(3).count())
"""
    mark = f"HINDEX_TEST_MARK={os.getpid()}-{delay}"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | dict([mark.split("=")]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    while process.poll() is None and not _java_processes(mark):
        time.sleep(0.02)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    deadline = time.monotonic() + 10
    while _java_processes(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _java_processes(mark) == []
    assert process.communicate("\n", timeout=300) == ("3\n", "")


@nightly
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_a_class_archive_is_written_once_and_used(tmp_path: Path) -> None:
    """Java maps a complete archive into memory, and writes one if it is missing or incomplete."""
    code = """
from pathlib import Path
from hindex.spark.session import local_session
gateway = local_session("local[1]", {"spark.driver.memory": "1g"}).sparkContext._gateway
java = gateway.jvm.java.lang.ProcessHandle.current().pid()
print("spark.jsa" in Path(f"/proc/{java}/maps").read_text())
"""
    archive = tmp_path / "a folder" / "spark.jsa"
    archive.parent.mkdir()
    archive.write_bytes(bytes(100))
    # without the archive of the tests, since Java takes only one
    environment = {"HINDEX_SPARK_ARCHIVE": str(archive), "SPARK_SUBMIT_OPTS": ""}
    assert run_alone(code, **environment) == "False\n"
    deadline = time.monotonic() + 120
    while not any(archive.read_bytes()[:4] if archive.exists() else b"") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert run_alone(code, **environment) == "True\n"


def test_a_class_archive_in_no_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HINDEX_SPARK_ARCHIVE", str(tmp_path / "none" / "spark.jsa"))
    with raises(HindexError):
        _archive_option()


def test_a_session_without_configuration_has_no_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    with monkeypatch.context() as patched:
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
            patched.delitem(sys.modules, name)
        assert not may_have_tables()
        for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
            patched.setenv(name, "1")
            assert may_have_tables()
            patched.delenv(name)
        patched.setenv("SPARK_CONF_DIR", str(tmp_path))
        assert not may_have_tables()
        (tmp_path / "hive-site.xml").touch()
        assert may_have_tables()


def test_a_configured_warehouse_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    (own,) = _warehouse_conf("local[2]", {"spark.sql.shuffle.partitions": "2"}).values()
    assert Path(own).parent == Path(tempfile.gettempdir())
    assert _warehouse_conf("spark://cluster:7077", {}) == {}
    assert _warehouse_conf("local", {"spark.sql.warehouse.dir": "/data/warehouse"}) == {}
    assert _warehouse_conf("local", {"spark.sql.catalogImplementation": "hive"}) == {}
    (tmp_path / "conf").mkdir()
    for name, value in (("SPARK_HOME", tmp_path), ("SPARK_CONF_DIR", tmp_path / "conf")):
        with monkeypatch.context() as patched:
            patched.setenv(name, str(value))
            assert _warehouse_conf("local", {}) != {}
            for file in ("spark-defaults.conf", "hive-site.xml"):
                (tmp_path / "conf" / file).touch()
                assert _warehouse_conf("local", {}) == {}
                (tmp_path / "conf" / file).unlink()


def test_a_running_session_is_used_again(spark: SparkSession) -> None:
    assert may_have_tables()
    assert local_session() is spark
    assert local_session(conf={"spark.sql.shuffle.partitions": "3"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    local_session(conf={"spark.sql.shuffle.partitions": "1"})


def test_a_running_session_is_known_to_threads_that_have_not_used_it(spark: SparkSession) -> None:
    """Spark keeps the active session by threads of Java, which may be new ones for a thread of Python."""
    sessions: Any = getattr(spark._jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.clearActiveSession()
    try:
        assert spark.getActiveSession() is None
        assert running_session() is spark
        assert local_session() is spark
    finally:
        sessions.setActiveSession(spark._jsparkSession)


def test_a_running_session_rejects_static_settings(spark: SparkSession) -> None:
    with raises(HindexError):
        local_session(master="local[7]")
    with raises(HindexError):
        local_session(conf={"spark.driver.memory": "7g"})


def test_a_local_session_listens_on_this_machine_only() -> None:
    assert default_conf("local[*]")["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in default_conf("spark://cluster:7077")


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("something else", None),
    ],
)
def test_versions_of_java(output: str, version: int | None) -> None:
    assert java_version(output) == version


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a function that makes a JAVA_HOME whose ``java`` runs a shell script."""

    def make(script: str) -> Path:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\n{script}\n")
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        return java

    return make


def test_a_java_that_is_new_enough(java_home: Callable[[str], Path]) -> None:
    java = java_home("""echo 'openjdk version "21.0.1"' >&2""")
    assert find_java() == str(java)


def test_a_java_that_is_too_old(java_home: Callable[[str], Path]) -> None:
    java_home("""echo 'openjdk version "11.0.2"' >&2""")
    with raises(MissingRuntimeError):
        find_java()


def test_a_java_that_does_not_run(java_home: Callable[[str], Path]) -> None:
    java_home("exit 3")
    with pytest.raises(MissingRuntimeError, match=r"does not run.*install Java 17"):
        find_java()


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises(MissingRuntimeError):
        find_java()


def run_alone(code: str, **environment: str) -> str:
    """Run code in a new interpreter, and return its output."""
    environment = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, timeout=300
    ).stdout


def test_no_pyspark() -> None:
    code = """
import sys; sys.modules["pyspark"] = None
from hindex.errors import MissingRuntimeError
from hindex.spark.session import local_session
try:
    local_session()
except MissingRuntimeError as error:
    print(error)
"""
    assert "pip install 'pyspark>=4.1' 'pandas>=2.2.2,<3'" in run_alone(code)


@pytest.mark.slow
@sampled(1)
@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        ("spark.driver.memory", "lots", "Invalid maximum heap size: -Xmxlots"),
        ("spark.master", "nonsense", "Master must either be yarn or start with spark, k8s, or local"),
        ("spark.serializer", "no.such.Class", "ClassNotFoundException: no.such.Class"),
    ],
)
def test_a_failed_start_reports_the_cause(key: str, value: str, cause: str) -> None:
    code = f"""
from hindex.errors import HindexError
from hindex.spark.session import local_session
try:
    local_session("local[1]", {{{key!r}: {value!r}}})
except HindexError as error:
    print(error)
"""
    (line,) = run_alone(code).splitlines()
    assert line.startswith("Spark does not start on master ")
    assert cause in line


def test_a_java_without_the_vector_module(java_home: Callable[[str], Path]) -> None:
    java_home(
        """[ "$1" = -version ] && { echo 'openjdk version "21.0.1"' >&2; exit 0; }
echo "java.lang.module.FindException: Module jdk.incubator.vector not found" >&2; exit 1"""
    )
    code = """
from hindex.errors import HindexError
from hindex.spark.session import local_session
try:
    local_session()
except HindexError as error:
    print(error)
"""
    assert "lacks the module jdk.incubator.vector; install Java 17" in run_alone(code)
