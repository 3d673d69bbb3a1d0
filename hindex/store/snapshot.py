"""The state of a table at one moment: its files, its schema, and the files that its indexes cover."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TypeVar

import numpy as np

from hindex.errors import HindexError, NewerFormatError, OrcError, StoreError, TableError
from hindex.index.roaring import group_count
from hindex.lru_cache import LruCache
from hindex.orc.acid.delta_files import file_tail
from hindex.orc.acid.schema import acid_columns
from hindex.orc.io.file_system import open_source
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.metadata.types import OrcType
from hindex.store.entries import FileEntries
from hindex.store.file_views import Columns, FileKind, FileView, FileViews
from hindex.store.manifest import FileEntry, Manifest
from hindex.store.store import Store
from hindex.table.file_schema import file_schema, stored_type
from hindex.table.listing import DataFile, Listing, Mask, list_data_files
from hindex.table.location import is_local, reading_pool
from hindex.table.partitions import CatalogPartitions, PartitionFilter, Partitioning, is_external
from hindex.table.schema import (
    DeclaredSchema,
    FieldMetadata,
    ResolvedColumn,
    TableColumn,
    TableSchema,
    are_positional,
    bind_columns,
    bind_file_columns,
    can_convert,
    merge_schemas,
)
from hindex.table.transactional import AcidOptions, with_row_ids
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

#: The number of parts of the files for each thread that reads tails.
_CHUNKS_PER_READER = 16

T = TypeVar("T")


@value_class
class _RecentListing:
    """A listing, the time when it began, and the number of the manifest with which it was compared."""

    began: float
    manifest_number: int
    listing: Listing


#: Listings of tables, for snapshots that may use them; weighted by their files.
_LISTINGS: LruCache[Hashable, _RecentListing] = LruCache(1 << 20)


def forget_listings() -> None:
    """Drop the listings of earlier snapshots, so that the next snapshot lists its table."""
    _LISTINGS.clear()


@value_class
class Snapshot:
    """A table at one moment.

    Attributes:
        files: the data files with rows, sorted by path; converted to `FileViews`.
        vanished: the paths of recorded files that are deleted.
        store_problem: the error of reading the manifest, if there was one. ``manifest`` is empty then: queries
            read the files, and operations that change or list indexes raise the error.
        declared: the catalog's schema, from which ``schema`` is taken; None if that is inferred from the files.
    """

    name: str
    store: Store
    listing: Listing
    manifest: Manifest
    schema: TableSchema
    files: Sequence[FileView] = field(repr=False)
    vanished: tuple[str, ...] = ()
    store_problem: HindexError | None = None
    declared: DeclaredSchema | None = None

    def __post_init__(self) -> None:
        self.files = FileViews.of(self.files)  # type: ignore[misc]

    @property
    def field_metadata(self) -> dict[str, FieldMetadata]:
        """Spark's metadata of the catalog's columns, by their names; empty for a table by path."""
        return {} if self.declared is None else self.declared.field_metadata

    @property
    def views(self) -> FileViews:
        """The files, typed as `FileViews`."""
        assert isinstance(self.files, FileViews)
        return self.files

    @property
    def num_rows(self) -> int:
        """The number of rows of all files, including deleted rows of transactional tables."""
        return int(self.views.num_rows.sum())

    def check_store(self) -> None:
        """Raise the error of reading the manifest, if there was one."""
        if self.store_problem is not None:
            raise self.store_problem


def take_snapshot(
    table: str,
    store: Store,
    *,
    name: str | None = None,
    options: AcidOptions | None = None,
    partitions: CatalogPartitions | None = None,
    declared: DeclaredSchema | None = None,
    manifest: Manifest | None = None,
    within: PartitionFilter | None = None,
    known: TableSchema | None = None,
    max_age: float = 0.0,
    trusts_times: bool = True,
) -> Snapshot:
    """List a table, load its manifest and derive its schema.

    The schema is the declared one, or else that of all files. The content of unchanged files comes from the
    manifest. The tails are read of all other files, and of files that may have changed although length and time
    are the same. An error of reading the manifest becomes ``store_problem``.

    Args:
        options: the options of reading transactional directories.
        partitions: the partitions of a catalog. Without them, partitions at other locations are unknown: entries
            of their files are not used, and do not count as vanished.
        declared: the catalog's schema of the table.
        manifest: the manifest to use in place of the latest one.
        within: the partitions to list, see `hindex.table.listing.list_data_files`. If the listing is pruned, no
            file counts as vanished.
        known: the last inferred schema of the whole table: files that are not listed may have its columns.
        max_age: the seconds for which the listing of an earlier snapshot is reused, with the same manifest; see
            `forget_listings`.
        trusts_times: False to read the tails of remote files that only their modification time proves unchanged.

    Raises:
        TableError: if the table does not exist or its files' schemas do not fit each other.
        OrcError: if a file is not readable as ORC.
    """
    columns = None if declared is None else tuple(declared.partitions)
    key = (table, options, partitions, columns) if max_age else None

    def list_files() -> Listing:
        return list_data_files(
            table, name=name, options=options, partitions=partitions, declared=columns, within=within
        )

    recent = None if key is None else _LISTINGS.get(key)
    if recent is not None and time.monotonic() - recent.began >= max_age:
        recent = None
    began = time.monotonic()
    if recent is None and manifest is None and not is_local(store.root) and not is_local(table):
        with ThreadPool(1) as pool:
            loading = pool.submit(_load, store, None, is_whole=within is None)
            listing = list_files()
            latest, problem = loading.result()
        views, others, problem = _match(listing, latest, problem)
        if not listing.unseen.issuperset(others):
            # the manifest may name newer files than the listing, and these would count as deleted
            listing = list_files()
            views, others, problem = _match(listing, latest, problem)
    else:
        # before the listing, for the same reason
        latest, problem = _load(store, manifest, is_whole=within is None)
        is_current = recent is not None and recent.manifest_number == _number(latest)
        listing = recent.listing if recent is not None and is_current else list_files()
        began = recent.began if recent is not None and is_current else began
        views, others, problem = _match(listing, latest, problem)
    if key is not None and not listing.is_pruned:
        _LISTINGS.put(key, _RecentListing(began, _number(latest), listing), len(listing.files))
    manifest = Manifest.empty(listing.uri) if latest is None or problem is not None else latest
    views = _with_contents(_compare_tails(views, trusts_times=trusts_times))
    _, firsts = np.unique(views.kind_numbers, return_index=True)
    transactional = bool(listing.transactional)
    partition_columns = [TableColumn(c.name, c.type) for c in listing.partitioning.columns]
    if declared is not None:
        schema = TableSchema(
            (*declared.columns, *declared.partition_columns), declared.partition_columns, transactional
        )
    else:
        schemas: list[tuple[str, Columns]] = []
        if known is not None:
            schemas.append(("of other partitions", tuple((c.name, c.type) for c in known.data_columns)))
        schemas += [
            (views.files.paths[at], views.kinds[views.kind_numbers[at]].columns)
            for at in sorted(firsts.tolist())
        ]
        if not len(views) and transactional:
            schemas = _recorded_schemas(manifest.files, partition_columns)
        schema = merge_schemas(schemas, partition_columns, transactional=transactional)
    binding = tuple(column.name for column in schema.data_columns)
    unsure = np.array([_is_binding_uncertain(binding, kind.names) for kind in views.kinds], np.bool_)
    if unsure.any():
        views = views.without_entries(unsure[views.kind_numbers])
    return Snapshot(
        name=name or table,
        store=store,
        listing=listing,
        manifest=manifest,
        schema=schema,
        files=views,
        # files that another user may see are not deleted, and neither are empty files
        vanished=tuple(
            path
            for path in others
            if path not in listing.unseen and (partitions is not None or not is_external(path))
        ),
        store_problem=problem,
        declared=declared,
    )


def declared_snapshot(
    table: str, store: Store, declared: DeclaredSchema, *, name: str | None = None, min_files: int = 1
) -> Snapshot | None:
    """Make a snapshot without files from the schema of a catalog, without listing the table.

    Args:
        min_files: the least number of recorded files.

    Returns:
        None if the store records fewer files, or cannot be read.
    """
    try:
        manifest = store.load()
    except (StoreError, NewerFormatError):
        # `take_snapshot` reports the error
        return None
    if manifest is None or len(manifest.files) < min_files:
        return None
    listing = Listing(table, False, (), Partitioning(tuple(declared.partitions), {}))
    schema = TableSchema((*declared.columns, *declared.partition_columns), declared.partition_columns)
    return Snapshot(name or table, store, listing, Manifest.empty(table), schema, (), declared=declared)


def _number(manifest: Manifest | None) -> int:
    return 0 if manifest is None else manifest.number


def _load(
    store: Store, manifest: Manifest | None, *, is_whole: bool
) -> tuple[Manifest | None, HindexError | None]:
    """Return the given manifest, or load the latest one; or return the error of reading it.

    Args:
        is_whole: read all entries at once.
    """
    try:
        latest = store.load() if manifest is None else manifest
        if latest is not None and is_whole:
            latest.entries.fetch()
    except (StoreError, NewerFormatError) as error:
        return None, error
    return latest, None


def _match(
    listing: Listing, manifest: Manifest | None, problem: HindexError | None
) -> tuple[FileViews, list[str], HindexError | None]:
    """Return the non-empty files with their entries, the paths of entries without a file, and an error.

    The error is that of reading the manifest, or None.
    """
    entries = FileEntries() if manifest is None else manifest.entries
    files = listing.columns
    try:
        views, others = FileViews.matched(files, entries, only_listed=listing.is_pruned)
    except StoreError as error:
        views, others = FileViews.matched(files, FileEntries())
        problem = error
    return views.take(np.flatnonzero(files.lengths > 0)), others, problem


def _is_binding_uncertain(binding: Sequence[str], own: Sequence[str]) -> bool:
    """Return True if the binding of names to a file's columns depends on other columns of the table.

    The file may then have been indexed with another binding. This is the case if the file has columns that differ
    only in letter case, and the table spells one of them otherwise; and if the table uses the name of one column
    of a file without names for another column: a table by path has the file's names, a catalog its own.
    """
    bound = bind_file_columns(binding, own)
    if are_positional(own):
        return any(
            at not in (None, position) for at, position in zip(bind_columns(binding, own), bound, strict=True)
        )
    folded = Counter(name.lower() for name in own)
    return len(folded) < len(own) and any(
        at is not None and own[at] != name and folded[name.lower()] > 1
        for name, at in zip(binding, bound, strict=True)
    )


def _recorded_schemas(
    entries: Iterable[FileEntry], partition_columns: Sequence[TableColumn]
) -> list[tuple[str, Columns]]:
    """Return the columns of the files that were indexed before all rows of a transactional table were deleted.

    The newest come first. Columns whose types do not fit newer ones are left out: their files are deleted.
    """
    newest: dict[str, FileEntry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.mtime_ns, entry.path), reverse=True):
        newest.setdefault(entry.schema, entry)
    kept: list[tuple[str, Columns]] = []
    for entry in newest.values():
        recorded = _recorded_kind(entry.schema, True)
        if recorded is None:
            continue
        more = [*kept, (entry.path, recorded.columns)]
        try:
            merge_schemas(more, partition_columns)
        except TableError:
            # the table was recreated with other types since; a refresh removes the old files
            continue
        kept = more
    return kept


def find_fresh_files(snapshot: Snapshot) -> Mask:
    """Return a mask of the files whose length, time and ORC tail are unchanged since they were indexed.

    Reads the tails of files that neither a version nor the time of a local status change proves unchanged: the
    modification times of a remote file system can be set.

    Raises:
        OrcError: if such a file is not readable as ORC.
    """
    views = snapshot.views
    unread = views.is_listed_fresh & ~_is_proved(views, trusts_times=False)
    return _with_tails(views, unread, lambda file: read_file_tail(file).checksum).is_listed_fresh


def _is_proved(views: FileViews, *, trusts_times: bool) -> Mask:
    """Return a mask of the files that are listed as fresh, and are certainly fresh without another read.

    Args:
        trusts_times: whether the modification time of a remote file is a proof.
    """
    if trusts_times:
        return views.is_certainly_fresh
    is_local_status = views.is_certainly_fresh & views.files.has_changed_ns
    return (views.tail_checksums >= 0) | views.has_recorded_version | is_local_status


def _compare_tails(views: FileViews, *, trusts_times: bool) -> FileViews:
    """Return the files, with the checksums of the tails of those that are listed as fresh without a proof."""
    unread = views.is_listed_fresh & ~_is_proved(views, trusts_times=trusts_times)
    return _with_tails(views, unread, _tail_checksum)


def _with_tails(views: FileViews, unread: Mask, read: Callable[[DataFile], int | None]) -> FileViews:
    """Return the files with the tail checksums of some files; unreadable tails have none."""
    positions = np.flatnonzero(unread).tolist()
    if not positions:
        return views
    checksums = views.tail_checksums.copy()
    for at, checksum in zip(positions, _read_each([views.files[at] for at in positions], read), strict=True):
        if checksum is not None:
            checksums[at] = checksum
    return views.with_tail_checksums(checksums)


def _tail_checksum(file: DataFile) -> int | None:
    """Return the checksum of a file's tail; None if it cannot be read, which a later read of the file reports."""
    try:
        return _content(file).tail_checksum
    except (OrcError, TableError):
        return None


def _read_each(files: Sequence[DataFile], read: Callable[[DataFile], T]) -> list[T]:
    """Read something from each of several files in parallel."""
    if len(files) < 2:
        return [read(file) for file in files]
    with reading_pool([files[0].uri]) as pool:
        # submitting one file costs as much as reading a local tail
        together = -(-len(files) // (pool.size * _CHUNKS_PER_READER))
        # this thread waits, so that an interrupt reaches it
        reads = [
            pool.submit(lambda some: list(map(read, some)), files[at : at + together])
            for at in range(0, len(files), together)
        ]
        return [result for item in reads for result in item.result()]


@value_class
class _Content:
    """The content of a file's tail."""

    kind: FileKind
    num_rows: int
    num_stripes: int
    num_row_groups: int
    tail_checksum: int


def _with_contents(views: FileViews) -> FileViews:
    """Return the files with their columns and rows: from their entries if these describe them, else from tails.

    An entry describes its file if the file is listed as fresh: a scan that opens it compares the checksum of its
    tail. That does not protect other files, and row keys depend on the rows of the files before.
    """
    files = views.files
    is_acid = np.zeros(len(views), np.bool_)
    is_acid[list(files.acids)] = True
    is_recorded = np.where(is_acid, views.is_certainly_fresh, views.is_listed_fresh)
    kinds: dict[FileKind, int] = {}
    columns = [np.zeros(len(views), np.int64) for _ in range(4)]
    for table, at, rows in views.by_segment():
        for acid in (False, True):
            here = is_recorded[at] & (is_acid[at] == acid)
            if not here.any():
                continue
            places, places_in_table = at[here], rows[here]
            # for each recorded schema, the number of its kind; -1 if this version cannot read it
            numbers = [_kind_number(_recorded_kind(schema, acid), kinds) for schema in table.schemas]
            own_numbers = np.array(numbers, np.int64)[table.schema_numbers[places_in_table]]
            is_recorded[places[own_numbers < 0]] = False
            recorded = (table.num_rows, table.num_stripes, table.num_row_groups)
            for column, values in zip(
                columns, (own_numbers, *(item[places_in_table] for item in recorded)), strict=True
            ):
                column[places] = values
    checksums = views.tail_checksums.copy()
    unknown = np.flatnonzero(~is_recorded).tolist()
    for place, content in zip(unknown, _read_each([files[i] for i in unknown], _content), strict=True):
        number = kinds.setdefault(content.kind, len(kinds))
        for column, value in zip(
            columns, (number, content.num_rows, content.num_stripes, content.num_row_groups), strict=True
        ):
            column[place] = value
        checksums[place] = content.tail_checksum
    all_kinds = list(kinds)
    acids = with_row_ids(
        (acid, files.paths[at], int(columns[1][at]))
        for at, acid in sorted(files.acids.items())
        if all_kinds[columns[0][at]].is_flat
    )
    result = views.with_contents(checksums, all_kinds, *columns)
    return result.with_acids({at: acids[files.paths[at]] for at in files.acids if files.paths[at] in acids})


def _kind_number(kind: FileKind | None, kinds: dict[FileKind, int]) -> int:
    return -1 if kind is None else kinds.setdefault(kind, len(kinds))


def _content(file: DataFile) -> _Content:
    return _read_content(file) if file.changed_ns is None else _cached_content(file)


# as many files as large tables have: a table with more files would evict all of its own entries
@lru_cache(maxsize=1 << 18)
def _cached_content(file: DataFile) -> _Content:
    """Return the cached content of a local file's tail; after any change of the file's status, it is read again."""
    return _read_content(file)


def _read_content(file: DataFile) -> _Content:
    tail = read_file_tail(file)
    groups = sum(group_count(tail.row_index_stride, stripe.num_rows) for stripe in tail.stripes)
    kind = _shared_kind(_kind(file_schema(tail), file.acid is not None))
    return _Content(kind, tail.num_rows, len(tail.stripes), groups, tail.checksum)


def read_file_tail(file: DataFile) -> FileTail:
    """Read the tail of a data file.

    Raises:
        OrcError: if the file is not readable as ORC.
    """
    if file.acid is not None:
        return file_tail(file.acid.file)
    source = open_source(file.uri, length=file.length, version=file.version)
    try:
        return read_tail(source)
    finally:
        source.close()


@lru_cache(maxsize=256)
def _recorded_kind(schema: str, is_transactional: bool) -> FileKind | None:
    """Return the kind of the files of a recorded schema; None if this version cannot read it."""
    try:
        return _kind(parse_type(schema), is_transactional)
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _shared_kind(kind: FileKind) -> FileKind:
    """Return one object for equal kinds: each has the types of all columns."""
    return kind


def _kind(root: OrcType, is_transactional: bool) -> FileKind:
    acid = acid_columns(root) if is_transactional else None
    user = root if acid is None else acid.user
    columns = tuple(zip(user.field_names, user.children, strict=True))
    return FileKind(columns, tuple(name for name, _ in columns), acid is None)


def is_indexable(
    kind: FileKind, snapshot: Snapshot, binding: tuple[str, ...], column: ResolvedColumn
) -> bool:
    """Return True if files of a kind have a column, in a type whose values are converted to the table's.

    Args:
        binding: the table's data columns.
    """
    if not kind.has_column(binding, column.name) or _is_binding_uncertain(binding, kind.names):
        return False
    if snapshot.declared is None:
        return True
    file_type = stored_type(binding, kind.columns, column.name)
    return file_type is not None and can_convert(file_type, column.type)
