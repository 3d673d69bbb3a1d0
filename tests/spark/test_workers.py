"""Python workers that cannot run hindex: a one-line error names the solution, and no task fails."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hindex
import hindex.spark.scan
from hindex.errors import MissingRuntimeError
from hindex.spark import workers
from tests.support.archive import write_archive
from tests.support.small import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMEDY = (
    f"Spark's Python workers need a Python that has hindex: start the session with PYSPARK_PYTHON={sys.executable} in "
    "the environment; on a cluster without such a file, pack an environment and pass it with --archives "
    "(docs/spark-clusters.md)"
)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the workers of sessions again."""
    monkeypatch.setattr(workers, "_checked", type(workers._checked)())


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> hindex.Table:
    write_rows(tmp_path / "table" / "x.orc", 0, [1, 2, 3])
    return hindex.connect(spark=spark).table(str(tmp_path / "table"))


@pytest.fixture
def program(
    spark: SparkSession, tmp_path: Path, unchecked: None, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Make a shell script the workers' Python, which gets Spark's own daemon instead of that of the tests."""
    own_daemon = '[ "$1" = -m ] && set -- -m pyspark.daemon "$3"'

    def use(text: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{own_daemon}\n{text}\n")
        path.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(path))
        return str(path)

    return use


def failed_tasks(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    return sum(jobs.apply(at).numFailedTasks() for at in range(jobs.size()))


def test_every_use_of_workers(
    program: Callable[[str], str],
    table: hindex.Table,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python has no packages, as without an activated environment."""
    # outside the checkout, from whose folder Python would import hindex
    program(f'cd / && exec {sys.executable} -S "$@"')
    monkeypatch.setattr(hindex.spark.scan, "MAX_LOCAL_VALUES", 0)
    before = failed_tasks(spark)
    for run in (
        lambda: table.create_index("by_a", "a"),
        lambda: table.create_index("by_b", "a", using="btree"),
        lambda: table.scan("a = 2").to_spark(spark),
        lambda: hindex.enable(spark),
    ):
        with pytest.raises(MissingRuntimeError) as caught:
            run()
        version = ".".join(map(str, sys.version_info[:3]))
        problem = f"ModuleNotFoundError: No module named 'hindex', in Python {version} at {sys.executable}"
        assert str(caught.value) == f"Spark's Python workers cannot run hindex ({problem}). {REMEDY}"
    # Spark would log a stack trace for each failed task
    assert failed_tasks(spark) == before
    assert table.indexes() == []
    assert list((tmp_path / "table" / "_hindex").rglob("*.hidx")) == []
    assert table.scan("a = 2").count() == 1


def test_workers_with_another_version(
    unchecked: None, table: hindex.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = hindex.__version__
    monkeypatch.setattr(hindex, "__version__", "9.9.9")
    with pytest.raises(MissingRuntimeError) as caught:
        table.create_index("by_a", "a")
    pattern = (
        rf"Spark's Python workers have hindex {re.escape(own)} \(Python \S+ at \S+\), and this program has 9\.9\.9: "
        "install the same version for both"
    )
    assert re.fullmatch(pattern, str(caught.value))


def test_workers_that_lack_a_dependency(program: Callable[[str], str], table: hindex.Table) -> None:
    """Python can import the checkout, but none of its dependencies."""
    program(f'cd {Path(hindex.__file__).parents[1]} && exec {sys.executable} -S "$@"')
    with pytest.raises(
        MissingRuntimeError, match=r"cannot run hindex \(ModuleNotFoundError: No module named"
    ):
        table.create_index("by_a", "a")


def test_workers_that_have_hindex_from_an_archive(
    program: Callable[[str], str], table: hindex.Table, tmp_path: Path
) -> None:
    """Python does not load compiled modules from an archive, as of ``--py-files``."""
    write_archive(tmp_path / "hindex.zip")
    folders = f"{tmp_path}/hindex.zip:{Path(pa.__file__).parents[1]}"
    # outside the checkout; -S disables the finder of an editable install, which has the compiled module
    program(f'cd / && export PYTHONPATH={folders}:$PYTHONPATH && exec {sys.executable} -S "$@"')
    with pytest.raises(MissingRuntimeError) as caught:
        table.create_index("by_a", "a")
    message = str(caught.value)
    assert message.startswith(
        "Spark's Python workers cannot run hindex (ImportError: the compiled part of hindex does not load ("
    )
    assert "it cannot be in an archive" in message
    assert "\n" not in message


def test_a_program_that_is_another_python_or_none(
    program: Callable[[str], str],
    table: hindex.Table,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program is checked before Spark starts it, which would log stack traces."""
    own = ".".join(map(str, sys.version_info[:2]))
    before = failed_tasks(spark)
    path = program("echo 2.7")
    with pytest.raises(MissingRuntimeError) as caught:
        table.create_index("by_a", "a")
    problem = f"Spark's Python workers run {path!r}, Python 2.7, and this program Python {own}"
    assert str(caught.value) == f"{problem}. {REMEDY}"
    program("exit 3")
    with pytest.raises(MissingRuntimeError, match="no Python that starts"):
        table.create_index("by_a", "a")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    with pytest.raises(MissingRuntimeError) as caught:
        table.create_index("by_a", "a")
    assert str(caught.value) == (
        f"Spark's Python workers cannot start: there is no program 'no-such-python'. {REMEDY}"
    )
    assert failed_tasks(spark) == before


def test_workers_are_checked_once(
    unchecked: None, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    real = workers._check_versions

    def check(**versions: str) -> None:
        calls.append(1)
        real(**versions)

    monkeypatch.setattr(workers, "_check_versions", check)
    workers.check_workers(spark)
    workers.check_workers(spark.newSession())
    assert len(calls) == 1


def test_a_failing_probe_is_one_line(
    program: Callable[[str], str],
    table: hindex.Table,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program of a cluster cannot be checked in advance."""
    monkeypatch.setattr(workers, "_check_program", lambda spark: None)
    before = failed_tasks(spark)
    program("exit 3")
    with pytest.raises(MissingRuntimeError) as caught:
        table.create_index("by_a", "a")
    assert failed_tasks(spark) > before
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(REMEDY)
    assert caught.value.__suppress_context__
