"""The order of a query's rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hindex.errors import ArgumentError, ArgumentTypeError
from hindex.formatting import counted
from hindex.table.schema import ColumnName, column_name, spelled
from hindex.validation import collection_items, short_repr
from hindex.value_class import value_class


@value_class
class Order:
    """An order by one column. By default, NULL is first in ascending order and last in descending, as in Spark."""

    column: ColumnName
    descending: bool = False
    nulls_first: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "column", column_name(self.column))

    @property
    def has_nulls_first(self) -> bool:
        return not self.descending if self.nulls_first is None else self.nulls_first

    def __str__(self) -> str:
        direction = " DESC" if self.descending else ""
        nulls = "" if self.nulls_first is None else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{spelled(self.column)}{direction}{nulls}"


def column_orders(
    columns: Sequence[ColumnName], descending: bool | Sequence[bool], nulls_first: bool | None
) -> tuple[Order, ...]:
    """Return the order of each column.

    Args:
        descending: one direction for all columns, or one for each.
        nulls_first: the position of NULL for all columns; None for the default.

    Raises:
        ArgumentError: if there are more or fewer directions than columns.
        ArgumentTypeError: if a direction or ``nulls_first`` is not a boolean.
        ColumnError: for anything but names of columns.
    """
    items = collection_items(descending)
    directions = [descending] * len(columns) if items is None else items
    if not all(isinstance(item, bool | np.bool_) for item in directions):
        raise ArgumentTypeError(
            f"descending is {short_repr(descending)}: pass True or False, or a list with one of them for each column"
        )
    if not isinstance(nulls_first, bool | np.bool_ | None):
        raise ArgumentTypeError(
            f"nulls_first is {short_repr(nulls_first)}: pass True, False or None, for all columns"
        )
    if len(directions) != len(columns):
        raise ArgumentError(
            f"descending has {counted(len(directions), 'value')} for {counted(len(columns), 'column')}: give one for "
            "each, or one for all"
        )
    return tuple(
        Order(column, bool(direction), nulls_first)
        for column, direction in zip(columns, directions, strict=True)
    )
