"""Running a Spark job whose rows come back here, with its progress told, and stopped when nobody waits any more."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from hindex.errors import BuildError, HindexError
from hindex.progress import Progress
from hindex.spark.jobs import failure_message, is_connect, is_interrupt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.shell.progress import ProgressHandler

_POLL_SECONDS = 0.2

_LOG = logging.getLogger("hindex.build")


def collect(spark: SparkSession, frame: DataFrame, build_id: str, progress: Progress, total: int) -> pa.Table:
    """Run the tasks of a build and collect their results.

    On failure or interruption, the Spark jobs of the build are stopped.

    :param total: how many tasks the progress counts.
    :raises BuildError: if a task failed; the message is the task's own.
    """
    tag = f"hindex-build-{build_id}"
    told = _JobProgress(progress, total)
    stop = _watched_by_server(spark, told) if is_connect(spark) else _watched_by_thread(spark, told)
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
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        # the log has what Java says; below the one line it would be a hundred more
        _LOG.debug("a Spark job of a build failed", exc_info=error)
        raise BuildError(failure_message(error)) from None
    finally:
        stop()
        with contextlib.suppress(Exception):
            spark.removeTag(tag)


class _JobProgress:
    """The highest number of finished tasks that any stage has reported."""

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


def _watched_by_server(spark: SparkSession, told: _JobProgress) -> Callable[[], None]:
    """Hear from a Spark Connect server how far the session's jobs are; what ends that is returned."""

    def handle(stages: Iterable[Any] | None, **_: object) -> None:
        told.finished(max((stage.num_completed_tasks for stage in stages or ()), default=0))

    spark.registerProgressHandler(cast("ProgressHandler", handle))
    return lambda: spark.removeProgressHandler(cast("ProgressHandler", handle))


def _watched_by_thread(spark: SparkSession, told: _JobProgress) -> Callable[[], None]:
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
