"""Connections: where statements are run and tables are found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from hindex.dispatch import IndexResult, run_index_statement
from hindex.errors import StatementError, TableError
from hindex.index.cache import shared_cache
from hindex.plan.explain import Explanation
from hindex.progress import NullProgress, Progress
from hindex.scan.scan import Scan
from hindex.spark.agreement import check_agreement
from hindex.spark.catalog import describe_table
from hindex.store.store import Store, list_stores
from hindex.table.listing import normalize_uri
from hindex.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindex.sql.statements import Select, TableRef

#: Environment variable that names the store where ``connect`` is not given one.
STORE_VARIABLE = "HINDEX_STORE"

Result: TypeAlias = Scan | Explanation | IndexResult


def connect(
    store: str | None = None,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    cache_bytes: int | None = None,
) -> Connection:
    """Open a connection.

    :param store: directory for the indexes of all tables; ``_hindex`` within each table if None. The
        environment variable ``HINDEX_STORE`` gives another default.
    :param spark: the session for builds and catalog names; a quiet local one is started when first needed.
    :param master: Spark master of the session to start.
    :param conf: Spark settings of the session to start.
    :param progress: told how far long work is.
    :param cache_bytes: how much of index files is kept in memory, for all connections of the process: 0 for nothing,
        None to leave it as it is. At first it is what the environment variable ``HINDEX_CACHE_BYTES`` says, or 128 MiB.
    """
    if cache_bytes is not None:
        if cache_bytes < 0:
            raise ValueError(f"cache_bytes is {cache_bytes}: it cannot be negative")
        shared_cache().resize(cache_bytes)
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
        # by URI, in the order of first use
        self._used: dict[str, Table] = {}

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
            :class:`~hindex.plan.explain.Explanation`; SHOW and DESCRIBE a table; CREATE INDEX the new
            :class:`~hindex.indexes.Index`. CREATE INDEX ... DRY RUN and the other statements return what they
            would do or did: :mod:`hindex.lifecycle.results`.
        :raises StatementError: if it cannot be parsed; the message marks the position.
        """
        from hindex.sql import parse
        from hindex.sql.statements import Explain, Select

        match parse(text):
            case Select() as select:
                if select.count:
                    # LIMIT is of the result's one row, not of the rows that are counted
                    counted = self.resolve(select.table).scan(select.where, []).count()
                    return pa.table({"count": pa.array([counted], pa.int64())}).slice(0, select.limit)
                scan = self._scan(select)
                scan.plan()  # a mistake in the statement is told now, not when the rows are read
                return scan
            case Explain(statement):
                return self._scan(statement).explain()
            case statement:
                return run_index_statement(self, statement)

    def _scan(self, select: Select) -> Scan:
        columns: list[str] | None = None if select.columns is None else [c.name for c in select.columns]
        if select.count:
            columns = []
        return self.resolve(select.table).scan(select.where, columns, select.limit)

    def known_tables(self, statement: str) -> list[Table]:
        """The tables of the store; without a store of its own, those that this connection has been asked for.

        :raises StatementError: if it has been asked for none; the message says that ``statement`` needs ON.
        :raises StoreError: if the store cannot be listed.
        """
        if self._store is not None:
            return [self._path_table(store.table_uri) for store in list_stores(self._store)]
        if not self._used:
            raise StatementError(
                f"{statement} needs ON and a table here: indexes are stored beside each table unless a store is given"
            )
        return list(self._used.values())

    @property
    def place(self) -> str:
        """Where indexes are looked for without ON, for messages."""
        return "the tables used so far" if self._store is None else f"the store {self._store!r}"

    def resolve(self, ref: TableRef) -> Table:
        """The table that a statement names."""
        from hindex.sql.statements import TableRefKind

        return self._path_table(ref.text) if ref.kind is TableRefKind.PATH else self._catalog_table(str(ref))

    def _path_table(self, path: str) -> Table:
        uri = normalize_uri(path)
        return self._remember(Table(self, path, uri, Store.for_table(uri, self._store)))

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
        return self._remember(Table(self, name, uri, Store.for_table(uri, self._store), check))

    def _remember(self, table: Table) -> Table:
        self._used[table.uri] = table
        return table
