"""Spark's types of ORC columns, as ``spark.read.orc`` gives them.

Source: Spark SQL reference, "Data Types"; ORC specification v1, "Type Information".
"""

from __future__ import annotations

from hindex.errors import ColumnError
from hindex.orc.types import STRING_KINDS, Kind, OrcType


def spark_ddl(of: OrcType) -> str:
    """A type as Spark writes it in DDL.

    An ORC timestamp, a wall clock without a zone, is Spark's ``timestamp``: the instant at which a clock in the
    session's time zone shows it. Strings of limited length are plain strings.

    >>> spark_ddl(OrcType(Kind.LIST, children=(OrcType(Kind.VARCHAR, max_length=5),)))
    'array<string>'

    :raises ColumnError: for a union, which Spark does not have.
    """
    if of.kind in STRING_KINDS:
        return "string"
    match of.kind:
        case Kind.TIMESTAMP_INSTANT:
            return "timestamp_ltz"
        case Kind.LIST | Kind.MAP:
            return f"{str(of).partition('<')[0]}<{','.join(map(spark_ddl, of.children))}>"
        case Kind.STRUCT:
            fields = zip(of.field_names, of.children, strict=True)
            return f"struct<{','.join(f'{_quoted(name)}:{spark_ddl(child)}' for name, child in fields)}>"
        case Kind.UNION:
            raise ColumnError(f"Spark has no type for {of}: read the column with to_arrow(), or leave it out")
        case _:
            return str(of)


def has_wall_clock(of: OrcType) -> bool:
    """Whether a type is an ORC timestamp, or holds one: Arrow has it without a zone, Spark with one."""
    return any(part.kind is Kind.TIMESTAMP for part in of.walk())


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
