"""Values of a data file in the types of its table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.types import Kind, OrcType
from hindex.table.schema import bind_columns


def in_table(array: pa.Array, of: OrcType, wanted: OrcType) -> pa.Array:
    """Values of the file's type ``of`` as those of the table's.

    :raises pyarrow.ArrowException: if one does not fit.
    """
    if not of.same_as(wanted) and any(node.kind is Kind.CHAR for node in of.walk()):
        array = _without_blanks(array, of, wanted)
    arrow = wanted.to_arrow()
    return array if array.type == arrow else array.cast(arrow)


def _without_blanks(array: pa.Array, of: OrcType, wanted: OrcType) -> pa.Array:
    """The same values but for the blanks that fill a CHAR, also within others.

    They are no part of it where it is read as a text of any length, as in Spark.
    """
    match of.kind:
        case Kind.CHAR if wanted.kind is not Kind.CHAR:
            return pc.ascii_rtrim(array, characters=" ")
        case Kind.STRUCT:
            bound = bind_columns(of.field_names, wanted.field_names)
            fields = [
                array.field(i) if at is None else _without_blanks(array.field(i), child, wanted.children[at])
                for i, (child, at) in enumerate(zip(of.children, bound, strict=True))
            ]
            return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=array.is_null())
        case Kind.LIST:
            return _around(array, _without_blanks(array.values, of.children[0], wanted.children[0]))
        case Kind.MAP:
            both = zip((array.keys, array.items), of.children, wanted.children, strict=True)
            entries = [array.type.key_field, array.type.item_field]
            return _around(
                array, pa.StructArray.from_arrays([_without_blanks(*item) for item in both], fields=entries)
            )
        case _:
            return array


def _around(array: pa.Array, elements: pa.Array) -> pa.Array:
    """The same lists, or maps, of other elements."""
    return pa.Array.from_buffers(
        array.type, len(array), array.buffers()[:2], offset=array.offset, children=[elements]
    )
