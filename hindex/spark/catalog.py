"""What Spark's catalog says of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hindex.errors import TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MISSING = frozenset({"SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND"})


def describe_table(spark: SparkSession, name: str) -> dict[str, Any]:
    """The catalog's description of a table: location, provider, columns and so on.

    :param name: as SQL has it, with dots and backquotes.
    :raises TableError: if there is no such table, or it cannot be described.
    """
    from pyspark.errors import PySparkException

    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name} AS JSON").collect()
    except PySparkException as error:
        if error.getCondition() in _MISSING:
            raise TableError(
                f"Table {name!r} is invalid: Spark's catalog has no such table. "
                "A path is written in quotes: FROM 'data/users'"
            ) from error
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise TableError(
            f"Table {name!r} is invalid: {lines[0] if lines else type(error).__name__}"
        ) from error
    found: dict[str, Any] = json.loads(rows[0][0])
    return found
