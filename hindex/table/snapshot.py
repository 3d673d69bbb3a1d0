"""What a table is at one moment: its files, its schema, and which files its indexes describe."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

from hindex.errors import HindexError
from hindex.orc.source import open_source
from hindex.orc.tail import read_tail
from hindex.orc.types import OrcType
from hindex.store.manifest import FileEntry, Manifest
from hindex.store.store import Store
from hindex.table.listing import DataFile, Listing, list_data_files
from hindex.table.partitions import PartitionValue
from hindex.table.schema import TableColumn, TableSchema, merge_schemas
from hindex.table.type_text import parse_type

#: Files without a manifest entry whose tails are read at once.
_TAIL_READERS = 8


@dataclass(frozen=True, slots=True)
class FileView:
    """One data file as it is now.

    ``entry`` is its manifest entry, whether or not it still fits; ``is_listed_fresh`` says that length and
    time are those recorded (the tail's checksum is compared by whoever opens the file).
    """

    file: DataFile
    entry: FileEntry | None
    partition: tuple[PartitionValue, ...]

    @property
    def is_listed_fresh(self) -> bool:
        return self.entry is not None and self.file.may_match(self.entry.fingerprint)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one moment. ``files`` have rows, are sorted by path; ``vanished`` are recorded but gone."""

    name: str
    store: Store
    listing: Listing
    manifest: Manifest
    schema: TableSchema
    files: tuple[FileView, ...] = field(repr=False)
    vanished: tuple[str, ...] = ()


def take_snapshot(table: str, store: Store, *, name: str | None = None) -> Snapshot:
    """List a table, load its manifest and derive its schema.

    The schema comes from the manifest for files that have not changed; the tails of the others are read.

    :raises TableError: if the table does not exist or its files' schemas do not fit each other.
    :raises OrcError: if a file is not readable as ORC.
    :raises StoreError: if the manifest cannot be read.
    """
    listing = list_data_files(table)
    manifest = store.load() or Manifest.empty(listing.uri)
    entries = manifest.files_by_path()
    views = tuple(
        FileView(file, entries.get(file.path), listing.partition_values(file))
        for file in listing.files
        if not file.is_empty
    )
    present = {file.path for file in listing.files}
    partition_columns = [TableColumn(c.name, c.type) for c in listing.partitioning.columns]
    return Snapshot(
        name=name or table,
        store=store,
        listing=listing,
        manifest=manifest,
        schema=merge_schemas(_file_schemas(views), partition_columns),
        files=views,
        vanished=tuple(path for path in entries if path not in present),
    )


def _file_schemas(views: Sequence[FileView]) -> list[tuple[str, tuple[tuple[str, OrcType], ...]]]:
    unknown = [view.file for view in views if not view.is_listed_fresh]
    if len(unknown) > 1:
        with ThreadPoolExecutor(_TAIL_READERS) as pool:
            read = dict(zip((file.path for file in unknown), pool.map(_read_columns, unknown), strict=True))
    else:
        read = {file.path: _read_columns(file) for file in unknown}
    found = []
    for view in views:
        columns = read.get(view.file.path)
        if columns is None:
            assert view.entry is not None
            columns = _recorded_columns(view.entry.schema)
        found.append((view.file.path, columns))
    return found


def _read_columns(file: DataFile) -> tuple[tuple[str, OrcType], ...]:
    source = open_source(file.uri)
    try:
        return _columns(read_tail(source).schema)
    finally:
        source.close()


@lru_cache(maxsize=256)
def _recorded_columns(schema: str) -> tuple[tuple[str, OrcType], ...]:
    try:
        return _columns(parse_type(schema))
    except ValueError as error:
        raise HindexError(
            f"a manifest records a file schema that cannot be read ({error}): drop the table's indexes and create "
            "them again"
        ) from error


def _columns(root: OrcType) -> tuple[tuple[str, OrcType], ...]:
    return tuple(zip(root.field_names, root.children, strict=True))
