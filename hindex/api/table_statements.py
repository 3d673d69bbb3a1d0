"""The columns of tables, as DESCRIBE TABLE and SHOW COLUMNS list them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.errors import UnknownTableError
from hindex.orc.metadata.types import Kind, OrcType
from hindex.sql.statements import DescribeTable, ShowColumns, TableRefKind

if TYPE_CHECKING:
    from hindex.api.connection import Connection
    from hindex.table.schema import TableColumn, TableSchema

#: The columns of DESCRIBE TABLE, with Spark's names.
DESCRIBE_TABLE_SCHEMA = pa.schema(
    [
        pa.field("col_name", pa.string(), nullable=False),
        pa.field("data_type", pa.string(), nullable=False),
        pa.field("comment", pa.string()),
    ]
)
#: The column of SHOW COLUMNS.
SHOW_COLUMNS_SCHEMA = pa.schema([DESCRIBE_TABLE_SCHEMA.field(0)])


def run_table_statement(connection: Connection, statement: DescribeTable | ShowColumns) -> pa.Table:
    """List the columns of a table; Spark lists those of the tables and views of its catalog.

    Raises:
        TableError: if there is no such table.
        NotOrcError: for a path of files of another format.
    """
    is_description = isinstance(statement, DescribeTable)
    schema = DESCRIBE_TABLE_SCHEMA if is_description else SHOW_COLUMNS_SCHEMA
    ref = statement.table
    if ref.kind is TableRefKind.NAME:
        from hindex.spark.catalog import run, wrong_format_error

        connection.check_catalog(ref)
        try:
            return run(connection.spark(), str(ref), str(statement)).toArrow().cast(schema)
        except UnknownTableError as error:
            if ref.other_format:
                raise wrong_format_error(str(ref), ref.other_format) from error
            raise
    columns = connection.resolve(ref).schema
    if is_description:
        return pa.Table.from_pylist(_description(columns), schema)
    return pa.table([columns.names], schema)


def _description(schema: TableSchema) -> list[dict[str, str | None]]:
    rows = list(map(_column_row, schema.columns))
    if schema.partition_columns:
        rows += [_row("# Partition Information", "", ""), _row("# col_name", "data_type", "comment")]
        rows += map(_column_row, schema.partition_columns)
    return rows


def _row(name: str, data_type: str, comment: str | None) -> dict[str, str | None]:
    return dict(zip(DESCRIBE_TABLE_SCHEMA.names, (name, data_type, comment), strict=True))


def _column_row(column: TableColumn) -> dict[str, str | None]:
    return _row(column.name, str(_spark_type(column.type)), None)


def _spark_type(data_type: OrcType) -> OrcType:
    """Return a type with Spark's one ``timestamp`` for ORC's two."""
    kind = Kind.TIMESTAMP if data_type.kind is Kind.TIMESTAMP_INSTANT else data_type.kind
    return replace(data_type, kind=kind, children=tuple(map(_spark_type, data_type.children)))
