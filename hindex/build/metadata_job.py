"""The Spark job of a build that copies the metadata of remote data files into the store."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import google_crc32c
import pyarrow as pa

from hindex.build.task import TASK_ERRORS, ErrorLocation
from hindex.errors import HindexError
from hindex.orc.io.file_system import open_source
from hindex.orc.io.source import RequestSource
from hindex.orc.io.thread_pool import ThreadPool
from hindex.progress import Progress
from hindex.scan.task_runner import is_deleted_file
from hindex.spark.jobs import collect
from hindex.spark.tasks import cores, task_frame
from hindex.store.file_views import FileView
from hindex.store.manifest import MetadataCopy
from hindex.store.metadata_copy import FileVersion, copy_metadata
from hindex.store.storage import open_storage
from hindex.store.store import METADATA, Store
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Data files that a task reads at once, and the maximum for one task, whose copies are one file.
_FILES_AT_ONCE = 16
_MAX_TASK_FILES = 1024


@value_class
class CopiedFile:
    """A version of a data file whose metadata is copied."""

    path: str
    uri: str
    length: int
    version: str


@value_class
class MetadataPlan:
    """The data files of a build whose metadata is copied."""

    build_id: str
    store: Store
    files: tuple[CopiedFile, ...]

    @property
    def absolute_directory(self) -> str:
        """Return where the copies are written."""
        return self.store.absolute(METADATA)


#: Schema of the results: a row for each data file.
COPIES_SCHEMA = pa.schema(
    [
        pa.field("data_file", pa.string()),
        pa.field("tail_checksum", pa.int64()),
        pa.field("version", pa.string()),
        pa.field("path", pa.string()),
        pa.field("file_length", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("checksum", pa.int64()),
    ]
)


def plan_metadata(
    store: Store, build_id: str, views: Iterable[FileView], *, copies_again: bool
) -> tuple[dict[str, FileVersion], MetadataPlan | None]:
    """Return the versions of the data files in object stores, by path, and the plan to copy metadata.

    Args:
        copies_again: copy the metadata of all files, also where the store has a copy.
    """
    versions: dict[str, FileVersion] = {}
    missing = {}
    for view in views:
        file = view.file
        # object stores have versions of this type, and serve no other version to a request that names one
        if not isinstance(file.version, str) or file.acid is not None:
            continue
        copy = None if copies_again else view.metadata_copy
        if copy is None:
            missing[file.path] = CopiedFile(file.path, file.uri, file.length, file.version)
        versions[file.path] = FileVersion(file.version, None if copy is None else store.locate(copy))
    return versions, MetadataPlan(build_id, store, tuple(missing.values())) if missing else None


def run_metadata_job(
    spark: SparkSession, plan: MetadataPlan, progress: Progress
) -> Mapping[str, tuple[int, MetadataCopy]]:
    """Copy the metadata of data files.

    Returns:
        for each data file's path, the checksum of its tail and the copy.
    """
    size = min(max(-(-len(plan.files) // cores(spark)), _FILES_AT_ONCE), _MAX_TASK_FILES)
    tasks = [plan.files[at : at + size] for at in range(0, len(plan.files), size)]
    progress.start(len(tasks), "copying metadata", "task")
    try:
        table = _run_metadata_tasks(spark, plan, tasks, progress)
    finally:
        progress.finish()
    return {
        row["data_file"]: (
            row["tail_checksum"],
            MetadataCopy(
                row["version"], row["path"], row["file_length"], row["offset"], row["length"], row["checksum"]
            ),
        )
        for row in table.to_pylist()
    }


def _run_metadata_tasks(
    spark: SparkSession, plan: MetadataPlan, tasks: Sequence[Sequence[CopiedFile]], progress: Progress
) -> pa.Table:
    run = partial(run_metadata_task, plan.build_id, plan.absolute_directory)
    return collect(spark, task_frame(spark, tasks, run, COPIES_SCHEMA), plan.build_id, progress, len(tasks))


def run_metadata_task(build_id: str, directory: str, files: Sequence[CopiedFile]) -> Iterator[pa.RecordBatch]:
    """Write the copies of some data files as one file; yield a row for each data file.

    Raises:
        BuildError: naming the data file.
    """
    with ThreadPool(_FILES_AT_ONCE) as pool:
        copied = [(file, item) for file, item in zip(files, pool.map(_copy, files), strict=True) if item]
    name = f"{build_id}-{uuid.uuid4().hex}.metadata"
    data = b"".join(block for _, (_, block) in copied)
    if data:
        open_storage(directory).write({name: data})
    rows = []
    offset = 0
    for file, (tail_checksum, block) in copied:
        copy = MetadataCopy(
            file.version, f"{METADATA}/{name}", len(data), offset, len(block), google_crc32c.value(block)
        )
        rows.append({"data_file": file.path, "tail_checksum": tail_checksum, **asdict(copy)})
        offset += len(block)
    yield pa.RecordBatch.from_pylist(rows, schema=COPIES_SCHEMA)


def _copy(file: CopiedFile) -> tuple[int, bytes] | None:
    """Copy the metadata of a data file; None if the file was replaced: the build then fails on it."""
    try:
        source = open_source(file.uri, length=file.length, version=file.version)
        assert isinstance(source, RequestSource), "it has a version"
        try:
            return copy_metadata(source)
        finally:
            source.close()
    except TASK_ERRORS as error:
        if isinstance(error, HindexError) and is_deleted_file(error):
            return None
        raise ErrorLocation.in_data_file(file.path).build_error(error) from error
