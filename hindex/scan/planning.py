"""From a predicate and a table's snapshot to scan tasks: what may be skipped, and what each file is read with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from hindex.errors import ColumnError, HindexError, NewerFormatError, StoreError
from hindex.orc.types import Kind, OrcType
from hindex.plan.evaluate import prune
from hindex.plan.filter import ALWAYS, NEVER, Filter, Never, columns, leaves
from hindex.plan.normalize import normalize
from hindex.plan.reasons import Note, Reason
from hindex.scan.file_bounds import FileBounds, ManifestExtents, SkippedFile, skip_file
from hindex.scan.shared import SharedBounds
from hindex.scan.task import IndexUse, OutputColumn, ScanTask
from hindex.sql.predicate import Predicate
from hindex.store.manifest import IndexEntry, IndexFileEntry
from hindex.table.paths import bind_paths
from hindex.table.schema import ResolvedColumn, TableSchema, bind_columns
from hindex.table.snapshot import FileView, Snapshot


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan will do. ``tasks`` are in order of the files' paths.

    ``notes`` tell what was not used and why, ``skipped`` are the files that what the driver knows rules out.
    """

    snapshot: Snapshot
    filter: Filter
    columns: tuple[OutputColumn, ...]
    tasks: tuple[ScanTask, ...]
    notes: tuple[Note, ...]
    skipped: tuple[SkippedFile, ...] = ()


def plan_scan(snapshot: Snapshot, where: Predicate | None, names: Sequence[str] | None) -> ScanPlan:
    """Plan the reading of columns (all if None) of the rows that a predicate keeps.

    :raises ColumnError: if a column cannot be resolved.
    :raises PredicateError: if the predicate cannot be typed or answered.
    """
    schema = snapshot.schema
    wanted = output_columns(schema, names)
    root = ALWAYS if where is None else normalize(where, _Columns(schema))
    planner = _Planner(snapshot, root, wanted)
    tasks = [task for view in snapshot.files if (task := planner.task(view)) is not None]
    return ScanPlan(
        snapshot=snapshot,
        filter=root,
        columns=wanted,
        tasks=tuple(tasks),
        notes=tuple(planner.notes()),
        skipped=tuple(planner.skipped),
    )


def output_columns(schema: TableSchema, names: Sequence[str] | None) -> tuple[OutputColumn, ...]:
    """The columns to read, with the table's spelling and types."""
    if names is None:
        names = schema.names
    found = []
    for name in names:
        resolved = schema.resolve(name)
        check_path(resolved, schema)
        found.append(OutputColumn(resolved.name, resolved.type, resolved.is_partition))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Resolves the columns of predicates."""

    schema: TableSchema

    def resolve(self, name: Sequence[str], /) -> OutputColumn:
        found = self.schema.resolve(tuple(name))
        check_path(found, self.schema)
        return OutputColumn(found.name, found.type, found.is_partition)


def check_path(found: ResolvedColumn, schema: TableSchema) -> None:
    """Refuse a field within a struct whose dotted path could stand for something else.

    :raises ColumnError: naming it.
    """
    if found.is_nested and (found.name in schema.names or any("." in part for part in found.path[1:])):
        raise ColumnError(
            f"Column {found.name!r} cannot be told from another of that name: read {found.path[0]!r} instead"
        )


class _Planner:
    """Makes the tasks of one scan; work that files share is done once."""

    def __init__(self, snapshot: Snapshot, root: Filter, wanted: tuple[OutputColumn, ...]) -> None:
        self._snapshot = snapshot
        self._root = root
        self._wanted = wanted
        self._binding = tuple(column.name for column in snapshot.schema.data_columns)
        self._types = {leaf.column: leaf.type for leaf in leaves(root)}
        self._indexes: dict[str, list[IndexEntry]] = {}
        self._where: dict[str, Filter] = {}
        self._by_partition: dict[
            tuple[str | None, ...], tuple[Filter, tuple[OutputColumn, ...], frozenset[str]]
        ] = {}
        self._notes: list[Note] = []
        self._unindexed: set[str] = set()
        self._deferred: set[str] = set()
        for entry in snapshot.manifest.indexes:
            try:
                name = snapshot.schema.resolve(entry.column).name
            except ColumnError:
                continue
            # the table may spell the column in another letter case by now
            self._indexes.setdefault(name, []).append(entry)
            try:
                self._where[entry.id] = index_filter(entry, snapshot.schema)
            except HindexError:
                # it no longer fits the partition columns: the files indexed stay so, no other is expected to be
                self._where[entry.id] = NEVER
        self._shared = SharedBounds(snapshot, self._indexes)
        self._file_bounds: list[FileBounds] = [ManifestExtents(self._indexes, self._binding), self._shared]
        self.skipped: list[SkippedFile] = []

    def task(self, view: FileView) -> ScanTask | None:
        """The task of one file, or None where its partition's values or what the manifest says rule it out."""
        root, wanted, covered = self._partition(view)
        if isinstance(root, Never):
            return None
        skipped = skip_file(root, view, self._file_bounds)
        if skipped is not None:
            self.skipped.append(skipped)
            return None
        names = columns(root)
        return ScanTask(
            path=view.file.path,
            uri=view.file.uri,
            length=view.file.length,
            tail_checksum=view.entry.tail_checksum if view.entry is not None else None,
            filter=root,
            filter_columns=tuple(OutputColumn(name, self._types[name]) for name in names),
            columns=wanted,
            binding=self._binding,
            indexes=tuple(self._uses(view, names, covered)) if names else (),
            located=self._shared.located(view, root),
            partition=view.file.partition,
        )

    def notes(self) -> list[Note]:
        problem = self._snapshot.store_problem
        if problem is not None and self._types:
            reason = Reason.NEWER_FORMAT if isinstance(problem, NewerFormatError) else Reason.CORRUPT
            return [Note(reason, "the manifest", str(problem))]
        found = [
            Note(Reason.NO_INDEX, column, "no index on this column") for column in sorted(self._unindexed)
        ]
        found += [
            Note(Reason.DEFERRED, name, "it was created WITH DEFERRED REBUILD")
            for name in sorted(self._deferred)
        ]
        found += self._notes
        found += self._shared.notes
        if self._types:
            found += [
                Note(Reason.FILE_GONE, path, "it was indexed and is not there any more")
                for path in self._snapshot.vanished
            ]
        return found

    def _partition(self, view: FileView) -> tuple[Filter, tuple[OutputColumn, ...], frozenset[str]]:
        """The filter left for a partition, its output columns, and the indexes that cover it."""
        found = self._by_partition.get(view.file.partition)
        if found is None:
            partitioning = self._snapshot.listing.partitioning
            keys = {c.name: v.key for c, v in zip(partitioning.columns, view.partition, strict=True)}
            scalars = dict(zip(keys, partitioning.scalars(view.file.partition), strict=True))
            wanted = tuple(
                OutputColumn(c.name, c.type, True, scalars[c.name]) if c.is_partition else c
                for c in self._wanted
            )
            covered = frozenset(
                id_ for id_, where in self._where.items() if not isinstance(prune(where, keys), Never)
            )
            found = self._by_partition[view.file.partition] = (prune(self._root, keys), wanted, covered)
        return found

    def _uses(self, view: FileView, names: Sequence[str], covered: frozenset[str]) -> list[IndexUse]:
        """The index files to ask for this file; what cannot be used is noted."""
        uses: list[IndexUse] = []
        told = False
        for name in names:
            if not holds(view, self._binding, name):
                # null in every row: known without an index
                continue
            indexes = self._indexes.get(name, [])
            if not indexes:
                self._unindexed.add(name)
            for index in indexes:
                if index.deferred:
                    self._deferred.add(index.name)
                    continue
                if view.is_listed_fresh and view.entry is not None and view.entry.shared_index(index.id):
                    # asked here, not by the task
                    continue
                file = self._index_file(view, index)
                if file is not None and view.is_listed_fresh:
                    try:
                        path = self._snapshot.store.absolute(file.path)
                    except StoreError as error:
                        self._notes.append(
                            Note(Reason.CORRUPT, f"{index.name} on {view.file.path}", str(error))
                        )
                        continue
                    uses.append(IndexUse(index.name, name, path, file.length, file.footer_checksum))
                elif index.id not in covered:
                    self._notes.append(
                        Note(
                            Reason.PARTITION_NOT_INDEXED,
                            f"{index.name} on {view.file.path}",
                            f"the index covers only {index.where}",
                        )
                    )
                elif not told:
                    told = True
                    self._notes.append(self._staleness(view, index))
        return uses

    def _index_file(self, view: FileView, index: IndexEntry) -> IndexFileEntry | None:
        return None if view.entry is None else view.entry.index_file(index.id)

    def _staleness(self, view: FileView, index: IndexEntry) -> Note:
        file, entry = view.file, view.entry
        if entry is None:
            return Note(Reason.NEW_FILE, file.path, "it was added after the indexes were built")
        if not view.is_listed_fresh:
            what = (
                f"length {entry.length} -> {file.length}"
                if entry.length != file.length
                else "its modification time changed"
            )
            return Note(Reason.STALE_FILE, file.path, what)
        return Note(Reason.NOT_BUILT, f"{index.name} on {file.path}", "the index has no entry for this file")


def holds(view: FileView, binding: tuple[str, ...], column: str) -> bool:
    """Whether a file has a column of the table, or a field within a struct by its dotted path."""
    if column in binding:
        return column in columns_held(binding, view.names)
    return _holds_field(binding, view.columns, column)


@lru_cache(maxsize=256)
def columns_held(binding: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
    """Which of the table's columns a file of these column names has."""
    bound = bind_columns(binding, names)
    return frozenset(name for name, at in zip(binding, bound, strict=True) if at is not None)


@lru_cache(maxsize=256)
def _holds_field(binding: tuple[str, ...], columns: tuple[tuple[str, OrcType], ...], field: str) -> bool:
    names, types = tuple(name for name, _ in columns), tuple(of for _, of in columns)
    root = OrcType(Kind.STRUCT, children=types, field_names=names)
    return field in bind_paths(binding, root, [field])


def index_filter(entry: IndexEntry, schema: TableSchema) -> Filter:
    """The filter on partition columns of an index that covers only some partitions."""
    if entry.where is None:
        return ALWAYS
    from hindex.sql import parse_predicate

    try:
        return normalize(parse_predicate(entry.where), schema)
    except HindexError as error:
        raise HindexError(
            f"Index {entry.name!r} covers {entry.where!r}, which does not fit the table any more ({error}): drop "
            "the index"
        ) from error
