"""Columns by their names and dotted paths, and the nodes above and below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hindex.errors import ColumnError
from hindex.orc.metadata.types import Kind, OrcType


@dataclass(frozen=True, slots=True)
class Projection:
    """A column to read: its name as it was asked for, its type, and the structs from the root down to it.

    ``parents`` begins with the root, whose own type is a struct in every file that can be read.
    """

    name: str
    of: OrcType
    parents: tuple[OrcType, ...]

    @property
    def is_nested(self) -> bool:
        return len(self.parents) > 1

    def nodes(self) -> Iterator[OrcType]:
        """All columns that have to do with it, from the root down."""
        yield from self.parents
        yield from self.of.walk()


def project(root: OrcType, name: str, path: str) -> Projection:
    """The column of a name or dotted path.

    A field whose own name has dots goes before a path: ``a.b`` is the field ``a.b`` if there is one, then the
    field ``b`` of the struct ``a``, at every level.

    :param path: of the file, for messages.
    :raises ColumnError: if there is no such column, or the path leads into a list, map or union.
    """
    blocked: list[tuple[str, OrcType]] = []
    found = _find(root, name, (root,), blocked, 0)
    if found is not None:
        return Projection(name, *found)
    if blocked:
        prefix, of = blocked[0]
        raise ColumnError(
            f"Column {name!r} cannot be resolved in {path}: {prefix!r} is {of}, and only the fields of structs can "
            f"be read by themselves; read {prefix!r} whole"
        )
    raise ColumnError(
        f"Column {name!r} cannot be resolved in {path}: its columns are {', '.join(root.field_names)}"
    )


def _find(
    node: OrcType, name: str, parents: tuple[OrcType, ...], blocked: list[tuple[str, OrcType]], at: int
) -> tuple[OrcType, tuple[OrcType, ...]] | None:
    """The node that ``name[at:]`` means within a struct, longer field names first."""
    fields = dict(zip(reversed(node.field_names), reversed(node.children), strict=True))
    rest = name[at:]
    if rest in fields:
        return fields[rest], parents
    end = rest.rfind(".")
    while end >= 0:
        child = fields.get(rest[:end])
        if child is not None and child.kind == Kind.STRUCT:
            found = _find(child, name, (*parents, child), blocked, at + end + 1)
            if found is not None:
                return found
        elif child is not None:
            blocked.append((name[: at + end], child))
        end = rest.rfind(".", 0, end)
    return None


def project_all(root: OrcType, names: Sequence[str] | None, path: str) -> list[Projection]:
    """The columns of names, or all top-level ones."""
    if names is None:
        return [
            Projection(name, of, (root,)) for name, of in zip(root.field_names, root.children, strict=True)
        ]
    if isinstance(names, str):
        raise ColumnError(f"columns are a list of names, not the text {names!r}: write [{names!r}]")
    return [project(root, name, path) for name in names]


# The writer in C++ gives values to the children of null values, and no reader skips these: the children of a null
# union, and the fields of a null struct within another struct. Readers take them for the values of later rows, in each
# stripe anew. So the positions, statistics and filters of such children do not fit the values that are read.


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
