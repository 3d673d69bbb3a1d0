"""Estimate the number of rows that a table's indexes leave, to decide if a query reads it through them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from hindex.explain.explanation import RowCount
from hindex.lru_cache import LruCache
from hindex.plan.reasons import Note
from hindex.scan.open_task import OpenTask
from hindex.scan.planning import ScanPlan
from hindex.scan.task import ScanTask
from hindex.scan.task_runner import Unit
from hindex.spark.scan import RowScan
from hindex.table.listing import DataFile

#: Data files whose indexes are asked.
_SAMPLED_FILES = 16
#: Surveys that are remembered, those used longest ago dropped first.
_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class SelectivityEstimate:
    """About how many rows the indexes leave. ``units`` are all stripes that have some, where all were asked.

    ``fallbacks`` tell of indexes that could not be asked, so that more rows are left.
    """

    rows: RowCount
    units: list[Unit] | None
    fallbacks: tuple[Note, ...] = ()


def estimate_selectivity(scan: RowScan, plan: ScanPlan, most: float) -> SelectivityEstimate:
    """Ask the indexes: of few data files all, of many some. They are asked no further once too many rows are left.

    That too many were left is remembered, for the same question to the same files: such a table is read by Spark, so
    nothing depends on it but who reads. What a table is read by is always asked anew, and so are indexes of which one
    could not be asked: the next time it may be there again.

    :param most: the greatest share of the rows that is not too many.
    """
    views = {view.file.path: view for view in plan.snapshot.files}
    total = sum(view.num_rows for view in plan.snapshot.files)
    possible = sum(views[task.path].num_rows for task in plan.tasks)
    step = max(len(plan.tasks) / _SAMPLED_FILES, 1.0)
    sample = [plan.tasks[int(at * step)] for at in range(min(len(plan.tasks), _SAMPLED_FILES))]
    key = _digest(
        (scan.mode, most, total, possible, step), [(task, views[task.path].file) for task in sample]
    )
    known = TOO_MANY.get(key)
    if known is not None:
        return SelectivityEstimate(known, None)
    kept = seen = 0
    units: list[Unit] = []
    asked: dict[int, OpenTask] = {}
    for task, answer in scan.runner.run_lookups(sample, every=True):
        asked[id(task)] = task
        kept += len(answer.bounds.upper)
        seen += answer.num_rows
        if kept > most * total / step:
            break
        if len(answer.bounds.upper):
            units.append((task, answer))
    else:
        if step == 1.0:
            return SelectivityEstimate(RowCount(kept, total), units)
    found = RowCount(round(kept * possible / seen) if seen else 0, total)
    fallbacks = tuple(note for task in asked.values() for note in task.notes if note.reason.is_fallback)
    if found.share is not None and found.share > most and not fallbacks:
        TOO_MANY.put(key, found)
    return SelectivityEstimate(found, None, fallbacks)


def _digest(question: tuple[object, ...], sample: Sequence[tuple[ScanTask, DataFile]]) -> bytes:
    """16 bytes that stand for a question, what is asked of which index files, and the data files as they were listed.

    However long lists in a condition are, no more than that is remembered of them. Other columns that are read make no
    other question: of these, indexes depend only on whether the columns of the condition are among them.
    """
    # files share filters, whose lists may be long; each is in the sample for as long as this runs
    known: dict[int, str] = {}

    def told(shared: object) -> str:
        if id(shared) not in known:
            known[id(shared)] = _short(repr(shared)).hex()
        return known[id(shared)]

    asked = []
    for task, file in sample:
        names = {column.name for column in task.columns}
        is_read = (bool(names), [column.name in names for column in task.filter_columns])
        located = [
            (item.name, item.column, told(item.domain), item.row_group_rows, _short(item.groups))
            for item in task.located
        ]
        state = (file.uri, file.length, file.mtime_ns, file.changed_ns, task.length, task.tail_checksum)
        asked.append((told(task.filter), task.filter_columns, is_read, task.indexes, located, state))
    return _short(repr((question, asked)))


def _short(value: str | bytes) -> bytes:
    return blake2b(value.encode() if isinstance(value, str) else value, digest_size=16).digest()


#: Of this process: scans whose indexes left too many rows.
TOO_MANY: LruCache[bytes, RowCount] = LruCache(_REMEMBERED)
