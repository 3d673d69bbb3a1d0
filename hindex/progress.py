"""Progress reports of long work; displays implement `Progress`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from hindex.formatting import counted

#: Seconds between two lines of one piece of work.
LOG_INTERVAL = 10.0


class Progress(Protocol):
    """A display of work: one call of ``start``, any number of ``advance``, and one of ``finish``, even after errors."""

    def start(self, total_units: int, label: str, unit: str = "step") -> None:
        """Begin a piece of work.

        Args:
            total_units: the number of units (data files, stripes, …).
            label: a description of the work.
            unit: the name of one unit.
        """
        ...

    def advance(self, units: int = 1) -> None:
        """Count units that are done."""
        ...

    def finish(self) -> None:
        """End the piece of work."""
        ...


class NullProgress:
    """No display."""

    def start(self, total_units: int, label: str, unit: str = "step") -> None: ...

    def advance(self, units: int = 1) -> None: ...

    def finish(self) -> None: ...


class LogProgress:
    """A line when work begins and ends, and every ten seconds between.

    Args:
        write: writes a line.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._label: str | None = None
        self._amount = ""
        self._total = self._done = 0
        self._started = self._logged = 0.0

    def start(self, total_units: int, label: str, unit: str = "step") -> None:
        self.finish()
        self._label, self._total, self._done = label, total_units, 0
        self._amount = counted(total_units, unit)
        self._started = self._logged = time.monotonic()
        self._write(f"{label}: 0 of {self._amount}")

    def advance(self, units: int = 1) -> None:
        self._done += units
        now = time.monotonic()
        if self._done < self._total and now - self._logged >= LOG_INTERVAL:
            self._logged = now
            remaining_seconds = (now - self._started) / self._done * (self._total - self._done)
            self._write(
                f"{self._label}: {self._done:,} of {self._amount}, about {remaining_seconds:.0f} s left"
            )

    def finish(self) -> None:
        if self._label is not None:
            seconds = time.monotonic() - self._started
            self._write(f"{self._label}: {self._done:,} of {self._amount} in {seconds:.1f} s")
            self._label = None
