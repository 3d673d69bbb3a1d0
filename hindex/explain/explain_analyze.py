"""EXPLAIN ANALYZE: a query is run, and what it took becomes a part of its explanation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hindex.explain.explanation import Analyzed, Explanation
from hindex.index.page_cache import shared_cache
from hindex.plan.reasons import Note
from hindex.scan.metrics import MetricsCollector, Step
from hindex.scan.planning import ScanPlan


def explain_analyze(
    meter: MetricsCollector,
    run: Callable[[], tuple[ScanPlan, int]],
    explain: Callable[[ScanPlan], Explanation],
) -> Explanation:
    """The explanation of a query that is run now.

    :param meter: what the run is measured with.
    :param run: gives the plan, and how many rows there were.
    """
    before = shared_cache().counts
    started = time.perf_counter()
    plan, rows = run()
    seconds = time.perf_counter() - started
    index = shared_cache().counts.since(before)
    totals = meter.totals()
    found = explain(_as_run(plan, meter.notes()))
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
    return replace(found, analyzed=analyzed)


def _as_run(plan: ScanPlan, notes: Sequence[Note]) -> ScanPlan:
    """The plan without the indexes that turned out not to be usable while it ran, and with the notes of these.

    An explanation reads no pages that answers are taken from, and would find them well.
    """
    failed = {note.subject: note for note in notes}
    used: list[Note] = []
    tasks = []
    for task in plan.tasks:
        gone = [use for use in task.indexes if f"{use.name} on {task.path}" in failed]
        used += [failed[f"{use.name} on {task.path}"] for use in gone]
        tasks.append(
            replace(task, indexes=tuple(use for use in task.indexes if use not in gone)) if gone else task
        )
    return replace(plan, tasks=tuple(tasks), notes=(*plan.notes, *used)) if used else plan
