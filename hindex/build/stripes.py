"""The tasks of a build as Spark gets them: what data files weigh, and where they may be cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from hindex.build.btree_task import BTreeJob, EntryTask, ReadTask
from hindex.build.task import BuildTask
from hindex.build.task_errors import FAILURES, Place
from hindex.build.task_splitting import CUT_FROM, Sized, TaskPart, cut
from hindex.index.merge import is_merging
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.metadata.file_tail import FileTail
from hindex.table.file_schema import bind_paths
from hindex.table.transactional import open_data_file


def cut_tasks(
    tasks: Sequence[BuildTask], cores: int, task_bytes: int | None = None
) -> list[tuple[BuildTask, ...]]:
    """The tasks of all data files, one at least, cut and put together to tasks of about the same size.

    What files weigh is told by their lengths, and by the share of the indexed columns in one stripe of the longest;
    of files that are to be cut, the tail is read.

    :param cores: how many tasks run at a time.
    :param task_bytes: bytes of the indexed columns in one task, where the user wants that.
    :raises BuildError: if a file cannot be read.
    """
    share = 1.0
    if task_bytes is not None or sum(task.length for task in tasks) > CUT_FROM:
        longest = max(tasks, key=lambda task: task.length)
        columns = [target.column for target in longest.targets]
        share = _column_share(longest.path, longest.uri, longest.acid, longest.binding, columns)
    checksums: dict[str, int] = {}

    def stripes(task: BuildTask) -> Sequence[int]:
        if not all(is_merging(target.type) for target in task.targets):
            return ()
        try:
            with task.open() as reader:
                checksums[task.path] = reader.tail.checksum
                return [stripe.data_length for stripe in reader.tail.stripes]
        except FAILURES as error:
            raise Place.of(task.path).failed(error) from error

    def part(piece: TaskPart[BuildTask]) -> BuildTask:
        task = piece.what
        if piece.end is None:
            return task
        return replace(task, first=piece.first, end=piece.end, tail_checksum=checksums[task.path])

    sized = [Sized(task, round(task.length * share), partial(stripes, task)) for task in tasks]
    return [tuple(map(part, some)) for some in cut(sized, cores, task_bytes)]


def cut_entry_tasks(
    tasks: Sequence[EntryTask],
    job: BTreeJob,
    tails: Mapping[str, FileTail],
    cores: int,
    task_bytes: int | None = None,
) -> list[tuple[EntryTask, ...]]:
    """As :func:`cut_tasks`, of a BTREE index.

    :param tails: of the data files that are read, by path.
    """
    reads = [task for task in tasks if isinstance(task, ReadTask)]
    share = 1.0
    if reads and (task_bytes is not None or sum(tail.file_length for tail in tails.values()) > CUT_FROM):
        longest = max(reads, key=lambda task: task.file.fingerprint.length)
        share = _column_share(longest.file.path, longest.uri, longest.acid, job.binding, [job.column])

    def size(task: EntryTask) -> Sized[EntryTask]:
        if not isinstance(task, ReadTask):
            return Sized(task, task.length, tuple)
        tail = tails[task.file.path]
        lengths = [stripe.data_length for stripe in tail.stripes]
        return Sized(task, round(tail.file_length * share), lambda: lengths)

    def part(piece: TaskPart[EntryTask]) -> EntryTask:
        if piece.end is None or not isinstance(piece.what, ReadTask):
            return piece.what
        return replace(piece.what, stripes=(piece.first, piece.end))

    return [tuple(map(part, some)) for some in cut([size(task) for task in tasks], cores, task_bytes)]


def _column_share(
    path: str, uri: str, acid: AcidFile | None, binding: tuple[str, ...], columns: Iterable[str]
) -> float:
    """Estimate the share of some columns in the bytes of a data file, from its first stripe."""
    try:
        with open_data_file(uri, acid) as reader:
            if not reader.stripes:
                return 1.0
            found = bind_paths(binding, reader.tail.schema, columns, transactional=acid is not None)
            stripe = reader.stripe(0)
            wanted = sum(stripe.data_length(item.type.column) for item in found.values())
            return min(wanted / max(reader.tail.stripes[0].data_length, 1), 1.0)
    except FAILURES as error:
        raise Place.of(path).failed(error) from error
