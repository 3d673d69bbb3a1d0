"""VACUUM INDEXES: the removal of unneeded files from a table's store."""

from __future__ import annotations

import math
import time
from numbers import Real
from typing import cast

from hindex.errors import ArgumentError, TableNotFoundError
from hindex.maintain.results import VacuumedFile, VacuumResult
from hindex.store.store import RETAIN_HOURS, GarbageFile, GarbageKind, Store

#: Minimum age of superseded manifests that are deleted: during a commit, the number of a manifest must not become free
#: again.
MANIFEST_HOURS = 1.0

_HOUR_NS = 3600 * 10**9


def vacuum_store(
    table: str,
    store: Store,
    retain_hours: float = RETAIN_HOURS,
    *,
    dry_run: bool = False,
    table_gone: TableNotFoundError | None = None,
) -> VacuumResult:
    """Delete unneeded files of a store that are older than the retention.

    The latest manifest, manifests superseded within the retention, and all index files that one of them names are kept.

    Args:
        table_gone: the error of a table that does not exist: all files are deleted then, whatever their age.

    Raises:
        ArgumentError: if the retention is no number of hours.
        TableNotFoundError: ``table_gone`` itself, if there is no store either.
        StoreError: if the store cannot be read, or a file cannot be deleted.
    """
    is_number = isinstance(cast("object", retain_hours), Real) and type(retain_hours) is not bool
    if not is_number or not math.isfinite(retain_hours):
        raise ArgumentError(
            f"retain_hours is {retain_hours!r}: pass a number of hours, such as {RETAIN_HOURS:g}"
        )
    if retain_hours < 0:
        raise ArgumentError(f"retain_hours is {retain_hours}: it cannot be negative")
    now = time.time_ns()
    if table_gone is not None:
        removed = list(store.all_files())
        young = 0
        if not removed:
            raise table_gone
    else:
        since = now - round(retain_hours * _HOUR_NS)
        removed = [item for item in store.garbage(since) if _is_old(item, since, now)]
        paths = {item.path for item in removed}
        young = sum(item.path not in paths for item in store.garbage())
    if not dry_run:
        store.remove(removed)
    return VacuumResult(
        table=table,
        files=tuple(VacuumedFile(item.path, item.length, item.kind.value) for item in removed),
        bytes=sum(item.length for item in removed),
        kept_young=young,
        retain_hours=retain_hours,
        dry_run=dry_run,
        removed_store=table_gone is not None,
    )


def _is_old(item: GarbageFile, since: int, now: int) -> bool:
    if item.kind is GarbageKind.MANIFEST:
        since = min(since, now - round(MANIFEST_HOURS * _HOUR_NS))
    # with a retention of zero, files of this moment are deleted too
    return item.mtime_ns <= since
