"""How many rows of a table match a condition, by its indexes, and whether reading it through them pays."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from hashlib import blake2b

from hindex.explanations.explanation import RowCount
from hindex.lru_cache import LruCache
from hindex.plan.reasons import Note, Reason, group_notes
from hindex.scan.planning import ScanPlan
from hindex.scan.scan_task_reader import ScanTaskReader
from hindex.scan.task_runner import Unit
from hindex.spark.scan import RowScan
from hindex.sql.predicate import Predicate
from hindex.store.manifest import Manifest
from hindex.value_class import value_class

#: Maximum share of a table's rows for reading it through its indexes. On twelve million rows of lineitem, with three
#: columns and scattered rows, the processor time was 0.55 of Spark's at 0.5 % of the rows, 0.8 of it at 1 %, and equal
#: at 2 %; the time by the clock was 0.5, 0.65 and 0.75 of it. Passing one row to Spark takes as long as Spark takes to
#: decode fifty.
MAX_SHARE = 0.01
#: The same for lookup joins, as a multiple: Spark has to join all rows that it reads. The processor time was 0.55 of
#: Spark's at 0.5 % of the rows, 0.9 of it at 1 % and 2 %, and equal at 3 %.
LOOKUP_FACTOR = 2
#: Where indexes know row groups only, the driver compares the rows of these with the condition, to count the matching
#: ones. Maximum of the values that it decodes for that, as a share of those that Spark would (rows times columns).
MAX_CANDIDATE_SHARE = 0.05
#: Maximum number of the rows that it compares.
MAX_CANDIDATES = 10_000_000
#: Maximum number of values (rows times columns) of the matching rows, which it passes to Spark.
MAX_CANDIDATE_VALUES = 1_000_000
#: Minimum number of values (rows times needed columns) for using indexes at all: planning takes about as long as Spark
#: takes to decode so many.
MIN_VALUES = 5_000_000
#: Values that Spark decodes while it compares a string with a part of it. On two million rows of a log, ``contains``
#: took 0.4 µs a row; patterns took five times as long.
PART_VALUES = 16
#: Problems of index files that end without a change of the manifest.
_FAILURES = frozenset({Reason.INDEX_MISSING, Reason.UNREADABLE, Reason.CORRUPT})
#: Maximum number of data files whose indexes are sampled.
_SAMPLED_FILES = 16


@value_class
class SelectivityEstimate:
    """An estimate of the number of matching rows.

    Args:
        rows: rows that may match.
        certain: the number of rows that match, by the indexes alone.
        units: all stripes with matching rows; None if only a sample of the indexes was read.
        fallbacks: indexes that could not be read, which makes the estimate too high.
    """

    rows: RowCount
    certain: int
    units: list[Unit] | None
    fallbacks: tuple[Note, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Return True if the rows are counted."""
        return self.units is not None and self.certain == self.rows.kept


def estimate_selectivity(
    scan: RowScan, plan: ScanPlan, max_share: float, max_candidates: float = 0
) -> SelectivityEstimate:
    """Estimate the number of matching rows from the indexes of all data files, or of a sample of many.

    Reading ends as soon as more rows match than ``max_share`` of all, or more may match than both that and
    ``max_candidates``.
    """
    views = plan.snapshot.views
    total = plan.snapshot.num_rows
    possible = int(views.num_rows[plan.positions()].sum())
    step = max(len(plan.tasks) / _SAMPLED_FILES, 1.0)
    sample = [plan.tasks[int(at * step)] for at in range(min(len(plan.tasks), _SAMPLED_FILES))]
    most = max_share * total
    kept = certain = seen = 0
    units: list[Unit] = []
    opened: dict[int, ScanTaskReader] = {}
    for task, result in scan.runner.run_lookups(sample, every=True):
        opened[id(task)] = task
        kept += len(result.bounds.upper)
        certain += len(result.bounds.lower)
        seen += result.num_rows
        if certain > most / step or kept > max(most, max_candidates) / step:
            break
        if len(result.bounds.upper):
            units.append((task, result))
    else:
        if step == 1.0:
            return SelectivityEstimate(RowCount(kept, total), certain, units, _fallbacks(opened.values()))
    factor = possible / seen if seen else 0
    rows = RowCount(round(kept * factor), total)
    return SelectivityEstimate(rows, round(certain * factor), None, _fallbacks(opened.values()))


def _fallbacks(opened: Iterable[ScanTaskReader]) -> tuple[Note, ...]:
    return tuple(note for task in opened for note in task.notes if note.reason.is_fallback)


def may_be_kept(estimate: SelectivityEstimate, notes: Iterable[Note]) -> bool:
    """Return True if the same condition on the same files would give the same estimate: no index file failed."""
    return not estimate.fallbacks and not has_failures(notes)


def has_failures(notes: Iterable[Note]) -> bool:
    """Return True if an index file failed, which may be temporary."""
    return any(note.reason in _FAILURES for note in notes)


def share_detail(limit: float, estimate: SelectivityEstimate) -> str:
    """Return in words that more rows may match than are read through indexes."""
    detail = f"more than {limit:.1%} of the rows may match"
    return "; ".join([detail, *map(str, group_notes(estimate.fallbacks))])


@value_class
class Declined:
    """Why Spark reads a table by itself, how many of its rows may match, and the indexes that could not be used."""

    reason: Reason
    detail: str = ""
    rows: RowCount | None = None
    notes: tuple[Note, ...] = ()


def reading_key(manifest: Manifest, files: object, where: Predicate | None, *limits: object) -> bytes:
    """Return 16 bytes that identify a condition on the files of a table, and the state of its indexes.

    A digest is short even for conditions with long lists.
    """
    state = manifest.table_uri, manifest.number, manifest.created_ms, files, limits
    digest = blake2b(repr(state).encode(), digest_size=16)
    # repr() abbreviates arrays
    digest.update(pickle.dumps(where))
    return digest.digest()


#: Of this process: readings that did not pay. A stale entry affects speed only: Spark reads the table. Nothing is kept
#: where an index could not be read, which may be temporary.
DECLINED: LruCache[bytes, Declined] = LruCache(256)
