"""The condition of HAVING: its names stand for what is grouped by or selected, and its aggregates for their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hindex.sql.convert import AGGREGATES, Converter
from hindex.sql.predicate import (
    Arithmetic,
    Call,
    Case,
    Cast,
    ColumnRef,
    Literal,
    Predicate,
    as_predicate,
)
from hindex.sql.statements import (
    AggregateCall,
    AggregateFunction,
    AggregateRef,
    Having,
    SelectItem,
    is_same_column,
    is_same_value,
)
from hindex.sql.words import WITH_SPARK

_FUNCTIONS = {
    item.name: item for item in (AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX)
}


def to_having(
    node: exp.Expression,
    sql: str,
    items: Sequence[SelectItem],
    groups: Sequence[ColumnRef],
    unqualified: Callable[[ColumnRef], ColumnRef],
) -> Having:
    """Return the condition on groups of a parsed boolean expression.

    Args:
        items: what is selected of them.
        unqualified: returns a column without the name of its table.

    Raises:
        SqlSyntaxError: with the offset in ``sql``.
    """
    converter = _HavingConverter(sql, items, groups, unqualified)
    return Having(converter.condition(node), tuple(sorted(converter.calls, key=str)))


class _HavingConverter(Converter):
    """Converts as Spark resolves: a name is first a column that is grouped by, then what is selected under it."""

    def __init__(
        self,
        sql: str,
        items: Sequence[SelectItem],
        groups: Sequence[ColumnRef],
        unqualified: Callable[[ColumnRef], ColumnRef],
    ) -> None:
        super().__init__(sql, WITH_SPARK, unqualified)
        self._items = items
        self._groups = groups
        #: The aggregates that were met.
        self.calls: set[AggregateCall] = set()

    def condition(self, node: exp.Expression) -> Predicate:
        """Convert the whole condition: Spark casts a value to BOOLEAN there, but not below AND, OR and NOT."""
        value = self.expression(node)
        match value:
            case Literal(bool() | None) | Cast(_, "BOOLEAN"):
                pass
            case Arithmetic() | Call() | Case() | Cast() | ColumnRef() | Literal():
                value = Cast(value, "BOOLEAN")
        return as_predicate(value)

    def column(self, node: exp.Expression, written: ColumnRef) -> ColumnRef:
        """Resolve a name in HAVING."""
        group = self._group(self._unqualified(written))
        if group is not None:
            return group
        named = [item.value for item in self._items if item.output_name == written.name.lower()]
        if len(written.parts) > 1 or not named:
            self.fail(
                node,
                f"HAVING of {written}, which is neither grouped by nor selected: put it into WHERE, or an aggregate "
                "around it",
            )
        if not all(is_same_value(value, named[0]) for value in named):
            self.fail(node, f"HAVING of {written}, which stands for more than one column", unsupported=True)
        value = named[0]
        return self._made(value) if isinstance(value, AggregateCall) else self._group(value) or value

    def aggregate(self, node: exp.Expression) -> ColumnRef | None:
        """Return the column of groups that holds an aggregate; None for any other function."""
        function = _FUNCTIONS.get(node.name.upper())
        if function is None:
            if node.name.upper() in AGGREGATES:
                self.fail(node, f"{node.name.upper()} in HAVING", unsupported=True)
            return None
        arguments = list(node.expressions)
        if function is AggregateFunction.COUNT and len(arguments) == 1:
            only = arguments[0]
            is_one = isinstance(only, exp.Literal) and only.this == "1" and not only.is_string
            if is_one or isinstance(only, exp.Star):
                return self._made(AggregateCall(function))
            if isinstance(only, exp.Distinct) and not only.args.get("on"):
                function, arguments = AggregateFunction.COUNT_DISTINCT, list(only.expressions)
        written = self.written(arguments[0]) if len(arguments) == 1 else None
        if written is None:
            self.fail(node, f"{node.name.upper()} of anything but a column in HAVING", unsupported=True)
        column = self._unqualified(written)
        if self._group(column) is None and function is not AggregateFunction.COUNT_DISTINCT:
            by = ", ".join(map(str, self._groups))
            self.fail(
                node,
                f"{AggregateCall(function, column)} in a query that groups by {by} alone",
                unsupported=True,
            )
        return self._made(AggregateCall(function, column))

    def _group(self, column: ColumnRef) -> ColumnRef | None:
        """Return the grouping column that a name refers to, if any."""
        if column in self._groups:
            return column
        return next((group for group in self._groups if is_same_column(column, group)), None)

    def _made(self, call: AggregateCall) -> ColumnRef:
        self.calls.add(call)
        return AggregateRef((str(call),), call)
