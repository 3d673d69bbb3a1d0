"""Manifests: the immutable states of a table's index store, and the changes between them.

A manifest lists the indexes and, for each indexed data file, its fingerprint and its index files. The
functions here are pure; `hindex.store.store` reads and writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, replace

from hindex.errors import IndexExistsError, IndexNotFoundError
from hindex.store.entries import FileEntries
from hindex.store.segment import (
    FileEntry,
    IndexFileEntry,
    MetadataCopy,
    SharedFileEntry,
    SharedIndexEntry,
    is_safe_path,
)
from hindex.validation import check_string, suggestion
from hindex.value_class import value_class

__all__ = [
    "FileEntry",
    "IndexEntry",
    "IndexFileEntry",
    "Manifest",
    "MetadataCopy",
    "SharedFileEntry",
    "SharedIndexEntry",
    "add_indexes",
    "check_new_index",
    "drop_index",
    "is_safe_path",
    "merge_build_result",
    "new_index_id",
    "remove_index_files",
    "rename_index",
    "update_index",
]


@value_class
class IndexEntry:
    """One index of the table.

    Args:
        id: 32 hexadecimal digits, never reused; see `new_index_id`.
        column: the dotted name of the column, as the table spells it; an expression as SQL; or several columns.
        type: the name of the index type, such as ``bitmap``.
        column_type: the column's type as a string (`hindex.table.type_text.type_text`).
        properties: sorted by key.
        where: the predicate on partition columns that selects the indexed files, or None.
        created_ms: milliseconds since 1970.
        creator: the user that created it.
        level: the scope of one index file: ``stripe``, ``partition`` or ``table``.
        refreshed_ms: the last time that files were added or replaced, in milliseconds since 1970; 0 for never.
        deferred: True if it was created without being built, and has not been built since: it has no files.
        annotations: sorted by key; for display only.
        quarantined: the reason why it must not be used until it is rebuilt; None if it may be used.
        inputs: the columns of the expression or list with their types, as the string of a struct type; "" for an
            index on a column.
        time_zones: for an expression of timestamps, the time zone of Java, a blank, and that of the session; "" if
            it is computed from the stored wall clocks.
    """

    id: str
    name: str
    column: str
    type: str
    column_type: str
    properties: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    created_ms: int = 0
    creator: str = ""
    level: str = "stripe"
    refreshed_ms: int = 0
    deferred: bool = False
    comment: str | None = None
    annotations: tuple[tuple[str, str], ...] = ()
    quarantined: str | None = None
    inputs: str = ""
    time_zones: str = ""

    @property
    def stores_columns(self) -> bool:
        """True if the index stores copies of columns, and answers no conditions."""
        return self.type.upper() == "ROWS"

    @property
    def is_on_expression(self) -> bool:
        return bool(self.inputs) and not self.stores_columns


@value_class
class Manifest:
    """One state of a table's store.

    Args:
        number: 0 before the first commit, then 1, 2, ...
        indexes: in order of creation.
        files: the entries of data files, sorted by path; each has at least one index file, its own or shared. They
            are converted to `hindex.store.entries.FileEntries`, whose segments are read from the store on demand.
    """

    number: int
    table_uri: str
    created_ms: int = 0
    indexes: tuple[IndexEntry, ...] = ()
    files: Sequence[FileEntry] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.files, FileEntries):
            object.__setattr__(self, "files", FileEntries.from_entries(self.files))

    @property
    def entries(self) -> FileEntries:
        """The files, typed as `hindex.store.entries.FileEntries`."""
        assert isinstance(self.files, FileEntries)
        return self.files

    @classmethod
    def empty(cls, table_uri: str) -> Manifest:
        return cls(0, table_uri)

    def find_index(self, name: str) -> IndexEntry | None:
        """Return the index of a name (letter case does not matter), or None."""
        lowered = check_string(name, "the name of an index", "by_id").lower()
        return next((item for item in self.indexes if item.name.lower() == lowered), None)

    def index(self, name: str) -> IndexEntry:
        """Return the index of a name.

        Raises:
            IndexNotFoundError: if there is none; the message names the existing indexes.
        """
        entry = self.find_index(name)
        if entry is None:
            raise no_such_index(name, [item.name for item in self.indexes])
        return entry

    def shared_indexes(self) -> tuple[SharedIndexEntry, ...]:
        """Return the entries of shared indexes that at least one data file names."""
        return tuple(self.entries.shared().values())

    def file_paths(self) -> frozenset[str]:
        """Return the paths of all index files and copies of metadata."""
        shared = {file.path for item in self.shared_indexes() for file in item.files}
        return frozenset({*self.entries.own_paths(), *shared})

    def segment_paths(self) -> frozenset[str]:
        """Return the paths of the segments' files."""
        stored = (segment.stored for segment in self.entries.segments)
        return frozenset(item.path for item in stored if item is not None)

    def index_bytes(self, index_id: str) -> int:
        """Return the total length of an index's files, in bytes."""
        shared = (item for item in self.shared_indexes() if item.index_id == index_id)
        return self.entries.own_bytes(index_id) + sum(file.length for item in shared for file in item.files)

    def same_content(self, other: Manifest) -> bool:
        """Return True if this manifest has the same indexes and the identical segments as ``other``."""
        return (self.indexes, self.entries.segments) == (other.indexes, other.entries.segments)


def no_such_index(name: str, existing: Sequence[str]) -> IndexNotFoundError:
    """Return the error for a name that no index of a table has; it names the existing indexes."""
    names = ", ".join(map(repr, existing)) or "none"
    return IndexNotFoundError(
        f"Index {name!r} does not exist; {suggestion(name, existing)}the table's indexes are: {names}"
    )


def new_index_id() -> str:
    """Return a fresh id for an index."""
    return uuid.uuid4().hex


def check_new_index(manifest: Manifest, entry: IndexEntry) -> None:
    """Refuse an index that the table already has.

    Raises:
        IndexExistsError: for the same name, or the same column, type and ``where``.
    """
    same_name = manifest.find_index(entry.name)
    if same_name is not None:
        raise IndexExistsError(
            f"Index {entry.name!r} already exists; drop it first, or choose another name or IF NOT EXISTS"
        )
    for item in manifest.indexes:
        if _target(item) == _target(entry):
            raise IndexExistsError(
                "Index with same (table, column, index type) already exists: "
                f"{item.name!r} on column {item.column!r} using {item.type}; use it, or drop it first"
            )


def add_indexes(manifest: Manifest, entries: Iterable[IndexEntry]) -> Manifest:
    """Return the manifest with new indexes.

    Raises:
        IndexExistsError: see `check_new_index`; also if two new indexes conflict.
    """
    for entry in entries:
        check_new_index(manifest, entry)
        entry = replace(entry, properties=tuple(sorted(entry.properties)))
        manifest = replace(manifest, indexes=(*manifest.indexes, entry))
    return manifest


def drop_index(manifest: Manifest, name: str) -> Manifest:
    """Return the manifest without an index and its files.

    Raises:
        IndexNotFoundError: if there is none of that name.
    """
    index_id = manifest.index(name).id
    kept = tuple(item for item in manifest.indexes if item.id != index_id)
    return replace(manifest, indexes=kept, files=manifest.entries.without_index(index_id))


def rename_index(manifest: Manifest, name: str, new_name: str) -> Manifest:
    """Return the manifest with another name for an index.

    Raises:
        IndexNotFoundError: if there is none of that name.
        IndexExistsError: if another index has the new name.
    """
    entry = manifest.index(name)
    taken = manifest.find_index(new_name)
    if taken is not None and taken.id != entry.id:
        raise IndexExistsError(f"Index {taken.name!r} already exists; drop it first, or choose another name")
    return update_index(manifest, replace(entry, name=new_name))


def update_index(manifest: Manifest, entry: IndexEntry) -> Manifest:
    """Return the manifest with the entry of an index replaced, by its id; unchanged if there is no such id."""
    indexes = tuple(entry if item.id == entry.id else item for item in manifest.indexes)
    return replace(manifest, indexes=indexes)


def remove_index_files(manifest: Manifest, index_id: str, paths: Collection[str]) -> Manifest:
    """Return the manifest without the files of an index for some data files."""
    return replace(manifest, files=manifest.entries.without_index(index_id, paths))


def merge_build_result(
    manifest: Manifest,
    *,
    new_indexes: Sequence[IndexEntry] = (),
    files: Sequence[FileEntry] = (),
    vanished: Collection[str] = (),
    since: Manifest | None = None,
) -> Manifest:
    """Return the manifest with the result of a build or refresh.

    If the fingerprint of a built file is already recorded, its entry gets the new index files, which replace those
    of the same indexes. If the fingerprint differs, the new entry replaces the old one with all its index files.
    Index files of an index that has been dropped meanwhile are left out.

    Args:
        new_indexes: the indexes to create in the same commit.
        vanished: the paths of data files to remove.
        since: the manifest with which the build began. A file that another writer has recorded in another version
            meanwhile keeps that entry.

    Raises:
        IndexExistsError: see `check_new_index`.
    """
    manifest = add_indexes(manifest, new_indexes)
    alive = {item.id for item in manifest.indexes}
    old = manifest.entries.find(built.path for built in files)
    begun = {} if since is None else since.entries.find(old)
    changes: dict[str, FileEntry | None] = dict.fromkeys(vanished)
    for built in files:
        if since is not None and _is_overtaken(built, begun.get(built.path), old.get(built.path)):
            continue
        # several jobs of one build may have read a file
        before = changes[built.path] if built.path in changes else old.get(built.path)
        joined = _merge_entries(before, built, alive)
        changes[built.path] = joined if joined.index_files or joined.shared else None
    return replace(manifest, files=manifest.entries.updated(changes))


def _is_overtaken(built: FileEntry, begun: FileEntry | None, recorded: FileEntry | None) -> bool:
    """Return True if another version of a file than the built one was recorded since the build began."""
    if recorded is None or recorded.fingerprint == built.fingerprint:
        return False
    return begun is None or recorded.fingerprint != begun.fingerprint


def _target(entry: IndexEntry) -> tuple[str, bool, str, str, str | None]:
    # names differ in more than letter case, and so do the texts in expressions
    column = entry.column if entry.inputs else entry.column.lower()
    return column, bool(entry.inputs), entry.time_zones, entry.type.lower(), entry.where


def _merge_entries(old: FileEntry | None, new: FileEntry, alive: Collection[str]) -> FileEntry:
    """Merge a new entry with the index files of the old one that are still valid, without those of dropped indexes."""
    own = {item.index_id: item for item in new.index_files if item.index_id in alive}
    shared = {item.index_id: item for item in new.shared if item.index_id in alive}
    if old is not None and old.fingerprint == new.fingerprint:
        # the build has opened the file and compared its tail, as a lookup of the older indexes does: the new
        # entry's changed_ns holds for these, too
        own = {item.index_id: item for item in old.index_files} | own
        shared = {item.index_id: item for item in old.shared} | shared
        new = replace(
            new,
            lacks_time_zone=old.lacks_time_zone or new.lacks_time_zone,
            metadata=new.metadata or old.metadata,
        )
    return replace(
        new,
        index_files=tuple(own[key] for key in sorted(own)),
        shared=tuple(shared[key] for key in sorted(shared)),
    )
