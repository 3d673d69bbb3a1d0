"""Running a Spark job whose rows come back here, with its progress told, and stopped when nobody waits any more."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.errors import BuildError, HindexError
from hindex.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL_SECONDS = 0.2


def collect(spark: SparkSession, frame: DataFrame, build_id: str, progress: Progress, total: int) -> pa.Table:
    """What the tasks of a build return. Where it fails or is interrupted, its Spark jobs are stopped.

    :param total: how many tasks the progress counts.
    :raises BuildError: if a task failed; the message is the task's own.
    """
    tag = f"hindex-build-{build_id}"
    done, succeeded = threading.Event(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(spark, done, succeeded, progress, total), daemon=True)
    watcher.start()
    spark.addTag(tag)
    try:
        table = frame.toArrow()
        succeeded.set()
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
        done.set()
        watcher.join()
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


def _watch(
    spark: SparkSession, done: threading.Event, succeeded: threading.Event, progress: Progress, total: int
) -> None:
    """Report finished tasks until the job ends; where the session does not tell, only its success is reported."""
    told = 0
    context = getattr(spark, "_sc", None)
    while not done.wait(_POLL_SECONDS):
        if context is None:
            continue
        tracker = context.statusTracker()
        infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        finished = max((info.numCompletedTasks for info in infos if info is not None), default=0)
        if told < finished <= total:
            progress.advance(finished - told)
            told = finished
    if told < total and succeeded.is_set():
        progress.advance(total - told)


def _build_error(error: Exception) -> BuildError:
    """The error of a failed Spark job, in one line: what the task said, where it can be found."""
    text = str(error)
    mark = "hindex.errors.BuildError: "
    at = text.find(mark)
    if at >= 0:
        return BuildError(text[at + len(mark) :].splitlines()[0])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return BuildError(f"the Spark job failed: {first}")
