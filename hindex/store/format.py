"""The bytes of a manifest: a frame with version and checksum around a protobuf message.

``docs/store.md`` specifies the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c
from google.protobuf.message import DecodeError

from hindex.errors import NewerFormatError, StoreError
from hindex.proto import manifest_pb2 as pb
from hindex.store.manifest import FileEntry, IndexEntry, IndexFileEntry, Manifest, is_safe_path

MAGIC = b"HINDEXMF"
VERSION = 1

#: Longer manifests are refused: they are hostile or damaged.
MAX_BYTES = 1 << 30

_HEADER = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")

#: File entries of one segment; segments may move to files of their own in a later version.
_SEGMENT_FILES = 65_536


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest.

    :raises StoreError: if it is larger than :data:`MAX_BYTES`.
    """
    payload = _to_message(manifest).SerializeToString()
    if len(payload) > MAX_BYTES:
        raise StoreError(
            f"the manifest of table {manifest.table_uri!r} would take {len(payload)} bytes, more than the "
            f"{MAX_BYTES} that are supported; index fewer files, or drop an index"
        )
    framed = _HEADER.pack(MAGIC, VERSION, len(payload)) + payload
    return framed + _CHECKSUM.pack(google_crc32c.value(framed))


def decode(data: bytes, path: str) -> Manifest:
    """The manifest that bytes hold.

    :param path: name of the file for messages.
    :raises StoreError: if the bytes are damaged.
    :raises NewerFormatError: if a newer version of hindex wrote them.
    """
    if len(data) < _HEADER.size + _CHECKSUM.size:
        raise corrupt(path, f"it has only {len(data)} bytes")
    magic, version, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise corrupt(path, "it does not begin as a manifest does")
    if length > MAX_BYTES or len(data) != _HEADER.size + length + _CHECKSUM.size:
        raise corrupt(path, f"it has {len(data)} bytes but the header says {length} of payload")
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size + length)
    if google_crc32c.value(data[: _HEADER.size + length]) != checksum:
        raise corrupt(path, "its checksum does not match")
    # frame and checksum are the same in every version, so that damage is never taken for a newer version
    if version > VERSION:
        raise NewerFormatError(
            f"manifest {path!r} has format version {version}, this hindex reads up to {VERSION}; "
            "upgrade hindex"
        )
    message = pb.Manifest()
    try:
        message.ParseFromString(data[_HEADER.size : _HEADER.size + length])
        return _from_message(message)
    except (DecodeError, ValueError, IndexError) as error:
        raise corrupt(path, " ".join(str(error).split()) or "it is not a manifest message") from error


def corrupt(path: str, what: str) -> StoreError:
    """The error for a damaged manifest, with the way out."""
    return StoreError(
        f"manifest {path!r} is corrupt: {what}; restore it from a copy, or delete it to go back to the state "
        "before its commit"
    )


def _to_message(manifest: Manifest) -> pb.Manifest:
    message = pb.Manifest(
        number=manifest.number, table_uri=manifest.table_uri, created_ms=manifest.created_ms
    )
    index_at = {item.id: at for at, item in enumerate(manifest.indexes)}
    for item in manifest.indexes:
        message.indexes.add(
            id=item.id,
            name=item.name,
            column=item.column,
            type=item.type,
            column_type=item.column_type,
            properties=[pb.Property(key=key, value=value) for key, value in item.properties],
            where=item.where,
            created_ms=item.created_ms,
            creator=item.creator,
        )
    schema_at: dict[str, int] = {}
    for start in range(0, len(manifest.files), _SEGMENT_FILES):
        segment = message.segments.add()
        for entry in manifest.files[start : start + _SEGMENT_FILES]:
            data_file = segment.files.add(
                path=entry.path,
                length=entry.length,
                mtime_ns=entry.mtime_ns,
                tail_checksum=entry.tail_checksum,
                num_rows=entry.num_rows,
                stripe_rows=entry.stripe_rows,
                schema=schema_at.setdefault(entry.schema, len(schema_at)),
            )
            for file in entry.index_files:
                data_file.index_files.add(
                    index=index_at[file.index_id],
                    path=file.path,
                    length=file.length,
                    footer_checksum=file.footer_checksum,
                )
    message.schemas.extend(schema_at)
    return message


def _from_message(message: pb.Manifest) -> Manifest:
    indexes = tuple(
        IndexEntry(
            id=item.id,
            name=item.name,
            column=item.column,
            type=item.type,
            column_type=item.column_type,
            properties=tuple((pair.key, pair.value) for pair in item.properties),
            where=item.where if item.HasField("where") else None,
            created_ms=item.created_ms,
            creator=item.creator,
        )
        for item in message.indexes
    )
    if len({item.id for item in indexes}) < len(indexes):
        raise ValueError("two indexes have the same id")
    schemas = tuple(message.schemas)
    files = tuple(
        _file_entry(item, indexes, schemas) for segment in message.segments for item in segment.files
    )
    _check_order(files)
    return Manifest(message.number, message.table_uri, message.created_ms, indexes, files)


def _file_entry(item: pb.DataFile, indexes: tuple[IndexEntry, ...], schemas: tuple[str, ...]) -> FileEntry:
    if not is_safe_path(item.path):
        raise ValueError(f"data file name {item.path!r} leaves the table")
    stripe_rows = tuple(item.stripe_rows)
    if sum(stripe_rows) != item.num_rows:
        raise ValueError(f"the stripes of {item.path!r} do not add up to its {item.num_rows} rows")
    found: list[IndexFileEntry] = []
    for file in item.index_files:
        if not is_safe_path(file.path):
            raise ValueError(f"index file name {file.path!r} leaves the store")
        found.append(IndexFileEntry(indexes[file.index].id, file.path, file.length, file.footer_checksum))
    return FileEntry(
        path=item.path,
        length=item.length,
        mtime_ns=item.mtime_ns,
        tail_checksum=item.tail_checksum,
        num_rows=item.num_rows,
        stripe_rows=stripe_rows,
        schema=schemas[item.schema],
        index_files=tuple(found),
    )


def _check_order(files: Iterable[FileEntry]) -> None:
    last = ""
    for entry in files:
        if entry.path <= last:
            raise ValueError(f"data file {entry.path!r} is out of order or occurs twice")
        last = entry.path
