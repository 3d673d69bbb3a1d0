"""Segments: immutable runs of data files' entries, sorted by path, as bytes of their own.

A commit writes those anew that hold a changed entry and refers to all others. They are Arrow record batches of one
row for each data file; ``docs/store.md`` specifies the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import MAX_KEY, MIN_KEY, Domain, Range
from hindex.index.extent import SHORT_KEY, Extent, around
from hindex.proto import manifest_pb2 as pb
from hindex.store.entry import FileEntry, IndexFileEntry, SharedIndexEntry, is_safe_path
from hindex.store.extents import decode_extents, encode_extents

#: Longer segments are refused: they are hostile or damaged.
MAX_SEGMENT_BYTES = 1 << 28

# with more ranges of bytes, the one around all of them is looked at
_MOST_RANGES = 16
_INDEX, _EXTENTS = "index ", "extents "
_PLAIN = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("length", pa.uint64()),
        pa.field("mtime_ns", pa.int64()),
        pa.field("tail_checksum", pa.uint32()),
        pa.field("num_rows", pa.uint64()),
        pa.field("stripe_rows", pa.list_(pa.uint64())),
        pa.field("schema", pa.dictionary(pa.int32(), pa.string())),
        pa.field("shared", pa.list_(pa.string())),
        pa.field("changed_ns", pa.int64()),
        pa.field("num_row_groups", pa.uint64()),
    ]
)
_LISTS = {
    "null_counts": pa.uint64(),
    "int_mins": pa.int64(),
    "int_maxs": pa.int64(),
    "byte_mins": pa.binary(),
    "byte_maxs": pa.binary(),
    "cut": pa.uint32(),
}
_INDEX_FIELDS = [
    pa.field("path", pa.string()),
    pa.field("length", pa.uint64()),
    pa.field("footer_checksum", pa.uint32()),
]
_EXTENTS_FIELDS = [pa.field(name, pa.list_(of)) for name, of in _LISTS.items()]
_FIELDS = {_INDEX: _INDEX_FIELDS, _EXTENTS: _EXTENTS_FIELDS}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index has in a segment.

    :ivar num_files: data files with an index file of their own.
    :ivar length: bytes of these.
    :ivar extent: around all their stripes, where every data file of the segment has extents; None otherwise.
    """

    num_files: int
    length: int
    extent: Extent | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a segment without reading it. ``schemas`` and ``shared`` are those that occur in it."""

    num_files: int
    first: str
    last: str
    schemas: tuple[str, ...]
    shared: tuple[SharedIndexEntry, ...]
    indexes: Mapping[str, IndexSummary]


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """The file that holds a segment: its path relative to the store, bytes, and their crc32c."""

    path: str
    length: int
    checksum: int


def summarize(entries: Sequence[FileEntry]) -> Summary:
    """The summary of some entries, of which there is one at least."""
    own: dict[str, list[IndexFileEntry]] = {}
    for entry in entries:
        for file in entry.index_files:
            own.setdefault(file.index_id, []).append(file)
    return Summary(
        num_files=len(entries),
        first=entries[0].path,
        last=entries[-1].path,
        schemas=tuple(dict.fromkeys(entry.schema for entry in entries)),
        shared=tuple({item.id: item for entry in entries for item in entry.shared}.values()),
        indexes={
            index_id: IndexSummary(
                len(files),
                sum(file.length for file in files),
                _around(files) if len(files) == len(entries) else None,
            )
            for index_id, files in own.items()
        },
    )


def _around(files: Sequence[IndexFileEntry]) -> Extent | None:
    """The extent around all stripes of some files; None where one has none, or keys are of two kinds."""
    if not all(file.extents for file in files):
        return None
    extents = [extent for file in files for extent in file.extents]
    if len({type(item.min_key) for item in extents if item.has_values}) > 1:
        return None
    return around(extents).cut()


def encode_segment(entries: Sequence[FileEntry]) -> bytes:
    """The bytes of a segment.

    :param entries: sorted by path.
    """
    columns: list[pa.Array] = [
        pa.array([entry.path for entry in entries], pa.string()),
        pa.array([entry.length for entry in entries], pa.uint64()),
        pa.array([entry.mtime_ns for entry in entries], pa.int64()),
        pa.array([entry.tail_checksum for entry in entries], pa.uint32()),
        pa.array([entry.num_rows for entry in entries], pa.uint64()),
        pa.array([entry.stripe_rows for entry in entries], pa.list_(pa.uint64())),
        pa.array([entry.schema for entry in entries], pa.string()).dictionary_encode(),
        pa.array([[item.id for item in entry.shared] for entry in entries], pa.list_(pa.string())),
        pa.array([entry.changed_ns for entry in entries], pa.int64()),
        pa.array([entry.num_row_groups for entry in entries], pa.uint64()),
    ]
    schema = _PLAIN
    for index_id in sorted({file.index_id for entry in entries for file in entry.index_files}):
        files = [entry.index_file(index_id) for entry in entries]
        columns.append(_index_column(files))
        schema = schema.append(pa.field(_INDEX + index_id, columns[-1].type))
        if any(file is not None and file.extents for file in files):
            columns.append(_extents_column(files))
            schema = schema.append(pa.field(_EXTENTS + index_id, columns[-1].type))
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _index_column(files: Sequence[IndexFileEntry | None]) -> pa.StructArray:
    children = [
        pa.array([file.path if file else "" for file in files], pa.string()),
        pa.array([file.length if file else 0 for file in files], pa.uint64()),
        pa.array([file.footer_checksum if file else 0 for file in files], pa.uint32()),
    ]
    missing = pa.array([file is None for file in files], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_INDEX_FIELDS, mask=missing)


def _extents_column(files: Sequence[IndexFileEntry | None]) -> pa.StructArray:
    messages = [encode_extents(file.extents) if file and file.extents else None for file in files]
    children = [
        pa.array([() if message is None else getattr(message, name) for message in messages], pa.list_(of))
        for name, of in _LISTS.items()
    ]
    missing = pa.array([message is None for message in messages], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_EXTENTS_FIELDS, mask=missing)


def decode_segment(data: bytes, only: Collection[str] | None = None) -> pa.RecordBatch:
    """The batch of a segment.

    :param only: the columns to decompress; all if None.
    :raises ValueError: if it is not one.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            schema = reader.schema
        wanted = [at for at, name in enumerate(schema.names) if only is None or name in only]
        options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=wanted)
        with pa.ipc.open_stream(data, options=options) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"a segment is not an Arrow stream: {error}") from error
    fields = list(schema)
    if not pa.schema(fields[: len(_PLAIN)]).equals(_PLAIN) or len(set(schema.names)) < len(fields):
        raise ValueError("a segment does not have the columns that it should have")
    for field in fields[len(_PLAIN) :]:
        kind = next((prefix for prefix in _FIELDS if field.name.startswith(prefix)), None)
        if kind is None or field.type != pa.struct(_FIELDS[kind]):
            raise ValueError(f"a segment has a column {field.name!r} of type {field.type}")
    if any(array.null_count for array in _never_null(batch)):
        raise ValueError("a segment has nulls where there may be none")
    return batch


def _never_null(batch: pa.RecordBatch) -> Iterator[pa.Array]:
    for column in batch.columns:
        is_struct = pa.types.is_struct(column.type)
        for part in [column.field(at) for at in range(column.type.num_fields)] if is_struct else [column]:
            yield part
            if pa.types.is_list(part.type):
                yield part.values
            elif pa.types.is_dictionary(part.type):
                yield part.dictionary


def batch_indexes(batch: pa.RecordBatch) -> dict[str, int]:
    """The ids of the indexes that have a column, and how many rows have something in it."""
    names = [name for name in batch.schema.names if name.startswith(_INDEX)]
    return {name.removeprefix(_INDEX): batch.num_rows - batch.column(name).null_count for name in names}


def batch_entries(batch: pa.RecordBatch, shared: Iterable[SharedIndexEntry]) -> tuple[FileEntry, ...]:
    """The entries of a segment.

    :param shared: those that its rows may name.
    :raises ValueError: if a row contradicts itself, or leaves the table or store.
    """
    by_id = {item.id: item for item in shared}
    plain = [batch.column(at).to_pylist() for at in range(len(_PLAIN))]
    stripe_rows = [tuple(rows) for rows in plain[5]]
    own: list[list[IndexFileEntry]] = [[] for _ in range(batch.num_rows)]
    for index_id in sorted(batch_indexes(batch)):
        _add_index_files(batch, index_id, stripe_rows, own)
    entries = []
    schemas: dict[str, str] = {}
    last = ""
    for path, length, mtime, checksum, rows, stripes, schema, names, changed, groups, files in zip(
        *plain[:5], stripe_rows, *plain[6:], own, strict=True
    ):
        if not is_safe_path(path):
            raise ValueError(f"data file name {path!r} leaves the table")
        if path <= last:
            raise ValueError(f"data file {path!r} is out of order or occurs twice")
        if sum(stripes) != rows:
            raise ValueError(f"the stripes of {path!r} do not add up to its {rows} rows")
        if groups > rows:
            raise ValueError(f"{path!r} has {groups} row groups of {rows} rows")
        if any(name not in by_id for name in names):
            raise ValueError(f"data file {path!r} names a shared index that is not there")
        last = path
        entries.append(
            FileEntry(
                path=path,
                length=length,
                mtime_ns=mtime,
                tail_checksum=checksum,
                num_rows=rows,
                stripe_rows=stripes,
                schema=schemas.setdefault(schema, schema),
                index_files=tuple(files),
                shared=tuple(by_id[name] for name in names),
                changed_ns=changed,
                num_row_groups=groups,
            )
        )
    return tuple(entries)


def _add_index_files(
    batch: pa.RecordBatch,
    index_id: str,
    stripe_rows: Sequence[tuple[int, ...]],
    own: Sequence[list[IndexFileEntry]],
) -> None:
    column = batch.column(_INDEX + index_id)
    paths, lengths, checksums = (column.field(at).to_pylist() for at in range(len(_INDEX_FIELDS)))
    extents: Sequence[tuple[Extent, ...]] = [()] * batch.num_rows
    if _EXTENTS + index_id in batch.schema.names:
        extents = _extents(batch.column(_EXTENTS + index_id), stripe_rows)
    for at, is_there in enumerate(column.is_valid().to_pylist()):
        if is_there:
            if not is_safe_path(paths[at]):
                raise ValueError(f"index file name {paths[at]!r} leaves the store")
            own[at].append(IndexFileEntry(index_id, paths[at], lengths[at], checksums[at], extents[at]))


def _extents(column: pa.StructArray, stripe_rows: Sequence[tuple[int, ...]]) -> list[tuple[Extent, ...]]:
    lists = {name: column.field(name).to_pylist() for name in _LISTS}
    found: list[tuple[Extent, ...]] = []
    for at, is_there in enumerate(column.is_valid().to_pylist()):
        message = pb.StripeExtents(**{name: values[at] for name, values in lists.items()})
        found.append(decode_extents(message, stripe_rows[at]) if is_there else ())
    return found


def index_paths(data: bytes) -> list[str]:
    """Every index file that the data files of a segment have of their own.

    :raises ValueError: if it is not a segment.
    """
    found: list[str] = []
    for column in decode_segment(data).columns[len(_PLAIN) :]:
        if column.type.num_fields == len(_INDEX_FIELDS):
            found += column.field("path").filter(column.is_valid()).to_pylist()
    return found


def may_match(
    data: bytes, num_files: int, index_id: str, domain: Domain, fits: Callable[[str], bool]
) -> Mask:
    """Which data files of a segment may hold a member of a domain, by an index's extents: False is certain.

    :param fits: whether the keys of a file of some schema are of the domain's kind.
    :raises ValueError: if it is not a segment.
    """
    name = _EXTENTS + index_id
    # only what is needed is decompressed: paths are most of a segment
    batch = decode_segment(data, {"schema", name})
    if batch.num_rows != num_files:
        raise ValueError(f"a segment has {batch.num_rows} rows in place of {num_files}")
    if name not in batch.schema.names:
        return np.ones(num_files, np.bool_)
    column, schemas = batch.column(name), batch.column("schema")
    counts = column.field("null_counts")
    fitting = np.array([fits(schema) for schema in schemas.dictionary.to_pylist()], np.bool_)
    found: Mask = ~(np.asarray(column.is_valid()) & fitting[np.asarray(schemas.indices)])
    if domain.null_allowed:
        found |= _any(_offsets(counts), np.asarray(counts.values) > 0)
    lows = [item.low if item.low is not None else item.high for item in domain.ranges]
    # one range without ends is of no kind: it holds every key
    if all(low is None or isinstance(low, int) for low in lows):
        lists = column.field("int_mins")
        highs = column.field("int_maxs").values
        found |= _any(_offsets(lists), _ints_overlap(lists.values, highs, domain.ranges))
    if not any(isinstance(low, int) for low in lows):
        lists = column.field("byte_mins")
        found |= _any(_offsets(lists), _bytes_overlap(column, domain.ranges))
    return found


def _offsets(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    return np.asarray(lists.offsets).astype(np.int64)


def _any(offsets: npt.NDArray[np.int64], values: Mask) -> Mask:
    """Whether some value of each list is true."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
    return sums[offsets[1:]] > sums[offsets[:-1]]


def _ints_overlap(mins: pa.Array, maxs: pa.Array, ranges: Sequence[Range]) -> Mask:
    if not ranges:
        return np.zeros(len(mins), np.bool_)
    lows = np.array([MIN_KEY if item.low is None else item.low for item in ranges], np.int64)
    highs = np.array([MAX_KEY if item.high is None else item.high for item in ranges], np.int64)
    # the first range that does not end before the least key
    at = np.searchsorted(highs, np.asarray(mins))
    near = lows[np.minimum(at, len(ranges) - 1)] <= np.asarray(maxs)
    return (at < len(ranges)) & near


def _bytes_overlap(column: pa.StructArray, ranges: Sequence[Range]) -> Mask:
    mins, maxs = column.field("byte_mins").values, column.field("byte_maxs").values
    found = np.zeros(len(mins), np.bool_)
    if not len(mins) or not ranges:
        return found
    if len(ranges) > _MOST_RANGES:
        ranges = [Range(ranges[0].low, ranges[-1].high)]
    cut = np.zeros(len(maxs), np.bool_)
    marks, starts = column.field("cut"), _offsets(column.field("byte_maxs"))[:-1]
    cut[np.repeat(starts, np.diff(_offsets(marks))) + np.asarray(marks.values).astype(np.int64)] = True
    # what was cut elsewhere than this version does is not looked at
    odd = cut & (np.asarray(pc.binary_length(maxs)) != SHORT_KEY)
    for item in ranges:
        near = np.ones(len(mins), np.bool_)
        if item.high is not None:
            before = pc.less_equal if item.high_inclusive else pc.less
            near &= np.asarray(before(mins, pa.scalar(item.high, pa.binary())))
        if item.low is not None:
            assert isinstance(item.low, bytes)
            after = pc.greater_equal if item.low_inclusive else pc.greater
            reaches = np.asarray(after(maxs, pa.scalar(item.low, pa.binary())))
            begins = np.asarray(pc.greater_equal(maxs, pa.scalar(item.low[:SHORT_KEY], pa.binary())))
            near &= np.where(cut, begins | odd, reaches)
        found |= near
    return found
