"""Choose and explain the tables of a query that are read through their indexes: those with few matching rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from hindex.errors import ColumnError, HindexError, PredicateError, TableError, UnsupportedError
from hindex.explain.explanation import Explanation, RowCount
from hindex.lru_cache import LruCache
from hindex.plan.filter import columns as filter_columns
from hindex.plan.modes import Mode
from hindex.plan.normalize import normalize
from hindex.plan.reasons import Note, group_notes
from hindex.plan.time_zones import ZonesOf, is_about_time
from hindex.queries.lookup_joins import LookupJoin, plan_lookup_joins
from hindex.queries.table_resolution import QueryTableState, TableResolver, resolve_tables
from hindex.scan.planning import ScanPlan, plan_scan
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Unit
from hindex.spark.compatibility import is_ansi, is_rule_independent, is_set, setting_difference
from hindex.spark.scan import RowScan, collect_if_small, rows_frame, scan_frame
from hindex.spark.session import session_time_zones
from hindex.spark.settings import setting_reason
from hindex.spark.types import is_same_type
from hindex.sql.predicate import Predicate, all_of, columns
from hindex.table.listing import DataFile
from hindex.table.schema import TableSchema
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from hindex.sql.queries import Query, QueryTable, Span
    from hindex.sql.statements import TableRef

#: Maximum share of a table's rows for reading it through its indexes. On twelve million rows of lineitem, with three
#: columns and scattered rows, the processor time was 0.55 of Spark's at 0.5 % of the rows, 0.8 of it at 1 %, and equal
#: at 2 %; the time by the clock was 0.5, 0.65 and 0.75 of it. Passing one row to Spark takes as long as Spark takes to
#: decode fifty.
MAX_SHARE = 0.01
#: The same for lookup joins, as a multiple: Spark has to join all rows that it reads. The processor time was 0.55 of
#: Spark's at 0.5 % of the rows, 0.9 of it at 1 % and 2 %, and equal at 3 %.
LOOKUP_FACTOR = 2
#: Maximum share of a table's rows that are compared with keys here, to see how many match.
MAX_CANDIDATE_SHARE = 0.05
#: Maximum number of matching values (rows times columns) of such a table: the driver passes them to Spark.
MAX_CANDIDATE_VALUES = 1_000_000
#: Minimum number of values (rows times needed columns) for using indexes at all: planning takes about as long as Spark
#: takes to decode so many.
MIN_VALUES = 5_000_000
#: Reason why Spark reads a table whose indexes cannot narrow it.
_NO_USABLE_CONDITION = "none of the query's conditions on it can be answered by indexes"
#: Reason why Spark reads a table that its indexes would narrow.
_READ_BY_SPARK_TOO = "Spark reads it in another place of the query, and both have to see the same files"
#: Maximum number of data files whose indexes are sampled.
_SAMPLED_FILES = 16


@value_class
class TableDecision:
    """The decision about one table of a query: a row of EXPLAIN.

    Args:
        table: the name in the query.
        predicate: the conditions of the query that all its relevant rows satisfy; None if there are none.
        reason: why Spark reads it alone; None if it is read through its indexes.
        rows: the number of matching rows: read, of a table that gives keys; otherwise estimated by the indexes.
        explanation: explanation of the scan, if the table is read through its indexes.
        lookups: the joins that restrict its columns to keys of other tables.
        gives_keys: True if it is read once, for its keys and for the query.
    """

    table: str
    predicate: str | None
    reason: str | None = None
    rows: RowCount | None = None
    explanation: Explanation | None = None
    lookups: tuple[LookupJoin, ...] = ()
    gives_keys: bool = False

    @property
    def is_accelerated(self) -> bool:
        """Return True if the table is read through its indexes."""
        return self.reason is None


@dataclass(frozen=True, slots=True, repr=False)
class QueryExplanation:
    """The explanation of a query: its tables, in the order of the query.

    Args:
        problem: why none of them is read through its indexes; None if some may be.
        cause: why hindex does not answer the query itself.
    """

    tables: tuple[TableDecision, ...]
    problem: str | None = None
    cause: str | None = None

    def to_text(self) -> str:
        """Return the explanation as plain text."""
        lines = ["Query run by Spark" + ("" if self.cause is None else f": {self.cause}")]
        if self.problem is not None:
            lines.append(f"  no table is read through indexes: {self.problem}")
        for item in self.tables:
            how = "through its indexes" if item.is_accelerated else "by Spark alone"
            lines += ["", f"Table {item.table}: {'once, and before the query' if item.gives_keys else how}"]
            if item.predicate is not None:
                lines.append(f"  where      {item.predicate}")
            lines += [f"  lookup     {lookup}" for lookup in item.lookups]
            if item.rows is not None:
                lines.append(f"  rows       {'' if item.gives_keys else 'about '}{item.rows}")
            if item.reason is not None:
                lines.append(f"  because    {item.reason}")
            if item.explanation is not None:
                lines += ["  " + line if line else "" for line in item.explanation.to_text().splitlines()]
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return the explanation as plain values for ``json.dumps``."""
        return {
            "cause": self.cause,
            "problem": self.problem,
            "tables": [
                {
                    "table": item.table,
                    "predicate": item.predicate,
                    "accelerated": item.is_accelerated,
                    "reason": item.reason,
                    "rows": None if item.rows is None else {"kept": item.rows.kept, "total": item.rows.total},
                    "gives_keys": item.gives_keys,
                    "lookups": [asdict(lookup) for lookup in item.lookups],
                    "scan": None if item.explanation is None else item.explanation.to_json(),
                }
                for item in self.tables
            ],
        }

    def __repr__(self) -> str:
        return self.to_text()


@value_class
class PlannedTable:
    """One table of a query, and how it is read.

    Args:
        scan: the scan through the indexes; None if Spark reads the table. ``plan`` and ``schema``, the table's columns
            in Spark, belong to it.
        units: the stripes with matching rows, if all indexes were read.
        notes: indexes that could not be used.
        rows: the rows of a table that gives keys, which are read during planning.
        where: the condition of the scan, if it is the query's own.
        implied: the subqueries of the query's text that are true of all rows of the scan.
    """

    state: QueryTableState
    decision: TableDecision
    scan: RowScan | None = None
    plan: ScanPlan | None = None
    schema: StructType | None = None
    units: list[Unit] | None = None
    notes: tuple[Note, ...] = ()
    rows: pa.Table | None = None
    where: Predicate | None = None
    implied: tuple[Span, ...] = ()

    def frame(self, spark: SparkSession, query: Query) -> DataFrame:
        """Return the matching rows, with all columns of the table: columns that the query does not need are null."""
        assert self.scan is not None
        assert self.schema is not None
        if self.rows is not None:
            assert self.plan is not None
            return rows_frame(spark, self.rows, self.plan, one_partition=query.may_shuffle).to(self.schema)
        # Spark pads literals that are compared with CHAR by the field metadata of its own schema
        frame = scan_frame(spark, self.scan, self.plan, self.units, one_partition=query.may_shuffle)
        return frame.to(self.schema)

    @property
    def indexes(self) -> list[str]:
        """Return the names of the indexes through which the table is read."""
        if self.plan is None:
            return []
        names = [use.name for task in self.plan.tasks for use in task.indexes]
        names += [groups.name for task in self.plan.tasks for groups in task.candidates]
        if not names and self.plan.skipped:
            # the manifest rules out all files, so there are no tasks
            filtered = {name.lower() for name in filter_columns(self.plan.filter)}
            indexes = self.plan.snapshot.manifest.indexes
            names = [index.name for index in indexes if index.column.lower() in filtered]
        return sorted(set(names))

    def empty(self, spark: SparkSession) -> DataFrame:
        """Return an empty DataFrame with the same columns."""
        assert self.schema is not None
        return spark.createDataFrame([], self.schema)


def plan_query(
    resolver: TableResolver, query: Query, states: Mapping[TableRef, QueryTableState] | None = None
) -> list[PlannedTable]:
    """Plan how each table of a query is read.

    Args:
        states: the tables of the query, if they are resolved already.
    """
    spark = resolver.spark()
    reason = setting_difference(partial(is_set, spark), query.text) or setting_reason(spark)
    if reason is not None:
        query.leave(reason)
    refs = [table.ref for table in query.tables]
    by_ref = resolve_tables(resolver, refs) if states is None else states
    in_order = [by_ref[table.ref] for table in query.tables]
    if query.problem is not None:
        return [
            PlannedTable(state, _spark_decision(table, query.problem))
            for table, state in zip(query.tables, in_order, strict=True)
        ]
    conditions = query.conditions([state.names() for state in in_order])
    planner = TablePlanner(spark, query)
    planned = [
        PlannedTable(state, _spark_decision(table, reason))
        if (reason := table.blocked or state.unusable_reason) is not None
        else planner.plan(table, state, predicates)
        for table, state, predicates in zip(query.tables, in_order, conditions, strict=True)
    ]
    return _read_consistently(plan_lookup_joins(planner, query, planned))


def _read_consistently(planned: Sequence[PlannedTable]) -> list[PlannedTable]:
    """If Spark reads one occurrence of a table in a query, let it read all of them.

    Spark's list of the table's files may be older than the one here, and a query must not mix two states of one table.
    Spark never reads transactional tables.
    """
    by_spark = {item.state.uri for item in planned if item.scan is None and item.state.uri is not None}
    return [
        replace(
            item,
            decision=replace(item.decision, reason=_READ_BY_SPARK_TOO),
            scan=None,
            plan=None,
            units=None,
        )
        if item.scan is not None and item.state.uri in by_spark
        else item
        for item in planned
    ]


class TablePlanner:
    """Plans the tables of one query; reads settings of the session at most once, and only if they matter."""

    def __init__(self, spark: SparkSession, query: Query) -> None:
        self._spark = spark
        self._query = query
        self._zones = cache(lambda: session_time_zones(spark))
        self._is_ansi: Callable[[], bool] = cache(lambda: is_ansi(partial(is_set, spark)))

    def plan(
        self, table: QueryTable, state: QueryTableState, conditions: Sequence[Predicate]
    ) -> PlannedTable:
        """Plan how one table is read; all its relevant rows satisfy the conditions."""
        try:
            is_transactional = state.is_transactional
            if not is_transactional and not conditions:
                return PlannedTable(state, _spark_decision(table, _NO_USABLE_CONDITION))
            schema = state.snapshot.schema
            usable = [item for item in conditions if self._is_usable(item, schema)]
        except HindexError as error:
            return PlannedTable(state, _spark_decision(table, str(error)))
        if is_transactional:
            if state.catalog_mismatch is not None:
                return PlannedTable(state, _spark_decision(table, state.catalog_mismatch))
            return self._plan_transactional(table, state, usable)
        if not usable:
            return PlannedTable(state, _spark_decision(table, _NO_USABLE_CONDITION))
        try:
            return self._plan_plain(table, state, all_of(usable))
        except UnsupportedError as error:
            return PlannedTable(state, _spark_decision(table, str(error), all_of(usable)))

    def count_values(self, state: QueryTableState) -> int:
        """Count the values that the query needs of a table: rows times columns.

        Raises:
            HindexError: if the table cannot be read here.
        """
        return len(self.needed_columns(state)) * state.snapshot.num_rows

    def is_small(self, state: QueryTableState) -> bool:
        """Return True if Spark reads a table sooner than planning takes.

        Raises:
            HindexError: if the table cannot be read here.
        """
        return self.count_values(state) < MIN_VALUES

    def plan_by_keys(
        self,
        table: QueryTable,
        state: QueryTableState,
        conditions: Sequence[Predicate],
        memberships: Sequence[Predicate],
        names: Sequence[str],
    ) -> PlannedTable:
        """Plan how a table is read whose columns are restricted to keys of other tables.

        Args:
            memberships: those restrictions, which fit the types of the columns.
            names: the columns to read.

        Raises:
            HindexError: if that fails.
        """
        usable = [item for item in conditions if self._is_usable(item, state.snapshot.schema)]
        where = all_of([*usable, *memberships])
        scan, plan = _plan_lookup(state, where, names, self._zones)
        # without keys, no row can match, and there are no tasks
        if plan.tasks and not (plan.skipped or any(task.indexes or task.candidates for task in plan.tasks)):
            return PlannedTable(state, _spark_decision(table, "none of its indexes could be used"))
        max_share = LOOKUP_FACTOR * MAX_SHARE
        estimate = estimate_selectivity(scan, plan, max(max_share, MAX_CANDIDATE_SHARE))
        kept, rows = estimate.rows, None
        if kept.share is not None and max_share < kept.share <= MAX_CANDIDATE_SHARE:
            # an index of row groups: only their rows show how many match
            most = min(int(max_share * (kept.total or 0)), MAX_CANDIDATE_VALUES // len(names))
            rows = collect_if_small(scan, plan, most, estimate.units)
            if rows is not None:
                kept = RowCount(rows.num_rows, kept.total)
        notes = (*plan.notes, *estimate.fallbacks)
        if kept.share is not None and kept.share > max_share:
            reason = f"NOT_SELECTIVE: more than {max_share:.1%} of the rows may match"
            return PlannedTable(state, _spark_decision(table, reason, rows=kept), notes=notes)
        mismatch = _mismatch(state)
        if mismatch is not None:
            return PlannedTable(state, _spark_decision(table, mismatch, rows=kept))
        decision = TableDecision(str(table.ref), None, None, kept)
        return PlannedTable(state, decision, scan, plan, state.spark_schema, estimate.units, notes, rows)

    def plan_key_source(
        self,
        table: QueryTable,
        planned: PlannedTable,
        conditions: Sequence[Predicate],
        *,
        max_rows: int,
        max_listed: int,
        max_values: int,
    ) -> PlannedTable:
        """Plan how a table is read that gives keys for others, if it is small.

        Its schema may be missing until `confirm_source`.

        Args:
            planned: its plan by the query's own conditions. It is used if there are no others.
            max_rows: maximum number of rows that match.
            max_listed: maximum number of rows of a table without conditions.
            max_values: maximum number of values (rows times columns) to read, to see which rows match.

        Raises:
            HindexError: if that fails.
        """
        state = planned.state
        if state.is_transactional or state.snapshot.listing.transactional:
            return PlannedTable(state, _spark_decision(table, "it is transactional"))
        schema = state.snapshot.schema
        usable = [item for item in conditions if self._is_usable(item, schema)]
        where = all_of(usable) if usable else None
        estimated = None if planned.decision.rows is None else planned.decision.rows.kept
        if where is not None and planned.where == where and estimated is not None and estimated <= max_rows:
            return planned
        total = state.snapshot.num_rows
        if where is None and total > max_listed:
            return PlannedTable(state, _spark_decision(table, "no condition restricts its rows"))
        names = self.needed_columns(state)
        scan, plan = _plan_lookup(state, where, names, self._zones)
        units = None
        max_read = max_values // max(len(names), 1)
        if any(task.indexes or task.candidates for task in plan.tasks):
            # an index of row groups leaves more rows than match
            limit = max(max_rows, max_read)
            estimate = estimate_selectivity(scan, plan, limit / total, max_rows)
            units, rows = estimate.units, estimate.rows
            too_many = max_rows if estimate.certain > max_rows else limit
            if rows.kept is None or rows.kept > too_many:
                reason = f"more than {too_many:,} rows may match"
                return PlannedTable(state, _spark_decision(table, reason, where, rows))
        else:
            paths = {task.path for task in plan.tasks}
            possible = sum(view.num_rows for view in state.snapshot.files if view.file.path in paths)
            if possible > max_read:
                reason = (
                    f"no index is on its conditions, and {possible:,} rows are too many to read them before"
                )
                return PlannedTable(state, _spark_decision(table, reason, where))
        decision = TableDecision(str(table.ref), None if where is None else str(where))
        return PlannedTable(state, decision, scan, plan, None, units, plan.notes, where=where)

    def confirm_source(self, planned: PlannedTable) -> PlannedTable:
        """Compare a table that gives keys with the catalog. Spark reads it if they differ."""
        state, decision = planned.state, planned.decision
        try:
            mismatch = _mismatch(state)
        except HindexError as error:
            mismatch = str(error)
        if mismatch is not None:
            return PlannedTable(state, replace(decision, reason=mismatch, gives_keys=False))
        return replace(planned, schema=state.spark_schema)

    def needed_columns(self, state: QueryTableState, implied: Collection[Span] = ()) -> list[str]:
        """Return the columns that the query needs of a table.

        Args:
            implied: subqueries that Spark does not get.

        Raises:
            HindexError: if the table cannot be read here.
        """
        names = state.snapshot.schema.names
        # at least one column has to be read to get rows
        return self._query.needed(names, implied) or self._query.needed(names)

    def _plan_plain(self, table: QueryTable, state: QueryTableState, where: Predicate) -> PlannedTable:
        """Plan a table without deltas: read it through its indexes if few of its rows match."""
        if state.snapshot.listing.transactional:
            reason = "its files are those of a transactional table, but its catalog entry is not"
            return PlannedTable(state, _spark_decision(table, reason, where))
        names = self.needed_columns(state)
        rows = state.snapshot.num_rows
        if rows * len(names) < MIN_VALUES:
            reason = f"TOO_SMALL: Spark reads {len(names)} columns of {rows:,} rows sooner"
            return PlannedTable(state, _spark_decision(table, reason, where))
        try:
            scan, plan = _plan_table_scan(state, where, names, self._zones)
            is_indexed = plan.skipped or any(task.indexes or task.candidates for task in plan.tasks)
            # without a task, no row can satisfy the conditions
            if plan.tasks and not is_indexed:
                listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
                reason = f"no index that could be used is on {listed}"
                return PlannedTable(state, _spark_decision(table, reason, where), notes=plan.notes)
            estimate = estimate_selectivity(scan, plan, MAX_SHARE)
        except HindexError as error:
            # the error of a table that would not be read here anyway is no error of the query
            if state.catalog_mismatch is not None:
                return PlannedTable(state, _spark_decision(table, state.catalog_mismatch, where))
            if isinstance(error, (ColumnError, PredicateError)):
                return PlannedTable(state, _spark_decision(table, str(error), where))
            raise
        notes = (*plan.notes, *estimate.fallbacks)
        if estimate.rows.share is not None and estimate.rows.share > MAX_SHARE:
            reason = f"NOT_SELECTIVE: more than {MAX_SHARE:.1%} of the rows may match"
            if estimate.fallbacks:
                reason += "; " + "; ".join(map(str, group_notes(estimate.fallbacks)))
            return PlannedTable(state, _spark_decision(table, reason, where, estimate.rows), notes=notes)
        try:
            mismatch = _mismatch(state)
        except TableError as error:
            mismatch = str(error)
        if mismatch is not None:
            return PlannedTable(state, _spark_decision(table, mismatch, where, estimate.rows))
        decision = TableDecision(str(table.ref), str(where), None, estimate.rows)
        return PlannedTable(
            state, decision, scan, plan, state.spark_schema, estimate.units, notes, where=where
        )

    def _plan_transactional(
        self, table: QueryTable, state: QueryTableState, usable: Sequence[Predicate]
    ) -> PlannedTable:
        """Plan a transactional table, which is always read here: Spark would read its deltas as rows."""
        where = all_of(usable) if usable else None
        names = self.needed_columns(state)
        scan, plan = _plan_table_scan(state, where, names, self._zones)
        decision = TableDecision(str(table.ref), None if where is None else str(where))
        return PlannedTable(state, decision, scan, plan, state.spark_schema)

    def _is_usable(self, predicate: Predicate, schema: TableSchema) -> bool:
        """Return True if Spark evaluates a condition as hindex does, and it fits the types of its columns."""
        if not self._is_ansi() and not is_rule_independent(predicate, schema):
            return False
        try:
            about_time = is_about_time(predicate, lambda parts: schema.resolve(parts).type)
            normalize(predicate, schema, self._zones() if about_time else None)
        except (PredicateError, ColumnError, UnsupportedError):
            return False
        return True


def _plan_table_scan(
    state: QueryTableState, where: Predicate | None, names: Sequence[str], zones_of: ZonesOf
) -> tuple[RowScan, ScanPlan]:
    """Plan a scan of the table with the files that were listed for this query."""
    columns = [(name,) for name in names]
    # whatever the connection's mode: tables that Spark reads alone have none either
    scan = state.table.unchecked_scan(where, columns, mode=Mode.LENIENT)
    return scan, scan.runner.plan(
        lambda: state.snapshot, lambda snapshot: plan_scan(snapshot, where, columns, zones=zones_of)
    )


def _plan_lookup(
    state: QueryTableState, where: Predicate | None, names: Sequence[str], zones_of: ZonesOf
) -> tuple[RowScan, ScanPlan]:
    """Plan a scan whose rows count: indexes are read even if decoding a column takes no longer."""
    scan, plan = _plan_table_scan(state, where, names, zones_of)
    return scan, replace(plan, tasks=tuple(replace(task, always_looks_up=True) for task in plan.tasks))


def _mismatch(state: QueryTableState) -> str | None:
    """Return how the files of a table differ from the catalog, or from Spark's reading of them, or None.

    Raises:
        TableError: if Spark does not know the table.
    """
    if state.catalog_mismatch is not None or state.snapshot.declared is not None:
        return state.catalog_mismatch
    return _schema_difference(state.snapshot.schema, state.spark_schema)


def _schema_difference(schema: TableSchema, spark_schema: StructType) -> str | None:
    """Return how Spark's own reader interprets the files differently, or None."""
    names = [name.lower() for name in schema.names]
    spark_names = [field.name.lower() for field in spark_schema]
    if sorted(names) != sorted(spark_names):
        return "its files have different columns, and Spark reads only the columns of one file"
    for field in spark_schema:
        data_type = schema.resolve((field.name,)).type
        if not is_same_type(data_type, field.dataType):
            return f"column {field.name!r} is {field.dataType.simpleString()} in Spark and {data_type} in the files"
    return None


def _spark_decision(
    table: QueryTable, reason: str, where: Predicate | None = None, rows: RowCount | None = None
) -> TableDecision:
    """Return the decision that Spark reads a table alone."""
    return TableDecision(str(table.ref), None if where is None else str(where), reason, rows)


@value_class
class SelectivityEstimate:
    """An estimate of the number of matching rows.

    Args:
        rows: rows that may match.
        certain: those among them that match by the indexes alone.
        units: all stripes with matching rows; None if only a sample of the indexes was read.
        fallbacks: indexes that could not be read, which makes the estimate too high.
    """

    rows: RowCount
    certain: int
    units: list[Unit] | None
    fallbacks: tuple[Note, ...] = ()


def estimate_selectivity(
    scan: RowScan, plan: ScanPlan, max_share: float, max_certain: int | None = None
) -> SelectivityEstimate:
    """Estimate the number of matching rows from the indexes of all data files, or of a sample of many.

    Reading ends as soon as more than ``max_share`` of the rows may match, or more than ``max_certain`` rows match. That
    result is cached for the same condition on the same files, unless an index could not be read, which may be
    temporary. Spark then reads the table, so a stale entry affects speed only. Other estimates are never cached.
    """
    views = {view.file.path: view for view in plan.snapshot.files}
    total = plan.snapshot.num_rows
    possible = sum(views[task.path].num_rows for task in plan.tasks)
    step = max(len(plan.tasks) / _SAMPLED_FILES, 1.0)
    sample = [plan.tasks[int(at * step)] for at in range(min(len(plan.tasks), _SAMPLED_FILES))]
    key = _digest(
        (scan.mode, max_share, max_certain, total, possible, step),
        [(task, views[task.path].file) for task in sample],
    )
    too_many = TOO_MANY.get(key)
    if too_many is not None:
        return too_many
    kept = certain = seen = 0
    units: list[Unit] = []
    opened: dict[int, ScanTaskReader] = {}
    for task, result in scan.runner.run_lookups(sample, every=True):
        opened[id(task)] = task
        kept += len(result.bounds.upper)
        certain += len(result.bounds.lower)
        seen += result.num_rows
        if kept > max_share * total / step or (max_certain is not None and certain > max_certain / step):
            break
        if len(result.bounds.upper):
            units.append((task, result))
    else:
        if step == 1.0:
            return SelectivityEstimate(RowCount(kept, total), certain, units)
    fallbacks = tuple(note for task in opened.values() for note in task.notes if note.reason.is_fallback)
    factor = possible / seen if seen else 0
    rows, certain = RowCount(round(kept * factor), total), round(certain * factor)
    estimate = SelectivityEstimate(rows, certain, None, fallbacks)
    is_over = rows.share is not None and rows.share > max_share
    if (is_over or (max_certain is not None and certain > max_certain)) and not fallbacks:
        TOO_MANY.put(key, estimate)
    return estimate


def _digest(limits: tuple[object, ...], sample: Sequence[tuple[ScanTask, DataFile]]) -> bytes:
    """Return 16 bytes that identify the limits, the lookups in the index files, and the state of the data files.

    A digest is short even for conditions with long lists. The columns that are read do not matter, except whether the
    columns of the condition are among them.
    """
    # files share filters with long lists: each is in the sample while this function runs, so ids are unique
    digests: dict[int, str] = {}

    def digest(shared: object) -> str:
        if id(shared) not in digests:
            digests[id(shared)] = _hash(repr(shared)).hex()
        return digests[id(shared)]

    lookups = []
    for task, file in sample:
        names = {column.name for column in task.columns}
        is_read = (bool(names), [column.name in names for column in task.filter_columns])
        candidates = [
            (item.name, item.column, digest(item.domain), item.row_group_rows, _hash(item.groups))
            for item in task.candidates
        ]
        state = (file.uri, file.length, file.mtime_ns, file.changed_ns, task.length, task.tail_checksum)
        lookups.append((digest(task.filter), task.filter_columns, is_read, task.indexes, candidates, state))
    return _hash(repr((limits, lookups)))


def _hash(value: str | bytes) -> bytes:
    return blake2b(value.encode() if isinstance(value, str) else value, digest_size=16).digest()


#: Of this process: estimates that exceed a maximum.
TOO_MANY: LruCache[bytes, SelectivityEstimate] = LruCache(256)
