"""Running a Spark job whose rows come back here, with its progress told, and stopped when nobody waits any more."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from hindex.errors import BuildError, HindexError
from hindex.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

_POLL_SECONDS = 0.2

_JAVA_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_NO_PROGRAM = "Cannot run program "
#: What is said where the workers' Python is not the one that hindex is installed in, or is not there.
_WRONG_PYTHON = re.compile(rf"No module named |PYTHON_VERSION_MISMATCH|PACKAGE_NOT_INSTALLED|{_NO_PROGRAM}")
#: What Spark writes around the words of a Python that ended before it worked, and says where it said none.
_BEFORE_WORK = re.compile(r"^Error from python worker:\n(.*?)^PYTHONPATH was:", re.MULTILINE | re.DOTALL)
_NO_WORDS = re.compile(r"\S+ occurred while reading the port number from \S+ stdout")
_WORKER_REMEDY = (
    ". Spark's Python workers need a Python that has hindex: start the session with PYSPARK_PYTHON={python} in the "
    "environment; on a cluster that has no such file, see Clusters in docs/spark.md"
)


def collect(spark: SparkSession, frame: DataFrame, build_id: str, progress: Progress, total: int) -> pa.Table:
    """What the tasks of a build return. Where it fails or is interrupted, its Spark jobs are stopped.

    :param total: how many tasks the progress counts.
    :raises BuildError: if a task failed; the message is the task's own.
    """
    tag = f"hindex-build-{build_id}"
    told = _Told(progress, total)
    stop = _watched_by_server(spark, told) if _is_connect(spark) else _watched_by_thread(spark, told)
    spark.addTag(tag)
    try:
        table = frame.toArrow()
        told.finished(total)
        return table
    except BaseException as error:
        # Spark does not notice that nobody waits for its job any more: it would go on to write index files
        with contextlib.suppress(Exception):
            spark.interruptTag(tag)
        if isinstance(error, HindexError) or not isinstance(error, Exception):
            raise
        if _was_interrupted(error):
            raise KeyboardInterrupt from error
        raise _build_error(error) from error
    finally:
        stop()
        with contextlib.suppress(Exception):
            spark.removeTag(tag)


def _was_interrupted(error: BaseException) -> bool:
    """Whether an error arose while Ctrl-C was handled: PySpark raises the end of its job in its place."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


class _Told:
    """What the progress has been told: the most tasks that any stage had finished."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._told = 0
        self._lock = threading.Lock()

    def finished(self, tasks: int) -> None:
        """Say that so many tasks have ended; fewer than before say nothing."""
        with self._lock:
            if self._told < tasks <= self._total:
                self._progress.advance(tasks - self._told)
                self._told = tasks


def _is_connect(spark: SparkSession) -> bool:
    return getattr(spark, "_sc", None) is None


def _watched_by_server(spark: SparkSession, told: _Told) -> Callable[[], None]:
    """Hear from a Spark Connect server how far the session's jobs are; what ends that is returned."""

    def handle(stages: Iterable[Any] | None, **_: object) -> None:
        told.finished(max((stage.num_completed_tasks for stage in stages or ()), default=0))

    spark.registerProgressHandler(cast("ProgressHandler", handle))
    return lambda: spark.removeProgressHandler(cast("ProgressHandler", handle))


def _watched_by_thread(spark: SparkSession, told: _Told) -> Callable[[], None]:
    """Look from time to time how far the session's jobs are; what ends that is returned."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            tracker = spark.sparkContext.statusTracker()
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            told.finished(max((info.numCompletedTasks for info in infos if info is not None), default=0))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()

    def stop() -> None:
        done.set()
        watcher.join()

    return stop


def _build_error(error: Exception) -> BuildError:
    """The error of a failed Spark job, in one line: what the task said, where it can be found."""
    text = str(error)
    mark = "hindex.errors.BuildError: "
    at = text.find(mark)
    if at >= 0:
        return BuildError(text[at + len(mark) :].splitlines()[0])
    before_work = _of_worker_that_did_not_start(text)
    told = before_work or _of_worker(text) or _of_java(text)
    if told is None:
        told = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    is_wrong_python = before_work is not None or _WRONG_PYTHON.search(told) is not None
    remedy = _WORKER_REMEDY.format(python=sys.executable) if is_wrong_python else ""
    return BuildError(f"the Spark job failed: {told.rstrip('.') if remedy else told}{remedy}")


def _of_worker_that_did_not_start(text: str) -> str | None:
    """What the Python of a worker said last before it ended, or that it ended."""
    block = _BEFORE_WORK.search(text)
    lines = [line.strip() for line in block[1].splitlines() if line.strip()] if block else []
    ended = _NO_WORDS.search(text)
    return lines[-1] if lines else ended[0] if ended else None


def _of_worker(text: str) -> str | None:
    """What a Python worker raised last: the line below the frames of the last traceback."""
    _, found, traceback = text.rpartition("Traceback (most recent call last):")
    return next((line for line in traceback.splitlines() if line[:1].strip()), None) if found else None


def _of_java(text: str) -> str | None:
    """The innermost cause of a Java stack, but of a program that is not there the one that names it."""
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    named = (cause for cause in reversed(causes) if _NO_PROGRAM in cause)
    return str(next(named, causes[-1])).strip()
