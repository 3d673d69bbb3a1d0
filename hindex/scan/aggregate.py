"""Aggregates of a scan's rows: from indexes and statistics alone where these tell, else from the columns read.

Rows are counted and values told apart by their keys (:mod:`hindex.keys`), which are what Spark compares and groups
by: NULL is a group of its own and no value, NaN is one value and the greatest, -0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key
from hindex.errors import ColumnError
from hindex.keys import key_array, key_kind
from hindex.orc.types import OrcType
from hindex.plan.explain import Explanation
from hindex.scan.aggregate_stripe import ColumnValues, Part, is_told, stripe_part
from hindex.scan.explaining import explain_plan
from hindex.scan.groups import counts_of, joined, values_of
from hindex.scan.measuring import measured
from hindex.scan.meter import Meter
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.running import Runner
from hindex.sql.predicate import Predicate
from hindex.sql.statements import AggregateFunction
from hindex.table.schema import ResolvedColumn
from hindex.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, MIN or MAX of a column; COUNT of rows where ``column`` is None. ``name`` is the result's column."""

    function: AggregateFunction
    column: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """A column that rows are grouped by, as ``name``."""

    column: str
    name: str


Item = Aggregate | Group


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of the rows that ``where`` keeps: one row of them, or one for each of the values of ``groups``.

    Groups come in the order of their values, NULL first, those of the first column before all else. Of groups, only
    the columns that they are by can be counted or have a least or greatest value.

    :param limit: rows of the result; where it is 0, nothing is looked at.
    :param proved: gives the plan to run in place of the one that was made.
    """

    snapshot: Callable[[], Snapshot]
    where: Predicate | None
    items: tuple[Item, ...]
    groups: tuple[str, ...] = ()
    limit: int | None = None
    runner: Runner = field(default_factory=Runner)
    proved: Callable[[ScanPlan], ScanPlan] = field(default=lambda plan: plan, repr=False)

    def plan(self) -> ScanPlan:
        """What answering will take, against the table as it is now.

        :raises ColumnError: for an unknown column, or one whose values have no order.
        :raises PredicateError: for a predicate that does not fit the columns' types.
        """
        return self._planned(self.runner)

    def _planned(self, runner: Runner) -> ScanPlan:
        names = [item.column for item in self.items if item.column is not None]
        wanted = tuple(dict.fromkeys((*names, *self.groups)))
        plan = runner.plan(self.snapshot, lambda found: self._plan_of(found, wanted))
        of = plan.snapshot.schema.resolve
        self._check_groups([of(name).name for name in self.groups], of)
        for item in self.items:
            is_counted = isinstance(item, Aggregate) and item.function is AggregateFunction.COUNT
            if item.column is not None and not (is_counted and not self.groups):
                _check_ordered(item.column, of(item.column).type)
        for name in self.groups:
            _check_ordered(name, of(name).type)
        return plan

    def _plan_of(self, found: Snapshot, wanted: Sequence[str]) -> ScanPlan:
        if not self._is_empty:
            return plan_scan(found, self.where, [], wanted)
        # names and types alone: no index is asked, and so none is missing
        plan = plan_scan(replace(found, files=()), self.where, [], wanted)
        return replace(plan, snapshot=found, notes=())

    @property
    def _is_empty(self) -> bool:
        return self.limit is not None and self.limit <= 0

    def _check_groups(self, groups: Sequence[str], of: Callable[[str], ResolvedColumn]) -> None:
        for item in self.items:
            if not groups and isinstance(item, Group):
                raise ColumnError(
                    f"Column {item.column!r} stands beside aggregates of all rows: group by it, or leave it out"
                )
            if groups and item.column is not None and of(item.column).name not in groups:
                only = "that column" if len(groups) == 1 else "those columns"
                raise ColumnError(
                    f"Column {item.column!r} is asked of groups by {', '.join(map(repr, groups))}: only {only} can "
                    "be; leave it out, or use Spark on scan(...).to_spark()"
                )

    def to_arrow(self) -> pa.Table:
        """The result: counts are int64, all else of its column's type."""
        plan = self.plan()
        return self._result(plan if self._is_empty else self.proved(plan), self.runner)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """How it would be answered, and from what; no data is read.

        :param analyze: answer it, too, and tell what that took.
        """
        if not analyze:
            return self._explained(self._planned(Runner()))
        meter = Meter()
        runner = Runner(meter=meter)

        def run() -> tuple[ScanPlan, int]:
            plan = self._planned(runner)
            return plan, self._result(plan, runner).num_rows

        return measured(meter, run, self._explained)

    def _explained(self, plan: ScanPlan) -> Explanation:
        part = self.part_of(plan)
        return explain_plan(
            plan,
            self.where,
            labels=self.labels,
            group=", ".join(part.groups),
            limit=self.limit,
            is_told=lambda task, answer: is_told(task, answer, part),
        )

    def _result(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        found = self._grouped(plan, runner) if self.groups else self._single(plan, runner)
        return found.slice(0, self.limit)

    @property
    def labels(self) -> tuple[str, ...]:
        """The result's columns."""
        return tuple(item.name for item in self.items)

    def part_of(self, plan: ScanPlan) -> Part:
        """What is asked of each stripe."""
        of = plan.snapshot.schema.resolve
        if self.groups:
            return Part(groups=tuple(dict.fromkeys(of(name).name for name in self.groups)))
        counted = [i.column for i in self.items if i.column is not None and _function(i) is _COUNT]
        ended = [i.column for i in self.items if i.column is not None and _function(i) is not _COUNT]
        return Part(
            counted=frozenset(of(name).name for name in counted),
            ended=frozenset(of(name).name for name in ended),
        )

    def _single(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        part = self.part_of(plan)
        rows, columns = 0, dict[str, ColumnValues]()
        for found in runner.run(plan, lambda task, answer: stripe_part(task, answer, part)):
            rows += found.rows
            for name, values in found.columns.items():
                columns[name] = values if name not in columns else columns[name].joined(values)
        arrays = []
        for item in self.items:
            assert isinstance(item, Aggregate)
            if item.column is None:
                arrays.append(pa.array([rows], pa.int64()))
                continue
            resolved = plan.snapshot.schema.resolve(item.column)
            values = columns.get(resolved.name, ColumnValues())
            if item.function is _COUNT:
                arrays.append(pa.array([values.count], pa.int64()))
            else:
                end = values.low if item.function is AggregateFunction.MIN else values.high
                arrays.append(_end(resolved.type, end))
        return pa.Table.from_arrays(arrays, names=list(self.labels))

    def _grouped(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        part, of = self.part_of(plan), plan.snapshot.schema.resolve
        types = [of(name).type for name in part.groups]
        groups = joined(
            types,
            (
                found.groups
                for found in runner.run(plan, lambda task, answer: stripe_part(task, answer, part))
                if found.groups is not None
            ),
        )
        counts = counts_of(groups)
        arrays = []
        for item in self.items:
            if item.column is None:
                arrays.append(counts)
                continue
            at = part.groups.index(of(item.column).name)
            values = values_of(types[at], groups, at)
            is_count = not isinstance(item, Group) and item.function is _COUNT
            # COUNT of a column passes over NULL, which is one group's value
            arrays.append(pc.if_else(values.is_valid(), counts, 0) if is_count else values)
        return pa.Table.from_arrays(arrays, names=list(self.labels))


_COUNT = AggregateFunction.COUNT


def _function(item: Aggregate | Group) -> AggregateFunction | None:
    return item.function if isinstance(item, Aggregate) else None


def _end(of: OrcType, key: Key | None) -> pa.Array:
    if key is None:
        return pa.nulls(1, of.to_arrow())
    keys = np.array([key], np.int64) if isinstance(key, int) else pa.array([key], pa.large_binary())
    return key_array(of, keys)


def _check_ordered(column: str, of: OrcType) -> None:
    if key_kind(of) is None:
        raise ColumnError(
            f"Column {column!r} is of type {of}: only values of primitive types are grouped or ordered; name a "
            "primitive field of it, or use Spark on scan(...).to_spark()"
        )
