"""Statements about indexes, run on the tables of a connection."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from hindex.api.conditions import Expr
from hindex.api.index import Index, IndexedColumn, split_index_properties
from hindex.api.statement_table import RecordList
from hindex.api.value_formatting import instant_text
from hindex.errors import BuildError, HindexError, IndexNotFoundError, StatementError
from hindex.formatting import counted
from hindex.index.index_type import index_type
from hindex.maintain.results import (
    AdoptResult,
    BuildEstimate,
    CheckResult,
    DropResult,
    RefreshResult,
    RenameResult,
    VacuumResult,
)
from hindex.sql.predicate import ColumnRef, all_of
from hindex.sql.statements import (
    AdoptIndexes,
    CheckIndexes,
    CreateIndex,
    DescribeIndex,
    DropIndex,
    IndexStatement,
    RebuildIndex,
    RefreshIndex,
    RenameIndex,
    ShowIndexes,
    TableRef,
    TableRefKind,
    VacuumIndexes,
)
from hindex.validation import suggestion

if TYPE_CHECKING:
    from hindex.api.connection import Connection
    from hindex.api.table import Table

IndexResult: TypeAlias = (
    Index
    | pa.Table
    | BuildEstimate
    | RefreshResult
    | AdoptResult
    | DropResult
    | RenameResult
    | VacuumResult
    | RecordList[CheckResult]
    | RecordList[RefreshResult]
)

_TIME = pa.timestamp("ms", tz="UTC")
#: The columns of SHOW INDEXES.
SHOW_INDEXES_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("table", pa.string()),
        ("column", pa.string()),
        ("type", pa.string()),
        ("level", pa.string()),
        ("status", pa.string()),
        ("size_bytes", pa.int64()),
        ("partitions", pa.string()),
        ("time_zones", pa.string()),
        ("properties", pa.string()),
        ("column_type", pa.string()),
        ("creator", pa.string()),
        ("created", _TIME),
        ("refreshed", _TIME),
        ("comment", pa.string()),
    ]
)
_BRIEF = ("name", "table", "column", "type", "status", "size_bytes")


def run_index_statement(connection: Connection, statement: IndexStatement) -> IndexResult:
    """Run one statement; `hindex.Connection.sql` documents the results."""
    match statement:
        case CreateIndex():
            return _create(connection, statement)
        case ShowIndexes(name, ref):
            return indexes_table(
                [index for _, index in _find_indexes(connection, name, ref, "SHOW INDEXES", building=True)]
            )
        case DescribeIndex(name, ref):
            table = _find_table(connection, name, ref, "DESCRIBE INDEX")
            recorded = table.recorded_indexes(building=True)
            matches = (index for index in recorded if index.name.lower() == name.lower())
            return describe_index(next(matches, None) or table.index(name))
        case RefreshIndex(None, TableRef(TableRefKind.DATABASE)):
            return _refresh_database(connection, statement)
        case RefreshIndex(name, ref, where, dry_run):
            table = _find_table(connection, name, ref, "REFRESH INDEX")
            return table.refresh_indexes(None if name is None else [name], where=where, dry_run=dry_run)
        case AdoptIndexes(ref, dry_run):
            return connection.resolve(ref).adopt_indexes(dry_run=dry_run)
        case RebuildIndex(name, ref, partition):
            where = all_of(partition) if partition else None
            return _find_table(connection, name, ref, "ALTER INDEX").rebuild_index(name, where=where)
        case RenameIndex(name, new_name, ref):
            return _find_table(connection, name, ref, "ALTER INDEX").rename_index(name, new_name)
        case DropIndex():
            return _drop(connection, statement)
        case CheckIndexes(name, ref, verify):
            tables: dict[str, tuple[Table, list[str]]] = {}
            for table, index in _find_indexes(connection, name, ref, "CHECK INDEXES"):
                tables.setdefault(table.uri, (table, []))[1].append(index.name)
            checked = (table.check_indexes(names, verify=verify) for table, names in tables.values())
            return RecordList(str(statement), CheckResult, itertools.chain.from_iterable(checked))
        case VacuumIndexes(ref, hours, dry_run):
            table = connection.resolve(ref)
            return (
                table.vacuum(dry_run=dry_run)
                if hours is None
                else table.vacuum(retain_hours=hours, dry_run=dry_run)
            )


def indexes_table(indexes: Sequence[Index]) -> pa.Table:
    """Return indexes as the rows of SHOW INDEXES."""
    return pa.Table.from_pylist([_index_row(index) for index in indexes], schema=SHOW_INDEXES_SCHEMA)


def brief_columns(rows: pa.Table) -> list[str]:
    """Return the columns of SHOW INDEXES that people need: partitions and time zones only if an index has any."""
    return [
        *_BRIEF,
        *(name for name in ("partitions", "time_zones") if rows.column(name).null_count < rows.num_rows),
    ]


def describe_index(index: Index) -> pa.Table:
    """Return the facts about an index, as pairs of strings: the rows of DESCRIBE INDEX."""
    facts = {name: None if value is None else str(value) for name, value in _index_row(index).items()}
    facts |= {
        "created": _instant(index.created_ms),
        "refreshed": _instant(index.refreshed_ms),
        "annotations": _pairs(index.annotations),
        "files": str(index.num_files),
        "files fresh": str(index.num_fresh_files),
        "files changed": str(index.num_changed_files),
        "files added": str(index.num_added_files),
        "files deleted": str(index.num_gone_files),
        "rows covered": f"{index.rows_covered:g} %",
    }
    return pa.table({"fact": list(facts), "value": pa.array(facts.values(), pa.string())})


def _index_row(index: Index) -> dict[str, object]:
    return {
        "name": index.name,
        "table": index.table,
        "column": index.column,
        "type": index.type,
        "level": index.level,
        "status": index.status,
        "size_bytes": index.size_bytes,
        "partitions": index.where,
        "time_zones": index.time_zones,
        "properties": _pairs(index.properties),
        "column_type": index.column_type,
        "creator": index.creator,
        "created": index.created_ms,
        "refreshed": index.refreshed_ms,
        "comment": index.comment,
    }


def _instant(ms: int | None) -> str | None:
    return None if ms is None else instant_text(ms, "s")


def _pairs(pairs: dict[str, str]) -> str | None:
    """Return properties as a JSON object, which keeps values apart."""
    return json.dumps(pairs, ensure_ascii=False) if pairs else None


def _create(connection: Connection, statement: CreateIndex) -> Index | BuildEstimate:
    column: IndexedColumn
    first, *others = statement.columns
    if others or index_type(statement.using).name == "ROWS":
        column = [item.parts if isinstance(item, ColumnRef) else Expr(item) for item in statement.columns]
    else:
        column = first.parts if isinstance(first, ColumnRef) else Expr(first)
    properties, annotations = split_index_properties(statement.using, dict(statement.index_properties))
    return connection.resolve(statement.table).create_index(
        statement.name,
        column,
        statement.using,
        statement.where,
        {**properties, **dict(statement.properties)},
        comment=statement.comment,
        annotations={**annotations, **dict(statement.annotations)},
        deferred=statement.deferred,
        include=[column.parts for column in statement.include],
        if_not_exists=statement.if_not_exists,
        dry_run=statement.dry_run,
    )


def _drop(connection: Connection, statement: DropIndex) -> DropResult:
    try:
        table = _find_table(connection, statement.name, statement.table, "DROP INDEX")
    except IndexNotFoundError:
        if statement.if_exists:
            return DropResult(statement.name, None, None, 0, False)
        raise
    return table.drop_index(statement.name, if_exists=statement.if_exists, where=statement.where)


def _refresh_database(connection: Connection, statement: RefreshIndex) -> RecordList[RefreshResult]:
    """Refresh the indexes of all tables of a database. A table that fails does not stop the others.

    Raises:
        BuildError: after the last table, if some failed.
    """
    assert statement.table is not None
    results, errors = [], []
    for table in connection.resolve_all(statement.table):
        try:
            if table.recorded_indexes():
                results.append(table.refresh_indexes(dry_run=statement.dry_run))
        except HindexError as error:
            errors.append(str(error))
    if errors:
        total = counted(len(results) + len(errors), "table")
        raise BuildError(
            f"{len(errors)} of {total} could not be refreshed, the others were: {'; '.join(errors)}"
        )
    return RecordList(str(statement), RefreshResult, results)


def _find_indexes(
    connection: Connection, name: str | None, ref: TableRef | None, statement: str, *, building: bool = False
) -> list[tuple[Table, Index]]:
    """Return the indexes that a statement names, on request with those being built for the first time.

    Raises:
        IndexNotFoundError: if no index has the ``name``.
    """
    tables = (
        connection.known_tables(statement, with_database=True) if ref is None else connection.resolve_all(ref)
    )
    if ref is not None and ref.kind is not TableRefKind.DATABASE and len(tables) == 1:
        indexes = [(table, index) for table in tables for index in table.indexes()]
        if building:
            indexes += [(table, index) for table in tables for index in table.indexes_being_built()]
    else:
        indexes = [(table, index) for table in tables for index in table.recorded_indexes(building=building)]
    if not indexes:
        connection.check_store()
    if name is None:
        return indexes
    matches = [(table, index) for table, index in indexes if index.name.lower() == name.lower()]
    if not matches:
        hint = suggestion(name, [index.name for _, index in indexes])
        raise IndexNotFoundError(f"Index {name!r} does not exist; {hint}SHOW INDEXES lists those that do")
    return matches


def _find_table(connection: Connection, index: str | None, ref: TableRef | None, statement: str) -> Table:
    """Return the table that a statement names with ON, or the only table in scope that has the index."""
    if ref is not None:
        return connection.resolve(ref)
    if index is None:
        raise StatementError(f"{statement} without a name needs ON and a table")
    candidates = connection.known_tables(f"{statement} {index}")
    tables = [table for table in candidates if table.has_index(index)]
    if len(tables) > 1:
        names = ", ".join(repr(table.name) for table in tables)
        raise StatementError(f"Index {index!r} is on several tables, name one with ON: {names}")
    if not tables:
        hint = suggestion(index, [name for table in candidates for name in table.index_names()])
        raise IndexNotFoundError(
            f"Index {index!r} does not exist in {connection.search_scope}{f'; {hint}'.rstrip() if hint else ''}"
        )
    return tables[0]
