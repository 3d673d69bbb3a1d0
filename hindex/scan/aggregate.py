"""Aggregates of a scan's rows: from indexes and statistics alone where these tell, else from the columns read.

Rows are counted and values told apart by their keys (:mod:`hindex.keys`), which are what Spark compares and groups
by: NULL is a group of its own and no value, NaN is one value and the greatest, -0.0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.domain import Key
from hindex.errors import ColumnError
from hindex.index.base import KeyCounts
from hindex.keys import KeyArray, KeyKind, join_keys, key_array, key_kind
from hindex.orc.types import OrcType
from hindex.plan.explain import Explanation
from hindex.scan.aggregate_stripe import ColumnValues, Part, is_told, stripe_part
from hindex.scan.explaining import explain_plan
from hindex.scan.measuring import measured
from hindex.scan.meter import Meter
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.running import Runner
from hindex.sql.predicate import Predicate
from hindex.sql.statements import AggregateFunction
from hindex.table.schema import ResolvedColumn
from hindex.table.snapshot import Snapshot

#: Groups of parts that are held before they are put together.
_HELD_GROUPS = 1 << 20


@dataclass(frozen=True, slots=True)
class Aggregate:
    """COUNT, MIN or MAX of a column; COUNT of rows where ``column`` is None. ``name`` is the result's column."""

    function: AggregateFunction
    column: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """The column that rows are grouped by, as ``name``."""

    column: str
    name: str


Item = Aggregate | Group


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of the rows that ``where`` keeps, one row of them, or one for each value of ``group``.

    Groups come in the order of their values, NULL first. Of groups, only the column that they are by can be
    counted or have a least or greatest value.

    :param proved: gives the plan to run in place of the one that was made.
    """

    snapshot: Callable[[], Snapshot]
    where: Predicate | None
    items: tuple[Item, ...]
    group: str | None
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
        names += [] if self.group is None else [self.group]
        wanted = tuple(dict.fromkeys(names))
        plan = runner.plan(self.snapshot, lambda found: plan_scan(found, self.where, [], wanted))
        of = plan.snapshot.schema.resolve
        self._check_group(None if self.group is None else of(self.group).name, of)
        for item in self.items:
            is_counted = isinstance(item, Aggregate) and item.function is AggregateFunction.COUNT
            if item.column is not None and not (is_counted and self.group is None):
                _check_ordered(item.column, of(item.column).type)
        return plan

    def _check_group(self, group: str | None, of: Callable[[str], ResolvedColumn]) -> None:
        for item in self.items:
            if group is None and isinstance(item, Group):
                raise ColumnError(
                    f"Column {item.column!r} stands beside aggregates of all rows: group by it, or leave it out"
                )
            if group is not None and item.column is not None and of(item.column).name != group:
                raise ColumnError(
                    f"Column {item.column!r} is asked of groups by {group!r}: only that column can be; leave it "
                    "out, or use Spark on scan(...).to_spark()"
                )

    def to_arrow(self) -> pa.Table:
        """The result: counts are int64, all else of its column's type."""
        return self._result(self.proved(self.plan()), self.runner)

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
            group=part.group,
            is_told=lambda task, answer: is_told(task, answer, part),
        )

    def _result(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        return self._grouped(plan, runner) if self.group is not None else self._single(plan, runner)

    @property
    def labels(self) -> tuple[str, ...]:
        """The result's columns."""
        return tuple(item.name for item in self.items)

    def part_of(self, plan: ScanPlan) -> Part:
        """What is asked of each stripe."""
        of = plan.snapshot.schema.resolve
        if self.group is not None:
            return Part(group=of(self.group).name)
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
        assert self.group is not None
        part = self.part_of(plan)
        of = plan.snapshot.schema.resolve(self.group).type
        groups = joined_groups(
            of,
            (
                found.groups
                for found in runner.run(plan, lambda task, answer: stripe_part(task, answer, part))
                if found.groups is not None
            ),
        )
        values, counts, present = key_array(of, groups.keys), groups.counts, groups.counts
        if groups.null_count:
            values = pa.concat_arrays([pa.nulls(1, values.type), values])
            counts = np.concatenate([[groups.null_count], counts])
            present = np.concatenate([[0], present])
        arrays = []
        for item in self.items:
            if isinstance(item, Group) or item.function is not _COUNT:
                arrays.append(values)
            else:
                arrays.append(pa.array(counts if item.column is None else present, pa.int64()))
        return pa.Table.from_arrays(arrays, names=list(self.labels))


_COUNT = AggregateFunction.COUNT


def _function(item: Aggregate | Group) -> AggregateFunction | None:
    return item.function if isinstance(item, Aggregate) else None


def joined_groups(of: OrcType, parts: Iterable[KeyCounts]) -> KeyCounts:
    """The groups of several parts, put together as they come."""
    waiting: list[KeyCounts] = []
    held, most = 0, _HELD_GROUPS
    for part in parts:
        waiting.append(part)
        held += len(part.keys)
        if held > most:
            waiting = [_joined(of, waiting)]
            held = len(waiting[0].keys)
            # as many again must come first, or every part would be put together with all before it
            most = max(_HELD_GROUPS, 2 * held)
    return _joined(of, waiting)


def _joined(of: OrcType, parts: Sequence[KeyCounts]) -> KeyCounts:
    kind = key_kind(of)
    assert kind is not None
    keys: KeyArray = join_keys(kind, [part.keys for part in parts])
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    nulls = sum(part.null_count for part in parts)
    if kind is KeyKind.INT64:
        distinct, at = np.unique(keys, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, at, counts)
        return KeyCounts(distinct, sums, nulls)
    table = pa.table({"key": keys, "count": pa.array(counts, pa.int64())})
    summed = table.group_by("key").aggregate([("count", "sum")]).sort_by("key")
    joined = join_keys(kind, summed.column("key").chunks)
    return KeyCounts(joined, np.asarray(pc.cast(summed.column("count_sum"), pa.int64())), nulls)


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
