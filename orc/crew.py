"""Threads that decode: each takes the next piece of work, and who has none left helps another with its own."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")
Found = TypeVar("Found")


class Crew:
    """A few threads; use it as a context.

    :param size: how many there are. What is submitted is done by these, what is shared by its sender, too.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size) if size else None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(
        self, work: Callable[Arguments, Found], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Found]:
        """Have some work done by one of the threads, in its turn."""
        assert self._pool is not None, "nobody is there to do it"
        return self._pool.submit(work, *args, **kwargs)

    def share(self, work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
        """The results of some work on each item, in their order: done here, and by threads that have nothing to do.

        It can be called from within work that was submitted: nobody waits for a thread that is not at it already.
        Items are begun in their order, and of several that fail the first one's error is raised, as if one after the
        other had been worked on.
        """
        if self._pool is None or len(items) < 2:
            return [work(item) for item in items]
        waiting = deque(enumerate(items))
        found: dict[int, Found] = {}
        errors: dict[int, BaseException] = {}

        def run() -> None:
            while True:
                try:
                    at, item = waiting.popleft()
                except IndexError:
                    return
                try:
                    found[at] = work(item)
                except BaseException as error:  # noqa: BLE001 whoever asked raises it
                    errors[at] = error
                    waiting.clear()

        # what a busy thread has not come to yet holds nothing of this afterwards
        tasks = [run]
        helpers = self._helpers(tasks, min(self.size, len(items) - 1))
        try:
            run()
        finally:
            waiting.clear()
            wait([helper for helper in helpers if not helper.cancel()])
            tasks.clear()
        if errors:
            raise errors[min(errors)]
        return [found[at] for at in range(len(items))]

    def _helpers(self, tasks: Sequence[Callable[[], None]], most: int) -> list[Future[None]]:
        """Threads that are asked for help: each can be told not to come as long as it has not begun."""
        assert self._pool is not None
        helpers: list[Future[None]] = []
        try:
            while len(helpers) < most:
                # not the pool's own: where no thread can be started, another one may still come to what it was given
                helpers.append(Future())
                self._pool.submit(_help, helpers[-1], tasks)
        except RuntimeError:
            # the crew is being closed, or the system has no more threads: whoever asked works alone
            pass
        return helpers


def _help(helper: Future[None], tasks: Sequence[Callable[[], None]]) -> None:
    if not helper.set_running_or_notify_cancel():
        return
    try:
        tasks[0]()
    finally:
        helper.set_result(None)


#: A crew of nobody: everything is done by whoever asks.
ALONE = Crew(0)


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
