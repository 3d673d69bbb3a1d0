"""Inspect a manifest: its number, its table, and its indexes."""

from __future__ import annotations

from hindex.api.value_formatting import instant_text
from hindex.cli.inspect_text import Document, columns
from hindex.orc.io.source import ByteSource
from hindex.store.manifest import IndexEntry, Manifest
from hindex.store.manifest_file import MAX_BYTES, corrupt, decode


def document(source: ByteSource) -> Document:
    """Return the content of a manifest without its segments.

    :raises StoreError: if it is damaged.
    :raises NewerFormatError: if a newer version wrote it.
    """
    size = source.size()
    if size > MAX_BYTES:
        raise corrupt(source.path, f"it has {size} bytes, more than a manifest has")
    (data,) = source.read([(0, size)])
    found = decode(bytes(data), source.path)
    return {
        "kind": "MANIFEST",
        "file": source.path,
        "bytes": size,
        "number": found.number,
        "table": found.table_uri,
        "created": _instant(found.created_ms),
        "data_files": len(found.files),
        "segments": sorted(found.segment_paths()),
        "indexes": [_index(found, entry) for entry in found.indexes],
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
        "properties": dict(entry.properties),
        "created": _instant(entry.created_ms),
        "refreshed": _instant(entry.refreshed_ms),
        "deferred": entry.deferred,
        "quarantined": entry.quarantined,
    }


def _instant(milliseconds: int) -> str | None:
    return instant_text(milliseconds) if milliseconds else None


def text(found: Document) -> str:
    """The document as lines for people."""
    head = [
        ("file", found["file"]),
        ("manifest", f"number {found['number']:,}"),
        ("table", found["table"]),
        ("created", found["created"] or "not recorded"),
        ("bytes", f"{found['bytes']:,}"),
        ("data files", f"{found['data_files']:,}"),
        ("segments", f"{len(found['segments']):,}"),
    ]
    lines = [*columns(head, indent=""), "", "Indexes" if found["indexes"] else "Indexes: none"]
    shown = [
        (
            entry["name"],
            entry["type"],
            f"{entry['column']['name']} {entry['column']['type']}",
            f"{entry['bytes']:,} bytes",
            "data/" + entry["id"],
            _remark(entry),
        )
        for entry in found["indexes"]
    ]
    return "\n".join(lines + (columns(shown) if shown else []))


def _remark(entry: Document) -> str:
    parts = ["deferred"] if entry["deferred"] else []
    parts += [f"WHERE {entry['where']}"] if entry["where"] else []
    parts += [f"not used: {entry['quarantined']}"] if entry["quarantined"] else []
    return ", ".join(parts)
