"""What the process keeps of delete deltas, and of what they delete, for stripes, data files and scans to come."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class DeleteKeyCache(Generic[K, V]):
    """Values by their keys, those used longest ago dropped first. Threads may share it.

    :ivar limit: bytes that are kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, nbytes: int) -> None:
        """Keep a value that takes so many bytes."""
        with self._lock:
            self._bytes += nbytes - self._held.pop(key, (value, 0))[1]
            self._held[key] = value, nbytes
            while self._bytes > self.limit:
                self._bytes -= self._held.popitem(last=False)[1][1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0

    @property
    def nbytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)
