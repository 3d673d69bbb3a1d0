"""Building the index files of one data file, or of some of its stripes: what an executor runs.

Nothing here knows Spark's session or SQL: executors import it for every task.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa

from hindex.build.statistics import StatisticsExtents
from hindex.build.task_errors import FAILURES, Place
from hindex.build.values import table_values
from hindex.errors import BuildError
from hindex.index.column_stats import encode_stripe_stats
from hindex.index.index_type import IndexBuilder, StatsBuilder, file_index_type
from hindex.keys import same_keys
from hindex.orc import OrcReader, OrcType
from hindex.orc.acid.delta_files import AcidFile
from hindex.store.build_files import StagedFile
from hindex.table.file_schema import FilePath, bind_paths, file_schema
from hindex.table.transactional import open_data_file
from hindex.table.type_text import type_text


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """One index file to write: its directory relative to the store, and the same absolute.

    ``of`` is the column's type in the table. Keys are of the type that the file has, unless queries of the table could
    not use these (:func:`hindex.keys.same_keys`): then of the table's type. Without it, they are of the file's.

    Each attempt of a task writes under a fresh name, so that a retried or duplicated one disturbs nothing.
    """

    index_id: str
    index: str
    type: str
    column: str
    properties: tuple[tuple[str, str], ...]
    directory: str
    absolute_directory: str
    of: OrcType | None = None

    def is_of_file(self, in_file: OrcType) -> bool:
        """Return True if the keys have the type that the column has in its file."""
        return self.of is None or same_keys(in_file, self.of)

    def indexed(self, in_file: OrcType) -> OrcType:
        """The type whose keys are indexed, of a column that has another one in its file."""
        return in_file if self.of is None or self.is_of_file(in_file) else self.of


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Build index files for one data file, reading each of its columns once for all of them.

    With ``end``, they are parts, of the stripes from ``first`` up to that, of the file whose tail has the
    ``tail_checksum``; :mod:`hindex.build.merge_parts` puts them together. ``binding`` names the table's data columns,
    against which the file's own are matched. Of a transactional table, all rows are indexed, those that are deleted
    too: queries leave these out. Names of the files written begin with ``build_id``, so that what a failed build left
    can be told from the rest.
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
    first: int = 0
    end: int | None = None
    tail_checksum: int | None = None

    @property
    def is_part(self) -> bool:
        return self.end is not None

    def open(self) -> OrcReader:
        """The data file. :raises OrcError: if it is not readable as ORC."""
        return open_data_file(self.uri, self.acid)

    def columns_in(self, root: OrcType) -> dict[str, FilePath]:
        """Return the positions of the columns to index in a file of some type, without those that it lacks."""
        wanted = {target.column for target in self.targets}
        return bind_paths(self.binding, root, wanted, transactional=self.acid is not None)


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """An index file that was written. ``extents`` is a message of the stripes' extents, empty if there are none."""

    index_id: str
    path: str
    length: int
    footer_checksum: int
    extents: bytes


#: What a task returns: a row per stripe; the last one of a task carries what is known only at its end.
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


def run_build_tasks(
    tasks: Sequence[BuildTask], run: Callable[[BuildTask], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Run one Spark task: several build tasks in turn."""
    for task in tasks:
        yield from run(task)


def run_build_task(task: BuildTask) -> Iterator[pa.RecordBatch]:
    """Build, yielding one row for each stripe as it is done.

    :raises BuildError: naming the file and the stripe; its unfinished index files are removed.
    """
    writing = _Writing(task)
    place = Place.of(task.path)
    try:
        with task.open() as reader:
            if reader.tail.file_length != task.length:
                raise BuildError(
                    f"it had {task.length} bytes when the build began and has {reader.tail.file_length} now: run the "
                    "build again when nothing writes to the table"
                )
            if task.is_part and reader.tail.checksum != task.tail_checksum:
                raise BuildError(
                    "it changed since the build began: run the build again when nothing writes to the table"
                )
            yield from writing.run(reader, place)
    except FAILURES as error:
        writing.abort()
        raise place.failed(error) from error
    finally:
        writing.close()


class _Writing:
    """The index files of one task."""

    def __init__(self, task: BuildTask) -> None:
        self._task = task
        self._builders: dict[IndexTarget, IndexBuilder] = {}
        self._files: dict[IndexTarget, StagedFile] = {}
        self._names: dict[IndexTarget, str] = {}
        self._in_file: dict[str, FilePath] = {}

    def run(self, reader: OrcReader, place: Place) -> Iterator[pa.RecordBatch]:
        """Write them, yielding a row for each stripe; ``place`` is kept up to date."""
        in_file = self._in_file = self._task.columns_in(reader.tail.schema)
        self._begin(reader, in_file)
        statistics = StatisticsExtents(reader)
        end = len(reader.stripes) if self._task.end is None else self._task.end
        for number in range(self._task.first, end):
            place.stripe = number
            rows = reader.stripes[number].num_rows
            waiting: dict[IndexTarget, IndexBuilder] = {}
            for target, builder in self._builders.items():
                of = in_file[target.column].type
                if not (target.is_of_file(of) and _told(builder, statistics, number, rows, of)):
                    waiting[target] = builder
            # each column once for all indexes on it
            columns = sorted({in_file[target.column].path for target in waiting})
            batch = reader.read_stripe(number, columns)
            for target, builder in waiting.items():
                found = in_file[target.column]
                array = batch.column(columns.index(found.path))
                if not target.is_of_file(found.type):
                    array = table_values(array, found.type, target.indexed(found.type))
                builder.add_stripe(array)
            if number < end - 1:
                yield _row(self._task, reader, number, rows, ())
        place.stripe = None
        last = reader.stripes[end - 1].num_rows if end else 0
        yield _row(self._task, reader, end - 1, last, self._finish())

    def _begin(self, reader: OrcReader, in_file: dict[str, FilePath]) -> None:
        task = self._task
        metadata = {
            "data_file": task.path,
            "length": str(task.length),
            "mtime_ns": str(task.mtime_ns),
            "tail_checksum": str(reader.tail.checksum),
        }
        for target in task.targets:
            if target.column not in in_file:
                continue
            name = self._names[target] = index_file_name(task.build_id, is_part=task.is_part)
            file = self._files[target] = StagedFile(target.absolute_directory, name)
            self._builders[target] = file_index_type(target.type).builder(
                file.sink,
                target.indexed(in_file[target.column].type),
                column=target.column,
                properties=dict(target.properties),
                metadata=metadata,
                row_group_rows=reader.tail.row_index_stride,
            )

    def _finish(self) -> list[BuiltFile]:
        built = []
        for target, builder in sorted(self._builders.items(), key=lambda item: item[0].index_id):
            summary = builder.finish()
            self._files[target].publish()
            path = f"{target.directory}/{self._names[target]}"
            extents = b""
            # readers take those in a manifest to be of the file's type
            if file_index_type(target.type).summarizes and target.is_of_file(
                self._in_file[target.column].type
            ):
                extents = encode_stripe_stats([item.stats for item in summary.stripes]).SerializeToString()
            built.append(BuiltFile(target.index_id, path, summary.length, summary.footer_crc32c, extents))
        return built

    def abort(self) -> None:
        """Give up: what was written is removed."""
        for builder in self._builders.values():
            builder.abort()

    def close(self) -> None:
        """Free what was used on the way."""
        for file in self._files.values():
            file.close()


def index_file_name(build_id: str, *, is_part: bool = False) -> str:
    """A name that no index file had before; the names of all files of a build begin with its id."""
    return f"{build_id}-{'part-' if is_part else ''}{uuid.uuid4().hex}.hidx"


def _told(
    builder: IndexBuilder, statistics: StatisticsExtents, stripe: int, rows: int, data_type: OrcType
) -> bool:
    """Return True if the file's statistics give a builder all that it needs from a stripe."""
    if not isinstance(builder, StatsBuilder):
        return False
    extents = statistics.extents(stripe, data_type)
    if extents is None:
        return False
    builder.add_stats(rows, extents)
    return True


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
        "schema": type_text(file_schema(reader.tail)),
        "index_files": files,
    }
    return pa.RecordBatch.from_pylist([row], schema=RESULT_SCHEMA)
