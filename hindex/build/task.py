"""Building the index files of one data file: what an executor runs.

Nothing here knows Spark's session or SQL: executors import it for every task.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from hindex.build.statistics import StatisticsExtents
from hindex.errors import BuildError, HindexError
from hindex.index.base import ExtentBuilder, IndexBuilder, file_index_type
from hindex.orc import OrcReader, OrcType
from hindex.orc.acid.files import AcidFile, open_file
from hindex.store.extents import encode_extents
from hindex.store.new_files import NewFile
from hindex.table.paths import bind_paths
from hindex.table.type_text import type_text


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """One index file to write: its directory relative to the store, and the same absolute.

    Each attempt of a task writes under a fresh name, so that a retried or duplicated one disturbs nothing.
    """

    index_id: str
    index: str
    type: str
    column: str
    properties: tuple[tuple[str, str], ...]
    directory: str
    absolute_directory: str


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Build index files for one data file, reading each of its columns once for all of them.

    ``binding`` names the table's data columns, against which the file's own are matched. Of a transactional table,
    all rows are indexed, those that are deleted too: queries leave these out. Names of the files
    written begin with ``build_id``, so that what a failed build left can be told from the rest.
    """

    build_id: str
    path: str
    uri: str
    length: int
    mtime_ns: int
    binding: tuple[str, ...]
    targets: tuple[IndexTarget, ...]
    changed_ns: int = 0
    acid: AcidFile | None = None


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """An index file that was written. ``extents`` is a message of the stripes' extents, empty if there are none."""

    index_id: str
    path: str
    length: int
    footer_checksum: int
    extents: bytes


#: What a task returns: a row per stripe; the last one of a file carries what is known only at its end.
RESULT_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("stripe", pa.int32()),
        pa.field("num_rows", pa.int64()),
        pa.field("tail_checksum", pa.int64()),
        pa.field("row_group_rows", pa.int64()),
        pa.field("schema", pa.string()),
        pa.field(
            "index_files",
            pa.list_(
                pa.struct(
                    [
                        pa.field("index_id", pa.string()),
                        pa.field("path", pa.string()),
                        pa.field("length", pa.int64()),
                        pa.field("footer_checksum", pa.int64()),
                        pa.field("extents", pa.binary()),
                    ]
                )
            ),
        ),
    ]
)


def run_build_task(task: BuildTask) -> Iterator[pa.RecordBatch]:
    """Build, yielding one row for each stripe as it is done.

    :raises BuildError: naming the file; its unfinished index files are removed.
    """
    builders: dict[IndexTarget, IndexBuilder] = {}
    files: dict[IndexTarget, NewFile] = {}
    try:
        with OrcReader(task.uri) if task.acid is None else open_file(task.acid.file) as reader:
            if reader.tail.file_length != task.length:
                raise BuildError(
                    f"it had {task.length} bytes when the build began and has {reader.tail.file_length} now: run the "
                    "build again when nothing writes to the table"
                )
            yield from _build(task, reader, builders, files)
    except (HindexError, OSError) as error:
        for builder in builders.values():
            builder.abort()
        raise BuildError(f"index build failed on data file {task.path!r}: {error}") from error
    finally:
        for file in files.values():
            file.close()


def _build(
    task: BuildTask,
    reader: OrcReader,
    builders: dict[IndexTarget, IndexBuilder],
    files: dict[IndexTarget, NewFile],
) -> Iterator[pa.RecordBatch]:
    in_file = _file_columns(task, reader)
    types = {name: reader.column_type(name) for name in in_file.values()}
    metadata = {
        "data_file": task.path,
        "length": str(task.length),
        "mtime_ns": str(task.mtime_ns),
        "tail_checksum": str(reader.tail.checksum),
    }
    names: dict[IndexTarget, str] = {}
    for target in task.targets:
        if target.column not in in_file:
            continue
        names[target] = f"{task.build_id}-{uuid.uuid4().hex}.hidx"
        files[target] = NewFile(target.absolute_directory, names[target])
        builders[target] = file_index_type(target.type).builder(
            files[target].sink,
            types[in_file[target.column]],
            column=target.column,
            properties=dict(target.properties),
            metadata=metadata,
            row_group_rows=reader.tail.row_index_stride,
        )
    statistics = StatisticsExtents(reader)
    last = len(reader.stripes) - 1
    for number, stripe in enumerate(reader.stripes):
        waiting: dict[IndexTarget, IndexBuilder] = {}
        for target, builder in builders.items():
            if not _told(builder, statistics, number, stripe.num_rows, types[in_file[target.column]]):
                waiting[target] = builder
        # each column once for all indexes on it
        columns = sorted({in_file[target.column] for target in waiting})
        batch = reader.read_stripe(number, columns)
        for target, builder in waiting.items():
            builder.add_stripe(batch.column(columns.index(in_file[target.column])))
        if number < last:
            yield _row(task, reader, number, stripe.num_rows, ())
    built = []
    for target, builder in sorted(builders.items(), key=lambda item: item[0].index_id):
        summary = builder.finish()
        files[target].publish()
        path = f"{target.directory}/{names[target]}"
        extents = b""
        if file_index_type(target.type).summarizes:
            extents = encode_extents([item.extent for item in summary.stripes]).SerializeToString()
        built.append(BuiltFile(target.index_id, path, summary.length, summary.footer_crc32c, extents))
    yield _row(task, reader, last, reader.stripes[last].num_rows if reader.stripes else 0, built)


def _told(builder: IndexBuilder, statistics: StatisticsExtents, stripe: int, rows: int, of: OrcType) -> bool:
    """Whether the file's own statistics told a builder all that it needs of a stripe."""
    if not isinstance(builder, ExtentBuilder):
        return False
    extents = statistics.extents(stripe, of)
    if extents is None:
        return False
    builder.add_extents(rows, extents)
    return True


def _file_columns(task: BuildTask, reader: OrcReader) -> dict[str, str]:
    wanted = {target.column for target in task.targets}
    transactional = task.acid is not None
    bound = bind_paths(task.binding, reader.tail.schema, wanted, transactional=transactional)
    return {name: found.path for name, found in bound.items()}


def _row(
    task: BuildTask, reader: OrcReader, stripe: int, num_rows: int, built: Sequence[BuiltFile]
) -> pa.RecordBatch:
    files = [asdict(item) for item in built]
    row = {
        "path": task.path,
        "stripe": stripe,
        "num_rows": num_rows,
        "tail_checksum": reader.tail.checksum,
        "row_group_rows": reader.tail.row_index_stride,
        "schema": type_text(reader.tail.schema),
        "index_files": files,
    }
    return pa.RecordBatch.from_pylist([row], schema=RESULT_SCHEMA)
