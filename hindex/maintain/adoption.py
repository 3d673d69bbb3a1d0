"""ADOPT INDEXES: index entries of a table that was copied or moved, for data files that are the same bytes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from hindex.errors import ColumnError, IndexFileError, IndexNotFoundError
from hindex.maintain.checks import damaged_files, verify_index
from hindex.maintain.results import AdoptResult
from hindex.plan.index_columns import index_column
from hindex.store.file_views import FileView
from hindex.store.manifest import FileEntry, IndexEntry, Manifest
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store

_LOG = logging.getLogger("hindex.build")


def adopt_files(table: str, store: Store, take: Callable[[], Snapshot], *, dry_run: bool) -> AdoptResult:
    """Record the present times of data files whose length and tail are the recorded ones, in one commit.

    Equal lengths and tails do not prove equal bytes: values of an uncompressed file may be exchanged. So each index is
    also compared with the data of a sample of these files.

    Args:
        table: the table's name, for messages.
        take: returns the current snapshot of the table.
        dry_run: compare, and commit nothing.

    Raises:
        IndexNotFoundError: if the table has no indexes.
        IndexFileError: if an index file is missing, or an index differs from the data.
    """
    read_ns = time.time_ns()
    snapshot = take()
    indexes = snapshot.manifest.indexes
    if not indexes:
        raise IndexNotFoundError(
            f"Table {table!r} has no indexes, so there is nothing to adopt: copy '_hindex' with the data files, or "
            "create indexes"
        )
    adopted: dict[str, tuple[FileEntry, FileView]] = {}
    fresh = differing = 0
    for view in snapshot.files:
        entry = view.entry
        if entry is None:
            continue
        # the copy of its metadata stays that of one version: of another one, no index proves the row indexes
        now = replace(entry, mtime_ns=view.file.mtime_ns, changed_ns=view.file.change_to_record(read_ns))
        has_times = now.changed_ns == entry.changed_ns or view.file.is_untouched_since(entry.changed_ns)
        if view.is_listed_fresh and has_times:
            fresh += 1
        elif (view.file.length, view.tail_checksum) == (entry.length, entry.tail_checksum):
            adopted[entry.path] = entry, replace(view, entry=now)
        else:
            differing += 1
    verified = _check(table, store, replace(snapshot, files=tuple(view for _, view in adopted.values())))
    num_adopted = len(adopted)

    def change(manifest: Manifest) -> Manifest:
        nonlocal num_adopted
        current = manifest.entries.find(adopted)
        changes = {
            path: view.entry
            for path, (seen, view) in adopted.items()
            # keep the entry of a file that another writer has indexed meanwhile
            if path in current and _state(current[path]) == _state(seen)
        }
        num_adopted = len(changes)
        return replace(manifest, files=manifest.entries.updated(changes))

    if adopted and not dry_run:
        store.commit(change)
    result = AdoptResult(
        indexes=tuple(entry.name for entry in indexes),
        table=table,
        files_adopted=num_adopted,
        files_fresh=fresh,
        files_differing=differing,
        files_gone=len(snapshot.vanished),
        verified_stripes=verified,
        dry_run=dry_run,
    )
    if adopted and not dry_run:
        _LOG.info("ADOPT INDEXES ON %s: %s", table, result)
    return result


def _state(entry: FileEntry) -> tuple[object, ...]:
    own = [item.path for item in entry.index_files]
    return entry.fingerprint, entry.changed_ns, own, [item.id for item in entry.shared]


def _check(table: str, store: Store, snapshot: Snapshot) -> int:
    """Compare the indexes with a sample of a snapshot's files, and return the number of stripes.

    Raises:
        IndexFileError: naming the first index and file that differ.
    """
    entries = [view.entry for view in snapshot.files if view.entry is not None]
    if not entries:
        return 0
    present = store.index_files()
    verified = 0
    for index in _usable_indexes(snapshot):
        for _, problem in damaged_files(store, entries, index, present):
            raise IndexFileError(
                f"the indexes of {table!r} cannot be adopted: {problem}, or copy '_hindex' again as a whole"
            )
        problems: list[str] = []
        verified += verify_index(
            snapshot,
            index,
            problems,
            remedy="REFRESH INDEXES indexes the file again, which is no copy of the indexed one",
        )
        if problems:
            raise IndexFileError(
                f"the indexes of {table!r} cannot be adopted: index {index.name!r}: {problems[0]}"
            )
    return verified


def _usable_indexes(snapshot: Snapshot) -> Iterator[IndexEntry]:
    for index in snapshot.manifest.indexes:
        if index.deferred or index.quarantined is not None:
            continue
        try:
            index_column(index, snapshot.schema)
        except ColumnError:
            continue
        yield index
