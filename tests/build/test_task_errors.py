"""Error messages of a build that Spark could not run."""

from __future__ import annotations

import sys

import pytest

from hindex.spark.jobs import failure_message

_REMEDY = (
    ". Spark's Python workers need a Python that has hindex: start the session with "
    f"PYSPARK_PYTHON={sys.executable} in the environment; on a cluster without such a file, pack an environment and "
    "pass it with --archives (docs/spark-clusters.md)"
)
_FRAMES = '  File "worker.py", line 1, in invoke\n    func()\n    ^^^^^^\n'
_PORT = "EOFException occurred while reading the port number from pyspark.daemon's stdout."
_STACK = (
    "\tat org.apache.spark.Some.method(Some.scala:1)\n\tat java.base/java.lang.Thread.run(Thread.java:1)\n"
)


def traceback(last: str) -> str:
    return f"Traceback (most recent call last):\n{_FRAMES}{last}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "An exception was thrown from the Python worker:\n" + traceback("KeyError: 'x'\nand more of it"),
            "KeyError: 'x'",
        ),
        (
            (
                f"{traceback('KeyError: 1')}\nDuring handling of the above exception, another exception occurred:\n\n"
                f"{traceback('ZeroDivisionError: division by zero')}\nJVM stacktrace:\norg.apache.spark.Some\n{_STACK}"
            ),
            "ZeroDivisionError: division by zero",
        ),
        (
            f"An error occurred.\n\nJVM stacktrace:\n{_STACK}Caused by: {traceback('OSError: disk full')}{_STACK}",
            "OSError: disk full",
        ),
        (traceback("ModuleNotFoundError: No module named 'hindex'"), None),
        (traceback("x.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python 3.12 is not 3.11."), None),
        (
            (
                f"An error occurred while calling o54.\n: org.apache.spark.SparkException: awaitResult:\n{_STACK}"
                f"Caused by: org.apache.spark.SparkException: Job aborted\n{_STACK}"
                f"Caused by: java.lang.OutOfMemoryError: Java heap space\n{_STACK}"
            ),
            "java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            (
                f'x\nCaused by: java.io.IOException: Cannot run program "py": error=2, none\n{_STACK}'
                f"Caused by: java.io.IOException: error=2, none\n{_STACK}"
            ),
            f'java.io.IOException: Cannot run program "py": error=2, none{_REMEDY}',
        ),
        (
            (
                f"x\nCaused by: org.apache.spark.SparkException: Job aborted: org.apache.spark.SparkException: \n"
                "Error from python worker:\n  Traceback (most recent call last):\n"
                '    File "daemon.py", line 1, in <module>\n      import x\n  ImportError: x is too old\n'
                f"PYTHONPATH was:\n  /a:/b\norg.apache.spark.SparkException: {_PORT}\n{_STACK}"
            ),
            f"ImportError: x is too old{_REMEDY}",
        ),
        (
            (
                "Caused by: org.apache.spark.SparkException: \nError from python worker:\n  /usr/bin/python: no\n"
                f"PYTHONPATH was:\n  /a:/b\norg.apache.spark.SparkException: {_PORT}\n{_STACK}"
            ),
            f"/usr/bin/python: no{_REMEDY}",
        ),
        (
            f"x\nCaused by: org.apache.spark.SparkException: {_PORT}\n{_STACK}",
            f"EOFException occurred while reading the port number from pyspark.daemon's stdout{_REMEDY}",
        ),
        ("\n  the session was stopped \nlong ago", "the session was stopped"),
        ("", "RuntimeError"),
        (traceback("").rstrip(), "Traceback (most recent call last):"),
    ],
)
def test_the_message_has_the_cause(text: str, expected: str | None) -> None:
    error = failure_message(RuntimeError(text))
    if expected is None:
        expected = text.rstrip().splitlines()[-1].rstrip(".") + _REMEDY
    assert error == f"the Spark job failed: {expected}"


def test_errors_of_hindex_in_a_task_keep_their_message() -> None:
    text = traceback("hindex.errors.BuildError: index build failed on data file 'x': No module named 'lz4'")
    assert failure_message(RuntimeError(text)) == "index build failed on data file 'x': No module named 'lz4'"


def test_the_message_is_the_last_error_of_hindex() -> None:
    cause = traceback("hindex.errors.OrcError: bad footer")
    text = f"{cause}\nThe above exception was the direct cause of the following exception:\n\n"
    text += traceback("hindex.errors.BuildError: index build failed on data file 'x': bad footer")
    assert failure_message(RuntimeError(text)) == "index build failed on data file 'x': bad footer"
