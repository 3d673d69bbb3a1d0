"""A table and its indexes, as users handle them."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from hindex.build.job import BuildPlan, discard_build, plan_build, run_build
from hindex.errors import (
    ColumnError,
    CommitConflictError,
    HindexError,
    IndexExistsError,
    OrcError,
    TableError,
)
from hindex.index.base import index_type, resolve_properties
from hindex.plan.evaluate import prune
from hindex.plan.filter import ALWAYS, Filter, Never, columns
from hindex.plan.normalize import normalize
from hindex.progress import Progress
from hindex.scan.planning import columns_held, index_filter
from hindex.scan.scan import Scan
from hindex.sql.predicate import Predicate
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    Manifest,
    check_new_index,
    drop_index,
    merge_build_result,
    new_index_id,
)
from hindex.store.store import Store
from hindex.table.listing import Listing, list_data_files
from hindex.table.schema import TableSchema
from hindex.table.snapshot import Snapshot, fresh_paths, take_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Session(Protocol):
    """What a table needs of its connection."""

    @property
    def progress(self) -> Progress: ...

    def spark(self) -> SparkSession:
        """The Spark session, started if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """An index to create; ``where`` is a predicate on partition columns, as text or parsed."""

    name: str
    column: str
    using: str = "bitmap"
    where: str | Predicate | None = None
    properties: Mapping[str, str] | None = None


class Index:
    """One index of a table, as it was when it was looked up."""

    def __init__(self, table: Table, entry: IndexEntry, snapshot: Snapshot, problem: str = "") -> None:
        self._table = table
        self._entry = entry
        where: Filter = ALWAYS
        column = entry.column
        try:
            column = snapshot.schema.resolve(entry.column).name
            where = index_filter(entry, snapshot.schema)
        except HindexError as error:
            problem = problem or str(error)
        self._problem = problem
        partition_columns = snapshot.listing.partitioning.columns
        binding = tuple(item.name for item in snapshot.schema.data_columns)
        files = [
            view
            for view in snapshot.files
            if column in columns_held(binding, view.names)
            and not isinstance(
                prune(where, {c.name: v.key for c, v in zip(partition_columns, view.partition, strict=True)}),
                Never,
            )
        ]
        #: Data files that the index should cover, and those it does cover as they are now.
        self.num_files = len(files)
        self.num_fresh_files = sum(
            1 for view in files if view.is_listed_fresh and view.entry and view.entry.index_file(entry.id)
        )
        vanished = set(snapshot.vanished)
        self._vanished = sum(
            1 for item in snapshot.manifest.files if item.path in vanished and item.index_file(entry.id)
        )
        self.size_bytes = sum(
            file.length
            for item in snapshot.manifest.files
            for file in item.index_files
            if file.index_id == entry.id
        )

    def __repr__(self) -> str:
        return f"Index({self.name!r}, {self.type} on {self.column!r}, {self.status})"

    @property
    def name(self) -> str:
        return self._entry.name

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
    def where(self) -> str | None:
        """The partitions that it covers, as a predicate; all if None."""
        return self._entry.where

    @property
    def properties(self) -> dict[str, str]:
        return dict(self._entry.properties)

    @property
    def created_ms(self) -> int:
        """When it was created, in milliseconds since 1970."""
        return self._entry.created_ms

    @property
    def status(self) -> str:
        """``fresh``, ``stale`` with how many of the files that should be covered are, or ``unusable`` and why."""
        if self._problem:
            return f"unusable: {self._problem}"
        if self.num_fresh_files == self.num_files and not self._vanished:
            return "fresh"
        text = f"stale: {self.num_fresh_files} of {self.num_files} files indexed"
        return f"{text}, {self._vanished} gone" if self._vanished else text

    def refresh(self) -> None:
        """Index the files that changed or were added, and forget those that are gone.

        :raises BuildError: if the Spark job fails; the index is then as it was.
        """
        self._table.refresh_indexes([self.name])

    def drop(self) -> None:
        """Remove the index.

        :raises IndexNotFoundError: if it is gone already.
        """
        self._table.drop_index(self.name)


class Table:
    """A table of ORC files, by path, URI or Spark catalog name.

    ``check`` is told every snapshot, and raises where it must not be used.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        uri: str,
        store: Store,
        check: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self._session = session
        self.name = name
        self.uri = uri
        self._store = store
        self._check = check

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def snapshot(self) -> Snapshot:
        """The table as it is now: files, schema, and what its indexes cover."""
        found = take_snapshot(self.uri, self._store, name=self.name)
        if self._check is not None:
            self._check(found)
        return found

    @property
    def schema(self) -> TableSchema:
        return self.snapshot().schema

    def scan(
        self,
        where: str | Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Scan:
        """A scan of ``columns`` (all if None) of the rows that ``where`` keeps, at most ``limit``.

        :param where: SQL text, or a predicate from :func:`hindex.sql.parse_predicate`.
        :raises StatementError: if the text is not a predicate.
        """
        if isinstance(columns, str):
            raise ColumnError(f"columns is a list of names, such as [{columns!r}], not one text")
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}: it cannot be negative")
        return Scan(self.snapshot, _predicate(where), columns, limit)

    def indexes(self) -> list[Index]:
        """The table's indexes in order of creation, with how fresh they are.

        :raises TableError: if the table does not exist.
        :raises StoreError: if the manifest cannot be read.
        """
        snapshot = self.snapshot()
        snapshot.check_store()
        return [Index(self, entry, snapshot) for entry in snapshot.manifest.indexes]

    def recorded_indexes(self) -> list[Index]:
        """As :meth:`indexes`; where the table is gone or cannot be read, their status says so."""
        try:
            return self.indexes()
        except (TableError, OrcError) as error:
            manifest = self._store.load() or Manifest.empty(self.uri)
            nothing = Snapshot(
                self.name, self._store, Listing(self.uri, False, ()), manifest, TableSchema(()), ()
            )
            return [Index(self, entry, nothing, str(error)) for entry in manifest.indexes]

    def index(self, name: str) -> Index:
        """One index.

        :raises IndexNotFoundError: if there is none of that name.
        :raises StoreError: if the manifest cannot be read.
        """
        snapshot = self.snapshot()
        snapshot.check_store()
        return Index(self, snapshot.manifest.index(name), snapshot)

    def create_index(
        self,
        name: str,
        column: str,
        using: str = "bitmap",
        where: str | Predicate | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        if_not_exists: bool = False,
    ) -> Index:
        """Build an index with Spark and commit it. See :meth:`create_indexes`."""
        spec = IndexSpec(name, column, using, where, properties)
        return self.create_indexes([spec], if_not_exists=if_not_exists)[0]

    def create_indexes(self, specs: Sequence[IndexSpec], *, if_not_exists: bool = False) -> list[Index]:
        """Build several indexes in one pass over the data and commit them together.

        :param if_not_exists: leave out those whose name is taken.
        :raises IndexExistsError: if an index of the name, or of the same column and type, exists.
        :raises ColumnError: if a column cannot be resolved, or its type cannot be indexed.
        :raises BuildError: if the Spark job fails; the table's indexes are then as they were.
        :raises StoreError: if the manifest cannot be read or written.
        """
        snapshot = self.snapshot()
        snapshot.check_store()
        if not snapshot.files:
            raise TableError(f"The table is empty. No index will be created. No data files in {self.uri!r}")
        entries, planned = [], snapshot.manifest
        for spec in specs:
            if if_not_exists and planned.find_index(spec.name) is not None:
                continue
            entry = _entry(spec, snapshot)
            check_new_index(planned, entry)
            planned = merge_build_result(planned, new_indexes=[entry])
            entries.append(entry)
        if entries:
            plan = plan_build(snapshot, entries)
            if not plan.tasks:
                raise TableError(
                    f"No index will be created: no data file of table {self.name!r} is in the partitions "
                    f"{entries[0].where!r}"
                )
            files = self._build(plan)
            try:
                self._commit(entries, files, if_not_exists)
            except (IndexExistsError, CommitConflictError):
                discard_build(plan)
                raise
        after = self.snapshot()
        return [Index(self, after.manifest.index(spec.name), after) for spec in specs]

    def _build(self, plan: BuildPlan) -> list[FileEntry]:
        try:
            # a store that cannot be written is told before Spark is started
            for index_id in {target.index_id for task in plan.tasks for target in task.targets}:
                self._store.prepare_index_directory(index_id)
            return run_build(self._session.spark(), plan, self._session.progress)
        except BaseException:
            discard_build(plan)
            raise

    def _commit(self, entries: Sequence[IndexEntry], files: Sequence[FileEntry], if_not_exists: bool) -> None:
        def change(old: Manifest) -> Manifest:
            # another writer may have been faster with the same name; with IF NOT EXISTS that is as good
            new = [e for e in entries if not (if_not_exists and old.find_index(e.name))]
            return merge_build_result(old, new_indexes=new, files=files)

        self._store.commit(change)

    def refresh_indexes(self, names: Sequence[str] | None = None) -> None:
        """Bring indexes (all if None) up to date in one pass over the files that changed or were added.

        Entries of files that are gone are forgotten. Where nothing changed, nothing is written and Spark is
        not started.

        :raises IndexNotFoundError: if there is no index of a name.
        :raises BuildError: if the Spark job fails; the indexes are then as they were.
        """
        snapshot = self.snapshot()
        snapshot.check_store()
        manifest = snapshot.manifest
        entries = list(manifest.indexes) if names is None else [manifest.index(name) for name in names]
        plan = plan_build(snapshot, entries, fresh=fresh_paths(snapshot))
        files = self._build(plan) if plan.tasks else []
        vanished = snapshot.vanished

        def change(old: Manifest) -> Manifest:
            # an index that was dropped meanwhile stays dropped: its files are left out
            return merge_build_result(old, files=files, vanished=vanished)

        self._store.commit(change)

    def drop_index(self, name: str, *, if_exists: bool = False) -> None:
        """Remove an index.

        :raises IndexNotFoundError: if there is none of that name, unless ``if_exists``.
        :raises TableError: if there is none because there is no such table.
        """

        def change(manifest: Manifest) -> Manifest:
            if manifest.find_index(name) is None:
                if if_exists:
                    return manifest
                list_data_files(self.uri)  # a table that is not there is the mistake to tell
            return drop_index(manifest, name)

        self._store.commit(change)


def _predicate(where: str | Predicate | None) -> Predicate | None:
    if isinstance(where, str):
        from hindex.sql import parse_predicate

        return parse_predicate(where)
    return where


def _entry(spec: IndexSpec, snapshot: Snapshot) -> IndexEntry:
    """The manifest entry of a new index, everything about it checked."""
    kind = index_type(spec.using)
    if not spec.name:
        raise ColumnError("an index needs a name")
    resolved = snapshot.schema.resolve(spec.column)
    if resolved.is_partition:
        raise ColumnError(
            f"Column {resolved.name!r} is a partition column: its values are in the directory names, so it needs no "
            "index"
        )
    if resolved.is_nested or not kind.supports(resolved.type):
        named = "a field within a struct" if resolved.is_nested else f"of type {resolved.type}"
        raise ColumnError(
            f"Column {resolved.name!r} is {named}, which {kind.name} cannot index: choose a column of a primitive type"
        )
    where = _predicate(spec.where)
    if where is not None:
        outside = [
            name
            for name in columns(normalize(where, snapshot.schema))
            if not snapshot.schema.is_partition(name)
        ]
        if outside:
            raise ColumnError(
                "index creation is only supported for predicates on partition columns: "
                f"{outside[0]!r} is not one of {', '.join(c.name for c in snapshot.schema.partition_columns) or 'none'}"
            )
    return IndexEntry(
        id=new_index_id(),
        name=spec.name,
        column=resolved.name,
        type=kind.name,
        column_type=str(resolved.type),
        properties=tuple(resolve_properties(kind, spec.properties).items()),
        where=None if where is None else str(where),
        created_ms=time.time_ns() // 1_000_000,
        creator=_user(),
    )


def _user() -> str:
    """The user's name, or number where containers give users no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
