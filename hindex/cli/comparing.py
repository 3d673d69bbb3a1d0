"""Comparing the rows that two readers return."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def same_rows(ours: pa.Table, theirs: pa.Table) -> bool:
    """Return True if two tables hold the same rows, each as often, in any order.

    NaN equals NaN, and -0.0 equals 0.0.
    """
    if ours.schema.names != theirs.schema.names or ours.num_rows != theirs.num_rows:
        return False
    if any(pa.types.is_nested(kind) for kind in ours.schema.types) or not ours.num_columns:
        first, second = (Counter(map(_plain, table.to_pylist())) for table in (ours, theirs))
        return first == second
    first, second = map(_bits, (ours, theirs.cast(ours.schema)))
    keys = [(name, "ascending") for name in first.schema.names]
    return bool(first.sort_by(keys).equals(second.sort_by(keys)))


def _bits(table: pa.Table) -> pa.Table:
    """Floating columns as integers that are equal where the values are."""
    for at, kind in enumerate(table.schema.types):
        if pa.types.is_floating(kind):
            column = table.column(at)
            values = np.asarray(column.cast(pa.float64()).fill_null(0.0))
            whole = (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)
            array = pc.if_else(column.is_valid(), pa.array(whole), pa.scalar(None, pa.int64()))
            table = table.set_column(at, table.schema.names[at], array)
    return table


def _plain(value: object) -> str:
    """One nested value as text, equal where the values are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else repr(value + 0.0)
    return repr(value)
