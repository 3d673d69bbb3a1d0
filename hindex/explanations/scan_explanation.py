"""Explain a scan: look up indexes as the scan does, and read no rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from hindex.errors import ColumnError
from hindex.explanations.explanation import (
    BY_INDEX,
    SELECTED,
    SKIPPED,
    WHOLE,
    Analyzed,
    ExplainedNode,
    Explanation,
    FileMap,
    IndexAnswer,
    LeafExplanation,
    ReadPath,
    RowCount,
    StripeMap,
    explain_filter,
    table_map,
)
from hindex.index.page_cache import shared_cache
from hindex.keys import array_keys, nth_key
from hindex.orc.io.thread_pool import SERIAL, ThreadPool
from hindex.plan.filter import (
    Indexable,
    Never,
    Residual,
    columns,
    every_indexable,
    indexable,
    leaves,
    residuals,
)
from hindex.plan.filter_evaluation import prune
from hindex.plan.order import Order
from hindex.plan.reasons import Note, Reason
from hindex.scan.file_pruning import SkippedFiles
from hindex.scan.included_columns import BlockRead
from hindex.scan.lookup_cost import is_key_walk_worthwhile
from hindex.scan.metrics import MetricsCollector, Step
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import IncludedUse, IndexUse, LeafResult, OutputColumn, StripeResult
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import run_lookups, run_units
from hindex.sql.predicate import Predicate
from hindex.table.location import is_local
from hindex.table.schema import spelled
from hindex.value_class import value_class

#: The reasons why a column has no index.
_NO_INDEX = (Reason.NO_INDEX, Reason.UNSUPPORTED_TYPE, Reason.ROW_KEY)


@dataclass(slots=True)
class _Totals:
    """Sums over the stripes of the plan."""

    files: set[str] = field(default_factory=set)
    stripes: int = 0
    all_stripes: int = 0
    groups: int = 0
    all_groups: int = 0
    rows: int = 0
    all_rows: int = 0
    undecided: int = 0
    notes: list[Note] = field(default_factory=list)
    leaf_rows: dict[Indexable, int] = field(default_factory=dict)
    # rows and row groups that may match a leaf after each index or statistic, in lookup order
    leaf_answers: dict[Indexable, dict[str | StatisticsSource, _LeafTotals]] = field(default_factory=dict)
    uses_index: bool = False
    inexact_leaves: set[Indexable] = field(default_factory=set)
    unanswered_leaves: set[Indexable] = field(default_factory=set)
    uncounted_leaves: set[Indexable] = field(default_factory=set)
    # stripes whose data is read; the bytes are of their columns and row groups
    read_stripes: int = 0
    # rows that indexes keep, and that a transactional table's deletes and visibility remove
    deleted: int = 0
    invisible: int = 0
    by_keys: bool = False
    bytes: int = 0
    walked: dict[str, None] = field(default_factory=dict)
    # columns for which the predicate allows only one value
    fixed: set[str] = field(default_factory=set)
    # columns whose values an index has in some stripes, and those that are read in some
    from_indexes: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    # columns that are read from indexes of type ROWS in some stripes, by index
    included: dict[str, dict[str, None]] = field(default_factory=dict)
    maps: dict[str, list[StripeMap]] = field(default_factory=dict)


@dataclass(slots=True)
class _LeafTotals:
    """The rows that may match, and the row groups that may match of those tested."""

    rows: int = 0
    kept: int = 0
    groups: int = 0


@value_class
class _StripePlan:
    """The rows of a stripe that its indexes select, and the columns that are read for them.

    Attributes:
        read: the columns of the result that are read.
        walked: the index that gives the first rows of an order, if one does.
        bytes: the approximate stored bytes of all columns that are read, also for conditions and orders.
        block_reads: the columns that are read from indexes of type ROWS.
    """

    task: ScanTaskReader
    result: StripeResult
    read: Sequence[OutputColumn]
    walked: str | None
    is_answered: bool
    bytes: int
    block_reads: Sequence[BlockRead]


def explain_plan(
    plan: ScanPlan,
    where: Predicate | None,
    *,
    labels: Sequence[str] = (),
    shown: Sequence[str] = (),
    group: str | None = None,
    orders: Sequence[Order] = (),
    limit: int | None = None,
    offset: int = 0,
    is_index_only: Callable[[ScanTaskReader, StripeResult], bool] | None = None,
) -> Explanation:
    """Explain the decisions of a scan: indexes are looked up stripe by stripe, data is not read.

    Args:
        labels: the names of the result's columns, if they are not the plan's.
        shown: the SQL spelling of the result's columns.
        is_index_only: returns True if a stripe's part of an aggregate needs no data; None if rows are returned.
    """
    totals = _Totals()
    before = shared_cache().counts
    last: ScanTaskReader | None = None
    _add_skipped(totals, plan.skipped)
    output = plan.columns if is_index_only is None else plan.lookups
    defaults = _DefaultValues(plan)

    def plan_stripe(task: ScanTaskReader, result: StripeResult, _: ThreadPool) -> _StripePlan:
        read = _columns_to_read(task, output, result)
        # an order's column is also read, unless an index is walked for it
        sorts = bool(orders and plan.columns)
        sorted_by = _columns_to_read(task, plan.lookups, result) if sorts else []
        is_answered = not (result.undecided or read or sorted_by)
        if is_index_only is not None:
            is_answered = is_index_only(task, result) or (is_answered and bool(output))
        walked = _walked(plan, task, result) if sorts and limit is not None else None
        if walked is not None:
            is_answered = not result.undecided and (plan.has_only_index_keys or not read)
        needed = [*read, *(sorted_by if walked is None else ())]
        if result.undecided:
            needed += task.task.filter_columns
        block_reads: list[BlockRead] = []
        if not is_answered:
            # conditions are checked first, on the undecided rows
            filtered = task.task.filter_columns if result.undecided else ()
            upper = result.bounds.upper
            block_reads = task.block_reads(result.stripe, upper - result.bounds.lower, filtered)
            others = [column for column in needed if column not in filtered]
            block_reads += task.block_reads(result.stripe, upper, others)
        included = {column.name for item in block_reads for column in item.columns}
        needed = [column for column in needed if column.name not in included]
        return _StripePlan(
            task,
            result,
            [column for column in read if column.name not in included],
            walked,
            is_answered or (bool(block_reads) and not needed),
            task.bytes_to_read(result, () if is_answered else needed),
            block_reads,
        )

    units = run_lookups(plan.tasks, every=True)
    is_remote = bool(plan.tasks) and not is_local(plan.tasks[0].uri)
    # of local files, one is open at a time: a table may have more files than a process may open
    for stripe_plan in (
        run_units(units, plan_stripe) if is_remote else (plan_stripe(*unit, SERIAL) for unit in units)
    ):
        task, result = stripe_plan.task, stripe_plan.result
        if last is not None and task is not last:
            totals.notes += last.notes
        last = task
        if stripe_plan.walked is not None:
            totals.walked[stripe_plan.walked] = None
            totals.uses_index = True
        _add(totals, stripe_plan)
        _add_leaf_results(totals, defaults.results(task, result))
        if len(result.bounds.upper):
            totals.fixed.update(column.name for column in output if task.is_constant(column.name))
            totals.from_indexes.update(result.values)
            totals.read.update(column.name for column in stripe_plan.read)
            for item in stripe_plan.block_reads:
                totals.included.setdefault(item.use.name, {}).update(
                    (column.name, None) for column in item.columns
                )
                totals.uses_index = True
    if last is not None:
        totals.notes += last.notes
    pruned = _Pruned.of(plan)
    files = plan.snapshot.views.files
    names = _spelled(plan)
    return Explanation(
        table=plan.snapshot.name,
        predicate="" if where is None else str(where),
        tree=_tree(plan, totals),
        path=_path(plan, totals),
        files=RowCount(len(totals.files), len(files)),
        stripes=RowCount(totals.stripes, totals.all_stripes + pruned.stripes),
        row_groups=RowCount(totals.groups, _add_counts(totals.all_groups, pruned.row_groups)),
        rows=RowCount(totals.rows, totals.all_rows + pruned.rows),
        bytes=RowCount(totals.bytes, int(files.lengths.sum())),
        columns=tuple(labels or (column.name for column in plan.columns)),
        shown=tuple(shown or (names.get(column.name, column.name) for column in plan.columns)),
        spelled=tuple(names.items()),
        exact=not totals.undecided,
        # columns that are checked on data are read
        fixed=()
        if totals.undecided
        else tuple(column.name for column in output if column.name in totals.fixed),
        from_indexes=()
        if totals.undecided
        else tuple(column.name for column in output if column.name in totals.from_indexes - totals.read),
        included=tuple((name, tuple(names)) for name, names in totals.included.items()),
        notes=(*plan.notes, *totals.notes),
        cache=shared_cache().counts.since(before),
        group=group or "",
        order=_orders_text(orders, totals) if orders else "",
        limit=limit,
        offset=offset,
        deleted=totals.deleted,
        invisible=totals.invisible,
        table_map=table_map(
            FileMap(path, tuple(totals.maps.get(path, ())), is_skipped=path not in totals.maps)
            for path in files.paths
        ),
    )


def _spelled(plan: ScanPlan) -> dict[str, str]:
    """Return the SQL spelling of the columns that need backquotes."""
    spellings = {}
    for name in (*(column.name for column in (*plan.columns, *plan.lookups)), *columns(plan.filter)):
        with suppress(ColumnError):  # a row key needs no backquotes
            text = spelled(plan.snapshot.schema.resolve(name, is_stored=True).path)
            if text != name:
                spellings[name] = text
    return spellings


def _columns_to_read(
    task: ScanTaskReader, columns: Sequence[OutputColumn], result: StripeResult
) -> list[OutputColumn]:
    """Return the columns whose values come from neither the partition, nor the predicate, nor an index."""
    return [
        column
        for column in columns
        if not (column.is_partition or task.is_constant(column.name) or column.name in result.values)
    ]


def _walked(plan: ScanPlan, task: ScanTaskReader, result: StripeResult) -> str | None:
    """Return the index that gives the first rows of a stripe in the order, or None."""
    keyed = task.keyed(plan.lookups[0].name) if plan.is_walkable else None
    rows = len(result.bounds.upper)
    if keyed is None or not rows or not is_key_walk_worthwhile(keyed[1].key_count(result.stripe), rows):
        return None
    return keyed[0]


def _orders_text(orders: Sequence[Order], totals: _Totals) -> str:
    read = "the column is read and sorted" if len(orders) == 1 else "the columns are read and sorted"
    by = f"walks the index {', '.join(totals.walked)}" if totals.walked else read
    return f"{', '.join(map(str, orders))}: {by}"


class _DefaultValues:
    """The results of leaves that the defaults of missing columns decide. The tasks' filters do not have them."""

    def __init__(self, plan: ScanPlan) -> None:
        schema = plan.snapshot.schema
        self._binding = tuple(column.name for column in schema.data_columns)
        self._views = plan.snapshot.views.by_path(task.path for task in plan.tasks)
        filtered = {leaf.column for leaf in leaves(plan.filter)}
        keys = {
            column.name: nth_key(array_keys(column.type, pa.repeat(column.default, 1)), 0)
            for column in schema.data_columns
            if column.default is not None and column.name in filtered
        }
        self._matches = {
            leaf: not isinstance(prune(leaf, keys), Never)
            for leaf in leaves(plan.filter)
            if leaf.column in keys
        }

    def results(self, task: ScanTaskReader, result: StripeResult) -> list[LeafResult]:
        """Return the results for a stripe, given the columns that its file lacks."""
        view = self._views[task.task.path]
        return [
            LeafResult(leaf, None, result.num_rows if matches else 0, source=StatisticsSource.DEFAULT)
            for leaf, matches in self._matches.items()
            if not view.kind.has_column(self._binding, leaf.column)
        ]


@value_class
class _Pruned:
    """Totals of the skipped files; row groups are None if the manifest does not record them."""

    stripes: int
    row_groups: int | None
    rows: int

    @classmethod
    def of(cls, plan: ScanPlan) -> _Pruned:
        views = plan.snapshot.views
        is_pruned = np.ones(len(views), np.bool_)
        is_pruned[plan.positions()] = False
        groups = views.num_row_groups[is_pruned]
        # older builds did not record row groups
        has_row_groups = bool((groups[views.num_rows[is_pruned] > 0] > 0).all())
        return cls(
            int(views.num_stripes[is_pruned].sum()),
            int(groups.sum()) if has_row_groups else None,
            int(views.num_rows[is_pruned].sum()),
        )


def _add(totals: _Totals, stripe_plan: _StripePlan) -> None:
    task, result, is_answered = stripe_plan.task, stripe_plan.result, stripe_plan.is_answered
    upper = result.bounds.upper
    groups = task.row_groups(result.num_rows)
    stride = task.reader.tail.row_index_stride or max(result.num_rows, 1)
    kept = np.unique(np.asarray(upper.to_array()) // stride)
    totals.all_stripes += 1
    totals.deleted += result.deleted
    totals.invisible += result.invisible
    totals.by_keys |= bool(result.key_columns)
    totals.all_rows += result.num_rows
    totals.all_groups += groups
    if 0 < len(upper) < result.num_rows and not is_answered and not task.reader.tail.row_index_stride:
        totals.notes.append(Note(Reason.NO_ROW_INDEX, task.task.path))
    if len(upper):
        totals.files.add(task.task.path)
        totals.stripes += 1
        totals.rows += len(upper)
        totals.undecided += result.undecided
        totals.groups += len(kept)
        totals.read_stripes += not is_answered
        totals.bytes += stripe_plan.bytes
    state = BY_INDEX if is_answered else SELECTED if len(upper) < result.num_rows else WHOLE
    cells = [SKIPPED] * groups
    for number in kept.tolist():
        cells[number] = state
    totals.maps.setdefault(task.task.path, []).append(StripeMap(result.stripe, "".join(cells)))
    _add_leaf_results(totals, result.leaf_results)
    totals.unanswered_leaves.update(result.unanswered)
    answered_leaves = {item.leaf for item in result.leaf_results}
    totals.uncounted_leaves.update(leaf for leaf in result.unanswered if leaf not in answered_leaves)


def _add_skipped(totals: _Totals, skipped: SkippedFiles) -> None:
    for leaf, counts in skipped.leaves.items():
        totals.leaf_rows[leaf] = counts.rows
        if not counts.exact:
            totals.inexact_leaves.add(leaf)
        for by, rows in counts.by_source.items():
            totals.leaf_answers.setdefault(leaf, {})[by] = _LeafTotals(rows)
            totals.uses_index |= not isinstance(by, StatisticsSource)


def _add_leaf_results(totals: _Totals, leaf_results: Sequence[LeafResult]) -> None:
    last = {item.leaf: item for item in leaf_results}
    for leaf, item in last.items():
        totals.leaf_rows[leaf] = totals.leaf_rows.get(leaf, 0) + item.rows
        if not item.exact:
            totals.inexact_leaves.add(leaf)
    for item in leaf_results:
        by = item.source or item.index
        if by is not None:
            section = totals.leaf_answers.setdefault(item.leaf, {}).setdefault(by, _LeafTotals())
            section.rows += item.rows
            section.kept += item.groups_kept
            section.groups += item.groups
            totals.uses_index |= item.index is not None


def _tree(plan: ScanPlan, totals: _Totals) -> ExplainedNode:
    reasons: dict[str, Reason] = {
        note.subject: note.reason for note in plan.notes if note.reason in _NO_INDEX
    }
    others = [
        note.reason
        for note in (*plan.notes, *totals.notes)
        if note.reason is not Reason.FILE_GONE and not note.reason.is_surprise
    ]
    types = {entry.name: entry.type for entry in plan.snapshot.manifest.indexes}
    explanations: dict[Indexable, LeafExplanation] = {}
    for residual in residuals(plan.filter):
        if all(plan.snapshot.schema.is_partition(name) for name in columns(residual)):
            explanations[residual] = LeafExplanation(None, "PARTITION", exact=True)
    for leaf in indexable(plan.filter):
        if plan.snapshot.schema.is_partition(leaf.column):
            explanations[leaf] = LeafExplanation(None, "PARTITION", exact=True)
            continue
        answers: dict[str | StatisticsSource, _LeafTotals] = {}
        # indexes on the columns of an expression are also shown; each source once
        for item in every_indexable(leaf):
            for by, section in totals.leaf_answers.get(item, {}).items():
                if by not in answers or section.kept < answers[by].kept:
                    answers[by] = section
        index_answers = [_index_answer(by, section, types) for by, section in answers.items()]
        is_blind = leaf in totals.uncounted_leaves
        reason = None
        if leaf in totals.unanswered_leaves:
            reason = reasons.get(leaf.column) or next((r for r in others if r not in _NO_INDEX), None)
        if not index_answers and not is_blind and leaf not in totals.leaf_rows:
            continue
        indexes = [item for item in index_answers if item.index is not None]
        last = next(reversed(indexes or index_answers), None)
        explanations[leaf] = LeafExplanation(
            last.index if last else None,
            last.index_type if last else None,
            exact=not (
                is_blind or isinstance(leaf, Residual) or leaf.is_superset or leaf in totals.inexact_leaves
            ),
            rows=None if is_blind else totals.leaf_rows.get(leaf),
            reason=reason,
            sources=tuple(index_answers),
        )
    return explain_filter(plan.filter, explanations)


def _index_answer(by: str | StatisticsSource, section: _LeafTotals, types: Mapping[str, str]) -> IndexAnswer:
    if isinstance(by, StatisticsSource):
        is_grouped = by in (StatisticsSource.STATISTICS, StatisticsSource.BLOOM_FILTER)
        groups = RowCount(section.kept, section.groups) if is_grouped else None
        return IndexAnswer(None, by.value, section.rows, groups)
    return IndexAnswer(by, types.get(by), section.rows)


def _path(plan: ScanPlan, totals: _Totals) -> ReadPath:
    if not totals.rows:
        return ReadPath.NOTHING
    if not totals.read_stripes:
        if totals.by_keys:
            return ReadPath.INDEX_AND_KEYS
        return ReadPath.INDEX_ROWS if totals.included else ReadPath.INDEX_ONLY
    removed = totals.deleted + totals.invisible
    is_alone = totals.read_stripes == totals.stripes and not totals.uses_index and not plan.skipped
    if totals.rows + removed == totals.all_rows and is_alone:
        return ReadPath.FULL_SCAN
    return ReadPath.SELECTED_ROWS


def _add_counts(count: int, more: int | None) -> int | None:
    return None if more is None else count + more


def explain_analyze(
    meter: MetricsCollector,
    run: Callable[[], tuple[ScanPlan, int]],
    explain: Callable[[ScanPlan], Explanation],
) -> Explanation:
    """Run a query and explain it.

    Args:
        meter: collects the metrics of the run.
        run: runs the query; returns the plan and the number of rows.
    """
    before = shared_cache().counts
    started = time.perf_counter()
    plan, rows = run()
    seconds = time.perf_counter() - started
    index = shared_cache().counts.since(before)
    totals = meter.totals()
    explanation = explain(_as_run(plan, meter.notes()))
    analyzed = Analyzed(
        rows=rows,
        seconds=seconds,
        steps=tuple((step.value, meter.seconds.get(step, 0.0)) for step in Step),
        ranges=totals["ranges"],
        bytes_fetched=totals["bytes_fetched"],
        chunks=totals["chunks"],
        bytes_decompressed=totals["bytes_decompressed"],
        row_groups=totals["row_groups"],
        whole_columns=totals["whole_columns"],
        index_pages=index.pages_read,
        index_bytes=index.bytes_read,
        cache_hits=index.hits,
        cache_misses=index.misses,
    )
    return replace(explanation, analyzed=analyzed)


def _as_run(plan: ScanPlan, notes: Sequence[Note]) -> ScanPlan:
    """Return the plan without the indexes that turned out to be unusable while it ran, and with their notes.

    An explanation does not read the pages of answers, and would not notice that they are corrupt.
    """
    failed = {note.subject: note for note in notes}
    used: list[Note] = []
    tasks = []
    for task in plan.tasks:
        uses: tuple[IndexUse | IncludedUse, ...] = (*task.indexes, *task.included)
        unusable = [use for use in uses if f"{use.name} on {task.path}" in failed]
        used += [failed[f"{use.name} on {task.path}"] for use in unusable]
        tasks.append(
            replace(
                task,
                indexes=tuple(use for use in task.indexes if use not in unusable),
                included=tuple(use for use in task.included if use not in unusable),
            )
            if unusable
            else task
        )
    return replace(plan, tasks=tuple(tasks), notes=(*plan.notes, *used)) if used else plan
