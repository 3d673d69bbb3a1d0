"""The partitions that an index covers: those for which the predicate of its WHERE is TRUE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from hindex.build.index_coverage import covered_files
from hindex.domain import Key
from hindex.errors import ColumnError, IndexNotFoundError
from hindex.plan.filter import NEVER, Always, Filter, Never, columns, leaves
from hindex.plan.filter_evaluation import prune
from hindex.plan.normalize import index_filter, normalize
from hindex.sql.predicate import (
    And,
    Comparison,
    ComparisonOp,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    all_of,
    any_of,
    conjuncts,
    tested_column,
)
from hindex.store.manifest import IndexEntry
from hindex.store.snapshot import Snapshot
from hindex.table.schema import TableSchema


def partition_filter(where: Predicate, schema: TableSchema, statement: str) -> Filter:
    """Return the filter of a predicate on partition columns.

    Args:
        statement: the name of the statement in messages, such as ``index creation``.

    Raises:
        ColumnError: for any other column.
    """
    normalized = normalize(where, schema)
    others = [name for name in columns(normalized) if not schema.is_partition(name)]
    if others:
        names = ", ".join(column.name for column in schema.partition_columns)
        why = (
            f"{others[0]!r} is not a partition column (partition columns: {names})"
            if names
            else "the table has none, so leave WHERE out"
        )
        raise ColumnError(f"{statement} is only supported for predicates on partition columns: {why}")
    return normalized


def covered_partitions(snapshot: Snapshot, partitions: Filter) -> Snapshot:
    """Return the snapshot with the files of some partitions only."""
    positions = np.flatnonzero(covered_files(snapshot, partitions))
    return replace(snapshot, files=snapshot.views.take(positions))


def check_contains(entry: IndexEntry, where: Predicate, snapshot: Snapshot) -> None:
    """Check that an index covers some partitions.

    Raises:
        IndexNotFoundError: naming the partitions that it does not cover.
    """
    named = named_partitions(where)
    covered = index_filter(entry, snapshot.schema)
    if named is None:
        selected = covered_partitions(snapshot, normalize(where, snapshot.schema))
        missing = [] if covered_partitions(selected, covered).files else [where]
    else:
        missing = [one for one in named if not _covers(covered, _partition_values(one, snapshot.schema))]
    if missing:
        raise IndexNotFoundError(
            f"Index {entry.name!r} does not contain partitions: {', '.join(map(str, missing))}; it covers {entry.where}"
        )


def remove_partitions(entry: IndexEntry, dropped: Predicate, snapshot: Snapshot) -> str | None:
    """Return the predicate of the remaining partitions after a partial drop; None if none remains.

    Raises:
        IndexNotFoundError: if the index was not created with WHERE, or does not cover a partition.
        ColumnError: if the predicate does not name partitions by their values.
    """
    from hindex.sql import parse_predicate

    dropped_filter = partition_filter(dropped, snapshot.schema, "partial drop")
    if entry.where is None:
        raise IndexNotFoundError(
            f"Index {entry.name!r} was not created with explicit partitions. Partial drop by partition is not "
            "supported. Drop it whole, or create it again with WHERE"
        )
    named = named_partitions(dropped)
    if named is None:
        raise ColumnError(
            f"partial drop takes partitions by their values, such as p = 1 or p IN (1, 2), not {dropped}"
        )
    check_contains(entry, dropped, snapshot)
    where = parse_predicate(entry.where)
    listed = named_partitions(where)
    if listed is not None:
        remaining: list[Predicate] = []
        for one in listed:
            values = _partition_values(one, snapshot.schema)
            is_dropped = NEVER if values is None else prune(dropped_filter, values)
            if not isinstance(is_dropped, Always | Never):
                break
            if isinstance(is_dropped, Never):
                remaining.append(one)
        else:
            return str(_any_partition(remaining)) if remaining else None
    # a partition of NULL must stay: with <=> the negation is never NULL
    exactly = any_of(all_of(map(_null_safe, conjuncts(one))) for one in named)
    return str(all_of([where, Not(exactly)]))


def named_partitions(where: Predicate) -> list[Predicate] | None:
    """Return the partitions that a predicate names by their values, each ``p = 1 AND q = 2``; None if it does not."""
    match where:
        case Comparison(ComparisonOp.EQ | ComparisonOp.NULL_SAFE_EQ) | IsNull() if tested_column(where):
            return [where]
        case In(column, literals) if tested_column(where):
            return [Comparison(ComparisonOp.EQ, column, literal) for literal in dict.fromkeys(literals)]
        case Or(children):
            parts = [named_partitions(child) for child in children]
            return None if None in parts else [one for part in parts for one in part or ()]
        case And(children):
            parts = [named_partitions(child) for child in children]
            if None in parts:
                return None
            return [all_of(chosen) for chosen in product(*(part or () for part in parts))]
        case _:
            return None


def _null_safe(one: Predicate) -> Predicate:
    return replace(one, op=ComparisonOp.NULL_SAFE_EQ) if isinstance(one, Comparison) else one


def _partition_values(partition: Predicate, schema: TableSchema) -> dict[str, Key | None] | None:
    """Return the keys of a partition that is named by values; None if its columns cannot hold them."""
    normalized = normalize(partition, schema)
    if isinstance(normalized, Never):
        return None
    return {
        leaf.column: leaf.domain.ranges[0].low if leaf.domain.ranges else None for leaf in leaves(normalized)
    }


def _covers(covered: Filter, values: dict[str, Key | None] | None) -> bool:
    return values is not None and not isinstance(prune(covered, values), Never)


def _any_partition(partitions: Sequence[Predicate]) -> Predicate:
    """Return a predicate of several partitions: ``p IN (1, 2)`` if they are of one column, else ``p = 1 OR ...``."""
    simple = [one for one in partitions if isinstance(one, Comparison) and one.op is ComparisonOp.EQ]
    if len(simple) == len(partitions) > 1 and len({one.left for one in simple}) == 1:
        return In(simple[0].left, tuple(one.right for one in simple))
    return any_of(partitions)
