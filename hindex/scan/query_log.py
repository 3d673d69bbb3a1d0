"""The log line of a query: the files and stripes that were read, the indexes used, and why others were not."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Callable
from contextlib import suppress

from hindex.errors import ColumnError, warn
from hindex.formatting import counted
from hindex.plan.filter import columns, residuals
from hindex.plan.index_columns import index_column
from hindex.plan.reasons import Note, Reason, group_notes
from hindex.scan.metrics import QueryMetrics
from hindex.scan.planning import ScanPlan
from hindex.value_class import value_class

_LOG = logging.getLogger("hindex.scan")

#: The most characters of a query that are shown.
_MAX_QUERY = 300


def log_query(
    query: Callable[[], str], plan: ScanPlan, meter: QueryMetrics, result: str, *, by_executors: bool = False
) -> None:
    """Log a finished query of one table in one line: as a warning if an index could not be used.

    Notes on results that may surprise are also issued as Python warnings.

    Args:
        query: returns the text of the query.
        plan: the plan that was run.
        meter: the metrics that were collected while it ran.
        result: a description of the result, such as ``37 rows``.
        by_executors: True if Spark's executors read the rows, so that their metrics are not available here.
    """
    for group in group_notes(note for note in plan.notes if note.reason.is_surprise):
        warn(group.message)
    if not _LOG.isEnabledFor(logging.WARNING):
        return
    notes = (*plan.notes, *meter.notes())
    level = logging.WARNING if any(_is_problem(note, plan) for note in notes) else logging.INFO
    if _LOG.isEnabledFor(level):
        _LOG.log(level, "%s", QueryLogEntry(query, plan, meter, result, by_executors, notes))


@value_class
class QueryLogEntry:
    """The text of a log line. It is formatted when a handler needs it."""

    query: Callable[[], str]
    plan: ScanPlan
    meter: QueryMetrics
    result: str
    by_executors: bool
    notes: tuple[Note, ...]

    def __str__(self) -> str:
        query = textwrap.shorten(self.query(), _MAX_QUERY, placeholder=" ...")
        line = f"{query}: {self._reads()}, {self.result}{index_names(self.plan, self.meter)}"
        if self.plan.reads_all:
            line += "; everything is read to prove the indexes"
        return "; ".join((line, *map(str, group_notes(self.notes))))

    def _reads(self) -> str:
        views = self.plan.snapshot.views
        files = counted(len(views), "file")
        if self.plan.snapshot.listing.is_pruned:
            files += " of the partitions"
        if self.by_executors:
            return f"{len(self.plan.tasks):,} of {files} left to Spark's executors"
        stripes = self.meter.stripes
        in_table = counted(int(views.num_stripes.sum()), "stripe")
        return f"{len({path for path, _ in stripes}):,} of {files}, {len(stripes):,} of {in_table} read"


def index_names(plan: ScanPlan, meter: QueryMetrics) -> str:
    """Return the indexes that answered, as the end of a clause; empty if none did."""
    names = dict.fromkeys((*plan.skipped.indexes, *meter.indexes))
    types = {entry.name: entry.type.upper() for entry in plan.snapshot.manifest.indexes}
    listed = ", ".join(f"{name} ({types.get(name, 'dropped')})" for name in names)
    return f" through {listed}" if listed else ""


def _is_problem(note: Note, plan: ScanPlan) -> bool:
    """Return True if an index of the table should have been used and could not be."""
    if note.reason is not Reason.UNSUPPORTED_PREDICATE:
        return note.reason.is_problem
    indexed = set()
    for entry in plan.snapshot.manifest.indexes:
        with suppress(ColumnError):  # the column is gone
            indexed.add(index_column(entry, plan.snapshot.schema).name)
    return any(
        str(part) == note.subject and indexed.intersection(columns(part)) for part in residuals(plan.filter)
    )
