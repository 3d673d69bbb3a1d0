"""Spark's optimized plans, with tables read through their indexes where few rows match.

The rule of the optimizer (`hindex.spark.optimizer_rule`) passes each plan that reads ORC files. A relation below a
condition is replaced by the rows that may satisfy it, with the same attributes; Spark's ``Filter`` stays above.
The rows are of exactly the files that the relation would read. In case of doubt, the relation stays as it is, with
a reason.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from hindex.errors import ColumnError, HindexError, StatementError, UnsupportedError
from hindex.explanations.explanation import RowCount
from hindex.formatting import counted
from hindex.lru_cache import cached_property
from hindex.orc.metadata.types import Kind, OrcType
from hindex.plan.index_columns import indexed_expression, parsed_columns
from hindex.plan.reasons import Reason, group_notes
from hindex.queries import selectivity
from hindex.queries.decisions import QueryExplanation, TableDecision
from hindex.queries.index_aggregates import answer_aggregate
from hindex.queries.lookup_joins import apply_lookup_joins
from hindex.queries.relation_reading import RelationReading
from hindex.queries.selectivity import SelectivityEstimate
from hindex.queries.table_scans import fits_types, fitting_part, plan_table_scan
from hindex.scan.planning import ScanPlan, is_on_ngrams
from hindex.spark.catalyst import (
    Attribute,
    CatalystExpression,
    CatalystPlan,
    ConditionReader,
    Relation,
    attribute_ids,
)
from hindex.spark.scan import MAX_LOCAL_FILES, MAX_LOCAL_VALUES, collect_if_small, rows_frame, scan_frame
from hindex.spark.session import session_time_zones
from hindex.spark.settings import setting_reason
from hindex.spark.types import is_same_type, parse_type_json, spark_ddl
from hindex.sql.predicate import BooleanValue, Expression, Like, Predicate, RLike, columns, leaves, quote_name
from hindex.sql.statements import TableRef
from hindex.store.manifest import IndexEntry, Manifest
from hindex.store.snapshot import Snapshot
from hindex.store.store import Store
from hindex.table.location import normalize_uri
from hindex.table.schema import are_positional, path_name
from hindex.table.type_text import parse_type
from hindex.value_class import value_class

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from hindex.queries.table_resolution import ResolvedTable, TableResolver
    from hindex.spark.scan import RowScan

_LOG = logging.getLogger("hindex.queries")

_CHAR_PADDING = "spark.sql.readSideCharPadding"
#: Reasons why Spark reads a table whose indexes cannot narrow it.
NO_CONDITION = "the query has no condition on it"
NO_USABLE_CONDITION = "none of the query's conditions on it can be answered by indexes"


@value_class
class Access:
    """The conditions of a plan on the rows of one relation, and the columns of it that the plan uses.

    Attributes:
        paths: the columns of the relation by the ids that stand for them above it.
        expressions: the expressions of its columns by the ids that stand for them above it.
        used: the ids of the relation's columns that the plan uses.
        top: the number of the highest node that only filters and projects its rows.
    """

    conditions: tuple[CatalystExpression, ...]
    paths: dict[int, tuple[str, ...]]
    expressions: dict[int, CatalystExpression]
    used: frozenset[int]
    top: int

    @classmethod
    def of(cls, plan: CatalystPlan, relation: Relation) -> Access:
        """Read the filters and projections directly above a relation."""
        paths: dict[int, tuple[str, ...]] = {item.id: (item.name,) for item in relation.attributes}
        conditions: list[CatalystExpression] = []
        expressions: dict[int, CatalystExpression] = {}
        used: set[int] = set()
        is_bounded = False
        top = relation.node
        for node in plan.ancestors(relation.node):
            detail = node.detail
            if node.kind == "Filter" and detail["deterministic"]:
                conditions.append(detail["condition"])
                used |= set() if is_bounded else set(attribute_ids(detail["condition"]))
            elif node.kind == "Project" and detail["deterministic"]:
                used |= set() if is_bounded else set(attribute_ids(detail["items"]))
                is_bounded = True
                reader = ConditionReader(paths)
                for item in detail["items"]:
                    column = reader.column(item[2]) if item[0] == "Alias" else None
                    if column is not None:
                        paths[item[1]] = column.parts
                    elif item[0] == "Alias" and paths.keys() >= set(attribute_ids(item[2])):
                        expressions[item[1]] = item[2]
            else:
                if node.kind == "Aggregate" and not is_bounded:
                    used |= {*attribute_ids(detail["groups"]), *attribute_ids(detail["items"])}
                    is_bounded = True
                break
            top = node.number
        own = {item.id for item in relation.attributes}
        return cls(tuple(conditions), paths, expressions, frozenset(used & own if is_bounded else own), top)


class PlanRewriter:
    """Rewrites the plans of one session.

    Args:
        store: the store of the indexes; None if they are beside the tables.
        always: use every usable index, however many rows are left.
    """

    def __init__(self, resolver: TableResolver, store: str | None = None, *, always: bool = False) -> None:
        self.resolver = resolver
        self.store = store
        self.always = always
        #: How many plans used an index, and how many relations were left to Spark, by the reason.
        self.used: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()
        self._thread = threading.local()

    def rewrite(self, view: Any) -> Any:  # noqa: ANN401 Java objects
        """Return the plan with rows in the place of relations; None if Spark reads all of them."""
        reading = PlanReading(self, view)
        if not reading.plan.relations:
            return None
        # the small side of a lookup join is planned within the planning of its query
        is_nested = getattr(self._thread, "is_planning", False)
        self._thread.is_planning = True
        try:
            readings = reading.put_in_place(reading.read_relations())
        finally:
            self._thread.is_planning = is_nested
        # Spark optimizes a subquery before it makes a join of it, too
        is_subquery = reading.plan.nodes[-1].kind == "Subquery" and not reading.has_replacements
        if not is_nested and not is_subquery:
            warn_about_unused_indexes(readings)
            self._record(readings)
        return view.result() if reading.has_replacements else None

    def explain(self, view: Any) -> QueryExplanation:  # noqa: ANN401 Java objects
        """Explain how the relations of a plan would be read."""
        reading = PlanReading(self, view)
        decisions = [
            item.decision if item.scan is None else replace(item.decision, explanation=item.scan.explain())
            for item in reading.read_relations()
        ]
        return QueryExplanation(tuple(decisions))

    def summary(self) -> str:
        """Return how many readings of tables used which index, and why others used none."""
        lines = ["tables read through indexes: " + (_counted(self.used) or "none")]
        if self.declined:
            lines.append("tables read by Spark alone:")
            lines += [f"  {number:,} x {reason}" for reason, number in self.declined.most_common()]
        return "\n".join(lines)

    def _record(self, readings: Sequence[RelationReading]) -> None:
        for item in readings:
            self.used.update(item.indexes if item.is_accelerated else ())
            if item.decision.reason is not None:
                self.declined[item.decision.because] += 1
        log_readings(readings)


class PlanReading:
    """One plan while it is rewritten: its relations, and what stands in their place."""

    def __init__(self, rewriter: PlanRewriter, view: Any) -> None:  # noqa: ANN401 a Java object
        self.rewriter = rewriter
        self.view = view
        self.spark: SparkSession = rewriter.resolver.spark()
        self.plan = CatalystPlan.parse(view.json())
        self.zones = cache(lambda: session_time_zones(self.spark))
        self.has_replacements = False
        self._roots: dict[int, tuple[str, Manifest]] = {}
        self._files: dict[int, str] = {}
        self._digests: dict[int, bytes] = {}
        self._accesses: dict[int, Access] = {}
        self._snapshots: dict[tuple[str | None, tuple[str, ...], str], tuple[ResolvedTable, Snapshot]] = {}

    def read_relations(self) -> list[RelationReading]:
        """Decide how each relation is read: by an aggregate of it, the conditions above it, or the keys of joins."""
        readings = [self._aggregate(relation) or self._read(relation) for relation in self.plan.relations]
        return apply_lookup_joins(self, readings)

    def put_in_place(self, readings: Sequence[RelationReading]) -> list[RelationReading]:
        """Put the rows of readings in the place of their relations, or of aggregates; return what became of them."""
        results = []
        for item in readings:
            result = item
            if item.is_accelerated:
                try:
                    self._put_in_place(item)
                except HindexError as error:
                    # a file was deleted after the plan
                    result = self.declined(
                        item.relation, Reason.UNSUPPORTED_TABLE, str(error), notes=item.notes
                    )
            results.append(result)
        return results

    @cached_property
    def settings_problem(self) -> str | None:
        """The setting with which Spark reads tables by other rules, if there is one.

        It takes some ten calls of Java, and so comes last.
        """
        zone = self.view.setting("spark.sql.session.timeZone")
        # a stream plans in a copy of the session
        if zone != self.spark.conf.get("spark.sql.session.timeZone"):
            return "the session that plans it has another time zone"
        return setting_reason(self.spark)

    def _aggregate(self, relation: Relation) -> RelationReading | None:
        """Answer the aggregate above a relation from its indexes alone; None if they cannot."""
        try:
            return answer_aggregate(self, relation)
        except HindexError as error:
            # timestamps that are no instants, types without an order; rows may be read all the same
            _LOG.debug("indexes alone do not answer an aggregate of %s: %s", relation.name, error)
            return None

    def _read(self, relation: Relation) -> RelationReading:
        access = self.access(relation)
        try:
            reason = self.unusable_reason(relation)
            if reason is not None:
                return self.declined(relation, *reason)
            if relation.is_transactional:
                return self._read_transactional(relation, access)
            return self._read_plain(relation, access)
        except HindexError as error:
            return self.declined(relation, Reason.UNSUPPORTED_TABLE, str(error))

    def access(self, relation: Relation) -> Access:
        """Return what the plan does with a relation."""
        if relation.node not in self._accesses:
            self._accesses[relation.node] = Access.of(self.plan, relation)
        return self._accesses[relation.node]

    def declined(
        self,
        relation: Relation,
        reason: Reason,
        detail: str,
        where: Predicate | None = None,
        **rest: Any,  # noqa: ANN401
    ) -> RelationReading:
        """Return the reading of a relation that Spark reads."""
        predicate = None if where is None else str(where)
        notes = rest.pop("notes", ())
        decision = TableDecision(relation.name, predicate, reason, detail, **rest)
        return RelationReading(relation, decision, notes=notes)

    def unusable_reason(self, relation: Relation) -> tuple[Reason, str] | None:
        """Return why a relation cannot be read through indexes, whatever the conditions; None if it can."""
        if any(node.detail.get("depends_on_splits") for node in self.plan.nodes):
            detail = (
                "the query samples rows, draws random numbers with a seed, or reads the names of the files"
            )
            return Reason.UNSUPPORTED_PLAN, detail
        if relation.has_metadata:
            return Reason.UNSUPPORTED_PLAN, "the query reads the column _metadata"
        written = {node.detail["writes"] for node in self.plan.nodes if "writes" in node.detail}
        for place in (relation.location, *relation.paths):
            if place and any(_overlap(place, other) for other in written):
                return Reason.UNSUPPORTED_PLAN, "the statement writes the files that it reads"
        if relation.is_transactional:
            return None
        return None if self.manifest(relation).indexes else (Reason.NO_INDEX, "it has no index")

    def indexed_columns(self, relation: Relation) -> frozenset[str]:
        """Return the columns of a relation that have an index, in lower case. The table is not listed.

        Raises:
            HindexError: if its store cannot be read.
        """
        indexes = self.manifest(relation).indexes
        return frozenset(entry.column.lower() for entry in indexes if not entry.inputs)

    def composites(self, relation: Relation) -> list[tuple[str, ...]]:
        """Return the columns of each index on several columns, in lower case.

        Raises:
            HindexError: if the store of the relation cannot be read.
        """
        names = []
        for entry in self.manifest(relation).indexes:
            # a later version may have made an index that this one does not understand
            with suppress(StatementError):
                if entry.is_on_expression and len(parsed_columns(entry.column)) > 1:
                    names.append(tuple(name.lower() for name in parse_type(entry.inputs).field_names))
        return names

    def columns_of_indexes(self, relation: Relation) -> frozenset[str]:
        """Return the columns of a relation that have an index, or are in the expression of one, in lower case.

        Raises:
            HindexError: if its store cannot be read.
        """
        types = [
            parse_type(entry.inputs) for entry in self.manifest(relation).indexes if entry.is_on_expression
        ]
        inputs = (name.lower() for data_type in types for name in data_type.field_names)
        return self.indexed_columns(relation).union(inputs)

    def index_on(
        self, relation: Relation, expression: Expression, *, of_parts: bool = False
    ) -> IndexEntry | None:
        """Return an index on the values of an expression, or on the parts of its strings; None if there is none.

        Raises:
            HindexError: if the store of the relation cannot be read.
        """
        entries = [entry for entry in self.manifest(relation).indexes if is_on_ngrams(entry) is of_parts]
        return indexed_expression(expression, entries, self.zones)

    def _is_indexed(self, relation: Relation, expression: Expression, must_be_of_parts: bool) -> bool:
        if self.index_on(relation, expression, of_parts=True) is not None:
            return True
        return not must_be_of_parts and self.index_on(relation, expression) is not None

    def _ngram_columns(self, relation: Relation) -> frozenset[str]:
        """Return the columns of a relation that have an index on n-grams, in lower case."""
        entries = self.manifest(relation).indexes
        return frozenset(entry.column.lower() for entry in entries if is_on_ngrams(entry))

    def manifest(self, relation: Relation) -> Manifest:
        """Return the manifest of the indexes of a relation, an empty one if there are none.

        Raises:
            HindexError: if its store cannot be read.
        """
        return self._root(relation)[1]

    def _root(self, relation: Relation) -> tuple[str, Manifest]:
        """Return the directory of a relation's table, spelled as in Spark, and the manifest of its indexes."""
        if relation.node not in self._roots:
            self._roots[relation.node] = "", Manifest.empty("")
            for root in relation.roots:
                manifest = Store.for_table(normalize_uri(root), self.rewriter.store).load()
                self._roots[relation.node] = root, manifest or Manifest.empty(root)
                if manifest is not None and manifest.indexes:
                    break
        return self._roots[relation.node]

    def files(self, relation: Relation) -> str:
        """Return the files that Spark reads for a relation: a line with URI, length and milliseconds for each."""
        if relation.node not in self._files:
            self._files[relation.node] = str(self.view.files(relation.node))
        return self._files[relation.node]

    def reading_key(self, relation: Relation, where: Predicate | None, *limits: object) -> bytes:
        """Return what identifies a condition on the files that Spark reads; see `selectivity.reading_key`."""
        if relation.node not in self._digests:
            # a line for each of many files
            self._digests[relation.node] = blake2b(self.files(relation).encode(), digest_size=16).digest()
        return selectivity.reading_key(self.manifest(relation), self._digests[relation.node], where, *limits)

    def condition(self, relation: Relation, access: Access) -> tuple[Predicate | None, bool, ConditionReader]:
        """Return the condition on the rows of a relation, and whether it is all that is above it."""
        on_ngrams = self._ngram_columns(relation)
        has_expressions = any(entry.is_on_expression for entry in self.manifest(relation).indexes)
        reader = ConditionReader(
            access.paths,
            lambda: self.zones().is_session_utc,
            on_ngrams,
            partial(self._is_indexed, relation) if has_expressions else None,
        )
        predicate, is_exact = reader.predicate(access.conditions)
        return predicate, is_exact, reader

    def _read_plain(self, relation: Relation, access: Access) -> RelationReading:
        where, _, reader = self.condition(relation, access)
        if where is None:
            if not access.conditions:
                return self.declined(relation, Reason.NO_CONDITION, NO_CONDITION)
            unused = reader.unread(access.conditions)
            return self.declined(relation, Reason.UNSUPPORTED_PREDICATE, NO_USABLE_CONDITION, unused=unused)
        indexed = self.columns_of_indexes(relation)
        if not any(path_name(column.parts).lower() in indexed for column in columns(where)):
            listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
            unused = reader.unread(access.conditions)
            detail = f"no index is on {listed}"
            return self.declined(relation, Reason.NO_INDEX, detail, where, unused=unused)
        return self.read_rows(relation, access, where, reader)

    def read_rows(
        self,
        relation: Relation,
        access: Access,
        where: Predicate,
        reader: ConditionReader,
        max_share: float | None = None,
        *,
        looks_up: bool = False,
    ) -> RelationReading:
        """Decide by measured costs whether a relation is read by a condition.

        Args:
            reader: the reader of the condition.
            max_share: the maximum share of the rows; None for that of a condition.
            looks_up: read indexes even if decoding a column takes no longer.
        """
        always = self.rewriter.always
        used = self.used_columns(relation, access, where)
        limit = 1.0 if always else selectivity.MAX_SHARE if max_share is None else max_share
        key = self.reading_key(relation, where, len(used), limit)
        known = selectivity.DECLINED.get(key)
        if known is not None:
            unused = reader.unread(access.conditions)
            return self.declined(
                relation, known.reason, known.detail, where, rows=known.rows, notes=known.notes, unused=unused
            )
        if self.settings_problem is not None:
            return self.declined(relation, Reason.SETTING, self.settings_problem, where)
        table, snapshot = self.snapshot(relation)
        difference = self.difference(relation, snapshot, used, where, reader)
        if difference is not None:
            return self.declined(relation, Reason.UNSUPPORTED_TABLE, difference, where)
        rows = snapshot.num_rows
        on_ngrams = self._ngram_columns(relation)
        parts = [
            leaf
            for leaf in leaves(where)
            if isinstance(leaf, BooleanValue | Like | RLike)
            and any(".".join(column.parts).lower() in on_ngrams for column in columns(leaf))
        ]
        values = rows * (len(used) + selectivity.PART_VALUES * len(parts))
        if values < selectivity.MIN_VALUES and not always:
            detail = f"Spark reads {counted(len(used), 'column')} of {counted(rows, 'row')} sooner"
            selectivity.DECLINED.put(key, selectivity.Declined(Reason.TOO_SMALL, detail))
            return self.declined(relation, Reason.TOO_SMALL, detail, where)
        fitting = fitting_part(where, snapshot.schema, self.zones)
        if fitting is None:
            return self.declined(relation, Reason.UNSUPPORTED_PREDICATE, NO_USABLE_CONDITION, where)
        where = fitting
        names = [item.name for item in used]
        scan, plan = plan_table_scan(table, snapshot, where, names, self.zones)
        is_read = looks_up or always
        # Spark's Filter stays above the rows
        plan = plan.map_tasks(lambda task: replace(task, always_looks_up=is_read, keeps_errors=True))
        is_indexed = plan.skipped or any(task.indexes or task.candidates for task in plan.tasks)
        # without a task, no row can satisfy the conditions
        if plan.tasks and not is_indexed:
            listed = ", ".join(dict.fromkeys(column.name for column in columns(where)))
            detail = f"no index that could be used is on {listed}"
            return self.declined(relation, Reason.NO_INDEX, detail, where, notes=plan.notes)
        estimate, read = self._count_matches(scan, plan, where, limit)
        notes = (*plan.notes, *estimate.fallbacks)
        kept = estimate.rows if read is None else RowCount(read.num_rows, rows)
        if kept.share is not None and kept.share > limit:
            detail = selectivity.share_detail(limit, estimate)
            if selectivity.may_be_kept(estimate, plan.notes):
                declined = selectivity.Declined(Reason.NOT_SELECTIVE, detail, kept, notes)
                selectivity.DECLINED.put(key, declined)
            unused = reader.unread(access.conditions)
            return self.declined(
                relation, Reason.NOT_SELECTIVE, detail, where, rows=kept, notes=notes, unused=unused
            )
        table.check_against_catalog(snapshot)
        is_counted = read is not None or estimate.is_exact
        decision = TableDecision(relation.name, str(where), rows=kept, is_counted=is_counted)
        return RelationReading(relation, decision, used, scan, plan, estimate.units, notes, read)

    def _count_matches(
        self, scan: RowScan, plan: ScanPlan, where: Predicate, max_share: float
    ) -> tuple[SelectivityEstimate, pa.Table | None]:
        """Estimate how many rows match by the indexes; if these leave few candidates, compare them.

        Returns:
            the estimate, and the matching rows if candidates were compared and at most ``max_share`` of the rows match.
        """
        rows, width = plan.snapshot.num_rows, len(plan.columns)
        compared = max(len({column.parts for column in columns(where)}), 1)
        max_candidates = 0.0
        if len(plan.tasks) <= MAX_LOCAL_FILES and not self.rewriter.always:
            share = selectivity.MAX_CANDIDATE_SHARE * width / compared
            max_candidates = min(share * rows, selectivity.MAX_CANDIDATES)
        estimate = selectivity.estimate_selectivity(scan, plan, max_share, max_candidates)
        max_rows = max_share * rows
        candidates = estimate.rows.kept or 0
        # an index of row groups: only their rows show how many match
        is_open = estimate.certain < candidates <= max_candidates and estimate.certain <= max_rows
        # so few are read by the driver, not by executors, without a count before
        if not is_open or (candidates <= max_rows and candidates * width <= MAX_LOCAL_VALUES):
            return estimate, None
        limit = min(int(max_rows), selectivity.MAX_CANDIDATE_VALUES // width)
        return estimate, collect_if_small(scan, plan, limit, estimate.units)

    def _read_transactional(self, relation: Relation, access: Access) -> RelationReading:
        """Read a transactional table, whatever the condition: Spark would read its deltas as rows."""
        where, _, _ = self.condition(relation, access)
        table = self.table(relation)
        snapshot = self.rewriter.resolver.list_table(table)
        table.check_against_catalog(snapshot)
        used = self.used_columns(relation, access, where)
        if where is not None and not fits_types(where, snapshot.schema, self.zones):
            where = None
        names = [item.name for item in used]
        scan, plan = plan_table_scan(table, snapshot, where, names, self.zones)
        plan = plan.map_tasks(lambda task: replace(task, keeps_errors=True))
        decision = TableDecision(relation.name, None if where is None else str(where))
        return RelationReading(relation, decision, used, scan, plan)

    def used_columns(
        self, relation: Relation, access: Access, where: Predicate | None
    ) -> tuple[Attribute, ...]:
        """Return the columns to read: those that the plan uses, or one, so that there are rows."""
        used = tuple(item for item in relation.attributes if item.id in access.used)
        if used:
            return used
        named = set() if where is None else {column.parts[0] for column in columns(where)}
        ordered = sorted(relation.attributes, key=lambda item: item.name not in named)
        return tuple(ordered[:1])

    def table(self, relation: Relation) -> ResolvedTable:
        """Return the table of a relation."""
        resolver = self.rewriter.resolver
        if relation.table is None:
            ref = TableRef.path(self._root(relation)[0])
        else:
            ref = TableRef.name(*relation.name_parts)
        return resolver.described_table(ref, resolver.describe(ref))

    def snapshot(self, relation: Relation) -> tuple[ResolvedTable, Snapshot]:
        """Return the table of a relation, and its state with exactly the files that the relation would read.

        Raises:
            UnsupportedError: if a file has changed since Spark listed it.
        """
        # two relations of the same paths may read other files of them
        key = relation.table, relation.paths, self.files(relation)
        if key not in self._snapshots:
            table = self.table(relation)
            snapshot = self.rewriter.resolver.list_table(table)
            self._snapshots[key] = table, self._with_files(relation, snapshot)
        return self._snapshots[key]

    def _with_files(self, relation: Relation, snapshot: Snapshot) -> Snapshot:
        root = self._root(relation)[0].rstrip("/") + "/"
        files = snapshot.views.files
        by_path = {path: at for at, path in enumerate(files.paths)}
        by_uri: dict[str, int] = {}
        read: list[int] = []
        for line in self.files(relation).splitlines():
            uri, length, milliseconds = line.split("\0")
            if length == "0":
                continue
            # the root may be named by a symbolic link, or by another scheme of the same store
            at = by_path.get(uri.removeprefix(root))
            if at is None:
                by_uri = by_uri or {file.uri: place for place, file in enumerate(files)}
                at = by_uri.get(normalize_uri(uri))
            if at is None or files.lengths[at] != int(length):
                raise UnsupportedError(f"Spark's list of its files differs from the files: {uri}")
            if files.mtimes_ns[at] and files.mtimes_ns[at] // 10**6 != int(milliseconds):
                raise UnsupportedError(f"a file was changed after Spark listed it: {uri}")
            read.append(at)
        positions = np.unique(np.array(read, np.int64))
        if len(positions) < len(read):
            raise UnsupportedError("Spark reads a file twice")
        return replace(snapshot, files=snapshot.views.take(positions))

    def difference(
        self,
        relation: Relation,
        snapshot: Snapshot,
        used: Sequence[Attribute],
        where: Predicate | None,
        reader: ConditionReader,
    ) -> str | None:
        """Return how Spark's columns differ from the table's, or None."""
        if snapshot.listing.transactional:
            return "its files are those of a transactional table, but its catalog entry is not"
        schema = snapshot.schema
        declared = None
        if snapshot.declared is not None:
            declared = {
                field["name"].lower(): field["type"]
                for field in json.loads(snapshot.declared.spark_json)["fields"]
            }
        elif any(
            are_positional(snapshot.views.kinds[at].names) for at in np.unique(snapshot.views.kind_numbers)
        ):
            read_names = [item.name for item in relation.attributes if not item.is_partition]
            if read_names != [column.name for column in schema.data_columns][: len(read_names)]:
                return (
                    "files without names of their columns are read by position, and Spark's schema is another"
                )
        in_where = {column.parts[0].lower() for column in (columns(where) if where is not None else ())}
        for item in relation.attributes:
            if item not in used and item.name.lower() not in in_where:
                continue
            try:
                resolved = schema.resolve((item.name,))
            except ColumnError as error:
                return str(error)
            data_type = resolved.type
            if resolved.is_partition != item.is_partition:
                # a path of one partition, and a schema that names its column
                kind = "a" if item.is_partition else "no"
                return f"column {item.name!r} is {kind} partition column in Spark"
            if item.is_partition and relation.table is None and data_type.kind is Kind.TIMESTAMP:
                return f"Spark reads {item.name!r} in the time zone that the session had for the DataFrame"
            # Spark leaves out fields that the plan does not use
            read = json.loads(item.type_json)
            if declared is not None:
                is_same = _is_part(read, declared.get(item.name.lower()))
            else:
                is_same = is_same_type(data_type, parse_type_json(item.type_json)) or (
                    isinstance(read, dict) and _is_part(read, _whole_type(data_type))
                )
            if not is_same:
                return f"column {item.name!r} has another type in Spark than {data_type}"
            has_char = any(part.kind is Kind.CHAR for part in data_type.walk())
            if has_char and item in used and self.view.setting(_CHAR_PADDING) != "true":
                return f"the session reads {item.name!r} without the blanks of CHAR"
        for column in reader.unpadded:
            if schema.resolve(column.parts).type.kind is Kind.CHAR:
                return f"the session compares {column.name!r} without the blanks of CHAR"
        return None

    def _put_in_place(self, item: RelationReading) -> None:
        one_partition = self._may_shuffle()
        if item.rows is not None:
            names = [f"c{at}" for at in range(item.rows.num_columns)]
            frame = rows_frame(self.spark, item.rows, names, one_partition=one_partition)
        else:
            assert item.scan is not None
            frame = scan_frame(self.spark, item.scan, item.plan, item.units, one_partition=one_partition)
        frame = _with_types(frame, item.columns)
        through = ", ".join(item.indexes) or "hindex"
        names = [f"{item.relation.name} through {through}: {column.name}" for column in item.columns]
        rows = frame.toDF(*names)._jdf.queryExecution().optimizedPlan()
        if item.aggregate_node is not None:
            self.view.standIn(item.aggregate_node, rows, " ".join(map(str, range(len(item.columns)))))
        else:
            ids = [attribute.id for attribute in item.relation.attributes]
            positions = " ".join(str(ids.index(column.id)) for column in item.columns)
            self.view.standIn(item.relation.node, rows, positions)
        self.has_replacements = True

    def _may_shuffle(self) -> bool:
        """Return True if Spark may shuffle rows of the plan, which one partition saves."""
        return bool(self.plan.kinds & {"Aggregate", "Join", "Sort", "Window", "Distinct"})


def _counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in names.most_common())


def _with_types(frame: DataFrame, used: Sequence[Attribute]) -> DataFrame:
    """Return a frame whose columns have Spark's types of them, down to the nullability of elements."""
    from pyspark.sql.types import StructField, StructType

    types = [parse_type_json(item.type_json) for item in used]
    if [field.dataType for field in frame.schema] == types:
        return frame
    fields = [
        StructField(field.name, data_type) for field, data_type in zip(frame.schema, types, strict=True)
    ]
    return frame.to(StructType(fields))


def _is_part(part: Any, whole: Any) -> bool:  # noqa: ANN401 types as JSON
    """Return True if a type is another one, or has some of its fields."""
    if not isinstance(part, dict) or not isinstance(whole, dict) or part.get("type") != whole.get("type"):
        return bool(part == whole)
    match part["type"]:
        case "struct":
            fields = {field["name"]: field["type"] for field in whole["fields"]}
            return all(_is_part(field["type"], fields.get(field["name"])) for field in part["fields"])
        case "array":
            return _is_part(part["elementType"], whole["elementType"])
        case "map":
            return part["keyType"] == whole["keyType"] and _is_part(part["valueType"], whole["valueType"])
    return bool(part == whole)


def _whole_type(data_type: OrcType) -> Any:  # noqa: ANN401 a type as JSON
    """Return Spark's type of a column of files as JSON; None if it has none."""
    from pyspark.sql.types import StructType

    try:
        schema = StructType.fromDDL(f"c {spark_ddl(data_type)}")
    except ColumnError:
        return None
    return json.loads(schema.json())["fields"][0]["type"]


def _overlap(one: str, other: str) -> bool:
    """Return True if one location is the other, or within it."""
    shorter, longer = sorted((one.rstrip("/") + "/", other.rstrip("/") + "/"), key=len)
    return longer.startswith(shorter)


def warn_about_unused_indexes(readings: Sequence[RelationReading]) -> None:
    """Warn about indexes that exist and cannot be used: those of changed files, damaged ones and so on."""
    for item in readings:
        notes = group_notes(note for note in item.notes if note.reason.is_problem)
        if notes:
            _LOG.warning("index not used on %s: %s", item.relation.name, "; ".join(map(str, notes)))


def log_readings(readings: Sequence[RelationReading]) -> None:
    """Log in one line how the relations of a plan are read."""
    if not _LOG.isEnabledFor(logging.INFO):
        return
    parts, queries = [], []
    for item in readings:
        decision = item.decision
        details = [str(lookup) for lookup in decision.lookups]
        if decision.gives_keys:
            parts.append(f"{decision.table} once, for its keys")
        elif not item.is_accelerated:
            because = decision.because
            if decision.unused:
                because += f"; no index answers {'; '.join(decision.unused)}"
            parts.append(f"{decision.table} by Spark: {'; '.join([because, *details])}")
        else:
            if decision.rows is not None:
                details.append(f"{decision.row_text} rows")
            through = ", ".join(item.indexes) or ("a scan" if item.relation.is_transactional else "hindex")
            if item.aggregate_node is not None:
                through += " alone"
            parts.append(f"{decision.table} through {', '.join([through, *details])}")
        if decision.predicate is not None:
            names = ", ".join(quote_name(column.name) for column in item.columns) or "*"
            queries.append(f"SELECT {names} FROM {decision.table} WHERE {decision.predicate}")
    is_accelerated = any(item.is_accelerated for item in readings)
    prefix = "accelerated" if is_accelerated else "not accelerated"
    _LOG.info("%s: %s", prefix, " | ".join(filter(None, ["; ".join(parts), "; ".join(queries)])))
