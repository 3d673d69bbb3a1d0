"""Tasks of an executor that build BTREE index files out of core, before and after Spark's sort.

Before the sort, each stripe becomes a sorted run of keys with their row groups, split into chunks. Spark sorts chunks
by their first key. After the sort, the chunks of many runs arrive in that order: all keys below the first key of the
latest chunk are complete, so they are merged and written, and only the overlap of the runs is buffered.

Executors import this module for every task, so it imports neither PySpark nor SQL.
"""

from __future__ import annotations

import struct
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.build.task import REMOTE_FILES, TASK_ERRORS, ErrorLocation, open_version
from hindex.domain import Key
from hindex.errors import BuildError
from hindex.index.btree import BTreeWriter, IndexedFile, first_locations, stripe_entries
from hindex.index.leaf_page import ByteKeys
from hindex.index.postings import Postings, group_pairs
from hindex.index.reader_cache import open_btree_file
from hindex.index.tree_writer import Int64s, byte_keys, key_at
from hindex.keys import KeyKind, key_kind
from hindex.orc import OrcReader
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.io.thread_pool import ThreadPool
from hindex.plan.index_columns import IndexColumn
from hindex.store.build_files import StagedFile
from hindex.store.metadata_copy import FileVersion, batches_with_copies
from hindex.table.location import is_local
from hindex.value_class import value_class

#: Maximum bytes of keys in a chunk.
CHUNK_KEY_BYTES = 64 * 1024
#: Bytes of chunks that are passed to Spark at a time: those of small data files are joined.
_BATCH_BYTES = 1 << 20
#: Minimum number of entries that are merged at a time: smaller batches would make leaves of uneven size.
MERGE_ENTRIES = 1 << 20

#: The most rows of a remote file that is read ahead: its chunks take some 50 bytes a row, or the bytes of its strings.
_MAX_ROWS_AHEAD = 1 << 18

UInt32s = npt.NDArray[np.uint32]


@value_class
class SortedPart:
    """One index file to write: for a group of data files, with the keys from ``low`` on; None: from the smallest."""

    group: int
    low: Key | None


@value_class
class ReadTask:
    """Index the column of one data file.

    Args:
        file: the expected state of the data file.
        first: location number of the file's first row group.
        stripes: first and end of the stripes to read; None for all.
        version: the version of the data file, if it is in an object store.
    """

    uri: str
    file: IndexedFile
    group: int
    first: int
    acid: AcidFile | None = None
    stripes: tuple[int, int] | None = None
    version: FileVersion | None = None

    def open(self) -> OrcReader:
        """Open the data file.

        Raises:
            OrcError: if it is not readable as ORC, or has another version.
        """
        return open_version(self.uri, self.file.length, self.acid, self.version)


@value_class
class CopyTask:
    """Copy entries of an index file that is replaced.

    Args:
        kept: for each unchanged data file: the old location number of its first row group, its number of row groups,
            and the new location number of the first.
    """

    path: str
    length: int
    footer_checksum: int
    group: int
    kept: tuple[tuple[int, int, int], ...]


EntryTask = ReadTask | CopyTask


@value_class
class BTreeJob:
    """The parameters that all tasks of a build share.

    Attributes:
        on: the column, or expression. Keys have its type in the table.
        binding: names of the table's data columns, which are matched with a file's own.
        parts: the index files to write, ordered by group and key.
        groups: the data files of each group, sorted by path.
        chunk_entries: maximum number of entries in a chunk.
    """

    build_id: str
    on: IndexColumn
    binding: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]
    metadata: tuple[tuple[str, str], ...]
    directory: str
    absolute_directory: str
    parts: tuple[SortedPart, ...]
    groups: tuple[tuple[IndexedFile, ...], ...]
    chunk_entries: int

    @property
    def kind(self) -> KeyKind:
        kind = key_kind(self.on.type)
        assert kind is not None
        return kind


def chunk_schema(kind: KeyKind) -> pa.Schema:
    """Return the schema of the chunks, which Spark sorts by part and first key. A chunk without a key has the nulls."""
    return pa.schema(
        [
            pa.field("part", pa.int32()),
            pa.field("first", pa.int64() if kind is KeyKind.INT64 else pa.binary()),
            # distinct keys, ascending: 64-bit integers, or concatenated bytes with 32-bit lengths
            pa.field("keys", pa.binary()),
            pa.field("lengths", pa.binary()),
            # 32-bit: number of entries of each key, and their row groups
            pa.field("counts", pa.binary()),
            pa.field("locations", pa.binary()),
        ]
    )


#: Schema of the results: a row for each written index file.
WRITTEN_SCHEMA = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("length", pa.int64()),
        pa.field("footer_checksum", pa.int64()),
        pa.field("entries", pa.int64()),
        pa.field("null_count", pa.int64()),
        # the smallest and largest key: bytes, or the eight bytes of an integer
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
    ]
)
_INTEGER = struct.Struct("<q")


# Before the sort


def entry_chunks(job: BTreeJob, tasks: Sequence[EntryTask]) -> Iterator[pa.RecordBatch]:
    """Run one Spark task: yield the chunks of data files and of old index files.

    Raises:
        BuildError: naming the file, and the stripe.
    """
    parts: dict[int, list[tuple[int, Key | None]]] = {}
    for number, part in enumerate(job.parts):
        parts.setdefault(part.group, []).append((number, part.low))
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in _batches(job, tasks, parts):
        batches.append(batch)
        size += batch.nbytes
        if size >= _BATCH_BYTES:
            yield _join(batches)
            batches, size = [], 0
    if batches:
        yield _join(batches)


def _batches(
    job: BTreeJob, tasks: Sequence[EntryTask], parts: Mapping[int, Sequence[tuple[int, Key | None]]]
) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of tasks. Several small files of a remote store are read at once: their requests overlap."""

    def chunks(task: EntryTask) -> Iterator[pa.RecordBatch]:
        return _task_chunks(job, task, parts[task.group])

    with ThreadPool(REMOTE_FILES) as pool:
        for is_small, members in groupby(tasks, _is_small_and_remote):
            if is_small:
                reads = [task for task in members if isinstance(task, ReadTask)]
                ready = chain.from_iterable(batches_with_copies(reads, lambda task: task.version))
                yield from chain.from_iterable(pool.map_ahead(lambda task: list(chunks(task)), ready))
            else:
                # chunk by chunk: those of a long file may not fit into memory
                yield from chain.from_iterable(map(chunks, members))


def _is_small_and_remote(task: EntryTask) -> bool:
    if not isinstance(task, ReadTask) or is_local(task.uri):
        return False
    start, end = task.stripes or (0, None)
    return sum(task.file.stripe_rows[start:end]) <= _MAX_ROWS_AHEAD


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _task_chunks(
    job: BTreeJob, task: EntryTask, parts: Sequence[tuple[int, Key | None]]
) -> Iterator[pa.RecordBatch]:
    """Yield the chunks of one data file or old index file, run by run."""
    if isinstance(task, ReadTask):
        location = ErrorLocation.in_data_file(task.file.path)
        runs = _read_runs(job, task, location)
    else:
        location = ErrorLocation(f"index file {task.path!r}")
        runs = _copy_runs(job, task)
    try:
        for run in runs:
            batch = _chunks(job, run, parts)
            if batch.num_rows:
                yield batch
    except TASK_ERRORS as error:
        raise location.build_error(error) from error


def _read_runs(job: BTreeJob, task: ReadTask, location: ErrorLocation) -> Iterator[Postings]:
    """Yield the entries of each stripe, and set the stripe of ``location``."""
    file, first = task.file, task.first
    start, end = (0, len(file.stripe_rows)) if task.stripes is None else task.stripes
    with task.open() as reader:
        tail = reader.tail
        if (tail.file_length, tail.checksum) != (file.length, file.tail_checksum):
            raise BuildError(
                "it changed since the build began: run the build again when nothing writes to the table"
            )
        column = job.on.in_file(job.binding, tail.schema, transactional=task.acid is not None)
        if column is None:
            raise BuildError(f"it no longer has the column {job.on.name!r}")
        groups = file.stripe_groups
        first += sum(groups[:start])
        for number in range(start, end):
            location.stripe = number
            array = column.table_values(column.read(reader, number))
            yield stripe_entries(job.on.type, array, row_group_rows=file.row_group_rows, first=first)
            first += groups[number]


def _copy_runs(job: BTreeJob, task: CopyTask) -> Iterator[Postings]:
    """Yield the entries of an old index file for the kept data files, with their new location numbers."""
    reader = open_btree_file(task.path, task.length, task.footer_checksum)
    if reader.file.footer.key_kind is not job.kind:
        raise reader.file.error("it has keys of another type than the column")
    old_starts = np.array([old for old, _, _ in task.kept], np.int64)
    old_ends = old_starts + np.array([count for _, count, _ in task.kept], np.int64)
    new_starts = np.array([new for _, _, new in task.kept], np.int64)

    def renumber(locations: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.bool_], UInt32s]:
        """Return a mask of the kept locations, and their new numbers."""
        if not len(old_starts):
            return np.zeros(len(locations), np.bool_), np.zeros(0, np.uint32)
        at = np.searchsorted(old_starts, locations, side="right") - 1
        kept = (at >= 0) & (locations < old_ends[at])
        at = at[kept]
        return kept, (locations[kept] - old_starts[at] + new_starts[at]).astype(np.uint32)

    nulls = renumber(np.asarray(reader.nulls().to_array()).astype(np.uint32))[1]
    yield Postings(_no_keys(job.kind), np.zeros(1, np.int64), np.zeros(0, np.uint32), nulls)
    for leaf in reader.all_leaves():
        numbers, locations = reader.entries(leaf)
        kept, renumbered = renumber(locations)
        ranked = group_pairs(numbers[kept], renumbered)
        keys = leaf.keys
        if isinstance(keys, np.ndarray):
            yield Postings(keys[ranked.keys], ranked.starts, ranked.rows, nulls[:0])
        else:
            values = pa.array([keys[int(number)] for number in ranked.keys], pa.large_binary())
            yield Postings(values, ranked.starts, ranked.rows, nulls[:0])


def _no_keys(kind: KeyKind) -> Int64s | pa.LargeBinaryArray:
    return np.zeros(0, np.int64) if kind is KeyKind.INT64 else pa.array([], pa.large_binary())


def _chunks(job: BTreeJob, run: Postings, parts: Sequence[tuple[int, Key | None]]) -> pa.RecordBatch:
    """Split a run into chunks, each with keys of one part."""
    keys = run.keys if isinstance(run.keys, np.ndarray) else byte_keys(run.keys)
    count = len(keys)
    cuts = {0, count, *(_below(keys, low) for _, low in parts if low is not None)}
    # limit chunks by entries, and by the bytes of keys
    cuts.update(np.searchsorted(run.starts, np.arange(0, run.starts[-1], job.chunk_entries)).tolist())
    if isinstance(keys, ByteKeys):
        cuts.update(np.searchsorted(keys.offsets, np.arange(0, keys.offsets[-1], CHUNK_KEY_BYTES)).tolist())
    lows = [0, *(_below(keys, low) for _, low in parts[1:] if low is not None)]
    columns: dict[str, list[object]] = {name: [] for name in chunk_schema(job.kind).names}
    rows, starts = np.ascontiguousarray(run.rows), run.starts
    for start, end in pairwise(sorted(cuts)):
        at = bisect_right(lows, start) - 1
        part = keys.part(start, end) if isinstance(keys, ByteKeys) else keys[start:end]
        columns["part"].append(parts[at][0])
        columns["first"].append(key_at(keys, start))
        columns["keys"].append(bytes(part.data) if isinstance(part, ByteKeys) else part.tobytes())
        lengths = np.diff(part.offsets).astype("<u4").tobytes() if isinstance(part, ByteKeys) else b""
        columns["lengths"].append(lengths)
        columns["counts"].append(np.diff(starts[start : end + 1]).astype("<u4").tobytes())
        columns["locations"].append(rows[starts[start] : starts[end]].astype("<u4").tobytes())
    if len(run.nulls):
        for values in columns.values():
            values.append(b"")
        columns["part"][-1], columns["first"][-1] = parts[0][0], None
        columns["locations"][-1] = run.nulls.astype("<u4").tobytes()
    return pa.RecordBatch.from_pydict(columns, schema=chunk_schema(job.kind))


def _below(keys: Int64s | ByteKeys, bound: Key) -> int:
    """Count the ascending keys that are below a bound."""
    if isinstance(keys, ByteKeys):
        return bisect_left(range(len(keys)), bound, key=keys.__getitem__)
    return int(np.searchsorted(keys, bound))


# After the sort


def write_parts(job: BTreeJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the index files of chunks that are sorted by part and first key; yield a row for each finished file.

    Raises:
        BuildError: if a file cannot be written; it is removed.
    """
    current: _PartWriter | None = None
    try:
        for batch in batches:
            numbers = np.asarray(batch.column("part"))
            changes = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
            for start, end in pairwise([0, *changes.tolist(), len(numbers)]):
                if start == end:
                    continue
                number = int(numbers[start])
                if current is not None and current.number != number:
                    yield current.finish()
                    current = None
                if current is None:
                    current = _PartWriter(job, number)
                current.add(batch.slice(start, end - start))
        if current is not None:
            row, current = current.finish(), None
            yield row
    except (*TASK_ERRORS, ValueError) as error:
        raise ErrorLocation(f"column {job.on.name!r}").build_error(error) from error
    finally:
        if current is not None:
            current.abort()


class _PartWriter:
    """Merges the chunks of one part as they arrive."""

    def __init__(self, job: BTreeJob, number: int) -> None:
        self.number = number
        self._job = job
        self._name = f"{job.build_id}-{uuid.uuid4().hex}.hidx"
        self._file = StagedFile(job.absolute_directory, self._name)
        self._writer = BTreeWriter(
            self._file.sink,
            job.on.type,
            job.groups[job.parts[number].group],
            column=job.on.name,
            properties=dict(job.properties),
            metadata=dict(job.metadata),
        )
        self._file.restrict()
        # distinct keys of chunks and of earlier merges, number of entries of each, and their locations
        self._keys: list[Int64s | pa.LargeBinaryArray] = []
        self._counts: list[UInt32s] = []
        self._locations: list[UInt32s] = []
        self._buffered = 0
        self._latest: Key | None = None

    def add(self, chunks: pa.RecordBatch) -> None:
        """Add chunks in the order of their first keys, and write complete keys."""
        first = chunks.column("first")
        nulls = first.null_count
        if nulls:
            # chunks of nulls come first
            self._writer.add_nulls(_numbers(chunks.column("locations").slice(0, nulls)))
            chunks = chunks.slice(nulls)
        if not chunks.num_rows:
            return
        self._keys.append(self._chunk_keys(chunks))
        self._counts.append(_numbers(chunks.column("counts")))
        self._locations.append(_numbers(chunks.column("locations")))
        self._buffered += len(self._locations[-1])
        self._latest = first[len(first) - 1].as_py()
        if self._buffered >= MERGE_ENTRIES:
            self._merge(self._latest)

    def finish(self) -> pa.RecordBatch:
        """Write the remaining keys and return the row of the file."""
        self._merge(None)
        summary = self._writer.finish()
        self._file.publish()
        low, high = summary.stats.min_key, summary.stats.max_key
        row = {
            "part": self.number,
            "path": f"{self._job.directory}/{self._name}",
            "length": summary.length,
            "footer_checksum": summary.footer_crc32c,
            "entries": summary.stats.rows,
            "null_count": summary.stats.null_count,
            "min_key": None if low is None else pack_key(low),
            "max_key": None if high is None else pack_key(high),
        }
        return pa.RecordBatch.from_pylist([row], schema=WRITTEN_SCHEMA)

    def abort(self) -> None:
        self._writer.abort()
        self._file.close()

    def _chunk_keys(self, chunks: pa.RecordBatch) -> Int64s | pa.LargeBinaryArray:
        data = _content(chunks.column("keys"))
        if self._job.kind is KeyKind.INT64:
            return np.frombuffer(data, "<i8")
        lengths = _numbers(chunks.column("lengths"))
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        return pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )

    def _merge(self, end: Key | None) -> None:
        """Write the keys below ``end`` (all if None) and buffer the others."""
        if not self._buffered:
            return
        keys = (
            np.concatenate(self._keys)
            if isinstance(self._keys[0], np.ndarray)
            else pa.concat_arrays(self._keys)
        )
        merged = group_pairs(keys, np.concatenate(self._locations), counts=np.concatenate(self._counts))
        sorted_keys = merged.keys if isinstance(merged.keys, np.ndarray) else byte_keys(merged.keys)
        cut = len(sorted_keys) if end is None else _below(sorted_keys, end)
        cut_row = int(merged.starts[cut])
        part = sorted_keys.part(0, cut) if isinstance(sorted_keys, ByteKeys) else sorted_keys[:cut]
        self._writer.add(part, merged.starts[: cut + 1], merged.rows[:cut_row])
        self._keys = [merged.keys[cut:]]
        self._counts = [np.diff(merged.starts[cut:]).astype(np.uint32)]
        self._locations = [np.ascontiguousarray(merged.rows[cut_row:])]
        self._buffered = len(self._locations[0])


def _content(array: pa.BinaryArray) -> memoryview:
    """Return the concatenated bytes of all values, without copying."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    return memoryview(data)[ends[0] : ends[-1]] if data is not None else memoryview(b"")


def _numbers(array: pa.BinaryArray) -> UInt32s:
    return np.frombuffer(_content(array), "<u4")


def pack_key(key: Key) -> bytes:
    """Return a key as bytes."""
    return key if isinstance(key, bytes) else _INTEGER.pack(key)


def unpack_key(data: bytes, kind: KeyKind) -> Key:
    """Return the key for the bytes of `pack_key`."""
    if kind is KeyKind.BYTES:
        return data
    key: int = _INTEGER.unpack(data)[0]
    return key


def kept_locations(
    old: Sequence[IndexedFile], kept: Collection[IndexedFile], new: Sequence[IndexedFile]
) -> tuple[tuple[int, int, int], ...]:
    """Return the files that a `CopyTask` keeps from an old index, with their new location numbers."""
    new_starts = dict(zip(new, first_locations(new), strict=False))
    return tuple(
        (first, file.num_groups, new_starts[file])
        for file, first in zip(old, first_locations(old), strict=False)
        if file in kept and file.num_groups
    )
