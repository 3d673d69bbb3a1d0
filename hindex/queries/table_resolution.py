"""Resolve the tables of one query: look up and list each at most once, and only if needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from hindex.errors import HindexError, NotOrcError, TableError, UnsupportedError
from hindex.lru_cache import cached_property
from hindex.plan.reasons import Reason
from hindex.spark.catalog import described_columns, run
from hindex.spark.jobs import first_line
from hindex.spark.locations import path_difference, spark_path, view_transactional_location
from hindex.spark.object_stores import spark_s3_uri
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

#: Number of concurrent lookups in Spark's catalog.
_LOOKUPS = 4


class ResolvedTable(Protocol):
    """The part of `hindex.Table` that planning a query needs."""

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

    def check_against_catalog(self, snapshot: Snapshot) -> None:
        """Raise TableError if a snapshot differs from the catalog's definition."""

    def unchecked_scan(
        self, where: Predicate | None, columns: Sequence[ColumnName], *, mode: Mode | None = None
    ) -> RowScan:
        """Return a scan of some columns of the matching rows."""


class TableResolver(Protocol):
    """The tables that queries name; `hindex.Connection` implements it."""

    def spark(self) -> SparkSession:
        """Return the session that runs the queries."""

    def describe(self, ref: TableRef, *, in_full: bool = False) -> dict[str, Any] | None:
        """Return the catalog's description of a table; None for a path."""

    def described_table(self, ref: TableRef, description: Mapping[str, Any] | None) -> ResolvedTable:
        """Make the table of a name and its description."""

    def list_table(self, table: ResolvedTable) -> Snapshot:
        """List the files of a table."""


class QueryTableState:
    """The state of a table that a query names, read lazily while the query is planned.

    Args:
        description: the catalog's description, for a catalog name.
        problem: why the table cannot be resolved; ``table`` is None then.
        trust_catalog: take from the catalog alone if the table is transactional, without listing its files.
    """

    def __init__(
        self,
        resolver: TableResolver,
        ref: TableRef,
        table: ResolvedTable | None,
        description: Mapping[str, Any] | None = None,
        problem: HindexError | None = None,
        *,
        trust_catalog: bool = False,
    ) -> None:
        self._resolver = resolver
        self._spark = resolver.spark()
        self._ref = ref
        self._table = table
        self._description = description
        self._trust_catalog = trust_catalog
        self.problem = problem

    @property
    def name(self) -> str:
        """Return the name of the table in SQL."""
        return str(self._ref)

    @property
    def description(self) -> Mapping[str, Any] | None:
        """Return the catalog's description; None for a path or an unknown name."""
        return self._description

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
        """Return the resolved table.

        Raises:
            HindexError: if it is no ORC table that can be read here.
        """
        if self._table is None:
            assert self.problem is not None
            raise self.problem
        return self._table

    @cached_property
    def is_transactional(self) -> bool:
        """Return True if the table, or a part of it, is transactional. Its files are listed once to find out."""
        if self._trust_catalog and self._description is not None:
            properties = self._description.get("table_properties") or {}
            return str(properties.get("transactional", "")).lower() == "true"
        if "snapshot" in self.__dict__:
            return bool(self.snapshot.listing.transactional)
        return self.table.is_transactional()

    @cached_property
    def snapshot(self) -> Snapshot:
        """The files of the table now; rows may be read by it if there is no `catalog_mismatch`.

        Raises:
            HindexError: if it cannot be read here.
        """
        return self._resolver.list_table(self.table)

    @cached_property
    def catalog_mismatch(self) -> str | None:
        """Return how the catalog and the files differ, or None.

        It runs Spark statements, so it is checked last.
        """
        try:
            self.table.check_against_catalog(self.snapshot)
        except HindexError as error:
            return str(error)
        return None

    @cached_property
    def unusable_reason(self) -> tuple[Reason, str] | None:
        """Return why the table cannot be read through indexes at all, or None."""
        try:
            if not self.table.index_names() and not self.is_transactional:
                return Reason.NO_INDEX, "it has no index"
            problem = path_difference(self._spark, self._ref.text, self.table.uri) if self.is_path else None
        except NotOrcError as error:
            problem = error.reason
        except HindexError as error:
            problem = str(error)
        return None if problem is None else (Reason.UNSUPPORTED_TABLE, problem)

    @cached_property
    def spark_schema(self) -> StructType:
        """The columns in Spark, with their metadata.

        Raises:
            TableError: if Spark cannot read the schema.
        """
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
            return self._spark.read.orc(spark_path(spark_s3_uri(self._spark, self.table.uri))).schema
        except PySparkException as error:
            raise TableError(f"Table {str(self._ref)!r} is unknown to Spark: {first_line(error)}") from error

    def names(self) -> Sequence[str] | None:
        """Return the names of the columns; None if the table cannot be read through indexes."""
        if self.unusable_reason is not None:
            return None
        try:
            if self._description is None or self.is_transactional:
                return self.snapshot.schema.names
            return described_columns(self._description)
        except HindexError as error:
            self.unusable_reason = Reason.UNSUPPORTED_TABLE, str(error)
            return None

    def spark_name(self) -> str | None:
        """Return the name in Spark of a table that Spark reads itself; None for the written name.

        Raises:
            TableError: for a transactional table, whose deltas Spark would ignore or read as rows; it names the
                `catalog_mismatch`, if there is one.
        """
        path = (
            f"orc.{quoted(spark_path(spark_s3_uri(self._spark, self.table.uri)))}" if self.is_path else None
        )
        try:
            is_transactional = self.is_transactional
        except HindexError as error:
            if self.is_path and isinstance(error, UnsupportedError):
                return path
            if self.is_path:
                raise
            # not a table of ORC files: Spark reads it, unless it is a view of a transactional table
            location = view_transactional_location(self._spark, str(self._ref))
            if location is None:
                return None
            raise TableError(
                f"View {str(self._ref)!r} reads {location!r}, a transactional table, which Spark cannot read by "
                "itself: make a view of hx.table(...).scan().to_spark(spark), and query that"
            ) from None
        if is_transactional:
            if self.catalog_mismatch is not None:
                raise TableError(self.catalog_mismatch)
            raise TableError(
                f"Table {str(self._ref)!r} is transactional, which Spark cannot read by itself: make a view of "
                "hx.table(...).scan().to_spark(spark), and query that"
            )
        return path

    def refresh(self) -> None:
        """Drop Spark's cached list of the table's files.

        Raises:
            TableError: if Spark cannot.
        """
        if self._description is not None:
            run(self._spark, str(self._ref), f"REFRESH TABLE {self._ref}")


def resolve_tables(
    resolver: TableResolver, refs: Sequence[TableRef], *, in_full: bool = False, trust_catalog: bool = False
) -> dict[TableRef, QueryTableState]:
    """Resolve the tables of some names, each once.

    Args:
        in_full: look them up by SQL statements, which query listeners and authorizers of the session see.
        trust_catalog: see `QueryTableState`.
    """

    def look_up(ref: TableRef) -> QueryTableState:
        description = table = problem = None
        try:
            description = resolver.describe(ref, in_full=in_full)
            table = resolver.described_table(ref, description)
        except HindexError as error:
            problem = error
        return QueryTableState(resolver, ref, table, description, problem, trust_catalog=trust_catalog)

    distinct = list(dict.fromkeys(refs))
    if len(distinct) < 2 or java_session(resolver.spark()) is not None:
        # the first Java call of a new thread takes as long as a lookup
        return {ref: look_up(ref) for ref in distinct}
    # a lookup over Spark Connect is mostly waiting for the server
    with ThreadPoolExecutor(min(len(distinct), _LOOKUPS)) as pool:
        return dict(zip(distinct, pool.map(look_up, distinct), strict=True))
