"""Evaluate conditions on a column on its few possible values, if another condition restricts it to these.

In ``year(d) = 2024 AND month(d) = 3``, the first condition is TRUE for 366 days, and the second for 31 of these.
The 31 days are one domain, which indexes answer:

>>> from hindex.plan.normalize import normalize
>>> from hindex.sql import parse_predicate
>>> from hindex.table.schema import TableColumn, TableSchema
>>> schema = TableSchema((TableColumn("a", OrcType(Kind.INT)),))
>>> [item.low for item in normalize(parse_predicate("a BETWEEN 0 AND 9 AND a % 4 = 1"), schema).domain.ranges]
[1, 5, 9]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from hindex.domain import Domain, Int64s, Range, concatenate_ranges, integer_arrays
from hindex.errors import PredicateError
from hindex.expr.evaluate import evaluate
from hindex.expr.nodes import DATE, Apply, Column, Node, columns, substitute, walk
from hindex.expr.vector import Mask
from hindex.orc.calendars import MICROS_PER_DAY
from hindex.orc.metadata.types import INTEGER_KINDS, Kind, OrcType
from hindex.plan.filter import NEVER, AllOf, Filter, Leaf, Residual
from hindex.plan.rules import all_of, leaf
from hindex.plan.time_zones import TIMESTAMP_KINDS

#: The most values that a condition is evaluated on: the days of 27 years.
_MAX_VALUES = 10_000


def all_on_few_values(children: Sequence[Filter]) -> Filter:
    """Return the conjunction of filters; residuals on columns with few values become part of their leaves."""
    root = all_of(children)
    if not isinstance(root, AllOf):
        return root
    leaves = {child.column: child for child in root.children if _is_on_column(child)}
    others: list[Filter] = []
    for child in root.children:
        joined = _joined(child, leaves) if isinstance(child, Residual) else None
        if isinstance(joined, Leaf):
            leaves[joined.column] = joined
        elif joined is not None:
            return NEVER
        else:
            others.append(child)
    if len(others) == len(root.children):
        return root
    return all_of(leaves[child.column] if _is_on_column(child) else child for child in others)


def _is_on_column(node: Filter) -> TypeGuard[Leaf]:
    return isinstance(node, Leaf) and node.condition is None


def _joined(residual: Residual, leaves: dict[str, Leaf]) -> Filter | None:
    """Return the leaf of a residual's only column, restricted to the values for which the residual holds.

    None if there is no such leaf, if its values are many, or if the residual has no result for one of them.
    """
    names = list(columns(residual.expression))
    first = leaves.get(names[0]) if len(names) == 1 else None
    if first is None or first.values is not None:
        return None
    is_time = first.type.kind in TIMESTAMP_KINDS or first.type.kind is Kind.TIMESTAMP_NTZ
    condition = _on_days(residual.expression) if is_time else residual.expression
    size = MICROS_PER_DAY if is_time else 1
    keys = _keys(first, size)
    if condition is None or keys is None:
        return None
    data_type = columns(condition)[names[0]]
    try:
        array = pa.concat_arrays([_array(keys, data_type), pa.nulls(1, data_type.to_arrow())])
        truth = evaluate(condition, {names[0]: array}, len(array))
    except (PredicateError, pa.ArrowInvalid):
        return None
    if truth.errors is not None:
        return None
    holds = truth.valid & (truth.numbers == residual.wanted)
    domain = _domain(keys, holds[:-1], size)
    domain = replace(domain, null_allowed=bool(holds[-1])).intersect(first.domain)
    return leaf(first.column, first.type, domain, f"{first} AND {residual}")


def _on_days(condition: Node) -> Node | None:
    """Return a condition on the day of a timestamp as one on a date; None if it needs more than the day."""
    (column,) = {node for node in walk(condition) if isinstance(node, Column)}
    changed = substitute(condition, Apply("CAST", (column,), DATE), Column(column.name, DATE))
    return None if column in walk(changed) else changed


def _keys(node: Leaf, size: int) -> Int64s | list[bytes] | None:
    """Return the keys of a leaf in units of some size, ascending, without NULL; None if they cannot be listed."""
    kind = node.type.kind
    if kind in (Kind.STRING, Kind.VARCHAR):
        ranges = node.domain.ranges
        points = [item.low for item in ranges if item.is_point] if len(ranges) <= _MAX_VALUES else []
        return [point for point in points if isinstance(point, bytes)] if len(points) == len(ranges) else None
    if kind not in INTEGER_KINDS and kind is not Kind.DATE and size == 1:
        return None
    lows, highs = (ends // size for ends in integer_arrays(node.domain.ranges))
    if len(lows) + (highs - lows.astype(np.float64)).sum() > _MAX_VALUES:
        return None
    return np.unique(concatenate_ranges(lows, highs - lows + 1))


def _array(keys: Int64s | list[bytes], data_type: OrcType) -> pa.Array:
    arrow_type = data_type.to_arrow()
    if isinstance(keys, list):
        return pa.array(keys, pa.binary()).cast(arrow_type)
    numbers = pa.array(keys)
    return (numbers.cast(pa.int32()) if data_type.kind is Kind.DATE else numbers).cast(arrow_type)


def _domain(keys: Int64s | list[bytes], holds: Mask, size: int) -> Domain:
    if isinstance(keys, list):
        return Domain.points([key for key, is_member in zip(keys, holds, strict=True) if is_member])
    if size == 1:
        return Domain.from_keys(keys[holds])
    return Domain.from_ranges(Range(day * size, (day + 1) * size - 1) for day in keys[holds].tolist())
