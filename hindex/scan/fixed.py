"""Columns that a filter fixes to one value: of rows that are wanted they need not be read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from hindex.keys import KeyKind, are_values, key_array, key_kind
from hindex.plan.filter import AllOf, Filter, Leaf

#: An array of one repeated value may have so many bytes.
_MOST_BYTES = 1 << 30


def fixed_values(root: Filter) -> dict[str, pa.Scalar[Any]]:
    """The value, null among them, that each of some columns has in every row that a filter keeps.

    None of a type whose equal values may differ, as -0.0 and 0.0 do.
    """
    found: dict[str, pa.Scalar[Any]] = {}
    for part in root.children if isinstance(root, AllOf) else (root,):
        if not isinstance(part, Leaf):
            continue
        domain = part.domain
        if domain.null_allowed and not domain.ranges:
            found[part.column] = pa.scalar(None, part.type.to_arrow())
        elif not domain.null_allowed and len(domain.ranges) == 1 and are_values(part.type):
            only = domain.ranges[0]
            if only.is_point:
                is_number = key_kind(part.type) is KeyKind.INT64
                keys = (
                    np.array([only.low], np.int64) if is_number else pa.array([only.low], pa.large_binary())
                )
                found[part.column] = key_array(part.type, keys)[0]
    return found


def repeated(value: pa.Scalar[Any], rows: int) -> pa.Array | None:
    """A fixed value, so many times; None where that is too large for one array."""
    if not value.is_valid:
        return pa.nulls(rows, value.type)
    return pa.repeat(value, rows) if pa.repeat(value, 1).nbytes * rows <= _MOST_BYTES else None
