"""Manifests: the immutable states of a table's index store, and the changes that lead from one to the next.

A manifest says which indexes exist and, for each indexed data file, its fingerprint and its index files. The
functions here are pure; :mod:`hindex.store.store` reads and writes.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hindex.errors import IndexExistsError, IndexNotFoundError
from hindex.table.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One index of the table.

    :param id: 32 hexadecimal digits, never used again; see :func:`new_index_id`.
    :param column: dotted name of the column, as the table spells it.
    :param type: name of the index type, such as ``bitmap``.
    :param column_type: text of the column's type (:func:`hindex.table.type_text.type_text`).
    :param properties: sorted by key.
    :param where: the predicate on partition columns that chose what is indexed, or None.
    :param created_ms: milliseconds since 1970.
    :param creator: version of hindex that made it, such as ``hindex 0.1.0``.
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


@dataclass(frozen=True, slots=True)
class IndexFileEntry:
    """One index file of one data file.

    :param path: relative to the store's directory, with forward slashes.
    :param length: bytes.
    :param footer_checksum: crc32c of the index file's footer.
    """

    index_id: str
    path: str
    length: int
    footer_checksum: int


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One indexed data file as it was when it was read.

    :param path: relative to the table, with forward slashes.
    :param stripe_rows: rows of each stripe, in file order.
    :param schema: text of the file's root type (:func:`hindex.table.type_text.type_text`).
    :param index_files: sorted by index id; at most one an index.
    """

    path: str
    length: int
    mtime_ns: int
    tail_checksum: int
    num_rows: int
    stripe_rows: tuple[int, ...]
    schema: str
    index_files: tuple[IndexFileEntry, ...] = ()

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(self.length, self.mtime_ns, self.tail_checksum)

    def index_file(self, index_id: str) -> IndexFileEntry | None:
        """The file of one index, or None where this data file is not indexed by it."""
        return next((item for item in self.index_files if item.index_id == index_id), None)


@dataclass(frozen=True, slots=True)
class Manifest:
    """One state of a table's store.

    :param number: 0 before the first commit, then 1, 2, ...
    :param indexes: in order of creation.
    :param files: sorted by path; each has at least one index file.
    """

    number: int
    table_uri: str
    created_ms: int = 0
    indexes: tuple[IndexEntry, ...] = ()
    files: tuple[FileEntry, ...] = field(default=(), repr=False)

    @classmethod
    def empty(cls, table_uri: str) -> Manifest:
        return cls(0, table_uri)

    def find_index(self, name: str) -> IndexEntry | None:
        """The index of that name (letter case does not matter), or None."""
        wanted = name.lower()
        return next((item for item in self.indexes if item.name.lower() == wanted), None)

    def index(self, name: str) -> IndexEntry:
        """The index of that name.

        :raises IndexNotFoundError: naming those that exist.
        """
        found = self.find_index(name)
        if found is None:
            names = ", ".join(repr(item.name) for item in self.indexes) or "none"
            raise IndexNotFoundError(f"Index {name!r} does not exist; the table's indexes are: {names}")
        return found

    def files_by_path(self) -> dict[str, FileEntry]:
        """A new dict of the file entries; keep it when looking up many."""
        return {item.path: item for item in self.files}

    def same_content(self, other: Manifest) -> bool:
        """Whether both say the same, whatever their number and time."""
        return (self.indexes, self.files) == (other.indexes, other.files)


def is_safe_path(path: str) -> bool:
    """Whether a name stays below the directory it is relative to, whatever it is joined to."""
    return (
        bool(path)
        and "\0" not in path
        and not path.startswith("/")
        and all(part not in ("", ".", "..") for part in path.split("/"))
    )


def new_index_id() -> str:
    """A fresh id for an index."""
    return uuid.uuid4().hex


def check_new_index(manifest: Manifest, entry: IndexEntry) -> None:
    """Refuse an index that the table has already.

    :raises IndexExistsError: for the same name, or the same column, type and ``where``.
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
    """The manifest with new indexes.

    :raises IndexExistsError: see :func:`check_new_index`; also for two alike among the new ones.
    """
    for entry in entries:
        check_new_index(manifest, entry)
        entry = replace(entry, properties=tuple(sorted(entry.properties)))
        manifest = replace(manifest, indexes=(*manifest.indexes, entry))
    return manifest


def drop_index(manifest: Manifest, name: str) -> Manifest:
    """The manifest without an index and its files.

    :raises IndexNotFoundError: if there is none of that name.
    """
    gone = manifest.index(name).id
    kept = tuple(item for item in manifest.indexes if item.id != gone)
    return _pruned(replace(manifest, indexes=kept))


def merge_build_result(
    manifest: Manifest,
    *,
    new_indexes: Sequence[IndexEntry] = (),
    files: Sequence[FileEntry] = (),
    vanished: Collection[str] = (),
) -> Manifest:
    """The manifest with what a build or a refresh made.

    A built file whose fingerprint is recorded already gains its index files, replacing those of the same
    indexes. Where the fingerprint differs, the new entry replaces the old with all its index files. Index
    files of an index that was dropped meanwhile are left out.

    :param new_indexes: those to create in the same commit.
    :param vanished: paths of data files to forget.
    :raises IndexExistsError: see :func:`check_new_index`.
    """
    manifest = add_indexes(manifest, new_indexes)
    if not files and not vanished:
        return manifest
    merged: dict[str, FileEntry] = manifest.files_by_path()
    for path in vanished:
        merged.pop(path, None)
    for built in files:
        merged[built.path] = _joined(merged.get(built.path), built)
    return _pruned(replace(manifest, files=tuple(merged[path] for path in sorted(merged))))


def _target(entry: IndexEntry) -> tuple[str, str, str | None]:
    return entry.column.lower(), entry.type.lower(), entry.where


def _joined(old: FileEntry | None, new: FileEntry) -> FileEntry:
    by_index = {item.index_id: item for item in new.index_files}
    if old is not None and old.fingerprint == new.fingerprint:
        by_index = {item.index_id: item for item in old.index_files} | by_index
    return replace(new, index_files=tuple(by_index[key] for key in sorted(by_index)))


def _pruned(manifest: Manifest) -> Manifest:
    """Without files of indexes that are gone, and without data files that have none left."""
    alive = {item.id for item in manifest.indexes}
    kept: list[FileEntry] = []
    for entry in manifest.files:
        if all(item.index_id in alive for item in entry.index_files):
            found = entry.index_files
        else:
            found = tuple(item for item in entry.index_files if item.index_id in alive)
            entry = replace(entry, index_files=found)
        if found:
            kept.append(entry)
    return replace(manifest, files=tuple(kept))
