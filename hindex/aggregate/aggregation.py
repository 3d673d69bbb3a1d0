"""Aggregates of a scan's rows, from indexes and statistics alone if they suffice, else from the columns.

Values are compared and grouped by their keys (`hindex.keys`), with the semantics of Spark: NULL is a group and no
value, NaN is one value and the greatest, -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.aggregate.groups import GroupMerger, Groups, count_distinct, group_values, row_counts
from hindex.aggregate.stripe_aggregation import (
    ColumnValues,
    PartialAggregate,
    StripeAggregate,
    aggregate_stripe,
    is_index_only,
)
from hindex.domain import Key
from hindex.errors import ArgumentTypeError, ColumnError, PredicateError
from hindex.expr import constant_times
from hindex.formatting import counted
from hindex.keys import key_array, key_kind
from hindex.orc.decode.arrow_arrays import fixed_array
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.filter import Filter
from hindex.plan.filter_evaluation import mask
from hindex.plan.index_columns import IndexColumn
from hindex.plan.normalize import normalize
from hindex.plan.time_zones import ZonesOf, makes_times, no_zones
from hindex.scan.metrics import MetricsCollector
from hindex.scan.planning import ScanPlan, plan_no_files, plan_scan
from hindex.scan.scan_task import OutputColumn
from hindex.scan.task_runner import Runner
from hindex.sql.predicate import Predicate, quote_name
from hindex.sql.statements import COUNTS, AggregateFunction
from hindex.store.snapshot import Snapshot
from hindex.table.schema import ColumnName, FieldMetadata, ResolvedColumn, column_name, spelled
from hindex.validation import check_string
from hindex.value_class import value_class

if TYPE_CHECKING:
    from hindex.explanations.explanation import Explanation


@value_class
class Aggregate:
    """An aggregate of a column; COUNT of rows if ``column`` is None. ``name`` is the column of the result.

    Raises:
        ColumnError: if ``column`` is not a column name.
        ArgumentTypeError: if ``function`` is not a function, or ``name`` is not a string.
    """

    function: AggregateFunction
    column: ColumnName | None
    name: str

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.function), AggregateFunction):
            functions = ", ".join(map(str, AggregateFunction))
            raise ArgumentTypeError(f"function is {self.function!r}: it is one of {functions}")
        check_string(self.name, "name", "n")
        if self.column is not None or self.function is not _COUNT:
            object.__setattr__(self, "column", column_name(self.column))


@value_class
class Group:
    """A grouping column; ``name`` is the column of the result.

    Raises:
        ColumnError: if ``column`` is not a column name.
        ArgumentTypeError: if ``name`` is not a string.
    """

    column: ColumnName
    name: str

    def __post_init__(self) -> None:
        check_string(self.name, "name", "n")
        object.__setattr__(self, "column", column_name(self.column))


Item = Aggregate | Group


def _count_array(count: int) -> pa.Array:
    # pyarrow.array would import pandas, to check for its types
    return fixed_array(pa.int64(), np.array([count], np.int64), None)


def check_items(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return aggregates as a tuple.

    Raises:
        ArgumentTypeError: for anything but a list of aggregates and groups.
    """
    values: object = items
    checked = tuple(values) if isinstance(values, Iterable) else (values,)
    if not all(isinstance(item, Item) for item in checked):
        raise ArgumentTypeError(
            f"items is {items!r}: pass a list of {Aggregate.__module__}.Aggregate and Group, one for each column of "
            "the result"
        )
    return checked


@value_class
class GroupFilter:
    """A HAVING condition on ``items``: the grouping columns and aggregates under the names that it uses."""

    predicate: Predicate
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", check_items(self.items))


@value_class
class ResultColumn:
    """A column of a result: its Arrow field, the type of its values, and the metadata that the catalog has for it."""

    field: pa.Field
    type: OrcType
    metadata: FieldMetadata | None = None

    @property
    def name(self) -> str:
        return str(self.field.name)


@value_class
class Aggregation:
    """Aggregates of the rows that ``where`` keeps: one row of them, or one row for each group.

    Groups are sorted by their values, by the first column first, with NULL first. With groups, COUNT, MIN and MAX
    are only supported of the grouping columns; COUNT DISTINCT is supported of any column.

    Args:
        snapshot: returns the table.
        having: the condition of the groups in the result.
        limit: the most rows of the result; with 0, no file is read.
        verify_plan: returns the plan to run in place of the original one.
        zones: returns the time zones by which timestamps are instants; by default, they are wall clocks.
        expressions: expressions by their names in ``items`` and ``groups``. Only indexes have their values:
            `UnsupportedError` is raised if a file has no index on them.
        partitions: as ``snapshot``, for the time of the query in microseconds since 1970 in UTC; may leave out the
            files of partitions that the predicate rules out at that time.
    """

    snapshot: Callable[[], Snapshot]
    where: Predicate | None
    items: tuple[Item, ...]
    groups: tuple[ColumnName, ...] = ()
    having: GroupFilter | None = None
    limit: int | None = None
    runner: Runner = field(default_factory=Runner)
    verify_plan: Callable[[ScanPlan], ScanPlan] = field(default=lambda plan: plan, repr=False)
    zones: ZonesOf = field(default=no_zones, repr=False)
    partitions: Callable[[int], Snapshot] | None = field(default=None, repr=False)
    expressions: Mapping[str, IndexColumn] = field(default_factory=dict, hash=False)

    def plan(self) -> ScanPlan:
        """Plan the aggregation against the table's current state.

        Raises:
            ColumnError: for an unknown column, or one whose values have no order.
            PredicateError: for a predicate that does not fit the columns' types.
        """
        return self._planned(self.runner, self.snapshot)

    def _planned(
        self, runner: Runner, snapshot: Callable[[], Snapshot], instant: int | None = None
    ) -> ScanPlan:
        names = [item.column for item in self._all_items if item.column is not None]
        columns = tuple(dict.fromkeys((*names, *self.groups)))
        plan = runner.plan(snapshot, lambda snapshot: self._plan_of(snapshot, columns, instant))
        resolve = self._resolver(plan)
        self._check_groups([resolve(name).name for name in self.groups], resolve)
        for item in self._all_items:
            if item.column is not None and _function(item) is not _COUNT:
                _check_ordered(item.column, resolve(item.column).type)
                _check_keys(plan, item.column, resolve(item.column))
        for name in self.groups:
            _check_ordered(name, resolve(name).type)
            _check_keys(plan, name, resolve(name))
        self._group_filter(plan)
        return plan

    def _plan_of(self, snapshot: Snapshot, columns: Sequence[ColumnName], instant: int | None) -> ScanPlan:
        make = plan_no_files if self._is_empty else plan_scan
        lookups = [self._expression(name) or name for name in columns]
        return make(snapshot, self.where, [], lookups, zones=self.zones, instant=instant)

    def _expression(self, name: ColumnName) -> IndexColumn | None:
        return self.expressions.get(name if isinstance(name, str) else ".".join(name))

    def _resolver(self, plan: ScanPlan) -> Callable[[ColumnName], ResolvedColumn | IndexColumn]:
        """Return a function that resolves names of columns and expressions."""
        return lambda name: self._expression(name) or plan.snapshot.schema.resolve(name)

    @property
    def _is_empty(self) -> bool:
        return self.limit is not None and self.limit <= 0

    def _check_groups(
        self, groups: Sequence[str], resolve: Callable[[ColumnName], ResolvedColumn | IndexColumn]
    ) -> None:
        for item in self._all_items:
            if not groups and isinstance(item, Group):
                raise ColumnError(
                    f"Column {spelled(item.column)!r} stands beside aggregates of all rows: group by it, or leave it "
                    "out"
                )
            if _function(item) is _DISTINCT:
                continue
            if groups and item.column is not None and resolve(item.column).name not in groups:
                only = "that column" if len(groups) == 1 else "those columns"
                raise ColumnError(
                    f"Column {spelled(item.column)!r} is in the result of GROUP BY {', '.join(groups)}: only "
                    f"{only} can be; leave it out, or use Spark on scan(...).to_spark()"
                )

    def to_arrow(self) -> pa.Table:
        """Run the aggregation. Counts are int64; other values have the type of their column."""

        def run(runner: Runner) -> pa.Table:
            instant = constant_times.current_instant()
            partitions = self.snapshot if self.partitions is None else partial(self.partitions, instant)
            plan = self._planned(runner, partitions, instant)
            plan = plan if self._is_empty else self.verify_plan(plan)
            table = self._result(plan, runner)
            runner.log(lambda: self._text(plan), plan, counted(table.num_rows, "row"))
            return table

        return self.runner.attempt(run, self.snapshot)

    def _text(self, plan: ScanPlan) -> str:
        """Return the query as SQL, for messages."""
        where = "" if self.where is None else f" WHERE {self.where}"
        group = f" GROUP BY {', '.join(map(spelled, self.groups))}" if self.groups else ""
        return f"SELECT {', '.join(self.labels)} FROM {plan.snapshot.name}{where}{group}"

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain how the aggregation is answered; no data is read.

        Args:
            analyze: also run the aggregation, and measure the time and the reads.
        """
        from hindex.explanations.scan_explanation import explain_analyze

        if not analyze:
            return self._explained(self._planned(Runner(), self.snapshot))
        meter = MetricsCollector()
        runner = Runner(meter=meter)

        def run() -> tuple[ScanPlan, int]:
            plan = self._planned(runner, self.snapshot)
            return plan, self._result(plan, runner).num_rows

        return explain_analyze(meter, run, self._explained)

    def _explained(self, plan: ScanPlan) -> Explanation:
        from hindex.explanations.scan_explanation import explain_plan

        part, resolve = self.part_of(plan), self._resolver(plan)
        having = "" if self.having is None else f" HAVING {self.having.predicate}"
        return explain_plan(
            plan,
            self.where,
            labels=self.labels,
            shown=[quote_name(item.name) if isinstance(item, Group) else item.name for item in self.items],
            group=", ".join(dict.fromkeys(_spelled(resolve(name)) for name in self.groups)) + having,
            limit=self.limit,
            is_index_only=lambda task, result: is_index_only(task, result, part),
        )

    def _result(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        result = self._grouped(plan, runner) if self.groups else self._single(plan, runner)
        group_filter = self._group_filter(plan)
        if group_filter is not None:
            columns = {
                name: result.column(at)
                for at, name in enumerate(result.column_names)
                if at >= len(self.items)
            }
            result = result.filter(pa.array(mask(group_filter, columns, result.num_rows)))
        schema = pa.schema([column.field for column in self.result_columns(plan)])
        arrays = [
            array.cast(part.type)
            for array, part in zip(result.columns[: len(self.items)], schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema).slice(0, self.limit)

    def result_columns(self, plan: ScanPlan) -> tuple[ResultColumn, ...]:
        """Return the columns of the result: counts are int64 and never null, others have their column's type."""
        columns = []
        metadata = plan.snapshot.field_metadata
        for item in self.items:
            is_count = item.column is None or _function(item) in COUNTS
            resolved = None if item.column is None else self._resolver(plan)(item.column)
            data_type = OrcType(Kind.LONG) if resolved is None or is_count else resolved.type
            if plan.zones is not None:
                data_type = data_type.with_instants()
            column_metadata = None
            # aggregates have no metadata in Spark
            if isinstance(item, Group) and isinstance(resolved, ResolvedColumn) and not resolved.is_nested:
                column_metadata = metadata.get(resolved.name)
            arrow = pa.field(item.name, data_type.to_arrow(), not is_count)
            columns.append(ResultColumn(arrow, data_type, column_metadata))
        return tuple(columns)

    def _group_filter(self, plan: ScanPlan) -> Filter | None:
        """Return the filter of groups; None if there is no HAVING condition.

        Raises:
            PredicateError: if the condition does not fit the types.
        """
        if self.having is None:
            return None
        resolve = self._resolver(plan)
        types = {
            item.name: OrcType(Kind.LONG)
            if item.column is None or _function(item) in COUNTS
            else _type_in_condition(item, resolve(item.column).type)
            for item in self.having.items
        }
        condition = self.having.predicate
        zones = self.zones() if plan.zones is None and makes_times(condition) else plan.zones
        return normalize(condition, _GroupColumns(types), zones, plan.instant)

    @property
    def _all_items(self) -> tuple[Item, ...]:
        """The result's items, followed by those of the HAVING condition."""
        return self.items if self.having is None else (*self.items, *self.having.items)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the result's columns."""
        return tuple(item.name for item in self.items)

    def part_of(self, plan: ScanPlan) -> PartialAggregate:
        """Return the part of the aggregation that each stripe computes."""
        groups = self._groups(plan)
        groupings = [groups] if groups else []
        groupings += [
            self._with(plan, groups, item) for item in self._all_items if _function(item) is _DISTINCT
        ]
        part = PartialAggregate(groupings=tuple(dict.fromkeys(groupings)))
        if groups:
            return part
        columns_by_function = {function: set[str]() for function in AggregateFunction}
        for item in self.items:
            if item.column is not None and isinstance(item, Aggregate):
                columns_by_function[item.function].add(self._resolver(plan)(item.column).name)
        min_max = columns_by_function[AggregateFunction.MIN] | columns_by_function[AggregateFunction.MAX]
        return replace(part, counted=frozenset(columns_by_function[_COUNT]), min_max=frozenset(min_max))

    def _groups(self, plan: ScanPlan) -> tuple[str, ...]:
        """Return the names of the grouping columns, as the table spells them."""
        return tuple(dict.fromkeys(self._resolver(plan)(name).name for name in self.groups))

    def _with(self, plan: ScanPlan, groups: tuple[str, ...], item: Item) -> tuple[str, ...]:
        """Return the grouping that counts the distinct values of an item in each group: its columns."""
        assert item.column is not None
        return tuple(dict.fromkeys((*groups, self._resolver(plan)(item.column).name)))

    def _totals(
        self, plan: ScanPlan, runner: Runner
    ) -> tuple[StripeAggregate, dict[tuple[str, ...], Groups]]:
        """Aggregate all stripes; return the totals, and the sorted groups of each grouping."""
        part, types = self.part_of(plan), {column.name: column.type for column in plan.lookups}
        groups = {by: GroupMerger([types[name] for name in by]) for by in part.groupings}
        total = StripeAggregate(0)
        for stripe in runner.run(plan.tasks, lambda task, result, _: aggregate_stripe(task, result, part)):
            total.rows += stripe.rows
            for name, values in stripe.columns.items():
                earlier = total.columns.get(name)
                total.columns[name] = values if earlier is None else earlier.merge(values)
            for by, stripe_groups in stripe.groups.items():
                groups[by].add(stripe_groups)
        return total, {by: merger.groups() for by, merger in groups.items()}

    def _single(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        total, groups = self._totals(plan, runner)
        arrays = []
        for item in self.items:
            assert isinstance(item, Aggregate)
            if item.column is None:
                arrays.append(_count_array(total.rows))
                continue
            resolved = self._resolver(plan)(item.column)
            values = total.columns.get(resolved.name, ColumnValues())
            if item.function is _COUNT:
                arrays.append(_count_array(values.count))
            elif item.function is _DISTINCT:
                keys = groups[(resolved.name,)].column(0)
                arrays.append(_count_array(len(keys) - keys.null_count))
            else:
                end = values.low if item.function is AggregateFunction.MIN else values.high
                arrays.append(_end(resolved.type, end))
        return pa.Table.from_arrays(arrays, names=list(self.labels))

    def _grouped(self, plan: ScanPlan, runner: Runner) -> pa.Table:
        names, resolve = self._groups(plan), self._resolver(plan)
        _, groups_by_columns = self._totals(plan, runner)
        groups = groups_by_columns[names]
        counts = row_counts(groups)
        arrays = []
        for item in self._all_items:
            if item.column is None:
                arrays.append(counts)
                continue
            column = resolve(item.column)
            if column.name not in names:
                arrays.append(count_distinct(groups_by_columns[self._with(plan, names, item)]))
                continue
            values = group_values(column.type, groups, names.index(column.name))
            # COUNT of a column ignores NULL, which is the value of one group
            if _function(item) is _COUNT:
                values = pc.if_else(values.is_valid(), counts, 0)
            elif _function(item) is _DISTINCT:
                values = values.is_valid().cast(pa.int64())
            arrays.append(values)
        return pa.Table.from_arrays(arrays, names=[item.name for item in self._all_items])


def _spelled(column: ResolvedColumn | IndexColumn) -> str:
    return column.name if isinstance(column, IndexColumn) else spelled(column.path)


def _check_keys(plan: ScanPlan, name: ColumnName, column: ResolvedColumn | IndexColumn) -> None:
    """Refuse a timestamp column whose stored keys are not the values that the query compares.

    Raises:
        PredicateError: naming the column.
    """
    if isinstance(column, IndexColumn):
        # no expression returns timestamps
        return
    if not plan.are_index_keys(OutputColumn(column.name, column.type, column.is_partition)):
        assert plan.zones is not None
        raise PredicateError(
            f"timestamps of {spelled(column_name(name))!r} cannot be grouped or compared here: indexes have wall "
            f"clocks, which are no instants in {plan.zones.reader}, the time zone of Spark's Java; use Spark on "
            "scan(...).to_spark()"
        )


@value_class
class _GroupColumns:
    """A resolver of the columns of a HAVING condition."""

    types: Mapping[str, OrcType]

    def resolve(self, name: Sequence[str], /) -> OutputColumn:
        column_name_ = ".".join(name)
        if column_name_ not in self.types:
            raise ColumnError(
                f"The condition of groups has {column_name_!r}, which is not among its items: {', '.join(self.types)}"
            )
        return OutputColumn(column_name_, self.types[column_name_])


_COUNT, _DISTINCT = AggregateFunction.COUNT, AggregateFunction.COUNT_DISTINCT


def _function(item: Aggregate | Group) -> AggregateFunction | None:
    return item.function if isinstance(item, Aggregate) else None


def _type_in_condition(item: Item, data_type: OrcType) -> OrcType:
    """Return the type of an item in a HAVING condition: Spark compares MIN and MAX of CHAR as padded strings."""
    return OrcType(Kind.STRING) if isinstance(item, Aggregate) and data_type.kind is Kind.CHAR else data_type


def _end(data_type: OrcType, key: Key | None) -> pa.Array:
    if key is None:
        return pa.nulls(1, data_type.to_arrow())
    keys = np.array([key], np.int64) if isinstance(key, int) else pa.array([key], pa.large_binary())
    return key_array(data_type, keys)


def _check_ordered(column: ColumnName, data_type: OrcType) -> None:
    if key_kind(data_type) is None:
        raise ColumnError(
            f"Column {spelled(column)!r} is of type {data_type}: only values of primitive types are grouped or "
            "ordered; name a primitive field of it, or use Spark on scan(...).to_spark()"
        )
