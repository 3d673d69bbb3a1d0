"""The bounds of caches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from hindex.lru_cache import LruCache, cached_property

ROOT = Path(__file__).parents[1]


def test_the_least_recently_used_value_goes_first() -> None:
    cache: LruCache[int, str] = LruCache(100)
    for number in range(10):
        cache.put(number, str(number), 30)
        assert cache.get(0) == "0"
    assert [cache.get(number) for number in range(10)] == ["0", *[None] * 7, "8", "9"]
    cache.put(0, "more", 90)
    assert (cache.get(0), len(cache), cache.weight) == ("more", 1, 90)


def test_a_value_beyond_the_limit_is_not_kept() -> None:
    cache: LruCache[int, str] = LruCache(100)
    cache.put(0, "zero", 90)
    cache.put(1, "one", 101)
    assert (cache.get(0), cache.get(1), cache.weight) == ("zero", None, 90)
    # nor is the value that it replaces, which is outdated
    cache.put(0, "greater", 101)
    assert (cache.get(0), len(cache), cache.weight) == (None, 0, 0)


def test_entries_are_bounded_too() -> None:
    cache: LruCache[int, str] = LruCache(100, 2)
    for number in range(3):
        cache.put(number, str(number))
    assert [cache.get(number) for number in range(3)] == [None, "1", "2"]
    cache.resize(1)
    assert [cache.get(number) for number in range(3)] == [None, None, "2"]
    cache.clear()
    assert (len(cache), cache.weight) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork processes")
@pytest.mark.parametrize("cache", ["LruCache(10)", "Cache(10)"])
def test_forked_process_uses_a_cache_that_another_thread_was_changing(cache: str) -> None:
    code = f"""
import os, signal, sys, threading
from hindex.index.page_cache import Cache
from hindex.lru_cache import LruCache, cached_property
class SlowKey:
    is_reached, may_go_on = threading.Event(), threading.Event()
    def __hash__(self):
        self.is_reached.set()
        self.may_go_on.wait(60)
        return 1
cache, untouched = {cache}, {cache}
cache.put("a", 1)
untouched.put("a", 1)
thread = threading.Thread(target=cache.get, args=(SlowKey(),))
thread.start()
SlowKey.is_reached.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    seen = cache.get("a"), cache.weight, untouched.get("a"), untouched.weight
    cache.put("b", 2)
    os._exit(seen != (None, 0, 1, 1) or cache.get("b") != 2)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
SlowKey.may_go_on.set()
thread.join()
assert cache.get("a") == 1
sys.exit(status and f"the child ended with {{status}}")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, timeout=120, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr


def test_a_forked_child_computes_a_property_that_another_thread_computes() -> None:
    """`functools.cached_property` had a lock until Python 3.12, which the child finds held."""
    started, end = threading.Event(), threading.Event()

    class Slow:
        @cached_property
        def value(self) -> int:
            started.set()
            end.wait(30)
            return 7

    thread = threading.Thread(target=lambda: Slow().value)
    thread.start()
    started.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        end.set()
        os._exit(0 if Slow().value == 7 else 1)
    end.set()
    thread.join()
    until = time.monotonic() + 60
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < until:
        time.sleep(0.01)
    if not done[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert done[0] == child
    assert done[1] == 0
