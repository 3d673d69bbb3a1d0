"""Inspect a manifest: its number, its table, and its indexes."""

from __future__ import annotations

from hindex.api.value_formatting import instant_text
from hindex.cli.inspect_document import Document, columns
from hindex.orc.io.source import ByteSource
from hindex.store.manifest import IndexEntry, Manifest
from hindex.store.manifest_file import MAX_BYTES, corrupt, decode


def document(source: ByteSource) -> Document:
    """Return the content of a manifest without its segments.

    Raises:
        StoreError: if it is damaged.
        NewerFormatError: if a newer version wrote it.
    """
    size = source.size()
    if size > MAX_BYTES:
        raise corrupt(source.path, f"it has {size} bytes, more than a manifest has")
    (data,) = source.read([(0, size)])
    manifest = decode(bytes(data), source.path)
    return {
        "kind": "MANIFEST",
        "file": source.path,
        "bytes": size,
        "number": manifest.number,
        "table": manifest.table_uri,
        "created": _instant(manifest.created_ms),
        "data_files": len(manifest.files),
        "segments": sorted(manifest.segment_paths()),
        "indexes": [_index(manifest, entry) for entry in manifest.indexes],
    }


def _index(manifest: Manifest, entry: IndexEntry) -> Document:
    return {
        "name": entry.name,
        "type": entry.type.upper(),
        "column": {"name": entry.column, "type": entry.column_type},
        "id": entry.id,
        "bytes": manifest.index_bytes(entry.id),
        "level": entry.level.upper(),
        "where": entry.where,
        "time_zones": entry.time_zones or None,
        "properties": dict(entry.properties),
        "created": _instant(entry.created_ms),
        "refreshed": _instant(entry.refreshed_ms),
        "deferred": entry.deferred,
        "quarantined": entry.quarantined,
    }


def _instant(milliseconds: int) -> str | None:
    return instant_text(milliseconds) if milliseconds else None


def text(document: Document) -> str:
    """Render the document as text."""
    head = [
        ("file", document["file"]),
        ("manifest", f"number {document['number']:,}"),
        ("table", document["table"]),
        ("created", document["created"] or "not recorded"),
        ("bytes", f"{document['bytes']:,}"),
        ("data files", f"{document['data_files']:,}"),
        ("segments", f"{len(document['segments']):,}"),
    ]
    lines = [*columns(head, indent=""), "", "Indexes" if document["indexes"] else "Indexes: none"]
    entries = [
        (
            entry["name"],
            entry["type"],
            f"{entry['column']['name']} {entry['column']['type']}",
            f"{entry['bytes']:,} bytes",
            "data/" + entry["id"],
            _remark(entry),
        )
        for entry in document["indexes"]
    ]
    return "\n".join(lines + (columns(entries) if entries else []))


def _remark(entry: Document) -> str:
    parts = ["deferred"] if entry["deferred"] else []
    parts += [f"WHERE {entry['where']}"] if entry["where"] else []
    parts += [f"not used: {entry['quarantined']}"] if entry["quarantined"] else []
    return ", ".join(parts)
