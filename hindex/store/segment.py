"""Segments: immutable runs of data files' entries, sorted by path, as bytes of their own.

A commit writes those anew that hold a changed entry and refers to all others. They are Arrow record batches of one
row for each data file; ``docs/store.md`` specifies the columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hindex.index.column_stats import ColumnStats
from hindex.store.arrow_stream import raw_bytes
from hindex.store.entry import FileEntry, IndexFileEntry, SharedIndexEntry, is_safe_path
from hindex.store.extents import LISTS, ExtentColumn, StoredExtents, encode_extents

#: Longer segments are refused: they are hostile or damaged.
MAX_SEGMENT_BYTES = 1 << 28
#: And those that are longer once they are decompressed, but for what so many times their bytes allow: a segment that an
#: earlier version wrote of many stripes may be.
MAX_RAW_BYTES = 1 << 26
MAX_RAW_FACTOR = 256

_INDEX, _EXTENTS = "index ", "extents "
# what is of one length in the columns of a row, and of an extent
_ROW_BYTES, _EXTENT_BYTES = 64, 24
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
_INDEX_FIELDS = [
    pa.field("path", pa.string()),
    pa.field("length", pa.uint64()),
    pa.field("footer_checksum", pa.uint32()),
]
_EXTENTS_FIELDS = [pa.field(name, pa.list_(of)) for name, of in LISTS.items()]
_FIELDS = {_INDEX: _INDEX_FIELDS, _EXTENTS: _EXTENTS_FIELDS}


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """The summary of an index in a segment.

    :ivar num_files: data files with an index file of their own.
    :ivar length: bytes of these.
    """

    num_files: int
    length: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a segment, known without reading it.

    ``shared`` are the shared files that occur in it.
    """

    num_files: int
    first: str
    last: str
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
        shared=tuple({item.id: item for entry in entries for item in entry.shared}.values()),
        indexes={
            index_id: IndexSummary(len(files), sum(file.length for file in files))
            for index_id, files in own.items()
        },
    )


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


def raw_size(entry: FileEntry) -> int:
    """About how many bytes an entry takes in a segment before that is compressed, its schema left out."""
    size = (
        _ROW_BYTES + len(entry.path) + 8 * len(entry.stripe_rows) + sum(len(item.id) for item in entry.shared)
    )
    for file in entry.index_files:
        size += len(file.path)
        for extent in file.extents:
            keys = (extent.min_key, extent.max_key)
            size += _EXTENT_BYTES + sum(len(key) for key in keys if isinstance(key, bytes))
    return size


def check_size(data: bytes) -> None:
    """Refuse the bytes of a segment that is longer than any may be, before anything of it is decompressed.

    :raises ValueError: if it is that.
    """
    raw, most = raw_bytes(data), max(MAX_RAW_BYTES, MAX_RAW_FACTOR * len(data))
    if len(data) > MAX_SEGMENT_BYTES or raw > most:
        raise ValueError(
            f"its {len(data)} bytes are {raw} once they are decompressed, and the most are {MAX_SEGMENT_BYTES} as "
            f"stored and {most} decompressed"
        )


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
        for name, of in LISTS.items()
    ]
    missing = pa.array([message is None for message in messages], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_EXTENTS_FIELDS, mask=missing)


def decode_segment(data: bytes) -> pa.RecordBatch:
    """The batch of a segment.

    :raises ValueError: if it is not one.
    """
    try:
        with pa.ipc.open_stream(data) as reader:
            schema = reader.schema
        _check_schema(schema)
        check_size(data)
        options = pa.ipc.IpcReadOptions(use_threads=False)
        with pa.ipc.open_stream(data, options=options) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"a segment is not an Arrow stream: {error}") from error
    if any(array.null_count for array in _never_null(batch)):
        raise ValueError("a segment has nulls where there may be none")
    return batch


def _check_schema(schema: pa.Schema) -> None:
    fields = list(schema)
    if not pa.schema(fields[: len(_PLAIN)]).equals(_PLAIN) or len(set(schema.names)) < len(fields):
        raise ValueError("a segment does not have the columns that it should have")
    for field in fields[len(_PLAIN) :]:
        kind = next((prefix for prefix in _FIELDS if field.name.startswith(prefix)), None)
        if kind is None or field.type != pa.struct(_FIELDS[kind]):
            raise ValueError(f"a segment has a column {field.name!r} of type {field.type}")


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
    plain = [_values(batch.column(at)) for at in range(len(_PLAIN))]
    stripe_rows = [tuple(rows) for rows in plain[5]]
    own: list[list[IndexFileEntry]] = [[] for _ in range(batch.num_rows)]
    for index_id in sorted(batch_indexes(batch)):
        _add_index_files(batch, index_id, own)
    entries = []
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
                schema=schema,
                index_files=tuple(files),
                shared=tuple(by_id[name] for name in names),
                changed_ns=changed,
                num_row_groups=groups,
            )
        )
    return tuple(entries)


def _values(array: pa.Array) -> list[Any]:
    """The values of an array; equal ones of a dictionary are one object, however long each is."""
    if not pa.types.is_dictionary(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    held = array.dictionary.to_pylist()
    return [held[at] for at in array.indices.to_pylist()]


def _add_index_files(batch: pa.RecordBatch, index_id: str, own: Sequence[list[IndexFileEntry]]) -> None:
    column = batch.column(_INDEX + index_id)
    paths, lengths, checksums = (column.field(at).to_pylist() for at in range(len(_INDEX_FIELDS)))
    extents = _extents(batch, index_id)
    for at, is_there in enumerate(column.is_valid().to_pylist()):
        if is_there:
            if not is_safe_path(paths[at]):
                raise ValueError(f"index file name {paths[at]!r} leaves the store")
            own[at].append(IndexFileEntry(index_id, paths[at], lengths[at], checksums[at], extents[at]))


def _extents(batch: pa.RecordBatch, index_id: str) -> Sequence[Sequence[ColumnStats]]:
    """Return the column statistics that an index has of each file's stripes."""
    found: list[Sequence[ColumnStats]] = [()] * batch.num_rows
    if _EXTENTS + index_id in batch.schema.names:
        column = batch.column(_EXTENTS + index_id)
        is_there = column.is_valid()
        held = ExtentColumn(column.filter(is_there), batch.column("stripe_rows").filter(is_there))
        for number, at in enumerate(pc.indices_nonzero(is_there).to_pylist()):
            found[at] = StoredExtents(held, number)
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
