"""Work on threads that are not Python's, as those are from which engines pull an Arrow stream."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_LIBRARY = ctypes.CDLL(None)
_LIBRARY.pthread_create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_LIBRARY.pthread_join.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
_START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def on_native_thread(work: Callable[[], T]) -> T:
    """Run work on a new native thread, which Python knows during the call only, and return its result.

    Raises:
        IndexError: if the work fails; ctypes prints how.
    """
    results: list[T] = []

    def start(_: object) -> None:
        results.append(work())

    thread, called = ctypes.c_void_p(), _START(start)
    if _LIBRARY.pthread_create(ctypes.byref(thread), None, called, None):
        raise OSError("no thread could be made")
    _LIBRARY.pthread_join(thread, None)
    return results[0]
