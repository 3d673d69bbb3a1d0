"""Splitting of a build into Spark tasks: large data files between stripes, small ones together.

The size of a task is the bytes of the indexed columns in its stripes, plus a constant for each file. Each core gets
several tasks, so that all cores finish at about the same time; a file that is larger than such a share is split.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

from hindex.build.btree_task import BTreeJob, EntryTask, ReadTask
from hindex.build.task import TASK_ERRORS, BuildTask, ErrorLocation
from hindex.errors import BuildError
from hindex.index.merge import is_merging
from hindex.orc import OrcReader
from hindex.orc.metadata.file_tail import FileTail
from hindex.plan.index_columns import IndexColumn
from hindex.table.file_schema import bind_paths
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The Spark setting for the number of bytes of the indexed columns in a task.
TASK_BYTES_SETTING = "spark.hindex.build.taskBytes"

#: Spark tasks for each core, because tasks differ in duration.
TASKS_PER_CORE = 3
#: Minimum size of the pieces of a data file.
MIN_SPLIT_BYTES = 4 << 20
#: Maximum size of a task with several data files.
MAX_TASK_BYTES = 64 << 20
#: Cost of opening a data file and creating its index files, in bytes of a column.
FILE_BYTES = 128 << 10

_SIZE = re.compile(r"([0-9]+) *([kmgt]?)b?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

T = TypeVar("T")


@value_class
class SplitInput(Generic[T]):
    """A data file to index.

    Attributes:
        weight: estimated bytes of its indexed columns.
        stripes: returns the relative sizes of the stripes, empty if the file cannot be split; called only for large
            files.
    """

    item: T
    weight: int
    stripes: Callable[[], Sequence[int]]


@value_class
class Piece(Generic[T]):
    """The stripes ``[first, end)`` of a data file; with ``end`` None, the whole file."""

    item: T
    weight: int
    first: int = 0
    end: int | None = None


@value_class
class SizeLimits:
    """Maximum sizes in bytes of the indexed columns.

    Attributes:
        piece: larger files are split into pieces of this size or less, as far as stripes allow.
        task: pieces are combined up to this size, including `FILE_BYTES` for each.
    """

    piece: int
    task: int

    @classmethod
    def for_weights(cls, weights: Sequence[int], cores: int, task_bytes: int | None = None) -> SizeLimits:
        """Return the limits for files of some weights.

        Args:
            task_bytes: the configured size of tasks, if any.
        """
        if task_bytes is not None:
            return cls(task_bytes, task_bytes)
        share = sum(weight + FILE_BYTES for weight in weights) // (max(cores, 1) * TASKS_PER_CORE)
        return cls(max(share, MIN_SPLIT_BYTES), min(share, MAX_TASK_BYTES))


def task_bytes(spark: SparkSession) -> int | None:
    """Return the configured size of tasks, or None.

    Raises:
        BuildError: if the setting is no size.
    """
    text = spark.conf.get(TASK_BYTES_SETTING, None)
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _FACTORS[match[2].lower()] if match else 0
    if not size:
        raise BuildError(f"{TASK_BYTES_SETTING} is {text!r}: a number of bytes is expected, such as 64m")
    return size


def split_tasks(
    files: Sequence[SplitInput[T]], cores: int, task_bytes: int | None = None
) -> list[tuple[Piece[T], ...]]:
    """Split large files and combine the pieces to tasks, the largest first, so that none starts last.

    Small files stay in their order, so that those of one directory come into one task.

    Args:
        cores: number of tasks that run at a time.
        task_bytes: the configured size of tasks, if any.
    """
    limits = SizeLimits.for_weights([file.weight for file in files], cores, task_bytes)
    pieces = [piece for file in files for piece in _pieces(file, limits.piece)]
    pieces.sort(key=lambda piece: -max(piece.weight, MIN_SPLIT_BYTES))
    tasks: list[tuple[Piece[T], ...]] = []
    current: list[Piece[T]] = []
    current_bytes = 0
    for piece in pieces:
        size = piece.weight + FILE_BYTES
        if current and current_bytes + size > limits.task:
            tasks.append(tuple(current))
            current, current_bytes = [], 0
        current.append(piece)
        current_bytes += size
    if current:
        tasks.append(tuple(current))
    return tasks


def _pieces(file: SplitInput[T], max_bytes: int) -> Iterator[Piece[T]]:
    stripes = file.stripes() if file.weight > max_bytes else ()
    count = min(-(-file.weight // max_bytes), len(stripes))
    if count < 2:
        yield Piece(file.item, file.weight)
        return
    sums = list(accumulate(max(size, 1) for size in stripes))
    # a piece ends with the stripe in which its share ends; a long stripe may end several shares
    ends = sorted({bisect_left(sums, sums[-1] * piece / count) + 1 for piece in range(1, count + 1)})
    if len(ends) < 2:
        # nearly all bytes are in the last stripe
        yield Piece(file.item, file.weight)
        return
    for first, end in pairwise([0, *ends]):
        size = sums[end - 1] - (sums[first - 1] if first else 0)
        yield Piece(file.item, file.weight * size // sums[-1], first, end)


def split_build_tasks(
    tasks: Sequence[BuildTask], cores: int, task_bytes: int | None = None
) -> list[tuple[BuildTask, ...]]:
    """Split the build tasks of data files, at least one, and combine them to Spark tasks of about the same size.

    The weight of a file is its length times the share of the indexed columns in one stripe of the longest file. The
    tail of a file is read only if the file is split.

    Args:
        cores: number of tasks that run at a time.
        task_bytes: the configured size of tasks, if any.

    Raises:
        BuildError: if a file cannot be read.
    """
    share = 1.0
    if task_bytes is not None or sum(task.length for task in tasks) > MIN_SPLIT_BYTES:
        longest = max(tasks, key=lambda task: task.length)
        columns = [target.on for target in longest.targets]
        share = _column_share(longest.path, longest.open, longest.acid is not None, longest.binding, columns)
    checksums: dict[str, int] = {}

    def stripes(task: BuildTask) -> Sequence[int]:
        if not all(is_merging(target.type) for target in task.targets):
            return ()
        try:
            with task.open() as reader:
                checksums[task.path] = reader.tail.checksum
                return [stripe.data_length for stripe in reader.tail.stripes]
        except TASK_ERRORS as error:
            raise ErrorLocation.in_data_file(task.path).build_error(error) from error

    def part(piece: Piece[BuildTask]) -> BuildTask:
        task = piece.item
        if piece.end is None:
            return task
        return replace(task, first=piece.first, end=piece.end, tail_checksum=checksums[task.path])

    files = [SplitInput(task, round(task.length * share), partial(stripes, task)) for task in tasks]
    return [tuple(map(part, pieces)) for pieces in split_tasks(files, cores, task_bytes)]


def split_entry_tasks(
    tasks: Sequence[EntryTask],
    job: BTreeJob,
    tails: Mapping[str, FileTail],
    cores: int,
    task_bytes: int | None = None,
) -> list[tuple[EntryTask, ...]]:
    """Split and combine the tasks of a BTREE index, as `split_build_tasks` does.

    Args:
        tails: file tails of the data files, by path.
    """
    reads = [task for task in tasks if isinstance(task, ReadTask)]
    share = 1.0
    if reads and (
        task_bytes is not None or sum(tail.file_length for tail in tails.values()) > MIN_SPLIT_BYTES
    ):
        longest = max(reads, key=lambda task: task.file.length)
        share = _column_share(
            longest.file.path, longest.open, longest.acid is not None, job.binding, [job.on]
        )

    def split_input(task: EntryTask) -> SplitInput[EntryTask]:
        if not isinstance(task, ReadTask):
            return SplitInput(task, task.length, tuple)
        tail = tails[task.file.path]
        lengths = [stripe.data_length for stripe in tail.stripes]
        return SplitInput(task, round(tail.file_length * share), lambda: lengths)

    def part(piece: Piece[EntryTask]) -> EntryTask:
        if piece.end is None or not isinstance(piece.item, ReadTask):
            return piece.item
        return replace(piece.item, stripes=(piece.first, piece.end))

    groups = split_tasks([split_input(task) for task in tasks], cores, task_bytes)
    return [tuple(map(part, pieces)) for pieces in groups]


def _column_share(
    path: str,
    open_file: Callable[[], OrcReader],
    transactional: bool,
    binding: tuple[str, ...],
    columns: Iterable[IndexColumn],
) -> float:
    """Estimate the share of some columns in the bytes of a data file, from its first stripe."""
    try:
        with open_file() as reader:
            if not reader.stripes:
                return 1.0
            names = {item.name for column in columns for item in column.inputs}
            bound = bind_paths(binding, reader.tail.schema, names, transactional=transactional)
            stripe = reader.stripe(0)
            column_bytes = sum(stripe.data_length(column.type.column) for column in bound.values())
            return min(column_bytes / max(reader.tail.stripes[0].data_length, 1), 1.0)
    except TASK_ERRORS as error:
        raise ErrorLocation.in_data_file(path).build_error(error) from error
