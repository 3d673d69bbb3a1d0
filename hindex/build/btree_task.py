"""Building BTREE index files out of core: what executors run, before and after Spark's sort.

Before it, each stripe becomes a sorted run of keys with the row groups that hold them, cut into chunks. Spark sorts
chunks by their first key. After it, chunks of many runs arrive in that order: keys below the first key of the latest
chunk cannot come any more, so they are merged and written, and only the overlap of the runs is held back.

Nothing here knows Spark's session or SQL: executors import it for every task.
"""

from __future__ import annotations

import struct
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hindex.build.task_errors import FAILURES, Place
from hindex.build.values import table_values
from hindex.domain import Key
from hindex.errors import BuildError
from hindex.index.btree import BTreeWriter, IndexedFile, first_locations, stripe_entries
from hindex.index.leaf_page import ByteKeys
from hindex.index.postings import Postings, group_pairs
from hindex.index.reader_cache import open_btree_file
from hindex.index.tree_writer import Int64s, byte_keys, key_at
from hindex.keys import KeyKind, key_kind
from hindex.orc.acid.delta_files import AcidFile
from hindex.orc.metadata.types import OrcType
from hindex.store.build_files import StagedFile
from hindex.table.file_schema import bind_paths
from hindex.table.transactional import open_data_file

#: Bytes of keys after which a chunk is closed.
CHUNK_KEY_BYTES = 64 * 1024
#: Entries that are brought together before any is written: fewer would make the leaves ragged.
MERGE_ENTRIES = 1 << 20

UInt32s = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class SortedPart:
    """One index file to write: which group of data files it is of, and its keys: from ``low`` (None: the least) on."""

    group: int
    low: Key | None


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Index the column of one data file, which is as ``file`` says. ``first`` is the number of its first row group.

    ``stripes`` are those to read, from the first up to the second; all if None.
    """

    uri: str
    file: IndexedFile
    group: int
    first: int
    acid: AcidFile | None = None
    stripes: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Take the entries of an index file that is to be replaced.

    ``kept`` are the data files that are still as they were: number of the first row group in the old file, how many
    there are, and number of the first one now.
    """

    path: str
    length: int
    footer_checksum: int
    group: int
    kept: tuple[tuple[int, int, int], ...]


EntryTask = ReadTask | CopyTask


@dataclass(frozen=True, slots=True)
class BTreeJob:
    """The parameters that all tasks of a build share.

    :ivar type: the column's type in the table, whose keys are indexed.
    :ivar binding: the table's data columns, against which a file's own are matched.
    :ivar parts: the index files to write, by group and then by key.
    :ivar groups: the data files of each group, sorted by path.
    :ivar chunk_entries: entries of one chunk of a run.
    """

    build_id: str
    column: str
    type: OrcType
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
        kind = key_kind(self.type)
        assert kind is not None
        return kind


def chunk_schema(kind: KeyKind) -> pa.Schema:
    """Columns of the chunks that Spark sorts: by part, then by first key. A chunk without one holds nulls."""
    return pa.schema(
        [
            pa.field("part", pa.int32()),
            pa.field("first", pa.int64() if kind is KeyKind.INT64 else pa.binary()),
            # distinct keys, ascending: 64-bit integers, or bytes that the 32-bit lengths cut
            pa.field("keys", pa.binary()),
            pa.field("lengths", pa.binary()),
            # 32-bit: entries of each key, and their row groups
            pa.field("counts", pa.binary()),
            pa.field("locations", pa.binary()),
        ]
    )


#: A row for each index file that was written.
WRITTEN_SCHEMA = pa.schema(
    [
        pa.field("part", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("length", pa.int64()),
        pa.field("footer_checksum", pa.int64()),
        pa.field("entries", pa.int64()),
        pa.field("null_count", pa.int64()),
        # the least and greatest key: bytes, or eight bytes of an integer
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
    ]
)
_INTEGER = struct.Struct("<q")


# Before the sort


def entry_chunks(job: BTreeJob, tasks: Sequence[EntryTask]) -> Iterator[pa.RecordBatch]:
    """Run one Spark task: yield the entries of the chunks of data files and of old index files, in turn.

    :raises BuildError: naming the file, and the stripe.
    """
    for task in tasks:
        yield from _entry_chunks(job, task)


def _entry_chunks(job: BTreeJob, task: EntryTask) -> Iterator[pa.RecordBatch]:
    """The chunks of one data file or of an old index file, run after run."""
    parts = [(number, part.low) for number, part in enumerate(job.parts) if part.group == task.group]
    if isinstance(task, ReadTask):
        place = Place.of(task.file.path)
        runs = _read_runs(job, task, place)
    else:
        place = Place(f"index file {task.path!r}")
        runs = _copied_runs(job, task)
    try:
        for run in runs:
            batch = _chunks(job, run, parts)
            if batch.num_rows:
                yield batch
    except FAILURES as error:
        raise place.failed(error) from error


def _read_runs(job: BTreeJob, task: ReadTask, place: Place) -> Iterator[Postings]:
    """The entries of each stripe; ``place`` is kept up to date."""
    file, first = task.file, task.first
    start, end = (0, len(file.stripe_rows)) if task.stripes is None else task.stripes
    with open_data_file(task.uri, task.acid) as reader:
        tail = reader.tail
        if (tail.file_length, tail.checksum) != (file.fingerprint.length, file.fingerprint.tail_checksum):
            raise BuildError(
                "it changed since the build began: run the build again when nothing writes to the table"
            )
        transactional = task.acid is not None
        bound = bind_paths(job.binding, tail.schema, [job.column], transactional=transactional)
        if job.column not in bound:
            raise BuildError(f"it has no column {job.column!r} any more")
        name, of = bound[job.column].path, bound[job.column].type
        groups = file.stripe_groups
        first += sum(groups[:start])
        for number in range(start, end):
            place.stripe = number
            array = table_values(reader.read_stripe(number, [name]).column(0), of, job.type)
            yield stripe_entries(job.type, array, row_group_rows=file.row_group_rows, first=first)
            first += groups[number]


def _copied_runs(job: BTreeJob, task: CopyTask) -> Iterator[Postings]:
    reader = open_btree_file(task.path, task.length, task.footer_checksum)
    if reader.file.footer.key_kind is not job.kind:
        raise reader.file.error("it has keys of another type than the column")
    olds = np.array([old for old, _, _ in task.kept], np.int64)
    ends = olds + np.array([count for _, count, _ in task.kept], np.int64)
    news = np.array([new for _, _, new in task.kept], np.int64)

    def moved(locations: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.bool_], UInt32s]:
        """Return a mask of the kept locations, and their new numbers."""
        if not len(olds):
            return np.zeros(len(locations), np.bool_), np.zeros(0, np.uint32)
        at = np.searchsorted(olds, locations, side="right") - 1
        kept = (at >= 0) & (locations < ends[at])
        at = at[kept]
        return kept, (locations[kept] - olds[at] + news[at]).astype(np.uint32)

    nulls = moved(np.asarray(reader.nulls().to_array()).astype(np.uint32))[1]
    yield Postings(_no_keys(job.kind), np.zeros(1, np.int64), np.zeros(0, np.uint32), nulls)
    for leaf in reader.all_leaves():
        numbers, locations = reader.entries(leaf)
        kept, found = moved(locations)
        ranked = group_pairs(numbers[kept], found)
        keys = leaf.keys
        if isinstance(keys, np.ndarray):
            yield Postings(keys[ranked.keys], ranked.starts, ranked.rows, nulls[:0])
        else:
            values = pa.array([keys[int(number)] for number in ranked.keys], pa.large_binary())
            yield Postings(values, ranked.starts, ranked.rows, nulls[:0])


def _no_keys(kind: KeyKind) -> Int64s | pa.LargeBinaryArray:
    return np.zeros(0, np.int64) if kind is KeyKind.INT64 else pa.array([], pa.large_binary())


def _chunks(job: BTreeJob, run: Postings, parts: Sequence[tuple[int, Key | None]]) -> pa.RecordBatch:
    """The chunks of a run: none holds keys of two parts."""
    keys = run.keys if isinstance(run.keys, np.ndarray) else byte_keys(run.keys)
    count = len(keys)
    cuts = {0, count, *(_below(keys, low) for _, low in parts if low is not None)}
    # cuts that keep a chunk small: by entries, and by the bytes of its keys
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
    """Write the index files whose chunks come, sorted by part and first key; a row for each when it is done.

    :raises BuildError: if one cannot be written; it is removed.
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
            done, current = current.finish(), None
            yield done
    except (*FAILURES, ValueError) as error:
        raise Place(f"column {job.column!r}").failed(error) from error
    finally:
        if current is not None:
            current.abort()


class _PartWriter:
    """Merges the chunks of one part as they come."""

    def __init__(self, job: BTreeJob, number: int) -> None:
        self.number = number
        self._job = job
        self._name = f"{job.build_id}-{uuid.uuid4().hex}.hidx"
        self._file = StagedFile(job.absolute_directory, self._name)
        self._writer = BTreeWriter(
            self._file.sink,
            job.type,
            job.groups[job.parts[number].group],
            column=job.column,
            properties=dict(job.properties),
            metadata=dict(job.metadata),
        )
        # distinct keys of chunks or of what was merged before, entries of each, and their locations
        self._keys: list[Int64s | pa.LargeBinaryArray] = []
        self._counts: list[UInt32s] = []
        self._locations: list[UInt32s] = []
        self._held = 0
        self._latest: Key | None = None

    def add(self, chunks: pa.RecordBatch) -> None:
        """Take chunks, in order of their first keys, and write what is complete."""
        first = chunks.column("first")
        nulls = first.null_count
        if nulls:
            # they come first
            self._writer.add_nulls(_numbers(chunks.column("locations").slice(0, nulls)))
            chunks = chunks.slice(nulls)
        if not chunks.num_rows:
            return
        self._keys.append(self._chunk_keys(chunks))
        self._counts.append(_numbers(chunks.column("counts")))
        self._locations.append(_numbers(chunks.column("locations")))
        self._held += len(self._locations[-1])
        self._latest = first[len(first) - 1].as_py()
        if self._held >= MERGE_ENTRIES:
            self._merge(self._latest)

    def finish(self) -> pa.RecordBatch:
        """Write the rest; a row that tells of the file."""
        self._merge(None)
        done = self._writer.finish()
        self._file.publish()
        low, high = done.stats.min_key, done.stats.max_key
        row = {
            "part": self.number,
            "path": f"{self._job.directory}/{self._name}",
            "length": done.length,
            "footer_checksum": done.footer_crc32c,
            "entries": done.stats.rows,
            "null_count": done.stats.null_count,
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
        """Write the keys below ``end`` (all if None) and hold the others back."""
        if not self._held:
            return
        keys = (
            np.concatenate(self._keys)
            if isinstance(self._keys[0], np.ndarray)
            else pa.concat_arrays(self._keys)
        )
        found = group_pairs(keys, np.concatenate(self._locations), counts=np.concatenate(self._counts))
        held = found.keys if isinstance(found.keys, np.ndarray) else byte_keys(found.keys)
        cut = len(held) if end is None else _below(held, end)
        done = int(found.starts[cut])
        part = held.part(0, cut) if isinstance(held, ByteKeys) else held[:cut]
        self._writer.add(part, found.starts[: cut + 1], found.rows[:done])
        self._keys = [found.keys[cut:]]
        self._counts = [np.diff(found.starts[cut:]).astype(np.uint32)]
        self._locations = [np.ascontiguousarray(found.rows[done:])]
        self._held = len(self._locations[0])


def _content(array: pa.BinaryArray) -> memoryview:
    """The bytes of all values, one behind the other."""
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, count=len(array) + 1, offset=4 * array.offset)
    return memoryview(data)[ends[0] : ends[-1]] if data is not None else memoryview(b"")


def _numbers(array: pa.BinaryArray) -> UInt32s:
    return np.frombuffer(_content(array), "<u4")


def pack_key(key: Key) -> bytes:
    """A key as bytes."""
    return key if isinstance(key, bytes) else _INTEGER.pack(key)


def unpack_key(data: bytes, kind: KeyKind) -> Key:
    """The key of :func:`pack_key`."""
    if kind is KeyKind.BYTES:
        return data
    key: int = _INTEGER.unpack(data)[0]
    return key


def kept_locations(
    old: Sequence[IndexedFile], kept: Collection[IndexedFile], new: Sequence[IndexedFile]
) -> tuple[tuple[int, int, int], ...]:
    """Return the files that a :class:`CopyTask` keeps from an old index, with their places in the new one."""
    now = dict(zip(new, first_locations(new), strict=False))
    return tuple(
        (first, file.num_groups, now[file])
        for file, first in zip(old, first_locations(old), strict=False)
        if file in kept and file.num_groups
    )
