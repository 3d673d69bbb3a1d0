"""Change a manifest for refreshes and partial drops, given the table as it was listed."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace

from hindex.keys import same_keys
from hindex.maintain.coverage import covered_partitions, remove_partitions
from hindex.maintain.results import DropResult
from hindex.plan.normalize import index_filter
from hindex.sql.predicate import Predicate
from hindex.store.manifest import IndexEntry, Manifest, drop_index, remove_index_files, update_index
from hindex.store.snapshot import Snapshot
from hindex.table.type_text import parse_type

# between the types whose keys an index has
_AND = "; "


def refreshed(
    old: Manifest,
    new: Manifest,
    ids: Collection[str],
    now: int,
    anew: Collection[str],
    column_types: Mapping[str, str],
    *,
    is_whole: bool,
) -> Manifest:
    """A new manifest with the time in those of the indexes that changed.

    :param anew: the ids of those that were built anew in all partitions, which ends a quarantine.
    :param column_types: of the columns of indexes that have the keys of these in all files that were built now, by id.
    :param is_whole: whether all partitions were brought up to date.
    """
    for entry in old.indexes:
        if entry.id in ids and (entry.deferred or files_of(old, entry.id) != files_of(new, entry.id)):
            entry = replace(
                entry,
                refreshed_ms=now,
                deferred=False,
                quarantined=None if entry.id in anew else entry.quarantined,
                column_type=_column_type(entry, column_types.get(entry.id), is_whole=is_whole),
            )
            new = update_index(new, entry)
    return new


def _column_type(entry: IndexEntry, built: str | None, *, is_whole: bool) -> str:
    """The type whose keys an index has; several, which are nobody's, where files of some partitions have others."""
    known = entry.column_type
    if built is None:
        return known
    if is_whole or entry.deferred:
        return built
    return known if any(_same_keys(one, built) for one in known.split(_AND)) else known + _AND + built


def _same_keys(text: str, other: str) -> bool:
    try:
        return text == other or same_keys(parse_type(text), parse_type(other))
    except ValueError:  # a type of a later version
        return False


def files_of(manifest: Manifest, index_id: str) -> list[tuple[str, object]]:
    """Return the index files of each data file."""
    return [
        (item.path, item.index_file(index_id) or item.shared_index(index_id))
        for item in manifest.files
        if item.is_covered_by(index_id)
    ]


def dropped(
    manifest: Manifest, entry: IndexEntry, where: Predicate | None, snapshot: Snapshot | None, table: str
) -> tuple[Manifest, DropResult]:
    """The manifest without an index, or without its part for some partitions, and what that did.

    :param snapshot: the table, where ``where`` names partitions.
    :param table: its name.
    :raises IndexNotFoundError: if the index does not cover these partitions.
    """
    left = None if where is None or snapshot is None else remove_partitions(entry, where, snapshot)
    new = drop_index(manifest, entry.name) if left is None else _narrowed(manifest, entry, left, snapshot)
    gone = len(files_of(manifest, entry.id)) - len(files_of(new, entry.id))
    return new, DropResult(entry.name, table, None if left is None else str(where), gone, True)


def _narrowed(manifest: Manifest, entry: IndexEntry, where: str, snapshot: Snapshot | None) -> Manifest:
    """The manifest with an index that covers less."""
    smaller = replace(entry, where=where)
    paths: set[str] = set()
    if snapshot is not None:
        kept = covered_partitions(snapshot, index_filter(smaller, snapshot.schema))
        paths = {view.file.path for view in snapshot.files} - {view.file.path for view in kept.files}
        paths.update(snapshot.vanished)
    return remove_index_files(update_index(manifest, smaller), entry.id, paths)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
