"""Resolve the tables of one query: each is looked up and listed at most once, and only if needed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from hindex.errors import HindexError, TableError
from hindex.queries.views import transactional_place
from hindex.spark.catalog import described_columns, first_line, run
from hindex.spark.session import java_session
from hindex.spark.types import quoted, spark_ddl
from hindex.sql.statements import TableRef, TableRefKind
from hindex.store.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from hindex.plan.modes import Mode
    from hindex.spark.scan import RowScan
    from hindex.sql.predicate import Predicate
    from hindex.table.schema import ColumnName

#: Names that Spark's catalog is asked for at once.
_LOOKUPS = 4
#: What a path to Spark is a pattern for, of several places.
_GLOB = re.compile(r"[\[\]{}*?\\]")


class ResolvedTable(Protocol):
    """The part of :class:`hindex.Table` that planning a query needs."""

    @property
    def name(self) -> str:
        """Return the name as written."""

    @property
    def uri(self) -> str:
        """Return the directory of the table."""

    def is_transactional(self) -> bool:
        """Return True if the table, or a part of it, is transactional."""

    def index_names(self) -> list[str]:
        """Return the names of the recorded indexes."""

    def snapshot(self) -> Snapshot:
        """List the files and check them against the catalog."""

    def unchecked_snapshot(self) -> Snapshot:
        """List the files."""

    def check(self, snapshot: Snapshot) -> None:
        """Raise TableError if a snapshot differs from the catalog's definition."""

    def scan(
        self, where: Predicate | None, columns: Sequence[ColumnName], *, mode: Mode | None = None
    ) -> RowScan:
        """Return a scan of some columns of the matching rows."""


class TableResolver(Protocol):
    """Finds the tables that queries name, as a :class:`hindex.Connection` does."""

    def spark(self) -> SparkSession:
        """Return the session that runs the queries."""

    def describe(self, ref: TableRef, *, in_full: bool = False) -> dict[str, Any] | None:
        """Read what the catalog says of a table; None for a path."""

    def described_table(self, ref: TableRef, described: Mapping[str, Any] | None) -> ResolvedTable:
        """Make the table of a name and its description."""

    def list_table(self, table: ResolvedTable) -> Snapshot:
        """List the files of a table."""


class CachingResolver:
    """A resolver that looks tables up, and lists their files, once in a while.

    What it remembers may be outdated: it serves to find out that a query need not be looked at any further. Before
    rows are read by it, :meth:`is_current` has to be asked.

    :param seconds: how long a description and a listing are remembered.
    """

    def __init__(self, resolver: TableResolver, seconds: float = 30.0) -> None:
        self._resolver = resolver
        self._seconds = seconds
        self._remembered: dict[TableRef, tuple[float, dict[str, Any] | None]] = {}
        # by name and URI: the same files have other columns by path than by the name of a catalog
        self._snapshots: dict[tuple[str, str], tuple[float, Snapshot]] = {}

    def spark(self) -> SparkSession:
        """Return the session that runs the queries."""
        return self._resolver.spark()

    def describe(self, ref: TableRef, *, in_full: bool = False) -> dict[str, Any] | None:
        """Return what the catalog says of a table, or said of it a short while ago."""
        read_at, described = self._remembered.get(ref, (None, None))
        if in_full or read_at is None or monotonic() - read_at > self._seconds:
            described = self._resolver.describe(ref, in_full=in_full)
            self._remembered[ref] = monotonic(), described
        return described

    def described_table(self, ref: TableRef, described: Mapping[str, Any] | None) -> ResolvedTable:
        """Make the table of a name and its description."""
        return self._resolver.described_table(ref, described)

    def list_table(self, table: ResolvedTable) -> Snapshot:
        """Return the files of a table, or those of a short while ago, if the store still has the same indexes."""
        now = monotonic()
        self._snapshots = {
            key: item for key, item in self._snapshots.items() if now - item[0] <= self._seconds
        }
        key = table.name, table.uri
        _, snapshot = self._snapshots.get(key, (now, None))
        if snapshot is None or not snapshot.has_latest_indexes():
            snapshot = self._resolver.list_table(table)
            self._snapshots[key] = now, snapshot
        return snapshot

    def is_current(
        self, tables: Mapping[TableRef, QueryTableState], listed: Collection[QueryTableState], since: float
    ) -> bool:
        """True if tables still are as they were planned by; if not, forget all.

        :param tables: those whose descriptions have to be the catalog's.
        :param listed: those whose files have to be the same.
        :param since: the time of :func:`time.monotonic` from which on a listing is as good as one of now.
        """
        is_same = all(
            table.described is None or self._resolver.describe(ref) == table.described
            for ref, table in tables.items()
        ) and all(self._is_current_listing(table, since) for table in listed)
        if not is_same:
            self.forget()
        return is_same

    def _is_current_listing(self, table: QueryTableState, since: float) -> bool:
        read_at, snapshot = self._snapshots.get((table.table.name, table.table.uri), (since, None))
        if snapshot is table.snapshot and read_at >= since:
            return True
        return self._resolver.list_table(table.table).is_same_state(table.snapshot)

    def forget(self) -> None:
        """Look tables up anew from now on."""
        self._remembered.clear()
        self._snapshots.clear()


class QueryTableState:
    """A table that a query names, as it is while the query is planned.

    :param described: what the catalog says of it, where it is named by the catalog.
    :param problem: why it cannot be used here; it is not resolved then.
    :param as_spark: the table is transactional only if the catalog says so; its files are not listed to see.
    """

    def __init__(
        self,
        resolver: TableResolver,
        ref: TableRef,
        table: ResolvedTable | None,
        described: Mapping[str, Any] | None = None,
        problem: HindexError | None = None,
        *,
        as_spark: bool = False,
    ) -> None:
        self._resolver = resolver
        self._spark = resolver.spark()
        self._ref = ref
        self._table = table
        self._described = described
        self._as_spark = as_spark
        self.problem = problem

    @property
    def name(self) -> str:
        """Its name, as SQL has it."""
        return str(self._ref)

    @property
    def described(self) -> Mapping[str, Any] | None:
        """Return the catalog's description; None for a path or an unknown name."""
        return self._described

    @property
    def uri(self) -> str | None:
        """Return the directory of the table; None if it is unknown, as for a view."""
        return None if self._table is None else self._table.uri

    @property
    def is_path(self) -> bool:
        """Return True if the query names a path."""
        return self._ref.kind is TableRefKind.PATH

    @property
    def table(self) -> ResolvedTable:
        """:raises HindexError: where it is none of ORC files that are here."""
        if self._table is None:
            assert self.problem is not None
            raise self.problem
        return self._table

    @cached_property
    def is_transactional(self) -> bool:
        """Return True if the table, or a part of it, is transactional. Its files are listed once to find out."""
        if self._as_spark and self._described is not None:
            properties = self._described.get("table_properties") or {}
            return str(properties.get("transactional", "")).lower() == "true"
        if "snapshot" in self.__dict__:
            return bool(self.snapshot.listing.transactional)
        return self.table.is_transactional()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as it is now, by its files: rows are read by it where there is no :attr:`disagreement`.

        :raises HindexError: where it cannot be read here.
        """
        return self._resolver.list_table(self.table)

    @cached_property
    def disagreement(self) -> str | None:
        """Return how the catalog and the files differ, or None.

        It runs Spark statements, so it is checked last.
        """
        try:
            self.table.check(self.snapshot)
        except HindexError as error:
            return str(error)
        return None

    @cached_property
    def why_not(self) -> str | None:
        """Return why the table cannot be read through indexes at all, or None."""
        try:
            return None if self.table.index_names() or self.is_transactional else "it has no index"
        except HindexError as error:
            return str(error)

    @cached_property
    def spark_schema(self) -> StructType:
        """Its columns as Spark has them, with their metadata. :raises TableError: if Spark cannot tell."""
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        declared = self.snapshot.declared
        if declared is not None:
            return StructType.fromJson(json.loads(declared.spark_json))
        if self.is_transactional:
            # Spark would take the directories of deltas for partitions
            columns = self.snapshot.schema.columns
            schema = StructType.fromDDL(", ".join(f"{quoted(c.name)} {spark_ddl(c.type)}" for c in columns))
            assert isinstance(schema, StructType)
            return schema
        try:
            return self._spark.read.orc(_literally(self.table.uri)).schema
        except PySparkException as error:
            raise TableError(f"Table {str(self._ref)!r} is unknown to Spark: {first_line(error)}") from error

    def names(self) -> Sequence[str] | None:
        """Its columns, where conditions of the query may be asked of it; None where they may not."""
        if self.why_not is not None:
            return None
        try:
            if self._described is None or self.is_transactional:
                return self.snapshot.schema.names
            return described_columns(self._described)
        except HindexError as error:
            self.why_not = str(error)
            return None

    def spark_name(self) -> str | None:
        """Return the name to give Spark for a table that it reads itself; None for the written name.

        :raises TableError: for a transactional table, whose deltas Spark would not read or take for rows; it names the
            :attr:`disagreement`, if there is one.
        """
        try:
            is_transactional = self.is_transactional
        except HindexError:
            if self.is_path:
                raise
            # of whatever else the catalog has, Spark knows more
            place = transactional_place(self._spark, str(self._ref))
            if place is None:
                return None
            raise TableError(
                f"View {str(self._ref)!r} reads {place!r}, a transactional table, which Spark cannot read by itself: "
                "make a view of hx.table(...).scan().to_spark(spark), and query that"
            ) from None
        if is_transactional:
            if self.disagreement is not None:
                raise TableError(self.disagreement)
            raise TableError(
                f"Table {str(self._ref)!r} is transactional, which Spark cannot read by itself: make a view of "
                "hx.table(...).scan().to_spark(spark), and query that"
            )
        return f"orc.{quoted(_literally(self.table.uri))}" if self.is_path else None

    def refresh(self) -> None:
        """Have Spark list its files anew when they are next asked for. :raises TableError: if Spark cannot."""
        if self._described is not None:
            run(self._spark, str(self._ref), f"REFRESH TABLE {self._ref}")


def _literally(path: str) -> str:
    """A path as Spark takes it for no pattern."""
    return _GLOB.sub(r"\\\g<0>", path)


def resolve_tables(
    resolver: TableResolver, refs: Sequence[TableRef], *, in_full: bool = False, as_spark: bool = False
) -> dict[TableRef, QueryTableState]:
    """The tables of some names, each asked for once.

    :param in_full: look them up by statements, which all that watches over the session's statements sees.
    :param as_spark: see :class:`QueryTableState`.
    """

    def look_up(ref: TableRef) -> QueryTableState:
        described = table = problem = None
        try:
            described = resolver.describe(ref, in_full=in_full)
            table = resolver.described_table(ref, described)
        except HindexError as error:
            problem = error
        return QueryTableState(resolver, ref, table, described, problem, as_spark=as_spark)

    distinct = list(dict.fromkeys(refs))
    if len(distinct) < 2 or java_session(resolver.spark()) is not None:
        # a thread's first call of the Java side takes as long as what it would wait for
        return {ref: look_up(ref) for ref in distinct}
    # asking the catalog of a server is mostly waiting
    with ThreadPoolExecutor(min(len(distinct), _LOOKUPS)) as pool:
        return dict(zip(distinct, pool.map(look_up, distinct), strict=True))
