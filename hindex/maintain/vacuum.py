"""VACUUM INDEXES: what of a table's store may go, and its removal."""

from __future__ import annotations

import math
import time
from numbers import Real
from typing import cast

from hindex.errors import ArgumentError, TableNotFoundError
from hindex.maintain.results import VacuumedFile, VacuumResult
from hindex.store.store import RETAIN_HOURS, GarbageFile, GarbageKind, Store

#: Superseded manifests stay at least so long: while a commit is under way, a manifest's number must not become
#: free again.
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
    """Delete from a store what nothing has needed for some time.

    Kept are the latest manifest, those superseded within the retention, and every index file that one of them
    names; everything else that is older than the retention goes.

    :param table_gone: why there is no table, if there is none: then everything goes, whatever its age.
    :raises ArgumentError: if the retention is no number of hours.
    :raises TableNotFoundError: ``table_gone`` itself where there is no store either.
    :raises StoreError: if the store cannot be read, or something cannot be deleted.
    """
    is_number = isinstance(cast("object", retain_hours), Real) and type(retain_hours) is not bool
    if not is_number or not math.isfinite(retain_hours):
        raise ArgumentError(
            f"retain_hours is {retain_hours!r}: it is a number of hours, such as {RETAIN_HOURS:g}"
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
        going = {item.path for item in removed}
        young = sum(item.path not in going for item in store.garbage())
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
    # what was written in this very moment is as old as no retention asks for
    return item.mtime_ns <= since
