"""Values of a data file in the types of its table."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.metadata.types import STRING_KINDS, Kind, OrcType
from hindex.table.schema import bind_columns


def in_table(array: pa.Array, data_type: OrcType, wanted: OrcType) -> pa.Array:
    """Values of the file's type ``of`` as those of the table's.

    The blanks that fill a CHAR are no part of it where it is read as a string of any length, as in Spark, and strings
    that are declared as CHAR are filled with blanks. Fields of structs are found by their names, as columns are, also
    within others.

    :raises pyarrow.ArrowException: if one does not fit.
    """
    arrow = wanted.to_arrow()
    if not data_type.same_as(wanted):
        match data_type.kind:
            case Kind.CHAR if wanted.kind is not Kind.CHAR:
                array = pc.ascii_rtrim(array, characters=" ")
            case a if a in STRING_KINDS and wanted.kind is Kind.CHAR:
                trimmed = pc.ascii_rtrim(array, characters=" ") if a is Kind.CHAR else array
                array = pc.utf8_rpad(trimmed, width=wanted.max_length, padding=" ")
            case Kind.STRUCT:
                # a cast would take fields in their order, and those spelled otherwise for missing ones
                array = pa.StructArray.from_arrays(
                    _fields(array, data_type, wanted), fields=list(arrow), mask=array.is_null()
                )
            case Kind.LIST:
                array = _around(
                    arrow, array, in_table(array.values, data_type.children[0], wanted.children[0])
                )
            case Kind.MAP:
                both = zip((array.keys, array.items), data_type.children, wanted.children, strict=True)
                entries = pa.StructArray.from_arrays(
                    [in_table(*item) for item in both], fields=[arrow.key_field, arrow.item_field]
                )
                array = _around(arrow, array, entries)
    return array if array.type == arrow else array.cast(arrow)


def _fields(array: pa.StructArray, data_type: OrcType, wanted: OrcType) -> list[pa.Array]:
    """The fields of the table's struct; nulls where the file's has none."""
    bound = bind_columns(wanted.field_names, data_type.field_names)
    return [
        pa.nulls(len(array), child.to_arrow())
        if at is None
        else in_table(array.field(at), data_type.children[at], child)
        for child, at in zip(wanted.children, bound, strict=True)
    ]


def _around(arrow: pa.DataType, array: pa.Array, elements: pa.Array) -> pa.Array:
    """The same lists, or maps, of other elements."""
    return pa.Array.from_buffers(
        arrow, len(array), array.buffers()[:2], offset=array.offset, children=[elements]
    )
