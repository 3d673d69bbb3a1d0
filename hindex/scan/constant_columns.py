"""Columns that a filter fixes to one value: of rows that are wanted they need not be read."""

from __future__ import annotations

import pyarrow as pa

from hindex.keys import are_values, key_array, single_key
from hindex.plan.filter import AllOf, Filter, Leaf

#: An array of one repeated value may have so many bytes.
_MOST_BYTES = 1 << 30


def constant_values(root: Filter) -> dict[str, pa.Array]:
    """The value, null among them, that each of some columns has in every row that a filter keeps, as an array of one.

    None of a type whose equal values may differ, as -0.0 and 0.0 do.
    """
    found: dict[str, pa.Array] = {}
    for part in root.children if isinstance(root, AllOf) else (root,):
        if not isinstance(part, Leaf):
            continue
        domain = part.decoded
        if domain.null_allowed and not domain.ranges:
            found[part.column] = pa.nulls(1, part.type.to_arrow())
        elif not domain.null_allowed and len(domain.ranges) == 1 and are_values(part.type):
            only = domain.ranges[0]
            if only.is_point:
                assert only.low is not None
                found[part.column] = key_array(part.type, single_key(only.low))
    return found


def repeat_value(one: pa.Array, rows: int) -> pa.Array | None:
    """A fixed value, so many times; None where that is too large for one array."""
    if one.null_count:
        return pa.nulls(rows, one.type)
    return pa.repeat(one[0], rows) if one.nbytes * rows <= _MOST_BYTES else None
