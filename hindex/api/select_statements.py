"""SELECT statements of one table as scans and aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, GroupFilter, Item, ResultColumn
from hindex.aggregate.top_n import sorted_rows
from hindex.api.result_rows import ComputedRows, ScanRows
from hindex.api.scan import Scan
from hindex.errors import ColumnError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.order import Order
from hindex.plan.time_zones import ZonesOf
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import OutputColumn
from hindex.sql.predicate import ColumnRef
from hindex.sql.statements import (
    AggregateCall,
    Having,
    Select,
    SelectExists,
    SortItem,
    is_same_value,
)

if TYPE_CHECKING:
    from hindex.explain.explanation import Explanation
    from hindex.maintain.verification import ProveReport

#: Spark's name of the column.
_EXISTS = "exists()"


class Summary(ComputedRows):
    """An aggregation of a scan's rows, sorted and limited.

    :param order: the position of the item to sort by, and the order.
    """

    def __init__(
        self, scan: Scan, aggregation: Aggregation, order: tuple[int, Order] | None, limit: int | None
    ) -> None:
        self._scan = scan
        self._aggregation = aggregation
        self._order = order
        self._limit = limit
        self._columns: tuple[ResultColumn, ...] | None = None

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        """The columns, as the table was when the aggregation was last planned."""
        if self._columns is None:
            self.plan()
        assert self._columns is not None
        return self._columns

    @property
    def proof(self) -> ProveReport | None:
        return self._scan.proof

    def plan(self) -> ScanPlan:
        """Plan the aggregation against the table as it is now, see :meth:`Aggregation.plan`."""
        plan = self._aggregation.plan()
        self._columns = self._aggregation.result_columns(plan)
        return plan

    def to_arrow(self) -> pa.Table:
        """Compute the rows."""
        table = self._aggregation.to_arrow()
        if self._order is not None:
            position, order = self._order
            table = sorted_rows(
                table, table.column(position), OutputColumn("", self.columns[position].type), order
            )
        return table.slice(0, self._limit)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain how the rows are computed, see :meth:`~hindex.aggregate.aggregation.Aggregation.explain`."""
        explanation = self._aggregation.explain(analyze=analyze)
        analyzed = explanation.analyzed
        if analyzed is not None and self._limit is not None:
            analyzed = replace(analyzed, rows=min(analyzed.rows, self._limit))
        order = "" if self._order is None else f"{self._order[1]}: the result is sorted"
        return replace(explanation, order=order, limit=self._limit, analyzed=analyzed)

    def with_zones(self, zones: ZonesOf) -> Summary:
        """Aggregate timestamps as instants by other time zones."""
        aggregation = replace(self._aggregation, zones=zones)
        return Summary(self._scan.with_zones(zones), aggregation, self._order, self._limit)


class Existence(ComputedRows):
    """One row with one boolean: True if a scan has any row."""

    def __init__(self, scan: Scan, name: str) -> None:
        self._scan = scan
        self._name = name

    @property
    def columns(self) -> tuple[ResultColumn, ...]:
        return (ResultColumn(pa.field(self._name, pa.bool_(), nullable=False), OrcType(Kind.BOOLEAN)),)

    @property
    def proof(self) -> ProveReport | None:
        return self._scan.proof

    def plan(self) -> ScanPlan:
        """Plan the scan against the table as it is now."""
        return self._scan.plan()

    def to_arrow(self) -> pa.Table:
        """Compute the boolean."""
        return pa.Table.from_arrays([pa.array([self._scan.exists()])], schema=self.schema)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain how the boolean is computed, see :meth:`~hindex.api.scan.Scan.explain`."""
        limit = 1 if self._scan.row_limit is None else min(self._scan.row_limit, 1)
        explanation = self._scan.narrowed(self._scan.predicate, [], limit).explain(analyze=analyze)
        # one row is enough; the explanation shows the limit of the statement
        return replace(explanation, limit=self._scan.row_limit)

    def with_zones(self, zones: ZonesOf) -> Existence:
        """Compare timestamps as instants by other time zones."""
        return Existence(self._scan.with_zones(zones), self._name)


def run_select(scan: Scan, select: Select | SelectExists) -> ScanRows | Summary | Existence:
    """Return the rows, the summary or the existence that a SELECT statement selects.

    :param scan: a scan of all rows of the table.
    :raises ColumnError: for an unknown column.
    """
    if isinstance(select, SelectExists):
        rows = run_select(scan, select.rows)
        assert isinstance(rows, ScanRows)
        return Existence(rows.scan, _EXISTS if select.alias is None else select.alias)
    items = select.items
    selection = scan.narrowed(
        select.where,
        None if items is None else [item.value.parts for item in items if isinstance(item.value, ColumnRef)],
        None if select.is_aggregate else select.limit,
        None if items is None or select.is_aggregate else [item.name for item in items],
    )
    if not select.is_aggregate:
        if select.order is None:
            return ScanRows(selection)
        assert isinstance(select.order.value, ColumnRef)
        ordered = selection.order_by(
            select.order.value.parts,
            descending=select.order.descending,
            nulls_first=select.order.nulls_first,
        )
        return ScanRows(ordered)
    outputs: list[Item] = []
    for item in items or ():
        if isinstance(item.value, AggregateCall):
            outputs.append(_aggregate(item.value, item.name))
        else:
            outputs.append(Group(item.value.parts, item.name))
    # rows are sorted before they are limited
    limit = None if select.order is not None and select.limit != 0 else select.limit
    groups = [column.parts for column in select.groups]
    having = None if select.having is None else _group_filter(select.having, select.groups)
    summary = selection.aggregate(outputs, groups, limit, having)
    return Summary(
        selection, summary, None if select.order is None else _sorted(select, select.order), select.limit
    )


def _aggregate(call: AggregateCall, name: str) -> Aggregate:
    return Aggregate(call.function, None if call.column is None else call.column.parts, name)


def _group_filter(having: Having, groups: Sequence[ColumnRef]) -> GroupFilter:
    """Return a condition of groups with the columns that it may name.

    :raises ColumnError: for a column with the name of an aggregate.
    """
    calls = [_aggregate(call, str(call)) for call in having.calls]
    for group in groups:
        if any(group.name == call.name for call in calls):
            raise ColumnError(f"HAVING has {group.name}, which is an aggregate and a column: leave it out")
    return GroupFilter(having.predicate, (*(Group(group.parts, group.name) for group in groups), *calls))


def _sorted(select: Select, order: SortItem) -> tuple[int, Order]:
    """Return the position and the direction of the item that orders the result."""
    for position, item in enumerate(select.items or ()):
        if is_same_value(item.value, order.value):
            return position, Order(item.name, order.descending, order.nulls_first)
    raise ColumnError(f"{order.value} is not selected: name it in the list, or leave ORDER BY out")
