"""Proofs: a query is answered by its indexes and by reading everything, and the two are compared.

Where they differ, every index that was asked is asked alone, of each leaf that it answers, to find which is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from hindex.index.base import Bounds
from hindex.plan.evaluate import mask
from hindex.plan.filter import Leaf, leaves
from hindex.plan.reasons import plural
from hindex.scan.execute import OpenTask, StripeAnswer
from hindex.scan.planning import ScanPlan, plan_full
from hindex.scan.proving_values import is_same, wrong_indexes
from hindex.scan.task import OutputColumn, ScanTask

#: Rows that a message names.
_NAMED_ROWS = 5


class ProveWarning(UserWarning):
    """An index said something else than the data."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where an answer by indexes differs from the data, in one stripe of a data file.

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
    """What a proof found. ``rows`` were compared, in so many ``files``."""

    table: str
    files: int
    rows: int
    disagreements: tuple[Disagreement, ...] = ()

    @property
    def indexes(self) -> tuple[str, ...]:
        """The names of the indexes that are wrong."""
        return tuple(dict.fromkeys(name for item in self.disagreements for name in item.indexes))

    def __str__(self) -> str:
        if not self.disagreements:
            return f"indexes of {self.table} agree with the data: {self.rows:,} rows of {self.files:,} files"
        told = "; ".join(map(str, self.disagreements[:3]))
        more = len(self.disagreements) - 3
        return f"indexes of {self.table} disagree with the data: {told}" + (
            f"; {more:,} more" if more > 0 else ""
        )


def prove_scan(plan: ScanPlan) -> tuple[ProveReport, ScanPlan]:
    """What indexes and data say of a query, compared; and the plan that reads everything, which is right.

    A disagreement is a :class:`ProveWarning`, too.
    """
    full = plan_full(plan)
    by_index = {task.path: task for task in plan.tasks}
    found: list[Disagreement] = []
    rows = 0
    for task in full.tasks:
        for item, count in _compared(plan, by_index.get(task.path), task):
            rows += count
            found += [] if item is None else [item]
    report = ProveReport(plan.snapshot.name, len(full.tasks), rows, tuple(found))
    if found:
        warnings.warn(str(report), ProveWarning, stacklevel=4)
    return report, full


def _compared(
    plan: ScanPlan, indexed: ScanTask | None, task: ScanTask
) -> Iterator[tuple[Disagreement | None, int]]:
    """The disagreement of each stripe of one file, if any, and how many rows match there."""
    with OpenTask(task) as full:
        opened = None if indexed is None else OpenTask(indexed)
        try:
            for stripe in full.stripes:
                truth = full.settled(full.answer(stripe))
                rows = truth.bounds.lower
                answer = _nothing(truth) if opened is None else opened.settled(opened.answer(stripe))
                if answer.bounds.lower != rows:
                    yield _differing(plan, opened, full, truth, answer.bounds.lower), len(rows)
                    continue
                wrong = None if opened is None else _wrong_values(plan, opened, full, truth)
                yield wrong, len(rows)
        finally:
            if opened is not None:
                opened.close()


def _nothing(answer: StripeAnswer) -> StripeAnswer:
    return StripeAnswer(answer.stripe, answer.num_rows, Bounds.none())


def _differing(
    plan: ScanPlan, opened: OpenTask | None, full: OpenTask, truth: StripeAnswer, found: BitMap
) -> Disagreement:
    wrong: dict[str, None] = {}
    for leaf in dict.fromkeys(leaves(full.task.filter)):
        true = _matching(full, truth, leaf)
        told = _asked_alone(plan, full, leaf, truth.stripe, truth.num_rows)
        if opened is not None:
            told = opened.alone(truth.stripe, leaf)
        for name, bounds in told:
            if bounds.lower - true or true - bounds.upper:
                wrong[name] = None
    rows = truth.bounds.lower
    return Disagreement(full.task.path, truth.stripe, tuple(wrong), tuple(rows - found), tuple(found - rows))


def _matching(full: OpenTask, truth: StripeAnswer, leaf: Leaf) -> BitMap:
    """The rows of a stripe that a leaf keeps, by its column's values."""
    everything = StripeAnswer(truth.stripe, truth.num_rows, Bounds.all(truth.num_rows))
    array = full.read(everything, [OutputColumn(leaf.column, leaf.type)]).column(0)
    return BitMap(np.flatnonzero(mask(leaf, {leaf.column: array}, truth.num_rows)).astype(np.uint32))


def _asked_alone(
    plan: ScanPlan, full: OpenTask, leaf: Leaf, stripe: int, rows: int
) -> Iterator[tuple[str, Bounds]]:
    """What the driver knew of a file that it ruled out, by each index alone."""
    view = next(view for view in plan.snapshot.files if view.file.path == full.task.path)
    if view.entry is None:
        return
    for source in plan.sources:
        for found in source.lookup(view, leaf):
            lower, upper = (
                BitMap(range(rows)) if stripe in part else BitMap()
                for part in (found.bounds.lower, found.bounds.upper)
            )
            yield found.index, Bounds(lower, upper)


def _wrong_values(
    plan: ScanPlan, opened: OpenTask, full: OpenTask, truth: StripeAnswer
) -> Disagreement | None:
    """Whether the values of rows, or what is known of the asked columns without them, are others than those read."""
    where = full.task.path, truth.stripe
    got, want = opened.read(truth), full.read(truth)
    if got.num_columns and not is_same(got, want):
        return Disagreement(*where, what="values")
    for column in full.task.lookups:
        if column.is_partition:
            continue
        wrong = wrong_indexes(plan, opened, truth, column, full.read(truth, [column]).column(0))
        if wrong is not None:
            return Disagreement(*where, wrong, what=f"values of {column.name}")
    return None
