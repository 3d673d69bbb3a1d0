"""EXPLAIN ANALYZE: a query is run, and what it took becomes a part of its explanation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from hindex.index.cache import shared_cache
from hindex.plan.explain import Analyzed, Explanation
from hindex.scan.meter import Meter, Step
from hindex.scan.planning import ScanPlan


def measured(
    meter: Meter, run: Callable[[], tuple[ScanPlan, int]], explain: Callable[[ScanPlan], Explanation]
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
    found = explain(plan)
    analyzed = Analyzed(
        rows=rows,
        seconds=seconds,
        steps=tuple((step.value, meter.seconds.get(step, 0.0)) for step in Step),
        ranges=totals["ranges"],
        bytes_fetched=totals["bytes_fetched"],
        chunks=totals["chunks"],
        bytes_decompressed=totals["bytes_decompressed"],
        row_groups=totals["row_groups"],
        index_pages=index.pages_read,
        index_bytes=index.bytes_read,
        cache_hits=index.hits,
        cache_misses=index.misses,
    )
    return replace(found, analyzed=analyzed)
