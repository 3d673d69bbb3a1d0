"""Building indexes and bringing them up to date: planned, run by Spark, and committed as one manifest."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from hindex.build.job import BuildPlan, discard_build, plan_build, run_build
from hindex.errors import CommitConflictError, IndexExistsError, TableError
from hindex.formatting import counted, megabytes
from hindex.maintain.manifest_changes import now_ms, refreshed
from hindex.maintain.results import RefreshResult
from hindex.plan.modes import Mode
from hindex.plan.time_zones import TimeZones
from hindex.progress import Progress
from hindex.spark.jobs import described
from hindex.store.definitions import with_indexes
from hindex.store.manifest import FileEntry, IndexEntry, Manifest, merge_build_result, remove_index_files
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store

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
        """The Spark session, started if there is none."""
        ...

    def session(self) -> SparkSession | None:
        """The Spark session; None where there is none, and none was asked for."""
        ...

    def zones(self) -> TimeZones | None:
        """Give the time zones by which timestamps are instants; None where they are wall clocks."""
        ...


@dataclass(frozen=True, slots=True)
class Builds:
    """Builds of one table's indexes. ``table`` is its name, for messages."""

    table: str
    store: Store
    session: Session

    def planned(self, snapshot: Snapshot, entries: Sequence[IndexEntry]) -> BuildPlan:
        """Plan the build of new indexes.

        :raises TableError: if no data file is in the partitions that they cover.
        """
        plan = plan_build(snapshot, entries)
        # a declared column may be in no file yet: the index covers what comes
        if entries and plan.is_empty and (snapshot.declared is None or entries[0].where is not None):
            raise TableError(
                f"No index will be created: no data file of table {self.table!r} is in the partitions "
                f"{entries[0].where!r}"
            )
        return plan

    def create(self, snapshot: Snapshot, entries: Sequence[IndexEntry], *, if_not_exists: bool) -> None:
        """Build new indexes, but those that are deferred, and commit them all.

        :param if_not_exists: leave out those whose name another writer has taken meanwhile.
        :raises IndexExistsError: if a name, or a column and type, was taken meanwhile.
        :raises StoreError: if the store cannot be where it is.
        :raises BuildError: if the Spark job fails; the table's indexes are then as they were.
        """
        if snapshot.manifest.number == 0 and (
            snapshot.listing.partitioning.columns or snapshot.listing.transactional
        ):
            # of other tables, directories within are nobody's
            self.store.check_hidden()
        built = [entry for entry in entries if not entry.deferred]
        plan = self.planned(snapshot, built)
        names = ", ".join(entry.name for entry in entries)
        statement = f"CREATE INDEX {names} ON {self.table}"
        files = [] if plan.is_empty else self._run(plan, statement)
        now = now_ms()
        finished = [entry if entry.deferred else replace(entry, refreshed_ms=now) for entry in entries]

        def change(old: Manifest) -> Manifest:
            # another writer may have been faster with the same name; with IF NOT EXISTS that is as good
            new = [entry for entry in finished if not (if_not_exists and old.find_index(entry.name))]
            return merge_build_result(old, new_indexes=new, files=files)

        try:
            self.store.commit(change)
        except (IndexExistsError, CommitConflictError):
            discard_build(plan)
            raise
        _log_build(statement, files)

    def bring_up_to_date(
        self,
        snapshot: Snapshot,
        plan: BuildPlan,
        entries: Sequence[IndexEntry],
        *,
        anew: Collection[str],
        restored: Sequence[IndexEntry] = (),
        statement: str,
        is_whole: bool,
        dry_run: bool = False,
    ) -> RefreshResult:
        """Build what is planned and commit it, with what vanished forgotten.

        :param statement: the statement that asks for it, as descriptions of jobs and the log show it.
        :param anew: the ids of the indexes that the plan builds anew in all partitions. One that is set aside while
            others are brought up to date stays so: what it has of the files that did not change is as it was.
        :param restored: the indexes among them that the store does not have any more.
        :param is_whole: whether the plan is of all partitions.
        :param dry_run: only tell what would be done.
        :raises BuildError: if the Spark job fails; the indexes are then as they were.
        """
        ids = {entry.id for entry in entries}
        read = plan.data_files
        # what is recorded of the columns of a file that another one replaced would be believed of that
        replaced = {view.file.path for view in snapshot.files if view.is_replaced}
        vanished = set(snapshot.vanished) | (replaced - read)
        forgotten = {
            item.path: item
            for item in snapshot.manifest.files
            if item.path in vanished and any(item.is_covered_by(index_id) for index_id in ids)
        }
        rows = sum(view.num_rows for view in snapshot.files if view.file.path in read)
        names = tuple(entry.name for entry in entries)
        if dry_run:
            return RefreshResult(names, self.table, len(read), len(forgotten), rows, False, True)
        files = [] if plan.is_empty else self._run(plan, statement)
        number = snapshot.manifest.number
        now = now_ms()

        # as ones that were never built
        missing = [replace(entry, deferred=True) for entry in restored]

        def change(old: Manifest) -> Manifest:
            old = with_indexes(old, missing)
            # an index that was dropped meanwhile stays dropped, a file that came back and was indexed stays so
            gone = [
                e.path
                for e in old.files
                if e.path in forgotten and e.fingerprint == forgotten[e.path].fingerprint
            ]
            new = merge_build_result(old, files=files, vanished=gone)
            for entry in old.indexes:
                if entry.quarantined is not None and entry.id in anew:
                    # what is hidden here, by write ids or in partitions of a catalog that was not asked, was not built
                    # anew and is as wrong as it was
                    hidden = {item.path for item in new.files if item.is_covered_by(entry.id)} - read
                    new = remove_index_files(new, entry.id, hidden)
            return refreshed(old, new, ids, now, anew, plan.column_types, is_whole=is_whole)

        try:
            committed = self.store.commit(change)
        except CommitConflictError:
            discard_build(plan)
            raise
        _log_build(statement, files, len(forgotten))
        return RefreshResult(
            names,
            self.table,
            len(read),
            len(forgotten),
            rows,
            committed.number > number and bool(read or forgotten or restored),
        )

    def _run(self, plan: BuildPlan, statement: str) -> list[FileEntry]:
        try:
            # a store that cannot be written is told before Spark is started
            for index_id in plan.index_ids:
                self.store.prepare_index_directory(index_id)
            with self.store.announced(plan.indexes):
                spark = self.session.spark()
                with described(spark, f"{statement} ({counted(len(plan.data_files), 'file')})"):
                    return run_build(spark, plan, self.session.progress)
        except BaseException:
            discard_build(plan)
            raise


def _log_build(statement: str, files: Sequence[FileEntry], forgotten: int = 0) -> None:
    """Log what a build wrote, in one line.

    :param files: the entries that were committed; several may be of one data file.
    :param forgotten: data files that are not in the table any more.
    """
    if not _LOG.isEnabledFor(logging.INFO):
        return
    by_path = {entry.path: entry for entry in files}
    own = sum(file.length for entry in files for file in entry.index_files)
    shared = {item.id: item for entry in files for item in entry.shared}
    size = own + sum(file.length for item in shared.values() for file in item.files)
    _LOG.info(
        "%s: %s, %s, %s read, %s of index files written%s",
        statement,
        counted(len(by_path), "file"),
        counted(sum(len(entry.stripe_rows) for entry in by_path.values()), "stripe"),
        counted(sum(entry.num_rows for entry in by_path.values()), "row"),
        megabytes(size),
        f", {counted(forgotten, 'deleted file')} dropped" if forgotten else "",
    )
