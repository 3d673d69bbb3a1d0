"""Indexes as users handle them, and the manifest entries of new ones."""

from __future__ import annotations

import datetime
import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from hindex.api.predicate_input import Where, parse_condition
from hindex.errors import ArgumentError, ArgumentTypeError, ColumnError, HindexError
from hindex.formatting import counted, percent_down
from hindex.index.index_type import IndexType, Level, index_type, resolve_properties
from hindex.orc.metadata.types import OrcType
from hindex.plan.filter import ALWAYS, Filter, Never
from hindex.plan.filter_evaluation import prune
from hindex.plan.normalize import index_filter
from hindex.store.manifest import IndexEntry, new_index_id
from hindex.store.snapshot import FileView, Snapshot, is_indexable
from hindex.table.schema import ColumnName, ResolvedColumn, check_path
from hindex.validation import check_text

if TYPE_CHECKING:
    from hindex.api.table import Table
    from hindex.maintain.results import CheckResult, DropResult, IndexState, RefreshResult, RenameResult
    from hindex.store.build_files import BuildNotice

#: Properties of every type that do not change what is written; openLooKeng's indexes are told what to load.
_ANNOTATING = {"autoload": ("true", "false")}


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to create.

    :param where: a predicate on partition columns, as text or parsed; the whole table if None.
    :param properties: of the index type, and ``level`` and ``autoload`` of every type.
    :param annotations: kept with the index for people.
    :param deferred: record the index without building it.
    """

    name: str
    column: ColumnName
    using: str = "bitmap"
    where: Where | None = None
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    annotations: Mapping[str, str] | None = None
    deferred: bool = False


class Index:
    """One index of a table, as it was when it was looked up."""

    def __init__(
        self,
        table: Table,
        entry: IndexEntry,
        snapshot: Snapshot,
        problem: str = "",
        *,
        is_gone: bool = False,
        building: BuildNotice | None = None,
        is_lost: bool = False,
    ) -> None:
        from hindex.build.key_types import has_current_keys
        from hindex.maintain.coverage import keys_of

        self._table = table
        self._entry = entry
        self._is_gone = is_gone
        self._building = building
        self._is_lost = is_lost
        where: Filter = ALWAYS
        column = entry.column
        of: OrcType | None = None
        resolved: ResolvedColumn | None = None
        try:
            resolved = snapshot.schema.resolve(entry.column, is_stored=True)
            column, of = resolved.name, resolved.type
            where = index_filter(entry, snapshot.schema)
        except HindexError as error:
            problem = problem or str(error)
        self._problem = problem
        binding = tuple(item.name for item in snapshot.schema.data_columns)
        within = [
            view for view in snapshot.files if not isinstance(prune(where, keys_of(view, snapshot)), Never)
        ]
        files: list[FileView] = []
        without: list[str] = []
        for view in within:
            if (
                view.has_column(binding, column)
                if resolved is None
                else is_indexable(view, snapshot, binding, resolved)
            ):
                files.append(view)
            else:
                without.append(view.file.path)
        #: Data files of its partitions that do not hold the column: there is nothing to index in them.
        self.files_without_column = tuple(without)
        indexed = [view for view in files if _is_indexed(view, entry)]
        fresh = [
            view
            for view in indexed
            if view.is_listed_fresh
            and (of is None or has_current_keys(view, entry, column, of, binding, snapshot.store))
        ]
        vanished = set(snapshot.vanished)
        #: Data files that the index should cover, and those it does cover as they are now.
        self.num_files, self.num_fresh_files = len(files), len(fresh)
        #: Of the others: those that changed since, or of which the index has keys of another type, and those that
        #: are not indexed.
        self.num_changed_files = len(indexed) - len(fresh)
        self.num_added_files = len(files) - len(indexed)
        #: Data files that are indexed and no part of the table any more.
        self.num_gone_files = sum(
            1 for item in snapshot.manifest.files if item.path in vanished and item.is_covered_by(entry.id)
        )
        #: Percentage of the rows that the index covers, rounded down.
        self.rows_covered = percent_down(sum(v.num_rows for v in fresh), sum(v.num_rows for v in files))
        self.size_bytes = snapshot.manifest.index_bytes(entry.id)

    def __repr__(self) -> str:
        return f"Index({self.name!r}, {self.type} on {self.column!r}, {self.status})"

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def table(self) -> str:
        """The table's name, as it was written."""
        return self._table.name

    @property
    def column(self) -> str:
        return self._entry.column

    @property
    def type(self) -> str:
        return self._entry.type

    @property
    def column_type(self) -> str:
        return self._entry.column_type

    @property
    def level(self) -> str:
        """The scope of one index file: ``stripe``, ``partition`` or ``table``."""
        return self._entry.level

    @property
    def where(self) -> str | None:
        """The partitions that it covers, as a predicate; all if None."""
        return self._entry.where

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._entry.properties)

    @property
    def annotations(self) -> dict[str, str]:
        """``TBLPROPERTIES`` and what else was only written down."""
        return dict(self._entry.annotations)

    @property
    def comment(self) -> str | None:
        return self._entry.comment

    @property
    def creator(self) -> str:
        """The user who created it."""
        return self._entry.creator

    @property
    def created_ms(self) -> int:
        """The time of creation, in milliseconds since 1970."""
        return self._entry.created_ms

    @property
    def refreshed_ms(self) -> int | None:
        """The time of the last build or refresh that changed it, in milliseconds since 1970; None if there was none."""
        return self._entry.refreshed_ms or None

    @property
    def state(self) -> IndexState:
        from hindex.maintain.results import IndexState

        if self._is_gone:
            return IndexState.TABLE_GONE
        if self._building is not None:
            return IndexState.BUILDING
        if self._problem:
            return IndexState.UNUSABLE
        if self._entry.deferred:
            return IndexState.DEFERRED
        if self._entry.quarantined is not None:
            return IndexState.QUARANTINED
        if self._is_lost:
            return IndexState.STALE
        complete = self.num_fresh_files == self.num_files and not self.num_gone_files
        return IndexState.FRESH if complete else IndexState.STALE

    @property
    def status(self) -> str:
        """The state for people: if stale how many files changed, were added and are gone; if unusable why."""

        from hindex.maintain.results import IndexState

        match self.state:
            case IndexState.BUILDING:
                assert self._building is not None
                since = datetime.datetime.fromtimestamp(self._building.started_ms / 1000, datetime.UTC)
                builder = self._building.builder
                return (
                    f"building: since {since:%Y-%m-%d %H:%M:%SZ} by process {builder.pid} on {builder.host}"
                )
            case IndexState.TABLE_GONE | IndexState.UNUSABLE as state:
                return f"{state.value}: {self._problem}"
            case IndexState.DEFERRED:
                return "deferred: REFRESH INDEX builds it"
            case IndexState.FRESH:
                return "fresh"
            case IndexState.QUARANTINED:
                return f"quarantined: REFRESH INDEX builds it anew; {self._entry.quarantined}"
        changes = [
            f"{count:,} {what}"
            for count, what in (
                (self.num_changed_files, "changed"),
                (self.num_added_files, "added"),
                (self.num_gone_files, "gone"),
            )
            if count
        ]
        if self._is_lost:
            changes = ["its files were deleted with the table's earlier files, REFRESH INDEX builds it again"]
        return (
            f"stale: {', '.join(changes)}; {self.num_fresh_files:,} of {counted(self.num_files, 'file')} indexed, "
            f"{self.rows_covered:g} % of the rows"
        )

    def refresh(self, *, where: Where | None = None, dry_run: bool = False) -> RefreshResult:
        """Index the files that changed or were added, and forget those that are gone.

        :param where: only files of these partitions, a predicate on partition columns.
        :param dry_run: only tell what would be done.
        :raises IndexNotFoundError: if the index is gone, or does not cover these partitions.
        :raises BuildError: if the Spark job fails; the index is then as it was.
        """
        return self._table.refresh_indexes([self.name], where=where, dry_run=dry_run)

    def rebuild(self, *, where: Where | None = None) -> RefreshResult:
        """Build the index anew, whether or not files changed; until that has succeeded the old one serves.

        Parameters and errors are those of :meth:`refresh`.
        """
        return self._table.rebuild_index(self.name, where=where)

    def drop(self, *, where: Where | None = None) -> DropResult:
        """Remove the index, or its part for some partitions.

        :param where: partitions by their values, such as ``p = 1`` or ``p IN (1, 2)``.
        :raises IndexNotFoundError: if it is gone already, was not created with ``where``, or does not cover these
            partitions.
        """
        return self._table.drop_index(self.name, where=where)

    def rename(self, new_name: str) -> RenameResult:
        """Give the index another name.

        :raises IndexNotFoundError: if it is gone.
        :raises IndexExistsError: if the name is taken.
        """
        return self._table.rename_index(self.name, new_name)

    def check(self, *, verify: bool = False) -> CheckResult:
        """Check the index against its table. See :meth:`hindex.Table.check_indexes`."""
        return self._table.check_indexes([self.name], verify=verify)[0]


def new_entry(spec: IndexSpec, snapshot: Snapshot) -> IndexEntry:
    """The manifest entry of a new index, everything about it checked.

    :raises ColumnError: if the column cannot be resolved or indexed, or ``where`` names other than partitions.
    :raises HindexError: if the type or a property is unknown.
    :raises ArgumentTypeError: if a name is no text, or properties are no mapping.
    """

    from hindex.maintain.coverage import partition_filter
    from hindex.maintain.manifest_changes import now_ms

    kind = index_type(check_text(spec.using, "using", "bitmap"))
    if not spec.name:
        raise ColumnError("an index needs a name")
    check_text(spec.name, "the name of an index", "by_id")
    if spec.comment is not None:
        check_text(spec.comment, "the comment of an index", "for lookups")
    _check_mapping(spec.properties, "properties")
    _check_mapping(spec.annotations, "annotations")
    resolved = snapshot.schema.resolve(spec.column)
    if resolved.is_partition:
        raise ColumnError(
            f"Column {resolved.name!r} is a partition column: its values are in the directory names, so it needs no "
            "index"
        )
    check_path(resolved, snapshot.schema)
    if not all(resolved.path):
        raise ColumnError(
            f"Column {resolved.name!r} has an empty name in its path: no condition can name it, so it needs no index"
        )
    if not kind.supports(resolved.type):
        raise ColumnError(
            f"Column {resolved.name!r} is of type {resolved.type}, which {kind.name} cannot index: choose a column of "
            "a primitive type"
        )
    where = parse_condition(spec.where)
    if where is not None:
        partition_filter(where, snapshot.schema, "index creation")
    given = {key.lower().removeprefix(f"{kind.name.lower()}."): key for key in spec.properties or {}}
    properties = dict(spec.properties or {})
    level = _level(kind, str(properties.pop(given["level"])) if "level" in given else None, snapshot)
    annotations = {str(key): str(value) for key, value in (spec.annotations or {}).items()}
    for name, allowed in _ANNOTATING.items():
        if name in given:
            value = str(properties.pop(given[name])).lower()
            if value not in allowed:
                raise ArgumentError(f"Property {name!r} is {value!r}: it must be {' or '.join(allowed)}")
            annotations[name] = value
    return IndexEntry(
        id=new_index_id(),
        name=spec.name,
        column=resolved.name,
        type=kind.name,
        column_type=str(resolved.type),
        properties=tuple(resolve_properties(kind, properties).items()),
        where=None if where is None else str(where),
        created_ms=now_ms(),
        creator=_user(),
        level=level.value,
        deferred=spec.deferred,
        comment=spec.comment,
        annotations=tuple(sorted(annotations.items())),
    )


def _check_mapping(given: Mapping[str, str] | None, what: str) -> None:
    if given is not None and not isinstance(cast("object", given), Mapping):
        raise ArgumentTypeError(f"{what} is {given!r}: it is a mapping of names to texts")
    for name in given or {}:
        check_text(name, f"a name in {what}", str(name))


def _is_indexed(view: FileView, entry: IndexEntry) -> bool:
    return view.entry is not None and view.entry.is_covered_by(entry.id)


def _level(kind: IndexType, text: str | None, snapshot: Snapshot) -> Level:
    """The level that a property asks for, or the smallest that the type has and the table allows."""
    if text is not None:
        found = next((level for level in kind.levels if level.value == text.lower()), None)
        if found is None:
            known = ", ".join(sorted(level.value.upper() for level in kind.levels))
            raise ArgumentError(f"Index type {kind.name} has no level {text!r}: its levels are {known}")
        return found
    order = [Level.STRIPE, Level.PARTITION, Level.TABLE]
    if not snapshot.schema.partition_columns:
        order = [Level.STRIPE, Level.TABLE, Level.PARTITION]
    return next(level for level in order if level in kind.levels)


def _user() -> str:
    """The user's name, or number where containers give users no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
