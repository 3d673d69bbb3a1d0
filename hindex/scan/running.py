"""Running scan tasks in this process: indexes are asked one after the other, rows are read on a few threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TypeVar

from hindex.plan.modes import Mode
from hindex.scan.answers import StripeAnswer
from hindex.scan.execute import OpenTask
from hindex.scan.meter import NO_METER, Meter, Step
from hindex.scan.planning import ScanPlan
from hindex.scan.task import ScanTask
from hindex.table.snapshot import Snapshot

T = TypeVar("T")

#: One stripe of an open task, with what the indexes say of it.
Unit = tuple[OpenTask, StripeAnswer]

#: Data files of a remote store that are opened at once.
_REMOTE_OPENS = 8


@dataclass(frozen=True, slots=True)
class Runner:
    """How tasks are run: what a fallback is taken for, and what is told how long things take."""

    mode: Mode = Mode.LENIENT
    meter: Meter = NO_METER

    def plan(self, snapshot: Callable[[], Snapshot], make: Callable[[Snapshot], ScanPlan]) -> ScanPlan:
        """A plan of a table as it is now.

        :raises FallbackError: in strict mode, where it tells of an index that cannot be used.
        """
        with self.meter.step(Step.LISTING):
            found = snapshot()
        with self.meter.step(Step.PLAN):
            plan = make(found)
        self.mode.check(plan.notes)
        return plan

    def answered(self, tasks: Sequence[ScanTask], *, every: bool = False) -> Iterator[Unit]:
        """Each stripe that may have wanted rows (each at all, if ``every``), in order; no rows are read.

        In this thread alone: asking an index is a little Python work, which threads would only hinder.

        :raises FallbackError: in strict mode, where an index turns out not to be usable.
        """
        opened = self._opened(tasks)
        while (task := next(opened, None)) is not None:
            for stripe in task.stripes:
                answer = self.answer(task, stripe)
                if every or len(answer.bounds.upper):
                    yield task, answer

    def open(self, task: ScanTask) -> OpenTask:
        """A task opened here.

        :raises FallbackError: as :meth:`answered`.
        """
        with self.meter.step(Step.OPEN):
            return self._told(OpenTask(task))

    def answer(self, task: OpenTask, stripe: int) -> StripeAnswer:
        """What indexes say of one stripe.

        :raises FallbackError: as :meth:`answered`.
        """
        with self.meter.step(Step.INDEXES):
            found = task.answer(stripe)
        self.mode.check(task.notes)
        return found

    def run(self, plan: ScanPlan, work: Callable[[OpenTask, StripeAnswer], T]) -> Iterator[T]:
        """The results of some work on each stripe that may have wanted rows, in order.

        :raises FallbackError: as :meth:`answered`, and where the work finds an index not to be usable.
        """

        def checked(task: OpenTask, answer: StripeAnswer) -> T:
            found = work(task, answer)
            self.mode.check(task.notes)
            return found

        return run_units(self.answered(plan.tasks), checked)

    def _opened(self, tasks: Sequence[ScanTask]) -> Iterator[OpenTask]:
        opened = _opened(tasks)
        while True:
            with self.meter.step(Step.OPEN):
                task = next(opened, None)
            if task is None:
                return
            yield self._told(task)

    def _told(self, task: OpenTask) -> OpenTask:
        task.meter = self.meter
        self.meter.add_reader(task.reader.counts)
        self.meter.add_notes(task.notes)
        self.mode.check(task.notes)
        return task


def answered(tasks: Sequence[ScanTask], *, every: bool = False) -> Iterator[Unit]:
    """What :meth:`Runner.answered` gives, in no mode and not measured."""
    return Runner().answered(tasks, every=every)


def run_units(
    units: Iterable[Unit], work: Callable[[OpenTask, StripeAnswer], T], *, cautious: bool = False
) -> Iterator[T]:
    """The results of some work on each unit, in order, on as many threads as there are processors.

    A single unit is worked on here. Only a few are worked on ahead of their use.

    :param cautious: the first results may be enough: work on one unit first, then on twice as many each time.
    """
    waiting = iter(units)
    head = list(islice(waiting, 1 if cautious else 2))
    if len(head) < 2:
        for unit in head:
            yield work(*unit)
        if not head or not cautious:
            return
        head = []
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ahead = 1 if cautious else 2 * threads
    pool = ThreadPoolExecutor(threads)
    try:
        pending: deque[Future[T]] = deque()
        for unit in chain(head, waiting):
            pending.append(pool.submit(work, *unit))
            if len(pending) > ahead:
                yield pending.popleft().result()
                ahead = min(2 * ahead, 2 * threads)
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
