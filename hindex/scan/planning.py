"""Plan a scan: a predicate and a table's snapshot give the files to read and a scan task for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache, partial
from typing import Any, overload

import numpy as np
import pyarrow as pa

from hindex.domain import Domain, Key
from hindex.errors import ColumnError, HindexError, StoreError, UnsupportedError
from hindex.expr import constant_times
from hindex.index.character_ngrams import SIZE
from hindex.index.column_stats import Int64s, Mask, StoredStats, are_of_kind
from hindex.index.index_type import Operator, has_ngrams, index_type
from hindex.index.page_cache import Cache
from hindex.keys import are_values, array_keys, key_kind, nth_key, same_keys
from hindex.lru_cache import cached_property
from hindex.orc.acid.schema import is_row_key, row_key
from hindex.orc.io.thread_pool import ThreadPool
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.composites import Composite
from hindex.plan.filter import (
    ALWAYS,
    NEVER,
    Always,
    Filter,
    Leaf,
    Never,
    Residual,
    column_types,
    columns,
    every_indexable,
    every_leaf,
    indexable,
    residuals,
)
from hindex.plan.filter_evaluation import prune
from hindex.plan.index_columns import (
    NO_EXPRESSIONS,
    IndexColumn,
    IndexedExpressions,
    index_column,
    is_for_zones,
)
from hindex.plan.normalize import index_filter, normalize
from hindex.plan.predicate_hints import predicate_hints
from hindex.plan.reasons import REPLACED, Note, Reason, failure_reason
from hindex.plan.required_ngrams import MAX_ALTERNATIVES
from hindex.plan.time_zones import TimeZones, ZonesOf, has_time, is_about_time, no_zones
from hindex.scan.file_columns import output_schema
from hindex.scan.file_pruning import (
    FileGroup,
    FilePruner,
    FileSkipper,
    ManifestStatistics,
    RowIdBounds,
    SkippedFiles,
    StripeAnswer,
    is_as_precise,
)
from hindex.scan.scan_task import IncludedUse, IndexUse, OutputColumn, ScanTask
from hindex.scan.shared_index_pruning import RemoteLookup, SharedIndexPruner
from hindex.sql.predicate import Predicate
from hindex.sql.predicate import columns as predicate_columns
from hindex.store.entry_table import EntryTable
from hindex.store.file_views import FileKind, FileView, FileViews
from hindex.store.manifest import IndexEntry, IndexFileEntry, Manifest, MetadataCopy
from hindex.store.metadata_copy import fetch_copies
from hindex.store.snapshot import Snapshot
from hindex.table.file_schema import bind_paths, recorded_type, stored_columns
from hindex.table.location import is_local
from hindex.table.partitions import PartitionColumn, PartitionFilter, RawPartition
from hindex.table.schema import ColumnName, TableSchema, can_convert, check_path
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

#: Tasks that an iteration makes at once, and the number from which a plan keeps no more: each takes 4 KB.
_TASKS_TOGETHER = 1024
_MAX_KEPT_TASKS = 1 << 14
#: Index files of a remote store that are looked up at once.
_REMOTE_LOOKUPS = 32
#: The most files, and bytes, whose copied metadata is fetched before the files to read are determined.
_FEW_COPIES = 256
_FEW_COPIES_BYTES = 4 << 20

_OTHER_KEYS = "the manifest has keys of another type of it; ALTER INDEX ... REBUILD writes them again"


class ScanTasks(Sequence[ScanTask]):
    """The tasks of some files, in the order of their paths. Immutable; most tasks are made when they are needed.

    Args:
        positions: the positions of the files in the snapshot, ascending.
        made: the existing tasks, by the position of the file.
        make: returns the tasks of the files at some positions.
    """

    def __init__(
        self,
        positions: Int64s,
        made: Mapping[int, ScanTask],
        make: Callable[[Sequence[int]], Iterable[ScanTask]],
    ) -> None:
        self.positions = positions
        self._made = dict(made)
        self._make = make

    def map(self, change: Callable[[ScanTask], ScanTask]) -> ScanTasks:
        """Return the tasks with a change applied to each when it is made."""
        made = {position: change(task) for position, task in self._made.items()}
        return ScanTasks(self.positions, made, lambda positions: map(change, self._make(positions)))

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, at: int) -> ScanTask: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[ScanTask, ...]: ...

    def __getitem__(self, at: int | slice) -> ScanTask | tuple[ScanTask, ...]:
        if isinstance(at, slice):
            return tuple(self._tasks(self.positions[at].tolist()))
        return self._tasks([int(self.positions[at])])[0]

    def __iter__(self) -> Iterator[ScanTask]:
        for start in range(0, len(self), _TASKS_TOGETHER):
            yield from self._tasks(self.positions[start : start + _TASKS_TOGETHER].tolist())

    def _tasks(self, positions: Sequence[int]) -> list[ScanTask]:
        missing = [position for position in positions if position not in self._made]
        new = dict(zip(missing, self._make(missing), strict=True)) if missing else {}
        if len(self._made) < _MAX_KEPT_TASKS:
            self._made.update(new)
        return [new[position] if position in new else self._made[position] for position in positions]

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, ScanTasks | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        # the function that makes tasks has caches and open files
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        return f"<{len(self)} scan tasks>"


@value_class
class ScanPlan:
    """The plan of a scan.

    Attributes:
        tasks: the scan tasks, ordered by the paths of their files.
        notes: the indexes that were not used, and why.
        skipped: the files that the driver rules out.
        lookups: the columns of aggregates or of an order, see `hindex.scan.scan_task.ScanTask`.
        file_pruners: the sources by which the driver rules out files.
        zones: the query's time zones; if set, timestamps are instants.
    """

    snapshot: Snapshot
    filter: Filter
    columns: tuple[OutputColumn, ...]
    tasks: Sequence[ScanTask]
    notes: tuple[Note, ...]
    skipped: SkippedFiles = field(default_factory=SkippedFiles)
    lookups: tuple[OutputColumn, ...] = ()
    file_pruners: tuple[FilePruner, ...] = field(default=(), repr=False, compare=False)
    zones: TimeZones | None = None
    instant: int | None = field(default=None, compare=False, repr=False)
    reads_all: bool = False

    def map_tasks(self, change: Callable[[ScanTask], ScanTask]) -> ScanPlan:
        """Return the plan with each task changed."""
        tasks = self.tasks
        return replace(
            self, tasks=tasks.map(change) if isinstance(tasks, ScanTasks) else tuple(map(change, tasks))
        )

    def positions(self) -> Sequence[int] | Int64s:
        """Return the positions of the tasks' files in the snapshot."""
        if isinstance(self.tasks, ScanTasks):
            return self.tasks.positions
        return self.snapshot.views.positions(task.path for task in self.tasks)

    def stripe_answers(self, view: FileView, leaf: Leaf) -> Iterator[StripeAnswer]:
        """Yield the answer of each pruner alone to a leaf for the stripes of one file."""
        views = FileViews.of([view])
        for table, at, rows in views.by_segment():
            group = FileGroup(views, at, table, rows, time_indexes_apply=_time_indexes_apply(self.zones))
            for pruner in self.file_pruners:
                answers = pruner.answers(group, leaf, np.ones(1, np.bool_))
                yield from (answer for answer in answers if answer.files[0])

    def are_index_keys(self, column: OutputColumn) -> bool:
        """Return True if the query compares and orders a column by the values that indexes store."""
        return self.zones is None or column.is_partition or self.zones.are_index_keys(column.type)

    @property
    def is_walkable(self) -> bool:
        """True if an index gives the first rows of the order; an order by several columns needs all values."""
        return len(self.lookups) == 1 and self.are_index_keys(self.lookups[0])

    @property
    def has_only_index_keys(self) -> bool:
        """True if the only output column is the first lookup's, and its keys are its values."""
        column = self.lookups[0]
        return bool(self.columns) and all(item == column for item in self.columns) and are_values(column.type)

    def output_schema(self) -> pa.Schema:
        """Return the Arrow schema of the rows; a partition column has the type of its value if a task has one."""
        columns = self.tasks[0].columns if self.tasks else self.columns
        return output_schema(columns, has_instants=self.zones is not None)


def _time_indexes_apply(zones: TimeZones | None) -> bool:
    """Return False if keys do not determine the instants of timestamps in files without a time zone."""
    return zones is None or zones.is_reader_utc


def plan_scan(
    snapshot: Snapshot,
    where: Predicate | None,
    names: Sequence[ColumnName] | None,
    lookups: Sequence[ColumnName | IndexColumn] = (),
    *,
    cache: Cache | None = None,
    zones: ZonesOf = no_zones,
    instant: int | None = None,
) -> ScanPlan:
    """Plan to read columns (all if None) of the rows that a predicate keeps.

    Args:
        lookups: columns and expressions whose indexes are needed even if the predicate does not have them.
        cache: the cache of index files that the driver opens; by default, that of the process.
        zones: returns the time zones of the query, called if they matter; by default, wall clocks are compared.
        instant: the time of `current_timestamp()`, in microseconds since 1970 in UTC; by default, the present.

    Raises:
        ColumnError: if a column cannot be resolved.
        PredicateError: if the predicate cannot be typed or answered.
    """
    instant = constant_times.current_instant() if instant is None else instant
    schema = snapshot.schema
    output = output_columns(schema, names, row_keys=schema.transactional)
    lookup_columns = output_columns(schema, lookups)
    resolver = PredicateColumns(schema)
    time_zones = None
    has_times = any(has_time(column.type) for column in (*output, *lookup_columns))
    has_times |= any(isinstance(item, IndexColumn) and item.zones is not None for item in lookups)
    if has_times or (where is not None and is_about_time(where, lambda parts: resolver.resolve(parts).type)):
        time_zones = zones()
        if time_zones is not None:
            time_zones.check_reader()
    expressions = _indexed_expressions(snapshot, time_zones)
    root = ALWAYS if where is None else normalize(where, resolver, time_zones, instant, expressions)
    root = expressions.with_composites(expressions.with_ngrams(root, _ngram_columns(snapshot, time_zones)))
    inputs = {
        item.name: frozenset(column.name for column in item.inputs)
        for item in lookups
        if isinstance(item, IndexColumn)
    }
    planner = _Planner(snapshot, root, output, lookup_columns, time_zones, cache, inputs)
    planner.prefetch()
    tasks, skipped = planner.plan()
    return ScanPlan(
        snapshot=snapshot,
        filter=root,
        columns=output,
        tasks=tasks,
        notes=(
            *predicate_hints(where, schema.names),
            *(Note(Reason.IGNORED_FILE, path) for path in snapshot.listing.ignored),
            *planner.notes(),
        ),
        skipped=skipped,
        lookups=lookup_columns,
        file_pruners=tuple(planner.file_pruners),
        zones=time_zones,
        instant=instant,
    )


def _indexed_expressions(snapshot: Snapshot, zones: TimeZones | None) -> IndexedExpressions:
    """Return the expressions and columns that built indexes are on, without expressions of other time zones."""
    built = [entry for entry in snapshot.manifest.indexes if not entry.deferred]
    if not any(entry.is_on_expression for entry in built):
        return NO_EXPRESSIONS
    expressions: dict[IndexColumn, int] = {}
    columns: dict[str, int] = {}
    composites: dict[str, Composite] = {}
    ngrams: list[IndexColumn] = []
    for entry in built:
        with suppress(ColumnError, UnsupportedError):
            column = index_column(entry, snapshot.schema)
            order, has_ranges = _type_order(entry.type.upper())
            if column.is_composite:
                names = tuple(item.name for item in column.inputs)
                other = composites.get(column.name, Composite(column.name, names, 0, False))
                composites[column.name] = replace(
                    other, order=max(order, other.order), has_ranges=has_ranges or other.has_ranges
                )
            elif column.expression is not None:
                if not is_for_zones(entry, column, zones):
                    continue
                if is_on_ngrams(entry):
                    ngrams.append(column)
                else:
                    expressions[column] = max(order, expressions.get(column, 0))
            elif has_ranges and entry.where is None and entry.quarantined is None:
                columns[column.name] = max(order, columns.get(column.name, 0))
    return IndexedExpressions(expressions, columns, tuple(composites.values()), ngrams)


@cache
def _type_order(name: str) -> tuple[int, bool]:
    """Return the order of an index type, greater for more precise answers, and True if it answers ranges."""
    try:
        kind = index_type(name)
    except HindexError:
        return 0, False  # an index type of a later version
    return kind.order, Operator.RANGE in kind.operators


def _ngram_columns(snapshot: Snapshot, zones: TimeZones | None) -> dict[str, bool]:
    """Return the columns with an index on n-grams, and for each whether it also has a BITMAP index."""
    if not any(map(is_on_ngrams, snapshot.manifest.indexes)):
        return {}
    return {
        column: any(entry.type.upper() == "BITMAP" for entry in entries)
        for column, entries in indexes_by_column(snapshot, zones).items()
        if any(map(is_on_ngrams, entries))
    }


def _is_on_part(index: IndexEntry, condition: str) -> bool:
    """Return True if the text of a condition contains the expression that an index is on."""
    return index.is_on_expression and index.column.lower() in condition.lower()


def is_on_ngrams(index: IndexEntry) -> bool:
    """Return True if an index is on the n-grams of a column instead of its values."""
    return _is_type_on_ngrams(index.type.upper())


@cache
def _is_type_on_ngrams(name: str) -> bool:
    # index types of other packages are searched for in all installed ones, which takes long
    try:
        return has_ngrams(index_type(name))
    except HindexError:
        return False  # an index type of a later version


def indexes_by_column(snapshot: Snapshot, zones: TimeZones | None) -> dict[str, list[IndexEntry]]:
    """Return the indexes on columns that the table still has, by the present name of the column or expression.

    Indexes of other time zones are left out.
    """
    by_column: dict[str, list[IndexEntry]] = {}
    for entry in snapshot.manifest.indexes:
        if entry.stores_columns:
            # it answers no condition
            continue
        with suppress(ColumnError, UnsupportedError):
            # the table may spell the column in another letter case by now
            column = index_column(entry, snapshot.schema)
            if is_for_zones(entry, column, zones):
                by_column.setdefault(column.name, []).append(entry)
    return by_column


def partition_filter(
    schema: TableSchema,
    partition_columns: Sequence[PartitionColumn],
    where: Predicate | None,
    *,
    is_declared: bool,
    zones: ZonesOf = no_zones,
    instant: int | None = None,
) -> PartitionFilter | None:
    """Return a filter of the partitions in which a predicate may keep rows; None if it rules out no partitions.

    Args:
        is_declared: whether a catalog declares the columns.
        instant: the time of the query's plan; without it, a predicate that depends on the time rules out nothing.
    """
    if where is None or not partition_columns:
        return None
    resolver = PredicateColumns(schema)
    try:
        named = [resolver.resolve(column.parts) for column in predicate_columns(where)]
        is_timed = is_about_time(where, lambda parts: resolver.resolve(parts).type)
        root = normalize(where, resolver, zones() if is_timed else None, instant)
    except HindexError:
        # the plan of the query raises it
        return None
    # timestamps in directory names are wall clocks, and the query may compare instants
    if any(column.type.kind is Kind.TIMESTAMP for column in partition_columns) or not any(
        column.is_partition for column in named
    ):
        return None

    def keeps(keys: Mapping[str, Key | None]) -> bool:
        try:
            return not isinstance(prune(root, keys), Never)
        except HindexError:
            return True

    return PartitionFilter(partition_columns, keeps, is_declared=is_declared)


def plan_no_files(
    snapshot: Snapshot,
    where: Predicate | None,
    names: Sequence[ColumnName] | None,
    lookups: Sequence[ColumnName | IndexColumn] = (),
    *,
    zones: ZonesOf = no_zones,
    instant: int | None = None,
) -> ScanPlan:
    """Plan a query of no rows: check names and types as `plan_scan` does, and do nothing else.

    The plan opens no index, so it notes no missing ones.
    """
    plan = plan_scan(replace(snapshot, files=()), where, names, lookups, zones=zones, instant=instant)
    return replace(plan, snapshot=snapshot, notes=())


def plan_full_scan(plan: ScanPlan) -> ScanPlan:
    """Plan the same query without indexes: read all data of the partitions that may have rows."""
    snapshot = plan.snapshot
    bare = replace(
        snapshot,
        manifest=Manifest.empty(snapshot.manifest.table_uri),
        files=snapshot.views.without_entries(),
    )
    planner = _Planner(bare, plan.filter, plan.columns, plan.lookups, plan.zones)
    tasks, _ = planner.plan(skip=False)
    return replace(
        plan,
        tasks=tasks.map(lambda task: replace(task, reads_all=True)),
        skipped=SkippedFiles(),
        file_pruners=(),
        reads_all=True,
    )


def plan_all_files(plan: ScanPlan) -> ScanPlan:
    """Plan the same query with a task for every file of its partitions: the driver skips none."""
    planner = _Planner(plan.snapshot, plan.filter, plan.columns, plan.lookups, plan.zones)
    tasks, _ = planner.plan(skip=False)
    return replace(plan, tasks=tasks, skipped=SkippedFiles())


def output_columns(
    schema: TableSchema, names: Sequence[ColumnName | IndexColumn] | None, *, row_keys: bool = False
) -> tuple[OutputColumn, ...]:
    """Return the columns to read (all if ``names`` is None), with the table's spelling and types.

    Args:
        row_keys: whether the table has row keys. They are read only when named.
    """
    output = []
    for name in [(name,) for name in schema.names] if names is None else names:
        if isinstance(name, IndexColumn):
            output.append(OutputColumn(name.name, name.type, is_expression=True))
            continue
        key = _row_key(name.split(".") if isinstance(name, str) else name, schema) if row_keys else None
        if key is not None:
            output.append(key)
            continue
        resolved = schema.resolve(name)
        check_path(resolved, schema)
        output.append(OutputColumn(resolved.name, resolved.type, resolved.is_partition))
    return tuple(output)


@value_class
class PredicateColumns:
    """A resolver of the columns of predicates. It accepts exactly the columns that `plan_scan` supports."""

    schema: TableSchema

    def resolve(self, name: Sequence[str], /) -> OutputColumn:
        key = _row_key(name, self.schema) if self.schema.transactional else None
        if key is not None:
            return key
        resolved = self.schema.resolve(tuple(name))
        check_path(resolved, self.schema)
        return OutputColumn(resolved.name, resolved.type, resolved.is_partition)


def _row_key(parts: Sequence[str], schema: TableSchema) -> OutputColumn | None:
    """Return the row key, or a field of it, by name; None if there is none or a column has the same name."""
    key = row_key(parts, schema.names)
    return None if key is None else OutputColumn(*key)


@value_class
class _Part:
    """The values that the tasks of files with the same constant columns share.

    Args:
        root: the filter without the constant columns.
        covered: the ids of the indexes that cover the partition.
        index_columns: the names of the columns whose indexes are used.
    """

    root: Filter
    output: tuple[OutputColumn, ...]
    lookups: tuple[OutputColumn, ...]
    covered: frozenset[str]
    filter_columns: tuple[OutputColumn, ...]
    index_columns: tuple[str, ...]


#: The constant columns of a file: its partition as written, and the columns with a default that it lacks.
_Constants = tuple[tuple[str | None, ...], frozenset[str]]


def _by_number(numbers: Int64s) -> Iterator[tuple[int, Mask]]:
    """Yield each distinct number with a mask of its positions."""
    for number in np.unique(numbers).tolist():
        yield number, numbers == number


class _Planner:
    """The planner of one scan's tasks. It does work that files share once."""

    def __init__(
        self,
        snapshot: Snapshot,
        root: Filter,
        output: tuple[OutputColumn, ...],
        lookups: tuple[OutputColumn, ...],
        zones: TimeZones | None,
        cache: Cache | None = None,
        lookup_inputs: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._root = root
        self._output = output
        self._lookups = lookups
        self._binding = tuple(column.name for column in snapshot.schema.data_columns)
        self._zones = zones
        self._types = {name: self._stored(name, data_type) for name, data_type in column_types(root).items()}
        self._types |= {column.name: column.type for column in lookups}
        # by index column: all inputs of an expression, and the columns that conditions compare
        self._inputs = dict(lookup_inputs or {})
        self._compared: dict[str, frozenset[str]] = {}
        for leaf in every_leaf(root):
            if leaf.condition is not None:
                earlier = self._compared.get(leaf.column, frozenset())
                self._compared[leaf.column] = earlier.union(columns(leaf.condition))
        self._inputs |= self._compared
        self._types |= {leaf.column: leaf.type for leaf in every_leaf(root) if leaf.column in self._inputs}
        self._indexes: dict[str, list[IndexEntry]] = {}
        self._quarantined: dict[str, list[IndexEntry]] = {}
        self._where: dict[str, Filter] = {}
        self._by_constants: dict[_Constants, _Part] = {}
        self._defaults = {
            column.name: column.default
            for column in snapshot.schema.data_columns
            if column.default is not None
        }
        self._missing: dict[tuple[str, ...], frozenset[str]] = {}
        self._checked: set[int] = set()
        self._notes: list[Note] = []
        # each with True if an index is possible
        self._unindexed: set[tuple[str, bool]] = set()
        self._row_keys: set[str] = set()
        self._deferred: set[str] = set()
        self._set_aside: dict[str, str] = {}
        on_ngrams = {item.column for item in every_indexable(root) if item.ngrams is not None}
        on_values = {leaf.column for leaf in every_leaf(root)} | {column.name for column in lookups}
        self._all_indexes = indexes_by_column(snapshot, self._zones)
        for name, entries in self._all_indexes.items():
            for entry in entries:
                if name not in (on_ngrams if is_on_ngrams(entry) else on_values):
                    continue
                if entry.quarantined is not None:
                    self._quarantined.setdefault(name, []).append(entry)
                    continue
                if entry.is_on_expression:
                    on = index_column(entry, snapshot.schema)
                    self._inputs[name] = self._inputs.get(name, frozenset()).union(
                        item.name for item in on.inputs
                    )
                    self._types.setdefault(name, on.type)
                self._indexes.setdefault(name, []).append(entry)
                try:
                    self._where[entry.id] = index_filter(entry, snapshot.schema)
                except HindexError:
                    # its WHERE does not fit the partition columns any more: it covers only files indexed so far
                    self._where[entry.id] = NEVER
        self._included = list(self._including_indexes())
        self._shared = SharedIndexPruner(snapshot, self._indexes, cache)
        self.file_pruners: list[FilePruner] = [ManifestStatistics(self._indexes, self._binding), self._shared]
        if snapshot.schema.transactional and any(
            is_row_key(x.column, self._binding) for x in every_leaf(root)
        ):
            # first, as it is exact and costs nothing
            self.file_pruners.insert(0, RowIdBounds(self._binding))

    def _including_indexes(self) -> Iterator[tuple[IndexEntry, tuple[str, ...]]]:
        """Yield the usable indexes of type ROWS that have a column of the scan, and their columns."""
        compared = (name for name in self._types if name not in self._indexes)
        names = {name.lower() for name in (*compared, *(column.name for column in self._output))}
        for entry in self._snapshot.manifest.indexes:
            if not entry.stores_columns:
                continue
            if names.isdisjoint(name.lower() for name in parse_type(entry.inputs).field_names):
                continue
            problem = entry.quarantined
            if entry.deferred:
                problem = "it was created WITH DEFERRED REBUILD: REFRESH INDEX builds it"
            try:
                column = index_column(entry, self._snapshot.schema)
            except (ColumnError, UnsupportedError) as error:
                problem = str(error)
            if problem is None:
                yield entry, tuple(item.name for item in column.inputs)
            elif not isinstance(self._root, Always):
                self._notes.append(Note(Reason.NOT_INCLUDED, entry.name, problem))

    def prefetch(self) -> None:
        """Fetch the lookups in shared indexes of a remote store concurrently, before they are needed one by one.

        The metadata of the files that may be read is fetched at the same time, if they are few.
        """
        if is_local(self._snapshot.store.root):
            return
        views = self._snapshot.views
        roots, root_numbers = self._roots
        lookups: dict[tuple[str, Domain], RemoteLookup] = {}
        covered = np.zeros(len(views), np.bool_)
        for table, at, rows in views.by_segment():
            for number, here in _by_number(root_numbers[at]):
                root = roots[number]
                if isinstance(root, Never):
                    continue
                covered[at[here]] = table.has_shared[rows[here]]
                for index in (index for indexes in self._indexes.values() for index in indexes):
                    entries, numbers = table.shared_of(index.id)
                    for shared, _ in _by_number(numbers[rows[here]]):
                        for lookup in (
                            self._shared.remote_lookups(entries[shared], root) if shared >= 0 else ()
                        ):
                            lookups[lookup[0].path, lookup[1]] = lookup
        if not lookups:
            return
        work = [partial(self._shared.prefetch, lookup) for lookup in lookups.values()]
        if covered.sum() <= _FEW_COPIES:
            copies = [
                copy
                for view in views.views(np.flatnonzero(covered))
                if (copy := self._metadata(view)) is not None
            ]
            if sum(copy.length for copy in copies) <= _FEW_COPIES_BYTES:
                work.append(partial(fetch_copies, copies))
        with ThreadPool(min(len(work), _REMOTE_LOOKUPS) - 1) as pool:
            pool.map(lambda fetch: fetch(), work)

    @cached_property
    def _roots(self) -> tuple[list[Filter], Int64s]:
        """The distinct filters without constant columns, and for each file the number of its filter."""
        views = self._snapshot.views
        kinds = len(views.kinds)
        constants = views.files.partition_numbers * kinds + (views.kind_numbers if self._defaults else 0)
        distinct, places = np.unique(constants, return_inverse=True)
        numbers: dict[Filter, int] = {}
        of_constants = np.zeros(len(distinct), np.int64)
        for at, constant in enumerate(distinct.tolist()):
            partition, kind = views.files.partitions[constant // kinds], views.kinds[constant % kinds]
            root = self._part(partition, kind.names).root
            of_constants[at] = numbers.setdefault(root, len(numbers))
        return list(numbers), of_constants[places]

    def plan(self, *, skip: bool = True) -> tuple[ScanTasks, SkippedFiles]:
        """Return the tasks of the files that may have rows, and the files that the driver rules out.

        Args:
            skip: if False, leave out only files of other partitions.
        """
        views = self._snapshot.views
        roots, root_numbers = self._roots
        is_possible = np.array([not isinstance(root, Never) for root in roots], np.bool_)
        kept = is_possible[root_numbers] if roots else np.zeros(0, np.bool_)
        skipper = FileSkipper(self.file_pruners)
        open_roots = [not isinstance(root, Always | Never) for root in roots]
        if skip and any(open_roots):
            groups: list[tuple[EntryTable | None, Int64s, Int64s]] = []
            for table, at, rows in views.by_segment():
                fresh = views.is_certainly_fresh[at]
                groups.append((table, at[fresh], rows[fresh]))
            if isinstance(self.file_pruners[0], RowIdBounds):
                others = np.flatnonzero(~views.is_certainly_fresh)
                groups.append((None, others, others))
            for segment, at, rows in groups:
                for number, here in _by_number(root_numbers[at]):
                    if open_roots[number]:
                        group = FileGroup(
                            views,
                            at[here],
                            segment,
                            rows[here],
                            time_indexes_apply=_time_indexes_apply(self._zones),
                        )
                        kept[at[here]] = skipper.keep(roots[number], group)
        return self._scan_tasks(kept), skipper.skipped()

    def _scan_tasks(self, kept: Mask) -> ScanTasks:
        """Return the tasks of some files. Tasks that may give a note are made immediately."""
        views = self._snapshot.views
        is_acid = np.zeros(len(views), np.int64)
        is_acid[list(views.files.acids)] = 1
        _, root_numbers = self._roots
        # files of one kind give the same notes on columns; one file of each kind is enough
        kinds = (root_numbers * len(views.kinds) + views.kind_numbers) * 2 + is_acid
        _, firsts = np.unique(kinds[kept], return_index=True)
        positions = np.flatnonzero(kept)
        gives_notes = kept & ~self._has_all_indexes()
        gives_notes[positions[firsts]] = True
        at_once = np.flatnonzero(gives_notes).tolist()
        return ScanTasks(positions, dict(zip(at_once, self._tasks(at_once), strict=True)), self._tasks)

    def _has_all_indexes(self) -> Mask:
        """Return a mask of the files with a usable index file for every index on the query's columns.

        Their tasks give no notes of their own.
        """
        views = self._snapshot.views
        roots, root_numbers = self._roots
        result = np.zeros(len(views), np.bool_)
        for table, at, rows in views.by_segment():
            usable = views.is_listed_fresh[at]
            if not _time_indexes_apply(self._zones):
                usable &= ~table.lacks_time_zone[rows]
            for number, of_root in _by_number(root_numbers[at]):
                for kind, of_kind in _by_number(views.kind_numbers[at]):
                    here = usable & of_root & of_kind
                    for name in self._index_columns(roots[number]):
                        if self._has_column(views.kinds[kind], name):
                            here &= self._has_index_files(table, name)[rows]
                    result[at[here]] = True
        return result

    def _has_index_files(self, table: EntryTable, column: str) -> Mask:
        """Return a mask of the files of a segment that have an index file of each index on a column."""
        result = np.ones(len(table), np.bool_)
        for index in self._indexes.get(column, ()):
            if not index.deferred:
                result &= table.has_index_file(index.id, key_kind(self._types[column]))
        return result

    def _index_columns(self, root: Filter) -> tuple[str, ...]:
        """Return the names of the columns whose indexes are used for a filter."""
        named = [item.column for item in every_indexable(root)] + [
            column.name for column in self._lookups if not column.is_partition
        ]
        return tuple(dict.fromkeys(named))

    @cached_property
    def _noted(self) -> frozenset[str]:
        """The columns whose missing indexes are noted; of a leaf with a condition, only the leaf's own column."""
        return frozenset(item.column for item in indexable(self._root)) | {c.name for c in self._lookups}

    def _tasks(self, positions: Sequence[int]) -> Iterator[ScanTask]:
        return map(self._task, self._snapshot.views.views(positions))

    def _task(self, view: FileView) -> ScanTask:
        """Return the task of one file."""
        if self._has_own_times(view):
            view = self._without_time_indexes(view)
        part = self._part(view.file.partition, view.names)
        if self._snapshot.declared is not None and id(view.columns) not in self._checked:
            self._check_types(view)
        return ScanTask(
            path=view.file.path,
            uri=view.file.uri,
            length=view.file.length,
            mtime_ns=view.file.mtime_ns,
            tail_checksum=view.entry.tail_checksum if view.entry is not None else None,
            filter=part.root,
            filter_columns=part.filter_columns,
            columns=part.output,
            binding=self._binding,
            indexes=tuple(self._uses(view, part.index_columns, part.covered)) if part.index_columns else (),
            candidates=self._shared.candidates(view, part.root),
            partition=view.file.partition,
            lookups=part.lookups,
            acid=view.file.acid,
            names=view.names,
            timezone=None if self._zones is None else self._zones.reader,
            version=view.file.version,
            metadata=self._metadata(view),
            included=tuple(self._included_uses(view, part)) if self._included else (),
        )

    def _included_uses(self, view: FileView, part: _Part) -> Iterator[IncludedUse]:
        """Yield the files of ROWS indexes that include at least one column that the task reads."""
        if not view.is_listed_fresh:
            return
        names = {column.name for column in (*part.output, *part.lookups, *part.filter_columns)}
        for index, included in self._included:
            file = self._index_file(view, index)
            if file is None or names.isdisjoint(included):
                continue
            try:
                path = self._snapshot.store.absolute(file.path)
            except StoreError as error:
                self._notes.append(Note(Reason.CORRUPT, f"{index.name} on {view.file.path}", str(error)))
                continue
            rows_per_block = int(dict(index.properties)["rows_per_block"])
            yield IncludedUse(
                index.name, included, index.inputs, rows_per_block, path, file.length, file.footer_checksum
            )

    def _metadata(self, view: FileView) -> MetadataCopy | None:
        """Return the copy of a file's metadata, with an absolute path; None if it is not of the listed version."""
        copy = view.metadata_copy
        return None if copy is None else self._snapshot.store.locate(copy)

    def _has_own_times(self, view: FileView) -> bool:
        """Return True if a file's timestamps are instants that the keys of its indexes do not determine.

        If the file does not name the writer's time zone, the reader's is used: see `timestamp_array`.
        """
        return view.entry is not None and view.entry.lacks_time_zone and not _time_indexes_apply(self._zones)

    def _without_time_indexes(self, view: FileView) -> FileView:
        """Return the view of a data file without the files of indexes on timestamps."""
        assert view.entry is not None
        schema, transactional = view.entry.schema, view.file.acid is not None
        ids = {
            index.id
            for name, indexes in self._indexes.items()
            for item in self._inputs.get(name, (name,))
            if (kind := recorded_type(schema, self._binding, item, transactional)) is not None
            and kind.kind is Kind.TIMESTAMP
            for index in indexes
        }
        index_files = tuple(file for file in view.entry.index_files if file.index_id not in ids)
        shared = tuple(item for item in view.entry.shared if item.index_id not in ids)
        return replace(view, entry=replace(view.entry, index_files=index_files, shared=shared))

    def _stored(self, name: str, data_type: OrcType) -> OrcType:
        """Return the stored type of a column whose timestamps are instants in expressions."""
        if self._zones is None or not has_time(data_type):
            return data_type
        return self._snapshot.schema.resolve(name, is_stored=True).type

    def notes(self) -> list[Note]:
        problem = self._snapshot.store_problem
        if problem is not None and self._types:
            return [Note(failure_reason(problem), "the manifest", str(problem))]
        notes = [
            Note(Reason.NO_INDEX, column, self._without_index(column))
            if can_have_one
            else Note(Reason.UNSUPPORTED_TYPE, column, f"it is of type {self._types[column]}")
            for column, can_have_one in sorted(self._unindexed)
        ]
        notes += [Note(Reason.ROW_KEY, name) for name in sorted(self._row_keys)]
        notes += [
            Note(Reason.DEFERRED, name, "it was created WITH DEFERRED REBUILD")
            for name in sorted(self._deferred)
        ]
        notes += [Note(Reason.QUARANTINED, *item) for item in sorted(self._set_aside.items())]
        notes += self._notes
        notes += self._shared.notes
        notes += [
            Note(Reason.UNSUPPORTED_PREDICATE, str(part), self._reason_to_evaluate(part))
            for part in residuals(self._root)
            if part.ngrams is None
            and any(not self._snapshot.schema.is_partition(name) for name in columns(part))
        ]
        if self._types:
            notes += [
                Note(Reason.FILE_GONE, path, "it was indexed and is not there any more")
                for path in self._snapshot.vanished
            ]
        return notes

    def _reason_to_evaluate(self, condition: Residual) -> str:
        """Return the reason why no index answers a condition, so that it is evaluated."""
        names = [index.name for column in columns(condition) for index in self._ngram_indexes(column)]
        if not names:
            similar = self._similar_index(columns(condition), str(condition))
            if any(_is_on_part(index, str(condition)) for index in self._snapshot.manifest.indexes):
                return similar
            return f"no index is on the expression{similar and '; ' + similar}"
        return (
            f"{names[0]} answers conditions on parts of strings, of {SIZE} characters in a row or more, with "
            f"{MAX_ALTERNATIVES} alternatives at most, and neither NOT nor upper"
        )

    def _similar_index(self, names: Iterable[str], condition: str = "") -> str:
        """Return the reason why an index on an expression of some columns is not used; "" if there is none.

        Args:
            condition: the text of a condition; an index on a part of it is preferred.
        """
        indexes = self._snapshot.manifest.indexes
        for index in sorted(indexes, key=lambda index: not _is_on_part(index, condition)):
            if not index.is_on_expression:
                continue
            inputs = {name.lower() for name in parse_type(index.inputs).field_names}
            if inputs.isdisjoint(name.lower() for name in names):
                continue
            try:
                on = index_column(index, self._snapshot.schema)
            except (ColumnError, UnsupportedError) as error:
                return str(error)
            if index.deferred:
                return f"{index.name} on {on.name} is deferred: REFRESH INDEX builds it"
            if on.is_composite:
                _, has_ranges = _type_order(index.type.upper())
                which = "comparisons of the first" if has_ranges else "equality of all"
                return f"{index.name} on {on.name} answers {which} of these columns with constants"
            if not is_for_zones(index, on, self._zones):
                zones = on.zones or TimeZones("UTC", "UTC")
                query = "without a session" if self._zones is None else f"in {self._zones}"
                return f"{index.name} on {on.name} has the values of {zones}, and the query is {query}"
            if is_on_ngrams(index):
                return f"{index.name} answers conditions on parts of {on.name}, of {SIZE} characters or more"
            return f"{index.name} is on {on.name}"
        return ""

    def _ngram_indexes(self, column: str) -> list[IndexEntry]:
        return [index for index in self._all_indexes.get(column, ()) if is_on_ngrams(index)]

    def _without_index(self, column: str) -> str:
        for index in self._ngram_indexes(column):
            return f"{index.name} answers conditions on parts of the strings, and this one needs an index on values"
        missing = self._snapshot.store.missing_root() if self._snapshot.manifest.number == 0 else None
        similar = self._similar_index([column])
        if similar:
            return f"no index on this column; {similar}"
        return "no index on this column" + (f": there is no store at {missing!r}" if missing else "")

    def _part(self, partition: RawPartition, names: tuple[str, ...]) -> _Part:
        """Return the values that files with the same constant columns share.

        Constant columns are the partition columns, and columns with a default that the files lack.

        Args:
            names: the files' own columns.
        """
        missing = self._missing_defaults(names)
        part = self._by_constants.get((partition, missing))
        if part is None:
            partitioning = self._snapshot.listing.partitioning
            keys = partitioning.keys(partition)
            scalars = dict(zip(keys, partitioning.scalars(partition), strict=True))
            covered = frozenset(
                id_ for id_, where in self._where.items() if not isinstance(prune(where, keys), Never)
            )
            if self._zones is not None:
                keys, scalars = self._with_instants(keys, scalars, self._zones)
            for name in missing:
                scalar = scalars[name] = self._defaults[name]
                data_type = self._snapshot.schema.resolve((name,)).type
                keys[name] = nth_key(array_keys(data_type, pa.repeat(scalar, 1)), 0)
            output, lookups = (
                tuple(
                    replace(c, is_partition=True, partition_value=scalars[c.name]) if c.name in scalars else c
                    for c in items
                )
                for items in (self._output, self._lookups)
            )
            root = prune(self._root, keys)
            part = _Part(
                root,
                output,
                lookups,
                covered,
                tuple(OutputColumn(name, self._types[name]) for name in columns(root)),
                self._index_columns(root),
            )
            self._by_constants[partition, missing] = part
        return part

    def _with_instants(
        self, keys: dict[str, Key | None], scalars: dict[str, pa.Scalar[Any]], zones: TimeZones
    ) -> tuple[dict[str, Key | None], dict[str, pa.Scalar[Any]]]:
        """Convert the timestamps of a partition to instants, by the session's time zone.

        Raises:
            PredicateError: for a timestamp without an instant there.
        """
        for column in self._snapshot.listing.partitioning.columns:
            if column.type.kind is Kind.TIMESTAMP:
                wall_clock = keys[column.name]
                assert wall_clock is None or isinstance(wall_clock, int)
                instant = None if wall_clock is None else zones.instant(wall_clock)
                keys = keys | {column.name: instant}
                scalars = scalars | {column.name: pa.scalar(instant, pa.timestamp("us", tz="UTC"))}
        return keys, scalars

    def _missing_defaults(self, names: tuple[str, ...]) -> frozenset[str]:
        """Return the names of the columns with a default that files with the columns ``names`` lack."""
        if not self._defaults:
            return frozenset()
        missing = self._missing.get(names)
        if missing is None:
            missing = frozenset(self._defaults).difference(stored_columns(self._binding, names))
            self._missing[names] = missing
        return missing

    def _check_types(self, view: FileView) -> None:
        """Check that a file's types can be converted to the declared ones, for the columns that the scan needs.

        Raises:
            UnsupportedError: for a column whose values are not converted here.
        """
        root = OrcType(
            Kind.STRUCT,
            children=tuple(data_type for _, data_type in view.columns),
            field_names=tuple(view.names),
        )
        table_types = {column.name: column.type for column in (*self._output, *self._lookups)} | self._types
        for name, path in bind_paths(self._binding, root, table_types).items():
            if not can_convert(path.type, table_types[name]):
                raise UnsupportedError(
                    f"column {name!r} is {path.type} in data file {view.file.path!r} and {table_types[name]} in the "
                    "catalog, which is not converted here"
                )
        self._checked.add(id(view.columns))

    def _uses(self, view: FileView, names: Sequence[str], covered: frozenset[str]) -> list[IndexUse]:
        """Return the index files to look up for a data file; note the indexes that cannot be used."""
        uses: list[IndexUse] = []
        has_stale_note = False
        for name in names:
            if view.file.acid is not None and is_row_key(name, self._binding):
                self._row_keys.add(name)
                continue
            if not self._has_column(view.kind, name):
                # the column is null in every row, which needs no index; or an input of the expression is missing
                continue
            indexes = self._indexes.get(name, [])
            is_noted = name in self._noted
            for index in self._quarantined.get(name, ()) if is_noted else ():
                self._set_aside[index.name] = index.quarantined or ""
            if is_noted and not indexes and name not in self._quarantined:
                self._unindexed.add((name, key_kind(self._types[name]) is not None))
            for index in indexes:
                if index.deferred:
                    if is_noted:
                        self._deferred.add(index.name)
                    continue
                if view.is_listed_fresh and view.entry is not None and view.entry.shared_index(index.id):
                    # looked up by the driver, not by the task
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
                    expression_type = self._types[name] if name in self._inputs else None
                    uses.append(
                        IndexUse(index.name, name, path, file.length, file.footer_checksum, expression_type)
                    )
                    if self._has_other_keys(view, file, name):
                        self._notes.append(
                            Note(Reason.CORRUPT, f"{index.name} on {view.file.path}", _OTHER_KEYS)
                        )
                elif not is_noted:
                    continue
                elif index.id not in covered:
                    if self._has_substitutes(index, name, view, covered):
                        continue
                    self._notes.append(
                        Note(
                            Reason.PARTITION_NOT_INDEXED,
                            f"{index.name} on {view.file.path}",
                            f"the index covers only {index.where}",
                        )
                    )
                elif self._has_own_times(view) and any(
                    item.kind is Kind.TIMESTAMP
                    for part in self._inputs.get(name, (name,))
                    if (item := self._types.get(part)) is not None
                ):
                    self._notes.append(Note(Reason.NO_WRITER_ZONE, f"{index.name} on {view.file.path}"))
                elif not has_stale_note:
                    has_stale_note = True
                    self._notes.append(self._staleness(view, index))
        return uses

    def _has_substitutes(self, index: IndexEntry, name: str, view: FileView, covered: frozenset[str]) -> bool:
        """Return True if a file has another index as precise on the column, or one on each compared column."""

        def covers(others: Sequence[IndexEntry]) -> bool:
            return any(is_as_precise(other, index) for other in others if self._covers(other, view, covered))

        compared = self._compared.get(name, frozenset())
        return covers(self._indexes[name]) or (
            bool(compared) and all(covers(self._indexes.get(item, ())) for item in compared)
        )

    def _has_column(self, kind: FileKind, name: str) -> bool:
        """Return True if files of a kind have a column, or all columns of an expression."""
        return all(kind.has_column(self._binding, item) for item in self._inputs.get(name, (name,)))

    def _has_other_keys(self, view: FileView, file: IndexFileEntry, column: str) -> bool:
        """Return True if the manifest's keys of an index file have another kind than the column's present type.

        Such keys are not used; the index file has its own.
        """
        table_type = self._types[column]
        stripe_stats, kind = file.stripe_stats, key_kind(table_type)
        if isinstance(stripe_stats, StoredStats):
            fits = stripe_stats.column.are_of_kind(stripe_stats.file, kind)
        else:
            fits = are_of_kind(stripe_stats, kind)
        if view.entry is None or fits:
            return False
        file_type = recorded_type(view.entry.schema, self._binding, column, view.file.acid is not None)
        return file_type is not None and same_keys(file_type, table_type)

    def _covers(self, index: IndexEntry, view: FileView, covered: frozenset[str]) -> bool:
        """Return True if a built index covers a file's partition, or the file itself."""
        if index.deferred:
            return False
        if index.id in covered:
            return True
        if view.entry is None or not view.is_listed_fresh:
            return False
        return view.entry.shared_index(index.id) is not None or self._index_file(view, index) is not None

    def _index_file(self, view: FileView, index: IndexEntry) -> IndexFileEntry | None:
        return None if view.entry is None else view.entry.index_file(index.id)

    def _staleness(self, view: FileView, index: IndexEntry) -> Note:
        file, entry = view.file, view.entry
        if entry is None:
            return Note(Reason.NEW_FILE, file.path, "it was added after the indexes were built")
        if not view.is_listed_fresh:
            change = "its modification time changed"
            if entry.length != file.length:
                change = f"length {entry.length} -> {file.length}"
            elif view.is_replaced:
                change = REPLACED
            return Note(Reason.STALE_FILE, file.path, change)
        return Note(Reason.NOT_BUILT, f"{index.name} on {file.path}", "the index has no entry for this file")
