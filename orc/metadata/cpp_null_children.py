"""Values that the writer in C++ gives to what is within null values, and that no reader skips.

It gives the children of a union a value where the union is null, and the fields of a struct within another struct where
that inner struct is null. Readers take them for the values of later rows, in each stripe anew. So what the writer tells
of rows and row groups does not fit what is read: neither positions nor statistics nor filters.
"""

from __future__ import annotations

from collections.abc import Iterator

from hindex.orc.metadata.projection import Projection
from hindex.orc.metadata.types import Kind, OrcType


def has_misplaced_children(column: Projection) -> Iterator[OrcType]:
    """The nodes of a column and above it that misplace what is below them where one of them is null."""
    yield from column.parents[2:]
    yield from _below(column.of, len(column.parents) - 1)


def misplacing_above(root: OrcType, column: int) -> list[OrcType]:
    """Those above a node, which is told by its number; none where there is no such node."""
    structs, found, node = 0, list[OrcType](), root
    while node.column < column and node.children:
        if node is not root:
            structs += node.kind == Kind.STRUCT
            if _misplaces(node, structs):
                found.append(node)
        # types are in pre-order
        node = [child for child in node.children if child.column <= column][-1]
    return found


def _below(data_type: OrcType, structs: int) -> Iterator[OrcType]:
    """A node and those below it, which is within so many structs besides the root."""
    structs += data_type.kind == Kind.STRUCT
    if _misplaces(data_type, structs):
        yield data_type
    for child in data_type.children:
        yield from _below(child, structs)


def _misplaces(data_type: OrcType, structs: int) -> bool:
    return data_type.kind == Kind.UNION or (data_type.kind == Kind.STRUCT and structs > 1)
