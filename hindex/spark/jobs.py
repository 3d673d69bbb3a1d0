"""Spark jobs that hindex starts: their descriptions, progress, interruption, and failures in one line."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import pyarrow as pa

from hindex import errors
from hindex.errors import BuildError, HindexError
from hindex.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

_DESCRIPTION = "spark.job.description"

#: Remedy for workers whose Python lacks hindex.
WORKER_REMEDY = (
    "Spark's Python workers need a Python that has hindex: start the session with PYSPARK_PYTHON={python} in the "
    "environment; on a cluster without such a file, pack an environment and pass it with --archives "
    "(docs/spark-clusters.md)"
)

_JAVA_CAUSE = re.compile(r"^Caused by: (.+)$", re.MULTILINE)
_NO_PROGRAM = "Cannot run program "
#: Errors of workers whose Python is not the one that hindex is installed in, or does not exist.
_WRONG_PYTHON = re.compile(rf"No module named |PYTHON_VERSION_MISMATCH|PACKAGE_NOT_INSTALLED|{_NO_PROGRAM}")
#: Spark's message about a Python worker that exited at its start: with its output, and without any.
_EARLY_EXIT = re.compile(r"^Error from python worker:\n(.*?)^PYTHONPATH was:", re.MULTILINE | re.DOTALL)
_SILENT_EXIT = re.compile(r"\S+ occurred while reading the port number from \S+ stdout")
#: An error of hindex in the last line of a Python traceback.
_HINDEX_ERROR = re.compile(r"\bhindex\.errors\.(\w+): (.+)$", re.MULTILINE)
#: Spark's own error about a deleted data file.
_DELETED_FILE = re.compile(r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] .*? file (\S+?)\. File does not exist")


@contextlib.contextmanager
def job_description(spark: SparkSession, text: str) -> Iterator[None]:
    """Describe the jobs that this thread starts in the block as ``hindex: <text>``.

    Spark's UI and listeners show it as the description of the jobs, Spark Connect as a tag of the operations. The
    caller's own description and tags are restored afterwards.
    """
    text = f"hindex: {' '.join(text.split())}"
    if is_connect(spark):
        # commas separate tags
        tag = text.replace(",", ";")
        is_set = tag in spark.getTags()
        spark.addTag(tag)
        try:
            yield
        finally:
            if not is_set:
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
    """Return True if the session is one of Spark Connect."""
    return getattr(spark, "_sc", None) is None


def is_interrupt(error: BaseException) -> bool:
    """Return True if Ctrl-C caused an error: PySpark raises the cancellation of its job instead."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def worker_remedy() -> str:
    """Return the remedy for workers whose Python lacks hindex, with the Python of this process."""
    return WORKER_REMEDY.format(python=sys.executable)


def failure_message(error: BaseException) -> str:
    """Return the cause of a failed Spark job in one line.

    The cause is the message of an error that hindex raised in a task, else the last line of the worker's traceback,
    else the innermost Java cause, with the remedy if the workers' Python is the wrong one.
    """
    text = str(error)
    raised = raised_in_task(error)
    if raised is not None:
        return str(raised)
    exit_output = _early_exit(text)
    cause = exit_output or _last_of_traceback(text) or _innermost_cause(text) or first_line(error)
    if exit_output is None and _WRONG_PYTHON.search(cause) is None:
        return f"the Spark job failed: {cause}"
    return f"the Spark job failed: {cause.rstrip('.')}. {worker_remedy()}"


def raised_in_task(error: BaseException) -> HindexError | None:
    """Return the last error that hindex raised in a task of a failed Spark job; None for other failures.

    Spark's own error about a deleted data file, of a hundred lines, counts as one.
    """
    text = str(error)
    raised = _HINDEX_ERROR.findall(text)
    if not raised:
        deleted = _DELETED_FILE.search(text)
        if deleted is None:
            return None
        return errors.DeletedFileError(
            f"data file {unquote(deleted[1])!r} was deleted after Spark listed its table: run the query again, after "
            "REFRESH TABLE if it names a table of the catalog"
        )
    name, message = raised[-1]
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, HindexError) and kind is not errors.OrcError:
        return kind(message)
    return HindexError(message)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message: of a Spark error, without plan and stack trace."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _early_exit(text: str) -> str | None:
    """Return the last output of a Python worker that exited at its start; None if none did."""
    block = _EARLY_EXIT.search(text)
    lines = [line.strip() for line in block[1].splitlines() if line.strip()] if block else []
    silent = _SILENT_EXIT.search(text)
    return lines[-1] if lines else silent[0] if silent else None


def _last_of_traceback(text: str) -> str | None:
    """Return the line below the frames of the last traceback of a Python worker."""
    _, mark, traceback = text.rpartition("Traceback (most recent call last):")
    return next((line for line in traceback.splitlines() if line[:1].strip()), None) if mark else None


def _innermost_cause(text: str) -> str | None:
    """Return the innermost cause of a Java stack trace; for a missing program, the cause that names it."""
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return None
    named = (cause for cause in reversed(causes) if _NO_PROGRAM in cause)
    return str(next(named, causes[-1])).strip()


_POLL_SECONDS = 0.2

_LOG = logging.getLogger("hindex.build")


def collect(spark: SparkSession, frame: DataFrame, build_id: str, progress: Progress, total: int) -> pa.Table:
    """Run the Spark job of a build and collect the results of its tasks.

    A failure or interruption stops the Spark jobs of the build.

    Args:
        total: number of tasks, for the progress.

    Raises:
        BuildError: if a task failed; the message is the task's own.
    """
    tag = f"hindex-build-{build_id}"
    counter = _TaskCounter(progress, total)
    stop = _listen_to_server(spark, counter) if is_connect(spark) else _poll_in_thread(spark, counter)
    spark.addTag(tag)
    try:
        table = frame.toArrow()
        counter.update(total)
        return table
    except BaseException as error:
        # Spark would go on with the job and write index files
        try:
            spark.interruptTag(tag)
        except Exception as failure:  # noqa: BLE001 the first error is the one to raise
            _LOG.warning(
                "Spark may go on with a failed build: interrupting it failed: %s", first_line(failure)
            )
        if isinstance(error, HindexError) or not isinstance(error, Exception):
            raise
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        # the Java stack trace, of a hundred lines, goes to the log only
        _LOG.debug("a Spark job of a build failed", exc_info=error)
        raise BuildError(failure_message(error)) from None
    finally:
        stop()
        with contextlib.suppress(Exception):
            spark.removeTag(tag)


class _TaskCounter:
    """The highest number of finished tasks that any stage has reported."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._finished = 0
        self._lock = threading.Lock()

    def update(self, finished: int) -> None:
        """Advance the progress to a number of finished tasks; a lower number than before is ignored."""
        with self._lock:
            if self._finished < finished <= self._total:
                self._progress.advance(finished - self._finished)
                self._finished = finished


def _listen_to_server(spark: SparkSession, counter: _TaskCounter) -> Callable[[], None]:
    """Count finished tasks by the reports of a Spark Connect server; return a function that stops it."""

    def handle(stages: Iterable[Any] | None, **_: object) -> None:
        counter.update(max((stage.num_completed_tasks for stage in stages or ()), default=0))

    spark.registerProgressHandler(cast("ProgressHandler", handle))
    return lambda: spark.removeProgressHandler(cast("ProgressHandler", handle))


def _poll_in_thread(spark: SparkSession, counter: _TaskCounter) -> Callable[[], None]:
    """Count finished tasks by polling the session in a thread; return a function that stops it."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            tracker = spark.sparkContext.statusTracker()
            infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            counter.update(max((info.numCompletedTasks for info in infos if info is not None), default=0))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()

    def stop() -> None:
        done.set()
        thread.join()

    return stop
