"""Definitions of indexes as table properties in a catalog: they survive if a table's files and store are deleted.

Each index has a property ``hindex.index.<id>`` with its definition as compressed JSON in hexadecimal digits.
Catalogs compare keys by letter case, limit the length of values, and show ``(redacted)`` in place of properties
that look like a URL or a password; these properties do not.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from hindex.errors import IndexExistsError, StoreError
from hindex.store.manifest import IndexEntry, Manifest, check_new_index

#: The prefix of the properties' keys.
PREFIX = "hindex.index."
#: The most characters of a value that every Hive metastore accepts.
MAX_LENGTH = 4000

_VERSION = 1
_MAX_BYTES = 1 << 20
_ID_DIGITS = 32
_TEXTS = ("name", "column", "type", "column_type", "creator", "level", "inputs", "time_zones")
_OPTIONAL = ("where", "comment")
_PAIRS = ("properties", "annotations")


class Definitions(Protocol):
    """The definitions of one table's indexes, in its catalog."""

    def read(self) -> tuple[IndexEntry, ...]:
        """Return the definitions, oldest first; () if the catalog cannot be read."""
        ...

    def write(self, entries: Sequence[IndexEntry], dropped: Sequence[str] = ()) -> bool:
        """Set the definitions of some indexes, and remove others by their ids; return True if the catalog changed.

        Errors of the catalog are logged as warnings: the indexes themselves are correct.
        """
        ...


def encode_definition(entry: IndexEntry) -> str:
    """Encode the definition of an index as the value of a property."""
    fields: dict[str, Any] = {"version": _VERSION, "created_ms": entry.created_ms, "deferred": entry.deferred}
    fields |= {name: getattr(entry, name) for name in (*_TEXTS, *_OPTIONAL)}
    fields |= {name: dict(getattr(entry, name)) for name in _PAIRS}
    text = json.dumps({name: value for name, value in fields.items() if value is not None})
    return zlib.compress(text.encode(), 9).hex()


def decode_definition(key: str, value: str) -> IndexEntry:
    """Decode a property.

    Raises:
        StoreError: if it is not a definition, or has a newer version.
    """
    try:
        inflate = zlib.decompressobj()
        fields = json.loads(inflate.decompress(bytes.fromhex(value), _MAX_BYTES))
        if not inflate.eof:
            raise ValueError("it is cut")
        if not isinstance(fields, dict) or fields.get("version") != _VERSION:
            raise ValueError("it is of an unknown version")
        index_id = key.removeprefix(PREFIX)
        if len(index_id) != _ID_DIGITS or set(index_id) - set("0123456789abcdef"):
            raise ValueError("its key names no index")
        texts: dict[str, Any] = {name: _checked(fields.get(name, ""), str) for name in _TEXTS}
        texts |= {name: _checked(fields[name], str) for name in _OPTIONAL if fields.get(name) is not None}
        texts |= {name: _pairs(fields.get(name, {})) for name in _PAIRS}
        created_ms, deferred = _checked(fields["created_ms"], int), _checked(fields["deferred"], bool)
        return IndexEntry(id=index_id, created_ms=created_ms, deferred=deferred, **texts)
    except (KeyError, RecursionError, ValueError, zlib.error) as error:
        raise StoreError(f"the table property {key!r} is no definition of an index: {error}") from error


def lost_indexes(manifest: Manifest, definitions: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
    """Return the definitions of indexes that a store lacks, and that do not conflict with its own indexes."""
    existing = {entry.id for entry in manifest.indexes}
    lost = []
    for entry in definitions:
        if entry.id in existing:
            continue
        try:
            check_new_index(manifest, entry)
        except IndexExistsError:
            # another index with the same name, or on the same column, has been created since
            continue
        lost.append(entry)
        manifest = replace(manifest, indexes=(*manifest.indexes, entry))
    return tuple(lost)


def with_indexes(manifest: Manifest, lost: Sequence[IndexEntry]) -> Manifest:
    """Return the manifest with lost indexes, without files; indexes that it has or that conflict are left out."""
    return replace(manifest, indexes=(*manifest.indexes, *lost_indexes(manifest, lost)))


def changed_definitions(
    manifest: Manifest, definitions: Sequence[IndexEntry]
) -> tuple[list[IndexEntry], list[str]]:
    """Return the indexes of a store whose definitions differ or are missing, and the ids of superseded definitions."""
    before = {entry.id: encode_definition(entry) for entry in definitions}
    kept = {entry.id for entry in (*manifest.indexes, *lost_indexes(manifest, definitions))}
    changed = [entry for entry in manifest.indexes if before.get(entry.id) != encode_definition(entry)]
    return changed, [index_id for index_id in before if index_id not in kept]


def _checked(value: object, kind: type) -> Any:  # noqa: ANN401 of the kind
    if type(value) is not kind:
        raise ValueError(f"{value!r} is no {kind.__name__}")
    return value


def _pairs(fields: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(fields, Mapping):
        raise ValueError(f"{fields!r} is no mapping")
    return tuple(sorted((name, _checked(value, str)) for name, value in fields.items()))
