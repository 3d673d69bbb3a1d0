"""Builds and refreshes of indexes: planned, run by Spark, and committed as one manifest; their estimates, and drops."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from hindex.build.job import BuildPlan, discard_build, plan_build, resolve_index_column, run_build
from hindex.errors import CommitConflictError, HindexError, IndexExistsError, TableError
from hindex.formatting import counted, megabytes
from hindex.index.btree import IndexedFile, sample_bytes
from hindex.index.index_type import Level, file_index_type, index_type
from hindex.keys import same_keys
from hindex.maintain.coverage import covered_partitions, remove_partitions
from hindex.maintain.results import BuildEstimate, DropResult, RefreshResult
from hindex.orc import RowSelection
from hindex.orc.metadata.types import OrcType
from hindex.plan.index_columns import FileIndexColumn, IndexColumn, index_column
from hindex.plan.modes import Mode
from hindex.plan.normalize import index_filter
from hindex.plan.time_zones import TimeZones
from hindex.progress import Progress
from hindex.spark.jobs import job_description
from hindex.sql.predicate import Predicate
from hindex.store.definitions import with_indexes
from hindex.store.entries import FileEntries
from hindex.store.file_views import FileView
from hindex.store.manifest import (
    FileEntry,
    IndexEntry,
    Manifest,
    drop_index,
    merge_build_result,
    remove_index_files,
    update_index,
)
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store
from hindex.table.location import reading_pool
from hindex.table.transactional import open_data_file
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("hindex.build")


class Session(Protocol):
    """The part of a connection that a table needs."""

    @property
    def progress(self) -> Progress: ...

    @property
    def mode(self) -> Mode: ...

    def spark(self) -> SparkSession:
        """Return the Spark session; start one if there is none."""
        ...

    def session(self) -> SparkSession | None:
        """Return the Spark session; None if there is none."""
        ...

    def zones(self) -> TimeZones | None:
        """Return the time zones of timestamps as instants; None if timestamps are wall clocks."""
        ...


@value_class
class Builds:
    """Builds of one table's indexes. ``table`` is the table's name, for messages."""

    table: str
    store: Store
    session: Session

    def plan(self, snapshot: Snapshot, entries: Sequence[IndexEntry]) -> BuildPlan:
        """Plan the build of new indexes.

        Raises:
            TableError: if no data file is in the partitions that they cover.
        """
        plan = plan_build(snapshot, entries)
        # a declared column may be in no file yet: the index covers later files
        if entries and plan.is_empty and (snapshot.declared is None or entries[0].where is not None):
            raise TableError(
                f"No index will be created: no data file of table {self.table!r} is in the partitions "
                f"{entries[0].where!r}"
            )
        return plan

    def create(self, snapshot: Snapshot, entries: Sequence[IndexEntry], *, if_not_exists: bool) -> Manifest:
        """Build new indexes, except deferred ones, and commit all of them.

        Args:
            if_not_exists: skip indexes whose name another writer has committed meanwhile.

        Returns:
            the manifest as committed: a later one may lack the indexes again.

        Raises:
            IndexExistsError: if another writer has committed the name, or the column and type, meanwhile.
            StoreError: if the store cannot be inside the table's directory.
            BuildError: if the Spark job fails; the table's indexes are then unchanged.
        """
        if snapshot.manifest.number == 0 and (
            snapshot.listing.partitioning.columns or snapshot.listing.transactional
        ):
            # only such tables read subdirectories, in which Spark must not find the store
            self.store.check_hidden()
        built = [entry for entry in entries if not entry.deferred]
        plan = self.plan(snapshot, built)
        names = ", ".join(entry.name for entry in entries)
        statement = f"CREATE INDEX {names} ON {self.table}"
        files = [] if plan.is_empty else self._run(plan, statement)
        now = now_ms()
        finished = [entry if entry.deferred else replace(entry, refreshed_ms=now) for entry in entries]

        def change(old: Manifest) -> Manifest:
            # with IF NOT EXISTS, an index of the same name by another writer is fine
            new = [entry for entry in finished if not (if_not_exists and old.find_index(entry.name))]
            return merge_build_result(old, new_indexes=new, files=files, since=snapshot.manifest)

        try:
            committed = self.store.commit(change)
        except (IndexExistsError, CommitConflictError):
            discard_build(plan)
            raise
        _log_build(statement, files)
        return committed

    def bring_up_to_date(
        self,
        snapshot: Snapshot,
        plan: BuildPlan,
        entries: Sequence[IndexEntry],
        *,
        rebuilt_ids: Collection[str],
        restored: Sequence[IndexEntry] = (),
        statement: str,
        is_whole: bool,
        named_only: bool = True,
        dry_run: bool = False,
    ) -> RefreshResult:
        """Run a planned build and commit it, without the entries of deleted data files.

        Args:
            statement: the statement, for the descriptions of jobs and the log.
            rebuilt_ids: of the indexes that the plan rebuilds in all partitions. Only these leave quarantine: a refresh
                keeps a quarantined index's files for unchanged data files.
            restored: indexes that the store has lost.
            is_whole: True if the plan covers all partitions.
            named_only: drop only entries of these indexes; by default those of unusable indexes stay.
            dry_run: return the result without building.

        Raises:
            BuildError: if the Spark job fails; the indexes are then unchanged.
        """
        ids = {entry.id for entry in entries}
        indexes_of_deleted = ids if named_only else {entry.id for entry in snapshot.manifest.indexes}
        read = plan.data_files
        # the entry of a replaced file would be taken for that of the new file
        views = snapshot.views
        replaced = {views.files.paths[at] for at in np.flatnonzero(views.is_replaced).tolist()}
        vanished = set(snapshot.vanished) | (replaced - read)
        deleted = {
            path: entry
            for path, entry in snapshot.manifest.entries.find(vanished).items()
            if any(entry.is_covered_by(index_id) for index_id in indexes_of_deleted)
        }
        rows = int(views.num_rows[views.positions(read)].sum())
        names = tuple(entry.name for entry in entries)
        if dry_run:
            return RefreshResult(names, self.table, len(read), len(deleted), rows, False, True)
        files = [] if plan.is_empty else self._run(plan, statement)
        number = snapshot.manifest.number
        now = now_ms()

        # lost indexes are committed as if never built
        missing = [replace(entry, deferred=True) for entry in restored]

        def change(old: Manifest) -> Manifest:
            old = with_indexes(old, missing)
            # keep the entry of a data file that another writer has indexed again meanwhile
            to_drop = [
                path
                for path, entry in old.entries.find(deleted).items()
                if entry.fingerprint == deleted[path].fingerprint
            ]
            new = merge_build_result(old, files=files, vanished=to_drop, since=snapshot.manifest)
            for entry in old.indexes:
                if entry.quarantined is not None and entry.id in rebuilt_ids:
                    # data files that this snapshot hides, by write ids or in partitions of a catalog that was not read,
                    # were not rebuilt: their index files may still be wrong
                    hidden = {item.path for item in new.files if item.is_covered_by(entry.id)} - read
                    new = remove_index_files(new, entry.id, hidden)
            return refresh_entries(old, new, ids, now, rebuilt_ids, plan.column_types, is_whole=is_whole)

        try:
            committed = self.store.commit(change)
        except CommitConflictError:
            discard_build(plan)
            raise
        _log_build(statement, files, len(deleted))
        return RefreshResult(
            names,
            self.table,
            len(read),
            len(deleted),
            rows,
            committed.number > number and bool(read or deleted or restored),
        )

    def _run(self, plan: BuildPlan, statement: str) -> list[FileEntry]:
        try:
            # fail before Spark starts if the store is not writable
            for index_id in plan.index_ids:
                self.store.prepare_index_directory(index_id)
            with self.store.register_build(plan.indexes):
                spark = self.session.spark()
                with job_description(spark, f"{statement} ({counted(len(plan.data_files), 'file')})"):
                    return run_build(spark, plan, self.session.progress)
        except BaseException:
            discard_build(plan)
            raise


def _log_build(statement: str, files: Sequence[FileEntry], deleted: int = 0) -> None:
    """Log the result of a build in one line.

    Args:
        files: the committed entries; a data file may have several.
        deleted: number of deleted data files.
    """
    if not _LOG.isEnabledFor(logging.INFO):
        return
    by_path = {entry.path: entry for entry in files}
    size = sum(file.length for entry in files for file in entry.index_files)
    shared = {item.id: item for entry in files for item in entry.shared}
    size += sum(file.length for item in shared.values() for file in item.files)
    _LOG.info(
        "%s: %s, %s, %s read, %s of index files written%s",
        statement,
        counted(len(by_path), "file"),
        counted(sum(len(entry.stripe_rows) for entry in by_path.values()), "stripe"),
        counted(sum(entry.num_rows for entry in by_path.values()), "row"),
        megabytes(size),
        f", {counted(deleted, 'deleted file')} dropped" if deleted else "",
    )


#: Separator of the types of an index whose files have keys of several types.
_TYPE_SEPARATOR = "; "


def usable_entries(snapshot: Snapshot) -> tuple[list[IndexEntry], list[str]]:
    """Return the indexes of a table that fit its columns and partitions, and why the others do not.

    Raises:
        ColumnError: if none does.
    """
    if not snapshot.files:
        # the columns may be unknown
        return list(snapshot.manifest.indexes), []
    usable: list[IndexEntry] = []
    errors: list[HindexError] = []
    for entry in snapshot.manifest.indexes:
        try:
            resolve_index_column(entry, snapshot.schema)
            index_filter(entry, snapshot.schema)
        except HindexError as error:
            errors.append(error)
        else:
            usable.append(entry)
    if errors and not usable:
        raise errors[0]
    return usable, [str(error) for error in errors]


def refresh_entries(
    old: Manifest,
    new: Manifest,
    ids: Collection[str],
    now: int,
    rebuilt_ids: Collection[str],
    column_types: Mapping[str, str],
    *,
    is_whole: bool,
) -> Manifest:
    """Return a new manifest with updated entries of the indexes whose files changed.

    Args:
        rebuilt_ids: ids of the indexes that were rebuilt in all partitions, which ends a quarantine.
        column_types: types of the keys in the files of this build, by index id.
        is_whole: True if the build covers all partitions.
    """
    for entry in old.indexes:
        is_released = entry.quarantined is not None and entry.id in rebuilt_ids
        if entry.id in ids and (
            entry.deferred or is_released or _has_other_files(old.entries, new.entries, entry.id)
        ):
            entry = replace(
                entry,
                refreshed_ms=now,
                deferred=False,
                quarantined=None if entry.id in rebuilt_ids else entry.quarantined,
                column_type=_column_type(entry, column_types.get(entry.id), is_whole=is_whole),
            )
            new = update_index(new, entry)
    return new


def _column_type(entry: IndexEntry, built: str | None, *, is_whole: bool) -> str:
    """Return the type of an index's keys; several types, joined, if only some partitions have been rebuilt."""
    recorded = entry.column_type
    if built is None:
        return recorded
    if is_whole or entry.deferred:
        return built
    has_type = any(_same_keys(one, built) for one in recorded.split(_TYPE_SEPARATOR))
    return recorded if has_type else recorded + _TYPE_SEPARATOR + built


def _same_keys(one: str, other: str) -> bool:
    try:
        return one == other or same_keys(parse_type(one), parse_type(other))
    except ValueError:  # a type of a later version
        return False


def _has_other_files(old: FileEntries, new: FileEntries, index_id: str) -> bool:
    """Return True if an index has other files than before for some data file."""

    def index_files(entries: FileEntries) -> list[tuple[str, object]]:
        return [
            (item.path, item.index_file(index_id) or item.shared_index(index_id))
            for item in entries
            if item.is_covered_by(index_id)
        ]

    return index_files(old.difference(new)) != index_files(new.difference(old))


def drop_from_manifest(
    manifest: Manifest, entry: IndexEntry, where: Predicate | None, snapshot: Snapshot | None, table: str
) -> tuple[Manifest, DropResult]:
    """Return the manifest without an index, or without its files for some partitions, and the result of the drop.

    Args:
        snapshot: the table, if ``where`` names partitions.
        table: the table's name.

    Raises:
        IndexNotFoundError: if the index does not cover these partitions.
    """
    remaining = None if where is None or snapshot is None else remove_partitions(entry, where, snapshot)
    if remaining is None:
        new = drop_index(manifest, entry.name)
    else:
        new = _restrict_index(manifest, entry, remaining, snapshot)
    num_files = manifest.entries.num_covered(entry.id) - new.entries.num_covered(entry.id)
    return new, DropResult(entry.name, table, None if remaining is None else str(where), num_files, True)


def _restrict_index(manifest: Manifest, entry: IndexEntry, where: str, snapshot: Snapshot | None) -> Manifest:
    """Return the manifest with an index that covers fewer partitions."""
    smaller = replace(entry, where=where)
    paths: set[str] = set()
    if snapshot is not None:
        kept = covered_partitions(snapshot, index_filter(smaller, snapshot.schema))
        paths = set(snapshot.views.files.paths) - set(kept.views.files.paths)
        paths.update(snapshot.vanished)
    return remove_index_files(update_index(manifest, smaller), entry.id, paths)


def now_ms() -> int:
    """Return the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


#: Number of data files from which an estimate reads a stripe.
SAMPLED_FILES = 4
#: Stored bytes of such a stripe whose rows an estimate of a ROWS index puts into blocks: these are alike, and
#: compressing all of them takes long.
_SAMPLED_BYTES = 2 << 20


@value_class
class _Sample:
    """A stripe of a data file: the file as if it had no other, the column's values, and the bytes of its streams."""

    file: IndexedFile
    column: FileIndexColumn
    values: pa.Array
    read_bytes: int


def estimate_build(table: str, snapshot: Snapshot, entry: IndexEntry, plan: BuildPlan) -> BuildEstimate:
    """Estimate the bytes that a build reads and writes from a sample of stripes, without Spark.

    Raises:
        OrcError: if a sampled file cannot be read.
    """
    all_views = snapshot.views
    views = all_views.views(all_views.positions(plan.data_files))
    rows = sum(view.num_rows for view in views)
    sampled = [view for view in views if view.num_rows]
    if len(sampled) > SAMPLED_FILES:
        sampled = [sampled[at * len(sampled) // SAMPLED_FILES] for at in range(SAMPLED_FILES)]
    binding = tuple(item.name for item in snapshot.schema.data_columns)
    on = index_column(entry, snapshot.schema)
    with reading_pool(view.file.uri for view in sampled) as pool:
        samples = pool.map(lambda turn: _sample(sampled[turn], turn, on, binding), range(len(sampled)))
    sampled_rows = sum(len(sample.values) for sample in samples)
    scale = rows / sampled_rows if sampled_rows else 0.0
    return BuildEstimate(
        index=entry.name,
        table=table,
        column=entry.column,
        type=entry.type,
        files=len(views),
        stripes=sum(view.num_stripes for view in views),
        rows=rows,
        read_bytes=round(scale * sum(sample.read_bytes for sample in samples)),
        index_bytes=round(scale * _index_bytes(entry, on.type, samples)),
        sampled_stripes=len(samples),
    )


def _sample(view: FileView, turn: int, on: IndexColumn, binding: tuple[str, ...]) -> _Sample:
    acid = view.file.acid
    with open_data_file(view.file.uri, acid) as reader:
        schema, transactional = reader.tail.schema, acid is not None
        column = on.in_file(binding, schema, transactional=transactional)
        assert column is not None
        # stripes of different positions; never the last one, which is often small
        number = turn % max(len(reader.stripes) - 1, 1)
        rows, stripe = reader.stripes[number].num_rows, reader.stripe(number)
        stored = sum(stripe.data_length(node.column) for path in column.paths for node in path.type.walk())
        count = min(rows, max(_SAMPLED_BYTES * rows // max(stored, 1), 1)) if on.stores_columns else rows
        values = column.read(
            reader, number, None if count == rows else RowSelection.of(np.arange(count), rows)
        )
        file = IndexedFile(view.file.path, 0, 0, reader.tail.row_index_stride, (count,))
        return _Sample(file, column, values, stored * count // max(rows, 1))


def _index_bytes(entry: IndexEntry, data_type: OrcType, samples: Sequence[_Sample]) -> int:
    """Return the size of an index on some stripes, which is built in memory."""
    properties = dict(entry.properties)
    if Level.STRIPE not in index_type(entry.type).levels:
        arrays = [sample.column.table_values(sample.values) for sample in samples]
        return sample_bytes(data_type, [sample.file for sample in samples], arrays, properties)
    size = 0
    for sample in samples:
        builder = file_index_type(entry.type).builder(
            io.BytesIO(), sample.column.type, properties=properties, row_group_rows=sample.file.row_group_rows
        )
        builder.add_stripe(sample.values)
        size += builder.finish().length
    return size
