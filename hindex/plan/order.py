"""The order of a query's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hindex.errors import ArgumentError
from hindex.table.schema import ColumnName, column_name, spelled
from hindex.validation import collection_items


@dataclass(frozen=True, slots=True)
class Order:
    """Rows by the values of a column. NULL comes first in ascending order and last in descending, as in Spark."""

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
        descending: for all columns, or one for each.

    Raises:
        ArgumentError: if there are more or fewer directions than columns.
        ColumnError: for anything but names of columns.
    """
    items = collection_items(descending)
    directions = [bool(descending)] * len(columns) if items is None else list(map(bool, items))
    if len(directions) != len(columns):
        raise ArgumentError(
            f"descending has {len(directions)} values for {len(columns)} columns: give one for each, or one for all"
        )
    return tuple(Order(*pair, nulls_first) for pair in zip(columns, directions, strict=True))
