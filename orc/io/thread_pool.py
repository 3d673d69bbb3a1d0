"""A pool of threads, whose caller may work with them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """A few threads. Use it as a context manager.

    Args:
        size: the number of threads besides the caller's.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._executor = ThreadPoolExecutor(size) if size > 0 else None

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._executor is not None:
            # an interrupt does not wait for running requests
            is_interrupt = error is not None and not issubclass(error, Exception)
            self._executor.shutdown(wait=not is_interrupt, cancel_futures=True)

    def submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Call a function in one of the threads."""
        assert self._executor is not None, "the pool has no threads"
        return self._executor.submit(work, *args, **kwargs)

    def map_ahead(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of a function, in the items' order. The calling thread only waits.

        At most ``size`` items are begun before their results are used. A pool without threads calls the function when
        a result is due.
        """
        if self._executor is None:
            yield from map(work, items)
            return
        pending: deque[Future[Result]] = deque()
        for item in items:
            if len(pending) == self.size:
                yield pending.popleft().result()
            pending.append(self._executor.submit(work, item))
        while pending:
            yield pending.popleft().result()

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Call a function for each item, in this and idle threads; return the results in the items' order.

        Submitted work may call this: it never waits for a thread that has not started. Items start in order. If
        several fail, the error of the first item is raised.
        """
        if self._executor is None or len(items) < 2:
            return [work(item) for item in items]
        waiting = deque(enumerate(items))
        results: dict[int, Result] = {}
        errors: dict[int, BaseException] = {}

        def run() -> None:
            while True:
                try:
                    index, item = waiting.popleft()
                except IndexError:
                    return
                try:
                    results[index] = work(item)
                except BaseException as error:  # noqa: BLE001 the caller raises it
                    errors[index] = error
                    waiting.clear()

        # cleared at the end, so that a thread with a cancelled helper keeps nothing else in memory
        tasks = [run]
        helpers: list[Future[None]] = []
        try:
            for _ in range(min(self.size, len(items) - 1)):
                # not the executor's future: if no thread can be started, submit() raises and the call runs later
                helpers.append(Future())
                self._executor.submit(_help, helpers[-1], tasks)
        except RuntimeError:
            # the pool is being closed, or the system has no more threads
            pass
        try:
            run()
        finally:
            waiting.clear()
            for helper in helpers:
                if not helper.cancel():
                    helper.result()
            tasks.clear()
        if errors:
            raise errors[min(errors)]
        return [results[index] for index in range(len(items))]


def _help(helper: Future[None], tasks: Sequence[Callable[[], None]]) -> None:
    if helper.set_running_or_notify_cancel():
        try:
            tasks[0]()
        finally:
            helper.set_result(None)


#: A pool without threads: the caller does all work.
SERIAL = ThreadPool(0)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
