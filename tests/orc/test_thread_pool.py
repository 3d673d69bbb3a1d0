"""Threads that help each other: results in order, the first error, and nobody waits for a thread that is busy."""

from __future__ import annotations

import threading
import time
import weakref

import pytest

from hindex.orc.io.thread_pool import SERIAL, ThreadPool

#: Seconds after which a test of threads that wait for each other fails.
PATIENCE = 30


def test_results_are_in_order() -> None:
    def square(n: int) -> int:
        time.sleep(0.001 * (n % 3))
        return n * n

    with ThreadPool(3) as pool:
        for count in range(12):
            assert pool.map(square, list(range(count))) == [n * n for n in range(count)]
    assert SERIAL.map(square, [2, 3]) == [4, 9]


def test_several_threads_work_at_once_on_what_is_shared() -> None:
    meeting = threading.Barrier(3)

    def meet(_: int) -> str:
        # each waits for all of them
        meeting.wait(PATIENCE)
        return threading.current_thread().name

    with ThreadPool(2) as pool:
        names = pool.map(meet, [0, 1, 2])
    assert len(set(names)) == 3
    assert threading.current_thread().name in names


@pytest.mark.parametrize("size", [0, 3])
def test_results_ahead_of_their_use(size: int) -> None:
    started: list[int] = []

    def square(n: int) -> int:
        started.append(n)
        if n == 7:
            raise ValueError("seven")
        return n * n

    with ThreadPool(size) as pool:
        results = pool.map_ahead(square, list(range(10)))
        assert started == []
        for n in range(5):
            assert next(results) == n * n
            assert len(started) <= n + max(size, 1)
        assert [next(results), next(results)] == [25, 36]
        with pytest.raises(ValueError, match="seven"):
            next(results)


def test_a_pool_without_threads() -> None:
    with ThreadPool(0) as pool:
        names = pool.map(lambda _: threading.current_thread().name, [0, 1, 2])
    assert names == [threading.current_thread().name] * 3


def test_sharing_within_work_that_keeps_all_threads_busy() -> None:
    both = threading.Barrier(2)

    def work(n: int) -> list[int]:
        both.wait(PATIENCE)
        return pool.map(lambda m: pool.map(lambda k: k + m, [n, n + 1])[0], [0, 1, 2])

    with ThreadPool(2) as pool:
        futures = [pool.submit(work, n) for n in (10, 20)]
        assert [future.result(PATIENCE) for future in futures] == [[10, 11, 12], [20, 21, 22]]


def test_who_has_nothing_to_do_helps_with_work_that_was_submitted() -> None:
    meeting = threading.Barrier(2)

    with ThreadPool(2) as pool:
        work = pool.submit(pool.map, lambda _: meeting.wait(PATIENCE), [0, 1])
        assert sorted(work.result(PATIENCE)) == [0, 1]


def test_the_first_items_error_is_raised() -> None:
    begun: list[int] = []
    late = threading.Event()

    def fail(n: int) -> None:
        begun.append(n)
        if n == 0:
            # the second one has failed by then
            late.wait(PATIENCE)
        else:
            late.set()
        raise ValueError(f"item {n}")

    with ThreadPool(1) as pool, pytest.raises(ValueError, match="item 0"):
        pool.map(fail, list(range(50)))
    assert sorted(begun) == [0, 1]


def test_nothing_goes_on_after_an_error() -> None:
    ended = threading.Event()

    def work(n: int) -> None:
        if n == 0:
            time.sleep(0.05)
            ended.set()
        elif n == 1:
            raise ValueError("item 1")

    with ThreadPool(1) as pool:
        with pytest.raises(ValueError, match="item 1"):
            pool.map(work, list(range(9)))
        assert ended.is_set()


@pytest.mark.parametrize("who", ["caller", "helper"])
def test_an_interrupt_ends_the_work_of_all(who: str) -> None:
    begun: list[int] = []
    both = threading.Barrier(2)
    caller = threading.get_ident()

    def work(n: int) -> None:
        begun.append(n)
        both.wait(PATIENCE)
        if (threading.get_ident() == caller) == (who == "caller"):
            raise KeyboardInterrupt
        time.sleep(0.1)

    with ThreadPool(1) as pool, pytest.raises(KeyboardInterrupt):
        pool.map(work, list(range(50)))
    assert len(begun) == 2


def test_a_map_finishes_alone_when_its_pool_is_closed() -> None:
    begun, closing = threading.Event(), threading.Event()

    def work() -> list[int]:
        begun.set()
        closing.wait(PATIENCE)
        # the threads take nothing new by now
        time.sleep(0.05)
        return pool.map(lambda n: n + 1, [1, 2, 3])

    with ThreadPool(2) as pool:
        future = pool.submit(work)
        begun.wait(PATIENCE)
        closing.set()
    assert future.result(PATIENCE) == [2, 3, 4]


def test_a_system_without_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that gets no thread of its own may still go to an existing one."""
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def limited(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    def work(n: int) -> int:
        time.sleep(0.002 if n % 2 else 0.001)
        return n

    monkeypatch.setattr(threading.Thread, "start", limited)
    for _ in range(50):
        started.clear()
        with ThreadPool(3) as pool:
            pool.submit(time.sleep, 0.003)
            assert pool.map(work, list(range(7))) == list(range(7))


def test_no_memory_is_kept_for_busy_threads() -> None:
    """The work ends before they can help with it."""

    class Large:
        pass

    alive: list[weakref.ref[Large]] = []
    counts: list[int] = []

    def work(_: int) -> None:
        counts.append(sum(large() is not None for large in alive))
        large = Large()
        alive.append(weakref.ref(large))
        pool.map(lambda n: (n, large), [1, 2, 3])

    with ThreadPool(1) as pool:
        pool.map(work, list(range(50)))
    assert max(counts) <= 4
