"""Spark's types of ORC columns, as ``spark.read.orc`` gives them.

Source: Spark SQL reference, "Data Types"; ORC specification v1, "Type Information".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hindex.errors import ColumnError
from hindex.orc.metadata.types import COMPOSITE_KINDS, STRING_KINDS, Kind, OrcType

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def spark_ddl(data_type: OrcType, *, wall_clock: str = "timestamp") -> str:
    """Return a type in Spark's DDL.

    An ORC timestamp, a wall clock without a zone, is Spark's ``timestamp``: the instant at which a clock in the
    default time zone of Spark's JVM shows it. Strings of limited length are plain strings.

    >>> spark_ddl(OrcType(Kind.LIST, children=(OrcType(Kind.VARCHAR, max_length=5),)))
    'array<string>'

    Args:
        wall_clock: another type for ORC timestamps.

    Raises:
        ColumnError: for a union, which Spark lacks.
    """
    if data_type.kind in STRING_KINDS:
        return "string"
    inner = [
        spark_ddl(child, wall_clock=wall_clock)
        for child in data_type.children
        if data_type.kind is not Kind.UNION
    ]
    match data_type.kind:
        case Kind.TIMESTAMP:
            return wall_clock
        case Kind.TIMESTAMP_INSTANT:
            return "timestamp_ltz"
        case Kind.LIST | Kind.MAP:
            return f"{str(data_type).partition('<')[0]}<{','.join(inner)}>"
        case Kind.STRUCT:
            fields = zip(data_type.field_names, inner, strict=True)
            return f"struct<{','.join(f'{quoted(name)}:{child}' for name, child in fields)}>"
        case Kind.UNION:
            raise ColumnError(
                f"Spark has no type for {data_type}: read the column with to_arrow(), or leave it out"
            )
        case _:
            return str(data_type)


def parse_type_json(text: str) -> DataType:
    """Return Spark's type of the JSON that Spark writes for it."""
    from pyspark.sql.types import _parse_datatype_json_string

    return _parse_datatype_json_string(text)


def is_same_type(data_type: OrcType, spark_type: DataType) -> bool:
    """Return True if Spark reads an ORC type as the Spark type."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    children: list[DataType]
    match spark_type:
        case ArrayType():
            kind, children = Kind.LIST, [spark_type.elementType]
        case MapType():
            kind, children = Kind.MAP, [spark_type.keyType, spark_type.valueType]
        case StructType():
            kind, children = Kind.STRUCT, [field.dataType for field in spark_type]
            if data_type.field_names != tuple(spark_type.names):
                return False
        case _:
            if data_type.kind in COMPOSITE_KINDS:
                return False
            return spark_ddl(data_type).replace("timestamp_ltz", "timestamp") == spark_type.simpleString()
    return data_type.kind is kind and all(map(is_same_type, data_type.children, children))


def quoted(name: str) -> str:
    """Return a name in backquotes."""
    return f"`{name.replace('`', '``')}`"
