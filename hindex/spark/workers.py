"""Checks of a session's Python workers, which need hindex in the driver's version."""

from __future__ import annotations

import importlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from hindex.errors import MissingRuntimeError
from hindex.spark.jobs import failure_message, is_connect, is_interrupt, job_description, worker_remedy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Contexts, or sessions of Spark Connect, whose workers have passed the check.
_checked: WeakSet[Any] = WeakSet()

#: Modules that tasks import; Spark itself needs pandas.
_MODULES = ("hindex", "hindex.build.task", "hindex.spark.tasks", "pandas")

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def check_workers(spark: SparkSession) -> None:
    """Check that the Python workers of a session can run tasks of hindex, once for each session.

    A job of one task imports hindex on an executor, which is cheap beside the start of the first worker. The task
    returns a missing import instead of raising it, so that Spark logs no stack traces.

    Raises:
        MissingRuntimeError: with the remedy.
    """
    key = spark if is_connect(spark) else spark.sparkContext
    if key in _checked:
        return
    if not is_connect(spark):
        _check_program(spark)
    from pyspark.sql import functions

    # a plain UDF: a mapInArrow needs pyarrow before it runs anything
    probe = functions.udf(_probe(), "string", useArrow=False)
    try:
        with job_description(spark, "look for hindex in the Python workers"):
            report = spark.range(0, 1, 1, 1).select(probe("id")).collect()[0][0]
    except Exception as error:  # of PySpark or Py4J
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise MissingRuntimeError(failure_message(error)) from None
    _check_versions(**json.loads(report))
    _checked.add(key)


def _probe() -> Callable[[object], str]:
    """Return a function that is pickled by value, because workers may lack this module."""
    modules = _MODULES

    def probe(_: object) -> str:
        import importlib
        import json
        import platform
        import sys

        missing = ""
        version = None
        for name in modules:
            try:
                module = importlib.import_module(name)
            except Exception as error:  # noqa: BLE001 a damaged package raises anything
                missing = f"{type(error).__name__}: {error}"
                break
            if name == "hindex":
                version = getattr(module, "__version__", None)
        return json.dumps(
            {
                "missing": missing,
                "version": version,
                "python": platform.python_version(),
                "program": sys.executable,
            }
        )

    return probe


def _check_versions(missing: str, version: str | None, python: str, program: str) -> None:
    interpreter = f"Python {python} at {program}"
    own = importlib.import_module("hindex").__version__
    if version is not None and version != own:
        raise MissingRuntimeError(
            f"Spark's Python workers have hindex {version} ({interpreter}), and this program has {own}: install the "
            "same version for both"
        )
    if missing:
        problem = " ".join(missing.split()).rstrip(".")
        raise MissingRuntimeError(
            f"Spark's Python workers cannot run hindex ({problem}, in {interpreter}). {worker_remedy()}"
        )


def _check_program(spark: SparkSession) -> None:
    """Check the workers' Python program if it runs on this machine: Spark reports problems in stack traces."""
    context = spark.sparkContext
    program = context.pythonExec
    master = context.master or ""
    is_local = master == "local" or master.startswith("local[")
    if not is_local or program == sys.executable:
        return
    version = ".".join(platform.python_version_tuple()[:2])
    problem = ""
    if shutil.which(program) is None:
        problem = f"Spark's Python workers cannot start: there is no program {program!r}"
    else:
        process = subprocess.run([program, "-c", _VERSION], capture_output=True, text=True, check=False)
        worker_version = process.stdout.strip()
        if process.returncode or worker_version != version:
            worker = f"Python {worker_version}" if worker_version else "no Python that starts"
            problem = f"Spark's Python workers run {program!r}, {worker}, and this program Python {version}"
    if problem:
        raise MissingRuntimeError(f"{problem}. {worker_remedy()}")
