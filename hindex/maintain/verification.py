"""Proofs: a query is answered by its indexes and by reading everything, and the two are compared.

Besides, every index of the predicate's columns is asked alone, of each leaf that it answers: what is known without
it may have kept it from being asked, and the next query may ask it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from hindex.formatting import plural
from hindex.index.index_type import Bounds
from hindex.maintain.index_verification import is_same, wrong_indexes
from hindex.plan.filter import Leaf, leaves
from hindex.plan.filter_evaluation import mask
from hindex.plan.reasons import Note, Reason, group_notes
from hindex.scan.open_task import OpenTask
from hindex.scan.orc_statistics import StatisticsSource
from hindex.scan.planning import ScanPlan, plan_every, plan_full
from hindex.scan.scan_task import OutputColumn, ScanTask, StripeResult

#: Rows that a message names.
_NAMED_ROWS = 5

_WITHOUT_INDEX = frozenset({Reason.NO_INDEX, Reason.UNSUPPORTED_TYPE, Reason.UNSUPPORTED_PREDICATE})


class ProveWarning(UserWarning):
    """An index said something else than the data."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between an index's answer and the data, in one stripe of a data file.

    :param indexes: those that are wrong; empty where it is none of them but what the file says of itself, or a decoder.
    :param missing: rows of the stripe, counted from 0, that were not found.
    :param surplus: rows that were found and do not match.
    """

    path: str
    stripe: int
    indexes: tuple[str, ...] = ()
    missing: tuple[int, ...] = ()
    surplus: tuple[int, ...] = ()
    what: str = "rows"

    def __str__(self) -> str:
        by = ", ".join(map(repr, self.indexes)) or "no index: the file's own statistics, or a decoder"
        parts = [f"{self.path}, stripe {self.stripe}: {self.what} differ by {by}"]
        for name, rows in (("missing", self.missing), ("too many", self.surplus)):
            if rows:
                some = ", ".join(map(str, rows[:_NAMED_ROWS])) + (", …" if len(rows) > _NAMED_ROWS else "")
                parts.append(f"{len(rows):,} {plural(len(rows), 'row')} {name} ({some})")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class ProveReport:
    """The result of a proof, which compared ``rows`` rows in ``files`` files.

    ``notes`` tell of indexes that could not be used, of which nothing is proved.
    """

    table: str
    files: int
    rows: int
    disagreements: tuple[Disagreement, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes that are wrong."""
        return tuple(dict.fromkeys(name for item in self.disagreements for name in item.indexes))

    def __str__(self) -> str:
        unproved = "".join(f"; not used: {group}" for group in group_notes(self.notes))
        if not self.disagreements:
            compared = f"{self.rows:,} rows of {self.files:,} files"
            return f"indexes of {self.table} agree with the data: {compared}{unproved}"
        told = "; ".join(map(str, self.disagreements[:3]))
        more = len(self.disagreements) - 3
        told += f"; {more:,} more" if more > 0 else ""
        return f"indexes of {self.table} disagree with the data: {told}{unproved}"


def prove_scan(plan: ScanPlan) -> tuple[ProveReport, ScanPlan]:
    """Compare the indexes' answers to a query with the data.

    Returns the report, and the plan that reads all data, which is right in any case.

    A disagreement is a :class:`ProveWarning`, too.
    """
    full = plan_full(plan)
    # columns may have been left out of the tasks: what is compared is what runs
    asked = {task.path: task for task in plan_every(plan).tasks} | {task.path: task for task in plan.tasks}
    ruled_out = {item.path for item in plan.skipped}
    found: list[Disagreement] = []
    notes = list(plan.notes)
    rows = 0
    for task in full.tasks:
        indexed = asked[task.path]
        for item, count in _compared(plan, indexed, task, notes, is_ruled_out=task.path in ruled_out):
            rows += count
            found += [] if item is None else [item]
    unproved = tuple(dict.fromkeys(note for note in notes if _is_of_index(note)))
    report = ProveReport(plan.snapshot.name, len(full.tasks), rows, tuple(found), unproved)
    if found:
        warnings.warn(str(report), ProveWarning, stacklevel=4)
    return report, full


def _is_of_index(note: Note) -> bool:
    """Return True if a note is about an existing index that was not used."""
    return note.reason.is_fallback and note.reason not in _WITHOUT_INDEX


def _compared(
    plan: ScanPlan, indexed: ScanTask, task: ScanTask, notes: list[Note], *, is_ruled_out: bool
) -> Iterator[tuple[Disagreement | None, int]]:
    """The disagreement of each stripe of one file, if any, and how many rows match there.

    :param notes: is told of the indexes that could not be used.
    :param is_ruled_out: whether the driver knows that the file has no wanted row.
    """
    with OpenTask(task) as full, OpenTask(indexed) as opened:
        for stripe in full.stripes:
            truth = full.resolve_undecided(full.answer(stripe))
            rows = truth.bounds.lower
            found = BitMap() if is_ruled_out else opened.resolve_undecided(opened.answer(stripe)).bounds.lower
            wrong = _wrong_alone(plan, opened, full, truth)
            where = task.path, stripe, tuple(wrong)
            if found != rows:
                yield Disagreement(*where, tuple(rows - found), tuple(found - rows)), len(rows)
            elif wrong:
                leaf, missing, surplus = next(iter(wrong.values()))
                yield Disagreement(*where, tuple(missing), tuple(surplus), f"rows of {leaf}"), len(rows)
            else:
                yield None if is_ruled_out else _wrong_values(plan, opened, full, truth), len(rows)
        notes += opened.notes


def _wrong_alone(
    plan: ScanPlan, opened: OpenTask, full: OpenTask, truth: StripeResult
) -> dict[str, tuple[Leaf, BitMap, BitMap]]:
    """The indexes that are wrong of a leaf by themselves, with the rows of it that they miss or have too many."""
    wrong: dict[str, tuple[Leaf, BitMap, BitMap]] = {}
    for leaf in dict.fromkeys(leaves(full.task.filter)):
        told = list(opened.lookup_each(truth.stripe, leaf))
        if opened.is_fresh:
            told += _told_by_driver(plan, full, leaf, truth.stripe, truth.num_rows)
        if not told:
            continue
        true = _matching(full, truth, leaf)
        for name, bounds in told:
            lower = BitMap() if leaf.is_superset else bounds.lower
            missing, surplus = true - bounds.upper, lower - true
            if missing or surplus:
                wrong.setdefault(name, (leaf, missing, surplus))
    return wrong


def _matching(full: OpenTask, truth: StripeResult, leaf: Leaf) -> BitMap:
    """The rows of a stripe that a leaf keeps, by its column's values."""
    everything = StripeResult(truth.stripe, truth.num_rows, Bounds.all(truth.num_rows))
    array = full.read(everything, columns=[OutputColumn(leaf.column, leaf.type)]).column(0)
    return BitMap(np.flatnonzero(mask(leaf, {leaf.column: array}, truth.num_rows)).astype(np.uint32))


def _told_by_driver(
    plan: ScanPlan, full: OpenTask, leaf: Leaf, stripe: int, rows: int
) -> Iterator[tuple[str, Bounds]]:
    """Yield the answers that each index alone gives on the driver for a file."""
    view = next(view for view in plan.snapshot.files if view.file.path == full.task.path)
    if view.entry is None:
        return
    for source in plan.sources:
        for found in source.lookup(view, leaf):
            if isinstance(found.by, StatisticsSource):
                # no index: the rows that the file's task leaves tell, where the place is asked again
                continue
            lower, upper = (
                BitMap(range(rows)) if stripe in part else BitMap()
                for part in (found.bounds.lower, found.bounds.upper)
            )
            yield found.by, Bounds(lower, upper)


def _wrong_values(
    plan: ScanPlan, opened: OpenTask, full: OpenTask, truth: StripeResult
) -> Disagreement | None:
    """Return the first difference between the values of rows, or their known values, and the data; None if there is
    none.
    """
    where = full.task.path, truth.stripe
    got, want = opened.read(truth), full.read(truth)
    if got.num_columns and not is_same(got, want):
        return Disagreement(*where, what="values")
    for column in full.task.lookups:
        if column.is_partition:
            continue
        wrong = wrong_indexes(plan, opened, truth, column, full.read(truth, columns=[column]).column(0))
        if wrong is not None:
            return Disagreement(*where, wrong, what=f"values of {column.name}")
    return None
