"""Split a build into Spark tasks: large data files between stripes, small ones together.

A task's size is the bytes that the indexed columns take in its stripes, and something for each file. So that all
processors end at about the same time, each gets several tasks; a file that is larger than such a share is cut.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from hindex.errors import BuildError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The Spark setting for how many bytes of the indexed columns one task has, about.
TASK_BYTES_SETTING = "spark.hindex.build.taskBytes"

#: Spark tasks for each processor: some end sooner than others.
TASKS_PER_CORE = 3
#: Files below this are not cut for balance, and tasks above it are not made of several files.
CUT_FROM = 4 << 20
MOST_BYTES = 64 << 20
#: What opening a data file and making its index files costs, in bytes of a column.
FILE_BYTES = 1 << 20

_SIZE = re.compile(r"([0-9]+) *([kmgt]?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sized(Generic[T]):
    """Something to index: a data file.

    :ivar weight: bytes of its indexed columns, about.
    :ivar stripes: asked only of files that may be cut: about how large each stripe is, in any unit; empty where
        the file cannot be cut.
    """

    what: T
    weight: int
    stripes: Callable[[], Sequence[int]]


@dataclass(frozen=True, slots=True)
class TaskPart(Generic[T]):
    """Stripes of a data file from ``first`` up to ``end``; all of them, however many, where that is None."""

    what: T
    weight: int
    first: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The target size of tasks, in bytes of the indexed columns.

    :ivar cut: files that are larger are cut into pieces of this size or less, where stripes allow.
    :ivar task: pieces are put together up to this size, with what each file costs beside its bytes.
    """

    cut: int
    task: int

    @classmethod
    def of(cls, weights: Sequence[int], cores: int, task_bytes: int | None = None) -> Target:
        """For files of some weights.

        :param task_bytes: what the user asked for, if anything.
        """
        if task_bytes is not None:
            return cls(task_bytes, task_bytes)
        share = sum(weight + FILE_BYTES for weight in weights) // (max(cores, 1) * TASKS_PER_CORE)
        return cls(max(share, CUT_FROM), min(share, MOST_BYTES))


def task_bytes(spark: SparkSession) -> int | None:
    """Return the task size that the session configures, or None.

    :raises BuildError: if that is no size.
    """
    text = spark.conf.get(TASK_BYTES_SETTING, None)
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) * _FACTORS[found[2].lower()] if found else 0
    if not size:
        raise BuildError(f"{TASK_BYTES_SETTING} is {text!r}: a number of bytes is expected, such as 64m")
    return size


def cut(
    files: Sequence[Sized[T]], cores: int, task_bytes: int | None = None
) -> list[tuple[TaskPart[T], ...]]:
    """The pieces of all files, put together to tasks: the largest first, so that none is left for the end.

    :param cores: how many tasks run at a time.
    :param task_bytes: how large tasks are to be, if the user says so.
    """
    target = Target.of([file.weight for file in files], cores, task_bytes)
    pieces = [piece for file in files for piece in _pieces(file, target.cut)]
    pieces.sort(key=lambda piece: -piece.weight)
    tasks: list[tuple[TaskPart[T], ...]] = []
    current: list[TaskPart[T]] = []
    held = 0
    for piece in pieces:
        size = piece.weight + FILE_BYTES
        if current and held + size > target.task:
            tasks.append(tuple(current))
            current, held = [], 0
        current.append(piece)
        held += size
    if current:
        tasks.append(tuple(current))
    return tasks


def _pieces(file: Sized[T], target: int) -> Iterator[TaskPart[T]]:
    stripes = file.stripes() if file.weight > target else ()
    count = min(-(-file.weight // target), len(stripes))
    if count < 2:
        yield TaskPart(file.what, file.weight)
        return
    sums = list(accumulate(max(size, 1) for size in stripes))
    # a piece ends with the stripe in which its share does; a long stripe may be the end of several
    ends = sorted({bisect_left(sums, sums[-1] * piece / count) + 1 for piece in range(1, count + 1)})
    if len(ends) < 2:
        # the last stripe has it all
        yield TaskPart(file.what, file.weight)
        return
    for first, end in pairwise([0, *ends]):
        size = sums[end - 1] - (sums[first - 1] if first else 0)
        yield TaskPart(file.what, file.weight * size // sums[-1], first, end)
