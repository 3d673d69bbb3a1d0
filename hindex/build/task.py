"""Tasks of an executor: build the index files of a data file, or of some of its stripes, and merge such parts.

Executors import this module for every task, so it imports neither PySpark nor SQL.
"""

from __future__ import annotations

import contextlib
import decimal
import io
import uuid
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import chain, groupby

import pyarrow as pa

from hindex.domain import Key
from hindex.errors import BuildError, HindexError, IndexFileError
from hindex.index.bundle import BUNDLE_SUFFIX, BundledFile, write_bundle
from hindex.index.column_stats import LISTS, ColumnStats, encode_stripe_stats
from hindex.index.index_file import BinarySink, IndexFileReader
from hindex.index.index_type import IndexBuilder, StatsBuilder, file_index_type
from hindex.index.merge import merge_index_files
from hindex.index.page_cache import Cache
from hindex.keys import decimal_key, float_key, same_keys
from hindex.orc import OrcReader
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.io.file_system import open_source
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.statistics import ColumnStatistics, Distrust, Nulls, Value, value_range
from hindex.orc.metadata.types import Kind, OrcType
from hindex.orc.reader.file_indexes import FileIndexes
from hindex.plan.index_columns import FileIndexColumn, IndexColumn, table_values
from hindex.store.build_files import StagedFile, data_permissions
from hindex.store.metadata_copy import FileVersion, batches_with_copies
from hindex.store.permissions import Permissions
from hindex.store.storage import open_storage
from hindex.table.file_schema import file_schema
from hindex.table.location import is_local
from hindex.table.transactional import open_data_file
from hindex.table.type_text import type_text
from hindex.value_class import value_class


@value_class
class IndexTarget:
    """One index file to write. Each attempt of a task writes under a fresh name, so retries never collide.

    Args:
        on: the column, or expression. Keys of a column have its type in the data file, or the table's if queries of the
            table could not use those (`hindex.keys.same_keys`).
        directory: the directory relative to the store; ``absolute_directory`` is its URI.
    """

    index_id: str
    index: str
    type: str
    on: IndexColumn
    properties: tuple[tuple[str, str], ...]
    directory: str
    absolute_directory: str

    def has_file_keys(self, file_type: OrcType) -> bool:
        """Return True if the keys have the column's type in the data file."""
        return same_keys(file_type, self.on.type)

    def key_type(self, file_type: OrcType) -> OrcType:
        """Return the type of the keys for a column's type in the data file."""
        return file_type if self.has_file_keys(file_type) else self.on.type


@value_class
class BuildTask:
    """Build index files for one data file, reading each column once for all of them.

    All rows of transactional tables are indexed; queries skip the deleted ones.

    Args:
        build_id: prefix of the names of the index files, by which the files of a failed build are found.
        binding: names of the table's data columns, which are matched with the file's own.
        end: with it, the index files are parts for the stripes ``[first, end)`` of the data file with
            ``tail_checksum``; `MergeTask` merges them.
        version: the version of the data file, if it is in an object store.
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
    version: FileVersion | None = None

    @property
    def is_part(self) -> bool:
        return self.end is not None

    def open(self) -> OrcReader:
        """Open the data file.

        Raises:
            OrcError: if it is not readable as ORC.
        """
        return open_version(self.uri, self.length, self.acid, self.version)

    def columns_in(self, root: OrcType) -> dict[IndexColumn, FileIndexColumn]:
        """Return the indexed columns in a file of some type, without those that it lacks."""
        columns = {target.on: None for target in self.targets}
        bound = (item.in_file(self.binding, root, transactional=self.acid is not None) for item in columns)
        return {item.column: item for item in bound if item is not None}


@value_class
class BuiltFile:
    """An index file that a task wrote, with the statistics of its stripes, if its type has any."""

    index_id: str
    path: str
    length: int
    footer_checksum: int
    stripe_stats: tuple[ColumnStats, ...] = ()


def open_version(uri: str, length: int, acid: AcidFile | None, version: FileVersion | None) -> OrcReader:
    """Open a data file; if ``version`` is given, only that version is read.

    Raises:
        OrcError: if it is not readable as ORC, or has another version.
    """
    return open_data_file(uri, acid) if version is None else OrcReader(version.open(uri, length))


#: Data files of a remote store that one Spark task reads at once.
REMOTE_FILES = 8

#: Data files of one directory in one Spark task share index files if there are so many, each of so many bytes at most.
MIN_BUNDLED = 8
MAX_BUNDLED_BYTES = 128 << 10
#: Maximum number of data files that share an index file, and the number of bytes from which it is written: their index
#: files are in memory until then.
MAX_BUNDLED = 512
MAX_BUNDLE_BYTES = 32 << 20

#: Schema of the results: a row for each build task. ``index_files`` is empty if the data file lacks the columns.
RESULT_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        # the first stripe of the task, and the rows of each
        pa.field("first", pa.int32()),
        pa.field("stripe_rows", pa.list_(pa.int64())),
        pa.field("tail_checksum", pa.int64()),
        pa.field("row_group_rows", pa.int64()),
        pa.field("schema", pa.string()),
        # a stripe has indexed timestamps, and names no writer time zone
        pa.field("lacks_time_zone", pa.bool_()),
        pa.field(
            "index_files",
            pa.list_(
                pa.struct(
                    [
                        pa.field("index_id", pa.string()),
                        pa.field("path", pa.string()),
                        pa.field("length", pa.int64()),
                        pa.field("footer_checksum", pa.int64()),
                    ]
                )
            ),
        ),
        # for each index file; signed, because Spark has no unsigned integers
        pa.field(
            "stripe_stats",
            pa.list_(
                pa.struct(
                    [
                        pa.field(name, pa.list_(pa.binary() if pa.types.is_binary(of) else pa.int64()))
                        for name, of in LISTS.items()
                    ]
                )
            ),
        ),
    ]
)


@value_class
class _Result:
    """A finished build task.

    Attributes:
        row: its values of `RESULT_SCHEMA`, without those of index files.
        contents: the bytes of each file that is not written yet.
    """

    task: BuildTask
    row: Mapping[str, object]
    files: tuple[BuiltFile, ...]
    contents: tuple[bytes, ...] = ()


def run_build_tasks(tasks: Sequence[BuildTask]) -> Iterator[pa.RecordBatch]:
    """Run one Spark task: several build tasks in turn, or a few at once where requests take most of the time.

    Index files of small data files of one directory are written as one file.

    Yields:
        batches with a row for each build task, whose index files are durable.

    Raises:
        BuildError: naming the data file and the stripe; unfinished index files are removed.
    """
    is_serial = len(tasks) < 2 or is_local(tasks[0].uri)
    with ThreadPool(0 if is_serial else REMOTE_FILES) as pool:
        for chunk, is_bundled in _chunks(tasks):
            results: list[_Result] = []
            size = 0
            ready = chain.from_iterable(batches_with_copies(chunk, lambda task: task.version))
            for result in pool.map_ahead(partial(_run_build_task, in_memory=is_bundled), ready):
                results.append(result)
                size += sum(map(len, result.contents))
                # an index may be larger than its data file: a bloom filter of values that compress well
                if size >= MAX_BUNDLE_BYTES:
                    yield _result_rows(_write_bundles(results))
                    results, size = [], 0
            if results:
                yield _result_rows(_write_bundles(results) if is_bundled else results)


def _chunks(tasks: Sequence[BuildTask]) -> Iterator[tuple[Sequence[BuildTask], bool]]:
    """Split tasks in the order of their paths; yield True with those that share index files."""

    def location(task: BuildTask) -> tuple[bool, str]:
        is_small = task.length <= MAX_BUNDLED_BYTES and not task.is_part
        return is_small, task.path.rpartition("/")[0] if is_small else ""

    for (is_small, _), members in groupby(tasks, location):
        chunk = tuple(members)
        is_bundled = is_small and len(chunk) >= MIN_BUNDLED
        for at in range(0, len(chunk), MAX_BUNDLED):
            yield chunk[at : at + MAX_BUNDLED], is_bundled


def _result_rows(results: Iterable[_Result]) -> pa.RecordBatch:
    rows = [
        {
            **result.row,
            "index_files": [
                {
                    "index_id": file.index_id,
                    "path": file.path,
                    "length": file.length,
                    "footer_checksum": file.footer_checksum,
                }
                for file in result.files
            ],
            "stripe_stats": [_stats_lists(file.stripe_stats) for file in result.files],
        }
        for result in results
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RESULT_SCHEMA)


def _stats_lists(stats: Sequence[ColumnStats]) -> dict[str, list[object]] | None:
    if not stats:
        return None
    message = encode_stripe_stats(stats)
    return {name: list(getattr(message, name)) for name in LISTS}


def _write_bundles(results: Sequence[_Result]) -> list[_Result]:
    """Write the index files of small data files: one file for each index and for each set of permissions.

    A bundle finds index files by length and checksum; those that are equal in both go to different bundles.
    """
    bundles: dict[tuple[str, Permissions | None, int], list[tuple[_Result, int]]] = {}
    copies: Counter[tuple[str, Permissions | None, int, int]] = Counter()
    for result in results:
        targets = {target.index_id: target for target in result.task.targets}
        permissions = None
        for at, file in enumerate(result.files):
            directory = targets[file.index_id].absolute_directory
            permissions = permissions if at else data_permissions(directory, result.task.uri)
            key = file.index_id, permissions, file.length, file.footer_checksum
            bundles.setdefault((file.index_id, permissions, copies[key]), []).append((result, at))
            copies[key] += 1
    paths: dict[tuple[str, int], str] = {}
    for (index_id, _, _), members in bundles.items():
        task = members[0][0].task
        target = next(target for target in task.targets if target.index_id == index_id)
        name = index_file_name(task.build_id, suffix=BUNDLE_SUFFIX)
        contents = [
            BundledFile(result.contents[at], result.files[at].footer_checksum) for result, at in members
        ]
        try:
            with contextlib.closing(StagedFile(target.absolute_directory, name, task.uri)) as staged:
                write_bundle(staged.sink, target.on.name, contents, staged.restrict)
                staged.publish()
        except TASK_ERRORS as error:
            location = ErrorLocation(f"data files {task.path!r} and {len(members) - 1} more")
            raise location.build_error(error) from error
        paths.update(((result.task.path, at), f"{target.directory}/{name}") for result, at in members)
    return [
        _Result(
            result.task,
            result.row,
            tuple(replace(file, path=paths[result.task.path, at]) for at, file in enumerate(result.files)),
        )
        for result in results
    ]


def _run_build_task(task: BuildTask, *, in_memory: bool) -> _Result:
    """Build the index files of a task.

    Args:
        in_memory: do not write them, but return their bytes.

    Raises:
        BuildError: naming the file and the stripe; unfinished index files are removed.
    """
    writer = _IndexFilesWriter(task, in_memory=in_memory)
    location = ErrorLocation.in_data_file(task.path)
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
            return writer.run(reader, location)
    except TASK_ERRORS as error:
        writer.abort()
        raise location.build_error(error) from error
    finally:
        writer.close()


class _IndexFilesWriter:
    """Writes the index files of one task."""

    def __init__(self, task: BuildTask, *, in_memory: bool) -> None:
        self._task = task
        self._in_memory = in_memory
        self._builders: dict[IndexTarget, IndexBuilder] = {}
        self._files: dict[IndexTarget, StagedFile] = {}
        self._buffers: dict[IndexTarget, io.BytesIO] = {}
        self._names: dict[IndexTarget, str] = {}
        self._columns: dict[IndexColumn, FileIndexColumn] = {}

    def run(self, reader: OrcReader, location: ErrorLocation) -> _Result:
        """Write the files, and set the stripe of ``location``."""
        self._columns = self._task.columns_in(reader.tail.schema)
        self._open(reader)
        statistics = RowGroupStatistics(reader)
        end = len(reader.stripes) if self._task.end is None else self._task.end
        stripes = range(self._task.first, end)
        for number in stripes:
            location.stripe = number
            self._add_stripe(reader, statistics, number)
        has_times = any(
            path.type.kind is Kind.TIMESTAMP for item in self._columns.values() for path in item.paths
        )
        lacks_time_zone = has_times and not all(reader.stripe(number).writer_timezone for number in stripes)
        location.stripe = None
        row = {
            "path": self._task.path,
            "first": self._task.first,
            "stripe_rows": [reader.stripes[number].num_rows for number in stripes],
            "tail_checksum": reader.tail.checksum,
            "row_group_rows": reader.tail.row_index_stride,
            "schema": type_text(file_schema(reader.tail)),
            "lacks_time_zone": lacks_time_zone,
        }
        files = self._finish()
        buffers = sorted(self._buffers.items(), key=lambda item: item[0].index_id)
        return _Result(self._task, row, files, tuple(buffer.getvalue() for _, buffer in buffers))

    def _add_stripe(self, reader: OrcReader, statistics: RowGroupStatistics, number: int) -> None:
        rows = reader.stripes[number].num_rows
        to_read: dict[IndexTarget, IndexBuilder] = {}
        for target, builder in self._builders.items():
            file_type = self._columns[target.on].type
            if not (
                target.on.expression is None
                and target.has_file_keys(file_type)
                and _add_statistics(builder, statistics, number, rows, file_type)
            ):
                to_read[target] = builder
        if not to_read:
            return
        # each column once for all indexes on it that read timestamps alike
        for zone in {self._columns[target.on].reader_zone for target in to_read}:
            targets = [target for target in to_read if self._columns[target.on].reader_zone == zone]
            paths = sorted({path.path for target in targets for path in self._columns[target.on].paths})
            batch = reader.in_time_zone(zone).read_stripe(number, paths)
            for target in targets:
                column = self._columns[target.on]
                array = column.values([batch.column(paths.index(path.path)) for path in column.paths])
                if not target.has_file_keys(column.type):
                    array = table_values(array, column.type, target.key_type(column.type))
                to_read[target].add_stripe(array)

    def _open(self, reader: OrcReader) -> None:
        task = self._task
        metadata = {
            "data_file": task.path,
            "length": str(task.length),
            "mtime_ns": str(task.mtime_ns),
            "tail_checksum": str(reader.tail.checksum),
        }
        for target in task.targets:
            if target.on not in self._columns:
                continue
            sink: str | BinarySink
            if self._in_memory:
                sink = self._buffers[target] = io.BytesIO()
            else:
                name = self._names[target] = index_file_name(task.build_id, is_part=task.is_part)
                file = self._files[target] = StagedFile(target.absolute_directory, name, task.uri)
                sink = file.sink
            self._builders[target] = file_index_type(target.type).builder(
                sink,
                target.key_type(self._columns[target.on].type),
                column=target.on.name,
                properties=dict(target.properties),
                metadata=metadata,
                row_group_rows=reader.tail.row_index_stride,
            )
            if target in self._files:
                self._files[target].restrict()

    def _finish(self) -> tuple[BuiltFile, ...]:
        built = []
        for target, builder in sorted(self._builders.items(), key=lambda item: item[0].index_id):
            summary = builder.finish()
            path = ""
            if target in self._files:
                self._files[target].publish()
                path = f"{target.directory}/{self._names[target]}"
            stripe_stats: tuple[ColumnStats, ...] = ()
            # statistics in a manifest are of the data file's type
            file_type = self._columns[target.on].type
            if file_index_type(target.type).summarizes and target.has_file_keys(file_type):
                stripe_stats = tuple(item.stats for item in summary.stripes)
            built.append(
                BuiltFile(target.index_id, path, summary.length, summary.footer_crc32c, stripe_stats)
            )
        return tuple(built)

    def abort(self) -> None:
        """Remove the unfinished files."""
        for builder in self._builders.values():
            builder.abort()

    def close(self) -> None:
        """Release the files' resources."""
        for file in self._files.values():
            file.close()


def index_file_name(build_id: str, *, is_part: bool = False, suffix: str = ".hidx") -> str:
    """Return a new unique name of an index file; it begins with the id of the build."""
    return f"{build_id}-{'part-' if is_part else ''}{uuid.uuid4().hex}{suffix}"


def _add_statistics(
    builder: IndexBuilder, statistics: RowGroupStatistics, stripe: int, rows: int, data_type: OrcType
) -> bool:
    """Add a stripe from the data file's own statistics; return False if the stripe's values are needed."""
    if not isinstance(builder, StatsBuilder):
        return False
    stats = statistics.stats(stripe, data_type)
    if stats is None:
        return False
    builder.add_stats(rows, stats)
    return True


#: Errors of a task because of one file: of its bytes, its values, or their memory.
TASK_ERRORS = (HindexError, OSError, MemoryError, pa.ArrowException)


@dataclass(slots=True)
class ErrorLocation:
    """The location of an error in a build, for its message.

    Attributes:
        file: the file, in words.
        stripe: the current stripe, if any.
    """

    file: str
    stripe: int | None = None

    @classmethod
    def in_data_file(cls, path: str) -> ErrorLocation:
        """Return the location of a data file."""
        return cls(f"data file {path!r}")

    def build_error(self, error: BaseException) -> BuildError:
        """Return the error of a build that fails here."""
        stripe = "" if self.stripe is None else f", stripe {self.stripe}"
        message = " ".join(str(error).split()) or type(error).__name__
        return BuildError(f"index build failed on {self.file}{stripe}: {message}")


#: Types whose bounds are widened, because writers differ in zones, fractions and blanks: their values are read.
_WIDENED = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT, Kind.CHAR, Kind.BINARY})


class RowGroupStatistics:
    """Statistics of row groups from a data file's row index, for MINMAX indexes on top-level columns."""

    def __init__(self, reader: OrcReader) -> None:
        self._reader = reader
        self._file_indexes = FileIndexes(reader)

    def stats(self, stripe: int, data_type: OrcType) -> list[ColumnStats] | None:
        """Return the statistics of each row group of a stripe; None if the file's own are missing or not exact."""
        if data_type.kind in _WIDENED or data_type.column in self._reader.tail.encrypted_columns:
            return None
        statistics = self._file_indexes.group_statistics(stripe, data_type.column)
        if not isinstance(statistics, list):
            return None
        converted = []
        for item, count in zip(statistics, self._file_indexes.group_rows(stripe), strict=True):
            stats = self._convert(item, count, data_type)
            if stats is None:
                return None
            converted.append(stats)
        return converted

    def _convert(self, statistics: ColumnStatistics, rows: int, data_type: OrcType) -> ColumnStats | None:
        nulls = statistics.nulls(rows)
        if nulls is Nulls.UNKNOWN or statistics.number_of_values is None:
            return None
        if nulls is Nulls.ALL:
            return ColumnStats(rows, rows, None, None)
        values = value_range(statistics, data_type, self._reader.tail)
        if isinstance(values, Distrust) or values.low is None or values.high is None:
            return None
        low, high = _key(values.low, data_type), _key(values.high, data_type)
        if low is None or high is None:
            return None
        if values.high_is_prefix:
            # a maximum is truncated by one more character than a minimum, and may be a prefix of it
            low = min(low, high)
        return ColumnStats(rows, rows - statistics.number_of_values, low, high, values.high_is_prefix)


def _key(value: Value, data_type: OrcType) -> Key | None:
    """Return the key of a value; None if it does not fit the column's type."""
    if isinstance(value, float):
        return float_key(value)
    if isinstance(value, Decimal):
        with decimal.localcontext(decimal.Context(prec=200)):
            unscaled = value.scaleb(data_type.scale if data_type.precision else 18)
            if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10 ** (data_type.precision or 38):
                return None
            return decimal_key(int(unscaled), data_type)
    return value


@value_class
class PartFile:
    """An index file of some stripes: its name in the index's directory, bytes, and the crc32c of its footer."""

    name: str
    length: int
    footer_checksum: int


@value_class
class MergeTask:
    """Merge parts, in the order of their stripes, to one index file of the data file ``path``, at ``uri``."""

    build_id: str
    path: str
    uri: str
    target: IndexTarget
    parts: tuple[PartFile, ...]


#: Schema of the one row that a merge task returns.
MERGED_SCHEMA = pa.schema(
    [
        pa.field("data_file", pa.string()),
        pa.field("index_id", pa.string()),
        pa.field("path", pa.string()),
        pa.field("length", pa.int64()),
        pa.field("footer_checksum", pa.int64()),
    ]
)


def run_merge_task(task: MergeTask) -> Iterator[pa.RecordBatch]:
    """Merge the parts to a file with a fresh name. The parts stay, for retries of the task.

    Raises:
        BuildError: naming the data file.
    """
    name = index_file_name(task.build_id)
    try:
        with contextlib.ExitStack() as stack:
            parts = stack.enter_context(contextlib.closing(_open_parts(task)))
            file = stack.enter_context(
                contextlib.closing(StagedFile(task.target.absolute_directory, name, task.uri))
            )
            length, checksum = merge_index_files(file.sink, parts)
            file.publish()
    except TASK_ERRORS as error:
        raise ErrorLocation.in_data_file(task.path).build_error(error) from error
    row = (task.path, task.target.index_id, f"{task.target.directory}/{name}", length, checksum)
    yield pa.RecordBatch.from_arrays([[value] for value in row], schema=MERGED_SCHEMA)


def _open_parts(task: MergeTask) -> Generator[IndexFileReader]:
    """Yield a reader for each part, open until the next one: a process cannot open any number of files at once."""
    for part in task.parts:
        with contextlib.closing(_open_part(task, part)) as reader:
            yield reader


def _open_part(task: MergeTask, part: PartFile) -> IndexFileReader:
    path = f"{task.target.absolute_directory}/{part.name}"
    reader = IndexFileReader(open_source(path), Cache(0))
    if (reader.length, reader.footer_crc32c) != (part.length, part.footer_checksum):
        reader.close()
        raise IndexFileError(f"Index file {path!r} is not the one that was written; run the statement again")
    return reader


def discard_parts(tasks: Iterable[MergeTask]) -> None:
    """Delete the parts of finished tasks; parts that cannot be deleted are left for VACUUM."""
    for task in tasks:
        storage = open_storage(task.target.absolute_directory)
        for part in task.parts:
            with contextlib.suppress(OSError):
                storage.delete(part.name)
