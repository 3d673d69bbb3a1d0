"""Filling in an explanation: ask the indexes as a scan would, and read no rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from hindex.orc import DecodePath, RowSelection
from hindex.plan.explain import ExplainedNode, Explanation, Kept, LeafAnswer, ReadPath, explain_filter
from hindex.plan.filter import Always, Leaf, leaves
from hindex.plan.reasons import Note, Reason
from hindex.scan.execute import OpenTask, StripeAnswer
from hindex.scan.planning import ScanPlan
from hindex.scan.running import answered
from hindex.sql.predicate import Predicate


@dataclass(slots=True)
class _Totals:
    """Sums over the stripes that were looked at."""

    files: set[str] = field(default_factory=set)
    stripes: int = 0
    all_stripes: int = 0
    groups: int = 0
    all_groups: int = 0
    rows: int = 0
    all_rows: int = 0
    undecided: int = 0
    paths: set[DecodePath] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)
    leaf_rows: dict[Leaf, int] = field(default_factory=dict)
    leaf_index: dict[Leaf, str] = field(default_factory=dict)
    undecided_leaves: set[Leaf] = field(default_factory=set)


def explain_plan(plan: ScanPlan, where: Predicate | None) -> Explanation:
    """What a scan decides and why: indexes are asked stripe by stripe, data is not read."""
    totals = _Totals()
    last: OpenTask | None = None

    for task, answer in answered(plan.tasks, every=True):
        if last is not None and task is not last:
            totals.notes += last.notes
        last = task  # one at a time: a table may have more files than a process may hold open
        paths: tuple[DecodePath, ...] = ()
        if len(answer.bounds.upper):
            selection = RowSelection.of(answer.bounds.upper, answer.num_rows)
            paths = task.decode_paths(answer.stripe, selection)
        _add(totals, task, answer, paths)
    if last is not None:
        totals.notes += last.notes
    pruned = _Pruned.of(plan)
    everything = isinstance(plan.filter, Always)
    return Explanation(
        table=plan.snapshot.name,
        predicate="" if where is None else str(where),
        tree=_tree(plan, totals),
        path=_path(plan, totals),
        files=Kept(len(totals.files), len(plan.snapshot.files)),
        stripes=Kept(totals.stripes, _sum(totals.all_stripes, pruned.stripes)),
        row_groups=Kept(totals.groups, None if pruned.files else totals.all_groups),
        rows=Kept(totals.rows, _sum(totals.all_rows, pruned.rows)),
        columns=tuple(column.name for column in plan.columns),
        exact=not totals.undecided and not everything,
        notes=(*plan.notes, *totals.notes),
    )


@dataclass(frozen=True, slots=True)
class _Pruned:
    """What the files that partition values ruled out hold; None where no manifest tells."""

    files: int
    stripes: int | None
    rows: int | None

    @classmethod
    def of(cls, plan: ScanPlan) -> _Pruned:
        planned = {task.path for task in plan.tasks}
        gone = [view for view in plan.snapshot.files if view.file.path not in planned]
        entries = [view.entry for view in gone if view.entry is not None and view.is_listed_fresh]
        if len(entries) < len(gone):
            return cls(len(gone), None, None)
        return cls(len(gone), sum(len(e.stripe_rows) for e in entries), sum(e.num_rows for e in entries))


def _add(totals: _Totals, task: OpenTask, answer: StripeAnswer, paths: Iterable[DecodePath]) -> None:
    upper = answer.bounds.upper
    groups = task.row_groups(answer.num_rows)
    totals.all_stripes += 1
    totals.all_rows += answer.num_rows
    totals.all_groups += groups
    if len(upper):
        totals.files.add(task.task.path)
        totals.stripes += 1
        totals.rows += len(upper)
        totals.undecided += answer.undecided
        whole = len(upper) == answer.num_rows
        stride = task.reader.tail.row_index_stride
        totals.groups += (
            groups if whole or not stride else len(np.unique(np.asarray(upper.to_array()) // stride))
        )
        totals.paths.update(paths)
    for item in answer.answers:
        totals.leaf_rows[item.leaf] = totals.leaf_rows.get(item.leaf, 0) + item.rows
        if item.index is not None:
            totals.leaf_index[item.leaf] = item.index
    totals.undecided_leaves.update(answer.unanswered)


def _tree(plan: ScanPlan, totals: _Totals) -> ExplainedNode:
    reasons: dict[str, Reason] = {
        note.subject: note.reason for note in plan.notes if note.reason is Reason.NO_INDEX
    }
    others = [note.reason for note in (*plan.notes, *totals.notes) if note.reason is not Reason.FILE_GONE]
    types = {entry.name: entry.type for entry in plan.snapshot.manifest.indexes}
    answers = {}
    for leaf in leaves(plan.filter):
        if plan.snapshot.schema.is_partition(leaf.column):
            answers[leaf] = LeafAnswer(None, "PARTITION", exact=True)
            continue
        index = totals.leaf_index.get(leaf)
        undecided = leaf in totals.undecided_leaves
        reason = None
        if undecided:
            reason = reasons.get(leaf.column) or next((r for r in others if r is not Reason.NO_INDEX), None)
        if index is None and not undecided and leaf not in totals.leaf_rows:
            continue
        answers[leaf] = LeafAnswer(
            index,
            types.get(index) if index else None,
            exact=not undecided,
            rows=None if undecided else totals.leaf_rows.get(leaf),
            reason=reason,
        )
    return explain_filter(plan.filter, answers)


def _path(plan: ScanPlan, totals: _Totals) -> ReadPath:
    if not totals.rows:
        return ReadPath.NOTHING
    if not totals.undecided and not plan.columns:
        return ReadPath.INDEX_ONLY
    if totals.rows == totals.all_rows and not totals.leaf_index:
        return ReadPath.FULL_SCAN
    if totals.paths == {DecodePath.SPARSE}:
        return ReadPath.SPARSE
    return ReadPath.MIXED if DecodePath.SPARSE in totals.paths else ReadPath.DENSE


def _sum(known: int, more: int | None) -> int | None:
    return None if more is None else known + more
