"""The bytes of a manifest: a frame with version and checksum around a protobuf message.

``docs/store-format.md`` specifies the format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import TypeAlias

import google_crc32c
from google.protobuf.message import DecodeError

from hindex.domain import Key
from hindex.errors import NewerFormatError, StoreError
from hindex.index.column_stats import ColumnStats
from hindex.proto import manifest_pb2 as pb
from hindex.store.entries import FileEntries, Load, Segment
from hindex.store.manifest import (
    IndexEntry,
    Manifest,
    SharedFileEntry,
    SharedIndexEntry,
    is_safe_path,
)
from hindex.store.segment import MAX_SEGMENT_BYTES, IndexSummary, StoredSegment, Summary

MAGIC = b"HINDEXMF"
VERSION = 1

#: Longer manifests are refused as hostile or damaged.
MAX_BYTES = 1 << 30

#: A manifest contains its table's only segment if that is not longer than this, which saves reading a file.
INLINE_BYTES = 1 << 18

_HEADER = struct.Struct("<8sIQ")
_CHECKSUM = struct.Struct("<I")

Places: TypeAlias = Mapping[Segment, StoredSegment]


def encode(manifest: Manifest, locations: Places | None = None, commit_id: bytes = b"") -> bytes:
    """Encode a manifest.

    Args:
        locations: the future files of new segments; new segments without one are written into the manifest.
        commit_id: distinguishes this manifest from an equal one of another writer.

    Raises:
        StoreError: if it is larger than `MAX_BYTES`.
    """
    payload = _to_message(manifest, locations or {}, commit_id).SerializeToString()
    if len(payload) > MAX_BYTES:
        raise StoreError(
            f"the manifest of table {manifest.table_uri!r} would take {len(payload)} bytes, more than the "
            f"{MAX_BYTES} that are supported; index fewer files, or drop an index"
        )
    framed = _HEADER.pack(MAGIC, VERSION, len(payload)) + payload
    return framed + _CHECKSUM.pack(google_crc32c.value(framed))


def unsaved_segments(manifest: Manifest) -> list[Segment]:
    """Return the segments that need an own file and do not have one yet."""
    segments = manifest.entries.segments
    pending = [segment for segment in segments if segment.stored is None]
    return [] if len(segments) == 1 and pending and len(pending[0].data) <= INLINE_BYTES else pending


def no_segments(segments: Sequence[StoredSegment]) -> Sequence[bytes]:
    """Refuse to load segments, if there is no store."""
    raise StoreError(f"there is no store to read {segments[0].path!r} from")


def decode(
    data: bytes,
    path: str,
    load: Load = no_segments,
    known_segments: MutableMapping[StoredSegment, Segment] | None = None,
) -> Manifest:
    """Decode a manifest.

    Args:
        path: the name of the file for messages.
        load: reads segments that have an own file, at the first use of their entries.
        known_segments: the segments of other manifests, which may be in memory; new segments are added.

    Raises:
        StoreError: if the bytes are damaged.
        NewerFormatError: if a newer version of hindex wrote them.
    """
    if len(data) < _HEADER.size + _CHECKSUM.size:
        raise corrupt(path, f"it has only {len(data)} bytes")
    magic, version, length = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise corrupt(path, "it does not begin as a manifest does")
    if length > MAX_BYTES or len(data) != _HEADER.size + length + _CHECKSUM.size:
        raise corrupt(path, f"it has {len(data)} bytes but {length} bytes of payload by its header")
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
        return _from_message(message, load, {} if known_segments is None else known_segments)
    except (DecodeError, ValueError, IndexError) as error:
        raise corrupt(path, " ".join(str(error).split()) or "it is not a manifest message") from error


def corrupt(path: str, message: str) -> StoreError:
    """Return the error for a damaged manifest, with the remedy."""
    return StoreError(
        f"manifest {path!r} is corrupt: {message}; restore it from a copy, or delete it to go back to the state "
        "before its commit"
    )


def _to_message(manifest: Manifest, locations: Places, commit_id: bytes) -> pb.Manifest:
    message = pb.Manifest(
        number=manifest.number,
        table_uri=manifest.table_uri,
        created_ms=manifest.created_ms,
        commit_id=commit_id,
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
            level=item.level,
            refreshed_ms=item.refreshed_ms,
            deferred=item.deferred,
            comment=item.comment,
            annotations=[pb.Property(key=key, value=value) for key, value in item.annotations],
            quarantined=item.quarantined,
            inputs=item.inputs,
            time_zones=item.time_zones,
        )
    shared = manifest.shared_indexes()
    shared_at = {item.id: at for at, item in enumerate(shared)}
    message.shared_indexes.extend(_shared_message(item, index_at[item.index_id]) for item in shared)
    for segment in manifest.entries.segments:
        summary = segment.summary
        stored = segment.stored or locations.get(segment)
        part = message.segments.add(
            num_files=summary.num_files,
            first_path=summary.first,
            last_path=summary.last,
            data=segment.data if stored is None else None,
            shared_indexes=[shared_at[of.id] for of in summary.shared],
        )
        if stored is not None:
            part.path, part.length, part.checksum = stored.path, stored.length, stored.checksum
        for index_id, index_summary in summary.indexes.items():
            part.indexes.add(
                index=index_at[index_id], num_files=index_summary.num_files, length=index_summary.length
            )
    return message


def _from_message(
    message: pb.Manifest, load: Load, known_segments: MutableMapping[StoredSegment, Segment]
) -> Manifest:
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
            level=item.level,
            refreshed_ms=item.refreshed_ms,
            deferred=item.deferred,
            comment=item.comment if item.HasField("comment") else None,
            annotations=tuple((pair.key, pair.value) for pair in item.annotations),
            quarantined=item.quarantined if item.HasField("quarantined") else None,
            inputs=item.inputs,
            time_zones=item.time_zones,
        )
        for item in message.indexes
    )
    if len({item.id for item in indexes}) < len(indexes):
        raise ValueError("two indexes have the same id")
    shared = tuple(_shared_entry(item, indexes) for item in message.shared_indexes)
    if len({item.id for item in shared}) < len(shared):
        raise ValueError("two shared indexes have the same id")
    segments = [_segment(item, indexes, shared, load, known_segments) for item in message.segments]
    _check_order(path for item in segments for path in sorted({item.summary.first, item.summary.last}))
    return Manifest(message.number, message.table_uri, message.created_ms, indexes, FileEntries(segments))


def _segment(
    item: pb.FileSegment,
    indexes: tuple[IndexEntry, ...],
    shared: tuple[SharedIndexEntry, ...],
    load: Load,
    known_segments: MutableMapping[StoredSegment, Segment],
) -> Segment:
    if not item.num_files or item.first_path > item.last_path:
        raise ValueError(f"a segment of {item.num_files} data files begins with {item.first_path!r}")
    summary = Summary(
        num_files=item.num_files,
        first=item.first_path,
        last=item.last_path,
        shared=tuple(shared[at] for at in item.shared_indexes),
        indexes={indexes[of.index].id: IndexSummary(of.num_files, of.length) for of in item.indexes},
    )
    if item.HasField("data"):
        return Segment(summary, None, None, data=item.data)
    if not is_safe_path(item.path) or item.length > MAX_SEGMENT_BYTES:
        raise ValueError(f"a segment is {item.path!r} of {item.length} bytes")
    stored = StoredSegment(item.path, item.length, item.checksum)
    segment = known_segments.get(stored)
    if segment is None or segment.summary != summary:
        segment = known_segments[stored] = Segment(summary, stored, load)
    return segment


def _shared_message(item: SharedIndexEntry, index: int) -> pb.SharedIndex:
    message = pb.SharedIndex(
        id=item.id,
        index=index,
        column_type=item.column_type,
        partition=item.partition,
        num_files=item.num_files,
        num_row_groups=item.num_row_groups,
    )
    for file in item.files:
        message.files.add(
            path=file.path,
            length=file.length,
            footer_checksum=file.footer_checksum,
            extent=_encode_stats(file.stats),
        )
    return message


def _shared_entry(item: pb.SharedIndex, indexes: tuple[IndexEntry, ...]) -> SharedIndexEntry:
    files = []
    for file in item.files:
        if not is_safe_path(file.path):
            raise ValueError(f"index file name {file.path!r} leaves the store")
        files.append(
            SharedFileEntry(file.path, file.length, file.footer_checksum, _decode_stats(file.extent))
        )
    return SharedIndexEntry(
        id=item.id,
        index_id=indexes[item.index].id,
        column_type=item.column_type,
        partition=item.partition if item.HasField("partition") else None,
        num_files=item.num_files,
        num_row_groups=item.num_row_groups,
        files=tuple(files),
    )


def _encode_stats(stats: ColumnStats) -> pb.KeyExtent:
    stats = stats.truncate()
    low, high = stats.min_key, stats.max_key
    return pb.KeyExtent(
        rows=stats.rows,
        null_count=stats.null_count,
        int_min=low if isinstance(low, int) else None,
        int_max=high if isinstance(high, int) else None,
        byte_min=low if isinstance(low, bytes) else None,
        byte_max=high if isinstance(high, bytes) else None,
        max_is_prefix=stats.max_is_prefix,
    )


def _decode_stats(message: pb.KeyExtent) -> ColumnStats:
    present = tuple(name for name in ("int_min", "int_max", "byte_min", "byte_max") if message.HasField(name))
    low: Key | None = None
    high: Key | None = None
    if present == ("int_min", "int_max"):
        low, high = message.int_min, message.int_max
    elif present == ("byte_min", "byte_max"):
        low, high = message.byte_min, message.byte_max
    elif present:
        raise ValueError(f"statistics with {', '.join(present)} have no least and greatest key")
    if message.max_is_prefix and not isinstance(low, bytes):
        raise ValueError("truncated statistics have no key")
    if low is not None and high is not None and low > high:  # type: ignore[operator]
        raise ValueError("the least key of statistics is above the greatest")
    return ColumnStats(message.rows, message.null_count, low, high, message.max_is_prefix)


def _check_order(paths: Iterable[str]) -> None:
    last = ""
    for path in paths:
        if path <= last:
            raise ValueError(f"data file {path!r} is out of order or occurs twice")
        last = path
