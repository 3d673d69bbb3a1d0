"""Progress reports of long work; displays implement :class:`Progress`."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A display of work: one call of ``start``, any number of ``advance``, and one of ``finish``, even after errors."""

    def start(self, total_units: int, label: str) -> None:
        """Begin a piece of work.

        :param total_units: the number of units (data files, stripes, …).
        :param label: a description of the work.
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

    def start(self, total_units: int, label: str) -> None: ...

    def advance(self, units: int = 1) -> None: ...

    def finish(self) -> None: ...
