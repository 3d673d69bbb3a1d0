"""Connections: where statements are run and tables are found."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from hindex.api.attribute_hints import CONNECTION_NAMES, raise_missing_attribute
from hindex.api.query_result import QueryResult
from hindex.api.scan import Scan
from hindex.api.select_statements import run_select
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
from hindex.index.page_cache import shared_cache
from hindex.orc.acid.write_ids import ValidWriteIds
from hindex.orc.reader.file_cache import check_bound
from hindex.plan.modes import Mode
from hindex.plan.time_zones import TimeZones
from hindex.progress import NullProgress, Progress
from hindex.store.storage import is_missing
from hindex.store.store import Store, list_stores
from hindex.table.location import is_local, normalize_uri, suggest_path
from hindex.table.transactional import AcidOptions
from hindex.validation import check_session, check_text, is_utf8, is_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hindex.api.index_statements import IndexResult
    from hindex.explain.explanation import Explanation
    from hindex.queries.query_execution import QueryExplanation
    from hindex.queries.table_resolution import ResolvedTable
    from hindex.sql.statements import Select, SelectExists, Statement, TableRef
    from hindex.store.snapshot import Snapshot

#: Environment variable that names the store where ``connect`` is not given one.
STORE_VARIABLE = "HINDEX_STORE"

#: How the message of a feature begins that the statement has and hindex has not.
_UNSUPPORTED = re.compile(r"unsupported at line \d+, column \d+: ")
#: What a URI looks like that was made a path.
_CUT_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)")

#: Of these a host is mostly left out: what follows the slash is the path.
_HOSTLESS = ("hdfs:", "viewfs:", "dbfs:", "memory:")

Result: TypeAlias = "QueryResult | Explanation | IndexResult | QueryExplanation"


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

    :param store: directory for the indexes of all tables; ``_hindex`` within each table if None. The
        environment variable ``HINDEX_STORE`` gives another default.
    :param spark: the session for builds and catalog names; a quiet local one is started when first needed.
    :param master: Spark master of the session to start.
    :param conf: Spark settings of the session to start.
    :param progress: told how far long work is.
    :param cache_bytes: how much of index files is kept in memory, for all connections of the process: 0 for nothing,
        None to leave it as it is. At first it is what the environment variable ``HINDEX_CACHE_BYTES`` says, or 128 MiB.
    :param valid_write_ids: what is seen of transactional tables, as Hive writes it
        (``table:highWatermark:minOpen:open,...:aborted,...``); everything if empty.
    :param mode: ``strict``: what no index answers is an error instead of being read. ``prove``: every query also reads
        everything, the two are compared, and an index that disagrees is not used any more.
    :raises ArgumentTypeError: if the store is neither a text nor a path, the session is none, or another parameter is
        of the wrong type.
    :raises ArgumentError: if the store is a ``Path`` of a URI, or another parameter cannot be.
    :raises HindexError: if an environment variable that bounds a cache is no number of bytes.
    """
    if cache_bytes is not None:
        if not is_whole(cache_bytes):
            raise ArgumentTypeError(f"cache_bytes is {cache_bytes!r}: it is a whole number of bytes")
        if cache_bytes < 0:
            raise ArgumentError(f"cache_bytes is {cache_bytes}: it cannot be negative")
        shared_cache().resize(cache_bytes)
    # told here: where indexes are asked, what goes wrong with one only keeps it from being used
    shared_cache()
    check_bound()
    if spark is not None:
        check_session(spark)
    if master is not None:
        check_text(master, "master", "local[*]")
    if conf is not None and not isinstance(cast("object", conf), Mapping):
        raise ArgumentTypeError(
            f"conf is {conf!r}: it is settings by name, such as {{'spark.driver.memory': '2g'}}"
        )
    store = _place(store or os.environ.get(STORE_VARIABLE) or "", "store") or None
    return Connection(store, spark, master, conf, progress, valid_write_ids, Mode.of(mode))


class Connection:
    """Runs statements and finds tables. Make one with :func:`hindex.connect`."""

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
        # one place for the connection's life, wherever the process changes its directory to
        self._store = None if store is None else normalize_uri(store)
        self._spark = spark
        self._master = master
        self._conf = dict(conf or {})
        self._is_users = spark is not None or master is not None or bool(conf)
        #: Settings of a session that is started, beside those that were asked for; they ask for none.
        self.start_conf: Mapping[str, str] = {}
        self.progress: Progress = progress or NullProgress()
        #: How queries take it that an index cannot be used.
        self.mode = mode
        self._valid_write_ids = ValidWriteIds.parse(valid_write_ids)
        # by URI, in the order of first use
        self._used: dict[str, Table] = {}
        # by URI, the names of tables that only queries asked for: statements about indexes look them up again
        self._queried: dict[str, str] = {}

    if not TYPE_CHECKING:  # else type checkers would take every name for one that there is

        def __getattr__(self, name: str) -> object:
            return raise_missing_attribute(
                self, name, "a connection", CONNECTION_NAMES, [("hx.table(name)", Table)]
            )

    def __getstate__(self) -> dict[str, object]:
        """Leave behind what belongs to this process.

        :raises UnsupportedError: if the connection has a Spark session, or one was asked for.
        """
        if self._has_session:
            raise UnsupportedError(
                "a connection with a Spark session cannot be pickled, nor can its tables and scans: use those of "
                "hindex.connect() without a session"
            )
        return {**self.__dict__, "progress": NullProgress(), "_used": {}, "_queried": {}}

    def __repr__(self) -> str:
        told = [f"store={self._store!r}", f"spark={self._session_told()}"]
        if self.mode is not Mode.LENIENT:
            told.append(f"mode={self.mode.value!r}")
        return f"Connection({', '.join(told)})"

    def _session_told(self) -> str:
        """The session for people, without a word to it: it may be far away, or stopped."""
        if self._spark is None:
            return "None"
        context = getattr(self._spark, "_sc", None)
        return repr(getattr(context, "master", None) or ("Spark Connect" if context is None else "a session"))

    def spark(self) -> SparkSession:
        """The Spark session; a quiet local one is started if there is none.

        :raises MissingRuntimeError: if PySpark or Java is missing.
        :raises HindexError: if the session was stopped.
        """
        from hindex.spark.session import check_running, local_session

        if self._spark is None:
            self._spark = local_session(self._master, {**self.start_conf, **self._conf})
        check_running(self._spark)
        return self._spark

    def table(self, name: str | os.PathLike[str], *, valid_write_ids: str | None = None) -> Table:
        """A table by path or URI, or by its name in Spark's catalog.

        A plain name that no path has is looked up in the catalog of the session, if there is one or one was asked for;
        a ``Path`` never is.

        :param valid_write_ids: what is seen of a transactional table; None for what :func:`connect` was told.
        :raises TableError: if it is in neither.
        :raises ArgumentTypeError: if it is neither a text nor a path.
        :raises ArgumentError: if it is a ``Path`` of a URI.
        """

        from hindex.spark.catalog import is_path

        valid = None if valid_write_ids is None else ValidWriteIds.parse(valid_write_ids)
        if not isinstance(name, str):
            return self._path_table(_place(name, "name"), valid)
        if self._has_session and "/" not in name and not is_path(name):
            try:
                return self._catalog_table(name, valid)
            except UnknownTableError as error:
                near = suggest_path(name)
                raise UnknownTableError(
                    f"Table {name!r} is invalid: it is neither a path nor a table of Spark's catalog"
                    f"{f'; did you mean {near!r}?' if near else ''}"
                ) from error
        return self._path_table(name, valid)

    def sql(self, text: str, args: Mapping[str, object] | Sequence[object] | None = None) -> Result:
        """Run one statement.

        A query that is more than a SELECT of one table's rows is run by Spark, where the connection has a session:
        tables with indexes are then read through them where that leaves few rows. So is one of a view, or of a table of
        other files than ORC.

        :param args: values of the statement's parameters, by name for ``:name`` or a list for ``?``: they stand for
            literals. Values of other types than SQL's are left to Spark, if the connection has a session.
        :returns: a query gives a :class:`~hindex.api.query_result.QueryResult`; EXPLAIN an
            :class:`~hindex.explain.explanation.Explanation`, of a query for Spark a
            :class:`~hindex.queries.query_plan.QueryExplanation`; SHOW and DESCRIBE a table; CREATE INDEX the new
            :class:`~hindex.api.index.Index`. CREATE INDEX ... DRY RUN and the other statements return what they
            would do or did: :mod:`hindex.maintain.results`.
        :raises StatementError: if it cannot be parsed; the message marks the position.
        :raises ArgumentError: for a parameter without an argument, and for an argument without a parameter.
        """
        from hindex.sql import parse
        from hindex.sql.statements import Explain, Select, SelectExists

        if not isinstance(cast("object", text), str):
            raise StatementError(f"{text!r} is not a statement: pass SQL as a string")
        if not is_utf8(text):
            raise StatementError("the statement is not UTF-8")
        if args is not None:
            from hindex.sql.parameters import check_args

            args = check_args(args)
        try:
            # as PySpark does, of a session that is the user's
            parsed = parse(text, args, for_spark=self._is_users)
        except StatementError as error:
            return self._query(text, args, error)
        has_session = self._has_session  # and not one that is started to look the table up
        try:
            if isinstance(parsed, Select | SelectExists | Explain):
                self._check_text(text)
            return self._run(parsed, text)
        except (ColumnError, NotOrcError, PredicateError, UnsupportedError) as error:
            # Spark may know what to make of it
            if has_session and isinstance(parsed, Select | SelectExists | Explain):
                if isinstance(parsed, Explain) and parsed.analyze and isinstance(error, UnsupportedError):
                    raise StatementError(
                        f"EXPLAIN ANALYZE does not support queries that Spark runs, such as this one: {error}; EXPLAIN "
                        "alone shows how its table is read"
                    ) from error
                return self._query(text, args, error)
            raise

    def _run(self, parsed: Statement, text: str) -> Result:
        from hindex.sql.statements import Explain, Select, SelectExists

        match parsed:
            case (Select() | SelectExists()) as select:
                scan = self.resolve(select.table).scan()
                rows = run_select(scan, select)
                # a mistake in the statement is raised now, not when the rows are read
                self._check_same_rows(rows.plan().snapshot, select)
                return QueryResult(text, rows, self.session)
            case Explain(statement, analyze):
                scan = self.resolve(statement.table).scan()
                checked = self._checked(scan, statement)
                # what the listing takes is among what ANALYZE tells
                return run_select(scan if analyze else checked, statement).explain(analyze=analyze)
            case statement:
                from hindex.api.index_statements import run_index_statement

                return run_index_statement(self, statement)

    def _checked(self, scan: Scan, select: Select | SelectExists) -> Scan:
        """A scan of the table that :meth:`_check_same_rows` looked at, where it looks at one: it is listed once."""
        if not self._is_users:
            return scan
        snapshot = scan.snapshot()
        self._check_same_rows(snapshot, select)
        return scan.at(snapshot)

    def _check_same_rows(self, snapshot: Snapshot, select: Select | SelectExists) -> None:
        """Refuse a statement that Spark gives other rows for, where the user has a session or asked for one.

        :raises UnsupportedError: with the reason.
        """
        if self._is_users:
            from hindex.spark.compatibility import check_same_rows

            check_same_rows(self.zones, self._is_set, snapshot, select)

    def _check_text(self, text: str) -> None:
        """Refuse a text that Spark reads otherwise, where the user has a session or asked for one.

        :raises UnsupportedError: with the reason.
        """
        if not self._is_users:
            return
        from hindex.spark.compatibility import setting_difference

        reason = setting_difference(self._is_set, text)
        if reason is not None:
            raise UnsupportedError(f"{reason}, with which Spark reads the statement otherwise")

    def _is_set(self, key: str, default: bool) -> bool:
        """Return True if a Spark setting is on, in the session or in the configuration of a session to start."""
        from hindex.spark.compatibility import is_set
        from hindex.spark.session import has_own_settings, running_session

        session = self._spark
        if session is None:
            if key in self._conf:
                return str(self._conf[key]).lower() == "true"
            session = running_session() or (self.spark() if has_own_settings(self._master) else None)
        return default if session is None else is_set(session, key, default)

    def session(self) -> SparkSession | None:
        """The Spark session that the user gave or asked for, or a build has started; None where there is none."""
        return self.spark() if self._has_session else None

    def zones(self) -> TimeZones | None:
        """Give the time zones of the Spark session that the user gave or asked for; None where there is none.

        A session that was asked for is started: rows are the same before as after. One that is only there because a
        build started it has no say in what hindex reads.
        """
        if not self._is_users:
            return None
        from hindex.spark.session import session_time_zones

        return session_time_zones(self.spark())

    @property
    def _has_session(self) -> bool:
        """Return True if the user asked for a Spark session, or a build has started one."""
        return self._spark is not None or self._is_users

    def _query(
        self, text: str, args: Mapping[str, object] | Sequence[object] | None, problem: HindexError
    ) -> QueryResult | QueryExplanation:
        """Run a text as a query for Spark.

        ``problem`` is the error of hindex's own parser; it is raised if the text is no query.
        """
        from hindex.sql.queries import explain_kind, parse_query
        from hindex.sql.select_grammar import SPARK_REMEDY

        kind = explain_kind(text)
        if kind == "ANALYZE" and not isinstance(problem, StatementError):
            raise problem
        if kind is not None and (kind != "ANALYZE" or self._has_session):
            raise StatementError(
                f"EXPLAIN {kind} does not support this query: EXPLAIN alone shows which tables are read through "
                "indexes, "
                "EXPLAIN ANALYZE also measures the scan of a single table, and spark.sql(query).explain('extended') "
                "shows Spark's own plan"
            ) from problem
        query = parse_query(text, args)
        if query is None or (query.is_select and not self._has_session):
            raise problem
        if not self._has_session:
            raise StatementError(f"this is a query for Spark; {SPARK_REMEDY}")
        from hindex.api.frame_rows import FrameRows
        from hindex.queries.query_execution import SparkSyntaxError, explain_query, run_query

        cause = _cause(problem)

        def explain() -> QueryExplanation:
            return replace(explain_query(self, query), cause=cause)

        try:
            if query.is_explain:
                return explain()
            frame = run_query(self, query, cause)
            return QueryResult(text, FrameRows(frame, explain, text), self.session)
        except StatementError as error:
            if isinstance(problem, NotOrcError):
                raise  # that Spark reads the table is no mistake
            if not isinstance(problem, StatementError):
                raise problem from error
            # what hindex says of a mistake marks its place in what the user wrote; what it does not do is none where
            # there is a session
            is_mistake = query.is_select and not isinstance(problem, UnsupportedError)
            if is_mistake and (isinstance(error, SparkSyntaxError) or not query.tables):
                raise problem from error
            raise

    def known_tables(self, statement: str) -> list[Table]:
        """The tables of the store; without a store of its own, those that this connection has been asked for.

        :raises StatementError: if it has been asked for none; the message says that ``statement`` needs ON.
        :raises StoreError: if the store cannot be listed.
        """

        from hindex.spark.catalog import describe_table

        if self._store is not None:
            return [self._path_table(store.table_uri) for store in list_stores(self._store)]
        for uri, name in list(self._queried.items()):
            if uri in self._used:
                continue
            with suppress(UnknownTableError):  # gone since
                table = self._described_table(name, describe_table(self.spark(), name))
                if table.uri == uri:
                    self._remember(table)
        if not self._used:
            raise StatementError(
                f"{statement} needs ON and a table here: indexes are stored beside each table unless a store is given"
            )
        return list(self._used.values())

    @property
    def store(self) -> str | None:
        """The store of all tables' indexes; None if they are beside each table."""
        return self._store

    @property
    def place(self) -> str:
        """The places that statements without ON search, for messages."""
        if self._store is None:
            return "the tables used so far"
        return f"the store {self._store!r}{', which does not exist' if is_missing(self._store) else ''}"

    def check_store(self) -> None:
        """:raises StoreError: if there is no store where it was said to be; one is made with the first index."""
        if self._store is not None and is_missing(self._store):
            near = suggest_path(self._store) if is_local(self._store) else None
            raise StoreError(
                f"there is no store at {self._store!r}; {f'did you mean {near!r}? ' if near else ''}--store, store= of "
                f"connect() or {STORE_VARIABLE} names it, and CREATE INDEX makes it"
            )

    def resolve(self, ref: TableRef) -> Table:
        """The table that a statement names.

        :raises UnknownTableError: for a name that no catalog has; where that is sure, without a session.
        :raises NotOrcError: for one that is a path of files of another format, as Spark writes it.
        """
        from hindex.sql.statements import TableRefKind

        if ref.kind is TableRefKind.PATH:
            return self._path_table(ref.text)
        from hindex.spark.catalog import quoting_hint, wrong_format_error
        from hindex.spark.session import may_have_tables

        if not self._has_session and not may_have_tables():
            if ref.other_format:
                raise wrong_format_error(str(ref), ref.other_format)
            raise UnknownTableError(
                f"Unknown table {ref.text!r}. {quoting_hint(ref.text)}; to find it in a catalog, use "
                "hindex.connect(spark=spark) or --master 'local[*]'"
            )
        try:
            return self._catalog_table(str(ref))
        except UnknownTableError as error:
            if ref.other_format:
                raise wrong_format_error(str(ref), ref.other_format) from error
            raise

    def describe(self, ref: TableRef, *, in_full: bool = False) -> dict[str, Any] | None:
        """Read what the catalog says of a table that a query names; None for a path.

        What watches over a session's statements may not have seen that it was asked for, as :meth:`resolve` has it
        see: before rows of it are read, and before anything else is done to it, ``Table.check`` has to be asked.

        :param in_full: have it seen.
        """

        from hindex.spark.catalog import describe_for_query, describe_table
        from hindex.sql.statements import TableRefKind

        if ref.kind is TableRefKind.PATH:
            return None
        return (describe_table if in_full else describe_for_query)(self.spark(), str(ref))

    def described_table(self, ref: TableRef, described: Mapping[str, Any] | None) -> Table:
        """Make the table of a name and what :meth:`describe` says of it.

        :raises NotOrcError: for a view, or a table of another format.
        """

        from hindex.spark.catalog import full_name

        if described is None:
            return self._path_table(ref.text)
        name = str(ref)
        table = self._described_table(name, described)
        # by all of its name: another database may be the current one when it is looked up again
        self._queried[table.uri] = full_name(described) or name
        return table

    def list_table(self, table: ResolvedTable) -> Snapshot:
        """List the files of a table for a query; before rows are read, ``Table.check`` has to be asked."""
        return table.unchecked_snapshot()

    def _path_table(self, path: str, valid: ValidWriteIds | None = None) -> Table:
        uri = normalize_uri(path)
        options = AcidOptions(valid or self._valid_write_ids)
        return self._remember(Table(self, path, uri, Store.for_table(uri, self._store), options=options))

    def _catalog_table(self, name: str, valid: ValidWriteIds | None = None) -> Table:
        """A table of Spark's catalog, by its location."""

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
        table = Table(self, name, uri, store, check, options, partitions, declared)
        if self._store is None:
            # a store elsewhere outlives the table's files
            table.definitions = CatalogDefinitions(self.spark(), full_name(described) or name)
        return table

    def _remember(self, table: Table) -> Table:
        self._used[table.uri] = table
        return table


def _cause(problem: HindexError) -> str:
    """Say in one line why hindex does not answer a query by itself, without the place in the text and the remedy."""
    if isinstance(problem, StatementError) and not isinstance(problem, UnsupportedError):
        return "it is more than a SELECT of one table"
    line = str(problem).partition("\n")[0]
    place = _UNSUPPORTED.match(line)
    return line if place is None else line[place.end() :].partition("; ")[0]


def _place(given: str | os.PathLike[str], what: str) -> str:
    """A path or URI as text.

    :raises ArgumentTypeError: if it is neither a text nor a path.
    :raises ArgumentError: if it is a URI with one slash, or was made a ``Path``.
    """
    text: object = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str):
        raise ArgumentTypeError(f"{what} is {given!r}: it is a path or URI as text, or a pathlib.Path")
    # of a file URI, one slash is enough
    if _CUT_URI.match(text) and not text.lower().startswith("file:"):
        if not isinstance(given, str):
            raise ArgumentError(
                f"{what} is {given!r}: a Path takes a slash away from a URI; pass a URI as text"
            )
        if not Path(text.partition("/")[0]).exists():
            # the first name of a path is no host
            slashes = ":///" if text.lower().startswith(_HOSTLESS) else "://"
            raise ArgumentError(f"{what} is {given!r}: write {text.replace(':/', slashes, 1)!r}")
    return text
