"""Find columns, and fields within structs, in a file's type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hindex.orc.acid.schema import acid_columns, is_row_key
from hindex.orc.metadata.types import Kind, OrcType
from hindex.table.declared import bind_file_columns


@dataclass(frozen=True, slots=True)
class FilePath:
    """A column of a file: its dotted path as the file spells it, and its type there."""

    path: str
    type: OrcType


def bind_paths(
    binding: tuple[str, ...], root: OrcType, wanted: Iterable[str], *, transactional: bool = False
) -> dict[str, FilePath]:
    """Return the positions of columns in a file, without those that it lacks.

    Fields are matched as columns are: exactly, or else by letter case alone where one field does so. Columns of files
    that have no names of their own are matched by their positions.

    :param binding: the table's data columns.
    :param root: the file's type.
    :param wanted: names of data columns, or dotted paths of fields within them.
    :param transactional: whether the file is of a transactional directory: where it has the ACID schema, the table's
        columns are the fields of its last one, and the fields of row keys are columns beside that.
    """
    acid = acid_columns(root) if transactional else None
    prefix = "" if acid is None else f"{acid.row}."
    file, root = root, root if acid is None else acid.user
    at = dict(zip(binding, bind_file_columns(binding, root.field_names), strict=True))
    found: dict[str, FilePath] = {}
    for name in wanted:
        if acid is not None and is_row_key(name, binding):
            column = acid.key_column(name)
            if column is not None:
                found[name] = FilePath(column, file.children[file.field_names.index(column)])
            continue
        for top, rest in _splits(name, at):
            position = at[top]
            if position is None:
                if not rest:
                    break  # the table's column of that name, which the file lacks, whatever fields it has
                continue
            path = _descend(FilePath(prefix + root.field_names[position], root.children[position]), rest)
            if path is not None:
                found[name] = path
                break
    return found


def _splits(name: str, columns: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The ways to take a name for a column and fields within it; a column of just that name comes first."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        top = ".".join(parts[:count])
        if top in columns:
            yield top, parts[count:]


def _descend(at: FilePath, fields: list[str]) -> FilePath | None:
    for field in fields:
        if at.type.kind is not Kind.STRUCT:
            return None
        names = at.type.field_names
        same = [name for name in names if name == field]
        same = same or [name for name in names if name.lower() == field.lower()]
        if len(same) != 1:
            return None
        at = FilePath(f"{at.path}.{same[0]}", at.type.children[names.index(same[0])])
    return at
