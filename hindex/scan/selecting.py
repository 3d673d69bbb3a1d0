"""SELECT statements of one table as scans and aggregations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from hindex.errors import ColumnError
from hindex.orc.types import Kind, OrcType
from hindex.plan.explain import Explanation
from hindex.scan.aggregate import Aggregate, Aggregation, Group, GroupFilter, Item
from hindex.scan.ordered import Order, sorted_rows
from hindex.scan.scan import Scan
from hindex.scan.task import OutputColumn
from hindex.sql.predicate import ColumnRef
from hindex.sql.statements import (
    COUNTS,
    AggregateCall,
    Having,
    Select,
    SelectExists,
    SortItem,
    is_same_value,
)
from hindex.table.schema import ColumnName

#: What Spark calls the column.
_EXISTS = "exists()"


@dataclass(frozen=True, slots=True)
class Summary:
    """An aggregation, its rows ordered and cut."""

    aggregation: Aggregation
    order: tuple[int, Order] | None
    limit: int | None

    def to_arrow(self) -> pa.Table:
        """The result."""
        found = self.aggregation.to_arrow()
        if self.order is not None:
            at, order = self.order
            item = self.aggregation.items[at]
            is_count = isinstance(item, Aggregate) and item.function in COUNTS
            of = OrcType(Kind.LONG) if is_count or item.column is None else self._type_of(item.column)
            found = sorted_rows(found, found.column(at), OutputColumn("", of), order)
        return found.slice(0, self.limit)

    def explain(self, *, analyze: bool = False) -> Explanation:
        """How it would be answered, see :meth:`~hindex.scan.aggregate.Aggregation.explain`."""
        found = self.aggregation.explain(analyze=analyze)
        analyzed = found.analyzed
        if analyzed is not None and self.limit is not None:
            analyzed = replace(analyzed, rows=min(analyzed.rows, self.limit))
        order = "" if self.order is None else f"{self.order[1]}: the result is sorted"
        return replace(found, order=order, limit=self.limit, analyzed=analyzed)

    def _type_of(self, column: ColumnName) -> OrcType:
        return self.aggregation.snapshot().schema.resolve(column).type


@dataclass(frozen=True, slots=True)
class Existence:
    """Whether a scan has any row, as a column of that name."""

    scan: Scan
    name: str

    def to_arrow(self) -> pa.Table:
        """The result: one boolean."""
        return pa.table({self.name: pa.array([self.scan.exists()])})

    def explain(self, *, analyze: bool = False) -> Explanation:
        """How it would be answered, see :meth:`~hindex.scan.scan.Scan.explain`."""
        limit = 1 if self.scan.row_limit is None else min(self.scan.row_limit, 1)
        found = self.scan.narrowed(self.scan.predicate, [], limit).explain(analyze=analyze)
        # one row is enough, but that is not what was asked
        return replace(found, limit=self.scan.row_limit)


def selected(scan: Scan, select: Select | SelectExists) -> Scan | Summary | Existence:
    """What a statement asks for of a table.

    :param scan: of all rows of the table, in the mode that is wanted.
    :raises ColumnError: for an unknown column.
    """
    if isinstance(select, SelectExists):
        rows = selected(scan, select.rows)
        assert isinstance(rows, Scan)
        return Existence(rows, _EXISTS if select.alias is None else select.alias)
    items = select.items
    found = scan.narrowed(
        select.where,
        None if items is None else [item.value.parts for item in items if isinstance(item.value, ColumnRef)],
        None if select.is_aggregate else select.limit,
        None if items is None or select.is_aggregate else [item.name for item in items],
    )
    if not select.is_aggregate:
        if select.order is None:
            return found
        assert isinstance(select.order.value, ColumnRef)
        return found.order_by(
            select.order.value.parts,
            descending=select.order.descending,
            nulls_first=select.order.nulls_first,
        )
    wanted: list[Item] = []
    for item in items or ():
        if isinstance(item.value, AggregateCall):
            wanted.append(_aggregate(item.value, item.name))
        else:
            wanted.append(Group(item.value.parts, item.name))
    # rows that are sorted are cut afterwards
    limit = None if select.order is not None and select.limit != 0 else select.limit
    groups = [column.parts for column in select.groups]
    having = None if select.having is None else _group_filter(select.having, select.groups)
    summary = found.aggregate(wanted, groups, limit, having)
    return Summary(summary, None if select.order is None else _sorted(select, select.order), select.limit)


def _aggregate(call: AggregateCall, name: str) -> Aggregate:
    return Aggregate(call.function, None if call.column is None else call.column.parts, name)


def _group_filter(having: Having, groups: Sequence[ColumnRef]) -> GroupFilter:
    """A condition of groups with the columns that it may be on.

    :raises ColumnError: for a column that is called like an aggregate.
    """
    calls = [_aggregate(call, str(call)) for call in having.calls]
    for group in groups:
        if any(group.name == call.name for call in calls):
            raise ColumnError(f"HAVING has {group.name}, which is an aggregate and a column: leave it out")
    return GroupFilter(having.predicate, (*(Group(group.parts, group.name) for group in groups), *calls))


def _sorted(select: Select, order: SortItem) -> tuple[int, Order]:
    """Which item the result is ordered by, and how."""
    for at, item in enumerate(select.items or ()):
        if is_same_value(item.value, order.value):
            return at, Order(item.name, order.descending, order.nulls_first)
    raise ColumnError(f"{order.value} is not selected: name it in the list, or leave ORDER BY out")
