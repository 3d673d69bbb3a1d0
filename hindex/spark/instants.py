"""The instants that Spark's ORC reader makes of wall clocks: by the default zone of its Java, not the session's.

Executors import this file: it knows neither Spark nor SQL.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hindex.orc.columns.zones import instants
from hindex.orc.types import Kind, OrcType


def with_instants(of: OrcType) -> OrcType:
    """A type with instants in place of wall clocks, at any depth."""
    if of.kind is Kind.TIMESTAMP:
        return replace(of, kind=Kind.TIMESTAMP_INSTANT)
    return replace(of, children=tuple(map(with_instants, of.children)))


def as_instants(array: pa.Array, of: OrcType, zone: str) -> pa.Array:
    """Values of a type as those of :func:`with_instants`: the instants at which a clock of a zone shows them.

    :raises OrcError: if the zone is not known here.
    """
    if not any(part.kind is Kind.TIMESTAMP for part in of.walk()):
        return array
    wanted = with_instants(of).to_arrow()
    if of.kind is Kind.TIMESTAMP:
        clocks = np.asarray(array.cast(pa.int64()).fill_null(0))
        return pa.array(instants(clocks, zone), wanted, mask=np.asarray(array.is_null()))
    if of.kind is Kind.STRUCT:
        fields = [as_instants(array.field(at), child, zone) for at, child in enumerate(of.children)]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())
    if of.kind is Kind.MAP:
        entries = [
            as_instants(held, child, zone)
            for held, child in zip((array.keys, array.items), of.children, strict=True)
        ]
        inner = pa.StructArray.from_arrays(entries, fields=[wanted.key_field, wanted.item_field])
    else:
        inner = as_instants(array.values, of.children[0], zone)
    return pa.Array.from_buffers(
        wanted, len(array), array.buffers()[:2], array.null_count, array.offset, children=[inner]
    )
