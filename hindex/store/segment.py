"""Segments: immutable runs of the manifest entries of data files, sorted by path and encoded as bytes.

A commit writes only the segments with a changed entry and refers to all others. A segment is an Arrow record batch
with one row for each data file; ``docs/store-format.md`` specifies the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.index.column_stats import LISTS, ColumnStats, Int64s, Mask, encode_stripe_stats
from hindex.store.arrow_stream import raw_bytes
from hindex.table.listing import Fingerprint
from hindex.value_class import value_class


@value_class
class IndexFileEntry:
    """One index file of one data file.

    Args:
        path: relative to the store's directory, with forward slashes.
        length: in bytes.
        footer_checksum: the crc32c of the index file's footer.
        stripe_stats: the statistics of each stripe, by which scans skip files; empty if the index type has none.
    """

    index_id: str
    path: str
    length: int
    footer_checksum: int
    stripe_stats: Sequence[ColumnStats] = ()


@value_class
class SharedFileEntry:
    """One index file of many data files.

    Args:
        path: relative to the store's directory, with forward slashes.
        length: in bytes.
        footer_checksum: the crc32c of the index file's footer.
        stats: its keys; ``rows`` counts pairs of a key and a row group, ``null_count`` row groups with a null.
    """

    path: str
    length: int
    footer_checksum: int
    stats: ColumnStats


@value_class
class SharedIndexEntry:
    """The files that one build wrote for an index over many data files.

    Args:
        id: 32 hexadecimal digits, never reused.
        column_type: the type whose keys are in the files, as a string.
        partition: the partition that it covers, by the names of its directories; None for the table.
        num_files: the data files that were covered when it was written; changed files no longer name it.
        files: the index files in key order; no key is in two of them.
    """

    id: str
    index_id: str
    column_type: str
    partition: str | None
    num_files: int
    num_row_groups: int
    files: tuple[SharedFileEntry, ...] = field(repr=False)


@value_class
class MetadataCopy:
    """A copy of the metadata of a remote data file, see `hindex.store.metadata_copy`.

    Args:
        version: the version of the data file, as its store lists it.
        path: the file that contains this and other copies: relative to the store's directory, with forward
            slashes; absolute in a scan task.
        file_length: the bytes of that file.
        offset: the position of the first byte in it.
        length: in bytes.
        checksum: the crc32c of these bytes.
    """

    version: str
    path: str
    file_length: int
    offset: int
    length: int
    checksum: int


@value_class
class FileEntry:
    """One indexed data file as it was when it was read.

    Args:
        path: relative to the table, with forward slashes.
        stripe_rows: the rows of each stripe, in file order.
        schema: the file's root type as a string (`hindex.table.type_text.type_text`).
        index_files: its own index files, sorted by index id; at most one per index.
        shared: the entries of shared index files, sorted by index id; at most one per index.
        changed_ns: the last change of the file's status (``DataFile.changed_ns``); 0 if unknown.
        num_row_groups: the row groups of all stripes; 0 if unknown or without rows.
        lacks_time_zone: True if an index is on a timestamp column whose writer time zone a stripe does not name.
        metadata: the copy of its metadata; None for local files, and if its store has no versions.
    """

    path: str
    length: int
    mtime_ns: int
    tail_checksum: int
    num_rows: int
    stripe_rows: tuple[int, ...]
    schema: str
    index_files: tuple[IndexFileEntry, ...] = ()
    shared: tuple[SharedIndexEntry, ...] = ()
    changed_ns: int = 0
    num_row_groups: int = 0
    lacks_time_zone: bool = False
    metadata: MetadataCopy | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.length, self.mtime_ns, self.tail_checksum)

    def index_file(self, index_id: str) -> IndexFileEntry | None:
        """Return the own file of an index, or None if this data file has none."""
        return next((item for item in self.index_files if item.index_id == index_id), None)

    def shared_index(self, index_id: str) -> SharedIndexEntry | None:
        """Return the entry of an index's shared files that cover this data file, or None."""
        return next((item for item in self.shared if item.index_id == index_id), None)

    def is_covered_by(self, index_id: str) -> bool:
        """Return True if an index covers this data file, by an own or a shared index file."""
        return self.index_file(index_id) is not None or self.shared_index(index_id) is not None


def is_safe_path(path: str) -> bool:
    """Return True if a relative path stays below any directory that it is joined to."""
    return (
        bool(path)
        and "\0" not in path
        and not path.startswith("/")
        and all(part not in ("", ".", "..") for part in path.split("/"))
    )


def string_array(strings: Sequence[str]) -> pa.StringArray:
    """Return an Arrow array of strings; ``pa.array`` would import pandas."""
    encoded = [text.encode() for text in strings]
    ends = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum(list(map(len, encoded)), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def int64_array(numbers: Int64s) -> pa.Int64Array:
    """Return an Arrow array of integers; ``pa.array`` would import pandas."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


#: Longer segments are refused as hostile or damaged.
MAX_SEGMENT_BYTES = 1 << 28
#: Segments with more uncompressed bytes than both this and so many times their length are refused: earlier
#: versions wrote longer segments of files with many stripes.
MAX_RAW_BYTES = 1 << 26
MAX_RAW_FACTOR = 256

#: The column names: the prefix of an index, before its id; the prefix of its statistics; and the metadata copies.
INDEX_PREFIX, STATS_PREFIX, METADATA_COLUMN = "index ", "extents ", "metadata"
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
        pa.field("lacks_time_zone", pa.bool_()),
    ]
)
_INDEX_FIELDS = [
    pa.field("path", pa.string()),
    pa.field("length", pa.uint64()),
    pa.field("footer_checksum", pa.uint32()),
]
_STATS_FIELDS = [pa.field(name, pa.list_(of)) for name, of in LISTS.items()]
_METADATA_FIELDS = [
    pa.field("version", pa.string()),
    pa.field("path", pa.string()),
    pa.field("file_length", pa.uint64()),
    pa.field("offset", pa.uint64()),
    pa.field("length", pa.uint32()),
    pa.field("checksum", pa.uint32()),
]
_FIELDS = {INDEX_PREFIX: _INDEX_FIELDS, STATS_PREFIX: _STATS_FIELDS, METADATA_COLUMN: _METADATA_FIELDS}


@value_class
class IndexSummary:
    """The summary of an index in a segment.

    Attributes:
        num_files: the data files with an own index file.
        length: the bytes of these index files.
    """

    num_files: int
    length: int


@value_class
class Summary:
    """The summary of a segment, available without reading it.

    ``shared`` are the entries of shared indexes that it names.
    """

    num_files: int
    first: str
    last: str
    shared: tuple[SharedIndexEntry, ...]
    indexes: Mapping[str, IndexSummary]


@value_class
class StoredSegment:
    """The file of a segment: its path relative to the store, its length in bytes, and its crc32c."""

    path: str
    length: int
    checksum: int


def entry_batch(entries: Sequence[FileEntry]) -> pa.RecordBatch:
    """Return the columns of entries, which are sorted by path."""
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
        pa.array([entry.lacks_time_zone for entry in entries], pa.bool_()),
    ]
    schema = _PLAIN
    for index_id in sorted({file.index_id for entry in entries for file in entry.index_files}):
        files = [entry.index_file(index_id) for entry in entries]
        columns.append(_index_column(files))
        schema = schema.append(pa.field(INDEX_PREFIX + index_id, columns[-1].type))
        if any(file is not None and file.stripe_stats for file in files):
            columns.append(_stats_column(files))
            schema = schema.append(pa.field(STATS_PREFIX + index_id, columns[-1].type))
    if any(entry.metadata is not None for entry in entries):
        columns.append(_metadata_column([entry.metadata for entry in entries]))
        schema = schema.append(pa.field(METADATA_COLUMN, columns[-1].type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def encode_segment(batch: pa.RecordBatch) -> bytes:
    """Encode the columns of entries."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenate batches of entries; a column that a batch lacks is null in its rows."""
    others = {name: None for batch in batches for name in batch.schema.names[len(_PLAIN) :]}
    names = [*_PLAIN.names, *sorted(others)]
    columns = [
        pa.concat_arrays(
            [
                batch.column(name) if name in batch.schema.names else _null_column(name, batch.num_rows)
                for batch in batches
            ]
        )
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, names)


def take_rows(batch: pa.RecordBatch, rows: pa.Int64Array) -> pa.RecordBatch:
    """Return some rows of a batch of entries, without unused schemas and columns that are null in all rows."""
    batch = batch.take(rows)
    columns = {
        name: column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if name in _PLAIN.names or column.null_count < len(column)
    }
    schema = columns["schema"]
    used = pc.unique(schema.indices)
    indices = pc.index_in(schema.indices, value_set=used)
    columns["schema"] = pa.DictionaryArray.from_arrays(indices, schema.dictionary.take(used))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def with_nulls(column: pa.StructArray, name: str, mask: Mask) -> pa.StructArray:
    """Return an optional column of a segment with null in some rows."""
    rows = np.where(mask, len(column), np.arange(len(column)))
    return pa.concat_arrays([column, _null_column(name, 1)]).take(int64_array(rows))


def check_size(data: bytes) -> None:
    """Refuse an oversized segment before it is decompressed.

    Raises:
        ValueError: if it exceeds a limit.
    """
    raw, max_raw = raw_bytes(data), max(MAX_RAW_BYTES, MAX_RAW_FACTOR * len(data))
    if len(data) > MAX_SEGMENT_BYTES or raw > max_raw:
        raise ValueError(
            f"its {len(data)} bytes are {raw} once they are decompressed, and the most are {MAX_SEGMENT_BYTES} as "
            f"stored and {max_raw} decompressed"
        )


def _null_column(name: str, num_rows: int) -> pa.StructArray:
    """Return an optional column of a segment with only nulls, whose fields have no nulls."""
    nothing = [None] * num_rows
    if name.startswith(INDEX_PREFIX):
        return _index_column(nothing)
    return _stats_column(nothing) if name.startswith(STATS_PREFIX) else _metadata_column(nothing)


def _index_column(files: Sequence[IndexFileEntry | None]) -> pa.StructArray:
    children = [
        pa.array([file.path if file else "" for file in files], pa.string()),
        pa.array([file.length if file else 0 for file in files], pa.uint64()),
        pa.array([file.footer_checksum if file else 0 for file in files], pa.uint32()),
    ]
    missing = pa.array([file is None for file in files], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_INDEX_FIELDS, mask=missing)


def _stats_column(files: Sequence[IndexFileEntry | None]) -> pa.StructArray:
    messages = [
        encode_stripe_stats(file.stripe_stats) if file and file.stripe_stats else None for file in files
    ]
    children = [
        pa.array([() if message is None else getattr(message, name) for message in messages], pa.list_(of))
        for name, of in LISTS.items()
    ]
    missing = pa.array([message is None for message in messages], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_STATS_FIELDS, mask=missing)


def _metadata_column(copies: Sequence[MetadataCopy | None]) -> pa.StructArray:
    none = MetadataCopy("", "", 0, 0, 0, 0)
    present = [copy or none for copy in copies]
    children = [
        pa.array([getattr(copy, item.name) for copy in present], item.type) for item in _METADATA_FIELDS
    ]
    missing = pa.array([copy is None for copy in copies], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=_METADATA_FIELDS, mask=missing)


def decode_segment(data: bytes) -> pa.RecordBatch:
    """Decode a segment.

    Raises:
        ValueError: if the data is not a segment.
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
    for item in fields[len(_PLAIN) :]:
        kind = next((prefix for prefix in _FIELDS if item.name.startswith(prefix)), None)
        if kind is None or item.type != pa.struct(_FIELDS[kind]):
            raise ValueError(f"a segment has a column {item.name!r} of type {item.type}")


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
    """Return the ids of the indexes that have a column, and the number of rows that are not null in each."""
    names = [name for name in batch.schema.names if name.startswith(INDEX_PREFIX)]
    return {name.removeprefix(INDEX_PREFIX): batch.num_rows - batch.column(name).null_count for name in names}


def file_paths(batch: pa.RecordBatch) -> list[str]:
    """Return the store's files that belong to single data files of a segment: index files and metadata copies."""
    paths: list[str] = []
    for column in batch.columns[len(_PLAIN) :]:
        if column.type.get_field_index("path") >= 0:
            paths += column.field("path").filter(column.is_valid()).to_pylist()
    return paths
