"""The schema of a data file, and its values in the types of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.acid.schema import acid_columns, is_row_key
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.types import STRING_KINDS, Kind, OrcType
from hindex.table.schema import bind_columns
from hindex.table.type_text import parse_type

#: The attribute of a file's type in which Spark keeps a type that ORC does not have.
SPARK_TYPE = "spark.sql.catalyst.type"


#: How the names of all columns begin in files of old Hive versions, which have no names of their own.
_UNNAMED = "_col"


def file_schema(tail: FileTail) -> OrcType:
    """Return the root type of a data file, with TIMESTAMP_NTZ where Spark wrote it as bigint."""
    types = tail.footer.types
    wall_clocks = {
        column
        for column, node in enumerate(types)
        if any(item.key == SPARK_TYPE and item.value == "timestamp_ntz" for item in node.attributes)
    }
    return _with_wall_clocks(tail.schema, wall_clocks) if wall_clocks else tail.schema


def _with_wall_clocks(data_type: OrcType, columns: set[int]) -> OrcType:
    if data_type.kind is Kind.LONG and data_type.column in columns:
        return replace(data_type, kind=Kind.TIMESTAMP_NTZ)
    children = tuple(_with_wall_clocks(child, columns) for child in data_type.children)
    return replace(data_type, children=children)


def are_positional(names: Sequence[str], file_names: Sequence[str]) -> bool:
    """Return True if a file's columns are the table's by their positions: old Hive versions wrote no names.

    Source: Spark, ``OrcUtils.requestedColumnIds``.
    """
    return (
        bool(file_names)
        and all(name.startswith(_UNNAMED) for name in file_names)
        and not set(file_names) & set(names)
    )


def bind_file_columns(names: Sequence[str], file_names: Sequence[str]) -> tuple[int | None, ...]:
    """Return the position of each of the table's data columns in a file; None for one that the file lacks."""
    if are_positional(names, file_names):
        return tuple(at if at < len(file_names) else None for at in range(len(names)))
    return bind_columns(names, file_names)


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


@lru_cache(maxsize=256)
def stored_columns(binding: tuple[str, ...], names: tuple[str, ...]) -> frozenset[str]:
    """Return the table's columns that a file with these column names has."""
    bound = bind_file_columns(binding, names)
    return frozenset(name for name, at in zip(binding, bound, strict=True) if at is not None)


@lru_cache(maxsize=256)
def stored_type(
    binding: tuple[str, ...], columns: tuple[tuple[str, OrcType], ...], column: str
) -> OrcType | None:
    """Return the type of a table's column, or of a field by its dotted path, in a file; None if it lacks that."""
    names, types = tuple(name for name, _ in columns), tuple(of for _, of in columns)
    root = OrcType(Kind.STRUCT, children=types, field_names=names)
    path = bind_paths(binding, root, [column]).get(column)
    return None if path is None else path.type


@lru_cache(maxsize=256)
def recorded_type(schema: str, binding: tuple[str, ...], column: str, transactional: bool) -> OrcType | None:
    """The type that a file of a recorded schema has for a column of the table."""
    try:
        found = bind_paths(binding, parse_type(schema), [column], transactional=transactional).get(column)
    except ValueError:
        return None
    return None if found is None else found.type


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
