"""Functions of arrays and maps.

Source: Spark's ``collectionOperations.scala`` and ``complexTypeExtractors.scala``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hindex.expr.vector import Vector, of_truth
from hindex.keys import array_keys, list_elements
from hindex.orc.metadata.types import Kind, OrcType


def contains_any(_: OrcType, lists: Vector, *values: Vector) -> Vector:
    """Evaluate whether arrays contain some of the values; NULL if not, and an element is NULL.

    Args:
        values: constants of the type of the elements, none NULL.
    """
    element = lists.type.children[0]
    elements, rows = list_elements(lists.array)
    wanted = [array_keys(element, value.array[:1]) for value in values]
    keys = array_keys(element, elements)
    if isinstance(keys, np.ndarray):
        is_wanted = np.isin(keys, np.concatenate(wanted))
    else:
        is_wanted = np.asarray(pc.is_in(keys, value_set=pa.concat_arrays(wanted)))
    is_null = np.asarray(elements.is_null())
    truth, has_null = (np.zeros(len(lists), np.bool_) for _ in range(2))
    truth[rows[is_wanted & ~is_null]] = True
    has_null[rows[is_null]] = True
    return of_truth(truth, lists.valid & (truth | ~has_null))


def array(data_type: OrcType, *values: Vector) -> Vector:
    n, count = len(values[0]), len(values)
    order = np.arange(n * count).reshape(count, n).T.ravel()
    elements = pa.concat_arrays([value.array for value in values]).take(pa.array(order))
    return Vector(
        data_type, pa.ListArray.from_arrays(pa.array(np.arange(n + 1) * count, pa.int32()), elements)
    )


def map_keys(data_type: OrcType, maps: Vector) -> Vector:
    return Vector(data_type, _as_list(data_type, maps.array, maps.array.keys))


def map_values(data_type: OrcType, maps: Vector) -> Vector:
    return Vector(data_type, _as_list(data_type, maps.array, maps.array.items))


def element_field(data_type: OrcType, lists: Vector, at: str) -> Vector:
    """Return a field of the elements of arrays of structs, by its position."""
    field = pc.struct_field(lists.array.values, [int(at)])
    return Vector(data_type, _as_list(data_type, lists.array, field))


def _as_list(data_type: OrcType, maps: pa.Array, children: pa.Array) -> pa.ListArray:
    """Return lists with the offsets and nulls of maps, or of other lists."""
    return pa.Array.from_buffers(
        data_type.to_arrow(), len(maps), maps.buffers()[:2], offset=maps.offset, children=[children]
    )


def value_of_key(data_type: OrcType, maps: Vector, key: Vector) -> Vector:
    """Return the value of a key in each map, the first if the key is there more than once; NULL if it is not."""
    n = len(maps)
    if not n:
        return Vector(data_type, pa.nulls(0, data_type.to_arrow()))
    key_type, value_type = maps.type.children
    names, rows = list_elements(_as_list(_list_of(key_type), maps.array, maps.array.keys))
    items, _ = list_elements(_as_list(_list_of(value_type), maps.array, maps.array.items))
    keys, wanted = array_keys(key_type, names), array_keys(key_type, key.array[:1])
    is_wanted = keys == wanted[0] if isinstance(keys, np.ndarray) else np.asarray(pc.equal(keys, wanted[0]))
    places = np.flatnonzero(is_wanted)
    owners, firsts = np.unique(rows[places], return_index=True)
    chosen = np.full(n, -1, np.int64)
    chosen[owners] = places[firsts]
    array = items.take(pa.array(chosen, mask=chosen < 0))
    return Vector(
        data_type, array if array.type == data_type.to_arrow() else array.cast(data_type.to_arrow())
    )


def _list_of(data_type: OrcType) -> OrcType:
    return OrcType(Kind.LIST, children=(data_type,))
