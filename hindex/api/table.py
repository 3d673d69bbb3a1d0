"""Tables: scans, and the creation and maintenance of indexes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from hindex.api.index import Index, IndexedColumn, IndexList, IndexSpec, definition_difference, new_entry
from hindex.api.predicate_input import Where, parse_condition
from hindex.api.scan import Scan, SchemaSnapshot, check_limit, listing_seconds
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    ColumnError,
    IndexNotFoundError,
    OrcError,
    TableError,
    TableNotFoundError,
    warn,
)
from hindex.lru_cache import cached_property
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.plan.modes import Mode
from hindex.plan.time_zones import ZonesOf
from hindex.scan.planning import partition_filter
from hindex.sql.predicate import Predicate
from hindex.store.definitions import Definitions, changed_definitions, lost_indexes, with_indexes
from hindex.store.manifest import (
    IndexEntry,
    Manifest,
    check_new_index,
    drop_index,
    merge_build_result,
    no_such_index,
    rename_index,
    update_index,
)
from hindex.store.snapshot import Snapshot, declared_snapshot, find_fresh_files, take_snapshot
from hindex.store.store import RETAIN_HOURS, Store
from hindex.table.listing import Listing, list_data_files
from hindex.table.location import is_local
from hindex.table.partitions import CatalogPartitions
from hindex.table.schema import ColumnName, DeclaredSchema, TableSchema
from hindex.table.transactional import AcidOptions
from hindex.table.type_text import parse_type
from hindex.validation import (
    check_keywords,
    check_names,
    check_string,
    collection_items,
    raise_missing_attribute,
    short_repr,
)

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from hindex.api.statement_table import RecordList
    from hindex.engines.arrow_expressions import TranslatedFilter
    from hindex.engines.dataset import IndexedDataset
    from hindex.maintain.advice import Advice
    from hindex.maintain.builds import Builds, Session
    from hindex.maintain.results import (
        AdoptResult,
        BuildEstimate,
        CheckResult,
        DropResult,
        RefreshResult,
        RenameResult,
        VacuumResult,
    )

#: Characters that a manifest keeps of the reason for a quarantine.
_MAX_REASON_CHARACTERS = 500

#: Attempts to write definitions to the catalog beside concurrent writers.
_MAX_WRITES = 5

__all__ = ["Index", "IndexSpec", "Table"]


class Table:
    """A table of ORC files, by path, URI or Spark catalog name.

    ``check`` validates every snapshot. ``options`` are those of a transactional table. ``partitions`` and ``declared``
    read the current partitions and schema from the table's catalog.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        uri: str,
        store: Store,
        check: Callable[[Snapshot], None] | None = None,
        options: AcidOptions | None = None,
        partitions: Callable[[], CatalogPartitions] | None = None,
        declared: Callable[[], DeclaredSchema] | None = None,
    ) -> None:
        self._session = session
        self.name = name
        self.uri = uri
        self._store = store
        self._check = check
        self._options = options
        self._partitions = partitions
        self._declared = declared
        #: The definitions of its indexes in its catalog, which outlive a store within its directory.
        self.definitions: Definitions | None = None

    @cached_property
    def _schema_snapshot(self) -> SchemaSnapshot:
        return SchemaSnapshot(
            partial(self.snapshot, max_age=listing_seconds()),
            is_remote=not is_local(self.uri),
            take_partitions=self._partitions_snapshot,
            declared=self._declared_snapshot,
        )

    @cached_property
    def _builds(self) -> Builds:
        from hindex.maintain.builds import Builds

        return Builds(self.name, self._store, self._session)

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(self, name, "a table", [("table.scan()", Scan)])

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_builds"}

    def __repr__(self) -> str:
        return f"Table({self.name!r})" if self.name == self.uri else f"Table({self.name!r}, uri={self.uri!r})"

    def snapshot(
        self,
        options: AcidOptions | None = None,
        *,
        manifest: Manifest | None = None,
        max_age: float = 0.0,
        trusts_times: bool = True,
    ) -> Snapshot:
        """Return the current state of the table: files, schema, and the files that its indexes cover.

        Args:
            options: how a transactional table is read; the table's own options if None.
            manifest: used in place of the latest one.
            max_age: seconds for which an earlier listing of the table serves.
            trusts_times: whether the modification time of a remote file proves that it is unchanged.
        """
        snapshot = self.unchecked_snapshot(
            options, manifest=manifest, max_age=max_age, trusts_times=trusts_times
        )
        self.check_against_catalog(snapshot)
        return snapshot

    def _declared_snapshot(self, min_files: int) -> Snapshot | None:
        """Return the table without its files, as its catalog has it; None without one, or if few files are recorded."""
        declared = self.declared_schema()
        if declared is None or not declared.partitions:
            return None
        return declared_snapshot(self.uri, self._store, declared, name=self.name, min_files=min_files)

    def _partitions_snapshot(
        self, known: Snapshot, where: Predicate | None, zones: ZonesOf, instant: int
    ) -> Snapshot:
        """Return the current state of the partitions in which a predicate may keep rows.

        Args:
            known: has the schema as it was.
        """
        declared = self.declared_schema()
        if declared != known.declared:
            return self.snapshot()
        within = partition_filter(
            known.schema,
            known.listing.partitioning.columns,
            where,
            is_declared=declared is not None,
            zones=zones,
            instant=instant,
        )
        max_age = listing_seconds()
        if within is None or known.schema.transactional:
            return self.snapshot(max_age=max_age)
        try:
            snapshot = take_snapshot(
                self.uri,
                self._store,
                name=self.name,
                options=self._options,
                partitions=self.catalog_partitions(),
                declared=declared,
                within=within,
                known=known.schema,
                max_age=max_age,
            )
        except TableNotFoundError:
            raise
        except TableError:
            # files may have other types by now
            return self.snapshot()
        if snapshot.listing.is_pruned and snapshot.schema != known.schema:
            return self.snapshot()
        self.check_against_catalog(snapshot)
        return snapshot

    def unchecked_snapshot(
        self,
        options: AcidOptions | None = None,
        *,
        manifest: Manifest | None = None,
        max_age: float = 0.0,
        trusts_times: bool = True,
    ) -> Snapshot:
        """Return the current state; call `check_against_catalog` before rows are read by it."""
        return take_snapshot(
            self.uri,
            self._store,
            name=self.name,
            options=options or self._options,
            partitions=self.catalog_partitions(),
            declared=self.declared_schema(),
            manifest=manifest,
            max_age=max_age,
            trusts_times=trusts_times,
        )

    def check_against_catalog(self, snapshot: Snapshot) -> None:
        """Compare a snapshot with the table's description in its catalog.

        Raises:
            TableError: naming the first difference.
        """
        if self._check is not None:
            self._check(snapshot)

    def share_schema(self, earlier: Table) -> None:
        """Check queries by the schema that an earlier object for the same table has read a while ago."""
        is_declared = self._declared is not None
        if (earlier._options, earlier._store.root, earlier._declared is not None) == (
            self._options,
            self._store.root,
            is_declared,
        ):
            self._schema_snapshot.adopt(earlier._schema_snapshot, self.name, self._store)

    def catalog_partitions(self) -> CatalogPartitions | None:
        """Return the current partitions in the catalog; None for a table by path, or without partitions."""
        return None if self._partitions is None else self._partitions()

    def declared_schema(self) -> DeclaredSchema | None:
        """Return the current schema in the catalog; None for a table by path."""
        return None if self._declared is None else self._declared()

    @property
    def schema(self) -> TableSchema:
        """The current columns with their types, and the partition columns among them."""
        return self.snapshot().schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in Spark's order: partition columns last."""
        return self.schema.names

    @check_keywords
    def scan(
        self,
        where: Where | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        mode: str | Mode | None = None,
        valid_write_ids: str | None = None,
    ) -> Scan:
        """Return a scan of ``columns`` (all if None) of the rows that satisfy ``where``, at most ``limit``.

        Args:
            where: SQL text, ``hindex.col(...)`` with a comparison, a PyArrow expression, a PySpark column, or a
                predicate from `hindex.sql.parse_predicate`.
            mode: ``lenient``, ``strict`` or ``prove``, see `hindex.connect`; the connection's if None.
            valid_write_ids: the visible write ids of a transactional table; the table's own if None.

        Raises:
            StatementError: if a string is not a predicate.
            TableError: if the table does not exist.
            ColumnError: for an unknown column.
            PredicateError: for a condition that does not fit the columns' types.
        """
        return self.unchecked_scan(
            where, columns, limit, mode=mode, valid_write_ids=valid_write_ids
        ).checked()

    def unchecked_scan(
        self,
        where: Where | None = None,
        columns: Sequence[ColumnName] | None = None,
        limit: int | None = None,
        *,
        mode: str | Mode | None = None,
        valid_write_ids: str | None = None,
    ) -> Scan:
        """Return a scan as `scan` does, whose names and types are checked when rows are read."""
        if limit is not None:
            check_limit(limit)
        schema = self._schema_snapshot
        if valid_write_ids is not None:
            options = replace(self._options or AcidOptions(), valid=ValidWriteIds.parse(valid_write_ids))
            schema = SchemaSnapshot(partial(self.snapshot, options, max_age=listing_seconds()))
        return Scan(
            schema.current,
            parse_condition(where, self._translate),
            columns,
            limit,
            mode=self._session.mode if mode is None else Mode.of(mode),
            quarantine=self.quarantine_indexes,
            table=self.name,
            session=self._session.session,
            zones=self._session.zones,
            schema=schema,
            translate=self._translate,
        )

    def _translate(self, expression: pc.Expression) -> TranslatedFilter:
        """Translate a PyArrow expression on the table's columns of now.

        Raises:
            ColumnError: if it is on another column.
        """
        from hindex.engines.dataset import DatasetSchema

        schema = DatasetSchema.of(self)
        translated = schema.translate(expression)
        for name in translated.columns or ():
            schema.table.resolve((name,))
        return translated

    def dataset(self) -> IndexedDataset:
        """Return the rows as a PyArrow dataset: DuckDB, Polars and others push columns and filters into it.

        Its columns are those of now; its rows are those of the time when it is read.
        """
        from hindex.engines.dataset import IndexedDataset

        return IndexedDataset(self)

    def indexes(self) -> IndexList:
        """Return the table's indexes in order of creation, with their freshness.

        Raises:
            TableError: if the table does not exist.
            StoreError: if the manifest cannot be read.
        """
        return IndexList(self._indexes(*self._with_lost_indexes(self._indexable_snapshot())))

    def indexes_being_built(self) -> list[Index]:
        """Return indexes that are being built for the first time, according to their builders.

        Raises:
            StoreError: if the store cannot be read.
        """
        snapshot = self._indexable_snapshot()
        recorded_ids = {entry.id for entry in self._with_lost_indexes(snapshot)[0].manifest.indexes}
        return [
            Index(self, entry, snapshot, building=notice)
            for notice in self._store.builds()
            for entry in notice.indexes
            if entry.id not in recorded_ids
        ]

    def _indexes(
        self, snapshot: Snapshot, lost: Collection[str] = (), entries: Sequence[IndexEntry] | None = None
    ) -> list[Index]:
        """Return indexes, all if None. ``lost`` are the ids of those that only the catalog defines."""
        building = {entry.id: notice for notice in self._store.builds() for entry in notice.indexes}
        return [
            Index(self, entry, snapshot, building=building.get(entry.id), is_lost=entry.id in lost)
            for entry in (snapshot.manifest.indexes if entries is None else entries)
        ]

    def _with_lost_indexes(self, snapshot: Snapshot) -> tuple[Snapshot, frozenset[str]]:
        """Return a snapshot with the indexes that only the catalog defines, and their ids.

        A write that replaced the table's directory has deleted their files.
        """
        lost = self._lost(snapshot.manifest)
        defined = replace(snapshot, manifest=with_indexes(snapshot.manifest, lost))
        return defined, frozenset(entry.id for entry in lost)

    def _lost(self, manifest: Manifest) -> tuple[IndexEntry, ...]:
        return () if self.definitions is None else lost_indexes(manifest, self.definitions.read())

    def _stored_manifest(self) -> Manifest:
        """Return the store's latest manifest; the table is not listed.

        Raises:
            StoreError: if it cannot be read.
        """
        return self._store.load() or Manifest.empty(self.uri)

    def _save_definitions(self, dropped: str | None = None) -> None:
        """Save the definitions of the store's indexes in the catalog, and remove that of a dropped index.

        Spark sets all properties of a table at once, so one of two concurrent writers may undo the other's change.
        Therefore each writer reads the definitions again after a write, and the last one repairs them.
        """
        if self.definitions is None:
            return
        definitions = self.definitions.read()
        removed = {dropped} if dropped else set()
        for _ in range(_MAX_WRITES):
            changed, superseded = changed_definitions(self._stored_manifest(), definitions)
            if not self.definitions.write(changed, [*removed.union(superseded)]):
                return
            definitions = self.definitions.read()
            removed &= {entry.id for entry in definitions}

    def recorded_indexes(self, *, building: bool = False) -> list[Index]:
        """Return the indexes; if the table is gone or cannot be read, their status says so.

        Args:
            building: include those of `indexes_being_built`.
        """
        try:
            return self.indexes() + (self.indexes_being_built() if building else [])
        except (TableError, OrcError) as error:
            recorded = Snapshot(
                self.name,
                self._store,
                Listing(self.uri, False, ()),
                self._stored_manifest(),
                TableSchema(()),
                (),
            )
            recorded, _ = self._with_lost_indexes(recorded)
            is_gone = isinstance(error, TableNotFoundError)
            return [
                Index(self, entry, recorded, str(error), is_gone=is_gone)
                for entry in recorded.manifest.indexes
            ]

    def has_index(self, name: str) -> bool:
        """Return True if the table's store or catalog has an index of this name; no data files are read.

        Raises:
            StoreError: if the manifest cannot be read.
        """
        manifest = self._stored_manifest()
        return with_indexes(manifest, self._lost(manifest)).find_index(name) is not None

    def index_names(self) -> list[str]:
        """Return the names of the indexes in the table's store; the table is not listed.

        Raises:
            StoreError: if the manifest cannot be read.
        """
        manifest = self._store.load()
        return [] if manifest is None else [entry.name for entry in manifest.indexes]

    def is_transactional(self) -> bool:
        """Return True if the table, or a part of it, is transactional. Files are listed, not opened."""
        return bool(list_data_files(self.uri, name=self.name, options=self._options).transactional)

    def index(self, name: str) -> Index:
        """Return one index.

        Raises:
            IndexNotFoundError: if there is no index of that name.
            StoreError: if the manifest cannot be read.
        """
        snapshot, lost = self._with_lost_indexes(self._indexable_snapshot())
        return self._indexes(snapshot, lost, [snapshot.manifest.index(name)])[0]

    @overload
    def create_index(
        self,
        name: str,
        column: IndexedColumn,
        using: str = ...,
        where: Where | None = ...,
        properties: Mapping[str, str] | None = ...,
        *,
        comment: str | None = ...,
        annotations: Mapping[str, str] | None = ...,
        deferred: bool = ...,
        include: Sequence[ColumnName] = ...,
        if_not_exists: bool = ...,
        dry_run: Literal[False] = ...,
    ) -> Index: ...

    @overload
    def create_index(
        self,
        name: str,
        column: IndexedColumn,
        using: str = ...,
        where: Where | None = ...,
        properties: Mapping[str, str] | None = ...,
        *,
        comment: str | None = ...,
        annotations: Mapping[str, str] | None = ...,
        deferred: bool = ...,
        include: Sequence[ColumnName] = ...,
        if_not_exists: bool = ...,
        dry_run: bool,
    ) -> Index | BuildEstimate: ...

    @check_keywords
    def create_index(
        self,
        name: str,
        column: IndexedColumn,
        using: str = "bitmap",
        where: Where | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        comment: str | None = None,
        annotations: Mapping[str, str] | None = None,
        deferred: bool = False,
        include: Sequence[ColumnName] = (),
        if_not_exists: bool = False,
        dry_run: bool = False,
    ) -> Index | BuildEstimate:
        """Build an index with Spark and commit it. See `create_indexes` and `IndexSpec`.

        Args:
            dry_run: build nothing; estimate the data to read and the size of the index, and of what it includes.
        """
        from hindex.maintain.builds import estimate_build

        spec = IndexSpec(name, column, using, where, properties, comment, annotations, deferred, include)
        if dry_run:
            snapshot = self._non_empty_snapshot()
            existing = snapshot.manifest.find_index(name)
            entry = new_entry(spec, snapshot, self._session.zones)
            if if_not_exists and existing is not None:
                self._warn_of_difference(existing, spec, entry)
                return Index(self, existing, snapshot)
            entries = [
                new_entry(item, snapshot, self._session.zones) for item in self._with_included(spec, snapshot)
            ]
            for new in entries:
                check_new_index(snapshot.manifest, new)
            first, *others = (
                estimate_build(self.name, snapshot, new, self._builds.plan(snapshot, [new]))
                for new in entries
            )
            return replace(
                first,
                read_bytes=first.read_bytes + sum(item.read_bytes for item in others),
                index_bytes=first.index_bytes + sum(item.index_bytes for item in others),
            )
        return self.create_indexes([spec], if_not_exists=if_not_exists)[0]

    def create_indexes(self, specs: Sequence[IndexSpec], *, if_not_exists: bool = False) -> list[Index]:
        """Build several indexes in one pass over the data and commit them together.

        One of included columns follows the index that they are included in.

        Args:
            if_not_exists: skip indexes whose name is taken, with a `hindex.errors.HindexWarning` if the existing one is
                defined differently.

        Raises:
            IndexExistsError: if an index of the name, or of the same column and type, exists.
            ColumnError: if a column cannot be resolved, or its type cannot be indexed.
            BuildError: if the Spark job fails; the table's indexes are then as they were.
            StoreError: if the manifest cannot be read or written.
        """
        value: object = specs
        if not isinstance(value, Sequence) or not all(isinstance(spec, IndexSpec) for spec in value):
            raise ArgumentTypeError(f"specs is {specs!r}: pass a list of hindex.IndexSpec")
        snapshot = self._non_empty_snapshot()
        specs = [item for spec in specs for item in self._with_included(spec, snapshot)]
        requested = [new_entry(spec, snapshot, self._session.zones) for spec in specs]
        entries, manifest = [], snapshot.manifest
        for entry in requested:
            if if_not_exists and manifest.find_index(entry.name) is not None:
                continue
            check_new_index(manifest, entry)
            manifest = merge_build_result(manifest, new_indexes=[entry])
            entries.append(entry)
        after = snapshot
        if entries:
            committed = self._builds.create(snapshot, entries, if_not_exists=if_not_exists)
            self._save_definitions()
            # other writers may have dropped an index, or the table, since
            after = self.snapshot(manifest=committed)
        created = [after.manifest.index(spec.name) for spec in specs]
        for existing, spec, entry in zip(created, specs, requested, strict=True):
            self._warn_of_difference(existing, spec, entry)
        return [Index(self, entry, after) for entry in created]

    def _with_included(self, spec: IndexSpec, snapshot: Snapshot) -> list[IndexSpec]:
        """Return an index with that of its included columns, unless the table has one of them, which is a warning."""
        included = spec.included_index
        if included is None:
            return [spec]
        new = new_entry(included, snapshot, self._session.zones)
        columns = set(parse_type(new.inputs).field_names)
        for entry in snapshot.manifest.indexes:
            if (
                entry.stores_columns
                and entry.where in (None, new.where)
                and columns <= set(parse_type(entry.inputs).field_names)
            ):
                warn(f"Index {entry.name!r} of {self.name!r} includes {new.column} already and is used")
                return [spec]
        return [spec, included]

    def _warn_of_difference(self, existing: IndexEntry, spec: IndexSpec, entry: IndexEntry) -> None:
        """Warn if IF NOT EXISTS keeps an index that is defined differently."""
        if difference := definition_difference(existing, spec, entry):
            warn(
                f"Index {existing.name!r} of {self.name!r} exists already and is kept, with {difference}: drop it "
                "first, or choose another name"
            )

    def refresh_indexes(
        self,
        names: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        dry_run: bool = False,
    ) -> RefreshResult:
        """Bring indexes (all if None) up to date in one pass over the files that changed or were added.

        Entries of deleted files are dropped. If nothing changed, nothing is written and Spark does not start.

        Args:
            names: indexes; by default all that fit the table's columns and partitions. ``unusable`` of the result has
                the others.
            where: only files of these partitions, a predicate on partition columns.
            dry_run: change nothing; return the planned changes.

        Raises:
            IndexNotFoundError: if there is no index of a name, or it does not cover these partitions.
            ColumnError: if a named index does not fit the columns of the table any more, or no index does.
            BuildError: if the Spark job fails; the indexes are then as they were.
        """
        from hindex.build.job import plan_build
        from hindex.maintain.builds import usable_entries

        names = None if names is None else check_names(names, "names")
        snapshot, lost = self._with_lost_indexes(self._indexable_snapshot(trusts_times=False))
        manifest = snapshot.manifest
        if not manifest.indexes:
            raise IndexNotFoundError(
                f"Table {self.name!r} has no indexes, so there is nothing to refresh: create them, again if a write "
                "that replaces the table's directory (INSERT OVERWRITE, TRUNCATE, mode('overwrite')) deleted them; "
                "such writes keep those of a store elsewhere (store= of connect(), --store or HINDEX_STORE)"
            )
        unusable: list[str] = []
        if names is None:
            entries, unusable = usable_entries(snapshot)
        else:
            entries = list({item.id: item for item in map(manifest.index, names)}.values())
        part = self._partition_snapshot(snapshot, entries if names is not None else [], where, "refresh")
        plan = plan_build(part, entries, fresh=find_fresh_files(part))
        # the plan has every file of quarantined indexes
        rebuilt = {entry.id for entry in entries if entry.quarantined is not None and where is None}
        index_names = ", ".join(entry.name for entry in entries)
        result = self._builds.bring_up_to_date(
            snapshot,
            plan,
            entries,
            rebuilt_ids=rebuilt,
            restored=[entry for entry in entries if entry.id in lost],
            statement=f"REFRESH INDEX {index_names} ON {self.name}",
            is_whole=where is None,
            named_only=names is not None,
            dry_run=dry_run,
        )
        if not dry_run:
            self._save_definitions()
        return replace(result, unusable=tuple(unusable))

    def adopt_indexes(self, *, dry_run: bool = False) -> AdoptResult:
        """Keep the indexes of a table that was copied or moved with its ``_hindex``, without a build.

        Data files at the same relative path, whose length and ORC tail are the recorded ones, count as copies if the
        indexes agree with a sample of their stripes. `refresh_indexes` indexes the other files.

        Args:
            dry_run: compare, and change nothing.

        Raises:
            IndexNotFoundError: if the table has no indexes.
            IndexFileError: if an index file is missing, or an index differs from the data; nothing is changed then.
        """
        from hindex.maintain.adoption import adopt_files

        result = adopt_files(self.name, self._store, self._indexable_snapshot, dry_run=dry_run)
        if not dry_run:
            self._save_definitions()
        return result

    def rebuild_index(self, name: str, *, where: Where | None = None) -> RefreshResult:
        """Build an index again from every file, or from those of some partitions; the old one serves meanwhile.

        Parameters and errors are those of `refresh_indexes`.
        """
        from hindex.build.job import plan_build

        snapshot, lost = self._with_lost_indexes(self._indexable_snapshot(trusts_times=False))
        entry = snapshot.manifest.index(name)
        part = self._partition_snapshot(snapshot, [entry], where, "rebuild")
        rebuilt = {entry.id} if where is None else ()
        plan = plan_build(part, [entry], copies_again=True)
        statement = f"ALTER INDEX {entry.name} ON {self.name} REBUILD"
        result = self._builds.bring_up_to_date(
            snapshot,
            plan,
            [entry],
            rebuilt_ids=rebuilt,
            restored=[entry] if entry.id in lost else [],
            statement=statement,
            is_whole=where is None,
        )
        self._save_definitions()
        return result

    def drop_index(self, name: str, *, if_exists: bool = False, where: Where | None = None) -> DropResult:
        """Remove an index, or its part for some partitions.

        Args:
            where: partitions by their values, such as ``p = 1`` or ``p IN (1, 2)``.

        Raises:
            IndexNotFoundError: if there is no index of that name, unless ``if_exists``; if it was not created with
                ``where``, or does not cover these partitions.
            TableError: if the table does not exist.
        """
        from hindex.maintain.builds import drop_from_manifest
        from hindex.maintain.results import DropResult

        predicate = parse_condition(where)
        snapshot = None if predicate is None else self._indexable_snapshot()
        result = DropResult(name, self.name, None, 0, False)
        dropped_id: str | None = None

        def change(manifest: Manifest) -> Manifest:
            nonlocal result, dropped_id
            dropped_id = None
            entry = manifest.find_index(name)
            lost = entry is None and with_indexes(manifest, self._lost(manifest)).find_index(name)
            if lost:
                if predicate is not None:
                    raise IndexNotFoundError(
                        f"Index {name!r} was deleted with the table's files, so no part of it can be dropped: REFRESH "
                        "INDEX builds it again, DROP INDEX without partitions removes it"
                    )
                result, dropped_id = DropResult(lost.name, self.name, None, 0, True), lost.id
                return manifest
            if entry is None:
                result = DropResult(name, self.name, None, 0, False)
                if if_exists:
                    return manifest
                self._check_exists()  # a missing table is the mistake to report
                return drop_index(manifest, name)
            new, result = drop_from_manifest(manifest, entry, predicate, snapshot, self.name)
            dropped_id = entry.id if new.find_index(name) is None else None
            return new

        self._store.commit(change)
        self._save_definitions(dropped_id)
        return result

    def quarantine_indexes(self, names: Sequence[str], why: str) -> None:
        """Quarantine indexes until a refresh or rebuild builds them again.

        Args:
            why: the reason, shown in their status.
        """

        def change(manifest: Manifest) -> Manifest:
            for name in names:
                entry = manifest.find_index(name)
                if entry is not None:
                    manifest = update_index(
                        manifest, replace(entry, quarantined=why[:_MAX_REASON_CHARACTERS])
                    )
            return manifest

        self._store.commit(change)

    def rename_index(self, name: str, new_name: str) -> RenameResult:
        """Give an index another name.

        Raises:
            IndexNotFoundError: if there is no index of that name.
            IndexExistsError: if the new name is taken.
        """
        from hindex.maintain.results import RenameResult

        if not new_name:
            raise ColumnError("an index needs a name")
        check_string(new_name, "the name of an index", "by_id")
        lost: IndexEntry | None = None

        def change(manifest: Manifest) -> Manifest:
            nonlocal lost
            everything = with_indexes(manifest, self._lost(manifest))
            renamed = rename_index(everything, name, new_name).index(new_name)
            lost = renamed if all(entry.id != renamed.id for entry in manifest.indexes) else None
            return manifest if lost is not None else update_index(manifest, renamed)

        self._store.commit(change)
        if lost is not None and self.definitions is not None:
            self.definitions.write([lost])
        else:
            self._save_definitions()
        return RenameResult(name, new_name, self.name)

    def check_indexes(
        self, names: Sequence[str] | None = None, *, verify: bool = False
    ) -> RecordList[CheckResult]:
        """Check indexes (all if None): freshness, and presence of their files.

        Args:
            verify: also compare a sample of stripes with the index.

        Raises:
            IndexNotFoundError: if there is no index of a name.
            StoreError: if the manifest cannot be read.
        """
        from hindex.api.statement_table import RecordList
        from hindex.maintain.checks import check_index
        from hindex.maintain.results import CheckResult

        indexes = self.recorded_indexes()
        if names is not None:
            names = check_names(names, "names")
            by_name = {index.name.lower(): index for index in indexes}
            unknown = [name for name in names if name.lower() not in by_name]
            if unknown:
                raise no_such_index(unknown[0], [index.name for index in indexes])
            indexes = [by_name[name.lower()] for name in names]
        results = (check_index(index, self._store, self.snapshot if verify else None) for index in indexes)
        return RecordList(f"CHECK INDEXES ON {self.name}", CheckResult, results)

    def advise(self, queries: str | os.PathLike[str] | Sequence[str], *, alias: str | None = None) -> Advice:
        """Advise on the indexes that some queries want, and name those that none of them uses.

        A sample of the table is read: rows of one stripe of a few files. Nothing is built.

        Args:
            queries: SQL queries or conditions; or the path of a file of them, one on a line or with ``;`` between them,
                of hindex's own log, or of an event log of Spark (uncompressed JSON).
            alias: what the queries call the table, beside its own name and the last part of its path.

        Raises:
            ArgumentError: if the file cannot be read.
            ArgumentTypeError: for anything but a path or a list of strings.
            TableError: if the table has no rows.
        """
        from hindex.maintain.advice import advise
        from hindex.maintain.builds import estimate_build
        from hindex.maintain.workload import WorkloadTable, read_statements, read_workload

        if alias is not None:
            check_string(alias, "alias", "events")
        snapshot = self._non_empty_snapshot()
        named = WorkloadTable.of(self.name, self.uri, snapshot.schema, alias)
        if isinstance(queries, str | os.PathLike):
            try:
                text = Path(queries).read_text("utf-8-sig")
            except (OSError, ValueError) as error:
                raise ArgumentError(
                    f"cannot read {str(queries)!r}: {error}; name a file of queries, or pass a list of queries"
                ) from error
            workload = read_workload(text, named)
        else:
            items = collection_items(queries)
            if items is None:
                raise ArgumentTypeError(
                    f"queries is {short_repr(queries)}: pass a list of queries, or the path of a file of them"
                )
            workload = read_statements([check_string(item, "a query", "id = 5") for item in items], named)

        def estimate_bytes(column: str | Sequence[str], kind: str) -> int:
            entry = new_entry(IndexSpec("advised", column, kind), snapshot, self._session.zones)
            return estimate_build(
                self.name, snapshot, entry, self._builds.plan(snapshot, [entry])
            ).index_bytes

        return advise(self.name, snapshot, workload, estimate_bytes, self._session.zones())

    def vacuum(self, *, retain_hours: float = RETAIN_HOURS, dry_run: bool = False) -> VacuumResult:
        """Delete unreferenced files of the store: of failed builds, dropped indexes and superseded manifests.

        If the table is gone, the whole store is deleted.

        Args:
            retain_hours: the age from which unreferenced files are deleted. A running build's files are unreferenced
                too: a value below the duration of the longest build is safe only while none runs.
            dry_run: delete nothing; return the files that would be deleted.

        Raises:
            TableNotFoundError: if the table is gone and has no store.
            StoreError: if the store cannot be read, or a file cannot be deleted.
        """
        from hindex.maintain.vacuum import vacuum_store

        table_gone: TableNotFoundError | None = None
        try:
            self._check_exists()
        except TableNotFoundError as error:
            table_gone = error
        return vacuum_store(self.name, self._store, retain_hours, dry_run=dry_run, table_gone=table_gone)

    def _check_exists(self) -> None:
        """List the table, including partitions outside its directory.

        Raises:
            TableNotFoundError: if it does not exist.
        """
        declared = self.declared_schema()
        list_data_files(
            self.uri,
            name=self.name,
            partitions=self.catalog_partitions(),
            declared=None if declared is None else declared.partitions,
        )

    def _indexable_snapshot(self, *, trusts_times: bool = True) -> Snapshot:
        """Return the current state of a table with a readable manifest."""
        snapshot = self.snapshot(trusts_times=trusts_times)
        snapshot.check_store()
        return snapshot

    def _non_empty_snapshot(self) -> Snapshot:
        snapshot = self._indexable_snapshot()
        if not snapshot.files and snapshot.declared is None:
            raise TableError(f"The table is empty. No index will be created. No data files in {self.uri!r}")
        return snapshot

    def _partition_snapshot(
        self,
        snapshot: Snapshot,
        entries: Sequence[IndexEntry],
        where: Where | None,
        statement: str,
    ) -> Snapshot:
        """Return the table's files in the partitions of a predicate; the indexes must cover all of them."""
        from hindex.maintain.coverage import check_contains, covered_partitions, partition_filter

        predicate = parse_condition(where)
        if predicate is None:
            return snapshot
        partitions = partition_filter(predicate, snapshot.schema, statement)
        for entry in entries:
            check_contains(entry, predicate, snapshot)
        return covered_partitions(snapshot, partitions)
