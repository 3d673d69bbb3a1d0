"""The state of a table at one moment: its files, its schema, and the files that its indexes cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache, partial
from typing import TypeVar

from hindex.errors import HindexError, NewerFormatError, OrcError, StoreError, TableError
from hindex.index.roaring import group_count
from hindex.orc.acid.delta_files import AcidFile, file_tail
from hindex.orc.acid.schema import acid_columns
from hindex.orc.io.file_system import open_source
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.file_tail import FileTail, read_tail
from hindex.orc.metadata.types import OrcType
from hindex.store.manifest import FileEntry, Manifest
from hindex.store.store import Store
from hindex.table.file_schema import file_schema, stored_columns, stored_type
from hindex.table.listing import DataFile, Listing, list_data_files
from hindex.table.location import is_local
from hindex.table.partitions import CatalogPartitions, PartitionValue, is_external
from hindex.table.schema import (
    DeclaredSchema,
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

#: Files whose tails are read at once.
_TAIL_READERS = 8
_REMOTE_TAIL_READERS = 32

T = TypeVar("T")


@value_class
class FileView:
    """One data file as it is now.

    ``entry`` is its manifest entry, fresh or stale. ``is_listed_fresh`` compares only length and time; the
    checksum of the tail is compared when a task opens the file.
    ``names`` are the file's own columns and ``columns`` these with their types, ``num_rows``, ``num_stripes`` and
    ``num_row_groups`` are how many rows, stripes and row groups it has; of the last, 0 also where an older build
    recorded the file. ``tail_checksum`` is that of its tail now, where this was read.
    """

    file: DataFile
    entry: FileEntry | None
    partition: tuple[PartitionValue, ...]
    names: tuple[str, ...] = ()
    num_rows: int = 0
    num_stripes: int = 0
    num_row_groups: int = 0
    columns: tuple[tuple[str, OrcType], ...] = field(default=(), repr=False)
    tail_checksum: int | None = None

    @property
    def _has_recorded_status(self) -> bool:
        entry, file = self.entry, self.file
        return entry is not None and file.length == entry.length and file.mtime_ns == entry.mtime_ns

    @property
    def is_listed_fresh(self) -> bool:
        entry = self.entry
        return (
            entry is not None
            and self._has_recorded_status
            and (self.tail_checksum is None or self.tail_checksum == entry.tail_checksum)
        )

    def has_column(self, binding: tuple[str, ...], column: str) -> bool:
        """Return True if the file has a column of the table, or a field within a struct by its dotted path.

        Args:
            binding: the table's data columns.
        """
        if column in binding:
            return column in stored_columns(binding, self.names)
        return stored_type(binding, self.columns, column) is not None

    @property
    def is_replaced(self) -> bool:
        """Return True if the file's tail differs from the indexed file's, although length and time are the same."""
        return self._has_recorded_status and not self.is_listed_fresh

    @property
    def has_recorded_version(self) -> bool:
        """Return True if the file's store lists the version whose metadata was copied: it has the recorded tail."""
        copy = None if self.entry is None else self.entry.metadata
        return copy is not None and copy.version == self.file.version

    @property
    def is_certainly_fresh(self) -> bool:
        """Return True if the file is certainly the recorded one, without opening it."""
        return (
            self.entry is not None
            and self.is_listed_fresh
            and (
                self.tail_checksum is not None
                or self.has_recorded_version
                or self.file.is_untouched_since(self.entry.changed_ns)
            )
        )


@value_class
class Snapshot:
    """A table at one moment. ``files`` have rows, are sorted by path; ``vanished`` are recorded but deleted.

    ``store_problem`` is the error of reading the manifest; ``manifest`` is empty then, so that queries read
    the files, and whatever changes or lists indexes raises it. ``declared`` is the catalog's schema, from which
    ``schema`` is; None where it is inferred from the files.
    """

    name: str
    store: Store
    listing: Listing
    manifest: Manifest
    schema: TableSchema
    files: tuple[FileView, ...] = field(repr=False)
    vanished: tuple[str, ...] = ()
    store_problem: HindexError | None = None
    declared: DeclaredSchema | None = None

    @property
    def num_rows(self) -> int:
        """Return the rows of all files, deleted ones of transactional tables included."""
        return sum(view.num_rows for view in self.files)

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
    compare: bool = False,
    manifest: Manifest | None = None,
) -> Snapshot:
    """List a table, load its manifest and derive its schema.

    The schema is the declared one, or else that of all files. The content of unchanged files comes from the manifest;
    the tails of the others are read, and of those that may have changed although length and time are the same. An error
    of reading the manifest becomes ``store_problem``.

    Args:
        options: how transactional directories are read.
        partitions: those of a catalog. Without them nothing is known of partitions elsewhere: entries of files there
            are neither used nor taken for vanished.
        declared: the schema that a catalog has of the table.
        compare: read the tails of all files that look as they were indexed.
        manifest: used in place of the latest one.

    Raises:
        TableError: if the table does not exist or its files' schemas do not fit each other.
        OrcError: if a file is not readable as ORC.
    """

    def list_files() -> Listing:
        return list_data_files(
            table,
            name=name,
            options=options,
            partitions=partitions,
            declared=None if declared is None else declared.partitions,
        )

    if manifest is None and not is_local(store.root) and not is_local(table):
        with ThreadPool(1) as pool:
            loading = pool.submit(_load, store, None)
            listing = list_files()
            latest, entries, problem = loading.result()
        if not entries.keys() <= {file.path for file in listing.files} | listing.unseen:
            # the manifest may name newer files than those of the listing, which would count as deleted
            listing = list_files()
    else:
        # before the listing, for the same reason
        latest, entries, problem = _load(store, manifest)
        listing = list_files()
    manifest = Manifest.empty(listing.uri) if latest is None else latest
    views = _compare_tails(
        [
            FileView(file, entries.get(file.path), listing.partition_values(file))
            for file in listing.files
            if not file.is_empty
        ],
        every=compare,
    )
    contents = _file_contents(views)
    columns = [content.columns for content in contents]
    flat = _flat_files(views, contents)
    names = {id(item): tuple(name for name, _ in item) for item in columns}
    # files that another user may see are not deleted
    present = {file.path for file in listing.files} | listing.unseen
    transactional = bool(listing.transactional)
    partition_columns = [TableColumn(c.name, c.type) for c in listing.partitioning.columns]
    if declared is not None:
        schema = TableSchema(
            (*declared.columns, *declared.partition_columns), declared.partition_columns, transactional
        )
    else:
        schema = merge_schemas(
            zip((view.file.path for view in views), columns, strict=True)
            if views or not transactional
            else _recorded_schemas(entries, partition_columns),
            partition_columns,
            transactional=transactional,
        )
    binding = tuple(column.name for column in schema.data_columns)
    unsure = {key for key, own in names.items() if _is_binding_uncertain(binding, own)}
    return Snapshot(
        name=name or table,
        store=store,
        listing=listing,
        manifest=manifest,
        schema=schema,
        files=tuple(
            FileView(
                replace(view.file, acid=flat[view.file.path]) if view.file.path in flat else view.file,
                None if id(content.columns) in unsure else view.entry,
                view.partition,
                names[id(content.columns)],
                content.num_rows,
                content.num_stripes,
                content.num_row_groups,
                content.columns,
                view.tail_checksum if content.tail_checksum is None else content.tail_checksum,
            )
            for view, content in zip(views, contents, strict=True)
        ),
        vanished=tuple(
            path
            for path in entries
            if path not in present and (partitions is not None or not is_external(path))
        ),
        store_problem=problem,
        declared=declared,
    )


def _load(
    store: Store, manifest: Manifest | None
) -> tuple[Manifest | None, dict[str, FileEntry], HindexError | None]:
    """Return a manifest, the latest one if None is given, and its entries by path; or the error of reading it."""
    try:
        latest = store.load() if manifest is None else manifest
        # reads all segments, so that no later use can fail
        return latest, {} if latest is None else latest.files_by_path(), None
    except (StoreError, NewerFormatError) as error:
        return None, {}, error


def _is_binding_uncertain(binding: Sequence[str], own: Sequence[str]) -> bool:
    """Return True if the binding of names to a file's columns depends on other columns of the table.

    The file may then have been indexed with another binding. It depends on them if the file has several columns that
    differ in letter case only, and the table calls one of them otherwise; and if the table uses the name of one column
    of a file without names for another: a path has the file's names, a catalog its own.
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
    entries: Mapping[str, FileEntry], partition_columns: Sequence[TableColumn]
) -> list[tuple[str, _Columns]]:
    """Return the columns of the files that were indexed before all rows of a transactional table were deleted.

    Newest first, without those whose types do not fit newer ones: their files are deleted.
    """
    newest: dict[str, FileEntry] = {}
    for entry in sorted(entries.values(), key=lambda entry: (entry.mtime_ns, entry.path), reverse=True):
        newest.setdefault(entry.schema, entry)
    kept: list[tuple[str, _Columns]] = []
    for entry in newest.values():
        recorded = _recorded_columns(entry.schema, True)
        if recorded is None:
            continue
        more = [*kept, (entry.path, recorded[0])]
        try:
            merge_schemas(more, partition_columns)
        except TableError:
            # the table was recreated with other types since; a refresh removes the old files
            continue
        kept = more
    return kept


def find_fresh_paths(snapshot: Snapshot) -> frozenset[str]:
    """Return the files that are unchanged since they were indexed: length, time and the checksum of the ORC tail.

    Reads the tail of every file that is listed as fresh, where the snapshot has not and no version proves it.

    Raises:
        OrcError: if one is not readable as ORC.
    """
    listed = [view for view in snapshot.files if view.is_listed_fresh]
    sums = _read_each(
        [view for view in listed if view.tail_checksum is None and not view.has_recorded_version],
        lambda view: read_file_tail(view.file).checksum,
    )
    return frozenset(
        view.file.path
        for view in listed
        if view.entry is not None
        and sums.get(view.file.path, view.entry.tail_checksum) == view.entry.tail_checksum
    )


def _compare_tails(views: list[FileView], *, every: bool) -> list[FileView]:
    """Return the files, with the checksums of their tails if they are listed as fresh and nothing else proves it.

    Args:
        every: also where a time does. A version does in any case.
    """
    unverified = [
        view
        for view in views
        if view.is_listed_fresh and not (view.has_recorded_version or (view.is_certainly_fresh and not every))
    ]
    if not unverified:
        return views
    # a check of every file trusts no status
    sums = _read_each(unverified, partial(_tail_checksum, use_cached=not every))
    return [replace(view, tail_checksum=sums.get(view.file.path)) for view in views]


def _tail_checksum(view: FileView, *, use_cached: bool) -> int | None:
    """Return the checksum of a file's tail; None if it cannot be read, which a later read of the file reports.

    Args:
        use_cached: use the cached checksum of a local file whose status is unchanged.
    """
    try:
        if use_cached and view.file.changed_ns is not None:
            return _cached_checksum(view.file)
        return read_file_tail(view.file).checksum
    except (OrcError, TableError):
        return None


# as many files as large tables have: a table with more would evict all of its own entries
@lru_cache(maxsize=1 << 18)
def _cached_checksum(file: DataFile) -> int:
    """Return the cached checksum of a local file's tail; after any change of the file's status, it is read again."""
    return read_file_tail(file).checksum


def _read_each(views: Sequence[FileView], read: Callable[[FileView], T]) -> dict[str, T]:
    """Read something from each of several files in parallel; return the results by path."""
    if len(views) < 2:
        return {view.file.path: read(view) for view in views}
    readers = _TAIL_READERS if is_local(views[0].file.uri) else _REMOTE_TAIL_READERS
    with ThreadPool(readers) as pool:
        # this thread waits, so that an interrupt comes through
        reads = [pool.submit(read, view) for view in views]
        return {view.file.path: item.result() for view, item in zip(views, reads, strict=True)}


def _flat_files(views: Sequence[FileView], contents: Sequence[_Content]) -> dict[str, AcidFile]:
    """Return the flat files of transactional directories, with the number of rows before theirs."""
    return with_row_ids(
        (view.file.acid, view.file.path, content.num_rows)
        for view, content in zip(views, contents, strict=True)
        if view.file.acid is not None and content.is_flat
    )


@value_class
class _Content:
    """The content of a file's tail.

    Files of the ACID schema are not flat; their columns are the user's. ``tail_checksum`` is None if the content comes
    from the manifest.
    """

    columns: tuple[tuple[str, OrcType], ...]
    num_rows: int
    num_stripes: int
    num_row_groups: int
    is_flat: bool = True
    tail_checksum: int | None = None


def _file_contents(views: Sequence[FileView]) -> list[_Content]:
    """Each file's columns and rows; files of one recorded schema share one tuple of columns."""
    recorded = {
        view.file.path: _Content(
            columns, view.entry.num_rows, len(view.entry.stripe_rows), view.entry.num_row_groups, is_flat
        )
        for view in views
        if _is_recorded(view)
        and view.entry
        and (columns_and_kind := _recorded_columns(view.entry.schema, view.file.acid is not None)) is not None
        for columns, is_flat in [columns_and_kind]
    }
    unknown = [view for view in views if view.file.path not in recorded]
    contents = recorded | _read_each(unknown, lambda view: _read_content(view.file))
    return [contents[view.file.path] for view in views]


def _is_recorded(view: FileView) -> bool:
    """Return True if a file's entry describes its content: a scan that opens it compares the checksum of its tail.

    That helps no other file, and row keys depend on the rows of the files before.
    """
    return view.is_listed_fresh if view.file.acid is None else view.is_certainly_fresh


def _read_content(file: DataFile) -> _Content:
    tail = read_file_tail(file)
    columns, is_flat = _columns(file_schema(tail), file.acid is not None)
    groups = sum(group_count(tail.row_index_stride, stripe.num_rows) for stripe in tail.stripes)
    return _Content(columns, tail.num_rows, len(tail.stripes), groups, is_flat, tail.checksum)


def read_file_tail(file: DataFile) -> FileTail:
    """Read the tail of a data file.

    Raises:
        OrcError: if it is not readable as ORC.
    """
    if file.acid is not None:
        return file_tail(file.acid.file)
    source = open_source(file.uri, length=file.length, version=file.version)
    try:
        return read_tail(source)
    finally:
        source.close()


_Columns = tuple[tuple[str, OrcType], ...]


@lru_cache(maxsize=256)
def _recorded_columns(schema: str, is_transactional: bool) -> tuple[_Columns, bool] | None:
    """Return the columns of a recorded schema; None if this version cannot read it."""
    try:
        return _columns(parse_type(schema), is_transactional)
    except ValueError:
        return None


def _columns(root: OrcType, is_transactional: bool) -> tuple[_Columns, bool]:
    """Return the user's columns of a file, and True if it is flat."""
    acid = acid_columns(root) if is_transactional else None
    user = root if acid is None else acid.user
    return tuple(zip(user.field_names, user.children, strict=True)), acid is None


def is_indexable(
    view: FileView, snapshot: Snapshot, binding: tuple[str, ...], column: ResolvedColumn
) -> bool:
    """Return True if a file has a column, in a type whose values are converted to the table's.

    Args:
        binding: the table's data columns.
    """
    if not view.has_column(binding, column.name) or _is_binding_uncertain(binding, view.names):
        return False
    if snapshot.declared is None:
        return True
    file_type = stored_type(binding, view.columns, column.name)
    return file_type is not None and can_convert(file_type, column.type)
