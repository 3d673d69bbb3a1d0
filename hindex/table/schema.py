"""The schema of a table: declared by its catalog, or the union of its files' columns; and its partition columns."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from hindex.errors import ColumnError, TableError, UnsupportedError
from hindex.orc.acid.schema import row_key
from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType
from hindex.sql.predicate import quote_name
from hindex.table.partitions import PartitionColumn
from hindex.validation import collection_items, nearest_names, short_repr, suggestion
from hindex.value_class import value_class

#: Names are listed in messages up to this many.
_LISTED_NAMES = 12


#: Fields of one name are suggested up to this many.
_LISTED_FIELDS = 3


_FLOATING = (Kind.FLOAT, Kind.DOUBLE)


#: Column names in files of old Hive versions, which wrote no names of their own.
_UNNAMED = re.compile(r"_col[0-9]+")
#: Prefix by which Spark recognizes such files.
_UNNAMED_PREFIX = "_col"


#: A column's name or the dotted path of a field as a string, or the names of the path one by one: each of these may
#: contain dots.
ColumnName: TypeAlias = str | tuple[str, ...]


@value_class
class TableColumn:
    """One column: its name as first seen or declared, and the type that holds every file's values of it.

    Args:
        default: its value in the rows of files that lack it, an Arrow scalar of the type; NULL if None.
        problem: the reason why only Spark can read it; None if it can be read here.
    """

    name: str
    type: OrcType
    default: pa.Scalar[Any] | None = None
    problem: str | None = None


#: A part of a dotted name: in backquotes, or up to the next dot.
_PART = re.compile(r"`(?:[^`]|``)+`(?=\.|$)|[^.]*")


def path_name(path: Sequence[str]) -> str:
    """Return the dotted name of a column or field: fields' own names with dots are in backquotes."""
    fields = ("`" + part.replace("`", "``") + "`" if "." in part else part for part in path[1:])
    return ".".join((path[0], *fields))


def split_name(name: str) -> list[str]:
    """Split a dotted name at the dots that are not in backquotes; `field_name` removes these from a part."""
    parts, at = list[str](), 0
    while at <= len(name):
        match = _PART.match(name, at)
        assert match is not None
        parts.append(match[0])
        at = match.end() + 1
    return parts


def field_name(part: str) -> str:
    """Return the name of a field that `path_name` made a part of."""
    return part[1:-1].replace("``", "`") if "." in part else part


@value_class
class ResolvedColumn:
    """A column or field that a name in a statement refers to.

    Args:
        path: the names from the top-level column down, as the table spells them.
        type: the type of the (nested) column.
    """

    path: tuple[str, ...]
    type: OrcType
    is_partition: bool

    @property
    def name(self) -> str:
        return path_name(self.path)

    @property
    def is_nested(self) -> bool:
        return len(self.path) > 1


#: The metadata of a field of Spark, parsed from JSON.
FieldMetadata = dict[str, Any]


@value_class
class DeclaredSchema:
    """The columns of a table of a catalog.

    Args:
        columns: in the catalog's order, without the partition columns.
        partition_columns: in the order of the directories.
        spark_json: Spark's own schema of the table as JSON: names, types, nullability and field metadata.
    """

    columns: tuple[TableColumn, ...]
    partition_columns: tuple[TableColumn, ...] = ()
    spark_json: str = ""

    @property
    def partitions(self) -> list[PartitionColumn]:
        """The partition columns as a listing takes them."""
        return [PartitionColumn(column.name, column.type) for column in self.partition_columns]

    @property
    def field_metadata(self) -> dict[str, FieldMetadata]:
        """Spark's metadata of the fields, by their names: comments, defaults, the lengths of CHAR and VARCHAR."""
        return {field["name"]: field.get("metadata") or {} for field in json.loads(self.spark_json)["fields"]}


@value_class
class TableSchema:
    """Every column of a table.

    Args:
        columns: all of them in Spark's order: the files' columns as they first appear, then the partition columns. A
            partition column that is also in the files keeps the files' position, with the partition's type.
        partition_columns: those whose values come from directory names, in directory order; each is in ``columns`` too.
        transactional: whether rows have keys, which are not columns of the table.
    """

    columns: tuple[TableColumn, ...]
    partition_columns: tuple[TableColumn, ...] = ()
    transactional: bool = False

    def __repr__(self) -> str:
        columns = ", ".join(f"{quote_name(item.name)} {item.type}" for item in self.data_columns)
        partitions = ", ".join(f"{quote_name(item.name)} {item.type}" for item in self.partition_columns)
        by = f" PARTITIONED BY ({partitions})" if partitions else ""
        return f"TableSchema({columns}{by})"

    @property
    def data_columns(self) -> tuple[TableColumn, ...]:
        """The columns whose values are read from the files."""
        partition = {item.name for item in self.partition_columns}
        return tuple(item for item in self.columns if item.name not in partition)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.columns)

    def is_partition(self, name: str) -> bool:
        """Return True if the column of exactly that name is a partition column."""
        return any(item.name == name for item in self.partition_columns)

    def resolve(self, name: str | Sequence[str], *, is_stored: bool = False) -> ResolvedColumn:
        """Return the column of a name: an exact match, or else one that differs in letter case only.

        Args:
            is_stored: whether the name was resolved before, without the columns that now make it ambiguous.

        Raises:
            ColumnError: if no column or several columns match, or if a dotted name `is_ambiguous`.
        """
        name = column_name(name)
        parts = self._parts(name, is_stored=is_stored) if isinstance(name, str) else name
        written = ".".join(parts)
        if self.transactional and row_key(parts, self.names) is not None:
            raise ColumnError(
                f"Column {written!r} cannot be resolved here: row keys can be read and compared, but not indexed, "
                "ordered, grouped or aggregated"
            )
        show = str if isinstance(name, str) else quote_name
        top = self._one_of(parts, self._matches(parts[0]), show)
        if top.problem is not None:
            raise UnsupportedError(
                f"Column {top.name!r} cannot be read here: {top.problem}; hx.sql(...) runs a query of it with Spark"
            )
        path, data_type = [top.name], top.type
        for part in parts[1:]:
            if data_type.kind is not Kind.STRUCT and all(map(self._matches, parts)):
                raise ColumnError(
                    f"Column {written!r} cannot be resolved: {show(path[-1])} is of type {_brief(data_type)}, which "
                    f"has no fields; name several columns one by one: {', '.join(map(repr, parts))}"
                )
            path.append(_field_name(written, data_type, part, show))
            data_type = data_type.children[data_type.field_names.index(path[-1])]
        return ResolvedColumn(tuple(path), data_type, self.is_partition(top.name))

    def has_name(self, text: str) -> bool:
        """Return True if a column, or a field of one, has this dotted name, ignoring case."""
        lowered = text.lower()
        fields = [(name, column.type) for name, column in zip(self.names, self.columns, strict=True)]
        while fields:
            name, data_type = fields.pop()
            if name.lower() == lowered:
                return True
            if data_type.kind is Kind.STRUCT and lowered.startswith(f"{name.lower()}."):
                fields += [
                    (path_name((name, field)), child)
                    for field, child in zip(data_type.field_names, data_type.children, strict=True)
                ]
        return False

    def is_ambiguous(self, dotted_name: str) -> bool:
        """Return True if a dotted name could refer to more than one column or field, ignoring case."""
        return "." in dotted_name and len(self._readings(dotted_name)) > 1

    def _parts(self, text: str, *, is_stored: bool) -> tuple[str, ...]:
        """Split a name into the path of a column or field; a single name may contain dots."""
        if "." not in text:
            return (text,)
        readings = self._readings(text)
        if len(readings) == 1:
            return readings[0]
        if readings and not is_stored:
            raise ColumnError(
                f"Column {text!r} cannot be resolved: columns with dots in their names and fields of structs give "
                "it more than one meaning; write it in SQL, where one name with dots is in backquotes, or as a tuple "
                "of names"
            )
        return (text,) if self._matches(text) else tuple(text.split("."))

    def _readings(self, text: str) -> list[tuple[str, ...]]:
        """Return the paths that a dotted name could mean, ignoring case."""
        return [path for item in self.columns for path in _readings(text.lower(), (item.name,), item.type)]

    def _fields(self, name: str) -> list[tuple[str, ...]]:
        """Return the first few fields within structs of a name, ignoring case."""
        paths = (path for item in self.columns for path in _fields(name.lower(), (item.name,), item.type))
        return list(islice(paths, _LISTED_FIELDS))

    def _matches(self, name: str) -> list[TableColumn]:
        exact = [item for item in self.columns if item.name == name]
        return exact or [item for item in self.columns if item.name.lower() == name.lower()]

    def _one_of(
        self, parts: Sequence[str], matches: list[TableColumn], show: Callable[[str], str]
    ) -> TableColumn:
        written = ".".join(parts)
        if not matches:
            readings = self._readings(written)
            fields = [] if readings or len(parts) > 1 else self._fields(written)
            if readings:
                named = " or ".join(map(spelled, readings))
                remedy = f"did you mean {named}? a name with dots of its own is in backquotes"
            elif len(parts) > 1 and self._matches(parts[1]) and not nearest_names(parts[0], self.names):
                remedy = f"did you mean {show(parts[1])}? a column is written without the name of its table"
            elif fields:
                remedy = (
                    f"did you mean {' or '.join(map(spelled, fields))}? a field is written with its struct"
                )
            else:
                # the wrong name may be the struct's
                likely = written if nearest_names(written, self.names) else parts[0]
                remedy = _remedy(likely, self.names, "columns", show)
            if not self.data_columns:
                valid = "valid data file" if self.transactional else "data file"
                remedy += f": the table has no {valid} with columns"
            raise ColumnError(f"Column {written!r} cannot be resolved; {remedy}")
        if len(matches) > 1:
            raise ColumnError(
                f"Column {written!r} cannot be resolved: it is ambiguous among "
                f"{', '.join(show(item.name) for item in matches)}; write the name in exact letter case"
            )
        return matches[0]


def column_name(name: object) -> ColumnName:
    """Normalize the name of a column: other sequences of names become tuples.

    Raises:
        ColumnError: for anything else.
    """
    if isinstance(name, str):
        return name
    if isinstance(name, Sequence) and name and all(isinstance(part, str) for part in name):
        return tuple(name)
    raise ColumnError(
        f"{short_repr(name)} is not a column: pass a name as a string, or the names of a field's path as a tuple"
    )


def column_names(names_: object, what: str) -> tuple[ColumnName, ...]:
    """Normalize a list of columns, each as `column_name` does.

    Args:
        what: the name of the list, for the message.

    Raises:
        ColumnError: for anything but a list of columns.
    """
    names = collection_items(names_)
    if names is None:
        example = [names_] if isinstance(names_, str) else ["a", "b"]
        raise ColumnError(f"{what} is a list of names, such as {example!r}, not {short_repr(names_)}")
    return tuple(map(column_name, names))


def spelled(name: ColumnName) -> str:
    """Return a name for messages: a path of names as SQL writes it, a string as it is."""
    return name if isinstance(name, str) else ".".join(map(quote_name, name))


def _readings(wanted: str, path: tuple[str, ...], data_type: OrcType) -> Iterator[tuple[str, ...]]:
    """Yield the paths of a column and the fields within it whose dotted name is ``wanted``, in lower case.

    Fields' own names with dots may be in backquotes.
    """
    texts = {".".join(path).lower(), path_name(path).lower()}
    if wanted in texts:
        yield path
    elif data_type.kind is Kind.STRUCT and any(wanted.startswith(f"{text}.") for text in texts):
        for name, child in zip(data_type.field_names, data_type.children, strict=True):
            yield from _readings(wanted, (*path, name), child)


def _fields(wanted: str, path: tuple[str, ...], data_type: OrcType) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the fields within a column whose name is ``wanted``, in lower case."""
    if data_type.kind is Kind.STRUCT:
        for name, child in zip(data_type.field_names, data_type.children, strict=True):
            if name.lower() == wanted:
                yield (*path, name)
            yield from _fields(wanted, (*path, name), child)


def merge_schemas(
    files: Iterable[tuple[str, Sequence[tuple[str, OrcType]]]],
    partition_columns: Sequence[TableColumn] = (),
    *,
    transactional: bool = False,
) -> TableSchema:
    """Merge the schemas of all files of a table.

    A name in another letter case is the same column, unless one file holds both. Integers widen up to bigint,
    float to double, decimals to one that holds both, char and varchar to string; structs gain fields. Files without
    names give the columns beyond those that other files name.

    Args:
        files: path of each file (for messages) and its top-level columns. Passing the same sequence object for files of
            the same schema makes a large table quick.
        transactional: whether rows have keys.

    Raises:
        TableError: if a column has types that no common type holds: names it, both types and both files.
    """
    seen: dict[int, Sequence[tuple[str, OrcType]]] = {}
    distinct: dict[tuple[tuple[str, OrcType], ...], str] = {}
    for path, columns in files:
        if id(columns) not in seen:
            # keep a reference, so that no later sequence gets the same id
            seen[id(columns)] = columns
            distinct.setdefault(tuple(columns), path)
    partition_names = {item.name.lower() for item in partition_columns}
    names: list[str] = []
    # files without names are read by the positions of the columns that the others name
    for columns, path in sorted(
        distinct.items(), key=lambda item: are_positional([name for name, _ in item[0]])
    ):
        own_names = _distinct_names(columns)
        taken = set(bind_file_columns(names, own_names))
        added = [name for at, name in enumerate(own_names) if at not in taken]
        if are_positional(own_names) and (
            partition_names.intersection(own_names) or set(names).intersection(added)
        ):
            raise TableError(
                f"file {path!r} has no names of its columns, and its placeholders ({', '.join(own_names[:3])}...) are "
                "names of other columns of the table; declare the columns by CREATE TABLE in Spark's catalog"
            )
        names.extend(added)
    types: list[OrcType | None] = [None] * len(names)
    first_path = [""] * len(names)
    for columns, path in distinct.items():
        for at, source in enumerate(bind_file_columns(names, [name for name, _ in columns])):
            if source is None or names[at].lower() in partition_names:
                continue
            file_type, merged_type = columns[source][1], types[at]
            if merged_type is None:
                types[at], first_path[at] = file_type, path
                continue
            common = common_type(merged_type, file_type)
            if common is None:
                raise TableError(
                    f"column {names[at]!r} is {_brief(merged_type)} in file {first_path[at]!r} but {_brief(file_type)} "
                    f"in file {path!r}, and no type holds both; rewrite one of the files with the other's type"
                )
            if common is not merged_type:
                types[at], first_path[at] = common, (path if common is file_type else first_path[at])
    by_name = {item.name.lower(): item for item in partition_columns}
    merged: list[TableColumn] = []
    for name, data_type in zip(names, types, strict=True):
        partition = by_name.pop(name.lower(), None)
        if partition is not None:
            merged.append(partition)
        elif data_type is not None:
            merged.append(TableColumn(name, data_type))
    merged.extend(by_name.values())
    return TableSchema(tuple(merged), tuple(partition_columns), transactional)


def bind_columns(names: Sequence[str], file_names: Sequence[str]) -> tuple[int | None, ...]:
    """Return the position of each of the table's columns in a file, or None where it is missing.

    Exact names first; then one that differs in letter case only, if the file's column is not taken yet.
    """
    positions: dict[str, int] = {}
    for at, name in enumerate(file_names):
        positions.setdefault(name, at)
    bound = [positions.get(name) for name in names]
    taken = {at for at in bound if at is not None}
    if len(taken) == len(names):
        return tuple(bound)
    folded: dict[str, int] = {}
    for name, at in positions.items():
        if at not in taken:
            folded.setdefault(name.lower(), at)
    for i, name in enumerate(names):
        if bound[i] is None:
            bound[i] = folded.pop(name.lower(), None)
    return tuple(bound)


def are_positional(file_names: Sequence[str]) -> bool:
    """Return True if a file's columns are the table's by their positions, whatever the table calls its columns.

    Source: ORC, ``SchemaEvolution.hasColumnNames``.
    """
    return bool(file_names) and all(map(_UNNAMED.fullmatch, file_names))


def bind_file_columns(names: Sequence[str], file_names: Sequence[str]) -> tuple[int | None, ...]:
    """Return the position of each of the table's data columns in a file; None if the file lacks it.

    If all names of a file only begin with ``_col``, ORC matches them by name, and Spark reads columns beyond the file's
    number of columns as null even so.

    Source: Spark, ``OrcUtils.requestedColumnIds``.
    """
    if are_positional(file_names):
        return tuple(at if at < len(file_names) else None for at in range(len(names)))
    bound = bind_columns(names, file_names)
    if all(name.startswith(_UNNAMED_PREFIX) for name in file_names):
        return tuple(position if at < len(file_names) else None for at, position in enumerate(bound))
    return bound


def common_type(a: OrcType, b: OrcType) -> OrcType | None:
    """Return the narrowest type that holds every value of both without loss, ``a`` itself if it does; else None."""
    if a.kind in INTEGER_KINDS and b.kind in INTEGER_KINDS:
        return a if a.kind >= b.kind else b
    if {a.kind, b.kind} == {Kind.LONG, Kind.TIMESTAMP_NTZ}:
        return a if a.kind is Kind.TIMESTAMP_NTZ else b
    if a.kind in _FLOATING and b.kind in _FLOATING:
        return a if a.kind >= b.kind else b
    if a.kind in STRING_KINDS and b.kind in STRING_KINDS:
        return a if a.same_as(b) or a.kind is Kind.STRING else OrcType(Kind.STRING)
    if a.kind is not b.kind:
        return None
    match a.kind:
        case Kind.DECIMAL:
            return _common_decimal(a, b)
        case Kind.STRUCT:
            return _common_struct(a, b)
        case Kind.LIST | Kind.MAP:
            pairs = zip(a.children, b.children, strict=True)
            return _with_children(a, [common_type(one, other) for one, other in pairs])
        case _:
            return a if a.same_as(b) else None


def _common_decimal(a: OrcType, b: OrcType) -> OrcType | None:
    (pa, sa), (pb, sb) = _digits(a), _digits(b)
    scale = max(sa, sb)
    precision = scale + max(pa - sa, pb - sb)
    if precision > 38:
        return None
    if (precision, scale) == (pa, sa):
        return a
    return b if (precision, scale) == (pb, sb) else OrcType(Kind.DECIMAL, precision=precision, scale=scale)


def _common_struct(a: OrcType, b: OrcType) -> OrcType | None:
    bound = bind_columns(a.field_names, b.field_names)
    children: list[OrcType | None] = [
        child if at is None else common_type(child, b.children[at])
        for child, at in zip(a.children, bound, strict=True)
    ]
    added = [at for at in range(len(b.children)) if at not in bound]
    if not added:
        return _with_children(a, children)
    grown = replace(a, column=-1, field_names=(*a.field_names, *(b.field_names[at] for at in added)))
    return _with_children(grown, [*children, *(b.children[at] for at in added)])


def _with_children(data_type: OrcType, children: Sequence[OrcType | None]) -> OrcType | None:
    known_children = tuple(child for child in children if child is not None)
    if len(known_children) < len(children):
        return None
    if len(known_children) == len(data_type.children) and all(
        a is b for a, b in zip(known_children, data_type.children, strict=True)
    ):
        return data_type
    return replace(data_type, column=-1, children=known_children)


def _distinct_names(columns: Sequence[tuple[str, OrcType]]) -> list[str]:
    return list(dict.fromkeys(name for name, _ in columns))


def _field_name(written: str, data_type: OrcType, part: str, show: Callable[[str], str]) -> str:
    if data_type.kind is not Kind.STRUCT:
        raise ColumnError(
            f"Column {written!r} cannot be resolved: a value of type {_brief(data_type)} has no fields"
        )
    if part in data_type.field_names:
        return part
    names = [name for name in data_type.field_names if name.lower() == part.lower()]
    if len(names) != 1:
        remedy = _remedy(part, data_type.field_names, "fields", show)
        raise ColumnError(f"Column {written!r} cannot be resolved; {remedy}")
    return names[0]


def _remedy(name: str, names: Sequence[str], noun: str, show: Callable[[str], str]) -> str:
    shown_names = ", ".join(map(show, names[:_LISTED_NAMES])) + (
        ", ..." if len(names) > _LISTED_NAMES else ""
    )
    return (
        f"{suggestion(name, names, show, 3)}the {noun} are: {shown_names}"
        if names
        else f"there are no {noun}"
    )


def _brief(data_type: OrcType) -> str:
    text = str(data_type)
    return text if len(text) <= 80 else text[:77] + "..."


def can_convert(file_type: OrcType, table_type: OrcType) -> bool:
    """Return True if every value of a file's type has the same value in the table's type, as Spark reads it.

    Integers and decimals widen, FLOAT is read as DOUBLE, strings of limited length are strings of any length and the
    reverse, structs may lack fields or have more, and TIMESTAMP_NTZ is kept as bigint.
    """
    if file_type.same_as(table_type):
        return True
    match file_type.kind, table_type.kind:
        case (a, b) if a in INTEGER_KINDS and b in INTEGER_KINDS:
            return a <= b
        case Kind.FLOAT, Kind.DOUBLE:
            return True
        case Kind.LONG, Kind.TIMESTAMP_NTZ:
            return True
        case (a, b) if a in STRING_KINDS and b in STRING_KINDS:
            return True
        case Kind.DECIMAL, Kind.DECIMAL:
            (file_digits, file_scale), (digits, scale) = _digits(file_type), _digits(table_type)
            return file_scale <= scale and file_digits - file_scale <= digits - scale
        case Kind.STRUCT, Kind.STRUCT:
            bound = bind_columns(table_type.field_names, file_type.field_names)
            pairs = zip(table_type.children, bound, strict=True)
            return all(at is None or can_convert(file_type.children[at], child) for child, at in pairs)
        case (Kind.LIST, Kind.LIST) | (Kind.MAP, Kind.MAP):
            return all(map(can_convert, file_type.children, table_type.children))
    return False


def _digits(data_type: OrcType) -> tuple[int, int]:
    """Precision and scale; a file of a Hive version before 0.12 records none."""
    return (data_type.precision, data_type.scale) if data_type.precision else (38, 18)


def check_path(column: ResolvedColumn, schema: TableSchema) -> None:
    """Reject a field within a struct whose dotted path is ambiguous.

    Raises:
        ColumnError: with the field's name.
    """
    if column.is_nested and schema.is_ambiguous(column.name):
        raise ColumnError(f"Column {column.name!r} is ambiguous: read {column.path[0]!r} instead")
