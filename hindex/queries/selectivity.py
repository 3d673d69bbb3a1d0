"""How many rows of a table match a condition, by its indexes, and whether reading it through them pays."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from hindex.explanations.explanation import RowCount
from hindex.lru_cache import LruCache
from hindex.plan.reasons import Note
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task import ScanTask
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Unit
from hindex.spark.scan import RowScan
from hindex.table.listing import DataFile
from hindex.value_class import value_class

#: Maximum share of a table's rows for reading it through its indexes. On twelve million rows of lineitem, with three
#: columns and scattered rows, the processor time was 0.55 of Spark's at 0.5 % of the rows, 0.8 of it at 1 %, and equal
#: at 2 %; the time by the clock was 0.5, 0.65 and 0.75 of it. Passing one row to Spark takes as long as Spark takes to
#: decode fifty.
MAX_SHARE = 0.01
#: The same for lookup joins, as a multiple: Spark has to join all rows that it reads. The processor time was 0.55 of
#: Spark's at 0.5 % of the rows, 0.9 of it at 1 % and 2 %, and equal at 3 %.
LOOKUP_FACTOR = 2
#: Maximum share of a table's rows that are compared with keys here, to see how many match.
MAX_CANDIDATE_SHARE = 0.05
#: Maximum number of matching values (rows times columns) of such a table: the driver passes them to Spark.
MAX_CANDIDATE_VALUES = 1_000_000
#: Minimum number of values (rows times needed columns) for using indexes at all: planning takes about as long as Spark
#: takes to decode so many.
MIN_VALUES = 5_000_000
#: Maximum number of data files whose indexes are sampled.
_SAMPLED_FILES = 16


@value_class
class SelectivityEstimate:
    """An estimate of the number of matching rows.

    Args:
        rows: rows that may match.
        units: all stripes with matching rows; None if only a sample of the indexes was read.
        fallbacks: indexes that could not be read, which makes the estimate too high.
    """

    rows: RowCount
    units: list[Unit] | None
    fallbacks: tuple[Note, ...] = ()


def estimate_selectivity(scan: RowScan, plan: ScanPlan, max_share: float) -> SelectivityEstimate:
    """Estimate the number of matching rows from the indexes of all data files, or of a sample of many.

    Reading ends as soon as more than ``max_share`` of the rows may match. That result is cached for the same condition
    on the same files, unless an index could not be read, which may be temporary. Spark then reads the table, so a stale
    entry affects speed only. Other estimates are never cached.
    """
    views = {view.file.path: view for view in plan.snapshot.files}
    total = plan.snapshot.num_rows
    possible = sum(views[task.path].num_rows for task in plan.tasks)
    step = max(len(plan.tasks) / _SAMPLED_FILES, 1.0)
    sample = [plan.tasks[int(at * step)] for at in range(min(len(plan.tasks), _SAMPLED_FILES))]
    key = _digest(
        (scan.mode, max_share, total, possible, step),
        [(task, views[task.path].file) for task in sample],
    )
    too_many = TOO_MANY.get(key)
    if too_many is not None:
        return too_many
    kept = seen = 0
    units: list[Unit] = []
    opened: dict[int, ScanTaskReader] = {}
    for task, result in scan.runner.run_lookups(sample, every=True):
        opened[id(task)] = task
        kept += len(result.bounds.upper)
        seen += result.num_rows
        if kept > max_share * total / step:
            break
        if len(result.bounds.upper):
            units.append((task, result))
    else:
        if step == 1.0:
            return SelectivityEstimate(RowCount(kept, total), units)
    fallbacks = tuple(note for task in opened.values() for note in task.notes if note.reason.is_fallback)
    factor = possible / seen if seen else 0
    rows = RowCount(round(kept * factor), total)
    estimate = SelectivityEstimate(rows, None, fallbacks)
    is_over = rows.share is not None and rows.share > max_share
    if is_over and not fallbacks:
        TOO_MANY.put(key, estimate)
    return estimate


def _digest(limits: tuple[object, ...], sample: Sequence[tuple[ScanTask, DataFile]]) -> bytes:
    """Return 16 bytes that identify the limits, the lookups in the index files, and the state of the data files.

    A digest is short even for conditions with long lists. The columns that are read do not matter, except whether the
    columns of the condition are among them.
    """
    # files share filters with long lists: each is in the sample while this function runs, so ids are unique
    digests: dict[int, str] = {}

    def digest(shared: object) -> str:
        if id(shared) not in digests:
            digests[id(shared)] = _hash(repr(shared)).hex()
        return digests[id(shared)]

    lookups = []
    for task, file in sample:
        names = {column.name for column in task.columns}
        is_read = (bool(names), [column.name in names for column in task.filter_columns])
        candidates = [
            (item.name, item.column, digest(item.domain), item.row_group_rows, _hash(item.groups))
            for item in task.candidates
        ]
        state = (file.uri, file.length, file.mtime_ns, file.changed_ns, task.length, task.tail_checksum)
        lookups.append((digest(task.filter), task.filter_columns, is_read, task.indexes, candidates, state))
    return _hash(repr((limits, lookups)))


def _hash(value: str | bytes) -> bytes:
    return blake2b(value.encode() if isinstance(value, str) else value, digest_size=16).digest()


#: Of this process: estimates that exceed a maximum.
TOO_MANY: LruCache[bytes, SelectivityEstimate] = LruCache(256)
