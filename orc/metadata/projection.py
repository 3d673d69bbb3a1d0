"""Resolve columns by their names and dotted paths, with the nodes above and below them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from hindex.errors import ColumnError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.value_class import value_class


@value_class
class Projection:
    """A column to read: its requested name, its type, and the structs from the root down to it.

    ``parents`` begins with the root, which is a struct in every readable file.
    """

    name: str
    data_type: OrcType
    parents: tuple[OrcType, ...]

    def nodes(self) -> Iterator[OrcType]:
        """Yield the column's parents, the column and its descendants."""
        yield from self.parents
        yield from self.data_type.walk()


#: The fields of structs by name, by the id of the struct's type, to look up many names.
_Fields = dict[int, dict[str, OrcType]]


def project(root: OrcType, name: str, path: str, fields: _Fields | None = None) -> Projection:
    """Resolve a name or dotted path.

    A field whose own name has dots has precedence: ``a.b`` is the field ``a.b`` if there is one, or else the field
    ``b`` of the struct ``a``, at every level.

    Args:
        path: the file, for messages.
        fields: the fields of structs of the same tree, as far as they have been needed; more are added.

    Raises:
        ColumnError: if there is no such column, or the path leads into a list, map or union.
    """
    blocked: list[tuple[str, OrcType]] = []
    match = _find(root, name, (root,), blocked, 0, {} if fields is None else fields, set())
    if match is not None:
        return Projection(name, *match)
    if blocked:
        prefix, data_type = blocked[0]
        raise ColumnError(
            f"Column {name!r} cannot be resolved in {path}: {prefix!r} is {data_type}, and only fields of structs "
            f"can be read by themselves; read {prefix!r} whole"
        )
    raise ColumnError(
        f"Column {name!r} cannot be resolved in {path}: its columns are {', '.join(root.field_names)}"
    )


def _find(
    node: OrcType,
    name: str,
    parents: tuple[OrcType, ...],
    blocked: list[tuple[str, OrcType]],
    start: int,
    fields_of: _Fields,
    visited: set[tuple[int, int]],
) -> tuple[OrcType, tuple[OrcType, ...]] | None:
    """Find the node of ``name[start:]`` within a struct, longer field names first.

    Args:
        visited: structs and starts without a match. Names with many dots reach the same ones in many ways.
    """
    if (id(node), start) in visited:
        return None
    visited.add((id(node), start))
    fields = fields_of.get(id(node))
    if fields is None:
        pairs = zip(reversed(node.field_names), reversed(node.children), strict=True)
        fields = fields_of[id(node)] = dict(pairs)
    rest = name[start:]
    if rest in fields:
        return fields[rest], parents
    end = rest.rfind(".")
    while end >= 0:
        child = fields.get(rest[:end])
        if child is not None and child.kind == Kind.STRUCT:
            match = _find(child, name, (*parents, child), blocked, start + end + 1, fields_of, visited)
            if match is not None:
                return match
        elif child is not None:
            blocked.append((name[: start + end], child))
        end = rest.rfind(".", 0, end)
    return None


def project_all(root: OrcType, names: Sequence[str] | None, path: str) -> list[Projection]:
    """Resolve names, or all top-level columns if None."""
    if names is None:
        return [
            Projection(name, data_type, (root,))
            for name, data_type in zip(root.field_names, root.children, strict=True)
        ]
    if isinstance(names, str):
        raise ColumnError(f"columns is the string {names!r}: pass a list, [{names!r}]")
    fields = _Fields()
    return [project(root, name, path, fields) for name in names]


# The C++ writer writes values for the children of some null values, which no reader skips: the children of a null
# union, and the fields of a null struct within another struct. Readers use them as the values of later rows of the
# stripe. So the positions, statistics and filters of such children do not fit the values that are read.


def cpp_null_parents(column: Projection) -> Iterator[OrcType]:
    """Yield the nodes of a column and its parents whose nulls displace the values of their children."""
    yield from column.parents[2:]
    yield from _misplacing_below(column.data_type, len(column.parents) - 1)


def misplacing_ancestors(root: OrcType, column: int) -> list[OrcType]:
    """Return the displacing nodes above a column number; [] if there is no such column."""
    structs, ancestors, node = 0, list[OrcType](), root
    while node.column < column and node.children:
        if node is not root:
            structs += node.kind == Kind.STRUCT
            if _misplaces(node, structs):
                ancestors.append(node)
        # types are in pre-order
        node = node.children[bisect_right(node.children, column, key=lambda child: child.column) - 1]
    return ancestors


def _misplacing_below(data_type: OrcType, structs: int) -> Iterator[OrcType]:
    """Yield the displacing nodes among a node and its descendants.

    Args:
        structs: the number of structs above it, without the root.
    """
    structs += data_type.kind == Kind.STRUCT
    if _misplaces(data_type, structs):
        yield data_type
    for child in data_type.children:
        yield from _misplacing_below(child, structs)


def _misplaces(data_type: OrcType, structs: int) -> bool:
    return data_type.kind == Kind.UNION or (data_type.kind == Kind.STRUCT and structs > 1)
