"""Connections: run statements and look up tables."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from hindex.api.query_result import QueryResult
from hindex.api.scan import Scan
from hindex.api.select_statements import run_select
from hindex.api.statement_table import StatementTable
from hindex.api.table import Table
from hindex.errors import (
    ArgumentError,
    ArgumentTypeError,
    ColumnError,
    HindexError,
    NotOrcError,
    PredicateError,
    StatementError,
    StoreError,
    UnknownTableError,
    UnsupportedError,
)
from hindex.index.index_type import load_index_types
from hindex.index.page_cache import shared_cache
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.io.file_system import request_limit
from hindex.orc.reader.file_cache import check_bound
from hindex.plan.modes import Mode
from hindex.plan.time_zones import TimeZones
from hindex.progress import LogProgress, NullProgress, Progress
from hindex.sql.words import WITH_SPARK
from hindex.store.storage import is_missing
from hindex.store.store import Store, list_stores
from hindex.table.location import is_local, normalize_uri, suggest_path
from hindex.table.transactional import AcidOptions
from hindex.validation import (
    check_keywords,
    check_session,
    check_string,
    is_utf8,
    is_whole,
    raise_missing_attribute,
)
from hindex.value_class import value_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hindex.api.index_statements import IndexResult
    from hindex.explanations.explanation import Explanation
    from hindex.queries.decisions import QueryExplanation
    from hindex.queries.plan_rule import PlanRule
    from hindex.queries.table_resolution import ResolvedTable
    from hindex.sql.queries import Query
    from hindex.sql.statements import Explain, Select, SelectExists, Statement, TableRef
    from hindex.store.snapshot import Snapshot

#: Environment variable with the store of ``connect`` without ``store``.
STORE_VARIABLE = "HINDEX_STORE"

#: Beginning of the message of an unsupported feature.
_UNSUPPORTED = re.compile(r"unsupported at line \d+, column \d+: ")
#: Beginning of its remedy, which a session has.
_WAY_OUT = f". {WITH_SPARK}"
#: A URI that ``Path`` shortened to one slash.
_CUT_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")

#: Schemes whose URIs usually have no host: the path follows the slashes.
_HOSTLESS = ("hdfs:", "viewfs:", "dbfs:", "memory:")

#: Errors of a query that Spark may answer although hindex does not.
SPARK_MAY_ANSWER = (ColumnError, NotOrcError, PredicateError, UnsupportedError)

Result: TypeAlias = "QueryResult | StatementTable | Explanation | IndexResult | QueryExplanation"


@value_class
class SparkQuery:
    """A query that Spark runs.

    Attributes:
        error: the reason why hindex does not answer it by itself.
    """

    query: Query
    text: str
    error: HindexError

    @property
    def cause(self) -> str:
        """The reason in one line, without the position in the statement and the remedy."""
        if isinstance(self.error, StatementError) and not isinstance(self.error, UnsupportedError):
            return "it is more than a SELECT of one table"
        if isinstance(self.error, NotOrcError):
            return self.error.reason
        line = str(self.error).partition("\n")[0]
        position = _UNSUPPORTED.match(line)
        return line if position is None else line[position.end() :].partition(_WAY_OUT)[0].partition("; ")[0]


_LOG = logging.getLogger("hindex.build")
_TABLES_LOG = logging.getLogger("hindex")
#: A name that Spark's catalog may have.
_NAME = re.compile(r"\w+(\.\w+){0,2}")


@check_keywords
def connect(
    store: str | os.PathLike[str] | None = None,
    spark: SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    cache_bytes: int | None = None,
    valid_write_ids: str = "",
    mode: str | Mode = Mode.LENIENT,
) -> Connection:
    """Open a connection.

    Args:
        store: directory for the indexes of all tables; ``_hindex`` within each table if None. The environment variable
            ``HINDEX_STORE`` sets another default.
        spark: the session for builds and catalog names; by default a local one is started when first needed.
        master: Spark master of the session to start.
        conf: Spark settings of the session to start.
        progress: receives the progress of long work; by default, the logger ``hindex.build`` does, at INFO.
        cache_bytes: the memory for index pages, shared by all connections of the process: 0 disables the cache, None
            keeps its size, initially that of the environment variable ``HINDEX_CACHE_BYTES``, or 128 MiB.
        valid_write_ids: the visible write ids of transactional tables, as Hive writes them
            (``table:highWatermark:minOpen:open,...:aborted,...``); all if empty.
        mode: ``strict`` raises an error instead of reading rows that no index answers. ``prove`` compares every query
            with a full scan, and quarantines an index that disagrees.

    Raises:
        ArgumentTypeError: for a parameter of the wrong type.
        ArgumentError: for a store that is a ``Path`` of a URI, and any other parameter with an invalid value.
        HindexError: if an environment variable that bounds a cache is not a number of bytes.
    """
    if cache_bytes is not None:
        if not is_whole(cache_bytes):
            raise ArgumentTypeError(f"cache_bytes is {cache_bytes!r}: pass a whole number of bytes")
        if cache_bytes < 0:
            raise ArgumentError(f"cache_bytes is {cache_bytes}: it cannot be negative")
        shared_cache().resize(cache_bytes)
    # checked here: during a lookup, an error only keeps the index from being used
    shared_cache()
    check_bound()
    request_limit()
    if spark is not None:
        check_session(spark)
    if master is not None:
        check_string(master, "master", "local[*]")
    if conf is not None and not isinstance(cast("object", conf), Mapping):
        raise ArgumentTypeError(
            f"conf is {conf!r}: it is settings by name, such as {{'spark.driver.memory': '2g'}}"
        )
    store = _uri_argument(store or os.environ.get(STORE_VARIABLE) or "", "store") or None
    return Connection(store, spark, master, conf, progress, valid_write_ids, Mode.of(mode))


class Connection:
    """Runs statements and finds tables. Make one with `hindex.connect`."""

    def __init__(
        self,
        store: str | None = None,
        spark: SparkSession | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        progress: Progress | None = None,
        valid_write_ids: str = "",
        mode: Mode = Mode.LENIENT,
    ) -> None:
        # queries import nothing of these: a process that is forked while a thread imports a module can never import
        # it, and an interrupt leaves half of one
        load_index_types()
        from hindex.sql import parse_predicate  # noqa: F401

        # resolved once: the process may change its directory later
        self._store = None if store is None else normalize_uri(store)
        self._spark = spark
        self._master = master
        self._conf = dict(conf or {})
        self._has_user_session = spark is not None or master is not None or bool(conf)
        #: Further settings of a session that this connection starts; unlike ``conf``, they do not request one.
        self.start_conf: Mapping[str, str] = {}
        self.progress: Progress = progress or LogProgress(_LOG.info)
        #: The behaviour of queries if an index cannot be used.
        self.mode = mode
        self._valid_write_ids = ValidWriteIds.parse(valid_write_ids)
        self._plan_rule: PlanRule | None = None
        # by URI, in the order of first use
        self._tables: dict[str, Table] = {}
        # catalog names, by URI, of tables that only queries read: statements about indexes look them up again
        self._catalog_names: dict[str, str] = {}

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(self, name, "a connection", [("hx.table(name)", Table)])

    def __getstate__(self) -> dict[str, object]:
        """Leave behind what belongs to this process.

        Raises:
            UnsupportedError: if the connection has a Spark session, or settings for one.
        """
        if self._has_session:
            raise UnsupportedError(
                "a connection with a Spark session cannot be pickled, nor can its tables and scans: use those of "
                "hindex.connect() without a session"
            )
        return {**self.__dict__, "progress": LogProgress(_LOG.info), "_tables": {}, "_catalog_names": {}}

    def __repr__(self) -> str:
        parts = [f"store={self._store!r}", f"spark={self._session_text()}"]
        if self.mode is not Mode.LENIENT:
            parts.append(f"mode={self.mode.value!r}")
        return f"Connection({', '.join(parts)})"

    def _session_text(self) -> str:
        """Describe the session without a call to it: it may be remote, or stopped."""
        if self._spark is None:
            return "None"
        context = getattr(self._spark, "_sc", None)
        return repr(getattr(context, "master", None) or ("Spark Connect" if context is None else "a session"))

    def spark(self) -> SparkSession:
        """Return the Spark session; start a local one if the connection has none.

        Raises:
            MissingRuntimeError: if PySpark or Java is missing.
            HindexError: if the session was stopped.
        """
        from hindex.spark.session import check_running, local_session, running_session

        if self._spark is None:
            # the start takes seconds: most of the build of a small index
            progress = self.progress if running_session() is None else NullProgress()
            progress.start(1, "starting Spark", "session")
            try:
                self._spark = local_session(self._master, {**self.start_conf, **self._conf})
                progress.advance()
            finally:
                progress.finish()
        check_running(self._spark)
        return self._spark

    def table(self, name: str | os.PathLike[str], *, valid_write_ids: str | None = None) -> Table:
        """Return a table by path or URI, or by its name in Spark's catalog.

        If the connection has a session, or settings for one, a plain name is first looked up in its catalog; a string
        with a slash and a ``Path`` never are. A warning is logged if there is also a path of the name.

        Args:
            valid_write_ids: the visible write ids of a transactional table; those of `connect` if None.

        Raises:
            TableError: if neither a path nor the catalog has the table.
            ArgumentTypeError: if it is neither a string nor a path.
            ArgumentError: if it is a ``Path`` of a URI.
        """
        from hindex.spark.catalog import describe_table, is_path

        valid = None if valid_write_ids is None else ValidWriteIds.parse(valid_write_ids)
        if not isinstance(name, str):
            return self._path_table(_uri_argument(name, "name"), valid)
        is_existing = is_path(name)
        # names of files and directories need not be identifiers
        if self._has_session and "/" not in name and (not is_existing or _NAME.fullmatch(name)):
            try:
                described = describe_table(self.spark(), name)
            except UnknownTableError as error:
                if not is_existing:
                    similar = suggest_path(name)
                    raise UnknownTableError(
                        f"Table {name!r} is invalid: it is neither a path nor a table of Spark's catalog"
                        f"{f'; did you mean {similar!r}?' if similar else f'.{error.hint}' if error.hint else ''}"
                    ) from error
            else:
                if is_existing:
                    _TABLES_LOG.warning(
                        "%r is the table of Spark's catalog, not the path: write %r for the path",
                        name,
                        f"./{name}",
                    )
                return self._remember(self._described_table(name, described, valid))
        return self._path_table(name, valid)

    def sql(self, text: str, args: Mapping[str, object] | Sequence[object] | None = None) -> Result:
        """Run one statement.

        hindex answers a SELECT of one ORC table. If the connection has a Spark session, Spark runs every other query
        (joins, views, tables of other formats), and reads tables through their indexes where that leaves few rows.

        Args:
            args: values of the statement's parameters: a mapping for ``:name``, a list for ``?``. Only Spark takes
                values that SQL has no literal for.

        Returns:
            a `hindex.api.query_result.QueryResult` for a query; an `hindex.explanations.explanation.Explanation` for
            EXPLAIN, or a `hindex.queries.query_plan.QueryExplanation` if Spark runs the query; a
            `hindex.api.statement_table.StatementTable` for SHOW and DESCRIBE; the new `hindex.api.index.Index` for
            CREATE INDEX. CREATE INDEX ... DRY RUN and the other statements return a record of
            `hindex.maintain.results`.

        Raises:
            StatementError: if it cannot be parsed; the message marks the position.
            ArgumentError: for a parameter without an argument, and for an argument without a parameter.
        """
        from hindex.sql.statements import (
            DescribeTable,
            Explain,
            Select,
            SelectExists,
            ShowColumns,
            ShowIndexes,
        )

        if not isinstance(cast("object", text), str):
            raise StatementError(f"{text!r} is not a statement: pass SQL as a string")
        if not is_utf8(text):
            raise StatementError("the statement is not UTF-8")
        if args is not None:
            from hindex.sql.parameters import check_args

            args = check_args(args)
        match self._classify(text, args):
            case SparkQuery() as query:
                return self._run_by_spark(query)
            case (Select() | SelectExists() | Explain()) as statement:
                has_session = self._has_session  # before the lookup of a table starts one
                try:
                    return self._run_select(statement, text)
                except SPARK_MAY_ANSWER as error:
                    if not has_session:
                        raise
                    return self._run_by_spark(self._spark_query(text, args, error))
            case (DescribeTable() | ShowColumns()) as statement:
                from hindex.api.table_statements import run_table_statement

                return StatementTable(text, run_table_statement(self, statement))
            case statement:
                from hindex.api.index_statements import brief_columns, run_index_statement

                result = run_index_statement(self, statement)
                if not isinstance(result, pa.Table):
                    return result
                is_list = isinstance(statement, ShowIndexes)
                return StatementTable(text, result, brief_columns(result) if is_list else None)

    def _classify(
        self, text: str, args: Mapping[str, object] | Sequence[object] | None
    ) -> Statement | SparkQuery:
        """Parse a statement: one of hindex's own, or a query that only Spark can answer.

        Raises:
            StatementError: if it is neither, or the query needs a Spark session and the connection has none.
        """
        from hindex.sql import parse

        try:
            # parameters are bound as PySpark binds them if the session is the user's
            return parse(text, args, for_spark=self._has_user_session)
        except StatementError as error:
            return self._spark_query(text, args, error)

    def _run_select(self, statement: Select | SelectExists | Explain, text: str) -> QueryResult | Explanation:
        from hindex.sql.statements import Explain

        self._check_settings(text)
        if isinstance(statement, Explain):
            scan = self.resolve(statement.statement.table).unchecked_scan()
            checked = self._listed_scan(scan, statement.statement)
            # ANALYZE measures the listing too, so it lists the table again
            rows = run_select(scan if statement.analyze else checked, statement.statement)
            return rows.explain(analyze=statement.analyze)
        scan = self.resolve(statement.table).unchecked_scan()
        rows = run_select(scan, statement)
        # a mistake in the statement is raised now, not when the rows are read
        if self._has_user_session or not self._is_valid(scan, statement):
            self._check_same_rows(rows.plan().snapshot, statement)
        return QueryResult(text, rows, self.session)

    @staticmethod
    def _is_valid(scan: Scan, statement: Select | SelectExists) -> bool:
        """Return True if a statement fits the schema that the table had a while ago."""
        schema = scan.cached_schema()
        # the other modes refuse or prove what the indexes answer by now
        if schema is None or scan.mode is not Mode.LENIENT:
            return False
        try:
            run_select(scan.on_snapshot(schema), statement).plan()
        except HindexError:
            # the table may be another by now
            return False
        return True

    def _listed_scan(self, scan: Scan, select: Select | SelectExists) -> Scan:
        """Return a scan of the snapshot that `_check_same_rows` checks, so that the table is listed once."""
        if not self._has_user_session:
            return scan
        snapshot = scan.snapshot()
        self._check_same_rows(snapshot, select)
        return scan.on_snapshot(snapshot)

    def _check_same_rows(self, snapshot: Snapshot, select: Select | SelectExists) -> None:
        """Refuse a statement for which the user's Spark session returns other rows.

        Raises:
            UnsupportedError: with the reason.
        """
        if self._has_user_session:
            from hindex.spark.compatibility import check_same_rows

            check_same_rows(self.zones, self._is_set, snapshot, select)

    def _check_settings(self, text: str) -> None:
        """Refuse a statement that the user's Spark session parses differently.

        Raises:
            UnsupportedError: with the reason.
        """
        if not self._has_user_session:
            return
        from hindex.spark.compatibility import setting_difference
        from hindex.spark.settings import reason_in, setting_reason

        session = self._configured_session()
        reason = setting_difference(self._is_set, text)
        reason = reason or (reason_in(self._conf) if session is None else setting_reason(session))
        if reason is not None:
            raise UnsupportedError(f"{reason}, with which Spark may read the statement otherwise")

    def _is_set(self, key: str, default: bool) -> bool:
        """Return True if a Spark setting is on, in the session or in the configuration of a session to start."""
        from hindex.spark.compatibility import is_set

        if self._spark is None and key in self._conf:
            return str(self._conf[key]).lower() == "true"
        session = self._configured_session()
        return default if session is None else is_set(session, key, default)

    def _configured_session(self) -> SparkSession | None:
        """Return the session; None if it is not started, and all its settings are known without it."""
        from hindex.spark.session import has_own_settings, running_session

        if self._spark is not None:
            return self._spark
        return running_session() or (self.spark() if has_own_settings(self._master) else None)

    def session(self) -> SparkSession | None:
        """Return the Spark session of the user, or one that a build has started; None if there is none."""
        return self.spark() if self._has_session else None

    def zones(self) -> TimeZones | None:
        """Return the time zones of the user's Spark session; None if the user has none.

        A session that the user only configured is started, so that rows do not depend on when it starts. A session that
        a build started does not affect reads.
        """
        if not self._has_user_session:
            return None
        from hindex.spark.session import session_time_zones

        return session_time_zones(self.spark())

    @property
    def _has_session(self) -> bool:
        """Return True if the user has or configured a Spark session, or a build has started one."""
        return self._spark is not None or self._has_user_session

    def _spark_query(
        self,
        text: str,
        args: Mapping[str, object] | Sequence[object] | None,
        error: HindexError,
    ) -> SparkQuery:
        """Parse a query for Spark, which hindex does not answer by itself because of ``error``.

        Raises:
            HindexError: ``error``, if the text is not a query, or Spark would not answer it either.
            StatementError: for a kind of EXPLAIN that the query does not have, and without a Spark session.
        """
        from hindex.sql.queries import explain_kind, parse_query

        kind = explain_kind(text)
        if kind == "ANALYZE" and not isinstance(error, StatementError):
            raise error
        if kind is not None and (kind != "ANALYZE" or self._has_session):
            raise StatementError(
                f"EXPLAIN {kind} does not support this query: EXPLAIN alone shows which tables are read through "
                "indexes, EXPLAIN ANALYZE measures the scan of a single table, and "
                "spark.sql(query).explain('extended') shows Spark's own plan"
            ) from error
        query = parse_query(text, args)
        if query is None or not self._has_session:
            raise error
        return SparkQuery(query, text, error)

    def _run_by_spark(self, query: SparkQuery) -> QueryResult | QueryExplanation:
        from hindex.api.frame_rows import FrameRows
        from hindex.queries.query_execution import SparkSyntaxError, explain_query, run_query
        from hindex.spark.session import java_session

        error = query.error
        rule = None if java_session(self.spark()) is None else self.plan_rule()

        def explain() -> QueryExplanation:
            return replace(explain_query(self, query.query, rule), cause=query.cause)

        try:
            if query.query.is_explain:
                return explain()
            frame = run_query(self, query.query, query.cause, rule)
            planning = nullcontext if rule is None else partial(rule.forced, True)
            return QueryResult(query.text, FrameRows(frame, explain, query.text, planning), self.session)
        except StatementError as spark_error:
            if isinstance(error, NotOrcError):
                raise  # it is no mistake to leave such a table to Spark
            if not isinstance(error, StatementError):
                raise error from spark_error
            # hindex's message marks the mistake in the user's own text, so it comes before Spark's; a feature that
            # hindex lacks is no mistake
            is_mistake = query.query.is_select and not isinstance(error, UnsupportedError)
            if is_mistake and (isinstance(spark_error, SparkSyntaxError) or not query.query.tables):
                raise error from spark_error
            raise

    def plan_rule(self) -> PlanRule:
        """Return the rule of the session's optimizer, which is made at the first call, and off.

        Raises:
            UnsupportedError: over Spark Connect.
        """
        from hindex.queries.plan_rule import PlanRule

        if self._plan_rule is None:
            self._plan_rule = PlanRule(self, self._store)
        return self._plan_rule

    def explain(self, frame: DataFrame) -> QueryExplanation:
        """Explain how an accelerated session reads the tables of a DataFrame, and why.

        That plans the query: it computes the small sides of lookup joins, and compares the rows of row groups.

        Raises:
            UnsupportedError: over Spark Connect, where Spark's plan is not in reach.
        """
        return self.plan_rule().explain(frame)

    def known_tables(self, statement: str, *, with_database: bool = False) -> list[Table]:
        """Return the tables of the store; without a store, the tables that this connection has used.

        Args:
            with_database: without a store, add those of the session's current database that have indexes.

        Raises:
            StatementError: if there are none to look in; the message says that ``statement`` needs ON.
            StoreError: if the store cannot be listed.
        """
        from hindex.spark.catalog import describe_table

        if self._store is not None:
            return [self._path_table(store.table_uri) for store in list_stores(self._store)]
        for uri, name in list(self._catalog_names.items()):
            if uri in self._tables:
                continue
            with suppress(UnknownTableError):  # it may have been dropped
                table = self._described_table(name, describe_table(self.spark(), name))
                if table.uri == uri:
                    self._remember(table)
        if with_database and self._has_session:
            self._database_tables(None)
        elif not self._tables:
            raise StatementError(
                f"{statement} needs ON and a table here: without a store, indexes are stored beside each table"
            )
        return list(self._tables.values())

    def _database_tables(self, database: TableRef | None) -> list[Table]:
        """Return the tables of a database, the current one if None, that have indexes."""
        from hindex.spark.catalog import indexed_tables

        tables = []
        for name in indexed_tables(self.spark(), database, self._store):
            # it may have been dropped, or replaced by a table of another format
            with suppress(UnknownTableError, NotOrcError):
                tables.append(self._catalog_table(name))
        return tables

    @property
    def store(self) -> str | None:
        """The store of the indexes of all tables; None if each table has its own."""
        return self._store

    @property
    def search_scope(self) -> str:
        """The tables that statements without ON search, for messages."""
        if self._store is None:
            return "the tables used so far"
        return f"the store {self._store!r}{', which does not exist' if is_missing(self._store) else ''}"

    def check_store(self) -> None:
        """Check that the connection's store exists; the first index creates it.

        Raises:
            StoreError: if it does not.
        """
        if self._store is not None and is_missing(self._store):
            similar = suggest_path(self._store, Path.is_dir) if is_local(self._store) else None
            hint = f"did you mean {similar!r}? " if similar else ""
            raise StoreError(
                f"there is no store at {self._store!r}: {hint}name it by --store, connect(store=...) or "
                f"{STORE_VARIABLE}; the first CREATE INDEX makes it"
            )

    def resolve_all(self, ref: TableRef) -> list[Table]:
        """Return the table that a statement names, or the tables of a database that have indexes.

        A name that no table has may be that of a database.

        Raises:
            UnknownTableError: for a name that no catalog has.
        """
        from hindex.sql.statements import TableRef, TableRefKind

        if ref.kind is TableRefKind.PATH:
            return [self.resolve(ref)]
        self.check_catalog(ref)
        if ref.kind is not TableRefKind.DATABASE:
            catalog = self.spark().catalog
            # Spark logs an error for a table that does not exist
            if not catalog.databaseExists(str(ref)) or catalog.tableExists(str(ref)):
                return [self.resolve(ref)]
            ref = TableRef.database(*ref.parts)
        return self._database_tables(ref)

    def resolve(self, ref: TableRef) -> Table:
        """Return the table that a statement names.

        Raises:
            UnknownTableError: for a name that no catalog has; a session starts only if a catalog may have it.
            NotOrcError: for a path of files of another format, as Spark writes it.
        """
        from hindex.sql.statements import TableRefKind

        if ref.kind is TableRefKind.PATH:
            return self._path_table(ref.text)
        from hindex.spark.catalog import wrong_format_error

        self.check_catalog(ref)
        try:
            return self._catalog_table(str(ref))
        except UnknownTableError as error:
            if ref.other_format:
                raise wrong_format_error(str(ref), ref.other_format) from error
            raise

    def check_catalog(self, ref: TableRef) -> None:
        """Check that there is a catalog that may have a name; no session starts.

        Raises:
            UnknownTableError: if there is none.
            NotOrcError: for a path of files of another format.
        """
        from hindex.spark.catalog import quoting_hint, wrong_format_error
        from hindex.spark.session import may_have_tables
        from hindex.sql.statements import TableRefKind

        if self._has_session or may_have_tables():
            return
        if ref.other_format:
            raise wrong_format_error(str(ref), ref.other_format)
        is_database = ref.kind is TableRefKind.DATABASE
        problem = (
            f"Unknown {ref.kind.value} {ref.text!r}"
            if is_database
            else f"Unknown table {ref.text!r}. {quoting_hint(ref.text)}"
        )
        raise UnknownTableError(
            f"{problem}; to find it in a catalog, use hindex.connect(spark=spark) or --master 'local[*]'"
        )

    def describe(self, ref: TableRef, *, in_full: bool = False) -> dict[str, Any] | None:
        """Return the catalog's description of a table that a query names; None for a path.

        Listeners of the session see the lookup only if ``in_full``, as `resolve` always has it. Call
        ``Table.check`` before its rows are read, or anything else is done with it.

        Args:
            in_full: look it up visibly for the session's listeners.
        """
        from hindex.spark.catalog import describe_for_query, describe_table
        from hindex.sql.statements import TableRefKind

        if ref.kind is TableRefKind.PATH:
            return None
        return (describe_table if in_full else describe_for_query)(self.spark(), str(ref))

    def described_table(self, ref: TableRef, described: Mapping[str, Any] | None) -> Table:
        """Make the table of a name from its description by `describe`.

        Raises:
            NotOrcError: for a view, or a table of another format.
        """
        from hindex.spark.catalog import full_name

        if described is None:
            return self._path_table(ref.text)
        name = str(ref)
        table = self._described_table(name, described)
        # by its full name: the current database may have changed when it is looked up again
        self._catalog_names[table.uri] = full_name(described) or name
        return table

    def list_table(self, table: ResolvedTable) -> Snapshot:
        """List the files of a table for a query; call ``Table.check`` before rows are read."""
        return table.unchecked_snapshot()

    def _path_table(self, path: str, valid: ValidWriteIds | None = None) -> Table:
        uri = normalize_uri(path)
        self._adopt_settings(uri)
        options = AcidOptions(valid or self._valid_write_ids)
        return self._remember(Table(self, path, uri, Store.for_table(uri, self._store), options=options))

    def _catalog_table(self, name: str, valid: ValidWriteIds | None = None) -> Table:
        """Return a table of Spark's catalog, by its location."""
        from hindex.spark.catalog import describe_table

        return self._remember(self._described_table(name, describe_table(self.spark(), name), valid))

    def _described_table(
        self, name: str, described: Mapping[str, Any], valid: ValidWriteIds | None = None
    ) -> Table:
        from hindex.spark.catalog import CatalogDefinitions, full_name, location_uri
        from hindex.spark.catalog_schema import check_readable, read_declared_schema
        from hindex.spark.locations import catalog_partitions

        location = described.get("location")
        provider = str(described.get("provider", "")).lower()
        serde = str(described.get("serde_library", "")).lower()
        if str(described.get("type", "")).upper() == "VIEW":
            raise NotOrcError(
                f"Table {name!r} is invalid: it is a view, and indexes are those of tables; "
                "name the table that it reads"
            )
        if not location or not (provider == "orc" or "orc" in serde):
            raise NotOrcError(
                f"Table {name!r} is invalid: it is not a table of ORC files (provider {provider or 'none'!r})"
            )
        uri = location_uri(str(location))
        check = partial(check_readable, self.spark(), self._is_set, name, described)
        declared = partial(read_declared_schema, self.spark(), name, described)
        properties = described.get("table_properties") or {}
        insert_only = str(properties.get("transactional_properties", "")).lower() == "insert_only"
        options = AcidOptions(valid or self._valid_write_ids, insert_only)
        partitions = None
        if described.get("partition_columns"):
            partitions = partial(catalog_partitions, self.spark(), name, described)
        store = Store.for_table(uri, self._store)
        self._adopt_settings(uri)
        table = Table(self, name, uri, store, check, options, partitions, declared)
        if self._store is None:
            # only a store within the table's directory is lost with its files
            table.definitions = CatalogDefinitions(self.spark(), full_name(described) or name)
        return table

    def _adopt_settings(self, uri: str) -> None:
        """Reach S3 as the session does, where a table or the store is there."""
        if self._spark is not None and any(
            place.startswith(("s3://", "s3a://", "s3n://")) for place in (uri, self._store or "")
        ):
            from hindex.spark.object_stores import adopt_s3_settings

            adopt_s3_settings(self._spark)

    def _remember(self, table: Table) -> Table:
        earlier = self._tables.get(table.uri)
        if earlier is not None:
            # a statement need not list the table twice
            table.share_schema(earlier)
        self._tables[table.uri] = table
        return table


def _uri_argument(path: str | os.PathLike[str], parameter: str) -> str:
    """Return a path or URI as a string.

    Raises:
        ArgumentTypeError: if it is neither a string nor a path.
        ArgumentError: for a URI with one slash, and for a ``Path`` made from a URI.
    """
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{parameter} is {path!r}: pass a path or URI as text, or a pathlib.Path")
    # one slash is enough in a file URI
    if _CUT_URI.match(text) and not text.lower().startswith("file:"):
        if not isinstance(path, str):
            raise ArgumentError(
                f"{parameter} is {path!r}: a Path takes a slash away from a URI; pass a URI as text"
            )
        if not Path(text.partition("/")[0]).exists():
            # a path may begin with a directory that looks like a scheme
            slashes = ":///" if text.lower().startswith(_HOSTLESS) else "://"
            raise ArgumentError(f"{parameter} is {path!r}: write {text.replace(':/', slashes, 1)!r}")
    return text
