"""The declared schema of a table, as its catalog has it, and the schema of a data file, as the file has it.

A query is typed by the declared schema; values of a file whose types differ are converted, file by file
(:mod:`hindex.table.values`). Without a catalog the schema is inferred from the files
(:func:`hindex.table.schema.merge_schemas`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hindex.orc.metadata.file_tail import FileTail
from hindex.orc.metadata.types import INTEGER_KINDS, STRING_KINDS, Kind, OrcType
from hindex.table.partitions import PartitionColumn
from hindex.table.schema import TableColumn, bind_columns

#: The attribute of a file's type in which Spark keeps a type that ORC does not have.
SPARK_TYPE = "spark.sql.catalyst.type"

#: How the names of all columns begin in files of old Hive versions, which have no names of their own.
_UNNAMED = "_col"


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """The columns of a table of a catalog.

    :param columns: in the catalog's order, without the partition columns.
    :param partition_columns: in the order of the directories.
    :param spark_json: Spark's own schema of the table as JSON: names, types, nullability and field metadata.
    """

    columns: tuple[TableColumn, ...]
    partition_columns: tuple[TableColumn, ...] = ()
    spark_json: str = ""

    @property
    def partitions(self) -> list[PartitionColumn]:
        """The partition columns as a listing takes them."""
        return [PartitionColumn(column.name, column.type) for column in self.partition_columns]


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
