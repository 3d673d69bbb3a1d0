"""Connections: where statements are run and tables are found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from hindex.errors import ColumnError, IndexNotFoundError, StatementError, TableError
from hindex.plan.explain import Explanation
from hindex.progress import NullProgress, Progress
from hindex.scan.scan import Scan
from hindex.spark.agreement import check_agreement
from hindex.spark.catalog import describe_table
from hindex.store.store import Store, list_stores
from hindex.table.listing import normalize_uri
from hindex.tables import Index, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindex.sql.statements import CreateIndex, DropIndex, Select, ShowIndexes, TableRef

#: Environment variable that names the store where ``connect`` is not given one.
STORE_VARIABLE = "HINDEX_STORE"

Result: TypeAlias = Scan | Explanation | Index | pa.Table | None


def connect(
    store: str | None = None,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Connection:
    """Open a connection.

    :param store: directory for the indexes of all tables; ``_hindex`` within each table if None. The
        environment variable ``HINDEX_STORE`` gives another default.
    :param spark: the session for builds and catalog names; a quiet local one is started when first needed.
    :param master: Spark master of the session to start.
    :param conf: Spark settings of the session to start.
    :param progress: told how far long work is.
    """
    return Connection(store or os.environ.get(STORE_VARIABLE) or None, spark, master, conf, progress)


class Connection:
    """Runs statements and finds tables. Make one with :func:`hindex.connect`."""

    def __init__(
        self,
        store: str | None = None,
        spark: SparkSession | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        # one place for the connection's life, wherever the process changes its directory to
        self._store = None if store is None else normalize_uri(store)
        self._spark = spark
        self._master = master
        self._conf = dict(conf or {})
        self.progress: Progress = progress or NullProgress()

    def spark(self) -> SparkSession:
        """The Spark session; a quiet local one is started if there is none.

        :raises MissingRuntimeError: if PySpark or Java is missing.
        """
        if self._spark is None:
            from hindex.spark.session import local_session

            self._spark = local_session(self._master, self._conf)
        return self._spark

    def table(self, name: str) -> Table:
        """A table by path or URI, or by its name in Spark's catalog.

        A plain name that no path has is looked up in the catalog of the session, if there is one.

        :raises TableError: if it is in neither.
        """
        if self._spark is not None and "/" not in name and not Path(name).exists():
            return self._catalog_table(name)
        return self._path_table(name)

    def sql(self, text: str) -> Result:
        """Run one statement.

        :returns: SELECT gives a :class:`~hindex.scan.scan.Scan`, and with COUNT(*) a one-row table; EXPLAIN an
            :class:`~hindex.plan.explain.Explanation`; SHOW INDEXES a table; CREATE INDEX the new
            :class:`~hindex.tables.Index`; DROP INDEX None.
        :raises StatementError: if it cannot be parsed; the message marks the position.
        """
        from hindex.sql import parse
        from hindex.sql.statements import CreateIndex, DropIndex, Explain, RefreshIndex, Select, ShowIndexes

        match parse(text):
            case Select() as select:
                if select.count:
                    # LIMIT is of the result's one row, not of the rows that are counted
                    counted = self._resolve(select.table).scan(select.where, []).count()
                    return pa.table({"count": pa.array([counted], pa.int64())}).slice(0, select.limit)
                scan = self._scan(select)
                scan.plan()  # a mistake in the statement is told now, not when the rows are read
                return scan
            case Explain(statement):
                return self._scan(statement).explain()
            case CreateIndex() as create:
                return self._create(create)
            case ShowIndexes() as show:
                return self._show(show)
            case RefreshIndex() as refresh:
                table = self._table_of(refresh.name, refresh.table, f"REFRESH INDEX {refresh.name}")
                table.refresh_indexes([refresh.name])
                return table.index(refresh.name)
            case DropIndex() as drop:
                self._drop(drop)
                return None

    def _scan(self, select: Select) -> Scan:
        columns: list[str] | None = None if select.columns is None else [c.name for c in select.columns]
        if select.count:
            columns = []
        return self._resolve(select.table).scan(select.where, columns, select.limit)

    def _create(self, statement: CreateIndex) -> Index:
        if len(statement.columns) != 1:
            raise ColumnError(
                f"an index is on one column, and {statement.name!r} names {len(statement.columns)}: create one for "
                "each; a scan combines them"
            )
        return self._resolve(statement.table).create_index(
            statement.name,
            statement.columns[0].name,
            statement.using,
            statement.where,
            dict(statement.properties),
            if_not_exists=statement.if_not_exists,
        )

    def _show(self, statement: ShowIndexes) -> pa.Table:
        if statement.table:
            table = self._resolve(statement.table)
            found = [(table.name, index) for index in table.indexes()]
        else:
            known = self._known_tables("SHOW INDEXES")
            found = [(table.name, index) for table in known for index in table.recorded_indexes()]
        if statement.name is not None:
            wanted = statement.name.lower()
            found = [(table, index) for table, index in found if index.name.lower() == wanted]
            if not found:
                raise IndexNotFoundError(
                    f"Index {statement.name!r} does not exist; SHOW INDEXES lists those that do"
                )
        return _indexes_table(found)

    def _drop(self, statement: DropIndex) -> None:
        try:
            table = self._table_of(statement.name, statement.table, f"DROP INDEX {statement.name}")
        except IndexNotFoundError:
            if statement.if_exists:
                return
            raise
        table.drop_index(statement.name, if_exists=statement.if_exists)

    def _table_of(self, index: str, ref: TableRef | None, statement: str) -> Table:
        """The table that a statement names with ON, or the only one of the store that has the index."""
        if ref is not None:
            return self._resolve(ref)
        wanted = index.lower()
        tables = [
            table
            for table in self._known_tables(statement)
            if any(item.name.lower() == wanted for item in table.recorded_indexes())
        ]
        if len(tables) > 1:
            names = ", ".join(repr(table.name) for table in tables)
            raise StatementError(f"Index {index!r} is on several tables, name one with ON: {names}")
        if not tables:
            raise IndexNotFoundError(f"Index {index!r} does not exist in the store {self._store!r}")
        return tables[0]

    def _known_tables(self, statement: str) -> list[Table]:
        if self._store is None:
            raise StatementError(
                f"{statement} needs ON and a table here: indexes are stored beside each table unless a store is given"
            )
        return [self._path_table(store.table_uri) for store in list_stores(self._store)]

    def _resolve(self, ref: TableRef) -> Table:
        from hindex.sql.statements import TableRefKind

        return self._path_table(ref.text) if ref.kind is TableRefKind.PATH else self._catalog_table(str(ref))

    def _path_table(self, path: str) -> Table:
        uri = normalize_uri(path)
        return Table(self, path, uri, Store.for_table(uri, self._store))

    def _catalog_table(self, name: str) -> Table:
        """A table of Spark's catalog, by its location."""
        described = describe_table(self.spark(), name)
        location = described.get("location")
        provider = str(described.get("provider", "")).lower()
        serde = str(described.get("serde_library", "")).lower()
        if not location or not (provider == "orc" or "orc" in serde):
            raise TableError(
                f"Table {name!r} is invalid: it is not a table of ORC files (provider {provider or 'none'!r})"
            )
        uri = normalize_uri(str(location))
        check = partial(check_agreement, self.spark(), name)
        return Table(self, name, uri, Store.for_table(uri, self._store), check)


def _indexes_table(indexes: Sequence[tuple[str, Index]]) -> pa.Table:
    """Indexes with their tables' names, as SHOW INDEXES gives them."""
    rows = [
        {
            "name": index.name,
            "table": table,
            "column": index.column,
            "type": index.type,
            "column_type": index.column_type,
            "where": index.where,
            "status": index.status,
            "size_bytes": index.size_bytes,
        }
        for table, index in indexes
    ]
    schema = pa.schema(
        [
            *(
                pa.field(n, pa.string())
                for n in ("name", "table", "column", "type", "column_type", "where", "status")
            ),
            pa.field("size_bytes", pa.int64()),
        ]
    )
    return pa.Table.from_pylist(rows, schema=schema)
