"""Group the stripes of data files into Spark tasks of even size.

Executors import this file: it knows neither Spark nor SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hindex.errors import DeletedFileError, HindexError
from hindex.plan.modes import Mode
from hindex.scan.open_task import OpenTask
from hindex.scan.scan_task import ScanTask
from hindex.scan.task_runner import is_deleted_file

if TYPE_CHECKING:
    from hindex.scan.planning import ScanPlan

#: Rows that executors hand to Spark at a time.
BATCH_ROWS = 1 << 16
#: Bytes of data files that a Spark task is given, at most where stripes allow, and at least.
MOST_BYTES = 128 << 20
LEAST_BYTES = 4 << 20
#: Spark tasks for each processor: some end sooner than others.
_TASKS_PER_CORE = 3


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """Some stripes of a scan task: from ``first`` up to ``end``, where that is None all that follow.

    The last unit of a file has no end, so that no stripe is passed by in a file that was replaced by a longer one.
    """

    task: ScanTask
    first: int = 0
    end: int | None = None


#: What one Spark task reads.
Group = tuple[ReadUnit, ...]


def group_units(plan: ScanPlan, cores: int) -> list[Group]:
    """The tasks of a plan, cut by stripes and put together so that each group has about as many bytes."""
    stripes = {view.file.path: max(view.num_stripes, 1) for view in plan.snapshot.files}
    total = sum(task.length for task in plan.tasks)
    target = min(max(total // (max(cores, 1) * _TASKS_PER_CORE), LEAST_BYTES), MOST_BYTES)
    groups: list[Group] = []
    current: list[ReadUnit] = []
    held = 0
    for task in plan.tasks:
        count = stripes.get(task.path, 1)
        pieces = min(-(-task.length // target), count)
        bounds = [count * piece // pieces for piece in range(pieces)] if pieces else [0]
        size = task.length // len(bounds)
        for first, end in zip(bounds, [*bounds[1:], None], strict=True):
            if current and held + size > target:
                groups.append(tuple(current))
                current, held = [], 0
            current.append(ReadUnit(task, first, end))
            held += size
    if current:
        groups.append(tuple(current))
    return groups


def read_group(group: Group, limit: int | None = None, mode: Mode = Mode.LENIENT) -> Iterator[pa.RecordBatch]:
    """The wanted rows of a group, at most ``limit``: what an executor runs.

    Columns are named by their position, so that any names, and equal ones, can be asked for. Timestamps are instants
    if the plan has time zones, otherwise wall clocks.

    :raises FallbackError: in strict mode, where an index turns out not to be usable.
    """
    for unit in group:
        if limit is not None and limit <= 0:
            return
        for batch in _read_unit(unit, limit, mode):
            yield batch
            if limit is not None:
                limit -= batch.num_rows


def _read_unit(unit: ReadUnit, limit: int | None, mode: Mode) -> Iterator[pa.RecordBatch]:
    try:
        yield from _read_stripes(unit, limit, mode)
    except HindexError as error:
        if not is_deleted_file(error):
            raise
        # Spark shows the whole traceback: without the cause it is a short one
        raise DeletedFileError(
            f"data file {unit.task.path!r} was deleted after the DataFrame was made: make the DataFrame again, which "
            "lists the table anew"
        ) from None


def _read_stripes(unit: ReadUnit, limit: int | None, mode: Mode) -> Iterator[pa.RecordBatch]:
    with OpenTask(unit.task) as opened:
        for stripe in opened.stripes[unit.first : unit.end]:
            if limit is not None and limit <= 0:
                return
            answer = opened.answer(stripe)
            mode.check(opened.notes)
            if not len(answer.bounds.upper):
                continue
            batch = numbered(opened.read(answer.first(limit))).slice(0, limit)
            for at in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(at, BATCH_ROWS)
            if limit is not None:
                limit -= batch.num_rows


def numbered_schema(schema: pa.Schema) -> pa.Schema:
    """Name columns by their position."""
    return pa.schema([field.with_name(f"c{at}") for at, field in enumerate(schema)])


def numbered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Name a batch's columns by their position."""
    return pa.RecordBatch.from_arrays(batch.columns, schema=numbered_schema(batch.schema))
