"""Lookup joins: the few keys of a small table select the rows of a large one through its index.

Where a query restricts an indexed column to the values of a column of a small table, the small table is read once.
The same rows give the keys and take part in the query, so both are of one state. ``docs/spark.md`` lists the patterns
with the reason why each keeps the query's rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hindex.errors import HindexError
from hindex.explain.explanation import RowCount
from hindex.lru_cache import LruCache
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.spark.catalog import described_columns
from hindex.spark.scan import collect_if_small
from hindex.sql.lookup_keys import ImpliedSubquery, KeyColumn, marked_columns, with_keys
from hindex.sql.predicate import ColumnRef, In, Literal, LiteralKind, Predicate, conjuncts
from hindex.value_class import value_class

if TYPE_CHECKING:
    from hindex.queries.query_plan import PlannedTable, TablePlanner
    from hindex.queries.table_resolution import QueryTableState
    from hindex.sql.queries import Query, Span

#: The greatest number of rows of a small table, and so of its keys.
MAX_ROWS = 50_000
#: The same without conditions: most such tables have all keys that a large table has.
MAX_LISTED = 1_000
#: The greatest share of a large table's values that is read of a small table: if too many rows match, no more time is
#: lost.
MAX_SOURCE_SHARE = 0.05
#: Values of a small table that are read whatever the large table has.
MIN_SOURCE_VALUES = 100_000
#: Queries whose joins turned out to leave too many rows.
_MAX_DECLINED = 256

_TEXT_KINDS = frozenset({Kind.STRING, Kind.VARCHAR})
#: The kinds of columns whose values may be keys.
_LITERAL_KINDS = {
    **dict.fromkeys(INTEGER_KINDS, LiteralKind.INTEGER),
    **dict.fromkeys(_TEXT_KINDS, LiteralKind.STRING),
    Kind.DECIMAL: LiteralKind.DECIMAL,
    Kind.DATE: LiteralKind.DATE,
}


@value_class
class LookupJoin:
    """A column of a table that a query restricts to keys: the values of another table's column.

    Args:
        column: the restricted column.
        source: the keys' column, with the name of its table.
        keys: the number of keys; None if they are not computed.
        reason: why the table is not read by them; None if it is.
    """

    column: str
    source: str
    keys: int | None = None
    reason: str | None = None

    def __str__(self) -> str:
        keys = "keys" if self.keys is None else f"{self.keys:,} key{'s' * (self.keys != 1)}"
        text = f"{self.column} by {keys} of {self.source}"
        return text if self.reason is None else f"{text}: not used, {self.reason}"


def plan_lookup_joins(
    planner: TablePlanner, query: Query, planned: Sequence[PlannedTable]
) -> list[PlannedTable]:
    """Replace the plans of tables that are read by keys, and of those that give the keys.

    Whatever fails leaves the tables as they are planned.
    """
    if len(planned) < 2:
        return list(planned)
    return _LookupJoins(planner, query, planned).plan()


class _LookupJoins:
    """The lookup joins of one query."""

    def __init__(self, planner: TablePlanner, query: Query, planned: Sequence[PlannedTable]) -> None:
        self._planner = planner
        self._query = query
        self._original = list(planned)
        self._planned = list(planned)
        # by position: conditions without keys, and those with markers
        self._own: list[list[Predicate]] = []
        self._marked: list[list[Predicate]] = []
        self._implied: list[ImpliedSubquery] = []
        # by the id() of a condition that follows from others: the columns between, whose keys restrict more
        self._between: dict[int, tuple[KeyColumn, ...]] = {}
        self._keys: dict[KeyColumn, tuple[OrcType, tuple[Literal, ...]]] = {}
        # by position: the tables whose keys restrict its rows
        self._dependencies: dict[int, set[int]] = {}
        self._reasons: dict[int, str] = {}
        self._targets: list[int] = []
        # tables that give all their keys: most others have no other keys
        self._listed: set[int] = set()
        # large tables with their conditions and columns: those that are named twice are read once
        self._by_keys: list[
            tuple[tuple[QueryTableState, list[Predicate], list[Predicate], list[str]], PlannedTable]
        ] = []

    def plan(self) -> list[PlannedTable]:
        """Return the plans of all tables."""
        if not any(self._may_be_target(at) for at in range(len(self._planned))):
            return self._planned
        columns = [_column_names(item.state) for item in self._planned]
        by_table, self._implied = self._query.lookup_conditions(columns)
        for conditions in by_table:
            self._own.append([item for item in conditions if not marked_columns(item)])
            self._marked.append([item for item in conditions if marked_columns(item)])
        self._add_transitive()
        targets = [at for at in range(len(self._planned)) if self._may_be_target(at) and self._is_target(at)]
        if not targets:
            return self._planned
        self._targets = targets
        digest = self._digest(targets)
        declined = DECLINED.get(digest)
        if declined is not None:
            for target in declined:
                self._decline(target, declined[target])
            return self._planned
        self._compute_keys(targets)
        for target in targets:
            # one that gives keys is read already
            if target not in self._dependencies:
                self._plan_target(target)
        self._confirm_sources()
        self._settle()
        if not any(self._planned[target].scan for target in targets):
            DECLINED.put(digest, {at: self._reasons[at] for at in targets if at in self._reasons})
        return self._planned

    def _add_transitive(self) -> None:
        """Add ``f.k IN (keys of d)`` to ``f.k IN (keys of b)`` if there is ``b.k IN (keys of d)``: b may be large."""
        for at, conditions in enumerate(self._marked):
            # those that are added are visited, too
            for condition in conditions:
                if not isinstance(condition, In):
                    continue
                ((key,),) = marked_columns(condition).values()
                for other in self._marked[key.table] if key.table != at else ():
                    ((column, _),) = marked_columns(other).items() if isinstance(other, In) else (("", ()),)
                    if not isinstance(other, In) or column.lower() != key.column.lower():
                        continue
                    added = replace(condition, items=other.items)
                    if added not in conditions:
                        conditions.append(added)
                        between = (key, *self._between.get(id(other), ()))
                        self._between[id(added)] = (*self._between.get(id(condition), ()), *between)

    # Large tables

    def _may_be_target(self, at: int) -> bool:
        item = self._planned[at]
        return (
            item.scan is None
            and self._query.tables[at].blocked is None
            and item.state.unusable_reason is None
        )

    def _is_target(self, at: int) -> bool:
        """Return True if a table has an index on a column that may be restricted to keys."""
        if not self._marked[at]:
            return False
        restricted = {name.lower() for item in self._marked[at] for name in marked_columns(item)}
        state = self._planned[at].state
        try:
            if state.is_transactional or state.snapshot.listing.transactional:
                return False
            indexed = {entry.column.lower() for entry in state.snapshot.manifest.indexes}
            return bool(restricted & indexed) and not self._planner.is_small(state)
        except HindexError:
            return False

    def _plan_target(self, at: int) -> None:
        memberships, used = self._bound(at)
        if not used:
            memberships, used = self._bound(at, with_listed=True)
        if not used:
            reason = "; ".join(
                dict.fromkeys(self._reasons[key] for key in self._sources(at) if key in self._reasons)
            )
            self._decline(at, reason or "its columns and the keys are not of one type")
            return
        item = self._planned[at]
        implied = self._implied_by(at, memberships, used)
        try:
            request = (
                item.state,
                self._own[at],
                memberships,
                self._planner.needed_columns(item.state, implied),
            )
            target = next((planned for other, planned in self._by_keys if other == request), None)
            if target is None:
                target = self._planner.plan_by_keys(self._query.tables[at], *request)
                self._by_keys.append((request, target))
        except HindexError as error:
            self._decline(at, str(error))
            return
        if target.scan is None:
            self._decline(at, target.decision.reason or "")
            return
        decision = replace(target.decision, predicate=self._shown(at), lookups=tuple(self._lookups(at, used)))
        self._planned[at] = replace(target, decision=decision, implied=implied)
        self._dependencies[at] = {key.table for key in used}

    def _implied_by(
        self, at: int, memberships: Sequence[Predicate], used: set[KeyColumn]
    ) -> tuple[Span, ...]:
        """Return the subqueries that are true of all rows of a table with some memberships, by the keys used there."""
        spans = []
        for item in self._implied:
            # without keys, the table has no rows
            if item.table != at or item.key not in used or not self._keys[item.key][1]:
                continue
            membership = In(ColumnRef((item.column,)), self._keys[item.key][1])
            where = self._planned[item.key.table].where
            applied = () if where is None else conjuncts(where)
            # the keys must be values of rows that satisfy the subquery's own conditions
            if membership in memberships and all(
                part in applied for own in item.filters for part in conjuncts(own)
            ):
                spans.append((item.start, item.end))
        return tuple(spans)

    def _decline(self, at: int, reason: str) -> None:
        self._reasons[at] = reason
        item = self._original[at]
        lookups = tuple(self._lookups(at, None, reason))
        self._planned[at] = replace(item, decision=replace(item.decision, lookups=lookups))

    def _lookups(
        self, at: int, used: set[KeyColumn] | None, reason: str | None = None
    ) -> Iterable[LookupJoin]:
        """The lookups of a table for EXPLAIN: by some keys, or by all (None) that could restrict it."""
        pairs = dict.fromkeys(
            (column, key)
            for item in self._marked[at]
            for column, keys in marked_columns(item).items()
            for key in keys
            if key.table != at and (used is None or key in used)
        )
        for column, key in pairs:
            values = self._keys.get(key)
            source = f"{self._query.tables[key.table].ref}.{key.column}"
            yield LookupJoin(column, source, None if values is None else len(values[1]), reason)

    def _shown(self, at: int) -> str | None:
        return (
            " AND ".join(f"({item})" if len(self._own[at]) > 1 else str(item) for item in self._own[at])
            or None
        )

    # Small tables

    def _sources(self, at: int) -> list[int]:
        """The tables whose keys may restrict a table."""
        return list(
            dict.fromkeys(
                key.table
                for item in self._marked[at]
                for keys in marked_columns(item).values()
                for key in keys
                if key.table != at
            )
        )

    def _reachable(self, at: int) -> list[int]:
        """Return the tables whose keys may restrict a table, directly or by way of others."""
        source_tables: list[int] = []
        stack = [at]
        while stack:
            for source in self._sources(stack.pop()):
                if source not in source_tables:
                    source_tables.append(source)
                    # one that its own indexes narrow needs no keys
                    if self._planned[source].scan is None:
                        stack.append(source)
        return source_tables

    def _compute_keys(self, targets: Sequence[int]) -> None:
        """Read the tables that give keys, those with few rows first, until none gives more."""
        reachable = {target: self._reachable(target) for target in targets}
        needed = dict.fromkeys(source for sources in reachable.values() for source in sources)
        values = max(self._planner.count_values(self._planned[at].state) for at in targets)
        sizes: dict[int, int] = {}
        for source in needed:
            reason = self._query.tables[source].blocked
            if self._is_read_elsewhere(source, {*needed, *targets}):
                reason = "Spark reads it in another place of the query"
            if reason is not None:
                self._reasons[source] = f"{self._query.tables[source].ref}: {reason}"
                continue
            try:
                sizes[source] = self._planner.count_values(self._planned[source].state)
            except HindexError as error:
                self._reasons[source] = str(error)
        pending = sorted(sizes, key=lambda at: sizes[at])
        attempted: dict[int, set[KeyColumn]] = {}
        most = max(int(values * MAX_SOURCE_SHARE), MIN_SOURCE_VALUES)
        is_progress = True
        while is_progress:
            is_progress = False
            for source in pending:
                memberships, used = self._bound(source)
                is_wanted = any(
                    source in sources
                    for target, sources in reachable.items()
                    if target != source and target not in self._dependencies
                )
                is_new = source not in self._dependencies and attempted.get(source) != used
                if not is_wanted or not is_new:
                    continue
                attempted[source] = used
                if self._read_source(source, memberships, used, most):
                    is_progress = True

    def _is_read_elsewhere(self, at: int, candidates: set[int]) -> bool:
        """Return True if Spark certainly reads a table in another place of the query."""
        return any(
            item.scan is None and other not in candidates and item.state.uri == self._planned[at].state.uri
            for other, item in enumerate(self._planned)
        )

    def _read_source(
        self, at: int, memberships: Sequence[Predicate], used: set[KeyColumn], max_values: int
    ) -> bool:
        """Read a small table and take its keys."""
        item = self._planned[at]
        try:
            source_plan = self._planner.plan_key_source(
                self._query.tables[at],
                item,
                [*self._own[at], *memberships],
                max_rows=MAX_ROWS,
                max_listed=MAX_LISTED,
                max_values=max_values,
            )
            if source_plan.scan is None or source_plan.plan is None:
                self._reasons[at] = f"{item.decision.table}: {source_plan.decision.reason}"
                return False
            read = collect_if_small(source_plan.scan, source_plan.plan, MAX_ROWS, source_plan.units)
            if read is None:
                self._reasons[at] = f"{item.decision.table}: more than {MAX_ROWS:,} rows match its conditions"
                return False
            schema = item.state.snapshot.schema
            names = [column.name.lower() for column in source_plan.plan.columns]
            for key in self._key_columns(at):
                name, data_type = key.column.lower(), schema.resolve((key.column,)).type
                literals = _literals(data_type, read.column(names.index(name))) if name in names else None
                if literals is not None:
                    self._keys[key] = data_type, literals
        except HindexError as error:
            self._reasons[at] = f"{item.decision.table}: {error}"
            return False
        decision = replace(
            source_plan.decision,
            predicate=self._shown(at),
            rows=RowCount(read.num_rows, item.state.snapshot.num_rows),
            lookups=tuple(self._lookups(at, used)),
            gives_keys=True,
        )
        self._reasons.pop(at, None)
        self._planned[at] = replace(source_plan, decision=decision, rows=read)
        self._dependencies[at] = {key.table for key in used}
        if not used and not self._own[at]:
            self._listed.add(at)
        return True

    def _key_columns(self, at: int) -> set[KeyColumn]:
        return {
            key
            for marked in self._marked
            for item in marked
            for keys in marked_columns(item).values()
            for key in keys
            if key.table == at
        }

    def _bound(self, at: int, *, with_listed: bool = False) -> tuple[list[Predicate], set[KeyColumn]]:
        """The conditions of a table with the keys so far, and the columns of these keys.

        Of a condition whose keys are missing, what holds without them is left.
        """
        state = self._planned[at].state
        predicates: list[Predicate] = []
        used: set[KeyColumn] = set()
        # the columns of one key restrict about the same rows: the one with the fewest values is enough
        fewest: dict[int, tuple[KeyColumn, In]] = {}
        for condition in self._marked[at]:
            between = self._between.get(id(condition), ())
            if any(key in self._keys for key in between):
                continue
            keys: dict[KeyColumn, Sequence[Literal]] = {}
            for column, sources in marked_columns(condition).items():
                for key in sources:
                    data_type, values = self._keys.get(key, (None, ()))
                    is_usable = key.table != at and (with_listed or key.table not in self._listed)
                    if data_type is None or not is_usable:
                        continue
                    compared = [(state, column), *((self._planned[b.table].state, b.column) for b in between)]
                    if all(_is_comparable(*each, data_type) for each in compared):
                        keys[key] = values
            bound = with_keys(condition, keys)
            if bound is None or bound == with_keys(condition, {}):
                predicates += [] if bound is None else [bound]
                continue
            if isinstance(condition, In) and isinstance(bound, In):
                (key,) = keys
                if key.table not in fewest or len(bound.items) < len(fewest[key.table][1].items):
                    fewest[key.table] = key, bound
            else:
                predicates.append(bound)
                used |= set(keys)
        used |= {key for key, _ in fewest.values()}
        return [*predicates, *(bound for _, bound in fewest.values())], used

    # All of them

    def _confirm_sources(self) -> None:
        """Compare the tables whose keys are used with the catalog, which takes statements."""
        for at in self._needed():
            if self._planned[at].decision.gives_keys:
                self._planned[at] = self._planner.confirm_source(self._planned[at])

    def _needed(self) -> set[int]:
        """Return the tables that are read by keys, and those that give these keys."""
        needed: set[int] = set()
        stack = [
            at for at in self._targets if at in self._dependencies and self._planned[at].scan is not None
        ]
        while stack:
            at = stack.pop()
            if at not in needed:
                needed.add(at)
                stack += self._dependencies.get(at, ())
        return needed

    def _settle(self) -> None:
        """Leave a table as it was planned if no large table uses its keys, or if the keys could be of another state.

        A table that Spark reads in one place of the query is read by Spark in all of them.
        """
        is_changed = True
        while is_changed:
            is_changed = False
            by_spark = {
                item.state.uri for item in self._planned if item.scan is None and item.state.uri is not None
            }
            needed = self._needed()
            for at in list(self._dependencies):
                item = self._planned[at]
                is_lost = item.state.uri in by_spark or any(
                    self._planned[source].scan is None or source not in self._dependencies
                    for source in self._dependencies[at]
                )
                if at not in needed or is_lost:
                    del self._dependencies[at]
                    is_changed = True
                    if at not in needed:
                        self._planned[at] = self._original[at]
                    else:
                        self._decline(at, "Spark reads it, or a table with its keys, in another place")

    def _digest(self, targets: Sequence[int]) -> int:
        """Return a hash of the query and the state of its large tables; an equal one by chance costs time alone."""
        states = []
        for at in targets:
            snapshot = self._planned[at].state.snapshot
            files = tuple((view.file.path, view.file.length, view.file.mtime_ns) for view in snapshot.files)
            states.append((at, self._planned[at].state.uri, snapshot.manifest.number, files))
        return hash((self._query.text, repr(self._query.args), MAX_ROWS, tuple(states)))


def _column_names(state: QueryTableState) -> Sequence[str] | None:
    """Return the names of a table's columns; None if they are unknown."""
    description = state.description
    try:
        if description is None:
            return None if state.problem is not None else state.snapshot.schema.names
        return described_columns(description) if description.get("columns") else None
    except HindexError:
        return None


def _is_comparable(state: QueryTableState, column: str, keys: OrcType) -> bool:
    """Return True if a column and keys are equal in Spark just where their literals are."""
    try:
        own = state.snapshot.schema.resolve((column,)).type
    except HindexError:
        return False
    if own.kind in INTEGER_KINDS:
        return keys.kind in INTEGER_KINDS
    if own.kind in _TEXT_KINDS:
        return keys.kind in _TEXT_KINDS
    if own.kind is Kind.DECIMAL:
        return keys.kind is Kind.DECIMAL and keys.scale == own.scale
    return own.kind is Kind.DATE and keys.kind is Kind.DATE


def _literals(data_type: OrcType, values: pa.ChunkedArray[pa.Array]) -> tuple[Literal, ...] | None:
    """The distinct values, without NULL, as literals in order; None for a type whose values are no keys."""
    kind = _LITERAL_KINDS.get(data_type.kind)
    if kind is None:
        return None
    try:
        distinct = pc.unique(values).drop_null().to_pylist()
    except (ValueError, OverflowError):
        # dates after the year 9999, and bytes that are not UTF-8
        return None
    return tuple(Literal(value, kind) for value in sorted(distinct))


#: Of this process: queries whose keys left too many rows, and why, by the positions of the large tables.
DECLINED: LruCache[int, Mapping[int, str]] = LruCache(_MAX_DECLINED)
