"""Filling in an explanation: ask the indexes as a scan would, and read no rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hindex.index.cache import shared_cache
from hindex.orc import DecodePath, RowSelection
from hindex.plan.explain import (
    AskedIndex,
    ExplainedNode,
    Explanation,
    Kept,
    LeafAnswer,
    ReadPath,
    explain_filter,
)
from hindex.plan.filter import Always, Leaf, leaves
from hindex.plan.reasons import Note, Reason
from hindex.scan.execute import LeafAnswer as Answered
from hindex.scan.execute import OpenTask, StripeAnswer
from hindex.scan.orc_answers import Source
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
    # what was said of each leaf by each index, and by what the files say of themselves, in the order of asking
    leaf_asked: dict[Leaf, dict[str | Source, _Said]] = field(default_factory=dict)
    uses_index: bool = False
    inexact_leaves: set[Leaf] = field(default_factory=set)
    unanswered_leaves: set[Leaf] = field(default_factory=set)
    blind_leaves: set[Leaf] = field(default_factory=set)


@dataclass(slots=True)
class _Said:
    """Rows left, and row groups left of so many."""

    rows: int = 0
    kept: int = 0
    groups: int = 0


def explain_plan(plan: ScanPlan, where: Predicate | None) -> Explanation:
    """What a scan decides and why: indexes are asked stripe by stripe, data is not read."""
    totals = _Totals()
    before = shared_cache().counts
    last: OpenTask | None = None
    for skipped in plan.skipped:
        _add_answers(totals, skipped.answers)

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
        row_groups=Kept(totals.groups, _sum(totals.all_groups, pruned.row_groups)),
        rows=Kept(totals.rows, _sum(totals.all_rows, pruned.rows)),
        columns=tuple(column.name for column in plan.columns),
        exact=not totals.undecided and not everything,
        notes=(*plan.notes, *totals.notes),
        cache=shared_cache().counts.since(before),
    )


@dataclass(frozen=True, slots=True)
class _Pruned:
    """What the files that are not looked at hold; None where no manifest tells."""

    stripes: int | None
    row_groups: int | None
    rows: int | None

    @classmethod
    def of(cls, plan: ScanPlan) -> _Pruned:
        planned = {task.path for task in plan.tasks}
        gone = [view for view in plan.snapshot.files if view.file.path not in planned]
        entries = [view.entry for view in gone if view.entry is not None and view.is_listed_fresh]
        if len(entries) < len(gone):
            return cls(None, None, None)
        # older builds did not record row groups
        known = all(entry.num_row_groups or not entry.num_rows for entry in entries)
        return cls(
            sum(len(entry.stripe_rows) for entry in entries),
            sum(entry.num_row_groups for entry in entries) if known else None,
            sum(entry.num_rows for entry in entries),
        )


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
    _add_answers(totals, answer.answers)
    totals.unanswered_leaves.update(answer.unanswered)
    told = {item.leaf for item in answer.answers}
    totals.blind_leaves.update(leaf for leaf in answer.unanswered if leaf not in told)


def _add_answers(totals: _Totals, answers: Sequence[Answered]) -> None:
    last = {item.leaf: item for item in answers}
    for leaf, item in last.items():
        totals.leaf_rows[leaf] = totals.leaf_rows.get(leaf, 0) + item.rows
        if not item.exact:
            totals.inexact_leaves.add(leaf)
    for item in answers:
        by = item.source or item.index
        if by is not None:
            said = totals.leaf_asked.setdefault(item.leaf, {}).setdefault(by, _Said())
            said.rows += item.rows
            said.kept += item.groups_kept
            said.groups += item.groups
            totals.uses_index |= item.index is not None


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
        asked = [_asked(by, said, types) for by, said in totals.leaf_asked.get(leaf, {}).items()]
        blind = leaf in totals.blind_leaves
        reason = None
        if leaf in totals.unanswered_leaves:
            reason = reasons.get(leaf.column) or next((r for r in others if r is not Reason.NO_INDEX), None)
        if not asked and not blind and leaf not in totals.leaf_rows:
            continue
        indexes = [item for item in asked if item.index is not None]
        last = next(reversed(indexes or asked), None)
        answers[leaf] = LeafAnswer(
            last.index if last else None,
            last.index_type if last else None,
            exact=not blind and leaf not in totals.inexact_leaves,
            rows=None if blind else totals.leaf_rows.get(leaf),
            reason=reason,
            asked=tuple(asked),
        )
    return explain_filter(plan.filter, answers)


def _asked(by: str | Source, said: _Said, types: Mapping[str, str]) -> AskedIndex:
    if isinstance(by, Source):
        return AskedIndex(None, by.value, said.rows, Kept(said.kept, said.groups))
    return AskedIndex(by, types.get(by), said.rows)


def _path(plan: ScanPlan, totals: _Totals) -> ReadPath:
    if not totals.rows:
        return ReadPath.NOTHING
    if not totals.undecided and not plan.columns:
        return ReadPath.INDEX_ONLY
    if totals.rows == totals.all_rows and not totals.uses_index:
        return ReadPath.FULL_SCAN
    if totals.paths == {DecodePath.SPARSE}:
        return ReadPath.SPARSE
    return ReadPath.MIXED if DecodePath.SPARSE in totals.paths else ReadPath.DENSE


def _sum(known: int, more: int | None) -> int | None:
    return None if more is None else known + more
