"""What Spark's catalog says of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hindex.errors import TableError
from hindex.spark.types import quoted
from hindex.table.listing import normalize_uri

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructType

_MISSING = frozenset({"SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"})
#: The collation of strings that are compared byte by byte.
_BINARY = "UTF8_BINARY"


def describe_table(spark: SparkSession, name: str) -> dict[str, Any]:
    """The catalog's description of a table: location, provider, columns and so on.

    :param name: as SQL has it, with dots and backquotes.
    :raises TableError: if there is no such table, or it cannot be described.
    """
    found: dict[str, Any] = json.loads(run(spark, name, f"DESCRIBE TABLE EXTENDED {name} AS JSON")[0][0])
    return found


def described_columns(described: Mapping[str, Any]) -> list[str]:
    """The names of a description's columns, partition columns last."""
    return [str(column["name"]) for column in described["columns"]]


def described_schema(described: Mapping[str, Any]) -> StructType:
    """The columns of a description as Spark reads them, all of them nullable. CHAR and VARCHAR are strings in it."""
    from pyspark.sql.types import StructType

    columns = (f"{quoted(column['name'])} {_ddl(column['type'])}" for column in described["columns"])
    found = StructType.fromDDL(", ".join(columns))
    assert isinstance(found, StructType)
    return found


def _ddl(of: Mapping[str, Any]) -> str:
    """A type of a description, as DDL has it."""
    name = str(of["name"])
    match name:
        case "string" if of.get("collation", _BINARY) != _BINARY:
            return f"string collate {of['collation']}"
        case "char" | "varchar":
            return "string"
        case "decimal":
            return f"decimal({of['precision']},{of['scale']})"
        case "array":
            return f"array<{_ddl(of['element_type'])}>"
        case "map":
            return f"map<{_ddl(of['key_type'])},{_ddl(of['value_type'])}>"
        case "struct":
            fields = (f"{quoted(field['name'])}:{_ddl(field['type'])}" for field in of["fields"])
            return f"struct<{','.join(fields)}>"
        case "timestamp_ltz":
            return "timestamp"
        case _:
            return name


def first_line(error: PySparkException) -> str:
    """What Spark says of an error, without the plan and the trace that follow."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def place_of(location: str) -> str:
    """The normalised place that a description tells: nothing in its text is encoded, not in ``file:`` URIs either."""
    return normalize_uri(re.sub("^file:/*", "/", location))


def run(spark: SparkSession, name: str, statement: str) -> list[Row]:
    """The rows of a statement about a table.

    :param name: the table's, for messages.
    :raises TableError: if Spark refuses it.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.sql(statement).collect()
    except PySparkException as error:
        if error.getCondition() in _MISSING:
            raise TableError(
                f"Table {name!r} is invalid: Spark's catalog has no such table. "
                "A path is written in quotes: FROM 'data/users'"
            ) from error
        raise TableError(f"Table {name!r} is invalid: {first_line(error)}") from error
