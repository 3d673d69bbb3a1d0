"""The schema of a data file, and its values in the types of the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from hindex.orc.acid.schema import acid_columns, is_row_key
from hindex.orc.decode.arrow_arrays import pad_strings
from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.types import STRING_KINDS, Kind, OrcType
from hindex.table.schema import bind_columns, bind_file_columns, field_name, split_name
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

#: The attribute of a file's type in which Spark stores a type that ORC does not have.
SPARK_TYPE = "spark.sql.catalyst.type"


def file_schema(tail: FileTail) -> OrcType:
    """Return the root type of a data file, with TIMESTAMP_NTZ where Spark wrote it as bigint."""
    types = tail.footer.types
    ntz_columns = {
        column
        for column, node in enumerate(types)
        if any(item.key == SPARK_TYPE and item.value == "timestamp_ntz" for item in node.attributes)
    }
    return _with_wall_clocks(tail.schema, ntz_columns) if ntz_columns else tail.schema


def _with_wall_clocks(data_type: OrcType, columns: set[int]) -> OrcType:
    if data_type.kind is Kind.LONG and data_type.column in columns:
        return replace(data_type, kind=Kind.TIMESTAMP_NTZ)
    children = tuple(_with_wall_clocks(child, columns) for child in data_type.children)
    return replace(data_type, children=children)


@value_class
class FilePath:
    """A column of a file: its dotted path as the file spells it, and its type there."""

    path: str
    type: OrcType


def bind_paths(
    binding: tuple[str, ...], root: OrcType, columns: Iterable[str], *, transactional: bool = False
) -> dict[str, FilePath]:
    """Find columns, and fields within structs, in a file's type; columns that the file lacks are missing.

    Fields are matched as columns are: exactly, or else by a single name that differs in letter case only. Columns of
    files without names of their own are matched by their positions.

    Args:
        binding: the table's data columns.
        root: the file's type.
        wanted: names of data columns, or dotted paths of fields within them.
        transactional: whether the file is in a transactional directory: in the ACID schema, the table's columns are the
            fields of the last column, and the fields of row keys are the columns before it.
    """
    acid = acid_columns(root) if transactional else None
    prefix = "" if acid is None else f"{acid.row}."
    file, root = root, root if acid is None else acid.user
    positions = dict(zip(binding, bind_file_columns(binding, root.field_names), strict=True))
    paths: dict[str, FilePath] = {}
    for name in columns:
        if acid is not None and is_row_key(name, binding):
            column = acid.key_column(name)
            if column is not None:
                paths[name] = FilePath(column, file.children[file.field_names.index(column)])
            continue
        for top, rest in _splits(name, positions):
            position = positions[top]
            if position is None:
                if not rest:
                    break  # the file lacks the table's column of that name, whatever fields it has
                continue
            path = _descend(FilePath(prefix + root.field_names[position], root.children[position]), rest)
            if path is not None:
                paths[name] = path
                break
    return paths


def _splits(name: str, columns: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the ways to split a name into a column and fields within it, the column of the whole name first."""
    parts = split_name(name)
    for count in range(len(parts), 0, -1):
        column = ".".join(parts[:count])
        if column in columns:
            yield column, [field_name(part) for part in parts[count:]]


def _descend(at: FilePath, fields: list[str]) -> FilePath | None:
    for field in fields:
        if at.type.kind is not Kind.STRUCT:
            return None
        names = at.type.field_names
        matching = [name for name in names if name == field]
        matching = matching or [name for name in names if name.lower() == field.lower()]
        if len(matching) != 1:
            return None
        at = FilePath(f"{at.path}.{matching[0]}", at.type.children[names.index(matching[0])])
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
    """Return the type of a table's column in a file of a recorded schema; None if the file lacks it."""
    try:
        path = bind_paths(binding, parse_type(schema), [column], transactional=transactional).get(column)
    except ValueError:
        return None
    return None if path is None else path.type


def convert_array(array: pa.Array, data_type: OrcType, table_type: OrcType) -> pa.Array:
    """Convert values of a file's type to the table's type.

    A CHAR that is read as a string of any length loses its padding, as in Spark; strings declared as CHAR are padded.
    Fields of structs are matched by name at any depth, as columns are.

    Raises:
        pyarrow.ArrowException: if a value does not fit.
        OrcError: if padded values exceed one array.
    """
    arrow = table_type.to_arrow()
    if not data_type.same_as(table_type):
        match data_type.kind:
            case Kind.CHAR if table_type.kind is not Kind.CHAR:
                array = pc.ascii_rtrim(array, characters=" ")
            case a if a in STRING_KINDS and table_type.kind is Kind.CHAR:
                trimmed = pc.ascii_rtrim(array, characters=" ") if a is Kind.CHAR else array
                array = pad_strings(trimmed, table_type.max_length)
            case Kind.STRUCT:
                # a cast would match fields by order, and treat those spelled otherwise as missing
                array = pa.StructArray.from_arrays(
                    _fields(array, data_type, table_type), fields=list(arrow), mask=array.is_null()
                )
            case Kind.LIST:
                array = _with_elements(
                    arrow, array, convert_array(array.values, data_type.children[0], table_type.children[0])
                )
            case Kind.MAP:
                both = zip((array.keys, array.items), data_type.children, table_type.children, strict=True)
                entries = pa.StructArray.from_arrays(
                    [convert_array(*item) for item in both], fields=[arrow.key_field, arrow.item_field]
                )
                array = _with_elements(arrow, array, entries)
    return array if array.type == arrow else array.cast(arrow)


def _fields(array: pa.StructArray, data_type: OrcType, table_type: OrcType) -> list[pa.Array]:
    """Return the fields of the table's struct; nulls for those that the file lacks."""
    bound = bind_columns(table_type.field_names, data_type.field_names)
    return [
        pa.nulls(len(array), child.to_arrow())
        if at is None
        else convert_array(array.field(at), data_type.children[at], child)
        for child, at in zip(table_type.children, bound, strict=True)
    ]


def _with_elements(arrow: pa.DataType, array: pa.Array, elements: pa.Array) -> pa.Array:
    """Return lists or maps with the same offsets and other elements."""
    return pa.Array.from_buffers(
        arrow, len(array), array.buffers()[:2], offset=array.offset, children=[elements]
    )
