"""Running scan tasks in this process: indexes are asked one after the other, rows are read on a few threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from hindex.scan.execute import OpenTask, StripeAnswer
from hindex.scan.task import ScanTask

T = TypeVar("T")

#: One stripe of an open task, with what the indexes say of it.
Unit = tuple[OpenTask, StripeAnswer]

#: Data files of a remote store that are opened at once.
_REMOTE_OPENS = 8


def answered(tasks: Sequence[ScanTask], *, every: bool = False) -> Iterator[Unit]:
    """Each stripe that may have wanted rows (each at all, if ``every``), in order; no rows are read.

    In this thread alone: asking an index is a little Python work, which threads would only hinder.
    """
    for task in _opened(tasks):
        for stripe in task.stripes:
            answer = task.answer(stripe)
            if every or len(answer.bounds.upper):
                yield task, answer


def run_units(units: Iterable[Unit], work: Callable[[OpenTask, StripeAnswer], T]) -> Iterator[T]:
    """The results of some work on each unit, in order, on as many threads as there are processors.

    A single unit is worked on here. Only a few are worked on ahead of their use.
    """
    waiting = iter(units)
    head = list(islice(waiting, 2))
    if len(head) < 2:
        for unit in head:
            yield work(*unit)
        return
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    pool = ThreadPoolExecutor(threads)
    try:
        pending: deque[Future[T]] = deque()
        for unit in chain(head, waiting):
            pending.append(pool.submit(work, *unit))
            if len(pending) > 2 * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _opened(tasks: Sequence[ScanTask]) -> Iterator[OpenTask]:
    """The tasks opened, in order; those of a remote store a few ahead of their use."""
    if len(tasks) < 2 or "://" not in tasks[0].uri:
        yield from map(OpenTask, tasks)
        return
    waiting = iter(tasks)
    with ThreadPoolExecutor(_REMOTE_OPENS) as pool:
        pending = deque(pool.submit(OpenTask, task) for task in islice(waiting, _REMOTE_OPENS))
        while pending:
            task = pending.popleft().result()
            pending.extend(pool.submit(OpenTask, following) for following in islice(waiting, 1))
            yield task
