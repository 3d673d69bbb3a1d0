"""Indexes of a table, and the manifest entries of new ones."""

from __future__ import annotations

import datetime
import getpass
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union, cast

import numpy as np

from hindex.api.conditions import Expr
from hindex.api.predicate_input import Where, parse_condition
from hindex.errors import ArgumentError, ArgumentTypeError, ColumnError, HindexError, warn
from hindex.formatting import counted, percent_down, plural
from hindex.index.index_type import IndexType, Level, has_ngrams, index_type, resolve_properties
from hindex.orc.metadata.types import Kind
from hindex.plan.filter import ALWAYS, Filter
from hindex.plan.index_columns import IndexColumn, composite_column, expression_column, index_column, parsed
from hindex.plan.normalize import index_filter
from hindex.plan.time_zones import TimeZones, ZonesOf
from hindex.sql.predicate import ColumnRef, as_value
from hindex.store.manifest import IndexEntry, new_index_id
from hindex.store.snapshot import Snapshot
from hindex.table.schema import ColumnName, ResolvedColumn, TableSchema, check_path, column_name, column_names
from hindex.table.type_text import type_text
from hindex.validation import check_string, short_repr, suggestion
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyspark.sql

    from hindex.api.table import Table
    from hindex.maintain.results import CheckResult, DropResult, IndexState, RefreshResult, RenameResult
    from hindex.store.build_files import BuildMarker

#: Properties of openLooKeng that say how it keeps indexes in memory: they are only recorded.
_WITHOUT_EFFECT = ("autoload", "mmapEnabled", "bloom.mmapEnabled")
#: A column by its name, or an expression: as SQL, of `hindex.col`, or of PySpark; a list of the names of several.
IndexedColumn: TypeAlias = Union[ColumnName, Expr, "pyspark.sql.Column", Sequence[ColumnName | Expr]]
#: What names of columns seldom have, and expressions have.
_EXPRESSION = re.compile(r"[(\[+*/%|:=<>']| - |^-|^case\b", re.IGNORECASE)
#: Properties of every index type.
_OTHER_PROPERTIES = ("level", *_WITHOUT_EFFECT)


@value_class
class IndexSpec:
    """An index to create.

    Args:
        column: the name of a column or field; or an expression, as SQL text, of `hindex.col`, or a PySpark column. A
            list of names for an index on several columns, or of type ROWS.
        where: a predicate on partition columns; the whole table if None.
        properties: properties of the index type, and ``level`` of every type; those of openLooKeng that have no effect
            here are only recorded, with a `hindex.errors.HindexWarning`.
        annotations: further properties, only recorded.
        deferred: record the index without building it.
        include: columns to store in small blocks, in a second index of type ROWS, named after this one with the suffix
            ``_rows``, unless an index has them already. All queries of the table use it.
    """

    name: str
    column: IndexedColumn
    using: str = "bitmap"
    where: Where | None = None
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    annotations: Mapping[str, str] | None = None
    deferred: bool = False
    include: Sequence[ColumnName] = ()

    @property
    def included_index(self) -> IndexSpec | None:
        """The index of the included columns; None if there are none.

        Raises:
            ColumnError: if they are no list of names, or the index is itself of type ROWS.
        """
        columns = column_names(self.include, "include")
        if not columns:
            return None
        if str(self.using).upper() == "ROWS":
            raise ColumnError(
                f"Index {self.name!r} is of type ROWS, which includes its columns: name all of them in one list"
            )
        return IndexSpec(f"{self.name}_rows", columns, "rows", self.where, deferred=self.deferred)


class Index:
    """An index of a table, in its state at the lookup."""

    def __init__(
        self,
        table: Table,
        entry: IndexEntry,
        snapshot: Snapshot,
        problem: str = "",
        *,
        is_gone: bool = False,
        building: BuildMarker | None = None,
        is_lost: bool = False,
    ) -> None:
        from hindex.build.index_coverage import index_coverage

        self._table = table
        self._entry = entry
        self._is_gone = is_gone
        self._building = building
        self._is_lost = is_lost
        where: Filter = ALWAYS
        resolved: IndexColumn | None = None
        try:
            resolved = index_column(entry, snapshot.schema)
            where = index_filter(entry, snapshot.schema)
        except HindexError as error:
            problem = problem or str(error)
        self._problem = problem
        self._column_type = entry.column_type
        if resolved is not None and resolved.is_composite:
            self._column_type = ", ".join(type_text(column.type) for column in resolved.inputs)
        views = snapshot.views
        coverage = index_coverage(snapshot, entry, resolved, where)
        fresh = coverage.is_current & views.is_listed_fresh
        #: Data files of its partitions without the column.
        self.files_without_column = tuple(
            views.files.paths[at] for at in np.flatnonzero(coverage.lacking).tolist()
        )
        #: Files below the table's directory that are named as data files and belong to no partition.
        self.ignored_files = snapshot.listing.ignored
        num_indexed = int(coverage.indexed.sum())
        #: Data files that the index should cover, and those that it covers in their current state.
        self.num_files, self.num_fresh_files = int(coverage.wanted.sum()), int(fresh.sum())
        #: The other files: changed since, or indexed with keys of another type; and not indexed.
        self.num_changed_files = num_indexed - self.num_fresh_files
        self.num_added_files = self.num_files - num_indexed
        gone = snapshot.manifest.entries.find(snapshot.vanished)
        #: Indexed data files that were deleted from the table.
        self.num_gone_files = sum(1 for item in gone.values() if item.is_covered_by(entry.id))
        #: Percentage of the rows that the index covers, rounded down.
        self.rows_covered = percent_down(
            int(views.num_rows[fresh].sum()), int(views.num_rows[coverage.wanted].sum())
        )
        self.size_bytes = snapshot.manifest.index_bytes(entry.id)

    def __repr__(self) -> str:
        return f"Index({self.name!r}, {self.type} on {self.column!r}, {self.status})"

    @property
    def name(self) -> str:
        return self._entry.name

    @property
    def table(self) -> str:
        """The table's name, as the user wrote it."""
        return self._table.name

    @property
    def column(self) -> str:
        return self._entry.column

    @property
    def type(self) -> str:
        return self._entry.type

    @property
    def column_type(self) -> str:
        """The type of its values; of several columns, their types."""
        return self._column_type

    @property
    def time_zones(self) -> str | None:
        """The time zones of the session, and of its Java, that an expression of timestamps was computed in.

        None for one of the stored wall clocks, and for any other index.
        """
        return _zones_text(self._entry) or None

    @property
    def level(self) -> str:
        """The scope of one index file: ``stripe``, ``partition`` or ``table``."""
        return self._entry.level

    @property
    def where(self) -> str | None:
        """The predicate of the partitions that it covers; None for all."""
        return self._entry.where

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._entry.properties)

    @property
    def annotations(self) -> dict[str, str]:
        """``TBLPROPERTIES`` and other properties that are only recorded."""
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
        """The time of the last build or refresh that changed it, in milliseconds since 1970, if any."""
        return self._entry.refreshed_ms or None

    @property
    def problem(self) -> str:
        """Why the index cannot be used or refreshed as it is defined; empty if it can."""
        return self._problem

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
        """A description of the state, with the numbers of changed, added and deleted files, or the reason."""
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
        """Index the files that changed or were added, and drop entries of deleted files.

        Args:
            where: only files of these partitions, a predicate on partition columns.
            dry_run: change nothing; return the planned changes.

        Raises:
            IndexNotFoundError: if the index is gone, or does not cover these partitions.
            BuildError: if the Spark job fails; the index is then as it was.
        """
        return self._table.refresh_indexes([self.name], where=where, dry_run=dry_run)

    def rebuild(self, *, where: Where | None = None) -> RefreshResult:
        """Build the index again from all files; the old one serves until that has succeeded.

        Parameters and errors are those of `refresh`.
        """
        return self._table.rebuild_index(self.name, where=where)

    def drop(self, *, where: Where | None = None) -> DropResult:
        """Remove the index, or its part for some partitions.

        Args:
            where: partitions by their values, such as ``p = 1`` or ``p IN (1, 2)``.

        Raises:
            IndexNotFoundError: if it is gone already, was not created with ``where``, or does not cover these
                partitions.
        """
        return self._table.drop_index(self.name, where=where)

    def rename(self, new_name: str) -> RenameResult:
        """Give the index another name.

        Raises:
            IndexNotFoundError: if it is gone.
            IndexExistsError: if the name is taken.
        """
        return self._table.rename_index(self.name, new_name)

    def check(self, *, verify: bool = False) -> CheckResult:
        """Check the index against its table. See `hindex.Table.check_indexes`."""
        return self._table.check_indexes([self.name], verify=verify)[0]


class IndexList(list[Index]):
    """The indexes of a table; notebooks show them as an HTML table."""

    def _repr_html_(self) -> str:
        """Return a row for each index."""
        from hindex.api.index_statements import brief_columns, indexes_table
        from hindex.api.rows_html import rows_html

        rows = indexes_table(self)
        brief = rows.select([name for name in brief_columns(rows) if name != "table"])
        return rows_html("Indexes", lambda _: (brief, ""), max_rows=len(self))


def definition_difference(existing: IndexEntry, spec: IndexSpec, entry: IndexEntry) -> str:
    """Return the differences between an existing index and a requested one; "" if there are none.

    Properties and a level that the request leaves out are no differences.

    Args:
        entry: the manifest entry of the request.
    """
    pairs = [(name, getattr(existing, name), getattr(entry, name)) for name in ("column", "type", "where")]
    pairs.append(("time zones", _zones_text(existing), _zones_text(entry)))
    names = _property_names(spec.properties, entry.type)
    if "level" in names:
        pairs.append(("level", existing.level, entry.level))
    if existing.type == entry.type:
        before, after = dict(existing.properties), dict(entry.properties)
        pairs += [(name, before.get(name), after[name]) for name in names if name in after]
    return ", ".join(
        f"{name} {old or 'none'} instead of {new or 'none'}" for name, old, new in pairs if old != new
    )


def _zones_text(entry: IndexEntry) -> str:
    try:
        return str(TimeZones.parse(entry.time_zones)) if entry.time_zones else ""
    except ValueError:
        return entry.time_zones  # of a later version


def new_entry(spec: IndexSpec, snapshot: Snapshot, zones: ZonesOf) -> IndexEntry:
    """Check a new index and return its manifest entry.

    Args:
        zones: gives those of the session, whose values an index on an expression of timestamps has.

    Raises:
        ColumnError: if the column cannot be resolved or indexed, or ``where`` names other columns than partitions.
        HindexError: if the type or a property is unknown.
        ArgumentTypeError: if a name is not a string, or properties are not a mapping.
    """
    from hindex.maintain.builds import now_ms
    from hindex.maintain.coverage import partition_filter

    kind = index_type(check_string(spec.using, "using", "bitmap"))
    if not spec.name:
        raise ColumnError("an index needs a name")
    check_string(spec.name, "the name of an index", "by_id")
    if spec.comment is not None:
        check_string(spec.comment, "the comment of an index", "for lookups")
    _check_mapping(spec.properties, "properties")
    _check_mapping(spec.annotations, "annotations")
    on = _indexed_column(spec.column, snapshot.schema, kind).in_zones(zones)
    where = parse_condition(spec.where)
    if where is not None:
        partition_filter(where, snapshot.schema, "index creation")
    property_keys = _property_names(spec.properties, kind.name)
    properties = dict(spec.properties or {})
    level = _level(
        kind, str(properties.pop(property_keys["level"])) if "level" in property_keys else None, snapshot
    )
    annotations = {str(key): str(value) for key, value in (spec.annotations or {}).items()}
    without_effect = [
        property_keys[key] for name in _WITHOUT_EFFECT if (key := name.lower()) in property_keys
    ]
    for name in without_effect:
        value = str(properties.pop(name)).lower()
        if value not in ("true", "false"):
            raise ArgumentError(f"Property {name!r} is {value!r}: it must be true or false")
        annotations[name] = value
    known_properties = resolve_properties(kind, properties, other_names=_OTHER_PROPERTIES)
    _warn_without_effect(without_effect)
    return IndexEntry(
        id=new_index_id(),
        name=spec.name,
        column=on.name,
        type=kind.name,
        column_type=type_text(on.type),
        properties=tuple(known_properties.items()),
        where=None if where is None else str(where),
        created_ms=now_ms(),
        creator=_user(),
        level=level.value,
        deferred=spec.deferred,
        comment=spec.comment,
        annotations=tuple(sorted(annotations.items())),
        inputs=on.input_types,
        time_zones=on.time_zones,
    )


def _indexed_column(column: IndexedColumn, schema: TableSchema, kind: IndexType) -> IndexColumn:
    """Resolve the column or expression that a new index covers.

    Raises:
        ColumnError: if it cannot be resolved or indexed.
        StatementError: if an expression is not SQL.
    """
    if kind.name == "ROWS":
        return _row(column, schema, kind)
    if isinstance(column, list) and len(column) > 1:
        return _composite(column, schema, kind)
    on = _column_or_expression(column[0] if isinstance(column, list) and column else column, schema)
    if on.expression is not None:
        if has_ngrams(kind) and on.has_lists:
            raise ColumnError(
                f"{on.name} cannot be indexed by {kind.name}, which is on one string in each row"
            )
        if not kind.supports(on.type):
            raise ColumnError(f"{on.name} is of type {on.type}, which {kind.name} cannot index")
        return on
    (resolved,) = on.inputs
    _check_indexed(resolved, schema, kind)
    return on


def _composite(columns: Sequence[object], schema: TableSchema, kind: IndexType) -> IndexColumn:
    resolved = _several_columns(columns, schema)
    if has_ngrams(kind):
        listed = ", ".join(column.name for column in resolved)
        raise ColumnError(f"An index of type {kind.name} is on one column: create one for each of {listed}")
    for column in resolved:
        _check_indexed(column, schema, kind)
    return composite_column(resolved, schema)


def _several_columns(columns: Sequence[object], schema: TableSchema) -> list[ResolvedColumn]:
    resolved: list[ResolvedColumn] = []
    for item in columns:
        node = item.node if isinstance(item, Expr) else None
        try:
            column = schema.resolve(node.parts if isinstance(node, ColumnRef) else column_name(item))
        except ColumnError:
            if node is None and not (isinstance(item, str) and _EXPRESSION.search(item)):
                raise
            raise ColumnError(
                f"an index on several columns, or of type ROWS, takes columns, and {item if node is None else node} "
                "is an expression: create a separate index on it, not of type ROWS"
            ) from None
        if column in resolved:
            raise ColumnError(f"Column {column.name!r} is named twice")
        resolved.append(column)
    return resolved


def _check_indexed(column: ResolvedColumn, schema: TableSchema, kind: IndexType) -> None:
    """Check that an index may be on a column.

    Raises:
        ColumnError: if not.
    """
    if column.is_partition:
        raise ColumnError(
            f"Column {column.name!r} is a partition column: its values are in the directory names, so it needs no "
            "index"
        )
    check_path(column, schema)
    if not all(column.path):
        raise ColumnError(
            f"Column {column.name!r} has an empty name in its path: no condition can name it, so it needs no index"
        )
    if not kind.supports(column.type):
        raise ColumnError(
            f"Column {column.name!r} is of type {column.type}, which {kind.name} cannot index: choose a column of "
            + ("type string or varchar" if has_ngrams(kind) else "a primitive type")
            + (f", or its elements: {column.name}[*]" if column.type.kind is Kind.LIST else "")
        )


def _row(columns: IndexedColumn, schema: TableSchema, kind: IndexType) -> IndexColumn:
    names = [columns] if isinstance(columns, str) else columns
    if not isinstance(names, Sequence):
        raise ColumnError(
            f"An index of type ROWS includes columns: pass a list of names, not {short_repr(columns)}"
        )
    resolved = _several_columns(names, schema)
    for column in resolved:
        if column.is_partition:
            raise ColumnError(
                f"Column {column.name!r} is a partition column: its values are in the directory names, so no index "
                "needs to include them"
            )
        check_path(column, schema)
        if not kind.supports(IndexColumn.of_columns([column]).type):
            raise ColumnError(
                f"Column {column.name!r} is of type {column.type}, which ROWS cannot include: leave it out"
            )
    if not resolved:
        raise ColumnError("An index of type ROWS includes at least one column: name some")
    return IndexColumn.of_columns(resolved)


def _column_or_expression(column: IndexedColumn, schema: TableSchema) -> IndexColumn:
    if isinstance(column, Expr):
        return expression_column(column.node, schema)
    if type(column).__module__.startswith("pyspark.sql."):
        from hindex.api.spark_columns import column_predicate

        return expression_column(as_value(column_predicate(column)), schema)
    name = column_name(column)
    try:
        return IndexColumn.of(schema.resolve(name))
    except ColumnError:
        # what looks like an expression gets the errors of one
        if not isinstance(name, str) or not _EXPRESSION.search(name):
            raise
        expression = parsed(name)
        if isinstance(expression, ColumnRef):
            raise
    return expression_column(expression, schema)


def split_index_properties(
    using: str, index_properties: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Split Hive's ``IDXPROPERTIES`` into properties and annotations.

    Hive accepts any name there, and its index types use none. A name that neither is nor resembles one of a property is
    an annotation, with a warning.

    Raises:
        HindexError: if the index type is unknown.
    """
    kind = index_type(using)
    property_names = [*(item.name for item in kind.properties), *_OTHER_PROPERTIES]
    properties: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for own_name, name in _property_names(index_properties, kind.name).items():
        target = properties if suggestion(own_name, property_names) else annotations
        target[name] = index_properties[name]
    _warn_without_effect(annotations)
    return properties, annotations


def _warn_without_effect(names: Collection[str]) -> None:
    """Warn of properties that are only recorded."""
    if names:
        verb = "has" if len(names) == 1 else "have"
        listed = ", ".join(map(repr, names))
        warn(
            f"{plural(len(names), 'property').capitalize()} {listed} {verb} no effect in hindex: recorded as "
            f"{'an annotation' if len(names) == 1 else 'annotations'}"
        )


def _property_names(properties: Mapping[str, str] | None, type_name: str) -> dict[str, str]:
    """Return the given names of properties by their own: in lower case, without the index type in front."""
    return {key.lower().removeprefix(f"{type_name.lower()}."): key for key in properties or {}}


def _check_mapping(mapping: Mapping[str, str] | None, what: str) -> None:
    if mapping is not None and not isinstance(cast("object", mapping), Mapping):
        raise ArgumentTypeError(f"{what} is {mapping!r}: pass a mapping of names to strings")
    for name in mapping or {}:
        check_string(name, f"a name in {what}", str(name))


def _level(kind: IndexType, text: str | None, snapshot: Snapshot) -> Level:
    """Return the level of a property, or the smallest that the type and the table allow."""
    if text is not None:
        level = next((level for level in kind.levels if level.value == text.lower()), None)
        if level is None:
            levels = ", ".join(sorted(level.value.upper() for level in kind.levels))
            raise ArgumentError(f"Index type {kind.name} has no level {text!r}: its levels are {levels}")
        return level
    order = [Level.STRIPE, Level.PARTITION, Level.TABLE]
    if not snapshot.schema.partition_columns:
        order = [Level.STRIPE, Level.TABLE, Level.PARTITION]
    return next(level for level in order if level in kind.levels)


def _user() -> str:
    """Return the user's name, or the user id if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
