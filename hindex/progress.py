"""Progress reports of long work; displays implement :class:`Progress`."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of one piece of work after the other: ``start``, any number of ``advance``, ``finish``.

    ``finish`` comes once for each ``start``, also where the work failed.
    """

    def start(self, total_units: int, label: str) -> None:
        """Work begins.

        :param total_units: how many units there are (data files, stripes, …).
        :param label: what is being done, and to what, for people.
        """
        ...

    def advance(self, units: int = 1) -> None:
        """So many units more are done."""
        ...

    def finish(self) -> None:
        """No more units come."""
        ...


class NullProgress:
    """Shows nothing."""

    def start(self, total_units: int, label: str) -> None: ...

    def advance(self, units: int = 1) -> None: ...

    def finish(self) -> None: ...
