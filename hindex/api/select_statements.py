"""SELECT statements of one table as scans and aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.aggregate.aggregation import Aggregate, Aggregation, Group, GroupFilter, Item, ResultColumn
from hindex.aggregate.top_n import SortKey, sorted_rows
from hindex.api.result_rows import ComputedRows, ScanRows
from hindex.api.scan import Scan
from hindex.errors import ColumnError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.order import Order
from hindex.plan.time_zones import ZonesOf
from hindex.scan.planning import ScanPlan
from hindex.sql.predicate import ColumnRef
from hindex.sql.statements import (
    AggregateCall,
    Having,
    Select,
    SelectExists,
    is_same_value,
)

if TYPE_CHECKING:
    from hindex.explanations.explanation import Explanation
    from hindex.maintain.verification import ProveReport

#: Spark's name of the column.
_EXISTS = "exists()"


class Summary(ComputedRows):
    """An aggregation of a scan's rows, sorted and limited.

    Args:
        orders: the positions of the items to sort by, and their orders.
        offset: the number of sorted rows to skip.
    """

    def __init__(
        self,
        scan: Scan,
        aggregation: Aggregation,
        orders: Sequence[tuple[int, Order]],
        limit: int | None,
        offset: int,
    ) -> None:
        self._scan = scan
        self._aggregation = aggregation
        self._orders = orders
        self._limit = limit
        self._offset = offset
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
        """Plan the aggregation against the table as it is now, see `Aggregation.plan`."""
        plan = self._aggregation.plan()
        self._columns = self._aggregation.result_columns(plan)
        return plan

    def to_arrow(self) -> pa.Table:
        """Compute the rows."""
        table = self._aggregation.to_arrow()
        keys = [SortKey(order, self.columns[at].type, table.column(at)) for at, order in self._orders]
        return sorted_rows(table, keys).slice(self._offset, self._limit)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """Explain how the rows are computed, see `hindex.aggregate.aggregation.Aggregation.explain`."""
        explanation = self._aggregation.explain(analyze=analyze)
        analyzed = explanation.analyzed
        if analyzed is not None:
            rows = max(analyzed.rows - self._offset, 0)
            analyzed = replace(analyzed, rows=rows if self._limit is None else min(rows, self._limit))
        orders = ", ".join(str(order) for _, order in self._orders)
        text = f"{orders}: the result is sorted" if orders else ""
        return replace(explanation, order=text, limit=self._limit, offset=self._offset, analyzed=analyzed)

    def with_zones(self, zones: ZonesOf) -> Summary:
        """Aggregate timestamps as instants by other time zones."""
        aggregation = replace(self._aggregation, zones=zones)
        return Summary(self._scan.with_zones(zones), aggregation, self._orders, self._limit, self._offset)


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
        """Explain how the boolean is computed, see `hindex.api.scan.Scan.explain`."""
        scan = self._scan
        limit = 1 if scan.row_limit is None else min(scan.row_limit, 1)
        row = scan.narrowed(scan.predicate, [], limit, offset=scan.row_offset)
        explanation = row.explain(analyze=analyze)
        # one row is enough; the explanation shows the limit of the statement
        return replace(explanation, limit=scan.row_limit)

    def with_zones(self, zones: ZonesOf) -> Existence:
        """Compare timestamps as instants by other time zones."""
        return Existence(self._scan.with_zones(zones), self._name)


def run_select(scan: Scan, select: Select | SelectExists) -> ScanRows | Summary | Existence:
    """Return the rows, the summary or the existence that a SELECT statement selects.

    Args:
        scan: a scan of all rows of the table.

    Raises:
        ColumnError: for an unknown column.
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
        offset=0 if select.is_aggregate else select.offset,
    )
    if not select.is_aggregate:
        orders = [
            Order(item.value.parts, item.descending, item.nulls_first)
            for item in select.orders
            if isinstance(item.value, ColumnRef)
        ]
        return ScanRows(selection.sorted_by(orders) if orders else selection)
    outputs: list[Item] = []
    for item in items or ():
        if isinstance(item.value, AggregateCall):
            outputs.append(_aggregate(item.value, item.name))
        else:
            outputs.append(Group(item.value.parts, item.name))
    limit = select.limit
    if limit:
        # rows are sorted before they are limited
        limit = None if select.orders else limit + select.offset
    groups = [column.parts for column in select.groups]
    having = None if select.having is None else _group_filter(select.having, select.groups)
    summary = selection.aggregate(outputs, groups, limit, having)
    return Summary(selection, summary, _positioned(select), select.limit, select.offset)


def _aggregate(call: AggregateCall, name: str) -> Aggregate:
    return Aggregate(call.function, None if call.column is None else call.column.parts, name)


def _group_filter(having: Having, groups: Sequence[ColumnRef]) -> GroupFilter:
    """Return a condition of groups with the columns that it may name.

    Raises:
        ColumnError: for a column with the name of an aggregate.
    """
    calls = [_aggregate(call, str(call)) for call in having.calls]
    for group in groups:
        if any(group.name == call.name for call in calls):
            raise ColumnError(f"HAVING has {group.name}, which is an aggregate and a column: leave it out")
    return GroupFilter(having.predicate, (*(Group(group.parts, group.name) for group in groups), *calls))


def _positioned(select: Select) -> list[tuple[int, Order]]:
    """Return the positions of the items that order the result, and their orders."""
    positions = []
    for order in select.orders:
        for position, item in enumerate(select.items or ()):
            if is_same_value(item.value, order.value):
                positions.append((position, Order(item.name, order.descending, order.nulls_first)))
                break
        else:
            raise ColumnError(f"{order.value} is not selected: name it in the list, or leave ORDER BY out")
    return positions
