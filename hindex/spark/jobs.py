"""Spark jobs that hindex starts: their descriptions, and their failures in one line."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hindex import errors
from hindex.errors import HindexError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"

#: How a worker's Python has to be set, by the end of a sentence.
WORKER_REMEDY = (
    "Spark's Python workers need a Python that has hindex: start the session with PYSPARK_PYTHON={python} in the "
    "environment; on a cluster without such a file, pack an environment and pass it with --archives (Clusters in "
    "docs/spark.md)"
)

_JAVA_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_NO_PROGRAM = "Cannot run program "
#: Errors of workers whose Python is not the one that hindex is installed in, or does not exist.
_WRONG_PYTHON = re.compile(rf"No module named |PYTHON_VERSION_MISMATCH|PACKAGE_NOT_INSTALLED|{_NO_PROGRAM}")
#: Spark's frame around the output of a Python that ended before it worked, and its message where there is no output.
_BEFORE_WORK = re.compile(r"^Error from python worker:\n(.*?)^PYTHONPATH was:", re.MULTILINE | re.DOTALL)
_NO_WORDS = re.compile(r"\S+ occurred while reading the port number from \S+ stdout")
#: An error of hindex as Python prints it below the frames of a traceback.
_HINDEX_ERROR = re.compile(r"\bhindex\.errors\.(\w+): (.+)$", re.MULTILINE)
#: Spark's own error where a data file is gone.
_DELETED_FILE = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .*? file (\S+?)\. File does not exist")


@contextlib.contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block as ``hindex: <text>``.

    In Spark's UI and listeners that is the description of the jobs, over Spark Connect a tag of the operations. The
    caller's own description and tags are as before afterwards.
    """
    text = f"hindex: {' '.join(text.split())}"
    if is_connect(spark):
        # a comma separates tags
        tag = text.replace(",", ";")
        is_callers = tag in spark.getTags()
        spark.addTag(tag)
        try:
            yield
        finally:
            if not is_callers:
                with contextlib.suppress(Exception):
                    spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(text)
    try:
        yield
    finally:
        # a session that was stopped meanwhile has no properties
        with contextlib.suppress(Exception):
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]


def is_connect(spark: SparkSession) -> bool:
    """True if the session is one of Spark Connect."""
    return getattr(spark, "_sc", None) is None


def is_interrupt(error: BaseException) -> bool:
    """True if an error arose while Ctrl-C was handled: PySpark raises the end of its job in its place."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def worker_remedy() -> str:
    """The remedy for workers whose Python lacks hindex, with the Python of this process."""
    return WORKER_REMEDY.format(python=sys.executable)


def failure_message(error: BaseException) -> str:
    """The cause of a failed Spark job in one line.

    That is the message of the error where hindex raised it in a task, else the last line of the worker's traceback or
    the innermost cause of Java, with the remedy where the workers' Python is the wrong one.
    """
    text = str(error)
    raised = raised_in_task(error)
    if raised is not None:
        return str(raised)
    before_work = _early_exit(text)
    cause = before_work or _last_of_traceback(text) or _innermost_cause(text)
    if cause is None:
        cause = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    if before_work is None and _WRONG_PYTHON.search(cause) is None:
        return f"the Spark job failed: {cause}"
    return f"the Spark job failed: {cause.rstrip('.')}. {worker_remedy()}"


def raised_in_task(error: BaseException) -> HindexError | None:
    """The last error that hindex raised in a task of a failed Spark job, in one line; None for other failures.

    Spark's own error about a deleted data file, of a hundred lines, counts as one.
    """
    text = str(error)
    found = _HINDEX_ERROR.findall(text)
    if not found:
        deleted = _DELETED_FILE.search(text)
        if deleted is None:
            return None
        return errors.DeletedFileError(
            f"data file {unquote(deleted[1])!r} was deleted after Spark listed its table: run the query again, after "
            "REFRESH TABLE if it names a table of the catalog"
        )
    name, message = found[-1]
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HindexError) and kind is not errors.OrcError:
        return kind(message)
    return HindexError(message)


def _early_exit(text: str) -> str | None:
    """The last output of a worker's Python that ended before it worked, or that it ended."""
    block = _BEFORE_WORK.search(text)
    lines = [line.strip() for line in block[1].splitlines() if line.strip()] if block else []
    ended = _NO_WORDS.search(text)
    return lines[-1] if lines else ended[0] if ended else None


def _last_of_traceback(text: str) -> str | None:
    """The line below the frames of the last traceback of a Python worker."""
    _, mark, traceback = text.rpartition("Traceback (most recent call last):")
    return next((line for line in traceback.splitlines() if line[:1].strip()), None) if mark else None


def _innermost_cause(text: str) -> str | None:
    """The innermost cause of a Java stack; of a missing program, the cause that names it."""
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    named = (cause for cause in reversed(causes) if _NO_PROGRAM in cause)
    return str(next(named, causes[-1])).strip()
