"""A cache with bounds that drops the least recently used values first, and properties that are computed once."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

__all__ = ["LruCache", "cached_property"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key. Threads may share it.

    Parameters
    ----------
    limit
        The greatest sum of the values' weights, in the unit that callers weigh in, such as bytes. A value that is
        heavier is not kept.
    max_entries
        The greatest number of values; None for no bound.
    """

    def __init__(self, limit: int, max_entries: int | None = None) -> None:
        self._limit = limit
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()
        _caches.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """The sum of the weights."""
        return self._weight

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value in place of the key's last one."""
        with self._lock:
            self._remove(key)
            if weight > self._limit:
                return
            self._entries[key] = value, weight
            self._weight += weight
            self._evict()

    def resize(self, limit: int) -> None:
        """Change the limit, and drop values beyond it."""
        with self._lock:
            self._limit = limit
            self._evict()

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._entries.clear()
            self._weight = 0

    def _restore(self) -> None:
        """Free the lock in a forked process, where another thread of the parent may have had it."""
        is_half_done = self._lock.locked()
        # also where it is not: a thread that waited for a lock has it before `locked` says so
        self._lock = threading.Lock()
        if is_half_done:
            self.clear()

    def _evict(self) -> None:
        while self._weight > self._limit or (
            self._max_entries is not None and len(self._entries) > self._max_entries
        ):
            self._remove(next(iter(self._entries)))

    def _remove(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._weight -= entry[1]


_caches: weakref.WeakSet[LruCache[Any, Any]] = weakref.WeakSet()


def _restore_all() -> None:
    for cache in list(_caches):
        cache._restore()


if hasattr(os, "register_at_fork"):
    # a forked process has none of the threads that would release a lock
    os.register_at_fork(after_in_child=_restore_all)


if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 as in functools
        """A property that is computed once an object, as `functools.cached_property` of Python 3.12.

        Before, that had a lock for all objects of a class: a child that is forked while another thread computes one
        waits for ever. Two threads may compute a value at once; one of them is kept.
        """

        def __init__(self, compute: Callable[[object], object]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._compute(instance))
