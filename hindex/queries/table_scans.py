"""Scans of the tables of a query, with the files that its plan reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hindex.errors import ColumnError, PredicateError, UnsupportedError
from hindex.plan.modes import Mode
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import ZonesOf, is_about_time
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.spark.scan import RowScan
from hindex.sql.predicate import And, Predicate, all_of
from hindex.store.snapshot import Snapshot
from hindex.table.schema import TableSchema

if TYPE_CHECKING:
    from hindex.queries.table_resolution import ResolvedTable


def plan_table_scan(
    table: ResolvedTable, snapshot: Snapshot, where: Predicate | None, names: Sequence[str], zones: ZonesOf
) -> tuple[RowScan, ScanPlan]:
    """Plan a scan of some columns of a table as a snapshot has it."""
    columns = [(name,) for name in names]
    # whatever the connection's mode: tables that Spark reads alone have none either
    scan = table.unchecked_scan(where, columns, mode=Mode.LENIENT)
    return scan, scan.runner.plan(
        lambda: snapshot, lambda state: plan_scan(state, where, columns, zones=zones)
    )


def fits_types(predicate: Predicate, schema: TableSchema, zones: ZonesOf) -> bool:
    """Return True if a condition fits the types of its columns, so that a scan can evaluate it."""
    try:
        about_time = is_about_time(predicate, lambda parts: schema.resolve(parts).type)
        normalize(predicate, schema, zones() if about_time else None)
    except (PredicateError, ColumnError, UnsupportedError):
        return False
    return True


def fitting_part(predicate: Predicate, schema: TableSchema, zones: ZonesOf) -> Predicate | None:
    """Return the part of a conjunction that a scan can evaluate, all of it if possible; None if there is none."""
    if fits_types(predicate, schema, zones):
        return predicate
    parts = predicate.children if isinstance(predicate, And) else ()
    fitting = [part for part in parts if fits_types(part, schema, zones)]
    return all_of(fitting) if fitting else None
