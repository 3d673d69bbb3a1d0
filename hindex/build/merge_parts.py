"""Putting together the index files that several tasks wrote for one data file: what an executor runs.

Nothing here knows Spark's session or SQL.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from hindex.build.task import IndexTarget, index_file_name
from hindex.build.task_errors import FAILURES, Place
from hindex.errors import IndexFileError
from hindex.index.index_file import IndexFileReader
from hindex.index.merge import merge_index_files
from hindex.index.page_cache import Cache
from hindex.orc.io.source import open_source
from hindex.store.build_files import StagedFile
from hindex.store.storage import open_storage


@dataclass(frozen=True, slots=True)
class PartFile:
    """An index file of some stripes: its name in the index's directory, bytes, and the crc32c of its footer."""

    name: str
    length: int
    footer_checksum: int


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Make one index file of parts, which are in the order of their stripes. ``path`` is the data file's."""

    build_id: str
    path: str
    target: IndexTarget
    parts: tuple[PartFile, ...]


#: What a task returns: one row.
JOINED_SCHEMA = pa.schema(
    [
        pa.field("data_file", pa.string()),
        pa.field("index_id", pa.string()),
        pa.field("path", pa.string()),
        pa.field("length", pa.int64()),
        pa.field("footer_checksum", pa.int64()),
    ]
)


def run_merge_task(task: MergeTask) -> Iterator[pa.RecordBatch]:
    """Write the file under a fresh name. The parts stay, for a task that is run again.

    :raises BuildError: naming the data file.
    """
    name = index_file_name(task.build_id)
    try:
        with contextlib.ExitStack() as opened:
            parts = opened.enter_context(contextlib.closing(_opened(task)))
            file = opened.enter_context(contextlib.closing(StagedFile(task.target.absolute_directory, name)))
            length, checksum = merge_index_files(file.sink, parts)
            file.publish()
    except FAILURES as error:
        raise Place.of(task.path).failed(error) from error
    row = (task.path, task.target.index_id, f"{task.target.directory}/{name}", length, checksum)
    yield pa.RecordBatch.from_arrays([[value] for value in row], schema=JOINED_SCHEMA)


def _opened(task: MergeTask) -> Generator[IndexFileReader]:
    """The parts, each open until the next one is asked for: there may be more than files that a process may open."""
    for part in task.parts:
        with contextlib.closing(_open(task, part)) as reader:
            yield reader


def _open(task: MergeTask, part: PartFile) -> IndexFileReader:
    path = f"{task.target.absolute_directory}/{part.name}"
    found = IndexFileReader(open_source(path), Cache(0))
    if (found.length, found.footer_crc32c) != (part.length, part.footer_checksum):
        found.close()
        raise IndexFileError(f"Index file {path!r} is not the one that was written; run the statement again")
    return found


def discard_parts(tasks: Iterable[MergeTask]) -> None:
    """Delete the parts of finished tasks; what cannot be deleted stays as garbage of the store."""
    for task in tasks:
        storage = open_storage(task.target.absolute_directory)
        for part in task.parts:
            with contextlib.suppress(OSError):
                storage.delete(part.name)
