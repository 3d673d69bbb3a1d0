"""Running scan tasks in this process, on a few threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from hindex.scan.execute import OpenTask, StripeAnswer
from hindex.scan.task import ScanTask

T = TypeVar("T")


def run_stripes(
    tasks: Sequence[ScanTask], work: Callable[[OpenTask, StripeAnswer], T], *, every: bool = False
) -> Iterator[T]:
    """Do some work on each stripe that may have wanted rows (on all, if ``every``), on a few threads.

    Results come in the order of tasks and stripes; only so many are worked on ahead as there are threads.
    """
    if not tasks:
        return
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def step(task: OpenTask, stripe: int) -> tuple[T] | None:
        answer = task.answer(stripe)
        return (work(task, answer),) if every or len(answer.bounds.upper) else None

    pool = ThreadPoolExecutor(threads)
    try:
        units = ((task, stripe) for task in _opened(pool, tasks, threads) for stripe in task.stripes)
        pending: deque[Future[tuple[T] | None]] = deque()
        for task, stripe in units:
            pending.append(pool.submit(step, task, stripe))
            if len(pending) > 2 * threads:
                found = pending.popleft().result()
                if found is not None:
                    yield found[0]
        while pending:
            found = pending.popleft().result()
            if found is not None:
                yield found[0]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _opened(pool: ThreadPoolExecutor, tasks: Sequence[ScanTask], ahead: int) -> Iterator[OpenTask]:
    """The tasks opened, in order, a few ahead of their use."""
    waiting = iter(tasks)
    pending = deque(pool.submit(OpenTask, task) for task in islice(waiting, ahead + 1))
    while pending:
        task = pending.popleft().result()
        pending.extend(pool.submit(OpenTask, following) for following in islice(waiting, 1))
        yield task
